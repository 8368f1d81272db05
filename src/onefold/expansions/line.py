"""f(x) = Σ_j c_j k(x, z_j) + b of one feature, without looking at every centre for every row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onefold.expansions.kernel import Expansion
from onefold.kernels.line import LineSums, line_kernel
from onefold.linalg import Array, as_float64
from onefold.machine.threads import inherit_threads


@dataclass(frozen=True)
class LineExpansion(Expansion):
    """An expansion of a Matérn or Laplacian kernel of one feature: O((m + rows) log m) for all rows.

    Without Numba, and for rows on a device, it is the plain sum over all centres.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_features != 1:
            raise ValueError(f"a line has one feature; got centres with {self.n_features}.")

    def __repr__(self) -> str:
        return f"LineExpansion({self.kernel}, {self.size})"

    def predict(self, X: Array, n_jobs: int | None = None) -> Array:
        """f at every row of X, shape (rows, targets), in X's array library."""
        sums = self._sums(X)
        if sums is None:
            return super().predict(X, n_jobs)
        with inherit_threads(n_jobs):
            return sums.values(as_float64(X)[:, 0]) + self.intercept[None, :]

    def gradient(self, X: Array, n_jobs: int | None = None) -> Array:
        """∇f at every row of X, shape (rows, 1, targets), in X's library."""
        sums = self._sums(X)
        if sums is None:
            return super().gradient(X, n_jobs)
        with inherit_threads(n_jobs):
            return sums.slopes(as_float64(X)[:, 0])[:, None, :]

    def _sums(self, X: Array) -> LineSums | None:
        """The sums over the centres; None where they are not NumPy arrays like X, or without Numba."""
        line = line_kernel(self.kernel, 1)
        if line is None or not all(isinstance(array, np.ndarray) for array in (X, self.centres)):
            return None
        return LineSums(line, as_float64(self.centres)[:, 0], self.coef)
