r"""What tells a search from others: of its data, its splits and its settings, each by itself.

Rows are summed up as whole numbers, modulo 2⁶⁴,

    Σ_i h_i  and  Σ_i i h_i,    h_i = mix(Σ_j c_j · fold(bits(x_ij))),    c_j odd

which add over blocks, whatever they are: it does not matter where rows live. O(n d). The bits of small
whole numbers are all at the upper end, where a product keeps little of c_j: fold(b) = b xor (b >> 32).

Settings are compared as plain values: numbers and words as they are, arrays by a checksum, objects by
their class and what they hold. A function is compared by its module and name alone, so that it must be
one that an import finds there.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from onefold._version import __version__
from onefold.approximations import Approximation
from onefold.kernels import Kernel
from onefold.linalg import double, is_sparse, to_numpy
from onefold.machine.journal import plain
from onefold.rows import Block, Rows
from onefold.search.strategies import Setup

# Of the generator splitmix64, whose steps take near numbers far apart.
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def fingerprint(setup: Setup, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Named parts, as plain values; two searches with equal ones have equal evaluations."""
    problem, task, splits = setup.problem, setup.task, setup.scoring.splits
    if splits is None:
        held_out = "none"
    elif splits.leave_one_out:
        held_out = f"leave-one-out, {len(splits)} scores"
    else:
        held_out = digest(*splits.left_out, *splits.tests)
    return {
        "version": __version__,
        "shape": list(problem.shape),
        "rows": rows_checksum(problem.source, problem.shape[1]),
        "targets": digest(task.y),
        "weights": digest(task.sample_weight, problem.root_weight, problem.alpha_unit),
        "splits": held_out,
        "approximation": described(setup.run.approximation),
        "random_state": setup.seed,
        **{name: described(value) for name, value in settings.items()},
    }


def described(value: Any) -> Any:
    """A setting in plain values, the same in another process; raise for a function without a name."""
    if value is None or isinstance(value, str | int | float | np.generic):
        return plain(value)
    if isinstance(value, np.ndarray) or hasattr(type(value), "__array__"):
        return digest(value) if np.ndim(value) else plain(np.asarray(value))
    if isinstance(value, list | tuple):
        return [described(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(str(described(item)) for item in value)
    if isinstance(value, Mapping):
        return {str(key): described(item) for key, item in value.items()}
    if isinstance(value, partial):
        return [described(part) for part in (value.func, value.args, value.keywords)]
    library = type(value).__module__.partition(".")[0] in ("onefold", "sklearn")
    if isinstance(value, type) or (callable(value) and not (library or isinstance(value, Kernel))):
        return _imported(value)
    if is_dataclass(value):
        held = {item.name: described(getattr(value, item.name)) for item in fields(value)}
    else:
        held = {name: described(item) for name, item in getattr(value, "__dict__", {}).items()}
    if isinstance(value, Approximation):
        return {"name": value.name, "settings": held}
    own = held or isinstance(value, Kernel)
    return {_imported(type(value)): held} if own else _ADDRESS.sub("", repr(value))


def _imported(value: Any) -> str:
    """The module and the name under which a function or a class is found; raise where it is not."""
    module, name = str(getattr(value, "__module__", "")), getattr(value, "__qualname__", "")
    try:
        found = reduce(getattr, name.split("."), sys.modules[module])
    except (AttributeError, KeyError):
        found = None
    if found is not value:
        raise ValueError(
            f"a checkpoint compares functions by the names they are imported by, and {value!r:.80} "
            "has none; define it with def at the top of a module, or leave checkpoint out."
        )
    return f"{module}.{name}"


def digest(*values: Any) -> str:
    """A checksum of arrays and other values."""
    found = hashlib.blake2b(digest_size=16)
    for value in values:
        array = np.ascontiguousarray(to_numpy(value) if value is not None else "none")
        found.update(f"{array.dtype.kind}{array.shape}".encode())
        found.update(repr(array.tolist()).encode() if array.dtype.kind == "O" else array.tobytes())
    return found.hexdigest()


def rows_checksum(source: Rows, d: int) -> str:
    """Numbers for X, whatever the blocks that it comes in."""
    sums = [0, 0]
    for _, rows, found in source.map(_RowSums(d)):
        here, within = (int(value) for value in found)
        sums = [sums[0] + here, sums[1] + rows.start * here + within]
    return "".join(f"{value % 2**64:016x}" for value in sums)


class _RowSums:
    """Σ h_i and Σ i h_i of a block, its rows numbered from 0."""

    def __init__(self, d: int) -> None:
        self._constants = _mixed(np.arange(1, d + 1, dtype=np.uint64)) | np.uint64(1)

    def placed(self, place: Any) -> _RowSums:
        """The same: it works on the host wherever rows are."""
        return self

    def __call__(self, block: Block) -> Any:
        X = double(block.X).tocsr() if is_sparse(block.X) else to_numpy(block.X)
        values = np.ascontiguousarray(X.data if is_sparse(X) else X)
        bits = values.view(f"u{values.dtype.itemsize}").astype(np.uint64, copy=False)
        folded = bits ^ (bits >> np.uint64(32))
        if is_sparse(X):  # zeros add nothing
            terms = folded * self._constants[X.indices]
            before = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(terms, dtype=np.uint64)])
            h = _mixed(np.diff(before[X.indptr]))
        else:
            h = _mixed(folded @ self._constants)
        return np.array([h.sum(dtype=np.uint64), (h * np.arange(h.size, dtype=np.uint64)).sum()])


def _mixed(values: Any) -> Any:
    """Whole numbers of 64 bits, each to another, none near it."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))
