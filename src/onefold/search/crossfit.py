"""One record of what was fitted: a cell, its models without each fold, and what these predict there.

A search makes one for the best cell of every group, with the held-out predictions alone. The functions
here return a fuller record: :func:`with_predictions`, where a search scored without them,
:func:`with_fold_models`, and :func:`with_second`, where the cell is also scored by another splitter. The
final fit adds the expansion (:mod:`onefold.estimators.final`). A blend of
several records is one record again (:func:`onefold.search.choice.blended`). Choice, calibration,
intervals and importances take nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np

from onefold.approximations import Model, Problem, Run
from onefold.criteria import Scoring
from onefold.expansions import FoldModels
from onefold.heldout import Splits, heldout_blocks
from onefold.linalg import HostArray, Index
from onefold.machine.warning import warn_user
from onefold.search.evaluation import Candidate, Solved
from onefold.smoothers.base import Failure, attempt


@dataclass(frozen=True)
class Cell:
    """A candidate with one of the ridges."""

    candidate: Candidate
    alpha: Any  # the ridge in the user's units; for given hyper-parameters perhaps one per target
    index: int = 0  # number of the candidate in the ledger
    ridge: int = 0  # and of the ridge


class PredictedBy(Enum):
    """Which models made the held-out predictions of a record."""

    FOLD_MODELS = "the fold models of the record"
    SEARCH = "the models of the search; the fold models, if there are any, are others"


@dataclass(frozen=True)
class Predictions:
    """Predictions of rows by models that were not trained on them, in the user's units."""

    by_row: HostArray  # (n, targets): the mean over the splits that test a row, NaN where none does
    by_split: Sequence[HostArray] | None = None  # of each split, where some row is tested more than once

    def of_tests(self, tests: Sequence[Index]) -> list[HostArray]:
        """The predictions of the rows that each split tests."""
        return [self.by_row[rows] for rows in tests] if self.by_split is None else list(self.by_split)


@dataclass(frozen=True)
class CrossFit:
    """What was fitted to all rows and to all but those of each fold; what is not known yet is None."""

    cells: tuple[Cell, ...]  # one, or the members of a blend
    weights: Any = field(default_factory=lambda: np.ones(1))  # (cells,), which add up to 1
    splits: Splits | None = None  # of the fold models or, without these, of the predictions
    predictions: Predictions | None = None
    predicted_by: PredictedBy = PredictedBy.SEARCH
    fold_models: FoldModels | None = None  # the models without each fold, of the user's targets
    expansion: Any = None  # the model of all rows, a fitted function of the user's targets
    report: dict[str, Any] = field(default_factory=dict)  # what fitted the model of all rows
    model: Model | None = None  # of all rows, where the search keeps it for the final fit
    second: CrossFit | None = None  # the same cell by the second splits, which no search has seen

    @property
    def cell(self) -> Cell:
        """The only cell of a record that is not a blend."""
        (cell,) = self.cells
        return cell

    @property
    def held_out(self) -> Predictions:
        """The held-out predictions; raise where there are none."""
        if self.predictions is None:
            raise ValueError("there are no held-out predictions; use a criterion that holds rows out.")
        return self.predictions

    @property
    def problem(self) -> Problem:
        """Whose rows they are."""
        return self.cells[0].candidate.run.problem


def crossfit_of(solved: Solved, cell: Cell, scoring: Scoring) -> CrossFit:
    """What an evaluation leaves of one of its ridges beside the scores."""
    problem = scoring.problem
    predictions = _predictions_of(scoring, *solved.blocks_at(cell.ridge))
    fit = CrossFit((cell,), splits=scoring.splits, predictions=predictions, model=solved.model)
    if solved.expansion is not None:
        fit = replace(fit, expansion=problem.restore(solved.expansion), report=solved.report)
    if solved.fold_models is not None:
        fold_models = solved.fold_models.plus(problem.offset)
        fit = replace(fit, fold_models=fold_models, predicted_by=PredictedBy.FOLD_MODELS)
    return replace(fit, second=second_of(solved, cell, scoring))


def with_predictions(fit: CrossFit, scoring: Scoring) -> CrossFit:
    """The record with held-out predictions: of the kept model, or of one that is made for them."""
    if fit.predictions is not None or scoring.splits is None:
        return fit
    model = fit.cell.candidate.model(1) if fit.model is None else fit.model
    ridge = float(scoring.problem.ridge(fit.cell.alpha))
    blocks = list(heldout_blocks(model, scoring.splits, [ridge]))
    return replace(fit, splits=scoring.splits, predictions=_predictions_of(scoring, blocks, 0))


def _predictions_of(scoring: Scoring, blocks: list[Any], number: int) -> Predictions | None:
    """The predictions at one of the blocks' ridges; None where there are no blocks."""
    by_row, by_split = scoring.heldout(blocks, number)
    return None if by_row is None else Predictions(by_row, by_split)


