"""From a table to what a search takes: two passes over its blocks.

    first pass     target, weights and groups; the preparation; which rows have no target   -> FirstPass
    second pass    the matrix of the rows, into a store chosen between the passes           -> Training

Which rows are held out is decided before the first pass, from the columns of targets and groups, so
that nothing is learned from them. Everything that can be wrong with a table and its parameters is raised
here, before the long work. A table on disk that would take half of the free memory stays there, and its
matrix is written to a file (`tables/store.py`): parsing text as often as the search reads the rows would
take many times longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
from sklearn.utils.multiclass import check_classification_targets

from onefold.estimators.validation import check_length, check_squares, check_weights
from onefold.facts.criteria import WHOLE
from onefold.tables.codes import Codes, codes_among
from onefold.tables.errors import TableError
from onefold.tables.findings import ColumnFacts, copies_note, preparation_notes
from onefold.tables.kinds import DateColumn, Preparation
from onefold.tables.learning import Learner
from onefold.tables.preparation import matrix_blocks
from onefold.tables.reading import Reading
from onefold.tables.roles import Roles, check_columns, groups_among
from onefold.tables.rows import BLOCK, Table, TableRows, block_rows, concatenated
from onefold.tables.searching import (
    AUTO,
    SearchSettings,
    Splitting,
    acting_on,
    cannot_be_scored,
    in_time,
    search_of,
    second_of,
    splitting_of,
)
from onefold.tables.source import opened
from onefold.tables.store import (
    in_memory,
    matrix_stays_on_disk,
    scratch_file,
    stays_on_disk,
    write_matrix,
)
from onefold.tables.structure import Structure, notice
from onefold.tables.target import (
    Target,
    TargetKind,
    as_groups,
    as_target,
    learn_target,
    missing_in,
    missing_targets,
    read_target,
    refuse_few_rows,
    refuse_missing_targets,
    refuse_no_target,
)

if TYPE_CHECKING:
    from onefold.tables.estimators import TableModel

# Which rows are held out, from the columns with roles and the target of all rows that have one.
HoldOut = Callable[[TableRows, Target], np.ndarray]


class ScoredBlock(NamedTuple):
    """A block of rows that a model is scored on, and how many rows were left out without a target."""

    X: Any  # an array or CSR
    y: np.ndarray
    sample_weight: np.ndarray
    without_target: int


@dataclass(frozen=True)
class ScoredRows:
    """The test side of a fit: rows that a model is scored on and was not fitted to.

    They are encoded after the fit, block by block, as those of any further table: nothing needs them
    before, and their matrix would take memory or disk during the search.

    Parameters
    ----------
    table : Table
    weight : str or None
        The column of their weights.
    """

    table: Table
    weight: str | None = None

    def blocks(self, model: TableModel) -> Iterator[ScoredBlock]:
        """Matrix, targets and weights of the rows with a target."""
        target = str(model.target_)
        weight = self.weight if self.weight in self.table.names else None
        extra = (target,) if weight is None else (target, weight)
        classes = getattr(model, "classes_", None)
        batch_rows = model.preparation_.rows_at_once  # those that compare with them make them dense
        for rows, matrix in matrix_blocks(model, self.table, batch_rows, extra):
            missing = np.zeros(len(rows), dtype=bool)
            if model.drop_missing_target:
                missing = missing_targets(target, rows)
            if missing.all():  # no labels, and thus no type of labels
                yield ScoredBlock(matrix[:0], np.empty(0), np.empty(0), len(rows))
                continue
            if missing.any():
                rows = rows.where(~missing)
                matrix = matrix[~missing]
            y = read_target(rows, target, model.task, classes)
            weights = np.ones(len(rows)) if weight is None else rows.weights(weight)
            yield ScoredBlock(matrix, y, weights, int(missing.sum()))

    def check(self, preparation: Preparation, target: str, drop_missing_target: bool) -> None:
        """Refuse rows without the columns, targets or weights that scores need, before the search."""
        preparation.check_columns(self.table.names)
        weights = [self.weight] if self.weight is not None and self.weight in self.table.names else []
        rows = self.table.read_columns([target, *weights], BLOCK)
        if not drop_missing_target:
            refuse_missing_targets(rows, target)
        rows = rows.where(~missing_targets(target, rows))
        if not len(rows) or not all(rows.weights(name).any() for name in weights):
            raise no_scored_rows_error(self.weight if len(rows) else None)


def no_scored_rows_error(weight: str | None) -> TableError:
    """The error for a test table without rows that count."""
    condition = "" if weight is None else f" with a positive weight in '{weight}'"
    return TableError(f"there are no test rows{condition}")


@dataclass(frozen=True)
class Training:
    """Checked input, ready for the long work: the rows of a fit, and those that it is scored on."""

    X: Any  # (n, features), in memory or mapped from a file
    y: Any  # (n,) or (n, targets)
    sample_weight: np.ndarray | None
    groups: np.ndarray | None
    test: ScoredRows | None
    table: Table  # the rows of X
    preparation: Preparation
    search: SearchSettings
    splitting: Splitting
    target: Target | None  # where it is a column of the table
    columns: tuple[str, ...]  # that may become features
    reading: Reading
    facts: ColumnFacts
    notes: tuple[str, ...]
    structure: Structure | None  # noticed where folds are drawn at random
    second: Splitting | None  # by which what was chosen is also scored
    why_no_second: str | None  # where a structure was noticed

    @property
    def on_disk(self) -> bool:
        """Whether the rows stay in a file."""
        return isinstance(self.X, np.memmap)


def training_of(
    model: TableModel, X: Any, y: Any, sample_weight: Any = None, groups: Any = None
) -> AbstractContextManager[Training]:
    """What a model is about to fit, checked: the table as matrix and arrays, with notes.

    y, `sample_weight` and `groups` are arrays or names of columns. A matrix that is too large for memory
    lies in a file in the folder `scratch` of the model while the block runs.
    """
    model._check_settings()
    model._check_criterion()
    table = opened(X, model.reading)
    groups, notices_groups = groups_among(table, groups)
    roles = Roles(y, sample_weight, groups, model.id_column, notices_groups)
    check_columns(model, table, roles.columns)
    search_of(model, on_disk=stays_on_disk(table))  # raises before the table is read
    return second_pass(model, first_pass(model, table, roles, model.task))


@contextmanager
def prepared_again(
    model: TableModel, X: Any, y: Any, sample_weight: Any, groups: Any
) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Matrix, targets, weights and groups of rows for a fitted estimator, with its own preparation."""
    table = in_memory(opened(X, model.reading_))
    groups, _ = groups_among(table, groups)
    rows = labelled_rows(table, Roles(y, sample_weight, groups), model.drop_missing_target)
    target = rows.target(model.task)
    y, weight, groups = _row_data(model, rows, target)
    n = len(rows.columns)
    on_disk = matrix_stays_on_disk(rows.table, n, len(model.preparation_.feature_names))
    with ExitStack() as files:
        yield _encoded(model, model.preparation_, rows.table, n, files, on_disk), y, weight, groups


