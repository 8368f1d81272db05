r"""A Toeplitz matrix in place of the kernel matrix (decherchi2010).

Equally spaced rows of one feature with a stationary kernel *have* a Toeplitz kernel matrix: the model
is exact, in any order of the rows, with O(n) memory and O(n log n) time per iteration. For other rows
the diagonals of K are averaged; then T depends on the order of the rows, and the model selected with
it is only as good as :func:`onefold.trust` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.approximations.base import Approximation, SmoothingModel, fits_unasked, register
from onefold.approximations.footprint import toeplitz_bytes
from onefold.approximations.problem import Problem, target_ridges
from onefold.approximations.run import Workload
from onefold.approximations.toeplitz.diagonals import (
    diagonal_means,
    unexplained_by_lag,
    uniform_series,
)
from onefold.expansions import Expansion
from onefold.kernels import Kernel, Precomputed
from onefold.linalg import Array, like, to_numpy
from onefold.machine.warning import warn_user
from onefold.smoothers import Smoother
from onefold.smoothers.base import Reordered, UnsolvableError
from onefold.smoothers.toeplitz import ToeplitzSmoother

# Rows sorted along a curve leave up to 0.65 of the variance of their distances unexplained by their
# places, and are served well; a table's rows in no order leave 0.8 to 1, and are not.
_NO_SERIES = 0.7


@register
@dataclass(frozen=True)
class Toeplitz(Approximation):
    """Exact for uniform series; for other rows the nearest Toeplitz matrix.

    Levinson's recursion solves n ≤ 1024 rows, preconditioned conjugate gradients more. Where T + μI is
    not positive definite, as it can be for rows that are no series, that alpha has no score.

    Parameters
    ----------
    tolerance : float, default=1e-10
        Of the true relative residual of the iterative solvers.
    """

    tolerance: float = 1e-10

    name = "toeplitz"
    smooths = True
    supports_weights = False
    learns_metrics = False

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance must lie between 0 and 1; got {self.tolerance!r}.")

    def share(self, problem: Problem, kernels: Sequence[Kernel]) -> None:
        """Nothing; a warning, once per fit, for rows that are no series of any kind."""
        X = to_numpy(problem.X)
        # A uniform series may come in any order.
        series = kernels[0].stationary and uniform_series(X) is not None
        if not series and unexplained_by_lag(kernels[0], X) > _NO_SERIES:
            warn_user(
                "the rows are no series: how alike two rows are has little to do with their places, so "
                "that a Toeplitz matrix is far from their kernel matrix and its scores mean little; use "
                'the approximation "exact", for many rows "nystroem", or sort the rows along a curve.'
            )

    def prefers_exact_refit(self, problem: Problem) -> bool:
        return fits_unasked(problem.n) and uniform_series(to_numpy(problem.X)) is None

    def subsample(self, X: Any, size: int, generator: Any) -> Any | None:
        """A window of a uniform series, which is uniform again."""
        series = uniform_series(to_numpy(X))
        if series is None:
            return None
        start = generator.randint(0, series.order.size - size + 1)
        return series.order[start : start + size]

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> ToeplitzModel:
        return ToeplitzModel(self, kernel, problem)

    def peak_bytes(self, n: int, d: int, targets: int, load: Workload, at_once: int) -> int:
        return toeplitz_bytes(n, targets, load, at_once)


class ToeplitzModel(SmoothingModel):
    """T for one kernel, solved for every μ; rows of a uniform series are sorted on the way in."""

    def __init__(self, settings: Toeplitz, kernel: Kernel, problem: Problem) -> None:
        self.problem, self._kernel = problem, kernel
        X = to_numpy(problem.X)
        series = uniform_series(X) if kernel.stationary else None
        self.report: dict[str, Any] = {"name": "toeplitz"}
        if series is not None:
            self.report.update(diagonals="exact", why_exact=f"uniform series of step {series.step:.6g}")
            column = series.column(kernel)
        else:
            column, distance = diagonal_means(kernel, X)
            self.report.update(diagonals="averaged", distance=distance)
        if not np.isfinite(column).all():
            raise UnsolvableError("the kernel matrix holds NaN or infinite values; check the kernel.")
        self._order = None if series is None else _unless_sorted(series.order)
        self._sorted = ToeplitzSmoother(
            column,
            intercept=problem.fit_intercept,
            semidefinite=series is not None and kernel.always_psd,
            tolerance=settings.tolerance,
            report=self.report,
        )
        del series  # its order is as long as the series
        self.smoother: Smoother = self._sorted
        if self._order is not None:
            self.smoother = Reordered(self._sorted, self._order)
        self._Y = to_numpy(problem.Y)

    def usable(self, parts: Sequence[Any] | None, alphas: Any) -> Any:
        return self._sorted.solvable(alphas)

    def leave_one_out(self, alphas: Any) -> Array:
        return self._beside(self.smoother.leave_one_out(self._Y, alphas))

    def heldout(self, parts: Sequence[Any], alphas: Any) -> list[Array]:
        return [self._beside(f) for f in self.smoother.heldout(self._Y, parts, alphas)]

    def expansion(self, alpha: Any) -> Expansion:
        r"""α = R_b y / μ on every row with the true kernel, and b = mean(y − Tα)."""
        Y = self._Y
        ridges = target_ridges(alpha, Y.shape[1])
        dual = ridges.own(self.smoother.residuals(Y, ridges.distinct)) / ridges.each
        intercept = np.zeros(Y.shape[1])
        if self.problem.fit_intercept:
            ordered = dual if self._order is None else dual[self._order]
            # Every row of y = Tα + b + μα says b; their mean has the fewest roundings.
            fitted = self._sorted.toeplitz.product(np.ascontiguousarray(ordered.T))
            intercept = Y.mean(axis=0) - fitted.mean(axis=1) - ridges.each * dual.mean(axis=0)
        centres = None if isinstance(self._kernel, Precomputed) else self.problem.X
        return Expansion(self._kernel, centres, self._beside(dual), self._beside(intercept))

    def _beside(self, values: Any) -> Array:
        return like(values, self.problem.Y)


def _unless_sorted(order: Any) -> Any | None:
    """None for rows that are in order already."""
    return None if np.array_equal(order, np.arange(order.size)) else order
