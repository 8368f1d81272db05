"""The rows of a report: as the estimator takes them, as columns, and whether they are training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.utils.validation import validate_data

from onefold.estimators.validation import check_weights
from onefold.facts.data import ColumnValues, equal_to_training
from onefold.facts.measures import labels_of
from onefold.facts.unwrap import Unwrapped
from onefold.facts.words import counted
from onefold.linalg import is_sparse, to_numpy
from onefold.rows import TARGET_ROUNDING, gathered, row_hashes
from onefold.tables import TableError, TableModel, TableRows, rows_of_frame
from onefold.tables.columns import as_text, kind_of
from onefold.tables.roles import Roles
from onefold.tables.rows import is_frame
from onefold.tables.source import opened
from onefold.tables.target import read_target
from onefold.tables.training import labelled_rows

# Columns that are examined one by one.
MOST_COLUMNS = 200
_NO_TARGETS = "a report on rows needs their targets; pass y as well as X."


@dataclass(frozen=True)
class Origin:
    """Whether rows are new to a model, and how that is known."""

    new: bool = False
    words: str = ""
    has_training_rows: bool = False  # whether some of the new rows equal training rows


@dataclass(frozen=True)
class ReportRows:
    """The rows that a report is on, and whether the model was fitted to them."""

    matrix: Any  # what the estimator takes
    columns: list[ColumnValues]  # of the table, or of X as it was passed
    y: np.ndarray
    target: str | None = None  # the name of y
    names: list[Any] | None = None  # of the rows
    width: int = 0  # how many columns there are, of which `columns` may be the first
    fitted: Any = None  # y as the estimator fits it
    weight: np.ndarray | None = None
    origin: Origin = Origin()


def report_rows(unwrapped: Unwrapped, X: Any, y: Any, weight: Any, new_rows: bool | None) -> ReportRows:
    """X and y as the estimator takes them, and as columns; raise if they do not fit together."""
    X = gathered(X, None)
    y = gathered(y, None)
    if unwrapped.table_model is None:
        rows = _rows_of_arrays(unwrapped, X, y)
    else:
        rows = _rows_of_table(unwrapped.table_model, X, y)
    n = len(rows.y)
    classes = unwrapped.classes
    if rows.matrix.shape[0] != n:
        raise ValueError(
            f"X has {rows.matrix.shape[0]} rows but y has {n}; pass both for the same rows."
        )
    if n < 2:
        raise ValueError(f"a report needs at least 2 rows; X has {n}.")
    targets = 1 if classes is not None else unwrapped.estimator.expansion_.n_targets
    if rows.y.size != n * targets:
        columns = counted(rows.y.size // n, "column")
        raise ValueError(f"y has {columns}, but the model predicts {targets}; pass the same targets.")
    if classes is not None:
        in_training = np.isin(rows.y, classes)
        if not in_training.all():
            label = str(rows.y[~in_training][0])
            raise ValueError(f"y has the class {label!r}, which was not in training; remove such rows.")
    fitted = unwrapped.fitted_target(rows.y)
    return replace(
        rows,
        fitted=fitted,
        weight=check_weights(weight, n),
        origin=origin_of(unwrapped.estimator, rows.matrix, fitted, new_rows),
    )


def _rows_of_arrays(unwrapped: Unwrapped, X: Any, y: Any) -> ReportRows:
    if y is None:
        raise ValueError(_NO_TARGETS)
    matrix = X
    for transformer in unwrapped.row_transformers:
        matrix = transformer.transform(matrix)
    # Names of the columns, and their order.
    validate_data(unwrapped.estimator, matrix, reset=False, skip_check_array=True)
    matrix = matrix.tocsr() if is_sparse(matrix) else to_numpy(matrix)
    names = getattr(X, "columns", None)
    if names is None and not unwrapped.row_transformers:
        names = unwrapped.features
    columns = [] if unwrapped.pairwise else column_values(X, names)
    return ReportRows(
        matrix,
        columns,
        _target_array(y),
        target=_text(getattr(y, "name", None)),
        names=_row_names(X),
        width=len(columns) if names is None else len(names),
    )


def _row_names(X: Any) -> list[Any] | None:
    """The index of a frame; None if rows are only numbered."""
    index = getattr(X, "index", None) if hasattr(X, "columns") else None
    is_range = hasattr(index, "step")
    return None if index is None or is_range else list(index)


def _rows_of_table(model: TableModel, table: Any, y: Any) -> ReportRows:
    target = model.target_ if y is None else y
    if target is None:
        raise ValueError(_NO_TARGETS)
    table = opened(table, model.reading_).read()
    if isinstance(target, str):
        table.require(target, "target")
    labelled = labelled_rows(table, Roles(target), model.drop_missing_target)
    rows = labelled.table.read()
    values = labelled.roles.target
    if isinstance(target, str):
        values = read_target(rows, target, model.task, getattr(model, "classes_", None))
        target_name: str | None = target
    else:
        target_name = model.target_ or _text(getattr(target, "name", None))
    columns = [*model.preparation_.columns, *model.preparation_.constant]
    id_column = model.id_column_
    return ReportRows(
        model.matrix(rows),
        column_values(rows, columns),
        _target_array(values),
        target=target_name,
        names=rows.columns[id_column].to_pylist() if id_column in rows.names else None,
        width=len(columns),
    )


def _target_array(y: Any) -> np.ndarray:
    values = to_numpy(y)
    texts = {isinstance(value, str) for value in values.ravel()} if values.dtype.kind == "O" else ()
    if len(texts) == 1:  # only texts or only numbers, which a frame may have as objects
        values = np.asarray(values.tolist())
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _text(name: Any) -> str | None:
    return None if name is None else str(name)


# Whether rows are those of the fit


def origin_of(estimator: Any, matrix: Any, y: np.ndarray, new_rows: bool | None) -> Origin:
    """Whether rows are new to a model, by the fingerprint of those that it was fitted to."""
    heldout = getattr(estimator, "heldout_prediction_", None)
    fingerprint = estimator.fingerprint_
    n = int(matrix.shape[0])
    other_rows = ValueError(
        "X does not have the rows that the model was fitted on, or has them in another order; pass "
        "exactly these rows, or new rows with new_rows=True."
    )
    if fingerprint is None:  # rows of Dask
        if new_rows is False and heldout is not None and len(heldout) != n:
            raise other_rows
        same = heldout is not None and len(heldout) == n if new_rows is None else not new_rows
        words = "the rows that the model was fitted on" if same else counted(n, "new row")
        return Origin(not same, f"assumed to be {words}, which cannot be checked on Dask workers")
    sampled = fingerprint["rows"]
    pairwise = estimator.__sklearn_tags__().input_tags.pairwise
    if pairwise and matrix.shape[1] == estimator.n_features_in_:
        matrix = matrix[:, sampled]
    hashes = row_hashes(matrix, np.float32)
    same_number = n == fingerprint["n"]
    if not new_rows and same_number and np.array_equal(hashes[sampled], fingerprint["hashes"]):
        _refuse_other_targets(estimator, fingerprint["targets"], y[sampled])
        return Origin(False, f"the {n:,} rows that the model was fitted on")
    shuffled = same_number and np.isin(fingerprint["hashes"], hashes).all()
    if new_rows is False or (new_rows is None and shuffled):
        raise other_rows
    equal = equal_to_training(estimator, hashes, y)
    if equal is None or equal.rows == 0:
        return Origin(True, f"{counted(n, 'row')} that are new to the model")
    words = f"{counted(n, 'row')} treated as new, but {equal.words()}"
    return Origin(
        True, f"{words}; scores are optimistic if those are the same rows", has_training_rows=True
    )


def _refuse_other_targets(estimator: Any, fitted: np.ndarray, y: np.ndarray) -> None:
    """Raise if y is not the target that the model was fitted to."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        values = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        size = np.abs(fitted).max(initial=0.0)
        same = np.allclose(values, fitted, rtol=TARGET_ROUNDING, atol=TARGET_ROUNDING * size)
    else:
        same = np.array_equal(np.asarray(classes)[labels_of(fitted)], y)
    if not same:
        raise ValueError(
            "y is not the target that the model was fitted on, or is in another order; pass that "
            "target, or new_rows=True to score the rows as a test set."
        )


