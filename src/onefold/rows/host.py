"""Rows in host memory, sparse rows and mapped files: blocks run on threads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

import numpy as np

from onefold.linalg import Array, Index, take_rows
from onefold.machine.threads import map_in_order, spans
from onefold.rows.base import Block, Groups, Rows, SomeRows, picked, take_part

TASK_ROWS = 8192  # of one group in a task: the sum of its statistics is then a small part of the work
_BLOCK_BYTES = 64 * 2**20  # of X read at once

Result = TypeVar("Result")


class HostRows(Rows):
    """NumPy rows, CSR rows or a mapped file."""

    def __init__(self, X: Array, Y: Array | None, root: Array | None) -> None:
        super().__init__(int(X.shape[0]), 0 if Y is None else int(Y.shape[1]))
        self._X, self._Y, self._root = X, Y, root

    @property
    def reference(self) -> Array:
        return np.empty(0)

    def sample(self, index: Index) -> Array:
        return take_rows(self._X, index)

    def part(self, index: Index) -> HostRows:
        return HostRows(*(picked(array, index) for array in (self._X, self._Y, self._root)))

    def map(
        self,
        function: Callable[[Block], Result],
        groups: Groups | None = None,
        *,
        wanted: Collection[int] | None = None,
        at_most: int | None = None,
    ) -> Iterator[tuple[int, SomeRows, Result]]:
        def work(task: tuple[int, SomeRows]) -> tuple[int, SomeRows, Result]:
            group, rows = task
            arrays = (take_part(array, rows) for array in (self._X, self._Y, self._root))
            return group, rows, function(Block(group, rows, *arrays))

        count = 1 if groups is None else groups.count
        longest = max(1024, min(TASK_ROWS * count, _BLOCK_BYTES // (8 * max(1, self._X.shape[1]))))
        yield from map_in_order(work, tasks(self.n, groups, longest, wanted), at_most)


def tasks(
    n: int, groups: Groups | None, longest: int, wanted: Collection[int] | None
) -> Iterator[tuple[int, SomeRows]]:
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
