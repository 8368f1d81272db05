r"""Kernels with a width and a metric, and the sums that they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from onefold.kernels.base import Kernel, check_width
from onefold.kernels.metric import Metric, Transform
from onefold.linalg import Array, is_sparse, namespace, product_into
from onefold.machine.threads import spans

_SUM_NUMBERS = 2**22  # points times coefficients formed at a time


@dataclass(frozen=True, repr=False)
class WidthKernel(Kernel):
    r"""A kernel with a width `gamma` in a metric space: rows are compared as S x.

    Parameters
    ----------
    gamma : float or one per feature
        A tuple of widths γ_j is the metric diag(γ_j^p) and the width 1, p being `width_power`.
    metric : array (d,) or (d, d), optional
        Weights per feature, or S itself.
    """

    gamma: Any = 1.0
    metric: Any = field(default=None, kw_only=True)

    width_power: ClassVar[float] = 0.5
    """γ^p dist(x, x') is the distance in units of the width."""

    def __post_init__(self) -> None:
        width = check_width(self.gamma)
        metric = None if self.metric is None else Metric(self.metric)
        if isinstance(width, tuple):
            if metric is not None:
                raise ValueError(
                    "gamma has one width per feature and there is a metric besides; give one gamma, "
                    "and the widths as weights of the metric."
                )
            width, metric = 1.0, Metric(np.power(width, self.width_power))
        object.__setattr__(self, "gamma", width)
        object.__setattr__(self, "metric", metric)

    def __repr__(self) -> str:
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        if self.metric is None:
            del given["metric"]
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in given.items())})"

    @property
    def has_width(self) -> bool:
        return True

    @property
    def one_width(self) -> bool:
        return self.metric is None

    def scaled(self, factor: float) -> Self:
        check_width(factor, "the factor of the widths")
        return replace(self, gamma=self.gamma * factor)

    def with_metric(self, values: Any) -> Self:
        return replace(self, metric=Metric(values))

    @property
    def learns(self) -> tuple[str, ...]:
        return ("diagonal", "full")

    def check_features(self, n_features: int) -> None:
        if self.metric is not None and self.metric.n_features != n_features:
            raise ValueError(
                f"{type(self).__name__} has {self.metric.n_features} widths but X has {n_features} "
                "features; give one width, or a metric of X's features."
            )

    def transform(self, reference: Array) -> Transform:
        """The map x → γ^p S x for rows like `reference`."""
        return Transform(self.gamma**self.width_power, self.metric, reference)


def outer_sum(vectors: Sequence[Array]) -> Array:
    """Σ_s v_s[j_s] for every multi-index j: shape (len(v_0), len(v_1), …)."""
    total = vectors[0]
    for vector in vectors[1:]:
        total = total[..., None] + vector
    return total


def inner_products(A: Array, B: Array, out: Array | None = None) -> Array:
    """A Bᵀ as a dense array, in `out` where it fits."""
    if not is_sparse(A) and not is_sparse(B):
        return product_into(A, B.T, out)
    product = A @ B.T
    return product.toarray() if is_sparse(product) else product


def squared_norms(A: Array) -> Array:
    """Σ_j a_ij² of every row."""
    if is_sparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return namespace(A).sum(A * A, axis=1)


def shares(weight: Any | None, n: int) -> Any:
    """Weights of n rows that add up to 1."""
    return np.full(n, 1.0 / n) if weight is None else weight / weight.sum()


def usable_mean(mean: float) -> float:
    """A mean distance to divide by: 1 where it is 0, as of rows that are all the same."""
    return mean if 0 < mean < np.inf else 1.0


def weighted_sums(weights: Array, coef: Array, points: Array) -> Array:
    """Σ_j weights_ij coef_jt points_j of shape (rows, d, targets): one product for many targets."""
    xp, (m, d) = namespace(weights), points.shape
    step = max(1, _SUM_NUMBERS // max(1, m * d))

    def sums(targets: slice) -> Array:
        right = points[:, :, None] * coef[:, None, targets]
        return xp.reshape(weights @ xp.reshape(right, (m, -1)), (weights.shape[0], d, -1))

    pieces = [sums(targets) for targets in spans(coef.shape[1], step)]
    return pieces[0] if len(pieces) == 1 else xp.concat(pieces, axis=2)
