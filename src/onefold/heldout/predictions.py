"""Held-out predictions of a model for every split and every μ, in blocks of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from onefold.approximations import Model
from onefold.heldout.splits import Splits
from onefold.linalg import HostArray, to_numpy

HeldoutBlock = tuple[int, Any, Any]
"""Number of an array of ``splits.predicted``, positions in it (slice or whole numbers), and the
values (μ, rows, targets) there."""


def heldout_blocks(model: Model, splits: Splits, alphas: Any) -> Iterator[HeldoutBlock]:
    """f(x) for the rows of ``splits.predicted``, from models that were not trained on them.

    In the problem's units, in the model's array library, in an order that is always the same.
    """
    if splits.leave_one_out:
        return iter([(0, slice(None), model.leave_one_out(alphas))])
    return model.heldout_blocks(splits.left_out, alphas)


def whole_parts(blocks: Iterable[HeldoutBlock], splits: Splits) -> list[HostArray]:
    """The blocks put together: a NumPy array (μ, rows, targets) per entry of ``splits.predicted``."""
    found: list[Any] = [None] * len(splits.predicted)
    for part, positions, values in blocks:
        values, size = to_numpy(values), len(splits.predicted[part])
        if values.shape[1] == size and isinstance(positions, slice):
            found[part] = values
            continue
        if found[part] is None:
            found[part] = np.empty((values.shape[0], size, values.shape[2]))
        found[part][:, positions] = values
    return found


def gather(blocks: Iterable[HeldoutBlock], splits: Splits, number: int = 0) -> HostArray:
    """One held-out prediction per row (rows, targets): the mean over splits, NaN where never tested.

    `number` is that of the μ among those of the blocks.
    """
    of_blocks = []
    for part, positions, values in blocks:
        rows, found = splits.predicted[part][positions], to_numpy(values[number, ...])
        if not splits.leave_one_out and splits.tests[part] is not splits.left_out[part]:
            times = splits.times_tested[part][positions]
            rows, found = np.repeat(rows, times), np.repeat(found, times, axis=0)
        of_blocks.append((rows, found))
    if splits.repeated:
        every, values = (np.concatenate(one) for one in zip(*of_blocks))
        return mean_by_row(every, values, splits.n)
    whole = np.full((splits.n, of_blocks[0][1].shape[1]), np.nan)
    for rows, found in of_blocks:
        whole[rows] = found
    return whole


def mean_by_row(rows: HostArray, values: HostArray, n: int) -> HostArray:
    """The mean (n, columns) of values (N, columns) of the same row; NaN for rows that have none."""
    with np.errstate(invalid="ignore"):
        sums = [np.bincount(rows, column, n) for column in values.T]
        return np.stack(sums, axis=1) / np.bincount(rows, minlength=n)[:, None]


def by_split(blocks: Iterable[HeldoutBlock], splits: Splits, number: int = 0) -> list[HostArray]:
    """The predictions (rows, targets) behind each split's score: not averaged, as `gather`'s are."""
    chosen = ((part, positions, values[number : number + 1, ...]) for part, positions, values in blocks)
    parts = zip(whole_parts(chosen, splits), splits.left_out, splits.tests)
    return [
        values[0] if test is rows else values[0, np.searchsorted(rows, test)]
        for values, rows, test in parts
    ]
