"""``onefold plan``: what tune would run on a table, its time and its memory."""

from __future__ import annotations

import argparse

from onefold.approximations import plan
from onefold.cli.words import json_text
from onefold.tables import TableSource, open_table

__all__ = ["run"]

_BLOCK = 65_536


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    source = open_table(arguments.table)
    if arguments.target is not None:
        source.require(arguments.target, "--target")
    for name in arguments.drop:
        source.require(name, "--drop")
    rows, features = table_shape(source, len(set(arguments.drop)))
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
    print(json_text(facts))


def table_shape(source: TableSource, left_out: int = 0) -> tuple[int, int]:
    """Rows, and columns but for one target; text columns count once, as their categories are unknown."""
    rows, width = 0, max(1, len(source.names) - 1 - left_out)
    for block in source.batches(_BLOCK):
        rows += len(block)
        if block.sparse is not None:
            width = max(width, int(block.sparse.shape[1]))
    return rows, width
