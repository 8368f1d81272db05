r"""Sufficient statistics of a basis model, f(x) = φ(x)·β + b, over a set of rows with weights v.

    (1)  A = Φᵀ V Φ,   c = Φᵀ V Y,   s = Φᵀ V 1,   w = 1ᵀ V 1,   Σ v y,   Σ v y²

They add over rows: those of a union of disjoint sets are the sum, those of its complement the
difference. Training without a fold is therefore a subtraction, for any number of rows.

One pass over row blocks collects them: block → statistics is a pure function, and the sum of each group
is made in the order of the rows, so that it has the same digits for any number of threads. Within a
block, each tile of features φ(x) = [k(x, z_1) … k(x, z_m)], rows × landmarks in X's dtype, is small
enough to be added while it is in cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from operator import add, sub
from typing import Any

import numpy as np

from onefold import linalg
from onefold.basis.whitening import Precision
from onefold.kernels import Kernel, tiles
from onefold.kernels.base import Tile
from onefold.linalg import (
    Array,
    HostArray,
    as_float64,
    host_array,
    is_sparse,
    namespace,
    prefers_large_calls,
    zeros,
)
from onefold.linalg.dense import add_gram, add_lower, mirror
from onefold.machine.threads import cached_property, check_stop, limit_blas, spans
from onefold.rows import Block, Groups, Rows
from onefold.smoothers.base import UnsolvableError

# Of the largest entry of a kernel matrix: smaller ones count as 0. Its square is still a normal number.
_NOTHING = 1e-140
# Bytes of a tile of features, which should stay in a core's cache.
_TILE_BYTES = 2 * 2**20
# Rows of such a tile, at least.
_FEWEST_TILE_ROWS = 16
# Bytes for the Gram matrices of all groups together.
_GROUP_BYTES = 2**30
# Rows after which float32 sums are added to float64 ones.
_FLUSH_ROWS = 2048
# Of the size of a feature: rows with smaller ones add at most n · 2⁻⁶⁰ of its square to ΦᵀΦ.
_UNSEEN = 2.0**-30
# Of the rows of a tile: leaving out fewer such rows saves less time than copying the others takes.
_UNSEEN_SHARE = 1 / 8
# The fields of `Statistics` that are arrays.
_ARRAYS = ("gram", "cross", "border", "target_sum", "target_square")


def finite_kernel(values: Any) -> Any:
    """The values, an array or a list of arrays, if all are finite; raise if not."""
    arrays = values if isinstance(values, list) else [values]
    # The sum is not finite if an entry is not, and needs no second array.
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(sum(namespace(array).sum(array) for array in arrays))
    if not np.isfinite(total):
        raise UnsolvableError(
            "the kernel is NaN or infinite for some rows; scale the features, or check the kernel."
        )
    return values


@dataclass(frozen=True)
class Design:
    """A kernel and its landmarks: rows → features."""

    kernel: Kernel
    landmarks: Array  # array or CSR matrix (m, d), in the dtype of the rows
    precision: Precision = "double"  # of float32 rows; float64 rows are always "double"
    leading: Array | None = None  # (m, q) orthonormal directions that "single" sums in float64
    mix: Array | None = None  # (m, r): the features are φ(x)·mix, for precision "double" only

    def __getstate__(self) -> dict[str, Any]:
        """Only the fields: what was computed from them is computed again where it is needed."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def placed(self, place: Callable[[Any], Any]) -> Design:
        """The same with its arrays moved by `place` to a device, where sums are as fast in float64."""
        arrays = {name: getattr(self, name) for name in ("landmarks", "mix")}
        moved = {name: place(array) for name, array in arrays.items() if array is not None}
        precision = "mixed" if self.precision == "single" else self.precision
        return replace(self, **moved, precision=precision, leading=None)

    @property
    def size(self) -> int:
        """Number of features."""
        return int((self.landmarks if self.mix is None else self.mix.T).shape[0])

    @property
    def threads(self) -> int | None:
        """How many threads may evaluate the kernel: one, or as many as there are (None)."""
        return None if self.kernel.thread_safe else 1

    @cached_property
    def unit(self) -> float:
        """The size of a feature at its landmark: k(z, z), or √k(z, z) if features are whitened."""
        largest = float(namespace(self.landmarks).max(self.kernel.diagonal(self.landmarks)))
        return largest if self.mix is None else float(np.sqrt(largest))

    @cached_property
    def _bound(self) -> tuple[Tile, Array | None]:
        """The tile function of the landmarks about their mean, and that mean; None if not centred."""
        landmarks = as_float64(self.landmarks) if self.precision == "double" else self.landmarks
        origin = tiles.common_origin(self.kernel, landmarks)
        if origin is None:
            return self.kernel.bind(landmarks), None
        origin = namespace(origin).astype(origin, landmarks.dtype)
        return self.kernel.bind(landmarks - origin[None, :]), origin

    def inner(self) -> Array:
        """The landmark kernel W, float64, where the landmarks are."""
        rows = as_float64(self.landmarks)
        origin = tiles.common_origin(self.kernel, rows)
        rows = rows if origin is None else rows - origin[None, :]
        W = finite_kernel(as_float64(self.kernel(rows, rows)))
        xp = namespace(W)
        size = xp.abs(W)
        # Products of subnormal numbers take a processor a hundred times longer.
        return xp.where(size < _NOTHING * xp.max(size), 0.0 * W, W)

    def tiles(self, rows: Array, dtype: Any) -> Iterator[tuple[slice, Array]]:
        """Feature tiles of consecutive rows in `dtype`; each is overwritten by the next."""
        bound, origin = self._bound
        m = int(self.landmarks.shape[0])
        large = prefers_large_calls(rows)
        dense = not (large or is_sparse(rows))
        cached_rows = max(_FEWEST_TILE_ROWS, _TILE_BYTES // (4 * max(1, m)))
        step = tiles.device_rows(m) if large else cached_rows
        step = min(step, max(1, rows.shape[0]))
        if dense:
            buffer = np.empty((step, m), dtype=np.float64 if self.precision == "double" else rows.dtype)
            cast = buffer if dtype == buffer.dtype else np.empty_like(buffer, dtype=dtype)
        for part in spans(rows.shape[0], step):
            check_stop()
            block = rows[part] if is_sparse(rows) else rows[part, :]
            block = as_float64(block) if self.precision == "double" else block
            block = block if origin is None else block - origin[None, :]
            count = part.stop - part.start
            tile = bound(block, buffer[:count]) if dense else as_float64(bound(block))
            if dense and tile.dtype != dtype:
                np.copyto(cast[:count], tile)
                tile = cast[:count]
            yield part, tile if self.mix is None else tile @ self.mix

    def times(self, rows: Array, matrix: Array | None = None) -> Array:
        """Φ·matrix for a float64 matrix (features, columns), or Φ itself, tile by tile."""
        columns = self.size if matrix is None else int(matrix.shape[1])
        out = zeros((rows.shape[0], columns), self.landmarks)
        for part, tile in self.tiles(rows, np.dtype(np.float64)):
            out[part, ...] = tile if matrix is None else tile @ matrix
        return out


@dataclass(frozen=True)
class Statistics:
    """(1) as float64 arrays, in the library and on the device where the rows were worked on."""

    gram: Array  # A (m, m)
    cross: Array  # c (m, targets)
    border: Array  # s (m,)
    weight: Any  # w, a float or an array of no dimension
    target_sum: Array  # (targets,)
    target_square: Array  # (targets,)
    count: int  # number of rows

    @classmethod
    def total(cls, parts: Sequence[Statistics]) -> Statistics:
        """The statistics of all rows of disjoint sets."""
        return sum(parts[1:], parts[0])

    def less(self, parts: Iterable[Statistics]) -> Statistics:
        """The statistics of the rows that are in none of the disjoint `parts`."""
        remaining = self
        for part in parts:
            remaining = Statistics(*map(sub, vars(remaining).values(), vars(part).values()))
        return remaining

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(*map(add, vars(self).values(), vars(other).values()))

    def __iadd__(self, other: Statistics) -> Statistics:
        """The sum, in the arrays of `self`: for a running sum that nothing else refers to."""
        for name in _ARRAYS:
            total = getattr(self, name)
            total += getattr(other, name)
        return replace(self, weight=self.weight + other.weight, count=self.count + other.count)

    def select(self, index: linalg.Index) -> Statistics:
        """The statistics of the model with only the given basis functions: a slice, no new pass."""
        gram = linalg.submatrix(self.gram, index, index)
        cross = linalg.take_rows(self.cross, index)
        return replace(self, gram=gram, cross=cross, border=linalg.take_rows(self.border, index))

    def on_host(self) -> Statistics:
        """The same in NumPy arrays."""
        arrays: dict[str, Any] = {name: host_array(getattr(self, name)) for name in _ARRAYS}
        return replace(self, weight=float(self.weight), **arrays)

    def rotated(self, T: Array | None) -> Statistics:
        """The statistics in the features φ(x)·T, or as they are."""
        if T is None:
            return self
        gram = T.T @ self.gram @ T
        return replace(self, gram=gram, cross=T.T @ self.cross, border=T.T @ self.border)


def holds_groups(count: int, m: int) -> bool:
    """Whether the statistics of `count` groups of rows are held in memory together."""
    return 8 * count * m * m <= _GROUP_BYTES


@dataclass(frozen=True)
class _BlockStatistics:
    """Block → (1), wherever blocks are worked on. O(rows · m²) time."""

    design: Design

    def __call__(self, block: Block) -> Statistics:
        Y = block.Y
        root = block.root
        size = int(block.X.shape[0])
        xp = namespace(Y)
        t = int(Y.shape[1])
        # A further target, the constant 1, gives the border.
        columns = xp.concat([Y, linalg.ones(size, Y)[:, None]], axis=1)
        if root is not None:
            columns = columns * root[:, None]
        sums = _single_sums if self.design.precision == "single" else _double_sums
        gram, cross = sums(self.design, block.X, columns, root)
        weighted = columns[:, :t]
        return Statistics(
            gram,
            cross[:, :t],
            cross[:, t],
            float(size) if root is None else root @ root,
            xp.sum(weighted if root is None else root[:, None] * weighted, axis=0),
            xp.sum(weighted * weighted, axis=0),
            size,
        )

    def zero(self, targets: int, reference: Array) -> Statistics:
        m = self.design.size
        shapes = ((m, m), (m, targets), (m,), (targets,), (targets,))
        gram, cross, border, sums, squares = (zeros(shape, reference) for shape in shapes)
        return Statistics(gram, cross, border, 0.0, sums, squares, 0)

    def placed(self, place: Callable[[Any], Any]) -> _BlockStatistics:
        return _BlockStatistics(self.design.placed(place))


def _double_sums(design: Design, rows: Array, columns: Array, root: Array | None) -> tuple[Array, Array]:
    """ΦᵀΦ and Φᵀ·columns in float64, the rows of Φ times `root`, in any array library."""
    m = design.size
    gram = zeros((m, m), columns)
    cross = zeros((m, columns.shape[1]), columns)
    for part, tile in design.tiles(rows, np.dtype(np.float64)):
        if root is not None:
            tile *= root[part][:, None]
        cross += tile.T @ columns[part, :]
        if not prefers_large_calls(tile):  # on a device, finding such rows takes longer than adding them
            unit = design.unit if root is None else design.unit * root[part]
            tile = _without_unseen(np.ascontiguousarray(tile), unit)
        add_gram(gram, tile)
    return mirror(gram), cross


def _single_sums(design: Design, rows: Array, columns: Any, root: Any | None) -> tuple[Array, Array]:
    r"""The same, summed in float32 over a few rows at a time.

    With leading directions U, Φ = Φ' + P Uᵀ, P = Φ U: only Φ', whose entries are small, is summed in
    float32,

        (2)  ΦᵀΦ = Φ'ᵀΦ' + U (PᵀΦ') + (PᵀΦ')ᵀ Uᵀ + U (PᵀP) Uᵀ
    """
    m = design.size
    float32 = np.dtype(np.float32)
    gram = np.zeros((m, m))
    pending_gram = np.zeros((m, m), dtype=float32)
    cross = np.zeros((m, columns.shape[1]))
    single_columns = columns.astype(float32)
    U: Any = np.zeros((m, 0), dtype=float32) if design.leading is None else design.leading
    q = U.shape[1]
    leading_feature_sums = np.zeros((q, m))
    leading_gram = np.zeros((q, q))
    leading_cross = np.zeros((q, columns.shape[1]))
    pending_rows = 0
    unit = design.unit
    for part, tile in design.tiles(rows, float32):
        if root is not None:
            tile *= root[part, None].astype(float32)
        tile = np.ascontiguousarray(tile)
        if q:
            P = tile @ U
            tile -= P @ U.T
            leading_feature_sums += P.T @ tile
            P = P.astype(np.float64)
            leading_gram += P.T @ P
            leading_cross += P.T @ columns[part]
        cross += tile.T @ single_columns[part]
        tile = _without_unseen(tile, unit if root is None else unit * root[part])
        if not tile.shape[0]:
            continue
        add_gram(pending_gram, tile, overwrite=pending_rows == 0)
        pending_rows += tile.shape[0]
        if pending_rows >= _FLUSH_ROWS:
            add_lower(gram, pending_gram)
            pending_rows = 0
    if pending_rows:
        add_lower(gram, pending_gram)
    mirror(gram)
    if q:  # the last three terms of (2)
        U = U.astype(np.float64)
        half = U @ (leading_feature_sums + 0.5 * leading_gram @ U.T)
        gram += half
        gram += half.T
        cross += U @ leading_cross
    return gram, cross


def _without_unseen(tile: HostArray, unit: Any) -> HostArray:
    """The tile without the rows that no landmark is near, if they are many.

    `unit` is the size of a feature at its landmark, for each row if these have weights.
    """
    unseen = tile.max(axis=1, initial=0.0) <= _UNSEEN * unit
    if np.count_nonzero(unseen) < tile.shape[0] * _UNSEEN_SHARE:
        return tile
    unseen &= tile.min(axis=1, initial=0.0) >= -_UNSEEN * unit
    return tile[~unseen]


def collect(design: Design, rows: Rows, groups: Groups | None = None) -> list[Statistics]:
    """The statistics of each group of rows, or of all, in one pass. O(n m²) time, memory without n."""
    with limit_blas(1):
        totals = rows.sums(_BlockStatistics(design), groups, at_most=design.threads)
    finite_kernel([total.gram for total in totals])
    return totals


@dataclass(frozen=True)
class _BlockPredictions:
    """Block → Φ·coefficients of its group, or Φ itself."""

    design: Design
    coefficients: Sequence[Array | None]

    def __call__(self, block: Block) -> Array:
        return self.design.times(block.X, self.coefficients[block.group])

    def placed(self, place: Callable[[Any], Any]) -> _BlockPredictions:
        moved = [None if matrix is None else place(matrix) for matrix in self.coefficients]
        return _BlockPredictions(self.design.placed(place), moved)


def features_of(design: Design, rows: Rows, matrix: Array | None = None) -> HostArray:
    """Φ of all rows (n, features), or Φ·matrix, in host memory."""
    columns = design.size if matrix is None else int(matrix.shape[1])
    return rows.table(_BlockPredictions(design, [matrix]), columns, at_most=design.threads)


def predict_groups(
    design: Design, rows: Rows, coefficients: Sequence[Array | None], groups: Groups | None = None
) -> Iterator[tuple[int, Any, Array]]:
    """Yield (group, rows, Φ·coefficients[group]) block by block; None skips a group."""
    selected = {group for group, matrix in enumerate(coefficients) if matrix is not None}
    function = _BlockPredictions(design, coefficients)
    yield from rows.map(function, groups, selected=selected, at_most=design.threads)
