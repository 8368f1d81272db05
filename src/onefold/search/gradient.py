r"""Search by gradients: a coarse grid, then descents from its best cells to optima between the cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from onefold.approximations import Exact
from onefold.criteria.gradients import has_slopes
from onefold.kernels.width_slopes import has_width_slopes
from onefold.machine.memory import require_memory
from onefold.search.candidates import Candidate, make_candidates
from onefold.search.choice import Leader
from onefold.search.conduct import Conduct
from onefold.search.coordinates import Coordinates, has_one_per_feature, takes_one_per_feature
from onefold.search.descent import Descent, EndedError, Evaluations
from onefold.search.ledger import Ledger
from onefold.search.outcome import Outcome
from onefold.search.run import SearchResult, run_search
from onefold.search.setup import Setup
from onefold.search.strategies import Grid

_STRIDE = 3  # of the widths of the grid, one in so many is on the coarse one
_ALL = 4  # widths up to which all are
_ARRAYS = 5.5  # of n × n that an evaluation holds
_FEATURE_RANGE = np.log(2.0**10)  # beyond the grid on either side, for the width of a single feature


@dataclass(frozen=True)
class Gradient:
    """L-BFGS-B on press, gcv or the evidence in log γ and log μ, from the best cells of a coarse grid.

    Every evaluation costs one Cholesky factorisation, the inverse and a product, about 2 n³
    multiply-adds; the gradient in any number of widths adds O(n² d). The coarse grid has one in three of
    `gammas`. An optimum on the edge of the grid extends it.

    Parameters
    ----------
    restarts : int, default=1
        Descents after the first at most, from the next best cells that no neighbour exceeds.
    per_feature : bool or None, default=None
        Whether every feature gets a width of its own, all alike at first. None is True where the kernel
        was given one width per feature.
    """

    restarts: int = 1
    per_feature: bool | None = None

    name: ClassVar[str] = "gradient"

    def __post_init__(self) -> None:
        count = self.restarts
        if not isinstance(count, Integral) or isinstance(count, bool) or count < 0:
            raise ValueError(f"restarts must be a whole number of at least 0; got {count!r}.")
        if self.per_feature is not None and not isinstance(self.per_feature, bool | np.bool_):
            raise ValueError(f"per_feature must be True, False or None; got {self.per_feature!r}.")

    def check(self, setup: Setup) -> None:
        """Raise unless there are gradients to go by."""
        if setup.learning is not None:
            raise ValueError(
                'a metric is learned in rounds of its own; use search="grid", or metric=None with '
                "onefold.search.Gradient(per_feature=True) for one width per feature."
            )
        if not has_slopes(setup.scoring.criterion):
            raise ValueError(
                'search="gradient" needs a criterion with a gradient; use criterion="press", "gcv" or '
                '"evidence", or search="grid".'
            )
        if not isinstance(setup.run.approximation, Exact):
            raise ValueError(
                'search="gradient" needs the kernel matrix itself; use approximation="exact" instead of '
                f'{setup.run.approximation!r}, or search="grid".'
            )
        for kernel in setup.kernels:
            if not has_width_slopes(kernel):
                raise ValueError(
                    f"{kernel!r:.80} has no derivative in its width here; use a kernel of "
                    'onefold.kernels, or search="grid".'
                )
            if self.per_feature and not takes_one_per_feature(kernel):
                raise ValueError(
                    f"{kernel!r:.80} cannot have one width per feature; use RBF, Matern or Laplacian "
                    "without a matrix as its metric, or per_feature=False."
                )
        if not setup.problem.on_device:
            needed = int(_ARRAYS * 8 * setup.problem.n**2)
            what = f'search="gradient" on {setup.problem.n} rows'
            require_memory(needed, what, "use fewer rows, or a machine with more memory")

    def run(self, setup: Setup, conduct: Conduct) -> Outcome:
        candidates = _coarse(make_candidates(setup.run, setup.kernels, setup.names))
        grid = run_search(Grid(candidates, setup.alphas), setup.scoring, conduct, part="coarse grid")
        evaluations = Evaluations(grid.ledger, list(candidates), setup.scoring, conduct)
        starts = _starts(candidates, grid.ledger)[: 1 + self.restarts]
        if grid.ledger.score(*grid.ledger.best()) == 0.0:  # no error is left
            starts = []
        descents = []
        try:
            for number, ridge in starts:
                descents.append(self._descent(setup, candidates[number], float(setup.alphas[ridge])))
                descents[-1].run(evaluations)
        except EndedError:
            pass  # the best so far is in the ledger
        except KeyboardInterrupt as error:
            conduct.interrupt(error, grid.ledger)
        conduct.end_part([], grid.ledger)
        return self._outcome(grid, evaluations, descents, setup)

    def _descent(self, setup: Setup, cell: Candidate, alpha: float) -> Descent:
        """A descent about a cell, within the range of the grid."""
        kernel, given = cell.kernel, self.per_feature
        single = has_one_per_feature(kernel) if given is None else bool(given)
        coordinates = Coordinates(cell, alpha, single and kernel.has_width)
        alphas, widths = np.log(setup.alphas), []
        if kernel.has_width:
            gammas = np.log([name["gamma"] for name in setup.names if "gamma" in name])
            more = _FEATURE_RANGE if coordinates.per_feature else 0.0
            widths = [(gammas.min() - more, gammas.max() + more)] * (len(coordinates.labels) - 1)
        lower, upper = np.array([*widths, (alphas.min(), alphas.max())]).T
        return Descent(coordinates, lower.copy(), upper.copy())

    def _outcome(
        self, grid: SearchResult, evaluations: Evaluations, descents: list[Descent], setup: Setup
    ) -> Outcome:
        ledger = evaluations.ledger
        number, ridge = ledger.best()
        candidate, leader = evaluations.candidates[number], grid.leader
        if (number, ridge) != (leader.index, leader.ridge):
            leader = Leader(candidate, number, ridge)
        lowest = min(descents, key=lambda descent: descent.loss, default=None)
        # The cells of the coarse grid have a say where no descent has come to its end.
        edges = None if lowest is None or np.isinf(lowest.loss) else lowest.edges
        report = ledger.report(number) | candidate.diagnose()
        notes = list(dict.fromkeys(note for descent in descents for note in descent.notes))
        if evaluations.unsolved:
            notes.append(f"{evaluations.unsolved} evaluations had no score or no gradient")
        record = {"starts": len(descents), "evaluations": evaluations.count, "notes": notes}
        found = SearchResult(ledger, [leader], leader, report)
        return Outcome(found, setup.scoring, record=record, edges=edges)


def _coarse(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Of every kernel one width in three, the smallest and the largest among them."""
    kept: list[int] = []
    for numbers in _by_group(candidates):
        steps = len(numbers) - 1 if len(numbers) <= _ALL else -(-(len(numbers) - 1) // _STRIDE)
        places = np.round(np.linspace(0, len(numbers) - 1, steps + 1)).astype(int)
        kept += [numbers[place] for place in places]
    return [candidates[number] for number in sorted(kept)]


def _by_group(candidates: Sequence[Candidate]) -> list[list[int]]:
    """The numbers of every group's candidates, narrow kernels last."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, candidate in enumerate(candidates):
        groups.setdefault(candidate.group, []).append(number)
    return [sorted(numbers, key=lambda n: candidates[n].width or 0.0) for numbers in groups.values()]


def _starts(candidates: Sequence[Candidate], ledger: Ledger) -> list[tuple[int, int]]:
    """Cells that no neighbour exceeds, the best first; of neighbours that are equal, one."""
    order = np.argsort(ledger.alphas, kind="stable")
    cells = []
    for numbers in _by_group(candidates):
        scores = np.array([[ledger.rank(number, ridge) for ridge in order] for number in numbers])
        scores = np.where(np.isfinite(scores), scores, -np.inf)
        taken = np.zeros(scores.shape, dtype=bool)
        around = np.pad(scores, 1, constant_values=-np.inf)
        for place in np.argsort(-scores, axis=None, kind="stable"):
            i, j = np.unravel_index(place, scores.shape)
            nearby = slice(max(i - 1, 0), i + 2), slice(max(j - 1, 0), j + 2)
            highest = scores[i, j] >= around[i : i + 3, j : j + 3].max()
            if np.isfinite(scores[i, j]) and highest and not taken[nearby].any():
                taken[i, j] = True
                cells.append((scores[i, j], numbers[i], int(order[j])))
    return [(number, ridge) for _, number, ridge in sorted(cells, key=lambda cell: -cell[0])]
