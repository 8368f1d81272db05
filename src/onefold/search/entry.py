"""One evaluation of a search, as the ledger keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Entry:
    """One evaluation.

    Attributes
    ----------
    candidate : int
        Number of the candidate.
    ridges : int array
        Numbers of the ridges that were tried, among the ledger's.
    scores : array (ridges, splits)
        NaN where there is none.
    seconds : float
    why : str or None
        Why those without a score have none.
    report : dict
        What the approximation said of the candidate.
    ranks : array (ridges,) or None
        What the ridges are compared by, where not by their mean scores; greater is better.
    others : dict from str to array (ridges, splits)
        Scores of the criteria that are recorded only.
    """

    candidate: int
    ridges: Any
    scores: Any
    seconds: float
    why: str | None
    report: dict[str, Any]
    ranks: Any = None
    others: dict[str, Any] = field(default_factory=dict)

    @property
    def means(self) -> Any:
        """Mean score of each ridge."""
        return self.scores.mean(axis=1)

    @property
    def unsolved(self) -> int:
        """How many ridges have no score."""
        return int(np.count_nonzero(np.isnan(self.means)))
