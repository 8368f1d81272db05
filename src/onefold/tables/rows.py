"""Tables: named columns of rows that are read block by block, from memory or from disk.

A `Table` has one interface, wherever its rows are. `TableRows` are rows in memory, a table with a
single block; a `TableSource` reads them from a file, a `TableSubset` some of them. A fit goes through
the blocks of a table twice (`tables/training.py`).
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from sklearn.utils.validation import check_array

from onefold.linalg import is_foreign, to_numpy
from onefold.tables.columns import as_numbers, without_words
from onefold.tables.errors import Remedy, TableError, did_you_mean, listing
from onefold.tables.reading import Reading

if TYPE_CHECKING:
    from onefold.tables.text import TextTypes

# Rows of a block while a table on disk is gone through, and values of a block of many columns: 32 MB.
BLOCK = 65_536
_BLOCK_VALUES = 1 << 22
_DEFAULT_READING = Reading()
_MIXED = "holds values of mixed types, or of a type that is neither a number nor text; convert it"
LARGE = (
    "holds whole numbers of more than 64 bits; scale them down, or convert them to text if they are "
    "labels"
)


class Table(ABC):
    """Named columns of rows, read in blocks; abstract.

    Rows can be gone through any number of times.
    """

    in_memory: ClassVar[bool] = False

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The column names, in their order."""

    @property
    @abstractmethod
    def reading(self) -> Reading:
        """How text is parsed."""

    @property
    @abstractmethod
    def remarks(self) -> tuple[str, ...]:
        """What was assumed about the table."""

    @property
    def elsewhere(self) -> tuple[Remedy, ...]:
        """Where columns that are not found here may be."""
        return ()

    @abstractmethod
    def read(self) -> TableRows:
        """All rows, with column types inferred over the whole table."""

    @abstractmethod
    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        """Blocks of at most `rows` rows in their order, holding only `columns` if given.

        Delimited text comes as text, whatever it looks like: the types of a first block say
        nothing about later ones, and whoever asks for blocks knows what the columns should hold.
        """

    def typed_batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        """Blocks with the types that `read` would give; rows in memory are a single block."""
        return self.batches(rows, columns)

    @abstractmethod
    def read_columns(self, columns: Sequence[str], rows: int) -> TableRows:
        """All rows with at least these columns, read in blocks of `rows` rows."""

    @abstractmethod
    def require(self, name: str, option: str = "") -> None:
        """Refuse a column that the table does not have; `option` is where it was named."""

    @abstractmethod
    def with_reading(self, reading: Reading) -> Table:
        """The same table, with its text parsed so where its own reading says nothing."""

    @abstractmethod
    def where(self, mask: np.ndarray) -> Table:
        """The rows for which a mask over the whole table is true."""

    @abstractmethod
    def bytes_in_memory(self) -> int:
        """About how much memory `read`, and the matrix made of what it reads, take in addition."""


@dataclass(frozen=True)
class TableRows(Table):
    """Consecutive rows of a table, in memory: a table with one block.

    Parameters
    ----------
    columns : pyarrow.Table
        The columns as in their container; text of a file is unchanged.
    start : int
        Number of table rows before these, for row numbers in error messages.
    reading : Reading
        How text columns are parsed.
    written : bool
        Whether text comes from a file, in which texts such as NA mean a missing value.
    types : TextTypes or None
        What text columns hold, if known for the whole table.
    remarks : tuple of str
        What was assumed about the file.
    """

    columns: pa.Table
    start: int = 0
    reading: Reading = _DEFAULT_READING
    written: bool = False
    types: TextTypes | None = None
    remarks: tuple[str, ...] = ()

    in_memory: ClassVar[bool] = True

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns.column_names)

    def read(self) -> TableRows:
        return self

    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        return (self if columns is None else self.select(columns)).slices(rows)

    def typed_batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        yield self if columns is None else self.select(columns)

    def read_columns(self, columns: Sequence[str], rows: int) -> TableRows:
        return self

    def require(self, name: str, option: str = "") -> None:
        if name not in self.names:
            self.column(name, role=f"{option} column".strip())

    def with_reading(self, reading: Reading) -> TableRows:
        return replace(self, reading=reading) if self.reading == _DEFAULT_READING else self

    def where(self, mask: np.ndarray) -> TableRows:
        return replace(self.take(np.flatnonzero(mask)), start=self.start)

    def bytes_in_memory(self) -> int:
        return 0

    def column(self, name: str, role: str = "column") -> pa.ChunkedArray:
        """One column by name; `role` words the error ("target column", "weight column", …)."""
        if name not in self.columns.column_names:
            raise TableError(f"the table has no {role} '{name}'; {did_you_mean(name, self.names)}")
        text = self.text(name)
        return text if self.types is None else self.types.typed(text, name)

    def numbers(self, name: str, role: str = "column") -> np.ndarray:
        """The values of a column as float64, NaN where missing."""
        return as_numbers(self.column(name, role), name, self.start, self.reading.format_of(name))

    def text(self, name: str) -> pa.ChunkedArray:
        """A column as it is held, null where its text means a missing value."""
        words = self.reading.missing_in(name) if self.written else self.reading.na_values
        return without_words(self.columns.column(name), words, self.reading.format_of(name))

    def weights(self, name: str) -> np.ndarray:
        """The column of weights; raises where one is negative or missing."""
        values = self.numbers(name, role="weight column")
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if len(bad):
            raise TableError(
                f"the weight column '{name}' has {values[bad[0]]:g} in data row {bad[0] + 1}; "
                "weights must be finite and not negative"
            )
        return values

    def select(self, names: Sequence[str]) -> TableRows:
        """The same rows with these columns alone."""
        return replace(self, columns=self.columns.select(list(names)))

    def slices(self, rows: int) -> Iterator[TableRows]:
        """The same rows in blocks of at most `rows`."""
        for begin in range(0, len(self), rows):
            yield replace(self, columns=self.columns.slice(begin, rows), start=self.start + begin)

    def take(self, indices: Sequence[int] | Any) -> TableRows:
        """The rows with these positions, in this order."""
        # Arrow cannot take rows of string and binary views, such as polars has.
        type_of = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
        schema = [
            column.with_type(type_of.get(column.type, column.type)) for column in self.columns.schema
        ]
        return replace(self, columns=self.columns.cast(pa.schema(schema)).take(indices), start=0)


