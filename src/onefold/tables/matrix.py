"""The matrix of a table that is larger than memory: standardised float32 rows in a file that is mapped.

Two passes over the table, block by block (text: one more, which finds its types): the preparation first,
then rows into a .npy file. A search over many kernels reads that file again and again, which parsing
text again would make many times slower.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from onefold.machine.files import replacing
from onefold.tables.errors import TableError
from onefold.tables.preparation import Learner, Missing, Preparation, Surprises
from onefold.tables.rows import TableRows, TableSource
from onefold.tables.source import open_table
from onefold.tables.target import learn_target

BLOCK = 65_536


@dataclass(frozen=True)
class RowsOnDisk:
    """Prepared rows in a file, and their targets.

    Attributes
    ----------
    X : NumPy array (n, d), float32, mapped from the file
    y : NumPy array (n,)
    preparation : Preparation
        Of new rows, too.
    path : Path
    """

    X: Any
    y: Any
    preparation: Preparation
    path: Path


def rows_on_disk(
    table: str | Path | TableSource,
    target: str,
    path: str | Path,
    *,
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    missing: Missing = "impute",
    block: int = BLOCK,
) -> RowsOnDisk:
    """Bring a table into a form that a basis model can be tuned on without memory for it.

    Parameters
    ----------
    table : path or TableSource
    target : str
        The column to predict.
    path : path
        The .npy file to write, 4 bytes for each number; written under another name first.
    drop, categorical, missing
        As in :class:`onefold.TableRegressor`.
    block : int
        Rows in memory at a time.
    """
    source = table if isinstance(table, TableSource) else open_table(table)
    for name in (target, *drop):
        source.require(name)
    learner = Learner({target, *drop}, missing, categorical)
    beside, _ = learn_from_disk(source, [target], learner, block)
    preparation = learner.finish()
    y = learn_target(beside, target).values
    X = written(preparation, source.typed_batches(block, preparation.columns), len(beside), Path(path))
    return RowsOnDisk(X, y, preparation, Path(path))


def learn_from_disk(
    source: TableSource,
    others: Collection[str],
    learner: Learner | None = None,
    block: int = BLOCK,
    mask: np.ndarray | None = None,
) -> tuple[TableRows, TableRows]:
    """Let a learner see all blocks, in one pass that leaves the columns `others` and a first block.

    Only the rows of `mask` are looked at, where there is one.
    """
    kept: list[TableRows] = []
    first: TableRows | None = None
    blocks = source.typed_batches(block, None if learner is not None else list(others))
    for rows in blocks if mask is None else masked(blocks, mask):
        if learner is not None:
            learner.add(rows)
        first = first or rows
        kept.append(rows.select(list(others)))
    if first is None:
        raise TableError(f"{source.path.name} has no rows")
    columns = pa.concat_tables([rows.columns for rows in kept], promote_options="permissive")
    texts = [rows.written for rows in kept if rows.written is not None]
    return replace(kept[0], columns=columns, written=pa.concat_tables(texts) if texts else None), first


def written(preparation: Preparation, blocks: Iterable[TableRows], n: int, path: Path) -> Any:
    """The rows of a table as a mapped float32 array in a file at `path`."""
    width = len(preparation.feature_names)
    try:
        with replacing(path) as partial:
            X = np.lib.format.open_memmap(partial, "w+", np.float32, (n, width))
            place = 0
            for rows in blocks:
                X[place : place + len(rows)] = preparation.transform(rows, Surprises())
                place += len(rows)
            X.flush()
            del X
    except OSError as error:
        megabytes = 4 * n * width >> 20
        raise TableError(
            f"the {megabytes + 1} MB of rows can't be written to {path.parent} "
            f"({(error.strerror or 'no room').lower()}); make room there, or tune on fewer rows"
        ) from error
    return np.load(path, mmap_mode="r")


def masked(blocks: Iterable[TableRows], mask: np.ndarray) -> Iterator[TableRows]:
    """The rows of a mask over the whole table, block by block; they keep the numbers of their blocks."""
    for rows in blocks:
        here = np.flatnonzero(mask[rows.start : rows.start + len(rows)])
        if len(here):
            yield replace(rows.take(here), start=rows.start)
