r"""Rows of a Dask array or dataframe, which stay where they are.

    row i of the table  =  row i − starts[p] of partition p
    partition p  →  Σ over its blocks, group by group           on a worker, in the order of the rows
    ((0 + 1) + (2 + 3)) + …                                      on workers, in the order of partitions

The caller holds the lengths of the partitions and lazy handles to them. Rows that are indexed by their
numbers are fetched; all others stay on the workers. Row numbers do not depend on the partitions, and
neither do random samples of them.

A pass maps every partition to a result, and a tree adds the results up. Its shape depends only on the
number of partitions, never on which task finishes first. Every task is a pure function of the partition
and of the values that the graph holds for it (targets, √weights, groups), so that Dask can recompute
whatever is lost with a worker; no task knows where it runs. It converts the rows of its partition block
by block, so that it holds the partition and one block, never a second copy.

Tasks run on the workers of a client, or on threads of this process. Only Dask's public interface is
used, and it is imported when it is needed. When Dask loses its scheduler, it cancels all work: the fit
then ends with an error of one sentence.
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

from onefold.linalg import Device, Index, is_sparse, on_device, to_numpy
from onefold.machine.extras import pip_install
from onefold.machine.threads import Lock, check_stop, limit_blas, spans, thread_budget, use_threads
from onefold.machine.warning import warn_user
from onefold.rows.base import (
    BlockResults,
    BlockSum,
    GroupNumbers,
    Groups,
    HostRows,
    Rows,
    picked,
    take_part,
)
from onefold.rows.device import StreamedRows

# Bytes of rows that are converted at a time.
_BLOCK_BYTES = 16 * 2**20
# Bytes of fetched rows that are kept, in case they are fetched again.
_REMEMBERED = 64 * 2**20
# Rows that are predicted at a time.
_PREDICTED_ROWS = 2**16
# Of the size of a checksum's terms: by how much rounding on another machine may change the checksum.
_SAME = 1e-10
# The golden ratio less 1: its multiples modulo 1 are spread evenly, and none comes twice.
_GOLDEN = (5**0.5 - 1) / 2
# Results that a client computes at a time.
_BATCH = 16
# The setting of Dask for the size of a graph from which it warns.
_LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"
# Held by tasks of this process whose kernel must not be called by several threads at once.
_ONE_AT_A_TIME = Lock()


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


class Runner:
    """Computes lazy values: on the workers of `client`, or on threads of this process if it is None."""

    def __init__(self, client: Any = None) -> None:
        self.client = client
        self._warned = False

    def results(self, lazy: Sequence[Any]) -> Iterator[Any]:
        """The values in their order; only a few are computed ahead of the consumer."""
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
                yield from self._gathered(waiting[0])
                for future in waiting.pop(0):
                    future.release()
        finally:  # a traceback that somebody keeps must not keep workers busy
            for future in chain.from_iterable(waiting):
                future.release()

    def value(self, lazy: Any) -> Any:
        """The value of a lazy value or of a Dask collection."""
        return next(iter(self.results([lazy])))

    def persisted(self, lazy: Sequence[Any]) -> list[Any]:
        """The lazy values, computed once and kept on the workers as long as these handles live."""
        if self.client is None:
            return list(lazy)
        with _quiet():
            return list(self.client.persist(list(lazy)))

    def _submitted(self, lazy: Sequence[Any]) -> list[Any]:
        if self.client.status != "running":
            raise _lost()
        try:
            without_workers = not self._warned and not self.client.nthreads()
        except OSError:  # the scheduler has just been lost
            raise _lost() from None
        if without_workers:
            self._warned = True
            warn_user("the Dask cluster has no workers; the fit waits until there are some.")
        with _quiet():
            return list(self.client.compute(list(lazy)))

    def _gathered(self, futures: list[Any]) -> list[Any]:
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
    """Silence Dask's warning of large graphs: they hold the targets, so that tasks can be run again."""
    return require_dask().config.set({_LARGE_GRAPH: "1PiB"})


def runner_of(client: Any) -> Runner:
    """The client's workers; without a client those of the current one, or else threads."""
    require_dask()
    if client is None:
        # There can be a current client only if its module is imported.
        module = sys.modules.get("distributed")
        with suppress(ValueError):  # there is no current client
            client = None if module is None else module.get_client()
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


