"""Which rows are held out together, from anything scikit-learn calls a cross-validation."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.model_selection import LeaveOneOut, check_cv

from onefold.machine.warning import warn_user


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
    aside : list of int arrays
        The test rows of each split that are not in the problem, in the user's numbering; an empty list
        where the problem has every row.
    """

    n: int
    tests: list[Any]
    left_out: list[Any]
    leave_one_out: bool
    pooled: bool
    aside: list[Any] = field(default_factory=list)

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
    X: Any,
    y: Any,
    *,
    n: int,
    labels: Any | None = None,
    groups: Any = None,
    kept: Any | None = None,
) -> Splits:
    """Resolve `cv` for `n` rows.

    Parameters
    ----------
    cv : int, "loo", splitter or iterable of (train, test)
        An integer is stratified for a classifier, as in scikit-learn. ``"loo"`` scores all
        held-out predictions together; ``LeaveOneOut()`` scores row by row.
    X, y : as the user gave them
        For splitters that look at them.
    labels : NumPy array, optional
        For a classifier: the label of each row that is kept; training parts with one class are refused.
    groups : array, optional
        For grouped splitters.
    kept : NumPy array, optional
        Numbers of the rows that the problem keeps, of the `n` that the splitter sees: the splits are
        those of all rows, with the others taken out.
    """
    check_folds(cv, n)
    size = n if kept is None else kept.size
    if isinstance(cv, str):
        return _leave_one_out(size, labels, pooled=True)
    splitter = check_cv(cv, y, classifier=labels is not None)
    if isinstance(splitter, LeaveOneOut):
        return _leave_one_out(size, labels, pooled=False)
    return _gathered(splitter.split(X, y, groups), n, labels, kept)


def check_folds(cv: Any, n: int) -> None:
    """Raise for a word or a number of folds that means nothing for `n` rows."""
    if isinstance(cv, str) and cv != "loo":
        raise ValueError(f'cv must be a number of folds, "loo" or a splitter; got {cv!r}.')
    if isinstance(cv, numbers.Integral) and not isinstance(cv, bool) and not 2 <= int(cv) <= n:
        raise ValueError(
            f"cv={cv} must be at least 2 and at most the number of rows, n_samples={n}; "
            'use fewer folds or cv="loo".'
        )


def _gathered(pairs: Iterable[tuple[Any, Any]], n: int, labels: Any | None, kept: Any | None) -> Splits:
    """The splits of row numbers, checked one by one, in the numbering of the rows that are kept."""
    if kept is not None:  # where each row of the user's stands in the problem, -1 for nowhere
        place = np.full(n, -1)
        place[kept] = np.arange(kept.size)
    tests, left_out, aside, empty = [], [], [], []
    for number, (train, test) in enumerate(pairs):
        train, test, inside = _check_split(train, test, n, number)
        without = np.empty(0, dtype=np.intp)
        if kept is not None:
            train, without, test = place[train], test[place[test] < 0], place[test]
            train, test, inside = train[train >= 0], test[test >= 0], inside[kept]
            if not train.size:
                raise ValueError(f"split {number} trains on rows of weight 0 only; give them weight.")
        _check_classes(labels, train, number)
        if not test.size:
            empty.append(number)
            continue
        tests.append(test)
        left_out.append(np.flatnonzero(~inside))
        aside.append(without)
    if not tests:
        raise ValueError("the cross-validation gave no split with rows to test.")
    if empty:
        warn_user(
            f"split {', '.join(map(str, empty))} tests rows of weight 0 only and has no score; "
            "the mean is that of the other splits."
        )
    return Splits(
        n if kept is None else kept.size,
        tests,
        left_out,
        leave_one_out=False,
        pooled=False,
        aside=[] if kept is None else aside,
    )


def _check_split(train: Any, test: Any, n: int, number: int) -> tuple[Any, Any, Any]:
    """The row numbers of a split, and a mask of those trained on; raise unless both can be used."""
    train, test = _as_rows(train, n, number, "training"), _as_rows(test, n, number, "test")
    inside = np.zeros(n, dtype=bool)
    inside[train] = True
    if inside.sum() != train.size:
        raise ValueError(f"split {number} trains on a row twice; give sample_weight instead.")
    if inside[test].any():
        raise ValueError(f"split {number} tests rows that it trains on.")
    if not train.size or not test.size:
        raise ValueError(f"split {number} has no rows to {'test' if train.size else 'train on'}.")
    return train, test, inside


def _leave_one_out(n: int, labels: Any | None, *, pooled: bool) -> Splits:
    if n < 2:
        raise ValueError(f"leave-one-out needs at least 2 rows; there is {n}.")
    if labels is not None:
        values, counts = np.unique(labels, return_counts=True)
        if values.size == 2 and counts.min() == 1:
            number = int(np.flatnonzero(labels == values[counts.argmin()])[0])
            _check_classes(labels, np.delete(np.arange(n), number), number)
    # Scored together, the rows need no lists of their own, which would cost more than the solve.
    rows = [] if pooled else list(np.arange(n)[:, None])
    return Splits(n, rows, rows, leave_one_out=True, pooled=pooled)


def _as_rows(index: Any, n: int, number: int, what: str) -> Any:
    rows = np.asarray(index).reshape(-1)
    if rows.dtype == bool:
        if rows.size != n:
            raise ValueError(f"split {number}: the {what} mask has {rows.size} entries for {n} rows.")
        rows = np.flatnonzero(rows)
    if rows.size and rows.dtype.kind not in "iu":
        raise ValueError(f"split {number}: the {what} rows must be whole numbers; got {rows.dtype}.")
    if rows.size and (rows.min() < -n or rows.max() >= n):
        raise ValueError(f"split {number}: the {what} rows reach beyond the {n} rows of X.")
    return np.asarray(rows % n if rows.size else rows, dtype=np.intp)


def _check_classes(labels: Any | None, train: Any, number: int) -> None:
    if labels is None:
        return
    present = np.unique(labels[train])
    if present.size < 2:
        raise ValueError(
            f"the training part of split {number} has one class only ({present[0].item()!r}); "
            "use a stratified splitter, fewer folds or more rows of the rare class."
        )
