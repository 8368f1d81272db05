"""Jobs on the workers of a Dask cluster: Parquet files that stay where they are, standardised there."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.jobs.folds import choose_folds
from onefold.jobs.job import Job, check_target
from onefold.jobs.searches import search_of
from onefold.jobs.settings import Settings
from onefold.rows import Block, gathered, opened, rows_of, standardised
from onefold.rows.parquet import open_files
from onefold.tables import (
    Numbers,
    Preparation,
    TableError,
    TableRows,
    TableSource,
    learn_target,
    rows_of_frame,
)
from onefold.tables.beside import groups_in, weights_in
from onefold.tables.columns import inexact_as_number, kind_of
from onefold.tables.errors import listing, setting
from onefold.tables.moments import ColumnMoments
from onefold.tables.parquet import ParquetSource
from onefold.tables.partitioned import PartitionedSource
from onefold.tables.refusals import too_large
from onefold.tables.suspects import column_notes, empty_or_distinct, unnamed

_FIRST_ROWS = 1000  # that show which columns number the rows


def prepare_on_cluster(source: TableSource, settings: Settings, client: Any) -> Job:
    """The job of :func:`prepare_job`, its rows on the workers of a client.

    Features must be numbers without gaps: what is not is refused with its partition and column. Target,
    weights and groups come here, and may be anything that a table in memory has.
    """
    if not isinstance(source, ParquetSource | PartitionedSource):
        raise ValueError(
            f"workers of a scheduler read Parquet files by themselves, and {source.path.name} is none: "
            "leave the scheduler out, or write it as .parquet"
        )
    for option, given in {
        setting("holdout", settings.holdout): settings.holdout is not None,
        setting("categorical", list(settings.categorical)): bool(settings.categorical),
    }.items():
        if given:
            raise ValueError(f"{option} needs the table here; leave out either it or the scheduler")
    if settings.class_weight is not None and settings.criterion is None:
        raise ValueError(
            "class_weight='balanced' chooses by balanced accuracy, which needs all held-out rows in one "
            "place; name another criterion, as criterion='error', or leave out the scheduler"
        )
    search, named = search_of(settings), settings.not_features()
    first = next(source.batches(_FIRST_ROWS), None)
    if first is None:
        raise TableError(f"{source.path.name} has no rows")
    left_out = [
        name
        for name in first.names
        if unnamed(name) and name not in named and empty_or_distinct(first, name)
    ]
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
    mean, scale = mean[varies], scale[varies]
    # Medians are not known, and no gaps are filled.
    parts = (Numbers(name, False, float(m), float(s), np.nan) for name, m, s in zip(kept, mean, scale))
    preparation = Preparation(
        parts=tuple(parts), missing="error", constant=constant, row_numbers=tuple(left_out)
    )
    X = opened(standardised(rows.X[list(kept)], mean, scale), client)
    notes = column_notes(first, kept, (), left_out)
    return Job(
        settings, target, preparation, X, weight, groups, cv, words, search, notes,
        columns=tuple(name for name in source.names if name not in beside), client=client,
    )  # fmt: skip


def _refuse_columns(first: TableRows, columns: list[str]) -> None:
    """Raise for columns that are no numbers, as far as the first rows show."""
    if not columns:
        raise TableError("the table has no column left to predict from")
    others = [name for name in columns if kind_of(first.column(name)) not in ("numeric", "empty")]
    if others:
        kinds = ", ".join(sorted({str(first.column(name).type) for name in others}))
        raise TableError(
            f"values of type {kinds} in {listing(others)}, and workers take numbers; write numbers, "
            f"drop such columns ({setting('drop', ['COL'])}), or leave out the scheduler"
        )
    for name in columns:
        position = inexact_as_number(first.column(name))
        if position is not None:
            raise TableError(too_large(name, first.column(name)[position].as_py(), position + 1))
    nameless = [name for name in columns if unnamed(name)]
    if nameless:
        place = first.names.index(nameless[0]) + 1
        raise TableError(
            f"column {place} has no name in the header; name it, or leave it out with "
            f"{setting('drop', nameless[:1])}"
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
