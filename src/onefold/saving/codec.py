"""Values to nodes (see `onefold.saving.kinds`) and back: the walk, and the arrays at its ends."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from onefold.linalg import is_foreign, is_sparse, to_numpy
from onefold.saving import objects, registry
from onefold.saving.errors import NONSENSE, UPGRADE, BadContent, CannotSave
from onefold.saving.kinds import ARRAY_DTYPES, KINDS, Node, check_text

_MAX_DEPTH = 200  # nodes inside nodes; stops cyclic lists and files built to exhaust the stack
_WORTH_SHARING = 2**12  # bytes


class Encoder:
    """Turns values into nodes and collects their arrays in `arrays`.

    Of two equal arrays in one value, such as the centres of a model and of its fold models, one is
    written. Equal by their bytes, not the same object: equal models give equal files.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._met: dict[Any, str] = {}  # names of large arrays that were written once

    def encode(self, value: Any, name: str, depth: int = 0) -> Node:
        """The node of `value`, which errors call `name` and which lies inside `depth` others.

        Raises
        ------
        CannotSave
            If the value, or something inside it, has no place in a model file.
        BadContent
            If the parts of a registered object do not fit together: the file could not be loaded.
        """
        if depth > _MAX_DEPTH:
            raise CannotSave(
                f"cannot save {name}: it is nested more than {_MAX_DEPTH} levels deep or contains "
                "itself; flatten it."
            )
        if depth == 0:
            self._met.clear()  # values may be read one without the other
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
        known = registry.name_of(value)
        if known is not None:
            return objects.to_node(value, known, name, self, depth)
        if is_foreign(value):
            # Files hold CPU arrays only, so that they load where there is no GPU.
            return self.encode(to_numpy(value), name, depth)
        raise CannotSave(f"cannot save {name}: {_why_not(value, name)}.")

    def forget_after(self, count: int) -> None:
        """Drop all but the first `count` arrays: those of a value that could not be finished."""
        for key in list(self.arrays)[count:]:
            del self.arrays[key]
        self._met = {what: key for what, key in self._met.items() if key in self.arrays}

    def _array(self, value: np.ndarray) -> Node:
        native = np.asarray(value).astype(value.dtype.newbyteorder("="), copy=False)
        # Matrix products may differ in the last bit between memory orders: keep the order.
        turned = native.flags.f_contiguous and not native.flags.c_contiguous
        stored = native.T if turned else np.asarray(native, order="C")
        if stored.nbytes >= _WORTH_SHARING:
            what = stored.dtype.str, stored.shape, turned, sha256(stored.data).digest()
            met = self._met.pop(what, None)
            if met is not None:
                return {"$again": met}
            self._met[what] = f"a{len(self.arrays)}"
        key = f"a{len(self.arrays)}"
        self.arrays[key] = stored
        return {"$array": key, "order": "F"} if turned else {"$array": key}


def _why_not(value: Any, name: str) -> str:
    kind = type(value).__name__
    code = f"a {kind} is Python code, which a model file does not hold; use one of the built-in choices"
    if hasattr(value, "best_estimator_"):
        return f"a {kind} is a search; save its best_estimator_"
    if isinstance(value, BaseEstimator):
        return f"a {kind} is no estimator of onefold's; save what holds it with skops or joblib"
    if isinstance(value, np.ndarray):
        return (
            f"arrays of dtype {value.dtype} have no place in a model file; convert it to a numeric, "
            "bool or string array"
        )
    if is_sparse(value):
        return "among sparse formats only two-dimensional CSR is supported; convert it with .tocsr()"
    is_code = callable(value) and not dataclasses.is_dataclass(value)
    if kind == "CallableKernel" or (is_code and "kernel" in name):
        return f"{code}, or for a kernel compute the matrix yourself and pass kernel='precomputed'"
    if is_code:
        return f"{code}, or for columns a list of their names"
    return (
        f"a {kind} has no place in a model file; use numbers, strings, arrays, or a class passed to "
        "onefold.saving.register()"
    )


class Decoder:
    """Turns nodes back into values, trusting nothing in them.

    Each array is taken exactly once, and copied at most once: a small file stays little work.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._unread = dict(arrays)
        self._read: dict[str, np.ndarray] = {}

    def decode(self, node: Node, depth: int = 0) -> Any:
        """The value of `node`, which lies inside `depth` others; BadContent if it makes no sense."""
        if depth > _MAX_DEPTH:
            raise BadContent(f"its metadata is nested more than {_MAX_DEPTH} levels deep")
        if isinstance(node, list):
            return [self.decode(item, depth + 1) for item in node]
        if isinstance(node, str):
            return check_text(node)
        if not isinstance(node, dict):
            return node
        tags = [key for key in node if key.startswith("$") and not key.startswith("$$")]
        if len(tags) > 1:
            raise BadContent(f"it holds an unknown entry {', '.join(tags)!s:.60}", UPGRADE)
        try:
            return self._entry(tags[0] if tags else None, node, depth)
        except BadContent:
            raise
        except NONSENSE as error:
            what = tags[0] if tags else "plain"
            raise BadContent(f"one {what} entry is not valid ({error!s:.200})") from error

    def finish(self) -> None:
        """Check that no array is left over."""
        if self._unread:
            raise BadContent(f"nothing refers to its array {min(self._unread)!r:.60}")

    def _entry(self, tag: str | None, node: dict[str, Any], depth: int) -> Any:
        if tag == "$array":
            return self._array(node["$array"], node.get("order", "C"))
        if tag == "$again":
            return self._again(node["$again"])
        if tag == "$object":
            return objects.from_node(node, lambda part: self.decode(part, depth + 1))
        if tag is not None and tag not in KINDS:
            raise BadContent(f"it holds an unknown entry {tag!s:.60}", UPGRADE)
        parts = {key: self.decode(item, depth + 1) for key, item in node.items()}
        if tag is None:
            return {key.removeprefix("$"): item for key, item in parts.items()}
        return KINDS[tag].build(parts)

    def _array(self, name: str, order: str) -> np.ndarray:
        array = self._unread.pop(name, None)
        if array is None:
            raise BadContent(f"the array {name!r:.60} is missing or used twice")
        if order not in ("C", "F"):
            raise BadContent(f"the array {name!r:.60} has the unknown order {order!r:.20}")
        self._read[name] = array.T if order == "F" else array
        return self._read[name]

    def _again(self, name: str) -> np.ndarray:
        array = self._read.pop(name, None)
        if array is None:
            raise BadContent(f"the array {name!r:.60} is not there to be used a second time")
        return array.copy(order="K")  # what is written to one stays there
