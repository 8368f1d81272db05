r"""The strategy of a learned metric: a list of stages, each of which leads from paths to paths.

Round 0 is every family without a metric. Then, for every track, the best cell of its last round gives
the next metric (:mod:`onefold.search.learned_metric`), which is tried in a cross: at half and twice the
width, and at the neighbouring ridges. A track ends with the first round that gains less than half a per
cent. What it went through, a cell per round, is its *path* (:mod:`onefold.search.paths`); a path that
was found on few rows can be repeated on many, at a fraction of the cost.

`MetricSearch.stages` picks the list by the numbers of rows, `MetricSearch.run` goes through it, and
`learned_load` adds up what its stages cost:

    `FirstLook`          the grid on 500 rows: the cell of each family from which round 0 begins
    `RoundsOnFewRows`    rounds on 1000 rows: the path of every track to its best round
    `KeepWorthFitting`   the paths that are worth further fits
    `Repeat`             paths on more rows, whose last round is tried anew
    `RoundsOnAllFolds`   rounds on all rows, every fold with metrics of its own
    `CrossOnAllFolds`    paths on all rows, every fold with metrics of its own; the last round in a cross
    `CellOnAllFolds`     the same, the last round at its cell only
    `ReservedFolds`      the last cells of paths on all rows, by folds that no metric has seen

**What the scores may be counted on.** A fold is never scored in a metric that saw it. Either every fold
has metrics of its own, learned without it: literal cross-validation of the metric, k fits per cell. Or
the last folds are reserved before anything is learned; then one kernel matrix per metric serves these
folds in closed form again, and the score is theirs.

**Rows that repeat** are sampled set by set (:mod:`onefold.search.repeats`); numbers of rows are then
numbers of sets.

**What it costs**, in multiply-adds, is known before it runs: each stage says. The numbers of rounds, of
tracks that are worth repeating and of members of a blend are not known before. What runs is decided by
numbers that are seldom exceeded; the time that is announced is the share of them that searches of some
twenty tables took (`MetricStage.usual_share`; ``python -m benchmarks.announced``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, ClassVar, NamedTuple

import numpy as np

from onefold.approximations import Run, Workload, auto
from onefold.approximations.problem import NOMINAL
from onefold.heldout import Splits, sample_rows
from onefold.linalg import Index
from onefold.search.choice import WORTH, choose, comparison, worth_fitting
from onefold.search.crossfit import CrossFit
from onefold.search.evaluation import Candidate
from onefold.search.learned_metric import GRADIENT_ROWS, Track
from onefold.search.loop import Proposal, Search, SearchResult
from onefold.search.paths import (
    CROSS,
    Division,
    Path,
    Rounds,
    divide,
    on_all_folds,
    on_validation_rows,
    reserved_numbers,
    undivided,
)
from onefold.search.strategies import Setup, costs_with_final, next_ridges, nominal_seconds
from onefold.smoothers.base import choose_route

# Rows of a first look at the whole grid; chosen, not measured.
LOOK_ROWS = 500
# Share of the rows that rounds are tried on that a first look may have at most; chosen, not measured.
_LOOK_SHARE = 0.65
# Rows that the metric of a fold is learned from, at most; chosen, not measured.
FOLD_LEARNING_ROWS = 1500
# How many times as many rows are worth repeating a path; chosen, not measured.
_REPEAT_RATIO = 1.3
# Widths of a path's last round on other rows, times the last one: with more rows, narrower kernels are
# likelier to be best; chosen, not measured.
FINER = (1.0, 1.5, 2.25)
# The last width only.
SAME = (1.0,)
# Rows up to which a cross of cells is tried on all rows, and not the best cell only; chosen, not
# measured.
_CROSS_ROWS = 4000
# Weight in a blend that is worth one fit on all rows; chosen, not measured. `WORTH` is that of k fits.
_WORTH_ONE_FIT = 0.01
# Paths whose loss is more than so many times the best one are not repeated; chosen, not measured.
_LARGEST_LOSS_RATIO = 1.5

# What stages are called in progress and in the journal.
_LOOK = "first look"
_ROUNDS = "learning the metric"
_REPEATED = "second pass on more rows"
_FOLDS = "all folds"
_ALL = "all rows"

# Cells of a family in round 0 after a first look: the best one of that and its neighbours.
_CELLS_AFTER_LOOK = 9
# Rounds of a track that costs are counted with, at most; chosen, not measured.
_USUAL_ROUNDS = 4
# Members of a blend that costs are counted with, at most; chosen, not measured.
_USUAL_MEMBERS = 3
# Models that are fitted for the choice of one: the best, and the best without a metric.
_MEMBERS_OF_CHOICE = 2
# Rows that a model costs as much as, beyond its multiply-adds: kernel values, distances, copies, calls;
# chosen, not measured.
_OVERHEAD_ROWS = 800
# Minimum share of the rows that is outside the reserved and the validating folds; chosen, not measured.
_SMALLEST_LEARNING_SHARE = 0.4


# -- what leads from stage to stage -------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """Paths, and the result of the stage that found them."""

    paths: tuple[Path, ...]  # every one leads to a leader of the result, where there is one
    result: SearchResult | None = None  # of the last stage, with the history of all
    history: list[dict[str, Any]] = field(default_factory=list)  # the best cells of all stages so far

    @property
    def last_result(self) -> SearchResult:
        """The result of the last stage; raise where there was none."""
        if self.result is None:
            raise RuntimeError("this stage needs the result of another one before it")
        return self.result

    @property
    def leaders(self) -> list[CrossFit]:
        """The best cells that its paths lead to, in the order of the result."""
        groups = {path.group for path in self.paths}
        return [leader for leader in self.last_result.leaders if leader.cell.candidate.group in groups]

    def leader(self, path: Path) -> CrossFit:
        """The best cell that a path leads to."""
        leaders = self.last_result.leaders
        return next(leader for leader in leaders if leader.cell.candidate.group == path.group)

    @property
    def best_first(self) -> tuple[Path, ...]:
        """Its paths in the order of their ranks: a search that stops has begun with the best."""
        ranks = self.last_result.ledger.ranks
        leaders = sorted(self.leaders, key=lambda leader: -ranks[leader.cell.index, leader.cell.ridge])
        paths = {path.group: path for path in self.paths}
        return tuple(paths[leader.cell.candidate.group] for leader in leaders)

    def after(self, paths: tuple[Path, ...], result: SearchResult) -> State:
        """The paths that rounds on some rows have led to, and their result."""
        return State(paths, result, self.history + result.history)


class Cost(NamedTuple):
    """What a stage costs."""

    preliminary: float = 0.0  # multiply-adds on a few rows, by the exact method
    operations: float = 0.0  # multiply-adds on all rows, by the run's approximation
    kernels: int = 0  # of one ridge, on all rows with all folds


@dataclass(frozen=True)
class Sizes:
    """What the cost of stages depends on."""

    rows: int
    features: int
    targets: int
    alphas: int
    folds: int
    families: int
    tracks: int
    rounds: int  # of a track
    members: int  # of the choice, or of a blend, that are worth fitting
    finals: int  # models of all rows that are fitted in the end
    first: int  # rows that rounds are first tried on
    training: int  # rows that metrics are learned from when paths are repeated
    looked: bool  # whether a first look has found where round 0 begins
    training_share: float  # of the rows, outside a fold
    block_cost: float  # of folds that overlap, in n³ at one ridge

    @property
    def outside(self) -> float:
        """Rows outside a fold."""
        return self.rows * self.training_share

    def fit(self, rows: float) -> float:
        """Multiply-adds of a model of so many rows at one ridge."""
        return fit_cost(rows, self.features)

    def metric(self, rows: float) -> float:
        """Multiply-adds of a model of so many rows and its gradients."""
        gradients = min(rows, GRADIENT_ROWS) * rows * (self.features + 1) * (self.targets + 1)
        return self.fit(rows) + gradients

    def metrics_of_folds(self, learning_rows: int) -> float:
        """Multiply-adds of all rounds' metrics of every fold, and of the final fit, of one path."""
        of_folds = self.folds * self.metric(min(self.outside, learning_rows))
        return self.rounds * (of_folds + self.metric(min(self.rows, auto.METRIC_ROWS)))

    @property
    def final_fits(self) -> float:
        """Multiply-adds of the models that are fitted in the end."""
        return self.finals * self.fit(self.rows)

    @property
    def closed_form(self) -> float:
        """Multiply-adds of a kernel with all folds, on all rows."""
        fit = fit_cost(self.rows, self.features, heldout=True)
        return fit + self.block_cost * float(self.rows) ** 3


