r"""From what a search found to the model that is kept, with its calibration and its intervals.

The model is the chosen one or a blend. Intervals come from residuals of held-out rows, fold by fold.
*Normalised* ones need σ(x), how large residuals are at x, from a second model of the logarithms of
their sizes: log σ_s(x) is a kernel expansion fitted to log max(R_i, floor) over rows i outside fold s,
so that σ_s is not fitted to the residuals that it divides. It is not independent of them: the residuals
of rows outside a fold come from models that were trained with that fold. One search on 2000 rows at
most chooses its width and ridge, and its own fold models are the σ_s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn import get_config

from onefold.approximations import Exact, Model, Problem, Run, Workload
from onefold.calibration import ConformalIntervals, crossfitted, fit_calibrator
from onefold.calibration.intervals import METHODS, WITHOUT_FOLD_MODELS
from onefold.criteria import Task
from onefold.estimators.validation import is_precomputed
from onefold.expansions import Blend, Expansion, FittedFunction, FoldModels, mixed
from onefold.heldout import mean_by_row, sample_rows
from onefold.kernels import Kernel
from onefold.linalg import HostArray, host_array, rows_like, scattered, take_rows
from onefold.machine.memory import require_memory
from onefold.machine.threads import spans
from onefold.machine.warning import warn_user
from onefold.rows import to_host
from onefold.search.choice import BlendResult, Crossfit, Leader, blend_leaders
from onefold.search.ledger import Ledger
from onefold.search.loop import Search, SearchResult
from onefold.search.strategies import Setup

_ROWS = 1000  # that are left out, each alone, to calibrate by, where every one costs O(n²)
_FOLDS = 5  # where a search has held out none
_MANY_FOLDS = 64
_LARGEST_MODELS = 2**24  # coefficients of many folds that are kept; beyond, f itself serves
_JACKKNIFE_ARRAYS = 8  # of n × n for each target, while the n models are made
_BY_FOLDS = "the models trained without each fold"
_BY_FINAL = "the final model, with the residuals of held-out rows"

_PERMUTED_ROWS = 1000
_FEWEST_PERMUTED = 30  # whose features are permuted
_PERMUTED_WORK = 1e10  # multiply-adds of their predictions
_TEACHERS = 2000  # rows at most that the models of importances are fitted to
_EXPONENTIAL = 10  # multiply-adds take as long as the exponential of a kernel value

_SPREAD_ROWS = 2000
_FEWEST = 10  # rows that a fold's σ is learned from
_FLOOR = 1e-3  # of the mean size of residuals
_WIDTHS = (0.1, 0.3, 1.0, 3.0, 10.0)
_RIDGES = tuple(4.0**power for power in range(-2, 6))  # the logarithm of a size is mostly noise


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


# -- importances --------------------------------------------------------------------------------------


def heldout_importances(
    found: SearchResult, final: Final, groups: Sequence[Any] | None, seed: int
) -> HostArray | str:
    """The rise of the squared error where features are permuted, in shares of the sum of all rises.

    Of held-out rows, split after split until there are enough, by what was chosen, fitted to rows
    outside the split. `groups` of features, the indicators of one column say, are permuted together and
    share their rise. All are 0 where no feature matters. Returns the reason where there are none: it
    would take longer than a few fits, or the system cannot be solved on these rows.
    """
    scoring = found.scoring
    splits = found.scoring.held_out
    problem = found.scoring.problem
    d = problem.shape[1]
    weights = np.ones(1) if final.blend is None else final.blend.weights
    groups = [np.array([j]) for j in range(d)] if groups is None else groups
    work = len(groups) * (d + _EXPONENTIAL) * min(problem.n, _TEACHERS) * len(weights)
    wanted = min(_PERMUTED_ROWS, int(_PERMUTED_WORK / work))
    rises = np.zeros(d)
    if wanted < _FEWEST_PERMUTED or splits.leave_one_out:
        return f"permuting each of {len(groups)} columns would take longer than a few fits"
    generator = np.random.default_rng([seed, 3])
    for number, left_out in enumerate(splits.left_out):
        rows = sample_rows(np.unique(splits.tests[number]), wanted, generator, scoring.task.labels)
        outside = np.setdiff1d(np.arange(problem.n), left_out)
        own = problem.rows(sample_rows(outside, _TEACHERS, generator, scoring.task.labels)).centred()
        run = Exact().start(own, [], Workload())
        members = []
        for one in final.leaders:
            kernels = one.candidate.part_kernels  # learned without each part, where there are any
            model = run.model(kernels[number] if kernels else one.candidate.kernel)
            ridge = own.ridge(one.alpha)
            # An error here would lose the result of the search, which matters more than importances.
            if not model.usable(None, np.reshape(ridge, -1)).all():
                return "the chosen alpha cannot be used on the rows that importances are computed from"
            members.append(own.restore(model.expansion(ridge)))
        X = host_array(take_rows(problem.X, rows))
        Y = problem.targets[rows]
        v = scoring.training_weights[rows]
        order = generator.permutation(rows.size)

        def loss(X: Any, members: Any = members, v: Any = v, Y: Any = Y) -> float:
            there = rows_like(X, problem.X)
            values = sum(w * host_array(one.predict(there)) for w, one in zip(weights, members))
            return float(v @ np.sum((values - Y) ** 2, axis=1))

        whole = loss(X)
        for group in groups:
            permuted = X.copy()
            permuted[:, group] = X[order][:, group]
            rises[group] += (loss(permuted) - whole) / len(group)
        wanted -= rows.size
        if wanted <= 0:
            break
    shares = np.maximum(rises, 0.0)
    return shares / (shares.sum() or 1.0)


# -- intervals ----------------------------------------------------------------------------------------


def check_intervals(method: Any, run: Run, *, learned: bool = False, given: str | None = None) -> None:
    """Raise before a fit for intervals that it could not make; `given` names one that fits once."""
    problem = run.problem
    approximation = run.approximation
    if method is None:
        return
    if method not in METHODS:
        names = ", ".join(f'"{name}"' for name in METHODS)
        raise ValueError(f"intervals must be None or one of {names}; got {method!r:.60}.")
    if method == "normalised" and problem.remote:
        raise ValueError(
            "normalised intervals need all rows in memory, and Dask rows stay on their workers; "
            'use intervals="cv+".'
        )
    if method == "jackknife+":
        if not (approximation.exact and approximation.fold_models == "closed") or learned:
            raise ValueError(
                'intervals="jackknife+" needs the exact method, without a learned metric or a '
                'blend; use approximation="exact", metric=None and blend=False, or intervals="cv+".'
            )
        problem.check_single_rows()
        n, _, t = problem.shape
        needed = 8 * _JACKKNIFE_ARRAYS * n * n * t
        require_memory(needed, f"jackknife+ with {n} models", 'use intervals="cv+"')
    if given is not None and (problem.remote or not approximation.has_folds(problem.n)):
        what = "rows of Dask" if problem.remote else f"{approximation!r:.60} and {problem.n} rows"
        raise ValueError(
            f"intervals need models trained without each fold, which a single fit does not make for "
            f'{what}; use approximation="exact" or "nystroem", or {given}CV.'
        )


def _parts_of(method: str, n: int) -> list[Any]:
    """Rows that are each left out alone, or five folds of consecutive rows."""
    return np.array_split(np.arange(n), n if method == "jackknife+" else min(n, _FOLDS))


def _searched_parts(method: str, found: SearchResult) -> Sequence[Any] | None:
    """The rows that fold models are made without, in the order of the search; None for no models."""
    splits = found.scoring.splits
    n, _, t = found.scoring.problem.shape
    if method == "jackknife+" or splits is None or splits.leave_one_out:
        return _parts_of(method, n)
    count = len(splits.left_out)
    if count > _MANY_FOLDS and count * n * t > _LARGEST_MODELS:
        warn_user(
            f"the models trained without each of {count} folds have too many coefficients to keep; use "
            f"{_MANY_FOLDS} folds or fewer."
        )
        return None
    return list(splits.left_out)


@dataclass(frozen=True)
class HeldOut:
    """Rows that models without them predict."""

    problem: Problem
    models: FoldModels | None  # None where f itself stands in: its residuals are those of one fold
    tests: Sequence[Any]  # the rows that each model predicts
    left_out: Sequence[Any]  # and those that it was not trained on
    predictions: list[Any] | None = None  # (rows, targets) of the tests in the user's units, where known


def given_heldout(
    method: str | None, run: Run, model: Model, kernel: Kernel, alpha: Any
) -> HeldOut | None:
    """Of given hyper-parameters: five folds, or single rows, in closed form; None for nothing."""
    if method is None or run.problem.n < 2:
        return None
    parts = _parts_of(method, run.problem.n)
    models = run.fold_models(model, kernel, alpha, parts)
    return None if models is None else HeldOut(run.problem, models, parts, parts)


def heldout_of(method: str | None, found: SearchResult, final: Final) -> HeldOut | None:
    """What the final models of a search predict for rows that they have not seen; None for nothing."""
    problem = found.scoring.problem
    splits = found.scoring.splits
    if method is None:
        return None
    if final.folds is None:
        if final.heldout is None:
            return None
        tested = np.flatnonzero(np.isfinite(final.heldout).all(axis=1))
        return HeldOut(problem, None, [tested], [tested], [final.heldout[tested]])
    if method == "jackknife+" or splits is None or splits.leave_one_out:
        parts = _parts_of(method, problem.n)
        return HeldOut(problem, final.folds, parts, parts)
    tests = splits.tests
    left_out = splits.left_out
    crossfit = None if final.blend is None else final.blend.crossfit
    if crossfit is not None:
        tests = crossfit.folds
        left_out = list(left_out) * len(tests) if len(left_out) == 1 else left_out
    known = None
    if final.own and not (splits.repeated and crossfit is not None):
        known = final.leaders[0].of_splits or [final.heldout[rows] for rows in tests]
    return HeldOut(problem, final.folds, tests, left_out, known)


def fit_intervals(estimator: Any, held: HeldOut | None, seed: int, n: int) -> None:
    """Set the fitted attributes, for a table of n rows."""
    estimator.intervals_ = estimator.fold_models_ = estimator.spread_models_ = None
    estimator.conformity_scores_ = None
    if held is None:
        return
    problem = held.problem
    rows, fold, residuals = _residuals(held)
    if not len(residuals):
        return
    method = estimator.intervals
    precomputed = is_precomputed(estimator.kernel)
    report: dict[str, Any] = {"residuals": len(residuals)}
    spread = values = None
    if held.models is None:
        method = WITHOUT_FOLD_MODELS
        warn_user(
            f'the intervals use method="{method}" instead of "{estimator.intervals}", without a '
            "guarantee of coverage: there are no models trained without each fold, and the final model "
            'replaces them; use fewer folds, approximation="exact" or "nystroem", or intervals=None.'
        )
    elif method == "normalised":
        held, fold = _several(held, rows, fold)
        spread = _learn_spread(held, rows, fold, residuals, precomputed, seed)
        if spread is None:
            method = "cv+"
            report["why"] = "too few residuals outside each fold to learn their size from"
            warn_user(
                f"the intervals are not normalised: {report['why']}; use more rows, folds that test "
                'every row, such as cv=5, or approximation="exact" or "nystroem".'
            )
        else:
            values = spread_from(_predicted(spread, problem, rows, fold), residuals)
    count, by = (1, _BY_FINAL) if held.models is None else (held.models.count, _BY_FOLDS)
    report |= {"method": method, "folds": count, "predictions": by}
    estimator.approximation_["intervals"] = report
    estimator.intervals_ = ConformalIntervals(method, residuals, fold.astype(np.int32), count, values)
    for name, models in (("fold_models_", held.models), ("spread_models_", spread)):
        if precomputed and models is not None and problem.kept is not None:
            models = models.with_columns(n, problem.kept)  # one for every row of X
        setattr(estimator, name, models)
    scores = problem.in_table(mean_by_row(rows, np.abs(residuals), problem.n), n)
    estimator.conformity_scores_ = scores[:, 0] if estimator.single_target_ else scores


def _residuals(held: HeldOut) -> tuple[Any, Any, Any]:
    """Rows, folds and signed residuals (N, targets), those that are finite; a row once in each fold."""
    problem = held.problem
    tested = []
    single = []
    for test in map(np.asarray, held.tests):
        once: Any = slice(None)
        if np.any(np.diff(test) <= 0):  # in no order, and some rows perhaps twice
            once = np.sort(np.unique(test, return_index=True)[1])
        tested.append(test[once])
        single.append(once)
    rows = np.concatenate(tested)
    fold = np.repeat(np.arange(len(tested)), [own.size for own in tested])
    if held.predictions is not None:
        values = np.concatenate([np.asarray(v)[own] for v, own in zip(held.predictions, single)])
    elif held.models is not None:
        values = _predicted(held.models, problem, rows, fold)
    residuals = problem.targets[rows] - (values - problem.offset)
    finite = np.isfinite(residuals).all(axis=1)
    return (rows, fold, residuals) if finite.all() else (rows[finite], fold[finite], residuals[finite])


def _predicted(models: FoldModels, problem: Problem, rows: Any, fold: Any) -> Any:
    """The rows (rows, targets), each by the model of its fold; no more than some rows by all at once."""
    values = np.empty((rows.size, models.n_targets))
    for part in spans(rows.size, rows_at_once(models)):
        every = models.predict(take_rows(problem.X, rows[part]))
        values[part] = every[np.arange(len(every)), fold[part]]
    return values


def rows_at_once(models: FoldModels | None) -> int:
    """Rows whose predictions by all folds, about four times over, fit in the working memory."""
    width = 1 if models is None else models.count * models.n_targets
    return max(1, int(get_config()["working_memory"] * 2**20 / (32 * width)))


# -- the size of residuals -----------------------------------------------------------------------------


def _several(held: HeldOut, rows: Any, fold: Any) -> tuple[HeldOut, Any]:
    """The rows of a single split in five folds of the same model: sizes are learned across them."""
    if len(held.tests) > 1 or held.models is None:
        return held, fold
    place = np.empty(rows.size, np.intp)
    count = min(_FOLDS, rows.size)
    place[np.argsort(rows)] = np.arange(rows.size) % _FOLDS
    tests = [rows[place == i] for i in range(count)]
    same = mixed([held.models], np.ones((count, 1)), [0] * count)
    return HeldOut(held.problem, same, tests, tests), place


def _learn_spread(
    held: HeldOut, rows: Any, fold: Any, residuals: Any, precomputed: bool, seed: int
) -> FoldModels | None:
    """Log σ of every fold from the residuals (N, targets) of some rows; None for too few of them."""
    from onefold.estimators.cv import LSSVRCV  # which is a regressor with intervals itself

    problem = held.problem
    parts = [rows[fold == number] for number in range(len(held.left_out))]
    places = sample_rows(np.arange(rows.size), _SPREAD_ROWS, np.random.default_rng([seed, 2]), fold)
    few = np.unique(rows[places])
    splits = []
    for own, out in zip(parts, held.left_out):
        tested = np.isin(few, own)
        outside = ~np.isin(few, out)
        if outside.sum() < _FEWEST:  # windows of a series: no earlier row was tested
            outside = ~tested
        if outside.sum() < _FEWEST or not tested.any():
            return None
        splits.append((np.flatnonzero(outside), np.flatnonzero(tested)))
    X = to_host(take_rows(problem.X, few))
    floor, _ = _range_of(residuals)
    sizes = mean_by_row(rows, np.log(np.maximum(np.abs(residuals), floor)), problem.n)[few]
    machine = LSSVRCV(
        "precomputed" if precomputed else ["rbf"],
        gammas=None if precomputed else _WIDTHS,
        alphas=_RIDGES,
        approximation="exact",
        cv=splits,
        intervals=None,
    )
    # Not by `fit`: users need no warning that a choice lies at the edge of this grid.
    setup = machine.set_up(X[:, few] if precomputed else X, sizes)
    found = setup.strategy.run(Search(setup))
    models = finish(found, blend=False, intervals="cv+").folds
    return models.with_columns(problem.n, few) if precomputed and models is not None else models


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
