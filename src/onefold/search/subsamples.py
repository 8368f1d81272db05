"""Which rows teach a metric, which judge it while it is learned, and which have no part in either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onefold.approximations import Exact, Problem, Run, Workload
from onefold.criteria import Scoring, SquaredError, Task
from onefold.heldout import Splits
from onefold.linalg import take_rows

_ASIDE_ROWS = 500  # are set aside where there are as many,
_ASIDE_SHARE = 0.5  # but no more than this share of all
_JUDGES = 1000  # rows that judge the rounds, at most


@dataclass(frozen=True)
class Division:
    """The rows of a table, divided for a metric that is learned from some of them.

    Attributes
    ----------
    aside : list of int
        Numbers of the splits that are set aside: no row that they leave out is among the others.
    teachers, judges : int arrays
        Rows that metrics are learned from, and rows that choose among them.
    """

    aside: list[int]
    teachers: Any
    judges: Any


def divide(splits: Splits, task: Task, size: int, seed: int, *, set_aside: bool) -> Division:
    """Set the last splits aside, if asked to; the last of the others divides what is left."""
    generator = np.random.default_rng([seed, 0])
    aside = _last_splits(splits) if set_aside else []
    free = np.ones(splits.n, dtype=bool)
    for number in aside:
        free[splits.left_out[number]] = False
    for number in reversed(range(len(splits.left_out))):
        tests, left = splits.tests[number], splits.left_out[number]
        judges = np.unique(tests[free[tests]])
        pool = free.copy()
        pool[left] = False
        if number not in aside and judges.size and pool.any():
            break
    else:  # no split but those set aside: any fifth of the other rows
        order = generator.permutation(np.flatnonzero(free))
        judges, pool = order[: max(1, order.size // 5)], free.copy()
        pool[judges] = False
    if not pool.any():
        raise ValueError(
            "the splits leave no rows to learn a metric from beside those it is judged by; use "
            "metric=None, or splits with larger training parts."
        )
    judges = drawn(judges, task, _JUDGES, generator)
    return Division(aside, drawn(np.flatnonzero(pool), task, size, generator), judges)


def _last_splits(splits: Splits) -> list[int]:
    """Numbers of the last splits, as few as leave out 500 rows, or half of the rows; one at least."""
    left = np.zeros(splits.n, dtype=bool)
    chosen: list[int] = []
    for number in reversed(range(len(splits.left_out))):
        left[splits.left_out[number]] = True
        if chosen and left.mean() > _ASIDE_SHARE:
            break
        chosen.append(number)
        if left.sum() >= _ASIDE_ROWS:
            break
    return sorted(chosen)


def drawn(rows: Any, task: Task, size: int, generator: np.random.Generator) -> Any:
    """Some of the rows, in order, drawn at random; every class keeps its share."""
    if rows.size <= size:
        return np.sort(rows)
    labels = np.zeros(rows.size) if task.classes is None else task.y[rows]
    picked = []
    for label in np.unique(labels):
        members = rows[labels == label]
        wanted = int(np.ceil(size * members.size / rows.size))
        picked.append(generator.choice(members, min(wanted, members.size), replace=False))
    return np.sort(np.concatenate(picked))


def judged(problem: Problem, task: Task, teachers: Any, judges: Any) -> Scoring:
    """The teachers' models scored by the squared error of the judges, which come last."""
    order = np.concatenate([teachers, judges])
    part = np.arange(teachers.size, order.size)
    return of_rows(problem, task, order, Splits(order.size, [part], [part]))


def of_rows(problem: Problem, task: Task, rows: Any, splits: Splits) -> Scoring:
    """The squared error on some of the rows."""
    return SquaredError().start(problem.rows(rows).alone(), rows_of(task, rows), splits)


def rows_of(task: Task, rows: Any) -> Task:
    """The task of some of the rows."""
    X = take_rows(task.X, rows)
    return replace(task, X=X, y=task.y[rows], sample_weight=task.weight_of(rows))


def exact_run(scoring: Scoring) -> Run:
    """The exact machine on the rows of a scoring, for cells that are refitted or in closed form."""
    parts: Sequence[Any] = scoring.parts if scoring.parts is not None else []
    return Exact().start(scoring.problem, [], Workload(1, 1, folds=len(parts), parts=parts))
