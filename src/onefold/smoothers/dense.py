r"""R(μ) of a dense matrix: what follows from R at some μ, whatever K was factorised into.

Sets of rows J_1 … J_k are left out in turn. For targets Y (n, t) everything is laid side by side in
n × (k · t) columns,

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
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from onefold.linalg import (
    Array,
    HostArray,
    Index,
    is_numpy,
    like,
    like_index,
    namespace,
    ones,
    solve_positive,
    to_numpy,
    zeros,
)
from onefold.machine.threads import check_stop, spans
from onefold.smoothers.base import BELOW, Flags, Smoother, gather

_SATURATED = 1e-8  # of (R_b)_ii: a row that decides its own fitted value


class Operator(ABC):
    """R = μ (K + μI)⁻¹ at one μ, or at several that share their products."""

    alphas: Array  # (μ,), on the device of K

    @abstractmethod
    def apply(self, Y: Array) -> Array:
        """R Y of shape (μ, n, t), for Y (n, t), or (μ, n, t) of its own at each μ."""

    def expect_blocks(self) -> None:
        """Make ready, before `apply`, what serves blocks and the diagonal and could serve it too."""

    @abstractmethod
    def block(self, rows: Array, index: int) -> Array:
        """R_JJ at the μ at `index` for rows (|J|,), or a stack of blocks for a stack of rows."""

    @abstractmethod
    def diagonal(self) -> Array:
        """The diagonal of R, shape (μ, n)."""

    def diagonal_at(self, rows: Index) -> Array:
        """The diagonal of R at some rows, ascending, of the first μ."""
        diagonal = self.diagonal()[0, :]
        return gather(diagonal, like_index(rows, diagonal))

    @abstractmethod
    def logdet(self) -> Array:
        """The numbers log det (K + μI), shape (μ,)."""

    def solve_signal(self, Y: Array) -> Array:
        """(K + μI)⁻¹ Y in the directions in which K is more than rounding; Y as in `apply`."""
        raise NotImplementedError(f"{type(self).__name__} has no directions")


@dataclass(frozen=True)
class BorderCorrection:
    r"""The rank-one step from R to R_b = R − ρρᵀ/σ for a vector of μ: ρ (μ, n) and σ = sᵀρ (μ,).

    Without a border ρ = 0 and σ = 1.
    """

    rho: Array
    sigma: Array

    def vectors(self, RY: Array, Y: Array) -> Array:
        """R Y → R_b Y, shape (μ, n, targets), for Y (n, targets), or (μ, n, targets) of its own."""
        b = (self.rho[:, None, :] @ Y)[:, 0, :] / self.sigma[:, None]
        return RY - self.rho[:, :, None] * b[:, None, :]

    def diagonal(self, diagonal: Array) -> Array:
        """From diag R to diag R_b, shape (μ, n)."""
        return diagonal - self.rho**2 / self.sigma[:, None]

    def block(self, block: Array, rows: Array, index: int) -> Array:
        """R_JJ → (R_b)_JJ for the μ at `index`; rows (|J|,), or a stack of them."""
        part = gather(self.rho[index, :], rows)
        block -= part[..., :, None] * (part / self.sigma[index])[..., None, :]
        return block


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
        return np.asarray(alphas, dtype=np.float64).reshape(-1) + self.smallest_eigenvalue > 0

    def below_rounding(self, alphas: ArrayLike) -> Flags:
        r"""Whether each μ is so small next to K that the rounding of K would decide the solution.

        Directions in which K is nothing but rounding then count as 0, see `duals`.
        """
        return np.asarray(alphas, dtype=np.float64).reshape(-1) < BELOW * self.noise

    def _first(self, operator: Operator, Y: Array | None = None) -> tuple[Array, BorderCorrection]:
        """R_b Y, and the border's correction, from one product with R; Y is a zero column if None."""
        Y = zeros((self.n, 1), operator.alphas) if Y is None else Y
        if self.border is None:
            none = zeros((operator.alphas.shape[0], self.n), Y), ones(operator.alphas.shape[0], Y)
            return operator.apply(Y), BorderCorrection(*none)
        xp, t = namespace(Y), Y.shape[1]
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
        xp, s, pieces = namespace(Y), self.border, []
        for operator in self.operators(alphas, Y.shape[1]):
            residuals, border = self._first(operator, Y)
            dual = residuals / operator.alphas[:, None, None]
            below = self.below_rounding(to_numpy(operator.alphas))
            if below.any():
                if s is None:
                    signal = operator.solve_signal(Y)
                else:
                    b = (border.rho @ Y) / border.sigma[:, None]
                    signal = operator.solve_signal(Y[None, ...] - s[None, :, None] * b[:, None, :])
                    # sᵀα = 0 to the last digit: K is large along s, where it was taken off.
                    signal = signal - s[:, None] * ((s @ signal) / float(s @ s))[:, None, :]
                dual = xp.where(like(below, Y)[:, None, None] > 0, signal, dual)
            pieces.append(dual)
        return xp.concat(pieces)

    def leave_one_out(self, Y: Array, alphas: ArrayLike) -> Array:
        diagonals, residuals = [], []
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
        operator, here = next(iter(self.operators([alpha]))), like_index(rows, Y)
        residuals, border = self._first(operator, Y)
        diagonal = operator.diagonal_at(rows) - gather(border.rho[0, :], here) ** 2 / border.sigma[0]
        diagonal = self._known(diagonal[None, :], [alpha])[0, :]
        return gather(Y, here) - gather(residuals[0, :, :], here) / diagonal[:, None]

    def _known(self, diagonals: Array, alphas: ArrayLike) -> Array:
        """The diagonal of R_b (μ, n), NaN where rounding decides it: rows that a tiny μ saturates."""
        below = self.below_rounding(alphas)
        if not below.any():
            return diagonals
        xp = namespace(diagonals)
        lost = (diagonals < _SATURATED) & (like(below, diagonals)[:, None] > 0)
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
        duals, levels, sets = [], [], LeftOut(parts, Y)
        xp, blanked = namespace(Y), sets.blanked(Y)
        for operator in self.operators(alphas, blanked.shape[1]):
            found, border = self._heldout(operator, blanked, sets)
            filled = xp.stack([sets.replaced(blanked, f) for f in found])
            dual = border.vectors(operator.apply(filled), filled)
            if self.border is not None:
                level = (self.border @ filled) / (self.border @ self.border)
                levels.append(xp.reshape(level, (len(found), sets.count, Y.shape[1])))
            duals.append(sets.zeroed(dual / operator.alphas[:, None, None]))
        return xp.concat(duals), xp.concat(levels) if levels else None

    def _heldout(
        self, operator: Operator, blanked: Array, sets: LeftOut
    ) -> tuple[list[list[Array]], BorderCorrection]:
        """f_J = −(R_b)_JJ⁻¹ (R_b Y⁰)_J for every μ and set, and the border's correction."""
        operator.expect_blocks()
        RY, border = self._first(operator, blanked)
        xp, found = namespace(blanked), []
        for index in range(RY.shape[0]):
            solved: dict[int, Array] = {}
            own = xp.reshape(RY[index, :, :], (self.n * sets.count, -1))
            for numbers, rows, places in sets.groups:
                check_stop()
                block = border.block(operator.block(rows, index), rows, index)
                right = gather(own, places)
                try:
                    values = -solve_positive(block, right)
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
        return to_numpy(namespace(traces[0]).concat(traces))

    def logdet(self, alphas: ArrayLike) -> HostArray:
        values = []
        for operator in self.operators(alphas):
            value = operator.logdet()
            if self.border is not None:
                # That on the complement of s: + log(sᵀG⁻¹s) − log(sᵀs).
                xp, s, border = namespace(value), self.border, self._first(operator)[1]
                value = value + xp.log(border.sigma / operator.alphas) - xp.log(s @ s)
            values.append(value)
        return to_numpy(namespace(values[0]).concat(values))


