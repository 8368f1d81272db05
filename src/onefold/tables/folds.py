"""Which rows of a table are held out together."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from onefold.heldout import GapKFold
from onefold.tables.errors import Remedy, TableError


def folds_of(
    cv: Any, y: np.ndarray, *, classes: bool, groups: Any = None, seed: Any = 0, gap: int | None = None
) -> tuple[Any, str]:
    """The ``cv`` argument of an estimator, and what it is in words.

    Parameters
    ----------
    cv : int, "loo" or anything else
        A number of folds: shuffled, evenly by class, unless there are groups or a gap. Anything else but
        "loo" is left to the estimator.
    y : array (n,) or (n, targets)
    classes : bool
        Whether y holds labels.
    groups : array (n,), optional
        Rows of one group stay together.
    seed : int, RandomState or None
        Of the shuffle.
    gap : int, optional
        Folds are blocks of consecutive rows, with so many left out around each.
    """
    if isinstance(cv, str) and cv == "loo":
        if groups is not None or gap is not None:
            raise TableError("groups and ordered rows need a number of folds", [Remedy("cv", 5)])
        return "loo", "leave-one-out"
    if isinstance(cv, bool) or not isinstance(cv, int | np.integer):
        return cv, "folds as given"
    cv, n = int(cv), len(y)
    if cv > n:
        raise TableError(
            f"{cv} folds need at least {cv} rows, and the table has {n} (n_samples={n})", _fewer(n)
        )
    if groups is not None:
        if gap is not None:
            raise TableError("ordered rows and groups exclude each other; leave one of them out")
        n_groups = len(np.unique(groups))
        if n_groups < cv:
            raise TableError(
                f"{cv} folds need at least {cv} groups, and there are {n_groups}", _fewer(n_groups)
            )
        return GroupKFold(cv), f"{cv}-fold, groups kept together"
    if gap is not None:
        words = f" with {gap} rows left out around each" if gap else ""
        return GapKFold(cv, gap), f"{cv} blocks of consecutive rows{words}"
    if not classes:
        return KFold(cv, shuffle=True, random_state=seed), f"{cv}-fold"
    _, counts = np.unique(y, return_counts=True)
    if counts.max() < cv:
        raise TableError(
            f"{cv} folds need a class with at least {cv} rows, and the largest has {counts.max()}",
            [*_fewer(int(counts.max())), Remedy("cv", "loo")],
        )
    return StratifiedKFold(cv, shuffle=True, random_state=seed), f"{cv}-fold"


def _fewer(folds: int) -> list[Remedy]:
    return [Remedy("cv", folds)] if folds > 1 else []
