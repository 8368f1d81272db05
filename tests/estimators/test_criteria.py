"""Criteria of the whole smoother against their definitions on dense matrices."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.model_selection import KFold, LeaveOneOut

from onefold import LSSVC, LSSVCCV, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Auto, Grid, Nystroem, Problem
from onefold.criteria import SquaredError, Task, closed
from onefold.criteria.closed import noise_variance
from onefold.heldout import Splits, make_splits

RNG = np.random.default_rng(7)
X = RNG.standard_normal((35, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]]) + 0.1 * RNG.standard_normal((35, 2)) + 1.0
ALPHAS = [1e-3, 0.1, 3.0]
K = np.exp(-0.7 * ((X[:, None] - X[None]) ** 2).sum(-1))


def scores(chosen, criterion, y=Y, **fit):
    model = chosen(gammas=[0.7], alphas=ALPHAS, criterion=criterion).fit(X, y, **fit)
    return model.cv_results_["mean_test_score"]


def operators(bordered):
    for alpha in ALPHAS:
        R = alpha * np.linalg.inv(K + alpha * np.eye(35))
        if bordered:
            rho = R.sum(1)
            R = R - np.outer(rho, rho) / rho.sum()
        yield alpha, R


@pytest.mark.parametrize(("chosen", "bordered"), [(LSSVRCV, True), (KernelRidgeCV, False)])
def test_gcv_and_press(chosen, bordered) -> None:
    gcv, press = [], []
    for _, R in operators(bordered):
        residuals = R @ Y
        gcv.append(-np.mean(residuals**2) / (np.trace(R) / 35) ** 2)
        press.append(-np.mean((residuals / np.diagonal(R)[:, None]) ** 2))
    assert_allclose(scores(chosen, "gcv"), gcv, rtol=1e-9)
    assert_allclose(scores(chosen, "press"), press, rtol=1e-9)


def test_evidence_is_the_best_gaussian_likelihood() -> None:
    y = Y[:, 0]
    expected = []
    for alpha in ALPHAS:
        G = K + alpha * np.eye(35)
        scale = y @ np.linalg.solve(G, y) / 35
        expected.append(multivariate_normal(np.zeros(35), scale * G).logpdf(y))
    assert_allclose(scores(KernelRidgeCV, "evidence", y), expected, rtol=1e-9)


def test_evidence_with_an_intercept_is_the_restricted_likelihood() -> None:
    y = Y[:, 0]
    contrast = np.linalg.svd(np.ones((1, 35)))[2][1:]
    expected = []
    for alpha in ALPHAS:
        G = contrast @ (K + alpha * np.eye(35)) @ contrast.T
        z = contrast @ y
        scale = z @ np.linalg.solve(G, z) / 34
        expected.append(multivariate_normal(np.zeros(34), scale * G).logpdf(z))
    assert_allclose(scores(LSSVRCV, "evidence", y), expected, rtol=1e-9)
    shifted = scores(LSSVRCV, "evidence", y + 100.0)
    assert_allclose(shifted, expected, rtol=1e-6)


def test_evidence_with_weights() -> None:
    y, weights = Y[:, 0], RNG.uniform(0.2, 2.0, 35)
    expected = []
    for alpha in ALPHAS:
        G = K + alpha * np.diag(1 / weights)
        scale = y @ np.linalg.solve(G, y) / 35
        expected.append(multivariate_normal(np.zeros(35), scale * G).logpdf(y))
    assert_allclose(scores(KernelRidgeCV, "evidence", y, sample_weight=weights), expected, rtol=1e-9)


@pytest.mark.parametrize("criterion", ["press", "gcv", "evidence", "cost"])
@pytest.mark.parametrize("approximation", ["exact", "toeplitz"])
def test_criteria_of_the_smoother_in_other_libraries(criterion, approximation) -> None:
    torch = pytest.importorskip("torch")
    rows = np.sort(X[:, :1], axis=0)
    grid = {"gammas": [0.7, 2.0], "alphas": ALPHAS, "approximation": approximation}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        here, there = (
            LSSVRCV(**grid, criterion=criterion).fit(library(rows), library(Y))
            for library in (np.asarray, torch.asarray)
        )
    key = "mean_test_score"
    assert_allclose(there.cv_results_[key], here.cv_results_[key], rtol=1e-9)


def test_criteria_without_splits_leave_no_split_columns() -> None:
    model = LSSVRCV(gammas=[0.7], alphas=ALPHAS, criterion="gcv").fit(X, Y)
    assert not [key for key in model.cv_results_ if key.startswith("split")]
    assert model.heldout_prediction_ is None


@pytest.mark.parametrize(
    ("chosen", "criterion", "words"),
    [
        (LSSVCCV, "mse", "for regression"),
        (LSSVRCV, "error", 'use "mse"'),
        (LSSVRCV, "nonsense", "unknown criterion 'nonsense'"),
        (LSSVCCV, 3, "unknown criterion 3"),
    ],
)
def test_wrong_criteria_are_named(chosen, criterion, words) -> None:
    y = (Y[:, 0] > 1).astype(int)
    with pytest.raises(ValueError, match=words):
        chosen(criterion=criterion).fit(X, y)


def test_a_scorer_that_asks_for_other_rows_is_told_why() -> None:
    def nosy(estimator, rows, y):
        return estimator.predict(rows[:1])[0]

    with pytest.raises(ValueError, match="only the held-out rows"):
        LSSVRCV(criterion=nosy, gammas=[0.7], alphas=[1.0]).fit(X, Y[:, 0])


def test_class_weights_equal_sample_weights() -> None:
    y = (Y[:, 0] > 1).astype(int)
    by_class = LSSVC(class_weight={0: 2.0, 1: 0.5}).fit(X, y).decision_function(X)
    by_row = LSSVC().fit(X, y, np.where(y == 0, 2.0, 0.5)).decision_function(X)
    assert_allclose(by_class, by_row)
    both = LSSVC(class_weight="balanced").fit(X, y, np.full(35, 2.0)).decision_function(X)
    balanced = 35 / (2 * np.bincount(y))
    assert_allclose(both, LSSVC().fit(X, y, 2 * balanced[y]).decision_function(X))


def test_weights_are_repeated_rows() -> None:
    counts = RNG.integers(1, 4, 35)
    weighted = KernelRidge(gamma=0.5, alpha=0.3).fit(X, Y, counts).predict(X)
    repeated = KernelRidge(gamma=0.5, alpha=0.3).fit(np.repeat(X, counts, 0), np.repeat(Y, counts, 0))
    assert_allclose(weighted, repeated.predict(X), rtol=1e-8)


@pytest.mark.parametrize("criterion", ["neg_log_loss", "neg_brier_score", "d2_log_loss_score"])
def test_scorers_of_probabilities_are_refused_for_regression(criterion) -> None:
    with pytest.raises(ValueError, match="needs probabilities"):
        LSSVRCV(criterion=criterion).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match=r"needs decision_function or predict_proba"):
        LSSVRCV(criterion="roc_auc").fit(X, Y[:, 0])


def test_predictions_that_a_scorer_refuses_have_no_score() -> None:
    grid = {"gammas": [0.7], "alphas": [1e-3, 1e6], "cv": 4}

    def positive(estimator, rows, y):
        predicted = estimator.predict(rows)
        if np.ptp(predicted) < 1e-3:
            raise ValueError("constant predictions")
        return -np.mean((predicted - y) ** 2)

    with pytest.warns(
        UserWarning, match=r"1 of 2 combinations .* refuses their predictions \(constant predictions\)"
    ):
        found = LSSVRCV(**grid, criterion=positive).fit(X, Y[:, 0])
    assert np.isnan(found.cv_results_["mean_test_score"]).tolist() == [False, True]
    with pytest.raises(ValueError, match="constant predictions"):
        LSSVRCV(**grid | {"alphas": [1e6]}, criterion=positive).fit(X, Y[:, 0])


@pytest.mark.parametrize("criterion", ["gcv", "evidence", "cost"])
@pytest.mark.parametrize("approximation", [Nystroem(5), Grid(), Auto(seconds=1e-9)], ids=repr)
def test_criteria_of_the_smoother_are_refused_before_any_work(criterion, approximation, monkeypatch):
    for kind in (Nystroem, Grid):
        monkeypatch.setattr(kind, "share", pytest.fail)
        monkeypatch.setattr(kind, "model", pytest.fail)
    monkeypatch.setattr("onefold.approximations.auto._ALWAYS_EXACT", 2)
    X = np.linspace(0, 1, 40)[:, None]
    with pytest.raises(ValueError, match=r"needs the whole smoother, which (Nystroem|Grid)\("):
        LSSVRCV(criterion=criterion, approximation=approximation).fit(X, np.sin(X[:, 0]))


@pytest.mark.parametrize("criterion", [[["r2"], "mse"], {"r2": "r2"}, 3])
def test_criteria_that_are_none_are_named(criterion):
    with pytest.raises(ValueError, match="unknown criterion"):
        LSSVRCV(criterion=criterion).fit(np.eye(8), np.arange(8.0))


@pytest.mark.parametrize("cv", [LeaveOneOut(), KFold(8)])
def test_a_scorer_that_gives_nan_is_the_reason_for_it(cv):
    with (
        pytest.raises(ValueError, match=r"the criterion gives NaN .* as R² does for a single one"),
        pytest.warns(UndefinedMetricWarning),
    ):
        LSSVRCV(criterion="r2", cv=cv).fit(np.eye(8), np.arange(8.0))


def test_the_noise_of_the_targets_is_found_once(monkeypatch):
    asked = []
    monkeypatch.setattr(closed, "noise_variance", lambda p: asked.append(p.n) or noise_variance(p))
    LSSVRCV(gammas=[0.1, 1.0, 4.0], alphas=ALPHAS, criterion="cost").fit(X, Y)
    assert asked == [35]


def test_the_model_is_not_asked_for_an_error_where_predictions_are_needed_or_cheaper() -> None:
    rows, Y = [np.arange(5), np.arange(5, 10)], np.zeros((10, 1))
    folds, single = Splits(10, rows, rows), make_splits("loo", None, None, n=10)
    asked = SimpleNamespace(heldout_squared_error=lambda left_out, tests, alphas: np.ones((2, 2)))
    problem, task = Problem(Y, Y, None, True), Task(Y, Y, None)
    scoring, alone = (SquaredError().start(problem, task, splits) for splits in (folds, single))
    known = scoring.without_predictions(asked, [1.0, 2.0])
    assert_allclose(known.scores()[0], -np.ones((2, 2)))
    assert alone.without_predictions(asked, [1.0, 2.0]) is None
    scoring.predicts = True
    assert scoring.without_predictions(asked, [1.0, 2.0]) is None
