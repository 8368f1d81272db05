r"""The metric that a fitted function suggests: the mean outer product of its gradients.

    M = mean_i Σ_t ∇f_t(x_i) ∇f_t(x_i)ᵀ

over rows drawn at random, divided by its largest diagonal entry, plus 10⁻⁶ I. Directions along which f
does not change drop out. The next kernel compares rows as S x with SᵀS = M; a diagonal one has the
weights √M_jj.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.expansions import outer_gradients
from onefold.linalg import Array, take_rows

_ROWS = 1500  # at which the gradient is taken
_FLOOR = 1e-6


def gradient_metric(
    expansion: Any, X: Array, weight: Any | None, *, kind: str, generator: np.random.Generator
) -> Any:
    """S (d, d), symmetric, or its weights per feature (d,) for a diagonal metric.

    O(rows · m · d · targets) time for an expansion of m terms, at 1500 rows at most. Where f is
    constant, nothing is known of any feature and all weigh the same.
    """
    n = X.shape[0]
    rows = np.sort(generator.choice(n, _ROWS, replace=False)) if n > _ROWS else np.arange(n)
    given = None if weight is None else weight[rows]
    M = outer_gradients(expansion, take_rows(X, rows), given, diagonal=kind == "diagonal")
    largest = float(np.max(M if M.ndim == 1 else np.diagonal(M)))
    if not 0 < largest < np.inf:
        return np.ones(M.shape[0]) if M.ndim == 1 else np.eye(M.shape[0])
    if M.ndim == 1:
        return np.sqrt(M / largest + _FLOOR)
    values, vectors = np.linalg.eigh(M / largest + _FLOOR * np.eye(M.shape[0]))
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def importances(metric: Any, n_features: int) -> Any:
    """The share of each feature in the trace of SᵀS: what `feature_importances_` shows."""
    if metric is None:
        return np.full(n_features, 1.0 / n_features)
    values = np.asarray(metric)
    squares = values**2 if values.ndim == 1 else np.sum(values**2, axis=0)
    return squares / squares.sum()
