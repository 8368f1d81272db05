r"""Intervals from the residuals of held-out rows, fold by fold.

*Normalised* ones need σ(x), how large residuals are at x, from a second model of the logarithms of
their sizes: log σ_s(x) is a kernel expansion fitted to log max(R_i, floor) over rows i outside fold s,
so that σ_s is not fitted to the residuals that it divides. It is not independent of them: the residuals
of rows outside a fold come from models that were trained with that fold. One search on 2000 rows at
most chooses its width and ridge, and its own fold models are the σ_s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import get_config

from onefold.approximations import Model, Problem, Run
from onefold.calibration import ConformalIntervals
from onefold.calibration.intervals import WITHOUT_FOLD_MODELS
from onefold.estimators.final import FOLDS, Final, finish, parts_of
from onefold.estimators.validation import is_precomputed
from onefold.expansions import FoldModels, mixed
from onefold.heldout import mean_by_row, sample_rows
from onefold.kernels import Kernel
from onefold.linalg import take_rows
from onefold.machine.threads import spans
from onefold.machine.warning import warn_user
from onefold.rows import to_host
from onefold.search.loop import Search, SearchResult

_BY_FOLDS = "the models trained without each fold"
_BY_FINAL = "the final model, with the residuals of held-out rows"
_SPREAD_ROWS = 2000
_FEWEST = 10  # rows that a fold's σ is learned from
_FLOOR = 1e-3  # of the mean size of residuals
_WIDTHS = (0.1, 0.3, 1.0, 3.0, 10.0)
_RIDGES = tuple(4.0**power for power in range(-2, 6))  # the logarithm of a size is mostly noise


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
    parts = parts_of(method, run.problem.n)
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
        parts = parts_of(method, problem.n)
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
    count = min(FOLDS, rows.size)
    place[np.argsort(rows)] = np.arange(rows.size) % FOLDS
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
