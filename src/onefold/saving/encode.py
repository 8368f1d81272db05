"""Values to nodes (see `onefold.saving.nodes`), their arrays collected on the side."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from onefold.linalg import is_foreign, is_sparse, to_numpy
from onefold.saving import objects, registry
from onefold.saving.errors import CannotSave
from onefold.saving.nodes import ARRAY_DTYPES, MAX_DEPTH, SCALAR_NAMES, TYPE_NAMES, Node
from onefold.saving.transformers import STATE


class Encoder:
    """Turns values into nodes and collects their arrays in `arrays`."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def encode(self, value: object, where: str, depth: int = 0) -> Node:
        """Return the node for `value`.

        Parameters
        ----------
        value : object
            What to encode.
        where : str
            What the value is called in error messages.
        depth : int
            How many values this one lies inside.

        Raises
        ------
        CannotSave
            If the value, or something inside it, has no place in a model file.
        """
        if depth > MAX_DEPTH:
            raise CannotSave(
                f"cannot save {where}: it is nested more than {MAX_DEPTH} levels deep or contains "
                "itself; flatten it."
            )

        def inside(item: object, suffix: str) -> Node:
            return self.encode(item, where + suffix, depth + 1)

        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if isinstance(value, np.generic):
            return self._scalar(value, where, inside)
        if type(value) is list:
            return [inside(item, f"[{i}]") for i, item in enumerate(value)]
        if type(value) is tuple:
            return {"$tuple": [inside(item, f"[{i}]") for i, item in enumerate(value)]}
        if type(value) is dict:
            return _dict(value, inside)
        if type(value) is slice:
            return {"$slice": [inside(part, "") for part in (value.start, value.stop, value.step)]}
        if isinstance(value, np.dtype) and value.kind in "biufUO" and value.names is None:
            return {"$dtype": value.str}
        if isinstance(value, type) and value in TYPE_NAMES:
            return {"$type": TYPE_NAMES[value]}
        if isinstance(value, np.ma.MaskedArray):
            return _masked(value, inside)
        if isinstance(value, np.ndarray):
            return self._array(value, where, inside)
        if is_sparse(value):
            return _csr(value, where, inside)
        name = registry.name_of(value)
        if name is not None:
            return objects.to_node(value, name, where, self, depth)
        if is_foreign(value):
            # Files hold CPU arrays only, so that they load where there is no GPU.
            return self.encode(to_numpy(value), where, depth)
        raise CannotSave(_why_not(value, where))

    def forget_after(self, count: int) -> None:
        """Drop all but the first `count` arrays: those of a value that could not be finished."""
        for name in list(self.arrays)[count:]:
            del self.arrays[name]

    def _scalar(self, value: np.generic, where: str, inside: Callable[..., Node]) -> Node:
        name = "str" if value.dtype.kind == "U" else value.dtype.name
        if name not in SCALAR_NAMES:
            raise CannotSave(_why_not(value, where))
        return {"$scalar": name, "value": inside(value.item(), "")}

    def _array(self, value: np.ndarray, where: str, inside: Callable[..., Node]) -> Node:
        if value.dtype == object:
            items = [inside(item, f"[{i}]") for i, item in enumerate(value.ravel().tolist())]
            return {"$objects": items, "shape": list(value.shape)}
        native = np.asarray(value).astype(value.dtype.newbyteorder("="), copy=False)
        if native.dtype.kind == "U":
            width = native.dtype.itemsize // 4
            codes = np.ascontiguousarray(native).reshape(-1).view(np.uint32)
            return {"$text": inside(codes.reshape((*value.shape, width)), "")}
        if native.dtype.name not in ARRAY_DTYPES.values():
            raise CannotSave(
                f"cannot save {where}: arrays of dtype {value.dtype} have no place in a model "
                "file; convert it to a numeric, bool or string array."
            )
        name = f"a{len(self.arrays)}"
        # Matrix products may differ in the last bit between memory orders: keep the order.
        if native.flags.f_contiguous and not native.flags.c_contiguous:
            self.arrays[name] = native.T
            return {"$array": name, "order": "F"}
        self.arrays[name] = np.asarray(native, order="C")
        return {"$array": name}


def _dict(value: dict[Any, Any], inside: Callable[..., Node]) -> Node:
    if all(type(key) is str for key in value):
        escaped = {key: f"${key}" if key.startswith("$") else key for key in value}
        return {escaped[key]: inside(item, f"[{key!r}]") for key, item in value.items()}
    pairs = [[inside(k, f" (key {k!r})"), inside(v, f"[{k!r}]")] for k, v in value.items()]
    return {"$dict": pairs}


def _masked(value: np.ma.MaskedArray[Any, Any], inside: Callable[..., Node]) -> Node:
    data = np.array(value.data, copy=True, subok=False)
    # Hidden entries are often uninitialised memory: blank them, or equal models differ on disk.
    data[np.ma.getmaskarray(value)] = None if data.dtype == object else np.zeros((), data.dtype)
    return {
        "$masked": inside(data, ".data"),
        "mask": None if value.mask is np.ma.nomask else inside(np.asarray(value.mask), ".mask"),
        "fill_value": inside(value.fill_value, ".fill_value"),
    }


def _csr(value: Any, where: str, inside: Callable[..., Node]) -> Node:
    if value.format != "csr" or value.ndim != 2:
        raise CannotSave(
            f"cannot save {where}: among sparse formats only two-dimensional CSR is supported; "
            "convert it with .tocsr()."
        )
    return {
        "$csr": "array" if isinstance(value, sparse.sparray) else "matrix",
        "shape": [int(size) for size in value.shape],
        "data": inside(value.data, ".data"),
        "indices": inside(value.indices, ".indices"),
        "indptr": inside(value.indptr, ".indptr"),
    }


def _why_not(value: object, where: str) -> str:
    kind = type(value).__name__
    if hasattr(value, "best_estimator_"):
        return f"cannot save {where}: a {kind} is a search; save its best_estimator_."
    if isinstance(value, BaseEstimator):
        return (
            f"cannot save {where}: a {kind} is neither an estimator of onefold's nor among the "
            f"scikit-learn classes that a model file holds ({', '.join(sorted(STATE))}); use one of "
            "these, or save the estimator alone and prepare its rows yourself."
        )
    if callable(value) and "kernel" not in where and not dataclasses.is_dataclass(value):
        return (
            f"cannot save {where}: a {kind} is Python code, which a model file does not hold; use one "
            "of the built-in choices, or for columns a list of their names."
        )
    if kind == "CallableKernel" or (callable(value) and not dataclasses.is_dataclass(value)):
        return (
            f"cannot save {where}: a {kind} is Python code, which a model file does not hold; "
            "use one of the built-in choices, or for a kernel compute the matrix yourself and "
            "pass kernel='precomputed'."
        )
    return (
        f"cannot save {where}: a {kind} has no place in a model file; use numbers, strings, "
        "arrays, or a class passed to onefold.saving.register()."
    )
