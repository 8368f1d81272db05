"""A smoother of rows in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onefold.smoothers.base import Smoother


class Reordered(Smoother):
    """The smoother `inner` of the rows taken in `order`, for rows in their own order. NumPy only."""

    def __init__(self, inner: Smoother, order: Any) -> None:
        super().__init__(inner.n, inner.border)
        self._inner, self._order = inner, order
        self._place = np.empty_like(order)
        self._place[order] = np.arange(order.size)

    def residuals(self, Y: Any, alphas: Any) -> Any:
        return self._inner.residuals(Y[self._order], alphas)[:, self._place]

    def leave_one_out(self, Y: Any, alphas: Any) -> Any:
        return self._inner.leave_one_out(Y[self._order], alphas)[:, self._place]

    def heldout(self, Y: Any, parts: Sequence[Any], alphas: Any) -> list[Any]:
        places = [self._place[rows] for rows in parts]
        ranks = [np.argsort(p) for p in places]
        found = self._inner.heldout(Y[self._order], [p[r] for p, r in zip(places, ranks)], alphas)
        return [f[:, np.argsort(r)] for f, r in zip(found, ranks)]

    def trace(self, alphas: Any) -> Any:
        return self._inner.trace(alphas)

    def logdet(self, alphas: Any) -> Any:
        return self._inner.logdet(alphas)
