"""search="gradient": its optimum, its ledger, what extends it, ends it and brings it back."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import make_friedman1

import onefold
from onefold import LSSVCCV, LSSVR, LSSVRCV, KernelRidgeCV
from onefold.approximations import Nystroem
from onefold.kernels import RBF, Laplacian, Linear, Matern
from onefold.search import Gradient, GridEdgeWarning, SearchStoppedWarning

X, y = make_friedman1(90, n_features=6, noise=1.0, random_state=0)
X = (X - X.mean(axis=0)) / X.std(axis=0)
TWO = np.column_stack([y, X[:, 0] ** 2 + np.random.default_rng(0).standard_normal(90)])


def fitted(criterion="press", search="gradient", kind=LSSVRCV, target=y, fit=None, **settings):
    return kind(criterion=criterion, search=search, **settings).fit(X, target, **(fit or {}))


@pytest.mark.parametrize("criterion", ["press", "gcv", "evidence"])
@pytest.mark.parametrize("kind", [LSSVRCV, KernelRidgeCV])
def test_the_optimum_is_that_of_a_search_without_gradients(criterion, kind):
    weights = np.random.default_rng(0).uniform(0.3, 2.0, len(y))
    model = fitted(criterion, kind=kind, target=TWO, fit={"sample_weight": weights})

    def loss(point):
        one = kind(criterion=criterion, gammas=[np.exp(point[0])], alphas=[np.exp(point[1])])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return -one.fit(X, TWO, sample_weight=weights).best_score_

    start = np.log([model.best_params_["gamma"], model.best_params_["alpha"]])
    near = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-10})
    assert_allclose(loss(start), -model.best_score_, rtol=1e-10)
    assert_allclose(-model.best_score_, near.fun, rtol=1e-5)
    assert np.abs(near.x - start).max() < 0.05
    assert (
        model.best_score_ >= fitted(criterion, "grid", kind, TWO, {"sample_weight": weights}).best_score_
    )


@pytest.mark.parametrize("criterion", ["press", "evidence"])
def test_everything_fits_together(criterion):
    model = fitted(criterion)
    assert model.search_["method"] == "gradient"
    moved = model.search_["evaluations"] - model.search_["starts"]  # starts are cells of the grid
    assert moved + 5 * 11 == len(model.cv_results_["params"])
    assert model.cv_results_["params"][model.best_index_] == model.best_params_
    assert model.cv_results_["mean_test_score"][model.best_index_] == model.best_score_
    assert model.best_score_ == model.cv_results_["mean_test_score"].max()
    assert (model.gamma_, model.alpha_) == (model.best_params_["gamma"], model.best_params_["alpha"])
    assert model.heldout_prediction_ is None
    assert "slopes" not in model.approximation_["selected_with"]
    literal = LSSVR(gamma=model.gamma_, alpha=model.alpha_).fit(X, y)
    assert_allclose(model.predict(X), literal.predict(X), rtol=1e-10)
    assert len(model.history_) == 5 + model.search_["evaluations"]
    assert clone(model).fit(X, y).best_params_ == model.best_params_


@pytest.mark.parametrize(
    "kernel", [RBF(), Matern(nu=0.5), Laplacian(), RBF((2.0, 1.0, 1.0, 0.5, 1.0, 0.0))]
)
def test_one_width_per_feature(kernel):
    model = fitted("evidence", Gradient(restarts=0, per_feature=True), kernel=kernel)
    one = fitted("evidence", Gradient(restarts=0, per_feature=False), kernel=kernel)
    assert model.best_score_ > one.best_score_ + 10
    assert model.best_params_["metric"] == "diagonal"
    assert model.metric_.shape == (6,)
    assert model.metric_[5] == 0.0 or kernel.metric is None
    assert model.metric_[:5].min() > 3 * model.metric_[5]  # the feature that does not matter
    literal = kernel.scaled(model.gamma_).with_metric(model.metric_)
    assert_allclose(model.predict(X), LSSVR(literal, alpha=model.alpha_).fit(X, y).predict(X), rtol=1e-9)
    assert one.metric_ is None or "metric" not in one.best_params_


def test_a_kernel_with_one_width_per_feature_asks_for_it():
    model = fitted("evidence", kernel=RBF(gamma=[0.5] * 6))
    assert model.best_params_["metric"] == "diagonal"
    assert "metric" not in fitted("evidence", kernel=RBF(metric=np.eye(6))).best_params_


def test_the_edge_extends_the_grid_with_a_note():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        narrow = fitted(gammas=[2.0, 4.0, 8.0], alphas=[1.0, 2.0])
    wide = fitted()
    assert_allclose(narrow.best_score_, wide.best_score_, rtol=1e-4)
    assert any("smallest gamma" in note for note in narrow.search_["notes"])
    assert any("smallest alpha" in note for note in narrow.search_["notes"])
    assert wide.search_["notes"] == []


def test_what_still_rises_at_the_last_extension_is_warned_of():
    with pytest.warns(GridEdgeWarning, match="smallest alpha"):  # no noise: the smaller the better
        fitted("evidence", target=X[:, 0] ** 2)


def test_one_value_is_given_not_a_range():
    model = fitted(alphas=[0.3])
    assert model.alpha_ == 0.3
    model = fitted(gammas=[0.05])
    assert model.gamma_ == 0.05


@pytest.mark.parametrize("kernel", ["linear", Linear() + Linear(), lambda a, b: a @ b.T])
def test_without_a_width_the_ridge_alone_is_moved(kernel):
    model, grid = fitted(kernel=kernel), fitted(kernel=kernel, search="grid")
    assert model.best_score_ >= grid.best_score_ * (1 + 1e-12)  # one may be on the other's cell
    assert model.gamma_ is None


def test_a_kernel_matrix():
    K = RBF(0.05)(X, X)
    model = LSSVRCV("precomputed", criterion="gcv", search="gradient").fit(K, y)
    other = fitted("gcv", gammas=[0.05])
    assert_allclose([model.alpha_, model.best_score_], [other.alpha_, other.best_score_], rtol=1e-3)


def test_several_kernels_and_classes():
    model = fitted(kernel=["rbf", "matern12"], search=Gradient(restarts=4))
    grid = fitted(kernel=["rbf", "matern12"], search="grid")
    assert model.best_score_ >= grid.best_score_
    assert {"rbf", "matern12"} == set(model.cv_results_["param_kernel"])
    assert_allclose(model.expansion_.kernel.gamma, model.gamma_)
    labels = np.digitize(y, np.quantile(y, [0.3, 0.6]))
    model = LSSVCCV(criterion="press", search="gradient", class_weight="balanced").fit(X, labels)
    assert model.score(X, labels) > 0.8


def test_equal_targets_need_no_descent():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fitted(target=np.ones(len(y)))
    assert model.best_score_ == 0.0
    assert_allclose(model.predict(X), 1.0)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_scales_of_the_targets_change_nothing(scale):
    one, other = fitted(), fitted(target=scale * y)
    assert_allclose([other.gamma_, other.alpha_], [one.gamma_, one.alpha_], rtol=1e-6)


def test_one_cell_is_the_whole_search():
    for kernel, gammas in (("rbf", [0.1]), ("linear", None)):
        model = fitted(kernel=kernel, gammas=gammas, alphas=[0.01])
        assert model.search_["evaluations"] == 0
        assert model.alpha_ == 0.01
        assert len(model.cv_results_["params"]) == 1


def test_where_a_descent_stays_on_the_edge_it_is_not_warned_of():
    rows, target = np.repeat(X[:10], 4, axis=0), np.random.default_rng(9).standard_normal(40)
    model = LSSVRCV(criterion="gcv", search="gradient")
    with pytest.warns(GridEdgeWarning):
        clone(model).set_params(search="grid").fit(rows, target)
    with warnings.catch_warnings():
        warnings.simplefilter("error", GridEdgeWarning)
        model.fit(rows, target)  # the best is a constant, and the slope at the edge is next to nothing
    assert model.gamma_ == min(model.cv_results_["param_gamma"])
    assert model.alpha_ == max(model.cv_results_["param_alpha"])


@pytest.mark.parametrize("search", ["grid", "gradient"])
def test_a_target_that_is_constant_has_no_say_in_the_evidence(search):
    alone = fitted("evidence", search)
    beside = fitted("evidence", search, target=np.column_stack([y, np.ones(len(y))]))
    assert_allclose(beside.best_score_, alone.best_score_)
    assert_allclose([beside.gamma_, beside.alpha_], [alone.gamma_, alone.alpha_], rtol=1e-2)


def test_what_is_refused():
    for match, settings in {
        'criterion="press", "gcv"': {"criterion": "mse"},
        'approximation="exact"': {"approximation": Nystroem(20)},
        "learned in rounds|whole folds": {"metric": "diagonal"},
        "cannot have one width per feature": {
            "search": Gradient(per_feature=True),
            "kernel": RBF(metric=np.eye(6)),
        },
    }.items():
        with pytest.raises(ValueError, match=match):
            fitted(**settings)
    for wrong in ({"restarts": -1}, {"restarts": 1.5}, {"restarts": True}, {"per_feature": "yes"}):
        with pytest.raises(ValueError, match="must be"):
            Gradient(**wrong)


class Stop(Exception):
    pass


def counting(limit=None, error=Stop):
    seen = []

    def callback(event):
        seen.append(event)
        if len(seen) == limit:
            raise error

    return callback, seen


@pytest.mark.parametrize("search", ["gradient", Gradient(restarts=1, per_feature=True)])
def test_a_checkpoint_goes_on_where_it_was(tmp_path, search):
    path = tmp_path / "journal"
    whole = fitted("evidence", search)
    total = 5 + whole.search_["evaluations"]
    for limit in (3, 4, 2):
        with pytest.raises(Stop):
            fitted("evidence", search, checkpoint=path, callback=counting(limit)[0])
    callback, seen = counting()
    again = fitted("evidence", search, checkpoint=path, callback=callback)
    assert len(seen) == total - 9
    assert again.best_params_ == whole.best_params_
    assert again.best_score_ == whole.best_score_
    assert again.cv_results_["params"] == whole.cv_results_["params"]
    if whole.metric_ is not None:
        assert (again.metric_ == whole.metric_).all()
    assert path.stat().st_size > 1000
    callback, seen = counting()
    fitted("evidence", search, checkpoint=path, callback=callback)
    assert not seen


def test_a_budget_and_an_interruption_end_it_with_the_best_so_far(monkeypatch):
    callback, _ = counting(8, KeyboardInterrupt)
    with pytest.warns(SearchStoppedWarning, match="interrupted"):
        model = fitted(callback=callback)
    assert model.search_["stopped"] == "interrupted"
    assert model.best_score_ == model.cv_results_["mean_test_score"].max()
    assert model.best_score_ <= fitted().best_score_
    clock = iter(np.arange(10**6) * 1.0)
    monkeypatch.setattr("onefold.search.conduct.time.monotonic", lambda: next(clock))
    with pytest.warns(SearchStoppedWarning, match="time_budget"):
        model = fitted(time_budget=20.0)
    assert 0 < model.search_["evaluations"] < fitted().search_["evaluations"]


@pytest.mark.parametrize("search", ["gradient", Gradient(restarts=1, per_feature=True)])
def test_saving(tmp_path, search):
    model = fitted("evidence", search)
    model.save(tmp_path / "m.onefold")
    loaded = onefold.load(tmp_path / "m.onefold")
    assert loaded.search == search
    assert loaded.search_ == model.search_
    assert loaded.best_params_ == model.best_params_
    assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-14)


def test_rows_of_another_library_and_sparse_rows():
    torch = pytest.importorskip("torch")
    import scipy.sparse

    reference = fitted("evidence", Gradient(restarts=0, per_feature=True))
    other = LSSVRCV(criterion="evidence", search=Gradient(restarts=0, per_feature=True))
    other.fit(torch.from_numpy(X), torch.from_numpy(y))
    assert_allclose(other.best_score_, reference.best_score_, rtol=1e-6)
    sparse = LSSVRCV(criterion="evidence", search=Gradient(restarts=0, per_feature=True))
    sparse.fit(scipy.sparse.csr_array(X), y)
    assert_allclose(sparse.best_score_, reference.best_score_, rtol=1e-6)


def test_rows_of_weight_0_leave():
    weights = np.r_[np.ones(70), np.zeros(20)]
    model = fitted(fit={"sample_weight": weights})
    fewer = LSSVRCV(criterion="press", search="gradient").fit(X[:70], y[:70])
    assert_allclose(model.best_score_, fewer.best_score_, rtol=1e-10)
    assert model.best_params_ == pytest.approx(fewer.best_params_, rel=1e-6)
