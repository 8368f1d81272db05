"""Jobs on tables larger than memory, prepared into a file that the search maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from onefold.jobs.held_back import held_back_mask
from onefold.jobs.job import Job, assembled
from onefold.jobs.searches import search_of
from onefold.jobs.settings import Settings
from onefold.machine.memory import available_memory
from onefold.tables import Preparation, TableSource
from onefold.tables.matrix import BLOCK, learn_from_disk, masked, written

_SHARE = 0.5  # of the free memory that a table and its matrix may take


def larger_than_memory(source: TableSource) -> bool:
    """Whether reading the whole table would leave too little memory for the search."""
    free = available_memory()
    return free is not None and source.bytes_in_memory() > _SHARE * free


def prepare_on_disk(source: TableSource, settings: Settings, path: Path, block: int = BLOCK) -> Job:
    """The job of :func:`prepare_job`, its matrix a float32 file at `path` that is mapped.

    Two passes over the table, for text one more that finds its types, with `holdout` one more that
    splits the rows; memory for a block of rows and for target, weights and groups.
    """
    search = search_of(settings, on_disk=True)
    beside = [name for name in (settings.target, settings.weight, settings.groups) if name is not None]
    kept: Any = None
    if settings.holdout is not None:
        _, known, _ = learn_from_disk(source, beside, source.names, block=block)
        held = held_back_mask(known, settings)
        kept = None if held is None else ~held
    learner, known, first = learn_from_disk(
        source, beside, settings.not_features(), settings.missing, settings.categorical, block, kept
    )

    def matrix(preparation: Preparation) -> np.memmap:
        blocks = source.typed_batches(block, preparation.columns)
        return written(preparation, blocks if kept is None else masked(blocks, kept), len(known), path)

    def back() -> Any:
        return masked(source.typed_batches(block), ~kept)

    return assembled(
        settings, search, known, learner, learner.finish, matrix, names=source.names, first=first,
        remarks=source.remarks, held_back=None if kept is None else back,
    )  # fmt: skip
