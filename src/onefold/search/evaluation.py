"""A candidate, and its evaluation: one model, scored by every criterion for every ridge at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onefold.approximations import Model, Run
from onefold.criteria import Scored, Scoring, joined, scored_by
from onefold.expansions import FoldModels
from onefold.kernels import Kernel
from onefold.search.learned_metric import CrossFitted
from onefold.smoothers.base import UNSOLVABLE, why_unsolvable

_NOT_FINITE = (
    "their scores or held-out predictions are not finite; use larger alphas, or scale the features."
)


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
    """The scores of a candidate with some ridges; the fields from `scored` on are not kept."""

    candidate: int  # its number
    ridges: Any  # numbers of the ridges that were tried, among the ledger's
    scores: Any  # (ridges, splits), NaN where there is none
    seconds: float
    why: str | None  # those without a score have none
    report: dict[str, Any]  # what the approximation has to say
    ranks: Any = None  # (ridges,): what ridges are compared by, where not by their mean scores
    others: dict[str, Any] = field(default_factory=dict)  # scores of criteria that are recorded only
    scored: Scored | None = None  # behind the scores
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
        if self.scored is None:
            return None, None
        place = np.flatnonzero(self.ridges[self.scored.places] == ridge)
        return scoring.heldout(self.scored.blocks, int(place[0])) if place.size else (None, None)


def solve(
    candidates: Sequence[Candidate], scoring: Scoring, alphas: Any, finish: bool, proposal: Any
) -> Callable[[], Evaluation]:
    """Ask the model of a proposal all that costs time, in any thread; the result then scores it."""
    number, ridges = proposal
    mu = scoring.problem.ridge(alphas[proposal[1]])
    candidate = candidates[number]
    finish = finish and candidate.run.refit is None
    start = time.perf_counter()
    scorings = {"": scoring, **scoring.others}
    asked = dict[str, Scored]()
    why = None
    more = dict[str, Any](report={})
    try:
        model = candidate.model(len(mu))
        asked, why = _ask(model, scorings, mu)
        more["report"] = dict(model.report)
        # A model that is not kept holds the most memory of all: let it go before the next one starts.
        more["model"] = model if model.keep else None
        if finish and len(mu) == 1 and "" in asked:
            more["expansion"] = model.expansion(float(mu[0]))
        numbers = scoring.splits is not None and scoring.task.classes is None
        if (finish or candidate.parts is not None) and numbers and len(mu) == 1 and "" in asked:
            more["folds"] = model.fold_models(scoring.held_out.left_out, float(mu[0]))
    except UNSOLVABLE as error:
        why = why_unsolvable(error)
    seconds = time.perf_counter() - start

    def evaluation() -> Evaluation:  # in the thread of the search: scorers are the user's
        tables = dict[str, Any]()
        ranks = None
        reason = why
        for name, one in scorings.items():
            tables[name] = np.full((len(mu), one.n_scores), np.nan)
            scored = asked.get(name)
            if scored is None:
                continue
            there = scored.places[scored.finite]
            tables[name][there], refusal = scored.scores()
            if name == "":
                reason = why or (refusal if scored.finite.all() else _NOT_FINITE)
            if name == "" and scored.ranking is not None:
                ranks = np.full(len(mu), np.nan)
                ranks[there] = scored.ranking[scored.finite]
        scores = tables.pop("")
        more.update(ranks=ranks, others=tables, scored=asked.get(""))
        return Evaluation(number, ridges, scores, seconds, reason, **more)

    return evaluation


def _ask(model: Model, scorings: dict[str, Scoring], mu: Any) -> tuple[dict[str, Scored], str | None]:
    """What every scoring gets with the ridges that can be solved with, and why others cannot."""
    every = np.arange(len(mu))
    why = None
    each: list[dict[str, Scored]] = []
    # A factorisation that fails shows the model which ridges are not usable: once more, then one by one.
    for pieces in ([every], [every], np.split(every, every.size)):
        for piece in pieces:
            # Those that can be solved with the same ridges are asked together.
            together: dict[bytes, tuple[Any, list[str]]] = {}
            found: dict[str, Scored] = {}
            try:
                for name, one in scorings.items():
                    places = piece[model.usable(one.parts, mu[piece])]
                    together.setdefault(places.tobytes(), (places, []))[1].append(name)
                for places, names in together.values():
                    if places.size:
                        scored = scored_by([scorings[name] for name in names], model, mu[places])
                        found |= {name: replace(s, places=places) for name, s in zip(names, scored)}
                each.append(found)
            except UNSOLVABLE as error:
                why = why_unsolvable(error)
        if each:
            break
    of_each = {name: [one[name] for one in each if name in one] for name in scorings}
    return {name: joined(same) for name, same in of_each.items() if same}, why
