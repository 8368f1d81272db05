"""What a criterion is: a number per μ, greater is better.

A search starts a criterion on its rows, which gives a `Scoring`. A scoring starts an `Accumulator` for
every model: it takes the model's held-out predictions block by block, and its result is the scores. What
a model knows without predictions (criteria of the whole model, and squared errors of some models) comes
from `Scoring.shortcut`.

`ask` puts one model to several criteria for all its ridges, so that nothing is factorised or predicted
twice. The first criterion decides, and the others are recorded. All that hold rows out have the same
splits, and every block of predictions is given to the accumulator of each. Ridges that cannot be solved,
and those on whose predictions a criterion fails, have no scores, and the reason is kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np

from onefold.approximations import Approximation, Model, Problem
from onefold.heldout import HeldoutBlock, Splits, at_ridge, heldout_blocks
from onefold.linalg import Array, namespace, take_rows
from onefold.smoothers.base import Failure, attempt


@dataclass(frozen=True)
class Task:
    """What the targets mean."""

    X: Any  # rows, for scorers that look at them
    y: Any  # NumPy array, as the user gave it: labels (n,), or numbers (n,) or (n, targets)
    classes: Any  # sorted labels of a classifier, or None
    sample_weight: Any = None  # as the user gave it: held-out rows count by it too, as in scikit-learn
    class_weight: Any = None  # (classes,): what the weight of each row was multiplied by, or None

    @property
    def labels(self) -> Any | None:
        """The labels of all rows; None where targets are numbers."""
        return None if self.classes is None else self.y

    def weight_of(self, rows: Any) -> Any | None:
        """The weights of the given rows."""
        return None if self.sample_weight is None else self.sample_weight[rows]

    def rows(self, rows: Any) -> Task:
        """The task of some of the rows."""
        X = take_rows(self.X, rows)
        return replace(self, X=X, y=self.y[rows], sample_weight=self.weight_of(rows))


def label_index(decision: Array) -> Array:
    """Position in ``classes`` of each row's label; a decision value of exactly 0 is the first class."""
    xp = namespace(decision)
    if decision.shape[-1] == 1:
        return xp.astype(decision[..., 0] > 0, xp.int64)
    return xp.argmax(decision, axis=-1)


Needs = Literal["model", "smoother", "matrix", "squares", "sums", "rows"]
"""What a criterion is computed from: the model as a whole; its R(μ); R(μ) and the kernel matrix; squared
held-out errors, which some models know without predictions; other sums over held-out rows; or all of
these rows at once."""

NOT_FINITE = (
    "their scores or held-out predictions are not finite; use larger alphas, or scale the features."
)


class Criterion(ABC):
    """A number per μ, greater is better."""

    needs: ClassVar[Needs]
    reads_rows: ClassVar[bool] = False  # whether it looks at the features too
    mean_of_rows: ClassVar[bool] = False  # whether it is minus the mean of `row_losses`
    asks_probabilities: bool = False  # whether it may ask for calibrated probabilities
    must_beat_constant: bool = False  # whether a choice counts only if it beats a constant prediction

    @property
    def holds_out(self) -> bool:
        """Whether splits hold rows out for it."""
        return self.needs in ("squares", "sums", "rows")

    @abstractmethod
    def start(self, problem: Problem, task: Task, splits: Splits) -> Scoring:
        """The criterion on the rows of one search."""

    def check(self, approximation: Approximation) -> None:
        """Raise where it cannot judge models of the approximation, for a reason other than its needs."""

    def for_several_kernels(self) -> Criterion:
        """The criterion that ranks the cells of several kernels."""
        return self

    def row_losses(self, predictions: Any, Y: Any) -> Any:
        """The loss of every row, for predictions and targets (n, targets); NaN where there is none."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.sum((predictions - Y) ** 2, axis=1)

    def row_errors(self, predictions: Any, Y: Any) -> Any | None:
        """1 for rows with a wrong label, 0 for others, NaN without predictions; None if none counts."""
        return None

    def score_splits(
        self, predictions: Sequence[Any], splits: Splits, problem: Problem, task: Task
    ) -> Any:
        """Scores (μ, splits) from NumPy predictions (μ, rows, targets) of each split's test rows."""
        raise TypeError(f"{type(self).__name__} does not score held-out rows")


