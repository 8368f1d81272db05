r"""The loop of a search: a strategy proposes, models are solved side by side, the ledger remembers.

Grids, halving, rounds of metrics and external optimisers all evaluate candidates here.
A :class:`Search` has one or more stages. A :class:`Stage` is a scoring on some rows, the candidates that
are compared there and the ledger of their evaluations. What a journal knows is not evaluated again. A
search that ends early, by its time budget or Ctrl-C, chooses among what it has tried.

:class:`Progress` shows how far it is, and how long the whole fit will still take (:mod:`.schedule`). The
evaluations to come of a stage are those that have been proposed, each at the mean seconds of those that
it has made; evaluations from a journal cost nothing and are not counted.

Evaluations that take minutes are watched (:mod:`.watching`): callbacks get the same dict between them,
with the `iteration` that is done.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from onefold.criteria import Scoring
from onefold.heldout import Splits
from onefold.machine.iterations import Iteration
from onefold.machine.speed import duration_words
from onefold.machine.threads import map_threads
from onefold.machine.warning import warn_user
from onefold.search.checkpoint import Checkpoint, known_cells, unpacked
from onefold.search.choice import beats_constant, choose
from onefold.search.crossfit import Cell, CrossFit, Predictions, crossfit_of, with_predictions
from onefold.search.evaluation import Candidate, Solved, Work, evaluate, solve
from onefold.search.ledger import Ledger
from onefold.search.schedule import FINAL_FIT, Schedule
from onefold.search.watching import KeptState, WorkWatcher

TIME_IS_UP = "time_budget"
INTERRUPTED = "interrupted"
BY_CALLBACK = "stopped by the callback"
# What Ctrl-C does to a search that has a score.
FINISHING = "finishing the fit of the best so far; Ctrl-C again to stop"
# Candidates that were not tried are named in the warning up to this number; chosen, not measured.
_MAX_NAMED = 6
# Seconds between two lines of a verbose fit about the same evaluation; chosen, not measured.
_LINE_SECONDS = 10.0

Callback = Callable[[dict[str, Any]], None]
Select = Literal["min", "1se"]


class NoScoreError(ValueError):
    """No cell of a search has a score."""


class _GivenUp(Exception):
    """Ends an evaluation in its middle, which the callback has asked for."""


class StopSearch(Exception):
    """Raise it in a callback to stop the search: the best parameters so far are used.

    Examples
    --------
    >>> import warnings
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV
    >>> from onefold.search import SearchStoppedWarning, StopSearch
    >>> def enough(event):
    ...     raise StopSearch
    >>> X, y = load_diabetes(return_X_y=True)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = LSSVRCV(gammas=[0.1, 1, 10], alphas=[0.1], callback=enough).fit(X, y)
    >>> model.search_["stopped"]
    'stopped by the callback'
    """


class SearchStoppedWarning(UserWarning):
    """The search stopped before it had tried everything.

    Examples
    --------
    >>> import warnings
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV
    >>> from onefold.search import SearchStoppedWarning, StopSearch
    >>> def enough(event):
    ...     raise StopSearch
    >>> X, y = load_diabetes(return_X_y=True)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = LSSVRCV(gammas=[0.1, 1, 10], alphas=[0.1], callback=enough).fit(X, y)
    >>> [warning.category.__name__ for warning in caught]
    ['SearchStoppedWarning']
    """


class Proposal(NamedTuple):
    """A candidate and the ridges to evaluate it with, by their numbers.

    Parameters
    ----------
    candidate : int
        Number of the kernel, from the stage.
    ridges : array of int
        Numbers of the ridges in the ledger.

    Examples
    --------
    Strategies make proposals (:doc:`/extending/strategy`).

    >>> from onefold.search import Proposal
    >>> Proposal(candidate=0, ridges=[2, 3])
    Proposal(candidate=0, ridges=[2, 3])
    """

    candidate: int
    ridges: Any


@dataclass(frozen=True)
class SearchResult:
    """What a search found."""

    ledger: Ledger  # every evaluation of the last stage
    leaders: list[CrossFit]  # the best cell of every group of candidates, in the order of the groups
    chosen: CrossFit  # one of them, or another cell of its group
    report: dict[str, Any]  # what the approximation has to say of the chosen candidate
    scoring: Scoring  # what the scores are counted on
    history: list[dict[str, Any]] = field(default_factory=list)  # the best cells of metric rounds
    record: dict[str, Any] = field(default_factory=dict)  # what else the strategy has to say
    second: Splits | None = None  # of the rows of the scoring, where they are others than the setup's


@dataclass(eq=False, repr=False)
class Search:
    """One search: its setup, when it ends early, its callback, what a journal keeps."""

    setup: Any = None  # what stages are of unless they say otherwise
    callback: Callback | None = None  # gets a dict after each evaluation; may raise `StopSearch`
    seconds: float | None = None  # then nothing more is begun but the first evaluation of each stage
    began: float = field(default_factory=time.monotonic)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    schedule: Schedule = field(default_factory=Schedule)
    stages: int = field(default=0, init=False)  # that have ended
    stopped: str | None = field(default=None, init=False)  # why the search ended early
    untried: list[dict[str, Any]] = field(default_factory=list, init=False)  # parameters of candidates
    _state: KeptState = field(default_factory=KeptState, init=False)  # of the last long solution

    def watcher(
        self, key: Sequence[Any], tell: Callable[[Iteration], None], replaceable: Callable[[], bool]
    ) -> WorkWatcher:
        """Who watches the iterations of work with a key of its own."""
        checkpoint = self.checkpoint
        # What is still done after a stop must not replace the state of what that broke off.
        broken_off = self.stopped in (INTERRUPTED, BY_CALLBACK)
        path = None if broken_off else checkpoint.state_path
        return WorkWatcher([checkpoint.mark, *key], self._state, path, tell, replaceable)

    def begin(self, part: str, ledger: Ledger) -> None:
        """Say that a step after the stages begins, to a callback that listens to it."""
        self.schedule.begin(part, time.monotonic())
        listener = getattr(self.callback, "begin_part", None)
        if listener is not None:
            listener(ledger.progress() | {"part": part} | self._times(0.0))

    def _times(self, evaluations: float) -> dict[str, float]:
        """Seconds since the fit began and until it ends; `evaluations` are those of the current part."""
        now = time.monotonic()
        return {"seconds": now - self.began, "left": self.schedule.seconds_left(evaluations, now)}

    def final_watcher(self, result: SearchResult) -> WorkWatcher:
        """Who watches the final fit."""

        def tell(iteration: Iteration) -> None:
            if self.callback is not None:
                event = result.ledger.progress() | {"part": FINAL_FIT}
                times = self._times(iteration.seconds_left or 0.0)
                with suppress(StopSearch):  # the search has ended
                    self.callback(event | times | {"iteration": _iteration_facts(iteration)})

        return self.watcher([FINAL_FIT], tell, lambda: False)

    def stage(
        self,
        name: str = "grid",
        candidates: Sequence[Candidate] = (),
        *,
        scoring: Scoring | None = None,
        alphas: Any = None,
        with_expansions: bool = False,  # of each candidate that has one ridge
        second: Splits | None = None,  # by which these are also scored
        shown_as: str | None = None,  # in progress, where not by its name
    ) -> Stage:
        """A stage, by default on all rows; its records in the journal have its name."""
        recorded = self.setup.recorded if scoring is None else {}
        scoring = self.setup.scoring if scoring is None else scoring
        ledger = Ledger(scoring, self.setup.alphas if alphas is None else alphas, recorded)
        shown_as = shown_as or name
        began = time.monotonic()
        self.schedule.begin(shown_as, began)
        stage = Stage(self, name, scoring, recorded, ledger, with_expansions, second, shown_as, began)
        for candidate in candidates:
            stage.add(candidate)
        return stage

    @property
    def seconds_left(self) -> float:
        """Those of its time budget; none are left of a search that has been stopped."""
        if self.stopped is not None:
            return 0.0
        if self.seconds is None:
            return math.inf
        return max(0.0, self.seconds - (time.monotonic() - self.began))

    def goes_on(self) -> bool:
        """Whether more may be begun; once the time is up, the search is stopped."""
        time_is_up = self.seconds is not None and time.monotonic() - self.began >= self.seconds
        if time_is_up and self.stopped is None:
            self.stopped = TIME_IS_UP
        return self.stopped is None

    def warn_if_stopped(self) -> None:
        """Warn of an early end."""
        if self.stopped is None:
            return
        why = f"the search was {self.stopped}"
        if self.stopped == TIME_IS_UP:
            why = f"the search reached its time_budget of {self.seconds:g} s"
        count = len(self.untried)
        if count == 0:
            subject = "later steps were"
        elif count == 1:
            subject = "1 candidate was"
        else:
            subject = f"{count} candidates were"
        candidates = [
            ", ".join(f"{name}={value}" for name, value in params.items()) for params in self.untried
        ]
        listed = f": {'; '.join(candidates)}" if 0 < count <= _MAX_NAMED else ""
        warn_user(
            f"{why}; the best so far is used, and {subject} not tried{listed}.", SearchStoppedWarning
        )


@dataclass(eq=False, repr=False)
class Stage:
    """A scoring on some rows, the candidates compared there, and the ledger of their evaluations."""

    _search: Search
    name: str
    scoring: Scoring
    _recorded: Mapping[str, Scoring]  # criteria that decide nothing, by name
    ledger: Ledger
    _with_expansions: bool
    _second: Splits | None  # by which candidates with expansions are also scored
    _shown_as: str
    _began: float
    candidates: list[Candidate] = field(default_factory=list)
    # The best of every group so far.
    _leaders: dict[tuple[Any, ...], CrossFit] = field(default_factory=dict)
    _evaluated: int = 0  # since then, with a callback; not what a journal knew

    def add(self, candidate: Candidate) -> int:
        """One more candidate, and its number."""
        self.candidates.append(candidate)
        return self.ledger.admit(candidate.params, candidate.group)

    def every_cell(self) -> list[Proposal]:
        """All candidates, each with all ridges."""
        return [Proposal(c, np.arange(self.ledger.alphas.size)) for c in range(len(self.candidates))]

    def run(self, batches: Iterable[Sequence[Proposal]]) -> Stage:
        """Evaluate batches of proposals, each known to the ledger before the next one is asked for."""
        search = self._search
        ledger = self.ledger
        proposals = list[Proposal]()
        try:
            for batch in batches:
                proposals = list(batch)
                self.evaluate(proposals)
                if not search.goes_on():
                    break
        except KeyboardInterrupt as error:
            # Go on with what has been found, here or in an earlier stage; raise a second interruption.
            again = search.stopped == INTERRUPTED or isinstance(error.__context__, KeyboardInterrupt)
            if again or not (ledger.scored() or (search.stages and proposals)):
                raise
            search.stopped = INTERRUPTED
            if isinstance(search.callback, Progress):
                search.callback.say_interrupted()
            if not ledger.scored():  # but an earlier stage has found what is to be finished here
                self.evaluate(proposals[:1])
        done = {entry.candidate for entry in ledger.entries}
        search.untried += [dict(ledger.params[number]) for number, _ in proposals if number not in done]
        search.stages += 1
        failed = [entry.failures for entry in ledger.entries if entry.failures]
        if failed:
            unscored = sum(map(len, failed))
            total = sum(len(entry.ridges) for entry in ledger.entries)
            text = f"{unscored} of {total} combinations of kernel and alpha have no score (NaN): "
            text += failed[0][-1]
            if unscored == total:
                raise NoScoreError(text)
            warn_user(text)
        return self

    def evaluate(self, proposals: Sequence[Proposal]) -> None:
        """Evaluate proposals, or find them in the journal; side by side where memory allows."""
        search = self._search
        ledger = self.ledger
        unknown = list[Proposal]()
        for number, ridges in proposals:
            missing = set(np.asarray(ridges).tolist())
            read = partial(known_cells, number, missing, ledger.alphas)
            for entry in search.checkpoint.find(self._key(number), read):
                ledger.append(entry)
                missing -= set(entry.ridges.tolist())
            if missing:
                unknown.append(Proposal(number, np.array(sorted(missing))))

        def handed_out() -> Iterator[Work]:
            for proposal in unknown:
                if not search.goes_on() and ledger.scored():
                    return
                yield self._work(proposal)

        caller = threading.get_ident()

        def solved_by(work: Work) -> Solved:
            if threading.get_ident() != caller:
                return solve(work)  # in a pool, side by side with others
            return self._solved(work)

        limits = (self.candidates[number].max_parallel for number, _ in unknown)
        with suppress(_GivenUp):
            for solved in map_threads(solved_by, handed_out(), min([len(unknown), *limits])):
                self._record(solved)
                del solved  # and its predictions, before the next model makes its own
                if search.callback is not None:
                    self._report_progress(search.callback)

    def _report_progress(self, callback: Callback) -> None:
        """Tell the callback of one more evaluation; it may stop the search."""
        search = self._search
        event = self.ledger.progress()
        self._evaluated += 1
        seconds_each = (time.monotonic() - self._began) / self._evaluated
        seconds = seconds_each * max(event["total"] - event["done"], 0)
        try:
            callback(event | {"part": self._shown_as} | search._times(seconds))
        except StopSearch:
            search.stopped = search.stopped or BY_CALLBACK

    def _solved(self, work: Work) -> Solved:
        """What was solved in the thread of the search, where its iterations are watched."""
        watcher = self._search.watcher(self._key(work.number), self._tell, self.ledger.scored)
        with watcher.watching():
            return solve(work)

    def _tell(self, iteration: Iteration) -> None:
        """Tell the callback how far an evaluation is."""
        search = self._search
        if search.callback is None:
            return
        event = self.ledger.progress()
        to_come = max(event["total"] - event["done"], 0)
        each = (time.monotonic() - self._began) / self._evaluated if self._evaluated else 0.0
        seconds = each * to_come
        if iteration.seconds_left is not None:
            seconds = iteration.seconds_left + each * max(to_come - 1, 0)
        event |= {"part": self._shown_as} | search._times(seconds)
        try:
            search.callback(event | {"iteration": _iteration_facts(iteration)})
        except StopSearch:
            search.stopped = search.stopped or BY_CALLBACK
            if self.ledger.scored():
                raise _GivenUp from None

    def _key(self, number: int) -> list[Any]:
        """What finds a candidate in the journal."""
        return [self.name, self.candidates[number].params, self.candidates[number].learned_from]

    def _work(self, proposal: Proposal) -> Work:
        """What a thread needs to solve a proposal."""
        number, ridges = proposal
        return Work(
            candidate=self.candidates[number],
            number=number,
            ridges=ridges,
            alphas=self.ledger.alphas[ridges],
            scorings=self._scorings,
            with_expansion=self._with_expansions,
            second=self._second,
        )

    @property
    def _scorings(self) -> dict[str, Scoring]:
        """The criteria by name: the one that decides, then those that are recorded."""
        return {"score": self.scoring, **self._recorded}

    def _record(self, solved: Solved) -> None:
        """Put an evaluation into ledger and journal; hold on to what leads its group."""
        evaluation = evaluate(solved, self._scorings)
        self.ledger.append(evaluation)
        number = solved.candidate
        leader = None
        if np.isfinite(evaluation.means).any():
            groups = self.ledger.groups
            group = self.candidates[number].group
            index, ridge = self.ledger.best(groups[group])
            if index == number and ridge in evaluation.ridges:
                leader = crossfit_of(solved, self._cell(index, ridge), self.scoring)
                # A model is kept for the final fit; of several groups' models only one would be used.
                leader = leader if len(groups) == 1 else replace(leader, model=None)
                self._leaders[group] = leader
        self._search.checkpoint.keep(self._key(number), self.ledger.alphas, evaluation, leader)

    def _cell(self, index: int, ridge: int) -> Cell:
        """The cell of a candidate and a ridge, by their numbers."""
        return Cell(self.candidates[index], float(self.ledger.alphas[ridge]), index, ridge)

    def found(
        self, select: Select = "min", *, cell: tuple[int, int] | None = None, **fields: Any
    ) -> SearchResult:
        """The choice among what was evaluated, or this `cell`; `fields` are added to the result."""
        ledger = self.ledger
        if cell is not None:
            chosen = self.crossfit(*cell)
            leaders = [chosen]
        else:
            groups = ledger.groups.values()
            scored = [numbers for numbers in groups if any(map(ledger.scored, numbers))]
            leaders = [self.crossfit(*ledger.best(numbers)) for numbers in scored]
            chosen = choose(leaders, self.scoring, ledger)
            if not beats_constant(chosen.predictions, self.scoring):
                chosen = self.crossfit(*self._flattest())
            elif select == "1se":
                chosen = self.crossfit(*ledger.simplest(chosen.cell.index, chosen.cell.ridge))
        report = dict(ledger.entry(chosen.cell.index).report)
        return SearchResult(ledger, leaders, chosen, report, self.scoring, **fields)

    def _flattest(self) -> tuple[int, int]:
        """The cell of the largest ridge, then of the smallest width, of the simplest candidates."""
        ledger = self.ledger
        scored = np.argwhere(np.isfinite(ledger.means)).tolist()
        least = min(self.candidates[number].complexity for number, _ in scored)
        cells = [
            (ledger.alphas[ridge], -float(ledger.params[number].get("gamma", 1.0)), -number, ridge)
            for number, ridge in scored
            if self.candidates[number].complexity == least
        ]
        _, _, number, ridge = max(cells)
        return -number, ridge

    def crossfit(self, index: int, ridge: int) -> CrossFit:
        """A cell with its held-out predictions: those at hand, or made again."""
        cell = self._cell(index, ridge)
        leader = self._leaders.get(cell.candidate.group)
        if leader is None or leader.cell.index != index:
            fit = self._from_journal(cell) or self._solved_again(cell)
        elif leader.cell.ridge != ridge:
            fit = CrossFit((cell,), model=leader.model)
        else:
            fit = leader
        return with_predictions(fit, self.scoring)

    def _from_journal(self, cell: Cell) -> CrossFit | None:
        """A cell with the predictions that a journal has kept; None without them."""

        def read(record: dict[str, Any]) -> Any:
            return unpacked(record["heldout"]) if record.get("leads") == cell.alpha else None

        by_row = next(self._search.checkpoint.find(self._key(cell.index), read), None)
        if by_row is None:
            return None
        return CrossFit((cell,), splits=self.scoring.splits, predictions=Predictions(by_row))

    def _solved_again(self, cell: Cell) -> CrossFit:
        """A cell whose scores came from a journal, solved once more as it was: to the same digits."""
        ridges = self.ledger.entry(cell.index, cell.ridge).ridges
        return crossfit_of(self._solved(self._work(Proposal(cell.index, ridges))), cell, self.scoring)


def _iteration_facts(iteration: Iteration) -> dict[str, Any]:
    """An iteration as callbacks get it."""
    return {
        "number": iteration.number,
        "residual": iteration.residual,
        "left": iteration.seconds_left,
    }


def progress_words(event: Mapping[str, Any]) -> str:
    """How far a search is: ``300 rows: 12 of 36 evaluations``; that of one stage needs no name for it.

    An evaluation is a kernel with one width, and all its ridges.

    Within an evaluation also how far that is: ``iteration 7, residual 0.08, about 40 s left``.
    """
    done = int(event["done"])
    total = int(event["total"])
    part = str(event["part"])
    name = "" if part == "grid" else f"{part}: "
    words = f"{name}{min(done, total)} of {total} evaluations"
    iteration = event.get("iteration")
    if iteration is None:
        return words
    words += f", iteration {iteration['number']}, residual {iteration['residual']:.2g}"
    if iteration["left"] is not None:
        words += f", about {duration_words(iteration['left'])} left"
    return words


class Progress:
    """The callback of one search on behalf of an estimator: a line if `verbose`, and the user's own."""

    def __init__(self, name: str, verbose: int, callback: Callback | None) -> None:
        self._name = name
        self._verbose = verbose
        self._callback = callback
        self._last_line = time.monotonic()

    def begin_part(self, event: dict[str, Any]) -> None:
        """A step after the evaluations begins; a callback that has this method is told, too."""
        if self._verbose:
            sys.stderr.write(f"[{self._name}] {event['part']}\n")
        listener = getattr(self._callback, "begin_part", None)
        if listener is not None:
            listener(event)

    def say_interrupted(self) -> None:
        """Ctrl-C has ended the search; a callback that has this method says so itself."""
        listener = getattr(self._callback, "say_interrupted", None)
        if listener is None:
            sys.stderr.write(f"[{self._name}] {FINISHING}\n")
        else:
            listener()

    def __call__(self, event: dict[str, Any]) -> None:
        within = "iteration" in event
        now = time.monotonic()
        if self._verbose and not (within and now - self._last_line < _LINE_SECONDS):
            self._last_line = now
            best = "none yet" if event["best_score"] is None else f"{event['best_score']:.6g}"
            line = f"{progress_words(event)}, best score {best} {event['best_params']}"
            line += f", {duration_words(event['left'])} left" if event["left"] and not within else ""
            sys.stderr.write(f"[{self._name}] {line}\n")
        if self._callback is not None:
            self._callback(event)
