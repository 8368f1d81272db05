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
    r = T.shape[1]
    s = np.ones(len(Y)) if weight is None else np.sqrt(weight)
    columns = np.hstack([Phi @ T, np.full((len(Y), 1), float(intercept))])
    penalty = np.hstack([np.eye(r), np.zeros((r, 1))])
    stacked = np.vstack([s[:, None] * columns, np.sqrt(mu) * penalty])
    rhs = np.vstack([s[:, None] * Y, np.zeros((r, Y.shape[1]))])
    solution = np.linalg.lstsq(stacked, rhs, rcond=None)[0]
    return T @ solution[:-1], solution[-1] * float(intercept)


class LongDouble:
    """The same problem from kernel values on in extended precision: stacked rows, Householder's QR.

    No directions are cut: the landmark kernel must be positive definite to 64 bits.
    """

    def __init__(self, X: Any, Z: Any, gamma: float) -> None:
        self.Phi = self._kernel(X, Z, gamma)
        W = self._kernel(Z, Z, gamma)
        self.upper = _cholesky(W).T

    @staticmethod
    def _kernel(A: Any, B: Any, gamma: float) -> Any:
        A = A.astype(np.longdouble)
        B = B.astype(np.longdouble)
        return np.exp(-np.longdouble(gamma) * ((A[:, None] - B[None]) ** 2).sum(axis=2))

    def fit(self, rows: Any, Y: Any, mu: float, *, intercept: bool = True, root: Any = None) -> Any:
        """β and, in the last row, b: of the rows and their targets Y, each times `root`."""
        m = self.Phi.shape[1]
        s = np.ones(len(Y)) if root is None else root
        s = s.astype(np.longdouble)[:, None]
        stacked = np.vstack([s * self.Phi[rows], np.sqrt(np.longdouble(mu)) * self.upper])
        constant = np.vstack([s * intercept, np.zeros((m, 1))])
        rhs = np.vstack([s * Y, np.zeros((m, Y.shape[1]))])
        if not intercept:
            return np.vstack([_least_squares(stacked, rhs), np.zeros((1, Y.shape[1]))])
        return _least_squares(np.hstack([stacked, constant]), rhs)

    def predict(self, rows: Any, solution: Any) -> Any:
        return (self.Phi[rows] @ solution[:-1] + solution[-1]).astype(float)


def _cholesky(matrix: Any) -> Any:
    lower = np.zeros_like(matrix)
    left = matrix.copy()
    for k in range(len(matrix)):
        assert left[k, k] > 0, "not positive definite"
        lower[k:, k] = left[k:, k] / np.sqrt(left[k, k])
        left[k:, k:] -= np.outer(lower[k:, k], lower[k:, k])
    return lower


def _least_squares(A: Any, B: Any) -> Any:
    A = A.copy()
    B = B.copy()
    # Column by column; rows of very different size keep their digits if the largest come first.
    order = np.argsort(-np.abs(A).max(axis=1), kind="stable")
    A = A[order]
    B = B[order]
    for k in range(A.shape[1]):
        v = A[k:, k].copy()
        v[0] += np.copysign(np.sqrt(v @ v), v[0])
        v /= np.sqrt(v @ v)
        A[k:, k:] -= 2 * np.outer(v, v @ A[k:, k:])
        B[k:] -= 2 * np.outer(v, v @ B[k:])
    x = np.zeros((A.shape[1], B.shape[1]), dtype=A.dtype)
    for k in reversed(range(A.shape[1])):
        x[k] = (B[k] - A[k, k + 1 :] @ x[k + 1 :]) / A[k, k]
    return x
