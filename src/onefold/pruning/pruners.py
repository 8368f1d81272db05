r"""From many centres to few, with held-out predictions of every size (cawley2002).

Drop the centres with the smallest |β| and keep every residual in the loss; the ridge is that of a *mean*
squared error, so that nothing is tuned again.

In cross-validation each training part is pruned on its own: no held-out target has a say in which of
its centres stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.approximations import Problem
from onefold.approximations.footprint import holds_groups
from onefold.expansions import Expansion
from onefold.heldout import Splits
from onefold.kernels import Kernel
from onefold.landmarks import Basis
from onefold.linalg import is_sparse, like, take_rows, to_numpy
from onefold.machine.threads import limit_blas
from onefold.rows import Groups, group_rows, rows_of
from onefold.statistics import Design, Statistics, collect, predict_groups
from onefold.statistics.pruning import PruningPath, prune


def distinct_rows(X: Any) -> tuple[Any, Any]:
    """The first row of each kind, in order, and for every row the position of its kind."""
    # Sparse rows: equal ones have equal products with a vector, others differ almost surely.
    keys = X @ np.random.default_rng(0).random((X.shape[1], 2)) if is_sparse(X) else to_numpy(X)
    _, first, kind = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return first[order], place[kind.reshape(-1)]


@dataclass(frozen=True)
class Pruner:
    """Statistics once, per group of rows; every size and every fold is a slice of them.

    `alpha` is the ridge for all rows; a training part with a share p of their weight uses p · alpha.
    `centre_of` gives for each row the centre that it equals, where every row equals one.
    """

    problem: Problem
    kernel: Kernel
    basis: Basis
    alpha: float
    centre_of: Any | None = None

    def _design(self) -> Design:
        return Design(self.kernel, self.basis.rows)

    def _collect(self, groups: Groups | None = None) -> list[Any]:
        found = collect(self._design(), self.problem.source, groups)
        return [statistics.on_host() for statistics in found]

    def _prune(self, statistics: Any, W: Any, share: float, sizes: list[int]) -> PruningPath:
        sizes = [min(size, W.shape[0]) for size in sizes]
        with limit_blas(1):
            return prune(
                statistics, W, self.alpha * share, sizes, fit_intercept=self.problem.fit_intercept
            )

    def expansions(self, sizes: list[int]) -> list[Expansion]:
        """The model on all rows at each size."""
        path = self._prune(self._collect()[0], to_numpy(self._design().inner()), 1.0, sizes)
        X = self.problem.X
        return [
            Expansion(self.kernel, take_rows(self.basis.rows, index), like(coef, X), like(intercept, X))
            for index, coef, intercept in zip(path.centres, path.coef, path.intercept)
        ]

    def most_centres(self, splits: Splits) -> int:
        """The held-out predictions of sizes from this one on are those of models that kept all."""
        return min(len(self._candidates(rows)) for rows in splits.left_out)

    def heldout(self, splits: Splits, sizes: list[int]) -> list[Any]:
        """For each split the predictions (sizes, rows, targets) of its test rows.

        O(n m²) for the statistics, 2.3 m³ for each fold's path, O(n m · sizes) to predict.
        """
        W, found = to_numpy(self._design().inner()), []
        parts = zip(self._trained_on(splits), splits.left_out, splits.tests)
        for (rest, share), left_out, test in parts:
            candidates = self._candidates(left_out)
            part = W[np.ix_(candidates, candidates)]
            path = self._prune(rest.select(candidates), part, share, sizes)
            found.append(self._predict(path, take_rows(self.basis.rows, candidates), test))
        return found

    def _trained_on(self, splits: Splits) -> Iterator[tuple[Statistics, float]]:
        """Statistics of each training part, and its share of the weight.

        In one pass over the rows; in one for each split where they overlap so that their groups are
        many.
        """
        groups = self.problem.source.grouped_by(splits.left_out)
        together = holds_groups(groups.count, self.basis.size)
        alone = (group_rows(self.problem.n, [rows]) for rows in splits.left_out)
        for these in [groups] if together else alone:
            pieces = self._collect(these)
            total = Statistics.total(pieces)
            for members in these.members[: len(splits.left_out)]:  # of what else was grouped, nothing
                rest = total
                for group in members:
                    rest = rest - pieces[group]
                yield rest, rest.weight / total.weight

    def _candidates(self, left_out: Any) -> Any:
        """The centres that a training part may use: none that only held-out rows equal."""
        if self.centre_of is not None:
            return np.unique(np.delete(self.centre_of, left_out))
        if self.basis.index is None:
            return np.arange(self.basis.size)
        return np.flatnonzero(~np.isin(self.basis.index, left_out))

    def _predict(self, path: PruningPath, centres: Any, test: Any) -> Any:
        design, t = Design(self.kernel, centres), self.problem.Y.shape[1]
        coefficients = path.dense_coefficients(design.size)
        out = np.empty((len(path.centres), len(test), t))
        rows = take_rows(self.problem.X, test)
        for _, part, values in predict_groups(design, rows_of(rows), [like(coefficients, rows)]):
            block = to_numpy(values).reshape(values.shape[0], -1, t).transpose(1, 0, 2)
            out[:, part] = block + path.intercept[:, None, :]
        return out
