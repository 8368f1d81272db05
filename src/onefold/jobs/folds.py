"""Which rows are held out together, as the settings say."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.jobs.settings import Settings
from onefold.tables import Target
from onefold.tables.folds import folds_of


def choose_folds(settings: Settings, target: Target, groups: np.ndarray | None) -> tuple[Any, str]:
    """The ``cv`` argument of an estimator, and what it is in words."""
    gap = settings.gap if settings.ordered else None
    labels = target.task == "classification"
    cv, words = folds_of(
        settings.cv, target.values, classes=labels, groups=groups, seed=settings.seed, gap=gap
    )
    return cv, words.replace("groups kept", f"groups of '{settings.groups}' kept")


def few_rows_note(cv: int | str, target: Target) -> str | None:
    """A note if the smallest class cannot be in every fold."""
    if target.task == "regression" or isinstance(cv, str):
        return None
    labels, counts = np.unique(target.values, return_counts=True)
    fewest = int(counts.argmin())
    if counts[fewest] >= cv:
        return None
    if counts[fewest] == 1:
        alone = f"'{labels[fewest]}' has only one row"
        return f"{alone}, and no model that has not seen it can tell it: add rows"
    return (
        f"'{labels[fewest]}' has only {counts[fewest]} of the rows, fewer than the {cv} folds: some "
        "folds tell nothing about it (cv=N with fewer folds, or cv='loo', would)"
    )
