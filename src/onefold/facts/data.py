r"""What rows are like, column by column, and where a model of them is least accurate.

Each column by itself is given a simple model, a tree, which is fitted to every other row and scored on
the remaining ones. Ranks and few intervals, which look at all rows at once, count only if they explain
nearly everything: they find copies of the target among few rows, and would flatter any other column.

Slices of the rows are compared with all other rows by Welch's t; those are kept that Holm's procedure
finds worse at level 0.05, so that a table without any bad slice shows one in twenty times at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import ttest_ind_from_stats
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from onefold.rows import (
    TARGET_ROUNDING,
    equal_keys,
    has_all_rows,
    label_codes,
    row_hashes,
    rows_with_weight,
)

# A column that leaves less than this share of the target unexplained is a leak: |correlation| 0.99.
UNEXPLAINED = 0.02
# Numbers of a table that are examined; of larger tables, rows at equal distances.
MOST_VALUES = 1_000_000
# Rows that a column or a slice must have for any statement about it.
FEWEST_ROWS = 30
# Errors of a constant prediction; with fewer there is nothing to explain.
_FEWEST_ERRORS = 8
# Leaves of the tree that predicts numbers from one column.
_LEAVES = 64
# A text column with more distinct values than this share of the rows is an identifier.
_MANY_DISTINCT = 0.95
# Rows below which distinct values in all of them may be chance.
_FEWEST_DISTINCT = 20
# A class with fewer rows than this, or than this share of the rows, is rare.
_RARE_ROWS = 10
_RARE_SHARE = 0.01
# Robust standard deviations from the median beyond which a target is an outlier.
_OUTLIER_DEVIATIONS = 6.0
# The standard deviation of a normal distribution, in median absolute deviations.
_DEVIATION_OF_MAD = 1.4826
# A column explains nearly all if it explains this share of what the model explains, ...
_NEARLY_ALL_OF_MODEL = 0.95
# ... and at least this share of the target.
_NEARLY_ALL_LEAST = 0.5
# Equal rows are by chance if shuffled columns give this share of them.
_BY_CHANCE = 0.5
# The family-wise level of the tests of slices.
_LEVEL = 0.05
# The smallest share of the rows that is a slice.
_LEAST_SHARE = 0.02
# Intervals with equal numbers of rows that numbers are cut into.
_QUANTILES = 5
# A column with no more distinct numbers than this has a slice for each of them.
_FEW_VALUES = 8
# Categories of a column, the most frequent ones, that are slices.
_MOST_CATEGORIES = 50
# Slices that are named.
_MOST_SLICES = 8


@dataclass(frozen=True)
class ColumnValues:
    """The values of one column: numbers, moments or categories."""

    name: str
    values: np.ndarray  # float64, NaN where missing; or codes of `categories`, -1 where missing
    categories: tuple[str, ...] | None = None
    date: bool = False  # the numbers are moments, in seconds since 1970

    @property
    def absent(self) -> np.ndarray:
        """Which rows have no value."""
        return self.values < 0 if self.categories is not None else np.isnan(self.values)

    @property
    def distinct(self) -> int:
        """How many different values it has."""
        return len(np.unique(self.values[~self.absent]))

    def filled(self) -> np.ndarray:
        """The values, missing ones replaced by the median or by one more category."""
        absent = self.absent
        if self.categories is not None:
            return np.where(absent, len(self.categories), self.values)
        if absent.all():
            return np.zeros(len(self.values))
        return np.where(absent, np.median(self.values[~absent]), self.values)

    def words(self, value: float) -> str:
        """A value as people write it."""
        if self.categories is not None:
            return self.categories[int(value)]
        if not self.date:
            return f"{value:.4g}"
        return str(np.datetime64(round(value), "s")).replace("T", " ").removesuffix(" 00:00:00")

    @property
    def identifies(self) -> bool:
        """Whether it looks like an identifier: nearly all texts, or all whole numbers, are distinct.

        The rule for arrays and frames. That of tables is stricter with texts, because it decides what
        becomes a feature: `names_rows` in `tables/columns.py`.
        """
        n = len(self.values)
        values = self.values
        if n < _FEWEST_DISTINCT or self.date:
            return False
        if self.categories is not None:
            return self.distinct > _MANY_DISTINCT * n
        return self.distinct == n and bool(np.all(values == np.round(values)) and values.min() >= 0)


@dataclass(frozen=True)
class ExaminedColumns:
    """What was found out about columns one by one, by one rule for the fit of a table and its report."""

    shares: dict[str, float]  # of the target that each column explains by itself
    copies: list[list[str]]  # names of columns that are equal
    identifiers: list[str]  # names of columns with a different value in nearly every row

    @classmethod
    def of(cls, columns: Sequence[ColumnValues], y: np.ndarray, classifier: bool) -> ExaminedColumns:
        """The facts about columns of arrays or frames that no table model was fitted to."""
        shares = explained_alone(columns, y, classifier)
        identifiers = [column.name for column in columns if column.identifies]
        return cls(shares, equal_columns(columns), identifiers)


def data_facts(
    columns: Sequence[ColumnValues],
    y: np.ndarray,
    classes: np.ndarray | None,
    duplicates: dict[str, Any],
    explained: float | None,
    fitted: np.ndarray | None = None,
    examined: ExaminedColumns | None = None,
) -> dict[str, Any]:
    """Facts about columns and target; `explained` is the share of the target that the model explains.

    `fitted` is the target as the model was fitted to it. Columns are `examined` here unless the fit of a
    table has done so already.
    """
    if examined is None:
        examined = ExaminedColumns.of(columns, y, classes is not None)
    shares = examined.shares
    leaks = [name for name, share in shares.items() if share > 1.0 - UNEXPLAINED]
    nearly_all = np.inf
    if explained is not None:
        nearly_all = max(_NEARLY_ALL_LEAST, _NEARLY_ALL_OF_MODEL * explained)
    missing = {column.name: int(column.absent.sum()) for column in columns if column.absent.any()}
    facts: dict[str, Any] = {
        "rows": len(y),
        "columns": len(columns),
        "numeric": sum(column.categories is None and not column.date for column in columns),
        "missing": dict(sorted(missing.items(), key=lambda item: -item[1])),
        "constant": [column.name for column in columns if column.distinct <= 1],
        "identifiers": examined.identifiers,
        "copies": examined.copies,
        "alone": shares,
        "leaks": leaks,
        "nearly_all": [
            name for name, share in shares.items() if share >= nearly_all and name not in leaks
        ],
        "duplicates": duplicates,
    }
    if classes is None:
        return facts | _number_facts(y, y if fitted is None else fitted)
    return facts | _label_facts(y, classes)


def _label_facts(y: np.ndarray, classes: np.ndarray) -> dict[str, Any]:
    """How many rows each class has, and which classes are rare."""
    counts = {str(label): int(np.sum(y == label)) for label in classes}
    few = max(_RARE_ROWS, _RARE_SHARE * len(y))
    return {"classes": counts, "rare": [label for label, rows in counts.items() if rows < few]}


def _number_facts(y: np.ndarray, fitted: np.ndarray) -> dict[str, Any]:
    """The range of the first target, and its outliers as the model fits it."""
    n = len(y)
    target = y.reshape(n, -1)[:, 0]
    values = fitted.reshape(n, -1)[:, 0]
    values = values[np.isfinite(values)]
    outliers = 0
    if len(values):
        distances = np.abs(values - np.median(values))
        spread = _DEVIATION_OF_MAD * float(np.median(distances))
        outliers = int(np.sum(distances > _OUTLIER_DEVIATIONS * spread)) if spread > 0 else 0
    return {
        "outliers": {"rows": outliers, "deviations": _OUTLIER_DEVIATIONS},
        "untransformed": n - len(values),  # such as targets without a logarithm
        "target": {
            "mean": float(target.mean()),
            "median": float(np.median(target)),
            "lowest": float(target.min()),
            "highest": float(target.max()),
        },
    }


# Copies


def equal_rows(X: Any) -> np.ndarray:
    """The number (n,) of the set of equal rows that each row belongs to."""
    numbers: np.ndarray = np.unique(row_hashes(X), return_inverse=True)[1].ravel()
    return numbers


@dataclass(frozen=True)
class EqualRows:
    """How many rows have the features and the target of a row that a model was fitted on."""

    rows: int
    compared: int  # training rows that they were compared with
    fitted: int  # training rows that there were, without those of weight 0
    error: float | None = None  # the standard error of the estimate
    at_least: bool = False  # only rows that equal one of those compared are counted

    @property
    def estimated(self) -> bool:
        """Whether the number was not counted."""
        return self.error is not None

    def words(self) -> str:
        """The number of equal rows in words, with its source unless all were counted."""
        verb = "has" if self.rows == 1 else "have"
        number = f"{self.rows:,}"
        details = "same features and target"
        if self.error is not None:
            number = f"about {number} ± {max(1, round(self.error)):,}"
            details += f"; estimated from {self.compared:,} of {self.fitted:,} training rows"
        elif self.at_least:
            number = f"at least {number}"
            details += f"; compared with {self.compared:,} of {self.fitted:,} training rows"
        return f"{number} of them {verb} an equal row in the training data ({details})"


def equal_to_training(estimator: Any, hashes: np.ndarray, y: np.ndarray) -> EqualRows | None:
    """How many rows with these hashes and targets equal a training row; None without a fingerprint.

    `y` is as the estimator was fitted to it. With the keys of all different training rows they are
    counted, with those of a sample they are estimated: (1) of `rows.hashing`. Kernel matrices, and files
    of earlier versions, have no keys: there, rows that equal one of the fingerprint are counted.
    """
    fingerprint = estimator.fingerprint_
    if fingerprint is None:
        return None
    if "keys" not in fingerprint:
        return _equal_to_sampled(estimator, hashes, y)
    classes = getattr(estimator, "classes_", None)
    targets = np.asarray(y).reshape(len(y), -1)
    if classes is not None:
        targets = _places(np.asarray(classes), np.ravel(y))
    places = equal_keys(fingerprint, hashes, targets)
    copies = fingerprint["copies"]
    matches = np.bincount(places[places >= 0], minlength=len(copies))
    fitted = rows_with_weight(fingerprint)
    compared = int(copies.sum())
    share = float(fingerprint["share"])
    if share >= 1.0:
        return EqualRows(int(matches.sum()), compared, fitted)
    probability = -np.expm1(copies * np.log1p(-share))
    rows = min(round(np.sum(matches / probability)), len(hashes))
    error = np.sqrt(np.sum((1.0 - probability) * (matches / probability) ** 2))
    if not matches.any():  # then that of a single row, of which the sample may have none
        error = np.sqrt(1.0 - share) / share
    return EqualRows(rows, compared, fitted, float(error))


def _equal_to_sampled(estimator: Any, hashes: np.ndarray, y: np.ndarray) -> EqualRows:
    """How many rows equal one of those whose hash and target a fingerprint has."""
    fingerprint = estimator.fingerprint_
    training, targets, rounding = _comparable(estimator, fingerprint["targets"], y)
    order = np.argsort(hashes, kind="stable")
    starts = np.searchsorted(hashes, fingerprint["hashes"], side="left", sorter=order)
    stops = np.searchsorted(hashes, fingerprint["hashes"], side="right", sorter=order)
    matched = np.zeros(len(hashes), dtype=bool)
    for target, start, stop in zip(training, starts, stops):
        rows = order[start:stop]
        close = np.all(np.abs(targets[rows] - target) <= rounding, axis=1)
        matched[rows[close]] = True
    complete = has_all_rows(fingerprint, int(estimator.n_features_in_))
    fitted = rows_with_weight(fingerprint)
    return EqualRows(int(matched.sum()), len(fingerprint["rows"]), fitted, at_least=not complete)


def _places(labels: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The place (n, 1) of each label, −1 for those that are not among them."""
    return np.where(np.isin(y, labels), np.searchsorted(labels, y), -1.0)[:, None]


