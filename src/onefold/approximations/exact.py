r"""The exact method: the kernel matrix itself, dense, n × n, no approximation.

With S the diagonal of √weights and s = S1, what is factorised is S K S. An intercept is its border s,
which is folded in first: with H = I − ssᵀ/sᵀs the two matrices

    S K S    and    H S K S H + c · ssᵀ/sᵀs                                                       (1)

have the same residual operator R_b for every c. The second has no large eigenvalue along s to lose
digits to; c is the mean of the eigenvalues of H S K S H. Written out, with k̄ = S K S s / sᵀs and
κ = k̄ᵀs,

    H S K S H + c · ssᵀ/sᵀs = S K S − s uᵀ − u sᵀ,    u = k̄ − s (κ + c) / (2 sᵀs)                  (2)

The model of all rows is

    a = R_b S y / μ,    α = S a,    b = sᵀS y / sᵀs − k̄ᵀa                                          (3)

and so is the model without the rows J, whose α is 0 there, for targets ŷ with its predictions f_J in
place of y_J. These are, with T all rows outside J,

    f_J = K_JT α_T + b                                                                            (4)

f_J comes from the blocks of R_b alone (:mod:`onefold.smoothers.dense`), or by (4) from the coefficients,
which is as accurate as a refit and is done while it takes less work than the factorisation. Two things
are fitted again without their rows, since rounding would decide the closed form: a μ below the rounding
of K, and a part that carries nearly all the weight.

It takes O(n³) time, and one array of n × n for a single fit, two where Cholesky serves, five for an
eigendecomposition (two to three above a few thousand rows). On a device a fit or a search at one ridge
has one, in which K, its factor and the inverse of that follow each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold import linalg
from onefold.approximations.base import Approximation, register
from onefold.approximations.footprint import exact_bytes
from onefold.approximations.model import SmoothingModel
from onefold.approximations.problem import Parts, Problem, TargetRidges, Workload
from onefold.expansions import Expansion, FoldModels
from onefold.kernels import Kernel, Precomputed
from onefold.kernels.tiles import check_symmetric, gram, kernel_product
from onefold.linalg import Array, Index, as_vector, index_like, namespace, take_rows, zeros
from onefold.machine.speed import Speed
from onefold.machine.threads import spans
from onefold.smoothers import CholeskySmoother, DenseSmoother, SpectralSmoother, ThinSmoother, spectral
from onefold.smoothers.base import (
    CHECKED,
    LARGE,
    PSD,
    Flags,
    Rounding,
    Route,
    UnsolvableError,
    choose_route,
)

# Rows of K that are worked on at a time, where all of them would make a second array of n × n.
_STRIP = 256
# Largest sum of kernel values: products with it stay below float64's maximum, 1.8e308.
_LARGEST_SUM = 1e290
# Rows of a user's kernel whose eigenvalues are computed before all others, some milliseconds.
_PROBED_ROWS = 256
# The smallest default ridge: below it R, whose error is eps · λ_max / μ, has fewer digits than a refit.
_REFITTED_RIDGE = 2.0**-21
# Parts that are always refitted at such ridges, up to `LARGE` rows: ten folds.
_REFITTED_PARTS = 10
# Multiply-adds, parts · n³, up to which more parts than that are refitted: about a second.
_REFIT_WORK = 1e10
# Rounding of a matrix that was computed in single precision, as a share of its largest eigenvalue.
_SINGLE_ROUNDING = 1e-6
# Share of the total weight below which the remaining rows lose half of their digits to those left out.
_OUTWEIGHED_SHARE = 1e-6
# Largest √weight over the smallest, above which an eigendecomposition would lose the light rows' digits.
_UNEVEN_RATIO = 10.0


@register
@dataclass(frozen=True)
class Exact(Approximation):
    """No approximation: the dense kernel matrix, for up to about ten thousand rows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV
    >>> from onefold.approximations import Exact
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LSSVRCV(approximation=Exact(), gammas=[0.1, 1], alphas=[0.01, 0.1]).fit(X, y)
    >>> model.expansion_.n_centres
    442
    """

    name = "exact"
    exact = True
    smooths = True
    max_rows_for_matrix = math.inf
    fold_models = "closed"
    remedy = 'use fewer rows, approximation="nystroem", or a computer with more memory'

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> ExactModel:
        return ExactModel(kernel, problem, load)

    def peak_bytes(self, n: int, d: int, targets: int, load: Workload, n_parallel: int) -> int:
        return exact_bytes(n, targets, load, n_parallel)

    def duration(self, n: int, d: int, targets: int, load: Workload, speed: Speed) -> float:
        """Per kernel: the factorisation that `choose_route` would take, and the matrix itself.

        Folds that overlap add their blocks, at every μ.
        """
        cost = choose_route(n, load.alphas, load.need, gpu=load.gpu is not None).cost
        matrix = float(n) ** 2 * (d / speed.multiply_adds + 1 / speed.exponentials)
        blocks = load.alphas * load.block_cost * float(n) ** 3 / speed.multiply_adds
        if load.gpu is not None:  # costs are in Cholesky factorisations, of a matrix made in full
            factors = cost * float(n) ** 3 / (6 * speed.cholesky)
            return load.kernels * (factors + 3 * matrix + blocks)
        return load.kernels * (cost * float(n) ** 3 / speed.multiply_adds + matrix / 2 + blocks)


class ExactModel(SmoothingModel):
    """K, factorised once for every μ."""

    smoother: DenseSmoother

    def __init__(self, kernel: Kernel, problem: Problem, load: Workload) -> None:
        self.problem = problem
        self._kernel = kernel
        K = gram(kernel, problem.X)
        rounding = _rounding_of(kernel, problem)
        _check_matrix(K, None if kernel.always_psd else rounding)
        system = WeightedKernel.prepare(K, problem, rounding)
        self._mean_row = system.mean_row
        thin = None
        if load.need == "heldout" and system.decomposes_on_host and system.isolated is None:
            thin = spectral.low_rank_factor(system.matrix, psd=kernel.always_psd)
        route = choose_route(
            problem.n,
            load.alphas,
            load.need,
            gpu=linalg.on_accelerator(K),
            uneven=system.uneven,
            rank=None if thin is None else thin.shape[1],
        )
        self.report = {"name": "exact", "route": route.name, "reason": route.reason}
        self.one_by_one = route.name == "cholesky"

        def remake() -> Array:
            return WeightedKernel.prepare(gram(kernel, problem.X), problem, rounding).matrix

        self.smoother = system.smoother(route, load, thin, remake)

    def usable(self, parts: Parts | None, alphas: ArrayLike) -> Flags:
        below = np.count_nonzero(self.smoother.below_rounding(alphas))
        if below:
            self.report["below_rounding"] = f"{below} of {np.size(alphas)} alphas"
        return self.smoother.solvable(alphas)

    def leave_one_out(self, alphas: ArrayLike) -> Array:
        predictions = self.smoother.leave_one_out(self.problem.scaled_targets(), alphas)
        predictions = self.problem.unscale(predictions)
        values = as_vector(alphas)
        rows = np.arange(self.problem.n)
        refitted = self._refits(values, rows.size) & ~self.smoother.below_rounding(values)
        places = np.flatnonzero(refitted).tolist()
        for row in rows.tolist() if places else []:
            refits = self._predicted_by_refits(np.array([row]), values[places])
            for number, place in enumerate(places):
                predictions[place, row, :] = refits[number, 0, :]
        return self._heaviest_refitted(predictions, rows, alphas)

    def left_out(self, rows: Index, alpha: float) -> tuple[Index, Array]:
        """Triangular solves for these rows: O(n²) for each, with the factor of the fit."""
        scaled = self.smoother.leave_one_out_at(self.problem.scaled_targets(), rows, alpha)
        predictions = self.problem.unscale(scaled[None, ...], rows)
        return rows, self._heaviest_refitted(predictions, rows, [alpha])[0, ...]

    def _heaviest_refitted(self, predictions: Array, rows: Index, alphas: ArrayLike) -> Array:
        """Predictions (μ, rows, targets), that of a row which outweighs all others from a refit."""
        if self.problem.weight is None:
            return predictions
        heaviest = np.argmax(self.problem.weight, keepdims=True)
        place = np.flatnonzero(rows == heaviest)
        if place.size and self._outweighs(heaviest):
            refits = self._predicted_by_refits(heaviest, alphas)
            predictions[:, int(place[0]), :] = refits[:, 0, :]
        return predictions

    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        """Predictions of closed forms and of refits, in the order of the ridges."""
        values = as_vector(alphas)
        refitted = self._refits(values, len(parts))
        closed = self._heldout_closed(parts, values[~refitted])
        predictions = []
        for number, rows in enumerate(parts):
            if self._outweighs(rows):
                predictions.append(self._predicted_by_refits(rows, values))
                continue
            if not refitted.any():
                predictions.append(closed[number])
                continue
            pieces = [] if refitted.all() else [closed[number]]
            pieces.append(self._predicted_by_refits(rows, values[refitted]))
            predictions.append(_in_order(pieces, refitted, self.problem.Y))
        return predictions

    def _heldout_closed(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        """Predictions from coefficients, 4 n² operations for each μ, part and target, or from R."""
        n, targets = self.problem.Y.shape
        count = np.size(alphas)
        if not count:
            return []
        if len(parts) and count * len(parts) * targets <= n:  # less work than the factorisation
            return self._heldout_by_duals(parts, alphas)
        predictions = self.smoother.heldout(self.problem.scaled_targets(), parts, alphas)
        return [self.problem.unscale(values, rows) for values, rows in zip(predictions, parts)]

    def _heldout_by_duals(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        """(4): as good as refits, to the last digits."""
        coef, intercept = self._coefficients_without(parts, alphas)
        n_alphas, n_parts, n, targets = coef.shape
        xp = namespace(coef)
        columns = xp.reshape(xp.permute_dims(coef, (2, 0, 1, 3)), (n, n_alphas * n_parts * targets))
        X = self.problem.X
        precomputed = isinstance(self._kernel, Precomputed)
        values = X @ columns if precomputed else kernel_product(self._kernel, X, X, columns)
        values = values + xp.reshape(intercept, (-1,))[None, :]
        values = xp.reshape(values, (n, n_alphas, n_parts, targets))
        by_part = xp.permute_dims(values, (2, 1, 0, 3))
        return [
            xp.take(by_part[number, ...], index_like(rows, by_part), axis=1)
            for number, rows in enumerate(parts)
        ]

    def _coefficients_without(self, parts: Parts, alphas: ArrayLike) -> tuple[Array, Array]:
        r"""(3) for the targets ŷ of each part: α (μ, parts, n, t) and b (μ, parts, t)."""
        root = self.problem.root_weight
        duals, intercept = self.smoother.heldout_duals(self.problem.scaled_targets(), parts, alphas)
        if intercept is None or self._mean_row is None:
            intercept = zeros((*duals.shape[:2], duals.shape[3]), duals)
        else:
            intercept = intercept - (self._mean_row[None, :] @ duals)[..., 0, :]
        return duals if root is None else duals * root[None, None, :, None], intercept

    def _refits(self, alphas: ArrayLike, parts: int) -> Flags:
        r"""Whether models without so many parts are fitted one by one at each μ.

        Below the rounding of K; and where R, which is wrong by eps · λ_max / μ, would cost more digits
        than a refit has, unless there are too many rows or parts for that.
        """
        below = self.smoother.below_rounding(alphas)
        n = self.problem.n
        worth = n <= LARGE and (parts <= _REFITTED_PARTS or parts * float(n) ** 3 <= _REFIT_WORK)
        return below | (as_vector(alphas) < _REFITTED_RIDGE) if worth else below

    def _outweighs(self, rows: Index) -> bool:
        """Whether some rows carry nearly all the weight, so that the others are lost in its rounding."""
        weight = self.problem.weight
        return weight is not None and bool(
            np.delete(weight, rows).sum() < _OUTWEIGHED_SHARE * weight.sum()
        )

    def _predicted_by_refits(self, rows: Index, alphas: ArrayLike) -> Array:
        """The rows predicted by models that are fitted without them: (μ, rows, targets)."""
        values = as_vector(alphas)
        X = take_rows(self.problem.X, rows)
        if isinstance(self._kernel, Precomputed):
            X = take_rows(X.T, np.delete(np.arange(self.problem.n), rows)).T
        models = self._refitted_without(rows, values, values.size)
        return namespace(self.problem.Y).stack([model.predict(X) for model in models])

    def _refitted_without(self, rows: Index, alphas: Any, n_alphas: int) -> list[Expansion]:
        """Models of all other rows, about their own mean: one for each of `alphas`."""
        training = self.problem.without(rows, precomputed=isinstance(self._kernel, Precomputed))
        model = ExactModel(self._kernel, training, Workload(alphas=n_alphas))
        return [training.restore(model.expansion(alpha)) for alpha in alphas]

    def fold_models(self, parts: Parts, alpha: ArrayLike) -> FoldModels:
        r"""Every part's model by (3), or fitted again where rounding would decide."""
        problem = self.problem
        n, t = problem.Y.shape
        count = len(parts)
        ridges = TargetRidges(alpha, t)
        coef = zeros((n, count * t), problem.Y)
        intercept = zeros(count * t, problem.Y)
        all_refitted = bool(self._refits(ridges.distinct, count).any())
        if not all_refitted:
            xp = namespace(coef)
            duals, intercepts = self._coefficients_without(parts, ridges.distinct)
            coef = xp.reshape(xp.permute_dims(ridges.pick(duals), (1, 0, 2)), (n, count * t))
            intercept = xp.reshape(ridges.pick(intercepts), (count * t,))
        for number, rows in enumerate(parts):
            if all_refitted or self._outweighs(rows):
                [model] = self._refitted_without(rows, [ridges.by_target], ridges.distinct.size)
                training_rows = np.delete(np.arange(n), rows)
                columns = slice(number * t, (number + 1) * t)
                coef[:, columns] = linalg.scattered(model.coef, training_rows, n)
                intercept[columns] = model.intercept
        return FoldModels.of(self._expansion(coef, intercept), count)

    def expansion(self, alpha: ArrayLike) -> Expansion:
        r"""(3), in the problem's own weights."""
        problem = self.problem
        Y = self.problem.scaled_targets()
        ridges = TargetRidges(alpha, Y.shape[1])
        values = ridges.distinct
        dual = ridges.pick(self.smoother.duals(Y, values))
        below = self.smoother.below_rounding(values)
        if below.any():
            self.report["below_rounding"] = (
                f"alpha {values[below].max() * problem.alpha_unit:.3g} is below the rounding errors of "
                "the kernel matrix; directions that contain only rounding errors are left out"
            )
        intercept = zeros(Y.shape[1], Y)
        border = self.smoother.border
        if border is not None and self._mean_row is not None:
            intercept = (border @ Y) / float(border @ border) - self._mean_row @ dual
        root = problem.root_weight
        return self._expansion(dual if root is None else root[:, None] * dual, intercept)

    def _expansion(self, coef: Array, intercept: Array) -> Expansion:
        centres = None if isinstance(self._kernel, Precomputed) else self.problem.X
        return Expansion(self._kernel, centres, coef, intercept)

    def kernel_matrix(self) -> Array:
        """K without weights, made again: the factorisation took its place."""
        return gram(self._kernel, self.problem.X)


