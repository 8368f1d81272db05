"""What a column of a table becomes in the matrix, one class for each kind of column.

Each knows the names of its features, and makes them of any rows. Where tuning rows had gaps, one more
feature says where: ``COL is missing``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold.tables.columns import as_text, kind_of, times_in
from onefold.tables.dates import phases
from onefold.tables.rows import TableRows
from onefold.tables.truths import truth_of

HALF = float(np.sqrt(0.5))  # false and true as −HALF and HALF are as far apart as two categories


class Made(NamedTuple):
    """Features of some rows, where the column had gaps, and how many values were never seen before."""

    values: np.ndarray
    absent: np.ndarray
    unknown: int = 0


@dataclass(frozen=True)
class Part:
    """One column of the table; `gaps` is whether the rows it was learned from had any."""

    name: str
    gaps: bool = False

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of the features but for that of the gaps."""
        return ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        return (*self.own_names, f"{self.name} is missing") if self.gaps else self.own_names

    def features(self, rows: TableRows) -> Made:
        """The features of these rows, (rows, features), that of the gaps included."""
        made = self.make(rows)
        if not self.gaps:
            return made
        values = np.column_stack([made.values, made.absent.astype(np.float64)])
        return made._replace(values=values)

    def make(self, rows: TableRows) -> Made:
        """The features but for that of the gaps; here none, as all values were equal."""
        column = rows.text(self.name)
        absent = np.asarray(pc.is_null(column, nan_is_null=True))
        if kind_of(column) == "text":
            absent = np.asarray(pc.is_null(as_text(column, self.name)))
        return Made(np.empty((len(rows), 0)), absent)


@dataclass(frozen=True)
class Numbers(Part):
    """A column of numbers, standardised; `median` stands for what is missing."""

    mean: float = 0.0
    scale: float = 1.0
    median: float = 0.0

    @property
    def own_names(self) -> tuple[str, ...]:
        return (self.name,)

    def make(self, rows: TableRows) -> Made:
        values = rows.numbers(self.name)
        absent = np.isnan(values)
        filled = np.where(absent, self.median, values) if absent.any() else values
        return Made(((filled - self.mean) / self.scale)[:, None], absent)


@dataclass(frozen=True)
class Times(Part):
    r"""A column of moments: elapsed time, standardised, and sin and cos of 2π times each phase.

    Parameters
    ----------
    order : {"dmy", "mdy", "ymd", "time"}
        How text is to be read, and whether it is times of day.
    mean, scale, median : float
        In seconds.
    cycles : tuple of str
        Those of "year", "week" and "day" that the column can show.
    zone : str
        By whose clocks instants are taken; "" for local times.
    """

    order: str = "dmy"
    mean: float = 0.0
    scale: float = 1.0
    median: float = 0.0
    cycles: tuple[str, ...] = ()
    zone: str = ""

    @property
    def own_names(self) -> tuple[str, ...]:
        waves = (f"{self.name} {cycle} {wave}" for cycle in self.cycles for wave in ("sin", "cos"))
        return (self.name, *waves)

    def make(self, rows: TableRows) -> Made:
        seconds = times_in(rows.column(self.name), self.name, self.order, self.zone, rows.start)
        absent = np.isnan(seconds)
        seconds = np.where(absent, self.median, seconds)
        values = np.empty((len(rows), 1 + 2 * len(self.cycles)))
        values[:, 0] = (seconds - self.mean) / self.scale
        for j, cycle in enumerate(self.cycles):
            angle = 2.0 * np.pi * phases(seconds, cycle)
            values[:, 1 + 2 * j], values[:, 2 + 2 * j] = np.sin(angle), np.cos(angle)
        return Made(values, absent)


@dataclass(frozen=True)
class Truths(Part):
    """A column of true and false in any words; others lie in the middle."""

    most_frequent: bool = True

    @property
    def own_names(self) -> tuple[str, ...]:
        return (self.name,)

    def make(self, rows: TableRows) -> Made:
        text = as_text(rows.text(self.name), self.name)
        absent = np.asarray(pc.is_null(text))
        encoded = pc.dictionary_encode(text.combine_chunks())
        size = {True: HALF, False: -HALF, None: 0.0}
        known = [size[truth_of(word)] for word in encoded.dictionary.to_pylist()]
        levels = np.array([*known, size[self.most_frequent]])
        values = levels[pc.fill_null(encoded.indices, len(known)).to_numpy()]
        return Made(values[:, None], absent, int(np.sum(values == 0.0)))


@dataclass(frozen=True)
class Categories(Part):
    """A column of categories, one indicator each; none of them for values never seen before."""

    categories: tuple[str, ...] = ()
    most_frequent: str = ""

    @property
    def own_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={category}" for category in self.categories)

    def make(self, rows: TableRows) -> Made:
        text = as_text(rows.text(self.name), self.name)
        absent = np.asarray(pc.is_null(text))
        filled = pc.fill_null(text, self.most_frequent)
        found = pc.index_in(filled, value_set=pa.array(self.categories, pa.string()))
        codes = pc.fill_null(found, -1).to_numpy().astype(np.intp)
        values = np.zeros((len(rows), len(self.categories)))
        known = np.flatnonzero(codes >= 0)
        values[known, codes[known]] = 1.0
        return Made(values, absent, len(rows) - len(known))
