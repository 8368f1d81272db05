r"""R(μ) for every μ from one eigendecomposition K = U Λ Uᵀ.

    R = U [μ/(λ+μ)] Uᵀ,   diag R = (U∘U) [μ/(λ+μ)],   R_JJ = U_J [μ/(λ+μ)] U_Jᵀ

One decomposition of about 12 n³ operations, then n² per μ for residuals and the diagonal, and
2 n |J|² per μ for a held-out part J. Rows that no other row touches (a narrow kernel leaves most
rows alone) are their own eigenvectors and never enter the decomposition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onefold.arrays import Array, is_numpy, namespace, symmetric_eigh, take_rows, to_numpy
from onefold.smoothers.base import (
    BorderCorrection,
    Smoother,
    as_vector,
    solve_blocks,
    stack_length,
    without_rows,
)

_STRIP = 256  # rows of U∘U formed at a time
ROUNDING = float(np.sqrt(np.finfo(np.float64).eps))


class SpectralSmoother(Smoother):
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
    tolerance : float
        Negative eigenvalues up to this, relative to the largest, are rounding.
    """

    def __init__(
        self,
        K: Array,
        border: Array | None,
        *,
        alone: Any | None = None,
        release_lock: bool = False,
        tolerance: float = ROUNDING,
    ) -> None:
        super().__init__(K.shape[0], border)
        self._alone = alone
        if self._alone is None:
            values, self._vectors = symmetric_eigh(K, overwrite=True, release_lock=release_lock)
        else:
            rest = np.setdiff1d(np.arange(self.n), self._alone)
            alone_values = K[self._alone, self._alone]
            inner, vectors = np.linalg.eigh(K[np.ix_(rest, rest)])
            self._rest, self._vectors = rest, vectors
            values = np.concatenate([inner, alone_values])
        check_spectrum(values, tolerance)
        self.eigenvalues = values

    def _filter(self, alphas: Any) -> Array:
        """μ/(λ+μ) of shape (μ, n)."""
        mu = as_vector(alphas, self.eigenvalues)[:, None]
        shifted = self.eigenvalues[None, :] + mu
        if bool(namespace(shifted).any(shifted <= 0)):
            smallest = float(namespace(shifted).min(self.eigenvalues))
            raise ValueError(not_psd_message(smallest))
        return mu / shifted

    def _apply(self, Y: Array, weights: Array) -> Array:
        """U [weights] Uᵀ Y for weights (μ, n): one product for all μ and targets together."""
        if self._alone is None:
            return self._mix(self._vectors, self._vectors.T @ Y, weights)
        q = self._vectors.shape[1]
        out = np.empty((weights.shape[0], *Y.shape))
        out[:, self._rest] = self._mix(self._vectors, self._vectors.T @ Y[self._rest], weights)
        out[:, self._alone] = weights[:, q:, None] * Y[self._alone][None]
        return out

    def _mix(self, vectors: Array, projected: Array, weights: Array) -> Array:
        """Vectors · [weights] · projected of shape (μ, rows, targets), as one matrix product."""
        xp = namespace(projected)
        (q, t), a = projected.shape, weights.shape[0]
        scaled = xp.permute_dims(weights[:, :q], (1, 0))[:, :, None] * projected[:, None, :]
        product = vectors @ xp.reshape(scaled, (q, a * t))
        return xp.permute_dims(xp.reshape(product, (vectors.shape[0], a, t)), (1, 0, 2))

    def _diagonal(self, weights: Array) -> Array:
        """diag(U [weights] Uᵀ) of shape (μ, n)."""
        xp = namespace(weights)
        q = self._vectors.shape[1]
        columns = xp.permute_dims(weights[:, :q], (1, 0))
        strips = [
            self._vectors[i : i + _STRIP, :] ** 2 @ columns
            for i in range(0, self._vectors.shape[0], _STRIP)
        ]
        inner = xp.concat(strips) if strips else columns[:0, :]
        if self._alone is None:
            return xp.permute_dims(inner, (1, 0))
        out = np.empty((weights.shape[0], self.n))
        out[:, self._rest] = inner.T
        out[:, self._alone] = weights[:, q:]
        return out

    def _border(self, weights: Array) -> BorderCorrection | None:
        if self.border is None:
            return None
        rho = self._apply(self.border[:, None], weights)[:, :, 0]
        return BorderCorrection.of(rho, self.border)

    def residuals(self, Y: Array, alphas: Any) -> Array:
        weights = self._filter(alphas)
        RY, border = self._apply(Y, weights), self._border(weights)
        return RY if border is None else border.vectors(RY, Y)

    def diagonal(self, alphas: Any) -> Array:
        """Diag R_b of shape (μ, n)."""
        weights = self._filter(alphas)
        diagonal, border = self._diagonal(weights), self._border(weights)
        return diagonal if border is None else border.diagonal(diagonal)

    def leave_one_out(self, Y: Array, alphas: Any) -> Array:
        return Y[None] - self.residuals(Y, alphas) / self.diagonal(alphas)[:, :, None]

    def heldout(self, Y: Array, parts: Sequence[Any], alphas: Any) -> list[Array]:
        weights = self._filter(alphas)
        border = self._border(weights)
        return [self._heldout_part(Y, rows, weights, border) for rows in parts]

    def _heldout_part(
        self, Y: Array, rows: Any, weights: Array, border: BorderCorrection | None
    ) -> Array:
        xp = namespace(Y)
        blanked = without_rows(Y, rows)
        block, RY = self._parts_of_R(blanked, rows, weights)
        if border is not None:
            RY = border.vectors(RY, blanked, rows)
        pieces, step = [], stack_length(len(rows), weights.shape[0])
        for start in range(0, weights.shape[0], step):
            chunk = range(start, min(start + step, weights.shape[0]))
            blocks = [block(i) if border is None else border.block(block(i), rows, i) for i in chunk]
            pieces.append(-solve_blocks(blocks, RY[start : start + step, :, :]))
        return xp.concat(pieces)

    def _parts_of_R(
        self, blanked: Array, rows: Any, weights: Array
    ) -> tuple[Callable[[int], Array], Array]:
        """The function μ index → R_JJ, and (R Y⁰)_J for every μ."""
        xp = namespace(blanked)
        if self._alone is None:
            vectors, roots = take_rows(self._vectors, rows), xp.sqrt(weights)
            RY = self._mix(vectors, self._vectors.T @ blanked, weights)

            def block(index: int) -> Array:
                factor = vectors * roots[index, :][None, :]
                return factor @ factor.T

            return block, RY

        q = self._vectors.shape[1]
        touched = np.flatnonzero(np.isin(rows, self._rest))
        single = np.flatnonzero(~np.isin(rows, self._rest))
        vectors = self._vectors[np.searchsorted(self._rest, rows[touched])]
        roots = np.sqrt(weights[:, :q])
        alone = q + np.searchsorted(self._alone, rows[single])
        RY = np.zeros((weights.shape[0], len(rows), blanked.shape[1]))
        RY[:, touched] = self._mix(vectors, self._vectors.T @ blanked[self._rest], weights)

        def sparse_block(index: int) -> Array:
            factor = vectors * roots[index][None, :]
            whole = np.zeros((len(rows), len(rows)))
            whole[np.ix_(touched, touched)] = factor @ factor.T
            whole[single, single] = weights[index, alone]
            return whole

        return sparse_block, RY

    def trace(self, alphas: Any) -> Any:
        weights = self._filter(alphas)
        trace = to_numpy(namespace(weights).sum(weights, axis=1))
        border = self._border(weights)
        return trace if border is None else border.trace(trace)

    def logdet(self, alphas: Any) -> Any:
        xp = namespace(self.eigenvalues)
        mu = as_vector(alphas, self.eigenvalues)[:, None]
        logdet = to_numpy(xp.sum(xp.log(self.eigenvalues[None, :] + mu), axis=1))
        border = self._border(self._filter(alphas))
        if border is None:
            return logdet
        return border.logdet(logdet, np.asarray(alphas, dtype=float).reshape(-1), self.border)


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


def check_spectrum(values: Array, tolerance: float = ROUNDING) -> None:
    """Raise if the eigenvalues are those of an indefinite matrix, beyond rounding."""
    if values.shape[0] == 0:
        return
    xp = namespace(values)
    smallest, largest = float(xp.min(values)), float(xp.max(xp.abs(values)))
    if smallest < -tolerance * largest:
        raise ValueError(not_psd_message(smallest))


def not_psd_message(smallest: float) -> str:
    """The sentence for an indefinite kernel."""
    return (
        f"the kernel matrix is not positive semi-definite (smallest eigenvalue {smallest:.3g}); "
        "use a positive semi-definite kernel, or add to the diagonal of a precomputed one."
    )


def psd_probe(K: Array, tolerance: float, size: int = 256) -> None:
    """Raise early, from a principal submatrix, if a kernel that the user brought is indefinite.

    O(size³): a negative eigenvalue of a submatrix proves one of the whole (interlacing).
    """
    n = K.shape[0]
    pick = np.unique(np.linspace(0, n - 1, min(n, size)).astype(int))
    part = to_numpy(take_rows(K, pick))[:, pick]
    check_spectrum(np.linalg.eigvalsh(part), tolerance)
