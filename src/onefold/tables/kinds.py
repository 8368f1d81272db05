r"""One class per kind of column, with the features that it becomes; all of them are a preparation.

================  ============================================================================
`NumberColumn`    one feature, standardised; the median stands for a missing value
`DateColumn`      elapsed time, standardised, and sin and cos of 2π times the phase of each cycle
`BooleanColumn`   one feature, −½√2 or ½√2, which are as far apart as two categories
`CategoryColumn`  one indicator per category, and one for all rare ones
`Column`          no feature of its own: all values are equal where there is one
================  ============================================================================

Where training rows lacked values, one more feature, ``COL is missing``, says where. A fitted column is
its fields, plain values that its constructor checks, so that it is stored with the model as it is and
prediction repeats it exactly.

A new kind is a class in `KINDS` with a learner in ``learning.py``; ``export/columns.py`` has the nodes
of those that ONNX can express.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold.machine.warning import warn_user
from onefold.tables.columns import (
    ORDERS,
    UNSETTLED,
    as_text,
    is_time_zone,
    kind_of,
    meaning_of,
    order_in,
    phases,
    refuse_other_zone,
    times_in,
)
from onefold.tables.errors import Remedy, TableError, counts, did_you_mean, listing
from onefold.tables.rows import TableRows

Missing = Literal["error", "impute"]

HALF = float(np.sqrt(0.5))
DAY = 86_400.0
PERIODS = {"year": 365.0 * DAY, "week": 7.0 * DAY, "day": DAY}
_EARLIEST = -2e9  # seconds; about 1906
_OFFSET = re.compile(r"[+-][0-9]{2}:[0-9]{2}")
_PAIRS = (
    *(("true", "false"), ("t", "f"), ("yes", "no"), ("y", "n"), ("on", "off"), ("1", "0")),
    *(("ja", "nein"), ("j", "n"), ("wahr", "falsch"), ("oui", "non"), ("vrai", "faux"), ("si", "no")),
    *(("sí", "no"), ("sì", "no"), ("s", "n"), ("verdadero", "falso"), ("vero", "falso")),
    *(("sim", "não"), ("ja", "nee"), ("ja", "nej"), ("tak", "nie"), ("evet", "hayır")),
)
BOOLEANS = {word: truth for pair in _PAIRS for word, truth in zip(pair, (True, False))}
_BLOCK_NUMBERS = 1 << 22  # of rows that are encoded at a time, if they are neither few nor many
_FEWEST_ROWS = 256
_MOST_ROWS = 1 << 16


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

    label: ClassVar[str] = "missing-value indicator"
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
        found = {name: value for name, value in vars(self).items() if name not in ("name", "missing")}
        return {name: list(one) if isinstance(one, tuple) else one for name, one in found.items()}

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
        finite = bool(np.isfinite(self.mean) and 0.0 < self.scale < np.inf)
        return finite and isinstance(self.median, int | float | np.floating | np.integer)

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
            and set(self.cycles) <= PERIODS.keys()
            and (zoned or is_time_zone(self.zone))
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
            values[:, 1 + 2 * j] = np.sin(angle)
            values[:, 2 + 2 * j] = np.cos(angle)
        return Made(values, missing)

    def examples(self) -> list[Any]:
        if self.order == "time":
            return [f"{hour:02d}:30" for hour in (0, 7, 23)]
        days = np.clip(super().examples(), _EARLIEST, -_EARLIEST) // DAY
        clock = "T12:00:00+00:00" if self.zone else ""
        return [f"{np.datetime64(int(day), 'D')}{clock}" for day in days]

    def summary(self) -> str:
        return "elapsed time" + (f" and the cycles of {', '.join(self.cycles)}" if self.cycles else "")


@dataclass(frozen=True)
class BooleanColumn(Column):
    """A column of true and false in any words; other values lie in the middle."""

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
            found = pc.index_in(self._respelled(filled, rows), value_set=known)
        places = pc.fill_null(found, len(self.categories)).to_numpy()
        values = np.zeros((len(rows), len(self.categories) + 1))
        values[np.arange(len(rows)), places] = 1.0
        missing = np.asarray(pc.is_null(text))
        if self.rare:
            return Made(values, missing)
        return Made(values[:, :-1], missing, int(values[:, -1].sum()))

    def _respelled(self, text: pa.ChunkedArray, rows: TableRows) -> pa.ChunkedArray:
        """Codes as training spelled them: 1.0 for 1, unless it kept both apart."""
        form = rows.reading.format_of(self.name)
        said = {one: meaning_of(one, form) for one in self.categories}
        meanings = Counter(said.values())
        known = {meaning: one for one, meaning in said.items() if meanings[meaning] == 1}
        encoded = pc.dictionary_encode(text.combine_chunks())
        here = {one: meaning_of(one, form) for one in encoded.dictionary.to_pylist()}
        had, has = ([m for m in them.values() if isinstance(m, datetime)] for them in (said, here))
        if had and has:
            refuse_other_zone(self.name, *(str(them[0].tzinfo or "") for them in (had, has)))
        spelled = [
            one if one in said or one != one.strip() else known.get(meaning, one)
            for one, meaning in here.items()
        ]
        return pa.array(spelled, pa.string()).take(encoded.indices)

    def examples(self) -> list[Any]:
        return [self.categories[0], self.categories[-1], max(self.categories, key=len) + "?"]

    def summary(self) -> str:
        return listing(self.categories) + (", and rare ones combined" if self.rare else "")


KINDS: tuple[type[Column], ...] = (NumberColumn, DateColumn, BooleanColumn, CategoryColumn, Column)


def boolean_of(word: str) -> bool | None:
    """What a word says, in any letter case; None if it says neither true nor false."""
    word = word.strip().casefold()
    return BOOLEANS.get({"1.0": "1", "0.0": "0"}.get(word, word))


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


@dataclass
class Surprises:
    """What rows of use have that training rows had not; one warning for all blocks of a table."""

    rows: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)

    def warn(self) -> None:
        """Say so, if there was anything, once and at the user's line."""
        if self.unknown:
            found = ", ".join(f"{count} in '{name}'" for name, count in sorted(self.unknown.items()))
            warn_user(f"unknown categories ignored: {found}")
        if self.missing:
            shares = ", ".join(
                f"'{name}' ({count} of {self.rows} rows, {count / self.rows:.0%})"
                for name, count in self.missing.most_common()
            )
            warn_user(
                "missing values in columns that had none in training, imputed with the median or the "
                f"most frequent value: {shares}; the model was not trained on such rows"
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
        Columns that were dropped because they are constant.
    row_numbers : tuple of str
        Unnamed columns that were dropped because they are row numbers or empty.
    identifiers : tuple of str
        Text columns that were dropped because they look like identifiers.
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
            raise ValueError("a column is of an unknown kind")
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

    @property
    def rows_at_once(self) -> int:
        """How many rows are encoded at a time: some four million numbers."""
        width = max(len(self.feature_names), 1)
        return min(max(_BLOCK_NUMBERS // width, _FEWEST_ROWS), _MOST_ROWS)

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

    def check_columns(self, names: tuple[str, ...], elsewhere: Sequence[Remedy] = ()) -> None:
        """Refuse a table that lacks columns, which may be `elsewhere`; others it has are ignored."""
        absent = [name for name in self.columns if name not in names]
        if absent:
            which = f"column '{absent[0]}'" if len(absent) == 1 else f"columns {listing(absent)}"
            near = f"the columns are {listing(names)}"
            near = did_you_mean(absent[0], names) if len(absent) == 1 else near
            if {name.lower() for name in absent} <= {name.lower() for name in names}:
                near = "the names differ only in upper and lower case; rename them"
            raise TableError(f"the table has no {which}, which the model needs; {near}", elsewhere)

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
        matrix = np.empty((len(rows), len(self.feature_names)))
        missing: Counter[str] = Counter()
        infinite: set[str] = set()
        filled = 0
        # Block by block: what is made on the way takes little memory next to the matrix.
        for block in rows.slices(self.rows_at_once):
            # Column-major while it is filled column by column.
            encoded = np.zeros((len(block), matrix.shape[1]), order="F")
            for part, (name, place) in zip(self.parts, self.spans()):
                made = part.features(block)
                encoded[:, place] = made.values
                if np.isinf(made.values).any():
                    infinite.add(name)
                if made.missing.any():
                    missing[name] += int(made.missing.sum())
                if made.unknown:
                    seen.unknown[name] += made.unknown
            matrix[filled : filled + len(block)] = encoded
            filled += len(block)
        if infinite:
            names = [name for name in self.columns if name in infinite]
            raise TableError(f"infinite values in {listing(names)}; remove or replace them")
        lacking = {name: missing[name] for name in self.columns if missing[name]}
        if self.missing == "error" and lacking:
            raise missing_values(
                lacking, len(rows), ["fill them in: the model was tuned on rows without missing values"]
            )
        known = {part.name for part in self.parts if part.missing}
        seen.missing.update({name: count for name, count in lacking.items() if name not in known})
        if surprises is None:
            seen.warn()
        return matrix


def missing_values(
    missing: Mapping[str, int], n_rows: int, remedies: Sequence[Remedy | str]
) -> TableError:
    """The error that names columns, and how many values each lacks."""
    return TableError(f"missing values in {counts(missing.items(), n_rows)}", remedies)
