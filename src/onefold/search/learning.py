r"""A search with learned metrics, and what its scores may be counted on.

*Few rows.* Every fold has its own metric, learned without it (:mod:`onefold.search.rounds`): literal
cross-validation of the whole procedure, k fits per cell.

*Many rows.* The last folds, half of the rows at most, are set aside. The metrics are learned from some
thousand of the other rows; they have seen no target of the folds set aside. So on all rows one kernel
matrix per metric serves every fold and every ridge in closed form again, and the score is that of the
folds set aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onefold.approximations import Exact, Problem, Run, Workload
from onefold.criteria import Scoring, SquaredError, Task
from onefold.heldout import Splits
from onefold.learned_metrics import Track, first_round
from onefold.linalg import take_rows
from onefold.search.candidates import Candidate, CrossFittedCandidate
from onefold.search.choice import Leader, choose
from onefold.search.rounds import MetricRounds
from onefold.search.run import Callback, SearchResult, run_search
from onefold.search.setup import Learning, Setup
from onefold.search.strategies import Cells, Grid

_LOOK = 600  # rows of the first look
_ASIDE = 0.5  # of the rows are set aside, at most
_HOLDOUT = 1 / 6  # of the rows that metrics are learned from judge them


@dataclass(frozen=True)
class LearnedSearch:
    """What a search with learned metrics found.

    Attributes
    ----------
    found : SearchResult
    scoring : Scoring
        What its scores are counted on.
    history : list of dict
        The best cell of every family, kind of metric and round, where the metrics were learned.
    order : int array (n,) or None
        The rows of the problem in the order in which they were searched; None for their own.
    """

    found: SearchResult
    scoring: Scoring
    history: list[dict[str, Any]]
    order: Any = None

    def in_order(self, heldout: Any) -> Any:
        """Held-out predictions of the search in the order of the problem's rows."""
        if self.order is None or heldout is None:
            return heldout
        found = np.empty_like(heldout)
        found[self.order] = heldout
        return found


def search_with_metric(setup: Setup, callback: Callback | None = None) -> LearnedSearch:
    """Learn the metrics, search and choose."""
    learning, splits = setup.learning, setup.scoring.splits
    assert learning is not None
    assert splits is not None
    if learning.rows >= setup.problem.n:
        strategy = _rounds(setup, learning, setup.run, setup.scoring, splits)
        found = run_search(strategy, setup.scoring, callback)
        return LearnedSearch(found, setup.scoring, _history(found, setup.problem.n))
    aside = _set_aside(splits)
    rows = _drawn(setup, learning.rows, np.concatenate([splits.left_out[i] for i in aside]))
    scoring = _scoring_of(setup, rows, _judging(splits, rows, aside, setup.seed or 0))
    strategy = _rounds(setup, learning, _exact(scoring), scoring, splits.within(rows))
    learned = run_search(strategy, scoring, callback)
    members = _best_of_tracks(learned, strategy, learning.tracks, scoring)
    order = _last(np.unique(np.concatenate([splits.left_out[i] for i in aside])), splits.n)
    task, problem = _rows_of(setup.task, order), setup.problem.rows(order)
    outside = setup.scoring.criterion.start(problem, task, splits.some(aside).within(order))
    closed = setup.run.approximation.selects
    load = replace(setup.run.load, parts=outside.parts if closed else None)
    run = replace(setup.run, problem=problem, load=load)
    candidates = [_on_all_rows(one.candidate, run, outside) for one in members]
    cells = Cells(candidates, setup.alphas, [[one.ridge] for one in members], finishes=closed)
    found = run_search(cells, outside, callback)
    return LearnedSearch(found, outside, _history(learned, len(rows)), order)


def _last(rows: Any, n: int) -> Any:
    """All rows with these at the end, where they are held out at the least cost."""
    return np.concatenate([np.setdiff1d(np.arange(n), rows), rows])


def _on_all_rows(candidate: Candidate, run: Run, scoring: Scoring) -> Candidate:
    """The candidate of the whole table; refitted without each fold where no closed form serves."""
    kernel, started = candidate.kernel, run.restarted(candidate.kernel)
    if run.approximation.selects:
        return Candidate(started, kernel, candidate.params)
    assert scoring.splits is not None
    parts = scoring.splits.left_out
    return CrossFittedCandidate(started, kernel, candidate.params, parts, [kernel] * len(parts))


def _rounds(
    setup: Setup, learning: Learning, run: Run, scoring: Scoring, splits: Splits
) -> MetricRounds:
    """The strategy, started around what a first look at some of the rows finds best."""
    looked = None
    if run.problem.n > 2 * _LOOK:
        looked = _first_look(setup, learning, run.problem, scoring, splits)
    assert scoring.splits is not None
    return MetricRounds(
        run,
        learning.tracks,
        scoring.splits.left_out,
        learning.widths,
        setup.alphas,
        max_rounds=learning.max_rounds,
        looked=looked,
        whole=run.problem is setup.problem,
        seed=setup.seed or 0,
    )


