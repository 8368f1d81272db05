"""The basis model through the estimators, against literal refits."""

import numpy as np
import pytest
import scipy.sparse
from basis_twins import fit_literally, rbf
from scipy.sparse.linalg import eigsh
from sklearn.model_selection import KFold, RepeatedKFold, ShuffleSplit, TimeSeriesSplit

import onefold.approximations.nystroem_models as models_module
from onefold import LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Nystroem, Problem, Workload
from onefold.basis import Design, Whitening
from onefold.basis.error import decision_bound, kernel_error, largest_eigenvalue
from onefold.basis.ridge import NearbyPath
from onefold.heldout import GapKFold
from onefold.kernels import RBF
from onefold.rows import rows_of

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
        monkeypatch.setattr("onefold.basis.ridge._ROWS_PER_DIRECTION", least)
    splits, intercept = list(SPLITTERS[name].split(X)), name != "random"
    parts, tests = _parts(splits, len(X)), [test for _, test in splits]
    model = _model(X, Y, X[:20], weight=weight, intercept=intercept)
    got = model.heldout(parts, ALPHAS)
    assert model.report["training"] == training
    assert model.report["heldout"] == route
    if least == 0:
        path = model._known[-1].paths[0]
        assert isinstance(path, NearbyPath)
        assert path.own is None or name == "time"  # which leaves few rows: solved directly
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


