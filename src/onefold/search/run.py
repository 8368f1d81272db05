"""The loop of a search: a strategy proposes, models are solved side by side, the ledger remembers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from onefold.criteria import Scoring
from onefold.machine.threads import map_threads
from onefold.search.candidates import Candidate, models_side_by_side
from onefold.search.choice import Leader, choose
from onefold.search.constant import beats_constant
from onefold.search.entry import Entry
from onefold.search.evaluate import Solved, evaluate, solve
from onefold.search.ledger import Ledger
from onefold.search.strategies import Proposal, Strategy

Callback = Callable[[dict[str, Any]], None]
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


class _Leaders:
    """The best cell of every group so far, with what would have to be made again if it stays so."""

    def __init__(self, strategy: Strategy, scoring: Scoring, ledger: Ledger) -> None:
        self._strategy, self._scoring, self._ledger = strategy, scoring, ledger
        self._held: dict[tuple[Any, ...], Leader] = {}

    def record(self, proposal: Proposal, found: Solved) -> None:
        """Score what a model gave and put it into the ledger; hold on to what leads its group."""
        evaluation = evaluate(found, self._scoring, proposal.ridges)
        report = dict(found.report)
        scores, why, ranks = evaluation.scores, evaluation.why, evaluation.ranks
        entry = Entry(*proposal, scores, found.seconds, why, report, ranks, evaluation.others)
        self._ledger.append(entry)
        if not evaluation.has_score:
            return
        candidate = self._strategy.candidates[proposal.candidate]
        index, ridge = self._ledger.best(self._members()[candidate.group])
        if index != proposal.candidate:
            return
        heldout = evaluation.heldout(self._scoring, ridge)
        # A model is kept for the final fit; of several groups' models only one would be used.
        model = found.model if len(self._members()) == 1 else None
        self._held[candidate.group] = Leader(candidate, index, ridge, *heldout, model, found.expansion)

    def _members(self) -> dict[tuple[Any, ...], list[int]]:
        """The numbers of each group's candidates."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for number, candidate in enumerate(self._strategy.candidates):
            groups.setdefault(candidate.group, []).append(number)
        return groups

    def all(self) -> list[Leader]:
        """The best cell of every group with its held-out predictions: those at hand, or made again."""
        groups, ledger = self._members().items(), self._ledger
        scored = [(key, numbers) for key, numbers in groups if any(map(ledger.scored, numbers))]
        if not scored:
            ledger.best()  # raises: there is nothing to choose from
        return [self._finished(key, *ledger.best(numbers)) for key, numbers in scored]

    def flattest(self) -> Leader:
        """Of the simplest candidates the cell of the largest ridge, then of the smallest width."""
        ledger, candidates = self._ledger, self._strategy.candidates
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

    def simplest(self, best: Leader) -> Leader:
        """Of a leader's group the cell of the largest ridge within one standard error of it."""
        group = best.candidate.group
        cell = self._ledger.simplest((best.index, best.ridge), self._members()[group])
        return self._finished(group, *cell)

    def _finished(self, group: tuple[Any, ...], index: int, ridge: int) -> Leader:
        candidate, scoring = self._strategy.candidates[index], self._scoring
        leader = self._held.get(group)
        if leader is None or leader.index != index:
            leader = Leader(candidate, index, ridge)
        elif leader.ridge != ridge:
            leader = Leader(candidate, index, ridge, model=leader.model)
        if leader.heldout is None and scoring.splits is not None:
            predicting = candidate.model(1) if leader.model is None else leader.model
            alpha = float(scoring.problem.ridge(self._ledger.alphas[ridge]))
            leader = leader.predicting(*scoring.heldout_at(predicting, alpha))
        return leader


def run_search(
    strategy: Strategy,
    scoring: Scoring,
    callback: Callback | None = None,
    ledger: Ledger | None = None,
    *,
    select: Select = "min",
) -> SearchResult:
    """Evaluate what the strategy proposes until it proposes nothing more, and choose.

    Kernels run side by side in threads with one BLAS thread each where memory allows; otherwise one
    after the other with all threads inside each. A `ledger` of earlier evaluations is gone on with.
    `select` takes the best cell of the chosen group, or the most regularised within a standard error.
    """
    problem, per_split = scoring.problem, scoring.splits is not None
    ridges = problem.ridge(strategy.alphas)
    names = [candidate.params for candidate in strategy.candidates]
    others = {name: len(one.splits or ()) for name, one in scoring.others.items()}
    empty = Ledger(names, strategy.alphas, scoring.n_scores, per_split=per_split, others=others)
    if ledger is None:
        ledger = empty
    ledger.require_beginning_of(empty)
    leaders = _Leaders(strategy, scoring, ledger)

    def solved(proposal: Proposal) -> tuple[Proposal, Solved]:
        candidate, tried = strategy.candidates[proposal.candidate], ridges[proposal.ridges]
        finish = strategy.finishes and candidate.run.refit is None
        return proposal, solve(lambda: candidate.model(len(tried)), scoring, tried, finish=finish)

    while proposals := strategy.propose(ledger):
        ledger.admit([c.params for c in strategy.candidates[len(ledger.params) :]])
        at_most = min(len(proposals), models_side_by_side(strategy.candidates))
        for proposal, found in map_threads(solved, proposals, at_most):
            leaders.record(proposal, found)
            del found  # and its predictions, before the next model makes its own
            if callback is not None:
                callback(ledger.progress())
    _report_unsolved(ledger)
    best = leaders.all()
    leader = choose(best, scoring, ledger)
    if not beats_constant(leader.heldout, scoring):
        leader = leaders.flattest()
    elif select == "1se":
        leader = leaders.simplest(leader)
    report = ledger.report(leader.index) | leader.candidate.diagnose()
    return SearchResult(ledger, best, leader, report)


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
        raise ValueError(text)
    warnings.warn(text, UserWarning, stacklevel=4)
