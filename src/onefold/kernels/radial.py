r"""Kernels of a Euclidean distance: a profile φ of q = γ ‖S x − S x'‖².

    rbf      φ = exp(−q)
    matern   s = √(4νq): φ = exp(−s), (1 + s) exp(−s) or (1 + s + s²/3) exp(−s) for ν = 1/2, 3/2, 5/2;
             its limit for ν → ∞ is the rbf kernel of that γ

With u = √γ S x the derivative is ∇ₓ k(x, z) = 2 φ'(q) √γ Sᵀ (u − u_z), where 2 φ'(q) is

    rbf      −2 exp(−q)
    matern   −2 exp(−s)/s, −6 exp(−s) or −(10/3) (1 + s) exp(−s); at s = 0 the first is taken as 0
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from onefold.kernels.base import Tile
from onefold.kernels.distances import HARMLESS_NORM, DeviceDistances, HostDistances, distances_to
from onefold.kernels.width import (
    WidthKernel,
    inner_products,
    mean_over_pairs,
    outer_sum,
    squared_norms,
)
from onefold.linalg import (
    Array,
    clip_in_place,
    exp_in_place,
    is_sparse,
    namespace,
    ones,
    root_in_place,
    zero_diagonal,
)


class _Radial(WidthKernel):
    stationary = True
    harmless_norm: ClassVar[float] = HARMLESS_NORM

    @property
    @abstractmethod
    def unit(self) -> float:
        """`profile` takes squared distances q times this."""

    @abstractmethod
    def profile(self, distances: Array) -> Array:
        """φ(q) at unit · q, overwritten."""

    @abstractmethod
    def slope(self, distances: Array) -> Array:
        """2 φ'(q) at unit · q, overwritten."""

    def distance_at(self, exponent: float) -> float:
        """The q at which the kernel falls to about exp(−exponent)."""
        return exponent

    @property
    def accepts_sparse(self) -> bool:
        return True

    def _distances(self, transformed: Array) -> HostDistances | DeviceDistances:
        return distances_to(transformed, self.unit, self.harmless_norm, self.distance_at)

    def __call__(self, A: Array, B: Array) -> Array:
        if B is not A:
            return self.bind(B)(A)
        rows = self.transform(A)(A)
        return self.profile(zero_diagonal(self._distances(rows)(rows)))

    def bind(self, landmarks: Array) -> Tile:
        transform = self.transform(landmarks)
        distances = self._distances(transform(landmarks))
        return lambda rows, out=None: self.profile(distances(transform(rows), out))

    def on_grid(self, axes: Sequence[Array]) -> Array:
        scale = self.gamma**self.width_power
        return self.profile(self.unit * outer_sum([(axis * scale) ** 2 for axis in axes]))

    def diagonal(self, A: Array) -> Array:
        return ones(A.shape[0], A)

    def pairs(self, A: Array, B: Array) -> Array:
        return self.profile(self.unit * squared_norms(self.transform(A)(A - B)))

    def mean_exponent(self, rows: Array) -> float:
        if not is_sparse(rows):
            rows = rows - namespace(rows).mean(rows, axis=0)[None, :]
        moved = self.transform(rows)(rows)
        norms = squared_norms(moved)
        squares = norms[:, None] + norms[None, :] - 2.0 * inner_products(moved, moved)
        squares = zero_diagonal(clip_in_place(squares, 0.0, None))
        squares *= abs(self.unit)
        return mean_over_pairs(squares if self.exponent_order == 1.0 else root_in_place(squares))

    def gradient(self, rows: Array, landmarks: Array, coef: Array, factor: Array | None = None) -> Array:
        xp, transform = namespace(rows), self.transform(rows)
        origin = xp.mean(landmarks, axis=0)[None, :]  # the sums below are of rows, not of differences
        U = transform(rows - origin)
        distances = self._distances(transform(landmarks - origin))
        tile = distances(U)
        close = distances.close_pairs(tile, U)
        slopes = self.slope(tile)
        if factor is not None:
            slopes *= factor
        sums = distances.weighted_differences(slopes, U, coef, close)
        return xp.stack([transform.pull_back(each) for each in sums], axis=2)


@dataclass(frozen=True, repr=False)
class RBF(_Radial):
    r"""k(x, x') = exp(−γ ‖S x − S x'‖²), or exp(−Σ_j γ_j (x_j − x'_j)²).

    Parameters
    ----------
    gamma : float or one per feature, default=1.0
    metric : array (d,) or (d, d), optional
        Weights per feature, or the matrix S; S = I if None. Not together with one gamma per feature.
    """

    @property
    def unit(self) -> float:
        return -1.0

    def profile(self, distances: Array) -> Array:
        return exp_in_place(distances)

    def slope(self, distances: Array) -> Array:
        values = exp_in_place(distances)
        values *= -2.0
        return values


@dataclass(frozen=True, repr=False)
class Matern(_Radial):
    r"""Matérn kernel of smoothness ν = 1/2, 3/2 or 5/2 with s = √(2ν) √(2γ) ‖S x − S x'‖.

    In the usual length scale ℓ, γ = 1 / (2 ℓ²).

    Parameters
    ----------
    gamma, metric
        As in :class:`RBF`.
    nu : {0.5, 1.5, 2.5}, default=1.5
    """

    nu: float = 1.5
    exponent_order = 2.0  # the exponent is that of the distance, γ of its square
    harmless_norm = 0.0  # the root of a small squared distance magnifies its rounding

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"nu must be 0.5, 1.5 or 2.5; got {self.nu!r}.")

    @property
    def unit(self) -> float:
        return 4.0 * self.nu

    def distance_at(self, exponent: float) -> float:
        return exponent**2 / self.unit

    def profile(self, distances: Array) -> Array:
        s = root_in_place(distances)
        if self.nu == 0.5:
            s *= -1.0
            return exp_in_place(s)
        factor = 1.0 + s
        if self.nu == 2.5:
            factor += s * s / 3.0
        s *= -1.0
        values = exp_in_place(s)
        values *= factor
        return values

    def slope(self, distances: Array) -> Array:
        s = root_in_place(distances)
        xp = namespace(s)
        if self.nu == 0.5:
            factor = -2.0 / xp.where(s > 0, s, xp.full_like(s, xp.inf))
        else:
            factor = xp.full_like(s, -6.0) if self.nu == 1.5 else (1.0 + s) * (-10.0 / 3.0)
        s *= -1.0
        values = exp_in_place(s)
        values *= factor
        return values
