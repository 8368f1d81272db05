r"""A x = b by preconditioned conjugate gradients, for many right-hand sides at once.

With M ≈ A⁻¹, both symmetric and positive definite, a column x of residual r moves along the direction p,

    x ← x + (rᵀMr / pᵀAp) p,    p ← M r + (rᵀMr / what it was before) p

to where ‖x − A⁻¹b‖_A is least among all that was within reach. Every column has a recurrence of its
own; what they share is the products. The residual that is carried along drifts from the true one by
rounding: whoever needs more digits than that computes b − A x and starts again from there (`refined`).

Both functions tell an observer after each iteration where they are, and go on from there later: a state
has all that the next iteration depends on, and the numbers are those of a run without interruption.

Systems with operators of their own go together as a stack (…, n, columns), as in batched products.
Vectors in rows are handed over as transposed views, which costs nothing: memory order is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy.sparse.linalg import LinearOperator, minres

from onefold.linalg import (
    Array,
    HostArray,
    Index,
    asarray_like,
    index_like,
    is_numpy,
    namespace,
    take_rows,
    to_numpy,
)
from onefold.machine.threads import check_stop

Map = Callable[[Any], Any]
State = Literal["converged", "slow", "late", "indefinite"]
_MINRES = 1e-14  # of ‖A‖‖x‖: its own residual, which says little of the true one relative to ‖b‖
_ROUNDING = 8 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Solution:
    """How far conjugate gradients came.

    "slow": the limit came first. "late": a column missed the deadline. "indefinite": in a column that
    had not converged, pᵀAp or rᵀMr was not a positive number.
    """

    X: Any  # (…, n, columns)
    residual: Any  # b − A X like X: the one carried along, of `refined` the true one
    iterations: int
    state: State
    relative: Any = None  # the sizes of the residuals (columns,), where `refined` has measured them


@dataclass(frozen=True)
class GradientState:
    """Conjugate gradients between two iterations; the next one overwrites the arrays."""

    X: Any  # (…, n, columns)
    residual: Any  # the one carried along
    direction: Any  # the last one, p
    rz: Any  # rᵀMr of the last iteration (…, columns)
    iterations: int


@dataclass(frozen=True)
class RefinedState:
    """Where `refined` is: what it started its last correction from, and how far that one is."""

    X: Any  # (n, columns)
    residual: Any  # the true one
    relative: HostArray  # its sizes (columns,)
    iterations: int  # of all corrections before
    level: int  # the place of the correction in the list
    correction: GradientState  # of the columns that had not converged

    @property
    def total_iterations(self) -> int:
        """With those of the last correction."""
        return self.iterations + self.correction.iterations


Observe = Callable[[GradientState], None]


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
    state: GradientState | None = None,
    observe: Observe | None = None,
) -> Solution:
    """Solve A x = b for every column until norm(residual) ≤ `goal` (…, columns) in all of them.

    `product` is V ↦ A V, whose result is overwritten, `precondition` V ↦ M V, which may return V itself.
    `residual` (…, n, columns) holds the right-hand sides, or what `start` leaves of them; both are
    overwritten. After `limit` iterations it is over, and after those of a `deadline` if a column's norm
    is above what comes with it. With a `state` it goes on from there, and `residual` and `start` are not
    looked at. `observe` is told the state after every iteration but the last.
    """
    xp = namespace(residual)
    direction: Any = None
    rz: Array | None = None
    first = 1
    if state is None:
        X = xp.zeros_like(residual) if start is None else start
        if xp.all(norm(residual) <= goal):
            return Solution(X, residual, 0, "converged")
    else:
        X, residual, direction, rz = (
            xp.asarray(array, copy=True)
            for array in (state.X, state.residual, state.direction, state.rz)
        )
        first = state.iterations + 1
    for count in range(first, limit + 1):
        check_stop()
        Z = precondition(residual)
        before = rz
        rz = _dots(residual, Z)
        if direction is None or before is None:
            direction = xp.asarray(Z, copy=True)
        else:
            direction *= quotients(rz, before, before > 0)[..., None, :]
            direction += Z
        del Z
        image = product(direction)
        curvature = _dots(direction, image)
        moving = (rz > 0) & (curvature > 0)
        step = quotients(rz, curvature, moving)[..., None, :]
        X += step * direction
        image *= step
        residual -= image
        del image
        size = norm(residual)
        open_ = ~(size <= goal)
        if not xp.any(open_):
            return Solution(X, residual, count, "converged")
        if xp.any(open_ & ~moving):
            return Solution(X, residual, count, "indefinite")
        if deadline is not None and count == deadline[0] and xp.any(size > deadline[1]):
            return Solution(X, residual, count, "late")
        if observe is not None and count < limit:
            observe(GradientState(X, residual, direction, rz, count))
    return Solution(X, residual, limit, "slow")


Correct = Callable[
    [Any, Index, HostArray, int, "GradientState | None", "Observe | None"], "Solution | None"
]
"""Residuals of some columns, their numbers, their relative sizes, most iterations, a state to go on
from, an observer of the states → what to add to X."""


def refined(
    residual: Callable[[Any, Index], Any],
    corrections: Sequence[Correct],
    X: Array,
    R: Array,
    *,
    size: Callable[[Any, Index], Any],
    enough: float | Callable[[Any], HostArray],
    limit: int,
    state: RefinedState | None = None,
    observe: Callable[[RefinedState], None] | None = None,
) -> Solution:
    r"""Add what solves A d = b − A x roughly to x, from the true residual each time, while that helps.

    `residual` computes b − A x anew from X and the numbers of its columns. The `corrections`
    come from the cheapest on: where one no longer halves any residual, is "indefinite", or returns None
    for what it cannot solve, the next takes over; after the last it is over ("slow", "indefinite"). X
    and `R` (n, columns) are where to start and the residuals there; `size` are their relative sizes,
    and a step that makes one larger is not taken for that column. A column at `enough` (a number, or
    found from X) has converged and is left alone. `limit` counts the iterations of all corrections.
    With a `state` it goes on from there, and X and `R` are not looked at; `observe` is told the
    states.
    """
    if state is None:
        relative = to_numpy(size(R, np.arange(X.shape[1])))
        spent = 0
        level = 0
    else:
        X = state.X
        R = state.residual
        relative = state.relative.copy()
        spent = state.iterations
        level = state.level
    correction = None if state is None else state.correction
    while True:
        goal = enough(X) if callable(enough) else enough
        columns = np.flatnonzero(~(relative <= goal))  # NaN too
        if not columns.size or spent >= limit or level == len(corrections):
            return Solution(X, R, spent, "slow" if columns.size else "converged", relative)
        before = relative[columns]
        at = partial(RefinedState, X, R, relative, spent, level)
        update = corrections[level](
            _columns(R, columns), columns, before, limit - spent, correction, _told(observe, at)
        )
        correction = None
        if update is None:
            level += 1
            continue
        spent += update.iterations
        tried = _columns(X, columns) + update.X
        fresh = residual(tried, columns)
        after = to_numpy(size(fresh, columns))
        better = after < before
        X, R = (_replaced(old, new, columns, better) for old, new in ((X, tried), (R, fresh)))
        relative[columns[better]] = after[better]
        last = level == len(corrections) - 1
        if update.state == "indefinite" and last:
            return Solution(X, R, spent, "indefinite", relative)
        if update.state == "indefinite" or not np.any(after <= 0.5 * before):
            level += 1


def _told(
    observe: Callable[[RefinedState], None] | None, at: Callable[[GradientState], RefinedState]
) -> Observe | None:
    """The observer of a correction on behalf of that of the whole."""
    return None if observe is None else lambda correction: observe(at(correction))


def refined_gradients(
    product: Map,
    precondition: Map,
    B: Array,
    *,
    tolerance: float,
    limit: int,
    norm: float = 0.0,
    start: Array | None = None,
    definite: bool = True,
) -> Solution:
    r"""Solve A x = b for every column b of B, A symmetric positive definite, by conjugate gradients.

    An A that is not `definite` is solved by MINRES; M must be positive definite for both.
    A column has converged when its true residual is at most `tolerance`·‖b‖, or what rounding leaves
    of it, 8 eps·‖A‖·‖x‖, `norm` being an upper bound of ‖A‖₂. `start` is overwritten.
    """
    xp = namespace(B)
    lengths = partial(xp.linalg.vector_norm, axis=0)
    scale = lengths(B)
    scale = xp.where(scale == 0, xp.ones_like(scale), scale)

    def correct(R: Array, columns: Index, relative: HostArray, most: int, *_: object) -> Solution:
        goal = tolerance * take_rows(scale, columns)
        R = xp.asarray(R, copy=True)
        if not definite:
            return minimal_residuals(product, precondition, R, limit=most)
        return conjugate_gradients(product, precondition, R, lengths, goal, limit=most)

    return refined(
        lambda X, columns: _columns(B, columns) - product(X),
        [correct],
        xp.zeros_like(B) if start is None else start,
        B if start is None else B - product(start),
        size=lambda R, columns: lengths(R) / take_rows(scale, columns),
        enough=lambda X: np.maximum(tolerance, _ROUNDING * norm * to_numpy(lengths(X) / scale)),
        limit=limit,
    )


def minimal_residuals(product: Map, precondition: Map, B: Array, *, limit: int) -> Solution:
    """Solve A x = b for each column b of B by SciPy's MINRES: A symmetric, M positive definite."""
    n = B.shape[0]
    solutions: list[HostArray] = []
    counts: list[int] = []  # iterations of each column

    def operator(function: Map) -> LinearOperator:
        def of_vector(v: HostArray) -> HostArray:
            return to_numpy(function(asarray_like(v.reshape(-1, 1), B)))[:, 0]

        return LinearOperator((n, n), matvec=of_vector, dtype=np.float64)

    def count(_: HostArray) -> None:
        check_stop()
        counts[-1] += 1

    for column in range(B.shape[1]):
        counts.append(0)
        settings = {"M": operator(precondition), "rtol": _MINRES, "maxiter": limit, "callback": count}
        solution, _ = minres(operator(product), to_numpy(B[:, column]), **settings)
        solutions.append(solution)
    X = asarray_like(np.stack(solutions, axis=1), B)
    iterations = max(counts)
    return Solution(X, B - product(X), iterations, "slow" if iterations >= limit else "converged")


def _columns(matrix: Array, columns: Index) -> Array:
    """Columns of a matrix: itself where all are meant."""
    return matrix if columns.size == matrix.shape[1] else take_rows(matrix.T, columns).T


def _replaced(old: Array, new: Array, columns: Index, better: Any) -> Array:
    """`old`, with `new` in those of the columns where it is better."""
    if columns.size == old.shape[1] and better.all():
        return new
    xp = namespace(old)
    source = np.zeros(old.shape[1], dtype=np.intp)
    source[columns] = np.arange(columns.size)
    taken = np.isin(np.arange(old.shape[1]), columns[better])
    return xp.where(index_like(taken, old)[None, :], _columns(new, source), old)


def _dots(U: Array, V: Array) -> Array:
    """uᵀv of every column."""
    if is_numpy(U):
        return np.einsum("...ij,...ij->...j", U, V)
    return namespace(U).sum(U * V, axis=-2)


def quotients(top: Array, bottom: Array, where: Array) -> Any:
    """Quotients where asked for, 0 elsewhere: of a finished column 0 / 0 is left."""
    xp = namespace(top)
    values = top / xp.where(where, bottom, xp.ones_like(bottom))
    return xp.where(where, values, xp.zeros_like(values))
