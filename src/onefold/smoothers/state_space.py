r"""R(μ) = μ (K + μI)⁻¹ of a Matérn kernel at any points of a line: O(n) time and memory for each μ.

A Matérn kernel of ν = p − 1/2, p = 1, 2 or 3, is the covariance of a stationary Gaussian process f whose
state x = (f, f', …, f⁽ᵖ⁻¹⁾) is Markov. Distances and derivatives are in units in which the kernel is a
polynomial times exp(−distance). With the rows in the order of their points, Δ_i the distance between
rows i and i + 1, h = (1, 0, …), v_i the weights and G = K + μV⁻¹,

    (1)  k(s) = exp(−s) · {1;  1 + s;  1 + s + s²/3}                     P_∞ the covariance of the state
    (2)  x_{i+1} = A_i x_i + q_i,    A_i = exp(F Δ_i)                    exp(−Δ) times polynomials of Δ
    (3)  q_i ~ N(0, Q_i),    Q_i = ∫₀^Δ exp(Fu) b bᵀ exp(Fᵀu) du         sums of ∫₀^Δ uᵏ exp(−2u) du
    (4)  Q_i = U_i D_i U_iᵀ                                              U unit upper triangular

Q = P_∞ − A P_∞ Aᵀ as well, but that cancels for short steps: entries fall as Δ⁵. The integrals in (3)
are incomplete gamma functions, summed as series of positive terms where Δ is short.

*Forwards* (Kalman's filter). P_i is the covariance of x_i given the rows before i, kept as L D Lᵀ with L
unit lower triangular. The observed number comes first, so that an observation of precision
w_i = v_i / μ changes one number, and nothing is subtracted:

    (5)  C_i = P_i hᵀ,    F_i = C_i0 + 1/w_i,    F_i⁻¹ = w_i / (1 + w_i C_i0)
    (6)  D_0 ← D_0 / (1 + w_i C_i0)                                      the covariance after row i
    (7)  L D Lᵀ ← A_i L D Lᵀ A_iᵀ + U_i D_i U_iᵀ                         Gram–Schmidt on [A_i L, U_i]
    (8)  e_i = y_i − h a_i,    a_{i+1} = A_i (a_i + C_i F_i⁻¹ e_i)       innovations, from a_0 = 0

*Backwards* (de Jong's smoother), from r = 0 and N = 0 after the last row:

    (9)   r̃_i = A_iᵀ r_i,    ε_i = e_i − C_iᵀ r̃_i,    r_{i−1} = r̃_i + hᵀ F_i⁻¹ ε_i
    (10)  Ñ_i = A_iᵀ N_i A_i,    J_i = I − C_i h F_i⁻¹,    N_{i−1} = hᵀ h F_i⁻¹ + J_iᵀ Ñ_i J_i
    (11)  (G⁻¹ y)_i = F_i⁻¹ ε_i,    (G⁻¹)_ii = F_i⁻¹ + F_i⁻² C_iᵀ Ñ_i C_i,    log det G = Σ log F_i

A row of precision 0 is no observation: F⁻¹ = 0, and its ε_i = y_i − f(x_i) is the residual of the model
trained without it. So rows J held out together, in any places, take a pass without them.

With an intercept, u = G⁻¹1 and z = G⁻¹y, over the rows that the model is trained on,

    (12)  b = 1ᵀz / 1ᵀu,    G_b⁻¹ y = z − b u,    (G_b⁻¹)_ii = (G⁻¹)_ii − u_i² / 1ᵀu,    ε ← ε_y − b ε_1
    (13)  y_i − f(x_i) = ε_i / (w_i F_i) = ε_i / (1 + w_i C_i0)                            of every row

The other smoothers' matrix is SKS with S = √V, and their border is √v. In these terms R_b is
μ S⁻¹ G_b⁻¹ S⁻¹, and R_b S y = S (y − f). Where (12) leaves less than a thousandth of a diagonal entry,
as of a row with nearly all the weight, that row is left out literally.

Different μ and different J are passes of their own, which run side by side in threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from onefold.linalg import Array, HostArray, Index, as_vector, host_array
from onefold.machine.extras import pip_install
from onefold.machine.threads import cached_property, map_all
from onefold.smoothers.base import Flags, Smoother, UnsolvableError

# In units of (1): exp(−step) is 0 in float64 from 746 on.
LONGEST_STEP = 800.0
# Share of a diagonal entry of G⁻¹: where (12) leaves less of it, the intercept has taken its digits.
_LEAST_SHARE = 1e-3
# P_∞ of (1) as L D Lᵀ, by the dimension of the state: D on the diagonal, L below it.
_STATIONARY = {
    1: np.array([[1.0]]),
    2: np.array([[1.0, 0.0], [0.0, 1.0]]),
    3: np.array([[1.0, 0.0, 0.0], [0.0, 1 / 3, 0.0], [-1 / 3, 0.0, 8 / 9]]),
}


@cache
def _loops() -> Any | None:
    """The compiled recursions, or None without a Numba that works with this NumPy."""
    try:
        from onefold.smoothers import state_space_loops
    except ImportError:
        return None
    return state_space_loops


def missing_numba() -> str | None:
    """Why there are no compiled recursions, and the command that installs them; None if there are."""
    if _loops() is not None:
        return None
    return f"its loops over rows are compiled by Numba, which is not installed; {pip_install('fast')}"


class Chain:
    """A_i and the factors of Q_i between neighbours, (2) to (4): the same for every μ."""

    def __init__(self, steps: HostArray, dimension: int) -> None:
        size = (len(steps), dimension, dimension)
        self.loops = cast(Any, _loops())
        self.h = (1.0, *[0.0] * (dimension - 1))
        self.stationary = _STATIONARY[dimension]
        self.A = np.empty(size)
        self.noise = np.empty(size)
        self.loops.fill_transitions(np.minimum(steps, LONGEST_STEP), self.h, self.A, self.noise)


class KalmanFilter:
    """The filter (5) to (7), and what the smoother makes of it, for one precision of every row."""

    def __init__(self, chain: Chain, mu: float, precision: HostArray) -> None:
        self._chain = chain
        self._precision = precision
        self.mu = mu
        self.C = np.empty((len(precision), len(chain.h)))
        chain.loops.fill_covariances(chain.A, chain.noise, chain.stationary, precision, chain.h, self.C)

    @cached_property
    def noise_share(self) -> HostArray:
        """1 / (w F) of every row, as in (13): the part of an innovation's variance that is noise."""
        return 1.0 / (1.0 + self._precision * self.C[:, 0])

    @cached_property
    def inverse(self) -> HostArray:
        """F⁻¹ of every row, (5)."""
        return self._precision * self.noise_share

    @property
    def trained(self) -> Flags:
        """Which rows are observed."""
        return self._precision > 0

    def errors(self, Y: HostArray) -> HostArray:
        """ε of every row for every column of Y (n, columns), (8) and (9)."""
        chain = self._chain
        Y = np.ascontiguousarray(Y)
        E = np.empty_like(Y)
        chain.loops.fill_innovations(chain.A, self.C, self.inverse, Y, chain.h, E)
        chain.loops.smooth_innovations(chain.A, self.C, self.inverse, chain.h, E)
        return E

    def diagonal(self) -> HostArray:
        """The diagonal of G⁻¹, (10) and (11)."""
        chain = self._chain
        values = np.empty(len(self._precision))
        chain.loops.fill_diagonal(chain.A, self.C, self._precision, chain.h, values)
        return values


