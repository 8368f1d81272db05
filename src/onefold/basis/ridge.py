r"""All ridge values of a basis model, from statistics in whitened coordinates.

With an intercept the statistics are centred first: B = A − s sᵀ/w = Q D Qᵀ, and for every μ

    θ(μ) = Q (D + μ)⁻¹ Qᵀ (c − s ȳ),   b = ȳ − s·θ / w

The model without a fold comes

* from an eigendecomposition of its own, about 10 r³: `RidgePath`;
* by conjugate gradients in the eigenvectors Q of the model of all rows, in which that one's Gram matrix
  is D, and the one of a training part with a share p of the rows is close to p·D when there are many
  more rows than directions. Preconditioned by p·D + μ, its system has a condition number near 1, and ten
  or so products solve it for every μ and target at once: `NearbyPath`. Where it does not converge, the
  eigendecomposition is made after all;
* from Cholesky factors of B + μI, of every training part and every μ, many at once: `by_cholesky`, on
  an accelerator, where an eigendecomposition costs fifty of them.

*Triangular factors* of rows say what a Gram matrix does, without squaring anything (`FactorPath`).
With the columns [1 V Y] of a set of rows, each row times √weight, and their factorisation Q F,

        ⎡ f₀  m_V  m_Y ⎤
    F = ⎢     A    C   ⎥      A and C are those of columns about their means: the constant comes first
        ⎣          E   ⎦

min ‖y − Vθ − b‖² + μ‖θ‖² has the solution θ = Z (σ / (σ² + μ)) Pᵀ C from A = P σ Zᵀ, and the squared
error of any θ and b over the rows is ‖F [b θ −1]‖². The factor of a union of sets is that of their
factors on top of each other. Squared sums lose half of the digits; these lose none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold import linalg
from onefold.basis.statistics import Statistics
from onefold.linalg import (
    Array,
    HostArray,
    Index,
    as_vector,
    asarray_like,
    namespace,
    outer,
    prefers_large_calls,
    zeros,
)
from onefold.linalg.dense import minus_outer, solve_positive, symmetric_eigh
from onefold.linalg.iterate import conjugate_gradients
from onefold.machine.threads import map_all

_EPS = float(np.finfo(np.float64).eps)
_ROWS_PER_DIRECTION = 10  # with so many, a model without a fold is near the one of all rows
_TOLERANCE = 1e-12  # of conjugate gradients
_STEPS = 60
_TRIAL = 12  # steps after which one that lags behind is given up
_BATCH_BYTES = 2**31  # of the matrices that are factorised at once
_WORK = 4 * 10**9  # multiply-adds of a Gram matrix, below which its rows are factorised instead
_SIZE = 2**24  # features held in memory for it

Solution = tuple[Array, Array]
"""θ of shape (r, μ, targets) and b of shape (μ, targets)."""


def mapped(T: Array | None, theta: Array) -> Any:
    """T θ for θ (r, μ, targets): (features, μ, targets); θ itself without a T."""
    if T is None:
        return theta
    return namespace(theta).reshape(T @ flat(theta), (T.shape[0], *theta.shape[1:]))


def flat(theta: Array) -> Array:
    """θ (r, μ, targets) as a matrix (r, μ · targets)."""
    r, count, t = theta.shape
    return namespace(theta).reshape(theta, (r, count * t))


def predictions_of(values: Array, intercept: Array) -> Any:
    """(μ, rows, targets) from features times coefficients (rows, μ · targets), and b (μ, targets)."""
    xp = namespace(values)
    return xp.permute_dims(xp.reshape(values, (-1, *intercept.shape)), (1, 0, 2)) + intercept[:, None, :]


class Centred:
    """Statistics about the means of features and targets; about 0 without an intercept."""

    def __init__(self, statistics: Statistics, fit_intercept: bool) -> None:
        self.statistics = statistics
        self.fit_intercept = fit_intercept
        self.cross = statistics.cross
        r, t = statistics.cross.shape
        if fit_intercept:
            self.mean_feature = statistics.border / statistics.weight
            self.mean_target = statistics.target_sum / statistics.weight
            self.cross = self.cross - outer(statistics.border, self.mean_target)
        else:
            self.mean_feature = zeros(r, self.cross)
            self.mean_target = zeros(t, self.cross)

    def gram(self) -> Array:
        """B."""
        gram = self.statistics.gram
        border = self.statistics.border
        if not self.fit_intercept:
            return gram
        return minus_outer(gram, border, self.mean_feature)

    def intercept(self, theta: Array) -> Array:
        """ȳ − s·θ / w for θ (r, μ, targets): (μ, targets)."""
        return self.mean_target[None, :] - mapped(self.mean_feature[None, :], theta)[0, ...]


class RidgePath:
    """θ and b for any μ, from an eigendecomposition. O(9 r³) once."""

    def __init__(self, statistics: Statistics, *, fit_intercept: bool) -> None:
        self._about = Centred(statistics, fit_intercept)
        self.weight = float(statistics.weight)
        self.fit_intercept = fit_intercept
        values, self.vectors = symmetric_eigh(self._about.gram(), release_lock=True)
        # A Gram matrix has no negative eigenvalue: the size of one that is shows the rounding errors.
        self.values = namespace(values).clip(values, 0.0, None)
        known = as_vector(values)
        self.noise = 10 * float(max(-known.min(initial=0.0), _EPS * known.max(initial=0.0)))
        self._projected = self.vectors.T @ self._about.cross
        self.target_squares = statistics.target_square - self._about.mean_target * statistics.target_sum
        self.mean = self._about.mean_feature @ self.vectors  # of the features, in the eigenvectors

    def coefficients(self, alphas: ArrayLike) -> Solution:
        """θ and b for a vector of μ."""
        theta = mapped(self.vectors, self.in_vectors(alphas))
        return theta, self._about.intercept(theta)

    def in_vectors(self, alphas: ArrayLike) -> Array:
        """Qᵀθ, shape (r, μ, targets)."""
        return self.shrinkage(alphas).T[:, :, None] * self._projected[:, None, :]

    def squares(self, alphas: ArrayLike) -> Array:
        """Σ v (y − f)² = Σ v (y − ȳ)² − Σ q² (d + 2μ) / (d + μ)², q = Qᵀ(c − s ȳ): (μ, targets)."""
        shrinkage = self.shrinkage(alphas)
        explained = shrinkage * (2.0 - self.values[None, :] * shrinkage)
        return self.target_squares[None, :] - explained @ self._projected**2

    def lengths(self, alphas: ArrayLike) -> Array:
        """‖θ‖² = Σ q² / (d + μ)²: (μ, targets)."""
        return self.shrinkage(alphas) ** 2 @ self._projected**2

    def left(self, alphas: ArrayLike) -> Array:
        """What the fit leaves of each direction, μ / (d + μ): (μ, r); all of one that is rounding."""
        shrinkage = self.shrinkage(alphas)
        xp = namespace(shrinkage)
        mu = asarray_like(np.reshape(alphas, (-1, 1)), shrinkage)
        return xp.where(shrinkage > 0, mu * shrinkage, xp.ones_like(shrinkage))

    def shrinkage(self, alphas: ArrayLike) -> Array:
        """1 / (d + μ) of shape (μ, r); 0 where d + μ is no larger than the rounding errors of d."""
        total = self.values[None, :] + asarray_like(np.reshape(alphas, (-1, 1)), self.values)
        known = total > self.noise
        xp = namespace(total)
        return xp.where(known, 1.0 / xp.where(known, total, xp.ones_like(total)), xp.zeros_like(total))


class NearbyPath:
    """θ and b for any μ from the statistics of a training part, in the whole model's eigenvectors."""

    def __init__(self, statistics: Statistics, whole: RidgePath) -> None:
        self._about = Centred(statistics, whole.fit_intercept)
        self._whole = whole
        self._gram = self._about.gram()
        self._nearby = whole.values * (statistics.weight / whole.weight)
        self.own: RidgePath | None = None  # once the iteration has not converged

    def coefficients(self, alphas: ArrayLike) -> Solution:
        """θ and b for a vector of μ."""
        mu = as_vector(alphas)
        if self.own is None:
            theta = self._iterate(mu) if mu.min() > self._whole.noise else None
            if theta is not None:
                return theta, self._about.intercept(theta)
            self.own = RidgePath(self._about.statistics, fit_intercept=self._whole.fit_intercept)
        return self.own.coefficients(mu)

    def _iterate(self, mu: HostArray) -> HostArray | None:
        """(B + μ) θ = c − s ȳ for every column (μ, target); None without convergence."""
        about = self._about
        r, targets = self._about.cross.shape
        ridge = np.repeat(mu, targets)[None, :]
        rhs = np.tile(about.cross, (1, mu.size))
        scale = 1.0 / (self._nearby[:, None] + ridge)

        def size(residual: HostArray) -> HostArray:
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
        return found.X.reshape(r, mu.size, targets) if found.state == "converged" else None


