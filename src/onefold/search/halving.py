r"""All candidates on few rows, those that are left on more, the last ones on all.

Stages of n/factor^k rows, k falling to 0. On each, every candidate that is left is evaluated with every
ridge, and the neighbours of the best one, should they have been dropped before. Those that are worse by
more than noise are dropped. On all rows the widths that are left are tried with their best ridges, the
best one and its neighbours with the ridges around these, or all of them with all where that costs hardly
more; and the search goes on to neighbours until the best cell is a local optimum of the whole grid.

The exact method takes c n³ for a width: a stage of a third of the rows costs 1/27 of the grid. Basis
models pay in proportion. Where only the best candidate and its neighbours are left, a stage is left out
unless it is cheap: all that it may find is that the best one has moved.

**Which candidates go on.** With e_i and e*_i the held-out losses of row i at the best ridges of a
candidate and of the best one,

    d_i = e_i − e*_i,    dropped if mean d > 2 s,    s² = Σ v_i² (d_i − mean d)² / (Σ v_i)²

for squared errors and counts of errors, which are means over rows. Of any other criterion the scores of
the splits are compared, with the standard error of their mean difference. More rows favour narrower
kernels, by an amount that no standard error knows of: the widths next to the best one always stay.

**Nested subsamples**: fewer rows, the same folds, the same meaning of every cell.

    rows        S₁ ⊂ S₂ ⊂ …, with the share of every fold and class
    splits      the user's, restricted to S
    ridge       μ_S = μ Σ_{i∈S} v_i / Σ_i v_i, which keeps the ratio of penalty to mean loss
    landmarks   some of the run's own, those of S₁ among those of S₂

So a cell (γ, α) is the same cell on every subsample, and two cells are compared on the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np

from onefold.approximations import Run
from onefold.criteria import Scoring, Task
from onefold.heldout import Splits, mean_by_row
from onefold.search.choice import paired_difference, rank_of
from onefold.search.crossfit import CrossFit
from onefold.search.ledger import Ledger
from onefold.search.loop import NoScoreError, Proposal, Search, SearchResult
from onefold.search.strategies import (
    Setup,
    costs_with_final,
    next_ridges,
    nominal_seconds,
    register_strategy,
)

# Minimum number of rows of a stage, for min_resources="smallest"; chosen, not measured.
_MIN_ROWS = 100
# The same for each fold; chosen, not measured.
_MIN_ROWS_PER_FOLD = 20
# The same for each class, so that every fold trains on some rows of it; chosen, not measured.
_MIN_ROWS_PER_CLASS = 20
# One row in so many is the minimum of a large table; chosen, not measured.
_ROWS_RATIO = 300
# Times of one candidate on all rows that a stage may take which can drop nothing; chosen, not measured.
_CHEAP = 0.25
# Share of the time with all ridges up to which fewer ridges are tried on all rows; chosen, not measured.
_CHEAPER = 0.75
# Share of the widths that a stage keeps, for the time left; chosen, not measured.
_KEPT = 0.5
# Standard errors that a candidate may be worse by; chosen, not measured.
_MAX_ERRORS = 2.0


@register_strategy
@dataclass(frozen=True)
class Halving:
    """Successive halving, where each stage drops the candidates that are worse by more than noise.

    Parameters
    ----------
    factor : float, default=3
        Ratio of the number of rows of each stage to that of the stage before.
    min_resources : int or "smallest", default="smallest"
        Minimum number of rows of a stage. "smallest" is the largest of 100, 20 per fold and one row in
        300; and at least 20 per class, or 1/`factor` of all rows if that is less. Data with fewer than
        `factor` times as many rows are searched as a full grid.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from onefold import LSSVRCV
    >>> from onefold.search import Halving
    >>> X, y = make_friedman1(600, random_state=0)
    >>> halving = Halving(min_resources=200)
    >>> model = LSSVRCV(search=halving, gammas=[0.1, 1, 10], alphas=[0.01, 1]).fit(X, y)
    >>> model.search_["n_resources"]
    [200, 600]
    """

    factor: float = 3
    min_resources: int | Literal["smallest"] = "smallest"

    name: ClassVar[str] = "halving"
    subsamples: ClassVar[bool] = True

    def __post_init__(self) -> None:
        numeric = isinstance(self.factor, Real) and not isinstance(self.factor, bool)
        if not numeric or not 1 < self.factor < np.inf:
            raise ValueError(f"factor must be a number greater than 1; got {self.factor!r}.")
        minimum = self.min_resources
        if isinstance(minimum, str) and minimum == "smallest":
            return
        if not isinstance(minimum, Integral) or isinstance(minimum, bool) or minimum < 2:
            raise ValueError(
                f'min_resources must be "smallest" or a number of rows of at least 2; got {minimum!r}.'
            )

    def check(self, setup: Setup) -> None:
        """Do nothing: what it needs, as `subsamples`, is in the table of what goes together."""

    def costs(self, setup: Setup) -> dict[str, float]:
        """Its stages, of which each keeps half of the widths as a rule, and the final fit."""
        *smaller, n = self.sizes(setup)
        ridges = len(setup.alphas)
        widths = float(len(setup.grid()))
        stages = dict[str, float]()
        for size in smaller:
            stages[f"{size} rows"] = widths * nominal_seconds(setup, size, ridges)
            widths *= _KEPT
        windows = ridge_windows(setup) if smaller and setup.select == "min" else [np.arange(ridges)]
        stages[f"{n} rows"] = max(widths, 1.0) * nominal_seconds(setup, n, max(map(len, windows)))
        return costs_with_final(setup, stages)

    def sizes(self, setup: Setup) -> list[int]:
        """Rows of every stage, the last one all of them."""
        n = setup.problem.n
        minimum = self._min_rows(setup)
        sizes = [n]
        while (size := min(int(n / self.factor ** len(sizes)), sizes[-1] - 1)) >= minimum:
            sizes.append(size)
        return sizes[::-1]

    def _min_rows(self, setup: Setup) -> int:
        """The minimum number of rows of a stage."""
        if self.min_resources != "smallest":
            return int(self.min_resources)
        splits = setup.scoring.held_out
        classes = setup.task.classes
        folds = 1 if splits.leave_one_out else len(splits)
        n = setup.problem.n
        of_classes = 0
        if classes is not None:
            of_classes = min(_MIN_ROWS_PER_CLASS * len(classes), int(n / self.factor))
        return max(_MIN_ROWS, _MIN_ROWS_PER_FOLD * folds, of_classes, n // _ROWS_RATIO)

    def run(self, search: Search) -> SearchResult:
        """Search; a search that is stopped takes the best one so far to all rows."""
        setup = search.setup
        grid = setup.params
        splits = setup.scoring.held_out
        *smaller, n = self.sizes(setup)
        order = nested_order(splits, setup.task, setup.seed or 0)
        neighbours = next_widths(grid)
        all_ridges = np.arange(len(setup.alphas))
        all_windows = [all_ridges] * all_ridges.size
        stages = list[dict[str, Any]]()
        remaining = list(range(len(grid)))  # candidates, after the first stage the best first
        ridges = dict[int, int]()  # the best ridge of each
        for size in smaller:
            if not search.goes_on():
                break
            decided = bool(ridges) and {remaining[0], *neighbours[remaining[0]]} >= set(remaining)
            if decided and len(remaining) * _time(setup, size, all_ridges.size) > _CHEAP:
                continue
            rows = order[:size]
            if not splits.leave_one_out and len(splits.within(rows)) < len(splits):
                continue
            scoring, run = subsample(setup, rows)
            candidates = [replace(candidate, own_group=True) for candidate in setup.grid(run)]
            stage = search.stage(f"{size} rows", candidates, scoring=scoring)
            cells = dict.fromkeys(remaining, all_ridges)
            climbed = climb(stage.ledger, cells, neighbours, all_windows)
            try:
                result = stage.run(climbed).found()
            except NoScoreError as error:
                raise NoScoreError(
                    f"on {size} rows: {error} If this happens only on a subsample, use a larger "
                    'min_resources, or search="grid".'
                ) from error
            ridges, dropped = compare(result, neighbours)
            stages.append(_record(size, result, remaining, dropped))
            remaining = list(ridges)
        # Larger ridges that are hardly worse are wanted too, should the choice be among those.
        windows = ridge_windows(setup) if ridges and setup.select == "min" else all_windows
        cells = dict.fromkeys(remaining, all_ridges)
        if ridges and not search.goes_on():
            cells = {remaining[0]: np.array([ridges[remaining[0]]])}
        elif len(windows[0]) < all_ridges.size:
            # Each ridge costs time: only the best candidate and its neighbours have more than one.
            close = {remaining[0], *neighbours[remaining[0]]}
            cells = {
                number: windows[ridge] if number in close else np.array([ridge])
                for number, ridge in ridges.items()
            }
        last = search.stage(f"{n} rows", setup.grid())
        result = last.run(climb(last.ledger, cells, neighbours, windows)).found(setup.select)
        stages.append(_record(n, result, remaining, []))
        record = {
            "factor": self.factor,
            "min_resources": self._min_rows(setup),
            "n_resources": [stage["n_resources"] for stage in stages],
            "n_candidates": [stage["n_candidates"] for stage in stages],
            "stages": stages,
        }
        return replace(result, record=record)


def compare(
    result: SearchResult, neighbours: Sequence[Sequence[int]]
) -> tuple[dict[int, int], list[dict[str, Any]]]:
    """Which candidates go on, the best first, with the best ridge of each; and why others do not."""
    ledger = result.ledger
    index, _ = ledger.best()
    best = next(leader for leader in result.leaders if leader.cell.index == index)
    order = sorted(result.leaders, key=lambda leader: (leader is not best, -rank_of(leader, ledger)))
    going_on = dict[int, int]()
    dropped = list[dict[str, Any]]()
    for leader in order:
        difference = 0.0
        error = 0.0
        if leader is not best:
            difference, error = _difference(leader, best, result.scoring, ledger)
        number = leader.cell.index
        if difference > 0 and difference > _MAX_ERRORS * error and number not in neighbours[index]:
            why = f"worse by more than {_MAX_ERRORS:g} standard errors"
            cell = ledger.params[number] | {"alpha": leader.cell.alpha}
            dropped.append(cell | {"difference": difference, "standard_error": error, "why": why})
        else:
            going_on[number] = leader.cell.ridge
    unknown: dict[str, Any] = dict.fromkeys(("alpha", "difference", "standard_error"))
    scored = {leader.cell.index for leader in result.leaders}
    unscored = {entry.candidate for entry in ledger.entries} - scored
    for number in sorted(unscored):
        dropped.append(ledger.params[number] | unknown | {"why": "has no score"})
    return going_on, dropped


def _difference(
    leader: CrossFit, best: CrossFit, scoring: Scoring, ledger: Ledger
) -> tuple[float, float]:
    """How much worse a leader is than the best, and the standard error; infinite where unknown."""
    if scoring.criterion.mean_of_rows:
        losses, losses_of_best = (_row_losses(fit, scoring) for fit in (leader, best))
        return paired_difference(losses, losses_of_best, scoring.task.sample_weight)
    scores = []
    for cell in (best.cell, leader.cell):
        entry = ledger.entry(cell.index, cell.ridge)
        scores.append(entry.scores[np.asarray(entry.ridges) == cell.ridge][0])
    difference = scores[0] - scores[1]
    error = np.inf if difference.size < 2 else np.std(difference, ddof=1) / np.sqrt(difference.size)
    return float(difference.mean()), float(error)


def _row_losses(fit: CrossFit, scoring: Scoring) -> Any:
    """The loss of every row, the mean over the splits that test it."""
    predictions = fit.held_out
    if predictions.by_split is None:
        return scoring.row_losses(predictions.by_row)
    tests = scoring.held_out.tests
    losses = [scoring.row_losses(values, rows) for values, rows in zip(predictions.by_split, tests)]
    return mean_by_row(np.concatenate(tests), np.concatenate(losses)[:, None], scoring.problem.n)[:, 0]


def _record(
    size: int, result: SearchResult, first: list[int], dropped: list[dict[str, Any]]
) -> dict[str, Any]:
    """What a stage did, in plain values; `first` are the candidates that it began with."""
    ledger = result.ledger
    params = ledger.params
    tried = sorted({entry.candidate for entry in ledger.entries})
    best, ridge = ledger.best()
    cell = {"alpha": float(ledger.alphas[ridge]), "score": float(ledger.means[best, ridge])}
    return {
        "n_resources": size,
        "n_candidates": len(tried),
        "n_cells": int(sum(len(entry.ridges) for entry in ledger.entries)),
        "best": params[best] | cell,
        "added": [dict(params[number]) for number in tried if number not in first],
        "dropped": dropped,
    }


def ridge_windows(setup: Setup) -> list[Any]:
    """The ridges next to each ridge in size; all of them where fewer would not be much cheaper."""
    all_ridges = np.arange(len(setup.alphas))
    windows = [next_ridges(setup.alphas, int(ridge)) for ridge in all_ridges]
    cheaper = _time(setup, setup.problem.n, max(map(len, windows))) <= _CHEAPER
    return windows if cheaper else [all_ridges] * all_ridges.size


def _time(setup: Setup, rows: int, alphas: int) -> float:
    """Time of one kernel on some rows with some ridges, over that on all rows with all ridges."""
    time = nominal_seconds(setup, rows, alphas)
    return time / nominal_seconds(setup, setup.problem.n, len(setup.alphas))


def climb(
    ledger: Ledger,
    cells: Mapping[int, Any],
    neighbours: Sequence[Sequence[int]],
    windows: Sequence[Any],
) -> Iterator[list[Proposal]]:
    """These cells, then those around the best one, until it is a local optimum of the whole grid."""
    # That is: its neighbours in width have been tried; they, and every width that was tried with more
    # than one ridge, in the window of ridges around the best of each.
    proposals = [Proposal(number, ridges) for number, ridges in cells.items()]
    while proposals:
        yield proposals
        if not ledger.scored():
            return
        best, ridge = ledger.best()
        followed = [c for c in range(len(neighbours)) if ledger.alphas.size - ledger.untried(c).size > 1]
        proposals = []
        for number in dict.fromkeys((best, *neighbours[best], *followed)):
            top = ledger.best([number])[1] if ledger.scored(number) else ridge
            missing = np.intersect1d(ledger.untried(number), windows[top])
            proposals += [Proposal(number, missing)] if missing.size else []


def next_widths(grid: Sequence[dict[str, Any]]) -> list[list[int]]:
    """The candidates of the next widths for each candidate, which differ in nothing else."""
    neighbours = []
    for candidate in grid:
        widths = {
            number: float(params["gamma"])
            for number, params in enumerate(grid)
            if "gamma" in candidate and params == candidate | {"gamma": params.get("gamma")}
        }
        gamma = candidate.get("gamma", 0.0)
        below = max((width for width in widths.values() if width < gamma), default=None)
        above = min((width for width in widths.values() if width > gamma), default=None)
        neighbours.append([number for number, width in widths.items() if width in (below, above)])
    return neighbours


def nested_order(splits: Splits, task: Task, seed: int) -> Any:
    """The problem's rows in an order whose every beginning has the share of each fold and class."""
    n = splits.n
    generator = np.random.default_rng([seed, 2])
    kinds = np.zeros(n, dtype=np.intp)
    if not splits.leave_one_out:
        for number in reversed(range(len(splits.tests))):
            kinds[splits.tests[number]] = number + 1
    if task.classes is not None:
        kinds = kinds * len(task.classes) + np.searchsorted(task.classes, task.y)
    shuffled = generator.permutation(n)
    by_kind = shuffled[np.argsort(kinds[shuffled], kind="stable")]
    _, first, counts = np.unique(kinds[by_kind], return_index=True, return_counts=True)
    # The first row of every kind comes before the second of any: no class is missing.
    place = np.arange(n) - np.repeat(first, counts)  # of each row among those of its kind
    return by_kind[np.lexsort((generator.random(n), place / np.repeat(counts, counts)))]


def subsample(setup: Setup, rows: Any) -> tuple[Scoring, Run]:
    """The criterion and the run on some of the rows, held out as the user's splits hold them out."""
    rows = np.sort(rows)
    problem = setup.problem
    part = problem.rows(rows, precomputed=setup.precomputed).about_its_mean()
    share = rows.size / problem.n
    if problem.weight is not None:
        share = float(problem.weight[rows].sum() / problem.weight.sum())
    part = replace(part, alpha_unit=problem.alpha_unit / share)
    splits = setup.scoring.held_out.within(rows)
    scoring = setup.scoring.criterion.start(part, setup.task.rows(rows), splits).comparing_rows()
    load = replace(setup.run.load, parts=scoring.parts, predictions=True)
    return scoring, setup.run.on_fewer_rows(part, load)
