r"""Blocks of near rows, of equal size: parts are halved along the direction in which they vary most.

A cut is at a quantile of the projections on this leading direction, which a few power iterations find:
O(n d) time for each of log₂(blocks) levels, besides sorting.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.linalg import (
    Array,
    Index,
    as_float64,
    asarray_like,
    is_numpy,
    namespace,
    take_rows,
    to_numpy,
)

# Power iterations for the direction of a cut; few, because any direction of large variation serves;
# chosen, not measured.
_ITERATIONS = 10


def near_blocks(rows: Array, count: int, generator: np.random.Generator) -> list[Index]:
    """The row numbers of `count` blocks, whose sizes differ by one at most."""
    n = int(rows.shape[0])
    blocks: list[Index] = []
    pending = [(np.arange(n), max(1, min(count, n)))]
    while pending:
        numbers, parts = pending.pop()
        if parts == 1:
            blocks.append(np.sort(numbers))
            continue
        first = parts // 2
        # The first parts get what they would have if all blocks were filled in turn.
        size = numbers.size // parts * first + min(first, numbers.size % parts)
        order = _along_leading_direction(take_rows(rows, numbers), generator)
        pending.append((numbers[order[size:]], parts - first))
        pending.append((numbers[order[:size]], first))
    return blocks


def _along_leading_direction(rows: Array, generator: np.random.Generator) -> Any:
    """The order of rows along the direction in which they vary most."""
    xp = namespace(rows)
    rows = as_float64(rows)
    centred = rows - xp.mean(rows, axis=0)[None, :]
    direction = asarray_like(generator.standard_normal(int(rows.shape[1])), rows)
    for _ in range(_ITERATIONS):
        image = centred.T @ (centred @ direction)
        length = float(xp.linalg.vector_norm(image))
        if not 0 < length < np.inf:  # all rows are equal
            break
        direction = image / length
    projections = centred @ direction
    if is_numpy(projections):
        return np.argsort(projections, kind="stable")
    return to_numpy(xp.argsort(projections, stable=True))
