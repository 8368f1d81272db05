r"""Criteria that add up block by block: a function of weighted means over held-out rows.

    score = φ( Σ_i v_i t(f_i, y_i) / Σ_i v_i )

with t the terms of one row and φ a function of their means. A block of rows leaves its sums, μ × terms
numbers, whatever its size; nothing else of its predictions is needed.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
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

    def at_once(self, model: Model, alphas: Any) -> Answers | None:
        scores = self.criterion.from_model(model, self.splits, alphas)
        return None if scores is None else ScoredAnswers(np.isfinite(scores).all(axis=1), [], scores)

    def listener(self, model: Model, n_alphas: int, *, hold: bool) -> Listener:
        # What a model that is let go has predicted cannot be had again.
        small = 8 * n_alphas * math.prod(self.problem.Y.shape) <= _HELD
        return _Sums(self, hold=hold and (small or not model.keep))

    def from_heard(self, heard: _Sums) -> Answers:
        with np.errstate(over="ignore", invalid="ignore"):
            means, finite = self._means(heard.totals)
            scores, ranks = self.criterion.from_means(means), self.criterion.ranks(means)
        return ScoredAnswers(finite, heard.held, scores, ranks)

    def _means(self, totals: list[Any]) -> tuple[Any, Any]:
        """Means (μ, scores, terms), and where all predictions are finite, (μ,)."""
        xp = namespace(totals[0])
        found = to_numpy(totals[0] if self._each_row else xp.stack(totals, axis=1))
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
        xp = namespace(values)
        finite = xp.isfinite(values)
        if self._each_row:  # the mean over one row is its term
            sums, missing = self.criterion.terms(values, truth), ~xp.all(finite, axis=2)
        else:
            sums, missing = self.criterion.sums(values, truth, weight), ~xp.all(finite, axis=(1, 2))
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
