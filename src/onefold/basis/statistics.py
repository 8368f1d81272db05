r"""Sufficient statistics of a basis model, f(x) = φ(x)·β + b, over a set of rows with weights v.

    A = Φᵀ V Φ,   c = Φᵀ V Y,   s = Φᵀ V 1,   w = 1ᵀ V 1,   Σ v y,   Σ v y²

They add over rows: those of a union of disjoint sets are the sum, those of the rest the difference.
Training without a fold is therefore a subtraction, whatever the number of rows.

One pass over row blocks collects them: block → statistics is a pure function, and the sum, group by
group, is made in the order of the rows, so that it has the same digits whatever ran side by side. Within
a block each tile of features is added while it is in cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import add, sub
from typing import Any

import numpy as np

from onefold.basis.design import Design, finite_kernel
from onefold.linalg import Array, is_foreign, namespace, ones, submatrix, take_rows, to_numpy, zeros
from onefold.linalg.dense import add_gram, add_lower, mirror
from onefold.machine.threads import limit_blas
from onefold.rows import Block, Groups, Rows

_GROUP_BYTES = 2**30  # for the Gram matrices of all groups together
_FLUSH_ROWS = 2048  # float32 sums are moved to float64 this often
_UNSEEN = 2.0**-30  # of the features' unit: rows below add at most n · 2⁻⁶⁰ to any entry of ΦᵀΦ
_ARRAYS = ("gram", "cross", "border", "target_sum", "target_square")


@dataclass(frozen=True)
class Statistics:
    """Float64 arrays, in the library and on the device where the rows were worked on."""

    gram: Any  # A (m, m)
    cross: Any  # c (m, targets)
    border: Any  # s (m,)
    weight: Any  # w, a float or an array of no dimension
    target_sum: Any  # (targets,)
    target_square: Any  # (targets,)
    count: int  # number of rows

    @classmethod
    def total(cls, parts: Sequence[Statistics]) -> Statistics:
        """The statistics of all rows of disjoint sets."""
        return sum(parts[1:], parts[0])

    def less(self, parts: Iterable[Statistics]) -> Statistics:
        """The statistics of the rows that are in none of the disjoint `parts`."""
        rest = self
        for part in parts:
            rest = Statistics(*map(sub, vars(rest).values(), vars(part).values()))
        return rest

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(*map(add, vars(self).values(), vars(other).values()))

    def absorb(self, other: Statistics) -> Statistics:
        """``self + other``, over the arrays of `self`: for a running sum that nobody else holds."""
        for name in _ARRAYS:
            mine = getattr(self, name)
            mine += getattr(other, name)
        return replace(self, weight=self.weight + other.weight, count=self.count + other.count)

    def select(self, index: Any) -> Statistics:
        """The statistics of the model with only the given basis functions: a slice, no new pass."""
        gram, cross = submatrix(self.gram, index, index), take_rows(self.cross, index)
        return replace(self, gram=gram, cross=cross, border=take_rows(self.border, index))

    def on_host(self) -> Statistics:
        """The same in NumPy arrays."""
        arrays = {name: to_numpy(getattr(self, name)) for name in _ARRAYS}
        return replace(self, weight=float(self.weight), **arrays)

    def rotated(self, T: Array | None) -> Statistics:
        """The statistics in the features φ(x)·T, or as they are."""
        if T is None:
            return self
        gram = T.T @ self.gram @ T
        return replace(self, gram=gram, cross=T.T @ self.cross, border=T.T @ self.border)


def holds_groups(count: int, m: int) -> bool:
    """Whether the statistics of `count` groups of rows are held side by side."""
    return 8 * count * m * m <= _GROUP_BYTES


@dataclass(frozen=True)
class _BlockStatistics:
    """Block → statistics, wherever blocks are worked on. O(rows · m²) time."""

    design: Design

    def __call__(self, block: Block) -> Statistics:
        Y, root, size = block.Y, block.root, int(block.X.shape[0])
        xp, t = namespace(Y), int(Y.shape[1])
        # One more target, the constant 1, gives the border.
        wanted = xp.concat([Y, ones(size, Y)[:, None]], axis=1)
        if root is not None:
            wanted = wanted * root[:, None]
        single = self.design.precision == "single" and not is_foreign(Y)
        gram, small = (_single_sums if single else _double_sums)(self.design, block.X, wanted, root)
        weighted = wanted[:, :t]
        return Statistics(
            gram,
            small[:, :t],
            small[:, t],
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


def _double_sums(design: Design, rows: Array, wanted: Any, root: Any | None) -> tuple[Any, Any]:
    """ΦᵀΦ and Φᵀ·wanted in float64, the rows of Φ times `root`, in any array library."""
    m = design.size
    gram, small = zeros((m, m), wanted), zeros((m, wanted.shape[1]), wanted)
    for part, tile in design.tiles(rows, np.dtype(np.float64)):
        if root is not None:
            tile *= root[part][:, None]
        small += tile.T @ wanted[part, :]
        if not is_foreign(tile):  # elsewhere, to find such rows takes longer than to add them
            unit = design.unit if root is None else design.unit * root[part]
            tile = _without_unseen(np.ascontiguousarray(tile), unit)
        add_gram(gram, tile)
    return mirror(gram), small


def _single_sums(design: Design, rows: Array, wanted: Any, root: Any | None) -> tuple[Any, Any]:
    r"""The same, summed in float32 over short runs.

    With leading directions U, Φ = Φ' + P Uᵀ, P = Φ U: only Φ' of small entries is summed in float32,
    ΦᵀΦ = Φ'ᵀΦ' + U (PᵀΦ') + (PᵀΦ')ᵀ Uᵀ + U (PᵀP) Uᵀ.
    """
    m, single = design.size, np.dtype(np.float32)
    gram, run = np.zeros((m, m)), np.zeros((m, m), dtype=single)
    small, narrow = np.zeros((m, wanted.shape[1])), wanted.astype(single)
    U = np.zeros((m, 0), dtype=single) if design.leading is None else design.leading
    q = U.shape[1]
    across, corner, apart = np.zeros((q, m)), np.zeros((q, q)), np.zeros((q, wanted.shape[1]))
    pending, unit = 0, design.unit
    for part, tile in design.tiles(rows, single):
        if root is not None:
            tile *= root[part, None].astype(single)
        tile = np.ascontiguousarray(tile)
        if q:
            P = tile @ U
            tile -= P @ U.T
            across += P.T @ tile
            wide = P.astype(np.float64)
            corner += wide.T @ wide
            apart += wide.T @ wanted[part]
        small += tile.T @ narrow[part]
        tile = _without_unseen(tile, unit if root is None else unit * root[part])
        if not tile.shape[0]:
            continue
        add_gram(run, tile, fresh=pending == 0)
        pending += tile.shape[0]
        if pending >= _FLUSH_ROWS:
            add_lower(gram, run)
            pending = 0
    if pending:
        add_lower(gram, run)
    mirror(gram)
    if q:
        wide = U.astype(np.float64)
        mixed = wide @ (across + 0.5 * corner @ wide.T)
        gram += mixed
        gram += mixed.T
        small += wide @ apart
    return gram, small


def _without_unseen(tile: Any, unit: Any) -> Any:
    """The tile without rows that no landmark sees, where they are many: with a narrow kernel most are.

    `unit` is the size of a feature that a landmark sees in full, times √weight of each row.
    """
    unseen = tile.max(axis=1, initial=0.0) <= _UNSEEN * unit
    if np.count_nonzero(unseen) < tile.shape[0] / 8:
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
    coefficients: Sequence[Any]

    def __call__(self, block: Block) -> Any:
        return self.design.times(block.X, self.coefficients[block.group])

    def placed(self, place: Callable[[Any], Any]) -> _BlockPredictions:
        moved = [None if matrix is None else place(matrix) for matrix in self.coefficients]
        return _BlockPredictions(self.design.placed(place), moved)


def features_of(design: Design, rows: Rows) -> Any:
    """Φ of all rows (n, features), in host memory."""
    out = np.empty((rows.n, design.size))
    for _, some, values in rows.map(_BlockPredictions(design, [None]), at_most=design.threads):
        out[some] = to_numpy(values)
    return out


def predict_groups(
    design: Design, rows: Rows, coefficients: Sequence[Any], groups: Groups | None = None
) -> Iterator[tuple[int, Any, Any]]:
    """Yield (group, rows, Φ·coefficients[group]) block by block; None skips a group."""
    wanted = {group for group, matrix in enumerate(coefficients) if matrix is not None}
    function = _BlockPredictions(design, coefficients)
    yield from rows.map(function, groups, wanted=wanted, at_most=design.threads)
