"""Rows and settings to a job: everything that can be wrong with them is said before the long work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onefold.estimators.validation import check_squares
from onefold.jobs.criterion import check_criterion, default_criterion
from onefold.jobs.folds import choose_folds
from onefold.jobs.searches import Search, search_of
from onefold.jobs.settings import Settings
from onefold.tables import (
    Preparation,
    Reading,
    TableError,
    TableRows,
    Target,
    learn_preparation,
    learn_target,
)
from onefold.tables.columns import as_numbers, as_text, kind_of
from onefold.tables.suspects import column_notes, row_number_columns


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
    client: Any = None

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


def prepare_job(rows: TableRows, settings: Settings) -> Job:
    """Check everything that can be wrong with the rows, and prepare them."""
    search = search_of(settings, sparse=rows.sparse is not None)
    target = learn_target(rows, settings.target, settings.task)
    check_target(settings, target)
    named = settings.not_features()
    left_out = row_number_columns(rows, keep={*named, *settings.categorical})
    weight = None if settings.weight is None else weights_in(rows, settings.weight)
    groups = None if settings.groups is None else groups_in(rows, settings.groups)
    cv, words = choose_folds(settings, target, groups)
    preparation = learn_preparation(rows, {*named, *left_out}, settings.missing, settings.categorical)
    others = [settings.weight or "", target.name if target.task == "regression" else ""]
    notes = column_notes(rows, preparation.columns, others, left_out)
    X = preparation.transform(rows)
    return Job(settings, target, preparation, X, weight, groups, cv, words, search, notes, rows.reading)


def check_target(settings: Settings, target: Target) -> None:
    """Refuse options that do not go with the target, and targets that cannot be squared."""
    if target.task == "regression":
        if settings.class_weight is not None:
            raise ValueError(
                f"--class-weight is for classification, and '{target.name}' holds numbers; leave it "
                "out, or use --task classification"
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


def weights_in(rows: TableRows, name: str) -> np.ndarray:
    """The column of weights; raise unless all are positive."""
    values = as_numbers(rows.column(name, role="weight column"), name)
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if len(bad):
        raise TableError(
            f"the weight column '{name}' has {values[bad[0]]:g} in data row {bad[0] + 1}; "
            "weights are positive numbers"
        )
    return values


def groups_in(rows: TableRows, name: str) -> np.ndarray:
    """The column of groups, as numbers of them."""
    column = rows.column(name, role="groups column")
    if kind_of(column) == "numeric":
        absent = int(np.isnan(as_numbers(column, name)).sum())
        values = column.to_numpy()  # exactly: numbers beyond 2**53 are groups of their own
    else:
        text = as_text(column, name)
        absent = int(text.null_count)
        values = np.asarray(text.to_pylist())
    if absent:
        raise TableError(
            f"missing values in '{name}' ({absent} of {len(rows)} rows); every row needs a group"
        )
    codes: np.ndarray = np.unique(values, return_inverse=True)[1]
    return codes
