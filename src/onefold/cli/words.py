"""Scores and numbers as people read them; every command uses the same words for the same number."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from onefold.cli.values import power_of_two
from onefold.jobs.criterion import shown

_ROUNDING = 1e-9


def score_label(criterion: str) -> str:
    """What a criterion measures: ``accuracy`` for the error rate, ``RMSE`` for the squared error."""
    return shown(criterion).label


def score_text(criterion: str, score: float) -> str:
    """A criterion's score, greater being better, as the number that `score_label` names."""
    meaning = shown(criterion)
    number = meaning.number(score)
    if meaning.style == "share":
        return percent(number)
    return decimal(number) if meaning.style == "decimal" else f"{number + 0.0:.4g}"


def score_words(criterion: str, score: float) -> str:
    """Label and number together."""
    return f"{score_label(criterion)} {score_text(criterion, score)}"


def percent(share: float) -> str:
    """A share in percent; two decimals, or as many as it takes to tell it from none and all."""
    if not math.isfinite(share):
        return "undefined"
    # Sums of folds miss 0 and 1 by rounding, and a share has no sign to show.
    share = 0.0 if abs(share) < _ROUNDING else 1.0 if abs(share - 1.0) < _ROUNDING else share
    digits = 2
    while digits < 8 and 0 < share < 1 and round(100 * share, digits) in (0.0, 100.0):
        digits += 1
    return f"{share:.{digits}%}"


def decimal(value: float) -> str:
    """Four decimals, a plain zero where nothing else is left of a number."""
    if not math.isfinite(value):
        return "undefined"
    return f"{value:.4f}" if abs(value) >= 5e-5 else "0.0000"


def number_words(value: float) -> str:
    """A grid value as a power of two and as a decimal number."""
    power = power_of_two(value)
    return f"{power} = {value:.4g}" if "^" in power else power


def counted(number: int, noun: str) -> str:
    """A number with its noun in the singular or the plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def json_text(facts: dict[str, Any]) -> str:
    """One JSON object in a line; NaN and infinity, which JSON does not have, become null."""
    return json.dumps(_finite(facts), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_finite(item) for item in value]
    if isinstance(value, np.generic):
        return _finite(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
