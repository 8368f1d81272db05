"""The basis model through the estimators, against literal refits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from basis_twins import fit_literally, rbf
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)

import onefold.approximations.nystroem_models as models_module
from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV, load
from onefold.approximations import Nystroem, Problem, Workload
from onefold.basis.ridge import NearbyPath
from onefold.heldout import GapKFold
from onefold.kernels import RBF, Polynomial

GAMMA = 0.15
ALPHAS = [1e-4, 0.1, 30.0]


def _heldout_literally(X, Y, Z, splits, alphas, *, intercept=True, weight=None, gamma=GAMMA):
    Phi, W = rbf(X, Z, gamma), rbf(Z, Z, gamma)
    found = []
    for train, test in splits:
        values = []
        for mu in alphas:
            v = None if weight is None else weight[train]
            beta, b = fit_literally(Phi[train], W, Y[train], mu, intercept=intercept, weight=v)
            values.append(Phi[test] @ beta + b)
        found.append(np.array(values))
    return found


def _model(X, Y, Z, *, weight=None, intercept=True, **settings):
    problem = Problem(X, Y, None if weight is None else np.sqrt(weight), intercept)
    return (
        Nystroem(Z, **settings)
        .start(problem, [RBF(GAMMA)], Workload(alphas=len(ALPHAS), folds=5))
        .model(RBF(GAMMA))
    )


def _parts(splits, n):
    return [np.setdiff1d(np.arange(n), train) for train, _ in splits]


SPLITTERS = {
    "contiguous": KFold(5),
    "shuffled": KFold(4, shuffle=True, random_state=0),
    "time": TimeSeriesSplit(4),
    "repeated": RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    "gap": GapKFold(4, gap=3),
    "random": ShuffleSplit(3, test_size=0.2, random_state=1),
}


ROUTES = [
    ("factors", "factors"),
    ("factors", "block"),
    ("whitened sums", "subtraction"),
    ("sums", "subtraction"),
    ("sums", "block"),
    ("sums", "each set"),
]


@pytest.mark.parametrize(("training", "route"), ROUTES)
@pytest.mark.parametrize("name", sorted(SPLITTERS))
@pytest.mark.parametrize("weighted", [False, True])
def test_heldout_is_the_literal_refit(
    regression, monkeypatch, force_training, name, training, route, weighted
):
    X, Y = regression
    weight = np.random.default_rng(5).uniform(0.2, 4, len(X)) if weighted else None
    force_training(training)
    if training == "factors":
        monkeypatch.setattr(models_module, "_REFIT_WORK", 10**12 if route == "factors" else 0)
    else:
        monkeypatch.setattr(models_module.SummedModel, "_route", lambda self, parts: route)
    Z = X[:40]
    splits = list(SPLITTERS[name].split(X))
    model = _model(X, Y, Z, weight=weight)
    got = model.heldout(_parts(splits, len(X)), ALPHAS)
    assert model.report["training"] == training
    assert model.report["heldout"] == route
    expected = _heldout_literally(X, Y, Z, splits, ALPHAS, weight=weight)
    for (train, test), values, literal in zip(splits, got, expected):
        rows = np.setdiff1d(np.arange(len(X)), train)
        # Blocks of sums solve with I − H, which a tiny ridge brings close to singular.
        tolerance = 1e-6 if route == "block" else 1e-7
        np.testing.assert_allclose(values[:, np.searchsorted(rows, test)], literal, atol=tolerance)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_folds_from_the_whole_model_by_iteration(
    regression, monkeypatch, force_training, intercept, weighted
):
    X, Y = regression
    force_training("sums")
    weight = np.random.default_rng(5).uniform(0.2, 4, len(X)) if weighted else None
    splits = list(KFold(5).split(X))
    models = []
    for least in (0, 10**9):
        monkeypatch.setattr("onefold.basis.ridge._ROWS_PER_DIRECTION", least)
        model = _model(X, Y, X[:12], weight=weight, intercept=intercept)
        models.append((model, model.heldout(_parts(splits, len(X)), ALPHAS)))
    (nearby, iterated), (_, direct) = models
    assert isinstance(nearby._known[-1].paths[0], NearbyPath)
    assert nearby._known[-1].paths[0].own is None
    for one, other in zip(iterated, direct):
        np.testing.assert_allclose(one, other, atol=1e-8)


def test_folds_that_differ_too_much_are_solved_directly(regression, monkeypatch, force_training):
    X, Y = regression
    force_training("sums")
    monkeypatch.setattr("onefold.basis.ridge._ROWS_PER_DIRECTION", 0)
    splits = [(np.arange(6), np.arange(6, len(X)))]  # far fewer rows than directions
    model = _model(X, Y, X[:60])
    got = model.heldout(_parts(splits, len(X)), [1e-4])
    expected = _heldout_literally(X, Y, X[:60], splits, [1e-4])
    np.testing.assert_allclose(got[0], expected[0], atol=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("training", ["factors", "whitened sums", "sums"])
def test_leave_one_out_by_leverage(regression, force_training, training, intercept, weighted):
    force_training(training)
    X, Y = regression[0][:60], regression[1][:60]
    weight = np.random.default_rng(5).uniform(0.2, 4, 60) if weighted else None
    splits = [(np.delete(np.arange(60), i), np.array([i])) for i in range(60)]
    model = _model(X, Y, X[:12], weight=weight, intercept=intercept)
    expected = _heldout_literally(X, Y, X[:12], splits, ALPHAS, intercept=intercept, weight=weight)
    np.testing.assert_allclose(model.leave_one_out(ALPHAS), np.concatenate(expected, axis=1), atol=1e-6)


@pytest.mark.parametrize("training", ["factors", "whitened sums", "sums"])
@pytest.mark.parametrize("name", ["contiguous", "gap", "time"])
def test_squared_error_needs_no_predictions(regression, force_training, training, name):
    X, Y = regression
    force_training(training)
    weight = np.random.default_rng(5).uniform(0.2, 4, len(X))
    splits = list(SPLITTERS[name].split(X))
    model = _model(X, Y, X[:20], weight=weight)
    parts = _parts(splits, len(X))
    tests = [test for _, test in splits]
    got = model.heldout_squared_error(parts, tests, ALPHAS)
    expected = _heldout_literally(X, Y, X[:20], splits, ALPHAS, weight=weight)
    for split, (test, values) in enumerate(zip(tests, expected)):
        error = ((values - Y[test]) ** 2).mean(axis=2)
        literal = np.average(error, axis=1, weights=weight[test])
        np.testing.assert_allclose(got[:, split], literal, rtol=1e-7)


@pytest.mark.parametrize("training", ["factors", "sums"])
def test_sets_that_were_grouped_before_change_nothing(regression, force_training, training):
    """Rows know the groups of the sets that they were asked for last; a model counts its own."""
    X, Y = regression
    force_training(training)
    splits = list(GapKFold(4, gap=3).split(X))
    parts, tests = _parts(splits, len(X)), [test for _, test in splits]
    plain, other = _model(X, Y, X[:20]), _model(X, Y, X[:20])
    expected = plain.heldout_squared_error(parts, tests, ALPHAS)
    other.source.grouped_by([*parts, *tests, np.arange(7), np.arange(5, 90)])
    np.testing.assert_allclose(other.heldout_squared_error(parts, tests, ALPHAS), expected, rtol=1e-9)
    for one, two in zip(plain.heldout(parts, ALPHAS), other.heldout(parts, ALPHAS)):
        np.testing.assert_allclose(two, one, atol=1e-8)


def test_squared_error_withdraws_when_it_would_cancel(regression, force_training):
    X, _ = regression
    Y = rbf(X, X[:1], GAMMA)  # a function of the basis: next to no ridge, next to no error
    splits = list(KFold(3).split(X))
    parts, tests = _parts(splits, len(X)), [test for _, test in splits]
    factored = _model(X, Y, X[:20], intercept=False)
    exact = factored.heldout_squared_error(parts, tests, [1e-6])[0]
    for error, test, values in zip(exact, tests, factored.heldout(parts, [1e-6])):
        assert error == pytest.approx(np.mean((Y[test] - values[0]) ** 2), rel=1e-5)
    force_training("sums")
    model = _model(X, Y, X[:20], intercept=False)
    assert model.heldout_squared_error(parts, tests, [1e-6]) is None
    assert model.heldout_squared_error(parts, tests, [1.0]) is not None
    fitted = KernelRidgeCV(gammas=[GAMMA], alphas=[1e-6], cv=3, approximation=Nystroem(X[:20]))
    assert 0 >= fitted.fit(X, Y).best_score_ > -1e-7


@pytest.mark.parametrize("estimator", [LSSVRCV, KernelRidgeCV])
@pytest.mark.parametrize("criterion", ["mse", "neg_mean_absolute_error"])
def test_search_scores_are_those_of_literal_refits(regression, estimator, criterion):
    X, Y = regression
    gammas, cv = [0.05, GAMMA], KFold(4, shuffle=True, random_state=0)
    fitted = estimator(
        gammas=gammas, alphas=ALPHAS, cv=cv, criterion=criterion, approximation=Nystroem(X[:25])
    ).fit(X, Y)
    for i, params in enumerate(fitted.cv_results_["params"]):
        for split, (train, test) in enumerate(cv.split(X)):
            values = _heldout_literally(
                X, Y, X[:25], [(train, test)], [params["alpha"]],
                intercept=estimator is LSSVRCV, gamma=params["gamma"],
            )[0][0]  # fmt: skip
            error = values - Y[test]
            literal = -(error**2).mean() if criterion == "mse" else -np.abs(error).mean()
            np.testing.assert_allclose(
                fitted.cv_results_[f"split{split}_test_score"][i], literal, rtol=1e-6
            )
    best = _heldout_literally(
        X, Y, X[:25], list(cv.split(X)), [fitted.alpha_],
        intercept=estimator is LSSVRCV, gamma=fitted.gamma_,
    )  # fmt: skip
    for (_, test), values in zip(cv.split(X), best):
        np.testing.assert_allclose(fitted.heldout_prediction_[test], values[0], atol=1e-6)


@pytest.mark.parametrize("estimator", [LSSVR, KernelRidge])
def test_fit_is_the_stacked_least_squares_problem(regression, estimator):
    X, Y = regression
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
    fitted = estimator(gamma=GAMMA, alpha=[0.1, 3.0], approximation=Nystroem(X[:20])).fit(
        X, Y, sample_weight=weight
    )
    Phi, W = rbf(X, X[:20], GAMMA), rbf(X[:20], X[:20], GAMMA)
    for target, mu in enumerate([0.1, 3.0]):
        beta, b = fit_literally(Phi, W, Y[:, [target]], mu, intercept=estimator is LSSVR, weight=weight)
        np.testing.assert_allclose(fitted.predict(X)[:, target], (Phi @ beta + b)[:, 0], atol=1e-7)
    assert fitted.expansion_.n_centres == 20


def test_all_rows_as_landmarks_is_the_exact_model(regression):
    X, Y = regression
    settings = {"gamma": 1.0, "alpha": 0.1}
    exact = LSSVR(**settings).fit(X, Y)
    basis = LSSVR(**settings, approximation=Nystroem(len(X) + 5, "uniform")).fit(X, Y)
    np.testing.assert_allclose(basis.predict(X), exact.predict(X), atol=1e-6)


@pytest.mark.parametrize("classes", [2, 4])
def test_classifier_with_class_weights_and_many_classes(classes):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    y = np.digitize(X[:, 0] + 0.3 * rng.standard_normal(150), np.linspace(-1, 1, classes - 1))
    cv = StratifiedKFold(3)
    fitted = LSSVCCV(
        gammas=[GAMMA], alphas=ALPHAS, cv=cv, class_weight="balanced", approximation=Nystroem(X[:30])
    ).fit(X, y)
    counts = np.bincount(y)
    weight = (len(y) / (len(counts) * counts))[y]
    Y = 2.0 * (y[:, None] == np.arange(classes)) - 1 if classes > 2 else 2.0 * y[:, None] - 1
    splits = list(cv.split(X, y))
    literal = _heldout_literally(X, Y, X[:30], splits, ALPHAS, weight=weight)
    for split, ((_, test), values) in enumerate(zip(splits, literal)):
        labels = values.argmax(axis=2) if classes > 2 else (values[:, :, 0] > 0).astype(int)
        wrong = (labels != y[test][None]).mean(axis=1)
        np.testing.assert_allclose(fitted.cv_results_[f"split{split}_test_score"], -wrong, atol=1e-12)
    assert LSSVC(gamma=GAMMA, approximation=Nystroem(30)).fit(X, y).score(X, y) > 0.7


def test_grouped_splitters(regression):
    X, Y = regression
    groups = np.arange(len(X)) % 13
    for cv in (GroupKFold(4), LeaveOneGroupOut()):
        splits = list(cv.split(X, Y, groups))
        fitted = LSSVRCV(
            gammas=[GAMMA], alphas=[0.1], cv=cv, criterion="r2", approximation=Nystroem(X[:20])
        ).fit(X, Y, groups=groups)
        for (_, test), values in zip(splits, _heldout_literally(X, Y, X[:20], splits, [0.1])):
            np.testing.assert_allclose(fitted.heldout_prediction_[test], values[0], atol=1e-7)


def test_more_groups_than_one_eigendecomposition_each_is_worth(regression):
    X, Y = regression
    splits = list(KFold(75).split(X))
    got = _model(X, Y, X[:20]).heldout(_parts(splits, len(X)), ALPHAS)
    for values, literal in zip(got, _heldout_literally(X, Y, X[:20], splits, ALPHAS)):
        np.testing.assert_allclose(values, literal, atol=1e-6)


@given(n=st.integers(6, 60), m=st.integers(1, 70), folds=st.integers(2, 5), seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_sizes_and_duplicates(n, m, folds, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))[rng.integers(0, max(2, n // 2), n)]
    Y, Z = rng.standard_normal((n, 1)), X[rng.integers(0, n, m)]
    splits = list(KFold(folds).split(X))
    got = _model(X, Y, Z).heldout(_parts(splits, n), [0.05, 2.0])
    literal = _heldout_literally(X, Y, Z, splits, [0.05, 2.0])
    for values, expected in zip(got, literal):
        np.testing.assert_allclose(values, expected, atol=1e-6)


@pytest.mark.parametrize("gamma", [2.0**-15, 2.0**-7, 2.0**-3, 0.5, 2.0**5])
def test_single_precision_reaches_the_double_precision_score(gamma):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 5)).astype(np.float32)
    y = np.sin(X).sum(axis=1) + 0.1 * rng.standard_normal(3000)
    single, double = (
        LSSVRCV(gammas=[gamma], approximation=Nystroem(200, "uniform")).fit(X.astype(dtype), y)
        for dtype in (np.float32, np.float64)
    )
    np.testing.assert_allclose(single.best_score_, double.best_score_, rtol=1e-4)
    every = [fitted.cv_results_["mean_test_score"] for fitted in (single, double)]
    np.testing.assert_allclose(every[0], every[1], rtol=1e-4)


def test_tiny_ridge_does_not_blow_up():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 3)).astype(np.float32)
    y = np.sin(X).sum(axis=1)
    fitted = LSSVRCV(
        gammas=[2.0**-15, 2.0**-9], alphas=[1e-12, 1e-8], approximation=Nystroem(300, "uniform")
    ).fit(X, y)
    assert np.all(fitted.cv_results_["mean_test_score"] > -y.var())
    assert fitted.approximation_["fitted_with"]["cut_directions"] > 0


def test_sparse_rows(regression):
    X, Y = regression
    X = np.where(X > 0.5, X, 0.0)
    dense = LSSVR(gamma=GAMMA, approximation=Nystroem(30, "rpcholesky")).fit(X, Y)
    sparse = LSSVR(gamma=GAMMA, approximation=Nystroem(30)).fit(scipy.sparse.csr_array(X), Y)
    assert sparse.approximation_["method"] == "rpcholesky"  # the default for sparse rows
    np.testing.assert_allclose(sparse.predict(X), dense.predict(X), atol=1e-8)


def test_default_landmarks_are_cluster_centres_or_all_rows(regression):
    X, Y = regression
    some = LSSVR(gamma=GAMMA, approximation=Nystroem(30)).fit(X, Y)
    centres = LSSVR(gamma=GAMMA, approximation=Nystroem(30, "kmeans")).fit(X, Y)
    assert some.approximation_["method"] == "kmeans"
    np.testing.assert_array_equal(some.predict(X), centres.predict(X))
    rows = LSSVR(gamma=GAMMA, approximation=Nystroem(10**6)).fit(X, Y)
    np.testing.assert_allclose(rows.predict(X), LSSVR(gamma=GAMMA).fit(X, Y).predict(X), atol=1e-6)


def test_other_kernels_and_functions(regression):
    X, Y = regression
    named = LSSVR(Polynomial(0.3, degree=2), approximation=Nystroem(30)).fit(X, Y)
    function = LSSVR(lambda A, B: (0.3 * A @ B.T + 1.0) ** 2, approximation=Nystroem(30)).fit(X, Y)
    np.testing.assert_allclose(function.predict(X), named.predict(X), atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", ["kmeans", "rpcholesky"])
def test_arrays_of_another_library(regression, method, weighted):
    strict = pytest.importorskip("array_api_strict")
    X, Y = regression
    weight = np.random.default_rng(0).uniform(0.2, 3, len(X)) if weighted else None
    # A kernel so smooth that its features are whitened first, a usual one, and a narrow one.
    settings = {"gammas": [1e-4, GAMMA, 60.0], "alphas": ALPHAS, "approximation": Nystroem(20, method)}
    ours = LSSVRCV(**settings).fit(X, Y, weight)
    other = LSSVRCV(**settings).fit(strict.asarray(X), strict.asarray(Y), weight)
    np.testing.assert_allclose(
        other.cv_results_["mean_test_score"], ours.cv_results_["mean_test_score"], rtol=1e-7
    )


def test_saved_and_cloned(regression, tmp_path):
    X, Y = regression
    fitted = LSSVR(gamma=GAMMA, approximation=Nystroem(20, "kmeans", random_state=3)).fit(X, Y)
    fitted.save(tmp_path / "model.onefold")
    again = load(tmp_path / "model.onefold")
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    assert again.approximation == fitted.approximation
    assert clone(fitted).approximation == Nystroem(20, "kmeans", random_state=3)
    assert Nystroem(X[:3]) == Nystroem(X[:3].copy())
    assert Nystroem(X[:3]) != Nystroem(X[:4])
    assert hash(Nystroem(3)) == hash(Nystroem(3))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "best"}, "method"),
        ({"predict": "all"}, "predict"),
        ({"n_components": 0}, "n_components"),
        ({"n_components": "many"}, "n_components"),
        ({"rank": 0}, "rank"),
    ],
)
def test_settings_are_checked(settings, words):
    with pytest.raises(ValueError, match=words):
        Nystroem(**settings)


def test_precomputed_matrix_is_refused():
    with pytest.raises(ValueError, match="exact"):
        LSSVR("precomputed", approximation=Nystroem(2)).fit(np.eye(4), np.arange(4.0))


@pytest.mark.parametrize("training", ["factors", "whitened sums", "sums"])
def test_some_of_the_parts_then_all_of_them(regression, force_training, training):
    force_training(training)
    X, Y = regression
    problem, parts = Problem(X, Y, None, True), np.array_split(np.arange(len(X)), 5)
    run = Nystroem(X[:20]).start(problem, [RBF(0.3)], Workload(1, 1, 5))
    whole, model = run.model(RBF(0.3)).heldout(parts, [0.1]), run.model(RBF(0.3))
    some = model.heldout(parts[:2], [0.1])  # the groups of all parts are known
    for found, expected in zip([*some, *model.heldout(parts, [0.1])], [*whole[:2], *whole]):
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("training", ["factors", "whitened sums", "sums"])
@pytest.mark.parametrize("method", ["kmeans", "uniform", "rpcholesky"])
def test_kernels_whose_squares_overflow(regression, force_training, training, method):
    force_training(training)
    X, Y = regression
    machine = LSSVR("polynomial", approximation=Nystroem(10, method=method))
    if training != "sums":  # which square the kernel
        assert np.all(np.isfinite(machine.fit(1e40 * X, Y).predict(1e40 * X)))
    for scale in (1e40, 1e80) if training == "sums" else (1e80,):
        with pytest.raises(ValueError, match="infinite values"):
            machine.fit(scale * X, Y)
