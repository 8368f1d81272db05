r"""The kernels that have names: functions of a distance or of the inner product.

Functions of the Euclidean distance are a profile φ of q = γ ‖S x − S x'‖².

    (1)  rbf      φ = exp(−q)
    (2)  matern   s = √(4νq): φ = exp(−s), (1 + s) exp(−s) or (1 + s + s²/3) exp(−s) for ν = 1/2, 3/2,
                  5/2; its limit for ν → ∞ is the rbf kernel of that γ
    (3)  powexp   φ = exp(−q^(p/2)), the powered exponential, positive definite for 0 < p ≤ 2

With u = √γ S x the derivative is

    (4)  ∇ₓ k(x, z) = 2 φ'(q) √γ Sᵀ (u − u_z)

where 2 φ'(q) is

    rbf      −2 exp(−q)
    matern   −2 exp(−s)/s, −6 exp(−s) or −(10/3) (1 + s) exp(−s); at s = 0 the first is taken as 0
    powexp   −p q^(p/2 − 1) exp(−q^(p/2)), at q = 0 taken as 0

The function of the sum of absolute differences is k(x, x') = exp(−γ Σ_j w_j |x_j − x'_j|), for which
∂k/∂x_j = −γ w_j k(x, z) sign(x_j − z_j) with sign(0) = 0.

For functions of the inner product, ∇ₓ k(x, z) = z for the linear kernel, and for the polynomial one
∇ₓ k(x, z) = degree · γ (γ S x · S z + c)^(degree − 1) Sᵀ S z.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from onefold import linalg
from onefold.kernels.base import Kernel, Tile, listed
from onefold.kernels.metric import Transform, WidthKernel, outer_sum, weighted_sums
from onefold.linalg import (
    Array,
    HostArray,
    as_float64,
    as_floating,
    exp_in_place,
    is_sparse,
    namespace,
    sqrt_in_place,
)
from onefold.linalg.distances import (
    HARMLESS_NORM,
    Pairs,
    SquaredDistances,
    inner_products,
    l1_exponentials,
    pair_blocks,
    power_exponentials,
    signed_sums,
    squared_norms,
)
from onefold.machine.threads import spans

# Numbers of a tile whose slopes are computed at a time: they and their copies stay in a core's cache.
_STRIP = 2**16


class Radial(WidthKernel):
    """Base class of kernels of a distance: define `profile` and `slope`.

    Parameters
    ----------
    gamma : float or one per feature, default=1.0
        Width γ; the distance is q = γ ‖S x − S x'‖².
    metric : array (d,) or (d, d), optional
        Weights per feature, or the matrix S; S = I if None. Not together with one gamma per feature.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from onefold.kernels import Radial
    >>> @dataclass(frozen=True, repr=False)
    ... class Cauchy(Radial):
    ...     def profile(self, distances):
    ...         return 1.0 / (1.0 + distances)
    ...
    ...     def slope(self, distances, rounding):
    ...         return -2.0 / (1.0 + distances) ** 2
    >>> Cauchy(gamma=2.0)(np.zeros((1, 1)), np.ones((1, 1))).round(3)
    array([[0.333]])
    """

    stationary = True
    accepts_sparse = True
    unit: float = 1.0  # `profile` and `slope` take squared distances q times this
    slope_unit: float = 1.0  # a factor that `slope` leaves out
    # (c, p) where φ(q) is exp(−(c q)^p): such tiles are made in one pass on a GPU.
    exponential_form: tuple[float, float] | None = None
    # The sum of two rows' squared norms up to which their distance need not be computed anew.
    harmless_norm: ClassVar[float] = HARMLESS_NORM

    @abstractmethod
    def profile(self, distances: Array) -> Array:
        """φ(q) from the numbers unit · q, which may be overwritten."""

    @abstractmethod
    def slope(self, distances: Array, rounding: Array) -> Array:
        """2 φ'(q) / slope_unit from unit · q, which may be overwritten.

        Numbers up to `rounding` count as 0.
        """

    def distance_at(self, exponent: float) -> float:
        """The q at which the kernel falls to about exp(−exponent)."""
        return exponent**self.exponent_order / abs(self.unit)

    def _distances(self, Z: Array) -> SquaredDistances:
        return SquaredDistances(Z, self.unit, self.harmless_norm, self.distance_at)

    def __call__(self, A: Array, B: Array) -> Array:
        if B is not A:
            return super().__call__(A, B)
        rows = self.transform(A)(A)
        return self.profile(linalg.zero_diagonal(self._distances(rows)(rows)[0]))

    def bind(self, landmarks: Array) -> Tile:
        transform = self.transform(landmarks)
        distances = self._distances(transform(landmarks))
        return lambda rows, out=None: self.profile(distances(transform(rows), out)[0])

    def bind_rounded(self, landmarks: Array) -> Tile:
        if not linalg.prefers_large_calls(landmarks):  # close pairs are differences in either type
            return super().bind_rounded(landmarks)
        xp = namespace(landmarks)
        transform = self.transform(landmarks)
        moved = transform(landmarks)
        form = self.exponential_form
        if form is not None:
            factor, power = form
            root = factor**0.5
            fused = power_exponentials(xp.astype(root * moved, xp.float32), power)
            if fused is not None:
                return lambda rows, out=None: fused(xp.astype(root * transform(rows), xp.float32), out)
        distances = self._distances(moved)
        return lambda rows, out=None: self.profile(xp.astype(distances(transform(rows))[0], xp.float32))

    def on_grid(self, axes: Sequence[Array]) -> Array:
        scale = self.gamma**self.width_power
        return self.profile(self.unit * outer_sum([(axis * scale) ** 2 for axis in axes]))

    def pairs(self, A: Array, B: Array) -> Array:
        return self.profile(
            self.unit * squared_norms(self.transform(A)(as_floating(A) - as_floating(B)))
        )

    def _mean_exponent(self, rows: Array, share: HostArray) -> float:
        if not is_sparse(rows):
            rows = rows - namespace(rows).mean(rows, axis=0)[None, :]
        moved = self.transform(rows)(rows)
        norms = squared_norms(moved)
        squares = norms[:, None] + norms[None, :] - 2.0 * inner_products(moved, moved)
        squares = linalg.zero_diagonal(linalg.clip_in_place(squares, 0.0, None))
        squares *= abs(self.unit)
        distances = as_float64(_rooted(squares, self.exponent_order))
        share = linalg.asarray_like(share, distances)
        return float(share @ (distances @ share))

    def gradient(self, rows: Array, landmarks: Array, coef: Array, factor: Array | None = None) -> Array:
        rows = as_floating(rows)
        landmarks = as_floating(landmarks)
        xp = namespace(rows)
        transform = self.transform(rows)
        coef = coef * self.slope_unit
        origin = xp.mean(landmarks, axis=0)[None, :]  # the sums below are of rows, not of differences
        centred = rows - origin
        U = transform(centred)
        Z = transform(landmarks - origin)
        distances = self._distances(Z)
        tile, close = distances(U)
        rounding = distances.rounding(U) + abs(self.unit) * transform.rounding(centred)[:, None]
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
        # The sums over landmarks in (4), of u and of u_z.
        with_ones = xp.concat([transform.pull_back(Z), xp.ones_like(Z[:, :1])], axis=1)
        sums = weighted_sums(slopes, coef, with_ones)
        gradients = transform.pull_back(U)[:, :, None] * sums[:, -1:, :]
        gradients -= sums[:, :-1, :]
        if close is not None:
            self._add_close_pairs(gradients, close, rows, landmarks, coef, factor)
        return gradients

    def _add_close_pairs(
        self,
        gradients: Array,
        close: Pairs,
        rows: Array,
        landmarks: Array,
        coef: Array,
        factor: Array | None,
    ) -> None:
        """Add (4) of close pairs, from the differences of the rows themselves."""
        transform = self.transform(rows)
        for i, j in pair_blocks(close, rows.shape[1]):
            difference = rows[i] - landmarks[j]
            moved = transform(difference)
            # A matrix may take rows that differ to the same point, up to its rounding.
            rounding = abs(self.unit) * transform.rounding(difference)
            weights = self.slope(self.unit * squared_norms(moved), rounding)
            if factor is not None:
                weights *= factor[i, j]
            pulled = transform.pull_back(moved) * weights[:, None]
            first = np.flatnonzero(np.diff(i, prepend=-1))
            for t in range(coef.shape[1]):
                gradients[i[first], :, t] += np.add.reduceat(pulled * coef[j, t][:, None], first)


@dataclass(frozen=True, repr=False)
class RBF(Radial):
    r"""k(x, x') = exp(−γ ‖S x − S x'‖²), or exp(−Σ_j γ_j (x_j − x'_j)²).

    Parameters
    ----------
    gamma : float or one per feature, default=1.0
        Width γ, or one for each feature.
    metric : array (d,) or (d, d), optional
        Weights per feature, or the matrix S; S = I if None. Not together with one gamma per feature.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.kernels import RBF
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> RBF(gamma=0.1)(X, X).round(3)
    array([[1.   , 0.607],
           [0.607, 1.   ]])
    """

    unit = -1.0
    slope_unit = -2.0
    exponential_form = (1.0, 1.0)

    def profile(self, distances: Array) -> Array:
        return exp_in_place(distances)

    def slope(self, distances: Array, rounding: Array) -> Array:
        return exp_in_place(distances)


@dataclass(frozen=True, repr=False)
class Matern(Radial):
    r"""Matérn kernel of smoothness ν = 1/2, 3/2 or 5/2 with s = √(2ν) √(2γ) ‖S x − S x'‖.

    In the usual length scale ℓ, γ = 1 / (2 ℓ²).

    Parameters
    ----------
    gamma : float or one per feature, default=1.0
        Width γ, or one for each feature.
    metric : array (d,) or (d, d), optional
        Weights per feature, or the matrix S; S = I if None. Not together with one gamma per feature.
    nu : {0.5, 1.5, 2.5}, default=1.5

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.kernels import Matern
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> Matern(gamma=0.1, nu=2.5)(X, X).round(3)
    array([[1.   , 0.524],
           [0.524, 1.   ]])
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
        object.__setattr__(self, "exponential_form", (2.0, 0.5) if self.nu == 0.5 else None)

    def profile(self, distances: Array) -> Array:
        s = sqrt_in_place(distances)
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

    def slope(self, distances: Array, rounding: Array) -> Array:
        xp = namespace(distances)
        if self.nu == 0.5:  # no slope at distance 0, nor at one that is nothing but rounding
            distances = xp.where(distances > rounding, distances, xp.inf)
        s = sqrt_in_place(distances)
        values = exp_in_place(-s)
        if self.nu == 0.5:
            values /= s
        elif self.nu == 2.5:
            s += 1.0
            values *= s
        return values


@dataclass(frozen=True, repr=False)
class PowerExponential(Radial):
    r"""The powered exponential kernel k(x, x') = exp(−(√γ ‖S x − S x'‖)^power).

    Between the exponential kernel (power 1, rough functions) and the rbf kernel (power 2, smooth ones).

    Parameters
    ----------
    gamma : float or one per feature, default=1.0
        Width γ, or one for each feature.
    metric : array (d,) or (d, d), optional
        Weights per feature, or the matrix S; S = I if None. Not together with one gamma per feature.
    power : float, default=1.4
        Greater than 0 and at most 2.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.kernels import PowerExponential
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> PowerExponential(gamma=0.1, power=1.0)(X, X).round(3)
    array([[1.   , 0.493],
           [0.493, 1.   ]])
    """

    power: float = 1.4
    slope_unit = -1.0
    harmless_norm = 0.0  # a root of a small squared distance magnifies its rounding

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.power, Real) or not 0 < self.power <= 2:
            raise ValueError(f"power must be a number greater than 0 and at most 2; got {self.power!r}.")
        object.__setattr__(self, "exponent_order", 2.0 / self.power)
        object.__setattr__(self, "exponential_form", (1.0, self.power / 2))

    def profile(self, distances: Array) -> Array:
        exponent = _rooted(distances, self.exponent_order)
        exponent *= -1.0
        return exp_in_place(exponent)

    def slope(self, distances: Array, rounding: Array) -> Array:
        xp = namespace(distances)
        zero = distances <= rounding  # no slope at distance 0, nor at one that is nothing but rounding
        distances = xp.where(zero, 1.0, distances)
        exponent = distances ** (self.power / 2)
        values = exp_in_place(-exponent)
        values *= self.power * exponent / distances
        return xp.where(zero, 0.0, values)


@dataclass(frozen=True, repr=False)
class Laplacian(WidthKernel):
    r"""``k(x, x') = exp(−γ Σ_j w_j |x_j − x'_j|)``, or ``exp(−Σ_j γ_j |x_j − x'_j|)``.

    Parameters
    ----------
    gamma : float or one per feature, default=1.0
        Width γ, or one for each feature.
    metric : array (d,), optional
        Weights w_j ≥ 0 per feature; 1 if None. Not together with one gamma per feature.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.kernels import Laplacian
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> Laplacian(gamma=0.1)(X, X).round(3)
    array([[1.   , 0.741],
           [0.741, 1.   ]])
    """

    stationary = True
    learns = ("diagonal",)
    width_power = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric is not None and self.metric.values.ndim == 2:
            raise ValueError(
                "the Laplacian kernel does not support a matrix as its metric; use one weight per "
                f"feature, or another kernel: {listed(lambda kind: 'full' in kind.learns)}."
            )

    def bind(self, landmarks: Array) -> Tile:
        transform = self.transform(landmarks)
        exponentials = l1_exponentials(transform(landmarks))
        return lambda rows, out=None: exponentials(transform(rows), out)

    def on_grid(self, axes: Sequence[Array]) -> Array:
        return exp_in_place(-outer_sum([abs(axis * self.gamma) for axis in axes]))

    def pairs(self, A: Array, B: Array) -> Array:
        differences = self.transform(A)(as_floating(A) - as_floating(B))
        return exp_in_place(-namespace(A).sum(abs(differences), axis=1))

    def _mean_exponent(self, rows: Array, share: HostArray) -> float:
        # Σ_ij v_i v_j |x_i − x_j| = 2 Σ_k v_k x_k (Σ_{l<k} v_l − Σ_{l>k} v_l), a column's rows in order
        moved = linalg.host_array(self.transform(rows)(rows))
        order = np.argsort(moved, axis=0, kind="stable")
        ordered = np.take_along_axis(moved, order, axis=0)
        share = share[order]
        up_to = np.cumsum(share, axis=0)
        share_below = up_to - share
        share_above = up_to[-1] - up_to
        balance = share_below - share_above
        return 2.0 * float(np.sum(share * balance * (ordered - ordered[:1])))

    def gradient(self, rows: Array, landmarks: Array, coef: Array, factor: Array | None = None) -> Array:
        tile = self(rows, landmarks)
        transform = self.transform(rows)
        if factor is not None:
            tile *= factor
        gradients = -signed_sums(rows, landmarks, tile, coef)
        targets = [transform.pull_back(gradients[:, :, t]) for t in range(coef.shape[1])]
        return namespace(rows).stack(targets, axis=2)


@dataclass(frozen=True)
class Linear(Kernel):
    r"""k(x, x') = x · x'.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.kernels import Linear
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> Linear()(X, X)
    array([[0., 0.],
           [0., 5.]])
    """

    accepts_sparse = True

    def __call__(self, A: Array, B: Array) -> Array:
        return inner_products(as_floating(A), as_floating(B))

    def bind(self, landmarks: Array) -> Tile:
        landmarks = as_floating(landmarks)
        return lambda rows, out=None: inner_products(as_floating(rows), landmarks, out)

    def diagonal(self, A: Array) -> Array:
        return squared_norms(as_floating(A))

    def gradient(self, rows: Array, landmarks: Array, coef: Array, factor: Array | None = None) -> Array:
        xp = namespace(rows)
        if factor is None:
            gradient = (landmarks.T @ coef)[None, ...]  # of every row
            return xp.broadcast_to(gradient, (rows.shape[0], *gradient.shape[1:]))
        return weighted_sums(factor, coef, landmarks)


@dataclass(frozen=True, repr=False)
class Polynomial(WidthKernel):
    r"""k(x, x') = (γ S x · S x' + c)^degree, or (Σ_j γ_j x_j x'_j + c)^degree.

    Parameters
    ----------
    gamma : float or one per feature, default=1.0
        Width γ, or one for each feature.
    metric : array (d,) or (d, d), optional
        Weights per feature, or the matrix S; S = I if None. Not together with one gamma per feature.
    degree, coef0 : float, default=3, 1.0
        The exponent, and c.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.kernels import Polynomial
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> Polynomial(degree=2)(X, X)
    array([[ 1.,  1.],
           [ 1., 36.]])
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
        """Rows → γ S x · S z + c; γ multiplies the rows, so that the landmarks are not rounded again."""
        transform = Transform(self.gamma, self.metric, landmarks)
        if self.metric is not None:
            landmarks = Transform(1.0, self.metric, landmarks)(landmarks)

        def base(rows: Array, out: Array | None = None) -> Array:
            tile = inner_products(transform(rows), landmarks, out)
            tile += self.coef0
            return tile

        return base

    def diagonal(self, A: Array) -> Array:
        return _power(squared_norms(self.transform(A)(A)) + self.coef0, self.degree)

    def _mean_exponent(self, rows: Array, share: HostArray) -> float:
        squares = as_float64(squared_norms(self.transform(rows)(rows)))  # of a row with itself
        return float(linalg.asarray_like(share, squares) @ squares)

    def gradient(self, rows: Array, landmarks: Array, coef: Array, factor: Array | None = None) -> Array:
        weights = _power(self._base(landmarks)(rows), self.degree - 1)
        weights *= self.degree
        if factor is not None:
            weights *= factor
        transform = self.transform(rows)  # √γ S, so that twice of it is γ SᵀS
        return weighted_sums(weights, coef, transform.pull_back(transform(landmarks)))


def _rooted(squares: Array, order: float) -> Array:
    """The numbers ≥ 0 to the power 1 / order, overwritten."""
    if order == 1.0:
        return squares
    if order == 2.0:
        return sqrt_in_place(squares)
    squares **= 1.0 / order
    return squares


def _power(tile: Array, exponent: float) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):  # callers refuse tiles that are not finite
        tile **= exponent
    return tile
