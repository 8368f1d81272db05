r"""One class per kind of column: the features that it becomes, and how they are learned from blocks.

================  ============================================================================
`NumberColumn`    one feature, standardised; the median stands for a missing value
`DateColumn`      elapsed time, standardised, and sin and cos of 2π times the phase of each cycle
`BooleanColumn`   one feature, −½√2 or ½√2, which are as far apart as two categories
`CategoryColumn`  one indicator per category, and one for all rare ones
`Column`          no feature of its own: all values are equal where there is one
================  ============================================================================

Where training rows lacked values, one more feature, ``COL is missing``, says where. A fitted column is
its fields, which its constructor checks, so that it is stored with the model as it is. Learners add up
counts, moments and medians: a table in memory, one block, and a table on disk, many, learn the same, to
rounding. Medians are exact for one block and for up to 16384 values; of more in several blocks their
rank is right to 0.1 %.

A new kind is a class in `KINDS` with a learner in `_LEARNERS`; ``export/columns.py`` has the nodes of
those that ONNX can express.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple
from zoneinfo import available_timezones

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold.tables.columns import (
    MANY_CATEGORIES,
    MOST_CATEGORIES,
    ORDERS,
    UNSETTLED,
    as_text,
    inexact_as_number,
    is_moment,
    kind_of,
    meaning_of,
    not_dates,
    order_in,
    phases,
    refuse_decorated_numbers,
    refuse_mangled_numbers,
    tell_apart,
    text_seconds,
    times_in,
    too_large,
    trimmed,
    typed_seconds,
    zone_of,
)
from onefold.tables.errors import Remedy, TableError, listing
from onefold.tables.reading import MISSING_WORDS
from onefold.tables.rows import TableRows
from onefold.tables.statistics import ColumnMoments, MedianSketch

HALF = float(np.sqrt(0.5))
_DAY = 86_400.0
_PERIODS = {"year": 365.0 * _DAY, "week": 7.0 * _DAY, "day": _DAY}
_LEAST_VARIANCE = 1e-3  # of a phase on the circle, for its cycle to be one
_EARLIEST = -2e9  # seconds; about 1906
_OFFSET = re.compile(r"[+-][0-9]{2}:[0-9]{2}")
_MOST_COUNTED = 1_000_000  # different texts, where rare ones are taken together
_PAIRS = (
    *(("true", "false"), ("t", "f"), ("yes", "no"), ("y", "n"), ("on", "off"), ("1", "0")),
    *(("ja", "nein"), ("j", "n"), ("wahr", "falsch"), ("oui", "non"), ("vrai", "faux"), ("si", "no")),
    *(("sí", "no"), ("sì", "no"), ("s", "n"), ("verdadero", "falso"), ("vero", "falso")),
    *(("sim", "não"), ("ja", "nee"), ("ja", "nej"), ("tak", "nie"), ("evet", "hayır")),
)
BOOLEANS = {word: truth for pair in _PAIRS for word, truth in zip(pair, (True, False))}


class Made(NamedTuple):
    """Features of some rows, where values are missing, and how many were never seen in training."""

    values: np.ndarray
    missing: np.ndarray
    unknown: int = 0


@dataclass(frozen=True)
class Column:
    """A column of a table; `missing` is whether training rows lacked values of it."""

    name: str
    missing: bool = False

    label: ClassVar[str] = "only missing or not"
    as_text: ClassVar[bool] = True  # in a graph, whose inputs are text or numbers
    indicators: ClassVar[bool] = False  # whether its features say which of several values it is

    def __post_init__(self) -> None:
        if type(self.name) is not str or not isinstance(self.missing, bool | np.bool_):
            raise ValueError(f"the state of the column {self.name!r} is damaged")
        if not self.valid():
            raise ValueError(f"the state of the {type(self).__name__} '{self.name}' is damaged")

    def valid(self) -> bool:
        """Whether its own fields make sense."""
        return True

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        return (*self.own_names, f"{self.name} is missing") if self.missing else self.own_names

    def features(self, rows: TableRows) -> Made:
        """The features of these rows, (rows, features)."""
        made = self.make(rows)
        if not self.missing:
            return made
        return made._replace(values=np.column_stack([made.values, made.missing.astype(np.float64)]))

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of the features but for "is missing"."""
        return ()

    def make(self, rows: TableRows) -> Made:
        """The features but for "is missing"."""
        column = rows.text(self.name)
        missing = np.asarray(pc.is_null(column, nan_is_null=True))
        if kind_of(column) == "text":
            missing = np.asarray(pc.is_null(as_text(column, self.name)))
        return Made(np.empty((len(rows), 0)), missing)

    def examples(self) -> list[Any]:
        """Values such as it may have, usual ones and one that training had not seen."""
        return ["any"]

    def facts(self) -> dict[str, Any]:
        """What was learned, as plain values."""
        return {}

    def summary(self) -> str:
        """The same in words; "" where there is nothing to tell."""
        return ""


