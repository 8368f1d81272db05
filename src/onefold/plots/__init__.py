"""Pictures (matplotlib, the optional extra ``onefold[plot]``, which is imported when one is drawn)."""

from onefold.plots.blend import BlendDisplay
from onefold.plots.display import Display
from onefold.plots.grid_display import GridDisplay
from onefold.plots.heatmap import search_heatmap
from onefold.plots.importances import ImportanceDisplay
from onefold.plots.ink import plain_text
from onefold.plots.overview import search_overview
from onefold.plots.predictions import PredictionDisplay
from onefold.plots.reliability import ReliabilityDisplay
from onefold.plots.rounds import RoundsDisplay
from onefold.plots.search_path import SearchPathDisplay
from onefold.plots.sparsity import SparsityDisplay
from onefold.plots.svg import as_svg
from onefold.plots.trust import TrustDisplay

__all__ = [
    "BlendDisplay",
    "Display",
    "GridDisplay",
    "ImportanceDisplay",
    "PredictionDisplay",
    "ReliabilityDisplay",
    "RoundsDisplay",
    "SearchPathDisplay",
    "SparsityDisplay",
    "TrustDisplay",
    "as_svg",
    "plain_text",
    "search_heatmap",
    "search_overview",
]
