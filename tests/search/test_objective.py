"""The objective: literal scores for any driver, the ledger kept, a fitted estimator in the end."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_friedman1
from sklearn.model_selection import GroupKFold, KFold, cross_val_score

import onefold
from onefold import LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Circulant, Nystroem
from onefold.kernels import RBF, Laplacian

X, y = make_friedman1(80, n_features=5, noise=1.0, random_state=0)
LABELS = np.digitize(y, np.quantile(y, [0.3, 0.6]))
GRID = [(0.1, 1e-3), (0.5, 1e-2), (3.0, 1.0)]


@pytest.mark.parametrize(("kind", "given"), [(LSSVRCV, LSSVR), (KernelRidgeCV, KernelRidge)])
@pytest.mark.parametrize(("criterion", "scoring"), [("mse", "neg_mean_squared_error"), ("r2", "r2")])
def test_scores_of_regressors_are_those_of_refits(kind, given, criterion, scoring):
    folds = KFold(4, shuffle=True, random_state=1)
    objective = kind(criterion=criterion, cv=folds).objective(X, y)
    for gamma, alpha in GRID:
        literal = cross_val_score(given(gamma=gamma, alpha=alpha), X, y, cv=folds, scoring=scoring)
        assert_allclose(objective({"gamma": gamma, "alpha": alpha}), literal.mean(), rtol=1e-8)


def test_scores_of_classifiers_with_groups_and_weights_are_those_of_a_grid():
    weights = np.random.default_rng(0).uniform(0.2, 2.0, 80)
    given = {"groups": np.arange(80) % 7, "sample_weight": weights}
    settings = {"kernel": ["rbf", Laplacian(0.5)], "criterion": "accuracy", "cv": GroupKFold(3)}
    objective = LSSVCCV(**settings).objective(X, LABELS, **given)
    grid = LSSVCCV(**settings, gammas=[0.1, 2.0], alphas=[1e-2, 1.0]).fit(X, LABELS, **given).cv_results_
    for params, mean in zip(grid["params"], grid["mean_test_score"]):
        assert_allclose(objective(params), mean, rtol=1e-12)


def test_many_ridges_at_once_and_nothing_twice():
    events = []
    objective = LSSVRCV(callback=events.append).objective(X, y)
    alphas = [1.0, 1e-3, 0.1, 0.1]
    scores = objective.scores(gamma=0.3, alphas=alphas)
    assert_allclose([objective(gamma=0.3, alpha=a) for a in alphas], scores, rtol=0)
    assert len(events) == 1
    fresh = LSSVRCV().objective(X, y)
    assert_allclose([fresh(gamma=0.3, alpha=a) for a in alphas], scores, rtol=1e-9)
    objective.scores({"gamma": np.float64(0.3), "alphas": np.array([0.1, 7.0])})
    assert [event["part"] for event in events] == ["objective"] * 2
    assert len(objective.cv_results_["params"]) == 4


def test_the_ledger_and_the_fitted_estimator(tmp_path):
    estimator = LSSVRCV(RBF(2.0), cv=KFold(4))
    objective = estimator.objective(X, y)
    for gamma, alpha in GRID:
        objective(gamma=gamma, alpha=alpha)
    results = objective.cv_results_
    best = int(np.argmax(results["mean_test_score"]))
    assert (objective.best_index_, objective.best_params_) == (best, results["params"][best])
    assert objective.best_score_ == results["mean_test_score"][best]
    model = objective.fit()
    assert not hasattr(estimator, "expansion_")
    assert model.best_params_ == objective.best_params_
    assert model.best_score_ == objective.best_score_
    assert model.search_ == {"method": "objective", "evaluations": 3, "stopped": None, "untried": []}
    grid = LSSVRCV(RBF(2.0), cv=KFold(4), gammas=[model.gamma_], alphas=[model.alpha_]).fit(X, y)
    assert_allclose(model.predict(X), grid.predict(X), rtol=1e-10)
    assert_allclose(model.heldout_prediction_, grid.heldout_prediction_, rtol=1e-9)
    model.save(tmp_path / "m.onefold")
    assert onefold.load(tmp_path / "m.onefold").best_params_ == model.best_params_
    objective(gamma=0.02, alpha=1e-3)
    assert len(model.cv_results_["params"]) == 3  # what was fitted stays as it was


@pytest.mark.filterwarnings("ignore:the search chose")
def test_one_standard_error_is_that_of_a_grid():
    noisy = y + 4 * np.random.default_rng(0).standard_normal(len(y))
    kernels = ["rbf", "laplacian"]
    given = {"alphas": 4.0 ** np.arange(-6, 3), "gammas": [0.05, 0.2, 0.8]}
    grid = LSSVRCV(kernels, **given, select="1se").fit(X, noisy)
    assert grid.alpha_ > LSSVRCV(kernels, **given).fit(X, noisy).alpha_
    objective = LSSVRCV(kernels, select="1se").objective(X, noisy)
    for gamma, kernel in product(given["gammas"], kernels):
        objective.scores(gamma=gamma, alphas=given["alphas"], kernel=kernel)
    assert objective.best_params_ == objective.fit().best_params_ == grid.best_params_
    assert_allclose(objective.best_score_, grid.best_score_)


def test_a_checkpoint_is_shared_with_other_objectives_and_with_a_grid(tmp_path):
    path = tmp_path / "journal"
    events = []
    first = LSSVRCV(checkpoint=path).objective(X, y)
    expected = first.scores(gamma=0.3, alphas=[0.01, 0.1])
    second = LSSVRCV(checkpoint=path, callback=events.append).objective(X, y)
    assert_allclose(second.scores(gamma=0.3, alphas=[0.1, 0.01]), expected[::-1], rtol=0)
    assert second.fit().best_score_ == expected.max()
    assert not events
    LSSVRCV(checkpoint=path, gammas=[0.3], alphas=[0.01, 0.1], callback=events.append).fit(X, y)
    assert not events
    with pytest.raises(ValueError, match="another search"):
        LSSVRCV(checkpoint=path).objective(X, y + 1.0)


def test_threads_take_turns():
    events = []
    objective = LSSVRCV(callback=events.append).objective(X, y)
    points = [(g, a) for g in np.geomspace(0.01, 1, 8) for a in (1e-3, 1e-1)] * 2
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda p: objective(gamma=p[0], alpha=p[1]), points))
    assert found[:16] == found[16:]
    assert len(events) == 16
    alone = LSSVRCV().objective(X, y)
    assert_allclose(found[:16], [alone(gamma=g, alpha=a) for g, a in points[:16]], rtol=1e-12)


def test_kernels_without_a_width_weights_of_0_and_no_score() -> None:
    linear = LSSVRCV("linear").objective(X, y)
    scoring = {"cv": 5, "scoring": "neg_mean_squared_error"}
    literal = cross_val_score(LSSVR("linear", alpha=0.1), X, y, **scoring).mean()
    assert_allclose(linear(alpha=0.1), literal, rtol=1e-8)
    assert linear.fit().gamma_ is None
    weights = np.where(np.arange(80) % 4, 1.0, 0.0)
    model = LSSVRCV(approximation=Nystroem(20)).objective(X, y, sample_weight=weights)
    assert model(gamma=0.3, alpha=0.1) < 0
    assert np.array_equal(np.isfinite(model.fit().heldout_prediction_), weights > 0)
    objective = LSSVRCV("precomputed").objective(np.diag(np.r_[-5.0, np.ones(79)]), y)
    assert np.isnan(objective(alpha=0.1))
    with pytest.raises(ValueError, match="score of every candidate is undefined"):
        _ = objective.best_params_


AUTO = LSSVRCV("auto")
ONE = {"alpha": 1.0, "gamma": 1.0}
REFUSED = [
    (lambda f: f.cv_results_, "has not been evaluated yet"),
    (lambda f: f.fit(), "has not been evaluated yet"),
    (lambda f: f({"gamma": 1.0}), "alpha is missing"),
    (lambda f: f({"alpha": 1.0}), "parameters are alpha, gamma"),
    (lambda f: f(ONE | {"degree": 2}), "degree"),
    (lambda f: f(ONE | {"alpha": [1.0, 2.0]}), "one number"),
    (lambda f: f(ONE | {"alpha": -1.0}), "^alpha must be greater than 0"),
    (lambda f: f(ONE | {"gamma": np.nan}), "greater than 0"),
    (lambda f: f.scores(gamma=1.0), "alphas"),
    (lambda f: AUTO.objective(X, y)(**ONE, kernel="poly"), "kernel must be"),
    (lambda f: LSSVRCV(metric="diagonal").objective(X, y), "one model at a time"),
    (lambda f: LSSVRCV(blend=True).objective(X, y), "one model at a time"),
]


@pytest.mark.parametrize(("act", "words"), REFUSED)
def test_what_is_refused(act, words):
    with pytest.raises(ValueError, match=words):
        act(LSSVRCV().objective(X, y))


def test_spacings_of_a_circulant_matrix_are_parameters(tmp_path):
    """They score as an estimator with that one spacing; without them, as the approximation has it."""
    settings = {"cv": KFold(4), "gammas": [0.3], "alphas": [0.1, 1.0]}
    estimator = LSSVRCV(approximation=Circulant(negative="solve"), **settings, checkpoint=tmp_path / "j")
    objective = estimator.objective(X, y)
    for spacing in [(1.0, 2.0), (0.5, 0.25), 0.7]:
        alone = LSSVRCV(approximation=Circulant(spacing=spacing, negative="solve"), **settings).fit(X, y)
        for form in (spacing, np.array(spacing)):
            scores = objective.scores(gamma=0.3, spacing=form, alphas=[0.1, 1.0])
            assert_array_equal(scores, alone.cv_results_["mean_test_score"])
    plain = objective(gamma=0.3, alpha=0.1)
    assert plain == objective(gamma=0.3, alpha=0.1, spacing="data")
    results = objective.cv_results_
    assert np.ma.is_masked(results["param_spacing"])
    spacings = {(0.5, 0.25), (0.7, 0.7), (1.0, 2.0), "data"}
    assert set(results["param_spacing"].compressed()) == spacings
    model = objective.fit()
    assert model.best_params_ == objective.best_params_
    report = model.approximation_["selected_with"]
    if isinstance(model.best_params_.get("spacing"), tuple):
        assert tuple(report["spacing"]) == model.best_params_["spacing"]
    events = []
    again = estimator.set_params(callback=events.append).objective(X, y)
    assert again(gamma=0.3, spacing=[1.0, 2.0], alpha=0.1) == objective(
        gamma=0.3, spacing=(1.0, 2.0), alpha=0.1
    )
    assert not events


def test_spacings_that_cannot_be():
    searched = LSSVRCV(approximation=Circulant(spacing=[1.0, (1.0, 2.0)], negative="solve"))
    objective = searched.objective(X, y)
    assert np.isfinite(objective(gamma=0.3, alpha=0.1, spacing=(3.0, 1.0)))  # one of the list or not
    with pytest.raises(ValueError, match="spacing is missing"):
        objective(gamma=0.3, alpha=0.1)
    with pytest.raises(ValueError, match="2 levels"):
        objective(gamma=0.3, alpha=0.1, spacing=(1.0, 2.0, 3.0))
    with pytest.raises(ValueError, match="parameters are alpha, gamma; got alpha, gamma, spacing"):
        LSSVRCV().objective(X, y)(gamma=0.3, alpha=0.1, spacing=1.0)
