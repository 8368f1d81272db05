"""Kernel matrices and kernel products, tile by tile, with bounded scratch memory.

Scratch follows scikit-learn's ``working_memory`` setting
(``sklearn.set_config(working_memory=MiB)``); a tile is also kept small enough to stay in cache.
Tiles run on Python threads, since NumPy's products and exponentials release the interpreter lock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn import get_config

from onefold.kernels.base import Kernel, Precomputed, Tile
from onefold.linalg import Array, as_float64, is_sparse, namespace, prefers_large_calls, zeros
from onefold.machine.threads import check_stop, even_spans, limit_blas, map_threads, spans

# Bytes of a tile: larger ones gain nothing from BLAS and fall out of cache.
CACHE_TILE = 8 * 2**20
# Numbers of a tile of few rows: the allocator reuses so little memory at once.
_FEW_NUMBERS = 2**15
# Rows of a tile that are transposed at a time: cache lines are filled before they are evicted.
_LINE = 16
# Bytes of a tile on a device.
_DEVICE_TILE = 2**29
# Bytes of a block of rows with the numbers that are computed for them.
_BLOCK = 2**27
# Values that are not finite raise no warning: callers check the result.
_QUIET = np.errstate(over="ignore", invalid="ignore")
# Error of a user's function that computes in single precision, as a share of the largest value.
_SINGLE = 1e-6
# Arrays of tile size that a kernel holds at a time, at most.
_TILES_ALIVE = 4
# The smallest scale that a relative difference is measured against: a kernel may be 0 everywhere.
_TINY = 1e-300


def tile_side() -> int:
    """Side of a square float64 tile within the scratch limit.

    It does not depend on `n_jobs`, because the last digits of a product depend on its tiles.
    """
    return max(16, math.isqrt(int(min(_scratch() / _TILES_ALIVE, CACHE_TILE) / 8)))


def device_rows(m: int) -> int:
    """Rows of a tile of `m` columns in another array library; small tiles would leave a device idle."""
    return max(1024, int(min(_scratch() / 2, _DEVICE_TILE) / (8 * max(1, m))))


def block_rows(numbers: int) -> int:
    """Rows of a block with this many float64 numbers for each row, of which there may be copies."""
    return max(16, int(min(_scratch() / _TILES_ALIVE, _BLOCK) / (8 * max(1, numbers))))


def _scratch() -> float:
    return float(get_config()["working_memory"]) * 2**20


def common_origin(kernel: Kernel, X: Array) -> Array | None:
    """The mean row, about which a stationary kernel computes rows far from 0 without loss of digits."""
    if not kernel.stationary or is_sparse(X) or X.shape[0] == 0:
        return None
    return namespace(X).mean(as_float64(X), axis=0)


def _rows(X: Array, part: slice, origin: Array | None) -> Array:
    rows = as_float64(X[part] if is_sparse(X) else X[part, :])
    if origin is None:
        return rows
    # A sparse *matrix* minus an array is an np.matrix, whose * is the matrix product.
    return np.asarray(rows - origin[None, :]) if is_sparse(rows) else rows - origin[None, :]


def gram(kernel: Kernel, X: Array) -> Array:
    """K = [k(x_i, x_j)] in float64: O(n² d) time; each pair of rows once; K and some tiles of memory."""
    if isinstance(kernel, Precomputed):
        # In C order also where the user's matrix is not: smoothers add to its diagonal in place.
        K = zeros(X.shape, X)
        K[...] = X
        return K
    n = X.shape[0]
    origin = common_origin(kernel, X)
    if prefers_large_calls(X):
        return _queued_gram(kernel, _rows(X, slice(0, n), origin))
    parts = [(part, _rows(X, part, origin)) for part in spans(n, tile_side())]
    bind = _QUIET(kernel.bind)
    bound = [bind(rows) for _, rows in parts] if len(parts) > 1 else []
    K = np.empty((n, n))

    @_QUIET
    def fill(pair: tuple[int, int]) -> None:
        i, row_block = parts[pair[0]]
        j, column_block = parts[pair[1]]
        if i == j:
            half = kernel(row_block, column_block) / 2
            if not kernel.always_psd:
                check_symmetric(half, half.T, float(np.max(np.abs(half))))
            np.add(half, half.T, out=K[i, i])  # the same digits on both sides of the diagonal
            return
        tile = bound[pair[1]](row_block, K[i, j])
        if tile.base is not K:
            K[i, j] = tile
        for strip in spans(tile.shape[0], _LINE):
            K[j, i][:, strip] = tile[strip].T

    _fill_parts(fill, [(i, j) for i in range(len(parts)) for j in range(i + 1)], kernel)
    return K


def check_symmetric(part: Array, mirrored: Array, scale: float, tolerance: float = _SINGLE) -> None:
    """Raise where k(a, b) and k(b, a) differ; NaN passes, since it is refused elsewhere."""
    xp = namespace(part)
    if float(xp.max(xp.abs(part - mirrored))) > tolerance * max(scale, _TINY):
        raise ValueError("the kernel matrix is not symmetric; a kernel must have k(a, b) = k(b, a).")


def _queued_gram(kernel: Kernel, rows: Array) -> Array:
    """K on a device, in strips of rows that are written to their place."""
    n = rows.shape[0]
    step = device_rows(n)
    if n <= step:
        return kernel(rows, rows)
    tile = kernel.bind(rows)
    K = zeros((n, n), rows)
    for part in spans(n, step):
        check_stop()
        block = rows[part, :]
        out = K[part, :]
        values = tile(block, out)
        if values is not out:
            K[part, :] = values
        K[part, part] = kernel(block, block)  # here the distance of a row to itself is exactly 0
    return K


def kernel_product(kernel: Kernel, X: Array, centres: Array, coef: Array) -> Array:
    """[k(x_i, z_j)] · coef for coef (m, t): O(n m (d + t)) time, scratch within working_memory."""
    n = X.shape[0]
    m = centres.shape[0]
    out = zeros((X.shape[0], coef.shape[1]), coef)
    origin = common_origin(kernel, centres)
    if prefers_large_calls(X):
        tile = kernel.bind(_rows(centres, slice(0, m), origin))
        for part in spans(n, device_rows(m)):
            out[part, :] = tile(_rows(X, part, origin)) @ coef
        return out

    @_QUIET
    def fill(bound: list[tuple[slice, Tile]], part: slice) -> None:
        rows = _rows(X, part, origin)
        buffer = np.empty(rows.shape[0] * max(column.stop - column.start for column, _ in bound))
        for column, tile in bound:
            check_stop()
            shape = rows.shape[0], column.stop - column.start
            values = tile(rows, buffer[: math.prod(shape)].reshape(shape))
            out[part] += values @ coef[column]

    parts = list(spans(n, tile_side()))
    for columns in _column_batches(n, m, centres.shape[1]):
        bind = _QUIET(kernel.bind)
        bound = [(column, bind(_rows(centres, column, origin))) for column in columns]
        _fill_parts(partial(fill, bound), parts, kernel)
    return out


def gradient_product(kernel: Kernel, X: Array, centres: Array, coef: Array) -> Array:
    """Σ_j ∇ₓ k(x_i, z_j) coef_jt (n, d, t): O(n m d t) time; sparse rows are made dense tile by tile."""
    n, d = X.shape
    m = centres.shape[0]
    t = coef.shape[1]
    out = zeros((n, d, t), coef)
    if prefers_large_calls(X):
        rows = _rows(centres, slice(0, m), None)
        for part in spans(n, device_rows(m * max(1, t))):
            out[part, ...] = kernel.gradient(_rows(X, part, None), rows, coef)
        return out

    def dense(rows: Array) -> Array:
        return rows.toarray() if is_sparse(rows) else rows

    @_QUIET
    def fill(part: slice) -> None:
        rows = dense(_rows(X, part, None))
        for column in even_spans(m, tile_side()):
            check_stop()
            out[part] += kernel.gradient(rows, dense(_rows(centres, column, None)), coef[column])

    # An even number of tiles of the same length, the work of two threads; few rows are one tile.
    pairs = -(-n // (2 * tile_side()))
    length = n if n <= tile_side() // 4 else -(-n // (2 * pairs))
    _fill_parts(fill, list(spans(n, max(1, length))), kernel)
    return out


def _column_batches(n: int, m: int, features: int) -> Iterator[list[slice]]:
    """Column tiles for n rows, wider where rows are few, in batches that fit into scratch memory."""
    side = tile_side()
    room = int(_scratch() / (_TILES_ALIVE * 8 * (features + 2)))
    width = max(side, min(_FEW_NUMBERS // max(1, n), room))
    columns = list(spans(m, width))
    size = max(1, room // width)
    return (columns[start : start + size] for start in range(0, len(columns), size))


def _fill_parts(fill: Callable[[Any], None], parts: Sequence[Any], kernel: Kernel) -> None:
    """Fill all parts, on threads.

    For several parts BLAS has one thread, even where one worker fills them: the digits stay the same.
    """
    several = len(parts) > 1
    room = int(_scratch() / (_TILES_ALIVE * 8 * tile_side() ** 2))  # tiles within the scratch limit
    at_most = max(1, room) if kernel.thread_safe and several else 1
    with limit_blas(1 if several else None):
        for _ in map_threads(fill, parts, at_most):
            pass
