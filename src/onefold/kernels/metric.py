r"""Kernels with a width, and the metric in which they compare rows: x is compared as S x.

    S = diag(w)   a vector: one weight per feature
    S             a d × d matrix: any linear map of the features

A metric is a value: read-only, compared and hashed by its numbers. :class:`Transform` is the metric
prepared for rows of one library, dtype and device, together with the kernel's width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from typing import Any, ClassVar, Self

import numpy as np

from onefold.kernels.base import Kernel, check_width
from onefold.linalg import Array, asarray_like, host_array, is_sparse, namespace, ones
from onefold.machine.threads import spans

# Products of points and coefficients that are formed at a time.
_SUM_NUMBERS = 2**22
# The largest number of a metric: the square of a sum of a few such numbers is still finite.
_LARGEST = 1e150
# Times eps, the features and the sizes of S and a row: how wrong an entry of their product may be.
_ROUNDINGS = 4


@dataclass(frozen=True, eq=False, repr=False)
class Metric:
    r"""S of dist(S x, S x').

    Parameters
    ----------
    values : array (d,) or (d, d)
        Non-negative weights per feature, or a matrix; kept in float64.
    """

    values: Any

    def __post_init__(self) -> None:
        source = self.values.values if isinstance(self.values, Metric) else self.values
        try:
            values = np.array(host_array(source), order="C")
        except (TypeError, ValueError) as error:
            raise ValueError(f"metric must be an array of numbers; got {source!r:.60}.") from error
        square = values.ndim == 2 and values.shape[0] == values.shape[1]
        if not (values.ndim == 1 or square) or values.size == 0:
            raise ValueError(
                f"metric must be one weight per feature, shape (d,), or a matrix (d, d); got shape "
                f"{values.shape}."
            )
        if not np.all(np.abs(values) <= _LARGEST):
            raise ValueError(
                f"metric must contain finite numbers up to {_LARGEST:g}; got {source!r:.60}."
            )
        if not np.any(values) or (values.ndim == 1 and np.any(values < 0)):
            raise ValueError(
                f"the weights of a metric must be non-negative and not all 0; got {source!r:.60}."
            )
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Metric) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.values.shape, (self.values + 0.0).tobytes()))  # −0.0 equals 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        return Metric, (self.values,)  # copies are checked and read-only again

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.values, dtype=dtype)

    def __repr__(self) -> str:
        text = np.array2string(self.values, threshold=16, edgeitems=2, separator=", ")
        return " ".join(text.split())


class Transform:
    r"""x → factor · S x for rows like `reference`, in their library and on their device."""

    def __init__(self, factor: float, metric: Metric | None, reference: Array) -> None:
        self._factor = factor
        self._weights = None
        if metric is not None:
            xp = namespace(reference)
            floating = xp.isdtype(reference.dtype, "real floating")
            weights = asarray_like(factor * metric.values, reference)
            self._weights = xp.astype(weights, reference.dtype if floating else xp.float64)

    def __call__(self, rows: Array) -> Array:
        if self._weights is None:
            return rows * self._factor
        if self._weights.ndim == 2:
            return rows @ self._weights.T  # dense, also for sparse rows
        if is_sparse(rows):
            return rows.multiply(self._weights[None, :]).tocsr()
        return rows * self._weights[None, :]

    def pull_back(self, gradients: Array) -> Array:
        """Gradients by the rows from gradients g (rows, d) by the transformed rows: factor · Sᵀ g."""
        if self._weights is None:
            return gradients * self._factor
        return gradients @ self._weights if self._weights.ndim == 2 else gradients * self._weights

    def rounding(self, rows: Array) -> Array:
        """The squared lengths up to which transformed rows may be rounding of the product with S."""
        xp = namespace(rows)
        squares = rows * rows
        if self._weights is None or self._weights.ndim == 1:
            return xp.zeros_like(squares[:, 0])  # products of single numbers: right to the last digit
        share = _ROUNDINGS * rows.shape[1] * xp.finfo(rows.dtype).eps
        return xp.sum(squares, axis=1) * xp.sum(self._weights * self._weights) * share**2


@dataclass(frozen=True, repr=False)
class WidthKernel(Kernel):
    r"""A kernel with a width `gamma` in a metric space: rows are compared as S x.

    A tuple of widths γ_j is the metric diag(γ_j^p) and the width 1, p being `width_power`.
    """

    gamma: Any = 1.0  # or one per feature
    metric: Any = field(default=None, kw_only=True)  # weights per feature (d,), S itself (d, d) or None

    width_power: ClassVar[float] = 0.5  # γ^p dist(x, x') is the distance in units of the width

    def __post_init__(self) -> None:
        width = check_width(self.gamma)
        metric = None if self.metric is None else Metric(self.metric)
        if isinstance(width, tuple):
            if metric is not None:
                raise ValueError(
                    "gamma with one width per feature cannot be combined with a metric; use one gamma, "
                    "and include the widths in the metric."
                )
            metric = Metric(np.power(width, self.width_power))
            width = 1.0
        object.__setattr__(self, "gamma", width)
        object.__setattr__(self, "metric", metric)

    def __repr__(self) -> str:
        parameters = {item.name: getattr(self, item.name) for item in fields(self)}
        if self.metric is None:
            del parameters["metric"]
        text = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
        return f"{type(self).__name__}({text})"

    has_width = True
    learns: ClassVar[tuple[str, ...]] = ("diagonal", "full")

    @property
    def one_width(self) -> bool:  # type: ignore[override]
        return self.metric is None

    def scaled(self, factor: float) -> Self:
        check_width(factor, "the factor of the widths")
        return replace(self, gamma=self.gamma * factor)

    def with_metric(self, values: Any) -> Self:
        return replace(self, metric=Metric(values))

    def check_features(self, n_features: int) -> None:
        if self.metric is not None and len(self.metric.values) != n_features:
            raise ValueError(
                f"{type(self).__name__} has {len(self.metric.values)} widths but X has {n_features} "
                "features; give one width, or a metric of X's features."
            )

    def __call__(self, A: Array, B: Array) -> Any:
        return self.bind(B)(A)

    def diagonal(self, A: Array) -> Array:
        return ones(A.shape[0], A)  # of a stationary kernel

    def transform(self, reference: Array) -> Transform:
        """The map x → γ^p S x for rows like `reference`."""
        return Transform(self.gamma**self.width_power, self.metric, reference)


def outer_sum(vectors: Sequence[Array]) -> Array:
    """Σ_s v_s[j_s] for every multi-index j: shape (len(v_0), len(v_1), …)."""
    return reduce(lambda total, vector: total[..., None] + vector, vectors)


def weighted_sums(weights: Array, coef: Array, points: Array) -> Array:
    """Σ_j weights_ij coef_jt points_j (rows, d, targets), as one product for many targets."""
    xp = namespace(weights)
    m, d = points.shape
    step = max(1, _SUM_NUMBERS // max(1, m * d))

    def sums(targets: slice) -> Array:
        right = points[:, :, None] * coef[:, None, targets]
        shape = weights.shape[0], d, right.shape[2]
        return xp.reshape(weights @ xp.reshape(right, (m, d * shape[2])), shape)

    pieces = [sums(targets) for targets in spans(coef.shape[1], step)]
    return pieces[0] if len(pieces) == 1 else xp.concat(pieces, axis=2)
