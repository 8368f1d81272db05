r"""Does one width of intervals mislead? Coverage of held-out rows in slices, without another fit.

With R_i = |r_i| the size of the residual of row i, predicted by the models of its fold s(i), and σ_i the
size expected at x_i by a model that has not seen R_i, or 1, row i is inside a held-out interval if

    R_i ≤ σ_i q_s(i),    q_s = the ⌈(1−a)(M+1)⌉-th smallest of the M scores R_j / σ_j outside s      (1)

so that no row helps to make the interval that it is compared with. The interval is 2 σ_i q_s(i) wide,
and its score (Gneiting and Raftery 2007, eq. 43) is

    2 σ_i q_s(i) + (2/a) max(0, R_i − σ_i q_s(i)),                                              (2)

whose expectation is least for the true quantiles.

*Slices* are tenths of the rows in the order of their prediction or of one feature, or the rows of each
value where there are few. One width misleads if intervals of (1) with σ = 1 cover clearly too little of
some slice: too little by `_SHORTFALL` or more, and with a binomial p-value below `_LEVEL` by the
inequality of Bonferroni, half of it for the slices by prediction and half for all others. This is a
hint, not a proof: a comparison with the intervals that would replace them has to follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

from onefold.calibration.intervals import upper_rank
from onefold.linalg import HostArray, Index

# Slices of a column of many values.
_PARTS = 10
# Rows of the smallest slice: fewer say little about a coverage.
_FEWEST_ROWS = 30
# The smallest slice, as a share of the rows.
_LEAST_SHARE = 0.02
# The coverage that a slice must lack before one width misleads; chosen, not measured.
_SHORTFALL = 0.05
# The level of the test over all slices. Of simulated tables of 300 rows, 45 % have normalised intervals
# if noise grows by a factor of e along a feature (18 % at a level of 0.05); with even noise 2 %.
_LEVEL = 0.2


@dataclass(frozen=True)
class Slice:
    """The rows of a column between two shares of all rows, in its order."""

    column: int | None  # None for the prediction
    target: int
    low: float
    high: float
    rows: int
    parts: int  # of its column

    def words(self, names: Sequence[str] | None) -> str:
        """Which rows these are, such as "the highest 10% of 'price'"."""
        share = f"{self.high - self.low:.0%}"
        if self.column is not None and self.parts == 2:  # such as an indicator
            value = "larger" if self.low > 0 else "smaller"
            return f"the {share} of the rows with the {value} value of {self._of(names)}"
        if self.low == 0:
            return f"the lowest {share} of {self._of(names)}"
        if self.high == 1:
            return f"the highest {share} of {self._of(names)}"
        return f"the rows between the {self.low:.0%} and {self.high:.0%} quantiles of {self._of(names)}"

    def as_dict(self, names: Sequence[str] | None) -> dict[str, Any]:
        """The same as plain values."""
        column = None if self.column is None else self._name(names)
        return {"column": column, "from": self.low, "to": self.high, "rows": self.rows}

    def _of(self, names: Sequence[str] | None) -> str:
        return "the predictions" if self.column is None else f"'{self._name(names)}'"

    def _name(self, names: Sequence[str] | None) -> str:
        return f"feature {self.column}" if names is None else str(names[self.column or 0])


@dataclass(frozen=True)
class HeldOutIntervals:
    """Intervals (1) of held-out rows."""

    covered: Any  # bool (N, targets)
    scores: Any  # (N, targets): (2)


@dataclass(frozen=True)
class Slices:
    """All slices of some rows."""

    slices: list[Slice]
    members: list[Index]  # the rows of each

    def coverage(self, intervals: HeldOutIntervals) -> HostArray:
        """The share of the rows of each slice that is inside its intervals."""
        pairs = zip(self.slices, self.members)
        return np.array([intervals.covered[rows, part.target].mean() for part, rows in pairs])

    def misleading(self, coverages: HostArray, wanted: float) -> int | None:
        """The number of the slice that is most clearly covered less than wanted; None if none is."""
        if not self.slices:
            return None
        rows = np.array([part.rows for part in self.slices])
        p_values = binom.cdf(np.round(coverages * rows), rows, wanted)
        by_prediction = np.array([part.column is None for part in self.slices])
        p_values *= 2 * np.where(by_prediction, by_prediction.sum(), (~by_prediction).sum())
        p_values[coverages > wanted - _SHORTFALL] = np.inf
        least = int(np.argmin(p_values))
        return least if p_values[least] <= _LEVEL else None


def heldout_intervals(
    residuals: HostArray, folds: Index, coverage: float, spread: HostArray | None = None
) -> HeldOutIntervals:
    """Intervals of all rows from the scores of the other folds: (1) and (2)."""
    sizes = np.abs(residuals)
    stretch = np.ones_like(sizes) if spread is None else spread
    scores = sizes / stretch
    half = np.empty_like(sizes)
    for fold in np.unique(folds):
        inside = folds == fold
        outside = scores[~inside]
        rank = upper_rank(coverage, len(outside))
        if rank > len(outside):
            half[inside] = np.inf
        else:
            half[inside] = np.partition(outside, rank - 1, axis=0)[rank - 1] * stretch[inside]
    missed = np.maximum(0.0, sizes - half)
    return HeldOutIntervals(sizes <= half, 2 * half + 2 / (1 - coverage) * missed)


def slices_of_rows(predictions: HostArray, columns: Iterable[HostArray]) -> Slices:
    """The slices of rows by their predictions (N, targets) and by each of the columns (N,)."""
    n, targets = predictions.shape
    fewest = max(_FEWEST_ROWS, int(np.ceil(_LEAST_SHARE * n)))
    slices: list[Slice] = []
    members: list[Index] = []

    def add(column: int | None, values: HostArray, of_targets: Iterable[int]) -> None:
        parts = _parts(values, min(_PARTS, n // _FEWEST_ROWS))
        for low, high, rows in parts:
            if fewest <= len(rows) < n:
                for target in of_targets:
                    slices.append(Slice(column, target, low, high, len(rows), len(parts)))
                    members.append(rows)

    for target in range(targets):
        add(None, predictions[:, target], [target])
    for number, values in enumerate(columns):
        add(number, values, range(targets))
    return Slices(slices, members)


def _parts(values: HostArray, count: int) -> list[tuple[float, float, Index]]:
    """At most `count` parts of the rows in the order of their values, equal values together."""
    if count < 2:
        return []
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])  # of runs of equal values
    n = len(values)
    if len(starts) > count:
        wanted = np.arange(count) * n / count
        starts = np.unique(starts[np.searchsorted(starts, wanted, side="right") - 1])
    stops = [*starts[1:].tolist(), n]
    return [(start / n, stop / n, order[start:stop]) for start, stop in zip(starts.tolist(), stops)]
