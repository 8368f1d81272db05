r"""R(μ) of a multilevel circulant matrix: a filter between two real Fourier transforms.

The eigenvalues λ of U = circ_n[u] are the transform of u over its p axes, so

    (1)  R y = F⁻¹ [μ/(λ+μ)] F y,    R_ii = mean of the filter,    O(n log n) time, O(n) memory

The vector of ones is an eigenvector: with an intercept R_b is R with the filter's constant component set
to 0, and

    (2)  α = R_b y / μ,    b = mean of y

*Rows held out*. The diagonal blocks of the leading levels are circulant matrices again, and their
eigenvalues are the filter averaged over the leading frequencies: folds that are such blocks are solved
by Fourier transforms too, all of them in O(n log n) [edwards2013]_,

    (3)  y_J − f_J = (R_b)_JJ⁻¹ (R_b y)_J

The predictions of any other set J need R_JJ, for targets y⁰ with zeros on J:

    (4)  f_J = −R_JJ⁻¹ (R y⁰)_J

R_JJ is a principal submatrix of a circulant one: its entries are read off R's first row, and a product
with it is a product with R of a vector that vanishes outside J, two Fourier transforms. Up to a bounded
size the block is formed and factorised; beyond that conjugate gradients work on products alone.

*Indefinite systems*. U need not be positive semi-definite, and U + μI not positive definite. All of the
above holds as long as no λ + μ is 0, R_JJ being indefinite too: blocks are then solved by LU factors, or
by MINRES with the preconditioner

    (5)  |U + μI|_JJ / μ

whose eigenvalues are |λ + μ|/μ before the restriction to J. What leaves a large residual is refused.

*Empty cells*. A matrix may have more cells than there are rows. The extra cells P are rows left out of
training; with y_P set to their predictions by (4), the residuals R y on the real rows O are those of the
model trained on them alone, and

    (6)  its diagonal is that of R_OO − R_OP R_PP⁻¹ R_PO
    (7)  det G_OO = det G · det (G⁻¹)_PP,    G = U + μI, with the border or without it
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from onefold import linalg
from onefold.linalg import (
    Array,
    HostArray,
    Index,
    as_vector,
    asarray_like,
    host_array,
    namespace,
    take_rows,
    zeros,
)
from onefold.linalg.dense import cholesky, cholesky_solve, indefinite_solver, inverse_real_fft, real_fft
from onefold.linalg.iterate import refined_gradients
from onefold.machine.threads import cached_property, check_stop, spans
from onefold.machine.warning import warn_user
from onefold.smoothers.base import Flags, Smoother, UnsolvableError

# Numbers that several μ may take together: they stay in a core's cache.
_IN_CACHE = 2**16
# Cells of a block that is formed and factorised: 8 MiB.
_DENSE = 1024
# Cells whose columns of R_PO are formed at a time in (6).
_COLUMNS_AT_ONCE = 8192
# Relative residual at which a block's conjugate gradients have converged.
_TOLERANCE = 1e-10
# Their iterations.
_MAX_ITERATIONS = 1000
# The largest relative residual of MINRES: its error may be far larger.
_LOOSE_RESIDUAL = 1e-6
# Runs per row, above which a set counts as scattered.
_SCATTERED = 0.25
# Share of the largest number below which an eigenvalue counts as 0.
_ROUNDING = 8 * float(np.finfo(np.float64).eps)

Negative = Literal["raise", "clip", "solve"]


@dataclass(frozen=True)
class CirculantSpectrum:
    """The eigenvalues of a multilevel circulant matrix, as a half spectrum."""

    eigenvalues: Array  # (n_0, …, n_{p−2}, n_{p−1} // 2 + 1)
    shape: tuple[int, ...]  # the level order
    negative: int  # how many of the matrix's eigenvalues are negative
    smallest: float
    policy: Negative  # what is done about negative ones

    @classmethod
    def of(cls, first_row: Array, negative: Negative) -> CirculantSpectrum:
        """From the first row, an even function along each axis."""
        shape = tuple(int(size) for size in first_row.shape)
        spectrum = real_fft(first_row, len(shape))
        xp = namespace(spectrum)
        values = xp.asarray(xp.real(spectrum), copy=True)  # a view would keep the imaginary half
        smallest = float(xp.min(values))
        below = 0 if smallest >= 0 else _weighted_sum(xp.astype(values < 0, values.dtype), shape)
        if negative == "clip":
            values = xp.where(values > 0, values, xp.zeros_like(values))
        return cls(values, shape, round(below), smallest, negative)

    def positive_with(self, alphas: ArrayLike) -> Flags:
        """Whether U + μI is positive definite, for each μ."""
        return np.array([self.count_nonpositive(alpha) == 0 for alpha in as_vector(alphas).tolist()])

    def count_nonpositive(self, alpha: float) -> int:
        """The number of eigenvalues of U + μI that are not positive."""
        if self.policy == "clip" or self.smallest + alpha > 0:
            return 0
        xp = namespace(self.eigenvalues)
        below = xp.astype(self.eigenvalues + alpha <= 0, self.eigenvalues.dtype)
        return round(_weighted_sum(below, self.shape))

    def filter(self, alpha: float, *, fit_intercept: bool) -> CirculantFilter:
        """The filter of (1); raises if U + μI cannot be solved with, or should not be."""
        check_stop()
        count = self.count_nonpositive(alpha)
        if count and self.policy == "raise":
            raise UnsolvableError(
                f"the circulant matrix plus alpha={alpha:.3g} on its diagonal has {count} eigenvalues "
                f"that are not positive (the smallest of the matrix is {self.smallest:.3g}); use an "
                f"alpha above {-self.smallest:.3g}, a larger gamma or spacing, or Circulant with "
                'negative="clip", which sets negative eigenvalues to 0, or negative="solve", which '
                "solves the indefinite system."
            )
        shifted = self.eigenvalues + alpha
        error = 0.0
        if count:
            xp = namespace(shifted)
            smallest = float(xp.min(xp.abs(shifted)))
            rounding = _ROUNDING * max(alpha, float(xp.max(xp.abs(self.eigenvalues))))
            if smallest <= rounding:
                raise UnsolvableError(
                    f"the circulant matrix plus alpha={alpha:.3g} on its diagonal is numerically "
                    "singular: one of its eigenvalues is 0 to rounding; use another alpha, gamma or "
                    "spacing."
                )
            error = alpha * rounding / smallest**2
        values = alpha / shifted
        if fit_intercept:
            values[(0,) * len(self.shape)] = 0.0
        return CirculantFilter(values, self.shape, alpha, count == 0, error)


@dataclass(frozen=True)
class CirculantFilter:
    """R_b(μ) in frequencies."""

    values: Array  # half spectrum of R_b
    shape: tuple[int, ...]
    alpha: float
    definite: bool = True  # whether U + μI is positive definite
    error: float = 0.0  # of the values, by rounding, where it is not

    def apply_to_spectrum(self, spectrum: Array) -> Array:
        """(1) for targets of this spectrum."""
        return inverse_real_fft(spectrum * self.values, self.shape)

    def apply(self, grid: Array) -> Array:
        """(1) for targets (t, n_0, …, n_{p−1})."""
        return self.apply_to_spectrum(real_fft(grid, len(self.shape)))

    def diagonal(self, pads: Index, n: int) -> Array:
        """The diagonal of R_b over the first n cells (n,), or its one number (1,) without empty cells.

        (1), and with empty cells (6), O(n |P|²).
        """
        mean = _half_mean(self.values[None, ...], self.shape)
        if not pads.size:
            return mean
        xp = namespace(self.values)
        solve = self.solver(pads)
        pieces = []
        for part in spans(n, _COLUMNS_AT_ONCE):
            columns = self.block(pads, np.arange(part.start, part.stop))
            pieces.append(mean - xp.sum(columns * solve(columns), axis=0))
        return xp.concat(pieces)

    def require_nonzero(self, averages: Array) -> None:
        """Raise if the diagonal of R_b, or an eigenvalue of one of its diagonal blocks, may be 0."""
        xp = namespace(averages)
        if not self.definite and float(xp.min(xp.abs(averages))) <= self.error:
            raise self._singular()

    def _singular(self) -> UnsolvableError:
        """The error of a set of rows whose block of R_b is singular."""
        return UnsolvableError(
            f"the circulant matrix plus alpha={self.alpha:.3g} is numerically singular for some of the "
            "rows; use a larger alpha, gamma or spacing."
        )

    @cached_property
    def first_row(self) -> Array:
        """R_b's first row, flat."""
        return _first_row(self.values, self.shape)

    def block(self, rows: Index, columns: Index) -> Array:
        """The entries of R_b between two sets of cells."""
        return _entries(self.first_row, self.shape, rows, columns)

    def leading_residuals(self, spectrum: Array, length: int) -> Array:
        """(3) for all leading blocks J of `length` cells at once."""
        shape = self.shape
        residuals = self.apply_to_spectrum(spectrum)
        s = next(s for s in range(1, len(shape) + 1) if math.prod(shape[s:]) == length)
        if s == len(shape):
            averages = _half_mean(self.values[None, ...], shape)
            self.require_nonzero(averages)
            return residuals / averages
        trailing = real_fft(residuals, len(shape) - s)
        averages = namespace(self.values).mean(self.values, axis=tuple(range(s)))
        self.require_nonzero(averages)
        trailing /= averages
        return inverse_real_fft(trailing, shape[s:])

    def solver(self, cells: Index) -> Callable[[Array], Array]:
        """The function b ↦ R_JJ⁻¹ b for the cells J."""
        block = self.block(cells, cells)
        try:
            if not self.definite:
                return indefinite_solver(block)
            return partial(cholesky_solve, cholesky(block, overwrite=True))
        except np.linalg.LinAlgError as error:
            raise self._singular() from error


