"""The loop of a search: a strategy proposes, models are solved side by side, the ledger remembers.

Everything that evaluates does it here: a grid, halving, rounds of metrics, an optimiser from elsewhere.
A :class:`Search` has one or more stages. A :class:`Stage` is a scoring on some rows, the candidates that
are compared there and the ledger of their evaluations. What a journal knows is not evaluated again. A
search that ends early, by its time budget or Ctrl-C, chooses among what it has tried.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from onefold.criteria import Scoring
from onefold.machine.threads import map_threads
from onefold.machine.warning import warn_user
from onefold.search.checkpoint import Checkpoint, StageRecords
from onefold.search.choice import Leader, beats_constant, choose
from onefold.search.evaluation import Candidate, Evaluation, solve
from onefold.search.ledger import Ledger
from onefold.search.progress import Callback
from onefold.search.setup import Select

TIME_IS_UP = "time_budget"
INTERRUPTED = "interrupted"
BY_CALLBACK = "stopped by the callback"
_NAMED = 6  # candidates that were not tried are named, if they are no more


class NoScoreError(ValueError):
    """No cell of a search has a score."""


class StopSearch(Exception):
    """Raised by a callback: nothing more is begun, and the best so far is used."""


class SearchStoppedWarning(UserWarning):
    """The search ended before it had tried everything."""


class Proposal(NamedTuple):
    """A candidate, by its number, to be evaluated with the ridges of some numbers."""

    candidate: int
    ridges: Any


Propose = Callable[[Ledger], Sequence[Proposal]]
"""What to evaluate next, in view of what is known; nothing ends a stage."""


@dataclass(frozen=True)
class Found:
    """What a search found."""

    ledger: Ledger  # every evaluation of the last stage
    leaders: list[Leader]  # the best cell of every group of candidates, in the order of the groups
    leader: Leader  # the chosen one of them
    report: dict[str, Any]  # what the approximation has to say of the chosen candidate
    scoring: Scoring  # what the scores are counted on
    history: list[dict[str, Any]] = field(default_factory=list)  # the best cells of metric rounds
    order: Any = None  # the problem's rows in the order in which they were searched; None for their own
    record: dict[str, Any] = field(default_factory=dict)  # what else the strategy has to say

    def in_order(self, heldout: Any) -> Any:
        """Held-out predictions of the search in the order of the problem's rows."""
        if self.order is None or heldout is None:
            return heldout
        found = np.empty_like(heldout)
        found[self.order] = heldout
        return found


