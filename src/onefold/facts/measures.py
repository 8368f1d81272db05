r"""Measures of held-out predictions with their standard errors.

A measure is a smooth function of means over rows; with φ_i its influence, the change that row i makes,
its variance is Σ ω_i² φ_i², the rows having weights ω_i with sum 1. Two measures on the same rows differ
by a difference whose influence is φ_i − φ'_i: paired, and therefore sharper than either. The weights are
such that every fold counts the same, so that values are means over folds, as the scores of a search are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import t as student

LABELS = {
    "r2": "R²",
    "rmse": "RMSE",
    "mae": "mean absolute error",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "roc_auc": "area under the ROC curve",
    "log_loss": "log loss",
}
ERRORS = ("rmse", "mae", "log_loss")  # smaller is better
_SHARES = ("accuracy", "balanced_accuracy", "roc_auc")  # between 0 and 1
_Z = 1.959963984540054  # of the normal distribution: 95 % lie within
_UNBALANCED = 0.5  # the smallest class next to the largest
_MOST_TESTS = 50


@dataclass(frozen=True)
class Measured:
    """A value, and what each row contributes to its variation."""

    value: float
    influence: np.ndarray
    span: tuple[float, float] | None = None  # a 95 % interval that the error alone does not give

    def minus(self, other: Measured) -> Measured:
        """The difference on the same rows."""
        return Measured(self.value - other.value, self.influence - other.influence)

    def error(self, weight: np.ndarray) -> float:
        """The standard error for rows of these weights, whose sum is 1."""
        return math.sqrt(float(np.sum((weight * self.influence) ** 2)))


@dataclass(frozen=True)
class ScoredRows:
    """The rows that predictions are measured on."""

    y: np.ndarray  # (n,) or (n, targets): numbers, or labels
    tests: list[np.ndarray]  # rows that were tested together; a row in several of them counts in each
    classes: np.ndarray | None = None
    given: np.ndarray | None = None  # how much the rows count within their test set

    @classmethod
    def of(
        cls,
        y: np.ndarray,
        values: np.ndarray,
        tests: Sequence[np.ndarray],
        classes: np.ndarray | None = None,
        weight: np.ndarray | None = None,
    ) -> ScoredRows:
        """Those with a prediction among `values` and a weight; one test set where `tests` miss some."""
        tested = np.isfinite(values).all(axis=1)
        if weight is not None:
            tested &= weight > 0
        found = [rows for rows in (rows[tested[rows]] for rows in tests) if len(rows)]
        if not found or not np.isin(np.flatnonzero(tested), np.concatenate(found)).all():
            found = [np.flatnonzero(tested)]
        return cls(y, found, classes, weight)

    @cached_property
    def weight(self) -> np.ndarray:
        """ω (n,): within a test set as `given`, all test sets alike, with sum 1; 0 outside."""
        return row_weights(len(self.y), self.tests, self.given)

    @cached_property
    def index(self) -> np.ndarray:
        """The place of each row's label among the classes."""
        return np.searchsorted(self.classes, self.y)  # type: ignore[arg-type]

    @property
    def count(self) -> int:
        """How many rows are tested."""
        return int(np.sum(self.weight > 0))

    def measure(
        self, values: np.ndarray, probabilities: np.ndarray | None = None
    ) -> dict[str, Measured]:
        """Measures of numbers or decision values (n, columns), and of probabilities where there are."""
        used = self.weight > 0
        values = np.where(used[:, None], values, 0.0)
        if self.classes is None:
            y = np.where(used if self.y.ndim == 1 else used[:, None], self.y, 0.0)
            given = np.ones(len(y)) if self.given is None else self.given
            return of_numbers(values, y, self.weight, np.average(y[used], axis=0, weights=given[used]))
        ranked = values[:, -1] if values.shape[1] <= 2 else None
        return of_labels(
            labels_of(values),
            self.index,
            self.weight,
            balanced_weights(self.index, self.tests, self.given),
            ranked=ranked,
            probabilities=None if probabilities is None else np.nan_to_num(probabilities),
            tests=self.tests,
        )

    def main_measure(self, measured: dict[str, Measured], wanted: Any = None) -> str:
        """What is named first: R², accuracy, or balanced accuracy if classes differ in size."""
        if wanted in measured:
            return str(wanted)
        if self.classes is None:
            return "r2" if "r2" in measured else "rmse"
        counts = np.bincount(self.index[self.weight > 0], minlength=len(self.classes))
        return "balanced_accuracy" if counts.min() < _UNBALANCED * counts.max() else "accuracy"

    def by_test(self, values: np.ndarray, measure: str) -> list[float]:
        """The measure in each test set alone; empty where there is one only, or very many."""
        if not 2 <= len(self.tests) <= _MOST_TESTS:
            return []
        alone = [ScoredRows(self.y, [rows], self.classes, self.given) for rows in self.tests]
        found = [rows.measure(values) for rows in alone]
        return [one[measure].value if measure in one else math.nan for one in found]

    def confusion(self, values: np.ndarray) -> np.ndarray:
        """Rows (classes, classes) by their label and by what was predicted."""
        used, count = self.weight > 0, len(self.classes)  # type: ignore[arg-type]
        table = np.zeros((count, count), dtype=np.intp)
        np.add.at(table, (self.index[used], labels_of(values[used])), 1)
        return table


