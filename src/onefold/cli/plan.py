"""``onefold plan``: what tune would run on a table, its time and its memory."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection

from onefold.approximations import plan
from onefold.cli.tableoptions import open_asked
from onefold.tables import TableSource

__all__ = ["run"]

_BLOCK = 65_536


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    source = open_asked(arguments)
    if arguments.target is not None:
        source.require(arguments.target, "--target")
    for name in arguments.drop:
        source.require(name, "--drop")
    for name in arguments.categorical:
        source.require(name, "--categorical")
    rows, features = table_shape(source, len(set(arguments.drop)), arguments.categorical)
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


def table_shape(
    source: TableSource, left_out: int = 0, categorical: Collection[str] = ()
) -> tuple[int, int]:
    """Rows, and columns but for one target; `categorical` columns count once for each category.

    Other columns of text count once, as their categories are unknown.
    """
    rows, width = 0, max(1, len(source.names) - 1 - left_out)
    categories: dict[str, set[object]] = {name: set() for name in categorical}
    for block in source.batches(_BLOCK):
        rows += len(block)
        for name, found in categories.items():
            found.update(block.column(name).unique().drop_null().to_pylist())
        if block.sparse is not None:
            width = max(width, int(block.sparse.shape[1]))
    return rows, width + sum(max(0, len(found) - 1) for found in categories.values())
