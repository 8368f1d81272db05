"""Five sets of rows, for work that needs folds where the splits of a search give none."""

from __future__ import annotations

import numpy as np

from onefold.linalg import Index

# The number of folds: that of scikit-learn's cv=None.
FIFTHS = 5


def interleaved_fifths(rows: Index) -> list[Index]:
    """Every fifth of the rows, in their order; fewer sets where there are fewer rows."""
    return [rows[start::FIFTHS] for start in range(min(FIFTHS, len(rows)))]


def consecutive_fifths(n: int) -> list[Index]:
    """The rows 0 … n − 1 in five blocks of nearly the same size; fewer where there are fewer rows."""
    return list(np.array_split(np.arange(n), min(FIFTHS, n)))
