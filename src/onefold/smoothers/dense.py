r"""R(μ) of a dense matrix K, and what follows from it at every μ, for any factorisation of K.

An `Operator` is R at one μ, or at a few. A `DenseSmoother` makes one operator after the other and asks
each for everything it needs of it at once. There are two kinds: eigenvalues, which serve every μ
(:mod:`onefold.smoothers.spectral`), and a Cholesky factor for each μ
(:mod:`onefold.smoothers.cholesky`). :func:`onefold.smoothers.base.choose_route` decides between them.

*The border*. With s the border, everything about R_b comes from one more column of a product with R:

    (1)  R_b Y = R Y − ρ (ρᵀY)/σ,    diag R_b = diag R − ρ²/σ,    ρ = R s,  σ = sᵀρ

*Coefficients* of the kernel at each row; where μ is below the rounding of K, without the directions in
which K is nothing but rounding:

    (2)  α = R_b Y / μ

*Rows held out*. A single row i takes the diagonal of R_b:

    (3)  f_i = y_i − (R_b Y)_i / (R_b)_ii

Sets of rows J_1 … J_k are left out in turn. For targets Y (n, t) everything is laid side by side in
n × (k · t) columns,

    Y⁰ = Y with zeros on J,    Ŷ = Y with f_J on J,    one block of t columns for each J

so that one product with R serves all of them. Rows held out come in two forms:

    (4)  f_J = −(R_b)_JJ⁻¹ (R_b Y⁰)_J          the predictions only
    (5)  α = R_b Ŷ / μ,   sᵀŶ / sᵀs            the models trained without J

α is 0 on J and elsewhere the solution of the problem without J. It takes another product with R, O(n²)
per μ, part and target, and gives predictions K α that are as good as a literal refit's.

*The log-determinant* of G = K + μI on the complement of the border:

    (6)  log det G + log(sᵀG⁻¹s) − log(sᵀs),    sᵀG⁻¹s = σ/μ
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np
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
from onefold.smoothers.base import Flags, Smoother

# Ridge over the noise of K below which rounding would decide the solution.
BELOW_ROUNDING = 100.0
# Smallest (R_b)_ii, which is at most 1: a row with less decides its own fitted value. Applied
# only at ridges below rounding.
_SATURATED = 1e-8

Result = TypeVar("Result")


class Operator(ABC):
    """R = μ (K + μI)⁻¹ at one μ, or at several that share their products.

    `with_blocks` and `with_diagonal` may take the memory of the operator they are called on: what they
    return takes its place, and it must not be used again.
    """

    @property
    @abstractmethod
    def alphas(self) -> Array:
        """The μ (μ,), on the device of K."""

    @abstractmethod
    def apply(self, Y: Array) -> Array:
        """R Y of shape (μ, n, t), for Y (n, t), or Y (μ, n, t) with other targets at each μ."""

    @abstractmethod
    def with_blocks(self, first: int) -> BlockOperator:
        """The operator that gives blocks of the rows from `first` on."""

    @abstractmethod
    def with_diagonal(self) -> DiagonalOperator:
        """The operator that gives the diagonal, and all blocks."""

    @abstractmethod
    def diagonal_at(self, rows: Index) -> Array:
        """The diagonal of R at some rows, ascending, of the first μ."""

    @abstractmethod
    def logdet(self) -> Array:
        """The numbers log det (K + μI), shape (μ,)."""

    def solve_signal(self, Y: Array) -> Array:
        """(K + μI)⁻¹ Y in the directions known to be more than rounding; Y as in `apply`."""
        return self.apply(Y) / self.alphas[:, None, None]


class BlockOperator(Operator):
    """R with blocks of some of its rows."""

    @abstractmethod
    def block(self, rows: Array, index: int) -> Array:
        """R_JJ at the μ at `index` for rows (|J|,), or a stack of blocks for a stack of rows."""


class DiagonalOperator(BlockOperator):
    """R with all of its blocks and its diagonal."""

    @abstractmethod
    def diagonal(self) -> Array:
        """The diagonal of R, shape (μ, n)."""

    def with_blocks(self, first: int) -> BlockOperator:
        return self

    def with_diagonal(self) -> DiagonalOperator:
        return self

    def diagonal_at(self, rows: Index) -> Array:
        return take_rows(self.diagonal()[0, :], rows)


def _with_diagonal(operator: Operator) -> DiagonalOperator:
    return operator.with_diagonal()


Ready = TypeVar("Ready", bound=Operator)


@dataclass(frozen=True)
class BorderCorrection:
    """R_b = R − ρρᵀ/σ for a vector of μ: ρ (μ, n) and σ = sᵀρ (μ,); 0 and 1 without a border."""

    rho: Array
    sigma: Array

    def vectors(self, RY: Array, Y: Array) -> Array:
        """(1): R Y → R_b Y, shape (μ, n, targets), for Y (n, targets), or (μ, n, targets)."""
        b = (self.rho[:, None, :] @ Y)[:, 0, :] / self.sigma[:, None]
        return RY - self.rho[:, :, None] * b[:, None, :]

    def diagonal(self, diagonal: Array) -> Array:
        """(1): from diag R to diag R_b, shape (μ, n)."""
        return diagonal - self.rho**2 / self.sigma[:, None]

    def diagonal_at(self, diagonal: Array, rows: Array) -> Array:
        """(1): from some entries of diag R to those of diag R_b, at the first μ."""
        return diagonal - take_rows(self.rho[0, :], rows) ** 2 / self.sigma[0]

    def block(self, block: Array, rows: Array, index: int) -> Array:
        """From R_JJ, which is overwritten, to (R_b)_JJ at the μ at `index`; stacks as in `Operator`."""
        rho = take_rows(self.rho[index, :], rows)
        block -= rho[..., :, None] * (rho / self.sigma[index])[..., None, :]
        return block


class DenseSmoother(Smoother):
    """R_b(μ) through operators, some μ after the others."""

    @property
    @abstractmethod
    def noise(self) -> float:
        """Eigenvalues of K up to this size are rounding."""

    @property
    @abstractmethod
    def smallest_eigenvalue(self) -> float:
        """The smallest eigenvalue of K if the factorisation shows that it is negative; else 0."""

    @abstractmethod
    def map_operators(
        self,
        function: Callable[[Operator], tuple[Result, Operator]],
        alphas: ArrayLike,
        columns: int = 1,
    ) -> list[Result]:
        """The results of `function` for the operator of every μ in turn.

        `function` returns its result, which must not share memory with the operator, and the operator
        that has taken the place of the one it was given (see `Operator`). `columns` is the number of
        columns that it applies R to: it decides how many μ share an operator.
        """

    def solvable(self, alphas: ArrayLike) -> Flags:
        """Whether K + μI is positive definite at each μ, as far as the factorisation shows."""
        return as_vector(alphas) + self.smallest_eigenvalue > 0

    def below_rounding(self, alphas: ArrayLike) -> Flags:
        r"""Whether each μ is so small next to K that the rounding of K would decide the solution.

        Directions in which K is nothing but rounding then count as 0, see `duals`.
        """
        return as_vector(alphas) < BELOW_ROUNDING * self.noise

    def _residuals(self, operator: Operator, Y: Array | None = None) -> tuple[Array, BorderCorrection]:
        """(1) from one product with R: R_b Y, and the correction. Y is a zero column if None."""
        Y = linalg.zeros((self.n, 1), operator.alphas) if Y is None else Y
        if self.border is None:
            size = operator.alphas.shape[0]
            none = BorderCorrection(linalg.zeros((size, self.n), Y), linalg.ones(size, Y))
            return operator.apply(Y), none
        xp = namespace(Y)
        t = Y.shape[1]
        products = operator.apply(xp.concat([Y, self.border[:, None]], axis=1))
        rho = xp.asarray(products[:, :, t], copy=True)
        correction = BorderCorrection(rho, rho @ self.border)
        return correction.vectors(products[:, :, :t], Y), correction

    def _ready_with_residuals(
        self, prepare: Callable[[Operator], Ready], operator: Operator, Y: Array | None = None
    ) -> tuple[Ready, Array, BorderCorrection]:
        """The operator that `prepare` makes of `operator`, R_b Y, and the correction."""
        if linalg.uses_lapack(operator.alphas):  # solving takes as long as products, and has more digits
            residuals, correction = self._residuals(operator, Y)
            return prepare(operator), residuals, correction
        # A device multiplies by L⁻¹ far faster than it solves with L for a few columns.
        ready = prepare(operator)
        residuals, correction = self._residuals(ready, Y)
        return ready, residuals, correction

    def residuals(self, Y: Array, alphas: ArrayLike) -> Array:
        """(1)."""

        def residuals_of(operator: Operator) -> tuple[Array, Operator]:
            return self._residuals(operator, Y)[0], operator

        return namespace(Y).concat(self.map_operators(residuals_of, alphas, Y.shape[1]))

    def duals(self, Y: Array, alphas: ArrayLike) -> Array:
        r"""(2): the coefficients of the kernel at each row, shape (μ, n, targets).

        Where μ is below the rounding of K, without the directions in which K is nothing but rounding:
        they do not change predictions, but their coefficients, r/μ, would multiply the rounding of every
        later kernel value.
        """

        def duals_of(operator: Operator) -> tuple[Array, Operator]:
            residuals, correction = self._residuals(operator, Y)
            dual = residuals / operator.alphas[:, None, None]
            below = self.below_rounding(operator.alphas)
            if below.any():
                signal = self._signal(operator, Y, correction)
                below = asarray_like(below, Y)[:, None, None] > 0
                dual = namespace(Y).where(below, signal, dual)
            return dual, operator

        return namespace(Y).concat(self.map_operators(duals_of, alphas, Y.shape[1]))

    def _signal(self, operator: Operator, Y: Array, correction: BorderCorrection) -> Array:
        """(2) without the directions in which K is nothing but rounding."""
        s = self.border
        if s is None:
            return operator.solve_signal(Y)
        b = (correction.rho @ Y) / correction.sigma[:, None]
        signal = operator.solve_signal(Y[None, ...] - s[None, :, None] * b[:, None, :])
        # sᵀα = 0 to the last digit: K is large along s, where it was taken off.
        return signal - s[:, None] * ((s @ signal) / float(s @ s))[:, None, :]

    def leave_one_out(self, Y: Array, alphas: ArrayLike) -> Array:
        """(3) for every row."""

        def residuals_and_diagonal(operator: Operator) -> tuple[tuple[Array, Array], Operator]:
            ready, residuals, correction = self._ready_with_residuals(_with_diagonal, operator, Y)
            return (residuals, correction.diagonal(ready.diagonal())), ready

        residuals, diagonals = zip(*self.map_operators(residuals_and_diagonal, alphas, Y.shape[1]))
        xp = namespace(Y)
        diagonal = self._without_saturated(xp.concat(list(diagonals)), alphas)
        return Y[None, ...] - xp.concat(list(residuals)) / diagonal[:, :, None]

    def leave_one_out_at(self, Y: Array, rows: Index, alpha: float) -> Array:
        """(3) for some rows, ascending, at one μ: (rows, targets)."""
        places = index_like(rows, Y)

        def residuals_and_diagonal(operator: Operator) -> tuple[tuple[Array, Array], Operator]:
            residuals, correction = self._residuals(operator, Y)
            diagonal = correction.diagonal_at(operator.diagonal_at(rows), places)
            return (residuals, diagonal), operator

        [(residuals, diagonal)] = self.map_operators(residuals_and_diagonal, [alpha])
        diagonal = self._without_saturated(diagonal[None, :], [alpha])[0, :]
        return take_rows(Y, places) - take_rows(residuals[0, :, :], places) / diagonal[:, None]

    def _without_saturated(self, diagonals: Array, alphas: ArrayLike) -> Array:
        """The diagonal of R_b (μ, n), NaN where rounding decides it: rows that a tiny μ saturates."""
        below = self.below_rounding(alphas)
        if not below.any():
            return diagonals
        xp = namespace(diagonals)
        saturated = (diagonals < _SATURATED) & (asarray_like(below, diagonals)[:, None] > 0)
        return xp.where(saturated, xp.full_like(diagonals, xp.nan), diagonals)

    def heldout(self, Y: Array, parts: Sequence[Index], alphas: ArrayLike) -> list[Array]:
        """(4)."""
        sets = LeftOut(parts, Y)
        blanked = sets.blanked(Y)

        def predictions_of(operator: Operator) -> tuple[list[list[Array]], Operator]:
            ready, predictions, _ = self._heldout(operator, blanked, sets)
            return predictions, ready

        by_alpha = chain.from_iterable(self.map_operators(predictions_of, alphas, blanked.shape[1]))
        by_set = zip(*by_alpha)
        return [namespace(Y).stack(list(predictions)) for predictions in by_set]

    def heldout_duals(
        self, Y: Array, parts: Sequence[Index], alphas: ArrayLike
    ) -> tuple[Array, Array | None]:
        r"""(5): α (μ, parts, n, t) of the models without each part; sᵀŶ / sᵀs (μ, parts, t) or None."""
        sets = LeftOut(parts, Y)
        xp = namespace(Y)
        blanked = sets.blanked(Y)
        s = self.border

        def duals_of(operator: Operator) -> tuple[tuple[Array, Array | None], Operator]:
            ready, predictions, correction = self._heldout(operator, blanked, sets)
            filled = xp.stack([sets.replaced(blanked, f) for f in predictions])
            dual = correction.vectors(ready.apply(filled), filled)
            dual = xp.reshape(dual, (len(predictions), self.n, sets.count, Y.shape[1]))
            dual = dual / ready.alphas[:, None, None, None] * sets.keep[:, :, None]
            level = None
            if s is not None:
                level = (s @ filled) / (s @ s)
                level = xp.reshape(level, (len(predictions), sets.count, Y.shape[1]))
            return (xp.permute_dims(dual, (0, 2, 1, 3)), level), ready

        pieces = self.map_operators(duals_of, alphas, blanked.shape[1])
        levels = [level for _, level in pieces if level is not None]
        return xp.concat([dual for dual, _ in pieces]), xp.concat(levels) if levels else None

    def _heldout(
        self, operator: Operator, blanked: Array, sets: LeftOut
    ) -> tuple[BlockOperator, list[list[Array]], BorderCorrection]:
        """What has become of the operator, (4) for every μ and set, and the border's correction."""

        def with_blocks(operator: Operator) -> BlockOperator:
            return operator.with_blocks(sets.first)

        ready, residuals, correction = self._ready_with_residuals(with_blocks, operator, blanked)
        predictions = [
            self._heldout_at(ready, residuals, correction, sets, index)
            for index in range(residuals.shape[0])
        ]
        return ready, predictions, correction

    def _heldout_at(
        self,
        operator: BlockOperator,
        residuals: Array,
        correction: BorderCorrection,
        sets: LeftOut,
        index: int,
    ) -> list[Array]:
        """(4) for every set at the μ at `index`."""
        xp = namespace(residuals)
        predictions: dict[int, Array] = {}
        columns = xp.reshape(residuals[index, :, :], (self.n * sets.count, -1))
        for numbers, rows, places in sets.batches:
            check_stop()
            block = correction.block(operator.block(rows, index), rows, index)
            values = -dense.solve_positive(block, take_rows(columns, places))
            stack = xp.reshape(values, (len(numbers), *values.shape[-2:]))
            predictions.update((number, stack[i, ...]) for i, number in enumerate(numbers))
        return [predictions[k] for k in range(sets.count)]

    def trace(self, alphas: ArrayLike) -> HostArray:
        """The sum of the diagonal in (1)."""

        def trace_of(operator: Operator) -> tuple[Array, Operator]:
            ready, _, correction = self._ready_with_residuals(_with_diagonal, operator)
            diagonal = correction.diagonal(ready.diagonal())
            return namespace(diagonal).sum(diagonal, axis=1), ready

        traces = self.map_operators(trace_of, alphas)
        return as_vector(namespace(traces[0]).concat(traces))

    def logdet(self, alphas: ArrayLike) -> HostArray:
        """(6)."""
        s = self.border

        def logdet_of(operator: Operator) -> tuple[Array, Operator]:
            value = operator.logdet()
            if s is not None:
                xp = namespace(value)
                correction = self._residuals(operator)[1]
                value = value + xp.log(correction.sigma / operator.alphas) - xp.log(s @ s)
            return value, operator

        values = self.map_operators(logdet_of, alphas)
        return as_vector(namespace(values[0]).concat(values))


