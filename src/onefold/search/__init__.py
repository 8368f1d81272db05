"""Search: candidates evaluated, a ledger of evaluations, strategies that propose, the rule for ties."""

from onefold.search.blend import BlendResult, blend_leaders
from onefold.search.candidates import Candidate, make_candidates
from onefold.search.choice import Leader
from onefold.search.entry import Entry
from onefold.search.learning import LearnedSearch, search_with_metric
from onefold.search.ledger import Ledger
from onefold.search.results import (
    GridEdgeWarning,
    best_cell,
    deviation,
    edges,
    tie_tolerance,
)
from onefold.search.run import Callback, SearchResult, Select, run_search
from onefold.search.strategies import Grid, Proposal, Strategy

__all__ = [
    "BlendResult",
    "Callback",
    "Candidate",
    "Entry",
    "Grid",
    "GridEdgeWarning",
    "Leader",
    "LearnedSearch",
    "Ledger",
    "Proposal",
    "SearchResult",
    "Select",
    "Strategy",
    "best_cell",
    "blend_leaders",
    "deviation",
    "edges",
    "make_candidates",
    "run_search",
    "search_with_metric",
    "tie_tolerance",
]
