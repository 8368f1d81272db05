r"""The rows of a problem as a source of blocks: what a pass over them needs to know, and nothing more.

A pass is a pure function of a block, mapped over all blocks; its results are added, or kept block by
block. They come in the order of the blocks, so that sums have the same digits for any number of threads.

Rows that are in the same training and test sets of every split form a group: a pass by groups gives the
sums from which those of every training part are put together.
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

# Rows of one group in a task: adding up the statistics of tasks is then a small part of the work.
TASK_ROWS = 8192
# Bytes of X that are read at a time.
_BLOCK_BYTES = 64 * 2**20
# Rows that are read at a time at least, however wide they are.
_FEWEST_ROWS = 1024
# Groupings of a source that are kept: one by training parts only, one by test sets, too.
_KEPT_GROUPINGS = 2

RowIndex: TypeAlias = Any  # numbers of rows: a slice of consecutive ones, or an integer array


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
        """Row numbers sorted by group, ascending within a group; None if the rows are so already."""
        if not np.any(self.label[1:] < self.label[:-1]):
            return None
        # Small integers are sorted by counting.
        small = self.label.astype(np.int16) if self.count < 2**15 else self.label
        return np.argsort(small, kind="stable")

    def members_of(self, rows: Index) -> Index | None:
        """The groups that a set of rows consists of; None if the set is not a union of groups."""
        counts = np.bincount(self.label[rows], minlength=self.count)
        members = np.flatnonzero(counts)
        return members if np.array_equal(counts[members], self.sizes[members]) else None


@dataclass(frozen=True, eq=False)
class GroupedSplits:
    """Splits in groups of rows."""

    groups: Groups
    left_out: list[Index]  # for each split, the groups that its training part leaves out
    tests: list[Index]  # for each split, the groups that it tests

    @classmethod
    def of(
        cls, n: int, left_out: Sequence[Index], tests: Sequence[Index] | None = None
    ) -> GroupedSplits:
        """The splits in the coarsest groups; without `tests`, all rows that are left out are tested."""
        if tests is None:
            groups = group_rows(n, left_out)
            return cls(groups, groups.members, groups.members)
        groups = group_rows(n, [*left_out, *tests])
        return cls(groups, groups.members[: len(left_out)], groups.members[len(left_out) :])


def group_rows(n: int, sets: Sequence[Index]) -> Groups:
    """Group `n` rows by the sets that they belong to. O(n · number of different sets) time at worst."""
    # The different sets, and for each given set its number among them: folds test what they leave out.
    distinct: list[Index] = []
    which: list[int] = []
    # Their numbers by size and sum of the sets: hashes would take ten times as long.
    by_size_and_sum: dict[tuple[int, int], list[int]] = {}
    for rows in sets:
        candidates = by_size_and_sum.setdefault((len(rows), int(rows.sum())), [])
        same = [i for i in candidates if distinct[i] is rows or np.array_equal(distinct[i], rows)][:1]
        if not same:
            same = [len(distinct)]
            candidates += same
            distinct.append(rows)
        which += same
    rows_in_sets = sum(len(rows) for rows in distinct)
    label = np.full(n, len(distinct))
    for group, rows in enumerate(distinct):
        label[rows] = group
    sizes = np.bincount(label, minlength=len(distinct) + 1)
    if n - sizes[-1] == rows_in_sets:  # disjoint sets, the usual folds: nothing to refine
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
        occupied = np.flatnonzero(np.bincount(label, minlength=2 * count))
        renumbered = np.zeros(2 * count, dtype=np.int64)
        renumbered[occupied] = np.arange(occupied.size)
        label = renumbered[label]
        count = occupied.size
    members = [np.flatnonzero(np.bincount(label[rows], minlength=count)) for rows in distinct]
    return Groups(label, [members[i] for i in which], count, repeats)


@dataclass(frozen=True)
class Block:
    """Rows of one group, in the memory in which they are to be worked on."""

    group: int
    rows: RowIndex  # their numbers; on a worker of Dask, those within its partition
    X: Any  # an array or CSR matrix (rows, d)
    Y: Any  # an array (rows, targets), or None
    root: Any  # √weights (rows,); None for equal weights


GroupNumbers: TypeAlias = Collection[int] | None  # the groups that a pass covers; None for all
BlockResults: TypeAlias = Iterator[tuple[int, RowIndex, Any]]  # (group, row numbers, result)


class BlockSum(Protocol):
    """A pure function of a block that may be called where the rows are, perhaps on another machine.

    Its results can be added by + and by +=: arrays, or records of arrays that ``on_host()`` converts to
    NumPy. For `Rows.map`, which keeps the results block by block, it needs no `zero`.
    """

    def __call__(self, block: Block) -> Any: ...

    def placed(self, place: Callable[[Any], Any]) -> Self:
        """The same function with its own arrays moved by `place` to where blocks are worked on."""

    def zero(self, targets: int, reference: Array) -> Any:
        """The sum over no rows, in the library and on the device of `reference`."""


class Rows(ABC):
    """X, Y (n, targets) and √weights, wherever they are.

    `device` is the device that host rows are copied to block by block; None if they stay on the host.
    """

    on_device = False  # whether blocks are worked on, and their results lie, on a device

    def __init__(self, X: Any, Y: Any | None, root: Any | None, device: Device = None) -> None:
        self.n = int(X.shape[0])
        self.targets = 0 if Y is None else int(Y.shape[1])
        self._arrays = (X, Y, root)
        self._device = device
        self._groupings: list[tuple[list[Index], GroupedSplits]] = []  # the latest, with their sets
        self._lock = Lock()

    def grouped_by(
        self, left_out: Sequence[Index], tests: Sequence[Index] | None = None
    ) -> GroupedSplits:
        """These splits in groups of rows; without `tests`, all rows that are left out are tested.

        Splits that are the same arrays as in one of the latest calls give the same record.
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
        self,
        function: Any,
        groups: Groups | None = None,
        *,
        selected: GroupNumbers = None,
        at_most: int | None = None,
    ) -> BlockResults:
        """Yield (group, row numbers, function(block)) over all rows, each block of one group."""

    def sums(
        self, function: BlockSum, groups: Groups | None = None, at_most: int | None = None
    ) -> list[Any]:
        """Σ function(block) over the rows of each group, added in the order of the blocks."""
        count = 1 if groups is None else groups.count
        totals = [function.zero(self.targets, self.reference) for _ in range(count)]
        for group, _, result in self.map(function, groups, at_most=at_most):
            totals[group] += result
        return totals

    def table(self, function: Any, columns: int, at_most: int | None = None) -> HostArray:
        """function(block) of all rows as an array (n, columns) in host memory."""
        out = np.empty((self.n, columns))
        for _, rows, values in self.map(function, at_most=at_most):
            out[rows] = to_numpy(values)
        return out

    def placed(self, X: Array) -> Array:
        """Rows such as landmarks, in the memory in which blocks are worked on."""
        return X

    def part(self, index: Index) -> Rows:
        """The source of the rows with these numbers."""
        X, Y, root = (picked(array, index) for array in self._arrays)
        return type(self)(X, Y, root, self._device)