# -- the stages ---------------------------------------------------------------------------------------


class MetricStage(ABC):
    """A stage: from paths to paths. Subclasses are frozen dataclasses of plain settings."""

    optional: ClassVar[bool] = False  # whether it is left out where a search has been stopped before
    part: ClassVar[str] = ""  # what it is called in progress; "" if it evaluates nothing

    @abstractmethod
    def run(self, search: Search, division: Division, state: State) -> State:
        """Evaluate what is needed on some rows of the division; the paths that follow."""

    @abstractmethod
    def cost(self, sizes: Sizes) -> Cost:
        """What it costs."""

    @property
    def usual_share(self) -> float:
        """The share of its cost that searches take as a rule: rounds end early, tracks are dropped.

        Those of stages are averages of the tables of benchmarks/announced.py.
        """
        return 1.0


@dataclass(frozen=True)
class FirstLook(MetricStage):
    """The whole grid, at every other ridge, on 500 rows: where round 0 of each family begins."""

    widths: Sequence[float]
    optional: ClassVar[bool] = True
    part: ClassVar[str] = _LOOK

    def run(self, search: Search, division: Division, state: State) -> State:
        """The paths of the tracks, with the best cell of their family as their first step."""
        training, validation = _sampled(search.setup, division, LOOK_ROWS, 5)
        compared = on_validation_rows(search.setup, training, validation)
        rounds = Rounds(search, _LOOK, compared)
        looked = rounds.from_the_start(state.paths, self.widths, 0)
        starts = {path.track.name: path.before(1).steps for path in looked}
        paths = (replace(path, steps=starts.get(path.track.name, ())) for path in state.paths)
        return replace(state, paths=tuple(paths))

    def cost(self, sizes: Sizes) -> Cost:
        """Every other ridge of the grid."""
        widths = sizes.families * len(self.widths)
        ridges = ceil(sizes.alphas / 2)
        return Cost(preliminary=widths * fit_cost(LOOK_ROWS, sizes.features, ridges))

    @property
    def usual_share(self) -> float:
        return 0.8


