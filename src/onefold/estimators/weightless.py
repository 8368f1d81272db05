"""Rows of weight 0: they leave the problem, exactly, and still get held-out predictions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from onefold.approximations import Problem
from onefold.criteria import Task
from onefold.heldout import Splits
from onefold.kernels import Precomputed
from onefold.linalg import take_rows, to_numpy
from onefold.machine.threads import spans
from onefold.search import Candidate

_AT_ONCE = 2**17  # rows of weight 0 that are predicted together


def without_weightless(
    problem: Problem, task: Task, weight: Any, *, precomputed: bool
) -> tuple[Problem, Task, Any]:
    """The problem, its task and its weights without the rows of weight 0."""
    rows = np.flatnonzero(weight > 0)
    left = problem.within(rows, precomputed=precomputed)
    given = None if task.sample_weight is None else task.sample_weight[rows]
    X = left.X if task.X is problem.X else take_rows(task.X, rows)  # scorers see rows where they were
    task = replace(task, X=X, y=task.y[rows], sample_weight=given)
    if task.classes is not None and np.unique(task.y).size < 2:
        raise ValueError(
            f"only one class ({task.y[0].item()!r}) has rows of positive weight; a classifier "
            "needs at least two classes."
        )
    return left, task, weight[rows]


def heldout_of_weightless(candidate: Candidate, ridge: float, splits: Splits, X: Any) -> Any:
    """Predictions (rows of X, targets) of the rows of weight 0; NaN for all others.

    One fit per split that tests such rows: each is predicted by the models that a row of its fold is
    predicted by, their mean where several splits test it.
    """
    run, problem, n = candidate.run, candidate.run.problem, X.shape[0]
    precomputed = isinstance(candidate.kernel, Precomputed)
    total, count = np.zeros((n, problem.Y.shape[1])), np.zeros(n)
    aside = splits.aside
    if splits.leave_one_out:  # no other row is left out with it
        aside = [(np.setdiff1d(np.arange(n), problem.kept), np.empty(0, dtype=np.intp))]
    for rows, out in aside:
        train = np.delete(np.arange(problem.n), out)
        part = problem.within(train, precomputed=precomputed).about_its_mean()
        model = run.on(part).model(candidate.kernel_without(out))
        expansion = part.restore(model.expansion(ridge))
        for some in spans(len(rows), _AT_ONCE):  # rows of Dask are fetched
            block = take_rows(X, rows[some])
            if precomputed:
                block = take_rows(block.T, part.kept).T
            np.add.at(total, rows[some], to_numpy(expansion.predict(block)))
        np.add.at(count, rows, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return total / count[:, None]
