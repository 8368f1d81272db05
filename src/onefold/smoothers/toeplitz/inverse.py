r"""The inverse of a symmetric Toeplitz matrix from its first column (Gohberg–Semencul).

With x = G⁻¹e_1, x_0 ≠ 0, and z = (0, x_{n−1}, …, x_1),

    G⁻¹ = (1/x_0) (L_x L_xᵀ − L_z L_zᵀ)          L_v lower triangular Toeplitz, first column v

so that a product costs six FFTs of length 2n. Written for entries it says that along a diagonal

    G⁻¹_{i+1,j+1} = G⁻¹_{ij} + (x_{i+1} x_{j+1} − z_{i+1} z_{j+1}) / x_0

hence the diagonal in O(n) and a contiguous block of |J| rows in O(|J|²) after one product.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.fft import irfft, rfft

from onefold.machine.threads import thread_budget
from onefold.smoothers.base import UnsolvableError
from onefold.smoothers.toeplitz.products import SymmetricToeplitz

_SMALLEST_PIVOT = 1e-8  # of the largest entry of x: below it the formula has no digits left


class GohbergSemencul:
    """G⁻¹ from its first column x; five arrays of n."""

    def __init__(self, x: Any, toeplitz: SymmetricToeplitz) -> None:
        if x[0] <= _SMALLEST_PIVOT * np.abs(x).max():
            raise UnsolvableError(
                "the Toeplitz matrix has a leading block that is singular or not positive definite, so "
                "that its inverse cannot be written by its first column; use a larger alpha, or the "
                "exact kernel matrix."
            )
        self._x, self._n = x, x.size
        self._length = toeplitz.length
        self._Fx = rfft(self._x, self._length)
        self._Fz = rfft(_reversed(x), self._length)

    def product(self, V: Any) -> Any:
        """G⁻¹ v for every row v of V."""
        transformed = rfft(V, self._length, axis=-1, workers=thread_budget())
        left = self._Fx.conj() * transformed
        transformed *= self._Fz.conj()
        left = self._truncated(left)
        left *= self._Fx
        transformed = self._truncated(transformed)
        transformed *= self._Fz
        left -= transformed
        del transformed
        out = irfft(left, self._length, axis=-1, workers=thread_budget(), overwrite_x=True)
        return out[..., : self._n] / self._x[0]

    def _truncated(self, transformed: Any) -> Any:
        """The transform of the first n entries alone."""
        values = irfft(transformed, self._length, axis=-1, workers=thread_budget(), overwrite_x=True)
        values[..., self._n :] = 0.0
        return rfft(values, axis=-1, workers=thread_budget(), overwrite_x=True)

    def diagonal(self) -> Any:
        """Its diagonal (n,)."""
        # The diagonal reads the same from both ends; the first half has the fewer roundings.
        n, half = self._n, (self._n + 1) // 2
        first = np.cumsum(self._x[:half] ** 2 - _reversed(self._x)[:half] ** 2) / self._x[0]
        return np.concatenate([first, first[: n - half][::-1]])

    def block(self, start: int, stop: int) -> Any:
        """G⁻¹ on the contiguous rows start … stop − 1."""
        size = stop - start
        x, z = self._x[start:stop], _reversed(self._x)[start:stop]
        unit = np.zeros((1, self._n))
        unit[0, start] = 1.0
        block = np.empty((size, size))
        block[0] = self.product(unit)[0, start:stop]
        for i in range(1, size):
            block[i, i:] = block[i - 1, i - 1 : -1]
            block[i, i:] += (x[i] / self._x[0]) * x[i:] - (z[i] / self._x[0]) * z[i:]
            block[i, :i] = block[:i, i]
        block[:, 0] = block[0]
        return block


def _reversed(x: Any) -> Any:
    """The vector z of the formula."""
    return np.concatenate([np.zeros(1), x[:0:-1]])
