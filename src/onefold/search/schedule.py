r"""The parts of a whole fit, what each of them costs, and how long all of it will still take.

A part is a stage of the search, or a step after it: the final fit, importances, intervals. Its cost e_k
is known before it runs, in any unit, and is an estimate; seconds are known of what has run. With a_j the
seconds of the parts that have ended, s those of the current part k, and w the mean seconds of its
evaluations times the number of those that have been proposed and are still to come:

    (1)  pace     p = Σ_j a_j / Σ_j e_j
    (2)  current  x = max(s + w, p e_k)
    (3)  pace     p' = (Σ_j a_j + x) / (Σ_j e_j + e_k)
    (4)  left     (x − s) + p' Σ_later e_l

So an estimate that is wrong by a factor, as on a busy machine, is right after the first part, and every
part that ends early brings the end nearer. A part without a cost counts with (2) only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# What the steps after a search are called in progress.
FINAL_FIT = "final fit"
IMPORTANCES = "importances of the columns"
INTERVALS = "intervals and probabilities"


@dataclass(eq=False)
class Schedule:
    """The parts of a fit in their order, with their costs; and when those that have begun began."""

    costs: Mapping[str, float] = field(default_factory=dict)
    _began: dict[str, float] = field(default_factory=dict, init=False)

    def begin(self, part: str, now: float) -> None:
        """A part begins, and the one before has ended."""
        self._began.setdefault(part, now)

    def seconds_left(self, evaluations: float, now: float) -> float:
        """Seconds until the end of the fit; `evaluations` are those of the current part's (w)."""
        *ended, current = self._began
        begun = [*self._began.values()]
        costs = [self.costs.get(part, 0.0) for part in self._began]
        places = [place for place, part in enumerate(self.costs) if part in self._began]
        later = list(self.costs.values())[max(places, default=-1) + 1 :]
        spent = sum(end - start for start, end, cost in zip(begun, begun[1:], costs) if cost)
        cost_of_ended = sum(costs[: len(ended)])
        pace = spent / cost_of_ended if cost_of_ended else 0.0  # (1)
        seconds = now - self._began[current]
        expected = max(seconds + evaluations, pace * costs[-1])  # (2)
        total_cost = cost_of_ended + costs[-1]
        if total_cost:
            pace = (spent + expected) / total_cost  # (3)
        return expected - seconds + pace * sum(later)  # (4)


def schedule_of(setup: Any) -> Schedule:
    """The parts of a fit: those of the strategy, if it says what they cost, then the steps after it."""
    costs = getattr(setup.strategy, "costs", None)
    return Schedule({} if costs is None else costs(setup))
