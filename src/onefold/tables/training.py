"""A table made ready to fit: its matrix, what is known of each row besides, and what is searched.

Everything that can be wrong with a table and its parameters is raised here, before the long work. A
table on disk that would take half of the free memory stays there: two passes, block by block (text: one
more, which finds its types), learn the preparation and write the matrix as a float32 file, which the
search maps: parsing text as often as it reads the rows would take many times longer. The matrix of any
table is written to such a file if it would take half of the free memory, as that of a few columns with
many categories may; only the preparation tells how wide it is.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sklearn.utils.multiclass import check_classification_targets

from onefold.estimators.validation import check_length, check_squares, check_weights
from onefold.machine import memory
from onefold.machine.files import atomic_write
from onefold.machine.memory import available_memory
from onefold.tables.errors import Remedy, TableError
from onefold.tables.findings import ColumnFacts, copies_note, preparation_notes
from onefold.tables.kinds import Preparation, UnseenValues
from onefold.tables.learning import Learner
from onefold.tables.reading import Reading
from onefold.tables.rows import TableRows, TableSource
from onefold.tables.searching import SearchSettings, Splitting, search_of, splitting_of
from onefold.tables.source import opened
from onefold.tables.target import (
    Target,
    as_groups,
    as_target,
    learn_target,
    missing_in,
    missing_targets,
    plain_array,
    refuse_few_rows,
    refuse_no_target,
)

if TYPE_CHECKING:
    from onefold.tables.estimators import TableModel

BLOCK = 65_536
_SHARE = 0.5  # of the free memory that a table and its matrix may take
_COPIES = 4  # of the rows to test on, which simple models make while they are fitted and predict
_ROOM: list[Remedy | str] = [
    "free some space there",
    Remedy("scratch", "FOLDER", "to choose a folder on a disk with more space"),
    "use fewer rows",
]


@dataclass(frozen=True)
class Training:
    """Checked input, ready for the long work."""

    X: Any  # (n, features), in memory or mapped from a file
    y: Any  # (n,) or (n, targets)
    sample_weight: np.ndarray | None
    groups: np.ndarray | None
    preparation: Preparation
    search: SearchSettings
    splitting: Splitting
    target: Target | None  # where it is a column of the table
    columns: tuple[str, ...]  # that may become features
    reading: Reading
    facts: ColumnFacts
    notes: tuple[str, ...]

    @property
    def on_disk(self) -> bool:
        """Whether the rows stay in a file."""
        return isinstance(self.X, np.memmap)


def stays_on_disk(table: TableRows | TableSource) -> bool:
    """Whether reading the whole table would leave too little memory for the search."""
    if isinstance(table, TableRows):
        return False
    return exceeds_memory(table.bytes_in_memory())


def exceeds_memory(needed: int) -> bool:
    """Whether so many bytes would leave too little memory for the search."""
    free = available_memory()
    return free is not None and needed > _SHARE * free


def in_memory(table: TableRows | TableSource) -> TableRows | TableSource:
    """The rows of an open table; the source itself where they stay on disk."""
    return table.read() if isinstance(table, TableSource) and not stays_on_disk(table) else table


@contextmanager
def training_of(
    model: TableModel,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    groups: Any = None,
    keep: np.ndarray | None = None,
) -> Iterator[Training]:
    """What a model is about to fit, checked: the table as matrix and arrays, with notes.

    y, `sample_weight` and `groups` are arrays or names of columns. Only the rows of the mask `keep` are
    looked at, where there is one. A matrix that is too large for memory lies in a file in the folder
    `scratch` of the model while the block runs.
    """
    model._check_settings()
    model._check_criterion()
    table = opened(X, model.reading)
    asked = {"target": y, "sample_weight": sample_weight, "groups": groups, "id_column": model.id_column}
    named = {option: name for option, name in asked.items() if isinstance(name, str)}
    check_columns(model, table, named)
    search_of(model, on_disk=stays_on_disk(table))  # raises before the table is read
    with ExitStack() as files:
        yield _learned(model, in_memory(table), named, (y, sample_weight, groups), keep, files)


def _learned(
    model: TableModel,
    table: TableRows | TableSource,
    named: dict[str, str],
    given: tuple[Any, Any, Any],  # targets, weights and groups
    keep: np.ndarray | None,
    files: ExitStack,  # those of a matrix that is too large for memory
) -> Training:
    """Learn the preparation of a table and apply it."""
    learner = model._learner(list(named.values()))
    # `shown` are rows that show what the columns look like, `beside` have the targets of all rows.
    if isinstance(table, TableRows):
        rows = table if keep is None else table.take(np.flatnonzero(keep))
        rows, *arrays = with_target(model, rows, *given)
        if not rows.names:
            raise TableError("the table has no columns; pass a table with columns")
        refuse_few_rows(rows)
        y, weight, groups, target = _known(model, rows, *arrays)
        learner.add(rows)
        preparation = learner.finish()
        table = shown = beside = rows
    else:
        has_target, *arrays = with_target_on_disk(model, table, *given)
        left_out = tuple[str, ...]()
        if has_target is not None:
            left_out = (left_out_note(~has_target, given[0]),)
            keep = has_target if keep is None else keep & has_target
        others = [named[option] for option in ("target", "sample_weight", "groups") if option in named]
        beside, shown = learn_from_disk(table, others, learner, BLOCK, keep)
        y, weight, groups, target = _known(model, beside, *arrays)
        preparation = learner.finish()
        shown = replace(shown, remarks=(*table.remarks, *left_out))
    on_disk = matrix_stays_on_disk(preparation, table, len(beside))
    search = search_of(model, on_disk=on_disk)
    matrix = _encoded(model, preparation, table, keep, len(beside), files, on_disk)
    splitting = splitting_of(model, y, groups, named.get("groups"))
    others = [named.get("sample_weight", "")]
    others += [named["target"]] if target is not None and model.task == "regression" else []
    facts = ColumnFacts.of(preparation, matrix, learner.row_names(preparation.columns))
    copies = copies_note(facts.copies)
    notes = (
        *preparation_notes(shown, learner, preparation, others),
        *([] if copies is None else [copies]),
    )
    columns = tuple(name for name in shown.names if name not in named.values())
    reading = beside.reading.with_categories(preparation, target)
    return Training(
        matrix, y, weight, groups, preparation, search, splitting, target, columns, reading, facts, notes
    )


def with_target(model: TableModel, rows: TableRows, y: Any, *others: Any) -> tuple[Any, ...]:
    """Rows, targets and `others`, without rows that have no target where the model leaves them out."""
    if y is None or not model.drop_missing_target:
        return rows, y, *others
    missing = missing_targets(y, rows)
    if not missing.any() or len(missing) != len(rows):  # of another length, which is refused later
        return rows, y, *others
    refuse_no_target(missing, y)
    remarks = (*rows.remarks, left_out_note(missing, y))
    arrays = _arrays_of(~missing, y, *others)
    return replace(rows.take(np.flatnonzero(~missing)), remarks=remarks), *arrays


def _arrays_of(keep: np.ndarray, *arrays: Any) -> list[Any]:
    """The values of some rows of arrays; names of columns, numbers and None stay as they are."""
    kept = []
    for values in arrays:
        if values is None or isinstance(values, str) or not (array := plain_array(values)).ndim:
            kept.append(values)
            continue
        if len(array) != len(keep):
            raise TableError(
                f"sample_weight or groups has {len(array)} values, and the table has {len(keep)} rows; "
                "give one for every row, also for those without a target"
            )
        kept.append(array[keep])
    return kept


def left_out_note(missing: np.ndarray, y: Any) -> str:
    """What to say about rows without a target."""
    name = f"'{y}'" if isinstance(y, str) else "y"
    return f"dropped {missing.sum()} of {len(missing)} rows, in which {name} is missing"


def with_target_on_disk(model: TableModel, source: TableSource, y: Any, *others: Any) -> tuple[Any, ...]:
    """The mask of rows with a target, one more pass over that column, and arrays of those rows.

    The mask is None where all rows are to be used.
    """
    if y is None or not model.drop_missing_target:
        return None, y, *others
    if isinstance(y, str):
        blocks = [missing_targets(y, rows) for rows in source.typed_batches(BLOCK, [y])]
        missing = np.concatenate(blocks)
    else:
        missing = _missing_in_array(source, y)
    refuse_no_target(missing, y)
    if not missing.any():
        return None, y, *others
    return ~missing, *_arrays_of(~missing, y, *others)


def _missing_in_array(source: TableSource, y: Any) -> np.ndarray:
    """Which rows of a table have no value in an array; none where that is of another length."""
    missing = missing_in(y)
    if missing.any():
        rows = sum(len(block) for block in source.batches(BLOCK, source.names[:1]))
        return missing if len(missing) == rows else np.zeros(rows, dtype=bool)  # refused later
    return missing


@contextmanager
def prepared_again(
    model: TableModel, X: Any, y: Any, sample_weight: Any, groups: Any
) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Matrix, targets, weights and groups of rows for a fitted estimator, with its own preparation."""
    table = in_memory(opened(X, model.reading_))
    preparation = model.preparation_
    keep: np.ndarray | None = None
    if isinstance(table, TableRows):
        table, *given = with_target(model, table, y, sample_weight, groups)
        beside = table
    else:
        keep, *given = with_target_on_disk(model, table, y, sample_weight, groups)
        named = [name for name in given if isinstance(name, str)]
        beside, _ = learn_from_disk(table, named, mask=keep)
    known = _known(model, beside, *given)
    on_disk = matrix_stays_on_disk(preparation, table, len(beside))
    with ExitStack() as files:
        yield _encoded(model, preparation, table, keep, len(beside), files, on_disk), *known[:3]


