r"""Models of the mean squared error: every training part has a ridge of its own.

With the loss Σ v_i e_i² / Σ v_i and the user's α, the model of all rows has the ridge μ = α Σ v_i, and
the model without the rows J

    μ_J = α Σ_{i∉J} v_i = μ (1 − Σ_{i∈J} v_i / Σ v_i)                                             (1)

so that it is the model that is fitted with α to the other rows alone. The closed forms for rows held
out of training hold for any μ, with the same μ in the whole matrix. So every part is asked about at its
own ridge. Parts that share one are asked about together: without weights, k folds have at most two
sizes, and single rows one. A model that reads its rows once for all parts is asked about all parts at
all these ridges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from onefold.approximations.model import InnerWholeModel, Model, WholeModel
from onefold.approximations.problem import Parts, distinct_shares
from onefold.expansions import Expansion, FoldModels
from onefold.linalg import Array, HostArray, Index, as_vector, index_like
from onefold.rows import Rows

# Share of the rows, and of their ridge, of models that leave out a fifth.
_FOUR_FIFTHS = 0.8


class Question(NamedTuple):
    """What is asked of a model at once."""

    numbers: Index  # of the parts
    parts: Parts
    ridges: HostArray
    picks: list[slice]  # the ridges of each part among all of these


class MeanLossModel(Model):
    """A model whose ridges are those of all rows; parts are asked about at theirs, by (1)."""

    _inner: Model

    def __init__(self, inner: Model) -> None:
        self._inner = inner
        self.problem = inner.problem
        self.keep = inner.keep
        self.one_by_one = inner.one_by_one
        self.one_pass = inner.one_pass
        self.no_leave_one_out = inner.no_leave_one_out
        self.report = inner.report
        self.report["loss"] = "mean"

    def _questions(self, parts: Parts, alphas: ArrayLike) -> Iterator[Question]:
        """All parts, by their ridges, or all ridges at once for a model that reads its rows once."""
        mu = as_vector(alphas)
        shares, positions = distinct_shares(self.problem.shares(parts))
        if shares.size == 1 or self.one_pass:
            picks = [slice(mu.size * share, mu.size * (share + 1)) for share in positions]
            yield Question(np.arange(len(parts)), parts, np.outer(shares, mu).reshape(-1), picks)
            return
        for place, share in enumerate(shares):
            numbers = np.flatnonzero(positions == place)
            picks = [slice(0, mu.size)] * numbers.size
            yield Question(numbers, _picked(parts, numbers), share * mu, picks)

    def usable(self, parts: Parts | None, alphas: ArrayLike) -> Any:
        if parts is None:
            return self._inner.usable(None, alphas)
        flags = np.ones(np.size(alphas), dtype=bool)
        for question in self._questions(parts, alphas):
            solvable = np.asarray(self._inner.usable(question.parts, question.ridges))
            for start in {pick.start for pick in question.picks}:
                flags &= solvable[start : start + flags.size]
        return flags

    def leave_one_out(self, alphas: ArrayLike) -> Array:
        mu = as_vector(alphas)
        shares, positions = distinct_shares(self.problem.single_shares())
        predictions = self._inner.leave_one_out(shares[0] * mu)
        for place, share in enumerate(shares[1:], start=1):
            rows = index_like(np.flatnonzero(positions == place), predictions)
            predictions[:, rows, :] = self._inner.leave_one_out(share * mu)[:, rows, :]
        return predictions

    def left_out(self, rows: Any, alpha: float) -> tuple[Any, Array]:
        """Single rows in closed form at the ridge of all rows, which is factorised already."""
        if self.no_leave_one_out:
            return super().left_out(rows, alpha)
        share = _FOUR_FIFTHS if self._inner.leaves_out_fifths else 1.0
        return self._inner.left_out(rows, share * alpha)

    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        predictions: list[Any] = [None] * len(parts)
        for numbers, parts_asked, ridges, picks in self._questions(parts, alphas):
            for number, pick, values in zip(numbers, picks, self._inner.heldout(parts_asked, ridges)):
                predictions[number] = values[pick, ...]
        return predictions

    def heldout_blocks(self, parts: Parts, alphas: ArrayLike) -> Iterator[tuple[int, Any, Array]]:
        for numbers, parts_asked, ridges, picks in self._questions(parts, alphas):
            for place, rows, values in self._inner.heldout_blocks(parts_asked, ridges):
                yield int(numbers[place]), rows, values[picks[place], ...]

    def heldout_sums(
        self, left_out: Parts, tests: Parts, alphas: ArrayLike, terms: Any, targets_by_row: Rows
    ) -> list[Array] | None:
        totals: list[Any] = [None] * len(left_out)
        for numbers, parts_asked, ridges, picks in self._questions(left_out, alphas):
            tests_asked = _picked(tests, numbers)
            sums = self._inner.heldout_sums(parts_asked, tests_asked, ridges, terms, targets_by_row)
            if sums is None:
                return None
            for number, pick, values in zip(numbers, picks, sums):
                totals[number] = values[pick, ...]
        return totals

    def heldout_squared_error(self, left_out: Parts, tests: Parts, alphas: ArrayLike) -> Any | None:
        errors = np.empty((np.size(alphas), len(left_out)))
        for numbers, parts_asked, ridges, picks in self._questions(left_out, alphas):
            values = self._inner.heldout_squared_error(parts_asked, _picked(tests, numbers), ridges)
            if values is None:
                return None
            for place, (number, pick) in enumerate(zip(numbers, picks)):
                errors[:, number] = values[pick, place]
        return errors

    def expansion(self, alpha: ArrayLike) -> Expansion:
        return self._inner.expansion(alpha)

    def final_report(self, alpha: ArrayLike, expansion: Expansion) -> dict[str, Any]:
        return self._inner.final_report(alpha, expansion)

    def fold_models(self, parts: Parts, alpha: ArrayLike) -> FoldModels | None:
        shares, positions = distinct_shares(self.problem.shares(parts))
        intercept = np.zeros((len(parts), int(self.problem.Y.shape[1])))
        terms: list[Any] = []
        folds: list[Index] = []
        for place, share in enumerate(shares):
            numbers = np.flatnonzero(positions == place)
            models = self._inner.fold_models(_picked(parts, numbers), share * np.asarray(alpha))
            if models is None:
                return None
            intercept[numbers] = models.intercept
            terms += models.terms
            folds += [numbers[places] for places in models.folds]
        return FoldModels(tuple(terms), tuple(folds), intercept)


class MeanLossWholeModel(InnerWholeModel, MeanLossModel):
    """A model of the mean loss that knows R_b(μ): that of all rows has the ridge of all rows."""

    _inner: WholeModel


def with_mean_loss(model: Model) -> MeanLossModel:
    """The model whose parts have ridges of their own."""
    return MeanLossWholeModel(model) if isinstance(model, WholeModel) else MeanLossModel(model)


def _picked(parts: Parts, numbers: Index) -> Parts:
    """The parts of these numbers: the list itself where it is all of them."""
    return parts if len(numbers) == len(parts) else [parts[int(number)] for number in numbers]