class LeftOut:
    """Sets of rows, on the device of the targets Y (n, t): made once, used at every μ."""

    def __init__(self, parts: Sequence[Index], Y: Array) -> None:
        self.parts = [np.asarray(rows) for rows in parts]
        self.count = len(self.parts)
        starts = np.cumsum([0, *(rows.size for rows in self.parts)])
        keep = np.ones((Y.shape[0], self.count))
        source = np.full(keep.shape, starts[-1])
        for k, rows in enumerate(self.parts):
            keep[rows, k] = 0.0
            source[rows, k] = starts[k] + np.arange(rows.size)
        self.keep = like(keep, Y)  # (n, k): 1 where a row takes part in training, else 0
        # Where each row of each set is found among all f_J, one after the other; else the end.
        self._source = like_index(source.reshape(-1), Y)
        # Sets that are solved in one call, on a device those of one size, within n rows in all: their
        # numbers, their rows (|J|,) or (sets, |J|), and the places of these in their own columns.
        self.groups: list[tuple[list[int], Array, Array]] = []
        by_size: dict[int, list[int]] = {}
        for k, rows in enumerate(self.parts):
            by_size.setdefault(k if is_numpy(Y) else rows.size, []).append(k)
        for numbers in by_size.values():
            step = max(1, Y.shape[0] // max(1, self.parts[numbers[0]].size))
            for some in (numbers[span] for span in spans(len(numbers), step)):
                rows = np.stack([self.parts[k] for k in some])
                places = rows * self.count + np.array(some)[:, None]
                if is_numpy(Y):
                    rows, places = rows[0], places[0]
                self.groups.append((some, like_index(rows, Y), like_index(places, Y)))

    def blanked(self, Y: Array) -> Array:
        """Y⁰ for every set, shape (n, k · t)."""
        return namespace(Y).reshape(Y[:, None, :] * self.keep[:, :, None], (Y.shape[0], -1))

    def replaced(self, blanked: Array, found: Sequence[Array]) -> Array:
        """Ŷ for every set, shape (n, k · t), from Y⁰ and the f_J (|J|, t)."""
        xp, (n, t) = namespace(blanked), (blanked.shape[0], found[0].shape[1])
        nothing = xp.zeros_like(blanked[:1, :t])
        values = xp.take(xp.concat([*found, nothing]), self._source, axis=0)
        return blanked + xp.reshape(values, (n, self.count * t))

    def zeroed(self, columns: Array) -> Array:
        """Columns (μ, n, k · t), zeros on each J, as (μ, k, n, t)."""
        xp, (a, n, width) = namespace(columns), columns.shape
        split = xp.reshape(columns, (a, n, self.count, width // self.count))
        return xp.permute_dims(split * self.keep[:, :, None], (0, 2, 1, 3))
