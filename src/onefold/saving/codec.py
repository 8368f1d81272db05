"""Values to nodes and back: how values look in the metadata of a model file, JSON beside NumPy arrays.

Plain JSON values stand for themselves. Everything else is an object with one key that begins with
a dollar sign and says how to read it:

=============  =====================================================================
``$array``     name of a numeric array; ``order`` "F" if it is stored transposed
``$again``     name of an array before it that is equal
``$text``      a string array, as an array of code points with one axis more
``$objects``   items and shape of an object array
``$masked``    data, mask and fill value of a masked array
``$csr``       a SciPy CSR matrix or array
``$scalar``    a NumPy scalar
``$float``     nan, inf or -inf, for which JSON has no number
``$tuple``     a tuple
``$dict``      key and value pairs, where some key is not a string
``$object``    an instance of a registered class: ``fields``, the arguments of its constructor; of an
               estimator ``params`` and ``fitted``, the attributes that end in an underscore
``$dropped``   a constructor parameter that could not be saved, as its repr; of those that belong to
               the machine of the fit, `checkpoint`, `client` and `scratch`, the type alone
=============  =====================================================================

Keys of ordinary dicts that begin with a dollar sign get a second one. Only names of registered classes
(`onefold.saving.classes`) are built, and only names of fitted attributes are set on an estimator: a
file can neither reach other code nor replace a method. A `checkpoint` in a file is not restored either:
no file chooses where a later fit writes.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from onefold.linalg import is_foreign, is_sparse, to_numpy
from onefold.saving import classes
from onefold.saving.container import ARRAY_DTYPES, NONSENSE, UPGRADE, BadContent, CannotSave

Node = Any  # a JSON value: None, bool, int, float, str, list or dict of such
Parts = dict[str, Any]  # the entries of a node, but as values

_SCALARS = frozenset(ARRAY_DTYPES.values()) | {"str"}
_PYTHON_TYPES: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "U": str}
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
# The last code point of Unicode.
_MAX_CODE_POINT = 0x10FFFF
# Nodes inside nodes; stops cyclic lists and files built to exhaust the stack.
_MAX_DEPTH = 200
# Bytes of an array from which on equal ones are stored once.
_WORTH_SHARING = 2**12
_FITTED_NAME = re.compile(r"[a-z][a-z0-9_]*_")
_DROPPED = "dropped_params_"
# Parameters that belong to one machine, and are not restored on another.
_LOCAL = frozenset({"checkpoint", "client", "scratch"})
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# Characters of the repr of a dropped parameter.
_REPR_LENGTH = 200


class Kind(NamedTuple):
    """One kind of value: which values are of it, its parts by their key in the node, and back."""

    holds: Callable[[Any], bool]
    parts: Callable[[Any], Parts]
    build: Callable[[Parts], Any]


def _array(value: Any) -> np.ndarray:
    if type(value) is not np.ndarray:
        raise BadContent("it has another value where an array is expected")
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
    halves = (codes >= 0xD800) & (codes <= 0xDFFF)  # of characters, which cannot be written out again
    if np.any(halves | (codes > _MAX_CODE_POINT)):
        raise BadContent("a string array holds numbers that are not code points")
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
    data = _array(parts["$masked"])
    mask = np.ma.nomask if parts["mask"] is None else parts["mask"]
    if mask is not np.ma.nomask and (_array(mask).dtype != bool or mask.shape != data.shape):
        raise BadContent("the mask of a masked array does not fit its data")
    return np.ma.MaskedArray(data, mask=mask, fill_value=parts["fill_value"])


def _csr_parts(value: Any) -> Parts:
    if not value.has_canonical_format:  # a computation would sort it, and change its last digits
        value = value.copy()
        value.sum_duplicates()
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
    if not result.has_canonical_format:
        raise BadContent("the entries of a sparse matrix are out of order or duplicated")
    return result


def _scalar_name(value: np.generic) -> str:
    return "str" if value.dtype.kind == "U" else value.dtype.name


def _build_scalar(parts: Parts) -> np.generic:
    name = str(parts["$scalar"])
    value = parts["value"]
    if name not in _SCALARS:
        raise BadContent(f"the scalar type {name!r:.60} is unknown")
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
        lambda value: type(value) is dict,  # if all keys are text, it is plain JSON
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


class Encoder:
    """Turns values into nodes and collects their arrays in `arrays`."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._names: dict[Any, str] = {}  # of large arrays, by their content

    def encode(self, value: Any, name: str, depth: int = 0) -> Node:
        """The node of `value`, which errors call `name` and which lies inside `depth` others."""
        if depth > _MAX_DEPTH:
            raise CannotSave(
                f"cannot save {name}: it is nested more than {_MAX_DEPTH} levels deep or contains "
                "itself; flatten it."
            )
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float and math.isfinite(value):
            return value
        if type(value) is list:
            return [self.encode(item, f"{name}[{i}]", depth + 1) for i, item in enumerate(value)]
        if type(value) is dict and all(type(key) is str for key in value):
            return {
                f"${key}" if key.startswith("$") else key: self.encode(i, f"{name}[{key!r}]", depth + 1)
                for key, i in value.items()
            }
        for tag, kind in KINDS.items():
            if kind.holds(value):
                return {
                    key: self.encode(part, name if key == tag else f"{name}.{key}", depth + 1)
                    for key, part in kind.parts(value).items()
                }
        if isinstance(value, np.ndarray) and value.dtype.name in ARRAY_DTYPES.values():
            return self._array(value)
        if classes.name_of(value) is not None:
            return self._object(value, name, depth)
        if is_foreign(value):
            # Files hold CPU arrays only, so that they load where there is no GPU.
            return self.encode(to_numpy(value), name, depth)
        raise CannotSave(f"cannot save {name}: {_why_not(value)}.")

    def _array(self, value: np.ndarray) -> Node:
        native = np.asarray(value).astype(value.dtype.newbyteorder("="), copy=False)
        # Matrix products may differ in the last bit between memory orders: keep the order.
        transposed = native.flags.f_contiguous and not native.flags.c_contiguous
        stored = native.T if transposed else np.asarray(native, order="C")
        key = f"a{len(self.arrays)}"
        if stored.nbytes >= _WORTH_SHARING:  # by their bytes: equal models give equal files
            content = stored.dtype.str, stored.shape, transposed, sha256(stored.data).digest()
            if content in self._names:
                return {"$again": self._names[content]}
            self._names[content] = key
        self.arrays[key] = stored
        return {"$array": key, "order": "F"} if transposed else {"$array": key}

    def _object(self, value: Any, name: str, depth: int) -> Node:
        """The node of an instance of a registered class."""

        def encoded(values: Parts) -> dict[str, Node]:
            return {key: self.encode(v, f"{name}.{key}", depth + 1) for key, v in values.items()}

        node: dict[str, Node] = {"$object": type(value).__name__}
        if isinstance(value, BaseEstimator):
            node["params"] = {
                key: self._parameter(value, key, f"{name}.{key}", depth + 1)
                for key in inspect.signature(type(value)).parameters
            }
            fitted = {
                key: attribute
                for key, attribute in sorted(vars(value).items())
                if key.endswith("_") and not key.startswith("_") and key != _DROPPED
            }
            for key in fitted:
                if not _FITTED_NAME.fullmatch(key):
                    raise CannotSave(
                        f"cannot save {name}.{key}: fitted attributes in a model file have "
                        "lower-case names; rename it."
                    )
            node["fitted"] = encoded(fitted)
        else:
            # Repeated splitters of scikit-learn keep some of their arguments in a dict.
            held = getattr(value, "cvargs", {})
            arguments = inspect.signature(type(value)).parameters
            node["fields"] = encoded(
                {key: held[key] if key in held else getattr(value, key) for key in arguments}
            )
        classes.check(value)  # last: a value that no file can hold is reported first
        return node

    def _parameter(self, estimator: BaseEstimator, key: str, name: str, depth: int) -> Node:
        """A parameter's node; one that only the fit needs (a scorer, a callback) may become its repr."""
        value = getattr(estimator, key)
        defaults = _defaults(type(estimator))
        notes = getattr(estimator, _DROPPED, {})
        if key in notes and value is defaults[key]:
            return {"$dropped": notes[key]}  # as it was when this model was loaded
        if key in _LOCAL and value is not None:
            return {"$dropped": type(value).__name__}
        count = len(self.arrays)
        try:
            return self.encode(value, name, depth)
        except CannotSave:  # prediction needs the kernel
            if key.startswith("kernel") or key not in defaults:
                raise
        for unused in list(self.arrays)[count:]:
            del self.arrays[unused]
        self._names = {content: key for content, key in self._names.items() if key in self.arrays}
        # Addresses differ from run to run; equal models must give equal files.
        return {"$dropped": _ADDRESS.sub("", repr(value))[:_REPR_LENGTH]}


