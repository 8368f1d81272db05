"""Settings in plain values: what they are made of, never where they lie in memory.

Of a function, what it computes with: its steps, the names it uses, its defaults, what it closes over,
and the constants and functions of its own module. Of an object, what it holds and how it is called.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from onefold.approximations import Approximation
from onefold.linalg import to_numpy
from onefold.machine.journal import plain

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_Known = str | int | float | complex | bytes | tuple | np.ndarray | FunctionType


def described(value: Any) -> Any:
    """A setting in plain values, which are the same in another process."""
    return _Description().of(value)


def digest(*values: Any) -> str:
    """A checksum of arrays and other values."""
    found = hashlib.blake2b(digest_size=16)
    for value in values:
        array = np.ascontiguousarray(to_numpy(value) if value is not None else "none")
        found.update(f"{array.dtype.kind}{array.shape}".encode())
        found.update(repr(array.tolist()).encode() if array.dtype.kind == "O" else array.tobytes())
    return found.hexdigest()


class _Description:
    """One setting; what occurs in it more than once is described once."""

    def __init__(self) -> None:
        self._met: dict[int, Any] = {}

    def of(self, value: Any) -> Any:
        if value is None or isinstance(value, str | int | float | np.generic):
            return plain(value)
        if isinstance(value, np.ndarray) or hasattr(type(value), "__array__"):
            return digest(value) if np.ndim(value) else plain(np.asarray(value))
        if isinstance(value, type | ModuleType):
            return _name(value)
        if id(value) in self._met:
            return f"{_name(type(value))} again"
        self._met[id(value)] = value  # held, so that its id stays its own
        return self._taken_apart(value)

    def _taken_apart(self, value: Any) -> Any:
        if is_dataclass(value):
            own = {item.name: self.of(getattr(value, item.name)) for item in fields(value)}
            if isinstance(value, Approximation):
                return {"name": value.name, "settings": own}
            return {_name(type(value)): own}
        if isinstance(value, list | tuple):
            return [self.of(item) for item in value]
        if isinstance(value, set | frozenset):
            return sorted(str(self.of(item)) for item in value)
        if isinstance(value, Mapping):
            return {str(key): self.of(item) for key, item in value.items()}
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, MethodType):
            return [self.of(value.__func__), self.of(value.__self__)]
        if isinstance(value, partial):
            return [self.of(part) for part in (value.func, value.args, value.keywords)]
        if isinstance(value, CodeType):
            return [value.co_code.hex(), list(value.co_names), self.of(value.co_consts)]
        return self._object(value)

    def _function(self, value: FunctionType) -> Any:
        code, known = value.__code__, value.__globals__
        closed = dict(zip(code.co_freevars, map(_content, value.__closure__ or ())))
        used = {name: known[name] for name in _names(code) if isinstance(known.get(name), _Known)}
        for name, item in used.items():
            if isinstance(item, FunctionType) and item.__module__ != value.__module__:
                used[name] = _name(item)  # of a library, which has versions
        parts = (code, value.__defaults__, value.__kwdefaults__, closed, used)
        made_of = json.dumps(plain([self.of(part) for part in parts]), sort_keys=True)
        return {value.__name__: digest(made_of)}

    def _object(self, value: Any) -> Any:
        """An object by its class and what it holds; by its name where that is all."""
        held, call = getattr(value, "__dict__", None), type(value).__call__ if callable(value) else None
        how = self.of(call) if isinstance(call, FunctionType) else None
        what = _ADDRESS.sub("", repr(value)) if not held else {_name(type(value)): self.of(held)}
        return what if how is None else [what, how]


def _content(cell: Any) -> Any:
    """What a closure has for a name."""
    try:
        return cell.cell_contents
    except ValueError:  # not yet anything
        return None


def _names(code: CodeType) -> list[str]:
    """The names that a function may find in its module, those of functions within it too."""
    inner = [_names(one) for one in code.co_consts if isinstance(one, CodeType)]
    return sorted({*code.co_names, *(name for names in inner for name in names)})


def _name(value: Any) -> str:
    return str(getattr(value, "__qualname__", getattr(value, "__name__", value)))
