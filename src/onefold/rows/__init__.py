"""Where rows live: in memory, sparse, a mapped file, a device, host memory streamed to one, or Dask."""

from __future__ import annotations

import sys
from typing import Any

from sklearn.utils import _safe_indexing

from onefold.linalg import (
    Array,
    Device,
    free_device_memory,
    is_foreign,
    is_sparse,
    on_device,
    take_rows,
    to_numpy,
)
from onefold.rows.base import Block, GroupedSplits, Groups, HostRows, Rows, group_rows
from onefold.rows.dask import DaskRows, DaskTable, example_of, lazily, runner_of, table_of
from onefold.rows.device import DeviceRows, StreamedRows
from onefold.rows.fifths import FIFTHS, consecutive_fifths, interleaved_fifths
from onefold.rows.hashing import (
    TARGET_ROUNDING,
    equal_keys,
    has_all_rows,
    label_codes,
    row_fingerprint,
    row_hashes,
    rows_with_weight,
)

# Bytes of rows that are moved to a device as a whole: more are streamed while it works, in no more time.
_MOVED_AT_ONCE = 4 * 2**30
# Share of the device's free memory that rows may take.
_SHARE = 0.25


def is_dask(X: Any) -> bool:
    """Whether X is a collection of Dask; nothing is imported to find out."""
    return "dask" in sys.modules and bool(sys.modules["dask"].is_dask_collection(X))


def is_remote(X: Any) -> bool:
    """Whether X is a table whose rows stay on Dask's workers."""
    return isinstance(X, DaskTable)


def opened(X: Any, client: Any = None) -> Any:
    """A Dask array or dataframe as a table, inspected in one pass; anything else as it is."""
    return table_of(X, client) if is_dask(X) else X


def gathered(values: Any, client: Any = None) -> Any:
    """A Dask collection of targets, weights or groups in memory; anything else as it is."""
    return runner_of(client).value(values) if is_dask(values) else values


def to_host(values: Any, client: Any = None) -> Any:
    """Rows, targets, weights or groups of Dask or of a device in host memory; others as they are."""
    values = gathered(values, client)
    return to_numpy(values) if is_foreign(values) else values


def to_device(X: Any, device: Device) -> Array:
    """Host rows on a torch device; X itself if its rows are to be streamed, or need not be moved."""
    if device is None or is_foreign(X) or is_remote(X):
        return X
    if is_sparse(X):
        raise ValueError(
            f"device={device!r} needs dense rows; convert X with X.toarray(), or use device=None."
        )
    free = free_device_memory(device)
    room = _MOVED_AT_ONCE if free is None else min(_MOVED_AT_ONCE, int(_SHARE * free))
    return on_device(X, device) if X.nbytes <= room else X


def rows_of(X: Any, Y: Array | None = None, root: Array | None = None, device: Device = None) -> Rows:
    """The source of the given rows; `device` names where host rows are to be streamed to."""
    if is_remote(X):
        return DaskRows(X, Y, root, device)
    if is_foreign(X):
        return DeviceRows(X, Y, root)
    return HostRows(X, Y, root) if device is None else StreamedRows(X, Y, root, device)


def picked_rows(table: Any, index: Any) -> Any:
    """Rows of a user's table by their numbers: of an array of any library, a frame or a list."""
    return take_rows(table, index) if is_foreign(table) else _safe_indexing(table, index)