def rows_in_memory(table: Any, reading: Reading | None = None) -> TableRows:
    """All rows of a table of any kind."""
    found = opened(table, reading)
    return found.read() if isinstance(found, TableSource) else found


def check_columns(model: Any, table: TableRows | TableSource, named: dict[str, str]) -> None:
    """Refuse columns that the table does not have, or that two parameters name."""
    several = [("drop", name) for name in model.drop]
    for option, name in [*named.items(), *several]:
        if option != "target" and name in model.categorical:
            raise TableError(f" both name column '{name}'; choose one", (), [option, "categorical"])
    several += [("categorical", name) for name in model.categorical]
    for option, name in [*named.items(), *several]:
        table.require(name, option)
        if option != "target" and name == named.get("target"):
            raise TableError(f" names the target column '{name}'; choose another column", (), [option])


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
        else:
            _check_numbers(model, values, target)
        model._check_criterion("y" if target is None else target.name, values)
    weight = rows.weights(sample_weight) if isinstance(sample_weight, str) else sample_weight
    weight = check_weights(weight, len(rows))
    if groups is not None:
        groups = groups_of(rows, groups)
    return values, weight, groups, target


def groups_of(rows: TableRows, groups: Any) -> np.ndarray:
    """The groups of rows, an array or the name of a column, as numbers of them."""
    if not isinstance(groups, str):
        return as_groups(groups, len(rows))
    return as_groups(rows.column(groups, "groups column"), len(rows), f"'{groups}'")


