"""How a table of text is to be read: what its makers chose, and what was found out about its columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from onefold.tables.errors import TableError
from onefold.tables.number_formats import NumberFormat

_NAMED_DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}


@dataclass(frozen=True)
class Reading:
    """Choices for delimited text and spreadsheets; other formats say these things themselves.

    Parameters
    ----------
    delimiter : str or None
        One character, or a name such as "tab"; None: found from the file.
    decimal : {".", ",", None}
        None: a point, and commas only where they can't be anything but thousands separators.
    encoding : str or None
        None: UTF-8, or UTF-16 if the file starts with its mark; Windows-1252 for other text, with a
    note. na_values : tuple of str
        Texts that mean a missing value, besides the usual ones (empty, NA, NaN, null, …).
    sheet : str, int or None
        Of a spreadsheet, by name or counted from 1; None: the first.
    formats : mapping of column names to NumberFormat
        The columns whose numbers are not written plainly, as reading the whole table found them.
    """

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    na_values: tuple[str, ...] = ()
    sheet: str | int | None = None
    formats: Mapping[str, NumberFormat] = field(default_factory=dict)

    def __post_init__(self) -> None:
        delimiter = _NAMED_DELIMITERS.get(self.delimiter or "", self.delimiter)
        object.__setattr__(self, "delimiter", delimiter)
        if delimiter is not None and not re.fullmatch(r"[\t -!#-~]", delimiter):
            raise TableError(
                f"the delimiter '{delimiter}' is not one ASCII character; use ';' or 'tab', say"
            )
        if self.decimal not in {None, ".", ","}:
            raise TableError(f"decimal is '.' or ',', not '{self.decimal}'")
        if delimiter is not None and delimiter == (self.decimal or "."):
            raise TableError(f"'{delimiter}' can't be the delimiter and the decimal mark; change one")
        if self.encoding is not None:
            _check_encoding(self.encoding)

    def format_of(self, name: str) -> NumberFormat:
        """How the numbers of a column are written."""
        return self.formats.get(name, NumberFormat(self.decimal or "."))

    def overridden(self, **options: Any) -> Reading:
        """The same but for the options that are not None; formats follow a new decimal mark."""
        given = {name: value for name, value in options.items() if value}
        formats = dict(self.formats)
        if "decimal" in given:
            formats = {name: form.with_decimal(given["decimal"]) for name, form in formats.items()}
        kept = {item.name: getattr(self, item.name) for item in fields(self)}
        return Reading(**{**kept, **given, "formats": formats})


def _check_encoding(name: str) -> None:
    try:
        "a".encode(name)
    except (LookupError, UnicodeError, ValueError) as error:
        raise TableError(
            f"there is no text encoding '{name}'; the usual ones are utf-8, latin-1, cp1252 and utf-16"
        ) from error
