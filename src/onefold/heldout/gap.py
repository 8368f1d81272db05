"""A splitter for ordered data: contiguous blocks with a gap on both sides."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils.validation import _num_samples

from onefold.typing import ArrayLike, MaybeArray


class GapKFold(BaseCrossValidator):
    """Hold out contiguous blocks; the `gap` rows on either side of a block are not trained on.

    For series whose neighbouring rows resemble each other: without a gap, the rows next to a
    held-out block give its answer away.

    Parameters
    ----------
    n_splits : int, default=5
        Number of blocks; every row is held out once.
    gap : int, default=0
        Rows left out of training on each side of the block.
    """

    def __init__(self, n_splits: int = 5, gap: int = 0) -> None:
        self.n_splits = n_splits
        self.gap = gap

    def get_n_splits(self, X: MaybeArray = None, y: MaybeArray = None, groups: MaybeArray = None) -> int:
        """Number of blocks."""
        return self.n_splits

    def split(
        self, X: ArrayLike, y: MaybeArray = None, groups: MaybeArray = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (train, test) row numbers, block by block in row order."""
        n = _num_samples(X)
        if not 2 <= self.n_splits <= n:
            raise ValueError(
                f"n_splits={self.n_splits} must be at least 2 and at most the number of rows, {n}."
            )
        if self.gap < 0:
            raise ValueError(f"gap must not be negative; got {self.gap}.")
        rows = np.arange(n)
        for test in np.array_split(rows, self.n_splits):
            near = (rows >= test[0] - self.gap) & (rows <= test[-1] + self.gap)
            train = rows[~near]
            if train.size == 0:
                raise ValueError(
                    f"a gap of {self.gap} rows leaves nothing to train on; "
                    f"use a smaller gap or more than {self.n_splits} blocks."
                )
            yield train, test