class PartitionInfo(NamedTuple):
    """What is known of a partition after its rows have been read once."""

    number: int
    error: str | None = None  # why the partition cannot be used
    rows: int = 0
    dtype: str = ""  # of the rows taken together
    largest: float = 0.0  # absolute value
    checksum: float = 0.0
    scale: float = 0.0  # size of the terms of the checksum


def inspect_partition(
    rows: Any, number: int, names: Sequence[Any] | None, features: int
) -> PartitionInfo:
    """Read the rows of partition `number`: how many there are, their dtype, whether they can be used."""
    error = _unusable(rows, number, names, features)
    if error is not None or not len(rows):
        return PartitionInfo(number, error)
    # Columns of pandas' own types have a place for missing values: they are read as float64.
    column_dtypes = rows.dtypes if hasattr(rows, "iloc") else [rows.dtype]
    dtype = common_dtype([d if isinstance(d, np.dtype) else np.dtype(np.float64) for d in column_dtypes])
    largest = 0.0
    for _, block in Partition(rows, None, dtype).blocks():
        size = np.abs(block)
        if not np.all(np.isfinite(size)):
            column = int(np.flatnonzero(~np.isfinite(size).all(axis=0))[0])
            name = column if names is None else names[column]
            where = f"column {name!r} of partition {number}"
            return PartitionInfo(
                number, f"X contains NaN or infinity in {where}; impute or drop these rows."
            )
        largest = max(largest, float(size.max(initial=0.0)))
    return PartitionInfo(number, None, len(rows), dtype.str, largest, *_checksum(rows))


def _unusable(rows: Any, number: int, names: Sequence[Any] | None, features: int) -> str | None:
    """Why a partition cannot be used as rows of numbers; None if it can."""
    place = f"partition {number} of X"
    if names is not None:
        if not hasattr(rows, "iloc") or list(rows.columns) != list(names):
            return (
                f"{place} has other columns than the first; all partitions must have the same columns."
            )
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
            f"{place} is a {type(rows).__name__}; convert it with X.map_blocks(numpy.asarray), and use "
            "device=... to compute on a device."
        )
    if isinstance(rows, np.ma.MaskedArray) and np.ma.is_masked(rows):
        return f"{place} has masked values; impute or drop these rows."
    if rows.ndim != 2 or rows.shape[1] != features:
        return f"{place} has the shape {rows.shape}; all partitions must have {features} columns."
    if rows.dtype.kind not in "biuf":
        return f"{place} contains {rows.dtype} instead of real numbers; encode them as numbers first."
    return None


def common_dtype(dtypes: Sequence[Any]) -> np.dtype[Any]:
    """The dtype of the stacked rows of these dtypes, as a fit would convert them."""
    single = bool(dtypes) and np.result_type(*dtypes) == np.float32
    return np.dtype(np.float32 if single else np.float64)


def _checksum(rows: Any) -> tuple[float, float]:
    """Σ_ij u_i v_j x_ij, which every value and the order of the rows change, and the size of its terms.

    u and v are irregular weights between 1 and 2; the size is Σ_i u_i |Σ_j v_j x_ij|.
    """
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


def require_same(rows: Any, info: PartitionInfo) -> None:
    """Raise if a partition does not hold the same rows, in the same order, as when it was inspected."""
    remedy = "pass rows that are the same each time they are computed, for example X.persist()."
    if len(rows) != info.rows:
        raise ValueError(
            f"partition {info.number} of X had {info.rows} rows when it was first read and has "
            f"{len(rows)} now; {remedy}"
        )
    total, scale = _checksum(rows)
    if not abs(total - info.checksum) <= _SAME * max(scale, info.scale):
        raise ValueError(
            f"partition {info.number} of X has changed since it was first read, in its values or in the "
            f"order of its rows; {remedy}"
        )


def _picked_rows(rows: Any, index: Index, dtype: Any, info: PartitionInfo) -> NDArray[Any]:
    """The rows with the given numbers of a partition."""
    require_same(rows, info)
    return Partition(rows, None, dtype)[index]


def _moments_of(rows: Any, kept: Index | None) -> tuple[float, float, float]:
    """Number, mean and sum of squared deviations of all entries of the kept rows, in float64."""
    blocks = Partition(rows, kept, np.float64).blocks()
    return _joined([(b.size, b.mean(), np.sum((b - b.mean()) ** 2)) for _, b in blocks])


