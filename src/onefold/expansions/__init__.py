"""Expansions f(x): all that prediction and saving need, and nothing of how they were fitted."""

from onefold.expansions.grid import GridExpansion
from onefold.expansions.kernel import Expansion, FittedFunction, outer_gradients
from onefold.expansions.line import LineExpansion
from onefold.expansions.sums import Blend, FoldModels, mixed
