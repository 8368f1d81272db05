r"""One class per kind of column, and the features that it becomes; a `Preparation` is all columns.

================  ============================================================================
`NumberColumn`    one feature, standardised; the median stands for a missing value
`DateColumn`      elapsed time, standardised, and sin and cos of 2π times the phase of each cycle
`BooleanColumn`   one feature, −½√2 or ½√2: the distance between two categories
`CategoryColumn`  one indicator per category, and one for all rare ones
`Column`          no feature: all values that are not missing are equal
================  ============================================================================

If training rows had missing values, one more feature, ``COL is missing``, marks them. A fitted column
is a frozen dataclass of plain values that its constructor checks: it is stored with the model as it is,
and prediction repeats it exactly.

A new kind is a class in `KINDS` with a learner in ``learning.py``; ``export/columns.py`` has the nodes
of those that ONNX can express.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse

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

HALF = float(np.sqrt(0.5))  # half the distance between two indicators
DAY = 86_400.0  # seconds
PERIODS = {"year": 365.0 * DAY, "week": 7.0 * DAY, "day": DAY}
_EARLIEST = -2e9  # seconds since 1970, about 1906: the earliest example of a date
_OFFSET = re.compile(r"[+-][0-9]{2}:[0-9]{2}")
_PAIRS = (
    *(("true", "false"), ("t", "f"), ("yes", "no"), ("y", "n"), ("on", "off"), ("1", "0")),
    *(("ja", "nein"), ("j", "n"), ("wahr", "falsch"), ("oui", "non"), ("vrai", "faux"), ("si", "no")),
    *(("sí", "no"), ("sì", "no"), ("s", "n"), ("verdadero", "falso"), ("vero", "falso")),
    *(("sim", "não"), ("ja", "nee"), ("ja", "nej"), ("tak", "nie"), ("evet", "hayır")),
)
BOOLEANS = {word: truth for pair in _PAIRS for word, truth in zip(pair, (True, False))}
_BLOCK_NUMBERS = 1 << 22  # numbers in a block of rows that are encoded at a time: 32 MB
_FEWEST_ROWS = 256  # in such a block
_MOST_ROWS = 1 << 16  # in such a block


class Encoded(NamedTuple):
    """The features of a block of rows (rows, features), which rows lack a value, and how many values
    training had not seen.
    """

    values: Any  # an array, or CSR of a column with many indicators
    missing: np.ndarray
    unknown: int = 0


@dataclass(frozen=True)
class Column:
    """A column of a table; `missing` is whether training rows lacked values of it."""

    name: str
    missing: bool = False

    label: ClassVar[str] = "missing-value indicator"
    as_text: ClassVar[bool] = True  # the type of its input in an ONNX graph: text, or else numbers
    indicators: ClassVar[bool] = False  # whether its features are indicators, one for each value

    def __post_init__(self) -> None:
        if type(self.name) is not str or not isinstance(self.missing, bool | np.bool_):
            raise ValueError(f"the state of the column {self.name!r} is damaged")
        if not self.valid():
            raise ValueError(f"the state of the {type(self).__name__} '{self.name}' is damaged")

    def valid(self) -> bool:
        """Whether the fields of this kind of column make sense."""
        return True

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        return (*self.value_names, f"{self.name} is missing") if self.missing else self.value_names

    def features(self, rows: TableRows) -> Encoded:
        """The features of these rows."""
        encoded = self.encode(rows)
        if not self.missing:
            return encoded
        indicator = encoded.missing.astype(np.float64)[:, None]
        if scipy.sparse.issparse(encoded.values):
            return encoded._replace(values=_side_by_side([encoded.values, indicator]))
        return encoded._replace(values=np.column_stack([encoded.values, indicator]))

    @property
    def value_names(self) -> tuple[str, ...]:
        """The names of the features without "is missing"."""
        return ()

    def encode(self, rows: TableRows) -> Encoded:
        """The features without "is missing"."""
        column = rows.text(self.name)
        missing = np.asarray(pc.is_null(column, nan_is_null=True))
        if kind_of(column) == "text":
            missing = np.asarray(pc.is_null(as_text(column, self.name)))
        return Encoded(np.empty((len(rows), 0)), missing)

    def examples(self) -> list[Any]:
        """Values that the column may have: usual ones, and one that training had not seen."""
        return ["any"]

    def facts(self) -> dict[str, Any]:
        """What was learned, as plain values."""
        fields = {name: value for name, value in vars(self).items() if name not in ("name", "missing")}
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()
        }

    def summary(self) -> str:
        """What was learned, in words; "" if there is nothing to say."""
        return ""


@dataclass(frozen=True)
class NumberColumn(Column):
    """A column of numbers, standardised; the median replaces missing values."""

    mean: float = 0.0
    scale: float = 1.0
    median: float = 0.0  # NaN: missing values stay missing

    label: ClassVar[str] = "numbers"
    as_text: ClassVar[bool] = False

    def valid(self) -> bool:
        finite = bool(np.isfinite(self.mean) and 0.0 < self.scale < np.inf)
        return finite and isinstance(self.median, int | float | np.floating | np.integer)

    @property
    def value_names(self) -> tuple[str, ...]:
        return (self.name,)

    def encode(self, rows: TableRows) -> Encoded:
        values = rows.numbers(self.name)
        missing = np.isnan(values)
        imputed = np.where(missing, self.median, values) if missing.any() else values
        return Encoded(((imputed - self.mean) / self.scale)[:, None], missing)

    def examples(self) -> list[Any]:
        return [self.mean, self.mean + self.scale, self.mean - self.scale]


@dataclass(frozen=True)
class DateColumn(NumberColumn):
    """A column of dates or times, in seconds.

    Parameters
    ----------
    order : {"dmy", "mdy", "ymd", "time"}
        The order of day and month in text; "time" for times of day.
    cycles : tuple of str
        Those of "year", "week" and "day" that become features.
    zone : str
        The time zone in which instants are read; "" for local times.
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
    def value_names(self) -> tuple[str, ...]:
        waves = (f"{self.name} {cycle} {wave}" for cycle in self.cycles for wave in ("sin", "cos"))
        return (self.name, *waves)

    def encode(self, rows: TableRows) -> Encoded:
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
        return Encoded(values, missing)

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
    """A column of true and false in any words; other values become 0."""

    most_frequent: bool = True

    label: ClassVar[str] = "booleans"

    def valid(self) -> bool:
        return isinstance(self.most_frequent, bool | np.bool_)

    @property
    def value_names(self) -> tuple[str, ...]:
        return (self.name,)

    def encode(self, rows: TableRows) -> Encoded:
        text = as_text(rows.text(self.name), self.name)
        missing = np.asarray(pc.is_null(text))
        words = pc.dictionary_encode(text.combine_chunks())
        level_of = {True: HALF, False: -HALF, None: 0.0}
        word_levels = [level_of[boolean_of(word)] for word in words.dictionary.to_pylist()]
        levels = np.array([*word_levels, level_of[self.most_frequent]])  # the last is that of nulls
        values = levels[pc.fill_null(words.indices, len(word_levels)).to_numpy()]
        return Encoded(values[:, None], missing, int(np.sum(values == 0.0)))

    def examples(self) -> list[Any]:
        return ["true", "false", "true?"]


