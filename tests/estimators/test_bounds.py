"""The span rule and the radius-margin quantity against refits, dense algebra and a general solver."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Circulant, Grid, Nystroem, Toeplitz
from onefold.criteria.closed import squared_radii

RNG = np.random.default_rng(11)
N = 24
X = RNG.standard_normal((N, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]]) + 0.2 * RNG.standard_normal((N, 2)) + 3.0
LABELS = np.digitize(Y[:, 0], [2.7, 3.4])
WEIGHTS = RNG.uniform(0.3, 2.0, N)
ALPHAS = [1e-3, 0.1, 3.0]
K = np.exp(-0.7 * ((X[:, None] - X[None]) ** 2).sum(-1))


def scores(estimator, y, weights=None, rows=X):
    return estimator.fit(rows, y, sample_weight=weights).cv_results_["mean_test_score"]


def grid(kind, criterion, **settings):
    return kind(gammas=[0.7], alphas=ALPHAS, criterion=criterion, **settings)


def each_from_all_others(fixed, y, weights, value):
    """`value(model, row)` of every row, from a model that was fitted without it."""
    found = []
    for alpha in ALPHAS:
        of_rows = []
        for row in range(N):
            rest = np.delete(np.arange(N), row)
            weight = None if weights is None else weights[rest]
            model = fixed(gamma=0.7, alpha=alpha).fit(X[rest], y[rest], sample_weight=weight)
            of_rows.append(value(model, row))
        found.append(np.average(of_rows, weights=weights))
    return found


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weights"])
@pytest.mark.parametrize(("kind", "fixed"), [(LSSVRCV, LSSVR), (KernelRidgeCV, KernelRidge)])
def test_span_of_regression_is_the_mean_absolute_error_of_refits(kind, fixed, weights) -> None:
    expected = each_from_all_others(
        fixed, Y, weights, lambda model, row: -np.abs(Y[row] - model.predict(X[row][None])[0]).mean()
    )
    assert_allclose(scores(grid(kind, "span"), Y, weights), expected, rtol=1e-9)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weights"])
@pytest.mark.parametrize("classes", [2, 3])
def test_span_of_classification_is_a_smooth_count_of_errors_of_refits(classes, weights) -> None:
    labels = LABELS if classes == 3 else (LABELS > 0).astype(int)

    def step(model, row):
        targets = np.where(np.arange(3) == labels[row], 1, -1) if classes == 3 else 2 * labels[row] - 1
        excess = -targets * model.decision_function(X[row][None])[0]
        return -np.mean(1 / (1 + np.exp(-5 * excess)))

    expected = each_from_all_others(LSSVC, labels, weights, step)
    assert_allclose(scores(grid(LSSVCCV, "span"), labels, weights), expected, rtol=1e-9)


@pytest.mark.parametrize("bordered", [True, False])
def test_the_span_is_a_distance(bordered) -> None:
    """S_i² = 1/(M⁻¹)_ii is that of row i from the hull of the others, and α_i S_i² its residual."""
    mu, y = 0.3, Y[:, 0]
    G = K + mu * np.eye(N)
    M = np.block([[G, np.ones((N, 1))], [np.ones((1, N)), np.zeros((1, 1))]]) if bordered else G
    inverse = np.linalg.inv(M)
    alpha = (inverse @ np.append(y, 0.0))[:N] if bordered else inverse @ y
    spans = 1 / np.diagonal(inverse)[:N]
    for row in range(N):
        rest = np.delete(np.arange(N), row)
        A, b = G[np.ix_(rest, rest)], G[rest, row]
        if bordered:
            one = np.ones((N - 1, 1))
            A, b = np.block([[A, one], [one.T, np.zeros((1, 1))]]), np.append(b, 1.0)
        weights = np.linalg.solve(A, b)[: N - 1]
        distance = G[row, row] - 2 * weights @ G[rest, row] + weights @ G[np.ix_(rest, rest)] @ weights
        assert spans[row] == pytest.approx(distance, rel=1e-8)
    fixed, kind = (LSSVR, LSSVRCV) if bordered else (KernelRidge, KernelRidgeCV)
    assert_allclose(fixed(gamma=0.7, alpha=mu).fit(X, y).expansion_.coef[:, 0], alpha, rtol=1e-8)
    found = scores(kind(gammas=[0.7], alphas=[mu], criterion="span"), y)
    assert_allclose(found, -np.mean(np.abs(alpha) * spans), rtol=1e-9)


def literal_radius(G):
    """The squared radius by a general solver of the dual problem."""
    n = len(G)
    diagonal = np.diagonal(G)
    found = minimize(
        lambda b: b @ G @ b - diagonal @ b,
        np.full(n, 1 / n),
        jac=lambda b: 2 * G @ b - diagonal,
        bounds=[(0, None)] * n,
        constraints={"type": "eq", "fun": lambda b: b.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-15},
    )
    return -found.fun


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 20),
    width=st.sampled_from([1e-4, 0.1, 1.0, 50.0]),
    scale=st.sampled_from([1e-200, 1e-12, 1.0, 1e12, 1e200]),
    repeated=st.booleans(),
)
def test_the_smallest_ball(seed, n, width, scale, repeated) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, 3))
    if repeated:
        rows[n // 2 :] = rows[: n - n // 2]
    kernel = np.exp(-width * ((rows[:, None] - rows[None]) ** 2).sum(-1))
    shifts = np.array([1e-4, 0.3, 20.0])[:, None] * rng.uniform(0.5, 2.0, (3, n))
    found = squared_radii(scale * kernel, scale * shifts) / scale
    expected = [literal_radius(kernel + np.diag(shift)) for shift in shifts]
    assert_allclose(found, expected, rtol=1e-6)


def test_the_smallest_ball_of_one_and_of_two_rows() -> None:
    assert_allclose(squared_radii(np.ones((1, 1)), np.full((2, 1), 0.5)), 0.0)
    two = np.array([[1.0, 0.2], [0.2, 1.0]])
    assert_allclose(squared_radii(two, np.full((1, 2), 0.5)), (2 * 1.5 - 0.4) / 4)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weights"])
@pytest.mark.parametrize("kind", [LSSVRCV, KernelRidgeCV, LSSVCCV])
def test_radius_margin_by_dense_algebra(kind, weights) -> None:
    y = LABELS if kind is LSSVCCV else Y
    targets = np.where(LABELS[:, None] == np.arange(3), 1.0, -1.0) if kind is LSSVCCV else Y
    expected = []
    v = np.ones(N) if weights is None else weights
    for alpha in ALPHAS:
        G = K + alpha * np.diag(1 / v)
        inverse = np.linalg.inv(G)
        if kind is not KernelRidgeCV:
            rho = inverse.sum(1)
            inverse = inverse - np.outer(rho, rho) / rho.sum()
        dual = inverse @ targets
        norms = np.trace(dual.T @ G @ dual)
        expected.append(-literal_radius(G) * norms / targets.size)
    assert_allclose(scores(grid(kind, "radius_margin"), y, weights), expected, rtol=1e-6)


def test_radius_margin_by_cholesky_and_by_eigenvalues() -> None:
    many = 2.0 ** np.arange(-12, 6)
    one_by_one = [scores(LSSVRCV(gammas=[0.7], alphas=[a], criterion="radius_margin"), Y) for a in many]
    together = scores(LSSVRCV(gammas=[0.7], alphas=many, criterion="radius_margin"), Y)
    assert_allclose(np.ravel(one_by_one), together, rtol=1e-7)


@pytest.mark.parametrize("criterion", ["span", "radius_margin"])
@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_scaled_targets_choose_the_same(criterion, scale) -> None:
    settings = {"gammas": [0.1, 0.7, 4.0], "alphas": [1e-4, *ALPHAS], "criterion": criterion}
    one, two = LSSVRCV(**settings).fit(X, Y), LSSVRCV(**settings).fit(X, scale * Y)
    assert one.best_params_ == two.best_params_


def test_targets_without_variation_have_no_margin_to_lose() -> None:
    assert_allclose(scores(grid(LSSVRCV, "radius_margin"), np.full(N, 7.0)), 0.0)
    assert_allclose(scores(grid(LSSVRCV, "span"), np.full(N, 7.0)), 0.0)


def test_repeated_and_constant_rows() -> None:
    twice, y = np.repeat(X, 2, axis=0), np.repeat(Y, 2, axis=0)
    for rows in (twice, np.zeros_like(twice)):
        for criterion in ("span", "radius_margin"):
            assert np.isfinite(scores(grid(LSSVRCV, criterion), y, rows=rows)).all()


@pytest.mark.parametrize("criterion", ["span", "radius_margin"])
def test_other_libraries(criterion) -> None:
    torch = pytest.importorskip("torch")
    there = scores(grid(LSSVRCV, criterion), torch.asarray(Y), rows=torch.asarray(X))
    assert_allclose(there, scores(grid(LSSVRCV, criterion), Y), rtol=1e-7)


@pytest.mark.parametrize(
    "approximation", [Nystroem(5), Grid(), Toeplitz(), Circulant(spacing=1.0)], ids=lambda a: a.name
)
def test_radius_margin_without_a_kernel_matrix_is_refused(approximation) -> None:
    rows = np.linspace(0, 1, N)[:, None]
    with pytest.raises(ValueError, match=r'needs the (kernel matrix|whole smoother).*"exact"'):
        LSSVRCV(criterion="radius_margin", approximation=approximation).fit(rows, Y)


def test_span_of_landmarks_is_that_of_their_leave_one_out_predictions() -> None:
    settings = {"gammas": [0.7], "alphas": ALPHAS, "approximation": Nystroem(8), "cv": "loo"}
    span = LSSVRCV(**settings, criterion="span").fit(X, Y)
    error = LSSVRCV(**settings, criterion="neg_mean_absolute_error").fit(X, Y)
    key = "mean_test_score"
    assert_allclose(span.cv_results_[key], error.cv_results_[key], rtol=1e-9)


@pytest.mark.parametrize("criterion", ["radius_margin", ["mse", "radius_margin"]], ids=str)
@pytest.mark.parametrize("name", ["toeplitz", "circulant"])
def test_radius_margin_is_refused_before_any_work(name, criterion, tmp_path) -> None:
    x = np.linspace(0, 30, 200)[:, None]
    machine = LSSVRCV(approximation=name, criterion=criterion, checkpoint=tmp_path / "journal")
    for ask in (machine.objective, machine.fit):
        with pytest.raises(ValueError, match=r"radius_margin.* needs the kernel matrix, which "):
            ask(x, np.sin(x[:, 0]))
    with open(tmp_path / "journal") as journal:
        assert len(journal.readlines()) <= 1  # its mark alone
