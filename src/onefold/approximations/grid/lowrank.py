r"""K_g ≈ L Lᵀ with few columns, where the kernel is wide enough on the grid for that.

A kernel that is smooth on the scale of the data's range has few eigenvalues that matter beside μ.
Then the grid's system has that many unknowns, and one eigendecomposition of LᵀWᵀWL serves every μ
without iterating: conjugate gradients would need thousands of steps at a small μ and many rows.

A kernel that is a product over the axes (rbf, laplacian) has the eigenvectors of its axes, multiplied;
for others the factor comes from a Cholesky factorisation that takes the worst remaining point next.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from onefold.expansions.grid import Lattice
from onefold.kernels import Kernel

LARGEST_RANK = 1000
_LONGEST_AXIS = 2048  # points per axis up to which its eigenvectors are computed
_ROUNDING = 1e-13


def low_rank_factor(
    kernel: Kernel, lattice: Lattice, threshold: float, limit: int = LARGEST_RANK
) -> Any | None:
    """Lᵀ (rank, points) with ‖K_g − LLᵀ‖ about `threshold`; None where it needs over `limit` rows."""
    limit = min(limit, lattice.size)
    if max(lattice.counts) <= _LONGEST_AXIS and separable(kernel, lattice):
        return _tensor_factor(kernel, lattice, threshold, limit)
    return _pivoted_cholesky(kernel, lattice, threshold, limit)


def separable(kernel: Kernel, lattice: Lattice) -> bool:
    """Whether the kernel is a product over the axes, judged at a few lags."""
    d = len(lattice.counts)
    origin = np.zeros((1, d))
    lags = np.random.default_rng(0).uniform(0, 1, (16, d)) * lattice.step * np.array(lattice.counts)
    top = float(kernel.diagonal(origin)[0])
    product = np.ones(16) * top
    for axis in range(d):
        alone = np.zeros_like(lags)
        alone[:, axis] = lags[:, axis]
        product *= kernel(origin, alone)[0] / top
    return bool(np.allclose(kernel(origin, lags)[0], product, rtol=1e-10, atol=1e-14 * top))


def _tensor_factor(kernel: Kernel, lattice: Lattice, threshold: float, limit: int) -> Any | None:
    d = len(lattice.counts)
    top = float(kernel.diagonal(np.zeros((1, d)))[0])
    values, vectors = [], []
    for axis, count in enumerate(lattice.counts):
        rows = np.zeros((count, d))
        rows[:, axis] = lattice.step[axis] * np.arange(count)
        K = kernel(rows, rows)
        w, V = np.linalg.eigh(K if axis == 0 else K / top)
        values.append(np.maximum(w[::-1], 0.0))
        vectors.append(V[:, ::-1])
    spectrum = reduce(np.multiply.outer, values)
    kept = np.argwhere(spectrum > max(threshold, _ROUNDING * float(spectrum.max())))
    if len(kept) > limit:
        return None
    factor = np.empty((len(kept), lattice.size))
    for row, index in zip(factor, kept):
        column = reduce(np.multiply.outer, [V[:, i] for V, i in zip(vectors, index)])
        row[:] = column.ravel() * np.sqrt(spectrum[tuple(index)])
    return factor


def _pivoted_cholesky(kernel: Kernel, lattice: Lattice, threshold: float, limit: int) -> Any | None:
    points = lattice.offsets()
    left = kernel.diagonal(points).copy()
    enough = max(threshold, _ROUNDING * lattice.size * float(left.max())) / 10
    factor = np.empty((limit, lattice.size))
    for k in range(limit):
        pivot = int(left.argmax())
        if left[pivot] <= enough:
            return factor[:k].copy()
        row = kernel(points[pivot : pivot + 1], points)[0]
        row -= factor[:k, pivot] @ factor[:k]
        row /= np.sqrt(left[pivot])
        factor[k] = row
        left -= row * row
    return factor if float(left.max()) <= enough or limit == lattice.size else None
