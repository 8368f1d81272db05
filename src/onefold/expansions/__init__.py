"""Expansions f(x): all that prediction and saving need, and nothing of how they were fitted."""

from onefold.expansions.blend import Blend
from onefold.expansions.folds import FoldModels, mixed
from onefold.expansions.gradients import outer_gradients
from onefold.expansions.grid import GridExpansion
from onefold.expansions.kernel import Expansion, FittedFunction

__all__ = [
    "Blend",
    "Expansion",
    "FittedFunction",
    "FoldModels",
    "GridExpansion",
    "mixed",
    "outer_gradients",
]
