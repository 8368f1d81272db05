"""Columns of text become columns of numbers or booleans where all of their values are.

`TypeFinder` sees the table block by block; a table in memory is one block. Numbers are read as its
`Reading` says. A column that would hold numbers if they were written in another way is refused, with the
option that says so: 3,033 is three thousand here and three point something there. So is a column that
would hold numbers but for a few values: hundreds of "categories" would be learned in silence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from onefold.tables.columns import decoded, trimmed
from onefold.tables.errors import Remedy, TableError
from onefold.tables.reading import FORMATS, PLAIN, NumberFormat, Reading, is_number, parse
from onefold.tables.rows import TableRows

ColumnType = tuple[pa.DataType | None, NumberFormat]  # None: text

_WHOLE = "^[-+]?[0-9]+$"
_MOST_DIGITS = 38  # of Arrow's exact decimals
_SMALL_DIGITS = 18  # of int64
_FIRST = 1000  # values that mostly show which formats do not fit
_POINTS_BETWEEN_THOUSANDS = NumberFormat(",", ".")

MOST_CATEGORIES = 2000  # that are counted, let alone made features of
MANY_CATEGORIES = 50  # in fewer rows than twice as many they tell rows apart
_FEW_CATEGORIES = 20
_FEW_NUMBERS = 3
_DECORATED = re.compile(r"[^\w.,+-]{0,2} *[-+]?[0-9][0-9.,]* *(?P<after>[^0-9]{0,8})")  # 5 kg, <0.1, $12
# Words that stand where a number is not known.
_MEANS_MISSING = frozenset(
    {
        *("?", "??", "-", "--", "---", ".", "..", "*", "x", "#", "none", "missing", "unknown", "unk"),
        *("undefined", "not available", "na", "n.a.", "nil", "void", "#div/0!", "#value!", "#ref!"),
        *("#name?", "#num!", "#null!", "#error!"),
    }
)


def without_missing(text: pa.Table, reading: Reading) -> pa.Table:
    """A table with null where a text, but for blanks around it, means that the value is missing."""
    columns = []
    for name, column in zip(text.column_names, text.columns):
        words = pa.array(reading.missing_in(name), pa.string())
        absent = pc.is_in(pc.utf8_trim_whitespace(column), value_set=words)
        some = pc.any(absent, min_count=0).as_py()
        columns.append(pc.if_else(absent, pa.scalar(None, pa.string()), column) if some else column)
    return pa.Table.from_arrays(columns, names=text.column_names)


def frame_without_missing(rows: TableRows) -> TableRows:
    """Rows of a frame with null where a text means a missing value, as in rows of a file."""
    if rows.written is not None:
        return rows
    plain = {name: decoded(rows.columns.column(name)) for name in rows.names}
    text = pa.table({name: one for name, one in plain.items() if pa.types.is_string(one.type)})
    known = without_missing(text, rows.reading)
    columns = {n: (known if n in text.column_names else rows.columns).column(n) for n in rows.names}
    return replace(rows, columns=pa.table(columns)) if text.num_columns else rows


class TypeFinder:
    """Finds the types of the columns of a table of text, block by block, and gives them to blocks.

    `cautious` is whether 1.234 may be meant as a thousand: where semicolons separate the columns, the
    comma is free to be a decimal mark.
    """

    def __init__(self, names: tuple[str, ...], reading: Reading, cautious: bool) -> None:
        self.reading, self._cautious = reading, cautious
        self._columns = {name: _Evidence(name, reading.number_format) for name in names}
        self.types: dict[str, ColumnType] = {}
        self.notes: dict[str, str] = {}
        self.problems: dict[str, TableError] = {}

    def add(self, rows: TableRows) -> None:
        """Take a block."""
        for name, column in self._columns.items():
            column.add(trimmed(rows.columns.column(name)), rows.start)

    def finish(self) -> Self:
        """Settle the types, what is assumed about columns, and which can't be used."""
        declared, points = self.reading.number_format, []
        for name, column in self._columns.items():
            try:
                self.types[name] = kind, form = column.type()
            except TableError as error:
                # Whoever drops the column need not hear of it.
                self.types[name], self.problems[name] = (None, PLAIN), error
                continue
            if kind != pa.float64():
                continue
            if form != declared:
                points.append(name)
            doubt = self._cautious and declared == PLAIN and column.points_may_separate
            if column.point and (doubt or form != declared):
                self.notes[name] = (
                    f"column '{name}' is read with a decimal point ('{column.point}'); if the point "
                    "separates thousands, declare thousands as '.' and decimal as ','"
                )
        self.reading = replace(self.reading, points=tuple(points))
        return self

    def typed(self, rows: TableRows) -> TableRows:
        """A block of the table with types."""
        columns = {name: _typed(rows.columns.column(name), *self.types[name]) for name in rows.names}
        return replace(
            rows,
            columns=pa.table(columns),
            reading=self.reading,
            notes=self.notes,
            problems=self.problems,
        )