@dataclass(frozen=True)
class RoundsOnFewRows(MetricStage):
    """Rounds of all tracks, compared on validation rows: the path of each to its best round."""

    rows: int
    widths: Sequence[float]
    max_rounds: int
    part: ClassVar[str] = _ROUNDS

    def run(self, search: Search, division: Division, state: State) -> State:
        """The paths that are worth repeating, and the best one without a metric."""
        training, validation = _sampled(search.setup, division, self.rows, 1)
        compared = on_validation_rows(search.setup, training, validation)
        rounds = Rounds(search, _ROUNDS, compared)
        paths = rounds.from_the_start(state.paths, self.widths, self.max_rounds)
        tracks = [path.track for path in state.paths]
        state = state.after(paths, rounds.result())
        return _promising(state, tracks, going_on=search.goes_on())

    def cost(self, sizes: Sizes) -> Cost:
        """The cells of round 0, then for each round and track a metric and a cross."""
        fit = sizes.fit(sizes.first)
        cross = len(CROSS) + 2  # two more ridges
        of_round = cross * fit + sizes.metric(sizes.first)
        cells = _CELLS_AFTER_LOOK if sizes.looked else len(self.widths) * ceil(sizes.alphas / 2)
        round_zero = sizes.families * cells * fit
        return Cost(preliminary=round_zero + sizes.rounds * sizes.tracks * of_round)

    @property
    def usual_share(self) -> float:
        return 0.38


