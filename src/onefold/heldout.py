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
from sklearn.model_selection import (
    BaseCrossValidator,
    KFold,
    LeaveOneOut,
    TimeSeriesSplit,
    check_cv,
)
from sklearn.utils.validation import _num_samples

from onefold.approximations import Model
from onefold.linalg import HostArray, Index, host_array
from onefold.machine.threads import cached_property
from onefold.machine.warning import warn_user
from onefold.typing import ArrayLike, MaybeArray

# Rows of a training part that are searched for two classes before all of them are.
_FIRST_ROWS = 1024
# How a splitter begins that trains on the past only, before its number of splits: "past:5".
PAST = "past:"
# In `Splits.packed`, a row that every split trains on, and one that is in no split.
_TRAINING = -1
_NOWHERE = -2
# In `Splits.packed` with a column for each split, a row that the split tests, and one that it trains on.
_TESTED = 2
_TRAINED_ON = 1


@dataclass(frozen=True)
class Splits:
    """The rows that each score is of, and the rows that each training part leaves out."""

    n: int  # rows
    tests: Sequence[Index]  # of each score: a set per split, or all rows for pooled leave-one-out
    left_out: Sequence[Index]  # the complement of each training part, sorted: it includes the test rows
    leave_one_out: bool = False  # part i is the row i: there is a closed form that needs no blocks

    @classmethod
    def leave_each_out(cls, n: int, *, pooled: bool = True) -> Splits:
        """Every row left out by itself; with one score for all rows if `pooled`, else one for each."""
        rows = np.arange(n)
        single = cast(Sequence[Index], rows[:, None])  # n sets of one row without n objects
        return cls(n, [rows] if pooled else single, single, leave_one_out=True)

    def __len__(self) -> int:
        """Number of scores."""
        return len(self.tests)

    @property
    def predicted(self) -> Sequence[Index]:
        """The rows of each array of held-out predictions: those left out; all for leave-one-out."""
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
        """The splits as one array for a table of `n` rows, which :func:`unpacked` reads.

        `kept` are the numbers of these rows in the table. If each row is tested at most once and every
        split trains on all rows that it does not test, the array has shape (n,): the number of the fold
        that tests a row, −1 for rows that every split trains on, −2 for rows in no split. Otherwise it
        has shape (n, splits): 2 for rows that a split tests, 1 for those that it trains on, 0 for all
        others. None for leave-one-out.
        """
        if self.leave_one_out:
            return None
        rows = np.arange(n) if kept is None else kept
        if all(len(test) == len(outside) for test, outside in zip(self.tests, self.left_out)):
            folds = np.full(n, _NOWHERE, dtype=np.min_scalar_type(-max(len(self), 2)))
            folds[rows] = _TRAINING
            for number, test in enumerate(self.tests):
                folds[rows[test]] = number
            if np.count_nonzero(folds >= 0) == sum(len(test) for test in self.tests):
                return folds
        parts = np.zeros((n, len(self)), dtype=np.int8)
        for number, (test, outside) in enumerate(zip(self.tests, self.left_out)):
            parts[rows, number] = _TRAINED_ON
            parts[rows[outside], number] = 0
            parts[rows[test], number] = _TESTED
        return parts

    def only(self, numbers: Sequence[int]) -> Splits:
        """Some of the splits, by their numbers."""
        tests = [self.tests[number] for number in numbers]
        return Splits(self.n, tests, [self.left_out[number] for number in numbers])

    def within(self, rows: Index) -> Splits:
        """The splits of the given rows, numbered in their order, that keep training and test rows."""
        if self.leave_one_out:
            return Splits.leave_each_out(len(rows), pooled=len(self) == 1)
        place = np.full(self.n, -1)
        place[rows] = np.arange(len(rows))

        def moved(numbers: Index) -> Index:
            places = place[numbers]
            return places[places >= 0]

        pairs = [
            (moved(test), np.sort(moved(outside))) for test, outside in zip(self.tests, self.left_out)
        ]
        pairs = [(test, outside) for test, outside in pairs if test.size and outside.size < len(rows)]
        return Splits(len(rows), [t for t, _ in pairs], [outside for _, outside in pairs])


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

    `kept` are the numbers, among the rows that the splitter sees, of the rows that the problem keeps;
    `labels` are the classes of these, and training parts with one class are refused.
    """
    check_folds(cv, n)
    cv = past_splitter(cv) or cv
    size = n if kept is None else kept.size
    splitter = None if isinstance(cv, str) else check_cv(cv, y, classifier=labels is not None)
    if splitter is None or isinstance(splitter, LeaveOneOut):
        _check_leave_one_out(size, labels)
        return Splits.leave_each_out(size, pooled=splitter is None)
    plain = type(splitter) is KFold and not splitter.shuffle and labels is None and kept is None
    if plain and splitter.n_splits <= n:  # the folds are known, without lists of training rows
        folds = np.array_split(np.arange(n), splitter.n_splits)
        return Splits(n, folds, folds)
    if kept is not None:  # the position in the problem of each of the user's rows, or -1
        place = np.full(n, -1)
        place[kept] = np.arange(kept.size)
    tests = []
    left_out = []
    empty = []
    for number, (train, test) in enumerate(splitter.split(X, y, groups)):
        train = _as_rows(train, n, number, "training")
        test = _as_rows(test, n, number, "test")
        in_training = np.zeros(n, dtype=bool)
        in_training[train] = True
        _check_split(train, test, in_training, number)
        if kept is not None:
            train = place[train]
            test = place[test]
            in_training = in_training[kept]
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
        outside = np.flatnonzero(~in_training)
        tests.append(test)
        # The same object if both are equal, as for most splitters: it is then grouped only once.
        left_out.append(test if np.array_equal(test, outside) else outside)
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
            (np.flatnonzero((packed != number) & (packed > _NOWHERE)), np.flatnonzero(packed == number))
            for number in numbers
        ]
    return [(np.flatnonzero(part == _TRAINED_ON), np.flatnonzero(part == _TESTED)) for part in packed.T]


def past_splits(cv: Any) -> int | None:
    """The number of splits of a word such as "past:5"; None for anything else."""
    if not isinstance(cv, str) or not cv.startswith(PAST):
        return None
    count = cv.removeprefix(PAST)
    if not count.isdecimal() or int(count) < 2:
        raise ValueError(
            f'cv must name a number of splits of at least 2 after "past:", as in "past:5"; got {cv!r}.'
        )
    return int(count)


def past_splitter(cv: Any, gap: int = 0) -> TimeSeriesSplit | None:
    """The splitter that a word such as "past:5" stands for; None for anything else."""
    count = past_splits(cv)
    return None if count is None else TimeSeriesSplit(count, gap=gap)


def check_folds(cv: Any, n: int) -> None:
    """Raise if `cv` is an unknown word, or a number of folds that `n` rows do not allow."""
    past = past_splits(cv)
    if past is not None and past >= n:
        raise ValueError(f"cv={cv!r} needs at least {past + 1} rows; got n_samples={n}. Add rows.")
    if isinstance(cv, type) or (isinstance(cv, str) and cv != "loo" and past is None):
        raise ValueError(f'cv must be a number of folds, "loo", "past:5" or a splitter; got {cv!r}.')
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


def _check_split(train: Index, test: Index, in_training: NDArray[Any], number: int) -> None:
    """Raise unless a split has training and test rows, disjoint, and trains on each row once."""
    if np.count_nonzero(in_training) != train.size:
        raise ValueError(f"split {number} trains on the same row twice; use sample_weight instead.")
    if in_training[test].any():
        raise ValueError(
            f"split {number} tests rows that it trains on; training and test rows must be disjoint."
        )
    if not train.size or not test.size:
        raise ValueError(f"split {number} has no rows to {'test' if train.size else 'train on'}.")


def _check_leave_one_out(n: int, labels: NDArray[Any] | None) -> None:
    """Raise if there are too few rows, or if a row is the only one of its class next to one other."""
    if n < 2:
        raise ValueError(f"leave-one-out needs at least 2 rows; got {n}.")
    if labels is None:
        return
    unlike_first = np.flatnonzero(labels != labels[0])
    if unlike_first.size not in (1, n - 1):  # every training part has two classes, or none has
        return
    row = int(unlike_first[0]) if unlike_first.size == 1 else 0
    _check_classes(labels, np.delete(np.arange(n), row), row)


def _check_classes(labels: NDArray[Any] | None, train: Index, number: int) -> None:
    """Raise if a training part has only one class; the first rows of most parts have two."""
    if labels is None:
        return
    for rows in (train[:_FIRST_ROWS], train):
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


def joined_parts(blocks: Iterable[HeldoutBlock], splits: Splits) -> list[HostArray]:
    """The blocks joined: a NumPy array (μ, rows, targets) for each entry of ``splits.predicted``."""
    parts: list[Any] = [None] * len(splits.predicted)
    for part, positions, values in blocks:
        values = host_array(values)
        size = len(splits.predicted[part])
        if values.shape[1] == size and isinstance(positions, slice):
            parts[part] = values
            continue
        if parts[part] is None:
            parts[part] = np.empty((values.shape[0], size, values.shape[2]))
        parts[part][:, positions] = values
    return parts


def at_ridge(
    blocks: Iterable[HeldoutBlock], splits: Splits, number: int
) -> tuple[HostArray, list[HostArray] | None]:
    """Held-out predictions (n, targets) at one of the blocks' μ, by its number.

    If rows are tested repeatedly, these are means, and the predictions of each split come, too.
    """
    chosen = ((part, positions, values[number : number + 1, ...]) for part, positions, values in blocks)
    parts = [values[0] for values in joined_parts(chosen, splits)]
    if splits.leave_one_out:
        return parts[0], None
    of_splits = [
        values if test is rows else values[np.searchsorted(rows, test)]
        for values, rows, test in zip(parts, splits.left_out, splits.tests)
    ]
    of_rows = mean_by_row(np.concatenate(splits.tests), np.concatenate(of_splits), splits.n)
    return of_rows, of_splits if splits.repeated else None


def sample_rows(rows: Index, size: int, generator: Any, labels: NDArray[Any] | None = None) -> Index:
    """`size` of the rows at random, ascending, by label in proportion; all if there are fewer."""
    if rows.size <= size:
        return np.sort(rows)
    if labels is None:
        return np.sort(generator.choice(rows, size, replace=False))
    picked = []
    row_labels = labels[rows]
    for label in np.unique(row_labels):
        members = rows[row_labels == label]
        share = int(np.ceil(size * members.size / rows.size))
        picked.append(generator.choice(members, min(share, members.size), replace=False))
    return np.sort(np.concatenate(picked))


def mean_by_row(rows: Index, values: HostArray, n: int) -> HostArray:
    """The mean (n, columns) over all values (N, columns) of each row; NaN for rows without values."""
    times = np.bincount(rows, minlength=n)
    if times.max(initial=0) <= 1:  # the usual folds
        means = np.full((n, values.shape[1]), np.nan)
        means[rows] = values
        return means
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
