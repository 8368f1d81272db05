r"""Sums of absolute differences between rows and landmarks, Σ_f |a_f − b_f|, and of their signs.

No matrix product gives them: n · m · d differences are formed one by one, in one pass over a tile.

    NumPy           loops compiled by Numba where it is installed, SciPy's cdist in float64 otherwise
    torch on CUDA   a Triton kernel, the exponential included
    elsewhere       column by column, in place where the library can
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from onefold.linalg.arrays import Array, difference_into, in_place, is_numpy, namespace, on_accelerator
from onefold.machine.threads import spans

_STRIP = 2**16  # numbers worked on at once: they stay in a core's cache
_WORTH_COMPILING = 2**18  # numbers of a tile: Numba and its code take a third of a second to load

L1Tile: TypeAlias = Callable[[Any, Any | None], Any]
"""left, out → tile (rows, m), in `out` where it fits and that is simple."""


def l1_exponentials(right: Array) -> L1Tile:
    """The function left, out → [exp(−Σ_f |left_if − right_jf|)], in `out` where it fits."""
    if is_numpy(right):
        return _host_tile(right)
    xp = namespace(right)
    columns = xp.asarray(right.T, copy=True)
    fused = None
    if is_torch_array(right) and on_accelerator(right) and right.dtype in (xp.float32, xp.float64):
        fused = _triton()
    if fused is None:
        return lambda left, out: _by_columns(left, columns)
    return lambda left, out: fused.exponentials(left, columns, out)


def signed_sums(rows: Array, landmarks: Any, tile: Any, coef: Any) -> Array:
    """Σ_j tile_ij coef_jt sign(rows_if − landmarks_jf) of shape (rows, d, targets), sign(0) being 0."""
    if is_numpy(rows):
        return _host_signed_sums(rows, landmarks, tile, coef)
    xp = namespace(rows)

    def sums(feature: int) -> Array:
        signs = xp.sign(rows[:, feature][:, None] - landmarks[:, feature][None, :])
        signs *= tile
        return signs @ coef

    return xp.stack([sums(feature) for feature in range(rows.shape[1])], axis=1)


@cache
def _triton() -> Any | None:
    """The Triton kernel, or None where Triton is missing or finds no C compiler for its launcher."""
    try:
        from onefold.linalg import l1_triton

        l1_triton.try_out()
    except (ImportError, RuntimeError, OSError):
        return None
    return l1_triton


def _by_columns(left: Array, columns: Array) -> Array:
    def pair(feature: int) -> tuple[Array, Array]:
        return left[:, feature][:, None], columns[feature, :][None, :]

    first, second = pair(0)
    total = -abs(difference := first - second)
    for feature in range(1, left.shape[1]):  # no (n, m, d) array, and one of scratch
        difference = in_place("abs", difference_into(*pair(feature), difference))
        total -= difference
    return in_place("exp", total)


@cache
def _numba() -> Any | None:
    """The compiled loops, or None without a Numba that works with this NumPy."""
    try:
        from onefold.linalg import l1_numba
    except ImportError:
        return None
    return l1_numba


def _compiled_for(size: int, *arrays: NDArray[Any]) -> Any | None:
    """The compiled loops where they serve a tile of `size` numbers and arrays of this kind."""
    kinds = {array.dtype for array in arrays}
    if size < _WORTH_COMPILING or kinds not in ({np.dtype(np.float32)}, {np.dtype(np.float64)}):
        return None
    return _numba()


def _host_tile(right: NDArray[Any]) -> L1Tile:
    columns, doubles = np.ascontiguousarray(right.T), np.asarray(right, dtype=np.float64)
    m = right.shape[0]

    def tile(left: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        n, dtype = left.shape[0], np.result_type(left, right)
        values = out if out is not None and out.dtype == dtype else np.empty((n, m), dtype=dtype)
        compiled = _compiled_for(n * m, left, right)
        left, step = np.ascontiguousarray(left), max(1, _STRIP // max(1, m))
        scratch = np.empty((min(n, step), m), dtype=dtype)
        for part in spans(n, step):
            exponents = scratch[: part.stop - part.start]
            if compiled is not None:
                compiled.fill_negative_l1(left[part], columns, exponents)
            else:
                wide = exponents if dtype == np.float64 else None
                distances = cdist(left[part], doubles, "cityblock", out=wide)
                np.negative(distances, out=exponents, casting="same_kind")
            np.exp(exponents, out=values[part])
        return values

    return tile


def _host_signed_sums(
    rows: NDArray[Any], landmarks: NDArray[Any], tile: NDArray[Any], coef: NDArray[Any]
) -> NDArray[Any]:
    (n, d), m = rows.shape, landmarks.shape[0]
    columns = np.ascontiguousarray(landmarks.T)
    out = np.empty((n, d, coef.shape[1]), dtype=np.result_type(tile, coef))
    compiled = _compiled_for(n * m, rows, landmarks, tile, coef)
    if compiled is not None:
        weights = np.ascontiguousarray(coef.T)
        compiled.fill_signed_sums(np.ascontiguousarray(rows), columns, tile, weights, out)
        return out
    step = max(1, _STRIP // max(1, d * m))
    above, below = np.empty((2, min(n, step), d, m), dtype=bool)
    signs = np.empty(above.shape, dtype=out.dtype)
    for part in spans(n, step):
        x, here = rows[part, :, None], slice(0, part.stop - part.start)
        # NumPy's own sign branches on every number, several times slower than two comparisons.
        more, less = np.greater(x, columns, out=above[here]), np.less(x, columns, out=below[here])
        np.subtract(more.view(np.int8), less.view(np.int8), out=signs[here])
        np.matmul(signs[here], tile[part, :, None] * coef, out=out[part])
    return out
