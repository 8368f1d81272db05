"""Linear algebra in any array library: the only folder that names one.

Arrays come from NumPy, torch, CuPy or any other library of the Python array API standard; the library
and the device are those of X. Everything outside this folder is written against the standard's common
part plus the functions of this folder, which take SciPy's and LAPACK's fast paths for NumPy. This module
tells which library and device an array belongs to, and converts arrays from one to another. Only this
folder and `onefold.rows` ask for the library itself; all others ask for what follows from it:

    uses_lapack          its factorisations are LAPACK's: in its own memory, one after the other
    prefers_large_calls  calls may be queued: large ones, from one thread, without reading values
    on_accelerator       it lies on a GPU
    same_place           two arrays have the same library and device

and copy to the host what it decides or reports on: numbers by `host_array` and `as_vector`, rows by
`rows.to_host`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
import scipy.sparse
from array_api_compat import array_namespace as _array_namespace
from array_api_compat import device as _device
from array_api_compat import is_array_api_obj, is_cupy_array, is_numpy_array, is_torch_array
from numpy.typing import NDArray

from onefold.machine import memory
from onefold.machine.extras import pip_install


class Array(Protocol):
    """What arrays of every library and SciPy's sparse matrices have in common; parts of them are Any."""

    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def ndim(self) -> int: ...
    @property
    def T(self) -> Any: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __add__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __rsub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __rtruediv__(self, other: Any, /) -> Any: ...
    def __pow__(self, other: Any, /) -> Any: ...
    def __matmul__(self, other: Any, /) -> Any: ...
    def __rmatmul__(self, other: Any, /) -> Any: ...
    def __neg__(self) -> Any: ...
    def __abs__(self) -> Any: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...
    def __float__(self) -> float: ...
    def __len__(self) -> int: ...
    def __array__(self) -> NDArray[Any]: ...


HostArray: TypeAlias = NDArray[np.float64]  # numbers in NumPy
Index: TypeAlias = NDArray[np.intp]  # row numbers, always in NumPy
Namespace: TypeAlias = Any
Device: TypeAlias = Any
_NUMPY: Namespace = _array_namespace(np.empty(0))

is_sparse: Callable[[Any], TypeGuard[Any]] = scipy.sparse.issparse
"""True for a SciPy sparse matrix or array."""


def is_numpy(x: Any) -> TypeGuard[Any]:
    """True for a NumPy array (and for a SciPy sparse matrix, which lives in NumPy's memory)."""
    return bool(is_numpy_array(x)) or is_sparse(x)


def is_foreign(x: Any) -> TypeGuard[Any]:
    """True for an array of another array-API library: it stays in that library, on its device."""
    return bool(is_array_api_obj(x)) and not is_numpy_array(x)


def namespace(x: Array) -> Namespace:
    """The array-API namespace of `x`."""
    host = isinstance(x, (np.ndarray, np.generic)) or is_sparse(x)
    return _NUMPY if host else _array_namespace(x)


def device_of(x: Array) -> Device:
    """The device that `x` lies on."""
    return "cpu" if is_sparse(x) else _device(x)


def on_accelerator(x: Array) -> bool:
    """True if `x` lies on a GPU, where LAPACK's routines have other relative costs."""
    return is_foreign(x) and str(_device(x)).lower().startswith(("cuda", "<cuda", "gpu"))


def uses_lapack(x: Array) -> TypeGuard[HostArray]:
    """Whether `x` is factorised by LAPACK: in its own memory, and matrices of a stack one by one."""
    return is_numpy(x)


def prefers_large_calls(x: Array) -> bool:
    """Whether work on `x` may be queued for a device: few large calls, one thread, values left unread.

    True for every library other than NumPy, also for torch on the CPU.
    """
    return is_foreign(x)


def same_place(x: Array, y: Array) -> bool:
    """Whether two arrays have the same library and device."""
    return namespace(x) is namespace(y) and device_of(x) == device_of(y)


# From one library to another


