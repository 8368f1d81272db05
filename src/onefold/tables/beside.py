"""Columns that stand beside the features: weights and groups."""

from __future__ import annotations

import numpy as np

from onefold.tables.columns import as_numbers, as_text, kind_of
from onefold.tables.errors import TableError
from onefold.tables.rows import TableRows


def weights_in(rows: TableRows, name: str) -> np.ndarray:
    """The column of weights; raise where one is negative or missing."""
    values = rows.numbers(name, role="weight column")
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(bad):
        raise TableError(
            f"the weight column '{name}' has {values[bad[0]]:g} in data row {bad[0] + 1}; "
            "weights are numbers that are not negative"
        )
    return values


def groups_in(rows: TableRows, name: str) -> np.ndarray:
    """The column of groups, as numbers of them."""
    column = rows.column(name, role="groups column")
    if kind_of(column) == "numeric":
        absent = int(np.isnan(as_numbers(column, name)).sum())
        values = column.to_numpy()  # exactly: numbers beyond 2**53 are groups of their own
    else:
        text = as_text(column, name)
        absent = int(text.null_count)
        values = np.asarray(text.to_pylist())
    if absent:
        raise TableError(
            f"missing values in '{name}' ({absent} of {len(rows)} rows); every row needs a group"
        )
    codes: np.ndarray = np.unique(values, return_inverse=True)[1]
    return codes
