"""The Toeplitz approximation behind the estimators: exact where it says so, literal where it is not."""

from __future__ import annotations

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

import onefold
from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Toeplitz
from onefold.approximations.toeplitz import diagonal_means, uniform_series
from onefold.heldout import GapKFold
from onefold.kernels import RBF, CallableKernel, Laplacian, Linear, Matern, Polynomial, Precomputed
from onefold.kernels.tiles import gram

GRID = {"gammas": [0.1, 1.0, 10.0], "alphas": [0.01, 0.1, 1.0]}
RIDGES = (LSSVR, KernelRidge)


def series(n: int, *, shuffled: bool = False, dtype: Any = np.float64) -> tuple[Any, Any]:
    generator = np.random.default_rng(n)
    x = np.linspace(-2, 3, n) if n > 1 else np.zeros(1)
    y = np.sin(3 * x) + 0.5 * x + 0.1 * generator.normal(size=n)
    if shuffled:
        order = generator.permutation(n)
        x, y = x[order], y[order]
    return x[:, None].astype(dtype), y


class TestUniformSeries:
    @pytest.mark.parametrize("n", [1, 2, 3, 50])
    @pytest.mark.parametrize("kernel", ["rbf", "laplacian", "matern"])
    @pytest.mark.parametrize("estimator", RIDGES)
    def test_fits_are_exact(self, estimator: Any, kernel: str, n: int) -> None:
        X, y = series(n, shuffled=True)
        settings_ = {"kernel": kernel, "gamma": 2.0, "alpha": 0.05}
        found = estimator(approximation="toeplitz", **settings_).fit(X, y)
        exact = estimator(**settings_).fit(X, y)
        new = np.linspace(-3, 4, 17)[:, None]
        assert_allclose(found.predict(new), exact.predict(new), atol=1e-8)
        assert found.approximation_["diagonals"] == "exact"

    @pytest.mark.parametrize(
        "cv", ["loo", 4, KFold(3, shuffle=True, random_state=0), GapKFold(3, 2), ShuffleSplit(3)]
    )
    @pytest.mark.parametrize("shuffled", [False, True])
    def test_selections_are_exact(self, cv: Any, shuffled: bool) -> None:
        X, y = series(60, shuffled=shuffled)
        y = np.stack([y, 1000 + X[:, 0] ** 2], axis=1)
        if isinstance(cv, ShuffleSplit):
            cv = list(cv.split(X))
        found = LSSVRCV(approximation=Toeplitz(), cv=cv, **GRID).fit(X, y)
        exact = LSSVRCV(cv=cv, **GRID).fit(X, y)
        assert_allclose(
            found.cv_results_["mean_test_score"], exact.cv_results_["mean_test_score"], rtol=1e-5
        )
        assert found.best_params_ == exact.best_params_
        assert_allclose(found.heldout_prediction_, exact.heldout_prediction_, atol=1e-6, rtol=1e-8)
        assert found.approximation_["fitted_with"]["name"] == "toeplitz"

    @pytest.mark.parametrize("criterion", ["gcv", "evidence", "press"])
    @pytest.mark.parametrize("estimator", [LSSVRCV, KernelRidgeCV])
    def test_closed_criteria_are_exact(self, estimator: Any, criterion: str) -> None:
        X, y = series(40, shuffled=True)
        found = estimator(approximation="toeplitz", criterion=criterion, **GRID).fit(X, y)
        exact = estimator(criterion=criterion, **GRID).fit(X, y)
        assert_allclose(
            found.cv_results_["mean_test_score"], exact.cv_results_["mean_test_score"], rtol=1e-6
        )

    def test_evidence_where_there_is_none_does_not_end_the_search(self) -> None:
        X = np.random.default_rng(0).random((60, 2))  # no series: the averaged matrix is indefinite
        with pytest.warns(UserWarning, match="have no score"):
            found = LSSVRCV(
                approximation="toeplitz",
                criterion="evidence",
                gammas=[0.1, 10.0],
                alphas=[1e-4, 0.01, 100.0],
            ).fit(X, X[:, 0])
        assert 0 < np.isnan(found.cv_results_["mean_test_score"]).sum() < 6

    def test_one_ridge_per_target(self) -> None:
        X, y = series(30)
        Y = np.stack([y, y**2], axis=1)
        found = LSSVR(alpha=[0.1, 2.0], approximation="toeplitz").fit(X, Y)
        assert_allclose(found.predict(X), LSSVR(alpha=[0.1, 2.0]).fit(X, Y).predict(X), atol=1e-9)

    def test_classifiers(self) -> None:
        X, y = series(80)
        labels = np.array(["low", "mid", "high"])[np.digitize(y, [-0.5, 0.5])]
        found = LSSVCCV(approximation="toeplitz", **GRID).fit(X, labels)
        exact = LSSVCCV(**GRID).fit(X, labels)
        assert found.best_params_ == exact.best_params_
        assert_allclose(found.decision_function(X), exact.decision_function(X), atol=1e-7)
        given_ = LSSVC(approximation="toeplitz", alpha=0.1).fit(X, labels)
        assert given_.score(X, labels) > 0.9

    @pytest.mark.parametrize("n", [500, 3000])
    def test_float32_rows_are_recognised(self, n: int) -> None:
        X, y = series(n, shuffled=True, dtype=np.float32)
        assert uniform_series(X) is not None
        found = KernelRidge(gamma=1.0, alpha=0.1, approximation="toeplitz").fit(X, y)
        exact = KernelRidge(gamma=1.0, alpha=0.1).fit(X.astype(np.float64), y)
        assert_allclose(found.predict(X), exact.predict(X), atol=1e-4)

    def test_long_series_take_the_fft(self) -> None:
        X, y = series(1500)
        found = LSSVRCV(approximation="toeplitz", cv="loo", **GRID).fit(X, y)
        exact = LSSVRCV(cv="loo", **GRID).fit(X, y)
        assert found.approximation_["selected_with"]["solver"] == "pcg"
        assert found.approximation_["selected_with"]["residual"] < 1e-9
        assert_allclose(found.heldout_prediction_, exact.heldout_prediction_, atol=1e-6)

    def test_a_cell_that_cannot_be_solved_has_no_score(self) -> None:
        X, y = series(2100)
        grid = {"gammas": [1e-3, 1.0], "alphas": [1e-15, 1e-2], "cv": "loo"}
        with pytest.warns(UserWarning, match=r"of 4 combinations .*have no score"):
            found = LSSVRCV(approximation="toeplitz", intervals=None, **grid).fit(X, y)
        solved = np.isfinite(found.cv_results_["mean_test_score"])
        assert 0 < solved.sum() < 4
        assert solved[[p["alpha"] > 1e-3 for p in found.cv_results_["params"]]].all()
        exact = LSSVRCV(intervals=None, **grid | {"alphas": [1e-2]}).fit(X, y)
        assert_allclose(
            found.cv_results_["mean_test_score"][-2:], exact.cv_results_["mean_test_score"], rtol=1e-6
        )

    def test_saved_models_come_back(self, tmp_path: Any) -> None:
        X, y = series(30)
        fitted = LSSVRCV(approximation=Toeplitz(tolerance=1e-9), **GRID).fit(X, y)
        fitted.save(tmp_path / "m.onefold")
        loaded = onefold.load(tmp_path / "m.onefold")
        assert loaded.approximation == Toeplitz(tolerance=1e-9)
        assert_allclose(loaded.predict(X), fitted.predict(X))


