r"""Products with a symmetric Toeplitz matrix by FFT.

T is the leading block of a circulant matrix of length m ≥ 2n whose first column is t_0 … t_{n−1},
then t_{n−1} … t_1 backwards. Vectors are rows of an array (columns of a right-hand side, n), so that
one FFT call treats them all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from onefold.machine.threads import check_stop, thread_budget


class SymmetricToeplitz:
    """T from its first column; three arrays of n.

    Parameters
    ----------
    column : array (n,)
        t_0, …, t_{n−1}.
    """

    def __init__(self, column: Any) -> None:
        self.column = np.asarray(column, dtype=np.float64)
        self.n = self.column.size
        self.length = next_fast_len(2 * self.n, real=True)
        embedded = np.full(self.length, self.column[-1])  # the gap goes on at the last value: no jump
        embedded[: self.n] = self.column
        if self.n > 1:
            embedded[-(self.n - 1) :] = self.column[:0:-1]
        self.spectrum = rfft(embedded).real.copy()  # a view would keep the imaginary part
        self.norm = float(np.abs(self.spectrum).max())
        """An upper bound of ‖T‖₂."""

    def product(self, V: Any, shift: float = 0.0) -> Any:
        """(T + shift·I) v for every row v of V."""
        check_stop()
        transformed = rfft(V, self.length, axis=-1, workers=thread_budget())
        transformed *= self.spectrum
        out = irfft(transformed, self.length, axis=-1, workers=thread_budget(), overwrite_x=True)
        out = out[..., : self.n]
        if shift:
            out = out + shift * V
        return out

    def dense(self, shift: float = 0.0) -> Any:
        """T + shift·I as an n × n array, for small n."""
        index = np.arange(self.n)
        matrix = self.column[np.abs(index[:, None] - index[None, :])]
        matrix[index, index] += shift
        return matrix

    def leading(self, size: int) -> SymmetricToeplitz:
        """The leading block, which is every contiguous diagonal block of that size."""
        return SymmetricToeplitz(self.column[:size])


def scatter(values: Any, rows: Any, n: int) -> Any:
    """(columns, |rows|) → (columns, n) with zeros elsewhere."""
    out = np.zeros((values.shape[0], n))
    out[:, rows] = values
    return out
