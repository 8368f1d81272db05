"""Strategies: they propose candidates and read the ledger, and know nothing of how either is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from onefold.search.candidates import Candidate
from onefold.search.ledger import Ledger


class Proposal(NamedTuple):
    """A candidate, by its number, to be evaluated with some of the ridges."""

    candidate: int
    ridges: Any


class Strategy(Protocol):
    """What to evaluate next.

    Attributes
    ----------
    candidates : sequence of Candidate
        Every one proposed so far; may grow, and keeps its order.
    alphas : array
        The ridges, in the user's units.
    """

    candidates: Sequence[Candidate]
    alphas: Any
    finishes: bool
    """Whether each candidate has one ridge, and its expansion is wanted at once: a blend needs many."""

    def propose(self, ledger: Ledger) -> list[Proposal]:
        """The next round, in view of what is known; none ends the search."""


class Cells:
    """Given ridges for every candidate, once; the expansions of all of them will be wanted."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        alphas: Any,
        ridges: Sequence[Any],
        *,
        finishes: bool = True,
    ) -> None:
        self.candidates, self.alphas = candidates, np.asarray(alphas, dtype=np.float64)
        self._ridges, self.finishes = ridges, finishes

    def propose(self, ledger: Ledger) -> list[Proposal]:
        wanted = enumerate(self._ridges)
        found = [Proposal(c, np.intersect1d(ledger.untried(c), ridges)) for c, ridges in wanted]
        return [proposal for proposal in found if proposal.ridges.size]


class Grid:
    """Every candidate with every ridge, once; what the ledger has already is not done again."""

    finishes = False

    def __init__(self, candidates: Sequence[Candidate], alphas: Any) -> None:
        self.candidates, self.alphas = candidates, np.asarray(alphas, dtype=np.float64)

    def propose(self, ledger: Ledger) -> list[Proposal]:
        found = [Proposal(c, ledger.untried(c)) for c in range(len(self.candidates))]
        return [proposal for proposal in found if proposal.ridges.size]
