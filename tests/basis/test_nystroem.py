"""The basis model through the estimators, against literal refits."""

import numpy as np
import pytest
import scipy.sparse
from basis_twins import fit_literally, rbf
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit
from threadpoolctl import threadpool_limits

import onefold.approximations.nystroem_models as models_module
from onefold import LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Nystroem, Problem, Workload
from onefold.basis.folds import NearbyPath
from onefold.heldout import GapKFold
from onefold.kernels import RBF

GAMMA = 0.15
ALPHAS = [1e-4, 0.1, 30.0]


def _heldout_literally(X, Y, Z, splits, alphas, *, intercept=True, weight=None, gamma=GAMMA):
    Phi = rbf(X, Z, gamma)
    W = rbf(Z, Z, gamma)
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
TRAININGS = pytest.mark.parametrize("training", ["factors", "whitened sums", "sums"])
ROUTES = [  # how folds are left out, and from how many rows on a direction they are solved for directly
    ("factors", "factors", None),
    ("factors", "block", None),
    ("whitened sums", "subtraction", None),
    ("sums", "subtraction", 10**9),
    ("sums", "subtraction", 0),  # by iteration from the whole model
    ("sums", "block", None),
    ("sums", "each set", None),
]


@pytest.mark.parametrize(("training", "route", "least"), ROUTES)
@pytest.mark.parametrize("name", sorted(SPLITTERS))
@pytest.mark.parametrize("weighted", [False, True])
def test_heldout_is_the_literal_refit(
    regression, monkeypatch, force_training, name, training, route, least, weighted
):
    X, Y = regression
    weight = np.random.default_rng(5).uniform(0.2, 4, len(X)) if weighted else None
    force_training(training)
    if training == "factors":
        monkeypatch.setattr(models_module, "_REFIT_WORK", 10**12 if route == "factors" else 0)
    else:
        monkeypatch.setattr(models_module.SummedModel, "_route", lambda self, parts: route)
    if least is not None:
        monkeypatch.setattr("onefold.basis.folds._ROWS_PER_DIRECTION", least)
    splits = list(SPLITTERS[name].split(X))
    intercept = name != "random"
    parts = _parts(splits, len(X))
    tests = [test for _, test in splits]
    model = _model(X, Y, X[:20], weight=weight, intercept=intercept)
    got = model.heldout(parts, ALPHAS)
    assert model.report["training"] == training
    assert model.report["heldout"] == route
    if least == 0:
        path = model._without(model.source.grouped_by(parts)).paths[0]
        assert isinstance(path, NearbyPath)
        # "time" leaves few rows: solved directly
        assert path.by_iteration(ALPHAS) is not None or name == "time"
    errors = model.heldout_squared_error(parts, tests, ALPHAS)
    assert (errors is None) == ((training, route) == ("factors", "block"))  # which has predictions alone
    expected = _heldout_literally(X, Y, X[:20], splits, ALPHAS, intercept=intercept, weight=weight)
    for split, (rows, test, values, literal) in enumerate(zip(parts, tests, got, expected)):
        # Blocks of sums solve with I − H, which a tiny ridge brings close to singular.
        tolerance = 1e-6 if route == "block" else 1e-7
        np.testing.assert_allclose(values[:, np.searchsorted(rows, test)], literal, atol=tolerance)
        if errors is not None:
            squared = ((literal - Y[test]) ** 2).mean(axis=2)
            error = np.average(squared, axis=1, weights=None if weight is None else weight[test])
            np.testing.assert_allclose(errors[:, split], error, rtol=1e-6)


