"""The target: which task it calls for, and its values in the form an estimator wants.

Labels stay as they were written: 007 stays 007, 1.0 stays 1.0, True stays True.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold.linalg import is_foreign, to_numpy
from onefold.machine.warning import warn_user
from onefold.tables.columns import (
    as_numbers,
    as_text,
    decoded,
    kind_of,
    meaning_of,
    names_rows,
    refuse_mangled_numbers,
)
from onefold.tables.errors import Remedy, TableError
from onefold.tables.kinds import missing_values_error
from onefold.tables.rows import LARGE, TableRows

TargetKind = Literal["classification", "regression"]

_MOST_CLASSES = 20
_ROWS_PER_CLASS = 10
_EXACT = 2.0**53  # float64 holds all whole numbers below
_CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,17}")
_MISSING_REMEDIES: list[Remedy | str] = [
    "remove those rows",
    Remedy("drop_missing_target", True),
]


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

    def where(self, mask: np.ndarray) -> Target:
        """The target of some of the rows; raise if nothing can be learned from them."""
        values = self.values[mask]
        if self.task == "classification":
            return replace(self, values=_checked_classes(values, self.name))
        return replace(self, values=_checked_numbers(values, self.name))


def learn_target(rows: TableRows, name: str, task: TargetKind | None = None) -> Target:
    """Check a target column and find out its task, unless `task` says it.

    Text and booleans call for classification, numbers with fractions for regression. Whole
    numbers are classes if there are at most twenty of them with ten rows each on average.
    Labels keep the spelling they have in a table of text, and their type in other tables.
    """
    column = rows.column(name, role="target column")
    refuse_few_rows(rows)
    refuse_missing_targets(rows, name)
    kind = kind_of(column)
    if kind in {"date", "other"}:
        raise TableError(
            f"the target '{name}' must hold numbers, text or booleans; got type {column.type}"
        )
    if kind == "numeric":
        values = rows.numbers(name)
        if np.isinf(values).any():
            raise TableError(f"infinite values in the target '{name}'; remove or replace them")
        distinct = int(pc.count_distinct(column).as_py())
        exact = not pa.types.is_floating(column.type)
        inferred, reason = _task_of_numbers(values, distinct, name, exact)
    else:
        inferred = "classification"
        reason = f"'{name}' holds {'booleans' if kind == 'boolean' else kind}"
    if task is not None:
        inferred = task
        reason = "as requested"
    if inferred == "classification":
        if kind == "numeric" and (values != np.round(values)).any():
            raise TableError(
                f"the target '{name}' holds numbers with fractions, which cannot be classes",
                [Remedy("task", "regression")],
            )
        return Target(name, inferred, reason, _checked_classes(_classes(rows, name), name))
    try:
        values = rows.numbers(name, "target")
    except TableError as error:
        raise TableError(error.cause, ["correct it", Remedy("task", "classification")]) from error
    if kind == "numeric" and exact and np.abs(values).max() >= _EXACT:
        _refuse_lost_digits(distinct, values, f"the target '{name}'")
    return Target(name, inferred, reason, _checked_numbers(values, name))


def read_target(rows: TableRows, name: str, task: TargetKind, classes: np.ndarray | None) -> np.ndarray:
    """The target of further rows; labels in the form of the `classes` (None for regression)."""
    refuse_missing_targets(rows, name)
    if task == "regression" or classes is None:
        numbers = rows.numbers(name)
        if np.isinf(numbers).any():
            raise TableError(f"infinite values in the target '{name}'; remove or replace them")
        return numbers
    column = rows.text(name)  # as it was written: 007 is not 7
    spelled = as_text(column, name) if kind_of(column) in {"text", "boolean"} else column
    labels = known_labels([str(label) for label in spelled.to_pylist()], classes)
    if labels.dtype == object or not np.isin(labels, classes).all():
        warn_user(f"labels in '{name}' that were not seen in training count as errors")
    return labels


def missing_targets(y: Any, rows: TableRows) -> np.ndarray:
    """Which rows have no target: of a column by its name, or of an array."""
    if not isinstance(y, str):
        return missing_in(y)
    column = rows.column(y, role="target column")
    kind = kind_of(column)
    if kind in ("numeric", "empty"):
        return np.isnan(as_numbers(column, y))
    return np.asarray(pc.is_null(as_text(column, y) if kind == "text" else column))


def missing_in(y: Any) -> np.ndarray:
    """Which rows of an array of any library have no target."""
    return _missing_in(plain_array(y))


def as_target(y: Any, task: TargetKind | None = None) -> Any:
    """A target as a NumPy array; raise where a value is missing or can't be one."""
    values = plain_array(y)
    missing = int(_missing_in(values).sum())
    if missing:
        raise TableError(
            f"missing values in y ({missing} of {len(values)} rows): Input y contains NaN",
            _MISSING_REMEDIES,
        )
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise TableError("y has infinite values: Input y contains infinity; remove or replace them")
    if values.dtype.kind == "M":
        raise TableError(
            "y holds dates, but a target must hold numbers, text or booleans; convert them to numbers, "
            "such as days since the first"
        )
    if values.dtype.kind == "m":  # in seconds, as columns of durations are
        return values / np.timedelta64(1, "s")
    if values.dtype.kind == "O" and values.ndim == 1 and len(values):
        kinds = {type(value) for value in values}
        if str in kinds and len(kinds) > 1:
            mixed = " and ".join(sorted(kind.__name__ for kind in kinds))
            raise TableError(f"y mixes values of the types {mixed}; convert them to one type")
        values = np.array(values.tolist())  # of one type, where they have one
        if kinds == {int} and values.dtype.kind != "i":
            raise TableError(f"y {LARGE}")
    if task == "regression" and values.dtype.kind in "OUS":  # decimal numbers, or numbers as text
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TableError(
                f"y should hold numbers ({error})", ["convert it", Remedy("task", "classification")]
            ) from error
    if task == "regression" and values.dtype.kind in "iu" and values.size:
        numbers = values.astype(np.float64)
        if np.abs(numbers).max() >= _EXACT:
            _refuse_lost_digits(len(np.unique(values)), numbers, "y")
    return values


