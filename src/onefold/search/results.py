"""The table of a search, in GridSearchCV's layout, and the rule that picks from it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

_TIE = 1e-10  # of the scores' spread: closer ones count as equal
_ROUNDING = 1e-12  # of the best score's size: what is left of its digits after summing over rows


def best_cell(scores: Any, widths: Any, ridges: Any) -> tuple[int, int]:
    """Row and column of the best mean score in a table (widths, ridges).

    Ties go to the largest width gamma, then to the largest ridge alpha, never to grid order: among
    models that the criterion cannot tell apart, the most local and the most regularised one. What counts
    as a tie follows the scores' own spread: the choice is that of the scores times any constant.
    """
    if not np.isfinite(scores).any():
        raise ValueError("every candidate has an undefined score; check the criterion and the data.")
    comparable = np.where(np.isfinite(scores), scores, -np.inf)
    widths, ridges = np.asarray(widths, dtype=float), np.asarray(ridges, dtype=float)
    tied = comparable >= comparable.max() - tie_tolerance(scores)
    columns = np.flatnonzero(tied.any(axis=1))
    columns = columns[widths[columns] == widths[columns].max()]
    cells = [(int(c), int(r)) for c in columns for r in np.flatnonzero(tied[c])]
    return max(cells, key=lambda cell: ridges[cell[1]])  # the first of equals


def tie_tolerance(scores: Any) -> float:
    """How far below the best a score may lie and still be tied with it.

    The spread is that of the best tenth of the table: hopeless candidates, whose scores know no
    bounds, have no say in it.
    """
    finite = np.asarray(scores)[np.isfinite(scores)]
    best = float(finite.max())
    return _TIE * (best - float(np.quantile(finite, 0.9))) + _ROUNDING * abs(best)


def within_error(scores: Any, best: tuple[int, int]) -> Any:
    r"""Which cells of a table (widths, ridges, splits) cannot be told from the best one, a mask.

        d_s = score_s(best) − score_s(cell),    mean d ≤ √( Σ_s (d_s − mean d)² / (k (k − 1)) )

    over k splits. The difference is paired: what makes a split hard for all cells cancels.
    """
    with np.errstate(invalid="ignore"):
        difference = scores[best] - scores
        size = np.max(np.abs(difference), axis=2)
        unit = np.where(np.isfinite(size) & (size > 0), size, 1.0)  # squares stay in float64's range
        difference = difference / unit[..., None]
        error = difference.std(axis=2, ddof=1) / np.sqrt(scores.shape[2])
        return unit * difference.mean(axis=2) <= unit * error + tie_tolerance(scores.mean(axis=2))


def deviation(scores: Any, axis: int) -> Any:
    """Their standard deviation, also where its square would leave the range of float64."""
    size = np.max(np.abs(scores), axis=axis, keepdims=True)
    unit = np.where(np.isfinite(size) & (size > 0), size, 1.0)
    return np.squeeze(unit, axis=axis) * np.std(scores / unit, axis=axis)


class GridEdgeWarning(UserWarning):
    """The best value is the last one tried: there may be better beyond."""


def edges(results: dict[str, Any], best: int) -> list[str]:
    """What the search chose at the end of its range, and for a reason: "smallest alpha", say.

    A plateau that reaches the end is none: the next value inside must score worse, by more than a tie.
    Only cells of the same family, metric and round are compared, and the widths of later rounds, which
    move with every round, have no end.
    """
    scores = results["mean_test_score"]
    same = np.ones(len(scores), dtype=bool)
    for name in ("kernel", "metric", "round"):
        column = results.get(f"param_{name}")
        same &= True if column is None else np.asarray(column == column[best])
    found = []
    for name in ("gamma", "alpha"):
        later = "param_round" in results and results["param_round"][best] > 0
        if f"param_{name}" not in results or (name == "gamma" and later):
            continue
        values = np.ma.filled(results[f"param_{name}"].astype(float), np.nan)
        tried, chosen = np.unique(values[np.isfinite(values)]), values[best]
        nearby = np.unique(values[same & np.isfinite(values)])
        if tried.size < 3 or nearby.size < 2 or chosen not in (tried[0], tried[-1]):
            continue
        inside = scores[same & (values == (nearby[1] if chosen == tried[0] else nearby[-2]))]
        if not np.any(inside >= scores[best] - tie_tolerance(scores)):
            found.append(f"{'smallest' if chosen == tried[0] else 'largest'} {name}")
    return found


def cv_results(
    models: list[dict[str, Any]], alphas: Any, scores: Any, seconds: Any, tried: Any, splits: bool
) -> dict[str, Any]:
    """GridSearchCV's ``cv_results_`` for scores of shape (models, ridges, splits).

    `models` names each model: its gamma, and what else tells it from others. Candidates come in
    GridSearchCV's order, alpha running slowest, and only those that were `tried` (models, ridges).
    `seconds` are those of a model's ridge, shared equally among its splits: one factorisation served
    them all.
    """
    n_splits, flat_tried = scores.shape[2], tried.T.reshape(-1)
    cells = [(alpha, number) for alpha in alphas for number in range(len(models))]
    cells = [cell for cell, there in zip(cells, flat_tried) if there]
    params = [{"alpha": float(alpha), **models[number]} for alpha, number in cells]
    share = np.array([seconds[number] / n_splits for _, number in cells])
    zeros = np.zeros(len(params))
    table: dict[str, Any] = {
        "mean_fit_time": share,
        "std_fit_time": zeros,
        "mean_score_time": zeros.copy(),
        "std_score_time": zeros.copy(),
    }
    for name in dict.fromkeys(name for one in params for name in one):
        table[f"param_{name}"] = _column([one.get(name) for one in params])
    table["params"] = params
    return table | score_columns("score", scores, tried, splits)


def score_columns(name: str, scores: Any, tried: Any, splits: bool) -> dict[str, Any]:
    """The columns of one criterion, from its scores of shape (models, ridges, splits)."""
    flat = scores.transpose(1, 0, 2).reshape(-1, scores.shape[2])[tried.T.reshape(-1)]
    table: dict[str, Any] = {}
    if splits:
        table |= {f"split{i}_test_{name}": flat[:, i].copy() for i in range(flat.shape[1])}
    means = flat.mean(axis=1)
    table[f"mean_test_{name}"] = means
    table[f"std_test_{name}"] = deviation(flat, axis=1)
    # As in GridSearchCV: ties share the smaller rank, undefined scores come last.
    order = np.where(np.isnan(means), np.nanmin(means) - 1 if not np.isnan(means).all() else 0, means)
    table[f"rank_test_{name}"] = rankdata(-order, method="min").astype(np.int32)
    return table


def _column(values: list[Any]) -> Any:
    """A parameter of every candidate, masked where a candidate has none, as in GridSearchCV."""
    missing = [value is None for value in values]
    known = next(value for value in values if value is not None)
    filled = [known if value is None else value for value in values]
    return np.ma.MaskedArray(np.array(filled), mask=missing if any(missing) else False)
