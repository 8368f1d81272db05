r"""Multilevel circulant kernel matrices: training and cross-validation in O(n log n).

The kernel matrix is replaced by U = circ_n[u], whose first row u holds the kernel at the nodes of a
regular grid of p axes [ding2011]_, [edwards2013]_. The features do not enter U; they enter through
the order of the rows, the spacings of the grid, and the predictions with the true kernel.

*The first row*, in O(p n):

    t_j = k((j_s h_s)_s, 0),    u_j = Σ_{l ∈ D_j} t_l,    D_j = Π_s {0} if j_s = 0 else {j_s, n_s − j_s}

[ding2011]_ equations 12 to 14. D_j is a product of *sets*: where 2 j_s = n_s the two elements coincide
and count once. One axis is folded at a time, so that nothing costs 2^p n.

*The level order* **n** = (n_0, …, n_{p−1}) for any number of rows. A factorisation of n whose levels are
of similar size is used as it is. Where n has none (a prime, say), the shape holds a few cells more than
there are rows. Those cells carry no data: the smoother treats them as rows left out of training, so that
nothing is invented for them.

*The order of the rows.* The matrix knows its rows by their position alone, so their order is a setting:

    given      as the rows came
    random     shuffled
    principal  sorted into n_0 slabs along the first principal direction, each slab into n_1 bars
               along the second, and so on: neighbours in position are neighbours in space

*Held-out rows* are predicted in one of two manners. With ``validate="matrix"`` [edwards2013]_ they
come from the matrix of all rows by the identity of the smoother. With ``validate="kernel"``
[ding2011]_ each training part gets a circulant matrix of its own, and the rows left out are
predicted from its dual coefficients with the true kernel, all μ and targets in one product.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from onefold.approximations.base import Approximation, Run, register
from onefold.approximations.footprint import FORMED, structured_bytes
from onefold.approximations.problem import Parts, Problem, TargetRidges, Workload
from onefold.approximations.structured import StructuredModel, Trained, Validate, check_choices
from onefold.expansions import Expansion
from onefold.kernels import Kernel
from onefold.linalg import Array, HostArray, Index, as_float64, asarray_like, is_sparse, take_rows
from onefold.machine.threads import map_threads, spans
from onefold.rows import to_host
from onefold.smoothers.base import Reordered, Smoother
from onefold.smoothers.circulant import CirculantSmoother, CirculantSpectrum, Negative

Order = Literal["given", "random", "principal"]
_CHOICES: dict[str, tuple[str, ...]] = {
    "order": ("given", "random", "principal"),
    "validate": ("kernel", "matrix"),
    "negative": ("raise", "clip", "solve"),
}
# Vectors of n numbers, counted in the code: a spectrum, its inverse, the transforms of a product.
_VECTORS = 8
# Layouts of training parts, of n numbers each, that all kernels share, at most; chosen, not measured.
_KEPT_LAYOUTS = 16
# Kernel values that are evaluated at a time, to stay in cache, 256 KiB; chosen, not measured.
_VALUES_AT_ONCE = 2**15
# Ratio of the largest level to the smallest, at most; chosen, not measured.
_MAX_LEVEL_RATIO = 4.0
# Features up to which principal directions come from the covariance matrix; chosen, not measured.
_FEW_FEATURES = 64
# Subspace iterations for the principal directions of more features; chosen, not measured.
_ITERATIONS = 8
# Pairs of neighbouring rows that a spacing is estimated from, at most; chosen, not measured.
_SAMPLED_PAIRS = 2000


@dataclass(frozen=True)
class Layout:
    """Where rows stand in the matrix."""

    rows: int
    shape: tuple[int, ...]  # the level order
    order: Index  # (n,): the row in each cell
    without: dict[bytes, Layout] = field(default_factory=dict)  # of the rows without some of them


def checked_spacing(spacing: Any, levels: int) -> Any:
    """One spacing for each level, or "data"; raise for anything else."""
    if isinstance(spacing, str):
        if spacing != "data":
            raise ValueError(f'spacing must be "data" or positive numbers; got {spacing!r}.')
        return spacing
    try:
        values = np.asarray(spacing, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.size not in (1, levels) or not np.all((values > 0) & np.isfinite(values)):
        raise ValueError(
            f"spacing must be one positive number, or one for each of the {levels} levels; got "
            f"{spacing!r}."
        )
    return tuple(float(h) for h in np.broadcast_to(values, levels))


@register
@dataclass(frozen=True)
class Circulant(Approximation):
    r"""Approximate the kernel matrix by a multilevel circulant matrix: O(n log n) time, O(n) memory.

    Parameters
    ----------
    levels : int, default=2
        Number p of levels.
    shape : tuple of int, optional
        The level order (n_0, …, n_{p−1}), with at least as many cells as there are rows; None
        chooses a balanced one. Cells beyond the rows contain no data.
    spacing : "data", float, tuple of float, or list of these, default="data"
        Spacings h of the grid, one per level or one for all. "data" means the root mean square
        distance between rows that are neighbours along each level. Each entry of a list is tried with
        every gamma and alpha by estimators that search; ties go to the largest gamma, then to the
        largest alpha, then to the entry that comes first.
    order : {"given", "random", "principal"}, default="principal"
        Order of the rows in the matrix: as given, shuffled, or sorted along principal directions so
        that neighbours in position are neighbours in space. In the given order, folds of consecutive
        rows are blocks of the matrix, which are fastest.
    validate : {"kernel", "matrix"}, default="kernel"
        "kernel" predicts held-out rows with the true kernel, from coefficients trained with the
        circulant matrix of the training rows, O(n²) kernel values in tiles [ding2011]_; "matrix"
        predicts them from the circulant matrix alone, in O(n log n), without the features
        [edwards2013]_.
    negative : {"raise", "clip", "solve"}, default="raise"
        What to do for an alpha at which the matrix plus alpha is not positive definite: "raise" an error
        (in a search, the candidate has no score), "clip" negative eigenvalues of the matrix to 0, or
        "solve" the system as it is, as both papers do. The solution is then a stationary point of the
        regularised squared error, in general not a minimum: the squared norm of some functions is
        negative (a Krein space). "evidence" and "cost" have no score there.
    seed : int, default=0
        Seed of the random order.

    Notes
    -----
    ``refit="auto"`` trains the final model with the true kernel if that takes at most a minute, and
    with the circulant matrix otherwise. With ``validate="kernel"``, training parts have their own
    shapes.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV
    >>> from onefold.approximations import Circulant
    >>> X, y = load_diabetes(return_X_y=True)
    >>> circulant = Circulant(negative="clip")
    >>> model = LSSVRCV(approximation=circulant, gammas=[0.1, 1], alphas=[0.1, 1]).fit(X, y)
    >>> model.approximation_["selected_with"]["shape"]
    [17, 26]
    """

    levels: int = 2
    shape: tuple[int, ...] | None = None
    spacing: Any = "data"
    order: Order = "principal"
    validate: Validate = "kernel"
    negative: Negative = "raise"
    seed: int = 0

    name = "circulant"
    smooths = True
    max_rows_for_matrix = FORMED  # only where there are more cells than rows
    supports_weights = False
    takes_precomputed = False
    takes = "a kernel of the distance with one width for all features (scale the features instead)"
    alternative = 'use approximation="nystroem"'
    learns_metrics = False
    searched = ("spacing",)
    fold_models = "refitted"
    max_rows_for_fold_models = 2000  # they predict by n² values of the true kernel

    def __post_init__(self) -> None:
        check_choices(self, _CHOICES)
        if self.shape is not None:
            shape = tuple(int(size) for size in self.shape)
            if not shape or min(shape) < 1:
                raise ValueError(f"shape must hold positive whole numbers; got {self.shape!r}.")
            object.__setattr__(self, "shape", shape)
            object.__setattr__(self, "levels", len(shape))
        if not isinstance(self.levels, numbers.Integral) or self.levels < 1:
            raise ValueError(f"levels must be a whole number of at least 1; got {self.levels!r}.")
        if isinstance(self.spacing, list):
            if not self.spacing:
                raise ValueError('spacing is an empty list; give at least one spacing, or "data".')
            object.__setattr__(self, "spacing", [checked_spacing(h, self.levels) for h in self.spacing])
        else:
            object.__setattr__(self, "spacing", checked_spacing(self.spacing, self.levels))

    def takes_kernel(self, kernel: Kernel) -> bool:
        return kernel.stationary and kernel.one_width

    def check(self, kernel: Kernel, problem: Problem, load: Workload) -> None:
        if self.shape is not None and math.prod(self.shape) < problem.n:
            raise ValueError(
                f"shape {self.shape} has {math.prod(self.shape)} cells, fewer than the {problem.n} "
                "rows; give a larger one, or shape=None."
            )
        if isinstance(self.spacing, list) and not load.folds:
            raise ValueError(
                "a list of spacings is for estimators that search, such as LSSVCCV; give one spacing, a "
                'number or a tuple of them, or "data".'
            )

    def start(self, problem: Problem, kernels: Sequence[Kernel], load: Workload) -> Run:
        """The settings with the shape that suits the folds, and with the spacings of the rows."""
        run = super().start(problem, kernels, load)
        settled = replace(self, shape=self._shape_for(problem.n, load))
        layout = settled.layout(problem)
        return replace(run, approximation=settled.settled(problem, layout), shared=layout)

    def choices(self) -> list[dict[str, Any]]:
        if not isinstance(self.spacing, list):
            return [{}]
        return [{"spacing": spacing} for spacing in self.spacing]

    def settled(self, problem: Problem, shared: Any) -> Circulant:
        """The settings with the spacings of the rows in place of "data"; a list stays as it is."""
        if self.spacing != "data":
            return self
        return replace(self, spacing=data_spacing(problem.X, shared.order, shared.shape))

    def formed_rows(self, n: int, load: Workload) -> int:
        """None where each cell has a row: symmetry then says what the matrix would be formed for."""
        shape = self._shape_for(n, load) or choose_shape(n, self.levels)
        return n if math.prod(shape) > n else 0

    def _shape_for(self, n: int, load: Workload) -> tuple[int, ...] | None:
        """The shape given, or that with folds as leading level if they are blocks of equal size."""
        parts = load.parts
        if self.shape is not None or self.validate != "matrix" or self.order != "given" or parts is None:
            return self.shape
        every_row_once = len(parts) < n and sum(len(part) for part in parts) == n
        if every_row_once and np.array_equal(np.concatenate(list(parts)), np.arange(n)):
            return fold_shape(n, self.levels, len(parts))
        return None

    def layout(self, problem: Problem, rows: Index | None = None) -> Layout:
        """The cells of all rows or of some, which have a shape of their own."""
        X = problem.X if rows is None else problem.rows(rows).X
        n = int(X.shape[0])
        shape = self.shape if self.shape is not None and rows is None else choose_shape(n, self.levels)
        return Layout(n, shape, row_order(self.order, X, shape, self.seed))

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> CirculantModel:
        layout = shared if shared is not None and shared.rows == problem.n else self.layout(problem)
        return CirculantModel(kernel, problem, self.settled(problem, layout), layout)

    def prefers_exact_refit(self, problem: Problem) -> bool:
        return True

    def peak_bytes(self, n: int, d: int, targets: int, load: Workload, n_parallel: int) -> int:
        kept = min(load.folds, _KEPT_LAYOUTS) if self.validate == "kernel" else 0
        return structured_bytes(_VECTORS + kept, n, targets, load, n_parallel)


class CirculantModel(StructuredModel):
    """U, diagonalised once for every μ."""

    def __init__(self, kernel: Kernel, problem: Problem, settings: Circulant, layout: Layout) -> None:
        self.problem = problem
        self.kernel = kernel
        self.validate = settings.validate
        self._settings = settings
        self._layout = layout
        self._spectra: dict[tuple[int, ...], CirculantSpectrum] = {}
        self._cells = self._smoother(layout)
        self.smoother: Smoother = self._cells
        if settings.order != "given":
            self.smoother = Reordered(self._cells, layout.order)
        spectrum = self._cells.spectrum
        negative = "none"
        if spectrum.negative:
            kept = f"kept; alpha must be above {-spectrum.smallest:.3g}"
            negative = {"raise": kept, "clip": "set to 0", "solve": "solved"}[settings.negative]
        self.report: dict[str, Any] = {
            "name": "circulant",
            "shape": list(layout.shape),
            "empty_cells": math.prod(layout.shape) - problem.n,
            "spacing": list(settings.spacing),
            "order": settings.order,
            "validate": settings.validate,
            "negative_eigenvalues": spectrum.negative,
            "smallest_eigenvalue": spectrum.smallest,
            "negative": negative,
            "solves": self._cells.solves,
        }

    def _spectrum(self, shape: tuple[int, ...]) -> CirculantSpectrum:
        """The eigenvalues of U; training parts of equal size share them."""
        if shape not in self._spectra:
            row = first_row(self.kernel, shape, self._settings.spacing, self.problem.Y)
            self._spectra[shape] = CirculantSpectrum.of(row, self._settings.negative)
        return self._spectra[shape]

    def _smoother(self, layout: Layout) -> CirculantSmoother:
        """The smoother of rows in the order of the layout's cells."""
        spectrum = self._spectrum(layout.shape)
        intercept = self.problem.fit_intercept
        return CirculantSmoother(spectrum, layout.rows, fit_intercept=intercept)

    def usable(self, parts: Parts | None, alphas: ArrayLike) -> Any:
        if self._settings.negative == "solve":  # all but the alphas that make a matrix singular
            return super().usable(parts, alphas)
        of_all_rows = self._cells.spectrum
        if self.validate == "matrix" or parts is None:
            return of_all_rows.positive_with(alphas)
        sizes = {self.problem.n - len(part) for part in parts}
        shapes = {choose_shape(size, self._settings.levels) for size in sizes}
        usable = [self._spectrum(shape).positive_with(alphas) for shape in shapes]
        ridges = self.ridges_of_all_rows(parts, alphas)
        return np.all([of_all_rows.positive_with(ridges), *usable], axis=0)

    def trained_without(self, part: Index, alphas: ArrayLike) -> Trained:
        """The model of all other rows, in the order of their own cells."""
        rows = np.setdiff1d(np.arange(self.problem.n), part)
        layouts = self._layout.without
        key = part.tobytes()
        layout = layouts.get(key) or self._settings.layout(self.problem, rows)
        if len(layouts) < _KEPT_LAYOUTS:
            layouts[key] = layout
        ordered = rows[layout.order]
        targets = take_rows(self.problem.Y, ordered)
        return Trained(ordered, *self._smoother(layout).coefficients(targets, alphas))

    def squared_radii(self, alphas: ArrayLike) -> HostArray | None:
        """Where every cell has a row, no row is different from any other: the centre is their mean."""
        return self._cells.squared_radii(alphas)

    def kernel_matrix(self) -> Array:
        """U between the rows, a principal submatrix where some cells have none."""
        place = np.argsort(self._layout.order)
        return self._cells.matrix(place)

    def expansion(self, alpha: ArrayLike) -> Expansion:
        """Coefficients trained with U, for the true kernel."""
        Y = self.problem.Y
        order = self._layout.order
        ridges = TargetRidges(alpha, Y.shape[1])
        dual, intercepts = self._cells.coefficients(take_rows(Y, order), ridges.distinct)
        coef = take_rows(ridges.pick(dual), np.argsort(order))
        return Expansion(self.kernel, self.problem.X, coef, ridges.pick(intercepts))

    def final_report(self, alpha: ArrayLike, expansion: Expansion) -> dict[str, Any]:
        if self.report["negative"] != "solved":
            return self.report
        counts = [self._cells.spectrum.count_nonpositive(float(mu)) for mu in np.unique(alpha)]
        return self.report | {"negative_with_alpha": max(counts)}


