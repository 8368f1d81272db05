"""The seam between strategies and the loop: rounds, resumption, fewer cells."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold

from onefold.approximations import Exact, Nystroem, Problem, Workload
from onefold.criteria import Task, resolve_criterion
from onefold.heldout import make_splits
from onefold.kernels import RBF
from onefold.machine.journal import Journal
from onefold.search import (
    Candidate,
    Conduct,
    Grid,
    Keeping,
    Ledger,
    Proposal,
    make_candidates,
    run_search,
)

RNG = np.random.default_rng(9)
X = RNG.standard_normal((60, 2))
Y = np.sin(2 * X[:, :1]) + 0.1 * RNG.standard_normal((60, 1))
ALPHAS = np.array([1e-3, 0.1, 2.0])


def scoring(criterion: Any = "mse", folds: int = 4) -> Any:
    problem, task = Problem(X, Y, None, True), Task(X, Y[:, 0], None)
    splits = make_splits(KFold(folds), X, Y, n=60)
    return resolve_criterion(criterion, classifier=False).start(problem, task, splits)


def candidate(gamma: float, approximation: Any = None) -> Candidate:
    load = Workload(alphas=ALPHAS.size, folds=4)
    run = (approximation or Exact()).start(Problem(X, Y, None, True), [RBF(gamma)], load)
    return Candidate(run, RBF(gamma), {"gamma": gamma})


class Around:
    """First a few widths; then those on either side of the best, with the ridges near its own."""

    finishes = False

    def __init__(self) -> None:
        self.candidates = [candidate(g) for g in (0.01, 0.4, 16.0)]
        self.alphas = ALPHAS
        self.seen: list[dict[str, Any]] = []

    def propose(self, ledger: Ledger) -> list[Proposal]:
        if not ledger.entries:
            return [Proposal(number, np.arange(3)) for number in range(3)]
        if len(self.candidates) > 3:
            return []
        best, ridge = ledger.best()
        self.seen.append(ledger.progress())
        gamma = self.candidates[best].width
        assert gamma is not None
        self.candidates += [candidate(gamma / 2), candidate(gamma * 2)]
        near = np.unique(np.clip([ridge - 1, ridge], 0, 2))
        return [Proposal(3, near), Proposal(4, near)]


def test_a_strategy_of_two_rounds() -> None:
    strategy, events = Around(), []
    found = run_search(strategy, scoring(), Conduct(events.append))
    assert strategy.seen[0]["done"] == 3
    assert [event["done"] for event in events] == [1, 2, 3, 4, 5]
    assert [event["total"] for event in events] == [3, 3, 3, 5, 5]
    assert found.ledger.params[3:] == [{"gamma": 0.2}, {"gamma": 0.8}]
    whole = run_search(Grid(strategy.candidates, ALPHAS), scoring())
    cells = {
        (entry.candidate, int(ridge)): scores
        for entry in found.ledger.entries
        for ridge, scores in zip(entry.ridges, entry.scores)
    }
    assert len(cells) in (11, 13)
    for entry in whole.ledger.entries:
        for ridge in entry.ridges:
            if (entry.candidate, int(ridge)) in cells:
                assert_allclose(cells[entry.candidate, int(ridge)], entry.scores[ridge], rtol=1e-9)
    best, ridge = found.ledger.best()
    alone = run_search(Grid([strategy.candidates[best]], ALPHAS[[ridge]]), scoring())
    assert_allclose(found.heldout, alone.heldout, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("approximation", [Exact(), Nystroem(20)], ids=["exact", "nystroem"])
@pytest.mark.parametrize("criterion", ["mse", "r2", "mape"])
def test_a_journal_is_gone_on_with(approximation: Any, criterion: str, tmp_path: Path) -> None:
    candidates = [candidate(g, approximation) for g in (0.1, 0.5, 2.0, 8.0)]
    whole = run_search(Grid(candidates, ALPHAS), scoring(criterion))
    for done in (1, 3, 4):
        path = tmp_path / f"after {done}"
        with Journal(path) as journal:
            journal.append({"version": "this"})
            run_search(
                Grid(candidates[:done], ALPHAS), scoring(criterion), Conduct(keeping=Keeping(journal))
            )
        events: list[Any] = []
        with Journal(path) as journal:
            conduct = Conduct(events.append, keeping=Keeping(journal))
            again = run_search(Grid(candidates, ALPHAS), scoring(criterion), conduct)
        assert len(events) == 4 - done
        assert (again.leader.index, again.leader.ridge) == (whole.leader.index, whole.leader.ridge)
        assert again.report == whole.report
        assert_array_equal(again.heldout, whole.heldout)
        table, expected = again.ledger.cv_results(), whole.ledger.cv_results()
        assert_array_equal(table["mean_test_score"], expected["mean_test_score"])


def test_the_model_that_is_chosen_is_kept_where_it_is_small() -> None:
    kernels = [RBF(g) for g in (0.1, 0.5, 2.0)]
    for approximation, kept in ((Exact(), False), (Nystroem(20), True)):
        score = scoring()
        load = Workload(3, ALPHAS.size, folds=4, parts=score.parts)
        run = approximation.start(score.problem, kernels, load)
        candidates = make_candidates(run, kernels, [{"gamma": g} for g in (0.1, 0.5, 2.0)])
        found = run_search(Grid(candidates, ALPHAS), score)
        assert (found.leader.model is not None) is kept
        assert found.chosen is candidates[found.leader.index]
        assert found.alpha == ALPHAS[found.leader.ridge]


def test_no_score_at_all_is_an_error_and_some_without_one_a_warning() -> None:
    def refuses(estimator: Any, rows: Any, y: Any) -> float:
        raise ValueError("never")

    with pytest.raises(ValueError, match=r"^3 of 3 combinations .*refuses their predictions \(never\)"):
        run_search(Grid([candidate(1.0)], ALPHAS), scoring(refuses))

    def sometimes(estimator: Any, rows: Any, y: Any) -> float:
        if np.ptp(estimator.predict(rows)) < 1e-3:
            raise ValueError("flat")
        return 0.0

    with pytest.warns(UserWarning, match=r"^1 of 2 combinations .*\(flat\)"):
        run_search(Grid([candidate(1.0)], [0.1, 1e7]), scoring(sometimes))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_search(Grid([candidate(1.0)], [0.1, 1.0]), scoring(sometimes))


def test_a_larger_grid_fills_in_the_cells_that_a_journal_lacks(tmp_path: Path) -> None:
    candidates = [candidate(g) for g in (0.1, 0.5)]
    whole = run_search(Grid(candidates, ALPHAS), scoring())
    with Journal(tmp_path / "search") as journal:
        journal.append({"version": "this"})
        small = Grid([candidate(0.5)], ALPHAS[1:2])
        run_search(small, scoring(), Conduct(keeping=Keeping(journal)))
        again = run_search(Grid(candidates, ALPHAS), scoring(), Conduct(keeping=Keeping(journal)))
    tried = [(entry.candidate, entry.ridges.tolist()) for entry in again.ledger.entries]
    assert sorted(tried) == [(0, [0, 1, 2]), (1, [0, 2]), (1, [1])]
    expected = whole.ledger.cv_results()["mean_test_score"]
    assert_allclose(again.ledger.cv_results()["mean_test_score"], expected, rtol=1e-10)
    assert again.leader.index == whole.leader.index


def test_parts_of_a_search_do_not_take_each_others_evaluations(tmp_path: Path) -> None:
    with Journal(tmp_path / "search") as journal:
        journal.append({"version": "this"})
        events: list[Any] = []
        for part in ("grid", "another", "grid"):
            conduct = Conduct(events.append, keeping=Keeping(journal))
            run_search(Grid([candidate(0.5)], ALPHAS), scoring(), conduct, part)
    assert [event["part"] for event in events] == ["grid", "another"]
