r"""The tile exp(−Σ_f |a_f − b_f|) of libraries other than NumPy: fused on CUDA, by columns elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from array_api_compat import is_cupy_array, is_torch_array

from onefold.linalg.arrays import Array, namespace, on_accelerator
from onefold.linalg.inplace import abs_in_place, difference_into, exp_in_place

L1Tile: TypeAlias = Callable[[Array, "Array | None"], Array]
"""left, out → tile (rows, m), in `out` where it fits and that is simple."""


def device_tile(right: Array) -> L1Tile:
    """The function of rows for landmarks `right` (m, d), see :func:`onefold.linalg.l1_exponentials`."""
    tile = _tile_for(right)
    columns = namespace(right).asarray(right.T, copy=True)
    return lambda left, out: tile(left, columns, out)


def _tile_for(right: Array) -> Callable[[Array, Array, Array | None], Array]:
    xp = namespace(right)
    if not on_accelerator(right) or right.dtype not in (xp.float32, xp.float64):
        return _by_columns
    if is_cupy_array(right):
        return _with_cupy
    triton = _triton() if is_torch_array(right) else None
    return _by_columns if triton is None else triton.exponentials


@cache
def _triton() -> Any | None:
    """The Triton kernel, or None where Triton is missing or finds no C compiler for its launcher."""
    try:
        from onefold.linalg import l1_triton

        l1_triton.try_out()
    except (ImportError, RuntimeError, OSError):
        return None
    return l1_triton


def _by_columns(left: Array, columns: Array, out: Array | None) -> Array:
    def pair(feature: int) -> tuple[Array, Array]:
        return left[:, feature][:, None], columns[feature, :][None, :]

    first, second = pair(0)
    difference = first - second
    total = -abs(difference)
    for feature in range(1, left.shape[1]):  # no (n, m, d) array, and one of scratch
        difference = abs_in_place(difference_into(*pair(feature), difference))
        total -= difference
    return exp_in_place(total)


def _with_cupy(left: Array, columns: Array, out: Array | None) -> Array:
    xp = namespace(left)
    (n, d), m, dtype = left.shape, columns.shape[1], xp.result_type(left, columns)
    with left.device:  # the current one may be another
        tile = xp.empty((n, m), dtype=dtype)
        rows, right = (xp.ascontiguousarray(a.astype(dtype, copy=False)) for a in (left, columns))
        _cupy_kernel()(rows, right, n, m, d, tile, size=-(-n // 8) * m)
    return tile


@cache
def _cupy_kernel() -> Any:
    """Eight rows and one column for each thread: a landmark's number serves eight differences."""
    import cupy

    return cupy.ElementwiseKernel(
        "raw T left, raw T right, int64 rows, int64 columns, int64 features",
        "raw T tile",
        """
        const long long first = i / columns * 8, column = i % columns;
        T total[8] = {};
        for (long long f = 0; f < features; ++f) {
            const T b = right[f * columns + column];
            #pragma unroll
            for (int r = 0; r < 8; ++r)
                total[r] -= fabs(left[min(first + r, (long long)rows - 1) * features + f] - b);
        }
        #pragma unroll
        for (int r = 0; r < 8; ++r)
            if (first + r < rows) tile[(first + r) * columns + column] = exp(total[r]);
        """,
        "onefold_l1_exponentials",
    )
