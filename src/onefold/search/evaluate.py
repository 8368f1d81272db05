"""A candidate evaluated: one model, asked by a criterion for every ridge that it can be solved with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.approximations import Model
from onefold.criteria import Answers, Scoring
from onefold.smoothers.base import UnsolvableError

_NOT_FINITE = (
    "their scores or held-out predictions are not finite; use larger alphas, or scale the features."
)


@dataclass(frozen=True)
class Solved:
    """What a model gave in its thread, not yet scored.

    Attributes
    ----------
    asked : int array
        Numbers of the ridges that the model could be solved with.
    answers : Answers or None
        Its answers for these; None where there are none.
    why : str or None
        Why others have no score.
    seconds : float
    report : dict
        What the model says of itself.
    model : Model or None
        The model, if it is one that a search keeps.
    expansion : Expansion or None
        The model's at its one ridge, in the problem's units, where it was asked for.
    """

    asked: Any
    answers: Answers | None
    why: str | None
    seconds: float
    report: dict[str, Any]
    model: Model | None
    expansion: Any = None


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
        none = np.empty(0, dtype=np.intp)
        return Solved(none, None, str(error), time.perf_counter() - start, {}, None)
    try:
        asked, answers = _ask(model, scoring, ridges)
    except UnsolvableError as error:
        # The factorisation at one of the ridges found out what it could not know before.
        why = str(error)
        asked, answers = _ask(model, scoring, ridges)
    if why is None and answers is not None and not answers.finite.all():
        why = _NOT_FINITE
    # A model that is not kept holds the most memory of all: let it go before the next one starts.
    kept = model if model.keep else None
    done = model.expansion(float(ridges[0])) if finish and len(ridges) == 1 == len(asked) else None
    return Solved(asked, answers, why, time.perf_counter() - start, model.report, kept, done)


def _ask(model: Model, scoring: Scoring, ridges: Any) -> tuple[Any, Answers | None]:
    """The numbers of the ridges that can be solved with, and the answers for them."""
    asked = np.flatnonzero(model.usable(scoring.parts, ridges))
    return asked, scoring.answers(model, ridges[asked]) if asked.size else None


@dataclass(frozen=True)
class Evaluation:
    """A candidate's scores (ridges, splits), NaN where it has none, and what they were made from.

    `ridges` are the numbers of those that were tried, as the search counts them; `ranks` (ridges,) is
    what they are compared by, where not by their mean scores.
    """

    ridges: Any
    scores: Any
    why: str | None
    solved: Solved
    ranks: Any = None

    @property
    def has_score(self) -> bool:
        """Whether any ridge has one."""
        return bool(np.isfinite(self.scores.mean(axis=1)).any())

    def heldout(self, scoring: Scoring, ridge: int) -> tuple[Any | None, Any | None]:
        """Held-out predictions of rows and of splits at a ridge, where they were made and held."""
        answers, place = self.solved.answers, np.flatnonzero(self.ridges[self.solved.asked] == ridge)
        if answers is None or not place.size:
            return None, None
        return scoring.heldout(answers.blocks, int(place[0]))


def evaluate(solved: Solved, scoring: Scoring, ridges: Any) -> Evaluation:
    """Score what a model gave for the ridges of these numbers, in the thread of the search."""
    scores, why = np.full((len(ridges), scoring.n_scores), np.nan), solved.why
    ranks = None
    if solved.answers is not None:
        found, refusal = solved.answers.scores()
        there = solved.asked[solved.answers.finite]
        scores[there] = found
        why, own = why or refusal, solved.answers.ranks()
        if own is not None:
            ranks = np.full(len(ridges), np.nan)
            ranks[there] = own
    return Evaluation(ridges, scores, why, solved, ranks)
