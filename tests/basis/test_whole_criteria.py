"""Criteria of the whole smoother of landmark models, against the dense matrix and literal refits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from basis_twins import rbf
from numpy.testing import assert_allclose
from scipy.special import expit

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Nystroem, Problem, Workload
from onefold.criteria.closed import noise_variance
from onefold.kernels import RBF
from tests.smoothers.dense_twin import smallest_ball

GAMMA = 0.3
RANK = 7
N = 45
ALPHAS = [1e-4, 0.05, 1.0, 30.0]
RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, 3))
Y = np.column_stack([np.sin(X).sum(axis=1), X[:, 0] * X[:, 1]]) + 5.0
Y += 0.1 * RNG.standard_normal(Y.shape)
LABELS = np.digitize(Y[:, 0], [4.6, 5.5])
WEIGHTS = RNG.uniform(0.2, 3.0, N)
WEIGHTS[[3, 20]] = 0.0
LANDMARKS = X[:12]
TRAININGS = pytest.mark.parametrize("training", ["factors", "whitened sums", "sums"])
WEIGHTED = pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weights"])
INTERCEPT = pytest.mark.parametrize("kind", [LSSVRCV, KernelRidgeCV])


class Dense:
    """K̃ and K of the rows of positive weight, weights of mean 1, and their ridges."""

    def __init__(self, weights: Any, rank: int | None) -> None:
        weights = np.ones(N) if weights is None else weights
        self.rows = np.flatnonzero(weights > 0)
        self.unit = weights[self.rows].mean()
        self.v = weights[self.rows] / self.unit
        values, vectors = np.linalg.eigh(rbf(LANDMARKS, LANDMARKS, GAMMA))
        first = 0 if rank is None else len(values) - rank
        inverse = (vectors[:, first:] / values[first:]) @ vectors[:, first:].T
        C = rbf(X[self.rows], LANDMARKS, GAMMA)
        self.low = C @ inverse @ C.T
        self.true = rbf(X[self.rows], X[self.rows], GAMMA)

    def systems(self, intercept: bool) -> Any:
        """(μ, G, R_b, s) of S K̃ S with the border s = √v."""
        s = np.sqrt(self.v)
        for alpha in ALPHAS:
            mu = alpha / self.unit
            G = self.low * np.outer(s, s) + mu * np.eye(len(s))
            R = mu * np.linalg.inv(G)
            rho = R @ s
            yield mu, G, R - np.outer(rho, rho) / (s @ rho) if intercept else R, s

    def left_out(self, K: Any, targets: Any, mu: float, intercept: bool) -> Any:
        """Each row predicted with K by a machine that was trained with K̃ of all others."""
        predicted = np.empty_like(targets)
        for row in range(len(targets)):
            others = np.delete(np.arange(len(targets)), row)
            m = len(others)
            system = np.zeros((m + 1, m + 1))
            right = np.zeros((m + 1, targets.shape[1]))
            system[:m, :m] = self.low[np.ix_(others, others)] + mu * np.diag(1 / self.v[others])
            system[:m, m] = system[m, :m] = float(intercept)
            system[m, m] = 1.0 - float(intercept)
            right[:m] = targets[others]
            solved = np.linalg.solve(system, right)
            predicted[row] = K[row, others] @ solved[:m] + solved[m]
        return predicted


def scores(kind: Any, criterion: str, y: Any = Y, weights: Any = None, **settings: Any) -> Any:
    approximation = Nystroem(LANDMARKS, **settings)
    grid = {"gammas": [GAMMA], "alphas": ALPHAS, "refit": "same"}
    search = kind(**grid, criterion=criterion, approximation=approximation)
    return search.fit(X, y, sample_weight=weights).cv_results_["mean_test_score"]


@TRAININGS
@WEIGHTED
@INTERCEPT
@pytest.mark.parametrize(("rank", "predict"), [(None, "landmarks"), (RANK, "landmarks"), (RANK, "rows")])
def test_gcv_evidence_and_cost_by_dense_algebra(
    force_training, training, weights, kind, rank, predict
) -> None:
    force_training(training)
    dense = Dense(weights, rank)
    intercept = kind is LSSVRCV
    y = Y[dense.rows]
    n = len(dense.rows)
    t = Y.shape[1]
    noise = noise_variance(Problem(X[dense.rows], y, None, intercept)).sum()
    expected: dict[str, list[float]] = {"gcv": [], "cost": [], "evidence": []}
    for mu, G, R, s in dense.systems(intercept):
        residual = R @ (s[:, None] * y)
        quadratic = np.sum(s[:, None] * y * residual, axis=0)
        contrasts = np.linalg.svd(s[None])[2][1:] if intercept else np.eye(n)
        m = len(contrasts)
        logdet = np.linalg.slogdet(contrasts @ G @ contrasts.T)[1] - np.log(dense.v).sum()
        expected["gcv"].append(-np.mean(residual**2) / (np.trace(R) / n) ** 2)
        expected["cost"].append(-(quadratic.sum() + noise * np.trace(R)) / (n * t))
        likelihoods = m * np.log(quadratic / (m * mu)) + logdet + m * (1 + np.log(2 * np.pi))
        expected["evidence"].append(-0.5 * likelihoods.sum())
    for criterion, values in expected.items():
        computed = scores(kind, criterion, weights=weights, rank=rank, predict=predict)
        assert_allclose(computed, values, rtol=1e-9)


@TRAININGS
@WEIGHTED
@INTERCEPT
def test_radius_margin_by_dense_algebra(force_training, training, weights, kind) -> None:
    force_training(training)
    dense = Dense(weights, RANK)
    expected = []
    y = Y[dense.rows]
    for mu, _, R, s in dense.systems(kind is LSSVRCV):
        norms = np.sum(s[:, None] * y * (R @ (s[:, None] * y))) / mu
        expected.append(-smallest_ball(dense.low + mu * np.diag(1 / dense.v)) * norms / y.size)
    computed = scores(kind, "radius_margin", weights=weights, rank=RANK)
    assert_allclose(computed, expected, rtol=1e-6)


@TRAININGS
@WEIGHTED
@INTERCEPT
@pytest.mark.parametrize("rank", [None, RANK])
def test_press_and_span_with_all_rows_are_those_of_refits(
    force_training, training, weights, kind, rank
) -> None:
    force_training(training)
    dense = Dense(weights, rank)
    y = Y[Dense(weights, rank).rows]
    share = dense.v[:, None] / (dense.v.sum() * Y.shape[1])
    press = []
    span = []
    for mu, *_ in dense.systems(True):
        error = y - dense.left_out(dense.true, y, mu, kind is LSSVRCV)
        press.append(-np.sum(share * error**2))
        span.append(-np.sum(share * np.abs(error)))
    more = {"weights": weights, "rank": rank, "predict": "rows"}
    assert_allclose(scores(kind, "press", **more), press, rtol=1e-9)
    assert_allclose(scores(kind, "span", **more), span, rtol=1e-9)


@pytest.mark.parametrize("labels", [LABELS, LABELS > 0], ids=["three classes", "two"])
def test_span_of_classes_with_all_rows_is_a_smooth_count_of_refits(labels) -> None:
    approximation = Nystroem(LANDMARKS, rank=RANK, predict="rows")
    expected = []
    for alpha in ALPHAS:
        steps = []
        for row in range(N):
            others = np.delete(np.arange(N), row)
            model = LSSVC(gamma=GAMMA, alpha=alpha, approximation=approximation)
            model.fit(X[others], labels[others])
            true = model.classes_ == labels[row] if len(model.classes_) == 3 else labels[row]
            excess = np.where(true, 1, -1) * model.decision_function(X[row][None])[0]
            steps.append(np.mean(expit(-5 * excess)))
        expected.append(-np.mean(steps))
    assert_allclose(scores(LSSVCCV, "span", labels, rank=RANK, predict="rows"), expected, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("fixed", [LSSVR, KernelRidge])
def test_each_row_left_out_by_refits_at_any_scale(fixed, scale) -> None:
    """Rows far from every landmark, a row twice, and targets of any size."""
    rows = np.vstack([X, X[:1], np.full((1, 3), 9.0)])
    y = scale * np.vstack([Y, Y[:1], Y[:1]])
    approximation = Nystroem(LANDMARKS, predict="rows")
    problem = Problem(rows, y, None, fixed is LSSVR).about_its_mean()
    run = approximation.start(problem, [RBF(GAMMA)], Workload(alphas=2, folds=1))
    model = run.model(RBF(GAMMA))
    predicted = model.leave_one_out([1e-3, 1.0]) + problem.offset
    picked, values = model.left_out(np.array([2, 46]), 1e-3)
    assert_allclose(values + problem.offset, predicted[0, picked], rtol=1e-12)
    for row in (0, 7, 45, 46):
        others = np.delete(np.arange(len(rows)), row)
        for number, alpha in enumerate((1e-3, 1.0)):
            machine = fixed(gamma=GAMMA, alpha=alpha, approximation=approximation)
            literal = machine.fit(rows[others], y[others]).predict(rows[row][None])[0]
            assert_allclose(predicted[number, row], literal, rtol=1e-8, atol=1e-9 * scale)


@TRAININGS
@WEIGHTED
@pytest.mark.parametrize("fixed", [LSSVR, KernelRidge])
@pytest.mark.parametrize("rank", [None, RANK])
def test_decision_change_bounds_the_change_at_the_rows(
    force_training, training, weights, fixed, rank
) -> None:
    """The root mean square of (K − K̃) α̃; neither form of the model is farther from the exact machine."""
    force_training(training)
    dense = Dense(weights, rank)
    alpha = np.array([0.05, 1.0])
    rows = X[dense.rows]
    v = dense.v
    exact = fixed(gamma=GAMMA, alpha=alpha).fit(X, Y, weights).predict(rows)
    for predict in ("rows", "landmarks"):
        approximation = Nystroem(LANDMARKS, rank=rank, predict=predict)
        model = fixed(gamma=GAMMA, alpha=alpha, approximation=approximation).fit(X, Y, weights)
        if predict == "rows":
            difference = (dense.true - dense.low) @ model.expansion_.coef
            expected = np.sqrt(np.average(difference**2, axis=0, weights=v).max())
        change = model.approximation_["decision_change"]
        assert change == pytest.approx(expected, rel=1e-8)
        actual = np.average((model.predict(rows) - exact) ** 2, axis=0, weights=v)
        assert np.sqrt(actual.max()) <= change < model.approximation_["decision_bound"] / 10


def test_decision_change_from_a_sample_is_near_that_of_all_rows(monkeypatch) -> None:
    rows = np.random.default_rng(0).standard_normal((1500, 3))
    machine = LSSVR(gamma=GAMMA, alpha=0.1, approximation=Nystroem(20, "uniform"))
    y = np.sin(2 * rows).sum(axis=1)
    sampled = machine.fit(rows, y).approximation_["decision_change"]
    monkeypatch.setattr("onefold.basis.error._CHANGE_ROWS", 1500)
    assert sampled == pytest.approx(machine.fit(rows, y).approximation_["decision_change"], rel=0.2)


def test_sums_whose_digits_cancel_are_made_from_the_residuals(force_training) -> None:
    """Next to no ridge and a function of the basis: Σ v (y − f)² is a rounding error of Σ v y²."""
    smooth = 100.0 * rbf(X, LANDMARKS, GAMMA)[:, :2]
    ridges = np.array([1e-8, 1e-6, 1.0])
    problem = Problem(X, smooth, np.sqrt(WEIGHTS + 0.1), True).about_its_mean()
    load = Workload(alphas=3, folds=1, smoother=True)

    def model() -> Any:
        return Nystroem(LANDMARKS).start(problem, [RBF(GAMMA)], load).model(RBF(GAMMA))

    factors = model()
    force_training("sums")
    sums = model()
    assert [fitted.report["training"] for fitted in (factors, sums)] == ["factors", "sums"]
    exact = factors.residual_squares(ridges)
    assert exact[0].max() < 1e-12 * np.sum(problem.scaled_targets() ** 2)
    assert np.all(np.abs(sums._whole_path.squared_errors(ridges)[0] / exact[0] - 1) > 0.1)
    assert_allclose(sums.residual_squares(ridges), exact, rtol=1e-4)
    assert_allclose(sums.least_costs(ridges), factors.least_costs(ridges), rtol=1e-6)


@pytest.mark.parametrize("criterion", ["gcv", "evidence", "cost", "press", "span", "radius_margin"])
@pytest.mark.parametrize("rows", [3, 11, 13])
def test_as_many_landmarks_as_rows_are_the_exact_machine(criterion, rows) -> None:
    """Few rows, and no direction that is left over: traces must not cancel."""
    grid = {"gammas": [GAMMA], "alphas": ALPHAS, "criterion": criterion, "refit": "same", "cv": 2}
    exact = LSSVRCV(**grid).fit(X[:rows], Y[:rows]).cv_results_["mean_test_score"]
    for predict in ("landmarks", "rows"):
        every = Nystroem(X[:rows], predict=predict)
        low = LSSVRCV(**grid, approximation=every).fit(X[:rows], Y[:rows])
        assert_allclose(low.cv_results_["mean_test_score"], exact, rtol=1e-6)
