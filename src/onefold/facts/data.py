r"""What rows are like, column by column, and where a model of them is least accurate.

Each column alone is given a simple model, a tree, learned on every other row and tried on the rest. What
looks at all rows at once, ranks and few intervals, counts only where it leaves next to nothing open: it
finds copies of the target among few rows, and would flatter any other column.

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

from onefold.facts.measures import labels_of
from onefold.rows import has_all_rows, row_hashes, rows_with_weight

UNEXPLAINED = 0.02  # of the target, left by a column that tells too much; |correlation| 0.99
MOST_VALUES = 1_000_000  # looked at; of larger tables, rows at equal distances
FEWEST_ROWS = 30
_FEWEST_ERRORS = 8  # of a constant prediction: with fewer there is nothing to explain
_LEAVES = 64
_MANY_DISTINCT = 0.95  # of the rows: a text column with so many values names rows
_FEWEST_DISTINCT = 20
_RARE_ROWS = 10
_RARE_SHARE = 0.01
_FAR = 6.0  # robust standard deviations
_NEAR_MODEL = 0.95
_MUCH = 0.5  # of what the model explains, by one column that explains much
_BY_CHANCE = 0.5  # of the rows with an equal one, that have one if columns are shuffled
_LEVEL = 0.05
_LEAST_SHARE = 0.02  # of the rows, in a slice
_QUANTILES = 5
_ROUNDING = 1e-5  # of targets that were float32 once
_FEW_VALUES = 8  # numbers of which each is a slice of its own
_MOST_CATEGORIES = 50
_SHOWN = 8


@dataclass(frozen=True)
class Column:
    """One column of some rows: numbers, moments or categories."""

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
        """The values with the median, or a category of its own, where they are missing."""
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
        """Whether values name rows: nearly all texts differ, or all numbers, and they are whole."""
        n = len(self.values)
        values = self.values
        if n < _FEWEST_DISTINCT or self.date:
            return False
        if self.categories is not None:
            return self.distinct > _MANY_DISTINCT * n
        return self.distinct == n and bool(np.all(values == np.round(values)) and values.min() >= 0)


def data_facts(
    columns: Sequence[Column],
    y: np.ndarray,
    classes: np.ndarray | None,
    duplicates: dict[str, Any],
    explained: float | None,
    fitted: np.ndarray | None = None,
    alone: dict[str, float] | None = None,
    copies: list[list[str]] | None = None,
) -> dict[str, Any]:
    """What to know of columns and target, `explained` by the model to this share, `fitted` as that.

    What columns explain `alone`, and which are `copies`, is found out here unless the fit of a table has
    looked at them already, as its model sees them.
    """
    alone = explained_alone(columns, y, classes is not None) if alone is None else alone
    leaks = [name for name, share in alone.items() if share > 1.0 - UNEXPLAINED]
    enough = np.inf if explained is None else max(_MUCH, _NEAR_MODEL * explained)
    missing = {one.name: int(one.absent.sum()) for one in columns if one.absent.any()}
    facts: dict[str, Any] = {
        "rows": len(y),
        "columns": len(columns),
        "numeric": sum(one.categories is None and not one.date for one in columns),
        "missing": dict(sorted(missing.items(), key=lambda item: -item[1])),
        "constant": [one.name for one in columns if one.distinct <= 1],
        "identifiers": [one.name for one in columns if one.identifies],
        "copies": equal_columns(columns) if copies is None else copies,
        "alone": alone,
        "leaks": leaks,
        "nearly_all": [name for name, one in alone.items() if one >= enough and name not in leaks],
        "duplicates": duplicates,
    }
    if classes is not None:
        counts = {str(label): int(np.sum(y == label)) for label in classes}
        few = max(_RARE_ROWS, _RARE_SHARE * len(y))
        return facts | {"classes": counts, "rare": [one for one, rows in counts.items() if rows < few]}
    first, own = (a.reshape(len(y), -1)[:, 0] for a in (y, y if fitted is None else fitted))
    own = own[np.isfinite(own)]
    far = 0
    if len(own):
        away = np.abs(own - np.median(own))
        spread = 1.4826 * float(np.median(away))
        far = int(np.sum(away > _FAR * spread)) if spread > 0 else 0
    facts["outliers"] = {"rows": far, "deviations": _FAR}
    facts["untransformed"] = len(y) - len(own)  # targets without a logarithm, say
    target = {"mean": float(first.mean()), "median": float(np.median(first))}
    return facts | {"target": target | {"lowest": float(first.min()), "highest": float(first.max())}}


# Copies


def equal_rows(X: Any) -> np.ndarray:
    """The number (n,) of the set of equal rows that each row belongs to."""
    found: np.ndarray = np.unique(row_hashes(X), return_inverse=True)[1].ravel()
    return found


@dataclass(frozen=True)
class EqualRows:
    """How many of some rows have the features and the target of a row that a model was fitted on."""

    rows: int
    known: int  # training rows that they were compared with
    fitted: int  # training rows that there were, without those of weight 0
    estimated: bool  # as not all of those are known

    def words(self) -> str:
        """What is known of them, and how."""
        verb = "is" if self.rows == 1 else "are"
        words = f"{self.rows:,} of them {verb} equal to a training row (same features and target)"
        if not self.estimated:
            return words
        how = f"estimated from {self.known:,} of {self.fitted:,} training rows"
        return f"about {words.removesuffix(')')}; {how})"


def equal_to_training(estimator: Any, hashes: np.ndarray, y: np.ndarray) -> EqualRows | None:
    r"""How many rows of these hashes and targets equal a training row; None where nothing is known.

    `y` is as the estimator was fitted to it. Where the fingerprint is a sample of the training rows, a
    share q of them, rows that equal one outside the sample are estimated by Chao and Lin's formula:
    with :math:`f_1` and :math:`f_2` the numbers of different rows found here that the sample of m has
    once and twice, :math:`f_1^2 / (2 f_2 m / (m - 1) + f_1 q / (1 - q))` more are to be expected. If
    training rows are all different this is :math:`f_1 (1 - q) / q`; if they repeat many times, nothing
    is added, since the sample has them all.
    """
    fingerprint = estimator.fingerprint_
    if fingerprint is None:
        return None
    known, given, rounding = _comparable(estimator, fingerprint["targets"], y)
    codes = np.unique(known, axis=0, return_inverse=True)[1].ravel()
    pairs = np.column_stack([fingerprint["hashes"], codes])
    _, first, times = np.unique(pairs, axis=0, return_index=True, return_counts=True)
    order = np.argsort(hashes, kind="stable")
    wanted = fingerprint["hashes"][first]
    starts = np.searchsorted(hashes, wanted, side="left", sorter=order)
    stops = np.searchsorted(hashes, wanted, side="right", sorter=order)
    matched = np.zeros(len(hashes), dtype=bool)
    found = np.zeros(len(first), dtype=np.int64)  # rows here that equal each different sampled row
    for place, (start, stop) in enumerate(zip(starts, stops)):
        rows = order[start:stop]
        close = np.all(np.abs(given[rows] - known[first[place]]) <= rounding, axis=1)
        matched[rows[close]] = True
        found[place] = np.count_nonzero(close)
    total = float(matched.sum())
    sampled = len(fingerprint["rows"])
    fitted = rows_with_weight(fingerprint)
    whole = has_all_rows(fingerprint, int(estimator.n_features_in_))
    once, twice = ((times == count) & (found > 0) for count in (1, 2))
    if not whole and once.any():
        share = sampled / fitted
        expected = 2 * twice.sum() * sampled / (sampled - 1) + once.sum() * share / (1 - share)
        total += float(found[once].sum()) * once.sum() / expected
    return EqualRows(min(round(total), len(hashes)), sampled, fitted, not whole)


def _comparable(
    estimator: Any, fitted: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Targets of a fingerprint and of other rows, as numbers (n, columns), and what counts as equal."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        size = float(np.abs(fitted).max(initial=0.0))
        return fitted, np.asarray(y, dtype=np.float64).reshape(len(y), -1), _ROUNDING * size
    labels = np.asarray(classes)
    places = np.where(np.isin(y, labels), np.searchsorted(labels, y), -1)
    return labels_of(fitted)[:, None], places[:, None], 0.0


def duplicate_facts(
    X: Any,
    y: np.ndarray,
    splits: Sequence[tuple[np.ndarray, np.ndarray]] | None,
    columns: Sequence[Column] = (),
) -> dict[str, Any]:
    """Rows that have a copy; held-out rows with a copy in their training part, by their targets."""
    groups = equal_rows(X)
    copies = np.bincount(groups)[groups] > 1
    found: dict[str, Any] = {"rows": int(copies.sum()), "distinct": int(groups.max()) + 1}
    found |= {"across": 0, "same_target": 0, "other_target": 0, "by_chance": False}
    if splits is None or not copies.any():
        return found
    answers = np.unique(y, axis=0 if y.ndim > 1 else None, return_inverse=True)[1].ravel()
    both = np.unique(np.column_stack([groups, answers]), axis=0, return_inverse=True)[1].ravel()
    across = np.zeros(len(y), dtype=bool)
    same = np.zeros(len(y), dtype=bool)
    for train, test in splits:
        seen, alike = (np.bincount(of[train], minlength=int(of.max()) + 1) > 0 for of in (groups, both))
        across[test] |= seen[groups[test]]
        same[test] |= alike[both[test]]
    found |= {"across": int(across.sum()), "same_target": int((across & same).sum())}
    found["other_target"] = found["across"] - found["same_target"]
    if columns:  # few values in each make rows equal that are no copies
        random = np.random.default_rng(0)
        shuffled = equal_rows(np.column_stack([random.permutation(one.filled()) for one in columns]))
        chance = int((np.bincount(shuffled)[shuffled] > 1).sum())
        found["by_chance"] = chance > _BY_CHANCE * found["rows"]
    return found


def equal_columns(columns: Sequence[Column]) -> list[list[str]]:
    """Names of columns that are copies: the same categories under any names, numbers in any unit."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for one in columns:
        if one.distinct < 2:
            continue
        if measured := one.categories is None and one.distinct > 2:
            values = one.values - np.nanmean(one.values)
            first = values[np.flatnonzero(~one.absent & (values != 0))[0]]
            key: Any = np.round(np.sign(first) * values / np.nanmax(np.abs(values)), 9) + 0.0
        else:  # in the order in which they come first
            present = np.unique(one.values, return_index=True, return_inverse=True)
            order = np.argsort(np.argsort(present[1]))
            key = np.where(one.absent, -1, order[present[2].ravel()])
        groups.setdefault((measured, key.tobytes()), []).append(one.name)
    return [names for names in groups.values() if len(names) > 1]


