r"""Models of few rows from triangular factors of these, which give what sums give without squares.

With the columns [1 V Y] of a set of rows, each row times √weight, and their factorisation Q F,

        ⎡ f₀  m_V  m_Y ⎤
    F = ⎢     A    C   ⎥                                                                          (1)
        ⎣          E   ⎦

A and C are those of columns about their means: the constant comes first. The factor of a union of sets
is that of their factors on top of each other. With A = P σ Zᵀ and p = PᵀC, min ‖y − Vθ − b‖² + μ‖θ‖²
has the solution

    θ = Z (σ / (σ² + μ)) p,    b = (m_Y − m_V θ) / f₀                                             (2)
    Σ v (y − f)² = ‖E‖² + ‖C − P p‖² + Σ p² (μ / (σ² + μ))²                                       (3)
    ‖θ‖² = Σ p² σ² / (σ² + μ)²                                                                    (4)

and the squared error of any θ and b over the rows of a set is

    Σ v ‖y − Vθ − b‖² = ‖F [b θ −1]‖²                                                             (5)

Squared sums lose half of the digits; these lose none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold.basis.coefficients import Coefficients, mapped
from onefold.linalg import Array, HostArray, Index, as_vector
from onefold.machine.threads import map_all
from onefold.rows import GroupedSplits

# Multiply-adds of a Gram matrix, n m², below which its rows are factorised instead: some seconds.
_WORK = 4 * 10**9
# Features n m that are held in memory to be factorised: 128 MiB.
_HELD_FEATURES = 2**24


def uses_factors(n: int, m: int) -> bool:
    """Whether a model of `m` landmarks on `n` rows is trained from factors of its rows."""
    return n * m**2 <= _WORK and n * m <= _HELD_FEATURES


@dataclass(frozen=True)
class Factor:
    """F of a set of rows, in host memory: at most as many rows as columns."""

    matrix: Any  # (rows, border + r + targets)
    targets: int
    border: int  # 1 with an intercept, 0 without
    weight: float  # sum of the rows' weights

    @classmethod
    def of(cls, features: HostArray, Y: HostArray, root: HostArray, *, fit_intercept: bool) -> Factor:
        """Of whitened features (rows, r) and targets; `root` holds √weights. O(rows · r²) time."""
        constant = [np.ones((len(Y), 1))] if fit_intercept else []
        stacked = np.hstack([*constant, features, Y])
        stacked *= root[:, None]
        return cls(np.linalg.qr(stacked, mode="r"), Y.shape[1], int(fit_intercept), float(root @ root))

    @classmethod
    def union(cls, parts: Sequence[Factor]) -> Factor:
        """Of all rows of disjoint sets together."""
        stacked = np.vstack([part.matrix for part in parts])
        weight = float(sum(part.weight for part in parts))
        return cls(np.linalg.qr(stacked, mode="r"), parts[0].targets, parts[0].border, weight)

    def squared_error(self, theta: Array, intercept: Array) -> HostArray:
        """(5) for θ (r, μ, targets) and b (μ, targets): (μ, targets)."""
        start = self.border
        stop = self.matrix.shape[1] - self.targets
        error = mapped(self.matrix[:, start:stop], theta) - self.matrix[:, None, stop:]
        if self.border:
            error += self.matrix[:, :1, None] * intercept[None]
        return np.einsum("rat,rat->at", error, error)


class FactorPath:
    """θ and b for any μ. O(20 r³) once."""

    def __init__(self, factor: Factor) -> None:
        start = factor.border
        stop = factor.matrix.shape[1] - factor.targets
        # Where the factor has fewer rows than columns, the missing rows are zero.
        full = np.zeros((stop, factor.matrix.shape[1]))
        full[: min(stop, len(factor.matrix))] = factor.matrix[:stop]
        self._border_rows = full[:start]
        self._stop = stop
        P, singular_values, Zt = np.linalg.svd(full[start:, start:stop], full_matrices=False)
        # Singular values that are rounding of the largest count as 0: a tiny ridge would magnify them.
        rounding = singular_values.size * np.finfo(float).eps * singular_values.max(initial=0.0)
        keep = singular_values > rounding
        self._singular_values = singular_values[keep]
        self._vectors = Zt[keep].T
        targets = full[start:, stop:]
        self._projected = P[:, keep].T @ targets
        # ‖E‖² + ‖C − P p‖² of (3), which no direction reaches.
        above = targets - P[:, keep] @ self._projected
        below = factor.matrix[stop:, stop:]
        self._unreached_squares = np.sum(above**2, axis=0) + np.sum(below**2, axis=0)

    def coefficients(self, alphas: ArrayLike) -> Coefficients:
        """(2) for a vector of μ."""
        mu = as_vector(alphas)
        shrinkage = self._singular_values[:, None] / (self._singular_values[:, None] ** 2 + mu[None, :])
        theta = mapped(self._vectors, shrinkage[:, :, None] * self._projected[:, None, :])
        if not len(self._border_rows):
            return Coefficients(theta, np.zeros((mu.size, theta.shape[2])))
        border_row = self._border_rows[0]
        fitted_mean = mapped(border_row[None, 1 : self._stop], theta)[0]
        return Coefficients(theta, (border_row[None, self._stop :] - fitted_mean) / border_row[0])

    def squared_errors(self, alphas: ArrayLike) -> HostArray:
        """(3): (μ, targets)."""
        return self._unreached_squares[None, :] + self.residual_factors(alphas) ** 2 @ self._projected**2

    def squared_norms(self, alphas: ArrayLike) -> HostArray:
        """(4): (μ, targets)."""
        mu = as_vector(alphas)[:, None]
        shrinkage = self._singular_values[None, :] / (self._singular_values[None, :] ** 2 + mu)
        return shrinkage**2 @ self._projected**2

    def residual_factors(self, alphas: ArrayLike) -> HostArray:
        """What the fit leaves of each direction, μ / (σ² + μ): (μ, r)."""
        mu = as_vector(alphas)[:, None]
        return mu / (self._singular_values[None, :] ** 2 + mu)


@dataclass(frozen=True, eq=False)
class FoldFactors:
    """The models without each set of some splits, from the factors of their groups of rows."""

    groups: Sequence[Factor]
    splits: GroupedSplits

    def paths(self) -> list[FactorPath]:
        """The model of each split, made each time: they would take more memory than the factors."""
        return map_all(self._path_without, self.splits.left_out)

    def _path_without(self, members: Index) -> FactorPath:
        training = np.setdiff1d(np.arange(len(self.groups)), members)
        return FactorPath(Factor.union([self.groups[group] for group in training]))

    def coefficients(self, alphas: ArrayLike) -> list[Coefficients]:
        """θ and b of each model."""
        return [path.coefficients(alphas) for path in self.paths()]

    def squared_error(self, alphas: ArrayLike) -> HostArray:
        """The mean squared error over the rows that each split tests: (μ, splits)."""
        errors = np.empty((np.size(alphas), len(self.splits.tests)))
        for split, path in enumerate(self.paths()):
            tested = [self.groups[group] for group in self.splits.tests[split]]
            coefficients = path.coefficients(alphas)
            squares = sum(factor.squared_error(*coefficients).mean(axis=1) for factor in tested)
            errors[:, split] = squares / sum(factor.weight for factor in tested)
        return errors
