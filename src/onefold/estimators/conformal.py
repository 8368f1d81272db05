"""From held-out predictions to intervals: residuals, fold by fold, and the models behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn import get_config

from onefold.approximations import Problem
from onefold.calibration import ConformalIntervals
from onefold.estimators.final import Final
from onefold.estimators.spread import Spread, learn_spread
from onefold.expansions import FoldModels, mixed
from onefold.kernels import Kernel, Precomputed
from onefold.linalg import take_rows, to_numpy
from onefold.machine.threads import spans
from onefold.machine.warning import warn_user
from onefold.search import Outcome

_FOLDS = 5  # where a search has held out none
_BY_FOLDS = "the models without each fold"
_BY_FINAL = "the final model itself, with the residuals of held-out rows"


@dataclass(frozen=True)
class HeldOut:
    """Rows that models without them predict.

    Attributes
    ----------
    problem : Problem
    models : FoldModels or None
        None where f itself stands for them; the residuals are those of one fold then.
    tests, left_out : sequences of int arrays
        The rows that each model predicts, and those that it was not trained on.
    predictions : list of arrays (rows, targets) or None
        Of the tested rows, in the user's units, where they are known.
    """

    problem: Problem
    models: FoldModels | None
    tests: Sequence[Any]
    left_out: Sequence[Any]
    predictions: list[Any] | None = None


@dataclass(frozen=True)
class Conformed:
    """Intervals, and what makes their predictions.

    Attributes
    ----------
    intervals : ConformalIntervals
    models, spread : FoldModels or None
    scores : array (n, targets)
        |r| of every row of the problem, the mean over the splits that test it; NaN where none does.
    report : dict
    """

    intervals: ConformalIntervals
    models: FoldModels | None
    spread: FoldModels | None
    scores: Any
    report: dict[str, Any]


def unshuffled_folds(n: int) -> list[Any]:
    """Five folds of consecutive rows, or as many as there are rows."""
    return [rows for rows in np.array_split(np.arange(n), min(n, _FOLDS)) if rows.size]


def parts_for(method: str, searched: Outcome) -> list[Any]:
    """The rows that fold models are to be trained without, in the order of the search."""
    splits, n = searched.scoring.splits, searched.scoring.problem.n
    if method == "jackknife+":
        return list(np.arange(n)[:, None])
    if splits is None or splits.leave_one_out:
        return unshuffled_folds(n)
    return list(splits.left_out)


def heldout_of(
    method: str, searched: Outcome, final: Final, parts: Sequence[Any] | None
) -> HeldOut | None:
    """What the final models of a search say of rows that they have not seen; None for nothing."""
    problem, splits, folds = searched.scoring.problem, searched.scoring.splits, final.folds
    models = None if folds is None else folds.models
    if models is None or parts is None:
        if final.heldout is None:
            return None
        tested = np.flatnonzero(np.isfinite(final.heldout).all(axis=1))
        return HeldOut(problem, None, [tested], [tested], [final.heldout[tested]])
    if method == "jackknife+" or splits is None or splits.leave_one_out:
        return HeldOut(problem, models, parts, parts)
    tests, left_out, leader = splits.tests, splits.left_out, final.leaders[0]
    if final.crossfit is not None:
        tests = final.crossfit.folds
        left_out = list(left_out) * len(tests) if len(left_out) == 1 else left_out
    known = None
    if folds is not None and folds.own and not (splits.repeated and final.crossfit is not None):
        known = leader.of_splits or [final.heldout[rows] for rows in tests]
    return HeldOut(problem, models, tests, left_out, known)


def conform(method: str, held: HeldOut, kernel: Kernel, seed: int) -> Conformed | None:
    """The intervals of a method from what is held out; None where no residual is finite."""
    if method == "split" and held.models is not None:
        one = mixed([held.models], np.ones((1, 1)), np.zeros((1, held.models.n_targets)), [0])
        known = None if held.predictions is None else held.predictions[:1]
        held = replace(
            held, models=one, tests=held.tests[:1], left_out=held.left_out[:1], predictions=known
        )
    rows, fold, residuals = _residuals(held)
    if not len(residuals):
        return None
    report = {"method": method, "residuals": len(residuals)}
    spread: Spread | None = None
    if method == "normalised" and held.models is not None:
        held, fold = _several(held, rows, fold)
        precomputed = isinstance(kernel, Precomputed)
        spread = learn_spread(held.problem, held.left_out, rows, fold, residuals, precomputed, seed)
    if method == "normalised" and spread is None:
        method, report["method"] = "cv+", "cv+"
        report["why"] = "too few residuals outside each fold to learn their size from"
        if held.models is None:
            report["why"] = "the approximation has no models without each fold"
        warn_user(
            f"the intervals are not normalised: {report['why']}; use more rows, folds that test every "
            'row (cv=5, say), or approximation="exact" or "nystroem".'
        )
    count = 1 if held.models is None else held.models.count
    report |= {"folds": count, "predictions": _BY_FINAL if held.models is None else _BY_FOLDS}
    values = None if spread is None else spread.values
    intervals = ConformalIntervals(method, residuals, fold.astype(np.int32), count, values)
    scores = _scores(held.problem.n, rows, residuals)
    return Conformed(intervals, held.models, None if spread is None else spread.models, scores, report)


def _residuals(held: HeldOut) -> tuple[Any, Any, Any]:
    """Rows, folds and signed residuals (N, targets), those that are finite."""
    problem, single = held.problem, [np.unique(test, return_index=True) for test in held.tests]
    rows = np.concatenate([own for own, _ in single])
    fold = np.repeat(np.arange(len(single)), [own.size for own, _ in single])
    if held.predictions is not None:
        pairs = zip(held.predictions, single)
        values = np.concatenate([np.asarray(known)[first] for known, (_, first) in pairs])
    else:
        values = predicted(held, rows, fold)
    offset = 0.0 if problem.offset is None else problem.offset
    residuals = to_numpy(problem.Y)[rows] - (values - offset)
    finite = np.isfinite(residuals).all(axis=1)
    return rows[finite], fold[finite], residuals[finite]


def predicted(held: HeldOut, rows: Any, fold: Any) -> Any:
    """The rows (rows, targets), each by the model of its fold; no more than some rows by all at once."""
    models = held.models
    values = np.empty((rows.size, int(held.problem.Y.shape[1])))
    if models is not None:
        for part in spans(rows.size, rows_at_once(models)):
            every = models.predict(take_rows(held.problem.X, rows[part]))
            values[part] = every[np.arange(len(every)), fold[part]]
    return values


def rows_at_once(models: FoldModels | None) -> int:
    """Rows whose predictions by all folds, some four times over, fit the working memory."""
    width = 1 if models is None else models.count * models.n_targets
    return max(1, int(get_config()["working_memory"] * 2**20 / (32 * width)))


def _several(held: HeldOut, rows: Any, fold: Any) -> tuple[HeldOut, Any]:
    """The rows of a single split in five folds of the same model: sizes are learned across them."""
    if len(held.tests) > 1 or held.models is None:
        return held, fold
    tests = [rows[i::_FOLDS] for i in range(min(_FOLDS, rows.size))]
    count = len(tests)
    same = mixed(
        [held.models], np.ones((count, 1)), np.zeros((count, held.models.n_targets)), [0] * count
    )
    place = np.arange(rows.size) % _FOLDS
    return replace(held, models=same, tests=tests, left_out=tests, predictions=None), place


def _scores(n: int, rows: Any, residuals: Any) -> Any:
    total, count = np.zeros((n, residuals.shape[1])), np.zeros((n, 1))
    np.add.at(total, rows, np.abs(residuals))
    np.add.at(count, rows, 1)
    with np.errstate(invalid="ignore"):
        return total / count
