"""The settings of a multilevel circulant approximation."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from onefold.approximations.base import Approximation, fits_unasked, register
from onefold.approximations.circulant.diagnosis import relative_error
from onefold.approximations.circulant.model import CirculantModel, Layout
from onefold.approximations.circulant.order import ORDERS, Order, data_spacing, row_order
from onefold.approximations.circulant.shape import choose_shape, fold_shape
from onefold.approximations.footprint import circulant_bytes
from onefold.approximations.problem import Problem
from onefold.approximations.run import Workload
from onefold.kernels import Kernel
from onefold.smoothers.circulant import Negative

_FOLD_ROWS = 2000  # that fold models are of: they predict by n² values of the true kernel
_CHOICES: dict[str, tuple[str, ...]] = {
    "order": ORDERS,
    "validate": ("kernel", "matrix"),
    "negative": ("raise", "clip"),
}


@register
@dataclass(frozen=True)
class Circulant(Approximation):
    r"""The kernel matrix as a multilevel circulant one: O(n log n) time, O(n) memory.

    Parameters
    ----------
    levels : int, default=2
        Number p of levels.
    shape : tuple of int, optional
        The level order (n_0, …, n_{p−1}), with at least as many cells as there are rows; None
        chooses a balanced one. Cells beyond the rows carry no data.
    spacing : "data", float or tuple of float, default="data"
        Spacings h of the grid, one per level or one for all. "data" takes the root mean square
        distance between rows that are neighbours along each level.
    order : {"given", "random", "principal"}, default="principal"
        Which row stands where: as they came, shuffled, or sorted along principal directions so
        that neighbours in position are neighbours in space. Folds of consecutive rows are blocks
        of the matrix, and cheapest, in the given order.
    validate : {"kernel", "matrix"}, default="kernel"
        Held-out rows predicted with the true kernel from coefficients trained with the circulant
        matrix of the training rows, O(n²) kernel values in tiles [ding2011]_; or from the
        circulant matrix alone in O(n log n) [edwards2013]_, where the features do not enter.
    negative : {"raise", "clip"}, default="raise"
        What to do with an alpha at which the matrix is not positive definite: refuse (in a search,
        give that candidate no score), or set negative eigenvalues to 0.
    seed : int, default=0
        Of the random order.

    Notes
    -----
    ``refit="auto"`` trains the final model exactly up to 20 000 rows, beyond that with the circulant
    matrix. Training parts, for ``validate="kernel"``, have shapes of their own.
    """

    levels: int = 2
    shape: tuple[int, ...] | None = None
    spacing: Any = "data"
    order: Order = "principal"
    validate: Literal["kernel", "matrix"] = "kernel"
    negative: Negative = "raise"
    seed: int = 0

    name = "circulant"
    smooths = True
    supports_weights = False
    learns_metrics = False
    fold_models = "refitted"

    def __post_init__(self) -> None:
        for setting, allowed in _CHOICES.items():
            if getattr(self, setting) not in allowed:
                names = " or ".join(repr(choice) for choice in allowed)
                raise ValueError(f"{setting} must be {names}; got {getattr(self, setting)!r}.")
        if self.shape is not None:
            shape = tuple(int(size) for size in self.shape)
            if not shape or min(shape) < 1:
                raise ValueError(f"shape must hold positive whole numbers; got {self.shape!r}.")
            object.__setattr__(self, "shape", shape)
            object.__setattr__(self, "levels", len(shape))
        if not isinstance(self.levels, numbers.Integral) or self.levels < 1:
            raise ValueError(f"levels must be a whole number of at least 1; got {self.levels!r}.")
        if not isinstance(self.spacing, str):
            object.__setattr__(self, "spacing", _check_spacing(self.spacing, self.levels))
        elif self.spacing != "data":
            raise ValueError(f'spacing must be "data" or positive numbers; got {self.spacing!r}.')

    def check(self, kernel: Kernel, problem: Problem, load: Workload) -> None:
        super().check(kernel, problem, load)
        if not kernel.stationary or not kernel.one_width:
            raise ValueError(
                f"a circulant matrix needs a kernel of the distance alone with one width for all "
                f"features, which {kernel!r:.80} is not; use RBF, Matern or Laplacian with one gamma "
                "(scale the features instead), or another approximation."
            )
        if self.shape is not None and math.prod(self.shape) < problem.n:
            raise ValueError(
                f"shape {self.shape} has {math.prod(self.shape)} cells, fewer than the {problem.n} "
                "rows; give a larger one, or shape=None."
            )

    def settled(self, problem: Problem, load: Workload) -> Circulant:
        """With the shape that suits the folds, and the spacings of the rows."""
        settled = self
        if self.shape is None and self.validate == "matrix" and load.parts is not None:
            settled = replace(self, shape=self._shape_for(load.parts, problem.n))
        if not isinstance(self.spacing, str):
            return settled
        return replace(settled, spacing=settled.layout(problem).spacing)

    def _shape_for(self, parts: Sequence[Any], n: int) -> tuple[int, ...] | None:
        """A shape with the folds as its leading level, where they are blocks of equal size."""
        if self.order != "given" or len(parts) == n or sum(len(part) for part in parts) != n:
            return None
        in_turn = np.array_equal(np.concatenate(list(parts)), np.arange(n))
        return fold_shape(n, self.levels, len(parts)) if in_turn else None

    def layout(self, problem: Problem, rows: Any | None = None) -> Layout:
        """The cells of the problem's rows, or of some of them.

        A part of the rows has a shape of its own; the spacings are those of all rows.
        """
        X = problem.X if rows is None else problem.rows(rows).X
        n = int(X.shape[0])
        shape = self.shape if self.shape is not None and rows is None else choose_shape(n, self.levels)
        order = row_order(self.order, X, shape, self.seed)
        spacing = data_spacing(X, order, shape) if isinstance(self.spacing, str) else self.spacing
        return Layout(shape, order, spacing)

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> CirculantModel:
        layout = self.layout(problem)
        return CirculantModel(kernel, problem, replace(self, spacing=layout.spacing), layout)

    def diagnose(self, kernel: Kernel, problem: Problem) -> dict[str, Any]:
        """An estimate of ‖K − U‖ / ‖K‖ (Frobenius) from sampled entries."""
        return {"relative_error": relative_error(kernel, problem, self.layout(problem))}

    def has_folds(self, n: int) -> bool:
        return n <= _FOLD_ROWS

    def prefers_exact_refit(self, problem: Problem) -> bool:
        return fits_unasked(problem.n)

    def peak_bytes(self, n: int, d: int, targets: int, load: Workload, at_once: int) -> int:
        return circulant_bytes(n, targets, load, at_once)


def _check_spacing(spacing: Any, levels: int) -> tuple[float, ...]:
    values = np.asarray(spacing, dtype=np.float64).reshape(-1)
    if values.size not in (1, levels) or not np.all(np.isfinite(values)) or np.any(values <= 0):
        raise ValueError(
            f"spacing must be one positive number, or one for each of the {levels} levels; "
            f"got {spacing!r}."
        )
    return tuple(float(h) for h in np.broadcast_to(values, levels))
