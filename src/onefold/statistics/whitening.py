r"""Coordinates in which the penalty βᵀWβ of a basis model is ‖θ‖², W the kernel of the landmarks.

W = U Λ Uᵀ, T = U_r Λ_r^{-1/2}, β = Tθ. With `rank` = k the first k directions are kept, which is the
rank-k pseudo-inverse of ding2012: V = Φ T, K̃ = V Vᵀ.

A direction of eigenvalue λ divides the rounding errors of the Gram matrix A = ΦᵀΦ by λ. Of n rows and
m landmarks ‖A‖ is about (n/m) λ_max². Where its rounding, over λ, exceeds the smallest ridge of the
default grid, 2^-15, the direction would hold noise that no ridge of that grid damps: it is cut, and the
cut is reported. The same reasoning says which precision serves float32 rows, see `precision_for`. Where
most directions are cut, a smooth kernel needs fewer landmarks: `spanning_landmarks` says which.

Whitening the features before they are summed, V = ΦT and then VᵀV, takes three times the time and does
not square the condition of W: only directions below the rounding of W itself are then cut (`rows` = 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.linalg

from onefold.smoothers.spectral import check_spectrum

_SMALLEST_RIDGE = 2.0**-15
_RANDOM = 0.1  # rounding errors are of both signs: measured, their sum is a tenth of the bound
_EPS = float(np.finfo(np.float64).eps)
_EPS_SINGLE = float(np.finfo(np.float32).eps)
_ALIKE = 1e-3  # ratio of the smallest to the largest direction for which float32 sums do no harm
_APART = (0, 8, 16, 24, 32)  # directions summed apart: each costs a little
_ROWS_PER_LANDMARK = 20  # and row counts for which they are worth while
_SMALL = 0.05  # part of the smallest ridge that the rounding of tiles may look like
# or the part of the directions' own weights, on average; measured, scores then move by less than 5e-5
_SHARE_OF_TILES, _SHARE_OF_SUMS = 1e-5, 1e-6
_PIVOTS_PER_DIRECTION = 1.25  # landmarks that span the directions kept, and some of the next ones

Precision = Literal["single", "mixed", "double"]


@dataclass(frozen=True)
class Whitening:
    """T of shape (m, r) and the spectrum it came from.

    Attributes
    ----------
    T : array (m, r)
    values : array (r,)
        Eigenvalues of what was kept, ascending.
    report : dict
    """

    T: Any
    values: Any
    report: dict[str, Any]

    @property
    def cut(self) -> int:
        """How many directions were cut as rounding."""
        return int(self.report["cut_directions"])

    @classmethod
    def of(cls, W: Any, rank: int | None = None, *, rows: int = 0) -> Whitening:
        """From the landmark kernel, float64. O(m³) time.

        Parameters
        ----------
        W : array (m, m)
        rank : int, optional
            Keep at most this many directions.
        rows : int
            Number of rows that the Gram matrix will sum over; 0 where whitened features are summed.
        """
        values, vectors = np.linalg.eigh(W)
        check_spectrum(values)
        m = values.size
        largest = max(float(values[-1]), np.finfo(float).tiny)
        noise = _RANDOM * _EPS * (rows / m) * largest**2
        floor = max(noise / _SMALLEST_RIDGE, 4 * m * _EPS * largest)
        keep = values > floor
        cut = int(m - keep.sum())
        if rank is not None:
            keep[: max(0, m - rank)] = False
        kept = values[keep]
        report = {
            "landmarks": m,
            "rank": int(kept.size),
            "cut_directions": cut,
            "cut_below": floor / largest,
        }
        return cls(vectors[:, keep] / np.sqrt(kept)[None, :], kept, report)

    def done(self) -> Whitening:
        """The whitening of features that are whitened already."""
        return Whitening(np.eye(self.values.size), np.ones(self.values.size), self.report)

    def precision_for(self, rows: int) -> tuple[Precision, Any | None]:
        r"""How float32 rows are best served, and which directions to sum apart.

        "double": tiles and Gram matrix in float64. The rounding of float32 tiles acts like a ridge of
        n (eps/2)² / λ on a direction whose own weight is about (n/m) λ; where it is no longer small
        against the smallest ridge, nor on average against those weights, they will not do. "mixed":
        float32 tiles, float64
        Gram matrix. "single": float32 sums over short runs as well, half the time, where the
        directions so summed differ little in size. The few largest ones may be summed apart, in
        float64, to that end: they come back as columns of a float32 array.
        """
        if not self.values.size:
            return "mixed", None
        smallest, m = float(self.values[0]), self.T.shape[0]
        rounding = (_EPS_SINGLE / 2) ** 2
        share = m * rounding * float(np.mean(self.values**-2.0))
        unseen = rows * rounding / smallest <= _SMALL * _SMALLEST_RIDGE
        if not unseen and share > _SHARE_OF_TILES:
            return "double", None
        if rows < _ROWS_PER_LANDMARK * m or not (unseen or share <= _SHARE_OF_SUMS):
            return "mixed", None
        for apart in _APART:
            if self.values.size > apart and smallest >= _ALIKE * self.values[-1 - apart]:
                first = self.values.size - apart
                leading = self.T[:, first:] * np.sqrt(self.values[first:])[None, :]
                return "single", np.ascontiguousarray(leading, np.float32) if apart else None
        return "mixed", None


def spanning_landmarks(W: Any, rank: int) -> Any:
    """Which landmarks span the first `rank` directions of W: the first pivots of its Cholesky factor.

    Sorted positions; all of them where more than half would be needed. O(m · pivots²) time.
    """
    m = W.shape[0]
    wanted = int(np.ceil(_PIVOTS_PER_DIRECTION * rank)) + 16
    if wanted > m / 2:
        return np.arange(m)
    _, pivots, found, _ = scipy.linalg.lapack.dpstrf(W, lower=1)
    return np.sort(pivots[: min(wanted, found)] - 1)
