"""Tables of any kind, opened: files of every format, frames, arrays."""

from __future__ import annotations

import datetime
import glob
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from onefold.machine.extras import pip_install
from onefold.tables.errors import Remedy, TableError, did_you_mean, listing
from onefold.tables.reading import Reading
from onefold.tables.rows import (
    Table,
    TableRows,
    TableSource,
    as_array,
    check_names,
    index_columns,
    index_remarks,
    is_frame,
    moments_in,
    rows_of_array,
    rows_of_frame,
)
from onefold.tables.text import DelimitedSource, TextTypes, first_bytes, rechunk

# What files begin with, what that is, and how such files are named.
_CONTENTS = {
    b"PAR1": ("a Parquet file", (".parquet",)),
    b"PK\x03\x04": ("a zip archive, such as a spreadsheet", (".xlsx", ".xlsm", ".ods")),
    b"\x1f\x8b": ("compressed with gzip", (".gz",)),
    b"\xd0\xcf\x11\xe0": ("a spreadsheet", (".xls",)),
}


def open_table(path: str | Path, reading: Reading | None = None) -> TableSource:
    """Open a table; the suffix of the file name tells its format.

    Parameters
    ----------
    path : path
        A file, or a pattern such as ``data/*.parquet`` or a folder of Parquet files, read as one table.
    reading : Reading, optional
        How to parse a .csv or .tsv table or a spreadsheet; other formats need no options.

    Returns
    -------
    TableSource
        The open table with its column names; rows are read when they are needed.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pyarrow import parquet
    >>> from onefold.tables import open_table
    >>> parquet.write_table(pa.table({"size": [1, 2, 3], "colour": ["red", "blue", "red"]}), "t.parquet")
    >>> open_table("t.parquet").names
    ('size', 'colour')
    """
    path = Path(path)
    name = path.name.lower()
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        # Arrow and the readers of spreadsheets take no other names.
        raise TableError(
            f"the name {str(path)!r} is not UTF-8 text; rename the file or its folder, or set "
            "PYTHONUTF8=1 if only the locale is not UTF-8"
        ) from error
    # Not pathlib's, which raise where a name is too long for a file.
    exists = os.path.exists(path)
    if os.path.isdir(path) or (glob.has_magic(str(path)) and not exists):
        return ParquetSource(path, reading)
    if not exists:
        raise TableError(f"there is no file {path}")
    if not os.path.isfile(path):  # reading it might never end, and a table is read more than once
        raise TableError(f"{path} is a pipe or a device, not a file; write the table to a file first")
    formats: dict[tuple[str, ...], Callable[[Path, Reading | None], TableSource]] = {
        (".csv", ".csv.gz", ".tsv", ".tsv.gz"): DelimitedSource,
        (".parquet",): ParquetSource,
        (".xlsx", ".xlsm", ".xls", ".ods"): ExcelSource,
    }
    source = next((kind for suffixes, kind in formats.items() if name.endswith(suffixes)), None)
    if source is None:
        supported = ", ".join(suffix for suffixes in formats for suffix in suffixes)
        raise TableError(
            f"cannot tell the format of {path.name}: the name must end in one of {supported}"
        )
    head = first_bytes(path)
    for mark, (words, suffixes) in _CONTENTS.items():
        if head.startswith(mark) and not name.endswith(suffixes):
            raise TableError(
                f"{path.name} is {words} by its content, despite its name; if it is a table, rename it "
                f"to end in {' or '.join(suffixes)}, or export it as .csv or .parquet"
            )
    return source(path, reading)


def opened(table: Any, reading: Reading | None = None, names: Sequence[str] | None = None) -> Table:
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
    if isinstance(table, Table):
        return table.with_reading(reading)
    if isinstance(table, str | Path):
        return open_table(table, reading)
    rows = rows_of_frame(table) if is_frame(table) else rows_of_array(as_array(table), names)
    return rows.with_reading(reading)


