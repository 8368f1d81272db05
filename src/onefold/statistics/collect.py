r"""The pass over row blocks: block → statistics, a pure function; their sum, group by group.

Blocks run on Python threads with one BLAS thread each, and are added in the order of the rows: the sums
have the same digits whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onefold.linalg import Array, is_foreign, is_sparse, like, namespace, take_rows, to_numpy
from onefold.machine.ordered import map_in_order
from onefold.machine.spans import spans
from onefold.machine.threads import limit_blas, map_threads
from onefold.statistics.base import Statistics
from onefold.statistics.design import Design
from onefold.statistics.finite import finite_kernel
from onefold.statistics.sums import double_sums, single_sums

_TASK_ROWS = 8192  # of one group in a task: the sum of its statistics is then a small part of the work
_BLOCK_BYTES = 64 * 2**20  # of X read at once


def block_statistics(design: Design, rows: Array, targets: Array, root: Array | None) -> Statistics:
    """The statistics of one block of rows; `root` holds √weights. O(rows · m²) time."""
    if is_foreign(rows):
        return _device_statistics(design, rows, targets, root)
    t = targets.shape[1]
    # One more target, the constant 1, gives the border.
    wanted = np.hstack([targets, np.ones((targets.shape[0], 1))])
    if root is not None:
        wanted *= root[:, None]
    if design.precision == "single":
        gram, small = single_sums(design, rows, wanted, root)
    else:
        gram, small = double_sums(design, rows, wanted, root)
    weighted = targets if root is None else root[:, None] * targets
    squares = weighted * weighted
    sums = weighted if root is None else root[:, None] * weighted
    mass = float(rows.shape[0]) if root is None else float(root @ root)
    return Statistics(
        gram,
        small[:, :t],
        small[:, t],
        mass,
        sums.sum(axis=0),
        squares.sum(axis=0),
        int(rows.shape[0]),
    )


def _device_statistics(design: Design, rows: Array, targets: Array, root: Array | None) -> Statistics:
    """The same on another array library's device; the small results come to the host at the end."""
    m, t = design.size, int(targets.shape[1])
    weight = like(np.ones(rows.shape[0]), targets) if root is None else root
    wanted = namespace(targets).concat([targets * weight[:, None], weight[:, None]], axis=1)
    gram, small = like(np.zeros((m, m)), targets), like(np.zeros((m, t + 1)), targets)
    for part, tile in design.tiles(rows, np.dtype(np.float64)):
        tile = tile * weight[part][:, None]
        gram += tile.T @ tile
        small += tile.T @ wanted[part, :]
    corner = to_numpy(wanted.T @ wanted)
    small = to_numpy(small)
    return Statistics(
        to_numpy(gram),
        small[:, :t],
        small[:, t],
        float(corner[t, t]),
        corner[:t, t],
        np.diagonal(corner)[:t].copy(),
        int(rows.shape[0]),
    )


def _tasks(X: Array, label: Any | None, count: int) -> Iterator[tuple[int, Any]]:
    """(group, rows) pairs, block after block, so that X is read from front to back once."""
    n = X.shape[0]
    block = max(1024, min(_TASK_ROWS * count, _BLOCK_BYTES // (8 * max(1, X.shape[1]))))
    for part in spans(n, block):
        if label is None:
            yield 0, part
            continue
        here = label[part]
        for group in np.unique(here):
            rows = part.start + np.flatnonzero(here == group)
            for run in spans(rows.size, 2 * _TASK_ROWS):
                yield int(group), rows[run]


def _take(array: Any, rows: Any) -> Any:
    if array is None:
        return None
    if isinstance(rows, slice):
        return array[rows] if is_sparse(array) or array.ndim == 1 else array[rows, :]
    if is_foreign(array):
        return take_rows(array, rows)
    if rows.size and rows[-1] - rows[0] + 1 == rows.size:  # consecutive: a view, no copy
        return array[rows[0] : rows[-1] + 1]
    return array[rows]


def collect(
    design: Design,
    X: Array,
    Y: Array,
    root: Array | None,
    label: Any | None = None,
    count: int = 1,
) -> list[Statistics]:
    """The statistics of each of `count` groups of rows, in one pass.

    O(n m²) time; memory for count + 3 · threads Gram matrices, whatever n.
    """
    totals = [Statistics.zero(design.size, int(Y.shape[1])) for _ in range(count)]

    def work(task: tuple[int, Any]) -> tuple[int, Statistics]:
        group, rows = task
        return group, block_statistics(design, _take(X, rows), _take(Y, rows), _take(root, rows))

    with limit_blas(1):
        for group, statistics in map_in_order(work, _tasks(X, label, count), design.threads):
            totals[group] = totals[group].absorb(statistics)
    for total in totals:
        finite_kernel(total.gram)
    return totals


def predict_groups(
    design: Design,
    X: Array,
    coefficients: list[Any],
    label: Any | None = None,
) -> Iterator[tuple[int, Any, Any]]:
    """Yield (group, rows, Φ·coefficients[group]) as blocks finish, in any order.

    `coefficients` holds a float64 array (m, columns) per group, or None to skip the group; `rows` is a
    slice or row numbers; the values are NumPy arrays (rows, columns).
    """

    def work(task: tuple[int, Any]) -> tuple[int, Any, Any]:
        group, rows = task
        matrix, block = coefficients[group], _take(X, rows)
        if is_foreign(block):
            matrix = like(matrix, block)
        values = np.empty((block.shape[0], matrix.shape[1]))
        for part, tile in design.tiles(block, np.dtype(np.float64)):
            values[part] = to_numpy(tile @ matrix)
        return group, rows, values

    tasks = (t for t in _tasks(X, label, len(coefficients)) if coefficients[t[0]] is not None)
    yield from map_threads(work, tasks, design.threads)
