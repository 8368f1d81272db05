r"""A x = b by preconditioned conjugate gradients, for many right-hand sides at once.

With M ≈ A⁻¹, both symmetric and positive definite, a column x of residual r moves along the direction p,

    x ← x + (rᵀMr / pᵀAp) p,    p ← M r + (rᵀMr / what it was before) p

to where ‖x − A⁻¹b‖_A is least among all that was within reach. Every column has a recurrence of its
own; what they share is the products. The residual that is carried along drifts from the true one by
rounding: a caller that needs more digits than that computes b − A x and starts again from there.

Systems with operators of their own go together as a stack (…, n, columns), as in batched products.
Vectors in rows are handed over as transposed views, which costs nothing: memory order is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from onefold.linalg.arrays import Array, is_numpy, namespace, to_numpy
from onefold.machine.threads import check_stop

Map = Callable[[Array], Array]
State = Literal["converged", "slow", "late", "indefinite"]


@dataclass(frozen=True)
class Solution:
    """How far conjugate gradients came.

    Attributes
    ----------
    X, residual : arrays (…, n, columns)
        The residual is the one carried along.
    iterations : int
    state : {"converged", "slow", "late", "indefinite"}
        "slow": the limit came first. "late": a column missed the deadline. "indefinite": in a column
        that had not converged, pᵀAp or rᵀMr was not a positive number.
    """

    X: Array
    residual: Array
    iterations: int
    state: State


def conjugate_gradients(
    product: Map,
    precondition: Map,
    residual: Array,
    norm: Map,
    goal: Array,
    *,
    limit: int,
    start: Array | None = None,
    deadline: tuple[int, Array] | None = None,
) -> Solution:
    """Solve A x = b for every column until norm(residual) ≤ `goal` in all of them.

    Parameters
    ----------
    product, precondition : functions of arrays (…, n, columns)
        V ↦ A V, whose result is overwritten, and V ↦ M V, which may return V itself.
    residual : array (…, n, columns)
        The right-hand sides, or what `start` leaves of them. Overwritten.
    norm : function
        Of the residuals, one number (…, columns) each.
    goal : array (…, columns)
    limit : int
        Most iterations.
    start : array like `residual`, or None for zeros
        Overwritten.
    deadline : (int, array like `goal`) or None
        Give up if after so many iterations a column's norm is above this.
    """
    xp = namespace(residual)
    X = xp.zeros_like(residual) if start is None else start
    if not _any(~(norm(residual) <= goal)):
        return Solution(X, residual, 0, "converged")
    direction, rz = None, None
    for count in range(1, limit + 1):
        check_stop()
        Z = precondition(residual)
        rz, before = _dots(residual, Z), rz
        if direction is None or before is None:
            direction = xp.asarray(Z, copy=True)
        else:
            direction *= _quotients(rz, before, before > 0)[..., None, :]
            direction += Z
        del Z
        image = product(direction)
        curvature = _dots(direction, image)
        moving = (rz > 0) & (curvature > 0)
        step = _quotients(rz, curvature, moving)[..., None, :]
        X += step * direction
        image *= step
        residual -= image
        del image
        size = norm(residual)
        open_ = ~(size <= goal)
        if not _any(open_):
            return Solution(X, residual, count, "converged")
        if _any(open_ & ~moving):
            return Solution(X, residual, count, "indefinite")
        if deadline is not None and count == deadline[0] and _any(size > deadline[1]):
            return Solution(X, residual, count, "late")
    return Solution(X, residual, limit, "slow")


def _dots(U: Array, V: Array) -> Array:
    """uᵀv of every column."""
    if is_numpy(U):
        return np.einsum("...ij,...ij->...j", U, V)
    return namespace(U).sum(U * V, axis=-2)


def _quotients(top: Array, bottom: Array, where: Array) -> Array:
    """Quotients where asked for, 0 elsewhere: of a finished column 0 / 0 is left."""
    xp = namespace(top)
    found = top / xp.where(where, bottom, xp.ones_like(bottom))
    return xp.where(where, found, xp.zeros_like(found))


def _any(flags: Any) -> bool:
    return bool(to_numpy(namespace(flags).any(flags)))
