r"""R(μ) of a dense matrix K by a Cholesky factorisation of K + μI for each μ.

    (1)  K + μI = L Lᵀ,    R = μ L⁻ᵀL⁻¹,    log det (K + μI) = 2 Σ log l_ii
    (2)  diag R = μ · column sums of (L⁻¹)²,    R_JJ = μ (L⁻¹)_{:,J}ᵀ (L⁻¹)_{:,J}

n³/3 operations per μ for the coefficients and as much again for the diagonal and blocks: cheaper than an
eigendecomposition for a few μ. L⁻¹ is lower triangular, so that a block of the last rows needs only the
inverse of the last corner of L: rows that are held out are cheapest at the end. The rounding
of entry (i, j) is relative to √(k_ii k_jj): rows of any size keep their digits, which is what weights of
very different size need. A matrix that rounding leaves indefinite at a small μ is decomposed instead.

*Memory*. A factor takes the memory of the matrix it is made of, and its inverse that of the factor; each
is an operator of its own (`CholeskyFactor`, `CornerFactor`, `InverseFactor`), and the one before must
not be used again. Where there are several μ, K stays, and each factor is that of a copy: two arrays of
n × n. For a single μ there is one, and K is made again in the rare case that it has no factor.

*A rough factor* is one of float32, in half the time, where solutions only rank candidates; K in float64
refines them,

    (3)  α ← α + L⁻ᵀL⁻¹ r,    r = Y − (K + μI) α

Predictions at the rows are then wrong by K (K + μI)⁻¹ r, no more than ‖r‖. Where that does not fall to
a fraction of their residuals μα in a few steps, as for smooth kernels with tiny ridges, a factor of
float64 takes over.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold import linalg
from onefold.linalg import Array, HostArray, Index, as_vector, asarray_like, dense, namespace, take_rows
from onefold.machine.threads import check_stop, spans
from onefold.smoothers.base import CHECKED, Rounding, UnsolvableError
from onefold.smoothers.dense import (
    BELOW_ROUNDING,
    BlockOperator,
    DenseSmoother,
    DiagonalOperator,
    Operator,
    Result,
)
from onefold.smoothers.spectral import SpectralSmoother

# Rows from which a factor of float32 saves time.
_SINGLE_ROWS = 600
# Largest error of a rough solution, as a share of its residuals μα.
_ROUGH_ERROR = 0.003
# Steps of (3) before a factor of float64 takes over.
_ROUGH_STEPS = 4
# Rows of L⁻¹ that are squared at a time: all at once would be a second array of n × n.
_STRIP = 256
# Share of the rows above a corner of L⁻¹, at least: a larger corner would take more than half the
# memory of L.
_CORNER_SHARE = 0.25


@dataclass(frozen=True)
class CholeskyFactor(Operator):
    """(1), by solving with L."""

    alpha: float
    lower: Array  # L, with leftovers above in NumPy

    @classmethod
    def of(cls, K: Array, alpha: float) -> CholeskyFactor:
        """From K, whose memory it takes; LinAlgError where K + μI is not positive definite."""
        return cls(alpha, dense.cholesky(dense.add_to_diagonal(K, alpha), overwrite=True))

    @property
    def alphas(self) -> Array:
        return self.alpha * linalg.ones(1, self.lower)

    def apply(self, Y: Array) -> Array:
        """(1)."""
        solution = dense.cholesky_solve(self.lower, _single(Y))
        return (self.alpha * solution)[None, :, :]

    def with_diagonal(self) -> InverseFactor:
        """In the memory of L."""
        check_stop()
        return InverseFactor(self.alpha, dense.invert_lower(self.lower))

    def with_blocks(self, first: int) -> BlockOperator:
        """L with a corner of its inverse, or L⁻¹ in the memory of L where that corner would be large."""
        if first < _CORNER_SHARE * self.lower.shape[0]:
            return self.with_diagonal()
        check_stop()
        corner = self.lower[first:, first:]
        if linalg.uses_lapack(corner):
            copy = np.array(corner, order="F")
        else:
            copy = namespace(corner).asarray(corner, copy=True)
        return CornerFactor(self, first, dense.invert_lower(copy))

    def diagonal_at(self, rows: Index) -> Array:
        """(2), by triangular solves."""
        check_stop()
        return self.alpha * dense.inverse_column_squares(self.lower, rows)

    def logdet(self) -> Array:
        """(1)."""
        return _log_diagonal(self.lower)


@dataclass(frozen=True)
class CornerFactor(BlockOperator):
    """(1) by solving with L, and (2) for blocks of its last rows from a corner of L⁻¹."""

    factor: CholeskyFactor
    first: int  # the row where the corner begins
    corner: Array

    @property
    def alphas(self) -> Array:
        return self.factor.alphas

    def apply(self, Y: Array) -> Array:
        return self.factor.apply(Y)

    def with_diagonal(self) -> InverseFactor:
        return self.factor.with_diagonal()

    def with_blocks(self, first: int) -> BlockOperator:
        return self if self.first <= first else self.factor.with_blocks(first)

    def block(self, rows: Array, index: int) -> Array:
        """(2)."""
        return _block(self.corner, rows - self.first, self.factor.alpha)

    def diagonal_at(self, rows: Index) -> Array:
        return self.factor.diagonal_at(rows)

    def logdet(self) -> Array:
        return self.factor.logdet()


@dataclass(frozen=True)
class InverseFactor(DiagonalOperator):
    """(1) and (2) from L⁻¹."""

    alpha: float
    inverse: Array  # L⁻¹

    @property
    def alphas(self) -> Array:
        return self.alpha * linalg.ones(1, self.inverse)

    def apply(self, Y: Array) -> Array:
        """(1)."""
        return (self.alpha * (self.inverse.T @ (self.inverse @ _single(Y))))[None, :, :]

    def block(self, rows: Array, index: int) -> Array:
        """(2)."""
        return _block(self.inverse, rows, self.alpha)

    def diagonal(self) -> Array:
        """(2), in strips."""
        xp = namespace(self.inverse)
        total = 0.0 * self.inverse[0, :]
        for part in spans(self.inverse.shape[0], _STRIP):
            total += xp.sum(self.inverse[part, :] ** 2, axis=0)
        return self.alpha * total[None, :]

    def logdet(self) -> Array:
        """(1)."""
        return -_log_diagonal(self.inverse)


@dataclass(frozen=True)
class RoughFactor(Operator):
    """(1) by a factor of float32 that K refines, and one of float64 for all else. NumPy only."""

    alpha: float
    lower: Any  # L in float32
    K: Any

    @classmethod
    def of(cls, K: Any, alpha: float) -> RoughFactor:
        """From a copy of K; LinAlgError where K + μI is not positive definite in float32."""
        with np.errstate(over="ignore"):
            shifted = dense.add_to_diagonal(K.astype(np.float32), alpha)
            return cls(alpha, dense.cholesky(shifted, overwrite=True), K)

    @property
    def alphas(self) -> Array:
        return self.alpha * linalg.ones(1, self.K)

    def exact(self) -> CholeskyFactor:
        """The factor of float64."""
        factor = None
        with suppress(np.linalg.LinAlgError):
            factor = CholeskyFactor.of(self.K.copy(), self.alpha)
        if factor is None:
            raise UnsolvableError(
                f"the kernel matrix plus alpha={self.alpha:.3g} is not positive definite; use a "
                "positive semi-definite kernel, or a larger alpha."
            )
        return factor

    def apply(self, Y: Array) -> Array:
        """(1)."""
        solution = self._refined(_single(Y))
        return self.exact().apply(Y) if solution is None else (self.alpha * solution)[None, :, :]

    def _refined(self, Y: Any) -> HostArray | None:
        """(3), as exact as a rough solution must be; or None."""
        solution = np.zeros_like(Y)
        remaining = Y
        with np.errstate(over="ignore", invalid="ignore"):  # beyond float32: no solution
            for _ in range(_ROUGH_STEPS):
                solution += dense.cholesky_solve(self.lower, remaining)
                remaining = Y - self.K @ solution - self.alpha * solution
                error = np.linalg.norm(remaining, axis=0)
                residual = self.alpha * np.linalg.norm(solution, axis=0)
                if np.all(error <= _ROUGH_ERROR * residual):
                    return solution
        return None

    def with_diagonal(self) -> InverseFactor:
        return self.exact().with_diagonal()

    def with_blocks(self, first: int) -> BlockOperator:
        return self.exact().with_blocks(first)

    def diagonal_at(self, rows: Index) -> Array:
        return self.exact().diagonal_at(rows)

    def logdet(self) -> Array:
        return self.exact().logdet()


def _single(Y: Array) -> Array:
    """Columns for one μ, (n, t), from Y as in `Operator.apply`."""
    return Y if Y.ndim == 2 else Y[0, :, :]


def _block(inverse: Array, rows: Array, alpha: float) -> Array:
    """μ (L⁻¹)_{:,J}ᵀ (L⁻¹)_{:,J}, of (2), for rows J or a stack of them."""
    columns = take_rows(inverse.T, rows)
    return alpha * (columns @ namespace(columns).matrix_transpose(columns))


def _log_diagonal(triangle: Array) -> Array:
    """2 Σ log of the diagonal, shape (1,)."""
    xp = namespace(triangle)
    return (2 * xp.sum(xp.log(xp.linalg.diagonal(triangle))))[None]


class CholeskySmoother(DenseSmoother):
    """R_b(μ) from a factorisation of K + μI for each μ.

    K stays, and every factor is that of a copy. With `remake`, a function that makes K again, the first
    factor takes the memory of K instead. `rounding` says which negative eigenvalues are rounding;
    `graded`, that the rows of K differ in size by far, as weights make them; `rough`, that factors of
    float32 suffice where μ allows them.

    The operator of the last μ is kept: later calls often have the same μ, and for a single μ it has
    taken the memory of K. Earlier calls change results by no more than rounding.
    """

    def __init__(
        self,
        K: Array,
        border: Array | None,
        *,
        remake: Callable[[], Array] | None = None,
        rounding: Rounding = CHECKED,
        graded: bool = False,
        rough: bool = False,
    ) -> None:
        super().__init__(K.shape[0], border)
        self._K: Any = K  # None once its memory was taken
        self._remake = remake
        self._rounding = rounding
        # The trace bounds the largest eigenvalue; matrices with rows of very different size (graded
        # ones) have no noise to speak of, since that of each row is relative to the row.
        trace = float(namespace(K).sum(namespace(K).linalg.diagonal(K)))
        self._noise_bound = 0.0 if graded else rounding.noise(asarray_like([trace], K))
        self._rough = rough and self.n >= _SINGLE_ROWS
        self._last: tuple[float, Operator] | None = None  # μ and its operator
        self._decomposition: SpectralSmoother | None = None  # of K, once some K + μI had no factor

    @property
    def noise(self) -> float:
        return self._noise_bound if self._decomposition is None else self._decomposition.noise

    @property
    def smallest_eigenvalue(self) -> float:
        return 0.0 if self._decomposition is None else self._decomposition.smallest_eigenvalue

    def map_operators(
        self,
        function: Callable[[Operator], tuple[Result, Operator]],
        alphas: ArrayLike,
        columns: int = 1,
    ) -> list[Result]:
        results = []
        for alpha in as_vector(alphas).tolist():
            check_stop()
            result, operator = function(self._take(alpha))
            self._last = alpha, operator
            del operator  # its memory is free once the next μ has taken its place
            results.append(result)
        return results

    def _take(self, alpha: float) -> Operator:
        """The operator at one μ, which the smoother no longer holds."""
        last = self._last
        self._last = None
        if last is not None and last[0] == alpha:
            return last[1]
        del last  # before its memory is needed
        return self._factorised(alpha)

    def _factorised(self, alpha: float) -> Operator:
        """R at one μ: a factor, or where rounding leaves K + μI without one, a decomposition."""
        if alpha >= BELOW_ROUNDING * self._noise_bound:
            if self._rough and self._K is not None:
                with suppress(np.linalg.LinAlgError):
                    return RoughFactor.of(self._K, alpha)
            with suppress(np.linalg.LinAlgError):
                return CholeskyFactor.of(self._matrix(), alpha)
        if self._decomposition is None:
            self._decomposition = SpectralSmoother(self._matrix(), self.border, rounding=self._rounding)
        [operator] = self._decomposition.map_operators(lambda operator: (operator, operator), [alpha])
        return operator

    def _matrix(self) -> Array:
        """K in memory that may be overwritten."""
        K = self._K
        if self._remake is not None:
            self._K = None
            return self._remake() if K is None else K
        return namespace(K).asarray(K, copy=True)
