r"""The rounds of a learned metric: fit, take the gradients, fit again in the metric they suggest.

round 0      the family as it is, one kernel for all parts
round r + 1  for every part J: the model of the other rows at (width, ridge) gives the next metric of
J, which has seen no target of J; the model of all rows gives the one for the final fit
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.approximations import Problem, Run
from onefold.kernels import Kernel
from onefold.learned_metrics.crossfitted import model_of
from onefold.learned_metrics.gradient_metric import gradient_metric
from onefold.learned_metrics.tracks import Track
from onefold.linalg import take_rows
from onefold.machine.threads import map_in_order

_PAIRS_OF = 500  # rows, whose mean distance a width is relative to


@dataclass(frozen=True)
class Fitted:
    """A kernel and the mean exponent of the rows that it was learned from."""

    kernel: Kernel
    mean_exponent: float

    def at(self, width: float) -> Kernel:
        """The kernel of that relative width."""
        return self.kernel.relative(width, self.mean_exponent)


@dataclass(frozen=True)
class Round:
    """The kernels of a track in one round.

    Attributes
    ----------
    track : Track
    number : int
        0 before anything is learned.
    whole : Fitted
        Learned from all rows.
    parts : sequence of Fitted or None
        Learned without each part; None in round 0, where `whole` serves all.
    lineage : tuple of (float, float)
        The width and the ridge that each round before was learned from.
    """

    track: Track
    number: int
    whole: Fitted
    parts: Sequence[Fitted] | None
    lineage: tuple[Any, ...] = ()

    @property
    def metric(self) -> str:
        """What kind of metric its kernels have."""
        return self.track.kind if self.number else "none"

    def part_kernels(self, width: float, count: int) -> list[Kernel]:
        """The kernel of each part at a relative width."""
        if self.parts is None:
            return [self.whole.at(width)] * count
        return [part.at(width) for part in self.parts]


def first_round(track: Track, problem: Problem, seed: int) -> Round:
    """The family as it is. Its width is relative to the rows, whose targets it does not see."""
    return Round(track, 0, _measured(track.kernel, problem, seed), None)


def next_round(
    last: Round,
    run: Run,
    parts: Sequence[Any],
    width: float,
    ridge: float,
    seed: int,
    *,
    whole: bool,
) -> Round:
    """Learn the metrics of the next round from models of this one at (width, ridge).

    One fit of the rows outside each part and, for the metric of the `whole`, one of all rows; without it
    the first part's metric takes its place. The fits run side by side where memory allows.
    """
    problem = run.problem
    sets: list[Any] = [*parts, np.empty(0, dtype=np.intp)] if whole else list(parts)
    kernels = [*last.part_kernels(width, len(parts)), last.whole.at(width)]

    def learned(number: int) -> Fitted:
        own = problem.without(sets[number]) if len(sets[number]) else problem
        expansion = model_of(run, own, kernels[number], 1).expansion(ridge)
        weight = own.weight
        generator = np.random.default_rng([seed, last.number])
        values = gradient_metric(expansion, own.X, weight, kind=last.track.kind, generator=generator)
        return _measured(last.track.kernel.with_metric(values), own, seed)

    found = list(map_in_order(learned, range(len(sets)), min(len(sets), run.at_once)))
    last_one = found[-1] if whole else found[0]
    lineage = (*last.lineage, (width, ridge))
    return Round(last.track, last.number + 1, last_one, found[: len(parts)], lineage)


def _measured(kernel: Kernel, problem: Problem, seed: int) -> Fitted:
    n = problem.n
    rows = np.arange(n)
    if n > _PAIRS_OF:
        rows = np.sort(np.random.default_rng(seed).choice(n, _PAIRS_OF, replace=False))
    weight = None if problem.weight is None else problem.weight[rows]
    return Fitted(kernel, kernel.mean_exponent(take_rows(problem.X, rows), weight))
