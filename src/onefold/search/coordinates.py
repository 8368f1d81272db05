r"""The logarithms of a kernel's widths and of its ridge, about a cell of a grid.

A point is (log γ, log μ), or (log γ_1, …, log γ_d, log μ), or (log μ) for a kernel without a width. γ
counts as `gammas` do: it multiplies the widths of the kernel as it was given, or is relative to the mean
distance of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onefold.criteria.gradients import ScoreSlopes
from onefold.kernels import Kernel
from onefold.kernels.width import WidthKernel
from onefold.kernels.width_slopes import width_slopes
from onefold.search.candidates import Candidate


def has_one_per_feature(kernel: Kernel) -> bool:
    """Whether a kernel was given one width per feature: a metric that is diagonal."""
    return isinstance(kernel, WidthKernel) and not (kernel.metric is None or kernel.metric.is_matrix)


def takes_one_per_feature(kernel: Kernel) -> bool:
    """Whether every feature can have a width of its own."""
    return isinstance(kernel, WidthKernel) and (kernel.metric is None or not kernel.metric.is_matrix)


@dataclass(frozen=True)
class Coordinates:
    """The coordinates about a cell.

    Attributes
    ----------
    cell : Candidate
        A candidate of the grid.
    alpha : float
        Its ridge, in the user's units.
    per_feature : bool
        Whether every feature has a width of its own.
    """

    cell: Candidate
    alpha: float
    per_feature: bool

    @property
    def labels(self) -> list[str]:
        """What each coordinate is the logarithm of."""
        if not self.cell.kernel.has_width:
            return ["alpha"]
        if not self.per_feature:
            return ["gamma", "alpha"]
        return [f"gamma of feature {j}" for j in range(self._features)] + ["alpha"]

    @property
    def start(self) -> Any:
        """The point of the cell itself."""
        return np.log([*[self._width] * (len(self.labels) - 1), self.alpha])

    def ridge(self, point: Any) -> float:
        """The ridge at a point; that of the cell to the last digit where it has not moved."""
        return float(self.alpha * np.exp(point[-1] - np.log(self.alpha)))

    def candidate(self, point: Any) -> Candidate:
        """The candidate at a point, whatever its ridge."""
        cell, kernel = self.cell, self.cell.kernel
        if not kernel.has_width:
            return cell
        moved = point[:-1] - np.log(self._width)
        widths = np.exp(self._order * moved)
        params = cell.params | {"gamma": float(self._width * np.exp(moved.max()))}
        if not self.per_feature:
            return replace(cell, kernel=kernel.scaled(float(widths[0])), params=params)
        # The narrowest feature has the weight that the metric gave it, 1 where there was none.
        weights = (widths / widths.max()) ** self._one_per_feature.width_power
        metric = self._one_per_feature.metric
        kernel = kernel.scaled(float(widths.max()))
        kernel = kernel.with_metric(weights if metric is None else weights * metric.values)
        lineage = tuple(point[:-1].tolist())
        return replace(cell, kernel=kernel, params=params | {"metric": "diagonal"}, lineage=lineage)

    def slopes(self, candidate: Candidate, found: ScoreSlopes) -> Any:
        """The gradient of a score in the coordinates; O(n² d)."""
        if not candidate.kernel.has_width:
            return np.array([found.ridge])
        widths = width_slopes(candidate.kernel, candidate.run.problem.X, found.kernel)
        widths = self._order * (widths if self.per_feature else widths.sum(keepdims=True))
        return np.append(widths, found.ridge)

    @property
    def _one_per_feature(self) -> WidthKernel:
        kernel = self.cell.kernel
        if not isinstance(kernel, WidthKernel):
            raise TypeError(f"{kernel!r:.80} cannot have one width per feature")
        return kernel

    @property
    def _features(self) -> int:
        return int(self.cell.run.problem.X.shape[1])

    @property
    def _width(self) -> float:
        return 1.0 if self.cell.width is None else self.cell.width

    @property
    def _order(self) -> float:
        """The power of γ that the kernel's own width grows with: relative ones are of the exponent."""
        return self.cell.kernel.exponent_order if "kernel" in self.cell.params else 1.0
