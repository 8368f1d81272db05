"""Very narrow kernels (most rows see no landmark) and very smooth ones (few directions matter)."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from basis_twins import LongDouble, fit_literally, rbf
from sklearn.metrics import mean_absolute_percentage_error, mean_squared_error
from sklearn.model_selection import KFold

import onefold.approximations.nystroem as coordinates_module
from onefold import LSSVR, LSSVRCV
from onefold.approximations import Nystroem, Problem, Workload
from onefold.basis import Design, collect
from onefold.basis.whitening import spanning_landmarks
from onefold.kernels import RBF, CallableKernel
from onefold.linalg.dense import add_gram, add_lower, mirror
from onefold.rows import rows_of

RNG = np.random.default_rng(0)
X = RNG.standard_normal((600, 5))
Y = np.column_stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2] ** 2]) + 3.0


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("weighted", [False, True])
def test_silent_rows_change_nothing(precision, weighted):
    rows = X.astype(np.float32)
    root = np.sqrt(RNG.uniform(0.2, 3, 600)) if weighted else None
    gamma, m = 40.0, 30
    got = collect(Design(RBF(gamma), rows[:m], precision), rows_of(rows, Y, root))[0]
    Phi = rbf(rows.astype(float), rows[:m].astype(float), gamma)
    assert np.mean(Phi.max(axis=1) < 2.0**-30) > 0.5  # most rows are silent
    Phi = Phi if root is None else root[:, None] * Phi
    tolerance = 1e-6 if precision == "single" else 1e-14
    np.testing.assert_allclose(got.gram, Phi.T @ Phi, atol=tolerance)
    weighted_Y = Y if root is None else root[:, None] * Y
    np.testing.assert_allclose(got.cross, Phi.T @ weighted_Y, atol=10 * tolerance)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("whitened", [False, True])
def test_silence_is_relative_to_the_kernel_and_not_a_matter_of_weight(scale, whitened):
    """A kernel of small values, or rows of small weight, are as loud as any."""
    root = np.where(np.arange(600) % 2, 1.0, 1e-8)
    kernel = CallableKernel(lambda A, B: scale * rbf(A, B, 0.1))
    mix = np.eye(20) if whitened else None
    got = collect(Design(kernel, X[:20], mix=mix), rows_of(X, Y, root))[0]
    Phi = scale * rbf(X, X[:20], 0.1)
    np.testing.assert_allclose(got.gram, Phi.T @ (root[:, None] ** 2 * Phi), rtol=1e-12)
    light = collect(Design(kernel, X[:20], mix=mix), rows_of(X[::2], Y[::2], root[::2]))[0]
    np.testing.assert_allclose(light.gram, 1e-16 * Phi[::2].T @ Phi[::2], rtol=1e-12)


def test_a_row_of_large_negative_features_is_not_unseen():
    rows = np.vstack([np.ones((1, 3)), -np.ones((40, 3))])

    class Inner(RBF):
        stationary = False

        def bind(self, landmarks):
            return lambda rows, out=None: np.matmul(rows, landmarks.T, out=out)

    got = collect(Design(Inner(1.0), rows[:1]), rows_of(rows, np.ones((41, 1)), None))[0]
    np.testing.assert_allclose(got.gram, [[9.0 * 41]])


def test_a_fresh_sum_forgets_what_was_there():
    tile = RNG.standard_normal((4, 6))
    total = np.full((6, 6), np.nan)
    add_gram(total, tile, fresh=True)
    np.testing.assert_allclose(np.tril(total), np.tril(tile.T @ tile), atol=1e-14)
    add_gram(total, tile[:0], fresh=True)
    assert not total.any()


@pytest.mark.parametrize("m", [1, 5, 128, 300])
def test_lower_triangles_add(m):
    one, other = RNG.standard_normal((m, m)), RNG.standard_normal((m, m))
    total = one.copy()
    add_lower(total, other)
    expected = np.tril(one + other)
    np.testing.assert_allclose(mirror(total), expected + np.tril(expected, -1).T)


@pytest.fixture
def large_work(monkeypatch):
    """Treat these few rows as many, for which landmarks are thinned and sums are not whitened first."""
    monkeypatch.setattr(coordinates_module, "_SMALL_WORK", 0)
    monkeypatch.setattr(coordinates_module, "_MEDIUM_WORK", 0)


def _smooth_model(**settings):
    problem = Problem(X, Y, None, True)
    return Nystroem(**settings).start(problem, [RBF(1e-5)], Workload(folds=5)).model(RBF(1e-5))


@pytest.mark.parametrize("method", ["uniform", "kmeans"])
def test_a_smooth_kernel_keeps_few_landmarks(method, large_work):
    model = _smooth_model(n_components=300, method=method)
    kept = model.design.landmarks.shape[0]
    assert kept < 150
    assert model.report["thinned_from"] >= 2 * kept
    assert model.report["landmarks"] == kept == model.design.size
    if method == "uniform":
        assert all((row == X).all(axis=1).any() for row in model.design.landmarks)


@pytest.mark.parametrize("alpha", [1e-3, 1.0])
def test_the_thinned_model_is_the_one_of_all_landmarks(alpha, large_work):
    thinned = LSSVR(gamma=1e-5, alpha=alpha, approximation=Nystroem(300, "uniform")).fit(X, Y)
    Z = X[np.sort(np.random.default_rng(0).choice(600, 300, replace=False))]
    whole = LSSVR(gamma=1e-5, alpha=alpha, approximation=Nystroem(Z)).fit(X, Y)
    assert whole.approximation_["landmarks"] == 300
    assert thinned.approximation_["landmarks"] < 150
    spread = Y.std(axis=0).max()
    np.testing.assert_allclose(thinned.predict(X), whole.predict(X), atol=2e-3 * spread)


def test_thinned_folds_are_literal_refits(large_work):
    model = _smooth_model(n_components=300, method="uniform")
    Z = model.design.landmarks
    splits = list(KFold(4).split(X))
    got = model.heldout([test for _, test in splits], [1.0])
    Phi, W = rbf(X, Z, 1e-5), rbf(Z, Z, 1e-5)
    for (train, test), values in zip(splits, got):
        beta, b = fit_literally(Phi[train], W, Y[train], 1.0, intercept=True)
        np.testing.assert_allclose(values[0], Phi[test] @ beta + b, atol=1e-4)


def test_a_ridge_that_rounding_hides_is_told(large_work):
    """Sums over many rows carry rounding errors; where alpha is smaller, the fit says so."""
    settings = {"gamma": 0.01, "approximation": Nystroem(X[:100])}
    with pytest.warns(UserWarning, match="rounding errors look like"):
        fitted = LSSVR(alpha=1e-12, **settings).fit(X, Y)
    assert 1e-12 < fitted.approximation_["rounding_ridge"] <= 2.0**-15
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LSSVR(alpha=2.0**-15, **settings).fit(X, Y)


def test_leverages_that_rounding_hides_are_told(large_work):
    problem = Problem(X[:60], Y[:60], None, True)
    model = Nystroem(X[:60]).start(problem, [RBF(5.0)], Workload(folds=5)).model(RBF(5.0))
    model.leave_one_out([1e-12])
    assert "fewer digits" in model.report["leave_one_out"]


def test_what_was_ordered_is_not_thinned(large_work):
    for settings in ({"rank": 20}, {"rank": 20, "predict": "rows"}):
        model = _smooth_model(n_components=300, method="uniform", **settings)
        assert model.report["landmarks"] == 300
        assert model.report["rank"] == 20
    assert _smooth_model(n_components=X[:200]).report["landmarks"] == 200


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", ["uniform", "rpcholesky"])
def test_few_rows_lose_no_direction_to_the_squared_condition(method, dtype):
    """A smooth kernel's folds are the literal refits down to small ridges."""
    rows = X.astype(dtype)
    problem, alphas = Problem(rows, Y, None, True), [1e-6, 1e-2]
    model = (
        Nystroem(60, method).start(problem, [RBF(5e-4)], Workload(alphas=2, folds=5)).model(RBF(5e-4))
    )
    assert model.report["training"] == "factors"
    assert model.report["cut_directions"] < 5
    assert model.report["precision"] == "double"
    splits = list(KFold(4).split(X))
    tests = [test for _, test in splits]
    got, literal = model.heldout(tests, alphas), LongDouble(rows, model.design.landmarks, 5e-4)
    for (train, test), values in zip(splits, got):
        for value, alpha in zip(values, alphas):
            expected = literal.predict(test, literal.fit(train, Y[train], alpha))
            np.testing.assert_allclose(value, expected, atol=1e-5)
    scores = model.heldout_squared_error(tests, tests, alphas)
    errors = [[np.mean((Y[t] - v) ** 2) for t, v in zip(tests, each)] for each in zip(*got)]
    np.testing.assert_allclose(scores, errors, rtol=1e-8)
    everything = np.arange(600)
    expected = literal.predict(everything, literal.fit(everything, Y, 1e-2))
    np.testing.assert_allclose(model.expansion(1e-2).predict(rows), expected, atol=1e-7)
    loo = model.leave_one_out([1e-2])[0, :3]
    for i in range(3):
        rest = np.delete(everything, i)
        expected = literal.predict([i], literal.fit(rest, Y[rest], 1e-2))
        np.testing.assert_allclose(loo[[i]], expected, atol=1e-7)


