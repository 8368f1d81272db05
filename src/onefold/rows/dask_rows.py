r"""Rows on Dask's workers: a pass maps partitions to what they leave, and a tree adds it up.

    partition p  →  Σ over its blocks, group by group          on a worker, in the order of the rows
    ((0 + 1) + (2 + 3)) + …                                     on workers, in the order of partitions

The shape of the tree depends on the number of partitions alone, never on who finished first. Every task
is a pure function of the partition and of what the graph holds beside it (targets, √weights, groups), so
that Dask makes again whatever is lost with a worker; no task knows where it runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext
from threading import Lock
from typing import Any

import numpy as np

from onefold.linalg import Array, to_numpy
from onefold.machine.threads import check_stop, limit_blas, use_threads
from onefold.rows.base import BlockFunction, BlockSum, Groups, Rows, picked
from onefold.rows.dask_runner import require_dask
from onefold.rows.dask_table import DaskTable
from onefold.rows.device import StreamedRows
from onefold.rows.host import HostRows
from onefold.rows.partition import Partition, require_length

_ONE_AT_A_TIME = Lock()  # in a process, for kernels that several threads must not call at once


class DaskRows(Rows):
    """The rows of a table whose partitions stay where they are.

    `device` names where a worker moves the blocks of its partition to.
    """

    def __init__(self, table: DaskTable, Y: Any, root: Any, device: Any = None) -> None:
        super().__init__(table.shape[0], 0 if Y is None else int(Y.shape[1]))
        self._table, self._Y, self._root, self._device = table, Y, root, device
        self._pieces = table.pieces()
        self._beside: list[Any] | None = None
        self._labelled: tuple[Any, list[Any]] | None = None

    @property
    def reference(self) -> Array:
        return np.empty(0)

    def sample(self, index: Any) -> Array:
        return self._table[index]

    def part(self, index: Any) -> DaskRows:
        Y, root = picked(self._Y, index), picked(self._root, index)
        return DaskRows(self._table.only(index), Y, root, self._device)

    def map(
        self,
        function: Any,
        groups: Groups | None = None,
        *,
        wanted: Collection[int] | None = None,
        at_most: int | None = None,
    ) -> Iterator[tuple[int, Any, Any]]:
        """As for any rows, of a `BlockFunction`."""
        lazy = self._tasks(_mapped, function, groups, wanted, at_most)
        for (_, rows, _), blocks in zip(self._pieces, self._table.runner.each(lazy)):
            check_stop()
            for group, local, found in blocks:
                yield group, _moved(local, rows.start), found

    def sums(
        self, function: BlockSum, groups: Groups | None = None, *, at_most: int | None = None
    ) -> list[Any]:
        level = self._tasks(_summed, function, groups, None, at_most)
        add = require_dask().delayed(_added)
        while len(level) > 1:
            pairs = [add(one, two) for one, two in zip(level[::2], level[1::2])]
            level = pairs + level[len(level) - len(level) % 2 :]
        found = self._table.runner.one(level[0])
        totals = [function.zero(self.targets, self.reference) for _ in found]
        return [zero if one is None else zero.absorb(one) for zero, one in zip(totals, found)]

    def _tasks(
        self,
        task: Any,
        function: BlockFunction,
        groups: Groups | None,
        wanted: Collection[int] | None,
        at_most: int | None,
    ) -> list[Any]:
        """The lazy values of a task for every partition that has rows."""
        delayed = require_dask().delayed
        shared = delayed(function, traverse=False)
        settings = _Settings(
            self._table.dtype,
            1 if groups is None else groups.count,
            None if wanted is None else frozenset(int(group) for group in wanted),
            self._device,
            at_most == 1,
        )
        labels: Sequence[Any] = [None] * len(self._pieces) if groups is None else self._labels(groups)
        pairs = zip(self._pieces, self._sides(), labels)
        run = delayed(task)
        return [
            run(self._table.parts[number], side, label, shared, settings)
            for (number, _, _), side, label in pairs
        ]

    def _sides(self) -> list[Any]:
        """Targets, √weights, the kept rows and the length of every partition; they travel once."""
        with self._lock:
            if self._beside is None:
                held, Y, root = require_dask().delayed(_held), self._Y, self._root
                lengths = self._table.lengths.tolist()
                lazy = [
                    held(
                        None if Y is None else Y[rows],
                        None if root is None else root[rows],
                        kept,
                        lengths[number],
                    )
                    for number, rows, kept in self._pieces
                ]
                self._beside = self._table.runner.held(lazy)
            return self._beside

    def _labels(self, groups: Groups) -> list[Any]:
        """The groups of every partition's rows; they travel once for the same groups."""
        with self._lock:
            if self._labelled is None or self._labelled[0] is not groups.label:
                held = require_dask().delayed(_held)
                small = groups.label.astype(np.min_scalar_type(max(1, groups.count)))
                lazy = [held(small[rows]) for _, rows, _ in self._pieces]
                self._labelled = groups.label, self._table.runner.held(lazy)
            return self._labelled[1]


class _Settings:
    """How a task works on its partition."""

    def __init__(
        self, dtype: Any, count: int, wanted: frozenset[int] | None, device: Any, alone: bool
    ) -> None:
        self.dtype, self.count, self.wanted, self.device, self.alone = (
            dtype,
            count,
            wanted,
            device,
            alone,
        )


def _moved(local: Any, start: int) -> Any:
    """Row numbers in a partition as numbers in the table."""
    if isinstance(local, slice):
        return slice(local.start + start, local.stop + start)
    return local + start


# What runs where a partition is


def _held(*values: Any) -> tuple[Any, ...]:
    """Values as a task of their own, which can be run again."""
    return values


def _opened(
    rows: Any, side: tuple[Any, Any, Any, int], label: Any, function: Any, settings: _Settings
) -> tuple[Rows, Any, Groups | None]:
    """The partition as a source of blocks, the function beside them, and the groups of its rows."""
    Y, root, kept, length = side
    require_length(rows, length)
    part = Partition(rows, kept, settings.dtype)
    source: Rows = HostRows(part, Y, root)
    if settings.device is not None:
        source = StreamedRows(part, Y, root, settings.device)
        function = function.placed(source.placed)
    groups = None if label is None else Groups(label[0].astype(np.int64), [], settings.count)
    return source, function, groups


def _guard(settings: _Settings) -> Any:
    return _ONE_AT_A_TIME if settings.alone else nullcontext()


def _mapped(
    rows: Any, side: tuple[Any, Any, Any, int], label: Any, function: Any, settings: _Settings
) -> list[tuple[int, Any, Any]]:
    """(group, rows, result) of every block of a partition."""
    with use_threads(1), limit_blas(1), _guard(settings):
        source, function, groups = _opened(rows, side, label, function, settings)
        found = source.map(function, groups, wanted=settings.wanted)
        return [(group, local, to_numpy(result)) for group, local, result in found]


def _summed(
    rows: Any, side: tuple[Any, Any, Any, int], label: Any, function: Any, settings: _Settings
) -> list[Any]:
    """What a partition leaves of each group; None where it has no rows of it."""
    with use_threads(1), limit_blas(1), _guard(settings):
        source, function, groups = _opened(rows, side, label, function, settings)
        there = [True] if groups is None else (groups.sizes > 0).tolist()
        totals = source.sums(function, groups)
        return [total.on_host() if some else None for total, some in zip(totals, there)]


def _added(one: list[Any], two: list[Any]) -> list[Any]:
    """Both together; neither is written over, as Dask may need it again."""
    return [a if b is None else b if a is None else a + b for a, b in zip(one, two)]
