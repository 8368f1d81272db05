"""A strategy that tries given cells, then the neighbours of the best one until it has none left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onefold.search.candidates import Candidate
from onefold.search.ledger import Ledger
from onefold.search.strategies import Proposal


class Climb:
    """Given cells, then those around the best one, until it is a local optimum of the whole grid.

    That is: the widths next to the best one have been tried, and every width that was tried with more
    than one ridge, the best one among them, with the ridges around the best ridge of each. So have the
    widths next to the best one, where that is not the first of the given cells: it moved, so may they.

    Parameters
    ----------
    candidates : sequence of Candidate
        Of the whole grid.
    alphas : array
    cells : dict of int to int array
        The numbers of the first candidates and the ridges of each, in the order in which they are tried,
        the one that is thought best first.
    beside : sequence of lists of int
        For each candidate, the numbers of those of the next widths.
    windows : sequence of int arrays
        For each ridge, the numbers of those around it, itself among them.
    """

    finishes = False

    def __init__(
        self,
        candidates: Sequence[Candidate],
        alphas: Any,
        cells: Mapping[int, Any],
        beside: Sequence[list[int]],
        windows: Sequence[Any],
    ) -> None:
        self.candidates, self.alphas = candidates, np.asarray(alphas, dtype=np.float64)
        self._cells, self._beside, self._windows = cells, beside, windows

    def propose(self, ledger: Ledger) -> list[Proposal]:
        if not ledger.entries:
            return [Proposal(number, ridges) for number, ridges in self._cells.items()]
        if not ledger.has_score:
            return []
        best, ridge = ledger.best()
        tried = [len(self.alphas) - ledger.untried(number).size for number in range(len(self._beside))]
        followed = [number for number, count in enumerate(tried) if count > 1]
        moved = best != next(iter(self._cells))
        new = [number for number in self._beside[best] if moved or not tried[number]]
        found = []
        for number in dict.fromkeys((best, *new, *followed)):
            top = ledger.best([number])[1] if ledger.scored(number) else ridge
            found.append(Proposal(number, np.intersect1d(ledger.untried(number), self._windows[top])))
        return [proposal for proposal in found if proposal.ridges.size]


def next_widths(names: Sequence[dict[str, Any]]) -> list[list[int]]:
    """For each candidate the numbers of those of the next smaller and the next larger width.

    Only candidates that differ in nothing else are neighbours.
    """
    found = []
    for one in names:
        family = {name: value for name, value in one.items() if name != "gamma"}
        rest = [
            (number, float(other["gamma"]))
            for number, other in enumerate(names)
            if "gamma" in one and family == {name: v for name, v in other.items() if name != "gamma"}
        ]
        own = float(one.get("gamma", 0.0))
        below = max((width for _, width in rest if width < own), default=None)
        above = min((width for _, width in rest if width > own), default=None)
        found.append([number for number, width in rest if width in (below, above)])
    return found
