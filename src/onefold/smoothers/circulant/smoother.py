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
from typing import Any

import numpy as np

from onefold.linalg import (
    Array,
    inverse_real_fft,
    is_foreign,
    like,
    namespace,
    real_fft,
    take_rows,
    to_numpy,
)
from onefold.machine.threads import spans
from onefold.smoothers.base import Smoother
from onefold.smoothers.circulant.parts import (
    PartSolver,
    block_residuals,
    leading_block,
    pad_factor,
    padded_diagonal,
)
from onefold.smoothers.circulant.spectrum import (
    CirculantFilter,
    CirculantSpectrum,
    half_mean,
    numbers,
    weighted_sum,
)

_IN_CACHE = 2**16  # numbers that several μ may take together


class CirculantSmoother(Smoother):
    """R_b(μ) of a circulant matrix whose leading cells hold the rows.

    Parameters
    ----------
    spectrum : CirculantSpectrum
    n : int
        Number of rows; cells beyond them hold no data.
    fit_intercept : bool
    """

    def __init__(self, spectrum: CirculantSpectrum, n: int, *, fit_intercept: bool) -> None:
        one = like([1.0], spectrum.eigenvalues)
        xp = namespace(one)
        super().__init__(n, xp.broadcast_to(one, (n,)) if fit_intercept else None)
        self.spectrum = spectrum
        self._cells = math.prod(spectrum.shape)
        self._pads = np.arange(n, self._cells)
        self.solves: dict[str, Any] = {}
        """How the sets of rows held out so far were solved."""

    def _grid(self, Y: Array) -> Array:
        """Targets (n, t) as (t, n_0, …, n_{p−1}), zeros in cells without data."""
        xp = namespace(Y)
        columns = xp.permute_dims(Y, (1, 0))
        t = columns.shape[0]
        if self._pads.size:
            blank = like(np.zeros((t, self._pads.size)), columns)
            columns = xp.concat([columns, blank], axis=1)
        return xp.reshape(columns, (t, *self.spectrum.shape))

    def _rows(self, grid: Array) -> Array:
        """(t, cells) back to (n, t), or (μ, t, cells) to (μ, n, t)."""
        xp, levels = namespace(grid), len(self.spectrum.shape)
        columns = xp.reshape(grid, (*grid.shape[:-levels], self._cells))[..., : self.n]
        return xp.matrix_transpose(columns)

    def _filter(self, alpha: float) -> CirculantFilter:
        return self.spectrum.filter(alpha, fit_intercept=self.border is not None)

    def _in_turn(self, Y: Array, alphas: Any) -> Iterator[tuple[list[float], Array, Array, Array]]:
        """Some μ at a time: μ, R_b Y (μ, n, t), its diagonal (μ, n or 1), and targets on the grid.

        One transform serves all μ; as many of them go through the next as fit in cache.
        """
        xp, values, grid = namespace(Y), numbers(alphas), self._grid(Y)
        if self._pads.size:
            for alpha in values:
                filtered = self._filter(alpha)
                completed = PartSolver(filtered, self.solves).complete(grid, self._pads)
                diagonal = padded_diagonal(filtered, self._pads, self.n)[None, :]
                yield [alpha], self._rows(filtered.apply(completed))[None, ...], diagonal, completed
            return
        spectrum = real_fft(grid, len(self.spectrum.shape))
        for part in spans(len(values), max(1, _IN_CACHE // (self._cells * Y.shape[1]))):
            bank = [self._filter(a).values for a in values[part]]
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
        return joined((rows for _, rows, _, _ in self._in_turn(Y, alphas)), len(numbers(alphas)))

    def coefficients(self, Y: Array, alphas: Any) -> tuple[Array, Array]:
        """Dual coefficients R_b y / μ (μ, n, t) and intercepts (μ, t), zero without a border."""
        xp = namespace(Y)
        dual, intercepts = [], []
        for values, rows, _, grid in self._in_turn(Y, alphas):
            dual.append(rows / like(values, Y)[:, None, None])
            intercepts.append(xp.broadcast_to(self._means(grid), (len(values), Y.shape[1])))
        return xp.concat(dual), xp.concat(intercepts)

    def leave_one_out(self, Y: Array, alphas: Any) -> Array:
        pieces = (
            _minus_quotient(Y, rows, diagonal) for _, rows, diagonal, _ in self._in_turn(Y, alphas)
        )
        return joined(pieces, len(numbers(alphas)))

    def heldout(self, Y: Array, parts: Sequence[Any], alphas: Any) -> list[Array]:
        xp = namespace(Y)
        cells, shape = [np.asarray(rows) for rows in parts], self.spectrum.shape
        blocks = [None if self._pads.size else leading_block(shape, part) for part in cells]
        pieces: list[list[Array]] = [[] for _ in parts]
        grid = self._grid(Y)
        spectrum = real_fft(grid, len(self.spectrum.shape))
        for alpha in numbers(alphas):
            filtered = self._filter(alpha)
            by_length: dict[int, Array] = {}
            for k, (part, length) in enumerate(zip(cells, blocks)):
                if length is None:
                    pieces[k].append(self._general_part(grid, part, filtered))
                    continue
                if length not in by_length:
                    by_length[length] = self._rows(block_residuals(spectrum, filtered, length))
                pieces[k].append(take_rows(Y, part) - take_rows(by_length[length], part))
        direct = sum(length is not None for length in blocks)
        self.solves["circulant_blocks"] = self.solves.get("circulant_blocks", 0) + direct
        return [xp.stack(piece) for piece in pieces]

    def _general_part(self, grid: Array, part: Any, filtered: CirculantFilter) -> Array:
        cells = np.concatenate([part, self._pads])
        values = PartSolver(filtered, self.solves).predict(grid, cells)
        return values[: part.size, :]

    def trace(self, alphas: Any) -> Any:
        traces = []
        for alpha in numbers(alphas):
            filtered = self._filter(alpha)
            if self._pads.size:
                diagonal = padded_diagonal(filtered, self._pads, self.n)
                traces.append(float(namespace(diagonal).sum(diagonal)))
            else:
                traces.append(self.n * filtered.mean())
        return np.array(traces)

    def logdet(self, alphas: Any) -> Any:
        return np.array([self._logdet(alpha) for alpha in numbers(alphas)])

    def _logdet(self, alpha: float) -> float:
        values, shape = self.spectrum.eigenvalues, self.spectrum.shape
        filtered = self._filter(alpha)
        value = weighted_sum(namespace(values).log(values + alpha), shape)
        if self.border is not None:  # on the complement of 1: without the constant's eigenvalue
            value -= math.log(float(values[(0,) * len(shape)]) + alpha)
        if not self._pads.size:
            return value
        # det G_OO = det G · det (G⁻¹)_PP, bordered or not; the border's length goes from N to n.
        factor = to_numpy(pad_factor(filtered, self._pads))
        value += 2 * float(np.sum(np.log(np.diagonal(factor)))) - self._pads.size * math.log(alpha)
        return value if self.border is None else value + math.log(self._cells / self.n)


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