class TestRecognition:
    def test_what_is_uniform(self) -> None:
        x = np.arange(20.0)
        assert uniform_series(x[::-1, None]).step == 1.0
        assert uniform_series((x * 1e-7)[:, None]) is not None
        assert uniform_series((x + 1e-7 * np.sin(x))[:, None]) is not None
        assert uniform_series(np.array([[5.0], [2.0]])).step == 3.0

    def test_what_is_not(self) -> None:
        x = np.arange(20.0)
        assert uniform_series((x + 1e-4 * np.sin(x))[:, None]) is None
        assert uniform_series(np.repeat(x, 2)[:, None]) is None
        assert uniform_series(np.zeros((3, 1))) is None
        assert uniform_series(np.stack([x, x], axis=1)) is None
        assert uniform_series(np.delete(x, 7)[:, None]) is None
        assert uniform_series(scipy.sparse.csr_matrix(x[:, None])) is None


class TestAveragedDiagonals:
    @settings(max_examples=30, deadline=None)
    @given(st.integers(1, 90), st.integers(1, 3), st.integers(0, 5))
    def test_means_and_distance(self, n: int, d: int, seed: int) -> None:
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
        "kernel",
        [Linear(), Polynomial(0.5, 2, 1.0), Laplacian((1.0, 0.5)), Matern(), RBF() + Linear()],
    )
    def test_every_kernel_and_every_layout(self, kernel: Any) -> None:
        X = np.random.default_rng(0).normal(size=(30, 2))
        K = gram(kernel, X)
        literal = [np.diagonal(K, j).mean() for j in range(30)]
        assert_allclose(diagonal_means(kernel, X)[0], literal, atol=1e-12)
        assert_allclose(diagonal_means(Precomputed(), K)[0], literal, atol=1e-12)
        assert_allclose(kernel.pairs(X, X[::-1]), np.diag(kernel(X, X[::-1])), atol=1e-12)
        given_ = CallableKernel(lambda A, B: kernel(A, B))
        assert_allclose(diagonal_means(given_, X)[0], literal, atol=1e-12)
        assert_allclose(given_.pairs(X, X[::-1]), np.diag(kernel(X, X[::-1])), atol=1e-12)

    def test_sparse_rows(self) -> None:
        X = scipy.sparse.random(40, 6, 0.3, format="csr", random_state=0)
        literal = diagonal_means(RBF(), X.toarray())[0]
        assert_allclose(diagonal_means(RBF(), X)[0], literal, atol=1e-12)

    def test_fits_are_the_papers(self) -> None:
        X, labels = make_moons(60, noise=0.2, random_state=0)
        y = 2.0 * labels - 1
        T = toeplitz([np.diagonal(gram(RBF(2.0), X), j).mean() for j in range(60)])
        dual = np.linalg.solve(T + 0.5 * np.eye(60), y)
        found = KernelRidge(gamma=2.0, alpha=0.5, approximation="toeplitz").fit(X, y)
        assert_allclose(found.predict(X), gram(RBF(2.0), X) @ dual, atol=1e-9)
        report = found.approximation_
        assert report["diagonals"] == "averaged"
        assert 0 < report["distance"] < 1

    @pytest.mark.parametrize("cv", ["loo", 4])
    def test_selections_refit_literally(self, cv: Any) -> None:
        X = np.random.default_rng(2).normal(size=(40, 3))
        y = X[:, 0] + X[:, 1] ** 2
        found = LSSVRCV(approximation="toeplitz", cv=cv, gammas=[0.5], alphas=[0.3]).fit(X, y)
        T = toeplitz([np.diagonal(gram(RBF(0.5), X), j).mean() for j in range(40)])
        splits = np.split(np.arange(40), 40 if cv == "loo" else 4)
        for test in splits:
            train = np.setdiff1d(np.arange(40), test)
            m = train.size
            system = np.ones((m + 1, m + 1))
            system[0, 0] = 0
            system[1:, 1:] = T[np.ix_(train, train)] + 0.3 * np.eye(m)
            solution = np.linalg.solve(system, np.concatenate([[0], y[train]]))
            literal = T[np.ix_(test, train)] @ solution[1:] + solution[0]
            assert_allclose(found.heldout_prediction_[test], literal, atol=1e-9)
        assert found.approximation_["fitted_with"]["name"] == "exact"

    def test_repeated_abscissae_are_averaged(self) -> None:
        X, y = series(40)
        X[11] = X[10]
        found = LSSVR(approximation="toeplitz", alpha=0.1).fit(X, y)
        assert found.approximation_["diagonals"] == "averaged"

    def test_a_kernel_of_no_distance_is_averaged_on_a_series_too(self) -> None:
        X, y = series(20)
        found = KernelRidge("linear", alpha=100.0, approximation="toeplitz").fit(X, y)
        assert found.approximation_["diagonals"] == "averaged"

    def test_large_sets_keep_the_approximation(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("onefold.approximations.base.LARGEST_UNASKED", 50)
        X, labels = make_moons(60, noise=0.2, random_state=0)
        found = LSSVCCV(approximation="toeplitz", **GRID).fit(X, labels)
        assert found.approximation_["fitted_with"]["name"] == "toeplitz"


def test_clear_refusals() -> None:
    X, y = series(10)
    with pytest.raises(ValueError, match="no place for sample or class weights"):
        LSSVR(approximation="toeplitz").fit(X, y, sample_weight=np.arange(10))
    with pytest.raises(ValueError, match="no place for sample or class weights"):
        LSSVC(approximation="toeplitz", class_weight="balanced").fit(X, y > 0)
    with pytest.raises(ValueError, match="tolerance must lie"):
        Toeplitz(tolerance=0.0)


class TestTrust:
    def test_a_uniform_series_is_sampled_by_windows_and_trusted(self) -> None:
        X, y = series(400, shuffled=True)
        found = onefold.trust(LSSVRCV(approximation="toeplitz", **GRID), X, y, size=100, repeats=3)
        assert found.verdict == "applies"
        assert found.regret < 1e-9

    def test_it_says_no_to_shuffled_points_of_the_plane(self) -> None:
        # The averaged matrix of shuffled rows knows nothing of which rows are close.
        generator = np.random.default_rng(1)
        X = generator.uniform(-2, 2, size=(600, 2))
        y = np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.05 * generator.normal(size=600)
        estimator = LSSVRCV(approximation="toeplitz", gammas=2.0 ** np.arange(-7, 6, 2))
        found = onefold.trust(estimator, X, y, size=300, repeats=3, random_state=0)
        assert found.verdict == "does not apply"
        with pytest.warns(UserWarning, match="cannot be trusted"):
            fitted = estimator.set_params(check=True).fit(X, y)
        assert fitted.approximation_["trust"]["verdict"] == "does not apply"


def test_torch_rows_give_torch_predictions() -> None:
    torch = pytest.importorskip("torch")
    X, y = series(40, shuffled=True)
    found = LSSVRCV(approximation="toeplitz", **GRID).fit(torch.asarray(X), torch.asarray(y))
    plain = LSSVRCV(approximation="toeplitz", **GRID).fit(X, y)
    predicted = found.predict(torch.asarray(X))
    assert isinstance(predicted, torch.Tensor)
    assert_allclose(predicted.numpy(), plain.predict(X), atol=1e-10)
