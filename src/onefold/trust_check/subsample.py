"""Rows for a trust check to look at, and their share of the splits."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.model_selection import LeaveOneOut, check_cv
from sklearn.utils import _safe_indexing

from onefold.linalg import is_foreign, take_rows
from onefold.search.setup import Setup


def draw_rows(setup: Setup, size: int, generator: Any) -> Any:
    """Row numbers in order: as the approximation needs them, else by class, else any."""
    problem, task = setup.problem, setup.task
    rows = setup.run.approximation.subsample(problem.X, size, generator)
    if rows is not None:
        return np.sort(rows)
    if task.classes is None:
        return np.sort(generator.choice(problem.n, size, replace=False))
    folds = setup.cv if isinstance(setup.cv, int) else 5
    picked = []
    for label in task.classes:
        members = np.flatnonzero(task.y == label)
        wanted = max(round(size * members.size / problem.n), folds)
        picked.append(generator.choice(members, min(wanted, members.size), replace=False))
    return np.sort(np.concatenate(picked))


def same_splits(setup: Setup, rows: Any) -> Any:
    """One set of splits of the subsample for both methods, also where a splitter shuffles.

    Splits given as row numbers are those of all rows: what they have of the subsample is taken.
    """
    cv, task = setup.cv, setup.task
    scorings = [setup.scoring, *setup.scoring.others.values()]
    if all(one.splits is None for one in scorings) or isinstance(cv, str | LeaveOneOut):
        return cv
    kept = setup.problem.kept  # the user's numbering counts rows of weight 0
    given = rows if kept is None else kept[rows]
    if cv is not None and not isinstance(cv, numbers.Integral) and not hasattr(cv, "split"):
        place = np.full(setup.rows, -1)
        place[given] = np.arange(given.size)
        parts = [[place[_row_numbers(part)] for part in split] for split in cv]
        found = [tuple(part[part >= 0] for part in split) for split in parts]
        found = [split for split in found if all(part.size for part in split)]
        if not found:
            raise ValueError(
                "the subsample of the trust check leaves nothing of the given splits; use a larger "
                "size, or give cv as a number of folds or a splitter."
            )
        return found
    splitter = check_cv(cv, task.y[rows], classifier=task.classes is not None)
    groups = None if setup.groups is None else np.asarray(setup.groups)[given]
    take = take_rows if is_foreign(setup.table) else _safe_indexing
    return list(splitter.split(take(setup.table, given), task.y[rows], groups))


def _row_numbers(part: Any) -> Any:
    part = np.asarray(part)
    return np.flatnonzero(part) if part.dtype == bool else part
