r"""Measures of predictions: a table of their names, formulas and number formats.

A measure is a smooth function of means over rows. With φ_i its influence, the change that row i makes,
and ω_i the weights of the rows, whose sum is 1,

(1)   variance of a measure            Σ ω_i² φ_i²;
(2)   influence of a mean Σ ω_i l_i    φ_i = l_i − Σ ω_j l_j;
(3)   influence of g(m_1, m_2, …)      Σ_k ∂g/∂m_k φ_i(m_k), with m_k means;
(4)   influence of a difference        φ_i − φ'_i, of two measures on the same rows: the comparison is
                                       paired, and therefore sharper than either of them;
(5)   variance where rows of a         G/(G − 1) Σ_g (Σ_{i∈g} ω_i φ_i)², with G clusters g of rows that
      cluster are alike                are not independent: groups, or stretches of time.

The weights are such that every fold counts the same, so that values are means over folds, as the scores
of a search are.

`MEASURES` is the table: a new measure is an entry there, and appears in every command and page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.stats import t as student

from onefold.facts.words import percent, readable, thousandths

# The 97.5 % quantile of the normal distribution: 95 % of it lie within ± this.
_NORMAL_QUANTILE = 1.959963984540054
# Rows of the smallest class per row of the largest, below which balanced accuracy comes first.
_UNBALANCED = 0.5
# A standard error below this has one significant digit, because three decimals would show 0.
_SMALLEST_DECIMAL = 5e-4
# Standard errors below this are rounding errors.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Measured:
    """A value, and the influence of each row on it."""

    value: float
    influence: np.ndarray
    span: tuple[float, float] | None = None  # a 95 % interval, if it is not that of the standard error

    def error(self, weight: np.ndarray, clusters: np.ndarray | None = None) -> float:
        """The standard error for rows of these weights, whose sum is 1: the root of (1), or of (5)."""
        shares = weight * self.influence
        if clusters is None:
            return math.sqrt(float(np.sum(shares**2)))
        count = np.unique(clusters[weight > 0]).size
        totals = np.bincount(clusters, shares)
        return math.sqrt(float(np.sum(totals**2)) * count / max(count - 1, 1))


# The rows, and what was predicted for them


@dataclass(frozen=True)
class ScoredRows:
    """The rows that predictions are measured on."""

    y: np.ndarray  # (n,) or (n, targets): numbers, or labels
    tests: Sequence[np.ndarray]  # rows that were tested together; one in several counts in each
    classes: np.ndarray | None = None
    row_weight: np.ndarray | None = None  # how much the rows count within their test set
    clusters: np.ndarray | None = None  # (n,): the number of the cluster of each row, by (5)

    @classmethod
    def of(
        cls,
        y: np.ndarray,
        values: np.ndarray,
        tests: Sequence[np.ndarray],
        classes: np.ndarray | None = None,
        weight: np.ndarray | None = None,
        clusters: np.ndarray | None = None,
    ) -> ScoredRows:
        """The rows that have a prediction and a weight; one test set if `tests` do not cover them."""
        tested = np.isfinite(values).all(axis=1)
        if weight is not None:
            tested &= weight > 0
        tested_parts = [rows[tested[rows]] for rows in tests]
        tested_parts = [rows for rows in tested_parts if len(rows)]
        covered = tested_parts and np.isin(np.flatnonzero(tested), np.concatenate(tested_parts)).all()
        tests = tested_parts if covered else [np.flatnonzero(tested)]
        return cls(y, tests, classes, weight, clusters)

    @cached_property
    def weight(self) -> np.ndarray:
        """ω (n,) with sum 1: as `row_weight` within a test set, with the same total for all of them."""
        return row_weights(len(self.y), self.tests, self.row_weight)

    @cached_property
    def balance(self) -> np.ndarray:
        """ω of balanced accuracy: the classes within a test set also count the same."""
        index = self.index
        by_class = [
            [rows[index[rows] == label] for label in np.unique(index[rows])] for rows in self.tests
        ]
        return np.mean([row_weights(len(index), parts, self.row_weight) for parts in by_class], axis=0)

    @cached_property
    def index(self) -> np.ndarray:
        """The place of each row's label among the classes."""
        return np.searchsorted(self.classes, self.y)  # type: ignore[arg-type]

    def measure(
        self,
        values: np.ndarray,
        probabilities: np.ndarray | None = None,
        requested: str | None = None,
    ) -> dict[str, Measured]:
        """Measures of numbers or decision values (n, columns), and of probabilities if there are any.

        Those that few people use, such as F1, are computed only if they are `requested`.
        """
        task = "regression" if self.classes is None else "classification"
        used = self.weight[:, None] > 0
        predicted = Predicted(self, np.where(used, values, 0.0), probabilities)
        measured = {}
        for name, measure in MEASURES.items():
            if measure.task == task and (name == requested or not measure.on_request):
                result = measure.compute(predicted)
                if result is not None:
                    measured[name] = result
        return measured

    def main_measure(self, measured: dict[str, Measured], requested: str | None = None) -> str:
        """The main measure: as `requested`, else R² or accuracy, balanced if classes are rare."""
        if requested is not None and requested in measured:
            return requested
        if self.classes is None:
            return "r2" if "r2" in measured else "rmse"
        counts = np.bincount(self.index[self.weight > 0], minlength=len(self.classes))
        return "balanced_accuracy" if counts.min() < _UNBALANCED * counts.max() else "accuracy"