@dataclass(frozen=True)
class Scored:
    """The scores of one model, for every μ that it was asked about."""

    scores: Any  # (μ, splits); NaN where the predictions or scores are not finite
    ranks: Any = None  # (μ,): what μ are compared by; None for the mean of their scores
    reason: str | None = None  # why some scores are NaN

    @classmethod
    def of(cls, scores: Any, finite: Any, ranks: Any = None, reason: str | None = None) -> Scored:
        """Scores (μ, splits) that count only for the μ (μ,) of which everything is finite."""
        missing = ~finite
        scores = np.where(missing[:, None], np.nan, scores)
        ranks = None if ranks is None else np.where(missing, np.nan, ranks)
        return cls(scores, ranks, NOT_FINITE if missing.any() else reason)

    @classmethod
    def failed(cls, n_alphas: int, n_scores: int, reason: str) -> Scored:
        """No scores, and why."""
        return cls(np.full((n_alphas, n_scores), np.nan), reason=reason)

    def result(self) -> Scored:
        """Itself: an answer to which no more blocks are added."""
        return self


class Accumulator(ABC):
    """Takes the held-out predictions of one model, block by block, and gives their scores."""

    @abstractmethod
    def add(self, block: HeldoutBlock) -> None:
        """Take one more block; in any thread."""

    @abstractmethod
    def result(self) -> Scored:
        """The scores of all blocks; in the thread of the search, as a user's scorers need it."""


class Scoring(ABC):
    """A criterion on the rows of one search: what predictions are compared with is computed once."""

    compares_rows = False  # whether predictions are made even where `shortcut` would do without

    def __init__(self, criterion: Any, problem: Problem, task: Task, splits: Splits | None) -> None:
        self.criterion = criterion
        self.problem = problem
        self.task = task
        self.splits = splits  # None for criteria of the model as a whole
        self.n_scores = 1 if splits is None else len(splits)  # per μ

    def comparing_rows(self) -> Self:
        """The same, with predictions of every model: a strategy compares their rows."""
        scoring = copy(self)
        scoring.compares_rows = True
        return scoring

    @property
    def held_out(self) -> Splits:
        """The splits; raise where the criterion holds nothing out."""
        if self.splits is None:
            raise ValueError(
                'the criterion does not use held-out rows; use one that does, such as "mse" or "error".'
            )
        return self.splits

    @property
    def parts(self) -> Any | None:
        """The rows left out of training in turn; None where nothing is held out."""
        return None if self.splits is None else self.splits.left_out

    @property
    def targets(self) -> Any:
        """The targets (n, targets) in the user's units, in NumPy."""
        return self.problem.targets + self.problem.offset

    @property
    def training_weights(self) -> Any:
        """Weights (n,) of the loss that models are trained with, those of classes included."""
        weight = self.problem.weight
        return np.ones(self.problem.n) if weight is None else weight

    def row_losses(self, predictions: Any, rows: Any = slice(None)) -> Any:
        """The criterion's loss of every row, or of some, for their predictions in the user's units."""
        Y = self.problem.targets[rows]
        return self.criterion.row_losses(predictions - self.problem.offset, Y)

    def row_errors(self, predictions: Any) -> Any | None:
        """Which rows have a wrong label, for predictions in the user's units; None if none counts."""
        return self.criterion.row_errors(predictions - self.problem.offset, self.problem.targets)

    @abstractmethod
    def shortcut(self, model: Model, alphas: Any) -> Scored | None:
        """The scores of a model that needs no predictions for them; None if they must be made."""

    def start(self) -> Accumulator:
        """What takes the predictions of one model."""
        raise TypeError(f"{type(self).__name__} does not take predictions")

    def keeps_predictions(self, model: Model, n_alphas: int) -> bool:
        """Whether all predictions are kept until the search has chosen a μ."""
        return False

    def scored(self, model: Model, alphas: Any) -> Scored:
        """The scores of a model."""
        scored = self.shortcut(model, alphas)
        if scored is not None:
            return scored
        accumulator = self.start()
        for block in heldout_blocks(model, self.held_out, alphas):
            accumulator.add(block)
        return accumulator.result()

    def heldout(self, blocks: list[HeldoutBlock], number: int = 0) -> tuple[Any | None, Any | None]:
        """Held-out predictions in the user's units at one of the blocks' μ: of rows, and of splits."""
        if self.splits is None or not blocks:
            return None, None
        offset = self.problem.offset
        of_rows, of_splits = at_ridge(blocks, self.splits, number)
        if of_splits is not None:
            of_splits = [values + offset for values in of_splits]
        return of_rows + offset, of_splits


