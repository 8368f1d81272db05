"""A few rows and what the model said of them, kept in the file and tried again on loading.

Of an estimator alone everything can be checked by looking. What scikit-learn's transformers do with
their attributes is not ours to know, and may change between its versions: a pipeline, or a model of
tables, therefore carries rows made from its own state (`onefold.saving.examples`) and its values there.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import joblib
import numpy as np
import sklearn
from scipy import sparse

from onefold.linalg import is_sparse
from onefold.saving.errors import BadContent
from onefold.saving.examples import example_columns, levelled
from onefold.saving.registry import ESTIMATORS
from onefold.saving.tabular import table_columns

# Other machines round differently: relative to the values, and to the terms that they are sums of.
_RELATIVE = 1e-6
_ROUNDING = 1e-9


def needs_test(model: Any) -> bool:
    """Whether rows are prepared before an estimator sees them."""
    return type(model).__name__ in ("Pipeline", "TransformedTargetRegressor", "TableModel")


def record(model: Any) -> dict[str, Any]:
    """Rows and values, as plain values and arrays.

    Raises
    ------
    BadContent
        If the model cannot predict rows that are made from what its steps remember.
    """
    final_estimator(model)
    last: BadContent | None = None
    for rows in _candidates(model):
        try:
            return {"rows": rows, "values": _values(model, rows)}
        except BadContent as error:
            last = last or error
    cause = last.cause if last else "no step says how many columns it takes"
    raise BadContent(
        cause, "let its encoders ignore what they do not know (handle_unknown) and fit again"
    )


def verify(model: Any, stored: Any, version: str) -> None:
    """Raise BadContent unless the model gives the stored values again; `version` wrote them."""
    if type(stored) is not dict or stored.keys() != {"rows", "values"}:
        raise BadContent("it lacks the rows that it should be tried on")
    remedy = f"install scikit-learn {version}, with which it was saved, or save it again"
    remedies = (remedy,) if version != sklearn.__version__ else ()
    expected = stored["values"]
    if type(expected) is not np.ndarray or expected.dtype != np.float64:
        raise BadContent("the values that it should give are not numbers")
    final = final_estimator(model)
    try:
        values = _values(model, stored["rows"])
    except BadContent as error:
        raise BadContent(error.cause, *remedies) from error
    if values.shape == expected.shape and np.isfinite(expected).all():
        terms = float(np.abs(final.expansion_.coef).sum(axis=0).max()) * _largest_value(final.expansion_)
        allowed = _RELATIVE * np.abs(expected).max() + _ROUNDING * terms
        if np.abs(values - expected).max() <= allowed:
            return
    raise BadContent("it does not predict what it did when it was saved", *remedies)


def final_estimator(model: Any) -> Any:
    """The estimator of onefold's behind all preparation."""
    names: dict[str, Any] = {
        "Pipeline": lambda m: m.steps[-1][1],
        "TransformedTargetRegressor": lambda m: m.regressor_,
        "TableModel": lambda m: m.estimator,
    }
    final = model
    while type(final).__name__ in names:
        final = names[type(final).__name__](final)
    if type(final).__name__ not in ESTIMATORS or not hasattr(final, "expansion_"):
        kind = type(final).__name__ if not isinstance(final, str) else repr(final)
        raise BadContent(
            f"its last step is a {kind}, not a fitted estimator of onefold's",
            "end it with one and fit it",
        )
    return final


def _largest_value(expansion: Any) -> float:
    """A bound on |k| near the centres."""
    if hasattr(expansion, "counts") or expansion.centres is None:
        return 1.0
    with np.errstate(all="ignore"):
        largest = float(np.abs(expansion.kernel.diagonal(expansion.centres)).max())
    return largest if np.isfinite(largest) else 1.0


