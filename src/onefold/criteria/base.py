"""What a criterion is: a number per μ, greater is better."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy as np

from onefold.approximations import Model, Problem
from onefold.criteria.asking import Listener, answers_of, joined_blocks
from onefold.heldout import HeldoutBlock, Splits, by_split, gather, heldout_blocks
from onefold.linalg import Array, namespace


@dataclass(frozen=True)
class Task:
    """What the targets mean.

    Attributes
    ----------
    X : array, CSR matrix or None
        Rows, for scorers that look at them.
    y : NumPy array
        Labels (n,), or numbers (n,) or (n, targets), as the user gave them.
    classes : NumPy array or None
        Sorted labels of a classifier.
    sample_weight : NumPy array or None
        As the user gave it: held-out rows count by it too, as in scikit-learn.
    """

    X: Any
    y: Any
    classes: Any
    sample_weight: Any = None

    def weight_of(self, rows: Any) -> Any | None:
        """The weights of the given rows."""
        return None if self.sample_weight is None else self.sample_weight[rows]

    def labels(self, decision: Any) -> Any:
        """Labels from decision values (rows, targets): sign for two classes, else the largest."""
        return self.classes[label_index(decision)]


def label_index(decision: Array) -> Array:
    """Position in ``classes`` of each row's label; a decision value of exactly 0 is the first class."""
    xp = namespace(decision)
    if decision.shape[-1] == 1:
        return xp.astype(decision[..., 0] > 0, xp.int64)
    return xp.argmax(decision, axis=-1)


class Criterion(ABC):
    """A number per μ, greater is better."""

    needs: ClassVar[Literal["model", "smoother", "squares", "sums", "rows"]]
    """What it is made from: the model as a whole; its R(μ); squared held-out errors, which some models
    know without predictions; other sums over held-out rows; or all of these rows at once."""

    @property
    def holds_out(self) -> bool:
        """Whether splits hold rows out for it."""
        return self.needs in ("squares", "sums", "rows")

    @property
    def asks_probabilities(self) -> bool:
        """Whether it may ask for calibrated probabilities."""
        return False

    @abstractmethod
    def start(self, problem: Problem, task: Task, splits: Splits) -> Scoring:
        """The criterion at work in one search."""


class HeldoutCriterion(Criterion):
    """A score of held-out predictions, split by split."""

    @abstractmethod
    def score(self, predictions: Any, rows: Any, problem: Problem, task: Task) -> Any:
        """One score per μ from the predictions (μ, rows, targets) of the given rows.

        Predictions are NumPy arrays in the problem's units.
        """

    def score_splits(
        self, predictions: Sequence[Any], splits: Splits, problem: Problem, task: Task
    ) -> Any:
        """Scores (μ, splits) from the predictions (μ, rows, targets) of each split's test rows."""
        pairs = zip(predictions, splits.tests)
        return np.stack([self.score(values, rows, problem, task) for values, rows in pairs], axis=1)


@dataclass(frozen=True)
class Answers(ABC):
    """What one model gave for every μ asked of it.

    Attributes
    ----------
    finite : bool array (μ,)
        Where all of it is finite; elsewhere there is no score.
    blocks : list of HeldoutBlock
        The held-out predictions, where they were made and held; empty otherwise.
    """

    finite: Any
    blocks: list[HeldoutBlock]

    def ranks(self) -> Any | None:
        """What the finite μ are ranked by, where that is not their mean score; greater is better."""
        return None

    @abstractmethod
    def scores(self) -> tuple[Any, str | None]:
        """Scores (finite μ, splits), and why some of them are NaN.

        Called in the thread of the search: scikit-learn's configuration is local to it.
        """

    def joined(self, rest: Sequence[Self]) -> Self:
        """These answers and those of the same model for the μ that follow, as one."""
        every = [self, *rest]
        finite = np.concatenate([one.finite for one in every])
        return replace(self, finite=finite, blocks=joined_blocks([one.blocks for one in every]))


@dataclass(frozen=True)
class ScoredAnswers(Answers):
    """Answers that were scores already.

    `values` has shape (μ, splits), `ranking` (μ,) where the scores themselves do not rank.
    """

    values: Any
    ranking: Any = None

    def scores(self) -> tuple[Any, str | None]:
        return self.values[self.finite], None

    def ranks(self) -> Any | None:
        return None if self.ranking is None else self.ranking[self.finite]

    def joined(self, rest: Sequence[Self]) -> Self:
        every, ranking = [self, *rest], None
        if self.ranking is not None:
            ranking = np.concatenate([one.ranking for one in every])
        values = np.concatenate([one.values for one in every])
        return replace(super().joined(rest), values=values, ranking=ranking)


class Scoring(ABC):
    """A criterion at work in one search: what it compares with is made once.

    Attributes
    ----------
    criterion : Criterion
    task : Task or None
        None for criteria of the model as a whole.
    splits : Splits or None
        None for criteria of the model as a whole.
    n_scores : int
        Scores per μ: one for each split, or one for the model.
    others : mapping from str to Scoring
        What else is recorded of every model, and decides nothing.
    """

    criterion: Any
    task: Task | None = None
    splits: Splits | None
    n_scores: int
    problem: Problem
    others: Mapping[str, Scoring] = MappingProxyType({})

    @property
    def held_out(self) -> Splits:
        """The splits; raise where the criterion holds nothing out."""
        if self.splits is None:
            raise ValueError(
                'the criterion holds no rows out; use one of held-out rows, such as "mse" or "error".'
            )
        return self.splits

    @property
    def parts(self) -> Any | None:
        """The rows left out of training in turn; None where nothing is held out."""
        return None if self.splits is None else self.splits.left_out

    @property
    def hears(self) -> Any:
        """The same for scorings that listen to the same: one listener serves them."""
        return id(self)

    def answers(self, model: Model, alphas: Any) -> Answers:
        """What a model has to say; runs in any thread."""
        return answers_of([self], model, alphas)[0]

    @abstractmethod
    def at_once(self, model: Model, alphas: Any) -> Answers | None:
        """What a model says without predictions of the splits; None if it must be listened to."""

    def listener(self, model: Model, n_alphas: int, *, hold: bool) -> Listener:
        """What takes its predictions; `hold` lets it keep them for the chosen μ."""
        raise TypeError(f"{type(self).__name__} listens to no predictions")

    def from_heard(self, heard: Any) -> Answers:
        """The answers, once its listener has all predictions."""
        raise TypeError(f"{type(self).__name__} listens to no predictions")

    def heldout(self, blocks: list[HeldoutBlock], number: int = 0) -> tuple[Any | None, Any | None]:
        """Held-out predictions in the user's units at one of the blocks' μ.

        Returns
        -------
        of_rows : array (rows, targets) or None
            The mean over the splits that test a row.
        of_splits : list of arrays (tested rows, targets) or None
            What each split's score is made from, where some row is tested more than once: the mean of
            several models predicts better than any of them.
        """
        if self.splits is None or not blocks:
            return None, None
        add = 0.0 if self.problem.offset is None else self.problem.offset
        of_rows = gather(blocks, self.splits, number) + add
        if not self.splits.repeated:
            return of_rows, None
        return of_rows, [values + add for values in by_split(blocks, self.splits, number)]

    def heldout_at(self, model: Model, alpha: float) -> tuple[Any | None, Any | None]:
        """The same, predicted for this one μ."""
        if self.splits is None:
            return None, None
        return self.heldout(list(heldout_blocks(model, self.splits, [alpha])))
