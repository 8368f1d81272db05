r"""Paths of learned metrics, and rounds on some of the rows, which make paths longer.

A *track* is a family of kernels with a kind of metric (:mod:`onefold.search.learned_metric`). Its *path*
has one step for each round: the kernels of the round, and the best cell, a width and a ridge, that was
tried with them. Paths are values. A :class:`Rounds` compares cells on some rows, in one of two ways:

    on validation rows    one chain of metrics, learned from training rows, scored by the squared error
                          of validation rows (`on_validation_rows`)
    on all folds          every fold with metrics of its own, learned without it, scored by the criterion
                          of the search: literal cross-validation of the metric (`on_all_folds`)

and goes through rounds there in one of two orders:

    from the start        round 0 of every family, then a metric from the best cell of the last round,
                          tried in a cross of cells around that, as long as rounds gain
    again                 paths that were found on fewer rows: their metrics are learned anew from the
                          same cells, and only the last round is tried in a cross

Either order returns the paths to the best cell of every round that was tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from onefold.approximations import Exact, Run, Workload, auto
from onefold.criteria import Scoring, SquaredError, Task
from onefold.heldout import Splits, sample_rows
from onefold.linalg import Index
from onefold.machine.threads import map_in_order
from onefold.search.checkpoint import packed, unpacked
from onefold.search.evaluation import Candidate
from onefold.search.learned_metric import Fitted, Round, Track, measured, next_round
from onefold.search.loop import Proposal, Search, SearchResult
from onefold.search.repeats import RepeatedRows
from onefold.search.strategies import Setup, next_ridges

# Widths of a round's cross, times that of the last best cell; chosen, not measured.
CROSS = (0.5, 1.0, 2.0)
# Share of the loss that a round must gain for another one to follow; chosen, not measured. More rounds
# without a gain improved test errors by 0.2 % (docs/studies/metric.md).
_LEAST_GAIN = 0.005
# Rows that are reserved for scores where there are as many; chosen, not measured.
RESERVED_ROWS = 500
# Share of all rows that may be reserved at most; chosen, not measured.
_RESERVED_SHARE = 0.5
# Rows that rounds are compared on at most; chosen, not measured.
_VALIDATION_ROWS = 1000
# Parts of the rows, one of which validates where no split says which: those of scikit-learn's default.
_VALIDATION_PARTS = 5

GridPoint = tuple[float, int]
"""A relative width and the number of a ridge: a cell, whatever the kernels of its round."""
Group = tuple[str, str, int]
"""A family, a kind of metric and the number of a round: that of the candidates of the round."""


@dataclass(frozen=True)
class Step:
    """One round of a path, and its best cell."""

    round: Round
    point: GridPoint
    rank: float | None  # what cells are compared by; None if it was counted on other rows


@dataclass(frozen=True)
class Path:
    """What a track has gone through, a step per round."""

    track: Track
    steps: tuple[Step, ...] = ()

    def extended(self, step: Step) -> Path:
        """The path with one step more."""
        return replace(self, steps=(*self.steps, step))

    def before(self, number: int) -> Path:
        """The path up to the round before one of this number, to be gone through on other rows."""
        return replace(self, steps=tuple(replace(step, rank=None) for step in self.steps[:number]))

    @property
    def last(self) -> int:
        """The number of its last round."""
        return len(self.steps) - 1

    @property
    def point(self) -> GridPoint:
        """The best cell of its last round."""
        return self.steps[-1].point

    @property
    def group(self) -> Group:
        """That of the candidates of its last round."""
        return _group(self.track, self.last)

    @property
    def gained(self) -> bool:
        """Whether its last round has a lower loss than all before, by half a per cent, on these rows."""
        ranks = [step.rank for step in self.steps if step.rank is not None]
        # Losses count from 0 for errors, from 1 for accuracy and R², of which any may be above 0.
        top = 1.0 if max(ranks) > 0 else 0.0
        *before, last = (max(top - rank, 0.0) for rank in ranks)
        return not before or last <= (1 - _LEAST_GAIN) * min(before)

    def may_continue(self, max_rounds: int) -> bool:
        """Whether another round is worth its time."""
        return self.track.kind != "none" and self.last < max_rounds and self.gained


def _group(track: Track, number: int) -> Group:
    """The group of the candidates of a round."""
    return track.name, track.kind if number else "none", number


# -- the rows -----------------------------------------------------------------------------------------


class Division(NamedTuple):
    """The rows of a table, divided for metrics that are learned from some of them."""

    reserved: list[int]  # numbers of the splits whose held-out rows are in neither of the others
    training: Any  # rows that metrics are learned from
    validation: Any  # rows that choose among them


def undivided(n: int) -> Division:
    """The division of rows that are all learned from, each fold by a metric of its own."""
    return Division([], np.arange(n), np.arange(0))


def divide(
    splits: Splits,
    task: Task,
    size: int,
    seed: int,
    *,
    reserve: bool,
    repeats: RepeatedRows | None = None,
    second: Splits | None = None,
) -> Division:
    """Reserve the last splits, if asked to; the last of the others divides the other rows.

    `size` rows are for training at most, or as many sets of equal rows where rows repeat. The last of
    the `second` splits are reserved with those of `splits`.
    """
    generator = np.random.default_rng([seed, 0])
    reserved = reserved_numbers(splits) if reserve else []
    free = np.ones(splits.n, dtype=bool)
    for number in reserved:
        free[splits.left_out[number]] = False
    if reserve and second is not None:
        for number in reserved_numbers(second):
            free[second.left_out[number]] = False
    training, validation = _training_and_validation(splits, reserved, free, generator)
    if not training.any():
        splitters = "splits" if second is None else "splits of cv and second_cv"
        raise ValueError(
            f"the {splitters} leave no rows to learn a metric from, apart from those that validate it; "
            "use metric=None, or splits with larger training sets."
        )
    if repeats is not None:
        training_rows = np.flatnonzero(training)
        sampled = repeats.sampled(training_rows, validation, size, generator, task.labels)
        return Division(reserved, *sampled)
    validation = sample_rows(validation, _VALIDATION_ROWS, generator, task.labels)
    learned_from = sample_rows(np.flatnonzero(training), size, generator, task.labels)
    return Division(reserved, learned_from, validation)


def reserved_numbers(splits: Splits) -> list[int]:
    """Numbers of the last splits: enough to leave out `RESERVED_ROWS`, but not too large a share."""
    reserved = list[int]()
    free = np.ones(splits.n, dtype=bool)
    for number in reversed(range(len(splits.left_out))):
        remaining = free.copy()
        remaining[splits.left_out[number]] = False
        enough = splits.n - np.count_nonzero(free) >= RESERVED_ROWS
        too_many = remaining.mean() < 1 - _RESERVED_SHARE
        if reserved and (enough or too_many):
            break
        reserved = [number, *reserved]
        free = remaining
    return reserved


def _training_and_validation(
    splits: Splits, reserved: Sequence[int], free: Any, generator: np.random.Generator
) -> tuple[Any, Index]:
    """Of the `free` rows, flags of those that the last split trains on, and those that it tests.

    Where the reserved splits leave no other one to divide them, any fifth of the free rows validates.
    """
    for number in reversed(range(len(splits.left_out))):
        tests = splits.tests[number]
        validation = np.unique(tests[free[tests]])
        training = free.copy()
        training[splits.left_out[number]] = False
        if number not in reserved and validation.size and training.any():
            return training, validation
    order = generator.permutation(np.flatnonzero(free))
    validation = order[: max(1, order.size // _VALIDATION_PARTS)]
    training = free.copy()
    training[validation] = False
    return training, validation


@dataclass(frozen=True)
class Comparison:
    """The rows that cells of rounds are compared on."""

    run: Run
    scoring: Scoring
    learning: list[Index]  # rows that the metric of each part is learned from, then the final one
    rows: int  # number of those that models are trained on, or cross-validated
    per_fold: bool  # whether every part has metrics of its own, and the last of `learning` is the final


def on_validation_rows(setup: Setup, training: Index, validation: Index) -> Comparison:
    """One chain of metrics from `training` rows, by the squared error of `validation` rows.

    Equal rows are merged where many rows repeat.
    """
    if setup.repeats is None:
        order = np.concatenate([training, validation])
        problem = setup.problem.rows(order).centred()
    else:
        validation = _validating(setup, validation)
        problem, order = setup.repeats.merged(setup.problem, training, validation)
        problem = problem.centred()
    part = np.arange(order.size - validation.size, order.size)
    splits = Splits(order.size, [part], [part])
    # By the loss that models are trained with: were rare classes trained with large weights and scored
    # with small ones, the kernels that learn nothing of them would be the best.
    task = replace(setup.task.rows(order), sample_weight=problem.weight)
    scoring = SquaredError().start(problem, task, splits)
    load = Workload(1, 1, folds=1, parts=splits.left_out, rough=True)
    run = Exact().start(problem, [], load)
    training_rows = np.arange(order.size - validation.size)
    return Comparison(run, scoring, [training_rows], training_rows.size, per_fold=False)


def _validating(setup: Setup, validation: Index) -> Index:
    """As many of the validation rows as cells are compared on at most."""
    generator = np.random.default_rng([setup.seed or 0, 6])
    return sample_rows(validation, _VALIDATION_ROWS, generator, setup.task.labels)


def on_all_folds(setup: Setup, learning_rows: int) -> Comparison:
    """Metrics of every fold from the rows outside it, from as many `learning_rows` at most."""
    n = setup.problem.n
    labels = setup.task.labels
    generator = np.random.default_rng([setup.seed or 0, 4])
    sample = sample_rows if setup.repeats is None else setup.repeats.whole_sets
    learning = [
        sample(np.delete(np.arange(n), part), learning_rows, generator, labels)
        for part in setup.scoring.held_out.left_out
    ]
    of_final = max(learning_rows, auto.METRIC_ROWS)
    learning.append(sample(np.arange(n), of_final, generator, labels))
    return Comparison(setup.run, setup.scoring, learning, n, per_fold=True)


# -- the rounds ---------------------------------------------------------------------------------------


class Trial(NamedTuple):
    """A round that is tried: the path to it, and its kernels."""

    path: Path
    round: Round

    @property
    def group(self) -> Group:
        """That of its candidates."""
        return _group(self.path.track, self.path.last + 1)


class Rounds:
    """Rounds of tracks, compared on some rows in one stage of a search."""

    def __init__(self, search: Search, name: str, compared: Comparison) -> None:
        self._search = search
        self._compared = compared
        self._seed = search.setup.seed or 0
        self._parts = compared.scoring.held_out.left_out
        stage_name = f"{name}, {compared.rows} rows"
        self._stage = search.stage(stage_name, scoring=compared.scoring, shown_as=name)
        self._ledger = self._stage.ledger

    def from_the_start(
        self, paths: Sequence[Path], widths: Sequence[float], max_rounds: int
    ) -> tuple[Path, ...]:
        """Try round 0, which the tracks of one family share, then a cross of cells for each metric.

        Round 0 of a family begins at the cell where its path ends, and has the whole grid where none
        has a step. Return the paths to the best cell of every round.
        """
        trials = list[Trial]()
        self._stage.run(self._batches_from_the_start(paths, widths, max_rounds, trials))
        return self._paths_to(trials)

    def again(
        self, paths: Sequence[Path], factors: Sequence[float], max_rounds: int = 0
    ) -> tuple[Path, ...]:
        """Learn the metrics of paths from other rows anew, and try their last round in a cross.

        Those with a metric go on with further rounds while these gain, up to `max_rounds` in all.
        Return the paths to the best cell of every round.
        """
        trials = list[Trial]()
        self._stage.run(self._batches_again(paths, factors, max_rounds, trials))
        return self._paths_to(trials)

    def result(self) -> SearchResult:
        """The best cell of every group so far; these, with the number of rows, are its history."""
        result = self._stage.found()
        history = list[dict[str, Any]]()
        for leader in result.leaders:
            cell = leader.cell
            params = cell.candidate.params
            score = float(result.ledger.means[cell.index, cell.ridge])
            counted = {"alpha": cell.alpha, "score": score, "rows": self._compared.rows}
            history.append({**params, "gamma": params.get("gamma"), **counted})
        return replace(result, history=history)

    def _batches_from_the_start(
        self,
        paths: Sequence[Path],
        widths: Sequence[float],
        max_rounds: int,
        trials: list[Trial],
    ) -> Iterator[list[Proposal]]:
        """The proposals of `from_the_start`; every round that they try is appended to `trials`."""
        first = dict[str, Round]()
        for path in paths:
            first.setdefault(path.track.name, self._first(path.track))
        trials += [
            Trial(Path(path.track), replace(first[path.track.name], track=path.track)) for path in paths
        ]
        start = {path.track.name: path.point for path in paths if path.steps}
        yield from self._round_zero(first, sorted(widths), start)
        yield from self._further_rounds(list(trials), max_rounds, trials)

    def _batches_again(
        self,
        paths: Sequence[Path],
        factors: Sequence[float],
        max_rounds: int,
        trials: list[Trial],
    ) -> Iterator[list[Proposal]]:
        """The proposals of `again`; every round that they try is appended to `trials`."""
        # With a cross on all folds, families are tried as they are, too.
        with_plain = self._compared.per_fold and len(factors) > 1
        plain = [replace(path, steps=path.steps[:1]) for path in paths] if with_plain else []
        distinct = {path.group: path for path in [*paths, *plain]}.values()
        rounds = map_in_order(self._last_round, distinct, self._max_parallel(distinct))
        trials += [Trial(path.before(path.last), last) for path, last in zip(distinct, rounds)]
        crosses = [
            self._cross(trial.round, path.point, factors) for path, trial in zip(distinct, trials)
        ]
        yield [proposal for cross in crosses for proposal in cross]
        if max_rounds:
            with_metric = [trial for trial in trials if trial.round.learned_from]
            yield from self._further_rounds(with_metric, max_rounds, trials)

    def _paths_to(self, trials: Sequence[Trial]) -> tuple[Path, ...]:
        """The paths to the best cell of every trial that has a score."""
        paths = (self._extended(trial) for trial in trials)
        return tuple(path for path in paths if path is not None)

    def _extended(self, trial: Trial) -> Path | None:
        """The path to a trial with the best cell of that; None where none has a score."""
        ledger = self._ledger
        scored = [number for number in ledger.groups.get(trial.group, []) if ledger.scored(number)]
        if not scored:
            return None
        number, ridge = ledger.best(scored)
        point = (relative_width(ledger.params[number]), ridge)
        return trial.path.extended(Step(trial.round, point, float(ledger.ranks[number, ridge])))

    def _further_rounds(
        self, last_trials: Sequence[Trial], max_rounds: int, trials: list[Trial]
    ) -> Iterator[list[Proposal]]:
        """A cross of cells for the next metric of every path, while its last round has gained."""
        while last_trials:
            paths = [path for path in self._paths_to(last_trials) if path.may_continue(max_rounds)]
            steps = [path.steps[-1] for path in paths]
            rounds = map_in_order(self._next, steps, self._max_parallel(paths))
            last_trials = [Trial(path, following) for path, following in zip(paths, rounds)]
            trials += last_trials
            crosses = [self._cross(trial.round, trial.path.point, CROSS) for trial in last_trials]
            if last_trials:
                yield [proposal for cross in crosses for proposal in cross]

    def _round_zero(
        self, first: Mapping[str, Round], widths: Sequence[float], start: Mapping[str, GridPoint]
    ) -> Iterator[list[Proposal]]:
        """Every family: its whole grid, or from a cell on until the best one is a local optimum."""
        ledger = self._ledger
        order = np.argsort(ledger.alphas, kind="stable")
        # One decomposition serves all ridges in closed form; on validation rows each has its own factor.
        every_other = np.sort(order[:: 1 if self._compared.per_fold else 2])
        grids = {name: dict[int, int]() for name in first}  # candidates by the place of their width

        def cells(name: str, point: GridPoint | None) -> list[Proposal]:
            """Cells not yet tried among the neighbours of a cell, or in the whole grid."""
            tried = widths if first[name].final.kernel.has_width else [1.0]
            places = range(len(tried))
            ridges = every_other
            if point is not None:
                width, ridge = point
                middle = int(np.argmin(np.abs(np.log(tried) - np.log(width))))
                places = range(max(0, middle - 1), min(len(tried), middle + 2))
                ridges = next_ridges(ledger.alphas, ridge)
            proposals = list[Proposal]()
            for place in places:
                if place not in grids[name]:
                    (grids[name][place],) = self._add(first[name], [tried[place]])
                number = grids[name][place]
                missing = np.intersect1d(ledger.untried(number), ridges)
                proposals += [Proposal(number, missing)] if missing.size else []
            return proposals

        proposals = [proposal for name in first for proposal in cells(name, start.get(name))]
        while proposals:
            yield proposals
            proposals = []
            for name, grid in grids.items() if start else ():
                scored = [number for number in grid.values() if ledger.scored(number)]
                if scored:
                    number, ridge = ledger.best(scored)
                    proposals += cells(name, (relative_width(ledger.params[number]), ridge))

    def _max_parallel(self, paths: Iterable[Path]) -> int:
        """How many paths may go on side by side: one if a kernel must not be shared by threads."""
        safe = all(path.track.kernel.thread_safe for path in paths)
        return self._compared.run.max_parallel_models if safe else 1

    def _first(self, track: Track) -> Round:
        """Round 0: the family as it is."""
        return Round(track, measured(track.kernel, self._compared.run.problem, self._seed))

    def _last_round(self, path: Path) -> Round:
        """The last round of a path from other rows, learned on these.

        On all folds every round is learned anew; a single chain goes on from the metric of the round
        before the last, which was learned from some of these rows.
        """
        steps = path.steps[:-1]
        if steps and not self._compared.per_fold:
            return self._next(steps[-1])
        last = self._first(path.track)
        for step in steps:
            last = self._next(replace(step, round=last))
        return last

    def _next(self, step: Step) -> Round:
        """The round after a step; a journal may know it."""
        last = step.round
        track = last.track
        width, ridge = step.point
        compared = self._compared
        cell = (width, float(compared.run.problem.ridge(self._ledger.alphas[ridge])))
        learned_from = (*last.learned_from, cell)
        journal = self._search.checkpoint
        params = {"kernel": track.name, "metric": track.kind}
        key = [f"metric of {self._stage.name}", params, learned_from]

        def read(record: dict[str, Any]) -> Round:
            metrics = record["metrics"]
            kernels = [track.kernel.with_metric(unpacked(metric["values"])) for metric in metrics]
            means = [float(metric["mean_exponent"]) for metric in metrics]
            final, *parts = map(Fitted, kernels, means)
            return Round(track, final, parts, learned_from)

        recorded = next(journal.find(key, read), None)
        if recorded is not None:
            return recorded
        following = next_round(
            last, compared.run, compared.learning, cell, self._seed, with_final=compared.per_fold
        )
        if journal:
            fitted: list[Any] = [following.final, *(following.parts or [])]
            metrics = [
                {"values": packed(kernel.kernel.metric.values), "mean_exponent": kernel.mean_exponent}
                for kernel in fitted
            ]
            journal.append(key, metrics=metrics)
        return following

    def _cross(self, last: Round, point: GridPoint, factors: Sequence[float]) -> list[Proposal]:
        """The width times each factor at the ridge; of several, itself at the neighbours in size too."""
        width, ridge = point
        ridges = next_ridges(self._ledger.alphas, ridge)
        numbers = self._add(last, [width * factor for factor in factors])
        if len(factors) == 1:
            return [Proposal(number, np.array([ridge])) for number in numbers]
        middle = numbers[factors.index(1.0)] if len(numbers) > 1 else numbers[0]
        return [
            Proposal(number, ridges if number == middle else np.array([ridge])) for number in numbers
        ]

    def _add(self, last: Round, widths: Sequence[float]) -> list[int]:
        """Candidates of a round, one for each width, and their numbers."""
        run = self._compared.run
        has_width = last.final.kernel.has_width
        closed = last.parts is None and run.approximation.selects and self._compared.per_fold
        run = run if closed else replace(run, shared=None)  # landmarks follow the metric
        numbers = list[int]()
        for width in widths if has_width else [1.0]:
            params: dict[str, Any] = {"kernel": last.track.name, "metric": last.metric}
            params["round"] = len(last.learned_from)
            if has_width:
                params["gamma"] = float(width)
            candidate = Candidate(run, last.final.at(width), params)
            if not closed:
                kernels = last.part_kernels(width, len(self._parts))
                candidate = replace(
                    candidate, learned_from=last.learned_from, parts=self._parts, part_kernels=kernels
                )
            numbers.append(self._stage.add(candidate))
        return numbers


def relative_width(params: Mapping[str, Any]) -> float:
    """The relative width of a candidate; 1 where the kernel has none."""
    return float(params.get("gamma", 1.0))
