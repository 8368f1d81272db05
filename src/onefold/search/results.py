"""The table of a search, in GridSearchCV's layout, and the rule that picks from it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

_TIE = 1e-10  # scores closer than this, relative to their size, count as equal


def best_cell(scores: Any, widths: Any, ridges: Any) -> tuple[int, int]:
    """Row and column of the best mean score in a table (widths, ridges).

    Ties go to the largest width gamma, then to the largest ridge alpha, never to grid order: among
    models that the criterion cannot tell apart, the most local and the most regularised one.
    """
    if not np.isfinite(scores).any():
        raise ValueError("every candidate has an undefined score; check the criterion and the data.")
    comparable = np.where(np.isfinite(scores), scores, -np.inf)
    width = _largest_of_the_best(comparable.max(axis=1), widths)
    return width, _largest_of_the_best(comparable[width], ridges)


def _largest_of_the_best(scores: Any, values: Any) -> int:
    best = scores.max()
    tied = np.flatnonzero(scores >= best - _TIE * max(1.0, abs(best)))
    return int(tied[np.argmax(np.asarray(values, dtype=float)[tied])])


def cv_results(
    gammas: list[float] | None, alphas: Any, scores: Any, seconds: Any, splits: bool
) -> dict[str, Any]:
    """GridSearchCV's ``cv_results_`` for scores of shape (widths, ridges, splits).

    Candidates come in GridSearchCV's order, gamma running fastest. Times are those of a width,
    shared equally among its ridges and splits: one factorisation served them all.
    """
    widths, ridges, n_splits = scores.shape
    params = [
        {"alpha": float(alpha)} | ({} if gammas is None else {"gamma": gammas[g]})
        for alpha in alphas
        for g in range(widths)
    ]
    flat = scores.transpose(1, 0, 2).reshape(widths * ridges, n_splits)
    share = np.tile(np.asarray(seconds, dtype=float) / (ridges * n_splits), ridges)
    zeros = np.zeros(len(params))
    table: dict[str, Any] = {
        "mean_fit_time": share,
        "std_fit_time": zeros,
        "mean_score_time": zeros.copy(),
        "std_score_time": zeros.copy(),
    }
    for name in params[0]:
        column = np.ma.MaskedArray(np.array([p[name] for p in params]), mask=False)
        table[f"param_{name}"] = column
    table["params"] = params
    if splits:
        table |= {f"split{i}_test_score": flat[:, i].copy() for i in range(n_splits)}
    means = flat.mean(axis=1)
    table["mean_test_score"] = means
    table["std_test_score"] = flat.std(axis=1)
    # As in GridSearchCV: ties share the smaller rank, undefined scores come last.
    order = np.where(np.isnan(means), np.nanmin(means) - 1 if not np.isnan(means).all() else 0, means)
    table["rank_test_score"] = rankdata(-order, method="min").astype(np.int32)
    return table
