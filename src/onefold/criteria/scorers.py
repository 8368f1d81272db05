"""Scorers of scikit-learn as criteria: they need every held-out row of a split at once.

A scorer calls an estimator; here it gets a stand-in that answers for the held-out rows as the model that
was trained without them would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from inspect import signature
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from onefold.approximations import Model, Problem
from onefold.calibration import calibration_parts, crossfitted
from onefold.criteria.base import (
    Accumulator,
    Criterion,
    Scored,
    Scoring,
    Task,
    label_index,
    why_criterion_fails,
)
from onefold.heldout import HeldoutBlock, Splits, joined_parts
from onefold.linalg import take_rows
from onefold.smoothers.base import Failure, attempt


class Scorer(Criterion):
    """A scikit-learn scorer, shown the held-out predictions through a stand-in for the estimator."""

    needs = "rows"

    def __init__(self, scorer: Callable[..., float], calibration: str | None = None) -> None:
        self._scorer = scorer
        self._calibration = calibration or "log_odds"
        # A user's function may ask for all.
        response = getattr(scorer, "_response_method", "predict_proba")
        first = response if isinstance(response, str) else next(iter(response))
        self.asks_probabilities = first == "predict_proba"
        self._request: bool | str | None = None  # of weights, by set_score_request
        # Asked now: threads of the search have no such setting.
        if get_config()["enable_metadata_routing"] and hasattr(scorer, "get_metadata_routing"):
            score = getattr(scorer.get_metadata_routing(), "score", None)
            self._request = None if score is None else score.requests.get("sample_weight")
        if isinstance(self._request, str):
            raise ValueError(
                f"the scorer requests weights named {self._request!r}, and a search has only the "
                "sample_weight of fit; use set_score_request(sample_weight=True), or False."
            )

    def start(self, problem: Problem, task: Task, splits: Splits) -> Scoring:
        if hasattr(self._scorer, "_response_method") and self.asks_probabilities:
            calibration_parts(splits)  # raises before the long work where rows are too few
        return RowScoring(self, problem, task, splits)

    def score_splits(
        self, predictions: Sequence[Any], splits: Splits, problem: Problem, task: Task
    ) -> Any:
        return self.scores(predictions, splits, problem, task)[0]

    def scores(
        self, predictions: Sequence[Any], splits: Splits, problem: Problem, task: Task
    ) -> tuple[Any, str | None]:
        """Scores (μ, splits), and why those that are refused have none."""
        scores = np.full((len(predictions[0]), len(splits)), np.nan)
        refusal = None
        # Whether rows can count by their weight is asked as GridSearchCV asks.
        accepts = getattr(self._scorer, "_accept_sample_weight", None)
        has_weights = accepts() if accepts else "sample_weight" in signature(self._scorer).parameters
        takes_weights = self._request is not False and has_weights
        shifted = [values + problem.offset for values in predictions]
        stand_in = _HeldoutRegressor if task.classes is None else _HeldoutClassifier

        @cache
        def calibrated() -> list[Any]:
            """Probabilities (μ, rows, classes) of each split, by the rows of the others at a μ."""
            decision = np.concatenate(shifted, axis=1)
            index = np.searchsorted(task.classes, task.y)
            weights = task.sample_weight, splits, task.class_weight
            probabilities = crossfitted(self._calibration, decision, index, *weights)
            return np.split(
                probabilities, np.cumsum([values.shape[1] for values in shifted])[:-1], axis=1
            )

        for split, rows in enumerate(splits.tests):
            X = take_rows(task.X, rows)
            y = task.y[rows]
            weight = task.weight_of(rows)
            extra = {} if weight is None or not takes_weights else {"sample_weight": weight}
            for number in range(len(scores)):
                model = stand_in(shifted[split][number], X, task, calibrated, (split, number))
                # As with GridSearchCV, the other cells go on, whatever the error.
                work = partial(self._scorer, model, X, y, **extra)
                score = attempt(work, (Exception,), why_criterion_fails)
                if isinstance(score, Failure):
                    refusal = refusal or score.reason
                else:
                    scores[number, split] = score
        if refusal is None and np.isnan(scores).any():
            refusal = (
                "the criterion is NaN for some held-out rows, as R² is for a single row; use "
                "another criterion, or splits with more test rows."
            )
        return scores, refusal


class RowScoring(Scoring):
    """Shows a scorer the test rows of each split in the splitter's order."""

    criterion: Scorer
    splits: Splits

    def shortcut(self, model: Model, alphas: Any) -> Scored | None:
        return None

    def start(self) -> Accumulator:
        return _RowAccumulator(self)

    def keeps_predictions(self, model: Model, n_alphas: int) -> bool:
        return True  # the scorer is shown them all in the end


class _RowAccumulator(Accumulator):
    """All blocks: a scorer needs every test row of a split at once."""

    def __init__(self, scoring: RowScoring) -> None:
        self._scoring = scoring
        self._blocks: list[HeldoutBlock] = []

    def add(self, block: HeldoutBlock) -> None:
        self._blocks.append(block)

    def result(self) -> Scored:
        scoring = self._scoring
        splits = scoring.splits
        parts = joined_parts(self._blocks, splits)
        if splits.leave_one_out:
            predictions = [parts[0][:, test] for test in splits.tests]
        else:
            predictions = [
                values[:, np.searchsorted(rows, test)]
                for values, rows, test in zip(parts, splits.left_out, splits.tests)
            ]
        finite = np.all([np.isfinite(values).all(axis=(1, 2)) for values in predictions], axis=0)
        if not finite.all():
            predictions = [values[finite] for values in predictions]
        scores = np.full((finite.size, len(splits)), np.nan)
        criterion = scoring.criterion
        scores[finite], reason = criterion.scores(predictions, splits, scoring.problem, scoring.task)
        return Scored.of(scores, finite, reason=reason)


class _Heldout(BaseEstimator):
    """Has `predict` for the held-out rows, as the model trained without them would."""

    def __init__(
        self, values: Any, X: Any, task: Task, calibrated: Callable[[], Any], place: tuple[int, int]
    ) -> None:
        self._values = values
        self._X = X
        self.task = task
        self._calibrated = calibrated
        self._place = place
        self.n_features_in_ = X.shape[1]
        if task.classes is not None:
            self.classes_ = task.classes

    def _for(self, X: Any) -> Any:
        if X is not self._X:
            raise ValueError(
                "the scorer asked for predictions of rows other than those it was given, but only "
                "held-out rows have predictions in closed-form cross-validation; score the given rows."
            )
        return self._values

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _HeldoutRegressor(RegressorMixin, _Heldout):
    def predict(self, X: Any) -> Any:
        values = self._for(X)
        return values[:, 0] if self.task.y.ndim == 1 else values


class _HeldoutClassifier(ClassifierMixin, _Heldout):
    def decision_function(self, X: Any) -> Any:
        values = self._for(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict_proba(self, X: Any) -> Any:
        self._for(X)
        split, number = self._place
        return self._calibrated()[split][number]

    def predict(self, X: Any) -> Any:
        return self.task.classes[label_index(self._for(X))]
