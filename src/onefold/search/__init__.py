"""Search: a strategy proposes, one loop evaluates, a ledger remembers, a rule for ties chooses."""

from onefold.search.halving import Halving
from onefold.search.ledger import GridEdgeWarning
from onefold.search.loop import Proposal, SearchStoppedWarning, StopSearch
from onefold.search.strategies import FullGrid, register_strategy

__all__ = [
    "FullGrid",
    "GridEdgeWarning",
    "Halving",
    "Proposal",
    "SearchStoppedWarning",
    "StopSearch",
    "register_strategy",
]
