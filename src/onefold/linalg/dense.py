r"""Factorisations, solves, rank updates and transforms, with LAPACK's and BLAS's fast paths for NumPy.

C ← C + AᵀA on one triangle and Cholesky factors are made in place and without the interpreter lock.
NumPy's functions release the lock but write fresh matrices; SciPy's ``blas`` and ``lapack`` functions
work in place but hold the lock, so that Python threads wait for each other. SciPy also publishes the
addresses of these routines for Cython (``scipy.linalg.cython_blas`` and ``cython_lapack``); called
through ctypes, which gives the lock up, they work in place on every core. Where that table is missing or
has another form, NumPy's product and SciPy's functions serve.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.fft
import scipy.linalg
from array_api_compat import is_torch_array
from scipy.linalg import cython_blas, cython_lapack

from onefold.linalg import (
    Array,
    all_finite,
    asarray_like,
    device_of,
    is_numpy,
    namespace,
    outer,
    to_numpy,
    zeros,
)
from onefold.machine.threads import check_stop, spans, thread_budget

# Rows up to which torch inverts a triangle by one solve; larger ones are halved.
_LEAF = 1024
# Rows of a triangle that are solved with, or cleared above the diagonal, at a time.
_BLOCK = 512
# Columns of an inverse that are solved for at a time.
_COLUMNS = 256
# Rows of a triangle that are added or mirrored at a time: they stay in a core's cache.
_STRIP = 128
# Rows above which a matrix of torch is worked on in its own memory: copies might not fit.
_LARGE = 2**14
# Rows above which a matrix of NumPy is factorised by panels, well below the 16,000 or so at which
# OpenBLAS 0.3.31 writes where it must not.
_PANELLED = 4096
# Columns of a panel in NumPy.
_HOST_PANEL = 1024
# Columns of a panel in torch, and rows of a block that is solved with at a time.
_PANEL = 2048
# Numbers that one call on a device works on: some CUDA functions do not take 2³¹.
STACK = 2**28


def add_to_diagonal(matrix: Array, value: float) -> Array:
    """A + value·I for a matrix A, in place for NumPy and torch."""
    if is_numpy(matrix):
        np.einsum("ii->i", matrix)[...] += value  # a view of the diagonal, in either memory order
        return matrix
    if is_torch_array(matrix):
        matrix.diagonal().add_(value)
        return matrix
    xp = namespace(matrix)
    n = matrix.shape[0]
    return matrix + value * xp.eye(n, dtype=matrix.dtype, device=device_of(matrix))


def symmetric_eigh(matrix: Array, *, release_lock: bool) -> tuple[Any, Any]:
    """Eigenvalues (ascending) and eigenvectors of a symmetric matrix.

    NumPy's routine releases the interpreter lock, so it scales over Python threads, but needs
    five arrays of n × n; the one used otherwise overwrites its input and stays within two.
    """
    if not is_numpy(matrix):
        return tuple(namespace(matrix).linalg.eigh(matrix))
    if release_lock:
        return np.linalg.eigh(matrix)
    # A C-ordered symmetric matrix is its own Fortran-ordered transpose: no copy is made.
    return scipy.linalg.eigh(matrix.T, driver="evr", overwrite_a=True, check_finite=False, lower=True)


def cholesky(matrix: Array, *, overwrite: bool) -> Array:
    """Lower L with L Lᵀ = matrix; LinAlgError if there is none. In NumPy, what is above L is undefined.

    With `overwrite` a large matrix gives up its memory; where there is no L, its upper triangle stays.
    """
    info: Any
    if is_numpy(matrix):
        # A C-ordered symmetric matrix is its own Fortran-ordered transpose: no copy is made.
        factor = matrix.T if overwrite and matrix.flags.c_contiguous else np.array(matrix.T, order="F")
        info = _lower_by_panels(factor)
    elif is_torch_array(matrix) and overwrite and matrix.shape[0] > _LARGE:
        factor = matrix
        info = _factorise_by_panels(matrix)
    elif is_torch_array(matrix):
        factor, info = namespace(matrix).linalg.cholesky_ex(matrix)
    else:
        factor = namespace(matrix).linalg.cholesky(matrix)
        info = 0 if all_finite(factor) else factor.shape[0]  # CuPy returns NaN instead of raising
    if int(info) > 0:
        raise np.linalg.LinAlgError(f"the leading minor of order {info} is not positive definite")
    return factor


def cholesky_solve(factor: Array, rhs: Any) -> Array:
    """Solve L Lᵀ x = rhs."""
    if is_numpy(factor):
        routine = _routine("potrs", factor.dtype)
        if routine is None or not factor.flags.f_contiguous or 0 in rhs.shape:
            return scipy.linalg.cho_solve((factor, True), rhs, check_finite=False)
        solution = np.array(rhs, dtype=factor.dtype, order="F")
        by = ctypes.byref
        info = ctypes.c_int(0)
        n = ctypes.c_int(len(factor))
        count = ctypes.c_int(math.prod(rhs.shape[1:]))
        sizes = by(n), solution.ctypes.data, by(n), by(info)
        routine(b"L", by(n), by(count), factor.ctypes.data, *sizes)
        return solution
    xp = namespace(factor)
    if is_torch_array(factor):
        large = factor.shape[0] > _LARGE  # torch's own function makes a copy of L
        return solve_by_blocks(factor, rhs) if large else xp.cholesky_solve(rhs, factor)
    return xp.linalg.solve(factor @ xp.matrix_transpose(factor), rhs)


def indefinite_solver(matrix: Array) -> Callable[[Array], Array]:
    """The function b ↦ A⁻¹ b by LU factors on the host; LinAlgError if A is singular to rounding."""
    host = to_numpy(matrix)
    factor, pivots, zero = scipy.linalg.lapack.dgetrf(host)
    reciprocal = 0.0 if zero else scipy.linalg.lapack.dgecon(factor, np.abs(host).sum(axis=0).max())[0]
    if not reciprocal > np.finfo(np.float64).eps:
        raise np.linalg.LinAlgError(f"the reciprocal condition number is {reciprocal:.1e}")

    def solve(rhs: Array) -> Array:
        solution, _ = scipy.linalg.lapack.dgetrs(factor, pivots, to_numpy(rhs))
        return asarray_like(solution, rhs)

    return solve


def _lower_by_panels(factor: Any) -> int:
    """L over the lower triangle of a Fortran-ordered matrix; the order of a bad minor, or 0.

    Few rows are factorised in one call; more, panel after panel of columns, each in its place, mostly by
    matrix products: with two threads and about 16,000 rows, OpenBLAS 0.3.31's own routine corrupts
    memory.
    """
    n = len(factor)
    by = ctypes.byref
    real = ctypes.c_float if factor.itemsize == 4 else ctypes.c_double
    plus_one = real(1.0)
    minus_one = real(-1.0)
    lead = ctypes.c_int(n)
    info = ctypes.c_int(0)
    gemm, syrk, potrf, trsm = (_routine(x, factor.dtype) for x in ("gemm", "syrk", "potrf", "trsm"))
    if gemm is None or syrk is None or potrf is None or trsm is None:
        return _lower_by_copied_panels(factor)

    def at(row: int, column: int) -> int:
        return int(factor.ctypes.data) + factor.itemsize * (row + column * n)

    for part in spans(n, max(1, n) if n <= _PANELLED else _HOST_PANEL):
        check_stop()
        i = part.start
        j = part.stop
        before, width, below = (ctypes.c_int(k) for k in (i, j - i, n - j))
        corner = at(i, i)
        row = at(i, 0)
        panel_below = at(j, i) if j < n else 0
        sizes = by(width), by(before), by(minus_one), row, by(lead), by(plus_one), corner, by(lead)
        syrk(b"L", b"N", *sizes)
        potrf(b"L", by(width), corner, by(lead), by(info))
        if info.value or j == n:
            return i + info.value if info.value else 0
        parts = by(minus_one), at(j, 0), by(lead), row, by(lead), by(plus_one), panel_below, by(lead)
        gemm(b"N", b"T", by(below), by(width), by(before), *parts)
        solved = by(below), by(width), by(plus_one), corner, by(lead), panel_below, by(lead)
        trsm(b"R", b"L", b"T", b"N", *solved)
    return 0


def _lower_by_copied_panels(factor: Any) -> int:
    """The same where SciPy does not give its routines as functions of pointers: corners are copied."""
    n = len(factor)
    potrf = scipy.linalg.get_lapack_funcs("potrf", (factor,))
    for part in spans(n, max(1, n) if n <= _PANELLED else _HOST_PANEL):
        check_stop()
        i = part.start
        j = part.stop
        row = factor[i:j, :i]
        corner, info = potrf(factor[i:j, i:j] - row @ row.T, lower=1, clean=0)
        if info:
            return i + int(info)
        upper = np.triu(factor[i:j, i:j], 1)
        factor[i:j, i:j] = np.tril(corner) + upper
        if j < n:
            below = factor[j:, i:j] - factor[j:, :i] @ row.T
            solved = scipy.linalg.solve_triangular(corner, below.T, lower=True, check_finite=False)
            factor[j:, i:j] = solved.T
    return 0


def _factorise_by_panels(matrix: Any) -> int:
    """L over a matrix of torch, panel after panel of columns; the order of a bad minor, or 0.

    No second matrix, and no single call on more than 2³¹ numbers, which some of CUDA's do not take.
    """
    xp = namespace(matrix)
    n = matrix.shape[0]
    for part in spans(n, _PANEL):
        check_stop()
        before = matrix[part, : part.start]
        corner = matrix[part, part]
        below = matrix[part.stop :, part]
        factor, info = xp.linalg.cholesky_ex(corner - before @ before.T)
        if int(info):
            return part.start + int(info)
        corner.copy_(factor + corner.triu(1))
        if part.start:
            below.addmm_(matrix[part.stop :, : part.start], before.T, alpha=-1.0)
        below.copy_(xp.linalg.solve_triangular(factor.T, below, upper=True, left=False))
    for part in spans(n, _PANEL):
        matrix[part, part].tril_()
        matrix[part, part.stop :] = 0.0
    return 0


def solve_by_blocks(factor: Array, rhs: Array) -> Array:
    """Solve L Lᵀ x = rhs in the dtype of rhs, which may be wider than L's, without a copy of L."""
    return solve_triangle(factor, solve_triangle(factor, rhs, transposed=False), transposed=True)


