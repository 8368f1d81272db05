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

from onefold.linalg.iterate import conjugate_gradients
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

        def size(residual: Any) -> Any:
            """In the preconditioner's norm, in which the residual falls steadily."""
            return np.sqrt(np.einsum("ij,ij->j", residual, scale * residual))

        start = size(rhs)
        found = conjugate_gradients(
            lambda V: self._gram @ V + ridge * V,
            lambda V: scale * V,
            rhs,
            size,
            _TOLERANCE * start,
            limit=_STEPS,
            deadline=(_TRIAL, _TOLERANCE ** (_TRIAL / _STEPS) * start),
        )
        if found.state != "converged":
            return None
        return found.X.reshape(r, mu.size, targets).transpose(1, 0, 2)
