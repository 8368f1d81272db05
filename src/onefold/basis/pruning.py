r"""Pruning a basis model from many centres to few (cawley2002), on statistics that are sliced.

All residuals stay in the loss. At each size the system

    B β = c_S,   B = A_SS + μ W_SS        (A and c centred where there is an intercept)

is solved on the remaining centres S, and the least of them are dropped, by one of two rules:

    price           β_j² / (B⁻¹)_jj    what the minimum of the objective rises by where centre j alone
                                       goes and all others are fitted again, summed over targets
    coefficients    ‖β_j‖              the row of centre j, over the targets: the rule of cawley2002

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
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.linalg

from onefold.basis.landmarks import Basis
from onefold.basis.ridge import Centred, predictions_of
from onefold.basis.statistics import Design, Statistics, collect, features_of, holds_groups
from onefold.kernels import Kernel
from onefold.linalg import Array, HostArray, Index, asarray_like, host_array, is_sparse, take_rows
from onefold.linalg.dense import invert_lower
from onefold.machine.threads import cached_property, limit_blas
from onefold.rows import Groups, Rows, group_rows
from onefold.smoothers.base import UnsolvableError

Parts: TypeAlias = Sequence[Index]  # sets of rows, by their numbers
Rule: TypeAlias = Literal["price", "coefficients"]  # by which the centres to drop are chosen
_JITTER = 1e-11  # of the mean diagonal: picks the smallest β where centres are redundant
_ATTEMPTS = 6  # to make up for rounding by a larger shift: the last one is a tenth of the diagonal


def prune_sizes(start: int, stop: int, drop: float) -> list[int]:
    """Sizes from `start` to `stop`, each the one before less the fraction `drop`, at least one."""
    sizes = [start]
    while sizes[-1] > stop:
        sizes.append(max(stop, sizes[-1] - max(1, round(drop * sizes[-1]))))
    return sizes


def distinct_rows(X: Array) -> tuple[Index, Index]:
    """The first row of each kind, in order, and for every row the position of its kind."""
    # Sparse rows: equal ones have equal products with a vector, others differ almost surely.
    keys = X @ np.random.default_rng(0).random((X.shape[1], 2)) if is_sparse(X) else host_array(X)
    _, first, kind = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return first[order], place[kind.reshape(-1)]


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
    about = Centred(replace(statistics, gram=statistics.gram + mu * W), fit_intercept)
    gram = about.gram()
    cross = about.cross
    index = np.arange(W.shape[0])
    solved = None
    path = PruningPath([], [], np.empty((len(sizes), cross.shape[1])))
    for step, size in enumerate(sizes):
        if size < index.size:
            if solved is None:  # also of the sizes that nobody asked for
                solved = _solve(gram, cross)
            strength = _root_prices(*solved) if rule == "price" else np.linalg.norm(solved[0], axis=1)
            keep = _strongest(strength, size)
            # Slicing the slice keeps the cost of copying at that of the remaining matrix.
            index = index[keep]
            gram = gram[np.ix_(keep, keep)]
            cross = cross[keep]
        solved = beta, _ = _solve(gram, cross)
        path.centres.append(index)
        path.coef.append(beta)
        path.intercept[step] = about.mean_target - about.mean_feature[index] @ beta
    return path


def _root_prices(beta: HostArray, factor: HostArray) -> HostArray:
    """Square roots of the prices of all centres, from β and the factor of B, which is overwritten."""
    scale = np.diagonal(factor).max()
    size = np.abs(beta).max(initial=0.0) or 1.0
    factor /= scale  # squares of what follows neither overflow nor vanish
    norms = np.linalg.norm(invert_lower(factor), axis=0)
    return np.linalg.norm(beta / size, axis=1) / norms * (scale * size)


def _strongest(strength: HostArray, size: int) -> Index:
    """Positions of the `size` largest, in order; equal to nine digits counts as equal, the last stay."""
    largest = strength.max(initial=0.0)
    rounded = np.round(strength / largest, 9) if largest > 0 else strength
    return np.sort(np.argsort(rounded, kind="stable")[strength.size - size :])


def _solve(matrix: Any, rhs: Array) -> tuple[HostArray, HostArray]:
    """(M + tiny) x = rhs for a positive semi-definite M, and the factor; rounding may ask for more."""
    shift = _JITTER * max(float(np.trace(matrix)) / matrix.shape[0], np.finfo(float).tiny)
    for _ in range(_ATTEMPTS if np.isfinite(shift) else 0):
        shifted = matrix.copy()
        shifted.flat[:: matrix.shape[0] + 1] += shift
        try:
            factor = scipy.linalg.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            shift *= 100.0
            continue
        found = scipy.linalg.cho_solve(factor, rhs, check_finite=False)
        if np.all(np.isfinite(found)):
            return found, factor[0]
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
        intercept = self.fit_intercept
        return prune(statistics, W, self.ridge, sizes, fit_intercept=intercept, rule=self.rule)

    def most_centres(self, left_out: Parts) -> int:
        """The held-out predictions of sizes from this one on are those of models that kept all."""
        return min(len(self._candidates(rows)) for rows in left_out)

    def heldout(self, left_out: Parts, tests: Parts, sizes: list[int]) -> list[HostArray]:
        """Predictions (sizes, rows, targets) of each split. O(n m²), 4.7 m³ per fold, O(n m · sizes)."""
        W = host_array(self._design.inner())
        found = []
        for (rest, share), left, test in zip(self._trained_on(left_out), left_out, tests):
            candidates = self._candidates(left)
            part = W[np.ix_(candidates, candidates)]
            slices = rest.select(candidates)
            mu = self.ridge * share
            intercept = self.fit_intercept
            path = prune(slices, part, mu, sizes, fit_intercept=intercept, rule=self.rule)
            found.append(self._predict(path, take_rows(self.basis.rows, candidates), test))
        return found

    @cached_property
    def _design(self) -> Design:
        return Design(self.kernel, self.basis.rows)

    def _collect(self, groups: Groups | None = None) -> list[Statistics]:
        return [statistics.on_host() for statistics in collect(self._design, self.source, groups)]

    def _trained_on(self, left_out: Parts) -> Iterator[tuple[Statistics, float]]:
        """Statistics of each training part, and its share of the weight: one pass, or one per split."""
        groups = self.source.grouped_by(left_out)
        together = holds_groups(groups.count, self.basis.size)
        alone = (group_rows(self.source.n, [rows]) for rows in left_out)
        for these in [groups] if together else alone:
            pieces = self._collect(these)
            total = Statistics.total(pieces)
            for members in these.members:
                rest = total.less(pieces[group] for group in members)
                yield rest, rest.weight / total.weight

    def _candidates(self, left_out: Index) -> Index:
        """The centres that a training part may use: none that only held-out rows equal."""
        if self.centre_of is not None:
            return np.unique(np.delete(self.centre_of, left_out))
        if self.basis.index is None:
            return np.arange(self.basis.size)
        return np.flatnonzero(~np.isin(self.basis.index, left_out))

    def _predict(self, path: PruningPath, centres: Array, test: Index) -> HostArray:
        """Of all models of a path at once."""
        count, t = path.intercept.shape
        coefficients = np.zeros((int(centres.shape[0]), count, t))
        for step, (index, coef) in enumerate(zip(path.centres, path.coef)):
            coefficients[index, step] = coef
        matrix = asarray_like(coefficients.reshape(-1, count * t), centres)
        found = features_of(Design(self.kernel, centres), self.source.part(test), matrix)
        return predictions_of(found, path.intercept)
