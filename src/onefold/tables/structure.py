r"""Whether rows of a table belong together, or come in time, so that random folds promise too much.

Random folds score a model on rows whose neighbours it has seen: other rows of the same person, storm or
shop, or the hours before and after. New rows of the same person are predicted as well as that; rows of
new persons are not. Candidates are looked for in the columns and in the order of the rows, and one test
decides about each.

*Candidates for groups* are columns whose values repeat, features or not, and sets of columns that repeat
as a whole, as those of a person who has several rows. A number that acts on the target smoothly is none:
with the targets y of unit variance, and the means over pairs of rows,

    (1)  within = mean of y_i y_j over x_i = x_j,    between = mean of y_i y_j over neighbouring values x

`between` is about as large as `within` for such a number, and far smaller for one that is a name.
A few categories with many rows each are no candidate either, unless their rows are those of a panel, one
at each moment.
*Candidates for time* are columns of dates, years, months, days and hours in columns of their own, and
the order of the rows.

*The test*: on a sample of whole groups, or of whole stretches of time, a kernel machine with the
kernel exp(−‖x − x′‖/ℓ) predicts every row twice, with random folds and with folds that keep groups, or
blocks of consecutive moments, together. Both come from one factorisation
(:mod:`onefold.smoothers.dense`, (4)); ℓ and the ridge are those with the smallest error by random folds,
as in the search. With the errors e_i and e′_i of row i,

    (2)  D_g = Σ_{i∈g} (|e′_i| − |e_i|)

for each group g, or stretch: rows of one group are alike, and so are their differences. There is a
structure if Wilcoxon's signed-rank test finds them positive, with Bonferroni's correction for the number
of candidates, and if

    (3)  ratio = √(Σ e′_i² / Σ e_i²)

is large enough to mislead.

Where the constants below name no other origin, they are chosen; ``python -m benchmarks.claims noticed``
counts what is noticed with them on tables with structure and without.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.stats import wilcoxon

from onefold.facts.words import quoted
from onefold.smoothers import CholeskySmoother
from onefold.tables.columns import decoded, kind_of, without
from onefold.tables.kinds import DateColumn, Preparation
from onefold.tables.rows import Table, TableRows

# Rows of a sample that a candidate is tested on, and of its part that decides on ℓ and ridge.
_SAMPLE = 1000
_FIRST_SAMPLE = 400
# Rows below which nothing is tested: there are too few groups or stretches.
_FEWEST_ROWS = 40
# Groups that a column must have, and rows that they must have on average.
_FEWEST_GROUPS = 8
_LEAST_MEAN = 2.0
# Columns with at most so many names, and more rows of each on average than this, are categories.
_FEW_NAMES = 40
_MANY_ROWS = 40.0
# Groups of a sample, if there are so many, and the most rows of each.
_SAMPLED_GROUPS = 100
_SAMPLED_ROWS = 40
# In tables with more rows than this, a column is a candidate only if values repeat among so many random
# rows: where a million rows have each value twice, about 200 values repeat.
_SCREENED_FROM = 100_000
_SCREENED = 20_000
# The largest group may have this share of the rows, or so many times the mean: in a column of ordinary
# values, one of them is often far more frequent.
_LARGEST_SHARE = 0.1
_LARGEST = 3.0
# The largest `between` in (1), as a share of `within`, if the numbers are names.
_BETWEEN_NAMES = 0.5
# Candidates of either kind that are tested, the most promising first.
_MOST_GROUPS = 4
_MOST_TIMES = 2
# Folds of either kind.
_FOLDS = 5
# Stretches of time in a sample.
_STRETCHES = 25
# Members of a panel in a sample of stretches of time.
_MEMBERS = 4
# Lengths ℓ, relative to the median distance, and ridges of the kernel machine.
_LENGTHS = (0.5, 2.0)
_RIDGES = (1e-3, 3e-2, 1.0)
# Columns of indicators of classes.
_MOST_CLASSES = 5
# What is noticed: at most this probability without structure, and at least this ratio (3).
_SIGNIFICANT = 0.01
_MISLEADING = 1.1
# The ratio that suffices if the probability is at most this, unless the candidate is a doubtful one.
_CERTAIN = 0.001
_MISLEADING_IF_CERTAIN = 1.05
# The ratio that doubtful candidates need: numbers with fractions and few names, which are mostly
# ordinary values, and few moments, whose errors are also those of a smooth function far from its data.
_MISLEADING_IN_DOUBT = 1.2
# The share of the largest ratio less 1 from which on groups mislead about as much: of these the smallest
# groups are named.
_SIMILAR_RATIO = 0.8
# Groups are named rather than time, unless the ratio of time less 1 is larger by this factor.
_TIME_FACTOR = 2.5
# Rows on which sets of columns are searched for, pairs of equal rows over those by chance, and the share
# of the columns that must repeat.
_SET_ROWS = 3000
_NOT_BY_CHANCE = 10.0
_SET_SHARE = 1 / 3
_FEWEST_SETS = 20
# The share of such groups that must still be different without any one of the columns.
_SATURATED = 0.8
# Share of the steps along the rows that have one sign if the rows are sorted, and that are equal if the
# numbers count the rows.
_SORTED = 0.98
_EVEN = 0.8
# Columns that a sentence names.
_MOST_QUOTED = 4
# Columns with parts of moments, from the longest to the shortest, and the least and greatest values.
_CALENDAR = (
    (("year", "yr"), 0, 3000),
    (("quarter", "qtr"), 1, 4),
    (("month", "mon", "mnth"), 0, 12),
    (("week",), 0, 54),
    (("day", "mday"), 1, 366),
    (("hour", "hr"), 0, 2400),
    (("minute", "min"), 0, 60),
)
_CALENDAR_NAMES = {name for names, _, _ in _CALENDAR for name in names}
# Names of columns that count time by themselves.
_CLOCKS = {"time", "t", "date", "datetime", "timestamp", "period"}


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
        names = quoted(self.columns, _MOST_QUOTED)
        if self.kind == "groups":
            option = " ".join(shlex.quote(name) for name in self.columns)
            return (
                f"rows with the same {names} are alike: in a quick test, errors on rows with a new "
                f"{names} were some {times} times those on random rows; use --groups {option} (or "
                "groups=) for scores of new ones"
            )
        alike = f"rows with a similar {names}" if self.columns else "rows that follow each other"
        return (
            f"{alike} are alike: in a quick test, errors on later rows were some {times} times those on "
            'random rows; use --ordered auto (or ordered="auto") for scores of later ones'
        )

    @property
    def in_order_of(self) -> str | None:
        """The column that says the time of the rows, if it is one."""
        return self.columns[0] if self.kind == "time" and len(self.columns) == 1 else None

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
    """Groups of rows, or moments of them: `codes` as in `Structure`.

    `members` of a panel are groups with one row at each moment, if time has any; `moments` are those of
    the rows of groups, if there is a column of time.
    """

    kind: Literal["groups", "time"]
    columns: tuple[str, ...]
    codes: np.ndarray
    members: np.ndarray | None = None
    moments: np.ndarray | None = None
    misleading: float = _MISLEADING  # the least ratio that is noticed


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
    """The structure of the rows that misleads, or None.

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
    targets = _targets(y, classification)
    names = [name for name in table.names if name not in roles]
    times = _times(table, preparation, matrix, names)
    groups = _groups(table, preparation, names, targets, [time.codes for time in times])
    times = [_with_members(time, groups) for time in times]
    tests = len(groups) + len(times) + 1  # with that of the order of the rows

    def noticed(candidate: _Candidate) -> Structure | None:
        ratio, p_value = _tested(candidate, matrix, targets, generator)
        p_value = min(1.0, tests * p_value)
        certain = p_value < _CERTAIN and candidate.misleading == _MISLEADING
        least = _MISLEADING_IF_CERTAIN if certain else candidate.misleading
        if p_value >= _SIGNIFICANT or ratio <= least:
            return None
        return Structure(candidate.kind, candidate.columns, candidate.codes, ratio, p_value)

    by_name = [structure for candidate in [*groups, *times] if (structure := noticed(candidate))]
    if by_name:
        return _most_misleading(by_name, times)
    if _are_sorted(targets, preparation, matrix):
        return None
    return noticed(_Candidate("time", (), np.arange(len(table))))


