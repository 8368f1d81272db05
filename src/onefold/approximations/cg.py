r"""The true kernel where its matrix does not fit: preconditioned conjugate gradients.

(K + μV⁻¹) α = y − b is solved for all targets at once, in any array library, where the rows are.
Products with K use float32 tiles; the residual that decides is computed with float64 tiles from the
coefficients themselves. What preconditions is the best that memory holds:

*A float32 factor* L Lᵀ = K + μI, 4 n² bytes, on a GPU. Its rounding is a small part of K: a few
iterations do at any ridge for rough kernels, for smooth ones while μ is above about 1e-8 of K's largest
eigenvalue.
Where rounding leaves no factor, the diagonal is raised by 1e-7 of that eigenvalue, by ten times as much,
and so on. The factor at one μ serves its neighbours too: the condition of what it preconditions is the
ratio of the two. It is applied in float64, so that rounding does not spoil its symmetry.

*Landmarks.* With the whitened features Ψ (n, r) of a landmark model, weights folded in, and
M = ΨᵀΨ = Q D Qᵀ,

    (ΨΨᵀ + μI)⁻¹ z = (z − Ψ Q (D + μ)⁻¹ Qᵀ Ψᵀ z) / μ

Ψ, n r numbers, is held in float32 where it is large; M is that of the rounded Ψ, and products are in
float64: what is applied is then exactly symmetric and positive, which conjugate gradients rely on.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from onefold import linalg
from onefold.approximations.base import Approximation, register
from onefold.approximations.footprint import PANELS
from onefold.approximations.model import Model
from onefold.approximations.problem import Parts, Problem, TargetRidges, Workload
from onefold.basis import BASES, Design, Whitening, predict_groups
from onefold.basis.statistics import finite_kernel
from onefold.expansions import Expansion
from onefold.kernels import Kernel
from onefold.kernels.tiles import common_origin, device_rows
from onefold.linalg import (
    Array,
    HostArray,
    Index,
    as_float64,
    asarray_like,
    device_of,
    host_array,
    namespace,
    prefers_large_calls,
    take_rows,
    zeros,
)
from onefold.linalg.dense import add_gram, cholesky, mirror, solve_by_blocks, symmetric_eigh
from onefold.linalg.iterate import Correct, Map, Solution, conjugate_gradients, refined
from onefold.machine.speed import Speed
from onefold.machine.threads import (
    cached_property,
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
_SINGLE_LARGEST = 1e15  # features above leave float32's range when squared, kernel values in products
_SINGLE_NOISE = 30.0  # a ridge this many times the rounding of float32 tiles is safe with them
_SIDE = 1024  # of a tile on a host,
_GPU_SIDE = 8192  # and on a GPU
_STRIP = 128  # rows of a tile that are summed in float64 at once: they stay in cache
_BLOCK = 256  # rows of Ψ that one thread takes at a time: they stay in cache
_LARGE = 2**29  # bytes
_SKINNY = 8  # columns that a product has time for while it reads its tile
_REACH = 30.0  # a factor serves ridges up to so many times its own, or so small a part of it
_JITTER = 1e-7
_LARGEST_JITTER = 1e-3  # of the largest eigenvalue, where rounding leaves no factor
_DIGITS = 1e-3  # by which the recurrence may lower the residual before it is computed anew


def holds_factor(n: int, free: int | None) -> bool:
    """Whether a GPU of so many free bytes holds a float32 factor of n rows; None is a host.

    There a factorisation takes longer than the iterations it saves, from about ten thousand rows on.
    """
    return free is not None and 4.0 * n * (n + PANELS) <= _FACTOR_SHARE * free


@register
@dataclass(frozen=True)
class ConjugateGradients(Approximation):
    """The true kernel without its matrix, by preconditioned conjugate gradients.

    It fits one model and has no closed form for folds. It can be used in a search only with a learned
    metric, where every fold is refitted anyway.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of landmarks of the preconditioner; None means 1000, or 4000 on a GPU. If a float32 factor
        of the matrix fits in the memory of a GPU, it replaces the landmarks.
    tolerance : float, default=1e-5
        Stop when ‖y − b − (K + μV⁻¹)α‖ ≤ tolerance · ‖y‖, computed in float64; y is centred if
        there is an intercept. ``approximation_`` contains the residual reached; a warning is raised if
        it is above the tolerance.
    max_iterations : int, default=500
        Maximum number of iterations.
    random_state : int, default=0
        Seed of the landmarks.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVR
    >>> from onefold.approximations import ConjugateGradients
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LSSVR(gamma=1.0, alpha=0.1, approximation=ConjugateGradients(100)).fit(X, y)
    >>> exact = LSSVR(gamma=1.0, alpha=0.1).fit(X, y)
    >>> bool(abs(model.predict(X) - exact.predict(X)).max() < 0.1)
    True
    """

    n_components: int | None = None
    tolerance: float = 1e-5
    max_iterations: int = 500
    random_state: int = 0

    name = "cg"
    exact = True
    selects = False
    takes_precomputed = False
    takes_sparse = False
    takes = "dense rows"

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

    def max_parallel_models(self, n: int, d: int, targets: int, load: Workload, free: int | None) -> int:
        """One after the other: each has threads of its own, and keeps what tiles it finds room for."""
        return 1

    def has_known_duration(self, problem: Problem) -> bool:
        """Whether a few iterations will do: on a GPU beyond what holds a factor, hundreds are needed."""
        machine = problem.machine
        return not machine.gpu or holds_factor(problem.n, machine.free)

    def duration(self, n: int, d: int, targets: int, load: Workload, speed: Speed) -> float:
        """Per kernel and ridge: the preconditioner, and tiles and products of the iterations.

        30 of them with landmarks, few with a factor. A host makes half of the tiles and keeps one core
        busy with each; a GPU makes them all, in float32.
        """
        gpu = load.gpu is not None
        pairs = float(n) ** 2
        iterations = 30
        m = self._landmarks(n, gpu=gpu)
        if gpu:
            each = pairs * ((d + targets + _SKINNY) / speed.single + 1.5 / speed.exponentials)
        else:
            workers = min(thread_budget(), count_workers(None))
            each = pairs * (d / 2 + targets + _SKINNY) / speed.multiply_adds
            each += pairs * 1.5 / (workers * speed.exponentials)
        precondition = (n * m**2 + 40 * m**3) / speed.multiply_adds
        if holds_factor(n, load.gpu):
            precondition = float(n) ** 3 / (6 * speed.single_cholesky)
            iterations = 10
        return load.kernels * load.alphas * (precondition + iterations * each)

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> IterativeModel:
        return IterativeModel(self, kernel, problem)

    def low_rank(self, kernel: Kernel, problem: Problem, root: Array) -> LowRankPreconditioner:
        """The preconditioner of landmarks; a GPU has many of them, but none that a host would draw."""
        gpu = problem.machine.gpu
        m = self._landmarks(problem.n, gpu=gpu)
        method = "uniform" if gpu else "rpcholesky"
        basis = BASES[method](kernel, problem.X, m, np.random.default_rng(self.random_state))
        return LowRankPreconditioner(Design(kernel, basis.rows), problem.X, root, basis.report)


class Preconditioner(Protocol):
    """(K + μI)⁻¹, nearly."""

    report: dict[str, Any]

    def solver(self, mu: float) -> Map:
        """The function z ↦ (K + μI)⁻¹ z, nearly, for z of shape (n, columns)."""


class Operator(Protocol):
    """K as a linear operator, from tiles of one dtype."""

    keep: bool  # whether tiles are kept

    def product(self, V: Any, *, rough: bool) -> Any:
        """K V (n, columns), float64; `rough` multiplies in the dtype of the tiles: about five digits."""


class IterativeModel(Model):
    """K itself, solved for one μ at a time."""

    no_leave_one_out = (
        'approximation="cg" fits a single model, without held-out predictions; use '
        'approximation="nystroem" and refit="exact".'
    )

    def __init__(self, settings: ConjugateGradients, kernel: Kernel, problem: Problem) -> None:
        self._settings = settings
        self._kernel = kernel
        self.problem = problem
        weighted = problem.root_weight is not None
        self._root = problem.root_weight if weighted else linalg.ones(problem.n, problem.Y)
        self._operators: dict[str, Operator] = {}  # by the dtype of their tiles
        self._factor: FactorPreconditioner | None = None
        free = linalg.free_memory_of(problem.X) if problem.machine.gpu else None
        if self._small and holds_factor(problem.n, free):
            self._factor = FactorPreconditioner(kernel, problem.X, self._root)
        self.report = {
            "name": "cg",
            "reason": f"the true kernel of {problem.n} rows without a dense factorisation",
        }

    @cached_property
    def _small(self) -> bool:
        """Whether rows and kernel values have a place in float32."""
        X = self.problem.X
        xp = namespace(self.problem.X)
        values = float(xp.max(self._kernel.diagonal(X)))
        return max(float(xp.max(X)), -float(xp.min(X)), values) < _SINGLE_LARGEST

    @cached_property
    def _low_rank(self) -> LowRankPreconditioner:
        return self._settings.low_rank(self._kernel, self.problem, self._root)

    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        raise ValueError(self.no_leave_one_out)

    def expansion(self, alpha: ArrayLike) -> Expansion:
        Y = self.problem.Y
        solves = []
        xp = namespace(Y)
        ridges = TargetRidges(alpha, Y.shape[1])
        groups = [np.flatnonzero(ridges.positions == i) for i in range(ridges.distinct.size)]
        with limit_blas(1):  # the same digits whatever the number of threads
            for value, own in zip(ridges.distinct, groups):
                solves.append(self._solve(float(value), own))
        self.report["solves"] = [outcome for *_, outcome in solves]
        worst = max(self.report["solves"], key=lambda outcome: outcome["residual"])
        if not worst["converged"]:
            more = "use " if self._factor is not None else "use more landmarks (n_components), "
            warn_user(
                f"conjugate gradients stopped after {worst['iterations']} iterations at a relative "
                f"residual of {worst['residual']:.1e}, above the tolerance "
                f"{self._settings.tolerance:.1e}; {more}a larger alpha, or more iterations "
                "(max_iterations).",
                ConvergenceWarning,
            )
        back = np.argsort(np.concatenate(groups))  # from the order of the ridges to that of the targets
        dual = take_rows(xp.concat([dual.T for dual, *_ in solves]), back).T
        intercept = take_rows(xp.concat([b for _, b, _ in solves]), back)
        return Expansion(self._kernel, self.problem.X, dual, intercept)

    def _operators_for(self, mu: float) -> list[Operator]:
        """What carries the iteration along, and last what the residual is computed with."""
        X = self.problem.X
        noise = float(np.finfo(np.float32).eps) / 2 * np.sqrt(self.problem.n)
        single = self._small and mu > _SINGLE_NOISE * noise
        names = ["float32", "float64"] if single else ["float64"]
        for name in names:
            if name in self._operators:
                continue
            if prefers_large_calls(X):
                self._operators[name] = DeviceOperator(self._kernel, X, name)
            else:
                size = self.problem.n**2 * np.dtype(name).itemsize // 2
                free = linalg.free_memory_of(X)
                keep = name == names[0] and free is not None and size < _KEEP_SHARE * free
                self._operators[name] = HostOperator(self._kernel, X, dtype=np.dtype(name), keep=keep)
        kept = "kept" if self._operators[names[0]].keep else "computed at each product"
        self.report["tiles"] = f"{names[0]}, {kept}"
        return [self._operators[name] for name in names]

    def _preconditioner(self, mu: float) -> Map:
        if self._factor is not None:
            try:
                solver = self._factor.solver(mu)
                self.report["preconditioner"] = self._factor.report
                return solver
            except np.linalg.LinAlgError:  # not even nearly positive semi-definite
                self._factor = None
        self.report["preconditioner"] = self._low_rank.report
        return self._low_rank.solver(mu)

    def _solve(self, mu: float, targets: Index) -> tuple[Array, Array, dict[str, Any]]:
        """α, b and how it went, for the given target columns."""
        problem = self.problem
        root = self._root
        xp = namespace(self.problem.Y)
        Y = take_rows(problem.Y.T, targets).T
        offset = zeros(len(targets), Y)
        if problem.fit_intercept:  # the intercept takes a shift of the targets, their digits stay
            offset = (root**2 @ Y) / float(root @ root)
        Y = Y - offset[None, :]
        # In units of their own, by a power of 2: squares neither underflow nor overflow.
        unit = asarray_like(np.exp2(np.frexp(host_array(xp.max(xp.abs(Y), axis=0)))[1]), Y)
        operators = self._operators_for(mu)

        def times(operator: Operator, *, fast: bool) -> Map:
            return lambda V: root[:, None] * operator.product(root[:, None] * V, rough=fast) + mu * V

        a, b, outcome = solve_refined(
            times(operators[-1], fast=False),
            [times(operator, fast=True) for operator in operators],
            self._preconditioner(mu),
            root[:, None] * (Y / unit[None, :]),
            root,
            fit_intercept=problem.fit_intercept,
            tolerance=self._settings.tolerance,
            max_iterations=self._settings.max_iterations,
        )
        outcome = {"alpha": mu * problem.alpha_unit, **outcome}
        return root[:, None] * a * unit[None, :], b * unit + offset, outcome


class HostOperator:
    """K from tiles of its lower triangle on threads, kept or made each time."""

    def __init__(self, kernel: Kernel, X: Any, *, dtype: Any, keep: bool) -> None:
        self.dtype = dtype
        self.keep = keep
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

    def product(self, V: HostArray, *, rough: bool) -> HostArray:
        dtype, height = (self.dtype, _SIDE) if rough else (np.dtype(np.float64), _STRIP)
        narrow = V.astype(dtype, copy=False)

        def work(i: int) -> HostArray:
            start = self._parts[i].start
            out = np.zeros_like(V)
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


class DeviceOperator:
    """K from square tiles, one after the other, each large enough to keep a device busy."""

    keep = False

    def __init__(self, kernel: Kernel, X: Array, dtype: str) -> None:
        xp = namespace(X)
        origin = common_origin(kernel, X)
        rows = as_float64(X) if origin is None else as_float64(X) - origin[None, :]
        rows = xp.astype(rows, getattr(xp, dtype))
        side = _GPU_SIDE if linalg.on_accelerator(X) else _SIDE
        self._kernel = kernel
        self._parts = list(spans(X.shape[0], side))
        self._rows = [rows[part, :] for part in self._parts]
        self._bound = [kernel.bind(some) for some in self._rows]

    def product(self, V: Array, *, rough: bool) -> Array:
        xp = namespace(V)
        out = zeros(V.shape, V)
        narrow = xp.astype(V, self._rows[0].dtype, copy=False) if rough else V
        for i, (part, left) in enumerate(zip(self._parts, self._rows)):
            for j, (there, bound) in enumerate(zip(self._parts, self._bound)):
                check_stop()
                tile = self._kernel(left, left) if i == j else bound(left)  # at no distance from itself
                tile = tile if rough else as_float64(tile)
                out[part, :] += tile @ narrow[there, :]
                del tile  # before the next one needs its memory
        return out


class FactorPreconditioner:
    """L Lᵀ = K + μI in float32 for one μ and its neighbours; 4 n² bytes, O(n³) time."""

    def __init__(self, kernel: Kernel, X: Array, root: Array) -> None:
        xp = namespace(X)
        origin = common_origin(kernel, X)
        rows = as_float64(X) if origin is None else as_float64(X) - origin[None, :]
        self._kernel = kernel
        self._rows = xp.astype(rows, xp.float32)
        self._root = root
        self._matrix: Any = None
        self._factor: Any = None
        self._mu = 0.0
        self.report: dict[str, Any] = {"method": "float32 factor"}

    def solver(self, mu: float) -> Map:
        """As in `Preconditioner`; LinAlgError where K is too far from positive semi-definite."""
        if self._factor is None or not 1 / _REACH <= mu / self._mu <= _REACH:
            jitter = 0.0
            while not self._factorised(mu, jitter):
                jitter = 10 * jitter or _JITTER
                if jitter > _LARGEST_JITTER:
                    self._factor = self._matrix = None
                    raise np.linalg.LinAlgError("the kernel matrix is not positive semi-definite")
            self._mu = mu
            self.report = self.report | {"alpha": mu, "jitter": jitter}
        return lambda Z: solve_by_blocks(self._factor, Z)

    def _factorised(self, mu: float, jitter: float) -> bool:
        """Whether there is a factor at μ with so much of the largest eigenvalue on the diagonal."""
        rows = self._rows
        n = self._rows.shape[0]
        xp = namespace(self._rows)
        if self._matrix is None:
            self._matrix = xp.empty((n, n), dtype=rows.dtype, device=device_of(rows))
        K = self._matrix
        bound = self._kernel.bind(rows)
        largest = 0.0
        root = xp.astype(self._root, rows.dtype)
        for part in spans(n, device_rows(n)):
            check_stop()
            out = K[part, :]
            tile = bound(rows[part, :], out)
            tile *= root[part, None]
            tile *= root[None, :]
            if tile is not out:
                K[part, :] = tile
            # No eigenvalue is larger than the largest sum of a row's sizes.
            largest = max(largest, float(xp.max(xp.sum(xp.abs(tile), axis=1, dtype=xp.float64))))
        diagonal = as_float64(self._kernel.diagonal(rows)) * self._root**2 + (mu + jitter * largest)
        xp.reshape(K, (-1,))[:: n + 1] = xp.astype(diagonal, rows.dtype)
        try:
            self._factor = cholesky(K, overwrite=True)
        except np.linalg.LinAlgError:
            return False
        return True


class LowRankPreconditioner:
    """(K̃ + μI)⁻¹ for any μ; O(n m²) to set up, O(n r) to apply."""

    def __init__(self, design: Design, X: Any, root: Any, report: dict[str, Any]) -> None:
        T = Whitening.of(design.inner(), rows=X.shape[0]).T
        n = X.shape[0]
        xp = namespace(root)
        rank = T.shape[1]
        self.report = {**report, "rank": rank}
        dtype = xp.float32 if 8 * n * rank > _LARGE else xp.float64
        self._features = xp.empty((n, rank), dtype=dtype, device=device_of(root))
        for _, rows, values in predict_groups(design, rows_of(X), [T]):
            self._features[rows, :] = values * root[rows, None]
        large = prefers_large_calls(root)
        self._threads = 1 if large else None
        self._parts = list(spans(n, device_rows(rank) if large else _BLOCK))

        def gram(part: slice) -> Array:
            total = zeros((rank, rank), root)
            add_gram(total, self._some(part))
            return mirror(total)

        blocks = spans(n, device_rows(rank) if large else 8 * _BLOCK)
        total = sum(map_in_order(gram, blocks, self._threads))
        values, self._vectors = symmetric_eigh(finite_kernel(total), release_lock=True)
        self._values = linalg.clip_in_place(values, 0.0, None)

    def _some(self, part: slice) -> Any:
        return as_float64(self._features[part, :])

    def solver(self, mu: float) -> Map:
        inner = (self._vectors / (self._values + mu)[None, :]) @ self._vectors.T

        def solve(Z: Any) -> Array:
            def project(part: slice) -> Array:
                return self._some(part).T @ Z[part, :]

            small = inner @ sum(map_in_order(project, self._parts, self._threads))

            def correct(part: slice) -> Array:
                return (Z[part, :] - self._some(part) @ small) / mu

            return namespace(Z).concat(list(map_in_order(correct, self._parts, self._threads)))

        return solve


def solve_refined(
    apply: Map,
    roughs: Sequence[Map],
    precondition: Map,
    Y: Array,
    root: Array,
    *,
    fit_intercept: bool,
    tolerance: float,
    max_iterations: int,
) -> tuple[Array, Array, dict[str, Any]]:
    r"""A a + s b = Y, sᵀa = 0, until ‖S⁻¹ (Y − s b − A a)‖ ≤ `tolerance` · ‖S⁻¹ Y‖ in each column.

    s holds √weights, S = diag s; without an intercept b = 0. The residual is computed from a and b by
    `apply`. What it leaves is solved for, three digits at a time, with the first of `roughs`: cheaper
    and less exact products. Where that no longer halves the residual, the next one takes over.
    Returns a, b and a report: iterations, the largest relative residual, and whether it converged.
    """
    xp = namespace(Y)

    def norm(R: Array) -> Array:
        return xp.linalg.vector_norm(R / root[:, None], axis=0)

    scale = linalg.clip_in_place(norm(Y), float(np.finfo(float).tiny), None)
    rho = None

    def correction(product: Map) -> Correct:
        def correct(left: Array, some: Index, relative: HostArray, limit: int) -> Solution | None:
            nonlocal rho
            # A rough product is relative to what it multiplies: a correction needs fewer digits than a.
            goal = asarray_like(np.maximum(0.3 * tolerance, _DIGITS * relative), Y) * take_rows(
                scale, some
            )
            if fit_intercept and rho is None:
                # Whatever is wrong with ρ = A⁻¹s shows in the next residual, and is put right with it.
                left = xp.concat([root[:, None], left], axis=1)
                goal = xp.concat([_DIGITS * norm(root[:, None]), goal])
            left = xp.asarray(left, copy=True)
            found = conjugate_gradients(product, precondition, left, norm, goal, limit=limit)
            step = found.X
            shift = zeros(some.size, Y)
            # Beyond the range of the rough product:
            if not (linalg.all_finite(step) and bool(xp.any(step != 0))):
                return None
            if fit_intercept:
                if rho is None:
                    rho = step[:, :1]
                    step = step[:, 1:]
                    if not float(root @ rho[:, 0]) > 0:  # as sᵀA⁻¹s is, but for rounding
                        rho = None
                        return None
                shift = (root @ step) / float(root @ rho[:, 0])
                step = step - rho * shift[None, :]
            return replace(found, X=xp.concat([step, shift[None, :]]), state="slow")

        return correct

    def residual_of(ab: Array, some: Index) -> Array:
        return take_rows(Y.T, some).T - root[:, None] * ab[-1:, :] - apply(ab[:-1, :])

    found = refined(
        residual_of,
        [correction(rough) for rough in roughs],
        zeros((Y.shape[0] + 1, Y.shape[1]), Y),  # b in the last row
        Y,
        size=lambda R, some: norm(R) / take_rows(scale, some),
        enough=tolerance,
        limit=max_iterations,
    )
    residual = float(found.residual.max(initial=0.0))
    converged = found.state == "converged"
    report = {"iterations": found.iterations, "residual": residual, "converged": converged}
    return found.X[:-1, :], found.X[-1, :], report
