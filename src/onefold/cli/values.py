"""Option values: numbers, grids of numbers, folds."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Names:
    """Names to choose from, looked up when they are asked for."""

    def __init__(self, look_up: Callable[[], list[str]]) -> None:
        self._look_up = look_up

    def __iter__(self) -> Iterator[str]:
        return iter(self._look_up())

    def __contains__(self, name: object) -> bool:
        return name in self._look_up()


def approximations() -> list[str]:
    """The approximations that can choose a model."""
    from onefold.approximations import registered

    return [name for name, kind in registered().items() if kind.selects]


def search_methods() -> list[str]:
    """The ways to go through a grid."""
    from onefold.search.strategies import STRATEGIES

    return list(STRATEGIES)


def grid(text: str) -> list[float]:
    """Positive numbers: ``0.1,1,10`` or log-spaced ``2^-15:2^9:13`` (first : last : how many)."""
    values: list[float] = []
    for part in text.split(","):
        pieces = part.split(":")
        if len(pieces) == 1:
            values.append(_number(part))
        elif len(pieces) == 3:
            first, last = _number(pieces[0]), _number(pieces[1])
            values.extend(float(v) for v in np.geomspace(first, last, positive_int(pieces[2])))
        else:
            raise argparse.ArgumentTypeError(
                f"'{part}' is neither a number nor FIRST:LAST:COUNT (as in 2^-15:2^9:13)"
            )
    return values


def folds(text: str) -> int | Literal["loo"]:
    """A number of folds, or ``loo`` for leave-one-out."""
    if text == "loo":
        return "loo"
    return _integer(text, lambda value: value >= 2, "is neither 'loo' nor a number of folds (≥ 2)")


def path(text: str) -> Path:
    """A path; none at all, as an unset variable of the shell leaves it, is not the current directory."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty; give a path, or . for this directory")
    return Path(text)


def share(text: str) -> float:
    """A number between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no share between 0 and 1, such as 0.2")
    return value


def positive_int(text: str) -> int:
    """A whole number from 1."""
    return _integer(text, lambda value: value >= 1, "is not a whole number from 1")


def whole_number(text: str) -> int:
    """A whole number from 0."""
    return _integer(text, lambda value: value >= 0, "is not a whole number from 0")


def seed(text: str) -> int:
    """A whole number that random generators start from."""
    value = whole_number(text)
    if value >= 2**32:
        raise argparse.ArgumentTypeError(f"'{text}' is too large for a seed (below 2^32)")
    return value


def duration(text: str) -> float:
    """Seconds: ``90``, ``90s``, ``5m`` or ``2h``."""
    number, unit = text.strip(), 1.0
    if number[-1:] in _UNITS:
        number, unit = number[:-1], _UNITS[number[-1:]]
    try:
        value = float(number) * unit
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is no duration: give seconds, or as in 90s, 5m, 2h")
    return value


def threads(text: str) -> int:
    """A number of threads; negative ones count down from all cores, as in scikit-learn."""
    refusal = "is no number of threads: give 1, 2, … or -1 for all"
    return _integer(text, lambda value: value != 0, refusal)


def _number(text: str) -> float:
    base, power, exponent = text.strip().partition("^")
    try:
        value = float(base) ** float(exponent) if power else float(base)
    except (ValueError, OverflowError, ZeroDivisionError):
        value = math.nan
    if not (isinstance(value, float) and 0 < value < math.inf):
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number (as in 0.5 or 2^-3)")
    return value


def _integer(text: str, accepted: Callable[[int], bool], refusal: str) -> int:
    try:
        value: int | None = int(text)
    except ValueError:
        value = None
    if value is None or not accepted(value):
        raise argparse.ArgumentTypeError(f"'{text}' {refusal}")
    return value
