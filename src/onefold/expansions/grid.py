r"""f(x) = Σ_g w_g(x) u_g + b: an expansion over the points of a regular grid, by interpolation.

f(x) ≈ Σ_g w_g(x) f(g) with Keys' cubic convolution weights in 1 to 4 dimensions, four points per axis,
exact for quadratic polynomials. The kernel matrix of the grid points with a stationary kernel is
multilevel Toeplitz: a block of a circulant array of twice the points per axis, so that a product is two
FFTs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy.fft import irfftn, next_fast_len, rfftn

from onefold.expansions.kernel import FittedFunction
from onefold.kernels import Kernel
from onefold.kernels.tiles import gradient_product, kernel_product
from onefold.linalg import Array, HostArray, asarray_like, host_array
from onefold.machine.threads import inherit_threads, spans, thread_budget

# Features up to which there is a grid.
LARGEST_DIMENSION = 4
# Grid points at most, by the number d of features: each point has 7^d entries in WᵀW.
_TOTAL = {1: 65536, 2: 131072, 3: 32768, 4: 10000}
# Points of an axis, at least.
_FEWEST = 8
# Smallest extent of an axis, as a share of the size of the numbers on it.
_SMALLEST = 1e-10
# Powers of ten, on either side of 1, in which a half width is looked for: their squares are finite.
_DECADES = 150
# Parts of a power of ten, in logarithms, to which a half width is found.
_PARTS_OF_DECADE = 200
# Grid steps over which the kernel falls to one half.
_POINTS_PER_WIDTH = 6
# Margin that keeps rounding from pushing the outermost rows off the grid, as a share of a grid step.
_MARGIN = 1e-6
# Interpolation weights that are formed at a time.
_BLOCK = 2**22


@dataclass(frozen=True)
class GridExpansion(FittedFunction):
    """A kernel expansion whose centres are the points of a regular grid."""

    arrays = ("coef", "intercept", "values")

    kernel: Kernel
    lower: HostArray  # array (d,): the first point on each axis
    step: HostArray  # array (d,): the distance between points on each axis
    counts: tuple[int, ...]  # points per axis; the last axis runs fastest
    coef: HostArray  # array (points, targets): c of f(x) = Σ_g c_g k(x, g) + b
    values: HostArray  # array (points, targets): u_g = Σ_h k(g, h) c_h, f − b on the grid itself
    intercept: HostArray  # array (targets,)

    def __post_init__(self) -> None:
        if not all(isinstance(count, int) and count > 0 for count in self.counts):
            raise ValueError(f"counts must be whole numbers of points; got {self.counts!r:.60}.")
        d = len(self.counts)
        m = math.prod(self.counts)  # NumPy's product would overflow
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
    def centres(self) -> HostArray:
        """The grid points, (points, d)."""
        return self.lattice.points()

    @property
    def n_features(self) -> int:
        return len(self.counts)

    def on_host(self) -> GridExpansion:
        """The same: its arrays are NumPy arrays already."""
        return self

    def __repr__(self) -> str:
        return f"GridExpansion({self.kernel}, points={self.counts}, targets={self.n_targets})"

    def predict(self, X: Array, n_jobs: int | None = None) -> Array:
        """f at every row of X (rows, targets): O(4^d) each inside the grid, outside O(points)."""
        rows = host_array(X)  # dense: with a few features, sparse rows save nothing
        lattice = self.lattice
        out = np.empty((rows.shape[0], self.coef.shape[1]))
        inside = lattice.inside(rows)
        out[inside] = lattice.interpolated(rows[inside], self.values)
        outside = np.flatnonzero(~inside)
        if outside.size:
            with inherit_threads(n_jobs):
                out[outside] = kernel_product(self.kernel, rows[outside], self.centres, self.coef)
        return asarray_like(out + self.intercept, X)

    def gradient(self, X: Array, n_jobs: int | None = None) -> Array:
        """∇ of the kernel expansion (rows, d, targets), not of the interpolation, which has kinks."""
        with inherit_threads(n_jobs):
            return asarray_like(gradient_product(self.kernel, host_array(X), self.centres, self.coef), X)


@dataclass(frozen=True)
class Lattice:
    """Points lower + index·step, `counts` of them along each axis, the last axis running fastest."""

    lower: HostArray
    step: HostArray
    counts: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of points."""
        return int(np.prod(self.counts))

    def points(self) -> HostArray:
        """All points, (size, d)."""
        return self.lower + self.offsets()

    def offsets(self) -> HostArray:
        """The points minus the first of them, (size, d): near 0, a kernel of x − x' loses no digits."""
        axes = [h * np.arange(c) for h, c in zip(self.step, self.counts)]
        return np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)

    def inside(self, X: HostArray) -> Any:
        """Which rows have four points around them on every axis."""
        place = (X - self.lower) / self.step
        return np.all((place >= 1) & (place <= np.array(self.counts) - 2), axis=1)

    def weights(self, X: HostArray) -> Any:
        """W with one row of 4^d weights per row of X, CSR (rows, size); X must lie inside."""
        n, d = X.shape
        place = (np.asarray(X, dtype=np.float64) - self.lower) / self.step
        cell = np.clip(np.floor(place).astype(np.int64), 1, np.array(self.counts) - 3)
        offset = place - cell
        columns = np.zeros((n, 1), dtype=np.int64)
        values = np.ones((n, 1))
        for axis in range(d):
            index = cell[:, axis, None] + np.arange(-1, 3)
            shape = (n, 4 ** (axis + 1))
            columns = (columns[:, :, None] * self.counts[axis] + index[:, None, :]).reshape(shape)
            values = (values[:, :, None] * _keys(offset[:, axis])[:, None, :]).reshape(shape)
        pointers = np.arange(n + 1) * columns.shape[1]
        return scipy.sparse.csr_array(
            (values.ravel(), columns.ravel().astype(np.int32), pointers), shape=(n, self.size)
        )

    def interpolated(self, X: HostArray, values: HostArray) -> HostArray:
        """W · values at rows X inside the grid, some rows at a time."""
        out = np.empty((X.shape[0], values.shape[1]))
        for part in spans(X.shape[0], max(1, _BLOCK // 4 ** X.shape[1])):
            out[part] = self.weights(X[part]) @ values
        return out

    def kernel_products(self, kernel: Kernel) -> Callable[[HostArray], HostArray]:
        """The function V → V K for rows V (vectors, size), K the kernel matrix of the points."""
        lengths = tuple(next_fast_len(2 * c, real=True) for c in self.counts)
        # With signs: a metric that mixes features tells k(s, t) from k(s, −t).
        lags = [h * ((np.arange(m) + m // 2) % m - m // 2) for h, m in zip(self.step, lengths)]
        rows = np.stack([a.ravel() for a in np.meshgrid(*lags, indexing="ij")], axis=1)
        values = kernel(np.zeros((1, len(lengths))), rows)[0].reshape(lengths)
        axes = tuple(range(1, len(lengths) + 1))
        spectrum = rfftn(values).real.copy()
        keep = tuple(slice(0, c) for c in self.counts)

        def product(V: HostArray) -> HostArray:
            shaped = V.reshape(-1, *self.counts)
            transformed = rfftn(shaped, lengths, axes=axes, workers=thread_budget())
            transformed *= spectrum
            out = irfftn(transformed, lengths, axes=axes, workers=thread_budget(), overwrite_x=True)
            return np.ascontiguousarray(out[(slice(None), *keep)]).reshape(V.shape)

        return product


def make_lattice(kernel: Kernel, lowest: Any, highest: Any, counts: Any | None = None) -> Lattice:
    """A grid around the box between two corners (d,).

    If `counts` is None, an axis has six steps for each half width of the kernel.
    """
    d = len(lowest)
    middle = (np.asarray(lowest, dtype=np.float64) + highest) / 2
    widths = np.array([half_width(kernel, d, axis) for axis in range(d)])
    # A constant feature has an axis of one half width, or more if its steps would be rounding.
    reach = np.maximum(np.where(np.isfinite(widths), widths, 1.0), _SMALLEST * np.abs(middle))
    extent = np.asarray(highest, dtype=np.float64) - lowest
    extent = np.where(extent > 0, extent, reach)
    if counts is None:
        limit = round(_TOTAL[d] ** (1 / d))
        needed = np.ceil(np.minimum(extent / (widths / _POINTS_PER_WIDTH), limit)) + 3
        chosen = np.clip(needed, _FEWEST, max(limit, _FEWEST)).astype(int)
    else:
        chosen = np.broadcast_to(np.asarray(counts, dtype=int), d)
    step = extent / (chosen - 3) * (1 + _MARGIN)
    return Lattice(middle - step * (chosen - 1) / 2, step, tuple(int(c) for c in chosen))


def largest_lattice(d: int, counts: Any | None = None) -> int:
    """The most points that :func:`make_lattice` makes for d features and any kernel."""
    if counts is not None:
        return math.prod(np.broadcast_to(np.asarray(counts, dtype=int), d).tolist())
    return int(max(round(_TOTAL[d] ** (1 / d)), _FEWEST) ** d)


def half_width(kernel: Kernel, d: int, axis: int) -> float:
    """The distance along one axis at which a stationary kernel falls to half its value at 0."""
    half = 0.5 * kernel.diagonal(np.zeros((1, d)))[0]

    def first(exponents: HostArray) -> float:
        """The first of ascending exponents e for which the kernel has fallen to half at 10^e."""
        rows = np.zeros((exponents.size, d))
        rows[:, axis] = 10.0**exponents
        with np.errstate(over="ignore", invalid="ignore"):
            below = np.flatnonzero(kernel(np.zeros((1, d)), rows)[0] <= half)
        return float(exponents[below[0]]) if below.size else np.inf

    decade = first(np.arange(-_DECADES, _DECADES + 1.0))
    if np.isinf(decade):
        return decade
    fractions = np.arange(_PARTS_OF_DECADE + 1) / _PARTS_OF_DECADE
    return 10.0 ** first(decade - 1 + fractions)


def _keys(t: HostArray) -> HostArray:
    """Cubic convolution weights (a = −1/2) of the points −1, 0, 1, 2 around t in [0, 1]: (n, 4)."""
    square = t * t
    cube = t * t * t
    before = -0.5 * cube + square - 0.5 * t
    middle = 1.5 * cube - 2.5 * square + 1.0
    after = -1.5 * cube + 2.0 * square + 0.5 * t
    return np.stack([before, middle, after, 0.5 * cube - 0.5 * square], axis=1)
