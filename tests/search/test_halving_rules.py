"""The rules of halving by themselves: who survives, where the last stage goes, what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone

from onefold import LSSVCCV, LSSVRCV
from onefold.approximations import Circulant, Nystroem
from onefold.search import Halving
from onefold.search.evaluation import Evaluation
from onefold.search.halving import climb, compare, next_widths, ridge_windows
from onefold.search.ledger import Ledger
from tests.search.ledgers import empty_ledger

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")


def climbed(scores: Any, cells: dict[int, list[int]], windows: Any = None) -> Ledger:
    """The ledger of a climb over a table (widths, ridges) of known scores."""
    widths, ridges = scores.shape
    names = [{"gamma": float(g)} for g in range(1, widths + 1)]
    alphas = np.arange(1.0, ridges + 1)
    near = [np.arange(max(0, r - 1), min(ridges, r + 2)) for r in range(ridges)]
    first = {number: np.array(own) for number, own in cells.items()}
    ledger = empty_ledger(names, alphas, 1)
    batches = climb(ledger, first, next_widths(names), near if windows is None else windows)
    for count, proposals in enumerate(batches):
        assert count <= widths * ridges, "the climb did not end"
        assert proposals
        for number, tried in proposals:
            ledger.append(Evaluation(number, tried, scores[number, tried][:, None], 0.0, None, {}))
    return ledger


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 8))
@settings(max_examples=60)
def test_a_climb_ends_in_a_local_optimum(seed: int, widths: int, ridges: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((widths, ridges))
    ledger = climbed(scores, {int(rng.integers(widths)): [int(rng.integers(ridges))]})
    best, ridge = ledger.best()
    for number in range(max(0, best - 1), min(widths, best + 2)):
        top = ledger.best([number])[1]  # of those tried: no neighbour of it is left
        assert_array_equal(np.intersect1d(ledger.untried(number), [top - 1, top + 1]), [])
        assert ledger.ranks[number, top] <= ledger.ranks[best, ridge]


def test_a_climb_finds_the_top_of_a_smooth_hill() -> None:
    widths, ridges = np.meshgrid(np.arange(9.0), np.arange(7.0), indexing="ij")
    scores = -((widths - 6) ** 2) - (ridges - 1 - (widths - 6)) ** 2  # a slanting ridge
    assert climbed(scores, {1: [5, 6]}).best() == (6, 1)
    assert climbed(scores, {1: [5]}, [np.arange(7)] * 7).best() == (6, 1)


def test_a_climb_looks_around_where_the_best_width_has_moved() -> None:
    scores = np.array([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0], [3.0, 1.5, 1.4, 1.0]])
    # The third width was tried with its worst ridge alone, and the second one leads the first.
    assert climbed(scores, {0: [0, 1, 2], 1: [2], 2: [3]}).best() == (2, 0)
    # Its neighbours are tried with the ridges around their own where it stays the best, too.
    scores[1] = 0.0
    assert climbed(scores[:2], {0: [0, 1, 2], 1: [2]}).untried(1).tolist() == [0]


def test_a_climb_without_scores_ends() -> None:
    ledger = climbed(np.full((3, 2), np.nan), {1: [0, 1]})
    assert not ledger.scored()
    assert len(ledger.entries) == 1


def test_neighbours_are_of_the_same_family() -> None:
    names = [{"gamma": 4.0}, {"gamma": 1.0}, {"gamma": 2.0}, {"gamma": 2.0}]
    assert next_widths(names) == [[2, 3], [2, 3], [0, 1], [0, 1]]
    families = [{"kernel": "a", "gamma": 1.0}, {"kernel": "b", "gamma": 2.0}, {"kernel": "c"}]
    assert next_widths(families) == [[], [], []]


def test_a_classifier_is_compared_by_its_rows() -> None:
    """0/1 losses of the best cells, literally; neighbours stay whatever they are like."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    model = LSSVCCV(search=Halving(2, 120), gammas=4.0 ** np.arange(-5, 5), alphas=[0.01, 1.0])
    record = model.fit(X, y).search_["stages"][0]
    best = np.log2(record["best"]["gamma"]) / 2
    for one in record["dropped"]:
        assert abs(np.log2(one["gamma"]) / 2 - best) > 1.5
        assert one["difference"] > 2 * one["standard_error"]
        assert (one["difference"] * 120) == pytest.approx(round(one["difference"] * 120))


