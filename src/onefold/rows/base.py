r"""The rows of a problem as a source of blocks: what a pass over them needs to know, and nothing more.

A pass is a pure function of a block, mapped over all blocks; results add, or are kept block by block.
They come in the order of the blocks, so that sums have the same digits whatever ran side by side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import is_not
from threading import Lock
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from onefold.linalg import Array, is_foreign, take_rows
from onefold.rows.groups import Groups, group_rows

Result = TypeVar("Result")


@dataclass(frozen=True)
class Block:
    """Some rows of one group, where they are to be worked on.

    Attributes
    ----------
    group : int
    rows : slice or int array
        Their numbers; on a worker of Dask, those in its partition.
    X : array or CSR matrix (rows, d)
    Y : array (rows, targets) or None
    root : array (rows,) or None
        √weights; None for equal weights.
    """

    group: int
    rows: Any
    X: Any
    Y: Any
    root: Any


class Sum(Protocol):
    """What blocks leave that adds."""

    def __add__(self, other: Any) -> Self: ...

    def absorb(self, other: Any) -> Self:
        """``self + other``, over the arrays of `self`."""

    def on_host(self) -> Self:
        """The same in NumPy arrays."""


class BlockFunction(Protocol):
    """A pure function of a block that may be called where the rows are: on another machine, say."""

    def __call__(self, block: Block) -> Any: ...

    def placed(self, place: Callable[[Any], Any]) -> Self:
        """The same with its own arrays moved by `place`, to where blocks are worked on."""


class BlockSum(BlockFunction, Protocol):
    """One whose results add."""

    def zero(self, targets: int, reference: Array) -> Any:
        """The sum over no rows, beside `reference`."""


class Rows(ABC):
    """X, Y and √weights of a problem, wherever they are.

    Attributes
    ----------
    n : int
        Number of rows.
    targets : int
        Columns of Y.
    """

    def __init__(self, n: int, targets: int) -> None:
        self.n, self.targets = n, targets
        self._grouped: tuple[list[Any], Groups] | None = None
        self._lock = Lock()

    def grouped_by(self, sets: Sequence[Any]) -> Groups:
        """The groups of rows that the given sets move together; found once for the same arrays.

        Asked for the first of several sets, those of all of them serve.
        """
        with self._lock:
            known = self._grouped
            if known is None or len(known[0]) < len(sets) or any(map(is_not, known[0], sets)):
                known = self._grouped = list(sets), group_rows(self.n, sets)
        return known[1]

    @property
    @abstractmethod
    def reference(self) -> Array:
        """An array in the library and on the device where blocks are worked on."""

    @abstractmethod
    def sample(self, index: Any) -> Array:
        """The rows of X with the given numbers, where blocks are worked on."""

    @abstractmethod
    def map(
        self,
        function: Callable[[Block], Result],
        groups: Groups | None = None,
        *,
        wanted: Collection[int] | None = None,
        at_most: int | None = None,
    ) -> Iterator[tuple[int, Any, Result]]:
        """Yield (group, row numbers, function(block)) over all rows, each block of one group.

        Parameters
        ----------
        function : pure function of a block
        groups : Groups, optional
            One group of all rows by default.
        wanted : collection of int, optional
            Pass over these groups alone.
        at_most : int, optional
            Threads that may call the function at once.
        """

    def sums(
        self, function: BlockSum, groups: Groups | None = None, *, at_most: int | None = None
    ) -> list[Any]:
        """Σ function(block) over the rows of each group, added in the order of the rows."""
        count = 1 if groups is None else groups.count
        totals = [function.zero(self.targets, self.reference) for _ in range(count)]
        for group, _, found in self.map(function, groups, at_most=at_most):
            totals[group] = totals[group].absorb(found)
        return totals

    def placed(self, X: Array) -> Array:
        """Other rows, beside which blocks are worked on, where that is done."""
        return X

    @abstractmethod
    def part(self, index: Any) -> Rows:
        """The source of some of the rows."""


def picked(array: Any, index: Any) -> Any:
    """Rows of an array by numbers in any order."""
    return None if array is None else take_rows(array, index)


def take_part(array: Any, rows: Any) -> Any:
    """Rows of an array by a slice or by sorted numbers: a view where they are consecutive."""
    if array is None:
        return None
    if isinstance(rows, slice):
        return array[rows, ...] if is_foreign(array) else array[rows]
    if is_foreign(array):
        return take_rows(array, rows)
    rows = np.asarray(rows)
    if rows.size and rows[-1] - rows[0] + 1 == rows.size:
        return array[rows[0] : rows[-1] + 1]
    return array[rows]
