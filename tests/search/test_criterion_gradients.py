"""Gradients of the criteria against differences of the criteria as they are computed without them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from onefold.approximations import Exact, Problem, Workload
from onefold.criteria import resolve_criterion
from onefold.criteria.gradients import has_slopes, score_slopes
from onefold.kernels import (
    RBF,
    CallableKernel,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Precomputed,
)
from onefold.kernels.tiles import gram
from onefold.kernels.width_slopes import has_width_slopes, width_slopes

CRITERIA = ["press", "gcv", "evidence"]
FAMILIES = {
    "rbf": RBF,
    "matern12": lambda gamma: Matern(gamma, nu=0.5),
    "matern32": lambda gamma: Matern(gamma, nu=1.5),
    "matern52": lambda gamma: Matern(gamma, nu=2.5),
    "laplacian": Laplacian,
    "polynomial": lambda gamma: Polynomial(gamma, degree=2),
}


def problem(seed, *, n=30, d=3, targets=2, weights=True, intercept=True, X=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) if X is None else X
    Y = np.sin(X[:, :1]) + 0.3 * rng.standard_normal((n, targets))
    v = rng.uniform(0.2, 3.0, n)
    return Problem(X, Y, np.sqrt(v / v.mean()) if weights else None, intercept)


def model(kernel, prob, ridges=1):
    return Exact().model(kernel, prob, Workload(1, ridges, 1), None)


def score(criterion, kernel, prob, mu):
    return float(criterion.score(model(kernel, prob), prob, np.array([mu]))[0])


def difference(function, at, step=1e-4):
    """The central difference with an error of the fourth order."""
    ends = [function(at + k * step) for k in (-2, -1, 1, 2)]
    return (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / (12 * step)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    criterion=st.sampled_from(CRITERIA),
    family=st.sampled_from(sorted(FAMILIES)),
    weights=st.booleans(),
    intercept=st.booleans(),
    targets=st.integers(1, 3),
    log_mu=st.floats(-4, 2),
)
def test_widths_and_ridge_against_differences(
    seed, criterion, family, weights, intercept, targets, log_mu
):
    prob = problem(seed, targets=targets, weights=weights, intercept=intercept)
    crit, make = resolve_criterion(criterion, classifier=False), FAMILIES[family]
    gammas = np.random.default_rng(seed).uniform(0.1, 1.0, 3)
    mu = float(np.exp(log_mu))
    found = score_slopes(crit, model(make(tuple(gammas)), prob), prob, mu)
    slopes = width_slopes(make(tuple(gammas)), prob.X, found.kernel)

    def moved(place, shift):
        return score(crit, make(tuple(gammas * np.exp(shift * np.eye(3)[place]))), prob, mu)

    expected = [difference(lambda t, j=j: moved(j, t), 0.0) for j in range(3)]
    ridge = difference(lambda t: score(crit, make(tuple(gammas)), prob, mu * np.exp(t)), 0.0)
    size = max(
        np.abs(expected).max(), abs(ridge), 1e-3 * abs(score(crit, make(tuple(gammas)), prob, mu))
    )
    assert_allclose(slopes, expected, atol=2e-7 * size)
    assert_allclose(found.ridge, ridge, atol=2e-7 * size)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_one_width_is_the_sum_over_features_also_in_a_metric(criterion, family):
    crit, prob = resolve_criterion(criterion, classifier=False), problem(3)
    metric = [0.5, 1.0, 2.0] if family == "laplacian" else np.random.default_rng(0).normal(size=(3, 3))
    kernel = FAMILIES[family](0.4).with_metric(metric)
    found = score_slopes(crit, model(kernel, prob), prob, 0.2)
    slope = width_slopes(kernel, prob.X, found.kernel).sum()
    expected = difference(lambda t: score(crit, kernel.scaled(np.exp(t)), prob, 0.2), 0.0)
    assert_allclose(slope, expected, rtol=1e-7)


@pytest.mark.parametrize("join", [lambda a, b: a + b, lambda a, b: a * b])
def test_sums_and_products(join):
    crit, prob = resolve_criterion("press", classifier=False), problem(4)
    kernel = join(join(RBF(0.3), Laplacian(0.2)), Linear())
    found = score_slopes(crit, model(kernel, prob), prob, 0.5)
    slope = width_slopes(kernel, prob.X, found.kernel).sum()
    expected = difference(lambda t: score(crit, kernel.scaled(np.exp(t)), prob, 0.5), 0.0)
    assert_allclose(slope, expected, rtol=1e-7)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_gradient_in_the_entries_of_the_kernel_matrix_in_complex_steps(criterion):
    """To the last digits, from the definitions on dense matrices."""
    prob = problem(5, n=12)
    K, mu, step = RBF(0.4)(prob.X, prob.X), 0.3, 1e-30
    rng = np.random.default_rng(1)
    direction = rng.normal(size=K.shape)
    direction += direction.T
    s, n, t = prob.root_weight, 12, 2
    Y = s[:, None] * prob.Y

    def literal(K, mu):
        A = np.linalg.inv(s[:, None] * K * s + mu * np.eye(n))
        scale = s @ A @ s
        A = A - np.outer(A @ s, s @ A) / scale
        r = A @ Y
        if criterion == "press":
            return -np.sum((r / np.diagonal(A)[:, None]) ** 2) / (n * t)
        if criterion == "gcv":
            return -np.sum(r**2) / (n * t) / (np.trace(A) / n) ** 2
        logdet = np.log(np.linalg.det(s[:, None] * K * s + mu * np.eye(n))) + np.log(scale)
        return -0.5 * np.sum((n - 1) * np.log(np.sum(Y * r, axis=0)) + logdet)

    found = score_slopes(resolve_criterion(criterion, classifier=False), model(RBF(0.4), prob), prob, mu)
    along = np.imag(literal(K + 1j * step * direction, mu)) / step
    assert_allclose(np.sum(found.kernel * direction), along, rtol=1e-11)
    assert_allclose(found.ridge, np.imag(literal(K, mu * (1 + 1j * step))) / step, rtol=1e-11)
    assert_allclose(found.kernel, found.kernel.T, atol=1e-12 * np.abs(found.kernel).max())


@pytest.mark.parametrize("family", ["rbf", "matern12", "matern32", "laplacian"])
def test_width_slopes_of_far_equal_and_nearly_equal_rows(family):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 3)) + 1e6
    X[1], X[2], X[3] = X[0], X[0] + 1e-9, X[4]
    W = rng.normal(size=(40, 40))
    W += W.T
    gammas = np.array([0.2, 0.5, 1.0])
    found = width_slopes(FAMILIES[family](tuple(gammas)), X, W)
    gaps = X[:, None].astype(np.longdouble) - X[None]
    K = gram(FAMILIES[family](tuple(gammas)), X)
    if family == "laplacian":
        expected = [-np.sum(W * K * g * np.abs(gaps[..., j])) for j, g in enumerate(gammas)]
    else:
        q = np.sum(gammas * gaps**2, axis=2)
        s = {"matern12": np.sqrt(2 * q), "matern32": np.sqrt(6 * q)}.get(family)
        with np.errstate(divide="ignore"):
            slope = {
                "rbf": lambda: -np.exp(-q),
                "matern12": lambda: np.where(s > 0, -np.exp(-s) / s, 0.0),
                "matern32": lambda: -3 * np.exp(-s),
            }[family]()
        expected = [np.sum(W * slope * g * gaps[..., j] ** 2) for j, g in enumerate(gammas)]
    # The rows themselves have ten digits about their mean.
    assert_allclose(found, np.array(expected, dtype=float), rtol=1e-6)


def test_tiles_sparse_rows_and_other_libraries():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((1300, 2))  # more than one tile
    X[rng.random(X.shape) < 0.5] = 0.0
    W = rng.normal(size=(1300, 1300))
    W += W.T
    kernel = RBF((0.3, 0.7))
    found = width_slopes(kernel, X, W)
    K = gram(kernel, X)
    gaps = (X[:, None] - X[None]) ** 2
    assert_allclose(
        found, [-np.sum(W * K * g * gaps[..., j]) for j, g in enumerate((0.3, 0.7))], rtol=1e-8
    )
    assert_allclose(width_slopes(kernel, scipy.sparse.csr_array(X), W), found, rtol=1e-8)
    torch = pytest.importorskip("torch")
    assert_allclose(width_slopes(kernel, torch.from_numpy(X), torch.from_numpy(W)), found, rtol=1e-8)


def test_a_target_of_zeros_and_uneven_weights():
    crit = resolve_criterion("evidence", classifier=False)
    base = problem(6, weights=False, intercept=False)
    zero = Problem(base.X, base.Y * [1.0, 0.0], None, False)
    found = score_slopes(crit, model(RBF(0.3), zero), zero, 0.1)
    assert_allclose(
        width_slopes(RBF(0.3), zero.X, found.kernel).sum(),
        difference(lambda t: score(crit, RBF(0.3 * np.exp(t)), zero, 0.1), 0.0),
        rtol=1e-7,
    )
    root = np.geomspace(1e-4, 1.0, 30)
    root /= np.sqrt(np.mean(root**2))
    uneven = Problem(base.X, base.Y, root, True)
    for name in CRITERIA:
        crit = resolve_criterion(name, classifier=False)
        found = score_slopes(crit, model(RBF(0.3), uneven), uneven, 0.1)
        expected = difference(lambda t, c=crit: score(c, RBF(0.3 * np.exp(t)), uneven, 0.1), 0.0)
        assert_allclose(width_slopes(RBF(0.3), uneven.X, found.kernel).sum(), expected, rtol=1e-6)


def test_what_has_no_gradient():
    class Own(Kernel):
        has_width = True

        def __call__(self, A, B):
            return A @ B.T

        def diagonal(self, A):
            return np.sum(A * A, axis=1)

    assert not has_width_slopes(Own())
    assert not has_width_slopes(RBF(1.0) + Own())
    assert all(
        map(has_width_slopes, [Linear(), Precomputed(), CallableKernel(np.dot), RBF() * Linear()])
    )
    with pytest.raises(ValueError, match="no derivative in its width"):
        width_slopes(Own(), np.zeros((2, 1)), np.zeros((2, 2)))
    assert not has_slopes(resolve_criterion("mse", classifier=False))
