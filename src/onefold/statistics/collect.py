r"""The pass over row blocks: block → statistics, a pure function; their sum, group by group.

A tile of rows × landmarks is computed in X's dtype, small enough to stay in cache, and added to the
Gram matrix while it is there. Blocks run on Python threads with one BLAS thread each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.arrays import (
    Array,
    double,
    is_foreign,
    is_sparse,
    like,
    namespace,
    take_rows,
    to_numpy,
)
from onefold.kernels import CallableKernel, Kernel
from onefold.kernels.tiles import common_origin, spans
from onefold.rank_update import add_gram, mirror
from onefold.statistics.base import Statistics
from onefold.statistics.whitening import Precision
from onefold.threads import map_threads

_TILE_BYTES = 2 * 2**20  # of a tile: it should stay in a core's cache
_TASK_ROWS = 8192  # of one group in a task: the sum of its statistics is then a small part of the work
_BLOCK_BYTES = 64 * 2**20  # of X read at once
_FLUSH_ROWS = 2048  # float32 sums are moved to float64 this often


@dataclass(frozen=True)
class Design:
    """A kernel and its landmarks: rows → features.

    Attributes
    ----------
    kernel : Kernel
    landmarks : array or CSR matrix (m, d)
        In the dtype of the rows, as given by the user.
    precision : {"single", "mixed", "double"}
        Of float32 rows, see :meth:`Whitening.precision_for`; float64 rows are always "double".
    leading : array (m, q) or None
        Orthonormal directions that "single" sums apart, in float64.
    """

    kernel: Kernel
    landmarks: Any
    precision: Precision = "double"
    leading: Any | None = None

    @property
    def size(self) -> int:
        """Number of landmarks."""
        return int(self.landmarks.shape[0])

    def _shifted(self) -> tuple[Array, Array | None]:
        """The landmarks about their common origin, and that origin, in the dtype of the tiles."""
        landmarks = double(self.landmarks) if self.precision == "double" else self.landmarks
        origin = common_origin(self.kernel, landmarks)
        if origin is None:
            return landmarks, None
        origin = namespace(origin).astype(origin, landmarks.dtype)
        return landmarks - origin[None, :], origin

    def inner(self) -> Any:
        """The landmark kernel W, float64 NumPy."""
        rows = double(self.landmarks)
        origin = common_origin(self.kernel, rows)
        rows = rows if origin is None else rows - origin[None, :]
        return np.asarray(to_numpy(self.kernel(rows, rows)), dtype=np.float64)

    def tiles(self, rows: Array, dtype: Any = None) -> Iterator[tuple[slice, Array]]:
        """Feature tiles of consecutive rows, in `dtype` if given; each is overwritten by the next."""
        landmarks, origin = self._shifted()
        step = min(max(16, _TILE_BYTES // (4 * max(1, self.size))), max(1, rows.shape[0]))
        dense = not (is_sparse(rows) or is_foreign(rows))
        if dense:
            kind = np.dtype(np.float64 if self.precision == "double" else rows.dtype)
            buffer = np.empty((step, self.size), dtype=kind)
            cast = buffer if dtype is None or dtype == kind else np.empty_like(buffer, dtype=dtype)
        for part in spans(rows.shape[0], step):
            some = rows[part] if is_sparse(rows) else rows[part, :]
            some = double(some) if self.precision == "double" else some
            some = some if origin is None else some - origin[None, :]
            if not dense:
                tile = self.kernel(some, landmarks)
                yield part, tile if dtype is None else double(tile)
                continue
            count = part.stop - part.start
            tile = self.kernel.fill(some, landmarks, buffer[:count])
            if dtype is not None and tile.dtype != dtype:
                np.copyto(cast[:count], tile)
                tile = cast[:count]
            yield part, tile

    def features(self, rows: Array) -> Any:
        """All features of a few rows at once, float64 NumPy (rows, m)."""
        out = np.empty((rows.shape[0], self.size))
        for part, tile in self.tiles(rows):
            out[part] = to_numpy(tile)
        return out

    def threads(self, workers: int) -> int:
        """How many threads may evaluate the kernel; a user's function may not be safe in several."""
        return 1 if isinstance(self.kernel, CallableKernel) or is_foreign(self.landmarks) else workers


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
        gram, small = _single_sums(design, rows, wanted, root)
    else:
        gram, small = _double_sums(design, rows, wanted, root)
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


