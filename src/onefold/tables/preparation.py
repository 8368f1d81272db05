"""The preparation of a table: what was learned about its columns in training, applied to any rows.

A `Learner` takes blocks of the training rows and gives a `Preparation`, which holds plain values alone:
it is stored with the model, and prediction repeats it exactly.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold.tables.columns import is_moment, kind_of
from onefold.tables.errors import Remedy, TableError, counts, did_you_mean, listing, raise_all
from onefold.tables.kinds import KINDS, Column, ColumnLearner
from onefold.tables.reading import is_number
from onefold.tables.rows import TableRows

Missing = Literal["error", "impute"]

# How pandas and this package call a column without a name.
_UNNAMED = re.compile(r"unnamed_\d+|Unnamed: ?\d+(_level_\d+)?")
_ID_NAME = re.compile(r"(?i:(.*[\s_.-])?(id|uuid|guid|key|index|row|rownum|rowid|nr|no))|.*[a-z](Id|ID)")
_FEWEST = 20  # rows before different numbers in all of them mean anything
_MOST_COMPARED = 1 << 20  # numbers of a matrix that are looked at for copies of columns


@dataclass
class Surprises:
    """What rows of use have that training rows had not; one warning for all blocks of a table."""

    rows: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)

    def warn(self, stacklevel: int = 3) -> None:
        """Say so, if there was anything."""
        if self.unknown:
            found = ", ".join(f"{count} in '{name}'" for name, count in sorted(self.unknown.items()))
            warnings.warn(f"unknown categories ignored: {found}", UserWarning, stacklevel)
        if self.missing:
            shares = ", ".join(
                f"'{name}' ({count} of {self.rows} rows, {count / self.rows:.0%})"
                for name, count in self.missing.most_common()
            )
            warnings.warn(
                f"missing values where training rows had none, filled in by the median or the most "
                f"frequent value: {shares}; the model has not learned what they mean",
                UserWarning,
                stacklevel,
            )


@dataclass(frozen=True)
class Preparation:
    """How rows of a table become rows of a matrix.

    Parameters
    ----------
    parts : tuple of Column
        The columns in use, in the order of their features.
    missing : {"impute", "error"}
        What to do about missing values.
    constant : tuple of str
        Columns that were left out because all their values were equal.
    row_numbers : tuple of str
        Columns without a name that were left out because they number the rows, or are empty.
    identifiers : tuple of str
        Columns of text that were left out because they tell rows apart.
    """

    parts: tuple[Column, ...] = ()
    missing: Missing = "impute"
    constant: tuple[str, ...] = ()
    row_numbers: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        others = (self.constant, self.row_numbers, self.identifiers)
        lists = all(type(one) is tuple for one in (self.parts, *others))
        texts = lists and all(type(name) is str for names in others for name in names)
        if not texts or self.missing not in ("error", "impute"):
            raise ValueError("the lists of columns are damaged")
        if not all(type(part) in KINDS for part in self.parts):
            raise ValueError("a column is of no known kind")
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("a column appears twice")

    @property
    def columns(self) -> tuple[str, ...]:
        """The table columns that are needed."""
        return tuple(part.name for part in self.parts)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of every column of the matrix."""
        return tuple(name for part in self.parts for name in part.names)

    def spans(self) -> list[tuple[str, slice]]:
        """Every table column with its part of the matrix."""
        ends = np.cumsum([len(part.names) for part in self.parts], dtype=int).tolist()
        return [(p.name, slice(end - len(p.names), end)) for p, end in zip(self.parts, ends)]

    def shares(self, features: Any | None, most: int | None = None) -> dict[str, float] | None:
        """Importances of columns by name, the greatest first, from those of the features.

        No more than `most` of them; None for a model without a metric.
        """
        if features is None:
            return None
        features = np.asarray(features, dtype=np.float64)
        found = {name: float(features[part].sum()) for name, part in self.spans()}
        return {name: found[name] for name in sorted(found, key=lambda name: -found[name])[:most]}

    def check_columns(self, names: tuple[str, ...]) -> None:
        """Refuse a table that lacks columns; columns it has besides are ignored."""
        absent = [name for name in self.columns if name not in names]
        if absent:
            which = f"column '{absent[0]}'" if len(absent) == 1 else f"columns {listing(absent)}"
            near = f"the columns are {listing(names)}"
            near = did_you_mean(absent[0], names) if len(absent) == 1 else near
            raise TableError(f"the table has no {which}, which the model needs; {near}")

    def transform(self, rows: TableRows, surprises: Surprises | None = None) -> np.ndarray:
        """The matrix of these rows, float64.

        Parameters
        ----------
        rows : TableRows
            With at least the columns this preparation needs.
        surprises : Surprises, optional
            Collects what training had not seen, so that many blocks share one warning. Without it, each
            call warns.
        """
        self.check_columns(rows.names)
        seen = Surprises() if surprises is None else surprises
        seen.rows += len(rows)
        # Column-major while it is filled column by column.
        matrix = np.zeros((len(rows), len(self.feature_names)), order="F")
        missing: dict[str, int] = {}
        infinite: list[str] = []
        for part, (name, place) in zip(self.parts, self.spans()):
            made = part.features(rows)
            matrix[:, place] = made.values
            if np.isinf(made.values).any():
                infinite.append(name)
            if made.missing.any():
                missing[name] = int(made.missing.sum())
            if missing.get(name) and not part.missing:
                seen.missing[name] += missing[name]
            if made.unknown:
                seen.unknown[name] += made.unknown
        if infinite:
            raise TableError(f"infinite values in {listing(infinite)}; remove or replace them")
        if self.missing == "error":
            refuse_missing(missing, len(rows), ["fill them in: the model was tuned without any"])
        if surprises is None:
            seen.warn()
        return np.ascontiguousarray(matrix)


