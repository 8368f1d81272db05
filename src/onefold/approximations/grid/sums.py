r"""What a pass over the rows leaves of an interpolated model: WᵀVW, WᵀVy, WᵀV1, Σv, Σvy.

They add over rows, hence over blocks and folds; training without a fold is subtraction. V holds the
sample weights. Nothing here is as long as the rows.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from onefold.expansions.grid import Lattice
from onefold.machine.threads import spans

_BLOCK = 2**20  # interpolation weights formed at a time


@dataclass(frozen=True)
class GridSums:
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

    def __add__(self, other: GridSums) -> GridSums:
        return GridSums(*map(operator.add, self._fields(), other._fields()))

    def __sub__(self, other: GridSums) -> GridSums:
        return GridSums(*map(operator.sub, self._fields(), other._fields()))

    def _fields(self) -> tuple[Any, ...]:
        return self.A, self.WY, self.W1, self.total, self.Y1


def grid_sums(lattice: Lattice, X: Any, Y: Any, weight: Any | None) -> GridSums:
    """The sums of rows X (n, d) with targets Y (n, t): O(n·16^d), a block at a time."""
    m, t = lattice.size, Y.shape[1]
    few = X.shape[1] <= 2
    diagonals: dict[int, Any] = {}
    A = scipy.sparse.csr_array((m, m))
    WY, W1, total, Y1 = np.zeros((t, m)), np.zeros(m), 0.0, np.zeros(t)
    for part in spans(X.shape[0], max(1, _BLOCK // 4 ** X.shape[1])):
        W = lattice.weights(X[part])
        v = np.ones(W.shape[0]) if weight is None else weight[part]
        VW = W if weight is None else _times(v, W)
        if few:
            _add_products(diagonals, W, VW)
        else:
            A = A + W.T @ VW
        WY += (VW.T @ Y[part]).T
        W1 += VW.T @ np.ones(W.shape[0])
        total += float(v.sum())
        Y1 += v @ Y[part]
    return GridSums(_symmetric(diagonals, m) if few else A.tocsr(), WY, W1, total, Y1)


def _times(v: Any, W: Any) -> Any:
    """VW with the entries of W in their places."""
    values = (W.data.reshape(W.shape[0], -1) * v[:, None]).ravel()
    return scipy.sparse.csr_array((values, W.indices, W.indptr), shape=W.shape)


def _add_products(diagonals: dict[int, Any], W: Any, VW: Any) -> None:
    """Add the upper diagonals of WᵀVW: every row of W has its entries at the same relative places.

    In one and two dimensions the 10 and 136 pairs of places are few enough to be summed one by one,
    three times as fast as a product of sparse matrices.
    """
    n, m = W.shape
    columns = W.indices.reshape(n, -1)
    left, right = W.data.reshape(n, -1), VW.data.reshape(n, -1)
    for i in range(columns.shape[1]):
        for j in range(i, columns.shape[1]):
            offset = int(columns[0, j] - columns[0, i])
            sums = np.bincount(columns[:, i], left[:, i] * right[:, j], minlength=m)
            if offset in diagonals:
                diagonals[offset] += sums
            else:
                diagonals[offset] = sums


def _symmetric(diagonals: dict[int, Any], m: int) -> Any:
    """The symmetric matrix with A[i, i + offset] = diagonals[offset][i], offsets ≥ 0."""
    if not diagonals:
        return scipy.sparse.csr_array((m, m))
    offsets = [o for o in diagonals if o < m]
    upper = [diagonals[o][: m - o] for o in offsets]
    lower = [diagonals[o][: m - o] for o in offsets if o]
    return scipy.sparse.diags_array(
        upper + lower, offsets=offsets + [-o for o in offsets if o], shape=(m, m), format="csr"
    )
