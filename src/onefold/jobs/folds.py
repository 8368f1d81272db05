"""Which rows are held out together."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from onefold.heldout import GapKFold
from onefold.jobs.settings import Settings
from onefold.tables import TableError, Target


def choose_folds(settings: Settings, target: Target, groups: np.ndarray | None) -> tuple[Any, str]:
    """The ``cv`` argument of an estimator, and what it is in words."""
    cv, n_rows = settings.cv, len(target.values)
    if cv == "loo":
        if groups is not None or settings.ordered:
            raise ValueError("--groups and --ordered need a number of folds: give --cv N, not loo")
        return "loo", "leave-one-out"
    if cv > n_rows:
        raise TableError(f"{cv} folds need at least {cv} rows; the table has {n_rows}: use --cv N")
    if groups is not None:
        if settings.ordered:
            raise ValueError("--groups and --ordered exclude each other: choose one")
        n_groups = len(np.unique(groups))
        if n_groups < cv:
            raise TableError(
                f"{cv} folds need at least {cv} groups; '{settings.groups}' has {n_groups}: use --cv N"
            )
        return GroupKFold(cv), f"{cv}-fold, groups of '{settings.groups}' kept together"
    if settings.ordered:
        gap = f" with {settings.gap} rows left out around each" if settings.gap else ""
        return GapKFold(cv, settings.gap), f"{cv} blocks of consecutive rows{gap}"
    if target.task == "regression":
        return KFold(cv, shuffle=True, random_state=settings.seed), f"{cv}-fold"
    _, counts = np.unique(target.values, return_counts=True)
    if counts.max() < cv:
        raise TableError(
            f"{cv} folds need a class with at least {cv} rows; the largest has {counts.max()}: "
            "use --cv N or --cv loo"
        )
    return StratifiedKFold(cv, shuffle=True, random_state=settings.seed), f"{cv}-fold"


def few_rows_note(cv: int | str, target: Target) -> str | None:
    """A note if the smallest class cannot be in every fold."""
    if target.task == "regression" or isinstance(cv, str):
        return None
    labels, counts = np.unique(target.values, return_counts=True)
    fewest = int(counts.argmin())
    if counts[fewest] >= cv:
        return None
    return (
        f"'{labels[fewest]}' has only {counts[fewest]} of the rows, fewer than the {cv} folds: some "
        "folds tell nothing about it (--cv N with fewer folds, or --cv loo, would)"
    )