def _double_sums(design: Design, rows: Array, wanted: Any, root: Any | None) -> tuple[Any, Any]:
    """ΦᵀΦ and Φᵀ·wanted in float64, the rows of Φ times `root`."""
    m = design.size
    gram, small = np.zeros((m, m)), np.zeros((m, wanted.shape[1]))
    for part, tile in design.tiles(rows, np.dtype(np.float64)):
        if root is not None:
            tile *= root[part, None]
        tile = np.ascontiguousarray(tile)
        add_gram(gram, tile)
        small += tile.T @ wanted[part]
    return mirror(gram), small


def _single_sums(design: Design, rows: Array, wanted: Any, root: Any | None) -> tuple[Any, Any]:
    r"""The same, summed in float32 over short runs.

    With leading directions U, Φ = Φ' + P Uᵀ, P = Φ U: only Φ' of small entries is summed in float32,
    ΦᵀΦ = Φ'ᵀΦ' + U (PᵀΦ') + (PᵀΦ')ᵀ Uᵀ + U (PᵀP) Uᵀ.
    """
    m, single = design.size, np.dtype(np.float32)
    gram, run = np.zeros((m, m)), np.zeros((m, m), dtype=single)
    small = np.zeros((m, wanted.shape[1]))
    narrow = wanted.astype(single)
    U = np.zeros((m, 0), dtype=single) if design.leading is None else design.leading
    q = U.shape[1]
    across, corner, apart = np.zeros((q, m)), np.zeros((q, q)), np.zeros((q, wanted.shape[1]))
    explained: Any = None
    pending = 0
    for part, tile in design.tiles(rows, single):
        if root is not None:
            tile *= root[part, None].astype(single)
        tile = np.ascontiguousarray(tile)
        if q:
            explained = np.empty_like(tile) if explained is None else explained
            P = tile @ U
            tile -= np.matmul(P, U.T, out=explained[: tile.shape[0]])
            across += P.T @ tile
            wide = P.astype(np.float64)
            corner += wide.T @ wide
            apart += wide.T @ wanted[part]
        add_gram(run, tile)
        small += tile.T @ narrow[part]
        pending += tile.shape[0]
        if pending >= _FLUSH_ROWS:
            gram += run
            run[:] = 0
            pending = 0
    gram += run
    mirror(gram)
    if q:
        wide_U = U.astype(np.float64)
        mixed = wide_U @ (across + 0.5 * corner @ wide_U.T)
        gram += mixed
        gram += mixed.T
        small += wide_U @ apart
    return gram, small


def _device_statistics(design: Design, rows: Array, targets: Array, root: Array | None) -> Statistics:
    """The same on another array library's device; the small results come to the host."""
    total = Statistics.zero(design.size, int(targets.shape[1]))
    for part, tile in design.tiles(rows, np.dtype(np.float64)):
        y = targets[part, :]
        weight = like(np.ones(tile.shape[0]), tile) if root is None else root[part]
        tile, y = tile * weight[:, None], y * weight[:, None]
        xp = namespace(tile)
        total = total.absorb(
            Statistics(
                to_numpy(tile.T @ tile),
                to_numpy(tile.T @ y),
                to_numpy(tile.T @ weight),
                float(xp.sum(weight * weight)),
                to_numpy(xp.sum(y * weight[:, None], axis=0)),
                to_numpy(xp.sum(y * y, axis=0)),
                int(tile.shape[0]),
            )
        )
    return total


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
    *,
    workers: int = 1,
) -> list[Statistics]:
    """The statistics of each of `count` groups of rows, in one pass.

    O(n m²) time; memory for count + 2 · workers Gram matrices, whatever n.
    """
    totals = [Statistics.zero(design.size, int(Y.shape[1])) for _ in range(count)]

    def work(task: tuple[int, Any]) -> tuple[int, Statistics]:
        group, rows = task
        return group, block_statistics(design, _take(X, rows), _take(Y, rows), _take(root, rows))

    for group, statistics in map_threads(work, _tasks(X, label, count), design.threads(workers)):
        totals[group] = totals[group].absorb(statistics)
    return totals


def predict_groups(
    design: Design,
    X: Array,
    coefficients: list[Any],
    label: Any | None = None,
    *,
    workers: int = 1,
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
    yield from map_threads(work, tasks, design.threads(workers))
