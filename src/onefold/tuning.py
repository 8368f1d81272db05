"""A table in, a fitted model out: which task, which rows are held out, and how good it is on them.

Rows are held out before anything is learned, the preparation included. The model that is returned is the
one that is scored: it is not fitted again on all rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from onefold.approximations import resolve_approximation
from onefold.approximations.auto import Plan
from onefold.estimators.setup import plan
from onefold.facts.criteria import requested_criterion
from onefold.facts.scores import flat_scores, score_facts, simple_models
from onefold.facts.words import counted, quoted
from onefold.heldout import past_splits
from onefold.tables import TableClassifier, TableError, TableModel, TableRegressor, TableRows, Target
from onefold.tables.errors import Remedy
from onefold.tables.estimators import inner_estimator, on_matrix
from onefold.tables.roles import Roles, check_columns, check_id, groups_among, refuse_clash
from onefold.tables.searching import AUTO, search_of
from onefold.tables.source import opened
from onefold.tables.store import StackedMatrix
from onefold.tables.structure import Structure
from onefold.tables.target import TargetKind
from onefold.tables.training import (
    ScoredRows,
    Training,
    first_pass,
    groups_of,
    left_out_note,
    no_scored_rows_error,
    second_pass,
    structure_of,
)

_MOST_NUMBERS = 4_000_000  # of training rows that simple models are fitted to
# Seconds that scores of simple models and the report take, on one core: those of the tables of
# benchmarks/announced.py on the average.
_SCORING_SECONDS = 1.2
# The parameters that one task has.
_TASK_OF_PARAMETER: dict[str, TargetKind] = {
    "class_weight": "classification",
    "calibration": "classification",
    "intervals": "regression",
    "target_transform": "regression",
    "clip": "regression",
}


def tune_table(table: Any, target: str, **options: Any) -> TableModel:
    """Choose a model for a column of a table, and fit it.

    Parameters
    ----------
    table : path, or pandas, polars or pyarrow table
        A table on disk may be larger than memory. A pattern such as ``data/*.parquet``, or a folder of
        Parquet files, is read as one table.
    target : str
        The column to predict.
    **options
        Those of :func:`tuning`, including the parameters of `TableClassifier` and `TableRegressor`.

    Returns
    -------
    TableClassifier or TableRegressor
        Fitted; takes tables with the same columns. ``report_`` holds the results of the search.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from onefold.tuning import tune_table
    >>> table = pa.table({"size": range(40), "price": [3 * size for size in range(40)]})
    >>> model = tune_table(table, "price", simple=True)
    >>> type(model).__name__, model.score(table, "price") > 0.99
    ('TableRegressor', True)
    """
    with tuning(table, target, **options) as job:
        return job.run()


@dataclass(frozen=True)
class Tuning:
    """A model that is about to be fitted, with the rows that it is fitted to and scored on."""

    model: TableModel
    training: Training
    target: Target

    @property
    def rows(self) -> TableRows | None:
        """The rows that the model is fitted to; None where they stay on disk."""
        return None if self.training.on_disk else self.training.table.read()

    @property
    def estimator(self) -> Any:
        """The estimator that will be fitted to the matrix of the rows."""
        return inner_estimator(self.model, self.training.search, cv=self.training.splitting.cv)

    def plan(self) -> Plan:
        """What :meth:`run` and a report would do, with their time and memory."""
        planned = plan(self.estimator, self.training.X, self.training.y)
        if planned.seconds is None:
            return planned
        return replace(planned, seconds=planned.seconds + _SCORING_SECONDS)

    def run(self, callback: Any = None) -> TableModel:
        """Fit the model, and score it on rows that it has not seen, if there are any.

        A `callback` takes the place of that among the parameters.
        """
        if callback is not None:
            self.model.set_params(callback=callback)
        model = self.model._fit_prepared(self.training)
        if self.training.test is not None:
            model.report_["test"] = _scores_on(model, self.training, self.training.test)
        model.set_params(callback=None, checkpoint=None, scratch=None)  # they have done their work
        return model


@contextmanager
def tuning(
    table: Any,
    target: str,
    *,
    task: TargetKind | None = None,
    weight: str | None = None,
    groups: str | Sequence[str] | None = None,
    holdout: float | None = None,
    test: Any = None,
    **parameters: Any,
) -> Iterator[Tuning]:
    """Check a table and its parameters, ready to :meth:`Tuning.run`.

    Parameters
    ----------
    table, target
        As in :func:`tune_table`.
    task : {"classification", "regression"}, optional
        By default inferred from the values of the target.
    weight : str, optional
        The column of sample weights.
    groups : str or list of str, optional
        The column of groups that stay in one fold, or several columns in which their rows agree, or
        "auto" for groups that are noticed.
    holdout : float, optional
        Fraction of the rows that are held out of the fit and that the model is scored on.
    test : path or table, optional
        Another table to score the model on.
    **parameters
        Those of `TableClassifier` or `TableRegressor`; a parameter of the other task is an error.
    """
    if task not in (None, "classification", "regression"):
        raise ValueError(f"task must be None or 'classification' or 'regression'; got {task!r}")
    if parameters.get("class_weight") not in (None, "balanced"):
        raise ValueError(f"class_weight must be None or 'balanced'; got {parameters['class_weight']!r}")
    if holdout is not None and not 0 < holdout < 1:
        raise ValueError(f"holdout must be a fraction of the rows between 0 and 1; got {holdout!r}")
    if holdout is not None and test is not None:
        raise ValueError("holdout and test cannot be combined; give one of them")
    # The task may be known only after the target is read: parameters are checked for both tasks, and
    # how tables are read does not depend on it.
    _settings_of("classification", parameters)._check_settings()
    settings = _settings_of("regression", parameters)
    settings._check_settings()
    source = opened(table, settings.reading)
    group_columns, notices_groups = groups_among(source, groups)
    if isinstance(group_columns, list):  # of which the table does not have the first
        group_columns = tuple(group_columns)
    roles = Roles(target, weight, group_columns, settings.id_column, notices_groups)
    group_names = group_columns if isinstance(group_columns, tuple) else (group_columns,)
    columns = [("target", target), ("weight", weight), *(("groups", name) for name in group_names)]
    columns.append(("id_column", settings.id_column))
    check_columns(settings, source, [(role, name) for role, name in columns if name is not None])
    check_id(settings.id_column, source)
    test_table = None if test is None else opened(test, source.reading)
    if test_table is not None:
        test_table.require(target, "target")

    hold_out = None
    if holdout is not None:
        hold_out = partial(_held_out, groups=group_columns, share=holdout, settings=settings)
        if notices_groups or settings.ordered == AUTO:
            structure = structure_of(settings, source, roles, task)
            hold_out = partial(hold_out, structure=structure, notices_groups=notices_groups)
    learned = first_pass(settings, source, roles, task, hold_out)
    target_column = learned.target_column
    model = _model_of(target_column, parameters)
    refuse_clash(model.id_column, _outputs_of(target_column))
    model._check_criterion()
    search_of(model, on_disk=not learned.rows.table.in_memory)  # raises before the rows are encoded
    test_table = learned.test if test_table is None else test_table
    scored = None if test_table is None else ScoredRows(test_table, weight)
    with second_pass(model, learned, scored) as training:
        del learned  # the learner holds samples of all columns
        if training.search.metric is None and not resolve_approximation(model.approximation).selects:
            raise TableError(
                f"the approximation {model.approximation!r} cannot select hyper-parameters",
                [Remedy("approximation", "nystroem"), Remedy("approximation", "auto")],
            )
        yield Tuning(model, training, target_column)


def _outputs_of(target: Target) -> list[str]:
    """The columns that predictions of a target may have."""
    if target.task == "regression":
        return ["prediction", "lower", "upper"]
    labels = np.unique(target.values)
    several = [f"decision_{label}" for label in labels] if len(labels) > 2 else ["decision"]
    return ["prediction", *several, *(f"probability_{label}" for label in labels)]


def _refuse_few_rows(remaining: int, rows: int, holdout: float, cv: Any) -> None:
    """Refuse to hold out so many rows that no folds can be made of the remaining ones."""
    folds = cv if isinstance(cv, int) else 2
    if remaining < folds:
        what = f"{folds} folds need" if isinstance(cv, int) else "the search needs"
        raise TableError(
            f" {holdout:g} leaves {remaining} of {rows} rows to tune on, but {what} {folds}",
            ["hold out fewer rows", "add rows"],
            options=["holdout"],
        )


def _settings_of(task: TargetKind, parameters: dict[str, Any]) -> TableModel:
    """The estimator of a task, without the parameters of the other one."""
    suitable = {
        name: value for name, value in parameters.items() if _TASK_OF_PARAMETER.get(name, task) == task
    }
    return (TableClassifier if task == "classification" else TableRegressor)(**suitable)


def _model_of(target: Target, parameters: dict[str, Any]) -> TableModel:
    """The estimator for a target; parameters of the other task must be None."""
    for name, value in parameters.items():
        task = _TASK_OF_PARAMETER.get(name, target.task)
        if task != target.task and value is not None:
            holds = "numbers" if target.task == "regression" else "classes"
            raise TableError(
                f"the parameter {name} is for {task}, but '{target.name}' holds {holds}",
                ["leave it out", Remedy("task", task)],
            )
    return _settings_of(target.task, parameters)


def _held_out(
    rows: TableRows,
    target: Target,
    *,
    groups: str | tuple[str, ...] | None,
    share: float,
    settings: TableModel,
    structure: Structure | None = None,
    notices_groups: bool = False,
) -> np.ndarray:
    """Which rows are held out: the last of ordered rows, whole groups, or random ones of each class.

    Groups and order may be those of a noticed `structure`.
    """
    n = len(rows)
    seed = settings.random_state
    kind = None if structure is None else structure.kind
    codes = None
    names: tuple[str, ...] = ()
    if groups is not None:
        codes = groups_of(rows, groups)
        names = (groups,) if isinstance(groups, str) else groups
    elif structure is not None and kind == "groups" and notices_groups:
        codes = structure.codes
        names = structure.columns
    if codes is not None:
        count = len(np.unique(codes))
        if math.ceil(share * count) >= count:  # as many as the splitter holds out
            raise TableError(
                f" {share:g} leaves none of the {counted(count, 'group')} of {quoted(names)} to tune on",
                ["hold out fewer rows", "add groups"],
                options=["holdout"],
            )
        split = GroupShuffleSplit(1, test_size=share, random_state=seed)
        test_rows = np.sort(next(split.split(np.zeros((n, 1)), groups=codes))[1])
    elif structure is not None and kind == "time" and settings.ordered == AUTO:
        count = min(max(1, round(share * n)), n - 1)
        ranks = structure.codes
        first = max(int(np.sort(ranks)[n - count]), 1)  # rows of a moment are held out together
        test_rows = np.flatnonzero(ranks >= first)
    else:
        count = min(max(1, round(share * n)), n - 1)
        labels = None
        ordered = settings.ordered is True or past_splits(settings.cv) is not None
        if target.task == "classification" and not ordered:
            classes, counts = np.unique(target.values, return_counts=True)
            if counts.min() >= 2 and len(classes) <= count <= n - len(classes):
                labels = target.values
        options = {"shuffle": not ordered, "stratify": labels, "random_state": seed}
        test_rows = np.sort(train_test_split(np.arange(n), test_size=count, **options)[1])
    _refuse_few_rows(n - len(test_rows), n, share, settings.cv)
    return test_rows


def _scores_on(model: TableModel, training: Training, test: ScoredRows) -> dict[str, Any]:
    """How good a model is on rows that it has not seen, next to simple models of the rows it has."""
    train_rows = np.arange(len(training.y))
    if training.X.size > _MOST_NUMBERS:  # simple models are fitted to some of many rows
        size = min(max(2, _MOST_NUMBERS // training.X.shape[1]), len(train_rows))
        train_rows = np.sort(np.random.default_rng(0).choice(train_rows, size, replace=False))
    n_train = len(train_rows)
    criterion = requested_criterion(model.estimator_)
    targets: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    predictions: list[np.ndarray] = []
    probabilities: list[np.ndarray] = []
    n_rows = 0
    without_target = 0
    with ExitStack() as files:
        matrix = StackedMatrix(model.scratch, files)
        matrix.append(training.X[train_rows])
        for block in test.blocks(model):
            n_rows += len(block.y) + block.without_target
            without_target += block.without_target
            if not len(block.y):
                continue
            matrix.append(block.X)
            targets.append(block.y)
            weights.append(block.sample_weight)
            predictions.append(_decisions(model, block.X).reshape(len(block.y), -1))
            if criterion == "neg_log_loss":
                probabilities.append(np.asarray(model.estimator_.predict_proba(block.X)))
        if without_target:
            note = left_out_note(without_target, n_rows, model.target_)
            warnings.warn(f"test table: {note}", stacklevel=2)
        if not sum(map(np.sum, weights)):
            raise no_scored_rows_error(test.weight)
        y_test = np.concatenate(targets)
        y_train = training.y[train_rows]
        values = np.concatenate(predictions)
        classes = None
        shares = None
        if model.task == "classification":
            labels = model.classes_
            if y_test.dtype.kind != labels.dtype.kind:  # with labels of another type, which stay text
                labels = labels.astype(np.str_)
                y_test = y_test.astype(np.str_)
                y_train = y_train.astype(np.str_)
            classes = np.unique(np.concatenate([labels, y_test]))
            columns = np.searchsorted(classes, labels)
            decisions = np.column_stack([-values, values]) if values.shape[1] == 1 else values
            # Labels that the model does not know are the ones that it predicts least.
            values = np.full((len(y_test), len(classes)), decisions.min() - 1.0)
            values[:, columns] = decisions
            if probabilities:
                shares = np.zeros((n_train + len(y_test), len(classes)))
                shares[n_train:, columns] = np.concatenate(probabilities)
        train_weight = training.sample_weight
        train_weight = np.ones(n_train) if train_weight is None else train_weight[train_rows]
        weight = np.concatenate([train_weight, *weights])
        y = np.concatenate([y_train, y_test])
        train, tested = np.split(np.arange(len(y)), [n_train])
        simple = simple_models(matrix.array(), y, [(train, tested)], classes=classes, weight=weight)
        values = np.concatenate([np.full((n_train, values.shape[1]), np.nan), values])
        scores = score_facts(
            y,
            values,
            [tested],
            simple,
            classes=classes,
            probabilities=shares,
            weight=weight,
            criterion=criterion,
        )
    scores |= {"how": "predictions of rows that were not used for tuning", "untested": 0}
    return flat_scores(scores) | {"scores": scores}


def _decisions(model: TableModel, X: Any) -> np.ndarray:
    """Predictions of a regressor in the units of the target, decision values of a classifier."""
    if model.task == "regression":
        return on_matrix(model, "predict", X)
    return np.asarray(model.estimator_.decision_function(X))
