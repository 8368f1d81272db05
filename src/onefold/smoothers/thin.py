r"""R(μ) of a matrix K = B Bᵀ given by a thin B = U σ Zᵀ, without BᵀB.

    R = I − U [λ/(λ+μ)] Uᵀ,   λ = σ²

U is orthonormal to eps whatever the size of σ, so that R has the absolute error eps for every μ. From
the eigenvectors of BᵀB it would have that of eps · λ_max / μ: as much again as the problem itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.linalg import Array
from onefold.machine.threads import check_stop
from onefold.smoothers.dense import DenseSmoother, Operator


class ThinSmoother(DenseSmoother):
    """R_b(μ) from orthonormal columns.

    Parameters
    ----------
    columns : array (n, r)
        U.
    values : array (r,)
        λ.
    border : array (n,) or None
        s of the intercept.
    """

    def __init__(self, columns: Array, values: Array, border: Array | None) -> None:
        super().__init__(columns.shape[0], border)
        self._columns, self._values = columns, values

    def operators(self, alphas: Any) -> Iterator[Operator]:
        for alpha in np.asarray(alphas, dtype=np.float64).reshape(-1):
            check_stop()
            yield _Shrunk(self._columns, self._values, float(alpha))

    def diagonals(self, alphas: Any) -> Array:
        """The diagonal of R_b, shape (μ, n), for columns that are orthogonal to the border."""
        found = np.array([operator.diagonal() for operator in self.operators(alphas)])
        return found if self.border is None else found - self.border**2 / (self.border @ self.border)


@dataclass(frozen=True)
class _Shrunk(Operator):
    """I − U [λ/(λ+μ)] Uᵀ."""

    columns: Array
    values: Array
    alpha: float

    @property
    def _shares(self) -> Array:
        return self.values / (self.values + self.alpha)

    def apply(self, Y: Array) -> Array:
        return Y - self.columns @ (self._shares[:, None] * (self.columns.T @ Y))

    def solve_signal(self, Y: Array) -> Array:
        return self.columns @ ((self.columns.T @ Y) / (self.values + self.alpha)[:, None])

    def block(self, rows: Array) -> Array:
        factor = self.columns[rows] * np.sqrt(self._shares)[None, :]
        block = factor @ factor.T
        np.negative(block, out=block)
        np.einsum("ii->i", block)[...] += 1.0
        return block

    def diagonal(self) -> Array:
        return 1.0 - np.einsum("ij,ij,j->i", self.columns, self.columns, self._shares)

    def logdet(self) -> Array:
        n, rank = self.columns.shape
        return np.sum(np.log(self.values + self.alpha)) + (n - rank) * np.log(self.alpha)
