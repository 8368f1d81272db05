"""A candidate evaluated: one model, asked by criteria for every ridge that it can be solved with."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onefold.approximations import Model
from onefold.criteria import Answers, Scoring, answers_of
from onefold.expansions import FoldModels
from onefold.search.entry import Entry
from onefold.smoothers.base import UnsolvableError

_NOT_FINITE = (
    "their scores or held-out predictions are not finite; use larger alphas, or scale the features."
)


@dataclass(frozen=True)
class Asked:
    """What a model gave one criterion.

    Attributes
    ----------
    asked : int array
        Numbers of the ridges that the model could be solved with.
    answers : Answers or None
        Its answers for these; None where there are none.
    """

    asked: Any
    answers: Answers | None = None

    def scores(self, ridges: int, n_scores: int) -> tuple[Any, Any, str | None]:
        """Scores (ridges, scores) and ranks (ridges,), NaN where there are none, and why.

        Ranks are None where mean scores rank.
        """
        scores, ranks = np.full((ridges, n_scores), np.nan), None
        if self.answers is None:
            return scores, ranks, None
        found, refusal = self.answers.scores()
        there, own = self.asked[self.answers.finite], self.answers.ranks()
        scores[there] = found
        if own is not None:
            ranks = np.full(ridges, np.nan)
            ranks[there] = own
        return scores, ranks, refusal


_NOTHING = Asked(np.empty(0, dtype=np.intp))


@dataclass(frozen=True)
class Solved:
    """What a model gave in its thread, not yet scored.

    Attributes
    ----------
    asked : Asked
        Of the criterion that decides.
    why : str or None
        Why others have no score.
    seconds : float
    report : dict
        What the model says of itself.
    model : Model or None
        The model, if it is one that a search keeps.
    expansion : Expansion or None
        The model's at its one ridge, in the problem's units, where it was asked for.
    others : dict from str to Asked
        Of the criteria that are recorded only.
    folds : FoldModels or None
        The models without each part, where the expansion was asked for and targets are numbers.
    """

    asked: Asked
    why: str | None
    seconds: float
    report: dict[str, Any]
    model: Model | None
    expansion: Any = None
    others: dict[str, Asked] = field(default_factory=dict)
    folds: FoldModels | None = None


def solve(
    make_model: Callable[[], Model], scoring: Scoring, ridges: Any, *, finish: bool = False
) -> Solved:
    """Make a model and ask it everything that costs time; runs in any thread.

    `finish` asks for its expansion too, if there is one ridge: the factorisation is at hand.
    """
    start = time.perf_counter()
    why: str | None = None
    try:
        model = make_model()
    except UnsolvableError as error:
        return Solved(_NOTHING, str(error), time.perf_counter() - start, {}, None)
    scorings = [scoring, *scoring.others.values()]
    try:
        asked, *others = _ask(model, scorings, ridges)
    except UnsolvableError as error:
        # The factorisation at one of the ridges found out what it could not know before.
        why = str(error)
        asked, *others = _ask(model, scorings, ridges)
    if why is None and asked.answers is not None and not asked.answers.finite.all():
        why = _NOT_FINITE
    # A model that is not kept holds the most memory of all: let it go before the next one starts.
    kept = model if model.keep else None
    done = folds = None
    if finish and len(ridges) == 1 == len(asked.asked):
        done = model.expansion(float(ridges[0]))
        if scoring.splits is not None and scoring.task is not None and scoring.task.classes is None:
            folds = model.fold_models(scoring.splits.left_out, float(ridges[0]))
    seconds, beside = time.perf_counter() - start, dict(zip(scoring.others, others))
    return Solved(asked, why, seconds, model.report, kept, done, beside, folds)


def _ask(model: Model, scorings: Sequence[Scoring], ridges: Any) -> list[Asked]:
    """Every scoring's answers; those that can be solved with the same ridges are asked together."""
    usable = [np.flatnonzero(model.usable(scoring.parts, ridges)) for scoring in scorings]
    found = [Asked(asked) for asked in usable]
    together: dict[bytes, list[int]] = {}
    for number, asked in enumerate(usable):
        together.setdefault(asked.tobytes(), []).append(number)
    for numbers in together.values():
        asked = usable[numbers[0]]
        if asked.size:
            answers = answers_of([scorings[number] for number in numbers], model, ridges[asked])
            for number, one in zip(numbers, answers):
                found[number] = Asked(asked, one)
    return found


@dataclass(frozen=True)
class Evaluation:
    """A candidate's scores (ridges, splits), NaN where it has none, and what they were made from.

    `ridges` are the numbers of those that were tried, as the search counts them; `ranks` (ridges,) is
    what they are compared by, where not by their mean scores. `others` are scores (ridges, splits) that
    are recorded only.
    """

    ridges: Any
    scores: Any
    why: str | None
    solved: Solved
    ranks: Any = None
    others: dict[str, Any] = field(default_factory=dict)

    @property
    def has_score(self) -> bool:
        """Whether any ridge has one."""
        return bool(np.isfinite(self.scores.mean(axis=1)).any())

    def entry(self, candidate: int, **more: Any) -> Entry:
        """The same for a ledger; `more` is added to the report."""
        solved, report = self.solved, self.solved.report | more
        numbers = self.scores, solved.seconds, self.why, report, self.ranks, self.others
        return Entry(candidate, self.ridges, *numbers)

    def heldout(self, scoring: Scoring, ridge: int) -> tuple[Any | None, Any | None]:
        """Held-out predictions of rows and of splits at a ridge, where they were made and held."""
        asked, answers = self.solved.asked.asked, self.solved.asked.answers
        place = np.flatnonzero(self.ridges[asked] == ridge)
        if answers is None or not place.size:
            return None, None
        return scoring.heldout(answers.blocks, int(place[0]))


def evaluate(solved: Solved, scoring: Scoring, ridges: Any) -> Evaluation:
    """Score what a model gave for the ridges of these numbers, in the thread of the search."""
    scores, ranks, refusal = solved.asked.scores(len(ridges), scoring.n_scores)
    others = {
        name: solved.others.get(name, _NOTHING).scores(len(ridges), other.n_scores)[0]
        for name, other in scoring.others.items()
    }
    return Evaluation(ridges, scores, solved.why or refusal, solved, ranks, others)
