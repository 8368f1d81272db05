r"""What is learned about the columns of a table from blocks of its rows.

A table in memory (one block) and on disk (many blocks) give the same preparation, up to rounding.
Moments add: with nᵢ rows, mean mᵢ and Sᵢ = Σ (x − mᵢ)² of block i, δ = m₂ − m₁ and n = n₁ + n₂,

    m = m₁ + δ n₂/n                     (1)
    S = S₁ + S₂ + δ² n₁ n₂/n            (2)

Each column has a unit, a power of two near its largest value, so that no square over- or underflows.

Medians are exact for one block and for up to k = 65,536 values. For more values in several blocks they
are medians of k random ones, whose rank has a standard error of ½/√k, 0.2 % of the rows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold.tables.codes import RowSample
from onefold.tables.columns import (
    MANY_CATEGORIES,
    MOST_CATEGORIES,
    ORDERS,
    UNSETTLED,
    Kind,
    as_numbers,
    as_text,
    count_dates,
    inexact_as_number,
    kind_of,
    names_rows,
    not_dates_error,
    phases,
    refuse_decorated_numbers,
    refuse_mangled_numbers,
    text_seconds,
    trimmed,
    typed_seconds,
    zone_of,
)
from onefold.tables.errors import Remedy, SeveralProblems, TableError, counts, listing
from onefold.tables.kinds import (
    DAY,
    KINDS,
    PERIODS,
    BooleanColumn,
    CategoryColumn,
    Column,
    DateColumn,
    Missing,
    NumberColumn,
    Preparation,
    are_booleans,
    boolean_of,
    missing_values_error,
)
from onefold.tables.reading import MISSING_WORDS
from onefold.tables.rows import BLOCK, Table, TableRows

_ROUNDING = 1e-13  # standard deviation over mean below which a column is constant
_SAMPLE = 1 << 16  # values in the random sample whose median is taken
# Mean steps between the rows of an axis of time that are its unit: the default widths then reach from
# one step to some three thousand, whatever the number of rows; chosen, not measured.
_STEPS_OF_UNIT = 16.0
_LEAST_VARIANCE = 1e-3  # of the phases, as points of the unit circle, for a cycle to be a feature
_MOST_COUNTED = 1_000_000  # distinct texts of a column that are counted if rare ones share an indicator
_LEAST_COMMON = 10  # rows of a category: the smallest min_frequency that an error proposes
# The names that pandas and this package give to columns without one.
_UNNAMED = re.compile(r"unnamed_\d+|Unnamed: ?\d+(_level_\d+)?")


@dataclass(frozen=True)
class ColumnMoments:
    """Number of rows, and for every column a unit and, in it, mean and sum of squared deviations."""

    n: int
    unit: Any
    mean: Any
    squares: Any

    @classmethod
    def of(cls, values: Any) -> ColumnMoments:
        """The moments of a block (rows, columns) of finite numbers."""
        n, d = values.shape
        if n == 0:
            return cls(0, np.zeros(d), np.zeros(d), np.zeros(d))
        largest = np.maximum(np.abs(values).max(axis=0), np.finfo(float).tiny)
        unit = np.ldexp(1.0, np.frexp(largest)[1] - 1)
        scaled = values / unit
        mean = scaled.mean(axis=0)
        return cls(n, unit, mean, ((scaled - mean) ** 2).sum(axis=0))

    def joined(self, added: ColumnMoments) -> ColumnMoments:
        """The moments of both sets of rows, by (1) and (2) in a common unit."""
        if not (self.n and added.n):
            return self if self.n else added
        unit = np.maximum(self.unit, added.unit)
        n = self.n + added.n
        factor = self.unit / unit
        added_factor = added.unit / unit
        delta = added.mean * added_factor - self.mean * factor
        within = self.squares * factor**2 + added.squares * added_factor**2
        squares = within + delta**2 * (self.n * added.n / n)
        return ColumnMoments(n, unit, self.mean * factor + delta * (added.n / n), squares)

    def mean_and_scale(self) -> tuple[Any, Any]:
        """Mean and standard deviation, which is 0 for a constant column."""
        deviation = np.sqrt(self.squares / max(1, self.n))
        varies = deviation > _ROUNDING * np.abs(self.mean)
        varies &= deviation * self.unit >= np.finfo(float).tiny
        return self.mean * self.unit, np.where(varies, deviation * self.unit, 0.0)


class Median:
    """The median of all values added so far, or of a random sample of `size` of them.

    The first block is kept whole, however long it is.
    """

    def __init__(self, size: int = _SAMPLE) -> None:
        self._size = size
        self._random = np.random.default_rng(0)
        self.exact = True
        self._values: np.ndarray = np.empty(0)
        self._keys: np.ndarray = np.empty(0)  # random; the values with the smallest keys are the sample

    def add(self, values: np.ndarray) -> None:
        """Take a block of finite numbers."""
        is_first = self._values.size == 0
        self._values = np.concatenate([self._values, values])
        self._keys = np.concatenate([self._keys, self._random.random(len(values))])
        if not is_first and len(self._keys) > self._size:
            sample = np.argpartition(self._keys, self._size)[: self._size]
            self._values = self._values[sample]
            self._keys = self._keys[sample]
            self.exact = False

    def value(self) -> float:
        """The median; NaN without values."""
        return float(np.median(self._values)) if self._values.size else float("nan")


# One column: a learner has `add` (a block of rows) and `column` (the fitted column)


class NumberLearner:
    """Moments and median of the numbers of a column."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.median = Median()
        self.moments = ColumnMoments.of(np.empty((0, 1)))
        # Whether all blocks so far hold different whole numbers, none negative and none missing.
        self._counts_rows = True
        # Whether all values so far are whole numbers, none negative.
        self.is_whole = True

    def add(self, column: pa.ChunkedArray, rows: TableRows) -> int:
        """Add the column of a block of rows; return the number of missing values."""
        position = inexact_as_number(column)
        if position is not None:
            value = column[position].as_py()
            row = rows.start + position + 1
            raise TableError(
                f"column '{self.name}' has {value} in data row {row}, which is not exact in float64 and "
                "looks like an identifier",
                [
                    Remedy("drop", [self.name]),
                    Remedy("categorical", [self.name]),
                    Remedy("id_column", self.name),
                ],
            )
        values = as_numbers(column, self.name, rows.start, rows.reading.format_of(self.name))
        if np.isinf(values).any():
            raise TableError(f"infinite values in '{self.name}'; remove or replace them")
        self._counts_rows = self._counts_rows and _are_different_whole_numbers(column)
        if self.is_whole:
            present = values[~np.isnan(values)]
            self.is_whole = bool(np.all((present >= 0) & (present == np.round(present))))
        return self.add_values(values)

    def add_values(self, values: np.ndarray) -> int:
        """Add numbers, NaN where missing; return the number of missing values."""
        present = values[~np.isnan(values)]
        self.moments = self.moments.joined(ColumnMoments.of(present[:, None]))
        self.median.add(present)
        return len(values) - len(present)

    def names_rows(self, missing: int, rows: int) -> bool:
        """Whether the column has a different whole number in every row of each block."""
        return self._counts_rows and names_rows(rows - missing, rows)

    def column(self, missing: int, rows: int) -> Column | None:
        """The fitted column; None if all values are equal."""
        fields = self._standardisation(missing)
        return None if fields is None else NumberColumn(self.name, missing > 0, **fields)

    def _standardisation(self, missing: int) -> dict[str, float] | None:
        """Median, and mean and scale of the imputed column; None if all values are equal."""
        if self.moments.mean_and_scale()[1][0] == 0:
            return None
        median = self.median.value()
        imputed = replace(ColumnMoments.of(np.array([[median]])), n=missing)
        mean, scale = self.moments.joined(imputed).mean_and_scale()
        if scale[0] == 0:
            return None
        return {"mean": float(mean[0]), "scale": float(scale[0]), "median": median}


