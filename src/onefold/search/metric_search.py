r"""The strategy of a learned metric: a few cells around the last choice, round after round.

Round 0 is every family without a metric. With more than a few hundred rows, the whole grid is first
tried on 500 of them, at every other ridge, and the search goes on from the best cell of each family, to
its neighbours in width and ridge, until that is a local optimum. Then, for every track, the best cell of
its last round gives the next metric (:mod:`onefold.search.learned_metric`), which is tried in a cross:
at half and twice the width, and at the neighbouring ridges. A track ends with the first round that gains
less than half a per cent. What it went through, a cell per round, is its *path*; a path that was found
on few rows can be repeated on many, at a fraction of the cost.

**What the scores may be counted on.** Rounds are first tried on 1000 rows. Then

*Up to 5000 rows.* The paths that were found are repeated on all rows, every fold with a metric of its
own, learned without it: literal cross-validation of the metric, k fits per cell. Where four fifths of
the rows are some more than 1000, paths are repeated there first, which chooses the last cell of each,
and those that a blend would give weight are alone repeated for all folds, at that cell; the metric of a
fold is learned from 1500 rows at most. With 1000 rows or fewer the rounds themselves are of this kind.

*More.* The last folds are reserved. The paths are repeated on a few thousand of the other rows; their
metrics have seen no target of the reserved folds. So on all rows one kernel matrix per metric serves
these folds in closed form again, and the score is theirs.

**What it will cost** before it runs, in multiply-adds, with k folds, f families, t tracks and r rounds:

    rounds on few rows    f × 9 cells around those of the first look, then r t rounds of 1 fit for the
                          metric and a cross of cells
    again, few rows       1 fit for the metric and a cross of each track
    again, all folds      r (k + 1) fits for metrics and k fits of the rows outside a fold for each path;
                          a cross of them where nothing was repeated before

How many rounds are worth while, and how many tracks a blend gives weight, is not known before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, ClassVar, NamedTuple

import numpy as np

from onefold.approximations import Exact, Workload, auto
from onefold.criteria import SquaredError, Task
from onefold.heldout import Splits, sample_rows
from onefold.machine.threads import map_in_order
from onefold.search.checkpoint import packed, unpacked
from onefold.search.choice import WORTH, choose, worth_fitting
from onefold.search.crossfit import CrossFit
from onefold.search.evaluation import Candidate
from onefold.search.learned_metric import GRADIENT_ROWS, Fitted, Round, Track, measured, next_round
from onefold.search.ledger import Ledger
from onefold.search.loop import Proposal, Search, SearchResult
from onefold.search.strategies import Setup, next_ridges
from onefold.smoothers.base import choose_route

LOOK_ROWS = 500  # of a first look at the whole grid,
_LOOK_SHARE = 0.65  # where they are no more than this share of the rows that rounds are tried on
TEACHERS = 1500  # rows that the metric of a fold is learned from, at most
AGAIN = 1.3  # times as many rows are worth repeating a path
ONE = (1.0,)
CROSS = (0.5, 1.0, 2.0)  # widths of a round, times the last one
FINER = (1.0, 1.5, 2.25)  # with more rows, narrower kernels are likelier to be best
RESERVED_ROWS = 500  # are reserved where there are as many,
RESERVED_SHARE = 0.5  # but no more than this share of all
_VALIDATION = 1000  # rows that rounds are compared on, at most
_CHEAP_ROWS = 4000  # up to which a cross of cells is tried on all rows, not the best cell alone
_WORTH_ONE = 0.01  # weight in a blend that is worth one fit on all rows
_HOPELESS = 1.5  # times the best loss: tracks that are not repeated
_GAIN = 0.005  # of the loss, that a round must make
_LOOK = "first look"
_ROUNDS = "learning the metric"
_REPEATED = "second pass on more rows"
_FOLDS = "all folds"
_ALL = "all rows"
_AROUND = 9  # cells around the best of a first look
_USUAL_ROUNDS = 4
_USUAL_MEMBERS = 3  # of a track, and of a blend
_SLOW_ROWS = 800  # of a fit are slow: kernel values, distances, copies, calls

Cell = tuple[float, int]
"""A relative width and the number of a ridge."""


@dataclass(frozen=True)
class MetricSearch:
    """Rounds of learned metrics, and a choice among them."""

    tracks: list[Track]  # families with the kind of metric each gets
    widths: list[float]  # of round 0, relative to the mean distance
    max_rounds: int
    rows: int  # from how many: all of them, each fold with a metric of its own, or fewer
    teachers: int  # rows that the metric of a fold is learned from at most
    blend: bool  # whether several tracks may be wanted in the end

    name: ClassVar[str] = "grid"

    def check(self, setup: Setup) -> None:
        """Do nothing: making the tracks has checked everything already."""

    def run(self, search: Search) -> SearchResult:
        """Learn the metrics, search and choose; if stopped, with the best that has been found."""
        setup = search.setup
        n = search.setup.problem.n
        splits = setup.scoring.held_out
        reserve = self.rows < n
        first = auto.first_rows(setup.problem)
        look = _LOOK_SHARE * min(n, first) >= LOOK_ROWS
        if not reserve and n <= first and not look:
            rounds = _Rounds(search, _ROUNDS, teachers=self.teachers)
            return rounds.found(rounds.learned(self, {}))
        division = divide(splits, setup.task, self.rows, setup.seed or 0, reserve=reserve)
        start = self._look(search, division) if look and search.goes_on() else {}
        if not reserve and n <= first:
            rounds = _Rounds(search, _ROUNDS, teachers=self.teachers)
            return rounds.found(rounds.learned(self, start))
        paths, learned = self._find_paths(search, division, start)
        history = learned.history
        groups = {path.group for path in paths}
        members = [one for one in learned.leaders if one.cell.candidate.group in groups]
        again = division.training.size > AGAIN * first
        if again and search.goes_on():
            members = worth_fitting(members, learned.ledger, learned.scoring, blend=self.blend)
            kept = {one.cell.candidate.group for one in members}
            paths = [path for path in paths if path.group in kept]
            rounds = _Rounds(search, _REPEATED, division.training, division.validation)
            most = 2 * self.max_rounds if reserve else 0
            learned = rounds.found(rounds.repeated(paths, FINER, most))
            members = learned.leaders
            history = history + learned.history
        if again or reserve:  # k fits on all rows for each, or one
            cheap = reserve and setup.problem.machine.gpu
            least = _WORTH_ONE if cheap else WORTH
            ledger = learned.ledger
            members = worth_fitting(members, ledger, learned.scoring, blend=self.blend, least=least)
        members = members if search.goes_on() else members[:1]
        if reserve:
            return self._on_all_rows(search, members, division, history)
        rounds = _Rounds(search, _FOLDS, teachers=self.teachers)
        if again:
            by_group = {path.group: path for path in paths}
            paths = [by_group[one.cell.candidate.group].up_to(one) for one in members]
        found = rounds.found(rounds.repeated(paths, ONE if again else FINER))
        return replace(found, history=history + found.history)

    def _look(self, search: Search, division: Division) -> dict[str, Cell]:
        """The best cell of each family, of the whole grid, on few rows."""
        setup = search.setup
        generator = np.random.default_rng([setup.seed or 0, 5])
        few = sample_rows(division.training, LOOK_ROWS, generator, setup.task.labels)
        look = _Rounds(search, _LOOK, few, division.validation)
        found = look.found(look.learned(replace(self, max_rounds=0), {}))
        params = ((one.cell.candidate.params, one.cell.ridge) for one in found.leaders)
        return {names["kernel"]: (_width(names), ridge) for names, ridge in params}

    def _on_all_rows(
        self, search: Search, members: list[CrossFit], division: Division, history: list[dict[str, Any]]
    ) -> SearchResult:
        """Metrics of some of the rows in a search on all rows, scored by the reserved folds."""
        setup = search.setup
        splits = search.setup.scoring.held_out
        problem = setup.problem
        task = setup.task
        tests, left = ([one[i] for i in division.reserved] for one in (splits.tests, splits.left_out))
        inside = Splits(splits.n, tests, left)
        reserved = np.unique(np.concatenate(inside.left_out))
        rest = np.setdiff1d(np.arange(splits.n), reserved)
        folds = max(2, len(splits))
        run, size = auto.choose_for_members(
            setup.run, members[0].cell.candidate.kernel, len(members), folds
        )
        if size is not None:
            generator = np.random.default_rng([setup.seed or 0, 6])
            count = max(int(size * reserved.size / problem.n), RESERVED_ROWS)
            reserved = sample_rows(reserved, count, generator, task.labels)
            rest = sample_rows(rest, size - reserved.size, generator, task.labels)
            words = f"exact on {rest.size + reserved.size} of {problem.n} rows; {run.reason}"
            run = replace(run, reason=words)
        if not run.approximation.streams:  # the exact method: rows held out cost least at the end
            order = np.concatenate([rest, reserved])
            problem = problem.rows(order)
            task = task.rows(order)
            inside = inside.within(order)
        outside = setup.scoring.criterion.start(problem, task, inside)
        closed = run.approximation.selects
        load = replace(run.load, parts=outside.parts if closed else None)
        run = replace(run, problem=problem, load=load)
        factors = FINER if problem.n <= _CHEAP_ROWS and search.goes_on() else (1.0,)
        # What runs may depend on the machine, and its records are of use to the same alone.
        name = f"{_ALL}, {problem.n} by {run.approximation.name}"
        stage = search.stage(name, scoring=outside, with_expansions=closed, shown_as=_ALL)
        proposals = list[Proposal]()
        pairs = [
            (one, factor)
            for one in members
            for factor in (factors if one.cell.candidate.kernel.has_width else (1.0,))
        ]
        for one, factor in pairs:
            last = one.cell.candidate
            kernel = last.kernel.scaled(factor**last.kernel.exponent_order)
            names = dict(last.params)
            if last.kernel.has_width:
                names["gamma"] = factor * last.params["gamma"]
            # The same cells on more rows, as when a stopped search goes on, give another metric.
            lineage = (last.run.problem.n, *last.learned_from)
            own = replace(run, shared=run.approximation.share(problem, [kernel]))  # landmarks follow it
            new = Candidate(own, kernel, names, lineage)
            if not closed:  # it is refitted without each fold
                parts = inside.left_out
                new = replace(new, parts=parts, part_kernels=[kernel] * len(parts))
            middle = factor == 1.0 < len(factors)
            ridges = next_ridges(setup.alphas, one.cell.ridge) if middle else [one.cell.ridge]
            proposals.append(Proposal(stage.add(new), ridges))
        return stage.run([proposals]).found(history=history)

    def _find_paths(
        self, search: Search, division: Division, start: Mapping[str, Cell]
    ) -> tuple[list[Path], SearchResult]:
        """Try the rounds on few of the rows; return the paths of all tracks worth repeating."""
        setup = search.setup
        generator = np.random.default_rng([setup.seed or 0, 1])
        few = sample_rows(
            division.training, auto.first_rows(setup.problem), generator, setup.task.labels
        )
        rounds = _Rounds(search, _ROUNDS, few, division.validation)
        found = rounds.found(rounds.learned(self, start))
        ranks = found.ledger.ranks
        best = dict[Any, tuple[Path, float]]()
        for path in rounds.paths:
            groups = (path.track.name, "none"), (path.track.name, path.track.kind)
            own = [one for one in found.leaders if one.cell.candidate.group[:2] in groups]
            if not own:
                continue
            # The best round of a track, or round 0 where that is as good within noise.
            index, _ = found.ledger.best([one.cell.index for one in own])
            rivals = [
                one for one in own if one.cell.index == index or not one.cell.candidate.params["round"]
            ]
            leader = choose(rivals, found.scoring, found.ledger)
            path = path.up_to(leader)
            best.setdefault(path.group, (path, float(ranks[leader.cell.index, leader.cell.ridge])))
        top = max((rank for _, rank in best.values()), default=0.0)
        least = _HOPELESS * top if search.goes_on() else top  # of negative losses
        paths = {group: path for group, (path, rank) in best.items() if rank >= least}
        # The best kernel without a metric stays a candidate to the end: no metric may do worse.
        plain = [one.cell.index for one in found.leaders if not one.cell.candidate.params["round"]]
        if plain and search.goes_on():
            index, _ = found.ledger.best(plain)
            leader = next(one for one in found.leaders if one.cell.index == index)
            name = leader.cell.candidate.params["kernel"]
            path = next(path for path in rounds.paths if path.track.name == name).up_to(leader)
            paths.setdefault(path.group, path)
        return list(paths.values()), found


@dataclass
class Path:
    """What a track has gone through: its rounds and the best cell of each, up to the round to use."""

    track: Track
    rounds: list[Round]  # as learned; all, or those before the one to use
    numbers: list[int]  # of the candidates of the last one
    ranks: list[float] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)

    @property
    def group(self) -> tuple[str, str, int]:
        """That of the candidates that it leads to."""
        last = len(self.cells) - 1
        return self.track.name, self.track.kind if last else "none", last

    def up_to(self, leader: CrossFit) -> Path:
        """The path that ends with the best cell of one of its rounds."""
        params = leader.cell.candidate.params
        number = int(params["round"])
        cell = (_width(params), leader.cell.ridge)
        return replace(self, rounds=self.rounds[:number], cells=[*self.cells[:number], cell])

    def goes_on(self, ledger: Ledger, max_rounds: int) -> bool:
        """Note the best cell of the last round, and say whether another is worth its time."""
        scored = [number for number in self.numbers if ledger.scored(number)]
        if not scored:
            return False
        number, ridge = ledger.best(scored)
        self.ranks.append(float(ledger.ranks[number, ridge]))
        self.cells.append((_width(ledger.params[number]), ridge))
        if self.track.kind == "none" or len(self.cells) > max_rounds:
            return False
        # Losses count from 0 for errors, from 1 for accuracy and R², of which any may be above 0.
        top = 1.0 if max(self.ranks) > 0 else 0.0
        *before, last = (max(top - rank, 0.0) for rank in self.ranks)
        return not before or last <= (1 - _GAIN) * min(before)


class _Rounds:
    """Rounds of every track, each from the best cell of the last, or paths repeated on other rows."""

    # Of all rows, each fold with metrics of its own, from as many `teachers` at most, by the search's
    # criterion; or one chain of metrics from the `training` rows, by the squared error of the
    # `validation` rows.

    def __init__(
        self,
        search: Search,
        name: str,
        training: Any = None,
        validation: Any = None,
        *,
        teachers: int = 0,
    ) -> None:
        setup = search.setup
        self._search = search
        self._seed = setup.seed or 0
        self._whole = training is None
        self._run = setup.run
        scoring = setup.scoring
        self._rows = setup.problem.n
        if training is not None:
            order = np.concatenate([training, validation])
            self._rows = training.size
            problem = setup.problem.rows(order).centred()
            part = np.arange(training.size, order.size)
            splits = Splits(order.size, [part], [part])
            # By the loss that models are trained with: were rare classes trained with large weights and
            # scored with small ones, the kernels that learn nothing of them would be the best.
            task = replace(setup.task.rows(order), sample_weight=problem.weight)
            scoring = SquaredError().start(problem, task, splits)
            load = Workload(1, 1, folds=1, parts=splits.left_out, rough=True)
            self._run = Exact().start(problem, [], load)
        named = f"{name}, {self._rows} rows"
        self._stage = search.stage(named, scoring=scoring, shown_as=name)
        self._parts = scoring.held_out.left_out
        n = self._run.problem.n
        generator = np.random.default_rng([self._seed, 4])
        self._teachers = [np.delete(np.arange(n), part) for part in self._parts]
        if training is None:
            labels = setup.task.labels
            self._teachers = [sample_rows(rest, teachers, generator, labels) for rest in self._teachers]
            self._teachers.append(
                sample_rows(np.arange(n), max(teachers, auto.METRIC_ROWS), generator, labels)
            )
        self._alphas = self._stage.ledger.alphas
        self.paths = list[Path]()

    def found(self, batches: Iterator[list[Proposal]]) -> SearchResult:
        """What rounds lead to, with the best cell of every group, and the rows it was trained on."""
        found = self._stage.run(batches).found()
        history = list[dict[str, Any]]()
        for one in found.leaders:
            score = float(found.ledger.means[one.cell.index, one.cell.ridge])
            cell = {"alpha": one.cell.alpha, "score": score, "rows": self._rows}
            history.append(
                {**one.cell.candidate.params, "gamma": one.cell.candidate.params.get("gamma"), **cell}
            )
        return replace(found, history=history)

    def learned(self, strategy: MetricSearch, start: Mapping[str, Cell]) -> Iterator[list[Proposal]]:
        """Round 0, which the tracks of one family share, then a cross of cells for each metric."""
        first = dict[str, Round]()
        for track in strategy.tracks:
            first.setdefault(track.name, self._first(track))
            self.paths.append(Path(track, [replace(first[track.name], track=track)], []))
        grids = {name: dict[int, int]() for name in first}
        yield from self._round_zero(first, grids, sorted(strategy.widths), start)
        for path in self.paths:
            path.numbers = list(grids[path.track.name].values())
        yield from self._further_rounds(self.paths, strategy.max_rounds)

    def _further_rounds(self, going_on: list[Path], most: int) -> Iterator[list[Proposal]]:
        """A cross of cells for the next metric of every path, while the last one has gained."""
        ledger = self._stage.ledger
        while going_on := [one for one in going_on if one.goes_on(ledger, most)]:
            proposals = list[Proposal]()
            steps = [(one.rounds[-1], one.cells[-1]) for one in going_on]
            metrics = list(map_in_order(self._next, steps, self._at_once(going_on)))
            for path, last in zip(going_on, metrics):
                path.rounds.append(last)
                cross = self._cross(last, path.cells[-1], CROSS)
                path.numbers = [number for number, _ in cross]
                proposals += cross
            yield proposals

    def _round_zero(
        self,
        first: Mapping[str, Round],
        grids: Mapping[str, dict[int, int]],  # of each family, the candidates by place of their width
        widths: Sequence[float],
        start: Mapping[str, Cell],
    ) -> Iterator[list[Proposal]]:
        """Every family: its whole grid, or from a cell on until the best one is a local optimum."""
        ledger = self._stage.ledger
        order = np.argsort(self._alphas, kind="stable")
        half = np.sort(order[:: 1 if self._whole else 2])

        def cells(name: str, width: float | None = None, ridge: int = 0) -> list[Proposal]:
            """Those not yet tried among the neighbours of a cell, or of the whole grid."""
            own = widths if first[name].whole.kernel.has_width else [1.0]
            found = list[Proposal]()
            middle = None if width is None else int(np.argmin(np.abs(np.log(own) - np.log(width))))
            for place in range(len(own)):
                if middle is not None and abs(place - middle) > 1:
                    continue
                if place not in grids[name]:
                    (grids[name][place],) = self._add(first[name], [own[place]])
                near = half if middle is None else next_ridges(self._alphas, ridge)
                missing = np.intersect1d(ledger.untried(grids[name][place]), near)
                found += [Proposal(grids[name][place], missing)] if missing.size else []
            return found

        proposals = [one for name in first for one in cells(name, *start.get(name, ()))]
        while proposals:
            yield proposals
            proposals = []
            for name, grid in grids.items() if start else ():
                scored = [number for number in grid.values() if ledger.scored(number)]
                if scored:
                    number, ridge = ledger.best(scored)
                    proposals += cells(name, _width(ledger.params[number]), ridge)

    def repeated(
        self, paths: Sequence[Path], factors: Sequence[float], most: int = 0
    ) -> Iterator[list[Proposal]]:
        """Paths on other rows: metrics are learned anew, the last round is tried in a cross.

        Those with a metric go on with further rounds while these gain, up to `most` in all.
        """
        # Where every part needs metrics of its own, all rounds are repeated, and with a cross families
        # are tried as they are, too; a single chain goes on from the round before the last, of some of
        # these rows.

        def last_round(path: Path) -> Round:
            last = self._first(path.track)
            steps = path.cells[:-1]
            if path.rounds and not self._whole:
                last = path.rounds[-1]
                steps = path.cells[-2:-1]
            for cell in steps:
                last = self._next((last, cell))
            return last

        several = self._whole and len(factors) > 1
        plain = [replace(path, cells=path.cells[:1]) for path in paths] if several else []
        distinct = {path.group: path for path in [*paths, *plain]}.values()
        rounds = list(map_in_order(last_round, distinct, self._at_once(distinct)))
        crosses = [self._cross(one, path.cells[-1], factors) for path, one in zip(distinct, rounds)]
        yield [proposal for cross in crosses for proposal in cross]
        self.paths = [
            replace(
                path,
                rounds=[last],
                numbers=[number for number, _ in cross],
                cells=path.cells[:-1],
                ranks=[],
            )
            for path, last, cross in zip(distinct, rounds, crosses)
            if last.lineage and most
        ]
        yield from self._further_rounds(self.paths, most)

    def _at_once(self, paths: Iterable[Path]) -> int:
        """How many paths may go on side by side: one if a kernel must not be shared by threads."""
        safe = all(path.track.kernel.thread_safe for path in paths)
        return self._run.max_parallel_models if safe else 1

    def _first(self, track: Track) -> Round:
        """Round 0: the family as it is."""
        return Round(track, measured(track.kernel, self._run.problem, self._seed))

    def _next(self, step: tuple[Round, Cell]) -> Round:
        """The round after another, from its models at a cell; a journal may know it."""
        last, (width, ridge) = step
        track = last.track
        cell = (width, float(self._run.problem.ridge(self._alphas[ridge])))
        lineage = (*last.lineage, cell)
        journal = self._search.checkpoint
        names = {"kernel": track.name, "metric": track.kind}
        key = [f"metric of {self._stage.name}", names, lineage]

        def read(record: dict[str, Any]) -> Round:
            kernels = [track.kernel.with_metric(unpacked(one["values"])) for one in record["metrics"]]
            means = [float(one["mean_exponent"]) for one in record["metrics"]]
            whole, *parts = map(Fitted, kernels, means)
            return Round(track, whole, parts, lineage)

        known = next(journal.find(key, read), None)
        if known is not None:
            return known
        found = next_round(last, self._run, self._teachers, cell, self._seed, whole=self._whole)
        if journal:
            every: list[Any] = [found.whole, *(found.parts or [])]
            values = [(packed(one.kernel.metric.values), one.mean_exponent) for one in every]
            journal.append(key, metrics=[{"values": v, "mean_exponent": mean} for v, mean in values])
        return found

    def _cross(self, last: Round, cell: Cell, factors: Sequence[float]) -> list[Proposal]:
        """The width times each factor at the ridge; of several, itself at the neighbours in size too."""
        width, ridge = cell
        near = next_ridges(self._alphas, ridge)
        alone = np.array([ridge])
        numbers = self._add(last, [width * factor for factor in factors])
        middle = numbers[factors.index(1.0)] if len(numbers) > 1 else numbers[0]
        return [Proposal(n, near if n == middle and len(factors) > 1 else alone) for n in numbers]

    def _add(self, last: Round, widths: Sequence[float]) -> list[int]:
        """Candidates of a round, one for each width, and their numbers."""
        closed = last.parts is None and self._run.approximation.selects and self._whole
        run = self._run if closed else replace(self._run, shared=None)  # landmarks follow the metric
        numbers = list[int]()
        parts = self._parts
        for width in widths if last.whole.kernel.has_width else [1.0]:
            names: dict[str, Any] = {"kernel": last.track.name, "metric": last.metric}
            names["round"] = len(last.lineage)
            if last.whole.kernel.has_width:
                names["gamma"] = float(width)
            new = Candidate(run, last.whole.at(width), names)
            if not closed:
                kernels = last.part_kernels(width, len(parts))
                new = replace(new, learned_from=last.lineage, parts=parts, part_kernels=kernels)
            numbers.append(self._stage.add(new))
        return numbers


def _width(params: Mapping[str, Any]) -> float:
    """The relative width of a candidate; 1 where the kernel has none."""
    return float(params.get("gamma", 1.0))


class Division(NamedTuple):
    """The rows of a table, divided for a metric that is learned from some of them."""

    reserved: list[int]  # numbers of the splits whose held-out rows are in neither of the others
    training: Any  # rows that metrics are learned from,
    validation: Any  # and rows that choose among them


def divide(splits: Splits, task: Task, size: int, seed: int, *, reserve: bool) -> Division:
    """Reserve the last splits, if asked to; the last of the others divides what is left."""
    generator = np.random.default_rng([seed, 0])
    reserved = list[int]()
    free = np.ones(splits.n, dtype=bool)
    numbers = range(len(splits.left_out))
    for number in reversed(numbers) if reserve else ():
        left = free.copy()
        left[splits.left_out[number]] = False
        enough = reserved and splits.n - np.count_nonzero(free) >= RESERVED_ROWS
        if enough or (reserved and left.mean() < 1 - RESERVED_SHARE):
            break
        reserved = [number, *reserved]
        free = left
    for number in reversed(numbers):
        tests = splits.tests[number]
        left = splits.left_out[number]
        validation = np.unique(tests[free[tests]])
        pool = free.copy()
        pool[left] = False
        if number not in reserved and validation.size and pool.any():
            break
    else:  # no split but the reserved ones: any fifth of the other rows
        order = generator.permutation(np.flatnonzero(free))
        validation = order[: max(1, order.size // 5)]
        pool = free.copy()
        pool[validation] = False
    if not pool.any():
        raise ValueError(
            "the splits leave no rows to learn a metric from, apart from those that validate it; use "
            "metric=None, or splits with larger training sets."
        )
    validation = sample_rows(validation, _VALIDATION, generator, task.labels)
    return Division(
        reserved, sample_rows(np.flatnonzero(pool), size, generator, task.labels), validation
    )


def fit_cost(
    rows: float, d: int, alphas: int = 1, *, heldout: bool = False, slow: int = _SLOW_ROWS
) -> float:
    """Multiply-adds of a model; of few rows, the matrix takes as long as its factorisation."""
    route = choose_route(int(rows), alphas, "heldout" if heldout else "coefficients")
    return (route.cost * rows**3 + rows**2 * d / 2) * (1 + slow / max(rows, 1))


def learned_load(load: Workload, learning: MetricSearch, shape: tuple[int, int, int]) -> Workload:
    """What is asked of the run on all rows, as so many kernels of one ridge and all folds."""
    n, d, targets = shape
    folds = max(2, load.folds)
    rounds = min(learning.max_rounds, _USUAL_ROUNDS)
    tracks = len(learning.tracks)
    families = len({track.name for track in learning.tracks})
    few = learning.rows < n
    cross = len(CROSS) + 2
    finer = len(FINER) + 2  # widths, two more ridges
    members = min(tracks, _USUAL_MEMBERS if learning.blend else 2)

    def learn(rows: float) -> float:
        """A model of so many rows and its gradients."""
        return fit_cost(rows, d) + min(rows, GRADIENT_ROWS) * rows * (d + 1) * (targets + 1)

    def outside(wanted: int) -> int:
        """Rows outside the fold that scores rounds, and outside one that no metric sees."""
        return max(1, min(wanted, int(max(1 - (1 + few) / folds, 0.4) * n)))

    before = 0.0
    rows = outside(auto.FIRST_ROWS) if n > auto.FIRST_ROWS else n
    looks = _LOOK_SHARE * min(n, auto.FIRST_ROWS) >= LOOK_ROWS
    if looks:
        widths = families * len(learning.widths)
        before += widths * fit_cost(LOOK_ROWS, d, ceil(load.alphas / 2))
    if n > auto.FIRST_ROWS:
        cells = families * (_AROUND if looks else len(learning.widths) * ceil(load.alphas / 2))
        before += cells * fit_cost(rows, d) + rounds * tracks * (cross * fit_cost(rows, d) + learn(rows))
    rows = outside(learning.rows)
    again = n > auto.FIRST_ROWS and rows > AGAIN * auto.FIRST_ROWS
    if again:
        before += tracks * (learn(rows) + finer * fit_cost(rows, d))
    if few:
        return replace(load, kernels=members, alphas=1, preliminary_operations=before)
    training = n * (1 - 1 / folds)
    teaching = rounds * (
        folds * learn(min(training, learning.teachers)) + learn(min(n, auto.METRIC_ROWS))
    )
    if again:
        total = members * (teaching + folds * fit_cost(training, d))
    elif n > auto.FIRST_ROWS:
        closed = families * finer * fit_cost(n, d, heldout=True)
        total = closed + tracks * (finer * folds * fit_cost(training, d) + teaching)
    else:
        closed = families * (_AROUND if looks else len(learning.widths) * load.alphas)
        total = closed * fit_cost(n, d, heldout=True)
        total += tracks * (rounds * cross * folds * fit_cost(training, d) + teaching)
    total += (_USUAL_MEMBERS if learning.blend else 1) * fit_cost(n, d)
    kernels = max(1, ceil(total / fit_cost(n, d, heldout=True, slow=0)))
    return replace(load, kernels=kernels, alphas=1, preliminary_operations=before)
