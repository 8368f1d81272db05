"""Dates and times: what they are in text, and all of them as seconds.

Years come first, or day and month are in one order throughout a column; 3/4/2024 alone could be in March
or in April, and nothing is guessed. Month names are English. A column that knows its zone is taken by
the clocks there, also where the same instants come in another zone later; times with an offset from UTC
are instants, by the clocks of UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Of a column of text: which of day and month is first; times of day alone.
ORDERS = ("dmy", "mdy", "time")
UNSETTLED = "ymd"  # no value has told which is first: those that could be either are refused

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?,? +)?"
_DAY = r"[0-9]{1,2}(?:st|nd|rd|th|\.)?"
_YEAR = r"(?:'?[0-9]{2}|[0-9]{4})"
_ZONE = "(?P<zone> ?(?:z|utc|gmt|[-+][0-9]{2}:?[0-9]{2}))?"
_TIME = (
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}(?:[.,][0-9]+)?))?"
    rf"(?: ?(?P<half>[ap])\.?m\.?)?{_ZONE}"
)
_DATE = "|".join(
    (
        r"(?P<first>[0-9]{1,2})(?P<a>[./-])(?P<second_>[0-9]{1,2})(?P=a)(?P<y1>[0-9]{2}|[0-9]{4})",
        r"(?P<y2>[0-9]{4})(?P<b>[./-])(?P<m2>[0-9]{1,2})(?P=b)(?P<d2>[0-9]{1,2})",
        rf"(?P<d3>{_DAY})[ -](?P<m3>{_MONTH})[ ,-]+(?P<y3>{_YEAR})",
        rf"(?P<m4>{_MONTH})[ -](?P<d4>{_DAY})(?:, *| +|-)(?P<y4>{_YEAR})",
        rf"(?P<m5>{_MONTH})[ ,-]+(?P<y5>{_YEAR})",
        rf"(?P<y6>[0-9]{{4}})-(?P<m6>{_MONTH})-(?P<d6>[0-9]{{1,2}})",
    )
)
_CLOCK = re.compile(_TIME, re.IGNORECASE)
_MOMENT = re.compile(rf"{_WEEKDAY}(?:{_DATE})(?:(?:t|,? +){_TIME})?", re.IGNORECASE)
_EPOCH = date(1970, 1, 1).toordinal()
_LOOKED_AT = 1000  # values of a block that show whether a column is mostly dates
_DAY_SECONDS = 86_400.0


def is_moment(value: str) -> bool:
    """Whether a text is a date or a time in one of the usual ways of writing them."""
    value = value.strip()
    return bool(_MOMENT.fullmatch(value) or _CLOCK.fullmatch(value))


def seconds_of(value: str, order: str) -> float | None:
    """A text as seconds since 1970, or of the day for times of day; None if it is no such thing."""
    value = value.strip()
    if order == "time":
        alone = _CLOCK.fullmatch(value)
        return None if alone is None else _clock(alone)
    found = _MOMENT.fullmatch(value)
    if found is None:
        return None
    day, clock = _date(found, order), 0.0 if found["hour"] is None else _clock(found)
    return None if day is None or clock is None else day + clock - _offset(found["zone"])


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
    values, zones = np.full(len(encoded.dictionary) + 1, np.nan), list[str]()
    for place, value in enumerate(encoded.dictionary.to_pylist()):
        seconds = seconds_of(value, order)
        zones.append("UTC" if order != "time" and _has_offset(value) else "")
        if seconds is None or zones[-1] != zones[0]:
            return values[codes], zones[0], int(np.flatnonzero(codes == place)[0])
        values[place] = seconds
    return values[codes], zones[0] if zones else "", None


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


def _has_offset(value: str) -> bool:
    found = _MOMENT.fullmatch(value.strip())
    return found is not None and found["zone"] is not None


def _date(found: re.Match[str], order: str) -> float | None:
    if found["first"] is not None:
        year, day, month = found["y1"], found["first"], found["second_"]
        if order == UNSETTLED and int(day) != int(month):
            one, other = (_date(found, order) for order in ("dmy", "mdy"))
            return one if other is None else other if one is None else None
        if order == "mdy":
            day, month = month, day
    else:
        which = next(number for number in "23456" if found[f"y{number}"] is not None)
        year, month = found[f"y{which}"], found[f"m{which}"]
        day = found[f"d{which}"] if which != "5" else "1"
    if len(year) != 4:
        return None  # of which century?
    number = int(month) if month.isdigit() else _MONTHS.index(month[:3].lower()) + 1
    number_of_day = int(day if day.isdigit() else re.sub("[^0-9]", "", day))
    try:
        days = date(int(year), number, number_of_day).toordinal() - _EPOCH
    except ValueError:
        return None
    return days * _DAY_SECONDS


def _clock(found: re.Match[str]) -> float | None:
    hour, minute = int(found["hour"]), int(found["minute"])
    second = float((found["second"] or "0").replace(",", "."))
    if found["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if found["half"].lower() == "p" else 0)
    if hour > 24 or minute > 59 or second >= 61 or (hour == 24 and minute + second > 0):
        return None
    return 3600.0 * hour + 60.0 * minute + second


def _offset(zone: str | None) -> float:
    if zone is None:
        return 0.0
    digits = re.fullmatch(" ?([-+])([0-9]{2}):?([0-9]{2})", zone)
    if digits is None:
        return 0.0
    size = 3600.0 * int(digits[2]) + 60.0 * int(digits[3])
    return size if digits[1] == "+" else -size
