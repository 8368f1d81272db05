r"""The first row u of the multilevel circulant matrix, in O(p n).

    t_j = k((j_s h_s)_s, 0),    u_j = Σ_{l ∈ D_j} t_l,    D_j = Π_s {0} if j_s = 0 else {j_s, n_s − j_s}

[ding2011]_ equations 12 to 14. D_j is a product of *sets*: where 2 j_s = n_s the two elements
coincide and count once. One axis is folded at a time, so that nothing costs 2^p n.
"""

from __future__ import annotations

import math

import numpy as np

from onefold.kernels import Kernel
from onefold.linalg import Array, is_foreign, like, namespace
from onefold.machine.threads import map_threads, spans

_CHUNK = 2**15  # kernel values evaluated at a time, to stay in cache


def first_row(
    kernel: Kernel,
    shape: tuple[int, ...],
    spacing: tuple[float, ...],
    reference: Array,
) -> Array:
    """U's first row as an array of the given shape, beside `reference`."""
    axes = [like(np.arange(levels) * h, reference) for levels, h in zip(shape, spacing)]
    if is_foreign(reference):
        values = kernel.on_grid(axes)
        for axis, levels in enumerate(shape):
            values = _folded(values, axis, levels)
        return values
    values = np.empty(shape)
    step = max(1, _CHUNK // max(1, math.prod(shape[1:])))

    def fill(part: slice) -> None:
        values[part] = kernel.on_grid([axes[0][part], *axes[1:]])

    for _ in map_threads(fill, spans(shape[0], step), None if values.size > 2 * _CHUNK else 1):
        pass
    for axis in range(len(shape)):
        _fold_in_place(np.moveaxis(values, axis, 0))
    return values


def _fold_in_place(values: Array) -> None:
    """v_j + v_{n−j} in both places, for every pair of distinct j and n − j."""
    n = values.shape[0]
    low, high = values[1 : (n + 1) // 2], values[: n // 2 : -1]
    low += high
    high[...] = low


def _folded(values: Array, axis: int, n: int) -> Array:
    xp = namespace(values)
    mirrored = xp.roll(xp.flip(values, axis=axis), 1, axis=axis)
    j = np.arange(n)
    paired = like((j != 0) & (2 * j != n), values)
    return values + mirrored * xp.reshape(paired, (n,) + (1,) * (values.ndim - axis - 1))
