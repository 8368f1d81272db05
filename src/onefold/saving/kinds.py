"""How values look in the metadata of a model file: JSON beside a dict of NumPy arrays.

Plain JSON values stand for themselves. Everything else is an object with one key that begins with
a dollar sign and says how to read it:

=============  =====================================================================
``$array``     name of a numeric array; ``order`` "F" if it is stored transposed
``$again``     name of an array before it that is equal, once for each at most
``$text``      a string array, as an array of code points with one axis more
``$objects``   items and shape of an object array
``$masked``    data, mask and fill value of a masked array
``$csr``       a SciPy CSR matrix or array
``$scalar``    a NumPy scalar
``$float``     nan, inf or -inf, for which JSON has no number
``$tuple``     a tuple
``$dict``      key and value pairs, where some key is not a string
``$object``    an instance of a registered class (`onefold.saving.objects`)
``$dropped``   a constructor parameter that could not be saved, as its repr
=============  =====================================================================

Keys of ordinary dicts that begin with a dollar sign get a second one. Arrays and the walk through
values inside values are in `onefold.saving.codec`. Here is how each other kind is taken apart into
simpler values, and how it is built from such parts again, which may be any nonsense.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from onefold.linalg import is_sparse
from onefold.saving.errors import BadContent

Node = Any  # a JSON value: None, bool, int, float, str, list or dict of such
Parts = dict[str, Any]  # the entries of a node, but as values

# The array types of a file: the name in the safetensors header -> the name in NumPy.
ARRAY_DTYPES = {
    "BOOL": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U8": "uint8",
    "U16": "uint16", "U32": "uint32", "U64": "uint64", "F16": "float16", "F32": "float32",
    "F64": "float64",
}  # fmt: skip
_SCALARS = frozenset(ARRAY_DTYPES.values()) | {"str"}
_PYTHON_TYPES: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "U": str}
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_MAX_CODE_POINT = 0x10FFFF
_HALVES = (0xD800, 0xDFFF)  # of characters, which cannot be written out


class Kind(NamedTuple):
    """One kind of value: which values are of it, its parts by their key in the node, and back."""

    holds: Callable[[Any], bool]
    parts: Callable[[Any], Parts]
    build: Callable[[Parts], Any]


def check_text(text: str) -> str:
    """The text, if it can be written out."""
    if not text.isascii() and any(_HALVES[0] <= ord(letter) <= _HALVES[1] for letter in text):
        raise BadContent("a string holds half a character")
    return text


def _array(value: Any) -> np.ndarray:
    if type(value) is not np.ndarray:
        raise BadContent("a value stands where an array belongs")
    return value


def _shape(sizes: list[Any]) -> tuple[int, ...]:
    if any(type(size) is not int or size < 0 for size in sizes):
        raise BadContent("the shape of an array is not a list of sizes")
    return tuple(sizes)


def _code_points(value: np.ndarray) -> np.ndarray:
    native = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("="), copy=False)
    return native.reshape(-1).view(np.uint32).reshape((*value.shape, native.dtype.itemsize // 4))


def _build_text(parts: Parts) -> np.ndarray:
    codes = _array(parts["$text"])
    if codes.dtype != np.uint32 or codes.ndim == 0 or codes.shape[-1] == 0:
        raise BadContent("the code points of a string array have the wrong dtype or shape")
    if codes.size and codes.max() > _MAX_CODE_POINT:
        raise BadContent("a string array holds numbers that are not code points")
    if np.any((codes >= _HALVES[0]) & (codes <= _HALVES[1])):
        raise BadContent("a string array holds half a character")
    *shape, width = codes.shape
    return np.ascontiguousarray(codes).reshape(-1).view(f"=U{width}").reshape(shape)


def _build_objects(parts: Parts) -> np.ndarray:
    array = np.empty(len(parts["$objects"]), dtype=object)
    for i, item in enumerate(parts["$objects"]):  # one by one: NumPy would unpack tuples and lists
        array[i] = item
    return array.reshape(_shape(parts["shape"]))


def _masked_parts(value: np.ma.MaskedArray[Any, Any]) -> Parts:
    data = np.array(value.data, copy=True, subok=False)
    # Hidden entries are often uninitialised memory: blank them, or equal models differ on disk.
    data[np.ma.getmaskarray(value)] = None if data.dtype == object else np.zeros((), data.dtype)
    mask = None if value.mask is np.ma.nomask else np.asarray(value.mask)
    return {"$masked": data, "mask": mask, "fill_value": value.fill_value}


def _build_masked(parts: Parts) -> np.ma.MaskedArray[Any, Any]:
    data, mask = _array(parts["$masked"]), np.ma.nomask if parts["mask"] is None else parts["mask"]
    if mask is not np.ma.nomask and (_array(mask).dtype != bool or mask.shape != data.shape):
        raise BadContent("the mask of a masked array does not fit its data")
    return np.ma.MaskedArray(data, mask=mask, fill_value=parts["fill_value"])


def _csr_parts(value: Any) -> Parts:
    kind = "array" if isinstance(value, sparse.sparray) else "matrix"
    arrays = {"data": value.data, "indices": value.indices, "indptr": value.indptr}
    return {"$csr": kind, "shape": [int(size) for size in value.shape], **arrays}


def _build_csr(parts: Parts) -> Any:
    data, *places = (_array(parts[key]) for key in ("data", "indices", "indptr"))
    if any(array.ndim != 1 for array in (data, *places)) or any(p.dtype.kind != "i" for p in places):
        raise BadContent("the parts of a sparse matrix have the wrong shape or dtype")
    build = {"array": sparse.csr_array, "matrix": sparse.csr_matrix}[parts["$csr"]]
    result = build((data, *places), shape=_shape(parts["shape"]))
    result.check_format(full_check=True)  # bad indices would read outside the arrays
    return result


def _scalar_name(value: np.generic) -> str:
    return "str" if value.dtype.kind == "U" else value.dtype.name


def _build_scalar(parts: Parts) -> np.generic:
    name, value = str(parts["$scalar"]), parts["value"]
    if name not in _SCALARS:
        raise BadContent(f"the scalar type {name!r:.60} is not known")
    dtype = np.dtype(name)
    if type(value) is not _PYTHON_TYPES[dtype.kind]:
        raise BadContent(f"a {name} scalar has a value of another type")
    with np.errstate(over="raise"):
        scalar: np.generic = dtype.type(value)
    return scalar


KINDS: dict[str, Kind] = {  # the first that holds a value takes it apart
    "$float": Kind(
        lambda value: type(value) is float,  # finite ones are plain JSON
        lambda value: {"$float": repr(value)},
        lambda parts: _FLOATS[parts["$float"]],
    ),
    "$scalar": Kind(
        lambda value: isinstance(value, np.generic) and _scalar_name(value) in _SCALARS,
        lambda value: {"$scalar": _scalar_name(value), "value": value.item()},
        _build_scalar,
    ),
    "$tuple": Kind(
        lambda value: type(value) is tuple,
        lambda value: {"$tuple": list(value)},
        lambda parts: tuple(parts["$tuple"]),
    ),
    "$dict": Kind(
        lambda value: type(value) is dict,  # with keys of text alone it is plain JSON
        lambda value: {"$dict": [[key, item] for key, item in value.items()]},
        lambda parts: dict(parts["$dict"]),
    ),
    "$masked": Kind(lambda value: isinstance(value, np.ma.MaskedArray), _masked_parts, _build_masked),
    "$objects": Kind(
        lambda value: isinstance(value, np.ndarray) and value.dtype == object,
        lambda value: {"$objects": value.ravel().tolist(), "shape": list(value.shape)},
        _build_objects,
    ),
    "$text": Kind(
        lambda value: isinstance(value, np.ndarray) and value.dtype.kind == "U",
        lambda value: {"$text": _code_points(value)},
        _build_text,
    ),
    "$csr": Kind(
        lambda value: is_sparse(value) and value.format == "csr" and value.ndim == 2,
        _csr_parts,
        _build_csr,
    ),
}
