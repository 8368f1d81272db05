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

import numpy as np
from scipy.stats import t as student

from onefold.facts.words import MEASURES

_Z = 1.959963984540054  # of the normal distribution: 95 % lie within
_UNBALANCED = 0.5  # the smallest class next to the largest


@dataclass(frozen=True)
class Measured:
    """A value, and what each row contributes to its variation."""

    value: float
    influence: np.ndarray
    span: tuple[float, float] | None = None  # a 95 % interval that the error alone does not give

    def error(self, weight: np.ndarray) -> float:
        """The standard error for rows of these weights, whose sum is 1."""
        return math.sqrt(float(np.sum((weight * self.influence) ** 2)))


@dataclass(frozen=True)
class ScoredRows:
    """The rows that predictions are measured on."""

    y: np.ndarray  # (n,) or (n, targets): numbers, or labels
    tests: Sequence[np.ndarray]  # rows that were tested together; one in several counts in each
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
    def balance(self) -> np.ndarray:
        """The same with the classes that a test set has alike within it: balanced accuracy's weights."""
        y = self.index
        parts = [[rows[y[rows] == label] for label in np.unique(y[rows])] for rows in self.tests]
        return np.mean([row_weights(len(y), within, self.given) for within in parts], axis=0)

    @cached_property
    def index(self) -> np.ndarray:
        """The place of each row's label among the classes."""
        return np.searchsorted(self.classes, self.y)  # type: ignore[arg-type]

    def measure(
        self,
        values: np.ndarray,
        probabilities: np.ndarray | None = None,
        wanted: str | None = None,
    ) -> dict[str, Measured]:
        """Measures of numbers or decision values (n, columns), and of probabilities where there are.

        Those that few people go by, such as F1, are there if they are `wanted`.
        """
        values = np.where(self.weight[:, None] > 0, values, 0.0)
        if self.classes is None:
            measured = self._numbers(values)
            return measured | {"mape": self._percentage(values)} if wanted == "mape" else measured
        measured = self._labels(values, probabilities)
        positive = np.flatnonzero(self.classes == 1).tolist()  # of the scorer: the label 1, if it is one
        if wanted == "f1" and len(self.classes) == 2 and positive:
            measured["f1"] = self._f1(values, positive)
        elif wanted == "f1_macro":
            measured["f1_macro"] = self._f1(values, list(range(len(self.classes))))
        return measured

    def _numbers(self, predicted: np.ndarray) -> dict[str, Measured]:
        """R², RMSE and mean absolute error; of several targets the mean R² and the errors of all."""
        weight = self.weight
        used = self.weight > 0
        y = np.where(used[:, None], self.y.reshape(len(self.y), -1), 0.0).astype(np.float64)
        given = None if self.given is None else self.given[used]
        loss = (y - predicted) ** 2
        spread = (y - np.average(y[used], axis=0, weights=given)) ** 2
        error = weight @ loss
        total = weight @ spread
        found = {}
        if np.all(total > 0):
            moved = -(loss - error) / total + (error / total) * (spread / total - 1.0)
            found["r2"] = Measured(float(np.mean(1.0 - error / total)), moved.mean(axis=1))
        square = _mean(loss.mean(axis=1), weight)
        root = math.sqrt(square.value)
        found["rmse"] = Measured(root, square.influence / (2 * root) if root > 0 else np.zeros(len(y)))
        return found | {"mae": _mean(np.abs(y - predicted).mean(axis=1), weight)}

    def _labels(self, values: np.ndarray, probabilities: np.ndarray | None) -> dict[str, Measured]:
        """Accuracy and balanced accuracy; the area under the curve of two classes, and the log loss."""
        y = self.index
        weight = self.weight
        right = (labels_of(values) == y).astype(np.float64)
        share = _mean(right, weight)
        span = _wilson(share.value, 1.0 / float(np.sum(weight**2)))
        found = {"accuracy": Measured(share.value, share.influence, span)}
        found["balanced_accuracy"] = self._balanced(right)
        if values.shape[1] <= 2 and len(np.unique(y[weight > 0])) == 2:
            found["roc_auc"] = self._area(values[:, -1])
        if probabilities is not None:
            of_class = np.nan_to_num(probabilities)[np.arange(len(y)), y]
            of_class = np.clip(of_class, np.finfo(np.float64).eps, 1.0)
            found["log_loss"] = _mean(-np.log(of_class), weight)
        return found

    def _balanced(self, right: np.ndarray) -> Measured:
        """Balanced accuracy, with an interval from Wilson's of the classes, each of (Σβ)²/Σβ² rows."""
        y = self.index
        weight = self.weight
        balance = self.balance
        recall = np.zeros(len(y))
        below = 0.0
        above = 0.0
        for label in np.unique(y[weight > 0]):
            member = balance * (y == label)
            share = float(member.sum())
            found = min(float(member @ right) / share, 1.0)
            recall[y == label] = found
            low, high = _wilson(found, share**2 / float(np.sum(member**2)))
            below += (share * (found - low)) ** 2
            above += (share * (high - found)) ** 2
        value = float(balance @ right)
        ratio = balance / np.where(weight > 0, weight, 1.0)
        span = value - math.sqrt(below), value + math.sqrt(above)
        return Measured(value, ratio * (right - recall), span)

    def _percentage(self, predicted: np.ndarray) -> Measured:
        """The mean of |y − f| / |y|, as scikit-learn counts it."""
        y = np.where(self.weight[:, None] > 0, self.y.reshape(len(self.y), -1), 1.0).astype(np.float64)
        size = np.maximum(np.abs(y), np.finfo(np.float64).eps)
        return _mean((np.abs(y - predicted) / size).mean(axis=1), self.weight)

    def _f1(self, values: np.ndarray, labels: Sequence[int]) -> Measured:
        """The mean of 2 TP / (2 TP + FP + FN) of the classes at these places that are met at all."""
        weight = self.weight
        predicted = labels_of(values)
        scores: list[float] = []
        influence = np.zeros(len(self.y))
        for label in labels:
            actual = self.index == label
            taken = predicted == label
            size = float(weight @ actual + weight @ taken)
            if size > 0 or len(labels) == 1:
                score = 2.0 * float(weight @ (actual & taken)) / (size or 1.0)
                influence += (2.0 * (actual & taken) - score * (1.0 * actual + taken)) / (size or 1.0)
                scores.append(score)
        return Measured(float(np.mean(scores)), influence / len(scores))

    def _area(self, ranked: np.ndarray) -> Measured:
        """P(f(x⁺) > f(x⁻)) + ½ P(=), its influence by the placements of the rows; O(n log n)."""
        # Models of different splits need not agree on what a number means: within test sets of both.
        y = self.index
        weight = self.weight
        used = [rows[weight[rows] > 0] for rows in self.tests]
        used = [rows for rows in used if len(np.unique(y[rows])) == 2] or [np.flatnonzero(weight > 0)]
        value = 0.0
        pull = np.zeros(len(y))
        for rows in used:
            one = y[rows] == 1
            order = np.unique(ranked[rows], return_inverse=True)[1]
            of_one = weight[rows] * one
            of_zero = weight[rows] * ~one
            at_one, at_zero = (np.bincount(order, part) for part in (of_one, of_zero))
            below = (np.cumsum(at_zero) - at_zero / 2)[order] / of_zero.sum()
            above = 1.0 - (np.cumsum(at_one) - at_one / 2)[order] / of_one.sum()
            area = float(of_one @ below) / of_one.sum()
            influence = np.where(one, (below - area) / of_one.sum(), (above - area) / of_zero.sum())
            value += area / len(used)
            np.add.at(pull, rows, weight[rows] * influence / len(used))
        return Measured(value, pull / np.where(weight > 0, weight, 1.0))

    def main_measure(self, measured: dict[str, Measured], wanted: str | None = None) -> str:
        """What is named first: as `wanted`, else R², accuracy, or balanced if classes differ in size."""
        if wanted is not None and wanted in measured:
            return wanted
        if self.classes is None:
            return "r2" if "r2" in measured else "rmse"
        counts = np.bincount(self.index[self.weight > 0], minlength=len(self.classes))
        return "balanced_accuracy" if counts.min() < _UNBALANCED * counts.max() else "accuracy"


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
        np.add.at(total, rows, given[rows] / given[rows].sum())
    return total / max(len(tests), 1)


def interval(name: str, measured: Measured, weight: np.ndarray) -> dict[str, float]:
    """Value, standard error and a 95 % interval: Wilson's for shares of rows, else by Student's t."""
    error = measured.error(weight)
    rows = 1.0 / float(np.sum(weight**2))
    wide = float(student.ppf(0.975, max(rows - 1.0, 1.0))) * error
    low, high = measured.span or (measured.value - wide, measured.value + wide)
    low = low if name == "r2" else max(low, 0.0)
    value, high = (one if MEASURES[name].smaller else min(one, 1.0) for one in (measured.value, high))
    return {"value": value, "error": error, "low": low, "high": high}


def _mean(values: np.ndarray, weight: np.ndarray) -> Measured:
    mean = float(weight @ values)
    return Measured(mean, values - mean)


def _wilson(share: float, rows: float) -> tuple[float, float]:
    square = _Z**2 / rows
    middle = (share + square / 2) / (1 + square)
    half = _Z / (1 + square) * math.sqrt(max(share * (1 - share), 0.0) / rows + square / (4 * rows))
    return max(middle - half, 0.0), min(middle + half, 1.0)
