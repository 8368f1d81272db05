r"""All candidates on few rows, those that are left on more, the last ones on all.

Stages of n/factor^k rows, k falling to 0. On each, every candidate that is left is evaluated with every
ridge, and the neighbours of the best one, should they have been dropped before. Those that are worse by
more than noise are dropped (:mod:`onefold.search.survivors`). On all rows the widths that are left are
tried with the ridges around their best, where that is cheaper than all of them, and the search goes on
to neighbours until the best cell is a local optimum of the whole grid.

The exact machine pays c n³ for a width: a stage of a third of the rows costs 1/27 of the grid. Basis
models pay in proportion. Where only the best candidate and its neighbours are left, a stage can drop
nothing more and is left out, unless it is cheap: it may still find that the best one has moved.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from onefold.approximations.planning import NOMINAL
from onefold.search.candidates import make_candidates
from onefold.search.climbing import Climb, next_widths
from onefold.search.conduct import Conduct
from onefold.search.nested import nested_order, subsample
from onefold.search.outcome import Outcome
from onefold.search.run import SearchResult, run_search
from onefold.search.setup import Setup
from onefold.search.survivors import ERRORS, LAST_ERRORS, Verdict, judge

_FEWEST = 100  # rows of a stage, if "smallest",
_PER_FOLD = 20  # or as many for each fold and class,
_SHARE = 300  # or this part of all rows
_CHEAP = 0.25  # of one candidate on all rows: a stage may cost as much without dropping any
_WINDOW = 4.0  # times the best ridge, or a quarter of it: those that are tried on all rows
_CHEAPER = 0.75  # of the time with all ridges


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
        if setup.learning is not None or setup.blend:
            what = "metric" if setup.learning is not None else "blend"
            raise ValueError(
                f'search="halving" goes through a grid of kernels, not with {what}: learned metrics '
                'begin on few rows anyway, and a blend wants every family; leave search="grid".'
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
        while (size := int(n / self.factor ** len(found))) >= least:
            found.append(size)
        return found[::-1]

    def _least(self, setup: Setup) -> int:
        if not isinstance(self.min_resources, str):
            return int(self.min_resources)
        splits, classes = setup.scoring.held_out, setup.task.classes
        folds = 1 if splits.leave_one_out else len(splits)
        strata = folds * (1 if classes is None else len(classes))
        return max(_FEWEST, _PER_FOLD * strata, setup.problem.n // _SHARE)

    def run(self, setup: Setup, conduct: Conduct) -> Outcome:
        """Search; a search that is stopped takes the best one so far to all rows."""
        sizes, beside = self.sizes(setup), next_widths(setup.names)
        every = np.arange(len(setup.alphas))
        progress = _Progress(setup, beside)
        if len(sizes) > 1:
            order = nested_order(setup.scoring.held_out, setup.task, setup.seed or 0)
        for size in sizes[:-1]:
            if not conduct.goes_on():
                break
            if progress.settled and progress.cost(size) > _CHEAP:
                continue
            part = subsample(setup, order[:size])
            cells = dict.fromkeys(progress.alive, every)
            strategy = Climb(part.candidates, setup.alphas, cells, beside, [every] * every.size)
            found = _searched(strategy, part.scoring, conduct, size)
            errors = LAST_ERRORS if size == sizes[-2] else ERRORS
            progress.note(size, found, judge(found, part.scoring, beside, errors))
        windows = ridge_windows(setup) if progress.ridges else [every] * every.size
        cells = progress.cells(windows, alone=not conduct.goes_on())
        candidates = make_candidates(setup.run, setup.kernels, setup.names)
        last = Climb(candidates, setup.alphas, cells, beside, windows)
        found = run_search(last, setup.scoring, conduct, f"{sizes[-1]} rows")
        progress.note(sizes[-1], found, [])
        return Outcome(found, setup.scoring, record=progress.record(self))


def _searched(strategy: Climb, scoring: Any, conduct: Conduct, size: int) -> SearchResult:
    try:
        return run_search(strategy, scoring, conduct, f"{size} rows")
    except ValueError as error:
        raise ValueError(
            f"on {size} rows: {error} If all rows have scores, use a greater min_resources or "
            'search="grid".'
        ) from error


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
    if _duration(setup, setup.problem.n, many) <= _CHEAPER * _duration(setup, setup.problem.n, n_alphas):
        return windows
    return [np.arange(n_alphas)] * n_alphas


def _duration(setup: Setup, rows: int, alphas: int) -> float:
    """Of one kernel on some of the rows, on a nominal machine: journals may be read on another."""
    _, d, targets = setup.problem.shape
    approximation, _ = setup.run.approximation.on_fewer_rows(rows, setup.run.shared)
    load = replace(setup.run.load, kernels=1, alphas=alphas)
    time = approximation.duration(rows, d, targets, load, NOMINAL)
    return float(rows) if time is None else time


@dataclass
class _Progress:
    """Who is left, and what has been said of the others."""

    setup: Setup
    beside: list[list[int]]
    alive: list[int] = field(init=False)
    """Numbers of the candidates, the best first."""
    ridges: dict[int, int] = field(default_factory=dict)
    """Their best ridges; none before the first stage."""
    stages: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.alive = list(range(len(self.setup.names)))

    @property
    def settled(self) -> bool:
        """Whether only the best candidate and its neighbours are left."""
        best = self.alive[0]
        return bool(self.ridges) and {best, *self.beside[best]} >= set(self.alive)

    def cost(self, size: int) -> float:
        """Of a stage with all that are left, in candidates on all rows."""
        setup, n_alphas = self.setup, len(self.setup.alphas)
        share = _duration(setup, size, n_alphas) / _duration(setup, setup.problem.n, n_alphas)
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
        near = {best, *self.beside[best]}
        whole = len(windows[0]) == every.size  # ridges cost nothing
        return {
            number: windows[ridge] if whole or number in near else np.array([ridge])
            for number, ridge in self.ridges.items()
        }

    def note(self, size: int, found: SearchResult, verdicts: list[Verdict]) -> None:
        """Take the verdicts of a stage, and write down what it did."""
        ledger, names = found.ledger, self.setup.names
        tried = list(dict.fromkeys(entry.candidate for entry in ledger.entries))
        best, ridge = ledger.best()
        alpha = [float(value) for value in ledger.alphas]
        self.stages.append(
            {
                "n_resources": size,
                "n_candidates": len(tried),
                "n_cells": int(sum(len(entry.ridges) for entry in ledger.entries)),
                "best": {**names[best], "alpha": alpha[ridge], "score": ledger.score(best, ridge)},
                "added": [dict(names[number]) for number in tried if number not in self.alive],
                "dropped": [
                    {
                        **names[one.number],
                        "alpha": None if one.ridge is None else alpha[one.ridge],
                        "difference": one.difference,
                        "standard_error": one.standard_error,
                        "why": one.dropped,
                    }
                    for one in verdicts
                    if one.dropped is not None
                ],
            }
        )
        left = [one for one in verdicts if one.dropped is None and one.ridge is not None]
        if left:
            self.alive = [one.number for one in left]
            self.ridges = {one.number: one.ridge for one in left if one.ridge is not None}

    def record(self, method: Halving) -> dict[str, Any]:
        """The stages, in plain values and scikit-learn's words."""
        return {
            "factor": method.factor,
            "min_resources": method._least(self.setup),
            "n_resources": [stage["n_resources"] for stage in self.stages],
            "n_candidates": [stage["n_candidates"] for stage in self.stages],
            "stages": self.stages,
        }
