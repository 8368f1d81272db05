"""Rows and settings to a job: everything that can be wrong with them is said before the long work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onefold.estimators.validation import check_squares
from onefold.jobs.criterion import check_criterion, default_criterion
from onefold.jobs.folds import choose_folds
from onefold.jobs.held_back import Blocks, split_rows
from onefold.jobs.searches import Search, search_of
from onefold.jobs.settings import Settings
from onefold.tables import (
    Learner,
    Preparation,
    Reading,
    TableError,
    TableRows,
    Target,
    learn_target,
)
from onefold.tables.beside import groups_in, weights_in
from onefold.tables.suspects import column_notes


@dataclass(frozen=True)
class Job:
    """Checked input, ready for the long work."""

    settings: Settings
    target: Target
    preparation: Preparation
    X: Any
    weight: np.ndarray | None
    groups: np.ndarray | None
    cv: Any
    cv_words: str
    search: Search
    notes: tuple[str, ...] = ()
    reading: Reading = field(default_factory=Reading)
    columns: tuple[str, ...] = ()
    held_back: Blocks | None = None

    @property
    def criterion(self) -> str:
        """The criterion asked for, or the one that goes with the task."""
        balanced = self.settings.class_weight is not None
        return self.settings.criterion or default_criterion(self.target.task, balanced)

    def folds(self) -> list[np.ndarray]:
        """The rows that are held out and scored together."""
        rows = len(self.target.values)
        if self.cv == "loo":
            return [np.arange(rows)]
        splits = self.cv.split(np.zeros((rows, 1)), self.target.values, self.groups)
        return [np.asarray(test) for _, test in splits]


def prepare_job(rows: TableRows, settings: Settings, remarks: tuple[str, ...] = ()) -> Job:
    """Check everything that can be wrong with the rows, and prepare them.

    `remarks` are what was assumed about the file that they come from.
    """
    search = search_of(settings)
    rows, held_back = split_rows(rows, settings)
    learner = Learner(settings.not_features(), settings.missing, settings.categorical)

    def learned() -> Preparation:
        learner.add(rows)
        return learner.finish()

    return assembled(
        settings, search, rows, learner, learned, lambda found: found.transform(rows),
        names=rows.names, remarks=remarks, held_back=held_back,
    )  # fmt: skip


def assembled(
    settings: Settings,
    search: Search,
    beside: TableRows,
    learner: Learner,
    learned: Callable[[], Preparation],
    matrix: Callable[[Preparation], Any],
    *,
    names: tuple[str, ...],
    first: TableRows | None = None,
    remarks: tuple[str, ...] = (),
    held_back: Blocks | None = None,
) -> Job:
    """The job, once it is known where its rows come from.

    Parameters
    ----------
    settings, search
    beside : TableRows
        Target, weights and groups of all rows.
    learner : Learner
    learned : callable
        The preparation, which is learned last.
    matrix : callable
        From the preparation to the matrix.
    names : tuple of str
        Of the columns of the table.
    first : TableRows, optional
        Rows that show what the columns look like; `beside` itself if it is the whole table.
    remarks : tuple of str
        What was assumed about the file.
    held_back : Blocks, optional
        The rows that are scored at the end.
    """
    target = learn_target(beside, settings.target, settings.task)
    check_target(settings, target)
    weight = None if settings.weight is None else weights_in(beside, settings.weight)
    groups = None if settings.groups is None else groups_in(beside, settings.groups)
    cv, words = choose_folds(settings, target, groups)
    preparation = learned()
    others = [settings.weight or "", target.name if target.task == "regression" else ""]
    rows = first or beside
    told = column_notes(rows, preparation.columns, others, preparation.row_numbers)
    X = matrix(preparation)
    not_columns = set(settings.named_columns().values())
    return Job(
        settings, target, preparation, X, weight, groups, cv, words, search,
        (*remarks, *learner.notes(), *told), beside.reading,
        tuple(name for name in names if name not in not_columns and name not in rows.auxiliary),
        held_back,
    )  # fmt: skip


def check_target(settings: Settings, target: Target) -> None:
    """Refuse options that do not go with the target, and targets that cannot be squared."""
    if target.task == "regression":
        if settings.class_weight is not None:
            raise ValueError(
                f"class_weight='balanced' is for classification, and '{target.name}' holds numbers; "
                "leave it out, or use task='classification'"
            )
        halves = target.values / 2
        spread = float((halves - halves.min()).max())
        try:
            check_squares(np.array([spread]))
        except ValueError as error:
            raise TableError(
                f"the values of '{target.name}' differ by {2 * spread:.2g} at most, whose square is "
                "beyond floating point; multiply the column by a constant, to values near 1"
            ) from error
    if settings.criterion is not None:
        check_criterion(settings.criterion, target, settings.approximation)
