"""Hashes of rows, which tell which rows are equal, and on which rows a model was fitted.

The hash of a row is h(x) = Σ_j m(bits of x_j) · w_j mod 2⁶⁴, where m mixes bits and leaves 0 as it is,
and w_j is an odd number of each column. Columns that are 0 add nothing, so that a row has the same hash
in a sparse matrix; two different rows share one with probability 2⁻⁶⁴.

A *key* is such a number of a row together with its target. The keys of the training rows tell how many
rows of another table equal one of them. If there are many different ones, the file of a model has those
of a random sample, each row with probability s, and how often they occur among all training rows. A
row with w_j copies in training is then among them with probability π_j, and with m_j the number of other
rows that equal it

    π_j = 1 − (1 − s)^w_j,    M̂ = Σ_j m_j / π_j,    Var M̂ ≈ Σ_j (1 − π_j) m_j² / π_j²            (1)

over the keys of the sample has the right expectation (Horvitz and Thompson 1952). A copy has the same
key, so that it is never counted again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from onefold.linalg import Index, is_sparse, take_rows, to_numpy
from onefold.machine.threads import spans
from onefold.rows.dask import DaskTable

# Rows in a fingerprint.
_MOST_ROWS = 1000
# Numbers that are hashed for a fingerprint: wide tables have fewer rows in it.
_MOST_NUMBERS = 4_000_000
# Largest share of distinct rows at which rows count as repeated; chosen, not measured.
_DISTINCT_SHARE = 0.9
# Keys in a fingerprint, about: 32 KiB of the file of a model with the numbers of their copies.
_MOST_KEYS = 2048
# Keys that are sorted together with these.
_SORTED_KEYS = 1024
# Rows that are hashed together.
_BLOCK = 1 << 14
# Targets that were float32 once are equal up to this, relative to the largest.
TARGET_ROUNDING = 1e-5
# The rounding of a target, as a share of the steps that targets are rounded to for their keys.
_NEAR_EDGE = 0.01
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


def row_fingerprint(
    problem: Any, n: int, *, precomputed: bool = False, labelled: bool = False
) -> dict[str, Any] | None:
    """Rows by which a table of `n` rows is recognised: their numbers in it, their hashes, their targets.

    At most 1000 rows at equal distances, their values rounded to float32, so that the dtype of the table
    does not matter; of a precomputed kernel matrix, the values of these rows with each other. Where rows
    of weight 0 were left out, ``kept`` is the number of all others. ``keys`` are those of all different
    rows, or of a random ``share`` of the rows, with the numbers of their ``copies`` among all rows; the
    targets are those of classes if `labelled`, otherwise they are rounded to steps of ``step``. None for
    rows on Dask's workers, which would take another pass.
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
    if problem.kept is not None:
        fingerprint["kept"] = int(kept)
    return fingerprint if precomputed else fingerprint | _sample_of_keys(problem, labelled)


def _sample_of_keys(problem: Any, labelled: bool) -> dict[str, Any]:
    """The keys of all different rows, or of those of a random share, and the numbers of their copies."""
    targets = problem.targets + problem.offset
    step = 0.0
    if labelled:
        targets = label_codes(targets)
    else:
        step = TARGET_ROUNDING * float(np.abs(targets).max(initial=0.0))
    n = len(targets)

    def keys_of(rows: Any) -> np.ndarray:
        hashes = row_hashes(to_numpy(take_rows(problem.X, rows)), np.float32)
        return row_keys(hashes, targets[rows], step)[0]

    blocks = [np.arange(part.start, part.stop) for part in spans(n, _BLOCK)]
    keys = _different((keys_of(rows) for rows in blocks), _MOST_KEYS)
    share = 1.0
    if keys is None:
        share = _MOST_KEYS / n
        drawn = np.flatnonzero(np.random.default_rng(0).random(n) < share)
        keys = np.unique(keys_of(drawn))
    copies = np.zeros(len(keys), dtype=np.int64)
    for rows in blocks:
        copies += np.bincount(_places(keys_of(rows), keys) + 1, minlength=len(keys) + 1)[1:]
    return {"keys": keys.view(np.int64), "copies": copies, "share": share, "step": step}


def equal_keys(fingerprint: dict[str, Any], hashes: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The place (n,) of the key that rows with these hashes and targets have in a fingerprint, or −1."""
    training = fingerprint["keys"].view(np.uint64)
    places = np.full(len(hashes), -1)
    for keys in row_keys(hashes, targets, float(fingerprint["step"])):
        places = np.maximum(places, _places(keys, training))
    return places


def _places(keys: np.ndarray, training: np.ndarray) -> np.ndarray:
    """The places of keys among sorted ones, −1 for those that are not there."""
    places = np.minimum(np.searchsorted(training, keys), len(training) - 1)
    return np.where(training[places] == keys, places, -1)


def label_codes(targets: np.ndarray) -> np.ndarray:
    """The place (n, 1) of each label, from targets of one column for two classes or one for each."""
    return np.asarray(targets > 0 if targets.shape[1] == 1 else targets.argmax(axis=1)[:, None], float)


def row_keys(hashes: np.ndarray, targets: np.ndarray, step: float) -> list[np.ndarray]:
    """Keys (n,) of rows with these hashes and targets (n, columns), by steps of the target.

    The first is that of the training row. A target that was rounded to float32 since may lie in the next
    step; the other two are the keys that it would have there.
    """
    if step == 0:
        return [_paired(hashes, targets)]
    steps = np.asarray(targets, dtype=np.float64) / step
    return [
        _paired(hashes, np.floor(steps + shift)) for shift in (0.5, 0.5 - _NEAR_EDGE, 0.5 + _NEAR_EDGE)
    ]


def _paired(hashes: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """One well-mixed number (n,) of each pair of a row and its target."""
    return _scrambled(hashes.view(np.uint64) + _scrambled(row_hashes(targets).view(np.uint64) + _STEP))


def _different(blocks: Iterable[np.ndarray], most: int) -> np.ndarray | None:
    """The different keys of all blocks in their order; None for more than `most`."""
    different = np.empty(0, dtype=np.uint64)
    for keys in blocks:
        for part in spans(len(keys), _SORTED_KEYS):
            different = np.unique(np.concatenate([different, keys[part]]))
            if len(different) > most:
                return None
    return different


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
    return _scrambled(values.view(f"u{values.itemsize}").astype(np.uint64))


def _weights(count: int) -> np.ndarray:
    return _scrambled(np.arange(1, count + 1, dtype=np.uint64) * _STEP) | np.uint64(1)


def _scrambled(bits: np.ndarray) -> np.ndarray:
    """The bits of numbers, well mixed: the finaliser of MurmurHash3."""
    for mixer in _MIXERS:
        bits = (bits ^ (bits >> _SHIFT)) * mixer
    return np.asarray(bits ^ (bits >> _SHIFT))
