"""Tables larger than memory as rows that stay on disk: Parquet or text in, a mapped array out.

Two passes over the table, block by block: means and scales first, then standardised float32 rows into
a .npy file that is mapped, not read. A search over many kernels reads that file again and again, which
parsing text again would make many times slower.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onefold.tables.columns import as_numbers
from onefold.tables.errors import TableError, listing
from onefold.tables.learn import ROUNDING
from onefold.tables.rows import Rows
from onefold.tables.source import TableSource, open_table

__all__ = ["RowsOnDisk", "rows_on_disk"]

_BLOCK = 65_536


@dataclass(frozen=True)
class RowsOnDisk:
    """Standardised rows in a file and their targets.

    Attributes
    ----------
    X : NumPy array (n, d), float32, mapped from the file
    y : NumPy array (n,)
    columns : tuple of str
    mean, scale : arrays (d,)
        X is (value − mean) / scale; prepare new rows with the same.
    constant : tuple of str
        Columns that were left out because all their values were equal.
    path : Path
    """

    X: Any
    y: Any
    columns: tuple[str, ...]
    mean: Any
    scale: Any
    constant: tuple[str, ...]
    path: Path


def rows_on_disk(
    table: str | Path | TableSource,
    target: str,
    path: str | Path,
    *,
    drop: Collection[str] = (),
    block: int = _BLOCK,
) -> RowsOnDisk:
    """Bring a table of numbers into a form that a basis model can be tuned on without memory for it.

    Parameters
    ----------
    table : path or TableSource
        .csv, .tsv (also .gz) or .parquet; every feature must be a number.
    target : str
        The column to predict: numbers, or labels that are numbers.
    path : path
        The .npy file to write, 4 bytes for each number; written under another name first.
    drop : collection of str
        Columns to leave out.
    block : int
        Rows in memory at a time.
    """
    source = table if isinstance(table, TableSource) else open_table(table)
    for name in (target, *drop):
        source.require(name)
    columns = tuple(name for name in source.names if name != target and name not in drop)
    if source.sparse or not columns:
        raise TableError(
            f"{source.path.name} has no named columns of numbers to learn from; use .csv or .parquet"
        )
    mean, scale, n = _moments(source, columns, target, block)
    varies = scale > 0
    constant = tuple(name for name, kept in zip(columns, varies) if not kept)
    columns, mean, scale = (
        tuple(name for name in columns if name not in constant),
        mean[varies],
        scale[varies],
    )
    if not columns:
        raise TableError(f"every column is constant ({listing(constant)}): nothing to learn")
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    y = np.empty(n)
    try:
        X = np.lib.format.open_memmap(partial, "w+", np.float32, (n, len(columns)))
        for rows in source.batches(block, (*columns, target)):
            here = slice(rows.start, rows.start + len(rows))
            X[here] = (_matrix(rows, columns) - mean) / scale
            y[here] = _target(rows, target)
        X.flush()
        del X
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return RowsOnDisk(np.load(path, mmap_mode="r"), y, columns, mean, scale, constant, path)


def _moments(
    source: TableSource, columns: tuple[str, ...], target: str, block: int
) -> tuple[Any, Any, int]:
    """Mean, standard deviation (0 for a constant column) and number of rows; blocks are merged."""
    mean, spread, n = np.zeros(len(columns)), np.zeros(len(columns)), 0
    for rows in source.batches(block, (*columns, target)):
        values = _matrix(rows, columns)
        _target(rows, target)  # refuse what is wrong with it before anything is written
        count = values.shape[0]
        middle = values.mean(axis=0)
        shift = middle - mean
        spread += ((values - middle) ** 2).sum(axis=0) + shift**2 * (n * count / (n + count))
        mean += shift * (count / (n + count))
        n += count
    if n == 0:
        raise TableError(f"{source.path.name} has no rows")
    deviation = np.sqrt(spread / n)
    return mean, np.where(deviation > ROUNDING * np.abs(mean), deviation, 0.0), n


def _matrix(rows: Rows, columns: tuple[str, ...]) -> Any:
    values = [as_numbers(rows.column(name), name, rows.start) for name in columns]
    matrix = np.column_stack(values)
    bad = ~np.isfinite(matrix)
    if bad.any():
        row, column = (int(i[0]) for i in np.nonzero(bad))
        raise TableError(
            f"column '{columns[column]}' has no finite number in data row {rows.start + row + 1}; "
            "fill it in, or drop the column"
        )
    return matrix


def _target(rows: Rows, name: str) -> Any:
    values = as_numbers(rows.column(name, "target column"), name, rows.start)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise TableError(f"the target '{name}' is missing in data row {rows.start + row + 1}")
    return values
