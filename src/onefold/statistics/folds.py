r"""The models trained without each of several sets of rows, from the statistics of groups of rows.

NumPy's are solved near the model of all rows, in its eigenvectors (:mod:`nearby`), or by an
eigendecomposition of their own where they are not near; those of other libraries, which mostly lie
on an accelerator, by Cholesky factors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onefold.linalg import Array, is_foreign
from onefold.machine.threads import map_all
from onefold.statistics.base import Statistics
from onefold.statistics.nearby import NearbyPath
from onefold.statistics.ridge import CholeskyPaths, RidgePath, Solution

_ROWS_PER_DIRECTION = 10  # with so many, a model without a fold is near the one of all rows


class FoldModels:
    """θ and b of every training part for any μ, in coordinates of their own.

    Attributes
    ----------
    T : array (features, r)
        From features to the coordinates that θ is in.
    groups : list of Statistics
        Of each group of rows, in those coordinates.
    """

    def __init__(
        self,
        statistics: Sequence[Statistics],
        left_out: Sequence[Any],
        T: Array,
        whole: Callable[[], RidgePath],
        *,
        fit_intercept: bool,
    ) -> None:
        """`left_out` holds the groups that each part is trained without; `whole` is the model of all."""
        by_factors = is_foreign(T)
        self.T = T if by_factors else T @ whole().vectors
        self._factors: CholeskyPaths | None = None
        self.paths: list[RidgePath | NearbyPath] = []
        if by_factors:
            self.groups = [s.rotated(self.T) for s in statistics]
            rest = [_without(Statistics.total(self.groups), self.groups, out) for out in left_out]
            self._factors = CholeskyPaths(rest, fit_intercept=fit_intercept)
            return
        self.groups = map_all(lambda s: s.rotated(self.T), statistics)
        total = Statistics.total(self.groups)

        def train(members: Any) -> RidgePath | NearbyPath:
            part = _without(total, self.groups, members)
            if part.count < _ROWS_PER_DIRECTION * self.T.shape[1]:
                return RidgePath(part, fit_intercept=fit_intercept)
            return NearbyPath(part, whole(), fit_intercept=fit_intercept)

        self.paths = map_all(train, left_out)

    def coefficients(self, alphas: Any) -> list[Solution]:
        """θ (μ, r, targets) and b (μ, targets) of each part."""
        if self._factors is not None:
            return self._factors.coefficients(alphas)
        return [path.coefficients(alphas) for path in self.paths]


def _without(total: Statistics, groups: Sequence[Statistics], members: Any) -> Statistics:
    for group in members:
        total = total - groups[group]
    return total
