r"""R(μ) = μ (T + μI)⁻¹ for a symmetric Toeplitz T: O(n) memory, O(n log n) per iteration.

Products with T, the inverse of G = T + μI and preconditioners are those of
:mod:`onefold.smoothers.toeplitz_matrix`.

*With an intercept*, g = G⁻¹1,

    (1)  G_b⁻¹ = G⁻¹ − g gᵀ / (1ᵀg),    R_b = μ G_b⁻¹
    (2)  log det on the complement of 1 = log det G + log (1ᵀg) − log n

*Rows held out*, alone and together:

    (3)  y_i − f_i = (G_b⁻¹ y)_i / (G_b⁻¹)_ii
    (4)  e_J = y_J − f_J = (G_b⁻¹)_JJ⁻¹ (G_b⁻¹ y)_J

Small blocks are formed from the generators of the inverse. Large ones are never formed: conjugate
gradients solve with (G⁻¹)_JJ, a product with which is one with G⁻¹ between zero padding and cutting, and
the border follows,

    (5)  E = (G⁻¹)_JJ⁻¹ (G_b⁻¹ y)_J,    h = (G⁻¹)_JJ⁻¹ g_J,    e_J = E + h (g_JᵀE) / (1ᵀg − g_Jᵀh)

Where J consists of long runs, the inverse of (G⁻¹)_JJ is G_JJ up to what the rows at the ends of the
runs know, so G_JJ is the preconditioner; scattered rows are all but determined by their neighbours and
need none.

*Solving*: Levinson's recursion (SciPy's), O(n²) time and O(n) memory, is quickest for short series.
Conjugate gradients with FFT products and a circulant preconditioner, O(n log n) an iteration, for long
ones. Only x = G⁻¹e_1 is found by iteration: the Gohberg–Semencul formula then gives G⁻¹ of every other
right-hand side, and conjugate gradients polish that where its true residual asks for it. The μ of a call
are solved from the largest down, and the start for the next one is the best combination x = Σ w_i x_i of
the last two solutions, which costs no product:

    (6)  G x_i = e_1 + (μ − μ_i) x_i,    w = argmin ‖x − G⁻¹e_1‖_G

*Indefinite systems.* T of averaged diagonals may be indefinite. Where T + μI is, at μ and at every
smaller one, an :class:`UnsolvableError` says so, or the system is solved (``negative="solve"``): by LU
factors up to 2048 rows, by MINRES with FFT products beyond; where eigenvalues close to 0 make that slow,
by Levinson's recursion, repeated for what its rounding leaves over. There is a solution wherever no
eigenvalue of T + μI is 0, and every identity here but the log-determinant holds for it. What does not
leave a small residual is refused as singular.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from onefold.linalg import Array, HostArray, Index
from onefold.linalg.dense import indefinite_solver
from onefold.linalg.iterate import Map, Solution, refined_gradients
from onefold.machine.threads import cached_property, spans
from onefold.smoothers.base import Flags, Smoother, UnsolvableError
from onefold.smoothers.toeplitz_matrix import (
    DenseInverse,
    GohbergSemencul,
    SymmetricToeplitz,
    deflated_embedding,
    dies_out,
    log_determinant,
    strang_circulant,
    unit_row,
)

# Rows up to which Levinson's recursion is quicker than some tens of FFTs.
SHORT = 1024
# Rows up to which an n × n array costs nothing: 32 MiB.
DENSE = 2048
# Rows up to which Levinson's recursion, O(n²), takes no more than about ten seconds.
_LEVINSON_ROWS = 50_000
# Rows up to which a log-determinant is computed, in O(n²).
_LOGDET_LIMIT = 100_000
# Iterations of conjugate gradients for the system of all rows.
_ITERATIONS = 600
# Iterations of conjugate gradients for a block of held-out rows.
_HELDOUT_ITERATIONS = 2000
# Iterations of MINRES, which take about as long as Levinson's recursion for 20,000 rows.
_MINRES_ITERATIONS = 1000
# Largest relative residual of a solution on a nearly singular matrix; a worse one is refused.
_LOOSE_RESIDUAL = 1e-6
# Largest relative residual of a held-out block: G⁻¹ is known to the solver's tolerance times a condition
# number.
_HELDOUT_RESIDUAL = 1e-7
# Entries of right-hand sides treated in one FFT call.
_ENTRIES_AT_ONCE = 2**18
# Rows in a run, on average, from which G_JJ pays as a preconditioner.
_LONG_RUN = 16
# Times that a solution by Levinson's recursion is refined.
_REFINEMENTS = 4
# Share of the largest singular value: with a smaller one, earlier solutions are linearly dependent.
_DEPENDENT = 1e-14
# Share of the sum of its terms' absolute values at which a sum 1ᵀG⁻¹1 is rounding.
_SINGULAR = 1e-13

Negative: TypeAlias = Literal["raise", "solve"]
"""What to do where T + μI is not positive definite."""

Inverse: TypeAlias = GohbergSemencul | DenseInverse


def solve_rows(
    product: Map, precondition: Map, B: HostArray, start: HostArray | None = None, **settings: Any
) -> Solution:
    """As :func:`refined_gradients`, for functions and right-hand sides by rows."""
    solution = refined_gradients(
        lambda V: product(V.T).T,
        lambda V: precondition(V.T).T,
        B.T,
        start=None if start is None else start.T,
        **settings,
    )
    return replace(solution, X=solution.X.T)


@dataclass(frozen=True)
class _System:
    """G at one μ, solved for some right-hand sides."""

    X: HostArray  # G⁻¹ B by rows
    invert: Callable[[], Inverse]  # computes G⁻¹
    definite: bool  # whether G is positive definite, as far as solving has shown


@dataclass(frozen=True)
class _Descent:
    """What solving for the larger μ of a call leaves for the smaller ones."""

    iterates: bool  # by conjugate gradients, until they have failed once
    columns: tuple[tuple[float, HostArray], ...] = ()  # the last μ, two at most, and their G⁻¹e_1

    def start(self, mu: float) -> HostArray | None:
        r"""(6) as a row (1, n); None before the first solution."""
        if not self.columns:
            return None
        V = np.stack([x for _, x in self.columns])
        steps = np.array([mu - earlier for earlier, _ in self.columns])
        gram = V[:, :1] + (V @ V.T) * steps[None, :]
        weights = np.linalg.lstsq((gram + gram.T) / 2, V[:, 0], rcond=_DEPENDENT)[0]
        return (weights @ V)[None]


@dataclass(frozen=True)
class _Solved:
    """G_b⁻¹ of one μ, by (1)."""

    index: int  # of μ among those asked for
    mu: float
    definite: bool  # whether G is positive definite, as far as solving has shown
    W: HostArray  # G_b⁻¹ Yᵀ by rows (targets, n)
    invert: Callable[[], Inverse]
    g: HostArray  # zeros without a border
    total: float  # 1ᵀg; 1 without a border

    @cached_property
    def inverse(self) -> Inverse:
        """G⁻¹; of an indefinite matrix only where it is asked for."""
        return self.invert()

    def diagonal(self) -> HostArray:
        """The diagonal of G_b⁻¹."""
        return self.inverse.diagonal() - self.g**2 / self.total


@dataclass
class _Findings:
    """What solving has shown about the matrix: it decides what is refused, not what is computed."""

    definite_from: float  # T + μI is known to be positive definite from this μ on
    refused: list[float] = field(default_factory=list)  # each μ that could not be solved with
    definite: dict[float, bool] = field(default_factory=dict)  # for each μ that was solved with


class ToeplitzSmoother(Smoother):
    """R_b(μ) of a Toeplitz matrix by its first column, in O(n) memory per μ. NumPy only.

    `semidefinite`: T is known to be positive semi-definite, as the kernel matrix of a uniform series is.
    `tolerance` is that of the true relative residual. `negative`: whether indefinite systems are solved.
    `report` is written to: solver, reason, iterations, residual, preconditioner, heldout_residual, and
    indefinite_up_to, the largest μ at which an indefinite system was solved.
    """

    def __init__(
        self,
        column: HostArray,
        *,
        intercept: bool,
        semidefinite: bool = False,
        tolerance: float = 1e-10,
        negative: Negative = "raise",
        report: dict[str, Any] | None = None,
    ) -> None:
        self.toeplitz = SymmetricToeplitz(column)
        n = self.toeplitz.n
        super().__init__(n, np.broadcast_to(np.ones(1), n) if intercept else None)
        self._tolerance = tolerance
        self._solves_indefinite = negative == "solve"
        self._findings = _Findings(0.0 if semidefinite else np.inf)
        self.report: dict[str, Any] = {} if report is None else report
        solver = "levinson"
        reason = f"n = {n} ≤ {SHORT}: O(n²) is faster than iterating"
        self._iterates = n > SHORT
        if self._iterates:
            solver = "pcg"
            reason = f"n = {n} > {SHORT}: O(n log n) per iteration"
        self.report.update(solver=solver, reason=reason, iterations=0, residual=0.0)

    def solvable(self, alphas: ArrayLike) -> Flags:
        """Whether each μ may be solved with, as far as earlier calls have shown.

        A caller whose call has failed learns here which μ to leave out of the next one.
        """
        return may_be_solved(alphas, self._findings.refused, indefinite=self._solves_indefinite)

    def require(self, alphas: ArrayLike) -> None:
        """Raise :class:`UnsolvableError` if the system of some μ cannot be solved."""
        for _ in self._each(np.zeros((self.n, 0)), alphas):
            pass

    def _each(self, Y: Array, alphas: ArrayLike) -> Iterator[_Solved]:
        """G_b⁻¹ and what it makes of Y for every μ, from the largest down."""
        values = np.asarray(alphas, dtype=np.float64).reshape(-1)
        B = np.ascontiguousarray(Y.T)
        if self.border is not None:
            # R_b maps constants to 0: without its mean a target has more digits left.
            B = np.vstack([B - B.mean(axis=1, keepdims=True), self.border[None]])
        descent = _Descent(self._iterates)
        for index in np.argsort(-values, kind="stable"):
            mu = float(values[index])
            try:
                system, descent = self._solve(mu, B, descent)
                solved = self._bordered(int(index), mu, system)
            except UnsolvableError:
                self._findings.refused.append(mu)
                raise
            del system
            self._findings.definite[mu] = solved.definite
            yield solved
            del solved  # before the next μ needs the memory

    def _bordered(self, index: int, mu: float, system: _System) -> _Solved:
        """(1), where the last right-hand side is the border if there is one."""
        X = system.X
        if self.border is None:
            return _Solved(index, mu, system.definite, X, system.invert, np.zeros(self.n), 1.0)
        g = X[-1]
        X = X[:-1]
        total = float(g.sum())
        if abs(total) <= _SINGULAR * np.abs(g).sum():
            raise _unsolvable(mu, "with the intercept it is singular")
        X = X - (X.sum(axis=1) / total)[:, None] * g
        return _Solved(index, mu, system.definite, X, system.invert, g, total)

    def _mapped(self, function: Map, alphas: ArrayLike, Y: Array | None = None) -> HostArray:
        """function(G_b⁻¹ at μ, with Y) for every μ: numbers, or with Y arrays of its shape."""
        out = np.empty((np.size(alphas), *(() if Y is None else Y.shape)))
        for solved in self._each(np.zeros((self.n, 0)) if Y is None else Y, alphas):
            out[solved.index] = function(solved)
            del solved  # before the next μ needs the memory
        return out

    def residuals(self, Y: Array, alphas: ArrayLike) -> HostArray:
        """(1)."""
        return self._mapped(lambda solved: solved.mu * solved.W.T, alphas, Y)

    def leave_one_out(self, Y: Array, alphas: ArrayLike) -> HostArray:
        """(3)."""
        return self._mapped(lambda solved: Y - (solved.W / solved.diagonal()).T, alphas, Y)

    def trace(self, alphas: ArrayLike) -> HostArray:
        """μ times the sum of the diagonal of (1)."""
        return self._mapped(lambda solved: solved.mu * solved.diagonal().sum(), alphas)

    def definite(self, alphas: ArrayLike) -> Flags:
        values = np.asarray(alphas, dtype=np.float64).reshape(-1)
        definite = self._findings.definite
        self.require([mu for mu in values if mu not in definite])
        return np.array([definite[mu] for mu in values], dtype=np.bool_)

    def heldout(self, Y: Array, parts: Sequence[Index], alphas: ArrayLike) -> list[Array]:
        """(4)."""
        outs: list[Any] = [np.empty((np.size(alphas), len(rows), Y.shape[1])) for rows in parts]
        for solved in self._each(Y, alphas):
            dense = solved.inverse.block(0, self.n) if self.n <= DENSE else None
            for rows, out in zip(parts, outs):
                try:
                    errors = self._heldout_errors(solved, rows, dense)
                except UnsolvableError:
                    self._findings.refused.append(solved.mu)
                    raise
                out[solved.index] = Y[rows] - errors.T
            del solved, dense
        return outs

    def logdet(self, alphas: ArrayLike) -> HostArray:
        """(2)."""
        if self.n > _LOGDET_LIMIT:
            raise ValueError(
                f"the log-determinant of a Toeplitz matrix takes n² operations, too many for {self.n} "
                'rows; use criterion="press" or "gcv".'
            )

        def logdet_of(solved: _Solved) -> float:
            if not solved.definite:
                return np.nan
            try:
                value = log_determinant(self.toeplitz.shifted(solved.mu))
            except np.linalg.LinAlgError:  # too long for `_levinson` to have found out
                return np.nan
            return value if self.border is None else value + np.log(solved.total) - np.log(self.n)

        return self._mapped(logdet_of, alphas)

    # -- G⁻¹ B and G⁻¹ at one μ ----------------------------------------------------------------------

    def _solve(self, mu: float, B: HostArray, descent: _Descent) -> tuple[_System, _Descent]:
        """G at one μ, solved for the rows of B, and what this leaves for the next μ."""
        try:
            if descent.iterates:
                return self._pcg(mu, B, descent)
            return self._levinson(mu, B), descent
        except UnsolvableError:
            if not self._solves_indefinite:
                raise
        system = self._indefinite_dense(mu, B) if self.n <= DENSE else self._indefinite_iterated(mu, B)
        self._note("indefinite_up_to", mu)
        return system, descent

    def _indefinite_dense(self, mu: float, B: HostArray) -> _System:
        """By LU factors."""
        matrix = scipy.linalg.toeplitz(self.toeplitz.shifted(mu))
        try:
            solve = indefinite_solver(matrix)
        except np.linalg.LinAlgError:
            raise _unsolvable(mu, "it is singular to working precision") from None
        X = np.ascontiguousarray(solve(B.T).T)
        residual = self._residual(mu, X, B)
        if residual > _LOOSE_RESIDUAL:
            raise _unsolvable(mu, f"it is nearly singular (residual {residual:.1g})")
        self._note("residual", residual)
        return _System(X, lambda: DenseInverse(solve, self.n), definite=False)

    def _indefinite_iterated(self, mu: float, B: HostArray) -> _System:
        """By MINRES, and by Levinson's recursion where that leaves a large residual."""

        def solve(rows: HostArray) -> HostArray:
            solution = self._minimal_residuals(
                lambda V: self.toeplitz.product(V, mu), rows, norm=self.toeplitz.norm + mu
            )
            X = solution.X
            residual = float(solution.relative.max(initial=0.0))
            if residual > _LOOSE_RESIDUAL and self.n <= _LEVINSON_ROWS:
                X, residual = self._refined_levinson(mu, rows)
            if not residual <= _LOOSE_RESIDUAL:
                raise _unsolvable(mu, f"a residual of {residual:.1g} is left: it is nearly singular")
            self._note("iterations", solution.iterations)
            self._note("residual", residual)
            return X

        def invert() -> GohbergSemencul:
            return GohbergSemencul(solve(unit_row(self.n))[0], self.toeplitz, indefinite=True)

        return _System(solve(B), invert, definite=False)

    def _refined_levinson(self, mu: float, B: HostArray) -> tuple[HostArray, float]:
        """G⁻¹ B and its residual by Levinson's recursion; it needs no definite G, but loses digits."""
        column = self.toeplitz.shifted(mu)
        X = np.zeros_like(B)
        residual = 1.0
        for _ in range(_REFINEMENTS):
            remaining = B - self.toeplitz.product(X, mu)
            try:
                refined = X + np.atleast_2d(scipy.linalg.solve_toeplitz(column, remaining.T).T)
            except np.linalg.LinAlgError:  # a leading block is singular
                break
            refined_residual = self._residual(mu, refined, B)
            if not refined_residual < residual:
                break
            X = refined
            residual = refined_residual
            if residual <= self._tolerance:
                break
        return X, residual

    def _minimal_residuals(self, product: Map, B: HostArray, *, norm: float) -> Solution:
        """A⁻¹ B by rows for a symmetric A of about this norm, by MINRES."""
        sizes = np.linalg.norm(B, axis=1, keepdims=True)
        sizes[sizes == 0] = 1.0
        solution = solve_rows(
            lambda V: product(V) / norm,  # MINRES compares sizes of A and B: both become 1
            lambda V: V,
            B / sizes,
            tolerance=self._tolerance,
            norm=1.0,
            limit=_MINRES_ITERATIONS,
            definite=False,
        )
        return replace(solution, X=solution.X * (sizes / norm))

    def _residual(self, mu: float, X: HostArray, B: HostArray) -> float:
        """The largest relative residual of G X = B, by rows."""
        residual = np.linalg.norm(B - self.toeplitz.product(X, mu), axis=1)
        size = np.linalg.norm(B, axis=1)
        return float((residual / np.where(size > 0, size, 1.0)).max(initial=0.0))

    def _levinson(self, mu: float, B: HostArray) -> _System:
        column = self.toeplitz.shifted(mu)
        if self.n <= DENSE and mu < self._findings.definite_from:
            dense = scipy.linalg.toeplitz(column)
            try:
                scipy.linalg.cholesky(dense, check_finite=False, overwrite_a=True)
            except np.linalg.LinAlgError:
                raise _unsolvable(mu, "it is not positive definite", indefinite=True) from None
            self._findings.definite_from = mu
        B = np.vstack([B, unit_row(self.n)])
        try:
            X = np.atleast_2d(scipy.linalg.solve_toeplitz(column, B.T).T)
        except np.linalg.LinAlgError:
            raise _unsolvable(mu, "a leading block is singular") from None
        if not np.isfinite(X).all():
            raise _unsolvable(mu, "a leading block is nearly singular")
        residual = self._residual(mu, X, B)
        if residual > _LOOSE_RESIDUAL:
            raise _unsolvable(mu, f"Levinson's recursion lost its digits (residual {residual:.1g})")
        self._note("residual", residual)
        inverse = GohbergSemencul(X[-1], self.toeplitz)
        return _System(X[:-1], lambda: inverse, definite=True)

    @cached_property
    def _preconditioner(self) -> tuple[str, Callable[[float], Map]]:
        """Its name, and μ → (V → M(μ) V)."""
        if dies_out(self.toeplitz):
            return "Strang's circulant", strang_circulant(self.toeplitz)
        return "polynomials and embedded circulant", deflated_embedding(self.toeplitz)

    def _pcg(self, mu: float, B: HostArray, descent: _Descent) -> tuple[_System, _Descent]:
        """By conjugate gradients; where they do not converge, by Levinson's recursion from here on."""
        name, preconditioner = self._preconditioner
        precondition = preconditioner(mu)
        self.report["preconditioner"] = name

        def iterate(rows: HostArray, start: HostArray | None) -> Solution:
            solution = solve_rows(
                lambda V: self.toeplitz.product(V, mu),
                precondition,
                rows,
                start,
                tolerance=self._tolerance,
                norm=self.toeplitz.norm + mu,
                limit=_ITERATIONS,
            )
            if solution.state == "converged":
                self._note("iterations", solution.iterations)
                self._note("residual", float(solution.relative.max(initial=0.0)))
            return solution

        solution = iterate(unit_row(self.n), descent.start(mu))
        if solution.state == "converged":
            first_column = solution.X[0]
            descent = replace(descent, columns=(*descent.columns[-1:], (mu, first_column)))
            inverse = GohbergSemencul(first_column, self.toeplitz)
            X = np.empty_like(B)
            # Few rows at a time where they are long: an FFT gains nothing from more, memory does.
            for rows in spans(B.shape[0], max(1, _ENTRIES_AT_ONCE // self.n)):
                solution = iterate(B[rows], inverse.product(B[rows]))
                if solution.state != "converged":
                    break
                X[rows] = solution.X
            else:
                return _System(X, lambda: inverse, definite=True), descent
        if solution.state == "indefinite":
            why = "conjugate gradients met a direction of negative curvature"
            raise _unsolvable(mu, why, indefinite=True)
        residual = float(solution.relative.max(initial=0.0))
        if self.n <= _LEVINSON_ROWS:
            why = f"conjugate gradients did not converge ({residual:.1g})"
            self.report.update(solver="levinson", reason=why)
            return self._levinson(mu, B), replace(descent, iterates=False)
        raise _unsolvable(
            mu, f"no convergence in {solution.iterations} iterations (residual {residual:.2g})"
        )

    def _note(self, key: str, value: float) -> None:
        """Keep the largest value in the report."""
        self.report[key] = max(self.report.get(key, 0.0), value)

    # -- rows held out together ----------------------------------------------------------------------

    def _heldout_errors(self, solved: _Solved, rows: Index, dense: HostArray | None) -> HostArray:
        """(4) as (targets, |J|); `dense` is G⁻¹ as an array, if it was formed."""
        if np.any(np.diff(rows) < 0):
            raise ValueError("held-out rows must be in ascending order.")
        contiguous = rows.size > 0 and rows[-1] - rows[0] + 1 == rows.size
        if dense is not None:
            block = dense[np.ix_(rows, rows)]
        elif contiguous and rows.size <= DENSE:
            block = solved.inverse.block(rows[0], rows[-1] + 1)
        else:
            return self._iterated_errors(solved, rows)
        self._note("heldout_residual", 0.0)
        g = solved.g[rows]
        block -= g[:, None] * (g / solved.total)[None, :]
        targets = solved.W[:, rows].T
        try:
            if self._solves_indefinite:
                return indefinite_solver(block)(targets).T
            return scipy.linalg.solve(block, targets, assume_a="pos", check_finite=False).T
        except np.linalg.LinAlgError:
            why = "singular" if self._solves_indefinite else "not positive definite"
            raise UnsolvableError(
                f"the block of {rows.size} held-out rows of the Toeplitz matrix's inverse is {why}; use "
                "a larger alpha."
            ) from None

    def _iterated_errors(self, solved: _Solved, rows: Index) -> HostArray:
        """(5)."""
        W = solved.W[:, rows]
        g = solved.g[rows]
        runs = 1 + int(np.count_nonzero(np.diff(rows) > 1))

        def scattered(V: HostArray) -> HostArray:
            out = np.zeros((V.shape[0], self.n))
            out[:, rows] = V
            return out

        def precondition(V: HostArray) -> HostArray:
            if rows.size < _LONG_RUN * runs:
                return V.copy()
            return self.toeplitz.product(scattered(V), solved.mu)[:, rows]

        def product(V: HostArray) -> HostArray:
            return solved.inverse.product(scattered(V))[:, rows]

        targets = np.vstack([W, g[None]])
        if solved.definite:
            solution = solve_rows(
                product,
                precondition,
                targets,
                tolerance=self._tolerance,
                norm=1.0 / solved.mu,
                limit=_HELDOUT_ITERATIONS,
            )
        else:
            norm = 1.0 / (self.toeplitz.norm + solved.mu)  # the order of the smallest eigenvalues
            solution = self._minimal_residuals(product, targets, norm=norm)
        residual = float(solution.relative.max(initial=0.0))
        if solution.state != "converged" and residual > _HELDOUT_RESIDUAL:
            raise UnsolvableError(
                f"the held-out block of {rows.size} rows did not converge (residual {residual:.2g}); "
                'use cv="loo", more folds, or a larger alpha.'
            )
        self._note("heldout_residual", residual)
        E = solution.X[:-1]
        h = solution.X[-1]
        return E + ((E @ g) / (solved.total - g @ h))[:, None] * h


def may_be_solved(alphas: ArrayLike, refused: Sequence[float], *, indefinite: bool) -> Flags:
    """Whether each μ may be solved with, where some were refused.

    An indefinite matrix is so at every smaller μ; where such systems are solved, a matrix is singular
    only at the refused μ themselves.
    """
    values = np.asarray(alphas, dtype=np.float64)
    return ~np.isin(values, refused) if indefinite else values > max(refused, default=-np.inf)


def _unsolvable(mu: float, why: str, *, indefinite: bool = False) -> UnsolvableError:
    """The error of a system at one μ; of an indefinite one it names the setting that solves it."""
    solve = 'Toeplitz(negative="solve"), ' if indefinite else ""
    return UnsolvableError(
        f"the system of the Toeplitz matrix plus {mu:.3g}·I cannot be solved: {why}; use a larger "
        f'alpha or gamma, {solve}or approximation="grid" or "nystroem".'
    )
