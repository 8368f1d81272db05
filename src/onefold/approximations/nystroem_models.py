r"""Basis models: f(x) = Σ_{j∈S} β_j k(x, z_j) + b, the penalty βᵀK_SSβ, all n residuals in the loss.

`FactoredModel` trains few rows from triangular factors of them: as exact as refits by QR. The whitened
features V of all rows are held. Each group of rows that the splitter moves together is factorised once;
the factors of the groups outside a set J, on top of each other, train the model without J.
Leave-one-out, and sets too many for that, go through the residual operator, in which V appears by
orthonormal columns alone. (R_b)_ii then has the absolute error eps; a row whose value is so small that
this matters is left out literally.

`SummedModel` trains many rows from statistics that add over them. Held-out predictions of a set J are
those of the model with the statistics of all rows minus those of J, exactly. One pass over the rows
collects them for every group of rows that the splitter moves together; any splitter is served by it as
long as the groups' Gram matrices fit the scratch limit. Beyond that, small sets use the residual
operator of the whole model, e_J = (R_b)_JJ⁻¹ (R_b y)_J, and large ones are collected one after the
other, each subtracted from the total. Everything runs where the rows are worked on; what comes to the
host is as small as the answer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import is_
from typing import Any, Literal

import numpy as np

from onefold.approximations.base import Model
from onefold.approximations.problem import Problem, target_ridges
from onefold.basis import (
    Basis,
    Design,
    FoldPaths,
    RidgePath,
    Statistics,
    collect,
    features_of,
    finite_kernel,
    holds_groups,
    predict_groups,
)
from onefold.basis.error import decision_bound, kernel_error
from onefold.basis.factor import Factor, FactorPath
from onefold.basis.ridge import flat, mapped, squared_error
from onefold.expansions import Expansion, FoldModels
from onefold.linalg import Array, like, namespace, outer, take_rows, to_numpy, zeros
from onefold.machine.threads import limit_blas, map_all, spans
from onefold.machine.warning import warn_user
from onefold.rows import Block, Groups, Rows
from onefold.smoothers.dense import ThinSmoother

_CHUNKS = 8  # pieces of the rows that are factorised side by side
_REFIT_WORK = 10**11  # multiply-adds that literal refits may take
_SMALL_RESIDUAL = 1e-7  # of (R_b)_ii: below it, its rounding errors reach the tenth digit
_MANY_PARTS = 64  # above this, one eigendecomposition per part costs more than its block of R
_FEW_DIGITS = 1e-3  # relative error of 1 − h above which a leverage is not to be relied on
_LEAST_SHARE = 1e-7  # of Σy²: a squared error below it has lost its digits to cancellation

Training = Literal["factors", "whitened sums", "sums"]
Solution = tuple[Any, Any]
"""β of the landmarks (m, μ, targets) and b (μ, targets)."""


@dataclass(frozen=True)
class Coordinates:
    """A design and what takes its features to whitened coordinates."""

    basis: Basis
    design: Design
    T: Any  # (m, r) for "sums"; None where the design's features are whitened
    training: Training
    report: dict[str, Any]


@dataclass(frozen=True)
class _Folds:
    """Sets of rows that are left out, sets that are tested, and the groups that both consist of."""

    left_out: Sequence[Any]
    tests: Sequence[Any]
    groups: Groups

    @property
    def without(self) -> list[Any]:
        """For each part, the groups that it is trained without."""
        return self.groups.members[: len(self.left_out)]

    @property
    def tested(self) -> list[Any]:
        """For each part, the groups that it is tested on."""
        return self.groups.members[len(self.left_out) :]

    def owners(self, members: Sequence[Any]) -> list[list[int]]:
        """For each group the parts whose `members` it is among."""
        found: list[list[int]] = [[] for _ in range(self.groups.count)]
        for part, groups in enumerate(members):
            for group in groups:
                found[group].append(part)
        return found


class BasisModel(Model):
    """One kernel, its landmarks and every μ. Nothing is collected before it is first needed.

    BLAS runs on one thread in all of it, so that digits do not depend on the number of threads.
    """

    keep = True

    def __init__(self, problem: Problem, coordinates: Coordinates) -> None:
        self.coordinates, self.design = coordinates, coordinates.design
        self.report = dict(coordinates.report)
        self.problem, self.source = problem, problem.source
        self._folds: _Folds | None = None

    def leave_one_out(self, alphas: Any) -> Array:
        with limit_blas(1):
            return self._leave_one_out(np.asarray(alphas, dtype=np.float64).reshape(-1))

    def heldout(self, parts: Sequence[Any], alphas: Any) -> list[Array]:
        mu = np.asarray(alphas, dtype=np.float64).reshape(-1)
        with limit_blas(1):
            return self._heldout([np.asarray(rows) for rows in parts], mu)

    def heldout_squared_error(
        self, left_out: Sequence[Any], tests: Sequence[Any], alphas: Any
    ) -> Any | None:
        """From sums or factors alone; None where that is not possible or has lost its digits.

        They count a row once: a splitter that tests rows repeatedly is not served.
        """
        folds = self.folds(left_out, tests)
        if folds.groups.repeats or not self.trains_without(left_out):
            return None
        with limit_blas(1):
            return self._squared_error(folds, alphas)

    def expansion(self, alpha: Any) -> Expansion:
        beta, intercept = self.solve_each(alpha)
        return Expansion(self.design.kernel, self.design.landmarks, beta, intercept)

    def final_report(self, alpha: Any, expansion: Expansion) -> dict[str, Any]:
        """With ‖K − K̃‖₂ and ding2012's bound; warns of a ridge that rounding hides."""
        with limit_blas(1):
            found = kernel_error(self.design, self.coordinates.T, self.source, seed=0)
        Y, intercept = to_numpy(self.problem.Y), to_numpy(expansion.intercept)
        self.report |= {
            "kernel_error": found["kernel_error"],
            "kernel_error_rows": found["kernel_error_rows"],
            "decision_bound": decision_bound(found, Y, intercept, alpha),
        }
        smallest, rounding = float(np.min(alpha)), self.report.get("rounding_ridge", 0.0)
        unit = self.problem.alpha_unit
        if smallest < rounding:
            warn_user(
                f"alpha={smallest * unit:.2g} is below {rounding * unit:.1e}, the ridge that rounding "
                f"errors look like in sums over {self.problem.n} rows, so that predictions may be "
                "off; use a larger alpha, fewer landmarks, or a larger gamma."
            )
        return self.report

    def fold_models(self, parts: Sequence[Any], alpha: Any) -> FoldModels | None:
        """The coefficients of the landmarks without each part, from what a search has collected."""
        if not self.trains_without(parts):
            return None
        ridges = target_ridges(alpha, self.problem.Y.shape[1])
        with limit_blas(1):
            found = self.solve_without(parts, ridges.distinct)
        xp = namespace(found[0][0])
        coef = [ridges.own(xp.permute_dims(beta, (1, 0, 2))) for beta, _ in found]
        intercept = [ridges.own(b) for _, b in found]
        together = xp.concat(coef, axis=1), xp.concat(intercept)
        return FoldModels.of(Expansion(self.design.kernel, self.design.landmarks, *together), len(parts))

    def solve_each(self, alpha: Any) -> tuple[Any, Any]:
        """β (m, targets) and b (targets,) of all rows, for one μ or one per target."""
        ridges = target_ridges(alpha, self.problem.Y.shape[1])
        with limit_blas(1):
            solution = self._path.coefficients(ridges.distinct)
            beta, intercept = self._of_landmarks(solution, self.coordinates.T)
        return ridges.own(namespace(beta).permute_dims(beta, (1, 0, 2))), ridges.own(intercept)

    def _of_landmarks(self, solution: tuple[Any, Any], T: Any) -> Solution:
        """Of θ (r, μ, targets) in the coordinates T, and b."""
        theta, intercept = (like(array, self.design.landmarks) for array in solution)
        return mapped(self.design.mix, mapped(T, theta)), intercept

    def folds(self, left_out: Sequence[Any], tests: Sequence[Any] = ()) -> _Folds:
        """The groups of rows behind these sets; of the same sets, those that are known."""
        if self._folds is not None:
            pairs = (self._folds.left_out, left_out), (self._folds.tests, tests or self._folds.tests)
            if all(len(mine) == len(theirs) and all(map(is_, mine, theirs)) for mine, theirs in pairs):
                return self._folds
        groups = self.source.grouped_by([*left_out, *tests])
        self._folds = _Folds(list(left_out), list(tests), groups)
        return self._folds

    @property
    @abstractmethod
    def _path(self) -> Any:
        """The model of all rows."""

    @abstractmethod
    def trains_without(self, parts: Sequence[Any]) -> bool:
        """Whether the sets are few enough for a model without each."""

    @abstractmethod
    def solve_without(self, parts: Sequence[Any], alphas: Any) -> list[Solution]:
        """The models without each set of rows."""

    @abstractmethod
    def _leave_one_out(self, mu: Any) -> Any: ...

    @abstractmethod
    def _heldout(self, parts: list[Any], mu: Any) -> list[Any]: ...

    @abstractmethod
    def _squared_error(self, folds: _Folds, alphas: Any) -> Any | None: ...