def _note(cls: type, key: str, item: Node) -> str | None:
    """The record of an estimator's parameter that is not restored; None for others."""
    if isinstance(item, dict) and "$dropped" in item and key in _defaults(cls):
        return str(item["$dropped"])
    return type(item).__name__ if key in _LOCAL and item is not None else None


def _defaults(cls: type) -> Parts:
    parameters = inspect.signature(cls).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _why_not(value: Any) -> str:
    kind = type(value).__name__
    if callable(value):
        return (
            f"a {kind} is Python code, which a model file cannot store; use one of the built-in "
            "choices, or for a kernel compute the matrix yourself and pass kernel='precomputed'"
        )
    dtype = f" of dtype {value.dtype}" if isinstance(value, np.ndarray) else ""
    return (
        f"a {kind}{dtype} cannot be stored in a model file; use numbers, strings, arrays or CSR matrices"
    )


class Decoder:
    """Turns nodes back into values, checking everything in them."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._unread = dict(arrays)  # each is read once, so that a small file cannot cause much work
        self._read: dict[str, np.ndarray] = {}

    def decode(self, node: Node, depth: int = 0) -> Any:
        """The value of `node`, which lies inside `depth` others; BadContent if it is not valid."""
        if depth > _MAX_DEPTH:
            raise BadContent(f"its metadata is nested more than {_MAX_DEPTH} levels deep")
        if isinstance(node, list):
            return [self.decode(item, depth + 1) for item in node]
        if not isinstance(node, dict):
            return node
        tags = [key for key in node if key.startswith("$") and not key.startswith("$$")]
        tag = tags[0] if tags else None
        if len(tags) > 1 or (tag not in KINDS and tag not in ("$array", "$again", "$object", None)):
            raise BadContent(f"it holds an unknown entry {', '.join(tags)!s:.60}", UPGRADE)
        try:
            if tag == "$array":
                return self._array(node["$array"], node.get("order", "C"))
            if tag == "$again":
                if node["$again"] not in self._read:
                    raise BadContent(f"the array {node['$again']!r:.60} is used before it is defined")
                return self._read[node["$again"]]
            if tag == "$object":
                return self._object(node, depth)
            parts = self._parts(node, depth)
            if tag is None:
                return {key.removeprefix("$"): item for key, item in parts.items()}
            return KINDS[tag].build(parts)
        except BadContent:
            raise
        except NONSENSE as error:
            raise BadContent(f"one {tag or 'plain'} entry is not valid ({error!s:.200})") from error

    def finish(self) -> None:
        """Check that no array is left over."""
        if self._unread:
            raise BadContent(f"its array {min(self._unread)!r:.60} is not used")

    def _parts(self, nodes: dict[str, Node], depth: int) -> Parts:
        return {key: self.decode(item, depth + 1) for key, item in nodes.items()}

    def _array(self, name: str, order: str) -> np.ndarray:
        array = self._unread.pop(name, None)
        if array is None:
            raise BadContent(f"the array {name!r:.60} is missing or used twice")
        if order not in ("C", "F"):
            raise BadContent(f"the array {name!r:.60} has the unknown order {order!r:.20}")
        self._read[name] = array.T if order == "F" else array
        return self._read[name]

    def _object(self, node: dict[str, Any], depth: int) -> object:
        cls: Any = classes.find(node["$object"])
        if cls is None:
            raise BadContent(
                f"it holds a {node['$object']!r:.60}, which this version does not know", UPGRADE
            )
        is_estimator = issubclass(cls, BaseEstimator)
        arguments = node["params" if is_estimator else "fields"]
        for key in arguments:
            if key not in inspect.signature(cls).parameters:
                raise BadContent(f"{cls.__name__} has no parameter {key!r:.60} in this onefold", UPGRADE)
        notes = {key: _note(cls, key, item) for key, item in arguments.items() if is_estimator}
        dropped = {key: note for key, note in notes.items() if note is not None}
        restored = {key: item for key, item in arguments.items() if key not in dropped}
        value = cls(**self._parts(restored, depth))
        if is_estimator:
            for key, item in node["fitted"].items():
                if not _FITTED_NAME.fullmatch(key) or key == _DROPPED or hasattr(cls, key):
                    raise BadContent(f"{key!r:.60} is not the name of a fitted attribute")
                setattr(value, key, self.decode(item, depth + 1))
            if dropped:
                setattr(value, _DROPPED, dropped)
        classes.check(value)
        return value