@dataclass(frozen=True)
class CategoryColumn(Column):
    """A column of categories, one indicator each.

    With `rare`, one more indicator is for all other values, including those not seen in training;
    without it, these have no indicator.
    """

    categories: tuple[str, ...] = ()
    most_frequent: str = ""
    rare: bool = False

    label: ClassVar[str] = "categories"
    indicators: ClassVar[bool] = True

    def valid(self) -> bool:
        if type(self.categories) is not tuple:
            return False
        texts = all(isinstance(category, str) for category in self.categories)
        return texts and self.most_frequent in self.categories and isinstance(self.rare, bool)

    @property
    def value_names(self) -> tuple[str, ...]:
        names = tuple(f"{self.name}={category}" for category in self.categories)
        return (*names, f"{self.name} is rare") if self.rare else names

    def encode(self, rows: TableRows) -> Encoded:
        text = as_text(rows.text(self.name), self.name)
        imputed = pc.fill_null(text, self.most_frequent)
        categories = pa.array(self.categories, pa.string())
        codes = pc.index_in(imputed, value_set=categories)
        if codes.null_count:
            codes = pc.index_in(self._as_in_training(imputed, rows), value_set=categories)
        n_categories = len(self.categories)
        indices = pc.fill_null(codes, n_categories).to_numpy()
        missing = np.asarray(pc.is_null(text))
        has_indicator = np.full(len(rows), True) if self.rare else indices < n_categories
        starts = np.concatenate([[0], np.cumsum(has_indicator)]).astype(np.int32)
        places = indices[has_indicator].astype(np.int32)
        indicators = scipy.sparse.csr_array(
            (np.ones(len(places)), places, starts), shape=(len(rows), n_categories + self.rare)
        )
        return Encoded(indicators, missing, int(np.sum(~has_indicator)))

    def _as_in_training(self, text: pa.ChunkedArray, rows: TableRows) -> pa.ChunkedArray:
        """Categories in the spelling of training: 1.0 becomes 1, unless training had both."""
        number_format = rows.reading.format_of(self.name)
        trained = {category: meaning_of(category, number_format) for category in self.categories}
        spellings = Counter(trained.values())
        category_of = {
            meaning: category for category, meaning in trained.items() if spellings[meaning] == 1
        }
        distinct = pc.dictionary_encode(text.combine_chunks())
        meanings = {word: meaning_of(word, number_format) for word in distinct.dictionary.to_pylist()}
        trained_zone = _zone_of_moments(trained.values())
        zone = _zone_of_moments(meanings.values())
        if trained_zone is not None and zone is not None:
            refuse_other_zone(self.name, trained_zone, zone)
        words = [
            word if word in trained or word != word.strip() else category_of.get(meaning, word)
            for word, meaning in meanings.items()
        ]
        return pa.array(words, pa.string()).take(distinct.indices)

    def examples(self) -> list[Any]:
        return [self.categories[0], self.categories[-1], max(self.categories, key=len) + "?"]

    def summary(self) -> str:
        return listing(self.categories) + (", and rare ones combined" if self.rare else "")


