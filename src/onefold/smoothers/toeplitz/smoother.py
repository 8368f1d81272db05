r"""R(μ) = μ (T + μI)⁻¹ for a symmetric Toeplitz T.

Per μ: one iterative solve for the first column of the inverse, the Gohberg–Semencul formula for the
rest. Leave-one-out is O(n) after that, a held-out block needs no n × n array, the trace is exact. The
log-determinant takes Durbin's recursion, O(n²).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from onefold.smoothers.base import Smoother, UnsolvableError
from onefold.smoothers.toeplitz.heldout import Border, heldout_residuals
from onefold.smoothers.toeplitz.inverse import GohbergSemencul
from onefold.smoothers.toeplitz.products import SymmetricToeplitz
from onefold.smoothers.toeplitz.solve import DENSE, ToeplitzSolver, log_determinant

_LOGDET_LIMIT = 100_000


class ToeplitzSmoother(Smoother):
    """R_b(μ) of a Toeplitz matrix, in O(n) memory per μ. NumPy only.

    Parameters
    ----------
    column : array (n,)
        First column of T.
    intercept : bool
        Whether there is a border of ones.
    semidefinite, tolerance, report
        As in :class:`ToeplitzSolver`.
    """

    def __init__(
        self,
        column: Any,
        *,
        intercept: bool,
        semidefinite: bool = False,
        tolerance: float = 1e-10,
        report: dict[str, Any] | None = None,
    ) -> None:
        self.toeplitz = SymmetricToeplitz(column)
        n = self.toeplitz.n
        super().__init__(n, np.broadcast_to(np.ones(1), n) if intercept else None)
        self._tolerance = tolerance
        self._solver = ToeplitzSolver(
            self.toeplitz,
            semidefinite=semidefinite,
            tolerance=tolerance,
            report={} if report is None else report,
        )

    def solvable(self, alphas: Any) -> Any:
        """Whether each μ may be solved with, as far as has turned out."""
        return np.asarray(alphas, dtype=np.float64) > self._solver.refused

    def _each(
        self, Y: Any, alphas: Any
    ) -> Iterator[tuple[int, float, Any, GohbergSemencul, Border | None]]:
        """(index, μ, G_b⁻¹Yᵀ by rows, G⁻¹, border) for every μ, in no particular order."""
        alphas = np.asarray(alphas, dtype=np.float64).reshape(-1)
        B = np.ascontiguousarray(Y.T)
        if self.border is None:
            for index, mu, X, inverse in self._solver.each(B, alphas):
                yield index, mu, X, inverse, None
                del X, inverse
            return
        # R_b maps constants to 0: without its mean a target has more digits left.
        B = np.vstack([B - B.mean(axis=1, keepdims=True), self.border[None]])
        for index, mu, X, inverse in self._solver.each(B, alphas):
            border = Border(X[-1])
            yield index, mu, border.vectors(X[:-1]), inverse, border
            del X, inverse, border  # before the next μ needs the memory

    def residuals(self, Y: Any, alphas: Any) -> Any:
        out = np.empty((np.size(alphas), *Y.shape))
        for index, mu, W, _, _ in self._each(Y, alphas):
            np.multiply(W.T, mu, out=out[index])
        return out

    def leave_one_out(self, Y: Any, alphas: Any) -> Any:
        out = np.empty((np.size(alphas), *Y.shape))
        for index, _, W, inverse, border in self._each(Y, alphas):
            diagonal = inverse.diagonal()
            if border is not None:
                diagonal = border.diagonal(diagonal)
            W /= diagonal
            np.subtract(Y, W.T, out=out[index])
            del W, inverse, border, diagonal  # before the next μ needs the memory
        return out

    def heldout(self, Y: Any, parts: Sequence[Any], alphas: Any) -> list[Any]:
        outs = [np.empty((np.size(alphas), len(rows), Y.shape[1])) for rows in parts]
        for index, mu, W, inverse, border in self._each(Y, alphas):
            whole = inverse.block(0, self.n) if self.n <= DENSE else None
            for rows, out in zip(parts, outs):
                try:
                    errors, residual = heldout_residuals(
                        self.toeplitz, inverse, mu, W, border, rows, self._tolerance, whole
                    )
                except UnsolvableError:
                    self._solver.refused = max(self._solver.refused, mu)
                    raise
                out[index] = Y[rows] - errors.T
                known = self._solver.report.get("heldout_residual", 0.0)
                self._solver.report["heldout_residual"] = max(known, residual)
        return outs

    def trace(self, alphas: Any) -> Any:
        out = np.empty(np.size(alphas))
        for index, mu, _, inverse, border in self._each(np.zeros((self.n, 0)), alphas):
            diagonal = inverse.diagonal()
            if border is not None:
                diagonal = border.diagonal(diagonal)
            out[index] = mu * diagonal.sum()
        return out

    def logdet(self, alphas: Any) -> Any:
        if self.n > _LOGDET_LIMIT:
            raise ValueError(
                f"the log-determinant of a Toeplitz matrix takes n² operations, too many for n = "
                f'{self.n}; use criterion="press" or "gcv".'
            )
        out = np.empty(np.size(alphas))
        for index, mu, _, _, border in self._each(np.zeros((self.n, 0)), alphas):
            column = self.toeplitz.column.copy()
            column[0] += mu
            try:
                out[index] = log_determinant(column)
            except np.linalg.LinAlgError:  # too long for `_levinson` to have found out
                out[index] = np.nan
                continue
            if border is not None:
                out[index] += np.log(border.total) - np.log(self.n)
        return out