def leader(index: int, heldout: Any) -> Any:
    return SimpleNamespace(index=index, ridge=0, heldout=heldout, of_splits=None)


def test_survivors_literally() -> None:
    from onefold.approximations import Problem
    from onefold.criteria import SquaredError, Task
    from onefold.heldout import Splits

    rng = np.random.default_rng(1)
    y = rng.standard_normal(50)
    weight = rng.uniform(0.5, 2.0, 50)
    rows = np.arange(50)
    problem, task = Problem(y[:, None], y[:, None], None, True), Task(None, y, None, weight)
    scoring = SquaredError().start(problem, task, Splits(50, [rows], [rows]))
    noise = rng.standard_normal((50, 1))
    heldout = [y[:, None] + size * noise for size in (3.0, 0.5, 0.1, 0.55, 0.11)]
    heldout[4] = y[:, None] + 0.11 * rng.standard_normal((50, 1))
    names = [{"gamma": float(g)} for g in range(1, 7)]
    ledger = empty_ledger(names, [1.0], 1)
    losses = [((h[:, 0] - y) ** 2) for h in heldout]
    for number, loss in enumerate(losses):
        score = np.array([[-np.average(loss, weights=weight)]])
        ledger.append(Evaluation(number, np.array([0]), score, 0.0, None, {}))
    ledger.append(Evaluation(5, np.array([0]), np.array([[np.nan]]), 0.0, "why", {}))
    leaders = [leader(i, h) for i, h in enumerate(heldout)]
    found: Any = SimpleNamespace(ledger=ledger, leaders=leaders, scoring=scoring)
    going_on, dropped = compare(found, next_widths(names))
    order = sorted(range(5), key=lambda i: -ledger.means[i, 0])
    assert list(going_on) == [number for number in order if number in going_on]
    best, gone = order[0], {int(one["gamma"]) - 1: one for one in dropped}
    assert best in (2, 4)
    for number in order:
        d, share = losses[number] - losses[best], weight / weight.sum()
        mean = float(share @ d)
        error = float(np.sqrt(np.sum((share * (d - mean)) ** 2)))
        assert (number in going_on) == (mean <= 2 * error or abs(number - best) == 1)
        if number not in going_on:
            assert gone[number]["difference"] == pytest.approx(mean, rel=1e-10)
            assert gone[number]["standard_error"] == pytest.approx(error, rel=1e-10)
    assert dropped[-1]["why"] == "has no score"
    assert gone.keys() == set(range(6)) - going_on.keys()
    assert len(dropped) > 1


def test_windows_of_ridges() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), rng.standard_normal(60)
    alphas = [1.0, 0.01, 100.0, 0.1, 10.0, 1000.0, 1e4, 1e5, 1e6, 1e7, 1e8]
    windows = ridge_windows(LSSVRCV(alphas=alphas).set_up(X, y))
    assert sorted(alphas[i] for i in windows[0]) == [0.1, 1.0, 10.0]
    assert sorted(alphas[i] for i in windows[1]) == [0.01, 0.1]
    fine = 10.0 ** np.arange(-8, 8, 0.25)
    windows = ridge_windows(LSSVRCV(alphas=fine).set_up(X, y))
    assert [len(window) for window in windows[1:-1]] == [3] * (fine.size - 2)
    basis = LSSVRCV(alphas=alphas, approximation=Nystroem(20)).set_up(X, y)
    assert {len(window) for window in ridge_windows(basis)} == {len(alphas)}


@given(
    n=st.integers(4, 40),
    classes=st.integers(0, 3),
    folds=st.integers(2, 4),
    least=st.integers(2, 8),
    factor=st.floats(1.2, 4.0),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=25)
