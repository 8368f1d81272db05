"""What a search, of whatever method, hands on to the final fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onefold.criteria import Scoring
from onefold.search.run import SearchResult


@dataclass(frozen=True)
class Outcome:
    """What a search found, and how.

    Attributes
    ----------
    found : SearchResult
    scoring : Scoring
        What its scores are counted on.
    history : list of dict
        The best cell of every family, kind of metric and round, where metrics were learned.
    order : int array (n,) or None
        The rows of the problem in the order in which they were searched; None for their own.
    record : dict
        What else the method tells of itself, in plain values.
    """

    found: SearchResult
    scoring: Scoring
    history: list[dict[str, Any]] = field(default_factory=list)
    order: Any = None
    record: dict[str, Any] = field(default_factory=dict)

    def in_order(self, heldout: Any) -> Any:
        """Held-out predictions of the search in the order of the problem's rows."""
        if self.order is None or heldout is None:
            return heldout
        found = np.empty_like(heldout)
        found[self.order] = heldout
        return found
