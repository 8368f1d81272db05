"""Jobs on tables larger than memory: numbers only, standardised into a file that the search maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from onefold.jobs.folds import choose_folds
from onefold.jobs.job import Job, check_target
from onefold.jobs.searches import search_of
from onefold.jobs.settings import Settings
from onefold.machine.memory import available_memory
from onefold.tables import Preparation, TableSource, rows_on_disk
from onefold.tables.suspects import column_notes, row_number_columns
from onefold.tables.target import target_of_numbers

_SHARE = 0.5  # of the free memory that a table and its matrix may take
_FIRST_ROWS = 1000  # that show which columns number the rows


def larger_than_memory(source: TableSource) -> bool:
    """Whether reading the whole table would leave too little memory for the search."""
    free = available_memory()
    return free is not None and not source.sparse and source.bytes_in_memory() > _SHARE * free


def prepare_on_disk(source: TableSource, settings: Settings, path: Path) -> Job:
    """The job of :func:`prepare_job`, its matrix a float32 file at `path` that is mapped.

    Two passes over the table; memory for a block of rows and the target. Features and target must be
    numbers, and no value may be missing: what is not is refused with its row.
    """
    for option, given in {
        "--missing impute": settings.missing != "error",
        "--weight": settings.weight is not None,
        "--groups": settings.groups is not None,
        "--categorical": bool(settings.categorical),
    }.items():
        if given:
            raise ValueError(
                f"{option} needs the whole table in memory, and {source.path.name} is too large for "
                "half of what is free; leave it out, or tune on fewer rows"
            )
    search = search_of(settings, on_disk=True)
    named = settings.not_features()
    first = next(source.batches(_FIRST_ROWS), None)
    left_out = [] if first is None else row_number_columns(first, keep=named)
    not_features = {*named, *left_out} - {settings.target}
    found = rows_on_disk(source, settings.target, path, drop=not_features)
    target = target_of_numbers(found.y, settings.target, settings.task, found.spelled, found.target_type)
    check_target(settings, target)
    cv, words = choose_folds(settings, target, None)
    preparation = Preparation(
        numeric=found.columns,
        mean=found.mean,
        scale=found.scale,
        median=np.full(len(found.columns), np.nan),  # not known, and no gaps are filled
        constant=found.constant,
    )
    notes = () if first is None else column_notes(first, found.columns, (), left_out)
    return Job(
        settings, target, preparation, found.X, None, None, cv, words, search, notes, source.reading
    )
