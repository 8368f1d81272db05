"""How a table of text is read: what its makers chose, and what training found out about its columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from onefold.tables.errors import TableError

_NAMED_DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}
# What programs write for a missing value; `Reading.na_values` come on top.
MISSING_WORDS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"),
)
# What separates thousands, as a regular expression; blanks may be no-break, narrow no-break and thin.
_SEPARATORS = {"": "", ",": ",", ".": r"\.", "'": "['’]", " ": "[ \u00a0\u202f\u2009]"}


class NumberFormat(NamedTuple):
    """How numbers are written: the decimal mark, and what separates thousands ("": nothing)."""

    decimal: str = "."
    thousands: str = ""

    @property
    def separator(self) -> str:
        """A regular expression of what separates thousands."""
        return _SEPARATORS[self.thousands]

    @property
    def pattern(self) -> str:
        """A regular expression, for Python and for Arrow, of such numbers as a whole."""
        groups = rf"[1-9][0-9]{{0,2}}(?:{self.separator}[0-9]{{3}})+|" if self.thousands else ""
        point = re.escape(self.decimal)
        number = rf"(?:(?:{groups}[0-9]+)(?:{point}[0-9]*)?|{point}[0-9]+)(?:e[-+]?[0-9]+)?"
        return f"^(?i:[-+−]?(?:{number}|inf|infinity|nan))$"

    @property
    def example(self) -> str:
        """A number in this format."""
        return f"1{self.thousands}234{self.decimal}5"


PLAIN = NumberFormat()
FORMATS = tuple(
    NumberFormat(mark, separator) for mark in ".," for separator in _SEPARATORS if separator != mark
)


_NUMBER = re.compile("|".join(form.pattern for form in FORMATS))


def parse(text: pa.ChunkedArray, form: NumberFormat) -> tuple[pa.ChunkedArray, int | None]:
    """Trimmed text as float64, null where null, and the position of the first that is no such number."""
    points = text if form.decimal == "." else pc.replace_substring(text, form.decimal, ".")
    if form == PLAIN or (form == NumberFormat(",") and not has_point(text)):
        with suppress(pa.ArrowInvalid):  # a minus sign of typography, or no number
            return pc.cast(points, pa.float64()), None
    matches = pc.fill_null(pc.match_substring_regex(text, form.pattern), True)
    if not pc.all(matches, min_count=0).as_py():
        return text, pc.index(matches, False).as_py()
    text = pc.replace_substring_regex(text, form.separator, "") if form.thousands else text
    text = pc.replace_substring(pc.replace_substring(text, form.decimal, "."), "−", "-")
    return pc.cast(text, pa.float64()), None


def has_point(text: pa.ChunkedArray) -> bool:
    """Whether some text has a point in it."""
    return bool(pc.any(pc.match_substring(text, "."), min_count=0).as_py())


def is_number(value: str) -> bool:
    """Whether a text is a number in some way of writing it."""
    return bool(_NUMBER.match(value.strip()))


@dataclass(frozen=True)
class Reading:
    r"""How to parse delimited text and spreadsheets; other formats need no options.

    Parameters
    ----------
    delimiter : str or None
        One character, or a name such as "tab"; None detects it.
    decimal : {".", ",", None}
        The decimal mark of numbers; None is a point. With a comma, columns in which all numbers have a
        decimal point are still read, with a note.
    thousands : {",", ".", " ", "'", None}
        The thousands separator; None is no separator.
    encoding : str or None
        The text encoding; None is UTF-8, or UTF-16 if the file starts with its byte order mark, else
        Windows-1252, with a note.
    na_values : tuple of str
        Additional texts for missing values, besides the usual ones (empty, NA, NaN, null, …).
    dayfirst : bool or None
        Whether to read 3/4/2024 as 3 April; None infers it from other dates of the column.
    sheet : str, int or None
        The sheet of a spreadsheet, by name or by number from 1; None is the first.
    points : tuple of str
        Columns with a decimal point in training although `decimal` is a comma (set by the fit).
    categories : mapping of column names to tuples of str
        Categories in training that would mean a missing value in other columns, such as "NA" (set by
        the fit).

    Examples
    --------
    >>> from pathlib import Path
    >>> from onefold.tables import Reading, open_table
    >>> _ = Path("prices.csv").write_text("area;price\n80,5;1.200\n101,25;2.350\n")
    >>> reading = Reading(delimiter=";", decimal=",", thousands=".")
    >>> open_table("prices.csv", reading).names
    ('area', 'price')
    """

    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    na_values: tuple[str, ...] = ()
    dayfirst: bool | None = None
    sheet: str | int | None = None
    points: tuple[str, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        delimiter = _NAMED_DELIMITERS.get(self.delimiter or "", self.delimiter)
        object.__setattr__(self, "delimiter", delimiter)
        object.__setattr__(self, "na_values", tuple(self.na_values))
        decimal = self.number_format.decimal
        if delimiter is not None and not re.fullmatch(r"[\t -!#-~]", delimiter):
            raise TableError(
                f"delimiter must be a single ASCII character or a name such as 'tab'; got '{delimiter}'"
            )
        if decimal not in (".", ","):
            raise TableError(f"decimal must be '.' or ','; got '{decimal}'")
        if self.thousands is not None and self.thousands not in [*_SEPARATORS][1:]:
            raise TableError(f"thousands must be ',', '.', ' ' or \"'\"; got '{self.thousands}'")
        if self.thousands == decimal:
            raise TableError(
                f"'{self.thousands}' cannot be both the decimal mark and the thousands separator"
            )
        if delimiter == decimal:
            raise TableError(
                f"'{delimiter}' cannot be both the delimiter and the decimal mark; change one"
            )
        if self.dayfirst not in (None, True, False):
            raise TableError(f"dayfirst must be None, True or False; got {self.dayfirst!r}")
        if self.encoding is not None:
            try:
                "a".encode(self.encoding)
            except (LookupError, UnicodeError, ValueError) as error:
                raise TableError(
                    f"unknown text encoding '{self.encoding}'; common ones are utf-8, latin-1, cp1252 "
                    "and utf-16"
                ) from error

    @property
    def number_format(self) -> NumberFormat:
        """How numbers are written, unless a column is an exception."""
        return NumberFormat(self.decimal or ".", self.thousands or "")

    def format_of(self, name: str) -> NumberFormat:
        """How the numbers of a column are written."""
        return NumberFormat() if name in self.points else self.number_format

    def missing_in(self, name: str) -> tuple[str, ...]:
        """The texts that mean a missing value in a column."""
        values = self.categories.get(name, ())
        return tuple(text for text in (*MISSING_WORDS, *self.na_values) if text not in values)

    def with_categories(self, preparation: Any, target: Any = None) -> Reading:
        """The same with the categories of training that would otherwise mean a missing value."""
        texts = {part.name: getattr(part, "categories", ()) for part in preparation.parts}
        if target is not None and target.values.dtype.kind == "U":
            texts[target.name] = set(target.values.tolist())
        words = {*replace(self, categories={}).missing_in("")}
        categories = {}
        for name, values in texts.items():
            if ambiguous := words & {text.strip() for text in values}:
                categories[name] = tuple(sorted(ambiguous))
        return replace(self, categories=categories)

    def merged(self, learned: Reading) -> Reading:
        """These options, or those of `learned` where there are none, with what it knows of columns."""
        if replace(self, points=(), categories={}) == Reading():
            return learned
        points = learned.points if self.decimal == learned.decimal else self.points
        return replace(self, points=points, categories=learned.categories)

    def overridden(self, **options: Any) -> Reading:
        """The same with these options in place of its own; None leaves one as it is."""
        changes = {name: value for name, value in options.items() if value is not None}
        if "decimal" in changes:  # which columns have a decimal point was found with another mark
            changes.setdefault("points", ())
        return replace(self, **changes)
