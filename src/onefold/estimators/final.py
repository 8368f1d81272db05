"""The final fit after a search, of what was chosen or of a blend, and its calibration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from onefold.approximations import Model, Problem, Run
from onefold.calibration import crossfitted, fit_calibrator
from onefold.criteria import Scoring, Task
from onefold.expansions import Blend, Expansion, FittedFunction
from onefold.heldout import Splits, mean_by_row, sample_rows
from onefold.kernels import Kernel
from onefold.linalg import HostArray, host_array, scattered
from onefold.machine.memory import require_memory
from onefold.machine.warning import warn_user
from onefold.search.choice import blended, choose_mixture, report_of_blend
from onefold.search.crossfit import CrossFit, with_fold_models, with_second
from onefold.search.evaluation import Candidate
from onefold.search.learned_metric import Track, part_kernels_without
from onefold.search.loop import SearchResult
from onefold.search.strategies import Setup

Relearned = Callable[[Candidate], Candidate]
"""A candidate with kernels for each first split -> with kernels for each second one."""

# Rows that are left out one by one to calibrate by, at most: each of them costs O(n²).
_CALIBRATION_ROWS = 1000
# Folds of intervals where a search has held out none: those of scikit-learn's default.
FOLDS = 5
# Folds up to which the models without each are kept, however many coefficients they have.
_MANY_FOLDS = 64
# Coefficients of the models of more folds, 128 MiB of float64; beyond, f itself serves.
_LARGEST_MODELS = 2**24
# Arrays of n × n for each target that exist at once while the n models of jackknife+ are made.
_JACKKNIFE_ARRAYS = 8


def fit_final(
    result: SearchResult,
    *,
    blend: bool,
    intervals: str | None = None,
    second: Scoring | None = None,
    relearned: Relearned | None = None,
) -> CrossFit:
    """What the search chose, fitted to all rows and, for `intervals`, without each fold.

    The folds are those of the `second` scoring where there is one; the record of what is predicted
    without them is the record's own `second`.
    """
    splits = second_splits = None
    if intervals is not None and second is None:
        splits = splits_of_search(intervals, result.scoring)
    elif intervals is not None and second is not None:
        second_splits = splits_of_search(intervals, second)
    options = (splits, second, second_splits, relearned)
    if not blend:
        return with_expansion(result.chosen, *options)
    mixture = choose_mixture(result.leaders, result.chosen, result.scoring)
    if mixture is None:
        fit = with_expansion(result.chosen, *options)
        report = report_of_blend([fit.report])
        return replace(fit, expansion=Blend((fit.expansion,), fit.weights), report=report)
    fits = [
        with_expansion(leader, *options) if weight else leader
        for leader, weight in zip(result.leaders, mixture.weights)
    ]
    if splits is not None:
        in_some_fold = mixture.fold_weights.any(axis=0)
        fits = [with_fold_models(fit, splits) if use else fit for fit, use in zip(fits, in_some_fold)]
    return blended(fits, mixture)


def second_scoring(result: SearchResult, setup: Setup) -> Scoring | None:
    """The criterion of the search by the second splits, on the rows as the search has ordered them."""
    if setup.second is None:
        return None
    scoring = result.scoring
    splits = setup.second if result.second is None else result.second
    return scoring.criterion.start(scoring.problem, scoring.task, splits)


def relearned_without(second: Scoring, setup: Setup) -> Relearned:
    """What gives a candidate with metrics of every fold those that the second splits leave it.

    The cells of its rounds are the same; each metric is learned from rows outside its split. A metric of
    all rows would know the level of every group that a split leaves out.
    """
    splits = second.held_out
    seed = setup.seed or 0
    most = int(getattr(setup.strategy, "fold_learning_rows", splits.n))

    def relearned(candidate: Candidate) -> Candidate:
        generator = np.random.default_rng([seed, 4])
        rows = [
            sample_rows(np.delete(np.arange(splits.n), part), most, generator, setup.task.labels)
            for part in splits.left_out
        ]
        params = candidate.params
        name = str(params["kernel"])
        track = Track(name, dict(setup.families)[name], str(params["metric"]))
        width = float(params.get("gamma", 1.0))
        cells = candidate.learned_from
        kernels = part_kernels_without(track, candidate.run, cells, width, rows, seed)
        return replace(candidate, parts=splits.left_out, part_kernels=kernels)

    return relearned


def with_expansion(
    fit: CrossFit,
    splits: Splits | None,
    second: Scoring | None = None,
    second_splits: Splits | None = None,
    relearned: Relearned | None = None,
) -> CrossFit:
    """The record with its expansion and, where there are splits, with the models without each fold."""
    candidate = fit.cell.candidate
    run = candidate.run
    alpha = fit.cell.alpha
    if splits is None:
        fit = replace(fit, fold_models=None)
    if fit.expansion is not None and fit.model is None:  # it came with the evaluation
        return fit
    model = run.final_model(candidate.kernel, alpha, fit.model)
    expansion, report = run.finished(model, alpha)
    if splits is not None:
        fit = with_fold_models(fit, splits, model)
    if second is not None:
        fit = with_second(fit, second, model, second_splits, relearned)
    return replace(fit, expansion=expansion, report=report, model=None)


def splits_of_search(method: str, scoring: Scoring) -> Splits | None:
    """The folds of the models for intervals after a search; None where these would be too large."""
    splits = scoring.splits
    n, _, t = scoring.problem.shape
    if method == "jackknife+" or splits is None or splits.leave_one_out:
        return interval_splits(method, n)
    count = len(splits)
    if count > _MANY_FOLDS and count * n * t > _LARGEST_MODELS:
        warn_user(
            f"the models trained without each of {count} folds have too many coefficients to keep; use "
            f"{_MANY_FOLDS} folds or fewer."
        )
        return None
    return splits


def interval_splits(method: str, n: int) -> Splits:
    """Rows that are each left out alone, or five folds of consecutive rows."""
    parts = np.array_split(np.arange(n), n if method == "jackknife+" else min(n, FOLDS))
    return Splits(n, parts, parts)


def for_table(expansion: FittedFunction, problem: Problem, n: int) -> FittedFunction:
    """The fitted function for a table of `n` rows; raise if it is not finite."""
    if not expansion.finite:
        raise ValueError(
            "the coefficients are not finite, because the kernel or the targets overflow; scale the "
            "features and the targets, or use another kernel."
        )
    if problem.kept is not None and isinstance(expansion, Expansion) and expansion.centres is None:
        coef = scattered(expansion.coef, problem.kept, n)  # one for every row of X
        expansion = replace(expansion, coef=coef)
    return expansion


def metric_of(kernel: Kernel) -> Any | None:
    """The numbers of a kernel's metric; None where it has none."""
    metric = getattr(kernel, "metric", None)
    return None if metric is None else np.array(metric.values)


