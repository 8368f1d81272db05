r"""All ridge values of a basis model from one eigendecomposition of its statistics.

In coordinates in which the penalty is ‖θ‖², the statistics A, c, s, w of :mod:`onefold.basis.statistics`
are centred first where there is an intercept,

    B = A − s sᵀ/w = Q D Qᵀ,    ĉ = c − s ȳᵀ                                                       (1)

and for every μ

    θ = Q (D + μ)⁻¹ Qᵀ ĉ,    b = ȳ − s·θ / w                                                      (2)
    Σ v (y − f)² = Σ v (y − ȳ)² − Σ q² (d + 2μ) / (d + μ)²,    q = Qᵀ ĉ                           (3)
    ‖θ‖² = Σ q² / (d + μ)²                                                                        (4)

A direction whose d + μ is no larger than the rounding errors of d takes no part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from onefold.basis.coefficients import Coefficients, mapped
from onefold.basis.statistics import Statistics
from onefold.linalg import Array, as_vector, asarray_like, namespace, outer, zeros
from onefold.linalg.dense import minus_outer, symmetric_eigh

# Rounding unit of float64.
_EPS = float(np.finfo(np.float64).eps)
# Eigenvalues within so many times their rounding errors are counted as rounding errors.
_ROUNDING_MARGIN = 10.0


@dataclass(frozen=True, eq=False)
class CentredStatistics:
    """Statistics about the means of features and targets; about 0 without an intercept."""

    statistics: Statistics
    fit_intercept: bool
    cross: Array  # ĉ (r, targets)
    mean_feature: Array  # s / w (r,)
    mean_target: Array  # ȳ (targets,)

    @classmethod
    def of(cls, statistics: Statistics, *, fit_intercept: bool) -> CentredStatistics:
        """(1) except B, which `gram` makes: it takes further memory."""
        cross = statistics.cross
        r, n_targets = cross.shape
        if not fit_intercept:
            return cls(statistics, False, cross, zeros(r, cross), zeros(n_targets, cross))
        mean_feature = statistics.border / statistics.weight
        mean_target = statistics.target_sum / statistics.weight
        cross = cross - outer(statistics.border, mean_target)
        return cls(statistics, True, cross, mean_feature, mean_target)

    def gram(self) -> Array:
        """B of (1)."""
        if not self.fit_intercept:
            return self.statistics.gram
        return minus_outer(self.statistics.gram, self.statistics.border, self.mean_feature)

    def intercept(self, theta: Array) -> Array:
        """b of (2) for θ (r, μ, targets): (μ, targets)."""
        return self.mean_target[None, :] - mapped(self.mean_feature[None, :], theta)[0, ...]


class RidgePath:
    """θ and b for any μ, from an eigendecomposition. O(9 r³) once."""

    def __init__(self, statistics: Statistics, *, fit_intercept: bool) -> None:
        self._centred = CentredStatistics.of(statistics, fit_intercept=fit_intercept)
        self.weight = float(statistics.weight)
        self.fit_intercept = fit_intercept
        eigenvalues, self.vectors = symmetric_eigh(self._centred.gram(), release_lock=True)
        self.values = namespace(eigenvalues).clip(eigenvalues, 0.0, None)
        # A Gram matrix has no negative eigenvalue: the size of one that is shows the rounding errors.
        on_host = as_vector(eigenvalues)
        error = max(-on_host.min(initial=0.0), _EPS * on_host.max(initial=0.0))
        self.rounding = _ROUNDING_MARGIN * float(error)
        self._projected = self.vectors.T @ self._centred.cross
        self.target_squares = (
            statistics.target_square - self._centred.mean_target * statistics.target_sum
        )
        self.mean = self._centred.mean_feature @ self.vectors  # of the features, in the eigenvectors

    def coefficients(self, alphas: ArrayLike) -> Coefficients:
        """(2) for a vector of μ."""
        theta = mapped(self.vectors, self.in_vectors(alphas))
        return Coefficients(theta, self._centred.intercept(theta))

    def in_vectors(self, alphas: ArrayLike) -> Array:
        """Qᵀθ, shape (r, μ, targets)."""
        return self.shrinkage(alphas).T[:, :, None] * self._projected[:, None, :]

    def squared_errors(self, alphas: ArrayLike) -> Array:
        """(3): (μ, targets)."""
        shrinkage = self.shrinkage(alphas)
        explained = shrinkage * (2.0 - self.values[None, :] * shrinkage)
        return self.target_squares[None, :] - explained @ self._projected**2

    def squared_norms(self, alphas: ArrayLike) -> Array:
        """(4): (μ, targets)."""
        return self.shrinkage(alphas) ** 2 @ self._projected**2

    def residual_factors(self, alphas: ArrayLike) -> Array:
        """What the fit leaves of each direction, μ / (d + μ): (μ, r); all of one that is rounding."""
        shrinkage = self.shrinkage(alphas)
        xp = namespace(shrinkage)
        mu = asarray_like(np.reshape(alphas, (-1, 1)), shrinkage)
        return xp.where(shrinkage > 0, mu * shrinkage, xp.ones_like(shrinkage))

    def shrinkage(self, alphas: ArrayLike) -> Array:
        """1 / (d + μ) of shape (μ, r); 0 where d + μ is no larger than the rounding errors of d."""
        total = self.values[None, :] + asarray_like(np.reshape(alphas, (-1, 1)), self.values)
        significant = total > self.rounding
        xp = namespace(total)
        divisor = xp.where(significant, total, xp.ones_like(total))
        return xp.where(significant, 1.0 / divisor, xp.zeros_like(total))
