"""Held-out predictions of a model for every split and every μ."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.approximations import Model
from onefold.heldout.splits import Splits
from onefold.linalg import Array, to_numpy


def heldout_predictions(
    model: Model, splits: Splits, alphas: Any, offset: Any | None = None
) -> list[Any]:
    """f(x) for the rows of each score, from a model that was not trained on them.

    `offset` (targets,) is added: what was subtracted from the targets before.

    Returns
    -------
    list of NumPy arrays (μ, rows, targets), one per entry of ``splits.scored_rows()``.
    """
    if splits.leave_one_out:
        values = to_numpy(model.leave_one_out(alphas))
        found = [values] if splits.pooled else [values[:, rows] for rows in splits.tests]
    else:
        found = [
            to_numpy(values)[:, np.searchsorted(rows, test)]
            for values, rows, test in zip(
                model.heldout(splits.left_out, alphas), splits.left_out, splits.tests
            )
        ]
    if offset is not None:
        for values in found:
            values += offset
    return found


def gather(predictions: list[Array], splits: Splits) -> Any:
    """One held-out prediction per row (rows, targets): the mean over splits, NaN where never held out.

    `predictions` are those of one μ: arrays (rows, targets).
    """
    total = np.zeros((splits.n, predictions[0].shape[-1]))
    count = np.zeros(splits.n)
    for rows, values in zip(splits.scored_rows(), predictions):
        np.add.at(total, rows, values)
        np.add.at(count, rows, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return total / count[:, None]
