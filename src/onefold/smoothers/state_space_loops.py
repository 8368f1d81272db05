r"""The recursions of :mod:`onefold.smoothers.state_space`, row by row, compiled by Numba.

Imported only where Numba is installed. Numbers in brackets are those of the formulas there. `h` is the
observation as a tuple: its length p is the dimension of the state, which the compiler then knows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onefold.linalg.compiled import compiled

# Twice the step, below which the incomplete gamma function is summed as a series of positive terms.
_SERIES = 4.0
_EPS = float(np.finfo(np.float64).eps)


# -- the transitions between neighbours ----------------------------------------------------------------


@compiled()
def incomplete_gamma(k: int, step: float) -> float:
    """∫₀ˢ uᵏ exp(−2u) du, to the last digits also where it is tiny."""
    double = 2.0 * step
    if double < _SERIES:
        term = math.exp(-double) * step ** (k + 1) / (k + 1)
        total = term
        m = k + 1
        while term > _EPS * total:
            m += 1
            term *= double / m
            total += term
        return total
    term = 1.0
    total = 1.0
    factorial = 1.0
    for m in range(1, k + 1):
        factorial *= m
        term *= double / m
        total += term
    return factorial / 2.0 ** (k + 1) * (1.0 - math.exp(-double) * total)


@compiled()
def fill_exponential_step(step: float, A: Any, Q: Any) -> None:
    """(2) and (3) for ν = 1/2."""
    A[0, 0] = math.exp(-step)
    Q[0, 0] = -math.expm1(-2.0 * step)


@compiled()
def fill_once_differentiable_step(step: float, A: Any, Q: Any) -> None:
    """(2) and (3) for ν = 3/2."""
    decay = math.exp(-step)
    A[0, 0] = decay * (1.0 + step)
    A[0, 1] = decay * step
    A[1, 0] = -decay * step
    A[1, 1] = decay * (1.0 - step)
    edge = math.exp(-2.0 * step)
    g2 = incomplete_gamma(2, step)
    g1 = (2.0 * g2 + step**2 * edge) / 2.0
    g0 = 2.0 * g1 + step * edge
    Q[0, 0] = 4.0 * g2
    Q[0, 1] = 4.0 * (g1 - g2)
    Q[1, 1] = 4.0 * (g0 - 2.0 * g1 + g2)


@compiled()
def fill_twice_differentiable_step(step: float, A: Any, Q: Any) -> None:
    """(2) and (3) for ν = 5/2."""
    decay = math.exp(-step)
    half = step * step / 2.0
    A[0, 0] = decay * (1.0 + step + half)
    A[0, 1] = decay * (step + 2.0 * half)
    A[0, 2] = decay * half
    A[1, 0] = -decay * half
    A[1, 1] = decay * (1.0 + step - 2.0 * half)
    A[1, 2] = decay * (step - half)
    A[2, 0] = decay * (half - step)
    A[2, 1] = decay * step * (step - 3.0)
    A[2, 2] = decay * (1.0 - 2.0 * step + half)
    edge = math.exp(-2.0 * step)
    g4 = incomplete_gamma(4, step)
    g3 = (2.0 * g4 + step**4 * edge) / 4.0
    g2 = (2.0 * g3 + step**3 * edge) / 3.0
    g1 = (2.0 * g2 + step**2 * edge) / 2.0
    g0 = 2.0 * g1 + step * edge
    scale = 16.0 / 3.0
    Q[0, 0] = scale * g4 / 4.0
    Q[0, 1] = scale * (g3 / 2.0 - g4 / 4.0)
    Q[0, 2] = scale * (g2 / 2.0 - g3 + g4 / 4.0)
    Q[1, 1] = scale * (g2 - g3 + g4 / 4.0)
    Q[1, 2] = scale * (g1 - 2.5 * g2 + 1.5 * g3 - g4 / 4.0)
    Q[2, 2] = scale * (g0 - 4.0 * g1 + 5.0 * g2 - 2.0 * g3 + g4 / 4.0)


@compiled()
def factorise_noise(Q: Any, h: Any) -> None:
    """(4): Q = U D Uᵀ in place of the upper triangle of Q, with D on the diagonal."""
    for j in range(len(h) - 1, -1, -1):
        if not Q[j, j] > 0.0:  # no step, or one whose powers are below the range of float64
            Q[j, j] = 0.0
            for a in range(j):
                Q[a, j] = 0.0
            continue
        for a in range(j):
            for b in range(a + 1):
                Q[b, a] -= Q[b, j] * Q[a, j] / Q[j, j]
        for a in range(j):
            Q[a, j] /= Q[j, j]


@compiled()
def fill_transitions(steps: Any, h: Any, A: Any, noise: Any) -> None:
    """A_i, and U_i with D_i on its diagonal, of every step."""
    p = len(h)
    for i in range(len(steps)):
        if p == 1:
            fill_exponential_step(steps[i], A[i], noise[i])
        elif p == 2:
            fill_once_differentiable_step(steps[i], A[i], noise[i])
        else:
            fill_twice_differentiable_step(steps[i], A[i], noise[i])
        factorise_noise(noise[i], h)


# -- forwards: covariances and innovations -------------------------------------------------------------


@compiled()
def advance_covariance(A: Any, noise: Any, L: Any, D: Any, W: Any, weight: Any, h: Any) -> None:
    """(7): the factors of A L D Lᵀ Aᵀ + U D_Q Uᵀ, rows of W = [A L, U] made orthogonal in turn."""
    p = len(h)
    for a in range(p):
        for b in range(p):
            total = A[a, b]
            for c in range(b + 1, p):
                total += A[a, c] * L[c, b]
            W[a, b] = total
            W[a, p + b] = noise[a, b] if a < b else 0.0
        W[a, p + a] = 1.0
        weight[a] = D[a]
        weight[p + a] = noise[a, a]
    for a in range(p):
        length = 0.0
        for k in range(2 * p):
            length += weight[k] * W[a, k] * W[a, k]
        D[a] = length
        for b in range(a + 1, p):
            product = 0.0
            for k in range(2 * p):
                product += weight[k] * W[b, k] * W[a, k]
            L[b, a] = product / length
            for k in range(2 * p):
                W[b, k] -= L[b, a] * W[a, k]


@compiled()
def fill_covariances(A: Any, noise: Any, start: Any, precision: Any, h: Any, C: Any) -> None:
    """C_i = P_i hᵀ of every row, by (5) to (7); `start` has the factors of the stationary P."""
    n = len(precision)
    p = len(h)
    L = start.copy()
    D = np.empty(p)
    for a in range(p):
        D[a] = start[a, a]
    W = np.empty((p, 2 * p))
    weight = np.empty(2 * p)
    for i in range(n):
        C[i, 0] = D[0]
        for a in range(1, p):
            C[i, a] = L[a, 0] * D[0]
        D[0] /= 1.0 + D[0] * precision[i]
        if i + 1 < n:
            advance_covariance(A[i], noise[i], L, D, W, weight, h)


@compiled()
def fill_innovations(A: Any, C: Any, inverse: Any, Y: Any, h: Any, E: Any) -> None:
    """(8): the part of each row that the rows before it do not predict, for every column of Y."""
    n, columns = Y.shape
    p = len(h)
    mean = np.zeros((columns, p))
    updated = np.zeros(p)
    for i in range(n):
        for k in range(columns):
            error = Y[i, k] - mean[k, 0]
            E[i, k] = error
            change = inverse[i] * error
            for a in range(p):
                updated[a] = mean[k, a] + C[i, a] * change
            if i + 1 < n:
                for a in range(p):
                    total = 0.0
                    for b in range(p):
                        total += A[i, a, b] * updated[b]
                    mean[k, a] = total


# -- backwards: errors and the diagonal ----------------------------------------------------------------


@compiled()
def smooth_innovations(A: Any, C: Any, inverse: Any, h: Any, E: Any) -> None:
    """(9): in place of the innovations ε, the part of each row that no other row predicts."""
    n, columns = E.shape
    p = len(h)
    adjoint = np.zeros((columns, p))
    pulled = np.zeros(p)
    for i in range(n - 1, -1, -1):
        for k in range(columns):
            if i + 1 < n:
                for a in range(p):
                    total = 0.0
                    for b in range(p):
                        total += A[i, b, a] * adjoint[k, b]
                    pulled[a] = total
            error = E[i, k]
            for a in range(p):
                error -= C[i, a] * pulled[a]
                adjoint[k, a] = pulled[a]
            E[i, k] = error
            adjoint[k, 0] += inverse[i] * error


@compiled()
def fill_diagonal(A: Any, C: Any, precision: Any, h: Any, diagonal: Any) -> None:
    """(10) and (11): the diagonal of G⁻¹."""
    n = len(precision)
    p = len(h)
    N = np.zeros((p, p))
    NA = np.zeros((p, p))
    first = np.empty(p)
    pushed = np.empty(p)
    for i in range(n - 1, -1, -1):
        if i + 1 < n:
            for a in range(p):
                for b in range(p):
                    total = 0.0
                    for c in range(p):
                        total += N[a, c] * A[i, c, b]
                    NA[a, b] = total
            for a in range(p):
                for b in range(a + 1):
                    total = 0.0
                    for c in range(p):
                        total += A[i, c, a] * NA[c, b]
                    N[a, b] = total
                    N[b, a] = total
        share = 1.0 / (1.0 + C[i, 0] * precision[i])
        inverse = precision[i] * share
        gained = 0.0
        for a in range(p):
            pushed[a] = 0.0
            for b in range(p):
                pushed[a] += N[a, b] * C[i, b]
            gained += C[i, a] * pushed[a]
            first[a] = -C[i, a] * inverse
        diagonal[i] = inverse * (1.0 + inverse * gained)
        first[0] = share
        corner = inverse
        for a in range(p):
            pushed[a] = 0.0
            for b in range(p):
                pushed[a] += N[a, b] * first[b]
            corner += first[a] * pushed[a]
        for a in range(p):
            N[0, a] = pushed[a]
            N[a, 0] = pushed[a]
        N[0, 0] = corner