@dataclass(frozen=True)
class WeightedKernel:
    """S K S with its border folded in: what is factorised, in the memory of K."""

    matrix: Any  # (n, n)
    border: Any  # s (n,); None without an intercept
    mean_row: Any  # k̄ (n,), as in (2); None without an intercept
    rounding: Rounding
    uneven: bool  # weights of very different size have graded the rows
    isolated: Index | None  # rows without neighbours, which keep their border: (1) would couple them

    @classmethod
    def prepare(cls, K: Array, problem: Problem, rounding: Rounding) -> WeightedKernel:
        """(1) over K."""
        root = problem.root_weight
        uneven = False
        if root is not None:
            K *= root[:, None]
            K *= root[None, :]
            xp = namespace(root)
            uneven = float(xp.max(root)) / float(xp.min(root)) > _UNEVEN_RATIO
        isolated = None
        if linalg.uses_lapack(K) and not uneven:
            isolated = spectral.isolated_rows(K)
        if not problem.fit_intercept:
            return cls(K, None, None, rounding, uneven, isolated)
        border = linalg.ones(problem.n, K) if root is None else root
        mean_row = _mean_row(K, border)
        rounding = replace(rounding, scale=abs(float(mean_row @ border)))
        if isolated is None:
            K = _recentred(K, border, mean_row)
        return cls(K, border, mean_row, rounding, uneven, isolated)

    @property
    def decomposes_on_host(self) -> bool:
        """Whether LAPACK may decompose it: rows of very different size would lose their digits."""
        return linalg.uses_lapack(self.matrix) and not self.uneven

    def smoother(
        self, route: Route, load: Workload, thin: Any, remake: Callable[[], Array]
    ) -> DenseSmoother:
        """R_b(μ) by a route; `thin` is the factor of low rank, `remake` makes the matrix again."""
        match route.name:
            case "low rank":
                return ThinSmoother.of_factor(thin, self.border)
            case "eigen":
                return SpectralSmoother(
                    self.matrix, self.border, isolated=self.isolated, rounding=self.rounding
                )
            case "cholesky":
                rough = load.rough and self.decomposes_on_host
                return CholeskySmoother(
                    self.matrix,
                    self.border,
                    # The one factor takes the place of K, unless K is to refine it.
                    remake=remake if load.alphas == 1 and not rough else None,
                    rounding=self.rounding,
                    graded=self.uneven,
                    rough=rough,
                )


