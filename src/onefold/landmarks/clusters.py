"""Landmarks at the centres of k-means clusters."""

from __future__ import annotations

import numpy as np
from sklearn.cluster import MiniBatchKMeans

from onefold.kernels import Kernel
from onefold.landmarks.base import Basis, candidate_rows, pick
from onefold.linalg import Array, is_foreign, is_sparse, like, namespace, take_rows, to_numpy
from onefold.machine.spans import spans

_PER_LANDMARK = 20


def cluster_centres(kernel: Kernel, X: Array, m: int, rng: np.random.Generator) -> Basis:
    """`m` centres of mini-batch k-means over all rows, or over a uniform sample of 20 m of them.

    The centres are points of the input space, in general not rows of X; with `m` = n they are the rows.
    Euclidean distance: scale the features first, whatever the kernel. The clustering runs in float32
    whatever X is: faster, and the same rows have the same centres in either precision.
    """
    if m == X.shape[0]:
        return Basis(pick(X, np.arange(m)), np.arange(m), {"method": "kmeans"})
    candidates = candidate_rows(X.shape[0], m, rng, per_landmark=_PER_LANDMARK)
    rows = to_numpy(take_rows(X, candidates))
    # About their mean and in units of their largest entry, so that float32 holds them and their squares.
    if is_sparse(rows):
        origin, unit = 0.0, float(abs(rows).max()) or 1.0
        scaled = (rows.astype(np.float64) / unit).astype(np.float32)
    else:
        origin = rows.mean(axis=0, dtype=np.float64)
        unit = float(max((rows.max(axis=0) - origin).max(), (origin - rows.min(axis=0)).max())) or 1.0
        scaled = np.empty(rows.shape, dtype=np.float32)
        for part in spans(len(rows), 1024):  # no second sample in float64
            scaled[part] = (rows[part] - origin) / unit
    means = MiniBatchKMeans(
        m,
        n_init=1,
        init="random",
        batch_size=max(1024, 2 * m),
        random_state=int(rng.integers(2**31 - 1)),
    ).fit(scaled)
    centres = (means.cluster_centers_.astype(np.float64) * unit + origin).astype(rows.dtype)
    report = {"method": "kmeans", "candidates": int(candidates.size)}
    if is_foreign(X):
        return Basis(namespace(X).astype(like(centres, X), X.dtype), None, report)
    return Basis(type(X)(centres) if is_sparse(X) else centres, None, report)