def labels_of(values: np.ndarray) -> np.ndarray:
    """The places of the predicted classes: by the sign of one decision value, or the largest of some."""
    if values.shape[1] == 1:
        return (values[:, 0] > 0).astype(np.intp)
    found: np.ndarray = values.argmax(axis=1)
    return found


def row_weights(n: int, tests: Sequence[np.ndarray], weight: np.ndarray | None = None) -> np.ndarray:
    """Weights with sum 1 that are the same in all test sets together, within one as `weight` says."""
    given = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    total = np.zeros(n)
    for rows in tests:
        within = given[rows].sum()
        if within > 0:
            np.add.at(total, rows, given[rows] / within)
    return total / total.sum() if total.sum() > 0 else total


def balanced_weights(
    y: np.ndarray, tests: Sequence[np.ndarray], weight: np.ndarray | None = None
) -> np.ndarray:
    """The same with the classes that a test set has alike within it: balanced accuracy's weights."""
    parts = [[rows[y[rows] == label] for label in np.unique(y[rows])] for rows in tests]
    return np.mean([row_weights(len(y), within, weight) for within in parts], axis=0)


def of_numbers(
    predicted: np.ndarray, y: np.ndarray, weight: np.ndarray, centre: Any = None
) -> dict[str, Measured]:
    """R², RMSE and mean absolute error; of several targets the mean R² and the errors of all.

    `centre` is the constant prediction that R² compares with; None is the mean by these weights.
    """
    predicted, y = (np.asarray(a, dtype=np.float64).reshape(len(a), -1) for a in (predicted, y))
    centre = weight @ y if centre is None else centre
    loss, spread = (y - predicted) ** 2, (y - centre) ** 2
    error, total = weight @ loss, weight @ spread
    found = {}
    if np.all(total > 0):
        moved = -(loss - error) / total + (error / total) * (spread / total - 1.0)
        found["r2"] = Measured(float(np.mean(1.0 - error / total)), moved.mean(axis=1))
    mse = float(error.mean())
    root = math.sqrt(mse)
    about = loss.mean(axis=1) - mse
    found["rmse"] = Measured(root, about / (2 * root) if root > 0 else np.zeros(len(y)))
    return found | {"mae": _mean(np.abs(y - predicted).mean(axis=1), weight)}


def of_labels(
    predicted: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    balance: np.ndarray,
    *,
    ranked: np.ndarray | None = None,
    probabilities: np.ndarray | None = None,
    tests: Sequence[np.ndarray] = (),
) -> dict[str, Measured]:
    """Accuracy and balanced accuracy; the area under the curve of two classes, and the log loss.

    `predicted` and `y` are places among the classes; `balance` are the weights of `balanced_weights`;
    `ranked` (n,) is greater the likelier the second class, and compared within each of the `tests`, as
    models of different splits need not agree on what a number means; without any, among all rows.
    """
    right = (predicted == y).astype(np.float64)
    found = {"accuracy": _mean(right, weight), "balanced_accuracy": _balanced(right, y, weight, balance)}
    if ranked is not None and len(np.unique(y[weight > 0])) == 2:
        found["roc_auc"] = _area_within(ranked, y, weight, tests)
    if probabilities is not None:
        of_class = np.clip(probabilities[np.arange(len(y)), y], np.finfo(np.float64).eps, 1.0)
        found["log_loss"] = _mean(-np.log(of_class), weight)
    return found


