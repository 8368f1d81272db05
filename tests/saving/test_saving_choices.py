"""What an estimator chose of kernels, metrics and blends, through a file; notes that fit nothing."""

from __future__ import annotations

import numpy as np
import pytest
from saving_standins import through_file

from onefold import LSSVR, LSSVRCV, SparseLSSVR, saving
from onefold.expansions import Blend, Expansion
from onefold.kernels import RBF, Laplacian, Linear, Matern
from onefold.saving import ModelFileError
from onefold.search import FullGrid, Halving

RNG = np.random.default_rng(9)
X = RNG.normal(size=(30, 3))
Y = np.sin(X[:, 0])
SMALL = {"gammas": [0.1, 1.0], "alphas": [0.1, 1.0], "cv": 3}
MEMBER = {"kernel": "rbf", "metric": "full", "round": 2, "gamma": 0.5, "alpha": 0.1, "weight": 0.7}
LINEAR = {**MEMBER, "kernel": "linear", "metric": "none", "round": 0, "gamma": None, "weight": 0.3}


def search():
    """A search with the notes of one that chose among families and rounds."""
    model = LSSVRCV(**SMALL).fit(X, Y)
    names, gammas = ["rbf", "laplacian", "matern12", "linear"], [0.1, 1.0, 0.5, None]
    results = dict(model.cv_results_)
    results["params"] = [
        {**old, "kernel": kernel, "metric": "none", "round": i}
        | ({} if gamma is None else {"gamma": gamma})
        for i, (old, kernel, gamma) in enumerate(zip(results["params"], names, gammas))
    ]
    results["param_kernel"] = np.ma.MaskedArray(np.array(names), mask=False)
    results["param_metric"] = np.ma.MaskedArray(np.array(["none"] * 4), mask=False)
    results["param_round"] = np.ma.MaskedArray(np.arange(4), mask=False)
    results["param_gamma"] = np.ma.MaskedArray([0.1, 1.0, 0.5, 1.0], mask=[False, False, False, True])
    model.cv_results_ = results
    model.best_params_ = dict(results["params"][model.best_index_])
    model.kernel_ = "rbf"
    model.metric_ = np.eye(3)
    model.feature_importances_ = np.array([0.5, 0.5, 0.0])
    model.metric_history_ = [{"round": 0, "score": -0.1, "metric": None, "kernel": "rbf"}]
    first = model.expansion_
    other = Expansion(Linear(), first.centres, first.coef, first.intercept)
    model.expansion_ = Blend((first, other), [0.7, 0.3], np.zeros(1))
    model.blend_ = [MEMBER, LINEAR]
    model.blend_score_ = -0.05
    return model


def test_several_criteria_and_their_columns_come_back(tmp_path):
    model = LSSVRCV(**SMALL, criterion=["mse", "press", "r2"]).fit(X, Y)
    loaded = through_file(model, tmp_path)
    assert loaded.criterion == ["mse", "press", "r2"]
    for name in ("mean_test_press", "split1_test_r2", "rank_test_r2"):
        assert loaded.cv_results_[name].tobytes() == model.cv_results_[name].tobytes()


def test_a_scorer_among_several_criteria_is_dropped(tmp_path):
    def worst(estimator, rows, y):
        return -float(np.abs(estimator.predict(rows) - y).max())

    model = LSSVRCV(**SMALL, criterion=["mse", worst]).fit(X, Y)
    loaded = through_file(model, tmp_path)
    assert loaded.criterion is None
    assert loaded.dropped_params_.keys() == {"criterion"}
    assert "mean_test_worst" in loaded.cv_results_


@pytest.mark.parametrize("criterion", [[], ["mse", 3], 3])
def test_criteria_that_are_none_are_refused(criterion, tmp_path):
    model = LSSVRCV(**SMALL).fit(X, Y)
    model.criterion = criterion
    with pytest.raises(ValueError, match="criterion"):
        through_file(model, tmp_path)


