"""Scorers of scikit-learn as criteria: they need every held-out row of a split at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
from sklearn import get_config

from onefold.approximations import Model, Problem
from onefold.calibration import CalibrationFolds
from onefold.criteria.asking import Listener
from onefold.criteria.base import Answers, HeldoutCriterion, Scoring, Task
from onefold.criteria.shown import Shown
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
        return self.judge([predictions], alone, problem, task)[0][:, 0]

    def score_splits(
        self, predictions: Sequence[Any], splits: Splits, problem: Problem, task: Task
    ) -> Any:
        return self.judge(predictions, splits, problem, task)[0]

    def judge(
        self, predictions: Sequence[Any], splits: Splits, problem: Problem, task: Task
    ) -> tuple[Any, str | None]:
        """Scores (μ, splits), and why those that are refused have none."""
        scores, refusal = np.full((len(predictions[0]), len(splits)), np.nan), None
        takes_weights = self._request is not False and _takes_weights(self._scorer)
        if problem.offset is not None:
            predictions = [values + problem.offset for values in predictions]
        shown = Shown(predictions, splits, task, self._calibration)
        for split, rows in enumerate(splits.tests):
            X, y, weight = take_rows(task.X, rows), task.y[rows], task.weight_of(rows)
            extra = {} if weight is None or not takes_weights else {"sample_weight": weight}
            for number in range(len(scores)):
                try:
                    stand_in = shown.estimator(split, number, X)
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
        finite = answers.finite
        predictions = [values if finite.all() else values[finite] for _, _, values in answers.blocks]
        return self.criterion.judge(predictions, self.splits, self.problem, self.task)


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
