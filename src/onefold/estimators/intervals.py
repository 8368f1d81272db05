"""`predict_interval` and `predict_quantiles`: bounds from the residuals of held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from onefold.approximations import Model, Run
from onefold.calibration import ConformalIntervals
from onefold.calibration.intervals import METHODS
from onefold.estimators.base import KernelRegressor
from onefold.estimators.conformal import (
    Conformed,
    HeldOut,
    conform,
    heldout_of,
    parts_for,
    rows_at_once,
    unshuffled_folds,
)
from onefold.estimators.final import Final
from onefold.estimators.frames import framed
from onefold.estimators.lazy import lazy_predictions
from onefold.estimators.spread import spread_at
from onefold.estimators.validation import check_rows
from onefold.expansions import FoldModels
from onefold.kernels import Kernel, Precomputed
from onefold.linalg import all_finite, like, to_numpy
from onefold.machine.memory import require_memory
from onefold.machine.threads import spans
from onefold.rows import is_dask
from onefold.search import Outcome
from onefold.search.setup import Setup

_MANY_FOLDS = 64
_LARGEST_MODELS = 2**24  # coefficients of many folds that are kept unasked; beyond, f itself serves
_JACKKNIFE_ARRAYS = 8  # of n × n for each target, while the n models are made


def _wanted(estimator: Any) -> bool:
    """Whether intervals were asked for; the AttributeError says how to."""
    if estimator.intervals is None:
        raise AttributeError(
            f'{type(estimator).__name__} has intervals=None; use intervals="cv+" and fit again.'
        )
    return True


class IntervalRegressor(KernelRegressor):
    """Regression with conformal intervals."""

    intervals: str | None
    intervals_: ConformalIntervals | None
    fold_models_: FoldModels | None
    spread_models_: FoldModels | None
    conformity_scores_: Any

    @available_if(_wanted)
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        r"""Bounds between which y lies with the given coverage: (rows, 2), the lower one first.

        For y of two dimensions (rows, targets, 2), each target by itself. A data frame gives a frame
        with the columns "lower" and "upper" ("lower_0" and so on of several targets) and its index.
        Infinite, with a warning, where there are too few held-out residuals. O(rows · (m k + k log² N))
        time for k fold models of m centres and N residuals; see docs/intervals.md.
        """
        share = _check_share(coverage, "coverage")
        if is_dask(X):
            return self._lazily("predict_interval", X, ["lower", "upper"], coverage=share)
        intervals = self._fitted_intervals()
        intervals.warn_if_too_few([max(share, 0.5)])
        values = self._by_blocks(X, lambda f, s: intervals.bounds(f, share, s), 2)
        return self._shaped(values, X, ["lower", "upper"])

    @available_if(_wanted)
    def predict_quantiles(self, X: Any, quantiles: Any) -> Any:
        r"""The given quantiles of y at each row: (rows, quantiles), or (rows, targets, quantiles).

        Order statistics of f_s(x) + r_i over the held-out residuals r_i, which rise with the quantile. A
        data frame gives a frame with its index whose columns are named "0.1" and so on.
        """
        asked = [_check_share(q, "quantiles") for q in np.atleast_1d(np.asarray(quantiles)).tolist()]
        if not asked:
            raise ValueError("quantiles is empty; give numbers between 0 and 1.")
        names = [str(q) for q in asked]
        if is_dask(X):
            return self._lazily("predict_quantiles", X, names, quantiles=asked)
        intervals = self._fitted_intervals()
        intervals.warn_if_too_few(asked)
        values = self._by_blocks(X, lambda f, s: intervals.quantiles(f, asked, s), len(asked))
        return self._shaped(values, X, names)

    def _fitted_intervals(self) -> ConformalIntervals:
        check_is_fitted(self, "expansion_")
        found = getattr(self, "intervals_", None)
        if found is None:
            raise ValueError(
                f"this {type(self).__name__} has no held-out residuals to make intervals from: it was "
                "fitted with intervals=None, to a single row, by an earlier version, or without "
                " finite held-out predictions; use fit, on more rows."
            )
        return found

    def _by_blocks(self, X: Any, bounds: Any, width: int) -> Any:
        """Bounds (rows, targets, width) in X's library; the fold models' predictions by blocks."""
        rows = check_rows(self, X, sparse=self.expansion_.accepts_sparse, fitting=False)
        found = np.empty((rows.shape[0], self.expansion_.n_targets, width))
        models, spread = self.fold_models_, self.spread_models_
        for part in spans(rows.shape[0], rows_at_once(models)):
            if models is None:
                values = to_numpy(self.expansion_.predict(rows[part], self.n_jobs))[:, None, :]
            else:
                values = models.predict(rows[part], self.n_jobs)
            if not all_finite(values):
                raise ValueError(
                    "the kernel overflows on these rows; scale them as the rows the model was fitted on."
                )
            stretch = None
            if spread is not None:
                sizes = self._fitted_intervals().residuals
                stretch = spread_at(spread.predict(rows[part], self.n_jobs), sizes)
            found[part] = bounds(values, stretch)
        return like(found, rows)

    def _shaped(self, values: Any, X: Any, names: list[str]) -> Any:
        if self.single_target_:
            return framed(values[:, 0, :], X, names)
        several = [f"{name}_{t}" for t in range(values.shape[1]) for name in names]
        flat = framed(values.reshape(values.shape[0], -1), X, several)
        return values if type(flat) is type(values) else flat

    def _lazily(self, method: str, X: Any, columns: list[str], **options: Any) -> Any:
        self._fitted_intervals()
        if not self.single_target_:
            raise ValueError(
                f"{method} of several targets has three axes, which lazy rows do not; give X.compute()."
            )
        return lazy_predictions(self, method, X, np.float64, columns, **options)

    # -- fitting ---------------------------------------------------------------------------------

    def _check_setup(self, setup: Setup) -> None:
        """Raise before a search for intervals that cannot be made after it."""
        run = setup.run if setup.run.refit is None else setup.run.refit
        self._check_intervals(run, learned=setup.learning is not None or setup.blend)

    def _check_intervals(self, run: Run, *, learned: bool) -> None:
        if self.intervals is not None and self.intervals not in METHODS:
            names = ", ".join(f'"{name}"' for name in METHODS)
            raise ValueError(f"intervals must be None or one of {names}; got {self.intervals!r:.60}.")
        if self.intervals == "normalised" and run.problem.remote:
            raise ValueError(
                "normalised intervals need the rows in one place, and those of Dask stay on its workers;"
                ' use intervals="cv+".'
            )
        if self.intervals != "jackknife+":
            return
        if run.approximation.name != "exact" or learned:
            raise ValueError(
                "jackknife+ needs the exact machine in closed form, without a learned metric or a blend;"
                ' use approximation="exact", metric=None and blend=False, or intervals="cv+".'
            )
        n, _, t = run.problem.shape
        require_memory(
            8 * _JACKKNIFE_ARRAYS * n * n * t, f"jackknife+ with {n} models", 'use intervals="cv+"'
        )

    def _parts(self, searched: Outcome) -> Sequence[Any] | None:
        """The rows that fold models are made without; None for no intervals."""
        if self.intervals is None:
            return None
        parts, (n, _, t) = parts_for(self.intervals, searched), searched.scoring.problem.shape
        many = len(parts) > _MANY_FOLDS and len(parts) * n * t > _LARGEST_MODELS
        return None if many and self.intervals != "jackknife+" else parts

    def _after_search(self, searched: Outcome, final: Final, setup: Setup, parts: Any) -> None:
        """Intervals from the held-out predictions of what was chosen."""
        found = None
        if self.intervals is not None:
            held = heldout_of(self.intervals, searched, final, parts)
            if held is not None:
                found = conform(self.intervals, held, searched.found.chosen.kernel, setup.seed or 0)
        order = np.arange(setup.problem.n) if searched.order is None else searched.order
        self._keep(found, setup.rows, order if setup.problem.kept is None else setup.problem.kept[order])

    def _after_fit(self, run: Run, model: Model, kernel: Kernel, alpha: Any, rows: int) -> None:
        """Intervals of given hyper-parameters, from five folds or single rows in closed form."""
        problem, found = run.problem, None
        if self.intervals is not None and problem.n > 1:
            alone = self.intervals == "jackknife+"
            parts = list(np.arange(problem.n)[:, None]) if alone else unshuffled_folds(problem.n)
            models = run.fold_models(model, kernel, alpha, parts)
            if models is not None:
                found = conform(self.intervals, HeldOut(problem, models, parts, parts), kernel, 0)
        self._keep(found, rows, np.arange(problem.n) if problem.kept is None else problem.kept)

    def _check_given(self, run: Run) -> None:
        """Raise before a fit with given hyper-parameters for intervals that it could not make."""
        self._check_intervals(run, learned=False)
        if self.intervals is None:
            return
        if not run.approximation.has_folds(run.problem.n) or run.problem.remote:
            what = f"{run.approximation!r:.60} and {run.problem.n} rows"
            what = "rows of Dask" if run.problem.remote else what
            raise ValueError(
                f"intervals need models without each fold, which a single fit does not make for {what}; "
                f'use approximation="exact" or "nystroem", or {type(self).__name__}CV.'
            )

    def _keep(self, found: Conformed | None, n: int, places: Any) -> None:
        """Set the fitted attributes; `places` are the numbers of the problem's rows among the n."""
        self.intervals_ = self.fold_models_ = self.spread_models_ = self.conformity_scores_ = None
        if found is None:
            return
        scores = np.full((n, found.scores.shape[1]), np.nan)
        scores[places] = found.scores
        self.intervals_ = found.intervals
        self.fold_models_ = _for_all_columns(found.models, n, places)
        self.spread_models_ = _for_all_columns(found.spread, n, places)
        self.conformity_scores_ = scores[:, 0] if self.single_target_ else scores
        self.approximation_["intervals"] = found.report


def _for_all_columns(models: FoldModels | None, n: int, places: Any) -> FoldModels | None:
    """Of a precomputed kernel, with a column for every row of X."""
    if models is None or not isinstance(models.terms[0].kernel, Precomputed) or len(places) == n:
        return models
    return models.with_columns(n, places)


def _check_share(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
        raise ValueError(f"{name} must lie between 0 and 1; got {value!r:.60}.")
    return float(value)
