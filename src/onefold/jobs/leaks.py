"""Columns of a table that tell the target all by themselves, and what to do about them."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.report.leaks import FEWEST_ROWS, MOST_VALUES, UNEXPLAINED, left_by_groups, left_by_numbers
from onefold.tables import Categories, Preparation, Target
from onefold.tables.errors import listing, setting


def suspicious_columns(X: Any, preparation: Preparation, target: Target) -> list[str]:
    """Names of the columns that alone explain 98 % of what a constant prediction leaves open.

    A table with a single column has no rivals to compare it with: nothing is suspected there.
    """
    if len(preparation.columns) < 2:
        return []
    step = max(1, X.shape[0] * X.shape[1] // MOST_VALUES)
    y = target.values[::step]
    if len(y) < FEWEST_ROWS:
        return []
    numbers = target.task == "regression"
    codes = y if numbers else np.unique(y, return_inverse=True)[1]
    found, rows = [], X[::step]
    for part, (name, features) in zip(preparation.parts, preparation.spans()):
        values = np.asarray(rows[:, features], dtype=np.float64)
        if type(part) is Categories:
            left = left_by_groups(values.argmax(axis=1), codes, numbers)
        else:  # of a moment, the elapsed time; where all values are equal, whether there is one
            left = left_by_numbers(values[:, 0], codes, numbers)
        if left < UNEXPLAINED:
            found.append(name)
    return found


def leak_note(names: list[str], target: str) -> str:
    """What to do about them."""
    quoted = listing(names)
    alone = "each alone predict" if len(names) > 1 else "alone predicts"
    return (
        f"{quoted} {alone} '{target}' almost perfectly; if not known when predictions are made, "
        f"leave out with {setting('drop', names)}"
    )
