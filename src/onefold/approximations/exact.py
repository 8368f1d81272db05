r"""The exact method: the kernel matrix itself, dense, n × n, no approximation.

O(n³) time. One array of n × n for a single fit, two where Cholesky serves, five for an
eigendecomposition (two to three above a few thousand rows). On a device a fit or a search at one ridge
has one, in which K, its factor and the inverse of that follow each other.

With an intercept the border s is folded in first: K and HKH + c·ssᵀ/sᵀs, H = I − ssᵀ/sᵀs, have the
same R_b for every c, and the second has no large eigenvalue along s to lose digits to.

Rows held out of training come from the closed forms of the smoother (:mod:`onefold.smoothers.dense`):
from the coefficients of the models without them while these cost less than the factorisation, else from
the blocks of R alone. Two things only are fitted again without their rows, since rounding would decide
the closed form: a μ below the rounding of K, and a part that carries nearly all the weight.
"""

from __future__ import annotations

import math
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
from onefold.smoothers import dense
from onefold.smoothers.base import GIVEN, LARGE, PSD, Flags, Rounding, UnsolvableError, choose_route

_STRIP = 256
_LARGEST = 1e290  # of a sum of kernel values: products with it are still numbers
_PROBE = 256  # rows of a kernel that the user brought, looked at before the rest
_TINY = 2.0**-21  # ridges below: the smallest that is tried by default
_FEW_PARTS = 10  # that are refitted there,
_REFIT_WORK = 1e10  # and parts · n³ up to which more of them are
_SINGLE = 1e-6  # of the largest eigenvalue: the rounding of a matrix computed in single precision
_OUTWEIGHED = 1e-6  # of the weight: other rows with less lose too many digits
_UNEVEN = 10.0  # largest √weight over the smallest: above, no decomposition


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
        """Per kernel: the factorisation that `choose_route` would take, and the matrix itself."""
        cost = choose_route(n, load.alphas, load.need, gpu=load.gpu is not None).cost
        matrix = float(n) ** 2 * (d / speed.multiply_adds + 1 / speed.exponentials)
        if load.gpu is not None:  # costs are in Cholesky factorisations, of a matrix made in full
            return load.kernels * (cost * float(n) ** 3 / (6 * speed.cholesky) + 3 * matrix)
        return load.kernels * (cost * float(n) ** 3 / speed.multiply_adds + matrix / 2)


