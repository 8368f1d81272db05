"""Kernel machines in two hundred digits: the reference where float64 might not agree with itself."""

from __future__ import annotations

import mpmath as mp
import numpy as np

DIGITS = 200


def fit_predict(X, y, weight, gamma, alpha, at, *, intercept):
    """f(at) of the rbf machine that minimises ½‖w‖² + (1/2α) Σ v (y − f)², rows of weight 0 apart."""
    with mp.workdps(DIGITS):
        kept = weight > 0
        X, y, weight = X[kept], y[kept], weight[kept]
        n = len(y)
        G = mp.matrix(n + intercept)
        for i in range(n):
            for j in range(n):
                G[i, j] = _rbf(X[i], X[j], gamma)
            G[i, i] += mp.mpf(float(alpha)) / mp.mpf(float(weight[i]))
            if intercept:
                G[i, n] = G[n, i] = 1
        rhs = mp.matrix([mp.mpf(float(value)) for value in y] + [0] * intercept)
        solution = mp.lu_solve(G, rhs)
        b = solution[n] if intercept else 0
        values = [sum(solution[i] * _rbf(x, X[i], gamma) for i in range(n)) + b for x in at]
        return np.array([float(value) for value in values])


def _rbf(a, b, gamma):
    squared = sum((mp.mpf(float(s)) - mp.mpf(float(t))) ** 2 for s, t in zip(a, b))
    return mp.exp(-mp.mpf(float(gamma)) * squared)
