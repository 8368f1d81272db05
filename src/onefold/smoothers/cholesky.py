r"""R(μ) from one Cholesky factorisation K + μI = L Lᵀ per μ.

    R = μ L⁻ᵀL⁻¹,   diag R = μ · column sums of (L⁻¹)²,   R_JJ = μ (L⁻¹)_{:,J}ᵀ (L⁻¹)_{:,J}

n³/3 operations per μ for the coefficients alone and as much again for the diagonal and blocks:
cheaper than an eigendecomposition for a few μ. L⁻¹ is lower triangular, so a block of the last rows
needs the inverse of the last corner of L alone: rows that are held out are cheapest at the end.
Holds K and one factor, two arrays of n × n. The rounding of entry (i, j) is relative to √(k_ii k_jj):
rows of any size keep their digits, which is what weights of very different size need.

A matrix that rounding leaves indefinite at a small μ is decomposed instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onefold.linalg import (
    Array,
    add_to_diagonal,
    cholesky,
    cholesky_solve,
    copied,
    inverse_column_squares,
    invert_lower,
    is_numpy,
    like,
    namespace,
)
from onefold.machine.threads import check_stop
from onefold.smoothers.dense import DenseSmoother, Operator
from onefold.smoothers.left_out import gather
from onefold.smoothers.rounding import BELOW, GIVEN, Rounding
from onefold.smoothers.spectral import SpectralSmoother

_STRIP = 256
_CORNER = 0.25  # of the rows: a corner that begins above is not worth an array of its own


class CholeskySmoother(DenseSmoother):
    """R_b(μ) from a factorisation per μ.

    Parameters
    ----------
    K : array (n, n)
        The kernel matrix.
    border : array (n,) or None
        s of the intercept.
    overwrite : bool
        Factorise over K: one array of n × n, but the smoother serves one μ only.
    rounding : Rounding
        Which negative eigenvalues are rounding.
    graded : bool
        The rows of K differ in size by far, as weights make them.
    """

    def __init__(
        self,
        K: Array,
        border: Array | None,
        *,
        overwrite: bool = False,
        rounding: Rounding = GIVEN,
        graded: bool = False,
    ) -> None:
        super().__init__(K.shape[0], border)
        self._K = K
        self._overwrite, self._rounding = overwrite, rounding
        self._buffer: Array | None = None
        self._decomposed: SpectralSmoother | None = None
        self._last: tuple[float, Operator] | None = None
        # The trace bounds the largest eigenvalue; matrices with rows of very different size (graded
        # ones) have no noise to speak of, since that of each row is relative to the row.
        largest = float(namespace(K).sum(namespace(K).linalg.diagonal(K)))
        self._noise = 0.0 if graded else rounding.noise(like([largest], K))

    @property
    def smallest_eigenvalue(self) -> float:
        return 0.0 if self._decomposed is None else self._decomposed.smallest_eigenvalue

    def operators(self, alphas: Any) -> Iterator[Operator]:
        for alpha in np.asarray(alphas, dtype=np.float64).reshape(-1):
            check_stop()
            yield self._operator(float(alpha))

    def _operator(self, alpha: float) -> Operator:
        if self._last is not None and self._last[0] == alpha:
            return self._last[1]
        self._last = None  # before its memory is used again
        if self._K is None and self._decomposed is not None:
            return next(self._decomposed.operators([alpha]))
        if self._K is None:
            raise RuntimeError("this smoother gave its matrix to the one factorisation it was for")
        if alpha < BELOW * self._noise:
            return next(self._by_eigenvalues(self._K).operators([alpha]))
        diagonal = namespace(self._K).linalg.diagonal(self._K) + 0.0
        shifted = self._shifted(alpha)
        try:
            operator = _Factorised(shifted, alpha)
            self._last = alpha, operator
            return operator
        except np.linalg.LinAlgError:
            K = self._K if self._K is not None else _unfactorised(shifted, diagonal, alpha)
            return next(self._by_eigenvalues(K).operators([alpha]))

    def below_rounding(self, alphas: Any) -> Any:
        if self._decomposed is not None:
            return self._decomposed.below_rounding(alphas)
        return np.asarray(alphas, dtype=np.float64).reshape(-1) < BELOW * self._noise

    def _by_eigenvalues(self, K: Array) -> SpectralSmoother:
        if self._decomposed is None:
            copy = namespace(K).asarray(K, copy=True)
            self._decomposed = SpectralSmoother(copy, self.border, rounding=self._rounding)
        return self._decomposed

    def _shifted(self, alpha: float) -> Array:
        """K + μI, to be factorised in place."""
        if self._overwrite:
            K, self._K = self._K, None
            return add_to_diagonal(K, alpha)
        shifted = copied(self._K, self._buffer)
        if is_numpy(shifted):
            # One buffer serves every μ: the last operator is done with when the next is asked for.
            self._buffer = shifted
        return add_to_diagonal(shifted, alpha)


class _Factorised(Operator):
    """μ L⁻ᵀL⁻¹; L is replaced by L⁻¹ when the diagonal, or a block that reaches far up, is asked for."""

    def __init__(self, G: Array, alpha: float) -> None:
        self._alpha = alpha
        self._factor = cholesky(G, overwrite=True)
        self._inverted = False
        self._corner: tuple[int, Array] | None = None

    def expect_blocks(self) -> None:
        # A device multiplies by L⁻¹ far faster than it solves with L for a few columns; on a host
        # solving is as fast, and has the better digits.
        if not is_numpy(self._factor):
            self._inverse()

    def _inverse(self) -> Array:
        if not self._inverted:
            check_stop()
            self._factor, self._inverted = invert_lower(self._factor), True
        return self._factor

    def _inverse_from(self, row: int) -> tuple[int, Array]:
        """The first row of a last corner of L⁻¹ that begins no later than `row`, and that corner."""
        if self._inverted or row < _CORNER * self._factor.shape[0]:
            self._corner = None
            return 0, self._inverse()
        if self._corner is None or self._corner[0] > row:
            check_stop()
            corner = np.array(self._factor[row:, row:], order="F")
            self._corner = row, invert_lower(corner)
        return self._corner

    def apply(self, Y: Array) -> Array:
        if self._inverted:
            return self._alpha * (self._factor.T @ (self._factor @ Y))
        return self._alpha * cholesky_solve(self._factor, Y)

    def block(self, rows: Array) -> Array:
        start = int(rows.min()) if is_numpy(rows) and rows.size else 0
        first, inverse = self._inverse_from(start)
        columns = gather(inverse.T, rows - first)
        return self._alpha * (columns @ namespace(columns).matrix_transpose(columns))

    def diagonal(self) -> Array:
        inverse = self._inverse()
        xp, n = namespace(inverse), inverse.shape[0]
        total = 0.0
        for start in range(0, n, _STRIP):  # a strip at a time: no second array of n × n
            total = total + xp.sum(inverse[start : min(start + _STRIP, n), :] ** 2, axis=0)
        return self._alpha * total

    def diagonal_at(self, rows: Any) -> Array:
        if self._inverted:
            return super().diagonal_at(rows)
        check_stop()
        return self._alpha * inverse_column_squares(self._factor, rows)

    def logdet(self) -> Array:
        xp = namespace(self._factor)
        total = 2 * xp.sum(xp.log(xp.linalg.diagonal(self._factor)))
        return -total if self._inverted else total


def _unfactorised(G: Array, diagonal: Array, alpha: float) -> Array:
    """K from what a failed factorisation in place left of K + μI: one triangle, and K's diagonal."""
    if not is_numpy(G):  # other libraries factorise into an array of their own
        return add_to_diagonal(G, -alpha)
    K = np.tril(G, -1)
    K += K.T
    K.flat[:: K.shape[0] + 1] = diagonal
    return K
