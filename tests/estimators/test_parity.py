"""The same numbers as scikit-learn: KernelRidge, and GridSearchCV over the fixed classes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.kernel_ridge import KernelRidge as ReferenceRidge
from sklearn.metrics import fbeta_score, make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.search.ledger import best_cell

RNG = np.random.default_rng(5)
X = RNG.standard_normal((60, 4))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] + 2.0])
WEIGHTS = RNG.uniform(0.1, 3.0, 60)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("y", [Y[:, 0], Y], ids=["one", "two"])
@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel": "rbf", "gamma": 0.2},
        {"kernel": "rbf", "gamma": None},
        {"kernel": "laplacian", "gamma": 0.1},
        {"kernel": "polynomial", "gamma": 0.3, "degree": 2, "coef0": 0.5},
        {"kernel": "linear"},
    ],
    ids=lambda p: f"{p['kernel']} {p.get('gamma')}",
)
@pytest.mark.parametrize("alpha", [1e-3, 1.0])
def test_kernel_ridge_is_scikit_learns(parameters, alpha, y, weights) -> None:
    ours = KernelRidge(alpha=alpha, **parameters).fit(X, y, weights)
    theirs = ReferenceRidge(alpha=alpha, **parameters).fit(X, y, weights)
    assert_allclose(ours.predict(X[:9] + 0.1), theirs.predict(X[:9] + 0.1), rtol=1e-10, atol=1e-10)
    dual = ours.expansion_.coef if y.ndim == 2 else ours.expansion_.coef[:, 0]
    assert_allclose(dual, theirs.dual_coef_, rtol=1e-7, atol=1e-8)


def test_one_ridge_per_target() -> None:
    ours = KernelRidge(alpha=[0.01, 1.0], gamma=0.2).fit(X, Y).predict(X)
    theirs = ReferenceRidge(kernel="rbf", alpha=[0.01, 1.0], gamma=0.2).fit(X, Y).predict(X)
    assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)
    with pytest.raises(ValueError, match="one per target"):
        KernelRidge(alpha=[0.1, 1.0, 2.0]).fit(X, Y)


def test_precomputed_is_the_kernel_it_was_computed_with() -> None:
    K = np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(-1))
    for fixed in (LSSVR, KernelRidge):
        direct = fixed(gamma=0.2, alpha=0.1).fit(X, Y[:, 0])
        for matrix in (K, np.asfortranarray(K)):
            given = fixed(kernel="precomputed", alpha=0.1).fit(matrix, Y[:, 0])
            assert_allclose(given.predict(K[:5]), direct.predict(X[:5]), rtol=1e-10)
        assert given.expansion_.centres is None


def test_lssvr_solves_the_bordered_system() -> None:
    K = np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(-1))
    system = np.block([[K + 0.1 * np.diag(1 / WEIGHTS), np.ones((60, 1))], [np.ones((1, 60)), 0.0]])
    solved = np.linalg.solve(system, np.append(Y[:, 0], 0.0))
    model = LSSVR(gamma=0.2, alpha=0.1).fit(X, Y[:, 0], WEIGHTS)
    assert_allclose(model.expansion_.coef[:, 0], solved[:-1], rtol=1e-8, atol=1e-9)
    assert model.expansion_.intercept[0] == pytest.approx(solved[-1], rel=1e-9)


GAMMAS, ALPHAS = [2.0**-15, 2.0**-7, 2.0**-3, 1.0], [2.0**-15, 2.0**-5, 1.0, 32.0]
CANCER = load_breast_cancer(return_X_y=True)
IRIS = load_iris(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)


def compare(chosen, fixed, X, y, scoring, cv, weights=None, groups=None) -> None:
    parameters = {"alpha": ALPHAS, "gamma": GAMMAS}
    fit = {} if groups is None else {"groups": groups}
    fit |= {} if weights is None else {"sample_weight": weights}
    reference = GridSearchCV(fixed, parameters, scoring=scoring, cv=cv).fit(X, y, **fit)
    found = chosen.set_params(gammas=GAMMAS, alphas=ALPHAS, criterion=scoring, cv=cv).fit(X, y, **fit)
    assert set(found.cv_results_) == set(reference.cv_results_)
    assert found.cv_results_["params"] == reference.cv_results_["params"]
    for key, values in reference.cv_results_.items():
        if key.endswith("_test_score") and not key.startswith("rank"):
            assert_allclose(found.cv_results_[key], values, rtol=1e-8, atol=1e-8, err_msg=key)
    assert found.best_score_ == pytest.approx(reference.best_score_, rel=1e-8)
    best = found.cv_results_["rank_test_score"][found.best_index_]
    assert best == 1 or scoring not in ("accuracy",)


def pessimistic(estimator, X, y) -> float:
    """A custom scorer that looks at rows, labels and decision values."""
    margin = estimator.decision_function(X) * np.where(y == estimator.classes_[1], 1, -1)
    return float(np.minimum(margin, 1).mean() + 1e-3 * X[:, 0].mean())


@pytest.mark.parametrize(
    "scoring",
    [
        "accuracy",
        "balanced_accuracy",
        "roc_auc",
        "f1",
        make_scorer(fbeta_score, beta=2),
        pessimistic,
    ],
    ids=["accuracy", "balanced_accuracy", "roc_auc", "f1", "fbeta", "own function"],
)
def test_classification_scores_are_those_of_grid_search(scoring) -> None:
    X, y = StandardScaler().fit_transform(CANCER[0][:150]), CANCER[1][:150]
    compare(LSSVCCV(), LSSVC(), X, y, scoring, cv=5)


def test_several_classes() -> None:
    X = StandardScaler().fit_transform(IRIS[0])
    names = np.array(["setosa", "versicolor", "virginica"])[IRIS[1]]
    for scoring in ("accuracy", "f1_macro"):
        compare(LSSVCCV(), LSSVC(), X, names, scoring, cv=StratifiedKFold(3))


@pytest.mark.parametrize(
    "scoring",
    ["neg_mean_squared_error", "r2", "neg_mean_absolute_error", "neg_median_absolute_error"],
)
@pytest.mark.parametrize(("chosen", "fixed"), [(LSSVRCV, LSSVR), (KernelRidgeCV, KernelRidge)])
def test_regression_scores_are_those_of_grid_search(chosen, fixed, scoring) -> None:
    X, y = StandardScaler().fit_transform(DIABETES[0][:150]), DIABETES[1][:150]
    compare(chosen(), fixed(), X, y, scoring, cv=KFold(4, shuffle=True, random_state=1))


def test_weights_and_groups() -> None:
    X, y = StandardScaler().fit_transform(DIABETES[0][:90]), DIABETES[1][:90]
    groups, weights = np.arange(90) % 7, RNG.uniform(0.1, 2.0, 90)
    compare(LSSVRCV(), LSSVR(), X, y, "r2", GroupKFold(3), weights, groups)
    labels = y > 100
    compare(LSSVCCV(), LSSVC(), X, labels, "accuracy", GroupKFold(3), weights, groups)
    compare(LSSVCCV(), LSSVC(), X, labels, "roc_auc", GroupKFold(3), weights, groups)


def test_fixed_class_weights() -> None:
    X, y = StandardScaler().fit_transform(CANCER[0][:120]), CANCER[1][:120]
    weight = {0: 3.0, 1: 0.5}
    compare(LSSVCCV(class_weight=weight), LSSVC(class_weight=weight), X, y, "accuracy", cv=4)


def test_own_names_of_criteria_are_negated_losses() -> None:
    X, y = StandardScaler().fit_transform(CANCER[0][:150]), CANCER[1][:150]
    grid = {"gammas": GAMMAS, "alphas": ALPHAS}
    error = LSSVCCV(**grid).fit(X, y).cv_results_["mean_test_score"]
    accuracy = LSSVCCV(**grid, criterion="accuracy").fit(X, y).cv_results_["mean_test_score"]
    assert_allclose(error, accuracy - 1, atol=1e-14)
    mse = LSSVRCV(**grid).fit(X, y).cv_results_["mean_test_score"]
    negative = LSSVRCV(**grid, criterion="neg_mean_squared_error").fit(X, y)
    assert_allclose(mse, negative.cv_results_["mean_test_score"])


def test_the_chosen_model_is_the_fixed_one() -> None:
    X, y = StandardScaler().fit_transform(CANCER[0][:150]), CANCER[1][:150]
    found = LSSVCCV(gammas=GAMMAS, alphas=ALPHAS).fit(X, y)
    same = LSSVC(gamma=found.gamma_, alpha=found.alpha_).fit(X, y)
    assert_allclose(found.decision_function(X), same.decision_function(X), rtol=1e-9, atol=1e-10)


def test_ties_go_to_the_largest_gamma_then_the_largest_alpha_in_any_order() -> None:
    scores = np.array([[0.9, 0.9, 0.1], [0.9, 0.2, 0.9], [0.5, 0.9 - 1e-14, 0.3]])
    assert best_cell(scores, [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == (2, 1)
    assert best_cell(scores, [3.0, 2.0, 1.0], [3.0, 2.0, 1.0]) == (0, 0)
    with pytest.raises(ValueError, match="undefined"):
        best_cell(np.full((2, 2), np.nan), [1, 2], [1, 2])
    X, y = StandardScaler().fit_transform(IRIS[0][:100]), IRIS[1][:100]
    one = LSSVCCV(gammas=[0.01, 0.1, 0.3], alphas=[0.1, 1.0]).fit(X, y)
    two = LSSVCCV(gammas=[0.3, 0.01, 0.1], alphas=[1.0, 0.1]).fit(X, y)
    assert one.best_params_ == two.best_params_ == {"alpha": 1.0, "gamma": 0.3}