class Learner:
    """Learns a preparation from blocks of the rows that a model is tuned on.

    Parameters
    ----------
    exclude : collection of str
        Columns that are not features: target, weights, groups, identifiers, dropped ones.
    missing : {"impute", "error"}
        Fill missing values with the median or the most frequent, and say where they were in a feature
        of their own; or refuse them.
    categorical : collection of str
        Columns whose values are categories, even if they look like numbers or dates.
    min_frequency : int, float or None
        Categories in fewer rows, or in a smaller share of them, are taken together.

    Attributes
    ----------
    rows : int
        How many have been added.
    """

    def __init__(
        self,
        exclude: Collection[str] = (),
        missing: Missing = "impute",
        categorical: Collection[str] = (),
        min_frequency: float | None = None,
    ) -> None:
        if missing not in {"error", "impute"}:
            raise TableError(f"missing is 'error' or 'impute', not '{missing}'")
        self._exclude, self._missing, self._codes = set(exclude), missing, set(categorical)
        self._min_frequency = min_frequency
        self.rows = 0
        self._columns: dict[str, ColumnLearner] = {}
        self._nameless: dict[str, TableError | None] = {}

    def add(self, rows: TableRows) -> None:
        """Take a block of rows."""
        self.rows += len(rows)
        for place, name in enumerate(rows.names):
            if name in self._exclude:
                continue
            if _UNNAMED.fullmatch(name) and name not in self._codes:
                problem = None
                if not _empty_or_distinct(rows, name):
                    problem = TableError(
                        f"column {place + 1} has no name in the header",
                        ["name it", Remedy("drop", [name])],
                    )
                self._nameless[name] = self._nameless.get(name) or problem
                continue
            if name not in self._columns:
                self._columns[name] = ColumnLearner(name, name in self._codes, self._min_frequency)
            self._columns[name].add(rows)

    def finish(self) -> Preparation:
        """The preparation; raises with all that is wrong with the columns."""
        if self.rows == 0:
            raise TableError("the table has no rows")
        if not self._columns:
            raise TableError("the table has no column left to predict from")
        identifiers = tuple(name for name, one in self._columns.items() if one.identifies(self.rows))
        used = {name: one for name, one in self._columns.items() if name not in identifiers}
        found = {name: column.column(self.rows) for name, column in used.items()}
        problems = [*self._nameless.values(), *(column.problem for column in self._columns.values())]
        if self._missing == "error":
            lacking = self._lacking()
            remedies: list[Remedy | str] = [
                "fill them in",
                Remedy("drop", list(lacking)),
                Remedy("missing", "impute"),
            ]
            try:
                refuse_missing(lacking, self.rows, remedies)
            except TableError as error:
                problems.append(error)
        raise_all([problem for problem in problems if problem is not None])
        if not used:
            raise TableError(f"every column looks like an identifier ({listing(identifiers)})")
        parts = [part for part in found.values() if part is not None]
        constant = tuple(name for name, part in found.items() if part is None)
        if not parts:
            raise TableError(f"every column is constant ({listing(constant)}): nothing to learn")
        return Preparation(
            parts=tuple(sorted(parts, key=lambda part: KINDS.index(type(part)))),
            missing=self._missing,
            constant=constant,
            row_numbers=tuple(self._nameless),
            identifiers=identifiers,
        )

    def notes(self) -> list[str]:
        """What was done about missing values, and which medians are not exact."""
        notes = []
        missing = {name: count for name, count in self._lacking().items() if count < self.rows}
        if missing:
            words = "by the median or the most frequent value, with a feature that says where"
            notes.append(f"missing values filled in {words}: {counts(missing.items(), self.rows)}")
        if any(column.sketched for column in self._columns.values()):
            notes.append("medians, which fill in what is missing, are right to 0.1 % of the rows")
        return notes

    def _lacking(self) -> dict[str, int]:
        return {name: column.missing for name, column in self._columns.items() if column.missing}


