"""Candidates of a search arranged on the rectangle they were taken from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


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
    scattered : bool
        Whether fewer than half of the rectangle were candidates: points rather than a grid.
    """

    gammas: np.ndarray
    alphas: np.ndarray
    scores: np.ndarray
    gamma: float
    alpha: float
    score: float
    scattered: bool = False

    @classmethod
    def of(cls, cv_results: Mapping[str, Any], best: Mapping[str, float] | None = None) -> SearchGrid:
        """Arrange the candidates of ``cv_results_``; `best` is the chosen one, if it's known."""
        scores = np.ma.filled(np.ma.asarray(cv_results["mean_test_score"]).astype(float), np.nan)
        if not np.isfinite(scores).any():
            raise ValueError("no candidate of this search has a finite score: nothing to draw")
        alpha = _values(cv_results, "param_alpha")
        gamma = _values(cv_results, "param_gamma")
        if alpha is None:
            raise ValueError("cv_results has no param_alpha: this is not a onefold search")
        alphas, rows = np.unique(alpha, return_inverse=True)
        if gamma is None:
            gammas, columns = np.empty(0), np.zeros(len(alpha), dtype=int)
        else:
            gammas, columns = np.unique(gamma, return_inverse=True)
        rectangle = np.full((len(alphas), max(len(gammas), 1)), np.nan)
        # Where several candidates share a cell (a degree, say), the cell shows the best of them.
        np.fmax.at(rectangle, (rows, columns), np.where(np.isfinite(scores), scores, np.nan))
        top = int(np.nanargmax(np.where(np.isfinite(scores), scores, np.nan)))
        chosen = best or {}
        at_gamma = float(chosen.get("gamma", np.nan if gamma is None else gamma[top]))
        at_alpha = float(chosen.get("alpha", alpha[top]))
        column = 0 if gamma is None else int(np.argmin(np.abs(gammas - at_gamma)))
        row = int(np.argmin(np.abs(alphas - at_alpha)))
        score = float(rectangle[row, column])
        scattered = len(set(zip(rows.tolist(), columns.tolist()))) < rectangle.size / 2
        return cls(gammas, alphas, rectangle, at_gamma, at_alpha, score, scattered)


def exponent_label(value: float) -> str:
    """A value as a power of two: ``2⁻³`` in mathtext, with one decimal where it isn't whole."""
    exponent = np.log2(value)
    rounded = round(exponent)
    return f"$2^{{{rounded if abs(exponent - rounded) < 1e-6 else format(exponent, '.1f')}}}$"


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
