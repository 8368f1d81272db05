r"""A Toeplitz matrix in place of the kernel matrix (decherchi2010).

Equally spaced rows of one feature with a stationary kernel *have* a Toeplitz kernel matrix: the model
is exact, in any order of the rows, with O(n) memory and O(n log n) time per iteration. For other rows
the diagonals of K are averaged; then T depends on the order of the rows, and the model selected with
it is only as good as :func:`onefold.trust` says.

The Toeplitz matrix nearest to K in the Frobenius norm has on each diagonal its mean over K (Lemma 2).
The means are taken tile by tile: all n²/2 kernel values once, O(n) memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from onefold.approximations.base import Approximation, SmoothingModel, register
from onefold.approximations.footprint import FORMED, structured_bytes
from onefold.approximations.problem import Parts, Problem, TargetRidges, Workload
from onefold.expansions import Expansion
from onefold.kernels import Kernel, Precomputed
from onefold.kernels.tiles import common_origin, tile_side
from onefold.linalg import Array, HostArray, Index, is_sparse, like
from onefold.machine.threads import check_stop, limit_blas, map_in_order, spans
from onefold.machine.warning import warn_user
from onefold.rows import to_host
from onefold.smoothers import Smoother
from onefold.smoothers.base import Reordered, UnsolvableError
from onefold.smoothers.toeplitz import ToeplitzSmoother

# Rows sorted along a curve leave up to 0.65 of the variance of their distances unexplained by their
# places, and are served well; a table's rows in no order leave 0.8 to 1, and are not.
_NO_SERIES = 0.7
_STEP_TOLERANCE = 1e-6  # of the step: how far a point may lie from its place, beyond its rounding
_VECTORS = 30  # of n numbers: embeddings of length 4 n, their transforms, a generator
_LAGS, _PER_LAG = 64, 64  # pairs of rows that tell whether rows are in order


@register
@dataclass(frozen=True)
class Toeplitz(Approximation):
    """Exact for equally spaced series; for other rows, the nearest Toeplitz matrix.

    Up to 1024 rows are solved by Levinson's recursion, more by preconditioned conjugate gradients. An
    alpha at which T + μI is not positive definite, which can happen if the rows are not a series, has no
    score.

    Parameters
    ----------
    tolerance : float, default=1e-10
        Relative residual at which the iterative solvers stop.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import LSSVRCV
    >>> from onefold.approximations import Toeplitz
    >>> t = np.linspace(0, 1, 2000)[:, None]
    >>> y = np.sin(12 * t[:, 0])
    >>> settings = {"gammas": [10, 100], "alphas": [0.01, 0.1], "intervals": None}
    >>> model = LSSVRCV(approximation=Toeplitz(), **settings).fit(t, y)
    >>> model.score(t, y) > 0.99
    True
    """

    tolerance: float = 1e-10

    name = "toeplitz"
    smooths = True
    most_formed = FORMED
    supports_weights = False
    learns_metrics = False

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance must lie between 0 and 1; got {self.tolerance!r}.")

    def share(self, problem: Problem, kernels: Sequence[Kernel]) -> Series | None:
        """The equally spaced series of the rows, in any order; warn if the rows are not a series."""
        X = to_host(problem.X)
        series = uniform_series(X) if kernels[0].stationary else None
        if series is None and unexplained_by_lag(kernels[0], X) > _NO_SERIES:
            warn_user(
                "the rows are not a series: their similarity hardly depends on their distance in the "
                "table, so that a Toeplitz matrix is far from the kernel matrix and its scores are not "
                'reliable; use approximation="exact", or "nystroem" for many rows, or sort the rows '
                "along a curve."
            )
        return series

    def prefers_exact_refit(self, problem: Problem) -> bool:
        return uniform_series(problem.X) is None

    def subsample(self, X: Any, size: int, generator: Any) -> Any | None:
        """A window of a uniform series, which is uniform again."""
        series = uniform_series(X)
        if series is None:
            return None
        start = generator.randint(0, series[0].size - size + 1)
        return series[0][start : start + size]

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> ToeplitzModel:
        if not kernel.stationary:
            shared = None
        elif shared is None or shared[0].size != problem.n:
            shared = uniform_series(problem.X)
        return ToeplitzModel(self, kernel, problem, shared)

    def peak_bytes(self, n: int, d: int, targets: int, load: Workload, at_once: int) -> int:
        return structured_bytes(_VECTORS, n, targets, load, at_once)


class ToeplitzModel(SmoothingModel):
    """T for one kernel, solved for every μ; rows of a uniform series are sorted on the way in."""

    def __init__(
        self, settings: Toeplitz, kernel: Kernel, problem: Problem, series: Series | None
    ) -> None:
        self.problem, self._kernel = problem, kernel
        self.report: dict[str, Any] = {"name": "toeplitz"}
        places = np.arange(problem.n)
        self._order, step = series or (places, 0.0)
        if series is not None:
            self.report.update(diagonals="exact", why_exact=f"uniform series of step {step:.6g}")
            column = kernel(np.zeros((1, 1)), step * places[:, None])[0]
        else:
            column, distance = diagonal_means(kernel, to_host(problem.X))
            self.report.update(diagonals="averaged", distance=distance)
        if not np.isfinite(column).all():
            raise UnsolvableError("the kernel matrix contains NaN or infinite values; check the kernel.")
        self._sorted = ToeplitzSmoother(
            column,
            intercept=problem.fit_intercept,
            semidefinite=series is not None and kernel.always_psd,
            tolerance=settings.tolerance,
            report=self.report,
        )
        self.smoother: Smoother = self._sorted
        if not np.array_equal(self._order, places):
            self.smoother = Reordered(self._sorted, self._order)

    def usable(self, parts: Parts | None, alphas: ArrayLike) -> Any:
        return self._sorted.solvable(alphas)

    def leave_one_out(self, alphas: ArrayLike) -> Array:
        return like(self.smoother.leave_one_out(self.problem.targets, alphas), self.problem.Y)

    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        found = self.smoother.heldout(self.problem.targets, parts, alphas)
        return [like(values, self.problem.Y) for values in found]

    def kernel_matrix(self) -> HostArray:
        """T for the rows as they came."""
        place = np.empty(self.problem.n, dtype=np.intp)
        place[self._order] = np.arange(self.problem.n)
        return self._sorted.toeplitz.column[np.abs(place[:, None] - place[None, :])]

    def expansion(self, alpha: ArrayLike) -> Expansion:
        r"""α = R_b y / μ on every row with the true kernel, and b = mean(y − Tα)."""
        Y = self.problem.targets
        ridges = TargetRidges(alpha, Y.shape[1])
        dual = ridges.own(self.smoother.residuals(Y, ridges.distinct)) / ridges.each
        intercept = np.zeros(Y.shape[1])
        if self.problem.fit_intercept:
            # Every row of y = Tα + b + μα says b; their mean has the fewest roundings.
            fitted = self._sorted.toeplitz.product(np.ascontiguousarray(dual[self._order].T))
            intercept = Y.mean(axis=0) - fitted.mean(axis=1) - ridges.each * dual.mean(axis=0)
        centres = None if isinstance(self._kernel, Precomputed) else self.problem.X
        dual, intercept = (like(values, self.problem.Y) for values in (dual, intercept))
        return Expansion(self._kernel, centres, dual, intercept)


Series: TypeAlias = tuple[Index, float]
"""The order and the step of equally spaced points: x_{order[i]} = start + i·step."""


def uniform_series(X: Any) -> Series | None:
    """The series behind one-dimensional, equally spaced rows in any order; None if they are not."""
    if is_sparse(X) or X.ndim != 2 or X.shape[1] != 1:
        return None
    X = to_host(X)
    eps = np.finfo(X.dtype).eps if X.dtype.kind == "f" else 0.0
    x = np.asarray(X[:, 0], dtype=np.float64)
    n = x.size
    order = np.argsort(x, kind="stable")
    if n == 1:
        return order, 1.0
    x = x[order]
    step = float(x[-1] - x[0]) / (n - 1)
    rounding = min(4.0 * float(eps) * float(np.abs(x[[0, -1]]).max()), step / 10)
    places = x[0] + step * np.arange(n)
    if step <= 0 or np.abs(x - places).max() > max(_STEP_TOLERANCE * step, rounding):
        return None
    return order, step


def unexplained_by_lag(kernel: Kernel, X: Any) -> float:
    """The share of the variance of K's entries that remains along its diagonals: none for Toeplitz.

    Of a stationary kernel the distances between rows are looked at instead, which holds for every
    width. A fixed sample of 4096 pairs, lags up to n/2.
    """
    n = X.shape[0]
    if n < 4:
        return 0.0
    generator = np.random.default_rng(0)
    lags = generator.integers(1, n // 2, size=_LAGS, endpoint=True)
    first = (generator.random((_LAGS, _PER_LAG)) * (n - lags)[:, None]).astype(np.intp)
    second = first + lags[:, None]
    if isinstance(kernel, Precomputed):
        values = np.asarray(X[first, second], dtype=np.float64)
    else:
        left, right = (X[rows.ravel()].astype(np.float64) for rows in (first, second))
        if not (kernel.stationary and kernel.one_width):
            values = kernel.pairs(left, right)
        elif is_sparse(X):
            difference = left - right
            values = np.sqrt(np.asarray(difference.multiply(difference).sum(axis=1)).ravel())
        else:
            values = np.linalg.norm(left - right, axis=1)
        values = values.reshape(first.shape)
    total = float(np.var(values))
    return float(np.mean(np.var(values, axis=1))) / total if total > 0 else 0.0


def diagonal_means(kernel: Kernel, X: Any) -> tuple[HostArray, float]:
    """Mean of each diagonal of K, and ‖K − T‖_F / ‖K‖_F for T of these means. O(n²) time."""
    n, given = X.shape[0], isinstance(kernel, Precomputed)
    origin = None if given else common_origin(kernel, X)
    parts = list(spans(n, tile_side()))

    def rows_in(part: slice) -> Any:
        rows = X[part].astype(np.float64, copy=False)
        return rows if origin is None else rows - origin[None, :]

    def strip(index: int) -> tuple[Any, float]:
        """Sums along the diagonals of the tiles right of the diagonal in one strip."""
        sums, squares, rows = np.zeros(n), 0.0, parts[index]
        left: Any = None if given else rows_in(rows)
        for columns in parts[index:]:
            check_stop()
            if given:
                tile = np.asarray(X[rows, columns], dtype=np.float64)
            else:
                tile = kernel(left, left if columns is rows else rows_in(columns))
            weight = 1.0 if columns is rows else 2.0
            squares += weight * float(np.einsum("ij,ij->", tile, tile))
            # Rows upside down in a frame one column too wide for the next reshape: entry (r, c) moves
            # to column r + c, so that diagonals become columns.
            p, q = tile.shape
            frame = np.zeros((p, q + p))
            frame[:, :q] = tile[::-1]
            skewed = frame.ravel()[: p * (q + p - 1)].reshape(p, q + p - 1).sum(axis=0)
            first = columns.start - rows.start - (p - 1)  # the diagonal of skewed[0]
            skip = max(0, -first)  # what lies left of K's main diagonal was counted on the right
            sums[first + skip : first + q + p - 1] += skewed[skip:]
        return sums, squares

    total, squares = np.zeros(n), 0.0
    threads = None if kernel.thread_safe and len(parts) > 1 else 1
    with limit_blas(1):  # the same digits whatever the number of threads
        for sums, square in map_in_order(strip, range(len(parts)), threads):
            total += sums
            squares += square
    length = n - np.arange(n)
    column = total / length
    kept = float(np.sum(np.where(np.arange(n) > 0, 2, 1) * length * column**2))
    distance = np.sqrt(max(squares - kept, 0.0) / squares) if squares > 0 else 0.0
    return column, float(distance)
