"""Digits of basis models on few rows, against extended precision."""

from __future__ import annotations

import numpy as np
import pytest
from basis_twins import LongDouble
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import KFold, ShuffleSplit, TimeSeriesSplit

import onefold.approximations.nystroem_models as models_module
from onefold import LSSVR, LSSVRCV, KernelRidge
from onefold.approximations import Nystroem, Problem, Workload
from onefold.basis import Whitening
from onefold.basis.ridge import Factor, FactorPath
from onefold.kernels import RBF

pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).eps >= np.finfo(float).eps, reason="no extended precision here"
)
SMALLEST = 2.0**-15


def _data(n, d, seed=0, dtype=float):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    return X, np.sin(X).sum(axis=1, dtype=float)[:, None] + 0.1 * rng.standard_normal((n, 1))


def _model(X, Y, Z, gamma, *, root=None, intercept=True):
    problem = Problem(X, Y, root, intercept)
    return Nystroem(Z).start(problem, [RBF(gamma)], Workload(folds=5)).model(RBF(gamma))


def _check(X, Y, Z, gamma, alpha, parts, *, tolerance, root=None, intercept=True, rows=()):
    """Fit, folds, squared errors and leave-one-out of some rows: refits in extended precision."""
    n, spread = len(X), np.abs(Y - Y.mean(axis=0)).max()
    literal, everything = LongDouble(X, Z, gamma), np.arange(n)

    def without(part):
        rest = np.setdiff1d(everything, part)
        s = None if root is None else root[rest]
        return literal.predict(part, literal.fit(rest, Y[rest], alpha, intercept=intercept, root=s))

    model = _model(X, Y, Z, gamma, root=root, intercept=intercept)
    assert model.report["training"] == "factors"
    fit = literal.predict(everything, literal.fit(everything, Y, alpha, intercept=intercept, root=root))
    np.testing.assert_allclose(model.expansion(alpha).predict(X), fit, atol=tolerance * spread)
    found = model.heldout(parts, [alpha])
    errors = model.heldout_squared_error(parts, parts, [alpha])
    for part, values, error in zip(parts, found, errors[0]):
        np.testing.assert_allclose(values[0], without(part), atol=tolerance * spread)
        squared = ((Y[part] - values[0]) ** 2).mean(axis=1)
        v = None if root is None else root[part] ** 2
        assert error == pytest.approx(np.average(squared, weights=v), rel=1e-6)
    alone = model.leave_one_out([alpha])[0]
    for i in rows:
        np.testing.assert_allclose(alone[[i]], without([i]), atol=tolerance * spread)


