r"""The kernel of the sum of absolute differences, k(x, x') = exp(−γ Σ_j w_j |x_j − x'_j|).

∂k/∂x_j = −γ w_j k(x, z) sign(x_j − z_j) with sign(0) = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from onefold.kernels.base import Tile
from onefold.kernels.width import WidthKernel, mean_over_pairs, outer_sum
from onefold.linalg import Array, exp_in_place, is_numpy, namespace, ones
from onefold.machine.spans import spans

_STRIP = 2**16  # numbers of a tile whose signs are taken at once: they stay in cache


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
        distances = _host_distances if is_numpy(landmarks) else _device_distances
        right = transform(landmarks)

        def tile(rows: Array, out: Array | None = None) -> Array:
            total = distances(transform(rows), right, out)
            total *= -1.0
            return exp_in_place(total)

        return tile

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
        moved = self.transform(rows)(rows)
        distances = _host_distances if is_numpy(rows) else _device_distances
        return mean_over_pairs(distances(moved, moved, None))

    def gradient(self, rows: Array, landmarks: Array, coef: Array, factor: Array | None = None) -> Array:
        xp, tile, transform = namespace(rows), self(rows, landmarks), self.transform(rows)
        if factor is not None:
            tile *= factor
        n, d = rows.shape
        step = max(1, _STRIP // landmarks.shape[0]) if is_numpy(rows) else n

        def sums(part: slice, feature: int) -> Array:
            signs = xp.sign(rows[part, feature][:, None] - landmarks[:, feature][None, :])
            signs *= tile[part, :]
            return signs @ coef

        strips = [xp.stack([sums(part, j) for j in range(d)], axis=1) for part in spans(n, step)]
        gradients = -xp.concat(strips)
        return xp.stack([transform.pull_back(gradients[:, :, t]) for t in range(coef.shape[1])], axis=2)


def _host_distances(left: Array, right: Array, out: Array | None) -> Array:
    fits = out is not None and out.dtype == np.float64 and out.flags.c_contiguous
    tile = cdist(left, right, "cityblock", out=out if fits else None)
    return tile.astype(np.result_type(left, right), copy=False)


def _device_distances(left: Array, right: Array, out: Array | None) -> Array:
    total = abs(left[:, 0][:, None] - right[:, 0][None, :])
    for feature in range(1, left.shape[1]):  # over columns: no (n, m, d) array
        total += abs(left[:, feature][:, None] - right[:, feature][None, :])
    return total