@dataclass(frozen=True)
class Predicted:
    """Rows with their predictions, which are 0 for rows that do not count."""

    rows: ScoredRows
    values: np.ndarray  # (n, columns): numbers, or decision values
    probabilities: np.ndarray | None = None  # (n, classes)

    @property
    def weight(self) -> np.ndarray:
        """ω (n,)."""
        return self.rows.weight

    def numbers(self, unused: float = 0.0) -> np.ndarray:
        """The targets (n, columns) as numbers, `unused` for rows that do not count."""
        y = self.rows.y.reshape(len(self.rows.y), -1)
        return np.where(self.weight[:, None] > 0, y, unused).astype(np.float64)

    @cached_property
    def labels(self) -> np.ndarray:
        """The places (n,) of the predicted labels among the classes."""
        return labels_of(self.values)

    @cached_property
    def correct(self) -> np.ndarray:
        """1 for rows whose label is predicted correctly, else 0."""
        return (self.labels == self.rows.index).astype(np.float64)


def labels_of(values: np.ndarray) -> np.ndarray:
    """The places of the predicted classes: by the sign of one decision value, else the largest."""
    if values.shape[1] == 1:
        return (values[:, 0] > 0).astype(np.intp)
    places: np.ndarray = values.argmax(axis=1)
    return places


def row_weights(n: int, tests: Sequence[np.ndarray], weight: np.ndarray | None = None) -> np.ndarray:
    """Weights with sum 1: as `weight` within a test set, with the same total for all of them."""
    within = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    total = np.zeros(n)
    for rows in tests:
        np.add.at(total, rows, within[rows] / within[rows].sum())
    return total / max(len(tests), 1)


# How measures are computed


def mean_of(losses: np.ndarray, weight: np.ndarray) -> Measured:
    """The mean of a number for each row, by (2)."""
    mean = float(weight @ losses)
    return Measured(mean, losses - mean)


def root_of(mean: Measured) -> Measured:
    """The root of a mean, by (3)."""
    root = math.sqrt(mean.value)
    return Measured(root, mean.influence / (2 * root) if root > 0 else np.zeros(len(mean.influence)))


def r_squared(predicted: Predicted) -> Measured | None:
    """R², the mean of several targets; None if a target is constant."""
    y = predicted.numbers()
    weight = predicted.weight
    used = weight > 0
    row_weight = predicted.rows.row_weight
    loss = (y - predicted.values) ** 2
    spread = (
        y - np.average(y[used], axis=0, weights=None if row_weight is None else row_weight[used])
    ) ** 2
    error = weight @ loss
    total = weight @ spread
    if not np.all(total > 0):
        return None
    influence = -(loss - error) / total + (error / total) * (spread / total - 1.0)
    return Measured(float(np.mean(1.0 - error / total)), influence.mean(axis=1))