def test_the_notes_of_a_choice_come_back(tmp_path):
    model = search()
    loaded = through_file(model, tmp_path)
    for name in ("kernel_", "metric_history_", "blend_", "blend_score_", "best_params_"):
        assert getattr(loaded, name) == getattr(model, name)
    for name in ("metric_", "feature_importances_"):
        assert np.array_equal(getattr(loaded, name), getattr(model, name))
    for name in ("param_kernel", "param_metric", "param_round", "param_gamma"):
        got, expected = loaded.cv_results_[name], model.cv_results_[name]
        assert got.dtype == expected.dtype
        assert got.tolist() == expected.tolist()
    rows = X[:17]  # of X itself, which the model holds, BLAS forms X Xᵀ with other bits
    assert loaded.predict(rows).tolist() == model.predict(rows).tolist()


@pytest.mark.parametrize("name", ["metric_", "feature_importances_", "metric_history_", "kernel_"])
def test_plain_estimators_have_none_of_them_or_nothing(tmp_path, name):
    for model in (LSSVR(), LSSVRCV(**SMALL)):
        vars(model.fit(X, Y)).pop(name, None)  # as in files of earlier versions
        assert not hasattr(through_file(model, tmp_path), name)
        setattr(model, name, None)
        assert getattr(through_file(model, tmp_path), name) is None


def test_no_blend_is_a_legal_answer_and_so_is_one_member(tmp_path):
    model = LSSVRCV(**SMALL).fit(X, Y)
    model.blend_ = model.blend_score_ = None
    assert through_file(model, tmp_path).blend_ is None
    model.blend_ = [{**MEMBER, "weight": 1.0}]
    assert through_file(model, tmp_path).blend_ == model.blend_
    model.blend_ = [{**MEMBER, "weight": 1.0}, {**LINEAR, "weight": 0.0}]
    assert through_file(model, tmp_path).blend_ == model.blend_


def test_a_metric_per_feature(tmp_path):
    model = LSSVR().fit(X, Y)
    model.metric_ = np.array([1.0, 0.0, 2.0])
    assert through_file(model, tmp_path).metric_.tolist() == [1.0, 0.0, 2.0]


def assert_refused(model, tmp_path, monkeypatch):
    """By `save`, and by `load` where `save` was talked into it."""
    with pytest.raises(ValueError, match="cannot save this"):
        saving.save(model, tmp_path / "m")
    with monkeypatch.context() as patch:
        patch.setattr("onefold.saving.rules.State.check", lambda state, value, name: None)
        saving.save(model, tmp_path / "m")
    with pytest.raises(ModelFileError):
        saving.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("kernel_", 3),
        ("metric_", np.ones(2)),
        ("metric_", np.ones((3, 2))),
        ("metric_", np.array([1.0, np.nan, 1.0])),
        ("metric_", np.array([1.0, np.inf, 1.0])),
        ("metric_", np.ones(3, dtype=int)),
        ("metric_", [1.0, 1.0, 1.0]),
        ("metric_", "full"),
        ("feature_importances_", np.ones(3)),
        ("feature_importances_", np.array([1.5, -0.5, 0.0])),
        ("feature_importances_", np.array([np.nan, 0.5, 0.5])),
        ("feature_importances_", np.ones((1, 3)) / 3),
        ("feature_importances_", np.array([0.5, 0.5])),
        ("feature_importances_", 1.0),
        ("metric_history_", {}),
        ("metric_history_", [1]),
        ("metric_history_", [{1: 2}]),
        ("metric_history_", [{"a": [1.0]}]),
        ("blend_", {}),
        ("blend_", []),
        ("blend_", [1, 2]),
        ("blend_", [MEMBER]),
        ("blend_", [MEMBER, LINEAR, MEMBER]),
        ("blend_", [MEMBER, {**LINEAR, "weight": 0.0}]),
        ("blend_", [MEMBER, {**LINEAR, "weight": -1.0}]),
        ("blend_", [MEMBER, {**LINEAR, "weight": np.nan}]),
        ("blend_", [MEMBER, {**LINEAR, "gamma": -1.0}]),
        ("blend_", [MEMBER, {**LINEAR, "alpha": None}]),
        ("blend_", [MEMBER, {**LINEAR, "round": 0.5}]),
        ("blend_", [MEMBER, {**LINEAR, "round": -1}]),
        ("blend_", [MEMBER, {**LINEAR, "kernel": None}]),
        ("blend_", [MEMBER, {**LINEAR, "metric": "auto"}]),
        ("blend_", [MEMBER, {"kernel": "rbf"}]),
        ("blend_score_", "high"),
        ("blend_score_", np.inf),
        ("best_params_", {"alpha": [0.1]}),
    ],
)
def test_notes_that_fit_nothing_are_refused(tmp_path, monkeypatch, attribute, value):
    model = search()
    setattr(model, attribute, value)
    assert_refused(model, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "kernel",
    [
        "auto",
        ["rbf"],
        ["rbf", "laplacian", "matern12"],
        ["rbf", Laplacian(0.5)],
        [Matern(1.0, metric=[1, 2, 0])],
    ],
)
def test_searches_may_have_several_kernels(tmp_path, monkeypatch, kernel):
    model = LSSVRCV(**SMALL).fit(X, Y)
    model.kernel = kernel
    assert through_file(model, tmp_path).kernel == kernel
    for other in (LSSVR().fit(X, Y), SparseLSSVR(**SMALL, n_centres=5).fit(X, Y)):
        other.kernel = kernel
        assert_refused(other, tmp_path, monkeypatch)


