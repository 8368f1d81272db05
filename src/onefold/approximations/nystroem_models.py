r"""Basis models: f(x) = Σ_{j∈S} β_j k(x, z_j) + b, the penalty βᵀK_SSβ, all n residuals in the loss.

`FactoredModel` trains few rows from triangular factors of them: as exact as refits by QR. The whitened
features V of all rows are held. Each group of rows that the splitter moves together is factorised once;
the factors of the groups outside a set J, on top of each other, train the model without J.
Leave-one-out, and sets too many for that, go through the residual operator, in which V appears by
orthonormal columns alone. (R_b)_ii then has the absolute error eps; a row whose value is so small that
this matters is left out literally.

`SummedModel` trains many rows from statistics that add over them. Held-out predictions of a set J are
those of the model with the statistics of all rows minus those of J, exactly. One pass over the rows
collects them for every group of rows that the splitter moves together; any splitter is served by it as
long as the groups' Gram matrices fit the scratch limit. Beyond that, small sets use the residual
operator of the whole model, e_J = (R_b)_JJ⁻¹ (R_b y)_J, and large ones are collected one after the
other, each subtracted from the total. Everything runs where the rows are worked on; what comes to the
host is as small as the answer.

`RowsModel` is ding2012's Algorithm 1: train with the low-rank matrix, predict with the true kernel over
all rows.

    V = C U_k Σ_k^{-1/2},   K̃ = V Vᵀ
    for z in {1, y}:  t = (μI + VᵀV)⁻¹ Vᵀz,   (K̃ + μI)⁻¹ z = (z − V t) / μ
    b = 1ᵀν / 1ᵀρ,   α = ν − ρ b,   f(x) = Σ_i α_i k(x, x_i) + b

Since (K̃ + μI) α = y − b, the coefficient of a row is its residual in the landmark model over μ:
α_i = v_i (y_i − V_i·θ − b) / μ with that model's θ and b. Nothing else is solved.

*Leave-one-out with all rows.* B = S R_b S / μ maps the targets to α, and without row i it is
α⁽ⁱ⁾ = α − e_i B_·i. Here e_i = α_i / B_ii is the leave-one-out residual of the landmark model, so that
y_i − e_i is what that model predicts. The true kernel adds E = K − K̃ applied to α⁽ⁱ⁾:

    f⁽ⁱ⁾(x_i) = y_i − e_i + (Eα)_i − e_i (EB)_ii
    (EB)_ii = (v_i E_ii − v_i (Ev)_i / Σv − Σ_l √v_i U_il [λ_l/(λ_l+μ)] (E S U)_il) / μ

with R_b = I − ssᵀ/sᵀs − U [λ/(λ+μ)] Uᵀ; without an intercept the term of s is absent. E S U, E v and Eα
are products with kernel tiles: O(n² (d + r)) time, and n r numbers.

*Criteria of the whole R_b.* With w = μ/(λ+μ) of every direction, c = n − 1 contrasts (n without an
intercept), and λ from the path of all rows,

    tr R_b = c − r + Σ w,    log det = c log μ − Σ log w,    yᵀR_b y = Σ v (y − f)² + μ ‖θ‖²
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold.approximations.model import InnerWholeModel, WholeModel
from onefold.approximations.problem import Parts, Problem, TargetRidges
from onefold.basis import Design, FoldPaths, RidgePath, Solution, Statistics, flat, mapped
from onefold.basis.error import decision_bound, decision_change, kernel_error
from onefold.basis.ridge import Factor, FactorPath, predictions_of, squared_error
from onefold.basis.statistics import collect, features_of, finite_kernel, holds_groups, predict_groups
from onefold.expansions import Expansion, FoldModels
from onefold.kernels.tiles import kernel_product
from onefold.linalg import (
    Array,
    HostArray,
    Index,
    as_vector,
    asarray_like,
    host_array,
    namespace,
    outer,
    take_rows,
    zeros,
)
from onefold.machine.threads import cached_property, limit_blas, map_all, spans
from onefold.machine.warning import warn_user
from onefold.rows import Block, Groups, Rows
from onefold.smoothers.dense import ThinSmoother

_CHUNKS = 8  # pieces of the rows that are factorised side by side
_REFIT_WORK = 10**11  # multiply-adds that literal refits may take
_SMALL_RESIDUAL = 1e-7  # of (R_b)_ii: below it, its rounding errors reach the tenth digit
_MANY_PARTS = 64  # above this, one eigendecomposition per part costs more than its block of R
_FEW_DIGITS = 1e-3  # relative error of 1 − h above which a leverage is not to be relied on
_LEAST_SHARE = 1e-7  # of Σy²: a squared error below it has lost its digits to cancellation


class BasisModel(WholeModel):
    """One kernel, its landmarks and every μ; one BLAS thread, whose digits are always the same."""

    keep = True
    one_pass = True

    def __init__(self, problem: Problem, design: Design, T: Any, report: dict[str, Any]) -> None:
        self.problem = problem
        self.source = problem.source
        self.report = report
        self.design = design
        self.T = T  # (m, r), from features to whitened coordinates; None: they are
        self._known: Any = None  # groups of rows, and what a pass over them left

    @property
    @abstractmethod
    def _path(self) -> Any:
        """The model of all rows, for any μ."""

    @abstractmethod
    def whitened(self) -> HostArray:
        """V of all rows (n, r), in host memory."""

    def trace(self, alphas: ArrayLike) -> HostArray:
        left = self._left(alphas)
        return self._contrasts - left.shape[1] + left.sum(axis=1)

    def logdet(self, alphas: ArrayLike) -> HostArray:
        return self._contrasts * np.log(as_vector(alphas)) - np.log(self._left(alphas)).sum(axis=1)

    @property
    def _contrasts(self) -> int:
        """The number of directions orthogonal to the border."""
        return self.problem.n - int(self.problem.fit_intercept)

    @limit_blas(1)
    def _left(self, alphas: ArrayLike) -> HostArray:
        """The part μ / (λ + μ) of each direction of V that is left in the residuals: (μ, r)."""
        return host_array(self._path.left(alphas))

    @limit_blas(1)
    def residual_squares(self, alphas: ArrayLike) -> HostArray:
        return host_array(self._path.squares(alphas))

    def least_costs(self, alphas: ArrayLike) -> HostArray:
        lengths = host_array(self._path.lengths(alphas))
        return self.residual_squares(alphas) + as_vector(alphas)[:, None] * lengths

    @limit_blas(1)
    def kernel_matrix(self) -> HostArray:
        """K̃ = V Vᵀ."""
        V = self.whitened()
        return V @ V.T

    def thin_smoother(self) -> ThinSmoother:
        """From U λ Uᵀ = S V Vᵀ S about its mean. O(n r²) time, memory for about three arrays like V."""
        weight = self.problem.weight
        start = int(self.problem.fit_intercept)
        root = np.ones(self.problem.n) if weight is None else np.sqrt(weight)
        Q, R = np.linalg.qr(np.hstack([root[:, None]] * start + [root[:, None] * self.whitened()]))
        P, values, _ = np.linalg.svd(R[start:, start:], full_matrices=False)
        return ThinSmoother(Q[:, start:] @ P, values**2, root if start else None)

    @abstractmethod
    def trains_without(self, parts: Parts) -> bool:
        """Whether the sets are few enough for a model without each."""

    @abstractmethod
    def in_features(self, alphas: ArrayLike, parts: Parts | None = None) -> Iterator[Solution]:
        """Coefficients of the features and b: of all rows, or without each of some sets of them."""

    @abstractmethod
    def _squared_error(self, groups: Groups, splits: int, alphas: ArrayLike) -> Any | None: ...

    @limit_blas(1)
    def heldout_squared_error(self, left_out: Parts, tests: Parts, alphas: ArrayLike) -> Any | None:
        """From sums or factors alone; None where rows are tested repeatedly or digits were lost."""
        groups = self.source.grouped_by([*left_out, *tests])
        if groups.repeats or not self.trains_without(left_out):
            return None
        return self._squared_error(groups, len(left_out), alphas)

    def expansion(self, alpha: ArrayLike, parts: Parts | None = None) -> Expansion:
        """Of all rows, or the columns of the models without each part."""
        found = self.solved(alpha, parts)
        together = (namespace(arrays[0]).concat(arrays, axis=-1) for arrays in zip(*found))
        return Expansion(self.design.kernel, self.design.landmarks, *together)

    def fold_models(self, parts: Parts, alpha: ArrayLike) -> FoldModels | None:
        known = self.trains_without(parts)  # from what a search has collected
        return FoldModels.of(self.expansion(alpha, parts), len(parts)) if known else None

    @limit_blas(1)
    def final_report(self, alpha: ArrayLike, expansion: Expansion) -> dict[str, Any]:
        """With ‖K − K̃‖₂ and ding2012's bound; warns of a ridge that rounding hides."""
        found = kernel_error(self.design, self.T, self.source, seed=0)
        data = self.problem.targets, self.problem.weight
        bound = decision_bound(found, *data, as_vector(expansion.intercept), alpha)
        self.report |= {key: found[key] for key in ("kernel_error", "kernel_error_rows")}
        self.report["decision_bound"] = bound
        if not (self.problem.remote or self.problem.streamed):
            self.report["decision_change"] = self._decision_change(alpha)
        smallest = float(np.min(alpha))
        rounding = self.report.get("rounding_ridge", 0.0)
        unit = self.problem.alpha_unit
        if smallest < rounding:
            warn_user(
                f"alpha={smallest * unit:.2g} is below {rounding * unit:.1e}, the size of rounding "
                f"errors in sums over {self.problem.n} rows, so that predictions may be inaccurate; "
                "use a larger alpha, fewer landmarks, or a larger gamma."
            )
        return self.report

    def _decision_change(self, alpha: ArrayLike) -> float:
        """How far f is from that of the true kernel at the rows, estimated from a sample of them."""
        ridges = TargetRidges(alpha, self.problem.Y.shape[1])
        [(theta, intercept)] = self.in_features(ridges.distinct)
        design = self.design
        coef = asarray_like(
            ridges.pick(namespace(theta).permute_dims(theta, (1, 0, 2))), design.landmarks
        )
        level = asarray_like(ridges.pick(intercept), design.landmarks)
        weight = self.problem.weight
        return decision_change(design, self.source, weight, coef, level, ridges.by_target, seed=0)

    @limit_blas(1)
    def of_landmarks(self, alphas: ArrayLike, parts: Parts | None = None) -> list[Solution]:
        """β of the landmarks (m, μ, targets) and b (μ, targets), as `in_features`."""
        found = self.in_features(alphas, parts)
        moved = (
            (asarray_like(array, self.design.landmarks) for array in solution) for solution in found
        )
        return [(mapped(self.design.mix, coef), intercept) for coef, intercept in moved]

    def solved(self, alpha: ArrayLike, parts: Parts | None = None) -> list[tuple[Array, Array]]:
        """β (m, targets) and b (targets,) for one μ or one per target."""
        ridges = TargetRidges(alpha, self.problem.Y.shape[1])
        return [
            (ridges.pick(namespace(beta).permute_dims(beta, (1, 0, 2))), ridges.pick(intercept))
            for beta, intercept in self.of_landmarks(ridges.distinct, parts)
        ]


