r"""Criteria that add up block by block: a function of weighted means over held-out rows.

    score = φ( Σ_i v_i t(f_i, y_i) / Σ_i v_i )

with t the terms of one row and φ a function of their means. A block of rows leaves its sums, μ × terms
numbers, whatever its size; nothing else of its predictions is needed.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from onefold.approximations import Model, Problem
from onefold.criteria.asking import Listener
from onefold.criteria.base import (
    Answers,
    HeldoutCriterion,
    ScoredAnswers,
    Scoring,
    Task,
)
from onefold.heldout import HeldoutBlock, Splits
from onefold.linalg import Array, is_foreign, like, namespace, take_rows, to_numpy
from onefold.machine.threads import check_stop
from onefold.rows import Rows, rows_of

_PIECE = 2**13  # rows whose terms are held at once on the host; a device works on whole blocks
_HELD = 2**25  # bytes of predictions held for the chosen μ rather than predicted again


class SumCriterion(HeldoutCriterion):
    """A function of weighted means over rows."""

    needs: ClassVar[Literal["squares", "sums"]] = "sums"

    @abstractmethod
    def truth(self, problem: Problem, task: Task) -> Array:
        """What predictions are compared with, row by row: (n, columns), beside the problem's targets."""

    @abstractmethod
    def terms(self, predictions: Array, truth: Array) -> Array:
        """The terms (μ, rows, terms) of some rows from their predictions (μ, rows, targets)."""

    @abstractmethod
    def from_means(self, means: Any) -> Any:
        """Scores (...) from the terms' weighted means (..., terms)."""

    def ranks(self, means: Any) -> Any | None:
        """What ranks (μ,) the μ from their means (μ, splits, terms), where not the mean score."""
        return None

    def from_model(self, model: Model, splits: Splits, alphas: Any) -> Any | None:
        """Scores (μ, splits) that the model knows without making predictions, or None."""
        return None

    def sums(self, predictions: Array, truth: Array, weight: Array) -> Array:
        """Σ_i v_i t(f_i, y_i) of a block of rows: (μ, terms)."""
        return namespace(predictions).sum(self.terms(predictions, truth) * weight[None, :, None], axis=1)

    def start(self, problem: Problem, task: Task, splits: Splits) -> Scoring:
        return SumScoring(self, problem, task, splits)

    def score(self, predictions: Any, rows: Any, problem: Problem, task: Task) -> Any:
        weight = np.ones(len(rows)) if task.sample_weight is None else task.sample_weight[rows]
        truth = to_numpy(take_rows(self.truth(problem, task), rows))
        return self.from_means(self.sums(predictions, truth, weight) / weight.sum())


class _Compared(NamedTuple):
    """The rows of one array of predictions: truth, weight, and which are tested (None for all)."""

    truth: Array
    weight: Array
    tested: Array | None


def _sums_and_misses(criterion: SumCriterion, values: Array, truth: Array, weight: Array) -> Array:
    """The sums of some rows and the count of μ without finite predictions: (μ, terms + 1)."""
    xp, sums = namespace(values), criterion.sums(values, truth, weight)
    missing = ~xp.all(xp.isfinite(values), axis=(1, 2))
    return xp.concat([sums, xp.astype(missing, sums.dtype)[..., None]], axis=-1)


