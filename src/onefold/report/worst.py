"""Where the model is worst: slices of rows, and single rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.report.heldout import Predictions
from onefold.report.scores import Judge
from onefold.report.slices import worst_rows, worst_slices
from onefold.report.subject import Given, shown_name


def worst_facts(given: Given, predictions: Predictions, judge: Judge, *, table: bool) -> dict[str, Any]:
    """Slices with a larger mean loss and the five worst rows, by absolute error or by wrong labels."""
    used = judge.weight > 0
    if judge.classes is None:
        size = np.abs(given.y.reshape(len(given.y), -1) - predictions.values).mean(axis=1)
        loss, surprise, what = size, size, "mean absolute error"
        answers: Any = predictions.values[:, 0]
        truth: Any = given.y.reshape(len(given.y), -1)[:, 0]
    else:
        answers, truth = predictions.labels(judge.classes), given.y
        loss, what = (answers != truth).astype(np.float64), "error rate"
        surprise = np.where(loss > 0, _surprise(predictions.values, judge.y), np.nan)
    loss, surprise = np.where(used, loss, np.nan), np.where(used, surprise, np.nan)
    first = 1 if table else 0
    rows = [
        {
            "row": shown_name(given.names, i, first),
            "target": _plain(truth[i]),
            "prediction": _plain(answers[i]),
        }
        for i in worst_rows(surprise)
    ]
    return worst_slices(given.columns, loss) | {"what": what, "rows": rows}


def _surprise(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """By how much another class was preferred to the right one."""
    if values.shape[1] == 1:
        return -(2.0 * index - 1.0) * values[:, 0]
    n = np.arange(len(values))
    others = values.copy()
    others[n, index] = -np.inf
    found: np.ndarray = others.max(axis=1) - values[n, index]
    return found


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, float) else str(value)