def _most_misleading(structures: Sequence[Structure], times: Sequence[_Candidate]) -> Structure:
    """The structure that is named: time for a panel in the order of time, otherwise usually groups."""
    groups = [structure for structure in structures if structure.kind == "groups"]
    in_time = [structure for structure in structures if structure.kind == "time"]
    largest = max((structure.ratio for structure in groups), default=1.0)
    least_excess = _SIMILAR_RATIO * (largest - 1.0)
    groups = [structure for structure in groups if structure.ratio - 1.0 >= least_excess]
    group = max(groups, key=lambda structure: int(structure.codes.max()), default=None)
    time = max(in_time, key=lambda structure: structure.ratio, default=None)
    if group is None or time is None:
        return group or time or structures[0]
    panels = [candidate for candidate in times if candidate.members is not None]
    if any(candidate.codes is time.codes and _is_sorted(candidate.codes) for candidate in panels):
        return time
    return time if time.ratio - 1.0 > _TIME_FACTOR * (group.ratio - 1.0) else group


# Candidates


def _groups(
    table: TableRows,
    preparation: Preparation,
    names: Sequence[str],
    targets: np.ndarray,
    moments: Sequence[np.ndarray],
) -> list[_Candidate]:
    """What may be groups, the most promising first."""
    n = len(table)
    dates = {part.name for part in preparation.parts if isinstance(part, DateColumn)}
    order = next(iter(moments), None)
    sizes: dict[str, int] = {}
    seen: set[bytes] = set()
    best: list[tuple[float, _Candidate]] = []
    for name in names:
        if name in dates or name.lower() in _CALENDAR_NAMES | _CLOCKS or not _may_repeat(table, name):
            continue
        codes = _codes(table, name)
        size = int(codes.max()) + 1
        sizes[name] = size
        if size < _FEWEST_GROUPS or n < _LEAST_MEAN * size:
            continue
        digest = _digest(codes)
        if digest in seen:
            continue
        seen.add(digest)
        numbers = table.numbers(name) if kind_of(table.column(name)) == "numeric" else None
        within, between = _likeness(codes, numbers, targets)
        in_doubt = False
        if not any(_are_members(codes, ranks) for ranks in moments):
            if size <= _FEW_NAMES and n > _MANY_ROWS * size:
                continue
            if between > _BETWEEN_NAMES * within:
                continue
            if np.bincount(codes).max() > n * max(_LARGEST_SHARE, _LARGEST / size):
                continue
            in_doubt = size <= _FEW_NAMES
        if numbers is not None:
            in_doubt = in_doubt or bool(np.any(numbers[~np.isnan(numbers)] % 1.0 != 0.0))
        least = _MISLEADING_IN_DOUBT if in_doubt else _MISLEADING
        candidate = _Candidate("groups", (name,), codes, moments=order, misleading=least)
        best.append((within - between, candidate))
        best = sorted(best, key=lambda pair: -pair[0])[:_MOST_GROUPS]  # codes of all would take memory
    candidates = [candidate for _, candidate in best]
    repeated = _repeated_set(table, sizes)
    if repeated is not None and _digest(repeated.codes) not in seen:
        candidates = [repeated, *candidates][:_MOST_GROUPS]
    return candidates


