r"""R(μ) of a multilevel circulant matrix: a filter between two real Fourier transforms.

The eigenvalues λ of U = circ_n[u] are the transform of u over its p axes, so

    R y = F⁻¹ [μ/(λ+μ)] F y,    R_ii = mean of the filter,    O(n log n) time, O(n) memory.

The vector of ones is an eigenvector: with an intercept R_b is R with the filter's constant
component set to 0. The diagonal blocks of the leading levels are circulant matrices again, and
their eigenvalues are the filter averaged over the leading frequencies: folds that are such blocks
are solved by Fourier transforms too, all of them in O(n log n) [edwards2013]_. Other sets of rows
go through :mod:`onefold.smoothers.circulant.parts`.

A matrix may have more cells than there are rows. The extra cells P are rows left out of training;
with y_P set to their predictions −R_PP⁻¹ (R y⁰)_P, the residuals R y on the real rows are those of
the model trained on them alone, and its diagonal is that of R_OO − R_OP R_PP⁻¹ R_PO.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from onefold.linalg import (
    Array,
    inverse_real_fft,
    is_foreign,
    is_numpy,
    like,
    like_index,
    namespace,
    real_fft,
    take_rows,
    to_numpy,
)
from onefold.machine.spans import spans
from onefold.machine.threads import check_stop
from onefold.smoothers.base import Smoother
from onefold.smoothers.circulant.parts import (
    CirculantFilter,
    PartSolver,
    half_mean,
    pad_factor,
    padded_diagonal,
)

Negative = Literal["raise", "clip"]

_IN_CACHE = 2**16  # numbers that several μ may take together


@dataclass(frozen=True)
class CirculantSpectrum:
    """The eigenvalues of a multilevel circulant matrix, as a half spectrum.

    Attributes
    ----------
    eigenvalues : array (n_0, …, n_{p−2}, n_{p−1} // 2 + 1)
    shape : tuple of int
        The level order.
    negative : int
        How many of the matrix's eigenvalues are negative.
    smallest : float
        The smallest eigenvalue.
    clipped : bool
        Whether the negative ones were set to 0.
    """

    eigenvalues: Array
    shape: tuple[int, ...]
    negative: int
    smallest: float
    clipped: bool

    @classmethod
    def of(cls, first_row: Array, negative: Negative) -> CirculantSpectrum:
        """From the first row, an even function along each axis."""
        shape = tuple(int(size) for size in first_row.shape)
        spectrum = real_fft(first_row, len(shape))
        xp = namespace(spectrum)
        values = xp.real(spectrum)
        if is_numpy(values):
            values = np.ascontiguousarray(values)  # let go of the imaginary half
        smallest = float(xp.min(values))
        below = 0 if smallest >= 0 else weighted_sum(xp.astype(values < 0, values.dtype), shape)
        clipped = negative == "clip" and smallest < 0
        if clipped:
            values = xp.where(values > 0, values, xp.zeros_like(values))
        return cls(values, shape, round(below), smallest, clipped)

    def positive_with(self, alphas: Any) -> Any:
        """Whether U + μI is positive definite, for each μ."""
        return np.array([self.count_nonpositive(alpha) == 0 for alpha in _numbers(alphas)])

    def count_nonpositive(self, alpha: float) -> int:
        """The number of eigenvalues of U + μI that are not positive."""
        if self.clipped or self.smallest + alpha > 0:
            return 0
        xp = namespace(self.eigenvalues)
        below = xp.astype(self.eigenvalues + alpha <= 0, self.eigenvalues.dtype)
        return round(weighted_sum(below, self.shape))


class CirculantSmoother(Smoother):
    """R_b(μ) of a circulant matrix whose leading cells hold the rows.

    Parameters
    ----------
    spectrum : CirculantSpectrum
    n : int
        Number of rows; cells beyond them hold no data.
    fit_intercept : bool
    order : int array (n,) or None
        The row in each cell; None where row i is in cell i.
    """

    def __init__(
        self,
        spectrum: CirculantSpectrum,
        n: int,
        *,
        fit_intercept: bool,
        order: Any | None = None,
    ) -> None:
        one = like([1.0], spectrum.eigenvalues)
        xp = namespace(one)
        super().__init__(n, xp.broadcast_to(one, (n,)) if fit_intercept else None)
        self.spectrum = spectrum
        self._order = order
        self._cell = None if order is None else np.argsort(order)  # of each row
        self._cells = math.prod(spectrum.shape)
        self._pads = np.arange(n, self._cells)
        self.solves: dict[str, Any] = {}
        """How the sets of rows held out so far were solved."""

    # The layout: rows in the order of the user, cells in the order of the matrix.

    def _grid(self, Y: Array) -> Array:
        """Targets (n, t) as (t, n_0, …, n_{p−1}), zeros in cells without data."""
        xp = namespace(Y)
        columns = xp.permute_dims(Y if self._order is None else take_rows(Y, self._order), (1, 0))
        t = columns.shape[0]
        if self._pads.size:
            blank = like(np.zeros((t, self._pads.size)), columns)
            columns = xp.concat([columns, blank], axis=1)
        return xp.reshape(columns, (t, *self.spectrum.shape))

    def _rows(self, grid: Array) -> Array:
        """(t, cells) back to (n, t) in the order of the user, or (μ, t, cells) to (μ, n, t)."""
        xp, levels = namespace(grid), len(self.spectrum.shape)
        columns = xp.reshape(grid, (*grid.shape[:-levels], self._cells))[..., : self.n]
        if self._cell is not None:
            columns = xp.take(columns, like_index(self._cell, columns), axis=-1)
        return xp.matrix_transpose(columns)

    # The filter.

    def filter(self, alpha: float) -> CirculantFilter:
        """R_b(μ) in frequencies; raises ``ValueError`` if U + μI is not positive definite."""
        check_stop()
        count = self.spectrum.count_nonpositive(alpha)
        if count:
            raise ValueError(not_positive_message(self.spectrum, alpha, count))
        values = self.spectrum.eigenvalues + alpha
        if is_numpy(values):
            np.divide(alpha, values, out=values)
        else:
            values = alpha / values
        constant = (0,) * len(self.spectrum.shape)
        first = float(values[constant])
        if self.border is not None:
            values[constant] = 0.0
        return CirculantFilter(values, self.spectrum.shape, first)

    def _completed(self, Y: Array, filtered: CirculantFilter) -> Array:
        """Targets on the grid, with predictions in the cells that have no data."""
        grid = self._grid(Y)
        if self._pads.size:
            grid = PartSolver(filtered, self.solves).complete(grid, self._pads)
        return grid

    def _in_turn(self, Y: Array, alphas: Any) -> Iterator[tuple[list[float], Array, Array, Array]]:
        """Some μ at a time: μ, R_b Y (μ, n, t), its diagonal (μ, n or 1), and targets on the grid.

        One transform serves all μ; as many of them go through the next as fit in cache.
        """
        xp, values = namespace(Y), _numbers(alphas)
        if self._pads.size:
            for alpha in values:
                filtered = self.filter(alpha)
                grid = self._completed(Y, filtered)
                diagonal = self._diagonal(filtered)[None, :]
                yield [alpha], self._rows(filtered.apply(grid))[None, ...], diagonal, grid
            return
        grid = self._grid(Y)
        spectrum = self._transform(grid)
        for part in spans(len(values), max(1, _IN_CACHE // (self._cells * Y.shape[1]))):
            bank = [self.filter(a).values for a in values[part]]
            filters = bank[0][None, ...] if len(bank) == 1 else xp.stack(bank)
            diagonal = half_mean(filters, self.spectrum.shape)[:, None]
            product = spectrum[None, ...] * filters[:, None, ...]
            residuals = inverse_real_fft(product, self.spectrum.shape)
            yield values[part], self._rows(residuals), diagonal, grid

    def _means(self, grid: Array) -> Array:
        """The intercepts: 1ᵀα = 0 and U1 ∝ 1 leave only the mean of the completed targets."""
        xp = namespace(grid)
        means = xp.mean(xp.reshape(grid, (grid.shape[0], self._cells)), axis=1)[None, :]
        return means if self.border is not None else xp.zeros_like(means)

    def residuals(self, Y: Array, alphas: Any) -> Array:
        return joined((rows for _, rows, _, _ in self._in_turn(Y, alphas)), len(_numbers(alphas)))

    def coefficients(self, Y: Array, alphas: Any) -> tuple[Array, Array]:
        """Dual coefficients R_b y / μ (μ, n, t) and intercepts (μ, t), zero without a border."""
        xp = namespace(Y)
        dual, intercepts = [], []
        for values, rows, _, grid in self._in_turn(Y, alphas):
            dual.append(rows / like(values, Y)[:, None, None])
            intercepts.append(xp.broadcast_to(self._means(grid), (len(values), Y.shape[1])))
        return xp.concat(dual), xp.concat(intercepts)

    def diagonal(self, alphas: Any) -> Array:
        """Diag R_b of shape (μ, n): one number per μ, unless there are cells without data."""
        values = _numbers(alphas)
        return joined((self._diagonal(self.filter(a))[None, :] for a in values), len(values))

    def _diagonal(self, filtered: CirculantFilter) -> Array:
        xp = namespace(filtered.values)
        if not self._pads.size:
            one = like([filtered.mean()], filtered.values)
            return xp.broadcast_to(one, (self.n,))
        diagonal = padded_diagonal(filtered, self._pads, self.n)
        return diagonal if self._cell is None else take_rows(diagonal, self._cell)

    def leave_one_out(self, Y: Array, alphas: Any) -> Array:
        pieces = (
            _minus_quotient(Y, rows, diagonal) for _, rows, diagonal, _ in self._in_turn(Y, alphas)
        )
        return joined(pieces, len(_numbers(alphas)))

    def heldout(self, Y: Array, parts: Sequence[Any], alphas: Any) -> list[Array]:
        xp = namespace(Y)
        cells = [np.asarray(rows) if self._cell is None else self._cell[rows] for rows in parts]
        blocks = [self._leading_block(part) for part in cells]
        pieces: list[list[Array]] = [[] for _ in parts]
        grid = self._grid(Y)
        spectrum = self._transform(grid)
        for alpha in _numbers(alphas):
            filtered = self.filter(alpha)
            by_length: dict[int, Array] = {}
            for k, (rows, part, length) in enumerate(zip(parts, cells, blocks)):
                if length is None:
                    pieces[k].append(self._general_part(grid, part, filtered))
                    continue
                if length not in by_length:
                    by_length[length] = self._rows(self._block_residuals(spectrum, filtered, length))
                pieces[k].append(take_rows(Y, rows) - take_rows(by_length[length], rows))
        direct = sum(length is not None for length in blocks)
        self.solves["circulant_blocks"] = self.solves.get("circulant_blocks", 0) + direct
        return [xp.stack(piece) for piece in pieces]

    def _general_part(self, grid: Array, part: Any, filtered: CirculantFilter) -> Array:
        cells = np.concatenate([part, self._pads])
        values = PartSolver(filtered, self.solves).predict(grid, cells)
        return values[: part.size, :]

    def _leading_block(self, cells: Any) -> int | None:
        """Length of the part if it is a diagonal block of the leading levels, else None."""
        length, first = int(cells.size), int(cells.min())
        shape = self.spectrum.shape
        if self._pads.size or length not in [math.prod(shape[s:]) for s in range(1, len(shape) + 1)]:
            return None
        whole = first % length == 0 and np.array_equal(np.sort(cells), np.arange(first, first + length))
        return length if whole else None

    def _block_residuals(self, spectrum: Array, filtered: CirculantFilter, length: int) -> Array:
        """e_J = (R_b)_JJ⁻¹ (R_b y)_J for all leading blocks J of `length` cells at once."""
        shape = self.spectrum.shape
        residuals = filtered.back(spectrum)
        s = next(s for s in range(1, len(shape) + 1) if math.prod(shape[s:]) == length)
        block = filtered.mean_over(s)
        if s == len(shape):
            return residuals / block
        trailing = real_fft(residuals, len(shape) - s)
        trailing /= block
        return inverse_real_fft(trailing, shape[s:])

    def trace(self, alphas: Any) -> Any:
        traces = []
        for alpha in _numbers(alphas):
            filtered = self.filter(alpha)
            if self._pads.size:
                traces.append(float(namespace(filtered.values).sum(self._diagonal(filtered))))
            else:
                traces.append(self.n * filtered.mean())
        return np.array(traces)

    def logdet(self, alphas: Any) -> Any:
        return np.array([self._logdet(alpha) for alpha in _numbers(alphas)])

    def _logdet(self, alpha: float) -> float:
        values, shape = self.spectrum.eigenvalues, self.spectrum.shape
        filtered = self.filter(alpha)
        value = weighted_sum(namespace(values).log(values + alpha), shape)
        if self.border is not None:  # on the complement of 1: without the constant's eigenvalue
            value -= math.log(float(values[(0,) * len(shape)]) + alpha)
        if not self._pads.size:
            return value
        # det G_OO = det G · det (G⁻¹)_PP, bordered or not; the border's length goes from N to n.
        factor = to_numpy(pad_factor(filtered, self._pads))
        value += 2 * float(np.sum(np.log(np.diagonal(factor)))) - self._pads.size * math.log(alpha)
        return value if self.border is None else value + math.log(self._cells / self.n)

    def _transform(self, grid: Array) -> Array:
        return real_fft(grid, len(self.spectrum.shape))


def weighted_sum(half: Array, shape: tuple[int, ...]) -> float:
    """The sum over a whole spectrum of which `half` is the half that a real transform keeps."""
    return float(half_mean(half[None, ...], shape)[0]) * math.prod(shape)


def joined(pieces: Iterable[Array], count: int) -> Array:
    """Arrays (some of μ, …) along their first axis, without holding them all twice."""
    iterator = iter(pieces)
    first = next(iterator)
    if first.shape[0] == count:
        return first
    if is_foreign(first):
        return namespace(first).concat([first, *iterator])
    out = np.empty((count, *first.shape[1:]))
    filled = first.shape[0]
    out[:filled] = first
    for piece in iterator:
        out[filled : filled + piece.shape[0]] = piece
        filled += piece.shape[0]
    return out


def _minus_quotient(Y: Array, rows: Array, diagonal: Array) -> Array:
    """Y − rows / diagonal, over `rows`."""
    rows /= -diagonal[:, :, None]
    rows += Y[None, ...]
    return rows


def not_positive_message(spectrum: CirculantSpectrum, alpha: float, count: int) -> str:
    """The sentence for an indefinite circulant matrix."""
    return (
        f"the circulant matrix plus alpha={alpha:.3g} on its diagonal has {count} of its eigenvalues "
        f"not positive (the matrix itself goes down to {spectrum.smallest:.3g}); use an alpha above "
        f"{-spectrum.smallest:.3g}, a larger gamma or spacing, "
        'or Circulant(negative="clip") to set negative eigenvalues to 0.'
    )


def _numbers(alphas: Any) -> list[float]:
    return [float(a) for a in np.asarray(to_numpy(alphas), dtype=np.float64).reshape(-1)]
