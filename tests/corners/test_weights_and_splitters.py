"""Weights of any size, against two hundred digits; splitters of any make, which see the user's table."""

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.kernel_ridge import KernelRidge as SklearnRidge
from sklearn.model_selection import GridSearchCV, KFold

import onefold
from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV, SparseLSSVC, SparseLSSVR

RNG = np.random.default_rng(11)
N = 15
X = RNG.normal(size=(N, 2))
Y = np.sin(2 * X[:, 0]) + 0.05 * RNG.normal(size=N)
LABELS = np.where(np.median(Y) < Y, "b", "a")
FOLDS = list(KFold(3).split(X))
PAIRS = [(LSSVR, LSSVRCV, True), (KernelRidge, KernelRidgeCV, False)]


def fit_predict(X, y, weight, gamma, alpha, at, *, intercept):
    """f(at) of the rbf machine that minimises ½‖w‖² + (1/2α) Σ v (y − f)², rows of weight 0 apart."""
    with mp.workdps(200):
        kept = weight > 0
        X = X[kept]
        y = y[kept]
        weight = weight[kept]
        n = len(y)
        G = mp.matrix(n + intercept)
        for i in range(n):
            for j in range(n):
                G[i, j] = precise_rbf(X[i], X[j], gamma)
            G[i, i] += mp.mpf(float(alpha)) / mp.mpf(float(weight[i]))
            if intercept:
                G[i, n] = G[n, i] = 1
        rhs = mp.matrix([mp.mpf(float(value)) for value in y] + [0] * intercept)
        solution = mp.lu_solve(G, rhs)
        b = solution[n] if intercept else 0
        values = [sum(solution[i] * precise_rbf(x, X[i], gamma) for i in range(n)) + b for x in at]
        return np.array([float(value) for value in values])


def precise_rbf(a, b, gamma):
    squared = sum((mp.mpf(float(s)) - mp.mpf(float(t))) ** 2 for s, t in zip(a, b))
    return mp.exp(-mp.mpf(float(gamma)) * squared)


def uneven(decades, zeros=False):
    """Weights of so many decades on both sides of 1; of 15, a row that outweighs all others."""
    weight = 10.0 ** np.random.default_rng(decades).uniform(-decades, decades, size=N)
    if decades == 15:
        weight = np.where(np.arange(N) == 3, 1e15, 1.0)
    if zeros:
        weight[::5] = 0.0
    return weight


@pytest.mark.parametrize(
    ("decades", "zeros"), [(0, False), (2, True), (8, False), (12, True), (15, False), (30, True)]
)
@pytest.mark.parametrize(("fixed", "chosen", "intercept"), PAIRS)
def test_fit_folds_and_leave_one_out_in_two_hundred_digits(
    decades, zeros, fixed, chosen, intercept
) -> None:
    weight = uneven(decades, zeros)
    gamma = 0.5
    alpha = 2.0**-13
    fitted = fixed(gamma=gamma, alpha=alpha).fit(X, Y, weight)
    wanted = fit_predict(X, Y, weight, gamma, alpha, X, intercept=intercept)
    assert_allclose(fitted.predict(X), wanted, atol=1e-9)
    folds = chosen(gammas=[gamma], alphas=[alpha], cv=FOLDS).fit(X, Y, weight)
    for train, test in FOLDS:
        wanted = fit_predict(
            X[train], Y[train], weight[train], gamma, alpha, X[test], intercept=intercept
        )
        found = folds.heldout_prediction_[test]
        assert_allclose(found, np.where(weight[test] > 0, wanted, np.nan), atol=1e-9)
    alone = chosen(gammas=[gamma], alphas=[alpha], cv="loo").fit(X, Y, weight)
    rest = np.arange(N) != 3
    wanted = fit_predict(X[rest], Y[rest], weight[rest], gamma, alpha, X[3:4], intercept=intercept)
    assert_allclose(alone.heldout_prediction_[3], wanted[0], atol=1e-9)


@pytest.mark.parametrize("decades", [0, 8])
def test_every_ridge_of_a_search(decades) -> None:
    """Many ridges take another path through the folds than one does."""
    weight = uneven(decades)
    alphas = 2.0 ** np.arange(-15, 6, 2)
    found = LSSVRCV(gammas=[0.5], alphas=alphas, cv=FOLDS).fit(X, Y, weight)
    for index in (0, 5):
        scores = []
        for train, test in FOLDS:
            values = fit_predict(
                X[train], Y[train], weight[train], 0.5, alphas[index], X[test], intercept=True
            )
            scores.append(-np.average((values - Y[test]) ** 2, weights=weight[test]))
        assert found.cv_results_["mean_test_score"][index] == pytest.approx(np.mean(scores), rel=1e-9)