class Search:
    """One search: its setup, when it ends early, its callback, what a journal keeps.

    Parameters
    ----------
    setup : Setup, optional
        What stages are of unless they say otherwise.
    callback : function of a dict, optional
        Called after each evaluation; stops the search by raising `StopSearch`.
    seconds : float, optional
        After which nothing more is begun. The first evaluation of each stage is always finished.
    began : float, optional
        When the seconds began to count, by `time.monotonic`; now if None.
    checkpoint : Checkpoint, optional
    """

    def __init__(
        self,
        setup: Any = None,
        callback: Callback | None = None,
        *,
        seconds: float | None = None,
        began: float | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.setup = setup
        self.checkpoint = Checkpoint() if checkpoint is None else checkpoint
        self._callback, self._start = callback, time.monotonic() if began is None else began
        self._seconds, self._stages = seconds, 0  # stages that have ended
        self.stopped: str | None = None  # why the search ended early
        self.untried: list[dict[str, Any]] = []  # what names the candidates that were not evaluated

    def stage(
        self,
        name: str = "grid",
        candidates: Sequence[Candidate] = (),
        *,
        scoring: Scoring | None = None,
        alphas: Any = None,
        finish: bool = False,
        shown_as: str | None = None,
    ) -> Stage:
        """A stage, by default on all rows; its name is that of its records in the journal.

        Progress shows the name too, unless `shown_as` is another. `finish` asks for the expansion of
        each candidate with one ridge at once: a blend needs many.
        """
        scoring = self.setup.scoring if scoring is None else scoring
        alphas = self.setup.alphas if alphas is None else alphas
        return Stage(self, name, scoring, alphas, candidates, finish, shown_as or name)

    def goes_on(self) -> bool:
        """Whether more may be begun."""
        limit = math.inf if self._seconds is None else self._seconds
        if self.stopped is None and time.monotonic() - self._start >= limit:
            self.stopped = TIME_IS_UP
        return self.stopped is None

    def interrupt(self, error: KeyboardInterrupt, ledger: Ledger) -> None:
        """Go on with what has been found, here or in an earlier stage; raise where that is nothing.

        A second interruption is raised, too.
        """
        again = self.stopped == INTERRUPTED or isinstance(error.__context__, KeyboardInterrupt)
        if again or not (ledger.has_score or self._stages):
            raise error
        self.stopped = INTERRUPTED

    def end_stage(self, proposals: Sequence[Proposal], ledger: Ledger) -> None:
        """Note which of the last proposals were not evaluated."""
        done = {entry.candidate for entry in ledger.entries}
        self.untried += [dict(ledger.params[number]) for number, _ in proposals if number not in done]
        self._stages += 1

    def report_progress(self, ledger: Ledger, name: str) -> None:
        """Call the callback, which may stop the search."""
        if self._callback is None:
            return
        try:
            seconds = time.monotonic() - self._start
            self._callback(ledger.progress() | {"part": name, "seconds": seconds})
        except StopSearch:
            self.stopped = self.stopped or BY_CALLBACK

    def summary(self) -> dict[str, Any]:
        """Whether the search ended early, and what it has not tried."""
        return {"stopped": self.stopped, "untried": self.untried}

    def warn_if_stopped(self) -> None:
        """Warn of an early end."""
        if self.stopped is None:
            return
        why = f"the search was {self.stopped}"
        if self.stopped == TIME_IS_UP:
            why = f"the search ended with its time_budget of {self._seconds:g} s"
        names = [", ".join(f"{k}={v}" for k, v in one.items()) for one in self.untried]
        listed = f": {'; '.join(names)}" if 0 < len(names) <= _NAMED else ""
        many = f"{len(names)} candidate{'s' if len(names) > 1 else ''}" if names else "what would follow"
        what = f"{many} {'were' if len(names) > 1 else 'was'} not tried{listed}"
        warn_user(f"{why}; the best so far is used, and {what}.", SearchStoppedWarning)


class Stage:
    """A scoring on some rows, the candidates compared there, and the ledger of their evaluations."""

    def __init__(
        self,
        search: Search,
        name: str,
        scoring: Scoring,
        alphas: Any,
        candidates: Sequence[Candidate],
        finish: bool,
        shown_as: str,
    ) -> None:
        self._search, self.name, self.scoring = search, name, scoring
        self._finish, self._shown_as = finish, shown_as
        self.ledger = Ledger(scoring, alphas)
        self.candidates: list[Candidate] = []
        self._held: dict[tuple[Any, ...], Leader] = {}  # the best cell of every group so far
        for candidate in candidates:
            self.add(candidate)

    @property
    def _records(self) -> StageRecords:
        return StageRecords(self._search.checkpoint, self.name, self.ledger)

    def add(self, candidate: Candidate) -> int:
        """One more candidate, and its number."""
        self.candidates.append(candidate)
        return self.ledger.admit(candidate.params)

    def run(self, propose: Propose) -> Stage:
        """Evaluate what is proposed until nothing more is, or the search ends."""
        search, proposals = self._search, []
        try:
            while proposals := list(propose(self.ledger)):
                self.evaluate(proposals)
                if not search.goes_on():
                    break
        except KeyboardInterrupt as error:
            search.interrupt(error, self.ledger)
            if not self.ledger.has_score:  # but an earlier stage has found what is to be finished here
                self.evaluate(proposals[:1])
        search.end_stage(proposals, self.ledger)
        self._report_unsolved()
        return self

    def evaluate(self, proposals: Sequence[Proposal]) -> None:
        """Evaluate proposals, or find them in the journal; each is known to it before the next begins.

        Kernels run side by side in threads with one BLAS thread each where memory allows; otherwise one
        after the other with all threads inside each.
        """
        rest = []
        for number, ridges in proposals:
            known = self._records.recall(self.candidates[number], number, ridges)
            for entry in known:
                self.ledger.append(entry)
            missing = np.setdiff1d(ridges, np.concatenate([[], *(entry.ridges for entry in known)]))
            if missing.size:
                rest.append(Proposal(number, missing))
        runs = {id(run): run for run in (self.candidates[number].run for number, _ in rest)}
        at_most = min([len(rest), *(run.at_once for run in runs.values())])
        for scored in map_threads(self._solve, self._handed_out(rest), at_most):
            self._record(scored())
            del scored  # and its predictions, before the next model makes its own
            self._search.report_progress(self.ledger, self._shown_as)

    def _handed_out(self, proposals: Sequence[Proposal]) -> Iterator[Proposal]:
        """The proposals, one after the other, for as long as the search goes on."""
        for proposal in proposals:
            if not self._search.goes_on() and self.ledger.has_score:
                return
            yield proposal

    def _solve(self, proposal: Proposal) -> Callable[[], Evaluation]:
        """What a proposal's model gives; runs in any thread."""
        candidate = self.candidates[proposal.candidate]
        mu = self.scoring.problem.ridge(self.ledger.alphas[proposal.ridges])
        finish = self._finish and candidate.run.refit is None
        return solve(candidate, proposal.candidate, self.scoring, proposal.ridges, mu, finish=finish)

    def _record(self, evaluation: Evaluation) -> None:
        """Put an evaluation into the ledger; hold on to what leads its group."""
        self.ledger.append(evaluation)
        candidate, leader = self.candidates[evaluation.candidate], None
        if np.isfinite(evaluation.means).any():
            members = self._groups()
            index, ridge = self.ledger.best(members[candidate.group])
            if index == evaluation.candidate and ridge in evaluation.ridges:
                leader = self._leader(evaluation, ridge)
                # A model is kept for the final fit; of several groups' models only one would be used.
                leader = leader if len(members) == 1 else replace(leader, model=None)
                self._held[candidate.group] = leader
        self._records.remember(candidate, evaluation, leader)

    def _leader(self, evaluation: Evaluation, ridge: int) -> Leader:
        """What the evaluation of a candidate has beyond its scores."""
        number, found = evaluation.candidate, evaluation
        return Leader(
            self.candidates[number],
            number,
            ridge,
            float(self.ledger.alphas[ridge]),
            *evaluation.heldout(self.scoring, ridge),
            found.model,
            found.expansion,
            found.folds,
        )

    def _groups(self) -> dict[tuple[Any, ...], list[int]]:
        """The numbers of each group's candidates."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for number, candidate in enumerate(self.candidates):
            groups.setdefault(candidate.group, []).append(number)
        return groups

    def found(self, select: Select = "min", **more: Any) -> Found:
        """The choice among what was evaluated.

        `select` takes the best cell of the chosen group, or the most regularised within a standard
        error. `more` are further fields.
        """
        groups, ledger = self._groups().values(), self.ledger
        scored = [numbers for numbers in groups if any(map(ledger.scored, numbers))]
        if not scored:
            ledger.best()  # raises: there is nothing to choose from
        leaders = [self.leader(*ledger.best(numbers)) for numbers in scored]
        leader = choose(leaders, self.scoring, ledger)
        if not beats_constant(leader.heldout, self.scoring):
            leader = self.leader(*self._flattest())
        elif select == "1se":
            leader = self.leader(*self.simplest(leader.index, leader.ridge))
        return self._found(leader, leaders, **more)

    def chosen(self, index: int, ridge: int) -> Found:
        """A given cell as the choice."""
        leader = self.leader(index, ridge)
        return self._found(leader, [leader])

    def _found(self, leader: Leader, leaders: list[Leader], **more: Any) -> Found:
        candidate = leader.candidate
        report = self.ledger.report(leader.index) | candidate.run.approximation.diagnose(
            candidate.kernel, candidate.run.problem
        )
        return Found(self.ledger, leaders, leader, report, self.scoring, **more)

    def simplest(self, index: int, ridge: int) -> tuple[int, int]:
        """Of a cell's group the cell of the largest ridge within one standard error of it."""
        return self.ledger.simplest((index, ridge), self._groups()[self.candidates[index].group])

    def _flattest(self) -> tuple[int, int]:
        """Of the simplest candidates the cell of the largest ridge, then of the smallest width."""
        ledger, candidates = self.ledger, self.candidates
        scored = [number for number in range(len(candidates)) if ledger.scored(number)]
        least = min(candidates[number].complexity for number in scored)
        cells = [
            (ledger.alphas[ridge], -float(candidates[number].params.get("gamma", 1.0)), -number, ridge)
            for number in scored
            if candidates[number].complexity == least
            for ridge in range(ledger.alphas.size)
            if np.isfinite(ledger.score(number, ridge))
        ]
        _, _, number, ridge = max(cells)
        return -number, ridge

    def leader(self, index: int, ridge: int) -> Leader:
        """A cell with its held-out predictions: those at hand, or made again."""
        candidate, alpha = self.candidates[index], float(self.ledger.alphas[ridge])
        leader = self._held.get(candidate.group)
        if leader is None or leader.index != index:
            known = self._records.predictions(candidate, ridge)
            if known is None:
                # A cell that came from a journal, evaluated once more as it was: to the same digits.
                again = self._solve(Proposal(index, self.ledger.entry(index, ridge).ridges))()
                leader = self._leader(again, ridge)
            else:
                leader = Leader(candidate, index, ridge, alpha, known)
        elif leader.ridge != ridge:
            leader = Leader(candidate, index, ridge, alpha, model=leader.model)
        if leader.heldout is None and self.scoring.splits is not None:
            model = candidate.model(1) if leader.model is None else leader.model
            mu = float(self.scoring.problem.ridge(alpha))
            heldout, of_splits = self.scoring.heldout_at(model, mu)
            leader = replace(leader, heldout=heldout, of_splits=of_splits)
        return leader

    def _report_unsolved(self) -> None:
        """Say how many cells have no score, and why; raise if none has."""
        entries = self.ledger.entries
        unsolved, total = sum(e.unsolved for e in entries), sum(len(e.ridges) for e in entries)
        if not unsolved:
            return
        reasons = [entry.why for entry in entries if entry.unsolved and entry.why]
        default = (
            "their matrix plus alpha is not positive definite; use larger alphas or gammas, or "
            'negative="clip" in the approximation.'
        )
        why = reasons[0] if reasons else default
        text = f"{unsolved} of {total} combinations of kernel and alpha have no score (NaN): {why}"
        if unsolved == total:
            raise NoScoreError(text)
        warn_user(text)
