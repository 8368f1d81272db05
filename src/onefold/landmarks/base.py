"""What a choice of landmarks is, and the rows it may be made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onefold.kernels import Kernel
from onefold.kernels.tiles import common_origin
from onefold.linalg import Array, double, is_sparse, take_rows


@dataclass(frozen=True)
class Basis:
    """The landmark rows z_j of a basis model.

    Attributes
    ----------
    rows : array or CSR matrix (m, d)
        In X's library and dtype.
    index : int array (m,) or None
        Their row numbers in X; None where they are no rows of X.
    report : dict
        How they were found.
    """

    rows: Any
    index: Any | None
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of landmarks."""
        return int(self.rows.shape[0])

    def thinned(self, keep: Any) -> Basis:
        """The landmarks at the given positions alone."""
        index = None if self.index is None else self.index[keep]
        return Basis(take_rows(self.rows, keep), index, self.report | {"thinned_from": self.size})


def candidate_rows(n: int, m: int, rng: np.random.Generator, *, per_landmark: int) -> Any:
    """Row numbers that landmarks are chosen from: all rows, or a uniform sample of them.

    The sample holds `per_landmark` rows for each landmark (at least 4096 in all), so that the choice
    costs a multiple of m³, not of n m², and its memory does not grow with n.
    """
    limit = max(4096, per_landmark * m)
    return np.arange(n) if n <= limit else np.sort(rng.choice(n, limit, replace=False))


def about_origin(kernel: Kernel, rows: Array) -> Array:
    """The rows in float64, shifted together where that keeps the kernel and saves digits."""
    origin = common_origin(kernel, rows)
    rows = double(rows)
    return rows if origin is None else rows - origin[None, :]


def pick(X: Array, index: Any) -> Array:
    """The rows of X with the given numbers, as an array of their own."""
    index = np.asarray(index, dtype=np.intp)
    rows = take_rows(X, index)
    return rows if is_sparse(rows) or not isinstance(rows, np.memmap) else np.array(rows)
