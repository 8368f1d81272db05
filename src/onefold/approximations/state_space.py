r"""Series at any times in O(n): Matérn kernels of one feature by their state space.

No approximation: the model is that of the exact method. The passes over the sorted rows are in
:mod:`onefold.smoothers.state_space`, the sums over all rows that predict new ones in
:mod:`onefold.kernels.line`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from onefold.approximations.base import Approximation, register
from onefold.approximations.footprint import structured_bytes
from onefold.approximations.model import SmoothingModel
from onefold.approximations.problem import Parts, Problem, TargetRidges, Workload
from onefold.expansions import Expansion, FoldModels, LineExpansion
from onefold.kernels import Kernel, Laplacian, Matern
from onefold.kernels.line import LineKernel, line_kernel
from onefold.linalg import Array, HostArray, Index, asarray_like, host_array
from onefold.machine.speed import Speed
from onefold.machine.threads import map_in_order, thread_budget
from onefold.rows import to_host
from onefold.smoothers.base import Reordered
from onefold.smoothers.state_space import StateSpaceSmoother, missing_numba

# Vectors of n numbers at ν = 5/2, counted in the code: transitions and their noise, order and points.
_SHARED_VECTORS = 24
# The same of a pass, besides those of its targets.
_PASS_VECTORS = 14
# Seconds for each row at ν = 5/2 on one core, measured on a 2-core AVX-512 machine: transitions, with
# sorting the rows.
_TRANSITION = 2e-7
# The same of a pass: its covariances.
_COVARIANCE = 6e-8
# The same of a pass, for each target and the intercept.
_TARGET = 4e-8
# The same of a pass: the diagonal, for leave-one-out.
_DIAGONAL = 3e-8


@register
@dataclass(frozen=True)
class StateSpace(Approximation):
    """Exact for one feature and a Matérn or Laplacian kernel, in O(n) time and memory for each alpha.

    Rows may be at any points, in any order: irregular, repeated, with gaps and weights. Each fold is one
    more pass over the rows. It needs Numba (``pip install numba``).

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import LSSVRCV
    >>> t = np.random.default_rng(0).uniform(0, 100, 3000)
    >>> y = np.sin(t)
    >>> model = LSSVRCV("matern52", approximation="state_space", gammas=[0.1], alphas=[0.01])
    >>> bool(model.fit(t[:, None], y).score(t[:, None], y) > 0.99)
    True
    """

    name = "state_space"
    exact = True
    smooths = True
    takes_precomputed = False
    takes_sparse = False
    max_features = 1
    takes = 'one dense feature and a kernel "matern12", "matern32", "matern52" or "laplacian"'
    alternative = 'use approximation="auto"'
    fold_models = "closed"

    def takes_kernel(self, kernel: Kernel) -> bool:
        return isinstance(kernel, Matern | Laplacian)

    def check(self, kernel: Kernel, problem: Problem, load: Workload) -> None:
        missing = missing_numba()
        if missing is not None:
            raise ImportError(f'approximation="state_space" cannot run: {missing}.')

    def share(self, problem: Problem, kernels: Sequence[Kernel]) -> Series:
        return Series.of(problem.X)

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> StateSpaceModel:
        same_rows = isinstance(shared, Series) and shared.X is problem.X
        return StateSpaceModel(kernel, problem, shared if same_rows else Series.of(problem.X))

    def peak_bytes(self, n: int, d: int, targets: int, load: Workload, n_parallel: int) -> int:
        workers = thread_budget() if min(n_parallel, load.kernels) == 1 else 1
        vectors = _SHARED_VECTORS + workers * (_PASS_VECTORS + 4 * targets)
        return structured_bytes(vectors, n, targets, load, n_parallel)

    def duration(self, n: int, d: int, targets: int, load: Workload, speed: Speed) -> float:
        """A pass for every kernel, ridge and fold; with the diagonal for leave-one-out."""
        each = _COVARIANCE + (targets + 1) * _TARGET + (_DIAGONAL if load.folds == 1 else 0.0)
        passes = load.alphas * max(1, load.folds)
        return load.kernels * n * (_TRANSITION + passes * each)


@dataclass(frozen=True, eq=False)
class Series:
    """The rows of one feature in ascending order."""

    X: Any  # the rows as they are
    order: Index  # number of the row in each place
    points: HostArray  # value of its feature

    @classmethod
    def of(cls, X: Any) -> Series:
        """The series of rows (n, 1) in any order."""
        points = np.asarray(to_host(X)[:, 0], dtype=np.float64)
        order = np.argsort(points, kind="stable")
        return cls(X, order, points[order])


class StateSpaceModel(SmoothingModel):
    """One kernel, a pass over the rows for every μ and every set of rows left out."""

    smoother: Reordered

    def __init__(self, kernel: Kernel, problem: Problem, series: Series) -> None:
        line = cast(LineKernel, line_kernel(kernel, problem.shape[1]))  # there is one: see `check`
        self.problem = problem
        self._kernel = kernel
        self._line = line
        self._series = series
        root = None if problem.root_weight is None else host_array(problem.root_weight)
        self._sorted = StateSpaceSmoother(
            line.steps(series.points),
            line.dimension,
            root=None if root is None else root[series.order],
            intercept=problem.fit_intercept,
        )
        self.smoother = Reordered(self._sorted, series.order)
        self.report: dict[str, Any] = {"name": "state_space", "dimension": line.dimension}

    def leave_one_out(self, alphas: ArrayLike) -> Array:
        predictions = self.smoother.leave_one_out(self._scaled_targets(), alphas)
        return self.problem.unscale(asarray_like(predictions, self.problem.Y))

    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        predictions = self.smoother.heldout(self._scaled_targets(), parts, alphas)
        return [
            self.problem.unscale(asarray_like(values, self.problem.Y), rows)
            for values, rows in zip(predictions, parts)
        ]

    def expansion(self, alpha: ArrayLike) -> Expansion:
        return self._expansion([None], alpha)

    def fold_models(self, parts: Parts, alpha: ArrayLike) -> FoldModels:
        """The models of a pass without each part."""
        return FoldModels.of(self._expansion(parts, alpha), len(parts))

    def _scaled_targets(self) -> HostArray:
        return host_array(self.problem.scaled_targets())

    def _expansion(self, parts: Sequence[Index | None], alpha: ArrayLike) -> Expansion:
        """The models without each part side by side; without rows for None."""
        place = self.smoother.place
        Y = self._scaled_targets()[self._series.order]
        ridges = TargetRidges(alpha, Y.shape[1])

        def columns(part: Index | None) -> tuple[HostArray, HostArray]:
            rows = None if part is None else place[part]
            passes = [self._sorted.filter_without(rows, mu) for mu in ridges.distinct.tolist()]
            solved = [self._sorted.solve(Y, each) for each in passes]
            duals = np.stack([each.duals for each in solved])
            intercepts = np.stack([each.intercept for each in solved])
            return ridges.pick(duals), ridges.pick(intercepts)

        solutions = list(map_in_order(columns, parts))
        coef = np.concatenate([dual for dual, _ in solutions], axis=1)[place]
        intercept = np.concatenate([b for _, b in solutions])
        coef, intercept = (asarray_like(values, self.problem.Y) for values in (coef, intercept))
        return LineExpansion(self._kernel, self.problem.X, coef, intercept)