def _comparable(
    estimator: Any, fitted: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Targets of a fingerprint and of other rows, as numbers (n, columns), and what counts as equal."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        size = float(np.abs(fitted).max(initial=0.0))
        return fitted, np.asarray(y, dtype=np.float64).reshape(len(y), -1), TARGET_ROUNDING * size
    labels = np.asarray(classes)
    return label_codes(fitted), _places(labels, y), 0.0


def duplicate_facts(
    X: Any,
    y: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]] | None,
    columns: Sequence[ColumnValues] = (),
) -> dict[str, Any]:
    """Rows that have a copy; held-out rows with a copy in their training part, by their targets."""
    groups = equal_rows(X)
    copied = np.bincount(groups)[groups] > 1
    facts: dict[str, Any] = {
        "rows": int(copied.sum()),
        "distinct": int(groups.max()) + 1,
        "across": 0,
        "same_target": 0,
        "other_target": 0,
        "by_chance": False,
    }
    if splits is None or not copied.any():
        return facts
    answers = np.unique(y, axis=0 if y.ndim > 1 else None, return_inverse=True)[1].ravel()
    pairs = np.unique(np.column_stack([groups, answers]), axis=0, return_inverse=True)[1].ravel()
    across = np.zeros(len(y), dtype=bool)
    same_target = np.zeros(len(y), dtype=bool)
    for train, test in splits:
        across[test] |= np.isin(groups[test], groups[train])
        same_target[test] |= np.isin(pairs[test], pairs[train])
    facts["across"] = int(across.sum())
    facts["same_target"] = int((across & same_target).sum())
    facts["other_target"] = facts["across"] - facts["same_target"]
    if columns:  # columns with few values have equal rows by chance
        random = np.random.default_rng(0)
        shuffled = np.column_stack([random.permutation(column.filled()) for column in columns])
        chance_groups = equal_rows(shuffled)
        chance = int((np.bincount(chance_groups)[chance_groups] > 1).sum())
        facts["by_chance"] = chance > _BY_CHANCE * facts["rows"]
    return facts