@dataclass(frozen=True)
class NumberColumn(Column):
    """A column of numbers, standardised; `median` stands for what is missing."""

    mean: float = 0.0
    scale: float = 1.0
    median: float = 0.0  # NaN where nothing is filled in

    label: ClassVar[str] = "numbers"
    as_text: ClassVar[bool] = False

    def valid(self) -> bool:
        return bool(np.isfinite(self.mean) and 0.0 < self.scale < np.inf) and _is_real(self.median)

    @property
    def own_names(self) -> tuple[str, ...]:
        return (self.name,)

    def make(self, rows: TableRows) -> Made:
        values = rows.numbers(self.name)
        missing = np.isnan(values)
        filled = np.where(missing, self.median, values) if missing.any() else values
        return Made(((filled - self.mean) / self.scale)[:, None], missing)

    def examples(self) -> list[Any]:
        return [self.mean, self.mean + self.scale, self.mean - self.scale]

    def facts(self) -> dict[str, Any]:
        return {"mean": self.mean, "scale": self.scale}


@dataclass(frozen=True)
class DateColumn(NumberColumn):
    """A column of dates or times, in seconds.

    Parameters
    ----------
    order : {"dmy", "mdy", "ymd", "time"}
        How text is to be read, and whether it is times of day.
    cycles : tuple of str
        Those of "year", "week" and "day" that the column can show.
    zone : str
        By whose clocks instants are taken; "" for local times.
    """

    order: str = "dmy"
    cycles: tuple[str, ...] = ()
    zone: str = ""

    label: ClassVar[str] = "dates"
    as_text: ClassVar[bool] = True

    def valid(self) -> bool:
        zoned = type(self.zone) is str and (not self.zone or bool(_OFFSET.fullmatch(self.zone)))
        return (
            super().valid()
            and self.order in (*ORDERS, UNSETTLED)
            and type(self.cycles) is tuple
            and set(self.cycles) <= _PERIODS.keys()
            and (zoned or self.zone in available_timezones())
        )

    @property
    def own_names(self) -> tuple[str, ...]:
        waves = (f"{self.name} {cycle} {wave}" for cycle in self.cycles for wave in ("sin", "cos"))
        return (self.name, *waves)

    def make(self, rows: TableRows) -> Made:
        order = order_in(rows.reading.dayfirst) if self.order == UNSETTLED else self.order
        seconds = times_in(rows.column(self.name), self.name, order, self.zone, rows.start)
        missing = np.isnan(seconds)
        seconds = np.where(missing, self.median, seconds)
        values = np.empty((len(rows), 1 + 2 * len(self.cycles)))
        values[:, 0] = (seconds - self.mean) / self.scale
        for j, cycle in enumerate(self.cycles):
            angle = 2.0 * np.pi * phases(seconds, cycle)
            values[:, 1 + 2 * j], values[:, 2 + 2 * j] = np.sin(angle), np.cos(angle)
        return Made(values, missing)

    def examples(self) -> list[Any]:
        if self.order == "time":
            return [f"{hour:02d}:30" for hour in (0, 7, 23)]
        days = np.clip(super().examples(), _EARLIEST, -_EARLIEST) // _DAY
        clock = "T12:00:00+00:00" if self.zone else ""
        return [f"{np.datetime64(int(day), 'D')}{clock}" for day in days]

    def facts(self) -> dict[str, Any]:
        return {"order": self.order, "cycles": list(self.cycles), "zone": self.zone}

    def summary(self) -> str:
        return "elapsed time" + (f" and the cycles of {', '.join(self.cycles)}" if self.cycles else "")


