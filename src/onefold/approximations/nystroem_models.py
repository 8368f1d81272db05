r"""Basis models: f(x) = Σ_{j∈S} β_j k(x, z_j) + b, the penalty βᵀK_SSβ, all n residuals in the loss.

V = Φ T are the whitened features, θ their coefficients, β = T θ, and λ the eigenvalues of VᵀV about its
means. How a model is trained without a set of rows J, and what it then predicts for J:

    FactoredModel   "factors"       factors of the groups outside J, stacked (basis/factors.py)
                    "block"         the residual operator R_b of all rows, by (1)
    SummedModel     "subtraction"   sums of all groups, less those of J (basis/folds.py)
                    "each set"      the same with a pass over J for each J
                    "block"         the residual operator R_b of all rows, by (1)

`FactoredModel` trains few rows from triangular factors of them: as exact as refits by QR. The whitened
features of all rows are held. Sets that are too many for refits go through the residual operator, and
so does leave-one-out. There only orthonormal columns stand for V, and (R_b)_ii has the absolute error
eps; a row whose value is so small that this matters is left out literally.

`SummedModel` trains many rows from statistics that add over them. One pass over the rows collects them
for every group of rows that the splitter moves together; any splitter is served by it as long as the
groups' Gram matrices fit the scratch limit. Everything runs where the rows are worked on; what comes to
the host is as small as the answer.

With S the diagonal of √weights and r the residuals of the model of all rows,

    f_J = y_J − S_J⁻¹ (R_b)_JJ⁻¹ S_J r_J                                                          (1)
    (R_b)_JJ = I − s_J s_Jᵀ / sᵀs − Ṽ_J (D + μ)⁻¹ Ṽ_Jᵀ                                            (2)

Ṽ being S V about its means in the eigenvectors; without an intercept the term of s is absent.

Of the whole R_b, with w = μ/(λ+μ) for each of the r directions, and c = n − 1 contrasts (n without an
intercept),

    tr R_b = c − r + Σ w                                                                          (3)
    log det = c log μ − Σ log w                                                                   (4)
    yᵀR_b y = Σ v (y − f)² + μ ‖θ‖²                                                               (5)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from onefold.approximations.model import WholeModel
from onefold.approximations.problem import Parts, Problem, TargetRidges
from onefold.basis import (
    Coefficients,
    Design,
    RidgePath,
    Statistics,
    as_columns,
    collect,
    mapped,
    predictions_of,
)
from onefold.basis.error import decision_bound, decision_change, kernel_error
from onefold.basis.factors import Factor, FactorPath, FoldFactors
from onefold.basis.folds import FoldPaths, GroupSums
from onefold.basis.residuals import HeldoutSums, ResidualSquares
from onefold.basis.statistics import features_of, finite_kernel, holds_groups, predict_groups
from onefold.expansions import Expansion, FoldModels
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
from onefold.rows import Block, GroupedSplits, Groups, Rows
from onefold.smoothers import ThinSmoother

Route: TypeAlias = Literal["subtraction", "each set", "block"]

# Pieces of the rows that are factorised side by side.
_PIECES = 8
# Multiply-adds that literal refits may take: some seconds on a core.
_REFIT_WORK = 10**11
# Smallest (R_b)_ii: the rounding errors of a smaller one reach its tenth digit.
_SMALL_RESIDUAL = 1e-7
# Sets above which one eigendecomposition for each costs more than its block of R.
_MANY_PARTS = 64
# Relative error of 1 − h above which a leverage is not to be relied on.
_LEVERAGE_ERROR = 1e-3
# Share of Σ v y² below which a squared error has lost its digits to cancellation.
_LEAST_SHARE = 1e-7


class BasisModel(WholeModel):
    """One kernel, its landmarks and every μ; one BLAS thread, whose digits are always the same."""

    keep = True
    one_pass = True

    def __init__(
        self,
        problem: Problem,
        design: Design,
        T: Array | None,
        report: dict[str, Any],
        parts: Parts | None = None,
    ) -> None:
        """`parts` are the sets of rows that will be left out in turn, where they are known."""
        self.problem = problem
        self.source = problem.source
        self.report = report
        self.design = design
        self.T = T  # (m, r), from features to whitened coordinates; None: they are
        self._planned_parts = parts

    @property
    @abstractmethod
    def _whole_path(self) -> RidgePath | FactorPath:
        """The model of all rows, for any μ."""

    @abstractmethod
    def whitened(self) -> HostArray:
        """V of all rows (n, r), in host memory."""

    def trace(self, alphas: ArrayLike) -> HostArray:
        """(3)."""
        factors = self._residual_factors(alphas)
        return self._n_contrasts - factors.shape[1] + factors.sum(axis=1)

    def logdet(self, alphas: ArrayLike) -> HostArray:
        """(4)."""
        log_factors = np.log(self._residual_factors(alphas)).sum(axis=1)
        return self._n_contrasts * np.log(as_vector(alphas)) - log_factors

    @property
    def _n_contrasts(self) -> int:
        """The number of directions orthogonal to the border."""
        return self.problem.n - int(self.problem.fit_intercept)

    @limit_blas(1)
    def _residual_factors(self, alphas: ArrayLike) -> HostArray:
        """w of each direction of V: (μ, r)."""
        return host_array(self._whole_path.residual_factors(alphas))

    @limit_blas(1)
    def residual_squares(self, alphas: ArrayLike) -> HostArray:
        return host_array(self._whole_path.squared_errors(alphas))

    def least_costs(self, alphas: ArrayLike) -> HostArray:
        """(5)."""
        squared_norms = host_array(self._whole_path.squared_norms(alphas))
        return self.residual_squares(alphas) + as_vector(alphas)[:, None] * squared_norms

    @limit_blas(1)
    def kernel_matrix(self) -> HostArray:
        """K̃ = V Vᵀ."""
        V = self.whitened()
        return V @ V.T

    def thin_smoother(self) -> ThinSmoother:
        """The smoother of U λ Uᵀ = S V Vᵀ S about its mean. O(n r²) time; about three arrays like V."""
        weight = self.problem.weight
        start = int(self.problem.fit_intercept)
        root = np.ones(self.problem.n) if weight is None else np.sqrt(weight)
        Q, R = np.linalg.qr(np.hstack([root[:, None]] * start + [root[:, None] * self.whitened()]))
        P, singular_values, _ = np.linalg.svd(R[start:, start:], full_matrices=False)
        return ThinSmoother(Q[:, start:] @ P, singular_values**2, root if start else None)

    @abstractmethod
    def trains_without(self, parts: Parts) -> bool:
        """Whether the sets are few enough for a model without each."""

    @abstractmethod
    def feature_coefficients(
        self, alphas: ArrayLike, parts: Parts | None = None
    ) -> Iterable[Coefficients]:
        """Coefficients of the design's features: of all rows, or without each of some sets."""

    @cached_property
    def _planned(self) -> GroupedSplits | None:
        """The groups of the sets that will be left out in turn."""
        return None if self._planned_parts is None else self.source.grouped_by(self._planned_parts)

    def _splits_of(self, left_out: Parts, tests: Parts | None = None) -> GroupedSplits:
        """Splits in the groups of the planned parts where they are unions of these, or in their own."""
        splits = self.source.grouped_by(left_out, tests)
        if self._planned is None or splits is self._planned:
            return splits
        return _regrouped(splits, self._planned.groups, left_out, tests) or splits

    @abstractmethod
    def _squared_error(self, splits: GroupedSplits, alphas: ArrayLike) -> HostArray | None:
        """Mean squared errors (μ, splits) over the rows tested; None where digits were lost."""

    @limit_blas(1)
    def heldout_squared_error(
        self, left_out: Parts, tests: Parts, alphas: ArrayLike
    ) -> HostArray | None:
        """Errors from sums or factors; None where rows are tested repeatedly or digits are lost."""
        if not self.trains_without(left_out):
            return None
        splits = self._splits_of(left_out, tests)
        return None if splits.groups.repeats else self._squared_error(splits, alphas)

    def expansion(self, alpha: ArrayLike, parts: Parts | None = None) -> Expansion:
        """The model of all rows, or the models without each part side by side."""
        models = self.coefficients_at(alpha, parts)
        xp = namespace(models[0][0])
        coef = xp.concat([beta for beta, _ in models], axis=-1)
        intercept = xp.concat([intercept for _, intercept in models], axis=-1)
        return Expansion(self.design.kernel, self.design.landmarks, coef, intercept)

    def fold_models(self, parts: Parts, alpha: ArrayLike) -> FoldModels | None:
        if not self.trains_without(parts):
            return None
        return FoldModels.of(self.expansion(alpha, parts), len(parts))

    @limit_blas(1)
    def final_report(self, alpha: ArrayLike, expansion: Expansion) -> dict[str, Any]:
        """The report with ‖K − K̃‖₂ and ding2012's bound; warns of a ridge that rounding hides."""
        problem = self.problem
        error = kernel_error(self.design, self.T, self.source, seed=0)
        self.report["kernel_error"] = error.norm
        self.report["kernel_error_rows"] = error.rows
        self.report["decision_bound"] = decision_bound(
            error, problem.targets, problem.weight, as_vector(expansion.intercept), alpha
        )
        if not (problem.remote or problem.streamed):
            self.report["decision_change"] = self._decision_change(alpha)
        smallest = float(np.min(alpha))
        rounding = self.report.get("rounding_ridge", 0.0)
        unit = problem.alpha_unit
        if smallest < rounding:
            warn_user(
                f"alpha={smallest * unit:.2g} is below {rounding * unit:.1e}, the size of rounding "
                f"errors in sums over {problem.n} rows, so that predictions may be inaccurate; "
                "use a larger alpha, fewer landmarks, or a larger gamma."
            )
        return self.report

    def _decision_change(self, alpha: ArrayLike) -> float:
        """How far f is from that of the true kernel at the rows, estimated from a sample of them."""
        ridges = TargetRidges(alpha, self.problem.Y.shape[1])
        [(theta, intercept)] = self.feature_coefficients(ridges.distinct)
        design = self.design
        coef = ridges.pick(namespace(theta).permute_dims(theta, (1, 0, 2)))
        return decision_change(
            design,
            self.source,
            self.problem.weight,
            asarray_like(coef, design.landmarks),
            asarray_like(ridges.pick(intercept), design.landmarks),
            ridges.by_target,
            seed=0,
        )

    @limit_blas(1)
    def landmark_coefficients(self, alphas: ArrayLike, parts: Parts | None = None) -> list[Coefficients]:
        """The same models by β of the landmarks (m, μ, targets)."""
        models = []
        for theta, intercept in self.feature_coefficients(alphas, parts):
            beta = mapped(self.design.mix, asarray_like(theta, self.design.landmarks))
            models.append(Coefficients(beta, asarray_like(intercept, self.design.landmarks)))
        return models

    def coefficients_at(self, alpha: ArrayLike, parts: Parts | None = None) -> list[tuple[Array, Array]]:
        """β (m, targets) and b (targets,) for one μ or one per target."""
        ridges = TargetRidges(alpha, self.problem.Y.shape[1])
        return [
            (ridges.pick(namespace(beta).permute_dims(beta, (1, 0, 2))), ridges.pick(intercept))
            for beta, intercept in self.landmark_coefficients(ridges.distinct, parts)
        ]


