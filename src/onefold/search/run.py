"""The loop of a search: a strategy proposes, models are solved side by side, the ledger remembers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from onefold.criteria import Scoring
from onefold.machine.threads import map_threads
from onefold.machine.warning import warn_user
from onefold.search.candidates import Candidate, models_side_by_side
from onefold.search.choice import Leader, choose
from onefold.search.conduct import Conduct
from onefold.search.constant import beats_constant
from onefold.search.evaluate import Evaluation, Solved, evaluate, solve
from onefold.search.keeping import KeptPart
from onefold.search.ledger import Ledger
from onefold.search.strategies import Proposal, Strategy

Select = Literal["min", "1se"]


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes
    ----------
    ledger : Ledger
        Every evaluation.
    leaders : list of Leader
        The best cell of every group of candidates, in the order of the groups.
    leader : Leader
        The chosen one of them.
    report : dict
        What the approximation said of the chosen candidate.
    """

    ledger: Ledger
    leaders: list[Leader]
    leader: Leader
    report: dict[str, Any]

    @property
    def chosen(self) -> Candidate:
        """The chosen candidate."""
        return self.leader.candidate

    @property
    def heldout(self) -> Any | None:
        """Held-out predictions (n, targets) at the chosen cell; None for criteria that make none."""
        return self.leader.heldout

    @property
    def alpha(self) -> float:
        """The chosen ridge, in the user's units."""
        return float(self.ledger.alphas[self.leader.ridge])


class NoScoreError(ValueError):
    """No cell of a search has a score."""


class _Leaders:
    """The best cell of every group so far, with what would have to be made again if it stays so."""

    def __init__(self, strategy: Strategy, scoring: Scoring, ledger: Ledger, kept: KeptPart) -> None:
        self.strategy, self._scoring, self.ledger, self.kept = strategy, scoring, ledger, kept
        self._ridges = scoring.problem.ridge(strategy.alphas)
        self._held: dict[tuple[Any, ...], Leader] = {}

    def solved(self, proposal: Proposal) -> tuple[Proposal, Solved]:
        """What a proposal's model gives; runs in any thread."""
        candidate, tried = self.strategy.candidates[proposal.candidate], self._ridges[proposal.ridges]
        finish = self.strategy.finishes and candidate.run.refit is None
        found = solve(lambda: candidate.model(len(tried)), self._scoring, tried, finish=finish)
        return proposal, found

    def record(self, proposal: Proposal, found: Solved) -> None:
        """Score what a model gave and put it into the ledger; hold on to what leads its group."""
        evaluation = evaluate(found, self._scoring, proposal.ridges)
        entry = evaluation.entry(proposal.candidate)
        self.ledger.append(entry)
        leader = self._leader(proposal, evaluation) if evaluation.has_score else None
        candidate = self.strategy.candidates[proposal.candidate]
        if leader is not None:
            self._held[candidate.group] = leader
        self.kept.remember(candidate, entry, leader)

    def _leader(self, proposal: Proposal, evaluation: Evaluation) -> Leader | None:
        """What the evaluation of a candidate has beyond its scores, if it leads its group."""
        found = evaluation.solved
        candidate = self.strategy.candidates[proposal.candidate]
        index, ridge = self.ledger.best(self._members()[candidate.group])
        if index != proposal.candidate or ridge not in proposal.ridges:
            return None
        heldout = evaluation.heldout(self._scoring, ridge)
        # A model is kept for the final fit; of several groups' models only one would be used.
        model = found.model if len(self._members()) == 1 else None
        return Leader(candidate, index, ridge, *heldout, model, found.expansion, found.folds)

    def _members(self) -> dict[tuple[Any, ...], list[int]]:
        """The numbers of each group's candidates."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for number, candidate in enumerate(self.strategy.candidates):
            groups.setdefault(candidate.group, []).append(number)
        return groups

    def all(self) -> list[Leader]:
        """The best cell of every group with its held-out predictions: those at hand, or made again."""
        groups, ledger = self._members().items(), self.ledger
        scored = [(key, numbers) for key, numbers in groups if any(map(ledger.scored, numbers))]
        if not scored:
            ledger.best()  # raises: there is nothing to choose from
        return [self._finished(key, *ledger.best(numbers)) for key, numbers in scored]

    def flattest(self) -> Leader:
        """Of the simplest candidates the cell of the largest ridge, then of the smallest width."""
        ledger, candidates = self.ledger, self.strategy.candidates
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
        return self._finished(candidates[-number].group, -number, ridge)

    def _again(self, index: int, ridge: int) -> Leader:
        """A cell that came from a journal, evaluated once more as it was: to the same digits."""
        proposal = Proposal(index, self.ledger.entry(index, ridge).ridges)
        _, found = self.solved(proposal)
        evaluation = evaluate(found, self._scoring, proposal.ridges)
        heldout = evaluation.heldout(self._scoring, ridge)
        candidate = self.strategy.candidates[index]
        return Leader(candidate, index, ridge, *heldout, found.model, found.expansion, found.folds)

    def simplest(self, best: Leader) -> Leader:
        """Of a leader's group the cell of the largest ridge within one standard error of it."""
        group = best.candidate.group
        cell = self.ledger.simplest((best.index, best.ridge), self._members()[group])
        return self._finished(group, *cell)

    def _finished(self, group: tuple[Any, ...], index: int, ridge: int) -> Leader:
        candidate, scoring = self.strategy.candidates[index], self._scoring
        leader = self._held.get(group)
        if leader is None or leader.index != index:
            known = self.kept.predictions(candidate, ridge)
            leader = (
                self._again(index, ridge) if known is None else Leader(candidate, index, ridge, known)
            )
        elif leader.ridge != ridge:
            leader = Leader(candidate, index, ridge, model=leader.model)
        if leader.heldout is None and scoring.splits is not None:
            predicting = candidate.model(1) if leader.model is None else leader.model
            alpha = float(scoring.problem.ridge(self.ledger.alphas[ridge]))
            leader = leader.predicting(*scoring.heldout_at(predicting, alpha))
        return leader


