"""A table in, a fitted model out: which task, which rows are held out, and how good it is on them.

Rows are held out before anything is learned, the preparation included. The model that is returned is the
one that is scored: it is not fitted again on all rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedShuffleSplit

from onefold.facts.scores import flat_scores, score_facts, simple_models
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
from onefold.tables.source import opened
from onefold.tables.target import TargetKind, missing_targets, read_target, refuse_missing_targets
from onefold.tables.training import (
    BLOCK,
    Training,
    check_columns,
    in_memory,
    learn_from_disk,
    left_out_note,
    masked,
    training_of,
    with_target,
    with_target_on_disk,
)

Blocks = Callable[[], Iterable[Any]]
_MOST_NUMBERS = 4_000_000  # of training rows that simple models are fitted to
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
        A table on disk that is larger than memory stays there. A pattern such as ``data/*.parquet``, or
        a folder of Parquet files, is one table.
    target : str
        The column to predict.
    **options
        Those of :func:`tuning`, parameters of `TableClassifier` and `TableRegressor` among them.

    Returns
    -------
    TableClassifier or TableRegressor
        Takes tables like this one; its ``report_`` says what the search found.
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
    test: Blocks | None

    def run(self, callback: Any = None) -> TableModel:
        """Fit the model, and score it on rows that it has not seen, if there are any."""
        model = self.model.set_params(callback=callback).fit_prepared(self.training)
        model.set_params(callback=None, checkpoint=None)  # they have done their work
        if self.test is not None:
            model.report_["test"] = measures_on(model, self.training, self.test(), self.weight)
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
    scratch: Path | None = None,
    **parameters: Any,
) -> Iterator[Tuning]:
    """A table and its model, checked and ready to :meth:`Tuning.run`.

    Parameters
    ----------
    table, target
        As in :func:`tune_table`.
    task : {"classification", "regression"}, optional
        By default by the values of the target.
    weight, groups : str, optional
        The columns of row weights, and of groups that stay in one fold.
    holdout : float, optional
        Share of the rows that the fit never sees, and that the model is scored on.
    test : path or table, optional
        Another table to score the model on.
    scratch : path, optional
        Folder for rows that do not fit into memory.
    **parameters
        Those of `TableClassifier` or `TableRegressor`; of one for the other task refused.
    """
    for option, name in {"target": target, "weight": weight, "groups": groups}.items():
        if name is not None and not isinstance(name, str):
            raise ValueError(f"columns go by their names; use {option}={str(name)!r}")
    if task not in (None, "classification", "regression"):
        raise ValueError(f"task must be None or 'classification' or 'regression'; got {task!r}")
    if parameters.get("class_weight") not in (None, "balanced"):
        raise ValueError(f"class_weight must be None or 'balanced'; got {parameters['class_weight']!r}")
    if holdout is not None and not 0 < holdout < 1:
        raise ValueError(f"holdout is a share of the rows between 0 and 1; got {holdout!r}")
    if holdout is not None and test is not None:
        raise ValueError(
            "holdout and a table to test on both keep rows away from tuning; give one of them"
        )
    for kind in (TableClassifier, TableRegressor):
        suits = {n: value for n, value in parameters.items() if _OF_TASK.get(n, kind.task) == kind.task}
        model: TableModel = kind(**suits)
        model.check_settings()
    data = opened(table, model.reading)
    asked = {"target": target, "weight": weight, "groups": groups, "id_column": model.id_column}
    check_columns(model, data, {option: name for option, name in asked.items() if name is not None})
    test = None if test is None else _with_target(test, target, data.reading)
    data = in_memory(data)
    known: np.ndarray | None = None  # the rows on disk that have a target
    if isinstance(data, TableSource):
        needed = [target, *([groups] if groups is not None and holdout is not None else [])]
        known = with_target_on_disk(model, data, target)
        beside, _ = learn_from_disk(data, needed, mask=known)
    else:
        data, *_ = with_target(model, data, target)
        beside = data
    found = learn_target(beside, target, task)
    for name in [name for name in parameters if _OF_TASK.get(name, found.task) != found.task]:
        if parameters[name] is not None:
            holds = "numbers" if found.task == "regression" else "classes"
            raise TableError(
                f"the parameter {name} is for {_OF_TASK[name]}, and '{target}' holds {holds}",
                ["leave it out", Remedy("task", _OF_TASK[name])],
            )
        del parameters[name]
    model = (TableClassifier if found.task == "classification" else TableRegressor)(**parameters)
    held = None if holdout is None else _held_out(beside, found, groups, holdout, model)
    if held is not None and known is not None:
        of_known, held = held, np.zeros(len(known), dtype=bool)
        held[known] = of_known
    scored: Blocks | None = None if test is None else lambda: [test]
    if held is not None:
        scored = partial(_blocks, data, held)
    keep, rows = (None if held is None else ~held), None
    if isinstance(data, TableRows):
        data = rows = data if keep is None else data.take(np.flatnonzero(keep))
        keep = None
    with training_of(model, data, target, weight, groups, keep, scratch) as training:
        if test is not None:
            _check_test(test, target, model, training)
        yield Tuning(model, replace(training, target=found), found, rows, weight, scored)


def _with_target(test: Any, target: str, reading: Any) -> TableSource | TableRows:
    """The table to test on, which must have the target column."""
    table = opened(test, reading)
    table.require(target, "target")
    return table


def _check_test(
    test: TableSource | TableRows, target: str, model: TableModel, training: Training
) -> None:
    """Refuse a table to test on that lacks columns or targets, before the search rather than after."""
    table = opened(test, training.reading) if isinstance(test, TableSource) else test
    if isinstance(table, TableRows) or not table.absent_is_zero:
        training.preparation.check_columns(table.names)
    if not model.drop_missing_target:
        blocks = [table] if isinstance(table, TableRows) else table.typed_batches(BLOCK, [target])
        for rows in blocks:
            refuse_missing_targets(rows, target)


def _blocks(data: TableRows | TableSource, held: np.ndarray) -> Iterable[TableRows]:
    if isinstance(data, TableSource):
        return masked(data.typed_batches(BLOCK), held)
    return [data.take(np.flatnonzero(held))]


def _held_out(rows: TableRows, target: Any, groups: str | None, share: float, model: Any) -> np.ndarray:
    """Which rows are held out: the last of ordered rows, whole groups, or random ones of each class."""
    n = len(rows)
    if n < 2:
        raise TableError("a share of the rows can't be held back from a table of one row")
    count = min(max(1, round(share * n)), n - 1)
    mask, nothing = np.zeros(n, dtype=bool), np.zeros((n, 1))
    seed = model.random_state
    if model.ordered:
        mask[n - count :] = True
        return mask
    split: Any = ShuffleSplit(1, test_size=count, random_state=seed)
    labels = known = None
    if groups is not None:
        split, known = GroupShuffleSplit(1, test_size=share, random_state=seed), rows.groups(groups)
    elif target.task == "classification":
        classes, counts = np.unique(target.values, return_counts=True)
        if counts.min() >= 2 and len(classes) <= count <= n - len(classes):
            split, labels = StratifiedShuffleSplit(1, test_size=count, random_state=seed), target.values
    mask[next(split.split(nothing, labels, known))[1]] = True
    return mask


def measures_on(
    model: TableModel, training: Training, blocks: Iterable[Any], weight_column: str | None = None
) -> dict[str, Any]:
    """How good a model is on rows that it has not seen, next to simple models of the rows it has.

    Rows count with the weights in `weight_column`, if their table has it.

    Returns
    -------
    dict
        ``rows``, the measures by their names with those of the ``baseline_…``, ``standard_errors``,
        ``recall``; ``scores`` as in ``report_``.
    """
    known, name = getattr(model, "classes_", None), str(model.target_)
    targets, matrices, counts = [], [], []
    for block in blocks:
        weighed = weight_column if weight_column in block.names else None
        extra = (name,) if weighed is None else (name, weighed)
        for rows, matrix in model.matrix_blocks(block, extra=extra):
            if model.drop_missing_target and (missing := missing_targets(name, rows)).any():
                warnings.warn(f"the table to test on: {left_out_note(missing, name)}", stacklevel=2)
                rows, matrix = rows.take(np.flatnonzero(~missing)), matrix[~missing]
            targets.append(read_target(rows, name, model.task, known))
            matrices.append(matrix)
            counts.append(np.ones(len(rows)) if weighed is None else rows.weights(weighed))
    if not sum(map(np.sum, counts)):
        of = "" if weight_column is None else f" with a weight in '{weight_column}'"
        raise TableError(f"there are no rows{of} to test on")
    y, new, count = np.concatenate(targets), np.concatenate(matrices), np.concatenate(counts)
    seen = np.arange(len(training.y))
    if training.X.size > _MOST_NUMBERS:  # simple models are fitted to some of many rows
        size = max(2, _MOST_NUMBERS // training.X.shape[1])
        seen = np.sort(np.random.default_rng(0).choice(seen, min(size, len(seen)), replace=False))
    if known is None:
        classes, values = None, model.on_matrix("predict", new).reshape(len(y), -1)
    else:
        decisions = np.asarray(model.estimator_.decision_function(new)).reshape(len(y), -1)
        both = np.column_stack([-decisions, decisions]) if decisions.shape[1] == 1 else decisions
        if y.dtype.kind != known.dtype.kind:  # with labels of another type, which stay text
            known, y = known.astype(np.str_), y.astype(np.str_)
            training = replace(training, y=training.y.astype(np.str_))
        classes = np.unique(np.concatenate([known, y]))
        # Labels that the model does not know are the ones that it predicts least.
        values = np.full((len(y), len(classes)), both.min() - 1.0)
        values[:, np.searchsorted(classes, known)] = both
    scores = _next_to_simple(training, seen, new, y, values, count, classes)
    return flat_scores(scores) | {"scores": scores}


def _next_to_simple(
    training: Training,
    seen: np.ndarray,
    new: np.ndarray,
    y: np.ndarray,
    values: np.ndarray,
    count: np.ndarray,
    classes: np.ndarray | None,
) -> dict[str, Any]:
    """The scores of `values` for new rows, next to simple models that are fitted to the rows `seen`."""
    X, every = np.concatenate([training.X[seen], new]), np.concatenate([training.y[seen], y])
    fitted, tested = np.arange(len(seen)), np.arange(len(seen), len(X))
    weight = np.ones(len(seen)) if training.sample_weight is None else training.sample_weight[seen]
    simple = simple_models(
        X, every, [(fitted, tested)], classes=classes, weight=np.concatenate([weight, count])
    )
    rows = [tested - len(seen)]
    simple = [replace(one, values=one.values[tested]) for one in simple]
    found = score_facts(y, values, rows, simple, classes=classes, weight=count)
    return found | {"how": "predictions of rows that tuning never saw", "untested": 0}
