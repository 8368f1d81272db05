"""Landmarks at the centres of k-means clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.cluster import MiniBatchKMeans

from onefold.kernels import Kernel, Metric
from onefold.kernels.metric import Transform
from onefold.kernels.width import WidthKernel
from onefold.landmarks.base import Basis, candidate_rows, pick
from onefold.linalg import Array, double, is_foreign, is_sparse, like, namespace, take_rows, to_numpy
from onefold.machine.threads import spans

_PER_LANDMARK = 20


def cluster_centres(kernel: Kernel, X: Array, m: int, rng: np.random.Generator) -> Basis:
    """`m` centres of mini-batch k-means over all rows, or over a uniform sample of 20 m of them.

    The centres are points of the input space, in general not rows of X; with `m` = n they are the rows.
    The Euclidean distance of rows S x where the kernel has a metric S, else of the rows: then scale the
    features first, whatever the kernel. With a metric the centres are the means of each cluster's rows,
    and there are fewer than `m` where clusters are empty. The clustering runs in float32 whatever X is:
    faster, and the same rows have the same centres in either precision.
    """
    if m == X.shape[0]:
        return Basis(pick(X, np.arange(m)), np.arange(m), {"method": "kmeans"})
    candidates = candidate_rows(X.shape[0], m, rng, per_landmark=_PER_LANDMARK)
    rows = to_numpy(take_rows(X, candidates))
    metric = metric_of(kernel)
    scaled, origin, unit = _in_single(rows if metric is None else _in_metric(rows, metric))
    means = MiniBatchKMeans(
        m,
        n_init=1,
        init="random",
        batch_size=max(1024, 2 * m),
        random_state=int(rng.integers(2**31 - 1)),
    ).fit(scaled)
    if metric is None:
        centres = means.cluster_centers_.astype(np.float64) * unit + origin
    else:
        centres = _means_of_clusters(rows, means.labels_, m)
    centres = centres.astype(rows.dtype)
    report = {"method": "kmeans", "candidates": int(candidates.size)}
    if is_foreign(X):
        return Basis(namespace(X).astype(like(centres, X), X.dtype), None, report)
    return Basis(type(X)(centres) if is_sparse(X) else centres, None, report)


def metric_of(kernel: Kernel) -> Metric | None:
    """The metric that rows are clustered in; sums and products of kernels have none of their own."""
    return kernel.metric if isinstance(kernel, WidthKernel) else None


def _in_metric(rows: Any, metric: Metric) -> Any:
    """The rows S x, dense ones about their mean: a product with S would lose the digits of far rows."""
    about = double(rows)
    about = about if is_sparse(rows) else about - about.mean(axis=0)
    return Transform(1.0, metric, about)(about)


def _in_single(rows: Any) -> tuple[Any, Any, float]:
    """The rows in float32 about their mean and in units of their largest entry; mean and unit.

    So float32 holds them and their squares.
    """
    if is_sparse(rows):
        unit = float(abs(rows).max()) or 1.0
        return (rows.astype(np.float64) / unit).astype(np.float32), 0.0, unit
    origin = rows.mean(axis=0, dtype=np.float64)
    unit = float(max((rows.max(axis=0) - origin).max(), (origin - rows.min(axis=0)).max())) or 1.0
    scaled = np.empty(rows.shape, dtype=np.float32)
    for part in spans(len(rows), 1024):  # no second sample in float64
        scaled[part] = (rows[part] - origin) / unit
    return scaled, origin, unit


def _means_of_clusters(rows: Any, labels: Any, m: int) -> Any:
    """The mean row of every cluster that has some, dense: S · mean is the mean of the rows S x."""
    sizes = np.bincount(labels, minlength=m)
    belongs = scipy.sparse.csr_array(
        (1.0 / sizes[labels], labels, np.arange(len(labels) + 1)), shape=(len(labels), m)
    )
    means = belongs.T @ double(rows)
    return (means.toarray() if is_sparse(means) else means)[sizes > 0]
