r"""Where the model is worst: slices of rows whose mean loss is larger than that of the other rows.

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

from onefold.report.columns import Column

_LEVEL = 0.05
_FEWEST_ROWS, _LEAST_SHARE = 30, 0.02
_QUANTILES = 5
_FEW_VALUES = 8  # numbers of which each is a slice of its own
_MOST_CATEGORIES = 50
_SHOWN = 8


def fewest_rows(n: int) -> int:
    """The smallest slice that is looked at."""
    return max(_FEWEST_ROWS, int(np.ceil(_LEAST_SHARE * n)))


def worst_slices(columns: Sequence[Column], loss: np.ndarray) -> dict[str, Any]:
    """Slices with significantly larger mean loss, the largest difference first; O(columns · n log n).

    Parameters
    ----------
    columns : sequence of Column
    loss : ndarray (n,)
        Of each row; NaN for rows that have none, which are left out.
    """
    has = np.isfinite(loss)
    loss = loss[has]
    n = len(loss)
    looked: list[dict[str, Any]] = []
    for column in columns:
        for words, inside in slices_of(column.at(has)):
            rows = int(inside.sum())
            if fewest_rows(n) <= rows <= n - _FEWEST_ROWS:
                found = {"column": column.name, "where": words, "rows": rows, "share": rows / n}
                looked.append(found | _compared(loss[inside], loss[~inside]))
    worse = [looked[i] for i in _holm([one["p"] for one in looked])]
    worse.sort(key=lambda one: -float(one["difference"]))
    return {
        "looked": len(looked),
        "overall": float(loss.mean()) if n else float("nan"),
        "found": worse[:_SHOWN],
        "more": max(0, len(worse) - _SHOWN),
        "fewest_rows": fewest_rows(n),
    }


def slices_of(column: Column) -> Iterator[tuple[str, np.ndarray]]:
    """Each slice of a column in words, with a mask of its rows."""
    absent = column.absent
    if absent.any():
        yield "missing", absent
    if column.categories is not None:
        codes, counts = np.unique(column.values[~absent], return_counts=True)
        for code in codes[np.argsort(-counts, kind="stable")][:_MOST_CATEGORIES]:
            yield f"= {column.categories[int(code)]}", column.values == code
        return
    present = column.values[~absent]
    values = np.unique(present)
    if len(values) <= 1:
        return
    if len(values) <= _FEW_VALUES:
        for value in values:
            yield f"= {value:.6g}", column.values == value
        return
    inner = np.quantile(present, np.arange(1, _QUANTILES) / _QUANTILES)
    edges = np.unique([-np.inf, *inner, np.inf])
    for low, high in pairwise(edges):
        yield _between(float(low), float(high)), (column.values > low) & (column.values <= high)


def worst_rows(loss: np.ndarray, count: int = 5) -> list[int]:
    """Numbers of the rows with the largest loss, the largest first."""
    order = np.argsort(np.where(np.isfinite(loss), -loss, np.inf), kind="stable")
    return [int(i) for i in order[: min(count, int(np.isfinite(loss).sum()))]]


def _between(low: float, high: float) -> str:
    if low == -np.inf:
        return f"≤ {high:.4g}"
    return f"> {low:.4g}" if high == np.inf else f"{low:.4g} to {high:.4g}"


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
