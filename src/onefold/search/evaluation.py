"""A candidate, and its evaluation: one model, scored by every criterion for every ridge at once.

:func:`solve` asks a model for all that costs time, in any thread, and gives a value. :func:`evaluate`
scores that in the thread of the search, since scorers are the user's. A ridge that cannot be solved
with, or whose scores are undefined, has a reason in place of a score, and the search goes on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from onefold.approximations import Model, Run
from onefold.criteria import Answer, Scoring, ask
from onefold.expansions import Expansion, FoldModels
from onefold.heldout import HeldoutBlock, Splits, heldout_blocks
from onefold.kernels import Kernel
from onefold.linalg import HostArray, Index
from onefold.search.learned_metric import CrossFitted
from onefold.smoothers.base import Failure, attempt

_NOT_DEFINITE = (
    "the matrix plus alpha is not positive definite; use larger alphas or gammas, or "
    'negative="clip" or "solve" in the approximation.'
)


@dataclass(frozen=True)
class Candidate:
    """A kernel, the run that makes its model, and what to call the pair in a table."""

    run: Run
    kernel: Kernel  # of the final model
    params: dict[str, Any]
    learned_from: tuple[Any, ...] = ()  # cells that its metric was learned from, after a number of rows
    parts: Sequence[Any] | None = None  # rows left out in turn, where each part has its own kernel
    part_kernels: Sequence[Kernel] = ()
    own_group: bool = False  # it is the only one of its group, so that its held-out predictions are kept

    @property
    def group(self) -> tuple[Any, ...]:
        """Its family, kind of metric and round, whatever its width: what is compared with others."""
        if self.own_group:
            return tuple(self.params.items())
        return tuple(self.params.get(name) for name in ("kernel", "metric", "round"))

    @property
    def complexity(self) -> tuple[int, int]:
        """Its round, then whether its metric is diagonal or full."""
        kind = self.params.get("metric", "none")
        return int(self.params.get("round", 0)), ("none", "diagonal", "full").index(kind)

    @property
    def max_parallel(self) -> int:
        """How many such candidates may be solved side by side: one if a kernel must not be shared."""
        kernels = [self.kernel, *self.part_kernels]
        return self.run.max_parallel_models if all(kernel.thread_safe for kernel in kernels) else 1

    def model(self, n_alphas: int) -> Model:
        """The candidate solved for `n_alphas` values of μ, to be asked for held-out predictions."""
        if self.parts is not None:
            return CrossFitted(self.run, self.parts, self.part_kernels)
        return replace(self.run, load=replace(self.run.load, alphas=n_alphas)).model(self.kernel)


@dataclass(frozen=True)
class Work:
    """A candidate at some of the ridges: what a thread needs to solve it."""

    candidate: Candidate
    number: int  # of the candidate
    ridges: Index  # numbers of the ridges, among the ledger's
    alphas: HostArray  # and their values, in the user's units
    scorings: Mapping[str, Scoring]  # the first one, named "score", decides; the others are recorded
    with_expansion: bool  # whether the model of all rows is wanted, where there is one ridge
    second: Splits | None = None  # by which that model is also scored


@dataclass(frozen=True)
class SecondAnswer:
    """What a model predicts without each of the second splits, at its one ridge."""

    splits: Splits
    blocks: list[HeldoutBlock]
    fold_models: FoldModels | None = None


@dataclass(frozen=True)
class Solved:
    """What a model gave for a proposal."""

    candidate: int  # its number
    ridges: Index  # numbers of the ridges, among the ledger's
    answers: Sequence[Answer]  # each for some of the ridges
    failures: Mapping[int, str]  # why there is no answer, by the place of the ridge
    seconds: float
    report: dict[str, Any] = field(default_factory=dict)  # what the approximation has to say
    model: Model | None = None  # if it is one that a search keeps
    expansion: Expansion | None = None  # at the one ridge, in the problem's units, where asked for
    fold_models: FoldModels | None = None  # the models without each part, with it
    second: SecondAnswer | None = None  # by the second splits, with the expansion

    def blocks_at(self, ridge: int) -> tuple[list[Any], int]:
        """The held-out predictions that were kept for a ridge, and its place in them."""
        for answer in self.answers:
            (places,) = np.nonzero(self.ridges[answer.places] == ridge)
            if places.size and answer.blocks:
                return answer.blocks, int(places[0])
        return [], 0


@dataclass(frozen=True)
class Evaluation:
    """The scores of a candidate with some ridges, or why there are none."""

    candidate: int  # its number
    ridges: Index  # numbers of the ridges that were tried, among the ledger's
    scores: Any  # (ridges, splits); the mean of a ridge is NaN where it has a reason
    reasons: tuple[str | None, ...]  # for every ridge, why it has no score; None where it has one
    seconds: float
    report: dict[str, Any]  # what the approximation has to say
    ranks: Any = None  # (ridges,): what ridges are compared by, where not by their mean scores
    others: dict[str, Any] = field(default_factory=dict)  # scores of criteria that are recorded only

    @property
    def means(self) -> Any:
        """Mean score of each ridge."""
        return self.scores.mean(axis=1)

    @property
    def failures(self) -> list[str]:
        """The reasons of the ridges without a score."""
        return [reason for reason in self.reasons if reason is not None]


def solve(work: Work) -> Solved:
    """Ask the model of a candidate for all that costs time; runs in any thread."""
    candidate = work.candidate
    number = work.number
    ridges = work.ridges
    scoring = work.scorings["score"]
    mu = scoring.problem.ridge(work.alphas)
    start = time.perf_counter()
    model = attempt(partial(candidate.model, len(mu)))
    if isinstance(model, Failure):
        failures = dict.fromkeys(range(len(mu)), model.reason)
        return Solved(number, ridges, [], failures, time.perf_counter() - start)
    answers, failures = ask(model, work.scorings, mu)
    report = dict(model.report)
    expansion = None
    fold_models = None
    second = None
    if len(mu) == 1 and any("score" in answer.scored for answer in answers):
        ridge = float(mu[0])
        with_expansion = work.with_expansion and candidate.run.refit is None
        numeric = scoring.splits is not None and scoring.task.classes is None
        if with_expansion:
            expansion = _or_none(attempt(partial(model.expansion, ridge)))
        if with_expansion and work.second is not None:
            second = _or_none(attempt(partial(_second_answer, model, work.second, ridge, numeric)))
        elif numeric and (with_expansion or candidate.parts is not None):
            left_out = scoring.held_out.left_out
            fold_models = _or_none(attempt(partial(model.fold_models, left_out, ridge)))
    return Solved(
        candidate=number,
        ridges=ridges,
        answers=answers,
        failures=failures,
        seconds=time.perf_counter() - start,
        report=report,
        # A model that is not kept holds the most memory of all: let it go before the next one starts.
        model=model if model.keep else None,
        expansion=expansion,
        fold_models=fold_models,
        second=second,
    )


def _second_answer(model: Model, splits: Splits, ridge: float, numeric: bool) -> SecondAnswer:
    """The predictions without each of the splits and, of numbers, the models."""
    blocks = list(heldout_blocks(model, splits, [ridge]))
    fold_models = model.fold_models(splits.left_out, ridge) if numeric else None
    return SecondAnswer(splits, blocks, fold_models)


def _or_none(value: Any | Failure) -> Any | None:
    return None if isinstance(value, Failure) else value


def evaluate(solved: Solved, scorings: Mapping[str, Scoring]) -> Evaluation:
    """The scores of what was solved; runs in the thread of the search."""
    count = len(solved.ridges)
    scores = {name: np.full((count, scoring.n_scores), np.nan) for name, scoring in scorings.items()}
    reasons = [solved.failures.get(place, _NOT_DEFINITE) for place in range(count)]
    ranks = None
    for answer in solved.answers:
        for name in answer.scored:
            scored = answer.result(name, scorings[name])
            scores[name][answer.places] = scored.scores
            if name != "score":
                continue
            if scored.reason is not None:
                for place in answer.places:
                    reasons[place] = scored.reason
            if scored.ranks is not None:
                ranks = np.full(count, np.nan) if ranks is None else ranks
                ranks[answer.places] = scored.ranks
    decisive = scores.pop("score")
    missing = np.isnan(decisive.mean(axis=1))
    return Evaluation(
        candidate=solved.candidate,
        ridges=solved.ridges,
        scores=decisive,
        reasons=tuple(reason if is_missing else None for reason, is_missing in zip(reasons, missing)),
        seconds=solved.seconds,
        report=solved.report,
        ranks=ranks,
        others=scores,
    )
