r"""Rows of a Dask array or dataframe, which stay where they are.

    row i of the table  =  row i − starts[p] of partition p
    partition p  →  Σ over its blocks, group by group           on a worker, in the order of the rows
    ((0 + 1) + (2 + 3)) + …                                      on workers, in the order of partitions

The caller holds the lengths of the partitions and lazy handles to them. Rows asked for by their numbers
are fetched, all others never leave the workers. Row numbers do not depend on the partitions, and so
neither does anything drawn by them.

A pass maps partitions to what they leave, and a tree adds it up, whose shape depends on the number of
partitions alone, never on who finished first. Every task is a pure function of the partition and of what
the graph holds with it (targets, √weights, groups), so that Dask makes again whatever is lost with a
worker; no task knows where it runs. It takes rows out of the partition block by block: it holds the
partition and a block, never a second copy of it.

Tasks run on the workers of a client, or on threads of this process. Only Dask's public interface is
used, and it is imported when it is needed. Dask cancels what is under way when it loses its scheduler:
that ends the fit with one sentence.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onefold.linalg import Device, Index, is_foreign, is_sparse, on_device, to_numpy
from onefold.machine.extras import pip_install
from onefold.machine.threads import Lock, check_stop, limit_blas, spans, thread_budget, use_threads
from onefold.machine.warning import warn_user
from onefold.rows.base import BlockSum, Groups, HostRows, Mapped, Most, Rows, Wanted, picked, take_part
from onefold.rows.device import StreamedRows

_BLOCK_BYTES = 16 * 2**20  # of rows converted at once
_REMEMBERED = 64 * 2**20  # bytes of fetched rows that are asked for again
_PREDICTED_ROWS = 2**16  # at once
_SAME = 1e-10  # of the sum of absolute values, that rounding on other machines may move a checksum by
_GOLDEN = (5**0.5 - 1) / 2
_BATCH = 16  # results on their way at a time
_LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"
_ONE_AT_A_TIME = Lock()  # in a process, for kernels that several threads must not call at once


# Where Dask runs tasks


def require_dask() -> Any:
    """The module ``dask``; raise a sentence that says how to get it."""
    try:
        import dask
    except ImportError as error:
        raise ImportError(
            f"Dask rows need Dask, which is not installed; {pip_install('dask')}, or pass rows in "
            "memory."
        ) from error
    return dask


def is_dask(X: Any) -> bool:
    """Whether X is a collection of Dask; nothing is imported to find out."""
    return "dask" in sys.modules and bool(sys.modules["dask"].is_dask_collection(X))


class Runner:
    """Runs lazy values, graphs that can be run again: on the workers of `client`, if None on threads."""

    def __init__(self, client: Any = None) -> None:
        self.client = client
        self._warned = False

    def each(self, lazy: Sequence[Any]) -> Iterator[Any]:
        """The values in their order, a few on their way at a time."""
        if self.client is None:
            workers = thread_budget()
            for part in spans(len(lazy), max(_BATCH, 2 * workers)):
                yield from require_dask().compute(*lazy[part], scheduler="threads", num_workers=workers)
            return
        waiting: list[list[Any]] = []
        batches = spans(len(lazy), _BATCH)
        try:
            while True:
                for part in islice(batches, 2 - len(waiting)):
                    waiting.append(self._submitted(lazy[part]))
                if not waiting:
                    return
                yield from self._results(waiting[0])
                for future in waiting.pop(0):
                    future.release()
        finally:  # a traceback that somebody keeps must not keep workers busy
            for future in chain.from_iterable(waiting):
                future.release()

    def one(self, lazy: Any) -> Any:
        """The value of one, which may be any collection of Dask."""
        return next(iter(self.each([lazy])))

    def held(self, lazy: Sequence[Any]) -> list[Any]:
        """The same, made once and kept on workers until let go."""
        if self.client is None:
            return list(lazy)
        with _quiet():
            return list(self.client.persist(list(lazy)))

    def _submitted(self, lazy: Sequence[Any]) -> list[Any]:
        if self.client.status != "running":
            raise _lost()
        try:
            alone = not self._warned and not self.client.nthreads()
        except OSError:  # the scheduler has just been lost
            raise _lost() from None
        if alone:
            self._warned = True
            warn_user("the Dask cluster has no workers; the fit waits until there are some.")
        with _quiet():
            return list(self.client.compute(list(lazy)))

    def _results(self, futures: list[Any]) -> list[Any]:
        import distributed

        try:
            return list(self.client.gather(futures))
        except distributed.CancelledError as error:
            if self.client.status != "running":
                raise _lost() from error
            raise RuntimeError(
                f"Dask has cancelled or lost rows that it cannot recompute ({error!s:.120}); pass a "
                "collection that Dask can recompute, not scattered data or data of another client."
            ) from error
        except distributed.KilledWorker as error:
            raise RuntimeError(
                f"Dask workers died repeatedly on the same partition ({error!s:.120}); use smaller "
                "partitions, fewer landmarks, or workers with more memory."
            ) from error


def _lost() -> ConnectionError:
    return ConnectionError(
        "the connection to the Dask scheduler, and the work in progress, are lost; start the cluster "
        "and fit again (with checkpoint=..., a search continues where it stopped)."
    )


def _quiet() -> Any:
    """Targets travel inside the graph, so that they can be made again; Dask need not warn of it."""
    return require_dask().config.set({_LARGE_GRAPH: "1PiB"})


def runner_of(client: Any) -> Runner:
    """The client's workers; without a client those of the current one, or else threads."""
    require_dask()
    if client is None:
        # A current client can only be there if its module is.
        known = sys.modules.get("distributed")
        with suppress(ValueError):  # there is none
            client = None if known is None else known.get_client()
    if client is None:
        return Runner()
    if not all(hasattr(client, name) for name in ("compute", "persist", "gather", "status")):
        raise ValueError(
            f"client must be a dask.distributed.Client or None; got {client!r:.60}. Open one with "
            "Client(address)."
        )
    import distributed

    # Inside a task, make room for the tasks that it will wait for: its worker may be the only one. An
    # error says that there is no task, that it has left already, or that this is a coroutine.
    with suppress(ValueError, KeyError, AttributeError):
        distributed.secede()  # type: ignore[no-untyped-call]
    return Runner(client)


