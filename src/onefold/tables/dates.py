"""Dates and times: what they are in text, and all of them as seconds.

Years come first, or day and month are in one order throughout a column; 3/4/2024 alone could be in March
or in April, and nothing is guessed. Month names are English. A column that knows its zone is taken by
the clocks there, also where the same instants come in another zone later; times with an offset from UTC
are instants, by the clocks of UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Of a column of text: which of day and month is first; times of day alone.
ORDERS = ("dmy", "mdy", "time")
UNSETTLED = "ymd"  # no value has told which is first: those that could be either are refused

# Once blanks, points, slashes and commas are dashes; %b is a month's name, whole or the start of it.
_CLEAR = ("%Y-%m-%d", "%Y-%b-%d", "%d-%b-%Y", "%b-%d-%Y", "%b-%Y")
_BY_ORDER = {"dmy": "%d-%m-%Y", "mdy": "%m-%d-%Y"}
_CLOCK = (
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}(?:[.,][0-9]+)?))?"
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
_LOOKED_AT = 1000  # values of a block that show what a column mostly is
_DAY_SECONDS = 86_400.0


def order_in(dayfirst: bool | None) -> str:
    """The order of day and month that an option says."""
    return UNSETTLED if dayfirst is None else "dmy" if dayfirst else "mdy"


def is_moment(value: str) -> bool:
    """Whether a text is a date or a time in one of the usual ways of writing them."""
    value = value.strip()
    return bool(value and _DATE_LIKE.fullmatch(value))


def text_seconds(text: pa.ChunkedArray, order: str) -> tuple[np.ndarray, str, int | None]:
    """Seconds of every value, NaN where it is null, in UTC where values have an offset.

    Then "UTC" or "" for none, and the position of the first value that is no date, or that has an offset
    where those before have none.
    """
    fast = _iso_seconds(text) if order != "time" else None
    if fast is not None:
        return *fast, None
    encoded = pc.dictionary_encode(text.combine_chunks())  # different values in the order of the rows
    codes = pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy()
    for part in (encoded.dictionary[:_LOOKED_AT], encoded.dictionary):  # a few values mostly settle it
        values, zoned = _seconds(part, order)
        odd = np.flatnonzero(np.isnan(values) | (zoned != zoned[:1]))
        if len(odd):
            return np.full(len(text), np.nan), "", int(np.flatnonzero(codes == odd[0])[0])
    return np.append(values, np.nan)[codes], "UTC" if zoned[:1].any() else "", None


def zone_of(column: pa.ChunkedArray) -> str:
    """The time zone of a column of dates or timestamps, "" for none."""
    return (column.type.tz if pa.types.is_timestamp(column.type) else None) or ""


def typed_seconds(column: pa.ChunkedArray, zone: str = "") -> np.ndarray:
    """Dates, timestamps or times of day as seconds, by the clocks of the zone, NaN where null."""
    kind = column.type
    if zone:
        column = pc.local_timestamp(pc.cast(column, pa.timestamp("us", zone), safe=False))
    whole = pa.time64("us") if pa.types.is_time(kind) else pa.timestamp("us")
    counted = pc.cast(pc.cast(column, whole, safe=False), pa.int64())
    return pc.cast(counted, pa.float64(), safe=False).to_numpy(zero_copy_only=False) / 1e6


def by_clocks(seconds: np.ndarray, zone: str) -> np.ndarray:
    """Seconds in UTC as those that the clocks of a zone show."""
    if zone in ("", "UTC"):
        return seconds
    known = ~np.isnan(seconds)
    moments = np.round(np.where(known, seconds, 0.0) * 1e6).astype(np.int64)
    column = pa.chunked_array([pa.array(moments).cast(pa.timestamp("us", "UTC"))])
    return np.where(known, typed_seconds(column, zone), np.nan)


def phases(seconds: np.ndarray, cycle: str) -> np.ndarray:
    """How far each moment is in its year, week or day, from 0 to 1; weeks begin on Mondays."""
    if cycle == "day":
        return np.asarray(np.mod(seconds, _DAY_SECONDS) / _DAY_SECONDS)
    if cycle == "week":
        return np.asarray(np.mod(seconds / _DAY_SECONDS + 3.0, 7.0) / 7.0)
    moment = np.floor(seconds).astype("int64").astype("datetime64[s]")
    year = moment.astype("datetime64[Y]")
    begin, end = year.astype("datetime64[s]"), (year + 1).astype("datetime64[s]")
    return np.asarray((moment - begin).astype(np.float64) / (end - begin).astype(np.float64))


def tell_apart(values: Iterable[str]) -> tuple[int, int]:
    """How many of the first texts are dates or times, and how many are not."""
    found = [is_moment(value) for value in islice(values, _LOOKED_AT)]
    return sum(found), len(found) - sum(found)


def _iso_seconds(text: pa.ChunkedArray) -> tuple[np.ndarray, str] | None:
    """The same for a block of dates with the year first, many times faster; None for others."""
    for zone in (None, "UTC"):
        try:
            moments = pc.cast(text, pa.timestamp("us", zone))
        except pa.ArrowInvalid:
            continue
        seconds = pc.cast(pc.cast(moments, pa.int64()), pa.float64(), safe=False).to_numpy() / 1e6
        return seconds, zone or ""
    return None


def _seconds(text: pa.Array, order: str) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of texts, NaN where they are no such thing, and which of them have an offset from UTC."""
    parts = pc.extract_regex(pc.utf8_trim_whitespace(text), pattern=_MOMENT)
    hour, minute, second, ahead, minutes = (
        _numbers(parts.field(name)) for name in ("hour", "minute", "second", "ahead", "minutes")
    )
    timed, halved, late, zoned, west = (
        np.asarray(pc.match_substring_regex(parts.field(name).fill_null(""), pattern))
        for name, pattern in (
            ("hour", "."),
            ("half", "."),
            ("half", "[pP]"),
            ("zone", "."),
            ("sign", "-"),
        )
    )
    wrong = halved & ((hour < 1) | (hour > 12))
    hour = np.where(halved, hour % 12 + 12.0 * late, hour)
    seconds = 3600.0 * hour + 60.0 * minute + second
    wrong |= (minute > 59) | (second >= 61) | (seconds > _DAY_SECONDS)
    date = parts.field("date").fill_null("")
    if order == "time":
        wrong |= ~timed | np.asarray(pc.not_equal(date, ""))
        return np.where(wrong, np.nan, seconds), np.zeros(len(text), dtype=bool)
    seconds -= np.where(west, -1.0, 1.0) * (3600.0 * ahead + 60.0 * minutes)
    return np.where(wrong, np.nan, _days(date, order) + seconds), zoned


