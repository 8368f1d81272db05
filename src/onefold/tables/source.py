"""A table somewhere: its column names, all of its rows, or its rows block by block."""

from __future__ import annotations

import glob
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from onefold.tables.errors import TableError, did_you_mean, listing
from onefold.tables.frames import as_array, is_frame, rows_of_array, rows_of_frame
from onefold.tables.reading import Reading
from onefold.tables.rows import TableRows

_FORMATS = ".csv, .tsv (also .gz), .parquet, .xlsx, .xls, .ods, .libsvm, .svm or .txt (svmlight)"
# What files begin with, what that is, and how such files are named.
_CONTENTS = {
    b"PAR1": ("a Parquet file", (".parquet",)),
    b"PK\x03\x04": ("a zip archive, as spreadsheets are", (".xlsx", ".xlsm", ".ods")),
    b"\x1f\x8b": ("compressed with gzip", (".gz",)),
    b"\x93NUMPY": ("a single NumPy array", ()),
    b"\xd0\xcf\x11\xe0": ("a spreadsheet", (".xls",)),
    b"\x89HDF": ("an HDF5 file", ()),
    b"SQLite format": ("a database", ()),
    b"ARROW1": ("an Arrow file", ()),
}


class TableSource(ABC):
    """A table of one format.

    Opening reads no more than the header; `read` and `batches` can be called any number of times.

    Attributes
    ----------
    path : Path
    names : tuple of str
        The column names, in the order of the file.
    reading : Reading
        How to read it, for formats of text.
    options : tuple of str
        The fields of `reading` that this format looks at.
    default_target : str or None
        The target column of formats that have one by convention.
    absent_is_zero : bool
        Whether columns of numbers that the file lacks are 0 in every row.
    remarks : tuple of str
        What was assumed about the file.
    """

    path: Path
    names: tuple[str, ...]
    reading: Reading = Reading()
    options: tuple[str, ...] = ()
    default_target: str | None = None
    absent_is_zero: bool = False
    remarks: tuple[str, ...] = ()

    @abstractmethod
    def read(self) -> TableRows:
        """All rows, with column types inferred over the whole table."""

    @abstractmethod
    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        """Blocks of at most `rows` rows in file order, holding only `columns` if given.

        Delimited text comes as text, whatever it looks like: the types of a first block say
        nothing about later ones, and whoever asks for blocks knows what the columns should hold.
        """

    def typed_batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        """The same blocks with the types that `read` would give."""
        return self.batches(rows, columns)

    def bytes_in_memory(self) -> int:
        """About what `read` and the matrix made of it take: text is as long as the numbers in it."""
        packed = 5 if self.path.suffix.lower() == ".gz" else 1
        return 3 * packed * self.path.stat().st_size

    def check_names(self) -> None:
        """Refuse names that don't tell columns apart."""
        twice = [name for name, count in Counter(self.names).items() if count > 1]
        if twice:
            raise TableError(
                f"{self.path.name} has more than one column named {listing(twice)}; "
                "give every column its own name"
            )

    def require(self, name: str, option: str = "") -> None:
        """Refuse a column that the table does not have; `option` is where it was named."""
        if name not in self.names:
            where, near = f"{option}: " if option else "", did_you_mean(name, self.names)
            raise TableError(f"{where}{self.path.name} has no column '{name}'; {near}")


def rechunk(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Join and cut record batches into tables of exactly `rows` rows (fewer in the last)."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        while count >= rows:
            table = pa.Table.from_batches(held)
            yield table.slice(0, rows)
            held = table.slice(rows).to_batches()
            count -= rows
    if count:
        yield pa.Table.from_batches(held)


def first_bytes(path: Path, size: int = 16) -> bytes:
    """The beginning of a file; whatever keeps it from being read is said in one sentence."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except PermissionError as error:
        raise TableError(f"{path} may not be read; change its permissions") from error
    except OSError as error:
        reason = (error.strerror or "it can't be opened").lower()
        raise TableError(f"{path} can't be read ({reason}); give another file") from error


def open_table(path: str | Path, reading: Reading | None = None) -> TableSource:
    """Open a table; the suffix of the name says which format it has.

    Parameters
    ----------
    path : path
        Also a pattern such as ``data/*.parquet``, or a folder of Parquet files: one table.
    reading : Reading, optional
        How a .csv or .tsv table or a spreadsheet is to be read; other formats leave no choice.
    """
    # The formats are imported here because each of them subclasses TableSource.
    from onefold.tables.delimited import DelimitedSource
    from onefold.tables.files import ExcelSource, ParquetSource, SvmlightSource

    path = Path(path)
    name = path.name.lower()
    # Not pathlib's, which raise where a name is too long for a file.
    exists = os.path.exists(path)
    if os.path.isdir(path) or (glob.has_magic(str(path)) and not exists):
        return ParquetSource(path, reading)
    if not exists:
        raise TableError(f"there is no file {path}")
    formats: dict[tuple[str, ...], Callable[[Path, Reading | None], TableSource]] = {
        (".csv", ".csv.gz", ".tsv", ".tsv.gz"): DelimitedSource,
        (".parquet",): ParquetSource,
        (".xlsx", ".xlsm", ".xls", ".ods"): ExcelSource,
        (".libsvm", ".svm", ".txt"): SvmlightSource,
    }
    source = next((kind for suffixes, kind in formats.items() if name.endswith(suffixes)), None)
    if source is None:
        raise TableError(f"can't tell the format of {path.name}: the name should end in {_FORMATS}")
    head = first_bytes(path)
    for mark, (words, suffixes) in _CONTENTS.items():
        if head.startswith(mark) and not name.endswith(suffixes):
            remedy = f"if it is a table, name it {' or '.join(suffixes)}, or " if suffixes else ""
            raise TableError(
                f"{path.name} is {words} by its content, not what its name says; "
                f"{remedy}export it as .csv or .parquet"
            )
    return source(path, reading)


def opened(
    table: Any, reading: Reading | None = None, names: Sequence[str] | None = None
) -> TableSource | TableRows:
    """A table of any kind, opened: a path, an open table, rows, a frame, or an array.

    Parameters
    ----------
    table : any
    reading : Reading, optional
        How text is to be read; the options of an open table go before these.
    names : sequence of str, optional
        Of the columns of an array.
    """
    reading = reading or Reading()
    if isinstance(table, TableSource):
        merged = table.reading.merged(reading)
        return table if not table.options or merged == table.reading else open_table(table.path, merged)
    if isinstance(table, str | Path):
        return open_table(table, reading)
    rows = rows_of_frame(table) if is_frame(table) else rows_of_array(as_array(table), names)
    return replace(rows, reading=reading) if rows.reading == Reading() else rows
