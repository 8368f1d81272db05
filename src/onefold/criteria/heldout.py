"""Criteria of held-out predictions that are means over rows: error rate, squared and relative errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.approximations import Model, Problem
from onefold.criteria.base import Task, label_index
from onefold.criteria.sums import SumCriterion
from onefold.heldout import Splits
from onefold.linalg import Array, like, namespace


class ErrorRate(SumCriterion):
    """(share of wrong labels) · (−1), or accuracy with ``offset=1``.

    Parameters
    ----------
    offset : float
    smooth : bool
        Rank by the squared error of the decision values about ±1, which tells more of a row than right
        or wrong: the best of many counts of errors is the luckiest.
    """

    def __init__(self, offset: float = 0.0, *, smooth: bool = False) -> None:
        self._offset, self.smooth = offset, smooth

    def smoothed(self) -> ErrorRate:
        """The same, ranked by squared errors."""
        return ErrorRate(self._offset, smooth=True)

    def truth(self, problem: Problem, task: Task) -> Array:
        labels = like(label_index(problem.Y), problem.Y)[:, None]
        return namespace(labels).concat([labels, problem.Y], axis=1) if self.smooth else labels

    def terms(self, predictions: Array, truth: Array) -> Array:
        xp = namespace(truth)
        label = xp.astype(label_index(predictions), truth.dtype)
        wrong = xp.astype(label != truth[None, :, 0], truth.dtype)[..., None]
        if not self.smooth:
            return wrong
        squares = xp.sum((predictions - truth[None, :, 1:]) ** 2, axis=-1)
        return xp.concat([wrong, squares[..., None]], axis=-1)

    def from_means(self, means: Any) -> Any:
        return self._offset - means[..., 0]

    def ranks(self, means: Any) -> Any | None:
        return -means[..., 1].mean(axis=1) if self.smooth else None


class SquaredError(SumCriterion):
    """−mean (y − f)² over rows and targets."""

    needs = "squares"

    def truth(self, problem: Problem, task: Task) -> Array:
        return problem.Y

    def terms(self, predictions: Array, truth: Array) -> Array:
        return (predictions - truth[None, ...]) ** 2

    def from_means(self, means: Any) -> Any:
        return -np.mean(means, axis=-1)

    def from_model(self, model: Model, splits: Splits, alphas: Any) -> Any | None:
        if splits.leave_one_out:
            return None
        error = model.heldout_squared_error(splits.left_out, splits.tests, alphas)
        return None if error is None else -error


class VariationCoefficient(SumCriterion):
    """−√(mean (y − f)²) / |mean y|, averaged over targets: the CoV of [edwards2013]_."""

    def truth(self, problem: Problem, task: Task) -> Array:
        given = like(task.y.reshape(problem.n, -1), problem.Y)
        return namespace(given).concat([problem.Y, given], axis=1)

    def terms(self, predictions: Array, truth: Array) -> Array:
        xp, t = namespace(predictions), predictions.shape[2]
        squares = (predictions - truth[None, :, :t]) ** 2
        return xp.concat([squares, xp.broadcast_to(truth[None, :, t:], squares.shape)], axis=2)

    def from_means(self, means: Any) -> Any:
        squares, level = np.split(means, 2, axis=-1)
        if np.any(level == 0):
            raise ValueError(
                'criterion="cov" divides by the mean of y, which is 0 in a set of held-out rows; '
                'use "mse".'
            )
        return -np.mean(np.sqrt(squares) / np.abs(level), axis=-1)


class PercentageError(SumCriterion):
    """−mean |y − f| / |y| over rows and targets, as scikit-learn counts it: [edwards2013]_'s MAPE."""

    def truth(self, problem: Problem, task: Task) -> Array:
        given = task.y.reshape(problem.n, -1).astype(np.float64)  # the size of an int8 may be none
        size = np.maximum(np.abs(given), np.finfo(float).eps)
        return namespace(problem.Y).concat([problem.Y, like(size, problem.Y)], axis=1)

    def terms(self, predictions: Array, truth: Array) -> Array:
        t = predictions.shape[2]
        difference = predictions - truth[None, :, :t]
        return namespace(difference).abs(difference) / truth[None, :, t:]

    def from_means(self, means: Any) -> Any:
        return -np.mean(means, axis=-1)