class ParquetSource(TableSource):
    """A Parquet file, or those of a pattern or a folder in the order of their names, as one table.

    All files must have the same columns. An index that pandas wrote into them is not a column.
    """

    options = ("dayfirst",)

    def __init__(self, path: Path, reading: Reading | None = None) -> None:
        super().__init__(path if path.name else path.resolve(), reading)  # "." has no name to speak of
        paths = _parquet_files(path)
        schemas = []
        for file in paths:
            with self._plain_errors(file):
                schemas.append(pyarrow.parquet.read_schema(file))
        index = {name for schema in schemas for name in index_columns(schema)}
        self.names = tuple(name for name in schemas[0].names if name not in index)
        check_names(self.names, self.path.name)
        self.remarks = index_remarks(sorted(index))
        for file, schema in zip(paths, schemas):
            difference = sorted((set(schema.names) ^ set(self.names)) - index)
            if difference:
                raise TableError(
                    f"{file.name} and {paths[0].name} differ in {listing(difference)}; the files of one "
                    "table must have the same columns"
                )
        try:
            schema = pa.unify_schemas(schemas, promote_options="permissive")
        except pa.ArrowException as error:
            raise TableError(
                f"a column of {self.path.name} has numbers in some files and other values in others; "
                "write the files again with one type per column"
            ) from error
        # Buffers that are read ahead stay in memory until the end of the file.
        options = pyarrow.dataset.ParquetFragmentScanOptions(pre_buffer=False)
        file_format = pyarrow.dataset.ParquetFileFormat(default_fragment_scan_options=options)
        self._data = pyarrow.dataset.dataset([str(file) for file in paths], schema, format=file_format)

    def bytes_in_memory(self) -> int:
        with self._plain_errors():
            return 3 * 8 * int(self._data.count_rows()) * len(self.names)

    def read(self) -> TableRows:
        with self._plain_errors():
            table = self._data.to_table(list(self.names))
        return TableRows(table, reading=self.reading, remarks=self.remarks)

    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        names = list(self.names if columns is None else columns)
        start = 0
        # With threads, the reader goes ahead of a slower caller by as much as the whole file.
        ahead = {"batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
        with self._plain_errors():
            batches = self._data.to_batches(columns=names, batch_size=min(rows, 1 << 20), **ahead)
            for table in rechunk(batches, rows):
                yield TableRows(table, start, self.reading, remarks=self.remarks)
                start += table.num_rows

    @contextmanager
    def _plain_errors(self, path: Path | None = None) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise TableError(
                f"{(path or self.path).name} is not a readable Parquet file: it is damaged, incomplete "
                "or in another format; write it again"
            ) from error


def _parquet_files(path: Path) -> list[Path]:
    """The files behind a pattern or in a folder, sorted; raises if there are none."""
    if os.path.isfile(path):
        return [path]
    pattern = str(path)
    description = str(path)
    if os.path.isdir(path):
        pattern = os.path.join(glob.escape(pattern), "*.parquet")
        description = os.path.join(description, "*.parquet")
    files = sorted(name for name in glob.glob(pattern) if os.path.isfile(name))
    if not files:
        raise TableError(f"there is no Parquet file {description}")
    return [Path(name) for name in files]


class ExcelSource(TableSource):
    """A sheet of a spreadsheet, read as a whole.

    Cells keep the types of the sheet. A column with texts among other cells is a text column and is
    parsed as in a .csv file. Cells with an error, such as ``#DIV/0!``, and formulas that were never
    computed are missing values, as in ``pandas.read_excel``.
    """

    options = ("decimal", "thousands", "na_values", "dayfirst", "sheet")

    def __init__(self, path: Path, reading: Reading | None = None) -> None:
        super().__init__(path, reading)
        try:
            calamine: Any = import_module("python_calamine")
        except ImportError as error:
            raise ImportError(
                f"reading the spreadsheet {path.name} needs python-calamine: {pip_install('excel')}"
            ) from error
        try:
            book = calamine.CalamineWorkbook.from_path(str(path))
            self._sheet = self._chosen_sheet(book.sheet_names)
            sheet = book.get_sheet_by_name(self._sheet)
            cells = sheet.to_python(skip_empty_area=True)  # an empty row is a row of missing values
        except (OSError, calamine.CalamineError) as error:
            raise TableError(
                f"{path.name} is not a readable spreadsheet: it is damaged, encrypted or in another "
                "format; save it again, or export it as .csv"
            ) from error
        if not cells:
            raise TableError(f"the sheet of {path.name} is empty; a table needs a header row and rows")
        header = [_text(name).strip() for name in cells[0]]
        sheets = f"(the sheets are {listing(book.sheet_names)})"
        remedies = [Remedy("sheet", name, sheets) for name in book.sheet_names if name != self._sheet]
        self.elsewhere = tuple(remedies[:1])
        if "" in header:
            raise TableError(
                f"{path.name} has no name in column {header.index('') + 1} of its header (are cells "
                "merged?); the first row must name every column once",
                ["write one header row above the table", *self.elsewhere],
            )
        self._cells = cells[1:]
        self.names = tuple(header)
        check_names(self.names, self.path.name)
        if not self._cells:
            raise TableError(f"{path.name} has a header row but no rows; add rows")

    def read(self) -> TableRows:
        table = pa.table(
            {name: _column([row[j] for row in self._cells]) for j, name in enumerate(self.names)}
        )
        rows = TableRows(table, reading=self.reading, written=True)
        texts = [column.name for column in table.schema if pa.types.is_string(column.type)]
        types = TextTypes(texts, self.reading, True, [rows])
        return replace(rows, types=types, reading=types.reading)

    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        table = self.read()
        yield from (table if columns is None else table.select(columns)).slices(rows)

    def _chosen_sheet(self, names: list[str]) -> str:
        """The sheet of a name or, counted from 1, of a number."""
        sheet = self.reading.sheet
        if sheet is None:
            return names[0]
        if str(sheet) in names:
            return str(sheet)
        if str(sheet).isdigit() and 1 <= int(sheet) <= len(names):
            return names[int(sheet) - 1]
        hint = did_you_mean(str(sheet), names, "sheets")
        raise TableError(f"{self.path.name} has no sheet '{sheet}'; {hint}")


def _column(cells: list[Any]) -> pa.Array:
    """Cells as a column of one type; text where they differ."""
    values = [None if cell == "" else cell for cell in cells]
    kinds = {type(value) for value in values if value is not None}
    if kinds and kinds <= {int, float}:
        numbers = pa.array(values, pa.float64())
        with suppress(pa.ArrowInvalid):
            return numbers.cast(pa.int64())
        return numbers
    if kinds and kinds <= {datetime.date, datetime.datetime}:
        return moments_in(values)
    if kinds in ({bool}, {datetime.time}, {datetime.timedelta}):
        return pa.array(values)
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
