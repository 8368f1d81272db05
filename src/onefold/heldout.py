"""Which rows are held out together, and what a model predicts for them without refitting.

Splits come from anything scikit-learn calls a cross-validation; predictions come for every split and
every μ, in blocks of rows.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator, KFold, LeaveOneOut, check_cv
from sklearn.utils.validation import _num_samples

from onefold.approximations import Model
from onefold.linalg import HostArray, Index, host_array
from onefold.machine.threads import cached_property
from onefold.machine.warning import warn_user
from onefold.typing import ArrayLike, MaybeArray

_FIRST = 1024  # rows of a training part that are looked at for two classes first


@dataclass(frozen=True)
class Splits:
    """The rows behind every score, and the rows that each training part leaves out."""

    n: int  # rows
    tests: Sequence[Index]  # behind each score: a set per split, or all rows for pooled leave-one-out
    left_out: Sequence[Index]  # the complement of each training part, sorted; holds what its split tests
    leave_one_out: bool = False  # part i is row i alone: there is a closed form that needs no blocks

    @classmethod
    def leave_each_out(cls, n: int, *, pooled: bool = True) -> Splits:
        """Every row left out by itself; one score of all of them, or one each."""
        rows = np.arange(n)
        single = cast(Sequence[Index], rows[:, None])  # n sets of one row without n objects
        return cls(n, [rows] if pooled else single, single, leave_one_out=True)

    def __len__(self) -> int:
        """Number of scores."""
        return len(self.tests)

    @property
    def predicted(self) -> Sequence[Index]:
        """The rows of each array of held-out predictions: those left out, or all, each by itself."""
        return [np.arange(self.n)] if self.leave_one_out else self.left_out

    @cached_property
    def repeated(self) -> bool:
        """Whether some row is tested more than once."""
        if self.leave_one_out:
            return False
        tested = np.zeros(self.n, dtype=bool)
        for test in self.tests:
            tested[test] = True
        return int(np.count_nonzero(tested)) < sum(len(test) for test in self.tests)

    @cached_property
    def times_tested(self) -> list[Index]:
        """For each array of `predicted` rows, how often each row counts in the score of its part."""
        if self.leave_one_out:
            return [np.broadcast_to(np.intp(1), (self.n,))]  # no memory for what is the same everywhere
        return [
            np.broadcast_to(np.intp(1), (len(rows),))
            if test is rows
            else np.bincount(np.searchsorted(rows, test), minlength=len(rows))
            for rows, test in zip(self.left_out, self.tests)
        ]

    def packed(self, n: int, kept: Index | None = None) -> NDArray[Any] | None:
        """The splits of a table of `n` rows, `kept` of which are these, for :func:`unpacked`.

        Where each row is tested once at most and every split trains on all rows that it does not test:
        the number (n,) of the fold that tests a row, −1 for rows that every split trains on and −2 for
        rows that are left out. Otherwise (n, splits): 2 for rows that a split tests, 1 for those that it
        trains on, 0 for others. None for leave-one-out.
        """
        if self.leave_one_out:
            return None
        rows = np.arange(n) if kept is None else kept
        if all(len(test) == len(left) for test, left in zip(self.tests, self.left_out)):
            folds = np.full(n, -2, dtype=np.min_scalar_type(-max(len(self), 2)))
            folds[rows] = -1
            for number, test in enumerate(self.tests):
                folds[rows[test]] = number
            if np.count_nonzero(folds >= 0) == sum(len(test) for test in self.tests):
                return folds
        parts = np.zeros((n, len(self)), dtype=np.int8)
        for number, (test, left) in enumerate(zip(self.tests, self.left_out)):
            parts[rows, number] = 1
            parts[rows[left], number] = 0
            parts[rows[test], number] = 2
        return parts

    def within(self, rows: Index) -> Splits:
        """The splits of some rows, in their order and numbering; those with rows on both sides."""
        if self.leave_one_out:
            return Splits.leave_each_out(len(rows), pooled=len(self) == 1)
        place = np.full(self.n, -1)
        place[rows] = np.arange(len(rows))

        def moved(numbers: Index) -> Index:
            found = place[numbers]
            return found[found >= 0]

        pairs = [(moved(test), np.sort(moved(left))) for test, left in zip(self.tests, self.left_out)]
        pairs = [(test, left) for test, left in pairs if test.size and left.size < len(rows)]
        return Splits(len(rows), [t for t, _ in pairs], [left for _, left in pairs])


def make_splits(
    cv: Any,
    X: Any,
    y: Any,
    *,
    n: int,
    labels: NDArray[Any] | None = None,
    groups: Any = None,
    kept: Index | None = None,
) -> Splits:
    """Resolve `cv` for `n` rows; splitters see X, y and groups as the user gave them.

    `kept` are the numbers of the rows that the problem keeps, of those that the splitter sees, and
    `labels` theirs: training parts with one class are refused.
    """
    check_folds(cv, n)
    size = n if kept is None else kept.size
    splitter = None if isinstance(cv, str) else check_cv(cv, y, classifier=labels is not None)
    if splitter is None or isinstance(splitter, LeaveOneOut):
        if size < 2:
            raise ValueError(f"leave-one-out needs at least 2 rows; got {size}.")
        others: Any = [] if labels is None else np.flatnonzero(labels != labels[0])
        if len(others) in (1, size - 1):  # the only row of its class, perhaps
            number = int(others[0]) if len(others) == 1 else 0
            _check_classes(labels, np.delete(np.arange(size), number), number)
        return Splits.leave_each_out(size, pooled=splitter is None)
    plain = type(splitter) is KFold and not splitter.shuffle and labels is None and kept is None
    if plain and splitter.n_splits <= n:  # known folds: long tables need no lists of what is left
        folds = np.array_split(np.arange(n), splitter.n_splits)
        return Splits(n, folds, folds)
    if kept is not None:  # where each row of the user's stands in the problem, -1 for nowhere
        place = np.full(n, -1)
        place[kept] = np.arange(kept.size)
    tests = []
    left_out = []
    empty = []
    for number, (train, test) in enumerate(splitter.split(X, y, groups)):
        train = _as_rows(train, n, number, "training")
        test = _as_rows(test, n, number, "test")
        inside = np.zeros(n, dtype=bool)
        inside[train] = True
        if np.count_nonzero(inside) != train.size:
            raise ValueError(f"split {number} trains on the same row twice; use sample_weight instead.")
        if inside[test].any():
            raise ValueError(
                f"split {number} tests rows that it trains on; training and test rows must be disjoint."
            )
        if not train.size or not test.size:
            raise ValueError(f"split {number} has no rows to {'test' if train.size else 'train on'}.")
        if kept is not None:
            train = place[train]
            test = place[test]
            inside = inside[kept]
            train = train[train >= 0]
            test = test[test >= 0]
            if not train.size:
                raise ValueError(
                    f"split {number} trains only on rows of weight 0; give some a positive weight."
                )
        _check_classes(labels, train, number)
        if not test.size:
            empty.append(number)
            continue
        rest = np.flatnonzero(~inside)
        tests.append(test)
        # One array for both where they are the same, as of most splitters: it is looked at once.
        left_out.append(test if np.array_equal(test, rest) else rest)
    if not tests:
        raise ValueError(
            "no split of cv has test rows of positive weight; use folds, such as cv=5, or give test "
            "rows a positive weight."
        )
    if empty:
        warn_user(
            f"split {', '.join(map(str, empty))} tests only rows of weight 0 and has no score; "
            "the mean is taken over the other splits."
        )
    return Splits(size, tests, left_out)


def unpacked(packed: NDArray[Any]) -> list[tuple[Index, Index]]:
    """The training and test rows of every split that :meth:`Splits.packed` wrote down."""
    if packed.ndim == 1:
        numbers = range(int(packed.max()) + 1)
        return [
            (np.flatnonzero((packed != number) & (packed > -2)), np.flatnonzero(packed == number))
            for number in numbers
        ]
    return [(np.flatnonzero(part == 1), np.flatnonzero(part == 2)) for part in packed.T]


def check_folds(cv: Any, n: int) -> None:
    """Raise for a word, or a number of folds, that is invalid for `n` rows."""
    if isinstance(cv, type) or (isinstance(cv, str) and cv != "loo"):
        raise ValueError(f'cv must be a number of folds, "loo" or a splitter; got {cv!r}.')
    if n < 2:
        raise ValueError(f"folds need at least 2 rows; got n_samples={n}. Add rows.")
    if isinstance(cv, numbers.Integral) and not isinstance(cv, bool) and not 2 <= int(cv) <= n:
        raise ValueError(
            f"cv={cv} must be at least 2 and at most the number of rows, n_samples={n}; "
            'use fewer folds or cv="loo".'
        )


def _as_rows(index: Any, n: int, number: int, what: str) -> Index:
    rows = np.asarray(index).reshape(-1)
    if rows.dtype == bool:
        if rows.size != n:
            raise ValueError(f"split {number}: the {what} mask has {rows.size} entries for {n} rows.")
        rows = np.flatnonzero(rows)
    if not rows.size:
        return rows.astype(np.intp)
    if rows.dtype.kind not in "iu":
        raise ValueError(f"split {number}: the {what} rows must be whole numbers; got {rows.dtype}.")
    least = rows.min()
    if least < -n or rows.max() >= n:
        raise ValueError(f"split {number}: the {what} rows contain numbers outside the {n} rows of X.")
    return np.asarray(rows % n if least < 0 else rows, dtype=np.intp)


def _check_classes(labels: NDArray[Any] | None, train: Index, number: int) -> None:
    """Raise where a training part has one class; most show two in their first rows."""
    if labels is None:
        return
    for rows in (train[:_FIRST], train):
        present = labels[rows]
        if np.any(present != present[0]):
            return
    raise ValueError(
        f"the training rows of split {number} contain only one class ({present[0].item()!r}); "
        "use a stratified splitter, fewer folds or more rows of the rare class."
    )


HeldoutBlock = tuple[int, Any, Any]
"""Number of an array of ``splits.predicted``, positions in it (slice or whole numbers), and the
values (μ, rows, targets) there."""


def heldout_blocks(model: Model, splits: Splits, alphas: Any) -> Iterator[HeldoutBlock]:
    """f(x) for the rows of ``splits.predicted``, from models without them, always in the same order."""
    if splits.leave_one_out:
        return iter([(0, slice(None), model.leave_one_out(alphas))])
    return model.heldout_blocks(splits.left_out, alphas)


def whole_parts(blocks: Iterable[HeldoutBlock], splits: Splits) -> list[HostArray]:
    """The blocks put together: a NumPy array (μ, rows, targets) per entry of ``splits.predicted``."""
    found: list[Any] = [None] * len(splits.predicted)
    for part, positions, values in blocks:
        values = host_array(values)
        size = len(splits.predicted[part])
        if values.shape[1] == size and isinstance(positions, slice):
            found[part] = values
            continue
        if found[part] is None:
            found[part] = np.empty((values.shape[0], size, values.shape[2]))
        found[part][:, positions] = values
    return found


def at_ridge(
    blocks: Iterable[HeldoutBlock], splits: Splits, number: int
) -> tuple[HostArray, list[HostArray] | None]:
    """Held-out predictions (n, targets) of one of the blocks' μ; if some repeat, also of each split."""
    chosen = ((part, positions, values[number : number + 1, ...]) for part, positions, values in blocks)
    parts = [values[0] for values in whole_parts(chosen, splits)]
    if splits.leave_one_out:
        return parts[0], None
    of_splits = [
        values if test is rows else values[np.searchsorted(rows, test)]
        for values, rows, test in zip(parts, splits.left_out, splits.tests)
    ]
    of_rows = mean_by_row(np.concatenate(splits.tests), np.concatenate(of_splits), splits.n)
    return of_rows, of_splits if splits.repeated else None


