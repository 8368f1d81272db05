"""The Toeplitz smoother against its dense twin: every quantity, every solver, every size."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import toeplitz

from onefold.smoothers.base import UnsolvableError
from onefold.smoothers.toeplitz import ToeplitzSmoother
from onefold.smoothers.toeplitz_matrix import GohbergSemencul, SymmetricToeplitz, log_determinant
from tests.smoothers.dense_twin import check, refit

ALPHAS = np.array([1e-3, 3.0, 0.1])


def rbf_column(n: int, gamma: float) -> Any:
    return np.exp(-gamma * (np.arange(n) / max(n - 1, 1)) ** 2)


def check_twin(column: Any, intercept: bool, alphas: Any = ALPHAS, **settings: Any) -> dict[str, Any]:
    """Contiguous rows at either end and scattered ones are left out too; the report comes back."""
    n = column.size
    report = {}
    smoother = ToeplitzSmoother(column, intercept=intercept, report=report, **settings)
    generator = np.random.default_rng(n)
    Y = generator.normal(size=(n, 2))
    cut = max(1, n // 3)
    parts = [np.arange(cut), np.arange(n - cut, n), np.sort(generator.permutation(n)[:cut])]
    border = np.ones(n) if intercept else None
    check(smoother, toeplitz(column), Y, border, alphas, parts if n > 2 else [], rtol=1e-5, atol=1e-7)
    return report


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("solver", "short"), [("levinson", 1024), ("pcg", 0)])
@pytest.mark.parametrize("gamma", [0.01, 3.0, 4000.0])
@pytest.mark.parametrize("n", [1, 2, 3, 60])
def test_dense_twin(
    n: int, gamma: float, solver: str, short: int, intercept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onefold.smoothers.toeplitz.SHORT", short)
    assert check_twin(rbf_column(n, gamma), intercept, semidefinite=True)["solver"] == solver


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("gamma", [1.0, 1e5])
def test_blocks_that_are_not_formed(
    gamma: float, intercept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onefold.smoothers.toeplitz.DENSE", 40)
    monkeypatch.setattr("onefold.smoothers.toeplitz.SHORT", 10)
    column = rbf_column(200, gamma)
    check_twin(column, intercept, semidefinite=True)
    smoother = ToeplitzSmoother(column, intercept=intercept, semidefinite=True)
    narrow = np.arange(50, 80)
    Y = np.random.default_rng(0).normal(size=(200, 1))
    literal = refit(toeplitz(column), Y, np.ones(200) if intercept else None, 0.1, narrow)
    # A contiguous block small enough to be formed.
    assert_allclose(smoother.heldout(Y, [narrow], [0.1])[0][0], literal, atol=1e-7)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.floats(-3, 3), st.floats(-3, 1), st.booleans())
def test_any_size_width_and_ridge(n: int, log_gamma: float, log_alpha: float, intercept: bool) -> None:
    check_twin(rbf_column(n, 10**log_gamma), intercept, np.array([10**log_alpha]), semidefinite=True)


@pytest.mark.parametrize("short", [1024, 20], ids=["levinson", "pcg"])
@pytest.mark.parametrize("intercept", [False, True])
def test_only_ridges_that_make_an_indefinite_one_definite_are_solved_with(
    short: int, intercept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onefold.smoothers.toeplitz.SHORT", short)
    column = 0.6 * np.cos(2.5 * np.arange(80)) / (1 + 0.1 * np.arange(80))
    column[0] = 0.1
    least = -np.linalg.eigvalsh(toeplitz(column)).min()
    assert least > 1e-3
    smoother = ToeplitzSmoother(column, intercept=intercept)
    alphas = np.array([1e-3, 0.5 * least, 2 * least, 1e3])
    Y = np.random.default_rng(1).normal(size=(80, 2))
    for question in (smoother.residuals, smoother.leave_one_out):
        with pytest.raises(UnsolvableError, match=r"cannot be solved: .*larger alpha"):
            question(Y, alphas)
    with pytest.raises(UnsolvableError):
        smoother.heldout(Y, [np.array([3, 4, 20])], alphas)
    with pytest.raises(UnsolvableError):
        smoother.logdet(alphas)
    assert smoother.solvable(alphas).tolist() == [False, False, True, True]
    check_twin(column, intercept, alphas[2:])


def test_targets_far_from_zero_lose_no_digits_to_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onefold.smoothers.toeplitz.SHORT", 100)
    column = rbf_column(300, 1000.0)
    smoother = ToeplitzSmoother(column, intercept=True, semidefinite=True)
    y = np.random.default_rng(0).normal(size=(300, 1))
    assert_allclose(smoother.residuals(y + 1e6, [0.01]), smoother.residuals(y, [0.01]), atol=1e-8)


def test_log_determinants_too_long_to_compute_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onefold.smoothers.toeplitz._LOGDET_LIMIT", 10)
    with pytest.raises(ValueError, match='11 rows; use criterion="press"'):
        ToeplitzSmoother(rbf_column(11, 1.0), intercept=False).logdet([1.0])
    with pytest.raises(np.linalg.LinAlgError):
        log_determinant([1.0, 2.0])
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


def test_what_was_asked_before_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the smallest ridge conjugate gradients fail, and Levinson's recursion takes over there."""
    monkeypatch.setattr("onefold.smoothers.toeplitz.SHORT", 10)
    monkeypatch.setattr("onefold.smoothers.toeplitz._ITERATIONS", 4)
    column = rbf_column(60, 300.0)
    Y = np.random.default_rng(0).normal(size=(60, 2))

    def smoother() -> ToeplitzSmoother:
        return ToeplitzSmoother(column, intercept=True, semidefinite=True)

    large = smoother().residuals(Y, [10.0])
    small = smoother().residuals(Y, [1e-4])
    asked = smoother()
    asked.trace([10.0, 1e-4])
    assert asked.report["solver"] == "levinson"
    assert_allclose(asked.residuals(Y, [10.0]), large, rtol=0, atol=0)
    assert_allclose(asked.residuals(Y, [1e-4]), small, rtol=0, atol=0)
