r"""Kernels of a distance: rbf, Matérn and Laplacian.

    rbf        k(x, x') = exp(−γ ‖x − x'‖²)
    matern     the same γ: r = √(2γ) ‖x − x'‖, k = exp(−r), (1 + √3 r) e^{−√3 r} or
               (1 + √5 r + 5r²/3) e^{−√5 r}; its limit for ν → ∞ is the rbf kernel of that γ
    laplacian  k(x, x') = exp(−γ ‖x − x'‖₁)

With one γ per feature each squared (or absolute) difference is multiplied by its own γ_j.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from onefold.kernels.base import (
    Width,
    WidthKernel,
    check_width,
    inner_products,
    outer_sum,
    squared_norms,
)
from onefold.linalg import Array, exp_negative, is_numpy, is_sparse, namespace, ones

# ‖a‖² + ‖b‖² − 2a·b loses eps·(‖a‖² + ‖b‖²) of d². In units of the kernel's width that is harmless
# while the norms are small; above this sum of squared norms the close pairs are computed anew.
_HARMLESS_NORM = 64.0
_FAR = 50.0  # exp(−50) is nothing: pairs further apart need no better distance
_LOST_DIGITS = 1e-3


def squared_distances(A: Array, B: Array, harmless_norm: float = _HARMLESS_NORM) -> Array:
    """‖a − b‖² for every pair, never negative, accurate also for nearly equal rows.

    One matrix product, O(|A|·|B|·d); pairs whose distance lost digits to cancellation and still
    matters to a kernel are recomputed from their differences.
    """
    norms_a = squared_norms(A)
    norms_b = norms_a if B is A else squared_norms(B)
    distances = inner_products(A, B)
    distances *= -2
    distances += norms_a[:, None]
    distances += norms_b[None, :]
    if is_numpy(A):
        np.maximum(distances, 0, out=distances)
        if distances.size and norms_a.max() + norms_b.max() > harmless_norm:
            _refine_close_pairs(distances, A, B, norms_a)
        if B is A:
            np.fill_diagonal(distances, 0)
        return distances
    xp = namespace(A)
    distances = xp.where(distances > 0, distances, xp.zeros_like(distances))
    if B is A:
        distances = distances * (1 - xp.eye(A.shape[0], dtype=A.dtype, device=A.device))
    return distances


def fill_squared_distances(
    A: Array, B: Array, out: Array, harmless_norm: float, farthest: float
) -> Array:
    """The same for dense NumPy blocks, into `out`: norms and products in one matrix product.

    Distances beyond `farthest` come back as `farthest`.
    """
    norms_a, norms_b = squared_norms(A), squared_norms(B)
    left = np.empty((A.shape[0], A.shape[1] + 2), dtype=A.dtype)
    right = np.empty((B.shape[0], B.shape[1] + 2), dtype=B.dtype)
    np.multiply(A, -2, out=left[:, :-2])
    left[:, -2], left[:, -1] = norms_a, 1
    right[:, :-2], right[:, -2], right[:, -1] = B, 1, norms_b
    np.matmul(left, right.T, out=out)
    np.clip(out, 0, farthest, out=out)
    if out.size and norms_a.max() + norms_b.max() > harmless_norm:
        _refine_close_pairs(out, A, B, norms_a)
    return out


def _refine_close_pairs(distances: Array, A: Array, B: Array, norms_a: Array) -> None:
    limit = np.minimum(_LOST_DIGITS * norms_a, _FAR).astype(distances.dtype)
    suspects = np.flatnonzero(distances.min(axis=1) < limit)
    rows, columns = np.nonzero(distances[suspects] < limit[suspects, None])
    rows = suspects[rows]
    block = max(1, 2**20 // max(1, A.shape[1]))
    for start in range(0, rows.size, block):
        i, j = rows[start : start + block], columns[start : start + block]
        difference = A[i] - B[j]
        distances[i, j] = (
            squared_norms(difference) if is_sparse(A) else np.einsum("ij,ij->i", *[difference] * 2)
        )


class _Radial(WidthKernel):
    stationary = True
    harmless_norm = _HARMLESS_NORM

    @property
    def accepts_sparse(self) -> bool:
        return True

    @abstractmethod
    def profile(self, squared: Array) -> Array:
        """The kernel's value at squared distances in units of its width; may overwrite them."""

    def distance_at(self, exponent: float) -> float:
        """The squared distance at which the kernel falls to about exp(−exponent)."""
        return exponent

    def __call__(self, A: Array, B: Array) -> Array:
        rows = self.weigh(A, 0.5)
        others = rows if B is A else self.weigh(B, 0.5)
        return self.profile(squared_distances(rows, others, self.harmless_norm))

    def on_grid(self, axes: Sequence[Array]) -> Array:
        return self.profile(outer_sum([self.weigh(axis, 0.5) ** 2 for axis in axes]))

    def fill(self, A: Array, B: Array, out: Array) -> Array:
        rows, others = self.weigh(A, 0.5), self.weigh(B, 0.5)
        # The square of the smallest value is still a normal number: products of subnormal numbers
        # take a processor a hundred times longer, and 2⁻⁶² of the diagonal is nothing.
        exponent = math.log(2.0) * (62 if out.dtype == np.float32 else 510)
        farthest = self.distance_at(exponent)
        return self.profile(fill_squared_distances(rows, others, out, self.harmless_norm, farthest))

    def diagonal(self, A: Array) -> Array:
        return ones(A.shape[0], A)

    def pairs(self, A: Array, B: Array) -> Array:
        return self.profile(squared_norms(self.weigh(A - B, 0.5)))