@dataclass(frozen=True)
class KeepWorthFitting(MetricStage):
    """The paths that are worth fitting on more rows; the best one if a search has stopped."""

    blend: bool
    min_weight: float = WORTH  # in a blend

    def run(self, search: Search, division: Division, state: State) -> State:
        """Some of the paths, in their order."""
        result = state.last_result
        kept = worth_fitting(
            state.leaders, result.ledger, result.scoring, blend=self.blend, min_weight=self.min_weight
        )
        kept = kept if search.goes_on() else kept[:1]
        groups = {leader.cell.candidate.group for leader in kept}
        return replace(state, paths=tuple(path for path in state.paths if path.group in groups))

    def cost(self, sizes: Sizes) -> Cost:
        """Nothing that counts."""
        return Cost()


@dataclass(frozen=True)
class Repeat(MetricStage):
    """Paths on more rows, compared on validation rows; rounds go on while they gain, up to a number."""

    max_rounds: int = 0  # none beyond those of the paths
    optional: ClassVar[bool] = True
    part: ClassVar[str] = _REPEATED

    def run(self, search: Search, division: Division, state: State) -> State:
        """The paths with their last cells on these rows, and those to every further round."""
        compared = on_validation_rows(search.setup, division.training, division.validation)
        rounds = Rounds(search, _REPEATED, compared)
        paths = rounds.again(state.paths, FINER, self.max_rounds)
        return state.after(paths, rounds.result())

    def cost(self, sizes: Sizes) -> Cost:
        """A metric and a cross for each track."""
        cross = len(FINER) + 2  # two more ridges
        of_track = sizes.metric(sizes.training) + cross * sizes.fit(sizes.training)
        return Cost(preliminary=sizes.tracks * of_track)

    @property
    def usual_share(self) -> float:
        return 0.35 if self.max_rounds else 0.17


@dataclass(frozen=True)
class RoundsOnAllFolds(MetricStage):
    """Rounds of all tracks on all rows, every fold with metrics of its own."""

    widths: Sequence[float]
    max_rounds: int
    learning_rows: int
    part: ClassVar[str] = _ROUNDS

    def run(self, search: Search, division: Division, state: State) -> State:
        """The paths to all rounds."""
        rounds = Rounds(search, _ROUNDS, on_all_folds(search.setup, self.learning_rows))
        paths = rounds.from_the_start(state.paths, self.widths, self.max_rounds)
        return state.after(paths, rounds.result())

    def cost(self, sizes: Sizes) -> Cost:
        """The cells of round 0 in closed form, then for each round and track k fits per cell."""
        cells = _CELLS_AFTER_LOOK if sizes.looked else len(self.widths) * sizes.alphas
        cross = len(CROSS) + 2  # two more ridges
        fits = sizes.rounds * cross * sizes.folds * sizes.fit(sizes.outside)
        operations = sizes.families * cells * sizes.closed_form
        operations += sizes.tracks * (fits + sizes.metrics_of_folds(self.learning_rows))
        return Cost(operations=operations + sizes.final_fits)

    @property
    def usual_share(self) -> float:
        return 0.34


