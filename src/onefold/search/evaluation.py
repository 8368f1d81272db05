"""A candidate, and its evaluation: one model, scored by every criterion for every ridge at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onefold.approximations import Model, Run
from onefold.criteria import Answers, Scoring, answers_of, joined
from onefold.expansions import FoldModels
from onefold.kernels import Kernel
from onefold.search.metrics import CrossFitted
from onefold.smoothers.base import UnsolvableError

_NOT_FINITE = (
    "their scores or held-out predictions are not finite; use larger alphas, or scale the features."
)


_Asked = dict[str, tuple[Any, Answers | None]]
"""For each scoring the places of the ridges that can be solved with, and its answers for these."""


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
    def width(self) -> float | None:
        """The number that names the kernel; None where it has no width."""
        return self.params.get("gamma")

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
    answers: Answers | None = None  # behind the scores,
    answered: Any = None  # of the ridges of these numbers
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

    def recorded(self) -> Evaluation:
        """What a ledger keeps: numbers, neither a model nor predictions."""
        return replace(self, answers=None, answered=None, model=None, expansion=None, folds=None)

    def heldout(self, scoring: Scoring, ridge: int) -> tuple[Any | None, Any | None]:
        """Held-out predictions of rows and of splits at a ridge, where they were made and held."""
        if self.answers is None:
            return None, None
        place = np.flatnonzero(self.answered == ridge)
        return scoring.heldout(self.answers.blocks, int(place[0])) if place.size else (None, None)


def solve(
    candidate: Candidate, number: int, scoring: Scoring, ridges: Any, mu: Any, *, finish: bool = False
) -> Callable[[], Evaluation]:
    """Make a model and ask it everything that costs time; runs in any thread.

    What comes back scores it, in the thread of the search: scorers are the user's. `ridges` are the
    numbers of the ridges `mu`. `finish` asks for the expansion too, if there is one ridge: the
    factorisation is at hand.
    """
    start, scorings = time.perf_counter(), {"": scoring, **scoring.others}
    asked: _Asked = dict.fromkeys(scorings, (np.empty(0, dtype=np.intp), None))
    why: str | None = None
    more: dict[str, Any] = {"report": {}}
    try:
        model = candidate.model(len(mu))
        asked, why = _ask_all(model, scorings, mu)
        more["report"] = dict(model.report)
        # A model that is not kept holds the most memory of all: let it go before the next one starts.
        more["model"] = model if model.keep else None
        if finish and len(mu) == 1 == len(asked[""][0]):
            more["expansion"] = model.expansion(float(mu[0]))
            if scoring.splits is not None and scoring.task.classes is None:
                more["folds"] = model.fold_models(scoring.splits.left_out, float(mu[0]))
    except UnsolvableError as error:
        why = str(error)
    seconds = time.perf_counter() - start

    def evaluation() -> Evaluation:
        found = {name: _scores(*asked[name], len(mu), one.n_scores) for name, one in scorings.items()}
        scores, ranks, refusal = found.pop("")
        places, answers = asked[""]
        unknown = answers is not None and not answers.finite.all()
        return Evaluation(
            number,
            ridges,
            scores,
            seconds,
            why or (_NOT_FINITE if unknown else refusal),
            ranks=ranks,
            others={name: values for name, (values, _, _) in found.items()},
            answers=answers,
            answered=ridges[places],
            **more,
        )

    return evaluation


def _ask_all(model: Model, scorings: dict[str, Scoring], mu: Any) -> tuple[_Asked, str | None]:
    """What `_ask` finds with the ridges that can be solved with, and why others cannot."""
    why: str | None = None
    for _ in range(2):  # a factorisation that fails shows the model which ridges are not usable
        try:
            return _ask(model, scorings, mu), why
        except UnsolvableError as error:
            why = str(error)
    each: list[tuple[int, _Asked]] = []
    for number in range(len(mu)):
        try:
            each.append((number, _ask(model, scorings, mu[number : number + 1])))
        except UnsolvableError as error:
            why = str(error)
    found: _Asked = {}
    for name in scorings:
        solved = [(number, one[name][1]) for number, one in each]
        answers = [one for _, one in solved if one is not None]
        places = np.array([number for number, one in solved if one is not None], dtype=np.intp)
        found[name] = places, joined(answers) if answers else None
    return found, why


def _ask(model: Model, scorings: dict[str, Scoring], mu: Any) -> _Asked:
    """What every scoring gets; those that can be solved with the same ridges are asked together."""
    usable = {name: np.flatnonzero(model.usable(one.parts, mu)) for name, one in scorings.items()}
    found: _Asked = {name: (one, None) for name, one in usable.items()}
    together: dict[bytes, list[str]] = {}
    for name, places in usable.items():
        together.setdefault(places.tobytes(), []).append(name)
    for names in together.values():
        places = usable[names[0]]
        if places.size:
            answers = answers_of([scorings[name] for name in names], model, mu[places])
            found |= {name: (places, one) for name, one in zip(names, answers)}
    return found


def _scores(
    places: Any, answers: Answers | None, ridges: int, n_scores: int
) -> tuple[Any, Any, str | None]:
    """Scores (ridges, scores) and ranks (ridges,), NaN where there are none, and why.

    Ranks are None where mean scores rank.
    """
    scores, ranks = np.full((ridges, n_scores), np.nan), None
    if answers is None:
        return scores, ranks, None
    found, refusal = answers.scores()
    there, own = places[answers.finite], answers.ranks()
    scores[there] = found
    if own is not None:
        ranks = np.full(ridges, np.nan)
        ranks[there] = own
    return scores, ranks, refusal
