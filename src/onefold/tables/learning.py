r"""What is learned about the columns of a table from blocks of its rows.

A table in memory, one block, and a table on disk, many, learn the same, to rounding. Moments add: with n
rows, mean m and S = Σ (x − m)² of two blocks,

    m = m₁ + δ n₂/n,    S = S₁ + S₂ + δ² n₁ n₂/n,    δ = m₂ − m₁

each column in a unit, a power of two near its largest value, so that no square over- or underflows.

Medians are exact for one block and for up to k = 65,536 values; of more, those of k random ones, whose
rank has a standard error of ½/√k, 0.2 % of the rows.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold.tables.columns import (
    MANY_CATEGORIES,
    MOST_CATEGORIES,
    ORDERS,
    UNSETTLED,
    as_numbers,
    as_text,
    inexact_as_number,
    kind_of,
    not_dates,
    phases,
    refuse_decorated_numbers,
    refuse_mangled_numbers,
    tell_apart,
    text_seconds,
    trimmed,
    typed_seconds,
    zone_of,
)
from onefold.tables.errors import Remedy, TableError, counts, listing, raise_all
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
    missing_values,
)
from onefold.tables.reading import MISSING_WORDS
from onefold.tables.rows import TableRows

_ROUNDING = 1e-13  # of its mean: a spread below it makes a column constant
_SAMPLE = 1 << 16  # values whose median is that of a table on disk
_LEAST_VARIANCE = 1e-3  # of a phase on the circle, for its cycle to be one
_MOST_COUNTED = 1_000_000  # different texts, where rare ones are taken together
# How pandas and this package call a column without a name.
_UNNAMED = re.compile(r"unnamed_\d+|Unnamed: ?\d+(_level_\d+)?")


@dataclass(frozen=True)
class ColumnMoments:
    """Of `n` rows: a unit for every column and, in it, the mean and the squares about the mean."""

    n: int
    unit: Any
    mean: Any
    squares: Any

    @classmethod
    def of(cls, values: Any) -> ColumnMoments:
        """Of a block (rows, columns) of finite numbers."""
        n, d = values.shape
        if n == 0:
            return cls(0, np.zeros(d), np.zeros(d), np.zeros(d))
        top = np.maximum(np.abs(values).max(axis=0), np.finfo(float).tiny)
        unit = np.ldexp(1.0, np.frexp(top)[1] - 1)
        scaled = values / unit
        mean = scaled.mean(axis=0)
        return cls(n, unit, mean, ((scaled - mean) ** 2).sum(axis=0))

    def joined(self, other: ColumnMoments) -> ColumnMoments:
        """Of both sets of rows."""
        if not (self.n and other.n):
            return self if self.n else other
        unit = np.maximum(self.unit, other.unit)
        n = self.n + other.n
        mine = self.unit / unit
        theirs = other.unit / unit
        shift = other.mean * theirs - self.mean * mine
        squares = self.squares * mine**2 + other.squares * theirs**2 + shift**2 * (self.n * other.n / n)
        return ColumnMoments(n, unit, self.mean * mine + shift * (other.n / n), squares)

    def mean_and_scale(self) -> tuple[Any, Any]:
        """Mean, and standard deviation: 0 for a constant column."""
        deviation = np.sqrt(self.squares / max(1, self.n))
        varies = deviation > _ROUNDING * np.abs(self.mean)
        varies &= deviation * self.unit >= np.finfo(float).tiny
        return self.mean * self.unit, np.where(varies, deviation * self.unit, 0.0)


class Median:
    """The median of all values added so far, or of a random `size` of them once there are more.

    The first block stays whole, however long it is.
    """

    def __init__(self, size: int = _SAMPLE) -> None:
        self._size = size
        self._random = np.random.default_rng(0)
        self.exact = True
        self._values: np.ndarray = np.empty(0)
        self._keys: np.ndarray = np.empty(0)  # the values with the smallest keys are the sample

    def add(self, values: np.ndarray) -> None:
        """Take a block of finite numbers."""
        more = self._values.size > 0
        self._values = np.concatenate([self._values, values])
        self._keys = np.concatenate([self._keys, self._random.random(len(values))])
        if more and len(self._keys) > self._size:
            kept = np.argpartition(self._keys, self._size)[: self._size]
            self._values = self._values[kept]
            self._keys = self._keys[kept]
            self.exact = False

    def value(self) -> float:
        """The median; NaN of no values."""
        return float(np.median(self._values)) if self._values.size else float("nan")


# One column


class NumberLearner:
    """Moments and median of the numbers of a column."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.median = Median()
        self.moments = ColumnMoments.of(np.empty((0, 1)))

    def add(self, column: pa.ChunkedArray, rows: TableRows) -> int:
        """Take the column of a block of rows; returns how many have no value."""
        large = inexact_as_number(column)
        if large is not None:
            value = column[large].as_py()
            row = rows.start + large + 1
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
        return self.add_values(values)

    def add_values(self, values: np.ndarray) -> int:
        """Take numbers, NaN where there is none."""
        present = values[~np.isnan(values)]
        self.moments = self.moments.joined(ColumnMoments.of(present[:, None]))
        self.median.add(present)
        return len(values) - len(present)

    def column(self, missing: int, rows: int) -> Column | None:
        """The fitted column; None if all values are equal."""
        found = self._standard(missing)
        return None if found is None else NumberColumn(self.name, missing > 0, **found)

    def _standard(self, missing: int) -> dict[str, float] | None:
        """Mean and scale with the median for missing values, and the median; None if all are equal."""
        if self.moments.mean_and_scale()[1][0] == 0:
            return None
        median = self.median.value()
        filled = replace(ColumnMoments.of(np.array([[median]])), n=missing)
        mean, scale = self.moments.joined(filled).mean_and_scale()
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
            # Which day of the week or the year it is, not what time.
            days = np.floor(present / DAY) * DAY
            moments = {"year": days, "week": days, "day": present}
            angles = [2.0 * np.pi * phases(moments[cycle], cycle) for cycle in PERIODS]
            waves = np.column_stack([wave(angle) for angle in angles for wave in (np.sin, np.cos)])
            self._waves = self._waves.joined(ColumnMoments.of(waves))
        return super().add_values(values)

    def column(self, missing: int, rows: int) -> Column | None:
        found = self._standard(missing)
        if found is None:
            return None
        # The cycles that go round twice at least, and in which the moments are not all at one place.
        span = self._span[1] - self._span[0]
        variance = (self._waves.mean_and_scale()[1] ** 2).reshape(-1, 2).sum(axis=1)
        cycles = tuple(
            cycle
            for (cycle, period), spread in zip(PERIODS.items(), variance)
            if span >= 2.0 * period and spread > _LEAST_VARIANCE
        )
        cycles = ("day",) if self.order == "time" else cycles
        return DateColumn(
            self.name, missing > 0, **found, order=self.order, cycles=cycles, zone=self.zone
        )


