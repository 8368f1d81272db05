r"""Randomly pivoted Cholesky: landmarks drawn by what the earlier ones leave unexplained.

A row is drawn with probability proportional to its residual u_i = k_ii − ‖F_i‖², F Fᵀ being the
partial Cholesky factor so far (Chen, Epperly, Tropp and Webber). The blocked form draws a block of
proposals from one u and keeps each with the ratio of its residual after the earlier ones of the
block to the one it was drawn with: exactly the law of one-by-one sampling, in matrix products.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from onefold.kernels import Kernel
from onefold.landmarks.base import Basis, about_origin, candidate_rows, pick
from onefold.linalg import Array, take_rows, to_numpy
from onefold.machine.threads import check_stop
from onefold.statistics.finite import finite_kernel

_PER_LANDMARK = 4
_NOTHING_LEFT = 1e-10  # of the trace: below this, further landmarks add rounding errors only


def pivoted_rows(kernel: Kernel, X: Array, m: int, rng: np.random.Generator) -> Basis:
    """At most `m` rows; fewer if the kernel is explained by fewer to working precision.

    O(c m²) time and O(c m) memory for c candidates: all rows, or a uniform sample of 4 m of them.
    """
    candidates = candidate_rows(X.shape[0], m, rng, per_landmark=_PER_LANDMARK)
    rows = about_origin(kernel, take_rows(X, candidates))
    diagonal = finite_kernel(np.array(to_numpy(kernel.diagonal(rows)), dtype=np.float64))
    chosen, left = _pivots(kernel, rows, diagonal, m, rng)
    index = np.sort(candidates[chosen])
    report = {"method": "rpcholesky", "candidates": int(candidates.size), "unexplained_trace": left}
    return Basis(pick(X, index), index, report)


def _pivots(
    kernel: Kernel, rows: Array, diagonal: Any, m: int, rng: np.random.Generator
) -> tuple[Any, float]:
    """Positions of the pivots, and the share of the trace that they leave."""
    c, total = diagonal.shape[0], float(diagonal.sum())
    residual, factor = np.maximum(diagonal, 0.0), np.empty((c, m))
    chosen: list[int] = []
    block = int(np.clip(m // 8, 16, 256))
    while len(chosen) < m and residual.sum() > _NOTHING_LEFT * total:
        check_stop()
        r, size = len(chosen), min(block, m - len(chosen))
        proposals = rng.choice(c, size, p=residual / residual.sum())
        part = take_rows(rows, proposals)
        inner = finite_kernel(np.asarray(to_numpy(kernel(part, part)), dtype=np.float64))
        inner -= factor[proposals, :r] @ factor[proposals, :r].T
        kept = _accept(inner, residual[proposals], rng)
        if not kept:  # rounding: the residuals they were drawn with were no longer true
            residual[proposals] = np.maximum(0.0, np.diagonal(inner)) * 0.5
            continue
        pivots = proposals[kept]
        columns = np.array(to_numpy(kernel(rows, take_rows(rows, pivots))), dtype=np.float64)
        finite_kernel(columns)
        columns -= factor[:, :r] @ factor[pivots, :r].T
        # A shift of rounding size: the accepted residuals are positive, but may be tiny.
        core = inner[np.ix_(kept, kept)]
        core.flat[:: len(kept) + 1] += 8 * np.finfo(float).eps * diagonal.max()
        lower = np.linalg.cholesky(core)
        fresh = scipy.linalg.solve_triangular(lower, columns.T, lower=True, check_finite=False).T
        factor[:, r : r + len(kept)] = fresh
        residual = np.maximum(residual - np.einsum("ij,ij->i", fresh, fresh), 0.0)
        residual[pivots] = 0.0
        chosen.extend(int(p) for p in pivots)
    if not chosen:  # a kernel of zeros: any row will do
        chosen.append(0)
    return np.array(chosen, dtype=np.intp), float(residual.sum() / max(total, 1e-300))


def _accept(inner: Any, drawn_with: Any, rng: np.random.Generator) -> list[int]:
    """Which proposals stay: each with probability (its residual now) / (the one it was drawn with)."""
    left, kept = inner.copy(), []
    for i, chance in enumerate(rng.random(inner.shape[0])):
        now = left[i, i]
        if now > 0 and chance * drawn_with[i] < now and now > 1e-6 * drawn_with[i]:
            kept.append(i)
            column = left[:, i] / np.sqrt(now)
            left -= np.outer(column, column)
    return kept