def _may_repeat(table: TableRows, name: str) -> bool:
    """Whether values repeat in some rows of a long table, as they do if they name groups."""
    n = len(table)
    if n <= _SCREENED_FROM:
        return True
    rows = np.random.default_rng(0).choice(n, _SCREENED, replace=False)
    return len(pc.unique(table.columns.column(name).take(rows))) < _SCREENED


def _digest(codes: np.ndarray) -> bytes:
    return hashlib.blake2b(codes.tobytes(), digest_size=16).digest()


def _codes(table: TableRows, name: str) -> np.ndarray:
    """The number of the value of each row; every missing value has one of its own."""
    column = decoded(table.column(name)).combine_chunks()
    if pa.types.is_floating(column.type):
        column = without(column, pc.is_nan(column))
    encoded = pc.dictionary_encode(column)
    size = len(encoded.dictionary)
    indices = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    missing = indices < 0
    indices[missing] = size + np.arange(np.count_nonzero(missing))
    return indices


def _likeness(codes: np.ndarray, numbers: np.ndarray | None, targets: np.ndarray) -> tuple[float, float]:
    """(1): `within`, and `between`, which is 0 for values that are not numbers."""
    counts = np.bincount(codes)
    pairs = float(np.sum(counts * (counts - 1.0)))
    within = 0.0
    between = 0.0
    if numbers is not None:
        values = np.zeros(len(counts))
        values[codes] = np.nan_to_num(numbers)
        order = np.argsort(values)
        neighbours = float(np.sum(counts[order[:-1]] * counts[order[1:]]))
    for target in targets.T:
        sums = np.bincount(codes, target)
        within += float(np.sum(sums**2) - np.sum(target**2)) / pairs
        if numbers is not None:
            between += float(np.sum(sums[order[:-1]] * sums[order[1:]])) / neighbours
    return within, between


