"""Passes over a large array in the memory it already has, where its library can write there.

NumPy, CuPy and torch take ``out=``; elsewhere a new array is returned. On a device the time of a kernel
tile is the number of passes over it, and none of these waits for the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_cupy_array, is_numpy_array, is_torch_array

from onefold.linalg.arrays import Array, device_of, namespace


def _takes_out(x: Array) -> bool:
    return bool(is_numpy_array(x) or is_torch_array(x) or is_cupy_array(x))


def product_into(left: Array, right: Array, out: Array | None = None) -> Any:
    """The product left · right, in `out` where there is one of that dtype."""
    if out is None or not _takes_out(left) or out.dtype != left.dtype or left.dtype != right.dtype:
        return left @ right
    return namespace(left).matmul(left, right, out=out)


def difference_into(left: Array, right: Array, out: Array) -> Any:
    """The difference left − right, in `out`, which has the shape and the dtype of the result."""
    return namespace(left).subtract(left, right, out=out) if _takes_out(left) else left - right


def in_place(name: str, x: Array) -> Any:
    """The function "exp", "sqrt" or "abs" of every entry."""
    function = getattr(namespace(x), name)
    return function(x, out=x) if _takes_out(x) else function(x)


def clip_in_place(x: Any, least: float | None, most: float | None) -> Any:
    """`x` between two limits, of which one may be None."""
    if is_torch_array(x):
        return x.clamp_(least, most)
    if _takes_out(x):
        return x.clip(least, most, out=x)
    return namespace(x).clip(x, least, most)


def zero_diagonal(x: Array) -> Any:
    """`x` (n, n), C-ordered, with zeros on its diagonal."""
    if is_numpy_array(x):
        np.fill_diagonal(x, 0)
        return x
    xp = namespace(x)
    if _takes_out(x):
        xp.reshape(x, (-1,))[:: x.shape[0] + 1] = 0
        return x
    return xp.where(xp.eye(x.shape[0], dtype=xp.bool, device=device_of(x)), xp.zeros_like(x), x)
