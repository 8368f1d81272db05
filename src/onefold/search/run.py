"""The loop of a search: a strategy proposes, models are solved side by side, the ledger remembers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from onefold.approximations import Model
from onefold.criteria import Scoring
from onefold.machine.threads import map_threads
from onefold.search.candidates import Candidate, models_side_by_side
from onefold.search.evaluate import Solved, evaluate, solve
from onefold.search.ledger import Entry, Ledger
from onefold.search.strategies import Proposal, Strategy

Callback = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes
    ----------
    ledger : Ledger
        Every evaluation.
    index, ridge : int
        The chosen cell: numbers of the candidate and of the ridge.
    chosen : Candidate
    heldout : array (n, targets) or None
        Held-out predictions at the chosen cell; None for criteria that make none.
    report : dict
        What the approximation said of the chosen candidate.
    model : Model or None
        The model of the chosen candidate, if it is one that a search keeps.
    """

    ledger: Ledger
    index: int
    ridge: int
    chosen: Candidate
    heldout: Any
    report: dict[str, Any]
    model: Model | None

    @property
    def alpha(self) -> float:
        """The chosen ridge, in the user's units."""
        return float(self.ledger.alphas[self.ridge])


@dataclass(frozen=True)
class _Leader:
    """The best cell so far, with what would have to be made again if it stays the best."""

    cell: tuple[int, int]
    heldout: Any | None
    model: Model | None


def run_search(
    strategy: Strategy, scoring: Scoring, callback: Callback | None = None, ledger: Ledger | None = None
) -> SearchResult:
    """Evaluate what the strategy proposes until it proposes nothing more, and choose.

    Kernels run side by side in threads with one BLAS thread each where memory allows; otherwise one
    after the other with all threads inside each. A `ledger` of earlier evaluations is gone on with.
    """
    problem, per_split = scoring.problem, scoring.splits is not None
    ridges = problem.ridge(strategy.alphas)
    names = [candidate.params for candidate in strategy.candidates]
    empty = Ledger(names, strategy.alphas, scoring.n_scores, per_split=per_split)
    if ledger is None:
        ledger = empty
    ledger.require_beginning_of(empty)
    leader: _Leader | None = None

    def solved(proposal: Proposal) -> tuple[Proposal, Solved]:
        candidate, tried = strategy.candidates[proposal.candidate], ridges[proposal.ridges]
        return proposal, solve(lambda: candidate.model(len(tried)), scoring, tried)

    while proposals := strategy.propose(ledger):
        ledger.admit([c.params for c in strategy.candidates[len(ledger.params) :]])
        at_most = min(len(proposals), models_side_by_side(strategy.candidates))
        for proposal, found in map_threads(solved, proposals, at_most):
            leader = _recorded(proposal, found, scoring, ledger) or leader
            del found  # and its predictions, before the next model makes its own
            if callback is not None:
                callback(ledger.progress())
    _report_unsolved(ledger)
    return _chosen(strategy, scoring, ledger, leader)


def _recorded(proposal: Proposal, found: Solved, scoring: Scoring, ledger: Ledger) -> _Leader | None:
    """Score what a model gave and put it into the ledger; what to hold on to if it leads."""
    evaluation = evaluate(found, scoring, proposal.ridges)
    report = dict(found.report)
    ledger.append(Entry(*proposal, evaluation.scores, found.seconds, evaluation.why, report))
    if not evaluation.has_score or (cell := ledger.best())[0] != proposal.candidate:
        return None
    return _Leader(cell, evaluation.heldout(scoring, cell[1]), found.model)


def _chosen(
    strategy: Strategy, scoring: Scoring, ledger: Ledger, leader: _Leader | None
) -> SearchResult:
    """The best cell with its held-out predictions: those at hand, or made again."""
    index, ridge = ledger.best()
    candidate, problem = strategy.candidates[index], scoring.problem
    report = ledger.report(index) | candidate.diagnose()
    model, heldout = None, None
    if leader is not None and leader.cell[0] == index:
        model = leader.model
        heldout = leader.heldout if leader.cell[1] == ridge else None
    if heldout is None and scoring.splits is not None:
        predicting = candidate.model(1) if model is None else model
        heldout = scoring.heldout_at(predicting, float(problem.ridge(ledger.alphas[ridge])))
    return SearchResult(ledger, index, ridge, candidate, heldout, report, model)


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
