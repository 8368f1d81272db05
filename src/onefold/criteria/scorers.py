"""Scorers of scikit-learn as criteria: they need every held-out row of a split at once.

A scorer calls an estimator; here it gets a stand-in that answers for the held-out rows as the model that
was trained without them would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from inspect import signature
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from onefold.approximations import Model, Problem
from onefold.calibration import CalibrationFolds
from onefold.criteria.base import Answers, HeldoutCriterion, Scoring, Task
from onefold.heldout import HeldoutBlock, Splits, whole_parts
from onefold.linalg import take_rows


class Scorer(HeldoutCriterion):
    """A scikit-learn scorer, shown the held-out predictions through a stand-in for the estimator.

    Predictions that it refuses have no score (NaN), as in GridSearchCV.

    Parameters
    ----------
    scorer : function
    calibration : str or None
        Of the probabilities that it may ask for; None is a temperature.
    """

    needs = "rows"

    def __init__(self, scorer: Callable[..., float], calibration: str | None = None) -> None:
        self._scorer, self._calibration = scorer, calibration or "temperature"
        self._request = _weight_request(scorer)  # now: threads of the search have no such setting
        if isinstance(self._request, str):
            raise ValueError(
                f"the scorer asks for weights under the name {self._request!r}, and a search has "
                "those of fit; use set_score_request(sample_weight=True), or False."
            )

    @property
    def asks_probabilities(self) -> bool:
        asked = getattr(self._scorer, "_response_method", None)
        if asked is None:  # a function of the user's, which may ask for anything
            return True
        return (asked if isinstance(asked, str) else next(iter(asked))) == "predict_proba"

    def start(self, problem: Problem, task: Task, splits: Splits) -> Scoring:
        if hasattr(self._scorer, "_response_method") and self.asks_probabilities:
            CalibrationFolds.of(splits)  # raises before the long work where rows are too few
        return RowScoring(self, problem, task, splits)

    def score(self, predictions: Any, rows: Any, problem: Problem, task: Task) -> Any:
        alone = Splits(problem.n, [rows], [np.sort(rows)])
        return self.scores([predictions], alone, problem, task)[0][:, 0]

    def score_splits(
        self, predictions: Sequence[Any], splits: Splits, problem: Problem, task: Task
    ) -> Any:
        return self.scores(predictions, splits, problem, task)[0]

    def scores(
        self, predictions: Sequence[Any], splits: Splits, problem: Problem, task: Task
    ) -> tuple[Any, str | None]:
        """Scores (μ, splits), and why those that are refused have none."""
        scores, refusal = np.full((len(predictions[0]), len(splits)), np.nan), None
        takes_weights = self._request is not False and _takes_weights(self._scorer)
        shifted = [values + problem.offset for values in predictions]
        stand_ins = _StandIns(shifted, splits, task, self._calibration)
        for split, rows in enumerate(splits.tests):
            X, y, weight = take_rows(task.X, rows), task.y[rows], task.weight_of(rows)
            extra = {} if weight is None or not takes_weights else {"sample_weight": weight}
            for number in range(len(scores)):
                try:
                    stand_in = stand_ins.estimator(split, number, X)
                    scores[number, split] = self._scorer(stand_in, X, y, **extra)
                except ValueError as error:
                    refusal = f"the criterion refuses their predictions ({error})"
        if refusal is None and np.isnan(scores).any():
            refusal = (
                "the criterion gives NaN for some held-out rows, as R² does for a single one; use "
                "another criterion, or splits with more rows to test."
            )
        return scores, refusal


class RowScoring(Scoring):
    """Shows a scorer the test rows of each split in the splitter's order."""

    splits: Splits
    task: Task

    def __init__(self, criterion: Scorer, problem: Problem, task: Task, splits: Splits) -> None:
        self.problem, self.splits, self.n_scores = problem, splits, len(splits)
        self.criterion, self.task = criterion, task
        if splits.leave_one_out:
            self._places = [(0, test) for test in splits.tests]
        else:
            pairs = zip(splits.left_out, splits.tests)
            self._places = [(s, np.searchsorted(*pair)) for s, pair in enumerate(pairs)]

    @property
    def collects(self) -> Any:
        return RowScoring, id(self.splits)

    def without_predictions(self, model: Model, alphas: Any) -> Answers | None:
        return None

    def collector(self, model: Model, n_alphas: int, *, hold: bool) -> _Rows:
        return _Rows(self.splits)

    def collected(self, collector: _Rows) -> Answers:
        parts = collector.parts
        blocks = [(part, place, parts[part][:, place]) for part, place in self._places]
        finite = np.all([np.isfinite(values).all(axis=(1, 2)) for _, _, values in blocks], axis=0)
        return Answers(finite, blocks, late=self._scores)

    def _scores(self, answers: Answers) -> tuple[Any, str | None]:
        finite = answers.finite
        predictions = [values if finite.all() else values[finite] for _, _, values in answers.blocks]
        return self.criterion.scores(predictions, self.splits, self.problem, self.task)


class _Rows:
    """Keeps every prediction."""

    def __init__(self, splits: Splits) -> None:
        self._splits, self._blocks = splits, list[HeldoutBlock]()

    def add(self, block: HeldoutBlock) -> None:
        self._blocks.append(block)

    @cached_property
    def parts(self) -> list[Any]:
        """All of them, put together by parts."""
        return whole_parts(self._blocks, self._splits)


def _takes_weights(scorer: Any) -> bool:
    """Whether held-out rows can count by their weight, asked as GridSearchCV asks."""
    if hasattr(scorer, "_accept_sample_weight"):
        return bool(scorer._accept_sample_weight())
    return "sample_weight" in signature(scorer).parameters


def _weight_request(scorer: Any) -> bool | str | None:
    """What a scorer requests by ``set_score_request(sample_weight=...)``; None where it does not."""
    if not get_config()["enable_metadata_routing"] or not hasattr(scorer, "get_metadata_routing"):
        return None
    routing = scorer.get_metadata_routing()
    return routing.score.requests.get("sample_weight") if hasattr(routing, "score") else None


@dataclass(frozen=True)
class _StandIns:
    """Held-out predictions of one kernel, for every split and μ.

    Probabilities of a split, should a scorer ask for them, are calibrated by the test rows of the others
    at the same μ.
    """

    predictions: Sequence[Any]  # (μ, rows, targets) of each split's test rows, in the user's units
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