# The first pass


@dataclass(frozen=True)
class LabelledRows:
    """The rows of a table that have a target, and what one pass over them has kept.

    Parameters
    ----------
    table : Table
        These rows.
    roles : Roles
        Arrays are those of these rows.
    columns : TableRows
        The columns of targets, weights and groups, or the first one if there are none.
    first : TableRows
        The first block.
    missing : array of bool
        Which rows of the table that was read have no target.
    """

    table: Table
    roles: Roles
    columns: TableRows
    first: TableRows
    missing: np.ndarray

    def target(self, task: TargetKind | None) -> Target | None:
        """The target, if it is a column."""
        name = self.roles.target
        return learn_target(self.columns, name, task) if isinstance(name, str) else None

    @property
    def notes(self) -> list[str]:
        """What to say about rows without a target."""
        count = int(self.missing.sum())
        return [left_out_note(count, len(self.missing), self.roles.target)] if count else []


def labelled_rows(
    table: Table, roles: Roles, drop_missing_target: bool, learner: Learner | None = None
) -> LabelledRows:
    """Go through a table once; a learner sees all of its columns.

    Rows without a target are left out with `drop_missing_target`.
    """
    target = roles.target if drop_missing_target else None
    missing = None if target is None or isinstance(target, str) else _missing_in_array(table, target)
    if missing is not None and missing.any():
        refuse_no_target(missing, target)
        rows = labelled_rows(table.where(~missing), roles.where(~missing), False, learner)
        return LabelledRows(rows.table, rows.roles, rows.columns, rows.first, missing)
    column = target if isinstance(target, str) else None
    names = roles.row_columns or list(table.names[:1])  # without columns there is no number of rows
    first: TableRows | None = None
    columns: list[TableRows] = []
    masks: list[np.ndarray] = []
    read = names if learner is None else table.names
    for block in table.typed_batches(block_rows(len(read), BLOCK), read):
        mask = np.zeros(len(block), dtype=bool) if column is None else missing_targets(column, block)
        masks.append(mask)
        if mask.any():
            block = block.where(~mask)
            if not len(block):
                continue
        if learner is not None:
            learner.add(block)
        first = first or block
        columns.append(block.select(names))
    missing = np.concatenate(masks) if masks else np.zeros(0, dtype=bool)
    refuse_no_target(missing, roles.target)
    if first is None:
        raise TableError("the table has no rows; add rows")
    if missing.any():
        table = table.where(~missing)
        roles = roles.where(~missing)
    return LabelledRows(table, roles, concatenated(columns), first, missing)


