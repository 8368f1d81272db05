r"""The true kernel where its matrix does not fit: preconditioned conjugate gradients.

(K + μV⁻¹) α = y − b is solved for all targets at once, preconditioned by the low-rank matrix of a few
landmarks. Products with K use float32 tiles, kept where memory allows and computed again otherwise; the
residual that decides is computed with float64 tiles from the coefficients themselves.

*The preconditioner.* With the whitened features Ψ (n, r) of a landmark model, weights folded in, and
M = ΨᵀΨ = Q D Qᵀ,

    (ΨΨᵀ + μI)⁻¹ z = (z − Ψ Q (D + μ)⁻¹ Qᵀ Ψᵀ z) / μ

Ψ, n r numbers, is held in float32 where it is large; M is that of the rounded Ψ, and products are in
float64: what is applied is then exactly symmetric and positive, which conjugate gradients rely on.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from onefold.approximations.base import Approximation, Model, register
from onefold.approximations.problem import Parts, Problem, TargetRidges, Workload
from onefold.basis import BASES, Basis, Design, Whitening, predict_groups
from onefold.basis.statistics import finite_kernel
from onefold.expansions import Expansion
from onefold.kernels import Kernel, Precomputed
from onefold.kernels.tiles import common_origin
from onefold.linalg import Array, HostArray, Index, is_sparse
from onefold.linalg.dense import add_gram, mirror
from onefold.linalg.iterate import Correct, Map, Solution, conjugate_gradients, refined
from onefold.machine.memory import available_memory
from onefold.machine.speed import Speed
from onefold.machine.threads import (
    check_stop,
    count_workers,
    limit_blas,
    map_in_order,
    spans,
    thread_budget,
)
from onefold.machine.warning import warn_user
from onefold.rows import rows_of

_KEEP_SHARE = 0.5  # of the free memory may go to kept tiles
_FACTOR_SHARE = 0.9  # of a GPU's may go to a factor
_PANELS = 3 * 2048  # columns of what is at work on a factor beside it
_SINGLE_LARGEST = 1e15  # features above leave float32's range when squared, kernel values in products
_SINGLE_NOISE = 30.0  # a ridge this many times the rounding of float32 tiles is safe with them
_SIDE = 1024  # of a tile
_STRIP = 128  # rows of a tile that are summed in float64 at once: they stay in cache
_BLOCK = 256  # rows of Ψ that one thread takes at a time: they stay in cache
_LARGE = 2**29  # bytes
_SKINNY = 8  # columns that a product has time for while it reads its tile
_DIGITS = 1e-3  # by which the recurrence may lower the residual before it is computed anew


def holds_factor(n: int, free: int | None) -> bool:
    """Whether a GPU of so many free bytes holds a float32 factor of n rows; None is a host.

    There a factorisation takes longer than the iterations that it saves, from some ten thousand rows on.
    """
    return free is not None and 4.0 * n * (n + _PANELS) <= _FACTOR_SHARE * free


@register
@dataclass(frozen=True)
class ConjugateGradients(Approximation):
    """The exact machine by preconditioned conjugate gradients.

    It fits one model and has no closed form for folds: it selects only with a learned metric, whose
    searches refit every fold anyway.

    Parameters
    ----------
    n_components : int or None, default=None
        Landmarks of the preconditioner; None is 1000, on a GPU 4000. A GPU whose memory holds a float32
        factor of the matrix has that in their place.
    tolerance : float, default=1e-5
        Stop when ‖y − b − (K + μV⁻¹)α‖ ≤ tolerance · ‖y‖, computed in float64; y about its mean where
        there is an intercept. ``approximation_`` has what was reached, and a warning says if it is more.
    max_iterations : int, default=500
    random_state : int, default=0
    """

    n_components: int | None = None
    tolerance: float = 1e-5
    max_iterations: int = 500
    random_state: int = 0

    name = "cg"
    exact = True
    selects = False

    def __post_init__(self) -> None:
        for name in ("n_components", "max_iterations"):
            value = getattr(self, name)
            none = value is None and name == "n_components"
            if not none and (not isinstance(value, numbers.Integral) or value < 1):
                raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}.")
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance must lie between 0 and 1; got {self.tolerance!r}.")

    def _landmarks(self, n: int, *, gpu: bool) -> int:
        most = self.n_components or (4000 if gpu else 1000)
        return min(most, max(1, n // 4))

    def check(self, kernel: Kernel, problem: Problem, load: Workload) -> None:
        if isinstance(kernel, Precomputed) or is_sparse(problem.X) or problem.on_device:
            raise ValueError(
                "conjugate gradients compute the kernel from dense NumPy rows; use "
                'approximation="exact" for a precomputed matrix, sparse rows or another library.'
            )
        if load.folds:
            raise ValueError(
                "conjugate gradients fit one model; select with an approximation such as Nystroem and "
                'refit="exact".'
            )

    def duration(self, n: int, d: int, targets: int, load: Workload, speed: Speed) -> float:
        """Per kernel and ridge: the preconditioner, and tiles and products of the iterations.

        30 of them with landmarks, few with a factor. A host makes half of the tiles and keeps one core
        busy with each; a GPU makes them all, in float32.
        """
        gpu, pairs, iterations = load.gpu is not None, float(n) ** 2, 30
        m = self._landmarks(n, gpu=gpu)
        if gpu:
            each = pairs * ((d + targets + _SKINNY) / speed.single + 1.5 / speed.exponentials)
        else:
            workers = min(thread_budget(), count_workers(None))
            each = pairs * (d / 2 + targets + _SKINNY) / speed.multiply_adds
            each += pairs * 1.5 / (workers * speed.exponentials)
        precondition = (n * m**2 + 40 * m**3) / speed.multiply_adds
        if holds_factor(n, load.gpu):
            precondition, iterations = float(n) ** 3 / (6 * speed.single_cholesky), 10
        return load.kernels * load.alphas * (precondition + iterations * each)

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> IterativeModel:
        m = self._landmarks(problem.n, gpu=problem.machine.gpu)
        rng = np.random.default_rng(self.random_state)
        with limit_blas(1):  # the same digits whatever the number of threads
            basis = BASES["rpcholesky"](kernel, problem.X, m, rng)
            return IterativeModel(self, kernel, problem, basis)


class IterativeModel(Model):
    """K itself, solved for one μ at a time."""

    no_leave_one_out = "conjugate gradients fit one model and make no held-out predictions."

    def __init__(
        self, settings: ConjugateGradients, kernel: Kernel, problem: Problem, basis: Basis
    ) -> None:
        self._settings, self._kernel, self.problem = settings, kernel, problem
        self._root = np.ones(problem.n) if problem.root_weight is None else problem.root_weight
        self._low_rank = LowRankPreconditioner(Design(kernel, basis.rows), problem.X, self._root)
        self._operators: dict[Any, KernelOperator] = {}  # by the dtype of their tiles
        self.report = {
            "name": "cg",
            "reason": f"{problem.n} rows: the true kernel without a dense factorisation",
            "preconditioner": {**basis.report, "rank": self._low_rank.rank},
        }

    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        raise ValueError(self.no_leave_one_out)

    def expansion(self, alpha: ArrayLike) -> Expansion:
        problem, (_, t), solves = self.problem, self.problem.Y.shape, []
        ridges = TargetRidges(alpha, t)
        dual, intercept = np.empty(problem.Y.shape), np.zeros(t)
        with limit_blas(1):
            for i, value in enumerate(ridges.distinct):
                own = np.flatnonzero(ridges.which == i)
                dual[:, own], intercept[own], outcome = self._solve(float(value), own)
                solves.append(outcome)
        self.report["solves"] = solves
        worst = max(solves, key=lambda outcome: outcome["residual"])
        if not worst["converged"]:
            warn_user(
                f"conjugate gradients stopped after {worst['iterations']} iterations at a relative "
                f"residual of {worst['residual']:.1e}, above the tolerance "
                f"{self._settings.tolerance:.1e}; use more landmarks (n_components), a larger alpha, or "
                "more iterations (max_iterations).",
                ConvergenceWarning,
            )
        return Expansion(self._kernel, problem.X, dual, intercept)

    def _operators_for(self, mu: float) -> list[KernelOperator]:
        """What carries the iteration along, and last what the residual is computed with."""
        X, noise = self.problem.X, float(np.finfo(np.float32).eps) / 2 * np.sqrt(self.problem.n)
        largest = max(float(X.max()), -float(X.min()), float(self._kernel.diagonal(X).max()))
        single = largest < _SINGLE_LARGEST and mu > _SINGLE_NOISE * noise
        dtypes = [np.dtype(kind) for kind in (["float32", "float64"] if single else ["float64"])]
        for dtype in dtypes:
            if dtype not in self._operators:
                bytes_kept, free = self.problem.n**2 * dtype.itemsize // 2, available_memory()
                keep = dtype is dtypes[0] and free is not None and bytes_kept < _KEEP_SHARE * free
                self._operators[dtype] = KernelOperator(self._kernel, X, dtype=dtype, keep=keep)
        kept = "kept" if self._operators[dtypes[0]].keep else "computed at each product"
        self.report["tiles"] = f"{dtypes[0]}, {kept}"
        return [self._operators[dtype] for dtype in dtypes]

    def _solve(self, mu: float, targets: Index) -> tuple[HostArray, HostArray, dict[str, Any]]:
        """α, b and how it went, for the given target columns."""
        problem, root = self.problem, self._root
        Y, offset = problem.Y[:, targets], np.zeros(len(targets))
        if problem.fit_intercept:  # the intercept takes a shift of the targets, their digits stay
            offset = np.average(Y, axis=0, weights=root**2)
        Y = Y - offset[None, :]
        # In units of their own, by a power of 2: squares neither underflow nor overflow.
        unit = np.exp2(np.frexp(np.abs(Y).max(axis=0, initial=0.0))[1])
        operators = self._operators_for(mu)

        def times(operator: KernelOperator, *, fast: bool) -> Map:
            return lambda V: root[:, None] * operator.product(root[:, None] * V, rough=fast) + mu * V

        a, b, outcome = solve_refined(
            times(operators[-1], fast=False),
            [times(operator, fast=True) for operator in operators],
            self._low_rank.solver(mu),
            root[:, None] * (Y / unit[None, :]),
            root,
            fit_intercept=problem.fit_intercept,
            tolerance=self._settings.tolerance,
            max_iterations=self._settings.max_iterations,
        )
        outcome = {"alpha": mu * problem.alpha_unit, **outcome}
        return root[:, None] * a * unit[None, :], b * unit + offset, outcome


class KernelOperator:
    """K as a linear operator, from tiles of the lower triangle in `dtype`, kept or made each time."""

    def __init__(self, kernel: Kernel, X: Any, *, dtype: Any, keep: bool) -> None:
        self.dtype, self.keep = dtype, keep
        self._threads = None if kernel.thread_safe else 1
        origin = common_origin(kernel, X)
        self._rows = np.asarray(X if origin is None else X - origin[None, :], dtype=dtype)
        self._parts = list(spans(X.shape[0], _SIDE))
        self._bound = [kernel.bind(self._rows[part]) for part in self._parts]
        self._kept: list[list[HostArray]] | None = None
        if keep:

            def strip(i: int) -> list[HostArray]:
                left = self._rows[self._parts[i]]
                return [tile(left) for tile in self._bound[: i + 1]]

            numbers = range(len(self._parts))
            self._kept = list(map_in_order(strip, numbers, self._threads))

    def product(self, V: HostArray, *, rough: bool = False) -> HostArray:
        """K V (n, columns), float64; `rough` multiplies in the dtype of the tiles: some five digits."""
        dtype, height = (self.dtype, _SIDE) if rough else (np.dtype(np.float64), _STRIP)
        narrow = V.astype(dtype, copy=False)

        def work(i: int) -> HostArray:
            start, out = self._parts[i].start, np.zeros_like(V)
            for j, tile in self._tiles(i):
                check_stop()
                part = self._parts[j]
                for strip in spans(tile.shape[0], height):
                    piece = tile[strip].astype(dtype, copy=False)
                    here = slice(start + strip.start, start + strip.stop)
                    out[here] += piece @ narrow[part]
                    if j != i:
                        out[part] += piece.T @ narrow[here]
            return out

        total = np.zeros_like(V)
        # Longest block rows first, so that the last ones to run are short.
        for piece in map_in_order(work, reversed(range(len(self._parts))), self._threads):
            total += piece
        return total

    def _tiles(self, i: int) -> Iterator[tuple[int, HostArray]]:
        """(j, tile) of block row i up to the diagonal: the kept ones, or each in the same memory."""
        if self._kept is not None:
            yield from enumerate(self._kept[i])
            return
        left = self._rows[self._parts[i]]
        buffer = np.empty((left.shape[0], _SIDE), dtype=left.dtype)
        for j, part in enumerate(self._parts[: i + 1]):
            yield j, self._bound[j](left, buffer[:, : part.stop - part.start])


class LowRankPreconditioner:
    """(K̃ + μI)⁻¹ for any μ; O(n m²) to set up, O(n r) to apply."""

    def __init__(self, design: Design, X: Any, root: Any) -> None:
        T = Whitening.of(design.inner(), rows=X.shape[0]).T
        self.rank = T.shape[1]
        large = 8 * X.shape[0] * self.rank > _LARGE
        self._features = np.empty((X.shape[0], self.rank), dtype=np.float32 if large else np.float64)
        for _, rows, values in predict_groups(design, rows_of(X), [T]):
            self._features[rows] = values * root[rows, None]
        self._parts = list(spans(X.shape[0], _BLOCK))

        def gram(part: slice) -> Array:
            total = np.zeros((self.rank, self.rank))
            add_gram(total, self._some(part))
            return mirror(total)

        total = sum(map_in_order(gram, spans(X.shape[0], 8 * _BLOCK)))
        values, self._vectors = np.linalg.eigh(finite_kernel(total))
        self._values = np.maximum(values, 0.0)

    def _some(self, part: slice) -> HostArray:
        return self._features[part].astype(np.float64, copy=False)

    def solver(self, mu: float) -> Map:
        """The function z ↦ (K̃ + μI)⁻¹ z for z of shape (n, columns)."""
        inner = (self._vectors / (self._values + mu)[None, :]) @ self._vectors.T

        def solve(Z: HostArray) -> HostArray:
            projected = map_in_order(lambda part: self._some(part).T @ Z[part], self._parts)
            small = inner @ sum(projected)
            corrected = map_in_order(lambda p: (Z[p] - self._some(p) @ small) / mu, self._parts)
            return np.concatenate(list(corrected))

        return solve


def solve_refined(
    apply: Map,
    roughs: Sequence[Map],
    precondition: Map,
    Y: HostArray,
    root: HostArray,
    *,
    fit_intercept: bool,
    tolerance: float,
    max_iterations: int,
) -> tuple[HostArray, HostArray, dict[str, Any]]:
    r"""A a + s b = Y, sᵀa = 0, until ‖S⁻¹ (Y − s b − A a)‖ ≤ `tolerance` · ‖S⁻¹ Y‖ in each column.

    s holds √weights, S = diag s; without an intercept b = 0. The residual is computed from a and b by
    `apply`. What it leaves is solved for, three digits at a time, with the first of `roughs`: cheaper
    and less exact products. Where that no longer halves the residual, the next one takes over.
    Returns a, b and a report: iterations, the largest relative residual, and whether it converged.
    """

    def norm(R: HostArray) -> HostArray:
        return np.linalg.norm(R / root[:, None], axis=0)

    scale, rho = np.maximum(norm(Y), np.finfo(float).tiny), None

    def correction(product: Map) -> Correct:
        def correct(left: HostArray, some: Index, relative: HostArray, limit: int) -> Solution | None:
            nonlocal rho
            # A rough product is relative to what it multiplies: a correction needs fewer digits than a.
            goal = np.maximum(0.3 * tolerance, _DIGITS * relative) * scale[some]
            if fit_intercept and rho is None:
                # Whatever is wrong with ρ = A⁻¹s shows in the next residual, and is put right with it.
                left = np.hstack([root[:, None], left])
                goal = np.append(_DIGITS * norm(root[:, None]), goal)
            found = conjugate_gradients(product, precondition, left.copy(), norm, goal, limit=limit)
            step, shift = found.X, np.zeros(some.size)
            if not (np.all(np.isfinite(step)) and step.any()):  # beyond the range of the rough product
                return None
            if fit_intercept:
                if rho is None:
                    rho, step = step[:, :1], step[:, 1:]
                    if not float(root @ rho[:, 0]) > 0:  # as sᵀA⁻¹s is, but for rounding
                        rho = None
                        return None
                shift = (root @ step) / float(root @ rho[:, 0])
                step = step - rho * shift[None, :]
            return replace(found, X=np.vstack([step, shift]), state="slow")

        return correct

    found = refined(
        lambda ab, some: Y[:, some] - root[:, None] * ab[-1:] - apply(ab[:-1]),
        [correction(rough) for rough in roughs],
        np.zeros((Y.shape[0] + 1, Y.shape[1])),  # b in the last row
        Y,
        size=lambda R, some: norm(R) / scale[some],
        enough=tolerance,
        limit=max_iterations,
    )
    residual, converged = float(found.residual.max(initial=0.0)), found.state == "converged"
    report = {"iterations": found.iterations, "residual": residual, "converged": converged}
    return found.X[:-1], found.X[-1], report
