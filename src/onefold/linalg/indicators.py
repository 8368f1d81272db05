r"""Sparse landmarks whose columns are mostly indicators, a few being numbers without zeros.

A product of two sparse matrices takes some nanoseconds for every pair of entries in the same column, of
which a column of numbers has n · m; a product of arrays takes a tenth of a nanosecond for every pair of
rows and column. So columns that are filled in many landmarks, F, are taken as arrays, and only the
remaining ones, R, as sparse:

    (1)  a · z = a_F · z_F + a_R · z_R
    (2)  Σ_f |a_f − z_f| = Σ_F |a_f − z_f| + Σ_R |a_f| + Σ_R |z_f| − 2 Σ_R o(a_f, z_f)

where, for z ≥ 0, o(a, z) is min(a, z) if both are positive, and otherwise 0. If all landmarks that are
not 0 in a column have the same value v > 0 there, as indicators do, this is a product of matrices, too:

    (3)  o(a_f, z_f) = z_f · min(max(a_f, 0), v_f) / v_f

Other columns of (2) belong to F.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

# Share of the landmarks from which a column is taken as an array: a product of entries of two sparse
# matrices takes some hundred times as long as one of arrays, and at this share in the rows and in the
# landmarks there are a hundred times fewer. Measured at shares from 0.02 to 0.5.
_FILLED = 0.1
# Share of the entries of a tile that are not 0 above which products are added as an array.
_MANY = 0.125


class SplitColumns:
    """The landmarks Z (m, d), CSR, with their columns in two parts, F and R.

    With `constant`, only columns whose entries have one value, at least 0, are in R.
    """

    def __init__(self, Z: Any, *, constant: bool = False) -> None:
        m, d = Z.shape
        counts = np.bincount(Z.indices, minlength=d)
        is_filled = counts > _FILLED * m
        if constant:
            self._levels = np.zeros(d, dtype=Z.dtype)  # v of (3)
            lowest = np.full(d, np.inf, dtype=Z.dtype)
            np.maximum.at(self._levels, Z.indices, Z.data)
            np.minimum.at(lowest, Z.indices, Z.data)
            is_filled |= (counts > 0) & (lowest != self._levels)
        self._is_filled = is_filled
        self._place = np.cumsum(is_filled) - 1  # the place of a filled column among those
        self._n_filled = int(is_filled.sum())
        self.filled, remaining = self.split(Z)
        self._transposed = remaining.T.tocsr()

    def split(self, rows: Any) -> tuple[np.ndarray, Any]:
        """The filled columns of rows as an array (n, |F|), and the rows without these columns, CSR."""
        rows = rows if issparse(rows) else csr_array(rows)
        n = rows.shape[0]
        row_numbers = np.repeat(np.arange(n), np.diff(rows.indptr))
        is_filled = self._is_filled[rows.indices]
        filled = np.zeros((n, self._n_filled), dtype=rows.dtype)
        places = row_numbers[is_filled], self._place[rows.indices[is_filled]]
        np.add.at(filled, places, rows.data[is_filled])  # an entry may be stored in parts
        entries = ~is_filled
        starts = np.zeros(n + 1, dtype=rows.indptr.dtype)
        np.cumsum(np.bincount(row_numbers[entries], minlength=n), out=starts[1:])
        parts = rows.data[entries], rows.indices[entries], starts
        return filled, csr_array(parts, shape=rows.shape)

    def products(self, rows: Any) -> np.ndarray:
        """[a · z] by (1) of CSR rows."""
        filled, remaining = self.split(rows)
        tile = filled @ self.filled.T
        self.add_products(tile, remaining, 1.0)
        return tile

    def add_products(self, tile: np.ndarray, remaining: Any, factor: float) -> None:
        """Add factor · a_R · z_R of (1) to a tile."""
        _add_sparse(tile, (remaining * factor) @ self._transposed)

    def add_overlaps(self, tile: np.ndarray, remaining: Any) -> None:
        """Add twice the sum (3) of every pair to a tile."""
        levels = self._levels[remaining.indices]
        shares = np.clip(remaining.data, 0.0, levels)
        np.divide(2.0 * shares, levels, out=shares, where=levels > 0)
        shares = csr_array((shares, remaining.indices, remaining.indptr), shape=remaining.shape)
        _add_sparse(tile, shares @ self._transposed)


def _add_sparse(tile: np.ndarray, values: Any) -> None:
    """Add a CSR matrix without duplicate entries to an array."""
    if values.nnz > _MANY * tile.size:
        tile += values.toarray()
        return
    row_numbers = np.repeat(np.arange(tile.shape[0]), np.diff(values.indptr))
    tile[row_numbers, values.indices] += values.data


def absolute_sums(rows: Any) -> np.ndarray:
    """Σ_f |a_f| of every row of a CSR matrix."""
    return np.asarray(abs(rows).sum(axis=1)).reshape(-1)
