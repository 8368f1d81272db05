r"""Nested subsamples of a search: fewer rows, the same folds, the same meaning of every cell.

    rows        S₁ ⊂ S₂ ⊂ …, with the share of every fold and class
    splits      the user's, restricted to S
    ridge       μ_S = μ Σ_{i∈S} v_i / Σ_i v_i, the penalty's weight beside the mean loss
    landmarks   some of the run's own, those of S₁ among those of S₂

So a cell (γ, α) is the same cell on every subsample, and two cells are compared on the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onefold.approximations import Problem
from onefold.criteria import Scoring, Task
from onefold.heldout import Splits
from onefold.linalg import to_numpy
from onefold.search.candidates import Candidate, make_candidates
from onefold.search.setup import Setup
from onefold.search.subsamples import rows_of


@dataclass(frozen=True)
class Rival(Candidate):
    """A candidate that leads a group of its own, so that a search keeps its held-out predictions."""

    @property
    def group(self) -> tuple[Any, ...]:
        return tuple(self.params.items())


@dataclass(frozen=True)
class Subsample:
    """Some of a search's rows.

    Attributes
    ----------
    rows : int array
        Their numbers in the problem, sorted.
    scoring : Scoring
        The criterion on these rows, held out as the user's splits hold them out.
    candidates : list of Candidate
        The search's, in its order.
    """

    rows: Any
    scoring: Scoring
    candidates: list[Candidate]


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


def subsample(setup: Setup, rows: Any) -> Subsample:
    """The search on some of its rows. O(n_S d) time and memory."""
    rows, criterion = np.sort(rows), setup.scoring.criterion.from_predictions()  # rows are compared
    problem = _fewer(setup.problem, rows, precomputed=setup.precomputed)
    scoring = criterion.start(problem, rows_of(setup.task, rows), _within(setup.scoring.held_out, rows))
    load = replace(setup.run.load, parts=scoring.parts, predictions=True)
    run = setup.run.on_fewer_rows(problem, load)
    candidates = make_candidates(run, setup.kernels, setup.names)
    return Subsample(rows, scoring, [Rival(one.run, one.kernel, one.params) for one in candidates])


def _fewer(problem: Problem, rows: Any, *, precomputed: bool) -> Problem:
    """The problem of some rows, whose ridges are those of all rows by the share of the weight."""
    part = problem.rows(rows, precomputed=precomputed).about_its_mean()
    share = rows.size / problem.n
    if problem.root_weight is not None:
        weight = to_numpy(problem.root_weight) ** 2
        share = float(weight[rows].sum() / weight.sum())
    return replace(part, alpha_unit=problem.alpha_unit / share)


def _within(splits: Splits, rows: Any) -> Splits:
    if not splits.leave_one_out:
        return splits.within(rows)
    every = np.arange(rows.size)
    alone = every[:, None]
    return Splits(rows.size, [every] if len(splits) == 1 else alone, alone, leave_one_out=True)
