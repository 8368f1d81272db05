r"""Solving (T + μI) X = B for one positive definite T + μI and many μ: which solver, and why.

Levinson's recursion (SciPy's), O(n²) time and O(n) memory, is quickest for short series.

Conjugate gradients with FFT products and a circulant preconditioner, O(n log n) an iteration, for long
ones. Only G⁻¹e_1 is found by iteration: the Gohberg–Semencul formula then gives G⁻¹ of every other
right-hand side, and conjugate gradients polish that where its true residual asks for it. The start
for the next μ is the best combination of the last solutions, which costs no product.

T of averaged diagonals may be indefinite: where T + μI is, at μ and at every smaller one, there is no
model, and an :class:`UnsolvableError` says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.linalg

from onefold.machine.threads import spans
from onefold.smoothers.base import UnsolvableError
from onefold.smoothers.toeplitz.inverse import GohbergSemencul
from onefold.smoothers.toeplitz.iterate import Outcome, refined_gradients
from onefold.smoothers.toeplitz.preconditioners import Preconditioner, choose_preconditioner
from onefold.smoothers.toeplitz.products import SymmetricToeplitz

SHORT = 1024  # up to here Levinson's recursion is quicker than some tens of FFTs
DENSE = 2048  # up to here an n × n array costs nothing
_LEVINSON_LIMIT = 50_000  # O(n²): some ten seconds
_LIMIT = 600  # iterations
_LOOSE = 1e-6  # Levinson's residual on a nearly singular matrix; worse is refused
_TOGETHER = 2**18  # entries of right-hand sides treated in one FFT call
_REMEDY = "use a larger alpha or gamma, or another approximation (Grid, Nystroem)."


class ToeplitzSolver:
    """(T + μI)⁻¹ for every μ.

    Parameters
    ----------
    toeplitz : SymmetricToeplitz
    semidefinite : bool
        T is known to be positive semi-definite: the kernel matrix of a uniform series.
    tolerance : float
        Of the true relative residual.
    report : dict
        Written to: solver, reason, iterations, residual.
    """

    def __init__(
        self,
        toeplitz: SymmetricToeplitz,
        *,
        semidefinite: bool,
        tolerance: float,
        report: dict[str, Any],
    ) -> None:
        self.toeplitz, n = toeplitz, toeplitz.n
        self.refused = -np.inf
        """The largest μ that could not be solved with; with smaller ones it is tried no more."""
        self._iterates = n > SHORT
        self._definite_from = 0.0 if semidefinite else np.inf
        self._tolerance = tolerance
        self._preconditioner: Preconditioner | None = None
        self._earlier: list[tuple[float, Any]] = []
        self.report = report
        report.update(solver="levinson", reason=f"n = {n} ≤ {SHORT}: O(n²) is quicker than iterating")
        if self._iterates:
            report.update(solver="pcg", reason=f"n = {n} > {SHORT}: O(n log n) per iteration")
        report.update(iterations=0, residual=0.0)

    def each(self, B: Any, alphas: Any) -> Iterator[tuple[int, float, Any, GohbergSemencul]]:
        """(index, μ, G⁻¹B, G⁻¹) for every μ, from the largest down; B holds a vector per row."""
        self._earlier = []
        for index in np.argsort(-np.asarray(alphas), kind="stable"):
            mu = float(alphas[index])
            try:
                X, inverse = (self._pcg if self._iterates else self._levinson)(mu, B)
            except UnsolvableError:
                self.refused = max(self.refused, mu)
                raise
            yield int(index), mu, X, inverse
            del X, inverse  # before the next μ needs the memory
        self._earlier = []

    # -- Levinson ------------------------------------------------------------------------------

    def _levinson(self, mu: float, B: Any) -> tuple[Any, GohbergSemencul]:
        n = self.toeplitz.n
        if n <= DENSE and not self._is_definite(mu):
            raise _unsolvable(mu, "it is not positive definite")
        column = self.toeplitz.column.copy()
        column[0] += mu
        unit = np.zeros((1, n))
        unit[0, 0] = 1.0
        try:
            X = np.atleast_2d(scipy.linalg.solve_toeplitz(column, np.vstack([B, unit]).T).T)
        except np.linalg.LinAlgError:
            raise _unsolvable(mu, "a leading block is singular") from None
        if not np.isfinite(X).all():
            raise _unsolvable(mu, "a leading block is nearly singular")
        residual = self._residual(mu, X, np.vstack([B, unit]))
        if residual > _LOOSE:
            raise _unsolvable(mu, f"Levinson's recursion lost its digits (residual {residual:.1g})")
        self._note(Outcome(X, "converged", 0, residual))
        return X[:-1], GohbergSemencul(X[-1], self.toeplitz)

    def _is_definite(self, mu: float) -> bool:
        """By a Cholesky factorisation, where n is small; known for larger μ from smaller ones."""
        if mu < self._definite_from:
            try:
                scipy.linalg.cholesky(self.toeplitz.dense(mu), check_finite=False, overwrite_a=True)
            except np.linalg.LinAlgError:
                return False
            self._definite_from = mu
        return True

    # -- conjugate gradients ---------------------------------------------------------------------

    def _pcg(self, mu: float, B: Any) -> tuple[Any, GohbergSemencul]:
        if self._preconditioner is None:
            self._preconditioner = choose_preconditioner(self.toeplitz)
            self.report["preconditioner"] = self._preconditioner.name
        unit = np.zeros((1, self.toeplitz.n))
        unit[0, 0] = 1.0
        found = self._iterate(mu, unit, self._extrapolated(mu))
        del unit
        if found.state == "converged":
            self._earlier = [*self._earlier[-1:], (mu, found.X[0])]
            inverse = GohbergSemencul(found.X[0], self.toeplitz)
            self._note(found)
            X = np.empty_like(B)
            # Few rows at a time where they are long: an FFT gains nothing from more, memory does.
            for rows in spans(B.shape[0], max(1, _TOGETHER // self.toeplitz.n)):
                found = self._iterate(mu, B[rows], inverse.product(B[rows]))
                if found.state != "converged":
                    break
                self._note(found)
                X[rows] = found.X
            else:
                return X, inverse
        if found.state == "indefinite":
            raise _unsolvable(mu, "conjugate gradients met a direction of negative curvature")
        if self.toeplitz.n <= _LEVINSON_LIMIT:
            why = f"conjugate gradients did not converge ({found.residual:.1g})"
            self._iterates = False
            self.report.update(solver="levinson", reason=why)
            return self._levinson(mu, B)
        raise _unsolvable(
            mu, f"no convergence in {found.iterations} iterations (residual {found.residual:.2g})"
        )

    def _iterate(self, mu: float, B: Any, start: Any | None) -> Outcome:
        if self._preconditioner is None:
            raise RuntimeError("conjugate gradients were asked for without their preconditioner")
        return refined_gradients(
            lambda V: self.toeplitz.product(V, mu),
            self._preconditioner.at(mu),
            B,
            start=start,
            tolerance=self._tolerance,
            norm=self.toeplitz.norm + mu,
            limit=_LIMIT,
        )

    def _extrapolated(self, mu: float) -> Any | None:
        r"""The best combination of the solutions x_i at earlier μ_i: (T + μ)x_i = e_1 + (μ − μ_i)x_i."""
        if not self._earlier:
            return None
        V = np.stack([x for _, x in self._earlier])
        gaps = np.array([mu - other for other, _ in self._earlier])
        gram = V[:, :1] + (V @ V.T) * gaps[None, :]
        weights = np.linalg.lstsq((gram + gram.T) / 2, V[:, 0], rcond=1e-14)[0]
        return (weights @ V)[None]

    # -- the report ------------------------------------------------------------------------------

    def _residual(self, mu: float, X: Any, B: Any) -> float:
        size = np.linalg.norm(B, axis=1)
        size[size == 0] = 1.0
        worst = np.linalg.norm(B - self.toeplitz.product(X, mu), axis=1) / size
        return float(worst.max(initial=0.0))

    def _note(self, found: Outcome) -> None:
        self.report["iterations"] = max(self.report["iterations"], found.iterations)
        self.report["residual"] = max(self.report["residual"], found.residual)


def _unsolvable(mu: float, why: str) -> UnsolvableError:
    return UnsolvableError(
        f"the Toeplitz matrix plus {mu:.3g}·I cannot be solved with: {why}; {_REMEDY}"
    )


def log_determinant(column: Any) -> float:
    r"""The number log det T of a positive definite Toeplitz T: Durbin's recursion, Σ log of its errors.

    O(n²) time, O(n) memory; raises ``LinAlgError`` if the matrix is not positive definite.
    """
    t = np.asarray(column, dtype=np.float64)
    error, total = float(t[0]), 0.0
    predictor = np.zeros(0)
    for k in range(t.size):
        if not error > 0:
            raise np.linalg.LinAlgError("not positive definite")
        total += float(np.log(error))
        if k + 1 == t.size:
            break
        reflection = (t[k + 1] - predictor @ t[k:0:-1]) / error
        predictor = np.append(predictor - reflection * predictor[::-1], reflection)
        error *= 1.0 - reflection * reflection
    return total
