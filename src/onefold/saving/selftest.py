"""A few rows of a table and what the model said of them, kept in the file and tried again on loading.

Of an estimator alone everything can be checked by looking. A model of tables also prepares its rows: it
carries rows made from what its preparation learned, each column usual values, then an unknown category
and a missing value where it fills them in, and its own values there.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from onefold.saving.errors import BadContent

# Other machines round differently: relative to the values, and to the terms that they are sums of.
_RELATIVE = 1e-6
_ROUNDING = 1e-9
_DAY, _EARLIEST = 86_400.0, -2e9  # seconds; about 1906


def record(model: Any) -> dict[str, Any]:
    """Rows and values; BadContent if it cannot predict rows made from what its preparation learned."""
    rows = _example_rows(model.preparation_)
    return {"rows": rows, "values": _values(model, rows)}


def verify(model: Any, stored: Any) -> None:
    """Raise BadContent unless the model gives the stored values again."""
    if type(stored) is not dict or stored.keys() != {"rows", "values"}:
        raise BadContent("it lacks the rows that it should be tried on")
    expected = stored["values"]
    if type(expected) is not np.ndarray or expected.dtype != np.float64:
        raise BadContent("the values that it should give are not numbers")
    expansion = model.estimator_.expansion_
    values = _values(model, stored["rows"])
    if values.shape == expected.shape and np.isfinite(expected).all():
        sizes = [w * float(np.abs(part.coef).sum(axis=0).max()) for w, part in expansion.parts]
        terms = sum(s * _largest_value(part) for s, (_, part) in zip(sizes, expansion.parts))
        allowed = _RELATIVE * np.abs(expected).max() + _ROUNDING * terms
        if np.abs(values - expected).max() <= allowed:
            return
    raise BadContent("it does not predict what it did when it was saved")


def _largest_value(expansion: Any) -> float:
    """A bound on |k| near the centres."""
    if hasattr(expansion, "counts") or expansion.centres is None:
        return 1.0
    with np.errstate(all="ignore"):
        largest = float(np.abs(expansion.kernel.diagonal(expansion.centres)).max())
    return largest if np.isfinite(largest) else 1.0


def _values(model: Any, rows: Any) -> np.ndarray:
    """The model's decision values or predictions as (rows, targets)."""
    machine = model.estimator_
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            (_, matrix), *_ = model.matrix_blocks(_table(rows))
            decide = getattr(machine, "decision_function", machine.predict)
            values = np.asarray(decide(matrix), dtype=np.float64)
            labels = np.asarray(machine.predict(matrix))
    except BadContent:
        raise
    except Exception as error:  # a preparation of any state may raise anything
        reason = f"{type(error).__name__}: {error!s:.200}".replace("\n", " ")
        raise BadContent(f"it cannot predict rows made from its own state ({reason})") from error
    classes = getattr(machine, "classes_", None)
    if classes is not None and not np.isin(labels, classes).all():
        raise BadContent("it predicts labels that are not among its classes")
    if values.size == 0 or not np.isfinite(values).all():
        raise BadContent("it predicts infinite or undefined values")
    return np.ascontiguousarray(values.reshape(values.shape[0], -1))


def _table(rows: Any) -> Any:
    import pyarrow

    from onefold.tables.rows import TableRows

    return TableRows(pyarrow.table(dict(zip(rows["names"], rows["columns"]))))


def _example_rows(preparation: Any) -> Any:
    missing = [None] if preparation.missing == "impute" else []
    columns = [_example_values(part) + missing for part in preparation.parts]
    length = max((len(values) for values in columns), default=0)
    levelled = [[values[i % len(values)] for i in range(length)] for values in columns]
    return {"names": list(preparation.columns), "columns": levelled}


def _example_values(part: Any) -> list[Any]:
    """Values like those of a column of a table."""
    kind = type(part).__name__
    if kind == "Numbers":
        return _around(part.mean, part.scale)
    if kind == "Times":
        if part.order == "time":
            return [f"{hour:02d}:30" for hour in (0, 7, 23)]
        moments = np.clip(_around(part.mean, part.scale), _EARLIEST, -_EARLIEST) // _DAY
        days = [str(np.datetime64(int(one), "D")) for one in moments]
        return [f"{day}T12:00:00+00:00" for day in days] if part.zone else days
    if kind == "Truths":
        return ["true", "false", "true?"]
    if kind == "Categories":
        unknown = max(part.categories, key=len) + "?"
        return [part.categories[0], part.categories[-1], unknown]
    return ["any"]


def _around(centre: Any, spread: Any) -> list[float]:
    """A number and its surroundings; 0 and 1 stand in for what is not finite."""
    middle, width = float(centre), float(spread)
    middle, width = middle if math.isfinite(middle) else 0.0, width if math.isfinite(width) else 1.0
    return [middle, middle + width, middle - width]
