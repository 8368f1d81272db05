"""The same numbers as scikit-learn: KernelRidge, and GridSearchCV over the fixed classes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.kernel_ridge import KernelRidge as ReferenceRidge
from sklearn.metrics import fbeta_score, make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV

RNG = np.random.default_rng(5)
X = RNG.standard_normal((60, 4))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] + 2.0])
WEIGHTS = RNG.uniform(0.1, 3.0, 60)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize(("y", "alpha"), [(Y[:, 0], 1e-3), (Y, 1.0), (Y, [0.01, 1.0])])
@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel": "rbf", "gamma": 0.2},
        {"kernel": "rbf", "gamma": None},
        {"kernel": "laplacian", "gamma": 0.1},
        {"kernel": "polynomial", "gamma": 0.3, "degree": 2, "coef0": 0.5},
        {"kernel": "linear"},
    ],
)
def test_kernel_ridge_is_scikit_learns(parameters, y, alpha, weights) -> None:
    ours = KernelRidge(alpha=alpha, **parameters).fit(X, y, weights)
    theirs = ReferenceRidge(alpha=alpha, **parameters).fit(X, y, weights)
    assert_allclose(ours.predict(X[:9] + 0.1), theirs.predict(X[:9] + 0.1), rtol=1e-10, atol=1e-10)
    dual = ours.expansion_.coef.reshape(y.shape)
    assert_allclose(dual, theirs.dual_coef_, rtol=1e-7, atol=1e-8)


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


def scaled(load):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X[:150:2]), y[:150:2]


GAMMAS = [2.0**-15, 2.0**-5, 1.0]
ALPHAS = [2.0**-15, 2.0**-5, 32.0]
CANCER = scaled(load_breast_cancer)
IRIS = scaled(load_iris)
DIABETES = scaled(load_diabetes)
HIGH = DIABETES[1] > 100
NAMES = np.array(["setosa", "versicolor", "virginica"])[IRIS[1]]
BOTH = {"sample_weight": RNG.uniform(0.1, 2.0, 75), "groups": np.arange(75) % 7}
CLASSES = {0: 3.0, 1: 0.5}
FOLDS = KFold(4, shuffle=True, random_state=1)


def pessimistic(estimator, X, y) -> float:
    """A custom scorer that looks at rows, labels and decision values."""
    margin = estimator.decision_function(X) * np.where(y == estimator.classes_[1], 1, -1)
    return float(np.minimum(margin, 1).mean() + 1e-3 * X[:, 0].mean())


MACHINES = {"C": (LSSVCCV, LSSVC), "R": (LSSVRCV, LSSVR), "K": (KernelRidgeCV, KernelRidge)}
SCORES = [  # machine, data, criterion, cv, settings of both, what else fit takes
    *(("C", CANCER, name, 5, {}, {}) for name in ("accuracy", "balanced_accuracy", "roc_auc", "f1")),
    ("C", CANCER, make_scorer(fbeta_score, beta=2), 5, {}, {}),
    ("C", CANCER, pessimistic, 5, {}, {}),
    ("C", CANCER, "accuracy", 4, {"class_weight": CLASSES}, {}),
    *(("C", (IRIS[0], NAMES), name, StratifiedKFold(3), {}, {}) for name in ("accuracy", "f1_macro")),
    ("R", DIABETES, "r2", GroupKFold(3), {}, BOTH),
    *(("C", (DIABETES[0], HIGH), name, GroupKFold(3), {}, BOTH) for name in ("accuracy", "roc_auc")),
    *(("R", DIABETES, name, FOLDS, {}, {}) for name in ("neg_mean_absolute_error", "r2")),
    *(
        ("K", DIABETES, f"neg_{name}_error", FOLDS, {}, {})
        for name in ("mean_squared", "median_absolute")
    ),
]


@pytest.mark.parametrize(("kind", "data", "scoring", "cv", "settings", "fit"), SCORES)
def test_scores_are_those_of_grid_search(kind, data, scoring, cv, settings, fit) -> None:
    chosen, fixed = MACHINES[kind]
    grid = {"alpha": ALPHAS, "gamma": GAMMAS}
    refitted = fixed(**settings, **{"calibration": None} if kind == "C" else {})
    reference = GridSearchCV(refitted, grid, scoring=scoring, cv=cv).fit(*data, **fit)
    found = chosen(gammas=GAMMAS, alphas=ALPHAS, criterion=scoring, cv=cv, **settings).fit(*data, **fit)
    assert set(found.cv_results_) == set(reference.cv_results_)
    assert found.cv_results_["params"] == reference.cv_results_["params"]
    for key, values in reference.cv_results_.items():
        if key.endswith("_test_score") and not key.startswith("rank"):
            assert_allclose(found.cv_results_[key], values, rtol=1e-8, atol=1e-8, err_msg=key)
    assert found.best_score_ == pytest.approx(reference.best_score_, rel=1e-8)
    best = found.cv_results_["rank_test_score"][found.best_index_]
    assert best == 1 or scoring != "accuracy"


def test_own_names_of_criteria_are_negated_losses() -> None:
    for kind, data, names, shift in (
        (LSSVCCV, CANCER, (None, "error", "accuracy"), 1.0),
        (LSSVRCV, DIABETES, (None, "mse", "neg_mean_squared_error"), 0.0),
    ):
        machines = [kind(gammas=GAMMAS, alphas=ALPHAS, criterion=name).fit(*data) for name in names]
        default, named, other = (machine.cv_results_["mean_test_score"] for machine in machines)
        assert_allclose(default, other - shift, atol=1e-14)
        assert_allclose(named, default)