def to_numpy(x: Any) -> Any:
    """`x` as a NumPy array in host memory; NumPy and sparse arrays come back unchanged."""
    if not is_foreign(x):
        return x if is_sparse(x) else np.asarray(x)
    if is_torch_array(x):
        host = x.detach().cpu()
        return (host.float() if str(host.dtype) == "torch.bfloat16" else host).numpy()
    if hasattr(x, "get"):  # CuPy copies to the host only when asked to
        return x.get()
    return np.from_dlpack(x)


def host_array(x: Any) -> HostArray:
    """Real numbers of any library, sparse or in lists, as dense float64; TypeError for others."""
    values = x.toarray() if is_sparse(x) else to_numpy(x)
    return values.astype(np.float64, casting="same_kind", copy=False)


def as_vector(x: Any) -> HostArray:
    """A number or an array of numbers, such as ridge values, as `host_array` gives it, flattened."""
    return host_array(x).reshape(-1)


def without_gradient(x: Any) -> Array:
    """`x` without torch's record of operations, which tensors that require a gradient have."""
    return x.detach() if is_torch_array(x) else x


def asarray_like(values: Any, reference: Array) -> Any:
    """`values` as a float64 array in the library and on the device of `reference`."""
    if not is_foreign(reference):
        return np.asarray(to_numpy(values), dtype=np.float64)
    xp = namespace(reference)
    if not is_foreign(values) or namespace(values) is not xp:
        # torch takes no negative strides, and warns of arrays that it shares and must not write to.
        values = np.require(to_numpy(values), np.float64, ["C", "W"])
    return xp.asarray(values, dtype=xp.float64, device=_device(reference))


def rows_like(rows: Any, X: Array) -> Any:
    """Rows of any kind in the library, the dtype and the format of X: dense, or sparse where X is."""
    if is_foreign(X):
        return namespace(X).astype(asarray_like(rows.toarray() if is_sparse(rows) else rows, X), X.dtype)
    if is_sparse(X):
        return type(X)(rows if is_sparse(rows) else to_numpy(rows), dtype=X.dtype)
    return np.asarray(to_numpy(rows.toarray() if is_sparse(rows) else rows), dtype=X.dtype)


def index_like(index: Any, reference: Array) -> Array:
    """Row numbers as an integer array in the library and on the device of `reference`."""
    index = index if is_foreign(index) else np.asarray(index)
    return namespace(reference).asarray(index, device=device_of(reference))


def labels_like(values: Any, reference: Any) -> Array:
    """Predicted labels in the library of `reference`: text labels have no place outside NumPy."""
    if not is_foreign(reference) or np.asarray(values).dtype.kind not in "biuf":
        return values
    return namespace(reference).asarray(values, device=_device(reference))


# New arrays


def ones(n: int, reference: Array) -> Any:
    """Ones, n of them, in the dtype, library and device of `reference`."""
    return namespace(reference).ones(n, dtype=reference.dtype, device=device_of(reference))


def zeros(shape: int | tuple[int, ...], reference: Array) -> Array:
    """Zeros in float64, in the library and on the device of `reference`."""
    xp = namespace(reference)
    return xp.zeros(shape, dtype=xp.float64, device=device_of(reference))


def as_float64(x: Array) -> Any:
    """`x` in float64, without a copy where it already is."""
    if is_sparse(x):
        return x.astype(np.float64, copy=False)
    xp = namespace(x)
    return xp.astype(x, xp.float64, copy=False)


def as_floating(x: Array) -> Any:
    """`x` itself where it holds floating-point numbers; whole numbers in float64."""
    if is_sparse(x):
        return x if x.dtype.kind == "f" else as_float64(x)
    return x if namespace(x).isdtype(x.dtype, "real floating") else as_float64(x)


def outer(x: Array, y: Array) -> Array:
    """The matrix of products x_i · y_j."""
    return x[:, None] * y[None, :]


# Parts of arrays


def take_rows(x: Array, index: Any) -> Any:
    """``x[index]`` for row numbers of any shape, which lie on the host or where x lies."""
    if not is_foreign(x):
        return x[index]
    xp = namespace(x)
    index = index_like(index, x)
    taken = xp.take(x, xp.reshape(index, (-1,)), axis=0)
    return taken if index.ndim == 1 else xp.reshape(taken, (*index.shape, *x.shape[1:]))


