"""From what a search found to the model that is kept, the chosen one or a blend, and its calibration."""

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
from onefold.heldout import mean_by_row, sample_rows
from onefold.kernels import Kernel
from onefold.linalg import host_array, scattered
from onefold.machine.memory import require_memory
from onefold.machine.warning import warn_user
from onefold.search.choice import BlendResult, Crossfit, Leader, blend_leaders
from onefold.search.ledger import Ledger
from onefold.search.loop import SearchResult
from onefold.search.strategies import Setup

_ROWS = 1000  # that are left out, each alone, to calibrate by, where every one costs O(n²)
FOLDS = 5  # where a search has held out none
_MANY_FOLDS = 64
_LARGEST_MODELS = 2**24  # coefficients of many folds that are kept; beyond, f itself serves
_JACKKNIFE_ARRAYS = 8  # of n × n for each target, while the n models are made


Folds = tuple[FoldModels | None, bool]
"""The models without each part, of the user's targets; and whether held-out predictions are theirs."""


@dataclass(frozen=True)
class Final:
    """The model that is kept."""

    expansion: Any  # of the user's targets
    report: dict[str, Any]  # what fitted it
    leaders: list[Leader]  # the cells that it is made of
    heldout: Any  # held-out predictions (n, targets) of the whole, or None
    folds: FoldModels | None = None  # the models without each part; None where they cost too much
    own: bool = True  # whether the held-out predictions are theirs
    blend: BlendResult | None = None  # what it is made of, where it is a blend


def finished(expansion: FittedFunction, problem: Problem, n: int) -> FittedFunction:
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


def finish(found: SearchResult, *, blend: bool, intervals: str | None = None) -> Final:
    """Fit what the search chose on all rows, and without those that `intervals` need left out."""
    parts = None if intervals is None else _searched_parts(intervals, found)
    blended = blend_leaders(found.leaders, found.leader, found.scoring) if blend else None
    members = [found.leader] if blended is None else blended.members
    expansions, reports, every = zip(*(_fitted(member, found.ledger, parts) for member in members))
    if blended is None:
        return Final(expansions[0], reports[0], members, found.leader.heldout, *every[0])
    whole = Blend(expansions, np.asarray(blended.weights))
    report = {
        "name": reports[0]["name"], "reason": f"a blend of {len(reports)}", "members": list(reports)
    }  # fmt: skip
    models, own = every[0]
    if parts is not None and blended.crossfit is not None:
        known = {id(member): folds for member, folds in zip(members, every)}
        models, own = _folds_of_blend(blended.crossfit, known, parts)
    return Final(whole, report, members, blended.heldout, models, own, blended)


def _fitted(
    leader: Leader, ledger: Ledger, parts: Sequence[Any] | None
) -> tuple[Any, dict[str, Any], Folds]:
    """The expansion of a cell on all rows, in the user's units, what fitted it, and its folds'."""
    run = leader.candidate.run
    alpha = leader.alpha
    model = leader.model
    if leader.expansion is None:
        model = run.final_model(leader.candidate.kernel, alpha, model)
        expansion, report = run.finished(model, alpha)
    else:
        expansion = run.problem.restore(leader.expansion)
        report = ledger.entry(leader.index).report
        if model is not None:
            report = report | model.final_report(run.problem.ridge(alpha), leader.expansion)
    return expansion, report, (None, True) if parts is None else _folds_of(leader, parts, model)


def _folds_of(leader: Leader, parts: Sequence[Any], model: Model | None = None) -> Folds:
    """Of the kind of the final `model`, or of the search's where that has no closed form for folds."""
    candidate = leader.candidate
    run = leader.candidate.run
    alpha = leader.alpha
    if leader.expansion is not None or leader.folds is not None:
        return leader.folds and leader.folds.plus(run.problem.offset), True
    own = run.approximation.fold_models == "closed"  # fits of their own are other models
    if candidate.parts is not None:
        model = candidate.model(1)
        own = True
    elif run.refit is not None and run.refit.approximation.fold_models is not None:
        model = run.final_model(candidate.kernel, alpha) if model is None else model
        run = run.refit
        own = False
    elif run.refit is not None or model is None:
        model = leader.model or candidate.model(1)
    return run.fold_models(model, candidate.kernel, alpha, parts), own