def _first_look(
    setup: Setup, learning: Learning, problem: Problem, scoring: Scoring, splits: Splits
) -> dict[str, tuple[float, int]]:
    """Width and ridge of each family that are best on a few hundred rows, over the whole grid."""
    generator = np.random.default_rng([setup.seed or 0, 1])
    rows = np.sort(generator.choice(problem.n, _LOOK, replace=False))
    assert scoring.task is not None
    part = _part(problem, rows)
    inside = splits.within(rows)
    if not inside.tests:
        return {}
    look = SquaredError().start(part, _rows_of(scoring.task, rows), inside)
    run = _exact(look)
    families = {track.name: track for track in learning.tracks}
    candidates = [
        Candidate(run, first.whole.at(width), {"kernel": name, "gamma": float(width)})
        for name, track in families.items()
        for first in [first_round(track, part, setup.seed or 0)]
        for width in (learning.widths if track.kernel.has_width else [1.0])
    ]
    found = run_search(Grid(candidates, setup.alphas), look)
    cells = {one.candidate.params["kernel"]: one for one in found.leaders}
    return {name: (float(one.candidate.width or 1.0), one.ridge) for name, one in cells.items()}


def _best_of_tracks(
    learned: SearchResult, strategy: MetricRounds, tracks: Sequence[Track], scoring: Scoring
) -> list[Leader]:
    """The round that each track is best with, or none where that cannot be told from it; once each."""
    chosen: dict[tuple[Any, ...], Leader] = {}
    ledger = learned.ledger
    for track in tracks:
        own = [one for one in learned.leaders if _belongs(one, track)]
        if own:
            index, _ = ledger.best([one.index for one in own])
            rivals = [one for one in own if one.index == index or not one.candidate.params["round"]]
            best = choose(rivals, scoring, ledger)
            chosen[best.candidate.group] = best
    return list(chosen.values())


def _belongs(leader: Leader, track: Track) -> bool:
    names = leader.candidate.params
    return names["kernel"] == track.name and names["metric"] in ("none", track.kind)


def _history(found: SearchResult, rows: int) -> list[dict[str, Any]]:
    ledger = found.ledger
    return [
        dict(one.candidate.params)
        | {
            "alpha": float(ledger.alphas[one.ridge]),
            "score": ledger.score(one.index, one.ridge),
            "rows": rows,
        }
        for one in found.leaders
    ]


def _set_aside(splits: Splits) -> list[int]:
    """Numbers of the last splits, as many as leave out half of the rows at most; one at least."""
    left = np.zeros(splits.n, dtype=bool)
    chosen: list[int] = []
    for number in reversed(range(len(splits.left_out))):
        left[splits.left_out[number]] = True
        if chosen and left.mean() > _ASIDE:
            break
        chosen.append(number)
    return sorted(chosen)


def _drawn(setup: Setup, size: int, not_these: Any) -> Any:
    """Rows outside those set aside, in order, drawn at random; every class keeps its share."""
    generator = np.random.default_rng([setup.seed or 0, 0])
    free = np.setdiff1d(np.arange(setup.problem.n), not_these)
    if free.size <= size:
        return free
    task = setup.task
    labels = np.zeros(free.size) if task.classes is None else task.y[free]
    picked = []
    for label in np.unique(labels):
        members = free[labels == label]
        wanted = int(np.ceil(size * members.size / free.size))
        picked.append(generator.choice(members, min(wanted, members.size), replace=False))
    return np.sort(np.concatenate(picked))


def _judging(splits: Splits, rows: Any, aside: list[int], seed: int) -> Splits:
    """Splits of some of the rows: as many of those that are not set aside as test a sixth of them."""
    others = [number for number in range(len(splits.left_out)) if number not in aside]
    found = splits.some(others).within(rows)
    count, tested = 0, 0
    while count < len(found.tests) and tested < _HOLDOUT * len(rows):
        tested += len(found.tests[count])
        count += 1
    if tested:
        return found.some(range(count))
    shuffled = np.random.default_rng([seed, 2]).permutation(len(rows))
    test = np.sort(shuffled[: max(1, len(rows) // 5)])
    return Splits(len(rows), [test], [test])


def _scoring_of(setup: Setup, rows: Any, splits: Splits) -> Scoring:
    return SquaredError().start(_part(setup.problem, rows), _rows_of(setup.task, rows), splits)


def _part(problem: Problem, rows: Any) -> Problem:
    return replace(problem.rows(rows), offset=None).about_its_mean()


def _rows_of(task: Task, rows: Any) -> Task:
    X = take_rows(task.X, rows)
    return replace(task, X=X, y=task.y[rows], sample_weight=task.weight_of(rows))


def _exact(scoring: Scoring) -> Run:
    """The exact machine on the rows of a scoring, for cells that are refitted or in closed form."""
    assert scoring.splits is not None
    parts = scoring.splits.left_out
    return Exact().start(scoring.problem, [], Workload(1, 1, folds=len(parts), parts=parts))
