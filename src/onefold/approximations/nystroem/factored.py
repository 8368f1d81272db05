r"""A basis model of few rows, from triangular factors of them: as exact as refits by QR.

The whitened features V of all rows are held. Each group of rows that the splitter moves together is
factorised once; the factors of the groups outside a set J, on top of each other, train the model without
J. Leave-one-out, and sets too many for that, go through the residual operator, in which V appears by
orthonormal columns alone. (R_b)_ii then has the absolute error eps; a row whose value is so small that
this matters is left out literally.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.approximations.nystroem.basis import BasisModel, Solution, landmark_coefficients
from onefold.approximations.nystroem.coordinates import Coordinates
from onefold.approximations.problem import Problem
from onefold.linalg import like, to_numpy
from onefold.machine.threads import limit_blas, map_all, spans
from onefold.rows import Block, Groups
from onefold.smoothers.factorisations import ThinSmoother
from onefold.statistics import Design
from onefold.statistics.factor import Factor, FactorPath, orthonormal_columns
from onefold.statistics.finite import finite_kernel

_CHUNKS = 8  # pieces of the rows that are factorised side by side
_REFIT_WORK = 10**11  # multiply-adds that literal refits may take
_SMALL_RESIDUAL = 1e-7  # of (R_b)_ii: below it, its rounding errors reach the tenth digit


@dataclass(frozen=True)
class _Whitened:
    """Block → V, its features in whitened coordinates, in host memory."""

    design: Design
    T: Any

    def __call__(self, block: Block) -> Any:
        return to_numpy(self.design.features(block.X)) @ self.T

    def placed(self, place: Callable[[Any], Any]) -> _Whitened:
        return _Whitened(self.design.placed(place), self.T)


class FactoredModel(BasisModel):
    """Trained from factors of rows. Features are computed when first needed."""

    def __init__(self, problem: Problem, coordinates: Coordinates) -> None:
        super().__init__(problem, coordinates)
        self._V: Any = None
        self._root = None if problem.root_weight is None else to_numpy(problem.root_weight)
        self._T, self._Y = to_numpy(coordinates.T), to_numpy(problem.Y)
        self._known: tuple[Groups, list[Factor]] | None = None

    # -- factors ---------------------------------------------------------------------------------

    def _features(self) -> Any:
        """V of all rows, (n, r). O(n m r) time, once."""
        if self._V is None:
            V = np.empty((self.problem.n, self._T.shape[1]))
            whitened = _Whitened(self.design, self._T)
            for _, rows, values in self.source.map(whitened, at_most=self.design.threads):
                V[rows] = values
            self._V = finite_kernel(V)
        return self._V

    def _factor(self, rows: Any) -> Factor:
        root = None if self._root is None else self._root[rows]
        return Factor.of(
            self._features()[rows],
            self._Y[rows],
            root,
            fit_intercept=self.problem.fit_intercept,
        )

    def _path(self) -> FactorPath:
        """The model of all rows."""
        n, r = self._features().shape
        pieces = map_all(self._factor, spans(n, max(-(-n // _CHUNKS), 2 * (r + 1))))
        return FactorPath(Factor.union(pieces))

    def _factors(self, groups: Groups) -> list[Factor]:
        """The factor of each group."""
        if self._known is None or self._known[0] is not groups:
            self._features()
            members = [np.flatnonzero(groups.label == g) for g in range(groups.count)]
            self._known = groups, map_all(self._factor, members)
        return self._known[1]

    def _paths(self, groups: Groups, parts: int) -> list[FactorPath]:
        """The models without each of the first `parts` sets that the groups were made from."""
        factors = self._factors(groups)

        def train(members: Any) -> FactorPath:
            outside = np.setdiff1d(np.arange(groups.count), members)
            return FactorPath(Factor.union([factors[g] for g in outside]))

        return map_all(train, groups.members[:parts])

    def _worth_refits(self, groups: Groups, parts: int) -> bool:
        """Whether training without each of the sets from the groups' factors is quick enough."""
        width = self.coordinates.T.shape[1] + 1
        rows = int(np.minimum(np.bincount(groups.label), width).sum())
        return parts * (rows + 10 * width) * width**2 <= _REFIT_WORK

    # -- held-out predictions --------------------------------------------------------------------

    def _leave_one_out(self, alphas: Any) -> Any:
        """Y_i − r_i / (R_b)_ii. O(n r²) time, and as much for each row of a tiny (R_b)_ii."""
        mu = np.asarray(alphas, dtype=np.float64).reshape(-1)
        n, width = self._features().shape
        diagonals, Y = self._smoother().diagonals(mu), self._Y
        residuals = Y[None] - self._predict(self._path(), slice(None), mu)
        small = np.flatnonzero(diagonals.min(axis=0) < _SMALL_RESIDUAL)
        # Rounding may have left nothing, or less: those rows are refitted, or reported.
        out = Y[None] - residuals / np.maximum(diagonals, np.finfo(float).eps)[:, :, None]
        allowed = int(_REFIT_WORK // max(1, n * width**2))
        if small.size > allowed:
            self.report["leave_one_out"] = f"{small.size} rows to fewer digits: their leverage is near 1"
            return out
        everything = np.arange(n)
        for row, path in zip(
            small, map_all(lambda i: FactorPath(self._factor(np.delete(everything, i))), small)
        ):
            out[:, row] = self._predict(path, [row], mu)[:, 0]
        return out

    def _heldout(self, parts: list[Any], alphas: Any) -> list[Any]:
        # Many sets are not worth looking for their groups.
        few = len(parts) * self.problem.n <= _REFIT_WORK // (self.coordinates.T.shape[1] + 1)
        groups = self.source.grouped_by(parts) if few else None
        if groups is not None and self._worth_refits(groups, len(parts)):
            self.report["heldout"] = "factors"
            paths = self._paths(groups, len(parts))
            return [self._predict(path, rows, alphas) for path, rows in zip(paths, parts)]
        self.report["heldout"] = "block"
        found = self._smoother().heldout(self._scaled(), parts, alphas)
        return [self._unscaled(values, rows) for values, rows in zip(found, parts)]

    def _predict(self, path: FactorPath, rows: Any, alphas: Any) -> Any:
        theta, intercept = path.coefficients(alphas)
        values = np.matmul(self._features()[rows][None], theta)
        values += intercept[:, None, :]
        return values

    def _smoother(self) -> ThinSmoother:
        n, intercept = self.problem.n, self.problem.fit_intercept
        columns, values = orthonormal_columns(self._features(), self._root, fit_intercept=intercept)
        border = None
        if intercept:
            border = np.ones(n) if self._root is None else self._root
        return ThinSmoother(columns, values, border)

    def _scaled(self) -> Any:
        return self._Y if self._root is None else self._root[:, None] * self._Y

    def _unscaled(self, values: Any, rows: Any) -> Any:
        return values if self._root is None else values / self._root[rows][None, :, None]

    def _squared_error(self, groups: Groups, parts: int, alphas: Any) -> Any | None:
        if not self._worth_refits(groups, parts):
            return None
        factors, scores = self._factors(groups), np.empty((np.size(alphas), parts))
        for split, path in enumerate(self._paths(groups, parts)):
            here = [factors[g] for g in groups.members[split - parts]]
            theta, intercept = path.coefficients(alphas)
            error = sum(factor.squared_error(theta, intercept).mean(axis=1) for factor in here)
            scores[:, split] = error / sum(factor.weight for factor in here)
        return scores

    # -- the models themselves -------------------------------------------------------------------

    def solve(self, alphas: Any) -> Solution:
        with limit_blas(1):
            return self._solution(self._path(), alphas)

    def trains_without(self, parts: Sequence[Any]) -> bool:
        return self._worth_refits(self.source.grouped_by(parts), len(parts))

    def solve_without(self, parts: Sequence[Any], alphas: Any) -> list[Solution]:
        with limit_blas(1):
            groups = self.source.grouped_by(parts)
            return [self._solution(path, alphas) for path in self._paths(groups, len(parts))]

    def _solution(self, path: FactorPath, alphas: Any) -> Solution:
        theta, intercept = path.coefficients(alphas)
        theta, intercept = like(theta, self.design.landmarks), like(intercept, self.design.landmarks)
        return landmark_coefficients(self.design, self.coordinates.T, theta), intercept
