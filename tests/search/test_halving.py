"""search="halving": nested subsamples, who survives, and a last stage that is part of the full grid."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedKFold,
    TimeSeriesSplit,
)

from onefold import LSSVCCV, LSSVR, LSSVRCV
from onefold.approximations import Circulant, Nystroem, Problem
from onefold.approximations.problem import Machine
from onefold.search import Halving, SearchStoppedWarning
from onefold.search.halving import nested_order, next_widths

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")
GAMMAS = 4.0 ** np.arange(-6, 4)
ALPHAS = 4.0 ** np.arange(-6, 3)
SMALL = Halving(factor=2, min_resources=40)


def table(n=300, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.standard_normal(n)


def search(method=SMALL, kind=LSSVRCV, **settings):
    return kind(search=method, **{"gammas": GAMMAS, "alphas": ALPHAS, **settings})


def scores_of(model: Any) -> dict[tuple[Any, ...], Any]:
    """Scores of the splits by cell."""
    results = model.cv_results_
    columns = [results[key] for key in results if key.startswith("split")]
    cells = [tuple(sorted(params.items())) for params in results["params"]]
    return dict(zip(cells, np.array(columns).T))


def check_against_grid(model: Any, X: Any, y: Any, rtol: float = 1e-8, **data: Any) -> Any:
    """The cells of the last stage have the grid's scores, and the best is a local optimum of it."""
    full = type(model)(**model.get_params() | {"search": "grid"}).fit(X, y, **data)
    cells = scores_of(full)
    for cell, scores in scores_of(model).items():
        assert_allclose(scores, cells[cell], rtol=rtol, atol=1e-12)
    if model.gamma_ is None or model.gammas is None:
        assert model.best_params_ == full.best_params_
        assert len(scores_of(model)) < len(cells)
        return full
    means = {cell: scores.mean() for cell, scores in cells.items()}
    near = 1e-9 * max(map(abs, means.values()))
    gammas = np.sort(model.gammas)
    alphas = np.sort(model.alphas)
    at = np.searchsorted(gammas, model.gamma_), np.searchsorted(alphas, model.alpha_)
    for step in ((0, -1), (0, 1), (-1, 0), (1, 0)):
        i = at[0] + step[0]
        j = at[1] + step[1]
        if 0 <= i < gammas.size and 0 <= j < alphas.size:
            next_to_it = (("alpha", float(alphas[j])), ("gamma", float(gammas[i])))
            assert means[next_to_it] <= model.best_score_ + near
    return full


@pytest.mark.parametrize("kind", [LSSVRCV, LSSVCCV])
def test_the_record_says_what_was_dropped_when_and_why(kind) -> None:
    model = search(kind=kind).fit(ROWS, TARGETS if kind is LSSVRCV else TARGETS > 0.7)
    record = model.search_
    assert (record["method"], record["factor"], record["min_resources"]) == ("halving", 2, 40)
    assert record["n_resources"] in ([75, 150, 300], [75, 300])
    left = {float(gamma) for gamma in GAMMAS}
    for stage, rows, count in zip(record["stages"], record["n_resources"], record["n_candidates"]):
        assert (stage["n_resources"], stage["n_candidates"]) == (rows, count)
        added, dropped = ({one["gamma"] for one in stage[key]} for key in ("added", "dropped"))
        assert not added & left
        assert len(left | added) == count
        left = (left | added) - dropped
        assert stage["best"]["gamma"] in left
        for one in stage["dropped"]:
            assert one["difference"] > 2 * one["standard_error"] > 0
            assert abs(np.log(one["gamma"] / stage["best"]["gamma"])) > 1.5 * np.log(4.0)  # no neighbour
            if kind is LSSVCCV:  # is compared by errors of its rows
                assert one["difference"] * rows == pytest.approx(round(one["difference"] * rows))
    assert 0 < len(left) < GAMMAS.size
    assert record["stages"][-1]["dropped"] == []
    assert record["stages"][-1]["best"]["gamma"] == model.gamma_