@dataclass(frozen=True)
class BooleanColumn(Column):
    """A column of true and false in any words; others lie in the middle."""

    most_frequent: bool = True

    label: ClassVar[str] = "booleans"

    def valid(self) -> bool:
        return isinstance(self.most_frequent, bool | np.bool_)

    @property
    def own_names(self) -> tuple[str, ...]:
        return (self.name,)

    def make(self, rows: TableRows) -> Made:
        text = as_text(rows.text(self.name), self.name)
        missing = np.asarray(pc.is_null(text))
        encoded = pc.dictionary_encode(text.combine_chunks())
        size = {True: HALF, False: -HALF, None: 0.0}
        known = [size[boolean_of(word)] for word in encoded.dictionary.to_pylist()]
        levels = np.array([*known, size[self.most_frequent]])
        values = levels[pc.fill_null(encoded.indices, len(known)).to_numpy()]
        return Made(values[:, None], missing, int(np.sum(values == 0.0)))

    def examples(self) -> list[Any]:
        return ["true", "false", "true?"]


@dataclass(frozen=True)
class CategoryColumn(Column):
    """A column of categories, one indicator each.

    With `rare` one more indicator is for all other values, those never seen in training among them;
    without it they have no indicator.
    """

    categories: tuple[str, ...] = ()
    most_frequent: str = ""
    rare: bool = False

    label: ClassVar[str] = "categories"
    indicators: ClassVar[bool] = True

    def valid(self) -> bool:
        texts = type(self.categories) is tuple and all(isinstance(one, str) for one in self.categories)
        return texts and self.most_frequent in self.categories and isinstance(self.rare, bool)

    @property
    def own_names(self) -> tuple[str, ...]:
        names = tuple(f"{self.name}={category}" for category in self.categories)
        return (*names, f"{self.name} is rare") if self.rare else names

    def make(self, rows: TableRows) -> Made:
        text = as_text(rows.text(self.name), self.name)
        filled = pc.fill_null(text, self.most_frequent)
        known = pa.array(self.categories, pa.string())
        found = pc.index_in(filled, value_set=known)
        if found.null_count:
            found = pc.index_in(self._respelled(filled), value_set=known)
        places = pc.fill_null(found, len(self.categories)).to_numpy()
        values = np.zeros((len(rows), len(self.categories) + 1))
        values[np.arange(len(rows)), places] = 1.0
        missing = np.asarray(pc.is_null(text))
        if self.rare:
            return Made(values, missing)
        return Made(values[:, :-1], missing, int(values[:, -1].sum()))

    def _respelled(self, text: pa.ChunkedArray) -> pa.ChunkedArray:
        """Codes as training spelled them: files write 1.0 and True where frames hold 1 and true.

        Categories that differ in their spelling alone, as 1.0 and 1, are told by it.
        """
        meanings = Counter(map(meaning_of, self.categories))
        known = {meaning_of(one): one for one in self.categories if meanings[meaning_of(one)] == 1}
        encoded = pc.dictionary_encode(text.combine_chunks())
        words = encoded.dictionary.to_pylist()
        exact = set(self.categories)
        spelled = [
            one if one in exact or one != one.strip() else known.get(meaning_of(one), one)
            for one in words
        ]
        return pa.array(spelled, pa.string()).take(encoded.indices)

    def examples(self) -> list[Any]:
        return [self.categories[0], self.categories[-1], max(self.categories, key=len) + "?"]

    def facts(self) -> dict[str, Any]:
        return {"categories": list(self.categories), "rare": self.rare}

    def summary(self) -> str:
        return listing(self.categories) + (", and rare ones together" if self.rare else "")


KINDS: tuple[type[Column], ...] = (NumberColumn, DateColumn, BooleanColumn, CategoryColumn, Column)


def _is_real(value: Any) -> bool:
    return isinstance(value, int | float | np.floating | np.integer)


def boolean_of(word: str) -> bool | None:
    """What a word says, in any letter case; None if it says neither true nor false."""
    return BOOLEANS.get(word.strip().casefold())