def _zone_of_moments(meanings: Iterable[object]) -> str | None:
    """The time zone of the first date or time among the meanings, "" for none; None without any."""
    moment = next((meaning for meaning in meanings if isinstance(meaning, datetime)), None)
    return None if moment is None else str(moment.tzinfo or "")


def _side_by_side(parts: Sequence[Any]) -> Any:
    """Arrays and CSR matrices as one CSR matrix, without the zeros of the arrays."""
    return scipy.sparse.hstack([scipy.sparse.csr_array(part) for part in parts], format="csr")


KINDS: tuple[type[Column], ...] = (NumberColumn, DateColumn, BooleanColumn, CategoryColumn, Column)


def boolean_of(word: str) -> bool | None:
    """The truth that a word means, in any letter case; None if it means neither true nor false."""
    word = word.strip().casefold()
    return BOOLEANS.get({"1.0": "1", "0.0": "0"}.get(word, word))


def are_booleans(words: Any) -> bool:
    """Whether every word means true or false, and both occur.

    Not if all are 0 and 1, which are numbers, or single letters that do not form a pair, as t and n.
    """
    distinct = {word.strip().casefold() for word in words}
    if not distinct <= BOOLEANS.keys() or distinct <= {"0", "1"}:
        return False
    if len({BOOLEANS[word] for word in distinct}) < 2:
        return False
    has_pair = any(distinct.issuperset(pair) for pair in _PAIRS)
    return has_pair or any(len(word) > 1 for word in distinct)


@dataclass
class UnseenValues:
    """Values of further rows that training had not seen, by column: one warning for all blocks.

    Parameters
    ----------
    rows : int
        How many rows were encoded.
    unknown : Counter of str
        Categories and words that training had not seen.
    missing : Counter of str
        Missing values in columns that had none in training.
    """

    rows: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)

    def warn(self) -> None:
        """Warn of them, if there are any, at the user's line."""
        if self.unknown:
            values = ", ".join(f"{count} in '{name}'" for name, count in sorted(self.unknown.items()))
            warn_user(f"unknown categories ignored: {values}")
        if self.missing:
            shares = ", ".join(
                f"'{name}' ({count} of {self.rows} rows, {count / self.rows:.0%})"
                for name, count in self.missing.most_common()
            )
            warn_user(
                "missing values in columns that had none in training, imputed with the median or the "
                f"most frequent value: {shares}; the model was not trained on such rows"
            )


