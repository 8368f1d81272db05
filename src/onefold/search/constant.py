r"""The constant: what a classifier must beat by more than noise before its luck is reported.

    c_i = Σ_j v_j y_j / Σ_j v_j    over the rows j that are trained on where row i is held out

On labels that have nothing to do with the features, the best of a hundred cells makes fewer errors than
a constant by luck alone. So where its squared error is not lower by one standard error, paired over
rows, the choice is the flattest cell of the simplest group: its count of errors was not selected.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.criteria import Scoring
from onefold.search.choice import paired_difference

_ERRORS = 1.0  # standard errors: no more than elsewhere, a weak signal of few rows is one


def beats_constant(heldout: Any, scoring: Scoring) -> bool:
    """Whether held-out predictions tell classes apart; not asked of criteria other than errors."""
    if heldout is None or not scoring.criterion.must_beat_constant:
        return True
    weight = None if scoring.task is None else scoring.task.sample_weight
    losses = scoring.row_losses(constant_predictions(scoring))
    gain, error = paired_difference(losses, scoring.row_losses(heldout), weight)
    return gain > _ERRORS * error


def constant_predictions(scoring: Scoring) -> Any:
    """The mean of the rows trained on, for every tested row (n, targets); NaN for the others."""
    splits, Y, v = scoring.held_out, scoring.targets, scoring.training_weights
    weighted = v[:, None] * Y
    if splits.leave_one_out:
        return (weighted.sum(axis=0) - weighted) / (v.sum() - v)[:, None]
    total, count = np.zeros(Y.shape), np.zeros((len(Y), 1))
    for left, test in zip(splits.left_out, splits.tests):
        mean = (weighted.sum(axis=0) - weighted[left].sum(axis=0)) / (v.sum() - v[left].sum())
        times = np.bincount(test, minlength=len(Y))[:, None]
        total += times * mean
        count += times
    with np.errstate(invalid="ignore"):
        return total / count
