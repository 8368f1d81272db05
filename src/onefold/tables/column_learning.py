"""What is learned of one column from blocks of rows: counts, moments, a median, and what it may mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold.tables.columns import as_text, inexact_as_number, trimmed
from onefold.tables.dates import (
    ORDERS,
    UNSETTLED,
    is_moment,
    phases,
    tell_apart,
    text_seconds,
    typed_seconds,
    zone_of,
)
from onefold.tables.errors import Remedy, TableError
from onefold.tables.features import Categories, Numbers, Part, Times, Truths
from onefold.tables.medians import MedianSketch
from onefold.tables.moments import ColumnMoments
from onefold.tables.refusals import (
    MANY_CATEGORIES,
    MOST_CATEGORIES,
    not_dates,
    refuse_decorated_numbers,
    refuse_mangled_numbers,
    too_large,
)
from onefold.tables.rows import TableRows
from onefold.tables.truths import are_truths, truth_of

_DAY = 86_400.0
_PERIODS = {"year": 365.0 * _DAY, "week": 7.0 * _DAY, "day": _DAY}
_LEAST_VARIANCE = 1e-3  # of a phase on the circle, for its cycle to be one


class NumberColumn:
    """Moments and median of the numbers of a column."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.infinite = False
        self._moments = ColumnMoments.of(np.empty((0, 1)))
        self.median = MedianSketch()

    def add(self, rows: TableRows) -> int:
        """Take the rows of a block; returns how many have no value."""
        column = rows.column(self.name)
        large = inexact_as_number(column)
        if large is not None:
            raise too_large(self.name, column[large].as_py(), rows.start + large + 1)
        return self.add_values(rows.numbers(self.name))

    def add_values(self, values: np.ndarray) -> int:
        """Take numbers, NaN where there is none."""
        present = values[~np.isnan(values)]
        self.infinite |= bool(np.isinf(present).any())
        if not self.infinite:
            self._moments = self._moments.joined(ColumnMoments.of(present[:, None]))
            self.median.add(present)
        return len(values) - len(present)

    def standard(self, gaps: int) -> dict[str, float] | None:
        """Mean and scale with the median in the gaps, and the median; None if all values are equal."""
        if self._moments.n == 0:
            return None
        median = self.median.value()
        filled = ColumnMoments.of(np.array([[median]])).times(gaps)
        mean, scale = self._moments.joined(filled).mean_and_scale()
        if self._moments.mean_and_scale()[1][0] == 0 or scale[0] == 0:
            return None
        return {"mean": float(mean[0]), "scale": float(scale[0]), "median": median}

    def part(self, gaps: int, rows: int) -> Part | None:
        """The column as features; None if all values are equal."""
        found = self.standard(gaps)
        return None if found is None else Numbers(self.name, gaps > 0, **found)


class TimeColumn:
    """Moments, span and phases of a column of dates or times."""

    def __init__(self, name: str, order: str = "dmy") -> None:
        self.name, self.order = name, order
        self._elapsed = NumberColumn(name)
        self.median = self._elapsed.median
        self._span, self.zone = (np.inf, -np.inf), ""
        self._waves = ColumnMoments.of(np.empty((0, 2 * len(_PERIODS))))

    def add(self, rows: TableRows) -> int:
        """Take the rows of a block; returns how many have no value."""
        column = rows.column(self.name)
        self.order, self.zone = ("time" if pa.types.is_time(column.type) else UNSETTLED), zone_of(column)
        return self.add_seconds(typed_seconds(column, self.zone))

    def add_seconds(self, seconds: np.ndarray) -> int:
        """Take moments, NaN where there is none."""
        present = seconds[~np.isnan(seconds)]
        if len(present):
            self._span = min(self._span[0], present.min()), max(self._span[1], present.max())
            # Which day of the week or the year it is, not what time.
            days = np.floor(present / _DAY) * _DAY
            moments = {"year": days, "week": days, "day": present}
            angles = [2.0 * np.pi * phases(moments[cycle], cycle) for cycle in _PERIODS]
            waves = np.column_stack([wave(angle) for angle in angles for wave in (np.sin, np.cos)])
            self._waves = self._waves.joined(ColumnMoments.of(waves))
        return self._elapsed.add_values(seconds)

    def part(self, gaps: int, rows: int) -> Part | None:
        """The column as features; None if all values are equal."""
        found = self._elapsed.standard(gaps)
        if found is None:
            return None
        return Times(self.name, gaps > 0, self.order, **found, cycles=self._cycles(), zone=self.zone)

    @property
    def empty(self) -> bool:
        """Whether no value has come yet."""
        return self._span[0] == np.inf

    def _cycles(self) -> tuple[str, ...]:
        """The cycles that go round twice at least, and in which the moments are not all at one place."""
        if self.order == "time":
            return ("day",)
        span = self._span[1] - self._span[0]
        variance = (self._waves.mean_and_scale()[1] ** 2).reshape(-1, 2).sum(axis=1)
        return tuple(
            cycle
            for (cycle, period), spread in zip(_PERIODS.items(), variance)
            if span >= 2.0 * period and spread > _LEAST_VARIANCE
        )


