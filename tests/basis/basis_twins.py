"""Literal twins of the basis model: least squares by stacking rows, nothing shared with the package."""

from __future__ import annotations

from typing import Any

import numpy as np


def rbf(A: Any, B: Any, gamma: float) -> Any:
    squared = ((A[:, None, :].astype(float) - B[None, :, :].astype(float)) ** 2).sum(axis=2)
    return np.exp(-gamma * squared)


def fit_literally(
    Phi: Any,
    W: Any,
    Y: Any,
    mu: float,
    *,
    intercept: bool,
    weight: Any | None = None,
    cut: float = 1e-12,
) -> tuple[Any, Any]:
    """Min Σ v (y − Φβ − b)² + μ βᵀWβ by one stacked least-squares problem."""
    values, vectors = np.linalg.eigh(W)
    keep = values > cut * values[-1]  # directions that duplicates leave empty
    T = vectors[:, keep] / np.sqrt(values[keep])
    r, s = T.shape[1], np.ones(len(Y)) if weight is None else np.sqrt(weight)
    columns = np.hstack([Phi @ T, np.full((len(Y), 1), float(intercept))])
    penalty = np.hstack([np.eye(r), np.zeros((r, 1))])
    stacked = np.vstack([s[:, None] * columns, np.sqrt(mu) * penalty])
    rhs = np.vstack([s[:, None] * Y, np.zeros((r, Y.shape[1]))])
    solution = np.linalg.lstsq(stacked, rhs, rcond=None)[0]
    return T @ solution[:-1], solution[-1] * float(intercept)
