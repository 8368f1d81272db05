r"""All candidates on few rows, those that are left on more, the last ones on all.

Stages of n/factor^k rows, k falling to 0. On each, every candidate that is left is evaluated with every
ridge, and the neighbours of the best one, should they have been dropped before. Those that are worse by
more than noise are dropped. On all rows the widths that are left are tried with the ridges around their
best, where that is cheaper than all of them, and the search goes on to neighbours until the best cell is
a local optimum of the whole grid.

The exact machine pays c n³ for a width: a stage of a third of the rows costs 1/27 of the grid. Basis
models pay in proportion. Where only the best candidate and its neighbours are left, a stage is left out
unless it is cheap: it may still find that the best one has moved, or that a neighbour is far behind.

**Who goes on.** With e_i and e*_i the held-out losses of row i at the best ridges of a candidate and of
the best one,

    d_i = e_i − e*_i,    dropped if mean d > 2 s,    s² = Σ v_i² (d_i − mean d)² / (Σ v_i)²

for squared errors and counts of errors, which are means over rows. Of any other criterion the scores of
the splits are compared, with the standard error of their mean difference. More rows favour narrower
kernels, by an amount that no standard error knows of. So the widths next to the best one stay, however
much worse they are; but with rows enough, the wider one goes if it is worse by more than four standard
errors.

**Nested subsamples**: fewer rows, the same folds, the same meaning of every cell.

    rows        S₁ ⊂ S₂ ⊂ …, with the share of every fold and class
    splits      the user's, restricted to S
    ridge       μ_S = μ Σ_{i∈S} v_i / Σ_i v_i, the penalty's weight beside the mean loss
    landmarks   some of the run's own, those of S₁ among those of S₂

So a cell (γ, α) is the same cell on every subsample, and two cells are compared on the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from onefold.approximations import Problem, Run
from onefold.approximations.auto import NOMINAL
from onefold.criteria import Scoring, Task
from onefold.heldout import Splits
from onefold.search.choice import Leader, paired_difference
from onefold.search.ledger import Ledger
from onefold.search.loop import Found, NoScoreError, Proposal, Search
from onefold.search.setup import Setup
from onefold.search.strategies import register_strategy

_FEWEST = 100  # rows of a stage, if "smallest",
_PER_FOLD = 20  # or as many for each fold and class,
_SHARE = 300  # or this part of all rows
_CHEAP = 0.25  # of one candidate on all rows: a stage may cost as much to drop a neighbour at best
_MANY, _MANY_ROWS = 0.1, 10_000  # of all rows, or rows: either is enough to drop one
_WINDOW = 4.0  # times the best ridge, or a quarter of it: those that are tried on all rows
_CHEAPER = 0.75  # of the time with all ridges
_ERRORS = 2.0  # standard errors that a candidate may be worse by,
_FAR = 4.0  # and the wider neighbour of the best one


@register_strategy
@dataclass(frozen=True)
class Halving:
    """Successive halving whose stages drop what is worse by more than noise.

    Parameters
    ----------
    factor : float, default=3
        How many times more rows each stage has.
    min_resources : int or "smallest", default="smallest"
        The fewest rows of a stage. "smallest" is 100, or 20 for each fold and class, or one row in 300,
        whichever is most. Tables with fewer than `factor` times as many rows are searched as a grid.
    """

    factor: float = 3
    min_resources: Any = "smallest"

    name: ClassVar[str] = "halving"

    def __post_init__(self) -> None:
        numeric = isinstance(self.factor, Real) and not isinstance(self.factor, bool)
        if not numeric or not 1 < self.factor < np.inf:
            raise ValueError(f"factor must be a number greater than 1; got {self.factor!r}.")
        given = self.min_resources
        if isinstance(given, str) and given == "smallest":
            return
        if not isinstance(given, Integral) or isinstance(given, bool) or given < 2:
            raise ValueError(
                f'min_resources must be "smallest" or a number of rows, at least 2; got {given!r}.'
            )

    def check(self, setup: Setup) -> None:
        """Raise unless rows are held out and any of them make a problem of the same kind."""
        if setup.blend:
            raise ValueError(
                'search="halving" drops families that a blend wants; leave search="grid" with blend.'
            )
        if setup.scoring.splits is None:
            raise ValueError(
                'search="halving" compares candidates by held-out rows; use a criterion of them, such '
                'as "mse" or "error", or search="grid".'
            )
        approximation = setup.run.approximation
        if not (approximation.selects and approximation.learns_metrics):
            raise ValueError(
                f"some of the rows have no {approximation.name} matrix of their own; use "
                'search="grid", or approximation="exact" or "nystroem".'
            )

    def sizes(self, setup: Setup) -> list[int]:
        """Rows of every stage, the last one all of them."""
        n, least, found = setup.problem.n, self._least(setup), [setup.problem.n]
        while (size := min(int(n / self.factor ** len(found)), found[-1] - 1)) >= least:
            found.append(size)
        return found[::-1]

    def _least(self, setup: Setup) -> int:
        if not isinstance(self.min_resources, str):
            return int(self.min_resources)
        splits, classes = setup.scoring.held_out, setup.task.classes
        folds = 1 if splits.leave_one_out else len(splits)
        strata = folds * (1 if classes is None else len(classes))
        return max(_FEWEST, _PER_FOLD * strata, setup.problem.n // _SHARE)

    def run(self, search: Search) -> Found:
        """Search; a search that is stopped takes the best one so far to all rows."""
        setup = search.setup
        *smaller, n = self.sizes(setup)
        left, splits = _Left(setup), setup.scoring.held_out
        every = np.arange(len(setup.alphas))
        order = nested_order(splits, setup.task, setup.seed or 0)
        for size in smaller:
            if not search.goes_on():
                break
            idle = left.settled and left.cost(size) > _CHEAP
            if idle or not all_splits_hold(splits, order[:size]):
                continue
            scoring, run = subsample(setup, order[:size])
            candidates = [replace(one, alone=True) for one in setup.grid(run)]
            stage = search.stage(f"{size} rows", candidates, scoring=scoring)
            climb = Climb(dict.fromkeys(left.alive, every), left.neighbours, [every] * every.size)
            try:
                found = stage.run(climb).found()
            except NoScoreError as error:
                raise NoScoreError(
                    f"on {size} rows: {error} If all rows have scores, use a greater min_resources or "
                    'search="grid".'
                ) from error
            many = size >= min(_MANY * n, _MANY_ROWS)
            left.take(size, found, judge(found, left.neighbours, many=many))
        # Larger ridges that are hardly worse are wanted too, should the choice be among those.
        few = left.ridges and setup.select == "min"
        windows = ridge_windows(setup) if few else [every] * every.size
        cells = left.cells(windows, alone=not search.goes_on())
        last = search.stage(f"{n} rows", setup.grid())
        found = last.run(Climb(cells, left.neighbours, windows)).found(setup.select)
        left.take(n, found, [])
        record = {
            "factor": self.factor,
            "min_resources": self._least(setup),
            "n_resources": [stage["n_resources"] for stage in left.stages],
            "n_candidates": [stage["n_candidates"] for stage in left.stages],
            "stages": left.stages,
        }
        return replace(found, record=record)


@dataclass
class _Left:
    """Which candidates are left after each stage."""

    setup: Setup
    alive: list[int] = field(init=False)  # their numbers, the best first
    ridges: dict[int, int] = field(default_factory=dict)  # their best; none before the first stage
    neighbours: list[list[int]] = field(init=False)  # of each candidate, those worth trying
    stages: list[dict[str, Any]] = field(default_factory=list)  # the record of each, in plain values

    def __post_init__(self) -> None:
        self.alive = list(range(len(self.setup.names)))
        self._all_neighbours = next_widths(self.setup.names)
        self.neighbours, self._closed = self._all_neighbours, set[int]()

    @property
    def settled(self) -> bool:
        """Whether only the best candidate and its neighbours are left."""
        best = self.alive[0]
        return bool(self.ridges) and {best, *self.neighbours[best]} >= set(self.alive)

    def cost(self, size: int) -> float:
        """Of a stage with all that are left, in candidates on all rows."""
        setup, n_alphas = self.setup, len(self.setup.alphas)
        share = duration(setup, size, n_alphas) / duration(setup, setup.problem.n, n_alphas)
        return len(self.alive) * share

    def cells(self, windows: list[Any], *, alone: bool) -> dict[int, Any]:
        """What is tried on all rows; `alone` is the best cell and nothing else.

        Where ridges cost time, candidates other than the best and its neighbours come with one: should
        it lead, the search goes on to the ridges around it.
        """
        every = np.arange(len(windows))
        if not self.ridges:
            return dict.fromkeys(self.alive, every)
        best = self.alive[0]
        if alone:
            return {best: np.array([self.ridges[best]])}
        near = {best, *self.neighbours[best]}
        whole = len(windows[0]) == every.size  # ridges cost nothing
        return {
            number: windows[ridge] if whole or number in near else np.array([ridge])
            for number, ridge in self.ridges.items()
        }

    def take(self, size: int, found: Found, verdicts: list[Verdict]) -> None:
        """Go on with those that a stage has left, and write down what it did."""
        self._write(size, found, [one for one in verdicts if one.dropped is not None])
        left = [one for one in verdicts if one.dropped is None and one.ridge is not None]
        if left:
            self.alive = [one.number for one in left]
            self.ridges = {one.number: one.ridge for one in left if one.ridge is not None}
            # A neighbour that was dropped all the same is not to come back while the best stays so.
            dropped = self._closed | {one.number for one in verdicts if one.dropped is not None}
            self._closed = dropped & set(self._all_neighbours[self.alive[0]])
            self.neighbours = [
                [one for one in own if one not in self._closed] for own in self._all_neighbours
            ]

    def _write(self, size: int, found: Found, dropped: list[Verdict]) -> None:
        ledger, names = found.ledger, self.setup.names
        tried = sorted({entry.candidate for entry in ledger.entries})
        best, ridge = ledger.best()
        alpha = [float(value) for value in ledger.alphas]
        stage = {
            "n_resources": size,
            "n_candidates": len(tried),
            "n_cells": int(sum(len(entry.ridges) for entry in ledger.entries)),
            "best": {**names[best], "alpha": alpha[ridge], "score": ledger.score(best, ridge)},
            "added": [dict(names[number]) for number in tried if number not in self.alive],
            "dropped": [
                {
                    **names[one.number],
                    "alpha": None if one.ridge is None else alpha[one.ridge],
                    "difference": None if one.ridge is None else one.difference,
                    "standard_error": None if one.ridge is None else one.standard_error,
                    "why": one.dropped,
                }
                for one in dropped
            ],
        }
        self.stages.append(stage)


def ridge_windows(setup: Setup) -> list[Any]:
    """For each ridge those that are tried with it: its neighbours in size, and all within a factor of 4.

    All of them where fewer would not be much cheaper.
    """
    alphas, n_alphas = setup.alphas, len(setup.alphas)
    order = np.argsort(alphas, kind="stable")
    place = np.argsort(order, kind="stable")
    windows = []
    for ridge in range(n_alphas):
        with np.errstate(over="ignore"):
            near = (alphas <= _WINDOW * alphas[ridge]) & (alphas >= alphas[ridge] / _WINDOW)
        windows.append(np.flatnonzero(near | (np.abs(place - place[ridge]) <= 1)))
    many = max(len(window) for window in windows)
    if duration(setup, setup.problem.n, many) <= _CHEAPER * duration(setup, setup.problem.n, n_alphas):
        return windows
    return [np.arange(n_alphas)] * n_alphas


def duration(setup: Setup, rows: int, alphas: int) -> float:
    """Of one kernel on some of the rows, on a nominal machine: journals may be read on another."""
    _, d, targets = setup.problem.shape
    approximation, _ = setup.run.approximation.on_fewer_rows(rows, setup.run.shared)
    load = replace(setup.run.load, kernels=1, alphas=alphas)
    time = approximation.duration(rows, d, targets, load, NOMINAL)
    return float(rows) if time is None else time


@dataclass(frozen=True)
class Verdict:
    """What a stage says of a candidate."""

    number: int  # of the candidate
    ridge: int | None  # its best one; None where it has no score
    difference: float  # by how much its loss is greater than the best one's; NaN where not known
    standard_error: float
    dropped: str | None  # why it does not go on


def judge(found: Found, neighbours_of: list[list[int]], *, many: bool) -> list[Verdict]:
    """Verdicts on all that were tried, the best first.

    `neighbours_of` are those of each candidate in width, `many` tells whether the rows are enough to
    drop one of them.
    """
    ledger, scoring = found.ledger, found.scoring
    index, _ = ledger.best()
    ranked = sorted(found.leaders, key=lambda one: (one.index != index, -ledger.rank(*_cell(one))))
    best, neighbours, verdicts = ranked[0], neighbours_of[index], []
    for leader in ranked:
        difference, error = (0.0, 0.0) if leader is best else _compared(leader, best, scoring, ledger)
        limit = _ERRORS
        if leader.index in (index, *neighbours):
            limit = _FAR if many and _wider(ledger, leader.index, index) else np.inf
        why = None
        if difference > 0 and difference > limit * error:
            why = f"worse by more than {limit:g} standard errors"
        verdicts.append(Verdict(*_cell(leader), difference, error, why))
    scored = {leader.index for leader in ranked}
    rest = sorted({entry.candidate for entry in ledger.entries} - scored)
    return verdicts + [Verdict(one, None, np.nan, np.nan, "has no score") for one in rest]


def _wider(ledger: Ledger, one: int, other: int) -> bool:
    return bool(ledger.params[one].get("gamma", 1.0) < ledger.params[other].get("gamma", 1.0))


def _cell(leader: Leader) -> tuple[int, int]:
    return leader.index, leader.ridge


def _compared(one: Leader, best: Leader, scoring: Scoring, ledger: Ledger) -> tuple[float, float]:
    """By how much one is worse than the best, and the standard error; infinite where nobody knows."""
    if scoring.criterion.mean_of_rows and scoring.task is not None:
        losses = [_losses(leader, scoring) for leader in (one, best)]
        return paired_difference(losses[0], losses[1], scoring.task.sample_weight)
    difference = _scores(best, ledger) - _scores(one, ledger)
    if difference.size < 2:
        return float(difference.mean()), np.inf
    error = float(np.std(difference, ddof=1) / np.sqrt(difference.size))
    return float(difference.mean()), error


def _scores(leader: Leader, ledger: Ledger) -> Any:
    """Those of the splits."""
    entry = ledger.entry(*_cell(leader))
    return entry.scores[np.asarray(entry.ridges) == leader.ridge][0]


def _losses(leader: Leader, scoring: Scoring) -> Any:
    """The loss of every row, the mean over the splits that test it; NaN where none does."""
    if leader.of_splits is None:
        return scoring.row_losses(leader.heldout)
    total, count = np.zeros(len(leader.heldout)), np.zeros(len(leader.heldout))
    for rows, values in zip(scoring.held_out.tests, leader.of_splits):
        predictions = np.full(leader.heldout.shape, np.nan)
        predictions[rows] = values
        losses = scoring.row_losses(predictions)
        tested = np.isfinite(losses)
        total[tested] += losses[tested]
        count += tested
    with np.errstate(invalid="ignore"):
        return total / count


@dataclass(frozen=True)
class Climb:
    """Given cells, then those around the best one, until it is a local optimum of the whole grid.

    That is: the widths next to the best one have been tried; they, and every width that was tried with
    more than one ridge, with the ridges around the best ridge of each.
    """

    cells: Mapping[int, Any]  # the first candidates and the ridges of each, in the order of trying
    neighbours: Sequence[list[int]]  # for each candidate, the numbers of those of the next widths
    windows: Sequence[Any]  # for each ridge, the numbers of those around it, itself among them

    def __call__(self, ledger: Ledger) -> list[Proposal]:
        if not ledger.entries:
            return [Proposal(number, ridges) for number, ridges in self.cells.items()]
        if not ledger.has_score:
            return []
        best, ridge = ledger.best()
        followed = [
            c for c in range(len(self.neighbours)) if ledger.alphas.size - ledger.untried(c).size > 1
        ]
        found = []
        for number in dict.fromkeys((best, *self.neighbours[best], *followed)):
            top = ledger.best([number])[1] if ledger.scored(number) else ridge
            found.append(Proposal(number, np.intersect1d(ledger.untried(number), self.windows[top])))
        return [proposal for proposal in found if proposal.ridges.size]


def next_widths(names: Sequence[dict[str, Any]]) -> list[list[int]]:
    """For each candidate the numbers of those of the next smaller and the next larger width.

    Only candidates that differ in nothing else are neighbours.
    """
    found = []
    for one in names:
        family = {name: value for name, value in one.items() if name != "gamma"}
        rest = [
            (number, float(other["gamma"]))
            for number, other in enumerate(names)
            if "gamma" in one and family == {name: v for name, v in other.items() if name != "gamma"}
        ]
        own = float(one.get("gamma", 0.0))
        below = max((width for _, width in rest if width < own), default=None)
        above = min((width for _, width in rest if width > own), default=None)
        found.append([number for number, width in rest if width in (below, above)])
    return found


def nested_order(splits: Splits, task: Task, seed: int) -> Any:
    """The problem's rows in an order whose every beginning has the share of each fold and class.

    The first row of every fold and class comes before the second of any, so that no class is missing
    where there are rows enough for one of each.
    """
    n, generator = splits.n, np.random.default_rng([seed, 2])
    kinds = np.zeros(n, dtype=np.intp)
    if not splits.leave_one_out:
        for number in reversed(range(len(splits.tests))):
            kinds[splits.tests[number]] = number + 1
    if task.classes is not None:
        kinds = kinds * len(task.classes) + np.searchsorted(task.classes, task.y)
    shuffled = generator.permutation(n)
    by_kind = shuffled[np.argsort(kinds[shuffled], kind="stable")]
    _, first, counts = np.unique(kinds[by_kind], return_index=True, return_counts=True)
    place = np.arange(n) - np.repeat(first, counts)  # of each row among those of its kind
    return by_kind[np.lexsort((generator.random(n), place / np.repeat(counts, counts)))]


def all_splits_hold(splits: Splits, rows: Any) -> bool:
    """Whether every split has rows to train on and rows to test among these."""
    return splits.leave_one_out or len(splits.within(rows)) == len(splits)


def subsample(setup: Setup, rows: Any) -> tuple[Scoring, Run]:
    """The criterion and the run on some of the rows, held out as the user's splits hold them out."""
    rows, criterion = np.sort(rows), setup.scoring.criterion.from_predictions()  # rows are compared
    problem = _fewer(setup.problem, rows, precomputed=setup.precomputed)
    scoring = criterion.start(problem, setup.task.rows(rows), _within(setup.scoring.held_out, rows))
    load = replace(setup.run.load, parts=scoring.parts, predictions=True)
    return scoring, setup.run.on_fewer_rows(problem, load)


def _fewer(problem: Problem, rows: Any, *, precomputed: bool) -> Problem:
    """The problem of some rows, whose ridges are those of all rows by the share of the weight."""
    part = problem.rows(rows, precomputed=precomputed).about_its_mean()
    share = rows.size / problem.n
    if problem.weight is not None:
        share = float(problem.weight[rows].sum() / problem.weight.sum())
    return replace(part, alpha_unit=problem.alpha_unit / share)


def _within(splits: Splits, rows: Any) -> Splits:
    if not splits.leave_one_out:
        return splits.within(rows)
    return Splits.alone(rows.size, pooled=len(splits) == 1)