@dataclass(frozen=True)
class TermSums:
    """Predictions (μ, rows, targets) and the columns beside them, truth and weight, to their sums."""

    criterion: SumCriterion

    def __call__(self, predictions: Array, beside: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return _sums_and_misses(self.criterion, predictions, beside[:, :-1], beside[:, -1])


class SumScoring(Scoring):
    """Adds up the terms of every part as its blocks come, where the blocks are."""

    splits: Splits
    task: Task

    def __init__(self, criterion: SumCriterion, problem: Problem, task: Task, splits: Splits) -> None:
        self.problem, self.splits, self.n_scores = problem, splits, len(splits)
        self.criterion, self.task = criterion, task
        weight = task.sample_weight
        self._weights = [
            times * 1.0 if weight is None else times * weight[rows]
            for rows, times in zip(splits.predicted, splits.times_tested)
        ]
        self._each_row = splits.leave_one_out and len(splits) > 1
        self._compared: dict[bool, list[_Compared]] = {}
        self._carrier: Rows | None = None

    def at_once(self, model: Model, alphas: Any) -> Answers | None:
        scores = self.criterion.from_model(model, self.splits, alphas)
        if scores is not None:
            return ScoredAnswers(np.isfinite(scores).all(axis=1), [], scores)
        if not self.problem.remote or self._holds(model, len(alphas)):
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            apart = self._sums_apart(model, alphas)
            return None if apart is None else self._scored(*apart, [])

    def listener(self, model: Model, n_alphas: int, *, hold: bool) -> Listener:
        return _Sums(self, hold=hold and self._holds(model, n_alphas))

    def from_heard(self, heard: _Sums) -> Answers:
        with np.errstate(over="ignore", invalid="ignore"):
            return self._scored(*self._means(heard.totals), heard.held)

    def _holds(self, model: Model, n_alphas: int) -> bool:
        """Whether predictions are held: of a model that is let go they cannot be had again."""
        return not model.keep or 8 * n_alphas * math.prod(self.problem.Y.shape) <= _HELD

    def _scored(self, means: Any, finite: Any, held: list[HeldoutBlock]) -> Answers:
        return ScoredAnswers(finite, held, self.criterion.from_means(means), self.criterion.ranks(means))

    def _means(self, totals: list[Any]) -> tuple[Any, Any]:
        """Means (μ, scores, terms), and where all predictions are finite, (μ,)."""
        xp = namespace(totals[0])
        return self._divided(to_numpy(totals[0] if self._each_row else xp.stack(totals, axis=1)))

    def _sums_apart(self, model: Model, alphas: Any) -> tuple[Any, Any] | None:
        """The same from sums that are made where the rows are; None where the model has none."""
        if self._carrier is None:
            weight = self.task.sample_weight
            given = np.ones(self.problem.n) if weight is None else weight
            truth = to_numpy(self.criterion.truth(self.problem, self.task))
            beside = np.concatenate([truth, given[:, None]], axis=1)
            self._carrier = rows_of(self.problem.X, beside, None, self.problem.device)
        parts = self.splits.left_out, self.splits.tests
        totals = model.heldout_sums(*parts, alphas, TermSums(self.criterion), self._carrier)
        return None if totals is None else self._divided(np.stack(totals, axis=1))

    def _divided(self, found: Any) -> tuple[Any, Any]:
        """Means and finiteness from sums (μ, scores, terms + 1)."""
        sums, misses = found[..., :-1], found[..., -1]
        if not self._each_row:
            sums = sums / np.array([weight.sum() for weight in self._weights])[None, :, None]
        return sums, np.all(misses == 0, axis=1)

    def added(self, total: Array | None, block: HeldoutBlock) -> Array:
        """The sums of a part with those of one more block."""
        with np.errstate(over="ignore", invalid="ignore"):
            for piece, truth, weight in self._pieces(block):
                check_stop()
                found = self._piece_sums(piece, truth, weight)
                total = found if total is None else self._joined(total, found)
        return total

    @property
    def n_parts(self) -> int:
        """How many sets of rows are predicted together."""
        return len(self._weights)

    def _piece_sums(self, values: Array, truth: Array, weight: Array) -> Array:
        """The sums and the count of μ without finite predictions: (μ, terms + 1), or (μ, rows, …)."""
        if not self._each_row:
            return _sums_and_misses(self.criterion, values, truth, weight)
        xp, sums = namespace(values), self.criterion.terms(values, truth)  # of one row: its mean
        missing = ~xp.all(xp.isfinite(values), axis=2)
        return xp.concat([sums, xp.astype(missing, sums.dtype)[..., None]], axis=-1)

    def _joined(self, one: Array, two: Array) -> Array:
        return namespace(one).concat([one, two], axis=1) if self._each_row else one + two

    def _pieces(self, block: HeldoutBlock) -> Iterator[tuple[Array, Array, Array]]:
        """Predictions, truth and weights of a block, some rows at a time; untested ones are 0."""
        part, positions, values = block
        truth, weight, tested = self._beside(values)[part]
        if not isinstance(positions, slice):
            truth, weight = take_rows(truth, positions), take_rows(weight, positions)
            tested = None if tested is None else take_rows(tested, positions)
            positions = slice(None)
        truth, weight = truth[positions, ...], weight[positions]
        n = values.shape[1]
        step = max(1, n) if is_foreign(values) else _PIECE
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            piece = values[:, rows, :]
            if tested is not None:
                xp = namespace(piece)
                piece = xp.where(tested[positions][rows][None, :, None], piece, xp.zeros_like(piece))
            yield piece, truth[rows, ...], weight[rows]

    def _beside(self, values: Array) -> list[_Compared]:
        """What every part is compared with in the library of `values`, brought there once."""
        key = is_foreign(values)
        if key not in self._compared:
            truth = self.criterion.truth(self.problem, self.task)
            truth = truth if is_foreign(truth) == key else like(to_numpy(truth), values)
            parts = zip(self.splits.predicted, self.splits.times_tested, self._weights)
            self._compared[key] = [
                _Compared(
                    take_rows(truth, rows),
                    like(weight, values),
                    None if np.all(times) else like(times, values) > 0,
                )
                for rows, times, weight in parts
            ]
        return self._compared[key]


class _Sums(Listener):
    """The sums of every part so far, and the blocks themselves where they are held."""

    def __init__(self, scoring: SumScoring, *, hold: bool) -> None:
        self._scoring, self._hold = scoring, hold
        self.totals: list[Any] = [None] * scoring.n_parts
        self.held: list[HeldoutBlock] = []

    def add(self, block: HeldoutBlock) -> None:
        if self._hold:
            self.held.append(block)
        self.totals[block[0]] = self._scoring.added(self.totals[block[0]], block)