class FactoredModel(BasisModel):
    """Trained from factors of rows, in host memory."""

    def __init__(self, problem: Problem, design: Design, T: Any, report: dict[str, Any]) -> None:
        super().__init__(problem, design, T, report)
        root = problem.root_weight
        self._root = np.ones(problem.n) if root is None else as_vector(root)
        self._V = finite_kernel(features_of(design, self.source))
        self._Y = problem.targets

    def _factor(self, rows: Any) -> Factor:
        intercept = self.problem.fit_intercept
        return Factor.of(self._V[rows], self._Y[rows], self._root[rows], fit_intercept=intercept)

    def whitened(self) -> HostArray:
        return self._V

    @cached_property
    def _path(self) -> FactorPath:
        n, r = self._V.shape
        pieces = map_all(self._factor, spans(n, max(-(-n // _CHUNKS), 2 * (r + 1))))
        return FactorPath(Factor.union(pieces))

    def _factors(self, groups: Groups) -> list[Factor]:
        """The factor of each group."""
        if self._known is None or self._known[0] is not groups.label:
            members = [np.flatnonzero(groups.label == group) for group in range(groups.count)]
            self._known = groups.label, map_all(self._factor, members)
        return self._known[1]

    def _paths(self, groups: Groups, parts: int) -> list[FactorPath]:
        """The models without each of the first sets that were grouped."""
        factors = self._factors(groups)

        def train(members: Any) -> FactorPath:
            outside = np.setdiff1d(np.arange(len(factors)), members)
            return FactorPath(Factor.union([factors[group] for group in outside]))

        return map_all(train, groups.members[:parts])

    def trains_without(self, parts: Parts) -> bool:
        """Whether refits from the factors of groups are quick; many sets are not worth looking for."""
        width = self.design.size + 1
        if len(parts) * self.problem.n > _REFIT_WORK // width:
            return False
        rows = int(np.minimum(self.source.grouped_by(parts).sizes, width).sum())
        return len(parts) * (rows + 10 * width) * width**2 <= _REFIT_WORK

    @limit_blas(1)
    def leave_one_out(self, alphas: ArrayLike) -> Array:
        """Y_i − r_i / (R_b)_ii. O(n r²) time, and as much for each row of a tiny (R_b)_ii."""
        n, width = self._V.shape
        Y = self._Y
        diagonals = self.thin_smoother().diagonals(alphas)
        residuals = Y[None] - self._predict(self._path, slice(None), alphas)
        small = np.flatnonzero(diagonals.min(axis=0) < _SMALL_RESIDUAL)
        # Rounding may have left nothing, or less: those rows are refitted, or reported.
        out = Y[None] - residuals / np.maximum(diagonals, np.finfo(float).eps)[:, :, None]
        if small.size > int(_REFIT_WORK // max(1, n * width**2)):
            self.report["leave_one_out"] = (
                f"less accurate for {small.size} rows, whose leverage is near 1"
            )
            return out
        paths = map_all(lambda i: FactorPath(self._factor(np.delete(np.arange(n), i))), small)
        for row, path in zip(small, paths):
            out[:, row] = self._predict(path, [row], alphas)[:, 0]
        return out

    @limit_blas(1)
    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        if self.trains_without(parts):
            self.report["heldout"] = "factors"
            paths = self._paths(self.source.grouped_by(parts), len(parts))
            return [self._predict(path, rows, alphas) for path, rows in zip(paths, parts)]
        self.report["heldout"] = "block"
        found = self.thin_smoother().heldout(self._root[:, None] * self._Y, parts, alphas)
        return [values / self._root[rows][None, :, None] for values, rows in zip(found, parts)]

    def _predict(self, path: FactorPath, rows: Any, alphas: ArrayLike) -> Any:
        theta, intercept = path.coefficients(alphas)
        return predictions_of(self._V[rows] @ flat(theta), intercept)

    def _squared_error(self, groups: Groups, splits: int, alphas: ArrayLike) -> Any:
        factors = self._factors(groups)
        scores = np.empty((np.size(alphas), splits))
        for split, path in enumerate(self._paths(groups, splits)):
            here = [factors[group] for group in groups.members[splits + split]]
            theta, intercept = path.coefficients(alphas)
            error = sum(factor.squared_error(theta, intercept).mean(axis=1) for factor in here)
            scores[:, split] = error / sum(factor.weight for factor in here)
        return scores

    def in_features(self, alphas: ArrayLike, parts: Parts | None = None) -> Iterator[Solution]:
        grouped = None if parts is None else self.source.grouped_by(parts)
        paths = [self._path] if grouped is None else self._paths(grouped, len(grouped.members))
        return (path.coefficients(alphas) for path in paths)


class SummedModel(BasisModel):
    """Trained from sums over rows. They are collected when first needed."""

    @cached_property
    def total(self) -> Statistics:
        """The statistics of all rows, in the design's features."""
        return collect(self.design, self.source)[0]

    def whitened(self) -> HostArray:
        return finite_kernel(features_of(self.design, self.source, self.T))

    @cached_property
    def _path(self) -> RidgePath:
        return self._ridge_path(self.total)

    @limit_blas(1)
    def residual_squares(self, alphas: ArrayLike) -> HostArray:
        """From the sums; in a pass over the rows where their digits cancel."""
        squares = host_array(self._path.squares(alphas))
        totals = host_array(self._path.target_squares)
        lost = np.any(squares < _LEAST_SHARE * totals[None, :], axis=1)
        if lost.any():
            [(coef, intercept)] = self.in_features(as_vector(alphas)[lost])
            sums = ResidualSquares(self.design, flat(coef), intercept)
            squares[lost] = host_array(self.source.sums(sums, at_most=self.design.threads)[0])
        return squares

    def _ridge_path(self, statistics: Statistics) -> RidgePath:
        return RidgePath(statistics.rotated(self.T), fit_intercept=self.problem.fit_intercept)

    def _paths(self, groups: Groups, parts: int) -> FoldPaths:
        """The models without each of the first sets that were grouped."""
        if self._known is None or self._known[0] is not groups.label or self._known[1] != parts:
            statistics = collect(self.design, self.source, groups)
            if "total" not in vars(self):
                self.total = Statistics.total(statistics)
            left_out = groups.members[:parts]
            intercept = self.problem.fit_intercept
            paths = FoldPaths(statistics, left_out, self.T, lambda: self._path, fit_intercept=intercept)
            self._known = groups.label, parts, paths
        return self._known[2]

    def trains_without(self, parts: Parts) -> bool:
        return len(parts) <= _MANY_PARTS

    def _route(self, parts: Parts) -> str:
        """How to train without each of the sets: see the module's text."""
        if self.trains_without(parts) and self._held(self.source.grouped_by(parts)):
            return "subtraction"
        return "block" if max(len(rows) for rows in parts) <= self.design.size else "each set"

    def _held(self, groups: Groups) -> bool:
        return holds_groups(groups.count, self.design.size)

    def in_features(self, alphas: ArrayLike, parts: Parts | None = None) -> Iterator[Solution]:
        T = self.T
        if parts is None:
            found: Any = [self._path.coefficients(alphas)]
        elif self._route(parts) == "subtraction":
            paths = self._paths(self.source.grouped_by(parts), len(parts))
            T = paths.T
            found = paths.coefficients(alphas)
        else:  # their own statistics, subtracted from the total, O(|J| m²) for each
            rest = (self.total.less(collect(self.design, self.source.part(rows))) for rows in parts)
            found = (self._ridge_path(statistics).coefficients(alphas) for statistics in rest)
        return ((mapped(T, theta), intercept) for theta, intercept in found)

    @limit_blas(1)
    def leave_one_out(self, alphas: ArrayLike) -> Array:
        """Y_i − r_i / (1 − h_i), block by block. O(n m r) time beyond the statistics."""
        path = self._path
        T = self.T
        shrinkage = self._path.shrinkage(alphas)
        matrix = path.vectors if T is None else T @ path.vectors
        inner = path.in_vectors(alphas)
        intercept = path.coefficients(alphas)[1]
        ridges = asarray_like(np.reshape(alphas, -1), inner)
        xp = namespace(inner)

        def left_out_alone(block: Block) -> tuple[Array, Array]:
            features = self.design.times(block.X, matrix)
            fitted = predictions_of(features @ flat(inner), intercept)
            leverage = ((features - path.mean[None, :]) ** 2) @ shrinkage.T  # (rows, μ)
            if path.fit_intercept:
                leverage = leverage + 1.0 / path.weight
            if block.root is not None:
                leverage = leverage * block.root[:, None] ** 2
            # Rounding errors of the sums, over μ, are those of the leverage.
            lost = xp.any(_FEW_DIGITS * ridges[None, :] * (1.0 - leverage) < path.noise, axis=1)
            found = (block.Y[None, ...] - fitted) / (1.0 - leverage.T)[:, :, None]
            return block.Y[None, ...] - found, xp.sum(xp.astype(lost, xp.float64))

        out = zeros((np.size(alphas), *self.problem.Y.shape), self.problem.Y)
        lost = []
        for _, rows, (found, few) in self.source.map(left_out_alone, at_most=self.design.threads):
            out[:, rows, :] = asarray_like(found, out)
            lost.append(few)
        many = int(sum(float(few) for few in lost))
        if many:
            self.report["leave_one_out"] = f"less accurate for {many} rows, whose leverage is near 1"
        return out

    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        t = int(self.problem.Y.shape[1])
        out = [zeros((np.size(alphas), len(rows), t), self.problem.Y) for rows in parts]
        for part, places, values in self.heldout_blocks(parts, alphas):
            out[part][:, places, :] = asarray_like(values, out[part])
        return out

    def heldout_blocks(self, parts: Parts, alphas: ArrayLike) -> Iterator[tuple[int, Any, Array]]:
        """One pass for the statistics of all groups and one for all predictions, or part by part."""
        with limit_blas(1):
            route = self.report["heldout"] = self._route(parts)
            if route == "block":
                for number, rows in enumerate(parts):
                    yield number, slice(0, len(rows)), self._heldout_by_block(rows, alphas)
                return
            found = ((flat(coef), b) for coef, b in self.in_features(alphas, parts))
            if route == "each set":
                for number, ((coef, intercept), rows) in enumerate(zip(found, parts)):
                    for _, places, values in predict_groups(self.design, self.source.part(rows), [coef]):
                        yield number, places, predictions_of(values, intercept)
                return
            models = list(found)
            groups = self.source.grouped_by(parts)
            owners = _owners(groups, groups.members)
            xp = namespace(models[0][0])
            width = models[0][0].shape[1]
            together = [xp.concat([models[p][0] for p in o], axis=1) if o else None for o in owners]
            for group, rows, values in predict_groups(self.design, self.source, together, groups):
                numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
                for number, part in enumerate(owners[group]):
                    own = values[:, number * width : (number + 1) * width]
                    places = np.searchsorted(parts[part], numbers)
                    if places[-1] - places[0] + 1 == places.size:
                        places = slice(int(places[0]), int(places[-1]) + 1)
                    yield part, places, predictions_of(own, models[part][1])

    @limit_blas(1)
    def heldout_sums(
        self, left_out: Parts, tests: Parts, alphas: ArrayLike, terms: Any, carrier: Rows
    ) -> list[Array] | None:
        groups = self.source.grouped_by([*left_out, *tests]) if self.trains_without(left_out) else None
        if groups is None or groups.repeats or not self._held(groups):
            return None
        self.report["heldout"] = "subtraction"
        models = [(flat(coef), b) for coef, b in self.in_features(alphas, left_out)]
        owners = _owners(groups, groups.members[len(left_out) :])
        sums = HeldoutSums(self.design, [[models[part] for part in own] for own in owners], terms)
        totals: list[Any] = [0.0] * len(left_out)
        for own, found in zip(owners, carrier.sums(sums, groups, at_most=self.design.threads)):
            for number, part in enumerate(own):
                totals[part] = totals[part] + found[number]
        return totals

    def _heldout_by_block(self, rows: Index, alphas: ArrayLike) -> Array:
        """Few rows: e_J = (I − H_JJ)⁻¹ r_J from the model of all rows. O(|J| m r + |μ| |J|³)."""
        path = self._path
        features = self.design.times(self.source.sample(rows))
        features = features if self.T is None else features @ self.T
        xp = namespace(features)
        root = self.problem.root_weight
        root = asarray_like(np.ones(len(rows)) if root is None else take_rows(root, rows), features)
        y = asarray_like(take_rows(self.problem.Y, rows), features)
        theta, intercept = path.coefficients(alphas)
        residual = y[None, ...] - predictions_of(features @ flat(theta), intercept)
        centred = root[:, None] * (features @ path.vectors - path.mean[None, :])
        identity = asarray_like(np.eye(len(rows)), features)
        shrinkage = path.shrinkage(alphas)
        found = []
        for i in range(np.size(alphas)):
            hat = (centred * shrinkage[i, :][None, :]) @ centred.T
            if path.fit_intercept:
                hat = hat + outer(root, root / path.weight)
            error = xp.linalg.solve(identity - hat, root[:, None] * residual[i, ...])
            found.append(y - error / root[:, None])
        return xp.stack(found)

    def _squared_error(self, groups: Groups, splits: int, alphas: ArrayLike) -> Any | None:
        if not self._held(groups):
            return None
        paths = self._paths(groups, splits)
        tested = groups.members[splits:]
        here = [Statistics.total([paths.groups[g] for g in members]) for members in tested]
        found = [squared_error(s, *solution) for s, solution in zip(here, paths.coefficients(alphas))]
        xp = namespace(found[0])
        # All that the host sees of it: (splits, μ, targets), and the squares and weights of the splits.
        errors = host_array(xp.stack(found))
        squares = host_array(xp.stack([s.target_square for s in here]))
        if np.any(errors < _LEAST_SHARE * squares[:, None, :]):
            return None
        weights = np.array([float(s.weight) for s in here])
        return errors.mean(axis=2).T / weights[None, :]


def _owners(groups: Groups, members: Sequence[Index]) -> list[list[int]]:
    """For each group the sets whose `members` it is among."""
    found: list[list[int]] = [[] for _ in range(groups.count)]
    for number, own in enumerate(members):
        for group in own:
            found[group].append(number)
    return found


@dataclass(frozen=True)
class HeldoutSums:
    """Block → sums (models, μ, terms) over its rows: nothing that grows with their number travels."""

    design: Design
    models: Sequence[Any]  # for each group a list of (features, μ · targets) and (μ, targets)
    terms: Callable[[Any, Any], Any]  # predictions (μ, rows, targets), their targets → (μ, terms)

    def __call__(self, block: Block) -> Array | float:
        models = self.models[block.group]
        if not models:
            return 0.0
        xp = namespace(models[0][0])
        found = []
        width = models[0][0].shape[1]
        together = xp.concat([coefficients for coefficients, _ in models], axis=1)
        values = self.design.times(block.X, together)
        for number, (_, intercept) in enumerate(models):
            own = values[:, number * width : (number + 1) * width]
            found.append(self.terms(predictions_of(own, intercept), block.Y))
        return xp.stack(found)

    def zero(self, targets: int, reference: Array) -> float:
        return 0.0

    def placed(self, place: Callable[[Any], Any]) -> HeldoutSums:
        moved = [[tuple(map(place, model)) for model in models] for models in self.models]
        return HeldoutSums(self.design.placed(place), moved, self.terms)


@dataclass(frozen=True)
class ResidualSquares:
    """Block → Σ v (y − f)² of the block's rows, (μ, targets)."""

    design: Design
    coef: Any  # (features, μ · targets)
    intercept: Any  # (μ, targets)

    def __call__(self, block: Block) -> Array:
        fitted = predictions_of(self.design.times(block.X, self.coef), self.intercept)
        residual = block.Y[None, ...] - fitted
        if block.root is not None:
            residual = residual * block.root[None, :, None]
        return namespace(residual).sum(residual**2, axis=1)

    def zero(self, targets: int, reference: Array) -> Array:
        return zeros(self.intercept.shape, reference)

    def placed(self, place: Callable[[Any], Any]) -> ResidualSquares:
        return ResidualSquares(self.design.placed(place), place(self.coef), place(self.intercept))


class RowsModel(InnerWholeModel):
    """The landmarks train, all rows predict."""

    keep = True
    one_pass = True

    _inner: BasisModel

    def __init__(self, landmarks: BasisModel) -> None:
        self._inner = landmarks
        self.problem = landmarks.problem
        self.report = landmarks.report

    def leave_one_out(self, alphas: ArrayLike) -> Array:
        """By the formula at the head of the module. O(n² (d + r + |μ| t)) time."""
        return self.left_out_at(np.arange(self.problem.n), alphas)

    def left_out(self, rows: Index, alpha: float) -> tuple[Index, Array]:
        return rows, self.left_out_at(rows, [alpha])[0, ...]

    @limit_blas(1)
    def left_out_at(self, rows: Index, alphas: ArrayLike) -> Array:
        """Some rows, each predicted from all others: (μ, rows, targets)."""
        problem = self.problem
        landmarks = self._inner
        mu = as_vector(alphas)
        errors = problem.targets[None, ...] - host_array(landmarks.leave_one_out(alphas))
        V = landmarks.whitened()
        smoother = landmarks.thin_smoother()
        values = smoother.values
        U = smoother.columns
        weight = np.ones(problem.n) if problem.weight is None else problem.weight
        root = np.sqrt(weight)
        X = take_rows(problem.X, rows)

        def times_difference(columns: HostArray) -> HostArray:
            """(K − K̃)·columns at the rows, for columns (n, number)."""
            true = self._product(X, problem.X, columns[:, :, None])[:, :, 0]
            return true - V[rows] @ (V.T @ columns)

        solutions = landmarks.of_landmarks(alphas)
        _, dual, _ = next(self._duals(solutions, mu[:, None], [np.arange(0)]))
        change = times_difference(dual.reshape(problem.n, -1)).reshape(rows.size, mu.size, -1)
        diagonal = as_vector(landmarks.design.kernel.diagonal(X)) - np.sum(V[rows] ** 2, axis=1)
        # Row by row the diagonal of (K − K̃) S R_b S, R_b = I − s sᵀ/sᵀs − U [λ/(λ+μ)] Uᵀ.
        product = np.tile(weight[rows] * diagonal, (mu.size, 1))
        if problem.fit_intercept:
            product -= (weight[rows] * times_difference(weight[:, None])[:, 0] / weight.sum())[None, :]
        inner = root[rows, None] * U[rows] * times_difference(root[:, None] * U)
        product -= (values[None, :] / (values[None, :] + mu[:, None])) @ inner.T
        product /= mu[:, None]
        left_out = problem.targets[rows] - (1.0 + product[:, :, None]) * errors[:, rows]
        return asarray_like(left_out + change.transpose(1, 0, 2), problem.Y)

    @limit_blas(1)
    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        """Train without J, then K[J, rest] α. O(n²) kernel values for a partition."""
        X = self.problem.X
        solutions = self._inner.of_landmarks(alphas, parts)
        trained = self._duals(solutions, np.reshape(alphas, (-1, 1)), parts)
        predictions = []
        for (rest, dual, intercept), rows in zip(trained, parts):
            values = self._product(take_rows(X, rows), take_rows(X, rest), dual)
            predictions.append(values.transpose(1, 0, 2) + intercept[:, None, :])
        return predictions

    def _product(self, rows: Any, centres: Any, coef: Any) -> Any:
        """[k(x_i, z_j)] · coef for coef (centres, μ, targets), NumPy."""
        columns = asarray_like(coef.reshape(coef.shape[0], -1), self.problem.X)
        values = kernel_product(self._inner.design.kernel, rows, centres, columns)
        return host_array(values).reshape(-1, *coef.shape[1:])

    def _duals(
        self, solutions: Sequence[Solution], mu: Any, parts: Parts
    ) -> Iterator[tuple[Index, Any, Any]]:
        """The rows outside each part, their α (rows, μ, t), `mu` being (μ, 1) or (1, t), and b."""
        problem = self.problem
        landmarks = self._inner.design.landmarks
        for solution, rows in zip(solutions, parts):
            rest = np.delete(np.arange(problem.n), rows)
            beta, intercept = map(host_array, solution)
            fitted = self._product(take_rows(problem.X, rest), landmarks, beta)
            residual = problem.targets[rest][:, None, :] - fitted - intercept[None]
            weight = 1.0 if problem.weight is None else problem.weight[rest, None, None]
            yield rest, weight * residual / mu[None], intercept

    @limit_blas(1)
    def expansion(self, alpha: ArrayLike, parts: Parts | None = None) -> Expansion:
        """Coefficients of all rows without each part, 0 for its own, from those of the landmarks."""
        n, t = self.problem.Y.shape
        X = self.problem.X
        landmarks = self._inner
        solutions = [(beta[:, None, :], b[None, :]) for beta, b in landmarks.solved(alpha, parts)]
        coef = np.zeros((n, len(solutions), t))
        level = np.zeros((len(solutions), t))
        trained = self._duals(solutions, np.broadcast_to(alpha, (1, t)), parts or [np.arange(0)])
        for number, (rest, dual, intercept) in enumerate(trained):
            coef[rest, number] = dual[:, 0]
            level[number] = intercept[0]
        arrays = (asarray_like(values, X) for values in (coef.reshape(n, -1), level.reshape(-1)))
        return Expansion(landmarks.design.kernel, X, *arrays)

    def final_report(self, alpha: ArrayLike, expansion: Expansion) -> dict[str, Any]:
        return self._inner.final_report(alpha, expansion)

    def fold_models(self, parts: Parts, alpha: ArrayLike) -> FoldModels | None:
        known = self._inner.trains_without(parts)
        return FoldModels.of(self.expansion(alpha, parts), len(parts)) if known else None
