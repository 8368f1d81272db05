"""Kernels that the user brings: a matrix computed elsewhere, or a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from onefold.kernels.base import Kernel
from onefold.linalg import Array, is_sparse, namespace


@dataclass(frozen=True)
class Precomputed(Kernel):
    """X is the kernel matrix itself: (n, n) to fit, (rows, n) to predict."""

    always_psd = False

    def __call__(self, A: Array, B: Array) -> Any:
        raise TypeError(
            "a precomputed kernel has no rows to compare, X being the kernel matrix itself; use it by "
            "itself, and add or multiply matrices before they are given."
        )

    def diagonal(self, A: Array) -> Any:
        return namespace(A).linalg.diagonal(A)


@dataclass(frozen=True)
class CallableKernel(Kernel):
    """k(A, B) = function(A, B), the whole (len(A), len(B)) tile at once."""

    function: Callable[[Array, Array], Array]
    always_psd = False
    thread_safe = False
    accepts_sparse = True

    def __call__(self, A: Array, B: Array) -> Any:
        tile = self.function(A, B)
        tile = tile.toarray() if is_sparse(tile) else tile
        shape = getattr(tile, "shape", ())
        if tuple(shape) != (A.shape[0], B.shape[0]):
            raise ValueError(
                f"the kernel function returned shape {tuple(shape)} for blocks of {A.shape[0]} and "
                f"{B.shape[0]} rows; it must return the ({A.shape[0]}, {B.shape[0]}) matrix of its "
                "values (wrap a function f of two rows as "
                "lambda A, B: sklearn.metrics.pairwise.pairwise_kernels(A, B, metric=f))."
            )
        # A copy: what the function returns is the user's, and tiles are worked on in place.
        xp = namespace(tile)
        return xp.asarray(tile, dtype=xp.float64, copy=True)

    def diagonal(self, A: Array) -> Any:
        return self.pairs(A, A)