def reorder_in_place(x: Any, index: Index) -> Array:
    """The rows of every matrix of a stack (matrices, rows, columns) in the order of `index`.

    In NumPy `x` itself is overwritten, one matrix at a time; elsewhere the result is a new array.
    """
    if is_foreign(x):
        return namespace(x).take(x, index_like(index, x), axis=1)
    for matrix in x:
        matrix[...] = matrix[index]
    return x


def scattered(values: Array, rows: Index, n: int) -> Any:
    """`n` rows: `values` at the row numbers `rows`, zeros elsewhere."""
    out = np.zeros((n, *values.shape[1:]))
    out[rows] = to_numpy(values)
    return asarray_like(out, values)


def scattered_like(values: Array, rows: Index, n: int) -> Any:
    """The same where `values` are, in float64."""
    if not is_foreign(values):
        return scattered(values, rows, n)
    xp = namespace(values)
    source = np.full(n, values.shape[0], dtype=np.intp)
    source[rows] = np.arange(rows.size)
    return take_rows(xp.concat([values, xp.zeros_like(values[:1, :])]), source)


def with_columns(x: Any, columns: Index, values: Array | None) -> Array:
    """A copy of a matrix `x` with `values` (rows, columns.size), or zeros, in `columns`."""
    if not is_foreign(x):
        out = x.copy()
        out[:, columns] = 0.0 if values is None else values
        return out
    xp = namespace(x)
    source = np.zeros(x.shape[1], dtype=np.intp)
    source[columns] = np.arange(columns.size)
    inside = index_like(np.isin(np.arange(x.shape[1]), columns), x)[None, :]
    replaced = xp.zeros_like(x) if values is None else take_rows(values.T, source).T
    return xp.where(inside, replaced, x)


def submatrix(matrix: Array, rows: Any, columns: Any) -> Array:
    """``matrix[rows][:, columns]`` for integer numbers, in any library."""
    if is_numpy(matrix):
        return matrix[np.ix_(rows, columns)]
    return take_rows(take_rows(matrix, rows).T, columns).T


def all_finite(x: Array) -> bool:
    """True if no entry is NaN or infinite."""
    xp = namespace(x)
    values = x.data if is_sparse(x) else x
    if not xp.isdtype(values.dtype, ("real floating", "complex floating")):
        return True
    return bool(xp.all(xp.isfinite(values)))


def library_rows(X: Any) -> Array | None:
    """Rows of another library than NumPy as finite floats, or an error; None for anything else."""
    if not is_foreign(X):
        return None
    xp = namespace(X)
    X = without_gradient(X)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"X must be a non-empty array (rows, features); got shape {tuple(X.shape)}.")
    if X.dtype not in (xp.float32, xp.float64):
        if not xp.isdtype(X.dtype, ("integral", "bool", "real floating")):
            raise ValueError(f"X must contain real numbers; got {X.dtype}.")
        X = xp.astype(X, xp.float64)  # half precision too: its squares overflow from 256 on
    if not all_finite(X):
        raise ValueError("X contains NaN or infinity; impute or drop these rows.")
    return X


# Passes over a large array in the memory it already has, where its library can write there: NumPy, CuPy
# and torch take ``out=``, elsewhere a new array is returned. On a device, the time of a kernel tile is
# proportional to the number of passes over it; none of these waits for the host.


def _takes_out(x: Array) -> bool:
    return bool(is_numpy_array(x) or is_torch_array(x) or is_cupy_array(x))


def product_into(a: Array, b: Array, out: Array | None = None) -> Array:
    """The product a · b, in `out` where there is one of that dtype."""
    if out is None or not _takes_out(a) or out.dtype != a.dtype or a.dtype != b.dtype:
        return a @ b
    return namespace(a).matmul(a, b, out=out)


def exp_in_place(x: Array) -> Array:
    """exp of every entry."""
    xp = namespace(x)
    return xp.exp(x, out=x) if _takes_out(x) else xp.exp(x)


def sqrt_in_place(x: Array) -> Array:
    """The square root of every entry."""
    xp = namespace(x)
    return xp.sqrt(x, out=x) if _takes_out(x) else xp.sqrt(x)


