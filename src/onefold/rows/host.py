"""Rows in host memory, sparse rows and mapped files: blocks run on threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onefold.machine.threads import map_in_order, spans
from onefold.rows.base import Block, Groups, Mapped, Most, Rows, SomeRows, Wanted, take_part

TASK_ROWS = 8192  # of one group in a task: the sum of its statistics is then a small part of the work
_BLOCK_BYTES = 64 * 2**20  # of X read at once


class HostRows(Rows):
    """NumPy rows, CSR rows or a mapped file."""

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
