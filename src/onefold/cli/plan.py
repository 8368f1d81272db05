"""``onefold plan``: what tune would run on a table, its time and its memory."""

from __future__ import annotations

import argparse
import json

from onefold.approximations import plan
from onefold.tables import TableSource, open_table

__all__ = ["run"]

_BLOCK = 65_536


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    rows, features = table_shape(open_table(arguments.table))
    found = plan(
        (rows, features),
        approximation=arguments.approximation,
        n_gammas=arguments.gammas,
        n_alphas=arguments.alphas,
        cv=arguments.cv,
        targets=arguments.targets,
        seconds=arguments.seconds,
    )
    if not arguments.json:
        print(found)
        return
    facts = {
        "rows": found.rows,
        "features": found.features,
        "approximation": repr(found.approximation),
        "reason": found.reason,
        "seconds": found.seconds,
        "bytes": found.bytes,
        "free_bytes": found.free_bytes,
        "fits": found.fits,
    }
    print(json.dumps(facts, allow_nan=False))


def table_shape(source: TableSource) -> tuple[int, int]:
    """Rows, and columns but for one target; text columns count once, as their categories are unknown."""
    rows, width = 0, max(1, len(source.names) - 1)
    for block in source.batches(_BLOCK):
        rows += len(block)
        if block.sparse is not None:
            width = max(width, int(block.sparse.shape[1]))
    return rows, width
