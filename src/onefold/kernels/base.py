r"""What a kernel is: a positive semi-definite function of two blocks of rows, and its parameters.

A kernel knows its value on a tile of rows and nothing of solvers or of n. Kernels are immutable;
``kernel.scaled(g)`` is the same kernel with every width multiplied by g, which is how a search
moves through widths without knowing which kernel it moves. ``kernel.bind(landmarks)`` is the kernel
prepared for the rows it will be compared with again and again.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from onefold.linalg import Array, HostArray, as_floating, is_sparse, namespace

Width = float | tuple[float, ...]

# Rows of the tiles whose diagonals are the values of pairs.
_PAIR_TILE = 16
# What a sum or a product of two kernels is if both are.
_OF_BOTH = ("stationary", "always_psd", "thread_safe", "accepts_sparse", "one_width")

# The class behind each name that users give, and the parameters that the name stands for.
NAMED: dict[str, tuple[type[Kernel], dict[str, Any]]] = {}


def listed(able: Callable[[type[Kernel]], object]) -> str:
    """The classes of named kernels for which `able` is true, as "A, B or C"."""
    *names, last = dict.fromkeys(kind.__name__ for kind, _ in NAMED.values() if able(kind))
    return f"{', '.join(names)} or {last}" if names else last


Tile: TypeAlias = Callable[..., Any]
"""A kernel bound to landmarks z_1 … z_m: rows, out=None → [k(row, z_j)] of shape (len(rows), m).

