r"""A Dask array or dataframe as a table of rows: X of a problem whose rows stay where they are.

    row i of the table  =  row i − starts[p] of partition p

The caller holds the lengths of the partitions and lazy handles to them. Rows asked for by their numbers
are fetched, all others never leave the workers. Row numbers do not depend on the partitions, and so
neither does anything drawn by them.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np

from onefold.rows.dask_runner import Runner, is_dask, require_dask, runner_of
from onefold.rows.partition import Look, Moments, common_dtype, look_at, moments_of, picked_rows

_REMEMBERED = 64 * 2**20  # bytes of fetched rows that are asked for again


class DaskTable:
    """Rows of a Dask collection, or some of them; indexing by numbers or a slice fetches rows.

    Attributes
    ----------
    shape : tuple of int
    dtype : NumPy dtype
        float32 or float64: that of all partitions on top of each other.
    names : list or None
        Columns of a dataframe.
    largest : float
        The largest absolute value of all partitions.
    parts : list of Delayed
    runner : Runner
    """

    ndim = 2

    def __init__(
        self,
        parts: Sequence[Any],
        looks: Sequence[Look],
        names: list[Any] | None,
        features: int,
        runner: Runner,
    ) -> None:
        self.parts, self.names, self.runner = list(parts), names, runner
        self.lengths = np.array([look.rows for look in looks], dtype=np.intp)
        self.largest = max((look.largest for look in looks), default=0.0)
        self.dtype = common_dtype([np.dtype(look.dtype) for look in looks if look.rows])
        self.shape = (int(self.lengths.sum()), features)
        self._kept: Any | None = None
        self._fetched: OrderedDict[bytes, Any] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return self.shape[0]

    def _like(self) -> DaskTable:
        other = object.__new__(DaskTable)
        other.__dict__.update(self.__dict__, _fetched=OrderedDict(), _lock=Lock())
        return other

    def astype(self, dtype: Any) -> DaskTable:
        """The same rows in another dtype."""
        other = self._like()
        other.dtype = np.dtype(dtype)
        return other

    def only(self, rows: Any) -> DaskTable:
        """The rows of these numbers, which rise, where they are."""
        rows = np.asarray(rows, dtype=np.intp)
        if np.any(rows[1:] <= rows[:-1]):
            raise ValueError("rows that stay in their partitions keep their order; sort the numbers.")
        other = self._like()
        other._kept = rows if self._kept is None else self._kept[rows]
        other.shape = (int(rows.size), self.shape[1])
        return other

    def pieces(self) -> list[tuple[int, slice, Any | None]]:
        """(partition, the numbers of its rows in this table, which of its rows they are or None)."""
        kept, starts = self._kept, np.concatenate([[0], np.cumsum(self.lengths)])
        cuts = starts if kept is None else np.searchsorted(kept, starts)
        found: list[tuple[int, slice, Any | None]] = []
        for number, (start, stop) in enumerate(pairwise(cuts.tolist())):
            own = None
            if kept is not None and stop - start < self.lengths[number]:
                own = kept[start:stop] - starts[number]
            if stop > start:
                found.append((number, slice(start, stop), own))
        return found

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple) and len(index) == 2 and index[1] is Ellipsis:
            index = index[0]
        if isinstance(index, slice):
            index = np.arange(self.shape[0])[index]
        index = np.asarray(index)
        index = np.flatnonzero(index) if index.dtype == bool else index.astype(np.intp)
        key = index.tobytes()
        with self._lock:
            found = self._fetched.get(key)
            if found is None:
                found = self._fetched[key] = self._fetch(index)
                while sum(array.nbytes for array in self._fetched.values()) > _REMEMBERED:
                    self._fetched.popitem(last=False)
        return found.copy()

    def _fetch(self, index: Any) -> Any:
        """The rows with these numbers, in their order, as a NumPy array."""
        own = index if self._kept is None else self._kept[index]
        order = np.argsort(own, kind="stable")
        ends = np.cumsum(self.lengths)
        places = np.searchsorted(ends, own[order], side="right")
        picked = require_dask().delayed(picked_rows)
        lazy = []
        for number in np.unique(places):
            local = own[order][places == number] - (ends[number] - self.lengths[number])
            lazy.append(picked(self.parts[number], local, self.dtype, int(self.lengths[number])))
        out = np.empty((index.size, self.shape[1]), dtype=self.dtype)
        start = 0
        for rows in self.runner.each(lazy):
            out[order[start : start + len(rows)]] = rows
            start += len(rows)
        return out

    def variance(self) -> float:
        """Of all entries. One pass over the rows."""
        found = require_dask().delayed(moments_of)
        lazy = [found(self.parts[number], kept) for number, _, kept in self.pieces()]
        total = Moments(0, 0.0, 0.0)
        for moments in self.runner.each(lazy):
            total = total.joined(Moments(*moments))
        return total.squares / max(1, total.size)

    def example(self) -> Any:
        """One row of zeros as the user gives rows, for whoever looks at the names of the columns."""
        return _zeros(self.names, self.shape[1])


def is_remote(X: Any) -> bool:
    """Whether X is a table whose rows stay on Dask's workers."""
    return isinstance(X, DaskTable)


