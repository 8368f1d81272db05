"""The seam between strategies and the loop: rounds, resumption, fewer cells."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import KFold

from onefold.approximations import Exact, Nystroem, Problem, Workload
from onefold.criteria import Task, resolve_criterion
from onefold.heldout import make_splits
from onefold.kernels import RBF
from onefold.machine.journal import Journal
from onefold.search import Proposal
from onefold.search.checkpoint import Checkpoint
from onefold.search.evaluation import Candidate
from onefold.search.loop import Found, Search, Stage

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


def run_grid(
    candidates: list[Candidate],
    alphas: Any,
    score: Any,
    search: Search | None = None,
    name: str = "grid",
) -> Found:
    """Every candidate with every ridge."""
    stage = (search or Search()).stage(name, candidates, scoring=score, alphas=alphas)
    return stage.run([stage.every_cell()]).found()


def around(stage: Stage, seen: list[dict[str, Any]]) -> Iterator[list[Proposal]]:
    """First a few widths; then those on either side of the best, with the ridges near its own."""
    yield [Proposal(stage.add(candidate(g)), np.arange(3)) for g in (0.01, 0.4, 16.0)]
    best, ridge = stage.ledger.best()
    seen.append(stage.ledger.progress())
    gamma = stage.candidates[best].params.get("gamma")
    assert gamma is not None
    near = np.unique(np.clip([ridge - 1, ridge], 0, 2))
    yield [Proposal(stage.add(candidate(g)), near) for g in (gamma / 2, gamma * 2)]


def test_two_rounds_of_proposals() -> None:
    events: list[Any] = []
    stage = Search(None, events.append).stage(scoring=scoring(), alphas=ALPHAS)
    seen: list[dict[str, Any]] = []
    found = stage.run(around(stage, seen)).found()
    assert seen[0]["done"] == 3
    assert [event["done"] for event in events] == [1, 2, 3, 4, 5]
    assert [event["total"] for event in events] == [3, 3, 3, 5, 5]
    assert found.ledger.params[3:] == [{"gamma": 0.2}, {"gamma": 0.8}]
    whole = run_grid(stage.candidates, ALPHAS, scoring())
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
    alone = run_grid([stage.candidates[best]], ALPHAS[[ridge]], scoring())
    assert_allclose(found.leader.heldout, alone.leader.heldout, rtol=1e-9, atol=1e-12)


def test_the_model_that_is_chosen_is_kept_where_it_is_small() -> None:
    kernels = [RBF(g) for g in (0.1, 0.5, 2.0)]
    for approximation, kept in ((Exact(), False), (Nystroem(20), True)):
        score = scoring()
        load = Workload(3, ALPHAS.size, folds=4, parts=score.parts)
        run = approximation.start(score.problem, kernels, load)
        candidates = [Candidate(run, kernel, {"gamma": kernel.gamma}) for kernel in kernels]
        found = run_grid(candidates, ALPHAS, score)
        assert (found.leader.model is not None) is kept
        assert found.leader.candidate is candidates[found.leader.index]
        assert found.leader.alpha == ALPHAS[found.leader.ridge]


def test_no_score_at_all_is_an_error_and_some_without_one_a_warning() -> None:
    def refuses(estimator: Any, rows: Any, y: Any) -> float:
        raise ValueError("never")

    with pytest.raises(ValueError, match=r"^3 of 3 combinations .*refuses their predictions \(never\)"):
        run_grid([candidate(1.0)], ALPHAS, scoring(refuses))

    def sometimes(estimator: Any, rows: Any, y: Any) -> float:
        if np.ptp(estimator.predict(rows)) < 1e-3:
            raise ValueError("flat")
        return 0.0

    with pytest.warns(UserWarning, match=r"^1 of 2 combinations .*\(flat\)"):
        run_grid([candidate(1.0)], [0.1, 1e7], scoring(sometimes))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_grid([candidate(1.0)], [0.1, 1.0], scoring(sometimes))


def test_parts_of_a_search_do_not_take_each_others_evaluations(tmp_path: Path) -> None:
    with Journal(tmp_path / "search") as journal:
        journal.append({"version": "this"})
        events: list[Any] = []
        for part in ("grid", "another", "grid"):
            search = Search(None, events.append, checkpoint=Checkpoint(journal))
            run_grid([candidate(0.5)], ALPHAS, scoring(), search, part)
    assert [event["part"] for event in events] == ["grid", "another"]