def _missing_in_array(table: Table, y: Any) -> np.ndarray:
    """Which rows of a table have no value in an array; none where that is of another length."""
    missing = missing_in(y)
    if missing.any():
        rows = sum(len(block) for block in table.batches(BLOCK, table.names[:1]))
        return missing if len(missing) == rows else np.zeros(rows, dtype=bool)  # refused later
    return missing


def left_out_note(missing: int, rows: int, y: Any) -> str:
    """What to say about rows without a target."""
    name = f"'{y}'" if isinstance(y, str) else "y"
    return f"dropped {missing} of {rows} rows, in which {name} is missing"


@dataclass(frozen=True)
class FirstPass:
    """What is known of a table after the first pass: everything but its matrix.

    Parameters
    ----------
    rows : LabelledRows
        Those that a model is fitted to.
    target : Target or None
        The target of these rows, if it is a column.
    learner : Learner
        Has seen these rows.
    test : Table or None
        Rows that are held out.
    remarks : tuple of str
        What was assumed about the table.
    """

    rows: LabelledRows
    target: Target | None
    learner: Learner
    test: Table | None
    remarks: tuple[str, ...]

    @property
    def target_column(self) -> Target:
        """The target of a table that has it as a column; raise where it has not."""
        if self.target is None:
            raise ValueError("the target is not a column of the table")
        return self.target


