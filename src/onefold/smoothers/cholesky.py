r"""R(μ) from one Cholesky factorisation K + μI = L Lᵀ per μ.

    R = μ L⁻ᵀL⁻¹,   diag R = μ · column sums of (L⁻¹)²,   R_JJ = μ (L⁻¹)_{:,J}ᵀ (L⁻¹)_{:,J}

n³/3 operations per μ for the coefficients alone and as much again for the diagonal and blocks:
cheaper than an eigendecomposition for a few μ. Holds K and one factor, two arrays of n × n.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from onefold.arrays import (
    Array,
    cholesky,
    cholesky_solve,
    invert_lower,
    is_numpy,
    namespace,
    take_rows,
)
from onefold.smoothers.base import (
    BorderCorrection,
    Smoother,
    as_vector,
    solve_blocks,
    without_rows,
)
from onefold.smoothers.spectral import not_psd_message

_STRIP = 256


class CholeskySmoother(Smoother):
    """R_b(μ) from a factorisation per μ.

    Parameters
    ----------
    K : array (n, n)
        The kernel matrix.
    border : array (n,) or None
        s of the intercept.
    overwrite : bool
        Factorise over K: one array of n × n, but the smoother serves a single call with one μ.
    """

    def __init__(self, K: Array, border: Array | None, *, overwrite: bool = False) -> None:
        super().__init__(K.shape[0], border)
        self._K = K
        self._overwrite = overwrite

    def _factor(self, alpha: float) -> Array:
        if self._K is None:
            raise RuntimeError("this smoother gave its matrix to the one factorisation it was for")
        K = self._K
        if self._overwrite:
            self._K = None
        else:
            K = namespace(K).asarray(K, copy=True)
        if is_numpy(K):
            K.ravel()[:: self.n + 1] += alpha
        else:
            K = K + alpha * namespace(K).eye(self.n, dtype=K.dtype, device=K.device)
        try:
            return cholesky(K, overwrite=True)
        except np.linalg.LinAlgError as error:
            raise ValueError(not_psd_message(-alpha)) from error

    def _each(self, Y: Array, alphas: Any) -> Iterator[tuple[float, Array, Array, Any]]:
        """For each μ: μ, the factor L, R_b Y and the border's correction (or None)."""
        xp = namespace(Y)
        t = Y.shape[1]
        rhs = Y if self.border is None else xp.concat([Y, self.border[:, None]], axis=1)
        for alpha in np.asarray(alphas, dtype=np.float64).reshape(-1):
            factor = self._factor(float(alpha))
            solved = float(alpha) * cholesky_solve(factor, rhs)
            if self.border is None:
                yield float(alpha), factor, solved, None
                continue
            border = BorderCorrection.of(solved[:, t][None, :], self.border)
            yield float(alpha), factor, border.vectors(solved[None, :, :t], Y)[0], border

    def residuals(self, Y: Array, alphas: Any) -> Array:
        return namespace(Y).stack([RY for _, _, RY, _ in self._each(Y, alphas)])

    def leave_one_out(self, Y: Array, alphas: Any) -> Array:
        xp = namespace(Y)
        pieces = []
        for alpha, factor, RY, border in self._each(Y, alphas):
            diagonal = alpha * _column_squares(invert_lower(factor))
            if border is not None:
                diagonal = border.diagonal(diagonal[None, :])[0]
            pieces.append(Y - RY / diagonal[:, None])
        return xp.stack(pieces)

    def heldout(self, Y: Array, parts: Sequence[Any], alphas: Any) -> list[Array]:
        xp, t = namespace(Y), Y.shape[1]
        blanked = xp.concat([without_rows(Y, rows) for rows in parts], axis=1)
        pieces: list[list[Array]] = [[] for _ in parts]
        for alpha, factor, RY, border in self._each(blanked, alphas):
            inverse = invert_lower(factor)
            for k, rows in enumerate(parts):
                columns = take_rows(inverse.T, rows)
                block = alpha * (columns @ columns.T)
                if border is not None:
                    block = border.block(block, rows, 0)
                rhs = take_rows(RY[:, k * t : (k + 1) * t], rows)
                pieces[k].append(-solve_blocks([block], rhs[None])[0])
        return [xp.stack(piece) for piece in pieces]

    def trace(self, alphas: Any) -> Any:
        traces = []
        for alpha, factor, _, border in self._each(self._nothing(), alphas):
            trace = alpha * float(namespace(factor).sum(_column_squares(invert_lower(factor))))
            traces.append(trace if border is None else float(border.trace(np.array([trace]))[0]))
        return np.array(traces)

    def logdet(self, alphas: Any) -> Any:
        values = []
        for alpha, factor, _, border in self._each(self._nothing(), alphas):
            xp = namespace(factor)
            value = np.array([2 * float(xp.sum(xp.log(xp.linalg.diagonal(factor))))])
            if border is not None:
                value = border.logdet(value, np.array([alpha]), self.border)
            values.append(float(value[0]))
        return np.array(values)

    def _nothing(self) -> Array:
        """No targets, where only the factor is wanted."""
        return as_vector(np.zeros(self.n), self._K)[:, None][:, :0]


def _column_squares(matrix: Array) -> Array:
    """Σ_k m_ki² for each column i, a strip at a time."""
    xp = namespace(matrix)
    total = xp.sum(matrix[:_STRIP, :] ** 2, axis=0)
    for start in range(_STRIP, matrix.shape[0], _STRIP):
        total += xp.sum(matrix[start : start + _STRIP, :] ** 2, axis=0)
    return total
