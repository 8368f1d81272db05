r"""(A K + μI) c = b for every μ from one Krylov space.

A and K are symmetric and positive semi-definite, their product is not symmetric, but it is
self-adjoint in the inner product uᵀKv: conjugate gradients work there without ever needing K⁻¹. And
Krylov spaces do not see the shift μ: the iteration at the smallest μ carries all others along, at the
cost of two vectors each (Jegerlehner's recurrences). That is another algorithm than the preconditioned
iteration of :mod:`onefold.linalg.iterate`: no preconditioner commutes with the shift.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.machine.threads import check_stop

Map = Callable[[Any], Any]


@dataclass(frozen=True)
class Shifted:
    """Solutions (μ, columns, m), the iterations, and the largest relative residual of each μ."""

    X: Any
    iterations: int
    residual: Any


def solve_shifted(A: Map, K: Map, B: Any, alphas: Any, *, tolerance: float, limit: int) -> Shifted:
    """Solve for every row b of B and every μ.

    A system has converged when ‖residual‖_K ≤ tolerance·‖b‖_K; ‖·‖_K is the norm of predictions'
    smoothness, and what the criterion sees.

    Parameters
    ----------
    A, K : functions of rows (columns, m)
    alphas : array (μ,)
    limit : int
        Most iterations; what is left then is in `residual`.
    """
    mu = np.asarray(alphas, dtype=np.float64)
    base = float(mu.min())
    shift = (mu - base)[:, None]
    X = np.zeros((mu.size, *B.shape))
    R, P = B.copy(), B.copy()
    KP = K(P)
    rho = _dots(P, KP)
    start = np.where(rho > 0, rho, 1.0)
    P_shifted = np.broadcast_to(B, X.shape).copy()
    zeta = np.ones((mu.size, B.shape[0]))
    zeta_before = zeta.copy()
    step_before, ratio_before = np.ones(B.shape[0]), np.zeros(B.shape[0])
    residual = np.ones_like(zeta)
    live = np.arange(mu.size)
    count = 0
    while count < limit and live.size:
        check_stop()
        count += 1
        Q = A(KP)
        Q += base * P
        curvature = _dots(KP, Q)
        moving = (rho > 0) & (curvature > 0)
        step = np.divide(rho, curvature, out=np.zeros_like(rho), where=moving)
        denominator = step * ratio_before * (zeta_before - zeta)
        denominator += zeta_before * step_before * (1 + shift * step)
        zeta_next = np.divide(
            zeta * zeta_before * step_before,
            denominator,
            out=np.zeros_like(zeta),
            where=denominator != 0,
        )
        scale = np.divide(zeta_next, zeta, out=np.zeros_like(zeta), where=zeta != 0)
        R -= step[:, None] * Q
        KR = K(R)
        rho_next = np.maximum(_dots(R, KR), 0.0)
        ratio = np.divide(rho_next, rho, out=np.zeros_like(rho), where=rho > 0)
        for i in live:
            X[i] += (step * scale[i])[:, None] * P_shifted[i]
            P_shifted[i] *= (ratio * scale[i] ** 2)[:, None]
            P_shifted[i] += zeta_next[i][:, None] * R
        residual[live] = zeta_next[live] * np.sqrt(rho_next / start)
        live = live[residual[live].max(axis=1, initial=0.0) > tolerance]
        zeta_before, zeta = zeta, zeta_next
        step_before, ratio_before = np.where(moving, step, 1.0), ratio
        P = R + ratio[:, None] * P
        KP = KR + ratio[:, None] * KP
        rho = rho_next
    return Shifted(X, count, residual.max(axis=1, initial=0.0))


def _dots(U: Any, V: Any) -> Any:
    return np.einsum("ij,ij->i", U, V)