def check_min_frequency(value: Any) -> None:
    """Raise unless it is None, a number of rows or a share of them."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1
    if value is not None and not whole and not (isinstance(value, float) and 0.0 < value < 1.0):
        raise ValueError(
            "min_frequency must be a number of rows, at least 1, or a share of them between 0 and 1; "
            f"got {value!r}"
        )


def learn_preparation(
    rows: TableRows,
    exclude: Collection[str] = (),
    missing: Missing = "impute",
    categorical: Collection[str] = (),
    min_frequency: float | None = None,
) -> Preparation:
    """Learn how to turn rows of this table, all of them in memory, into rows of a matrix.

    The parameters are those of :class:`Learner`.
    """
    learner = Learner(exclude, missing, categorical, min_frequency)
    learner.add(rows)
    return learner.finish()


def refuse_missing(missing: Mapping[str, int], n_rows: int, remedies: Sequence[Remedy | str]) -> None:
    """Raise if any column lacks values, naming the columns and how many rows each lacks."""
    if missing:
        raise TableError(f"missing values in {counts(missing.items(), n_rows)}", remedies)


# Notes on columns


def column_notes(
    rows: TableRows, features: Collection[str], others: Collection[str], left_out: Collection[str]
) -> tuple[str, ...]:
    """What to tell about the columns of a table: `features`, `others` in use, and those `left_out`."""
    notes = [rows.notes[name] for name in (*features, *others) if name in rows.notes]
    if left_out:
        notes.append(f"left out, as row numbers or empty columns without a name: {listing(left_out)}")
    for name in features:
        why = _identifies(rows, name)
        if why is not None:
            notes.append(
                f"column '{name}' {why}, like an identifier or a row number; drop it, unless it means "
                "something"
            )
    return tuple(notes)


def copies_note(preparation: Preparation, matrix: Any) -> str | None:
    """A note on columns that say the same as one before them."""
    if matrix.shape[0] < _FEWEST:
        return None
    rows = np.asarray(matrix[:: max(1, matrix.size // _MOST_COMPARED)], dtype=np.float64)
    seen: dict[bytes, str] = {}
    copies = []
    for name, place in preparation.spans():
        first = seen.setdefault(_pattern(rows[:, place]), name)
        if first != name:
            copies.append((name, first))
    if not copies:
        return None
    told = ", ".join(f"'{name}' of '{first}'" for name, first in copies[:8])
    more = f" and {len(copies) - 8} more" if len(copies) > 8 else ""
    return f"copies of columns, which share one importance: {told}{more}; drop them"


def _pattern(values: np.ndarray) -> bytes:
    """What a column says of every row, in any unit; of few different values whatever they are called."""
    # One number for each row, equal for equal rows.
    weights: np.ndarray = np.linspace(1.0, np.pi, values.shape[1])
    numbers: np.ndarray = np.round(np.asarray(values @ weights), 6)
    _, first, codes = np.unique(numbers, return_index=True, return_inverse=True)
    if 2 * len(first) > len(numbers):
        return numbers.tobytes()
    rank = np.empty(len(first), dtype=np.int32)
    rank[np.argsort(first)] = np.arange(len(first))  # in the order of appearance
    return rank[codes.ravel()].tobytes()


def _empty_or_distinct(rows: TableRows, name: str) -> bool:
    """Whether a column holds nothing, row numbers or row names.

    Programs write such a column, without a name, for the index of a data frame, and for a delimiter at
    the end of every line.
    """
    column = rows.columns.column(name)
    kind = kind_of(column)
    if kind in ("empty", "other"):
        return kind == "empty"
    if kind == "numeric":  # measurements differ from row to row, too
        values = rows.numbers(name)
        if (values != np.round(values)).any():
            return False
    return column.null_count == 0 and len(pc.unique(column)) == len(column)


def _identifies(rows: TableRows, name: str) -> str | None:
    column = rows.columns.column(name)
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    known = text or pa.types.is_integer(column.type)
    if not known or len(column) < _FEWEST or column.null_count:
        return None
    distinct = pc.count_distinct(column).as_py()
    if text:  # words, or numbers in a block of a table of text
        whole = pc.all(pc.match_substring_regex(column, r"^\s*[0-9]+\s*$")).as_py()
    else:
        whole = pc.min(column).as_py() >= 0
    if distinct == len(column):
        if whole:
            return "has a different whole number in every row"
        if text and not is_number(column[0].as_py()) and not is_moment(column[0].as_py()):
            return "has a different text in every row"
    if whole and _ID_NAME.fullmatch(name) and 2 * distinct > len(column):
        return "has many different whole numbers"
    return None
