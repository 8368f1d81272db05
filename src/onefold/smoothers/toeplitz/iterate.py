"""Conjugate gradients on several right-hand sides, judged by the true residual."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.linalg.iterate import Map, Solution, State, conjugate_gradients, refined

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
