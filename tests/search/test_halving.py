"""search="halving": nested subsamples, and a last stage that is the full grid's as far as it goes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)

from onefold import LSSVCCV, LSSVR, LSSVRCV
from onefold.approximations import Nystroem
from onefold.heldout import heldout_blocks
from onefold.search import Halving, SearchStoppedWarning
from onefold.search.halving import nested_order, subsample

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")
GAMMAS, ALPHAS = 4.0 ** np.arange(-6, 4), 4.0 ** np.arange(-6, 3)
SMALL = Halving(factor=2, min_resources=40)


def table(n: int = 300, d: int = 3, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.standard_normal(n)


def search(method: Any = SMALL, kind: Any = LSSVRCV, **settings: Any) -> Any:
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
    means = {cell: scores.mean() for cell, scores in cells.items()}
    near = 1e-9 * max(map(abs, means.values()))
    gammas, alphas = np.sort(model.gammas), np.sort(model.alphas)
    at = np.searchsorted(gammas, model.gamma_), np.searchsorted(alphas, model.alpha_)
    for step in ((0, -1), (0, 1), (-1, 0), (1, 0)):
        i, j = at[0] + step[0], at[1] + step[1]
        if 0 <= i < gammas.size and 0 <= j < alphas.size:
            next_to_it = (("alpha", float(alphas[j])), ("gamma", float(gammas[i])))
            assert means[next_to_it] <= model.best_score_ + near
    return full


# -- the whole ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [LSSVRCV, LSSVCCV])
@pytest.mark.parametrize("fit_weights", [False, True])
def test_the_last_stage_is_part_of_the_full_grid(kind: Any, fit_weights: bool) -> None:
    X, y = table()
    y = y if kind is LSSVRCV else np.digitize(y, [0.0, 1.5])
    weight = np.random.default_rng(1).uniform(0.2, 2.0, len(y)) if fit_weights else None
    criterion = None if kind is LSSVRCV else "error"
    model = search(kind=kind, criterion=criterion).fit(X, y, sample_weight=weight)
    full = check_against_grid(model, X, y, sample_weight=weight)
    assert len(scores_of(model)) < len(scores_of(full))
    assert model.best_score_ == pytest.approx(model.cv_results_["mean_test_score"].max(), rel=1e-12)
    if kind is LSSVRCV:
        assert model.best_params_ == full.best_params_
        assert_allclose(model.predict(X), full.predict(X), rtol=1e-8, atol=1e-8)
        assert_allclose(model.heldout_prediction_, full.heldout_prediction_, rtol=1e-7, atol=1e-8)


def test_the_best_score_is_scikit_learns() -> None:
    X, y = table()
    model = search().fit(X, y)
    grid = {"gamma": [model.gamma_], "alpha": [model.alpha_]}
    literal = GridSearchCV(LSSVR(), grid, cv=5, scoring="neg_mean_squared_error").fit(X, y)
    assert_allclose(model.best_score_, literal.best_score_, rtol=1e-9)


def test_the_record_says_what_was_dropped_when_and_why() -> None:
    X, y = table()
    record = search().fit(X, y).search_
    assert record["method"] == "halving"
    assert (record["factor"], record["min_resources"]) == (2, 40)
    assert record["n_resources"] == [75, 150, 300] or record["n_resources"] == [75, 300]
    assert record["n_candidates"][0] == GAMMAS.size
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
            assert "standard error" in one["why"]
    assert record["stages"][-1]["dropped"] == []
    assert sum(len(stage["dropped"]) for stage in record["stages"]) > 0
    assert record["stages"][-1]["best"]["gamma"] == search().fit(X, y).gamma_


def test_differences_are_those_of_literal_refits() -> None:
    X, y = table(160)
    model = search(Halving(factor=2, min_resources=80), random_state=3)
    setup = model.set_up(X, y)
    record = model.fit(X, y).search_["stages"][0]
    rows = np.sort(nested_order(setup.scoring.held_out, setup.task, 3)[: record["n_resources"]])
    folds = [rows[np.isin(rows, test)] for _, test in KFold(5).split(X)]

    def losses(gamma: float, alpha: float) -> Any:
        errors = []
        for test in folds:
            train = np.setdiff1d(rows, test)
            fitted = LSSVR(gamma=gamma, alpha=alpha * rows.size / len(y)).fit(X[train], y[train])
            errors.append((fitted.predict(X[test]) - y[test]) ** 2)
        return np.concatenate(errors)

    best = losses(record["best"]["gamma"], record["best"]["alpha"])
    means = [part.mean() for part in np.split(best, np.cumsum([f.size for f in folds])[:-1])]
    assert_allclose(record["best"]["score"], -np.mean(means), rtol=1e-8)
    assert record["dropped"]
    for one in record["dropped"]:
        difference = losses(one["gamma"], one["alpha"]) - best
        assert_allclose(one["difference"], difference.mean(), rtol=1e-6)
        error = difference.std() / np.sqrt(difference.size)
        assert_allclose(one["standard_error"], error, rtol=1e-6)
        assert one["difference"] > 2 * one["standard_error"]


def test_few_rows_are_searched_as_a_grid() -> None:
    X, y = table(120)
    model = search("halving").fit(X, y)
    full = search("grid").fit(X, y)
    assert model.search_["n_resources"] == [120]
    assert_array_equal(model.cv_results_["mean_test_score"], full.cv_results_["mean_test_score"])
    assert model.best_params_ == full.best_params_


def test_one_standard_error_has_all_ridges_to_choose_from() -> None:
    X, y = table(n=300, d=4)
    labels = (y > np.median(y)).astype(int)
    found = search(kind=LSSVCCV, select="1se").fit(X, labels)
    gammas = sorted({cell["gamma"] for cell in found.cv_results_["params"]})
    assert 1 < len(gammas) < found.search_["n_candidates"][0]
    grid = LSSVCCV(gammas=gammas, alphas=ALPHAS, select="1se").fit(X, labels)
    assert found.best_params_ == grid.best_params_
    assert found.best_params_["alpha"] > search(kind=LSSVCCV).fit(X, labels).best_params_["alpha"]


def test_ties_go_to_the_narrowest_kernel_and_the_largest_ridge() -> None:
    X, _ = table(200)
    y = np.full(200, 3.0)
    model, full = search().fit(X, y), search("grid").fit(X, y)
    assert model.best_params_ == full.best_params_
    assert (model.gamma_, model.alpha_) == (GAMMAS.max(), ALPHAS.max())


def test_the_order_of_the_grid_does_not_matter() -> None:
    X, y = table()
    rng = np.random.default_rng(2)
    model = search().fit(X, y)
    other = search(gammas=rng.permutation(GAMMAS), alphas=rng.permutation(ALPHAS)).fit(X, y)
    assert other.best_params_ == model.best_params_
    assert other.best_score_ == pytest.approx(model.best_score_, rel=1e-10)


# -- subsamples --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "cv", "sizes"),
    [
        (0, 5, [166, 500, 1500]),
        (2, 5, [166, 500, 1500]),
        (6, 5, [166, 500, 1500]),
        (10, 5, [500, 1500]),
        (26, 5, [500, 1500]),
        (100, 3, [500, 1500]),
        (0, 10, [500, 1500]),
        (0, "loo", [166, 500, 1500]),
    ],
)
def test_the_rows_of_stages(classes: int, cv: Any, sizes: list[int]) -> None:
    """Enough for every fold to train on every class, and at most a third of all in the first."""
    X = np.zeros((1500, 1))
    y = np.arange(1500) % classes if classes else np.arange(1500.0)
    setup = search("halving", kind=LSSVCCV if classes else LSSVRCV, cv=cv).set_up(X, y)
    assert Halving().sizes(setup) == sizes
    if classes:
        rows = nested_order(setup.scoring.held_out, setup.task, 0)[: sizes[0]]
        for left in setup.scoring.held_out.left_out:
            counts = np.bincount(y[np.setdiff1d(rows, left)], minlength=classes)
            assert counts.min() >= 2


def test_beginnings_keep_the_share_of_every_fold_and_class() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((600, 2)), rng.choice(3, 600, p=[0.7, 0.25, 0.05])
    setup = search(kind=LSSVCCV).set_up(X, y)
    splits = setup.scoring.held_out
    order = nested_order(splits, setup.task, 0)
    assert_array_equal(np.sort(order), np.arange(600))
    assert not np.array_equal(order, nested_order(splits, setup.task, 1))
    for size in (15, 30, 77, 200):
        begun = np.isin(np.arange(600), order[:size])
        for test in splits.tests:
            for label in range(3):
                members = test[y[test] == label]
                share = members.size * size / 600
                assert share * (1 - 15 / size) - 1 <= begun[members].sum() <= share + 1
                assert begun[members].any()


@pytest.mark.parametrize("cv", [5, "loo", LeaveOneOut(), RepeatedKFold(n_splits=3, n_repeats=2)])
def test_ridges_are_rescaled_by_the_share_of_the_weight(cv: Any) -> None:
    X, y = table(90)
    weight = np.random.default_rng(5).uniform(0.1, 3.0, 90)
    setup = search(cv=cv, criterion="mse").set_up(X, y, sample_weight=weight)
    rows = nested_order(setup.scoring.held_out, setup.task, 0)[:40]
    scoring, run = subsample(setup, rows)
    rows, alpha = np.sort(rows), 0.1
    model = setup.grid(run)[5].model(1)
    blocks = heldout_blocks(model, scoring.splits, [float(scoring.problem.ridge(alpha))])
    heldout, _ = scoring.heldout(list(blocks))
    scaled = alpha * weight[rows].sum() / weight.sum()
    total, count = np.zeros(40), np.zeros(40)
    for left, test in zip(scoring.held_out.left_out, scoring.held_out.left_out):
        train = np.delete(np.arange(40), left)
        fitted = LSSVR(gamma=GAMMAS[5], alpha=scaled)
        fitted.fit(X[rows[train]], y[rows[train]], weight[rows[train]])
        total[test] += fitted.predict(X[rows[test]])
        count[test] += 1
    assert_allclose(heldout[:, 0], total / count, rtol=1e-8, atol=1e-9)
    restricted = setup.scoring.held_out
    if not restricted.leave_one_out:
        for inner, outer in zip(scoring.held_out.tests, restricted.tests):
            assert np.isin(rows[inner], outer).all()


def test_landmarks_of_subsamples_are_nested() -> None:
    X, y = table(6000)
    setup = search(approximation=Nystroem(400)).set_up(X, y)
    order = nested_order(setup.scoring.held_out, setup.task, 0)
    sizes = [subsample(setup, order[:size])[1].shared.rows for size in (500, 4600, 6000)]
    assert [len(rows) for rows in sizes] == [100, 115, 150]
    every = {row.tobytes() for row in setup.run.shared.rows}
    for fewer, more in pairwise(sizes):
        assert {row.tobytes() for row in fewer} < {row.tobytes() for row in more} < every


@pytest.mark.parametrize("method", ["kmeans", "uniform", "rpcholesky"])
def test_landmarks_in_float32(method: str) -> None:
    X, y = table(1200)
    X = X.astype(np.float32)
    chosen = Halving(factor=3, min_resources=130)
    model = search(chosen, approximation=Nystroem(60, method), refit="same").fit(X, y)
    full = check_against_grid(model, X, y)
    assert model.best_params_ == full.best_params_
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
CASES: dict[str, tuple[dict[str, Any], Any, Any, dict[str, Any]]] = {
    "a rare class": ({"kind": LSSVCCV, "criterion": "error"}, ROWS, RARE, {}),
    "a rare class, ranked": ({"kind": LSSVCCV, "criterion": "roc_auc"}, ROWS, RARE, {}),
    "groups": ({"cv": GroupKFold(4)}, ROWS, TARGETS, {"groups": GROUPS}),
    "random splits": ({"cv": ShuffleSplit(6, random_state=0)}, ROWS, TARGETS, {}),
    "repeated": ({"cv": RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)}, ROWS, TARGETS, {}),
    "a series": ({"cv": TimeSeriesSplit(4)}, ROWS, TARGETS, {}),
    "row by row": ({"cv": LeaveOneOut(), "criterion": "mse"}, ROWS, TARGETS, {}),
    "one split": ({"cv": ONE_SPLIT, "criterion": "mse"}, ROWS, TARGETS, {}),
    "compared by splits": ({"criterion": "r2"}, ROWS, TARGETS, {}),
    "absolute errors": ({"criterion": "neg_mean_absolute_error"}, ROWS, TARGETS, {}),
    "relative errors": ({"criterion": "mape"}, ROWS, TARGETS, {}),
    "sparse rows": ({}, sparse.csr_matrix(ZEROS), TARGETS, {}),
    "several targets": ({}, ROWS, np.column_stack([TARGETS, ROWS[:, 0] ** 3]), {}),
    "duplicates and a constant column": ({}, TWICE, np.concatenate([TARGETS[:150]] * 2), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_awkward_tables(name: str) -> None:
    settings, X, y, data = CASES[name]
    model = search(**settings).fit(X, y, **data)
    full = check_against_grid(model, X, y, **data)
    if "cv" in settings:
        assert model.best_score_ >= full.best_score_ - 0.02 * abs(full.best_score_)
    if settings.get("criterion") in ("r2", "mape"):
        assert model.search_["n_candidates"][-1] < GAMMAS.size


def test_rows_of_weight_0_are_left_out() -> None:
    y = np.where(WEIGHT == 0, 1e6, TARGETS)
    model = search().fit(ROWS, y, sample_weight=WEIGHT)
    full = check_against_grid(model, ROWS, y, sample_weight=WEIGHT)
    assert model.best_params_ == full.best_params_
    assert_allclose(model.heldout_prediction_, full.heldout_prediction_, rtol=1e-6, atol=1e-7)
    assert_array_equal(np.isfinite(model.heldout_prediction_), WEIGHT > 0)


def test_one_split_and_a_scorer_drop_nothing() -> None:
    model = search(cv=ONE_SPLIT, criterion="r2").fit(ROWS, TARGETS)
    assert set(model.search_["n_candidates"]) == {GAMMAS.size}


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    X, y = table(200)
    model, plain = search().fit(torch.from_numpy(X), torch.from_numpy(y)), search().fit(X, y)
    assert model.best_params_ == plain.best_params_
    assert model.search_["n_candidates"] == plain.search_["n_candidates"]
    assert model.best_score_ == pytest.approx(plain.best_score_, rel=1e-8)


def test_two_threads_give_the_same_answer() -> None:
    X, y = table()
    one, two = search(n_jobs=1).fit(X, y), search(n_jobs=2).fit(X, y)
    assert one.search_ == two.search_
    assert_array_equal(one.predict(X), two.predict(X))


def test_kernel_matrices_and_kernels_without_a_width_drop_ridges() -> None:
    X, y = table()
    K = rbf_kernel(X, gamma=0.3)
    for model, rows in ((LSSVRCV("precomputed"), K), (LSSVRCV("linear"), X)):
        model.set_params(search=SMALL, alphas=ALPHAS).fit(rows, y)
        full = LSSVRCV(model.kernel, alphas=ALPHAS).fit(rows, y)
        assert model.best_params_ == full.best_params_
        assert model.best_score_ == pytest.approx(full.best_score_, rel=1e-8)
        assert len(model.cv_results_["params"]) < ALPHAS.size


def test_families_of_kernels() -> None:
    X, y = table()
    names = ["rbf", "laplacian", "matern"]
    model = LSSVRCV(names, search=SMALL).fit(X, y)
    full = LSSVRCV(names).fit(X, y)
    assert model.best_params_ == full.best_params_
    assert model.best_score_ == pytest.approx(full.best_score_, rel=1e-8)
    assert len(model.cv_results_["params"]) < len(full.cv_results_["params"])


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_choice_does_not_depend_on_the_scale_of_targets_or_weights(scale: float) -> None:
    X, y = table()
    plain = search().fit(X, y)
    scaled = search().fit(X, scale * y)
    assert scaled.best_params_ == plain.best_params_
    assert scaled.search_["n_candidates"] == plain.search_["n_candidates"]
    weighted = search(alphas=scale * ALPHAS).fit(X, y, sample_weight=np.full(300, scale))
    assert weighted.gamma_ == plain.gamma_
    assert weighted.alpha_ == pytest.approx(scale * plain.alpha_)


# -- early ends and journals -------------------------------------------------------------------------


class Killed(Exception):
    """In place of the death of the process."""


@pytest.mark.parametrize("approximation", ["exact", Nystroem(50)])
@pytest.mark.parametrize("after", [1, 12, 16])
def test_a_search_goes_on_where_it_was_killed(tmp_path: Any, approximation: Any, after: int) -> None:
    X, y = table()
    settings = {"approximation": approximation, "n_jobs": 1, "random_state": 0}
    seen: list[Any] = []

    def kill(event: Any) -> None:
        seen.append(event)
        if len(seen) == after:
            raise Killed

    path = tmp_path / "journal"
    with pytest.raises(Killed):
        search(checkpoint=path, callback=kill, **settings).fit(X, y)
    evaluated = len(seen)
    resumed = search(checkpoint=path, callback=seen.append, **settings).fit(X, y)
    whole_events: list[Any] = []
    whole = search(callback=whole_events.append, **settings).fit(X, y)
    assert len(seen) - evaluated == len(whole_events) - after
    assert resumed.search_ == whole.search_
    assert_array_equal(resumed.predict(X), whole.predict(X))
    assert_array_equal(resumed.heldout_prediction_, whole.heldout_prediction_)
    for cell, scores in scores_of(whole).items():
        assert_array_equal(scores_of(resumed)[cell], scores)


def test_a_search_out_of_time_takes_the_best_so_far_to_all_rows() -> None:
    X, y = table()
    with pytest.warns(SearchStoppedWarning):
        model = search(time_budget=1e-9).fit(X, y)
    assert model.search_["stopped"] == "time_budget"
    assert model.search_["n_resources"][-1] == 300
    assert np.isfinite(model.predict(X)).all()


def test_an_interrupted_search_takes_the_best_so_far_to_all_rows() -> None:
    X, y = table()

    def interrupt(event: Any) -> None:
        if event["done"] == 7:
            raise KeyboardInterrupt

    with pytest.warns(SearchStoppedWarning, match="interrupted"):
        model = search(callback=interrupt, n_jobs=1).fit(X, y)
    assert model.search_["stopped"] == "interrupted"
    assert model.search_["n_resources"] == [75, 300]
    assert len(model.cv_results_["params"]) == 1
    grid = {"gamma": [model.gamma_], "alpha": [model.alpha_]}
    literal = GridSearchCV(LSSVR(), grid, cv=5, scoring="neg_mean_squared_error").fit(X, y)
    assert model.best_score_ == pytest.approx(literal.best_score_, rel=1e-9)