@pytest.mark.parametrize("training", ["factors", "whitened sums"])
def test_some_of_the_planned_parts_need_no_further_pass(
    regression, monkeypatch, force_training, training
):
    """Groups are those of the planned parts, whatever is asked first; other sets have their own."""
    force_training(training)
    X, Y = regression
    parts = [test for _, test in KFold(5).split(X)]
    others = [test for _, test in KFold(3).split(X)]
    problem = Problem(X, Y, None, True)
    load = Workload(alphas=len(ALPHAS), folds=5, parts=parts)
    run = Nystroem(X[:20]).start(problem, [RBF(GAMMA)], load)
    first = run.model(RBF(GAMMA))
    second = run.model(RBF(GAMMA))
    second.heldout(others, ALPHAS)
    np.testing.assert_array_equal(first.expansion(0.1).coef, second.expansion(0.1).coef)
    expected = first.heldout(parts, ALPHAS)
    for values, literal in zip(
        second.heldout(others, ALPHAS), _model(X, Y, X[:20]).heldout(others, ALPHAS)
    ):
        np.testing.assert_allclose(values, literal, atol=1e-9)
    second.heldout(parts, ALPHAS)
    monkeypatch.setattr(models_module, "collect", None)
    monkeypatch.setattr(models_module.FactoredModel, "_factor", None)
    for model in (first, second):
        for values, number in zip(model.heldout([parts[3], parts[1]], ALPHAS), (3, 1)):
            np.testing.assert_allclose(values, expected[number], atol=1e-12)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@TRAININGS
def test_leave_one_out_by_leverage(regression, force_training, training, intercept, weighted):
    force_training(training)
    X = regression[0][:60]
    Y = regression[1][:60]
    weight = np.random.default_rng(5).uniform(0.2, 4, 60) if weighted else None
    splits = [(np.delete(np.arange(60), i), np.array([i])) for i in range(60)]
    model = _model(X, Y, X[:12], weight=weight, intercept=intercept)
    expected = _heldout_literally(X, Y, X[:12], splits, ALPHAS, intercept=intercept, weight=weight)
    np.testing.assert_allclose(model.leave_one_out(ALPHAS), np.concatenate(expected, axis=1), atol=1e-6)


def test_squared_error_withdraws_when_it_would_cancel(regression, force_training):
    X, _ = regression
    Y = rbf(X, X[:1], GAMMA)  # a function of the basis: next to no ridge, next to no error
    splits = list(KFold(3).split(X))
    parts = _parts(splits, len(X))
    tests = [test for _, test in splits]
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


def test_single_precision_reaches_the_double_precision_score_and_tiny_ridges_do_not_blow_up():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 5)).astype(np.float32)
    y = np.sin(X).sum(axis=1) + 0.1 * rng.standard_normal(1500)
    settings = {"gammas": [2.0**-15, 2.0**-7, 2.0**-3, 0.5, 2.0**5], "cv": 3}
    single, double = (
        LSSVRCV(**settings, approximation=Nystroem(120, "uniform")).fit(X.astype(dtype), y)
        for dtype in (np.float32, np.float64)
    )
    every = [fitted.cv_results_["mean_test_score"] for fitted in (single, double)]
    np.testing.assert_allclose(every[0], every[1], rtol=1e-4)
    settings |= {"gammas": [2.0**-15, 2.0**-9], "alphas": [1e-12, 1e-8]}
    tiny = LSSVRCV(**settings, approximation=Nystroem(300, "uniform")).fit(X[:, :3], y)
    assert np.all(tiny.cv_results_["mean_test_score"] > -y.var())
    assert tiny.approximation_["fitted_with"]["cut_directions"] > 0


@pytest.mark.filterwarnings("error::RuntimeWarning")
@TRAININGS
@pytest.mark.parametrize("method", ["kmeans", "uniform", "rpcholesky"])
def test_kernels_whose_squares_overflow(regression, force_training, training, method):
    force_training(training)
    X, Y = regression
    machine = LSSVR("polynomial", approximation=Nystroem(10, method=method))
    if training != "sums":  # which square the kernel
        assert np.all(np.isfinite(machine.fit(1e40 * X, Y).predict(1e40 * X)))
    for scale in (1e40, 1e80) if training == "sums" else (1e80,):
        with pytest.raises(ValueError, match="NaN or infinite"):
            machine.fit(scale * X, Y)


def test_the_default_landmarks_and_as_many_as_rows(regression):
    X, Y = regression
    some, sparse = (
        LSSVR(gamma=GAMMA, approximation=Nystroem(30)).fit(rows, Y)
        for rows in (X, scipy.sparse.csr_array(X))
    )
    assert some.approximation_["method"] == "kmeans"
    assert sparse.approximation_["method"] == "rpcholesky"
    rows = LSSVR(gamma=GAMMA, approximation=Nystroem(10**6)).fit(X, Y)
    np.testing.assert_allclose(rows.predict(X), LSSVR(gamma=GAMMA).fit(X, Y).predict(X), atol=1e-6)


