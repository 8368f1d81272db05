r"""Conformal intervals from held-out residuals: CV+, plain or normalised.

With f_s the model of split s, r_i = y_i − f_{s(i)}(x_i) the residual of a row that it was not trained
on, R_i = |r_i|, and N residuals in all, the bounds at x for coverage 1 − a are

    lower = the ⌊a(N+1)⌋-th smallest of f_{s(i)}(x) − R_i
    upper = the ⌈(1−a)(N+1)⌉-th smallest of f_{s(i)}(x) + R_i

and infinite where there is no such rank. The two ranks add up to N + 1, so that the lower bound is minus
the upper one of −f. Splits of one row each make this jackknife+, a single split split conformal.
Normalised, R_i becomes σ_{s(i)}(x) · R_i / σ_{s(i)}(x_i). Where there are no models f_s for new rows,
the final model takes their place at x. That is not CV+, and has the name "cv".

*Order statistics.* The elements at a row are k sorted lists, list j shifted by p_j = f_j(x) and
stretched by σ_j(x) > 0, which leaves it sorted, in floating point too. Let v be the element of the
wanted rank before that. In every list as many elements lie below p_j + σ_j v now as lay below v: so the
element of this rank lies between the least and the largest of the k numbers p_j + σ_j v. Only elements
between these are computed and partitioned: few where the fold models agree, N at most, for one row at a
time. The result is one of the elements, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from onefold.machine.threads import cached_property, spans
from onefold.machine.warning import warn_user

# How intervals are made.
METHODS = ("cv+", "jackknife+", "normalised")

# What users may choose: "auto" is "cv+" or "normalised", whichever the held-out rows show to be right.
CHOICES = (*METHODS, "auto")

# Held-out residuals around the final model, where there are no models of the folds for new rows.
WITHOUT_FOLD_MODELS = "cv"

# Largest residual: sums of some are still within the range of float64.
_LARGEST = 1e300

# Elements of a list on average, up to which all elements are partitioned: a search costs as much.
_SHORT = 2

# Rows × lists whose elements are counted together: 8 MiB for each of a few arrays.
_AT_ONCE = 2**20

# Relative error of p + σ v and of its way back to v: a few roundings each, with a margin.
_ROUNDING = 16 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class _SortedScores:
    """Scores r / σ, sorted within each fold."""

    signed: Any  # (N, targets)
    sizes: Any  # (N, targets): of their absolute values
    starts: Any  # (folds + 1,): where the scores of each fold start, and where the last ones end


def check_intervals(method: Any) -> None:
    """Raise for an unknown method of intervals."""
    if not isinstance(method, str) or method not in CHOICES:
        names = ", ".join(f'"{name}"' for name in CHOICES)
        raise ValueError(f"intervals must be None or one of {names}; got {method!r:.60}.")


@dataclass(frozen=True)
class ConformalIntervals:
    """What turns the fold models' predictions at new rows into bounds and quantiles."""

    method: str  # one of METHODS, or WITHOUT_FOLD_MODELS
    residuals: Any  # r_i (N, targets), one for every row and split that tested it
    fold: Any  # int (N,): the fold model that each comes from
    count: int  # of fold models
    spread: Any = None  # σ_{s(i)}(x_i) > 0 (N, targets) of normalised ones; None stands for 1 everywhere

    def __post_init__(self) -> None:
        residuals = self.residuals
        fold = self.fold
        spread = self.spread
        methods = (*METHODS, WITHOUT_FOLD_MODELS)
        if self.method not in methods or (spread is None) != (self.method != "normalised"):
            raise ValueError(
                f"the method of intervals must be one of {methods}, with a spread if normalised and "
                f"without one otherwise; got {self.method!r:.40}."
            )
        if not _is_table(residuals) or not residuals.size:
            raise ValueError(
                "residuals must be a non-empty array (rows, targets) of finite float64 numbers."
            )
        if type(fold) is not np.ndarray or fold.dtype.kind != "i" or fold.shape != residuals.shape[:1]:
            raise ValueError(
                f"fold must contain a whole number for each of the {len(residuals)} residuals."
            )
        if type(self.count) is not int or fold.min() < 0 or fold.max() >= self.count:
            raise ValueError(
                f"the fold numbers of residuals must be below the number of folds, {self.count!r:.40}."
            )
        same_shape = spread is None or (_is_table(spread) and spread.shape == residuals.shape)
        if not same_shape or (spread is not None and not np.all(spread > 0)):
            raise ValueError("spread must contain a finite number greater than 0 for every residual.")

    def __repr__(self) -> str:
        size = f"residuals={len(self.residuals)}, folds={self.count}, targets={self.n_targets}"
        return f"ConformalIntervals({self.method!r}, {size})"

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return int(self.residuals.shape[1])

    @cached_property
    def _sorted(self) -> _SortedScores:
        scores = self.residuals if self.spread is None else self.residuals / self.spread
        signed = np.empty_like(scores)
        sizes = np.empty_like(scores)
        for t, column in enumerate(scores.T):
            signed[:, t] = column[np.lexsort((column, self.fold))]
            sizes[:, t] = np.abs(column[np.lexsort((np.abs(column), self.fold))])
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.fold, minlength=self.count))])
        return _SortedScores(signed, sizes, starts)

    def bounds(self, predictions: Any, coverage: float, spread: Any | None = None) -> Any:
        """Lower and upper bounds (rows, targets, 2), wider for a larger coverage 1 − a.

        `predictions`, and σ where normalised, are (rows, count, targets). For a coverage below ½ the two
        elements may lie the other way round, where fold models differ by more than the residuals: there
        the middle of the interval for ½ is always inside.
        """
        rank = upper_rank(coverage, len(self.residuals))
        sizes = self._sorted.sizes
        lower = -self._elements(sizes, rank, -predictions, spread)
        upper = self._elements(sizes, rank, predictions, spread)
        if coverage < 0.5:
            middle = self.bounds(predictions, 0.5, spread).mean(axis=2)
            lower = np.minimum(lower, middle)
            upper = np.maximum(upper, middle)
        return np.stack([lower, upper], axis=2)

    def quantiles(self, predictions: Any, quantiles: Sequence[float], spread: Any | None = None) -> Any:
        """Order statistics of f_{s(i)}(x) + r_i, (rows, targets, quantiles); they rise with q."""
        ranks = quantile_ranks(quantiles, len(self.residuals))
        signed = self._sorted.signed
        return np.stack([self._elements(signed, r, predictions, spread) for r in ranks], axis=2)

    def _elements(self, scores: Any, rank: int, predictions: Any, spread: Any | None) -> Any:
        """The element of a rank (rows, targets), infinite where there is no such rank."""
        elements = np.full((len(predictions), self.n_targets), np.inf if rank > 0 else -np.inf)
        if 1 <= rank <= len(self.residuals):
            starts = self._sorted.starts
            for t in range(self.n_targets):
                stretch = None if spread is None else spread[:, :, t]
                elements[:, t] = smallest(scores[:, t], starts, rank, predictions[:, :, t], stretch)
        return elements

    def warn_if_too_few(self, shares: Sequence[float]) -> None:
        """Warn once where some of these shares of the distribution have no rank."""
        ranks = quantile_ranks(shares, len(self.residuals))
        if all(1 <= rank <= len(self.residuals) for rank in ranks):
            return
        farthest = min(min(share, 1.0 - share) for share in shares)
        warn_user(
            f"the bounds are infinite, because {len(self.residuals)} held-out residuals are too few; "
            f"use at least {int(np.ceil(1.0 / farthest - 1e-9)) - 1} rows, or a smaller coverage."
        )