def are_booleans(words: Any) -> bool:
    """Whether all words say true or false, and some of them each.

    Numbers alone do not, 0 and 1 being numbers, nor do single letters that are no pair: t and n.
    """
    found = {word.strip().casefold() for word in words}
    if not found <= BOOLEANS.keys() or found <= {"0", "1"}:
        return False
    if len({BOOLEANS[word] for word in found}) < 2:
        return False
    return any(found.issuperset(pair) for pair in _PAIRS) or any(len(word) > 1 for word in found)


# Learning


class NumberLearner:
    """Moments and median of the numbers of a column."""

    def __init__(self, name: str, codes: bool = False, min_frequency: float | None = None) -> None:
        self.name = name
        self.median = MedianSketch()
        self._moments = ColumnMoments.of(np.empty((0, 1)))

    def add(self, rows: TableRows) -> int:
        """Take the rows of a block; returns how many have no value."""
        column = rows.column(self.name)
        large = inexact_as_number(column)
        if large is not None:
            raise too_large(self.name, column[large].as_py(), rows.start + large + 1)
        values = rows.numbers(self.name)
        if np.isinf(values).any():
            raise TableError(f"infinite values in '{self.name}'; remove or replace them")
        return self.add_values(values)

    def add_values(self, values: np.ndarray) -> int:
        """Take numbers, NaN where there is none."""
        present = values[~np.isnan(values)]
        self._moments = self._moments.joined(ColumnMoments.of(present[:, None]))
        self.median.add(present)
        return len(values) - len(present)

    def identifies(self, rows: int) -> bool:
        """Whether the values tell rows apart; of numbers a note says so."""
        return False

    def column(self, missing: int, rows: int) -> Column | None:
        """The fitted column; None if all values are equal."""
        found = self._standard(missing)
        return None if found is None else NumberColumn(self.name, missing > 0, **found)

    def _standard(self, missing: int) -> dict[str, float] | None:
        """Mean and scale with the median for missing values, and the median; None if all are equal."""
        if self._moments.n == 0:
            return None
        median = self.median.value()
        filled = ColumnMoments.of(np.array([[median]])).times(missing)
        mean, scale = self._moments.joined(filled).mean_and_scale()
        if self._moments.mean_and_scale()[1][0] == 0 or scale[0] == 0:
            return None
        return {"mean": float(mean[0]), "scale": float(scale[0]), "median": median}


class DateLearner(NumberLearner):
    """Moments, span and phases of a column of dates or times."""

    def __init__(self, name: str, codes: bool = False, min_frequency: float | None = None) -> None:
        super().__init__(name)
        self.order, self.zone = "dmy", ""
        self._span = (np.inf, -np.inf)
        self._waves = ColumnMoments.of(np.empty((0, 2 * len(_PERIODS))))

    @property
    def empty(self) -> bool:
        """Whether no value has come yet."""
        return self._span[0] == np.inf

    def add(self, rows: TableRows) -> int:
        column = rows.column(self.name)
        self.order, self.zone = ("time" if pa.types.is_time(column.type) else UNSETTLED), zone_of(column)
        return self.add_values(typed_seconds(column, self.zone))

    def add_values(self, values: np.ndarray) -> int:
        present = values[~np.isnan(values)]
        if len(present):
            self._span = min(self._span[0], present.min()), max(self._span[1], present.max())
            # Which day of the week or the year it is, not what time.
            days = np.floor(present / _DAY) * _DAY
            moments = {"year": days, "week": days, "day": present}
            angles = [2.0 * np.pi * phases(moments[cycle], cycle) for cycle in _PERIODS]
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
            for (cycle, period), spread in zip(_PERIODS.items(), variance)
            if span >= 2.0 * period and spread > _LEAST_VARIANCE
        )
        cycles = ("day",) if self.order == "time" else cycles
        return DateColumn(
            self.name, missing > 0, **found, order=self.order, cycles=cycles, zone=self.zone
        )