def test_folds_that_differ_too_much_are_solved_directly(regression, monkeypatch, force_training):
    X, Y = regression
    force_training("sums")
    monkeypatch.setattr("onefold.basis.ridge._ROWS_PER_DIRECTION", 0)
    splits = [(np.arange(6), np.arange(6, len(X)))]  # far fewer rows than directions
    got = _model(X, Y, X[:60]).heldout(_parts(splits, len(X)), [1e-4])
    expected = _heldout_literally(X, Y, X[:60], splits, [1e-4])
    np.testing.assert_allclose(got[0], expected[0], atol=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@TRAININGS
def test_leave_one_out_by_leverage(regression, force_training, training, intercept, weighted):
    force_training(training)
    X, Y = regression[0][:60], regression[1][:60]
    weight = np.random.default_rng(5).uniform(0.2, 4, 60) if weighted else None
    splits = [(np.delete(np.arange(60), i), np.array([i])) for i in range(60)]
    model = _model(X, Y, X[:12], weight=weight, intercept=intercept)
    expected = _heldout_literally(X, Y, X[:12], splits, ALPHAS, intercept=intercept, weight=weight)
    np.testing.assert_allclose(model.leave_one_out(ALPHAS), np.concatenate(expected, axis=1), atol=1e-6)


@TRAININGS
def test_sets_that_were_grouped_before_change_nothing(regression, force_training, training):
    """Rows know the groups of the sets that they were asked for last; a model counts its own."""
    X, Y = regression
    force_training(training)
    splits = list(GapKFold(4, gap=3).split(X))
    parts, tests = _parts(splits, len(X)), [test for _, test in splits]
    plain, other = _model(X, Y, X[:20]), _model(X, Y, X[:20])
    expected = plain.heldout_squared_error(parts, tests, ALPHAS)
    other.source.grouped_by([*parts, *tests, np.arange(7), np.arange(5, 90)])
    some = other.heldout(parts[:2], ALPHAS)  # the groups of all parts are known
    np.testing.assert_allclose(other.heldout_squared_error(parts, tests, ALPHAS), expected, rtol=1e-8)
    whole = plain.heldout(parts, ALPHAS)
    for one, two in zip([*whole[:2], *whole], [*some, *other.heldout(parts, ALPHAS)]):
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


def test_more_groups_than_one_eigendecomposition_each_is_worth(regression):
    X, Y = regression
    splits = list(KFold(75).split(X))
    got = _model(X, Y, X[:20]).heldout(_parts(splits, len(X)), ALPHAS)
    for values, literal in zip(got, _heldout_literally(X, Y, X[:20], splits, ALPHAS)):
        np.testing.assert_allclose(values, literal, atol=1e-6)


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
        with pytest.raises(ValueError, match="infinite values"):
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


def test_squared_error_needs_no_prediction_pass(regression, monkeypatch):
    """A search by mse predicts held-out rows for the chosen cell only."""
    asked, original = [], models_module.FactoredModel.heldout

    def heldout(self, parts, alphas):
        asked.append(np.size(alphas))
        return original(self, parts, alphas)

    monkeypatch.setattr(models_module.FactoredModel, "heldout", heldout)
    LSSVRCV(gammas=[0.1, 0.3], cv=4, approximation=Nystroem(50)).fit(*regression)
    assert asked == [1]


@pytest.mark.parametrize(
    "test",
    [np.repeat(np.arange(107, 132), 2), np.repeat(np.arange(107, 120), 3), np.arange(156, 106, -1)],
    ids=["repeated, as many as left out", "repeated", "unordered"],
)
def test_squared_error_counts_test_rows_as_often_as_the_splitter(regression, test):
    (X, Y), train = regression, np.arange(107)
    cv = [(train, test)]
    found = LSSVRCV(gammas=[GAMMA], alphas=[0.1], cv=cv, approximation=Nystroem(X[:40])).fit(X, Y)
    [values] = _heldout_literally(X, Y, X[:40], cv, [0.1])
    assert found.best_score_ == pytest.approx(-np.mean((Y[test] - values[0]) ** 2), rel=1e-8)


# -- ding2012's Algorithm 1, in its n × n form, and the error bound ----------------------------------
RANK, C = 12, 30


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
    rho, nu = solved[:, :1], solved[:, 1:]
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


@pytest.mark.parametrize("criterion", ["mse", "r2"])
def test_cross_validation_refits_algorithm_1(regression, criterion):
    X, Y = regression
    cv = KFold(4, shuffle=True, random_state=0)
    fitted = LSSVRCV(
        gammas=[GAMMA], alphas=[0.05, 2.0], cv=cv, criterion=criterion, approximation=_settings(X[:C])
    ).fit(X, Y)
    for train, test in cv.split(X):
        dual, b = _algorithm_1(X, X[:C], Y, fitted.alpha_, train)
        literal = rbf(X[test], X[train], GAMMA) @ dual + b
        np.testing.assert_allclose(fitted.heldout_prediction_[test], literal, atol=1e-7)


def test_norm_from_a_sample_of_many_rows():
    X = np.random.default_rng(0).standard_normal((2500, 2))
    design = Design(RBF(1.0), X[:15])
    T = Whitening.of(design.inner()).T
    found = kernel_error(design, T, rows_of(X), seed=0)
    assert found["kernel_error_rows"] == 2048
    Phi = RBF(1.0)(X, X[:15]) @ T
    literal = eigsh(RBF(1.0)(X, X) - Phi @ Phi.T, 1, return_eigenvectors=False)[0]
    assert found["kernel_error"] == pytest.approx(literal, rel=0.15)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_krylov_vectors_find_the_largest_eigenvalue(scale):
    rng = np.random.default_rng(0)
    A, start = rng.standard_normal((40, 40)), rng.standard_normal(40)
    expected = np.linalg.norm(A, 2) ** 2
    value = largest_eigenvalue(lambda v: scale * (A @ (A.T @ v)), start) / scale
    assert expected * 0.99 < value <= expected * (1 + 1e-12)
    few = largest_eigenvalue(lambda v: scale * (A[:, :1] @ (A[:, :1].T @ v)), start) / scale
    assert few == pytest.approx(A[:, 0] @ A[:, 0], rel=1e-12)  # fewer directions than steps
    assert largest_eigenvalue(np.zeros_like, start) == 0.0


def test_bound_holds_for_the_model_it_speaks_of(regression):
    # No intercept, so that "the same b" is exact.
    X, Y = regression
    mu = 0.5
    exact = KernelRidge(gamma=GAMMA, alpha=mu).fit(X, Y)
    low = KernelRidge(gamma=GAMMA, alpha=mu, approximation=_settings(X[:C])).fit(X, Y)
    gap = np.abs(exact.predict(X) - low.predict(X)).max()
    norm = np.linalg.norm(rbf(X, X, GAMMA) - _low_rank(X, X[:C]), 2)
    found = {"kernel_error": norm, "largest_diagonal": 1.0}
    assert 0 < gap <= decision_bound(found, Y, np.zeros(2), mu)
    assert low.approximation_["decision_bound"] > gap


def test_bound_counts_the_intercept(regression):
    """κ √n (‖y‖ + |b| √n) ‖K − K̃‖₂ / μ², number by number; the largest of two targets."""
    small = np.array([[3.0, 0.0], [4.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    found = {"kernel_error": 0.25, "largest_diagonal": 3.0}
    first = 3.0 * 2.0 * (5.0 + 7.0 * 2.0) * 0.25 / 0.5**2
    second = 3.0 * 2.0 * (1.0 + 2.0 * 2.0) * 0.25 / 0.1**2
    for sign in (1.0, -1.0):
        bound = decision_bound(found, small, sign * np.array([7.0, -2.0]), np.array([0.5, 0.1]))
        assert bound == pytest.approx(max(first, second))
        one = decision_bound(found, small[:, :1], sign * np.array([7.0]), 0.5)
        assert one == pytest.approx(first)
    # What a fit reports is of targets about their mean: y and b enter by their difference alone.
    X, Y = regression
    fitted = LSSVR(gamma=GAMMA, alpha=0.5, approximation=_settings(X[:C])).fit(X, Y - 20.0)
    mean, found = (Y - 20.0).mean(axis=0), fitted.approximation_
    shift = fitted.expansion_.intercept - mean
    assert np.abs(shift).max() > 0.01
    literal = decision_bound({**found, "largest_diagonal": 1.0}, Y - 20.0 - mean, shift, 0.5)
    assert found["decision_bound"] == pytest.approx(literal)


@pytest.mark.parametrize("predict", ["landmarks", "rows"])
def test_the_kernel_error_is_that_of_the_final_model_alone(regression, monkeypatch, predict):
    """Expansions on the way, as of a learned metric's rounds, do not pay for it."""
    X, Y = regression
    found = []
    monkeypatch.setattr(
        models_module, "kernel_error", lambda *a, **k: found.append(kernel_error(*a, **k)) or found[-1]
    )
    _model(X, Y, X[:C], predict=predict).expansion(0.5)
    assert not found
    settings = {"gammas": [0.1, GAMMA], "cv": 3, "refit": "same"}
    fitted = LSSVRCV(**settings, approximation=Nystroem(X[:C], predict=predict)).fit(X, Y)
    [report] = found
    assert fitted.approximation_["fitted_with"]["kernel_error"] == report["kernel_error"]


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda X, Y: Nystroem(method="best"), "method"),
        (lambda X, Y: Nystroem(predict="all"), "predict"),
        (lambda X, Y: Nystroem(n_components=0), "n_components"),
        (lambda X, Y: Nystroem(n_components="many"), "n_components"),
        (lambda X, Y: LSSVR("precomputed", approximation=Nystroem(2)).fit(X @ X.T, Y), "exact"),
        (lambda X, Y: LSSVR("precomputed", approximation="cg").fit(X @ X.T, Y), "exact"),
        (lambda X, Y: LSSVRCV(cv="loo", approximation=_settings(X[:C])).fit(X, Y), "k-fold"),
    ],
)
def test_what_cannot_be_is_refused(regression, act, words):
    with pytest.raises(ValueError, match=words):
        act(*regression)


def test_settings_are_compared_by_value(regression):
    X, _ = regression
    assert Nystroem(X[:3]) == Nystroem(X[:3].copy()) != Nystroem(X[:4])
    assert hash(Nystroem(3)) == hash(Nystroem(3))