def as_groups(groups: Any, n: int, name: str = "groups") -> np.ndarray:
    """The groups of n rows, an array or a column, as numbers of them; raise where one is missing."""
    if isinstance(groups, pa.ChunkedArray) and kind_of(groups) != "numeric":
        groups = as_text(groups, name)
    values = plain_array(groups)
    missing = int(_missing_in(values).sum())
    if missing:
        raise TableError(f"missing values in {name} ({missing} of {n} rows); every row needs a group")
    if values.shape != (n,):
        raise TableError(
            f"{name} has shape {values.shape}, but the table has {n} rows; give one per row"
        )
    values = values.astype(str) if values.dtype.kind == "O" else values
    codes: np.ndarray = np.unique(values, return_inverse=True)[1]
    return codes


def plain_array(y: Any) -> np.ndarray:
    """An array of any library, or a column of a frame, in NumPy."""
    if is_foreign(y):
        return np.asarray(to_numpy(y))
    if isinstance(y, pa.Array | pa.ChunkedArray):
        return np.asarray(y.to_pandas())
    return np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)


def _missing_in(values: np.ndarray) -> np.ndarray:
    """Which values are missing; a row of several targets lacks one if any is."""
    if values.dtype.kind in "fmM":
        missing = values != values
    elif values.dtype.kind == "O":
        kinds = ("NoneType", "NAType", "NaTType")
        none = [type(v).__name__ in kinds or (isinstance(v, float) and v != v) for v in values.flat]
        missing = np.array(none, dtype=bool).reshape(values.shape)
    else:
        return np.zeros(len(values), dtype=bool)
    return missing.reshape(len(values), -1).any(axis=1)


def refuse_few_rows(rows: TableRows) -> None:
    """Refuse a table that nothing can be learned from."""
    if len(rows) == 0:
        raise TableError("the table has no rows; add rows")
    if len(rows) == 1:
        raise TableError("the table has 1 row (n_samples=1); add rows")


def refuse_no_target(missing: np.ndarray, y: Any) -> None:
    """Refuse rows of which none has a target."""
    if len(missing) and missing.all():
        name = f"'{y}'" if isinstance(y, str) else "y"
        raise TableError(f"every value of {name} is missing; fill some in, or choose another target")


def refuse_missing_targets(rows: TableRows, name: str) -> None:
    """Refuse rows without a target."""
    missing = int(missing_targets(name, rows).sum())
    if missing:
        raise missing_values_error({name: missing}, len(rows), _MISSING_REMEDIES)


def _refuse_lost_digits(distinct: int, values: np.ndarray, name: str) -> None:
    """Refuse whole numbers so large that different ones are the same in float64."""
    if len(np.unique(values)) < distinct:
        raise TableError(
            f"{name} holds whole numbers up to {np.abs(values).max():.3g}, some of which are equal in "
            "float64",
            ["subtract a constant from them", Remedy("task", "classification", "if they are labels")],
        )


