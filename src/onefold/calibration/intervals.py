r"""Conformal intervals from held-out residuals: CV+, jackknife+, split, plain or normalised.

With f_s the model of split s, r_i = y_i − f_{s(i)}(x_i) the residual of a row that it was not trained
on, R_i = |r_i|, and N residuals in all, the bounds at x for coverage 1 − a are

    lower = the ⌊a(N+1)⌋-th smallest of f_{s(i)}(x) − R_i
    upper = the ⌈(1−a)(N+1)⌉-th smallest of f_{s(i)}(x) + R_i

and infinite where there is no such rank. Normalised, R_i becomes σ_{s(i)}(x) · R_i / σ_{s(i)}(x_i).
Several splits: CV+; one row each: jackknife+; one split alone: split conformal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from onefold.calibration.order_statistics import SortedLists, quantile_ranks, upper_rank
from onefold.machine.warning import warn_user

METHODS = ("cv+", "jackknife+", "split", "normalised")
_LARGEST = 1e300


@dataclass(frozen=True)
class ConformalIntervals:
    r"""What turns the fold models' predictions at new rows into bounds and quantiles.

    Attributes
    ----------
    method : {"cv+", "jackknife+", "split", "normalised"}
    residuals : array (N, targets)
        r_i, one for every row and split that tested it.
    fold : int array (N,)
        The fold model that each comes from.
    count : int
        Number of fold models.
    spread : array (N, targets) or None
        σ_{s(i)}(x_i), greater than 0, of normalised ones; None stands for 1 everywhere.
    """

    method: str
    residuals: Any
    fold: Any
    count: int
    spread: Any = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(
                f"the method of intervals must be one of {METHODS}; got {self.method!r:.40}."
            )
        residuals, fold = self.residuals, self.fold
        if type(residuals) is not np.ndarray or residuals.ndim != 2 or not residuals.size:
            raise ValueError("residuals must be an array (rows, targets), with one row at least.")
        if residuals.dtype != np.float64 or not np.all(np.abs(residuals) <= _LARGEST):
            raise ValueError("residuals must be finite float64 numbers.")
        if type(fold) is not np.ndarray or fold.dtype.kind != "i" or fold.shape != residuals.shape[:1]:
            raise ValueError(f"fold must hold a whole number for each of {len(residuals)} residuals.")
        if type(self.count) is not int or fold.min() < 0 or fold.max() >= self.count:
            raise ValueError(f"the folds of residuals must lie below their number, {self.count!r:.40}.")
        if (self.spread is None) != (self.method != "normalised"):
            raise ValueError("normalised intervals, and no others, have a spread.")
        if self.spread is not None:
            spread = self.spread
            if type(spread) is not np.ndarray or spread.shape != residuals.shape:
                raise ValueError("spread must have a number for every residual.")
            if spread.dtype != np.float64 or not np.all((spread > 0) & (spread <= _LARGEST)):
                raise ValueError("spread must hold finite float64 numbers greater than 0.")

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return int(self.residuals.shape[1])

    @property
    def n_residuals(self) -> int:
        """N."""
        return int(self.residuals.shape[0])

    @cached_property
    def _lists(self) -> dict[str, list[SortedLists]]:
        """Sorted scores of every fold, for each target: −R, R and r, over σ where there is one."""
        scores = self.residuals if self.spread is None else self.residuals / self.spread
        sizes = {"lower": -np.abs(scores), "upper": np.abs(scores), "signed": scores}
        return {
            name: [SortedLists.of(column, self.fold, self.count) for column in values.T]
            for name, values in sizes.items()
        }

    def bounds(self, predictions: Any, coverage: float, spread: Any | None = None) -> Any:
        """Lower and upper bounds (rows, targets, 2), wider for a larger coverage.

        For a coverage below ½ the two elements may lie the other way round, where fold models differ by
        more than the residuals: there the middle of the interval for ½ is always inside.

        Parameters
        ----------
        predictions : array (rows, count, targets)
            Of every fold model.
        coverage : float
            1 − a.
        spread : array (rows, count, targets), optional
            σ of normalised intervals at the rows.
        """
        high = upper_rank(coverage, self.n_residuals)
        low = self.n_residuals + 1 - high
        found = np.empty((len(predictions), self.n_targets, 2))
        for t in range(self.n_targets):
            found[:, t, 0] = self._element("lower", low, predictions, spread, t)
            found[:, t, 1] = self._element("upper", high, predictions, spread, t)
        if coverage < 0.5:
            middle = self.bounds(predictions, 0.5, spread).mean(axis=2)
            found[:, :, 0] = np.minimum(found[:, :, 0], middle)
            found[:, :, 1] = np.maximum(found[:, :, 1], middle)
        return found

    def quantiles(self, predictions: Any, quantiles: Sequence[float], spread: Any | None = None) -> Any:
        """Order statistics of f_{s(i)}(x) + r_i, (rows, targets, quantiles); they rise with q."""
        ranks = quantile_ranks(quantiles, self.n_residuals)
        found = np.empty((len(predictions), self.n_targets, len(ranks)))
        for t in range(self.n_targets):
            for place, rank in enumerate(ranks):
                found[:, t, place] = self._element("signed", rank, predictions, spread, t)
        return found

    def _element(self, name: str, rank: int, predictions: Any, spread: Any | None, t: int) -> Any:
        """The element of a rank at every row, infinite where there is no such rank."""
        if not 1 <= rank <= self.n_residuals:
            return np.full(len(predictions), np.inf if rank > self.n_residuals else -np.inf)
        stretch = None if spread is None else spread[:, :, t]
        return self._lists[name][t].smallest(rank, predictions[:, :, t], stretch)

    def warn_if_too_few(self, shares: Sequence[float]) -> None:
        """Warn once where some of these shares of the distribution have no rank."""
        ranks = quantile_ranks(shares, self.n_residuals)
        if all(1 <= rank <= self.n_residuals for rank in ranks):
            return
        farthest = min(min(share, 1.0 - share) for share in shares)
        warn_user(
            f"{self.n_residuals} held-out residuals are too few for such bounds, which are infinite; "
            f"use {int(np.ceil(1.0 / farthest - 1e-9)) - 1} rows or more, or a smaller coverage."
        )
