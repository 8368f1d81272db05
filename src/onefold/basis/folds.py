r"""Models without each of several sets of rows, from statistics of the groups that these consist of.

The statistics of a training part are those of all rows less those of the groups outside it:

    A_T = A − Σ_{g∉T} A_g,    and likewise c, s, w                                                (1)

Its coefficients for every μ come

* from an eigendecomposition of its own, about 10 r³: :class:`onefold.basis.ridge.RidgePath`;
* by conjugate gradients in the eigenvectors Q of the model of all rows. There the Gram matrix of all
  rows is D, and that of a training part with a share p of the rows is close to p·D if there are many
  more rows than directions. Preconditioned by p·D + μ, the system

      (B + μ) θ = ĉ                                                                               (2)

  has a condition number near 1, and some ten products solve it for every μ and target at once:
  `NearbyPath`. If it does not converge, the eigendecomposition takes over;
* from Cholesky factors of B + μI, of every training part and every μ, many at once: `by_cholesky`, on
  an accelerator, where an eigendecomposition costs fifty of them.

The squared error of given θ and b over some rows follows from their statistics, without their features,

    Σ v ‖y − φ·θ − b‖² = Σ v y² − 2 θ·c − 2 b Σ v y + θᵀA θ + 2 b θ·s + b² w                      (3)

at the price of cancellation where the error is a tiny part of Σ v y².
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from onefold import linalg
from onefold.basis.coefficients import Coefficients, mapped
from onefold.basis.ridge import CentredStatistics, RidgePath
from onefold.basis.statistics import Statistics
from onefold.linalg import (
    Array,
    HostArray,
    as_vector,
    asarray_like,
    host_array,
    namespace,
    prefers_large_calls,
)
from onefold.linalg.dense import solve_positive
from onefold.linalg.iterate import conjugate_gradients
from onefold.machine.threads import cached_property, map_all
from onefold.rows import GroupedSplits

# Rounding unit of float64.
_EPS = float(np.finfo(np.float64).eps)
# Rows per direction from which on a model without a fold is near the one of all rows.
_ROWS_PER_DIRECTION = 10
# Of the right-hand side, in the preconditioner's norm: what conjugate gradients leave.
_TOLERANCE = 1e-12
# Iterations, of which a dozen are usual.
_MAX_ITERATIONS = 60
# Iterations after which a column that lags behind the tolerance is given up.
_TRIAL_ITERATIONS = 12
# Bytes of the matrices that are factorised in one call: 2 GiB.
_BATCH_BYTES = 2**31
# Times ‖B‖ · eps: a ridge below may be rounding, and then a Cholesky factor may not exist.
_ROUNDING_MARGIN = 10.0
# Of Σ v y²: a squared error below it has lost its digits to cancellation.
_LEAST_SHARE = 1e-7


class NearbyPath:
    """θ and b for any μ from the statistics of a training part, by (2)."""

    def __init__(self, statistics: Statistics, all_rows: RidgePath) -> None:
        self._centred = CentredStatistics.of(statistics, fit_intercept=all_rows.fit_intercept)
        self._all_rows = all_rows
        self._gram = self._centred.gram()
        self._nearby_values = all_rows.values * (statistics.weight / all_rows.weight)

    @cached_property
    def _eigenpath(self) -> RidgePath:
        """For ridges at which the iteration does not converge."""
        return RidgePath(self._centred.statistics, fit_intercept=self._all_rows.fit_intercept)

    def coefficients(self, alphas: ArrayLike) -> Coefficients:
        """θ and b for a vector of μ."""
        theta = self.by_iteration(alphas)
        if theta is None:
            return self._eigenpath.coefficients(alphas)
        return Coefficients(theta, self._centred.intercept(theta))

    def by_iteration(self, alphas: ArrayLike) -> HostArray | None:
        """θ of (2) for every column (μ, target); None without convergence."""
        mu = as_vector(alphas)
        if mu.min() <= self._all_rows.rounding:
            return None
        r, n_targets = self._centred.cross.shape
        ridge = np.repeat(mu, n_targets)[None, :]
        rhs = np.tile(self._centred.cross, (1, mu.size))
        inverse = 1.0 / (self._nearby_values[:, None] + ridge)

        def norm(residual: HostArray) -> HostArray:
            """In the preconditioner's norm, in which the residual falls steadily."""
            return np.sqrt(np.einsum("ij,ij->j", residual, inverse * residual))

        start = norm(rhs)
        solution = conjugate_gradients(
            lambda V: self._gram @ V + ridge * V,
            lambda V: inverse * V,
            rhs,
            norm,
            _TOLERANCE * start,
            limit=_MAX_ITERATIONS,
            deadline=(_TRIAL_ITERATIONS, _TOLERANCE ** (_TRIAL_ITERATIONS / _MAX_ITERATIONS) * start),
        )
        return solution.X.reshape(r, mu.size, n_targets) if solution.state == "converged" else None


