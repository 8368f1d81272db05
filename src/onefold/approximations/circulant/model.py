r"""A problem solved with a multilevel circulant matrix for every μ.

Held-out rows are predicted in one of two manners. With ``validate="matrix"`` [edwards2013]_ they
come from the matrix of all rows by the identity of the smoother. With ``validate="kernel"``
[ding2011]_ each training part gets a circulant matrix of its own, and the rows left out are
predicted from its dual coefficients with the true kernel, all μ and targets in one product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold.approximations.base import SmoothingModel
from onefold.approximations.circulant.row import first_row
from onefold.approximations.circulant.shape import choose_shape
from onefold.approximations.problem import Problem, target_ridges
from onefold.expansions import Expansion
from onefold.kernels import Kernel
from onefold.kernels.tiles import kernel_product
from onefold.linalg import Array, namespace, take_rows
from onefold.smoothers.base import Reordered, Smoother
from onefold.smoothers.circulant import CirculantSmoother, CirculantSpectrum

if TYPE_CHECKING:
    from onefold.approximations.circulant.settings import Circulant


@dataclass(frozen=True)
class Layout:
    """Where rows stand in the matrix.

    Attributes
    ----------
    shape : tuple of int
        The level order.
    order : int array (n,) or None
        The row in each cell; None where row i is in cell i.
    spacing : tuple of float
        Of the cells along each level.
    """

    shape: tuple[int, ...]
    order: Any
    spacing: tuple[float, ...]


class CirculantModel(SmoothingModel):
    """U, diagonalised once for every μ."""

    def __init__(self, kernel: Kernel, problem: Problem, settings: Circulant, layout: Layout) -> None:
        self.problem, self._kernel, self._settings = problem, kernel, settings
        self._spectra: dict[tuple[int, ...], CirculantSpectrum] = {}
        self._cells, self._order = self._smoother(problem, layout), layout.order
        self.smoother: Smoother = self._cells
        if layout.order is not None:
            self.smoother = Reordered(self._cells, layout.order)
        spectrum = self._cells.spectrum
        self.report: dict[str, Any] = {
            "name": "circulant",
            "shape": list(layout.shape),
            "empty_cells": math.prod(layout.shape) - problem.n,
            "spacing": list(layout.spacing),
            "order": settings.order,
            "validate": settings.validate,
            "negative_eigenvalues": spectrum.negative,
            "smallest_eigenvalue": spectrum.smallest,
            "negative": _what_was_done(spectrum),
            "solves": self._cells.solves,
        }

    def _spectrum(self, shape: tuple[int, ...]) -> CirculantSpectrum:
        """The eigenvalues of U; training parts of equal size share them."""
        if shape not in self._spectra:
            settings, reference = self._settings, self.problem.Y
            row = first_row(self._kernel, shape, settings.spacing, reference)
            self._spectra[shape] = CirculantSpectrum.of(row, settings.negative)
        return self._spectra[shape]

    def _smoother(self, problem: Problem, layout: Layout) -> CirculantSmoother:
        """The smoother of rows in the order of the layout's cells."""
        spectrum = self._spectrum(layout.shape)
        return CirculantSmoother(spectrum, problem.n, fit_intercept=problem.fit_intercept)

    def usable(self, parts: Sequence[Any] | None, alphas: Any) -> Any:
        spectra = [self._cells.spectrum]
        if self._settings.validate == "kernel" and parts is not None:
            sizes = {self.problem.n - len(part) for part in parts}
            shapes = {choose_shape(size, self._settings.levels) for size in sizes}
            spectra += [self._spectrum(shape) for shape in shapes]
        return np.all([spectrum.positive_with(alphas) for spectrum in spectra], axis=0)

    def leave_one_out(self, alphas: Any) -> Array:
        if self._settings.validate == "matrix":
            return self.smoother.leave_one_out(self.problem.Y, alphas)
        rows = [np.array([i]) for i in range(self.problem.n)]
        return namespace(self.problem.Y).concat(self.heldout(rows, alphas), axis=1)

    def left_out(self, some: Any, alpha: float) -> tuple[Any, Array]:
        if self._settings.validate == "matrix":
            return super().left_out(some, alpha)
        parts = [np.array([row]) for row in some]
        if not self.usable(parts, [alpha]).all():  # the matrix of one row less may not be positive
            return some, take_rows(self.problem.Y, some) * float("nan")
        return some, namespace(self.problem.Y).concat(self.heldout(parts, [alpha]), axis=1)[0, ...]

    def heldout(self, parts: Sequence[Any], alphas: Any) -> list[Array]:
        if self._settings.validate == "matrix":
            return self.smoother.heldout(self.problem.Y, parts, alphas)
        return [self._predict_part(part, alphas) for part in parts]

    def _train(self, rows: Any) -> tuple[CirculantSmoother, Problem]:
        """Some of the rows in the order of their cells, and the smoother of those."""
        layout = self._settings.layout(self.problem, rows)
        problem = self.problem.rows(rows if layout.order is None else rows[layout.order])
        return self._smoother(problem, layout), problem

    def _predict_part(self, part: Any, alphas: Any) -> Array:
        smoother, training = self._train(np.setdiff1d(np.arange(self.problem.n), part))
        xp, targets = namespace(training.Y), int(training.Y.shape[1])
        dual, intercepts = smoother.coefficients(training.Y, alphas)
        columns = xp.reshape(xp.permute_dims(dual, (1, 0, 2)), (training.n, -1))
        X = take_rows(self.problem.X, part)
        values = kernel_product(self._kernel, X, training.X, columns)
        predictions = xp.reshape(values, (len(part), dual.shape[0], targets))
        return xp.permute_dims(predictions, (1, 0, 2)) + intercepts[:, None, :]

    def expansion(self, alpha: Any) -> Expansion:
        """Coefficients trained with U, for the true kernel."""
        Y = self.problem.Y
        ridges = target_ridges(alpha, Y.shape[1])
        ordered = Y if self._order is None else take_rows(Y, self._order)
        dual, intercepts = self._cells.coefficients(ordered, ridges.distinct)
        coef = ridges.own(dual)
        if self._order is not None:
            coef = take_rows(coef, np.argsort(self._order))
        return Expansion(self._kernel, self.problem.X, coef, ridges.own(intercepts))


def _what_was_done(spectrum: CirculantSpectrum) -> str:
    if not spectrum.negative:
        return "none"
    if spectrum.clipped:
        return "set to 0"
    return f"kept; alpha must be above {-spectrum.smallest:.3g}"
