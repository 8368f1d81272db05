r"""The strategy of a learned metric: a few cells around the last choice, round after round.

Round 0 is every family as it is, over the whole grid, or every other ridge of it where each costs a
factorisation. Then, for every track, the best cell of its last round gives the next metric
(:mod:`onefold.search.metrics`), which is tried in a cross: at half and twice the width, and at the
neighbouring ridges. A track ends with the first round that gains less than half a per cent. What it went
through, a cell per round, is its *path*; a path that was found on few rows can be repeated on many, at a
fraction of the cost.

**What the scores may be counted on.** Rounds are first tried on some 1500 rows. Then

*Some thousand rows.* The paths that were found are repeated on all rows, every fold with a metric of its
own, learned without it: literal cross-validation of the metric, k fits per cell. With 1500 rows or fewer
the rounds themselves are of this kind.

*More.* The last folds are reserved. The paths are repeated on some thousand of the other rows; their
metrics have seen no target of the reserved folds. So on all rows one kernel matrix per metric serves
these folds in closed form again, and the score is theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from onefold.approximations import Exact, Problem, Run, Workload
from onefold.criteria import Scoring, SquaredError, Task
from onefold.heldout import Splits
from onefold.machine.threads import map_in_order
from onefold.search.choice import Leader, choose, worth_fitting
from onefold.search.evaluation import Candidate
from onefold.search.ledger import Ledger
from onefold.search.loop import Found, Proposal, Search, Stage
from onefold.search.metrics import Round, Track, first_round, next_round
from onefold.search.setup import Setup
from onefold.search.strategies import Cells, next_ridges

FIRST_ROWS = 1500  # that rounds are first tried on
AGAIN = 1.3  # times as many rows are worth repeating a path
CROSS = (0.5, 1.0, 2.0)  # widths of a round, times the last one
FINER = (1.0, 1.5, 2.25)  # with more rows, narrower kernels are likelier to be best
RESERVED_ROWS = 500  # are reserved where there are as many,
RESERVED_SHARE = 0.5  # but no more than this share of all
_VALIDATION = 1000  # rows that rounds are compared on, at most
_CHEAP_ROWS = 4000  # up to which a cross of cells is tried on all rows, not the best cell alone
_HOPELESS = 1.5  # times the best loss: tracks that are not repeated
_GAIN = 0.005  # of the loss, that a round must make
_ROUNDS, _REPEATED, _ALL = "learning the metric", "second pass on more rows", "all rows"

Cell = tuple[float, int]
"""A relative width and the number of a ridge."""


@dataclass(frozen=True)
class MetricSearch:
    """Rounds of learned metrics, and a choice among them."""

    tracks: list[Track]  # families with the kind of metric each gets
    widths: list[float]  # of round 0, relative to the mean distance
    max_rounds: int
    rows: int  # from how many: all of them, each fold with a metric of its own, or fewer
    blend: bool  # whether several tracks may be wanted in the end

    name: ClassVar[str] = "grid"

    def check(self, setup: Setup) -> None:
        """Whatever could be wrong was found when the tracks were made."""

    def run(self, search: Search) -> Found:
        """Learn the metrics, search and choose.

        Of a search that is stopped, the best that has been found goes through the stages that are left.
        """
        setup, n = search.setup, search.setup.problem.n
        splits = setup.scoring.held_out
        if self.rows < n:
            return self._with_reserved_folds(search, splits)
        if n <= FIRST_ROWS:
            stage = search.stage(_ROUNDS)
            rounds = _Rounds(search, stage, setup.run, self, whole=True)
            found = stage.run(rounds).found()
            return replace(found, history=_history(found, n))
        division = divide(splits, setup.task, FIRST_ROWS, setup.seed or 0, reserve=False)
        paths, first = self._find_paths(search, division)
        stage = search.stage(_REPEATED)
        found = stage.run(_Repeated(search, stage, setup.run, paths, whole=True)).found()
        return replace(found, history=_history(first, _trained(first)) + _history(found, n))

    def _with_reserved_folds(self, search: Search, splits: Splits) -> Found:
        """Metrics of some of the rows, and a search on all rows that is scored by the reserved folds."""
        setup = search.setup
        division = divide(splits, setup.task, self.rows, setup.seed or 0, reserve=True)
        paths, learned = self._find_paths(search, division)
        history = _history(learned, _trained(learned))
        members = [one for one in learned.leaders if any(_ends_in(path, one) for path in paths)]
        if division.training.size > AGAIN * FIRST_ROWS and search.goes_on():
            scoring = validated(setup.problem, setup.task, division.training, division.validation)
            stage = search.stage(_REPEATED, scoring=scoring)
            repeated = _Repeated(search, stage, exact_run(scoring), paths, whole=False)
            learned = stage.run(repeated).found()
            members, history = learned.leaders, history + _history(learned, _trained(learned))
        members = worth_fitting(members, learned.ledger, learned.scoring, blend=self.blend)
        members = members if search.goes_on() else members[:1]
        reserved = np.unique(np.concatenate([splits.left_out[number] for number in division.reserved]))
        problem, task, inside, order = setup.problem, setup.task, splits.some(division.reserved), None
        if not setup.run.approximation.streams:  # the exact machine: rows held out cost least at the end
            order = np.concatenate([np.setdiff1d(np.arange(splits.n), reserved), reserved])
            problem, task, inside = problem.rows(order), task.rows(order), inside.within(order)
        outside = setup.scoring.criterion.start(problem, task, inside)
        closed = setup.run.approximation.selects
        load = replace(setup.run.load, parts=outside.parts if closed else None)
        run = replace(setup.run, problem=problem, load=load)
        factors = FINER if problem.n <= _CHEAP_ROWS and search.goes_on() else (1.0,)
        cells = [(one, factor) for one in members for factor in factors]
        candidates = [_on_all_rows(one.candidate, factor, run, inside) for one, factor in cells]
        ridges = [
            next_ridges(setup.alphas, one.ridge) if factor == 1.0 < len(factors) else [one.ridge]
            for one, factor in cells
        ]
        stage = search.stage(_ALL, candidates, scoring=outside, finish=closed)
        return stage.run(Cells(ridges)).found(history=history, order=order)

    def _find_paths(self, search: Search, division: Division) -> tuple[list[Path], Found]:
        """Try the rounds on few of the rows; the paths of all tracks that are not hopeless."""
        setup = search.setup
        generator = np.random.default_rng([setup.seed or 0, 1])
        few = drawn(division.training, setup.task, FIRST_ROWS, generator)
        scoring = validated(setup.problem, setup.task, few, division.validation)
        stage = search.stage(_ROUNDS, scoring=scoring)
        rounds = _Rounds(search, stage, exact_run(scoring), self, whole=False)
        found = stage.run(rounds).found()
        best: dict[Path, float] = {}
        for track in self.tracks:
            own = [one for one in found.leaders if _belongs(one, track)]
            if not own:
                continue
            # The best round of a track, or round 0 where that is as good within noise.
            index, _ = found.ledger.best([one.index for one in own])
            rivals = [one for one in own if one.index == index or not one.candidate.params["round"]]
            leader = choose(rivals, scoring, found.ledger)
            path = rounds.path(track, leader)
            if not any(_same(path, other) for other in best):
                best[path] = found.ledger.rank(leader.index, leader.ridge)
        top = max(best.values(), default=0.0)
        least = _HOPELESS * top if search.goes_on() else top  # of negative losses
        return [path for path, rank in best.items() if rank >= least], found


@dataclass(frozen=True)
class Path:
    """A track and the best cell of each of its rounds, the last one being the round to use."""

    track: Track
    cells: tuple[Cell, ...]
    before: Round | None = field(default=None, compare=False)  # the round before the last, as learned


def _belongs(leader: Leader, track: Track) -> bool:
    names = leader.candidate.params
    return names["kernel"] == track.name and names["metric"] in ("none", track.kind)


def _ends_in(path: Path, leader: Leader) -> bool:
    here = leader.candidate.params["round"] == len(path.cells) - 1
    return here and _belongs(leader, path.track)


def _same(one: Path, other: Path) -> bool:
    """Whether both end with the family as it is."""
    return one.track.name == other.track.name and len(one.cells) == len(other.cells) == 1


def _trained(found: Found) -> int:
    """How many rows of a validated scoring are trained on."""
    scoring = found.scoring
    return scoring.problem.n - sum(len(part) for part in scoring.parts or [])


def _history(found: Found, rows: int) -> list[dict[str, Any]]:
    """The best cell of every group, and on how many rows the tracks were tried."""
    return [
        dict(one.candidate.params)
        | {"alpha": one.alpha, "score": found.ledger.score(one.index, one.ridge), "rows": rows}
        for one in found.leaders
    ]


def _on_all_rows(candidate: Candidate, factor: float, run: Run, splits: Splits) -> Candidate:
    """The candidate of the whole table at its width times a factor.

    It is refitted without each fold where no closed form serves.
    """
    kernel = candidate.kernel.scaled(factor**candidate.kernel.exponent_order)
    names = candidate.params | {"gamma": factor * candidate.params["gamma"]}
    # The same cells on more rows, as when a search that was stopped goes on, give another metric.
    lineage = (candidate.run.problem.n, *candidate.lineage)
    found = Candidate(run.restarted(kernel), kernel, names, lineage)
    if run.approximation.selects:
        return found
    return replace(found, parts=splits.left_out, part_kernels=[kernel] * len(splits.left_out))


class _Proposals:
    """What the rounds and their repetition share: candidates of a round, in a cross of cells.

    `run` has the rows that the metrics are learned from. `whole` learns a metric of all of them too;
    otherwise that of the first part serves in its place.
    """

    def __init__(self, search: Search, stage: Stage, run: Run, *, whole: bool) -> None:
        self._search, self._stage, self._run, self._whole = search, stage, run, whole
        self._parts, self._seed = stage.scoring.held_out.left_out, search.setup.seed or 0
        self._alphas = stage.ledger.alphas

    def _learned(self, last: Round, cell: Cell) -> Round:
        """The round after `last`, from its models at a cell; a journal may know it."""
        mu = float(self._run.problem.ridge(self._alphas[cell[1]]))

        def learn() -> Round:
            return next_round(last, self._run, self._parts, cell[0], mu, self._seed, whole=self._whole)

        lineage = (*last.lineage, (cell[0], mu))
        return self._search.checkpoint.learned(self._stage.name, last.track, lineage, learn)

    def _cross(
        self, last: Round, cell: Cell, factors: Sequence[float]
    ) -> tuple[list[int], list[Proposal]]:
        """The width times each factor at the ridge, and itself at the neighbours in size too."""
        width, ridge = cell
        near, alone = next_ridges(self._alphas, ridge), np.array([ridge])
        numbers = self._add(last, [width * factor for factor in factors])
        middle = numbers[factors.index(1.0)] if len(numbers) > 1 else numbers[0]
        return numbers, [Proposal(n, near if n == middle else alone) for n in numbers]

    def _add(self, last: Round, widths: Sequence[float]) -> list[int]:
        """Candidates of a round, one for each width, and their numbers."""
        run, kernel, numbers = self._run, last.whole.kernel, []
        closed = last.parts is None and run.approximation.selects and self._whole
        for width in widths if kernel.has_width else [1.0]:
            names: dict[str, Any] = {"kernel": last.track.name, "metric": last.metric}
            names |= {"round": last.number, "gamma": float(width)}
            new = Candidate(run, last.whole.at(width), names)
            if not closed:
                new = replace(
                    new,
                    run=replace(run, shared=None),  # landmarks follow the metric
                    lineage=last.lineage,
                    parts=self._parts,
                    part_kernels=last.part_kernels(width, len(self._parts)),
                )
            numbers.append(self._stage.add(new))
        return numbers


@dataclass
class _Open:
    """A track under way: its last round, the numbers of its candidates, what it went through."""

    last: Round
    numbers: list[int]
    scores: list[float] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)

    def ends(self, max_rounds: int) -> bool:
        """Whether another round is not worth its time.

        Losses fall as scores rise: from 0 for errors, from 1 for shares such as accuracy and R². Errors
        are never above 0. An R² may begin there and end below 1: one top must serve all rounds.
        """
        if self.last.track.kind == "none" or self.last.number >= max_rounds:
            return True
        top = 1.0 if max(self.scores) > 0 else 0.0
        losses = [max(top - score, 0.0) for score in self.scores]
        return len(losses) > 1 and losses[-1] > (1 - _GAIN) * min(losses[:-1])


class _Rounds(_Proposals):
    """Rounds of every track, each from the best cell of the last."""

    def __init__(
        self, search: Search, stage: Stage, run: Run, strategy: MetricSearch, *, whole: bool
    ) -> None:
        super().__init__(search, stage, run, whole=whole)
        self._strategy = strategy
        self._all: list[_Open] = []
        self._going_on: list[_Open] | None = None

    def path(self, track: Track, leader: Leader) -> Path:
        """What a track went through up to the best cell of one of its rounds."""
        own, params = next(one for one in self._all if one.last.track == track), leader.candidate.params
        number, cell = int(params["round"]), (float(params["gamma"]), leader.ridge)
        before = own.rounds[number - 1] if number else None
        return Path(track, (*own.cells[:number], cell), before)

    def __call__(self, ledger: Ledger) -> list[Proposal]:
        if self._going_on is None:
            return self._first()
        going_on = []
        for track in self._going_on:
            scored = [number for number in track.numbers if ledger.scored(number)]
            if not scored:
                continue
            number, ridge = ledger.best(scored)
            track.scores.append(ledger.rank(number, ridge))
            track.cells.append((float(ledger.params[number]["gamma"]), ridge))
            track.rounds.append(track.last)
            if not track.ends(self._strategy.max_rounds):
                going_on.append(track)
        self._going_on = going_on
        learned = map_in_order(self._next, going_on, self._run.at_once)
        proposals: list[Proposal] = []
        for track, last in zip(going_on, list(learned)):
            track.last = last
            track.numbers, cross = self._cross(last, track.cells[-1], CROSS)
            proposals += cross
        return proposals

    def _next(self, track: _Open) -> Round:
        return self._learned(track.last, track.cells[-1])

    def _first(self) -> list[Proposal]:
        """Round 0; the tracks of one family share it."""
        proposals: list[Proposal] = []
        begun: dict[str, list[int]] = {}
        order = np.argsort(self._alphas, kind="stable")  # the user's may come in any
        ridges = np.sort(order[:: 1 if self._whole else 2])
        for track in self._strategy.tracks:
            first = first_round(track, self._run.problem, self._seed)
            if track.name not in begun:
                begun[track.name] = self._add(first, self._strategy.widths)
                proposals += [Proposal(number, ridges) for number in begun[track.name]]
            self._all.append(_Open(first, list(begun[track.name])))
        self._going_on = list(self._all)
        return proposals


class _Repeated(_Proposals):
    """Paths repeated on other rows: metrics are learned anew, the last round is tried in a cross.

    Where every part needs metrics of its own (`whole`), all rounds are repeated, and the families are
    tried as they are, too; a single chain of metrics goes on from the round before the last, which was
    learned from some of the same rows.
    """

    def __init__(
        self, search: Search, stage: Stage, run: Run, paths: Sequence[Path], *, whole: bool
    ) -> None:
        super().__init__(search, stage, run, whole=whole)
        self._paths = paths

    def __call__(self, ledger: Ledger) -> list[Proposal]:
        if self._stage.candidates:
            return []
        wanted = list(self._paths)
        if self._whole:
            wanted += [Path(path.track, path.cells[:1]) for path in self._paths]
        distinct = {(p.track.name, p.track.kind if len(p.cells) > 1 else "none"): p for p in wanted}
        last = list(map_in_order(self._repeat, distinct.values(), self._run.at_once))
        proposals: list[Proposal] = []
        for path, round_ in zip(distinct.values(), last):
            proposals += self._cross(round_, path.cells[-1], FINER)[1]
        return proposals

    def _repeat(self, path: Path) -> Round:
        last, steps = first_round(path.track, self._run.problem, self._seed), path.cells[:-1]
        if path.before is not None and not self._whole:
            last, steps = path.before, path.cells[-2:-1]
        for cell in steps:
            last = self._learned(last, cell)
        return last


@dataclass(frozen=True)
class Division:
    """The rows of a table, divided for a metric that is learned from some of them."""

    reserved: list[int]  # numbers of the splits whose held-out rows are in neither of the others
    training: Any  # rows that metrics are learned from,
    validation: Any  # and rows that choose among them


def divide(splits: Splits, task: Task, size: int, seed: int, *, reserve: bool) -> Division:
    """Reserve the last splits, if asked to; the last of the others divides what is left."""
    generator = np.random.default_rng([seed, 0])
    reserved = _last_splits(splits) if reserve else []
    free = np.ones(splits.n, dtype=bool)
    for number in reserved:
        free[splits.left_out[number]] = False
    for number in reversed(range(len(splits.left_out))):
        tests, left = splits.tests[number], splits.left_out[number]
        validation = np.unique(tests[free[tests]])
        pool = free.copy()
        pool[left] = False
        if number not in reserved and validation.size and pool.any():
            break
    else:  # no split but the reserved ones: any fifth of the other rows
        order = generator.permutation(np.flatnonzero(free))
        validation, pool = order[: max(1, order.size // 5)], free.copy()
        pool[validation] = False
    if not pool.any():
        raise ValueError(
            "the splits leave no rows to learn a metric from other than those it is validated on; use "
            "metric=None, or splits with larger training parts."
        )
    validation = drawn(validation, task, _VALIDATION, generator)
    return Division(reserved, drawn(np.flatnonzero(pool), task, size, generator), validation)


def _last_splits(splits: Splits) -> list[int]:
    """Numbers of the last splits, as few as leave out 500 rows, or half of the rows; one at least."""
    left = np.zeros(splits.n, dtype=bool)
    chosen: list[int] = []
    for number in reversed(range(len(splits.left_out))):
        left[splits.left_out[number]] = True
        if chosen and left.mean() > RESERVED_SHARE:
            break
        chosen.append(number)
        if left.sum() >= RESERVED_ROWS:
            break
    return sorted(chosen)


def drawn(rows: Any, task: Task, size: int, generator: np.random.Generator) -> Any:
    """Some of the rows, in order, drawn at random; every class keeps its share."""
    if rows.size <= size:
        return np.sort(rows)
    labels = np.zeros(rows.size) if task.classes is None else task.y[rows]
    picked = []
    for label in np.unique(labels):
        members = rows[labels == label]
        wanted = int(np.ceil(size * members.size / rows.size))
        picked.append(generator.choice(members, min(wanted, members.size), replace=False))
    return np.sort(np.concatenate(picked))


def validated(problem: Problem, task: Task, training: Any, validation: Any) -> Scoring:
    """Models of the training rows, scored by the squared error of the validation rows at the end."""
    order = np.concatenate([training, validation])
    part = np.arange(training.size, order.size)
    return SquaredError().start(
        problem.rows(order).alone(), task.rows(order), Splits(order.size, [part], [part])
    )


def exact_run(scoring: Scoring) -> Run:
    """The exact machine on the rows of a scoring, for cells that are refitted or in closed form."""
    parts: Sequence[Any] = scoring.parts if scoring.parts is not None else []
    return Exact().start(scoring.problem, [], Workload(1, 1, folds=len(parts), parts=parts))
