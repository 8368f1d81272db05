"""The rows that a report was given: as the estimator takes them, as people know them, and whose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.utils.validation import validate_data

from onefold.estimators.validation import check_weights
from onefold.facts.data import Column, equal_to_training
from onefold.facts.measures import labels_of
from onefold.facts.ran import Subject
from onefold.facts.words import counted
from onefold.linalg import is_sparse, to_numpy
from onefold.rows import gathered, row_hashes
from onefold.tables import TableError, TableModel, TableRows, rows_of_frame
from onefold.tables.columns import as_text, kind_of
from onefold.tables.rows import is_frame
from onefold.tables.target import read_target
from onefold.tables.training import rows_in_memory, with_target

MOST_COLUMNS = 200  # that are looked at one by one
_ROUNDING = 1e-5  # of targets that were float32 once
_NO_TARGETS = "a report on rows needs their targets; pass y as well as X."


@dataclass(frozen=True)
class ReportRows:
    """The rows that a report is on, and whether the model was fitted to them."""

    matrix: Any  # what the estimator takes
    columns: list[Column]  # what people know: columns of the table, or of X as it was given
    y: np.ndarray
    target: str | None = None  # the name of y
    names: list[Any] | None = None  # of the rows
    width: int = 0  # how many columns there are, of which `columns` may be the first
    fitted: Any = None  # y as the estimator fits it
    weight: np.ndarray | None = None
    new: bool = False  # to the model
    assumed: str = ""  # about that
    optimistic: bool = False  # as some of the new rows are not


def rows_given(subject: Subject, X: Any, y: Any, weight: Any, new_rows: bool | None) -> ReportRows:
    """X and y as the estimator takes them, and as people know them; raise if they do not go together."""
    X = gathered(X, None)
    y = gathered(y, None)
    given = _of_arrays(subject, X, y) if subject.table is None else _of_table(subject.table, X, y)
    n = len(given.y)
    classes = subject.classes
    if given.matrix.shape[0] != n:
        raise ValueError(
            f"X has {given.matrix.shape[0]} rows but y has {n}; pass both for the same rows."
        )
    if n < 2:
        raise ValueError(f"a report needs at least 2 rows; X has {n}.")
    targets = 1 if classes is not None else subject.estimator.expansion_.n_targets
    if given.y.size != n * targets:
        columns = counted(given.y.size // n, "column")
        raise ValueError(f"y has {columns}, but the model predicts {targets}; pass the same targets.")
    if classes is not None and not (known := np.isin(given.y, classes)).all():
        odd = str(given.y[~known][0])
        raise ValueError(f"y has the class {odd!r}, which was not in training; remove such rows.")
    fitted = subject.fitted_target(given.y)
    weight = check_weights(weight, n)
    new, assumed, optimistic = match_training_rows(subject.estimator, given.matrix, fitted, new_rows)
    return replace(given, fitted=fitted, weight=weight, new=new, assumed=assumed, optimistic=optimistic)


def _of_arrays(subject: Subject, X: Any, y: Any) -> ReportRows:
    if y is None:
        raise ValueError(_NO_TARGETS)
    matrix = X
    for step in subject.before:
        matrix = step.transform(matrix)
    validate_data(subject.estimator, matrix, reset=False, skip_check_array=True)  # names and their order
    matrix = matrix.tocsr() if is_sparse(matrix) else to_numpy(matrix)
    names = getattr(X, "columns", None)
    if names is None and not subject.before:
        names = subject.features
    columns = [] if subject.pairwise else columns_of(X, names)
    index = getattr(X, "index", None) if hasattr(X, "columns") else None
    named = None if index is None or type(index).__name__ == "RangeIndex" else list(index)
    width = len(names) if names is not None else len(columns)
    return ReportRows(matrix, columns, _targets(y), _text(getattr(y, "name", None)), named, width)


def _of_table(model: TableModel, table: Any, y: Any) -> ReportRows:
    rows = rows_in_memory(table, model.reading_)
    named = model.target_ if y is None else y
    if named is None:
        raise ValueError(_NO_TARGETS)
    rows, y = with_target(model, rows, named)
    if isinstance(named, str):
        y = read_target(rows, named, model.task, getattr(model, "classes_", None))
    wanted = [*model.preparation_.columns, *model.preparation_.constant]
    ident = model.id_column_
    names = rows.columns[ident].to_pylist() if ident in rows.names else None
    target = named if isinstance(named, str) else model.target_ or _text(getattr(y, "name", None))
    return ReportRows(
        model.matrix(rows), columns_of(rows, wanted), _targets(y), target, names, len(wanted)
    )


def _targets(y: Any) -> np.ndarray:
    values = to_numpy(y)
    texts = {isinstance(one, str) for one in values.ravel()} if values.dtype.kind == "O" else ()
    if len(texts) == 1:  # texts or numbers of a frame, and no labels that a model does not know
        values = np.asarray(values.tolist())
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _text(name: Any) -> str | None:
    return None if name is None else str(name)


# Whether rows are those of the fit


def match_training_rows(
    estimator: Any, matrix: Any, y: np.ndarray, new_rows: bool | None
) -> tuple[bool, str, bool]:
    """Whether rows are new to a model, by its fingerprint, in words too, and whether it knows some."""
    kept = getattr(estimator, "heldout_prediction_", None)
    fingerprint = estimator.fingerprint_
    n = int(matrix.shape[0])
    wrong = ValueError(
        "X does not have the rows that the model was fitted on, or has them in another order; pass "
        "exactly these rows, or new rows with new_rows=True."
    )
    if fingerprint is None:  # rows of Dask
        if new_rows is False and kept is not None and len(kept) != n:
            raise wrong
        same = kept is not None and len(kept) == n if new_rows is None else not new_rows
        words = "the rows that the model was fitted on" if same else counted(n, "new row")
        return not same, f"assumed to be {words}, which cannot be checked on Dask workers", False
    rows = fingerprint["rows"]
    pairwise = estimator.__sklearn_tags__().input_tags.pairwise
    if pairwise and matrix.shape[1] == estimator.n_features_in_:
        matrix = matrix[:, rows]
    hashes = row_hashes(matrix, np.float32)
    if not new_rows and n == fingerprint["n"] and np.array_equal(hashes[rows], fingerprint["hashes"]):
        _refuse_targets(estimator, fingerprint["targets"], y[rows])
        return False, f"the {n:,} rows that the model was fitted on", False
    shuffled = n == fingerprint["n"] and np.isin(fingerprint["hashes"], hashes).all()
    if new_rows is False or (new_rows is None and shuffled):
        raise wrong
    equal = equal_to_training(estimator, hashes, y)
    if equal is None or equal.rows == 0:
        return True, f"{counted(n, 'row')} that are new to the model", False
    words = f"{counted(n, 'row')} treated as new, but {equal.words()}"
    return True, f"{words}; scores are optimistic if those are the same rows", True


def _refuse_targets(estimator: Any, own: np.ndarray, y: np.ndarray) -> None:
    """Raise if y is not that of the fit."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        given = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        right = np.allclose(given, own, rtol=_ROUNDING, atol=_ROUNDING * np.abs(own).max(initial=0.0))
    else:
        right = np.array_equal(np.asarray(classes)[labels_of(own)], y)
    if not right:
        raise ValueError(
            "y is not the target that the model was fitted on, or is in another order; pass that "
            "target, or new_rows=True to score the rows as a test set."
        )