class TextLearner:
    """Counts of the texts of a column, and its moments for as long as all may be dates or times.

    Parameters
    ----------
    name : str
    codes : bool
        Whether the texts are categories, whatever they look like.
    min_frequency : int, float or None
        Fewer rows, or a smaller share of them, make a category a rare one.
    """

    def __init__(self, name: str, codes: bool = False, min_frequency: float | None = None) -> None:
        self.name, self.codes, self.min_frequency = name, codes, min_frequency
        self.median = MedianSketch()  # of dates, if that is what they are
        self._counts: dict[str, int] = {}
        self._first: dict[str, int] = {}
        self._most = MOST_CATEGORIES if min_frequency is None else _MOST_COUNTED
        self._unlisted = 0  # different texts of each block, once there are too many to keep
        self._orders = {} if codes else {order: DateLearner(name) for order in ORDERS}
        for order, dates in self._orders.items():
            dates.order = order
        self._dates, self._others = 0, 0
        self._odd: tuple[str, int] | None = None  # the first that is no date
        self._differs: tuple[str, int] | None = None  # the first whose day and month could be either

    def add(self, rows: TableRows) -> int:
        """Take the rows of a block; returns how many have no value."""
        column = rows.text(self.name) if self.codes else rows.column(self.name)
        text = as_text(column, self.name)
        encoded = pc.dictionary_encode(text.combine_chunks())
        values = encoded.dictionary.to_pylist()
        codes = pc.fill_null(encoded.indices, len(values)).to_numpy()
        counts = np.bincount(codes, minlength=len(values) + 1)
        places = np.full(len(values) + 1, len(codes))
        np.minimum.at(places, codes, np.arange(len(codes)))
        for value, count, place in zip(values, counts.tolist(), places.tolist()):
            if value not in self._counts and len(self._counts) > self._most:
                self._unlisted += 1
                continue
            self._counts[value] = self._counts.get(value, 0) + count
            self._first.setdefault(value, rows.start + place + 1)
        if not self.codes:
            if rows.reading.dayfirst is not None:
                self._orders.pop("mdy" if rows.reading.dayfirst else "dmy", None)
            self._add_dates(trimmed(text), values, rows.start)
        return int(counts[-1])

    def identifies(self, rows: int) -> bool:
        """Whether the texts tell rows apart: too many for categories, and more than half of the rows."""
        different = len(self._counts) + self._unlisted
        if self._orders or self._dates > self._others or different <= MANY_CATEGORIES:
            return False
        try:
            refuse_mangled_numbers(self._first, self.name)
            refuse_decorated_numbers(tuple(self._counts), self.name)
        except TableError:  # numbers but for a few values: said when features are made of it
            return False
        return 2 * different > rows

    def column(self, missing: int, rows: int) -> Column | None:
        """The fitted column; None if all values are equal."""
        if len(self._counts) <= 1:
            return None
        if self._orders:
            return self._date_column(missing, rows)
        if self._dates > self._others and self._odd is not None:
            raise not_dates(self.name, *self._odd)
        categories = tuple(sorted(self._counts))
        if not self.codes and are_booleans(categories):
            trues = sum(count for word, count in self._counts.items() if boolean_of(word))
            most = trues >= sum(self._counts.values()) - trues
            return BooleanColumn(self.name, missing > 0, most)
        if not self.codes:
            refuse_mangled_numbers(self._first, self.name)
            refuse_decorated_numbers(categories, self.name)
        least = self.min_frequency or 0
        least = least * rows if isinstance(least, float) else least
        # A rare "NA" stays a category: among the rare ones, use would take it for a missing value.
        kept = tuple(one for one in categories if self._counts[one] >= least or one in MISSING_WORDS)
        if self._unlisted or len(kept) > MOST_CATEGORIES:
            limit = self._most if self._unlisted else MOST_CATEGORIES
            raise TableError(
                f"column '{self.name}' has more than {limit} different texts, too many for a feature "
                "each",
                [Remedy("min_frequency", self._more_frequent(rows)), Remedy("drop", [self.name])],
            )
        if not kept:
            return None
        mode = max(kept, key=lambda category: self._counts[category])
        return CategoryColumn(self.name, missing > 0, kept, mode, len(kept) < len(categories))

    def _more_frequent(self, rows: int) -> int:
        """A number of rows that not many categories can have."""
        return max(10, round(2 * (self.min_frequency or 0)), rows // MOST_CATEGORIES)

    def _add_dates(self, text: pa.ChunkedArray, values: list[str], start: int) -> None:
        if self._others > 100 + self._dates:
            return
        dates, others = tell_apart(values)
        self._dates, self._others = self._dates + dates, self._others + others
        if not self._orders or not dates + others:
            return
        found: dict[str, np.ndarray] = {}
        for order, learner in list(self._orders.items()):
            seconds, zone, odd = text_seconds(text, order)
            if odd is None and (learner.empty or zone == learner.zone):
                learner.zone, found[order] = zone, seconds
                learner.add_values(seconds)
                continue
            del self._orders[order]
            if not self._orders:
                # The first value that is no date at all says more than one of another order.
                others_at = (
                    i for i, v in enumerate(text.to_pylist()) if v is not None and not is_moment(v)
                )
                place = next(others_at, odd or 0)
                self._odd = text[place].as_py(), start + place + 1
        if self._differs is None and "dmy" in found and "mdy" in found:
            either = np.flatnonzero(found["dmy"] != found["mdy"])
            either = either[~np.isnan(found["dmy"][either])]
            if len(either):
                self._differs = text[int(either[0])].as_py(), start + int(either[0]) + 1

    def _date_column(self, missing: int, rows: int) -> Column | None:
        unsettled = "dmy" in self._orders and "mdy" in self._orders
        if unsettled and self._differs is not None:
            value, row = self._differs
            raise TableError(
                f"dates in '{self.name}', such as '{value}' in data row {row}, could have day or month "
                "first",
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


_LEARNERS: dict[str, type[NumberLearner | TextLearner]] = {
    "numeric": NumberLearner,
    "date": DateLearner,
    "boolean": TextLearner,
    "text": TextLearner,
}


class ColumnLearner:
    """One column over all blocks; its kind is that of the first block in which it has a value.

    Attributes
    ----------
    missing : int
        How many values it lacks.
    problem : TableError or None
        Why it can't be used.
    """

    def __init__(self, name: str, codes: bool, min_frequency: float | None = None) -> None:
        self.name, self.codes, self.min_frequency = name, codes, min_frequency
        self.missing = 0
        self.problem: TableError | None = None
        self._learner: Any = None

    def add(self, rows: TableRows) -> None:
        """Take a block of rows."""
        if self.problem is not None:
            return
        try:
            self.missing += self._add(rows)
        except TableError as error:
            self.problem = error

    def identifies(self, rows: int) -> bool:
        """Whether its texts tell rows apart; columns that the user calls categories never do."""
        usable = self.problem is None and self._learner is not None and not self.codes
        return usable and bool(self._learner.identifies(rows))

    @property
    def sketched(self) -> bool:
        """Whether its median is not exact."""
        return self._learner is not None and not self._learner.median.exact

    def column(self, rows: int) -> Column | None:
        """The fitted column; None, too, where there is a problem."""
        if self.problem is not None or self._learner is None:
            return None
        try:
            found: Column | None = self._learner.column(self.missing, rows)
        except TableError as error:
            self.problem = error
            return None
        if found is None and 0 < self.missing < rows:
            return Column(self.name, missing=True)
        return found

    def _add(self, rows: TableRows) -> int:
        if not self.codes and self.name in rows.problems:
            as_codes = Remedy("categorical", [self.name], "if the values are codes")
            raise rows.problems[self.name].with_remedy(as_codes)
        kind: str = kind_of(rows.text(self.name) if self.codes else rows.column(self.name))
        if kind == "empty":
            return len(rows)
        learner = TextLearner if self.codes else _LEARNERS.get(kind)
        if learner is None:
            column = str(rows.column(self.name).type)
            encoding = " (is the file saved with UTF-8 encoding?)" if "binary" in column else ""
            raise TableError(
                f"values of type {column} in '{self.name}'{encoding}",
                ["convert them", Remedy("drop", [self.name])],
            )
        if self._learner is None:
            # A column of a type for categories was meant to be one.
            codes = self.codes or "dictionary" in str(rows.columns.column(self.name).type)
            self._learner = learner(self.name, codes, self.min_frequency)
        if type(self._learner) is not learner:
            raise TableError(
                f"column '{self.name}' holds values of one kind first and of another from data row "
                f"{rows.start + 1} on; write it with one type"
            )
        return int(self._learner.add(rows))
