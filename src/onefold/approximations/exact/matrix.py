r"""What is done to a dense kernel matrix before it is factorised: centring, checks of a given one."""

from __future__ import annotations

import numpy as np

from onefold.kernels import Kernel, Precomputed
from onefold.linalg import Array, all_finite, namespace
from onefold.machine.threads import spans
from onefold.smoothers.base import UnsolvableError
from onefold.smoothers.rounding import GIVEN, psd_probe

_STRIP = 256
_LARGEST = 1e290  # of a sum of kernel values: products with it are still numbers


def recentred(K: Array, border: Array, mean_row: Array) -> Array:
    """HKH + c·ssᵀ/sᵀs with c the mean of HKH's eigenvalues, over K, in strips."""
    n, length = K.shape[0], float(border @ border)
    middle = float(mean_row @ border)
    trace = float(namespace(K).sum(namespace(K).linalg.diagonal(K)))
    c = max(trace - middle, 0.0) / n
    # s k̄ᵀ + k̄ sᵀ − (middle + c)/sᵀs · s sᵀ, written as s uᵀ + u sᵀ
    u = mean_row - border * ((middle + c) / (2 * length))
    for part in spans(n, _STRIP):
        K[part, :] -= border[part, None] * u[None, :] + u[part, None] * border[None, :]
    return K


def rounding_of(kernel: Kernel, X: Array) -> float:
    """How far below 0, relative to the largest, an eigenvalue of a given matrix may lie.

    Many a float64 matrix was computed in single precision, so 1e-6 is still rounding.
    """
    if not isinstance(kernel, Precomputed):
        return GIVEN.tolerance
    return max(1e-6, float(np.sqrt(namespace(X).finfo(X.dtype).eps)))


def check_matrix(K: Array, tolerance: float | None) -> None:
    """Raise unless a kernel matrix is finite and, where the user brought it, symmetric and PSD."""
    xp = namespace(K)
    with np.errstate(invalid="ignore", over="ignore"):
        sums = xp.sum(K, axis=0)  # passes on what is not finite, without a second array
    if not all_finite(sums) or float(xp.max(xp.abs(sums))) > _LARGEST:
        raise UnsolvableError(
            "the kernel matrix holds NaN or infinite values, or nearly so; scale the features, or check "
            "the kernel."
        )
    if tolerance is None:
        return
    scale = max((float(xp.max(xp.abs(K[part, :]))) for part in spans(K.shape[0], _STRIP)), default=0.0)
    for part in spans(K.shape[0], _STRIP):
        if float(xp.max(xp.abs(K[part, :] - K[:, part].T))) > tolerance * max(scale, 1e-300):
            raise ValueError("the kernel matrix is not symmetric; a kernel must have k(a, b) = k(b, a).")
    psd_probe(K, tolerance)
