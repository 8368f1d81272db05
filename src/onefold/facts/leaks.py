"""Columns that tell the target all by themselves: often the target again under another name.

Each column alone is given a simple model: a small tree over its numbers, or the mean or most frequent
class of each of its categories, learned on every other row and tried on the rest. What looks at all rows
at once, ranks and few intervals, counts only where it leaves next to nothing open: it finds copies of
the target among few rows, and would flatter any other column.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

UNEXPLAINED = 0.02  # of the target, left by a column that tells too much; |correlation| 0.99
MOST_VALUES = 1_000_000  # looked at; of larger tables, rows at equal distances
FEWEST_ROWS = 30
_FEWEST_ERRORS = 8  # of a constant prediction: with fewer there is nothing to explain
_LEAVES = 64


def left_by_numbers(x: np.ndarray, y: np.ndarray, numbers: bool) -> float:
    """The share of a constant prediction's loss that a column of finite numbers leaves open.

    `y` holds `numbers`, or codes 0, 1, … of classes. O(n log n).
    """
    column = x[:, None]
    if not numbers:
        # Two intervals for each class are too few to learn rows by heart.
        tree = DecisionTreeClassifier(max_leaf_nodes=2 * (int(y.max()) + 1), random_state=0)
        predicted = tree.fit(column, y).predict(column)
        whole = _left_open(lambda seen, unseen: predicted[unseen], y, numbers)
    else:
        tree = DecisionTreeRegressor(max_leaf_nodes=_LEAVES, random_state=0)
        ranks = np.unique(x, return_inverse=True)[1], np.unique(y, return_inverse=True)[1]
        whole = 1.0 - _correlation(*ranks) ** 2
    if whole <= UNEXPLAINED:
        return whole
    left = _left_open(
        lambda seen, unseen: np.asarray(tree.fit(column[seen], y[seen]).predict(column[unseen])),
        y,
        numbers,
    )
    return min(left, 1.0 - _correlation(x, y) ** 2) if numbers else left


def left_by_groups(groups: np.ndarray, y: np.ndarray, numbers: bool) -> float:
    """The same for a column of categories, given as codes 0, 1, …; O(n)."""
    answers = _means if numbers else _modes

    def predict(seen: slice, unseen: slice) -> np.ndarray:
        return answers(groups[seen], y[seen], int(groups.max()) + 1)[groups[unseen]]

    return _left_open(predict, y, numbers)


def _left_open(predict: Callable[[slice, slice], np.ndarray], y: np.ndarray, numbers: bool) -> float:
    """The share of a constant prediction's loss that is left, on rows the model has not seen."""
    loss = constant = 0.0
    for half in (0, 1):
        seen, unseen = slice(half, None, 2), slice(1 - half, None, 2)
        predicted, truth = predict(seen, unseen), y[unseen]
        if numbers:
            loss += float(np.sum((predicted - truth) ** 2))
            constant += float(np.sum((y[seen].mean() - truth) ** 2))
        else:
            loss += float(np.sum(predicted != truth))
            constant += float(np.sum(np.bincount(y[seen]).argmax() != truth))
    if constant == 0 or (not numbers and constant < _FEWEST_ERRORS):
        return 1.0
    return loss / constant


def _means(groups: np.ndarray, y: np.ndarray, count: int) -> np.ndarray:
    rows = np.bincount(groups, minlength=count)
    sums = np.bincount(groups, weights=y, minlength=count)
    return np.where(rows > 0, sums / np.maximum(rows, 1), y.mean())


def _modes(groups: np.ndarray, y: np.ndarray, count: int) -> np.ndarray:
    table = np.zeros((count, int(y.max()) + 1), dtype=np.intp)
    np.add.at(table, (groups, y), 1)
    common = int(np.bincount(y).argmax())
    modes: np.ndarray = np.where(table.sum(axis=1) > 0, table.argmax(axis=1), common)
    return modes


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt(np.sum(a * a) * np.sum(b * b)))
    return float(np.sum(a * b)) / size if size > 0 else 0.0