def _are_members(codes: np.ndarray, ranks: np.ndarray) -> bool:
    """Whether groups are the members of a panel: several have a row at a moment, each but one."""
    moments = int(ranks.max()) + 1
    pairs = len(np.unique(codes * moments + ranks))
    return pairs >= _SORTED * len(codes) >= _LEAST_MEAN * moments


def _repeated_set(table: TableRows, sizes: dict[str, int]) -> _Candidate | None:
    """Columns that repeat as a whole, as those of a person who has several rows, or None.

    Starting with all columns, those whose values tell most rows apart are removed until rows repeat. The
    set counts only if most of its groups stay apart without any one of its columns: a person has more
    columns than are needed to tell people apart. `sizes` are the numbers of different values.
    """
    n = len(table)
    names = [name for name, size in sizes.items() if size > 1 and n >= _LEAST_MEAN * size]
    least = max(3, int(np.ceil(_SET_SHARE * sum(size > 1 for size in sizes.values()))))
    if len(names) < least:
        return None
    # A row is known by the sum of random numbers, one for each value: without a column by a subtraction.
    generator = np.random.default_rng(0)
    values_of = {name: generator.integers(0, 2**63, sizes[name], dtype=np.uint64) for name in names}
    rows = np.arange(n)
    if n > _SET_ROWS:
        pivot = max(names, key=lambda name: sizes[name])  # all rows of some of its values
        rows = np.argsort(generator.permutation(sizes[pivot])[_codes(table, pivot)], kind="stable")
        rows = rows[:_SET_ROWS]
    sample = table.take(rows)
    codes_of = {name: _codes(sample, name) for name in names}
    columns = {name: values_of[name][codes_of[name]] for name in names}
    total = np.zeros(len(rows), dtype=np.uint64)
    for values in columns.values():
        total += values
    while len(rows) < _LEAST_MEAN * _distinct(total):
        if len(columns) <= least:
            return None
        without = {name: _distinct(total - values) for name, values in columns.items()}
        for name in sorted(without, key=without.__getitem__)[: 1 + len(columns) // 10]:
            total -= columns.pop(name)
    counts = np.unique(total, return_counts=True)[1]
    if any(_distinct(total - values) < _SATURATED * len(counts) for values in columns.values()):
        return None
    by_chance = max(_pairs_by_chance([codes_of[name] for name in columns]), 1.0)
    if len(counts) < _FEWEST_SETS or np.sum(counts * (counts - 1.0)) < 2 * _NOT_BY_CHANCE * by_chance:
        return None
    named = dict(columns)
    for name in sorted(columns, key=lambda name: sizes[name]):  # groups are the same without these
        if _distinct(total - columns[name]) == len(counts):
            total -= named.pop(name)
    every_row = np.zeros(n, dtype=np.uint64)
    for name in named:
        every_row += values_of[name][_codes(table, name)]
    _, first, codes = np.unique(every_row, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return _Candidate("groups", tuple(named), rank[codes.reshape(-1)])


def _pairs_by_chance(columns: Sequence[np.ndarray]) -> float:
    """How many pairs of rows would be equal in all columns if these were independent."""
    n = len(columns[0])
    pairs = 0.5 * n**2
    for codes in columns:
        shares = np.bincount(codes) / n
        pairs *= float(np.sum(shares**2))
    return pairs


def _distinct(values: np.ndarray) -> int:
    """How many different values there are."""
    ordered = np.sort(values)
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


def _times(
    table: TableRows, preparation: Preparation, matrix: Any, names: Sequence[str]
) -> list[_Candidate]:
    """Columns of dates, and parts of moments in several columns."""
    times = []
    for part, (name, place) in zip(preparation.parts, preparation.spans()):
        if isinstance(part, DateColumn) and part.order != "time":
            times.append(_Candidate("time", (name,), _ranks(matrix[:, place.start])))
    numbers = {}
    for name in names:
        if name.lower() in _CALENDAR_NAMES | _CLOCKS:
            column = table.column(name)
            if kind_of(column) == "numeric" and column.null_count == 0:
                numbers[name.lower()] = (name, table.numbers(name))
    parts = []
    for spellings, least, most in _CALENDAR:
        for spelling in spellings:
            if spelling in numbers:
                values = numbers[spelling][1]
                if values.min() >= least and values.max() <= most:
                    parts.append(numbers[spelling])
                    break
    if parts and (parts[0][0].lower() in _CALENDAR[0][0] or len(parts) > 1):
        times.append(_Candidate("time", tuple(name for name, _ in parts), _ranks_of(parts)))
    for clock in sorted(_CLOCKS & numbers.keys()):
        if not times:
            times.append(_Candidate("time", (numbers[clock][0],), _ranks(numbers[clock][1])))
    return [time for time in times if time.codes.max() >= _FOLDS - 1][:_MOST_TIMES]


def _ranks(values: Any) -> np.ndarray:
    """The rank of each value, which equal values share."""
    return np.unique(np.asarray(values), return_inverse=True)[1].reshape(-1)


def _ranks_of(parts: Sequence[tuple[str, np.ndarray]]) -> np.ndarray:
    """The ranks of moments of which columns hold the parts, the longest first."""
    ranks = _ranks(parts[0][1])
    for _, values in parts[1:]:
        of_part = _ranks(values)
        ranks = _ranks(ranks * (of_part.max() + 1) + of_part)
    return ranks


def _with_members(time: _Candidate, groups: Sequence[_Candidate]) -> _Candidate:
    """A candidate for time with the members of its panel, if groups are that."""
    for group in groups:
        if _are_members(group.codes, time.codes):
            return replace(time, members=group.codes)
    few = int(time.codes.max()) < 2 * _STRETCHES
    return replace(time, misleading=_MISLEADING_IN_DOUBT) if few else time


def _is_sorted(values: np.ndarray) -> bool:
    """Whether rows are in the order of numbers, up or down, but for a few."""
    steps = np.diff(values)
    fewer = min(np.count_nonzero(steps > 0), np.count_nonzero(steps < 0))
    return bool(fewer <= (1.0 - _SORTED) * len(steps))


def _are_sorted(targets: np.ndarray, preparation: Preparation, matrix: Any) -> bool:
    """Whether rows are sorted by the target, or by a number while none counts the rows."""
    if any(_is_sorted(target) for target in targets.T):
        return True
    by_feature = False
    for part, (_, place) in zip(preparation.parts, preparation.spans()):
        if part.indicators:
            continue
        feature = matrix[:, place.start]
        moves = np.diff(feature)
        moves = moves[moves != 0.0]
        if 2 * len(moves) > len(feature) and _is_sorted(feature):
            if np.mean(np.isclose(moves, np.median(moves), rtol=1e-3)) > _EVEN:
                return False
            by_feature = True
    return by_feature


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
    """The ratio (3) of a candidate, and the probability of its differences (2) without structure."""
    rows, clusters, folds = _sampled(candidate, generator)
    features = np.asarray(matrix[rows], dtype=np.float64)
    random_folds = np.arange(len(rows)) % _FOLDS
    generator.shuffle(random_folds)
    distances = _distances(features)
    errors = _errors(distances, targets[rows], random_folds, folds)
    squares = np.sum(errors**2, axis=1)
    if not np.isfinite(squares).all() or squares[0] <= 0.0:
        return 1.0, 1.0
    ratio = float(np.sqrt(squares[1] / squares[0]))
    differences = np.bincount(clusters, errors[1] - errors[0])
    if np.count_nonzero(differences) < 2:
        return ratio, 1.0
    return ratio, float(wilcoxon(differences, alternative="greater").pvalue)


def _sampled(
    candidate: _Candidate, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of a sample, and the number of the group or stretch, and of the fold, of each."""
    if candidate.kind == "time":
        return _sampled_in_time(candidate, generator)
    size = int(candidate.codes.max()) + 1
    most = min(max(_SAMPLE // min(size, _SAMPLED_GROUPS), 2), _SAMPLED_ROWS)
    # Rows by group, in the order of time or of the table within each, groups in a random order.
    places = generator.permutation(size)[candidate.codes]
    if candidate.moments is None:
        rows = np.argsort(places, kind="stable")
    else:
        rows = np.lexsort([candidate.moments, places])
    codes = candidate.codes[rows]
    numbers = np.cumsum(np.r_[0, codes[1:] != codes[:-1]])
    starts = np.searchsorted(numbers, np.arange(numbers[-1] + 1))
    counts = np.diff(np.r_[starts, len(rows)])
    begins = (generator.random(len(starts)) * np.maximum(counts - most + 1, 1)).astype(np.int64)
    places = np.arange(len(rows)) - starts[numbers] - begins[numbers]
    kept = np.flatnonzero((places >= 0) & (places < most))[:_SAMPLE]
    groups = numbers[kept]
    return rows[kept], groups, groups % _FOLDS


def _sampled_in_time(
    candidate: _Candidate, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same for stretches of time, of some members if there are any."""
    codes = candidate.codes
    rows = np.lexsort([generator.random(len(codes)), codes])
    moments = int(codes.max()) + 1
    few_moments = moments < 2 * _STRETCHES
    if candidate.members is not None:
        members = candidate.members
        size = int(members.max()) + 1
        kept = max(_SAMPLE // moments, 1) if few_moments else _MEMBERS
        rows = rows[(generator.permutation(size) < kept)[members[rows]]]
    elif few_moments and len(rows) > _SAMPLE:
        rows = rows[np.sort(generator.choice(len(rows), _SAMPLE, replace=False))]
    if few_moments:
        clusters = _ranks(codes[rows])
        return rows, clusters, clusters * _FOLDS // (int(clusters.max()) + 1)
    length = min(len(rows), _SAMPLE) // _STRETCHES
    starts = np.linspace(0, len(rows) - length, _STRETCHES).round().astype(np.int64)
    places = (starts[:, None] + np.arange(length)).reshape(-1)
    stretches = np.repeat(np.arange(_STRETCHES), length)
    return rows[places], stretches, stretches * _FOLDS // _STRETCHES


def _distances(features: np.ndarray) -> np.ndarray:
    """The Euclidean distances of rows, in units of their median."""
    squares = np.sum(features**2, axis=1)
    distances = squares[:, None] + squares[None, :] - 2.0 * (features @ features.T)
    np.maximum(distances, 0.0, out=distances)
    np.fill_diagonal(distances, 0.0)
    np.sqrt(distances, out=distances)
    median = float(np.median(distances[:: 1 + len(distances) // 100]))
    return distances / (median or 1.0)


def _errors(distances: np.ndarray, Y: np.ndarray, *folds: np.ndarray) -> np.ndarray:
    """Absolute errors (folds, rows), where the first folds are best on a part of the rows."""
    first = np.arange(min(len(Y), _FIRST_SAMPLE))
    best = (np.inf, 1.0, 1.0)
    for length in _LENGTHS:
        for ridge in _RIDGES:
            part = distances[np.ix_(first, first)]
            errors = _errors_at(part, Y[first], [folds[0][first]], length, ridge)
            best = min(best, (float(np.sum(errors**2)), length, ridge))
    return _errors_at(distances, Y, folds, best[1], best[2])


def _errors_at(
    distances: np.ndarray, Y: np.ndarray, folds: Sequence[np.ndarray], length: float, ridge: float
) -> np.ndarray:
    """Absolute errors (folds, rows) with one kernel and ridge."""
    parts = [np.flatnonzero(numbers == fold) for numbers in folds for fold in range(_FOLDS)]
    parts = [part for part in parts if part.size]
    smoother = CholeskySmoother(np.exp(distances / -length), np.ones(len(Y)))
    predictions = smoother.heldout(Y, parts, [ridge])
    errors = np.zeros((len(folds), len(Y)))
    of_folds = 0
    remaining = len(Y)
    for part, values in zip(parts, predictions):
        errors[of_folds, part] = np.sqrt(np.sum((values[0] - Y[part]) ** 2, axis=1))
        remaining -= len(part)
        if not remaining:
            of_folds += 1
            remaining = len(Y)
    return errors