class _Evidence:
    """What the values of one column have in common so far."""

    def __init__(self, name: str, declared: NumberFormat) -> None:
        self._name, self._declared = name, declared
        self._empty = self._whole = self._boolean = True
        self._digits = 0
        self._fitting = list(FORMATS)
        self._odd: tuple[str, int] | None = None  # the first that is no plain number, and its row
        self.point = ""  # the first with a point

    def add(self, text: pa.ChunkedArray, start: int) -> None:
        if text.null_count == len(text):
            return
        self._empty = False
        self._digits = max(self._digits, pc.max(pc.utf8_length(text)).as_py())
        self._whole = self._whole and _all(pc.match_substring_regex(text, _WHOLE))
        if self._whole:
            self._boolean = False
            return
        if self._boolean:
            words = pa.array(["true", "false", None])
            self._boolean = _all(pc.is_in(pc.utf8_lower(text), value_set=words))
        if not self._fitting:
            return
        try:
            plain = pc.cast(text, pa.float64()) is not None
        except pa.ArrowInvalid:
            plain = False
        if plain and not self.point:
            place = pc.index(pc.fill_null(pc.match_substring(text, "."), False), True).as_py()
            self.point = text[place].as_py() if place >= 0 else ""
        for part in (text.slice(0, _FIRST), text):
            self._fitting = [form for form in self._fitting if _fits(part, form, plain)]
        if not plain and self._odd is None:
            matches = pc.fill_null(pc.match_substring_regex(text, PLAIN.pattern), True)
            place = pc.index(matches, False).as_py()
            self._odd = None if place < 0 else (text[place].as_py(), start + place + 1)

    @property
    def points_may_separate(self) -> bool:
        """Whether every value with a point would also be one with points between thousands."""
        return _POINTS_BETWEEN_THOUSANDS in self._fitting

    def type(self) -> ColumnType:
        """The type; raises where numbers need another format."""
        if self._empty:
            return pa.null(), PLAIN
        if self._whole:
            if self._digits <= _SMALL_DIGITS:
                return pa.int64(), PLAIN
            exact = self._digits < _MOST_DIGITS
            return pa.decimal128(_MOST_DIGITS, 0) if exact else pa.float64(), PLAIN
        for form in (self._declared, PLAIN):
            if form in self._fitting:
                return pa.float64(), form
        if self._boolean:
            return pa.bool_(), PLAIN
        if not self._fitting or self._odd is None:
            return None, PLAIN
        value, row = self._odd
        # With no more than is needed: the declared decimal mark where it does, thousands where they are.
        usual = [form for form in self._fitting if form.decimal == self._declared.decimal]
        needed = [f for f in self._fitting if f._replace(decimal=self._declared.decimal) not in usual]
        least = {form.decimal: form for form in reversed([*usual, *needed])}
        raise TableError(
            f"column '{self._name}' holds numbers written like '{value}' (data row {row}), not like "
            f"{self._declared.example}",
            [self._remedy(form) for form in least.values()],
        )

    def _remedy(self, form: NumberFormat) -> Remedy:
        thousands = Remedy("thousands", form.thousands) if form.thousands else None
        if thousands is not None and form.decimal == self._declared.decimal:
            return thousands
        return Remedy("decimal", form.decimal, also=thousands)