@dataclass(frozen=True)
class Solved:
    """The targets at one μ, trained on the rows of positive precision."""

    kalman: KalmanFilter
    targets: HostArray  # y (n, targets), 0 for rows left out
    errors: HostArray  # ε_b
    constant: HostArray | None  # u = G⁻¹1; None without an intercept
    intercept: HostArray  # b (targets,); zeros without an intercept

    @property
    def duals(self) -> HostArray:
        """G_b⁻¹ y (n, targets): the coefficients of the kernel expansion, 0 for rows left out."""
        return self.kalman.inverse[:, None] * self.errors

    @property
    def residuals(self) -> HostArray:
        """y − f(x) (n, targets), (13)."""
        return self.kalman.noise_share[:, None] * self.errors

    @property
    def fitted(self) -> HostArray:
        """f(x) (n, targets), of rows left out too."""
        return self.targets - self.residuals

    def diagonal(self) -> tuple[HostArray, HostArray]:
        """(12): the diagonal of G_b⁻¹, and the share of that of G⁻¹ which the intercept leaves."""
        diagonal = self.kalman.diagonal()
        if self.constant is None:
            return diagonal, np.ones(len(diagonal))
        bordered = diagonal - self.constant * (self.constant / self.constant.sum())
        return bordered, bordered / diagonal


