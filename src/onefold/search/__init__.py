"""Search: widths outside, ridges inside, a history, and the rule for ties."""

from onefold.search.grid import Callback, Candidate, SearchResult, search_grid
from onefold.search.results import (
    GridEdgeWarning,
    best_cell,
    cv_results,
    deviation,
    edges,
    tie_tolerance,
)

__all__ = [
    "Callback",
    "Candidate",
    "GridEdgeWarning",
    "SearchResult",
    "best_cell",
    "cv_results",
    "deviation",
    "edges",
    "search_grid",
    "tie_tolerance",
]
