"""Digits of basis models on few rows, in extended precision: smooth kernels, narrow ones, weights."""

import warnings

import numpy as np
import pytest
from basis_twins import LongDouble, fit_literally, rbf
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import KFold

import onefold.approximations.nystroem as coordinates_module
import onefold.approximations.nystroem_models as models_module
from onefold import LSSVR
from onefold.approximations import Nystroem, Problem, Workload
from onefold.kernels import RBF

pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).eps >= np.finfo(float).eps, reason="no extended precision here"
)
SMALLEST = 2.0**-15
RNG = np.random.default_rng(0)
X = RNG.standard_normal((600, 5))
Y = np.column_stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2] ** 2]) + 3.0


def _data(n, d, seed=0, dtype=float):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    return X, np.sin(X).sum(axis=1, dtype=float)[:, None] + 0.1 * rng.standard_normal((n, 1))


def _model(X, Y, approximation, gamma, *, root=None, intercept=True):
    problem = Problem(X, Y, root, intercept)
    return approximation.start(problem, [RBF(gamma)], Workload(folds=5)).model(RBF(gamma))


def _check(X, Y, approximation, gamma, alpha, parts, *, tolerance, root=None, intercept=True, rows=()):
    """Fit, folds, squared errors and leave-one-out of some rows: refits in extended precision."""
    n = len(X)
    spread = np.abs(Y - Y.mean(axis=0)).max()
    model = _model(X, Y, approximation, gamma, root=root, intercept=intercept)
    assert model.report["training"] == "factors"
    literal = LongDouble(X, model.design.landmarks, gamma)
    everything = np.arange(n)

    def without(part):
        rest = np.setdiff1d(everything, part)
        s = None if root is None else root[rest]
        return literal.predict(part, literal.fit(rest, Y[rest], alpha, intercept=intercept, root=s))

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
    return model


def _folds(n, count=4):
    return [test for _, test in KFold(count).split(np.zeros(n))]


ROOTS = [10.0 ** RNG.uniform(-8, 0, 60), np.where(RNG.random(60) < 0.3, 1.0, 1e-8)]
CORNERS = [  # rows, features, seed; landmarks, gamma, alpha, tolerance, more
    *((500, 5, seed, 100, 0.02, SMALLEST, 1e-8, {}) for seed in (0, 1)),  # a smooth kernel
    (600, 5, 0, 60, 5e-4, 1e-6, 1e-6, {}),  # smoother still: no direction is lost to squares
    *(  # all rows as landmarks: leverages near one
        (40, 2, 3, 40, 1.0, alpha, 1e-6, {"intercept": intercept})
        for alpha in (1e-12, 1e-8, SMALLEST, 1.0, 1e6)
        for intercept in (True, False)
    ),
    # Rows that only their own landmark sees: left out, the intercept alone predicts them, and nothing
    # may be divided by a tiny ridge.
    *((60, 2, 1, 25, 1e6, alpha, 1e-10, {}) for alpha in (1e-12, 1e-8)),
    # Weights over sixteen orders of magnitude.
    *((60, 2, 2, 25, 1.0, a, 1e-6, {"root": r}) for a in (1e-16, 1e-12, 1e-4, 1.0) for r in ROOTS),
]


@pytest.mark.parametrize(("n", "d", "seed", "landmarks", "gamma", "alpha", "tolerance", "more"), CORNERS)
def test_corners(n, d, seed, landmarks, gamma, alpha, tolerance, more):
    X, Y = _data(n, d, seed, np.float32 if n == 500 and seed else float)
    rows = range(n) if landmarks == n else range(0, n, 125 if n >= 500 else 7)
    folds = _folds(n, 3 if n == 500 else 4)
    _check(X, Y, Nystroem(X[:landmarks]), gamma, alpha, folds, tolerance=tolerance, rows=rows, **more)


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
    literal = LongDouble(X, Z, gamma)
    everything = np.arange(n)
    model = _model(X, Y, Nystroem(np.vstack([Z, Z[:3]])), gamma, root=root, intercept=intercept)
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


