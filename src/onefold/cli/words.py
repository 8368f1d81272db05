"""Scores and numbers as people read them; every command uses the same words for the same number."""

from __future__ import annotations

from onefold.facts.criteria import shown
from onefold.facts.words import counted, decimal, json_text, number_words, percent, power_of_two

__all__ = [
    "counted",
    "decimal",
    "json_text",
    "number_words",
    "percent",
    "power_of_two",
    "score_label",
    "score_text",
    "score_words",
]


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
