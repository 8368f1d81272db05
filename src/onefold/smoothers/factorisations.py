r"""The dense smoothers: K by eigenvalues, by a thin factor, or by a Cholesky factorisation per μ.

*One eigendecomposition* K = U Λ Uᵀ serves every μ:

    R = U [μ/(λ+μ)] Uᵀ,   diag R = (U∘U) [μ/(λ+μ)],   R_JJ = U_J [μ/(λ+μ)] U_Jᵀ

One decomposition of about 12 n³ operations, then n² per μ for residuals and the diagonal, and
2 n |J|² per μ for a held-out part J. Rows that no other row touches (a narrow kernel leaves most
rows alone) are their own eigenvectors and never enter the decomposition.

*A thin factor*: K = B Bᵀ given by a thin B = U σ Zᵀ, without BᵀB:

    R = I − U [λ/(λ+μ)] Uᵀ,   λ = σ²

U is orthonormal to eps whatever the size of σ, so that R has the absolute error eps for every μ. From
the eigenvectors of BᵀB it would have that of eps · λ_max / μ: as much again as the problem itself.
A matrix whose numerical rank r is far below n has such a factor from a pivoted Cholesky factorisation,

    K = L Lᵀ + E,   L = U Σ Vᵀ

LAPACK's stops when what is left, E, is as small as the rounding of K itself
(tr E ≤ 32 eps · n · max k_ii), which is also the backward error of an eigendecomposition: the
result is as exact as the dense route. Smooth kernels on a few features are of this kind. O(n r²)
time, against O(n³).

*One Cholesky factorisation* K + μI = L Lᵀ per μ:

    R = μ L⁻ᵀL⁻¹,   diag R = μ · column sums of (L⁻¹)²,   R_JJ = μ (L⁻¹)_{:,J}ᵀ (L⁻¹)_{:,J}

n³/3 operations per μ for the coefficients alone and as much again for the diagonal and blocks:
cheaper than an eigendecomposition for a few μ. L⁻¹ is lower triangular, so a block of the last rows
needs the inverse of the last corner of L alone: rows that are held out are cheapest at the end.
Holds K and one factor, two arrays of n × n. The rounding of entry (i, j) is relative to √(k_ii k_jj):
rows of any size keep their digits, which is what weights of very different size need. A matrix that
rounding leaves indefinite at a small μ is decomposed instead.

Which of them serves, :func:`onefold.smoothers.base.choose_route` decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from onefold.linalg import (
    Array,
    HostArray,
    Index,
    add_to_diagonal,
    cholesky,
    cholesky_solve,
    copied,
    inverse_column_squares,
    invert_lower,
    is_numpy,
    like,
    namespace,
    ones,
    symmetric_eigh,
    to_numpy,
)
from onefold.machine.threads import check_stop, spans
from onefold.smoothers.base import (
    BELOW,
    GIVEN,
    Rounding,
    UnsolvableError,
    gather,
    not_psd_message,
)
from onefold.smoothers.dense import DenseSmoother, Operator

_STRIP = 256  # rows of n treated at a time, where all at once would be a second array of n × n
_CORNER = 0.25  # of the rows: a corner that begins above is not worth an array of its own
_FEWEST = 1000  # rows, below which a decomposition takes no time worth saving by a thin factor
_PROBE = 400  # rows whose spectrum decides whether to try
_LARGEST_SHARE = 3  # worth it while 3 r ≤ n
_THIN_ROUNDING = 32 * float(np.finfo(np.float64).eps)


# -- eigenvalues ---------------------------------------------------------------------------------------


class _Decomposed(DenseSmoother):
    """R_b(μ) from columns U and their λ: U [μ/(λ+μ)] Uᵀ, or of a thin U, I − U [λ/(λ+μ)] Uᵀ."""

    _spectrum: _Spectrum
    _thin = False

    def operators(self, alphas: ArrayLike, columns: int = 1) -> Iterator[Operator]:
        """As many μ together as need no larger arrays than U."""
        if not self.solvable(alphas).all():
            raise UnsolvableError(not_psd_message(self.smallest_eigenvalue))
        values, xp = self._spectrum.values, namespace(self._spectrum.values)
        mu = like(np.asarray(alphas, dtype=np.float64).reshape(-1), values)
        weights = (values[None, :] if self._thin else mu[:, None]) / (values[None, :] + mu[:, None])
        below = self.below_rounding(alphas)
        if below.any() and not self._thin:  # where μ is below the rounding of K, noise counts as 0
            noise = like(to_numpy(abs(values) <= self.noise), values)
            lost = like(below, values)[:, None] * noise[None, :] > 0
            weights = xp.where(lost, xp.ones_like(weights), weights)
        for part in spans(mu.shape[0], max(1, values.shape[0] // max(1, columns))):
            check_stop()
            yield _Filtered(self._spectrum, weights[part, :], mu[part], self._thin)


class SpectralSmoother(_Decomposed):
    """R_b(μ) from the eigenvalues and eigenvectors of K (n, n), which is overwritten.

    The rows `alone`, from :func:`isolated_rows`, are left out of the decomposition. `release_lock` takes
    the routine that scales over Python threads (and needs more memory). `rounding` says which negative
    eigenvalues count as 0.
    """

    def __init__(
        self,
        K: Array,
        border: Array | None,
        *,
        alone: Index | None = None,
        release_lock: bool = False,
        rounding: Rounding = GIVEN,
    ) -> None:
        super().__init__(K.shape[0], border)
        check_stop()
        if alone is None:
            values, vectors = symmetric_eigh(K, overwrite=True, release_lock=release_lock)
            spectrum = _Spectrum(values, vectors)
        else:
            rest = np.setdiff1d(np.arange(K.shape[0]), alone)
            values, vectors = np.linalg.eigh(K[np.ix_(rest, rest)])
            spectrum = _Spectrum(np.concatenate([values, K[alone, alone]]), vectors, rest, alone)
        check_stop()  # what follows are products with all eigenvectors
        self.noise = rounding.noise(spectrum.values)
        settled = rounding.settled(spectrum.values)
        self._spectrum = replace(spectrum, values=settled)
        self.smallest_eigenvalue = float(namespace(settled).min(settled))


@dataclass(frozen=True)
class _Spectrum:
    """K = U Λ Uᵀ with U = [vectors on `rest`, unit vectors on `alone`]; values in that order."""

    values: Any
    vectors: Any  # (rows that are coupled, q)
    rest: Index | None = None  # None where every row is
    alone: Index | None = None

    def mix(self, Y: Array, weights: Array) -> Array:
        """U [weights] Uᵀ Y of shape (μ, n, t) for weights (μ, λ), as one product.

        Y is (n, t), or (μ, n, t) of its own at each μ.
        """
        xp, a, (m, q) = namespace(Y), weights.shape[0], self.vectors.shape
        own = Y[:, None, :] if Y.ndim == 2 else xp.permute_dims(Y, (1, 0, 2))
        n, c, t = own.shape
        flat = xp.reshape(own, (n, c * t))
        inner = flat if self.rest is None else flat[self.rest]
        projected = xp.reshape(self.vectors.T @ inner, (q, c, t))
        columns = xp.permute_dims(weights, (1, 0))[:, :, None]
        scaled = xp.reshape(columns[:q, ...] * projected, (q, a * t))
        coupled = xp.reshape(self.vectors @ scaled, (m, a, t))
        single = None if self.rest is None else columns[q:, ...] * own[self.alone]
        return xp.permute_dims(self._assembled(coupled, single), (1, 0, 2))

    def diagonal(self, weights: Array) -> Array:
        """(U∘U) [weights] of shape (μ, n), a strip of U∘U at a time."""
        xp, (m, q) = namespace(weights), self.vectors.shape
        columns = xp.permute_dims(weights, (1, 0))
        strips = [self.vectors[part, :] ** 2 @ columns[:q, ...] for part in spans(m, _STRIP)]
        coupled = xp.concat(strips) if strips else columns[:0, ...]
        return xp.permute_dims(self._assembled(coupled, columns[q:, ...]), (1, 0))

    def _assembled(self, coupled: Array, single: Array | None) -> Array:
        """Rows that are coupled and rows that stand alone, in their places."""
        if self.rest is None or single is None:
            return coupled
        out = np.empty((coupled.shape[0] + single.shape[0], *coupled.shape[1:]))
        out[self.rest], out[self.alone] = coupled, single
        return out

    def block(self, rows: Array, weights: Array) -> Any:
        """The entries of U [weights] Uᵀ between rows (|J|,), or a stack of them, for weights (λ,)."""
        xp, q = namespace(weights), self.vectors.shape[1]
        roots = xp.sqrt(weights[:q])
        if self.rest is None or self.alone is None:
            factor = gather(self.vectors, rows) * roots
            return factor @ xp.matrix_transpose(factor)
        touched = np.isin(rows, self.rest)
        factor = self.vectors[np.searchsorted(self.rest, rows[touched])] * roots[None, :]
        block = np.zeros((len(rows), len(rows)))
        block[np.ix_(touched, touched)] = factor @ factor.T
        block[~touched, ~touched] = weights[q + np.searchsorted(self.alone, rows[~touched])]
        return block


@dataclass(frozen=True)
class _Filtered(Operator):
    """U [weights] Uᵀ, or of a thin U, which has no directions of noise, I − U [weights] Uᵀ."""

    spectrum: _Spectrum
    weights: Array  # (μ, λ): μ/(λ+μ), thin λ/(λ+μ)
    alphas: Array
    thin: bool

    def apply(self, Y: Array) -> Array:
        mixed = self.spectrum.mix(Y, self.weights)
        return Y - mixed if self.thin else mixed

    def solve_signal(self, Y: Array) -> Array:
        if self.thin:
            return self.spectrum.mix(Y, 1.0 / (self.spectrum.values + self.alphas[:, None]))
        weights, xp = self.weights, namespace(self.weights)
        kept = xp.where(weights < 1, weights / self.alphas[:, None], xp.zeros_like(weights))
        return self.spectrum.mix(Y, kept)

    def diagonal(self) -> Array:
        diagonal = self.spectrum.diagonal(self.weights)
        return 1.0 - diagonal if self.thin else diagonal

    def block(self, rows: Array, index: int) -> Array:
        block = self.spectrum.block(rows, self.weights[index, :])
        if self.thin:
            np.negative(block, out=block)
            np.einsum("ii->i", block)[...] += 1.0
        return block

    def logdet(self) -> Array:
        xp, (n, rank) = namespace(self.weights), self.spectrum.vectors.shape
        known = xp.sum(xp.log(self.spectrum.values[None, :] + self.alphas[:, None]), axis=1)
        return known + (n - rank) * xp.log(self.alphas) if self.thin else known


def isolated_rows(K: Array) -> Index | None:
    """Rows whose entries off the diagonal vanish to working precision, or None if there are few.

    An entry counts as 0 below eps/n times the smallest diagonal entry: dropping all of them moves
    the eigenvalues by less than the rounding of the decomposition itself.
    """
    n = K.shape[0]
    if not is_numpy(K) or n < 2:
        return None
    diagonal = np.diagonal(K)
    negligible = np.finfo(np.float64).eps / n * max(float(diagonal.min()), 0.0)
    touched = np.zeros(n, dtype=bool)
    for part in spans(n, _STRIP):
        touched[part] = (np.abs(K[part]) > negligible).sum(axis=1) > 1
        # Most kernels touch everywhere: a first strip without a lone row settles it.
        if part.start == 0 and touched[part].all():
            return None
    alone = np.flatnonzero(~touched)
    return alone if alone.size > n // 8 else None


# -- thin factors --------------------------------------------------------------------------------------


class ThinSmoother(_Decomposed):
    """R_b(μ) from orthonormal columns U (n, r) and their λ (r,). NumPy only."""

    _thin = True

    def __init__(self, columns: HostArray, values: HostArray, border: HostArray | None) -> None:
        super().__init__(columns.shape[0], border)
        self._spectrum = _Spectrum(values, columns)

    def diagonals(self, alphas: ArrayLike) -> HostArray:
        """The diagonal of R_b, shape (μ, n), for columns that are orthogonal to the border."""
        found = np.concatenate([operator.diagonal() for operator in self.operators(alphas)])
        return found if self.border is None else found - self.border**2 / (self.border @ self.border)


class LowRankSmoother(ThinSmoother):
    """R_b(μ) from the thin factor L (n, r) of :func:`low_rank_factor`."""

    def __init__(self, factor: HostArray, border: HostArray | None) -> None:
        # The singular vectors of L, not the eigenvectors of LᵀL: these square its condition.
        columns, singular, _ = np.linalg.svd(factor, full_matrices=False)
        super().__init__(columns, singular**2, border)
        self.noise = _THIN_ROUNDING * float(self._spectrum.values.max(initial=0.0))


def low_rank_factor(K: Array, *, psd: bool = True) -> HostArray | None:
    """L of shape (n, r) with K = L Lᵀ to rounding, or None if r is not far below n.

    A look at the spectrum of a few hundred rows decides first whether to try. Small diagonal entries of
    what is left over prove it small for positive semi-definite matrices only: where K need not be one
    (`psd` false), it is looked at entry by entry.
    """
    n = K.shape[0]
    if not is_numpy(K) or n < _FEWEST:
        return None
    tolerance = _THIN_ROUNDING * float(np.diagonal(K).max())
    pick = np.linspace(0, n - 1, _PROBE).astype(int)
    spectrum = np.linalg.eigvalsh(K[np.ix_(pick, pick)])
    if np.count_nonzero(spectrum > tolerance) > 0.8 * _PROBE:
        return None
    check_stop()
    factor, pivots, rank, info = scipy.linalg.lapack.dpstrf(K.T, tol=tolerance, lower=1)
    if info < 0 or _LARGEST_SHARE * rank > n:
        return None
    L = np.empty((n, rank))
    L[pivots - 1] = np.tril(factor[:, :rank])
    if not psd and any(np.abs(L[s] @ L.T - K[s]).max() > n * tolerance for s in spans(n, _STRIP)):
        return None
    return L


# -- Cholesky ------------------------------------------------------------------------------------------


class CholeskySmoother(DenseSmoother):
    """R_b(μ) from a factorisation of K + μI per μ.

    With `overwrite` it takes the place of K: one array of n × n, but the smoother serves one μ only.
    `rounding` says which negative eigenvalues are rounding; `graded`, that the rows of K differ in size
    by far, as weights make them.
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
        self._K: Any = K
        self._overwrite, self._rounding = overwrite, rounding
        self._buffer: Array | None = None
        self._decomposed: SpectralSmoother | None = None
        self._last: tuple[float, Operator] | None = None
        # The trace bounds the largest eigenvalue; matrices with rows of very different size (graded
        # ones) have no noise to speak of, since that of each row is relative to the row.
        largest = float(namespace(K).sum(namespace(K).linalg.diagonal(K)))
        self.noise = 0.0 if graded else rounding.noise(like([largest], K))
        self._smallest = BELOW * self.noise  # ridge to be factorised with

    def operators(self, alphas: ArrayLike, columns: int = 1) -> Iterator[Operator]:
        for alpha in np.asarray(alphas, dtype=np.float64).reshape(-1):
            check_stop()
            yield self._operator(float(alpha))

    def _operator(self, alpha: float) -> Operator:
        if self._last is not None and self._last[0] == alpha:
            return self._last[1]
        self._last = None  # before its memory is used again
        K = self._K
        if K is not None and alpha >= self._smallest:
            diagonal = namespace(K).linalg.diagonal(K) + 0.0
            if self._overwrite:
                shifted, self._K = K, None
            else:
                shifted = copied(K, self._buffer)
                # One buffer serves every μ: the last operator is done with when the next is asked for.
                self._buffer = shifted if is_numpy(shifted) else None
            shifted = add_to_diagonal(shifted, alpha)
            try:
                operator = _Factorised(shifted, alpha)
                self._last = alpha, operator
                return operator
            except np.linalg.LinAlgError:
                K = _unfactorised(shifted, diagonal, alpha) if self._overwrite else K
        if self._decomposed is None:
            copy = namespace(K).asarray(K, copy=True)
            self._decomposed = SpectralSmoother(copy, self.border, rounding=self._rounding)
            self.noise = self._decomposed.noise
            self.smallest_eigenvalue = self._decomposed.smallest_eigenvalue
        return next(self._decomposed.operators([alpha]))


