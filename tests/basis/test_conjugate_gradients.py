"""Conjugate gradients on the true kernel, against dense solutions."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from onefold import LSSVC, LSSVR, LSSVRCV, KernelRidge
from onefold.approximations import ConjugateGradients, Nystroem, cg
from onefold.approximations.cg import KernelOperator
from onefold.kernels import RBF, Laplacian, Polynomial

SHARP = ConjugateGradients(n_components=60, tolerance=1e-10, max_iterations=2000)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("kernel", [RBF(0.3), Laplacian(0.2), Polynomial(0.1, degree=2)])
def test_operator_is_the_kernel_matrix(regression, monkeypatch, kernel, keep):
    X, Y = regression
    monkeypatch.setattr("onefold.approximations.cg._SIDE", 50)
    operator = KernelOperator(kernel, X, dtype=np.float64, keep=keep)
    np.testing.assert_allclose(operator.product(Y), kernel(X, X) @ Y, rtol=1e-10)
    single = KernelOperator(kernel, X, dtype=np.float32, keep=keep)
    np.testing.assert_allclose(single.product(Y), kernel(X, X) @ Y, rtol=1e-4)
    np.testing.assert_allclose(single.product(Y, rough=True), kernel(X, X) @ Y, rtol=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("estimator", [LSSVR, KernelRidge])
def test_fit_is_the_dense_one(regression, monkeypatch, estimator, weighted):
    X, Y = regression
    monkeypatch.setattr(cg, "_SINGLE_NOISE", np.inf)  # float64 tiles
    weight = np.random.default_rng(0).uniform(0.3, 3, len(X)) if weighted else None
    settings = {"gamma": 0.3, "alpha": [0.01, 1.0]}
    dense = estimator(**settings).fit(X, Y, weight)
    other = estimator(**settings, approximation=SHARP).fit(X, Y, weight)
    np.testing.assert_allclose(other.expansion_.coef, dense.expansion_.coef, atol=1e-6)
    np.testing.assert_allclose(other.predict(X), dense.predict(X), atol=1e-8)
    assert [s["alpha"] for s in other.approximation_["solves"]] == pytest.approx([0.01, 1.0])
    assert all(s["residual"] <= 1e-10 for s in other.approximation_["solves"])


def test_exact_refit_after_a_basis_search(regression, monkeypatch):
    X, Y = regression
    monkeypatch.setattr("onefold.approximations.base.LARGEST_DENSE", 100)
    fitted = LSSVRCV(gammas=[0.3], alphas=[0.1], approximation=Nystroem(20), refit="exact").fit(X, Y)
    assert fitted.approximation_["selected_with"]["name"] == "nystroem"
    assert fitted.approximation_["fitted_with"]["name"] == "cg"
    dense = LSSVR(gamma=0.3, alpha=0.1).fit(X, Y)
    np.testing.assert_allclose(fitted.predict(X), dense.predict(X), atol=1e-3)


def test_refusals_name_a_remedy(regression):
    X, Y = regression
    with pytest.raises(ValueError, match="refit"):
        LSSVRCV(gammas=[0.3], approximation=ConjugateGradients()).fit(X, Y)
    with pytest.raises(ValueError, match="exact"):
        LSSVR("precomputed", approximation=ConjugateGradients()).fit(X @ X.T, Y)


def _true_residual(fitted, X, Y, gamma, alpha, weight=None):
    """‖y − (K + μV⁻¹)α − b‖ / ‖y‖ in float64, y about its mean with an intercept; the largest."""
    coef, intercept = fitted.expansion_.coef, fitted.expansion_.intercept
    ridge = np.asarray(alpha) * coef / (1.0 if weight is None else weight[:, None])
    residual = Y - RBF(gamma)(X.astype(float), X.astype(float)) @ coef - ridge - intercept
    about = 0.0 if isinstance(fitted, KernelRidge) else np.average(Y, axis=0, weights=weight)
    return (np.linalg.norm(residual, axis=0) / np.linalg.norm(Y - about, axis=0)).max()


@pytest.mark.parametrize("estimator", [LSSVR, KernelRidge])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alpha", [2.0**-13, 1e-6])
def test_float32_tiles_do_not_hide_the_true_residual(estimator, dtype, alpha):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 3)).astype(dtype)
    Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2]) + 0.05 * rng.standard_normal((900, 2))
    fitted = estimator(gamma=0.05, alpha=alpha, approximation=ConjugateGradients()).fit(X, Y)
    (report,) = fitted.approximation_["solves"]
    assert report["converged"]
    assert report["residual"] <= 1e-5
    assert _true_residual(fitted, X, Y, 0.05, alpha) == pytest.approx(report["residual"], rel=0.05)
    dense = estimator(gamma=0.05, alpha=alpha).fit(X, Y)
    np.testing.assert_allclose(fitted.predict(X), dense.predict(X), atol=1e-4)


def test_residual_with_weights_of_very_different_size():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    Y = np.sin(2 * X[:, :2]) + 0.05 * rng.standard_normal((400, 2))
    weight, alpha = 10.0 ** rng.uniform(-6, 0, 400), np.array([1e-4, 1e-2])
    fitted = LSSVR(gamma=0.05, alpha=alpha, approximation=ConjugateGradients()).fit(X, Y, weight)
    report = fitted.approximation_["solves"]
    assert all(entry["converged"] for entry in report)
    worst = max(entry["residual"] for entry in report)
    assert _true_residual(fitted, X, Y, 0.05, alpha, weight) == pytest.approx(worst, rel=0.05)


def test_what_float64_cannot_reach_warns():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 1))
    with pytest.warns(ConvergenceWarning, match="above the tolerance"):
        fitted = LSSVR(gamma=100.0, alpha=1e-13, approximation=ConjugateGradients()).fit(X, X[:, 0] > 0)
    assert not fitted.approximation_["solves"][0]["converged"]
    assert fitted.approximation_["solves"][0]["residual"] > 1e-5


def test_rows_beyond_the_range_of_float32(regression):
    X, Y = 1e60 * regression[0], regression[1]
    kernel = Laplacian(1e-60)
    fitted = LSSVR(kernel, alpha=0.1, approximation=SHARP).fit(X, Y)
    assert fitted.approximation_["solves"][0]["converged"]
    np.testing.assert_allclose(
        fitted.predict(X), LSSVR(kernel, alpha=0.1).fit(X, Y).predict(X), atol=1e-6
    )


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_kernel_whose_rounding_exceeds_the_ridge_is_not_followed():
    rng = np.random.default_rng(1)
    X, y = 1e8 + rng.standard_normal((20, 2)), rng.standard_normal(20)
    with pytest.warns(ConvergenceWarning, match="above the tolerance"):
        fitted = LSSVR("polynomial", gamma=0.5, approximation=ConjugateGradients()).fit(X, y)
    assert fitted.approximation_["solves"][0]["residual"] <= 1.0
    assert np.abs(fitted.predict(X)).max() <= np.abs(y).max()


def test_the_worst_of_several_targets_decides():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    Y = np.column_stack([np.zeros(80), rng.normal(size=80)])
    settings = ConjugateGradients(n_components=2, max_iterations=1, tolerance=1e-10)
    with pytest.warns(ConvergenceWarning, match="stopped after") as caught:
        model = KernelRidge(gamma=5.0, alpha=1e-3, approximation=settings).fit(X, Y)
    report = model.approximation_["solves"][0]
    assert not report["converged"]
    assert report["residual"] > 1e-10
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(model.predict(X)[:, 0], 0.0)


def test_classifier_and_a_tiny_ridge_in_double_precision(regression):
    X, Y = regression
    y = (Y[:, 0] > 5).astype(int)
    dense = LSSVC(gamma=0.3, alpha=1e-5).fit(X, y)
    other = LSSVC(gamma=0.3, alpha=1e-5, approximation=SHARP).fit(X, y)
    assert other.approximation_["tiles"].startswith("float64")
    np.testing.assert_allclose(other.decision_function(X), dense.decision_function(X), atol=1e-4)
    with pytest.warns(ConvergenceWarning, match="more landmarks"):
        LSSVR(gamma=0.3, alpha=1e-3, approximation=ConjugateGradients(2, max_iterations=2)).fit(X, Y)
