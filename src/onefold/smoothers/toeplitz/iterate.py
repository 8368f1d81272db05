r"""Conjugate gradients and MINRES on several right-hand sides, judged by the true residual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, minres

from onefold.linalg.iterate import Map, Solution, State, conjugate_gradients, refined

_RESTARTS = 6
_ROUNDING = 8 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Outcome:
    """X (columns, n), how it ended, the iterations, and the largest relative true residual."""

    X: Any
    state: State
    iterations: int
    residual: float


def refined_gradients(
    product: Map,
    precondition: Map,
    B: Any,
    *,
    start: Any | None,
    tolerance: float,
    norm: float,
    limit: int,
) -> Outcome:
    r"""Solve A x = b for every row b of B, A symmetric positive definite.

    A column has converged when its true residual, recomputed from x, is at most `tolerance`·‖b‖, or
    what rounding leaves of it, 8 eps·‖A‖·‖x‖. The recursion restarts from the true residual as long
    as that helps. Columns that have converged leave the iteration.

    Parameters
    ----------
    product, precondition : functions of rows (columns, n)
    start : array like B or None
        Overwritten.
    norm : float
        An upper bound of ‖A‖₂.
    limit : int
        Most iterations, over all restarts.
    """
    X = np.zeros_like(B) if start is None else start
    scale = np.linalg.norm(B, axis=1)
    scale[scale == 0] = 1.0

    def lengths(V: Any) -> Any:
        return np.linalg.norm(V, axis=0)

    def correct(left: Any, some: Any, relative: Any, most: int) -> Solution:
        return conjugate_gradients(
            lambda V: product(V.T).T,
            lambda V: precondition(V.T).T,
            left.copy(order="K"),
            lengths,
            tolerance * scale[some],
            limit=most,
        )

    found = refined(
        lambda V, some: B[some].T - product(V.T).T,
        [correct],
        X.T,
        B.T if start is None else (B - product(X)).T,
        size=lambda V, some: lengths(V) / scale[some],
        enough=lambda V: np.maximum(tolerance, _ROUNDING * norm * lengths(V) / scale),
        limit=limit,
    )
    return Outcome(found.X.T, found.state, found.iterations, float(found.residual.max(initial=0.0)))


def minimal_residuals(
    product: Map, precondition: Map, B: Any, *, tolerance: float, norm: float, limit: int
) -> Outcome:
    """MINRES, column by column, for a symmetric A of any sign; refined by the true residual."""
    n = B.shape[1]
    A = LinearOperator((n, n), matvec=lambda v: product(v[None])[0], dtype=np.float64)
    M = LinearOperator((n, n), matvec=lambda v: precondition(v[None])[0], dtype=np.float64)
    X = np.zeros_like(B)
    spent, worst, good = 0, 0.0, True
    for x, b in zip(X, B):
        scale = float(np.linalg.norm(b)) or 1.0
        residual = b.copy()
        for _ in range(_RESTARTS):
            counter = _Counter()
            step, _ = minres(A, residual, M=M, rtol=tolerance / 100, maxiter=limit, callback=counter)
            x += step
            spent += counter.count
            residual = b - product(x[None])[0]
            size = float(np.linalg.norm(residual)) / scale
            enough = max(tolerance, _ROUNDING * norm * float(np.linalg.norm(x)) / scale)
            if size <= enough:
                break
        worst = max(worst, size)
        good = good and size <= enough
    return Outcome(X, "converged" if good else "slow", spent, worst)


class _Counter:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, _: Any) -> None:
        self.count += 1