def _rounding_of(kernel: Kernel, problem: Problem) -> Rounding:
    """How far from positive semi-definite a kernel matrix may be by rounding alone."""
    if isinstance(kernel, Precomputed):
        dtype = namespace(problem.X).finfo(problem.X.dtype)
        return Rounding(max(_SINGLE_ROUNDING, float(np.sqrt(dtype.eps))))
    return PSD if kernel.always_psd else CHECKED


def _mean_row(K: Array, border: Array) -> Array:
    """k̄ = K s / sᵀs, in strips."""
    n = K.shape[0]
    strips = [K[part, :] @ border for part in spans(n, max(_STRIP, linalg.dense.STACK // n))]
    return namespace(K).concat(strips) / float(border @ border)


def _recentred(K: Array, border: Array, mean_row: Array) -> Array:
    """(2) over K, in strips."""
    n = K.shape[0]
    length = float(border @ border)
    mean_of_border = float(mean_row @ border)
    c = max(float(namespace(K).sum(namespace(K).linalg.diagonal(K))) - mean_of_border, 0.0) / n
    u = mean_row - border * ((mean_of_border + c) / (2 * length))
    for part in spans(n, _STRIP):
        K[part, :] -= border[part, None] * u[None, :] + u[part, None] * border[None, :]
    return K


def _in_order(pieces: list[Array], last: Flags, reference: Array) -> Array:
    """Predictions (μ, …) of one or two pieces, the second of the ridges flagged as `last`."""
    positions = np.argsort(np.argsort(last, kind="stable"))
    xp = namespace(reference)
    return xp.take(xp.concat(pieces), index_like(positions, reference), axis=0)


def _check_matrix(K: Array, rounding: Rounding | None) -> None:
    """Raise unless a kernel matrix is finite and, where the user brought it, symmetric and PSD."""
    xp = namespace(K)
    n = K.shape[0]
    with np.errstate(invalid="ignore", over="ignore"):
        sums = xp.sum(K, axis=0)  # passes on what is not finite, without a second array
    if not float(xp.max(xp.abs(sums))) <= _LARGEST_SUM:  # NaN is not either
        raise UnsolvableError(
            "the kernel matrix contains NaN, infinite or very large values; scale the features, or "
            "check the kernel."
        )
    if rounding is None:
        return
    scale = max((float(xp.max(xp.abs(K[part, :]))) for part in spans(n, _STRIP)), default=0.0)
    for part in spans(n, _STRIP):
        check_symmetric(K[part, :], K[:, part].T, scale, rounding.tolerance)
    # A negative eigenvalue of a principal submatrix proves one of the whole (interlacing).
    pick = np.unique(np.linspace(0, n - 1, min(n, _PROBED_ROWS)).astype(int))
    rounding.without_rounding(xp.linalg.eigvalsh(linalg.submatrix(K, pick, pick)))
