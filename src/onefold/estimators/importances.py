"""How much the held-out error rises where a feature is permuted: its importance."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from onefold.approximations import Exact, Problem, Workload
from onefold.criteria import Scoring
from onefold.heldout import sample_rows
from onefold.linalg import HostArray, host_array, rows_like, take_rows
from onefold.search.crossfit import CrossFit

# Held-out rows whose features are permuted, at most: the standard error of a share is some per cent.
_PERMUTED_ROWS = 1000
# Rows below which a share would be noise.
_FEWEST_PERMUTED = 30
# Multiply-adds of their predictions, about what a few fits take.
_PERMUTED_WORK = 1e10
# Rows that the models of importances are fitted to, at most.
_TRAINING_ROWS = 2000
# Multiply-adds that take as long as the exponential of a kernel value.
_EXPONENTIAL = 10


class Importances(NamedTuple):
    """The importances of the features, or why there are none."""

    shares: HostArray | None = None  # (d,)
    why_none: str | None = None


def heldout_importances(
    fit: CrossFit, scoring: Scoring, groups: Sequence[Any] | None, seed: int
) -> Importances:
    """The rise of the squared error where features are permuted, in shares of the sum of all rises.

    Of held-out rows, split after split until there are enough, by what was chosen, fitted to rows
    outside the split. `groups` of features, the indicators of one column say, are permuted together and
    share their rise. All are 0 where no feature matters. There are none where they would take longer
    than a few fits, or where the system cannot be solved on these rows.
    """
    splits = scoring.held_out
    problem = scoring.problem
    labels = scoring.task.labels
    d = problem.shape[1]
    groups = [np.array([j]) for j in range(d)] if groups is None else groups
    work = len(groups) * (d + _EXPONENTIAL) * min(problem.n, _TRAINING_ROWS) * len(fit.cells)
    missing_rows = min(_PERMUTED_ROWS, int(_PERMUTED_WORK / work))
    rises = np.zeros(d)
    if missing_rows < _FEWEST_PERMUTED or splits.leave_one_out:
        reason = f"permuting each of {len(groups)} columns would take longer than a few fits"
        return Importances(why_none=reason)
    generator = np.random.default_rng([seed, 3])
    for number, left_out in enumerate(splits.left_out):
        rows = sample_rows(np.unique(splits.tests[number]), missing_rows, generator, labels)
        outside = np.setdiff1d(np.arange(problem.n), left_out)
        training_rows = sample_rows(outside, _TRAINING_ROWS, generator, labels)
        members = _members_without(fit, problem.rows(training_rows).centred(), number)
        if members is None:
            reason = "the chosen alpha cannot be used on the rows that importances are computed from"
            return Importances(why_none=reason)
        X = host_array(take_rows(problem.X, rows))
        Y = problem.targets[rows]
        v = scoring.training_weights[rows]
        order = generator.permutation(rows.size)
        loss = partial(_loss, members=members, weights=fit.weights, Y=Y, v=v, reference=problem.X)
        unpermuted_loss = loss(X)
        for group in groups:
            permuted = X.copy()
            permuted[:, group] = X[order][:, group]
            rises[group] += (loss(permuted) - unpermuted_loss) / len(group)
        missing_rows -= rows.size
        if missing_rows <= 0:
            break
    shares = np.maximum(rises, 0.0)
    return Importances(shares / (shares.sum() or 1.0))


def _loss(
    X: HostArray, *, members: Sequence[Any], weights: Any, Y: HostArray, v: Any, reference: Any
) -> float:
    """Σ_i v_i ‖y_i − f(x_i)‖² of a sum of members, whose rows are of the kind of `reference`."""
    X = rows_like(X, reference)
    values = sum(weight * host_array(member.predict(X)) for weight, member in zip(weights, members))
    return float(v @ np.sum((values - Y) ** 2, axis=1))


def _members_without(fit: CrossFit, training: Problem, number: int) -> list[Any] | None:
    """The members fitted to rows outside a split; None where the system cannot be solved there."""
    run = Exact().start(training, [], Workload())
    members = []
    for cell in fit.cells:
        kernels = cell.candidate.part_kernels  # learned without each part, where there are any
        model = run.model(kernels[number] if kernels else cell.candidate.kernel)
        ridge = training.ridge(cell.alpha)
        # An error here would lose the result of the search, which matters more than importances.
        if not model.usable(None, np.reshape(ridge, -1)).all():
            return None
        members.append(training.restore(model.expansion(ridge)))
    return members