def solve_triangle(factor: Array, rhs: Array, *, transposed: bool) -> Array:
    """Solve L x = rhs or Lᵀ x = rhs in the dtype of rhs, which may be wider than L's: panel by panel."""
    xp = namespace(factor)
    solution = np.array(rhs, order="F") if is_numpy(rhs) else xp.asarray(rhs, copy=True)
    if (
        is_numpy(factor)
        and factor.dtype == solution.dtype
        and _solve_in_place(factor, solution, transposed=transposed)
    ):
        return solution
    parts = list(spans(factor.shape[0], _PANEL))
    for part in reversed(parts) if transposed else parts:
        check_stop()
        if transposed:
            known = factor[part.stop :, part].T
            solved = solution[part.stop :, :]
        else:
            known = factor[part, : part.start]
            solved = solution[: part.start, :]
        corner = xp.astype(factor[part, part], rhs.dtype, copy=False)
        residual = solution[part, :] - xp.astype(known, rhs.dtype, copy=False) @ solved
        if is_numpy(corner):
            solution[part, :] = scipy.linalg.solve_triangular(
                corner, residual, transposed, lower=True, check_finite=False
            )
        else:
            triangle = corner.T if transposed else corner
            solution[part, :] = xp.linalg.solve_triangular(triangle, residual, upper=transposed)
    return solution