class ExactModel(SmoothingModel):
    """K, factorised once for every μ."""

    smoother: dense.DenseSmoother

    def __init__(self, kernel: Kernel, problem: Problem, load: Workload) -> None:
        self.problem = problem
        self._kernel = kernel
        need = load.need
        K = self.kernel_matrix()
        rounding = PSD if kernel.always_psd else GIVEN
        if isinstance(kernel, Precomputed):
            own = float(np.sqrt(namespace(problem.X).finfo(problem.X.dtype).eps))
            rounding = Rounding(max(_SINGLE, own))
        _check_matrix(K, None if kernel.always_psd else rounding)
        root = problem.root_weight
        uneven = False
        if root is not None:
            K *= root[:, None]
            K *= root[None, :]
            xp = namespace(root)
            uneven = float(xp.max(root)) / float(xp.min(root)) > _UNEVEN
        alone = None
        border = None
        thin = None
        if not uneven and linalg.uses_lapack(K):
            alone = dense.isolated_rows(K)
        if problem.fit_intercept:
            border = linalg.ones(problem.n, K) if root is None else root
            strips = [
                K[part, :] @ border
                for part in spans(problem.n, max(_STRIP, linalg.dense.STACK // problem.n))
            ]
            self._mean_row = namespace(K).concat(strips) / float(border @ border)
            rounding = replace(rounding, scale=abs(float(self._mean_row @ border)))
            if alone is None:
                K = _recentred(K, border, self._mean_row)
        if need == "heldout" and alone is None and not uneven and linalg.uses_lapack(K):
            thin = dense.low_rank_factor(K, psd=kernel.always_psd)
        rank = None if thin is None else thin.shape[1]
        gpu = linalg.on_accelerator(K)
        route = choose_route(problem.n, load.alphas, need, gpu=gpu, uneven=uneven, rank=rank)
        self.report = {"name": "exact", "route": route.name, "reason": route.reason}
        if thin is not None:
            self.smoother = dense.LowRankSmoother(thin, border)
        elif route.name == "eigen":
            self.smoother = dense.SpectralSmoother(K, border, alone=alone, rounding=rounding)
        else:
            self.one_by_one = True
            once = load.alphas == 1  # its one factor then takes the place of K
            rough = load.rough and not uneven and linalg.uses_lapack(K)
            self.smoother = dense.CholeskySmoother(
                K, border, overwrite=once, rounding=rounding, graded=uneven, rough=rough
            )

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
            found = self._trained_without(np.array([row]), values[places])
            for number, place in enumerate(places):
                predictions[place, row, :] = found[number, 0, :]
        return self._heaviest_refitted(predictions, rows, alphas)

    def left_out(self, rows: Index, alpha: float) -> tuple[Index, Array]:
        """Triangular solves for these rows: O(n²) for each, with the factor of the fit."""
        scaled = self.smoother.some_left_out(self.problem.scaled_targets(), rows, alpha)
        predictions = self.problem.unscale(scaled[None, ...], rows)
        return rows, self._heaviest_refitted(predictions, rows, [alpha])[0, ...]

    def _heaviest_refitted(self, predictions: Array, rows: Index, alphas: ArrayLike) -> Array:
        """Predictions (μ, rows, targets), that of a row which outweighs all others from a refit."""
        if self.problem.weight is None:
            return predictions
        heaviest = np.argmax(self.problem.weight, keepdims=True)
        place = np.flatnonzero(rows == heaviest)
        if place.size and self._outweighs(heaviest):
            predictions[:, int(place[0]), :] = self._trained_without(heaviest, alphas)[:, 0, :]
        return predictions

    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        values = as_vector(alphas)
        below = self._refits(values, len(parts))
        above = values[~below]
        n, targets = self.problem.Y.shape
        closed: list[Array] = []
        # Coefficients of the models without a part take 4 n² operations per μ, part and target: worth
        # it while that is less than the factorisation.
        if 0 < above.size * len(parts) * targets <= n:
            closed = self._heldout_by_duals(parts, above)
        elif above.size:
            predictions = self.smoother.heldout(self.problem.scaled_targets(), parts, above)
            closed = [self.problem.unscale(f, rows) for f, rows in zip(predictions, parts)]
        xp = namespace(self.problem.Y)
        found = []
        for number, rows in enumerate(parts):
            literal = below | self._outweighs(rows)
            if not literal.any():
                found.append(closed[number])
                continue
            pieces = [] if literal.all() else [closed[number]]
            pieces.append(self._trained_without(rows, values[literal]))
            back = np.argsort(np.argsort(literal, kind="stable"))
            found.append(xp.take(xp.concat(pieces), index_like(back, self.problem.Y), axis=0))
        return found

    def _heldout_by_duals(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        """f_J = K_JT α_T + b from the models without J: as good as refits, to the last digits."""
        coef, level = self._without(parts, alphas)
        a, k, n, t = coef.shape
        xp = namespace(coef)
        columns = xp.reshape(xp.permute_dims(coef, (2, 0, 1, 3)), (n, a * k * t))
        X = self.problem.X
        given = isinstance(self._kernel, Precomputed)
        values = X @ columns if given else kernel_product(self._kernel, X, X, columns)
        values = values + xp.reshape(level, (-1,))[None, :]
        values = xp.permute_dims(xp.reshape(values, (n, a, k, t)), (2, 1, 0, 3))
        return [xp.take(values[i, ...], index_like(J, values), axis=1) for i, J in enumerate(parts)]

    def _without(self, parts: Parts, alphas: ArrayLike) -> tuple[Array, Array]:
        r"""α = R_b Ŷ / μ (μ, parts, n, t) and b = (sᵀŶ − (Ks)ᵀα) / sᵀs (μ, parts, t) without parts."""
        root = self.problem.root_weight
        duals, level = self.smoother.heldout_duals(self.problem.scaled_targets(), parts, alphas)
        if level is None:
            level = zeros((*duals.shape[:2], duals.shape[3]), duals)
        else:
            level = level - (self._mean_row[None, :] @ duals)[..., 0, :]
        return duals if root is None else duals * root[None, None, :, None], level

    def _refits(self, alphas: ArrayLike, parts: int) -> Flags:
        r"""Whether models without so many parts are fitted one by one at each μ.

        Below the rounding of K; and where R, which is wrong by eps · λ_max / μ, would cost more digits
        than a refit has, unless there are too many rows or parts for that.
        """
        below = self.smoother.below_rounding(alphas)
        n = self.problem.n
        worth = n <= LARGE and (parts <= _FEW_PARTS or parts * float(n) ** 3 <= _REFIT_WORK)
        return below | (as_vector(alphas) < _TINY) if worth else below

    def _outweighs(self, rows: Index) -> bool:
        """Whether some rows carry nearly all the weight, so that the others are lost in its rounding."""
        weight = self.problem.weight
        return weight is not None and bool(np.delete(weight, rows).sum() < _OUTWEIGHED * weight.sum())

    def _trained_without(self, rows: Index, alphas: ArrayLike) -> Array:
        """The rows predicted by models that are fitted without them."""
        values = as_vector(alphas)
        asked = take_rows(self.problem.X, rows)
        if isinstance(self._kernel, Precomputed):
            asked = take_rows(asked.T, np.delete(np.arange(self.problem.n), rows)).T
        models = self._refitted_without(rows, values, values.size)
        return namespace(self.problem.Y).stack([f.predict(asked) for f in models])

    def _refitted_without(self, rows: Index, alphas: Any, n_alphas: int) -> list[Expansion]:
        """Models of the other rows, about their own mean: one for each of `alphas`."""
        part = self.problem.without(rows, precomputed=isinstance(self._kernel, Precomputed))
        model = ExactModel(self._kernel, part, Workload(alphas=n_alphas))
        return [part.restore(model.expansion(alpha)) for alpha in alphas]

    def fold_models(self, parts: Parts, alpha: ArrayLike) -> FoldModels:
        r"""Every part's model in closed form, or fitted again where rounding would decide."""
        problem = self.problem
        count = len(parts)
        t = int(self.problem.Y.shape[1])
        ridges = TargetRidges(alpha, t)
        width = count * t
        coef, level = (zeros(shape, problem.Y) for shape in ((problem.n, width), width))
        literal = bool(self._refits(ridges.distinct, count).any())
        if not literal:
            xp = namespace(coef)
            coef, level = map(ridges.pick, self._without(parts, ridges.distinct))
            coef = xp.reshape(xp.permute_dims(coef, (1, 0, 2)), (problem.n, width))
            level = xp.reshape(level, (width,))
        for number, rows in enumerate(parts):
            if literal or self._outweighs(rows):
                [alone] = self._refitted_without(rows, [ridges.by_target], ridges.distinct.size)
                rest = np.delete(np.arange(problem.n), rows)
                columns = slice(number * t, (number + 1) * t)
                coef[:, columns] = linalg.scattered(alone.coef, rest, problem.n)
                level[columns] = alone.intercept
        return FoldModels.of(self._expansion(coef, level), count)

    def expansion(self, alpha: ArrayLike) -> Expansion:
        r"""α = R_b y / μ and b = (sᵀy − (Ks)ᵀα) / sᵀs, in the problem's own weights."""
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
        if border is not None:
            intercept = (border @ Y) / float(border @ border) - self._mean_row @ dual
        root = problem.root_weight
        return self._expansion(dual if root is None else root[:, None] * dual, intercept)

    def _expansion(self, coef: Array, intercept: Array) -> Expansion:
        centres = None if isinstance(self._kernel, Precomputed) else self.problem.X
        return Expansion(self._kernel, centres, coef, intercept)

    def kernel_matrix(self) -> Array:
        """K without weights, made again: the factorisation took its place."""
        return gram(self._kernel, self.problem.X)


def _recentred(K: Array, border: Array, mean_row: Array) -> Array:
    """HKH + c·ssᵀ/sᵀs with c the mean of HKH's eigenvalues, over K, in strips."""
    n = K.shape[0]
    length = float(border @ border)
    middle = float(mean_row @ border)
    c = max(float(namespace(K).sum(namespace(K).linalg.diagonal(K))) - middle, 0.0) / n
    # s k̄ᵀ + k̄ sᵀ − (middle + c)/sᵀs · s sᵀ, written as s uᵀ + u sᵀ
    u = mean_row - border * ((middle + c) / (2 * length))
    for part in spans(n, _STRIP):
        K[part, :] -= border[part, None] * u[None, :] + u[part, None] * border[None, :]
    return K


def _check_matrix(K: Array, rounding: Rounding | None) -> None:
    """Raise unless a kernel matrix is finite and, where the user brought it, symmetric and PSD."""
    xp = namespace(K)
    n = K.shape[0]
    with np.errstate(invalid="ignore", over="ignore"):
        sums = xp.sum(K, axis=0)  # passes on what is not finite, without a second array
    if not float(xp.max(xp.abs(sums))) <= _LARGEST:  # NaN is not either
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
    pick = np.unique(np.linspace(0, n - 1, min(n, _PROBE)).astype(int))
    rounding.settled(xp.linalg.eigvalsh(linalg.submatrix(K, pick, pick)))