def sample_rows(rows: Index, size: int, generator: Any, labels: NDArray[Any] | None = None) -> Index:
    """Some of the rows, in order, drawn at random, of every label its share; all if they are no more."""
    if rows.size <= size:
        return np.sort(rows)
    if labels is None:
        return np.sort(generator.choice(rows, size, replace=False))
    picked = []
    for label in np.unique(own := labels[rows]):
        members = rows[own == label]
        wanted = int(np.ceil(size * members.size / rows.size))
        picked.append(generator.choice(members, min(wanted, members.size), replace=False))
    return np.sort(np.concatenate(picked))


def mean_by_row(rows: Index, values: HostArray, n: int) -> HostArray:
    """The mean (n, columns) of values (N, columns) of the same row; NaN for rows that have none."""
    times = np.bincount(rows, minlength=n)
    if times.max(initial=0) <= 1:  # the usual folds
        found = np.full((n, values.shape[1]), np.nan)
        found[rows] = values
        return found
    with np.errstate(invalid="ignore"):
        sums = [np.bincount(rows, column, n) for column in values.T]
        return np.stack(sums, axis=1) / times[:, None]


class GapKFold(BaseCrossValidator):
    """K contiguous blocks, with `gap` rows on either side of the test block left out of training.

    For series in which neighbouring rows are similar: without a gap, the rows next to a held-out block
    make it too easy to predict.

    Parameters
    ----------
    n_splits : int, default=5
        Number of blocks; every row is held out once.
    gap : int, default=0
        Rows left out of training on each side of the block.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.heldout import GapKFold
    >>> for train, test in GapKFold(n_splits=3, gap=1).split(np.zeros(9)):
    ...     print(test.tolist(), train.tolist())
    [0, 1, 2] [4, 5, 6, 7, 8]
    [3, 4, 5] [0, 1, 7, 8]
    [6, 7, 8] [0, 1, 2, 3, 4]
    """

    def __init__(self, n_splits: int = 5, gap: int = 0) -> None:
        self.n_splits = n_splits
        self.gap = gap

    def get_n_splits(self, X: MaybeArray = None, y: MaybeArray = None, groups: MaybeArray = None) -> int:
        """Return the number of blocks."""
        return self.n_splits

    def split(
        self, X: ArrayLike, y: MaybeArray = None, groups: MaybeArray = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (train, test) row numbers, block by block in row order."""
        n = _num_samples(X)
        if not 2 <= self.n_splits <= n:
            raise ValueError(
                f"n_splits={self.n_splits} must be at least 2 and at most the number of rows, {n}."
            )
        if self.gap < 0:
            raise ValueError(f"gap must not be negative; got {self.gap}.")
        rows = np.arange(n)
        for test in np.array_split(rows, self.n_splits):
            near = (rows >= test[0] - self.gap) & (rows <= test[-1] + self.gap)
            train = rows[~near]
            if train.size == 0:
                raise ValueError(
                    f"a gap of {self.gap} rows leaves no rows to train on; "
                    f"use a smaller gap, or n_splits above {self.n_splits}."
                )
            yield train, test
