"""A smoother of rows in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onefold.linalg import Array, is_numpy, like_index, namespace, take_rows
from onefold.smoothers.base import Smoother


class Reordered(Smoother):
    """The smoother `inner` of the rows taken in `order`, for rows in their own order.

    Attributes
    ----------
    inner : Smoother
    order : int array (n,)
        The row in each place.
    place : int array (n,)
        The place of each row.
    """

    def __init__(self, inner: Smoother, order: Any) -> None:
        super().__init__(inner.n, inner.border)
        self.inner, self.order = inner, order
        self.place = np.empty_like(order)
        self.place[order] = np.arange(order.size)

    def residuals(self, Y: Array, alphas: Any) -> Array:
        return _taken(self.inner.residuals(take_rows(Y, self.order), alphas), self.place)

    def leave_one_out(self, Y: Array, alphas: Any) -> Array:
        return _taken(self.inner.leave_one_out(take_rows(Y, self.order), alphas), self.place)

    def heldout(self, Y: Array, parts: Sequence[Any], alphas: Any) -> list[Array]:
        places = [self.place[rows] for rows in parts]
        ranks = [np.argsort(p) for p in places]
        ascending = [p[r] for p, r in zip(places, ranks)]
        found = self.inner.heldout(take_rows(Y, self.order), ascending, alphas)
        return [_taken(f, np.argsort(r)) for f, r in zip(found, ranks)]

    def trace(self, alphas: Any) -> Any:
        return self.inner.trace(alphas)

    def logdet(self, alphas: Any) -> Any:
        return self.inner.logdet(alphas)


def _taken(found: Array, index: Any) -> Array:
    """Rows of (μ, rows, targets) in another order; in NumPy over the array itself, one μ at a time."""
    if not is_numpy(found):
        return namespace(found).take(found, like_index(index, found), axis=1)
    for one in found:
        one[...] = one[index]
    return found
