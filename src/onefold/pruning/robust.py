r"""Weights that let outliers go: Suykens' weighted LS-SVM.

With residuals e and their robust scale ŝ = 1.483 · MAD(e),

    v_i = 1 for |e_i/ŝ| ≤ 2.5,   (3 − |e_i/ŝ|) / 0.5 up to 3,   1e-4 beyond.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_NEAR, _FAR, _LEAST = 2.5, 3.0, 1e-4
_ROUNDS = 10
SETTLED = 0.01


def robust_weights(residuals: Any) -> Any:
    """One weight per row from residuals (n, targets); the worst target of a row decides."""
    scale = 1.483 * np.median(np.abs(residuals - np.median(residuals, axis=0)), axis=0)
    distance = np.abs(residuals) / np.maximum(scale, np.finfo(float).tiny)[None, :]
    # A target that is fitted exactly has no scale, and no outliers either.
    distance[:, scale == 0] = 0.0
    worst = distance.max(axis=1)
    return np.clip((_FAR - worst) / (_FAR - _NEAR), _LEAST, 1.0)


def settle_weights(residuals_with: Any, n: int) -> tuple[Any, int]:
    """Fit, weigh, fit again, until no weight moves by more than 0.01, at most ten times.

    `residuals_with` is a function weights → residuals (n, targets) of the fit with these weights.
    Returns the weights and the number of rounds.
    """
    weights = np.ones(n)
    for number in range(1, _ROUNDS + 1):
        fresh = robust_weights(residuals_with(weights))
        if np.max(np.abs(fresh - weights)) <= SETTLED:
            return fresh, number
        weights = fresh
    return weights, _ROUNDS