class FactoredModel(BasisModel):
    """Trained from factors of rows, in host memory."""

    def __init__(self, problem: Problem, coordinates: Coordinates) -> None:
        super().__init__(problem, coordinates)
        self._root = None if problem.root_weight is None else to_numpy(problem.root_weight)
        self._V, self._Y = finite_kernel(features_of(self.design, self.source)), to_numpy(problem.Y)
        self._known: tuple[_Folds, list[Factor]] | None = None

    def _factor(self, rows: Any) -> Factor:
        root = None if self._root is None else self._root[rows]
        intercept = self.problem.fit_intercept
        return Factor.of(self._V[rows], self._Y[rows], root, fit_intercept=intercept)

    @property
    def _path(self) -> FactorPath:
        n, r = self._V.shape
        pieces = map_all(self._factor, spans(n, max(-(-n // _CHUNKS), 2 * (r + 1))))
        return FactorPath(Factor.union(pieces))

    def _factors(self, folds: _Folds) -> list[Factor]:
        """The factor of each group."""
        if self._known is None or self._known[0] is not folds:
            label = folds.groups.label
            members = [np.flatnonzero(label == group) for group in range(folds.groups.count)]
            self._known = folds, map_all(self._factor, members)
        return self._known[1]

    def _paths(self, folds: _Folds) -> list[FactorPath]:
        """The models without each part."""
        factors = self._factors(folds)

        def train(members: Any) -> FactorPath:
            outside = np.setdiff1d(np.arange(len(factors)), members)
            return FactorPath(Factor.union([factors[group] for group in outside]))

        return map_all(train, folds.without)

    def trains_without(self, parts: Sequence[Any]) -> bool:
        """Whether refits from the factors of groups are quick; many sets are not worth looking for."""
        width = self.design.size + 1
        if len(parts) * self.problem.n > _REFIT_WORK // width:
            return False
        rows = int(np.minimum(self.folds(parts).groups.sizes, width).sum())
        return len(parts) * (rows + 10 * width) * width**2 <= _REFIT_WORK

    def _leave_one_out(self, mu: Any) -> Any:
        """Y_i − r_i / (R_b)_ii. O(n r²) time, and as much for each row of a tiny (R_b)_ii."""
        n, width = self._V.shape
        diagonals, Y = self._smoother().diagonals(mu), self._Y
        residuals = Y[None] - self._predict(self._path, slice(None), mu)
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

    def _heldout(self, parts: list[Any], mu: Any) -> list[Any]:
        if self.trains_without(parts):
            self.report["heldout"] = "factors"
            paths = self._paths(self.folds(parts))
            return [self._predict(path, rows, mu) for path, rows in zip(paths, parts)]
        self.report["heldout"] = "block"
        root = np.ones(self.problem.n) if self._root is None else self._root
        found = self._smoother().heldout(root[:, None] * self._Y, parts, mu)
        return [values / root[rows][None, :, None] for values, rows in zip(found, parts)]

    def _predict(self, path: FactorPath, rows: Any, mu: Any) -> Any:
        theta, intercept = path.coefficients(mu)
        return mapped(self._V[rows], theta).transpose(1, 0, 2) + intercept[:, None, :]

    def _smoother(self) -> ThinSmoother:
        """From U λ Uᵀ = S V Vᵀ S about its mean. O(n r²) time, memory for some three arrays like V."""
        root = np.ones(self.problem.n) if self._root is None else self._root
        start, columns = int(self.problem.fit_intercept), root[:, None] * self._V
        if start:
            columns = np.hstack([root[:, None], columns])
        Q, R = np.linalg.qr(columns)
        P, values, _ = np.linalg.svd(R[start:, start:], full_matrices=False)
        return ThinSmoother(Q[:, start:] @ P, values**2, root if start else None)

    def _squared_error(self, folds: _Folds, alphas: Any) -> Any:
        factors, scores = self._factors(folds), np.empty((np.size(alphas), len(folds.tests)))
        for split, (path, members) in enumerate(zip(self._paths(folds), folds.tested)):
            here = [factors[group] for group in members]
            theta, intercept = path.coefficients(alphas)
            error = sum(factor.squared_error(theta, intercept).mean(axis=1) for factor in here)
            scores[:, split] = error / sum(factor.weight for factor in here)
        return scores

    def solve_without(self, parts: Sequence[Any], alphas: Any) -> list[Solution]:
        paths = self._paths(self.folds(parts))
        return [self._of_landmarks(path.coefficients(alphas), None) for path in paths]


class SummedModel(BasisModel):
    """Trained from sums over rows. They are collected when first needed."""

    def __init__(self, problem: Problem, coordinates: Coordinates) -> None:
        super().__init__(problem, coordinates)
        self._known: tuple[_Folds, FoldPaths] | None = None

    @cached_property
    def total(self) -> Statistics:
        """The statistics of all rows, in the design's features."""
        return collect(self.design, self.source)[0]

    @cached_property
    def _path(self) -> RidgePath:
        return self._ridge_path(self.total)

    def _ridge_path(self, statistics: Statistics) -> RidgePath:
        return RidgePath(
            statistics.rotated(self.coordinates.T), fit_intercept=self.problem.fit_intercept
        )

    def _fold_paths(self, folds: _Folds) -> FoldPaths:
        """The models without each part."""
        if self._known is None or self._known[0] is not folds:
            statistics = collect(self.design, self.source, folds.groups)
            if "total" not in vars(self):
                self.total = Statistics.total(statistics)
            paths = FoldPaths(
                statistics,
                folds.without,
                self.coordinates.T,
                lambda: self._path,
                fit_intercept=self.problem.fit_intercept,
            )
            self._known = folds, paths
        return self._known[1]

    def trains_without(self, parts: Sequence[Any]) -> bool:
        return len(parts) <= _MANY_PARTS

    def _route(self, parts: Sequence[Any]) -> Literal["subtraction", "block", "each set"]:
        """How to train without each of the sets: see the module's text."""
        if self.trains_without(parts) and self._in_one_pass(self.folds(parts)):
            return "subtraction"
        return "block" if max(len(rows) for rows in parts) <= self.design.size else "each set"

    def _in_one_pass(self, folds: _Folds) -> bool:
        return holds_groups(folds.groups.count, self.design.size)

    def _leave_one_out(self, mu: Any) -> Array:
        """Y_i − r_i / (1 − h_i), block by block. O(n m r) time beyond the statistics."""
        path = self._path
        T, shrinkage = self.coordinates.T, path.shrinkage(mu)
        matrix = path.vectors if T is None else T @ path.vectors
        inner, intercept = path.in_vectors(mu), path.coefficients(mu)[1]
        ridges, xp = like(mu, inner), namespace(inner)

        def left_out_alone(block: Block) -> tuple[Array, Array]:
            features = self.design.times(block.X, matrix)
            fitted = xp.permute_dims(mapped(features, inner), (1, 0, 2)) + intercept[:, None, :]
            leverage = ((features - path.mean[None, :]) ** 2) @ shrinkage.T  # (rows, μ)
            if path.fit_intercept:
                leverage = leverage + 1.0 / path.weight
            if block.root is not None:
                leverage = leverage * block.root[:, None] ** 2
            # Rounding errors of the sums, over μ, are those of the leverage.
            lost = xp.any(_FEW_DIGITS * ridges[None, :] * (1.0 - leverage) < path.noise, axis=1)
            found = (block.Y[None, ...] - fitted) / (1.0 - leverage.T)[:, :, None]
            return block.Y[None, ...] - found, xp.sum(xp.astype(lost, xp.float64))

        out = zeros((mu.size, self.problem.n, self.problem.Y.shape[1]), self.problem.Y)
        lost = []
        for _, rows, (found, few) in self.source.map(left_out_alone, at_most=self.design.threads):
            out[:, rows, :] = like(found, out)
            lost.append(few)
        many = int(sum(float(few) for few in lost))
        if many:
            self.report["leave_one_out"] = f"{many} rows to fewer digits: their leverage is near 1"
        return out

    def _heldout(self, parts: list[Any], mu: Any) -> list[Array]:
        t = int(self.problem.Y.shape[1])
        out = [zeros((mu.size, rows.size, t), self.problem.Y) for rows in parts]
        for part, places, values in self._blocks(parts, mu):
            out[part][:, places, :] = like(values, out[part])
        return out

    def heldout_blocks(self, parts: Sequence[Any], alphas: Any) -> Iterator[tuple[int, Any, Array]]:
        """(part, places in it, predictions (μ, rows, targets)) of one block after the other."""
        with limit_blas(1):
            mu = np.asarray(alphas, dtype=np.float64).reshape(-1)
            yield from self._blocks([np.asarray(rows) for rows in parts], mu)

    def _blocks(self, parts: list[Any], mu: Any) -> Iterator[tuple[int, Any, Array]]:
        route = self.report["heldout"] = self._route(parts)
        if route == "subtraction":
            yield from self._blocks_by_subtraction(parts, mu)
            return
        one = self._heldout_by_block if route == "block" else self._heldout_by_itself
        for number, rows in enumerate(parts):
            yield number, slice(0, len(rows)), one(rows, mu)

    def _blocks_by_subtraction(self, parts: list[Any], mu: Any) -> Iterator[tuple[int, Any, Array]]:
        """One pass for the statistics of all groups, one for the predictions of all parts and μ."""
        folds = self.folds(parts)
        models = self._models_without(folds, mu)
        xp, t = namespace(models[0][0]), int(self.problem.Y.shape[1])
        owners, width = folds.owners(folds.without), mu.size * t
        coefficients = [
            xp.concat([models[p][0] for p in own], axis=1) if own else None for own in owners
        ]
        for group, rows, values in predict_groups(self.design, self.source, coefficients, folds.groups):
            numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
            for number, part in enumerate(owners[group]):
                block = xp.reshape(values[:, number * width : (number + 1) * width], (-1, mu.size, t))
                block = xp.permute_dims(block, (1, 0, 2)) + models[part][1][:, None, :]
                yield part, _places(parts[part], numbers), block

    def _models_without(self, folds: _Folds, mu: Any) -> list[tuple[Any, Any]]:
        """For each part the coefficients of the features (features, μ · targets), and b (μ, targets)."""
        paths = self._fold_paths(folds)
        return [(flat(mapped(paths.T, theta)), b) for theta, b in paths.coefficients(mu)]

    def heldout_sums(
        self, left_out: Sequence[Any], tests: Sequence[Any], alphas: Any, terms: Any, carrier: Rows
    ) -> list[Array] | None:
        if not self.trains_without(left_out):
            return None
        folds = self.folds(left_out, tests)
        if folds.groups.repeats or not self._in_one_pass(folds):
            return None
        with limit_blas(1):
            models = self._models_without(folds, np.asarray(alphas, dtype=np.float64).reshape(-1))
            self.report["heldout"] = "subtraction"
            owners = folds.owners(folds.tested)
            own = [[models[part] for part in parts_here] for parts_here in owners]
            sums = HeldoutSums(self.design, own, terms)
            found = carrier.sums(sums, folds.groups, at_most=self.design.threads)
        totals: list[Any] = [0.0] * len(left_out)
        for parts_here, of_group in zip(owners, found):
            for number, part in enumerate(parts_here):
                totals[part] = totals[part] + of_group.values[number]
        return totals

    def _heldout_by_block(self, rows: Any, mu: Any) -> Array:
        """Few rows: e_J = (I − H_JJ)⁻¹ r_J from the model of all rows. O(|J| m r + |μ| |J|³)."""
        path = self._path
        features = self.design.times(self.source.sample(rows))
        features = features if self.coordinates.T is None else features @ self.coordinates.T
        xp, root = namespace(features), self.problem.root_weight
        root = like(np.ones(len(rows)) if root is None else take_rows(root, rows), features)
        y = like(take_rows(self.problem.Y, rows), features)
        theta, intercept = path.coefficients(mu)
        residual = y[None, ...] - xp.permute_dims(mapped(features, theta), (1, 0, 2))
        residual = residual - intercept[:, None, :]
        centred = root[:, None] * (features @ path.vectors - path.mean[None, :])
        identity, shrinkage, found = like(np.eye(len(rows)), features), path.shrinkage(mu), []
        for i in range(mu.size):
            hat = (centred * shrinkage[i, :][None, :]) @ centred.T
            if path.fit_intercept:
                hat = hat + outer(root, root / path.weight)
            error = xp.linalg.solve(identity - hat, root[:, None] * residual[i, ...])
            found.append(y - error / root[:, None])
        return xp.stack(found)

    def _path_without(self, rows: Any) -> RidgePath:
        """Of all rows but these: their own statistics, subtracted from the total. O(|J| m²)."""
        return self._ridge_path(self.total.less(collect(self.design, self.source.part(rows))))

    def _heldout_by_itself(self, rows: Any, mu: Any) -> Array:
        theta, intercept = self._path_without(rows).coefficients(mu)
        matrix, xp = flat(mapped(self.coordinates.T, theta)), namespace(theta)
        found = [v for *_, v in predict_groups(self.design, self.source.part(rows), [matrix])]
        values = xp.reshape(xp.concat(found), (len(rows), *theta.shape[1:]))
        return xp.permute_dims(values, (1, 0, 2)) + intercept[:, None, :]

    def _squared_error(self, folds: _Folds, alphas: Any) -> Any | None:
        if not self._in_one_pass(folds):
            return None
        paths = self._fold_paths(folds)
        here = [Statistics.total([paths.groups[g] for g in members]) for members in folds.tested]
        found = [squared_error(s, *solution) for s, solution in zip(here, paths.coefficients(alphas))]
        xp = namespace(found[0])
        # All that the host sees of it: (splits, μ, targets), and the squares and weights of the splits.
        errors = to_numpy(xp.stack(found))
        squares = to_numpy(xp.stack([s.target_square for s in here]))
        if np.any(errors < _LEAST_SHARE * squares[:, None, :]):
            return None
        weights = np.array([float(s.weight) for s in here])
        return errors.mean(axis=2).T / weights[None, :]

    def solve_without(self, parts: Sequence[Any], alphas: Any) -> list[Solution]:
        if self._route(parts) == "subtraction":
            paths = self._fold_paths(self.folds(parts))
            return [self._of_landmarks(found, paths.T) for found in paths.coefficients(alphas)]
        each = (self._path_without(rows).coefficients(alphas) for rows in parts)
        return [self._of_landmarks(found, self.coordinates.T) for found in each]


def _places(part: Any, numbers: Any) -> Any:
    """Where row numbers stand in a sorted set of them: a slice where they are consecutive there."""
    first, last = np.searchsorted(part, numbers[[0, -1]])
    if last - first + 1 == numbers.size:
        return slice(int(first), int(last) + 1)
    return np.searchsorted(part, numbers)


@dataclass(frozen=True)
class Numbers:
    """An array that adds."""

    values: Any

    def __add__(self, other: Numbers) -> Numbers:
        return Numbers(self.values + other.values)

    absorb = __add__

    def on_host(self) -> Numbers:
        """The same as a NumPy array."""
        return Numbers(to_numpy(self.values))


@dataclass(frozen=True)
class HeldoutSums:
    """Block → sums (models, μ, terms) of the models that its group is held out of and tested by.

    The predictions of a block are compared with the targets of its rows and dropped at once, so that
    nothing that grows with the number of rows travels.
    """

    design: Design
    models: Sequence[Any]  # for each group a list of (features, μ · targets) and (μ, targets)
    terms: Callable[[Any, Any], Any]  # predictions (μ, rows, targets), their targets → (μ, terms)

    def __call__(self, block: Block) -> Numbers:
        models = self.models[block.group]
        if not models:
            return Numbers(0.0)
        xp, found = namespace(models[0][0]), []
        width = models[0][0].shape[1]
        together = xp.concat([coefficients for coefficients, _ in models], axis=1)
        values = self.design.times(block.X, together)
        for number, (_, intercept) in enumerate(models):
            own = xp.reshape(values[:, number * width : (number + 1) * width], (-1, *intercept.shape))
            predictions = xp.permute_dims(own, (1, 0, 2)) + intercept[:, None, :]
            found.append(self.terms(predictions, block.Y))
        return Numbers(xp.stack(found))

    def zero(self, targets: int, reference: Array) -> Numbers:
        """The sum over no rows."""
        return Numbers(0.0)

    def placed(self, place: Callable[[Any], Any]) -> HeldoutSums:
        """The same with its arrays moved."""
        moved = [[tuple(map(place, model)) for model in models] for models in self.models]
        return HeldoutSums(self.design.placed(place), moved, self.terms)
