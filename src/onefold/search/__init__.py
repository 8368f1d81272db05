"""Search: candidates evaluated, a ledger of evaluations, strategies that propose, the rule for ties."""

from onefold.search.blend import BlendResult, blend_leaders
from onefold.search.candidates import Candidate, make_candidates
from onefold.search.choice import Leader
from onefold.search.conduct import Callback, Conduct, SearchStoppedWarning, StopSearch
from onefold.search.entry import Entry
from onefold.search.fingerprint import fingerprint
from onefold.search.halving import Halving
from onefold.search.keeping import Keeping, kept_in
from onefold.search.learning import search_with_metric
from onefold.search.ledger import Ledger
from onefold.search.methods import FullGrid, Method, resolve_method
from onefold.search.outcome import Outcome
from onefold.search.results import (
    GridEdgeWarning,
    best_cell,
    deviation,
    edges,
    tie_tolerance,
)
from onefold.search.run import SearchResult, Select, run_search
from onefold.search.strategies import Grid, Proposal, Strategy

__all__ = [
    "BlendResult",
    "Callback",
    "Candidate",
    "Conduct",
    "Entry",
    "FullGrid",
    "Grid",
    "GridEdgeWarning",
    "Halving",
    "Keeping",
    "Leader",
    "Ledger",
    "Method",
    "Outcome",
    "Proposal",
    "SearchResult",
    "SearchStoppedWarning",
    "Select",
    "StopSearch",
    "Strategy",
    "best_cell",
    "blend_leaders",
    "deviation",
    "edges",
    "fingerprint",
    "kept_in",
    "make_candidates",
    "resolve_method",
    "run_search",
    "search_with_metric",
    "tie_tolerance",
]
