"""The dense twin of a smoother: everything from the matrix itself, held-out rows by literal refits."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from onefold.linalg import to_numpy


def solve(K: Any, Y: Any, border: Any, alpha: float, train: Any) -> tuple[Any, Any]:
    """(K + αI) a + b s = y, sᵀa = 0 on the rows `train` alone: a and b."""
    m = len(train)
    system = K[np.ix_(train, train)] + alpha * np.eye(m)
    if border is None:
        return np.linalg.solve(system, Y[train]), np.zeros(Y.shape[1])
    column = border[train][:, None]
    system = np.block([[system, column], [column.T, np.zeros((1, 1))]])
    solved = np.linalg.solve(system, np.vstack([Y[train], np.zeros((1, Y.shape[1]))]))
    return solved[:m], solved[m]


def refit(K: Any, Y: Any, border: Any, alpha: float, rows: Any) -> Any:
    """The given rows predicted by a fit of all others."""
    train = np.setdiff1d(np.arange(len(K)), rows)
    a, b = solve(K, Y, border, alpha, train)
    return K[np.ix_(rows, train)] @ a + (0.0 if border is None else border[rows][:, None] * b)


def residual_operator(K: Any, border: Any, alpha: float) -> Any:
    """R_b as a dense matrix."""
    R = alpha * np.linalg.inv(K + alpha * np.eye(len(K)))
    if border is None:
        return R
    rho = R @ border
    return R - np.outer(rho, rho) / (border @ rho)


def log_determinant(K: Any, border: Any, alpha: float) -> Any:
    """Of K + αI, on the complement of the border."""
    G = K + alpha * np.eye(len(K))
    if border is not None:
        basis = np.linalg.svd(border[None])[2][1:]
        G = basis @ G @ basis.T
    return np.linalg.slogdet(G)[1]


def smallest_ball(G: Any) -> float:
    """The squared radius of the smallest ball around rows, by a general solver of the dual problem."""
    n = len(G)
    diagonal = np.diagonal(G)
    solution = minimize(
        lambda b: b @ G @ b - diagonal @ b,
        np.full(n, 1 / n),
        jac=lambda b: 2 * G @ b - diagonal,
        bounds=[(0, None)] * n,
        constraints={"type": "eq", "fun": lambda b: b.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-15},
    )
    return float(-solution.fun)


def check(
    smoother: Any, K: Any, Y: Any, border: Any, alphas: Any, parts: Any = (), *,
    rtol: float = 1e-7, atol: float = 1e-8, build: Any = np.asarray,
) -> None:  # fmt: skip
    """Residuals, trace, determinant, rows left out one by one and in the given sets."""
    n = len(K)
    there = build(Y)
    residuals = to_numpy(smoother.residuals(there, alphas))
    trace = smoother.trace(alphas)
    logdet = smoother.logdet(alphas)
    heldout = smoother.heldout(there, parts, alphas)
    loo = to_numpy(smoother.leave_one_out(there, alphas)) if n > 1 else None
    for i, alpha in enumerate(alphas):
        R = residual_operator(K, border, alpha)
        assert_allclose(residuals[i], R @ Y, atol=atol)
        assert_allclose(trace[i], np.trace(R), atol=atol)
        assert_allclose(logdet[i], log_determinant(K, border, alpha), atol=10 * atol)
        for row in range(0, n if n > 1 else 0, max(1, n // 10)):
            assert_allclose(loo[i, [row]], refit(K, Y, border, alpha, [row]), rtol=rtol, atol=atol)
        for rows, found in zip(parts, heldout):
            assert_allclose(to_numpy(found)[i], refit(K, Y, border, alpha, rows), rtol=rtol, atol=atol)


def circulant_row(kernel: Any, shape: Any, spacing: Any) -> Any:
    """The first row of a multilevel circulant matrix by enumerating D_j for every multi-index j."""
    u = np.zeros(shape)
    for j in np.ndindex(*shape):
        sets = [{0} if i == 0 else {i, size - i} for i, size in zip(j, shape)]
        points = np.array(list(itertools.product(*sets))) * np.asarray(spacing)
        u[j] = kernel(points, np.zeros((1, len(shape)))).sum()
    return u


def circulant_matrix(u: Any) -> Any:
    """circ_n[u]: entry (j, l) is u at l − j modulo n, level by level."""
    return np.array([np.roll(u, j, axis=tuple(range(u.ndim))).ravel() for j in np.ndindex(*u.shape)])
