"""Columns of text become columns of numbers or booleans where all of their values are.

`TypeFinder` sees the table block by block and tells the type of every column; `ColumnTypes` gives it to
any block. A table in memory is one block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from onefold.tables.columns import trimmed
from onefold.tables.errors import TableError
from onefold.tables.number_evidence import FormatFinder
from onefold.tables.number_formats import NumberFormat, parse
from onefold.tables.reading import Reading
from onefold.tables.rows import TableRows

# What programs write for a missing value; `Reading.na_values` come on top.
_MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"),
)
_WHOLE = "^[-+]?[0-9]+$"
_MOST_DIGITS = 38  # of Arrow's exact decimals
_SMALL_DIGITS = 18  # of int64


def without_missing(table: pa.Table, reading: Reading) -> pa.Table:
    """A table of text with null where a value, but for blanks around it, means that it is missing."""
    missing = pa.array((*_MISSING, *reading.na_values), pa.string())
    columns = []
    for column in table.columns:
        absent = pc.is_in(pc.utf8_trim_whitespace(column), value_set=missing)
        some = pc.any(absent, min_count=0).as_py()
        columns.append(pc.if_else(absent, pa.scalar(None, pa.string()), column) if some else column)
    return pa.Table.from_arrays(columns, names=table.column_names)


class ColumnType(NamedTuple):
    """What the texts of a column are: an Arrow type (None: text), and the format of numbers."""

    kind: pa.DataType | None
    form: NumberFormat | None = None


@dataclass(frozen=True)
class ColumnTypes:
    """The types of a table of text, what was assumed about its columns, and which can't be used."""

    types: Mapping[str, ColumnType]
    reading: Reading
    notes: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, TableError] = field(default_factory=dict)

    def given_to(self, text: pa.Table, start: int = 0) -> TableRows:
        """A block of the table with types, and the text itself."""
        columns = {name: _typed(text.column(name), self.types[name]) for name in text.column_names}
        return TableRows(
            pa.table(columns),
            start=start,
            reading=self.reading,
            written=text,
            notes=self.notes,
            problems=self.problems,
        )


class TypeFinder:
    """Finds the types of the columns of a table of text, which comes in blocks."""

    def __init__(self, names: tuple[str, ...], reading: Reading, delimiter: str) -> None:
        self._reading = reading
        self._cautious = delimiter == ";"
        self._columns = {name: _Evidence(name, reading, self._cautious) for name in names}

    def add(self, text: pa.Table, start: int = 0) -> None:
        """Take a block."""
        for name, column in self._columns.items():
            column.add(trimmed(text.column(name)), start)

    def finish(self) -> ColumnTypes:
        """The types."""
        types: dict[str, ColumnType] = {}
        formats: dict[str, NumberFormat] = {}
        notes: dict[str, str] = {}
        problems: dict[str, TableError] = {}
        for name, column in self._columns.items():
            try:
                types[name] = found = column.type()
            except TableError as error:
                # Whoever drops the column need not hear of it.
                types[name], problems[name] = ColumnType(None), error
                continue
            usual = NumberFormat(self._reading.decimal or ".")
            if found.form is not None and found.form != usual:
                formats[name] = found.form
            note = column.note(found, self._cautious and self._reading.decimal is None)
            if note is not None:
                notes[name] = note
        return ColumnTypes(types, replace(self._reading, formats=formats), notes, problems)


class _Evidence:
    """What the values of one column have in common so far."""

    def __init__(self, name: str, reading: Reading, cautious: bool) -> None:
        self._name = name
        self._empty = self._whole = self._truth = True
        self._plain = reading.decimal != ","
        self._digits = 0
        self._longest = ""
        self._formats = FormatFinder(name, reading.decimal, cautious)

    def add(self, text: pa.ChunkedArray, start: int) -> None:
        if text.null_count == len(text):
            return
        self._empty = False
        lengths = pc.utf8_length(text)
        most = pc.max(lengths).as_py()
        if most > len(self._longest):
            self._longest = text[pc.index(lengths, most).as_py()].as_py()
        if self._whole and not _all(pc.match_substring_regex(text, _WHOLE)):
            self._whole = False
        numbers = _cast(text)
        self._plain = self._plain and numbers is not None
        plain = numbers is not None and _all(pc.is_finite(numbers))
        words = pa.array(["true", "false", None])
        self._truth = self._truth and _all(pc.is_in(pc.utf8_lower(text), value_set=words))
        self._digits = max(self._digits, most)
        self._formats.add(text, start, plain)

    def type(self) -> ColumnType:
        if self._empty:
            return ColumnType(pa.null())
        if self._whole:
            if self._digits <= _SMALL_DIGITS:
                return ColumnType(pa.int64())
            exact = self._digits < _MOST_DIGITS
            return ColumnType(pa.decimal128(_MOST_DIGITS, 0) if exact else pa.float64())
        if self._plain:
            return ColumnType(pa.float64())
        if self._truth:
            return ColumnType(pa.bool_())
        form = self._formats.finish()
        return ColumnType(None) if form is None else ColumnType(pa.float64(), form)

    def note(self, found: ColumnType, cautious: bool) -> str | None:
        """What a column with separators or a unit was taken for, by its longest value.

        Where columns are separated by semicolons, 1.234 may have been meant as a thousand.
        """
        form = found.form
        if form is not None and (form.thousands or form.unit):
            value = parse(pa.chunked_array([[self._longest]]), form)[0].as_py()
            return f"column '{self._name}' holds numbers: '{self._longest}' is read as {value!r}"
        seen = self._formats.points_may_separate()
        if not cautious or found.kind != pa.float64() or seen is None:
            return None
        return (
            f"column '{self._name}' is read with a decimal point ('{seen[0]}'); if the point separates "
            "thousands, say that the decimal mark is a comma"
        )


def _typed(text: pa.ChunkedArray, found: ColumnType) -> pa.ChunkedArray:
    """A column of text with its type."""
    kind, form = found
    if kind is None:
        return text
    if pa.types.is_null(kind):
        return pa.chunked_array([pa.nulls(len(text))])
    text = trimmed(text)
    if form is not None:
        return parse(text, form)
    if pa.types.is_boolean(kind):
        return pc.cast(pc.utf8_lower(text), kind)
    if not pa.types.is_floating(kind):
        text = pc.replace_substring_regex(text, r"^\+", "")
    return pc.cast(text, kind)


def _cast(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    try:
        return pc.cast(text, pa.float64())
    except pa.ArrowInvalid:
        return None


def _all(mask: pa.ChunkedArray) -> bool:
    return bool(pc.all(mask, min_count=0).as_py())
