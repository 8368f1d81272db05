r"""A search with learned metrics, and what its scores may be counted on.

Rounds are first gone through on some 1500 rows. Then

*Some thousand rows.* The paths that were found are gone again on all rows, every fold with a metric of
its own, learned without it: literal cross-validation of the metric, k fits per cell. With 1500 rows or
fewer the rounds themselves are of this kind.

*More.* The last folds are set aside. The paths are gone again on some thousand of the other rows; their
metrics have seen no target of the folds set aside. So on all rows one kernel matrix per metric serves
these folds in closed form again, and the score is theirs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from onefold.approximations import Run
from onefold.criteria import Scoring
from onefold.heldout import Splits
from onefold.learned_metrics import Track
from onefold.search.blend import worth_fitting
from onefold.search.candidates import Candidate, CrossFittedCandidate
from onefold.search.choice import Leader, choose
from onefold.search.conduct import Conduct
from onefold.search.outcome import Outcome
from onefold.search.rounds import FINER, MetricRounds, Path, Replay, neighbours
from onefold.search.run import SearchResult, run_search
from onefold.search.setup import Learning, Setup
from onefold.search.strategies import Cells
from onefold.search.subsamples import Division, divide, drawn, exact_run, judged, rows_of

FIRST_ROWS = 1500  # that rounds are gone through on
_AGAIN = 1.3  # times as many rows are worth going a path again
_CHEAP_ROWS = 4000  # up to which a cross of cells is tried on all rows, not the best cell alone
_HOPELESS = 1.5  # times the best loss: tracks that are not gone again
_ROUNDS, _PATHS = "rounds", "paths gone again"


def search_with_metric(setup: Setup, learning: Learning, conduct: Conduct) -> Outcome:
    """Learn the metrics, search and choose.

    Of a search that is stopped, the best that has been found goes through the parts that are left.
    """
    n, splits = setup.problem.n, setup.scoring.held_out
    if learning.rows < n:
        return _with_folds_aside(setup, learning, splits, conduct)
    if n <= FIRST_ROWS:
        strategy = _rounds(setup, learning, setup.run, setup.scoring, conduct, whole=True)
        found = run_search(strategy, setup.scoring, conduct, _ROUNDS)
        return Outcome(found, setup.scoring, _history(found, n))
    division = divide(splits, setup.task, FIRST_ROWS, setup.seed or 0, set_aside=False)
    paths, first, judging = _find_paths(setup, learning, division, conduct)
    again = _replay(setup, setup.run, paths, splits.left_out, conduct, whole=True)
    found = run_search(again, setup.scoring, conduct, _PATHS)
    return Outcome(found, setup.scoring, _history(first, _teachers(judging)) + _history(found, n))


def _with_folds_aside(setup: Setup, learning: Learning, splits: Splits, conduct: Conduct) -> Outcome:
    """Metrics of some of the rows, and a search on all rows that is scored by the folds set aside."""
    division = divide(splits, setup.task, learning.rows, setup.seed or 0, set_aside=True)
    paths, learned, scoring = _find_paths(setup, learning, division, conduct)
    history = _history(learned, _teachers(scoring))
    members = [one for one in learned.leaders if any(_ends_in(path, one) for path in paths)]
    if division.teachers.size > _AGAIN * FIRST_ROWS and conduct.goes_on():
        scoring = judged(setup.problem, setup.task, division.teachers, division.judges)
        again = _replay(setup, exact_run(scoring), paths, scoring.parts, conduct, whole=False)
        learned = run_search(again, scoring, conduct, _PATHS)
        members, history = learned.leaders, history + _history(learned, _teachers(scoring))
    members = worth_fitting(members, learned.ledger, scoring, blend=learning.blend)
    members = members if conduct.goes_on() else members[:1]
    aside = np.unique(np.concatenate([splits.left_out[number] for number in division.aside]))
    problem, task, inside, order = setup.problem, setup.task, splits.some(division.aside), None
    if not setup.run.approximation.streams:  # the exact machine: rows held out cost least at the end
        order = np.concatenate([np.setdiff1d(np.arange(splits.n), aside), aside])
        problem, task, inside = problem.rows(order), rows_of(task, order), inside.within(order)
    outside = setup.scoring.criterion.start(problem, task, inside)
    closed = setup.run.approximation.selects
    load = replace(setup.run.load, parts=outside.parts if closed else None)
    run = replace(setup.run, problem=problem, load=load)
    factors = FINER if problem.n <= _CHEAP_ROWS and conduct.goes_on() else (1.0,)
    found = [(one, factor) for one in members for factor in factors]
    candidates = [_on_all_rows(one.candidate, factor, run, inside) for one, factor in found]
    ridges = [
        neighbours(setup.alphas, one.ridge) if factor == 1.0 < len(factors) else [one.ridge]
        for one, factor in found
    ]
    cells = Cells(candidates, setup.alphas, ridges, finishes=closed)
    return Outcome(run_search(cells, outside, conduct, "all rows"), outside, history, order)


def _on_all_rows(candidate: Candidate, factor: float, run: Run, splits: Splits) -> Candidate:
    """The candidate of the whole table at its width times a factor.

    It is refitted without each fold where no closed form serves.
    """
    kernel = candidate.kernel.scaled(factor**candidate.kernel.exponent_order)
    names = candidate.params | {"gamma": factor * candidate.params["gamma"]}
    started = run.restarted(kernel)
    # The same cells on more rows, as when a search that was stopped goes on, give another metric.
    lineage = (candidate.run.problem.n, *candidate.lineage)
    if run.approximation.selects:
        return Candidate(started, kernel, names, lineage)
    parts = splits.left_out
    return CrossFittedCandidate(started, kernel, names, lineage, parts, [kernel] * len(parts))


def _find_paths(
    setup: Setup, learning: Learning, division: Division, conduct: Conduct
) -> tuple[list[Path], SearchResult, Scoring]:
    """Go through the rounds on few of the teachers; the paths of all tracks that are not hopeless."""
    generator = np.random.default_rng([setup.seed or 0, 1])
    few = drawn(division.teachers, setup.task, FIRST_ROWS, generator)
    scoring = judged(setup.problem, setup.task, few, division.judges)
    strategy = _rounds(setup, learning, exact_run(scoring), scoring, conduct, whole=False)
    found = run_search(strategy, scoring, conduct, _ROUNDS)
    best: dict[Path, float] = {}
    for track in learning.tracks:
        own = [one for one in found.leaders if _belongs(one, track)]
        if own:
            leader = _best_round(own, scoring, found)
            path = strategy.path(track, leader)
            if not any(_same(path, other) for other in best):
                best[path] = found.ledger.rank(leader.index, leader.ridge)
    top = max(best.values(), default=0.0)
    least = _HOPELESS * top if conduct.goes_on() else top  # of negative losses
    return [path for path, rank in best.items() if rank >= least], found, scoring


def _best_round(own: list[Leader], scoring: Scoring, found: SearchResult) -> Leader:
    """The best round of a track, or none where that cannot be told from it."""
    index, _ = found.ledger.best([one.index for one in own])
    rivals = [one for one in own if one.index == index or not one.candidate.params["round"]]
    return choose(rivals, scoring, found.ledger)


def _belongs(leader: Leader, track: Track) -> bool:
    names = leader.candidate.params
    return names["kernel"] == track.name and names["metric"] in ("none", track.kind)


def _ends_in(path: Path, leader: Leader) -> bool:
    here = leader.candidate.params["round"] == len(path.cells) - 1
    return here and _belongs(leader, path.track)


def _same(one: Path, other: Path) -> bool:
    """Whether both end with the family as it is."""
    return one.track.name == other.track.name and len(one.cells) == len(other.cells) == 1


def _rounds(
    setup: Setup, learning: Learning, run: Run, scoring: Scoring, conduct: Conduct, *, whole: bool
) -> MetricRounds:
    """The strategy of the rounds on the rows of a run."""
    return MetricRounds(
        run,
        learning.tracks,
        scoring.held_out.left_out,
        learning.widths,
        setup.alphas,
        max_rounds=learning.max_rounds,
        learned=partial(conduct.keeping.learned, _ROUNDS),
        whole=whole,
        seed=setup.seed or 0,
    )


def _replay(
    setup: Setup, run: Run, paths: list[Path], parts: Any, conduct: Conduct, *, whole: bool
) -> Replay:
    return Replay(
        run,
        paths,
        parts,
        setup.alphas,
        isotropic=whole,
        learned=partial(conduct.keeping.learned, _PATHS),
        whole=whole,
        seed=setup.seed or 0,
    )


def _teachers(scoring: Scoring) -> int:
    """How many rows of a scoring by judges are not judges."""
    return scoring.problem.n - sum(len(part) for part in scoring.parts or [])


def _history(found: SearchResult, rows: int) -> list[dict[str, Any]]:
    """The best cell of every group, and on how many rows the tracks were gone through."""
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
