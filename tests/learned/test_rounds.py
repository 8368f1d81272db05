"""Metrics learned in rounds: refits of every fold, honest scores, any approximation, all rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks.honesty import one_draw
from onefold import LSSVR, LSSVRCV
from onefold.approximations import Auto, ConjugateGradients, Nystroem, auto
from onefold.kernels import RBF
from onefold.search import paths

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")
RNG = np.random.default_rng(2)
X = RNG.standard_normal((60, 3))
ONE = np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(60)
NEW = RNG.standard_normal((8, 3))


@pytest.mark.parametrize("criterion", ["r2", "mse", "explained_variance"])
def test_rounds_go_on_while_they_gain_whatever_the_criterion_counts_from(criterion) -> None:
    """Eleven idle features: an isotropic kernel is worse than the mean, and each round gains much."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((80, 12))
    y = np.sin(3 * rows[:, 0]) + 0.1 * rng.standard_normal(80)
    options = {"alphas": [0.1], "gammas": [1.0], "cv": 4}
    model = LSSVRCV("rbf", metric="diagonal", criterion=criterion, **options).fit(rows, y)
    history = [one["score"] for one in model.metric_history_]
    assert history[0] < 0
    assert len(history) == 6
    assert history[5] > history[3] > history[2]


# -- what loses nothing finds the same, and the last fit ---------------------------------------------
SMALL = {"gammas": [0.3, 1.0], "alphas": [0.01, 1.0], "cv": 3, "max_rounds": 1}
ALL = {"kernel": "auto", "metric": "auto", "blend": True, **SMALL}


@pytest.mark.parametrize("rows", [None, 30])
@pytest.mark.parametrize(
    "approximation", ["auto", Nystroem(60), "nystroem", ConjugateGradients(tolerance=1e-10)], ids=str
)
def test_approximations_that_lose_nothing_find_the_same(approximation, rows) -> None:
    """Landmarks at every row, and conjugate gradients to the end, are the exact machine."""
    exact = LSSVRCV(**ALL, approximation="exact", metric_rows=rows).fit(X, ONE)
    model = LSSVRCV(**ALL, approximation=approximation, metric_rows=rows).fit(X, ONE)
    if approximation == "auto":
        assert model.best_params_ == exact.best_params_
        assert_array_equal(model.predict(NEW), exact.predict(NEW))
    else:
        found, wanted = ([one["score"] for one in m.metric_history_] for m in (model, exact))
        assert_allclose(found, wanted, rtol=1e-5)
        assert_allclose(model.blend_score_, exact.blend_score_, rtol=1e-5)
        assert_allclose(model.heldout_prediction_, exact.heldout_prediction_, atol=1e-4)
        assert_allclose(model.predict(NEW), exact.predict(NEW), atol=1e-4)


@pytest.mark.parametrize("rows", [None, 30])
@pytest.mark.parametrize("metric", ["full", "diagonal"])
@pytest.mark.parametrize("refit", ["same", "exact"])
def test_the_last_fit(refit, metric, rows) -> None:
    """The machine of given hyper-parameters in the metric found, whose landmarks are chosen in it."""
    few = Nystroem(12)
    model = LSSVRCV("rbf", metric=metric, approximation=few, refit=refit, metric_rows=rows, **SMALL)
    model.fit(X, ONE)
    kernel = RBF(model.gamma_, metric=model.metric_)
    assert model.expansion_.kernel == kernel
    fixed = LSSVR(kernel, alpha=model.alpha_, approximation=few if refit == "same" else "exact")
    assert_allclose(model.predict(NEW), fixed.fit(X, ONE).predict(NEW), rtol=1e-7, atol=1e-9)
    assert_array_equal(model.expansion_.centres, fixed.expansion_.centres)
    name = model.approximation_["fitted_with"]["name"]
    assert name == ("nystroem" if refit == "same" else "exact")


# -- on noise no reported score claims what is not there; benchmarks/honesty.py has the long version --
GRID = {"gammas": [0.1, 1.0, 10.0], "alphas": [0.01, 0.1, 1.0, 10.0, 100.0], "max_rounds": 2}


@pytest.mark.parametrize(
    ("n", "metric_rows"), [(100, None), (240, 100)], ids=["crossfitted", "subsample"]
)
@pytest.mark.parametrize("kind", ["random numbers", "skewed numbers", "rare labels", "random labels"])
def test_no_draw_is_far_from_a_constant(kind, n, metric_rows) -> None:
    """Within one standard error of the constant's score: choice and blend, every draw.

    Of many cells that guess random labels the best one is lucky: these by the mean of more draws.
    """
    if kind != "random labels":
        for found in (one_draw(kind, n, metric_rows, seed, **GRID) for seed in range(3)):
            assert max(abs(found["choice"]), abs(found["blend"])) < 1
        return
    draws = [one_draw(kind, n, metric_rows, seed, **GRID) for seed in range(6)]
    for what in ("choice, paired", "blend, paired"):
        gains = np.array([one[what] for one in draws])
        assert abs(gains.mean()) < 1
        assert gains.max() < 2.5


