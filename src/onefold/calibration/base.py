"""What a calibrator is: decision values in, probabilities of the classes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

_LARGEST = 1e100  # of decision values in units of the typical one: products of two are still numbers


class Calibrator(ABC):
    """Decision values (rows, t), t = 1 for two classes, otherwise t classes, to probabilities."""

    name: ClassVar[str]

    @property
    def columns(self) -> int | None:
        """How many columns of decision values it takes; None for any number."""
        return None

    @classmethod
    @abstractmethod
    def fitted(cls, decision: Any, index: Any, weight: Any) -> list[Self]:
        """One calibrator for each of several models of the same rows.

        Parameters
        ----------
        decision : array (models, rows, t)
        index : int array (rows,)
            Position of each row's label among the classes.
        weight : array (rows,)
            Positive.
        """

    @abstractmethod
    def probabilities(self, decision: Any) -> Any:
        """Probabilities (rows, classes) of decision values (rows, t); every row sums to 1."""

    def log_probabilities(self, decision: Any) -> Any:
        """Their logarithms; −inf where a probability is 0."""
        with np.errstate(divide="ignore"):
            return np.log(self.probabilities(decision))


def one_against_rest(shares: Any) -> Any:
    """Probabilities (rows, classes) from one per column, each class against all others.

    A single column is that of the second class. Several are divided by their sum; where all are 0 every
    class is as likely as any other, as in scikit-learn.
    """
    if shares.shape[1] == 1:
        return np.concatenate([1.0 - shares, shares], axis=1)
    total = shares.sum(axis=1, keepdims=True)
    equal = np.full_like(shares, 1.0 / shares.shape[1])
    return np.divide(shares, total, out=equal, where=total > 0)


def is_class(index: Any, columns: int) -> Any:
    """Whether each row is of each column's class: (rows, columns); a single one is the second class."""
    of_column = np.array([1]) if columns == 1 else np.arange(columns)
    return index[:, None] == of_column[None, :]


def typical_size(values: Any) -> Any:
    """The median (models,) of the sizes of values (models, rows) that are not 0; 1 where all are."""
    sizes = np.abs(values)
    return np.array([float(np.median(row[row > 0])) if row.any() else 1.0 for row in sizes])


def in_units(values: Any, unit: Any) -> Any:
    """Values (models, …) over a unit (models,) of their own, within what can be squared."""
    with np.errstate(over="ignore", under="ignore"):
        scaled = values / unit.reshape(-1, *[1] * (values.ndim - 1))
    return np.clip(scaled, -_LARGEST, _LARGEST)