class SetBatch(NamedTuple):
    """Sets of rows whose blocks are solved in one call."""

    numbers: list[int]  # of the sets
    rows: Array  # of the sets, (|J|,) or (sets, |J|)
    places: Array  # of these rows in the columns of their own sets, laid out flat


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
        # For each row and set, the position of its prediction in the concatenation of all f_J; for rows
        # that are not in the set, the position after the last, where there is a zero.
        self._source = index_like(source.reshape(-1), Y)
        # On a device, sets of one size are solved together: within n rows in all, and within so many
        # numbers in the columns of their rows as all of CUDA's functions take.
        self.batches: list[SetBatch] = []
        by_size: dict[int, list[int]] = {}
        for k, rows in enumerate(self.parts):
            by_size.setdefault(k if linalg.uses_lapack(Y) else rows.size, []).append(k)
        for same_size in by_size.values():
            size = max(1, self.parts[same_size[0]].size)
            step = max(1, min(Y.shape[0] // size, dense.STACK // (size * Y.shape[0])))
            for numbers in (same_size[span] for span in spans(len(same_size), step)):
                rows = np.stack([self.parts[k] for k in numbers])
                places = rows * self.count + np.array(numbers)[:, None]
                if linalg.uses_lapack(Y):
                    rows = rows[0]
                    places = places[0]
                self.batches.append(SetBatch(numbers, index_like(rows, Y), index_like(places, Y)))

    def blanked(self, Y: Array) -> Array:
        """Y⁰ for every set, shape (n, k · t)."""
        return namespace(Y).reshape(Y[:, None, :] * self.keep[:, :, None], (Y.shape[0], -1))

    def replaced(self, blanked: Array, predictions: Sequence[Array]) -> Array:
        """Ŷ for every set, shape (n, k · t), from Y⁰ and the f_J (|J|, t)."""
        xp = namespace(blanked)
        n = blanked.shape[0]
        t = predictions[0].shape[1]
        nothing = xp.zeros_like(blanked[:1, :t])
        values = xp.take(xp.concat([*predictions, nothing]), self._source, axis=0)
        return blanked + xp.reshape(values, (n, self.count * t))