@pytest.mark.filterwarnings("ignore")
def test_tiny_tables(n: int, classes: int, folds: int, least: int, factor: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n, 2)).astype(float)
    kind, y = LSSVRCV, rng.integers(-2, 3, size=n).astype(float)
    if classes >= 2 and n >= 2 * folds * classes:
        kind, y = LSSVCCV, np.arange(n) % classes
    weight = rng.choice([0.0, 1.0, 3.0], n, p=[0.1, 0.5, 0.4]) if seed % 2 and classes < 2 else None
    if weight is not None and (weight > 0).sum() < 2 * folds:
        weight = None
    grid = {"gammas": [0.01, 0.1, 1.0, 10.0], "alphas": [0.01, 0.1, 1.0, 10.0], "cv": folds}
    try:
        full = kind(**grid).fit(X, y, sample_weight=weight)
    except ValueError:
        return  # splits that nobody can train on
    model = kind(search=Halving(factor, least), **grid).fit(X, y, sample_weight=weight)
    scores = {str(p): s for p, s in zip(full.cv_results_["params"], full.cv_results_["mean_test_score"])}
    for params, score in zip(model.cv_results_["params"], model.cv_results_["mean_test_score"]):
        np.testing.assert_allclose(score, scores[str(params)], rtol=1e-6, atol=1e-9)
    assert model.search_["n_resources"] == sorted(set(model.search_["n_resources"]))
    assert model.search_["n_resources"][-1] == len(model.heldout_prediction_) - np.sum(
        np.zeros(1) if weight is None else weight == 0
    )


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("factor", [1, 0.5, np.inf, np.nan, "3", True, None]),
        ("min_resources", [1, 0, 2.5, "exhaust", True, None]),
    ],
)
def test_settings_that_make_no_stages(setting: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(ValueError, match=f"{setting} must be"):
            Halving(**{setting: value})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"criterion": "gcv"}, "held-out rows"),
        ({"criterion": "press"}, "held-out rows"),
        ({"metric": "diagonal"}, "metric"),
        ({"blend": True, "kernel": ["rbf", "laplacian"]}, "blend"),
        ({"approximation": Circulant()}, "circulant"),
    ],
)
def test_what_halving_cannot_search(given: Any, words: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((64, 2)), rng.standard_normal(64)
    with pytest.raises(ValueError, match=words):
        LSSVRCV(search="halving", **given).fit(X, y)


def test_a_stage_without_scores_says_what_helps() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((100, 2)), rng.standard_normal(100)

    def scorer(estimator: Any, X: Any, y: Any) -> float:
        if len(y) < 15:
            raise ValueError("too few")
        return -float(np.mean((estimator.predict(X) - y) ** 2))

    assert LSSVRCV(criterion=scorer).fit(X, y).best_score_ < 0
    with pytest.raises(ValueError, match=r"on 50 rows: .*min_resources"):
        LSSVRCV(criterion=scorer, search=Halving(2, 50)).fit(X, y)


def test_what_a_callback_raises_comes_through() -> None:
    def fail(event: Any) -> None:
        raise ValueError("of the callback")

    X = np.random.default_rng(0).standard_normal((100, 2))
    with pytest.raises(ValueError, match=r"^of the callback$"):
        LSSVRCV(search=Halving(2, 50), callback=fail).fit(X, X[:, 0])


def test_landmarks_that_depend_on_the_kernel_are_fewer_too() -> None:
    chosen, shared = Nystroem(1000, "rpcholesky").on_fewer_rows(300, None)
    assert (chosen, shared) == (Nystroem(100, "rpcholesky"), None)
    chosen, _ = Nystroem(50, "rpcholesky", rank=20).on_fewer_rows(300, None)
    assert chosen == Nystroem(50, "rpcholesky", rank=20)
    chosen, _ = Nystroem(400, "rpcholesky", rank=100).on_fewer_rows(8000, None)
    assert chosen == Nystroem(200, "rpcholesky", rank=50)


def test_names_and_objects() -> None:
    assert clone(LSSVRCV(search=Halving(2, 50))).search == Halving(2, 50)
    with pytest.raises(ValueError, match='"halving"'):
        LSSVRCV(search="thirds").fit(np.eye(10), np.arange(10.0))
