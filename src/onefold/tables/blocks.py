"""The rows of any table that a model is to predict, block by block."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from onefold.tables.answers import feature_matrix_names
from onefold.tables.frames import as_array, is_frame, rows_of_array, rows_of_frame
from onefold.tables.reading import Reading
from onefold.tables.rows import TableRows
from onefold.tables.source import TableSource, open_table

_BLOCK_NUMBERS = 1 << 22
_MOST_ROWS = 1 << 16
_FEWEST_ROWS = 256


def blocks_for(
    model: Any, table: Any, rows: int | None, beside: tuple[str, ...] = ()
) -> Iterator[TableRows]:
    """Blocks of at most `rows` rows with the columns that a model needs, and those `beside`.

    Tables of text are read as the model's own was.
    """
    size = rows or _batch_rows(len(model.preparation_.feature_names))
    source = open_table(table, model.reading_) if isinstance(table, str | Path) else table
    if isinstance(source, TableSource) and source.reading == Reading() != model.reading_:
        source = open_table(source.path, model.reading_)
    if not isinstance(source, TableSource):
        yield from replace(_rows_in_memory(model, source), reading=model.reading_).slices(size)
        return
    for name in beside:
        source.require(name)
    if not source.absent_is_zero:
        model.preparation_.check_columns(source.names)
    yield from source.batches(size, tuple(dict.fromkeys(model.preparation_.columns + beside)))


def _rows_in_memory(model: Any, X: Any) -> TableRows:
    if is_frame(X):
        return _in_order(model, rows_of_frame(X))
    array = as_array(X)
    if array.shape[1] != model.n_features_in_:
        raise ValueError(
            f"X has {array.shape[1]} features, but {type(model).__name__} is expecting "
            f"{model.n_features_in_} features as input; pass a table with named columns, or such rows."
        )
    return rows_of_array(array, feature_matrix_names(model))


def _in_order(model: Any, rows: TableRows) -> TableRows:
    """Rows whose columns have the names of the model's; one that learned from an array knows places."""
    names = feature_matrix_names(model)
    known = hasattr(model, "feature_names_in_") or set(names) <= set(rows.names)
    if known or len(rows.names) != len(names):
        return rows
    warnings.warn(
        f"X has column names, but {type(model).__name__} was fitted on an array: its columns are taken "
        "in their order",
        UserWarning,
        stacklevel=2,
    )
    return replace(rows, columns=rows.columns.rename_columns(names))


def _batch_rows(width: int) -> int:
    return min(max(_BLOCK_NUMBERS // max(width, 1), _FEWEST_ROWS), _MOST_ROWS)