@dataclass(frozen=True)
class CrossOnAllFolds(MetricStage):
    """Paths on all rows, every fold with metrics of its own; the last round is tried in a cross."""

    learning_rows: int
    part: ClassVar[str] = _FOLDS

    def run(self, search: Search, division: Division, state: State) -> State:
        """The paths with their last cells on all rows, and the families as they are."""
        rounds = Rounds(search, _FOLDS, on_all_folds(search.setup, self.learning_rows))
        paths = rounds.again(state.paths, FINER)
        return state.after(paths, rounds.result())

    def cost(self, sizes: Sizes) -> Cost:
        """A cross of each family in closed form, and of each track by k fits per cell."""
        cross = len(FINER) + 2  # two more ridges
        closed = sizes.families * cross * sizes.closed_form
        fits = cross * sizes.folds * sizes.fit(sizes.outside)
        operations = closed + sizes.tracks * (fits + sizes.metrics_of_folds(self.learning_rows))
        return Cost(operations=operations + sizes.final_fits)

    @property
    def usual_share(self) -> float:
        return 0.13


@dataclass(frozen=True)
class CellOnAllFolds(MetricStage):
    """Paths on all rows, every fold with metrics of its own, at their last cells only."""

    learning_rows: int
    part: ClassVar[str] = _FOLDS

    def run(self, search: Search, division: Division, state: State) -> State:
        """The same paths, the best first."""
        rounds = Rounds(search, _FOLDS, on_all_folds(search.setup, self.learning_rows))
        paths = rounds.again(state.best_first, SAME)
        return state.after(paths, rounds.result())

    def cost(self, sizes: Sizes) -> Cost:
        """The metrics of each member, and k fits."""
        fits = sizes.folds * sizes.fit(sizes.outside)
        operations = sizes.members * (sizes.metrics_of_folds(self.learning_rows) + fits)
        return Cost(operations=operations + sizes.final_fits)

    @property
    def usual_share(self) -> float:
        return 0.2


@dataclass(frozen=True)
class ReservedFolds(MetricStage):
    """The last cells of paths on all rows, in metrics of some, scored by the reserved folds."""

    part: ClassVar[str] = _ALL

    def run(self, search: Search, division: Division, state: State) -> State:
        """The same paths, the best first; their models are fitted on all rows."""
        setup = search.setup
        task = setup.task
        splits = setup.scoring.held_out
        tests = [splits.tests[number] for number in division.reserved]
        left_out = [splits.left_out[number] for number in division.reserved]
        reserved_splits = Splits(splits.n, tests, left_out)
        second = setup.second
        if second is not None:  # as few of its splits: some methods fit each of them anew
            second = second.only(reserved_numbers(second))
        paths = state.best_first
        kernel = state.leader(paths[0]).cell.candidate.kernel
        run, count = auto.choose_for_members(
            setup.run, kernel, len(paths), len(left_out), search.seconds_left
        )
        paths = paths[:count]
        members = [state.leader(path).cell for path in paths]
        problem = setup.problem
        if not run.approximation.streams:  # the exact method: rows held out cost least at the end
            reserved = np.unique(
                np.concatenate([*left_out, *([] if second is None else second.left_out)])
            )
            order = np.concatenate([np.setdiff1d(np.arange(reserved_splits.n), reserved), reserved])
            problem = problem.rows(order)
            task = task.rows(order)
            reserved_splits = reserved_splits.within(order)
            second = None if second is None else second.within(order)
        scoring = setup.scoring.criterion.start(problem, task, reserved_splits)
        closed = run.approximation.selects
        parts = scoring.parts
        if second is not None:  # together with the others
            parts = [*reserved_splits.left_out, *second.left_out]
        load = replace(run.load, parts=parts if closed else None)
        run = replace(run, problem=problem, load=load)
        factors = FINER if problem.n <= _CROSS_ROWS and search.goes_on() else SAME
        # What runs may depend on the machine, and its records are of use to the same machine only.
        name = f"{_ALL}, {problem.n} by {run.approximation.name}"
        stage = search.stage(name, scoring=scoring, with_expansions=closed, second=second, shown_as=_ALL)
        proposals = list[Proposal]()
        for member in members:
            has_width = member.candidate.kernel.has_width
            for factor in factors if has_width else SAME:
                candidate = _on_all_rows(member.candidate, run, factor)
                if not closed:  # it is refitted without each fold
                    kernels = [candidate.kernel] * len(reserved_splits.left_out)
                    candidate = replace(candidate, parts=reserved_splits.left_out, part_kernels=kernels)
                ridges = [member.ridge]
                if factor == 1.0 < len(factors):
                    ridges = next_ridges(setup.alphas, member.ridge)
                proposals.append(Proposal(stage.add(candidate), ridges))
        result = stage.run([proposals]).found(second=second)
        return replace(state, paths=paths, result=result)

    def cost(self, sizes: Sizes) -> Cost:
        """A kernel with all folds for each member."""
        return Cost(kernels=sizes.members)

    @property
    def usual_share(self) -> float:
        return 0.35