def _days(text: pa.Array, order: str) -> np.ndarray:
    """The beginnings of days as seconds, NaN where a text is no date with a year of four digits."""
    dashes = pc.replace_substring_regex(text, "[ ,./-]+", "-")
    four = np.asarray(pc.match_substring_regex(dashes, "(^|-)[0-9]{4}(-|$)"))
    late = np.asarray(pc.match_substring_regex(dashes, "(^|-)(29|30|31)(-|$)"))

    def parsed(form: str) -> np.ndarray:
        moments = pc.strptime(dashes, format=form, unit="s", error_is_null=True)
        rolled = np.asarray(pc.less_equal(pc.day(moments), 3).fill_null(False)) & late  # February 30th
        days = pc.cast(pc.cast(moments, pa.int64()), pa.float64(), safe=False).to_numpy(
            zero_copy_only=False
        )
        return np.where(four & ~rolled, days, np.nan)

    either = [parsed(_BY_ORDER[one]) for one in ([order] if order in _BY_ORDER else _BY_ORDER)]
    differ = ~np.isnan(either[0]) & ~np.isnan(either[-1]) & (either[0] != either[-1])
    days = np.where(np.isnan(either[0]), either[-1], either[0])
    for form in _CLEAR:
        if np.isnan(days).any():
            days = np.where(np.isnan(days), parsed(form), days)
    return np.where(differ, np.nan, days)


def _numbers(text: pa.Array) -> np.ndarray:
    plain = pc.replace_substring(pc.if_else(pc.equal(text, ""), "0", text), ",", ".")
    return pc.cast(plain.fill_null("nan"), pa.float64()).to_numpy(zero_copy_only=False)