@pytest.mark.parametrize("training", ["factors", "whitened sums", "sums"])
@pytest.mark.parametrize("rank", [3, 10, 25])
def test_rank_is_kept_as_asked(force_training, rank, training):
    """ding2012's rank-k matrix, also where its directions are small; only rounding may take some."""
    force_training(training)
    X, Y = _data(150, 3, 7)
    Z = X[:40]
    gamma = 0.02
    alpha = 0.1
    fitted = LSSVR(gamma=gamma, alpha=alpha, approximation=Nystroem(Z, rank=rank)).fit(X, Y)
    assert fitted.approximation_["rank"] == rank
    values, vectors = np.linalg.eigh(RBF(gamma)(Z, Z))
    V = RBF(gamma)(X, Z) @ (vectors[:, -rank:] / np.sqrt(values[-rank:]))
    columns = np.hstack([V, np.ones((150, 1))])
    stacked = np.vstack([columns, np.sqrt(alpha) * np.eye(rank, rank + 1)])
    solution = np.linalg.lstsq(stacked, np.vstack([Y, np.zeros((rank, 1))]), rcond=None)[0]
    np.testing.assert_allclose(fitted.predict(X), columns @ solution, atol=1e-6)


@pytest.mark.parametrize(("gamma", "training"), [(1e-3, "whitened sums"), (3.0, "sums")])
def test_plain_sums_only_where_they_lose_nothing(monkeypatch, gamma, training):
    """Between small and large, a kernel so smooth that squares lose digits is whitened first."""
    monkeypatch.setattr("onefold.basis.factors._WORK", 0)
    monkeypatch.setattr(coordinates_module, "_SMALL_WORK", 0)
    model = _model(X, Y, Nystroem(X[:40]), gamma)
    assert model.report["training"] == training
    literal = LongDouble(X, X[:40], gamma)
    everything = np.arange(600)
    for alpha in (2.0**-15, 1.0):
        expected = literal.predict(everything, literal.fit(everything, Y, alpha))
        np.testing.assert_allclose(model.expansion(alpha).predict(X), expected, atol=1e-6)


@pytest.fixture
def large_work(force_training):
    """Treat these few rows as many, for which landmarks are thinned and sums are not whitened first."""
    force_training("sums")


def _smooth_model(**settings):
    return _model(X, Y, Nystroem(**settings), 1e-5)


@pytest.mark.parametrize("method", ["uniform", "kmeans"])
def test_a_smooth_kernel_keeps_few_landmarks(method, large_work):
    """Folds of the thinned model are literal refits with the landmarks that it kept."""
    model = _smooth_model(n_components=300, method=method)
    Z = model.design.landmarks
    splits = list(KFold(4).split(X))
    assert model.report["landmarks"] == len(Z) == model.design.size < 150
    assert model.report["thinned_from"] >= 2 * len(Z)
    if method == "uniform":
        assert all((row == X).all(axis=1).any() for row in Z)
    got = model.heldout([test for _, test in splits], [1.0])
    Phi = rbf(X, Z, 1e-5)
    W = rbf(Z, Z, 1e-5)
    for (train, test), values in zip(splits, got):
        beta, b = fit_literally(Phi[train], W, Y[train], 1.0, intercept=True)
        np.testing.assert_allclose(values[0], Phi[test] @ beta + b, atol=1e-4)


def test_landmarks_and_ranks_that_were_ordered_are_kept(large_work):
    assert _smooth_model(n_components=X[:300]).report["landmarks"] == 300
    for more in ({"rank": 20}, {"rank": 20, "predict": "rows"}):
        report = _smooth_model(n_components=300, method="uniform", **more).report
        assert (report["landmarks"], report["rank"]) == (300, 20)


def test_a_ridge_that_rounding_hides_is_told(large_work):
    """Sums over many rows carry rounding errors; where alpha is smaller, the fit says so."""
    settings = {"gamma": 0.01, "approximation": Nystroem(X[:100])}
    with pytest.warns(UserWarning, match="the size of rounding errors"):
        fitted = LSSVR(alpha=1e-12, **settings).fit(X, Y)
    assert 1e-12 < fitted.approximation_["rounding_ridge"] <= 2.0**-15
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LSSVR(alpha=2.0**-15, **settings).fit(X, Y)


@pytest.mark.parametrize("training", ["factors", "sums"])
def test_leverages_that_rounding_hides_are_told(monkeypatch, force_training, training):
    force_training(training)
    monkeypatch.setattr(models_module, "_REFIT_WORK", 0)
    model = _model(X[:40, :2], Y[:40], Nystroem(X[:40, :2]), 1.0)
    assert np.isfinite(model.leave_one_out([1e-12])).all()
    assert "less accurate" in model.report["leave_one_out"]
