r"""Sufficient statistics of a basis model, f(x) = φ(x)·β + b, over a set of rows with weights v.

    A = Φᵀ V Φ,   c = Φᵀ V Y,   s = Φᵀ V 1,   w = 1ᵀ V 1,   Σ v y,   Σ v y²

They add over rows: those of a union of disjoint sets are the sum, those of the rest the difference.
Training without a fold is therefore a subtraction, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from onefold.linalg import Array, submatrix, take_rows, to_numpy, zeros

_ARRAYS = ("gram", "cross", "border", "target_sum", "target_square")


@dataclass(frozen=True)
class Statistics:
    """Float64 arrays, in the library and on the device where the rows were worked on.

    Attributes
    ----------
    gram : array (m, m)
    cross : array (m, targets)
    border : array (m,)
    weight : float or array of no dimension
    target_sum, target_square : array (targets,)
    count : int
        Number of rows.
    """

    gram: Any
    cross: Any
    border: Any
    weight: Any
    target_sum: Any
    target_square: Any
    count: int

    @classmethod
    def zero(cls, m: int, targets: int, reference: Array) -> Statistics:
        """The statistics of no rows, beside `reference`."""
        shapes = ((m, m), (m, targets), (m,), (targets,), (targets,))
        gram, cross, border, sums, squares = (zeros(shape, reference) for shape in shapes)
        return cls(gram, cross, border, 0.0, sums, squares, 0)

    @classmethod
    def total(cls, parts: Sequence[Statistics]) -> Statistics:
        """The statistics of all rows of disjoint sets."""
        found = parts[0]
        for other in parts[1:]:
            found = found + other
        return found

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(*(mine + theirs for mine, theirs in zip(self._fields(), other._fields())))

    def __sub__(self, other: Statistics) -> Statistics:
        return Statistics(*(mine - theirs for mine, theirs in zip(self._fields(), other._fields())))

    def absorb(self, other: Statistics) -> Statistics:
        """``self + other``, over the arrays of `self`: for a running sum that nobody else holds."""
        for name in _ARRAYS:
            mine = getattr(self, name)
            mine += getattr(other, name)
        return replace(self, weight=self.weight + other.weight, count=self.count + other.count)

    def _fields(self) -> tuple[Any, ...]:
        sums = self.target_sum, self.target_square
        return self.gram, self.cross, self.border, self.weight, *sums, self.count

    def select(self, index: Any) -> Statistics:
        """The statistics of the model with only the given basis functions: a slice, no new pass."""
        gram, cross = submatrix(self.gram, index, index), take_rows(self.cross, index)
        return replace(self, gram=gram, cross=cross, border=take_rows(self.border, index))

    def on_host(self) -> Statistics:
        """The same in NumPy arrays."""
        arrays = {name: to_numpy(getattr(self, name)) for name in _ARRAYS}
        return replace(self, weight=float(self.weight), **arrays)

    def rotated(self, T: Any) -> Statistics:
        """The statistics in the features φ(x)·T."""
        gram = T.T @ self.gram @ T
        return replace(self, gram=gram, cross=T.T @ self.cross, border=T.T @ self.border)
