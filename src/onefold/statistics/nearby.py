r"""The model without a fold, from the model of all rows: conjugate gradients that need a few steps.

In the eigenvectors of the whole model its Gram matrix is D. That of a training part with a share p of
the rows is close to p·D when there are many more rows than directions; preconditioned by p·D + μ, its
system has a condition number near 1, and ten or so products solve it for every μ and target at once.
An eigendecomposition for each fold, some 10 r³, is then not needed. Where it would not converge, it is
what is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.statistics.base import Statistics
from onefold.statistics.ridge import RidgePath, centred

_TOLERANCE = 1e-12
_STEPS = 60
_TRIAL = 12  # steps after which one that lags behind is given up


class NearbyPath:
    """θ and b for any μ from the statistics of a training part, in the whole model's eigenvectors."""

    def __init__(self, statistics: Statistics, whole: RidgePath, *, fit_intercept: bool) -> None:
        self._statistics, self._whole, self._fit_intercept = statistics, whole, fit_intercept
        self._gram, self._cross, self._mean_feature, self._mean_target = centred(
            statistics, fit_intercept
        )
        self._nearby = whole.values * (statistics.weight / whole.weight)
        self._own: RidgePath | None = None

    def coefficients(self, alphas: Any) -> tuple[Any, Any]:
        """θ of shape (μ, r, targets) and b of shape (μ, targets)."""
        mu = np.asarray(alphas, dtype=np.float64).reshape(-1)
        theta = None
        if self._own is None and mu.min() > self._whole.noise:
            theta = self._iterate(mu)
        if theta is None:
            if self._own is None:
                self._own = RidgePath(self._statistics, fit_intercept=self._fit_intercept)
            return self._own.coefficients(mu)
        return theta, self._mean_target[None] - np.matmul(self._mean_feature, theta)

    def _iterate(self, mu: Any) -> Any | None:
        """(B + μ) θ = c for every column (μ, target); None without convergence."""
        r, targets = self._cross.shape
        ridge = np.repeat(mu, targets)[None, :]
        rhs = np.tile(self._cross, (1, mu.size))
        scale = 1.0 / (self._nearby[:, None] + ridge)
        x, residual = np.zeros_like(rhs), rhs.copy()
        z = scale * residual
        direction, rz = z, np.einsum("ij,ij->j", residual, z)
        # In the preconditioner's norm, in which the residual falls steadily.
        goal, on_time = _TOLERANCE**2 * rz, _TOLERANCE ** (2 * _TRIAL / _STEPS) * rz
        for step_number in range(_STEPS):
            if np.all(rz <= goal):
                return x.reshape(r, mu.size, targets).transpose(1, 0, 2)
            if step_number == _TRIAL and np.any(rz > on_time):
                return None
            image = self._gram @ direction + ridge * direction
            curvature = np.einsum("ij,ij->j", direction, image)
            if np.any(curvature < 0):
                return None
            step = rz / np.where(curvature > 0, curvature, 1.0)
            x += step[None, :] * direction
            residual -= step[None, :] * image
            z = scale * residual
            fresh = np.einsum("ij,ij->j", residual, z)
            direction = z + (fresh / np.where(rz > 0, rz, 1.0))[None, :] * direction
            rz = fresh
        return None
