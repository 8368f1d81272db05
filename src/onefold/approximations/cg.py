r"""The true kernel where its matrix does not fit: preconditioned conjugate gradients.

The model of all rows and those without each fold are solved for together, in any array library, where
the rows are: the products with K take most of the time, and one product serves all models. A *system* is
a set of weights, 0 for rows that are left out. With S = diag √weights and s its diagonal,

    (1)  A a + s b = S Y,  sᵀ a = 0,  A = S K S + μI        α = S a, without an intercept b = 0

Conjugate gradients stay in {sᵀa = 0} if the preconditioner P of A (:mod:`.preconditioners`) does:

    (2)  g = P⁻¹ r − w (sᵀ P⁻¹ r) / (sᵀ w),  w = P⁻¹ s

so that only r up to multiples of s matters, and b is the constant closest to the residual:

    (3)  b = mean of (S Y − A a)_i / s_i over the rows of the system
    (4)  ‖S⁻¹ (S Y − A a) − b‖ ≤ tolerance · ‖Y‖ ends the iteration, in every column
    (5)  or ≤ a quarter of the held-out error, √n times its root mean square, where rows are left out

As ‖S K S A⁻¹‖ ≤ 1, f is no further from its limit than the residual is from b, in the root mean square
over the rows with their weights, and in fact much closer: on covtype, the held-out error was within 1 %
of its limit at a residual of 0.13 of the targets, and within 0.3 % at 0.05 (docs/studies/large.md).

The products of the iteration have float32 kernel values where the ridge is above their rounding; the
residual that ends it is computed with float64 tiles from the coefficients themselves. In rows that are
left out, the residual of a system is −f + b, f with its intercept b: their predictions need no product.

**What an iteration depends on.** The state of the iteration, and the held-out errors that (5) compares
with: `SolveState` has both, and a solution that is resumed from it has the same digits.

**Rows that repeat.** Equal rows are merged into one, with the sum of their weights and the mean of their
targets: that changes the objective by a constant, and f is the same.
"""

from __future__ import annotations

import numbers
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from onefold import linalg
from onefold.approximations.base import Approximation, register
from onefold.approximations.model import Model
from onefold.approximations.operators import DeviceOperator, HostOperator, Operator
from onefold.approximations.preconditioners import (
    LocalPreconditioner,
    PreconditionerPlan,
    plan_preconditioner,
    product_operations,
)
from onefold.approximations.problem import Machine, Parts, Problem, TargetRidges, Workload
from onefold.expansions import Expansion, FoldModels
from onefold.kernels import Kernel
from onefold.linalg import (
    Array,
    HostArray,
    Index,
    asarray_like,
    host_array,
    namespace,
    prefers_large_calls,
    take_rows,
    zeros,
)
from onefold.linalg.iterate import (
    GradientState,
    Map,
    Observe,
    RefinedState,
    Solution,
    conjugate_gradients,
    refined,
)
from onefold.machine.iterations import Arrays, Iteration, Pace, Watcher, watcher
from onefold.machine.speed import Speed
from onefold.machine.threads import cached_property, limit_blas
from onefold.machine.warning import warn_user
from onefold.rows.hashing import repeated_rows

# Share of a host's free memory that kept tiles may take; chosen, not measured.
_KEEP_SHARE = 0.5
# Features above leave float32's range when squared, kernel values above when multiplied.
_SINGLE_LARGEST = 1e15
# A ridge this many times the rounding of float32 tiles is safe with them; and where the held-out error
# ends the iteration, which needs fewer digits.
_SINGLE_NOISE = 30.0
_LEAST_SINGLE_NOISE = 2.0
# Factor by which the recurrence may lower the residual before the residual is computed anew.
_DIGITS = 1e-3
# Share of the tolerance at which the recurrence ends, as it drifts from the true residual.
_MARGIN = 0.5
# Residual relative to its limit at which the solution ends.
_ENOUGH = 1.0
# Default tolerance where no rows are held out: the residual relative to the targets.
_TOLERANCE = 1e-5
# Share of the held-out error that the residual may have; docs/studies/large.md has what that changes.
_ERROR_SHARE = 0.25
# A usual value of that share, relative to the targets, for estimates of time; for an R² of about 0.9.
_USUAL_TOLERANCE = 0.03
# Iterations for each digit of the tolerance; measured, 5 to 15.
_ITERATIONS_PER_DIGIT = 10
# Rows whose kernel values tell a kernel from others.
_SAMPLE_ROWS = 16
# How many times as long a solution takes on a GPU as its operations say: measured.
_GPU_SLOWNESS = 2.0
# Rows up to which models without each fold are fitted for intervals alone: each has a preconditioner.
_MOST_ROWS_WITH_FOLDS = 10_000
# Vectors for each column while it is solved for: iterates, residuals, directions and products.
_VECTORS = 8
# Vectors of each column that are kept afterwards: its coefficients and its predictions.
_KEPT_VECTORS = 2


