"""What the rows are like, and what a person should be warned of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onefold.facts.leaks import FEWEST_ROWS, UNEXPLAINED, left_by_groups, left_by_numbers
from onefold.facts.words import counted, in_words, percent, shortened
from onefold.report.columns import Column

_MANY_DISTINCT = 0.95  # of the rows: a text column with so many values names rows
_FEWEST_DISTINCT = 20
_RARE_ROWS, _RARE_SHARE = 10, 0.01
_FAR = 6.0  # robust standard deviations
_NEAR_MODEL, _MUCH = 0.95, 0.5  # of what the model explains, by one column that explains much
_NAMED = 6
_MOST_VALUES = 300_000  # of all columns together, that columns are tried alone with


def data_facts(
    columns: Sequence[Column],
    y: np.ndarray,
    classes: np.ndarray | None,
    duplicates: dict[str, int],
    explained: float | None,
) -> dict[str, Any]:
    """Columns with gaps and their like, the target, and warnings, the gravest first.

    `explained` is the share of a constant prediction's loss that the whole model explains.
    """
    told = alone(columns, y, classes is not None)
    facts: dict[str, Any] = {
        "columns": len(columns),
        "numeric": sum(one.categories is None for one in columns),
        "missing": {one.name: int(one.absent.sum()) for one in columns if one.absent.any()},
        "constant": [one.name for one in columns if one.distinct <= 1],
        "identifiers": [one.name for one in columns if identifies(one)],
        "alone": told,
        "leaks": [name for name, share in told.items() if share > 1.0 - UNEXPLAINED],
        "duplicates": duplicates,
    }
    facts["nearly_all"] = _nearly_all(told, facts["leaks"], explained)
    facts |= {"classes": class_counts(y, classes)} if classes is not None else _of_numbers(y)
    return facts | {"warnings": warnings_of(facts, len(y))}


def alone(columns: Sequence[Column], y: np.ndarray, classifier: bool) -> dict[str, float]:
    """The share that each column explains all by itself, the largest first; none with few rows.

    Of tables with many values some rows at equal distances are looked at.
    """
    if len(columns) < 2 or y.ndim > 1:
        return {}
    step = max(1, len(y) * len(columns) // _MOST_VALUES)
    part = y[::step]
    if len(part) < FEWEST_ROWS:
        return {}
    codes = np.unique(part, return_inverse=True)[1] if classifier else part
    found = {}
    for one in columns:
        values = one.at(slice(None, None, step)).filled()
        left_by = left_by_numbers if one.categories is None else left_by_groups
        found[one.name] = 1.0 - left_by(values, codes, not classifier)
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def identifies(column: Column) -> bool:
    """Whether the values tell rows apart: nearly all texts differ, or all numbers and they are whole."""
    n, distinct = len(column.values), column.distinct
    if n < _FEWEST_DISTINCT:
        return False
    if column.categories is not None:
        return distinct > _MANY_DISTINCT * n
    values = column.values
    return distinct == n and bool(np.all(values == np.round(values)) and values.min() >= 0)


def class_counts(y: np.ndarray, classes: np.ndarray) -> dict[str, int]:
    """Rows of each class."""
    return {str(label): int(np.sum(y == label)) for label in classes}


def _of_numbers(y: np.ndarray) -> dict[str, Any]:
    """Where the targets lie, and how many lie far from all others."""
    first = y.reshape(len(y), -1)[:, 0]
    middle = float(np.median(first))
    spread = 1.4826 * float(np.median(np.abs(first - middle)))
    far = np.abs(first - middle) > _FAR * spread if spread > 0 else np.zeros(len(y), dtype=bool)
    low, high = float(first.min()), float(first.max())
    target = {"mean": float(first.mean()), "median": middle, "lowest": low, "highest": high}
    rows = np.flatnonzero(far)
    return {"target": target, "outliers": {"rows": len(rows), "first": [int(i) for i in rows[:_NAMED]]}}


def _nearly_all(told: dict[str, float], leaks: list[str], explained: float | None) -> list[str]:
    if explained is None or not np.isfinite(explained):
        return []
    enough = max(_MUCH, _NEAR_MODEL * explained)
    return [name for name, share in told.items() if share >= enough and name not in leaks]


def warnings_of(facts: dict[str, Any], n: int) -> list[str]:
    """Sentences with the cause and the remedy."""
    found = []
    if facts["leaks"]:
        names = facts["leaks"]
        found.append(
            f"{_quoted(names)} {_verb(names, 'tells', 'each tell')} the target almost perfectly alone; "
            "if that is not known when predictions are made, leave it out"
        )
    if facts["nearly_all"]:
        names = facts["nearly_all"]
        found.append(
            f"{_quoted(names)} {_verb(names, 'predicts', 'each predict')} nearly as well alone as the "
            "whole model; make sure that it is known when predictions are made"
        )
    copies = facts["duplicates"]
    if copies["across"]:
        found.append(
            f"{counted(copies['across'], 'held-out row')} ({percent(copies['across'] / n)}) had an "
            f"equal row in training, {_how_many(copies)} with the same target, so scores may flatter; "
            "remove copies, or keep them together with a grouped splitter"
        )
    if facts["identifiers"]:
        names = facts["identifiers"]
        found.append(
            f"{_quoted(names)} {_verb(names, 'has', 'have')} a different value in nearly every row, "
            "like an identifier; leave it out unless it means something"
        )
    if facts["constant"]:
        names = facts["constant"]
        found.append(f"{_quoted(names)} {_verb(names, 'is', 'are')} the same in every row")
    return [*found, *_target_warnings(facts, n), *_gap_warnings(facts, n)]


def _how_many(copies: dict[str, int]) -> str:
    """How many of the rows with a copy have its target too."""
    same, across = copies["same_target"], copies["across"]
    if across == 1:
        return "and" if same else "but not"
    return "all of them" if same == across else f"{same} of them" if same else "none of them"


def _target_warnings(facts: dict[str, Any], n: int) -> list[str]:
    found = []
    counts, few = facts.get("classes", {}), max(_RARE_ROWS, _RARE_SHARE * n)
    rare = [label for label, rows in counts.items() if rows < few]
    if rare:
        noun = _verb(rare, "class", "classes")
        found.append(f"few rows of the {noun} {_quoted(rare)}: what is said of such rows is uncertain")
    far = facts.get("outliers", {"rows": 0})["rows"]
    if far:
        lie = "lies" if far == 1 else "lie"
        found.append(
            f"{counted(far, 'target')} {lie} far from the others (more than {_FAR:g} robust standard "
            "deviations from the median), and squared errors go mostly by such rows"
        )
    return found


def _gap_warnings(facts: dict[str, Any], n: int) -> list[str]:
    gaps = sorted(facts["missing"], key=lambda name: -facts["missing"][name])
    if not gaps:
        return []
    return [f"values are missing in {_quoted(gaps)}, {percent(facts['missing'][gaps[0]] / n)} at most"]


def _verb(names: Sequence[str], one: str, several: str) -> str:
    return one if len(names) == 1 else several


def _quoted(names: Sequence[str]) -> str:
    shown = [f"'{shortened(name)}'" for name in names[:_NAMED]]
    if len(names) > _NAMED:
        shown.append(f"{len(names) - _NAMED} more")
    return in_words(shown)
