r"""Whole numbers that act like names: shops, wards and codes, tried as numbers and as categories.

Whether the 17 of a column is more than the 16 cannot be told from the column. It is tried: the target
is predicted for held-out rows of a sample with the column as a number and as a category. Both are
kernel ridge regressions with an RBF kernel and the encoded columns of the table; labels are indicators.
With lᵢ the squared error of held-out row i, summed over targets,

    d_i = l_i(best as a number) − l_i(best as a category)                              (1)
    t   = mean(d) / (std(d) / √n)                                                       (2)

the column becomes a category if t is larger than the quantile of Student's distribution for a one-sided
level of 0.01, and the mean of d at least 1 % of the mean error as a number. The number has an
advantage: besides the width that suits all columns it is tried at several scales, as a learned
metric would stretch it, and the best of these competes.

*The sample* is drawn evenly from all rows, in memory or on disk, from the same random numbers whatever
the blocks are. Of a column with many values, rows of some of the values are taken, so that there are
several rows of each. Only columns whose values tell something about the residuals of the model with
numbers, by (3), are tried: with r_i the residual of a held-out row and m_i the mean of those of all
other rows with the same value, 0 without such,

    mean(r_i m_i) > 2 std(r_i m_i) / √n                                                 (3)

Last, all columns with up to 12 values are tried together: where letters are coded 1 to 4, the gain of a
single column may be too small to be certain. As this makes many features at once, it has to save 5 %.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from scipy.stats import t as student
from sklearn.model_selection import GroupKFold, KFold

from onefold.estimators import LSSVRCV
from onefold.facts.words import quoted
from onefold.search import GridEdgeWarning
from onefold.tables.columns import MOST_CATEGORIES
from onefold.tables.kinds import NumberColumn, Preparation, UnseenValues
from onefold.tables.rows import TableRows, concatenated

# Rows of the sample, and values in it: 16 MB.
_SAMPLE_ROWS = 20_000
_SAMPLE_VALUES = 1 << 21
# Rows that encodings are compared on: a factorisation takes 0.1 s.
_ROWS = 700
# Rows of one value of a column with many values, of which only some are taken.
_ROWS_OF_VALUE = 20
# Rows and repeats below which nothing can be said about single values.
_FEWEST_ROWS = 100
_FEWEST_REPEATS = 4
# Values below which a number and names are much the same.
_FEWEST_VALUES = 3
# Columns that are tried, those whose values tell most about the residuals.
_MOST_TRIED = 2
# Standard errors of the gain (3) above which a column is tried.
_WORTH_TRYING = 2.0
# Scales of a number next to that of its standard deviation, as far as learned metrics stretch it: at
# larger ones neighbours are so far apart that the number is a name, too.
_SCALES = (4.0, 10.0)
# Widths, relative to the mean squared distance of the rows, and ridges.
_WIDTHS = (0.1, 0.5, 2.0)
_RIDGES = (0.01, 0.1, 1.0, 10.0)
_FOLDS = 5
# The one-sided level at which a number becomes a category, and the least share of the error.
_LEVEL = 0.01
_LEAST_GAIN = 0.01
# Values of columns that are tried together, and the least share then: letters that are coded 1 to 4.
_FEW_VALUES = 12
_LEAST_GAIN_TOGETHER = 0.05


class RowSample:
    """Rows drawn evenly from blocks, the same rows whatever the blocks are."""

    def __init__(self, seed: int = 0) -> None:
        self._random = np.random.default_rng([seed, 3])
        self._blocks: list[TableRows] = []
        self._positions: np.ndarray = np.empty(0, dtype=np.int64)
        self._keys: np.ndarray = np.empty(0)  # random; the rows with the smallest keys are the sample
        self._seen = 0

    def add(self, rows: TableRows) -> None:
        """Take a block of rows."""
        keys = self._random.random(len(rows))
        size = min(_SAMPLE_ROWS, max(_ROWS, _SAMPLE_VALUES // max(1, len(rows.names))))
        threshold = np.inf if len(self._keys) < size else self._keys.max()
        candidates = np.flatnonzero(keys < threshold)
        if len(candidates) > size:
            candidates = np.sort(candidates[np.argpartition(keys[candidates], size)[:size]])
        positions = np.concatenate([self._positions, self._seen + candidates])
        all_keys = np.concatenate([self._keys, keys[candidates]])
        self._seen += len(rows)
        if not len(candidates):
            return
        blocks = [*self._blocks, rows.take(candidates)]
        if len(all_keys) > size:
            kept = np.sort(np.argpartition(all_keys, size)[:size])
            blocks = [concatenated(blocks).take(kept)]
            positions = positions[kept]
            all_keys = all_keys[kept]
        self._blocks = blocks
        self._positions = positions
        self._keys = all_keys

    def rows(self) -> tuple[TableRows, np.ndarray]:
        """The rows of the sample and their positions in the table, which rise."""
        return concatenated(self._blocks), self._positions


@dataclass(frozen=True)
class Codes:
    """Columns of whole numbers, one or several together, that predict better as categories."""

    names: tuple[str, ...]
    gain: float  # by which share the squared error of held-out rows is smaller

    @property
    def note(self) -> str:
        """What to say about them."""
        were = "were" if len(self.names) > 1 else "was"
        return (
            f"{quoted(self.names)} {were} taken as names, not as numbers, which lowers the squared "
            f"error of held-out rows of a sample by {self.gain:.0%} (numeric=, or --numeric, keeps "
            "numbers)"
        )


def codes_among(
    sample: RowSample,
    preparation: Preparation,
    columns: Collection[str],
    y: np.ndarray,
    groups: np.ndarray | None = None,
    *,
    classifier: bool = False,
    ordered: bool = False,
    seed: int = 0,
) -> list[Codes]:
    """Those of the columns of whole numbers that predict better as categories.

    Parameters
    ----------
    sample : RowSample
        Has seen all rows.
    preparation : Preparation
        With all columns of numbers as numbers.
    columns : collection of str
        Columns that hold whole numbers only, none of them negative.
    y, groups : ndarray (rows,)
        Targets of all rows, (rows, targets) if there are several, and their groups.
    classifier, ordered : bool
        Whether targets are labels; whether folds are blocks of consecutive rows.
    seed : int
        Seed of the rows and folds that are drawn.
    """
    parts = [part for part in preparation.parts if type(part) is NumberColumn and part.name in columns]
    if not parts or len(y) < _FEWEST_ROWS:
        return []
    rows, positions = sample.rows()
    sample_codes = _codes_that_repeat(parts, rows)
    if not sample_codes:
        return []
    places = _rows_to_compare(sample_codes, np.random.default_rng([seed, 4]))
    codes = {
        name: np.unique(numbers[places], return_inverse=True)[1]
        for name, numbers in sample_codes.items()
    }
    targets = _standardised(y[positions[places]], classifier)
    splits = _splits(len(places), None if groups is None else groups[positions[places]], ordered, seed)
    if not splits or not targets.shape[1]:
        return []
    comparison = _Comparison(preparation, rows.take(places), targets, splits)
    few_values = {name for name, numbers in sample_codes.items() if numbers.max() < _FEW_VALUES}
    return _better_as_categories(comparison, codes, few_values)


def _codes_that_repeat(parts: Sequence[NumberColumn], rows: TableRows) -> dict[str, np.ndarray]:
    """The number of the value of each row, of columns with neither too few values nor too many."""
    codes = {}
    for part in parts:
        values = rows.numbers(part.name)
        values = np.where(np.isnan(values), part.median, values)
        numbers = np.unique(values, return_inverse=True)[1]
        count = int(numbers.max()) + 1
        if _FEWEST_VALUES <= count <= min(MOST_CATEGORIES, len(rows) / _FEWEST_REPEATS):
            codes[part.name] = numbers
    return codes


def _better_as_categories(
    comparison: _Comparison, codes: dict[str, np.ndarray], few_values: Collection[str]
) -> list[Codes]:
    """The columns that gain as categories: single ones, then those with few values together."""
    evidence = {name: comparison.evidence(numbers) for name, numbers in codes.items()}
    promising = sorted(
        (name for name in codes if evidence[name] > _WORTH_TRYING), key=lambda name: -evidence[name]
    )
    categories = []
    numbers_of = dict(codes)  # of columns that are still numbers
    for name in promising[:_MOST_TRIED]:
        gain = comparison.gain({name: codes[name]})
        if gain >= _LEAST_GAIN:
            comparison.accept({name: numbers_of.pop(name)})
            categories.append(Codes((name,), gain))
    together = {name: numbers for name, numbers in numbers_of.items() if name in few_values}
    if len(together) > 1:
        gain = comparison.gain(together)
        if gain >= _LEAST_GAIN_TOGETHER:
            categories.append(Codes(tuple(together), gain))
    return categories


def _rows_to_compare(codes: dict[str, np.ndarray], generator: np.random.Generator) -> np.ndarray:
    """Rows of the sample, in their order: random ones, or those of some values of a column with many."""
    n = len(next(iter(codes.values())))
    order = generator.permutation(n)
    most_values = max(codes.values(), key=lambda numbers: int(numbers.max()))
    count = int(most_values.max()) + 1
    if count * _ROWS_OF_VALUE > _ROWS:
        values = generator.permutation(count)[: _ROWS // _ROWS_OF_VALUE]
        order = order[np.isin(most_values[order], values)]
    return np.sort(order[:_ROWS])


def _standardised(y: np.ndarray, classifier: bool) -> np.ndarray:
    """Targets (rows, targets) with variance 1, without constant ones; labels as indicators."""
    if classifier:
        labels, codes = np.unique(y, return_inverse=True)
        values = (codes.reshape(-1, 1) == np.arange(len(labels))).astype(np.float64)
        values = values[:, 1:] if len(labels) == 2 else values
    else:
        values = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    scale = values.std(axis=0)
    return (values - values.mean(axis=0))[:, scale > 0] / scale[scale > 0]


def _splits(n: int, groups: np.ndarray | None, ordered: bool, seed: int) -> list[tuple[Any, Any]]:
    """Folds of the kind that the search has; none where there is only one group."""
    if groups is not None:
        count = min(_FOLDS, len(np.unique(groups)))
        return list(GroupKFold(count).split(np.zeros((n, 1)), groups=groups)) if count > 1 else []
    return list(
        KFold(_FOLDS, shuffle=not ordered, random_state=None if ordered else seed).split(np.zeros(n))
    )


class _Comparison:
    """Held-out errors of the same rows by encodings of one column."""

    def __init__(
        self, preparation: Preparation, rows: TableRows, targets: np.ndarray, splits: Sequence[Any]
    ) -> None:
        self._targets = targets
        self._splits = splits
        self._places = dict(preparation.spans())
        self._matrix = preparation.transform(rows, UnseenValues())
        scale = float(np.mean(pdist(self._matrix, "sqeuclidean"))) or 1.0
        fit = self._fitted(self._matrix, [width / scale for width in _WIDTHS])
        self._width = float(fit.best_params_["gamma"])
        self._residuals = self._residuals_of(fit)

    def _fitted(self, matrix: np.ndarray, widths: Sequence[float]) -> Any:
        search = LSSVRCV(gammas=widths, alphas=_RIDGES, cv=self._splits, intervals=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GridEdgeWarning)
            return search.fit(matrix, self._targets)

    def _residuals_of(self, fit: Any) -> np.ndarray:
        """Held-out residuals (rows, targets)."""
        predictions = np.asarray(fit.heldout_prediction_).reshape(self._targets.shape)
        return self._targets - predictions

    def evidence(self, codes: np.ndarray) -> float:
        """How much the values of a column tell about the residuals: the mean in (3) by its error."""
        residuals = self._residuals
        other_rows = np.bincount(codes)[codes][:, None] - 1
        sums = np.column_stack([np.bincount(codes, column)[codes] for column in residuals.T])
        products = (residuals * (sums - residuals) / np.maximum(other_rows, 1)).sum(axis=1)
        error = products.std(ddof=1) / np.sqrt(len(products))
        return float(products.mean() / error) if error > 0 else 0.0

    def gain(self, codes: dict[str, np.ndarray]) -> float:
        """The share of the squared error that categories save, by (1) and (2); 0 if not certain."""
        places = [self._places[name].start for name in codes]
        as_numbers = (self._residuals**2).sum(axis=1)
        for scale in _SCALES:
            matrix = self._matrix.copy()
            matrix[:, places] *= scale
            errors = (self._residuals_by(matrix) ** 2).sum(axis=1)
            as_numbers = min(as_numbers, errors, key=np.mean)
        difference = as_numbers - (self._residuals_by(self._as_categories(codes)) ** 2).sum(axis=1)
        deviation = difference.std(ddof=1) / np.sqrt(len(difference))
        is_certain = difference.mean() > student.isf(_LEVEL, len(difference) - 1) * deviation
        return float(difference.mean() / as_numbers.mean()) if is_certain else 0.0

    def accept(self, codes: dict[str, np.ndarray]) -> None:
        """Compare further columns with these as categories."""
        self._matrix = self._as_categories(codes)
        self._residuals = self._residuals_by(self._matrix)

    def _as_categories(self, codes: dict[str, np.ndarray]) -> np.ndarray:
        """The matrix with indicators of these columns; the numbers become constant."""
        matrix = self._matrix.copy()
        matrix[:, [self._places[name].start for name in codes]] = 0.0
        return np.column_stack(
            [matrix, *(numbers[:, None] == np.arange(numbers.max() + 1) for numbers in codes.values())]
        )

    def _residuals_by(self, matrix: np.ndarray) -> np.ndarray:
        """Held-out residuals (rows, targets) with the width that suits the columns as numbers."""
        return self._residuals_of(self._fitted(matrix, [self._width]))
