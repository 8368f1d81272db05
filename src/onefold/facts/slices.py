r"""Where the model is least accurate: slices of rows whose mean loss is larger than that of the others.

A slice is a category of a column, a quantile of its numbers, or the rows where it has no value. Each is
compared with all other rows by Welch's t; of all slices looked at, those are kept that Holm's procedure
finds worse at level 0.05, so that a table without any bad slice shows one in twenty times at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import t as student

from onefold.facts.data import Column

_LEVEL = 0.05
_FEWEST_ROWS, _LEAST_SHARE = 30, 0.02
_QUANTILES = 5
_FEW_VALUES = 8  # numbers of which each is a slice of its own
_MOST_CATEGORIES = 50
_SHOWN = 8


def weak_slices(columns: Sequence[Column], loss: np.ndarray) -> dict[str, Any]:
    """Slices with significantly larger mean loss, the largest difference first; O(columns · n log n).

    `loss` (n,) is NaN for rows that have none, which are left out.
    """
    has = np.isfinite(loss)
    loss, n = loss[has], int(has.sum())
    fewest = max(_FEWEST_ROWS, int(np.ceil(_LEAST_SHARE * n)))
    looked: list[dict[str, Any]] = []
    for column in columns:
        part = Column(column.name, column.values[has], column.categories, column.date)
        for words, inside in slices_of(part):
            rows = int(inside.sum())
            if fewest <= rows <= n - _FEWEST_ROWS:
                found = {"column": column.name, "where": words, "rows": rows, "share": rows / n}
                looked.append(found | _compared(loss[inside], loss[~inside]))
    worse = [looked[i] for i in _holm([one["p"] for one in looked])]
    worse.sort(key=lambda one: -float(one["difference"]))
    return {
        "looked": len(looked),
        "overall": float(loss.mean()) if n else float("nan"),
        "found": worse[:_SHOWN],
        "more": max(0, len(worse) - _SHOWN),
        "fewest_rows": fewest,
    }


def slices_of(column: Column) -> Iterator[tuple[str, np.ndarray]]:
    """Each slice of a column in words, with a mask of its rows."""
    absent = column.absent
    if absent.any():
        yield "missing", absent
    values, counts = np.unique(column.values[~absent], return_counts=True)
    if column.categories is not None:
        values = values[np.argsort(-counts, kind="stable")][:_MOST_CATEGORIES]
    elif len(values) > _FEW_VALUES:
        inner = np.quantile(column.values[~absent], np.arange(1, _QUANTILES) / _QUANTILES)
        for low, high in pairwise(np.unique([-np.inf, *inner, np.inf]).tolist()):
            words = f"≤ {column.words(high)}" if low == -np.inf else f"> {column.words(low)}"
            if -np.inf < low and high < np.inf:
                words = f"{column.words(low)} to {column.words(high)}"
            yield words, (column.values > low) & (column.values <= high)
        return
    elif len(values) == 1:
        return
    for value in values:
        yield f"= {column.words(value)}", column.values == value


def largest(loss: np.ndarray, count: int = 5) -> list[int]:
    """Numbers of the rows with the largest loss, the largest first."""
    order = np.argsort(np.where(np.isfinite(loss), -loss, np.inf), kind="stable")
    return [int(i) for i in order[: min(count, int(np.isfinite(loss).sum()))]]


def _compared(inside: np.ndarray, outside: np.ndarray) -> dict[str, float]:
    """Mean loss of the slice and of the rest, and Welch's one-sided p of their difference."""
    means, parts = (inside.mean(), outside.mean()), (inside, outside)
    variances = [part.var(ddof=1) / len(part) for part in parts]
    difference, error = float(means[0] - means[1]), float(np.sqrt(sum(variances)))
    if error > 0:
        degrees = sum(variances) ** 2 / sum(v**2 / (len(p) - 1) for v, p in zip(variances, parts))
        p = float(student.sf(difference / error, degrees))
    else:
        p = 0.0 if difference > 0 else 1.0
    return {"loss": float(means[0]), "rest": float(means[1]), "difference": difference, "p": p}


def _holm(p: Sequence[float]) -> list[int]:
    """Which of several hypotheses Holm's step-down procedure rejects."""
    kept = []
    for place, i in enumerate(np.argsort(p, kind="stable")):
        if p[i] * (len(p) - place) > _LEVEL:
            break
        kept.append(int(i))
    return kept
