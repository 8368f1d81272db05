"""Pictures of a search (matplotlib, the optional extra ``onefold[plot]``)."""

from onefold.plots.heatmap import plain_text, search_heatmap
from onefold.plots.overview import search_overview
from onefold.plots.pruning import pruning_path

__all__ = ["plain_text", "pruning_path", "search_heatmap", "search_overview"]
