r"""Kernels of the inner product: linear and polynomial.

Of the linear kernel ∇ₓ k(x, z) = z, of the polynomial one
∇ₓ k(x, z) = degree · γ (γ S x · S z + c)^(degree − 1) Sᵀ S z.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np

from onefold.kernels.base import Kernel, Tile
from onefold.kernels.metric import Transform, WidthKernel, inner_products, squared_norms, weighted_sums
from onefold.linalg import Array, HostArray, double, like, namespace


@dataclass(frozen=True)
class Linear(Kernel):
    r"""k(x, x') = x · x'."""

    accepts_sparse = True

    def __call__(self, A: Array, B: Array) -> Array:
        return inner_products(A, B)

    def bind(self, landmarks: Array) -> Tile:
        return lambda rows, out=None: inner_products(rows, landmarks, out)

    def diagonal(self, A: Array) -> Array:
        return squared_norms(A)

    def gradient(self, rows: Array, landmarks: Array, coef: Array, factor: Array | None = None) -> Array:
        xp = namespace(rows)
        if factor is None:  # the same at every row
            same = (landmarks.T @ coef)[None, ...]
            return xp.broadcast_to(same, (rows.shape[0], *same.shape[1:]))
        return weighted_sums(factor, coef, landmarks)


@dataclass(frozen=True, repr=False)
class Polynomial(WidthKernel):
    r"""k(x, x') = (γ S x · S x' + c)^degree, or (Σ_j γ_j x_j x'_j + c)^degree.

    Parameters
    ----------
    gamma, metric
        As in :class:`RBF`.
    degree, coef0 : float, default=3, 1.0
        The exponent, and c.
    """

    degree: float = 3
    coef0: float = 1.0
    accepts_sparse = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.degree, Real) or not 0 < self.degree < np.inf:
            raise ValueError(f"degree must be a number greater than 0; got {self.degree!r}.")
        if not isinstance(self.coef0, Real) or not np.isfinite(self.coef0):
            raise ValueError(f"coef0 must be a finite number; got {self.coef0!r}.")

    @property
    def always_psd(self) -> bool:  # type: ignore[override]
        return self.coef0 >= 0 and float(self.degree).is_integer()

    def bind(self, landmarks: Array) -> Tile:
        base = self._base(landmarks)
        return lambda rows, out=None: _power(base(rows, out), self.degree)

    def _base(self, landmarks: Array) -> Tile:
        """Rows → γ S x · S z + c: the width goes to the rows, the landmarks keep their digits."""
        transform = Transform(self.gamma, self.metric, landmarks)
        others = landmarks if self.metric is None else Transform(1.0, self.metric, landmarks)(landmarks)

        def base(rows: Array, out: Array | None = None) -> Array:
            tile = inner_products(transform(rows), others, out)
            tile += self.coef0
            return tile

        return base

    def diagonal(self, A: Array) -> Array:
        return _power(squared_norms(self.transform(A)(A)) + self.coef0, self.degree)

    def _mean_exponent(self, rows: Array, share: HostArray) -> float:
        squares = double(squared_norms(self.transform(rows)(rows)))  # of a row with itself
        return float(like(share, squares) @ squares)

    def gradient(self, rows: Array, landmarks: Array, coef: Array, factor: Array | None = None) -> Array:
        weights = _power(self._base(landmarks)(rows), self.degree - 1)
        weights *= self.degree
        if factor is not None:
            weights *= factor
        transform = self.transform(rows)  # √γ S, so that twice of it is γ SᵀS
        return weighted_sums(weights, coef, transform.pull_back(transform(landmarks)))


def _power(tile: Array, exponent: float) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):  # refused by whoever asked for the tile
        tile **= exponent
    return tile