class _Factorised(Operator):
    """μ L⁻ᵀL⁻¹; L is replaced by L⁻¹ when the diagonal, or a block that reaches far up, is asked for."""

    def __init__(self, G: Array, alpha: float) -> None:
        self._alpha, self.alphas = alpha, alpha * ones(1, G)
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
        Y = Y if Y.ndim == 2 else Y[0, :, :]
        if self._inverted:
            return (self._alpha * (self._factor.T @ (self._factor @ Y)))[None, :, :]
        return (self._alpha * cholesky_solve(self._factor, Y))[None, :, :]

    def block(self, rows: Array, index: int) -> Array:
        start = int(rows.min()) if is_numpy(rows) and rows.size else 0
        first, inverse = self._inverse_from(start)
        columns = gather(inverse.T, rows - first)
        return self._alpha * (columns @ namespace(columns).matrix_transpose(columns))

    def diagonal(self) -> Array:
        inverse = self._inverse()
        xp, total = namespace(inverse), 0.0 * inverse[0, :]
        for part in spans(inverse.shape[0], _STRIP):
            total += xp.sum(inverse[part, :] ** 2, axis=0)
        return self._alpha * total[None, :]

    def diagonal_at(self, rows: Index) -> Array:
        if self._inverted:
            return super().diagonal_at(rows)
        check_stop()
        return self._alpha * inverse_column_squares(self._factor, rows)

    def logdet(self) -> Array:
        xp = namespace(self._factor)
        total = 2 * xp.sum(xp.log(xp.linalg.diagonal(self._factor)))
        return (-total if self._inverted else total)[None]


def _unfactorised(G: Array, diagonal: Array, alpha: float) -> Array:
    """K from what a failed factorisation in place left of K + μI: one triangle, and K's diagonal."""
    if not is_numpy(G):  # other libraries factorise into an array of their own
        return add_to_diagonal(G, -alpha)
    K = np.tril(G, -1)
    K += K.T
    K.flat[:: K.shape[0] + 1] = diagonal
    return K
