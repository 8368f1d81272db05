r"""R(μ) of a dense matrix K: by its eigenvalues, a thin factor, or a Cholesky factorisation per μ.

*One eigendecomposition* K = U Λ Uᵀ serves every μ:

    R = U [μ/(λ+μ)] Uᵀ,   diag R = (U∘U) [μ/(λ+μ)],   R_JJ = U_J [μ/(λ+μ)] U_Jᵀ

One decomposition, which takes as long as matrix products of about 12 n³ multiply-adds, then n² per μ
for residuals and the diagonal, and 2 n |J|² per μ for a held-out part J. Rows that no other row touches
(a narrow kernel leaves most rows alone) are their own eigenvectors and never enter the decomposition.

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
rounding leaves indefinite at a small μ is decomposed instead. Where solutions only rank candidates, the
factor is one of float32, in half the time, and K in float64 refines them: while r = Y − (K + μI) α is
what is left, predictions at the rows are wrong by K (K + μI)⁻¹ r, no more than ‖r‖. Where that does not
fall to a fraction of their residuals μα in a few steps, as for smooth kernels with tiny ridges, a factor
of float64 takes over.

Which of them serves, :func:`onefold.smoothers.base.choose_route` decides; what follows from R at some μ
is the same for all of them.

*Rows held out*. Sets of rows J_1 … J_k are left out in turn. For targets Y (n, t) everything is laid
side by side in n × (k · t) columns,

    Y⁰ = Y with zeros on J,    Ŷ = Y with f_J on J,    one block of t columns for each J

so that one product with R serves all of them. Rows held out come in two forms:

    f_J = −(R_b)_JJ⁻¹ (R_b Y⁰)_J          `heldout`: the predictions alone
    α = R_b Ŷ / μ,   sᵀŶ / sᵀs            `heldout_duals`: the models trained without J

α is 0 on J and elsewhere the solution of the problem without J. It takes another product with R, O(n²)
per μ, part and target, and gives predictions K α that are as good as a literal refit's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from onefold import linalg
from onefold.linalg import (
    Array,
    HostArray,
    Index,
    as_vector,
    asarray_like,
    dense,
    index_like,
    namespace,
    take_rows,
)
from onefold.machine.threads import check_stop, spans
from onefold.smoothers.base import GIVEN, LARGE, Flags, Rounding, Smoother, UnsolvableError, not_psd

_BELOW = 100.0  # times the noise: a smaller ridge would be decided by it
_SATURATED = 1e-8  # of (R_b)_ii: a row that decides its own fitted value
_SINGLE_ROWS = 600  # from which a factor of float32 saves time
_ROUGH = 0.003
_REFINED = 4  # of the residuals that a rough solution may be wrong by; steps to get there
_STRIP = 256  # rows of n treated at a time, where all at once would be a second array of n × n
_CORNER = 0.25  # of the rows: a corner that begins above is not worth an array of its own
_FEWEST = 1000  # rows, below which a decomposition takes no time worth saving by a thin factor
_PROBE = 400  # rows whose spectrum decides whether to try
_LARGEST_SHARE = 3  # worth it while 3 r ≤ n
_THIN_ROUNDING = 32 * float(np.finfo(np.float64).eps)


class Operator(ABC):
    """R = μ (K + μI)⁻¹ at one μ, or at several that share their products."""

    alphas: Array  # (μ,), on the device of K

    @abstractmethod
    def apply(self, Y: Array) -> Array:
        """R Y of shape (μ, n, t), for Y (n, t), or (μ, n, t) of its own at each μ."""

    def expect_blocks(self, first: int = 0) -> None:
        """Make ready, before `apply`, what serves blocks of rows from the first on, and the diagonal."""

    @abstractmethod
    def block(self, rows: Array, index: int) -> Array:
        """R_JJ at the μ at `index` for rows (|J|,), or a stack of blocks for a stack of rows."""

    @abstractmethod
    def diagonal(self) -> Array:
        """The diagonal of R, shape (μ, n)."""

    def diagonal_at(self, rows: Index) -> Array:
        """The diagonal of R at some rows, ascending, of the first μ."""
        return take_rows(self.diagonal()[0, :], rows)

    @abstractmethod
    def logdet(self) -> Array:
        """The numbers log det (K + μI), shape (μ,)."""

    def solve_signal(self, Y: Array) -> Array:
        """(K + μI)⁻¹ Y in the directions known to be more than rounding; Y as in `apply`."""
        return self.apply(Y) / self.alphas[:, None, None]


@dataclass(frozen=True)
class BorderCorrection:
    """R_b = R − ρρᵀ/σ for a vector of μ: ρ (μ, n) and σ = sᵀρ (μ,); 0 and 1 without a border."""

    rho: Array
    sigma: Array

    def vectors(self, RY: Array, Y: Array) -> Array:
        """R Y → R_b Y, shape (μ, n, targets), for Y (n, targets), or (μ, n, targets) of its own."""
        b = (self.rho[:, None, :] @ Y)[:, 0, :] / self.sigma[:, None]
        return RY - self.rho[:, :, None] * b[:, None, :]

    def diagonal(self, diagonal: Array) -> Array:
        """From diag R to diag R_b, shape (μ, n)."""
        return diagonal - self.rho**2 / self.sigma[:, None]


class DenseSmoother(Smoother):
    """R_b(μ) through operators, some μ after the others."""

    noise = 0.0  # eigenvalues of K up to this size are rounding
    smallest_eigenvalue = 0.0  # of K, as far as the factorisation knows it: 0 unless it is negative

    @abstractmethod
    def operators(self, alphas: ArrayLike, columns: int = 1) -> Iterator[Operator]:
        """R at every μ in turn, to be applied to so many columns.

        An operator is used up before the next one is asked for.
        """

    def solvable(self, alphas: ArrayLike) -> Flags:
        """Whether K + μI is positive definite at each μ, as far as the factorisation knows."""
        return as_vector(alphas) + self.smallest_eigenvalue > 0

    def below_rounding(self, alphas: ArrayLike) -> Flags:
        r"""Whether each μ is so small next to K that the rounding of K would decide the solution.

        Directions in which K is nothing but rounding then count as 0, see `duals`.
        """
        return as_vector(alphas) < _BELOW * self.noise

    def _first(self, operator: Operator, Y: Array | None = None) -> tuple[Array, BorderCorrection]:
        """R_b Y, and the border's correction, from one product with R; Y is a zero column if None."""
        Y = linalg.zeros((self.n, 1), operator.alphas) if Y is None else Y
        if self.border is None:
            size = operator.alphas.shape[0]
            none = BorderCorrection(linalg.zeros((size, self.n), Y), linalg.ones(size, Y))
            return operator.apply(Y), none
        xp = namespace(Y)
        t = Y.shape[1]
        both = operator.apply(xp.concat([Y, self.border[:, None]], axis=1))
        rho = xp.asarray(both[:, :, t], copy=True)
        border = BorderCorrection(rho, rho @ self.border)
        return border.vectors(both[:, :, :t], Y), border

    def residuals(self, Y: Array, alphas: ArrayLike) -> Array:
        operators = self.operators(alphas, Y.shape[1])
        return namespace(Y).concat([self._first(operator, Y)[0] for operator in operators])

    def duals(self, Y: Array, alphas: ArrayLike) -> Array:
        r"""R_b Y / μ, shape (μ, n, targets): the coefficients of the kernel at each row.

        Where μ is below the rounding of K, without the directions that are rounding alone: they leave
        predictions as they are, but their coefficients, r/μ, would multiply the rounding of every
        later kernel value.
        """
        xp = namespace(Y)
        s = self.border
        pieces = []
        for operator in self.operators(alphas, Y.shape[1]):
            residuals, border = self._first(operator, Y)
            dual = residuals / operator.alphas[:, None, None]
            below = self.below_rounding(operator.alphas)
            if below.any():
                if s is None:
                    signal = operator.solve_signal(Y)
                else:
                    b = (border.rho @ Y) / border.sigma[:, None]
                    signal = operator.solve_signal(Y[None, ...] - s[None, :, None] * b[:, None, :])
                    # sᵀα = 0 to the last digit: K is large along s, where it was taken off.
                    signal = signal - s[:, None] * ((s @ signal) / float(s @ s))[:, None, :]
                dual = xp.where(asarray_like(below, Y)[:, None, None] > 0, signal, dual)
            pieces.append(dual)
        return xp.concat(pieces)

    def leave_one_out(self, Y: Array, alphas: ArrayLike) -> Array:
        diagonals = []
        residuals = []
        for operator in self.operators(alphas, Y.shape[1]):
            operator.expect_blocks()
            found, border = self._first(operator, Y)
            diagonals.append(border.diagonal(operator.diagonal()))
            residuals.append(found)
        xp = namespace(Y)
        known = self._known(xp.concat(diagonals), alphas)
        return Y[None, ...] - xp.concat(residuals) / known[:, :, None]

    def some_left_out(self, Y: Array, rows: Index, alpha: float) -> Array:
        """`leave_one_out` of some rows, ascending, at one μ: (rows, targets)."""
        operator = next(iter(self.operators([alpha])))
        here = index_like(rows, Y)
        residuals, border = self._first(operator, Y)
        diagonal = operator.diagonal_at(rows) - take_rows(border.rho[0, :], here) ** 2 / border.sigma[0]
        diagonal = self._known(diagonal[None, :], [alpha])[0, :]
        return take_rows(Y, here) - take_rows(residuals[0, :, :], here) / diagonal[:, None]

    def _known(self, diagonals: Array, alphas: ArrayLike) -> Array:
        """The diagonal of R_b (μ, n), NaN where rounding decides it: rows that a tiny μ saturates."""
        below = self.below_rounding(alphas)
        if not below.any():
            return diagonals
        xp = namespace(diagonals)
        lost = (diagonals < _SATURATED) & (asarray_like(below, diagonals)[:, None] > 0)
        return xp.where(lost, xp.full_like(diagonals, xp.nan), diagonals)

    def heldout(self, Y: Array, parts: Sequence[Index], alphas: ArrayLike) -> list[Array]:
        sets = LeftOut(parts, Y)
        blanked = sets.blanked(Y)
        found: list[list[Array]] = []
        for operator in self.operators(alphas, blanked.shape[1]):
            found += self._heldout(operator, blanked, sets)[0]
        return [namespace(Y).stack([f[k] for f in found]) for k in range(sets.count)]

    def heldout_duals(
        self, Y: Array, parts: Sequence[Index], alphas: ArrayLike
    ) -> tuple[Array, Array | None]:
        r"""α (μ, parts, n, t) of the models without each part; with a border sᵀŶ / sᵀs (μ, parts, t)."""
        duals = []
        levels = []
        sets = LeftOut(parts, Y)
        xp = namespace(Y)
        blanked = sets.blanked(Y)
        for operator in self.operators(alphas, blanked.shape[1]):
            found, border = self._heldout(operator, blanked, sets)
            filled = xp.stack([sets.replaced(blanked, f) for f in found])
            dual = border.vectors(operator.apply(filled), filled)
            if self.border is not None:
                level = (self.border @ filled) / (self.border @ self.border)
                levels.append(xp.reshape(level, (len(found), sets.count, Y.shape[1])))
            dual = xp.reshape(dual, (len(found), self.n, sets.count, Y.shape[1]))
            dual = dual / operator.alphas[:, None, None, None] * sets.keep[:, :, None]
            duals.append(xp.permute_dims(dual, (0, 2, 1, 3)))
        return xp.concat(duals), xp.concat(levels) if levels else None

    def _heldout(
        self, operator: Operator, blanked: Array, sets: LeftOut
    ) -> tuple[list[list[Array]], BorderCorrection]:
        """f_J = −(R_b)_JJ⁻¹ (R_b Y⁰)_J for every μ and set, and the border's correction."""
        operator.expect_blocks(sets.first)
        RY, border = self._first(operator, blanked)
        xp = namespace(blanked)
        found = []
        for index in range(RY.shape[0]):
            solved: dict[int, Array] = {}
            own = xp.reshape(RY[index, :, :], (self.n * sets.count, -1))
            for numbers, rows, places in sets.groups:
                check_stop()
                block = operator.block(rows, index)
                part = take_rows(border.rho[index, :], rows)
                block -= part[..., :, None] * (part / border.sigma[index])[..., None, :]
                right = take_rows(own, places)
                try:
                    values = -dense.solve_positive(block, right)
                except np.linalg.LinAlgError:  # singular to the last digit: there is no such model
                    values = right * np.nan
                stack = xp.reshape(values, (len(numbers), *values.shape[-2:]))
                solved.update((number, stack[i, ...]) for i, number in enumerate(numbers))
            found.append([solved[k] for k in range(sets.count)])
        return found, border

    def trace(self, alphas: ArrayLike) -> HostArray:
        traces = []
        for operator in self.operators(alphas):
            operator.expect_blocks()
            diagonal = self._first(operator)[1].diagonal(operator.diagonal())
            traces.append(namespace(diagonal).sum(diagonal, axis=1))
        return as_vector(namespace(traces[0]).concat(traces))

    def logdet(self, alphas: ArrayLike) -> HostArray:
        values = []
        for operator in self.operators(alphas):
            value = operator.logdet()
            if self.border is not None:
                # That on the complement of s: + log(sᵀG⁻¹s) − log(sᵀs).
                xp = namespace(value)
                s = self.border
                border = self._first(operator)[1]
                value = value + xp.log(border.sigma / operator.alphas) - xp.log(s @ s)
            values.append(value)
        return as_vector(namespace(values[0]).concat(values))


