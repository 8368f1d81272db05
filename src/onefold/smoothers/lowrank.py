r"""R(μ) of a matrix whose numerical rank r is far below n, from a pivoted Cholesky factorisation.

    K = L Lᵀ + E,   L = U Σ Vᵀ,   λ = σ²   ⇒   R = I − U [λ/(λ+μ)] Uᵀ

LAPACK's pivoted factorisation stops when what is left, E, is as small as the rounding of K itself
(tr E ≤ 32 eps · n · max k_ii), which is also the backward error of an eigendecomposition: the
result is as exact as the dense route. Smooth kernels on a few features are of this kind. O(n r²)
time, against O(n³).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from onefold.linalg import Array, is_numpy
from onefold.machine.threads import check_stop
from onefold.smoothers.rounding import BELOW
from onefold.smoothers.thin import ThinSmoother

_SMALLEST = 1000  # below this many rows a decomposition takes no time worth saving
_PROBE = 400
_STRIP = 256
_LARGEST_SHARE = 3  # worth it while 3 r ≤ n
_ROUNDING = 32 * float(np.finfo(np.float64).eps)


def low_rank_factor(K: Array, *, psd: bool = True) -> Array | None:
    """L of shape (n, r) with K = L Lᵀ to rounding, or None if r is not far below n.

    A look at the spectrum of a few hundred rows decides first whether to try. Where K need not be
    positive semi-definite (`psd` false), what is left over is looked at entry by entry.
    """
    n = K.shape[0]
    if not is_numpy(K) or n < _SMALLEST:
        return None
    tolerance = _ROUNDING * float(np.diagonal(K).max())
    pick = np.linspace(0, n - 1, _PROBE).astype(int)
    spectrum = np.linalg.eigvalsh(K[np.ix_(pick, pick)])
    if np.count_nonzero(spectrum > tolerance) > 0.8 * _PROBE:
        return None
    check_stop()
    factor, pivots, rank, info = scipy.linalg.lapack.dpstrf(K.T, tol=tolerance, lower=1)
    if info < 0 or _LARGEST_SHARE * rank > n:
        return None
    unpivoted = np.empty((n, rank))
    unpivoted[pivots - 1] = np.tril(factor[:, :rank])
    return unpivoted if psd or _reproduces(unpivoted, K, n * tolerance) else None


def _reproduces(factor: Array, K: Array, tolerance: float) -> bool:
    """Whether L Lᵀ is K, which small diagonal entries of the rest prove for PSD matrices only."""
    for start in range(0, K.shape[0], _STRIP):
        part = slice(start, start + _STRIP)
        if np.abs(factor[part] @ factor.T - K[part]).max() > tolerance:
            return False
    return True


class LowRankSmoother(ThinSmoother):
    """R_b(μ) from a thin factor of K.

    Parameters
    ----------
    factor : array (n, r)
        L of :func:`low_rank_factor`.
    border : array (n,) or None
        s of the intercept.
    """

    def __init__(self, factor: Array, border: Array | None) -> None:
        # The singular vectors of L, not the eigenvectors of LᵀL: these square its condition.
        columns, singular, _ = np.linalg.svd(factor, full_matrices=False)
        super().__init__(columns, singular**2, border)

    def below_rounding(self, alphas: Any) -> Any:
        largest = float(self._values.max(initial=0.0))
        return np.asarray(alphas, dtype=np.float64).reshape(-1) < BELOW * _ROUNDING * largest
