r"""The first column of a Toeplitz matrix: of a uniform series, or by averaging diagonals.

The Toeplitz matrix nearest to K in the Frobenius norm has on each diagonal its mean over K
(decherchi2010, Lemma 2). The means are taken tile by tile: all n²/2 kernel values once, O(n) memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.kernels import Kernel, Precomputed
from onefold.kernels.tiles import common_origin, tile_side
from onefold.linalg import is_sparse
from onefold.machine.threads import check_stop, limit_blas, map_in_order, spans

STEP_TOLERANCE = 1e-6  # of the step: how far a point may lie from its place in a uniform series
_LAGS, _PER_LAG = 64, 64  # pairs of rows that tell whether rows are in order


@dataclass(frozen=True)
class UniformSeries:
    """Equally spaced points: in sorted order x_{order[i]} = start + i·step."""

    order: Any
    step: float

    def column(self, kernel: Kernel) -> Any:
        """t_j = k(0, j·step)."""
        lags = self.step * np.arange(self.order.size, dtype=np.float64)
        return kernel(np.zeros((1, 1)), lags[:, None])[0]


def uniform_series(X: Any) -> UniformSeries | None:
    """The series behind one-dimensional, equally spaced rows in any order; None if they are not.

    Every point lies within 1e-6 of a step of its place, or within what the rounding of X's own dtype
    explains (4 eps·max|x|, at most a tenth of a step).
    """
    if is_sparse(X) or X.ndim != 2 or X.shape[1] != 1:
        return None
    eps = np.finfo(X.dtype).eps if X.dtype.kind == "f" else 0.0
    x = np.asarray(X[:, 0], dtype=np.float64)
    n = x.size
    order = np.argsort(x, kind="stable")
    if n == 1:
        return UniformSeries(order, 1.0)
    x = x[order]
    step = float(x[-1] - x[0]) / (n - 1)
    rounding = min(4.0 * float(eps) * float(np.abs(x[[0, -1]]).max()), step / 10)
    places = x[0] + step * np.arange(n)
    if step <= 0 or np.abs(x - places).max() > max(STEP_TOLERANCE * step, rounding):
        return None
    return UniformSeries(order, step)


def unexplained_by_lag(kernel: Kernel, X: Any) -> float:
    """The share of the variance of K's entries that remains along its diagonals: none for Toeplitz.

    Of a stationary kernel the distances between rows are looked at instead, which holds for every
    width. A fixed sample of 4096 pairs, lags up to n/2.
    """
    n = X.shape[0]
    if n < 4:
        return 0.0
    generator = np.random.default_rng(0)
    lags = generator.integers(1, n // 2, size=_LAGS, endpoint=True)
    first = (generator.random((_LAGS, _PER_LAG)) * (n - lags)[:, None]).astype(np.intp)
    second = first + lags[:, None]
    if kernel.stationary and kernel.one_width:
        values = _distances(X[first.ravel()], X[second.ravel()]).reshape(first.shape)
    else:
        values = _entries(kernel, X, first, second)
    total = float(np.var(values))
    return float(np.mean(np.var(values, axis=1))) / total if total > 0 else 0.0


def _distances(A: Any, B: Any) -> Any:
    if is_sparse(A):
        difference = A.astype(np.float64) - B.astype(np.float64)
        return np.sqrt(np.asarray(difference.multiply(difference).sum(axis=1)).ravel())
    return np.linalg.norm(A.astype(np.float64) - B.astype(np.float64), axis=1)


def diagonal_means(kernel: Kernel, X: Any) -> tuple[Any, float]:
    """Mean of each diagonal of K over all its entries, and ‖K − T‖_F / ‖K‖_F for T of these means.

    O(n²) kernel values, O(n) memory.
    """
    n = X.shape[0]
    origin = None if isinstance(kernel, Precomputed) else common_origin(kernel, X)
    parts = list(spans(n, tile_side()))

    def strip(index: int) -> tuple[Any, float]:
        """Sums along the diagonals of the tiles right of the diagonal in one strip."""
        sums, squares = np.zeros(n), 0.0
        rows = parts[index]
        left = None if isinstance(kernel, Precomputed) else _rows(X, rows, origin)
        for columns in parts[index:]:
            check_stop()
            if left is None:
                tile = np.asarray(X[rows, columns], dtype=np.float64)
            else:
                same = columns is rows
                tile = kernel(left, left if same else _rows(X, columns, origin))
            weight = 1.0 if columns is rows else 2.0
            squares += weight * float(np.einsum("ij,ij->", tile, tile))
            _add_diagonals(sums, tile, columns.start - rows.start)
        return sums, squares

    total, squares = np.zeros(n), 0.0
    threads = None if kernel.thread_safe and len(parts) > 1 else 1
    with limit_blas(1):  # the same digits whatever the number of threads
        for sums, square in map_in_order(strip, range(len(parts)), threads):
            total += sums
            squares += square
    length = n - np.arange(n)
    column = total / length
    kept = float(np.sum(np.where(np.arange(n) > 0, 2, 1) * length * column**2))
    distance = np.sqrt(max(squares - kept, 0.0) / squares) if squares > 0 else 0.0
    return column, float(distance)


def _add_diagonals(sums: Any, tile: Any, offset: int) -> None:
    """Add the sums of a tile's diagonals; its first entry lies on diagonal `offset` ≥ 0 of K."""
    p, q = tile.shape
    # Rows upside down in a frame one column too wide for the next reshape: entry (r, c) moves to
    # column r + c, so that diagonals become columns.
    frame = np.zeros((p, q + p))
    frame[:, :q] = tile[::-1]
    skewed = frame.ravel()[: p * (q + p - 1)].reshape(p, q + p - 1).sum(axis=0)
    first = offset - (p - 1)  # the diagonal of skewed[0]
    skip = max(0, -first)  # what lies left of K's main diagonal was counted on the right
    sums[first + skip : first + q + p - 1] += skewed[skip:]


def _entries(kernel: Kernel, X: Any, i: Any, j: Any) -> Any:
    """K at the given places."""
    if isinstance(kernel, Precomputed):
        return np.asarray(X[i, j], dtype=np.float64)
    shape = i.shape
    rows = X.astype(np.float64) if X.dtype != np.float64 else X
    return kernel.pairs(rows[i.ravel()], rows[j.ravel()]).reshape(shape)


def _rows(X: Any, part: slice, origin: Any | None) -> Any:
    rows = X[part].astype(np.float64, copy=False)
    return rows if origin is None else rows - origin[None, :]
