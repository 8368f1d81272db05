r"""Arbitrary sets of rows of a circulant smoother: small ones densely, large ones iteratively.

The predictions of a set J, −R_JJ⁻¹ (R y⁰)_J with zeros for y on J, need R_JJ. It is a principal
submatrix of a circulant one: its entries are read off R's first row, and a product with it is a
product with R of a vector that vanishes outside J, two Fourier transforms. Up to a bounded size
the block is formed and factorised; beyond that conjugate gradients work on products alone.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
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
    to_numpy,
)
from onefold.machine.spans import spans
from onefold.machine.threads import check_stop

_DENSE = 1024  # cells: a block of 8 MiB
_CHUNK = 8192
_TOLERANCE = 1e-10
_MAX_ITERATIONS = 1000
_SCATTERED = 0.25  # runs per row, above which a set counts as scattered


@dataclass(frozen=True)
class CirculantFilter:
    """R_b(μ) in frequencies.

    Attributes
    ----------
    values : array
        Half spectrum of R_b.
    shape : tuple of int
    constant : float
        The constant's component before an intercept set it to 0.
    """

    values: Array
    shape: tuple[int, ...]
    constant: float

    def back(self, spectrum: Array, scale: float | None = None) -> Array:
        """R_b, times `scale`, of what has this spectrum."""
        values = self.values if scale is None else self.values * scale
        return inverse_real_fft(spectrum * values, self.shape)

    def apply(self, grid: Array) -> Array:
        """R_b of targets (t, n_0, …, n_{p−1})."""
        return self.back(real_fft(grid, len(self.shape)))

    def mean(self) -> float:
        """The diagonal of R_b, one number."""
        return float(self.mean_over(len(self.shape)))

    def mean_over(self, levels: int) -> Array:
        """The filter of the diagonal blocks that are left when the leading levels are fixed."""
        xp = namespace(self.values)
        if levels < len(self.shape):
            return xp.mean(self.values, axis=tuple(range(levels)))
        return half_mean(self.values[None, ...], self.shape)[0]

    @cached_property
    def first_row(self) -> Array:
        """R_b's first row, flat."""
        xp = namespace(self.values)
        row = inverse_real_fft(xp.astype(self.values, xp.complex128), self.shape)
        return xp.reshape(row, (-1,))

    def block(self, rows: Any, columns: Any) -> Array:
        """The entries of R_b between two sets of cells."""
        index = np.zeros((rows.size, columns.size), dtype=np.intp)
        for size, left, right in zip(
            self.shape, np.unravel_index(rows, self.shape), np.unravel_index(columns, self.shape)
        ):
            index *= size
            index += (right[None, :] - left[:, None]) % size
        xp = namespace(self.first_row)
        return xp.reshape(take_rows(self.first_row, index.reshape(-1)), index.shape)

    def inverse(self) -> CirculantFilter:
        """(U + μI)/μ, which undoes R; also where an intercept has none."""
        values = namespace(self.values).asarray(self.values, copy=True)
        values[(0,) * len(self.shape)] = self.constant
        return CirculantFilter(1.0 / values, self.shape, 1.0 / self.constant)


def half_mean(half: Array, shape: tuple[int, ...]) -> Array:
    """The mean over a whole spectrum, for each of several halves along the first axis."""
    xp = namespace(half)
    columns = xp.sum(half, axis=tuple(range(1, half.ndim - 1))) if half.ndim > 2 else half
    weights = np.full(half.shape[-1], 2.0)  # a frequency and its mirror image
    weights[0] = 1.0
    if shape[-1] % 2 == 0:
        weights[-1] = 1.0
    return columns @ like(weights / math.prod(shape), half)


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

        x, residual = xp.zeros_like(rhs), rhs
        size = _column_norms(rhs)
        target = _TOLERANCE * np.where(size > 0, size, 1.0)
        iterations = 0
        while iterations < _MAX_ITERATIONS and np.any(_column_norms(residual) > target):
            z = precondition(residual)
            direction, rho = z, xp.sum(residual * z, axis=0)
            while iterations < _MAX_ITERATIONS and np.any(_column_norms(residual) > 0.5 * target):
                check_stop()
                image = product(self._filter, direction)
                step = _ratio(rho, xp.sum(direction * image, axis=0))
                x = x + step[None, :] * direction
                residual = residual - step[None, :] * image
                z = precondition(residual)
                rho, old = xp.sum(residual * z, axis=0), rho
                direction = z + _ratio(rho, old)[None, :] * direction
                iterations += 1
            residual = rhs - product(self._filter, x)  # the true one: the recurrence drifts
        worst = float(np.max(_column_norms(residual) / np.where(size > 0, size, 1.0)))
        self._note(iterations, worst)
        return x

    def _note(self, iterations: int, residual: float) -> None:
        record = self._record
        record["iterative_solves"] = record.get("iterative_solves", 0) + 1
        record["most_iterations"] = max(record.get("most_iterations", 0), iterations)
        record["largest_residual"] = max(record.get("largest_residual", 0.0), residual)
        if residual > _TOLERANCE:
            warnings.warn(
                f"a fold's system stopped at a relative residual of {residual:.1e} after "
                f"{iterations} iterations; its held-out predictions have that error. Use folds "
                "that are blocks of the leading levels, or a larger alpha.",
                ConvergenceWarning,
                stacklevel=2,
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


def _column_norms(x: Array) -> Any:
    return np.sqrt(to_numpy(namespace(x).sum(x * x, axis=0)))


def _ratio(top: Array, bottom: Array) -> Array:
    """Quotients, 0 where a finished column leaves 0 / 0."""
    xp = namespace(top)
    safe = xp.where(bottom == 0, xp.ones_like(bottom), bottom)
    return xp.where(bottom == 0, xp.zeros_like(top), top / safe)
