"""One Arrow column at a time: what kind it is, and its values as numbers or as text.

A missing value is an Arrow null, a NaN, or empty text; here they all become NaN or null.
"""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold.tables.dates import by_clocks, is_moment, text_seconds, typed_seconds, zone_of
from onefold.tables.errors import Remedy, TableError
from onefold.tables.reading import NotANumberError, NumberFormat, is_number, parse

Kind = Literal["numeric", "boolean", "text", "date", "empty", "other"]


def kind_of(column: pa.ChunkedArray) -> Kind:
    """What a column holds, as far as preparing it is concerned."""
    kind = column.type
    if pa.types.is_null(kind) or column.null_count == len(column) > 0:
        return "empty"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numeric"
    if _is_text(kind) or pa.types.is_dictionary(kind):
        return "text"
    if pa.types.is_duration(kind):
        return "numeric"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return "date"
    return "other"


def as_numbers(
    column: pa.ChunkedArray, name: str, start: int = 0, form: NumberFormat | None = None
) -> np.ndarray:
    """float64 values with NaN where missing; text is parsed in the format `form` (None: plain).

    Raises
    ------
    TableError
        Naming the column, and for text the first value that is not a number and its row
        (`start` rows come before this column's first).
    """
    column = decoded(column)
    kind = kind_of(column)
    if kind == "empty":
        return np.full(len(column), np.nan)
    if kind in {"date", "other"}:
        raise TableError(_wrong_type(name, column.type))
    if kind == "text":
        column, form = trimmed(column), form or NumberFormat()
        try:
            column = parse(column, form)
        except NotANumberError as error:
            value = column[error.position].as_py()
            raise _not_a_number(name, value, start + error.position + 1, form) from error
    if pa.types.is_duration(column.type):  # in seconds
        whole = pc.cast(pc.cast(column, pa.duration("us"), safe=False), pa.int64())
        return np.asarray(pc.cast(whole, pa.float64(), safe=False).to_numpy(), dtype=np.float64) / 1e6
    if pa.types.is_decimal(column.type):  # by its digits: Arrow's cast to float64 rounds twice
        column = pc.cast(column, pa.string())
    # safe=False: integers beyond 2**53 lose digits; `inexact_as_number` says where that matters.
    numbers = pc.cast(column, pa.float64(), safe=False).to_numpy()
    return np.asarray(numbers, dtype=np.float64)


def times_in(
    column: pa.ChunkedArray, name: str, order: str, zone: str = "", start: int = 0
) -> np.ndarray:
    """Dates or times as seconds, NaN where missing; text is read in this order of day and month.

    They are instants by the clocks of `zone`, or local times where it is "".

    Raises
    ------
    TableError
        Naming the column, and for text the first value that is none and its row.
    """
    column = decoded(column)
    kind = kind_of(column)
    if kind == "empty":
        return np.full(len(column), np.nan)
    if kind == "date":
        if pa.types.is_time(column.type) != (order == "time"):
            one, other = ("times of day", "dates") if order == "time" else ("dates", "times of day")
            raise TableError(f"column '{name}' should hold {one} and holds {other}; convert it")
        _refuse_zone(name, zone, zone_of(column))
        return typed_seconds(column, zone)
    if kind != "text":
        raise TableError(f"column '{name}' should hold dates or times and has type {column.type}")
    text = trimmed(column)
    seconds, found, odd = text_seconds(text, order)
    if odd is not None:
        example = {"dmy": "31/12/2024", "mdy": "12/31/2024", "time": "23:59:00"}.get(order, "2024-12-31")
        also = " or 2024-12-31" if order in ("dmy", "mdy") else ""
        raise TableError(
            f"column '{name}' should hold dates or times but has '{text[odd].as_py()}' in data row "
            f"{start + odd + 1}; write it like {example}{also}, or leave it empty if it is missing"
        )
    _refuse_zone(name, zone, found)
    return by_clocks(seconds, zone)