class FoldPaths:
    """The models trained without each of several sets of rows, from the statistics of groups of rows."""

    def __init__(
        self,
        statistics: Sequence[Statistics],
        left_out: Sequence[Index],
        T: Array | None,
        whole: Callable[[], RidgePath],
        *,
        fit_intercept: bool,
    ) -> None:
        """`left_out` holds the groups that each part is trained without; `whole` is the model of all."""
        together = prefers_large_calls(statistics[0].gram)
        self._fit_intercept = fit_intercept
        if together:
            self.T = T  # from features to the coordinates that θ and `groups` are in
        else:
            self.T = whole().vectors if T is None else T @ whole().vectors
        # One device has one queue: threads would only wait for each other.
        each = (lambda f, items: [f(item) for item in items]) if together else map_all
        self.groups = each(lambda s: s.rotated(self.T), statistics)
        total = Statistics.total(self.groups)

        def train(part: Statistics) -> RidgePath | NearbyPath:
            if part.count < _ROWS_PER_DIRECTION * part.gram.shape[0]:
                return RidgePath(part, fit_intercept=fit_intercept)
            return NearbyPath(part, whole())

        self._parts = [total.less(self.groups[group] for group in members) for members in left_out]
        self.paths = [] if together else map_all(train, self._parts)

    def coefficients(self, alphas: ArrayLike) -> list[Solution]:
        """θ and b of each part."""
        if self.paths:
            return [path.coefficients(alphas) for path in self.paths]
        return by_cholesky(self._parts, alphas, fit_intercept=self._fit_intercept)


