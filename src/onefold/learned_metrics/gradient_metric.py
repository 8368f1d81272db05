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
from onefold.linalg import Array, is_sparse, take_rows, to_numpy

_ROWS = 1500  # at which the gradient is taken
_FLOOR = 1e-6


def gradient_metric(
    expansion: Any, X: Array, weight: Any | None, *, kind: str, generator: np.random.Generator
) -> Any:
    """S (d, d), symmetric, or its weights per feature (d,) for a diagonal metric.

    O(rows · m · d · targets) time for an expansion of m terms, at 1500 rows at most. Where f is
    constant, nothing is known of any feature and all weigh the same.
    """
    rows = _drawn(X.shape[0], generator)
    given = None if weight is None else weight[rows]
    M = outer_gradients(expansion, take_rows(X, rows), given, diagonal=kind == "diagonal")
    largest = float(np.max(M if M.ndim == 1 else np.diagonal(M)))
    if not 0 < largest < np.inf:
        return np.ones(M.shape[0]) if M.ndim == 1 else np.eye(M.shape[0])
    if M.ndim == 1:
        return np.sqrt(M / largest + _FLOOR)
    values, vectors = np.linalg.eigh(M / largest + _FLOOR * np.eye(M.shape[0]))
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def importances(expansion: Any, X: Array, weight: Any | None, seed: int) -> Any:
    r"""The share of each feature in Σ_j Var(x_j) · mean Σ_t (∂f_t/∂x_j)²: `feature_importances_`.

    How much of f moves with a feature, whatever the feature's unit; at 1500 rows at most. All alike
    where f is constant.
    """
    rows = _drawn(X.shape[0], np.random.default_rng(seed))
    part, given = take_rows(X, rows), None if weight is None else weight[rows]
    slopes = outer_gradients(expansion, part, given, diagonal=True)
    dense = to_numpy(part.toarray() if is_sparse(part) else part).astype(np.float64)
    share = np.full(len(rows), 1.0 / len(rows)) if given is None else given / given.sum()
    about = dense - share @ dense
    moved = slopes * (share @ about**2)
    total = float(moved.sum())
    return moved / total if 0 < total < np.inf else np.full(moved.size, 1.0 / moved.size)


def _drawn(n: int, generator: np.random.Generator) -> Any:
    """Numbers of the rows at which gradients are taken."""
    return np.sort(generator.choice(n, _ROWS, replace=False)) if n > _ROWS else np.arange(n)