# One partition, as the task that works on it sees it


class Partition:
    """The rows of a partition, or the `kept` ones of them: indexing gives NumPy rows of one dtype."""

    ndim = 2

    def __init__(self, rows: Any, kept: Index | None, dtype: Any) -> None:
        self._rows = rows
        self._kept = kept
        self.dtype = np.dtype(dtype)
        self.shape = (len(rows) if kept is None else len(kept), int(rows.shape[1]))

    def __getitem__(self, index: Any) -> NDArray[Any]:
        index = index if self._kept is None else self._kept[index]
        if hasattr(self._rows, "iloc"):
            return self._rows.iloc[index].to_numpy(dtype=self.dtype, na_value=np.nan)
        return np.asarray(self._rows[index], dtype=self.dtype)

    def blocks(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """(number of the first row, rows) of the blocks that are converted at once."""
        for run in spans(self.shape[0], max(1, _BLOCK_BYTES // (8 * max(1, self.shape[1])))):
            yield run.start, self[run]


class Look(NamedTuple):
    """What one look at a partition finds."""

    number: int
    trouble: str | None = None  # why the partition cannot be used
    rows: int = 0
    dtype: str = ""  # of the rows taken together
    largest: float = 0.0  # absolute value
    checksum: float = 0.0
    scale: float = 0.0  # of the checksum: the sum of absolute values


def look_at(rows: Any, number: int, names: Sequence[Any] | None, features: int) -> Look:
    """Count the rows of partition `number`, find their dtype and whether they can be used."""
    trouble = _unusable(rows, number, names, features)
    if trouble is not None or not len(rows):
        return Look(number, trouble)
    # Columns of pandas' own types have a place for missing values: they are read as float64.
    found = rows.dtypes if hasattr(rows, "iloc") else [rows.dtype]
    dtype = common_dtype([d if isinstance(d, np.dtype) else np.dtype(np.float64) for d in found])
    largest = 0.0
    for _, block in Partition(rows, None, dtype).blocks():
        size = np.abs(block)
        if not np.all(np.isfinite(size)):
            column = int(np.flatnonzero(~np.isfinite(size).all(axis=0))[0])
            name = column if names is None else names[column]
            where = f"column {name!r} of partition {number}"
            return Look(number, f"X contains NaN or infinity in {where}; impute or drop these rows.")
        largest = max(largest, float(size.max(initial=0.0)))
    return Look(number, None, len(rows), dtype.str, largest, *_checksum(rows))


def _unusable(rows: Any, number: int, names: Sequence[Any] | None, features: int) -> str | None:
    """Why a partition holds no rows of numbers; None if it does."""
    here = f"partition {number} of X"
    if names is not None:
        if not hasattr(rows, "iloc") or list(rows.columns) != list(names):
            return f"{here} has other columns than the first; all partitions must have the same columns."
        from pandas.api.types import is_complex_dtype, is_numeric_dtype

        for name, dtype in rows.dtypes.items():
            if not is_numeric_dtype(dtype) or is_complex_dtype(dtype):
                return (
                    f"column {name!r} of partition {number} contains text, or other values that are not "
                    f"real numbers ({dtype}); encode it as numbers first, for example with "
                    "sklearn.preprocessing.OneHotEncoder, or leave it out."
                )
        return None
    if is_sparse(rows) or not isinstance(rows, np.ndarray):
        return (
            f"{here} is a {type(rows).__name__}; convert it with X.map_blocks(numpy.asarray), and use "
            "device=... to compute on a device."
        )
    if isinstance(rows, np.ma.MaskedArray) and np.ma.is_masked(rows):
        return f"{here} has masked values; impute or drop these rows."
    if rows.ndim != 2 or rows.shape[1] != features:
        return f"{here} has the shape {rows.shape}; all partitions must have {features} columns."
    if rows.dtype.kind not in "biuf":
        return f"{here} contains {rows.dtype} instead of real numbers; encode them as numbers first."
    return None


def common_dtype(dtypes: Sequence[Any]) -> np.dtype[Any]:
    """That of rows of these dtypes on top of each other, as a fit would convert them."""
    single = bool(dtypes) and np.result_type(*dtypes) == np.float32
    return np.dtype(np.float32 if single else np.float64)


def _checksum(rows: Any) -> tuple[float, float]:
    """Σ_ij u_i v_j x_ij, which rows that change places move and so does every value, and Σ |·| of it."""
    part = Partition(rows, None, np.float64)
    total = 0.0
    scale = 0.0
    v = 1.0 + np.arange(1, part.shape[1] + 1) * _GOLDEN % 1.0
    for start, block in part.blocks():
        u = 1.0 + np.arange(start + 1, start + 1 + len(block)) * _GOLDEN % 1.0
        sums = block @ v
        total += float(u @ sums)
        scale += float(u @ np.abs(sums))
    return total, scale


def require_same(rows: Any, look: Look) -> None:
    """Raise if a partition does not hold the rows, in the order, that were looked at."""
    remedy = "pass rows that are the same each time they are computed, for example X.persist()."
    if len(rows) != look.rows:
        raise ValueError(
            f"partition {look.number} of X had {look.rows} rows when it was first read and has "
            f"{len(rows)} now; {remedy}"
        )
    total, scale = _checksum(rows)
    if not abs(total - look.checksum) <= _SAME * max(scale, look.scale):
        raise ValueError(
            f"partition {look.number} of X has changed since it was first read, in its values or in the "
            f"order of its rows; {remedy}"
        )


def _picked_rows(rows: Any, index: Index, dtype: Any, look: Look) -> NDArray[Any]:
    """The rows with the given numbers of a partition."""
    require_same(rows, look)
    return Partition(rows, None, dtype)[index]


def _moments_of(rows: Any, kept: Index | None) -> tuple[float, float, float]:
    """Number, mean and squared deviations from it of all entries of the rows that count, in float64."""
    blocks = Partition(rows, kept, np.float64).blocks()
    return _joined([(b.size, b.mean(), np.sum((b - b.mean()) ** 2)) for _, b in blocks])


def _joined(moments: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    """The moments of all numbers from those of some at a time."""
    size, mean, squares = np.array(moments, dtype=np.float64).reshape(-1, 3).T
    whole = float(size @ mean) / max(1.0, float(size.sum()))
    return float(size.sum()), whole, float(squares.sum() + size @ (mean - whole) ** 2)


# All partitions as one table


class DaskTable:
    """Rows of a Dask collection, or some of them; indexing by numbers or a slice fetches rows."""

    ndim = 2

    def __init__(
        self, parts: list[Any], looks: list[Look], names: list[Any] | None, features: int, runner: Runner
    ) -> None:
        self.parts = parts
        self.looks = looks
        self.runner = runner  # lazy values, and who makes them
        self.names = names  # columns of a dataframe
        self.lengths = np.array([look.rows for look in looks], dtype=np.intp)
        self.largest = max((look.largest for look in looks), default=0.0)  # absolute value
        self.dtype = common_dtype([np.dtype(look.dtype) for look in looks if look.rows])
        self.shape = (int(self.lengths.sum()), features)
        self._kept: Index | None = None
        self._fetched: dict[bytes, NDArray[Any]] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return self.shape[0]

    def _like(self, **changed: Any) -> DaskTable:
        other = object.__new__(DaskTable)
        other.__dict__.update(self.__dict__, _fetched={}, _lock=Lock(), **changed)
        return other

    def astype(self, dtype: Any) -> DaskTable:
        """The same rows in another dtype."""
        return self._like(dtype=np.dtype(dtype))

    def only(self, rows: Any) -> DaskTable:
        """The rows of these numbers, which rise, where they are."""
        rows = np.asarray(rows, dtype=np.intp)
        if np.any(rows[1:] <= rows[:-1]):
            raise ValueError("rows that stay in their partitions keep their order; sort the numbers.")
        kept = rows if self._kept is None else self._kept[rows]
        return self._like(_kept=kept, shape=(int(rows.size), self.shape[1]))

    def pieces(self) -> list[tuple[int, slice, Index | None]]:
        """(partition, the numbers of its rows in this table, which of its rows they are or None)."""
        kept = self._kept
        starts = np.concatenate([[0], np.cumsum(self.lengths)])
        cuts = starts if kept is None else np.searchsorted(kept, starts)
        found: list[tuple[int, slice, Index | None]] = []
        for number, (start, stop) in enumerate(pairwise(cuts.tolist())):
            own = None
            if kept is not None and stop - start < self.lengths[number]:
                own = kept[start:stop] - starts[number]
            if stop > start:
                found.append((number, slice(start, stop), own))
        return found

    def __getitem__(self, index: Any) -> NDArray[Any]:
        if isinstance(index, tuple) and len(index) == 2 and index[1] is Ellipsis:
            index = index[0]  # as scikit-learn takes rows
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
                    del self._fetched[next(iter(self._fetched))]  # the oldest
        return found.copy()

    def _fetch(self, index: Index) -> NDArray[Any]:
        """The rows with these numbers, in their order."""
        own = index if self._kept is None else self._kept[index]
        order = np.argsort(own, kind="stable")
        ends = np.cumsum(self.lengths)
        places = np.searchsorted(ends, own[order], side="right")
        pick = require_dask().delayed(_picked_rows)
        lazy = []
        for number in np.unique(places):
            local = own[order][places == number] - (ends[number] - self.lengths[number])
            lazy.append(pick(self.parts[number], local, self.dtype, self.looks[number]))
        out = np.empty((index.size, self.shape[1]), dtype=self.dtype)
        start = 0
        for rows in self.runner.each(lazy):
            out[order[start : start + len(rows)]] = rows
            start += len(rows)
        return out

    def variance(self) -> float:
        """Of all entries. One pass over the rows."""
        found = require_dask().delayed(_moments_of)
        lazy = [found(self.parts[number], kept) for number, _, kept in self.pieces()]
        size, _, squares = _joined(list(self.runner.each(lazy)))
        return squares / max(1.0, size)


def is_remote(X: Any) -> bool:
    """Whether X is a table whose rows stay on Dask's workers."""
    return isinstance(X, DaskTable)


def opened(X: Any, client: Any = None) -> Any:
    """A Dask array or dataframe as a table, looked at in one pass; anything else as it is."""
    if not is_dask(X):
        return X
    if is_frame(X):
        names = list(X.columns)
        parts = list(X.to_delayed())
        features = len(names)
    else:
        X = whole_rows(X)
        names = None
        parts = list(X.to_delayed().ravel())
        features = int(X.shape[1])
    runner = runner_of(client)
    look = require_dask().delayed(look_at)
    looks = list(runner.each([look(part, i, names, features) for i, part in enumerate(parts)]))
    for found in looks:
        if found.trouble is not None:
            raise ValueError(found.trouble)
    table = DaskTable(parts, looks, names, features, runner)
    if 0 in table.shape:
        raise ValueError(
            f"X has shape {table.shape} in {len(parts)} partitions; it must have a row and a column."
        )
    return table


def example_of(X: Any) -> Any:
    """One row of zeros with the columns of a table or a Dask collection; nothing is computed."""
    names = X.names if is_remote(X) else list(X.columns) if is_frame(X) else None
    zeros = np.zeros((1, (X if is_remote(X) or is_frame(X) else whole_rows(X)).shape[1]))
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
            f"X is a Dask {type(X).__name__}; pass a two-dimensional dask.array (rows, features), or a "
            "dask.dataframe."
        )
    if np.isnan(X.shape[1]):
        raise ValueError("the number of columns of X is unknown; call X.compute_chunk_sizes() first.")
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def gathered(values: Any, client: Any = None) -> Any:
    """A Dask collection of targets, weights or groups in memory; anything else as it is."""
    return runner_of(client).one(values) if is_dask(values) else values


def to_host(values: Any, client: Any = None) -> Any:
    """Rows, targets, weights or groups of Dask or of a device in host memory; the rest as it is."""
    values = gathered(values, client)
    return to_numpy(values) if is_foreign(values) else values


# Passes over the table


class DaskRows(Rows):
    """The rows of a table; a worker moves the blocks of its partition to `device`."""

    def __init__(self, table: DaskTable, Y: Any, root: Any, device: Device = None) -> None:
        super().__init__(table, Y, root, device)
        self._table = table
        self._pieces = table.pieces()
        self._travelled: dict[str, tuple[Any, list[Any]]] = {}

    def part(self, index: Index) -> DaskRows:
        Y, root = (picked(side, index) for side in self._arrays[1:])
        return DaskRows(self._table.only(index), Y, root, self._device)

    def map(
        self, function: Any, groups: Groups | None = None, *, wanted: Wanted = None, at_most: Most = None
    ) -> Mapped:
        numbers = None if wanted is None else frozenset(int(group) for group in wanted)
        lazy = self._tasks(function, groups, wanted=numbers, alone=at_most == 1)
        for (_, rows, _), blocks in zip(self._pieces, self._table.runner.each(lazy)):
            check_stop()
            for group, local, found in blocks:
                if isinstance(local, slice):
                    yield group, slice(local.start + rows.start, local.stop + rows.start), found
                else:
                    yield group, local + rows.start, found

    def sums(self, function: BlockSum, groups: Groups | None = None, at_most: Most = None) -> list[Any]:
        level = self._tasks(function, groups, sums=True, alone=at_most == 1)
        add = require_dask().delayed(_added)
        while len(level) > 1:
            pairs = [add(one, two) for one, two in zip(level[::2], level[1::2])]
            level = pairs + level[len(level) - len(level) % 2 :]
        found = self._table.runner.one(level[0])
        totals = [function.zero(self.targets, self.reference) for _ in found]
        for group, one in enumerate(found):
            if one is not None:
                totals[group] += one
        return totals

    def _tasks(self, function: Any, groups: Groups | None, **settings: Any) -> list[Any]:
        """The lazy values of a task for every partition that has rows."""
        delayed = require_dask().delayed
        parts = self._table.parts
        shared = delayed(function, traverse=False)
        count = 1 if groups is None else groups.count
        run = partial(_work, dtype=self._table.dtype, groups=count, device=self._device, **settings)
        _, Y, root = self._arrays
        looks = self._table.looks
        sides = self._held(
            "targets, √weights, the kept rows and the first look",
            None,
            ((take_part(Y, r), take_part(root, r), kept, looks[i]) for i, r, kept in self._pieces),
        )
        labels: Sequence[Any] = [None] * len(sides)
        if groups is not None:
            small = np.min_scalar_type(max(1, groups.count))
            label = groups.label
            labels = self._held("groups", label, ((label[r].astype(small),) for _, r, _ in self._pieces))
        return [
            delayed(run)(parts[number], side, label, shared)
            for (number, _, _), side, label in zip(self._pieces, sides, labels)
        ]

    def _held(self, name: str, key: Any, values: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Values for every partition as tasks of their own; they travel once for the same key."""
        with self._lock:
            if name not in self._travelled or self._travelled[name][0] is not key:
                hold = require_dask().delayed(tuple)  # a task, which can be run again
                self._travelled[name] = key, self._table.runner.held([hold(one) for one in values])
            return self._travelled[name][1]


def _one_at_a_time(alone: bool) -> AbstractContextManager[None]:
    """A lock of this process, wherever a task runs, for kernels that threads must not share."""
    return _ONE_AT_A_TIME if alone else nullcontext()


def _work(
    rows: Any,
    side: tuple[Any, Any, Any, Look],
    label: Any,
    function: Any,
    *,
    dtype: Any,
    groups: int,
    device: Device,
    alone: bool,  # one such task at a time in a process
    wanted: Wanted = None,
    sums: bool = False,
) -> list[Any]:
    """(group, rows, result) of every block of a partition; with `sums` that of each group, or None."""
    Y, root, kept, look = side
    with use_threads(1), limit_blas(1), _one_at_a_time(alone):
        require_same(rows, look)
        part = Partition(rows, kept, dtype)
        source: Rows = HostRows(part, Y, root)
        if device is not None:
            source = StreamedRows(part, Y, root, device)
            function = function.placed(source.placed)
        grouped = None if label is None else Groups(label[0].astype(np.int64), [], groups)
        if not sums:
            found = source.map(function, grouped, wanted=wanted)
            return [(group, local, to_numpy(result)) for group, local, result in found]
        there = [True] if grouped is None else (grouped.sizes > 0).tolist()
        totals = source.sums(function, grouped)
        home = [total.on_host() if hasattr(total, "on_host") else to_numpy(total) for total in totals]
        return [total if some else None for total, some in zip(home, there)]


def _added(one: list[Any], two: list[Any]) -> list[Any]:
    """Both together; neither is written over, as Dask may need it again."""
    return [a if b is None else b if a is None else a + b for a, b in zip(one, two)]


# Lazy predictions


def lazily(
    X: Any,
    function: Callable[[Any], Any],
    dtype: Any,
    columns: Any | None,
    device: Device = None,
    *,
    alone: bool = False,  # one such task at a time in a process
) -> Any:
    """function(rows), (rows,) or under the names `columns`, as a Dask array, series or dataframe."""
    nothing = np.empty((0,) if columns is None else (0, len(columns)), dtype=dtype)

    def predicted(rows: Any, number: int) -> NDArray[Any]:
        """Of a partition, some rows at a time; errors name the partition."""
        pieces = [nothing]
        try:
            with use_threads(1), limit_blas(1), _one_at_a_time(alone):
                for part in spans(rows.shape[0], _PREDICTED_ROWS):
                    some = rows.iloc[part] if hasattr(rows, "iloc") else rows[part]
                    some = some if device is None else on_device(np.asarray(some), device)
                    pieces.append(np.asarray(to_numpy(function(some)), dtype=dtype))
        except ValueError as error:
            raise ValueError(f"partition {number} of X: {error}") from error
        return np.concatenate(pieces)

    def of_block(rows: Any, block_id: tuple[int, ...] = (0,)) -> NDArray[Any]:
        return predicted(rows, block_id[0])

    def of_frame(rows: Any, partition_info: Any = None) -> Any:
        return as_frame(predicted(rows, (partition_info or {}).get("number", 0)), index=rows.index)

    def as_frame(values: NDArray[Any], **index: Any) -> Any:
        import pandas

        if columns is None:
            return pandas.Series(values, **index)
        return pandas.DataFrame(values, columns=list(columns), **index)

    if is_frame(X):
        return X.map_partitions(of_frame, meta=as_frame(nothing))
    X = whole_rows(X)
    if columns is None:
        return X.map_blocks(of_block, dtype=dtype, drop_axis=1)
    return X.map_blocks(of_block, dtype=dtype, chunks=(X.chunks[0], (len(columns),)))


# Partitioned Parquet: which columns are features, targets, weights and groups


class ParquetRows(NamedTuple):
    """The lazy arguments of `fit`: ``fit(rows.X, rows.y, rows.sample_weight, rows.groups)``."""

    X: Any  # dask.dataframe.DataFrame
    y: Any  # dask.dataframe.Series, or DataFrame for several targets
    sample_weight: Any = None  # dask.dataframe.Series or None
    groups: Any = None


def open_parquet(
    path: Any,
    target: str | Sequence[str],
    *,
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
    groups: str | None = None,
    **options: Any,
) -> ParquetRows:
    """Open a Parquet file, or a folder of Parquet files; only the schema is read.

    Rows are in the order of the file names, as ``dask.dataframe.read_parquet`` reads them.

    Parameters
    ----------
    path : str or list of str
        A file, a folder, a pattern such as ``"part-*.parquet"``, or an address that Dask supports.
    target : str or list of str
        The column or columns to predict.
    features : list of str, optional
        Columns to predict from; by default all others.
    sample_weight, groups : str, optional
        The column of weights, and the column of groups for grouped splitters.
    **options
        Passed to ``dask.dataframe.read_parquet``: ``storage_options``, ``filters``, and so on.

    Returns
    -------
    ParquetRows

    Examples
    --------
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> from pyarrow import parquet
    >>> from onefold import LSSVRCV, open_parquet
    >>> x = np.linspace(0, 1, 500)
    >>> parquet.write_table(pa.table({"x": x, "y": np.sin(6 * x)}), "sine.parquet")
    >>> rows = open_parquet("sine.parquet", target="y")
    >>> model = LSSVRCV(approximation="nystroem", gammas=[1, 10], alphas=[0.01, 0.1]).fit(rows.X, rows.y)
    >>> model.predict(pa.table({"x": [0.5]})).round(1)
    array([0.1])
    """
    require_dask()
    from dask.dataframe import read_parquet

    table = read_parquet(path, **options)
    targets = [target] if isinstance(target, str) else list(target)
    others = [*targets, *(name for name in (sample_weight, groups) if name is not None)]
    known = list(table.columns)
    wanted = [name for name in known if name not in others] if features is None else list(features)
    missing = [name for name in (*others, *wanted) if name not in known]
    if missing or not targets or not wanted:
        raise ValueError(
            f"{path} has no column {', '.join(map(repr, missing)) or 'left to use'}; its columns are "
            f"{', '.join(map(repr, known))}."
        )
    return ParquetRows(
        table[wanted],
        table[targets[0]] if isinstance(target, str) else table[targets],
        None if sample_weight is None else table[sample_weight],
        None if groups is None else table[groups],
    )