def opened(X: Any, client: Any = None) -> Any:
    """A Dask array or dataframe as a table, looked at in one pass; anything else as it is.

    The pass finds the lengths of the partitions, unknown ones among them, their dtype, and whether all
    values are finite numbers; what cannot be used is refused by its partition and column.
    """
    if not is_dask(X):
        return X
    parts, names, features = _partitions(X)
    runner = runner_of(client)
    look = require_dask().delayed(look_at)
    lazy = [look(part, number, names, features) for number, part in enumerate(parts)]
    looks = [Look(*found) for found in runner.each(lazy)]
    trouble = next((found.trouble for found in looks if found.trouble is not None), None)
    if trouble is not None:
        raise ValueError(trouble)
    table = DaskTable(parts, looks, names, features, runner)
    if 0 in table.shape:
        raise ValueError(
            f"X has the shape {table.shape} in {len(parts)} partitions; a fit needs a row and a column."
        )
    return table


def _partitions(X: Any) -> tuple[list[Any], list[Any] | None, int]:
    """Lazy handles to the partitions in the order of their rows, the columns' names and number."""
    if is_frame(X):
        names = list(X.columns)
        return list(X.to_delayed()), names, len(names)
    X = whole_rows(X)
    return list(X.to_delayed().ravel()), None, int(X.shape[1])


def example_of(X: Any) -> Any:
    """One row of zeros with the columns of a Dask array or dataframe; nothing is computed."""
    return (
        _zeros(list(X.columns), len(X.columns)) if is_frame(X) else _zeros(None, whole_rows(X).shape[1])
    )


def _zeros(names: list[Any] | None, features: int) -> Any:
    zeros = np.zeros((1, features))
    if names is None:
        return zeros
    import pandas

    return pandas.DataFrame(zeros, columns=names)


def is_frame(X: Any) -> bool:
    """Whether X is a dataframe of Dask; its module is there if X is one."""
    frames = sys.modules.get("dask.dataframe")
    return frames is not None and isinstance(X, frames.DataFrame)


def whole_rows(X: Any) -> Any:
    """A Dask array of two dimensions with every row in one chunk; raise if X is none."""
    arrays = sys.modules.get("dask.array")
    if arrays is None or not isinstance(X, arrays.Array) or X.ndim != 2:
        raise ValueError(
            f"X is a {type(X).__name__} of Dask; give a dask.array of two dimensions, rows and "
            "features, or a dask.dataframe."
        )
    if np.isnan(X.shape[1]):
        raise ValueError("the number of columns of X is not known; call X.compute_chunk_sizes() first.")
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def gathered(values: Any, client: Any = None) -> Any:
    """A Dask collection of targets, weights or groups in memory; anything else as it is."""
    return runner_of(client).one(values) if is_dask(values) else values
