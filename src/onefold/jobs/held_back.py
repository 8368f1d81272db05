"""Rows that are kept away from tuning, and how good the finished model is on them.

They are held back before anything is learned, the preparation included. The model that is saved is the
one that is scored: it is not fitted again on all rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedShuffleSplit

from onefold.jobs.settings import Settings
from onefold.tables import (
    TableError,
    TableModel,
    TableRows,
    TableSource,
    Target,
    learn_target,
    open_table,
    rows_of_frame,
)
from onefold.tables.beside import groups_in, weights_in
from onefold.tables.target import read_target

Blocks = Callable[[], Iterable[TableRows]]


def split_rows(rows: TableRows, settings: Settings) -> tuple[TableRows, Blocks | None]:
    """The rows to tune on, and those that are held back, if any are."""
    held = held_back_mask(rows, settings)
    if held is None:
        return rows, None
    kept, back = rows.take(np.flatnonzero(~held)), rows.take(np.flatnonzero(held))
    return kept, lambda: [back]


def held_back_mask(beside: TableRows, settings: Settings) -> np.ndarray | None:
    """Which rows are held back; None where no share was named.

    The last ones of ordered rows, whole groups, or random ones of each class.
    """
    share = settings.holdout
    if share is None:
        return None
    n = len(beside)
    target = learn_target(beside, settings.target, settings.task)
    count = min(max(1, round(share * n)), n - 1)
    if n < 2:
        raise TableError("a share of the rows can't be held back from a table of one row")
    mask = np.zeros(n, dtype=bool)
    if settings.ordered:
        mask[n - count :] = True
        return mask
    rows, seed = np.zeros((n, 1)), settings.seed
    if settings.groups is not None:
        groups = groups_in(beside, settings.groups)
        split: Any = GroupShuffleSplit(1, test_size=share, random_state=seed)
        return _marked(mask, split.split(rows, None, groups))
    labels = target.values if target.task == "classification" else None
    if labels is not None:
        classes, counts = np.unique(labels, return_counts=True)
        if counts.min() >= 2 and len(classes) <= count <= n - len(classes):
            split = StratifiedShuffleSplit(1, test_size=count, random_state=seed)
            return _marked(mask, split.split(rows, labels))
    return _marked(mask, ShuffleSplit(1, test_size=count, random_state=seed).split(rows))


def measures_on(
    model: TableModel,
    target: Target,
    blocks: Iterable[Any],
    weight_column: str | None = None,
    weight: np.ndarray | None = None,
) -> dict[str, Any]:
    """How good a model is on rows that it has not seen, next to a constant prediction.

    The constant is that of the rows it was tuned on: their most frequent class, or their mean.
    Rows count with the weights in `weight_column`, if their table has it, and those that the model was
    tuned on with `weight`.

    Returns
    -------
    dict
        ``rows``; ``accuracy`` with ``standard_error`` and ``baseline_accuracy`` of always answering
        ``baseline_class``, and ``balanced_accuracy``; or ``rmse`` with its ``standard_error``,
        ``baseline_rmse`` and ``r2``, the share of the constant's squared error that is gone.
    """
    known = getattr(model, "classes_", None)
    truths, answers, counts = [], [], []
    for block in blocks:
        weighed = weight_column if weight_column in block.names else None
        beside = (target.name,) if weighed is None else (target.name, weighed)
        for rows, predicted in model.predict_blocks(block, beside=beside):
            truths.append(read_target(rows, target.name, target.task, known))
            answers.append(predicted)
            counts.append(np.ones(len(rows)) if weighed is None else weights_in(rows, weighed))
    if not truths:
        raise TableError("the table to test on has no rows")
    y, predicted, count = (np.concatenate(parts) for parts in (truths, answers, counts))
    if target.task == "regression":
        return _of_numbers(y, predicted, count, float(np.average(target.values, weights=weight)))
    labels, codes = np.unique(target.values, return_inverse=True)
    return _of_labels(y, predicted, count, labels[np.bincount(codes, weight).argmax()])


def rows_to_test(
    settings: Settings, model: TableModel, held_back: Blocks | None
) -> Iterable[Any] | None:
    """The rows to test on: those held back, or another table; None if there are none."""
    if held_back is not None:
        return held_back()
    if settings.test is None:
        return None
    return [checked_test(settings, model.reading_)]


def checked_test(settings: Settings, reading: Any = None) -> TableSource | TableRows:
    """The table to test on, which must have the target column."""
    given = settings.test
    source = open_table(given, reading) if isinstance(given, str | Path) else given
    table = source if isinstance(source, TableSource) else rows_of_frame(source)
    table.require(settings.target, "target")
    return table


def _marked(mask: np.ndarray, splits: Iterator[Any]) -> np.ndarray:
    mask[next(splits)[1]] = True
    return mask


def _mean(values: np.ndarray, count: np.ndarray) -> tuple[float, float]:
    """A weighted mean and its standard error."""
    mean = float(np.average(values, weights=count))
    return mean, float(np.linalg.norm(count * (values - mean)) / count.sum())


def _of_numbers(
    y: np.ndarray, predicted: np.ndarray, count: np.ndarray, constant: float
) -> dict[str, Any]:
    loss, error = _mean((y - predicted) ** 2, count)
    baseline, _ = _mean((y - constant) ** 2, count)
    rmse = math.sqrt(loss)
    return {
        "rows": len(y),
        "rmse": rmse,
        "standard_error": error / (2.0 * rmse) if rmse > 0 else 0.0,  # of a root
        "baseline_rmse": math.sqrt(baseline),
        "r2": 1.0 - rmse**2 / baseline if baseline > 0 else math.nan,
    }


def _of_labels(y: np.ndarray, predicted: np.ndarray, count: np.ndarray, constant: Any) -> dict[str, Any]:
    right = np.asarray([one == other for one, other in zip(y.tolist(), predicted.tolist())], dtype=float)
    share, error = _mean(right, count)
    labels = np.unique(y.astype(str) if y.dtype.kind == "O" else y)
    of_class = {str(label): y == label for label in labels}
    recall = {
        label: _mean(right[rows], count[rows])[0] for label, rows in of_class.items() if rows.any()
    }
    always = np.asarray([one == constant for one in y.tolist()], dtype=float)
    return {
        "rows": len(y),
        "accuracy": share,
        "standard_error": error,
        "baseline_accuracy": _mean(always, count)[0],
        "baseline_class": constant.item() if hasattr(constant, "item") else constant,
        "balanced_accuracy": float(np.mean(list(recall.values()))) if recall else share,
        "recall": recall,
    }
