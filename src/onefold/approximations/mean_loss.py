r"""Models of the mean squared error: every training part has a ridge of its own.

With the loss Σ v_i e_i² / Σ v_i and the user's α, the model of all rows has the ridge μ = α Σ v_i, and
the model without the rows J

    μ_J = α Σ_{i∉J} v_i = μ (1 − Σ_{i∈J} v_i / Σ v_i)

so that it is the model that is fitted with α to the other rows alone. The closed forms for rows held
out of training hold for any μ, with the same μ in the whole matrix. So every part is asked about at its
own ridge. Parts that share one are asked about together: without weights, k folds have at most two
sizes, and single rows one. A model that reads its rows once for all parts is asked about all parts at
all these ridges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from onefold.approximations.base import Model
from onefold.approximations.problem import Parts, distinct_shares
from onefold.expansions import Expansion, FoldModels
from onefold.linalg import Array, HostArray, Index, like_index, vector
from onefold.rows import Rows


class Question(NamedTuple):
    """What is asked of a model at once."""

    numbers: Index  # of the parts
    parts: Parts
    ridges: HostArray
    picks: list[slice]  # of each of these parts, its own among the ridges


class MeanLossModel(Model):
    """A model whose ridges are those of all rows; parts are asked about at theirs."""

    def __init__(self, inner: Model) -> None:
        self._inner, self.problem, self.report = inner, inner.problem, inner.report
        self.keep, self.one_by_one, self.one_pass = inner.keep, inner.one_by_one, inner.one_pass
        self.no_leave_one_out = inner.no_leave_one_out
        self.report["loss"] = "mean"

    def __getattr__(self, name: str) -> Any:
        """What else a model has, such as a smoother, knows all rows only."""
        if name == "_inner":
            raise AttributeError(name)
        return getattr(self._inner, name)

    def _questions(self, parts: Parts, alphas: ArrayLike) -> Iterator[Question]:
        """All parts, by their ridges or, of a model that reads its rows once, at all ridges at once."""
        mu = vector(alphas)
        shares, which = distinct_shares(self.problem.shares(parts))
        every = np.arange(len(parts))
        if shares.size == 1 or self.one_pass:
            picks = [slice(mu.size * share, mu.size * (share + 1)) for share in which]
            yield Question(every, parts, np.outer(shares, mu).reshape(-1), picks)
            return
        for number, share in enumerate(shares):
            numbers = every[which == number]
            picks = [slice(None)] * numbers.size
            yield Question(numbers, [parts[k] for k in numbers], share * mu, picks)

    def usable(self, parts: Parts | None, alphas: ArrayLike) -> Any:
        if parts is None:
            return self._inner.usable(None, alphas)
        found = np.ones(np.size(alphas), dtype=bool)
        for _, some, ridges, picks in self._questions(parts, alphas):
            flags = np.asarray(self._inner.usable(some, ridges))
            for start in {pick.start or 0 for pick in picks}:
                found &= flags[start : start + found.size]
        return found

    def leave_one_out(self, alphas: ArrayLike) -> Array:
        mu = vector(alphas)
        shares, which = distinct_shares(self.problem.single_shares())
        found = self._inner.leave_one_out(shares[0] * mu)
        for number, share in enumerate(shares[1:], start=1):
            rows = like_index(np.flatnonzero(which == number), found)
            found[:, rows, :] = self._inner.leave_one_out(share * mu)[:, rows, :]
        return found

    def left_out(self, some: Any, alpha: float) -> tuple[Any, Array]:
        """Single rows are left out at the ridge of all rows, whose factorisation is there already."""
        if self.no_leave_one_out:
            return super().left_out(some, alpha)
        return self._inner.left_out(some, alpha)

    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        found: list[Any] = [None] * len(parts)
        for numbers, some, ridges, picks in self._questions(parts, alphas):
            for number, pick, values in zip(numbers, picks, self._inner.heldout(some, ridges)):
                found[number] = values[pick, ...]
        return found

    def heldout_blocks(self, parts: Parts, alphas: ArrayLike) -> Iterator[tuple[int, Any, Array]]:
        for numbers, some, ridges, picks in self._questions(parts, alphas):
            for place, rows, values in self._inner.heldout_blocks(some, ridges):
                yield int(numbers[place]), rows, values[picks[place], ...]

    def heldout_sums(
        self, left_out: Parts, tests: Parts, alphas: ArrayLike, terms: Any, carrier: Rows
    ) -> list[Array] | None:
        found: list[Any] = [None] * len(left_out)
        for numbers, some, ridges, picks in self._questions(left_out, alphas):
            tested = _picked(tests, numbers)
            sums = self._inner.heldout_sums(some, tested, ridges, terms, carrier)
            if sums is None:
                return None
            for number, pick, values in zip(numbers, picks, sums):
                found[number] = values[pick, ...]
        return found

    def heldout_squared_error(self, left_out: Parts, tests: Parts, alphas: ArrayLike) -> Any | None:
        found = np.empty((np.size(alphas), len(left_out)))
        for numbers, some, ridges, picks in self._questions(left_out, alphas):
            errors = self._inner.heldout_squared_error(some, _picked(tests, numbers), ridges)
            if errors is None:
                return None
            for place, (number, pick) in enumerate(zip(numbers, picks)):
                found[:, number] = errors[pick, place]
        return found

    def expansion(self, alpha: ArrayLike) -> Expansion:
        return self._inner.expansion(alpha)

    def final_report(self, alpha: ArrayLike, expansion: Expansion) -> dict[str, Any]:
        return self._inner.final_report(alpha, expansion)

    def fold_models(self, parts: Parts, alpha: ArrayLike) -> FoldModels | None:
        shares, which = distinct_shares(self.problem.shares(parts))
        terms: list[Any] = []
        folds: list[Index] = []
        intercept: Any = None
        for number, share in enumerate(shares):
            numbers = np.flatnonzero(which == number)
            some = self._inner.fold_models(_picked(parts, numbers), share * np.asarray(alpha))
            if some is None:
                return None
            if intercept is None:
                intercept = np.zeros((len(parts), some.n_targets))
            intercept[numbers] = some.intercept
            terms += some.terms
            folds += [numbers[own] for own in some.folds]
        return FoldModels(tuple(terms), tuple(folds), intercept)


def _picked(parts: Parts, numbers: Sequence[int] | Index) -> Parts:
    """Some of the parts; all of them are the same object, by which models know them again."""
    return parts if len(numbers) == len(parts) else [parts[int(k)] for k in numbers]
