r"""Loops over rows, features and landmarks for :mod:`onefold.linalg.distances`, compiled by Numba.

Imported only where Numba is installed (``pip install numba``). Sums run over
features in order, as SciPy's do, so that distances in float64 have the same digits with and without
Numba, and those of a and b the same as those of b and a.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.linalg.compiled import compiled

# Landmarks at a time: their features stay in a core's cache for all rows.
_COLUMNS = 512


@compiled()
def fill_negative_l1(rows: Any, landmarks: Any, out: Any) -> None:
    """−Σ_f |rows_if − landmarks_fj| into `out` (n, m).

    Four features at a time: each number of `out` is loaded and stored a quarter as often.
    """
    n, d = rows.shape
    m = landmarks.shape[1]
    for start in range(0, m, _COLUMNS):
        stop = min(start + _COLUMNS, m)
        for i in range(n):
            total = out[i, start:stop]
            total[:] = 0
            for f in range(0, d - 3, 4):
                a = rows[i, f]
                b = rows[i, f + 1]
                c = rows[i, f + 2]
                e = rows[i, f + 3]
                at_a = landmarks[f, start:stop]
                at_b = landmarks[f + 1, start:stop]
                at_c = landmarks[f + 2, start:stop]
                at_e = landmarks[f + 3, start:stop]
                for j in range(stop - start):
                    half = total[j] - abs(a - at_a[j]) - abs(b - at_b[j])
                    total[j] = half - abs(c - at_c[j]) - abs(e - at_e[j])
            for f in range(d - d % 4, d):
                a = rows[i, f]
                at_a = landmarks[f, start:stop]
                for j in range(stop - start):
                    total[j] -= abs(a - at_a[j])


@compiled(fastmath={"reassoc", "nsz"})  # the order of a sum over landmarks is free: several at once
def fill_signed_sums(rows: Any, landmarks: Any, tile: Any, coef: Any, out: Any) -> None:
    """Σ_j tile_ij coef_tj sign(rows_if − landmarks_fj) into `out` (n, d, t), for `landmarks` (d, m)."""
    n, d = rows.shape
    targets, m = coef.shape
    nothing = tile.dtype.type(0)
    weights = np.empty(m, tile.dtype)
    for i in range(n):
        for t in range(targets):
            for j in range(m):
                weights[j] = tile[i, j] * coef[t, j]
            for f in range(d):
                x = rows[i, f]
                z = landmarks[f]
                above = nothing
                below = nothing
                for j in range(m):
                    if x > z[j]:
                        above += weights[j]
                    if x < z[j]:
                        below += weights[j]
                out[i, f, t] = above - below
