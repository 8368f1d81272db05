"""A candidate, and its evaluation: one model, scored by every criterion for every ridge at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onefold.approximations import Model, Run
from onefold.criteria import Answer, Scoring, ask
from onefold.expansions import FoldModels
from onefold.kernels import Kernel
from onefold.search.learned_metric import CrossFitted
from onefold.smoothers.base import UNSOLVABLE, why_unsolvable


@dataclass(frozen=True)
class Candidate:
    """A kernel, the run that makes its model, and what to call the pair in a table."""

    run: Run
    kernel: Kernel  # of the final model
    params: dict[str, Any]
    lineage: tuple[Any, ...] = ()  # cells that its metric was learned from, after a number of rows
    parts: Sequence[Any] | None = None  # rows left out in turn, where each part has its own kernel
    part_kernels: Sequence[Kernel] = ()
    alone: bool = False  # in a group of its own, so that its held-out predictions are kept

    @property
    def group(self) -> tuple[Any, ...]:
        """Its family, kind of metric and round, whatever its width: what is compared with others."""
        if self.alone:
            return tuple(self.params.items())
        return tuple(self.params.get(name) for name in ("kernel", "metric", "round"))

    @property
    def complexity(self) -> tuple[int, int]:
        """Its round, then whether its metric is diagonal or full."""
        kind = self.params.get("metric", "none")
        return int(self.params.get("round", 0)), ("none", "diagonal", "full").index(kind)

    @property
    def at_once(self) -> int:
        """How many such candidates may be solved side by side: one if a kernel must not be shared."""
        kernels = [self.kernel, *self.part_kernels]
        return self.run.max_parallel_models if all(kernel.thread_safe for kernel in kernels) else 1

    def model(self, n_alphas: int) -> Model:
        """The candidate solved for `n_alphas` values of μ, to be asked for held-out predictions."""
        if self.parts is not None:
            return CrossFitted(self.run, self.parts, self.part_kernels)
        return replace(self.run, load=replace(self.run.load, alphas=n_alphas)).model(self.kernel)


@dataclass(frozen=True)
class Evaluation:
    """The scores of a candidate with some ridges; the fields from `answers` on are not kept."""

    candidate: int  # its number
    ridges: Any  # numbers of the ridges that were tried, among the ledger's
    scores: Any  # (ridges, splits), NaN where there is none
    seconds: float
    why: str | None  # those without a score have none
    report: dict[str, Any]  # what the approximation has to say
    ranks: Any = None  # (ridges,): what ridges are compared by, where not by their mean scores
    others: dict[str, Any] = field(default_factory=dict)  # scores of criteria that are recorded only
    answers: Sequence[Answer] = ()  # what its model gave, for some of the ridges each
    model: Model | None = None  # if it is one that a search keeps
    expansion: Any = None  # the model's at its one ridge, in the problem's units, where asked for
    folds: FoldModels | None = None  # the models without each part, with it

    @property
    def means(self) -> Any:
        """Mean score of each ridge."""
        return self.scores.mean(axis=1)

    @property
    def unsolved(self) -> int:
        """How many ridges have no score."""
        return int(np.count_nonzero(np.isnan(self.means)))

    def heldout(self, scoring: Scoring, ridge: int) -> tuple[Any | None, Any | None]:
        """Held-out predictions of rows and of splits at a ridge, where they were made and held."""
        for answer in self.answers:
            place = np.flatnonzero(self.ridges[answer.places] == ridge)
            if place.size and answer.blocks:
                return scoring.heldout(answer.blocks, int(place[0]))
        return None, None


def solve(
    candidates: Sequence[Candidate],
    scoring: Scoring,
    recorded: Mapping[str, Scoring],
    alphas: Any,
    finish: bool,
    proposal: Any,
) -> Callable[[], Evaluation]:
    """Ask the model of a proposal all that costs time, in any thread; the result then scores it."""
    number, ridges = proposal
    mu = scoring.problem.ridge(alphas[proposal[1]])
    candidate = candidates[number]
    finish = finish and candidate.run.refit is None
    start = time.perf_counter()
    scorings = {"score": scoring, **recorded}
    answers: list[Answer] = []
    why = None
    more = dict[str, Any](report={})
    try:
        model = candidate.model(len(mu))
        answers, why = ask(model, scorings, mu)
        more["report"] = dict(model.report)
        # A model that is not kept holds the most memory of all: let it go before the next one starts.
        more["model"] = model if model.keep else None
        solved = any("score" in answer.scored for answer in answers)
        if finish and len(mu) == 1 and solved:
            more["expansion"] = model.expansion(float(mu[0]))
        numbers = scoring.splits is not None and scoring.task.classes is None
        if (finish or candidate.parts is not None) and numbers and len(mu) == 1 and solved:
            more["folds"] = model.fold_models(scoring.held_out.left_out, float(mu[0]))
    except UNSOLVABLE as error:
        why = why_unsolvable(error)
    seconds = time.perf_counter() - start

    def evaluation() -> Evaluation:  # in the thread of the search: scorers are the user's
        scores = {name: np.full((len(mu), one.n_scores), np.nan) for name, one in scorings.items()}
        ranks = None
        reason = why
        for answer in answers:
            for name, pending in answer.scored.items():
                scored = pending.result()
                scores[name][answer.places] = scored.scores
                if name == "score":
                    reason = reason or scored.reason
                if name == "score" and scored.ranks is not None:
                    ranks = np.full(len(mu), np.nan) if ranks is None else ranks
                    ranks[answer.places] = scored.ranks
        decisive = scores.pop("score")
        more.update(ranks=ranks, others=scores, answers=answers)
        return Evaluation(number, ridges, decisive, seconds, reason, **more)

    return evaluation
