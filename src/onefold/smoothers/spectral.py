r"""R(μ) of a dense matrix K by its eigenvalues: of K itself, or of a thin factor of it.

*One eigendecomposition* K = U Λ Uᵀ serves every μ:

    (1)  R = U [μ/(λ+μ)] Uᵀ,    diag R = (U∘U) [μ/(λ+μ)],    R_JJ = U_J [μ/(λ+μ)] U_Jᵀ
    (2)  log det (K + μI) = Σ log (λ + μ)

One decomposition, which takes as long as matrix products of about 12 n³ multiply-adds, then n² per μ
for residuals and the diagonal, and 2 n |J|² per μ for a held-out part J. Rows that no other row touches
(a narrow kernel isolates most rows) are their own eigenvectors and never enter the decomposition.

*A thin factor*: K = B Bᵀ given by a thin B = U σ Zᵀ of r columns, without BᵀB:

    (3)  R = I − U [λ/(λ+μ)] Uᵀ,    λ = σ²
    (4)  log det (K + μI) = Σ log (λ + μ) + (n − r) log μ

U is orthonormal to eps for σ of any size, so that R has the absolute error eps for every μ. From
the eigenvectors of BᵀB it would have that of eps · λ_max / μ: as much again as the problem itself.
A matrix whose numerical rank r is far below n has such a factor from a pivoted Cholesky factorisation,

    (5)  K = L Lᵀ + E,    L = U Σ Vᵀ

LAPACK's stops when what remains, E, is as small as the rounding of K itself
(tr E ≤ 32 eps · n · max k_ii), which is also the backward error of an eigendecomposition: the
result is as exact as the dense route. Smooth kernels on a few features are of this kind. O(n r²)
time, against O(n³).

*Below the rounding of K* the directions in which K is nothing but rounding count as 0: their weight in
(1) is 1, and (K + μI)⁻¹ is taken in the other directions only,

    (6)  U [1/(λ+μ), or 0 where λ is rounding] Uᵀ
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from onefold.linalg import (
    Array,
    HostArray,
    Index,
    as_vector,
    asarray_like,
    dense,
    host_array,
    index_like,
    namespace,
    take_rows,
)
from onefold.machine.threads import check_stop, spans
from onefold.smoothers.base import CHECKED, LARGE, Rounding, not_psd
from onefold.smoothers.dense import DenseSmoother, DiagonalOperator, Operator, Result

# Rows of U∘U, or of K, worked on at a time: all at once would be a second array of n × n.
_STRIP = 256
# Share of the rows that must be isolated: leaving out fewer saves less than a third of the time.
_ISOLATED_SHARE = 1 / 8
# Rows below which a decomposition takes too little time for a thin factor to save any.
_FEWEST = 1000
# Rows whose spectrum is computed to decide whether to try a thin factor: some ten milliseconds.
_PROBED_ROWS = 400
# Share of the eigenvalues of those rows: if more of them are above rounding, K has no low rank.
_PROBED_SHARE = 0.8
# Rows for each column of a thin factor, at least: its n r² operations are then well below n³.
_ROWS_PER_COLUMN = 3
# Rounding of LAPACK's routines, as a share of the largest eigenvalue or the largest diagonal entry.
_THIN_ROUNDING = 32 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Spectrum:
    """Orthonormal columns U and their λ.

    U = [vectors on the rows `coupled`, unit vectors on the rows `isolated`], λ in that order.
    """

    values: Any  # λ
    vectors: Any  # (coupled rows, q)
    coupled: Index | None = None  # None where every row is
    isolated: Index | None = None

    def filtered(self, Y: Array, weights: Array) -> Array:
        """U [weights] Uᵀ Y of shape (μ, n, t) as one product, for weights (μ, λ); Y as in `Operator`."""
        xp = namespace(Y)
        count = weights.shape[0]
        m, q = self.vectors.shape
        columns = Y[:, None, :] if Y.ndim == 2 else xp.permute_dims(Y, (1, 0, 2))
        n, ridges, t = columns.shape
        flat = xp.reshape(columns, (n, ridges * t))
        projected = self.vectors.T @ (flat if self.coupled is None else flat[self.coupled])
        projected = xp.reshape(projected, (q, ridges, t))
        by_value = xp.permute_dims(weights, (1, 0))[:, :, None]
        scaled = xp.reshape(by_value[:q, ...] * projected, (q, count * t))
        coupled = xp.reshape(self.vectors @ scaled, (m, count, t))
        isolated = None if self.coupled is None else by_value[q:, ...] * columns[self.isolated]
        return xp.permute_dims(self._assembled(coupled, isolated), (1, 0, 2))

    def filtered_diagonal(self, weights: Array) -> Array:
        """The diagonal (μ, n) of U [weights] Uᵀ, (U∘U) [weights], a strip of U∘U at a time."""
        xp = namespace(weights)
        m, q = self.vectors.shape
        by_value = xp.permute_dims(weights, (1, 0))
        strips = [self.vectors[part, :] ** 2 @ by_value[:q, ...] for part in spans(m, _STRIP)]
        coupled = xp.concat(strips) if strips else by_value[:0, ...]
        return xp.permute_dims(self._assembled(coupled, by_value[q:, ...]), (1, 0))

    def filtered_block(self, rows: Array, weights: Array) -> Array:
        """U_J [weights] U_Jᵀ for rows J, or a stack of such blocks, for weights (λ,)."""
        xp = namespace(weights)
        q = self.vectors.shape[1]
        roots = xp.sqrt(weights[:q])
        if self.coupled is None or self.isolated is None:
            factor = take_rows(self.vectors, rows) * roots
            return factor @ xp.matrix_transpose(factor)
        coupled = np.isin(rows, self.coupled)
        factor = self.vectors[np.searchsorted(self.coupled, rows[coupled])] * roots[None, :]
        block = np.zeros((len(rows), len(rows)))
        block[np.ix_(coupled, coupled)] = factor @ factor.T
        places = q + np.searchsorted(self.isolated, rows[~coupled])
        block[~coupled, ~coupled] = weights[places]
        return block

    def _assembled(self, coupled: Array, isolated: Array | None) -> Array:
        """Coupled and isolated rows in their places."""
        if self.coupled is None or isolated is None:
            return coupled
        out = np.empty((coupled.shape[0] + isolated.shape[0], *coupled.shape[1:]))
        out[self.coupled] = coupled
        out[self.isolated] = isolated
        return out


@dataclass(frozen=True)
class SpectralOperator(DiagonalOperator):
    """(1) at some μ."""

    spectrum: Spectrum
    weights: Array  # (μ, λ): μ/(λ+μ), or 1 where λ is rounding
    mu: Array

    @property
    def alphas(self) -> Array:
        return self.mu

    def apply(self, Y: Array) -> Array:
        """(1)."""
        return self.spectrum.filtered(Y, self.weights)

    def solve_signal(self, Y: Array) -> Array:
        """(6)."""
        xp = namespace(self.weights)
        inverse = self.weights / self.mu[:, None]
        return self.spectrum.filtered(Y, xp.where(self.weights < 1, inverse, xp.zeros_like(inverse)))

    def diagonal(self) -> Array:
        """(1)."""
        return self.spectrum.filtered_diagonal(self.weights)

    def block(self, rows: Array, index: int) -> Array:
        """(1)."""
        return self.spectrum.filtered_block(rows, self.weights[index, :])

    def logdet(self) -> Array:
        """(2)."""
        return _log_sum(self.spectrum.values, self.mu)


@dataclass(frozen=True)
class ThinOperator(DiagonalOperator):
    """(3) at some μ; a thin U has no directions of noise."""

    spectrum: Spectrum
    weights: Array  # (μ, λ): λ/(λ+μ)
    mu: Array

    @property
    def alphas(self) -> Array:
        return self.mu

    def apply(self, Y: Array) -> Array:
        """(3)."""
        return Y - self.spectrum.filtered(Y, self.weights)

    def solve_signal(self, Y: Array) -> Array:
        """(6)."""
        return self.spectrum.filtered(Y, 1.0 / (self.spectrum.values + self.mu[:, None]))

    def diagonal(self) -> Array:
        """(3)."""
        return 1.0 - self.spectrum.filtered_diagonal(self.weights)

    def block(self, rows: Array, index: int) -> Array:
        """(3)."""
        block = self.spectrum.filtered_block(rows, self.weights[index, :])
        return dense.add_to_diagonal(-block, 1.0)

    def logdet(self) -> Array:
        """(4)."""
        n, rank = self.spectrum.vectors.shape
        return _log_sum(self.spectrum.values, self.mu) + (n - rank) * namespace(self.mu).log(self.mu)


def _log_sum(values: Array, mu: Array) -> Array:
    """Σ log (λ + μ) for each μ."""
    xp = namespace(values)
    return xp.sum(xp.log(values[None, :] + mu[:, None]), axis=1)


class FilteringSmoother(DenseSmoother):
    """R_b(μ) from columns U and their λ."""

    spectrum: Spectrum

    @abstractmethod
    def operator(self, weights: Array, mu: Array) -> Operator:
        """R at some μ by their weights (μ, λ)."""

    @abstractmethod
    def weights(self, mu: Array, alphas: ArrayLike) -> Array:
        """What is put between U and Uᵀ, (μ, λ), for μ where K is, and on the host."""

    def map_operators(
        self,
        function: Callable[[Operator], tuple[Result, Operator]],
        alphas: ArrayLike,
        columns: int = 1,
    ) -> list[Result]:
        """As many μ together as need no larger arrays than U."""
        if not self.solvable(alphas).all():
            raise not_psd(self.smallest_eigenvalue)
        values = self.spectrum.values
        mu = asarray_like(as_vector(alphas), values)
        weights = self.weights(mu, alphas)
        results = []
        for part in spans(mu.shape[0], max(1, values.shape[0] // max(1, columns))):
            check_stop()
            result, _ = function(self.operator(weights[part, :], mu[part]))
            results.append(result)
        return results


class SpectralSmoother(FilteringSmoother):
    """R_b(μ) from the eigenvalues and eigenvectors of K (n, n), which is overwritten.

    The rows `isolated`, from :func:`isolated_rows`, are left out of the decomposition. `release_lock`
    takes the routine that scales over Python threads and needs more memory, by default for few rows;
    `rounding` says which negative eigenvalues count as 0.
    """

    def __init__(
        self,
        K: Array,
        border: Array | None,
        *,
        isolated: Index | None = None,
        release_lock: bool | None = None,
        rounding: Rounding = CHECKED,
    ) -> None:
        super().__init__(K.shape[0], border)
        check_stop()
        coupled = None
        if isolated is None:
            release_lock = self.n <= LARGE if release_lock is None else release_lock
            values, vectors = dense.symmetric_eigh(K, release_lock=release_lock)
        else:
            coupled = np.setdiff1d(np.arange(K.shape[0]), isolated)
            values, vectors = np.linalg.eigh(K[np.ix_(coupled, coupled)])
            values = np.concatenate([values, K[isolated, isolated]])
        check_stop()  # what follows are products with all eigenvectors
        self._noise = rounding.noise(values)
        values = rounding.without_rounding(values)
        self.spectrum = Spectrum(values, vectors, coupled, isolated)
        self._smallest_eigenvalue = float(namespace(values).min(values))

    @property
    def noise(self) -> float:
        return self._noise

    @property
    def smallest_eigenvalue(self) -> float:
        return self._smallest_eigenvalue

    def weights(self, mu: Array, alphas: ArrayLike) -> Array:
        values = self.spectrum.values
        xp = namespace(values)
        weights = mu[:, None] / (values[None, :] + mu[:, None])
        below = self.below_rounding(alphas)
        if below.any():
            noise = index_like(below, values)[:, None] & (abs(values) <= self.noise)[None, :]
            weights = xp.where(noise, xp.ones_like(weights), weights)
        return weights

    def operator(self, weights: Array, mu: Array) -> Operator:
        return SpectralOperator(self.spectrum, weights, mu)


class ThinSmoother(FilteringSmoother):
    """R_b(μ) from orthonormal columns U (n, r) and λ (r,), of which some may be noise. NumPy only."""

    def __init__(
        self, columns: HostArray, values: HostArray, border: HostArray | None, *, noise: float = 0.0
    ) -> None:
        super().__init__(columns.shape[0], border)
        self.spectrum = Spectrum(values, columns)
        self._noise = noise

    @classmethod
    def of_factor(cls, factor: HostArray, border: HostArray | None) -> ThinSmoother:
        """From the thin factor L (n, r) of :func:`low_rank_factor`."""
        # The singular vectors of L, not the eigenvectors of LᵀL: these square its condition.
        columns, singular, _ = np.linalg.svd(factor, full_matrices=False)
        values = singular**2
        return cls(columns, values, border, noise=_THIN_ROUNDING * float(values.max(initial=0.0)))

    @property
    def noise(self) -> float:
        return self._noise

    @property
    def smallest_eigenvalue(self) -> float:
        return 0.0

    def weights(self, mu: Array, alphas: ArrayLike) -> Array:
        values = self.spectrum.values
        return values[None, :] / (values[None, :] + mu[:, None])

    def operator(self, weights: Array, mu: Array) -> Operator:
        return ThinOperator(self.spectrum, weights, mu)

    def diagonals(self, alphas: ArrayLike) -> HostArray:
        """The diagonal of R_b, shape (μ, n), for columns that are orthogonal to the border."""

        def diagonal_of(operator: Operator) -> tuple[Array, Operator]:
            ready = operator.with_diagonal()
            return ready.diagonal(), ready

        diagonals = np.concatenate([host_array(d) for d in self.map_operators(diagonal_of, alphas)])
        if self.border is None:
            return diagonals
        return diagonals - self.border**2 / (self.border @ self.border)


def isolated_rows(K: HostArray) -> Index | None:
    """Rows whose entries off the diagonal vanish to working precision, or None if there are few.

    An entry counts as 0 below eps/n times the smallest diagonal entry: dropping all of them moves
    the eigenvalues by less than the rounding of the decomposition itself.
    """
    n = K.shape[0]
    if n < 2:
        return None
    diagonal = np.diagonal(K)
    negligible = np.finfo(np.float64).eps / n * max(float(diagonal.min()), 0.0)
    coupled = np.zeros(n, dtype=bool)
    for part in spans(n, _STRIP):
        coupled[part] = (np.abs(K[part]) > negligible).sum(axis=1) > 1
        # Most kernels touch everywhere: a first strip without an isolated row settles it.
        if part.start == 0 and coupled[part].all():
            return None
    isolated = np.flatnonzero(~coupled)
    return isolated if isolated.size > int(n * _ISOLATED_SHARE) else None


def low_rank_factor(K: HostArray, *, psd: bool = True) -> HostArray | None:
    """(5): L of shape (n, r) with K = L Lᵀ to rounding, or None if r is not far below n.

    The spectrum of a few hundred rows decides first whether to try. Small diagonal entries of E prove it
    small for positive semi-definite matrices only: where K need not be one (`psd` false), E is looked at
    entry by entry.
    """
    n = K.shape[0]
    if n < _FEWEST:
        return None
    tolerance = _THIN_ROUNDING * float(np.diagonal(K).max())
    rows = np.linspace(0, n - 1, _PROBED_ROWS).astype(int)
    spectrum = np.linalg.eigvalsh(K[np.ix_(rows, rows)])
    if np.count_nonzero(spectrum > tolerance) > _PROBED_SHARE * _PROBED_ROWS:
        return None
    check_stop()
    factor, pivots, rank, info = scipy.linalg.lapack.dpstrf(K.T, tol=tolerance, lower=1)
    if info < 0 or _ROWS_PER_COLUMN * rank > n:
        return None
    L = np.empty((n, rank))
    L[pivots - 1] = np.tril(factor[:, :rank])
    if not psd and any(np.abs(L[s] @ L.T - K[s]).max() > n * tolerance for s in spans(n, _STRIP)):
        return None
    return L