# Columns


def columns_of(X: Any, names: Sequence[str] | None = None) -> list[Column]:
    """The columns of an array, a sparse matrix, a frame or rows of a table; the first two hundred.

    `names` are those to look at of a frame or of rows of a table, and those of an array's columns.
    """
    if is_frame(X):
        try:
            rows = rows_of_frame(X)
        except TableError:  # columns of mixed kinds, which a pipeline may well take
            found = getattr(X, "columns", [])[:MOST_COLUMNS]
            return [_of_array(str(name), np.asarray(X[name], dtype=object)) for name in found]
        wanted = [str(name) for name in (rows.names if names is None else names)]
        wanted = [name for name in wanted if name in rows.names][:MOST_COLUMNS]
        return [_of_rows(rows, name) for name in wanted]
    values = X.tocsr()[:, :MOST_COLUMNS].toarray() if is_sparse(X) else to_numpy(X)[:, :MOST_COLUMNS]
    if names is None or len(names) < values.shape[1]:
        names = [f"feature {j}" for j in range(values.shape[1])]
    return [_of_array(str(name), column) for name, column in zip(names, values.T)]


def _of_rows(rows: TableRows, name: str) -> Column:
    column = rows.column(name)
    kind = kind_of(column)
    if kind in ("numeric", "empty"):
        return _of_array(name, rows.numbers(name))
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return _of_array(name, column.cast(pa.timestamp("us"), safe=False).to_numpy())
    if kind not in ("date", "other"):
        column = as_text(column, name)
    return _of_texts(name, column.to_pylist())


def _of_array(name: str, values: np.ndarray) -> Column:
    if values.dtype.kind == "M":
        seconds = values.astype("datetime64[us]").astype(np.int64) / 1e6
        return Column(name, np.where(np.isnat(values), np.nan, seconds), date=True)
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        return _of_texts(name, [None if value != value else value for value in values.tolist()])
    return Column(name, np.where(np.isfinite(numbers), numbers, np.nan))


def _of_texts(name: str, values: list[Any]) -> Column:
    places: dict[str, int] = {}
    codes = [-1 if one is None else places.setdefault(str(one), len(places)) for one in values]
    return Column(name, np.array(codes, dtype=np.intp), tuple(places))