class LeftOut:
    """Sets of rows, on the device of the targets Y (n, t): made once, used at every μ."""

    def __init__(self, parts: Sequence[Index], Y: Array) -> None:
        self.parts = [np.asarray(rows) for rows in parts]
        self.count = len(self.parts)
        self.first = min((int(rows.min()) for rows in self.parts if rows.size), default=0)
        starts = np.cumsum([0, *(rows.size for rows in self.parts)])
        keep = np.ones((Y.shape[0], self.count))
        source = np.full(keep.shape, starts[-1])
        for k, rows in enumerate(self.parts):
            keep[rows, k] = 0.0
            source[rows, k] = starts[k] + np.arange(rows.size)
        self.keep = asarray_like(keep, Y)  # (n, k): 1 where a row takes part in training, else 0
        # Where each row of each set is found among all f_J, one after the other; else the end.
        self._source = index_like(source.reshape(-1), Y)
        # Sets that are solved in one call, on a device those of one size, within n rows in all and not
        # too many numbers in the columns of their rows, which some of CUDA's functions fail with: their
        # numbers, their rows (|J|,) or (sets, |J|), and the places of these in their own columns.
        self.groups: list[tuple[list[int], Array, Array]] = []
        by_size: dict[int, list[int]] = {}
        for k, rows in enumerate(self.parts):
            by_size.setdefault(k if linalg.uses_lapack(Y) else rows.size, []).append(k)
        for numbers in by_size.values():
            size = max(1, self.parts[numbers[0]].size)
            step = max(1, min(Y.shape[0] // size, dense.STACK // (size * Y.shape[0])))
            for some in (numbers[span] for span in spans(len(numbers), step)):
                rows = np.stack([self.parts[k] for k in some])
                places = rows * self.count + np.array(some)[:, None]
                if linalg.uses_lapack(Y):
                    rows = rows[0]
                    places = places[0]
                self.groups.append((some, index_like(rows, Y), index_like(places, Y)))

    def blanked(self, Y: Array) -> Array:
        """Y⁰ for every set, shape (n, k · t)."""
        return namespace(Y).reshape(Y[:, None, :] * self.keep[:, :, None], (Y.shape[0], -1))

    def replaced(self, blanked: Array, found: Sequence[Array]) -> Array:
        """Ŷ for every set, shape (n, k · t), from Y⁰ and the f_J (|J|, t)."""
        xp = namespace(blanked)
        (n, t) = (blanked.shape[0], found[0].shape[1])
        nothing = xp.zeros_like(blanked[:1, :t])
        values = xp.take(xp.concat([*found, nothing]), self._source, axis=0)
        return blanked + xp.reshape(values, (n, self.count * t))


# -- eigenvalues ---------------------------------------------------------------------------------------


class _Decomposed(DenseSmoother):
    """R_b(μ) from columns U and their λ: U [μ/(λ+μ)] Uᵀ, or of a thin U, I − U [λ/(λ+μ)] Uᵀ."""

    # λ, U, and of a U of rows that are coupled which these are, and which stand alone: see `_Filtered`.
    _spectrum: tuple[Any, Any, Index | None, Index | None]
    _thin = False

    def operators(self, alphas: ArrayLike, columns: int = 1) -> Iterator[Operator]:
        """As many μ together as need no larger arrays than U."""
        if not self.solvable(alphas).all():
            raise not_psd(self.smallest_eigenvalue)
        values = self._spectrum[0]
        xp = namespace(self._spectrum[0])
        mu = asarray_like(as_vector(alphas), values)
        weights = (values[None, :] if self._thin else mu[:, None]) / (values[None, :] + mu[:, None])
        below = self.below_rounding(alphas)
        if below.any() and not self._thin:  # where μ is below the rounding of K, noise counts as 0
            lost = index_like(below, values)[:, None] & (abs(values) <= self.noise)[None, :]
            weights = xp.where(lost, xp.ones_like(weights), weights)
        for part in spans(mu.shape[0], max(1, values.shape[0] // max(1, columns))):
            check_stop()
            yield _Filtered(*self._spectrum, weights[part, :], mu[part], self._thin)


class SpectralSmoother(_Decomposed):
    """R_b(μ) from the eigenvalues and eigenvectors of K (n, n), which is overwritten.

    The rows `alone`, from :func:`isolated_rows`, are left out of the decomposition. `release_lock` takes
    the routine that scales over Python threads and needs more memory, by default for few rows;
    `rounding` says which negative eigenvalues count as 0.
    """

    def __init__(
        self,
        K: Array,
        border: Array | None,
        *,
        alone: Index | None = None,
        release_lock: bool | None = None,
        rounding: Rounding = GIVEN,
    ) -> None:
        super().__init__(K.shape[0], border)
        check_stop()
        rest = None
        if alone is None:
            shared = self.n <= LARGE if release_lock is None else release_lock
            values, vectors = dense.symmetric_eigh(K, release_lock=shared)
        else:
            rest = np.setdiff1d(np.arange(K.shape[0]), alone)
            values, vectors = np.linalg.eigh(K[np.ix_(rest, rest)])
            values = np.concatenate([values, K[alone, alone]])
        check_stop()  # what follows are products with all eigenvectors
        self.noise = rounding.noise(values)
        values = rounding.settled(values)
        self._spectrum = values, vectors, rest, alone
        self.smallest_eigenvalue = float(namespace(values).min(values))


@dataclass(frozen=True)
class _Filtered(Operator):
    """U [weights] Uᵀ, or of a thin U, which has no directions of noise, I − U [weights] Uᵀ.

    U = [vectors on `rest`, unit vectors on `alone`], λ and weights in that order.
    """

    values: Any
    vectors: Any  # (rows that are coupled, q)
    rest: Index | None  # None where every row is
    alone: Index | None
    weights: Array  # (μ, λ): μ/(λ+μ), thin λ/(λ+μ)
    alphas: Array
    thin: bool

    def apply(self, Y: Array) -> Array:
        mixed = self._mixed(Y, self.weights)
        return Y - mixed if self.thin else mixed

    def solve_signal(self, Y: Array) -> Array:
        if self.thin:
            return self._mixed(Y, 1.0 / (self.values + self.alphas[:, None]))
        weights = self.weights
        xp = namespace(self.weights)
        kept = xp.where(weights < 1, weights / self.alphas[:, None], xp.zeros_like(weights))
        return self._mixed(Y, kept)

    def _mixed(self, Y: Array, weights: Array) -> Array:
        """U [weights] Uᵀ Y of shape (μ, n, t) for weights (μ, λ), as one product; Y as in `apply`."""
        xp = namespace(Y)
        a = weights.shape[0]
        m, q = self.vectors.shape
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

    def diagonal(self) -> Array:
        """(U∘U) [weights], a strip of U∘U at a time."""
        xp = namespace(self.weights)
        m, q = self.vectors.shape
        columns = xp.permute_dims(self.weights, (1, 0))
        strips = [self.vectors[part, :] ** 2 @ columns[:q, ...] for part in spans(m, _STRIP)]
        coupled = xp.concat(strips) if strips else columns[:0, ...]
        diagonal = xp.permute_dims(self._assembled(coupled, columns[q:, ...]), (1, 0))
        return 1.0 - diagonal if self.thin else diagonal

    def _assembled(self, coupled: Array, single: Array | None) -> Array:
        """Rows that are coupled and rows that stand alone, in their places."""
        if self.rest is None or single is None:
            return coupled
        out = np.empty((coupled.shape[0] + single.shape[0], *coupled.shape[1:]))
        out[self.rest] = coupled
        out[self.alone] = single
        return out

    def block(self, rows: Array, index: int) -> Array:
        xp = namespace(self.weights)
        q = self.vectors.shape[1]
        roots = xp.sqrt(self.weights[index, :q])
        if self.rest is None or self.alone is None:
            factor = take_rows(self.vectors, rows) * roots
            block = factor @ xp.matrix_transpose(factor)
            return dense.add_to_diagonal(-block, 1.0) if self.thin else block
        touched = np.isin(rows, self.rest)
        factor = self.vectors[np.searchsorted(self.rest, rows[touched])] * roots[None, :]
        block = np.zeros((len(rows), len(rows)))
        block[np.ix_(touched, touched)] = factor @ factor.T
        single = q + np.searchsorted(self.alone, rows[~touched])
        block[~touched, ~touched] = self.weights[index, single]
        return block

    def logdet(self) -> Array:
        xp = namespace(self.weights)
        n, rank = self.vectors.shape
        known = xp.sum(xp.log(self.values[None, :] + self.alphas[:, None]), axis=1)
        return known + (n - rank) * xp.log(self.alphas) if self.thin else known


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
        self.values = values
        self.columns = columns
        self._spectrum = values, columns, None, None

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
        self.noise = _THIN_ROUNDING * float((singular**2).max(initial=0.0))


def low_rank_factor(K: HostArray, *, psd: bool = True) -> HostArray | None:
    """L of shape (n, r) with K = L Lᵀ to rounding, or None if r is not far below n.

    A look at the spectrum of a few hundred rows decides first whether to try. Small diagonal entries of
    what is left over prove it small for positive semi-definite matrices only: where K need not be one
    (`psd` false), it is looked at entry by entry.
    """
    n = K.shape[0]
    if n < _FEWEST:
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
    by far, as weights make them; `rough`, that factors of float32 will do where μ allows it.
    """

    def __init__(
        self,
        K: Array,
        border: Array | None,
        *,
        overwrite: bool = False,
        rounding: Rounding = GIVEN,
        graded: bool = False,
        rough: bool = False,
    ) -> None:
        super().__init__(K.shape[0], border)
        self._K: Any = K
        self._overwrite = overwrite
        self._rounding = rounding
        self._buffer: Any = None
        self._decomposed: SpectralSmoother | None = None
        self._last: tuple[float, Operator] | None = None
        # The trace bounds the largest eigenvalue; matrices with rows of very different size (graded
        # ones) have no noise to speak of, since that of each row is relative to the row.
        largest = float(namespace(K).sum(namespace(K).linalg.diagonal(K)))
        self.noise = 0.0 if graded else rounding.noise(asarray_like([largest], K))
        self._smallest = _BELOW * self.noise  # ridge to be factorised with
        self._rough = rough and self.n >= _SINGLE_ROWS

    def operators(self, alphas: ArrayLike, columns: int = 1) -> Iterator[Operator]:
        return map(self._operator, as_vector(alphas).tolist())

    def _operator(self, alpha: float) -> Operator:
        check_stop()
        if self._last is not None and self._last[0] == alpha:
            return self._last[1]
        self._last = None  # before its memory is used again
        K = self._K
        if K is not None and alpha >= self._smallest and self._rough:
            with suppress(np.linalg.LinAlgError), np.errstate(over="ignore"):
                shifted = dense.add_to_diagonal(K.astype(np.float32), alpha)
                self._last = alpha, _Factorised(shifted, alpha, K)
                return self._last[1]
        if K is not None and alpha >= self._smallest:
            diagonal = namespace(K).linalg.diagonal(K) + 0.0
            if self._overwrite:
                shifted = K
                self._K = None
            else:
                # One buffer serves every μ: the last operator is done with when the next is asked for.
                shifted = namespace(K).asarray(K, copy=True) if self._buffer is None else self._buffer
                if self._buffer is not None:
                    np.copyto(shifted, K)
                self._buffer = shifted if linalg.uses_lapack(shifted) else None
            shifted = dense.add_to_diagonal(shifted, alpha)
            try:
                self._last = alpha, _Factorised(shifted, alpha)
                return self._last[1]
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

    # Where G is of float32, K in float64 refines what is solved with its factor.

    def __init__(self, G: Array, alpha: float, K: Any = None) -> None:
        self._alpha = alpha
        self._K = K
        self.alphas = alpha * linalg.ones(1, G if K is None else K)
        self._factor = dense.cholesky(G, overwrite=True)
        self._inverted = False
        self._corner: tuple[int, Array] | None = None

    def expect_blocks(self, first: int = 0) -> None:
        # A device multiplies by L⁻¹ far faster than it solves with L for a few columns; on a host
        # solving is as fast, and has the better digits.
        if not linalg.uses_lapack(self._factor):
            self._inverse(first)

    def _inverse(self, row: int = 0) -> tuple[int, Array]:
        """The first row of a last corner of L⁻¹ that begins no later than `row`, and that corner."""
        if self._inverted or row < _CORNER * self._factor.shape[0]:
            if not self._inverted:
                check_stop()
                self._factor = dense.invert_lower(self._factor)
                self._inverted = True
            self._corner = 0, self._factor
        elif self._corner is None or self._corner[0] > row:
            check_stop()
            corner = self._factor[row:, row:]
            host = linalg.uses_lapack(self._factor)
            copy = np.array(corner, order="F") if host else namespace(corner).asarray(corner, copy=True)
            self._corner = row, dense.invert_lower(copy)
        return self._corner

    def apply(self, Y: Array) -> Array:
        Y = Y if Y.ndim == 2 else Y[0, :, :]
        if self._inverted:
            return (self._alpha * (self._factor.T @ (self._factor @ Y)))[None, :, :]
        if self._K is not None:
            found = self._refined(Y)
            if found is not None:
                return (self._alpha * found)[None, :, :]
            G = dense.add_to_diagonal(self._K.copy(), self._alpha)
            try:
                self._factor = dense.cholesky(G, overwrite=True)
                self._K = None
            except np.linalg.LinAlgError as error:
                raise UnsolvableError(
                    f"the kernel matrix plus alpha={self._alpha:.3g} is not positive definite; use a "
                    "positive semi-definite kernel, or a larger alpha."
                ) from error
        found = dense.cholesky_solve(self._factor, Y)
        return (self._alpha * found)[None, :, :]

    def _refined(self, Y: Any) -> Any | None:
        """(K + μI)⁻¹ Y by a factor of float32, as exact as a rough solution must be; or None."""
        found = np.zeros_like(Y)
        left = Y
        with np.errstate(over="ignore", invalid="ignore"):  # beyond float32: no solution
            for _ in range(_REFINED):
                found += dense.cholesky_solve(self._factor, left)
                left = Y - self._K @ found - self._alpha * found
                sizes = np.linalg.norm(left, axis=0), self._alpha * np.linalg.norm(found, axis=0)
                if np.all(sizes[0] <= _ROUGH * sizes[1]):
                    return found
        return None

    def block(self, rows: Any, index: int) -> Array:
        first, inverse = self._inverse(0 if self._inverted or not len(rows) else int(rows.min()))
        columns = take_rows(inverse.T, rows - first)
        return self._alpha * (columns @ namespace(columns).matrix_transpose(columns))

    def diagonal(self) -> Array:
        _, inverse = self._inverse()
        xp = namespace(inverse)
        total = 0.0 * inverse[0, :]
        for part in spans(inverse.shape[0], _STRIP):
            total += xp.sum(inverse[part, :] ** 2, axis=0)
        return self._alpha * total[None, :]

    def diagonal_at(self, rows: Index) -> Array:
        if self._inverted:
            return super().diagonal_at(rows)
        check_stop()
        return self._alpha * dense.inverse_column_squares(self._factor, rows)

    def logdet(self) -> Array:
        xp = namespace(self._factor)
        total = 2 * xp.sum(xp.log(xp.linalg.diagonal(self._factor)))
        return (-total if self._inverted else total)[None]


def _unfactorised(G: Array, diagonal: Array, alpha: float) -> Array:
    """K from what a failed factorisation in place left of K + μI: one triangle, and K's diagonal."""
    if not linalg.uses_lapack(G):  # what is above the diagonal is as it was
        xp = namespace(G)
        for part in spans(G.shape[0], _STRIP):
            G[part.stop :, part] = G[part, part.stop :].T
            corner = xp.triu(G[part, part], k=1)
            G[part, part] = corner + corner.T
        xp.reshape(G, (-1,))[:: G.shape[0] + 1] = diagonal
        return G
    K = np.tril(G, -1)
    K += K.T
    K.flat[:: K.shape[0] + 1] = diagonal
    return K