def _task_of_numbers(
    values: np.ndarray, distinct: int, name: str, exact: bool = False
) -> tuple[TargetKind, str]:
    if (values != np.round(values)).any():
        return "regression", f"'{name}' holds numbers with fractions"
    if not exact and np.abs(values).max() >= _EXACT:
        return "regression", f"'{name}' holds numbers too large to be labels"
    if distinct <= _MOST_CLASSES and len(values) >= _ROWS_PER_CLASS * distinct:
        return "classification", f"'{name}' holds {distinct} different whole numbers"
    why = f"more than {_MOST_CLASSES}" if distinct > _MOST_CLASSES else f"many for {len(values)} rows"
    return "regression", f"'{name}' holds {distinct} different whole numbers, {why}"


# Labels


def _classes(rows: TableRows, name: str) -> np.ndarray:
    column = decoded(rows.column(name))  # categories keep the type of their values
    kind = kind_of(column)
    if kind == "text":
        first: dict[str, int] = {}
        for row, value in enumerate(as_text(column, name).to_pylist(), start=1):
            first.setdefault(value, row)
        refuse_mangled_numbers(first, name, target=True)
    if rows.written and pa.types.is_string(rows.columns.column(name).type):
        numbers = column.to_pylist() if kind == "numeric" else None
        return as_written(rows.text(name).to_pylist(), name, numbers)
    if kind == "boolean":
        return np.asarray(column.to_pylist(), dtype=np.bool_)
    if kind == "numeric":
        values: np.ndarray = column.to_numpy()
        return values if values.dtype.kind in "iuf" else rows.numbers(name).astype(np.int64)
    return np.asarray(as_text(column, name).to_pylist(), dtype=np.str_)


def _checked_classes(values: np.ndarray, name: str) -> np.ndarray:
    n_classes = len(np.unique(values))
    if n_classes == 1:
        raise TableError(
            f"the target '{name}' has only one class ('{values[0]}'), so there is nothing to learn; "
            "choose another target column, or add rows of another class"
        )
    if names_rows(n_classes, len(values), _MOST_CLASSES):
        raise TableError(
            f"the target '{name}' has {n_classes} classes in {len(values)} rows, like an "
            "identifier; choose another target column"
        )
    return values


def _checked_numbers(values: np.ndarray, name: str) -> np.ndarray:
    if values.min() == values.max():
        raise TableError(
            f"the target '{name}' is constant, so there is nothing to learn; choose another target "
            "column, or add rows with other values"
        )
    return values


def as_written(texts: list[str], name: str, numbers: Sequence[object] | None = None) -> np.ndarray:
    """Labels of a column of text: int64 if that shows every label as it was, else text.

    `numbers` are those that the texts stand for, if they do. Raises if a label is written in two ways,
    as 1 and 1.0, or with and without blanks.
    """
    distinct = dict.fromkeys(texts)
    if all(_CANONICAL.fullmatch(text) for text in distinct):
        return np.array([int(text) for text in texts], dtype=np.int64)
    spelled: dict[object, str] = {}
    meanings = dict(zip(texts, numbers)) if numbers is not None else {t: meaning_of(t) for t in distinct}
    for text, meaning in meanings.items():
        earlier = spelled.setdefault(meaning, text)
        if earlier != text:
            raise TableError(
                f"the target '{name}' has one class written both as '{earlier}' and as '{text}' (data "
                f"row {texts.index(text) + 1}); write it in one way"
            )
    return np.asarray(texts, dtype=np.str_)


def known_labels(texts: Sequence[str], classes: np.ndarray) -> np.ndarray:
    """Labels of further rows in the form of `classes`, however they are spelled there.

    Classes that a fit kept apart, as 007 and 7, are told by their spelling alone. A label that is none
    of the classes is a whole number if it says one and they are numbers; else it stays text, which
    equals none of them.
    """
    exact = {str(label): label for label in classes.tolist()}
    meanings = Counter(map(meaning_of, exact))
    by_meaning = {
        meaning_of(text): label for text, label in exact.items() if meanings[meaning_of(text)] == 1
    }
    if classes.dtype.kind == "b":
        by_meaning |= {0: False, 1: True}
    kind = type(classes[0].item())
    numbers = classes.dtype.kind in "iuf"
    for text in dict.fromkeys(texts):
        meaning = meaning_of(text)
        is_number = numbers and isinstance(meaning, Decimal) and abs(meaning) < _EXACT
        exact.setdefault(text, by_meaning.get(meaning, kind(meaning) if is_number else text))
    labels = [exact[text] for text in texts]
    if all(type(label) is kind for label in labels):
        return np.asarray(labels)
    return np.asarray(labels, dtype=object)
