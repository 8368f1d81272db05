r"""A basis model of many rows, from statistics that add over them.

Held-out predictions of a set J are those of the model with the statistics of all rows minus those of J,
exactly. One pass over the rows collects them for every group of rows that the splitter moves together
(see :mod:`onefold.statistics.groups`); any splitter is served by it as long as the groups' Gram matrices
fit the scratch limit. Beyond that, small sets use the residual operator of the whole model,
e_J = (R_b)_JJ⁻¹ (R_b y)_J, and large ones are collected one after the other, each subtracted from the
total.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from onefold.approximations.base import Problem
from onefold.approximations.nystroem.basis import BasisModel, Solution, landmark_coefficients
from onefold.approximations.nystroem.coordinates import Coordinates
from onefold.linalg import take_rows
from onefold.machine.threads import limit_blas, map_threads
from onefold.statistics import (
    Groups,
    RidgePath,
    Statistics,
    collect,
    group_rows,
    predict_groups,
)
from onefold.statistics.nearby import NearbyPath
from onefold.statistics.ridge import squared_error

_GROUP_BYTES = 2**30  # for the Gram matrices of all groups together
_MANY_PARTS = 64  # above this, one eigendecomposition per part costs more than its block of R
_ROWS_PER_DIRECTION = 10  # with so many, a model without a fold is near the one of all rows
_FEW_DIGITS = 1e-3  # relative error of 1 − h above which a leverage is not to be relied on
_LEAST_SHARE = 1e-7  # of Σy²: a squared error below it has lost its digits to cancellation


FoldModel = RidgePath | NearbyPath


class SummedModel(BasisModel):
    """Trained from sums over rows. They are collected when first needed."""

    def __init__(self, problem: Problem, coordinates: Coordinates) -> None:
        super().__init__(problem, coordinates)
        self._total: Statistics | None = None
        self._total_path: RidgePath | None = None
        self._lost = 0
        self._fold_paths: tuple[Any, Groups, list[FoldModel], list[Statistics]] | None = None

    # -- statistics ------------------------------------------------------------------------------

    def _collect(self, label: Any | None, count: int) -> list[Statistics]:
        problem = self.problem
        return collect(self.design, problem.X, self._Y, problem.root_weight, label, count)

    def total(self) -> Statistics:
        """The statistics of all rows, in the design's features."""
        if self._total is None:
            self._total = self._collect(None, 1)[0]
        return self._total

    def _path(self) -> RidgePath:
        if self._total_path is None:
            self._total_path = self._ridge_path(self.total().rotated(self.coordinates.T))
        return self._total_path

    def _ridge_path(self, statistics: Statistics) -> RidgePath:
        return RidgePath(statistics, fit_intercept=self.problem.fit_intercept)

    def _fold_T(self) -> Any:
        """Features to the coordinates that the folds are solved in."""
        return self.coordinates.T @ self._path().vectors

    def _in_one_pass(self, groups: Groups) -> bool:
        return 8 * groups.count * self.design.size**2 <= _GROUP_BYTES

    def _paths(
        self, left_out: Sequence[Any], tests: Sequence[Any] = ()
    ) -> tuple[Groups, list[FoldModel], list[Statistics]]:
        """For each set of rows J: the model trained without J, and the groups' statistics.

        All are in the eigenvectors' coordinates of the model of all rows, see `_fold_T`. The groups
        also tell the `tests` apart, where these are not the left-out rows themselves.
        """
        sets = [*left_out, *tests]
        if self._fold_paths is not None and _begins_with(self._fold_paths[0], sets):
            return self._fold_paths[1:]
        groups = group_rows(self.problem.n, sets)
        statistics = self._collect(groups.label, groups.count)
        if self._total is None:
            self._total = statistics[0]
            for other in statistics[1:]:
                self._total = self._total + other
        whole, T = self._path(), self._fold_T()
        turned = dict(map_threads(lambda i: (i, statistics[i].rotated(T)), range(len(statistics))))
        white = [turned[i] for i in range(len(statistics))]
        total = white[0]
        for other in white[1:]:
            total = total + other

        def train(members: Any) -> FoldModel:
            rest = total
            for group in members:
                rest = rest - white[group]
            if rest.count < _ROWS_PER_DIRECTION * T.shape[1]:
                return self._ridge_path(rest)
            return NearbyPath(rest, whole, fit_intercept=self.problem.fit_intercept)

        numbers = range(len(left_out))
        order = dict(map_threads(lambda i: (i, train(groups.members[i])), numbers))
        paths = [order[i] for i in numbers]
        self._fold_paths = (sets, groups, paths, white)
        return groups, paths, white

    # -- held-out predictions --------------------------------------------------------------------

    def _leave_one_out(self, alphas: Any) -> Any:
        """Y_i − r_i / (1 − h_i), block by block. O(n m r) time beyond the statistics."""
        out = np.empty((np.size(alphas), self.problem.n, self.problem.Y.shape[1]))
        self._lost = 0
        for rows, features in self._whitened_rows(self._path().vectors):
            out[:, rows] = self._left_out_alone(features, rows, alphas)
        if self._lost:
            self.report["leave_one_out"] = f"{self._lost} rows to fewer digits: their leverage is near 1"
        return out

    def _whitened_rows(self, vectors: Any) -> Iterator[tuple[Any, Any]]:
        """(rows, features in the eigenvectors' coordinates, not centred), block by block."""
        matrix = self.coordinates.T @ vectors
        for _, rows, values in predict_groups(self.design, self.problem.X, [matrix]):
            yield rows, values

    def _left_out_alone(self, features: Any, rows: Any, alphas: Any) -> Any:
        path, y = self._path(), self.targets_of(rows)
        mu = np.asarray(alphas, dtype=np.float64).reshape(-1)
        theta, intercept = path.coefficients(mu)
        inner = np.matmul(path.vectors.T[None], theta)
        fitted = np.matmul(features[None], inner) + intercept[:, None, :]
        centred = features - (path.mean_feature @ path.vectors)[None, :]
        leverage = (centred**2) @ path.shrinkage(mu).T  # (rows, μ)
        if path.fit_intercept:
            leverage += 1.0 / path.weight
        leverage *= self.root_of(rows)[:, None] ** 2
        # Rounding errors of the sums, over μ, are those of the leverage.
        self._lost += int(np.any(_FEW_DIGITS * mu * (1.0 - leverage) < path.noise, axis=1).sum())
        return y[None] - (y[None] - fitted) / (1.0 - leverage.T)[:, :, None]

    def _heldout(self, parts: list[Any], alphas: Any) -> list[Any]:
        route = self._route(parts)
        self.report["heldout"] = route
        if route == "subtraction":
            return self._heldout_by_subtraction(parts, alphas)
        if route == "block":
            return [self._heldout_by_block(rows, alphas) for rows in parts]
        return [self._heldout_by_itself(rows, alphas) for rows in parts]

    def _route(self, parts: Sequence[Any]) -> Literal["subtraction", "block", "each set"]:
        """How to train without each of the sets: see the module's text."""
        if len(parts) <= _MANY_PARTS and self._in_one_pass(group_rows(self.problem.n, parts)):
            return "subtraction"
        largest = max(len(rows) for rows in parts)
        return "block" if largest <= self.design.size else "each set"

    def _heldout_by_subtraction(self, parts: list[Any], alphas: Any) -> list[Any]:
        """One pass for the statistics of all groups, one for the predictions of all parts and μ."""
        groups, paths, _ = self._paths(parts)
        solutions = [path.coefficients(alphas) for path in paths]
        n_alphas, t = solutions[0][0].shape[0], solutions[0][0].shape[2]
        out = [np.empty((n_alphas, rows.size, t)) for rows in parts]
        owners: list[list[int]] = [[] for _ in range(groups.count)]
        for part in range(len(parts)):
            for group in groups.members[part]:
                owners[group].append(part)
        T = self._fold_T()
        flat = [self._flat(theta, T) for theta, _ in solutions]
        coefficients = [np.hstack([flat[p] for p in own]) if own else None for own in owners]
        for group, rows, values in predict_groups(
            self.design, self.problem.X, coefficients, groups.label
        ):
            for number, part in enumerate(owners[group]):
                width = n_alphas * t
                block = values[:, number * width : (number + 1) * width].reshape(-1, n_alphas, t)
                block = block.transpose(1, 0, 2) + solutions[part][1][:, None, :]
                out[part][:, np.searchsorted(parts[part], rows)] = block
        return out

    def _flat(self, theta: Any, T: Any) -> Any:
        """θ (μ, r, t) in the coordinates of T as coefficients of the features, (m, μ·t)."""
        count, _, t = theta.shape
        return np.matmul(T, theta).transpose(1, 0, 2).reshape(self.design.size, count * t)

    def _heldout_by_block(self, rows: Any, alphas: Any) -> Any:
        """Few rows: e_J = (I − H_JJ)⁻¹ r_J from the model of all rows. O(|J| m r + |μ| |J|³)."""
        path, y, root = self._path(), self.targets_of(rows), self.root_of(rows)
        features = self.design.features(take_rows(self.problem.X, rows)) @ self.coordinates.T
        theta, intercept = path.coefficients(alphas)
        residual = y[None] - np.matmul(features[None], theta) - intercept[:, None, :]
        centred = root[:, None] * path.leverage_features(features)
        out = np.empty_like(residual)
        for i, shrinkage in enumerate(path.shrinkage(alphas)):
            hat = (centred * shrinkage[None, :]) @ centred.T
            if path.fit_intercept:
                hat += np.outer(root, root / path.weight)
            error = np.linalg.solve(np.eye(len(rows)) - hat, root[:, None] * residual[i])
            out[i] = y - error / root[:, None]
        return out

    def _path_without(self, rows: Any) -> RidgePath:
        """Of all rows but these: their own statistics, subtracted from the total. O(|J| m²)."""
        problem = self.problem
        apart = collect(
            self.design, take_rows(problem.X, rows), take_rows(self._Y, rows),
            None if problem.root_weight is None else take_rows(problem.root_weight, rows),
        )[0]  # fmt: skip
        return self._ridge_path((self.total() - apart).rotated(self.coordinates.T))

    def _heldout_by_itself(self, rows: Any, alphas: Any) -> Any:
        theta, intercept = self._path_without(rows).coefficients(alphas)
        out = np.empty((theta.shape[0], len(rows), theta.shape[2]))
        matrix = self._flat(theta, self.coordinates.T)
        block = take_rows(self.problem.X, rows)
        for _, part, values in predict_groups(self.design, block, [matrix]):
            found = values.reshape(-1, theta.shape[0], theta.shape[2]).transpose(1, 0, 2)
            out[:, part] = found + intercept[:, None, :]
        return out

    def _squared_error(self, left_out: Sequence[Any], tests: Sequence[Any], alphas: Any) -> Any | None:
        apart = any(len(rows) != len(test) for rows, test in zip(left_out, tests))
        extra = tests if apart else ()
        groups = group_rows(self.problem.n, [*left_out, *extra])
        if not self._in_one_pass(groups) or len(tests) > _MANY_PARTS:
            return None
        groups, paths, white = self._paths(left_out, extra)
        scores = np.empty((np.size(alphas), len(tests)))
        for split, path in enumerate(paths):
            members = groups.members[len(tests) + split if apart else split]
            here = white[members[0]]
            for group in members[1:]:
                here = here + white[group]
            error = squared_error(here, *path.coefficients(alphas))
            if np.any(error < _LEAST_SHARE * here.target_square[None]):
                return None
            scores[:, split] = error.mean(axis=1) / here.weight
        return scores

    # -- the models themselves -------------------------------------------------------------------

    def solve(self, alphas: Any) -> Solution:
        with limit_blas(1):
            theta, intercept = self._path().coefficients(alphas)
            return landmark_coefficients(self.coordinates, theta), intercept

    def solve_without(self, parts: Sequence[Any], alphas: Any) -> list[Solution]:
        with limit_blas(1):
            vectors, paths = None, list[FoldModel]()
            if self._route(parts) == "subtraction":
                paths, vectors = self._paths(parts)[1], self._path().vectors
            else:
                paths = [self._path_without(rows) for rows in parts]
            found = [path.coefficients(alphas) for path in paths]
            return [(landmark_coefficients(self.coordinates, theta, vectors), b) for theta, b in found]


def _begins_with(known: Sequence[Any], asked: Sequence[Any]) -> bool:
    return len(known) >= len(asked) and all(np.array_equal(a, b) for a, b in zip(known, asked))
