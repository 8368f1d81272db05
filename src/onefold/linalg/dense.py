"""Factorisations and solves, with LAPACK's fast paths for NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from array_api_compat import is_torch_array

from onefold.linalg.arrays import Array, all_finite, device_of, is_numpy, like, namespace, zeros
from onefold.machine.threads import spans

_LEAF = 1024  # rows up to which a triangle is inverted by one solve
_BLOCK, _COLUMNS = 512, 256  # of a triangle and of what is solved with it, at once


def copied(matrix: Array, buffer: Array | None) -> Array:
    """A copy of `matrix`, in `buffer` where there is one and NumPy allows it."""
    if buffer is None or not is_numpy(matrix):
        return namespace(matrix).asarray(matrix, copy=True)
    np.copyto(buffer, matrix)
    return buffer


def add_to_diagonal(matrix: Array, value: float) -> Array:
    """A + value·I for a matrix A, in place for NumPy and torch."""
    if is_numpy(matrix):
        np.einsum("ii->i", matrix)[...] += value  # a view of the diagonal, in either memory order
        return matrix
    if is_torch_array(matrix):
        matrix.diagonal().add_(value)
        return matrix
    xp, n = namespace(matrix), matrix.shape[0]
    return matrix + value * xp.eye(n, dtype=matrix.dtype, device=device_of(matrix))


def symmetric_eigh(matrix: Array, *, overwrite: bool, release_lock: bool) -> tuple[Array, Array]:
    """Eigenvalues (ascending) and eigenvectors of a symmetric matrix.

    NumPy's routine releases the interpreter lock, so it scales over Python threads, but needs
    five arrays of n × n; the one used otherwise overwrites its input and stays within two.
    """
    if not is_numpy(matrix):
        values, vectors = namespace(matrix).linalg.eigh(matrix)
        return values, vectors
    if release_lock:
        return np.linalg.eigh(matrix)
    # A C-ordered symmetric matrix is its own Fortran-ordered transpose: no copy is made.
    return scipy.linalg.eigh(
        matrix.T, driver="evr", overwrite_a=overwrite, check_finite=False, lower=True
    )


def triangle(matrix: Array) -> Array:
    """R of matrix = Q R: at most as many rows as columns, none of them negligible by being squared."""
    if is_numpy(matrix):
        return np.linalg.qr(matrix, mode="r")
    if is_torch_array(matrix):
        import torch

        return torch.linalg.qr(matrix, mode="r").R
    return namespace(matrix).linalg.qr(matrix).R


def cholesky(matrix: Array, *, overwrite: bool) -> Array:
    """Lower L with L Lᵀ = matrix; raises ``numpy.linalg.LinAlgError`` if not positive definite.

    For NumPy the strict upper triangle of L is left as it was: only pass L on to the functions here.
    """
    if is_torch_array(matrix):
        import torch

        factor, info = torch.linalg.cholesky_ex(matrix)
        _check_positive(int(info))
        return factor
    if not is_numpy(matrix):
        factor = namespace(matrix).linalg.cholesky(matrix)
        _check_positive(0 if all_finite(factor) else factor.shape[0])  # CuPy leaves NaN, unasked
        return factor
    factor, info = scipy.linalg.lapack.dpotrf(matrix.T, lower=1, clean=0, overwrite_a=overwrite)
    _check_positive(info)
    return factor


def _check_positive(info: int) -> None:
    if info > 0:
        raise np.linalg.LinAlgError(f"the leading minor of order {info} is not positive definite")


def cholesky_solve(factor: Array, rhs: Array) -> Array:
    """Solve L Lᵀ x = rhs."""
    if is_numpy(factor):
        return scipy.linalg.cho_solve((factor, True), rhs, check_finite=False)
    xp = namespace(factor)
    if is_torch_array(factor):
        import torch

        return torch.cholesky_solve(rhs, factor)
    return xp.linalg.solve(factor @ xp.matrix_transpose(factor), rhs)


def invert_lower(factor: Array) -> Array:
    """L⁻¹ of a lower triangular matrix, over the input for NumPy, its upper triangle zero."""
    if is_numpy(factor):
        inverse, _ = scipy.linalg.lapack.dtrtri(factor, lower=1, overwrite_c=True)
        _clear_upper(inverse)
        return inverse
    if is_torch_array(factor):
        import torch

        inverse = torch.zeros_like(factor)
        _invert_by_halves(factor, inverse)
        return inverse
    return namespace(factor).linalg.inv(factor)


def _invert_by_halves(factor: Array, inverse: Array) -> None:
    r"""[[A, 0], [B, C]]⁻¹ = [[A⁻¹, 0], [−C⁻¹ B A⁻¹, C⁻¹]] of a torch tensor, into `inverse`.

    n³/3 multiply-adds, nearly all of them products, where a solve with the identity takes n³/2 and one
    more array of n × n.
    """
    import torch

    n = factor.shape[0]
    if n <= _LEAF:
        identity = torch.eye(n, dtype=factor.dtype, device=factor.device)
        inverse.copy_(torch.linalg.solve_triangular(factor, identity, upper=False))
        return
    top, bottom = slice(0, n // 2), slice(n // 2, n)
    _invert_by_halves(factor[top, top], inverse[top, top])
    _invert_by_halves(factor[bottom, bottom], inverse[bottom, bottom])
    corner = inverse[bottom, bottom] @ (factor[bottom, top] @ inverse[top, top])
    inverse[bottom, top] = -corner


def _clear_upper(matrix: Array, block: int = 512) -> None:
    """Zero the strict upper triangle in place, a strip at a time (np.tril would copy it all)."""
    n = matrix.shape[0]
    for start in range(0, n, block):
        stop = min(start + block, n)
        matrix[start:stop, stop:] = 0.0
        corner = matrix[start:stop, start:stop]
        corner[:] = np.tril(corner)


def solve_positive(matrix: Array, rhs: Array) -> Array:
    """Solve a symmetric positive definite system, (…, j, j) and (…, j, t) → (…, j, t).

    torch factorises a whole stack without asking the host: NaN where one is not positive definite.
    """
    if is_numpy(matrix):
        return np.linalg.solve(matrix, rhs)  # releases the interpreter lock, as SciPy's does not
    if is_torch_array(matrix):
        import torch

        factor, info = torch.linalg.cholesky_ex(matrix)
        found = torch.cholesky_solve(rhs, factor)
        return torch.where((info > 0)[..., None, None], torch.full_like(found, torch.nan), found)
    return namespace(matrix).linalg.solve(matrix, rhs)


def solve_lower(factor: Array, rhs: Array) -> Array:
    """Solve L x = rhs for a lower triangular L."""
    if is_numpy(factor):
        return scipy.linalg.solve_triangular(factor, rhs, lower=True, check_finite=False)
    return invert_lower(factor) @ rhs


def inverse_column_squares(factor: Array, columns: Any) -> Array:
    """‖L⁻¹ e_i‖² for some columns i, ascending, of a lower triangular L.

    n² / 3 multiply-adds for each where they are spread evenly: L⁻¹ e_i is 0 above its row i.
    """
    n, found = factor.shape[0], []
    for part in spans(len(columns), _COLUMNS):
        some = np.asarray(columns[part])
        first, squares = int(some[0]), zeros(some.size, factor)
        solved = zeros((n - first, some.size), factor)
        for block in spans(n - first, _BLOCK):
            rows = slice(first + block.start, first + block.stop)
            begun = int(np.searchsorted(some, rows.stop))
            unit = like(some[None, :begun] == np.arange(rows.start, rows.stop)[:, None], factor)
            above = factor[rows, first : rows.start] @ solved[: block.start, :begun]
            solved[block, :begun] = solve_lower(factor[rows, rows], unit - above)
            squares[:begun] += namespace(squares).sum(solved[block, :begun] ** 2, axis=0)
        found.append(squares)
    return namespace(factor).concat(found)
