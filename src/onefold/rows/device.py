"""Rows on a device: one block after the other, each as large as keeps the device busy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

import numpy as np

from onefold.linalg import Array, is_out_of_memory, take_rows
from onefold.machine.threads import check_stop, even_spans
from onefold.rows.base import Block, Rows, picked, take_part
from onefold.rows.groups import Groups

BLOCK_ROWS = 65_536
_FEWEST = 1024  # rows of a block that is still divided when memory runs out

Result = TypeVar("Result")


class DeviceRows(Rows):
    """Arrays of torch, CuPy or another library, on their device.

    For a pass by groups the rows are put in the order of the groups, once: blocks are then slices.
    """

    def __init__(self, X: Array, Y: Array | None, root: Array | None) -> None:
        super().__init__(int(X.shape[0]), 0 if Y is None else int(Y.shape[1]))
        self._arrays: tuple[Any, ...] = (X, Y, root)
        self._arranged: tuple[Groups, Any, tuple[Any, ...]] | None = None

    @property
    def reference(self) -> Array:
        return self._arrays[0]

    def sample(self, index: Any) -> Array:
        return take_rows(self._arrays[0], index)

    def part(self, index: Any) -> DeviceRows:
        return DeviceRows(*(picked(array, index) for array in self._arrays))

    def map(
        self,
        function: Callable[[Block], Result],
        groups: Groups | None = None,
        *,
        wanted: Collection[int] | None = None,
        at_most: int | None = None,
    ) -> Iterator[tuple[int, Any, Result]]:
        order, arrays = (None, self._arrays) if groups is None else self._in_order(groups)
        for group, start, size in group_runs(self.n, groups):
            if wanted is not None and group not in wanted:
                continue
            for run in even_spans(size, BLOCK_ROWS):
                places = slice(start + run.start, start + run.stop)
                for part, found in divided(function, group, places, arrays):
                    yield group, part if order is None else order[part], found

    def _in_order(self, groups: Groups) -> tuple[Any, tuple[Any, ...]]:
        """The numbers of the rows in the order of their groups (None if they are), and the arrays so."""
        if self._arranged is None or self._arranged[0] is not groups:
            order, arrays = groups.order, self._arrays
            if order is not None:
                arrays = tuple(None if a is None else take_rows(a, order) for a in arrays)
            self._arranged = groups, order, arrays
        return self._arranged[1:]


def group_runs(n: int, groups: Groups | None) -> Iterator[tuple[int, int, int]]:
    """(group, first place, size) of each group in the order of groups."""
    if groups is None:
        yield 0, 0, n
        return
    starts = np.concatenate([[0], np.cumsum(groups.sizes)])
    for group, size in enumerate(groups.sizes):
        if size:
            yield group, int(starts[group]), int(size)


def divided(
    function: Callable[[Block], Result], group: int, places: slice, arrays: tuple[Any, ...]
) -> Iterator[tuple[slice, Result]]:
    """The function of a block, or where the device's memory runs out, of its halves."""
    check_stop()
    try:
        found = function(Block(group, places, *(take_part(array, places) for array in arrays)))
    except Exception as error:
        size = places.stop - places.start
        if not is_out_of_memory(error) or size <= _FEWEST:
            raise
        middle = places.start + size // 2
    else:
        yield places, found
        return
    for half in (slice(places.start, middle), slice(middle, places.stop)):
        yield from divided(function, group, half, arrays)