def test_spanning_landmarks_span():
    """Directions of W above rounding are explained by the pivots; many directions keep them all."""
    Z = X[:200]
    W = rbf(Z, Z, 1e-2)
    index = spanning_landmarks(W, 21)
    assert len(index) == 43
    C = W[:, index]
    left = W - C @ np.linalg.inv(W[np.ix_(index, index)]) @ C.T
    assert np.linalg.norm(left, 2) < 10 * np.linalg.eigvalsh(W)[-22]
    np.testing.assert_array_equal(spanning_landmarks(W, 100), np.arange(200))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("criterion", ["mse", "mape", "neg_root_mean_squared_error"])
def test_criteria_on_basis_models_are_what_they_say(criterion, weighted):
    weight = RNG.uniform(0.2, 3, 600) if weighted else None
    found = LSSVRCV(
        gammas=[0.1], alphas=[0.1], cv=4, criterion=criterion, approximation=Nystroem(50)
    ).fit(X, Y, weight)
    f, expected = found.heldout_prediction_, []
    for _, test in KFold(4).split(X):
        v = None if weight is None else weight[test]
        if criterion == "mape":
            expected.append(-mean_absolute_percentage_error(Y[test], f[test], sample_weight=v))
        elif criterion == "mse":
            expected.append(-mean_squared_error(Y[test], f[test], sample_weight=v))
        else:
            each = [mean_squared_error(Y[test, j], f[test, j], sample_weight=v) for j in range(2)]
            expected.append(-np.mean(np.sqrt(each)))
    assert found.best_score_ == pytest.approx(np.mean(expected), rel=1e-8)