def _solve_in_place(factor: Any, rhs: Any, *, transposed: bool) -> bool:
    """Whether BLAS could solve L x = rhs or Lᵀ x = rhs over rhs (Fortran's order) without the lock."""
    routine = _routine("trsm", factor.dtype)
    if routine is None or not factor.flags.f_contiguous or not rhs.flags.f_contiguous or not rhs.size:
        return False
    by = ctypes.byref
    real = ctypes.c_float if factor.itemsize == 4 else ctypes.c_double
    lead = ctypes.c_int(len(factor))
    sizes = by(lead), by(ctypes.c_int(rhs.shape[1])), by(real(1.0))
    matrices = factor.ctypes.data, by(lead), rhs.ctypes.data, by(lead)
    routine(b"L", b"L", b"T" if transposed else b"N", b"N", *sizes, *matrices)
    return True


def invert_lower(factor: Array) -> Array:
    """L⁻¹ over a lower triangular L in NumPy and torch; LinAlgError for a zero on the diagonal."""
    if is_numpy(factor):
        inverse, info = scipy.linalg.lapack.dtrtri(factor, lower=1, overwrite_c=True)
        if info:
            raise np.linalg.LinAlgError(f"number {info} on the diagonal of the triangle is 0")
        for strip in spans(len(inverse), _BLOCK):  # np.tril of it all would copy it
            inverse[strip, strip.stop :] = 0.0
            inverse[strip, strip] = np.tril(inverse[strip, strip])
        return inverse
    if is_torch_array(factor):
        _invert_by_halves(factor)
        return factor
    return namespace(factor).linalg.inv(factor)


