r"""Sufficient statistics of a basis model, f(x) = φ(x)·β + b, over a set of rows with weights v.

    A = Φᵀ V Φ,   c = Φᵀ V Y,   s = Φᵀ V 1,   w = 1ᵀ V 1,   Σ v y,   Σ v y²

They add over rows: those of a union of disjoint sets are the sum, those of the rest the difference.
Training without a fold is therefore a subtraction, whatever the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Statistics:
    """Float64 NumPy arrays in host memory, whatever device the rows were on.

    Attributes
    ----------
    gram : array (m, m)
    cross : array (m, targets)
    border : array (m,)
    weight : float
    target_sum, target_square : array (targets,)
    count : int
        Number of rows.
    """

    gram: Any
    cross: Any
    border: Any
    weight: float
    target_sum: Any
    target_square: Any
    count: int

    @classmethod
    def zero(cls, m: int, targets: int) -> Statistics:
        """The statistics of no rows."""
        return cls(
            np.zeros((m, m)), np.zeros((m, targets)), np.zeros(m), 0.0,
            np.zeros(targets), np.zeros(targets), 0,
        )  # fmt: skip

    def __add__(self, other: Statistics) -> Statistics:
        return self._combined(other, 1)

    def __sub__(self, other: Statistics) -> Statistics:
        return self._combined(other, -1)

    def _combined(self, other: Statistics, sign: int) -> Statistics:
        def join(mine: Any, theirs: Any) -> Any:
            return mine + theirs if sign > 0 else mine - theirs

        return Statistics(
            join(self.gram, other.gram),
            join(self.cross, other.cross),
            join(self.border, other.border),
            join(self.weight, other.weight),
            join(self.target_sum, other.target_sum),
            join(self.target_square, other.target_square),
            join(self.count, other.count),
        )

    def absorb(self, other: Statistics) -> Statistics:
        """``self + other``, over the arrays of `self`: for a running sum that nobody else holds."""
        for mine, theirs in zip(self._arrays(), other._arrays()):
            mine += theirs
        return replace(self, weight=self.weight + other.weight, count=self.count + other.count)

    def _arrays(self) -> tuple[Any, ...]:
        return self.gram, self.cross, self.border, self.target_sum, self.target_square

    def select(self, index: Any) -> Statistics:
        """The statistics of the model with only the given basis functions: a slice, no new pass."""
        index = np.asarray(index, dtype=np.intp)
        return Statistics(
            self.gram[np.ix_(index, index)], self.cross[index], self.border[index], self.weight,
            self.target_sum, self.target_square, self.count,
        )  # fmt: skip

    def rotated(self, T: Any) -> Statistics:
        """The statistics in the features φ(x)·T."""
        return Statistics(
            T.T @ self.gram @ T, T.T @ self.cross, T.T @ self.border, self.weight,
            self.target_sum, self.target_square, self.count,
        )  # fmt: skip
