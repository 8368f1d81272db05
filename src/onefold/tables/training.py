"""A table made ready to fit: the matrix of its features, and what is known of each row besides.

Everything that can be wrong with a table and its parameters is raised here, before the long work. A
table on disk that would take half of the free memory stays there: the preparation is learned block by
block, and the matrix is a float32 file that the search maps.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, check_cv
from sklearn.utils.multiclass import check_classification_targets

from onefold.estimators.validation import check_length, check_squares, check_weights
from onefold.facts.criteria import check_criterion
from onefold.heldout import GapKFold
from onefold.machine.memory import available_memory
from onefold.tables.errors import Remedy, TableError, listing
from onefold.tables.matrix import BLOCK, learn_from_disk, masked, written
from onefold.tables.preparation import Learner, Preparation, column_notes, copies_note
from onefold.tables.reading import Reading
from onefold.tables.rows import TableRows, TableSource
from onefold.tables.searching import Search, search_of
from onefold.tables.source import opened
from onefold.tables.target import Target, as_target, learn_target, missing_targets, plain_array

if TYPE_CHECKING:
    from onefold.tables.model import TableModel

_SHARE = 0.5  # of the free memory that a table and its matrix may take


@dataclass(frozen=True)
class Training:
    """Checked input, ready for the long work."""

    X: Any  # (n, features), in memory or mapped from a file
    y: Any  # (n,) or (n, targets)
    sample_weight: np.ndarray | None
    groups: np.ndarray | None
    preparation: Preparation
    search: Search
    cv: Any
    cv_words: str
    target: Target | None  # where it is a column of the table
    columns: tuple[str, ...]  # that may become features
    reading: Reading
    notes: tuple[str, ...]

    @property
    def on_disk(self) -> bool:
        """Whether the rows stay in a file."""
        return isinstance(self.X, np.memmap)


def larger_than_memory(source: TableSource) -> bool:
    """Whether reading the whole table would leave too little memory for the search."""
    free = available_memory()
    return free is not None and source.bytes_in_memory() > _SHARE * free


def in_memory(table: TableRows | TableSource) -> TableRows | TableSource:
    """The rows of an open table; the source itself where they stay on disk."""
    if isinstance(table, TableRows) or larger_than_memory(table):
        return table
    return table.read()


@contextmanager
def training_of(
    model: TableModel,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    groups: Any = None,
    keep: np.ndarray | None = None,
    scratch: Path | None = None,
) -> Iterator[Training]:
    """What a model is about to fit, checked: the table as matrix and arrays, with notes.

    y, `sample_weight` and `groups` are arrays or names of columns. Only the rows of the mask `keep` are
    looked at, where there is one. A table on disk is gone over twice, text once more to find its types,
    with memory for a block of rows; its matrix lies in `scratch` while the block runs.
    """
    model.check_settings()
    table = opened(X, model.reading)
    asked = {"target": y, "sample_weight": sample_weight, "groups": groups, "id_column": model.id_column}
    named = {option: name for option, name in asked.items() if isinstance(name, str)}
    check_columns(model, table, named)
    table = in_memory(table)
    search = search_of(model, on_disk=isinstance(table, TableSource))
    exclude = {*named.values(), *model.drop}
    learner = Learner(exclude, model.missing, model.categorical, model.min_frequency)
    if isinstance(table, TableRows):
        rows = table if keep is None else table.take(np.flatnonzero(keep))
        rows, y, sample_weight, groups = with_target(model, rows, y, sample_weight, groups)
        if not rows.names:
            raise TableError("the table has no columns; pass one that has some")
        if len(rows) < 2:
            raise TableError(f"the table has {len(rows)} rows (n_samples={len(rows)}); add rows")
        known = _known(model, rows, y, sample_weight, groups)
        learner.add(rows)
        preparation = learner.finish()
        matrix = preparation.transform(rows)
        yield _assembled(model, known, search, learner, preparation, matrix, named, rows, rows)
        return
    with tempfile.TemporaryDirectory() if scratch is None else nullcontext(scratch) as folder:
        path, left_out = Path(folder) / "rows.npy", tuple[str, ...]()
        has_target = with_target_on_disk(model, table, y)
        if has_target is not None and not has_target.all():
            left_out = (left_out_note(~has_target, y),)
            keep = has_target if keep is None else keep & has_target
        others = [named[option] for option in ("target", "sample_weight", "groups") if option in named]
        beside, first = learn_from_disk(table, others, learner, BLOCK, keep)
        known = _known(model, beside, y, sample_weight, groups)
        preparation = learner.finish()
        blocks = table.typed_batches(BLOCK, preparation.columns)
        blocks = blocks if keep is None else masked(blocks, keep)
        try:
            matrix = written(preparation, blocks, len(beside), path)
            first = replace(first, remarks=(*table.remarks, *left_out))
            yield _assembled(model, known, search, learner, preparation, matrix, named, first, beside)
        finally:
            path.unlink(missing_ok=True)


def with_target(model: TableModel, rows: TableRows, y: Any, *others: Any) -> tuple[Any, ...]:
    """Rows, targets and `others`, arrays or names of columns, without rows that have no target.

    They are left out where the model says so, with a note; otherwise nothing is.
    """
    if y is None or not model.drop_missing_target:
        return rows, y, *others
    missing = missing_targets(y, rows)
    if not missing.any() or len(missing) != len(rows):  # of another length, which is refused later
        return rows, y, *others
    keep = np.flatnonzero(~missing)
    arrays = [v if v is None or isinstance(v, str) else plain_array(v)[keep] for v in (y, *others)]
    remarks = (*rows.remarks, left_out_note(missing, y))
    return replace(rows.take(keep), remarks=remarks), *arrays


def left_out_note(missing: np.ndarray, y: Any) -> str:
    """What to say about rows without a target."""
    name = f"'{y}'" if isinstance(y, str) else "y"
    return f"left out {missing.sum()} of {len(missing)} rows, which have no value of {name}"


def with_target_on_disk(model: TableModel, source: TableSource, y: Any) -> np.ndarray | None:
    """The mask of rows with a target, one more pass over that column; None where all are to be used."""
    if not (model.drop_missing_target and isinstance(y, str)):
        return None
    return np.concatenate([~missing_targets(y, rows) for rows in source.typed_batches(BLOCK, [y])])


def prepared_again(model: TableModel, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
    """Matrix, targets, weights and groups of rows for a fitted estimator, with its own preparation."""
    table = opened(X, model.reading_)
    rows = table.read() if isinstance(table, TableSource) else table
    rows, y, sample_weight, groups = with_target(model, rows, y, sample_weight, groups)
    known = _known(model, rows, y, sample_weight, groups)
    return model.preparation_.transform(rows), *known[:3]


def check_columns(model: Any, table: TableRows | TableSource, named: dict[str, str]) -> None:
    """Refuse columns that the table does not have, or that two parameters name."""
    several = [("drop", name) for name in model.drop]
    for option, name in [*named.items(), *several]:
        if option != "target" and name in model.categorical:
            raise TableError(f"{option} and categorical both name column '{name}'; choose one")
    several += [("categorical", name) for name in model.categorical]
    for option, name in [*named.items(), *several]:
        table.require(name, option)
        if option != "target" and name == named.get("target"):
            raise TableError(f"{option} names the target column '{name}'; choose another column")


def _known(
    model: TableModel, rows: TableRows, y: Any, sample_weight: Any, groups: Any
) -> tuple[Any, Any, Any, Target | None]:
    """Targets, weights and groups as arrays; raise where they do not suit."""
    target = learn_target(rows, y, model.task) if isinstance(y, str) else None
    values = y if target is None else target.values
    values = None if values is None else as_target(values, model.task)
    if values is not None:
        check_length(values, len(rows))
        if model.task == "classification":
            check_classification_targets(values)
        elif target is not None:
            _check_squares(target)
        if model.task == "regression":
            _check_logarithm(model, values, f"'{y}'" if target is not None else "y")
        if isinstance(model.criterion, str):
            name = y if isinstance(y, str) else "y"
            check_criterion(model.criterion, model.task, name, values, model.approximation)
    weight = rows.weights(sample_weight) if isinstance(sample_weight, str) else sample_weight
    weight = check_weights(weight, len(rows))
    groups = rows.groups(groups) if isinstance(groups, str) else groups
    return values, weight, groups, target


def _check_logarithm(model: Any, values: Any, name: str) -> None:
    if model.target_transform == "log" and not np.all(values > 0):
        row = int(np.flatnonzero(~(np.asarray(values).reshape(len(values), -1) > 0).all(axis=1))[0])
        raise TableError(
            f"target_transform='log' is for positive targets, and {name} has {np.min(values[row]):g} "
            f"in data row {row + 1}; leave it out, or add a constant to the target"
        )


def _check_squares(target: Target) -> None:
    halves = target.values / 2
    spread = float((halves - halves.min()).max())
    try:
        check_squares(np.array([spread]))
    except ValueError as error:
        raise TableError(
            f"the values of '{target.name}' differ by {2 * spread:.2g} at most, whose square is "
            "beyond floating point; multiply the column by a constant, to values near 1"
        ) from error


def _assembled(
    model: TableModel,
    known: tuple[Any, Any, Any, Target | None],
    search: Search,
    learner: Learner,
    preparation: Preparation,
    matrix: Any,
    named: dict[str, str],
    rows: TableRows,  # that show what the columns look like
    beside: TableRows,  # with the target, weights and groups of all rows
) -> Training:
    y, weight, groups, target = known
    gap = model.gap if model.ordered else None
    classes = model.task == "classification"
    cv, words = model.cv, ""
    if y is not None:
        seed = model.random_state
        cv, words = folds_of(model.cv, y, classes=classes, groups=groups, seed=seed, gap=gap)
    if "groups" in named:
        words = words.replace("groups kept", f"groups of '{named['groups']}' kept")
    if words == "folds as given":
        cv = check_cv(cv, y, classifier=classes)
        seed = getattr(cv, "random_state", 0)
        if getattr(cv, "shuffle", True) and not isinstance(seed, Integral):  # others every time: once
            cv = list(cv.split(np.zeros((len(y), 1)), y, groups))
    others = [named.get("sample_weight", ""), "" if classes else named.get("target", "")]
    constant, names = preparation.constant, preparation.identifiers
    copies = copies_note(preparation, matrix)
    notes = (
        *rows.remarks,
        *([f"dropped constant columns: {listing(constant)}"] if constant else []),
        *([f"dropped columns that look like identifiers: {listing(names)}"] if names else []),
        *learner.notes(),
        *column_notes(rows, preparation.columns, others, preparation.row_numbers),
        *([copies] if copies else []),
    )
    not_features = set(named.values())
    columns = tuple(name for name in rows.names if name not in not_features)
    reading = beside.reading.with_categories(preparation, target)
    return Training(
        matrix, y, weight, groups, preparation, search, cv, words, target, columns, reading, notes
    )


def folds_of(
    cv: Any, y: np.ndarray, *, classes: bool, groups: Any = None, seed: Any = 0, gap: int | None = None
) -> tuple[Any, str]:
    """The ``cv`` argument of an estimator, and what it is in words.

    A number of folds is shuffled by the `seed`, evenly by class where y holds `classes`, unless rows of
    one group stay together, or folds are blocks of consecutive rows with a `gap` around each. Anything
    else but "loo" is left to the estimator.
    """
    if isinstance(cv, str) and cv == "loo":
        if groups is not None or gap is not None:
            raise TableError("groups and ordered rows need a number of folds", [Remedy("cv", 5)])
        return "loo", "leave-one-out"
    if isinstance(cv, bool) or not isinstance(cv, int | np.integer):
        return cv, "folds as given"
    cv, n = int(cv), len(y)
    if cv > n:
        raise TableError(
            f"{cv} folds need at least {cv} rows, and the table has {n} (n_samples={n})", _fewer(n)
        )
    if groups is not None:
        if gap is not None:
            raise TableError("ordered rows and groups exclude each other; leave one of them out")
        n_groups = len(np.unique(groups))
        if n_groups < cv:
            raise TableError(
                f"{cv} folds need at least {cv} groups, and there are {n_groups}", _fewer(n_groups)
            )
        return GroupKFold(cv), f"{cv}-fold, groups kept together"
    if gap is not None:
        words = f" with {gap} rows left out around each" if gap else ""
        return GapKFold(cv, gap), f"{cv} blocks of consecutive rows{words}"
    if not classes:
        return KFold(cv, shuffle=True, random_state=seed), f"{cv}-fold"
    _, counts = np.unique(y, return_counts=True)
    if counts.max() < cv:
        raise TableError(
            f"{cv} folds need a class with at least {cv} rows, and the largest has {counts.max()}",
            [*_fewer(int(counts.max())), Remedy("cv", "loo")],
        )
    return StratifiedKFold(cv, shuffle=True, random_state=seed), f"{cv}-fold"


def _fewer(folds: int) -> list[Remedy]:
    return [Remedy("cv", folds)] if folds > 1 else []
