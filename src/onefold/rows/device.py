"""Rows that a device works on: one block after the other, each as large as keeps the device busy.

They lie there already, or come from the host: while the device works on one block, the next one travels.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from onefold.linalg import Array, Index, Uploader, is_out_of_memory, on_device
from onefold.machine.threads import cached_property, check_stop, even_spans
from onefold.rows.base import Block, Groups, Mapped, Most, Rows, SomeRows, Wanted, picked, take_part

_BLOCK_ROWS = 65_536
_FEWEST = 1024  # rows of a block that is still divided when memory runs out
_AHEAD = 2  # blocks on their way


class DeviceRows(Rows):
    """Arrays on their device; put in the order of groups, once, for passes whose blocks are slices."""

    on_device = True
    # The labels of the groups, the numbers of the rows in their order (None if they are), the arrays so.
    _arranged: tuple[Any, Index | None, tuple[Any, ...]] | None = None

    @property
    def reference(self) -> Array:
        return self._arrays[0]

    def map(
        self, function: Any, groups: Groups | None = None, *, wanted: Wanted = None, at_most: Most = None
    ) -> Mapped:
        order: Index | None = None
        arrays: tuple[Any, ...] = self._arrays
        if groups is not None:
            if self._arranged is None or self._arranged[0] is not groups.label:
                if (order := groups.order) is not None:
                    arrays = tuple(picked(array, order) for array in arrays)
                self._arranged = groups.label, order, arrays
            _, order, arrays = self._arranged
        for group, places in _pieces(self.n, groups, wanted):
            for part, found in _divided(function, group, places, arrays):
                yield group, part if order is None else order[part], found


class StreamedRows(Rows):
    """NumPy rows, a mapped file among them, too many for the memory of the device."""

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
        self, function: Any, groups: Groups | None = None, *, wanted: Wanted = None, at_most: Most = None
    ) -> Mapped:
        uploader = Uploader(self._device)
        order = None if groups is None else groups.order
        waiting: list[tuple[int, SomeRows, Future[Any]]] = []

        def work(group: int, rows: SomeRows, sent: Future[Any]) -> Mapped:
            check_stop()
            arrays = tuple(uploader.receive(*sent.result()))
            for part, found in _divided(function, group, slice(0, int(arrays[0].shape[0])), arrays):
                if isinstance(rows, slice):
                    yield group, slice(rows.start + part.start, rows.start + part.stop), found
                else:
                    yield group, rows[part], found

        def send(rows: SomeRows) -> Any:
            return uploader.send([take_part(array, rows) for array in self._arrays])

        with ThreadPoolExecutor(1) as thread:
            try:
                for group, places in _pieces(self.n, groups, wanted):
                    rows = places if order is None else order[places]
                    waiting.append((group, rows, thread.submit(send, rows)))
                    if len(waiting) > _AHEAD:
                        yield from work(*waiting.pop(0))
                while waiting:
                    yield from work(*waiting.pop(0))
            finally:
                for *_, sent in waiting:
                    sent.cancel()


def _pieces(n: int, groups: Groups | None, wanted: Wanted) -> Iterator[tuple[int, slice]]:
    """(group, places of a block of its rows) in the order of groups."""
    sizes = np.array([n]) if groups is None else groups.sizes
    for group, (size, stop) in enumerate(zip(sizes.tolist(), np.cumsum(sizes).tolist())):
        if size and (wanted is None or group in wanted):
            for run in even_spans(size, _BLOCK_ROWS):
                yield group, slice(stop - size + run.start, stop - size + run.stop)


def _divided(
    function: Any, group: int, places: slice, arrays: tuple[Any, ...]
) -> Iterator[tuple[slice, Any]]:
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
        yield from _divided(function, group, half, arrays)
