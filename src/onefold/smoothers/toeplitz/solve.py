r"""Solving (T + μI) X = B for one T and many μ: which solver, and why.

Levinson's recursion (SciPy's), O(n²) time and O(n) memory, is quickest for short series.

Conjugate gradients with FFT products and a circulant preconditioner, O(n log n) an iteration, for long
ones. Only G⁻¹e_1 is found by iteration: the Gohberg–Semencul formula then gives G⁻¹ of every other
right-hand side, and conjugate gradients polish that where its true residual asks for it. The start
for the next μ is the best combination of the last solutions, which costs no product.

T of averaged diagonals may be indefinite, where Levinson's recursion can break down at a nearly
singular leading block and conjugate gradients have no ground to stand on. Then short matrices are
factorised with symmetric pivoting (Bunch–Kaufman, n ≤ 2048), and long ones solved by MINRES, which
needs symmetry alone; a look-ahead Levinson recursion would have to guess how far to look ahead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import scipy.linalg

from onefold.machine.threads import spans
from onefold.smoothers.toeplitz.inverse import DenseInverse, GohbergSemencul, Inverse
from onefold.smoothers.toeplitz.iterate import Outcome, minimal_residuals, refined_gradients
from onefold.smoothers.toeplitz.preconditioners import Preconditioner, Strang, choose_preconditioner
from onefold.smoothers.toeplitz.products import SymmetricToeplitz

SolverName = Literal["auto", "levinson", "pcg", "minres"]

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
    solver : {"auto", "levinson", "pcg", "minres"}
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
        solver: SolverName,
        semidefinite: bool,
        tolerance: float,
        report: dict[str, Any],
    ) -> None:
        self.toeplitz = toeplitz
        self._auto = solver == "auto"
        self._solver, reason = choose_solver(toeplitz.n, solver)
        self._definite_from = 0.0 if semidefinite else np.inf
        self._tolerance = tolerance
        self._preconditioner: Preconditioner | None = None
        self._earlier: list[tuple[float, Any]] = []
        self.report = report
        report.update(solver=self._solver, reason=reason, iterations=0, residual=0.0)

    def each(self, B: Any, alphas: Any) -> Iterator[tuple[int, float, Any, Inverse]]:
        """(index, μ, G⁻¹B, G⁻¹) for every μ, from the largest down; B holds a vector per row."""
        self._earlier = []
        for index in np.argsort(-np.asarray(alphas), kind="stable"):
            mu = float(alphas[index])
            yield int(index), mu, *self._solve(mu, B)
        self._earlier = []

    def _solve(self, mu: float, B: Any) -> tuple[Any, Inverse]:
        if self._solver == "minres":
            return self._minres(mu, B)
        if self._solver == "pcg":
            return self._pcg(mu, B)
        return self._levinson(mu, B)

    # -- Levinson ------------------------------------------------------------------------------

    def _levinson(self, mu: float, B: Any) -> tuple[Any, Inverse]:
        n = self.toeplitz.n
        if n <= DENSE and not self._is_definite(mu):
            return self._safe(mu, B, "T + μI is indefinite")
        column = self.toeplitz.column.copy()
        column[0] += mu
        unit = np.zeros((1, n))
        unit[0, 0] = 1.0
        try:
            X = np.atleast_2d(scipy.linalg.solve_toeplitz(column, np.vstack([B, unit]).T).T)
        except np.linalg.LinAlgError:
            return self._safe(mu, B, "a leading block of T + μI is singular")
        if not np.isfinite(X).all():
            return self._safe(mu, B, "a leading block of T + μI is nearly singular")
        residual = self._residual(mu, X, np.vstack([B, unit]))
        if residual > _LOOSE:
            return self._safe(mu, B, f"Levinson's recursion lost its digits (residual {residual:.1g})")
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

    def _pcg(self, mu: float, B: Any) -> tuple[Any, Inverse]:
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
            return self._safe(mu, B, "conjugate gradients met a direction of negative curvature")
        if self._auto and self.toeplitz.n <= _LEVINSON_LIMIT:
            self._change("levinson", f"conjugate gradients did not converge ({found.residual:.1g})")
            return self._levinson(mu, B)
        raise ValueError(
            f"the Toeplitz system did not converge in {found.iterations} iterations (alpha {mu:.3g}, "
            f"residual {found.residual:.2g}); {_REMEDY}"
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

    # -- indefinite matrices ---------------------------------------------------------------------

    def _safe(self, mu: float, B: Any, why: str) -> tuple[Any, Inverse]:
        if not self._auto:
            raise ValueError(
                f'solver="{self._solver}" cannot solve this Toeplitz system: {why} (alpha {mu:.3g}); '
                'use solver="auto", or a larger alpha.'
            )
        if self.toeplitz.n > DENSE:
            self._change("minres", why)
            return self._minres(mu, B)
        self._change("dense", why, keep=True)
        try:
            with np.errstate(all="ignore"):
                inverse = scipy.linalg.inv(self.toeplitz.dense(mu), check_finite=False)
        except np.linalg.LinAlgError as error:
            raise ValueError(_singular(mu)) from error
        inverse = (inverse + inverse.T) / 2
        X = B @ inverse
        residual = self._residual(mu, X, B) if np.isfinite(X).all() else np.inf
        if residual > _LOOSE:
            raise ValueError(_singular(mu))
        self._note(Outcome(X, "converged", 0, residual))
        return X, DenseInverse(inverse)

    def _minres(self, mu: float, B: Any) -> tuple[Any, Inverse]:
        unit = np.zeros((1, self.toeplitz.n))
        unit[0, 0] = 1.0
        found = minimal_residuals(
            lambda V: self.toeplitz.product(V, mu),
            Strang(self.toeplitz).at(mu),
            np.vstack([B, unit]),
            tolerance=self._tolerance,
            norm=self.toeplitz.norm + mu,
            limit=10 * _LIMIT,
        )
        if found.state != "converged":
            raise ValueError(
                f"MINRES did not converge on the indefinite Toeplitz system (alpha {mu:.3g}, "
                f"residual {found.residual:.2g}); {_REMEDY}"
            )
        self._note(found)
        return found.X[:-1], GohbergSemencul(found.X[-1], self.toeplitz)

    # -- the report ------------------------------------------------------------------------------

    def _residual(self, mu: float, X: Any, B: Any) -> float:
        size = np.linalg.norm(B, axis=1)
        size[size == 0] = 1.0
        worst = np.linalg.norm(B - self.toeplitz.product(X, mu), axis=1) / size
        return float(worst.max(initial=0.0))

    def _note(self, found: Outcome) -> None:
        self.report["iterations"] = max(self.report["iterations"], found.iterations)
        self.report["residual"] = max(self.report["residual"], found.residual)

    def _change(self, solver: str, why: str, *, keep: bool = False) -> None:
        """Record another solver; `keep` uses it for this μ alone."""
        if not keep:
            self._solver = solver
        self.report.update(solver=solver, reason=why)


def choose_solver(n: int, solver: SolverName) -> tuple[str, str]:
    """The solver to begin with, and why."""
    if solver != "auto":
        return solver, "as asked"
    if n <= SHORT:
        return "levinson", f"n = {n} ≤ {SHORT}: O(n²) is quicker than iterating"
    return "pcg", f"n = {n} > {SHORT}: O(n log n) per iteration"


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


def _singular(mu: float) -> str:
    return f"T + alpha·I is singular at alpha {mu:.6g}; change alpha, or use the exact kernel matrix."