def with_fold_models(fit: CrossFit, splits: Splits, model: Model | None = None) -> CrossFit:
    """The record with the models without each fold of the splits; None where they cost too much.

    They are of the kind of the final `model`, or of the search's where that has no closed form for
    folds. A record with an expansion or with fold models came with all that there are.
    """
    if fit.expansion is not None or fit.fold_models is not None:
        return fit
    candidate = fit.cell.candidate
    alpha = fit.cell.alpha
    if candidate.parts is not None:
        run = candidate.run
        model = candidate.model(1)
    else:
        run, model = _model_for_folds(fit, model)
    # Those of a search with another kernel, and fits of their own, are other models.
    same_models = run is candidate.run and run.approximation.fold_models == "closed"
    same_models |= candidate.parts is not None
    predicted_by = PredictedBy.SEARCH
    if same_models and fit.predictions is not None and splits is fit.splits:
        predicted_by = PredictedBy.FOLD_MODELS
    fold_models = run.fold_models(model, candidate.kernel, alpha, list(splits.left_out))
    return replace(fit, splits=splits, fold_models=fold_models, predicted_by=predicted_by)


def _model_for_folds(fit: CrossFit, model: Model | None) -> tuple[Run, Model]:
    """The model that is asked about folds, and its run: the final one, or that of the search."""
    candidate = fit.cell.candidate
    run = candidate.run
    if run.refit is not None and run.refit.approximation.has_folds(run.problem.n):
        final = run.final_model(candidate.kernel, fit.cell.alpha) if model is None else model
        return run.refit, final
    if run.refit is not None or model is None:
        model = candidate.model(1) if fit.model is None else fit.model
    return run, model


def with_second(
    fit: CrossFit,
    scoring: Scoring,
    model: Model | None,
    fold_splits: Splits | None,
    relearned: Callable[[Candidate], Candidate] | None = None,
) -> CrossFit:
    """The record with that of the scoring's splits: what the same cell predicts without each of them.

    Where a search had a metric for each fold, so have these splits: `relearned` gives the candidate with
    kernels that were learned without them. `model` is the final one, or None; with `fold_splits`, which
    are mostly the splits themselves, the models without each of these come, too.
    """
    if fit.second is not None:
        return fit
    if fit.cell.candidate.parts is not None and relearned is not None:
        candidate = relearned(fit.cell.candidate)
        return _with_relearned_second(fit, replace(fit.cell, candidate=candidate), scoring, fold_splits)
    cell = replace(fit.cell, candidate=replace(fit.cell.candidate, parts=None, part_kernels=()))
    own_model = fit.model if fit.cell.candidate.parts is None else None
    unscored = CrossFit((cell,), splits=scoring.splits, model=own_model)
    run, fold_model = _model_for_folds(unscored, model)
    ridge = float(scoring.problem.ridge(cell.alpha))
    blocks = attempt(lambda: list(heldout_blocks(fold_model, scoring.held_out, [ridge])))
    if isinstance(blocks, Failure):
        warn_user(f"there is no second score: {blocks.reason}")
        return fit
    second = replace(unscored, predictions=_predictions_of(scoring, blocks, 0))
    if fold_splits is not None:
        second = with_fold_models(replace(second, model=fold_model), fold_splits, fold_model)
        if fold_splits is scoring.splits and run.approximation.fold_models == "closed":
            second = replace(second, predicted_by=PredictedBy.FOLD_MODELS)
    return replace(fit, second=replace(second, model=None))


def _with_relearned_second(
    fit: CrossFit, cell: Cell, scoring: Scoring, fold_splits: Splits | None
) -> CrossFit:
    """The record with that of the scoring's splits, from fits with a kernel for each of them."""
    model = cell.candidate.model(1)
    ridge = float(scoring.problem.ridge(cell.alpha))
    blocks = attempt(lambda: list(heldout_blocks(model, scoring.held_out, [ridge])))
    if isinstance(blocks, Failure):
        warn_user(f"there is no second score: {blocks.reason}")
        return fit
    predictions = _predictions_of(scoring, blocks, 0)
    second = CrossFit((cell,), splits=scoring.splits, predictions=predictions)
    if fold_splits is not None:
        models = model.fold_models(scoring.held_out.left_out, ridge)
        if models is not None:
            models = models.plus(scoring.problem.offset)
        second = replace(second, fold_models=models, predicted_by=PredictedBy.FOLD_MODELS)
    return replace(fit, second=second)


def second_of(solved: Solved, cell: Cell, scoring: Scoring) -> CrossFit | None:
    """The record of the second splits that came with an evaluation, if any did."""
    if solved.second is None:
        return None
    plain_cell = replace(cell, candidate=replace(cell.candidate, parts=None, part_kernels=()))
    second = scoring.criterion.start(scoring.problem, scoring.task, solved.second.splits)
    predictions = _predictions_of(second, solved.second.blocks, 0)
    fit = CrossFit((plain_cell,), splits=second.splits, predictions=predictions)
    if solved.second.fold_models is None:
        return fit
    fold_models = solved.second.fold_models.plus(scoring.problem.offset)
    return replace(fit, fold_models=fold_models, predicted_by=PredictedBy.FOLD_MODELS)