def _values(model: Any, rows: Any) -> np.ndarray:
    """The model's decision values or predictions as (rows, targets)."""
    try:
        with (
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
            joblib.parallel_config(backend="sequential"),
        ):
            warnings.simplefilter("ignore")
            X, predictor = _input(model, rows)
            decide = getattr(predictor, "decision_function", predictor.predict)
            values = np.asarray(decide(X), dtype=np.float64)
            labels = np.asarray(predictor.predict(_input(model, rows)[0]))
    except BadContent:
        raise
    except Exception as error:  # scikit-learn's code on any state may raise anything
        reason = f"{type(error).__name__}: {error!s:.200}".replace("\n", " ")
        raise BadContent(f"it cannot predict rows made from its own state ({reason})") from error
    classes = getattr(predictor, "classes_", None)
    if classes is not None and not np.isin(labels, classes).all():
        raise BadContent("it predicts labels that are not among its classes")
    if values.size == 0 or not np.isfinite(values).all():
        raise BadContent("it predicts infinite or undefined values")
    return np.ascontiguousarray(values.reshape(values.shape[0], -1))


def _input(model: Any, rows: Any) -> tuple[Any, Any]:
    """Stored rows in the form that the predictor takes, and the predictor."""
    if type(model).__name__ == "TableModel":
        (_, matrix), *_ = model.matrix_blocks(_table(rows))
        return matrix, model.estimator
    if type(rows) is dict:
        names = _facts(model)[1]
        if names is None or list(names) != rows["names"]:
            raise BadContent("the columns of the rows that it should be tried on are not its own")
        return _frame(rows), model
    if type(rows) is not np.ndarray and not is_sparse(rows):
        raise BadContent("the rows that it should be tried on are not rows")
    return rows.copy(), model  # a step with copy=False works on the rows themselves


def _frame(columns: dict[str, Any]) -> Any:
    try:
        pandas: Any = import_module("pandas")
    except ImportError as error:
        raise BadContent("it takes data frames, and pandas is not installed", "install it") from error
    return pandas.DataFrame(dict(zip(columns["names"], columns["columns"])))


def _table(rows: Any) -> Any:
    import pyarrow

    from onefold.tables.rows import Rows

    if is_sparse(rows):
        return Rows(pyarrow.table({}), sparse=rows)
    return Rows(pyarrow.table(dict(zip(rows["names"], rows["columns"]))))


def _candidates(model: Any) -> Iterator[Any]:
    """Rows to try, the most telling first."""
    if type(model).__name__ == "TableModel":
        if model.preparation.sparse_kept is not None:
            kept, scale = model.preparation.sparse_kept, model.preparation.sparse_scale
            shape = (2, int(kept.max()) + 1)
            yield sparse.csr_matrix((scale[[0, -1]], ([0, 1], kept[[0, -1]])), shape=shape)
            return
        columns = table_columns(model.preparation)
        yield {"names": list(columns), "columns": list(columns.values())}
        return
    width, names = _facts(model)
    made = example_columns(model, [], width)
    telling = [column.usual + column.unusual for column in made]
    plain, plainest = [column.usual for column in made], [column.usual[:1] for column in made]
    for values in map(levelled, (telling, plain, plainest)):
        arrays = [_column(column) for column in values]
        if names is not None:
            yield {"names": [str(name) for name in names], "columns": arrays}
        elif all(array.dtype == np.float64 for array in arrays):
            yield np.stack(arrays, axis=1)
            yield sparse.csr_matrix(np.stack(arrays, axis=1))
        else:
            yield np.stack([array.astype(object) for array in arrays], axis=1)


def _column(values: list[Any]) -> np.ndarray:
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return np.array(values, dtype=np.float64)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _facts(model: Any) -> tuple[int, Any]:
    """How many columns the first step that says so takes, and their names if it knows them."""
    first = model
    while not hasattr(first, "n_features_in_"):
        if type(first).__name__ == "TransformedTargetRegressor":
            first = first.regressor_
            continue
        steps = [step for _, step in getattr(first, "steps", []) if not isinstance(step, str | None)]
        if not steps:
            raise BadContent("no step says how many columns it takes")
        first = steps[0]
    return int(first.n_features_in_), getattr(first, "feature_names_in_", None)
