r"""f(x) = Σ_g w_g(x) u_g + b: an expansion over grid points, read off by interpolation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.expansions.base import FittedFunction
from onefold.expansions.lattice import Lattice
from onefold.kernels import Kernel
from onefold.kernels.tiles import gradient_product, kernel_product
from onefold.linalg import Array, all_finite, is_sparse, like, to_numpy
from onefold.machine.threads import keep_threads, spans

_BLOCK = 2**22  # interpolation weights formed at a time


@dataclass(frozen=True)
class GridExpansion(FittedFunction):
    r"""A kernel expansion whose centres are the points of a regular grid.

    Attributes
    ----------
    kernel : Kernel
    lower, step : arrays (d,)
        First point and distance of points on each axis.
    counts : tuple of int
        Points per axis; the last axis runs fastest.
    coef : array (points, targets)
        c of f(x) = Σ_g c_g k(x, g) + b.
    values : array (points, targets)
        u_g = Σ_h k(g, h) c_h: f − b on the grid itself.
    intercept : array (targets,)
    """

    kernel: Kernel
    lower: Any
    step: Any
    counts: tuple[int, ...]
    coef: Any
    values: Any
    intercept: Any

    def __post_init__(self) -> None:
        if not all(isinstance(count, int) and count > 0 for count in self.counts):
            raise ValueError(f"counts must be whole numbers of points; got {self.counts!r:.60}.")
        d, m = len(self.counts), math.prod(self.counts)  # NumPy's product would overflow
        shapes = {"lower": (d,), "step": (d,), "values": self.coef.shape}
        shapes |= {"coef": (m, self.intercept.shape[0])}
        for name, shape in shapes.items():
            if tuple(getattr(self, name).shape) != tuple(shape):
                raise ValueError(f"{name} must have shape {shape}; got {getattr(self, name).shape}.")

    @property
    def lattice(self) -> Lattice:
        """The grid."""
        return Lattice(self.lower, self.step, tuple(int(c) for c in self.counts))

    @property
    def centres(self) -> Any:
        """The grid points, (points, d)."""
        return self.lattice.points()

    @property
    def n_features(self) -> int:
        """Number of axes."""
        return len(self.counts)

    @property
    def n_centres(self) -> int:
        """Number of grid points."""
        return int(self.coef.shape[0])

    @property
    def accepts_sparse(self) -> bool:
        """Whether the kernel takes CSR rows."""
        return self.kernel.accepts_sparse

    @property
    def finite(self) -> bool:
        """Whether no coefficient, no value on the grid and no intercept is infinite or undefined."""
        return all(all_finite(array) for array in (self.coef, self.values, self.intercept))

    def on_host(self) -> GridExpansion:
        """Its arrays are NumPy arrays already."""
        return self

    def predict(self, X: Array, n_jobs: int | None = None) -> Array:
        """F at every row of X, shape (rows, targets), in X's array library.

        O(rows · 4^d) inside the grid; rows outside it take the kernel expansion, O(points) each.
        """
        rows = self._rows(X)
        lattice = self.lattice
        out = np.empty((rows.shape[0], self.coef.shape[1]))
        inside = lattice.inside(rows)
        for part in spans(rows.shape[0], max(1, _BLOCK // 4 ** rows.shape[1])):
            here = part.start + np.flatnonzero(inside[part])
            out[here] = lattice.weights(rows[here]) @ self.values
        outside = np.flatnonzero(~inside)
        if outside.size:
            with keep_threads(n_jobs):
                out[outside] = kernel_product(self.kernel, rows[outside], self.centres, self.coef)
        return like(out + self.intercept, X)

    def gradient(self, X: Array, n_jobs: int | None = None) -> Array:
        """∇ of the kernel expansion over the grid points, shape (rows, d, targets).

        O(rows · points · d · targets) time: not of the interpolation, whose derivative has kinks.
        """
        rows = self._rows(X)
        with keep_threads(n_jobs):
            return like(gradient_product(self.kernel, rows, self.centres, self.coef), X)

    def _rows(self, X: Array) -> Any:
        """Rows as a dense NumPy array: of a few features, sparse ones save nothing."""
        return np.asarray(X.toarray() if is_sparse(X) else to_numpy(X), dtype=np.float64)