def run_search(
    strategy: Strategy,
    scoring: Scoring,
    conduct: Conduct | None = None,
    part: str = "grid",
    *,
    select: Select = "min",
) -> SearchResult:
    """Evaluate what the strategy proposes until it proposes nothing more, and choose.

    Kernels run side by side in threads with one BLAS thread each where memory allows; otherwise one
    after the other with all threads inside each. What is known of this `part` of the search is not
    evaluated again. A search that ends early chooses among what it has tried. `select` takes the best
    cell of the chosen group, or the most regularised within a standard error.
    """
    conduct = Conduct() if conduct is None else conduct
    names = [candidate.params for candidate in strategy.candidates]
    ledger = Ledger.of(scoring, names, strategy.alphas)
    kept = KeptPart(conduct.keeping, part, ledger.alphas)
    leaders = _Leaders(strategy, scoring, ledger, kept)
    proposals: list[Proposal] = []
    try:
        while proposals := strategy.propose(ledger):
            ledger.admit([c.params for c in strategy.candidates[len(ledger.params) :]])
            _evaluate(proposals, leaders, conduct, part)
            if not conduct.goes_on():
                break
    except KeyboardInterrupt as error:
        conduct.interrupt(error, ledger)
        if not ledger.has_score:  # but an earlier part has found what is to be finished here
            _evaluate(proposals[:1], leaders, conduct, part)
    conduct.end_part(proposals, ledger)
    _report_unsolved(ledger)
    best = leaders.all()
    leader = choose(best, scoring, ledger)
    if not beats_constant(leader.heldout, scoring):
        leader = leaders.flattest()
    elif select == "1se":
        leader = leaders.simplest(leader)
    report = ledger.report(leader.index) | leader.candidate.diagnose()
    return SearchResult(ledger, best, leader, report)


def _evaluate(proposals: list[Proposal], leaders: _Leaders, conduct: Conduct, part: str) -> None:
    """Evaluate proposals, or find them in the journal; each is known to it before the next is begun."""
    ledger, strategy = leaders.ledger, leaders.strategy
    rest = []
    for number, ridges in proposals:
        known = leaders.kept.recall(strategy.candidates[number], number, ridges)
        for entry in known:
            ledger.append(entry)
        missing = np.setdiff1d(ridges, np.concatenate([[], *(entry.ridges for entry in known)]))
        if missing.size:
            rest.append(Proposal(number, missing))
    at_most = min(len(rest), models_side_by_side(strategy.candidates))
    for proposal, found in map_threads(leaders.solved, conduct.handed_out(rest, ledger), at_most):
        leaders.record(proposal, found)
        del found  # and its predictions, before the next model makes its own
        conduct.tell(ledger, part)


def _report_unsolved(ledger: Ledger) -> None:
    """Say how many cells have no score, and why; raise if none has."""
    unsolved = sum(entry.unsolved for entry in ledger.entries)
    if not unsolved:
        return
    total = sum(len(entry.ridges) for entry in ledger.entries)
    reasons = [entry.why for entry in ledger.entries if entry.unsolved and entry.why]
    reason = (
        reasons[0]
        if reasons
        else (
            "their matrix plus alpha is not positive definite; use larger alphas or gammas, or "
            'negative="clip" in the approximation.'
        )
    )
    text = f"{unsolved} of {total} combinations of kernel and alpha have no score (NaN): {reason}"
    if unsolved == total:
        raise NoScoreError(text)
    warn_user(text)
