"""Scores and numbers as people read them; every command uses the same words for the same number."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from onefold.cli.values import power_of_two

__all__ = [
    "counted",
    "decimal",
    "json_text",
    "number_words",
    "percent",
    "score_label",
    "score_text",
    "score_words",
]

_ROUNDING = 1e-9
_ACCURACY = {"error": "accuracy", "accuracy": "accuracy", "balanced_accuracy": "balanced accuracy"}
_SQUARED = {"mse", "neg_mean_squared_error"}
_ROOT = "neg_root_mean_squared_error"
# Criteria that are errors, their score therefore negative; scikit-learn's begin with "neg_".
_LOSSES = {"press", "gcv", "cost", "cov", "mape"}


def score_label(criterion: str) -> str:
    """What a criterion measures: ``accuracy`` for the error rate, ``RMSE`` for the squared error."""
    if criterion in _ACCURACY:
        return _ACCURACY[criterion]
    if criterion in _SQUARED or criterion == _ROOT:
        return "RMSE"
    if criterion == "r2":
        return "R2"
    return criterion.removeprefix("neg_").replace("_", " ")


def score_text(criterion: str, score: float) -> str:
    """A criterion's score, greater being better, as the number that `score_label` names."""
    if criterion in _ACCURACY:
        return percent(1.0 + score if criterion == "error" else score)
    if criterion in _SQUARED:
        return f"{math.sqrt(max(-score, 0.0)):.4g}"
    if criterion == "r2":
        return decimal(score)
    loss = criterion in _LOSSES or criterion.startswith("neg_")
    return f"{(-score if loss else score) + 0.0:.4g}"


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
