r"""The tile exp(−Σ_f |a_f − b_f|) outside NumPy: fused for torch on CUDA, by columns elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from array_api_compat import is_torch_array

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