class FactoredModel(BasisModel):
    """Trained from factors of rows, in host memory."""

    def __init__(
        self, problem: Problem, design: Design, report: dict[str, Any], parts: Parts | None = None
    ) -> None:
        super().__init__(problem, design, None, report, parts)
        root = problem.root_weight
        self._root = np.ones(problem.n) if root is None else as_vector(root)
        self._V = finite_kernel(features_of(design, self.source))
        self._Y = problem.targets
        self._last_factors: tuple[Groups, list[Factor]] | None = None  # of `_factors_of`

    def _factor(self, rows: slice | Index) -> Factor:
        intercept = self.problem.fit_intercept
        return Factor.of(self._V[rows], self._Y[rows], self._root[rows], fit_intercept=intercept)

    def whitened(self) -> HostArray:
        return self._V

    @cached_property
    def _whole_path(self) -> FactorPath:
        n, r = self._V.shape
        pieces = map_all(self._factor, spans(n, max(-(-n // _PIECES), 2 * (r + 1))))
        return FactorPath(Factor.union(pieces))

    def _factors_of(self, groups: Groups) -> list[Factor]:
        """The factor of each group; what was computed last is kept."""
        if self._last_factors is None or self._last_factors[0] is not groups:
            members = [np.flatnonzero(groups.label == group) for group in range(groups.count)]
            self._last_factors = groups, map_all(self._factor, members)
        return self._last_factors[1]

    def _without(self, splits: GroupedSplits) -> FoldFactors:
        return FoldFactors(self._factors_of(splits.groups), splits)

    def trains_without(self, parts: Parts) -> bool:
        """Whether refits from the factors of groups are quick; many sets are not worth looking for."""
        width = self.design.size + 1
        if len(parts) * self.problem.n > _REFIT_WORK // width:
            return False
        sizes = self.source.grouped_by(parts).groups.sizes
        rows = int(np.minimum(sizes, width).sum())
        return len(parts) * (rows + 10 * width) * width**2 <= _REFIT_WORK

    @limit_blas(1)
    def leave_one_out(self, alphas: ArrayLike) -> Array:
        """(1) for each row. O(n r²) time, and as much for each row of a tiny (R_b)_ii."""
        n, width = self._V.shape
        Y = self._Y
        diagonals = self.thin_smoother().diagonals(alphas)
        residuals = Y[None] - self._predict(self._whole_path, slice(None), alphas)
        small = np.flatnonzero(diagonals.min(axis=0) < _SMALL_RESIDUAL)
        # Rounding may have left nothing, or less: those rows are refitted, or reported.
        positive = np.maximum(diagonals, np.finfo(float).eps)
        predictions = Y[None] - residuals / positive[:, :, None]
        if small.size > int(_REFIT_WORK // max(1, n * width**2)):
            self.report["leave_one_out"] = (
                f"less accurate for {small.size} rows, whose leverage is near 1"
            )
            return predictions
        paths = map_all(lambda row: FactorPath(self._factor(np.delete(np.arange(n), row))), small)
        for row, path in zip(small, paths):
            predictions[:, row] = self._predict(path, [row], alphas)[:, 0]
        return predictions

    @limit_blas(1)
    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        if self.trains_without(parts):
            self.report["heldout"] = "factors"
            paths = self._without(self._splits_of(parts)).paths()
            return [self._predict(path, rows, alphas) for path, rows in zip(paths, parts)]
        self.report["heldout"] = "block"
        scaled = self.thin_smoother().heldout(self._root[:, None] * self._Y, parts, alphas)
        return [values / self._root[rows][None, :, None] for values, rows in zip(scaled, parts)]

    def _predict(self, path: FactorPath, rows: Any, alphas: ArrayLike) -> HostArray:
        theta, intercept = path.coefficients(alphas)
        return predictions_of(self._V[rows] @ as_columns(theta), intercept)

    def _squared_error(self, splits: GroupedSplits, alphas: ArrayLike) -> HostArray:
        return self._without(splits).squared_error(alphas)

    def feature_coefficients(
        self, alphas: ArrayLike, parts: Parts | None = None
    ) -> Iterable[Coefficients]:
        if parts is None:
            return [self._whole_path.coefficients(alphas)]
        return self._without(self._splits_of(parts)).coefficients(alphas)


class SummedModel(BasisModel):
    """Trained from sums over rows. They are collected when first needed."""

    _last_sums: tuple[Groups, GroupSums] | None = None  # of `_sums_of`, besides the planned ones
    _last_paths: tuple[GroupedSplits, FoldPaths] | None = None  # of `_without`

    @cached_property
    def _planned_sums(self) -> GroupSums | None:
        """Sums in the groups of the planned parts; None where these are not trained by subtraction."""
        if self._planned_parts is None or self._route(self._planned_parts) != "subtraction":
            return None
        return self._collected(self._splits_of(self._planned_parts).groups)

    @cached_property
    def total(self) -> Statistics:
        """The statistics of all rows, in the design's features."""
        if self._planned_sums is not None:
            return self._planned_sums.total
        return collect(self.design, self.source)[0]

    @cached_property
    def _whole_path(self) -> RidgePath:
        if self._planned_sums is not None:
            return self._planned_sums.all_rows
        return self._path_of(self.total)

    def _path_of(self, statistics: Statistics) -> RidgePath:
        return RidgePath(statistics.rotated(self.T), fit_intercept=self.problem.fit_intercept)

    def _collected(self, groups: Groups) -> GroupSums:
        statistics = collect(self.design, self.source, groups)
        return GroupSums(statistics, self.T, fit_intercept=self.problem.fit_intercept)

    def _sums_of(self, groups: Groups) -> GroupSums:
        """Sums in these groups: the planned ones, or those collected last, or new ones."""
        planned = self._planned is not None and groups is self._planned.groups
        if planned and self._planned_sums is not None:
            return self._planned_sums
        if self._last_sums is None or self._last_sums[0] is not groups:
            self._last_sums = groups, self._collected(groups)
        return self._last_sums[1]

    def _without(self, splits: GroupedSplits) -> FoldPaths:
        """The models of the splits; those of the last ones are kept."""
        if self._last_paths is None or self._last_paths[0] is not splits:
            self._last_paths = splits, FoldPaths(self._sums_of(splits.groups), splits)
        return self._last_paths[1]

    def whitened(self) -> HostArray:
        return finite_kernel(features_of(self.design, self.source, self.T))

    @limit_blas(1)
    def residual_squares(self, alphas: ArrayLike) -> HostArray:
        """Squares from the sums, or from a pass over the rows where digits of the sums cancel."""
        squares = host_array(self._whole_path.squared_errors(alphas))
        totals = host_array(self._whole_path.target_squares)
        cancelled = np.any(squares < _LEAST_SHARE * totals[None, :], axis=1)
        if cancelled.any():
            [(theta, intercept)] = self.feature_coefficients(as_vector(alphas)[cancelled])
            block_sum = ResidualSquares(self.design, as_columns(theta), intercept)
            [sums] = self.source.sums(block_sum, at_most=self.design.threads)
            squares[cancelled] = host_array(sums)
        return squares

    def trains_without(self, parts: Parts) -> bool:
        return len(parts) <= _MANY_PARTS

    def _route(self, parts: Parts) -> Route:
        """How to train without each of the sets: see the module's text."""
        if self.trains_without(parts) and self._holds(self._splits_of(parts)):
            return "subtraction"
        return "block" if max(len(rows) for rows in parts) <= self.design.size else "each set"

    def _holds(self, splits: GroupedSplits) -> bool:
        """Whether the sums of all groups are held side by side."""
        return holds_groups(splits.groups.count, self.design.size)

    def feature_coefficients(
        self, alphas: ArrayLike, parts: Parts | None = None
    ) -> Iterable[Coefficients]:
        if parts is None:
            theta, intercept = self._whole_path.coefficients(alphas)
            return [Coefficients(mapped(self.T, theta), intercept)]
        if self._route(parts) != "subtraction":
            return self._of_each_set(alphas, parts)
        splits = self._splits_of(parts)
        T = self._sums_of(splits.groups).T
        return [
            Coefficients(mapped(T, theta), intercept)
            for theta, intercept in self._without(splits).coefficients(alphas)
        ]

    def _of_each_set(self, alphas: ArrayLike, parts: Parts) -> Iterator[Coefficients]:
        """From the statistics of each set, less than those of all rows: O(|J| m²) for each."""
        for rows in parts:
            training = self.total.less(collect(self.design, self.source.part(rows)))
            theta, intercept = self._path_of(training).coefficients(alphas)
            yield Coefficients(mapped(self.T, theta), intercept)

    @limit_blas(1)
    def leave_one_out(self, alphas: ArrayLike) -> Array:
        """(1) for each row, block by block. O(n m r) time beyond the statistics."""
        path = self._whole_path
        shrinkage = path.shrinkage(alphas)
        to_vectors = path.vectors if self.T is None else self.T @ path.vectors
        in_vectors = path.in_vectors(alphas)
        intercept = path.coefficients(alphas).intercept
        ridges = asarray_like(np.reshape(alphas, -1), in_vectors)
        xp = namespace(in_vectors)

        def predict_block(block: Block) -> tuple[Array, Array]:
            """Predictions (μ, rows, targets), and the number of rows whose leverage is near 1."""
            features = self.design.times(block.X, to_vectors)
            fitted = predictions_of(features @ as_columns(in_vectors), intercept)
            leverage = ((features - path.mean[None, :]) ** 2) @ shrinkage.T  # (rows, μ)
            if path.fit_intercept:
                leverage = leverage + 1.0 / path.weight
            if block.root is not None:
                leverage = leverage * block.root[:, None] ** 2
            # Rounding errors of the sums, over μ, are those of the leverage.
            inaccurate = xp.any(
                _LEVERAGE_ERROR * ridges[None, :] * (1.0 - leverage) < path.rounding, axis=1
            )
            errors = (block.Y[None, ...] - fitted) / (1.0 - leverage.T)[:, :, None]
            return block.Y[None, ...] - errors, xp.sum(xp.astype(inaccurate, xp.float64))

        predictions = zeros((np.size(alphas), *self.problem.Y.shape), self.problem.Y)
        counts = []
        for _, rows, (values, count) in self.source.map(predict_block, at_most=self.design.threads):
            predictions[:, rows, :] = asarray_like(values, predictions)
            counts.append(count)
        n_inaccurate = int(sum(float(count) for count in counts))
        if n_inaccurate:
            self.report["leave_one_out"] = (
                f"less accurate for {n_inaccurate} rows, whose leverage is near 1"
            )
        return predictions

    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        n_targets = int(self.problem.Y.shape[1])
        shapes = [(np.size(alphas), len(rows), n_targets) for rows in parts]
        predictions = [zeros(shape, self.problem.Y) for shape in shapes]
        for part, places, values in self.heldout_blocks(parts, alphas):
            predictions[part][:, places, :] = asarray_like(values, predictions[part])
        return predictions

    def heldout_blocks(self, parts: Parts, alphas: ArrayLike) -> Iterator[tuple[int, Any, Array]]:
        """One pass for the statistics of all groups and one for all predictions, or part by part."""
        with limit_blas(1):
            route = self._route(parts)
            self.report["heldout"] = route
            if route == "subtraction":
                yield from self._heldout_by_groups(parts, alphas)
            elif route == "block":
                for number, rows in enumerate(parts):
                    yield number, slice(0, len(rows)), self._heldout_by_operator(rows, alphas)
            else:
                for number, (theta, intercept) in enumerate(self._of_each_set(alphas, parts)):
                    columns = as_columns(theta)
                    part = self.source.part(parts[number])
                    for _, positions, values in predict_groups(self.design, part, [columns]):
                        yield number, positions, predictions_of(values, intercept)

    def _heldout_by_groups(self, parts: Parts, alphas: ArrayLike) -> Iterator[tuple[int, Any, Array]]:
        """Each block of a group by the models of all parts that the group belongs to."""
        splits = self._splits_of(parts)
        models = self._column_models(parts, alphas)
        xp = namespace(models[0].theta)
        width = models[0].theta.shape[1]
        owners = _owners(splits.groups, splits.left_out)
        columns = [
            xp.concat([models[part].theta for part in numbers], axis=1) if numbers else None
            for numbers in owners
        ]
        blocks = predict_groups(self.design, self.source, columns, splits.groups)
        for group, rows, values in blocks:
            row_numbers = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
            for place, part in enumerate(owners[group]):
                positions: Any = np.searchsorted(parts[part], row_numbers)
                if positions[-1] - positions[0] + 1 == positions.size:
                    positions = slice(int(positions[0]), int(positions[-1]) + 1)
                model_values = values[:, place * width : (place + 1) * width]
                yield part, positions, predictions_of(model_values, models[part].intercept)

    def _column_models(self, parts: Parts, alphas: ArrayLike) -> list[Coefficients]:
        """The models without each part, θ as a matrix (features, μ · targets)."""
        return [
            Coefficients(as_columns(theta), intercept)
            for theta, intercept in self.feature_coefficients(alphas, parts)
        ]

    @limit_blas(1)
    def heldout_sums(
        self, left_out: Parts, tests: Parts, alphas: ArrayLike, terms: Any, targets_by_row: Rows
    ) -> list[Array] | None:
        if not self.trains_without(left_out):
            return None
        splits = self._splits_of(left_out, tests)
        if splits.groups.repeats or not self._holds(splits):
            return None
        self.report["heldout"] = "subtraction"
        models = self._column_models(left_out, alphas)
        owners = _owners(splits.groups, splits.tests)
        models_by_group = [[models[part] for part in numbers] for numbers in owners]
        block_sum = HeldoutSums(self.design, models_by_group, terms)
        sums = targets_by_row.sums(block_sum, splits.groups, at_most=self.design.threads)
        totals: list[Any] = [0.0] * len(left_out)
        for numbers, group_sums in zip(owners, sums):
            for place, part in enumerate(numbers):
                totals[part] = totals[part] + group_sums[place]
        return totals

    def _heldout_by_operator(self, rows: Index, alphas: ArrayLike) -> Array:
        """(1) for few rows, I − (R_b)_JJ being the hat matrix H_JJ. O(|J| m r + |μ| |J|³)."""
        path = self._whole_path
        features = self.design.times(self.source.sample(rows))
        features = features if self.T is None else features @ self.T
        xp = namespace(features)
        root = self.problem.root_weight
        root = asarray_like(np.ones(len(rows)) if root is None else take_rows(root, rows), features)
        y = asarray_like(take_rows(self.problem.Y, rows), features)
        theta, intercept = path.coefficients(alphas)
        residual = y[None, ...] - predictions_of(features @ as_columns(theta), intercept)
        centred = root[:, None] * (features @ path.vectors - path.mean[None, :])
        identity = asarray_like(np.eye(len(rows)), features)
        shrinkage = path.shrinkage(alphas)
        predictions = []
        for i in range(np.size(alphas)):
            hat = (centred * shrinkage[i, :][None, :]) @ centred.T
            if path.fit_intercept:
                hat = hat + outer(root, root / path.weight)
            error = xp.linalg.solve(identity - hat, root[:, None] * residual[i, ...])
            predictions.append(y - error / root[:, None])
        return xp.stack(predictions)

    def _squared_error(self, splits: GroupedSplits, alphas: ArrayLike) -> HostArray | None:
        return self._without(splits).squared_error(alphas) if self._holds(splits) else None


def _regrouped(
    splits: GroupedSplits, groups: Groups, left_out: Parts, tests: Parts | None
) -> GroupedSplits | None:
    """The splits in other groups; None where some set is no union of these."""
    if splits.groups.repeats:
        return None
    members = [groups.members_of(rows) for rows in left_out]
    tested = members if tests is None else [groups.members_of(rows) for rows in tests]
    if any(numbers is None for numbers in [*members, *tested]):
        return None
    return GroupedSplits(groups, cast(list[Index], members), cast(list[Index], tested))


def _owners(groups: Groups, members: Sequence[Index]) -> list[list[int]]:
    """The sets that each group is a member of, by their `members`."""
    owners: list[list[int]] = [[] for _ in range(groups.count)]
    for number, group_numbers in enumerate(members):
        for group in group_numbers:
            owners[group].append(number)
    return owners