def root_mean_squared_error(predicted: Predicted) -> Measured:
    """RMSE, of several targets together."""
    squares = (predicted.numbers() - predicted.values) ** 2
    return root_of(mean_of(squares.mean(axis=1), predicted.weight))


def mean_absolute_error(predicted: Predicted) -> Measured:
    """The mean of |y − f|."""
    errors = np.abs(predicted.numbers() - predicted.values)
    return mean_of(errors.mean(axis=1), predicted.weight)


def mean_absolute_percentage_error(predicted: Predicted) -> Measured:
    """The mean of |y − f| / |y|, as scikit-learn computes it."""
    y = predicted.numbers(unused=1.0)
    size = np.maximum(np.abs(y), np.finfo(np.float64).eps)
    return mean_of((np.abs(y - predicted.values) / size).mean(axis=1), predicted.weight)


def accuracy(predicted: Predicted) -> Measured:
    """The fraction of rows with the right label, with Wilson's interval."""
    weight = predicted.weight
    share = mean_of(predicted.correct, weight)
    return Measured(share.value, share.influence, _wilson(share.value, 1.0 / float(np.sum(weight**2))))


def balanced_accuracy(predicted: Predicted) -> Measured:
    """The mean recall, with an interval from Wilson's of the classes, each of (Σβ)²/Σβ² rows."""
    index = predicted.rows.index
    weight = predicted.weight
    balance = predicted.rows.balance
    correct = predicted.correct
    recalls = np.zeros(len(index))
    below = 0.0
    above = 0.0
    for label in np.unique(index[weight > 0]):
        member = balance * (index == label)
        share = float(member.sum())
        recall = min(float(member @ correct) / share, 1.0)
        recalls[index == label] = recall
        low, high = _wilson(recall, share**2 / float(np.sum(member**2)))
        below += (share * (recall - low)) ** 2
        above += (share * (high - recall)) ** 2
    value = float(balance @ correct)
    ratio = balance / np.where(weight > 0, weight, 1.0)
    span = value - math.sqrt(below), value + math.sqrt(above)
    return Measured(value, ratio * (correct - recalls), span)


def f1_of_positives(predicted: Predicted) -> Measured | None:
    """F1 of the label 1 of two, as scikit-learn's scorer; None if there is no such label."""
    classes: Any = predicted.rows.classes
    positive = np.flatnonzero(classes == 1).tolist()
    return _f1(predicted, positive) if len(classes) == 2 and positive else None


def f1_of_all(predicted: Predicted) -> Measured:
    """The mean F1 of the classes."""
    classes: Any = predicted.rows.classes
    return _f1(predicted, list(range(len(classes))))


def _f1(predicted: Predicted, labels: Sequence[int]) -> Measured:
    """The mean of 2 TP / (2 TP + FP + FN) over the classes at these places that occur at all."""
    weight = predicted.weight
    scores: list[float] = []
    influence = np.zeros(len(weight))
    for label in labels:
        actual = predicted.rows.index == label
        chosen = predicted.labels == label
        size = float(weight @ actual + weight @ chosen)
        if size > 0 or len(labels) == 1:
            score = 2.0 * float(weight @ (actual & chosen)) / (size or 1.0)
            influence += (2.0 * (actual & chosen) - score * (1.0 * actual + chosen)) / (size or 1.0)
            scores.append(score)
    return Measured(float(np.mean(scores)), influence / len(scores))


