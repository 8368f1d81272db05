"""Tables larger than memory as rows that stay on disk: Parquet or text in, a mapped array out.

Two passes over the table, block by block: means and scales first, then standardised float32 rows into
a .npy file that is mapped, not read. A search over many kernels reads that file again and again, which
parsing text again would make many times slower.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold.machine.replacing import replacing
from onefold.tables.columns import as_numbers, inexact_as_number, kind_of
from onefold.tables.errors import TableError, listing
from onefold.tables.learn import too_large
from onefold.tables.moments import ColumnMoments
from onefold.tables.rows import TableRows
from onefold.tables.source import TableSource, open_table

_BLOCK = 65_536
_MOST_LABELS = 1000  # different spellings that are remembered


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
    spelled : mapping of str to float, or None
        How tables of text spell the target's numbers; None if there are too many to be labels.
    target_type : dtype or None
        What other tables store the target as.
    """

    X: Any
    y: Any
    columns: tuple[str, ...]
    mean: Any
    scale: Any
    constant: tuple[str, ...]
    path: Path
    spelled: Mapping[str, float] | None = None
    target_type: np.dtype | None = None


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
    labels = _Labels()
    mean, scale, n = _moments(source, columns, target, block, labels)
    varies = scale > 0
    constant = tuple(name for name, kept in zip(columns, varies) if not kept)
    columns = tuple(name for name, kept in zip(columns, varies) if kept)
    if not columns:
        raise TableError(f"every column is constant ({listing(constant)}): nothing to learn")
    mean, scale, path, y = mean[varies], scale[varies], Path(path), np.empty(n)
    try:
        with replacing(path) as partial:
            X = np.lib.format.open_memmap(partial, "w+", np.float32, (n, len(columns)))
            for rows in source.batches(block, (*columns, target)):
                here = slice(rows.start, rows.start + len(rows))
                X[here] = (_matrix(rows, columns) - mean) / scale
                y[here] = _target(rows, target)
            X.flush()
            del X
    except OSError as error:
        megabytes = 4 * n * len(columns) >> 20
        raise TableError(
            f"the {megabytes + 1} MB of rows can't be written to {path.parent} "
            f"({(error.strerror or 'no room').lower()}); make room there, or tune on fewer rows"
        ) from error
    X = np.load(path, mmap_mode="r")
    return RowsOnDisk(X, y, columns, mean, scale, constant, path, labels.spelled, labels.kind)


class _Labels:
    """How the target is spelled, or stored, over all blocks."""

    def __init__(self) -> None:
        self.spelled: dict[str, float] | None = None
        self.kind: np.dtype | None = None
        self._too_many = False

    def add(self, column: pa.ChunkedArray, rows: TableRows, name: str) -> None:
        if kind_of(column) != "text":
            stored = pc.drop_null(column).slice(0, 1).to_numpy(zero_copy_only=False)
            self.kind = stored.dtype if stored.dtype.kind in "biuf" else None
            return
        distinct = pa.chunked_array([pc.unique(column)])
        self._too_many |= len(distinct) > _MOST_LABELS
        if not self._too_many:
            numbers = as_numbers(distinct, name, 0, rows.reading.format_of(name)).tolist()
            self.spelled = {**(self.spelled or {}), **dict(zip(distinct.to_pylist(), numbers))}
            self._too_many = len(self.spelled) > _MOST_LABELS
        if self._too_many:
            self.spelled = None


def _moments(
    source: TableSource, columns: tuple[str, ...], target: str, block: int, labels: _Labels
) -> tuple[Any, Any, int]:
    """Mean, standard deviation (0 for a constant column) and number of rows; blocks are merged."""
    total = ColumnMoments.of(np.empty((0, len(columns))))
    for rows in source.batches(block, (*columns, target)):
        _target(rows, target)  # refuse what is wrong with it before anything is written
        labels.add(rows.column(target), rows, target)
        total = total.joined(ColumnMoments.of(_matrix(rows, columns)))
    if total.n == 0:
        raise TableError(f"{source.path.name} has no rows")
    return *total.mean_and_scale(), total.n


def _matrix(rows: TableRows, columns: tuple[str, ...]) -> Any:
    for name in columns:
        position = inexact_as_number(rows.column(name))
        if position is not None:
            raise TableError(too_large(rows, name, position))
    try:
        matrix = np.column_stack([rows.numbers(name) for name in columns])
    except TableError as error:
        raise TableError(
            f"{error} (tables larger than memory must hold numbers: --drop COL leaves a column out)"
        ) from error
    bad = ~np.isfinite(matrix)
    if bad.any():
        row, column = (int(i[0]) for i in np.nonzero(bad))
        raise TableError(
            f"column '{columns[column]}' has no finite number in data row {rows.start + row + 1}; "
            "fill it in, or drop the column"
        )
    return matrix


def _target(rows: TableRows, name: str) -> Any:
    try:
        values = rows.numbers(name, "target column")
    except TableError as error:
        raise TableError(
            f"{error} (tables larger than memory must hold numbers: write classes as 0, 1, …)"
        ) from error
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise TableError(
            f"the target '{name}' has no finite number in data row {rows.start + row + 1}; "
            "remove the row"
        )
    return values