class _Batch(NamedTuple):
    """Some of the μ, and what they make of the targets."""

    part: slice  # which μ
    residuals: Array  # R_b Y (μ, n, t)
    filters: list[CirculantFilter]
    grid: Array  # the targets (t, n_0, …, n_{p−1}), completed in empty cells


class CirculantSmoother(Smoother):
    """R_b(μ) of a circulant matrix whose first n cells hold the rows; the others hold no data."""

    def __init__(self, spectrum: CirculantSpectrum, n: int, *, fit_intercept: bool) -> None:
        unit = asarray_like([1.0], spectrum.eigenvalues)
        super().__init__(n, namespace(unit).broadcast_to(unit, (n,)) if fit_intercept else None)
        self.spectrum = spectrum
        self._cells = math.prod(spectrum.shape)
        self._pads = np.arange(n, self._cells)
        # How the sets of rows held out so far were solved: how many by circulant blocks, densely and
        # iteratively, the largest number of iterations and the largest relative residual.
        self.solves: dict[str, Any] = {}

    def _grid(self, Y: Array) -> Array:
        """Targets (n, t) as (t, n_0, …, n_{p−1}), zeros in cells without data."""
        xp = namespace(Y)
        t = Y.shape[1]
        columns = xp.permute_dims(Y, (1, 0))
        if self._pads.size:
            columns = xp.concat([columns, zeros((t, self._pads.size), Y)], axis=1)
        return xp.reshape(columns, (t, *self.spectrum.shape))

    def _rows(self, grid: Array) -> Array:
        """(t, cells) back to (n, t), or (μ, t, cells) to (μ, n, t)."""
        xp = namespace(grid)
        levels = len(self.spectrum.shape)
        columns = xp.reshape(grid, (*grid.shape[:-levels], self._cells))[..., : self.n]
        return xp.matrix_transpose(columns)

    def _filter(self, alpha: float) -> CirculantFilter:
        return self.spectrum.filter(alpha, fit_intercept=self.border is not None)

    def _batches(self, Y: Array, values: list[float]) -> Iterator[_Batch]:
        """R_b Y for some μ at a time, as cache allows."""
        xp = namespace(Y)
        grid = self._grid(Y)
        if self._pads.size:
            for part in spans(len(values), 1):
                filtered = self._filter(values[part.start])
                predicted = self._predicted(filtered, grid, self._pads)
                completed = _with(grid, self._pads, predicted)
                residuals = self._rows(filtered.apply(completed))[None, ...]
                yield _Batch(part, residuals, [filtered], completed)
            return
        spectrum = real_fft(grid, len(self.spectrum.shape))
        for part in spans(len(values), max(1, _IN_CACHE // (self._cells * Y.shape[1]))):
            filters = [self._filter(alpha) for alpha in values[part]]
            if len(filters) == 1:
                stacked = filters[0].values[None, ...]
            else:
                stacked = xp.stack([filtered.values for filtered in filters])
            product = spectrum[None, ...] * stacked[:, None, ...]
            residuals = self._rows(inverse_real_fft(product, self.spectrum.shape))
            yield _Batch(part, residuals, filters, grid)

    def residuals(self, Y: Array, alphas: ArrayLike) -> Array:
        """(1)."""
        values = as_vector(alphas).tolist()
        out = zeros((len(values), *Y.shape), Y)
        for batch in self._batches(Y, values):
            out[batch.part, ...] = batch.residuals
        return out

    def coefficients(self, Y: Array, alphas: ArrayLike) -> tuple[Array, Array]:
        """(2): dual coefficients (μ, n, t) and intercepts (μ, t), zero without a border.

        1ᵀα = 0 and U1 ∝ 1 leave the intercept only the mean of the targets, completed in empty cells.
        """
        xp = namespace(Y)
        values = as_vector(alphas).tolist()
        dual = zeros((len(values), *Y.shape), Y)
        intercepts = dual[:, 0, :] * 0.0
        for batch in self._batches(Y, values):
            part = batch.part
            dual[part, ...] = batch.residuals / asarray_like(values[part], Y)[:, None, None]
            if self.border is not None:
                means = xp.mean(xp.reshape(batch.grid, (-1, self._cells)), axis=1)
                intercepts[part, :] = means[None, :]
        return dual, intercepts

    def leave_one_out(self, Y: Array, alphas: ArrayLike) -> Array:
        """(3) for single rows."""
        values = as_vector(alphas).tolist()
        out = zeros((len(values), *Y.shape), Y)
        for batch in self._batches(Y, values):
            predictions = batch.residuals
            for k, filtered in enumerate(batch.filters):
                diagonal = filtered.diagonal(self._pads, self.n)
                filtered.require_nonzero(diagonal)
                predictions[k, ...] /= -diagonal[:, None]
            predictions += Y[None, ...]
            if predictions.shape[0] == len(values):  # no copy of all of them at once
                return predictions
            out[batch.part, ...] = predictions
        return out

    def heldout(self, Y: Array, parts: Sequence[Index], alphas: ArrayLike) -> list[Array]:
        """(3) for blocks of the leading levels, (4) for other sets."""
        xp = namespace(Y)
        grid = self._grid(Y)
        cells = [np.asarray(rows) for rows in parts]
        blocks = [None if self._pads.size else self._leading_block(part) for part in cells]
        pieces: list[list[Array]] = [[] for _ in parts]
        spectrum = real_fft(grid, len(self.spectrum.shape))
        for alpha in as_vector(alphas).tolist():
            filtered = self._filter(alpha)
            by_length: dict[int, Array] = {}
            for k, (part, length) in enumerate(zip(cells, blocks)):
                if length is None:
                    cells_left_out = np.concatenate([part, self._pads])
                    predicted = self._predicted(filtered, grid, cells_left_out)
                    pieces[k].append(predicted[: part.size, :])
                    continue
                if length not in by_length:
                    by_length[length] = self._rows(filtered.leading_residuals(spectrum, length))
                pieces[k].append(take_rows(Y, part) - take_rows(by_length[length], part))
        direct = sum(length is not None for length in blocks)
        self.solves["circulant_blocks"] = self.solves.get("circulant_blocks", 0) + direct
        return [xp.stack(piece) for piece in pieces]

    def _leading_block(self, cells: Index) -> int | None:
        """Length of a set of cells if it is a diagonal block of the leading levels, else None."""
        shape = self.spectrum.shape
        length = int(cells.size)
        first = int(cells.min())
        if length not in [math.prod(shape[s:]) for s in range(1, len(shape) + 1)]:
            return None
        run = np.arange(first, first + length)
        return length if first % length == 0 and np.array_equal(np.sort(cells), run) else None

    def _predicted(self, filtered: CirculantFilter, grid: Array, cells: Index) -> Array:
        """(4) of shape (|J|, t) for the cells J, whatever stands in y_J."""
        rhs = _pick(filtered.apply(_with(grid, cells, None)), cells)
        if cells.size <= _DENSE:
            self.solves["dense_blocks"] = self.solves.get("dense_blocks", 0) + 1
            return -filtered.solver(cells)(rhs)
        return -self._iterate(filtered, rhs, cells)

    def _iterate(self, filtered: CirculantFilter, rhs: Array, cells: Index) -> Array:
        """Conjugate gradients or, on an indefinite matrix, MINRES on R_JJ x = rhs, all targets at once.

        Where J is made of long runs its rows depend mostly on each other, and (5) is close to the
        inverse of R_JJ; where J is scattered R_JJ is well conditioned by itself.
        """
        runs = 1 + np.count_nonzero(np.diff(np.sort(cells)) != 1)
        inverse = None
        if runs <= _SCATTERED * cells.size:
            values = self.spectrum.eigenvalues / filtered.alpha + 1.0
            inverse = replace(filtered, values=namespace(values).abs(values))

        def product(by: CirculantFilter, x: Array) -> Array:
            blank = zeros((x.shape[1], *by.shape), x)  # of the targets that are not yet solved
            return _pick(by.apply(_with(blank, cells, x)), cells)

        solution = refined_gradients(
            lambda x: product(filtered, x),
            lambda r: r if inverse is None else product(inverse, r),
            rhs,
            tolerance=_TOLERANCE,
            limit=_MAX_ITERATIONS,
            definite=filtered.definite,
        )
        worst = float(solution.relative.max())
        solves = self.solves
        solves["iterative_solves"] = solves.get("iterative_solves", 0) + 1
        solves["most_iterations"] = max(solves.get("most_iterations", 0), solution.iterations)
        solves["largest_residual"] = max(solves.get("largest_residual", 0.0), worst)
        if not (filtered.definite or worst <= _LOOSE_RESIDUAL):
            raise UnsolvableError(
                f"the indefinite system of {cells.size} held-out rows stopped at a relative residual of "
                f"{worst:.1e}; use folds that are blocks of the leading levels, folds of at most "
                f'{_DENSE} rows, or negative="clip".'
            )
        if worst > _TOLERANCE:
            warn_user(
                f"a fold's system stopped at a relative residual of {worst:.1e} after "
                f"{solution.iterations} iterations; its held-out predictions are inaccurate. Use folds "
                "that are blocks of the leading levels, or a larger alpha.",
                ConvergenceWarning,
            )
        return solution.X

    def trace(self, alphas: ArrayLike) -> HostArray:
        filters = [self._filter(alpha) for alpha in as_vector(alphas).tolist()]
        means = [host_array(f.diagonal(self._pads, self.n)).mean() for f in filters]
        return self.n * np.array(means)

    def definite(self, alphas: ArrayLike) -> Flags:
        return np.array([self._is_definite(alpha) for alpha in as_vector(alphas).tolist()])

    def _is_definite(self, alpha: float) -> bool:
        """Whether (U + μI)_OO is positive definite, O the cells with rows.

        It has as many negative eigenvalues as U + μI, less those of R_PP: those of R split into the ones
        of R_PP and those of its complement in R, which is μ times the inverse of (U + μI)_OO.
        """
        negative = self.spectrum.count_nonpositive(alpha)
        if negative == 0 or not self._pads.size:
            return negative == 0
        block = self.spectrum.filter(alpha, fit_intercept=False).block(self._pads, self._pads)
        return negative == np.count_nonzero(np.linalg.eigvalsh(host_array(block)) < 0)

    def squared_radii(self, alphas: ArrayLike) -> HostArray | None:
        """R̃² = u_0 + μ − (λ_0 + μ)/n of the smallest ball around the rows in the space of U + μI.

        A shift of the cells leaves U as it is, and the ball is unique: all rows have the same weight in
        its centre. NaN where U + μI is not positive definite, None where some cells have no row.
        """
        if self._pads.size:
            return None
        shape = self.spectrum.shape
        mu = as_vector(alphas)
        diagonal = float(_half_mean(self.spectrum.eigenvalues[None, ...], shape)[0])
        constant = float(self.spectrum.eigenvalues[(0,) * len(shape)])
        radii = diagonal + mu - (constant + mu) / self.n
        return np.where(self.spectrum.positive_with(mu), radii, np.nan)

    def matrix(self, cells: Index) -> Array:
        """The entries of U between some of the cells."""
        shape = self.spectrum.shape
        return _entries(_first_row(self.spectrum.eigenvalues, shape), shape, cells, cells)

    def logdet(self, alphas: ArrayLike) -> HostArray:
        """The sum of log |λ + μ|, and with empty cells (7)."""
        values = self.spectrum.eigenvalues
        shape = self.spectrum.shape
        logdets = []
        xp = namespace(values)
        for alpha in as_vector(alphas).tolist():
            filtered = self._filter(alpha)
            if not self._is_definite(alpha):
                logdets.append(np.nan)
                continue
            value = _weighted_sum(xp.log(xp.abs(values + alpha)), shape)
            if self.border is not None:  # on the complement of 1: without the constant's eigenvalue
                value -= math.log(abs(float(values[(0,) * len(shape)]) + alpha))
            if self._pads.size:
                # (7); the border's length goes from N to n.
                _, logdet_of_pads = np.linalg.slogdet(host_array(filtered.block(self._pads, self._pads)))
                value += float(logdet_of_pads) - self._pads.size * math.log(alpha)
                value += 0.0 if self.border is None else math.log(self._cells / self.n)
            logdets.append(value)
        return np.array(logdets)


def _with(grid: Array, cells: Index, values: Array | None) -> Array:
    """A copy of the grid with `values` (|J|, t), or zeros, in the given cells."""
    xp = namespace(grid)
    flat = xp.reshape(grid, (grid.shape[0], -1))
    return xp.reshape(linalg.with_columns(flat, cells, None if values is None else values.T), grid.shape)


def _pick(grid: Array, cells: Index) -> Array:
    """The given cells of (t, n_0, …, n_{p−1}), shape (|J|, t)."""
    xp = namespace(grid)
    return take_rows(xp.permute_dims(xp.reshape(grid, (grid.shape[0], -1)), (1, 0)), cells)


def _first_row(half: Array, shape: tuple[int, ...]) -> Array:
    """The first row, flat, of the circulant matrix whose eigenvalues have this half spectrum."""
    xp = namespace(half)
    return xp.reshape(inverse_real_fft(xp.astype(half, xp.complex128), shape), (-1,))


def _entries(first_row: Array, shape: tuple[int, ...], rows: Index, columns: Index) -> Array:
    """The entries of a circulant matrix between two sets of cells."""
    index = np.zeros((rows.size, columns.size), dtype=np.intp)
    row_places = np.unravel_index(rows, shape)
    column_places = np.unravel_index(columns, shape)
    for size, row, column in zip(shape, row_places, column_places):
        index *= size
        index += (column[None, :] - row[:, None]) % size
    return take_rows(first_row, index)


def _half_mean(half: Array, shape: tuple[int, ...]) -> Array:
    """The mean over a whole spectrum, for each of several halves along the first axis."""
    xp = namespace(half)
    columns = xp.sum(half, axis=tuple(range(1, half.ndim - 1))) if half.ndim > 2 else half
    weights = np.full(half.shape[-1], 2.0)  # a frequency and its mirror image
    weights[[0, -1] if shape[-1] % 2 == 0 else 0] = 1.0
    return columns @ asarray_like(weights / math.prod(shape), half)


def _weighted_sum(half: Array, shape: tuple[int, ...]) -> float:
    """The sum over a whole spectrum of which `half` is the half that a real transform keeps."""
    return float(_half_mean(half[None, ...], shape)[0]) * math.prod(shape)