def equal_columns(columns: Sequence[ColumnValues]) -> list[list[str]]:
    """Names of columns that are copies: the same categories under any names, numbers in any unit."""
    groups: dict[tuple[bool, bytes], list[str]] = {}
    for column in columns:
        if column.distinct < 2:
            continue
        if column.categories is None and column.distinct > 2:
            key = (True, _without_unit(column))
        else:
            key = (False, _without_names(column))
        groups.setdefault(key, []).append(column.name)
    return [names for names in groups.values() if len(names) > 1]


def _without_unit(column: ColumnValues) -> bytes:
    """Numbers up to shift, scale and sign."""
    values = column.values - np.nanmean(column.values)
    first = values[np.flatnonzero(~column.absent & (values != 0))[0]]
    scaled: np.ndarray = np.round(np.sign(first) * values / np.nanmax(np.abs(values)), 9) + 0.0
    return scaled.tobytes()


def _without_names(column: ColumnValues) -> bytes:
    """Categories, or two numbers, by the order in which they come first."""
    _, first, codes = np.unique(column.values, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    ordered: np.ndarray = np.where(column.absent, -1, order[codes.ravel()])
    return ordered.tobytes()


# Columns alone


def explained_alone(
    columns: Sequence[ColumnValues], y: np.ndarray, classifier: bool
) -> dict[str, float]:
    """The share that each column explains by itself, the largest first; of many rows some are used."""
    step = max(1, len(y) * len(columns) // MOST_VALUES)
    part = y[::step]
    if len(columns) < 2 or y.ndim > 1 or len(part) < FEWEST_ROWS:
        return {}
    targets = np.unique(part, return_inverse=True)[1] if classifier else part
    explained = {}
    for column in columns:
        values = replace(column, values=column.values[::step]).filled()
        categorical = column.categories is not None
        explained[column.name] = 1.0 - _unexplained_share(values, targets, classifier, categorical)
    return dict(sorted(explained.items(), key=lambda item: -item[1]))


def _unexplained_share(x: np.ndarray, y: np.ndarray, classifier: bool, categorical: bool) -> float:
    """The share of a constant prediction's loss that a column leaves; y: numbers, or codes of labels."""
    # Two intervals for each class are too few to learn rows by heart.
    leaves = 2 * (int(y.max()) + 1) if classifier else _LEAVES
    tree_class: Any = DecisionTreeClassifier if classifier else DecisionTreeRegressor
    tree = tree_class(max_leaf_nodes=None if categorical else leaves, random_state=0)
    order = np.unique(x, return_inverse=True)[1]  # all that a tree needs, at any scale
    column = order[:, None]
    loss = 0.0
    constant_loss = 0.0
    for half in (0, 1):
        seen = slice(half, None, 2)
        unseen = slice(1 - half, None, 2)
        constant = np.bincount(y[seen]).argmax() if classifier else y[seen].mean()
        predicted = tree.fit(column[seen], y[seen]).predict(column[unseen])
        if categorical:
            predicted = np.where(np.isin(x[unseen], x[seen]), predicted, constant)
        loss += _loss(predicted, y[unseen], classifier)
        constant_loss += _loss(constant, y[unseen], classifier)
    if constant_loss == 0 or (classifier and constant_loss < _FEWEST_ERRORS):
        return 1.0
    unexplained = loss / constant_loss
    if categorical:
        return unexplained
    if classifier:
        of_all_rows = float(np.sum(tree.fit(column, y).predict(column) != y)) / constant_loss
        return of_all_rows if of_all_rows <= UNEXPLAINED else unexplained
    of_ranks = 1.0 - _correlation(order, np.unique(y, return_inverse=True)[1]) ** 2
    return of_ranks if of_ranks <= UNEXPLAINED else min(unexplained, 1.0 - _correlation(x, y) ** 2)


def _loss(predicted: Any, y: np.ndarray, classifier: bool) -> float:
    """The number of wrong labels, or the sum of squared errors."""
    return float(np.sum(predicted != y if classifier else (predicted - y) ** 2))


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a = a - a.mean()
    b = b - b.mean()
    size = float(np.sqrt(np.sum(a * a) * np.sum(b * b)))
    return float(np.sum(a * b)) / size if size > 0 else 0.0


# Slices


def weak_slices(columns: Sequence[ColumnValues], loss: np.ndarray) -> dict[str, Any]:
    """Slices with significantly larger mean loss, the largest difference first; O(columns · n log n).

    `loss` (n,) is NaN for rows that have none, which are left out.
    """
    has_loss = np.isfinite(loss)
    loss = loss[has_loss]
    n = len(loss)
    fewest = max(FEWEST_ROWS, int(np.ceil(_LEAST_SHARE * n)))
    slices: list[dict[str, Any]] = []
    for column in columns:
        for words, inside in slices_of(replace(column, values=column.values[has_loss])):
            rows = int(inside.sum())
            if fewest <= rows <= n - FEWEST_ROWS:
                facts = {"column": column.name, "where": words, "rows": rows, "share": rows / n}
                slices.append(facts | _compared(loss[inside], loss[~inside]))
    worse = [slices[i] for i in _holm([slice_facts["p"] for slice_facts in slices])]
    worse.sort(key=lambda slice_facts: -float(slice_facts["difference"]))
    return {
        "looked": len(slices),
        "overall": float(loss.mean()) if n else float("nan"),
        "found": worse[:_MOST_SLICES],
        "more": max(0, len(worse) - _MOST_SLICES),
        "fewest_rows": fewest,
    }


def slices_of(column: ColumnValues) -> Iterator[tuple[str, np.ndarray]]:
    """Each slice of a column in words, with a mask of its rows."""
    absent = column.absent
    if absent.any():
        yield "missing", absent
    values, counts = np.unique(column.values[~absent], return_counts=True)
    if column.categories is not None:
        values = values[np.argsort(-counts, kind="stable")][:_MOST_CATEGORIES]
    elif len(values) > _FEW_VALUES:
        inner = np.quantile(column.values[~absent], np.arange(1, _QUANTILES) / _QUANTILES)
        for low, high in pairwise(np.unique([-np.inf, *inner, np.inf]).tolist()):
            words = f"≤ {column.words(high)}" if low == -np.inf else f"> {column.words(low)}"
            if -np.inf < low and high < np.inf:
                words = f"{column.words(low)} to {column.words(high)}"
            yield words, (column.values > low) & (column.values <= high)
        return
    elif len(values) == 1:
        return
    for value in values:
        yield f"= {column.words(value)}", column.values == value


def largest(loss: np.ndarray, count: int = 5) -> list[int]:
    """Numbers of the rows with the largest loss, the largest first."""
    order = np.argsort(np.where(np.isfinite(loss), -loss, np.inf), kind="stable")
    return [int(i) for i in order[: min(count, int(np.isfinite(loss).sum()))]]


def _compared(inside: np.ndarray, outside: np.ndarray) -> dict[str, float]:
    """Mean losses of a slice and of all other rows, and Welch's one-sided p of their difference."""
    loss = float(inside.mean())
    outside_loss = float(outside.mean())
    test = ttest_ind_from_stats(
        loss,
        float(inside.std(ddof=1)),
        len(inside),
        outside_loss,
        float(outside.std(ddof=1)),
        len(outside),
        equal_var=False,
        alternative="greater",
    )
    p = float(test.pvalue)
    p = 1.0 if np.isnan(p) else p  # of equal constants
    return {"loss": loss, "rest": outside_loss, "difference": loss - outside_loss, "p": p}


def _holm(p: Sequence[float]) -> list[int]:
    """Which of several hypotheses Holm's step-down procedure rejects."""
    rejected = []
    for place, i in enumerate(np.argsort(p, kind="stable")):
        if p[i] * (len(p) - place) > _LEVEL:
            break
        rejected.append(int(i))
    return rejected