def _refuse_zone(name: str, learned: str, found: str) -> None:
    """Refuse instants where local times were learned, and the other way round."""
    if bool(learned) != bool(found):
        one, other = f"times of the zone {learned}", "times without a zone"
        was, now = (one, other) if learned else (other, f"times of the zone {found}")
        raise TableError(f"column '{name}' had {was} in training and has {now} here; convert it")


def inexact_as_number(column: pa.ChunkedArray) -> int | None:
    """The position of the first whole number that float64 can't hold, None if there is none."""
    column = decoded(column)
    if _is_text(column.type):
        large = pc.match_substring_regex(column, r"^\s*[-+]?[0-9]{16,}\s*$")
    elif pa.types.is_integer(column.type) or pa.types.is_decimal(column.type):
        # safe=False, because rounding is what is looked for.
        large = pc.greater_equal(pc.abs(pc.cast(column, pa.float64(), safe=False)), 2.0**53)
    else:
        return None
    for position in np.flatnonzero(pc.fill_null(large, False).to_numpy()):
        value = int(column[position].as_py())
        if int(float(value)) != value:
            return int(position)
    return None


def trimmed(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text without blanks around it, null where nothing is left."""
    return _blank_to_null(pc.utf8_trim_whitespace(text))


def as_text(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Text values with null where missing; booleans become "true" and "false"."""
    categorical = pa.types.is_dictionary(column.type)
    column = decoded(column)
    if kind_of(column) == "other" or pa.types.is_duration(column.type):
        raise TableError(_wrong_type(name, column.type))
    if pa.types.is_floating(column.type) and not categorical:
        column = _whole_as_integers(column, name)
    return _blank_to_null(pc.cast(column, pa.string()))


def meaning_of(text: str) -> object:
    """What a label says: a whole number of any size, another number, a boolean, a date, or its words."""
    text = text.strip()
    if text.lower() in {"true", "false"}:
        return text.lower()
    try:
        return int(text) if re.fullmatch(r"[-+]?[0-9]+", text) else float(text.replace("_", "?"))
    except ValueError:
        whole = re.sub(r"(:[0-9]{2})\.0+$", r"\1", text)  # of seconds
        return re.sub(r"^([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]00:00:00$", r"\1", whole)


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without dictionary encoding and with one text type."""
    if pa.types.is_dictionary(column.type):
        values = column.type.value_type
        plain = pa.string() if _is_text(values) else values
        # Value by value: Arrow has no cast out of a dictionary of string views.
        chunks = [pc.cast(c.dictionary, plain).take(c.indices) for c in column.chunks]
        return pa.chunked_array(chunks, plain)
    if _is_text(column.type) and not pa.types.is_string(column.type):
        return pc.cast(column, pa.string())
    return column


def _is_text(kind: pa.DataType) -> bool:
    views = pa.types.is_string_view(kind)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or views)


def _blank_to_null(text: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def _whole_as_integers(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Codes that became fractions of 1.0 because some were missing, as whole numbers again."""
    column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    try:
        return pc.cast(column, pa.int64())
    except pa.ArrowInvalid as error:
        raise TableError(
            f"column '{name}' is used as text or codes and holds numbers with fractions here; "
            "store it as text or as whole numbers"
        ) from error


def _not_a_number(name: str, value: str, row: int, form: NumberFormat) -> TableError:
    found = f"column '{name}' should hold numbers but has '{value}' in data row {row}"
    if is_number(value):
        other = "," if form.decimal == "." else "."
        mark = [Remedy("decimal", other, "if that is its decimal mark")] if other in value else []
        return TableError(
            f"{found}, which is not written like {form.example}", ["write it that way", *mark]
        )
    if is_moment(value):
        return TableError(found, ["convert its dates to numbers", "leave the column out"])
    return TableError(found, ["fix it", "leave it empty if it is missing", Remedy("na_values", [value])])


def _wrong_type(name: str, kind: pa.DataType) -> str:
    return f"column '{name}' has type {kind}, which is neither a number nor text"
