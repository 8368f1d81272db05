"""Host rows that are worked on by a device: while it works on one block, the next one travels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from onefold.linalg import Array, Uploader, on_device
from onefold.machine.threads import check_stop, even_spans
from onefold.rows.base import Block, Rows, picked, take_part
from onefold.rows.device import BLOCK_ROWS, divided, group_runs
from onefold.rows.groups import Groups

_AHEAD = 2  # blocks on their way

Result = TypeVar("Result")


class StreamedRows(Rows):
    """NumPy rows, a mapped file among them, too many for the memory of the device."""

    def __init__(self, X: Array, Y: Array | None, root: Array | None, device: Any) -> None:
        super().__init__(int(X.shape[0]), 0 if Y is None else int(Y.shape[1]))
        self._arrays, self._device = (X, Y, root), device
        self._reference = on_device(np.empty((0, X.shape[1]), dtype=X.dtype), device)

    @property
    def reference(self) -> Array:
        return self._reference

    def sample(self, index: Any) -> Array:
        return on_device(np.ascontiguousarray(self._arrays[0][np.asarray(index)]), self._device)

    def placed(self, X: Array) -> Array:
        return on_device(X, self._device)

    def part(self, index: Any) -> StreamedRows:
        X, Y, root = (picked(array, index) for array in self._arrays)
        return StreamedRows(X, Y, root, self._device)

    def map(
        self,
        function: Callable[[Block], Result],
        groups: Groups | None = None,
        *,
        wanted: Collection[int] | None = None,
        at_most: int | None = None,
    ) -> Iterator[tuple[int, Any, Result]]:
        uploader = Uploader(self._device)

        def travel(task: tuple[int, Any]) -> Any:
            return uploader.send([take_part(array, task[1]) for array in self._arrays])

        pieces = self._pieces(groups, wanted)
        waiting: list[tuple[tuple[int, Any], Future[Any]]] = []
        with ThreadPoolExecutor(1) as thread:
            try:
                for task in pieces:
                    waiting.append((task, thread.submit(travel, task)))
                    if len(waiting) > _AHEAD:
                        yield from self._work(function, *waiting.pop(0), uploader)
                while waiting:
                    yield from self._work(function, *waiting.pop(0), uploader)
            finally:
                for _, future in waiting:
                    future.cancel()

    def _work(
        self,
        function: Callable[[Block], Result],
        task: tuple[int, Any],
        future: Future[Any],
        uploader: Uploader,
    ) -> Iterator[tuple[int, Any, Result]]:
        check_stop()
        group, rows = task
        arrays = tuple(uploader.receive(future.result()))
        size = int(arrays[0].shape[0])
        for part, found in divided(function, group, slice(0, size), arrays):
            if isinstance(rows, slice):
                yield group, slice(rows.start + part.start, rows.start + part.stop), found
            else:
                yield group, rows[part], found

    def _pieces(
        self, groups: Groups | None, wanted: Collection[int] | None
    ) -> Iterator[tuple[int, Any]]:
        order = None if groups is None else groups.order
        for group, start, size in group_runs(self.n, groups):
            if wanted is None or group in wanted:
                for run in even_spans(size, BLOCK_ROWS):
                    places = slice(start + run.start, start + run.stop)
                    yield group, places if order is None else order[places]