class TextColumn:
    """Counts of the texts of a column, and its moments for as long as all may be dates or times.

    Parameters
    ----------
    name : str
    codes : bool
        Whether the texts are categories, whatever they look like.
    """

    def __init__(self, name: str, codes: bool) -> None:
        self.name, self.codes = name, codes
        self.median = MedianSketch()  # of dates, if that is what they are
        self._counts: dict[str, int] = {}
        self._first: dict[str, int] = {}
        self._unlisted = 0  # different texts of each block, once there are too many to keep
        self._orders = {} if codes else {order: TimeColumn(name, order) for order in ORDERS}
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
            if value not in self._counts and len(self._counts) > MOST_CATEGORIES:
                self._unlisted += 1
                continue
            self._counts[value] = self._counts.get(value, 0) + count
            self._first.setdefault(value, rows.start + place + 1)
        if not self.codes:
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

    def part(self, gaps: int, rows: int) -> Part | None:
        """The column as features; None if all values are equal."""
        if len(self._counts) <= 1:
            return None
        if self._orders:
            return self._times(gaps, rows)
        if self._dates > self._others and self._odd is not None:
            raise not_dates(self.name, *self._odd)
        if self._unlisted or len(self._counts) > MOST_CATEGORIES:
            raise TableError(
                f"column '{self.name}' has more than {MOST_CATEGORIES} different texts, too many for a "
                "feature each",
                [Remedy("drop", [self.name]), "write the rare ones as one"],
            )
        categories = tuple(sorted(self._counts))
        if not self.codes and are_truths(categories):
            trues = sum(count for word, count in self._counts.items() if truth_of(word))
            most = trues >= sum(self._counts.values()) - trues
            return Truths(self.name, gaps > 0, most)
        if not self.codes:
            refuse_mangled_numbers(self._first, self.name)
            refuse_decorated_numbers(categories, self.name)
        mode = max(categories, key=lambda category: self._counts[category])
        return Categories(self.name, gaps > 0, categories, mode)

    def _add_dates(self, text: pa.ChunkedArray, values: list[str], start: int) -> None:
        if self._others > 100 + self._dates:
            return
        dates, others = tell_apart(values)
        self._dates, self._others = self._dates + dates, self._others + others
        if not self._orders or not dates + others:
            return
        found: dict[str, np.ndarray] = {}
        for order in list(self._orders):
            seconds, zone, odd = text_seconds(text, order)
            first = self._orders[order].empty
            if odd is None and (first or zone == self._orders[order].zone):
                self._orders[order].zone = zone
                found[order] = seconds
                self._orders[order].add_seconds(seconds)
                continue
            del self._orders[order]
            odd = 0 if odd is None else odd
            if not self._orders:
                self._odd = self._first_odd(text, start) or (text[odd].as_py(), start + odd + 1)
        if self._differs is None and "dmy" in found and "mdy" in found:
            either = np.flatnonzero(found["dmy"] != found["mdy"])
            either = either[~np.isnan(found["dmy"][either])]
            if len(either):
                self._differs = text[int(either[0])].as_py(), start + int(either[0]) + 1

    def _first_odd(self, text: pa.ChunkedArray, start: int) -> tuple[str, int] | None:
        """The first value that is no date at all, which says more than one of another order."""
        for place, value in enumerate(text.to_pylist()):
            if value is not None and not is_moment(value):
                return value, start + place + 1
        return None

    def _times(self, gaps: int, rows: int) -> Part | None:
        if "dmy" in self._orders and "mdy" in self._orders and self._differs is not None:
            value, row = self._differs
            raise TableError(
                f"dates in '{self.name}', such as '{value}' in data row {row}, could have day or month "
                "first",
                [
                    "write them like 2024-12-31",
                    Remedy("drop", [self.name]),
                    Remedy("categorical", [self.name], "if they are codes"),
                ],
            )
        chosen: Any = next(iter(self._orders.values()))
        if "dmy" in self._orders and "mdy" in self._orders:
            chosen.order = UNSETTLED
        self.median = chosen.median
        return chosen.part(gaps, rows)
