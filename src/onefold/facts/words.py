"""Numbers, names and lists of them as people read them, the same in every command and page."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

# Differences that are rounding errors of sums over folds.
_ROUNDING = 1e-9


def percent(share: float) -> str:
    """A share in percent with two decimals, or more if it would be printed as 0 or 100 %."""
    if not math.isfinite(share):
        return "undefined"
    # Sums over folds miss 0 and 1 by rounding, and -0 would be printed with its sign.
    if abs(share) < _ROUNDING:
        share = 0.0
    elif abs(share - 1.0) < _ROUNDING:
        share = 1.0
    digits = 2
    while digits < 8 and 0 < share < 1 and round(100 * share, digits) in (0.0, 100.0):
        digits += 1
    return f"{share:.{digits}%}"


def readable(value: float) -> str:
    """A number with four digits, or all digits before the point up to 10⁹."""
    if not math.isfinite(value):
        return "undefined"
    return f"{value:,.0f}" if 9999.5 <= abs(value) < 1e9 else f"{value:.4g}"


def thousandths(value: float) -> str:
    """A number with three decimals, or more if it would be printed as 1."""
    if not math.isfinite(value):
        return "undefined"
    digits = 3
    while digits < 8 and abs(value - 1.0) > _ROUNDING and round(value, digits) == 1.0:
        digits += 1
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text


def power_of_two(value: float) -> str:
    """A value as people read grids: ``2^-3`` where it is a power of two, else four digits."""
    exponent = math.log2(value) if value > 0 else math.nan
    if abs(exponent - np.round(exponent)) < _ROUNDING:
        return f"2^{round(exponent)}"
    return f"{value:.4g}"


def number_words(value: float) -> str:
    """A grid value as a power of two and as a decimal number."""
    power = power_of_two(value)
    return f"{power} = {value:.4g}" if "^" in power else power


def counted(number: int, noun: str) -> str:
    """A number with its noun in the singular or the plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def quoted(names: Iterable[str], most: int = 6, last: str = " and ") -> str:
    """Names in quotes: 'a', 'b' and 'c', with `last` before the last one; the first few of many."""
    items = [f"'{shortened(name)}'" for name in names]
    if len(items) > most:
        return f"{', '.join(items[:most])} and {len(items) - most} more"
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])}{last}{items[-1]}"


def similar_names(name: str, choices: Iterable[str], most: int) -> list[str]:
    """The choices that are similar to `name`, in upper or lower case, the most similar first."""
    by_lower_case = {choice.lower(): choice for choice in choices}
    matches = difflib.get_close_matches(name.lower(), by_lower_case, n=most)
    return [by_lower_case[match] for match in matches]


def did_you_mean(name: str, choices: Iterable[str], most: int = 3) -> str | None:
    """A question with the choices that are similar to `name`; None if there are none."""
    similar = similar_names(name, choices, most)
    if not similar:
        return None
    suggestions = " or ".join(f"'{choice}'" for choice in similar)
    return f"did you mean {suggestions}?"


def shortened(name: str, most: int = 60) -> str:
    """A name that fits into a sentence, on one line."""
    name = " ".join(name.splitlines())
    return name if len(name) <= most else f"{name[: most - 1]}…"


def aligned(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Two columns, indented, the first as wide as its widest entry."""
    width = max((len(label) for label, _ in rows), default=0)
    return [f"  {label.ljust(width)}  {text}" for label, text in rows]


def json_text(facts: dict[str, Any]) -> str:
    """One JSON object in a line; NaN and infinity, which JSON does not have, become null."""
    return json.dumps(json_value(facts), allow_nan=False)


def json_value(value: Any) -> Any:
    """The value in types of JSON: dicts, lists, text, finite numbers, null."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
