"""Search: widths outside, ridges inside, a history, and the rule for ties."""

from onefold.search.grid import Callback, Candidate, SearchResult, search_grid
from onefold.search.results import best_cell, cv_results

__all__ = ["Callback", "Candidate", "SearchResult", "best_cell", "cv_results", "search_grid"]