def area_under_curve(predicted: Predicted) -> Measured | None:
    """P(f(x⁺) > f(x⁻)) + ½ P(=), its influence by the placements of the rows; O(n log n)."""
    index = predicted.rows.index
    weight = predicted.weight
    if predicted.values.shape[1] > 2 or len(np.unique(index[weight > 0])) != 2:
        return None
    ranking = predicted.values[:, -1]
    # Models of different splits need not agree on what a number means: within test sets of both classes.
    parts = [rows[weight[rows] > 0] for rows in predicted.rows.tests]
    parts = [rows for rows in parts if len(np.unique(index[rows])) == 2] or [np.flatnonzero(weight > 0)]
    value = 0.0
    weighted_influence = np.zeros(len(index))
    for rows in parts:
        positive = index[rows] == 1
        order = np.unique(ranking[rows], return_inverse=True)[1]
        positive_weight = weight[rows] * positive
        negative_weight = weight[rows] * ~positive
        positives = positive_weight.sum()
        negatives = negative_weight.sum()
        positive_at = np.bincount(order, positive_weight)
        negative_at = np.bincount(order, negative_weight)
        below = (np.cumsum(negative_at) - negative_at / 2)[order] / negatives
        above = 1.0 - (np.cumsum(positive_at) - positive_at / 2)[order] / positives
        area = float(positive_weight @ below) / positives
        influence = np.where(positive, (below - area) / positives, (above - area) / negatives)
        value += area / len(parts)
        np.add.at(weighted_influence, rows, weight[rows] * influence / len(parts))
    return Measured(value, weighted_influence / np.where(weight > 0, weight, 1.0))


def log_loss(predicted: Predicted) -> Measured | None:
    """The mean of −log p of the right label; None without probabilities."""
    if predicted.probabilities is None:
        return None
    index = predicted.rows.index
    probability = np.nan_to_num(predicted.probabilities)[np.arange(len(index)), index]
    return mean_of(-np.log(np.clip(probability, np.finfo(np.float64).eps, 1.0)), predicted.weight)


def _wilson(share: float, rows: float) -> tuple[float, float]:
    square = _NORMAL_QUANTILE**2 / rows
    middle = (share + square / 2) / (1 + square)
    half = (
        _NORMAL_QUANTILE
        / (1 + square)
        * math.sqrt(max(share * (1 - share), 0.0) / rows + square / (4 * rows))
    )
    return max(middle - half, 0.0), min(middle + half, 1.0)


# The table

Number = Any  # a float or an array of floats


def unchanged(score: Number) -> Number:
    """A score that is the measure."""
    return score


def negated(score: Number) -> Number:
    """The measure of a score that is its negative."""
    return -score


def root_of_negated(score: Number) -> Number:
    """RMSE from the negative mean squared error."""
    return np.sqrt(np.maximum(-score, 0.0))


def complement_of_negated(score: Number) -> Number:
    """Accuracy from the negative error rate."""
    return 1.0 + score


@dataclass(frozen=True)
class Measure:
    """A measure of predictions: how it is computed, what it is called, and how it is written.

    Parameters
    ----------
    label : str
        What people call it.
    task : {"regression", "classification"}
    compute : function
        From `Predicted` to `Measured`; None if the measure does not exist for these targets, whatever
        is predicted, or without probabilities.
    form : {"percent", "decimals", "digits"}
        Written as a percentage, with three decimals, or with four significant digits.
    limits : tuple of float
        The smallest and the largest value that it can have.
    smaller : bool, default=False
        Whether smaller is better.
    criteria : dict from str to function, optional
        Names of the criteria that are this measure, each with the function from scores, of which greater
        is better, to the measure.
    on_request : bool, default=False
        Whether it is computed only if a criterion asks for it.
    """

    label: str
    task: Literal["regression", "classification"]
    compute: Callable[[Predicted], Measured | None]
    form: Literal["percent", "decimals", "digits"]
    limits: tuple[float, float]
    smaller: bool = False
    criteria: Mapping[str, Callable[[Number], Number]] = field(default_factory=dict)
    on_request: bool = False