class DateLearner(NumberLearner):
    """Moments, span and phases of a column of dates or times."""

    def __init__(self, name: str, order: str = UNSETTLED) -> None:
        super().__init__(name)
        self.order = order
        self.zone = ""
        self._span = (np.inf, -np.inf)
        self._waves = ColumnMoments.of(np.empty((0, 2 * len(PERIODS))))

    def add(self, column: pa.ChunkedArray, rows: TableRows) -> int:
        self.order = "time" if pa.types.is_time(column.type) else UNSETTLED
        self.zone = zone_of(column)
        return self.add_values(typed_seconds(column, self.zone))

    def add_values(self, values: np.ndarray) -> int:
        present = values[~np.isnan(values)]
        if len(present):
            self._span = min(self._span[0], present.min()), max(self._span[1], present.max())
            # Of the week and the year by whole days, without the time of day.
            days = np.floor(present / DAY) * DAY
            seconds_of = {"year": days, "week": days, "day": present}
            angles = [2.0 * np.pi * phases(seconds_of[cycle], cycle) for cycle in PERIODS]
            waves = np.column_stack([wave(angle) for angle in angles for wave in (np.sin, np.cos)])
            self._waves = self._waves.joined(ColumnMoments.of(waves))
        return super().add_values(values)

    def names_rows(self, missing: int, rows: int) -> bool:
        return False

    def column(self, missing: int, rows: int) -> Column | None:
        fields = self._standardisation(missing)
        if fields is None:
            return None
        cycles = ("day",) if self.order == "time" else self._cycles()
        return DateColumn(
            self.name, missing > 0, **fields, order=self.order, cycles=cycles, zone=self.zone
        )

    def axis(self, column: DateColumn) -> DateColumn:
        """The column as an axis: the elapsed time alone, in a unit of some steps between its rows."""
        span = self._span[1] - self._span[0]
        scale = _STEPS_OF_UNIT * float(span) / (self.moments.n - 1)
        return replace(column, scale=scale, cycles=())

    def _cycles(self) -> tuple[str, ...]:
        """The cycles of which the data cover two periods and that are not always at the same phase."""
        span = self._span[1] - self._span[0]
        variances = (self._waves.mean_and_scale()[1] ** 2).reshape(-1, 2).sum(axis=1)
        return tuple(
            cycle
            for (cycle, period), variance in zip(PERIODS.items(), variances)
            if span >= 2.0 * period and variance > _LEAST_VARIANCE
        )