def _folds_of_blend(crossfit: Crossfit, known: Mapping[int, Folds], parts: Sequence[Any]) -> Folds:
    """Of a blend: each fold's members with the weights of the other folds; some are `known` by id."""
    used = np.flatnonzero(crossfit.weights.any(axis=0))
    leaders = [crossfit.leaders[int(number)] for number in used]
    found = [known.get(id(leader)) or _folds_of(leader, parts) for leader in leaders]
    models = [model for model, _ in found if model is not None]
    count = len(crossfit.folds)
    if len(models) < len(found):
        return None, True
    source = np.zeros(count, dtype=np.intp) if len(parts) == 1 else np.arange(count)
    return mixed(models, crossfit.weights[:, used], source), all(own for _, own in found)


def calibrate_alone(
    estimator: Any, run: Run, model: Callable[[], Model], task: Task, alpha: Any, seed: int
) -> dict[str, Any]:
    """On rows left out one by one, 1000 at most where each has its cost; returns what is reported."""
    estimator.calibrator_ = None
    if estimator.calibration is None:
        return {}
    approximation = run.approximation if run.refit is None else run.refit.approximation
    if run.problem.remote or not approximation.selects:
        return {"calibrated_with": "none: there are no held-out predictions"}
    n = run.problem.n
    some = sample_rows(np.arange(n), _ROWS, np.random.default_rng([seed, 2]), task.labels)
    rows, values = model().left_out(some, float(run.problem.ridge(alpha).reshape(-1)[0]))
    values = host_array(values)
    known = np.isfinite(values).all(axis=1)
    rows = rows[known]
    values = values[known]
    if not rows.size:
        return {"calibrated_with": "none: there are no finite predictions of left-out rows"}
    calibrate(estimator, values, rows, task)
    return {"calibrated_with": f"predictions of {rows.size} of {n} rows, each left out of training"}


def calibrate_heldout(estimator: Any, found: SearchResult, final: Final, setup: Setup) -> None:
    """On the held-out predictions of what a search chose; where it has none, on rows left out alone."""
    estimator.calibrator_ = estimator.heldout_proba_ = None
    if estimator.calibration is None:
        return
    heldout = final.heldout
    splits = found.scoring.splits
    task = found.scoring.task
    if heldout is None or splits is None or task is None:
        leader = final.leaders[0]
        run = leader.candidate.run
        alpha = leader.alpha
        model = partial(run.final_model, leader.candidate.kernel, alpha)
        calibrate_alone(estimator, run, model, setup.task, alpha, setup.seed or 0)
        return
    rows = np.flatnonzero(np.isfinite(heldout).all(axis=1))
    calibrate(estimator, heldout[rows], rows, task)
    if rows.size < 2:
        return  # nothing to calibrate the one row by
    tested = np.concatenate(splits.tests)
    index = np.searchsorted(estimator.classes_, task.y)
    settings = estimator.calibration, heldout[tested][None], index, task.sample_weight
    means = mean_by_row(tested, crossfitted(*settings, splits, task.class_weight)[0], splits.n)
    estimator.heldout_proba_ = found.scoring.problem.in_table(means, setup.rows)


def calibrate(estimator: Any, values: Any, rows: Any, task: Task) -> None:
    """On held-out predictions (rows, targets) of these rows of the task; nothing if it is not wanted."""
    estimator.calibrator_ = None
    if estimator.calibration is not None:
        index = np.searchsorted(estimator.classes_, task.y[rows])
        weights = task.weight_of(rows), task.class_weight
        estimator.calibrator_ = fit_calibrator(estimator.calibration, values, index, *weights)


def require_jackknife_memory(problem: Problem) -> None:
    """Raise MemoryError if the models without each row would not fit."""
    n, _, t = problem.shape
    needed = 8 * _JACKKNIFE_ARRAYS * n * n * t
    require_memory(needed, f"jackknife+ with {n} models", 'use intervals="cv+"')


def parts_of(method: str, n: int) -> list[Any]:
    """Rows that are each left out alone, or five folds of consecutive rows."""
    return np.array_split(np.arange(n), n if method == "jackknife+" else min(n, FOLDS))


def _searched_parts(method: str, found: SearchResult) -> Sequence[Any] | None:
    """The rows that fold models are made without, in the order of the search; None for no models."""
    splits = found.scoring.splits
    n, _, t = found.scoring.problem.shape
    if method == "jackknife+" or splits is None or splits.leave_one_out:
        return parts_of(method, n)
    count = len(splits.left_out)
    if count > _MANY_FOLDS and count * n * t > _LARGEST_MODELS:
        warn_user(
            f"the models trained without each of {count} folds have too many coefficients to keep; use "
            f"{_MANY_FOLDS} folds or fewer."
        )
        return None
    return list(splits.left_out)
