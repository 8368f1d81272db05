"""Strategies: they propose candidates and read the ledger; the loop evaluates.

A strategy is a frozen dataclass of plain settings with a name. ``run(search)`` opens one stage or more
(:class:`onefold.search.loop.Stage`), proposes cells there until it has seen enough, and returns what the
last stage found. It never evaluates anything itself. `register_strategy` makes one known by its name,
for the parameter ``search`` of the estimators and of the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from onefold.search.ledger import Ledger
from onefold.search.loop import Found, Proposal, Search
from onefold.search.setup import Setup


class Strategy(Protocol):
    """A way to search: a frozen dataclass of plain settings."""

    name: ClassVar[str]

    def check(self, setup: Setup) -> None:
        """Raise if it cannot search this."""

    def run(self, search: Search) -> Found:
        """Search."""


_Class = TypeVar("_Class", bound=type[Any])
_STRATEGIES: dict[str, type[Any]] = {}


def register_strategy(strategy: _Class) -> _Class:
    """Make a class of strategies known by its name."""
    _STRATEGIES[strategy.name] = strategy
    return strategy


def registered_strategies() -> dict[str, type[Any]]:
    """The classes of strategies by name."""
    return dict(_STRATEGIES)


def resolve_strategy(search: Any) -> Strategy:
    """The strategy behind a name or an object."""
    if isinstance(search, str) and search in _STRATEGIES:
        return _STRATEGIES[search]()
    if type(search) in _STRATEGIES.values():
        return search
    names = ", ".join(f'"{name}"' for name in _STRATEGIES)
    raise ValueError(
        f"search must be one of {names}, or an object of a registered strategy; got {search!r:.60}."
    )


@register_strategy
@dataclass(frozen=True)
class FullGrid:
    """Every kernel with every ridge."""

    name: ClassVar[str] = "grid"

    def check(self, setup: Setup) -> None:
        """A grid can be searched always."""

    def run(self, search: Search) -> Found:
        """Search."""
        stage = search.stage("grid", search.setup.grid())
        every = [np.arange(stage.ledger.alphas.size)] * len(stage.candidates)
        return stage.run(Cells(every)).found(search.setup.select)


@dataclass(frozen=True)
class Cells:
    """Given ridges for every candidate, once; what the ledger has is not done again."""

    ridges: Sequence[Any]

    def __call__(self, ledger: Ledger) -> list[Proposal]:
        wanted = enumerate(self.ridges)
        found = [Proposal(c, np.intersect1d(ledger.untried(c), ridges)) for c, ridges in wanted]
        return [proposal for proposal in found if proposal.ridges.size]


def next_ridges(alphas: Any, ridge: int) -> Any:
    """Numbers of a ridge and of those next to it in size."""
    order = np.argsort(alphas, kind="stable")
    place = int(np.flatnonzero(order == ridge)[0])
    return np.sort(order[max(0, place - 1) : place + 2])
