"""The only module that names array libraries.

Arrays come in NumPy, torch, CuPy or any other library of the Python array API standard; the
library and the device are those of X. Everything else in the package is written against the
standard's common part plus the helpers here, which take SciPy's and LAPACK's fast paths for NumPy.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.fft
import scipy.linalg
import scipy.sparse
from array_api_compat import array_namespace as _array_namespace
from array_api_compat import device as _device
from array_api_compat import is_array_api_obj, is_numpy_array, is_torch_array

Array: TypeAlias = Any
Namespace: TypeAlias = Any


def is_numpy(x: Array) -> bool:
    """True for a NumPy array (and for a SciPy sparse matrix, which lives beside NumPy)."""
    return bool(is_numpy_array(x)) or is_sparse(x)


def is_foreign(x: Array) -> bool:
    """True for an array of another array-API library: it stays in that library, on its device."""
    return bool(is_array_api_obj(x)) and not is_numpy(x)


def is_single(x: Array) -> bool:
    """True for dense rows in float32."""
    return not is_sparse(x) and bool(x.dtype == namespace(x).float32)


def is_sparse(x: Array) -> bool:
    """True for a SciPy sparse matrix or array."""
    return bool(scipy.sparse.issparse(x))


def namespace(x: Array) -> Namespace:
    """The array-API namespace of `x`."""
    if is_sparse(x):
        return namespace(np.empty(0))
    return _array_namespace(x)


def to_numpy(x: Array) -> Any:
    """`x` as a NumPy array in host memory; NumPy and sparse arrays come back unchanged."""
    if not is_foreign(x):
        return x if is_sparse(x) else np.asarray(x)
    if is_torch_array(x):
        return x.detach().cpu().numpy()
    if hasattr(x, "get"):  # CuPy copies to the host only when told to
        return x.get()
    return np.from_dlpack(x)


def like(values: Any, reference: Array) -> Array:
    """`values` as a float64 array in the library and on the device of `reference`."""
    xp = namespace(reference)
    if not is_foreign(reference):
        return np.asarray(values, dtype=np.float64)
    source = values if is_foreign(values) else np.asarray(values, dtype=np.float64)
    return xp.asarray(source, dtype=xp.float64, device=_device(reference))


def ones(n: int, reference: Array) -> Array:
    """N ones in the dtype, library and device of `reference`."""
    if not is_foreign(reference):
        return np.ones(n, dtype=reference.dtype)
    return namespace(reference).ones(n, dtype=reference.dtype, device=_device(reference))


def on_accelerator(x: Array) -> bool:
    """True if `x` lies on a GPU, where the costs of LAPACK's routines stand differently."""
    return is_foreign(x) and str(_device(x)).lower().startswith(("cuda", "<cuda", "gpu"))


def labels_like(values: Any, reference: Array) -> Array:
    """Predicted labels beside `reference`: text labels have no place outside NumPy."""
    if not is_foreign(reference) or np.asarray(values).dtype.kind not in "biuf":
        return values
    return namespace(reference).asarray(values, device=_device(reference))


def double(x: Array) -> Array:
    """`x` in float64, without a copy where it already is."""
    if is_sparse(x):
        return x.astype(np.float64, copy=False)
    xp = namespace(x)
    return xp.astype(x, xp.float64, copy=False)


def like_index(index: Any, reference: Array) -> Array:
    """Row numbers as an integer array beside `reference`."""
    if not is_foreign(reference):
        return np.asarray(index)
    return namespace(reference).asarray(np.asarray(index), device=_device(reference))


def take_rows(x: Array, index: Any) -> Array:
    """``x[index]`` for integer row numbers, in any library."""
    if is_numpy(x):
        return x[index]
    xp = namespace(x)
    return xp.take(x, xp.asarray(np.asarray(index), device=_device(x)), axis=0)


def replace_rows(x: Array, index: Any, values: Array) -> Array:
    """A copy of `x` with the rows of the given numbers replaced, in any library."""
    if is_numpy(x):
        copy = x.copy()
        copy[index] = values
        return copy
    xp = namespace(x)
    source = np.arange(x.shape[0])
    source[index] = x.shape[0] + np.arange(len(index))
    return take_rows(xp.concat([x, values]), source)


def exp_negative(x: Array) -> Array:
    """exp(−x), in place for NumPy."""
    if is_numpy(x):
        np.negative(x, out=x)
        return np.exp(x, out=x)
    return namespace(x).exp(-x)


def all_finite(x: Array) -> bool:
    """True if no entry is NaN or infinite."""
    xp = namespace(x)
    values = x.data if is_sparse(x) else x
    if not xp.isdtype(values.dtype, ("real floating", "complex floating")):
        return True
    return bool(xp.all(xp.isfinite(values)))


def copied(matrix: Array, buffer: Array | None) -> Array:
    """A copy of `matrix`, in `buffer` where there is one and NumPy allows it."""
    if buffer is None or not is_numpy(matrix):
        return namespace(matrix).asarray(matrix, copy=True)
    np.copyto(buffer, matrix)
    return buffer


def add_to_diagonal(matrix: Array, value: float) -> Array:
    """Matrix + value·I, in place for NumPy."""
    if is_numpy(matrix):
        np.einsum("ii->i", matrix)[...] += value  # a view of the diagonal, in either memory order
        return matrix
    xp, n = namespace(matrix), matrix.shape[0]
    return matrix + value * xp.eye(n, dtype=matrix.dtype, device=_device(matrix))


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

        identity = torch.eye(factor.shape[0], dtype=factor.dtype, device=factor.device)
        return torch.linalg.solve_triangular(factor, identity, upper=False)
    return namespace(factor).linalg.inv(factor)


def _clear_upper(matrix: Array, block: int = 512) -> None:
    """Zero the strict upper triangle in place, a strip at a time (np.tril would copy it all)."""
    n = matrix.shape[0]
    for start in range(0, n, block):
        stop = min(start + block, n)
        matrix[start:stop, stop:] = 0.0
        corner = matrix[start:stop, start:stop]
        corner[:] = np.tril(corner)


def solve_positive(matrix: Array, rhs: Array) -> Array:
    """Solve a symmetric positive definite system, (j, j) and (j, t) → (j, t)."""
    if is_numpy(matrix):
        return np.linalg.solve(matrix, rhs)  # releases the interpreter lock, as SciPy's does not
    return namespace(matrix).linalg.solve(matrix, rhs)


def real_fft(x: Array, levels: int, workers: int = 1) -> Array:
    """The half spectrum of real `x` over its last `levels` axes."""
    axes = tuple(range(-levels, 0))
    if is_numpy(x):
        return scipy.fft.rfftn(x, axes=axes, workers=workers)
    return namespace(x).fft.rfftn(x, axes=axes)


def inverse_real_fft(spectrum: Array, shape: tuple[int, ...], workers: int = 1) -> Array:
    """The real array of the given `shape` in its last axes behind a half spectrum, overwritten."""
    axes = tuple(range(-len(shape), 0))
    if is_numpy(spectrum):
        return scipy.fft.irfftn(spectrum, s=shape, axes=axes, workers=workers, overwrite_x=True)
    return namespace(spectrum).fft.irfftn(spectrum, s=shape, axes=axes)


def solve_lower(factor: Array, rhs: Array) -> Array:
    """Solve L x = rhs for a lower triangular L."""
    if is_numpy(factor):
        return scipy.linalg.solve_triangular(factor, rhs, lower=True, check_finite=False)
    return invert_lower(factor) @ rhs