def first_pass(
    model: TableModel,
    table: Table,
    roles: Roles,
    task: TargetKind | None,
    hold_out: HoldOut | None = None,
) -> FirstPass:
    """Learn target and preparation of a table from all rows that have a target and are not held out.

    Of `model`, only the parameters that say how tables are read are used: whether a classifier or a
    regressor suits the target is known afterwards.
    """
    table = in_memory(table)
    if not table.names:
        raise TableError("the table has no columns; pass a table with columns")
    learner = model._learner(roles.names)
    if hold_out is None:
        rows = labelled_rows(table, roles, model.drop_missing_target, learner)
        refuse_few_rows(rows.columns)
        return FirstPass(rows, rows.target(task), learner, None, (*rows.table.remarks, *rows.notes))
    candidates = labelled_rows(table, roles, model.drop_missing_target)
    target = learn_target(candidates.columns, roles.target, task)
    is_test = np.zeros(len(candidates.columns), dtype=bool)
    is_test[hold_out(candidates.columns, target)] = True
    test = candidates.table.where(is_test)
    rows = labelled_rows(
        candidates.table.where(~is_test), candidates.roles.where(~is_test), False, learner
    )
    remarks = (*rows.table.remarks, *candidates.notes)
    return FirstPass(rows, target.where(~is_test), learner, test, remarks)


def _row_data(
    model: TableModel, rows: LabelledRows, target: Target | None, noticed: Structure | None = None
) -> tuple[Any, Any, Any]:
    """Targets, weights and groups as arrays; raise where they do not suit.

    Of the `noticed` structure of a column each row without a value is a group.
    """
    n = len(rows.columns)
    y = rows.roles.target if target is None else target.values
    if y is not None:
        y = as_target(y, model.task)
        check_length(y, n)
        if model.task == "classification":
            check_classification_targets(y)
        else:
            _check_numbers(model, y, target)
        model._check_criterion("y" if target is None else target.name, y)
    weight = rows.roles.sample_weight
    weight = check_weights(rows.columns.weights(weight) if isinstance(weight, str) else weight, n)
    groups = rows.roles.groups
    if groups is None:
        return y, weight, None
    if noticed is not None:
        missing = pc.is_null(rows.columns.column(groups), nan_is_null=True)
        if pc.any(missing).as_py():
            return y, weight, noticed.codes
    return y, weight, groups_of(rows.columns, groups)


def groups_of(rows: TableRows, groups: Any) -> np.ndarray:
    """The groups of rows, an array or the names of one column or several, as numbers of them."""
    if isinstance(groups, tuple):  # rows of a group agree in all columns
        codes = np.stack([groups_of(rows, name) for name in groups], axis=1)
        together: np.ndarray = np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1)
        return together
    if not isinstance(groups, str):
        return as_groups(groups, len(rows))
    return as_groups(rows.column(groups, "groups column"), len(rows), f"'{groups}'")


def _check_numbers(model: Any, y: Any, target: Target | None) -> None:
    """Refuse numbers that have no logarithm where one is asked for, or whose squares overflow."""
    name = "y" if target is None else f"'{target.name}'"
    if model.target_transform == "log" and not np.all(y > 0):
        row = int(np.flatnonzero(~(np.asarray(y).reshape(len(y), -1) > 0).all(axis=1))[0])
        raise TableError(
            f"target_transform='log' needs positive targets, but {name} has {np.min(y[row]):g} "
            f"in data row {row + 1}; leave it out, or add a constant to the target"
        )
    if target is not None:  # of arrays the estimator says so
        check_squares(y / 2 - y.min() / 2)


# The second pass


@contextmanager
def second_pass(
    model: TableModel, learned: FirstPass, test: ScoredRows | None = None
) -> Iterator[Training]:
    """Encode the rows of the first pass, and check those that the model is to be scored on.

    A file of encoded rows is there while the block runs.
    """
    with ExitStack() as files:
        training = [_training(model, learned, test, files)]
        del learned  # the learner holds samples of all columns
        yield training.pop()  # under no name here: a mapped matrix ends with its last user


