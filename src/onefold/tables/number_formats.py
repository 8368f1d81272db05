"""Numbers as people write them: a decimal comma, thousands separators, percent, currency.

A column has one `NumberFormat`; `parse` applies it to any rows, to the letter. How it is found:
:mod:`onefold.tables.number_evidence`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from onefold.tables.errors import TableError

# The literal blanks that separate thousands: plain, no-break, narrow no-break and thin.
_BLANK = "[ \u00a0\u202f\u2009]"
_SEPARATOR = {"": "", ",": ",", ".": r"\.", "'": "['’]", " ": _BLANK}
_SIGN = "[-+−]?"
_SHARES = ("%", "‰")
_CURRENCIES = (
    *("US$", "A$", "C$", "R$", "HK$", "NZ$", "$", "€", "£", "¥", "₹", "₽", "₩", "₪", "₺", "₫"),
    *("฿", "₴", "₦", "₱", "¢", "kr", "zł", "Kč", "USD", "EUR", "GBP", "JPY", "CHF", "CAD", "AUD"),
    *("NZD", "CNY", "INR", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF", "BRL", "MXN", "ZAR", "KRW"),
    *("RUB", "TRY", "SGD", "HKD", "ILS", "THB"),
)
_UNIT = "|".join(re.escape(unit) for unit in (*_SHARES, *_CURRENCIES))
_DIGITS = rf"(?:[0-9](?:[0-9.,'’]|{_BLANK}(?=[0-9]))*|[.,][0-9]+)(?:[eE][-+]?[0-9]+)?"
_NUMBER_LIKE = re.compile(
    rf"{_SIGN}{_BLANK}*(?P<before>{_UNIT})?{_BLANK}*{_SIGN}{_DIGITS}{_BLANK}*(?P<after>{_UNIT})?"
)
_PLAIN = r"(?i)^[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?|inf|infinity|nan)$"


class NotANumber(Exception):
    """A text that does not have the format of its column; `position` says which."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of one column are written.

    Parameters
    ----------
    decimal : {".", ","}
    thousands : {"", ",", ".", "'", " "}
        What separates groups of three digits, "" if nothing does.
    unit : str
        A percent sign or a currency that every value has, before or after the digits.
    """

    decimal: str = "."
    thousands: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        known = self.decimal in {".", ","} and self.thousands in _SEPARATOR
        if not known or self.decimal == self.thousands or self.unit not in ("", *_SHARES, *_CURRENCIES):
            raise TableError(f"there is no number format {self}")

    @cached_property
    def pattern(self) -> str:
        """A regular expression for Python and for Arrow that matches such numbers as a whole."""
        groups = rf"[1-9][0-9]{{0,2}}(?:{_SEPARATOR[self.thousands]}[0-9]{{3}})+|"
        whole = f"(?:{groups if self.thousands else ''}[0-9]+)"
        point = re.escape(self.decimal)
        body = rf"(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][-+]?[0-9]+)?"
        if not self.unit:
            return f"^{_SIGN}{body}$"
        unit, blanks = re.escape(self.unit), f"{_BLANK}*"
        before = f"{_SIGN}{blanks}{unit}{blanks}{body}|{unit}{blanks}{_SIGN}{body}"
        return f"^(?:{before}|{_SIGN}{body}{blanks}{unit})$"

    @property
    def plain(self) -> bool:
        """Whether every program reads such numbers."""
        return self == NumberFormat()

    @property
    def example(self) -> str:
        """A number in this format."""
        return f"1{self.thousands}234{self.decimal}5{self.unit and ' ' + self.unit}"

    def with_decimal(self, decimal: str) -> NumberFormat:
        """The same habits in a file with another decimal mark."""
        swapped = self.decimal if self.thousands == decimal else self.thousands
        return replace(self, decimal=decimal, thousands=swapped)

    def fits(self, values: list[str]) -> bool:
        """Whether all values have this format."""
        matches = re.compile(self.pattern).match
        return all(matches(value) for value in values)


def unit_of(value: str) -> str | None:
    """The unit of a trimmed text that is a number in some way of writing it, "" for none; else None."""
    match = _NUMBER_LIKE.fullmatch(value)
    if match is None or (match["before"] and match["after"]):
        return None
    return match["before"] or match["after"] or ""


def is_money(unit: str) -> bool:
    """Whether a unit is a currency."""
    return unit in _CURRENCIES


def is_number(value: str) -> bool:
    """Whether a text is a number in some way of writing it, its unit included."""
    value = value.strip()
    return bool(re.match(_PLAIN, value) or _NUMBER_LIKE.fullmatch(value))


def parse(text: pa.ChunkedArray, form: NumberFormat) -> pa.ChunkedArray:
    """Trimmed text as float64, null where null.

    Raises
    ------
    NotANumber
        With the position of the first value that does not have this format.
    """
    pattern = form.pattern
    if form.plain or (form == NumberFormat(",") and not _any(pc.match_substring(text, "."))):
        try:
            return pc.cast(pc.replace_substring(text, form.decimal, "."), pa.float64())
        except pa.ArrowInvalid:  # a minus sign of typography, or no number
            pattern = _PLAIN if form.plain else pattern
    text = pc.replace_substring(text, "−", "-")
    matches = pc.fill_null(pc.match_substring_regex(text, pattern), True)
    if not pc.all(matches, min_count=0).as_py():
        raise NotANumber(pc.index(matches, False).as_py())
    if form.unit:
        text = pc.replace_substring(text, form.unit, "")
        text = pc.replace_substring_regex(text, rf"^([-+]?){_BLANK}+", r"\1")
        text = pc.utf8_trim_whitespace(text)
    if form.thousands:
        text = pc.replace_substring_regex(text, _SEPARATOR[form.thousands], "")
    return pc.cast(pc.replace_substring(text, form.decimal, "."), pa.float64())


def _any(mask: pa.ChunkedArray) -> bool:
    return bool(pc.any(mask, min_count=0).as_py())
