"""Indefinite Toeplitz systems: solved where that is asked for, refused where they are singular."""

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import toeplitz

from onefold import LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Toeplitz
from onefold.kernels import RBF
from onefold.kernels.tiles import gram
from onefold.linalg.iterate import Solution
from onefold.smoothers.base import UnsolvableError
from onefold.smoothers.toeplitz import ToeplitzSmoother
from tests.smoothers.dense_twin import refit, residual_operator

N = 90
COLUMN = np.r_[0.1, 0.6 * np.cos(2.5 * np.arange(1, N)) / (1 + 0.1 * np.arange(1, N))]
EIGENVALUES = np.linalg.eigvalsh(toeplitz(COLUMN))
ALPHAS = np.array([1e-3, 0.5 * -EIGENVALUES[0], 2 * -EIGENVALUES[0]])  # two of them too small
TARGETS = np.random.default_rng(0).normal(size=(N, 2))


def slow(smoother: Any, product: Any, B: Any, *, norm: float) -> Any:
    """MINRES that does not converge, except for the blocks of held-out rows."""
    if B.shape[1] < N:
        return MINRES(smoother, product, B, norm=norm)
    return Solution(np.zeros_like(B), B, 1, "slow", relative=np.ones(len(B)))


MINRES = ToeplitzSmoother._minimal_residuals