def _training(
    model: TableModel,
    learned: FirstPass,
    test: ScoredRows | None,
    files: ExitStack,
    noticed: Structure | None = None,
) -> Training:
    """The rows of a fit; a file of their matrix is removed with `files`.

    `noticed` is the structure whose column is the groups of these rows.
    """
    rows = learned.rows
    n = len(rows.columns)
    y, weight, groups = _row_data(model, rows, learned.target, noticed)
    preparation = learned.learner.finish()
    preparation, codes = with_codes(model, learned, preparation, y, groups)
    on_disk = matrix_stays_on_disk(rows.table, n, len(preparation.feature_names))
    search = search_of(model, on_disk=on_disk)
    named = dict(rows.roles.columns)
    group_columns = rows.roles.group_columns
    splitting = splitting_of(
        model, y, groups, group_columns if len(group_columns) > 1 else named.get("groups")
    )
    reading = rows.columns.reading.with_categories(preparation, learned.target)
    if test is not None:
        test = replace(test, table=test.table.with_reading(reading))
        test.check(preparation, named["target"], model.drop_missing_target)
    matrix = _encoded(model, preparation, rows.table, n, files, on_disk)
    facts = ColumnFacts.of(preparation, matrix, learned.learner.row_names(preparation.columns))
    numeric_roles = [named["sample_weight"]] if "sample_weight" in named else []
    if learned.target is not None and model.task == "regression":
        numeric_roles.append(learned.target.name)
    first = replace(rows.first, remarks=learned.remarks)
    notes = preparation_notes(first, learned.learner, preparation, numeric_roles)
    copies = copies_note(facts.copies)
    structure = noticed
    second = None
    why_no_second = None
    if splitting.kind == "folds" or (splitting.kind == "past" and model.ordered == AUTO):
        structure = notice(
            rows.table,
            preparation,
            matrix,
            y,
            roles=rows.roles.names,
            classification=model.task == "classification",
        )
        notices_groups = rows.roles.notices_groups
        names_groups = structure is not None and structure.kind == "groups"
        if structure is not None and notices_groups and names_groups and len(structure.columns) == 1:
            return _training(model, _grouped_by(model, learned, structure), test, files, structure)
        in_moments = _moments(structure, preparation, matrix)
        if splitting.kind == "past":
            splitting = _past_in_time(splitting, in_moments, preparation, matrix)
        elif in_moments is not None:
            noticed_splits = acting_on(in_moments, splitting, model, groups=notices_groups)
            if noticed_splits is None:
                second, why_no_second = _second(model, in_moments, splitting, y, weight)
            splitting = noticed_splits or splitting
        if splitting.kind == "folds":
            notes = (*notes, *_unnoticed(groups=notices_groups, order=model.ordered == AUTO))
    return Training(
        X=matrix,
        y=y,
        sample_weight=weight,
        groups=groups,
        test=test,
        table=rows.table,
        preparation=preparation,
        search=search,
        splitting=splitting,
        target=learned.target,
        columns=tuple(name for name in rows.table.names if name not in rows.roles.names),
        reading=reading,
        facts=facts,
        notes=(*notes, *(columns.note for columns in codes), *([] if copies is None else [copies])),
        structure=structure,
        second=second,
        why_no_second=why_no_second,
    )


def _unnoticed(*, groups: bool, order: bool) -> list[str]:
    """That folds are random although groups or order are "auto"."""
    absent = ["groups"] * groups + ["order in time"] * order
    return [f"no {' or '.join(absent)} noticed: rows are assigned to folds at random"] if absent else []


def structure_of(
    model: TableModel, table: Table, roles: Roles, task: TargetKind | None
) -> Structure | None:
    """What is noticed in all rows of a table that have a target, before some of them are held out."""
    learned = first_pass(model, table, roles, task)
    target = learned.target
    table = learned.rows.table
    if target is None or not table.in_memory:
        return None
    preparation = learned.learner.finish()
    matrix = preparation.transform(table.read())
    structure = notice(
        table,
        preparation,
        matrix,
        target.values,
        roles=roles.names,
        classification=target.task == "classification",
    )
    return _moments(structure, preparation, matrix)


