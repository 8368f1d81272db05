r"""R(μ) = μ (T + μI)⁻¹ for a symmetric Toeplitz T: O(n) memory, O(n log n) per iteration.

*Products* by FFT: T is the leading block of a circulant matrix of length m ≥ 2n whose first column is
t_0 … t_{n−1}, then t_{n−1} … t_1 backwards. Vectors are rows of an array (columns of a right-hand side,
n), so that one FFT call treats them all.

*The inverse* of G = T + μI from its first column (Gohberg–Semencul). With x = G⁻¹e_1, x_0 ≠ 0, and
z = (0, x_{n−1}, …, x_1),

    G⁻¹ = (1/x_0) (L_x L_xᵀ − L_z L_zᵀ)          L_v lower triangular Toeplitz, first column v

so that a product costs six FFTs of length 2n. Written for entries it says that along a diagonal

    G⁻¹_{i+1,j+1} = G⁻¹_{ij} + (x_{i+1} x_{j+1} − z_{i+1} z_{j+1}) / x_0

hence the diagonal in O(n), which leave-one-out and the exact trace need, and a contiguous block of |J|
rows in O(|J|²) after one product. The log-determinant takes Durbin's recursion, O(n²).

*Solving*: Levinson's recursion (SciPy's), O(n²) time and O(n) memory, is quickest for short series.
Conjugate gradients with FFT products and a circulant preconditioner, O(n log n) an iteration, for long
ones. Only G⁻¹e_1 is found by iteration: the formula above then gives G⁻¹ of every other right-hand side,
and conjugate gradients polish that where its true residual asks for it. The start for the next μ is the
best combination of the last solutions, which costs no product.

*Indefinite systems.* T of averaged diagonals may be indefinite. Where T + μI is, at μ and at every
smaller one, an :class:`UnsolvableError` says so, or the system is solved (``negative="solve"``): by LU
factors up to 2048 rows, by MINRES with FFT products beyond; where eigenvalues close to 0 make that slow,
by Levinson's recursion, repeated for what its rounding leaves over. There is a solution wherever no
eigenvalue of T + μI is 0, and every identity here but the log-determinant holds for it. What does not
leave a small residual is refused as singular.

*Preconditioners*. Strang's: the circulant matrix of order n that copies the central diagonals of T. 8 to
40 iterations where the kernel has died out at half the length of the series, whatever n. Deflated
embedding: a kernel that is still alive there is smooth on the scale of the series, and Strang's copy
breaks it at the seam (hundreds of iterations). Then the polynomials of low degree, which carry its large
eigenvalues, are solved exactly, and the rest by the circulant embedding of length 2n, which has no seam
inside the series: 10 to 35 iterations for the rbf kernel. Measured at n = 20,000, residual 1e-10,
μ = 3·10⁻⁵, rbf kernel, γ·(length)² from 0.03 to 30: Strang's and T. Chan's circulants need more than 300
iterations, the embedding alone 36 to 78, deflated 10 to 13.

*Rows held out together*: e_J = (G_b⁻¹)_JJ⁻¹ (G_b⁻¹ y)_J. Small blocks are formed from the generators of
the inverse. Large ones are never formed: conjugate gradients on G⁻¹_JJ, whose product is that of G⁻¹
between zero padding and cutting. Where J consists of long runs, its inverse is G_JJ up to what the rows
at the ends of the runs know, so G_JJ is the preconditioner; scattered rows are all but determined by
their neighbours and need none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy.fft import irfft, next_fast_len, rfft

from onefold.linalg import Array, HostArray, Index
from onefold.linalg.dense import indefinite_solver
from onefold.linalg.iterate import Map, Solution, refined_gradients
from onefold.machine.threads import cached_property, check_stop, spans, thread_budget
from onefold.smoothers.base import Flags, Smoother, UnsolvableError

SHORT = 1024  # up to here Levinson's recursion is quicker than some tens of FFTs
DENSE = 2048  # up to here an n × n array costs nothing
_LEVINSON_LIMIT = 50_000  # O(n²): about ten seconds
_LOGDET_LIMIT = 100_000
_LIMIT = 600  # iterations
_HELDOUT_LIMIT = 2000
_LOOSE = 1e-6  # Levinson's residual on a nearly singular matrix; worse is refused
_ENOUGH = 1e-7  # of held-out blocks: G⁻¹ is known to the solver's tolerance times a condition number
_TOGETHER = 2**18  # entries of right-hand sides treated in one FFT call
_LONG_RUN = 16  # rows in a run, on average, from which G_JJ pays as a preconditioner
_SMALLEST_PIVOT = 1e-8  # of the largest entry of x: below it the formula has no digits left
_DIED_OUT = 1e-10  # of t_0, beyond half the length
_DEGREES = 24  # polynomials of degree 0 … 23
_MINRES_LIMIT = 1000  # iterations, which take about as long as Levinson's recursion for 20,000 rows
_REFINEMENTS = 4  # of a solution by Levinson's recursion
_SINGULAR = 1e-13  # of its terms: a sum 1ᵀG⁻¹1 this small is rounding

Negative: TypeAlias = Literal["raise", "solve"]
"""What to do where T + μI is not positive definite."""


class SymmetricToeplitz:
    """T from its first column (n,); three arrays of n."""

    def __init__(self, column: HostArray) -> None:
        self.column = np.asarray(column, dtype=np.float64)
        self.n = self.column.size
        self.length = next_fast_len(2 * self.n, real=True)
        embedded = np.full(self.length, self.column[-1])  # the gap goes on at the last value: no jump
        embedded[: self.n] = self.column
        if self.n > 1:
            embedded[-(self.n - 1) :] = self.column[:0:-1]
        self.spectrum = rfft(embedded).real.copy()  # a view would keep the imaginary part
        self.norm = float(np.abs(self.spectrum).max())  # an upper bound of ‖T‖₂

    def product(self, V: HostArray, shift: float = 0.0) -> HostArray:
        """(T + shift·I) v for every row v of V."""
        check_stop()
        out = _filtered(V, self.spectrum, self.length)[..., : self.n]
        if shift:
            out = out + shift * V
        return out

    def shifted(self, shift: float) -> HostArray:
        """The first column of T + shift·I."""
        column = self.column.copy()
        column[0] += shift
        return column


def _filtered(V: HostArray, weights: HostArray, length: int) -> HostArray:
    """Rows of V, continued by zeros to `length`, with their frequencies weighted."""
    transformed = rfft(V, length, axis=-1, workers=thread_budget())
    transformed *= weights
    return irfft(transformed, length, axis=-1, workers=thread_budget(), overwrite_x=True)


class GohbergSemencul:
    """G⁻¹ from its first column x; five arrays of n."""

    def __init__(self, x: HostArray, toeplitz: SymmetricToeplitz, *, indefinite: bool = False) -> None:
        pivot = abs(x[0]) if indefinite else x[0]
        if pivot <= _SMALLEST_PIVOT * np.abs(x).max():
            raise UnsolvableError(
                "the Toeplitz matrix has a leading block that is singular or not positive definite, so "
                'that its inverse cannot be computed; use a larger alpha, or approximation="exact".'
            )
        self._x = x
        self._n = x.size
        self._length = toeplitz.length
        self._Fx = rfft(self._x, self._length)
        self._Fz = rfft(_reversed(x), self._length)

    def product(self, V: HostArray) -> HostArray:
        """G⁻¹ v for every row v of V."""
        transformed = rfft(V, self._length, axis=-1, workers=thread_budget())
        left = self._Fx.conj() * transformed
        transformed *= self._Fz.conj()
        left = self._truncated(left)
        left *= self._Fx
        transformed = self._truncated(transformed)
        transformed *= self._Fz
        left -= transformed
        del transformed
        out = irfft(left, self._length, axis=-1, workers=thread_budget(), overwrite_x=True)
        return out[..., : self._n] / self._x[0]

    def _truncated(self, transformed: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """The transform of the first n entries alone."""
        values = irfft(transformed, self._length, axis=-1, workers=thread_budget(), overwrite_x=True)
        values[..., self._n :] = 0.0
        return rfft(values, axis=-1, workers=thread_budget(), overwrite_x=True)

    def diagonal(self) -> HostArray:
        """Its diagonal (n,)."""
        # The diagonal reads the same from both ends; the first half has the fewer roundings.
        n = self._n
        half = (self._n + 1) // 2
        first = np.cumsum(self._x[:half] ** 2 - _reversed(self._x)[:half] ** 2) / self._x[0]
        return np.concatenate([first, first[: n - half][::-1]])

    def block(self, start: int, stop: int) -> HostArray:
        """G⁻¹ on the contiguous rows start … stop − 1."""
        size = stop - start
        x = self._x[start:stop]
        z = _reversed(self._x)[start:stop]
        block = np.empty((size, size))
        block[0] = self.product(_unit(self._n, start))[0, start:stop]
        for i in range(1, size):
            block[i, i:] = block[i - 1, i - 1 : -1]
            block[i, i:] += (x[i] / self._x[0]) * x[i:] - (z[i] / self._x[0]) * z[i:]
            block[i, :i] = block[:i, i]
        block[:, 0] = block[0]
        return block


class DenseInverse:
    """G⁻¹ of a short indefinite G, as an n × n array."""

    def __init__(self, solve: Map, n: int) -> None:
        self._inverse = solve(np.eye(n))

    def product(self, V: HostArray) -> HostArray:
        """G⁻¹ v for every row v of V."""
        return V @ self._inverse

    def diagonal(self) -> HostArray:
        """Its diagonal (n,)."""
        return np.diagonal(self._inverse)

    def block(self, start: int, stop: int) -> HostArray:
        """G⁻¹ on the contiguous rows start … stop − 1, as a copy."""
        return self._inverse[start:stop, start:stop].copy()


def _reversed(x: HostArray) -> HostArray:
    """The vector z of the formula."""
    return np.concatenate([np.zeros(1), x[:0:-1]])


def _unit(n: int, place: int = 0) -> HostArray:
    """The unit vector of a place as a row (1, n)."""
    unit = np.zeros((1, n))
    unit[0, place] = 1.0
    return unit


# -- preconditioners: approximations of (T + μI)⁻¹ for every μ, symmetric and positive definite --------


def strang_circulant(toeplitz: SymmetricToeplitz) -> Callable[[float], Map]:
    """μ → (V → M(μ)⁻¹ V): the circulant matrix of order n with t_j for j ≤ n/2."""
    n = toeplitz.n
    half = toeplitz.n // 2 + 1
    column = toeplitz.column.copy()
    column[half:] = toeplitz.column[1 : n - half + 1][::-1]
    eigenvalues = np.maximum(rfft(column).real, 0.0)

    def at(mu: float) -> Map:
        weights = 1.0 / (eigenvalues + mu)
        return lambda V: _filtered(V, weights, n)

    return at


def deflated_embedding(toeplitz: SymmetricToeplitz) -> Callable[[float], Map]:
    """Low polynomials exactly, the rest by the embedding of length 2n; `_DEGREES` arrays of n."""
    n = toeplitz.n
    length = 0.0
    points = np.linspace(-1.0, 1.0, n)
    Q = np.full((min(_DEGREES, n), n), n**-0.5)
    for k in range(1, len(Q)):  # orthonormal to rounding while k ≪ √n
        Q[k] = points * Q[k - 1] - length * Q[k - 2]
        length = float(np.linalg.norm(Q[k]))
        Q[k] /= length
    # A row at a time: the transforms of all at once would double the memory.
    small = np.stack([Q @ toeplitz.product(q) for q in Q])
    values, vectors = np.linalg.eigh((small + small.T) / 2)

    def at(mu: float) -> Map:
        weights = 1.0 / (np.maximum(toeplitz.spectrum, 0.0) + mu)
        inner = (vectors / (np.maximum(values, 0.0) + mu)) @ vectors.T

        def apply(V: HostArray) -> HostArray:
            parts = V @ Q.T
            Z = _filtered(V - parts @ Q, weights, toeplitz.length)[..., :n]
            return Z + (parts @ inner - Z @ Q.T) @ Q

        return apply

    return at


def dies_out(toeplitz: SymmetricToeplitz) -> bool:
    """Whether the kernel has died out at half the length."""
    tail = toeplitz.column[toeplitz.n // 2 :]
    return float(np.abs(tail).max()) <= _DIED_OUT * abs(float(toeplitz.column[0]))


# -- solving -------------------------------------------------------------------------------------------


def solve_rows(
    product: Map, precondition: Map, B: HostArray, start: HostArray | None = None, **settings: Any
) -> Solution:
    """As :func:`refined_gradients`, for functions and right-hand sides by rows."""
    found = refined_gradients(
        lambda V: product(V.T).T,
        lambda V: precondition(V.T).T,
        B.T,
        start=None if start is None else start.T,
        **settings,
    )
    return replace(found, X=found.X.T)


def log_determinant(column: HostArray) -> float:
    r"""The number log det T of a positive definite Toeplitz T: Durbin's recursion, Σ log of its errors.

    O(n²) time, O(n) memory; raises ``LinAlgError`` if the matrix is not positive definite.
    """
    t = np.asarray(column, dtype=np.float64)
    error = float(t[0])
    total = 0.0
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


# -- the smoother --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Solved:
    """G_b⁻¹ of one μ: with a border G_b⁻¹ = G⁻¹ − g gᵀ / (1ᵀg), g = G⁻¹1."""

    index: int  # of μ among those asked for
    mu: float
    definite: bool  # whether G is positive definite, as far as solving has shown
    W: HostArray  # G_b⁻¹ Yᵀ by rows (targets, n)
    invert: Callable[[], GohbergSemencul | DenseInverse]
    g: HostArray  # zeros without a border
    total: float  # 1ᵀg; 1 without a border

    @cached_property
    def inverse(self) -> GohbergSemencul | DenseInverse:
        """G⁻¹; of an indefinite matrix only where it is asked for."""
        return self.invert()

    def diagonal(self) -> HostArray:
        """The diagonal of G_b⁻¹."""
        return self.inverse.diagonal() - self.g**2 / self.total


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
        self._refused: list[float] = []  # each μ that could not be solved with
        self._is_definite: dict[float, bool] = {}  # whether T + μI is, for each μ that was solved with
        self._definite_from = 0.0 if semidefinite else np.inf
        self._preconditioner: Callable[[float], Map] | None = None
        self._earlier: list[tuple[float, HostArray]] = []
        self.report: dict[str, Any] = {} if report is None else report
        solver = "levinson"
        reason = f"n = {n} ≤ {SHORT}: O(n²) is faster than iterating"
        self._iterates = n > SHORT
        if self._iterates:
            solver = "pcg"
            reason = f"n = {n} > {SHORT}: O(n log n) per iteration"
        self.report.update(solver=solver, reason=reason, iterations=0, residual=0.0)

    def solvable(self, alphas: ArrayLike) -> Flags:
        """Whether each μ may be solved with, as far as has turned out."""
        return may_be_solved(alphas, self._refused, indefinite=self._solves_indefinite)

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
        self._earlier = []
        for index in np.argsort(-values, kind="stable"):
            mu = float(values[index])
            try:
                X, invert, definite = self._solve(mu, B)
                g = np.zeros(self.n)
                total = 1.0
                if self.border is not None:
                    g = X[-1]
                    X = X[:-1]
                    total = float(g.sum())
                    if abs(total) <= _SINGULAR * np.abs(g).sum():
                        raise _unsolvable(mu, "with the intercept it is singular")
                    X = X - (X.sum(axis=1) / total)[:, None] * g
            except UnsolvableError:
                self._refused.append(mu)
                raise
            self._is_definite[mu] = definite
            yield _Solved(int(index), mu, definite, X, invert, g, total)
            del X, invert, g  # before the next μ needs the memory
        self._earlier = []

    def _mapped(self, function: Map, alphas: ArrayLike, Y: Array | None = None) -> HostArray:
        """function(G_b⁻¹ at μ, with Y) for every μ: numbers, or with Y arrays of its shape."""
        out = np.empty((np.size(alphas), *(() if Y is None else Y.shape)))
        for solved in self._each(np.zeros((self.n, 0)) if Y is None else Y, alphas):
            out[solved.index] = function(solved)
            del solved  # before the next μ needs the memory
        return out

    def residuals(self, Y: Array, alphas: ArrayLike) -> HostArray:
        return self._mapped(lambda solved: solved.mu * solved.W.T, alphas, Y)

    def leave_one_out(self, Y: Array, alphas: ArrayLike) -> HostArray:
        return self._mapped(lambda solved: Y - (solved.W / solved.diagonal()).T, alphas, Y)

    def trace(self, alphas: ArrayLike) -> HostArray:
        return self._mapped(lambda solved: solved.mu * solved.diagonal().sum(), alphas)

    def definite(self, alphas: ArrayLike) -> Flags:
        values = np.asarray(alphas, dtype=np.float64).reshape(-1)
        self.require([mu for mu in values if mu not in self._is_definite])
        return np.array([self._is_definite[mu] for mu in values], dtype=np.bool_)

    def heldout(self, Y: Array, parts: Sequence[Index], alphas: ArrayLike) -> list[Array]:
        outs: list[Any] = [np.empty((np.size(alphas), len(rows), Y.shape[1])) for rows in parts]
        for solved in self._each(Y, alphas):
            whole = solved.inverse.block(0, self.n) if self.n <= DENSE else None
            for rows, out in zip(parts, outs):
                try:
                    errors = self._heldout_errors(solved, rows, whole)
                except UnsolvableError:
                    self._refused.append(solved.mu)
                    raise
                out[solved.index] = Y[rows] - errors.T
            del solved, whole
        return outs

    def logdet(self, alphas: ArrayLike) -> HostArray:
        if self.n > _LOGDET_LIMIT:
            raise ValueError(
                f"the log-determinant of a Toeplitz matrix takes n² operations, too many for {self.n} "
                'rows; use criterion="press" or "gcv".'
            )

        def one(solved: _Solved) -> float:
            if not solved.definite:
                return np.nan
            try:
                value = log_determinant(self.toeplitz.shifted(solved.mu))
            except np.linalg.LinAlgError:  # too long for `_levinson` to have found out
                return np.nan
            return value if self.border is None else value + np.log(solved.total) - np.log(self.n)

        return self._mapped(one, alphas)

    # -- G⁻¹ B and G⁻¹ at one μ ----------------------------------------------------------------------

    def _solve(
        self, mu: float, B: HostArray
    ) -> tuple[HostArray, Callable[[], GohbergSemencul | DenseInverse], bool]:
        """G⁻¹ B by rows, what computes G⁻¹, and whether G is positive definite."""
        try:
            X, inverse = (self._pcg if self._iterates else self._levinson)(mu, B)
        except UnsolvableError:
            if not self._solves_indefinite:
                raise
        else:
            return X, lambda: inverse, True
        short = self.n <= DENSE
        X, invert = (self._indefinite_dense if short else self._indefinite_iterated)(mu, B)
        self._note("indefinite_up_to", mu)
        return X, invert, False

    def _indefinite_dense(self, mu: float, B: HostArray) -> tuple[HostArray, Callable[[], DenseInverse]]:
        """G⁻¹ B by rows and what computes G⁻¹, from LU factors."""
        matrix = scipy.linalg.toeplitz(self.toeplitz.shifted(mu))
        try:
            solve = indefinite_solver(matrix)
        except np.linalg.LinAlgError:
            raise _unsolvable(mu, "it is singular to working precision") from None
        X = np.ascontiguousarray(solve(B.T).T)
        residual = self._residual(mu, X, B)
        if residual > _LOOSE:
            raise _unsolvable(mu, f"it is nearly singular (residual {residual:.1g})")
        self._note("residual", residual)
        return X, lambda: DenseInverse(solve, self.n)

    def _indefinite_iterated(
        self, mu: float, B: HostArray
    ) -> tuple[HostArray, Callable[[], GohbergSemencul]]:
        """The same by MINRES, and by Levinson's recursion where that leaves a large residual."""

        def solve(rows: HostArray) -> HostArray:
            solution = self._minimal_residuals(
                lambda V: self.toeplitz.product(V, mu), rows, norm=self.toeplitz.norm + mu
            )
            X = solution.X
            residual = float(solution.residual.max(initial=0.0))
            if residual > _LOOSE and self.n <= _LEVINSON_LIMIT:
                X, residual = self._refined_levinson(mu, rows)
            if not residual <= _LOOSE:
                raise _unsolvable(mu, f"a residual of {residual:.1g} is left: it is nearly singular")
            self._note("iterations", solution.iterations)
            self._note("residual", residual)
            return X

        def invert() -> GohbergSemencul:
            return GohbergSemencul(solve(_unit(self.n))[0], self.toeplitz, indefinite=True)

        return solve(B), invert

    def _refined_levinson(self, mu: float, B: HostArray) -> tuple[HostArray, float]:
        """G⁻¹ B and its residual by Levinson's recursion; it needs no definite G, but loses digits."""
        column = self.toeplitz.shifted(mu)
        X = np.zeros_like(B)
        residual = 1.0
        for _ in range(_REFINEMENTS):
            left = B - self.toeplitz.product(X, mu)
            try:
                tried = X + np.atleast_2d(scipy.linalg.solve_toeplitz(column, left.T).T)
            except np.linalg.LinAlgError:  # a leading block is singular
                break
            smaller = self._residual(mu, tried, B)
            if not smaller < residual:
                break
            X = tried
            residual = smaller
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
            limit=_MINRES_LIMIT,
            definite=False,
        )
        return replace(solution, X=solution.X * (sizes / norm))

    def _residual(self, mu: float, X: HostArray, B: HostArray) -> float:
        """The largest relative residual of G X = B, by rows."""
        left, size = (np.linalg.norm(V, axis=1) for V in (B - self.toeplitz.product(X, mu), B))
        return float((left / np.where(size > 0, size, 1.0)).max(initial=0.0))

    def _levinson(self, mu: float, B: HostArray) -> tuple[HostArray, GohbergSemencul]:
        column = self.toeplitz.shifted(mu)
        if self.n <= DENSE and mu < self._definite_from:  # known for larger μ from smaller ones
            dense = scipy.linalg.toeplitz(column)
            try:
                scipy.linalg.cholesky(dense, check_finite=False, overwrite_a=True)
            except np.linalg.LinAlgError:
                raise _unsolvable(mu, "it is not positive definite", indefinite=True) from None
            self._definite_from = mu
        B = np.vstack([B, _unit(self.n)])
        try:
            X = np.atleast_2d(scipy.linalg.solve_toeplitz(column, B.T).T)
        except np.linalg.LinAlgError:
            raise _unsolvable(mu, "a leading block is singular") from None
        if not np.isfinite(X).all():
            raise _unsolvable(mu, "a leading block is nearly singular")
        residual = self._residual(mu, X, B)
        if residual > _LOOSE:
            raise _unsolvable(mu, f"Levinson's recursion lost its digits (residual {residual:.1g})")
        self._note("residual", residual)
        return X[:-1], GohbergSemencul(X[-1], self.toeplitz)

    def _pcg(self, mu: float, B: HostArray) -> tuple[HostArray, GohbergSemencul]:
        if self._preconditioner is None:
            short = dies_out(self.toeplitz)
            self._preconditioner = (strang_circulant if short else deflated_embedding)(self.toeplitz)
            name = "Strang's circulant" if short else "polynomials and embedded circulant"
            self.report["preconditioner"] = name
        precondition = self._preconditioner(mu)

        def iterate(rows: HostArray, start: HostArray | None) -> Solution:
            found = solve_rows(
                lambda V: self.toeplitz.product(V, mu),
                precondition,
                rows,
                start,
                tolerance=self._tolerance,
                norm=self.toeplitz.norm + mu,
                limit=_LIMIT,
            )
            if found.state == "converged":
                self._note("iterations", found.iterations)
                self._note("residual", float(found.residual.max(initial=0.0)))
            return found

        found = iterate(_unit(self.n), self._extrapolated(mu))
        if found.state == "converged":
            self._earlier = [*self._earlier[-1:], (mu, found.X[0])]
            inverse = GohbergSemencul(found.X[0], self.toeplitz)
            X = np.empty_like(B)
            # Few rows at a time where they are long: an FFT gains nothing from more, memory does.
            for rows in spans(B.shape[0], max(1, _TOGETHER // self.n)):
                found = iterate(B[rows], inverse.product(B[rows]))
                if found.state != "converged":
                    break
                X[rows] = found.X
            else:
                return X, inverse
        if found.state == "indefinite":
            why = "conjugate gradients met a direction of negative curvature"
            raise _unsolvable(mu, why, indefinite=True)
        residual = float(found.residual.max(initial=0.0))
        if self.n <= _LEVINSON_LIMIT:
            why = f"conjugate gradients did not converge ({residual:.1g})"
            self.report.update(solver="levinson", reason=why)
            self._iterates = False
            return self._levinson(mu, B)
        raise _unsolvable(
            mu, f"no convergence in {found.iterations} iterations (residual {residual:.2g})"
        )

    def _extrapolated(self, mu: float) -> HostArray | None:
        r"""The best combination of the solutions x_i at earlier μ_i: (T + μ)x_i = e_1 + (μ − μ_i)x_i."""
        if not self._earlier:
            return None
        V = np.stack([x for _, x in self._earlier])
        steps = np.array([mu - other for other, _ in self._earlier])
        gram = V[:, :1] + (V @ V.T) * steps[None, :]
        weights = np.linalg.lstsq((gram + gram.T) / 2, V[:, 0], rcond=1e-14)[0]
        return (weights @ V)[None]

    def _note(self, key: str, value: float) -> None:
        """Keep the largest value in the report."""
        self.report[key] = max(self.report.get(key, 0.0), value)

    # -- rows held out together ----------------------------------------------------------------------

    def _heldout_errors(self, solved: _Solved, rows: Index, whole: HostArray | None) -> HostArray:
        """Residuals (targets, |J|) of the rows J left out together; `whole` is the dense G⁻¹, if any."""
        if np.any(np.diff(rows) < 0):
            raise ValueError("held-out rows must be in ascending order.")
        contiguous = rows.size > 0 and rows[-1] - rows[0] + 1 == rows.size
        if whole is not None:
            block = whole[np.ix_(rows, rows)]
        elif contiguous and rows.size <= DENSE:
            block = solved.inverse.block(rows[0], rows[-1] + 1)
        else:
            return self._iterated_errors(solved, rows)
        self._note("heldout_residual", 0.0)
        part = solved.g[rows]
        block -= part[:, None] * (part / solved.total)[None, :]
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
            found = solve_rows(
                product,
                precondition,
                targets,
                tolerance=self._tolerance,
                norm=1.0 / solved.mu,
                limit=_HELDOUT_LIMIT,
            )
        else:
            norm = 1.0 / (self.toeplitz.norm + solved.mu)  # the order of the smallest eigenvalues
            found = self._minimal_residuals(product, targets, norm=norm)
        residual = float(found.residual.max(initial=0.0))
        if found.state != "converged" and residual > _ENOUGH:
            raise UnsolvableError(
                f"the held-out block of {rows.size} rows did not converge (residual {residual:.2g}); "
                'use cv="loo", more folds, or a larger alpha.'
            )
        self._note("heldout_residual", residual)
        E = found.X[:-1]
        h = found.X[-1]
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
