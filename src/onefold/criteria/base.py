"""What a criterion is: a number per μ, greater is better."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.approximations import Model, Problem
from onefold.heldout import Splits


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


def label_index(decision: Any) -> Any:
    """Position in ``classes`` of each row's label; a decision value of exactly 0 is the first class."""
    if decision.shape[-1] == 1:
        return (decision[..., 0] > 0).astype(np.intp)
    return decision.argmax(axis=-1)


class HeldoutCriterion(ABC):
    """A score of held-out predictions, split by split."""

    refusal: str | None = None
    """Why the last predictions without a score have none."""

    @abstractmethod
    def score(self, predictions: Any, rows: Any, task: Task) -> Any:
        """One score per μ from the held-out predictions (μ, rows, targets) of the given rows."""

    def score_model(self, model: Model, splits: Splits, alphas: Any) -> Any | None:
        """Scores (μ, splits) that the model can give without making predictions, or None."""
        return None


class ModelCriterion(ABC):
    """A score of the model as a whole, which needs no splits."""

    @abstractmethod
    def score(self, model: Model, problem: Problem, alphas: Any) -> Any:
        """One score per μ."""


Criterion = HeldoutCriterion | ModelCriterion
