"""The Toeplitz approximation behind the estimators: exact where it says so, literal where it is not."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import toeplitz
from sklearn import config_context
from sklearn.datasets import make_moons
from sklearn.model_selection import KFold, ShuffleSplit

from onefold import LSSVC, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Toeplitz
from onefold.approximations.toeplitz import diagonal_means, unexplained_by_lag, uniform_series
from onefold.heldout import GapKFold
from onefold.kernels import RBF, CallableKernel, Laplacian, Linear, Matern, Polynomial, Precomputed
from onefold.kernels.tiles import gram

GRID = {"gammas": [0.1, 1.0, 10.0], "alphas": [0.01, 0.1, 1.0], "intervals": None}


def series(n: int, *, shuffled: bool = False, dtype: Any = np.float64) -> tuple[Any, Any]:
    generator = np.random.default_rng(n)
    x = np.linspace(-2, 3, n) if n > 1 else np.zeros(1)
    y = np.sin(3 * x) + 0.5 * x + 0.1 * generator.normal(size=n)
    if shuffled:
        order = generator.permutation(n)
        x = x[order]
        y = y[order]
    return x[:, None].astype(dtype), y


@pytest.mark.parametrize("n", [1, 2, 3, 50])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "matern"])
@pytest.mark.parametrize("estimator", [LSSVR, KernelRidge])
def test_fits_are_exact(estimator: Any, kernel: str, n: int) -> None:
    X, y = series(n, shuffled=True)
    given = {"kernel": kernel, "gamma": 2.0, "alpha": 0.05}
    found = estimator(approximation="toeplitz", **given).fit(X, y)
    new = np.linspace(-3, 4, 17)[:, None]
    assert_allclose(found.predict(new), estimator(**given).fit(X, y).predict(new), atol=1e-8)
    assert found.approximation_["diagonals"] == "exact"


SEARCHES = [
    {"cv": "loo"}, {"cv": 4}, {"cv": KFold(3, shuffle=True, random_state=0)}, {"cv": GapKFold(3, 2)},
    {"cv": list(ShuffleSplit(3, random_state=0).split(np.zeros(60)))},
    {"criterion": "gcv"}, {"criterion": "evidence"}, {"criterion": "press"},
]  # fmt: skip


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: str(search)[:30])
@pytest.mark.parametrize(
    ("estimator", "shuffled"), [(LSSVRCV, False), (LSSVRCV, True), (KernelRidgeCV, True)]
)
def test_searches_are_exact(estimator: Any, shuffled: bool, search: Any) -> None:
    X, y = series(60, shuffled=shuffled)
    if estimator is LSSVRCV:
        y = np.stack([y, 1000 + X[:, 0] ** 2], axis=1)
    found, exact = (
        estimator(approximation=name, **search, **GRID).fit(X, y) for name in ("toeplitz", "exact")
    )
    assert_allclose(*(model.cv_results_["mean_test_score"] for model in (found, exact)), rtol=1e-5)
    assert found.best_params_ == exact.best_params_
    if "cv" in search:
        assert_allclose(found.heldout_prediction_, exact.heldout_prediction_, atol=1e-6, rtol=1e-8)
    assert found.approximation_["fitted_with"]["name"] == "toeplitz"


@pytest.mark.filterwarnings("ignore:the rows are not a series")
@pytest.mark.parametrize("chosen", [LSSVRCV, KernelRidgeCV])
def test_radius_margin_is_that_of_the_exact_machine_on_the_matrix(chosen: Any) -> None:
    grid = {"alphas": [0.3, 3.0], "criterion": "radius_margin"}
    X, y = series(40, shuffled=True)
    found = chosen(approximation="toeplitz", gammas=[2.0], **grid).fit(X, y)
    same = chosen(gammas=[2.0], **grid).fit(X, y)
    assert_allclose(*(one.cv_results_["mean_test_score"] for one in (found, same)), rtol=1e-7)
    rows = np.random.default_rng(0).standard_normal((40, 2))
    T = toeplitz(diagonal_means(RBF(2.0), rows)[0])
    found = chosen(approximation="toeplitz", gammas=[2.0], **grid).fit(rows, y)
    same = chosen("precomputed", **grid).fit(T, y)
    assert_allclose(*(one.cv_results_["mean_test_score"] for one in (found, same)), rtol=1e-7)


@pytest.mark.filterwarnings("ignore:the rows are not a series")  # on purpose: diagonals are averaged
def test_evidence_where_there_is_none_does_not_end_the_search() -> None:
    X = np.random.default_rng(0).random((60, 2))  # no series: the averaged matrix is indefinite
    given = {"criterion": "evidence", "gammas": [0.1, 10.0], "alphas": [1e-4, 0.01, 100.0]}
    with pytest.warns(UserWarning, match="have no score"):
        found = LSSVRCV(approximation="toeplitz", **given).fit(X, X[:, 0])
    assert 0 < np.isnan(found.cv_results_["mean_test_score"]).sum() < 6


def test_long_series_take_the_fft_and_cells_that_cannot_be_solved_have_no_score(monkeypatch) -> None:
    monkeypatch.setattr("onefold.smoothers.toeplitz.SHORT", 100)
    X, y = series(400)
    found = LSSVRCV(approximation="toeplitz", cv="loo", **GRID).fit(X, y)
    exact = LSSVRCV(cv="loo", **GRID).fit(X, y)
    assert found.approximation_["selected_with"]["solver"] == "pcg"
    assert found.approximation_["selected_with"]["residual"] < 1e-9
    assert_allclose(found.heldout_prediction_, exact.heldout_prediction_, atol=1e-6)
    grid = {"gammas": [1e-3, 1.0], "alphas": [1e-15, 1e-2], "cv": "loo", "intervals": None}
    with pytest.warns(UserWarning, match=r"of 4 combinations .*have no score"):
        results = LSSVRCV(approximation="toeplitz", **grid).fit(X, y).cv_results_
    solved = np.isfinite(results["mean_test_score"])
    assert 0 < solved.sum() < 4
    assert solved[[p["alpha"] > 1e-3 for p in results["params"]]].all()
    exact = LSSVRCV(**grid | {"alphas": [1e-2]}).fit(X, y).cv_results_
    assert_allclose(results["mean_test_score"][-2:], exact["mean_test_score"], rtol=1e-6)


TWENTY = np.arange(20.0)


@pytest.mark.parametrize(
    ("x", "step"),
    [
        (TWENTY[::-1, None], 1.0),
        ((TWENTY * 2.0**-30)[:, None], 2.0**-30),
        ((TWENTY + 1e-7 * np.sin(TWENTY))[:, None], 1.0),
        (np.array([[5.0], [2.0]]), 3.0),
        ((TWENTY + 1e-4 * np.sin(TWENTY))[:, None], None),
        (np.repeat(TWENTY, 2)[:, None], None),
        (np.zeros((3, 1)), None),
        (np.stack([TWENTY, TWENTY], axis=1), None),
        (np.stack([np.full(20, 3.0), 2 * TWENTY, np.zeros(20)], axis=1), 2.0),
        (np.delete(TWENTY, 7)[:, None], None),
        (scipy.sparse.csr_matrix(TWENTY[:, None]), None),
    ],
)
def test_what_is_a_uniform_series(x: Any, step: float | None) -> None:
    found = uniform_series(x)
    assert (found is None) == (step is None)
    assert found is None or found[1] == pytest.approx(step, rel=1e-6)
    window = Toeplitz().subsample(x, 2, np.random.RandomState(0))  # of a series alone
    assert (window is None) == (step is None)


@given(st.integers(1, 90), st.integers(1, 3), st.integers(0, 5))
@settings(max_examples=30)
def test_means_and_distance(n: int, d: int, seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[n // 2 :] = X[: n - n // 2]  # repeated rows
    K = gram(RBF(0.7), X)
    with config_context(working_memory=0.02):  # tiles of 25 rows
        column, found = diagonal_means(RBF(0.7), X)
    literal = np.array([np.diagonal(K, j).mean() for j in range(n)])
    assert_allclose(column, literal, atol=1e-13)
    distance = np.linalg.norm(K - toeplitz(literal)) / np.linalg.norm(K)
    assert_allclose(found, distance, atol=1e-7)


@pytest.mark.parametrize(
    "kernel", [Linear(), Polynomial(0.5, 2, 1.0), Laplacian((1.0, 0.5)), Matern(), RBF() + Linear()]
)
def test_every_kernel_and_every_layout(kernel: Any) -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    K = gram(kernel, X)
    own = CallableKernel(lambda A, B: kernel(A, B))
    literal = [np.diagonal(K, j).mean() for j in range(30)]
    for one, rows in ((kernel, X), (Precomputed(), K), (own, X)):
        assert_allclose(diagonal_means(one, rows)[0], literal, atol=1e-12)
    for one in (kernel, own):
        assert_allclose(one.pairs(X, X[::-1]), np.diag(kernel(X, X[::-1])), atol=1e-12)
    if kernel.accepts_sparse:
        assert_allclose(diagonal_means(kernel, scipy.sparse.csr_matrix(X))[0], literal, atol=1e-10)


@pytest.mark.filterwarnings("ignore:the rows are not a series")  # on purpose: diagonals are averaged
def test_fits_are_the_papers() -> None:
    X, labels = make_moons(60, noise=0.2, random_state=0)
    y = 2.0 * labels - 1
    T = toeplitz([np.diagonal(gram(RBF(2.0), X), j).mean() for j in range(60)])
    dual = np.linalg.solve(T + 0.5 * np.eye(60), y)
    found = KernelRidge(gamma=2.0, alpha=0.5, approximation="toeplitz").fit(X, y)
    assert_allclose(found.predict(X), gram(RBF(2.0), X) @ dual, atol=1e-9)
    assert found.approximation_["diagonals"] == "averaged"
    assert 0 < found.approximation_["distance"] < 1


def kinds_of_rows(n: int = 200) -> dict[str, tuple[np.ndarray, bool]]:
    """Rows, and whether they are a series."""
    rng = np.random.default_rng(1)
    t = np.arange(float(n))
    points = rng.normal(size=(n, 3))
    return {
        "shuffled series": (rng.permutation(t)[:, None], True),
        "jittered": ((t + rng.uniform(-0.4, 0.4, n))[:, None], True),
        "gaps": (np.delete(np.arange(n + 20.0), rng.choice(n, 20, replace=False))[:, None], True),
        "curve": (np.stack([np.sin(t / 20), np.cos(t / 20)], axis=1), True),
        "raster": (np.stack(np.meshgrid(np.arange(20.0), np.arange(10.0)), -1).reshape(-1, 2), True),
        "points": (points, False),
        "one feature, no order": (rng.normal(size=(n, 1)), False),
        "sorted by one of three": (points[np.argsort(points[:, 0])], False),
    }


@pytest.mark.parametrize("kind", kinds_of_rows())
def test_rows_that_are_no_series_are_pointed_out_once(kind):
    X, is_series = kinds_of_rows()[kind]
    y = np.sin(X[:, 0])
    for estimator, target in (
        (LSSVRCV(approximation="toeplitz", gammas=[1.0, 9.0], alphas=[3.0, 30.0], intervals=None), y),
        (LSSVC(approximation="toeplitz"), y > np.median(y)),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            estimator.fit(X, target)
        about = [w.filename for w in caught if "the rows are not a series" in str(w.message)]
        assert about == ([] if is_series else [__file__])
        assert caught == [] or not is_series


def test_the_share_that_diagonals_leave_against_every_pair():
    X, _ = kinds_of_rows()["raster"]
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)
    lines = [np.diagonal(distances, lag) for lag in range(1, len(X) // 2 + 1)]
    within = np.mean([line.var() for line in lines])
    literal = within / (within + np.var([line.mean() for line in lines]))
    for kernel, rows in ((RBF(), X), (RBF(), scipy.sparse.csr_matrix(X)), (Precomputed(), distances)):
        assert unexplained_by_lag(kernel, rows) == pytest.approx(literal, abs=0.05)
    assert unexplained_by_lag(RBF(), X[:3]) == unexplained_by_lag(RBF(), np.zeros((50, 2))) == 0.0
