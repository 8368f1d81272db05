"""One Arrow column at a time: what kind it is, and its values as numbers, as text or as seconds.

A missing value is an Arrow null, a NaN, or blank text; here they all become NaN or null.

Dates have the year first, or day and month in one order throughout a column; 3/4/2024 alone could be in
March or in April, and nothing is guessed. Month names are English. A column that knows its zone is taken
by the clocks there, also where the same instants come in another zone later; times with an offset from
UTC are instants, by the clocks of UTC. Moments are exact to microseconds, in text as in typed columns.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Literal
from zoneinfo import available_timezones

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from onefold.tables.errors import Remedy, TableError
from onefold.tables.reading import PLAIN, NumberFormat, is_number, parse

Kind = Literal["numeric", "boolean", "text", "date", "empty", "other"]

# Of a column of text: which of day and month is first; times of day alone.
ORDERS = ("dmy", "mdy", "time")
UNSETTLED = "ymd"  # no value has told which is first: those that could be either are refused
_EXAMPLES = {"dmy": "31/12/2024 or 2024-12-31", "mdy": "12/31/2024 or 2024-12-31", "time": "23:59:00"}

# Once blanks, points, slashes and commas are dashes; %b is a month's name, whole or the start of it.
_CLEAR = ("%Y-%m-%d", "%Y-%b-%d", "%d-%b-%Y", "%b-%d-%Y", "%b-%Y")
_BY_ORDER = {"dmy": "%d-%m-%Y", "mdy": "%m-%d-%Y"}
_CLOCK = (
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,6})[0-9]*)?)?"
    r"(?: ?(?P<half>[aApP])\.?[mM]\.?)?"
    r"(?P<zone> ?(?:[zZ]|UTC|GMT|(?P<sign>[-+])(?P<ahead>[0-9]{2}):?(?P<minutes>[0-9]{2})))?"
)
_MOMENT = rf"^(?P<date>[^:]*?)(?:(?:^|[tT]|,? +){_CLOCK})?$"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE_LIKE = re.compile(
    r"(?:[0-9]{1,2}([./-])[0-9]{1,2}\1(?:[0-9]{4}|[0-9]{2})"
    r"|[0-9]{4}([./-])[0-9]{1,2}\2[0-9]{1,2}"
    rf"|[0-9]{{1,2}}\.?[ -]{_MONTH}[ ,-]+'?(?:[0-9]{{4}}|[0-9]{{2}})"
    rf"|{_MONTH}[ ,-]+(?:[0-9]{{1,2}}[ ,-]+)?[0-9]{{4}}"
    rf"|[0-9]{{4}}-{_MONTH}-[0-9]{{1,2}})?"
    rf"(?:(?:^|t|,? +){_CLOCK})?",
    re.IGNORECASE,
)
MOST_CATEGORIES = 2000  # that are counted, let alone made features of
# Categories, above which texts that are in less than two rows on average name rows.
MANY_CATEGORIES = 50
# Rows of which different values in each of them mean anything.
_FEWEST_NAMED = 20
_FEW_CATEGORIES = 20
_FEW_NUMBERS = 3
_DECORATED = re.compile(r"[^\w.,+-]{0,2} *[-+]?[0-9][0-9.,]* *(?P<after>[^0-9]{0,8})")  # 5 kg, <0.1, $12
_NO_DIGIT = "[eE].*|[^1-9]"  # what is left out where numbers are compared by their digits
_FIRST_VALUES = 1000  # values of a block that show what a column mostly is
_DAY_SECONDS = 86_400.0
_FLAGS = {"true": (True,), "false": (False,)}  # what they say, which is not 1 and 0


def kind_of(column: pa.ChunkedArray) -> Kind:
    """What a column holds, as far as preparing it is concerned."""
    kind = column.type
    types = pa.types
    if types.is_null(kind) or column.null_count == len(column) > 0:
        return "empty"
    if types.is_boolean(kind):
        return "boolean"
    if any(
        is_a(kind) for is_a in (types.is_integer, types.is_floating, types.is_decimal, types.is_duration)
    ):
        return "numeric"
    if _is_text(kind) or types.is_dictionary(kind):
        return "text"
    if types.is_date(kind) or types.is_timestamp(kind) or types.is_time(kind):
        return "date"
    return "other"


def as_numbers(
    column: pa.ChunkedArray, name: str, start: int = 0, form: NumberFormat = PLAIN
) -> np.ndarray:
    """float64 values with NaN where missing; text is parsed in the format `form`.

    Raises
    ------
    TableError
        Naming the column, and for text the first value that is not a number and its row
        (`start` rows come before this column's first).
    """
    column = decoded(column)
    kind = kind_of(column)
    if kind == "empty":
        return np.full(len(column), np.nan)
    if kind in {"date", "other"}:
        raise TableError(_wrong_type(name, column.type))
    if kind == "text":
        text = trimmed(column)
        column, position = parse(text, form)
        if position is not None and {*pc.unique(pc.utf8_lower(text)).to_pylist()} <= {*_FLAGS, None}:
            column = pc.equal(pc.utf8_lower(text), "true")  # as columns of booleans are
        elif position is not None:
            raise _not_a_number(name, column[position].as_py(), start + position + 1, form)
    if pa.types.is_duration(column.type):
        return _counted(pc.cast(column, pa.duration("us"), safe=False)) / 1e6
    if pa.types.is_decimal(column.type):  # by its digits: Arrow's cast to float64 rounds twice
        column = pc.cast(column, pa.string())
    # safe=False: integers beyond 2**53 lose digits; `inexact_as_number` says where that matters.
    return np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def inexact_as_number(column: pa.ChunkedArray) -> int | None:
    """The position of the first whole number that float64 can't hold, None if there is none."""
    column = decoded(column)
    if not (pa.types.is_integer(column.type) or pa.types.is_decimal(column.type)):
        return None
    # safe=False, because rounding is what is looked for.
    large = pc.greater_equal(pc.abs(pc.cast(column, pa.float64(), safe=False)), 2.0**53)
    for position in np.flatnonzero(pc.fill_null(large, False).to_numpy()):
        value = int(column[position].as_py())
        if int(float(value)) != value:
            return int(position)
    return None


def _not_a_number(name: str, value: str, row: int, form: NumberFormat) -> TableError:
    cause = f"column '{name}' should hold numbers but has '{value}' in data row {row}"
    if is_number(value):
        mark = "," if form.decimal == "." else "."
        remedies = [Remedy("decimal", mark, "if that is its decimal mark")] if mark in value else []
        return TableError(
            f"{cause}, which is not written like {form.example}", ["write it that way", *remedies]
        )
    return TableError(
        cause, ["correct it", "leave it empty if it is missing", Remedy("na_values", [value])]
    )


def _wrong_type(name: str, kind: pa.DataType) -> str:
    return f"column '{name}' has type {kind}, which is neither a number nor text"


# Text


def as_text(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Text values with null where missing; booleans become "true" and "false"."""
    column = decoded(column)
    if kind_of(column) == "other" or pa.types.is_duration(column.type):
        raise TableError(_wrong_type(name, column.type))
    if pa.types.is_floating(column.type):
        column = without(column, pc.is_nan(column))
        with suppress(pa.ArrowInvalid):  # codes that became 1.0 because some were missing
            column = pc.cast(column, pa.int64())
    text = pc.cast(column, pa.string())
    return without(text, pc.is_null(trimmed(text)))


def without(column: pa.ChunkedArray, absent: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column with null where `absent` is true."""
    # An array of nulls: with a null scalar, pyarrow before 24 damages slices of text.
    return pc.if_else(absent, pa.nulls(len(column), column.type), column)


def trimmed(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text without blanks around it, null where nothing is left."""
    text = pc.utf8_trim_whitespace(text)
    return without(text, pc.equal(text, ""))


def without_words(
    column: pa.ChunkedArray, words: tuple[str, ...], form: NumberFormat = PLAIN
) -> pa.ChunkedArray:
    """A column with null where a value is one of the words, or means the same: -999.0 for -999."""
    values = decoded(column)
    meanings = {meaning_of(word, form) for word in words}
    # Words that mean a number, a date or a boolean, which may be written in several ways.
    meanings = {meaning for meaning in meanings if not isinstance(meaning, str) and meaning == meaning}
    kind = kind_of(values)
    if kind == "numeric" and meanings and not pa.types.is_duration(values.type):
        array = values.to_numpy()
        array = array if array.dtype.kind == "f" else as_numbers(values, "")
        numbers = [float(number) for number in meanings if isinstance(number, float | decimal.Decimal)]
        absent = pa.array(np.isin(array, np.array(numbers, dtype=array.dtype)))
    elif kind == "text" or (meanings and kind in ("boolean", "date")):
        text = pc.utf8_trim_whitespace(pc.cast(values, pa.string()))
        absent = pc.is_in(text, value_set=pa.array(words, pa.string()))
        if meanings:  # few values have the digits of a word
            digits = pc.replace_substring_regex(text, _NO_DIGIT, "")
            word_digits = pc.replace_substring_regex(pa.array(words), _NO_DIGIT, "")
            candidates = pc.unique(text.filter(pc.is_in(digits, value_set=word_digits))).to_pylist()
            equivalent = [
                value
                for value in candidates
                if value is not None and meaning_of(value, form) in meanings
            ]
            absent = pc.or_(absent, pc.is_in(text, value_set=pa.array(equivalent, pa.string())))
    else:
        return column
    if not pc.any(absent, min_count=0).as_py():
        return column
    return without(values, absent)


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without dictionary encoding and with one text type."""
    if pa.types.is_dictionary(column.type):
        value_type = column.type.value_type
        value_type = pa.string() if _is_text(value_type) else value_type
        # Value by value: Arrow has no cast out of a dictionary of string views.
        chunks = [pc.cast(c.dictionary, value_type).take(c.indices) for c in column.chunks]
        return pa.chunked_array(chunks, value_type)
    if _is_text(column.type) and not pa.types.is_string(column.type):
        return pc.cast(column, pa.string())
    return column


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def meaning_of(text: str, form: NumberFormat = PLAIN) -> object:
    """What a label says: a number, a boolean, a moment or a time of day, or its words.

    Moments with an offset are equal where they are the same instant. Of the format of numbers the
    decimal mark counts; codes that hold none, as those of typed columns, are written with a point.
    """
    text = text.strip()
    if text.lower() in _FLAGS:
        return _FLAGS[text.lower()]
    if re.fullmatch(r"[-+]?[0-9]+", text):
        return decimal.Decimal(text)  # of any number of digits
    if re.fullmatch(NumberFormat(form.decimal).pattern, text):
        text = text.replace(form.decimal, ".").replace("−", "-")
    moments = (datetime.datetime.fromisoformat, datetime.time.fromisoformat)
    for meaning in (float, *(moments if text[:1].isdigit() else ())):
        try:
            return meaning(text.replace("_", "?"))
        except ValueError:
            continue
    return text


# Columns that name rows


def names_rows(distinct: int, rows: int, most: int | None = None) -> bool:
    """Whether so many different texts or whole numbers name the rows of a table, like an identifier.

    They do if all of them differ, in twenty rows or more. Where more than `most` are too many categories
    or classes, they also do if there are more than half as many as rows.
    """
    if most is not None and distinct > most and 2 * distinct > rows:
        return True
    return distinct == rows >= _FEWEST_NAMED


# Columns of text that are not what they should be


def refuse_mangled_numbers(first: Mapping[str, int], name: str, target: bool = False) -> None:
    """Refuse a text column that is numeric except for a few values.

    One "?" among the numbers makes the whole column text, and hundreds of "categories" would then
    be learned in silence. A few whole numbers among words are taken for codes. `first` has the row in
    which each value appeared first. A `target` can't be called categorical, nor dropped.
    """
    numbers = [value for value in first if is_number(value)]
    words = [value for value in first if not is_number(value)]
    fractions = len(numbers) >= _FEW_NUMBERS and any("." in value or "," in value for value in numbers)
    many_categories = len(first) > _FEW_CATEGORIES
    if len(numbers) < _FEW_NUMBERS or 2 * len(numbers) < len(first):
        return
    codes = [] if target else [Remedy("categorical", [name], "if they are codes")]
    if not words and many_categories:
        raise TableError(
            f"column '{name}' holds numbers as text, such as '{min(numbers)}'",
            ["store them as numbers with a decimal point", *codes],
        )
    if not words or not (fractions or many_categories):
        return
    value = min(words, key=lambda word: first[word])
    also = Remedy("drop_missing_target", True) if target else None
    missing = Remedy("na_values", [value], "if it means missing", also)
    raise TableError(
        f"column '{name}' is numeric except for values such as '{value}' in data row {first[value]}",
        ["correct it", missing, *codes, *([] if target else [Remedy("drop", [name])])],
    )


def refuse_decorated_numbers(categories: tuple[str, ...], name: str) -> None:
    """Refuse numbers with a unit that is not understood, which many "categories" would hide."""
    matches = [match for value in categories if (match := _DECORATED.fullmatch(value.strip()))]
    suffixes = {match["after"] for match in matches}
    few_suffixes = len(suffixes) <= _FEW_NUMBERS
    if len(categories) > _FEW_CATEGORIES and 2 * len(matches) > len(categories) and few_suffixes:
        raise TableError(
            f"column '{name}' has numbers with units or symbols, such as '{matches[0][0]}'",
            [
                "write plain numbers in one unit",
                Remedy("categorical", [name], "if they are codes"),
            ],
        )


def not_dates_error(name: str, value: str, row: int) -> TableError:
    """The error about a column of dates in which one value is not a date, or is ambiguous."""
    return TableError(
        f"column '{name}' has dates or times that cannot be parsed, such as '{value}' in data row {row}",
        [
            "write them like 2024-12-31 or 2024-12-31 23:59",
            Remedy("drop", [name]),
            Remedy("categorical", [name], "if they are codes"),
        ],
    )


# Dates and times


def order_in(dayfirst: bool | None) -> str:
    """The order of day and month that an option says."""
    return UNSETTLED if dayfirst is None else "dmy" if dayfirst else "mdy"


def is_moment(value: str) -> bool:
    """Whether a text is a date or a time in one of the usual ways of writing them."""
    value = value.strip()
    return bool(value and _DATE_LIKE.fullmatch(value))


def count_dates(values: Iterable[str]) -> tuple[int, int]:
    """How many of the first texts are dates or times, and how many are not."""
    are_dates = [is_moment(value) for value in islice(values, _FIRST_VALUES)]
    return sum(are_dates), len(are_dates) - sum(are_dates)


def times_in(
    column: pa.ChunkedArray, name: str, order: str, zone: str = "", start: int = 0
) -> np.ndarray:
    """Dates or times as seconds, NaN where missing; text is read in this order of day and month.

    They are instants by the clocks of `zone`, or local times where it is "".

    Raises
    ------
    TableError
        Naming the column, and for text the first value that is none and its row.
    """
    column = decoded(column)
    kind = kind_of(column)
    if kind == "empty":
        return np.full(len(column), np.nan)
    if kind == "text":
        text = trimmed(column)
        seconds, column_zone, position = text_seconds(text, order, zone)
        if position is not None:
            value = text[position].as_py()
            example = _EXAMPLES.get(order, "2024-12-31")
            raise TableError(
                f"column '{name}' should hold dates or times but has '{value}' in data row "
                f"{start + position + 1}; write it like {example}, or leave it empty if it is missing"
            )
    elif kind != "date":
        raise TableError(f"column '{name}' should hold dates or times but has type {column.type}")
    elif pa.types.is_time(column.type) != (order == "time"):
        expected = "times of day" if order == "time" else "dates"
        actual = "dates" if order == "time" else "times of day"
        raise TableError(f"column '{name}' should hold {expected} but holds {actual}; convert it")
    else:
        seconds = typed_seconds(column, zone)
        column_zone = zone_of(column)
    refuse_other_zone(name, zone, column_zone)
    return seconds


def refuse_other_zone(name: str, trained: str, zone: str) -> None:
    """Refuse times without a zone, "", where those of training had one, or the reverse."""
    if bool(trained) != bool(zone):
        had = _times_of(trained)
        has = _times_of(zone)
        raise TableError(f"column '{name}' had {had} in training but has {has} here; convert it")


def _times_of(zone: str) -> str:
    """What times of a zone, "" for none, are called."""
    return f"times in time zone {zone}" if zone else "times without a time zone"


def zone_of(column: pa.ChunkedArray) -> str:
    """The time zone of a column of dates or timestamps, "" for none."""
    return (column.type.tz if pa.types.is_timestamp(column.type) else None) or ""


def no_time_zones(zone: str) -> ImportError:
    """The error for times of a zone on a system that does not know its clocks."""
    return ImportError(
        f"times in time zone '{zone}' need a time-zone database, which this system lacks; install "
        "tzdata with the system's package manager or with pip install tzdata"
    )


def is_time_zone(name: str) -> bool:
    """Whether there is a time zone of this name; raise where there is no database to look it up in."""
    names = available_timezones()
    if name in names:
        typed_seconds(pa.chunked_array([pa.array([0], pa.timestamp("us", name))]), name)  # Arrow's own
    elif not names:
        raise no_time_zones(name)
    return name in names


def typed_seconds(column: pa.ChunkedArray, zone: str = "") -> np.ndarray:
    """Dates, timestamps or times of day as seconds, NaN where null; by the clocks of the zone."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":  # casts truncate towards 1970
        column = pc.cast(column, pa.timestamp("ns", kind.tz and "UTC"))
        column = pc.floor_temporal(column, unit="microsecond")
    if zone and zone_of(column):
        instants = pc.cast(column, pa.timestamp("us", zone), safe=False)
        try:
            column = pc.local_timestamp(instants)
        except pa.ArrowInvalid as error:
            names = available_timezones()
            if names and zone not in names:
                raise TableError(
                    f"'{zone}' is not a known time zone; convert the times to one that is, such as UTC"
                ) from error
            raise no_time_zones(zone) from error
    unit = pa.time64("us") if pa.types.is_time(kind) else pa.timestamp("us")
    return _counted(pc.cast(column, unit, safe=False)) / 1e6


def text_seconds(
    text: pa.ChunkedArray, order: str, zone: str = "UTC"
) -> tuple[np.ndarray, str, int | None]:
    """Seconds of every value, NaN where it is null, by the clocks of `zone` where values have an offset.

    Then "UTC" if they have, else "", and the position of the first value that is no date, or that has
    an offset where those before have none.
    """
    moments, position = _moments(text, order)
    if position is not None:
        return np.full(len(text), np.nan), "", position
    return typed_seconds(moments, zone), zone_of(moments), None


def phases(seconds: np.ndarray, cycle: str) -> np.ndarray:
    """How far each moment is in its year, week or day, from 0 to 1; weeks begin on Mondays."""
    if cycle == "day":
        return np.asarray(np.mod(seconds, _DAY_SECONDS) / _DAY_SECONDS)
    if cycle == "week":
        return np.asarray(np.mod(seconds / _DAY_SECONDS + 3.0, 7.0) / 7.0)
    moment = np.floor(seconds).astype("int64").astype("datetime64[s]")
    year = moment.astype("datetime64[Y]")
    begin = year.astype("datetime64[s]")
    end = (year + 1).astype("datetime64[s]")
    return np.asarray((moment - begin).astype(np.float64) / (end - begin).astype(np.float64))


def _counted(moments: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """The integers that moments are stored as, NaN where null."""
    counted = pc.cast(pc.cast(moments, pa.int64()), pa.float64(), safe=False)
    return np.asarray(counted.to_numpy(zero_copy_only=False))


def _moments(text: pa.ChunkedArray, order: str) -> tuple[pa.ChunkedArray, int | None]:
    """Texts as timestamps or times of day, or the position of the first that is none."""
    for zone in (None, "UTC") if order != "time" else ():
        try:  # years first: many times faster
            return pc.cast(text, pa.timestamp("us", zone)), None
        except pa.ArrowInvalid:
            continue
    encoded = pc.dictionary_encode(text.combine_chunks())  # different values in the order of the rows
    for part in (
        encoded.dictionary[:_FIRST_VALUES],
        encoded.dictionary,
    ):  # a few values mostly settle it
        moments, zoned = _parsed(part, order)
        unparsed = np.flatnonzero(np.asarray(moments.is_null()) | (zoned != zoned[:1]))
        if len(unparsed):
            return text, pc.index(encoded.indices, int(unparsed[0])).as_py()
    kind = pa.timestamp("us", "UTC" if zoned[:1].any() else None)
    kind = pa.time64("us") if order == "time" else kind
    return pa.chunked_array([moments.cast(kind).take(encoded.indices)]), None


def _parsed(text: pa.Array, order: str) -> tuple[pa.Array, np.ndarray]:
    """Microseconds of texts, null where they are no such thing, and which have an offset from UTC."""
    parts = pc.extract_regex(pc.utf8_trim_whitespace(text), pattern=_MOMENT)

    def number(name: str, digits: int = 1) -> np.ndarray:
        padded = pc.utf8_rpad(parts.field(name), digits, "0")
        return pc.cast(padded.fill_null("nan"), pa.float64()).to_numpy(zero_copy_only=False)

    def has(name: str, pattern: str = ".") -> np.ndarray:
        return np.asarray(pc.match_substring_regex(parts.field(name).fill_null(""), pattern))

    hour = number("hour")
    minute = number("minute")
    second = number("second")
    halved = has("half")
    wrong = halved & ((hour < 1) | (hour > 12))
    hour = np.where(halved, hour % 12 + 12.0 * has("half", "[pP]"), hour)
    seconds = 3600.0 * hour + 60.0 * minute + second
    wrong |= (minute > 59) | (second > 60) | (seconds > _DAY_SECONDS)
    date = parts.field("date").fill_null("")
    zoned = has("zone")
    if order == "time":
        wrong |= ~has("hour") | np.asarray(pc.not_equal(date, ""))
        zoned = np.zeros(len(text), dtype=bool)
    else:
        ahead = 3600.0 * number("ahead") + 60.0 * number("minutes")
        seconds += _days(date, order) - np.where(has("sign", "-"), -ahead, ahead)
    wrong |= np.isnan(seconds)
    whole_seconds = np.where(wrong, 0.0, seconds).astype(np.int64)
    microseconds = np.where(wrong, 0.0, number("fraction", 6)).astype(np.int64)
    return pa.array(whole_seconds * 10**6 + microseconds, mask=wrong), zoned


def _days(text: pa.Array, order: str) -> np.ndarray:
    """The beginnings of days as seconds, NaN where a text is no date with a year of four digits."""
    dashes = pc.replace_substring_regex(text, "[ ,./-]+", "-")
    four = np.asarray(pc.match_substring_regex(dashes, "(^|-)[0-9]{4}(-|$)"))
    late = np.asarray(pc.match_substring_regex(dashes, "(^|-)(29|30|31)(-|$)"))

    def parsed(form: str) -> np.ndarray:
        moments = pc.strptime(dashes, format=form, unit="s", error_is_null=True)
        rolled = np.asarray(pc.less_equal(pc.day(moments), 3).fill_null(False)) & late  # February 30th
        return np.where(four & ~rolled, _counted(moments), np.nan)

    readings = [parsed(_BY_ORDER[name]) for name in ([order] if order in _BY_ORDER else _BY_ORDER)]
    first = readings[0]
    last = readings[-1]
    differ = ~np.isnan(first) & ~np.isnan(last) & (first != last)
    days = np.where(np.isnan(first), last, first)
    for form in _CLEAR:
        if np.isnan(days).any():
            days = np.where(np.isnan(days), parsed(form), days)
    return np.where(differ, np.nan, days)
