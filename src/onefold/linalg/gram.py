r"""C ← C + AᵀA on one triangle, and C ← C − A Bᵀ, in place and without the interpreter lock.

NumPy's products release the lock but write a fresh matrix each time, and both of its triangles;
SciPy's ``blas`` functions update in place but hold the lock. SciPy also publishes the addresses of its
BLAS routines for Cython (``scipy.linalg.cython_blas``); called through ctypes, which gives the lock
up, they update in place on every core. Where that table is missing or has another form, NumPy's
product serves.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import cython_blas

from onefold.linalg.arrays import is_numpy

_POINTER = ctypes.c_void_p
_SIGNATURES = {
    "syrk": "void (char *, char *, int *, int *, {t} *, {t} *, int *, {t} *, {t} *, int *)",
    "gemm": "void (char *, char *, int *, int *, int *, {t} *, {t} *, int *, {t} *, int *, {t} *, "
    "{t} *, int *)",
}


@cache
def _routine(name: str) -> Callable[..., None] | None:
    """The BLAS routine of that name as a function of pointers; None if not to be had."""
    capsule = getattr(cython_blas, "__pyx_capi__", {}).get(name)
    if capsule is None:
        return None
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = api.PyCapsule_GetName(capsule)
    kind = f"__pyx_t_5scipy_6linalg_11cython_blas_{name[0]}"
    expected = _SIGNATURES[name[1:]].format(t=kind)
    if signature is None or signature.decode() != expected:
        return None
    address = api.PyCapsule_GetPointer(capsule, signature)
    return ctypes.CFUNCTYPE(None, *[_POINTER] * expected.count("*"))(address)


def add_gram(total: Any, tile: Any, *, fresh: bool = False) -> None:
    """Add tileᵀ tile to the lower triangle of `total` (m, m); both C-ordered and of one dtype.

    O(rows · m²) multiply-adds, half of a general product. With `fresh` what was in `total` does not
    count. The strict upper triangle is left in an undefined state; :func:`mirror` fills it at the end.
    """
    rows, m = tile.shape
    if not is_numpy(tile):
        if fresh:
            total *= 0
        total += tile.T @ tile
        return
    if tile.size == 0:
        if fresh:
            total[:] = 0
        return
    name = {np.dtype(np.float32): "ssyrk", np.dtype(np.float64): "dsyrk"}.get(tile.dtype)
    routine = None if name is None else _routine(name)
    if routine is None or not (tile.flags.c_contiguous and total.flags.c_contiguous):
        if fresh:
            total[:] = 0
        total += tile.T @ tile
        return
    if total.dtype != tile.dtype or total.shape != (m, m):
        raise TypeError(f"cannot add a {tile.dtype} tile of {m} columns to {total.dtype} {total.shape}.")
    real = ctypes.c_float if name == "ssyrk" else ctypes.c_double
    # In Fortran's order the tile is m × rows and the lower triangle of `total` is its upper one.
    order, count = ctypes.c_int(m), ctypes.c_int(rows)
    one, before = real(1.0), real(0.0 if fresh else 1.0)
    by = ctypes.byref
    routine(
        b"U", b"N", by(order), by(count), by(one), tile.ctypes.data, by(order), by(before),
        total.ctypes.data, by(order),
    )  # fmt: skip


def subtract_product(tile: Any, left: Any, right: Any) -> None:
    """Subtract left · rightᵀ, (rows, q) and (m, q), from `tile` (rows, m); all float32 and C-ordered."""
    (rows, m), q = tile.shape, left.shape[1]
    arrays = (tile, left, right)
    routine = _routine("sgemm")
    if routine is None or any(a.dtype != np.float32 or not a.flags.c_contiguous for a in arrays):
        tile -= left @ right.T
        return
    if left.shape != (rows, q) or right.shape != (m, q):
        raise TypeError(f"cannot subtract {left.shape} times {right.shape} from {tile.shape}.")
    by, columns, count, inner = ctypes.byref, ctypes.c_int(m), ctypes.c_int(rows), ctypes.c_int(q)
    # In Fortran's order every array is its transpose: tileᵀ ← tileᵀ − right · leftᵀ.
    routine(
        b"T", b"N", by(columns), by(count), by(inner), by(ctypes.c_float(-1.0)), right.ctypes.data,
        by(inner), left.ctypes.data, by(inner), by(ctypes.c_float(1.0)), tile.ctypes.data, by(columns),
    )  # fmt: skip


def add_lower(total: Any, other: Any, block: int = 128) -> None:
    """Add the lower triangle of `other` (m, m) to that of `total`; what is above it does not count."""
    m = total.shape[0]
    for start in range(0, m, block):
        stop = min(start + block, m)
        total[start:stop, :stop] += other[start:stop, :stop]


def mirror(total: Any, block: int = 256) -> Any:
    """Copy the strict lower triangle over the upper one, in place; other libraries have both."""
    if not is_numpy(total):
        return total
    m = total.shape[0]
    for start in range(0, m, block):
        stop = min(start + block, m)
        total[start:stop, stop:] = total[stop:, start:stop].T
        corner = total[start:stop, start:stop]
        corner[:] = np.tril(corner) + np.tril(corner, -1).T
    return total