def test_squared_error_needs_no_prediction_pass(monkeypatch):
    """A search by mse predicts held-out rows for the chosen cell only."""
    from onefold.approximations.nystroem_models import FactoredModel

    asked = []
    original = FactoredModel.heldout

    def heldout(self, parts, alphas):
        asked.append(np.size(alphas))
        return original(self, parts, alphas)

    monkeypatch.setattr(FactoredModel, "heldout", heldout)
    LSSVRCV(gammas=[0.1, 0.3], cv=4, approximation=Nystroem(50)).fit(X, Y)
    assert asked == [1]


@pytest.mark.parametrize(
    "test",
    [np.repeat(np.arange(500, 550), 2), np.repeat(np.arange(500, 520), 3), np.arange(599, 499, -1)],
    ids=["repeated, as many as left out", "repeated", "unordered"],
)
def test_squared_error_counts_test_rows_as_often_as_the_splitter(test):
    cv = [(np.arange(500), test)]
    found = LSSVRCV(gammas=[0.1], alphas=[0.1], cv=cv, approximation=Nystroem(X[:40])).fit(X, Y)
    Phi, W = rbf(X, X[:40], 0.1), rbf(X[:40], X[:40], 0.1)
    beta, b = fit_literally(Phi[:500], W, Y[:500], 0.1, intercept=True)
    literal = -np.mean((Y[test] - Phi[test] @ beta - b) ** 2)
    assert found.best_score_ == pytest.approx(literal, rel=1e-8)


@pytest.mark.parametrize(("gamma", "training"), [(1e-3, "whitened sums"), (3.0, "sums")])
def test_plain_sums_only_where_they_lose_nothing(monkeypatch, gamma, training):
    """Between small and large, a kernel so smooth that squares lose digits is whitened first."""
    monkeypatch.setattr("onefold.basis.ridge._WORK", 0)
    monkeypatch.setattr(coordinates_module, "_SMALL_WORK", 0)
    problem = Problem(X, Y, None, True)
    model = Nystroem(X[:40]).start(problem, [RBF(gamma)], Workload(folds=5)).model(RBF(gamma))
    assert model.report["training"] == training
    literal, everything = LongDouble(X, X[:40], gamma), np.arange(600)
    for alpha in (2.0**-15, 1.0):
        expected = literal.predict(everything, literal.fit(everything, Y, alpha))
        np.testing.assert_allclose(model.expansion(alpha).predict(X), expected, atol=1e-6)