def _grouped_by(model: TableModel, learned: FirstPass, structure: Structure) -> FirstPass:
    """The same rows with a noticed column as their groups, which is then no feature."""
    rows = learned.rows
    roles = replace(rows.roles, groups=structure.columns[0], notices_groups=False)
    learner = model._learner(roles.names)
    again = labelled_rows(rows.table, roles, False, learner)
    return replace(learned, rows=replace(again, missing=rows.missing), learner=learner)


def _moments(structure: Structure | None, preparation: Preparation, matrix: Any) -> Structure | None:
    """A noticed order of the rows by the only date column that has it: rows can share its moments."""
    if structure is None or structure.kind != "time" or structure.columns:
        return structure
    date = _only_date(preparation, matrix)
    if date is None:
        return structure
    name, ranks = date
    steps = np.diff(ranks)
    if not (np.all(steps >= 0) or np.all(steps <= 0)):
        return structure
    return replace(structure, columns=(name,), codes=ranks)


def _past_in_time(
    splitting: Splitting, structure: Structure | None, preparation: Preparation, matrix: Any
) -> Splitting:
    """A split that trains on the past by the noticed moments, or by those of the only date column."""
    if structure is not None and structure.kind == "time":
        return in_time(structure.codes, structure.columns, splitting)
    date = _only_date(preparation, matrix)
    if date is None:
        return splitting
    name, ranks = date
    return in_time(ranks, (name,), splitting)


def _only_date(preparation: Preparation, matrix: Any) -> tuple[str, np.ndarray] | None:
    """The only column of dates, and the rank of the moment of each row; None without one."""
    dates = [
        (name, place)
        for part, (name, place) in zip(preparation.parts, preparation.spans())
        if isinstance(part, DateColumn) and part.order != "time"
    ]
    if len(dates) != 1:
        return None
    [(name, place)] = dates
    _, ranks = np.unique(np.asarray(matrix[:, place.start]), return_inverse=True)
    return name, ranks.reshape(-1)


def _second(
    model: TableModel, structure: Structure, splitting: Splitting, y: np.ndarray, weight: Any
) -> tuple[Splitting | None, str | None]:
    """The splits of a second score by a noticed structure, or why there is none."""
    if getattr(model, "intervals", None) == "jackknife+":
        return None, "intervals='jackknife+' leave out single rows"
    criterion = model.criterion
    criteria = [criterion] if isinstance(criterion, str) else criterion or []
    if not callable(criteria) and any(isinstance(name, str) and name in WHOLE for name in criteria):
        return None, "the criterion does not score held-out rows"
    second = second_of(structure, splitting)
    classes = model.task == "classification"
    reason = cannot_be_scored(second, y, weight, classes=classes)
    return (second, None) if reason is None else (None, reason)


def with_codes(
    model: TableModel, learned: FirstPass, preparation: Preparation, y: Any, groups: Any
) -> tuple[Preparation, list[Codes]]:
    """The preparation with whole numbers that act like names as categories, and which these are."""
    learner = learned.learner
    columns = learner.whole_numbers()
    if not columns or y is None or learner.sample is None:
        return preparation, []
    codes = codes_among(
        learner.sample,
        preparation,
        columns,
        model._fitted_target(y),
        groups,
        classifier=model.task == "classification",
        ordered=bool(model.ordered),
        seed=model._seed,
    )
    if codes:
        names = [name for columns in codes for name in columns.names]
        preparation = learner.with_categories(preparation, names, learned.rows.table)
    return preparation, codes


def _encoded(
    model: TableModel,
    preparation: Preparation,
    table: Table,
    n: int,
    files: ExitStack,
    on_disk: bool,
) -> Any:
    """The matrix of a table, in memory or in a file that is removed with `files`."""
    if not on_disk:
        return preparation.transform(table.read())
    path = files.enter_context(scratch_file(model.scratch, 4 * n * len(preparation.feature_names)))
    columns = preparation.columns
    blocks = table.typed_batches(block_rows(len(columns), BLOCK), columns)
    return write_matrix(preparation, blocks, n, path)