def _check_numbers(model: Any, values: Any, target: Target | None) -> None:
    """Refuse numbers that have no logarithm where one is asked for, or whose squares overflow."""
    name = "y" if target is None else f"'{target.name}'"
    if model.target_transform == "log" and not np.all(values > 0):
        row = int(np.flatnonzero(~(np.asarray(values).reshape(len(values), -1) > 0).all(axis=1))[0])
        raise TableError(
            f"target_transform='log' needs positive targets, but {name} has {np.min(values[row]):g} "
            f"in data row {row + 1}; leave it out, or add a constant to the target"
        )
    if target is not None:  # of arrays the estimator says so
        check_squares(values / 2 - values.min() / 2)


# Tables on disk


def learn_from_disk(
    source: TableSource,
    others: Collection[str],
    learner: Learner | None = None,
    block: int = BLOCK,
    mask: np.ndarray | None = None,
) -> tuple[TableRows, TableRows]:
    """Let a learner see all blocks, in one pass that leaves the columns `others` and a first block.

    Only the rows of `mask` are looked at, where there is one. Where there are no `others`, the first
    column is left: a table without columns has no number of rows.
    """
    others = list(others) or list(source.names[:1])
    kept: list[TableRows] = []
    first: TableRows | None = None
    for rows in masked(source.typed_batches(block, None if learner is not None else others), mask):
        if learner is not None:
            learner.add(rows)
        first = first or rows
        kept.append(rows.select(others))
    if first is None:
        raise TableError(f"{source.path.name} has no rows; add rows")
    columns = pa.concat_tables([rows.columns for rows in kept], promote_options="permissive")
    return replace(kept[0], columns=columns), first


def matrix_stays_on_disk(preparation: Preparation, table: TableRows | TableSource, n: int) -> bool:
    """Whether the matrix of n rows goes to a file: its table is too large for memory, or it is."""
    return isinstance(table, TableSource) or exceeds_memory(8 * n * len(preparation.feature_names))


