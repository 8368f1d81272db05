"""Candidates of a search arranged on the rectangle they were taken from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Any

import numpy as np

from onefold.search.ledger import within_error


@dataclass(frozen=True)
class SearchGrid:
    """Scores on a rectangle.

    Parameters
    ----------
    gammas, alphas : ndarray
        The distinct values, ascending; `gammas` is empty for a kernel without a width.
    scores : ndarray of shape (n_alphas, max(n_gammas, 1))
        NaN where there was no candidate or no finite score.
    gamma, alpha, score : float
        The chosen point; gamma is NaN where there is none.
    flat : bool ndarray like scores, or None
        Cells within one standard error of the best one, as ``select="1se"`` reckons; None where there
        are not two splits to reckon it from.
    scattered : bool
        Whether fewer than half of the rectangle were candidates: points rather than a grid.
    """

    gammas: np.ndarray
    alphas: np.ndarray
    scores: np.ndarray
    gamma: float
    alpha: float
    score: float
    flat: np.ndarray | None = None
    scattered: bool = False

    @classmethod
    def of(cls, cv_results: Mapping[str, Any], best: Mapping[str, Any] | None = None) -> SearchGrid:
        """Arrange the candidates of ``cv_results_``; `best` is the chosen one, if it's known."""
        scores = np.ma.filled(np.ma.asarray(cv_results["mean_test_score"]).astype(float), np.nan)
        if not np.isfinite(scores).any():
            raise ValueError("no candidate of this search has a finite score: nothing to draw")
        scores = np.where(np.isfinite(scores), scores, np.nan)
        alpha = _values(cv_results, "param_alpha")
        gamma = _values(cv_results, "param_gamma")
        if alpha is None:
            raise ValueError("cv_results has no param_alpha: this is not a onefold search")
        alphas, rows = np.unique(alpha, return_inverse=True)
        if gamma is None:
            gammas, columns = np.empty(0), np.zeros(len(alpha), dtype=int)
        else:
            gammas, columns = np.unique(gamma, return_inverse=True)
        holder = np.full((len(alphas), max(len(gammas), 1)), -1)
        # Where several candidates share a cell (a degree, say), the cell shows the best of them.
        upwards = np.argsort(np.where(np.isnan(scores), -np.inf, scores), kind="stable")
        holder[rows[upwards], columns[upwards]] = upwards
        rectangle = np.where(holder >= 0, scores[holder], np.nan)
        top, chosen = int(np.nanargmax(scores)), best or {}
        at_gamma = float(chosen.get("gamma", np.nan) if gamma is not None else np.nan)
        if gamma is not None and np.isnan(at_gamma):
            at_gamma = float(gamma[top])
        at_alpha = float(chosen.get("alpha", alpha[top]))
        column = 0 if gamma is None else int(np.argmin(np.abs(np.log2(gammas) - np.log2(at_gamma))))
        row = int(np.argmin(np.abs(np.log2(alphas) - np.log2(at_alpha))))
        return cls(
            gammas,
            alphas,
            rectangle,
            at_gamma,
            at_alpha,
            float(rectangle[row, column]),
            _flat(cv_results, holder),
            bool((holder >= 0).sum() < holder.size / 2),
        )


def _flat(cv_results: Mapping[str, Any], holder: np.ndarray) -> np.ndarray | None:
    """Which cells cannot be told from the best one; None without splits."""
    names = takewhile(cv_results.__contains__, (f"split{i}_test_score" for i in count()))
    splits = np.array([np.asarray(cv_results[name], dtype=float) for name in names])
    if len(splits) < 2:
        return None
    there = holder >= 0
    scores = splits.T[holder[there]]
    solved = np.isfinite(scores).all(axis=1)
    flat = np.zeros(holder.shape, dtype=bool)
    if solved.any():
        _, exponent = np.frexp(np.abs(scores[solved]).max())
        table = np.ldexp(scores[None, solved], -exponent)  # no overflow, the same digits
        inside = np.zeros(len(scores), dtype=bool)
        inside[solved] = within_error(table, (0, int(np.argmax(table.mean(axis=2)))))[0]
        flat[there] = inside
    return flat


def _values(cv_results: Mapping[str, Any], key: str) -> np.ndarray | None:
    """A parameter as floats; None if no candidate has it or it isn't one number each."""
    if key not in cv_results:
        return None
    column = np.ma.asarray(cv_results[key])
    try:
        values = np.asarray(np.ma.filled(column.astype(float), np.nan))
    except (TypeError, ValueError):
        return None
    return values if np.isfinite(values).all() and (values > 0).all() else None
