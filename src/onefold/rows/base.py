r"""The rows of a problem as a source of blocks: what a pass over them needs to know, and nothing more.

A pass is a pure function of a block, mapped over all blocks; results add, or are kept block by block.
They come in the order of the blocks, so that sums have the same digits whatever ran side by side.

Rows that are always trained on, or held out, together form a group: a pass by groups gives the sums from
which every training part is put together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import is_not
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onefold.linalg import Array, Device, HostArray, Index, is_foreign, take_rows, to_numpy
from onefold.machine.threads import Lock, cached_property, map_in_order, spans

TASK_ROWS = 8192  # of one group in a task: the sum of its statistics is then a small part of the work
_BLOCK_BYTES = 64 * 2**20  # of X read at once
_KEPT_GROUPINGS = 2  # with test rows of their own, and without

SomeRows: TypeAlias = Any  # numbers of rows: a slice of consecutive ones, or an integer array


@dataclass(frozen=True)
class Groups:
    """The coarsest partition of the rows of which every set is a union: 2 times 5 folds make 25."""

    label: NDArray[np.integer]  # the group of each row
    members: list[Index]  # for each given set, the groups it consists of
    count: int
    repeats: bool = False  # whether a set names a row twice

    @cached_property
    def sizes(self) -> Index:
        """Number of rows of each group."""
        return np.bincount(self.label, minlength=self.count)

    @cached_property
    def order(self) -> Index | None:
        """Row numbers sorted by group, rows of a group in their own order; None where they are so."""
        if not np.any(self.label[1:] < self.label[:-1]):
            return None
        # Small integers are sorted by counting.
        small = self.label.astype(np.int16) if self.count < 2**15 else self.label
        return np.argsort(small, kind="stable")

    def members_of(self, rows: Index) -> Index | None:
        """The groups that a set of rows consists of; None where it is no union of them."""
        counts = np.bincount(self.label[rows], minlength=self.count)
        members = np.flatnonzero(counts)
        return members if np.array_equal(counts[members], self.sizes[members]) else None


@dataclass(frozen=True, eq=False)
class GroupedSplits:
    """Splits in groups of rows: for each split those that its training part leaves out, and tests."""

    groups: Groups
    left_out: list[Index]
    tests: list[Index]

    @classmethod
    def of(
        cls, n: int, left_out: Sequence[Index], tests: Sequence[Index] | None = None
    ) -> GroupedSplits:
        """In the coarsest groups; without `tests` all rows that are left out are tested."""
        if tests is None:
            groups = group_rows(n, left_out)
            return cls(groups, groups.members, groups.members)
        groups = group_rows(n, [*left_out, *tests])
        return cls(groups, groups.members[: len(left_out)], groups.members[len(left_out) :])


def group_rows(n: int, sets: Sequence[Index]) -> Groups:
    """Group `n` rows by the sets that they belong to. O(n · number of different sets) time at worst."""
    # Sets without copies, and which of them each is: folds test what they leave out.
    distinct: list[Index] = []
    which: list[int] = []
    alike: dict[tuple[int, int], list[int]] = {}  # by size and sum: a hash takes ten times as long
    for rows in sets:
        known = alike.setdefault((len(rows), int(rows.sum())), [])
        same = [i for i in known if distinct[i] is rows or np.array_equal(distinct[i], rows)][:1]
        if not same:
            same = [len(distinct)]
            known += same
            distinct.append(rows)
        which += same
    named = sum(len(rows) for rows in distinct)
    label = np.full(n, len(distinct))
    for group, rows in enumerate(distinct):
        label[rows] = group
    sizes = np.bincount(label, minlength=len(distinct) + 1)
    if n - sizes[-1] == named:  # disjoint sets, the usual folds: nothing to refine
        members = [np.array([i]) for i in range(len(distinct))]
        return Groups(label, [members[i] for i in which], len(distinct) + int(sizes[-1] > 0))
    label[:] = 0
    count = 1
    repeats = False
    for rows in distinct:
        # Each set splits the groups so far in two; renumbering keeps the labels small.
        inside = np.zeros(n, dtype=np.int64)
        inside[rows] = 1
        repeats |= int(np.count_nonzero(inside)) < len(rows)
        label = 2 * label + inside
        there = np.flatnonzero(np.bincount(label, minlength=2 * count))
        renumbered = np.zeros(2 * count, dtype=np.int64)
        renumbered[there] = np.arange(there.size)
        label = renumbered[label]
        count = there.size
    members = [np.flatnonzero(np.bincount(label[rows], minlength=count)) for rows in distinct]
    return Groups(label, [members[i] for i in which], count, repeats)


@dataclass(frozen=True)
class Block:
    """Some rows of one group, where they are to be worked on."""

    group: int
    rows: SomeRows  # their numbers; on a worker of Dask, those in its partition
    X: Any  # an array or CSR matrix (rows, d)
    Y: Any  # an array (rows, targets), or None
    root: Any  # √weights (rows,); None for equal weights


Wanted: TypeAlias = Collection[int] | None  # groups to pass over alone
Most: TypeAlias = int | None  # threads that may call a function at once
Mapped: TypeAlias = Iterator[tuple[int, SomeRows, Any]]  # (group, row numbers, result) of every block


class BlockSum(Protocol):
    """A pure function of a block that may be called where the rows are: on another machine, say.

    Its results add, by + and by +=: arrays, or records of them of which ``a.on_host()`` is a in NumPy.
    Where results are kept block by block (`Rows.map`), it needs no `zero`.
    """

    def __call__(self, block: Block) -> Any: ...

    def placed(self, place: Callable[[Any], Any]) -> Self:
        """The same with its own arrays moved by `place`, to where blocks are worked on."""

    def zero(self, targets: int, reference: Array) -> Any:
        """The sum over no rows, where `reference` is."""


class Rows(ABC):
    """X, Y (n, targets) and √weights, wherever they are; `device` is where others move to by blocks."""

    on_device = False  # whether blocks are worked on, and their results lie, elsewhere than on the host

    def __init__(self, X: Any, Y: Any | None, root: Any | None, device: Device = None) -> None:
        self.n = int(X.shape[0])
        self.targets = 0 if Y is None else int(Y.shape[1])
        self._arrays = (X, Y, root)
        self._device = device
        self._groupings: list[tuple[list[Index], GroupedSplits]] = []  # the last ones, by their sets
        self._lock = Lock()

    def grouped_by(
        self, left_out: Sequence[Index], tests: Sequence[Index] | None = None
    ) -> GroupedSplits:
        """The groups of rows that these splits always move together.

        The same record for the same arrays, as long as they are among the last that were asked about;
        without `tests` all rows that are left out are tested.
        """
        if tests is not None and not any(map(is_not, left_out, tests)):
            tests = None
        sets = [*left_out, *([] if tests is None else tests)]
        with self._lock:
            for arrays, splits in self._groupings:
                if len(splits.left_out) == len(left_out) and _are_the_same(arrays, sets):
                    return splits
            splits = GroupedSplits.of(self.n, left_out, tests)
            self._groupings = [*self._groupings[1 - _KEPT_GROUPINGS :], (sets, splits)]
            return splits

    @property
    def reference(self) -> Array:
        """An array in the library and on the device where blocks are worked on."""
        return np.empty(0)

    def sample(self, index: Index) -> Array:
        """The rows of X with the given numbers, where blocks are worked on."""
        return take_rows(self._arrays[0], index)

    @abstractmethod
    def map(
        self, function: Any, groups: Groups | None = None, *, wanted: Wanted = None, at_most: Most = None
    ) -> Mapped:
        """Yield (group, row numbers, function(block)) over all rows, each block of one group."""

    def sums(self, function: BlockSum, groups: Groups | None = None, at_most: Most = None) -> list[Any]:
        """Σ function(block) over the rows of each group, added in the order of the rows."""
        count = 1 if groups is None else groups.count
        totals = [function.zero(self.targets, self.reference) for _ in range(count)]
        for group, _, found in self.map(function, groups, at_most=at_most):
            totals[group] += found
        return totals

    def table(self, function: Any, columns: int, at_most: Most = None) -> HostArray:
        """function(block), with so many columns, of all rows, in host memory."""
        out = np.empty((self.n, columns))
        for _, rows, values in self.map(function, at_most=at_most):
            out[rows] = to_numpy(values)
        return out

    def placed(self, X: Array) -> Array:
        """Other rows that blocks are compared with, where these are worked on."""
        return X

    def part(self, index: Index) -> Rows:
        """The source of some of the rows."""
        X, Y, root = (picked(array, index) for array in self._arrays)
        return type(self)(X, Y, root, self._device)


def picked(array: Any, index: Index) -> Any:
    """Rows of an array by numbers in any order."""
    return None if array is None else take_rows(array, index)


def take_part(array: Any, rows: SomeRows) -> Any:
    """Rows of an array by a slice or by sorted numbers: a view where they are consecutive."""
    if array is None:
        return None
    if isinstance(rows, slice):
        return array[rows, ...] if is_foreign(array) else array[rows]
    if is_foreign(array):
        return take_rows(array, rows)
    if rows.size and rows[-1] - rows[0] + 1 == rows.size:
        return array[rows[0] : rows[-1] + 1]
    return array[rows]


def _are_the_same(arrays: Sequence[Index], others: Sequence[Index]) -> bool:
    """Whether two lists hold the same objects."""
    return len(arrays) == len(others) and not any(map(is_not, arrays, others))


class HostRows(Rows):
    """NumPy rows, CSR rows or a mapped file: blocks run on threads."""

    def map(
        self, function: Any, groups: Groups | None = None, *, wanted: Wanted = None, at_most: Most = None
    ) -> Mapped:
        def work(task: tuple[int, SomeRows]) -> tuple[int, SomeRows, Any]:
            arrays = (take_part(array, task[1]) for array in self._arrays)
            return *task, function(Block(*task, *arrays))

        count = 1 if groups is None else groups.count
        columns = max(1, self._arrays[0].shape[1])
        longest = max(1024, min(TASK_ROWS * count, _BLOCK_BYTES // (8 * columns)))
        yield from map_in_order(work, tasks(self.n, groups, longest, wanted), at_most)


def tasks(n: int, groups: Groups | None, longest: int, wanted: Wanted) -> Iterator[tuple[int, SomeRows]]:
    """(group, rows) pairs, block after block, so that rows are read from front to back once."""
    for part in spans(n, longest):
        if groups is None:
            yield 0, part
            continue
        here = groups.label[part]
        for group in np.flatnonzero(np.bincount(here)):
            if wanted is None or group in wanted:
                rows = part.start + np.flatnonzero(here == group)
                for run in spans(rows.size, 2 * TASK_ROWS):
                    yield int(group), rows[run]
