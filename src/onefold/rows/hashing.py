"""Hashes of rows, which tell which rows are equal, and on which rows a model was fitted.

The hash of a row is h(x) = Σ_j m(bits of x_j) · w_j mod 2⁶⁴, where m mixes bits and leaves 0 as it is,
and w_j is an odd number of each column. Columns that are 0 add nothing, so that a row has the same hash
in a sparse matrix; two different rows share one with probability 2⁻⁶⁴.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.linalg import Index, is_sparse, take_rows, to_numpy
from onefold.rows.dask import DaskTable

# Rows in a fingerprint.
_MOST_ROWS = 1000
# Numbers that are hashed for a fingerprint: wide tables have fewer rows in it.
_MOST_NUMBERS = 4_000_000
# Largest share of distinct rows at which rows count as repeated; chosen, not measured.
_DISTINCT_SHARE = 0.9
# 2⁶⁴ over the golden ratio, the increment of SplitMix64.
_STEP = np.uint64(0x9E3779B97F4A7C15)
# The factors of MurmurHash3's 64-bit finaliser.
_MIXERS = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
# Bits of the shifts of that finaliser.
_SHIFT = np.uint64(33)


def row_hashes(X: Any, dtype: Any = np.float64) -> np.ndarray:
    """One number (n,) per row, equal for rows that are equal in this dtype; O(n d)."""
    if is_sparse(X):
        X = X.tocsr(copy=True)
        X.sum_duplicates()
        places = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        hashes = np.zeros(X.shape[0], dtype=np.uint64)
        np.add.at(hashes, places, _mixed(X.data, dtype) * _weights(X.shape[1])[X.indices])
        return hashes.view(np.int64)
    X = np.asarray(to_numpy(X))
    X = X.reshape(len(X), -1)
    hashes = np.zeros(len(X), dtype=np.uint64)
    for j, weight in enumerate(_weights(X.shape[1])):
        hashes += _mixed(X[:, j], dtype) * weight
    return hashes.view(np.int64)


def repeated_rows(X: Any) -> tuple[Index, Index] | None:
    """The first row of every set of equal rows, in order, and the number (n,) of the set of each row.

    None where few rows repeat: more than 90 % of them are distinct.
    """
    hashes = row_hashes(X)
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    if first.size > _DISTINCT_SHARE * hashes.size:
        return None
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return first[order].astype(np.intp), place[inverse.reshape(-1)]


def row_fingerprint(problem: Any, n: int, *, precomputed: bool = False) -> dict[str, Any] | None:
    """Rows by which a table of `n` rows is recognised: their numbers in it, their hashes, their targets.

    At most 1000 rows at equal distances, their values rounded to float32, so that the dtype of the table
    does not matter; of a precomputed kernel matrix, the values of these rows with each other. Where rows
    of weight 0 were left out, ``kept`` is the number of all others. None for rows on Dask's workers,
    which would take another pass.
    """
    if isinstance(problem.X, DaskTable):
        return None
    kept, d = problem.X.shape
    count = min(kept, _most_rows(d))
    rows = np.unique(np.linspace(0, kept - 1, count).astype(np.int64))
    numbers = rows if problem.kept is None else np.asarray(problem.kept)[rows].astype(np.int64)
    targets = to_numpy(take_rows(problem.Y, rows)) + problem.offset
    values = take_rows(problem.X, rows)
    values = to_numpy(values)[:, rows] if precomputed else values
    fingerprint = {
        "n": n,
        "rows": numbers,
        "hashes": row_hashes(values, np.float32),
        "targets": np.asarray(targets, dtype=np.float64),
    }
    return fingerprint if problem.kept is None else fingerprint | {"kept": int(kept)}


def has_all_rows(fingerprint: dict[str, Any], n_features: int) -> bool:
    """Whether a fingerprint has every row with a weight that was fitted, and not a sample of these."""
    rows = len(fingerprint["rows"])
    return rows == rows_with_weight(fingerprint) or rows < _most_rows(n_features)


def rows_with_weight(fingerprint: dict[str, Any]) -> int:
    """How many rows with a weight were fitted; in files of earlier versions, all rows."""
    return int(fingerprint.get("kept", fingerprint["n"]))


def _most_rows(n_features: int) -> int:
    return min(_MOST_ROWS, max(2, _MOST_NUMBERS // max(n_features, 1)))


def _mixed(values: Any, dtype: Any) -> np.ndarray:
    """Bits of the numbers, well mixed; 0 and −0 stay 0."""
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(np.asarray(values).astype(dtype) + np.dtype(dtype).type(0))
    bits = values.view(f"u{values.itemsize}").astype(np.uint64)
    for mixer in _MIXERS:
        bits = (bits ^ (bits >> _SHIFT)) * mixer
    return np.asarray(bits ^ (bits >> _SHIFT))


def _weights(count: int) -> np.ndarray:
    numbers = np.arange(1, count + 1, dtype=np.uint64) * _STEP
    for mixer in _MIXERS:
        numbers = (numbers ^ (numbers >> _SHIFT)) * mixer
    return np.asarray(numbers | np.uint64(1))