class GroupSums:
    """The statistics of groups of rows, and the model of all of them."""

    def __init__(
        self, statistics: Sequence[Statistics], T: Array | None, *, fit_intercept: bool
    ) -> None:
        """`statistics` are in the design's features; T maps these to where the penalty is ‖θ‖²."""
        self.total = Statistics.total(statistics)
        self.fit_intercept = fit_intercept
        self._whitening = T
        self.batched = prefers_large_calls(statistics[0].gram)
        if self.batched:
            self.T = T  # from features to the coordinates of `groups`
        else:
            self.T = self.all_rows.vectors if T is None else T @ self.all_rows.vectors
        # One device has one queue: threads would only wait for each other.
        run_each = _one_after_another if self.batched else map_all
        self.groups = run_each(lambda group: group.rotated(self.T), statistics)

    @cached_property
    def all_rows(self) -> RidgePath:
        """The model of all rows, in whitened coordinates."""
        return RidgePath(self.total.rotated(self._whitening), fit_intercept=self.fit_intercept)


class FoldPaths:
    """The models without each set of some splits, from the sums of their groups."""

    def __init__(self, sums: GroupSums, splits: GroupedSplits) -> None:
        self._sums = sums
        self._splits = splits
        total = Statistics.total(sums.groups)
        # (1)
        self._parts = [
            total.less(sums.groups[group] for group in members) for members in splits.left_out
        ]
        self.paths = [] if sums.batched else map_all(self._path_of, self._parts)

    def _path_of(self, part: Statistics) -> RidgePath | NearbyPath:
        if part.count < _ROWS_PER_DIRECTION * part.gram.shape[0]:
            return RidgePath(part, fit_intercept=self._sums.fit_intercept)
        return NearbyPath(part, self._sums.all_rows)

    def coefficients(self, alphas: ArrayLike) -> list[Coefficients]:
        """θ and b of each model, in the coordinates of the sums."""
        if self.paths:
            return [path.coefficients(alphas) for path in self.paths]
        return by_cholesky(self._parts, alphas, fit_intercept=self._sums.fit_intercept)

    def squared_error(self, alphas: ArrayLike) -> HostArray | None:
        """The mean squared error (μ, splits) over the rows tested; None where digits were lost."""
        tested = [
            Statistics.total([self._sums.groups[group] for group in members])
            for members in self._splits.tests
        ]
        errors_by_split = [
            squared_error(statistics, *coefficients)
            for statistics, coefficients in zip(tested, self.coefficients(alphas))
        ]
        xp = namespace(errors_by_split[0])
        # All that the host sees of it: (splits, μ, targets), and the squares and weights of the splits.
        errors = host_array(xp.stack(errors_by_split))
        squares = host_array(xp.stack([statistics.target_square for statistics in tested]))
        if np.any(errors < _LEAST_SHARE * squares[:, None, :]):
            return None
        weights = np.array([float(statistics.weight) for statistics in tested])
        return errors.mean(axis=2).T / weights[None, :]


def _one_after_another(
    function: Callable[[Statistics], Statistics], items: Iterable[Statistics]
) -> list[Statistics]:
    return [function(item) for item in items]


def by_cholesky(
    parts: Sequence[Statistics], alphas: ArrayLike, *, fit_intercept: bool
) -> list[Coefficients]:
    """θ and b of each part; by eigenvalues where rounding leaves a matrix that is not positive."""
    mu = as_vector(alphas)
    centred = [CentredStatistics.of(part, fit_intercept=fit_intercept) for part in parts]
    xp = namespace(centred[0].cross)
    grams = xp.stack([part.gram() for part in centred])
    crosses = xp.stack([part.cross for part in centred])
    n_parts, r, n_targets = crosses.shape
    # ‖B‖ is at most its Frobenius norm; what rounding makes of it must not reach the ridge.
    size = float(xp.sqrt(xp.max(xp.sum(grams**2, axis=(1, 2)))))
    if r and mu.min(initial=np.inf) > _ROUNDING_MARGIN * _EPS * size:
        identity = xp.eye(r, dtype=grams.dtype, device=grams.device)
        step = max(1, _BATCH_BYTES // (8 * n_parts * r * r))
        pieces = []
        for start in range(0, mu.size, step):
            ridges = asarray_like(mu[start : start + step], grams)
            shifted = grams[None, ...] + ridges[:, None, None, None] * identity
            columns = xp.broadcast_to(crosses[None, ...], (ridges.shape[0], n_parts, r, n_targets))
            pieces.append(
                solve_positive(xp.reshape(shifted, (-1, r, r)), xp.reshape(columns, (-1, r, n_targets)))
            )
        solved = xp.reshape(xp.concat(pieces), (mu.size, n_parts, r, n_targets))
        theta = xp.permute_dims(solved, (1, 2, 0, 3))
        if linalg.all_finite(theta):
            return [
                Coefficients(theta[number, ...], part.intercept(theta[number, ...]))
                for number, part in enumerate(centred)
            ]
    return [RidgePath(part, fit_intercept=fit_intercept).coefficients(mu) for part in parts]


def squared_error(statistics: Statistics, theta: Array, intercept: Array) -> Array:
    """(3) for θ (r, μ, targets) and b (μ, targets): (μ, targets)."""
    xp = namespace(theta)
    quadratic = xp.sum(theta * mapped(statistics.gram, theta), axis=0)
    linear = xp.sum(theta * statistics.cross[:, None, :], axis=0)
    shift = mapped(statistics.border[None, :], theta)[0, ...]
    total = statistics.target_square[None, :] - 2 * linear + quadratic
    total = total + 2 * intercept * (shift - statistics.target_sum[None, :])
    return total + intercept**2 * statistics.weight
