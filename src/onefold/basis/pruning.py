r"""Pruning a basis model from many centres to few (cawley2002), on statistics that are sliced.

All residuals stay in the loss. At each size the system

    B β = c_S,   B = A_SS + μ W_SS        (A and c centred where there is an intercept)           (1)

is solved on the remaining centres S, and the least of them are dropped, by one of two rules:

    price           Σ β_j² / (B⁻¹)_jj    what the minimum of the objective rises by where only centre j
                                         goes and all others are fitted again, summed over targets (2)
    coefficients    ‖β_j‖                the row of centre j, over the targets: the rule of
                                         cawley2002                                               (3)

Where B is nearly singular, neighbouring centres have large coefficients that cancel, and the second rule
keeps them (``docs/studies/sparse.md``). Nothing is collected again: reducing m centres to a few costs a
Cholesky factor of each size s, and its inverse for the prices, Σ 2s³/3 or about 4.7 m³ operations when a
twentieth is dropped each time; without inverses half of that. The ridge is that of a *mean* squared
error, so that nothing is tuned again.

In cross-validation each training part is pruned on its own: held-out targets do not influence which of
its centres stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg

from onefold.basis.coefficients import predictions_of
from onefold.basis.landmarks import Basis
from onefold.basis.ridge import CentredStatistics
from onefold.basis.statistics import Design, Statistics, collect, features_of, holds_groups
from onefold.kernels import Kernel
from onefold.linalg import Array, HostArray, Index, asarray_like, host_array, is_sparse, take_rows
from onefold.linalg.dense import invert_lower
from onefold.machine.threads import cached_property, limit_blas
from onefold.rows import GroupedSplits, Groups, Rows
from onefold.smoothers.base import UnsolvableError

Parts: TypeAlias = Sequence[Index]  # sets of rows, by their numbers
Rule: TypeAlias = Literal["price", "coefficients"]  # by which the centres to drop are chosen

# Of the mean diagonal, added to it: picks the smallest β where centres are redundant.
_JITTER = 1e-11
# Factor by which it grows where rounding leaves no factor.
_JITTER_GROWTH = 100.0
# Attempts with a larger shift each: the last one is a tenth of the diagonal.
_ATTEMPTS = 6
# Decimal digits to which the strengths of two centres are compared.
_STRENGTH_DIGITS = 9


def prune_sizes(start: int, stop: int, drop: float) -> list[int]:
    """Sizes from `start` to `stop`, each the one before less the fraction `drop`, at least one."""
    sizes = [start]
    while sizes[-1] > stop:
        sizes.append(max(stop, sizes[-1] - max(1, round(drop * sizes[-1]))))
    return sizes


def distinct_rows(X: Array) -> tuple[Index, Index]:
    """The first of all rows that are equal, in order, and for every row the position of its equal."""
    # Sparse rows: equal ones have equal products with a vector, others differ almost surely.
    keys = X @ np.random.default_rng(0).random((X.shape[1], 2)) if is_sparse(X) else host_array(X)
    _, first_rows, key_numbers = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first_rows)
    positions = np.empty_like(order)
    positions[order] = np.arange(order.size)
    return first_rows[order], positions[key_numbers.reshape(-1)]


@dataclass(frozen=True)
class PruningPath:
    """The models of one path, from the largest to the smallest."""

    centres: list[Index]  # the centres left at each size, as positions in the first basis
    coef: list[HostArray]  # (size, targets) each
    intercept: HostArray  # (sizes, targets)


@limit_blas(1)
def prune(
    statistics: Statistics,
    W: HostArray,
    mu: float,
    sizes: list[int],
    *,
    fit_intercept: bool,
    rule: Rule = "price",
) -> PruningPath:
    """The models of falling sizes, from statistics of training rows and the kernel W of the centres."""
    ridged = replace(statistics, gram=statistics.gram + mu * W)
    centred = CentredStatistics.of(ridged, fit_intercept=fit_intercept)
    gram = centred.gram()
    cross = centred.cross
    centres = np.arange(W.shape[0])
    solution: _Solution | None = None
    path = PruningPath([], [], np.empty((len(sizes), cross.shape[1])))
    for step, size in enumerate(sizes):
        if size < centres.size:
            if solution is None:  # the first size is smaller than the number of centres
                solution = _solve(gram, cross)
            keep = _strongest(_strengths(solution, rule), size)
            # Slicing the slice keeps the cost of copying at that of the remaining matrix.
            centres = centres[keep]
            gram = gram[np.ix_(keep, keep)]
            cross = cross[keep]
        solution = _solve(gram, cross)
        path.centres.append(centres)
        path.coef.append(solution.beta)
        path.intercept[step] = centred.mean_target - centred.mean_feature[centres] @ solution.beta
    return path


class _Solution(NamedTuple):
    """β of (1), and the lower Cholesky factor of B."""

    beta: HostArray  # (centres, targets)
    factor: HostArray


def _strengths(solution: _Solution, rule: Rule) -> HostArray:
    """What ranks the centres: (3), or the square roots of (2), which overwrite the factor."""
    if rule == "price":
        return _root_prices(*solution)
    return np.linalg.norm(solution.beta, axis=1)


def _root_prices(beta: HostArray, factor: HostArray) -> HostArray:
    """Square roots of (2) for all centres, from β and the factor of B, which is overwritten."""
    scale = np.diagonal(factor).max()
    size = np.abs(beta).max(initial=0.0) or 1.0
    factor /= scale  # squares of what follows neither overflow nor vanish
    norms = np.linalg.norm(invert_lower(factor), axis=0)
    return np.linalg.norm(beta / size, axis=1) / norms * (scale * size)


def _strongest(strength: HostArray, size: int) -> Index:
    """Positions of the `size` largest, in order; equal to nine digits counts as equal, the last stay."""
    largest = strength.max(initial=0.0)
    rounded = np.round(strength / largest, _STRENGTH_DIGITS) if largest > 0 else strength
    return np.sort(np.argsort(rounded, kind="stable")[strength.size - size :])


def _solve(matrix: Any, rhs: Any) -> _Solution:
    """(1) with a small shift of the diagonal, larger if rounding leaves no factor."""
    shift = _JITTER * max(float(np.trace(matrix)) / matrix.shape[0], np.finfo(float).tiny)
    for _ in range(_ATTEMPTS if np.isfinite(shift) else 0):
        shifted = matrix.copy()
        shifted.flat[:: matrix.shape[0] + 1] += shift
        try:
            factor = scipy.linalg.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            shift *= _JITTER_GROWTH
            continue
        beta = scipy.linalg.cho_solve(factor, rhs, check_finite=False)
        if np.all(np.isfinite(beta)):
            return _Solution(beta, factor[0])
        break
    raise UnsolvableError(
        "the coefficients of the centres cannot be computed, because their system is not positive "
        "definite, or not finite; scale the features, or use a larger alpha or another kernel."
    )


@dataclass(frozen=True)
class Pruner:
    """Statistics once, per group of rows; every size and every fold is a slice of them."""

    source: Rows
    kernel: Kernel
    basis: Basis  # the first centres
    ridge: float  # for all rows; a training part with a share p of their weight uses p · ridge
    fit_intercept: bool
    centre_of: Index | None = None  # for each row the centre that it equals, where every row equals one
    rule: Rule = "price"

    def path(self, sizes: list[int]) -> PruningPath:
        """The models on all rows."""
        [statistics] = self._collect()
        W = host_array(self._design.inner())
        return prune(statistics, W, self.ridge, sizes, fit_intercept=self.fit_intercept, rule=self.rule)

    def most_centres(self, left_out: Parts) -> int:
        """The held-out predictions of sizes from this one on are those of models that kept all."""
        return min(len(self._candidates(rows)) for rows in left_out)

    def heldout(self, left_out: Parts, tests: Parts, sizes: list[int]) -> list[HostArray]:
        """Predictions (sizes, rows, targets) of each split. O(n m²), 4.7 m³ per fold, O(n m · sizes)."""
        W = host_array(self._design.inner())
        predictions = []
        for (training, share), rows, test in zip(self._trained_on(left_out), left_out, tests):
            candidates = self._candidates(rows)
            path = prune(
                training.select(candidates),
                W[np.ix_(candidates, candidates)],
                self.ridge * share,
                sizes,
                fit_intercept=self.fit_intercept,
                rule=self.rule,
            )
            predictions.append(self._predict(path, take_rows(self.basis.rows, candidates), test))
        return predictions

    @cached_property
    def _design(self) -> Design:
        return Design(self.kernel, self.basis.rows)

    def _collect(self, groups: Groups | None = None) -> list[Statistics]:
        return [statistics.on_host() for statistics in collect(self._design, self.source, groups)]

    def _trained_on(self, left_out: Parts) -> Iterator[tuple[Statistics, float]]:
        """Statistics of each training part, and its share of the weight: one pass, or one per split."""
        all_splits = self.source.grouped_by(left_out)
        one_pass = holds_groups(all_splits.groups.count, self.basis.size)
        each_split = (GroupedSplits.of(self.source.n, [rows]) for rows in left_out)
        for splits in [all_splits] if one_pass else each_split:
            groups = self._collect(splits.groups)
            total = Statistics.total(groups)
            for members in splits.left_out:
                training = total.less(groups[group] for group in members)
                yield training, training.weight / total.weight

    def _candidates(self, left_out: Index) -> Index:
        """The centres that a training part may use: none that only held-out rows equal."""
        if self.centre_of is not None:
            return np.unique(np.delete(self.centre_of, left_out))
        if self.basis.index is None:
            return np.arange(self.basis.size)
        return np.flatnonzero(~np.isin(self.basis.index, left_out))

    def _predict(self, path: PruningPath, centres: Array, test: Index) -> HostArray:
        """Of all models of a path in one pass."""
        n_sizes, n_targets = path.intercept.shape
        coefficients = np.zeros((int(centres.shape[0]), n_sizes, n_targets))
        for step, (index, coef) in enumerate(zip(path.centres, path.coef)):
            coefficients[index, step] = coef
        matrix = asarray_like(coefficients.reshape(-1, n_sizes * n_targets), centres)
        values = features_of(Design(self.kernel, centres), self.source.part(test), matrix)
        return predictions_of(values, path.intercept)
