r"""What a search with learned metrics will cost, before it runs (:mod:`onefold.search.metric`).

In multiply-adds, with k folds, f families, t tracks and r rounds:

    rounds on few rows    f × widths × half of the ridges, then r t rounds of 1 fit for the metric and a
                          cross of cells
    again, few rows       1 fit for the metric and a cross of each track
    again, all rows       each in k + 1 or k fits of the rows outside a fold, and a cross of closed
                          forms of each family

How many rounds are worth while, and how many tracks a blend gives weight, is not known before.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from onefold.approximations import Workload
from onefold.search.metric import AGAIN, CROSS, FINER, FIRST_ROWS, MetricSearch
from onefold.search.metrics import GRADIENT_ROWS
from onefold.smoothers.base import choose_route

_ROUNDS = 4  # that a track usually goes
_MEMBERS = 3  # of a usual blend
_SLOW_ROWS = 800  # of a fit are slow: kernel values, distances, copies, calls
_CROSS, _FINER = len(CROSS) + 2, len(FINER) + 2  # cells: widths, and two more ridges


def fit_cost(rows: float, d: int, alphas: int = 1, *, heldout: bool = False) -> float:
    """A model of so many rows; of few rows, the matrix takes as long as its factorisation."""
    return _products(rows, d, alphas, heldout=heldout) * (1 + _SLOW_ROWS / max(rows, 1))


def _products(rows: float, d: int, alphas: int, *, heldout: bool) -> float:
    """Its multiply-adds, as the exact machine counts them."""
    route = choose_route(int(rows), alphas, "heldout" if heldout else "coefficients")
    return route.cost * rows**3 + rows**2 * d / 2


def learned_load(load: Workload, learning: MetricSearch, shape: tuple[int, int, int]) -> Workload:
    """What is asked of the run on all rows, as so many kernels of one ridge and all folds."""
    n, d, targets = shape
    folds, rounds = max(2, load.folds), min(learning.max_rounds, _ROUNDS)
    tracks, families = len(learning.tracks), len({track.name for track in learning.tracks})
    few = learning.rows < n

    def learn(rows: float) -> float:
        """A model of so many rows and its gradients."""
        return fit_cost(rows, d) + min(rows, GRADIENT_ROWS) * rows * (d + 1) * (targets + 1)

    def outside(wanted: int) -> int:
        """Rows outside the fold that scores rounds, and outside one that no metric sees."""
        return max(1, min(wanted, int(max(1 - (1 + few) / folds, 0.4) * n)))

    before = 0.0
    if n > FIRST_ROWS:
        rows = outside(FIRST_ROWS)
        before += families * len(learning.widths) * fit_cost(rows, d, ceil(load.alphas / 2))
        before += rounds * tracks * (_CROSS * fit_cost(rows, d) + learn(rows))
        rows = outside(learning.rows)
        if few and rows > AGAIN * FIRST_ROWS:
            before += tracks * (learn(rows) + _FINER * fit_cost(rows, d))
    if few:
        kernels = min(tracks, _MEMBERS if learning.blend else 2)
        return replace(load, kernels=kernels, alphas=1, before=before)
    training = n * (1 - 1 / folds)
    if n > FIRST_ROWS:
        closed = families * _FINER * fit_cost(n, d, heldout=True)
        cells = _FINER * folds * fit_cost(training, d)
    else:
        closed = families * len(learning.widths) * fit_cost(n, d, load.alphas, heldout=True)
        cells = rounds * _CROSS * folds * fit_cost(training, d)
    total = closed + tracks * (cells + rounds * (folds + 1) * learn(training))
    total += (_MEMBERS if learning.blend else 1) * fit_cost(n, d)
    kernels = max(1, ceil(total / _products(n, d, 1, heldout=True)))
    return replace(load, kernels=kernels, alphas=1, before=before)