def test_a_fold_of_weight_zero_has_no_score_and_says_so() -> None:
    weight = np.ones(N)
    weight[FOLDS[1][1]] = 0.0
    with pytest.warns(UserWarning, match="split 1 tests only rows of weight 0"):
        found = LSSVRCV(gammas=[0.5], alphas=[0.1], cv=FOLDS).fit(X, Y, weight)
    assert sum(key.startswith("split") for key in found.cv_results_) == 2
    weight = np.zeros(N)
    weight[FOLDS[1][1]] = 1.0
    with pytest.raises(ValueError, match="split 1 trains only on rows of weight 0"):
        LSSVRCV(gammas=[0.5], alphas=[0.1], cv=FOLDS).fit(X, Y, weight)


@pytest.mark.parametrize("estimator", [LSSVC(), LSSVCCV(), SparseLSSVC(), LSSVC(class_weight={"a": 0})])
def test_one_class_with_weight_is_refused(estimator) -> None:
    weight = None if estimator.class_weight else (LABELS == "b").astype(float)
    with pytest.raises(ValueError, match="only one class"):
        estimator.fit(X, LABELS, weight)


def test_weights_beyond_float64_are_refused() -> None:
    with pytest.raises(ValueError, match="leaves the range"):
        LSSVR(alpha=1e-200).fit(X, Y, np.full(N, 1e200))


@pytest.mark.parametrize("cv", [FOLDS, "loo"])
def test_rows_of_weight_zero_have_no_held_out_probability(cv) -> None:
    weight = np.where(np.isin(np.arange(N), [0, 5, 11]), 0.0, 1.0)
    found = LSSVCCV(gammas=[0.5], alphas=[0.1], cv=cv).fit(X, LABELS, weight)
    for values in (found.heldout_prediction_, found.heldout_proba_[:, 0]):
        assert_array_equal(np.isnan(values), weight == 0)


# -- splitters: they see what the user gave, and serve once -----------------------------------------
ROWS = RNG.normal(size=(60, 2))
TARGET = np.sin(2 * ROWS[:, 0]) + 0.05 * RNG.normal(size=60)
FRAME = pd.DataFrame(ROWS, columns=["first", "second"])
SERIES = pd.Series(TARGET)
GRID = {"gammas": [0.1, 0.5, 2.0], "alphas": [1e-3, 0.1]}


class ByFeature:
    """Folds of neighbours along the first feature: another library's splitter, with no base class."""

    def split(self, X, y=None, groups=None):
        column = X["first"].to_numpy() if isinstance(X, pd.DataFrame) else np.asarray(X)[:, 0]
        order = np.argsort(column)
        for test in np.array_split(order, 4):
            yield np.setdiff1d(order, test), test

    def get_n_splits(self, X=None, y=None, groups=None):
        return 4


class NeedsFrame(ByFeature):
    def split(self, X, y=None, groups=None):
        if not isinstance(X, pd.DataFrame) or not isinstance(y, pd.Series):
            raise TypeError("a frame and a series are needed")
        return super().split(X, y, groups)


@pytest.mark.parametrize(
    ("rows", "y", "cv"),
    [(FRAME, SERIES, ByFeature()), (FRAME, SERIES, NeedsFrame()), (ROWS, TARGET, ByFeature())],
)
def test_splitters_are_handed_the_users_table(rows, y, cv) -> None:
    grid = {"gamma": GRID["gammas"], "alpha": GRID["alphas"]}
    scoring = "neg_mean_squared_error"
    wanted = GridSearchCV(SklearnRidge(kernel="rbf"), grid, cv=cv, scoring=scoring).fit(rows, y)
    found = KernelRidgeCV(**GRID, cv=cv).fit(rows, y)
    key = "mean_test_score"
    assert_allclose(found.cv_results_[key], wanted.cv_results_[key], rtol=1e-9)
    one, two = (
        SparseLSSVR(**GRID, cv=cv).fit(rows, y).path_[key] for cv in (cv, list(cv.split(rows, y)))
    )
    assert_allclose(one, two)
    chooser = LSSVRCV(**GRID, approximation="nystroem", cv=ByFeature())
    one, two = (
        onefold.trust(chooser, *data, size=30, random_state=0) for data in ((rows, y), (ROWS, TARGET))
    )
    assert one == two


def test_iterators_given_splits_and_masks_serve_the_trust_check_too() -> None:
    chooser = LSSVRCV(**GRID, approximation="nystroem")
    one = LSSVRCV(**GRID, approximation="nystroem", cv=KFold(3).split(ROWS), check=True)
    one = one.fit(ROWS, TARGET)
    two = chooser.set_params(cv=KFold(3)).fit(ROWS, TARGET)
    assert_allclose(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
    assert one.approximation_["trust"]["verdict"] == "applies"
    mask = np.arange(60) % 3 == 0
    for cv in ([(np.flatnonzero(~mask), np.flatnonzero(mask))], [(~mask, mask)]):
        chooser.set_params(cv=cv)
        assert onefold.trust(chooser, ROWS, TARGET, size=30, random_state=0).verdict == "applies"
    for cv, words in (
        ([(np.ones(5, dtype=bool), np.arange(3))], "mask has 5 entries for 60 rows"),
        ([(np.arange(30.0), np.arange(30, 60))], "whole numbers"),
    ):
        with pytest.raises(ValueError, match=words):
            LSSVRCV(cv=cv).fit(ROWS, TARGET)