def _sampled(setup: Setup, division: Division, size: int, stream: int) -> tuple[Index, Index]:
    """A sample of the training rows, or of sets of equal rows, and the rows that validate it.

    It is drawn with the search's seed and a number that no other draw has.
    """
    generator = np.random.default_rng([setup.seed or 0, stream])
    _, training, validation = division
    labels = setup.task.labels
    if setup.repeats is not None:
        return setup.repeats.sampled(training, validation, size, generator, labels)
    return sample_rows(training, size, generator, labels), validation


def _promising(state: State, tracks: Sequence[Track], *, going_on: bool) -> State:
    """The path of every track to its best round, or to round 0 where that is as good within noise.

    Those whose loss is much above the best one are left out, or all but the best ones if the search has
    stopped. The best kernel without a metric stays a candidate to the end: no metric may do worse.
    """
    result = state.last_result
    ledger = result.ledger
    best = dict[Any, tuple[Path, float]]()
    for track in tracks:
        paths = {path.group: path for path in state.paths if path.track is track}
        leaders = [leader for leader in result.leaders if leader.cell.candidate.group in paths]
        if not leaders:
            continue
        index, _ = ledger.best([leader.cell.index for leader in leaders])
        rivals = [
            leader
            for leader in leaders
            if leader.cell.index == index or not leader.cell.candidate.params["round"]
        ]
        chosen = choose(rivals, result.scoring, ledger)
        path = paths[chosen.cell.candidate.group]
        best.setdefault(path.group, (path, float(ledger.ranks[chosen.cell.index, chosen.cell.ridge])))
    top = max((rank for _, rank in best.values()), default=0.0)
    least = _LARGEST_LOSS_RATIO * top if going_on else top  # of negative losses
    kept = {group: path for group, (path, rank) in best.items() if rank >= least}
    plain = [leader for leader in result.leaders if not leader.cell.candidate.params["round"]]
    if plain and going_on:
        index, _ = ledger.best([leader.cell.index for leader in plain])
        group = next(leader.cell.candidate.group for leader in plain if leader.cell.index == index)
        kept.setdefault(group, next(path for path in state.paths if path.group == group))
    return replace(state, paths=tuple(kept.values()))


def _on_all_rows(last: Candidate, run: Run, factor: float) -> Candidate:
    """A candidate of few rows on those of a run, its width multiplied by a factor."""
    kernel = last.kernel.scaled(factor**last.kernel.exponent_order)
    params = dict(last.params)
    if last.kernel.has_width:
        params["gamma"] = factor * last.params["gamma"]
    # The same cells on more rows, as when a stopped search goes on, give another metric.
    learned_from = (last.run.problem.n, *last.learned_from)
    shared = run.approximation.share(run.problem, [kernel])  # landmarks follow the metric
    return Candidate(replace(run, shared=shared), kernel, params, learned_from)


