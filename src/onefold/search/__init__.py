"""Search: candidates evaluated, a ledger of evaluations, strategies that propose, the rule for ties."""

from onefold.search.candidates import Candidate, make_candidates
from onefold.search.ledger import Entry, Ledger
from onefold.search.results import (
    GridEdgeWarning,
    best_cell,
    deviation,
    edges,
    tie_tolerance,
)
from onefold.search.run import Callback, SearchResult, run_search
from onefold.search.strategies import Grid, Proposal, Strategy

__all__ = [
    "Callback",
    "Candidate",
    "Entry",
    "Grid",
    "GridEdgeWarning",
    "Ledger",
    "Proposal",
    "SearchResult",
    "Strategy",
    "best_cell",
    "deviation",
    "edges",
    "make_candidates",
    "run_search",
    "tie_tolerance",
]
