"""The Toeplitz smoother against its dense twin: every quantity, every solver, every size."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import toeplitz

from onefold.smoothers.base import UnsolvableError
from onefold.smoothers.toeplitz import (
    GohbergSemencul,
    SymmetricToeplitz,
    ToeplitzSmoother,
    dies_out,
    log_determinant,
)

ALPHAS = np.array([1e-3, 3.0, 0.1])


def rbf_column(n: int, gamma: float) -> Any:
    return np.exp(-gamma * (np.arange(n) / max(n - 1, 1)) ** 2)


def residual_operator(column: Any, alpha: float, intercept: bool) -> Any:
    """R_b as a dense matrix."""
    n = column.size
    R = alpha * np.linalg.inv(toeplitz(column) + alpha * np.eye(n))
    if intercept:
        rho = R.sum(axis=1)
        R -= np.outer(rho, rho) / rho.sum()
    return R


def check_against_dense_twin(
    smoother: ToeplitzSmoother, column: Any, intercept: bool, atol: float, alphas: Any = ALPHAS
) -> None:
    n = column.size
    generator = np.random.default_rng(n)
    Y = generator.normal(size=(n, 2))
    cut = max(1, n // 3)
    parts = [np.arange(cut), np.arange(n - cut, n), np.sort(generator.permutation(n)[:cut])]
    parts = parts if n > 2 else []
    residuals, loo = smoother.residuals(Y, alphas), None
    if n > 1:
        loo = smoother.leave_one_out(Y, alphas)
    heldout, trace = smoother.heldout(Y, parts, alphas), smoother.trace(alphas)
    for i, alpha in enumerate(alphas):
        R = residual_operator(column, float(alpha), intercept)
        assert_allclose(residuals[i], R @ Y, atol=atol)
        assert_allclose(trace[i], np.trace(R), atol=atol * n)
        if loo is not None:
            assert_allclose(loo[i], Y - R @ Y / np.diag(R)[:, None], atol=10 * atol, rtol=1e-6)
        for rows, found in zip(parts, heldout):
            literal = Y[rows] - np.linalg.solve(R[np.ix_(rows, rows)], (R @ Y)[rows])
            assert_allclose(found[i], literal, atol=100 * atol, rtol=1e-5)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("solver", "short"), [("levinson", 1024), ("pcg", 0)])
@pytest.mark.parametrize("gamma", [0.01, 3.0, 4000.0])
@pytest.mark.parametrize("n", [1, 2, 3, 60])
def test_dense_twin(
    n: int, gamma: float, solver: str, short: int, intercept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onefold.smoothers.toeplitz.SHORT", short)
    column, report = rbf_column(n, gamma), {}
    smoother = ToeplitzSmoother(column, intercept=intercept, semidefinite=True, report=report)
    check_against_dense_twin(smoother, column, intercept, atol=1e-8)
    assert report["solver"] == solver


@pytest.mark.parametrize("gamma", [1.0, 1e5])
def test_blocks_that_are_not_formed(gamma: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onefold.smoothers.toeplitz.DENSE", 70)
    monkeypatch.setattr("onefold.smoothers.toeplitz.SHORT", 10)
    column = rbf_column(400, gamma)
    for intercept in (False, True):
        smoother = ToeplitzSmoother(column, intercept=intercept, semidefinite=True)
        check_against_dense_twin(smoother, column, intercept, atol=1e-8)
    narrow = np.arange(100, 150)  # a contiguous block small enough to be formed
    Y = np.random.default_rng(0).normal(size=(400, 1))
    R = residual_operator(column, 0.1, True)
    literal = Y[narrow] - np.linalg.solve(R[np.ix_(narrow, narrow)], (R @ Y)[narrow])
    assert_allclose(smoother.heldout(Y, [narrow], [0.1])[0][0], literal, atol=1e-7)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.floats(-3, 3), st.floats(-3, 1), st.booleans())
def test_any_size_width_and_ridge(n: int, log_gamma: float, log_alpha: float, intercept: bool) -> None:
    column, alpha = rbf_column(n, 10**log_gamma), 10**log_alpha
    smoother = ToeplitzSmoother(column, intercept=intercept, semidefinite=True)
    check_against_dense_twin(smoother, column, intercept, atol=1e-8, alphas=np.array([alpha]))


class TestIndefinite:
    def column(self, n: int) -> Any:
        column = 0.6 * np.cos(2.5 * np.arange(n)) / (1 + 0.1 * np.arange(n))
        column[0] = 0.1
        return column

    @pytest.mark.parametrize("short", [1024, 20], ids=["levinson", "pcg"])
    @pytest.mark.parametrize("intercept", [False, True])
    def test_only_ridges_that_make_it_definite_are_solved_with(
        self, short: int, intercept: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("onefold.smoothers.toeplitz.SHORT", short)
        column = self.column(80)
        least = -np.linalg.eigvalsh(toeplitz(column)).min()
        assert least > 1e-3
        smoother = ToeplitzSmoother(column, intercept=intercept)
        alphas = np.array([1e-3, 0.5 * least, 2 * least, 1e3])
        Y = np.random.default_rng(1).normal(size=(80, 2))
        for question in (smoother.residuals, smoother.leave_one_out):
            with pytest.raises(UnsolvableError, match=r"cannot be solved with: .*larger alpha"):
                question(Y, alphas)
        with pytest.raises(UnsolvableError):
            smoother.heldout(Y, [np.array([3, 4, 20])], alphas)
        with pytest.raises(UnsolvableError):
            smoother.logdet(alphas)
        assert smoother.solvable(alphas).tolist() == [False, False, True, True]
        check_against_dense_twin(smoother, column, intercept, atol=1e-8, alphas=alphas[2:])

    @pytest.mark.parametrize(
        "column", [[0.5, 1.5, -0.3, 0.2], [0.0, -1.0]], ids=["indefinite", "singular"]
    )
    def test_a_short_one_is_refused_with_a_remedy(self, column: list[float]) -> None:
        smoother = ToeplitzSmoother(np.array(column), intercept=False)
        with pytest.raises(UnsolvableError, match=r"plus 1·I .* not positive definite; use a larger"):
            smoother.residuals(np.ones((len(column), 1)), [1.0])


def test_targets_far_from_zero_lose_no_digits_to_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onefold.smoothers.toeplitz.SHORT", 100)
    column = rbf_column(300, 1000.0)
    smoother = ToeplitzSmoother(column, intercept=True, semidefinite=True)
    y = np.random.default_rng(0).normal(size=(300, 1))
    assert_allclose(smoother.residuals(y + 1e6, [0.01]), smoother.residuals(y, [0.01]), atol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
def test_log_determinant(intercept: bool) -> None:
    column = rbf_column(40, 100.0)
    found = ToeplitzSmoother(column, intercept=intercept, semidefinite=True).logdet(ALPHAS)
    for value, alpha in zip(found, ALPHAS):
        G = toeplitz(column) + alpha * np.eye(40)
        if intercept:
            basis = np.linalg.svd(np.ones((1, 40)))[2][1:]
            G = basis @ G @ basis.T
        assert_allclose(value, np.linalg.slogdet(G)[1], rtol=1e-9)


def test_log_determinants_too_long_to_compute_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onefold.smoothers.toeplitz._LOGDET_LIMIT", 10)
    with pytest.raises(ValueError, match='n = 11; use criterion="press"'):
        ToeplitzSmoother(rbf_column(11, 1.0), intercept=False).logdet([1.0])
    with pytest.raises(np.linalg.LinAlgError):
        log_determinant([1.0, 2.0])


def test_rank_one_is_no_obstacle_and_a_vanishing_pivot_is_refused() -> None:
    smoother = ToeplitzSmoother(np.ones(30), intercept=False)
    check_against_dense_twin(smoother, np.ones(30), False, atol=1e-9)
    with pytest.raises(UnsolvableError, match="leading block that is singular"):
        GohbergSemencul(np.array([0.0, 1.0]), SymmetricToeplitz(np.array([0.0, 1.0])))


@pytest.mark.parametrize("gamma", [0.03, 1.0, 30.0, 60.0, 100.0, 150.0, 1e4])
def test_few_iterations_for_kernels_of_any_width(gamma: float) -> None:
    report: dict[str, Any] = {}
    column = rbf_column(3000, gamma)
    smoother = ToeplitzSmoother(column, intercept=True, semidefinite=True, report=report)
    smoother.residuals(np.ones((3000, 1)), [3e-5])
    assert (report["solver"], report["iterations"] <= 40) == ("pcg", True)
    assert report["preconditioner"].startswith("Strang" if gamma >= 100 else "polynomials")


def test_a_kernel_that_passes_through_zero_has_not_died_out() -> None:
    column = rbf_column(100, 1.0)
    column[70] = 0.0
    assert not dies_out(SymmetricToeplitz(column))
