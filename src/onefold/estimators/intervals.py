r"""Intervals from the residuals of held-out rows, fold by fold.

*Normalised* ones need σ(x), how large residuals are at x, from a second model of the logarithms of
their sizes: log σ_s(x) is a kernel expansion fitted to log max(R_i, floor) over rows i outside fold s,
so that σ_s is not fitted to the residuals that it divides. It is not independent of them: the residuals
of rows outside a fold come from models that were trained with that fold. One search on 2000 rows at
most chooses its width and ridge, and its own fold models are the σ_s.

*Automatic* ones are of constant width unless that misleads (:mod:`onefold.calibration.slices`): then σ
is learned, and they are normalised if the slice that is covered least is covered better by it and the
interval score of all rows is no larger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn import get_config

from onefold.approximations import Exact, Model, Problem, Run
from onefold.calibration import ConformalIntervals
from onefold.calibration.intervals import WITHOUT_FOLD_MODELS
from onefold.calibration.slices import HeldOutIntervals, Slices, heldout_intervals, slices_of_rows
from onefold.criteria import SquaredError, Task
from onefold.estimators.final import FOLDS, interval_splits, splits_of_search
from onefold.estimators.setup import workload
from onefold.estimators.validation import is_precomputed
from onefold.expansions import FoldModels, mixed
from onefold.heldout import Splits, make_splits, mean_by_row, sample_rows
from onefold.kernels import RBF, Kernel, Precomputed
from onefold.linalg import HostArray, Index, asarray_like, host_array, take_rows
from onefold.machine.threads import spans
from onefold.machine.warning import warn_user
from onefold.rows import to_host
from onefold.search.crossfit import Cell, CrossFit, PredictedBy, with_fold_models
from onefold.search.evaluation import Candidate
from onefold.search.loop import Search
from onefold.search.strategies import family_kernels

_BY_FOLDS = "the models trained without each fold"
_BY_FINAL = "the final model, with the residuals of held-out rows"
# Residuals that their sizes are learned from, at most: a search on so many rows takes about a second.
_SPREAD_ROWS = 2000
# The same for automatic intervals, which may not take much of the time of a fit: an eighth of that.
_AUTOMATIC_ROWS = 1000
# Minimum number of rows that a fold's σ is learned from; chosen, not measured.
_FEWEST_ROWS = 10
# The least size of a residual that counts, as a share of the mean size: its logarithm is finite.
_FLOOR = 1e-3
# Widths of σ's kernel, relative to the mean distance: those of a search, without the narrowest.
_WIDTHS = (0.1, 0.3, 1.0, 3.0, 10.0)
# Ridges of σ, larger than those of a search: the logarithm of a size is mostly noise.
_RIDGES = tuple(4.0**power for power in range(-2, 6))
# The coverage at which constant and normalised intervals are compared: the default of predict_interval.
_COVERAGE = 0.9
# Residuals that slices are made of, at most: a tenth of them has a coverage to within 0.7 %.
_SLICE_ROWS = 20_000
# Numbers of the features of these rows, at most: fewer rows of wide tables.
_SLICE_NUMBERS = 2_000_000
# Residuals of wide tables, at least.
_FEWEST_SLICE_ROWS = 2000
# Features that slices are made of, at most: the first ones.
_SLICE_FEATURES = 1000


_TOO_FEW = "too few residuals outside each fold to learn their size from"


@dataclass(frozen=True)
class Residuals:
    """What models without a fold miss of its rows; a row is once in each fold that tests it."""

    rows: Index  # (N,)
    folds: Index  # (N,): the number of the fold of each
    values: HostArray  # (N, targets), signed


def crossfit_without_search(
    method: str | None, run: Run, model: Model, kernel: Kernel, alpha: Any
) -> CrossFit | None:
    """A fit without each of five folds, or each single row; None without intervals."""
    if method is None or run.problem.n < 2:
        return None
    fit = CrossFit((Cell(Candidate(run, kernel, {}), alpha),))
    return with_fold_models(fit, interval_splits(method, run.problem.n), model)


def fit_intervals(estimator: Any, fit: CrossFit | None, seed: int, n: int) -> None:
    """Set the fitted attributes, for a table of n rows."""
    estimator.intervals_ = estimator.fold_models_ = estimator.spread_models_ = None
    estimator.conformity_scores_ = None
    if fit is None or (fit.fold_models is None and fit.predictions is None):
        return
    problem = fit.problem
    residuals = _residuals(fit)
    if not residuals.rows.size:
        return
    method = estimator.intervals
    precomputed = is_precomputed(estimator.kernel)
    report: dict[str, Any] = {"residuals": len(residuals.values)}
    learned = None
    if fit.fold_models is None:
        warn_user(
            f'the intervals use method="{WITHOUT_FOLD_MODELS}" instead of "{method}", without a '
            "guarantee of coverage: there are no models trained without each fold, and the final model "
            'replaces them; use fewer folds, approximation="exact" or "nystroem", or intervals=None.'
        )
        if method == "auto":
            report |= {"requested": method, "why": "there are no models trained without each fold"}
        method = WITHOUT_FOLD_MODELS
    elif method == "normalised":
        learned = _normalised(fit, residuals, precomputed, seed, _SPREAD_ROWS)
        if learned is None:
            method = "cv+"
            report["why"] = _TOO_FEW
            warn_user(
                f"the intervals are not normalised: {report['why']}; use more rows, folds that test "
                'every row, such as cv=5, or approximation="exact" or "nystroem".'
            )
    elif method == "auto":
        learned, choice = _automatic(fit, residuals, precomputed, seed, _feature_names(estimator))
        method = "cv+" if learned is None else "normalised"
        report |= choice
    spread_models = None
    spread = None
    if learned is not None:
        fit = learned.fit
        residuals = learned.residuals
        spread_models = learned.models
        spread = learned.spread
    count = 1 if fit.fold_models is None else fit.fold_models.count
    predictions = _BY_FINAL if fit.fold_models is None else _BY_FOLDS
    report |= {"method": method, "folds": count, "predictions": predictions}
    estimator.approximation_["intervals"] = report
    folds = residuals.folds.astype(np.int32)
    estimator.intervals_ = ConformalIntervals(method, residuals.values, folds, count, spread)
    for name, models in (("fold_models_", fit.fold_models), ("spread_models_", spread_models)):
        if precomputed and models is not None and problem.kept is not None:
            models = models.with_columns(n, problem.kept)  # one for every row of X
        setattr(estimator, name, models)
    mean_sizes = mean_by_row(residuals.rows, np.abs(residuals.values), problem.n)
    scores = problem.in_table(mean_sizes, n)
    estimator.conformity_scores_ = scores[:, 0] if estimator.single_target_ else scores


def _residuals(fit: CrossFit) -> Residuals:
    """Finite residuals of the fold models; without fold models, those of all rows as one fold."""
    problem = fit.problem
    tests: list[Any] = [] if fit.splits is None else list(fit.splits.tests)
    if fit.fold_models is None:
        tests = [np.flatnonzero(np.isfinite(fit.held_out.by_row).all(axis=1))]
    # Where tests are in no order, some rows may be in one twice.
    first_places: list[Any] = [
        np.sort(np.unique(test, return_index=True)[1]) if np.any(np.diff(test) <= 0) else slice(None)
        for test in tests
    ]
    tests_once = [test[places] for test, places in zip(tests, first_places)]
    rows = np.concatenate(tests_once)
    folds = np.repeat(np.arange(len(tests)), [test.size for test in tests_once])
    if fit.fold_models is None:
        predictions = fit.held_out.by_row[rows]
    elif fit.predicted_by is PredictedBy.FOLD_MODELS:
        of_tests = fit.held_out.of_tests(tests)
        predictions = np.concatenate([of[places] for of, places in zip(of_tests, first_places)])
    else:
        predictions = _predicted(fit.fold_models, problem, rows, folds)
    values = problem.targets[rows] - (predictions - problem.offset)
    finite = np.isfinite(values).all(axis=1)
    if finite.all():
        return Residuals(rows, folds, values)
    return Residuals(rows[finite], folds[finite], values[finite])


def _predicted(models: FoldModels, problem: Problem, rows: Index, folds: Index) -> HostArray:
    """The rows (rows, targets), each by the model of its fold; no more than some rows by all at once."""
    values = np.empty((rows.size, models.n_targets))
    for part in spans(rows.size, rows_at_once(models)):
        by_every_model = models.predict(take_rows(problem.X, rows[part]))
        values[part] = by_every_model[np.arange(len(by_every_model)), folds[part]]
    return values


def rows_at_once(models: FoldModels | None) -> int:
    """Rows whose predictions by all folds, about four times over, fit in the working memory."""
    width = 1 if models is None else models.count * models.n_targets
    return max(1, int(get_config()["working_memory"] * 2**20 / (32 * width)))


# -- the size of residuals -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Normalised:
    """What normalised intervals are made of."""

    fit: CrossFit
    residuals: Residuals
    models: FoldModels  # of log σ
    spread: HostArray  # (N, targets): σ at each residual, by the model of its fold


def _normalised(
    fit: CrossFit, residuals: Residuals, precomputed: bool, seed: int, most: int
) -> Normalised | None:
    """The sizes of residuals as a function of x, from `most` of them; None for too few residuals."""
    fit, residuals = _in_several_folds(fit, residuals)
    models = _learn_spread(fit, residuals, precomputed, seed, most)
    if models is None:
        return None
    log_spread = _predicted(models, fit.problem, residuals.rows, residuals.folds)
    return Normalised(fit, residuals, models, spread_from(log_spread, residuals.values))


def _in_several_folds(fit: CrossFit, residuals: Residuals) -> tuple[CrossFit, Residuals]:
    """The rows of a single split in five folds of the same model: sizes are learned across them."""
    if fit.fold_models is None or fit.fold_models.count > 1:
        return fit, residuals
    rows = residuals.rows
    count = min(FOLDS, rows.size)
    folds = np.empty(rows.size, np.intp)
    folds[np.argsort(rows)] = np.arange(rows.size) % FOLDS
    tests = [rows[folds == number] for number in range(count)]
    same = mixed([fit.fold_models], np.ones((count, 1)), [0] * count)
    fit = replace(fit, fold_models=same, splits=Splits(fit.problem.n, tests, tests))
    return fit, replace(residuals, folds=folds)


def _learn_spread(
    fit: CrossFit, residuals: Residuals, precomputed: bool, seed: int, most: int
) -> FoldModels | None:
    """Log σ of every fold from the residuals of some rows; None for too few of them."""
    problem = fit.problem
    generator = np.random.default_rng([seed, 2])
    drawn = sample_rows(np.arange(residuals.rows.size), most, generator, residuals.folds)
    rows = np.unique(residuals.rows[drawn])
    pairs = []
    for number, left_out in enumerate([] if fit.splits is None else fit.splits.left_out):
        tested = np.isin(rows, residuals.rows[residuals.folds == number])
        outside = ~np.isin(rows, left_out)
        if outside.sum() < _FEWEST_ROWS:  # windows of a series: no earlier row was tested
            outside = ~tested
        if outside.sum() < _FEWEST_ROWS or not tested.any():
            return None
        pairs.append((np.flatnonzero(outside), np.flatnonzero(tested)))
    X = to_host(take_rows(problem.X, rows))
    X = X[:, rows] if precomputed else X
    floor, _ = _range_of(residuals.values)
    log_sizes = np.log(np.maximum(np.abs(residuals.values), floor))
    log_sizes = mean_by_row(residuals.rows, log_sizes, problem.n)[rows]
    chosen = _search_spread(X, log_sizes, make_splits(pairs, X, log_sizes, n=rows.size), precomputed)
    models = chosen.fold_models
    return models.with_columns(problem.n, rows) if precomputed and models is not None else models


def _search_spread(X: Any, log_sizes: HostArray, splits: Splits, precomputed: bool) -> CrossFit:
    """The best kernel and ridge for the logarithms of sizes, with the models without each fold."""
    Y = asarray_like(log_sizes, X)
    problem = Problem(X, Y, None, True, precomputed=precomputed).about_its_mean()
    families: list[Any] = [("precomputed", Precomputed()) if precomputed else ("rbf", RBF(1.0))]
    kernels, params = family_kernels(families, _WIDTHS, problem, 0, relative=not precomputed)
    criterion = SquaredError()
    load = workload(problem, len(kernels), len(_RIDGES), splits, [criterion])
    run = Exact().start(problem, kernels, load)
    scoring = criterion.start(problem, Task(X, log_sizes, None), splits)
    candidates = [Candidate(run, *pair) for pair in zip(kernels, params)]
    stage = Search().stage("grid", candidates, scoring=scoring, alphas=_RIDGES)
    chosen = stage.run([stage.every_cell()]).found().chosen
    fold_splits = splits_of_search("cv+", scoring)
    if fold_splits is None:
        return chosen
    candidate = chosen.cell.candidate
    model = candidate.run.final_model(candidate.kernel, chosen.cell.alpha, chosen.model)
    return with_fold_models(chosen, fold_splits, model)


def spread_from(log_spread: Any, residuals: Any) -> Any:
    """σ from its logarithm (…, targets), held within the sizes of the residuals (N, targets)."""
    floor, largest = _range_of(residuals)
    return np.exp(np.clip(log_spread, np.log(floor), np.log(largest)))


def _range_of(residuals: Any) -> tuple[Any, Any]:
    """The least and the largest size that counts, for each target."""
    sizes = np.abs(residuals)
    largest = sizes.max(axis=0)
    largest = np.where(largest > 0, largest, 1.0)
    mean = (sizes / largest).mean(axis=0) * largest
    return np.maximum(_FLOOR * np.where(mean > 0, mean, 1.0), np.finfo(float).tiny), largest


# -- constant or normalised ----------------------------------------------------------------------------


def _feature_names(estimator: Any) -> list[str] | None:
    """Names of the features, where there are any."""
    names = estimator._feature_names
    names = getattr(estimator, "feature_names_in_", None) if names is None else names
    return None if names is None else [str(name) for name in names]


def _automatic(
    fit: CrossFit, residuals: Residuals, precomputed: bool, seed: int, names: list[str] | None
) -> tuple[Normalised | None, dict[str, Any]]:
    """What normalised intervals are made of, or None for constant width; what was chosen, and why."""
    choice: dict[str, Any] = {"requested": "auto"}
    problem = fit.problem
    if problem.remote:
        return None, choice | {"why": "the sizes of residuals are not learned from rows of Dask"}
    places = _places_of_slices(residuals, problem.shape[1], seed)
    slices = _slices(fit, residuals, places, precomputed)
    folds = _in_several_folds(fit, residuals)[1].folds
    constant = _part(heldout_intervals(residuals.values, folds, _COVERAGE), places)
    if not slices.slices or not np.isfinite(constant.scores).all():
        return None, choice | {"why": "there are too few rows to compare the coverage of slices"}
    coverages = slices.coverage(constant)
    record: dict[str, Any] = {"coverage": _COVERAGE, "slices": len(slices.slices)}
    record["constant"] = _summary(constant, coverages)
    choice["held_out"] = record
    number = slices.misleading(coverages, _COVERAGE)
    if number is None:
        why = (
            "no slice of the held-out rows is covered too little by more than chance "
            f"({_COVERAGE:.0%} intervals, {len(slices.slices)} slices: {coverages.min():.0%} or more)"
        )
        return None, choice | {"why": why}
    misleading = slices.slices[number]
    record["slice"] = misleading.as_dict(names)
    misled = (
        f"{_COVERAGE:.0%} intervals of constant width cover {coverages[number]:.0%} of "
        f"{misleading.words(names)}"
    )
    normalised = _normalised(fit, residuals, precomputed, seed, _AUTOMATIC_ROWS)
    if normalised is None:
        return None, choice | {"why": f"{misled}, but there are {_TOO_FEW}"}
    values = normalised.residuals.values
    intervals = heldout_intervals(values, normalised.residuals.folds, _COVERAGE, normalised.spread)
    intervals = _part(intervals, places)
    new_coverages = slices.coverage(intervals)
    ratio = float(np.mean(intervals.scores.mean(axis=0) / constant.scores.mean(axis=0)))
    record["normalised"] = _summary(intervals, new_coverages) | {"score_ratio": ratio}
    if ratio > 1.0:
        drawback = f"normalised ones have an interval score that is {ratio - 1:.1%} larger"
        return None, choice | {"why": f"{misled}, but {drawback}"}
    if new_coverages.min() <= coverages.min():
        drawback = f"normalised ones cover {new_coverages.min():.0%} of another slice"
        return None, choice | {"why": f"{misled}, but {drawback}"}
    why = f"{misled}, normalised ones {new_coverages[number]:.0%}"
    if new_coverages[number] <= coverages[number]:  # then another slice gains
        why += (
            f"; of the slice that each covers least, {coverages.min():.0%} and {new_coverages.min():.0%}"
        )
    return normalised, choice | {"why": why}


def _part(intervals: HeldOutIntervals, places: Index) -> HeldOutIntervals:
    return HeldOutIntervals(intervals.covered[places], intervals.scores[places])


def _summary(intervals: HeldOutIntervals, coverages: HostArray) -> dict[str, float]:
    """Coverage of all rows and of the slice that is covered least."""
    return {"overall": float(intervals.covered.mean()), "worst_slice": float(coverages.min())}


def _places_of_slices(residuals: Residuals, features: int, seed: int) -> Index:
    """Which residuals slices are made of."""
    wanted = max(_FEWEST_SLICE_ROWS, _SLICE_NUMBERS // max(1, min(features, _SLICE_FEATURES)))
    generator = np.random.default_rng([seed, 3])
    places = np.arange(residuals.rows.size)
    return sample_rows(places, min(_SLICE_ROWS, wanted), generator, residuals.folds)


def _slices(fit: CrossFit, residuals: Residuals, places: Index, precomputed: bool) -> Slices:
    """Slices by prediction and, unless X is a kernel matrix, by feature."""
    problem = fit.problem
    rows = residuals.rows[places]
    predictions = problem.targets[rows] - residuals.values[places]
    columns: Any = []
    if not precomputed:
        X = to_host(take_rows(problem.X, rows))[:, :_SLICE_FEATURES]
        columns = host_array(X).T
    return slices_of_rows(predictions, columns)