def _encoded(
    model: TableModel,
    preparation: Preparation,
    table: TableRows | TableSource,
    keep: np.ndarray | None,
    n: int,
    files: ExitStack,
    on_disk: bool,
) -> Any:
    """The matrix of a table, in memory or in a file that is removed with `files`."""
    if isinstance(table, TableSource):
        blocks = masked(table.typed_batches(BLOCK, preparation.columns), keep)
    elif on_disk:
        blocks = table.slices(BLOCK)
    else:
        return preparation.transform(table)
    size = 4 * n * len(preparation.feature_names)
    path = files.enter_context(scratch_file(model.scratch, size))
    return written(preparation, blocks, n, path)


@contextmanager
def scratch_file(scratch: str | os.PathLike[str] | None, size: int) -> Iterator[Path]:
    """The name of a file of `size` bytes in a folder of its own; raise where there is no room for it.

    The folder is made in `scratch`, by default in that of the system for temporary files.
    """
    place = Path(tempfile.gettempdir() if scratch is None else scratch).absolute()
    room = shutil.disk_usage(place).free
    where = str(place)
    if memory.lies_in_memory(place):
        room = min(room, int(_SHARE * (memory.available_memory() or room)))
        where += ", which is kept in memory (tmpfs),"
    if size > room:
        raise TableError(
            f"the {_megabytes(size)} of encoded rows do not fit in memory, and {where} has only "
            f"{_megabytes(room)} of free space",
            _ROOM,
        )
    try:
        folder = tempfile.TemporaryDirectory(prefix="onefold-", dir=place, ignore_cleanup_errors=True)
    except OSError as error:
        raise _not_written(size, place, error) from error
    with folder:
        yield Path(folder.name) / "rows.npy"


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.1f} MB"


def written(preparation: Preparation, blocks: Iterable[TableRows], n: int, path: Path) -> Any:
    """The rows of a table as a mapped float32 array in a file at `path`."""
    width = len(preparation.feature_names)
    kind = np.lib.format.dtype_to_descr(np.dtype(np.float32))
    header = {"descr": kind, "fortran_order": False, "shape": (n, width)}
    place = 0
    try:
        # Written, not mapped: a disk that gets full would end the process (SIGBUS).
        with atomic_write(path) as partial, partial.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for block in blocks:
                for rows in block.slices(preparation.rows_at_once):
                    matrix = preparation.transform(rows, UnseenValues())
                    file.write(matrix.astype(np.float32).data)
                    place += len(rows)
    except OSError as error:
        raise _not_written(4 * n * width, path.parent.parent, error) from error
    if place != n:
        raise TableError(f"the table had {n} rows and has {place} now; leave it as it is during the fit")
    return np.load(path, mmap_mode="r")


def stacked(
    matrices: Iterable[np.ndarray], scratch: str | os.PathLike[str] | None, files: ExitStack
) -> np.ndarray:
    """Matrices one below the other: in memory or, if they are too large, mapped from a float64 file.

    The file lies in `scratch` and is removed with `files`.
    """
    kept: list[np.ndarray] = []
    path: Path | None = None
    size = width = 0
    for matrix in matrices:
        kept.append(np.ascontiguousarray(matrix, dtype=np.float64))
        size += kept[-1].nbytes
        width = matrix.shape[1]
        if path is None and exceeds_memory(_COPIES * size):
            path = files.enter_context(scratch_file(scratch, size))
            file = files.enter_context(path.open("wb"))
        if path is not None:
            try:
                file.writelines(part.data for part in kept)
                file.flush()
            except OSError as error:
                raise _not_written(size, path.parent.parent, error) from error
            kept.clear()
    if path is None:
        return np.concatenate(kept)
    return np.memmap(path, np.float64, "r", shape=(size // (8 * width), width))


def _not_written(size: int, folder: Path, error: OSError) -> TableError:
    """The error for a file of `size` bytes that the disk refuses."""
    why = os.strerror(error.errno or errno.ENOSPC).lower()
    return TableError(
        f"the {_megabytes(size)} of encoded rows cannot be written to {folder} ({why})", _ROOM
    )


def masked(blocks: Iterable[TableRows], mask: np.ndarray | None) -> Iterator[TableRows]:
    """The rows of a mask over the whole table, block by block; they keep the numbers of their blocks."""
    for rows in blocks:
        if mask is None:
            yield rows
        elif len(here := np.flatnonzero(mask[rows.start : rows.start + len(rows)])):
            yield replace(rows.take(here), start=rows.start)