class TableSource(Table):
    """A table of one format on disk; abstract.

    Opening reads only the header.

    Attributes
    ----------
    path : Path
    names : tuple of str
        The column names, in the order of the file.
    reading : Reading
        How to parse text formats.
    options : tuple of str
        The fields of `reading` that this format uses.
    remarks : tuple of str
        What was assumed about the file.
    elsewhere : tuple of Remedy
        Where columns that are not found here may be.
    """

    path: Path
    names: tuple[str, ...] = ()
    reading: Reading = Reading()
    options: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    elsewhere: tuple[Remedy, ...] = ()

    def __init__(self, path: Path, reading: Reading | None = None) -> None:
        self.path = path
        self.reading = reading or Reading()

    def read_columns(self, columns: Sequence[str], rows: int) -> TableRows:
        for name in columns:
            self.require(name)
        blocks = list(self.typed_batches(rows, columns))
        if not blocks:
            raise TableError(f"{self.path.name} has no rows; add rows")
        return concatenated(blocks)

    def require(self, name: str, option: str = "") -> None:
        if name not in self.names:
            colon = ": " if option else ""
            hint = did_you_mean(name, self.names)
            cause = f"{colon}{self.path.name} has no column '{name}'; {hint}"
            raise TableError(cause, self.elsewhere, [option] if option else [])

    def with_reading(self, reading: Reading) -> TableSource:
        merged = self.reading.merged(reading)
        return self if not self.options or merged == self.reading else type(self)(self.path, merged)

    def where(self, mask: np.ndarray) -> Table:
        return TableSubset(self, mask)

    def bytes_in_memory(self) -> int:
        # Text is about as long as the numbers in it.
        packed = 5 if self.path.suffix.lower() == ".gz" else 1
        return 4 * packed * self.path.stat().st_size


class TableSubset(Table):
    """Some of the rows of a table on disk; blocks keep the row numbers of the whole table."""

    def __init__(self, source: TableSource, mask: np.ndarray) -> None:
        self._source = source
        self._mask = mask

    @property
    def names(self) -> tuple[str, ...]:
        return self._source.names

    @property
    def reading(self) -> Reading:
        return self._source.reading

    @property
    def remarks(self) -> tuple[str, ...]:
        return self._source.remarks

    @property
    def elsewhere(self) -> tuple[Remedy, ...]:
        return self._source.elsewhere

    def read(self) -> TableRows:
        return self._source.read().where(self._mask)

    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        return self._selected(self._source.batches(rows, columns))

    def typed_batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        return self._selected(self._source.typed_batches(rows, columns))

    def read_columns(self, columns: Sequence[str], rows: int) -> TableRows:
        return self._source.read_columns(columns, rows).where(self._mask)

    def require(self, name: str, option: str = "") -> None:
        self._source.require(name, option)

    def with_reading(self, reading: Reading) -> TableSubset:
        return TableSubset(self._source.with_reading(reading), self._mask)

    def where(self, mask: np.ndarray) -> TableSubset:
        selected = self._mask.copy()
        selected[self._mask] = mask
        return TableSubset(self._source, selected)

    def bytes_in_memory(self) -> int:
        return self._source.bytes_in_memory()

    def _selected(self, blocks: Iterable[TableRows]) -> Iterator[TableRows]:
        """The rows of the mask, of the blocks that have any."""
        for rows in blocks:
            mask = self._mask[rows.start : rows.start + len(rows)]
            if mask.any():
                yield rows.where(mask)


