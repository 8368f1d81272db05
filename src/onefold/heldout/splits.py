"""Which rows are held out together, from anything scikit-learn calls a cross-validation."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import LeaveOneOut, check_cv


@dataclass(frozen=True)
class Splits:
    """The test rows of every split, and for each the rows that its training part leaves out.

    Attributes
    ----------
    n : int
        Number of rows.
    tests : list of int arrays
        Rows to be scored together; empty for pooled leave-one-out, where that is every row.
    left_out : list of int arrays
        The complement of each training part, sorted; contains the test rows.
    leave_one_out : bool
        Each row alone, in order: there is a closed form that needs no blocks.
    pooled : bool
        Score all test rows together rather than split by split.
    """

    n: int
    tests: list[Any]
    left_out: list[Any]
    leave_one_out: bool
    pooled: bool

    def __len__(self) -> int:
        return 1 if self.pooled else len(self.tests)

    def parts(self) -> Any:
        """The rows left out of training together, in turn: a list of arrays, or one (n, 1) array."""
        return np.arange(self.n)[:, None] if self.leave_one_out else self.left_out

    def scored_rows(self) -> list[Any]:
        """The rows behind each score."""
        return [np.arange(self.n)] if self.pooled else self.tests


def make_splits(
    cv: Any,
    n: int,
    y: Any,
    *,
    classes: Callable[[Any], Any] | None = None,
    groups: Any = None,
) -> Splits:
    """Resolve `cv` for `n` rows.

    Parameters
    ----------
    cv : int, "loo", splitter or iterable of (train, test)
        An integer is stratified for a classifier, as in scikit-learn. ``"loo"`` scores all
        held-out predictions together; ``LeaveOneOut()`` scores row by row.
    y : array
        Labels or targets, for splitters that look at them.
    classes : function, optional
        For a classifier: labels of the given rows; training parts with one class are refused.
    groups : array, optional
        For grouped splitters.
    """
    if isinstance(cv, str):
        if cv != "loo":
            raise ValueError(f'cv must be a number of folds, "loo" or a splitter; got {cv!r}.')
        return _leave_one_out(n, y, classes, pooled=True)
    if isinstance(cv, numbers.Integral) and not isinstance(cv, bool) and not 2 <= int(cv) <= n:
        raise ValueError(
            f"cv={cv} must be at least 2 and at most the number of rows, n_samples={n}; "
            'use fewer folds or cv="loo".'
        )
    splitter = check_cv(cv, y, classifier=classes is not None)
    if isinstance(splitter, LeaveOneOut):
        return _leave_one_out(n, y, classes, pooled=False)
    tests, left_out = [], []
    for number, (train, test) in enumerate(splitter.split(np.zeros((n, 1)), y, groups)):
        train, test = _as_rows(train, n, number, "training"), _as_rows(test, n, number, "test")
        inside = np.zeros(n, dtype=bool)
        inside[train] = True
        if inside.sum() != train.size:
            raise ValueError(f"split {number} trains on a row twice; give sample_weight instead.")
        if inside[test].any():
            raise ValueError(f"split {number} tests rows that it trains on.")
        if not train.size or not test.size:
            raise ValueError(f"split {number} has no rows to {'test' if train.size else 'train on'}.")
        _check_classes(classes, train, number)
        tests.append(test)
        left_out.append(np.flatnonzero(~inside))
    if not tests:
        raise ValueError("the cross-validation gave no split at all.")
    return Splits(n, tests, left_out, leave_one_out=False, pooled=False)


def _leave_one_out(n: int, y: Any, classes: Any, *, pooled: bool) -> Splits:
    if n < 2:
        raise ValueError(f"leave-one-out needs at least 2 rows; there is {n}.")
    if classes is not None:
        values, counts = np.unique(classes(np.arange(n)), return_counts=True)
        if values.size == 2 and counts.min() == 1:
            number = int(np.flatnonzero(classes(np.arange(n)) == values[counts.argmin()])[0])
            _check_classes(classes, np.delete(np.arange(n), number), number)
    # Scored together, the rows need no lists of their own, which would cost more than the solve.
    rows = [] if pooled else list(np.arange(n)[:, None])
    return Splits(n, rows, rows, leave_one_out=True, pooled=pooled)


def _as_rows(index: Any, n: int, number: int, what: str) -> Any:
    rows = np.asarray(index)
    if rows.dtype == bool:
        rows = np.flatnonzero(rows)
    if rows.size and (rows.min() < -n or rows.max() >= n):
        raise ValueError(f"split {number}: the {what} rows reach beyond the {n} rows of X.")
    return np.asarray(rows % n if rows.size else rows, dtype=np.intp)


def _check_classes(classes: Callable[[Any], Any] | None, train: Any, number: int) -> None:
    if classes is None:
        return
    present = np.unique(classes(train))
    if present.size < 2:
        raise ValueError(
            f"the training part of split {number} has one class only ({present[0].item()!r}); "
            "use a stratified splitter, fewer folds or more rows of the rare class."
        )
