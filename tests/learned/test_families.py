"""Several kernels in one search: the scores of GridSearchCV, one table, noise, and the ends of grids."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, StratifiedKFold

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.kernels import RBF, Laplacian, Linear, Matern, Polynomial, PowerExponential
from onefold.search import GridEdgeWarning
from onefold.search.choice import paired_difference

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")
RNG = np.random.default_rng(12)
N = 60
X = RNG.standard_normal((N, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(N)
LABELS = np.digitize(Y, [-0.7, 0.7])
WEIGHTS = RNG.uniform(0.2, 3.0, N)
WIDTHS = [0.3, 1.0, 3.0]
ALPHAS = [0.01, 0.3]


def means(weights):
    """Mean over pairs of the squared distance, its roots and the sum of absolute differences."""
    v = np.ones(N) if weights is None else weights
    delta = X[:, None, :] - X[None, :, :]
    squares = np.sum(delta**2, axis=2)
    tables = squares, np.sqrt(squares), squares**0.7, np.abs(delta).sum(axis=2)
    return [v @ table @ v / v.sum() ** 2 for table in tables]


def absolute(name, width, weights=None):
    """The kernel that falls to exp(−width) at the mean distance."""
    squares, lengths, powers, sums = means(weights)
    if name == "rbf":
        return RBF(width / squares)
    if name == "laplacian":
        return Laplacian(width / sums)
    if name == "powexp":
        return PowerExponential((width / powers) ** (1 / 0.7))
    nu = {"matern12": 0.5, "matern32": 1.5}[name]
    return Matern((width / lengths) ** 2 / (4 * nu), nu=nu)


TWO = np.column_stack([Y, Y**2])
MSE = "neg_mean_squared_error"
CASES = [
    (LSSVRCV, LSSVR, Y, None, KFold(4), MSE),
    (KernelRidgeCV, KernelRidge, TWO, WEIGHTS, KFold(3), MSE),
    (LSSVCCV, LSSVC, LABELS, None, StratifiedKFold(4, shuffle=True, random_state=0), "accuracy"),
    (LSSVCCV, LSSVC, LABELS == 1, WEIGHTS, ShuffleSplit(3, random_state=0), "accuracy"),
]


@pytest.mark.parametrize(("tuned", "fixed", "y", "weights", "cv", "scoring"), CASES)
@pytest.mark.parametrize("kernels", ["auto", ["matern32", "rbf"]], ids=str)
def test_scores_are_those_of_a_grid_search(tuned, fixed, y, weights, cv, scoring, kernels) -> None:
    model = tuned(kernels, gammas=WIDTHS, alphas=ALPHAS, cv=cv).fit(X, y, weights)
    names = ["rbf", "powexp", "laplacian"] if kernels == "auto" else kernels
    same = [absolute(name, width, weights) for name in names for width in WIDTHS]
    grid = {"alpha": ALPHAS, "kernel": same}
    search = GridSearchCV(fixed(), grid, cv=cv, scoring=scoring, refit=False)
    search.fit(X, y, **({} if weights is None else {"sample_weight": weights}))
    offset = 1.0 if scoring == "accuracy" else 0.0
    for key in [f"split{i}_test_score" for i in range(cv.get_n_splits())] + ["mean_test_score"]:
        wanted = search.cv_results_[key] - offset
        assert_allclose(model.cv_results_[key], wanted, rtol=1e-8, atol=1e-10)
    table = model.cv_results_
    assert table["param_kernel"].tolist() == [n for _ in ALPHAS for n in names for _ in WIDTHS]
    assert table["param_gamma"].tolist() == WIDTHS * len(names) * len(ALPHAS)
    best = model.best_index_
    assert table["params"][best] == model.best_params_
    assert table["mean_test_score"][best] == model.best_score_
    kernel = absolute(model.best_params_["kernel"], model.best_params_["gamma"], weights)
    assert model.kernel_ == model.best_params_["kernel"]
    assert_allclose(model.gamma_, kernel.gamma, rtol=1e-10)
    again = fixed(kernel, alpha=model.alpha_).fit(X, y, weights)
    predict = "decision_function" if tuned is LSSVCCV else "predict"
    rows = X[:8] + 0.1
    assert_allclose(getattr(model, predict)(rows), getattr(again, predict)(rows), rtol=1e-8, atol=1e-8)


def test_kernels_of_any_kind_side_by_side() -> None:
    kernels = ["linear", RBF([0.5, 0.1, 0.2]), Laplacian() + Linear(), Polynomial(degree=2), RBF()]
    found = LSSVRCV(kernels, gammas=WIDTHS, alphas=ALPHAS, cv=3).fit(X, Y).cv_results_
    names = list(dict.fromkeys(found["param_kernel"].tolist()))
    assert (len(names), names[0], names[4]) == (5, "linear", "rbf #2")
    assert np.isfinite(found["mean_test_score"]).all()


# -- noise, and the end of a grid ----------------------------------------------------------------------
BEST = [1, 2, 1, 1]
NEAR = [5, 0, 2, 2]
HARDLY = np.array([1.0, 1e-3, 3.0, 3.0])


@pytest.mark.parametrize("size", [1e-300, 1e-150, 1.0, 1e150, 1e300])
def test_paired_differences(size) -> None:
    """Of rows that were tested in both."""
    one = size * np.array([*NEAR, np.nan])
    two = size * np.array([*BEST, 3.0])
    d = np.array([4.0, -2.0, 1.0, 1.0])
    for v in (np.ones(4), HARDLY):
        mean, error = paired_difference(one, two, np.append(v, 7.0))
        assert_allclose(mean, size * (v @ d / v.sum()))
        literal = np.sqrt(np.sum(v**2 * (d - v @ d / v.sum()) ** 2)) / v.sum()
        assert_allclose(error, size * literal, rtol=1e-12)
    assert paired_difference(one * np.nan, two, None) == (0.0, 0.0)


def test_one_cell_of_each_track_has_no_end_to_warn_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", GridEdgeWarning)
        LSSVRCV("auto", metric="auto", gammas=WIDTHS, alphas=ALPHAS, metric_rows=30).fit(X, Y)
