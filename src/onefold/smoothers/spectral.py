r"""R(μ) for every μ from one eigendecomposition K = U Λ Uᵀ.

    R = U [μ/(λ+μ)] Uᵀ,   diag R = (U∘U) [μ/(λ+μ)],   R_JJ = U_J [μ/(λ+μ)] U_Jᵀ

One decomposition of about 12 n³ operations, then n² per μ for residuals and the diagonal, and
2 n |J|² per μ for a held-out part J. Rows that no other row touches (a narrow kernel leaves most
rows alone) are their own eigenvectors and never enter the decomposition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onefold.linalg import (
    Array,
    is_numpy,
    like,
    namespace,
    symmetric_eigh,
    to_numpy,
)
from onefold.machine.threads import check_stop
from onefold.smoothers.base import BorderCorrection, UnsolvableError, as_vector
from onefold.smoothers.dense import DenseSmoother, Operator, solve_parts
from onefold.smoothers.left_out import LeftOut, gather
from onefold.smoothers.rounding import BELOW, GIVEN, Rounding, not_psd_message

_STRIP = 256  # rows of U∘U formed at a time


class SpectralSmoother(DenseSmoother):
    """R_b(μ) from the eigenvalues and eigenvectors of K.

    Parameters
    ----------
    K : array (n, n)
        The kernel matrix; overwritten.
    border : array (n,) or None
        s of the intercept.
    alone : array of int or None
        Rows to leave out of the decomposition, from :func:`isolated_rows`.
    release_lock : bool
        Use the routine that scales over Python threads (and needs more memory).
    rounding : Rounding
        Which negative eigenvalues are rounding, and count as 0.
    """

    def __init__(
        self,
        K: Array,
        border: Array | None,
        *,
        alone: Any | None = None,
        release_lock: bool = False,
        rounding: Rounding = GIVEN,
    ) -> None:
        super().__init__(K.shape[0], border)
        spectrum = decompose(K, alone, release_lock)
        check_stop()  # what follows are products with all eigenvectors
        self._noise = rounding.noise(spectrum.values)
        self._spectrum = replace(spectrum, values=rounding.settled(spectrum.values))

    @property
    def smallest_eigenvalue(self) -> float:
        values = self._spectrum.values
        return float(namespace(values).min(values)) if values.shape[0] else 0.0

    def _filter(self, alphas: Any) -> Array:
        """μ/(λ+μ) of shape (μ, n); where μ is below the rounding of K, noise among the λ counts as 0."""
        values, xp = self._spectrum.values, namespace(self._spectrum.values)
        mu = as_vector(alphas, values)[:, None]
        if not self.solvable(alphas).all():
            raise UnsolvableError(not_psd_message(self.smallest_eigenvalue))
        filtered = mu / (values[None, :] + mu)
        below = self.below_rounding(alphas)
        if not below.any():
            return filtered
        noise = (
            like(below, values)[:, None] * like(to_numpy(abs(values) <= self._noise), values)[None, :]
        )
        return xp.where(noise > 0, xp.ones_like(filtered), filtered)

    def below_rounding(self, alphas: Any) -> Any:
        return np.asarray(alphas, dtype=np.float64).reshape(-1) < BELOW * self._noise

    def operators(self, alphas: Any) -> Iterator[Operator]:
        mu = np.asarray(alphas, dtype=np.float64).reshape(-1)
        weights = self._filter(mu)
        for index, alpha in enumerate(mu):
            check_stop()
            yield _Filtered(self._spectrum, weights[index, :], float(alpha))

    def leave_one_out(self, Y: Array, alphas: Any) -> Array:
        """All μ together: two matrix products instead of two passes over U per μ."""
        xp, weights = namespace(Y), self._filter(alphas)
        diagonal = xp.permute_dims(self._spectrum.diagonal(xp.permute_dims(weights, (1, 0))), (1, 0))
        residuals = self._spectrum.mix(Y, weights)
        if self.border is not None:
            rho = self._spectrum.mix(self.border[:, None], weights)[:, :, 0]
            border = BorderCorrection.of(rho, self.border)
            diagonal, residuals = border.diagonal(diagonal), border.vectors(residuals, Y)
        return Y[None, ...] - residuals / self._known(diagonal, alphas)[:, :, None]

    def heldout_duals(self, Y: Array, parts: Sequence[Any], alphas: Any) -> Array:
        """All μ together: four matrix products instead of four passes over U per μ."""
        mu = np.asarray(alphas, dtype=np.float64).reshape(-1)
        weights, border, sets = self._filter(mu), None, LeftOut(parts, Y)
        blanked = sets.blanked(Y)
        RY = self._spectrum.mix(blanked, weights)
        if self.border is not None:
            rho = self._spectrum.mix(self.border[:, None], weights)[:, :, 0]
            border = BorderCorrection.of(rho, self.border)
            RY = border.vectors(RY, blanked)
        filled = []
        for index, alpha in enumerate(mu):
            operator = _Filtered(self._spectrum, weights[index, :], float(alpha))
            found = solve_parts(operator, RY[index, :, :], sets, border, index)
            filled.append(sets.replaced(blanked, found))
        targets = namespace(Y).stack(filled)
        duals = self._spectrum.mix_each(targets, weights)
        if border is not None:
            duals = border.vectors_each(duals, targets)
        return sets.zeroed(duals / as_vector(mu, duals)[:, None, None])


@dataclass(frozen=True)
class _Spectrum:
    """K = U Λ Uᵀ with U = [vectors on `rest`, unit vectors on `alone`]; values in that order."""

    values: Array
    vectors: Array
    rest: Any  # None where every row enters the decomposition
    alone: Any

    def inner(self, Y: Array) -> Array:
        """The rows of Y that the decomposition couples."""
        return Y if self.rest is None else Y[self.rest]

    def assemble(self, inner: Array, single: Array) -> Array:
        """Rows of the coupled part and rows that stand alone, in their places."""
        if self.rest is None:
            return inner
        out = np.empty((inner.shape[0] + single.shape[0], *inner.shape[1:]))
        out[self.rest], out[self.alone] = inner, single
        return out

    @property
    def rank(self) -> int:
        return int(self.vectors.shape[1])

    def alone_rows(self, Y: Array) -> Array:
        """The rows of Y that stand alone."""
        return Y[:0, ...] if self.alone is None else Y[self.alone]

    def mix(self, Y: Array, weights: Array) -> Array:
        """U [weights] Uᵀ Y of shape (μ, n, targets) for weights (μ, n), as one product."""
        projected = (self.vectors.T @ self.inner(Y))[:, None, :]
        return self._spread(projected, self.alone_rows(Y)[:, None, :], weights)

    def mix_each(self, Ys: Array, weights: Array) -> Array:
        """The same for targets (μ, n, targets) of their own at each μ."""
        xp = namespace(Ys)
        a, n, t = Ys.shape
        columns = xp.reshape(xp.permute_dims(Ys, (1, 0, 2)), (n, a * t))
        projected = xp.reshape(self.vectors.T @ self.inner(columns), (self.rank, a, t))
        single = xp.reshape(self.alone_rows(columns), (n - self.vectors.shape[0], a, t))
        return self._spread(projected, single, weights)

    def _spread(self, projected: Array, single: Array, weights: Array) -> Array:
        """U [weights] · (coupled part (q, μ or 1, t), rows that stand alone), as (μ, n, t)."""
        xp = namespace(projected)
        a, q, t = weights.shape[0], self.rank, projected.shape[2]
        columns = xp.permute_dims(weights, (1, 0))[:, :, None]
        scaled = xp.reshape(columns[:q, ...] * projected, (q, a * t))
        inner = xp.reshape(self.vectors @ scaled, (self.vectors.shape[0], a, t))
        return xp.permute_dims(self.assemble(inner, columns[q:, ...] * single), (1, 0, 2))

    def diagonal(self, columns: Array) -> Array:
        """(U∘U) · columns for columns (n, μ), a strip of U∘U at a time."""
        xp, n, q = namespace(columns), self.vectors.shape[0], self.rank
        starts = range(0, n, _STRIP)
        strips = [self.vectors[i : min(i + _STRIP, n), :] ** 2 @ columns[:q, ...] for i in starts]
        inner = xp.concat(strips) if strips else columns[:0, ...]
        return self.assemble(inner, columns[q:, ...])


@dataclass(frozen=True)
class _Filtered(Operator):
    """U [weights] Uᵀ."""

    spectrum: _Spectrum
    weights: Array
    alpha: float

    def apply(self, Y: Array) -> Array:
        return self.spectrum.mix(Y, self.weights[None, :])[0, :, :]

    def solve_signal(self, Y: Array) -> Array:
        kept = namespace(self.weights).where(
            self.weights < 1, self.weights / self.alpha, namespace(self.weights).zeros_like(self.weights)
        )
        return self.spectrum.mix(Y, kept[None, :])[0, :, :]

    def diagonal(self) -> Array:
        return self.spectrum.diagonal(self.weights[:, None])[:, 0]

    def logdet(self) -> Array:
        xp = namespace(self.weights)
        return xp.sum(xp.log(self.spectrum.values + self.alpha))

    def block(self, rows: Array) -> Array:
        spectrum, q, xp = self.spectrum, self.spectrum.rank, namespace(self.weights)
        roots = xp.sqrt(self.weights[:q])
        if spectrum.rest is None:
            factor = gather(spectrum.vectors, rows) * roots
            return factor @ xp.matrix_transpose(factor)
        touched = np.isin(rows, spectrum.rest)
        factor = spectrum.vectors[np.searchsorted(spectrum.rest, rows[touched])] * roots[None, :]
        alone = q + np.searchsorted(spectrum.alone, rows[~touched])
        block = np.zeros((len(rows), len(rows)))
        block[np.ix_(touched, touched)] = factor @ factor.T
        block[~touched, ~touched] = self.weights[alone]
        return block


def decompose(K: Array, alone: Any | None, release_lock: bool) -> _Spectrum:
    """Eigenvalues and eigenvectors of K; the rows `alone` are their own."""
    check_stop()
    if alone is None:
        values, vectors = symmetric_eigh(K, overwrite=True, release_lock=release_lock)
        return _Spectrum(values, vectors, None, None)
    rest = np.setdiff1d(np.arange(K.shape[0]), alone)
    values, vectors = np.linalg.eigh(K[np.ix_(rest, rest)])
    return _Spectrum(np.concatenate([values, K[alone, alone]]), vectors, rest, alone)


def isolated_rows(K: Array) -> Any | None:
    """Rows whose entries beside the diagonal vanish to working precision, or None if there are few.

    An entry counts as 0 below eps/n times the smallest diagonal entry: dropping all of them moves
    the eigenvalues by less than the rounding of the decomposition itself.
    """
    n = K.shape[0]
    if not is_numpy(K) or n < 2:
        return None
    diagonal = np.diagonal(K)
    negligible = np.finfo(np.float64).eps / n * max(float(diagonal.min()), 0.0)
    touched = np.zeros(n, dtype=bool)
    for start in range(0, n, _STRIP):
        strip = np.abs(K[start : start + _STRIP]) > negligible
        touched[start : start + _STRIP] = strip.sum(axis=1) > 1
        # Most kernels touch everywhere: a first strip without a lone row settles it.
        if start == 0 and touched[:_STRIP].all():
            return None
    alone = np.flatnonzero(~touched)
    return alone if alone.size > n // 8 else None