@register
@dataclass(frozen=True)
class ConjugateGradients(Approximation):
    """The true kernel without its matrix, by preconditioned conjugate gradients.

    The preconditioner consists of landmarks, for the part of the kernel that distant rows share, and of
    blocks of near rows. The models without each fold are solved for together with that of all rows, by
    the same products with the kernel matrix.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of landmarks of the preconditioner, 0 for none; by default chosen with the blocks.
    block_rows : int or None, default=None
        Maximum number of rows in a block of near rows. By default it is chosen so that making the
        preconditioner takes about as long as two iterations, or one on a GPU, as far as memory allows;
        up to twice as many rows are then one block.
    tolerance : float or None, default=None
        Stop when ‖y − b − (K + μV⁻¹)α‖ ≤ tolerance · ‖y‖, computed in float64; y is centred if
        there is an intercept. None means 1e-5 or, where rows are held out, when the left side is at
        most a quarter of the held-out error, times √n. ``approximation_`` contains the residual reached;
        a warning is raised if it is above the tolerance.
    max_iterations : int, default=500
        Maximum number of iterations.
    random_state : int, default=0
        Seed of the landmarks and of the cuts between blocks.

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
    tolerance: float | None = None
    max_iterations: int = 500
    random_state: int = 0
    block_rows: int | None = None

    name = "cg"
    exact = True
    takes_precomputed = False
    takes_sparse = False
    takes = "dense rows"
    fold_models = "closed"
    max_rows_for_fold_models = _MOST_ROWS_WITH_FOLDS
    no_leave_one_out = (
        'approximation="cg" leaves out whole folds, not single rows; use folds, such as cv=5 or '
        'intervals="cv+", or approximation="exact".'
    )

    def __post_init__(self) -> None:
        for name, least in (("n_components", 0), ("block_rows", 1), ("max_iterations", 1)):
            value = getattr(self, name)
            unset = value is None and name != "max_iterations"
            if not unset and (not isinstance(value, numbers.Integral) or value < least):
                raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}.")
        if self.tolerance is not None and not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance must lie between 0 and 1; got {self.tolerance!r}.")

    def max_parallel_models(self, n: int, d: int, targets: int, load: Workload, free: int | None) -> int:
        """1: each model uses all threads, and the free memory for its tiles."""
        return 1

    def usual_iterations(self, folds: int) -> float:
        """Rough number of iterations of a solution."""
        tolerance = self.tolerance or (_USUAL_TOLERANCE if folds else _TOLERANCE)
        return 2 - _ITERATIONS_PER_DIGIT * float(np.log10(tolerance))

    def duration(self, n: int, d: int, targets: int, load: Workload, speed: Speed) -> float:
        """Per kernel and ridge: a preconditioner for each system, and the products of the iterations."""
        shape = n, d, targets
        gpu = load.gpu is not None
        systems = 1 + load.folds
        operations = systems * self._plan(shape, load, load.gpu).operations(n, d)
        operations += self.usual_iterations(load.folds) * product_operations(
            shape, systems=systems, gpu=gpu
        )
        slowness = _GPU_SLOWNESS if gpu else 1.0
        return slowness * load.kernels * load.alphas * operations / speed.multiply_adds

    def _plan(self, shape: tuple[int, int, int], load: Workload, free: int | None) -> PreconditionerPlan:
        """The sizes of the preconditioner of each system in so many free bytes (None: unknown)."""
        return plan_preconditioner(
            shape,
            Machine(free, gpu=load.gpu is not None).usable,
            gpu=load.gpu is not None,
            systems=1 + load.folds,
            landmarks=self.n_components,
            block_rows=self.block_rows,
        )

    def peak_bytes(self, n: int, d: int, targets: int, load: Workload, n_parallel: int) -> int:
        """That of a host with enough memory for preconditioners of any size, or of a GPU."""
        return self.memory(n, d, targets, load, load.gpu)

    def memory(self, n: int, d: int, targets: int, load: Workload, free: int | None) -> int:
        """Preconditioners of all systems, vectors of the iteration, and solutions at each ridge.

        In fewer free bytes the preconditioners are smaller.
        """
        plan = self._plan((n, d, targets), load, free)
        systems = 1 + load.folds
        columns = (_VECTORS + _KEPT_VECTORS * load.alphas) * systems * targets
        vectors = 8.0 * n * (columns + 3 * d)
        return int(systems * plan.bytes(n) + vectors)

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> IterativeModel:
        return IterativeModel(self, kernel, problem, load)


@dataclass(frozen=True)
class System:
    """The problem of some of the rows."""

    rows: Index  # those with a weight
    root: Array  # s (n,), 0 in the others
    targets: Array  # S Y (n, t), Y in units of its own about an offset
    held_out: Array  # Y itself (n, t) in the other rows, NaN in these
    unit: Array  # (t,)
    offset: Array  # (t,)


@dataclass(frozen=True)
class Fit:
    """A system solved at one ridge per target, in the units of the problem."""

    coef: Array  # α (n, t)
    intercept: Array  # (t,)
    fitted: Array  # f at every row, also at those that are left out (n, t)


class IterativeModel(Model):
    """K itself, solved for one μ at a time, with and without each fold."""

    no_leave_one_out = ConjugateGradients.no_leave_one_out

    def __init__(
        self, settings: ConjugateGradients, kernel: Kernel, problem: Problem, load: Workload
    ) -> None:
        self._settings = settings
        self._kernel = kernel
        self.problem = problem
        self._load = load
        self._fits: dict[tuple[float, int], Fit] = {}  # by the ridge and the part; −1 for all rows
        self.report = {"name": "cg", "reason": f"the true kernel of {problem.n} rows, by iteration"}
        if self._distinct is not None:
            self.report["distinct_rows"] = int(self._X.shape[0])

    # -- the rows -------------------------------------------------------------------------------------

    @cached_property
    def _distinct(self) -> tuple[Index, Index] | None:
        """A row for each distinct one, and the distinct row of each; None where few rows repeat."""
        return repeated_rows(self.problem.X)

    @cached_property
    def _X(self) -> Array:
        return self.problem.X if self._distinct is None else take_rows(self.problem.X, self._distinct[0])

    def _rows_of(self, part: Index) -> Index:
        """The places of some rows of the problem among the distinct ones."""
        return part if self._distinct is None else self._distinct[1][part]

    def _system(self, left_out: Index) -> System:
        """The problem without some rows."""
        problem = self.problem
        weight = np.ones(problem.n) if problem.weight is None else problem.weight.copy()
        weight[left_out] = 0.0
        Y = problem.targets
        held_out = np.full(Y.shape, np.nan)
        held_out[left_out] = Y[left_out]
        if self._distinct is not None:
            first, place = self._distinct
            held_out = held_out[first]
            sums = [np.bincount(place, weight * column, first.size) for column in Y.T]
            weight = np.asarray(np.bincount(place, weight, first.size), dtype=np.float64)
            Y = np.stack(sums, axis=1) / np.where(weight > 0, weight, 1.0)[:, None]
            held_out[weight > 0] = np.nan
        rows = np.flatnonzero(weight > 0)
        root = np.sqrt(weight)
        offset = np.zeros(Y.shape[1])
        if problem.fit_intercept:  # the intercept takes a shift of the targets, their digits stay
            offset = (weight @ Y) / weight.sum()
        Y = Y - offset
        # In units of their own, by a power of 2: squares neither underflow nor overflow.
        unit = np.exp2(np.frexp(np.abs(Y[rows]).max(axis=0, initial=0.0))[1])
        arrays = (root, root[:, None] * (Y / unit), (held_out - offset) / unit, unit, offset)
        return System(rows, *(asarray_like(array, problem.Y) for array in arrays))

    # -- what a model is asked ------------------------------------------------------------------------

    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        xp = namespace(self.problem.Y)
        # Where a search wants the model of one ridge, that of all rows is solved for with the others.
        with_all = self._numbers_of(parts) is not None and self._load.alphas == 1
        fits = [self._solved(parts, float(mu), with_all=with_all) for mu in np.ravel(alphas)]
        return [
            xp.stack([take_rows(of_ridge[number].fitted, self._rows_of(part)) for of_ridge in fits])
            for number, part in enumerate(parts)
        ]

    def expansion(self, alpha: ArrayLike) -> Expansion:
        (fit,) = self._at_ridges([np.arange(0)], alpha)
        return Expansion(self._kernel, self._X, fit.coef, fit.intercept)

    def fold_models(self, parts: Parts, alpha: ArrayLike) -> FoldModels:
        """The models without each part, which share their centres."""
        xp = namespace(self.problem.Y)
        fits = self._at_ridges(parts, alpha)
        coef = xp.concat([fit.coef for fit in fits], axis=1)
        intercept = xp.concat([fit.intercept for fit in fits])
        return FoldModels.of(Expansion(self._kernel, self._X, coef, intercept), len(parts))

    def _numbers_of(self, parts: Parts) -> list[int] | None:
        """The numbers of the parts among those of the workload; None where some are not."""
        if self._load.parts is None or not len(parts):
            return None
        load_parts = list(enumerate(self._load.parts))
        numbers = []
        for part in parts:
            matches = (n for n, other in load_parts if part is other or np.array_equal(part, other))
            number = next(matches, None)
            if number is None:
                return None
            numbers.append(number)
        return numbers

    def _at_ridges(self, parts: Sequence[Index], alpha: ArrayLike) -> list[Fit]:
        """The models without each part at one ridge, or at one for each target."""
        ridges = TargetRidges(alpha, self.problem.Y.shape[1])
        if ridges.distinct.size == 1:
            return self._solved(parts, float(ridges.distinct[0]))
        xp = namespace(self.problem.Y)
        groups = [np.flatnonzero(ridges.positions == i) for i in range(ridges.distinct.size)]
        solved = [self._solve(parts, float(mu), targets) for mu, targets in zip(ridges.distinct, groups)]
        back = np.argsort(np.concatenate(groups))  # from the order of the ridges to that of the targets

        def joined(arrays: Sequence[Array]) -> Array:
            return take_rows(xp.concat([array.T for array in arrays]), back).T

        return [
            Fit(
                joined([fit.coef for fit in fits]),
                take_rows(xp.concat([fit.intercept for fit in fits]), back),
                joined([fit.fitted for fit in fits]),
            )
            for fits in zip(*solved)
        ]

    def _solved(self, parts: Parts, mu: float, *, with_all: bool = False) -> list[Fit]:
        """The models without each part at one ridge, solved for unless they were before.

        The models without the parts of the workload, and that of all rows, are kept.
        """
        numbers = self._numbers_of(parts)
        if numbers is None and any(part.size for part in parts):
            return self._solve(parts, mu)
        sets = {-1: np.arange(0)}
        if numbers is not None:
            sets = dict(enumerate(self._load.parts)) | (sets if with_all else {})
        missing = [number for number in sets if (mu, number) not in self._fits]
        if missing:
            fits = self._solve([sets[number] for number in missing], mu)
            self._fits |= {(mu, number): fit for number, fit in zip(missing, fits)}
        return [self._fits[mu, number] for number in ([-1] if numbers is None else numbers)]

    # -- solving --------------------------------------------------------------------------------------

    @cached_property
    def _fits_float32(self) -> bool:
        """Whether rows and kernel values stay in the range of float32."""
        xp = namespace(self._X)
        values = float(xp.max(self._kernel.diagonal(self._X)))
        return max(float(xp.max(self._X)), -float(xp.min(self._X)), values) < _SINGLE_LARGEST

    def _operators(self, mu: float, *, few_digits: bool) -> list[Operator]:
        """The operators of the iteration; the last one also computes the residual that ends it."""
        n = int(self._X.shape[0])
        noise = float(np.finfo(np.float32).eps) / 2 * np.sqrt(n)
        rough = (
            self._fits_float32 and mu > (_LEAST_SINGLE_NOISE if few_digits else _SINGLE_NOISE) * noise
        )
        if prefers_large_calls(self._X):
            operators: list[Operator] = [self._device_exact]
            if rough:
                operators.insert(0, self._device_rough)
        else:
            operators = [self._host_rough, self._host_exact] if rough else [self._host_kept]
        kept = "kept" if operators[0].keep else "computed at each product"
        self.report["tiles"] = f"{'float32' if rough else 'float64'}, {kept}"
        return operators

    @cached_property
    def _device_rough(self) -> Operator:
        return DeviceOperator(self._kernel, self._X, rough=True)

    @cached_property
    def _device_exact(self) -> Operator:
        return DeviceOperator(self._kernel, self._X, rough=False)

    @cached_property
    def _host_rough(self) -> Operator:
        return HostOperator(self._kernel, self._X, rough=True, keep=self._has_room(4))

    @cached_property
    def _host_exact(self) -> Operator:
        return HostOperator(self._kernel, self._X, rough=False, keep=False)

    @cached_property
    def _host_kept(self) -> Operator:
        return HostOperator(self._kernel, self._X, rough=False, keep=self._has_room(8))

    def _has_room(self, itemsize: int) -> bool:
        """Whether half of the matrix, in numbers of that size, has room in the free memory."""
        free = linalg.free_memory_of(self._X)
        return free is not None and self._X.shape[0] ** 2 * itemsize // 2 < _KEEP_SHARE * free

    def _solve(self, parts: Sequence[Index], mu: float, targets: Any = slice(None)) -> list[Fit]:
        """The systems without each part at one μ, for some of the targets."""
        settings = self._settings
        tolerance = settings.tolerance or _TOLERANCE
        systems = Systems([self._system(part) for part in parts], targets, self.problem.fit_intercept)
        ends_by_error = settings.tolerance is None and systems.leaves_out
        with limit_blas(1):  # the same digits whatever the number of threads
            preconditioners = self._solvers(systems, mu)
            operators = self._operators(mu, few_digits=ends_by_error)
            watching = watcher()
            kept = None if watching is None else watching.begin(self._key(parts, mu, targets))
            solved = systems.solve(
                operators,
                preconditioners,
                mu,
                tolerance=tolerance,
                error_share=_ERROR_SHARE if ends_by_error else 0.0,
                max_iterations=settings.max_iterations,
                state=None if kept is None else SolveState.of(kept, self.problem.Y),
                observe=None if watching is None else ProgressReporter(watching),
            )
            if watching is not None:
                watching.end()
        residual = systems.relative(solved.residual)
        outcome = {
            "alpha": mu * self.problem.alpha_unit,
            "systems": len(parts),
            "iterations": solved.iterations,
            "residual": residual,
            "converged": solved.state == "converged",
        }
        self.report["solves"] = [*self.report.get("solves", []), outcome]
        if not outcome["converged"]:
            by_error = " and above a quarter of the held-out error" if ends_by_error else ""
            warn_user(
                f"conjugate gradients stopped after {solved.iterations} iterations at a relative "
                f"residual of {residual:.1e}, above the tolerance {tolerance:.1e}{by_error}; use more "
                "landmarks (n_components), larger blocks (block_rows), a larger alpha, or more "
                "iterations (max_iterations).",
                ConvergenceWarning,
            )
        return systems.fits(solved, mu)

    def _key(self, parts: Sequence[Index], mu: float, targets: Any) -> dict[str, Any]:
        """What tells a solution from others: kernel, systems, and how they are solved."""
        first = self._X[:_SAMPLE_ROWS, :]
        return {
            "alpha": mu,
            "rows": [self.problem.n, int(self._X.shape[0])],
            "kernel": zlib.crc32(host_array(self._kernel(first, first)).tobytes()),
            "left_out": [[part.size, zlib.crc32(part.tobytes())] for part in parts],
            "targets": "all" if isinstance(targets, slice) else np.asarray(targets).tolist(),
            "preconditioner": self.report["preconditioner"],
            "tiles": self.report["tiles"].partition(",")[0],
        }

    def _solvers(self, systems: Systems, mu: float) -> list[Map]:
        """The preconditioner of each system."""
        settings = self._settings
        _, d, targets = self.problem.shape
        plan = plan_preconditioner(
            (int(self._X.shape[0]), d, targets),
            self.problem.machine.usable,
            gpu=self.problem.machine.gpu,
            systems=len(systems.systems),
            landmarks=settings.n_components,
            block_rows=settings.block_rows,
            mu=mu if self._fits_float32 else 0.0,
        )
        solvers = []
        for system in systems.systems:
            generator = np.random.default_rng(settings.random_state)
            has_all_rows = system.rows.size == self._X.shape[0]
            X = self._X if has_all_rows else take_rows(self._X, system.rows)
            root = system.root if has_all_rows else take_rows(system.root, system.rows)
            preconditioner = LocalPreconditioner(self._kernel, X, root, plan, generator)
            solvers.append(preconditioner.solver(mu))
            self.report["preconditioner"] = preconditioner.report
        return solvers


@dataclass(frozen=True)
class SolveState:
    """The state of a solution of several systems between two iterations."""

    refined: RefinedState
    errors: HostArray  # latest held-out error of every column, in the problem's units

    def arrays(self) -> Arrays:
        """Copies in host memory, by name; their memory order is kept, as digits of sums depend on it."""
        state = self.refined
        correction = state.correction
        arrays = {
            "X": state.X,
            "residual": state.residual,
            "relative": state.relative,
            "iterations": state.iterations,
            "level": state.level,
            "correction_X": correction.X,
            "correction_residual": correction.residual,
            "correction_direction": correction.direction,
            "correction_rz": correction.rz,
            "correction_iterations": correction.iterations,
            "errors": self.errors,
        }
        return {name: np.array(host_array(array), order="K") for name, array in arrays.items()}

    @classmethod
    def of(cls, arrays: Arrays, reference: Array) -> SolveState:
        """The state that had these arrays, in the library and on the device of the reference."""
        like = partial(_in_memory_order, reference=reference)
        correction = GradientState(
            X=like(arrays["correction_X"]),
            residual=like(arrays["correction_residual"]),
            direction=like(arrays["correction_direction"]),
            rz=like(arrays["correction_rz"]),
            iterations=int(arrays["correction_iterations"]),
        )
        state = RefinedState(
            X=like(arrays["X"]),
            residual=like(arrays["residual"]),
            relative=arrays["relative"],
            iterations=int(arrays["iterations"]),
            level=int(arrays["level"]),
            correction=correction,
        )
        return cls(state, arrays["errors"])


def _in_memory_order(array: HostArray, reference: Array) -> Array:
    """As `asarray_like`, by rows or by columns as in host memory."""
    if array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous:
        return asarray_like(array.T, reference).T
    return asarray_like(array, reference)


class ProgressReporter:
    """Reports the progress of a solution to a watcher."""

    def __init__(self, watching: Watcher) -> None:
        self._watching = watching
        self._pace: Pace | None = None

    def __call__(self, state: SolveState, residual: float, distance: float) -> None:
        """The residual relative to the targets, and to what it must not exceed."""
        seconds_left = None if self._pace is None else self._pace.seconds_left(distance)
        self._pace = self._pace or Pace.at(distance)
        iteration = Iteration(state.refined.total_iterations, residual, seconds_left)
        self._watching.iterated(iteration, state.arrays)


_Projection: TypeAlias = Callable[[Array, bool], Array]
"""Vectors of all rows, and whether P⁻¹ is applied to them → vectors with sᵀa = 0."""


@dataclass(frozen=True)
class _Goal:
    """What ends a solution, (4) or (5)."""

    tolerance: float  # of (4)
    error_share: float  # of (5); 0 where no held-out error ends it
    errors: HostArray  # the latest held-out error of every column, in the problem's units


class Systems:
    """Several systems of the same rows, solved side by side: a column for each target of each."""

    def __init__(self, systems: Sequence[System], targets: Any, fit_intercept: bool) -> None:
        self.systems = systems
        self._fit_intercept = fit_intercept
        self._selected = [self._take_targets(system.targets, targets) for system in systems]
        self._targets = targets
        xp = namespace(self._selected[0])
        self._width = int(self._selected[0].shape[1])
        self._Y = xp.concat(self._selected, axis=1)
        self._root = xp.concat(
            [xp.broadcast_to(system.root[:, None], self._selected[0].shape) for system in systems],
            axis=1,
        )
        zero = self._root == 0
        # In rows that are left out, A and the residual are those of a weight of 1.
        self._image_root = xp.where(zero, xp.ones_like(self._root), self._root)
        self._inverse_root = xp.where(zero, xp.zeros_like(self._root), 1.0 / self._image_root)
        self._mask = xp.astype(~zero, xp.float64)
        self._count = xp.sum(self._mask, axis=0)
        self._held_out = xp.concat(
            [self._take_targets(system.held_out, targets) for system in systems], axis=1
        )
        units = [self._take_targets(system.unit[None, :], targets)[0, :] for system in systems]
        self._unit = np.concatenate([host_array(unit) for unit in units])
        self._all_columns = np.arange(int(self._Y.shape[1]))
        norms = self.norms(self._Y, self._all_columns)
        self._target_norms = linalg.clip_in_place(norms, float(np.finfo(float).tiny), None)
        self.leaves_out = any(system.rows.size < system.root.shape[0] for system in systems)

    @staticmethod
    def _take_targets(matrix: Array, targets: Any) -> Array:
        return matrix if isinstance(targets, slice) else take_rows(matrix.T, targets).T

    def intercepts(self, residual: Array, columns: Index) -> Array:
        """b of (3) for some of the columns."""
        xp = namespace(residual)
        if not self._fit_intercept:
            return zeros(columns.size, residual)
        scaled = residual * self._take_columns(self._inverse_root, columns)
        return xp.sum(scaled, axis=0) / take_rows(self._count, columns)

    def norms(self, residual: Array, columns: Index) -> Array:
        """‖S⁻¹ r − b‖ of (4)."""
        xp = namespace(residual)
        scaled = residual * self._take_columns(self._inverse_root, columns)
        if self._fit_intercept:
            shift = xp.sum(scaled, axis=0) / take_rows(self._count, columns)
            scaled = scaled - shift[None, :] * self._take_columns(self._mask, columns)
        return xp.linalg.vector_norm(scaled, axis=0)

    def relative(self, residual: Array, columns: Index | None = None) -> float:
        """The largest norm of a residual, relative to the targets."""
        columns = self._all_columns if columns is None else columns
        sizes = self.norms(residual, columns) / take_rows(self._target_norms, columns)
        return float(np.max(host_array(sizes), initial=0.0))

    def heldout_errors(self, residual: Array, columns: Index) -> HostArray:
        """Root mean squares over the rows that are left out, in the problem's units; NaN without any."""
        xp = namespace(residual)
        error = (
            self._take_columns(self._held_out, columns)
            + residual
            - self.intercepts(residual, columns)[None, :]
        )
        missing = xp.isnan(error)
        squares = xp.sum(xp.where(missing, xp.zeros_like(error), error * error), axis=0)
        count = xp.sum(xp.astype(~missing, xp.float64), axis=0)
        numbers = host_array(count)
        mean = host_array(squares) / np.where(numbers > 0, numbers, np.nan)
        return np.sqrt(mean) * self._unit[columns]

    def _take_columns(self, matrix: Array, columns: Index) -> Array:
        """Some columns of a matrix with one for each target of each system."""
        if columns.size == matrix.shape[1]:
            return matrix
        return take_rows(matrix.T, columns).T

    def product(self, operator: Operator, mu: float, V: Array, columns: Index) -> Array:
        """A V for vectors that are 0 in rows that are left out."""
        image = operator.product(self._take_columns(self._root, columns) * V)
        image *= self._take_columns(self._image_root, columns)
        image += mu * V
        return image

    def solve(
        self,
        operators: Sequence[Operator],
        solvers: Sequence[Map],
        mu: float,
        *,
        tolerance: float,
        error_share: float,
        max_iterations: int,
        state: SolveState | None = None,
        observe: Callable[[SolveState, float, float], None] | None = None,
    ) -> Solution:
        """Solve (1) until (4) or (5); operators come in the order of precision, and the last is exact.

        A `state` is resumed. After each iteration, `observe` gets the state, and the residual relative
        to the targets and to its limit.
        """
        errors = np.zeros(self._all_columns.size) if state is None else state.errors.copy()
        goal = _Goal(tolerance, error_share, errors)
        projections = [
            self._constrained(system, solver) for system, solver in zip(self.systems, solvers)
        ]

        def residual_of(a: Array, columns: Index) -> Array:
            return self._take_columns(self._Y, columns) - self.product(operators[-1], mu, a, columns)

        return refined(
            residual_of,
            [partial(self._correction, operator, mu, projections, goal) for operator in operators],
            namespace(self._Y).zeros_like(self._Y),
            self._Y,
            size=lambda R, columns: self.norms(R, columns) / self._limit(goal, R, columns),
            enough=_ENOUGH,
            limit=max_iterations,
            state=None if state is None else state.refined,
            observe=None if observe is None else partial(self._tell, goal, observe),
        )

    def _limit(self, goal: _Goal, R: Array, columns: Index) -> Array:
        """What the norm of the residual must not exceed, by (4) and (5)."""
        limit = goal.tolerance * take_rows(self._target_norms, columns)
        if not goal.error_share:
            return limit
        xp = namespace(self._Y)
        current = self.heldout_errors(R, columns)
        tested = np.isfinite(current)
        goal.errors[columns[tested]] = current[tested]
        of_targets = goal.errors.reshape(-1, self._width).max(axis=0)
        current = np.where(tested, current, of_targets[columns % self._width])
        least = goal.error_share * current / self._unit[columns]
        return xp.maximum(limit, asarray_like(least, R) * xp.sqrt(take_rows(self._count, columns)))

    def _correction(
        self,
        operator: Operator,
        mu: float,
        projections: Sequence[_Projection],
        goal: _Goal,
        residual: Array,
        columns: Index,
        relative: HostArray,
        max_iterations: int,
        state: GradientState | None,
        observe: Observe | None,
    ) -> Solution | None:
        """What conjugate gradients with one operator add to some columns; None beyond its range."""
        xp = namespace(self._Y)
        least = asarray_like(_DIGITS * relative, self._Y) * self._limit(goal, residual, columns)

        def distance(R: Array) -> Array:
            """The norm of the residual, relative to what it must not exceed."""
            limit = xp.maximum(_MARGIN * self._limit(goal, R, columns), least)
            return self.norms(R, columns) / limit

        solution = conjugate_gradients(
            lambda V: self.product(operator, mu, V, columns),
            lambda R: self._projected(projections, R, columns, preconditioned=True),
            xp.asarray(residual, copy=True),
            distance,
            xp.ones_like(self._target_norms[: columns.size]),
            limit=max_iterations,
            state=state,
            observe=observe,
        )
        # Beyond the range of a rough product:
        if not linalg.all_finite(solution.X) or not bool(xp.any(solution.X != 0)):
            return None
        # Rounding has moved it along A⁻¹s, which no residual shows.
        constrained = self._projected(projections, solution.X, columns, preconditioned=False)
        return replace(solution, X=constrained)

    def _projected(
        self, projections: Sequence[_Projection], R: Array, columns: Index, *, preconditioned: bool
    ) -> Array:
        """R, or P⁻¹ R if `preconditioned`, projected on {sᵀa = 0}, system by system."""
        number_of = columns // self._width
        numbers = np.unique(number_of)
        pieces = []
        for number in numbers:
            part = R if numbers.size == 1 else take_rows(R.T, np.flatnonzero(number_of == number)).T
            pieces.append(projections[number](part, preconditioned))
        return pieces[0] if numbers.size == 1 else namespace(self._Y).concat(pieces, axis=1)

    def _tell(
        self, goal: _Goal, observe: Callable[[SolveState, float, float], None], current: RefinedState
    ) -> None:
        """Give an observer the state, and the residual relative to the targets and to its limit."""
        columns = np.flatnonzero(~(current.relative <= _ENOUGH))
        R = current.correction.residual
        distances = host_array(self.norms(R, columns) / (_MARGIN * self._limit(goal, R, columns)))
        observe(SolveState(current, goal.errors), self.relative(R, columns), float(distances.max()))

    def _constrained(self, system: System, solver: Map) -> _Projection:
        """(2): vectors of all rows, with P⁻¹ applied or as they are → vectors with sᵀa = 0."""
        n = int(self._Y.shape[0])
        has_all_rows = system.rows.size == n
        root = system.root if has_all_rows else take_rows(system.root, system.rows)
        border = solver(root[:, None]) if self._fit_intercept else None

        def projected(R: Array, preconditioned: bool) -> Array:
            vectors = R if has_all_rows else take_rows(R, system.rows)
            if preconditioned:
                if border is not None:  # a multiple of s that r may have would only leave its rounding
                    vectors = vectors - root[:, None] * ((root @ vectors) / float(root @ root))[None, :]
                vectors = solver(vectors)
            if border is not None:
                vectors = vectors - border * ((root @ vectors) / float(root @ border[:, 0]))[None, :]
            return vectors if has_all_rows else linalg.scattered_like(vectors, system.rows, n)

        return projected

    def fits(self, solved: Solution, mu: float) -> list[Fit]:
        """The solution of each system, in the units of the problem."""
        intercept = self.intercepts(solved.residual, self._all_columns)
        image = (self._Y - solved.residual - mu * solved.X) / self._image_root
        dual = self._root * solved.X
        fits = []
        for number, system in enumerate(self.systems):
            part = slice(number * self._width, (number + 1) * self._width)
            unit = asarray_like(self._unit[part], self._Y)
            offset = self._take_targets(system.offset[None, :], self._targets)[0, :]
            b = intercept[part] * unit + offset
            fitted = image[:, part] * unit[None, :] + b[None, :]
            fits.append(Fit(dual[:, part] * unit[None, :], b, fitted))
        return fits