class TextLearner:
    """Counts of the texts of a column, and its moments as long as all texts can be dates or times.

    If `categorical`, texts are categories, whatever they look like. Categories in fewer rows than
    `min_frequency`, or in a smaller fraction of them, are rare.
    """

    def __init__(self, name: str, categorical: bool, min_frequency: float | None) -> None:
        self.name = name
        self.categorical = categorical
        self.min_frequency = min_frequency
        self.median = Median()  # of dates, if the texts are dates
        self._counts: dict[str, int] = {}
        self._first_row: dict[str, int] = {}  # of each text, counted from 1
        self._most = MOST_CATEGORIES if min_frequency is None else _MOST_COUNTED
        self._uncounted = 0  # further texts, counted once per block
        self._date_learners = (
            {} if categorical else {order: DateLearner(name, order) for order in ORDERS}
        )
        self._not_a_date: tuple[str, int] | None = None  # the first in no order, and its row
        self.all_rare = 0  # rows of the most frequent category, if all categories are rare

    def add(self, column: pa.ChunkedArray, rows: TableRows) -> int:
        """Add the column of a block of rows; return the number of missing values."""
        text = as_text(column, self.name)
        missing = self._count(text, rows.start)
        if missing < len(text):
            self._add_dates(text, rows)
        return missing

    def _count(self, text: pa.ChunkedArray, start: int) -> int:
        """Count the texts of a block that begins after `start` rows, and the missing ones."""
        encoded = pc.dictionary_encode(text.combine_chunks())
        values = encoded.dictionary.to_pylist()
        codes = pc.fill_null(encoded.indices, len(values)).to_numpy()
        block_counts = np.bincount(codes, minlength=len(values) + 1)
        positions = np.full(len(values) + 1, len(codes))
        np.minimum.at(positions, codes, np.arange(len(codes)))
        for value, count, position in zip(values, block_counts.tolist(), positions.tolist()):
            if value not in self._counts and len(self._counts) > self._most:
                self._uncounted += 1
                continue
            self._counts[value] = self._counts.get(value, 0) + count
            self._first_row.setdefault(value, start + position + 1)
        return int(block_counts[-1])

    def _add_dates(self, text: pa.ChunkedArray, rows: TableRows) -> None:
        """Read a block in every order of day and month that fits so far; drop those that do not."""
        if rows.reading.dayfirst is not None:
            self._date_learners.pop("mdy" if rows.reading.dayfirst else "dmy", None)
        failures: list[int] = []
        for order, learner in list(self._date_learners.items()):
            seconds, zone, position = text_seconds(trimmed(text), order)
            if position is None and (not learner.moments.n or zone == learner.zone):
                learner.zone = zone
                learner.add_values(seconds)
            else:
                del self._date_learners[order]
                failures.append(position or 0)
        if failures and not self._date_learners:
            last = max(failures)
            self._not_a_date = text[last].as_py(), rows.start + last + 1

    @property
    def _distinct(self) -> int:
        return len(self._counts) + self._uncounted

    def names_rows(self, missing: int, rows: int) -> bool:
        """Whether the column has a different text, which is not a date or a time, in every row."""
        return not self._date_learners and not missing and names_rows(self._distinct, rows)

    def has_too_many_names(self, rows: int) -> bool:
        """Whether the texts name rows and are too many for categories: the column is left out."""
        if self.categorical or self._date_learners or self._distinct <= MANY_CATEGORIES:
            return False
        if self._mostly_dates():
            return False
        try:
            self._refuse_numbers()
        except TableError:  # a column of numbers with a few other values, which `column` refuses
            return False
        return names_rows(self._distinct, rows, MANY_CATEGORIES)

    def column(self, missing: int, rows: int) -> Column | None:
        """The fitted column; None if all values are equal, or all categories are rare."""
        if len(self._counts) <= 1:
            return None
        if self._date_learners:
            return self._date_column(missing, rows)
        if self._not_a_date is not None and self._mostly_dates():
            raise not_dates_error(self.name, *self._not_a_date)
        if not self.categorical:
            if are_booleans(self._counts):
                return self._boolean_column(missing)
            self._refuse_numbers()
        return self._category_column(missing, rows)

    def _boolean_column(self, missing: int) -> Column:
        trues = sum(count for word, count in self._counts.items() if boolean_of(word))
        falses = sum(self._counts.values()) - trues
        return BooleanColumn(self.name, missing > 0, trues >= falses)

    def _category_column(self, missing: int, rows: int) -> Column | None:
        """The column of the categories that are not rare; None if all are rare."""
        least = self.min_frequency or 0
        least = least * rows if isinstance(least, float) else least
        # A rare "NA" stays a category: among the rare ones, prediction would read it as missing.
        frequent = tuple(
            text for text in sorted(self._counts) if self._counts[text] >= least or text in MISSING_WORDS
        )
        if self._uncounted or len(frequent) > MOST_CATEGORIES:
            limit = self._most if self._uncounted else MOST_CATEGORIES
            # At most MOST_CATEGORIES categories can be in so many rows each.
            enough = max(_LEAST_COMMON, round(2 * (self.min_frequency or 0)), rows // MOST_CATEGORIES)
            raise TableError(
                f"column '{self.name}' has more than {limit} distinct texts, too many to one-hot encode",
                [Remedy("min_frequency", enough), Remedy("drop", [self.name])],
            )
        if not frequent:
            self.all_rare = max(self._counts.values())
            return None
        mode = max(frequent, key=lambda category: self._counts[category])
        has_rare = len(frequent) < len(self._counts)
        return CategoryColumn(self.name, missing > 0, frequent, mode, has_rare)

    def _refuse_numbers(self) -> None:
        """Raise for numbers in a format that is not understood."""
        refuse_mangled_numbers(self._first_row, self.name)
        refuse_decorated_numbers(tuple(sorted(self._counts)), self.name)

    def _mostly_dates(self) -> bool:
        dates, words = count_dates(self._counts)
        return dates > words

    def _date_column(self, missing: int, rows: int) -> Column | None:
        learner = next(iter(self._date_learners.values()))
        if "dmy" in self._date_learners and "mdy" in self._date_learners:
            self._refuse_ambiguous_dates()
            learner.order = UNSETTLED
        self.median = learner.median
        return learner.column(missing, rows)

    def axis(self, column: DateColumn) -> DateColumn:
        """As in :class:`DateLearner`, of texts that are dates."""
        return next(iter(self._date_learners.values())).axis(column)

    def _refuse_ambiguous_dates(self) -> None:
        """Raise for a date that is another day if the month comes first."""
        values = list(self._first_row)
        texts = trimmed(pa.chunked_array([values], pa.string()))
        day_first, _, _ = text_seconds(texts, "dmy")
        month_first, _, _ = text_seconds(texts, "mdy")
        ambiguous = np.flatnonzero(day_first != month_first)
        if ambiguous.size:
            value = values[ambiguous[0]]
            raise TableError(
                f"dates in '{self.name}', such as '{value}' in data row {self._first_row[value]}, are "
                "ambiguous: day or month first",
                [
                    Remedy("dayfirst", True),
                    Remedy("dayfirst", False),
                    Remedy("drop", [self.name]),
                    Remedy("categorical", [self.name], "if they are codes"),
                ],
            )


# All columns

LEARNERS: dict[Kind, type[NumberLearner]] = {"numeric": NumberLearner, "date": DateLearner}


class Learner:
    """Learns a preparation from blocks of the rows that a model is tuned on.

    The kind of a column is that of the first block in which it has a value.

    Parameters
    ----------
    exclude : collection of str
        Columns that are not features: target, weights, groups, identifiers, dropped ones.
    missing : {"impute", "error"}
        Impute the median or the most frequent value and mark missing values by a feature; or raise an
        error.
    categorical : collection of str
        Columns to treat as categories, even if they look like numbers or dates.
    min_frequency : int, float or None
        Categories in fewer rows, or in a smaller fraction of them, share one indicator.
    numeric : collection of str
        Columns that hold numbers, not codes.
    sample : RowSample, optional
        Is shown the same rows.
    time_axis : bool or None
        Whether a date that is the only column becomes one feature, the elapsed time, without cycles;
        None where nothing can be said of that, because no approximation is known.

    Attributes
    ----------
    rows : int
        How many rows have been added.
    """

    def __init__(
        self,
        exclude: Collection[str] = (),
        missing: Missing = "impute",
        categorical: Collection[str] = (),
        min_frequency: float | None = None,
        numeric: Collection[str] = (),
        sample: RowSample | None = None,
        time_axis: bool | None = None,
    ) -> None:
        if missing not in {"error", "impute"}:
            raise TableError(f"missing must be 'error' or 'impute'; got '{missing}'")
        self._exclude = set(exclude)
        self._missing = missing
        self._categorical = set(categorical)
        self._min_frequency = min_frequency
        self._time_axis = time_axis
        self._date_alone: DateColumn | None = None  # the only column, once it is learned
        self._numeric = set(numeric)
        self.sample = sample
        self.rows = 0
        self._learners: dict[str, Any] = {}  # of columns that have a value
        self._missing_counts: dict[str, int] = {}  # of every column that may become features
        self._unnamed: list[str] = []
        self._problems: dict[str, TableError] = {}

    def add(self, rows: TableRows) -> None:
        """Add a block of rows."""
        self.rows += len(rows)
        if self.sample is not None:
            self.sample.add(rows.select([name for name in rows.names if name not in self._exclude]))
        for position, name in enumerate(rows.names):
            if name in self._exclude:
                continue
            if _UNNAMED.fullmatch(name) and name not in self._categorical:
                self._add_unnamed(rows, name, position)
                continue
            self._missing_counts.setdefault(name, 0)
            if name not in self._problems:
                try:
                    self._missing_counts[name] += self._add_column(rows, name)
                except TableError as error:
                    self._problems[name] = error

    def _add_unnamed(self, rows: TableRows, name: str, position: int) -> None:
        """Note a column without a name, which is a problem unless it is empty or numbers the rows."""
        if name not in self._unnamed:
            self._unnamed.append(name)
        if not _empty_or_distinct(rows, name):
            self._problems[name] = TableError(
                f"column {position + 1} has no name in the header",
                ["name it", Remedy("drop", [name])],
            )

    def _add_column(self, rows: TableRows, name: str) -> int:
        """Show the learner of a column a block; return the number of missing values."""
        is_categorical = name in self._categorical
        try:
            column = rows.text(name) if is_categorical else rows.column(name)
        except TableError as error:  # numbers in another format
            raise error.with_remedy(Remedy("categorical", [name], "if the values are codes")) from error
        kind = kind_of(column)
        if kind == "empty":
            return len(rows)
        if name in self._numeric and kind != "numeric":
            raise TableError(
                f"column '{name}' holds {kind if kind != 'other' else column.type}, not numbers",
                ["leave it out of numeric"],
                options=["numeric"],
            )
        if kind == "other" and not is_categorical:
            raise TableError(
                f"column '{name}' has values of type {column.type}, which is not supported",
                ["convert them", Remedy("drop", [name])],
            )
        learner_type: Any = TextLearner if is_categorical else LEARNERS.get(kind, TextLearner)
        if name not in self._learners:
            self._learners[name] = self._new_learner(learner_type, rows, name)
        if type(self._learners[name]) is not learner_type:
            raise TableError(
                f"column '{name}' holds values of another type from data row {rows.start + 1} on; write "
                "it with one type"
            )
        return int(self._learners[name].add(column, rows))

    def _new_learner(self, learner_type: Any, rows: TableRows, name: str) -> Any:
        if learner_type is not TextLearner:
            return learner_type(name)
        # The type of a categorical column says that its values are categories.
        is_categorical = pa.types.is_dictionary(rows.columns.column(name).type)
        return TextLearner(name, name in self._categorical or is_categorical, self._min_frequency)

    def finish(self) -> Preparation:
        """The preparation; raise all problems of the columns as one error."""
        if self.rows == 0:
            raise TableError("the table has no rows; add rows")
        if not self._missing_counts:
            raise TableError("the table has no feature columns; add columns, or drop fewer")
        identifiers = tuple(filter(self._is_left_out, self._missing_counts))
        names = [name for name in self._missing_counts if name not in identifiers]
        columns = {name: self._column(name) for name in names}
        self._raise_problems()
        if not names:
            raise TableError(
                f"every column looks like an identifier ({listing(identifiers)})",
                ["add other columns", Remedy("categorical", [identifiers[0]], "if it holds categories")],
            )
        fitted = [column for column in columns.values() if column is not None]
        if not fitted:
            raise self._no_features_error(names)
        date = _date_alone(fitted)
        if date is not None and self._time_axis:
            date = self._learners[date.name].axis(date)
            fitted = [date]
        self._date_alone = date
        rare = self._all_rare()
        return Preparation(
            parts=tuple(sorted(fitted, key=lambda column: KINDS.index(type(column)))),
            missing=self._missing,
            constant=tuple(n for n, column in columns.items() if column is None and n not in rare),
            row_numbers=tuple(self._unnamed),
            identifiers=identifiers,
        )

    def with_categories(
        self, preparation: Preparation, names: Collection[str], table: Table
    ) -> Preparation:
        """The preparation with some columns of numbers as categories, learned from the same table.

        Those that have too many categories, or only rare ones, stay numbers.
        """
        categories = {}
        for name in names:
            learner = Learner((), self._missing, [name], self._min_frequency)
            for block in table.typed_batches(BLOCK, [name]):
                learner.add(block)
            with suppress(TableError):
                part = learner.finish().parts[0]
                if type(part) is CategoryColumn:
                    categories[name] = part
        parts = [categories.get(part.name, part) for part in preparation.parts]
        return replace(preparation, parts=tuple(sorted(parts, key=lambda part: KINDS.index(type(part)))))

    def _raise_problems(self) -> None:
        """Raise what is wrong with the columns, in their order, then missing values that are errors."""
        order = (*self._unnamed, *self._missing_counts)
        problems = [self._problems[name] for name in order if name in self._problems]
        missing = {name: count for name, count in self._missing_counts.items() if count}
        if self._missing == "error" and missing:
            remedies = Remedy("drop", list(missing)), Remedy("missing", "impute")
            problems.append(missing_values_error(missing, self.rows, ["fill them in", *remedies]))
        if len(problems) == 1:
            raise problems[0]
        if problems:
            raise SeveralProblems(problems)

    def _no_features_error(self, names: list[str]) -> TableError:
        """The error for columns none of which becomes a feature."""
        rare = self._all_rare()
        if rare:
            return TableError(
                f"no feature columns are left: every category of {listing(rare)} is rarer than "
                "min_frequency",
                [Remedy("min_frequency", max(rare.values())), "add other columns"],
            )
        return TableError(
            f"every column is constant ({listing(names)}), so there is nothing to learn; add "
            "other columns, or rows with other values"
        )

    def _is_left_out(self, name: str) -> bool:
        """Whether text has too many names of rows to be categories; of numbers, a note says so."""
        learner = self._learners.get(name)
        usable = name not in self._problems and name not in self._categorical
        return usable and isinstance(learner, TextLearner) and learner.has_too_many_names(self.rows)

    def whole_numbers(self) -> list[str]:
        """Columns with whole numbers only, none negative, that may be codes."""
        return [
            name
            for name, learner in self._learners.items()
            if type(learner) is NumberLearner and learner.is_whole and name not in self._numeric
        ]

    def row_names(self, columns: Collection[str]) -> tuple[str, ...]:
        """Those of the columns that have a different text or whole number in every row."""
        learners = {name: self._learners[name] for name in columns if name in self._learners}
        return tuple(
            name
            for name, learner in learners.items()
            if learner.names_rows(self._missing_counts[name], self.rows)
        )

    def _column(self, name: str) -> Column | None:
        """The fitted column; None if it has no feature, or a problem."""
        column: Column | None = None
        if name in self._learners and name not in self._problems:
            try:
                column = self._learners[name].column(self._missing_counts[name], self.rows)
            except TableError as error:
                self._problems[name] = error
        some_missing = 0 < self._missing_counts[name] < self.rows
        return Column(name, missing=True) if column is None and some_missing else column

    def _all_rare(self) -> dict[str, int]:
        """Columns whose categories are all rare, with the number of rows of the most frequent one."""
        texts = [learner for learner in self._learners.values() if isinstance(learner, TextLearner)]
        return {learner.name: learner.all_rare for learner in texts if learner.all_rare}

    def notes(self) -> list[str]:
        """Notes on rare categories, the axis of time, imputed values, and medians that are not exact."""
        notes = []
        date = self._date_alone
        if date is not None and self._time_axis:
            notes.append(
                f"'{date.name}' is the only column, and a date: one feature, the elapsed time, without "
                "the cycles of year, week and day"
            )
        elif date is not None and self._time_axis is not None and date.cycles:
            notes.append(
                f"'{date.name}' is the only column: its features are the elapsed time and the cycles of "
                f"{' and '.join(date.cycles)}; to smooth a series along the time alone, use "
                "approximation='state_space' (--approximation state_space on the command line)"
            )
        if rare := self._all_rare():
            notes.append(
                f"dropped columns whose categories are all rarer than min_frequency: {listing(rare)}"
            )
        missing = [(n, count) for n, count in self._missing_counts.items() if 0 < count < self.rows]
        if missing:
            imputed = "with the median or the most frequent value, and marked by a feature"
            notes.append(f"missing values imputed {imputed}: {counts(missing, self.rows)}")
        if not all(learner.median.exact for learner in self._learners.values()):
            notes.append(
                "medians for imputation are approximate: ranks are off by about 0.2 % of the rows"
            )
        return notes


def learn_preparation(rows: TableRows, exclude: Collection[str] = (), **options: Any) -> Preparation:
    """Learn how to turn rows of this table, all of them in memory, into rows of a matrix.

    The other parameters are those of :class:`Learner`.
    """
    learner = Learner(exclude, **options)
    learner.add(rows)
    return learner.finish()


def _date_alone(columns: Sequence[Column]) -> DateColumn | None:
    """The only column, if it is one of dates, none of which is missing."""
    first, *others = columns
    if others or not isinstance(first, DateColumn) or first.missing:
        return None
    return first


def _are_different_whole_numbers(column: pa.ChunkedArray) -> bool:
    """Whether a column has a different whole number in every row, none of them negative."""
    if not pa.types.is_integer(column.type) or column.null_count or not len(column):
        return False
    return bool(pc.min(column).as_py() >= 0 and pc.count_distinct(column).as_py() == len(column))


def _empty_or_distinct(rows: TableRows, name: str) -> bool:
    """Whether an unnamed column is an index, or empty because lines end with a delimiter."""
    column = rows.column(name)
    kind = kind_of(column)
    if kind in ("empty", "other"):
        return kind == "empty"
    if kind == "numeric":  # measurements differ from row to row, too
        values = rows.numbers(name)
        if (values != np.round(values)).any():
            return False
    return column.null_count == 0 and len(pc.unique(column)) == len(column)
