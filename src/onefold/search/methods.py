"""The methods of a search, by name: how a grid of kernels and ridges is gone through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from onefold.search.candidates import make_candidates
from onefold.search.conduct import Conduct
from onefold.search.halving import Halving
from onefold.search.outcome import Outcome
from onefold.search.run import run_search
from onefold.search.setup import Setup
from onefold.search.strategies import Grid


class Method(Protocol):
    """A way to search: a frozen dataclass of plain settings."""

    name: ClassVar[str]

    def check(self, setup: Setup) -> None:
        """Raise if it cannot search this."""

    def run(self, setup: Setup, conduct: Conduct) -> Outcome:
        """Search."""


@dataclass(frozen=True)
class FullGrid:
    """Every kernel with every ridge."""

    name: ClassVar[str] = "grid"

    def check(self, setup: Setup) -> None:
        """A grid can be searched always."""

    def run(self, setup: Setup, conduct: Conduct) -> Outcome:
        candidates = make_candidates(setup.run, setup.kernels, setup.names)
        grid = Grid(candidates, setup.alphas)
        return Outcome(run_search(grid, setup.scoring, conduct, select=setup.select), setup.scoring)


METHODS: dict[str, Callable[[], Method]] = {"grid": FullGrid, "halving": Halving}


def resolve_method(search: Any) -> Method:
    """The method behind a name or an object."""
    if isinstance(search, str) and search in METHODS:
        return METHODS[search]()
    if type(search) in METHODS.values():
        return search
    names = ", ".join(f'"{name}"' for name in METHODS)
    raise ValueError(
        f"search must be one of {names}, or an object of onefold.search; got {search!r:.60}."
    )