def by_cholesky(parts: Sequence[Statistics], alphas: Any, *, fit_intercept: bool) -> list[Solution]:
    """θ and b of each part; by eigenvalues where rounding leaves a matrix that is not positive."""
    mu = as_vector(alphas)
    about = [Centred(part, fit_intercept) for part in parts]
    xp = namespace(about[0].cross)
    grams = xp.stack([a.gram() for a in about])
    crosses = xp.stack([a.cross for a in about])
    count, r, t = crosses.shape
    # ‖B‖ is at most its Frobenius norm; what rounding makes of it must not reach the ridge.
    size = float(xp.sqrt(xp.max(xp.sum(grams**2, axis=(1, 2)))))
    if r and mu.min(initial=np.inf) > 10 * _EPS * size:
        identity = xp.eye(r, dtype=grams.dtype, device=grams.device)
        at_once = max(1, _BATCH_BYTES // (8 * count * r * r))
        pieces = []
        for start in range(0, mu.size, at_once):
            some = asarray_like(mu[start : start + at_once], grams)
            shifted = grams[None, ...] + some[:, None, None, None] * identity
            columns = xp.broadcast_to(crosses[None, ...], (some.shape[0], count, r, t))
            batch = (xp.reshape(shifted, (-1, r, r)), xp.reshape(columns, (-1, r, t)))
            pieces.append(solve_positive(*batch))
        solved = xp.permute_dims(xp.reshape(xp.concat(pieces), (mu.size, count, r, t)), (1, 2, 0, 3))
        if linalg.all_finite(solved):
            return [(solved[k, ...], a.intercept(solved[k, ...])) for k, a in enumerate(about)]
    return [RidgePath(part, fit_intercept=fit_intercept).coefficients(mu) for part in parts]


def squared_error(statistics: Statistics, theta: Array, intercept: Array) -> Array:
    r"""Σ v ‖y − φ·θ − b‖² over the rows behind `statistics`, for θ (r, μ, t) and b (μ, t): (μ, t).

    Σvy² − 2θ·c − 2b Σvy + θᵀAθ + 2b θ·s + b² w: no pass over rows, at the price of cancellation where
    the error is a tiny part of Σvy².
    """
    xp = namespace(theta)
    quadratic = xp.sum(theta * mapped(statistics.gram, theta), axis=0)
    linear = xp.sum(theta * statistics.cross[:, None, :], axis=0)
    shift = mapped(statistics.border[None, :], theta)[0, ...]
    total = statistics.target_square[None, :] - 2 * linear + quadratic
    total = total + 2 * intercept * (shift - statistics.target_sum[None, :])
    return total + intercept**2 * statistics.weight


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
    def of(cls, features: HostArray, Y: HostArray, root: HostArray, *, fit_intercept: bool) -> Factor:
        """Of whitened features (rows, r) and targets; `root` holds √weights. O(rows · r²) time."""
        stacked = np.hstack([np.ones((len(Y), 1))] * fit_intercept + [features, Y])
        stacked *= root[:, None]
        return cls(np.linalg.qr(stacked, mode="r"), Y.shape[1], int(fit_intercept), float(root @ root))

    @classmethod
    def union(cls, parts: Sequence[Factor]) -> Factor:
        """Of all rows of disjoint sets together."""
        stacked = np.vstack([part.matrix for part in parts])
        weight = float(sum(part.weight for part in parts))
        return cls(np.linalg.qr(stacked, mode="r"), parts[0].targets, parts[0].border, weight)

    def squared_error(self, theta: Array, intercept: Array) -> HostArray:
        """Σ v ‖y − Vθ − b‖² over the rows, for θ (r, μ, t) and b (μ, t): shape (μ, t)."""
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
        # Fewer rows than columns: the missing ones are zero.
        full = np.zeros((stop, factor.matrix.shape[1]))
        full[: min(stop, len(factor.matrix))] = factor.matrix[:stop]
        self._first = full[:start]
        self._stop = stop
        P, values, Zt = np.linalg.svd(full[start:, start:stop], full_matrices=False)
        # What is rounding of the largest counts as 0: divided by a tiny ridge it would be large.
        keep = values > values.size * np.finfo(float).eps * values.max(initial=0.0)
        self._values = values[keep]
        self._vectors = Zt[keep].T
        targets = full[start:, stop:]
        self._projected = P[:, keep].T @ targets
        # What no direction reaches: in the rows of F above E, and E itself.
        above = targets - P[:, keep] @ self._projected
        below = factor.matrix[stop:, stop:]
        self._unreached = np.sum(above**2, axis=0) + np.sum(below**2, axis=0)

    def coefficients(self, alphas: ArrayLike) -> Solution:
        """θ and b for a vector of μ."""
        mu = as_vector(alphas)
        shrunk = self._values[:, None] / (self._values[:, None] ** 2 + mu[None, :])
        theta = mapped(self._vectors, shrunk[:, :, None] * self._projected[:, None, :])
        if not len(self._first):
            return theta, np.zeros((mu.size, theta.shape[2]))
        first = self._first[0]
        stop = self._stop
        return theta, (first[None, stop:] - mapped(first[None, 1:stop], theta)[0]) / first[0]

    def squares(self, alphas: ArrayLike) -> HostArray:
        """Σ v (y − f)² = ‖E‖² + Σ p² (μ / (σ² + μ))², p = PᵀC, and what P does not reach: (μ, t)."""
        return self._unreached[None, :] + self.left(alphas) ** 2 @ self._projected**2

    def lengths(self, alphas: ArrayLike) -> HostArray:
        """‖θ‖² = Σ p² σ² / (σ² + μ)²: (μ, targets)."""
        shrunk = self._values[None, :] / (self._values[None, :] ** 2 + as_vector(alphas)[:, None])
        return shrunk**2 @ self._projected**2

    def left(self, alphas: ArrayLike) -> HostArray:
        """What the fit leaves of each direction, μ / (σ² + μ): (μ, r)."""
        mu = as_vector(alphas)[:, None]
        return mu / (self._values[None, :] ** 2 + mu)
