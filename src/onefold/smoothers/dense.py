r"""What the dense smoothers share: everything follows from R(μ) at one μ after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from onefold.linalg import Array, like, like_index, namespace, solve_positive, to_numpy
from onefold.machine.threads import check_stop
from onefold.smoothers.base import BorderCorrection, Smoother
from onefold.smoothers.left_out import LeftOut, gather

_SATURATED = 1e-8  # of (R_b)_ii: a row that decides its own fitted value


class Operator(ABC):
    """R = μ (K + μI)⁻¹ at one μ."""

    @abstractmethod
    def apply(self, Y: Array) -> Array:
        """R Y."""

    def expect_blocks(self) -> None:
        """Make ready, before `apply`, what serves blocks and the diagonal and could serve it too."""

    @abstractmethod
    def block(self, rows: Array) -> Array:
        """R_JJ for rows (|J|,), or a stack of blocks for a stack of rows."""

    @abstractmethod
    def diagonal(self) -> Array:
        """The diagonal of R."""

    def diagonal_at(self, rows: Any) -> Array:
        """The diagonal of R at some rows, ascending."""
        diagonal = self.diagonal()
        return gather(diagonal, like_index(rows, diagonal))

    @abstractmethod
    def logdet(self) -> Array:
        """The number log det (K + μI)."""

    def solve_signal(self, Y: Array) -> Array:
        """(K + μI)⁻¹ Y in the directions in which K is more than rounding."""
        raise TypeError(f"{type(self).__name__} knows no directions")


class DenseSmoother(Smoother):
    """R_b(μ) through operators, each μ in turn."""

    @abstractmethod
    def operators(self, alphas: Any) -> Iterator[Operator]:
        """R at each μ; an operator is used up before the next one is asked for."""

    @property
    def smallest_eigenvalue(self) -> float:
        """Of K, as far as the factorisation knows it: 0 unless it found a negative one."""
        return 0.0

    def solvable(self, alphas: Any) -> Any:
        """Whether K + μI is positive definite at each μ, as far as the factorisation knows."""
        return np.asarray(alphas, dtype=np.float64).reshape(-1) + self.smallest_eigenvalue > 0

    def below_rounding(self, alphas: Any) -> Any:
        r"""Whether each μ is so small beside K that the rounding of K would decide the solution.

        Directions in which K is nothing but rounding then count as 0, see `duals`.
        """
        return np.zeros(np.size(alphas), dtype=bool)

    def _first(self, operator: Operator, Y: Array) -> tuple[Array, BorderCorrection | None]:
        """R_b Y, and the border's correction, from one application of R."""
        if self.border is None:
            return operator.apply(Y), None
        xp, t = namespace(Y), Y.shape[1]
        both = operator.apply(xp.concat([Y, self.border[:, None]], axis=1))
        border = BorderCorrection.of(both[:, t][None, :], self.border)
        return border.vectors(both[None, :, :t], Y)[0, :, :], border

    def residuals(self, Y: Array, alphas: Any) -> Array:
        return namespace(Y).stack([self._first(op, Y)[0] for op in self.operators(alphas)])

    def duals(self, Y: Array, alphas: Any) -> Array:
        r"""R_b Y / μ, shape (μ, n, targets): the coefficients of the kernel at each row.

        Where μ is below the rounding of K, without the directions that are rounding alone: they leave
        predictions as they are, but their coefficients, r/μ, would multiply the rounding of every
        later kernel value.
        """
        pieces = []
        for alpha, operator in zip(np.asarray(alphas).reshape(-1), self.operators(alphas)):
            residuals, border = self._first(operator, Y)
            if not self.below_rounding([alpha])[0]:
                pieces.append(residuals / float(alpha))
            elif border is None or self.border is None:
                pieces.append(operator.solve_signal(Y))
            else:
                s = self.border
                b = (border.rho[0, :] @ Y) / border.sigma[0]
                dual = operator.solve_signal(Y - s[:, None] * b[None, :])
                # sᵀα = 0 to the last digit: K is large along s, where it was taken off.
                pieces.append(dual - s[:, None] * ((s @ dual) / float(s @ s))[None, :])
        return namespace(Y).stack(pieces)

    def leave_one_out(self, Y: Array, alphas: Any) -> Array:
        pieces = []
        for operator in self.operators(alphas):
            operator.expect_blocks()
            residuals, border = self._first(operator, Y)
            diagonal = operator.diagonal()
            if border is not None:
                diagonal = border.diagonal(diagonal[None, :])[0, :]
            pieces.append((diagonal, residuals))
        xp = namespace(Y)
        diagonals = self._known(xp.stack([diagonal for diagonal, _ in pieces]), alphas)
        return Y[None, ...] - xp.stack([found for _, found in pieces]) / diagonals[:, :, None]

    def some_left_out(self, Y: Array, rows: Any, alpha: float) -> Array:
        """`leave_one_out` of some rows, ascending, at one μ: (rows, targets)."""
        operator, here = next(iter(self.operators([alpha]))), like_index(rows, Y)
        residuals, border = self._first(operator, Y)
        diagonal = operator.diagonal_at(rows)
        if border is not None:
            diagonal = diagonal - gather(border.rho[0, :], here) ** 2 / border.sigma[0]
        diagonal = self._known(diagonal[None, :], [alpha])[0, :]
        return gather(Y, here) - gather(residuals, here) / diagonal[:, None]

    def _known(self, diagonals: Array, alphas: Any) -> Array:
        """The diagonal of R_b (μ, n), NaN where rounding decides it: rows that a tiny μ saturates."""
        below = self.below_rounding(alphas)
        if not below.any():
            return diagonals
        xp = namespace(diagonals)
        lost = (diagonals < _SATURATED) & (like(below, diagonals)[:, None] > 0)
        return xp.where(lost, xp.full_like(diagonals, xp.nan), diagonals)

    def heldout(self, Y: Array, parts: Sequence[Any], alphas: Any) -> list[Array]:
        sets = LeftOut(parts, Y)
        blanked = sets.blanked(Y)
        found = [self._heldout(operator, blanked, sets)[0] for operator in self.operators(alphas)]
        return [namespace(Y).stack([f[k] for f in found]) for k in range(sets.count)]

    def _heldout(
        self, operator: Operator, blanked: Array, sets: LeftOut
    ) -> tuple[list[Array], BorderCorrection | None]:
        """f_J for every set at one μ, from its Y⁰."""
        operator.expect_blocks()
        RY, border = self._first(operator, blanked)
        return solve_parts(operator, RY, sets, border), border

    def heldout_duals(self, Y: Array, parts: Sequence[Any], alphas: Any) -> Array:
        r"""Dual coefficients of each model trained without a part, shape (μ, parts, n, targets).

        R_b Ŷ / μ, where Ŷ is Y with the rows J replaced by their held-out predictions: it is 0 on J
        and elsewhere the solution of the problem without J. O(n²) per μ, part and target.
        """
        return self.heldout_solutions(Y, parts, alphas)[0]

    def heldout_solutions(
        self, Y: Array, parts: Sequence[Any], alphas: Any
    ) -> tuple[Array, Array | None]:
        r"""The same, and with a border sᵀŶ / sᵀs, shape (μ, parts, targets)."""
        pieces, levels, sets = [], [], LeftOut(parts, Y)
        xp, blanked = namespace(Y), sets.blanked(Y)
        values = np.asarray(alphas, dtype=np.float64).reshape(-1)
        for alpha, operator in zip(values, self.operators(alphas)):
            found, border = self._heldout(operator, blanked, sets)
            filled = sets.replaced(blanked, found)
            duals = operator.apply(filled)
            if border is not None and self.border is not None:
                duals = border.vectors(duals[None, ...], filled)[0, :, :]
                level = (self.border @ filled) / (self.border @ self.border)
                levels.append(xp.reshape(level, (sets.count, Y.shape[1])))
            duals /= float(alpha)
            pieces.append(sets.zeroed(duals))
        return xp.stack(pieces), xp.stack(levels) if levels else None

    def trace(self, alphas: Any) -> Any:
        traces = []
        for operator in self.operators(alphas):
            operator.expect_blocks()
            border = self._border_of(operator)
            diagonal = operator.diagonal()
            trace = namespace(diagonal).sum(diagonal)
            traces.append(trace if border is None else border.trace(trace[None])[0])
        return to_numpy(namespace(traces[0]).stack(traces))

    def logdet(self, alphas: Any) -> Any:
        values = []
        for alpha, operator in zip(np.asarray(alphas).reshape(-1), self.operators(alphas)):
            border, value = self._border_of(operator), operator.logdet()
            if border is not None:
                value = border.logdet(value[None], float(alpha), self.border)[0]
            values.append(value)
        return to_numpy(namespace(values[0]).stack(values))

    def _border_of(self, operator: Operator) -> BorderCorrection | None:
        if self.border is None:
            return None
        return self._first(operator, self.border[:, None][:, :0])[1]


def solve_parts(
    operator: Operator,
    RY: Array,
    sets: LeftOut,
    border: BorderCorrection | None,
    index: int = 0,
) -> list[Array]:
    """−(R_b)_JJ⁻¹ (R_b Y⁰)_J for every set, its columns of `RY` (n, k · targets) in order."""
    found: dict[int, Array] = {}
    for group in sets.groups:
        check_stop()
        block = operator.block(group.rows)
        if border is not None:
            block = border.block(block, group.rows, index)
        rhs = group.pick(RY, sets.count)
        try:
            solved = -solve_positive(block, rhs)
        except np.linalg.LinAlgError:  # singular to the last digit: there is no such model
            solved = rhs * np.nan
        found.update(group.split(solved))
    return [found[k] for k in range(sets.count)]
