"""ding2012's Algorithm 1, against its n × n form, and the error bound."""

from __future__ import annotations

import numpy as np
import pytest
from basis_twins import rbf
from scipy.sparse.linalg import eigsh
from sklearn.model_selection import KFold

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge
from onefold.approximations import Nystroem, Problem, Workload
from onefold.basis import Design, Whitening
from onefold.basis.error import decision_bound, kernel_error, largest_eigenvalue
from onefold.kernels import RBF
from onefold.rows import rows_of

GAMMA, RANK, C = 0.2, 12, 30


def _low_rank(X, Z, rank=RANK):
    """K̃ = C W_k⁺ Cᵀ, n × n."""
    values, vectors = np.linalg.eigh(rbf(Z, Z, GAMMA))
    pseudo = (vectors[:, -rank:] / values[-rank:]) @ vectors[:, -rank:].T
    return rbf(X, Z, GAMMA) @ pseudo @ rbf(Z, X, GAMMA)


def _algorithm_1(X, Z, Y, mu, train, *, intercept=True, weight=None):
    """Dense: solve (K̃ + μ V⁻¹) [ρ, ν] = [1, y] on the training rows, then b and α."""
    K = _low_rank(X, Z)[np.ix_(train, train)]
    ridge = mu * np.eye(len(train)) if weight is None else mu * np.diag(1 / weight[train])
    solved = np.linalg.solve(K + ridge, np.column_stack([np.ones(len(train)), Y[train]]))
    rho, nu = solved[:, :1], solved[:, 1:]
    b = nu.sum(axis=0) / rho.sum() if intercept else np.zeros(Y.shape[1])
    return nu - rho * b[None], b


def _settings(Z, **more):
    return Nystroem(Z, rank=RANK, predict="rows", **more)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("estimator", [LSSVR, KernelRidge])
def test_fit_is_algorithm_1(regression, estimator, weighted):
    X, Y = regression
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X)) if weighted else None
    fitted = estimator(gamma=GAMMA, alpha=0.3, approximation=_settings(X[:C])).fit(X, Y, weight)
    dual, b = _algorithm_1(
        X, X[:C], Y, 0.3, np.arange(len(X)), intercept=estimator is LSSVR, weight=weight
    )
    np.testing.assert_allclose(fitted.expansion_.coef, dual, atol=1e-8)
    np.testing.assert_allclose(fitted.expansion_.intercept, b, atol=1e-8)
    np.testing.assert_allclose(fitted.predict(X), rbf(X, X, GAMMA) @ dual + b, atol=1e-7)


def test_uniform_columns_with_their_row_numbers(regression):
    X, Y = regression
    approximation = Nystroem(C, "uniform", rank=RANK, predict="rows", random_state=4)
    fitted = LSSVR(gamma=GAMMA, alpha=0.3, approximation=approximation).fit(X, Y)
    Z = X[np.sort(np.random.default_rng(4).choice(len(X), C, replace=False))]
    dual, _ = _algorithm_1(X, Z, Y, 0.3, np.arange(len(X)))
    np.testing.assert_allclose(fitted.expansion_.coef, dual, atol=1e-8)


@pytest.mark.parametrize("criterion", ["mse", "r2"])
def test_cross_validation_refits_algorithm_1(regression, criterion):
    X, Y = regression
    cv = KFold(4, shuffle=True, random_state=0)
    fitted = LSSVRCV(
        gammas=[GAMMA], alphas=[0.05, 2.0], cv=cv, criterion=criterion, approximation=_settings(X[:C])
    ).fit(X, Y)
    for train, test in cv.split(X):
        dual, b = _algorithm_1(X, X[:C], Y, fitted.alpha_, train)
        literal = rbf(X[test], X[train], GAMMA) @ dual + b
        np.testing.assert_allclose(fitted.heldout_prediction_[test], literal, atol=1e-7)


def test_classifier_and_the_papers_setting():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    y = np.where((X**2).sum(axis=1) > 1.4, "out", "in")
    approximation = Nystroem(20, "uniform", rank=10, predict="rows")
    fitted = LSSVCCV(approximation=approximation).fit(X, y)
    assert fitted.best_score_ > -0.1
    assert fitted.expansion_.n_centres == 200
    assert LSSVC(approximation=approximation).fit(X, y).score(X, y) > 0.85


def test_leave_one_out_is_refused_with_a_remedy(regression):
    X, Y = regression
    with pytest.raises(ValueError, match="k-fold"):
        LSSVRCV(gammas=[GAMMA], cv="loo", approximation=_settings(X[:C])).fit(X, Y)


def test_norm_is_that_of_the_dense_difference(regression):
    X, _ = regression
    design = Design(RBF(GAMMA), X[:C])
    T = Whitening.of(design.inner(), RANK).T
    found = kernel_error(design, T, rows_of(X), seed=0)
    literal = np.linalg.norm(rbf(X, X, GAMMA) - _low_rank(X, X[:C]), 2)
    assert found["kernel_error"] == pytest.approx(literal, rel=0.02)
    assert found["kernel_error"] <= literal * (1 + 1e-9)


