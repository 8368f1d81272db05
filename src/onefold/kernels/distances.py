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

from onefold.kernels.width import inner_products, squared_norms, weighted_sums
from onefold.linalg import (
    Array,
    clip_in_place,
    is_numpy,
    is_sparse,
    namespace,
    product_into,
)

# ‖a‖² + ‖b‖² − 2a·b loses eps·(‖a‖² + ‖b‖²) of d². In units of the kernel's width that is harmless
# while the norms are small; above this sum of squared norms the close pairs are computed anew.
HARMLESS_NORM = 64.0
_FAR = 50.0  # exp(−50) is nothing: pairs further apart need no better distance
_LOST_DIGITS = 1e-3
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

    def __call__(self, A: Array, out: Array | None = None) -> Any:
        """The tile (len(A), m), never of the wrong sign; far pairs come back less far."""
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
        for i, j, difference in self.differences(A, *self._close_pairs(tile, norms, sign)):
            tile[i, j] = sign * (
                squared_norms(difference)
                if is_sparse(difference)
                else np.einsum("ij,ij->i", difference, difference)
            )
        farthest = sign * self._farthest(tile.dtype)
        clip_in_place(tile, min(0.0, farthest), max(0.0, farthest))
        if abs(self._unit) != 1.0:
            tile *= abs(self._unit)
        return tile

    def _farthest(self, dtype: Any) -> float:
        """The distance that stands for all further ones.

        The square of the kernel there is still a normal number: products of subnormal numbers take a
        processor a hundred times longer, and 2⁻⁶² of the diagonal is nothing.
        """
        return self._distance_at(math.log(2.0) * (62 if dtype == np.float32 else 510))

    def close_pairs(self, tile: Any, A: Array) -> tuple[Any, Any]:
        """Rows and columns of the pairs of a finished tile that :meth:`__call__` computed anew."""
        return self._close_pairs(tile, squared_norms(A), self._unit, self._farthest(tile.dtype))

    def _close_pairs(
        self, tile: Any, norms: Any, unit: float, farthest: float = math.inf
    ) -> tuple[Any, Any]:
        if tile.size == 0 or not norms.max() + self._largest > self._harmless_norm:
            return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
        rounding = 4 * (self._Z.shape[1] + 2) * np.finfo(tile.dtype).eps  # of the sum, at most
        within = np.maximum(np.minimum(_LOST_DIGITS * norms, _FAR), rounding * norms)
        limit = np.minimum(within, farthest).astype(tile.dtype) * tile.dtype.type(unit)
        near = np.less if unit > 0 else np.greater
        nearest = tile.min(axis=1) if unit > 0 else tile.max(axis=1)
        suspects = np.flatnonzero(near(nearest, limit))
        rows, columns = np.nonzero(near(tile[suspects], limit[suspects, None]))
        return suspects[rows], columns

    def differences(self, A: Array, rows: Any, columns: Any) -> Iterator[tuple[Any, Any, Any]]:
        """(i, j, a_i − z_j) of some pairs, a block of them at a time."""
        block = max(1, _PAIR_NUMBERS // max(1, A.shape[1]))
        for start in range(0, rows.size, block):
            i, j = rows[start : start + block], columns[start : start + block]
            yield i, j, A[i] - self._Z[j]

    def weighted_differences(self, weights: Any, A: Array, coef: Array, close: Any) -> list[Any]:
        """Σ_j weights_ij coef_jt (a_i − z_j) for every target t: arrays (rows, d).

        Close pairs are added one by one: as differences of two sums they would lose their digits.
        Their weights are set to 0.
        """
        rows, columns = close
        apart = weights[rows, columns]
        weights[rows, columns] = 0
        sums = _differences_of_sums(weights, A, self._Z, coef)
        start = 0
        for i, j, difference in self.differences(A, rows, columns):
            difference *= apart[start : start + i.size, None]
            start += i.size
            for t, total in enumerate(sums):
                np.add.at(total, i, difference * coef[j, t][:, None])
        return sums


class DeviceDistances:
    """unit · ‖a − z‖² beside an array of another library: one product and one pass, no host.

    Of close rows eps · ‖a‖² is lost: they must lie about 0 in units of the kernel's width.
    """

    def __init__(self, Z: Array, unit: float) -> None:
        xp = namespace(Z)
        norms = squared_norms(Z)[:, None]
        self._Z, self._unit = Z, unit
        self._right = xp.concat([Z, xp.ones_like(norms), norms], axis=1).T

    def __call__(self, A: Array, out: Array | None = None) -> Array:
        """The tile (len(A), m), never of the wrong sign."""
        xp, unit = namespace(A), self._unit
        norms = squared_norms(A)[:, None] * unit
        left = xp.concat([A * (-2 * unit), norms, xp.full_like(norms, unit)], axis=1)
        tile = product_into(left, self._right, out)
        return clip_in_place(tile, *((0.0, None) if unit > 0 else (None, 0.0)))

    def close_pairs(self, tile: Array, A: Array) -> None:
        """Left where they are: to look for them the device would wait for the host."""

    def weighted_differences(self, weights: Array, A: Array, coef: Array, close: Any) -> list[Array]:
        """As those of :class:`HostDistances`, as differences of sums."""
        return _differences_of_sums(weights, A, self._Z, coef)


def _differences_of_sums(weights: Array, A: Array, Z: Array, coef: Array) -> list[Array]:
    total, sums = weights @ coef, weighted_sums(weights, coef, Z)
    return [A * total[:, t][:, None] - each for t, each in enumerate(sums)]


def distances_to(
    Z: Array, unit: float, harmless_norm: float, distance_at: Callable[[float], float]
) -> HostDistances | DeviceDistances:
    """The function rows → tile of unit · ‖a − z‖² for the library of Z, see :class:`HostDistances`."""
    if is_numpy(Z):
        return HostDistances(Z, unit, harmless_norm, distance_at)
    return DeviceDistances(Z, unit)
