r"""Kernels of the inner product: linear and polynomial."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onefold.kernels.base import (
    Kernel,
    Width,
    WidthKernel,
    check_width,
    inner_products,
    squared_norms,
)
from onefold.linalg import Array


@dataclass(frozen=True)
class Linear(Kernel):
    r"""k(x, x') = x · x'."""

    @property
    def accepts_sparse(self) -> bool:
        return True

    def __call__(self, A: Array, B: Array) -> Array:
        return inner_products(A, B)

    def diagonal(self, A: Array) -> Array:
        return squared_norms(A)


@dataclass(frozen=True)
class Polynomial(WidthKernel):
    r"""k(x, x') = (γ x · x' + c)^degree, or (Σ_j γ_j x_j x'_j + c)^degree."""

    gamma: Width = 1.0
    degree: float = 3
    coef0: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", check_width(self.gamma))
        if not np.isfinite(self.degree) or self.degree <= 0:
            raise ValueError(f"degree must be greater than 0; got {self.degree!r}.")
        if not np.isfinite(self.coef0):
            raise ValueError(f"coef0 must be a finite number; got {self.coef0!r}.")

    @property
    def always_psd(self) -> bool:  # type: ignore[override]
        return self.coef0 >= 0 and float(self.degree).is_integer()

    @property
    def accepts_sparse(self) -> bool:
        return True

    def __call__(self, A: Array, B: Array) -> Array:
        tile = inner_products(self.weigh(A, 1.0), B)
        tile += self.coef0
        with np.errstate(over="ignore"):  # what overflows is refused by whoever asked for the tile
            tile **= self.degree
        return tile

    def diagonal(self, A: Array) -> Array:
        return (squared_norms(self.weigh(A, 0.5)) + self.coef0) ** self.degree
