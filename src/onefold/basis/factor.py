r"""Triangular factors of rows: what a Gram matrix tells of a basis model, without squaring anything.

With the columns [1 V Y] of a set of rows, each row times √weight, and their factorisation Q F,

        ⎡ f₀  m_V  m_Y ⎤
    F = ⎢     A    C   ⎥      A and C are those of columns about their means: the constant comes first
        ⎣          E   ⎦

min ‖y − Vθ − b‖² + μ‖θ‖² has the solution θ = Z (σ / (σ² + μ)) Pᵀ C from A = P σ Zᵀ, and the squared
error of any θ and b over the rows is ‖F [b θ −1]‖². The factor of a union of sets is that of their
factors on top of each other. Squared sums lose half of the digits; these lose none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.basis.ridge import Solution, mapped

_WORK = 4 * 10**9  # multiply-adds of a Gram matrix, below which its rows are factorised instead
_SIZE = 2**24  # features held in memory for it


def uses_factors(n: int, m: int) -> bool:
    """Whether a model of `m` landmarks on `n` rows is trained from factors of its rows."""
    return n * m**2 <= _WORK and n * m <= _SIZE


@dataclass(frozen=True)
class Factor:
    """F of a set of rows, in host memory: at most as many rows as columns."""

    matrix: Any  # (rows, border + r + targets)
    targets: int
    border: int  # 1 with an intercept, 0 without
    weight: float  # sum of the rows' weights

    @classmethod
    def of(cls, features: Any, Y: Any, root: Any | None, *, fit_intercept: bool) -> Factor:
        """Of whitened features (rows, r) and targets; `root` holds √weights. O(rows · r²) time."""
        rows = len(features)
        columns = [np.ones((rows, 1)), features, Y] if fit_intercept else [features, Y]
        stacked = np.hstack(columns)
        if root is not None:
            stacked *= root[:, None]
        weight = float(rows) if root is None else float(root @ root)
        return cls(np.linalg.qr(stacked, mode="r"), Y.shape[1], int(fit_intercept), weight)

    @classmethod
    def union(cls, parts: Sequence[Factor]) -> Factor:
        """Of all rows of disjoint sets together."""
        stacked = np.vstack([part.matrix for part in parts])
        weight = float(sum(part.weight for part in parts))
        return cls(np.linalg.qr(stacked, mode="r"), parts[0].targets, parts[0].border, weight)

    def squared_error(self, theta: Any, intercept: Any) -> Any:
        """Σ v ‖y − Vθ − b‖² over the rows, for θ (r, μ, t) and b (μ, t): shape (μ, t)."""
        start, stop = self.border, self.matrix.shape[1] - self.targets
        error = mapped(self.matrix[:, start:stop], theta) - self.matrix[:, None, stop:]
        if self.border:
            error += self.matrix[:, :1, None] * intercept[None]
        return np.einsum("rat,rat->at", error, error)


class FactorPath:
    """θ and b for any μ. O(20 r³) once."""

    def __init__(self, factor: Factor) -> None:
        start, stop = factor.border, factor.matrix.shape[1] - factor.targets
        # Fewer rows than columns: the missing ones are zero.
        full = np.zeros((stop, factor.matrix.shape[1]))
        full[: min(stop, len(factor.matrix))] = factor.matrix[:stop]
        self._first, self._stop = full[:start], stop
        P, values, Zt = np.linalg.svd(full[start:, start:stop], full_matrices=False)
        # What is rounding of the largest is nothing: divided by a tiny ridge it would not be.
        keep = values > values.size * np.finfo(float).eps * values.max(initial=0.0)
        self._values, self._vectors = values[keep], Zt[keep].T
        self._projected = P[:, keep].T @ full[start:, stop:]

    def coefficients(self, alphas: Any) -> Solution:
        """θ and b for a vector of μ."""
        mu = np.asarray(alphas, dtype=np.float64).reshape(-1)
        shrunk = self._values[:, None] / (self._values[:, None] ** 2 + mu[None, :])
        theta = mapped(self._vectors, shrunk[:, :, None] * self._projected[:, None, :])
        if not len(self._first):
            return theta, np.zeros((mu.size, theta.shape[2]))
        first, stop = self._first[0], self._stop
        return theta, (first[None, stop:] - mapped(first[None, 1:stop], theta)[0]) / first[0]
