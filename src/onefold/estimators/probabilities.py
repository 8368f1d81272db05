"""Probabilities of classifiers: a calibrator from held-out decision values, and what it predicts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from onefold.approximations import Model, Run
from onefold.calibration import CalibrationFolds, fit_calibrator, mean_by_row
from onefold.criteria import Task
from onefold.estimators.final import Final
from onefold.linalg import to_numpy
from onefold.search import Found, Setup, drawn

_ROWS = 1000  # that are left out, each alone, where every one costs O(n²)


def calibrate_alone(
    estimator: Any, run: Run, model: Callable[[], Model], task: Task, alpha: Any, seed: int
) -> dict[str, Any]:
    """On rows left out one by one; what a report tells of it.

    All rows up to 1000, or where one pass predicts them; otherwise 1000, every class by its share.
    """
    estimator.calibrator_ = None
    if estimator.calibration is None:
        return {}
    approximation = run.approximation if run.refit is None else run.refit.approximation
    if run.problem.remote or not approximation.selects:
        return {"calibrated_with": "nothing: there are no held-out predictions"}
    n = run.problem.n
    some = drawn(np.arange(n), task, _ROWS, np.random.default_rng([seed, 2]))
    rows, values = model().left_out(some, float(run.problem.ridge(alpha).reshape(-1)[0]))
    values = np.asarray(to_numpy(values), dtype=np.float64)
    known = np.isfinite(values).all(axis=1)
    rows, values = rows[known], values[known]
    if not rows.size:
        return {"calibrated_with": "nothing: there are no finite predictions of left-out rows"}
    calibrate(estimator, values, rows, task)
    return {"calibrated_with": f"predictions of {rows.size} of {n} rows, each left out of training"}


def calibrate_heldout(estimator: Any, found: Found, final: Final, setup: Setup) -> None:
    """On the held-out predictions of what a search chose; where it has none, on rows left out alone."""
    estimator.calibrator_ = estimator.heldout_proba_ = None
    if estimator.calibration is None:
        return
    heldout, splits, task = final.heldout, found.scoring.splits, found.scoring.task
    if heldout is None or splits is None or task is None:
        leader = final.leaders[0]
        run, alpha = leader.candidate.run, leader.alpha
        model = partial(run.final_model, leader.candidate.kernel, alpha)
        calibrate_alone(estimator, run, model, setup.task, alpha, setup.seed or 0)
        return
    rows = np.flatnonzero(np.isfinite(heldout).all(axis=1))
    calibrate(estimator, heldout[rows], rows, task)
    if rows.size < 2:
        return  # nothing to calibrate the one row by
    folds, index = CalibrationFolds.of(splits), np.searchsorted(estimator.classes_, task.y)
    decision = heldout[folds.rows][None]
    made = folds.probabilities(estimator.calibration, decision, index, task.sample_weight)[0]
    means = mean_by_row(folds.rows, made, splits.n)
    estimator.heldout_proba_ = setup.of_all_rows(found.in_order(means))


def calibrate(estimator: Any, values: Any, rows: Any, task: Task) -> None:
    """On held-out predictions (rows, targets) of these rows of the task; nothing if it is not wanted."""
    estimator.calibrator_ = None
    if estimator.calibration is not None:
        index = np.searchsorted(estimator.classes_, task.y[rows])
        weight = task.weight_of(rows)
        estimator.calibrator_ = fit_calibrator(estimator.calibration, values, index, weight)