def interval(name: str, measured: Measured, weight: np.ndarray) -> dict[str, float]:
    """Value, standard error and a 95 % interval: Wilson's for shares of rows, else by Student's t."""
    error, rows = measured.error(weight), 1.0 / float(np.sum(weight**2))
    wide = float(student.ppf(0.975, max(rows - 1.0, 1.0))) * error
    low, high = measured.value - wide, measured.value + wide
    if name == "accuracy":
        low, high = _wilson(measured.value, rows)
    elif measured.span is not None:
        low, high = measured.span
    low = max(low, 0.0) if name != "r2" else low
    high = min(high, 1.0) if name == "r2" or name in _SHARES else high
    return {"value": measured.value, "error": error, "low": low, "high": high}


def _mean(values: np.ndarray, weight: np.ndarray) -> Measured:
    mean = float(weight @ values)
    return Measured(mean, values - mean)


def _wilson(share: float, rows: float) -> tuple[float, float]:
    square = _Z**2 / rows
    middle = (share + square / 2) / (1 + square)
    half = _Z / (1 + square) * math.sqrt(max(share * (1 - share), 0.0) / rows + square / (4 * rows))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def _balanced(right: np.ndarray, y: np.ndarray, weight: np.ndarray, balance: np.ndarray) -> Measured:
    r"""Balanced accuracy; its interval is put together from Wilson's of the classes.

    With s_c the share of class c and [l_c, u_c] the interval of its recall r_c, the ends are
    √(Σ s_c² (r_c − l_c)²) below and √(Σ s_c² (u_c − r_c)²) above: a few rows of a class, all of them
    wrong, do not make a certain 0. The weights β of balanced accuracy may differ much from fold to fold
    within a class: its interval is that of (Σβ)²/Σβ² rows.
    """
    recall, below, above = np.zeros(len(y)), 0.0, 0.0
    for label in np.unique(y[weight > 0]):
        member = balance * (y == label)
        share = float(member.sum())
        found = min(float(member @ right) / share, 1.0)
        recall[y == label] = found
        low, high = _wilson(found, share**2 / float(np.sum(member**2)))
        below += (share * (found - low)) ** 2
        above += (share * (high - found)) ** 2
    value = float(balance @ right)
    span = max(value - math.sqrt(below), 0.0), min(value + math.sqrt(above), 1.0)
    ratio = balance / np.where(weight > 0, weight, 1.0)
    return Measured(value, ratio * (right - recall), span)


def _area_within(
    ranked: np.ndarray, y: np.ndarray, weight: np.ndarray, tests: Sequence[np.ndarray]
) -> Measured:
    """The mean of the areas of the test sets that have rows of both classes."""
    used = [rows[weight[rows] > 0] for rows in tests]
    used = [rows for rows in used if len(np.unique(y[rows])) == 2]
    if not used:
        return _area(ranked, y, weight)
    value, pull = 0.0, np.zeros(len(y))
    for rows in used:
        one = _area(ranked[rows], y[rows], weight[rows])
        value += one.value / len(used)
        np.add.at(pull, rows, weight[rows] * one.influence / len(used))
    return Measured(value, pull / np.where(weight > 0, weight, 1.0))


def _area(ranked: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Measured:
    r"""P(f(x⁺) > f(x⁻)) + ½ P(=), its influence by the placements of the rows; O(n log n)."""
    order = np.unique(ranked, return_inverse=True)[1]
    of_one, of_zero = (weight * (y == label) for label in (1, 0))
    total_one, total_zero = float(of_one.sum()), float(of_zero.sum())
    at_one, at_zero = (np.bincount(order, part) for part in (of_one, of_zero))
    below = (np.cumsum(at_zero) - at_zero / 2)[order] / total_zero  # of the zeros
    above = 1.0 - (np.cumsum(at_one) - at_one / 2)[order] / total_one  # of the ones
    area = float(of_one @ below) / total_one
    influence: Any = np.where(y == 1, (below - area) / total_one, (above - area) / total_zero)
    return Measured(area, influence)
