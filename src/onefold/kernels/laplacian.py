r"""The kernel of the sum of absolute differences, k(x, x') = exp(−γ Σ_j w_j |x_j − x'_j|).

∂k/∂x_j = −γ w_j k(x, z) sign(x_j − z_j) with sign(0) = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.kernels.base import Tile, listed
from onefold.kernels.metric import WidthKernel, outer_sum
from onefold.linalg import Array, HostArray, in_place, l1_exponentials, namespace, signed_sums, to_numpy


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
    learns = ("diagonal",)
    width_power = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric is not None and self.metric.values.ndim == 2:
            raise ValueError(
                "the Laplacian kernel adds up features one by one and takes no matrix as its metric; "
                f"give one weight per feature, or use {listed(lambda kind: 'full' in kind.learns)}."
            )

    def __call__(self, A: Array, B: Array) -> Any:
        return self.bind(B)(A)

    def bind(self, landmarks: Array) -> Tile:
        transform = self.transform(landmarks)
        exponentials = l1_exponentials(transform(landmarks))
        return lambda rows, out=None: exponentials(transform(rows), out)

    def on_grid(self, axes: Sequence[Array]) -> Any:
        return in_place("exp", -outer_sum([abs(axis * self.gamma) for axis in axes]))

    def pairs(self, A: Array, B: Array) -> Any:
        return in_place("exp", -namespace(A).sum(abs(self.transform(A)(A - B)), axis=1))

    def _mean_exponent(self, rows: Array, share: HostArray) -> float:
        # Σ_ij v_i v_j |x_i − x_j| = 2 Σ_k v_k x_k (Σ_{l<k} v_l − Σ_{l>k} v_l), a column's rows in order
        moved = to_numpy(self.transform(rows)(rows)).astype(np.float64)
        order = np.argsort(moved, axis=0, kind="stable")
        ordered = np.take_along_axis(moved, order, axis=0)
        share = share[order]
        up_to = np.cumsum(share, axis=0)
        between = (up_to - share) - (up_to[-1] - up_to)
        return 2.0 * float(np.sum(share * between * (ordered - ordered[:1])))

    def gradient(self, rows: Array, landmarks: Array, coef: Array, factor: Array | None = None) -> Any:
        tile, transform = self(rows, landmarks), self.transform(rows)
        if factor is not None:
            tile *= factor
        gradients = -signed_sums(rows, landmarks, tile, coef)
        targets = [transform.pull_back(gradients[:, :, t]) for t in range(coef.shape[1])]
        return namespace(rows).stack(targets, axis=2)