@dataclass(frozen=True)
class Answer:
    """What a model gave some criteria for some of its ridges."""

    places: Any  # numbers of these ridges, among all that it was asked about
    scored: Mapping[str, Scored | Accumulator]  # by the name of the criterion
    blocks: list[HeldoutBlock]  # held-out predictions for these ridges; empty unless they are kept

    def result(self, name: str, scoring: Scoring) -> Scored:
        """The scores of a criterion, or why there are none; in the thread of the search."""
        scored = attempt(self.scored[name].result, (Exception,), why_criterion_fails)
        if isinstance(scored, Failure):
            return Scored.failed(len(self.places), scoring.n_scores, scored.reason)
        return scored


def why_criterion_fails(error: Exception) -> str:
    """What a criterion or a scorer says, with the kind of any error other than ValueError."""
    cause = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return f"the criterion fails on their predictions ({cause})"


def ask(
    model: Model, scorings: Mapping[str, Scoring], alphas: Any
) -> tuple[list[Answer], dict[int, str]]:
    """What a model gives every criterion, and by their places why ridges have nothing; in any thread.

    The first of the scorings decides: its predictions are kept if it says so.
    """
    numbers = np.arange(len(alphas))
    singles = np.split(numbers, numbers.size)
    needs = {scoring.criterion.needs for scoring in scorings.values()}
    # A factor that is replaced by that of the next ridge must answer all criteria before.
    several_questions = len(scorings) > 1 or not needs.isdisjoint({"smoother", "matrix"})
    one_by_one = model.one_by_one and several_questions
    attempts = [singles] if one_by_one else [[numbers], [numbers], singles]
    reasons: dict[int, str] = {}
    answers: list[Answer] = []
    # A model remembers the ridges at which it could not be solved, and `Model.usable` leaves them out:
    # the second attempt is that of all others, and the third asks about each ridge by itself.
    for pieces in attempts:
        for piece in pieces:
            answer = attempt(partial(_answers, model, scorings, alphas, piece))
            if isinstance(answer, Failure):
                reasons |= dict.fromkeys(piece.tolist(), answer.reason)
            else:
                answers += answer
        if answers:
            break
    return answers, reasons


def _answers(model: Model, scorings: Mapping[str, Scoring], alphas: Any, numbers: Any) -> list[Answer]:
    """What a model gives for these ridges; criteria with the same usable ridges are asked together."""
    groups: dict[bytes, tuple[Any, dict[str, Scoring]]] = {}
    for name, scoring in scorings.items():
        places = numbers[model.usable(scoring.parts, alphas[numbers])]
        _, group = groups.setdefault(places.tobytes(), (places, {}))
        group[name] = scoring
    decisive = next(iter(scorings.values()))
    answers = []
    for places, group in groups.values():
        if places.size:
            answers.append(_answer(model, group, decisive, alphas[places], places))
    return answers


def _answer(
    model: Model, scorings: Mapping[str, Scoring], decisive: Scoring, alphas: Any, places: Any
) -> Answer:
    """What a model gives for usable ridges."""
    # Where predictions are made for one criterion, squared errors come from them too; but rows on other
    # machines are better summed up there.
    predicted = any(scoring.criterion.needs in ("sums", "rows") for scoring in scorings.values())
    predicted &= not decisive.problem.remote
    scored: dict[str, Scored | Accumulator] = {}
    accumulators: dict[str, Accumulator] = {}
    for name, scoring in scorings.items():
        shortcut = None if predicted and scoring.splits is not None else scoring.shortcut(model, alphas)
        if shortcut is None:
            accumulators[name] = scoring.start()
        scored[name] = accumulators[name] if shortcut is None else shortcut
    blocks: list[HeldoutBlock] = []
    if accumulators:
        kept = any(scorings[name] is decisive for name in accumulators)
        kept = kept and decisive.keeps_predictions(model, len(alphas))
        splits = scorings[next(iter(accumulators))].held_out
        for block in heldout_blocks(model, splits, alphas):
            if kept:
                blocks.append(block)
            for name, accumulator in list(accumulators.items()):
                added = attempt(partial(accumulator.add, block), (Exception,), why_criterion_fails)
                if isinstance(added, Failure):
                    scored[name] = Scored.failed(len(places), scorings[name].n_scores, added.reason)
                    del accumulators[name]
    return Answer(places, scored, blocks)
