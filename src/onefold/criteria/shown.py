"""What a scorer is shown: stand-ins that answer for the held-out rows as fitted models would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from onefold.calibration import CalibrationFolds
from onefold.criteria.base import Task
from onefold.heldout import Splits


@dataclass(frozen=True)
class Shown:
    """Held-out predictions of one kernel, for every split and μ.

    Attributes
    ----------
    predictions : sequence of arrays (μ, rows, targets)
        Of each split's test rows, in the user's units.
    splits : Splits
    task : Task
    calibration : str
        Of the probabilities, should a scorer ask for them; those of a split are calibrated by the test
        rows of the others at the same μ (:mod:`onefold.calibration.crossfitting`).
    """

    predictions: Sequence[Any]
    splits: Splits
    task: Task
    calibration: str

    def estimator(self, split: int, number: int, X: Any) -> BaseEstimator:
        """The stand-in for the model of one split at one μ; X are the rows that it is asked for."""
        values = self.predictions[split][number]
        if self.task.classes is None:
            return _HeldoutRegressor(values, X, self.task)
        return _HeldoutClassifier(values, X, self.task, partial(self._probabilities, split, number))

    def _probabilities(self, split: int, number: int) -> Any:
        return self._calibrated[split][number]

    @cached_property
    def _calibrated(self) -> list[Any]:
        """Probabilities (μ, rows, classes) of each split, made when first asked for, for all μ."""
        folds, task = CalibrationFolds.of(self.splits), self.task
        decision, index = np.concatenate(self.predictions, axis=1), np.searchsorted(task.classes, task.y)
        found = folds.probabilities(self.calibration, decision, index, task.sample_weight)
        ends = np.cumsum([values.shape[1] for values in self.predictions])
        return np.split(found, ends[:-1], axis=1)


class _Heldout(BaseEstimator):
    """Answers `predict` for the held-out rows, as the model trained without them would."""

    def __init__(self, values: Any, X: Any, task: Task) -> None:
        self._values, self._X, self.task = values, X, task
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
        return values[:, 0] if self.task.y.ndim == 1 else values


class _HeldoutClassifier(ClassifierMixin, _Heldout):
    def __init__(self, values: Any, X: Any, task: Task, probabilities: Callable[[], Any]) -> None:
        super().__init__(values, X, task)
        self._probabilities = probabilities

    @property
    def classes_(self) -> Any:
        return self.task.classes

    def decision_function(self, X: Any) -> Any:
        values = self._for(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict_proba(self, X: Any) -> Any:
        self._for(X)
        return self._probabilities()

    def predict(self, X: Any) -> Any:
        return self.task.labels(self._for(X))