# -- the strategy -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MetricSearch:
    """Rounds of learned metrics, and a choice among them."""

    tracks: list[Track]  # families with the kind of metric each gets
    widths: list[float]  # of round 0, relative to the mean distance
    max_rounds: int
    metric_rows: int  # that metrics are learned from; if all, every fold has metrics of its own
    fold_learning_rows: int  # rows that the metric of a fold is learned from, at most
    blend: bool  # whether several tracks may be wanted in the end

    name: ClassVar[str] = "grid"

    def check(self, setup: Setup) -> None:
        """Do nothing: making the tracks has checked everything already."""

    def costs(self, setup: Setup) -> dict[str, float]:
        """Its stages, and the final fit, in seconds of a nominal machine."""
        n = setup.problem.n
        folds = len(setup.scoring.held_out.left_out)
        load = replace(setup.run.load, alphas=len(setup.alphas), folds=folds)
        kernel = nominal_seconds(setup, n, 1)
        seconds = dict[str, float]()
        for stage, sizes in _sized_stages(load, self, setup.problem.shape):
            cost = stage.cost(sizes)
            time = (cost.preliminary + cost.operations) / NOMINAL.multiply_adds + cost.kernels * kernel
            seconds[stage.part] = stage.usual_share * time
        seconds.pop("", None)
        return costs_with_final(setup, seconds)

    def stages(self, n: int, first: int, training: int, *, gpu: bool = False) -> list[MetricStage]:
        """The stages of a search on n rows.

        ===================================  ==========================================================
        up to `first` rows (1000), and       `RoundsOnAllFolds`
        `metric_rows` are all
        more, and `metric_rows` are all      `RoundsOnFewRows`, `CrossOnAllFolds`
        the same, and `training` is a third  `RoundsOnFewRows`, `KeepWorthFitting`, `Repeat`,
        more than `first`                    `KeepWorthFitting`, `CellOnAllFolds`
        `metric_rows` are fewer              `RoundsOnFewRows`, `KeepWorthFitting`, `ReservedFolds`
        the same, and `training` is a third  `RoundsOnFewRows`, `KeepWorthFitting`, `Repeat`,
        more than `first`                    `KeepWorthFitting`, `ReservedFolds`
        ===================================  ==========================================================

        `FirstLook` comes before each of them if its 500 rows are 65 % of the rows of the next stage at
        most. `training` are the rows that metrics can be learned from while others validate them.
        """
        look = [FirstLook(self.widths)] if self._looks(n, first) else []
        if self._all_at_once(n, first):
            learning_rows = self.fold_learning_rows
            return [*look, RoundsOnAllFolds(self.widths, self.max_rounds, learning_rows)]
        reserve = self.metric_rows < n
        stages: list[MetricStage] = [*look, RoundsOnFewRows(first, self.widths, self.max_rounds)]
        repeats = training > _REPEAT_RATIO * first
        if repeats:
            # Further rounds cost one chain of metrics, or k for all folds.
            further = 2 * self.max_rounds if reserve else 0
            stages += [KeepWorthFitting(self.blend), Repeat(further)]
        if reserve:  # one fit for each member, which costs a GPU little
            least = _WORTH_ONE_FIT if gpu else WORTH
            return [*stages, KeepWorthFitting(self.blend, least), ReservedFolds()]
        if repeats:
            keep = KeepWorthFitting(self.blend)
            return [*stages, keep, CellOnAllFolds(self.fold_learning_rows)]
        return [*stages, CrossOnAllFolds(self.fold_learning_rows)]

    def run(self, search: Search) -> SearchResult:
        """Go through the stages; if stopped, with the best that has been found."""
        setup = search.setup
        problem = setup.problem
        n = problem.n
        first = auto.first_rows(problem)
        division = undivided(n)
        if self._looks(n, first) or not self._all_at_once(n, first):
            size = self.metric_rows
            reserve = size < n
            division = divide(
                setup.scoring.held_out,
                setup.task,
                size,
                setup.seed or 0,
                reserve=reserve,
                repeats=setup.repeats,
                second=setup.second,
            )
        gpu = problem.machine.gpu
        state = State(tuple(Path(track) for track in self.tracks))
        for stage in self.stages(n, first, division.training.size, gpu=gpu):
            if search.goes_on() or not stage.optional:
                state = stage.run(search, division, state)
        result = state.last_result
        compared = comparison(result.leaders, result.scoring, result.ledger)
        return replace(result, history=state.history, record={"compared": compared})

    def _all_at_once(self, n: int, first: int) -> bool:
        """Whether rounds are compared on all folds from the start: there are few rows."""
        return n <= first and self.metric_rows >= n

    def _looks(self, n: int, first: int) -> bool:
        """Whether a first look has few enough of the rows to be worth its time."""
        return _LOOK_SHARE * min(n, first) >= LOOK_ROWS


