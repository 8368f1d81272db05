r"""Kernel interpolation on a regular grid (SKI, KISS-GP), for one to four features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.approximations.base import Approximation
from onefold.approximations.footprint import GRID_MODEL, models_at_once
from onefold.approximations.grid.model import GridModel
from onefold.approximations.problem import Problem
from onefold.approximations.registry import register
from onefold.approximations.workload import Workload
from onefold.expansions.grid import LARGEST_DIMENSION, make_lattice
from onefold.kernels import Kernel
from onefold.linalg.arrays import is_sparse, to_numpy

__all__ = ["Grid", "GridModel"]


@register
@dataclass(frozen=True)
class Grid(Approximation):
    """Interpolate the kernel on a regular grid: any number of rows, one to four features.

    One pass over the rows per gamma; after it, cross-validation and every iteration depend on the
    size of the grid alone. Predictions are interpolated too.

    Parameters
    ----------
    points : int, tuple of int or None, default=None
        Grid points per feature (one number, or one per feature); None chooses them from the data's
        range and the kernel's width.
    tolerance : float, default=1e-6
        Of the solution: the relative residual at which an iteration stops; a hundred times that share
        of the smallest ridge may be dropped of the kernel where it has low rank.
    """

    points: Any = None
    tolerance: float = 1e-6

    name = "grid"
    learns_metrics = False
    fold_models = "refitted"

    def __post_init__(self) -> None:
        if self.points is not None:
            points = np.asarray(self.points)
            if points.dtype.kind not in "iu" or points.ndim > 1 or np.any(points < 5):
                raise ValueError(
                    f"points must be whole numbers of at least 5, one or one per feature; "
                    f"got {self.points!r}."
                )
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance must lie between 0 and 1; got {self.tolerance!r}.")

    def check(self, kernel: Kernel, problem: Problem, load: Workload) -> None:
        if is_sparse(problem.X):
            raise ValueError("a grid needs dense rows; convert X with X.toarray().")
        d = problem.X.shape[1]
        if not kernel.stationary:
            raise ValueError(
                "a grid needs a kernel of x − x' (rbf, matern, laplacian, their sums and products); "
                "use the Nystroem approximation for others."
            )
        if d > LARGEST_DIMENSION:
            raise ValueError(
                f"a grid serves up to {LARGEST_DIMENSION} features, and X has {d}: its points would "
                "grow without bound; use the Nystroem approximation, or choose features."
            )
        if np.ndim(self.points) == 1 and len(self.points) != d:
            raise ValueError(f"points holds {len(self.points)} numbers but X has {d} features.")

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> GridModel:
        X = to_numpy(problem.X)
        lattice = make_lattice(kernel, X.min(axis=0), X.max(axis=0), self.points)
        return GridModel(kernel, problem, lattice, self.tolerance)

    def at_once(self, n: int, d: int, targets: int, load: Workload) -> int:
        return models_at_once(GRID_MODEL)
