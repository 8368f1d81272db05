r"""A basis model of many rows, from statistics that add over them.

Held-out predictions of a set J are those of the model with the statistics of all rows minus those of J,
exactly. One pass over the rows collects them for every group of rows that the splitter moves together
(see :mod:`onefold.rows.groups`); any splitter is served by it as long as the groups' Gram matrices
fit the scratch limit. Beyond that, small sets use the residual operator of the whole model,
e_J = (R_b)_JJ⁻¹ (R_b y)_J, and large ones are collected one after the other, each subtracted from the
total. Everything runs where the rows are worked on; what comes to the host is as small as the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from onefold.approximations.footprint import holds_groups
from onefold.approximations.nystroem.basis import (
    BasisModel,
    Solution,
    flattened,
    landmark_coefficients,
)
from onefold.approximations.nystroem.coordinates import Coordinates
from onefold.approximations.nystroem.heldout_sums import HeldoutSums
from onefold.approximations.problem import Problem
from onefold.linalg import Array, like, namespace, outer, take_rows, to_numpy, zeros
from onefold.machine.threads import limit_blas
from onefold.rows import Block, Groups, Rows
from onefold.statistics import FoldModels, RidgePath, Statistics, collect, predict_groups
from onefold.statistics.ridge import squared_error

_MANY_PARTS = 64  # above this, one eigendecomposition per part costs more than its block of R
_FEW_DIGITS = 1e-3  # relative error of 1 − h above which a leverage is not to be relied on
_LEAST_SHARE = 1e-7  # of Σy²: a squared error below it has lost its digits to cancellation


class SummedModel(BasisModel):
    """Trained from sums over rows. They are collected when first needed."""

    def __init__(self, problem: Problem, coordinates: Coordinates) -> None:
        super().__init__(problem, coordinates)
        self._total: Statistics | None = None
        self._total_path: RidgePath | None = None
        self._folds: tuple[Groups, int, FoldModels] | None = None

    # -- statistics ------------------------------------------------------------------------------

    def total(self) -> Statistics:
        """The statistics of all rows, in the design's features."""
        if self._total is None:
            self._total = collect(self.design, self.source)[0]
        return self._total

    def _path(self) -> RidgePath:
        if self._total_path is None:
            self._total_path = self._ridge_path(self.total().rotated(self.coordinates.T))
        return self._total_path

    def _ridge_path(self, statistics: Statistics) -> RidgePath:
        return RidgePath(statistics, fit_intercept=self.problem.fit_intercept)

    def _in_one_pass(self, groups: Groups) -> bool:
        return holds_groups(groups.count, self.design.size)

    def _fold_models(self, groups: Groups, parts: int) -> FoldModels:
        """The models without each of the first `parts` sets that the groups were made from."""
        if self._folds is None or self._folds[0] is not groups or self._folds[1] != parts:
            statistics = collect(self.design, self.source, groups)
            if self._total is None:
                self._total = Statistics.total(statistics)
            left_out = groups.members[:parts]
            intercept = self.problem.fit_intercept
            models = FoldModels(
                statistics, left_out, self.coordinates.T, self._path, fit_intercept=intercept
            )
            self._folds = groups, parts, models
        return self._folds[2]

    # -- held-out predictions --------------------------------------------------------------------

    def _leave_one_out(self, alphas: Any) -> Array:
        """Y_i − r_i / (1 − h_i), block by block. O(n m r) time beyond the statistics."""
        path, mu = self._path(), np.asarray(alphas, dtype=np.float64).reshape(-1)
        matrix, shrinkage = self.coordinates.T @ path.vectors, path.shrinkage(mu)
        theta, intercept = path.coefficients(mu)
        inner, mean = path.vectors.T[None, ...] @ theta, path.mean_feature @ path.vectors
        ridges, xp = like(mu, theta), namespace(theta)

        def left_out_alone(block: Block) -> tuple[Array, Array]:
            features = self.design.times(block.X, matrix)
            fitted = features[None, ...] @ inner + intercept[:, None, :]
            leverage = ((features - mean[None, :]) ** 2) @ shrinkage.T  # (rows, μ)
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

    def _heldout(self, parts: list[Any], alphas: Any) -> list[Array]:
        mu, t = np.asarray(alphas, dtype=np.float64).reshape(-1), int(self.problem.Y.shape[1])
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
        route = self._route(parts)
        self.report["heldout"] = route
        if route == "subtraction":
            yield from self._blocks_by_subtraction(parts, mu)
            return
        one = self._heldout_by_block if route == "block" else self._heldout_by_itself
        for number, rows in enumerate(parts):
            yield number, slice(0, len(rows)), one(rows, mu)

    def _route(self, parts: Sequence[Any]) -> Literal["subtraction", "block", "each set"]:
        """How to train without each of the sets: see the module's text."""
        if len(parts) <= _MANY_PARTS and self._in_one_pass(self.source.grouped_by(parts)):
            return "subtraction"
        largest = max(len(rows) for rows in parts)
        return "block" if largest <= self.design.size else "each set"

    def _blocks_by_subtraction(self, parts: list[Any], mu: Any) -> Iterator[tuple[int, Any, Array]]:
        """One pass for the statistics of all groups, one for the predictions of all parts and μ."""
        groups = self.source.grouped_by(parts)
        folds = self._fold_models(groups, len(parts))
        solutions = folds.coefficients(mu)
        xp, t = namespace(solutions[0][0]), int(self.problem.Y.shape[1])
        owners: list[list[int]] = [[] for _ in range(groups.count)]
        for part in range(len(parts)):
            for group in groups.members[part]:
                owners[group].append(part)
        flat = [folds.T @ flattened(theta) for theta, _ in solutions]
        coefficients = [xp.concat([flat[p] for p in own], axis=1) if own else None for own in owners]
        width = mu.size * t
        for group, rows, values in predict_groups(self.design, self.source, coefficients, groups):
            numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
            for number, part in enumerate(owners[group]):
                block = xp.reshape(values[:, number * width : (number + 1) * width], (-1, mu.size, t))
                block = xp.permute_dims(block, (1, 0, 2)) + solutions[part][1][:, None, :]
                yield part, _places(parts[part], numbers), block

    def heldout_sums(
        self, left_out: Sequence[Any], tests: Sequence[Any], alphas: Any, terms: Any, carrier: Rows
    ) -> list[Array] | None:
        groups, parts = self.source.grouped_by([*left_out, *tests]), len(left_out)
        if groups.repeats or parts > _MANY_PARTS or not self._in_one_pass(groups):
            return None
        with limit_blas(1):
            folds = self._fold_models(groups, parts)
            solutions = folds.coefficients(np.asarray(alphas, dtype=np.float64).reshape(-1))
            self.report["heldout"] = "subtraction"
            judges = [(folds.T @ flattened(theta), intercept) for theta, intercept in solutions]
            owners: list[list[int]] = [[] for _ in range(groups.count)]
            for part, members in enumerate(groups.members[parts:]):
                for group in members:
                    owners[group].append(part)
            own = [[judges[part] for part in parts_here] for parts_here in owners]
            found = carrier.sums(
                HeldoutSums(self.design, own, terms), groups, at_most=self.design.threads
            )
        totals: list[Any] = [0.0] * parts
        for parts_here, sums in zip(owners, found):
            for number, part in enumerate(parts_here):
                totals[part] = totals[part] + sums.values[number]
        return totals

    def _heldout_by_block(self, rows: Any, mu: Any) -> Array:
        """Few rows: e_J = (I − H_JJ)⁻¹ r_J from the model of all rows. O(|J| m r + |μ| |J|³)."""
        path = self._path()
        features = self.design.features(self.source.sample(rows)) @ self.coordinates.T
        xp, root = namespace(features), like(self.root_of(rows), features)
        y = like(take_rows(self.problem.Y, rows), features)
        theta, intercept = path.coefficients(mu)
        residual = y[None, ...] - features[None, ...] @ theta - intercept[:, None, :]
        centred = root[:, None] * path.leverage_features(features)
        identity, found = like(np.eye(len(rows)), features), []
        for i in range(mu.size):
            hat = (centred * path.shrinkage(mu)[i, :][None, :]) @ centred.T
            if path.fit_intercept:
                hat = hat + outer(root, root / path.weight)
            error = xp.linalg.solve(identity - hat, root[:, None] * residual[i, ...])
            found.append(y - error / root[:, None])
        return xp.stack(found)

    def _path_without(self, rows: Any) -> RidgePath:
        """Of all rows but these: their own statistics, subtracted from the total. O(|J| m²)."""
        apart = collect(self.design, self.source.part(rows))[0]
        return self._ridge_path((self.total() - apart).rotated(self.coordinates.T))

    def _heldout_by_itself(self, rows: Any, mu: Any) -> Array:
        theta, intercept = self._path_without(rows).coefficients(mu)
        matrix = self.coordinates.T @ flattened(theta)
        xp = namespace(theta)
        found = [v for *_, v in predict_groups(self.design, self.source.part(rows), [matrix])]
        values = xp.reshape(xp.concat(found), (len(rows), theta.shape[0], theta.shape[2]))
        return xp.permute_dims(values, (1, 0, 2)) + intercept[:, None, :]

    def _squared_error(self, groups: Groups, parts: int, alphas: Any) -> Any | None:
        if not self._in_one_pass(groups) or parts > _MANY_PARTS:
            return None
        folds = self._fold_models(groups, parts)
        sets = groups.members[-parts:]
        here = [Statistics.total([folds.groups[g] for g in members]) for members in sets]
        found = [squared_error(s, *solution) for s, solution in zip(here, folds.coefficients(alphas))]
        xp = namespace(found[0])
        # All that the host sees of it: (splits, μ, targets), and the squares and weights of the splits.
        errors = to_numpy(xp.stack(found))
        squares = to_numpy(xp.stack([s.target_square for s in here]))
        if np.any(errors < _LEAST_SHARE * squares[:, None, :]):
            return None
        weights = np.array([float(s.weight) for s in here])
        return errors.mean(axis=2).T / weights[None, :]

    # -- the models themselves -------------------------------------------------------------------

    def solve(self, alphas: Any) -> Solution:
        with limit_blas(1):
            theta, intercept = self._path().coefficients(alphas)
            return landmark_coefficients(self.design, self.coordinates.T, theta), intercept

    def trains_without(self, parts: Sequence[Any]) -> bool:
        return len(parts) <= _MANY_PARTS

    def solve_without(self, parts: Sequence[Any], alphas: Any) -> list[Solution]:
        with limit_blas(1):
            if self._route(parts) == "subtraction":
                folds = self._fold_models(self.source.grouped_by(parts), len(parts))
                found, T = folds.coefficients(alphas), folds.T
            else:
                found = [self._path_without(rows).coefficients(alphas) for rows in parts]
                T = self.coordinates.T
            return [(landmark_coefficients(self.design, T, theta), b) for theta, b in found]


def _places(part: Any, numbers: Any) -> Any:
    """Where row numbers stand in a sorted set of them: a slice where they are consecutive there."""
    first, last = np.searchsorted(part, numbers[[0, -1]])
    if last - first + 1 == numbers.size:
        return slice(int(first), int(last) + 1)
    return np.searchsorted(part, numbers)
