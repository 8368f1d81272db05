"""Sums of the residuals of basis models over blocks of rows, made where the rows are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from onefold.basis.coefficients import Coefficients, predictions_of
from onefold.basis.statistics import Design
from onefold.linalg import Array, namespace, zeros
from onefold.rows import Block

Terms = Callable[[Any, Any], Any]
"""Predictions (μ, rows, targets) and what they are compared with → sums (μ, terms)."""


@dataclass(frozen=True)
class HeldoutSums:
    """Block → sums (models, μ, terms) over its rows: nothing that grows with their number travels."""

    design: Design
    models: Sequence[Sequence[Coefficients]]  # of each group, with θ as a matrix (features, μ · targets)
    terms: Terms

    def __call__(self, block: Block) -> Array | float:
        models = self.models[block.group]
        if not models:
            return 0.0
        xp = namespace(models[0].theta)
        width = models[0].theta.shape[1]
        values = self.design.times(block.X, xp.concat([theta for theta, _ in models], axis=1))
        sums = []
        for number, (_, intercept) in enumerate(models):
            model_values = values[:, number * width : (number + 1) * width]
            sums.append(self.terms(predictions_of(model_values, intercept), block.Y))
        return xp.stack(sums)

    def zero(self, targets: int, reference: Array) -> float:
        return 0.0

    def placed(self, place: Callable[[Any], Any]) -> HeldoutSums:
        moved = [
            [Coefficients(place(theta), place(intercept)) for theta, intercept in models]
            for models in self.models
        ]
        return HeldoutSums(self.design.placed(place), moved, self.terms)


@dataclass(frozen=True)
class ResidualSquares:
    """Block → Σ v (y − f)² of the block's rows, (μ, targets)."""

    design: Design
    theta: Array  # (features, μ · targets)
    intercept: Array  # (μ, targets)

    def __call__(self, block: Block) -> Array:
        fitted = predictions_of(self.design.times(block.X, self.theta), self.intercept)
        residual = block.Y[None, ...] - fitted
        if block.root is not None:
            residual = residual * block.root[None, :, None]
        return namespace(residual).sum(residual**2, axis=1)

    def zero(self, targets: int, reference: Array) -> Array:
        return zeros(self.intercept.shape, reference)

    def placed(self, place: Callable[[Any], Any]) -> ResidualSquares:
        return ResidualSquares(self.design.placed(place), place(self.theta), place(self.intercept))