@pytest.mark.parametrize(
    "test",
    [np.repeat(np.arange(107, 132), 2), np.repeat(np.arange(107, 120), 3), np.arange(156, 106, -1)],
    ids=["repeated, as many as left out", "repeated", "unordered"],
)
def test_squared_error_counts_test_rows_as_often_as_the_splitter(regression, test):
    X, Y = regression
    train = np.arange(107)
    cv = [(train, test)]
    found = LSSVRCV(gammas=[GAMMA], alphas=[0.1], cv=cv, approximation=Nystroem(X[:40])).fit(X, Y)
    [values] = _heldout_literally(X, Y, X[:40], cv, [0.1])
    assert found.best_score_ == pytest.approx(-np.mean((Y[test] - values[0]) ** 2), rel=1e-8)


# -- ding2012's Algorithm 1, in its n × n form, and the error bound ----------------------------------
RANK = 12
C = 30


def _low_rank(X, Z, rank=RANK):
    """K̃ = C W_k⁺ Cᵀ, n × n."""
    values, vectors = np.linalg.eigh(rbf(Z, Z, GAMMA))
    pseudo = (vectors[:, -rank:] / values[-rank:]) @ vectors[:, -rank:].T
    return rbf(X, Z, GAMMA) @ pseudo @ rbf(Z, X, GAMMA)


def _algorithm_1(X, Z, Y, mu, train, *, intercept=True, weight=None):
    """Dense: solve (K̃ + μ V⁻¹) [ρ, ν] = [1, y] on the training rows, then b and α."""
    K = _low_rank(X, Z)[np.ix_(train, train)]
    ridge = mu * np.eye(len(train)) if weight is None else mu * np.diag(1 / weight[train])
    solved = np.linalg.solve(K + ridge, np.column_stack([np.ones(len(train)), Y[train]]))
    rho = solved[:, :1]
    nu = solved[:, 1:]
    b = nu.sum(axis=0) / rho.sum() if intercept else np.zeros(Y.shape[1])
    return nu - rho * b[None], b


def _settings(Z, **more):
    return Nystroem(Z, rank=RANK, predict="rows", **more)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("estimator", [LSSVR, KernelRidge])
def test_fit_is_algorithm_1(regression, estimator, weighted):
    X, Y = regression
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X)) if weighted else None
    rows = np.sort(np.random.default_rng(4).choice(len(X), C, replace=False))
    drawn = Nystroem(C, "uniform", rank=RANK, predict="rows", random_state=4)
    for Z, approximation in ((X[:C], _settings(X[:C])), (X[rows], drawn)):
        fitted = estimator(gamma=GAMMA, alpha=0.3, approximation=approximation).fit(X, Y, weight)
        dual, b = _algorithm_1(
            X, Z, Y, 0.3, np.arange(len(X)), intercept=estimator is LSSVR, weight=weight
        )
        np.testing.assert_allclose(fitted.expansion_.coef, dual, atol=1e-8)
        np.testing.assert_allclose(fitted.expansion_.intercept, b, atol=1e-8)
        np.testing.assert_allclose(fitted.predict(X), rbf(X, X, GAMMA) @ dual + b, atol=1e-7)


@TRAININGS
def test_bound_holds_for_the_model_it_speaks_of(regression, force_training, training):
    """Without an intercept, so that "the same b" is exact."""
    X, Y = regression
    force_training(training)
    exact = KernelRidge(gamma=GAMMA, alpha=0.5).fit(X, Y)
    low = KernelRidge(gamma=GAMMA, alpha=0.5, approximation=_settings(X[:C])).fit(X, Y)
    norm = np.linalg.norm(rbf(X, X, GAMMA) - _low_rank(X, X[:C]), 2)
    assert low.approximation_["kernel_error"] == pytest.approx(norm, rel=0.05)
    assert 0 < np.abs(exact.predict(X) - low.predict(X)).max() <= low.approximation_["decision_bound"]