def _joined(moments: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    """The moments of all numbers from those of disjoint parts."""
    size, mean, squares = np.array(moments, dtype=np.float64).reshape(-1, 3).T
    overall_mean = float(size @ mean) / max(1.0, float(size.sum()))
    return float(size.sum()), overall_mean, float(squares.sum() + size @ (mean - overall_mean) ** 2)


# All partitions as one table


class DaskTable:
    """Rows of a Dask collection, or a selection of them; indexing by numbers or a slice fetches rows."""

    ndim = 2

    def __init__(
        self,
        parts: list[Any],
        infos: list[PartitionInfo],
        names: list[Any] | None,
        features: int,
        runner: Runner,
    ) -> None:
        self.parts = parts
        self.infos = infos
        self.runner = runner  # computes lazy values
        self.names = names  # columns of a dataframe
        self.lengths = np.array([info.rows for info in infos], dtype=np.intp)
        self.largest = max((info.largest for info in infos), default=0.0)  # absolute value
        self.dtype = common_dtype([np.dtype(info.dtype) for info in infos if info.rows])
        self.shape = (int(self.lengths.sum()), features)
        self._kept: Index | None = None
        self._fetched: dict[bytes, NDArray[Any]] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return self.shape[0]

    def _copy(self, **changed: Any) -> DaskTable:
        copy = object.__new__(DaskTable)
        copy.__dict__.update(self.__dict__, _fetched={}, _lock=Lock(), **changed)
        return copy

    def astype(self, dtype: Any) -> DaskTable:
        """The same rows in another dtype."""
        return self._copy(dtype=np.dtype(dtype))

    def only(self, rows: Any) -> DaskTable:
        """The table of the rows with these ascending numbers, which stay on their workers."""
        rows = np.asarray(rows, dtype=np.intp)
        if np.any(rows[1:] <= rows[:-1]):
            raise ValueError("rows that stay in their partitions keep their order; sort the numbers.")
        kept = rows if self._kept is None else self._kept[rows]
        return self._copy(_kept=kept, shape=(int(rows.size), self.shape[1]))

    def pieces(self) -> list[tuple[int, slice, Index | None]]:
        """(partition, numbers of its rows in this table, their numbers in the partition) of each one.

        The last is None where the table has all rows of a partition.
        """
        kept = self._kept
        starts = np.concatenate([[0], np.cumsum(self.lengths)])
        cuts = starts if kept is None else np.searchsorted(kept, starts)
        pieces: list[tuple[int, slice, Index | None]] = []
        for number, (start, stop) in enumerate(pairwise(cuts.tolist())):
            kept_of_partition = None
            if kept is not None and stop - start < self.lengths[number]:
                kept_of_partition = kept[start:stop] - starts[number]
            if stop > start:
                pieces.append((number, slice(start, stop), kept_of_partition))
        return pieces

    def __getitem__(self, index: Any) -> NDArray[Any]:
        if isinstance(index, tuple) and len(index) == 2 and index[1] is Ellipsis:
            index = index[0]  # as scikit-learn takes rows
        if isinstance(index, slice):
            index = np.arange(self.shape[0])[index]
        index = np.asarray(index)
        index = np.flatnonzero(index) if index.dtype == bool else index.astype(np.intp)
        key = index.tobytes()
        with self._lock:
            rows = self._fetched.get(key)
            if rows is None:
                rows = self._fetched[key] = self._fetch(index)
                while sum(array.nbytes for array in self._fetched.values()) > _REMEMBERED:
                    del self._fetched[next(iter(self._fetched))]  # the oldest
        return rows.copy()

    def _fetch(self, index: Index) -> NDArray[Any]:
        """The rows with these numbers, in their order."""
        numbers_in_table = index if self._kept is None else self._kept[index]
        order = np.argsort(numbers_in_table, kind="stable")
        ends = np.cumsum(self.lengths)
        places = np.searchsorted(ends, numbers_in_table[order], side="right")
        pick = require_dask().delayed(_picked_rows)
        lazy = []
        for number in np.unique(places):
            local = numbers_in_table[order][places == number] - (ends[number] - self.lengths[number])
            lazy.append(pick(self.parts[number], local, self.dtype, self.infos[number]))
        out = np.empty((index.size, self.shape[1]), dtype=self.dtype)
        start = 0
        for rows in self.runner.results(lazy):
            out[order[start : start + len(rows)]] = rows
            start += len(rows)
        return out

    def variance(self) -> float:
        """The variance of all entries, in one pass over the rows."""
        moments = require_dask().delayed(_moments_of)
        lazy = [moments(self.parts[number], kept) for number, _, kept in self.pieces()]
        size, _, squares = _joined(list(self.runner.results(lazy)))
        return squares / max(1.0, size)


def table_of(X: Any, client: Any = None) -> DaskTable:
    """A Dask array or dataframe as a table, inspected in one pass."""
    if is_frame(X):
        names = list(X.columns)
        parts = list(X.to_delayed())
        features = len(names)
    else:
        X = as_row_chunks(X)
        names = None
        parts = list(X.to_delayed().ravel())
        features = int(X.shape[1])
    runner = runner_of(client)
    inspect = require_dask().delayed(inspect_partition)
    infos = list(runner.results([inspect(part, i, names, features) for i, part in enumerate(parts)]))
    for info in infos:
        if info.error is not None:
            raise ValueError(info.error)
    table = DaskTable(parts, infos, names, features, runner)
    if 0 in table.shape:
        raise ValueError(
            f"X has shape {table.shape} in {len(parts)} partitions; it must have a row and a column."
        )
    return table


def example_of(X: Any) -> Any:
    """A row of zeros with the columns of a table or a Dask collection; nothing is computed."""
    names = list(X.columns) if is_frame(X) else None
    if isinstance(X, DaskTable):
        names = X.names
    array = X if isinstance(X, DaskTable) or is_frame(X) else as_row_chunks(X)
    zeros = np.zeros((1, array.shape[1]))
    if names is None:
        return zeros
    import pandas

    return pandas.DataFrame(zeros, columns=names)


def is_frame(X: Any) -> bool:
    """Whether X is a Dask dataframe: if it is one, its module has been imported."""
    frames = sys.modules.get("dask.dataframe")
    return frames is not None and isinstance(X, frames.DataFrame)


def as_row_chunks(X: Any) -> Any:
    """A two-dimensional Dask array whose chunks have all columns; raise if X is no such array."""
    arrays = sys.modules.get("dask.array")
    if arrays is None or not isinstance(X, arrays.Array) or X.ndim != 2:
        raise ValueError(
            f"X is a Dask {type(X).__name__}; pass a two-dimensional dask.array (rows, features), or a "
            "dask.dataframe."
        )
    if np.isnan(X.shape[1]):
        raise ValueError("the number of columns of X is unknown; call X.compute_chunk_sizes() first.")
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


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
        self,
        function: Any,
        groups: Groups | None = None,
        *,
        selected: GroupNumbers = None,
        at_most: int | None = None,
    ) -> BlockResults:
        numbers = None if selected is None else frozenset(int(group) for group in selected)
        lazy = self._tasks(function, groups, selected=numbers, exclusive=at_most == 1)
        for (_, rows, _), blocks in zip(self._pieces, self._table.runner.results(lazy)):
            check_stop()
            for group, local, result in blocks:
                if isinstance(local, slice):
                    yield group, slice(local.start + rows.start, local.stop + rows.start), result
                else:
                    yield group, local + rows.start, result

    def sums(
        self, function: BlockSum, groups: Groups | None = None, at_most: int | None = None
    ) -> list[Any]:
        level = self._tasks(function, groups, sums=True, exclusive=at_most == 1)
        add = require_dask().delayed(_added)
        while len(level) > 1:
            pairs = [add(first, second) for first, second in zip(level[::2], level[1::2])]
            level = pairs + level[len(level) - len(level) % 2 :]
        sums_of_groups = self._table.runner.value(level[0])
        totals = [function.zero(self.targets, self.reference) for _ in sums_of_groups]
        for group, group_sum in enumerate(sums_of_groups):
            if group_sum is not None:
                totals[group] += group_sum
        return totals

    def _tasks(self, function: Any, groups: Groups | None, **settings: Any) -> list[Any]:
        """The lazy results of `_work` for every partition that has rows."""
        delayed = require_dask().delayed
        parts = self._table.parts
        shared = delayed(function, traverse=False)
        count = 1 if groups is None else groups.count
        run = partial(_work, dtype=self._table.dtype, groups=count, device=self._device, **settings)
        _, Y, root = self._arrays
        infos = self._table.infos
        sides = self._persisted(
            "targets, √weights, kept rows and info",
            None,
            ((take_part(Y, r), take_part(root, r), kept, infos[i]) for i, r, kept in self._pieces),
        )
        labels: Sequence[Any] = [None] * len(sides)
        if groups is not None:
            small = np.min_scalar_type(max(1, groups.count))
            label = groups.label
            labels = self._persisted(
                "groups", label, ((label[r].astype(small),) for _, r, _ in self._pieces)
            )
        return [
            delayed(run)(parts[number], side, label, shared)
            for (number, _, _), side, label in zip(self._pieces, sides, labels)
        ]

    def _persisted(self, name: str, key: Any, values: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Values for every partition as tasks, which are sent anew only when `key` is another object."""
        with self._lock:
            if name not in self._travelled or self._travelled[name][0] is not key:
                hold = require_dask().delayed(tuple)  # a task, which can be run again
                self._travelled[name] = (
                    key,
                    self._table.runner.persisted([hold(task) for task in values]),
                )
            return self._travelled[name][1]


def _one_at_a_time(exclusive: bool) -> AbstractContextManager[None]:
    """The lock of the process that a task runs in, for kernels that threads must not share."""
    return _ONE_AT_A_TIME if exclusive else nullcontext()


def _work(
    rows: Any,
    side: tuple[Any, Any, Any, PartitionInfo],
    label: Any,
    function: Any,
    *,
    dtype: Any,
    groups: int,
    device: Device,
    exclusive: bool,  # one such task at a time in a process
    selected: GroupNumbers = None,
    sums: bool = False,
) -> list[Any]:
    """(group, rows, result) of every block of a partition.

    With `sums`, the sum of the results of each group; None for groups without rows here.
    """
    Y, root, kept, info = side
    with use_threads(1), limit_blas(1), _one_at_a_time(exclusive):
        require_same(rows, info)
        part = Partition(rows, kept, dtype)
        source: Rows = HostRows(part, Y, root)
        if device is not None:
            source = StreamedRows(part, Y, root, device)
            function = function.placed(source.placed)
        grouped = None if label is None else Groups(label[0].astype(np.int64), [], groups)
        if not sums:
            results = source.map(function, grouped, selected=selected)
            return [(group, local, to_numpy(result)) for group, local, result in results]
        occupied = [True] if grouped is None else (grouped.sizes > 0).tolist()
        totals = source.sums(function, grouped)
        home = [total.on_host() if hasattr(total, "on_host") else to_numpy(total) for total in totals]
        return [total if has_rows else None for total, has_rows in zip(home, occupied)]


def _added(first: list[Any], second: list[Any]) -> list[Any]:
    """The sums of both; neither is overwritten, since Dask may need it again."""
    return [a if b is None else b if a is None else a + b for a, b in zip(first, second)]


# Lazy predictions


def lazily(
    X: Any,
    function: Callable[[Any], Any],
    dtype: Any,
    columns: Any | None,
    device: Device = None,
    *,
    exclusive: bool = False,  # one such task at a time in a process
) -> Any:
    """function(rows), (rows,) or under the names `columns`, as a Dask array, series or dataframe."""
    nothing = np.empty((0,) if columns is None else (0, len(columns)), dtype=dtype)

    def predicted(rows: Any, number: int) -> NDArray[Any]:
        """function(rows) of a partition, block by block; errors name the partition."""
        pieces = [nothing]
        try:
            with use_threads(1), limit_blas(1), _one_at_a_time(exclusive):
                for part in spans(rows.shape[0], _PREDICTED_ROWS):
                    block = rows.iloc[part] if hasattr(rows, "iloc") else rows[part]
                    block = block if device is None else on_device(np.asarray(block), device)
                    pieces.append(np.asarray(to_numpy(function(block)), dtype=dtype))
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
    X = as_row_chunks(X)
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
    role_columns = [*targets, *(name for name in (sample_weight, groups) if name is not None)]
    columns = list(table.columns)
    wanted = (
        [name for name in columns if name not in role_columns] if features is None else list(features)
    )
    missing = [name for name in (*role_columns, *wanted) if name not in columns]
    if missing or not targets or not wanted:
        raise ValueError(
            f"{path} has no column {', '.join(map(repr, missing)) or 'left to use'}; its columns are "
            f"{', '.join(map(repr, columns))}."
        )
    return ParquetRows(
        table[wanted],
        table[targets[0]] if isinstance(target, str) else table[targets],
        None if sample_weight is None else table[sample_weight],
        None if groups is None else table[groups],
    )