@dataclass(frozen=True)
class RBF(_Radial):
    r"""k(x, x') = exp(−γ ‖x − x'‖²), or exp(−Σ_j γ_j (x_j − x'_j)²)."""

    gamma: Width = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", check_width(self.gamma))

    def profile(self, squared: Array) -> Array:
        return exp_negative(squared)


@dataclass(frozen=True)
class Matern(_Radial):
    r"""Matérn kernel of smoothness ν = 1/2, 3/2 or 5/2 with r = √(2γ) ‖x − x'‖.

    In the usual length scale ℓ, γ = 1 / (2 ℓ²).
    """

    gamma: Width = 1.0
    nu: float = 1.5
    harmless_norm = 0.0  # the root of a small squared distance magnifies its rounding

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", check_width(self.gamma))
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"nu must be 0.5, 1.5 or 2.5; got {self.nu!r}.")

    def distance_at(self, exponent: float) -> float:
        return exponent**2 / (4.0 * self.nu)

    def profile(self, squared: Array) -> Array:
        xp = namespace(squared)
        r = xp.sqrt(squared * (4.0 * self.nu))  # √(2ν)·√(2 d²)
        factor: Any = 1.0
        if self.nu == 1.5:
            factor = 1.0 + r
        elif self.nu == 2.5:
            factor = 1.0 + r + r * r / 3.0
        return exp_negative(r) * factor


@dataclass(frozen=True)
class Laplacian(WidthKernel):
    r"""k(x, x') = exp(−γ Σ_j |x_j − x'_j|), or exp(−Σ_j γ_j |x_j − x'_j|)."""

    gamma: Width = 1.0
    stationary = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", check_width(self.gamma))

    def __call__(self, A: Array, B: Array) -> Array:
        left, right = self.weigh(A, 1.0), self.weigh(B, 1.0)
        if is_numpy(A):
            tile = cdist(left, right, "cityblock").astype(left.dtype, copy=False)
            return exp_negative(tile)
        xp = namespace(A)
        total = xp.zeros((A.shape[0], B.shape[0]), dtype=A.dtype, device=A.device)
        for feature in range(A.shape[1]):  # over columns: one pass each, no (n, m, d) array
            total += xp.abs(left[:, feature][:, None] - right[:, feature][None, :])
        return exp_negative(total)

    def on_grid(self, axes: Sequence[Array]) -> Array:
        return exp_negative(outer_sum([abs(self.weigh(axis, 1.0)) for axis in axes]))

    def diagonal(self, A: Array) -> Array:
        return ones(A.shape[0], A)

    def pairs(self, A: Array, B: Array) -> Array:
        return exp_negative(namespace(A).sum(abs(self.weigh(A - B, 1.0)), axis=1))