It may be written to `out`, but need not be; several threads may call it if the kernel is `thread_safe`.
"""


def check_width(gamma: Any, name: str = "gamma") -> Width:
    """A positive number, or a tuple of non-negative numbers, one per feature."""
    try:
        values = None if isinstance(gamma, str) else np.asarray(gamma, dtype=np.float64)
    except (TypeError, ValueError):
        values = None
    if values is None or values.ndim > 1 or values.size == 0 or not np.all(np.isfinite(values)):
        raise ValueError(f"{name} must be a positive number or one per feature; got {gamma!r}.")
    if values.ndim == 0:
        if values <= 0:
            raise ValueError(f"{name} must be greater than 0; got {gamma!r}.")
        return float(values)
    if np.any(values < 0) or not np.any(values > 0):
        raise ValueError(f"{name} must be non-negative and not all 0; got {gamma!r}.")
    return tuple(float(v) for v in values)


class Kernel(ABC):
    """A kernel k(x, x'): call it on two blocks of rows to get the matrix of its values.

    Examples
    --------
    For kernels of a distance, derive from :class:`Radial`; for others, a function is enough.

    >>> import numpy as np
    >>> from onefold import LSSVR
    >>> def common(A, B):
    ...     return np.minimum(A[:, None], B[None]).sum(axis=2)
    >>> X = np.array([[1.0, 2.0], [3.0, 0.5], [2.0, 2.0]])
    >>> LSSVR(common, alpha=1e-6).fit(X, [1.0, 2.0, 3.0]).predict(X).round(3)
    array([1., 2., 3.])
    """

    stationary: ClassVar[bool] = False  # depends on x − x' only, so that all rows may be shifted
    always_psd: ClassVar[bool] = True  # positive semi-definite by construction; others are checked
    thread_safe: ClassVar[bool] = True  # several threads may evaluate it; a user's function may not be
    accepts_sparse: ClassVar[bool] = False  # CSR rows may be given
    has_width: ClassVar[bool] = False  # `scaled` changes anything
    one_width: ClassVar[bool] = True  # the same width for every feature: takes any number of features
    learns: ClassVar[tuple[str, ...]] = ()  # the kinds of metric it can have, of "diagonal" and "full"
    exponent_order: ClassVar[float] = 1.0  # the width is proportional to this power of the exponent

    @abstractmethod
    def __call__(self, A: Array, B: Array) -> Any:
        """The tile [k(a, b)] of shape (len(A), len(B)); `B` may be `A` itself."""

    def bind(self, landmarks: Array) -> Tile:
        """The function rows → [k(row, z_j)] for rows like the landmarks, which are prepared once."""
        return lambda rows, out=None: self(rows, landmarks)

    def bind_rounded(self, landmarks: Array) -> Tile:
        """The same function of float64 rows, in float32; distances keep their digits where they can."""
        xp = namespace(landmarks)
        bound = self.bind(xp.astype(landmarks, xp.float32))
        return lambda rows, out=None: bound(xp.astype(rows, xp.float32), out)

    @abstractmethod
    def diagonal(self, A: Array) -> Any:
        """[k(a, a)], without the tile."""

    def pairs(self, A: Array, B: Array) -> Any:
        """[k(a_i, b_i)], row by row; here the diagonals of small tiles."""
        xp = namespace(A)
        steps = range(0, A.shape[0], _PAIR_TILE)
        tiles = [self(A[i : i + _PAIR_TILE], B[i : i + _PAIR_TILE]) for i in steps]
        return xp.concat([xp.linalg.diagonal(tile) for tile in tiles])

    def gradient(self, rows: Array, landmarks: Array, coef: Array, factor: Array | None = None) -> Any:
        """Σ_j factor_ij coef_jt ∇ₓ k(x_i, z_j) (rows, d, t) of dense rows; `factor` is 1 if None."""
        raise ValueError(
            f"{self!r:.80} has no derivative; use a kernel of onefold.kernels other than a "
            "precomputed matrix or a function."
        )

    def scaled(self, factor: float) -> Self:
        """The kernel with every width multiplied by `factor`."""
        return self

    def relative(self, width: float, mean_exponent: float) -> Self:
        """The kernel of other widths, with exponent `width` where this one has `mean_exponent`."""
        return self.scaled((width / mean_exponent) ** self.exponent_order)

    def mean_exponent(self, rows: Array, weight: HostArray | None = None) -> float:
        r"""Σ_ij v_i v_j D_ij / (Σ_i v_i)², where D_ij is the exponent of the kernel of rows i and j.

        A row with itself counts as a pair, too, so that a row of weight 2 counts as two equal rows.
        1 if all rows are equal.
        """
        n = rows.shape[0]
        share = np.full(n, 1.0 / n) if weight is None else weight / weight.sum()
        mean = self._mean_exponent(rows, share)
        return mean if 0 < mean < np.inf else 1.0

    def _mean_exponent(self, rows: Array, share: HostArray) -> float:
        """The same for weights that add up to 1; 0 if all rows are equal."""
        return 0.0

    def with_metric(self, values: Any) -> Self:
        """The same kernel of rows S x; `values` are S, or one weight per feature."""
        raise ValueError(
            f"no metric can be learned for {self!r:.80}; use {listed(lambda k: k.learns)}, or "
            "metric=None."
        )

    def on_grid(self, axes: Sequence[Array]) -> Any:
        """k(z, 0) of a stationary kernel of one width at every node z of the grid with these axes."""
        xp = namespace(axes[0])
        columns = xp.meshgrid(*axes, indexing="ij")
        nodes = xp.stack([xp.reshape(column, (-1,)) for column in columns], axis=1)
        values = self(nodes, xp.zeros_like(nodes[:1, :]))
        return xp.reshape(values, tuple(axis.shape[0] for axis in axes))

    def check_features(self, n_features: int) -> None:
        """Raise if the kernel cannot take rows of `n_features` columns."""

    def __add__(self, other: Kernel) -> Sum:
        return Sum(self, other)

    def __mul__(self, other: Kernel) -> Product:
        return Product(self, other)


@dataclass(frozen=True)
class _Pair(Kernel):
    """A kernel that combines the values of two: left(x, x') and right(x, x')."""

    left: Kernel
    right: Kernel

    combine: ClassVar[Any]  # values of left, values of right → values of the pair, over those of left

    def __post_init__(self) -> None:
        for part in (self.left, self.right):
            if not isinstance(part, Kernel):
                raise TypeError(f"{part!r} is not a kernel; use one from onefold.kernels.")
        both = {name: getattr(self.left, name) and getattr(self.right, name) for name in _OF_BOTH}
        for name, value in (both | {"has_width": self.left.has_width or self.right.has_width}).items():
            object.__setattr__(self, name, value)

    def scaled(self, factor: float) -> Self:
        return replace(self, left=self.left.scaled(factor), right=self.right.scaled(factor))

    def check_features(self, n_features: int) -> None:
        self.left.check_features(n_features)
        self.right.check_features(n_features)

    def __call__(self, A: Array, B: Array) -> Array:
        # Some kernels make tiles of whole numbers from such rows, which cannot hold the result.
        rows = as_floating(A)
        landmarks = rows if B is A else as_floating(B)
        return self.combine(self.left(rows, landmarks), self.right(rows, landmarks))

    def bind(self, landmarks: Array) -> Tile:
        landmarks = as_floating(landmarks)
        left = self.left.bind(landmarks)
        right = self.right.bind(landmarks)
        return lambda rows, out=None: self.combine(
            left(as_floating(rows), out), right(as_floating(rows))
        )

    def bind_rounded(self, landmarks: Array) -> Tile:
        left = self.left.bind_rounded(landmarks)
        right = self.right.bind_rounded(landmarks)
        return lambda rows, out=None: self.combine(left(rows, out), right(rows))

    def on_grid(self, axes: Sequence[Array]) -> Array:
        return self.combine(self.left.on_grid(axes), self.right.on_grid(axes))

    def diagonal(self, A: Array) -> Array:
        rows = as_floating(A)
        return self.combine(self.left.diagonal(rows), self.right.diagonal(rows))

    def pairs(self, A: Array, B: Array) -> Array:
        rows = as_floating(A)
        landmarks = as_floating(B)
        return self.combine(self.left.pairs(rows, landmarks), self.right.pairs(rows, landmarks))


@dataclass(frozen=True)
class Sum(_Pair):
    """k(x, x') = left(x, x') + right(x, x').

    Parameters
    ----------
    left, right : Kernel
        The two kernels; the same as ``left + right``.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.kernels import RBF, Linear
    >>> kernel = RBF(gamma=0.1) + Linear()
    >>> kernel(np.array([[1.0, 2.0]]), np.array([[1.0, 2.0]])).round(3)
    array([[6.]])
    """

    combine = staticmethod(operator.iadd)

    def gradient(self, rows: Array, landmarks: Array, coef: Array, factor: Array | None = None) -> Array:
        left = self.left.gradient(rows, landmarks, coef, factor)
        return left + self.right.gradient(rows, landmarks, coef, factor)


@dataclass(frozen=True)
class Product(_Pair):
    """k(x, x') = left(x, x') · right(x, x').

    Parameters
    ----------
    left, right : Kernel
        The two kernels; the same as ``left * right``.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.kernels import RBF, Linear
    >>> kernel = RBF(gamma=0.1) * Linear()
    >>> kernel(np.array([[1.0, 2.0]]), np.array([[1.0, 2.0]])).round(3)
    array([[5.]])
    """

    combine = staticmethod(operator.imul)

    def gradient(self, rows: Array, landmarks: Array, coef: Array, factor: Array | None = None) -> Array:
        def part(differentiated: Kernel, constant: Kernel) -> Array:
            tile = constant(rows, landmarks)
            if factor is not None:
                tile *= factor
            return differentiated.gradient(rows, landmarks, coef, tile)

        return part(self.left, self.right) + part(self.right, self.left)


# Kernels that the user brings: a matrix computed elsewhere, or a function


@dataclass(frozen=True)
class Precomputed(Kernel):
    """The kernel matrix is passed as X: shape (n, n) to fit, (rows, n) to predict.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> from onefold import LSSVRCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> K = rbf_kernel(X, gamma=1.0)
    >>> model = LSSVRCV("precomputed", alphas=[0.001, 0.01, 0.1]).fit(K, y)
    >>> model.best_params_
    {'alpha': 0.01}
    """

    always_psd = False

    def __call__(self, A: Array, B: Array) -> Array:
        raise TypeError(
            "a precomputed kernel cannot be combined with others, because X is the kernel matrix "
            "itself; add or multiply the matrices first, and pass the result as X."
        )

    def diagonal(self, A: Array) -> Array:
        return namespace(A).linalg.diagonal(A)


@dataclass(frozen=True)
class CallableKernel(Kernel):
    """k(A, B) = function(A, B), the whole (len(A), len(B)) tile at once."""

    function: Callable[[Array, Array], Array]
    always_psd = False
    thread_safe = False
    accepts_sparse = True

    def __call__(self, A: Array, B: Array) -> Array:
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
        # A copy: the returned array belongs to the user, and tiles are overwritten.
        xp = namespace(tile)
        return xp.asarray(tile, dtype=xp.float64, copy=True)

    def diagonal(self, A: Array) -> Array:
        return self.pairs(A, A)