@pytest.mark.parametrize("alpha", [0.5, 50.0])
def test_bound_holds_for_weights_of_different_size(regression, alpha):
    """Most of the weight on a row that no landmark is near; equal weights would give too low a bound."""
    X, Y = regression
    weight = 10.0 ** np.random.default_rng(0).uniform(-3, 0, len(X))
    X = np.vstack([X[:-1], np.full((1, X.shape[1]), 9.0)])
    weight[-1] = 300.0
    weight /= weight.mean()
    exact = KernelRidge(gamma=GAMMA, alpha=alpha).fit(X, Y, weight)
    low = KernelRidge(gamma=GAMMA, alpha=alpha, approximation=_settings(X[:C])).fit(X, Y, weight)
    found = low.approximation_
    change = np.abs(exact.predict(X) - low.predict(X)).max()
    assert change <= found["decision_bound"]
    equal = np.sqrt(len(X)) * np.linalg.norm(Y, axis=0).max() * found["kernel_error"] / alpha**2
    assert (change > equal) == (alpha == 50.0)


def test_bound_counts_the_intercept(regression):
    """κ √n (‖y‖ + |b| √n) ‖K − K̃‖₂ / μ² of targets about their mean; the largest of two targets."""
    X, Y = regression
    mu = np.array([0.5, 0.1])
    targets = Y - 20.0
    fitted = LSSVR(gamma=GAMMA, alpha=mu, approximation=_settings(X[:C])).fit(X, targets)
    mean = targets.mean(axis=0)
    found = fitted.approximation_
    root = np.sqrt(len(X))
    shift = np.abs(fitted.expansion_.intercept - mean)
    assert shift.max() > 0.01
    literal = (
        root * (np.linalg.norm(targets - mean, axis=0) + shift * root) * found["kernel_error"] / mu**2
    )
    assert found["decision_bound"] == pytest.approx(literal.max())


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda X, Y: Nystroem(method="best"), "method"),
        (lambda X, Y: Nystroem(predict="all"), "predict"),
        (lambda X, Y: Nystroem(n_components=0), "n_components"),
        (lambda X, Y: Nystroem(n_components="many"), "n_components"),
        (lambda X, Y: LSSVR(approximation=Nystroem(np.ones((4, 2)))).fit(X, Y), "4 features"),
        (lambda X, Y: LSSVR(approximation=Nystroem(np.full((4, 4), np.nan))).fit(X, Y), "NaN"),
        (lambda X, Y: LSSVR("precomputed", approximation=Nystroem(2)).fit(X @ X.T, Y), "exact"),
        (lambda X, Y: LSSVR("precomputed", approximation="cg").fit(X @ X.T, Y), "exact"),
    ],
)
def test_what_cannot_be_is_refused(regression, act, words):
    with pytest.raises(ValueError, match=words):
        act(*regression)


# -- one thread or several, the digits are the same ---------------------------------------------------
GRID = {"gammas": [0.05, 0.4], "alphas": [1e-3, 1.0], "cv": 3}


@TRAININGS
@pytest.mark.parametrize(
    "machine",
    [
        LSSVRCV(**GRID, approximation=Nystroem(40)),
        LSSVRCV(**GRID | {"cv": "loo"}, approximation=Nystroem(40, "rpcholesky")),
        LSSVRCV(**GRID, criterion="r2", approximation=Nystroem(40, "uniform", rank=20, predict="rows")),
    ],
    ids=["kmeans", "rpcholesky", "all rows"],
)
def test_threads_change_no_digit(regression, monkeypatch, force_training, training, machine):
    """Sums of many pieces, though the rows are few; products may run on several BLAS threads."""
    force_training(training)
    monkeypatch.setattr("onefold.rows.base.TASK_ROWS", 16)
    X, Y = regression
    weight = np.random.default_rng(5).uniform(0.2, 4, len(X))

    def numbers(rows, jobs):
        found = machine.set_params(n_jobs=jobs).fit(rows, Y, weight)
        values = found.cv_results_["mean_test_score"], found.heldout_prediction_
        return [found.expansion_.coef, found.expansion_.intercept, *values]

    with threadpool_limits(2, "blas"):
        for rows in (X, X.astype(np.float32)):
            for one, three in zip(numbers(rows, 1), numbers(rows, 3)):
                np.testing.assert_array_equal(one, three)
