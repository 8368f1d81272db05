r"""What a search with learned metrics will cost, before it runs (:mod:`onefold.search.learning`).

In multiply-adds; c n³ is one fit of n rows by Cholesky's factorisation, with k folds, f families, t
tracks and r rounds:

    rounds on 1500 rows   f × widths × half of the ridges, then r t rounds of 1 fit for the metric and 5
                          cells
    again, few rows       1 fit for the metric and 5 cells of each track
    again, all rows       each in k + 1 or k fits of the rows outside a fold, and 5 f closed forms

How many rounds are worth while, and how many tracks a blend gives weight, is not known before; four and
three are reckoned with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from onefold.approximations import Workload
from onefold.search.learning import _AGAIN, FIRST_ROWS
from onefold.search.setup import Learning
from onefold.search.subsamples import _ASIDE_ROWS, _ASIDE_SHARE
from onefold.smoothers.base import choose_route

_ROUNDS = 4  # that a track usually goes
_CROSS = 5  # cells of a round: three widths, two more ridges
_FINER = 5  # cells of the last one, where a path is gone again
_GRADIENT_ROWS = 1500
_SLOW_ROWS = 800  # of a fit are slow: kernel values, distances, copies, calls
_MEMBERS = 3  # of a usual blend


@dataclass(frozen=True)
class Work:
    """Something that is done with some of the rows, and its multiply-adds."""

    what: str
    rows: int
    multiply_adds: float


@dataclass(frozen=True)
class Size:
    """Of the problem: rows, features, targets, folds and ridges."""

    n: int
    d: int
    targets: int
    folds: int
    alphas: int

    def fit(self, rows: float, alphas: int = 1, *, heldout: bool = False) -> float:
        """A model of so many rows; of few rows, the matrix takes as long as its factorisation."""
        return self.products(rows, alphas, heldout=heldout) * (1 + _SLOW_ROWS / max(rows, 1))

    def products(self, rows: float, alphas: int, *, heldout: bool) -> float:
        """Its multiply-adds, as the exact machine reckons them."""
        route = choose_route(int(rows), alphas, "heldout" if heldout else "coefficients")
        return route.cost * rows**3 + rows**2 * self.d / 2

    def learn(self, rows: float) -> float:
        """A model of so many rows and its gradients."""
        return self.fit(rows) + min(rows, _GRADIENT_ROWS) * rows * (self.d + 1) * (self.targets + 1)

    @property
    def aside(self) -> int:
        """How many folds are set aside; see :func:`onefold.search.subsamples.divide`."""
        enough = max(1, ceil(_ASIDE_ROWS * self.folds / self.n))
        return max(1, min(enough, int(_ASIDE_SHARE * self.folds)))

    def teachers(self, wanted: int, *, set_aside: bool) -> int:
        """How many rows metrics are learned from, beside the judges' fold and those set aside."""
        aside = self.aside if set_aside else 0
        share = 1.0 - (aside + 1) / self.folds
        if share <= 0:  # no fold is left: a fifth of the other rows judges
            share = 0.8 * (1.0 - aside / self.folds)
        return max(1, min(wanted, int(share * self.n)))


def work_on_few_rows(learning: Learning, size: Size) -> list[Work]:
    """What comes before anything is done with all rows; nothing where there are few."""
    if size.n <= FIRST_ROWS:
        return []
    many, tracks = learning.rows < size.n, len(learning.tracks)
    rows = size.teachers(FIRST_ROWS, set_aside=many)
    families, rounds = len({track.name for track in learning.tracks}), _rounds(learning)
    first = families * len(learning.widths) * size.fit(rows, ceil(size.alphas / 2))
    cells = first + _CROSS * rounds * tracks * size.fit(rows)
    found = [Work(f"rounds on {rows} rows", rows, cells + rounds * tracks * size.learn(rows))]
    teachers = size.teachers(learning.rows, set_aside=many)
    if many and teachers > _AGAIN * FIRST_ROWS:
        again = size.learn(teachers) + _FINER * size.fit(teachers)
        found.append(Work(f"again on {teachers}", teachers, tracks * again))
    return found


def learned_load(load: Workload, learning: Learning, size: Size, *, blend: bool) -> Workload:
    """What is asked of the run on all rows, as so many kernels of one ridge and all folds."""
    before = sum(work.multiply_adds for work in work_on_few_rows(learning, size))
    if learning.rows < size.n:
        kernels = min(len(learning.tracks), _MEMBERS if blend else 2)
        return replace(load, kernels=kernels, alphas=1, before=before)
    n, folds, rounds = size.n, size.folds, _rounds(learning)
    families, outside = len({track.name for track in learning.tracks}), n * (1 - 1 / folds)
    if n > FIRST_ROWS:
        closed = families * _FINER * size.fit(n, heldout=True)
        cells = _FINER * folds * size.fit(outside)
    else:
        closed = families * len(learning.widths) * size.fit(n, size.alphas, heldout=True)
        cells = rounds * _CROSS * folds * size.fit(outside)
    learned = rounds * (folds + 1) * size.learn(outside)
    final = (_MEMBERS if blend else 1) * size.fit(n)
    total = closed + len(learning.tracks) * (cells + learned) + final
    kernels = max(1, ceil(total / size.products(n, 1, heldout=True)))
    return replace(load, kernels=kernels, alphas=1, before=before)


def _rounds(learning: Learning) -> int:
    return min(learning.max_rounds, _ROUNDS)


def left_out(learning: Learning, size: Size) -> list[str]:
    """What the search does not try, or not on all rows."""
    if size.n <= FIRST_ROWS:
        return []
    if learning.rows >= size.n:
        found_on = size.teachers(FIRST_ROWS, set_aside=False)
        return [f"rounds of all rows: those found on {found_on} are gone again"]
    found = [
        f"metrics of all rows: they are learned from {size.teachers(learning.rows, set_aside=True)}",
        f"some of {len(learning.tracks)} kernels: those without weight in a first blend are not fitted",
    ]
    scored = f"the {size.aside} set aside score, as no metric has seen them"
    return [*found, f"{size.folds - size.aside} of {size.folds} folds: {scored}"]