def _folds(n, count=4):
    return [test for _, test in KFold(count).split(np.zeros(n))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", [0, 1])
def test_small_ridge_and_smooth_kernel(seed, dtype):
    X, Y = _data(500, 5, seed, dtype)
    _check(X, Y, X[:100], 0.02, SMALLEST, _folds(500, 3), tolerance=1e-8, rows=range(0, 500, 125))


@pytest.mark.parametrize("alpha", [1e-12, 1e-8, SMALLEST, 1.0, 1e6])
@pytest.mark.parametrize("intercept", [True, False])
def test_all_rows_as_landmarks_and_leverages_near_one(alpha, intercept):
    X, Y = _data(40, 2, 3)
    _check(X, Y, X, 1.0, alpha, _folds(40), tolerance=1e-6, intercept=intercept, rows=range(40))


def test_rows_that_only_their_own_landmark_sees():
    """Left out, such a row is predicted by the intercept: nothing may be divided by a tiny ridge."""
    X, Y = _data(60, 2, 1)
    for alpha in (1e-12, 1e-8):
        _check(X, Y, X[:25], 1e6, alpha, _folds(60), tolerance=1e-10, rows=range(0, 60, 7))


@pytest.mark.parametrize("alpha", [1e-16, 1e-12, 1e-4, 1.0])
def test_weights_over_sixteen_orders_of_magnitude(alpha):
    X, Y = _data(60, 2, 2)
    rng = np.random.default_rng(0)
    for root in (10.0 ** rng.uniform(-8, 0, 60), np.where(rng.random(60) < 0.3, 1.0, 1e-8)):
        _check(X, Y, X[:25], 1.0, alpha, _folds(60), tolerance=1e-6, root=root, rows=range(0, 60, 7))


@pytest.mark.parametrize(("scale", "shift"), [(1e12, 0.0), (1e-12, 0.0), (1.0, 1e8), (1e-12, 1e-4)])
def test_units_and_offset_of_the_targets(scale, shift):
    X, Y = _data(80, 2)
    folds, rounding = _folds(80), 4e-16 * abs(shift)
    plain, other = (_model(X, y, X[:30], 1.0) for y in (Y, scale * Y + shift))

    def same(expected, found):
        np.testing.assert_allclose(
            found, scale * expected + shift, rtol=1e-10, atol=1e-10 * scale + rounding
        )

    for alpha in (1e-8, 1.0):
        same(plain.expansion(alpha).predict(X), other.expansion(alpha).predict(X))
        same(plain.leave_one_out([alpha]), other.leave_one_out([alpha]))
        for one, two in zip(plain.heldout(folds, [alpha]), other.heldout(folds, [alpha])):
            same(one, two)


def test_rows_far_from_the_origin():
    X, Y = _data(80, 2)
    X = np.round(X, 6)  # so that the shift is exact
    near, far = (
        _model(X + s, Y, (X + s)[:30], 1.0).expansion(1e-4).predict(X + s) for s in (0.0, 2**20)
    )
    np.testing.assert_allclose(far, near, atol=1e-7)


@given(
    n=st.integers(2, 40),
    m=st.integers(1, 12),
    d=st.integers(1, 4),
    gamma=st.sampled_from([0.3, 3.0, 1e4]),
    alpha=st.sampled_from([1e-8, SMALLEST, 0.1, 1e4]),
    intercept=st.booleans(),
    weighted=st.booleans(),
    copies=st.booleans(),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=40, deadline=None)
def test_any_small_problem(n, m, d, gamma, alpha, intercept, weighted, copies, seed):
    """Few rows, repeated rows, repeated landmarks, more landmarks than rows: the QR refit."""
    rng = np.random.default_rng(seed)
    # On a lattice: distinct landmarks are far enough apart for a positive definite kernel.
    cells = rng.choice(5**d, min(m, 5**d), replace=False)
    Z = np.stack(np.unravel_index(cells, (5,) * d), axis=1).astype(float)
    X = 5 * rng.random((n, d)) if not copies else Z[rng.integers(0, len(Z), n)]
    Y = rng.standard_normal((n, 2))
    root = rng.uniform(0.1, 1.0, n) if weighted else None
    literal, everything = LongDouble(X, Z, gamma), np.arange(n)
    model = _model(X, Y, np.vstack([Z, Z[:3]]), gamma, root=root, intercept=intercept)
    fit = literal.predict(everything, literal.fit(everything, Y, alpha, intercept=intercept, root=root))
    # The landmark kernel is known to eps: so many digits its smallest pivot leaves.
    pivot = model.report["smallest_pivot"]
    tolerance = 1e-9 + 1e-14 / pivot
    np.testing.assert_allclose(model.expansion(alpha).predict(X), fit, atol=tolerance)
    folds = _folds(n, 2)
    for part, values in zip(folds, model.heldout(folds, [alpha])):
        rest = np.setdiff1d(everything, part)
        s = None if root is None else root[rest]
        expected = literal.predict(part, literal.fit(rest, Y[rest], alpha, intercept=intercept, root=s))
        np.testing.assert_allclose(values[0], expected, atol=100 * tolerance)


@pytest.mark.parametrize(
    "splitter", [TimeSeriesSplit(3), ShuffleSplit(4, test_size=0.3, random_state=0)]
)
@pytest.mark.parametrize("estimator", [LSSVRCV, KernelRidge])
def test_through_the_estimators(splitter, estimator):
    X, Y = _data(120, 3, 5)
    Y = np.hstack([Y, Y**2])
    literal, everything = LongDouble(X, X[:40], 0.1), np.arange(120)
    if estimator is KernelRidge:
        fitted = KernelRidge(gamma=0.1, alpha=[SMALLEST, 1.0], approximation=Nystroem(X[:40])).fit(X, Y)
        for j, alpha in enumerate((SMALLEST, 1.0)):
            solution = literal.fit(everything, Y[:, [j]], alpha, intercept=False)
            expected = literal.predict(everything, solution)[:, 0]
            np.testing.assert_allclose(fitted.predict(X)[:, j], expected, atol=1e-7)
        return
    fitted = LSSVRCV(
        gammas=[0.1], alphas=[SMALLEST], cv=splitter, criterion="mse", approximation=Nystroem(X[:40])
    ).fit(X, Y)
    for split, (train, test) in enumerate(splitter.split(X)):
        expected = literal.predict(test, literal.fit(train, Y[train], SMALLEST))
        score = fitted.cv_results_[f"split{split}_test_score"][0]
        assert score == pytest.approx(-np.mean((expected - Y[test]) ** 2), rel=1e-7)


def test_too_many_small_residuals_are_told(monkeypatch):
    X, Y = _data(40, 2, 3)
    monkeypatch.setattr(models_module, "_REFIT_WORK", 0)
    model = _model(X, Y, X, 1.0)
    assert np.isfinite(model.leave_one_out([1e-12])).all()
    assert "fewer digits" in model.report["leave_one_out"]


@given(rows=st.integers(1, 30), r=st.integers(0, 6), border=st.booleans(), seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_factors_of_a_union_and_squared_errors(rows, r, border, seed):
    rng = np.random.default_rng(seed)
    V, Y, root = (
        rng.standard_normal((rows, r)),
        rng.standard_normal((rows, 2)),
        rng.uniform(0.1, 2, rows),
    )
    cut = int(rng.integers(0, rows + 1))
    whole = Factor.of(V, Y, root, fit_intercept=border)
    halves = [
        Factor.of(V[p], Y[p], root[p], fit_intercept=border) for p in (slice(cut), slice(cut, None))
    ]
    both = Factor.union(halves)
    assert both.weight == pytest.approx(whole.weight)
    theta, b = FactorPath(whole).coefficients([0.3, 2.0])
    again = FactorPath(both).coefficients([0.3, 2.0])
    np.testing.assert_allclose(again[0], theta, atol=1e-10)
    np.testing.assert_allclose(again[1], b, atol=1e-10)
    errors = (root[None, :, None] * (Y[None] - V @ theta.transpose(1, 0, 2) - b[:, None])) ** 2
    np.testing.assert_allclose(whole.squared_error(theta, b), errors.sum(axis=1), atol=1e-10)
    stacked = np.vstack([root[:, None] * np.hstack([V, np.full((rows, 1), float(border))]),
                         np.sqrt(0.3) * np.eye(r, r + 1)])  # fmt: skip
    rhs = np.vstack([root[:, None] * Y, np.zeros((r, 2))])
    literal = np.linalg.lstsq(stacked, rhs, rcond=None)[0]
    np.testing.assert_allclose(theta[:, 0], literal[:r], atol=1e-8)
    np.testing.assert_allclose(b[0], literal[r], atol=1e-8)


@pytest.mark.parametrize("training", ["factors", "whitened sums", "sums"])
@pytest.mark.parametrize("rank", [3, 10, 25])
def test_rank_is_kept_as_asked(force_training, rank, training):
    """ding2012's rank-k matrix, also where its directions are small; only rounding may take some."""
    force_training(training)
    X, Y = _data(150, 3, 7)
    Z, gamma, alpha = X[:40], 0.02, 0.1
    fitted = LSSVR(gamma=gamma, alpha=alpha, approximation=Nystroem(Z, rank=rank)).fit(X, Y)
    assert fitted.approximation_["rank"] == rank
    values, vectors = np.linalg.eigh(RBF(gamma)(Z, Z))
    V = RBF(gamma)(X, Z) @ (vectors[:, -rank:] / np.sqrt(values[-rank:]))
    columns = np.hstack([V, np.ones((150, 1))])
    stacked = np.vstack([columns, np.sqrt(alpha) * np.eye(rank, rank + 1)])
    solution = np.linalg.lstsq(stacked, np.vstack([Y, np.zeros((rank, 1))]), rcond=None)[0]
    np.testing.assert_allclose(fitted.predict(X), columns @ solution, atol=1e-6)


def test_a_rank_below_rounding_is_told():
    Z = np.repeat(np.arange(4.0), 3)[:, None]
    found = Whitening.of(RBF(1.0)(Z, Z), 6).report
    assert found["rank"] == 4
    assert found["rank_asked"] == 6