# -- more rows than can be fitted, or than dense fits are quick for -----------------------------------
MANY = np.random.default_rng(5).standard_normal((700, 3))
CURVE = np.sin(2 * MANY[:, 0]) + 0.3 * np.random.default_rng(6).standard_normal(700)
FEW_CELLS = {"gammas": [0.3, 1.0], "alphas": [0.01, 1.0], "max_rounds": 1, "metric_rows": 150}


@pytest.mark.parametrize("dense", [True, False])
def test_all_rows_are_fitted_where_the_search_had_landmarks(monkeypatch, dense) -> None:
    """No random part of the rows stands for all: by the dense matrix or by conjugate gradients."""
    monkeypatch.setattr(auto, "_ALWAYS_EXACT", 10)
    monkeypatch.setattr(paths, "RESERVED_ROWS", 50)
    if not dense:
        quicker = ConjugateGradients(tolerance=1e-10)
        monkeypatch.setattr(auto, "with_true_kernel", lambda *_: quicker)
    options = FEW_CELLS | {"approximation": Auto(seconds=1e-9), "random_state": 0}
    model = LSSVRCV("rbf", metric="diagonal", **options).fit(MANY[:500], CURVE[:500])
    name = "exact" if dense else "cg"
    assert model.approximation_["fitted_with"]["name"] == name
    assert_array_equal(model.expansion_.centres, MANY[:500])
    kernel = RBF(model.gamma_, metric=model.metric_)
    own = LSSVR(kernel, alpha=model.alpha_).fit(MANY[:500], CURVE[:500])
    assert_allclose(model.predict(MANY[500:]), own.predict(MANY[500:]), rtol=1e-6, atol=1e-8)
    tested = np.flatnonzero(np.isfinite(model.heldout_prediction_))
    rest = np.setdiff1d(np.arange(500), tested)
    without = LSSVR(kernel, alpha=model.alpha_).fit(MANY[rest], CURVE[rest])
    assert_allclose(model.heldout_prediction_[tested], without.predict(MANY[tested]), atol=1e-7)
    low, high = model.predict_interval(MANY[500:], coverage=0.9).T
    assert 0.8 <= np.mean((low <= CURVE[500:]) & (CURVE[500:] <= high)) <= 0.98


def test_conjugate_gradients_score_and_fit_as_the_dense_matrix_does(monkeypatch) -> None:
    monkeypatch.setattr(paths, "RESERVED_ROWS", 50)
    dense = LSSVRCV("rbf", metric="diagonal", **FEW_CELLS, random_state=0).fit(MANY[:500], CURVE[:500])
    monkeypatch.setattr(auto, "rows_within", lambda *_: 300)
    quicker = ConjugateGradients(tolerance=1e-10)
    monkeypatch.setattr(auto, "with_true_kernel", lambda *_: quicker)
    model = LSSVRCV("rbf", metric="diagonal", **FEW_CELLS, random_state=0).fit(MANY[:500], CURVE[:500])
    assert model.approximation_["fitted_with"]["name"] == "cg"
    assert model.best_params_["alpha"] == dense.best_params_["alpha"]
    low, high = model.predict_interval(MANY[500:], coverage=0.9).T
    assert 0.8 <= np.mean((low <= CURVE[500:]) & (CURVE[500:] <= high)) <= 0.98
    kernel = RBF(model.gamma_, metric=model.metric_)
    own = LSSVR(kernel, alpha=model.alpha_).fit(MANY[:500], CURVE[:500])
    assert_allclose(model.predict(MANY[500:]), own.predict(MANY[500:]), atol=1e-6)
    tested = np.flatnonzero(np.isfinite(model.heldout_prediction_))
    rest = np.setdiff1d(np.arange(500), tested)
    without = LSSVR(kernel, alpha=model.alpha_).fit(MANY[rest], CURVE[rest])
    assert_allclose(model.heldout_prediction_[tested], without.predict(MANY[tested]), atol=1e-6)


def test_a_kernel_without_a_width_is_fitted_once_and_has_no_gamma() -> None:
    """A linear kernel was fitted three times on all rows, and a gamma of 2.25 was reported for it."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200, 3))
    y = rows @ [1.0, 2.0, 3.0] + 0.1 * rng.standard_normal(200)
    for settings in ({"metric_rows": 90}, {}):
        model = LSSVRCV(
            ["linear", "rbf"], metric="diagonal", gammas=[0.3, 1.0], alphas=[1e-3, 0.1], **settings
        ).fit(rows, y)
        tried = [one for one in model.cv_results_["params"] if one["kernel"] == "linear"]
        assert not any("gamma" in one for one in tried)
        assert len(tried) == len({one["alpha"] for one in tried})
        assert model.kernel_ == "linear"
        assert model.gamma_ is None
        assert "gamma" not in model.best_params_
        assert {one["gamma"] for one in model.metric_history_ if one["kernel"] == "linear"} == {None}