@pytest.mark.parametrize("kernel", [[], ["auto"], ["wool"], [3], [["rbf"]], "Auto", {"rbf": 1}, None])
def test_lists_of_what_is_no_kernel_are_refused(tmp_path, monkeypatch, kernel):
    model = LSSVRCV(**SMALL).fit(X, Y)
    model.kernel = kernel
    assert_refused(model, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("metric", [None, "diagonal", "full", "auto"], ["", "none", 1, True, np.eye(3)]),
        ("max_rounds", [1, 5, np.int64(3)], [0, -1, 1.5, True, None, "3"]),
        ("metric_rows", [None, 1, 2000], [0, -1, 0.5, True, "all"]),
        ("blend", [True, False], [None, 1, "yes"]),
    ],
)
def test_parameters_of_the_choice(tmp_path, name, good, bad):
    """Set by hand: they are looked at whether or not the class has them."""
    for model in (LSSVRCV(**SMALL).fit(X, Y), LSSVR(RBF(1.0)).fit(X, Y)):
        for value in good:
            setattr(model, name, value)
            saving.save(model, tmp_path / "m")
        for value in bad:
            setattr(model, name, value)
            with pytest.raises(ValueError, match=f"the {name} of its"):
                saving.save(model, tmp_path / "m")


@pytest.mark.parametrize("method", ["halving", Halving(factor=2, min_resources=20), FullGrid()])
def test_the_method_of_a_search_and_its_record_come_back(tmp_path, method):
    model = LSSVRCV(search=method, **SMALL).fit(X, Y)
    loaded = through_file(model, tmp_path)
    assert loaded.search == method
    assert loaded.search_ == model.search_
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_a_method_with_settings_that_make_no_sense_is_refused(tmp_path):
    saving.save(LSSVRCV(search=Halving(factor=2.5), **SMALL).fit(X, Y), tmp_path / "model")
    bytes_ = (tmp_path / "model").read_bytes()
    assert bytes_.count(b"2.5") == 2  # the parameter, and the record of the search
    (tmp_path / "model").write_bytes(bytes_.replace(b"2.5", b"0.5"))
    with pytest.raises(ModelFileError):
        saving.load(tmp_path / "model")
