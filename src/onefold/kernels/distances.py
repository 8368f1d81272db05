r"""Squared distances between rows and landmarks that are prepared once, in one matrix product.

    ‖a − z‖² = [−2a, ‖a‖², 1] · [z, 1, ‖z‖²]

Callers take them times a constant, its sign included: the exponent −d² of the rbf kernel leaves the
product as it is, without a pass over the tile to turn its sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from onefold.kernels.metric import inner_products, squared_norms
from onefold.linalg import (
    Array,
    clip_in_place,
    is_sparse,
    namespace,
    product_into,
)
from onefold.machine.threads import spans

Pairs = tuple[Any, Any]
"""Row numbers and column numbers of pairs, in the order of the rows."""

# ‖a‖² + ‖b‖² − 2a·b loses eps·(‖a‖² + ‖b‖²) of d². In units of the kernel's width that is harmless
# while the norms are small; above this sum of squared norms the close pairs are computed anew.
HARMLESS_NORM = 64.0
_FAR = 50.0  # exp(−50) is nothing: pairs further apart need no better distance
_LOST_DIGITS = 1e-3
_ROUNDINGS = 4  # eps per feature that d² of close rows may be wrong by, as a share of ‖a‖²
_PAIR_NUMBERS = 2**20  # differences of close pairs formed at a time


class HostDistances:
    """unit · ‖a − z‖² of NumPy or sparse rows, accurate also for nearly equal ones.

    Pairs whose distance lost digits to cancellation and still matters to a kernel are recomputed from
    their differences.

    Parameters
    ----------
    Z : array or CSR matrix (m, d)
    unit : float
        Not 0; a negative one gives negative numbers.
    harmless_norm : float
        Sum of squared norms up to which no pair is computed anew.
    distance_at : function
        The squared distance at which the kernel falls to about exp(−x).
    """

    def __init__(
        self, Z: Array, unit: float, harmless_norm: float, distance_at: Callable[[float], float]
    ) -> None:
        self._Z, self._unit, self._harmless_norm = Z, unit, harmless_norm
        self._norms = squared_norms(Z)
        self._largest = self._norms.max(initial=0.0)
        self._distance_at = distance_at
        if not is_sparse(Z):
            right = np.empty((Z.shape[0], Z.shape[1] + 2), dtype=Z.dtype)
            right[:, :-2], right[:, -2], right[:, -1] = Z, 1, self._norms
            self._right = right.T

    def __call__(self, A: Array, out: Array | None = None) -> tuple[Any, Pairs]:
        """The tile (len(A), m), never of the wrong sign, far pairs less far; and the close pairs."""
        norms, sign = squared_norms(A), math.copysign(1.0, self._unit)
        if is_sparse(A) or is_sparse(self._Z):
            tile = np.asarray(inner_products(A, self._Z))
            tile *= -2 * sign
            tile += sign * norms[:, None]
            tile += sign * self._norms[None, :]
        else:
            left = np.empty((A.shape[0], A.shape[1] + 2), dtype=A.dtype)
            np.multiply(A, -2 * sign, out=left[:, :-2])
            np.multiply(norms, sign, out=left[:, -2])
            left[:, -1] = sign
            tile = product_into(left, self._right, out)
        close = self._close_pairs(tile, norms, sign)
        for i, j in pair_blocks(close, A.shape[1]):
            difference = A[i] - self._Z[j]
            tile[i, j] = sign * (
                squared_norms(difference)
                if is_sparse(difference)
                else np.einsum("ij,ij->i", difference, difference)
            )
        # This distance stands for all further ones. The square of the kernel there is still a normal
        # number: products of subnormal numbers take a processor a hundred times longer, and 2⁻⁶² of the
        # diagonal is nothing.
        halvings = 62 if tile.dtype == np.float32 else 510
        farthest = sign * self._distance_at(math.log(2.0) * halvings)
        clip_in_place(tile, min(0.0, farthest), max(0.0, farthest))
        if abs(self._unit) != 1.0:
            tile *= abs(self._unit)
        return tile, close

    def rounding(self, A: Array) -> float:
        """Up to which a number of the tile may be that of equal rows: close pairs are known."""
        return 0.0

    def _close_pairs(self, tile: Any, norms: Any, sign: float) -> Pairs:
        if tile.size == 0 or not norms.max() + self._largest > self._harmless_norm:
            return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
        rounding = _ROUNDINGS * (self._Z.shape[1] + 2) * float(np.finfo(tile.dtype).eps)
        within = np.maximum(np.minimum(_LOST_DIGITS * norms, _FAR), rounding * norms)
        limit = within.astype(tile.dtype) * tile.dtype.type(sign)
        near = np.less if sign > 0 else np.greater
        nearest = tile.min(axis=1) if sign > 0 else tile.max(axis=1)
        suspects = np.flatnonzero(near(nearest, limit))
        part = tile if suspects.size == len(tile) else tile[suspects]
        rows, columns = np.divmod(np.flatnonzero(near(part, limit[suspects, None])), tile.shape[1])
        return suspects[rows], columns


class DeviceDistances:
    """unit · ‖a − z‖² of rows in another array library: one product and one pass, no host.

    Of close rows eps · ‖a‖² is lost: they must lie about 0 in units of the kernel's width.
    """

    def __init__(self, Z: Array, unit: float) -> None:
        xp = namespace(Z)
        norms = squared_norms(Z)[:, None]
        self._Z, self._unit = Z, unit
        self._right = xp.concat([Z, xp.ones_like(norms), norms], axis=1).T

    def __call__(self, A: Array, out: Array | None = None) -> tuple[Any, None]:
        """The tile (len(A), m), and no close pairs: to look for them the device would wait."""
        xp, unit = namespace(A), self._unit
        norms = squared_norms(A)[:, None] * unit
        left = xp.concat([A * (-2 * unit), norms, xp.full_like(norms, unit)], axis=1)
        tile = product_into(left, self._right, out)
        return clip_in_place(tile, *((0.0, None) if unit > 0 else (None, 0.0))), None

    def rounding(self, A: Array) -> Any:
        """Up to which a number of the tile may be that of equal rows, (rows, 1), times |unit|."""
        eps = float(namespace(A).finfo(A.dtype).eps)
        return squared_norms(A)[:, None] * (abs(self._unit) * _ROUNDINGS * (A.shape[1] + 2) * eps)


def pair_blocks(pairs: Pairs, features: int) -> Iterator[Pairs]:
    """The pairs, so many at a time that their differences take little memory."""
    rows, columns = pairs
    for part in spans(rows.size, max(1, _PAIR_NUMBERS // max(1, features))):
        yield rows[part], columns[part]
