"""Statistics: what a pass over row blocks leaves of a basis model, group by group; they add."""

from onefold.statistics.base import Statistics
from onefold.statistics.collect import block_statistics, collect, predict_groups
from onefold.statistics.design import Design
from onefold.statistics.folds import FoldModels
from onefold.statistics.ridge import RidgePath
from onefold.statistics.whitening import Whitening

__all__ = [
    "Design",
    "FoldModels",
    "RidgePath",
    "Statistics",
    "Whitening",
    "block_statistics",
    "collect",
    "predict_groups",
]
