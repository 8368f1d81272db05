"""A table in, a fitted model out: which task, which rows are held out, and how good it is on them.

Rows are held out before anything is learned, the preparation included. The model that is returned is the
one that is scored: it is not fitted again on all rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from onefold.approximations import resolve_approximation
from onefold.facts.criteria import requested_criterion
from onefold.facts.scores import flat_scores, score_facts, simple_models
from onefold.facts.words import counted
from onefold.tables import (
    TableClassifier,
    TableError,
    TableModel,
    TableRegressor,
    TableRows,
    TableSource,
    Target,
    learn_target,
)
from onefold.tables.errors import Remedy
from onefold.tables.estimators import on_matrix
from onefold.tables.preparation import matrix_blocks
from onefold.tables.source import opened
from onefold.tables.target import TargetKind, missing_targets, read_target, refuse_missing_targets
from onefold.tables.training import (
    BLOCK,
    Training,
    check_columns,
    groups_of,
    in_memory,
    learn_from_disk,
    left_out_note,
    masked,
    stacked,
    training_of,
    with_target,
    with_target_on_disk,
)

_MOST_NUMBERS = 4_000_000  # of training rows that simple models are fitted to
_NO_IDS = ("nested", "binary", "large_binary", "fixed_size_binary", "duration", "interval")
_OF_TASK: dict[str, TargetKind] = {
    "class_weight": "classification",
    "calibration": "classification",
    "intervals": "regression",
    "target_transform": "regression",
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
    """A model that is about to be fitted, and the rows that it will be scored on."""

    model: TableModel
    training: Training
    target: Target
    rows: TableRows | None  # that it is fitted on; None where they stay on disk
    weight: str | None
    test: Iterable[Any] | None  # tables, or blocks of one

    def run(self, callback: Any = None) -> TableModel:
        """Fit the model, and score it on rows that it has not seen, if there are any.

        A `callback` takes the place of that among the parameters.
        """
        if callback is not None:
            self.model.set_params(callback=callback)
        model = self.model._fit_prepared(self.training)
        if self.test is not None:
            model.report_["test"] = _measures_on(model, self.training, self.test, self.weight)
        model.set_params(callback=None, checkpoint=None, scratch=None)  # they have done their work
        return model


@contextmanager
def tuning(
    table: Any,
    target: str,
    *,
    task: TargetKind | None = None,
    weight: str | None = None,
    groups: str | None = None,
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
    weight, groups : str, optional
        The columns of sample weights, and of groups that stay in one fold.
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
    for kind in (TableClassifier, TableRegressor):
        suits = {n: value for n, value in parameters.items() if _OF_TASK.get(n, kind.task) == kind.task}
        model: TableModel = kind(**suits)
        model._check_settings()
    data = opened(table, model.reading)
    columns = {"target": target, "weight": weight, "groups": groups, "id_column": model.id_column}
    check_columns(model, data, {option: name for option, name in columns.items() if name is not None})
    check_id(model.id_column, data)
    tests: Any = [] if test is None else [opened(test, data.reading)]
    for one in tests:
        one.require(target, "target")
    data = in_memory(data)
    known = None
    if isinstance(data, TableSource):
        known, *_ = with_target_on_disk(model, data, target)
        others = [target, *([groups] if groups is not None and holdout is not None else [])]
        beside, _ = learn_from_disk(data, others, mask=known)
    else:
        data, *_ = with_target(model, data, target)
        beside = data
    found = learn_target(beside, target, task)
    model = _model_of(found, parameters)
    refuse_clash(model.id_column, _outputs_of(found))
    keep = None
    if holdout is not None:
        held = _held_out(beside, found, groups, holdout, model)
        _refuse_few_left(len(beside) - len(held), len(beside), holdout, model.cv)
        if isinstance(data, TableRows):
            tests = [data.take(held)]
            data = data.take(np.setdiff1d(np.arange(len(data)), held))
        else:
            keep = np.ones(len(beside) if known is None else len(known), dtype=bool)
            keep[held if known is None else np.flatnonzero(known)[held]] = False
    with training_of(model, data, target, weight, groups, keep) as training:
        if training.search.metric is None and not resolve_approximation(model.approximation).selects:
            raise TableError(
                f"the approximation {model.approximation!r} cannot select hyper-parameters",
                [Remedy("approximation", "nystroem"), Remedy("approximation", "auto")],
            )
        if test is not None:
            _check_test(tests[0], target, weight, model, training)
        if keep is not None and isinstance(data, TableSource):
            tests = masked(data.typed_batches(BLOCK), ~keep)
        rows = data if isinstance(data, TableRows) and not training.on_disk else None
        yield Tuning(model, replace(training, target=found), found, rows, weight, tests or None)


def check_id(name: str | None, table: TableRows | TableSource) -> None:
    """Refuse an ID column that is not there, or that no .csv file can hold."""
    if name is None:
        return
    table.require(name)
    first = table if isinstance(table, TableRows) else next(table.batches(1, [name]), None)
    kind = pa.null() if first is None else first.columns.schema.field(name).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    odd = any(getattr(pa.types, f"is_{one}")(kind) for one in _NO_IDS)
    if odd or isinstance(kind, pa.BaseExtensionType):
        raise ValueError(f"the ID column '{name}' must hold text, numbers or dates; got {kind} values")


def refuse_clash(name: str | None, outputs: Iterable[str]) -> None:
    """Refuse an ID column with the name of another column of the predictions."""
    if name in set(outputs):
        raise ValueError(f"the ID column '{name}' clashes with an output column; rename it")


def _outputs_of(target: Target) -> list[str]:
    """The columns that predictions of a target may have."""
    if target.task == "regression":
        return ["prediction", "lower", "upper"]
    labels = np.unique(target.values)
    several = [f"decision_{label}" for label in labels] if len(labels) > 2 else ["decision"]
    return ["prediction", *several, *(f"probability_{label}" for label in labels)]


def _refuse_few_left(left: int, rows: int, holdout: float, cv: Any) -> None:
    """Refuse to hold out so many rows that no folds can be made of the others."""
    folds = cv if isinstance(cv, int) else 2
    if left < folds:
        what = f"{folds} folds need" if isinstance(cv, int) else "the search needs"
        raise TableError(
            f" {holdout:g} leaves {left} of {rows} rows to tune on, but {what} {folds}",
            ["hold out fewer rows", "add rows"],
            options=["holdout"],
        )


def _model_of(target: Target, parameters: dict[str, Any]) -> TableModel:
    """The estimator of a task, without parameters of the other one, which may be None."""
    others = [name for name in parameters if _OF_TASK.get(name, target.task) != target.task]
    for name in others:
        if parameters[name] is not None:
            holds = "numbers" if target.task == "regression" else "classes"
            raise TableError(
                f"the parameter {name} is for {_OF_TASK[name]}, but '{target.name}' holds {holds}",
                ["leave it out", Remedy("task", _OF_TASK[name])],
            )
    given = {name: value for name, value in parameters.items() if name not in others}
    return (TableClassifier if target.task == "classification" else TableRegressor)(**given)


def _check_test(
    table: Any, target: str, weight: str | None, model: TableModel, training: Training
) -> None:
    """Refuse a table to test on that lacks columns or targets, before the search rather than after."""
    if isinstance(table, TableSource):
        table = opened(table, training.reading)
    training.preparation.check_columns(table.names)
    names = [target] if weight is None or weight not in table.names else [target, weight]
    rows = table if isinstance(table, TableRows) else learn_from_disk(table, names)[0]
    if not model.drop_missing_target:
        refuse_missing_targets(rows, target)
    rows = rows.take(np.flatnonzero(~missing_targets(target, rows)))
    if not len(rows) or not all(rows.weights(name).any() for name in names[1:]):
        raise _no_rows_to_test_on(weight if len(rows) else None)


def _no_rows_to_test_on(weight: str | None) -> TableError:
    of = "" if weight is None else f" with a positive weight in '{weight}'"
    return TableError(f"there are no test rows{of}")


def _held_out(
    rows: TableRows, target: Target, groups: str | None, share: float, model: TableModel
) -> np.ndarray:
    """Which rows are held out: the last of ordered rows, whole groups, or random ones of each class."""
    n = len(rows)
    seed = model.random_state
    labels = None
    if groups is not None:
        names = groups_of(rows, groups)
        count = len(np.unique(names))
        if math.ceil(share * count) >= count:  # as many as the splitter holds out
            raise TableError(
                f" {share:g} leaves none of the {counted(count, 'group')} of '{groups}' to tune on",
                ["hold out fewer rows", "add groups"],
                options=["holdout"],
            )
        split = GroupShuffleSplit(1, test_size=share, random_state=seed)
        return np.sort(next(split.split(np.zeros((n, 1)), groups=names))[1])
    count = min(max(1, round(share * n)), n - 1)
    if target.task == "classification" and not model.ordered:
        classes, counts = np.unique(target.values, return_counts=True)
        if counts.min() >= 2 and len(classes) <= count <= n - len(classes):
            labels = target.values
    shuffled = {"shuffle": not model.ordered, "stratify": labels, "random_state": seed}
    return np.sort(train_test_split(np.arange(n), test_size=count, **shuffled)[1])


class _TestRows:
    """Rows that a model has not seen, read block by block: targets, weights and what it predicts.

    Predictions are decision values (rows, columns) of a classifier.
    """

    def __init__(
        self, model: TableModel, weight_column: str | None, with_probabilities: bool = False
    ) -> None:
        self._model = model
        self._weight_column = weight_column
        self._with_probabilities = with_probabilities
        self.targets: list[np.ndarray] = []
        self.weights: list[np.ndarray] = []
        self.predictions: list[np.ndarray] = []
        self.probabilities: list[np.ndarray] = []  # where `with_probabilities` asks for them
        self._missing: list[np.ndarray] = []  # which rows have no target

    def matrices(self, blocks: Iterable[Any]) -> Iterator[np.ndarray]:
        """The matrices of the blocks, without rows that have no target; the rest is kept here."""
        model = self._model
        name = str(self._model.target_)
        for block in blocks:
            weighed = self._weight_column if self._weight_column in block.names else None
            extra = (name,) if weighed is None else (name, weighed)
            for rows, matrix in matrix_blocks(model, block, extra=extra):
                if model.drop_missing_target:
                    missing = missing_targets(name, rows)
                    self._missing.append(missing)
                    if missing.any():
                        rows = rows.take(np.flatnonzero(~missing))
                        matrix = matrix[~missing]
                if not len(rows):  # no labels, and thus no type of labels
                    continue
                self.targets.append(
                    read_target(rows, name, model.task, getattr(model, "classes_", None))
                )
                self.weights.append(np.ones(len(rows)) if weighed is None else rows.weights(weighed))
                self.predictions.append(self._predicted(matrix).reshape(len(rows), -1))
                if self._with_probabilities:
                    self.probabilities.append(np.asarray(model.estimator_.predict_proba(matrix)))
                yield matrix

    def _predicted(self, matrix: np.ndarray) -> np.ndarray:
        if self._model.task == "regression":
            return on_matrix(self._model, "predict", matrix)
        return np.asarray(self._model.estimator_.decision_function(matrix))

    def left_out(self) -> str | None:
        """What to say about rows without a target, all blocks together."""
        missing = np.concatenate([np.zeros(0, dtype=bool), *self._missing])
        return left_out_note(missing, str(self._model.target_)) if missing.any() else None


def _measures_on(
    model: TableModel, training: Training, blocks: Iterable[Any], weight_column: str | None
) -> dict[str, Any]:
    """How good a model is on rows that it has not seen, next to simple models of the rows it has."""
    known = getattr(model, "classes_", None)
    seen = np.arange(len(training.y))
    if training.X.size > _MOST_NUMBERS:  # simple models are fitted to some of many rows
        size = max(2, _MOST_NUMBERS // training.X.shape[1])
        seen = np.sort(np.random.default_rng(0).choice(seen, min(size, len(seen)), replace=False))
    criterion = requested_criterion(model.estimator_)
    unseen = _TestRows(model, weight_column, with_probabilities=criterion == "neg_log_loss")
    with ExitStack() as files:
        X = stacked(chain([training.X[seen]], unseen.matrices(blocks)), model.scratch, files)
        if (note := unseen.left_out()) is not None:
            warnings.warn(f"test table: {note}", stacklevel=2)
        if not sum(map(np.sum, unseen.weights)):
            raise _no_rows_to_test_on(weight_column)
        y = np.concatenate(unseen.targets)
        old = training.y[seen]
        values = np.concatenate(unseen.predictions)
        classes = None
        probabilities = None
        if known is not None:
            both = np.column_stack([-values, values]) if values.shape[1] == 1 else values
            if y.dtype.kind != known.dtype.kind:  # with labels of another type, which stay text
                known, y, old = (labels.astype(np.str_) for labels in (known, y, old))
            classes = np.unique(np.concatenate([known, y]))
            # Labels that the model does not know are the ones that it predicts least.
            values = np.full((len(y), len(classes)), both.min() - 1.0)
            values[:, np.searchsorted(classes, known)] = both
            if unseen.probabilities:
                probabilities = np.zeros((len(seen) + len(y), len(classes)))
                of_known = np.concatenate(unseen.probabilities)
                probabilities[len(seen) :, np.searchsorted(classes, known)] = of_known
        weight = np.ones(len(seen)) if training.sample_weight is None else training.sample_weight[seen]
        weight = np.concatenate([weight, *unseen.weights])
        y = np.concatenate([old, y])
        fitted, tested = np.split(np.arange(len(y)), [len(seen)])
        simple = simple_models(X, y, [(fitted, tested)], classes=classes, weight=weight)
        values = np.concatenate([np.full((len(seen), values.shape[1]), np.nan), values])
        scores = score_facts(
            y,
            values,
            [tested],
            simple,
            classes=classes,
            probabilities=probabilities,
            weight=weight,
            criterion=criterion,
        )
    scores |= {"how": "predictions of rows that were not used for tuning", "untested": 0}
    return flat_scores(scores) | {"scores": scores}
