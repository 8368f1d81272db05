r"""Sums over held-out rows, made where the rows are: a block leaves μ × terms numbers for every model.

The predictions of a block are compared with what lies beside its rows and forgotten at once, so that
nothing that grows with the number of rows travels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from onefold.linalg import Array, namespace, to_numpy
from onefold.rows import Block
from onefold.statistics import Design


@dataclass(frozen=True)
class Numbers:
    """An array that adds."""

    values: Any

    def __add__(self, other: Numbers) -> Numbers:
        return Numbers(self.values + other.values)

    def absorb(self, other: Numbers) -> Numbers:
        """``self + other``."""
        return self + other

    def on_host(self) -> Numbers:
        """The same as a NumPy array."""
        return Numbers(to_numpy(self.values))


@dataclass(frozen=True)
class HeldoutSums:
    """Block → sums (models, μ, terms) of the models that its group is held out of and tested by.

    Attributes
    ----------
    design : Design
    models : sequence of lists of (array (features, μ · targets), array (μ, targets))
        For each group, the coefficients and intercepts of its models.
    terms : function
        Of predictions (μ, rows, targets) and the columns beside the rows: (μ, terms).
    """

    design: Design
    models: Sequence[Any]
    terms: Callable[[Any, Any], Any]

    def __call__(self, block: Block) -> Numbers:
        models = self.models[block.group]
        if not models:
            return Numbers(0.0)
        xp, found = namespace(models[0][0]), []
        width = models[0][0].shape[1]
        together = xp.concat([coefficients for coefficients, _ in models], axis=1)
        values = self.design.times(block.X, together)
        for number, (_, intercept) in enumerate(models):
            own = xp.reshape(values[:, number * width : (number + 1) * width], (-1, *intercept.shape))
            predictions = xp.permute_dims(own, (1, 0, 2)) + intercept[:, None, :]
            found.append(self.terms(predictions, block.Y))
        return Numbers(xp.stack(found))

    def zero(self, targets: int, reference: Array) -> Numbers:
        """The sum over no rows."""
        return Numbers(0.0)

    def placed(self, place: Callable[[Any], Any]) -> HeldoutSums:
        """The same with its arrays moved."""
        moved = [[tuple(map(place, model)) for model in models] for models in self.models]
        return HeldoutSums(self.design.placed(place), moved, self.terms)
