r"""A fitted function on fewer centres: its projection in the space H of its kernel.

f − b = Σ_i c_i k(·, x_i) is projected on the span of k(·, z_1) … k(·, z_m), where the z_j are some of
the centres x_i. With v = f(Z) − b, the values at the z_j,

    f̃ = b + Σ_j β_j k(·, z_j),    K_ZZ β = v                                                      (1)
    ‖f − f̃‖²_H = Σ_i c_i (f − f̃)(x_i)                                                             (2)

(1) is the minimum of ‖f − f̃‖_H, since <f − b, k(·, z)> is the value of f − b at z; (2) is cᵀKc − βᵀv
without the difference of two large numbers. K_ZZ is factorised by Cholesky's method with pivoting, which
leaves out centres that the others explain to working precision; their β are 0.

The z_j are chosen one after the other. With the residual r = f − f̃ of those so far and the part
u_i = k_ii − K_iZ K_ZZ⁻¹ K_Zi of k(·, x_i) that they leave unexplained, centre i lowers (2) by

    r_i² / u_i                                                                                    (3)

and the one with the largest (3) is next (the f/P-greedy rule). r and u come from the partial Cholesky
factor F of K, to which each choice adds a column. Choices are made in blocks: among the centres with the
largest (3), until a choice would be worse than a centre outside of the block was at its start; F grows
by matrix products.

Several targets and the members of a blend are projected on the same centres. (3) is then a sum over
members with their weights, and over targets in units of the deviation of f.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.linalg.lapack import dpstrf

from onefold.basis.pruning import distinct_rows
from onefold.expansions.grid import GridExpansion
from onefold.expansions.kernel import Expansion, FittedFunction
from onefold.expansions.sums import Blend, FoldModels
from onefold.kernels import Kernel, Precomputed
from onefold.kernels.tiles import common_origin, gram
from onefold.linalg import HostArray, Index, all_finite, as_float64, host_array, is_sparse, take_rows
from onefold.machine.memory import require_memory
from onefold.machine.threads import check_stop

Function: TypeAlias = FittedFunction | FoldModels

# Most entries of the factors F of all members, 1 GiB: with more, a random part of the centres are
# candidates.
_FACTOR_NUMBERS = 2**27
# Centres with the largest (3) among which a block of choices is made.
_BLOCK = 64
# Share of the largest k_ii below which u is rounding.
_ROUNDING = 1e-12
# Centres of the first attempt to reach a tolerance.
_FIRST_SIZE = 16
# Precision of the smallest number of centres, as a share of it.
_SIZE_PRECISION = 0.02


@dataclass(frozen=True)
class Member:
    """An expansion of a blend, or the only one."""

    weight: float
    expansion: Expansion
    positions: Index  # where its centres are in the pool
    values: HostArray  # array (pool, targets): f − b at the rows of the pool


@dataclass(frozen=True)
class Pool:
    """The distinct centres of a function, and its values there: what it can be compressed to."""

    rows: Any  # array or CSR matrix (pool, d)
    members: tuple[Member, ...]
    function: FittedFunction

    @classmethod
    def of(cls, function: FittedFunction, at_least: int = 1) -> Pool:
        """The pool of a function; an error if it has fewer than `at_least` centres. O(n² d) time."""
        function = function.on_host()
        require_centres(function)
        parts = [(weight, part) for weight, part in function.parts if isinstance(part, Expansion)]
        rows, positions = _stacked([part.centres for _, part in parts])
        if at_least > rows.shape[0]:
            raise ValueError(
                f"the model has {rows.shape[0]} different centres and cannot be compressed to "
                f"{at_least}; use a smaller number of centres."
            )
        members = tuple(
            Member(weight, part, index, _values(part, rows))
            for (weight, part), index in zip(parts, positions)
        )
        return cls(rows, members, function)

    @property
    def size(self) -> int:
        """Number of distinct centres."""
        return int(self.rows.shape[0])

    @property
    def values(self) -> HostArray:
        """f at every row, (pool, targets)."""
        total = sum(member.weight * member.values for member in self.members)
        return host_array(total + self.function.intercept)

    def change(self, compressed: FittedFunction) -> HostArray:
        """‖f − f̃‖_H / ‖f − b‖_H for every target, by (2); of a blend, summed over its members."""
        lost: Any = 0.0
        total: Any = 0.0
        for member, (_, part) in zip(self.members, compressed.parts):
            coef = as_float64(member.expansion.coef)
            residual = member.values - _values(part, self.rows)
            lost += member.weight**2 * np.sum(coef * residual[member.positions], axis=0)
            total += member.weight**2 * np.sum(coef * member.values[member.positions], axis=0)
        ratio = np.divide(lost, total, out=np.zeros_like(total), where=total > 0)
        return np.sqrt(np.maximum(ratio, 0.0))


def require_centres(function: Function) -> None:
    """Raise where a function is not a sum over centres that are rows of features."""
    parts = function.terms if isinstance(function, FoldModels) else [part for _, part in function.parts]
    for part in parts:
        if isinstance(part, GridExpansion):
            raise ValueError(
                "a model on a grid has no centres to leave out, and its predictions take the same time "
                'for any number of rows; fit with approximation="nystroem" for a smaller file.'
            )
        if isinstance(part.kernel, Precomputed) or part.centres is None:
            raise ValueError(
                "a model with a precomputed kernel cannot be compressed, because its centres are "
                "unknown; fit with rows and a kernel."
            )


def _stacked(blocks: Sequence[Any]) -> tuple[Any, list[Index]]:
    """The distinct rows of several arrays, and where the rows of each are among them."""
    first = blocks[0]
    if all(_same(block, first) for block in blocks):
        return first, [np.arange(first.shape[0])] * len(blocks)
    if any(map(is_sparse, blocks)):
        rows: Any = scipy.sparse.vstack(blocks, format="csr")
    else:
        rows = np.concatenate(blocks)
    distinct, position = distinct_rows(rows)
    ends = np.cumsum([block.shape[0] for block in blocks])[:-1]
    return take_rows(rows, distinct), np.split(position, ends)


def _same(block: Any, first: Any) -> bool:
    """Whether two arrays of centres are the same rows; sparse ones where they are the same object."""
    if block is first:
        return True
    return not (is_sparse(block) or is_sparse(first)) and np.array_equal(block, first)


def _values(expansion: Expansion, rows: Any) -> HostArray:
    """f − b at some rows, which does not lose digits to b."""
    return host_array(replace(expansion, intercept=np.zeros(expansion.n_targets)).predict(rows))


# -- the projection ------------------------------------------------------------------------------------


def projected(functions: Sequence[Any], rows: Any) -> list[Any]:
    """Functions or fold models on other centres, by (1), which they share; O(m³) for each kernel."""
    solvers: dict[int, Callable[[HostArray], HostArray]] = {}

    def term(part: Any) -> Expansion:
        key = id(part.kernel)
        if key not in solvers:
            solvers[key] = _solver(part.kernel, rows)
        coef = solvers[key](_values(part, rows))
        if not all_finite(coef):
            raise ValueError(
                "the projection has coefficients that are not finite, because the kernel overflows; "
                "scale the features and fit again."
            )
        return replace(part, centres=rows, coef=coef)

    compressed: list[Any] = []
    for function in functions:
        function = function.on_host()
        require_centres(function)
        if isinstance(function, FoldModels):
            compressed.append(replace(function, terms=tuple(map(term, function.terms))))
        elif isinstance(function, Blend):
            compressed.append(Blend(tuple(map(term, function.members)), function.weights))
        else:
            compressed.append(term(function))
    return compressed


def _solver(kernel: Kernel, rows: Any) -> Callable[[HostArray], HostArray]:
    """The function v → β of (1)."""
    factor, order, rank, _ = dpstrf(gram(kernel, rows), lower=1)
    pivots = order[:rank] - 1  # LAPACK counts from 1
    lower = factor[:rank, :rank]

    def solve(values: HostArray) -> HostArray:
        coef = np.zeros(values.shape)
        coef[pivots] = scipy.linalg.cho_solve((lower, True), values[pivots], check_finite=False)
        return coef

    return solve


# -- the choice of centres -----------------------------------------------------------------------------


def pivots(pool: Pool, m: int, rng: np.random.Generator) -> Index:
    """Positions of 1 to `m` centres in the order of their choice; fewer than `m` if they explain f.

    O(c m (d + m)) time for each member, c candidates: all centres, or, where the factors would have more
    than 2²⁷ numbers, a random part of them, at least m.
    """
    count = max(m, min(pool.size, _FACTOR_NUMBERS // (m * len(pool.members))))
    candidates = np.arange(pool.size)
    if count < pool.size:
        candidates = np.sort(rng.choice(pool.size, count, replace=False))
    require_memory(
        8 * len(pool.members) * count * m, f"choosing {m} of {pool.size} centres", "use fewer centres"
    )
    rows = take_rows(pool.rows, candidates)
    total = sum(member.weight * member.values[candidates] for member in pool.members)
    deviation = np.std(np.asarray(total), axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    factors = [
        _Factor(
            member.expansion.kernel, rows, member.weight * member.values[candidates] / scale, columns=m
        )
        for member in pool.members
    ]
    chosen: list[int] = []
    while len(chosen) < m:
        check_stop()
        gain = np.sum([factor.gain() for factor in factors], axis=0)
        gain[chosen] = 0.0
        block = np.argsort(-gain, kind="stable")[:_BLOCK]
        block = block[gain[block] > 0]
        if not block.size:
            break
        outside = float(gain[block[-1]]) if block.size == _BLOCK else 0.0
        parts = [factor.part(block) for factor in factors]
        accepted: list[int] = []
        while len(accepted) < min(block.size, m - len(chosen)):
            gains = np.sum([part.gain() for part in parts], axis=0)
            gains[accepted] = 0.0
            best = int(np.argmax(gains))
            if accepted and (gains[best] <= outside or gains[best] <= 0):
                break
            accepted.append(best)
            for part in parts:
                part.choose(best)
        for factor, part in zip(factors, parts):
            factor.extend(block, part)
        chosen.extend(block[accepted].tolist())
    return candidates[chosen or [0]]  # a constant has a centre, too, whose coefficient is 0


class _Part:
    """What the centres so far leave of the kernel and of f at the candidates of a block."""

    def __init__(self, inner: HostArray, residual: HostArray, floor: float) -> None:
        self._inner = inner
        self._residual = residual
        self._floor = floor
        self.chosen: list[int] = []  # those that this kernel does not explain by the others

    def gain(self) -> HostArray:
        """(3) of every candidate."""
        return _gain(self._residual, np.diagonal(self._inner), self._floor)

    def choose(self, place: int) -> None:
        unexplained = self._inner[place, place]
        if unexplained <= self._floor:
            return
        column = self._inner[:, place] / np.sqrt(unexplained)
        self._residual -= np.outer(column, self._residual[place] / np.sqrt(unexplained))
        self._inner -= np.outer(column, column)
        self.chosen.append(place)


class _Factor:
    """The columns of F so far, of one kernel for all candidates, with r and u."""

    def __init__(self, kernel: Kernel, rows: Any, values: HostArray, columns: int) -> None:
        origin = common_origin(kernel, rows)
        self._kernel = kernel
        self._rows = as_float64(rows) if origin is None else as_float64(rows) - origin[None, :]
        self._residual = np.array(values)
        self._unexplained = np.maximum(host_array(kernel.diagonal(self._rows)), 0.0)
        self._floor = _ROUNDING * float(self._unexplained.max())
        self._factor = np.empty((values.shape[0], columns))
        self._rank = 0

    def gain(self) -> HostArray:
        """(3) of every candidate."""
        return _gain(self._residual, self._unexplained, self._floor)

    def part(self, block: Index) -> _Part:
        """The same for a block of candidates, with the unexplained kernel of each pair."""
        factor = self._factor[block, : self._rank]
        rows = take_rows(self._rows, block)
        inner = host_array(self._kernel(rows, rows)) - factor @ factor.T
        return _Part(inner, self._residual[block].copy(), self._floor)

    def extend(self, block: Index, part: _Part) -> None:
        """The columns of the candidates that were chosen from a block, in the order of their choice."""
        new = block[part.chosen]
        if not new.size:
            return
        factor = self._factor[:, : self._rank]
        columns = host_array(self._kernel(self._rows, take_rows(self._rows, new)))
        columns = columns - factor @ factor[new].T
        core = (columns[new] + columns[new].T) / 2
        core.flat[:: new.size + 1] += 1e-3 * self._floor  # rounding may leave a tiny pivot negative
        try:
            lower = scipy.linalg.cholesky(core, lower=True, check_finite=False)
        except scipy.linalg.LinAlgError:  # a kernel of few digits: what is left is rounding
            self._unexplained[:] = 0.0
            return
        added = scipy.linalg.solve_triangular(lower, columns.T, lower=True, check_finite=False).T
        steps = scipy.linalg.solve_triangular(lower, self._residual[new], lower=True, check_finite=False)
        self._factor[:, self._rank : self._rank + new.size] = added
        self._rank += new.size
        self._residual -= added @ steps
        self._unexplained = np.maximum(self._unexplained - np.sum(added**2, axis=1), 0.0)
        self._unexplained[new] = 0.0


def _gain(residual: HostArray, unexplained: HostArray, floor: float) -> HostArray:
    """(3), summed over targets; 0 where all is explained."""
    squares = np.sum(residual**2, axis=1)
    return np.divide(squares, unexplained, out=np.zeros_like(squares), where=unexplained > floor)


def fewest_pivots(
    pool: Pool, is_enough: Callable[[Index], bool], rng: Callable[[], np.random.Generator]
) -> Index | None:
    """The fewest centres that are enough, to within 2 %; None if only all of them are.

    Their number is doubled until it is enough, then bisected along the same choice.
    """
    too_few = 0
    size = _FIRST_SIZE
    while True:
        order = pivots(pool, min(size, pool.size), rng())
        if order.size == pool.size or is_enough(order):
            break
        if order.size < size:  # further centres add nothing to these
            return None
        too_few = order.size
        size *= 2
    enough = order.size
    while enough - too_few > max(1, int(_SIZE_PRECISION * enough)):
        middle = (too_few + enough) // 2
        if is_enough(order[:middle]):
            enough = middle
        else:
            too_few = middle
    return None if enough == pool.size else order[:enough]
