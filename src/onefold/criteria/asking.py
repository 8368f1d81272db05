"""One model, asked by several criteria for all its ridges: nothing is factorised or predicted twice.

The first criterion decides, and the others are recorded. All that hold rows out have the same splits,
and every block of predictions is given to the accumulator of each. Ridges that cannot be solved have no
scores, and the reason is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.approximations import Model
from onefold.criteria.base import Accumulator, Scored, Scoring
from onefold.heldout import HeldoutBlock, heldout_blocks
from onefold.smoothers.base import UNSOLVABLE, why_unsolvable


@dataclass(frozen=True)
class Answer:
    """What a model gave some criteria for some of its ridges."""

    places: Any  # numbers of these ridges, among all that it was asked about
    scored: Mapping[str, Scored | Accumulator]  # by the name of the criterion
    blocks: list[HeldoutBlock]  # held-out predictions for these ridges; empty unless they are kept


def ask(model: Model, scorings: Mapping[str, Scoring], alphas: Any) -> tuple[list[Answer], str | None]:
    """What a model gives every criterion, and why it gives nothing for some ridges; in any thread.

    The first of the scorings decides: its predictions are kept if it says so.
    """
    numbers = np.arange(len(alphas))
    singles = np.split(numbers, numbers.size)
    needs = {scoring.criterion.needs for scoring in scorings.values()}
    # A factor that is replaced by that of the next ridge must answer all criteria before.
    several_questions = len(scorings) > 1 or not needs.isdisjoint({"smoother", "matrix"})
    one_by_one = model.one_by_one and several_questions
    attempts = [singles] if one_by_one else [[numbers], [numbers], singles]
    reason = None
    # A failed factorisation tells the model which ridges it cannot use, so the second attempt is without
    # these; the third asks about each ridge by itself.
    for pieces in attempts:
        answers: list[Answer] = []
        for piece in pieces:
            try:
                answers += _answers(model, scorings, alphas, piece)
            except UNSOLVABLE as error:
                reason = why_unsolvable(error)
        if answers:
            return answers, reason
    return [], reason


def _answers(model: Model, scorings: Mapping[str, Scoring], alphas: Any, numbers: Any) -> list[Answer]:
    """What a model gives for these ridges; criteria with the same usable ridges are asked together."""
    groups: dict[bytes, tuple[Any, dict[str, Scoring]]] = {}
    for name, scoring in scorings.items():
        places = numbers[model.usable(scoring.parts, alphas[numbers])]
        _, group = groups.setdefault(places.tobytes(), (places, {}))
        group[name] = scoring
    decisive = next(iter(scorings.values()))
    return [
        _answer(model, group, decisive, alphas[places], places)
        for places, group in groups.values()
        if places.size
    ]


def _answer(
    model: Model, scorings: Mapping[str, Scoring], decisive: Scoring, alphas: Any, places: Any
) -> Answer:
    """What a model gives for usable ridges."""
    # Where predictions are made for one criterion, squared errors come from them too; but rows on other
    # machines are better summed up there.
    predicted = any(scoring.criterion.needs in ("sums", "rows") for scoring in scorings.values())
    predicted &= not decisive.problem.remote
    scored: dict[str, Scored | Accumulator] = {}
    accumulators: dict[str, Accumulator] = {}
    for name, scoring in scorings.items():
        known = None if predicted and scoring.splits is not None else scoring.shortcut(model, alphas)
        if known is None:
            accumulators[name] = scoring.start()
        scored[name] = accumulators[name] if known is None else known
    blocks: list[HeldoutBlock] = []
    if accumulators:
        kept = any(scorings[name] is decisive for name in accumulators)
        kept = kept and decisive.keeps_predictions(model, len(alphas))
        splits = scorings[next(iter(accumulators))].held_out
        for block in heldout_blocks(model, splits, alphas):
            if kept:
                blocks.append(block)
            for accumulator in accumulators.values():
                accumulator.add(block)
    return Answer(places, scored, blocks)