def first_row(
    kernel: Kernel, shape: tuple[int, ...], spacing: tuple[float, ...], reference: Array
) -> Array:
    """U's first row as an array of the given shape, in the library of `reference`."""
    axes = [np.arange(levels) * h for levels, h in zip(shape, spacing)]
    values = np.empty(shape)
    step = max(1, _VALUES_AT_ONCE // max(1, math.prod(shape[1:])))

    def fill(part: slice) -> None:
        values[part] = kernel.on_grid([axes[0][part], *axes[1:]])

    several = kernel.thread_safe and values.size > 2 * _VALUES_AT_ONCE
    for _ in map_threads(fill, spans(shape[0], step), None if several else 1):
        pass
    for axis, n in enumerate(shape):  # v_j + v_{n−j} in both places, for every pair of distinct j, n − j
        turned = np.moveaxis(values, axis, 0)
        low = turned[1 : (n + 1) // 2]
        high = turned[: n // 2 : -1]
        low += high
        high[...] = low
    return asarray_like(values, reference)


def choose_shape(n: int, levels: int) -> tuple[int, ...]:
    """The balanced shape of `levels` levels with the fewest cells, at least `n`."""
    shapes = (factorise(cells, levels) for cells in itertools.count(n))
    return next(shape for shape in shapes if shape[-1] <= _MAX_LEVEL_RATIO * shape[0])


def factorise(n: int, levels: int) -> tuple[int, ...]:
    """The most balanced factorisation of `n` into `levels` factors, in ascending order."""
    divisors = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]  # of all factors but the last

    def factorisations(product: int, count: int, smallest: int) -> Iterator[tuple[int, ...]]:
        if count == 1:
            yield (product,)
            return
        for d in divisors:
            if d >= smallest and product % d == 0 and d**count <= product:
                yield from ((d, *larger) for larger in factorisations(product // d, count - 1, d))

    return min(factorisations(n, levels, 1), key=lambda shape: shape[-1] / shape[0])


def fold_shape(n: int, levels: int, folds: int) -> tuple[int, ...] | None:
    """A shape whose leading level is the number of folds, or None if the folds differ in size."""
    if n % folds != 0 or (levels == 1 and folds != n):
        return None
    return (folds,) if levels == 1 else (folds, *factorise(n // folds, levels - 1))


def row_order(order: Order, X: Array, shape: tuple[int, ...], seed: int) -> Index:
    """The row in each cell, as row numbers."""
    rows = places = np.arange(X.shape[0])
    if order == "given":
        return places
    if order == "random":
        return np.random.default_rng(seed).permutation(X.shape[0])
    coordinates = principal_coordinates(X, len(shape))
    group = np.zeros_like(places)
    for level in range(len(shape)):
        rows = np.lexsort((coordinates[:, level], group))
        group[rows] = places // int(np.prod(shape[level + 1 :]))  # rows in a group of this level
    return rows


def principal_coordinates(X: Any, levels: int) -> HostArray:
    """Rows along the leading `levels` principal directions, (n, levels); zeros where X has fewer."""
    X = as_float64(to_host(X))
    n, features = X.shape
    kept = min(levels, features)
    mean = np.asarray(X.mean(axis=0)).reshape(-1)
    if not is_sparse(X):  # rows far from the origin: their squares would take the digits
        X = X - mean
        mean = np.zeros(features)
    if features <= _FEW_FEATURES:
        square = X.T @ X
        square = (square.toarray() if is_sparse(X) else square) - n * np.outer(mean, mean)
        basis = np.linalg.eigh(square)[1][:, ::-1][:, :kept]
    else:
        basis = np.random.default_rng(0).standard_normal((features, kept))
        for _ in range(_ITERATIONS):
            projected = X @ basis - mean @ basis
            basis, _ = np.linalg.qr(X.T @ projected - np.outer(mean, projected.sum(axis=0)))
        projected = X @ basis - mean @ basis
        basis = basis @ np.linalg.eigh(projected.T @ projected)[1][:, ::-1]
    # Each with its largest component positive, whatever the library made of its sign.
    basis = basis * np.where(basis[np.abs(basis).argmax(axis=0), np.arange(kept)] < 0, -1.0, 1.0)
    return np.pad(X @ basis - mean @ basis, ((0, 0), (0, levels - kept)))


def data_spacing(X: Array, order: Index, shape: tuple[int, ...]) -> tuple[float, ...]:
    """Root mean square distance between rows whose positions differ by one along each level."""
    spacing = []
    for level, size in enumerate(shape):
        step = math.prod(shape[level + 1 :])
        first = np.arange(X.shape[0] - step if size > 1 else 0)
        first = first[(first // step) % size < size - 1]  # the last of a level has no next one
        if first.size > _SAMPLED_PAIRS:
            first = np.random.default_rng(0).choice(first, _SAMPLED_PAIRS, replace=False)
        if not first.size:
            spacing.append(1.0)
            continue
        second = first + step
        difference = as_float64(to_host(take_rows(X, order[first])))
        difference = difference - as_float64(to_host(take_rows(X, order[second])))
        squares = difference.multiply(difference) if is_sparse(X) else difference**2
        spacing.append(float(np.sqrt(squares.sum() / first.size)))
    return tuple(h if h > 0 else 1.0 for h in spacing)  # duplicated rows only: any spacing will do
