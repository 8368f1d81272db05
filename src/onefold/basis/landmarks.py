r"""Landmarks: which rows carry the expansion of a basis model. They see inputs only, never targets.

"uniform" draws rows, every subset equally likely: ding2012's choice. "kmeans" takes the centres of
clusters. "rpcholesky" draws a row with probability proportional to its residual u_i = k_ii − ‖F_i‖²,
F Fᵀ being the partial Cholesky factor so far: by what the earlier ones leave unexplained (Chen, Epperly,
Tropp and Webber). The blocked form draws a block of proposals from one u and keeps each with the ratio
of its residual after the earlier ones of the block to the one it was drawn with: exactly the law of
one-by-one sampling, in matrix products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from sklearn.cluster import MiniBatchKMeans

from onefold import linalg
from onefold.basis.statistics import finite_kernel
from onefold.kernels import Kernel, Metric
from onefold.kernels.metric import Transform, WidthKernel
from onefold.kernels.tiles import common_origin, device_rows
from onefold.linalg import (
    Array,
    HostArray,
    Index,
    as_float64,
    host_array,
    index_like,
    is_sparse,
    namespace,
    rows_like,
    take_rows,
)
from onefold.machine.threads import check_stop, spans
from onefold.rows import to_host

# Rounds of k-means on a GPU.
_ROUNDS = 10
# Of the trace: with less left unexplained, further landmarks would add rounding errors only.
_NOTHING_LEFT = 1e-10
# Of the residual that a proposal was drawn with: less of it is rounding, and the proposal is dropped.
_SMALLEST_CHANCE = 1e-6
# The smallest trace that the unexplained one is divided by: a kernel may be 0 everywhere.
_TINY = 1e-300
# Candidate rows of k-means, at least.
_CLUSTERED_ROWS = 4096
# Candidate rows of k-means for each centre: the choice then costs m³, not n m².
_CLUSTERED_ROWS_PER_CENTRE = 20
# Candidate rows of randomly pivoted Cholesky, at least.
_PIVOT_ROWS = 4096
# Candidate rows of randomly pivoted Cholesky for each landmark.
_PIVOT_ROWS_PER_LANDMARK = 4
# Blocks of proposals that would make up all landmarks if every proposal were kept.
_BLOCKS = 8
# Proposals of a block, at least.
_SMALLEST_BLOCK = 16
# Proposals of a block, at most.
_LARGEST_BLOCK = 256
# Of the largest diagonal entry: added to the diagonal of a block, against its rounding errors.
_SHIFT = 8 * np.finfo(float).eps


@dataclass(frozen=True)
class Basis:
    """The landmark rows z_j of a basis model."""

    rows: Array  # array or CSR matrix (m, d), in X's library and dtype
    index: Index | None  # their row numbers in X (m,); None where they are not rows of X
    report: dict[str, Any] = field(default_factory=dict)  # how they were found

    @property
    def size(self) -> int:
        """Number of landmarks."""
        return int(self.rows.shape[0])

    def thinned(self, keep: Index) -> Basis:
        """Only the landmarks at the given positions."""
        index = None if self.index is None else self.index[keep]
        return Basis(take_rows(self.rows, keep), index, self.report | {"thinned_from": self.size})


def given_rows(rows: Any, X: Array) -> Basis:
    """The user's own rows, in X's library and dtype."""
    if getattr(rows, "ndim", 0) != 2 or rows.shape[1] != X.shape[1] or rows.shape[0] == 0:
        raise ValueError(
            f"landmark rows must have shape (landmarks, {X.shape[1]}), as X has {X.shape[1]} "
            f"features; got {tuple(getattr(rows, 'shape', ()))}."
        )
    rows = rows_like(rows, X)
    if not linalg.all_finite(rows):
        raise ValueError("the landmark rows contain NaN or infinite values; impute or drop these rows.")
    return Basis(rows, None, {"method": "given"})


def _basis_of(X: Array, index: Index, report: dict[str, Any]) -> Basis:
    """Rows of X, as an array of their own."""
    index = np.asarray(index, dtype=np.intp)
    rows = take_rows(X, index)
    return Basis(np.array(rows) if isinstance(rows, np.memmap) else rows, index, report)


def _drawn(n: int, m: int, rng: np.random.Generator) -> Index:
    """`m` row numbers of n, in order; all where there are no more."""
    return np.arange(n) if n <= m else np.sort(rng.choice(n, m, replace=False))


def _uniform(kernel: Kernel, X: Array, m: int, rng: np.random.Generator) -> Basis:
    """`m` rows of X. O(m) time."""
    return _basis_of(X, _drawn(X.shape[0], m, rng), {"method": "uniform"})


def _clusters(kernel: Kernel, X: Array, m: int, rng: np.random.Generator) -> Basis:
    """`m` centres of k-means over all rows, or over a uniform sample of 20 m of them.

    By the Euclidean distance of rows, or of S x where the kernel has a metric S. In float32 for any X:
    this is faster, and the same rows have the same centres in either precision. In mini-batches on the
    host, on a GPU by rounds of Lloyd's method.
    """
    if m == X.shape[0]:
        return _basis_of(X, np.arange(m), {"method": "kmeans"})
    candidates = _drawn(X.shape[0], max(_CLUSTERED_ROWS, _CLUSTERED_ROWS_PER_CENTRE * m), rng)
    report = {"method": "kmeans", "candidates": int(candidates.size)}
    metric = clustering_metric(kernel)
    rows = take_rows(X, candidates)
    if linalg.on_accelerator(X):
        return Basis(rows_like(_lloyd(rows, metric, m, rng), X), None, report)
    points = rows = to_host(rows)
    if metric is not None:
        # S x, of dense rows about their mean: the product would lose digits of rows far from 0.
        points = (
            as_float64(rows) if is_sparse(rows) else as_float64(rows) - as_float64(rows).mean(axis=0)
        )
        points = Transform(1.0, metric, points)(points)
    scaled, origin, unit = _in_single(points)
    size = max(1024, 2 * m)
    seed = int(rng.integers(2**31 - 1))
    means = MiniBatchKMeans(m, n_init=1, init="random", batch_size=size, random_state=seed).fit(scaled)
    if metric is None:
        centres = means.cluster_centers_.astype(np.float64) * unit + origin
    else:
        # The mean row of every cluster that has rows, dense: S · mean is the mean of the rows S x.
        labels = means.labels_
        pointers = np.arange(len(means.labels_) + 1)
        sizes = np.bincount(labels, minlength=m)
        shares = scipy.sparse.csr_array((1.0 / sizes[labels], labels, pointers), shape=(len(labels), m))
        centres = shares.T @ as_float64(rows)
        centres = (centres.toarray() if is_sparse(centres) else centres)[sizes > 0]
    return Basis(rows_like(centres, X), None, report)


def _lloyd(rows: Array, metric: Metric | None, m: int, rng: np.random.Generator) -> Array:
    """The mean row of each of at most `m` clusters, where the rows are.

    The first centres are rows drawn as in k-means++, with probabilities proportional to the squared
    distances from those drawn before; each draw doubles their number, so that few are needed.
    """
    xp = namespace(rows)
    rows = as_float64(rows)
    origin = xp.mean(rows, axis=0)
    rows = rows - origin[None, :]
    points = rows if metric is None else Transform(1.0, metric, rows)(rows)
    unit = float(xp.max(xp.abs(points))) or 1.0
    points = xp.astype(points / unit, xp.float32)

    def tiles(centres: Array) -> Iterator[tuple[slice, Array]]:
        """Squared distances to the centres, without the norm of each point."""
        norms = xp.sum(centres * centres, axis=1)[None, :]
        for part in spans(points.shape[0], device_rows(m)):
            check_stop()
            yield part, norms - 2.0 * (points[part, :] @ centres.T)

    norms = host_array(xp.sum(points * points, axis=1))
    residual = np.full(norms.size, np.inf)
    chosen = drawn = rng.integers(points.shape[0], size=1)
    while len(chosen) < m:
        least = [xp.min(tile, axis=1) for _, tile in tiles(take_rows(points, drawn))]
        residual = np.minimum(residual, np.maximum(host_array(xp.concat(least)) + norms, 0.0))
        residual[chosen] = 0.0
        size = min(len(chosen), m - len(chosen), int(np.count_nonzero(residual)))
        if size == 0:  # no other rows are left
            break
        drawn = rng.choice(residual.size, size, replace=False, p=residual / residual.sum())
        chosen = np.concatenate([chosen, drawn])
    centres = take_rows(points, chosen)
    numbers = index_like(np.arange(chosen.size), rows)[None, :]

    def means(centres: Array, values: Array) -> tuple[Array, Array]:
        """The mean of `values` over the points nearest to each centre, and the number of them."""
        sums = xp.zeros_like(values[: chosen.size, :])
        sizes = xp.zeros_like(values[: chosen.size, 0])
        for part, tile in tiles(centres):
            nearest = xp.argmin(tile, axis=1)
            # As a product: sums by index would have other digits each time.
            member = xp.astype(nearest[:, None] == numbers, values.dtype)
            sums += member.T @ values[part, :]
            sizes += xp.sum(member, axis=0)
        return sums / xp.where(sizes > 0, sizes, xp.ones_like(sizes))[:, None], sizes

    for _ in range(_ROUNDS):
        mean_rows, sizes = means(centres, points)
        centres = xp.where(sizes[:, None] > 0, mean_rows, centres)
    mean_rows, sizes = means(centres, rows)
    return take_rows(mean_rows, np.flatnonzero(host_array(sizes))) + origin[None, :]


def clustering_metric(kernel: Kernel) -> Metric | None:
    """The metric that rows are clustered in; None for sums and products, which have no metric."""
    return kernel.metric if isinstance(kernel, WidthKernel) else None


def _in_single(rows: Any) -> tuple[Any, Any, float]:
    """The rows in float32, about their mean and in units of their largest entry; the mean; the unit."""
    if is_sparse(rows):
        unit = float(abs(rows).max()) or 1.0
        return (rows.astype(np.float64) / unit).astype(np.float32), 0.0, unit
    origin = rows.mean(axis=0, dtype=np.float64)
    unit = float(max((rows.max(axis=0) - origin).max(), (origin - rows.min(axis=0)).max())) or 1.0
    scaled = np.empty(rows.shape, dtype=np.float32)
    for part in spans(len(rows), 1024):  # no second sample in float64
        scaled[part] = (rows[part] - origin) / unit
    return scaled, origin, unit


def _pivots(kernel: Kernel, X: Array, m: int, rng: np.random.Generator) -> Basis:
    """At most `m` rows, fewer if they explain the kernel to working precision. O(c m²), c candidates."""
    candidates = _drawn(X.shape[0], max(_PIVOT_ROWS, _PIVOT_ROWS_PER_LANDMARK * m), rng)
    rows = take_rows(X, candidates)
    origin = common_origin(kernel, rows)
    rows = as_float64(rows) if origin is None else as_float64(rows) - origin[None, :]

    def values(A: Array, B: Array) -> HostArray:
        return finite_kernel(host_array(kernel(A, B)))

    diagonal = finite_kernel(host_array(kernel.diagonal(rows)))
    c = diagonal.shape[0]
    total = float(diagonal.sum())
    residual = np.maximum(diagonal, 0.0)
    factor = np.empty((c, m))
    chosen: list[int] = []
    block = int(np.clip(m // _BLOCKS, _SMALLEST_BLOCK, _LARGEST_BLOCK))
    while len(chosen) < m and residual.sum() > _NOTHING_LEFT * total:
        check_stop()
        r = len(chosen)
        size = min(block, m - len(chosen))
        proposals = rng.choice(c, size, p=residual / residual.sum())
        part = take_rows(rows, proposals)
        inner = values(part, part) - factor[proposals, :r] @ factor[proposals, :r].T
        kept = _accepted(inner, residual[proposals], rng)
        if not kept:  # the residuals that they were drawn with are all rounding
            residual[proposals] = np.maximum(0.0, np.diagonal(inner)) * 0.5
            continue
        pivots = proposals[kept]
        columns = values(rows, take_rows(rows, pivots)) - factor[:, :r] @ factor[pivots, :r].T
        # A shift of rounding size: the accepted residuals are positive, but may be tiny.
        core = inner[np.ix_(kept, kept)]
        core.flat[:: len(kept) + 1] += _SHIFT * diagonal.max()
        lower = np.linalg.cholesky(core)
        new_columns = scipy.linalg.solve_triangular(lower, columns.T, lower=True, check_finite=False).T
        factor[:, r : r + len(kept)] = new_columns
        residual = np.maximum(residual - np.einsum("ij,ij->i", new_columns, new_columns), 0.0)
        residual[pivots] = 0.0
        chosen.extend(int(p) for p in pivots)
    report = {
        "method": "rpcholesky",
        "candidates": int(candidates.size),
        "unexplained_trace": float(residual.sum() / max(total, _TINY)),
    }
    return _basis_of(X, np.sort(candidates[chosen or [0]]), report)  # any row, if the kernel is 0


def _accepted(inner: Any, drawn_with: HostArray, rng: np.random.Generator) -> list[int]:
    """Which proposals stay: each with probability (its residual now) / (the one it was drawn with).

    `inner` is what earlier landmarks leave of the kernel of the proposals.
    """
    unexplained = inner.copy()
    kept = []
    for i, chance in enumerate(rng.random(inner.shape[0])):
        residual = unexplained[i, i]
        if residual > max(chance, _SMALLEST_CHANCE) * drawn_with[i]:
            kept.append(i)
            column = unexplained[:, i] / np.sqrt(residual)
            unexplained -= np.outer(column, column)
    return kept


# "uniform" depends on no kernel and "kmeans" only on the metric of one: a choice serves a whole search.
BASES = {"rpcholesky": _pivots, "uniform": _uniform, "kmeans": _clusters}
