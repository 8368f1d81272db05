"""NumPy, array-api-strict and torch give the same numbers, in the library of X."""

from __future__ import annotations

from typing import Any

import array_api_strict
import numpy as np
import pytest
from numpy.testing import assert_allclose

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.kernels import RBF, Laplacian, Linear, Matern, Polynomial
from onefold.linalg import is_foreign, to_numpy

RNG = np.random.default_rng(11)
X = RNG.standard_normal((45, 3))
NUMBERS = np.sin(X[:, 0]) + 2.0
LABELS = (X[:, 0] + X[:, 1] > 0).astype(int)
THREE = np.digitize(X[:, 0], [-0.4, 0.4])


def strict(values: Any) -> Any:
    return array_api_strict.asarray(values)


def torch(values: Any) -> Any:
    return pytest.importorskip("torch").asarray(values)


LIBRARIES = pytest.mark.parametrize("library", [strict, torch])
KERNELS = [RBF(0.4), RBF((0.1, 0.4, 0.2)), Matern(0.3), Laplacian(0.2), Polynomial(0.2, 2), Linear()]


@LIBRARIES
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_every_kernel(library, kernel) -> None:
    ours = LSSVR(kernel, alpha=0.1).fit(library(X), library(NUMBERS))
    predicted = ours.predict(library(X[:7]))
    assert is_foreign(predicted)
    assert is_foreign(ours.expansion_.coef)
    expected = LSSVR(kernel, alpha=0.1).fit(X, NUMBERS).predict(X[:7])
    assert_allclose(to_numpy(predicted), expected, rtol=1e-9)


@LIBRARIES
@pytest.mark.parametrize("cv", [4, "loo"])
@pytest.mark.parametrize(
    ("estimator", "y"),
    [(LSSVCCV, LABELS), (LSSVCCV, THREE), (LSSVRCV, NUMBERS), (KernelRidgeCV, NUMBERS)],
    ids=["LSSVC", "LSSVC 3", "LSSVR", "KernelRidge"],
)
@pytest.mark.parametrize("ridges", [2, 12], ids=["cholesky", "eigen"])
def test_search_and_weights(library, estimator, y, cv, ridges) -> None:
    grid = {"gammas": [0.02, 0.4, 50.0], "alphas": list(np.geomspace(0.01, 5, ridges)), "cv": cv}
    weights = RNG.uniform(0.5, 2.0, 45)
    ours = estimator(**grid).fit(library(X), library(y), sample_weight=library(weights))
    theirs = estimator(**grid).fit(X, y, sample_weight=weights)
    assert ours.best_params_ == theirs.best_params_
    for key in ("mean_test_score", "std_test_score"):
        assert_allclose(ours.cv_results_[key], theirs.cv_results_[key], rtol=1e-8, atol=1e-10)
    assert_allclose(to_numpy(ours.predict(library(X))), theirs.predict(X), rtol=1e-8)


@LIBRARIES
def test_criteria_of_the_smoother(library) -> None:
    for criterion in ("gcv", "evidence", "press", "span", "radius_margin", ["mse", "r2", "gcv"]):
        for ridges in ([0.1], list(np.geomspace(0.01, 5, 12))):
            grid = {"gammas": [0.4], "alphas": ridges, "criterion": criterion}
            ours = LSSVRCV(**grid).fit(library(X), library(NUMBERS)).best_score_
            assert ours == pytest.approx(LSSVRCV(**grid).fit(X, NUMBERS).best_score_, rel=1e-8)


@LIBRARIES
def test_labels_come_back_in_the_library_if_they_are_numbers(library) -> None:
    model = LSSVC(gamma=0.4).fit(library(X), library(LABELS))
    assert is_foreign(model.predict(library(X)))
    assert model.score(library(X), library(LABELS)) > 0.8
    words = LSSVC(gamma=0.4).fit(library(X), np.where(LABELS, "yes", "no"))
    assert set(words.predict(library(X))) == {"yes", "no"}


@LIBRARIES
def test_rows_of_another_library_than_the_model_s(library) -> None:
    model = KernelRidge(gamma=0.4).fit(X, NUMBERS)
    assert_allclose(to_numpy(model.predict(library(X))), model.predict(X), rtol=1e-10)
    other = KernelRidge(gamma=0.4).fit(library(X), library(NUMBERS))
    assert_allclose(other.predict(X), model.predict(X), rtol=1e-10)


@LIBRARIES
@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.full((4, 2), np.nan), "NaN or infinity"),
        (np.zeros(4), "two dimensions"),
        (np.zeros((0, 2)), "none empty"),
    ],
)
def test_bad_rows_are_named(library, values, words) -> None:
    with pytest.raises(ValueError, match=words):
        LSSVR().fit(library(values), np.zeros(4))


@LIBRARIES
def test_another_number_of_features(library) -> None:
    model = LSSVR().fit(library(X), library(NUMBERS))
    with pytest.raises(ValueError, match="2 features, but LSSVR is expecting 3"):
        model.predict(library(X[:, :2]))


@LIBRARIES
def test_whole_numbers_become_floats(library) -> None:
    whole = np.arange(12).reshape(6, 2)
    ours = LSSVR(gamma=0.01).fit(library(whole), np.arange(6.0)).predict(library(whole))
    assert_allclose(to_numpy(ours), LSSVR(gamma=0.01).fit(whole, np.arange(6.0)).predict(whole))


def test_single_precision_rows_agree_to_their_rounding() -> None:
    small = X.astype(np.float32)
    ours = LSSVR(gamma=0.4, alpha=1e-3).fit(small, NUMBERS).predict(small)
    exact = LSSVR(gamma=0.4, alpha=1e-3).fit(small.astype(float), NUMBERS).predict(small.astype(float))
    assert_allclose(ours, exact, rtol=1e-9)


@LIBRARIES
def test_an_indefinite_kernel_is_refused(library) -> None:
    K = X @ X.T - 5 * np.eye(45)
    for ridges in ([0.1], list(np.geomspace(0.01, 5, 12))):
        with pytest.raises(ValueError, match="not positive semi-definite"):
            LSSVRCV("precomputed", alphas=ridges).fit(library(K), library(NUMBERS))
    barely = np.diag(np.append(np.ones(44), -0.5e-6))  # passes for rounding, not for this ridge
    with pytest.raises(ValueError, match="not positive semi-definite"):
        KernelRidge("precomputed", alpha=1e-8).fit(library(barely), library(NUMBERS))
