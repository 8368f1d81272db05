"""From what a search found to the model that is kept: the chosen one or a blend, and its calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from onefold.approximations import Model, Problem, Run
from onefold.calibration import crossfitted, fit_calibrator
from onefold.criteria import Task
from onefold.expansions import Blend, Expansion, FittedFunction, FoldModels, mixed
from onefold.heldout import mean_by_row
from onefold.kernels import Kernel
from onefold.linalg import like, to_numpy
from onefold.search.choice import BlendResult, Crossfit, Leader, blend_leaders
from onefold.search.ledger import Ledger
from onefold.search.loop import Found
from onefold.search.metric import drawn
from onefold.search.strategies import Setup

_ROWS = 1000  # that are left out, each alone, to calibrate by, where every one costs O(n²)


@dataclass(frozen=True)
class Folds:
    """Models without each of some sets of rows."""

    models: FoldModels | None  # of the user's targets; None where they are too dear
    own: bool = True  # whether the search's held-out predictions are theirs


@dataclass(frozen=True)
class Final:
    """The model that is kept."""

    expansion: Any  # of the user's targets
    report: dict[str, Any]  # what fitted it
    leaders: list[Leader]  # the cells that it is made of
    heldout: Any  # held-out predictions (n, targets) of the whole, or None
    folds: Folds | None  # the models without each part, where they were asked for
    blend: BlendResult | None = None  # what it is made of, where it is a blend


def finished(expansion: FittedFunction, problem: Problem, n: int) -> FittedFunction:
    """The fitted function for a table of `n` rows; raise if it is not finite."""
    if not expansion.finite:
        raise ValueError(
            "the coefficients are not finite: the kernel or the targets overflow; scale the "
            "features and the targets, or use another kernel."
        )
    if problem.kept is not None and isinstance(expansion, Expansion) and expansion.centres is None:
        coef = np.zeros((n, expansion.n_targets))  # a column for every row of X
        coef[problem.kept] = to_numpy(expansion.coef)
        expansion = replace(expansion, coef=like(coef, expansion.coef))
    return expansion


def metric_of(kernel: Kernel) -> Any | None:
    """The numbers of a kernel's metric; None where it has none."""
    metric = getattr(kernel, "metric", None)
    return None if metric is None else np.array(metric.values)


def finish(found: Found, *, blend: bool, parts: Sequence[Any] | None = None) -> Final:
    """Fit what the search chose on all rows, and without each of the `parts` if there are any."""
    blended = blend_leaders(found.leaders, found.leader, found.scoring) if blend else None
    members = [found.leader] if blended is None else blended.members
    expansions, reports, every = zip(*(_fitted(member, found.ledger, parts) for member in members))
    if blended is None:
        return Final(expansions[0], reports[0], members, found.leader.heldout, every[0])
    intercept = like(blended.intercept, expansions[0].intercept)
    whole = Blend(expansions, np.asarray(blended.weights), intercept)
    report = {
        "name": reports[0]["name"], "reason": f"a blend of {len(reports)}", "members": list(reports)
    }  # fmt: skip
    folds = every[0]
    if parts is not None and blended.crossfit is not None:
        known = {id(member): own for member, own in zip(members, every)}
        folds = _folds_of_blend(blended.crossfit, known, parts)
    return Final(whole, report, members, blended.heldout, folds, blended)


def _fitted(
    leader: Leader, ledger: Ledger, parts: Sequence[Any] | None
) -> tuple[Any, dict[str, Any], Folds | None]:
    """The expansion of a cell on all rows, in the user's units, what fitted it, and its folds'."""
    run, alpha, model = leader.candidate.run, leader.alpha, leader.model
    if leader.expansion is None:
        model = run.final_model(leader.candidate.kernel, alpha, model)
        expansion, report = run.finished(model, alpha)
    else:
        expansion, report = run.problem.restore(leader.expansion), ledger.entry(leader.index).report
        if model is not None:
            report = report | model.final_report(run.problem.ridge(alpha), leader.expansion)
    return expansion, report, None if parts is None else _folds_of(leader, parts, model)


def _folds_of(leader: Leader, parts: Sequence[Any], model: Model | None = None) -> Folds:
    """Of one cell; `model` is the final one of all rows, where it is at hand.

    They are of the kind of the final model, or, where that has no closed form for folds, of the kind
    that the search was made with.
    """
    candidate, run, alpha = leader.candidate, leader.candidate.run, leader.alpha
    if leader.expansion is not None:
        known = leader.folds
        return Folds(None if known is None else known.plus(run.problem.offset))
    own = run.approximation.fold_models == "closed"  # fits of their own are other models
    if candidate.parts is not None:
        model, own = candidate.model(1), True
    elif run.refit is not None and run.refit.approximation.fold_models is not None:
        model = run.final_model(candidate.kernel, alpha) if model is None else model
        run, own = run.refit, False
    elif run.refit is not None or model is None:
        model = leader.model or candidate.model(1)
    return Folds(run.fold_models(model, candidate.kernel, alpha, parts), own)


def _folds_of_blend(crossfit: Crossfit, known: Mapping[int, Folds], parts: Sequence[Any]) -> Folds:
    """Of a blend: each fold's members with the weights that the other folds gave.

    `known` has the folds of some leaders by their id.
    """
    used = np.flatnonzero(crossfit.weights.any(axis=0))
    found = []
    for number in used if used.size else [0]:
        leader = crossfit.leaders[int(number)]
        found.append(known.get(id(leader)) or _folds_of(leader, parts))
    models = [folds.models for folds in found]
    if any(model is None for model in models):
        return Folds(None)
    count = len(crossfit.folds)
    source = np.zeros(count, dtype=np.intp) if len(parts) == 1 else np.arange(count)
    weights = crossfit.weights[:, used] if used.size else np.zeros((count, 1))
    together = mixed([m for m in models if m is not None], weights, crossfit.intercepts, source)
    return Folds(together, all(folds.own for folds in found))


# -- calibration --------------------------------------------------------------------------------------


def calibrate_alone(
    estimator: Any, run: Run, model: Callable[[], Model], task: Task, alpha: Any, seed: int
) -> dict[str, Any]:
    """On rows left out one by one; returns what a report says of it.

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
    tested, index = np.concatenate(splits.tests), np.searchsorted(estimator.classes_, task.y)
    settings = estimator.calibration, heldout[tested][None], index, task.sample_weight
    means = mean_by_row(tested, crossfitted(*settings, splits)[0], splits.n)
    estimator.heldout_proba_ = found.scoring.problem.in_table(means, setup.rows)


def calibrate(estimator: Any, values: Any, rows: Any, task: Task) -> None:
    """On held-out predictions (rows, targets) of these rows of the task; nothing if it is not wanted."""
    estimator.calibrator_ = None
    if estimator.calibration is not None:
        index = np.searchsorted(estimator.classes_, task.y[rows])
        weight = task.weight_of(rows)
        estimator.calibrator_ = fit_calibrator(estimator.calibration, values, index, weight)
