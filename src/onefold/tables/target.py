"""The target column: which task it calls for, and its values in the form an estimator wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from onefold.tables.columns import as_numbers, as_text, kind_of
from onefold.tables.errors import TableError
from onefold.tables.learn import refuse_mangled_numbers
from onefold.tables.prepare import refuse_missing
from onefold.tables.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Target", "Task", "learn_target", "read_target", "target_of_numbers"]

Task = Literal["classification", "regression"]

_MOST_CLASSES = 20
_ROWS_PER_CLASS = 10


@dataclass(frozen=True)
class Target:
    """A target column that can be learned from.

    Parameters
    ----------
    name : str
    task : {"classification", "regression"}
    reason : str
        Why this task, in words for the person who did not ask for it.
    values : ndarray
        float64 for regression; text, integers or booleans for classification.
    """

    name: str
    task: Task
    reason: str
    values: np.ndarray


def learn_target(rows: Rows, name: str, task: Task | None = None) -> Target:
    """Check a target column and find out its task, unless `task` says it.

    Text and booleans call for classification, numbers with fractions for regression. Whole
    numbers are classes if there are at most twenty of them with ten rows each on average.
    """
    column = rows.column(name, role="target column")
    if len(rows) == 0:
        raise TableError("the table has no rows")
    _refuse_gaps(column, name)
    kind = kind_of(column)
    if kind in {"date", "other"}:
        raise TableError(
            f"the target '{name}' has type {column.type}; it should hold numbers, text or booleans"
        )
    if kind == "numeric":
        values = as_numbers(column, name)
        if np.isinf(values).any():
            raise TableError(f"infinite values in the target '{name}'; remove or replace them")
        return target_of_numbers(values, name, task)
    inferred, reason = "classification", f"'{name}' holds {kind}"
    if task is not None:
        inferred, reason = task, "as asked for"
    if inferred == "regression":
        values = as_numbers(column, name)
        if values.min() == values.max():
            raise TableError(f"the target '{name}' is the same in every row: nothing to learn")
        return Target(name, "regression", reason, values)
    return Target(name, "classification", reason, _classes(column, name))


def target_of_numbers(values: np.ndarray, name: str, task: Task | None = None) -> Target:
    """The same for a target that is known to be finite numbers."""
    inferred, reason = _task_of_numbers(values, name)
    if task is not None:
        inferred, reason = task, "as asked for"
    if inferred == "regression":
        if values.min() == values.max():
            raise TableError(f"the target '{name}' is the same in every row: nothing to learn")
        return Target(name, "regression", reason, values)
    return Target(name, "classification", reason, _checked_classes(_class_numbers(values, name), name))


def read_target(rows: Rows, name: str, task: Task, like: np.ndarray | None) -> np.ndarray:
    """The target of further rows, in the form of the classes `like` (None for regression)."""
    column = rows.column(name, role="target column")
    _refuse_gaps(column, name)
    if task == "regression" or like is None:
        return as_numbers(column, name, rows.start)
    if like.dtype.kind == "b":
        return np.asarray(as_text(column, name, boolean=True).to_pylist()) == "true"
    if like.dtype.kind in "iuf":
        return as_numbers(column, name, rows.start).astype(like.dtype)
    return np.asarray(as_text(column, name).to_pylist(), dtype=np.str_)


def _refuse_gaps(column: pa.ChunkedArray, name: str) -> None:
    kind = kind_of(column)
    if kind == "numeric" or kind == "empty":
        absent = int(np.isnan(as_numbers(column, name)).sum())
    elif kind == "text":
        absent = int(as_text(column, name).null_count)
    else:
        absent = int(column.null_count)
    gaps = {name: absent} if absent else {}
    refuse_missing(gaps, len(column), "the target must be known: remove those rows")


def _task_of_numbers(values: np.ndarray, name: str) -> tuple[Task, str]:
    if not _whole(values):
        return "regression", f"'{name}' holds numbers with fractions"
    distinct = len(np.unique(values))
    if distinct <= _MOST_CLASSES and len(values) >= _ROWS_PER_CLASS * distinct:
        return "classification", f"'{name}' holds {distinct} different whole numbers"
    why = f"more than {_MOST_CLASSES}" if distinct > _MOST_CLASSES else f"for {len(values)} rows"
    return "regression", f"'{name}' holds {distinct} different whole numbers, {why}"


def _classes(column: pa.ChunkedArray, name: str) -> np.ndarray:
    kind = kind_of(column)
    values: np.ndarray
    if kind == "boolean":
        values = np.asarray(column.to_pylist(), dtype=np.bool_)
    else:
        text = as_text(column, name)
        values = np.asarray(text.to_pylist(), dtype=np.str_)
        refuse_mangled_numbers(text, cast("list[str]", sorted(set(text.to_pylist()))), name)
    return _checked_classes(values, name)


def _class_numbers(values: np.ndarray, name: str) -> np.ndarray:
    if not _whole(values):
        raise TableError(
            f"the target '{name}' holds numbers with fractions, which can't be classes; "
            "use --task regression"
        )
    return values.astype(np.int64)


def _checked_classes(values: np.ndarray, name: str) -> np.ndarray:
    n_classes = len(np.unique(values))
    if n_classes == 1:
        raise TableError(
            f"the target '{name}' has only one class ('{values[0]}'): nothing to tell apart"
        )
    if n_classes > _MOST_CLASSES and 2 * n_classes > len(values):
        raise TableError(
            f"the target '{name}' has {n_classes} classes in {len(values)} rows, like an "
            "identifier; name another target column"
        )
    return values


def _whole(values: np.ndarray) -> bool:
    return bool((values == np.round(values)).all() and np.abs(values).max() < 2.0**53)
