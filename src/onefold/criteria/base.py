"""What a criterion is, a number per μ, greater is better; and how one model is scored by several.

A model's held-out predictions are made once, block by block, and every scoring takes from a block what
it needs. Criteria of the model as a whole, and squared errors that a model knows without predictions,
need no blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np

from onefold.approximations import Approximation, Model, Problem
from onefold.heldout import HeldoutBlock, Splits, at_ridge, heldout_blocks, whole_parts
from onefold.linalg import Array, namespace, take_rows


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


class Criterion(ABC):
    """A number per μ, greater is better."""

    needs: ClassVar[Literal["model", "smoother", "matrix", "squares", "sums", "rows"]]
    """What it is made from: the model as a whole; its R(μ), and with it the kernel matrix; squared
    held-out errors, which some models know without predictions; other sums over held-out rows; or all of
    these rows at once."""
    reads_rows: ClassVar[bool] = False  # it looks at the features too

    mean_of_rows: ClassVar[bool] = False  # minus that of `row_losses`: rows compare two models
    asks_probabilities: bool = False  # it may ask for calibrated ones
    must_beat_constant: bool = False  # a choice counts only if its squared error beats a constant's

    @property
    def holds_out(self) -> bool:
        """Whether splits hold rows out for it."""
        return self.needs in ("squares", "sums", "rows")

    @abstractmethod
    def start(self, problem: Problem, task: Task, splits: Splits) -> Scoring:
        """The criterion at work in one search."""

    def check(self, approximation: Approximation) -> None:
        """Raise where models of the approximation cannot be judged by it."""
        if reason := approximation.refusal(self.needs):
            raise ValueError(reason)

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
    """What one model gave for every μ asked of it."""

    finite: Any  # (μ,): where all of it is finite; elsewhere there is no score
    blocks: list[HeldoutBlock]  # held-out predictions, where they were made and held
    values: Any = None  # scores (μ, splits); None where `late` makes them
    ranking: Any = None  # (μ,): what ranks, where that is not the mean score
    late: Callable[[Scored], tuple[Any, str | None]] | None = None  # scores, and why some are NaN
    places: Any = None  # of the μ, among those that there are

    def scores(self) -> tuple[Any, str | None]:
        """Scores (finite μ, splits), and why some are NaN; in the search's thread, as scorers need."""
        return (self.values[self.finite], None) if self.late is None else self.late(self)


def joined(every: Sequence[Scored]) -> Scored:
    """What one model gave for some μ after others, as one."""
    if len(every) == 1:
        return every[0]
    blocks = []
    for same in zip(*(one.blocks for one in every)):
        part, positions, values = same[0]
        blocks.append((part, positions, namespace(values).concat([one[2] for one in same], axis=0)))
    found: dict[str, Any] = {}
    for name in ("finite", "values", "ranking", "places"):
        values = [getattr(one, name) for one in every]
        found[name] = None if values[0] is None else np.concatenate(values)
    return replace(every[0], blocks=blocks, **found)


class Scoring(ABC):
    """A criterion at work in one search: what it compares with is made once."""

    others: Mapping[str, Scoring] = MappingProxyType({})  # recorded of every model, deciding nothing
    predicts = False  # also where a model knows the score without

    def __init__(self, criterion: Any, problem: Problem, task: Task, splits: Splits | None) -> None:
        self.criterion = criterion
        self.problem = problem
        self.task = task
        self.splits = splits  # None for criteria of the model as a whole
        self.n_scores = 1 if splits is None else len(splits)  # per μ

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

    def scored(self, model: Model, alphas: Any) -> Scored:
        """What a model gives this scoring alone; runs in any thread."""
        return scored_by([self], model, alphas)[0]

    @abstractmethod
    def without_predictions(self, model: Model, alphas: Any) -> Scored | None:
        """What a model knows without predictions of the splits; None if they must be made."""

    def holds(self, model: Model, n_alphas: int) -> bool:
        """Whether predictions that its scores do without are kept for the chosen μ."""
        return False

    def added(self, total: Any, block: HeldoutBlock) -> Any:
        """The sums of a part, None at first, with those of one more block of predictions."""
        return None

    def collected(self, totals: list[Any], held: list[HeldoutBlock], parts: list[Any]) -> Scored:
        """What comes of the sums of every part, or from all predictions, put together by parts."""
        raise TypeError(f"{type(self).__name__} does not take predictions")

    def heldout(self, blocks: list[HeldoutBlock], number: int = 0) -> tuple[Any | None, Any | None]:
        """Held-out predictions in the user's units at one of the blocks' μ: of rows, and of splits."""
        if self.splits is None or not blocks:
            return None, None
        add = self.problem.offset
        of_rows, of_splits = at_ridge(blocks, self.splits, number)
        return of_rows + add, of_splits and [values + add for values in of_splits]


def scored_by(scorings: Sequence[Scoring], model: Model, alphas: Any) -> list[Scored]:
    """What a model gives every scoring; all that hold rows out have the same splits."""
    values = np.asarray(alphas, dtype=np.float64).reshape(-1)
    asked_again = len(scorings) > 1 or scorings[0].criterion.needs in ("smoother", "matrix")
    if model.one_by_one and values.size > 1 and asked_again:
        each = [scored_by(scorings, model, values[i : i + 1]) for i in range(values.size)]
        return [joined(same) for same in zip(*each)]
    # Where predictions are made for one criterion, squared errors come from them too.
    predicted = any(scoring.criterion.needs in ("sums", "rows") for scoring in scorings)
    predicted &= not scorings[0].problem.remote  # whose rows are better summed up where they are
    found = [
        None if predicted and scoring.criterion.holds_out else scoring.without_predictions(model, values)
        for scoring in scorings
    ]
    waiting = [scoring for scoring, scored in zip(scorings, found) if scored is None]
    if waiting:
        splits = waiting[0].held_out
        first = waiting[0] is scorings[0]
        hold = first and scorings[0].holds(model, values.size)
        by_rows = any(scoring.criterion.needs == "rows" for scoring in waiting)
        totals: list[list[Any]] = [[None] * len(splits.predicted) for _ in waiting]
        blocks: list[HeldoutBlock] = []
        for block in heldout_blocks(model, splits, values):
            if hold or by_rows:
                blocks.append(block)
            for scoring, sums in zip(waiting, totals):
                sums[block[0]] = scoring.added(sums[block[0]], block)
        parts = whole_parts(blocks, splits) if by_rows else []
        for number, (scoring, sums) in enumerate(zip(waiting, totals)):
            held = blocks if hold and number == 0 else []
            found[scorings.index(scoring)] = scoring.collected(sums, held, parts)
    return [scored for scored in found if scored is not None]