class StateSpaceSmoother(Smoother):
    """R_b(μ) of rows in ascending order of their points, `steps` apart (n − 1,) in units of (1)."""

    def __init__(
        self, steps: HostArray, dimension: int, *, root: HostArray | None, intercept: bool
    ) -> None:
        n = len(steps) + 1
        self.root = np.ones(n) if root is None else root
        super().__init__(n, self.root if intercept else None)
        self._chain = Chain(steps, dimension)

    def filter_without(self, left_out: Index | None, mu: float) -> KalmanFilter:
        """The filter of all rows but some, at one μ."""
        with np.errstate(over="ignore"):
            precision = self.root**2 / mu
        if left_out is not None:
            precision[left_out] = 0.0
        if not np.isfinite(precision).all():
            raise UnsolvableError(
                f"weights divided by {mu:.3g} leave float64's range; use a larger alpha."
            )
        return KalmanFilter(self._chain, mu, precision)

    def solve(self, Y: Array, kalman: KalmanFilter) -> Solved:
        """(12) for the targets S Y; those of rows left out are not looked at."""
        y = np.where(kalman.trained[:, None], host_array(Y) / self.root[:, None], 0.0)
        if self.border is None:
            return Solved(kalman, y, kalman.errors(y), None, np.zeros(y.shape[1]))
        bordered = kalman.errors(np.hstack([y, np.ones((self.n, 1))]))
        errors = bordered[:, :-1]
        errors_of_ones = bordered[:, -1]
        constant = kalman.inverse * errors_of_ones
        with np.errstate(over="ignore", invalid="ignore"):  # of a ridge near the end of float64's range
            intercept = kalman.inverse @ errors / constant.sum()
        return Solved(kalman, y, errors - errors_of_ones[:, None] * intercept, constant, intercept)

    def _each(self, Y: Array, alphas: ArrayLike, function: Any) -> list[Any]:
        """function(solved) for every μ, side by side in threads."""

        def solved(mu: float) -> Any:
            return function(self.solve(Y, self.filter_without(None, mu)))

        return map_all(solved, as_vector(alphas).tolist())

    def residuals(self, Y: Array, alphas: ArrayLike) -> HostArray:
        """(13), times √weights."""
        root = self.root[:, None]
        return np.stack(self._each(Y, alphas, lambda solved: root * solved.residuals))

    def leave_one_out(self, Y: Array, alphas: ArrayLike) -> HostArray:
        """From the coefficients over the diagonal in (12)."""
        return np.stack(self._each(Y, alphas, partial(self._leave_one_out, Y)))

    def _leave_one_out(self, Y: Array, solved: Solved) -> HostArray:
        diagonal, share = solved.diagonal()
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = solved.duals / diagonal[:, None]
        predictions = host_array(Y) - self.root[:, None] * errors
        for row in np.flatnonzero(share < _LEAST_SHARE):
            predictions[row] = self._predicted(Y, solved.kalman.mu, np.array([row]))[0]
        return predictions

    def heldout(self, Y: Array, parts: Sequence[Index], alphas: ArrayLike) -> list[Array]:
        """By a pass without each part."""
        values = as_vector(alphas)
        pairs = product(parts, values)
        predictions = map_all(lambda pair: self._predicted(Y, float(pair[1]), pair[0]), pairs)
        return [
            np.stack(predictions[number * len(values) : (number + 1) * len(values)])
            for number in range(len(parts))
        ]

    def _predicted(self, Y: Array, mu: float, rows: Index) -> HostArray:
        """S f of rows that the model is trained without, by a pass without them."""
        solved = self.solve(Y, self.filter_without(rows, mu))
        return self.root[rows, None] * solved.fitted[rows]

    def trace(self, alphas: ArrayLike) -> HostArray:
        """μ times the sum of the diagonal in (12), over the weights."""
        no_targets = np.zeros((self.n, 0))

        def trace_of(solved: Solved) -> float:
            return float(np.sum(solved.kalman.mu * solved.diagonal()[0] / self.root**2))

        return np.array(self._each(no_targets, alphas, trace_of))

    def logdet(self, alphas: ArrayLike) -> HostArray:
        """(11), for S G S, and of the border 1ᵀu."""
        no_targets = np.zeros((self.n, 0))
        weight = self.root**2

        def logdet_of(solved: Solved) -> float:
            value = float(np.sum(np.log(weight * solved.kalman.C[:, 0] + solved.kalman.mu)))
            if solved.constant is None:
                return value
            return value + float(np.log(solved.constant.sum()) - np.log(weight.sum()))

        return np.array(self._each(no_targets, alphas, logdet_of))