def test_norm_from_a_sample_of_many_rows():
    X = np.random.default_rng(0).standard_normal((4000, 2))
    design = Design(RBF(1.0), X[:15])
    T = Whitening.of(design.inner()).T
    found = kernel_error(design, T, rows_of(X), seed=0)
    assert found["kernel_error_rows"] == 2048
    Phi = RBF(1.0)(X, X[:15]) @ T
    literal = eigsh(RBF(1.0)(X, X) - Phi @ Phi.T, 1, return_eigenvectors=False)[0]
    assert found["kernel_error"] == pytest.approx(literal, rel=0.15)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_krylov_vectors_find_the_largest_eigenvalue(scale):
    rng = np.random.default_rng(0)
    A, start = rng.standard_normal((40, 40)), rng.standard_normal(40)
    expected = np.linalg.norm(A, 2) ** 2
    value = largest_eigenvalue(lambda v: scale * (A @ (A.T @ v)), start) / scale
    assert expected * 0.99 < value <= expected * (1 + 1e-12)
    few = largest_eigenvalue(lambda v: scale * (A[:, :1] @ (A[:, :1].T @ v)), start) / scale
    assert few == pytest.approx(A[:, 0] @ A[:, 0], rel=1e-12)  # fewer directions than steps
    assert largest_eigenvalue(np.zeros_like, start) == 0.0


def test_bound_holds_for_the_model_it_speaks_of(regression):
    # No intercept, so that "the same b" is exact.
    X, Y = regression
    mu = 0.5
    exact = KernelRidge(gamma=GAMMA, alpha=mu).fit(X, Y)
    low = KernelRidge(gamma=GAMMA, alpha=mu, approximation=_settings(X[:C])).fit(X, Y)
    gap = np.abs(exact.predict(X) - low.predict(X)).max()
    norm = np.linalg.norm(rbf(X, X, GAMMA) - _low_rank(X, X[:C]), 2)
    found = {"kernel_error": norm, "largest_diagonal": 1.0}
    assert 0 < gap <= decision_bound(found, Y, np.zeros(2), mu)
    assert low.approximation_["decision_bound"] > gap


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_bound_counts_the_intercept(sign):
    """κ √n (‖y‖ + |b| √n) ‖K − K̃‖₂ / μ², number by number; the largest of two targets."""
    Y = np.array([[3.0, 0.0], [4.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    found = {"kernel_error": 0.25, "largest_diagonal": 3.0}
    first = 3.0 * 2.0 * (5.0 + 7.0 * 2.0) * 0.25 / 0.5**2
    second = 3.0 * 2.0 * (1.0 + 2.0 * 2.0) * 0.25 / 0.1**2
    intercept = np.array([sign * 7.0, -sign * 2.0])
    assert decision_bound(found, Y, intercept, np.array([0.5, 0.1])) == pytest.approx(max(first, second))
    assert decision_bound(found, Y[:, :1], intercept[:1], 0.5) == pytest.approx(first)


def test_reported_bound_is_that_of_the_fitted_model(regression):
    X, Y = regression
    fitted = LSSVR(gamma=GAMMA, alpha=0.5, approximation=_settings(X[:C])).fit(X, Y - 20.0)
    found, n = fitted.approximation_, len(X)
    # Of targets about their mean: y and b enter by their difference alone.
    mean = (Y - 20.0).mean(axis=0)
    shift = np.abs(fitted.expansion_.intercept - mean)
    assert shift.max() > 0.01
    length = np.linalg.norm(Y - 20.0 - mean, axis=0) + shift * np.sqrt(n)
    literal = np.sqrt(n) * length.max() * found["kernel_error"] / 0.5**2
    assert found["decision_bound"] == pytest.approx(literal)


@pytest.mark.parametrize("predict", ["landmarks", "rows"])
def test_the_kernel_error_is_that_of_the_final_model_alone(regression, monkeypatch, predict):
    """Expansions on the way, as of a learned metric's rounds, do not pay for it."""
    X, Y = regression
    found = []

    def counted(*args, **settings):
        found.append(kernel_error(*args, **settings))
        return found[-1]

    monkeypatch.setattr("onefold.approximations.nystroem_models.kernel_error", counted)
    approximation = Nystroem(X[:C], predict=predict)
    problem = Problem(X, Y, None, True)
    approximation.start(problem, [RBF(GAMMA)], Workload()).model(RBF(GAMMA)).expansion(0.5)
    assert not found
    fitted = LSSVRCV(gammas=[0.1, GAMMA], cv=3, approximation=approximation, refit="same").fit(X, Y)
    assert [fitted.approximation_["fitted_with"]["kernel_error"]] == [
        one["kernel_error"] for one in found
    ]
