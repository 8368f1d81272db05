r"""Moments and medians of numbers that come in blocks of rows.

Moments add: with n rows, mean m and S = Σ (x − m)² of two blocks,

    m = m₁ + δ n₂/n,    S = S₁ + S₂ + δ² n₁ n₂/n,    δ = m₂ − m₁

Each column is measured in a unit, a power of two near its largest value, so that no square over- or
underflows.

Medians are those of sorted buffers of k values, two of one level merged into one of the next by keeping
every second value (Munro and Paterson): exact for up to k values, and for n of them within a rank of
L n/(2k), L = log₂(n/k). Memory for L buffers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

ROUNDING = 1e-13  # of its mean: a spread below it makes a column constant
SIZE = 1 << 14  # values of a buffer


@dataclass(frozen=True)
class ColumnMoments:
    """Of `n` rows: a unit for every column and, in it, the mean and the squares about the mean."""

    n: int
    unit: Any
    mean: Any
    squares: Any

    @classmethod
    def of(cls, values: Any) -> ColumnMoments:
        """Of a block (rows, columns) of finite numbers."""
        n, d = values.shape
        if n == 0:
            return cls(0, np.zeros(d), np.zeros(d), np.zeros(d))
        top = np.maximum(np.abs(values).max(axis=0), np.finfo(float).tiny)
        unit = np.ldexp(1.0, np.frexp(top)[1] - 1)
        scaled = values / unit
        mean = scaled.mean(axis=0)
        return cls(n, unit, mean, ((scaled - mean) ** 2).sum(axis=0))

    def joined(self, other: ColumnMoments) -> ColumnMoments:
        """Of both sets of rows."""
        if not (self.n and other.n):
            return self if self.n else other
        unit, n = np.maximum(self.unit, other.unit), self.n + other.n
        mine, theirs = self.unit / unit, other.unit / unit
        shift = other.mean * theirs - self.mean * mine
        squares = self.squares * mine**2 + other.squares * theirs**2 + shift**2 * (self.n * other.n / n)
        return ColumnMoments(n, unit, self.mean * mine + shift * (other.n / n), squares)

    def times(self, count: int) -> ColumnMoments:
        """Of every row `count` times."""
        if count == 0:
            return ColumnMoments(0, 0 * self.unit, 0 * self.mean, 0 * self.squares)
        return ColumnMoments(count * self.n, self.unit, self.mean, count * self.squares)

    def mean_and_scale(self) -> tuple[Any, Any]:
        """Mean, and standard deviation: 0 for a constant column."""
        deviation = np.sqrt(self.squares / max(1, self.n))
        varies = (deviation > ROUNDING * np.abs(self.mean)) & (
            deviation * self.unit >= np.finfo(float).tiny
        )
        return self.mean * self.unit, np.where(varies, deviation * self.unit, 0.0)


class MedianSketch:
    """The median of all values added so far."""

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._loose: np.ndarray = np.empty(0)
        self._levels: dict[int, np.ndarray] = {}
        self.exact = True

    def add(self, values: np.ndarray) -> None:
        """Take a block of finite numbers; the first block stays exact, however long it is."""
        if not self._levels and not self._loose.size:
            self._loose = values
            return
        self._loose = np.concatenate([self._loose, values])
        while self._loose.size > self._size:
            self.exact = False
            full, self._loose = self._loose[: self._size], self._loose[self._size :]
            self._keep(np.sort(full), 0)

    def value(self) -> float:
        """The median; NaN of no values."""
        parts = [(self._loose, 1.0)] + [(kept, 2.0**level) for level, kept in self._levels.items()]
        values = np.concatenate([kept for kept, _ in parts])
        if not values.size:
            return float("nan")
        if self.exact:
            return float(np.median(values))
        order = np.argsort(values, kind="stable")
        ranks = np.cumsum(np.concatenate([np.full(kept.size, w) for kept, w in parts])[order])
        return float(values[order][np.searchsorted(ranks, ranks[-1] / 2)])

    def _keep(self, values: np.ndarray, level: int) -> None:
        """Store a sorted buffer, merging it with one of its level."""
        other = self._levels.pop(level, None)
        if other is None:
            self._levels[level] = values
            return
        merged = np.sort(np.concatenate([values, other]), kind="stable")
        # Levels take turns in which half they keep, so that their errors do not add up.
        self._keep(merged[level % 2 :: 2], level + 1)
