r"""K ≈ W K_g Wᵀ: the kernel interpolated on a regular grid, solved on the grid.

With c = Wᵀα the system (W K_g Wᵀ + μV⁻¹) α + b 1 = y, 1ᵀα = 0 becomes one of the grid's size,

    (WᵀVW K_g + μI) c + b WᵀV1 = WᵀVy,       f(x) = w(x)ᵀ K_g c + b

and the rows enter through WᵀVW, WᵀVy and WᵀV1 alone. Leaving a fold out subtracts its own. A K_g of
low rank is solved directly for every μ; any other by conjugate gradients on all μ and folds together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.approximations.alphas import target_ridges
from onefold.approximations.base import Model
from onefold.approximations.fifths import left_out_in_fifths
from onefold.approximations.grid.lowrank import low_rank_factor
from onefold.approximations.grid.shifted import solve_shifted
from onefold.approximations.grid.sums import GridSums, grid_sums
from onefold.approximations.problem import Problem
from onefold.expansions import GridExpansion
from onefold.expansions.grid import Lattice
from onefold.kernels import Kernel
from onefold.linalg import Array, like, to_numpy
from onefold.machine.threads import check_stop, spans
from onefold.machine.warning import warn_user

_LIMIT = 2000  # iterations
_WORRYING = 1e-2  # relative residual of predictions
_COARSE = 0.02  # root mean square error of interpolated kernel values, of k(x, x)
_PROBES = 400
_BLOCK = 2**22


@dataclass(frozen=True)
class GridSolution:
    """Values f − b on the grid (μ, targets, points), and b (μ, targets)."""

    values: Any
    intercept: Any


class GridModel(Model):
    """One kernel on one grid, for every μ."""

    def __init__(self, kernel: Kernel, problem: Problem, lattice: Lattice, tolerance: float) -> None:
        self._kernel, self._problem, self._lattice = kernel, problem, lattice
        self._tolerance = tolerance
        self._X = np.asarray(to_numpy(problem.X), dtype=np.float64)
        self._Y = to_numpy(problem.Y)
        root = problem.root_weight
        self._weight = None if root is None else to_numpy(root) ** 2
        self.report: dict[str, Any] = {
            "name": "grid",
            "points": list(lattice.counts),
            "step": [float(h) for h in lattice.step],
            "kernel_error": interpolation_error(kernel, lattice, self._X),
        }
        if self.report["kernel_error"] > _COARSE:
            warn_user(
                f"the grid is too coarse for this kernel: interpolated values are off by "
                f"{self.report['kernel_error']:.2g} of k(x, x); use a smaller gamma or more points.",
            )

    def leave_one_out(self, alphas: Any) -> Array:
        raise ValueError(
            "interpolation on a grid has no closed form for leave-one-out; use cv=5 or 10, whose "
            "folds cost nothing in the number of rows."
        )

    def left_out(self, some: Any, alpha: float) -> tuple[Any, Array]:
        return left_out_in_fifths(self, self._problem.n, some, alpha)

    def heldout(self, parts: Sequence[Any], alphas: Any) -> list[Array]:
        found = [self._sums(rows) for rows in parts]
        if _partition(parts, self._problem.n):
            whole = found[0]
            for other in found[1:]:
                whole = whole + other
        else:
            whole = self._sums(slice(None))
        solutions = self._solve([whole - part for part in found], whole, alphas)
        return [self._predict(rows, s) for rows, s in zip(parts, solutions)]

    def expansion(self, alpha: Any) -> GridExpansion:  # type: ignore[override]
        """The model on all rows; c = WᵀV(y − f)/μ for rows off the grid."""
        t = self._Y.shape[1]
        ridges = target_ridges(alpha, t)
        rows = self._sums(slice(None))
        solution = self._solve([rows], rows, ridges.distinct)[0]
        values = solution.values[ridges.which, np.arange(t)]
        intercept = ridges.own(solution.intercept)
        misfit = rows.WY - intercept[:, None] * rows.W1 - (rows.A @ values.T).T
        return GridExpansion(
            self._kernel,
            self._lattice.lower,
            self._lattice.step,
            self._lattice.counts,
            (misfit / ridges.each[:, None]).T.copy(),
            values.T.copy(),
            intercept,
        )

    def _sums(self, rows: Any) -> GridSums:
        weight = None if self._weight is None else self._weight[rows]
        return grid_sums(self._lattice, self._X[rows], self._Y[rows], weight)

    def _solve(self, sets: list[GridSums], whole: GridSums, alphas: Any) -> list[GridSolution]:
        """The models of several training sets, for every μ."""
        alphas = np.asarray(alphas, dtype=np.float64).reshape(-1)
        bordered = self._problem.fit_intercept
        # Targets without their mean: what the border would remove anyway takes no digits.
        means = [s.Y1 / s.total if bordered else np.zeros_like(s.Y1) for s in sets]
        rhs = [s.WY - mean[:, None] * s.W1 for s, mean in zip(sets, means)]
        if bordered:
            rhs = [np.vstack([r, s.W1[None]]) for r, s in zip(rhs, sets)]
        # What is dropped of K_g moves W K_g Wᵀ by that share of the smallest μ at most.
        strength = float(abs(whole.A).sum(axis=1).max())
        dropped = 100 * self._tolerance * float(alphas.min()) / strength
        L = low_rank_factor(self._kernel, self._lattice, dropped)
        if L is None:
            fitted = self._iterated([s.A for s in sets], rhs, alphas)
        else:
            self.report["rank"] = L.shape[0]
            fitted = [_direct(L, s.A, r, alphas) for s, r in zip(sets, rhs)]
        solutions = []
        for s, mean, U in zip(sets, means, fitted):
            intercept = np.broadcast_to(mean, (alphas.size, mean.size)).copy()
            if bordered:
                b = -(U[:, :-1] @ s.W1) / (s.total - U[:, -1] @ s.W1)[:, None]
                U = U[:, :-1] - b[:, :, None] * U[:, -1:]
                intercept += b
            solutions.append(GridSolution(U, intercept))
        return solutions

    def _iterated(self, matrices: list[Any], rhs: list[Any], alphas: Any) -> list[Any]:
        """K_g c of every set and μ in one iteration, where K_g has no small factor."""
        K = self._lattice.kernel_products(self._kernel)
        width = rhs[0].shape[0]
        found = solve_shifted(
            _side_by_side(matrices, width),
            K,
            np.concatenate(rhs),
            alphas,
            tolerance=self._tolerance,
            limit=_LIMIT,
        )
        self._note(found.iterations, float(found.residual.max()))
        U = np.stack([K(c) for c in found.X])
        return [U[:, k * width : (k + 1) * width] for k in range(len(matrices))]

    def _predict(self, rows: Any, solution: GridSolution) -> Array:
        alphas, t, m = solution.values.shape
        grid = np.ascontiguousarray(solution.values.reshape(alphas * t, m).T)
        out = np.empty((alphas, len(rows), t))
        for part in spans(len(rows), max(1, _BLOCK // 4 ** self._X.shape[1])):
            values = self._lattice.weights(self._X[rows[part]]) @ grid
            out[:, part] = values.reshape(-1, alphas, t).transpose(1, 0, 2)
        out += solution.intercept[:, None, :]
        return like(out, self._problem.Y)

    def _note(self, iterations: int, residual: float) -> None:
        self.report["iterations"] = max(self.report.get("iterations", 0), iterations)
        self.report["residual"] = max(self.report.get("residual", 0.0), residual)
        if residual > _WORRYING:
            warn_user(
                f"the grid's system is solved to {residual:.1g} only after {iterations} iterations; "
                "use larger alphas.",
            )


def interpolation_error(kernel: Kernel, lattice: Lattice, X: Any) -> float:
    """Root mean square error of interpolated kernel values over pairs of rows, of k(x, x).

    Half of the pairs are of a row with itself and with rows close to it, where a kernel bends most. A
    model reports it as ``kernel_error``.
    """
    generator = np.random.default_rng(0)
    rows = X[generator.integers(0, X.shape[0], min(_PROBES, X.shape[0]))]
    near = rows + lattice.step * generator.uniform(-3, 3, size=rows.shape)
    near = np.clip(near, lattice.lower + lattice.step, X.max(axis=0))
    others = np.concatenate([near, X[generator.integers(0, X.shape[0], rows.shape[0])]])
    rows = np.concatenate([rows, rows])
    truth = kernel.pairs(rows - lattice.lower, others - lattice.lower)
    left, right = lattice.weights(rows), lattice.weights(others)
    points = lattice.offsets()
    error = np.empty(len(rows))
    for i in range(len(rows)):
        a, b = slice(*left.indptr[i : i + 2]), slice(*right.indptr[i : i + 2])
        tile = kernel(points[left.indices[a]], points[right.indices[b]])
        error[i] = left.data[a] @ tile @ right.data[b] - truth[i]
    return float(np.sqrt(np.mean(error**2)) / kernel.diagonal(rows[:1])[0])


def _direct(L: Any, A: Any, rhs: Any, alphas: Any) -> Any:
    r"""K_g c (μ, right-hand sides, points) with K_g = LᵀL: (L A Lᵀ + μI) θ = L b, K_g c = Lᵀθ."""
    check_stop()
    small = L @ (A @ L.T)
    values, vectors = np.linalg.eigh((small + small.T) / 2)
    projected = (rhs @ L.T) @ vectors
    weights = 1.0 / (np.maximum(values, 0.0)[None, :] + alphas[:, None])
    theta = (projected[None] * weights[:, None, :]) @ vectors.T
    return theta @ L


def _side_by_side(matrices: list[Any], width: int) -> Callable[[Any], Any]:
    """V → [V_k A_k]: each matrix on its own `width` rows of V."""

    def product(V: Any) -> Any:
        out = np.empty_like(V)
        for k, A in enumerate(matrices):
            rows = slice(k * width, (k + 1) * width)
            out[rows] = (A @ V[rows].T).T
        return out

    return product


def _partition(parts: Sequence[Any], n: int) -> bool:
    """Whether the parts hold every row exactly once."""
    count = np.zeros(n, dtype=np.intp)
    for rows in parts:
        count[rows] += 1
    return bool(np.all(count == 1))
