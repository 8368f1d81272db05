"""Nodes (see `onefold.saving.nodes`) back to values, trusting nothing in them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from onefold.saving import objects
from onefold.saving.errors import NONSENSE, UPGRADE, BadContent
from onefold.saving.nodes import MAX_DEPTH, SCALAR_NAMES, TYPES, Node

MAX_CODE_POINT = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)  # halves of characters, which cannot be written out

_DTYPE = re.compile(r"[<>|=][biufU][0-9]{1,4}|\|O")
SCALAR_TYPES: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "U": str}


class Decoder:
    """Turns nodes back into values, taking each of `arrays` exactly once."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._unread = dict(arrays)
        self._readers: dict[str, Callable[[dict[str, Any], int], object]] = {
            "$array": self._array,
            "$text": self._text,
            "$objects": self._objects,
            "$masked": self._masked,
            "$csr": self._csr,
            "$scalar": self._scalar,
            "$float": self._float,
            "$tuple": self._tuple,
            "$slice": self._slice,
            "$dtype": self._dtype,
            "$type": self._type,
            "$dict": self._dict,
            "$object": self._object,
        }

    def decode(self, node: Node, depth: int = 0) -> Any:
        """Return the value of `node`; `depth` as in `Encoder.encode`.

        Raises
        ------
        BadContent
            If the node makes no sense.
        """
        if depth > MAX_DEPTH:
            raise BadContent(f"its metadata is nested more than {MAX_DEPTH} levels deep")
        if isinstance(node, list):
            return [self.decode(item, depth + 1) for item in node]
        if isinstance(node, str):
            return _printable(node)
        if not isinstance(node, dict):
            return node
        tags = [key for key in node if key.startswith("$") and not key.startswith("$$")]
        if not tags:
            return {
                key[1:] if key.startswith("$$") else key: self.decode(item, depth + 1)
                for key, item in node.items()
            }
        reader = self._readers.get(tags[0])
        if reader is None or len(tags) > 1:
            raise BadContent(f"it holds an unknown entry {', '.join(tags)!s:.60}", UPGRADE)
        try:
            return reader(node, depth)
        except BadContent:
            raise
        except NONSENSE as error:
            raise BadContent(f"one {tags[0]} entry is not valid ({error!s:.200})") from error

    def finish(self) -> None:
        """Check that no array is left over."""
        if self._unread:
            raise BadContent(f"nothing refers to its array {min(self._unread)!r:.60}")

    def _array(self, node: dict[str, Any], depth: int) -> np.ndarray:
        name, order = node["$array"], node.get("order", "C")
        array = self._unread.pop(name, None)
        if array is None:
            raise BadContent(f"the array {name!r:.60} is missing or used twice")
        if order not in ("C", "F"):
            raise BadContent(f"the array {name!r:.60} has the unknown order {order!r:.20}")
        return array.T if order == "F" else array

    def _ndarray(self, node: Node, depth: int) -> np.ndarray:
        value = self.decode(node, depth + 1)
        if type(value) is not np.ndarray:
            raise BadContent("a value stands where an array belongs")
        return value

    def _text(self, node: dict[str, Any], depth: int) -> np.ndarray:
        codes = self._ndarray(node["$text"], depth)
        if codes.dtype != np.uint32 or codes.ndim == 0 or codes.shape[-1] == 0:
            raise BadContent("the code points of a string array have the wrong dtype or shape")
        if codes.size and codes.max() > MAX_CODE_POINT:
            raise BadContent("a string array holds numbers that are not code points")
        if np.any((codes >= _SURROGATES[0]) & (codes <= _SURROGATES[1])):
            raise BadContent("a string array holds half a character")
        *shape, width = codes.shape
        return np.ascontiguousarray(codes).reshape(-1).view(f"=U{width}").reshape(shape)

    def _objects(self, node: dict[str, Any], depth: int) -> np.ndarray:
        items = [self.decode(item, depth + 1) for item in node["$objects"]]
        array = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):  # one by one: NumPy would unpack tuples and lists
            array[i] = item
        return array.reshape(_shape(node["shape"]))

    def _masked(self, node: dict[str, Any], depth: int) -> np.ma.MaskedArray[Any, Any]:
        data = self._ndarray(node["$masked"], depth)
        mask: Any = np.ma.nomask
        if node["mask"] is not None:
            mask = self._ndarray(node["mask"], depth)
            if mask.dtype != bool or mask.shape != data.shape:
                raise BadContent("the mask of a masked array does not fit its data")
        fill_value = self.decode(node["fill_value"], depth + 1)
        return np.ma.MaskedArray(data, mask=mask, fill_value=fill_value)

    def _csr(self, node: dict[str, Any], depth: int) -> Any:
        parts = [self._ndarray(node[key], depth) for key in ("data", "indices", "indptr")]
        if any(part.ndim != 1 for part in parts) or any(p.dtype.kind != "i" for p in parts[1:]):
            raise BadContent("the parts of a sparse matrix have the wrong shape or dtype")
        build = {"array": sparse.csr_array, "matrix": sparse.csr_matrix}[node["$csr"]]
        result = build(tuple(parts), shape=_shape(node["shape"]))
        result.check_format(full_check=True)  # bad indices would read outside the arrays
        return result

    def _scalar(self, node: dict[str, Any], depth: int) -> np.generic:
        name = node["$scalar"]
        if name not in SCALAR_NAMES:
            raise BadContent(f"the scalar type {name!r:.60} is not known")
        dtype, value = np.dtype(name), self.decode(node["value"], depth + 1)
        if type(value) is not SCALAR_TYPES[dtype.kind]:
            raise BadContent(f"a {name} scalar has a value of another type")
        with np.errstate(over="raise"):
            scalar: np.generic = dtype.type(value)
        return scalar

    def _float(self, node: dict[str, Any], depth: int) -> float:
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[node["$float"]]

    def _tuple(self, node: dict[str, Any], depth: int) -> tuple[Any, ...]:
        return tuple(self.decode(item, depth + 1) for item in node["$tuple"])

    def _slice(self, node: dict[str, Any], depth: int) -> slice:
        start, stop, step = (self.decode(item, depth + 1) for item in node["$slice"])
        if not all(part is None or isinstance(part, int | str) for part in (start, stop, step)):
            raise BadContent("the ends of a slice are neither numbers nor names")
        return slice(start, stop, step)

    def _dtype(self, node: dict[str, Any], depth: int) -> np.dtype[Any]:
        if not _DTYPE.fullmatch(node["$dtype"]):
            raise BadContent(f"the dtype {node['$dtype']!r:.60} is not known")
        return np.dtype(node["$dtype"])

    def _type(self, node: dict[str, Any], depth: int) -> type:
        return TYPES[node["$type"]]

    def _dict(self, node: dict[str, Any], depth: int) -> dict[Any, Any]:
        pairs = [(self.decode(k, depth + 1), self.decode(v, depth + 1)) for k, v in node["$dict"]]
        return dict(pairs)

    def _object(self, node: dict[str, Any], depth: int) -> object:
        return objects.from_node(node, self, depth)


def _printable(text: str) -> str:
    if not text.isascii() and any(_SURROGATES[0] <= ord(letter) <= _SURROGATES[1] for letter in text):
        raise BadContent("a string holds half a character")
    return text


def _shape(sizes: list[Any]) -> tuple[int, ...]:
    if any(type(size) is not int or size < 0 for size in sizes):
        raise BadContent("the shape of an array is not a list of sizes")
    return tuple(sizes)
