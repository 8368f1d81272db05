r"""What a pass over the rows leaves of an interpolated model: WᵀVW, WᵀVy, WᵀV1, Σv, Σvy.

They add over rows, hence over blocks and folds; training without a fold is subtraction. V holds the
sample weights. Nothing here is as long as the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from onefold.kernels.lattice import Lattice
from onefold.kernels.tiles import spans

_BLOCK = 2**20  # interpolation weights formed at a time


@dataclass(frozen=True)
class Statistics:
    """Sums over a set of rows.

    Attributes
    ----------
    A : CSR (points, points)
        WᵀVW: banded, at most 7^d entries per row.
    WY : array (targets, points)
    W1 : array (points,)
    total : float
        Σv.
    Y1 : array (targets,)
        Σ v y.
    """

    A: Any
    WY: Any
    W1: Any
    total: float
    Y1: Any

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.A + other.A,
            self.WY + other.WY,
            self.W1 + other.W1,
            self.total + other.total,
            self.Y1 + other.Y1,
        )

    def __sub__(self, other: Statistics) -> Statistics:
        return Statistics(
            self.A - other.A,
            self.WY - other.WY,
            self.W1 - other.W1,
            self.total - other.total,
            self.Y1 - other.Y1,
        )


def collect(lattice: Lattice, X: Any, Y: Any, weight: Any | None) -> Statistics:
    """The statistics of rows X (n, d) with targets Y (n, t): O(n·16^d), a block at a time."""
    m, t = lattice.size, Y.shape[1]
    found = Statistics(scipy.sparse.csr_array((m, m)), np.zeros((t, m)), np.zeros(m), 0.0, np.zeros(t))
    for part in spans(X.shape[0], max(1, _BLOCK // 4 ** X.shape[1])):
        W = lattice.weights(X[part])
        v = np.ones(W.shape[0]) if weight is None else weight[part]
        VW = W if weight is None else (scipy.sparse.diags_array(v) @ W).tocsr()
        found += Statistics(
            (W.T @ VW).tocsr(),
            (VW.T @ Y[part]).T,
            VW.T @ np.ones(W.shape[0]),
            float(v.sum()),
            v @ Y[part],
        )
    return found