# Columns


def column_values(X: Any, names: Sequence[str] | None = None) -> list[ColumnValues]:
    """The columns of an array, a sparse matrix, a frame or rows of a table, at most `MOST_COLUMNS`.

    `names` are those to look at of a frame or of rows of a table, and those of an array's columns.
    """
    if is_frame(X):
        try:
            rows = rows_of_frame(X)
        except TableError:  # columns of mixed types, which a pipeline may accept
            labels = getattr(X, "columns", [])[:MOST_COLUMNS]
            return [_of_array(str(label), np.asarray(X[label], dtype=object)) for label in labels]
        names = [str(name) for name in (rows.names if names is None else names)]
        return [_of_rows(rows, name) for name in names if name in rows.names][:MOST_COLUMNS]
    values = X.tocsr()[:, :MOST_COLUMNS].toarray() if is_sparse(X) else to_numpy(X)[:, :MOST_COLUMNS]
    if names is None or len(names) < values.shape[1]:
        names = [f"feature {j}" for j in range(values.shape[1])]
    return [_of_array(str(name), column) for name, column in zip(names, values.T)]


def _of_rows(rows: TableRows, name: str) -> ColumnValues:
    column = rows.column(name)
    kind = kind_of(column)
    if kind in ("numeric", "empty"):
        return _of_array(name, rows.numbers(name))
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return _of_array(name, column.cast(pa.timestamp("us"), safe=False).to_numpy())
    if kind not in ("date", "other"):
        column = as_text(column, name)
    return _of_texts(name, column.to_pylist())


def _of_array(name: str, values: np.ndarray) -> ColumnValues:
    if values.dtype.kind == "M":
        seconds = values.astype("datetime64[us]").astype(np.int64) / 1e6
        return ColumnValues(name, np.where(np.isnat(values), np.nan, seconds), date=True)
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        return _of_texts(name, [None if value != value else value for value in values.tolist()])
    return ColumnValues(name, np.where(np.isfinite(numbers), numbers, np.nan))


def _of_texts(name: str, values: list[Any]) -> ColumnValues:
    places: dict[str, int] = {}
    codes = [-1 if value is None else places.setdefault(str(value), len(places)) for value in values]
    return ColumnValues(name, np.array(codes, dtype=np.intp), tuple(places))
