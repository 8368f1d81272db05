"""Spreadsheets: .xlsx, .xls and .ods, one sheet of them, its first row the column names."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from onefold.tables.errors import Remedy, TableError, did_you_mean
from onefold.tables.interpret import TypeFinder, without_missing
from onefold.tables.reading import Reading
from onefold.tables.rows import TableRows
from onefold.tables.source import TableSource

SUFFIXES = (".xlsx", ".xlsm", ".xls", ".ods")
_MOMENTS = (datetime.date, datetime.datetime)


class ExcelSource(TableSource):
    """A sheet; the whole of it is read at once, as the format wants it.

    Cells keep the types that the sheet gives them. A column with texts among other cells is one of text,
    and is understood as in a .csv file.
    """

    def __init__(self, path: Path, reading: Reading | None = None) -> None:
        self.path = path
        self.reading = reading or Reading()
        cells, merged = _cells(path, self.reading.sheet)
        if not cells:
            raise TableError(f"the sheet of {path.name} is empty; a table needs a header row and rows")
        header = [_text(name).strip() for name in cells[0]]
        if merged or "" in header:
            place = header.index("") + 1 if "" in header else 1
            what = "merged cells in its header" if merged else f"no name in column {place} of its header"
            raise TableError(
                f"{path.name} has {what}; the first row must name every column once",
                ["write one header row above the table", Remedy("sheet", "NAME", "for another sheet")],
            )
        self._cells, self.names = cells[1:], tuple(header)
        self.check_names()
        if not self._cells:
            raise TableError(f"{path.name} has a header row but no rows; add rows")

    def read(self) -> TableRows:
        raw = {name: _column([row[j] for row in self._cells]) for j, name in enumerate(self.names)}
        table = pa.table(raw)
        texts = [name for name in self.names if pa.types.is_string(table.column(name).type)]
        if not texts:
            return TableRows(table, reading=self.reading)
        text = without_missing(table.select(texts), self.reading)
        finder = TypeFinder(tuple(texts), self.reading, ";")
        finder.add(text)
        typed = finder.finish().given_to(text)
        found = {n: (typed.columns if n in texts else table).column(n) for n in self.names}
        written = {n: (text if n in texts else table).column(n) for n in self.names}
        return replace(typed, columns=pa.table(found), written=pa.table(written))

    def batches(self, rows: int, columns: Sequence[str] | None = None) -> Iterator[TableRows]:
        everything, wanted = self.read(), list(self.names if columns is None else columns)
        written = everything.written
        chosen = replace(
            everything,
            columns=everything.columns.select(wanted),
            written=None if written is None else written.select(wanted),
        )
        yield from chosen.slices(rows)


def _cells(path: Path, sheet: str | int | None) -> tuple[list[list[Any]], bool]:
    """The rows of a sheet, and whether its header has merged cells."""
    try:
        calamine: Any = import_module("python_calamine")
    except ImportError as error:
        raise ImportError(
            f"{path.name} is a spreadsheet, and reading it needs python-calamine: "
            'pip install "onefold[excel]"'
        ) from error
    try:
        book = calamine.CalamineWorkbook.from_path(str(path))
        found = book.get_sheet_by_name(_sheet_name(path, book.sheet_names, sheet))
        cells = found.to_python(skip_empty_area=True)
    except (OSError, calamine.CalamineError) as error:
        raise TableError(
            f"{path.name} is not a readable spreadsheet; it is damaged, encrypted or of another format: "
            "save it again, or export it as .csv"
        ) from error
    ranges = getattr(found, "merged_cell_ranges", None) or []
    top = found.start[0] if found.start is not None else 0
    merged = any(begin[0] <= top <= end[0] and begin[1] < end[1] for begin, end in ranges)
    return cells, merged  # an empty row is a row: its values are missing


def _sheet_name(path: Path, names: list[str], sheet: str | int | None) -> str:
    """The sheet of a name or, counted from 1, of a number."""
    if sheet is None:
        return names[0]
    if str(sheet) in names:
        return str(sheet)
    if str(sheet).isdigit() and 1 <= int(sheet) <= len(names):
        return names[int(sheet) - 1]
    near = did_you_mean(str(sheet), names).replace("the columns are", "the sheets are")
    raise TableError(f"{path.name} has no sheet '{sheet}'; {near}")


def _column(cells: list[Any]) -> pa.Array:
    """Cells as a column of one type; text where they differ."""
    values = [None if cell == "" else cell for cell in cells]
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and kinds:
        whole = all(value is None or float(value).is_integer() for value in values)
        small = whole and all(value is None or abs(value) < 2.0**53 for value in values)
        if small:
            return pa.array([None if value is None else int(value) for value in values], pa.int64())
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if kinds and all(issubclass(kind, _MOMENTS) for kind in kinds):
        return pa.array(
            [None if value is None else _moment(value) for value in values], pa.timestamp("us")
        )
    for kind in (bool, datetime.time, datetime.timedelta):
        if kinds == {kind}:
            return pa.array(values)
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _moment(value: Any) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        return value
    return datetime.datetime(value.year, value.month, value.day)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
