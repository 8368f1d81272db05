"""Pictures of a search (matplotlib, the optional extra ``onefold[plot]``)."""

from onefold.plots.heatmap import search_heatmap

__all__ = ["search_heatmap"]
