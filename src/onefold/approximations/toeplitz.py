r"""A Toeplitz matrix in place of the kernel matrix (decherchi2010).

Equally spaced rows of one feature with a stationary kernel *have* a Toeplitz kernel matrix: the model
is exact, in any order of the rows, with O(n) memory and O(n log n) time per iteration. For other rows
the diagonals of K are averaged; then T depends on the order of the rows, and the model selected with
it is only as good as :func:`onefold.trust` says.

*Held-out rows.* With ``validate="matrix"`` they come from T of all rows, by the identity of the
smoother: the exact machine's where K is T. With ``validate="kernel"``, as in the paper, each training
part has a Toeplitz matrix of its own, and the rows left out are predicted from its coefficients with the
true kernel: what the final model does with new rows. Then k folds take k passes over the kernel values
of their training parts, and leave-one-out takes n.

The Toeplitz matrix nearest to K in the Frobenius norm has on each diagonal its mean over K (Lemma 2).
The means are taken tile by tile: all n²/2 kernel values once, O(n) memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from onefold.approximations.base import Approximation, Run, register
from onefold.approximations.footprint import FORMED, structured_bytes
from onefold.approximations.problem import Parts, Problem, TargetRidges, Workload
from onefold.approximations.structured import StructuredModel, Trained, check_choices
from onefold.expansions import Expansion
from onefold.kernels import Kernel, Precomputed
from onefold.kernels.tiles import common_origin, tile_side
from onefold.linalg import Array, HostArray, Index, asarray_like, is_sparse
from onefold.machine.threads import check_stop, limit_blas, map_in_order, spans
from onefold.machine.warning import warn_user
from onefold.rows import to_host
from onefold.smoothers import Smoother
from onefold.smoothers.base import Reordered, UnsolvableError
from onefold.smoothers.toeplitz import Negative, ToeplitzSmoother, may_be_solved

# Rows sorted along a curve leave up to 0.65 of the variance of their distances unexplained by their
# places, and are served well; a table's rows in no order leave 0.8 to 1, and are not.
_NO_SERIES = 0.7
# Share of the step by which a point may miss its place, beyond its rounding; chosen, not measured.
_STEP_TOLERANCE = 1e-6
# Vectors of n numbers, counted in the code: embeddings of length 4 n, their transforms, a generator.
_VECTORS = 30
# Lags at which distances between rows tell whether these are in order; chosen, not measured.
_LAGS = 64
# Pairs of rows at each lag; chosen, not measured.
_PAIRS_PER_LAG = 64
# Rows that are left out one by one, each with a Toeplitz matrix of its own, at most; chosen, not
# measured.
_MAX_LEFT_OUT = 1000
_CHOICES: dict[str, tuple[str, ...]] = {
    "validate": ("auto", "kernel", "matrix"),
    "negative": ("raise", "solve"),
}


@register
@dataclass(frozen=True)
class Toeplitz(Approximation):
    """Exact for equally spaced series; for other rows, the nearest Toeplitz matrix.

    Up to 1024 rows are solved by Levinson's recursion, more by preconditioned conjugate gradients.

    Parameters
    ----------
    tolerance : float, default=1e-10
        Relative residual at which the iterative solvers stop.
    validate : {"auto", "kernel", "matrix"}, default="auto"
        How held-out rows are predicted. "kernel" trains with the Toeplitz matrix of the training rows
        and predicts with the true kernel [decherchi2010]_, one pass over the kernel values for each
        fold; leave-one-out is refused above 1000 rows. "matrix" predicts them from the Toeplitz matrix
        of all rows. "auto" means "matrix" for equally spaced series, where that matrix is the kernel
        matrix, and "kernel" for other rows.
    negative : {"raise", "solve"}, default="raise"
        What to do for an alpha at which T + alpha I is not positive definite, which can happen if the
        rows are not a series: "raise" an error (in a search, the candidate has no score), or "solve" the
        system as it is, as in the paper. The solution is then a stationary point of the regularised
        squared error, in general not a minimum: the squared norm of some functions is negative (a Krein
        space), and a smaller alpha need not fit better. "evidence" and "cost" have no score there.

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
    >>> model.approximation_["selected_with"]["validate"]
    'matrix'
    """

    tolerance: float = 1e-10
    validate: Literal["auto", "kernel", "matrix"] = "auto"
    negative: Negative = "raise"

    name = "toeplitz"
    smooths = True
    max_rows_for_matrix = FORMED
    supports_weights = False
    learns_metrics = False
    fold_models = "refitted"

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance must lie between 0 and 1; got {self.tolerance!r}.")
        check_choices(self, _CHOICES)

    def start(self, problem: Problem, kernels: Sequence[Kernel], load: Workload) -> Run:
        """The settings with the way of predicting held-out rows that suits the rows."""
        run = super().start(problem, kernels, load)
        validate = self.validate
        if validate == "auto":
            validate = "kernel" if run.shared is None else "matrix"
        if (
            validate == "kernel"
            and leaves_out_single_rows(load, problem.n)
            and problem.n > _MAX_LEFT_OUT
        ):
            raise ValueError(
                f"leave-one-out would need {problem.n} Toeplitz matrices, one for each row left out, "
                f"and is refused above {_MAX_LEFT_OUT} rows that are not an evenly spaced series; use "
                'folds, such as cv=5, or Toeplitz(validate="matrix").'
            )
        return replace(run, approximation=replace(self, validate=validate))

    def has_folds(self, n: int) -> bool:
        """Fits without each fold are the models that predicted it only with the true kernel."""
        return self.validate == "kernel"

    def share(self, problem: Problem, kernels: Sequence[Kernel]) -> Series | None:
        """The equally spaced series of the rows, in any order; warn if the rows are not a series."""
        X = to_host(problem.X)
        series = uniform_series(X) if all(kernel.stationary for kernel in kernels) else None
        if series is None and unexplained_by_lag(kernels[0], X) > _NO_SERIES:
            warn_user(
                "the rows are not a series: their similarity hardly depends on their distance in the "
                "table, so that the Toeplitz matrix does not know which rows are alike, and a model "
                "trained with it is little more than an average of targets weighted by the kernel; use "
                'approximation="exact", or "nystroem" for many rows, or sort the rows along a curve.'
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

    def peak_bytes(self, n: int, d: int, targets: int, load: Workload, n_parallel: int) -> int:
        vectors = _VECTORS
        if self.validate != "matrix" and load.folds:  # the matrix of a training part, its coefficients
            vectors = 2 * _VECTORS + 2 * load.alphas * targets
        return structured_bytes(vectors, n, targets, load, n_parallel)


class ToeplitzModel(StructuredModel):
    """T for one kernel, solved for every μ; rows of a uniform series are sorted on the way in."""

    def __init__(
        self, settings: Toeplitz, kernel: Kernel, problem: Problem, series: Series | None
    ) -> None:
        self.problem = problem
        self.kernel = kernel
        self.validate = "matrix" if settings.validate == "matrix" else "kernel"
        self.leaves_out_fifths = self.validate == "kernel"
        self._settings = settings
        self._refused_in_parts: list[float] = []  # each μ at which the matrix of a part was refused
        self.report: dict[str, Any] = {
            "name": "toeplitz",
            "validate": self.validate,
            "negative": settings.negative,
        }
        places = np.arange(problem.n)
        self._order, step = series or (places, 0.0)
        if series is not None:
            self.report.update(diagonals="exact", why_exact=f"uniform series of step {step:.6g}")
            rows = np.zeros((problem.n, problem.X.shape[1]))
            rows[:, varying_column(to_host(problem.X))] = step * places
            column = kernel(rows[:1], rows)[0]
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
            negative=settings.negative,
            report=self.report,
        )
        self.smoother: Smoother = self._sorted
        if not np.array_equal(self._order, places):
            self.smoother = Reordered(self._sorted, self._order)

    def usable(self, parts: Parts | None, alphas: ArrayLike) -> Any:
        if self.validate == "matrix" or parts is None:
            return self._sorted.solvable(alphas)
        indefinite = self._settings.negative == "solve"
        usable = may_be_solved(alphas, self._refused_in_parts, indefinite=indefinite)
        return usable & self._sorted.solvable(self.ridges_of_all_rows(parts, alphas))

    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        if self.validate == "kernel":
            # A choice must be one that all rows can be trained with.
            self._sorted.require(self.ridges_of_all_rows(parts, alphas))
        return super().heldout(parts, alphas)

    def heldout_by_matrix(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        predictions = self.smoother.heldout(self.problem.targets, parts, alphas)
        return [asarray_like(values, self.problem.Y) for values in predictions]

    def leave_one_out_by_matrix(self, alphas: ArrayLike) -> Array:
        return asarray_like(self.smoother.leave_one_out(self.problem.targets, alphas), self.problem.Y)

    def left_out_by_kernel(self, rows: Index, alpha: float) -> tuple[Index, Array]:
        """Predictions from four fifths of all rows: single rows would need a matrix each."""
        return self.left_out_in_fifths(rows, alpha)

    def trained_without(self, part: Index, alphas: ArrayLike) -> Trained:
        """The model of all other rows, with the Toeplitz matrix of their own."""
        rows = np.delete(np.arange(self.problem.n), part)
        precomputed = isinstance(self.kernel, Precomputed)
        training = self.problem.rows(rows, precomputed=precomputed)
        series = uniform_series(training.X) if self.kernel.stationary else None
        model = ToeplitzModel(self._settings, self.kernel, training, series)
        try:
            dual, intercepts = model.coefficients(alphas)
        except UnsolvableError:
            self._refused_in_parts += np.asarray(alphas)[~model._sorted.solvable(alphas)].tolist()
            raise
        for key in ("iterations", "residual", "indefinite_up_to"):
            if key in model.report:
                self.report[key] = max(self.report.get(key, 0.0), model.report[key])
        return Trained(
            rows, asarray_like(dual, self.problem.Y), asarray_like(intercepts, self.problem.Y)
        )

    def kernel_matrix(self) -> HostArray:
        """T for the rows as they came."""
        place = np.empty(self.problem.n, dtype=np.intp)
        place[self._order] = np.arange(self.problem.n)
        return self._sorted.toeplitz.column[np.abs(place[:, None] - place[None, :])]

    def coefficients(self, alphas: ArrayLike) -> tuple[HostArray, HostArray]:
        r"""α = R_b y / μ (μ, n, targets), and b = mean(y − Tα) (μ, targets), or 0."""
        Y = self.problem.targets
        ridges = np.asarray(alphas, dtype=np.float64).reshape(-1)
        dual = self.smoother.residuals(Y, ridges) / ridges[:, None, None]
        intercepts = np.zeros((ridges.size, Y.shape[1]))
        if self.problem.fit_intercept:
            # Every row of y = Tα + b + μα says b; their mean has the fewest roundings.
            for ridge, weights, intercept in zip(ridges, dual, intercepts):
                fitted = self._sorted.toeplitz.product(np.ascontiguousarray(weights[self._order].T))
                intercept[:] = Y.mean(axis=0) - fitted.mean(axis=1) - ridge * weights.mean(axis=0)
        return dual, intercepts

    def expansion(self, alpha: ArrayLike) -> Expansion:
        """Coefficients trained with T, for the true kernel."""
        ridges = TargetRidges(alpha, self.problem.Y.shape[1])
        dual, intercepts = map(ridges.pick, self.coefficients(ridges.distinct))
        centres = None if isinstance(self.kernel, Precomputed) else self.problem.X
        dual, intercepts = (asarray_like(values, self.problem.Y) for values in (dual, intercepts))
        return Expansion(self.kernel, centres, dual, intercepts)


def leaves_out_single_rows(load: Workload, n: int) -> bool:
    """Whether each of n rows is predicted by a model of all others."""
    if load.parts is not None and len(load.parts) == n:
        return True
    return load.single or (load.folds == 1 and load.parts is None and not load.smoother)


Series: TypeAlias = tuple[Index, float]
"""The order and the step of equally spaced points: x_{order[i]} = start + i·step."""


def uniform_series(X: Any) -> Series | None:
    """The series behind equally spaced rows in any order; None if they are not.

    One feature varies; what is constant adds nothing to a distance.
    """
    if is_sparse(X) or X.ndim != 2:
        return None
    X = to_host(X)
    column = varying_column(X)
    if column is None:
        return None
    eps = np.finfo(X.dtype).eps if X.dtype.kind == "f" else 0.0
    x = np.asarray(X[:, column], dtype=np.float64)
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


def varying_column(X: HostArray) -> int | None:
    """The only feature that varies, the first one if none does; None if several do."""
    varying = np.flatnonzero(np.ptp(X, axis=0))
    return None if varying.size > 1 else int(varying[0]) if varying.size else 0


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
    first = (generator.random((_LAGS, _PAIRS_PER_LAG)) * (n - lags)[:, None]).astype(np.intp)
    second = first + lags[:, None]
    if isinstance(kernel, Precomputed):
        values = np.asarray(X[first, second], dtype=np.float64)
    else:
        first_rows = X[first.ravel()].astype(np.float64)
        second_rows = X[second.ravel()].astype(np.float64)
        if not (kernel.stationary and kernel.one_width):
            values = kernel.pairs(first_rows, second_rows)
        elif is_sparse(X):
            difference = first_rows - second_rows
            values = np.sqrt(np.asarray(difference.multiply(difference).sum(axis=1)).ravel())
        else:
            values = np.linalg.norm(first_rows - second_rows, axis=1)
        values = values.reshape(first.shape)
    total = float(np.var(values))
    return float(np.mean(np.var(values, axis=1))) / total if total > 0 else 0.0


def diagonal_means(kernel: Kernel, X: Any) -> tuple[HostArray, float]:
    """Mean of each diagonal of K, and ‖K − T‖_F / ‖K‖_F for T of these means. O(n²) time."""
    n = X.shape[0]
    precomputed = isinstance(kernel, Precomputed)
    origin = None if precomputed else common_origin(kernel, X)
    parts = list(spans(n, tile_side()))

    def rows_in(part: slice) -> Any:
        rows = X[part].astype(np.float64, copy=False)
        return rows if origin is None else rows - origin[None, :]

    def strip(index: int) -> tuple[Any, float]:
        """Sums along the diagonals of the tiles right of the diagonal in one strip."""
        sums = np.zeros(n)
        squares = 0.0
        rows = parts[index]
        X_rows: Any = None if precomputed else rows_in(rows)
        for columns in parts[index:]:
            check_stop()
            if precomputed:
                tile = np.asarray(X[rows, columns], dtype=np.float64)
            else:
                tile = kernel(X_rows, X_rows if columns is rows else rows_in(columns))
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

    total = np.zeros(n)
    squares = 0.0
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
