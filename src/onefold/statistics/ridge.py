r"""All ridge values of a basis model from one eigendecomposition of its whitened Gram matrix.

With an intercept the statistics are centred first; B = Q D Qᵀ, and for every μ

    θ(μ) = Q (D + μ)⁻¹ Qᵀ (c − s ȳ),   b = ȳ − s·θ / w
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.statistics.base import Statistics


def centred(statistics: Statistics, fit_intercept: bool) -> tuple[Any, Any, Any, Any]:
    """Gram matrix and cross products about their means, and the means of features and targets."""
    gram, cross = statistics.gram, statistics.cross
    if not fit_intercept:
        return gram, cross, np.zeros(cross.shape[0]), np.zeros(cross.shape[1])
    mean_feature = statistics.border / statistics.weight
    mean_target = statistics.target_sum / statistics.weight
    gram = gram - np.outer(statistics.border, mean_feature)
    return gram, cross - np.outer(statistics.border, mean_target), mean_feature, mean_target


class RidgePath:
    """The solution for every μ, from statistics in whitened coordinates. O(9 r³) once."""

    def __init__(self, statistics: Statistics, *, fit_intercept: bool) -> None:
        self.weight, self.fit_intercept = statistics.weight, fit_intercept
        gram, cross, self.mean_feature, self.mean_target = centred(statistics, fit_intercept)
        r = cross.shape[0]
        values, self.vectors = np.linalg.eigh(gram)
        # A Gram matrix has no negative eigenvalue: the size of one that is shows the rounding errors.
        self.values = np.maximum(values, 0.0)
        scale = float(values[-1]) if r else 0.0
        self.noise = 10 * max(-float(values.min(initial=0.0)), np.finfo(float).eps * scale)
        self._projected = self.vectors.T @ cross

    def coefficients(self, alphas: Any) -> tuple[Any, Any]:
        """θ of shape (μ, r, targets) and b of shape (μ, targets)."""
        theta = np.matmul(self.vectors[None], self._projected[None] * self.shrinkage(alphas)[:, :, None])
        return theta, self.mean_target[None] - np.matmul(self.mean_feature, theta)

    def shrinkage(self, alphas: Any) -> Any:
        """1 / (d + μ) of shape (μ, r); 0 where d + μ is no larger than the rounding errors of d."""
        total = self.values[None, :] + np.asarray(alphas, dtype=np.float64).reshape(-1, 1)
        return np.where(total > self.noise, 1.0 / total, 0.0)

    def leverage_features(self, features: Any) -> Any:
        """Whitened features (rows, r) in the eigenvectors' coordinates, centred."""
        return (features - self.mean_feature[None, :]) @ self.vectors


def squared_error(statistics: Statistics, theta: Any, intercept: Any) -> Any:
    r"""Σ v ‖y − φ·θ − b‖² over the rows behind `statistics`, for θ (μ, r, t) and b (μ, t): (μ, t).

    Σvy² − 2θ·c − 2b Σvy + θᵀAθ + 2b θ·s + b² w: no pass over rows, at the price of cancellation where
    the error is a tiny part of Σvy².
    """
    quadratic = np.einsum("art,art->at", theta, np.matmul(statistics.gram[None], theta))
    linear = np.einsum("art,rt->at", theta, statistics.cross)
    shift = np.einsum("art,r->at", theta, statistics.border)
    total = statistics.target_square[None] - 2 * linear + quadratic
    return (
        total + 2 * intercept * (shift - statistics.target_sum[None]) + intercept**2 * statistics.weight
    )
