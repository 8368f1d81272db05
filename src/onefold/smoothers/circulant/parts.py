r"""Sets of rows of a circulant smoother: blocks by FFT, small ones densely, large ones iteratively.

A diagonal block of the leading levels is a circulant matrix again, see :func:`block_residuals`.

The predictions of a set J, −R_JJ⁻¹ (R y⁰)_J with zeros for y on J, need R_JJ. It is a principal
submatrix of a circulant one: its entries are read off R's first row, and a product with it is a
product with R of a vector that vanishes outside J, two Fourier transforms. Up to a bounded size
the block is formed and factorised; beyond that conjugate gradients work on products alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from onefold.linalg import (
    Array,
    cholesky,
    cholesky_solve,
    inverse_real_fft,
    is_numpy,
    like,
    namespace,
    real_fft,
    solve_lower,
    take_rows,
)
from onefold.linalg.iterate import Solution, conjugate_gradients, refined
from onefold.machine.threads import spans
from onefold.machine.warning import warn_user
from onefold.smoothers.circulant.spectrum import CirculantFilter

_DENSE = 1024  # cells: a block of 8 MiB
_CHUNK = 8192
_TOLERANCE = 1e-10
_MAX_ITERATIONS = 1000
_SCATTERED = 0.25  # runs per row, above which a set counts as scattered


def leading_block(shape: tuple[int, ...], cells: Any) -> int | None:
    """Length of a set of cells if it is a diagonal block of the leading levels, else None."""
    length, first = int(cells.size), int(cells.min())
    if length not in [math.prod(shape[s:]) for s in range(1, len(shape) + 1)]:
        return None
    whole = first % length == 0 and np.array_equal(np.sort(cells), np.arange(first, first + length))
    return length if whole else None


def block_residuals(spectrum: Array, filtered: CirculantFilter, length: int) -> Array:
    """e_J = (R_b)_JJ⁻¹ (R_b y)_J for all leading blocks J of `length` cells at once."""
    shape = filtered.shape
    residuals = filtered.back(spectrum)
    s = next(s for s in range(1, len(shape) + 1) if math.prod(shape[s:]) == length)
    block = filtered.mean_over(s)
    if s == len(shape):
        return residuals / block
    trailing = real_fft(residuals, len(shape) - s)
    trailing /= block
    return inverse_real_fft(trailing, shape[s:])


class PartSolver:
    """Predictions of sets of cells left out of training, for one μ.

    `record` counts the sets solved densely, and keeps the largest number of iterations and the
    largest relative residual of those solved iteratively.
    """

    def __init__(self, filtered: CirculantFilter, record: dict[str, Any]) -> None:
        self._filter = filtered
        self._record = record

    def predict(self, grid: Array, cells: Any) -> Array:
        """−R_JJ⁻¹ (R y⁰)_J of shape (|J|, t), whatever stands in y_J."""
        blanked = self._with(grid, cells, None)
        rhs = self._pick(self._filter.apply(blanked), cells)
        if cells.size <= _DENSE:
            self._record["dense_blocks"] = self._record.get("dense_blocks", 0) + 1
            factor = cholesky(self._filter.block(cells, cells), overwrite=True)
            return -cholesky_solve(factor, rhs)
        return -self._iterate(rhs, cells, grid)

    def complete(self, grid: Array, cells: Any) -> Array:
        """The grid with predictions in the given cells."""
        return self._with(grid, cells, self.predict(grid, cells))

    def _with(self, grid: Array, cells: Any, values: Array | None) -> Array:
        """A copy of the grid with `values` (|J|, t), or zeros, in the given cells."""
        xp = namespace(grid)
        if is_numpy(grid):
            flat = grid.reshape(grid.shape[0], -1).copy()
            flat[:, cells] = 0.0 if values is None else values.T
            return flat.reshape(grid.shape)
        flat = xp.reshape(grid, (grid.shape[0], -1))
        keep = np.ones(flat.shape[1])
        keep[cells] = 0.0
        flat = flat * like(keep, grid)[None, :]
        if values is not None:
            where = np.zeros(flat.shape[1], dtype=np.intp)
            where[cells] = np.arange(cells.size)
            flat = flat + take_rows(values, where).T * like(1.0 - keep, grid)[None, :]
        return xp.reshape(flat, grid.shape)

    def _pick(self, grid: Array, cells: Any) -> Array:
        xp = namespace(grid)
        return take_rows(xp.permute_dims(xp.reshape(grid, (grid.shape[0], -1)), (1, 0)), cells)

    def _iterate(self, rhs: Array, cells: Any, grid: Array) -> Array:
        """Conjugate gradients on R_JJ x = rhs, all targets at once.

        Where J is made of long runs its rows see mostly each other, and (U + μI)_JJ/μ is close to
        the inverse of R_JJ; where J is scattered R_JJ is well conditioned by itself.
        """
        xp = namespace(rhs)
        blank = grid * 0.0
        runs = 1 + np.count_nonzero(np.diff(np.sort(cells)) != 1)
        inverse = self._filter.inverse() if runs <= _SCATTERED * cells.size else None

        def product(filtered: CirculantFilter, x: Array) -> Array:
            return self._pick(filtered.apply(self._with(blank, cells, x)), cells)

        def precondition(r: Array) -> Array:
            return r if inverse is None else product(inverse, r)

        scale = _column_norms(rhs)
        scale = xp.where(scale > 0, scale, xp.ones_like(scale))

        def correct(left: Array, some: Any, relative: Any, limit: int) -> Solution:
            goal = 0.5 * _TOLERANCE * take_rows(scale, some)
            start = xp.asarray(left, copy=True)
            return conjugate_gradients(
                lambda v: product(self._filter, v), precondition, start, _column_norms, goal, limit=limit
            )

        found = refined(
            lambda x, some: take_rows(rhs.T, some).T - product(self._filter, x),
            [correct],
            xp.zeros_like(rhs),
            rhs,
            size=lambda left, some: _column_norms(left) / take_rows(scale, some),
            enough=_TOLERANCE,
            limit=_MAX_ITERATIONS,
        )
        self._note(found.iterations, float(found.residual.max()))
        return found.X

    def _note(self, iterations: int, residual: float) -> None:
        record = self._record
        record["iterative_solves"] = record.get("iterative_solves", 0) + 1
        record["most_iterations"] = max(record.get("most_iterations", 0), iterations)
        record["largest_residual"] = max(record.get("largest_residual", 0.0), residual)
        if residual > _TOLERANCE:
            warn_user(
                f"a fold's system stopped at a relative residual of {residual:.1e} after "
                f"{iterations} iterations; its held-out predictions have that error. Use folds "
                "that are blocks of the leading levels, or a larger alpha.",
                ConvergenceWarning,
            )


def pad_factor(filtered: CirculantFilter, pads: Any) -> Array:
    """The Cholesky factor of R_PP for the cells P without data."""
    return cholesky(filtered.block(pads, pads), overwrite=True)


def padded_diagonal(filtered: CirculantFilter, pads: Any, n: int) -> Array:
    """diag(R_OO − R_OP R_PP⁻¹ R_PO) over the first n cells, O(n |P|²)."""
    xp = namespace(filtered.values)
    factor = pad_factor(filtered, pads)
    pieces = []
    for part in spans(n, _CHUNK):
        columns = filtered.block(pads, np.arange(part.start, part.stop))
        pieces.append(filtered.mean() - xp.sum(solve_lower(factor, columns) ** 2, axis=0))
    return xp.concat(pieces)


def _column_norms(x: Array) -> Array:
    xp = namespace(x)
    return xp.sqrt(xp.sum(x * x, axis=0))
