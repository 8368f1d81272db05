"""Dates and times in text, in the ways people write them.

They are only recognised, never converted: 3/4/2024 is in March here and in April there.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?,? +)?"
_DAY = r"[0-9]{1,2}(?:st|nd|rd|th|\.)?"
_YEAR = r"(?:'?[0-9]{2}|[0-9]{4})"
_ZONE = "(?: ?(?:z|utc|gmt|[-+][0-9]{2}:?[0-9]{2}))?"
_TIME = rf"[0-9]{{1,2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:[.,][0-9]+)?)?(?: ?[ap]\.?m\.?)?{_ZONE}"
_DATE = "|".join(
    (
        r"[0-9]{1,2}(?P<a>[./-])[0-9]{1,2}(?P=a)(?:[0-9]{2}|[0-9]{4})",
        r"[0-9]{4}(?P<b>[./-])[0-9]{1,2}(?P=b)[0-9]{1,2}",
        rf"{_DAY}[ -]{_MONTH}[ ,-]+{_YEAR}",
        rf"{_MONTH}[ -]{_DAY}(?:, *| +|-){_YEAR}",
        rf"{_MONTH}[ ,-]+{_YEAR}",
        rf"[0-9]{{4}}-{_MONTH}-[0-9]{{1,2}}",
    )
)
_ENOUGH = 100  # values that are no dates before the others need no look
_MOMENT = re.compile(rf"{_WEEKDAY}(?:{_DATE})(?:(?:t|,? +){_TIME})?|{_TIME}", re.IGNORECASE)


def is_moment(value: str) -> bool:
    """Whether a text is a date or a time."""
    return bool(_MOMENT.fullmatch(value.strip()))


def holds_dates(text: pa.ChunkedArray) -> bool:
    """Whether most of the different values of a text column are dates or times."""
    moments = others = 0
    for scalar in pc.unique(text):
        value = scalar.as_py()
        if value is None or not value.strip():
            continue
        if is_moment(value):
            moments += 1
        else:
            others += 1
        if others > _ENOUGH + moments:
            return False
    return moments > others
