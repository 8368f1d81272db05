r"""Kernels of a distance. Of the Euclidean one: a profile φ of q = γ ‖S x − S x'‖².

    rbf      φ = exp(−q)
    matern   s = √(4νq): φ = exp(−s), (1 + s) exp(−s) or (1 + s + s²/3) exp(−s) for ν = 1/2, 3/2, 5/2;
             its limit for ν → ∞ is the rbf kernel of that γ

With u = √γ S x the derivative is ∇ₓ k(x, z) = 2 φ'(q) √γ Sᵀ (u − u_z), where 2 φ'(q) is

    rbf      −2 exp(−q)
    matern   −2 exp(−s)/s, −6 exp(−s) or −(10/3) (1 + s) exp(−s); at s = 0 the first is taken as 0

Squared distances between rows and landmarks, which are prepared once, come in one matrix product,

    ‖a − z‖² = [−2a, ‖a‖², 1] · [z, 1, ‖z‖²]

times a constant, its sign included: the exponent −d² of the rbf kernel leaves the product as it is,
without a pass over the tile to turn its sign.

Of the sum of absolute differences: k(x, x') = exp(−γ Σ_j w_j |x_j − x'_j|), for which
∂k/∂x_j = −γ w_j k(x, z) sign(x_j − z_j) with sign(0) = 0.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from onefold import linalg
from onefold.kernels.base import Tile, listed
from onefold.kernels.metric import WidthKernel, inner_products, outer_sum, squared_norms, weighted_sums
from onefold.linalg import Array, HostArray, double, in_place, is_numpy, is_sparse, namespace
from onefold.machine.threads import spans

Pairs = tuple[Any, Any]
"""Row numbers and column numbers of pairs, in the order of the rows."""

# ‖a‖² + ‖b‖² − 2a·b loses eps·(‖a‖² + ‖b‖²) of d². In units of the kernel's width that is harmless
# while the norms are small; above this sum of squared norms the close pairs are computed anew.
HARMLESS_NORM = 64.0
_FAR = 50.0  # exp(−50) is nothing: pairs further apart need no better distance
_LOST_DIGITS = 1e-3
_ROUNDINGS = 4  # eps per feature that d² of close rows may be wrong by, as a share of ‖a‖²
_PAIR_NUMBERS = 2**20  # differences of close pairs formed at a time
_STRIP = 2**16  # numbers of a tile whose slopes are taken at once: they and their copies stay in cache


class Radial(WidthKernel):
    """A kernel of a distance: `profile` and `slope` make one, defaults serve for the rest."""

    stationary = True
    accepts_sparse = True
    unit: float = 1.0  # `profile` and `slope` take squared distances q times this
    slope_unit: float = 1.0  # a factor that `slope` leaves out
    harmless_norm: ClassVar[float] = HARMLESS_NORM  # of squared rows that need no better distances

    @abstractmethod
    def profile(self, distances: Array) -> Array:
        """φ(q) at unit · q, overwritten."""

    @abstractmethod
    def slope(self, distances: Array, rounding: Array) -> Array:
        """2 φ'(q) / slope_unit at unit · q, overwritten; numbers up to `rounding` stand for 0."""

    def distance_at(self, exponent: float) -> float:
        """The q at which the kernel falls to about exp(−exponent)."""
        return exponent**self.exponent_order / abs(self.unit)

    def __call__(self, A: Array, B: Array) -> Array:
        if B is not A:
            return super().__call__(A, B)
        rows = self.transform(A)(A)
        return self.profile(linalg.zero_diagonal(Distances(rows, self)(rows)[0]))

    def bind(self, landmarks: Array) -> Tile:
        transform = self.transform(landmarks)
        distances = Distances(transform(landmarks), self)
        return lambda rows, out=None: self.profile(distances(transform(rows), out)[0])

    def on_grid(self, axes: Sequence[Array]) -> Array:
        scale = self.gamma**self.width_power
        return self.profile(self.unit * outer_sum([(axis * scale) ** 2 for axis in axes]))

    def pairs(self, A: Array, B: Array) -> Array:
        return self.profile(self.unit * squared_norms(self.transform(A)(A - B)))

    def _mean_exponent(self, rows: Array, share: HostArray) -> float:
        if not is_sparse(rows):
            rows = rows - namespace(rows).mean(rows, axis=0)[None, :]
        moved = self.transform(rows)(rows)
        norms = squared_norms(moved)
        squares = norms[:, None] + norms[None, :] - 2.0 * inner_products(moved, moved)
        squares = linalg.zero_diagonal(linalg.clip_in_place(squares, 0.0, None))
        squares *= abs(self.unit)
        distances = double(squares if self.exponent_order == 1.0 else in_place("sqrt", squares))
        share = linalg.like(share, distances)
        return float(share @ (distances @ share))

    def gradient(self, rows: Array, landmarks: Array, coef: Array, factor: Array | None = None) -> Array:
        xp, transform, coef = namespace(rows), self.transform(rows), coef * self.slope_unit
        origin = xp.mean(landmarks, axis=0)[None, :]  # the sums below are of rows, not of differences
        about = rows - origin
        U, Z = transform(about), transform(landmarks - origin)
        distances = Distances(Z, self)
        tile, close = distances(U)
        rounding = distances.rounding(U) + abs(self.unit) * transform.rounding(about)[:, None]
        if close is None:
            slopes = self.slope(tile, rounding)
        else:
            slopes = tile
            for part in spans(len(tile), max(1, _STRIP // tile.shape[1])):
                slopes[part] = self.slope(tile[part], rounding[part])
        if factor is not None:
            slopes *= factor
        if close is not None:  # as differences of two sums they would lose their digits
            slopes[close] = 0.0
        ones_too = xp.concat([transform.pull_back(Z), xp.ones_like(Z[:, :1])], axis=1)
        sums = weighted_sums(slopes, coef, ones_too)
        gradients = transform.pull_back(U)[:, :, None] * sums[:, -1:, :]
        gradients -= sums[:, :-1, :]
        # Of close pairs slope · coef · (u − u_z), from the differences of the rows themselves.
        for i, j in [] if close is None else pair_blocks(close, rows.shape[1]):
            difference = rows[i] - landmarks[j]
            apart = transform(difference)
            # A matrix may take rows that differ to the same point, up to its rounding.
            rounding = abs(self.unit) * transform.rounding(difference)
            weights = self.slope(self.unit * squared_norms(apart), rounding)
            if factor is not None:
                weights *= factor[i, j]
            pulled = transform.pull_back(apart) * weights[:, None]
            first = np.flatnonzero(np.diff(i, prepend=-1))
            for t in range(coef.shape[1]):
                gradients[i[first], :, t] += np.add.reduceat(pulled * coef[j, t][:, None], first)
        return gradients


@dataclass(frozen=True, repr=False)
class RBF(Radial):
    r"""k(x, x') = exp(−γ ‖S x − S x'‖²), or exp(−Σ_j γ_j (x_j − x'_j)²).

    Parameters
    ----------
    gamma : float or one per feature, default=1.0
    metric : array (d,) or (d, d), optional
        Weights per feature, or the matrix S; S = I if None. Not together with one gamma per feature.
    """

    unit = -1.0
    slope_unit = -2.0

    def profile(self, distances: Array) -> Array:
        return in_place("exp", distances)

    def slope(self, distances: Array, rounding: Array) -> Array:
        return in_place("exp", distances)


@dataclass(frozen=True, repr=False)
class Matern(Radial):
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
        object.__setattr__(self, "unit", 4.0 * self.nu)
        object.__setattr__(self, "slope_unit", {0.5: -2.0, 1.5: -6.0, 2.5: -10.0 / 3.0}[self.nu])

    def profile(self, distances: Array) -> Array:
        s = in_place("sqrt", distances)
        if self.nu == 0.5:
            s *= -1.0
            return in_place("exp", s)
        factor = 1.0 + s
        if self.nu == 2.5:
            factor += s * s / 3.0
        s *= -1.0
        values = in_place("exp", s)
        values *= factor
        return values

    def slope(self, distances: Array, rounding: Array) -> Array:
        xp = namespace(distances)
        if self.nu == 0.5:  # no slope at distance 0, and none of a distance that is all rounding
            distances = xp.where(distances > rounding, distances, xp.inf)
        s = in_place("sqrt", distances)
        values = in_place("exp", -s)
        if self.nu == 0.5:
            values /= s
        elif self.nu == 2.5:
            s += 1.0
            values *= s
        return values


class Distances:
    """unit · ‖a − z‖² to the landmarks Z (m, d), an array or a CSR matrix, for the profile of a kernel.

    In NumPy they are accurate also for nearly equal rows: pairs whose distance lost digits to
    cancellation and still matters to the kernel are recomputed from their differences. In other
    libraries, where a device would wait for that, eps · ‖a‖² is lost of close rows: they must lie about
    0 in units of the kernel's width.
    """

    def __init__(self, Z: Array, kernel: Radial) -> None:
        self._Z, self._kernel, self._unit = Z, kernel, kernel.unit
        self._norms = norms = squared_norms(Z)
        if not is_sparse(Z):
            xp = namespace(Z)
            self._right = xp.concat([Z, xp.ones_like(norms)[:, None], norms[:, None]], axis=1).T

    def __call__(self, A: Array, out: Array | None = None) -> tuple[Any, Pairs | None]:
        """The tile (len(A), m), never of the wrong sign, the close pairs or None; far ones less far."""
        if not is_numpy(A):
            xp, unit = namespace(A), self._unit
            norms = squared_norms(A)[:, None] * unit
            left = xp.concat([A * (-2 * unit), norms, xp.full_like(norms, unit)], axis=1)
            tile = linalg.product_into(left, self._right, out)
            return linalg.clip_in_place(tile, *((0.0, None) if unit > 0 else (None, 0.0))), None
        norms, sign = squared_norms(A), math.copysign(1.0, self._unit)
        if is_sparse(A) or is_sparse(self._Z):
            tile = np.asarray(inner_products(A, self._Z))
            tile *= -2 * sign
            tile += sign * norms[:, None]
            tile += sign * self._norms[None, :]
        else:
            left = np.empty((A.shape[0], A.shape[1] + 2), dtype=A.dtype)
            np.multiply(A, -2 * sign, out=left[:, :-2])
            np.multiply(norms, sign, out=left[:, -2])
            left[:, -1] = sign
            tile = linalg.product_into(left, self._right, out)
        close = self._close_pairs(tile, norms, sign)
        for i, j in pair_blocks(close, A.shape[1]):
            apart = A[i] - self._Z[j]
            squares = squared_norms(apart) if is_sparse(apart) else np.einsum("ij,ij->i", apart, apart)
            tile[i, j] = sign * squares
        # This distance stands for all further ones. The square of the kernel there is still a normal
        # number: products of subnormal numbers take a processor a hundred times longer, and 2⁻⁶² of the
        # diagonal is nothing.
        halvings = 62 if tile.dtype == np.float32 else 510
        farthest = sign * self._kernel.distance_at(math.log(2.0) * halvings)
        linalg.clip_in_place(tile, min(0.0, farthest), max(0.0, farthest))
        if abs(self._unit) != 1.0:
            tile *= abs(self._unit)
        return tile, close

    def rounding(self, A: Array) -> Array | float:
        """Up to which a number of the tile may be that of equal rows, (rows, 1); 0 in NumPy."""
        if is_numpy(A):
            return 0.0
        eps = float(namespace(A).finfo(A.dtype).eps)
        return squared_norms(A)[:, None] * (abs(self._unit) * _ROUNDINGS * (A.shape[1] + 2) * eps)

    def _close_pairs(self, tile: Any, norms: Any, sign: float) -> Pairs:
        if tile.size == 0 or not norms.max() + self._norms.max() > self._kernel.harmless_norm:
            return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
        rounding = _ROUNDINGS * (self._Z.shape[1] + 2) * float(np.finfo(tile.dtype).eps)
        within = np.maximum(np.minimum(_LOST_DIGITS * norms, _FAR), rounding * norms)
        limit = within.astype(tile.dtype) * tile.dtype.type(sign)
        near = np.less if sign > 0 else np.greater
        nearest = tile.min(axis=1) if sign > 0 else tile.max(axis=1)
        suspects = np.flatnonzero(near(nearest, limit))
        part = tile if suspects.size == len(tile) else tile[suspects]
        rows, columns = np.divmod(np.flatnonzero(near(part, limit[suspects, None])), tile.shape[1])
        return suspects[rows], columns


def pair_blocks(pairs: Pairs, features: int) -> Iterator[Pairs]:
    """The pairs, so many at a time that their differences take little memory."""
    rows, columns = pairs
    for part in spans(rows.size, max(1, _PAIR_NUMBERS // max(1, features))):
        yield rows[part], columns[part]


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

    def bind(self, landmarks: Array) -> Tile:
        transform = self.transform(landmarks)
        exponentials = linalg.l1_exponentials(transform(landmarks))
        return lambda rows, out=None: exponentials(transform(rows), out)

    def on_grid(self, axes: Sequence[Array]) -> Array:
        return in_place("exp", -outer_sum([abs(axis * self.gamma) for axis in axes]))

    def pairs(self, A: Array, B: Array) -> Array:
        return in_place("exp", -namespace(A).sum(abs(self.transform(A)(A - B)), axis=1))

    def _mean_exponent(self, rows: Array, share: HostArray) -> float:
        # Σ_ij v_i v_j |x_i − x_j| = 2 Σ_k v_k x_k (Σ_{l<k} v_l − Σ_{l>k} v_l), a column's rows in order
        moved = linalg.to_numpy(self.transform(rows)(rows)).astype(np.float64)
        order = np.argsort(moved, axis=0, kind="stable")
        ordered = np.take_along_axis(moved, order, axis=0)
        share = share[order]
        up_to = np.cumsum(share, axis=0)
        between = (up_to - share) - (up_to[-1] - up_to)
        return 2.0 * float(np.sum(share * between * (ordered - ordered[:1])))

    def gradient(self, rows: Array, landmarks: Array, coef: Array, factor: Array | None = None) -> Array:
        tile, transform = self(rows, landmarks), self.transform(rows)
        if factor is not None:
            tile *= factor
        gradients = -linalg.signed_sums(rows, landmarks, tile, coef)
        targets = [transform.pull_back(gradients[:, :, t]) for t in range(coef.shape[1])]
        return namespace(rows).stack(targets, axis=2)
