"""One model, asked by several criteria: its held-out predictions and factorisations are made once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold.approximations import Model
from onefold.heldout import HeldoutBlock, heldout_blocks
from onefold.linalg import namespace

if TYPE_CHECKING:
    from onefold.criteria.base import Answers, Scoring


class Listener(ABC):
    """Takes the held-out predictions of a model as they come."""

    @abstractmethod
    def add(self, block: HeldoutBlock) -> None:
        """The next block."""


def answers_of(scorings: Sequence[Scoring], model: Model, alphas: Any) -> list[Answers]:
    """What a model says to every scoring; all that hold rows out have the same splits.

    Only the first one's answers hold on to predictions that its scores do without.
    """
    values = np.asarray(alphas, dtype=np.float64).reshape(-1)
    if model.one_by_one and values.size > 1 and _asks_again(scorings):
        each = [answers_of(scorings, model, values[i : i + 1]) for i in range(values.size)]
        return [first.joined(rest) for first, *rest in zip(*each)]
    # Where predictions are made for one criterion, squared errors come from them too.
    predicted = any(scoring.criterion.needs in ("sums", "rows") for scoring in scorings)
    predicted &= not scorings[0].problem.remote  # whose rows are better summed up where they are
    found = [
        None if predicted and scoring.criterion.holds_out else scoring.at_once(model, values)
        for scoring in scorings
    ]
    heard: dict[Any, Listener] = {}
    for number, (scoring, answers) in enumerate(zip(scorings, found)):
        if answers is None and scoring.hears not in heard:
            heard[scoring.hears] = scoring.listener(model, values.size, hold=number == 0)
    if heard:
        splits = next(s.held_out for s, answers in zip(scorings, found) if answers is None)
        for block in heldout_blocks(model, splits, values):
            for listener in heard.values():
                listener.add(block)
    return [
        scoring.from_heard(heard[scoring.hears]) if answers is None else answers
        for scoring, answers in zip(scorings, found)
    ]


def _asks_again(scorings: Sequence[Scoring]) -> bool:
    """Whether a model is asked more than once about the same μ."""
    return len(scorings) > 1 or scorings[0].criterion.needs == "smoother"


def joined_blocks(each: Sequence[Sequence[HeldoutBlock]]) -> list[HeldoutBlock]:
    """Blocks of some μ, and the same of others, as blocks of all of them."""
    found = []
    for same in zip(*each):
        part, positions, values = same[0]
        found.append((part, positions, namespace(values).concat([one[2] for one in same], axis=0)))
    return found
