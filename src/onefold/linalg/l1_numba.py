r"""Loops over rows, features and landmarks for :mod:`onefold.linalg.distances`, compiled by Numba.

Imported only where Numba is installed (``pip install numba``). Sums run over
features in order, as SciPy's do, so that distances in float64 have the same digits with and without
Numba, and those of a and b the same as those of b and a.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.linalg.compiled import compiled

_COLUMNS = 512  # landmarks at a time: their features stay in a core's cache for all rows


@compiled()
def fill_negative_l1(left: Any, right: Any, out: Any) -> None:
    """−Σ_f |left_if − right_fj| into `out` (n, m), four f at a time: out is loaded and stored less."""
    n, d = left.shape
    m = right.shape[1]
    for start in range(0, m, _COLUMNS):
        stop = min(start + _COLUMNS, m)
        for i in range(n):
            total = out[i, start:stop]
            total[:] = 0
            for f in range(0, d - 3, 4):
                a = left[i, f]
                b = left[i, f + 1]
                c = left[i, f + 2]
                e = left[i, f + 3]
                at_a = right[f, start:stop]
                at_b = right[f + 1, start:stop]
                at_c = right[f + 2, start:stop]
                at_e = right[f + 3, start:stop]
                for j in range(stop - start):
                    half = total[j] - abs(a - at_a[j]) - abs(b - at_b[j])
                    total[j] = half - abs(c - at_c[j]) - abs(e - at_e[j])
            for f in range(d - d % 4, d):
                a = left[i, f]
                at_a = right[f, start:stop]
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
