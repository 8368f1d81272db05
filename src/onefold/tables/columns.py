"""One Arrow column at a time: what kind it is, and its values as numbers or as text.

A missing value is an Arrow null, a NaN, or empty text; here they all become NaN or null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from onefold.tables.errors import TableError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Kind", "as_numbers", "as_text", "first_bad_number", "kind_of"]

Kind = Literal["numeric", "boolean", "text", "date", "empty", "other"]

_TRUTH = {"true": "true", "false": "false", "1": "true", "0": "false"}


def kind_of(column: pa.ChunkedArray) -> Kind:
    """What a column holds, as far as preparing it is concerned."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_null(kind) or column.null_count == len(column) > 0:
        return "empty"
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "numeric"
    if _is_text(kind) or pa.types.is_dictionary(kind):
        return "text"
    if pa.types.is_temporal(kind):
        return "date"
    return "other"


def as_numbers(column: pa.ChunkedArray, name: str, start: int = 0) -> np.ndarray:
    """float64 values with NaN where missing; text is parsed.

    Raises
    ------
    TableError
        Naming the column, and for text the first value that is not a number and its row
        (`start` rows come before this column's first).
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _decoded(column)
    kind = kind_of(column)
    if kind == "empty":
        return np.full(len(column), np.nan)
    if kind in {"date", "other"}:
        raise TableError(_wrong_type(name, column.type))
    if kind == "text":
        column = _blank_to_null(pc.utf8_trim_whitespace(column))
        try:
            column = pc.cast(column, pa.float64())
        except pa.ArrowInvalid as error:
            value, position = first_bad_number(column)
            raise TableError(
                f"column '{name}' should hold numbers but has '{value}' in "
                f"data row {start + position + 1}; fix it, or leave it empty if it is missing"
            ) from error
    # safe=False: integers beyond 2**53 lose digits that no model could use.
    numbers = pc.cast(column, pa.float64(), safe=False).to_numpy()
    return np.asarray(numbers, dtype=np.float64)


def as_text(column: pa.ChunkedArray, name: str, boolean: bool = False) -> pa.ChunkedArray:
    """Text values with null where missing; `boolean` columns become "true" and "false"."""
    import pyarrow as pa
    import pyarrow.compute as pc

    categorical = pa.types.is_dictionary(column.type)
    column = _decoded(column)
    kind = kind_of(column)
    if kind in {"date", "other"}:
        raise TableError(_wrong_type(name, column.type))
    if kind == "numeric" and not categorical and not pa.types.is_integer(column.type):
        raise TableError(f"column '{name}' held text when the model was tuned and holds numbers here")
    text = _blank_to_null(pc.cast(column, pa.string()))
    if boolean and kind != "boolean":
        found = pc.utf8_lower(pc.utf8_trim_whitespace(text)).to_pylist()
        truth = [None if value is None else _TRUTH.get(value, value) for value in found]
        return pa.chunked_array([pa.array(truth, pa.string())])
    return text


def first_bad_number(text: pa.ChunkedArray) -> tuple[str, int]:
    """The first value of a text column that is not a number, and its position."""
    for position, value in enumerate(text.to_pylist()):
        if value is not None and not _parses(value):
            return value, position
    raise AssertionError("every value of this column is a number")


def numeric_share(values: list[str]) -> float:
    """Which share of these texts are numbers, a decimal comma included."""
    return sum(_parses(value.replace(",", ".")) for value in values) / max(len(values), 1)


def _parses(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return "_" not in value


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without dictionary encoding and with one text type."""
    import pyarrow as pa
    import pyarrow.compute as pc

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
    import pyarrow as pa

    views = pa.types.is_string_view(kind)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or views)


def _blank_to_null(text: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def _wrong_type(name: str, kind: pa.DataType) -> str:
    return f"column '{name}' has type {kind}, which is neither a number nor text"
