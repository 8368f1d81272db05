r"""The space in which a kernel measures distances: rows x become S x before they are compared.

    S = diag(w)   a vector: one weight per feature
    S             a d × d matrix: any linear map of the features

A metric is a value: read-only, compared and hashed by its numbers. :class:`Transform` is the metric
prepared for rows of one library, dtype and device, together with the kernel's width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.linalg import Array, is_sparse, like, namespace, to_numpy

_LARGEST = 1e150  # the square of a sum of a few such numbers is still finite


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
        given = self.values.values if isinstance(self.values, Metric) else self.values
        try:
            # A copy, and neither text nor complex numbers: these would lose their imaginary parts.
            values = np.asarray(to_numpy(given)).astype(np.float64, order="C", casting="same_kind")
        except (TypeError, ValueError) as error:
            raise ValueError(f"metric must be an array of numbers; got {given!r:.60}.") from error
        square = values.ndim == 2 and values.shape[0] == values.shape[1]
        if not (values.ndim == 1 or square) or values.size == 0:
            raise ValueError(
                f"metric must have one weight per feature, (d,), or be a matrix (d, d); got the shape "
                f"{values.shape}."
            )
        if not np.all(np.abs(values) <= _LARGEST):
            raise ValueError(f"metric must hold finite numbers up to {_LARGEST:g}; got {given!r:.60}.")
        if not np.any(values) or (values.ndim == 1 and np.any(values < 0)):
            raise ValueError(
                "the weights of a metric must not be negative, nor 0 for every feature; "
                f"got {given!r:.60}."
            )
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    @property
    def is_matrix(self) -> bool:
        """Whether features are mixed."""
        return bool(self.values.ndim == 2)

    @property
    def n_features(self) -> int:
        """Columns of the rows it takes."""
        return int(self.values.shape[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Metric) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.values.shape, (self.values + 0.0).tobytes()))  # −0.0 equals 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        return Metric, (self.values,)  # copies are checked and read-only again

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.values, dtype=dtype)

    def __repr__(self) -> str:
        text = np.array2string(self.values, threshold=16, edgeitems=2, separator=", ")
        return " ".join(text.split())


class Transform:
    r"""x → factor · S x for rows like `reference`, its arrays beside them."""

    def __init__(self, factor: float, metric: Metric | None, reference: Array) -> None:
        self._factor, self._weights = factor, None
        if metric is not None:
            xp = namespace(reference)
            floating = xp.isdtype(reference.dtype, "real floating")
            weights = like(factor * metric.values, reference)
            self._weights = xp.astype(weights, reference.dtype if floating else xp.float64)

    def __call__(self, rows: Array) -> Array:
        if self._weights is None:
            return rows * self._factor
        if self._weights.ndim == 2:
            return rows @ self._weights.T  # of sparse rows a dense array
        if is_sparse(rows):
            return rows.multiply(self._weights[None, :]).tocsr()
        return rows * self._weights[None, :]

    def pull_back(self, gradients: Array) -> Array:
        """Gradients in the transformed rows (rows, d) to those in the rows: factor · Sᵀ g."""
        if self._weights is None:
            return gradients * self._factor
        return gradients @ self._weights if self._weights.ndim == 2 else gradients * self._weights

    def rounding(self, rows: Array) -> Array:
        """Up to which squared lengths of the transformed rows may be rounding of the product with S."""
        xp, squares = namespace(rows), rows * rows
        if self._weights is None or self._weights.ndim == 1:
            return xp.zeros_like(squares[:, 0])  # number by number: right to the last digit
        share = 4 * rows.shape[1] * xp.finfo(rows.dtype).eps
        return xp.sum(squares, axis=1) * xp.sum(self._weights * self._weights) * share**2
