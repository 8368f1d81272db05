"""Pictures of a search (matplotlib, the optional extra ``onefold[plot]``)."""

from onefold.plots.heatmap import search_heatmap
from onefold.plots.pruning import pruning_path

__all__ = ["pruning_path", "search_heatmap"]
