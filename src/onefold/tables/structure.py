r"""Whether rows of a table belong together, or come in time, so that random folds promise too much.

Random folds score a model on rows whose neighbours it has seen: other rows of the same person, storm or
shop, or the hours before and after. New rows of the same person are predicted as well as that; rows of
new persons are not. Candidates are looked for in the columns and in the order of the rows, and one test
decides about each.

*Candidates for groups*: columns whose values repeat, whatever they hold and whether they are features;
and sets of columns that repeat as a whole far more often than their values do by chance, as those of a
person who has several rows. *Candidates for time*: columns of dates, years, months, days and hours in
columns of their own, and the order of the rows.

*The test*: on a sample of whole groups, or of whole stretches of time, a kernel machine with the
kernel exp(−‖x − x′‖/ℓ) predicts every row twice, with random folds and with folds that keep groups, or
blocks of consecutive moments, together. Both come from one factorisation
(:mod:`onefold.smoothers.dense`, (4)); ℓ and the ridge are those that are best by random folds, as in the
search. With the losses L_i and L′_i of row i,

    (1)  D_g = Σ_{i∈g} (L′_i − L_i),    t = √G · mean(D) / std(D)

over the G groups, or stretches: rows of one group are alike, and so are their differences. There is a
structure if t is significant, with Bonferroni's correction for the number of candidates, and if

    (2)  ratio = √(Σ L′_i / Σ L_i)

is large enough to mislead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow.compute as pc
from scipy.special import stdtr

from onefold.smoothers import CholeskySmoother
from onefold.tables.columns import decoded, kind_of
from onefold.tables.kinds import DateColumn, Preparation
from onefold.tables.rows import Table, TableRows

# Rows of a sample that a candidate is tested on.
_SAMPLE = 800
# Rows below which nothing is tested: there are too few groups or stretches.
_FEWEST_ROWS = 40
# Groups that a column must have, and rows that they must have on average.
_FEWEST_GROUPS = 8
_LEAST_MEAN = 2.0
# Candidates of either kind that are tested, the most promising first.
_MOST_GROUPS = 6
_MOST_TIMES = 3
# Folds of either kind.
_FOLDS = 5
# Stretches of time in a sample, whose losses are taken for independent.
_STRETCHES = 25
# Lengths ℓ, relative to the median distance, and ridges of the kernel machine.
_LENGTHS = (0.5, 2.0)
_RIDGES = (1e-3, 3e-2, 1.0)
# Columns of indicators of classes.
_MOST_CLASSES = 5
# What is noticed: at most this probability if there is no structure, and at least this ratio (2).
_SIGNIFICANT = 0.01
_MISLEADING = 1.1
# Columns with parts of moments, from the longest to the shortest.
_CALENDAR = (
    ("year", "yr"),
    ("quarter", "qtr"),
    ("month", "mon", "mnth"),
    ("week",),
    ("day", "mday"),
    ("hour", "hr"),
    ("minute", "min"),
)
# Names of columns that count time by themselves.
_CLOCKS = ("time", "t", "date", "datetime", "timestamp", "period")


@dataclass(frozen=True)
class Structure:
    """Rows that belong together, or come in time, and how much that matters.

    Parameters
    ----------
    kind : {"groups", "time"}
    columns : tuple of str
        The columns that name it; none for the order of the rows.
    codes : array (n,)
        The number of the group of each row; for time the rank of its moment, which rows can share.
    ratio : float
        The RMSE on new groups or other times over that on random rows, by (2).
    p_value : float
        The probability of such a difference without structure, corrected for all candidates.
    """

    kind: Literal["groups", "time"]
    columns: tuple[str, ...]
    codes: np.ndarray
    ratio: float
    p_value: float

    @property
    def sentence(self) -> str:
        """What it means for scores, and the option that helps."""
        times = f"{self.ratio:.1f}" if self.ratio < 10 else f"{self.ratio:.0f}"
        if self.kind == "groups":
            names = " and ".join(f"'{name}'" for name in self.columns)
            option = ",".join(self.columns)
            return (
                f"rows with the same {names} are alike: errors on rows with a new {names} are some "
                f"{times} times those on random rows; use groups of {names} as folds "
                f"(--groups {option} on the command line)"
            )
        names = " and ".join(f"'{name}'" for name in self.columns)
        order = f"rows that are close in {names}" if self.columns else "rows that follow each other"
        return (
            f"{order} are alike: errors at other times are some {times} times those on random rows; use "
            "blocks of consecutive rows as folds (ordered=True, or --ordered on the command line)"
        )

    def as_plain(self) -> dict[str, Any]:
        """The same in plain values, for a report."""
        return {
            "kind": self.kind,
            "columns": list(self.columns),
            "ratio": self.ratio,
            "p_value": self.p_value,
            "sentence": self.sentence,
        }


@dataclass(frozen=True)
class _Candidate:
    """Groups of rows, or moments of them: `codes` as in `Structure`."""

    kind: Literal["groups", "time"]
    columns: tuple[str, ...]
    codes: np.ndarray


def notice(
    table: Table,
    preparation: Preparation,
    matrix: Any,
    y: Any,
    *,
    roles: Sequence[str] = (),
    classification: bool = False,
    random_state: int = 0,
) -> Structure | None:
    """The structure of the rows that misleads most, or None.

    Parameters
    ----------
    table : Table
        Of rows that stay on disk nothing is noticed.
    preparation : Preparation
    matrix : array (n, features)
        What the preparation makes of the table.
    y : array (n,) or (n, targets)
    roles : sequence of str
        Columns with a role other than that of a feature, such as the target.
    classification : bool
        Whether y has labels.
    random_state : int
    """
    if not isinstance(table, TableRows) or isinstance(matrix, np.memmap) or len(table) < _FEWEST_ROWS:
        return None
    generator = np.random.default_rng(random_state)
    candidates = _candidates(table, preparation, matrix, set(roles))
    targets = _targets(y, classification)
    structures = []
    for candidate in candidates:
        ratio, p_value = _tested(candidate, matrix, targets, generator)
        p_value = min(1.0, p_value * len(candidates))
        if p_value < _SIGNIFICANT and ratio > _MISLEADING:
            structures.append(
                Structure(candidate.kind, candidate.columns, candidate.codes, ratio, p_value)
            )
    return max(structures, key=lambda structure: structure.ratio, default=None)


# Candidates


def _candidates(
    table: TableRows, preparation: Preparation, matrix: Any, roles: set[str]
) -> list[_Candidate]:
    """What may be groups or time."""
    n = len(table)
    names = [name for name in table.names if name not in roles]
    codes = {name: _codes(table, name) for name in names}
    groups = []
    seen: set[bytes] = set()
    for name in names:
        counts = np.bincount(codes[name])
        if len(counts) < _FEWEST_GROUPS or n < _LEAST_MEAN * len(counts):
            continue
        fingerprint = codes[name].tobytes()
        if fingerprint not in seen:
            seen.add(fingerprint)
            groups.append(_Candidate("groups", (name,), codes[name]))
    groups.sort(key=lambda candidate: -int(candidate.codes.max()))
    return [*groups[:_MOST_GROUPS], *_times(table, preparation, matrix, names)[:_MOST_TIMES]]


def _codes(table: TableRows, name: str) -> np.ndarray:
    """The number of the value of each row; every missing value has one of its own."""
    column = decoded(table.columns.column(name)).combine_chunks()
    encoded = pc.dictionary_encode(column)
    size = len(encoded.dictionary)
    indices = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    missing = indices < 0
    indices[missing] = size + np.arange(np.count_nonzero(missing))
    return indices


def _times(
    table: TableRows, preparation: Preparation, matrix: Any, names: Sequence[str]
) -> list[_Candidate]:
    """Columns of dates, parts of moments in several columns, and the order of the rows."""
    times = []
    for part, (name, place) in zip(preparation.parts, preparation.spans()):
        if isinstance(part, DateColumn) and part.order != "time":
            times.append(_Candidate("time", (name,), _ranks(matrix[:, place.start])))
    numbers = {}
    for name in names:
        column = table.column(name)
        if kind_of(column) == "numeric" and column.null_count == 0:
            numbers[name.lower()] = (name, table.numbers(name))
    calendar = [
        next((numbers[name] for name in spellings if name in numbers), None) for spellings in _CALENDAR
    ]
    parts = [part for part in calendar if part is not None]
    if parts and parts[0] is calendar[0]:  # a year, and whatever divides it
        order = np.lexsort([values for _, values in reversed(parts)])
        stacked = np.stack([values for _, values in parts], axis=1)[order]
        rank = np.cumsum(np.r_[0, np.any(stacked[1:] != stacked[:-1], axis=1)])
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = rank
        times.append(_Candidate("time", tuple(name for name, _ in parts), ranks))
    for clock in _CLOCKS:
        if clock in numbers and not times:
            name, values = numbers[clock]
            times.append(_Candidate("time", (name,), _ranks(values)))
    times.append(_Candidate("time", (), np.arange(len(table))))
    return [candidate for candidate in times if candidate.codes.max() >= _STRETCHES - 1]


def _ranks(values: Any) -> np.ndarray:
    return np.unique(np.asarray(values), return_inverse=True)[1].reshape(-1)


# The test


def _targets(y: Any, classification: bool) -> np.ndarray:
    """Targets (n, t) of unit variance, or centred indicators of classes."""
    values = np.asarray(y)
    if classification:
        labels, codes, counts = np.unique(values.reshape(-1), return_inverse=True, return_counts=True)
        frequent = np.argsort(-counts, kind="stable")[:_MOST_CLASSES]
        if len(labels) == 2:
            frequent = frequent[:1]
        values = (codes.reshape(-1)[:, None] == frequent[None, :]).astype(np.float64)
    values = values.reshape(len(values), -1).astype(np.float64)
    values = values - values.mean(axis=0)
    scale = np.sqrt(np.mean(values**2, axis=0))
    return values / np.where(scale > 0, scale, 1.0)


def _tested(
    candidate: _Candidate, matrix: Any, targets: np.ndarray, generator: np.random.Generator
) -> tuple[float, float]:
    """The ratio (2) of a candidate, and the probability of its t (1) without structure."""
    rows, clusters, folds = _sampled(candidate, generator)
    features = np.asarray(matrix[rows], dtype=np.float64)
    Y = targets[rows]
    random_folds = np.arange(len(rows)) % _FOLDS
    generator.shuffle(random_folds)
    losses, losses_apart = _losses(features, Y, random_folds, folds)
    total = losses.sum()
    if not np.isfinite(total) or total <= 0.0:
        return 1.0, 1.0
    ratio = float(np.sqrt(losses_apart.sum() / total))
    differences = np.bincount(clusters, losses_apart - losses)
    size = len(differences)
    error = differences.std(ddof=1) / np.sqrt(size)
    if size < 2 or error == 0.0:
        return ratio, 1.0
    return ratio, float(stdtr(size - 1, -differences.mean() / error))


def _sampled(
    candidate: _Candidate, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of a sample, and the number of the group or stretch, and of the fold, of each."""
    n = len(candidate.codes)
    if candidate.kind == "time":
        by_time = np.lexsort([generator.random(n), candidate.codes])
        length = min(n, _SAMPLE) // _STRETCHES
        starts = np.linspace(0, n - length, _STRETCHES).round().astype(np.int64)
        places = (starts[:, None] + np.arange(length)).reshape(-1)
        stretches = np.repeat(np.arange(_STRETCHES), length)
        return by_time[places], stretches, stretches * _FOLDS // _STRETCHES
    size = int(candidate.codes.max()) + 1
    most = max(_SAMPLE // _STRETCHES, 2)  # rows of a group
    shuffled = generator.permutation(n)
    shuffled = shuffled[
        np.argsort(generator.permutation(size)[candidate.codes[shuffled]], kind="stable")
    ]
    numbers = np.cumsum(
        np.r_[0, candidate.codes[shuffled][1:] != candidate.codes[shuffled][:-1]]
    )  # of the groups in their new order
    starts = np.searchsorted(numbers, np.arange(numbers[-1] + 1))
    kept = np.arange(n) - starts[numbers] < most
    rows = shuffled[kept][:_SAMPLE]
    groups = numbers[kept][:_SAMPLE]
    groups = np.unique(groups, return_inverse=True)[1].reshape(-1)
    return rows, groups, groups % _FOLDS


def _losses(
    features: np.ndarray, Y: np.ndarray, random_folds: np.ndarray, folds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Squared errors of each row with random folds and with others, where random folds are best."""
    squares = np.sum(features**2, axis=1)
    distances = np.sqrt(
        np.maximum(squares[:, None] + squares[None, :] - 2.0 * features @ features.T, 0.0)
    )
    median = float(np.median(distances[:: 1 + len(distances) // 100]))
    parts = [
        np.flatnonzero(of_rows == fold) for of_rows in (random_folds, folds) for fold in range(_FOLDS)
    ]
    parts = [part for part in parts if part.size]
    best = None
    for length in _LENGTHS:
        kernel = np.exp(-distances / (length * median or 1.0))
        smoother = CholeskySmoother(kernel, np.ones(len(Y)))
        for predictions in zip(*smoother.heldout(Y, parts, _RIDGES)):
            losses = np.zeros((2, len(Y)))
            for number, (part, values) in enumerate(zip(parts, predictions)):
                losses[int(number >= _FOLDS), part] = np.sum((values - Y[part]) ** 2, axis=1)
            if best is None or losses[0].sum() < best[0].sum():
                best = losses
    assert best is not None
    return best[0], best[1]
