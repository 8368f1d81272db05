"""Expansions f(x): all that prediction and saving need, and nothing of how they were fitted."""

from onefold.expansions.grid import GridExpansion
from onefold.expansions.kernel import Expansion
from onefold.expansions.outer_gradients import outer_gradients

__all__ = ["Expansion", "GridExpansion", "outer_gradients"]