def members_of(fit: CrossFit) -> list[dict[str, Any]]:
    """The members of a blend by name, the heaviest first."""
    members = []
    for cell, weight in zip(fit.cells, fit.weights):
        names = {"metric": "none", "round": 0, **cell.candidate.params}
        members.append({**names, "alpha": cell.alpha, "weight": float(weight)})
    return sorted(members, key=lambda member: -member["weight"])


# -- calibration --------------------------------------------------------------------------------------


def calibrate_by_left_out_rows(
    estimator: Any, run: Run, model: Callable[[], Model], task: Task, alpha: Any, seed: int
) -> dict[str, Any]:
    """Calibrate on rows left out one by one, 1000 at most where each has its cost; return the report."""
    estimator.calibrator_ = None
    if estimator.calibration is None:
        return {}
    approximation = run.approximation if run.refit is None else run.refit.approximation
    if run.problem.remote or not approximation.selects:
        return {"calibrated_with": "none: there are no held-out predictions"}
    n = run.problem.n
    generator = np.random.default_rng([seed, 2])
    drawn = sample_rows(np.arange(n), _CALIBRATION_ROWS, generator, task.labels)
    rows, values = model().left_out(drawn, float(run.problem.ridge(alpha).reshape(-1)[0]))
    values = host_array(values)
    finite = np.isfinite(values).all(axis=1)
    rows = rows[finite]
    values = values[finite]
    if not rows.size:
        return {"calibrated_with": "none: there are no finite predictions of left-out rows"}
    calibrate(estimator, values, rows, task)
    return {"calibrated_with": f"predictions of {rows.size} of {n} rows, each left out of training"}


def calibrate_heldout(estimator: Any, fit: CrossFit, scoring: Scoring, setup: Setup) -> HostArray | None:
    """Calibrate on held-out predictions of what was chosen; without any, on rows left out singly.

    Return the probabilities of the held-out rows, each fold calibrated by the others.
    """
    estimator.calibrator_ = None
    if estimator.calibration is None:
        return None
    splits = scoring.splits
    task = scoring.task
    if fit.predictions is None or splits is None:
        run = fit.cell.candidate.run
        alpha = fit.cell.alpha
        model = partial(run.final_model, fit.cell.candidate.kernel, alpha)
        calibrate_by_left_out_rows(estimator, run, model, setup.task, alpha, setup.seed or 0)
        return None
    by_row = fit.predictions.by_row
    rows = np.flatnonzero(np.isfinite(by_row).all(axis=1))
    calibrate(estimator, by_row[rows], rows, task)
    if rows.size < 2:
        return None  # nothing to calibrate the one row by
    tested = np.concatenate(splits.tests)
    index = np.searchsorted(estimator.classes_, task.y)
    probabilities = crossfitted(
        estimator.calibration,
        by_row[tested][None],
        index,
        task.sample_weight,
        splits,
        task.class_weight,
    )
    means = mean_by_row(tested, probabilities[0], splits.n)
    proba: HostArray = scoring.problem.in_table(means, setup.rows)
    return proba


def calibrate(estimator: Any, values: HostArray, rows: Any, task: Task) -> None:
    """Calibrate on held-out predictions (rows, targets) of these rows of the task, if wanted."""
    estimator.calibrator_ = None
    if estimator.calibration is not None:
        index = np.searchsorted(estimator.classes_, task.y[rows])
        estimator.calibrator_ = fit_calibrator(
            estimator.calibration, values, index, task.weight_of(rows), task.class_weight
        )


def require_jackknife_memory(problem: Problem) -> None:
    """Raise MemoryError if the models without each row would not fit."""
    n, _, t = problem.shape
    needed = 8 * _JACKKNIFE_ARRAYS * n * n * t
    require_memory(needed, f"jackknife+ with {n} models", 'use intervals="cv+"')