def _is_table(values: Any) -> bool:
    """Whether it is an array of two axes with numbers of a size that sums can bear."""
    is_array = type(values) is np.ndarray and values.ndim == 2 and values.dtype == np.float64
    return is_array and bool(np.all(np.abs(values) <= _LARGEST))


def smallest(values: Any, starts: Any, rank: int, shift: Any, stretch: Any | None = None) -> Any:
    """The element of a rank, 1 … N, of {shift_j + stretch_j s : s in list j} at every row.

    List j is ``values[starts[j] : starts[j + 1]]``, sorted; it may be empty. Shift and stretch are
    (rows, k), and no stretch stands for 1.
    """
    values = np.ascontiguousarray(values)
    lists = np.arange(shift.shape[1])
    stretch = np.broadcast_to(1.0, shift.shape) if stretch is None else stretch
    pivot = np.partition(values, rank - 1)[rank - 1]
    elements = []
    for span in spans(len(shift), max(1, _AT_ONCE // lists.size)):
        p = shift[span]
        scale = stretch[span]
        low = np.broadcast_to(starts[:-1], p.shape)
        high = np.broadcast_to(starts[1:], p.shape)
        if values.size > _SHORT * lists.size:
            low, high = _between(values, starts, pivot, p, scale)
        sizes = high - low
        place = rank - 1 - (low - starts[:-1]).sum(axis=1)
        first = low - (np.cumsum(sizes, axis=1) - sizes)
        for row in range(len(p)):
            list_of = np.repeat(lists, sizes[row])
            scores = values[np.arange(list_of.size) + first[row][list_of]]
            candidates = p[row][list_of] + scale[row][list_of] * scores
            elements.append(np.partition(candidates, place[row])[place[row]])
    return np.array(elements)


def _between(values: Any, starts: Any, pivot: float, shift: Any, stretch: Any) -> tuple[Any, Any]:
    """Places (rows, k) in every list between which the pivot's rank is found after the shift."""
    moved = shift + stretch * pivot
    # Wide enough for the rounding of every element and of its way back to the list.
    margin = _ROUNDING * (np.abs(shift) + np.abs(moved)).max(axis=1)
    with np.errstate(over="ignore"):
        least = ((moved.min(axis=1) - margin)[:, None] - shift) / stretch
        most = ((moved.max(axis=1) + margin)[:, None] - shift) / stretch
    low = np.empty(shift.shape, np.intp)
    high = np.empty(shift.shape, np.intp)
    for j, (start, stop) in enumerate(pairwise(starts)):
        low[:, j] = start + np.searchsorted(values[start:stop], least[:, j], "left")
        high[:, j] = start + np.searchsorted(values[start:stop], most[:, j], "right")
    return low, high


def upper_rank(share: float, count: int) -> int:
    """⌈share · (count + 1)⌉, 1 at least; a product that is whole up to rounding counts as whole."""
    product = share * (count + 1)
    nearest = max(1, round(product))
    return int(nearest) if abs(product - nearest) <= 1e-9 * max(1.0, product) else int(np.ceil(product))


def quantile_ranks(shares: Sequence[float], count: int) -> list[int]:
    """⌈q(N + 1)⌉ from the median upwards, ⌊q(N + 1)⌋ below; 0 and N + 1 where there is no such rank."""
    return [upper_rank(q, count) if q >= 0.5 else count + 1 - upper_rank(1 - q, count) for q in shares]
