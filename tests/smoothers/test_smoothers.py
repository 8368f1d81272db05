"""Dense smoothers against a twin built from the definition, and against literal refits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from onefold.kernels import RBF
from onefold.kernels.tiles import gram
from onefold.smoothers import CholeskySmoother, SpectralSmoother, ThinSmoother
from onefold.smoothers.base import CHECKED, PSD
from onefold.smoothers.spectral import isolated_rows, low_rank_factor
from tests.smoothers.dense_twin import check, refit, residual_operator, solve

ALPHAS = np.array([1e-4, 0.1, 30.0])
BORDERS = pytest.mark.parametrize("kind", ["none", "ones", "weights"])


def _spectral(K, border):
    return SpectralSmoother(K.copy(), border, isolated=isolated_rows(K))


def _factor(K):
    """Any L with K = L Lᵀ; columns of rounding size are left out, as the pivoted routine does."""
    CHECKED.without_rounding(np.linalg.eigvalsh(K))
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-14 * values.max()
    return vectors[:, kept] * np.sqrt(values[kept])


SMOOTHERS = {
    "eigen": _spectral,
    "eigen, in place": lambda K, border: SpectralSmoother(K.copy(), border, release_lock=False),
    "eigen, threads": lambda K, border: SpectralSmoother(K.copy(), border, release_lock=True),
    "cholesky": lambda K, border: CholeskySmoother(K.copy(), border),
    "low rank": lambda K, border: ThinSmoother.of_factor(_factor(K), border),
}


def example(n, gamma, seed=0, targets=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return gram(RBF(gamma), X), rng.standard_normal((n, targets)) + 5.0, rng


def borders(n, rng):
    return {"none": None, "ones": np.ones(n), "weights": np.sqrt(rng.uniform(0.2, 3.0, n))}


@BORDERS
@pytest.mark.parametrize("gamma", [1e-4, 0.5, 40.0, 1e6], ids=["flat", "usual", "narrow", "diagonal"])
@pytest.mark.parametrize("name", SMOOTHERS)
def test_against_the_dense_twin_and_literal_refits(name, gamma, kind) -> None:
    K, Y, rng = example(30, gamma)
    border = borders(30, rng)[kind]
    parts = [np.arange(7), np.sort(rng.choice(30, 20, replace=False)), np.array([29])]
    check(SMOOTHERS[name](K, border), K, Y, border, ALPHAS, parts)


@BORDERS
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("name", SMOOTHERS)
def test_every_part_and_ridge_is_a_solve_without_the_part(name, targets, kind) -> None:
    n = 30
    alphas = [1e-2, 1.0, 20.0]
    K, Y, rng = example(n, 0.5, targets=targets)
    border = borders(n, rng)[kind]
    parts = [np.array([0, 4, 5]), np.array([29]), np.arange(10, 22)]  # of several sizes, some rows never
    duals, levels = SMOOTHERS[name](K, border).heldout_duals(Y, parts, alphas)
    assert duals.shape == (len(alphas), len(parts), n, targets)
    assert (levels is None) == (border is None)
    for i, alpha in enumerate(alphas):
        for k, rows in enumerate(parts):
            train = np.setdiff1d(np.arange(n), rows)
            a, b = solve(K, Y, border, alpha, train)
            assert_array_equal(duals[i, k][rows], 0.0)
            assert_allclose(duals[i, k][train], a, rtol=0, atol=1e-9)
            if border is not None:
                intercept = levels[i, k] - (border @ K[:, train] @ a) / (border @ border)
                assert_allclose(intercept, b, rtol=0, atol=1e-9)


@settings(max_examples=80, deadline=None)
@given(
    n=st.integers(2, 12),
    gamma=st.sampled_from([1e-5, 0.1, 3.0, 1e5]),
    kind=st.sampled_from(["none", "ones", "weights"]),
    name=st.sampled_from(list(SMOOTHERS)),
    repeat=st.booleans(),
    data=st.data(),
)
def test_any_set_of_rows_of_any_small_problem(n, gamma, kind, name, repeat, data) -> None:
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 2))
    if repeat:
        X[1] = X[0]
    K = gram(RBF(gamma), X)
    Y = rng.standard_normal((n, 1))
    border = borders(n, rng)[kind]
    size = data.draw(st.integers(1, n - 1))
    rows = np.sort(data.draw(st.permutations(range(n)))[:size])
    smoother = SMOOTHERS[name](K, border)
    (values,) = smoother.heldout(Y, [rows], np.array([0.05]))
    assert_allclose(values[0], refit(K, Y, border, 0.05, rows), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", SMOOTHERS)
def test_an_indefinite_matrix_is_refused(name) -> None:
    K = np.diag([1.0, 1.0, -0.5])
    K[0, 1] = K[1, 0] = 0.5
    with pytest.raises(ValueError, match="not positive semi-definite"):
        SMOOTHERS[name](K, None).residuals(np.ones((3, 1)), [0.1])


@BORDERS
@pytest.mark.parametrize("name", ["eigen", "cholesky", "low rank"])
def test_directions_of_rounding_are_left_out_below_the_rounding_of_the_matrix(name, kind) -> None:
    """K of rank 5 and size 1e12: at the first μ least squares on its columns, at the second a ridge."""
    n = 40
    alphas = np.array([1e-6, 1e6])
    rng = np.random.default_rng(3)
    B = 1e5 * rng.standard_normal((n, 5))
    Y = rng.standard_normal((n, 2))
    border = borders(n, rng)[kind]
    K = B @ B.T
    H = np.eye(n)
    columns = B
    if border is not None:  # folded in, as the exact machine does it
        along = np.outer(border, border) / (border @ border)
        H = np.eye(n) - along
        columns = np.column_stack([B, border])
        K = H @ K @ H
        K = (K + K.T) / 2 + np.trace(K) / n * along
    smoother = SMOOTHERS[name](K, border)
    residuals = smoother.residuals(Y, alphas)
    duals = smoother.duals(Y, alphas)
    assert smoother.below_rounding(alphas).tolist() == [True, False]
    wanted = Y - columns @ np.linalg.lstsq(columns, Y, rcond=None)[0]
    assert_allclose(residuals[0], wanted, atol=1e-9)
    assert_allclose(H @ (Y - B @ (B.T @ duals[0])), wanted, atol=1e-9)
    assert_allclose(residuals[1], residual_operator(K, border, alphas[1]) @ Y, atol=1e-9)
    assert_allclose(duals[1], residuals[1] / alphas[1], rtol=1e-12)


def test_rows_that_decide_their_own_value_are_unknown_below_rounding_alone() -> None:
    K = np.diag([1e12, 1.0, 2.0])
    Y = np.arange(3.0)[:, None]
    for name in ("eigen", "cholesky"):
        found = SMOOTHERS[name](K, None).leave_one_out(Y, [1e-3, 1.0])[:, :, 0]
        assert_array_equal(np.isnan(found), [[True, False, False], [False, False, False]])


def test_a_matrix_that_has_no_factor_is_made_again_and_decomposed() -> None:
    rng = np.random.default_rng(4)
    U = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    values = np.array([3.0, 2.0, 1.0, 0.5, 0.1, -1e-9])  # the last is rounding: the kernel is known PSD
    K = (U * values) @ U.T
    Y = rng.standard_normal((6, 1))
    alpha = 1e-10
    wanted = U @ np.diag(alpha / (np.maximum(values, 0.0) + alpha)) @ U.T @ Y
    for remake in (None, K.copy):
        smoother = CholeskySmoother(K.copy(), None, remake=remake, rounding=PSD)
        for _ in range(2):
            assert_allclose(smoother.residuals(Y, [alpha])[0], wanted, atol=1e-12)


@pytest.mark.parametrize("kind", ["none", "ones"])
@pytest.mark.parametrize("remade", [False, True])
def test_what_was_asked_before_changes_no_more_than_rounding(remade, kind) -> None:
    """Its factor may have become an inverse, or part of one, or be that of another ridge."""
    K, Y, rng = example(40, 0.5)
    border = borders(40, rng)[kind]
    parts = {"above": [np.arange(7)], "below": [np.arange(30, 40), np.arange(25, 28)]}
    questions = {
        "residuals": lambda smoother: smoother.residuals(Y, [0.1]),
        "duals": lambda smoother: smoother.duals(Y, [0.1]),
        "above": lambda smoother: smoother.heldout(Y, parts["above"], [0.1])[0],
        "below": lambda smoother: smoother.heldout(Y, parts["below"], [0.1])[1],
        "leave one out": lambda smoother: smoother.leave_one_out(Y, [0.1]),
        "some": lambda smoother: smoother.leave_one_out_at(Y, np.array([3, 30]), 0.1),
        "trace": lambda smoother: smoother.trace([0.1]),
        "logdet": lambda smoother: smoother.logdet([0.1]),
        "another ridge": lambda smoother: smoother.trace([7.0]),
    }

    def new():
        return CholeskySmoother(K.copy(), border, remake=K.copy if remade else None)

    expected = {name: ask(new()) for name, ask in questions.items()}
    for first in questions:
        smoother = new()
        questions[first](smoother)
        for name, ask in questions.items():
            assert_allclose(ask(smoother), expected[name], rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("kind", ["none", "ones"])
def test_a_smooth_kernel_on_two_features_has_a_thin_factor_of_full_digits(kind) -> None:
    X = np.random.default_rng(2).standard_normal((1100, 2))
    K = gram(RBF(0.2), X)
    Y = np.sin(3 * X[:, :1]) + 2.0
    L = low_rank_factor(K)
    assert L.shape[1] < 300
    assert_allclose(L @ L.T, K, atol=1e-13)
    for other in (K[:900, :900], gram(RBF(50.0), X), np.eye(1100)):  # too small to be worth it, rough
        assert low_rank_factor(other) is None
    border = None if kind == "none" else np.ones(1100)
    rows = np.arange(0, 1100, 5)
    (values,) = ThinSmoother.of_factor(L, border).heldout(Y, [rows], [2.0**-15, 1.0])
    for alpha, value in zip([2.0**-15, 1.0], values):
        assert_allclose(value, refit(K, Y, border, alpha, rows), atol=1e-8)
