"""Criteria of held-out predictions: error rate, squared error, and any scikit-learn scorer."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from onefold.approximations import Model
from onefold.criteria.base import HeldoutCriterion, Task, label_index
from onefold.heldout import Splits
from onefold.linalg import take_rows


class ErrorRate(HeldoutCriterion):
    """(share of wrong labels) · (−1), or accuracy with ``offset=1``."""

    def __init__(self, offset: float = 0.0) -> None:
        self._offset = offset

    def score(self, predictions: Any, rows: Any, task: Task) -> Any:
        truth = np.searchsorted(task.classes, task.y[rows])
        wrong = label_index(predictions) != truth[None, :]
        return self._offset - np.average(wrong, axis=1, weights=task.weight_of(rows))


class SquaredError(HeldoutCriterion):
    """−mean (y − f)² over rows and targets."""

    def score(self, predictions: Any, rows: Any, task: Task) -> Any:
        truth, weight = task.y[rows].reshape(len(rows), -1), task.weight_of(rows)
        # One μ at a time: a million rows times all μ would be copied twice otherwise.
        squared = (np.mean((values - truth) ** 2, axis=1) for values in predictions)
        return -np.array([np.average(losses, weights=weight) for losses in squared])

    def score_model(self, model: Model, splits: Splits, alphas: Any) -> Any | None:
        if splits.leave_one_out:
            return None
        error = model.heldout_squared_error(splits.left_out, splits.tests, alphas)
        return None if error is None else -error


class VariationCoefficient(HeldoutCriterion):
    """−√(mean (y − f)²) / |mean y|, averaged over targets: the CoV of [edwards2013]_."""

    def score(self, predictions: Any, rows: Any, task: Task) -> Any:
        truth = task.y[rows].reshape(len(rows), -1)
        weight = task.weight_of(rows)
        level = np.abs(np.average(truth, axis=0, weights=weight))
        if np.any(level == 0):
            raise ValueError(
                'criterion="cov" divides by the mean of y, which is 0 in a set of held-out rows; '
                'use "mse".'
            )
        squared = np.average((predictions - truth[None]) ** 2, axis=1, weights=weight)
        return -np.mean(np.sqrt(squared) / level, axis=1)


class PercentageError(HeldoutCriterion):
    """−mean |y − f| / |y| over rows and targets, as scikit-learn counts it: [edwards2013]_'s MAPE."""

    def score(self, predictions: Any, rows: Any, task: Task) -> Any:
        truth = task.y[rows].reshape(1, len(rows), -1)
        share = np.abs(predictions - truth) / np.maximum(np.abs(truth), np.finfo(float).eps)
        return -np.average(np.mean(share, axis=2), axis=1, weights=task.weight_of(rows))


class Scorer(HeldoutCriterion):
    """A scikit-learn scorer, shown the held-out predictions through a stand-in for the estimator.

    Predictions that it refuses have no score (NaN), as in GridSearchCV; `refusal` says why.
    """

    def __init__(self, scorer: Callable[..., float]) -> None:
        self._scorer = scorer

    def score(self, predictions: Any, rows: Any, task: Task) -> Any:
        X = take_rows(task.X, rows)
        y = task.y[rows]
        stand_in = _HeldoutRegressor if task.classes is None else _HeldoutClassifier
        weight = task.weight_of(rows)
        extra = {} if weight is None or not _takes_weights(self._scorer) else {"sample_weight": weight}
        scores = np.full(len(predictions), np.nan)
        for index, values in enumerate(predictions):
            try:
                scores[index] = self._scorer(stand_in(values, X, task), X, y, **extra)
            except ValueError as error:
                self.refusal = f"the criterion refuses their predictions ({error})"
        return scores


def _takes_weights(scorer: Any) -> bool:
    """Whether held-out rows can count by their weight, asked as GridSearchCV asks."""
    if hasattr(scorer, "_accept_sample_weight"):
        return bool(scorer._accept_sample_weight())
    return "sample_weight" in signature(scorer).parameters


class _Heldout(BaseEstimator):
    """Answers `predict` for the held-out rows, as the model trained without them would."""

    def __init__(self, values: Any, X: Any, task: Task) -> None:
        self._values, self._X, self._task = values, X, task
        self.n_features_in_ = X.shape[1]

    def _for(self, X: Any) -> Any:
        if X is not self._X:
            raise ValueError(
                "the scorer asked for predictions on rows other than those it was given; in "
                "closed-form cross-validation only the held-out rows have predictions."
            )
        return self._values

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _HeldoutRegressor(RegressorMixin, _Heldout):
    def predict(self, X: Any) -> Any:
        values = self._for(X)
        return values[:, 0] if self._task.y.ndim == 1 else values


class _HeldoutClassifier(ClassifierMixin, _Heldout):
    @property
    def classes_(self) -> Any:
        return self._task.classes

    def decision_function(self, X: Any) -> Any:
        values = self._for(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any) -> Any:
        return self._task.labels(self._for(X))
