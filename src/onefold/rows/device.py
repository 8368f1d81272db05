"""Rows that a device works on: one block after the other, each as large as keeps the device busy.

The rows lie there already, or come from the host: while the device works on a block, the next is copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from onefold.linalg import Array, Index, Uploader, is_out_of_memory, on_device
from onefold.machine.threads import cached_property, check_stop, even_spans
from onefold.rows.base import (
    Block,
    BlockResults,
    GroupNumbers,
    Groups,
    RowIndex,
    Rows,
    picked,
    take_part,
)

# Rows of a block: enough to keep a device busy.
_BLOCK_ROWS = 65_536
# Rows up to which a block is not halved when memory runs out: the error is raised.
_FEWEST = 1024
# Blocks that are copied ahead of the one that is worked on.
_AHEAD = 2


class DeviceRows(Rows):
    """Arrays on a device; for a pass by groups, sorted by group once, so that blocks are slices."""

    on_device = True
    # For the groups of the last pass: their labels, the order of the rows (None if they were sorted
    # already), and the arrays in that order.
    _arranged: tuple[Any, Index | None, tuple[Any, ...]] | None = None

    @property
    def reference(self) -> Array:
        return self._arrays[0]

    def map(
        self,
        function: Any,
        groups: Groups | None = None,
        *,
        selected: GroupNumbers = None,
        at_most: int | None = None,
    ) -> BlockResults:
        order: Index | None = None
        arrays: tuple[Any, ...] = self._arrays
        if groups is not None:
            if self._arranged is None or self._arranged[0] is not groups.label:
                if (order := groups.order) is not None:
                    arrays = tuple(picked(array, order) for array in arrays)
                self._arranged = groups.label, order, arrays
            _, order, arrays = self._arranged
        for group, places in _pieces(self.n, groups, selected):
            for part, result in _divided(function, group, places, arrays):
                yield group, part if order is None else order[part], result


class StreamedRows(Rows):
    """NumPy rows, perhaps of a mapped file, that are too many for the memory of the device."""

    on_device = True

    @cached_property
    def reference(self) -> Array:
        X = self._arrays[0]
        return on_device(np.empty((0, X.shape[1]), dtype=X.dtype), self._device)

    def sample(self, index: Index) -> Array:
        return on_device(np.ascontiguousarray(self._arrays[0][np.asarray(index)]), self._device)

    def placed(self, X: Array) -> Array:
        return on_device(X, self._device)

    def map(
        self,
        function: Any,
        groups: Groups | None = None,
        *,
        selected: GroupNumbers = None,
        at_most: int | None = None,
    ) -> BlockResults:
        uploader = Uploader(self._device)
        order = None if groups is None else groups.order
        waiting: list[tuple[int, RowIndex, Future[Any]]] = []

        def work(group: int, rows: RowIndex, sent: Future[Any]) -> BlockResults:
            check_stop()
            arrays = tuple(uploader.receive(*sent.result()))
            for part, result in _divided(function, group, slice(0, int(arrays[0].shape[0])), arrays):
                if isinstance(rows, slice):
                    yield group, slice(rows.start + part.start, rows.start + part.stop), result
                else:
                    yield group, rows[part], result

        def send(rows: RowIndex) -> Any:
            return uploader.send([take_part(array, rows) for array in self._arrays])

        with ThreadPoolExecutor(1) as thread:
            try:
                for group, places in _pieces(self.n, groups, selected):
                    rows = places if order is None else order[places]
                    waiting.append((group, rows, thread.submit(send, rows)))
                    if len(waiting) > _AHEAD:
                        yield from work(*waiting.pop(0))
                while waiting:
                    yield from work(*waiting.pop(0))
            finally:
                for *_, sent in waiting:
                    sent.cancel()


def _pieces(n: int, groups: Groups | None, selected: GroupNumbers) -> Iterator[tuple[int, slice]]:
    """(group, positions of a block of its rows) in the rows sorted by group."""
    sizes = np.array([n]) if groups is None else groups.sizes
    for group, (size, stop) in enumerate(zip(sizes.tolist(), np.cumsum(sizes).tolist())):
        if size and (selected is None or group in selected):
            for run in even_spans(size, _BLOCK_ROWS):
                yield group, slice(stop - size + run.start, stop - size + run.stop)


def _divided(
    function: Any, group: int, places: slice, arrays: tuple[Any, ...]
) -> Iterator[tuple[slice, Any]]:
    """The function of a block; if the device's memory runs out, of its halves."""
    check_stop()
    try:
        result = function(Block(group, places, *(take_part(array, places) for array in arrays)))
    except Exception as error:
        size = places.stop - places.start
        if not is_out_of_memory(error) or size <= _FEWEST:
            raise
        middle = places.start + size // 2
    else:
        yield places, result
        return
    for half in (slice(places.start, middle), slice(middle, places.stop)):
        yield from _divided(function, group, half, arrays)
