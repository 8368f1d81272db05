r"""All ridge values of a basis model, from one factorisation of its whitened Gram matrix or one each.

With an intercept the statistics are centred first; B = Q D Qᵀ, and for every μ

    θ(μ) = Q (D + μ)⁻¹ Qᵀ (c − s ȳ),   b = ȳ − s·θ / w

On an accelerator, where an eigendecomposition costs fifty Cholesky factorisations, B + μI of every
training part and every μ is factorised instead, many at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onefold.linalg import (
    Array,
    like,
    namespace,
    outer,
    solve_positive_batch,
    symmetric_eigh,
    to_numpy,
    zeros,
)
from onefold.statistics.base import Statistics

_EPS = float(np.finfo(np.float64).eps)
_BATCH_BYTES = 2**31  # of the matrices that are factorised at once
Solution = tuple[Any, Any]
"""θ of shape (μ, r, targets) and b of shape (μ, targets)."""


def centred(statistics: Statistics, fit_intercept: bool) -> tuple[Array, Array, Array, Array]:
    """Gram matrix and cross products about their means, and the means of features and targets."""
    gram, cross = statistics.gram, statistics.cross
    if not fit_intercept:
        return gram, cross, zeros(cross.shape[0], cross), zeros(cross.shape[1], cross)
    mean_feature = statistics.border / statistics.weight
    mean_target = statistics.target_sum / statistics.weight
    gram = gram - outer(statistics.border, mean_feature)
    return gram, cross - outer(statistics.border, mean_target), mean_feature, mean_target


class RidgePath:
    """The solution for every μ, from statistics in whitened coordinates. O(9 r³) once."""

    def __init__(self, statistics: Statistics, *, fit_intercept: bool) -> None:
        self.weight, self.fit_intercept = float(statistics.weight), fit_intercept
        gram, cross, self.mean_feature, self.mean_target = centred(statistics, fit_intercept)
        values, self.vectors = symmetric_eigh(gram, overwrite=False, release_lock=True)
        # A Gram matrix has no negative eigenvalue: the size of one that is shows the rounding errors.
        self.values = namespace(values).clip(values, 0.0, None)
        known = to_numpy(values)
        scale = float(known[-1]) if known.size else 0.0
        self.noise = 10 * max(-float(known.min(initial=0.0)), _EPS * scale)
        self._projected = self.vectors.T @ cross

    def coefficients(self, alphas: Any) -> Solution:
        """θ and b for a vector of μ."""
        theta = self.vectors[None, ...] @ (
            self._projected[None, ...] * self.shrinkage(alphas)[:, :, None]
        )
        return theta, _intercepts(self.mean_feature, self.mean_target, theta)

    def shrinkage(self, alphas: Any) -> Array:
        """1 / (d + μ) of shape (μ, r); 0 where d + μ is no larger than the rounding errors of d."""
        total = self.values[None, :] + like(np.reshape(alphas, (-1, 1)), self.values)
        known = total > self.noise
        xp = namespace(total)
        return xp.where(known, 1.0 / xp.where(known, total, xp.ones_like(total)), xp.zeros_like(total))

    def leverage_features(self, features: Array) -> Array:
        """Whitened features (rows, r) in the eigenvectors' coordinates, centred."""
        return (features - self.mean_feature[None, :]) @ self.vectors


class CholeskyPaths:
    """The solutions of several training parts, each μ by a factorisation of its own, many at once."""

    def __init__(self, parts: Sequence[Statistics], *, fit_intercept: bool) -> None:
        self._parts, self._fit_intercept = parts, fit_intercept
        about = [centred(part, fit_intercept) for part in parts]
        xp = namespace(about[0][0])
        self._grams, self._crosses = xp.stack([a[0] for a in about]), xp.stack([a[1] for a in about])
        self._means = [a[2:] for a in about]

    def coefficients(self, alphas: Any) -> list[Solution]:
        """θ and b of each part; by eigenvalues where rounding leaves a matrix that is not positive."""
        mu = np.asarray(alphas, dtype=np.float64).reshape(-1)
        theta = self._solved(mu)
        if theta is None:
            paths = (RidgePath(part, fit_intercept=self._fit_intercept) for part in self._parts)
            return [path.coefficients(mu) for path in paths]
        return [
            (theta[:, k, ...], _intercepts(*means, theta[:, k, ...]))
            for k, means in enumerate(self._means)
        ]

    def _solved(self, mu: Any) -> Array | None:
        """θ (μ, parts, r, targets), or None."""
        xp, (parts, r, t) = namespace(self._grams), self._crosses.shape
        # ‖B‖ is at most its Frobenius norm; what rounding makes of it must not reach the ridge.
        size = float(xp.sqrt(xp.max(xp.sum(self._grams**2, axis=(1, 2)))))
        if not r or mu.min(initial=np.inf) <= 10 * _EPS * size:
            return None
        identity = xp.eye(r, dtype=self._grams.dtype, device=self._grams.device)
        at_once = max(1, _BATCH_BYTES // (8 * parts * r * r))
        found = []
        for start in range(0, mu.size, at_once):
            some = like(mu[start : start + at_once], self._grams)
            shifted = self._grams[None, ...] + some[:, None, None, None] * identity
            count = int(some.shape[0])
            columns = xp.broadcast_to(self._crosses[None, ...], (count, parts, r, t))
            solved = solve_positive_batch(
                xp.reshape(shifted, (count * parts, r, r)), xp.reshape(columns, (count * parts, r, t))
            )
            if solved is None:
                return None
            found.append(xp.reshape(solved, (count, parts, r, t)))
        return xp.concat(found)


def _intercepts(mean_feature: Array, mean_target: Array, theta: Array) -> Array:
    """B = ȳ − s·θ / w for θ (μ, r, targets): (μ, targets)."""
    return mean_target[None, :] - (mean_feature[None, None, :] @ theta)[:, 0, :]


def squared_error(statistics: Statistics, theta: Array, intercept: Array) -> Array:
    r"""Σ v ‖y − φ·θ − b‖² over the rows behind `statistics`, for θ (μ, r, t) and b (μ, t): (μ, t).

    Σvy² − 2θ·c − 2b Σvy + θᵀAθ + 2b θ·s + b² w: no pass over rows, at the price of cancellation where
    the error is a tiny part of Σvy².
    """
    xp = namespace(theta)
    quadratic = xp.sum(theta * (statistics.gram[None, ...] @ theta), axis=1)
    linear = xp.sum(theta * statistics.cross[None, ...], axis=1)
    shift = (statistics.border[None, None, :] @ theta)[:, 0, :]
    total = statistics.target_square[None, :] - 2 * linear + quadratic
    return (
        total
        + 2 * intercept * (shift - statistics.target_sum[None, :])
        + intercept**2 * statistics.weight
    )