def _invert_by_halves(factor: Any) -> None:
    """[[A, 0], [B, C]]⁻¹ = [[A⁻¹, 0], [−C⁻¹ B A⁻¹, C⁻¹]] over `factor`: n³/3, mostly products."""
    xp = namespace(factor)
    n = factor.shape[0]
    if n <= _LEAF:
        identity = xp.eye(n, dtype=factor.dtype, device=factor.device)
        factor.copy_(xp.linalg.solve_triangular(factor, identity, upper=False))
        return
    top = slice(0, n // 2)
    bottom = slice(n // 2, n)
    _invert_by_halves(factor[top, top])
    _invert_by_halves(factor[bottom, bottom])
    corner = factor[bottom, top]
    step = max(_PANEL, STACK // n)
    for part in spans(corner.shape[0], step):
        check_stop()
        corner[part, :] = corner[part, :] @ factor[top, top]
    for part in spans(corner.shape[1], step):
        check_stop()
        corner[:, part] = -(factor[bottom, bottom] @ corner[:, part])


def solve_positive(matrix: Array, rhs: Array) -> Array:
    """X with A X = B by Cholesky factors, for A (…, j, j) and B (…, j, t); NaN if not positive definite.

    torch takes a stack in one call: fifty matrices of 1000 × 1000 in a sixth of the time.
    """
    if is_torch_array(matrix):
        xp = namespace(matrix)
        factor, info = xp.linalg.cholesky_ex(matrix)
        solution = xp.cholesky_solve(rhs, factor)
        return xp.where((info > 0)[..., None, None], xp.full_like(solution, xp.nan), solution)
    if matrix.ndim > 2:
        pairs = (solve_positive(matrix[i, ...], rhs[i, ...]) for i in range(matrix.shape[0]))
        return namespace(matrix).stack(list(pairs))
    check_stop()
    try:
        if not is_numpy(matrix) or len(matrix) > _PANELLED:
            return cholesky_solve(cholesky(matrix, overwrite=False), rhs)
        upper = np.linalg.cholesky(matrix).T  # in Fortran's order, as LAPACK wants it
        return scipy.linalg.cho_solve((upper, False), rhs, check_finite=False)
    except np.linalg.LinAlgError:
        return rhs * np.nan


def solve_lower(factor: Array, rhs: Array) -> Array:
    """Solve L x = rhs for a lower triangular L."""
    if is_numpy(factor):
        return scipy.linalg.solve_triangular(factor, rhs, lower=True, check_finite=False)
    xp = namespace(factor)
    if is_torch_array(factor):
        return xp.linalg.solve_triangular(factor, rhs, upper=False)
    return xp.linalg.inv(factor) @ rhs


def inverse_column_squares(factor: Array, columns: Any) -> Array:
    """‖L⁻¹ e_i‖² for ascending columns i of a lower triangular L: about n²/3 operations each."""
    n = factor.shape[0]
    squares_by_part = []
    for part in spans(len(columns), _COLUMNS):
        part_columns = np.asarray(columns[part])
        first = int(part_columns[0])
        squares = zeros(part_columns.size, factor)
        solved = zeros((n - first, part_columns.size), factor)
        for block in spans(n - first, _BLOCK):
            rows = slice(first + block.start, first + block.stop)
            begun = int(np.searchsorted(part_columns, rows.stop))  # columns that are not 0 in these rows
            unit = asarray_like(
                part_columns[None, :begun] == np.arange(rows.start, rows.stop)[:, None], factor
            )
            above = factor[rows, first : rows.start] @ solved[: block.start, :begun]
            solved[block, :begun] = solve_lower(factor[rows, rows], unit - above)
            squares[:begun] += namespace(squares).sum(solved[block, :begun] ** 2, axis=0)
        squares_by_part.append(squares)
    return namespace(factor).concat(squares_by_part)


# Rank updates


def minus_outer(matrix: Array, column: Array, row: Array) -> Array:
    """A − column rowᵀ as a new array, in NumPy by strips that stay in cache."""
    if not is_numpy(matrix):
        return matrix - outer(column, row)
    out = np.empty_like(matrix)
    for part in spans(len(matrix), _STRIP // 2):
        np.subtract(matrix[part], outer(column[part], row), out=out[part])
    return out


# The parameters of the routines; {t} stands for the type of the numbers.
_TAKES = {
    "gemm": "char *, char *, int *, int *, int *, {t} *, {t} *, int *, {t} *, int *, "
    "{t} *, {t} *, int *",
    "syrk": "char *, char *, int *, int *, {t} *, {t} *, int *, {t} *, {t} *, int *",
    "trsm": "char *, char *, char *, char *, int *, int *, {t} *, {t} *, int *, {t} *, int *",
    "potrf": "char *, int *, {t} *, int *, int *",
    "potrs": "char *, int *, int *, {t} *, int *, {t} *, int *, int *",
}
_TABLES = dict.fromkeys(["gemm", "syrk", "trsm"], (cython_blas, "11cython_blas"))
_TABLES |= dict.fromkeys(["potrf", "potrs"], (cython_lapack, "13cython_lapack"))


@cache
def _routine(name: str, dtype: Any) -> Callable[..., None] | None:
    """A routine of BLAS or LAPACK for numbers of this type as a function of pointers, or None."""
    letter = {"f4": "s", "f8": "d"}.get(dtype.str[1:], "")
    table, module = _TABLES[name]
    capsule = getattr(table, "__pyx_capi__", {}).get(letter + name)
    if capsule is None:
        return None
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = api.PyCapsule_GetName(capsule)
    expected = f"void ({_TAKES[name]})".format(t=f"__pyx_t_5scipy_6linalg_{module}_{letter}")
    if signature is None or signature.decode() != expected:
        return None
    address = api.PyCapsule_GetPointer(capsule, signature)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * expected.count("*"))(address)


def add_gram(total: Any, tile: Any, *, overwrite: bool = False) -> None:
    """Add tileᵀ tile to the lower triangle of `total` (m, m); both C-ordered and of one dtype.

    O(rows · m²) multiply-adds, half of a general product. With `overwrite`, `total` becomes tileᵀ tile.
    The strict upper triangle is left in an undefined state; :func:`mirror` fills it at the end.
    """
    rows, m = tile.shape
    routine = None
    if is_numpy(tile) and tile.size and tile.flags.c_contiguous and total.flags.c_contiguous:
        routine = _routine("syrk", tile.dtype)
    if routine is None:
        if overwrite:
            total[...] = 0
        total += tile.T @ tile
        return
    if total.dtype != tile.dtype or total.shape != (m, m):
        raise TypeError(f"cannot add a {tile.dtype} tile of {m} columns to {total.dtype} {total.shape}.")
    real = ctypes.c_float if tile.dtype.itemsize == 4 else ctypes.c_double
    # In Fortran's order the tile is m × rows and the lower triangle of `total` is its upper one.
    order = ctypes.c_int(m)
    count = ctypes.c_int(rows)
    alpha = real(1.0)
    beta = real(0.0 if overwrite else 1.0)
    by = ctypes.byref
    routine(
        b"U", b"N", by(order), by(count), by(alpha), tile.ctypes.data, by(order), by(beta),
        total.ctypes.data, by(order),
    )  # fmt: skip


def add_lower(total: Array, addend: Array) -> None:
    """Add the lower triangle of `addend` (m, m) to that of `total`; what is above it is undefined."""
    for strip in spans(len(total), _STRIP):
        total[strip, : strip.stop] += addend[strip, : strip.stop]


def mirror(total: Array) -> Array:
    """Copy the strict lower triangle of a NumPy array over the upper one; others have both already."""
    if is_numpy(total):
        for strip in spans(len(total), _STRIP):
            total[strip, strip.stop :] = total[strip.stop :, strip].T
            corner = total[strip, strip]
            corner[:] = np.tril(corner) + np.tril(corner, -1).T
    return total


# Fourier transforms


def real_fft(x: Array, levels: int) -> Array:
    """The Fourier transform of real `x` over its last `levels` axes: the half that determines it."""
    axes = tuple(range(-levels, 0))
    if is_numpy(x):
        return scipy.fft.rfftn(x, axes=axes, workers=thread_budget())
    return namespace(x).fft.rfftn(x, axes=axes)


def inverse_real_fft(spectrum: Array, shape: tuple[int, ...]) -> Array:
    """The real array of `shape` in its last axes, from its half spectrum, which is overwritten."""
    axes = tuple(range(-len(shape), 0))
    if is_numpy(spectrum):
        return scipy.fft.irfftn(spectrum, s=shape, axes=axes, workers=thread_budget(), overwrite_x=True)
    return namespace(spectrum).fft.irfftn(spectrum, s=shape, axes=axes)