def block_rows(columns: int, most: int = BLOCK) -> int:
    """Rows of a block of so many columns."""
    return max(1, min(most, _BLOCK_VALUES // max(1, columns)))


def concatenated(blocks: Sequence[TableRows]) -> TableRows:
    """The rows of several blocks in one."""
    if len(blocks) == 1:
        return blocks[0]
    columns = pa.concat_tables([rows.columns for rows in blocks], promote_options="permissive")
    return replace(blocks[0], columns=columns)


def check_names(names: Sequence[str], table: str) -> None:
    """Refuse names that don't tell the columns of a table apart."""
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise TableError(
            f"{table} has more than one column named {listing(duplicates)}; give every column its own "
            "name"
        )


def index_columns(schema: pa.Schema) -> list[str]:
    """The columns in which pandas wrote the index of a frame, which is no column of it."""
    try:
        index = schema.pandas_metadata["index_columns"]
        return [name for name in index if isinstance(name, str) and name in schema.names]
    except (KeyError, TypeError, ValueError):
        return []


def index_remarks(names: Sequence[str]) -> tuple[str, ...]:
    """What to say about such columns."""
    return (f"dropped the index of a pandas frame: {listing(names)}",) if names else ()


# What programs hold in memory: pandas, polars, Arrow, plain arrays


def is_frame(table: Any) -> bool:
    """Whether something has named columns; one column by itself, a Series, has none."""
    if isinstance(table, TableRows):
        return True
    has_columns = any(hasattr(table, name) for name in ("__arrow_c_stream__", "__dataframe__"))
    return has_columns and type(table).__name__ not in ("Series", "ChunkedArray")


def rows_of_frame(frame: Any) -> TableRows:
    """Rows of a pandas, polars or Arrow table (anything with the Arrow stream interface)."""
    if isinstance(frame, TableRows):
        return frame
    if not is_frame(frame):
        raise TableError(
            f"a table must be a path or a pandas, polars or pyarrow table; got {type(frame).__name__}"
        )
    if type(frame).__module__.partition(".")[0] == "pandas":
        # Without its index, which names rows and is no column; column names become text.
        levels = getattr(frame.columns, "nlevels", 1) > 1
        titles = [" ".join(map(str, name)) if levels else str(name) for name in frame.columns]
        check_names(titles, "the table")
        return _rows(titles, (_storable(frame.iloc[:, j]) for j in range(len(titles))))
    try:
        table = pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        for name in getattr(frame, "columns", []):
            with suppress(Exception):
                pa.table(frame[[name]])
                continue
            raise TableError(f"column '{name}' {_MIXED}") from error
        raise TableError(f"a column of the table {_MIXED}") from error
    check_names(table.column_names, "the table")
    index = index_columns(table.schema)
    return TableRows(table.drop_columns(index), remarks=index_remarks(index))


def rows_of_array(X: Any, names: Sequence[str] | None = None) -> TableRows:
    """Rows of an array; the columns are `names`, or ``x0, x1, …``."""
    X = as_array(X)
    titles = [f"x{j}" for j in range(X.shape[1])] if names is None else list(names)
    return _rows(titles, (_native(X[:, j]) for j in range(len(titles))))


def as_array(X: Any) -> Any:
    """Rows without names as an array (n, d) of anything, or as a CSR matrix."""
    if isinstance(X, str | os.PathLike) or type(X) is dict or hasattr(X, "collect"):
        raise TableError(
            f"X must be a pandas, polars or pyarrow table or an array, not a {type(X).__name__}; read, "
            "collect or convert it first"
        )
    X = to_numpy(X) if is_foreign(X) else X
    return check_array(X, dtype=None, ensure_all_finite=False)


def _rows(titles: Sequence[str], columns: Iterator[Any]) -> TableRows:
    arrays = {}
    for title, values in zip(titles, columns):
        try:
            array = pa.array(values, from_pandas=True)
            if pa.types.is_date(array.type) and any(hasattr(v, "hour") for v in values):
                array = moments_in(values)  # Arrow cuts them down to days where one comes first
            arrays[title] = array
        except OverflowError as error:
            raise TableError(f"column '{title}' {LARGE}") from error
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise TableError(f"column '{title}' {_MIXED}") from error
    return TableRows(pa.table(arrays))


def moments_in(values: Iterable[Any]) -> pa.Array:
    """Days and moments as a column of moments."""
    moments = [datetime.combine(v, time()) if type(v) is date else v for v in values]
    return pa.array(moments, pa.timestamp("us"), from_pandas=True)


def _native(values: np.ndarray) -> np.ndarray:
    """A column that Arrow takes: native byte order, no extended precision, text for bytes."""
    if values.dtype == np.longdouble:
        return values.astype(np.float64)
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8", "replace")
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _storable(column: Any) -> Any:
    """A pandas column in a type that Arrow has: dense numbers, beginnings of periods, names of bins."""
    categories = getattr(column.dtype, "categories", None)
    kind = type(column.dtype if categories is None else categories.dtype).__name__
    if kind == "SparseDtype":
        return column.sparse.to_dense()
    if kind == "PeriodDtype" and categories is None:
        return column.dt.to_timestamp()
    if kind in ("PeriodDtype", "IntervalDtype"):
        return column.astype(object).map(str, na_action="ignore").astype("category")
    return column
