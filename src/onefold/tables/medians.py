r"""Medians of numbers that come in blocks.

Sorted buffers of k values, two of one level merged into one of the next by keeping every second value
(Munro and Paterson): exact for up to k values, and for n of them within a rank of L n/(2k), L =
log₂(n/k). Memory for L buffers.
"""

from __future__ import annotations

import numpy as np

SIZE = 1 << 14


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