def _fits(text: pa.ChunkedArray, form: NumberFormat, plain: bool) -> bool:
    """Whether all values have a format; `plain` is whether every program reads them."""
    if plain and (form.decimal == "." or not pc.any(pc.match_substring(text, "."), min_count=0).as_py()):
        return True
    return _all(pc.match_substring_regex(text, form.pattern))


def _typed(text: pa.ChunkedArray, kind: pa.DataType | None, form: NumberFormat) -> pa.ChunkedArray:
    """A column of text with its type."""
    if kind is None:
        return text
    if pa.types.is_null(kind):
        return pa.chunked_array([pa.nulls(len(text))])
    text = trimmed(text)
    if pa.types.is_floating(kind):
        return parse(text, form)
    if pa.types.is_boolean(kind):
        return pc.cast(pc.utf8_lower(text), kind)
    return pc.cast(pc.replace_substring_regex(text, r"^\+", ""), kind)


def _all(mask: pa.ChunkedArray) -> bool:
    return bool(pc.all(mask, min_count=0).as_py())


def refuse_mangled_numbers(first: Mapping[str, int], name: str) -> None:
    """Refuse a text column that is a column of numbers but for a few values.

    One "?" among the numbers makes the whole column text, and hundreds of "categories" would then
    be learned in silence. A few whole numbers among words are taken for codes. `first` has the row in
    which each value appeared first.
    """
    numbers = [value for value in first if is_number(value)]
    words = [value for value in first if not is_number(value)]
    missing = len(numbers) > len(words) and all(word.strip().lower() in _MEANS_MISSING for word in words)
    fractions = len(numbers) >= _FEW_NUMBERS and any("." in value or "," in value for value in numbers)
    many = len(first) > _FEW_CATEGORIES
    if len(numbers) < _FEW_NUMBERS or 2 * len(numbers) < len(first):
        return
    codes = Remedy("categorical", [name], "if they are codes")
    if not words and many:
        raise TableError(
            f"column '{name}' holds numbers as text, the first being '{min(numbers)}'",
            ["store them as numbers with a decimal point", codes],
        )
    if not words or not (missing or fractions or many):
        return
    value = min(words, key=lambda word: first[word])
    raise TableError(
        f"column '{name}' holds numbers but for some values, the first being '{value}' "
        f"in data row {first[value]}",
        ["fix it", Remedy("na_values", [value], "if it means missing"), codes, Remedy("drop", [name])],
    )


def refuse_decorated_numbers(categories: tuple[str, ...], name: str) -> None:
    """Refuse numbers with a unit that is not understood, which many "categories" would hide."""
    found = [match for value in categories if (match := _DECORATED.fullmatch(value.strip()))]
    suffixes = {match["after"] for match in found}
    few_suffixes = len(suffixes) <= _FEW_NUMBERS
    if len(categories) > _FEW_CATEGORIES and 2 * len(found) > len(categories) and few_suffixes:
        raise TableError(
            f"column '{name}' has numbers with something around them, such as '{found[0][0]}'",
            [
                "write the numbers alone and in one unit",
                Remedy("categorical", [name], "if they are codes"),
            ],
        )


def too_large(name: str, value: object, row: int) -> TableError:
    """The error about a whole number that float64 can't hold."""
    return TableError(
        f"column '{name}' has {value} in data row {row}, too large for a number with all its digits, "
        "like an identifier",
        [Remedy("drop", [name]), Remedy("categorical", [name]), Remedy("id_column", name)],
    )


def not_dates(name: str, value: str, row: int) -> TableError:
    """The error about a column of dates in which one value is none, or not clearly one."""
    return TableError(
        f"dates or times in '{name}' that are not understood, the first being '{value}' in data row "
        f"{row}",
        [
            "write them like 2024-12-31 or 2024-12-31 23:59",
            Remedy("drop", [name]),
            Remedy("categorical", [name], "if they are codes"),
        ],
    )