TWICE_OVER = RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)


@pytest.mark.parametrize(("cv", "n"), [(KFold(5), 120), (LeaveOneOut(), 120), (TWICE_OVER, 200)])
@pytest.mark.parametrize("weighted", [False, True])
def test_differences_are_those_of_literal_refits(cv, n, weighted) -> None:
    """On some rows, held out as all are, with ridges in proportion to the weight; row by row."""
    X = ROWS[:n]
    y = TARGETS[:n]
    v = np.random.default_rng(4).uniform(0.5, 2.0, n) if weighted else np.ones(n)
    model = search(Halving(2, n // 2), cv=cv, criterion="mse", random_state=3, alphas=ALPHAS[::4])
    setup = model.set_up(X, y, v)
    record = model.fit(X, y, v).search_["stages"][0]
    rows = np.sort(nested_order(setup.scoring.held_out, setup.task, 3)[: record["n_resources"]])
    tests = [np.intersect1d(rows, test) for _, test in cv.split(X)]
    tests = [test for test in tests if test.size]
    share = v[rows] / v[rows].sum()

    def losses(gamma: float, alpha: float) -> tuple[Any, float]:
        """The mean loss of each row, and that of the splits."""
        total = np.zeros(n)
        means = []
        for test in tests:
            train = np.setdiff1d(rows, test)
            fitted = LSSVR(gamma=gamma, alpha=alpha * v[rows].sum() / v.sum())
            errors = (fitted.fit(X[train], y[train], v[train]).predict(X[test]) - y[test]) ** 2
            total[test] += errors
            means.append(np.average(errors, weights=v[test]))
        return total[rows] / np.bincount(np.concatenate(tests))[rows], np.mean(means)

    best, score = losses(record["best"]["gamma"], record["best"]["alpha"])
    assert_allclose(record["best"]["score"], -score, rtol=1e-8)
    assert record["dropped"]
    for one in record["dropped"]:
        difference = losses(one["gamma"], one["alpha"])[0] - best
        mean = share @ difference
        assert_allclose(one["difference"], mean, rtol=1e-6)
        error = np.sqrt(np.sum((share * (difference - mean)) ** 2))
        assert_allclose(one["standard_error"], error, rtol=1e-6)


def test_few_rows_ties_one_split_and_one_standard_error():
    X, y = table(120)
    model, full = (search(method).fit(X, y) for method in ("halving", "grid"))
    assert model.search_["n_resources"] == [120]  # few rows are searched as a grid
    assert_array_equal(model.cv_results_["mean_test_score"], full.cv_results_["mean_test_score"])
    assert model.best_params_ == full.best_params_
    model, full = (search(method).fit(ROWS[:200], np.full(200, 3.0)) for method in (SMALL, "grid"))
    assert model.best_params_ == full.best_params_  # ties: the narrowest kernel, the largest ridge
    assert (model.gamma_, model.alpha_) == (GAMMAS.max(), ALPHAS.max())
    model = search(cv=ONE_SPLIT, criterion="r2").fit(ROWS, TARGETS)  # nothing to compare with: all stay
    assert set(model.search_["n_candidates"]) == {GAMMAS.size}
    X, y = table(n=300, d=4)
    labels = (y > np.median(y)).astype(int)
    found = search(kind=LSSVCCV, select="1se").fit(X, labels)  # has all ridges to choose from
    gammas = sorted({cell["gamma"] for cell in found.cv_results_["params"]})
    assert 1 < len(gammas) < found.search_["n_candidates"][0]
    grid = LSSVCCV(gammas=gammas, alphas=ALPHAS, select="1se").fit(X, labels)
    assert found.best_params_ == grid.best_params_
    assert found.best_params_["alpha"] > search(kind=LSSVCCV).fit(X, labels).best_params_["alpha"]


# -- subsamples --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "cv", "sizes"),
    [
        *((classes, cv, [166, 500, 1500]) for classes, cv in [(0, 5), (6, 5), (0, "loo")]),
        *((classes, cv, [500, 1500]) for classes, cv in [(26, 5), (100, 3), (0, 10)]),
    ],
)
def test_the_rows_of_stages(classes, cv, sizes):
    """Enough for every fold to train on every class, and at most a third of all in the first."""
    y = np.arange(1500) % classes if classes else np.arange(1500.0)
    setup = search("halving", kind=LSSVCCV if classes else LSSVRCV, cv=cv).set_up(np.zeros((1500, 1)), y)
    assert Halving().sizes(setup) == sizes
    if classes:
        rows = nested_order(setup.scoring.held_out, setup.task, 0)[: sizes[0]]
        for left in setup.scoring.held_out.left_out:
            assert np.bincount(y[np.setdiff1d(rows, left)], minlength=classes).min() >= 2


@pytest.mark.parametrize("method", ["kmeans", "rpcholesky"])
def test_landmarks_in_float32(method: str) -> None:
    X, y = table(1200)
    chosen = Halving(factor=3, min_resources=130)
    X = X.astype(np.float32)
    model = search(chosen, approximation=Nystroem(60, method), refit="same").fit(X, y)
    full = check_against_grid(model, X, y)
    assert_array_equal(model.predict(X), full.predict(X))
    # Ridges are all but free there: whole columns of the table.
    assert len(model.cv_results_["params"]) == model.search_["n_candidates"][-1] * ALPHAS.size


# -- awkward tables ----------------------------------------------------------------------------------
ROWS, TARGETS = table()
WEIGHT = np.random.default_rng(3).choice([0.0, 1.0, 2.0], 300)
ZEROS = np.where(np.abs(ROWS) < 0.5, 0.0, ROWS)
TWICE = np.column_stack([np.vstack([ROWS[:150]] * 2), np.ones(300)])
RARE = np.where(TARGETS > 2.9, "rare", "common")
GROUPS = np.random.default_rng(1).integers(0, 25, 300)
ONE_SPLIT = [(np.arange(100, 300), np.arange(100))]
FAMILIES = ["rbf", "laplacian", "matern"]
KERNEL = {"kernel": "precomputed", "gammas": None}
RANKED = {"kind": LSSVCCV, "criterion": "roc_auc", "gammas": GAMMAS[::2], "alphas": ALPHAS[::3]}
EVEN = {"sample_weight": np.random.default_rng(1).uniform(0.2, 2.0, 300)}
CASES = {  # settings, rows, targets, what else fit takes
    "numbers": ({}, ROWS, TARGETS, {}),
    "weights": ({}, ROWS, TARGETS, EVEN),
    "weights of classes": ({"kind": LSSVCCV}, ROWS, np.digitize(TARGETS, [0.0, 1.5]), EVEN),
    "a rare class": ({"kind": LSSVCCV}, ROWS, RARE, {}),
    "a rare class, ranked": (RANKED, ROWS, RARE, {}),
    "groups": ({"cv": GroupKFold(4)}, ROWS, TARGETS, {"groups": GROUPS}),
    "repeated": ({"cv": TWICE_OVER}, ROWS, TARGETS, {}),
    "a series": ({"cv": TimeSeriesSplit(4)}, ROWS, TARGETS, {}),
    "row by row": ({"cv": LeaveOneOut(), "criterion": "mse"}, ROWS, TARGETS, {}),
    "compared by splits": ({"criterion": "r2"}, ROWS, TARGETS, {}),
    "sparse rows": ({}, sparse.csr_matrix(ZEROS), TARGETS, {}),
    "several targets": ({}, ROWS, np.column_stack([TARGETS, ROWS[:, 0] ** 3]), {}),
    "duplicates and a constant column": ({}, TWICE, np.concatenate([TARGETS[:150]] * 2), {}),
    "weights of 0": ({}, ROWS, np.where(WEIGHT == 0, 1e6, TARGETS), {"sample_weight": WEIGHT}),
    "families": ({"kernel": FAMILIES, "gammas": None, "alphas": None}, ROWS, TARGETS, {}),
    "a kernel matrix": (KERNEL, rbf_kernel(ROWS, gamma=0.3), TARGETS, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_last_stage_is_part_of_the_full_grid(name):
    settings, X, y, data = CASES[name]
    model = search(**settings).fit(X, y, **data)
    full = check_against_grid(model, X, y, **data)
    assert model.best_score_ == pytest.approx(model.cv_results_["mean_test_score"].max(), rel=1e-12)
    if "cv" in settings:
        assert model.best_score_ >= full.best_score_ - 0.02 * abs(full.best_score_)
    if name == "compared by splits":
        assert model.search_["n_candidates"][-1] < GAMMAS.size
    if name in ("numbers", "weights", "weights of 0"):
        assert len(scores_of(model)) < len(scores_of(full))
        assert model.best_params_ == full.best_params_
        assert_allclose(model.predict(ROWS), full.predict(ROWS), rtol=1e-8, atol=1e-8)
        assert_allclose(model.heldout_prediction_, full.heldout_prediction_, rtol=1e-7, atol=1e-8)
    if name == "weights of 0":
        assert_array_equal(np.isfinite(model.heldout_prediction_), WEIGHT > 0)


GRIDS = np.random.default_rng(2)
MIXED = {"gammas": GRIDS.permutation(GAMMAS), "alphas": GRIDS.permutation(ALPHAS)}


@pytest.fixture(scope="module")
def plain() -> Any:
    return search(n_jobs=1).fit(ROWS, TARGETS)


@pytest.mark.parametrize(
    ("settings", "scale", "mass", "torch"),
    [
        (MIXED, 1.0, None, False),  # the grid in another order
        ({"n_jobs": 2}, 1.0, None, False),
        ({"alphas": 1e-12 * ALPHAS}, 1e12, 1e-12, False),
        ({"alphas": 1e12 * ALPHAS}, 1e-12, 1e12, False),
        ({}, 1.0, None, True),
    ],
)
def test_the_same_search(settings: Any, scale: float, mass: Any, torch: bool, plain: Any) -> None:
    """In other units of targets and weights, in another order, on two threads, of tensors."""
    X = ROWS
    y = scale * TARGETS
    if torch:
        X, y = (pytest.importorskip("torch").from_numpy(values) for values in (X, y))
    model = search(**settings).fit(X, y, sample_weight=None if mass is None else np.full(300, mass))
    assert model.gamma_ == plain.gamma_
    assert model.alpha_ == pytest.approx((mass or 1.0) * plain.alpha_)
    assert model.best_score_ == pytest.approx(scale**2 * plain.best_score_, rel=1e-8)
    assert model.search_["n_candidates"] == plain.search_["n_candidates"]
    if "n_jobs" in settings:
        assert model.search_ == plain.search_
        assert_array_equal(model.predict(X), plain.predict(X))


@given(
    n=st.integers(4, 40),
    classes=st.integers(0, 3),
    folds=st.integers(2, 4),
    least=st.integers(2, 8),
    factor=st.floats(1.2, 4.0),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=20)
@pytest.mark.filterwarnings("ignore")
def test_tiny_tables(n, classes, folds, least, factor, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n, 2)).astype(float)
    kind = LSSVRCV
    y = rng.integers(-2, 3, size=n).astype(float)
    weight = None
    if classes >= 2 and n >= 2 * folds * classes:
        kind = LSSVCCV
        y = np.arange(n) % classes
    elif n > 4 * folds:
        weight = rng.choice([0.0, 1.0, 3.0], n, p=[0.1, 0.5, 0.4])
    grid = {"gammas": [0.01, 0.1, 1.0, 10.0], "alphas": [0.01, 0.1, 1.0, 10.0], "cv": folds}
    try:
        model = kind(search=Halving(factor, least), **grid).fit(X, y, sample_weight=weight)
    except ValueError:
        with pytest.raises(ValueError):
            kind(**grid).fit(X, y, sample_weight=weight)
        return
    check_against_grid(model, X, y, rtol=1e-6, sample_weight=weight)
    assert model.search_["n_resources"] == sorted(set(model.search_["n_resources"]))
    assert model.search_["n_resources"][-1] == (n if weight is None else np.sum(weight > 0))


# -- early ends --------------------------------------------------------------------------------------


def test_a_search_that_ends_early_takes_the_best_so_far_to_all_rows():
    def interrupt(event):
        if event["done"] == 7:
            raise KeyboardInterrupt

    with pytest.warns(SearchStoppedWarning, match="interrupted"):
        model = search(callback=interrupt, n_jobs=1).fit(ROWS, TARGETS)
    assert model.search_["stopped"] == "interrupted"
    assert model.search_["n_resources"] == [75, 300]
    assert len(model.cv_results_["params"]) == 1
    grid = {"gamma": [model.gamma_], "alpha": [model.alpha_]}
    literal = GridSearchCV(LSSVR(), grid, cv=5, scoring="neg_mean_squared_error").fit(ROWS, TARGETS)
    assert model.best_score_ == pytest.approx(literal.best_score_, rel=1e-9)


def test_a_stage_without_scores_says_what_helps():
    def scorer(estimator, X, y):
        if len(y) < 15:
            raise ValueError("too few")
        return -float(np.mean((estimator.predict(X) - y) ** 2))

    assert LSSVRCV(criterion=scorer).fit(ROWS[:100], TARGETS[:100]).best_score_ < 0
    with pytest.raises(ValueError, match=r"on 50 rows: .*min_resources"):
        LSSVRCV(criterion=scorer, search=Halving(2, 50)).fit(ROWS[:100], TARGETS[:100])


# -- the rules ---------------------------------------------------------------------------------------


def test_neighbours_are_of_the_same_family():
    assert next_widths([{"gamma": g} for g in (4.0, 1.0, 2.0, 2.0)]) == [[2, 3], [2, 3], [0, 1], [0, 1]]
    families = [{"kernel": "a", "gamma": 1.0}, {"kernel": "b", "gamma": 2.0}, {"kernel": "c"}]
    assert next_widths(families) == [[], [], []]


def halved(**more):
    return LSSVRCV(**{"search": "halving"} | more).fit(ROWS[:64], TARGETS[:64])


REFUSED = [
    *(("factor must be", partial(Halving, value)) for value in (1, np.inf, np.nan, "3", True)),
    *(("min_resources must be", partial(Halving, 3, value)) for value in (1, 2.5, "exhaust", True)),
    ("held-out rows", partial(halved, criterion="gcv")),
    ("held-out rows", partial(halved, criterion="press")),
    ("metric", partial(halved, metric="diagonal")),
    ("blend", partial(halved, blend=True, kernel=["rbf", "laplacian"])),
    ("circulant", partial(halved, approximation=Circulant())),
    ('"halving"', partial(halved, search="thirds")),
]


@pytest.mark.parametrize(("words", "act"), REFUSED)
def test_what_makes_no_stages_and_what_halving_cannot_search(words, act):
    assert clone(LSSVRCV(search=Halving(2, 50))).search == Halving(2, 50)
    with pytest.raises(ValueError, match=words):
        act()


@pytest.mark.parametrize("approximation", ["exact", "nystroem"])
def test_stages_are_priced_on_a_gpu_too(approximation, monkeypatch) -> None:
    """Costs of a GPU go with its speed: a host's has no rate of factorisations."""
    machine = Machine(2**36, gpu=True)
    monkeypatch.setattr(Problem, "machine", property(lambda problem: machine))
    found = search(approximation=approximation).fit(ROWS, TARGETS)
    assert found.search_["n_resources"][-1] == len(ROWS)
