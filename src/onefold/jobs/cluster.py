"""Jobs on the workers of a Dask cluster: Parquet files that stay where they are, standardised there."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.jobs.folds import choose_folds
from onefold.jobs.job import Job, check_target, groups_in, weights_in
from onefold.jobs.searches import search_of
from onefold.jobs.settings import Settings
from onefold.rows import Block, gathered, opened, rows_of, standardised
from onefold.rows.parquet import open_files
from onefold.tables import (
    Preparation,
    TableError,
    TableRows,
    TableSource,
    learn_target,
    rows_of_frame,
)
from onefold.tables.columns import kind_of
from onefold.tables.errors import listing
from onefold.tables.learn import refuse_unusable
from onefold.tables.moments import ColumnMoments
from onefold.tables.parquet import ParquetSource
from onefold.tables.partitioned import PartitionedSource
from onefold.tables.suspects import column_notes, row_number_columns

_FIRST_ROWS = 1000  # that show which columns number the rows


def prepare_on_cluster(source: TableSource, settings: Settings, client: Any) -> Job:
    """The job of :func:`prepare_job`, its rows on the workers of a client.

    Features must be numbers without gaps: what is not is refused with its partition and column. Target,
    weights and groups come here, and may be anything that a table in memory has.
    """
    if not isinstance(source, ParquetSource | PartitionedSource):
        raise ValueError(
            f"--scheduler takes Parquet files, which workers read by themselves; {source.path.name} is "
            "none: leave --scheduler out, or write it as .parquet"
        )
    for option, given in {
        "--missing impute": settings.missing != "error",
        "--categorical": bool(settings.categorical),
    }.items():
        if given:
            raise ValueError(f"{option} needs the table in memory; leave out either it or --scheduler")
    if settings.class_weight is not None and settings.criterion is None:
        raise ValueError(
            "--class-weight chooses by balanced accuracy, which needs all held-out rows in one place; "
            "name another criterion, as --criterion error, or leave out --scheduler"
        )
    search, named = search_of(settings), settings.not_features()
    first = next(source.batches(_FIRST_ROWS), None)
    if first is None:
        raise TableError(f"{source.path.name} has no rows")
    left_out = row_number_columns(first, keep=named)
    columns = [name for name in source.names if name not in {*named, *left_out}]
    _refuse_columns(first, columns)
    beside = [name for name in (settings.target, settings.weight, settings.groups) if name is not None]
    files = source.paths if isinstance(source, PartitionedSource) else [source.path]
    rows = open_files([str(path.resolve()) for path in files], beside, columns)
    known = rows_of_frame(gathered(rows.y, client))
    target = learn_target(known, settings.target, settings.task)
    check_target(settings, target)
    weight = None if settings.weight is None else weights_in(known, settings.weight)
    groups = None if settings.groups is None else groups_in(known, settings.groups)
    cv, words = choose_folds(settings, target, groups)
    mean, scale = _moments(opened(rows.X, client)).mean_and_scale()
    varies = scale > 0
    kept = tuple(name for name, there in zip(columns, varies) if there)
    constant = tuple(name for name in columns if name not in kept)
    if not kept:
        raise TableError(f"every column is constant ({listing(constant)}): nothing to learn")
    preparation = Preparation(
        numeric=kept,
        mean=mean[varies],
        scale=scale[varies],
        median=np.full(len(kept), np.nan),  # not known, and no gaps are filled
        constant=constant,
    )
    X = opened(standardised(rows.X[list(kept)], preparation.mean, preparation.scale), client)
    notes = column_notes(first, kept, (), left_out)
    return Job(settings, target, preparation, X, weight, groups, cv, words, search, notes, client=client)


def _refuse_columns(first: TableRows, columns: list[str]) -> None:
    """Raise for columns that are no numbers, as far as the first rows show."""
    if not columns:
        raise TableError("the table has no column left to predict from")
    refuse_unusable(first, columns)
    truths = [name for name in columns if kind_of(first.column(name)) == "boolean"]
    if truths:
        # In memory these are categories, which are not standardised.
        raise TableError(
            f"true and false in {listing(truths)}, and workers take numbers; write 0 and 1, drop "
            "such columns (--drop COL), or leave out --scheduler"
        )


def _moments(table: Any) -> ColumnMoments:
    total = ColumnMoments.of(np.empty((0, table.shape[1])))
    for *_, found in rows_of(table).map(_BlockMoments()):
        total = total.joined(ColumnMoments.unpacked(found))
    return total


class _BlockMoments:
    """The moments of a block of rows, where it is."""

    def placed(self, place: Any) -> _BlockMoments:
        """The same: it has no arrays of its own."""
        return self

    def __call__(self, block: Block) -> Any:
        return ColumnMoments.of(np.asarray(block.X, dtype=np.float64)).packed()
