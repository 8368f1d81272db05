r"""The r-th smallest of {p_j + σ_j s : j = 1 … k, s in list j}, for many rows at once.

The k lists are sorted once; a row shifts list j by its p_j and stretches it by its σ_j > 0, which
leaves the list sorted, in floating point too. So the r-th smallest of their union is found by bisection
on places in the lists, and no array of rows × (all elements) is ever made. The result is one of the
elements, to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import get_config

from onefold.machine.threads import spans

_FEW = 4  # elements a list on average, below which all elements of a row are laid side by side
_AT_ONCE = 2**18  # places that are bisected at a time
_BESIDE = 8  # arrays of that many places
_ROUNDINGS = 16 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class SortedLists:
    """Sorted lists of finite numbers, one after the other.

    Attributes
    ----------
    values : array (N,)
    starts : int array (k + 1,)
        List j is ``values[starts[j] : starts[j + 1]]``; it may be empty.
    """

    values: Any
    starts: Any

    @classmethod
    def of(cls, values: Any, list_of: Any, count: int) -> SortedLists:
        """From numbers in any order and the list that each belongs to. O(N log N)."""
        order = np.lexsort((values, list_of))
        sizes = np.bincount(list_of, minlength=count)
        return cls(np.asarray(values, dtype=np.float64)[order], np.concatenate([[0], np.cumsum(sizes)]))

    @property
    def count(self) -> int:
        """Number of lists."""
        return len(self.starts) - 1

    def smallest(self, rank: int, shift: Any, stretch: Any | None = None) -> Any:
        """The element of the given rank, 1 … N, for shifts p and stretches σ of shape (rows, k).

        O(rows · k · log² N) time and O(rows · k) memory at worst; where the lists have few elements
        each, O(rows · N) time, some rows at a time.
        """
        if not 1 <= rank <= self.values.size:
            raise ValueError(f"rank {rank} is not among 1 to {self.values.size}.")
        rows, few = shift.shape[0], self.values.size <= _FEW * self.count
        width = max(1, self.values.size if few else _BESIDE * self.count)
        scratch = int(get_config()["working_memory"] * 2**20 / (8 * width))
        step = max(1, scratch if few else min(scratch, _AT_ONCE // self.count))
        one = self._by_partition if few else self._by_bisection
        found = np.empty(rows)
        for part in spans(rows, step):
            found[part] = one(rank, shift[part], None if stretch is None else stretch[part])
        return found

    def _by_partition(self, rank: int, shift: Any, stretch: Any | None) -> Any:
        """All elements of every row side by side."""
        list_of = np.repeat(np.arange(self.count), np.diff(self.starts))
        elements = self.values[None, :] if stretch is None else stretch[:, list_of] * self.values
        return np.partition(shift[:, list_of] + elements, rank - 1, axis=1)[:, rank - 1]

    def _by_bisection(self, rank: int, shift: Any, stretch: Any | None) -> Any:
        """Places low ≤ i < high of every list stay in question; a pivot among them narrows all."""
        rows = np.arange(shift.shape[0])
        low, high = self._in_question(rank, _Shifted(self.values, shift, stretch))
        found, active = np.empty(rows.size), rows
        while active.size:
            stretched = None if stretch is None else stretch[active]
            here = _Shifted(self.values, shift[active], stretched)
            a, b = low[active], high[active]
            widest = np.argmax(b - a, axis=1)[:, None]
            middle = np.take_along_axis((a + b) // 2, widest, axis=1)
            pivot = here.at(middle, widest)
            below = here.first(a, b, pivot, beyond=False)
            upto = here.first(below, b, pivot, beyond=True)
            before = below.sum(axis=1) - self.starts[:-1].sum()  # elements of smaller value
            through = upto.sum(axis=1) - self.starts[:-1].sum()  # and those of the same
            less, more = before >= rank, through < rank
            high[active[less]], low[active[more]] = below[less], upto[more]
            done = ~(less | more)
            found[active[done]] = pivot[done, 0]
            active = active[~done]
        return found

    def _in_question(self, rank: int, here: _Shifted) -> tuple[Any, Any]:
        """Places (rows, k) in every list between which the element of this rank lies.

        With s the element of the same rank before lists are shifted, it is neither smaller than all
        p_j + σ_j s nor greater than all of them: few are in question where lists are shifted alike.
        """
        value = np.partition(self.values, rank - 1)[rank - 1]
        middle = here.of(value)
        # Wide enough for the rounding of every element and of its way back to the list.
        margin = _ROUNDINGS * (np.abs(here.shift) + np.abs(middle)).max(axis=1)
        least, most = middle.min(axis=1) - margin, middle.max(axis=1) + margin
        low, high = np.empty(middle.shape, np.intp), np.empty(middle.shape, np.intp)
        for j, (first, last) in enumerate(zip(*self._ends())):
            own = self.values[first:last]
            low[:, j] = first + np.searchsorted(own, here.back(least, j), "left")
            high[:, j] = first + np.searchsorted(own, here.back(most, j), "right")
        return low, high

    def _ends(self) -> tuple[Any, Any]:
        return self.starts[:-1], self.starts[1:]


@dataclass(frozen=True)
class _Shifted:
    """The elements p_j + σ_j s of some rows, which are computed where they are looked at."""

    values: Any
    shift: Any
    stretch: Any | None

    def of(self, value: float) -> Any:
        """What a value would become in each list (rows, k)."""
        return self.shift + (value if self.stretch is None else self.stretch * value)

    def back(self, element: Any, j: int) -> Any:
        """What became an element (rows,) of list j, to rounding."""
        with np.errstate(over="ignore"):
            away = element - self.shift[:, j]
            return away if self.stretch is None else away / self.stretch[:, j]

    def at(self, places: Any, lists: Any | None = None) -> Any:
        """The elements at these places (rows, …) of the lists in question; of all lists in order."""
        shift, stretch = self.shift, self.stretch
        if lists is not None:
            shift = np.take_along_axis(shift, lists, axis=1)
            stretch = None if stretch is None else np.take_along_axis(stretch, lists, axis=1)
        value = self.values[np.minimum(places, self.values.size - 1)]
        return shift + (value if stretch is None else stretch * value)

    def first(self, low: Any, high: Any, pivot: Any, *, beyond: bool) -> Any:
        """The first place from low to high whose element is at least, or `beyond`, the pivot."""
        low, high = low.copy(), high.copy()
        while np.any(low < high):
            middle = (low + high) // 2
            element = self.at(middle)
            left = (element <= pivot if beyond else element < pivot) & (low < high)
            low = np.where(left, middle + 1, low)
            high = np.where(left | (low >= high), high, middle)
        return low


def upper_rank(share: float, count: int) -> int:
    """⌈share · (count + 1)⌉, 1 at least; a product that is whole but for rounding counts as whole."""
    product = share * (count + 1)
    nearest = max(1, round(product))
    return int(nearest) if abs(product - nearest) <= 1e-9 * max(1.0, product) else int(np.ceil(product))


def quantile_ranks(quantiles: Sequence[float], count: int) -> list[int]:
    """⌈q(N + 1)⌉ from the median upwards, ⌊q(N + 1)⌋ below; 0 and N + 1 where there is no such rank."""
    return [
        upper_rank(q, count) if q >= 0.5 else count + 1 - upper_rank(1.0 - q, count) for q in quantiles
    ]
