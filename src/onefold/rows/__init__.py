"""Where rows live: in memory, sparse, a mapped file, a device, host memory streamed to one, or Dask."""

from onefold.rows.base import Block, Rows
from onefold.rows.dask_predictions import Predicted, lazily
from onefold.rows.dask_runner import connected, is_dask
from onefold.rows.dask_table import example_of, gathered, is_remote, opened
from onefold.rows.groups import Groups, group_rows
from onefold.rows.moving import rows_of, to_device
from onefold.rows.parquet import standardised

__all__ = [
    "Block",
    "Groups",
    "Predicted",
    "Rows",
    "connected",
    "example_of",
    "gathered",
    "group_rows",
    "is_dask",
    "is_remote",
    "lazily",
    "opened",
    "rows_of",
    "standardised",
    "to_device",
]
