"""The target column: which task it calls for, and its values in the form an estimator wants."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold.tables.columns import as_numbers, as_text, decoded, kind_of
from onefold.tables.errors import Remedy, TableError
from onefold.tables.labels import as_written, known_labels
from onefold.tables.number_formats import is_number
from onefold.tables.prepare import refuse_missing
from onefold.tables.refusals import refuse_mangled_numbers
from onefold.tables.rows import TableRows

TargetKind = Literal["classification", "regression"]

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
        float64 for regression; text, numbers or booleans for classification.
    """

    name: str
    task: TargetKind
    reason: str
    values: np.ndarray


def learn_target(rows: TableRows, name: str, task: TargetKind | None = None) -> Target:
    """Check a target column and find out its task, unless `task` says it.

    Text and booleans call for classification, numbers with fractions for regression. Whole
    numbers are classes if there are at most twenty of them with ten rows each on average.
    Labels keep the spelling they have in a table of text, and their type in other tables.
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
        values = rows.numbers(name)
        if np.isinf(values).any():
            raise TableError(f"infinite values in the target '{name}'; remove or replace them")
        distinct = int(pc.count_distinct(column).as_py())
        exact = not pa.types.is_floating(column.type)
        inferred, reason = _task_of_numbers(values, distinct, name, exact)
    else:
        inferred, reason = "classification", f"'{name}' holds {kind}"
    if task is not None:
        inferred, reason = task, "as asked for"
    if task == "regression" and kind == "text":
        _refuse_words(rows, name)
    if inferred == "regression":
        return _regression(name, reason, rows.numbers(name))
    if kind == "numeric":
        _refuse_fractions(rows.numbers(name), name)
    return Target(name, "classification", reason, _checked_classes(_classes(rows, name), name))


def read_target(rows: TableRows, name: str, task: TargetKind, like: np.ndarray | None) -> np.ndarray:
    """The target of further rows, in the form of the classes `like` (None for regression)."""
    column = rows.column(name, role="target column")
    _refuse_gaps(column, name)
    if task == "regression" or like is None:
        return rows.numbers(name)
    spelled = as_text(rows.text(name), name) if kind_of(column) in {"text", "boolean"} else column
    labels = known_labels([str(label) for label in spelled.to_pylist()], like)
    if labels.dtype.kind != like.dtype.kind or not np.isin(labels, like).all():
        warnings.warn(
            f"labels in '{name}' that the model does not know count as wrong", UserWarning, stacklevel=2
        )
    return labels


def _refuse_words(rows: TableRows, name: str) -> None:
    """Refuse text that is no numbers as a target of regression."""
    text = as_text(rows.column(name), name).to_pylist()
    odd = next((row for row, value in enumerate(text) if not is_number(value)), None)
    if odd is not None:
        raise TableError(
            f"the target '{name}' should hold numbers but has '{text[odd]}' in data row {odd + 1}",
            ["correct it", Remedy("task", "classification")],
        )


def _regression(name: str, reason: str, values: np.ndarray) -> Target:
    if values.min() == values.max():
        raise TableError(f"the target '{name}' is the same in every row: nothing to learn")
    return Target(name, "regression", reason, values)


def _refuse_gaps(column: pa.ChunkedArray, name: str) -> None:
    kind = kind_of(column)
    if kind == "numeric" or kind == "empty":
        absent = int(np.isnan(as_numbers(column, name)).sum())
    elif kind == "text":
        absent = int(as_text(column, name).null_count)
    else:
        absent = int(column.null_count)
    gaps = {name: absent} if absent else {}
    refuse_missing(gaps, len(column), ["remove those rows: the target must be known"])


def _task_of_numbers(
    values: np.ndarray, distinct: int, name: str, exact: bool = False
) -> tuple[TargetKind, str]:
    if (values != np.round(values)).any():
        return "regression", f"'{name}' holds numbers with fractions"
    if not exact and np.abs(values).max() >= 2.0**53:
        return "regression", f"'{name}' holds numbers too large to be labels"
    if distinct <= _MOST_CLASSES and len(values) >= _ROWS_PER_CLASS * distinct:
        return "classification", f"'{name}' holds {distinct} different whole numbers"
    why = f"more than {_MOST_CLASSES}" if distinct > _MOST_CLASSES else f"for {len(values)} rows"
    return "regression", f"'{name}' holds {distinct} different whole numbers, {why}"


def _classes(rows: TableRows, name: str) -> np.ndarray:
    column = decoded(rows.column(name))  # categories keep the type of their values
    kind = kind_of(column)
    if rows.written is not None:
        if kind == "text":
            _refuse_mangled(column, name)
        numbers = column.to_pylist() if kind == "numeric" else None
        return as_written(rows.text(name).to_pylist(), name, numbers)
    if kind == "boolean":
        return np.asarray(column.to_pylist(), dtype=np.bool_)
    if kind == "numeric":
        values: np.ndarray = column.to_numpy()
        return values if values.dtype.kind in "iuf" else rows.numbers(name).astype(np.int64)
    _refuse_mangled(column, name)
    return np.asarray(as_text(column, name).to_pylist(), dtype=np.str_)


def _refuse_mangled(column: pa.ChunkedArray, name: str) -> None:
    first: dict[str, int] = {}
    for row, value in enumerate(as_text(column, name).to_pylist(), start=1):
        first.setdefault(value, row)
    refuse_mangled_numbers(first, name)


def _refuse_fractions(values: np.ndarray, name: str) -> None:
    if (values != np.round(values)).any():
        raise TableError(
            f"the target '{name}' holds numbers with fractions, which can't be classes",
            [Remedy("task", "regression")],
        )


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