MEASURES: dict[str, Measure] = {
    "r2": Measure(
        label="R²",
        task="regression",
        compute=r_squared,
        form="decimals",
        limits=(-math.inf, 1.0),
        criteria={"r2": unchanged},
    ),
    "rmse": Measure(
        label="RMSE",
        task="regression",
        compute=root_mean_squared_error,
        form="digits",
        limits=(0.0, math.inf),
        smaller=True,
        criteria={
            "mse": root_of_negated,
            "neg_mean_squared_error": root_of_negated,
            "neg_root_mean_squared_error": negated,
        },
    ),
    "mae": Measure(
        label="mean absolute error",
        task="regression",
        compute=mean_absolute_error,
        form="digits",
        limits=(0.0, math.inf),
        smaller=True,
        criteria={"neg_mean_absolute_error": negated},
    ),
    "mape": Measure(
        label="mean absolute percentage error",
        task="regression",
        compute=mean_absolute_percentage_error,
        form="digits",
        limits=(0.0, math.inf),
        smaller=True,
        criteria={"mape": negated, "neg_mean_absolute_percentage_error": negated},
        on_request=True,
    ),
    "accuracy": Measure(
        label="accuracy",
        task="classification",
        compute=accuracy,
        form="percent",
        limits=(0.0, 1.0),
        criteria={"error": complement_of_negated, "accuracy": unchanged},
    ),
    "balanced_accuracy": Measure(
        label="balanced accuracy",
        task="classification",
        compute=balanced_accuracy,
        form="percent",
        limits=(0.0, 1.0),
        criteria={"balanced_accuracy": unchanged},
    ),
    "f1": Measure(
        label="F1",
        task="classification",
        compute=f1_of_positives,
        form="decimals",
        limits=(0.0, 1.0),
        criteria={"f1": unchanged},
        on_request=True,
    ),
    "f1_macro": Measure(
        label="macro F1",
        task="classification",
        compute=f1_of_all,
        form="decimals",
        limits=(0.0, 1.0),
        criteria={"f1_macro": unchanged},
        on_request=True,
    ),
    "roc_auc": Measure(
        label="area under the ROC curve",
        task="classification",
        compute=area_under_curve,
        form="decimals",
        limits=(0.0, 1.0),
        criteria={"roc_auc": unchanged},
    ),
    "log_loss": Measure(
        label="log loss",
        task="classification",
        compute=log_loss,
        form="decimals",
        limits=(0.0, math.inf),
        smaller=True,
        criteria={"neg_log_loss": negated},
    ),
}


def measure_of(criterion: str | None) -> str | None:
    """The name of the measure that a criterion selects by; None if it is not a measure."""
    return next((name for name, measure in MEASURES.items() if criterion in measure.criteria), None)


# How measures are written


def interval(
    name: str, measured: Measured, weight: np.ndarray, clusters: np.ndarray | None = None
) -> dict[str, float]:
    """Value, standard error and a 95 % interval: Wilson's for shares of rows, else by Student's t.

    Shares of rows that are not independent have the interval of Student's t, too.
    """
    lowest, highest = MEASURES[name].limits
    error = measured.error(weight, clusters)
    rows = 1.0 / float(np.sum(weight**2))
    if clusters is not None:
        rows = float(np.unique(clusters[weight > 0]).size)
    half = float(student.ppf(0.975, max(rows - 1.0, 1.0))) * error
    span = measured.span if clusters is None else None
    low, high = span or (measured.value - half, measured.value + half)
    return {
        "value": min(measured.value, highest),
        "error": error,
        "low": max(low, lowest),
        "high": min(high, highest),
    }


def number(name: str | None, value: float | None) -> str:
    """A measure in words: fractions of rows as percentages, R² with three decimals.

    Four digits without a name, for the scores of criteria that are no measure.
    """
    if value is None:
        return "undefined"
    form = "digits" if name is None else MEASURES[name].form
    if form == "percent":
        return percent(value)
    return thousandths(value) if form == "decimals" else readable(value)


def error_number(name: str | None, error: float | None) -> str:
    """A standard error of the measure, with about two digits."""
    if error is None or not math.isfinite(error):
        return "undefined"
    form = "digits" if name is None else MEASURES[name].form
    if form == "percent":
        return f"{error:.1%}"
    if form == "decimals":
        return f"{error:.3f}" if error >= _SMALLEST_DECIMAL or error <= _ROUNDING else f"{error:.1g}"
    return f"{float(f'{error:.2g}'):,.10g}" if error < 1e9 else f"{error:.2g}"


def measured_words(name: str, measure: dict[str, Any]) -> str:
    """A measure with its standard error."""
    return f"{number(name, measure['value'])} ± {error_number(name, measure['error'])}"