@dataclass
class _Tally:
    """Missing and unknown values of the rows encoded so far, by column, and columns with infinities."""

    missing: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    infinite: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Preparation:
    """How rows of a table become rows of a matrix.

    Parameters
    ----------
    parts : tuple of Column
        The columns in use, in the order of their features.
    missing : {"impute", "error"}
        Whether missing values are imputed or raise an error.
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
        dropped = (self.constant, self.row_numbers, self.identifiers)
        tuples = all(type(names) is tuple for names in (self.parts, *dropped))
        texts = tuples and all(type(name) is str for names in dropped for name in names)
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
        shares = {name: float(features[span].sum()) for name, span in self.spans()}
        return {name: shares[name] for name in sorted(shares, key=lambda name: -shares[name])[:most]}

    def check_columns(self, names: tuple[str, ...], remedies: Sequence[Remedy] = ()) -> None:
        """Refuse a table that lacks columns, with `remedies`; additional columns are ignored."""
        absent = [name for name in self.columns if name not in names]
        if not absent:
            return
        if len(absent) == 1:
            columns = f"column '{absent[0]}'"
            hint = did_you_mean(absent[0], names)
        else:
            columns = f"columns {listing(absent)}"
            hint = f"the columns are {listing(names)}"
        if {name.lower() for name in absent} <= {name.lower() for name in names}:
            hint = "the names differ only in upper and lower case; rename them"
        raise TableError(f"the table has no {columns}, which the model needs; {hint}", remedies)

    def transform(
        self, rows: TableRows, unseen: UnseenValues | None = None, *, sparse: bool = False
    ) -> Any:
        """The matrix of these rows, float64: an array, or CSR.

        Parameters
        ----------
        rows : TableRows
            With at least the columns this preparation needs.
        unseen : UnseenValues, optional
            Collects what training had not seen, so that many blocks share one warning. Without it, each
            call warns.
        sparse : bool, default=False
            Whether the matrix is CSR.
        """
        self.check_columns(rows.names)
        tally = _Tally()
        matrix: Any
        if sparse:
            blank = np.empty((len(rows), 0))
            matrix = _side_by_side([blank, *(values for _, values in self._encoded(rows, tally))])
        else:
            matrix = np.empty((len(rows), len(self.feature_names)))
            encoded_rows = 0
            # Block by block, so that temporary arrays take little memory next to the matrix.
            for block in rows.slices(self.rows_at_once):
                matrix[encoded_rows : encoded_rows + len(block)] = self._encode(block, tally)
                encoded_rows += len(block)
        missing = {name: tally.missing[name] for name in self.columns if tally.missing[name]}
        self._refuse(tally.infinite, missing, len(rows))
        collected = UnseenValues() if unseen is None else unseen
        collected.rows += len(rows)
        collected.unknown += tally.unknown
        had_missing = {column.name for column in self.parts if column.missing}
        collected.missing.update({n: count for n, count in missing.items() if n not in had_missing})
        if unseen is None:
            collected.warn()
        return matrix

    def _encode(self, block: TableRows, tally: _Tally) -> np.ndarray:
        """The matrix of a block of rows, whose missing, unknown and infinite values are tallied."""
        # Column-major while it is filled column by column.
        matrix = np.zeros((len(block), len(self.feature_names)), order="F")
        for span, values in self._encoded(block, tally):
            matrix[:, span] = values.toarray() if scipy.sparse.issparse(values) else values
        return matrix

    def _encoded(self, block: TableRows, tally: _Tally) -> Iterator[tuple[slice, Any]]:
        """The features of every column of a block, an array or CSR, and their place in the matrix."""
        for column, (name, span) in zip(self.parts, self.spans()):
            encoded = column.features(block)
            is_sparse = scipy.sparse.issparse(encoded.values)
            if np.isinf(encoded.values.data if is_sparse else encoded.values).any():
                tally.infinite.add(name)
            if encoded.missing.any():
                tally.missing[name] += int(encoded.missing.sum())
            if encoded.unknown:
                tally.unknown[name] += encoded.unknown
            yield span, encoded.values

    def _refuse(self, infinite: Collection[str], missing: Mapping[str, int], n_rows: int) -> None:
        """Raise for columns with infinite values, and for missing values if they are errors."""
        if infinite:
            names = [name for name in self.columns if name in infinite]
            raise TableError(f"infinite values in {listing(names)}; remove or replace them")
        if self.missing == "error" and missing:
            remedies = ["fill them in: the model was tuned on rows without missing values"]
            raise missing_values_error(missing, n_rows, remedies)


def missing_values_error(
    missing: Mapping[str, int], n_rows: int, remedies: Sequence[Remedy | str]
) -> TableError:
    """The error that names columns, and how many values each lacks."""
    return TableError(f"missing values in {counts(missing.items(), n_rows)}", remedies)