@pytest.fixture(params=["dense", "iterated", "recursion"])
def solver(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way to solve; the last two form no array of n × n, but blocks of up to ten rows."""
    if request.param == "recursion":
        monkeypatch.setattr(ToeplitzSmoother, "_minimal_residuals", slow)
    if request.param != "dense":
        monkeypatch.setattr("onefold.smoothers.toeplitz.SHORT", 10)
        monkeypatch.setattr("onefold.smoothers.toeplitz.DENSE", 10)
    return request.param


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("intercept", [False, True])
def test_every_quantity_is_that_of_the_dense_matrix(solver: str, intercept: bool, scale: float) -> None:
    border = np.ones(N) if intercept else None
    T = scale * toeplitz(COLUMN)
    report: dict[str, Any] = {}
    smoother = ToeplitzSmoother(scale * COLUMN, intercept=intercept, negative="solve", report=report)
    alphas = scale * ALPHAS
    parts = [np.arange(8), np.arange(20, 50), np.array([3, 4, 20, 70]), np.arange(0, N, 2)]
    residuals = smoother.residuals(TARGETS, alphas)
    alone = smoother.leave_one_out(TARGETS, alphas)
    heldout = smoother.heldout(TARGETS, parts, alphas)
    for i, alpha in enumerate(alphas):
        assert_allclose(residuals[i], residual_operator(T, border, alpha) @ TARGETS, atol=1e-6)
        for row in range(0, N, 7):
            assert_allclose(
                alone[i, [row]], refit(T, TARGETS, border, alpha, [row]), rtol=1e-5, atol=1e-6
            )
        for rows, found in zip(parts, heldout):
            literal = refit(T, TARGETS, border, alpha, rows)
            assert_allclose(found[i], literal, rtol=1e-5, atol=1e-6 * np.abs(literal).max())
    assert report["indefinite_up_to"] == alphas[1]
    assert report["residual"] < 1e-9
    assert smoother.solvable(alphas).all()


def test_what_only_a_definite_matrix_has_is_not_a_number(solver: str) -> None:
    smoother = ToeplitzSmoother(COLUMN, intercept=True, negative="solve")
    assert smoother.definite(ALPHAS).tolist() == [False, False, True]
    assert np.isfinite(smoother.logdet(ALPHAS)).tolist() == [False, False, True]
    traces = [np.trace(residual_operator(toeplitz(COLUMN), np.ones(N), alpha)) for alpha in ALPHAS]
    assert_allclose(smoother.trace(ALPHAS), traces, rtol=1e-6)


def test_a_singular_matrix_is_refused_and_only_there(solver: str) -> None:
    column = np.zeros(N)
    column[1] = 0.5  # eigenvalues cos(π k / (N + 1)), k = 1 … N
    singular = -float(np.cos(np.pi * 60 / (N + 1)))
    smoother = ToeplitzSmoother(column, intercept=False, negative="solve")
    vector = np.sin(np.pi * 60 * np.arange(1, N + 1) / (N + 1))[:, None]  # its null space
    alphas = np.array([0.9 * singular, singular, 1.1 * singular])
    with pytest.raises(UnsolvableError, match=r"cannot be solved: .*singular"):
        smoother.residuals(vector, alphas)
    assert smoother.solvable(alphas).tolist() == [True, False, True]
    G = toeplitz(column) + alphas[0] * np.eye(N)
    found = smoother.residuals(TARGETS, alphas[[0, 2]])
    assert_allclose(found[0], alphas[0] * np.linalg.solve(G, TARGETS), rtol=1e-6, atol=1e-8)


def test_an_intercept_can_make_it_singular() -> None:
    three = np.array([0.0, -1.0, 0.25])
    for mu in np.linspace(0.1, 0.9, 9):
        smoother = ToeplitzSmoother(three, intercept=True, negative="solve")
        literal = residual_operator(toeplitz(three), np.ones(3), mu) @ TARGETS[:3]
        assert_allclose(smoother.residuals(TARGETS[:3], [mu])[0], literal, atol=1e-9)
    # 1ᵀG⁻¹1 = 0 for G = [[μ, a, b], [a, μ, a], [b, a, μ]] where 3μ + b = 4a: here with μ = 1/2.
    zero = ToeplitzSmoother(np.array([0.0, 0.5, 0.5]), intercept=True, negative="solve")
    with pytest.raises(UnsolvableError, match="singular"):
        zero.residuals(TARGETS[:3], [0.5])


X = np.random.default_rng(1).uniform(-1, 1, size=(60, 2))
Y = np.sin(3 * X[:, 0]) + X[:, 1]
pytestmark = pytest.mark.filterwarnings("ignore:the rows are not a series")


def test_a_single_fit_solves_what_it_otherwise_refuses() -> None:
    given = {"gamma": 0.3, "alpha": 1e-3}
    with pytest.raises(ValueError, match=r'not positive definite.*Toeplitz\(negative="solve"\)'):
        KernelRidge(approximation="toeplitz", **given).fit(X, Y)
    model = KernelRidge(approximation=Toeplitz(negative="solve"), **given).fit(X, Y)
    K = gram(RBF(0.3), X)
    T = toeplitz([np.diagonal(K, j).mean() for j in range(60)])
    assert np.linalg.eigvalsh(T)[0] < -1e-3
    assert_allclose(model.predict(X), K @ np.linalg.solve(T + 1e-3 * np.eye(60), Y), rtol=1e-7)
    assert model.approximation_["indefinite_up_to"] == 1e-3
    definite = KernelRidge(gamma=0.3, alpha=50.0, approximation=Toeplitz(negative="solve")).fit(X, Y)
    assert "indefinite_up_to" not in definite.approximation_


@pytest.mark.parametrize("criterion", ["evidence", "cost"])
def test_criteria_of_the_whole_have_no_score_where_it_is_indefinite(criterion: str) -> None:
    settings = {"gammas": [0.3], "alphas": [1e-3, 50.0], "intervals": None}
    approximation = Toeplitz(negative="solve")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = KernelRidgeCV(approximation=approximation, criterion=criterion, **settings).fit(X, Y)
    assert model.alpha_ == 50.0
    assert np.isfinite(model.cv_results_["mean_test_score"]).tolist() == [False, True]


def test_a_search_scores_every_cell() -> None:
    settings = {"gammas": [0.3, 3.0], "alphas": [1e-4, 1e-2, 1.0, 100.0], "intervals": None}
    with pytest.warns(UserWarning, match="have no score"):
        refused = LSSVRCV(approximation=Toeplitz(), **settings).fit(X, Y).cv_results_
    solved = LSSVRCV(approximation=Toeplitz(negative="solve"), **settings).fit(X, Y).cv_results_
    scores = refused["mean_test_score"]
    assert 0 < np.isnan(scores).sum() < 8
    assert np.isfinite(solved["mean_test_score"]).all()
    kept = np.isfinite(scores)
    assert_allclose(solved["mean_test_score"][kept], scores[kept], rtol=1e-8)
