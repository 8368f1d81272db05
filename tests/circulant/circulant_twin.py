"""The dense twin of a multilevel circulant model, written out from the definitions."""

from __future__ import annotations

import itertools
import math

import numpy as np


def dense_row(kernel, shape, spacing):
    """The first row by enumerating D_j for every multi-index j."""
    p = len(shape)

    def t(j):
        return kernel(np.array([[j[s] * spacing[s] for s in range(p)]]), np.zeros((1, p)))[0, 0]

    u = np.zeros(shape)
    for j in np.ndindex(*shape):
        sets = [{0} if j[s] == 0 else {j[s], shape[s] - j[s]} for s in range(p)]
        u[j] = sum(t(member) for member in itertools.product(*sets))
    return u


def dense_matrix(u):
    """circ_n[u]: entry (j, l) is u at l − j modulo n, level by level."""
    shape = u.shape
    cells = list(np.ndindex(*shape))
    U = np.zeros((len(cells), len(cells)))
    for a, j in enumerate(cells):
        for b, m in enumerate(cells):
            U[a, b] = u[tuple((m[s] - j[s]) % shape[s] for s in range(len(shape)))]
    return U


def dense_fit(U, Y, alpha, intercept):
    """Dual coefficients and intercepts from the bordered system itself."""
    n, t = Y.shape
    if not intercept:
        return np.linalg.solve(U + alpha * np.eye(n), Y), np.zeros(t)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = U + alpha * np.eye(n)
    system[:n, n] = system[n, :n] = 1.0
    solution = np.linalg.solve(system, np.vstack([Y, np.zeros((1, t))]))
    return solution[:n], solution[n]


def dense_residual_operator(U, alpha, intercept):
    """R_b, column by column from refits of unit vectors."""
    return alpha * dense_fit(U, np.eye(U.shape[0]), alpha, intercept)[0]


def refit_without(U, Y, rows, alpha, intercept):
    """Predictions of the given rows by the model trained on all others, kernel values from U."""
    train = np.setdiff1d(np.arange(Y.shape[0]), rows)
    coef, b = dense_fit(U[np.ix_(train, train)], Y[train], alpha, intercept)
    return U[np.ix_(rows, train)] @ coef + b


def cells(shape):
    return math.prod(shape)
