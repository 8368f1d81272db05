r"""Kernel interpolation on a regular grid (SKI, KISS-GP), for one to four features: K ≈ W K_g Wᵀ.

With c = Wᵀα the system (W K_g Wᵀ + μV⁻¹) α + b 1 = y, 1ᵀα = 0 becomes one of the grid's size,

    (WᵀVW K_g + μI) c + b WᵀV1 = WᵀVy,       f(x) = w(x)ᵀ K_g c + b

and the rows enter through WᵀVW, WᵀVy and WᵀV1 alone. Leaving a fold out subtracts its own. A K_g of
low rank is solved directly for every μ; any other by conjugate gradients on all μ and folds together.

*Low rank*, K_g ≈ L Lᵀ with few columns. A kernel that is smooth on the scale of the data's range has
few eigenvalues that matter next to μ. Then the grid's system has that many unknowns, and one
eigendecomposition of LᵀWᵀWL serves every μ without iterating: conjugate gradients would need thousands
of steps at a small μ and many rows. A kernel that is a product over the axes (rbf, laplacian) has the
eigenvectors of its axes, multiplied; for others the factor comes from a Cholesky factorisation that
takes the worst remaining point next.

*Every μ from one Krylov space*, (A K + μI) c = b. A and K are symmetric and positive semi-definite,
their product is not symmetric, but it is self-adjoint in the inner product uᵀKv: conjugate gradients
work there without ever needing K⁻¹. And Krylov spaces do not see the shift μ: the iteration at the
smallest μ carries all others along, at the cost of two vectors each (Jegerlehner's recurrences). That is
another algorithm than the preconditioned iteration of :mod:`onefold.linalg.iterate`: no
preconditioner commutes with the shift.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from onefold.approximations.base import Approximation, register
from onefold.approximations.footprint import grid_bytes
from onefold.approximations.model import Model
from onefold.approximations.problem import Parts, Problem, TargetRidges, Workload
from onefold.expansions import GridExpansion
from onefold.expansions.grid import LARGEST_DIMENSION, Lattice, largest_lattice, make_lattice
from onefold.kernels import Kernel
from onefold.linalg import Array, HostArray, as_vector, asarray_like, host_array
from onefold.linalg.iterate import Map, quotients
from onefold.machine.speed import Speed
from onefold.machine.threads import check_stop, spans
from onefold.machine.warning import warn_user

_NO_LEAVE_ONE_OUT = (
    'approximation="grid" has no closed form for leave-one-out; use folds, such as cv=5 or 10, '
    "whose cost does not depend on the number of rows."
)
# Maximum number of iterations; chosen, not measured.
_MAX_ITERATIONS = 2000
# Relative residual of predictions above which a fit warns; chosen, not measured.
_LARGE_RESIDUAL = 1e-2
# Root mean square error of interpolated kernel values, as a share of k(x, x), above which a fit warns;
# chosen, not measured.
_LARGE_KERNEL_ERROR = 0.02
# Pairs of rows, or points of the grid, that are probed; chosen, not measured.
_PROBES = 400
# Interpolation weights that are summed over at a time, 8 MiB; chosen, not measured.
_WEIGHTS_AT_ONCE = 2**20
# Maximum number of columns of a factor of K_g; chosen, not measured.
_MAX_RANK = 1000
# Points that are probed for each column that a factor may have; chosen, not measured.
_PROBES_PER_COLUMN = 1.25
# Share of the eigenvalues of the probed points that must count for a factor not to be tried; chosen, not
# measured.
_PROBED_SHARE = 0.8
# Points per axis for each column of a factor: of the smoothest kernel, with six points per half width.
_POINTS_PER_COLUMN = 4
# Points per axis up to which its eigenvectors are computed; chosen, not measured.
_LONGEST_AXIS = 2048
# Relative rounding error of the eigenvalues of K_g; chosen, not measured.
_ROUNDING = 1e-13


@register
@dataclass(frozen=True)
class Grid(Approximation):
    """Interpolate the kernel on a regular grid: any number of rows, one to four features.

    There is one pass over the rows per gamma; after it, the cost of cross-validation and of every
    iteration depends only on the size of the grid. Predictions are interpolated as well.

    Parameters
    ----------
    points : int, tuple of int or None, default=None
        Grid points per feature (one number, or one per feature); None chooses them from the range of
        the data and the width of the kernel.
    tolerance : float, default=1e-6
        Tolerance of the solution: iterations stop at this relative residual. Where the kernel has low
        rank, the part that is dropped is at most about 100 · tolerance times the smallest alpha.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import LSSVRCV
    >>> from onefold.approximations import Grid
    >>> t = np.linspace(0, 1, 2000)[:, None]
    >>> y = np.sin(12 * t[:, 0])
    >>> model = LSSVRCV(approximation=Grid(200), gammas=[10, 100], alphas=[0.01, 0.1]).fit(t, y)
    >>> model.approximation_["fitted_with"]["points"]
    [200]
    """

    points: Any = None
    tolerance: float = 1e-6

    name = "grid"
    no_leave_one_out = _NO_LEAVE_ONE_OUT
    takes_precomputed = False
    takes_sparse = False
    max_features = LARGEST_DIMENSION
    takes = (
        f"dense rows of at most {LARGEST_DIMENSION} features and a kernel of x − x' (rbf, matern, "
        "laplacian, their sums and products)"
    )
    alternative = 'use approximation="nystroem"'
    learns_metrics = False
    fold_models = "refitted"

    def __post_init__(self) -> None:
        if self.points is not None:
            points = np.asarray(self.points)
            if points.dtype.kind not in "iu" or points.ndim > 1 or np.any(points < 5):
                raise ValueError(
                    f"points must be a whole number of at least 5, or one per feature; "
                    f"got {self.points!r}."
                )
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance must lie between 0 and 1; got {self.tolerance!r}.")

    def takes_kernel(self, kernel: Kernel) -> bool:
        return kernel.stationary

    def check(self, kernel: Kernel, problem: Problem, load: Workload) -> None:
        d = problem.shape[1]
        if np.ndim(self.points) == 1 and len(self.points) != d:
            raise ValueError(
                f"points has {len(self.points)} numbers but X has {d} features; give one per feature."
            )

    def sized(self, problem: Problem, kernels: Sequence[Kernel], load: Workload) -> Workload:
        """The load with the largest grid that these kernels get on these rows."""
        X = host_array(problem.X)
        lowest = X.min(axis=0)
        highest = X.max(axis=0)
        sizes = [make_lattice(kernel, lowest, highest, self.points).size for kernel in kernels]
        return replace(load, points=max(sizes))

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> GridModel:
        X = host_array(problem.X)
        lattice = make_lattice(kernel, X.min(axis=0), X.max(axis=0), self.points)
        return GridModel(kernel, problem, X, lattice, self.tolerance)

    def duration(self, n: int, d: int, targets: int, load: Workload, speed: Speed) -> float | None:
        """Upper bound: per kernel sums over rows, a factor of K_g, and its products for each fold.

        Where there is no factor, iterations may take longer or shorter.
        """
        if d > LARGEST_DIMENSION:  # `check` refuses it
            return None
        m = largest_lattice(d, self.points)
        rank = min(_MAX_RANK, m)
        sums = float(n) * (16**d + 4**d * targets) / speed.exponentials
        factor = float(m) * rank**2 / speed.multiply_adds
        return load.kernels * (sums + (1 + max(1, load.folds)) * factor)

    def peak_bytes(self, n: int, d: int, targets: int, load: Workload, n_parallel: int) -> int | None:
        if d > LARGEST_DIMENSION:
            return None
        m = load.points or largest_lattice(d, self.points)
        rank = min(_MAX_RANK, m)
        if self.points is None and m > _POINTS_PER_COLUMN**d * _MAX_RANK:
            rank = 0
        return grid_bytes(n, d, m, rank, targets, load, n_parallel)


class GridModel(Model):
    """One kernel on one grid, for every μ."""

    no_leave_one_out = _NO_LEAVE_ONE_OUT

    def __init__(
        self, kernel: Kernel, problem: Problem, X: HostArray, lattice: Lattice, tolerance: float
    ) -> None:
        self._kernel = kernel
        self.problem = problem
        self._lattice = lattice
        self._X = X
        self._Y = problem.targets
        self._tolerance = tolerance
        self._without_factor = 0.0  # K_g has no small factor at this threshold, and so at none below
        self.report: dict[str, Any] = {
            "name": "grid",
            "points": list(lattice.counts),
            "step": [float(h) for h in lattice.step],
            "kernel_error": interpolation_error(kernel, lattice, self._X),
        }
        if self.report["kernel_error"] > _LARGE_KERNEL_ERROR:
            warn_user(
                f"the grid is too coarse for this kernel: the error of interpolated values is "
                f"{self.report['kernel_error']:.2g} of k(x, x); use a smaller gamma or more points."
            )

    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        of_parts = [self._sums(rows) for rows in parts]
        every_row_once = np.all(np.bincount(np.concatenate(parts), minlength=self.problem.n) == 1)
        total = reduce(operator.add, of_parts) if every_row_once else self._sums(slice(None))
        solutions = self._solve([total - part for part in of_parts], total, alphas)
        return [self._predict(rows, *solution) for rows, solution in zip(parts, solutions)]

    def expansion(self, alpha: ArrayLike) -> GridExpansion:  # type: ignore[override]
        """The model on all rows; c = WᵀV(y − f)/μ for rows off the grid."""
        t = self._Y.shape[1]
        ridges = TargetRidges(alpha, t)
        rows = self._sums(slice(None))
        values, intercept = self._solve([rows], rows, ridges.distinct)[0]
        values = values[ridges.positions, np.arange(t)]
        intercept = ridges.pick(intercept)
        misfit = rows.WY - intercept[:, None] * rows.W1 - (rows.A @ values.T).T
        grid = self._lattice.lower, self._lattice.step, self._lattice.counts
        coef = (misfit / ridges.by_target[:, None]).T.copy()
        values = values.T.copy()
        return GridExpansion(self._kernel, *grid, coef, values, intercept)

    def _sums(self, rows: Any) -> GridSums:
        weight = None if self.problem.weight is None else self.problem.weight[rows]
        return grid_sums(self._lattice, self._X[rows], self._Y[rows], weight)

    def _solve(self, sets: list[GridSums], total: GridSums, alphas: ArrayLike) -> list[Fitted]:
        """f − b on the grid (μ, targets, points) and b (μ, targets) of several training sets."""
        mu = as_vector(alphas)
        bordered = self.problem.fit_intercept
        # Targets without their mean: what the border would remove anyway takes no digits.
        means = [s.Y1 / s.total if bordered else np.zeros_like(s.Y1) for s in sets]
        rhs = [s.WY - mean[:, None] * s.W1 for s, mean in zip(sets, means)]
        if bordered:
            rhs = [np.vstack([r, s.W1[None]]) for r, s in zip(rhs, sets)]
        # What is dropped of K_g moves W K_g Wᵀ by that share of the smallest μ at most.
        strength = float(abs(total.A).sum(axis=1).max())
        dropped = 100 * self._tolerance * float(mu.min()) / strength
        L = None
        if dropped > self._without_factor:
            L = low_rank_factor(self._kernel, self._lattice, dropped)
        if L is None:
            self._without_factor = max(self._without_factor, dropped)
            fitted = self._iterated([s.A for s in sets], rhs, mu)
        else:
            self.report["rank"] = L.shape[0]
            fitted = [_direct(L, s.A, r, mu) for s, r in zip(sets, rhs)]
        solutions = []
        for s, mean, U in zip(sets, means, fitted):
            intercept = np.broadcast_to(mean, (mu.size, mean.size)).copy()
            if bordered:
                b = -(U[:, :-1] @ s.W1) / (s.total - U[:, -1] @ s.W1)[:, None]
                U = U[:, :-1] - b[:, :, None] * U[:, -1:]
                intercept += b
            solutions.append((U, intercept))
        return solutions

    def _iterated(self, matrices: list[Any], rhs: list[HostArray], alphas: HostArray) -> list[HostArray]:
        """K_g c of every set and μ in one iteration, where K_g has no small factor."""
        K = self._lattice.kernel_products(self._kernel)
        width = rhs[0].shape[0]
        row_slices = [slice(k * width, (k + 1) * width) for k in range(len(matrices))]

        def side_by_side(V: HostArray) -> HostArray:
            """[V_k A_k]: each matrix on its own rows of V."""
            out = np.empty_like(V)
            for A, rows in zip(matrices, row_slices):
                out[rows] = (A @ V[rows].T).T
            return out

        C, iterations, residuals = solve_shifted(
            side_by_side,
            K,
            np.concatenate(rhs),
            alphas,
            tolerance=self._tolerance,
            limit=_MAX_ITERATIONS,
        )
        residual = float(residuals.max())
        self.report["iterations"] = max(self.report.get("iterations", 0), iterations)
        self.report["residual"] = max(self.report.get("residual", 0.0), residual)
        if residual > _LARGE_RESIDUAL:
            warn_user(
                f"the grid's system is solved to {residual:.1g} only after {iterations} iterations; "
                "use larger alphas."
            )
        U = np.stack([K(c) for c in C])
        return [U[:, rows] for rows in row_slices]

    def _predict(self, rows: Any, values: HostArray, intercept: HostArray) -> Array:
        alphas, t, m = values.shape
        grid = np.ascontiguousarray(values.reshape(alphas * t, m).T)
        values = self._lattice.interpolated(self._X[rows], grid).reshape(-1, alphas, t)
        return asarray_like(values.transpose(1, 0, 2) + intercept[:, None, :], self.problem.Y)


def interpolation_error(kernel: Kernel, lattice: Lattice, X: HostArray) -> float:
    """Root mean square error of interpolated kernel values, of k(x, x); half of the pairs are close."""
    generator = np.random.default_rng(0)
    rows = X[generator.integers(0, X.shape[0], min(_PROBES, X.shape[0]))]
    nearby = rows + lattice.step * generator.uniform(-3, 3, size=rows.shape)
    nearby = np.clip(nearby, lattice.lower + lattice.step, X.max(axis=0))
    partners = np.concatenate([nearby, X[generator.integers(0, X.shape[0], rows.shape[0])]])
    rows = np.concatenate([rows, rows])
    exact = kernel.pairs(rows - lattice.lower, partners - lattice.lower)
    weights = lattice.weights(rows)
    partner_weights = lattice.weights(partners)
    points = lattice.offsets()
    error = np.empty(len(rows))
    for i in range(len(rows)):
        a = slice(*weights.indptr[i : i + 2])
        b = slice(*partner_weights.indptr[i : i + 2])
        tile = kernel(points[weights.indices[a]], points[partner_weights.indices[b]])
        error[i] = weights.data[a] @ tile @ partner_weights.data[b] - exact[i]
    return float(np.sqrt(np.mean(error**2)) / kernel.diagonal(rows[:1])[0])


Fitted: TypeAlias = tuple[HostArray, HostArray]  # f − b on the grid, and b


@dataclass(frozen=True)
class GridSums:
    """What a pass over the rows leaves, V being the weights; it adds over rows, blocks and folds."""

    A: Any  # CSR (points, points): WᵀVW, banded, at most 7^d entries per row
    WY: HostArray  # (targets, points): WᵀVy
    W1: HostArray  # (points,): WᵀV1
    total: float  # Σv
    Y1: HostArray  # (targets,): Σ v y

    def __add__(self, other: GridSums) -> GridSums:
        return GridSums(*map(operator.add, vars(self).values(), vars(other).values()))

    def __sub__(self, other: GridSums) -> GridSums:
        return GridSums(*map(operator.sub, vars(self).values(), vars(other).values()))


def grid_sums(lattice: Lattice, X: HostArray, Y: HostArray, weight: HostArray | None) -> GridSums:
    """The sums of rows X (n, d) with targets Y (n, t): O(n·16^d), a block at a time."""
    m = lattice.size
    t = Y.shape[1]
    few = X.shape[1] <= 2
    A = scipy.sparse.csr_array((m, m))
    diagonals: dict[int, Any] = {}
    WY = np.zeros((t, m))
    W1 = np.zeros(m)
    total = 0.0
    Y1 = np.zeros(t)
    for part in spans(X.shape[0], max(1, _WEIGHTS_AT_ONCE // 4 ** X.shape[1])):
        W = VW = lattice.weights(X[part])
        v = np.ones(W.shape[0]) if weight is None else weight[part]
        if weight is not None:
            values = (W.data.reshape(W.shape[0], -1) * v[:, None]).ravel()
            VW = scipy.sparse.csr_array((values, W.indices, W.indptr), shape=W.shape)
        if few:
            _add_products(diagonals, W, VW)
        else:
            A = A + W.T @ VW
        WY += (VW.T @ Y[part]).T
        W1 += VW.T @ np.ones(W.shape[0])
        total += float(v.sum())
        Y1 += v @ Y[part]
    if few and diagonals:  # A[i, i + offset] = diagonals[offset][i], offsets ≥ 0, and symmetric
        both = {sign * o: d[: m - o] for sign in (1, -1) for o, d in diagonals.items() if o < m}
        A = scipy.sparse.diags_array([*both.values()], offsets=[*both], shape=(m, m), format="csr")
    return GridSums(A.tocsr(), WY, W1, total, Y1)


def _add_products(diagonals: dict[int, Any], W: Any, VW: Any) -> None:
    """Add the upper diagonals of WᵀVW, whose rows have entries at the same relative places."""
    n, m = W.shape
    columns = W.indices.reshape(n, -1)
    w = W.data.reshape(n, -1)
    vw = VW.data.reshape(n, -1)
    for i in range(columns.shape[1]):
        for j in range(i, columns.shape[1]):
            offset = int(columns[0, j] - columns[0, i])
            sums = np.bincount(columns[:, i], w[:, i] * vw[:, j], minlength=m)
            diagonals[offset] = diagonals.get(offset, 0.0) + sums


def _direct(L: HostArray, A: Any, rhs: HostArray, alphas: HostArray) -> HostArray:
    r"""K_g c (μ, right-hand sides, points) with K_g = LᵀL: (L A Lᵀ + μI) θ = L b, K_g c = Lᵀθ."""
    check_stop()
    small = L @ (A @ L.T)
    values, vectors = np.linalg.eigh((small + small.T) / 2)
    projected = (rhs @ L.T) @ vectors
    weights = 1.0 / (np.maximum(values, 0.0)[None, :] + alphas[:, None])
    return (projected[None] * weights[:, None, :]) @ vectors.T @ L


def low_rank_factor(kernel: Kernel, lattice: Lattice, threshold: float) -> HostArray | None:
    """Lᵀ (rank, points) with ‖K_g − LLᵀ‖ about `threshold`; None where the rank is high.

    Also where there are far fewer rows than its rank: iterations lose digits at small ridges.
    """
    limit = min(_MAX_RANK, lattice.size)
    if max(lattice.counts) <= _LONGEST_AXIS and separable(kernel, lattice):
        return _tensor_factor(kernel, lattice, threshold, limit)
    return _pivoted_cholesky(kernel, lattice, threshold, limit)


def separable(kernel: Kernel, lattice: Lattice) -> bool:
    """Whether the kernel is a product over the axes, judged at a few lags."""
    d = len(lattice.counts)
    origin = np.zeros((1, d))
    lags = np.random.default_rng(0).uniform(0, 1, (16, d)) * lattice.step * np.array(lattice.counts)
    top = float(kernel.diagonal(origin)[0])
    product = np.ones(16) * top
    for axis in range(d):
        along_axis = np.zeros_like(lags)
        along_axis[:, axis] = lags[:, axis]
        product *= kernel(origin, along_axis)[0] / top
    return bool(np.allclose(kernel(origin, lags)[0], product, rtol=1e-10, atol=1e-14 * top))


def _tensor_factor(kernel: Kernel, lattice: Lattice, threshold: float, limit: int) -> HostArray | None:
    """The factor of a separable kernel, from the eigenvectors of each axis."""
    d = len(lattice.counts)
    top = float(kernel.diagonal(np.zeros((1, d)))[0])
    values = []
    vectors = []
    for axis, count in enumerate(lattice.counts):
        rows = np.zeros((count, d))
        rows[:, axis] = lattice.step[axis] * np.arange(count)
        K = kernel(rows, rows)
        w, V = np.linalg.eigh(K if axis == 0 else K / top)
        values.append(np.maximum(w[::-1], 0.0))
        vectors.append(V[:, ::-1])
    spectrum = reduce(np.multiply.outer, values)
    kept = np.argwhere(spectrum > max(threshold, _ROUNDING * float(spectrum.max())))
    if len(kept) > limit:
        return None
    factor = np.empty((len(kept), lattice.size))
    for row, index in zip(factor, kept):
        column = reduce(np.multiply.outer, [V[:, i] for V, i in zip(vectors, index)])
        row[:] = column.ravel() * np.sqrt(spectrum[tuple(index)])
    return factor


def _pivoted_cholesky(kernel: Kernel, lattice: Lattice, threshold: float, limit: int) -> Any | None:
    """The factor of any kernel, the worst remaining point next."""
    points = lattice.offsets()
    residual = kernel.diagonal(points).copy()  # the diagonal of K_g − LLᵀ
    tolerance = max(threshold, _ROUNDING * lattice.size * float(residual.max())) / 10
    if _needs_more(kernel, points, tolerance, limit):
        return None
    factor = np.empty((limit, lattice.size))
    for k in range(limit):
        pivot = int(residual.argmax())
        if residual[pivot] <= tolerance:
            return factor[:k].copy()
        row = kernel(points[pivot : pivot + 1], points)[0] - factor[:k, pivot] @ factor[:k]
        factor[k] = row / np.sqrt(residual[pivot])
        residual -= factor[k] ** 2
    return factor if float(residual.max()) <= tolerance or limit == lattice.size else None


def _needs_more(kernel: Kernel, points: HostArray, tolerance: float, limit: int) -> bool:
    """Whether more than `limit` eigenvalues of K_g exceed `tolerance`: then no factor is so small.

    K_g has at least as many as its matrix of some points, by interlacing. Few points decide first
    whether to look at more than `limit` of them.
    """
    count = 0
    for size in sorted({min(_PROBES, limit), int(_PROBES_PER_COLUMN * limit) + 1}):
        if size > len(points):
            return False
        sample = points[np.linspace(0, len(points) - 1, size).astype(int)]
        count = int(np.count_nonzero(np.linalg.eigvalsh(kernel(sample, sample)) > tolerance))
        if count < _PROBED_SHARE * size:
            return False
    return count > limit


def solve_shifted(
    A: Map, K: Map, B: HostArray, alphas: ArrayLike, *, tolerance: float, limit: int
) -> tuple[HostArray, int, HostArray]:
    """(A K + μI) c = b for every row b of B and every μ.

    A system has converged when ‖residual‖_K ≤ tolerance·‖b‖_K; ‖·‖_K is the norm of predictions'
    smoothness, and what the criterion sees. A and K are functions of rows (columns, m). Returns the
    solutions (μ, columns, m), the iterations, of which there are at most `limit`, and the largest
    relative residual of each μ.
    """
    mu = np.asarray(alphas, dtype=np.float64)
    base = float(mu.min())
    shift = (mu - base)[:, None]
    X = np.zeros((mu.size, *B.shape))
    R = B.copy()
    P = B.copy()
    KP = K(P)
    rho = np.einsum("ij,ij->i", P, KP)
    start = np.where(rho > 0, rho, 1.0)
    P_shifted = np.broadcast_to(B, X.shape).copy()
    zeta = np.ones((mu.size, B.shape[0]))
    zeta_before = zeta.copy()
    step_before = np.ones(B.shape[0])
    ratio_before = np.zeros(B.shape[0])
    residual = np.ones_like(zeta)
    live = np.arange(mu.size)
    count = 0
    while count < limit and live.size:
        check_stop()
        count += 1
        Q = A(KP)
        Q += base * P
        curvature = np.einsum("ij,ij->i", KP, Q)
        moving = (rho > 0) & (curvature > 0)
        step = quotients(rho, curvature, moving)
        denominator = step * ratio_before * (zeta_before - zeta)
        denominator += zeta_before * step_before * (1 + shift * step)
        zeta_next = quotients(zeta * zeta_before * step_before, denominator, denominator != 0)
        scale = quotients(zeta_next, zeta, zeta != 0)
        R -= step[:, None] * Q
        KR = K(R)
        rho_next = np.maximum(np.einsum("ij,ij->i", R, KR), 0.0)
        ratio = quotients(rho_next, rho, rho > 0)
        for i in live:
            X[i] += (step * scale[i])[:, None] * P_shifted[i]
            P_shifted[i] *= (ratio * scale[i] ** 2)[:, None]
            P_shifted[i] += zeta_next[i][:, None] * R
        residual[live] = zeta_next[live] * np.sqrt(rho_next / start)
        live = live[residual[live].max(axis=1, initial=0.0) > tolerance]
        zeta_before = zeta
        zeta = zeta_next
        step_before = np.where(moving, step, 1.0)
        ratio_before = ratio
        P = R + ratio[:, None] * P
        KP = KR + ratio[:, None] * KP
        rho = rho_next
    return X, count, residual.max(axis=1, initial=0.0)
