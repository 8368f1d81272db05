r"""Coordinates in which the penalty βᵀWβ of a basis model is ‖θ‖², W the kernel of the landmarks.

W = U Λ Uᵀ, T = U_r Λ_r^{-1/2}, β = Tθ. With `rank` = k the first k directions are kept, which is the
rank-k pseudo-inverse of ding2012: V = Φ T, K̃ = V Vᵀ.

A direction of eigenvalue λ divides the rounding errors of the Gram matrix A = ΦᵀΦ by λ. For n rows and
m landmarks ‖A‖ is about (n/m) λ_max². Where its rounding, divided by λ, exceeds the smallest ridge of
the default grid, 2⁻¹⁵, the direction would hold noise that no ridge of that grid damps: it is cut, and
the cut is reported. By the same reasoning `precision_for` chooses the precision for float32 rows. Where
most directions are cut, a smooth kernel needs fewer landmarks: `spanning_landmarks` chooses them.

Whitening the features before they are summed or factorised, V = ΦT, takes more time and does not
square the condition of W: `Whitening.pivoted` loses no more than the rounding of W's entries does. Its
T is L⁻ᵀ of a pivoted Cholesky factor. An eigendecomposition has errors of eps · λ_max, a Cholesky factor
of eps · √(w_ii w_jj): for a smooth kernel some m times less, and predictions are that much better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.linalg

from onefold.linalg import Array, HostArray, Index, as_vector, asarray_like, host_array
from onefold.linalg.dense import symmetric_eigh
from onefold.smoothers.base import CHECKED

# The smallest ridge of the default grid.
SMALLEST_RIDGE = 2.0**-15
# Of the bound on a sum of rounding errors, which have both signs: the sum that was measured.
_RANDOM = 0.1
# Rounding unit of float64.
_EPS = float(np.finfo(np.float64).eps)
# Rounding unit of float32.
_EPS_SINGLE = float(np.finfo(np.float32).eps)
# The smallest ratio of the smallest to the largest eigenvalue for which float32 sums do no harm.
_SINGLE_RATIO = 1e-3
# Numbers of leading directions that may be summed in float64: each direction costs a little.
_LEADING_COUNTS = (0, 8, 16, 24, 32)
# Rows per landmark from which float32 sums save time.
_ROWS_PER_LANDMARK = 20
# Of the smallest ridge: the ridge that the rounding of float32 tiles may act like.
_SMALL = 0.05
# Of the directions' own weights, on average: what the rounding of float32 tiles may act like where it
# is more than that. Measured: scores change by less than 5e-5.
_SHARE_OF_TILES = 1e-5
# The same for float32 sums.
_SHARE_OF_SUMS = 1e-6
# Pivots per kept direction: they span these directions and some of the next ones.
_PIVOTS_PER_DIRECTION = 1.25
# Pivots on top of these, for small numbers of directions.
_MORE_PIVOTS = 16

Precision = Literal["single", "mixed", "double"]


@dataclass(frozen=True)
class Whitening:
    """T and the spectrum it came from."""

    T: Array  # (m, r), where the landmarks are
    values: HostArray  # NumPy array (r,): eigenvalues of what was kept, ascending; ones for pivots
    report: dict[str, Any]

    @classmethod
    def of(cls, W: Array, rank: int | None = None, *, rows: int = 0) -> Whitening:
        """From the landmark kernel W (m, m), float64. O(m³) time.

        `rank` directions are kept, fewer only where they are below the rounding of W itself. `rows` is
        the number of rows that the Gram matrix will sum over; 0 where whitened features are summed.
        """
        eigenvalues, vectors = symmetric_eigh(W, release_lock=True)
        values = as_vector(eigenvalues)
        CHECKED.without_rounding(values)  # raises if W is indefinite
        m = values.size
        largest = max(float(values[-1]), np.finfo(float).tiny)
        noise = _RANDOM * _EPS * (rows / m) * largest * largest  # infinite, where a power would raise
        floor = m * _EPS * largest
        if rank is None:
            floor = max(noise / SMALLEST_RIDGE, floor)
        keep = values > floor
        report = {"landmarks": m, "cut_directions": int(m - keep.sum()), "cut_below": floor / largest}
        if rank is not None:
            keep[: max(0, m - rank)] = False
            report["rank_asked"] = rank
        kept = values[keep]  # the last ones, since they ascend
        report["rank"] = int(kept.size)
        return cls(vectors[:, m - kept.size :] / asarray_like(np.sqrt(kept), W)[None, :], kept, report)

    @classmethod
    def pivoted(cls, W: Array) -> Whitening:
        """From the landmark kernel, for features that are whitened before they are summed.

        Landmarks that the others explain to rounding are left out.
        """
        reference = W
        W = host_array(W)
        m = W.shape[0]
        diagonal = np.diagonal(W)
        # In units in which every landmark has k(z, z) = 1: rounding errors are then of one size.
        unit = np.where(diagonal > 0, 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 0.0)
        scaled = W * unit[:, None] * unit[None, :]
        factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(scaled, tol=_EPS, lower=1)
        lower = np.tril(factor[:rank, :rank])
        order = pivots - 1
        kept = order[:rank]
        dropped = order[rank:]
        # W = D^½ (LLᵀ + S) D^½ has no eigenvalue below −‖S‖ max w_ii: only where S, the remainder, is
        # large do the eigenvalues have to be computed.
        remainder = scaled[np.ix_(dropped, dropped)] - factor[rank:, :rank] @ factor[rank:, :rank].T
        small = np.abs(remainder).sum(axis=0).max(initial=0.0) <= CHECKED.tolerance
        if not small or np.any(W[diagonal <= 0]):
            CHECKED.without_rounding(np.linalg.eigvalsh(W))
        T = np.zeros((m, rank))
        T[kept] = scipy.linalg.solve_triangular(lower, np.eye(rank), lower=True).T
        report = {
            "landmarks": m,
            "cut_directions": m - int(rank),
            "cut_below": _EPS,
            "smallest_pivot": float(lower[-1, -1] ** 2) if rank else 0.0,
            "rank": int(rank),
        }
        return cls(asarray_like(T * unit[:, None], reference), np.ones(rank), report)

    def rounding_ridge(self, rows: int, precision: Precision = "double") -> float:
        """The ridge that rounding errors of the sums over `rows` act like in the smallest direction."""
        if not self.values.size:
            return 0.0
        smallest = float(self.values[0])
        largest = float(self.values[-1])
        sums = _RANDOM * _EPS * (rows / self.T.shape[0]) * largest * (largest / smallest)
        tiles = 0.0 if precision == "double" else rows * (_EPS_SINGLE / 2) ** 2 / smallest
        return sums + tiles

    def precision_for(self, rows: int, *, on_device: bool) -> tuple[Precision, Array | None]:
        r"""The precision for float32 rows, and the leading directions that "single" sums in float64.

        "double": tiles and Gram matrix in float64. The rounding of float32 tiles acts like a ridge of
        n (eps/2)² / λ on a direction whose own weight is about (n/m) λ. Where that is small neither
        against the smallest ridge nor, on average, against those weights, tiles must be in float64.
        "mixed": float32 tiles, float64 Gram matrix. "single": sums over a few rows in float32, too,
        in half the time, where the directions so summed differ little in size. To that end the few
        largest ones may be summed in float64: they are returned as columns of a float32 array.
        """
        if not self.values.size:
            return "mixed", None
        smallest = float(self.values[0])
        m = self.T.shape[0]
        rounding = (_EPS_SINGLE / 2) ** 2
        share = m * rounding * float(np.mean(self.values**-2.0))
        negligible = rows * rounding / smallest <= _SMALL * SMALLEST_RIDGE
        if not negligible and share > _SHARE_OF_TILES:
            return "double", None
        if rows < _ROWS_PER_LANDMARK * m or not (negligible or share <= _SHARE_OF_SUMS):
            return "mixed", None
        for leading_count in _LEADING_COUNTS:
            if (
                self.values.size > leading_count
                and smallest >= _SINGLE_RATIO * self.values[-1 - leading_count]
            ):
                if on_device:  # there float64 sums take no longer than float32 ones
                    return "mixed", None
                first = self.values.size - leading_count
                leading = self.T[:, first:] * np.sqrt(self.values[first:])[None, :]
                return "single", np.ascontiguousarray(leading, np.float32) if leading_count else None
        return "mixed", None


def spanning_landmarks(W: Array, rank: int) -> Index:
    """Sorted positions of pivots that span the first `rank` directions of W; all if these are many."""
    m = W.shape[0]
    count = int(np.ceil(_PIVOTS_PER_DIRECTION * rank)) + _MORE_PIVOTS
    if count > m / 2:
        return np.arange(m)
    _, pivots, computed_rank, _ = scipy.linalg.lapack.dpstrf(host_array(W), lower=1)
    return np.sort(pivots[: min(count, computed_rank)] - 1)
