"""How good the predictions are, with uncertainty, beside simple models on the same rows."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from onefold.report.baselines import Baseline, baselines
from onefold.report.heldout import Predictions
from onefold.report.measuring import (
    Measured,
    balanced_weights,
    interval,
    of_labels,
    of_numbers,
    row_weights,
)

_UNBALANCED = 0.5  # the smallest class beside the largest
_MOST_TESTS = 50


class Judge:
    """Measures any predictions of one set of tested rows.

    Parameters
    ----------
    y : ndarray (n,) or (n, targets)
        Labels or numbers.
    predictions : Predictions
        What says which rows are tested, and together with which.
    classes : ndarray or None
    weight : ndarray (n,), optional
    """

    def __init__(
        self, y: np.ndarray, predictions: Predictions, classes: np.ndarray | None, weight: Any = None
    ) -> None:
        tested = predictions.tested
        if weight is not None:
            tested = tested & (np.asarray(weight) > 0)
        tests = [rows[tested[rows]] for rows in predictions.folds.tests]
        tests = [rows for rows in tests if len(rows)] if predictions.folds.same else []
        if not tests or not np.isin(np.flatnonzero(tested), np.concatenate(tests)).all():
            tests = [np.flatnonzero(tested)]
        self.tests, self.classes = tests, classes
        self.y = y if classes is None else np.searchsorted(classes, y)
        self.weight = row_weights(len(y), tests, weight)
        self.given = weight

    @property
    def rows(self) -> int:
        """How many rows are tested and have weight."""
        return int(np.sum(self.weight > 0))

    def measure(self, values: np.ndarray, probabilities: np.ndarray | None) -> dict[str, Measured]:
        """Measures of decision values or numbers, and of probabilities where there are some."""
        used = self.weight > 0
        values = np.where(used[:, None], values, 0.0)
        if self.classes is None:
            y = np.where(used if self.y.ndim == 1 else used[:, None], self.y, 0.0)
            given = np.ones(len(y)) if self.given is None else self.given
            centre = np.average(y[used], axis=0, weights=given[used])
            return of_numbers(values, y, self.weight, centre)
        ranked: np.ndarray | None
        if values.shape[1] == 1:
            predicted, ranked = (values[:, 0] > 0).astype(np.intp), values[:, 0]
        else:
            predicted = values.argmax(axis=1)
            ranked = values[:, 1] if values.shape[1] == 2 else None
        return of_labels(
            predicted,
            self.y,
            self.weight,
            balanced_weights(self.y, self.tests, self.given),
            ranked=ranked,
            probabilities=None if probabilities is None else np.nan_to_num(probabilities),
            tests=self.tests,
        )

    def facts(self, measured: dict[str, Measured]) -> dict[str, Any]:
        """Every measure with its standard error and interval."""
        return {name: interval(name, one, self.weight) for name, one in measured.items()}

    def within(self, rows: np.ndarray) -> Judge:
        """The judge of some of the rows alone."""
        found = copy(self)
        found.tests, found.weight = [rows], row_weights(len(self.y), [rows], self.given)
        return found

    def by_test(self, values: np.ndarray, measure: str) -> list[float]:
        """The measure in each test set alone; empty where there is one only, or very many."""
        if not 2 <= len(self.tests) <= _MOST_TESTS:
            return []
        found = [self.within(rows).measure(values, None) for rows in self.tests]
        return [one[measure].value if measure in one else float("nan") for one in found]


def score_facts(
    predictions: Predictions, judge: Judge, X: Any, y: np.ndarray, weight: Any, *, main: str | None
) -> dict[str, Any]:
    """The section on scores: this model, the simple ones, and their paired differences."""
    measured = judge.measure(predictions.values, predictions.probabilities)
    main = main if main in measured else main_measure(judge, measured)
    own = {"name": "this model", "measures": judge.facts(measured)}
    others, notes = [], []
    for one in baselines(X, y, predictions.folds, classes=judge.classes, weight=weight):
        others.append(_beside(one, judge, measured, main))
        if one.train_rows is not None:
            notes.append(f"the {one.name} was fitted to {one.train_rows} rows of each training part")
    drawn = f"simple models on {predictions.folds.words}"
    return {
        "how": predictions.how,
        "splits": drawn,
        "same_splits": predictions.folds.same,
        "comparable": predictions.folds.comparable,
        "rows": judge.rows,
        "main": main,
        "model": own,
        "baselines": others,
        "by_split": judge.by_test(predictions.values, main) if predictions.folds.same else [],
        "notes": notes,
    }


def main_measure(judge: Judge, measured: dict[str, Measured]) -> str:
    """What the page speaks of first: R², accuracy, or balanced accuracy if classes differ in size."""
    if judge.classes is None:
        return "r2" if "r2" in measured else "rmse"
    counts = np.bincount(judge.y[judge.weight > 0], minlength=len(judge.classes))
    uneven = counts.min() < _UNBALANCED * counts.max()
    return "balanced_accuracy" if uneven else "accuracy"


def _beside(one: Baseline, judge: Judge, own: dict[str, Measured], main: str) -> dict[str, Any]:
    classes = judge.classes is not None
    measured = judge.measure(one.values, one.values if classes else None)
    difference = own[main].minus(measured[main])
    sign = -1.0 if main in ("rmse", "mae", "log_loss") else 1.0
    return {
        "name": one.name,
        "measures": judge.facts(measured),
        "gain": {"value": sign * difference.value, "error": difference.error(judge.weight)},
    }