# -- what it costs ------------------------------------------------------------------------------------


def fit_cost(
    rows: float, d: int, alphas: int = 1, *, heldout: bool = False, overhead_rows: int = _OVERHEAD_ROWS
) -> float:
    """Multiply-adds of a model, and of its overhead, which matters for few rows."""
    route = choose_route(int(rows), alphas, "heldout" if heldout else "coefficients")
    return (route.cost * rows**3 + rows**2 * d / 2) * (1 + overhead_rows / max(rows, 1))


def usual_members(learning: MetricSearch) -> int:
    """How many paths are scored on all rows, as a rule."""
    return min(len(learning.tracks), _USUAL_MEMBERS if learning.blend else _MEMBERS_OF_CHOICE)


def learned_load(
    load: Workload, learning: MetricSearch, shape: tuple[int, int, int], *, usual: bool = False
) -> Workload:
    """What is asked of the run on all rows, as so many kernels of one ridge and all folds.

    At most, as what runs is decided by; or what is `usual`, for the time that is announced.
    """
    n, d, _ = shape
    operations = 0.0
    preliminary = 0.0
    kernels = 0.0
    for stage, sizes in _sized_stages(load, learning, shape):
        share = stage.usual_share if usual else 1.0
        cost = stage.cost(sizes)
        operations += share * cost.operations
        preliminary += share * cost.preliminary
        kernels += share * cost.kernels
    further = operations / fit_cost(n, d, heldout=True, overhead_rows=0)
    count = round(kernels + further) if usual else int(kernels) + ceil(further)
    return replace(
        load, kernels=max(1, count), alphas=1, left_out=(), preliminary_operations=preliminary
    )


def _sized_stages(
    load: Workload, learning: MetricSearch, shape: tuple[int, int, int]
) -> list[tuple[MetricStage, Sizes]]:
    """The stages of a search, each with what its cost depends on."""
    n, d, targets = shape
    folds = max(2, load.folds)
    tracks = len(learning.tracks)
    families = len({track.name for track in learning.tracks})
    reserve = learning.metric_rows < n
    # Rows outside the fold that scores rounds, and outside one that no metric sees.
    share = max(1 - (1 + reserve) / folds, _SMALLEST_LEARNING_SHARE)
    first = max(1, min(auto.FIRST_ROWS, int(share * n)))
    training = max(1, min(learning.metric_rows, int(share * n)))
    stages = learning.stages(n, auto.FIRST_ROWS, training)
    sizes = Sizes(
        rows=n,
        features=d,
        targets=targets,
        alphas=load.alphas,
        folds=folds,
        families=families,
        tracks=tracks,
        rounds=min(learning.max_rounds, _USUAL_ROUNDS),
        members=usual_members(learning),
        finals=_USUAL_MEMBERS if learning.blend else 1,
        first=first,
        training=training,
        looked=any(isinstance(stage, FirstLook) for stage in stages),
        training_share=load.training_share if load.left_out else 1 - 1 / folds,
        block_cost=load.block_cost,
    )
    return [(stage, sizes) for stage in stages]
