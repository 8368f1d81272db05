r"""The constant: what a classifier must beat by more than noise before its luck is reported.

    c_i = Σ_j v_j y_j / Σ_j v_j    over the rows j that are trained on where row i is held out

On labels that have nothing to do with the features, the best of a hundred cells makes fewer errors than
a constant by luck alone. So where its squared error is not lower by one standard error, paired over
rows, the choice is the flattest cell of the simplest group: its count of errors was not selected.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.criteria import ErrorRate, Scoring
from onefold.linalg import to_numpy
from onefold.search.choice import paired_difference, row_losses

_ERRORS = 1.0  # standard errors: no more than elsewhere, a weak signal of few rows is one


def beats_constant(heldout: Any, scoring: Scoring) -> bool:
    """Whether held-out predictions tell classes apart; not asked of criteria other than errors."""
    criterion = scoring.criterion
    if heldout is None or not isinstance(criterion, ErrorRate) or not criterion.smooth:
        return True
    weight = None if scoring.task is None else scoring.task.sample_weight
    losses = row_losses(constant_predictions(scoring), scoring)
    gain, error = paired_difference(losses, row_losses(heldout, scoring), weight)
    return gain > _ERRORS * error


def constant_predictions(scoring: Scoring) -> Any:
    """The mean of the rows trained on, for every tested row (n, targets); NaN for the others."""
    splits, Y, v = scoring.held_out, targets(scoring), training_weights(scoring)
    weighted = v[:, None] * Y
    total, count = np.zeros(Y.shape), np.zeros((len(Y), 1))
    for left, test in zip(splits.left_out, splits.tests):
        mean = (weighted.sum(axis=0) - weighted[left].sum(axis=0)) / (v.sum() - v[left].sum())
        np.add.at(total, test, mean)
        np.add.at(count, test, 1)
    with np.errstate(invalid="ignore"):
        return total / count


def targets(scoring: Scoring) -> Any:
    """The targets (n, targets) in the user's units."""
    problem = scoring.problem
    Y = to_numpy(problem.Y)
    return Y if problem.offset is None else Y + problem.offset


def training_weights(scoring: Scoring) -> Any:
    """Those of the loss that models are trained with, the classes' included."""
    root = scoring.problem.root_weight
    return np.ones(scoring.problem.n) if root is None else to_numpy(root) ** 2