class TextLearner:
    """Counts of the texts of a column, and its moments for as long as all may be dates or times.

    With `codes` the texts are categories, whatever they look like; fewer rows than `min_frequency`, or a
    smaller share of them, make a category a rare one.
    """

    def __init__(self, name: str, codes: bool, min_frequency: float | None) -> None:
        self.name = name
        self.codes = codes
        self.min_frequency = min_frequency
        self.median = Median()  # of dates, if that is what they are
        self._counts: dict[str, int] = {}
        self._first: dict[str, int] = {}  # the rows in which they come first
        self._most = MOST_CATEGORIES if min_frequency is None else _MOST_COUNTED
        self._unlisted = 0  # different texts of each block, once there are too many to keep
        self._orders = {} if codes else {order: DateLearner(name, order) for order in ORDERS}
        self._odd: tuple[str, int] | None = None  # the first that no order of day and month reads
        self.all_rare = 0  # rows of the most frequent category, where even that one is rare

    def add(self, column: pa.ChunkedArray, rows: TableRows) -> int:
        """Take the column of a block of rows; returns how many have no value."""
        text = as_text(column, self.name)
        encoded = pc.dictionary_encode(text.combine_chunks())
        values = encoded.dictionary.to_pylist()
        codes = pc.fill_null(encoded.indices, len(values)).to_numpy()
        counted = np.bincount(codes, minlength=len(values) + 1)
        places = np.full(len(values) + 1, len(codes))
        np.minimum.at(places, codes, np.arange(len(codes)))
        for value, count, place in zip(values, counted.tolist(), places.tolist()):
            if value not in self._counts and len(self._counts) > self._most:
                self._unlisted += 1
                continue
            self._counts[value] = self._counts.get(value, 0) + count
            self._first.setdefault(value, rows.start + place + 1)
        if rows.reading.dayfirst is not None:
            self._orders.pop("mdy" if rows.reading.dayfirst else "dmy", None)
        failed: list[int] = []
        for order, learner in list(self._orders.items()) if values else []:
            seconds, zone, odd = text_seconds(trimmed(text), order)
            if odd is None and (not learner.moments.n or zone == learner.zone):
                learner.zone = zone
                learner.add_values(seconds)
            else:
                del self._orders[order]
                failed.append(odd or 0)
        if failed and not self._orders:
            self._odd = text[max(failed)].as_py(), rows.start + max(failed) + 1
        return int(counted[-1])

    def identifies(self, rows: int) -> bool:
        """Whether the texts tell rows apart: too many for categories, and more than half of the rows."""
        different = len(self._counts) + self._unlisted
        if self._orders or different <= MANY_CATEGORIES or self._mostly_dates():
            return False
        try:
            self._refuse_numbers()
        except TableError:  # numbers but for a few values: said when features are made of it
            return False
        return 2 * different > rows

    def column(self, missing: int, rows: int) -> Column | None:
        """The fitted column; None if all values are equal, or all categories are rare."""
        if len(self._counts) <= 1:
            return None
        if self._orders:
            return self._date_column(missing, rows)
        if self._odd is not None and self._mostly_dates():
            raise not_dates(self.name, *self._odd)
        categories = tuple(sorted(self._counts))
        if not self.codes and are_booleans(categories):
            trues = sum(count for word, count in self._counts.items() if boolean_of(word))
            most = trues >= sum(self._counts.values()) - trues
            return BooleanColumn(self.name, missing > 0, most)
        if not self.codes:
            self._refuse_numbers()
        least = self.min_frequency or 0
        least = least * rows if isinstance(least, float) else least
        # A rare "NA" stays a category: among the rare ones, use would take it for a missing value.
        kept = tuple(one for one in categories if self._counts[one] >= least or one in MISSING_WORDS)
        if self._unlisted or len(kept) > MOST_CATEGORIES:
            limit = self._most if self._unlisted else MOST_CATEGORIES
            # A number of rows that not many categories can have.
            frequent = max(10, round(2 * (self.min_frequency or 0)), rows // MOST_CATEGORIES)
            raise TableError(
                f"column '{self.name}' has more than {limit} distinct texts, too many to one-hot encode",
                [Remedy("min_frequency", frequent), Remedy("drop", [self.name])],
            )
        if not kept:
            self.all_rare = max(self._counts.values())
            return None
        mode = max(kept, key=lambda category: self._counts[category])
        return CategoryColumn(self.name, missing > 0, kept, mode, len(kept) < len(categories))

    def _refuse_numbers(self) -> None:
        """Raise for numbers that are written in a way that is not understood."""
        refuse_mangled_numbers(self._first, self.name)
        refuse_decorated_numbers(tuple(sorted(self._counts)), self.name)

    def _mostly_dates(self) -> bool:
        dates, others = tell_apart(self._counts)
        return dates > others

    def _date_column(self, missing: int, rows: int) -> Column | None:
        unsettled = "dmy" in self._orders and "mdy" in self._orders
        texts = trimmed(pa.chunked_array([list(self._first)], pa.string()))
        either = [text_seconds(texts, order)[0] for order in ("dmy", "mdy")] if unsettled else []
        if unsettled and (differ := np.flatnonzero(either[0] != either[1])).size:
            value = list(self._first)[differ[0]]
            row = self._first[value]
            raise TableError(
                f"dates in '{self.name}', such as '{value}' in data row {row}, are ambiguous: day or "
                "month first",
                [
                    Remedy("dayfirst", True),
                    Remedy("dayfirst", False),
                    Remedy("drop", [self.name]),
                    Remedy("categorical", [self.name], "if they are codes"),
                ],
            )
        chosen = next(iter(self._orders.values()))
        chosen.order = UNSETTLED if unsettled else chosen.order
        self.median = chosen.median
        return chosen.column(missing, rows)


# All columns


class Learner:
    """Learns a preparation from blocks of the rows that a model is tuned on.

    The kind of a column is that of the first block in which it has a value.

    Parameters
    ----------
    exclude : collection of str
        Columns that are not features: target, weights, groups, identifiers, dropped ones.
    missing : {"impute", "error"}
        Fill in the median or the most frequent value and mark it by a feature; or raise an error.
    categorical : collection of str
        Columns to treat as categories, even if they look like numbers or dates.
    min_frequency : int, float or None
        Categories in fewer rows, or in a smaller fraction of them, share one indicator.

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
            raise TableError(f"missing must be 'error' or 'impute'; got '{missing}'")
        self._exclude = set(exclude)
        self._missing = missing
        self._codes = set(categorical)
        self._min_frequency = min_frequency
        self.rows = 0
        self._learners: dict[str, Any] = {}  # of columns that have a value
        self._lacking: dict[str, int] = {}  # how many values each column lacks
        self._nameless: list[str] = []
        self._problems: dict[str, TableError] = {}

    def add(self, rows: TableRows) -> None:
        """Take a block of rows."""
        self.rows += len(rows)
        for place, name in enumerate(rows.names):
            if name in self._exclude:
                continue
            if _UNNAMED.fullmatch(name) and name not in self._codes:
                if name not in self._nameless:
                    self._nameless.append(name)
                if not _empty_or_distinct(rows, name):
                    self._problems[name] = TableError(
                        f"column {place + 1} has no name in the header",
                        ["name it", Remedy("drop", [name])],
                    )
                continue
            self._lacking.setdefault(name, 0)
            if name not in self._problems:
                try:
                    self._lacking[name] += self._add(rows, name)
                except TableError as error:
                    self._problems[name] = error

    def _add(self, rows: TableRows, name: str) -> int:
        """Let the learner of a column see a block; returns how many rows have no value."""
        codes = name in self._codes
        try:
            column = rows.text(name) if codes else rows.column(name)
        except TableError as error:  # numbers that are written in another way
            raise error.with_remedy(Remedy("categorical", [name], "if the values are codes")) from error
        kind = kind_of(column)
        if kind == "empty":
            return len(rows)
        learner: Any = {"numeric": NumberLearner, "date": DateLearner}.get(kind, TextLearner)
        learner = TextLearner if codes else learner
        if kind == "other" and not codes:
            raise TableError(
                f"column '{name}' has values of type {column.type}, which is not supported",
                ["convert them", Remedy("drop", [name])],
            )
        if name not in self._learners:
            # A column of a type for categories was meant to be one.
            codes = codes or pa.types.is_dictionary(rows.columns.column(name).type)
            options = (codes, self._min_frequency) if learner is TextLearner else ()
            self._learners[name] = learner(name, *options)
        if type(self._learners[name]) is not learner:
            raise TableError(
                f"column '{name}' holds values of another type from data row {rows.start + 1} on; write "
                "it with one type"
            )
        return int(self._learners[name].add(column, rows))

    def finish(self) -> Preparation:
        """The preparation; raises with all that is wrong with the columns."""
        if self.rows == 0:
            raise TableError("the table has no rows; add rows")
        if not self._lacking:
            raise TableError("the table has no feature columns; add columns, or drop fewer")
        identifiers = tuple(filter(self._identifies, self._lacking))
        used = [name for name in self._lacking if name not in identifiers]
        found = {name: self._column(name) for name in used}
        order = (*self._nameless, *self._lacking)
        problems = [self._problems[name] for name in order if name in self._problems]
        lacking = {name: count for name, count in self._lacking.items() if count}
        if self._missing == "error" and lacking:
            remedies = Remedy("drop", list(lacking)), Remedy("missing", "impute")
            problems.append(missing_values(lacking, self.rows, ["fill them in", *remedies]))
        raise_all(problems)
        if not used:
            raise TableError(
                f"every column looks like an identifier ({listing(identifiers)})",
                ["add other columns", Remedy("categorical", [identifiers[0]], "if it holds categories")],
            )
        parts = [part for part in found.values() if part is not None]
        rare = self._all_rare()
        unused = [name for name, part in found.items() if part is None]
        constant = tuple(name for name in unused if name not in rare)
        if not parts and rare:
            raise TableError(
                f"no feature columns are left: every category of {listing(rare)} is rarer than "
                "min_frequency",
                [Remedy("min_frequency", max(rare.values())), "add other columns"],
            )
        if not parts:
            raise TableError(
                f"every column is constant ({listing(constant)}), so there is nothing to learn; add "
                "other columns, or rows with other values"
            )
        return Preparation(
            parts=tuple(sorted(parts, key=lambda part: KINDS.index(type(part)))),
            missing=self._missing,
            constant=constant,
            row_numbers=tuple(self._nameless),
            identifiers=identifiers,
        )

    def _identifies(self, name: str) -> bool:
        """Whether texts tell rows apart, and are not called categories; of numbers a note says so."""
        learner = self._learners.get(name)
        usable = name not in self._problems and name not in self._codes
        return usable and isinstance(learner, TextLearner) and learner.identifies(self.rows)

    def _column(self, name: str) -> Column | None:
        """The fitted column; None where all values are equal, or where there is a problem."""
        found: Column | None = None
        if name in self._learners and name not in self._problems:
            try:
                found = self._learners[name].column(self._lacking[name], self.rows)
            except TableError as error:
                self._problems[name] = error
        gaps = 0 < self._lacking[name] < self.rows
        return Column(name, missing=True) if found is None and gaps else found

    def _all_rare(self) -> dict[str, int]:
        """Columns whose categories are all rare, with the rows of the most frequent one."""
        texts = [learner for learner in self._learners.values() if isinstance(learner, TextLearner)]
        return {learner.name: learner.all_rare for learner in texts if learner.all_rare}

    def notes(self) -> list[str]:
        """What was done about rare categories and missing values, and which medians are not exact."""
        notes = []
        if rare := self._all_rare():
            notes.append(
                f"dropped columns whose categories are all rarer than min_frequency: {listing(rare)}"
            )
        missing = [(name, count) for name, count in self._lacking.items() if 0 < count < self.rows]
        if missing:
            words = "with the median or the most frequent value, and marked by a feature"
            notes.append(f"missing values imputed {words}: {counts(missing, self.rows)}")
        if not all(one.median.exact for one in self._learners.values()):
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


def _empty_or_distinct(rows: TableRows, name: str) -> bool:
    """Whether a column without a name is an index, or comes from delimiters at the ends of lines."""
    column = rows.column(name)
    kind = kind_of(column)
    if kind in ("empty", "other"):
        return kind == "empty"
    if kind == "numeric":  # measurements differ from row to row, too
        values = rows.numbers(name)
        if (values != np.round(values)).any():
            return False
    return column.null_count == 0 and len(pc.unique(column)) == len(column)
