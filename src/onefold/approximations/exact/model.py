r"""The kernel matrix itself: dense, n × n, no approximation.

O(n³) time. One array of n × n for a single fit, two where Cholesky serves, five for an
eigendecomposition (two to three above some thousand rows).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from onefold.approximations.alphas import TargetRidges, target_ridges
from onefold.approximations.base import SmoothingModel
from onefold.approximations.exact.matrix import check_matrix, recentred, rounding_of
from onefold.approximations.problem import Problem
from onefold.expansions import Expansion, FoldModels
from onefold.kernels import Kernel, Precomputed
from onefold.kernels.tiles import gram, kernel_product
from onefold.linalg import (
    Array,
    double,
    is_foreign,
    like,
    like_index,
    namespace,
    on_accelerator,
    ones,
    take_rows,
    to_numpy,
    zeros,
)
from onefold.smoothers import CholeskySmoother, DenseSmoother, SpectralSmoother, choose_route
from onefold.smoothers.left_out import LeftOut
from onefold.smoothers.lowrank import LowRankSmoother, low_rank_factor
from onefold.smoothers.rounding import PSD, Rounding
from onefold.smoothers.route import LARGE, Need
from onefold.smoothers.spectral import isolated_rows

_OUTWEIGHED = 1e-6  # of the weight: a rest with less loses too many digits beside what it is left out of
_UNEVEN = 10.0  # largest √weight over the smallest: above, no decomposition


class ExactModel(SmoothingModel):
    r"""K, factorised once for every μ.

    With an intercept the border s is folded in first: K and HKH + c·ssᵀ/sᵀs, H = I − ssᵀ/sᵀs, have
    the same R_b for every c, and the second has no large eigenvalue along s to lose digits to.
    """

    def __init__(self, kernel: Kernel, problem: Problem, *, n_alphas: int, need: Need) -> None:
        self.problem, self._kernel = problem, kernel
        K = gram(kernel, problem.X)
        rounding = PSD if kernel.always_psd else Rounding(rounding_of(kernel, problem.X))
        check_matrix(K, None if kernel.always_psd else rounding.tolerance)
        root = problem.root_weight
        if root is not None:
            K *= root[:, None]
            K *= root[None, :]
        uneven = root is not None and _spread(root) > _UNEVEN
        alone = None if uneven else isolated_rows(K)
        border = None
        if problem.fit_intercept:
            border = ones(problem.n, K[:, 0]) if root is None else root
            self._mean_row = (K @ border) / float(border @ border)
            rounding = replace(rounding, scale=abs(float(self._mean_row @ border)))
            if alone is None:
                K = recentred(K, border, self._mean_row)
        route = choose_route(problem.n, n_alphas, need, gpu=on_accelerator(K))
        self.report = {"name": "exact", "route": route.name, "reason": route.reason}
        thin = None
        if need == "heldout" and alone is None and not uneven:
            thin = low_rank_factor(K, psd=kernel.always_psd)
        self.smoother: DenseSmoother
        if thin is not None:
            reason = f"rank {thin.shape[1]} of {problem.n} to the rounding of the kernel matrix"
            self.report = {"name": "exact", "route": "low rank", "reason": reason}
            self.smoother = LowRankSmoother(thin, border)
        elif route.name == "eigen" and not uneven:
            small = problem.n <= LARGE  # above, memory matters more than threads over kernels
            self.smoother = SpectralSmoother(
                K, border, alone=alone, release_lock=small, rounding=rounding
            )
        else:
            if uneven:
                reason = "weights of very different size, whose digits a decomposition would lose"
                self.report = {"name": "exact", "route": "cholesky", "reason": reason}
            once = n_alphas == 1  # its one factor then takes the place of K
            self.smoother = CholeskySmoother(K, border, overwrite=once, rounding=rounding, graded=uneven)

    @property
    def one_by_one(self) -> bool:
        return isinstance(self.smoother, CholeskySmoother)

    def usable(self, parts: Sequence[Any] | None, alphas: Any) -> Any:
        below = np.count_nonzero(self.smoother.below_rounding(alphas))
        if below:
            self.report["below_rounding"] = f"{below} of {np.size(alphas)} alphas"
        return self.smoother.solvable(alphas)

    def leave_one_out(self, alphas: Any) -> Array:
        predictions = self.smoother.leave_one_out(self.problem.scaled_targets(), alphas)
        return self._heaviest_refitted(
            self.problem.unscale(predictions), np.arange(self.problem.n), alphas
        )

    def left_out(self, some: Any, alpha: float) -> tuple[Any, Array]:
        """Triangular solves for these rows: O(n²) for each, beside the factor of the fit."""
        found = self.smoother.some_left_out(self.problem.scaled_targets(), some, alpha)
        found = self.problem.unscale(found[None, ...], some)
        return some, self._heaviest_refitted(found, some, [alpha])[0, ...]

    def _heaviest_refitted(self, predictions: Array, rows: Any, alphas: Any) -> Array:
        """Predictions (μ, rows, targets), that of a row which outweighs all others from a refit."""
        if self._host_weight is None:
            return predictions
        heaviest = int(np.argmax(self._host_weight))
        place = np.flatnonzero(rows == heaviest)
        if place.size and self._outweighs([heaviest]):
            there = self._trained_without([heaviest], alphas)
            predictions = like(to_numpy(predictions), predictions)
            predictions[:, int(place[0]), :] = there[:, 0, :]
        return predictions

    def heldout(self, parts: Sequence[Any], alphas: Any) -> list[Array]:
        n_alphas, targets = np.size(alphas), self.problem.Y.shape[1]
        if self.smoother.below_rounding(alphas).any():
            return [self._trained_without(rows, alphas) for rows in parts]
        if n_alphas * len(parts) * targets <= self.problem.n:
            found = self._heldout_by_duals(parts, alphas)
        else:
            predictions = self.smoother.heldout(self.problem.scaled_targets(), parts, alphas)
            found = [self.problem.unscale(f, rows) for f, rows in zip(predictions, parts)]
        return [
            self._trained_without(rows, alphas) if self._outweighs(rows) else f
            for f, rows in zip(found, parts)
        ]

    def _outweighs(self, rows: Any) -> bool:
        """Whether some rows carry nearly all the weight: nothing can be told of the rest beside them."""
        weight = self._host_weight
        if weight is None:
            return False
        return bool(np.delete(weight, rows).sum() < _OUTWEIGHED * weight.sum())

    @cached_property
    def _host_weight(self) -> Any | None:
        root = self.problem.root_weight
        return None if root is None else to_numpy(root) ** 2

    def _trained_without(self, rows: Any, alphas: Any) -> Array:
        """The rows predicted by models that are fitted without them, one factorisation for each μ."""
        problem, values = self.problem, np.asarray(alphas, dtype=np.float64).reshape(-1)
        rest, part, model = self._refitted_without(rows, values.size)
        asked = take_rows(problem.X, rows)
        if isinstance(self._kernel, Precomputed):
            asked = take_rows(asked.T, rest).T
        models = [part.restore(model.expansion(mu)) for mu in values]
        return namespace(problem.Y).stack([f.predict(asked) for f in models])

    def _refitted_without(self, rows: Any, n_alphas: int) -> tuple[Any, Problem, ExactModel]:
        """The other rows' numbers, their problem about its own mean, and its model."""
        rest = np.delete(np.arange(self.problem.n), rows)
        part = self.problem.rows(rest, precomputed=isinstance(self._kernel, Precomputed))
        part = replace(part, offset=None).about_its_mean()
        return rest, part, ExactModel(self._kernel, part, n_alphas=n_alphas, need="coefficients")

    def _heldout_by_duals(self, parts: Sequence[Any], alphas: Any) -> list[Array]:
        r"""f_J = K_JT α_T + b with the coefficients of each model trained without J.

        As good as a literal refit, also where the predictions of a part differ in their last digits
        only and a rank criterion would see the difference. 4 n² operations per μ, part and target:
        worth it while that is less than the factorisation.
        """
        problem = self.problem
        xp, Y = namespace(problem.Y), problem.Y
        duals = self.smoother.heldout_duals(problem.scaled_targets(), parts, alphas)
        if problem.root_weight is not None:
            duals = duals * problem.root_weight[None, None, :, None]
        a, k, n, t = duals.shape
        coef = xp.reshape(xp.permute_dims(duals, (2, 0, 1, 3)), (n, a * k * t))
        values = self._times_kernel(coef)
        values = xp.permute_dims(xp.reshape(values, (n, a, k, t)), (1, 2, 0, 3))
        weight = ones(n, Y) if problem.root_weight is None else problem.root_weight**2
        weights = LeftOut(parts, Y).blanked(weight[:, None])
        found = []
        for index, rows in enumerate(parts):
            f = values[:, index, ...]
            if problem.fit_intercept:
                missing = xp.permute_dims(Y[None, ...] - f, (0, 2, 1)) @ weights[:, index]
                f = f + (missing / xp.sum(weights[:, index]))[:, None, :]
            found.append(xp.take(f, like_index(rows, f), axis=1))
        return found

    def fold_models(self, parts: Sequence[Any], alpha: Any) -> FoldModels:
        r"""Every part's model in closed form, or fitted again where rounding would decide."""
        problem, count, t = self.problem, len(parts), int(self.problem.Y.shape[1])
        ridges = target_ridges(alpha, t)
        literal = bool(self.smoother.below_rounding(ridges.distinct).any())
        if literal:
            coef, level = zeros((problem.n, count * t), problem.Y), zeros((count * t,), problem.Y)
        else:
            coef, level = self._folds_in_closed_form(parts, ridges)
        for number, rows in enumerate(parts):
            if literal or self._outweighs(rows):
                rest, part, model = self._refitted_without(rows, ridges.distinct.size)
                alone = part.restore(model.expansion(ridges.each))
                own, columns = np.zeros((problem.n, t)), slice(number * t, (number + 1) * t)
                own[rest] = to_numpy(alone.coef)
                coef[:, columns] = like(own, coef)
                level[columns] = alone.intercept
        centres = None if isinstance(self._kernel, Precomputed) else problem.X
        return FoldModels.of(Expansion(self._kernel, centres, coef, level), count)

    def _folds_in_closed_form(self, parts: Sequence[Any], ridges: TargetRidges) -> tuple[Array, Array]:
        r"""α = R_b Ŷ / μ, (n, parts · targets), and b = (sᵀŶ − (Ks)ᵀα) / sᵀs; see `heldout_solutions`.

        O(n²) per part and target beyond the blocks of R.
        """
        problem, Y = self.problem, self.problem.scaled_targets()
        xp, width = namespace(Y), len(parts) * int(Y.shape[1])
        duals, found = self.smoother.heldout_solutions(Y, parts, ridges.distinct)
        coef = xp.reshape(xp.permute_dims(ridges.own(duals), (1, 0, 2)), (problem.n, width))
        level = zeros((width,), Y)
        if found is not None:
            level = xp.reshape(ridges.own(found), (width,)) - self._mean_row @ coef
        if problem.root_weight is not None:
            coef = problem.root_weight[:, None] * coef
        return coef, level

    def kernel_matrix(self) -> Array:
        """K without weights, made again: the factorisation took its place."""
        return gram(self._kernel, self.problem.X)

    def _times_kernel(self, coef: Array) -> Array:
        if isinstance(self._kernel, Precomputed):
            return double(self.problem.X) @ coef
        return kernel_product(self._kernel, self.problem.X, self.problem.X, coef)

    def expansion(self, alpha: Any) -> Expansion:
        r"""α = R_b y / μ and b = (sᵀy − (Ks)ᵀα) / sᵀs, in the problem's own weights."""
        problem, Y = self.problem, self.problem.scaled_targets()
        xp = namespace(Y)
        ridges = target_ridges(alpha, Y.shape[1])
        values = ridges.distinct
        dual = ridges.own(self.smoother.duals(Y, values))
        below = self.smoother.below_rounding(values)
        if below.any():
            self.report["below_rounding"] = (
                f"alpha {values[below].max() * problem.alpha_unit:.3g} is below the rounding of the "
                "kernel matrix; directions in which that is rounding alone are left out"
            )
        intercept = xp.zeros(Y.shape[1], dtype=Y.dtype, **_beside(Y))
        border = self.smoother.border
        if border is not None:
            intercept = (border @ Y) / float(border @ border) - self._mean_row @ dual
        if problem.root_weight is not None:
            dual = problem.root_weight[:, None] * dual
        centres = None if isinstance(self._kernel, Precomputed) else problem.X
        return Expansion(self._kernel, centres, dual, intercept)


def _spread(root: Array) -> float:
    xp = namespace(root)
    return float(xp.max(root)) / float(xp.min(root))


def _beside(reference: Array) -> dict[str, Any]:
    return {"device": reference.device} if is_foreign(reference) else {}