def picked(array: Any, index: Index) -> Any:
    """Rows of an array by numbers in any order."""
    return None if array is None else take_rows(array, index)


def take_part(array: Any, rows: RowIndex) -> Any:
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


def _are_the_same(arrays: Sequence[Index], sets: Sequence[Index]) -> bool:
    """Whether two lists hold the same objects."""
    return len(arrays) == len(sets) and not any(map(is_not, arrays, sets))


class HostRows(Rows):
    """NumPy rows, CSR rows or a mapped file: blocks run on threads."""

    def map(
        self,
        function: Any,
        groups: Groups | None = None,
        *,
        selected: GroupNumbers = None,
        at_most: int | None = None,
    ) -> BlockResults:
        def work(task: tuple[int, RowIndex]) -> tuple[int, RowIndex, Any]:
            arrays = (take_part(array, task[1]) for array in self._arrays)
            return *task, function(Block(*task, *arrays))

        count = 1 if groups is None else groups.count
        columns = max(1, self._arrays[0].shape[1])
        longest = max(_FEWEST_ROWS, min(TASK_ROWS * count, _BLOCK_BYTES // (8 * columns)))
        yield from map_in_order(work, tasks(self.n, groups, longest, selected), at_most)


def tasks(
    n: int, groups: Groups | None, longest: int, selected: GroupNumbers
) -> Iterator[tuple[int, RowIndex]]:
    """(group, rows) pairs, block after block, so that rows are read from front to back once."""
    for part in spans(n, longest):
        if groups is None:
            yield 0, part
            continue
        labels = groups.label[part]
        for group in np.flatnonzero(np.bincount(labels)):
            if selected is None or group in selected:
                rows = part.start + np.flatnonzero(labels == group)
                for run in spans(rows.size, 2 * TASK_ROWS):
                    yield int(group), rows[run]
