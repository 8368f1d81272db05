r"""The eigenvalues of a multilevel circulant matrix, and R(μ) as a filter between Fourier transforms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from onefold.linalg import (
    Array,
    inverse_real_fft,
    is_numpy,
    like,
    namespace,
    real_fft,
    take_rows,
    to_numpy,
)
from onefold.machine.threads import check_stop

Negative = Literal["raise", "clip"]


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
        return np.array([self.count_nonpositive(alpha) == 0 for alpha in numbers(alphas)])

    def count_nonpositive(self, alpha: float) -> int:
        """The number of eigenvalues of U + μI that are not positive."""
        if self.clipped or self.smallest + alpha > 0:
            return 0
        xp = namespace(self.eigenvalues)
        below = xp.astype(self.eigenvalues + alpha <= 0, self.eigenvalues.dtype)
        return round(weighted_sum(below, self.shape))

    def filter(self, alpha: float, *, fit_intercept: bool) -> CirculantFilter:
        """R_b(μ) in frequencies; raises ``ValueError`` if U + μI is not positive definite."""
        check_stop()
        count = self.count_nonpositive(alpha)
        if count:
            raise ValueError(_not_positive_message(self, alpha, count))
        values = self.eigenvalues + alpha
        if is_numpy(values):
            np.divide(alpha, values, out=values)
        else:
            values = alpha / values
        constant = (0,) * len(self.shape)
        first = float(values[constant])
        if fit_intercept:
            values[constant] = 0.0
        return CirculantFilter(values, self.shape, first)


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


def weighted_sum(half: Array, shape: tuple[int, ...]) -> float:
    """The sum over a whole spectrum of which `half` is the half that a real transform keeps."""
    return float(half_mean(half[None, ...], shape)[0]) * math.prod(shape)


def _not_positive_message(spectrum: CirculantSpectrum, alpha: float, count: int) -> str:
    """The sentence for an indefinite circulant matrix."""
    return (
        f"the circulant matrix plus alpha={alpha:.3g} on its diagonal has {count} of its eigenvalues "
        f"not positive (the matrix itself goes down to {spectrum.smallest:.3g}); use an alpha above "
        f"{-spectrum.smallest:.3g}, a larger gamma or spacing, "
        'or Circulant(negative="clip") to set negative eigenvalues to 0.'
    )


def numbers(alphas: Any) -> list[float]:
    """The ridge values one by one."""
    return [float(a) for a in np.asarray(to_numpy(alphas), dtype=np.float64).reshape(-1)]
