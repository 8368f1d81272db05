"""Where rows live: in memory, sparse, a mapped file, a device, or host memory streamed to a device."""

from onefold.rows.base import Block, Rows
from onefold.rows.groups import Groups, group_rows
from onefold.rows.moving import rows_of, to_device

__all__ = ["Block", "Groups", "Rows", "group_rows", "rows_of", "to_device"]
