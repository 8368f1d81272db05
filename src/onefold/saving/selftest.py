"""A few rows and what the model said of them, kept in the file and tried again on loading.

Of an estimator alone everything can be checked by looking. What scikit-learn's transformers do with
their attributes is not ours to know, and may change between its versions: a pipeline, or a model of
tables, therefore carries rows made from its own state (`onefold.saving.examples`) and its values there.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import joblib
import numpy as np
import sklearn

from onefold.linalg import is_sparse
from onefold.saving.errors import BadContent
from onefold.saving.estimators import ESTIMATORS
from onefold.saving.examples import candidate_rows, columns_of, table_rows

# Other machines round differently: relative to the values, and to the terms that they are sums of.
_RELATIVE = 1e-6
_ROUNDING = 1e-9

# What stands around an estimator and prepares its rows -> what it stands around.
_AROUND: dict[str, Any] = {
    "Pipeline": lambda model: model.steps[-1][1],
    "TransformedTargetRegressor": lambda model: model.regressor_,
    **dict.fromkeys(("TableClassifier", "TableRegressor"), lambda model: model.estimator_),
}


def needs_test(model: Any) -> bool:
    """Whether rows are prepared before an estimator sees them."""
    return type(model).__name__ in _AROUND


def final_estimator(model: Any) -> Any:
    """The estimator of onefold's behind all preparation."""
    final = model
    while type(final).__name__ in _AROUND:
        final = _AROUND[type(final).__name__](final)
    if type(final).__name__ not in ESTIMATORS or not hasattr(final, "expansion_"):
        kind = type(final).__name__ if not isinstance(final, str) else repr(final)
        raise BadContent(
            f"its last step is a {kind}, not a fitted estimator of onefold's",
            "end it with one and fit it",
        )
    return final


def record(model: Any) -> dict[str, Any]:
    """Rows and values; BadContent if it cannot predict rows made from what its steps remember."""
    final_estimator(model)
    first: BadContent | None = None
    is_table = hasattr(model, "preparation_")
    for rows in [table_rows(model.preparation_)] if is_table else candidate_rows(model):
        try:
            return {"rows": rows, "values": _values(model, rows)}
        except BadContent as error:
            first = first or error
    cause = first.cause if first else "no step says how many columns it takes"
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
    expansion = final_estimator(model).expansion_
    try:
        values = _values(model, stored["rows"])
    except BadContent as error:
        raise BadContent(error.cause, *remedies) from error
    if values.shape == expected.shape and np.isfinite(expected).all():
        sizes = [w * float(np.abs(part.coef).sum(axis=0).max()) for w, part in expansion.parts]
        terms = sum(s * _largest_value(part) for s, (_, part) in zip(sizes, expansion.parts))
        allowed = _RELATIVE * np.abs(expected).max() + _ROUNDING * terms
        if np.abs(values - expected).max() <= allowed:
            return
    raise BadContent("it does not predict what it did when it was saved", *remedies)


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
    if hasattr(model, "preparation_"):
        (_, matrix), *_ = model.matrix_blocks(_table(rows))
        return matrix, model.estimator_
    if type(rows) is dict:
        names = columns_of(model)[1]
        if names is None or list(names) != rows["names"]:
            raise BadContent("the columns of the rows that it should be tried on are not its own")
        return _frame(rows), model
    if type(rows) is not np.ndarray and not is_sparse(rows):
        raise BadContent("the rows that it should be tried on are not rows")
    return rows.copy(), model  # a step with copy=False works on the rows themselves


def _frame(rows: dict[str, Any]) -> Any:
    try:
        pandas: Any = import_module("pandas")
    except ImportError as error:
        raise BadContent("it takes data frames, and pandas is not installed", "install it") from error
    return pandas.DataFrame(dict(zip(rows["names"], rows["columns"])))


def _table(rows: Any) -> Any:
    import pyarrow

    from onefold.tables.rows import TableRows

    if is_sparse(rows):
        return TableRows(pyarrow.table({}), sparse=rows)
    return TableRows(pyarrow.table(dict(zip(rows["names"], rows["columns"]))))