def abs_in_place(x: Array) -> Array:
    """The absolute value of every entry."""
    xp = namespace(x)
    return xp.abs(x, out=x) if _takes_out(x) else xp.abs(x)


def clip_in_place(x: Any, least: float | None, most: float | None) -> Any:
    """`x` between two limits, of which one may be None."""
    if is_torch_array(x):
        return x.clamp_(least, most)
    return x.clip(least, most, out=x) if _takes_out(x) else namespace(x).clip(x, least, most)


def zero_diagonal(x: Array) -> Array:
    """`x` (n, n), C-ordered, with zeros on its diagonal."""
    xp = namespace(x)
    if _takes_out(x):
        xp.reshape(x, (-1,))[:: x.shape[0] + 1] = 0
        return x
    return xp.where(xp.eye(x.shape[0], dtype=xp.bool, device=_device(x)), xp.zeros_like(x), x)


# Between the host and a device: arrays, free memory, copies that overlap with work


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"device=... needs PyTorch, which is not installed; {pip_install('torch')}, or use "
            "device=None."
        ) from error
    return torch


def torch_device(device: Device) -> Any:
    """The torch device of that name; raise if this machine has none."""
    torch = _torch()
    try:
        resolved = torch.device(device)
        torch.empty(1, device=resolved)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f'device={device!r} cannot be used here ({reason}); use "cpu", "cuda" on a machine with a '
            "GPU, or None."
        ) from error
    return resolved


def on_device(x: Any, device: Device) -> Any:
    """A NumPy array as a torch tensor on the device, in its own dtype."""
    # A copy: a tensor on the host would share memory with the user's array.
    resolved = torch_device(device)
    return _torch().tensor(np.require(x, requirements=["C", "W"]), device=resolved)


def free_device_memory(device: Device) -> int | None:
    """Bytes free on a torch device, which may be the host; None if unknown."""
    resolved = torch_device(device)
    if resolved.type != "cuda":
        return memory.available_memory()
    cuda = _torch().cuda
    free, _ = cuda.mem_get_info(resolved)
    # Memory that torch keeps reserved for its next arrays counts as free.
    return int(free + cuda.memory_reserved(resolved) - cuda.memory_allocated(resolved))


def free_memory_of(x: Array) -> int | None:
    """Bytes free where `x` lies, on an accelerator or on the host; None if unknown."""
    if is_torch_array(x):
        return free_device_memory(_device(x))
    if is_cupy_array(x):
        return int(_device(x).mem_info[0]) + int(namespace(x).get_default_memory_pool().free_bytes())
    return None if on_accelerator(x) else memory.available_memory()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device's memory ran out."""
    return type(error).__name__ in ("OutOfMemoryError", "OutOfMemoryException")


class Uploader:
    """Copies blocks to a device from page-locked memory, on a stream of their own."""

    def __init__(self, device: Device) -> None:
        self._device = torch_device(device)
        self._stream = _torch().cuda.Stream(self._device) if self._device.type == "cuda" else None

    def send(self, arrays: Sequence[Any]) -> tuple[list[Any], Any]:
        """Start the copies; the result is to be passed to `receive`."""
        torch = _torch()
        if self._stream is None:
            return [None if a is None else on_device(a, self._device) for a in arrays], None
        with torch.cuda.stream(self._stream):
            # torch warns of arrays that must not be written to, such as blocks of a mapped file.
            contiguous = [None if a is None else np.require(a, requirements=["C", "W"]) for a in arrays]
            pinned = [None if a is None else torch.from_numpy(a).pin_memory() for a in contiguous]
            sent = [None if a is None else a.to(self._device, non_blocking=True) for a in pinned]
            done = torch.cuda.Event()
            done.record(self._stream)
        return sent, done

    def receive(self, tensors: list[Any], done: Any) -> list[Any]:
        """The arrays on the device; work that is started after this waits for the copies."""
        if done is not None:
            current = _torch().cuda.current_stream(self._device)
            current.wait_event(done)
            for tensor in filter(_torch().is_tensor, tensors):
                tensor.record_stream(current)
        return tensors
