r"""Landmarks drawn by approximate ridge leverage scores.

The leverage of row i at ridge λ is (K (K + λI)⁻¹)_ii. With pilot rows P drawn uniformly it is
estimated as τ_i = (k_ii − k_iP (K_PP + λI)⁻¹ k_Pi) / λ, which never underestimates what P leaves open.
λ is the pilot's eigenvalue number |P|/2: about half of the directions count as signal.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from onefold.kernels import Kernel
from onefold.landmarks.base import Basis, about_origin, candidate_rows, pick
from onefold.linalg import Array, take_rows, to_numpy
from onefold.statistics.finite import finite_kernel

_PER_LANDMARK = 8


def leverage_rows(kernel: Kernel, X: Array, m: int, rng: np.random.Generator) -> Basis:
    """`m` rows drawn without replacement in proportion to their leverage.

    O(c m²) time and O(c m) memory for c candidates: all rows, or a uniform sample of 8 m of them.
    """
    candidates = candidate_rows(X.shape[0], m, rng, per_landmark=_PER_LANDMARK)
    rows = about_origin(kernel, take_rows(X, candidates))
    pilot = take_rows(rows, rng.choice(candidates.size, m, replace=False))
    inner = finite_kernel(np.array(to_numpy(kernel(pilot, pilot)), dtype=np.float64))
    spectrum = np.linalg.eigvalsh(inner)
    ridge = max(float(spectrum[m // 2]), 1e-10 * float(spectrum[-1])) or 1.0  # of a kernel of zeros
    inner.flat[:: m + 1] += ridge
    across = finite_kernel(np.asarray(to_numpy(kernel(pilot, rows)), dtype=np.float64))
    half = scipy.linalg.solve_triangular(
        np.linalg.cholesky(inner), across, lower=True, check_finite=False
    )
    diagonal = np.asarray(to_numpy(kernel.diagonal(rows)), dtype=np.float64)
    scores = np.maximum(diagonal - np.einsum("ij,ij->j", half, half), 0.0) / ridge
    scores = np.clip(scores, 1e-12 * max(float(scores.max()), 1e-300), 1.0)
    drawn = rng.choice(candidates.size, m, replace=False, p=scores / scores.sum())
    index = np.sort(candidates[drawn])
    report = {"method": "leverage", "candidates": int(candidates.size), "leverage_ridge": ridge}
    return Basis(pick(X, index), index, report)
