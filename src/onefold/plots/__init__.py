"""Plots by matplotlib, the optional extra ``onefold[plot]``, which is imported when one is drawn."""

from onefold.plots.display import Display
from onefold.plots.heldout import PredictionDisplay, ReliabilityDisplay
from onefold.plots.search import ChoiceDisplay, GridDisplay, ImportanceDisplay, RoundsDisplay

__all__ = [
    "ChoiceDisplay",
    "Display",
    "GridDisplay",
    "ImportanceDisplay",
    "PredictionDisplay",
    "ReliabilityDisplay",
    "RoundsDisplay",
]
