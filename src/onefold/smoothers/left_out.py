r"""Sets of rows left out in turn, as arrays beside the targets: made once, used at every μ.

For sets J_1 … J_k and targets Y (n, t) everything is laid side by side in n × (k · t) columns:

    Y⁰ = Y with zeros on J,    Ŷ = Y with f_J on J,    one block of t columns for each J
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onefold.linalg import Array, is_numpy, like, like_index, namespace


class LeftOut:
    """Sets of rows, in the library and on the device of the targets.

    Parameters
    ----------
    parts : sequence of int arrays
        J_1 … J_k.
    Y : array (n, t)
        What the arrays here are to lie beside.
    """

    def __init__(self, parts: Sequence[Any], Y: Array) -> None:
        self.parts = [np.asarray(rows) for rows in parts]
        self.count = len(self.parts)
        keep = np.ones((Y.shape[0], self.count))
        for k, rows in enumerate(self.parts):
            keep[rows, k] = 0.0
        self.keep = like(keep, Y)
        """1 where a row takes part in training, else 0; shape (n, k)."""
        self.groups = [_Group(numbers, self.parts, Y) for numbers in self._together(Y)]
        """Sets that are solved in one call."""
        self._reference = Y
        self._source: Array | None = None

    def _together(self, Y: Array) -> list[list[int]]:
        """On a device sets of one size go together, within n rows in all; in NumPy each by itself."""
        if is_numpy(Y):
            return [[k] for k in range(self.count)]
        by_size: dict[int, list[int]] = {}
        for k, rows in enumerate(self.parts):
            by_size.setdefault(rows.size, []).append(k)
        groups = []
        for size, numbers in by_size.items():
            step = max(1, Y.shape[0] // max(1, size))
            groups += [numbers[i : i + step] for i in range(0, len(numbers), step)]
        return groups

    def blanked(self, Y: Array) -> Array:
        """Y⁰ for every set, shape (n, k · t)."""
        return namespace(Y).reshape(Y[:, None, :] * self.keep[:, :, None], (Y.shape[0], -1))

    def replaced(self, blanked: Array, found: Sequence[Array]) -> Array:
        """Ŷ for every set, shape (n, k · t), from Y⁰ and the f_J (|J|, t)."""
        xp, (n, t) = namespace(blanked), (blanked.shape[0], found[0].shape[1])
        if self._source is None:
            self._source = like_index(self._positions(n), self._reference)
        nothing = xp.zeros_like(blanked[:1, :t])
        values = xp.take(xp.concat([*found, nothing]), self._source, axis=0)
        return blanked + xp.reshape(values, (n, self.count * t))

    def _positions(self, n: int) -> Any:
        """Where each row of each set is found among all f_J, one after the other; else the end."""
        total = sum(rows.size for rows in self.parts)
        source, start = np.full((n, self.count), total), 0
        for k, rows in enumerate(self.parts):
            source[rows, k] = start + np.arange(rows.size)
            start += rows.size
        return source.reshape(-1)

    def zeroed(self, columns: Array) -> Array:
        """Columns (…, n, k · t), zeros on each J, as (…, k, n, t)."""
        xp, (*lead, n, width) = namespace(columns), columns.shape
        split = xp.reshape(columns, (*lead, n, self.count, width // self.count))
        split = split * self.keep[:, :, None]
        axes = tuple(range(len(lead)))
        return xp.permute_dims(split, (*axes, len(lead) + 1, len(lead), len(lead) + 2))


class _Group:
    """Sets of one size: their `numbers`, and their rows (|J|,) of one or (sets, |J|) of many."""

    def __init__(self, numbers: list[int], parts: Sequence[Any], Y: Array) -> None:
        rows = np.stack([parts[k] for k in numbers])
        places = rows * len(parts) + np.array(numbers)[:, None]
        if is_numpy(Y):
            rows, places = rows[0], places[0]
        self.numbers, self.rows = numbers, like_index(rows, Y)
        self._places = like_index(places, Y)

    def pick(self, columns: Array, count: int) -> Array:
        """The rows of each set in its own columns of (n, k · t), shape (…, |J|, t)."""
        n, width = columns.shape
        return gather(namespace(columns).reshape(columns, (n * count, width // count)), self._places)

    def split(self, solved: Array) -> list[tuple[int, Array]]:
        """(number, (|J|, t)) of each set from a stack of all."""
        stack = namespace(solved).reshape(solved, (len(self.numbers), *solved.shape[-2:]))
        return [(number, stack[i, ...]) for i, number in enumerate(self.numbers)]


def gather(x: Array, index: Array) -> Array:
    """``x[index]`` for row numbers of any shape that lie beside x: no transfer."""
    xp = namespace(x)
    if is_numpy(x):
        return x[index]
    return xp.reshape(xp.take(x, xp.reshape(index, (-1,)), axis=0), (*index.shape, *x.shape[1:]))
