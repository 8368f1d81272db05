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
    blocks = list(blocks)
    total = np.full((splits.n, blocks[0][2].shape[2]), 0.0 if splits.repeated else np.nan)
    count = np.zeros((splits.n, 1)) if splits.repeated else None
    for part, positions, values in blocks:
        rows, found = splits.predicted[part][positions], to_numpy(values[number, ...])
        times: Any = 1
        if not splits.leave_one_out and splits.tests[part] is not splits.left_out[part]:
            times = splits.times_tested[part][positions][:, None]
            tested = times[:, 0] > 0
            rows, found, times = rows[tested], found[tested], times[tested]
        if count is None:  # each row once
            total[rows] = found
        else:
            total[rows] += times * found
            count[rows] += times
    if count is None:
        return total
    with np.errstate(invalid="ignore", divide="ignore"):
        return total / count


def by_split(blocks: Iterable[HeldoutBlock], splits: Splits, number: int = 0) -> list[HostArray]:
    """The predictions (rows, targets) behind each split's score: not averaged, as `gather`'s are."""
    chosen = ((part, positions, values[number : number + 1, ...]) for part, positions, values in blocks)
    parts = zip(whole_parts(chosen, splits), splits.left_out, splits.tests)
    return [
        values[0] if test is rows else values[0, np.searchsorted(rows, test)]
        for values, rows, test in parts
    ]
