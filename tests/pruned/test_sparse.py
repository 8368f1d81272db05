"""Pruned machines against refits from scratch."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.model_selection import KFold, ShuffleSplit

from onefold import LSSVRCV, SparseLSSVR
from onefold.basis import Design, collect
from onefold.basis.pruning import _root_prices, prune, prune_sizes
from onefold.estimators.sparse import best_size, robust_weights
from onefold.kernels import RBF
from onefold.rows import rows_of


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (120, 2))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(120)


def _solve_cawley(K_rows, K_centres, y, mu, v=None):
    """The bordered system of cawley2002, literally: μ stands for ℓ/(2γ)."""
    v = np.ones(len(y)) if v is None else v
    omega = mu * K_centres + K_rows.T @ (v[:, None] * K_rows)
    phi = K_rows.T @ v
    system = np.block([[omega, phi[:, None]], [phi[None, :], np.array([[v.sum()]])]])
    solution = np.linalg.lstsq(system, np.append(K_rows.T @ (v * y), v @ y), rcond=1e-12)[0]
    return solution[:-1], solution[-1]


def _objective(K_rows, K_centres, y, mu):
    """The least value of Σ (y − f)² + μ βᵀWβ."""
    beta, b = _solve_cawley(K_rows, K_centres, y, mu)
    return np.sum((y - K_rows @ beta - b) ** 2) + mu * beta @ K_centres @ beta


def _prices(X, centres, y, mu, kernel):
    """What the objective rises by without each centre, all others fitted again."""

    def objective(index):
        return _objective(kernel(X, X[index]), kernel(X[index], X[index]), y, mu)

    return np.array([objective(np.delete(centres, j)) for j in range(len(centres))]) - objective(centres)


def test_every_size_is_a_refit_from_scratch(data):
    X, y = data
    kernel = RBF(0.5)
    design = Design(kernel, X[:30])
    statistics = collect(design, rows_of(X, y[:, None], None))[0]
    path = prune(statistics, design.inner(), 0.3, prune_sizes(30, 3, 0.1), fit_intercept=True)
    assert prune_sizes(30, 3, 0.2) == [30, 24, 19, 15, 12, 10, 8, 6, 5, 4, 3]
    previous = np.arange(30)
    prices = None
    for index, coef, intercept in zip(path.centres, path.coef, path.intercept):
        beta, b = _solve_cawley(kernel(X, X[index]), kernel(X[index], X[index]), y, 0.3)
        ours = kernel(X, X[index]) @ coef[:, 0] + intercept
        np.testing.assert_allclose(ours, kernel(X, X[index]) @ beta + b, atol=1e-7)
        if len(index) < len(previous):  # those went that the objective missed least
            kept = np.sort(np.argsort(prices)[len(previous) - len(index) :])
            np.testing.assert_array_equal(index, previous[kept])
        previous = index
        prices = _prices(X, index, y, 0.3, kernel)


def test_centres_are_dropped_by_their_exact_price(data):
    """Summed over targets; the smallest coefficients would be other centres."""
    X, y = data
    Y = np.stack([y, np.cos(X[:, 0])], axis=1)
    kernel = RBF(0.5)
    centres = np.arange(20)
    design = Design(kernel, X[:20])
    statistics = collect(design, rows_of(X, Y, None))[0]
    W = design.inner()
    path = prune(statistics, W, 0.3, [20, 12], fit_intercept=True)
    prices = sum(_prices(X, centres, one, 0.3, kernel) for one in Y.T)
    assert set(path.centres[1]) == set(np.argsort(prices)[8:])
    assert set(path.centres[1]) != set(np.argsort(np.linalg.norm(path.coef[0], axis=1))[8:])
    K = kernel(X, X[:20])
    B = K.T @ K - np.outer(K.sum(axis=0), K.sum(axis=0)) / len(X) + 0.3 * W
    np.testing.assert_allclose(_root_prices(path.coef[0], np.linalg.cholesky(B)) ** 2, prices, rtol=1e-6)


def _cawley(X, Y, train, alpha, sizes, kernel):
    """The method of cawley2002, every size solved anew: the centres and the function of each."""
    centres = np.array(train)
    found = []
    targets = np.reshape(Y[train], (len(train), -1))
    for size in sizes:
        while True:
            C = kernel(X[train], X[centres])
            W = kernel(X[centres], X[centres])
            solutions = [_solve_cawley(C, W, y, alpha * len(train)) for y in targets.T]
            beta, b = (np.stack(values, axis=-1) for values in zip(*solutions))
            if len(centres) <= size:
                break
            drop = min(max(1, round(0.05 * len(centres))), len(centres) - size)
            centres = np.delete(centres, np.argsort(np.linalg.norm(beta, axis=1))[:drop])
        found.append((centres, kernel(X, X[centres]) @ beta + b))
    return found


@pytest.mark.parametrize("targets", [1, 2])
def test_pruning_by_coefficients_is_the_paper_with_a_refit_at_every_step(data, targets):
    X, y = data
    Y = y if targets == 1 else np.stack([y, np.cos(X[:, 0])], axis=1)
    kernel = RBF(2.0)
    cv = KFold(4)
    alpha = 0.01
    model = SparseLSSVR(gammas=[2.0], alphas=[alpha], loss="mean", prune="coefficients", cv=cv)
    model.set_params(n_centres=10).fit(X, Y)
    centres, values = _cawley(X, Y, np.arange(120), alpha, [10], kernel)[0]
    kept = [int(np.flatnonzero((z == X).all(axis=1))[0]) for z in model.expansion_.centres]
    assert sorted(kept) == sorted(centres)
    np.testing.assert_allclose(model.predict(X).reshape(values.shape), values, atol=1e-6)
    sizes = model.path_["n_centres"]
    for split, (train, test) in enumerate(cv.split(X)):
        path = _cawley(X, Y, train, alpha, sizes, kernel)
        errors = [np.mean((np.reshape(Y, values.shape) - values)[test] ** 2) for _, values in path]
        np.testing.assert_allclose(-model.path_[f"split{split}_test_score"], errors, rtol=1e-6)
    price = clone(model).set_params(prune="price").fit(X, Y)
    assert not np.array_equal(price.expansion_.centres, model.expansion_.centres)
    assert model.approximation_["pruned_by"] == "coefficients"


def test_the_ridge_of_the_mean_is_that_of_every_training_part(data):
    """One meaning for the search, the path of each fold and the model."""
    X, y = data
    weights = np.random.default_rng(1).uniform(0.2, 3.0, 120)
    cells = {"gammas": [0.5, 2.0], "alphas": [1e-3, 1e-1]}
    cv = KFold(4)
    model = SparseLSSVR(**cells, loss="mean", cv=cv, n_centres=120).fit(X, y, weights)
    search = LSSVRCV(**cells, loss="mean", cv=cv).fit(X, y, weights)
    assert (model.gamma_, model.alpha_) == (search.gamma_, search.alpha_)
    assert model.best_score_ == pytest.approx(search.best_score_, rel=1e-6)
    np.testing.assert_allclose(model.predict(X), search.predict(X), atol=1e-6)
    few = {"gammas": [2.0], "n_centres": 15, "cv": cv}
    of_mean = SparseLSSVR(**few, alphas=[1e-3], loss="mean").fit(X, y, weights)
    of_sum = SparseLSSVR(**few, alphas=[1e-3 * weights.sum()]).fit(X, y, weights)
    np.testing.assert_allclose(of_mean.predict(X), of_sum.predict(X), atol=1e-8)
    scores = [fitted.path_["mean_test_score"] for fitted in (of_mean, of_sum)]
    np.testing.assert_allclose(*scores, rtol=1e-8)


def test_neighbours_that_cancel_do_not_stay():
    """A nearly singular system: by the smallest |β| the error would be 0.49."""
    X = np.linspace(-3, 3, 60)[:, None]
    clean = np.sin(X[:, 0])
    y = clean + 0.1 * np.random.default_rng(0).normal(size=60)
    fitted = SparseLSSVR(gammas=[5.0], alphas=[0.1], n_centres=10).fit(X, y)
    assert np.sqrt(np.mean((fitted.predict(X) - clean) ** 2)) < 0.07
    fitted.set_params(prune="coefficients").fit(X, y)
    assert np.sqrt(np.mean((fitted.predict(X) - clean) ** 2)) > 0.4


@pytest.mark.parametrize("spoiled", ["NaN", "NaN off the diagonal", "infinite", "indefinite"])
def test_a_system_that_cannot_be_solved_ends_with_a_remedy(data, spoiled):
    X, y = data
    design = Design(RBF(0.5), X[:6])
    statistics = collect(design, rows_of(X, y[:, None], None))[0]
    W = design.inner()
    if spoiled == "indefinite":
        statistics = replace(statistics, gram=-statistics.gram)
    else:
        place = -1 if "off" in spoiled else 0
        W[0, place] = W[place, 0] = np.inf if spoiled == "infinite" else np.nan
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="use a larger alpha"):
        prune(statistics, W, 0.3, [6, 4], fit_intercept=True)


def test_path_scores_prune_each_training_part_on_its_own(data):
    X, y = data
    cv = KFold(3, shuffle=True, random_state=0)
    fitted = SparseLSSVR(gammas=[0.5], alphas=[0.3], n_centres=8, cv=cv).fit(X, y)
    sizes = fitted.path_["n_centres"]
    assert sizes[-1] == 8
    for split, (train, test) in enumerate(cv.split(X)):
        kernel = RBF(0.5)
        centres = np.array(train)
        scores = []
        for size in np.minimum(sizes, len(train)):
            mu = 0.3 * len(train) / len(X)
            while True:
                C = kernel(X[train], X[centres])
                beta, b = _solve_cawley(C, kernel(X[centres], X[centres]), y[train], mu)
                if len(centres) <= size:
                    break
                design = Design(kernel, X[centres])
                statistics = collect(design, rows_of(X[train], y[train][:, None], None))[0]
                [_, kept] = prune(
                    statistics, design.inner(), mu, [len(centres), size], fit_intercept=True
                ).centres
                centres = centres[kept]
            values = kernel(X[test], X[centres]) @ beta + b
            scores.append(-np.mean((values - y[test]) ** 2))
        np.testing.assert_allclose(fitted.path_[f"split{split}_test_score"], scores, rtol=2e-3)
    assert fitted.expansion_.n_centres == 8
    assert fitted.predict(X).shape == (120,)


def test_robust_weights_follow_their_formula_and_let_outliers_go(data):
    e = np.array([0.0, 0.5, -0.5, 1.0, -1.0, 4.0, 50.0])
    scale = 1.483 * np.median(np.abs(e - np.median(e)))
    expected = np.clip((3 - np.abs(e) / scale) / 0.5, 1e-4, 1)
    np.testing.assert_allclose(robust_weights(e[:, None]), expected)
    np.testing.assert_array_equal(robust_weights(np.zeros((4, 1))), 1.0)
    X, y = data
    clean = np.sin(2 * X[:, 0]) + X[:, 1]
    bad = y.copy()
    bad[::12] += 30.0
    common = {"gammas": [0.5], "alphas": [0.3], "n_centres": 40, "cv": 3}
    plain = SparseLSSVR(**common).fit(X, bad)
    robust = SparseLSSVR(**common, weights="robust").fit(X, bad)
    error = [np.sqrt(np.mean((m.predict(X) - clean) ** 2)) for m in (plain, robust)]
    assert error[1] < 0.2 * error[0]
    assert np.all(robust.robust_weights_[::12] < 0.01)
    assert np.mean(robust.robust_weights_ == 1.0) > 0.7


def test_sizes_that_a_training_part_cannot_prune_are_not_judged():
    """Of 40 rows one part trains on 36, the other on 20: 36 … 20 centres would be all that it has."""
    rng = np.random.default_rng(0)
    rows = np.arange(40)
    X = rng.normal(size=(40, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=40)
    splits = [(rows[4:], rows[:4]), (rows[:20], rows[20:])]
    fitted = SparseLSSVR(gammas=[0.3], alphas=[0.1], cv=splits).fit(X, y)
    sizes = fitted.path_["n_centres"]
    assert sizes[0] == 40
    assert sizes[1] == 19


def test_splits_of_many_groups_are_pruned_one_by_one(monkeypatch):
    """Overlapping splits cut the rows into almost as many groups as there are rows."""
    rng = np.random.default_rng(0)
    X = rng.random((60, 2))
    y = rng.random(60)
    weight = rng.uniform(0.1, 2.0, 60)
    machine = SparseLSSVR(gammas=[3.0], alphas=[0.1], cv=ShuffleSplit(6, test_size=0.3, random_state=0))
    together = clone(machine).fit(X, y, sample_weight=weight)
    held = []

    def counted(design, source, groups=None):
        held.append(1 if groups is None else groups.count)
        return collect(design, source, groups)

    monkeypatch.setattr("onefold.basis.statistics._GROUP_BYTES", 2**16)
    monkeypatch.setattr("onefold.basis.pruning.collect", counted)
    alone = clone(machine).fit(X, y, sample_weight=weight)
    assert held == [2] * 6 + [1]
    for key, values in together.path_.items():
        np.testing.assert_allclose(alone.path_[key], values, rtol=1e-8, atol=1e-10)


def test_memory_to_prune_with_is_asked_for_before_any_work(monkeypatch):
    X = np.random.default_rng(0).random((500, 2))
    monkeypatch.setattr("onefold.machine.memory.available_memory", lambda: 10**6)
    monkeypatch.setattr(SparseLSSVR, "_tune", pytest.fail)
    with pytest.raises(MemoryError, match="pruning from 500 centres needs"):
        SparseLSSVR(gammas=[1.0], alphas=[0.1]).fit(X, X[:, 0])


PLATEAU = np.array([-1.0, -1.0, -1.01, -1.02, -3.0, -6.0])
DIP = np.array([-0.1, -0.1, -0.5, -0.1, -0.9])  # what lies beyond a dip is no plateau
MISSING = np.array([[-1.0, -0.5, -0.45, -0.5, np.nan, -2.0], [-1.1, -0.4, -0.6, -0.5, -0.5, -2.0]])


@pytest.mark.parametrize(
    ("scores", "tolerance", "size"),
    [
        (PLATEAU[None], 0.015, 2),
        (PLATEAU[None], 0.0, 1),
        (np.vstack([PLATEAU - 0.03, PLATEAU + 0.03]), None, 3),
        (np.vstack([PLATEAU, PLATEAU]), None, 1),
        (np.vstack([DIP - 0.01, DIP + 0.01]), None, 1),
        (MISSING, None, 1),  # as a scorer that refuses some predictions leaves them
        (MISSING, 0.2, 3),
    ],
)
def test_knee_and_tolerance(scores, tolerance, size):
    assert best_size(scores, tolerance) == size


def test_no_size_with_a_score_is_an_error():
    rng = np.random.default_rng(0)
    machine = SparseLSSVR(gammas=[1.0], alphas=[0.1], criterion="r2", cv=12)
    with (
        pytest.raises(ValueError, match="no number of centres has a score"),
        pytest.warns(UndefinedMetricWarning),
    ):
        machine.fit(rng.random((12, 2)), rng.random(12))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"weights": "heavy"}, "weights"),
        ({"n_centres": 3, "tolerance": 0.1}, "not both"),
        ({"cv": "loo"}, "folds"),
        ({"criterion": "gcv"}, "held-out"),
        ({"kernel": "precomputed"}, "precomputed"),
        ({"kernel": ["rbf", "matern"]}, "takes one kernel.*LSSVRCV, to choose among"),
        *(({"n_centres": value}, "n_centres must be a") for value in (2.5, 0, True)),
        *(({"max_centres": value}, "max_centres must be a") for value in (2.5, "all")),
        *(({"drop": value}, "drop must be a") for value in ("a", 1.0, 1.5)),
        ({"prune": "size"}, 'prune must be "price" or "coefficients"; got'),
        *(({"tolerance": value}, "tolerance must be a") for value in (float("nan"), -0.1, "a")),
    ],
)
def test_settings_are_checked(settings, words):
    with pytest.raises(ValueError, match=words):
        SparseLSSVR(**settings).fit(np.eye(8), np.arange(8.0))
