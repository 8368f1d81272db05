r"""The kernel of the sum of absolute differences, k(x, x') = exp(−γ Σ_j w_j |x_j − x'_j|).

∂k/∂x_j = −γ w_j k(x, z) sign(x_j − z_j) with sign(0) = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onefold.kernels.base import Tile
from onefold.kernels.width import WidthKernel, outer_sum
from onefold.linalg import Array, exp_in_place, l1_exponentials, like, namespace, ones, signed_sums


@dataclass(frozen=True, repr=False)
class Laplacian(WidthKernel):
    r"""k(x, x') = exp(−γ Σ_j w_j |x_j − x'_j|), or exp(−Σ_j γ_j |x_j − x'_j|).

    Parameters
    ----------
    gamma : float or one per feature, default=1.0
    metric : array (d,), optional
        Weights w_j ≥ 0 per feature; 1 if None. Not together with one gamma per feature.
    """

    stationary = True
    width_power: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric is not None and self.metric.is_matrix:
            raise ValueError(
                "the Laplacian kernel adds up features one by one and takes no matrix as its metric; "
                "give one weight per feature, or use RBF or Matern."
            )

    def __call__(self, A: Array, B: Array) -> Array:
        return self.bind(B)(A)

    def bind(self, landmarks: Array) -> Tile:
        transform = self.transform(landmarks)
        exponentials = l1_exponentials(transform(landmarks))
        return lambda rows, out=None: exponentials(transform(rows), out)

    def on_grid(self, axes: Sequence[Array]) -> Array:
        return exp_in_place(-outer_sum([abs(axis * self.gamma) for axis in axes]))

    def diagonal(self, A: Array) -> Array:
        return ones(A.shape[0], A)

    def pairs(self, A: Array, B: Array) -> Array:
        return exp_in_place(-namespace(A).sum(abs(self.transform(A)(A - B)), axis=1))

    @property
    def learns(self) -> tuple[str, ...]:
        return ("diagonal",)

    def mean_exponent(self, rows: Array) -> float:
        # Σ_{i<j} |x_i − x_j| = Σ_k (2k − n + 1) x_(k), x_(0) ≤ x_(1) ≤ … the sorted numbers of a column
        xp, n = namespace(rows), rows.shape[0]
        ordered = xp.sort(self.transform(rows)(rows), axis=0)
        places = 2.0 * np.arange(n) - (n - 1)
        total = float(xp.sum(like(places, ordered) @ (ordered - ordered[:1, :])))
        mean = 2.0 * total / (n * (n - 1)) if n > 1 else 0.0
        return mean if 0 < mean < np.inf else 1.0

    def gradient(self, rows: Array, landmarks: Array, coef: Array, factor: Array | None = None) -> Array:
        tile, transform = self(rows, landmarks), self.transform(rows)
        if factor is not None:
            tile *= factor
        gradients = -signed_sums(rows, landmarks, tile, coef)
        targets = [transform.pull_back(gradients[:, :, t]) for t in range(coef.shape[1])]
        return namespace(rows).stack(targets, axis=2)