# Columns alone


def explained_alone(columns: Sequence[Column], y: np.ndarray, classifier: bool) -> dict[str, float]:
    """The share that each column explains by itself, the largest first; of many rows some are used."""
    step = max(1, len(y) * len(columns) // MOST_VALUES)
    part = y[::step]
    if len(columns) < 2 or y.ndim > 1 or len(part) < FEWEST_ROWS:
        return {}
    codes = np.unique(part, return_inverse=True)[1] if classifier else part
    found = {}
    for one in columns:
        values = replace(one, values=one.values[::step]).filled()
        found[one.name] = 1.0 - _unexplained_share(
            values, codes, not classifier, one.categories is not None
        )
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _unexplained_share(x: np.ndarray, y: np.ndarray, numbers: bool, groups: bool) -> float:
    """The share of a constant prediction's loss that a column leaves; y: `numbers`, or codes."""
    # Two intervals for each class are too few to learn rows by heart.
    leaves = None if groups else _LEAVES if numbers else 2 * (int(y.max()) + 1)
    kind: Any = DecisionTreeRegressor if numbers else DecisionTreeClassifier
    order = np.unique(x, return_inverse=True)[1]  # all that a tree needs, at any scale
    tree = kind(max_leaf_nodes=leaves, random_state=0)
    column = order[:, None]
    loss = constant = 0.0
    for half in (0, 1):
        seen = slice(half, None, 2)
        unseen = slice(1 - half, None, 2)
        predicted = tree.fit(column[seen], y[seen]).predict(column[unseen])
        usual = y[seen].mean() if numbers else np.bincount(y[seen]).argmax()
        if groups:
            predicted = np.where(np.isin(x[unseen], x[seen]), predicted, usual)
        missed = (lambda a, b: (a - b) ** 2) if numbers else np.not_equal
        loss += float(np.sum(missed(predicted, y[unseen])))
        constant += float(np.sum(missed(usual, y[unseen])))
    if constant == 0 or (not numbers and constant < _FEWEST_ERRORS):
        return 1.0
    left = loss / constant
    if groups:
        return left
    if not numbers:
        whole = float(np.sum(tree.fit(column, y).predict(column) != y)) / constant
        return whole if whole <= UNEXPLAINED else left
    whole = 1.0 - _correlation(order, np.unique(y, return_inverse=True)[1]) ** 2
    return whole if whole <= UNEXPLAINED else min(left, 1.0 - _correlation(x, y) ** 2)


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a = a - a.mean()
    b = b - b.mean()
    size = float(np.sqrt(np.sum(a * a) * np.sum(b * b)))
    return float(np.sum(a * b)) / size if size > 0 else 0.0


# Slices


def weak_slices(columns: Sequence[Column], loss: np.ndarray) -> dict[str, Any]:
    """Slices with significantly larger mean loss, the largest difference first; O(columns · n log n).

    `loss` (n,) is NaN for rows that have none, which are left out.
    """
    has = np.isfinite(loss)
    loss = loss[has]
    n = int(has.sum())
    fewest = max(FEWEST_ROWS, int(np.ceil(_LEAST_SHARE * n)))
    looked: list[dict[str, Any]] = []
    for column in columns:
        for words, inside in slices_of(replace(column, values=column.values[has])):
            rows = int(inside.sum())
            if fewest <= rows <= n - FEWEST_ROWS:
                found = {"column": column.name, "where": words, "rows": rows, "share": rows / n}
                looked.append(found | _compared(loss[inside], loss[~inside]))
    worse = [looked[i] for i in _holm([one["p"] for one in looked])]
    worse.sort(key=lambda one: -float(one["difference"]))
    return {
        "looked": len(looked),
        "overall": float(loss.mean()) if n else float("nan"),
        "found": worse[:_SHOWN],
        "more": max(0, len(worse) - _SHOWN),
        "fewest_rows": fewest,
    }


def slices_of(column: Column) -> Iterator[tuple[str, np.ndarray]]:
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
    """Mean loss of the slice and of the rest, and Welch's one-sided p of their difference."""
    (loss, one), (rest, other) = ((float(a.mean()), float(a.std(ddof=1))) for a in (inside, outside))
    sides = (loss, one, len(inside), rest, other, len(outside))
    p = float(ttest_ind_from_stats(*sides, equal_var=False, alternative="greater").pvalue)
    p = 1.0 if np.isnan(p) else p  # of equal constants
    return {"loss": loss, "rest": rest, "difference": loss - rest, "p": p}


def _holm(p: Sequence[float]) -> list[int]:
    """Which of several hypotheses Holm's step-down procedure rejects."""
    kept = []
    for place, i in enumerate(np.argsort(p, kind="stable")):
        if p[i] * (len(p) - place) > _LEVEL:
            break
        kept.append(int(i))
    return kept
