r"""All candidates on few rows, those that are left on more, the last ones on all.

Stages of n/factor^k rows, k falling to 0. On each, every candidate that is left is evaluated with every
ridge, and the neighbours of the best one, should they have been dropped before. Those that are worse by
more than noise are dropped (:mod:`onefold.search.survivors`). On all rows the widths that are left are
tried with the ridges around their best, where that is cheaper than all of them, and the search goes on
to neighbours until the best cell is a local optimum of the whole grid.

The exact machine pays c n³ for a width: a stage of a third of the rows costs 1/27 of the grid. Basis
models pay in proportion. Where only the best candidate and its neighbours are left, a stage is left out
unless it is cheap: it may still find that the best one has moved, or that a neighbour is far behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from onefold.search.candidates import make_candidates
from onefold.search.climbing import Climb
from onefold.search.conduct import Conduct
from onefold.search.nested import all_splits_hold, nested_order, subsample
from onefold.search.outcome import Outcome
from onefold.search.run import NoScoreError, SearchResult, run_search
from onefold.search.setup import Setup
from onefold.search.stages import Stages, ridge_windows
from onefold.search.survivors import judge

_FEWEST = 100  # rows of a stage, if "smallest",
_PER_FOLD = 20  # or as many for each fold and class,
_SHARE = 300  # or this part of all rows
_CHEAP = 0.25  # of one candidate on all rows: a stage may cost as much to drop a neighbour at best
_MANY, _MANY_ROWS = 0.1, 10_000  # of all rows, or rows: either is enough to drop one


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

    def run(self, setup: Setup, conduct: Conduct) -> Outcome:
        """Search; a search that is stopped takes the best one so far to all rows."""
        *smaller, n = self.sizes(setup)
        stages, splits = Stages(setup), setup.scoring.held_out
        every = np.arange(len(setup.alphas))
        order = nested_order(splits, setup.task, setup.seed or 0)
        for size in smaller:
            if not conduct.goes_on():
                break
            idle = stages.settled and stages.cost(size) > _CHEAP
            if idle or not all_splits_hold(splits, order[:size]):
                continue
            part, cells = subsample(setup, order[:size]), dict.fromkeys(stages.alive, every)
            strategy = Climb(part.candidates, setup.alphas, cells, stages.beside, [every] * every.size)
            found = _searched(strategy, part.scoring, conduct, size)
            many = size >= min(_MANY * n, _MANY_ROWS)
            stages.take(size, found, judge(found, part.scoring, stages.beside, many=many))
        # Larger ridges that are hardly worse are wanted too, should the choice be among those.
        few = stages.ridges and setup.select == "min"
        windows = ridge_windows(setup) if few else [every] * every.size
        cells = stages.cells(windows, alone=not conduct.goes_on())
        candidates = make_candidates(setup.run, setup.kernels, setup.names)
        last = Climb(candidates, setup.alphas, cells, stages.beside, windows)
        found = run_search(last, setup.scoring, conduct, f"{n} rows", select=setup.select)
        stages.take(n, found, [])
        return Outcome(found, setup.scoring, record=self._record(setup, stages.said))

    def _record(self, setup: Setup, stages: list[dict[str, Any]]) -> dict[str, Any]:
        """In plain values and scikit-learn's words."""
        return {
            "factor": self.factor,
            "min_resources": self._least(setup),
            "n_resources": [stage["n_resources"] for stage in stages],
            "n_candidates": [stage["n_candidates"] for stage in stages],
            "stages": stages,
        }


def _searched(strategy: Climb, scoring: Any, conduct: Conduct, size: int) -> SearchResult:
    try:
        return run_search(strategy, scoring, conduct, f"{size} rows")
    except NoScoreError as error:
        raise NoScoreError(
            f"on {size} rows: {error} If all rows have scores, use a greater min_resources or "
            'search="grid".'
        ) from error
