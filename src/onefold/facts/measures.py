"""How good predictions are, next to the best constant prediction.

Held-out measures are means over folds, as the scores of a search are: the accuracy of the chosen
candidate, its score in the table of the search and those of its rivals are then one kind of number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from onefold.criteria import label_index


def heldout_measures(
    estimator: Any,
    y: np.ndarray,
    folds: Sequence[np.ndarray],
    weight: np.ndarray | None = None,
    predicted: Any = None,
) -> dict[str, Any] | None:
    """Measures of the held-out predictions of the chosen candidate, or of the blend.

    Rows without one, which a metric was learned from, have no say.

    Parameters
    ----------
    estimator : fitted estimator
    y : ndarray (n,)
    folds : sequence of ndarray
        The rows that were held out together, every row once.
    weight : ndarray (n,), optional
        By which rows count within their fold.
    predicted : ndarray (n,), optional
        The held-out predictions in units of y, where those of the estimator are in others.

    Returns
    -------
    dict or None
        ``rows``, how many were tested, in ``folds`` of ``n_folds``; ``accuracy`` with its standard error
        ``accuracy_error``, ``balanced_accuracy`` and ``recall`` by class with the accuracies of always
        answering ``baseline_class``, or ``r2`` and ``rmse`` with ``rmse_error`` and ``baseline_rmse``;
        ``gain`` over the constant prediction, in accuracy or as a share of the squared error, with its
        standard error. None for criteria that hold out nothing.
    """
    decision = getattr(estimator, "heldout_prediction_", None)
    if decision is None:
        return None
    decision, n_folds = (decision if predicted is None else predicted), len(folds)
    weight = np.ones(len(y)) if weight is None else weight
    decision = np.asarray(decision).reshape(len(y), -1)
    tested = np.isfinite(decision).all(axis=1)
    places = np.cumsum(tested) - 1
    folds = [places[fold[tested[fold]]] for fold in folds if tested[fold].any()]
    decision, y, weight = decision[tested], y[tested], weight[tested]
    tested_on = {"rows": len(y), "folds": len(folds), "n_folds": n_folds}
    if hasattr(estimator, "classes_"):
        return tested_on | _of_labels(estimator.classes_, decision, y, folds, weight)
    return tested_on | _of_numbers(decision.ravel(), y, folds, weight)


def kept_score(report: dict[str, Any]) -> float:
    """The criterion's score of the model that is kept: of the blend, or of the best candidate."""
    blended = report.get("blend_score")
    return float(report["best_score"] if blended is None else blended)


def _of_numbers(
    predicted: np.ndarray, y: np.ndarray, folds: Sequence[np.ndarray], weight: np.ndarray
) -> dict[str, Any]:
    losses = (y - predicted) ** 2
    constant = (y - np.average(y, weights=weight)) ** 2
    error, spread = (_mean_over(folds, values, weight) for values in (losses, constant))
    unit = spread if spread > 0 else math.nan  # a few tested rows may all be equal
    return {
        "r2": 1.0 - error / unit,
        "rmse": math.sqrt(error),
        "rmse_error": _standard_error(losses, weight) / (2.0 * math.sqrt(error)) if error > 0 else 0.0,
        "baseline_rmse": math.sqrt(spread),
        "gain": 1.0 - error / unit,
        "gain_error": float(np.std((constant - losses) / unit)) / math.sqrt(len(y)),
    }


def _of_labels(
    classes: np.ndarray,
    decision: np.ndarray,
    y: np.ndarray,
    folds: Sequence[np.ndarray],
    weight: np.ndarray,
) -> dict[str, Any]:
    predicted = classes[label_index(decision)]
    classes = np.unique(y)  # a rare class may have no tested row
    right = (predicted == y).astype(float)
    shares = [_mean_over(folds, (y == label).astype(float), weight) for label in classes]
    most = int(np.argmax(shares))
    recall, chance_error = {}, 0.0
    for label in classes:
        members = y == label
        within = [fold[members[fold]] for fold in folds]
        found = _mean_over([rows for rows in within if len(rows)], right, weight)
        recall[str(label)] = found
        chance_error += found * (1.0 - found) / int(members.sum())
    constant = (y == classes[most]).astype(float)
    difference = right - constant
    return {
        "accuracy": _mean_over(folds, right, weight),
        "accuracy_error": _standard_error(right, weight),
        "baseline_accuracy": shares[most],
        "baseline_class": classes[most].item(),
        "balanced_accuracy": _balanced(folds, right, y, weight),
        "baseline_balanced_accuracy": _balanced(folds, constant, y, weight),
        "recall": recall,
        "class_rows": {str(label): int(np.sum(y == label)) for label in classes},
        "gain": _mean_over(folds, right, weight) - shares[most],
        "gain_error": float(np.std(difference)) / math.sqrt(len(y)),
        "balanced_gain_error": math.sqrt(chance_error) / len(classes),
    }


def _standard_error(values: np.ndarray, weight: np.ndarray) -> float:
    """The standard error of the weighted mean of a number of each row."""
    about = values - np.average(values, weights=weight)
    return float(np.linalg.norm(weight * about) / weight.sum())


def _mean_over(folds: Sequence[np.ndarray], values: np.ndarray, weight: np.ndarray) -> float:
    return float(np.mean([np.average(values[rows], weights=weight[rows]) for rows in folds]))


def _balanced(
    folds: Sequence[np.ndarray], right: np.ndarray, y: np.ndarray, weight: np.ndarray
) -> float:
    """Balanced accuracy as scikit-learn scores it: in every fold the mean over the classes it has."""
    by_fold = [[rows[y[rows] == label] for label in np.unique(y[rows])] for rows in folds]
    return float(np.mean([_mean_over(by_class, right, weight) for by_class in by_fold]))
