"""Scorers of scikit-learn as criteria: they need every held-out row of a split at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from onefold.approximations import Model, Problem
from onefold.criteria.asking import Listener
from onefold.criteria.base import Answers, HeldoutCriterion, Scoring, Task
from onefold.heldout import HeldoutBlock, Splits, whole_parts
from onefold.linalg import take_rows


class Scorer(HeldoutCriterion):
    """A scikit-learn scorer, shown the held-out predictions through a stand-in for the estimator.

    Predictions that it refuses have no score (NaN), as in GridSearchCV.
    """

    needs = "rows"

    def __init__(self, scorer: Callable[..., float]) -> None:
        self._scorer = scorer
        self._request = _weight_request(scorer)  # now: threads of the search have no such setting
        if isinstance(self._request, str):
            raise ValueError(
                f"the scorer asks for weights under the name {self._request!r}, and a search has "
                "those of fit; use set_score_request(sample_weight=True), or False."
            )

    def start(self, problem: Problem, task: Task, splits: Splits) -> Scoring:
        return RowScoring(self, problem, task, splits)

    def score(self, predictions: Any, rows: Any, problem: Problem, task: Task) -> Any:
        return self.judge(predictions, rows, problem, task)[0]

    def judge(self, predictions: Any, rows: Any, problem: Problem, task: Task) -> tuple[Any, str | None]:
        """One score per μ, and why those that are refused have none."""
        X = take_rows(task.X, rows)
        y = task.y[rows]
        stand_in = _HeldoutRegressor if task.classes is None else _HeldoutClassifier
        weight = task.weight_of(rows)
        wanted = weight is not None and self._request is not False and _takes_weights(self._scorer)
        extra = {"sample_weight": weight} if wanted else {}
        scores, refusal = np.full(len(predictions), np.nan), None
        for index, values in enumerate(predictions):
            given = values if problem.offset is None else values + problem.offset
            try:
                scores[index] = self._scorer(stand_in(given, X, task), X, y, **extra)
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
    def hears(self) -> Any:
        return RowScoring, id(self.splits)

    def at_once(self, model: Model, alphas: Any) -> Answers | None:
        return None

    def listener(self, model: Model, n_alphas: int, *, hold: bool) -> Listener:
        return _Rows(self.splits)

    def from_heard(self, heard: _Rows) -> Answers:
        parts = heard.parts
        blocks = [(part, place, parts[part][:, place]) for part, place in self._places]
        finite = np.all([np.isfinite(values).all(axis=(1, 2)) for _, _, values in blocks], axis=0)
        return _RowAnswers(finite, blocks, self)

    def judge(self, answers: Answers) -> tuple[Any, str | None]:
        """Scores (finite μ, splits), and why some are NaN."""
        finite, why = answers.finite, None
        scores = np.empty((np.count_nonzero(finite), self.n_scores))
        for split, ((_, _, values), rows) in enumerate(zip(answers.blocks, self.splits.tests)):
            values = values if finite.all() else values[finite]
            scores[:, split], refusal = self.criterion.judge(values, rows, self.problem, self.task)
            why = refusal or why
        return scores, why


class _Rows(Listener):
    """Keeps every prediction."""

    def __init__(self, splits: Splits) -> None:
        self._splits, self._blocks = splits, list[HeldoutBlock]()

    def add(self, block: HeldoutBlock) -> None:
        self._blocks.append(block)

    @cached_property
    def parts(self) -> list[Any]:
        """All of them, put together by parts."""
        return whole_parts(self._blocks, self._splits)


@dataclass(frozen=True)
class _RowAnswers(Answers):
    """Predictions that are yet to be scored."""

    scoring: RowScoring

    def scores(self) -> tuple[Any, str | None]:
        return self.scoring.judge(self)


def _takes_weights(scorer: Any) -> bool:
    """Whether held-out rows can count by their weight, asked as GridSearchCV asks."""
    if hasattr(scorer, "_accept_sample_weight"):
        return bool(scorer._accept_sample_weight())
    return "sample_weight" in signature(scorer).parameters


def _weight_request(scorer: Any) -> bool | str | None:
    """What a scorer has said by ``set_score_request(sample_weight=...)``; None where it has not."""
    if not get_config()["enable_metadata_routing"] or not hasattr(scorer, "get_metadata_routing"):
        return None
    routing = scorer.get_metadata_routing()
    return routing.score.requests.get("sample_weight") if hasattr(routing, "score") else None


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
    @property
    def classes_(self) -> Any:
        return self.task.classes

    def decision_function(self, X: Any) -> Any:
        values = self._for(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: Any) -> Any:
        return self.task.labels(self._for(X))
