"""Criteria of the whole smoother against dense matrices, refits and a general solver."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.model_selection import KFold, LeaveOneOut

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Auto, Circulant, Grid, Nystroem, Problem, Toeplitz, registered
from onefold.criteria import SumCriterion
from onefold.criteria.closed import noise_variance, squared_radii
from tests.smoothers.dense_twin import smallest_ball

RNG = np.random.default_rng(11)
N = 24
X = RNG.standard_normal((N, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]]) + 0.2 * RNG.standard_normal((N, 2)) + 3.0
LABELS = np.digitize(Y[:, 0], [2.7, 3.4])
WEIGHTS = RNG.uniform(0.3, 2.0, N)
ALPHAS = [1e-3, 0.1, 3.0]
K = np.exp(-0.7 * ((X[:, None] - X[None]) ** 2).sum(-1))


def scores(chosen, criterion, y=Y, weights=None, rows=X, alphas=ALPHAS):
    model = chosen(gammas=[0.7], alphas=alphas, criterion=criterion)
    return model.fit(rows, y, sample_weight=weights).cv_results_["mean_test_score"]


def systems(bordered, weights=None):
    """(alpha, G, R) for every alpha: G = K + αV⁻¹ and R = α G⁻¹, without the constants."""
    v = np.ones(N) if weights is None else weights
    for alpha in ALPHAS:
        G = K + alpha * np.diag(1 / v)
        R = alpha * np.linalg.inv(G)
        if bordered:
            rho = R.sum(1)
            R = R - np.outer(rho, rho) / rho.sum()
        yield alpha, G, R


@pytest.mark.parametrize(("chosen", "bordered"), [(LSSVRCV, True), (KernelRidgeCV, False)])
def test_gcv_and_press(chosen, bordered) -> None:
    gcv = []
    press = []
    for _, _, R in systems(bordered):
        residuals = R @ Y
        gcv.append(-np.mean(residuals**2) / (np.trace(R) / N) ** 2)
        press.append(-np.mean((residuals / np.diagonal(R)[:, None]) ** 2))
    assert_allclose(scores(chosen, "gcv"), gcv, rtol=1e-9)
    assert_allclose(scores(chosen, "press"), press, rtol=1e-9)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weights"])
def test_evidence_is_the_best_gaussian_likelihood(weights) -> None:
    """Without an intercept of the targets, with one of their contrasts: the restricted likelihood."""
    y = Y[:, 0]
    contrasts = np.linalg.svd(np.ones((1, N)))[2][1:]
    for kind, map_ in ((KernelRidgeCV, np.eye(N)), (LSSVRCV, contrasts)):
        z = map_ @ y
        expected = []
        for _, G, _ in systems(False, weights):
            covariance = map_ @ G @ map_.T
            covariance *= z @ np.linalg.solve(covariance, z) / len(z)
            expected.append(multivariate_normal(np.zeros(len(z)), covariance).logpdf(z))
        if kind is KernelRidgeCV or weights is None:
            assert_allclose(scores(kind, "evidence", y, weights), expected, rtol=1e-9)
    if weights is None:
        assert_allclose(scores(LSSVRCV, "evidence", y + 100.0), expected, rtol=1e-6)


# -- span and radius-margin --------------------------------------------------------------------------


def each_from_all_others(fixed, y, weights, value):
    """`value(model, row)` of every row, from a model that was fitted without it."""
    found = []
    for alpha in ALPHAS:
        of_rows = []
        for row in range(N):
            rest = np.delete(np.arange(N), row)
            weight = None if weights is None else weights[rest]
            model = fixed(gamma=0.7, alpha=alpha).fit(X[rest], y[rest], sample_weight=weight)
            of_rows.append(value(model, row))
        found.append(np.average(of_rows, weights=weights))
    return found


def regression_step(model, row):
    return -np.abs(Y[row] - model.predict(X[row][None])[0]).mean()


def classification_step(model, row):
    """A smooth count of errors."""
    own = model.classes_ == LABELS[row] if len(model.classes_) == 3 else LABELS[row] > 0
    excess = -np.where(own, 1, -1) * model.decision_function(X[row][None])[0]
    return -np.mean(1 / (1 + np.exp(-5 * excess)))


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weights"])
@pytest.mark.parametrize(
    ("kind", "fixed", "y", "step"),
    [
        (LSSVRCV, LSSVR, Y, regression_step),
        (KernelRidgeCV, KernelRidge, Y, regression_step),
        (LSSVCCV, LSSVC, LABELS > 0, classification_step),
        (LSSVCCV, LSSVC, LABELS, classification_step),
    ],
)
def test_span_is_an_error_of_refits(kind, fixed, y, step, weights) -> None:
    expected = each_from_all_others(fixed, y, weights, step)
    assert_allclose(scores(kind, "span", y, weights), expected, rtol=1e-9)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 20),
    width=st.sampled_from([1e-4, 0.1, 1.0, 50.0]),
    scale=st.sampled_from([1e-200, 1e-12, 1.0, 1e12, 1e200]),
    repeated=st.booleans(),
)
def test_the_smallest_ball(seed, n, width, scale, repeated) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, 3))
    if repeated:
        rows[n // 2 :] = rows[: n - n // 2]
    kernel = np.exp(-width * ((rows[:, None] - rows[None]) ** 2).sum(-1))
    shifts = np.array([1e-4, 0.3, 20.0])[:, None] * rng.uniform(0.5, 2.0, (3, n))
    found = squared_radii(scale * kernel, scale * shifts) / scale
    expected = [smallest_ball(kernel + np.diag(shift)) for shift in shifts]
    assert_allclose(found, expected, rtol=1e-6)
    assert_allclose(squared_radii(np.ones((1, 1)), np.full((2, 1), 0.5)), 0.0)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weights"])
@pytest.mark.parametrize("kind", [LSSVRCV, KernelRidgeCV, LSSVCCV])
def test_radius_margin_by_dense_algebra(kind, weights) -> None:
    y = LABELS if kind is LSSVCCV else Y
    targets = np.where(LABELS[:, None] == np.arange(3), 1.0, -1.0) if kind is LSSVCCV else Y
    expected = []
    for alpha, G, R in systems(kind is not KernelRidgeCV, weights):
        dual = R @ targets / alpha
        expected.append(-smallest_ball(G) * np.trace(dual.T @ G @ dual) / targets.size)
    assert_allclose(scores(kind, "radius_margin", y, weights), expected, rtol=1e-6)


def test_radius_margin_by_cholesky_and_by_eigenvalues() -> None:
    many = 2.0 ** np.arange(-12, 6)
    one_by_one = [scores(LSSVRCV, "radius_margin", alphas=[alpha]) for alpha in many]
    assert_allclose(np.ravel(one_by_one), scores(LSSVRCV, "radius_margin", alphas=many), rtol=1e-7)


@pytest.mark.parametrize("criterion", ["span", "radius_margin"])
def test_no_variation_and_repeated_rows(criterion) -> None:
    assert_allclose(scores(LSSVRCV, criterion, np.full(N, 7.0)), 0.0)
    twice = np.repeat(X, 2, axis=0)
    y = np.repeat(Y, 2, axis=0)
    for rows in (twice, np.zeros_like(twice)):
        assert np.isfinite(scores(LSSVRCV, criterion, y, rows=rows)).all()


def test_span_of_landmarks_is_that_of_their_leave_one_out_predictions() -> None:
    settings = {"gammas": [0.7], "alphas": ALPHAS, "approximation": Nystroem(8), "cv": "loo"}
    span = LSSVRCV(**settings, criterion="span").fit(X, Y)
    error = LSSVRCV(**settings, criterion="neg_mean_absolute_error").fit(X, Y)
    key = "mean_test_score"
    assert_allclose(span.cv_results_[key], error.cv_results_[key], rtol=1e-9)


# -- what they need ----------------------------------------------------------------------------------


LINE = np.linspace(0, 1, 40)[:, None]
REFUSED = [
    ("evidence", Grid(), "needs the residual operator of all rows, which Grid"),
    ("press", Grid(), "no closed form for leave-one-out"),
    (
        "radius_margin",
        Auto(seconds=1e-9),
        r"Nystroem\(.*\) forms for up to 30 rows only, and there are 40",
    ),
    ("radius_margin", Nystroem(5), "forms for up to 30 rows only"),
    ("radius_margin", Toeplitz(), "forms for up to 30 rows only"),
    (["mse", "radius_margin"], Circulant(shape=(6, 7)), "forms for up to 30 rows only"),
]


@pytest.mark.parametrize(("criterion", "approximation", "words"), REFUSED)
def test_what_an_approximation_cannot_give_is_refused_before_any_work(
    criterion, approximation, words, monkeypatch, tmp_path
) -> None:
    for kind in (Nystroem, Grid, Toeplitz, Circulant):
        monkeypatch.setattr(kind, "model", pytest.fail)
        monkeypatch.setattr(kind, "max_rows_for_matrix", min(kind.max_rows_for_matrix, 30))
    monkeypatch.setattr(Nystroem, "share", pytest.fail)
    monkeypatch.setattr("onefold.approximations.auto._ALWAYS_EXACT", 2)
    path = tmp_path / "journal"
    machine = LSSVRCV(criterion=criterion, approximation=approximation, checkpoint=path)
    for ask in (machine.objective, machine.fit):
        with pytest.raises(ValueError, match=words):
            ask(LINE, np.sin(LINE[:, 0]))
    assert len(path.read_text().splitlines()) <= 1  # its mark alone


@pytest.mark.filterwarnings("ignore:the rows are not a series")
@pytest.mark.parametrize("name", sorted(set(registered()) - {"auto"}))
def test_an_error_rate_of_every_approximation_that_searches(name) -> None:
    """Criteria of regression: tests/compatibility."""
    rows = np.linspace(0, 1, 30)[:, None]
    labels = np.sin(6 * rows[:, 0]) + 0.1 * RNG.standard_normal(30) > 0
    kernel = "matern" if name == "state_space" else "rbf"
    settings = {"gammas": [50.0], "alphas": [1.0, 30.0], "refit": "same", "cv": 3}
    search = LSSVCCV(kernel, **settings, criterion="error", approximation=name)
    assert np.isfinite(search.fit(rows, labels).best_score_)


def test_a_scorer_that_asks_for_other_rows_is_told_why() -> None:
    def nosy(estimator, rows, y):
        return estimator.predict(rows[:1])[0]

    with pytest.raises(ValueError, match="only held-out rows"):
        LSSVRCV(criterion=nosy, gammas=[0.7], alphas=[1.0]).fit(X, Y[:, 0])


@pytest.mark.parametrize("cv", [LeaveOneOut(), KFold(8)])
def test_a_scorer_that_gives_nan_is_the_reason_for_it(cv):
    with (
        pytest.raises(ValueError, match=r"the criterion is NaN .* as R² is for a single row"),
        pytest.warns(UndefinedMetricWarning),
    ):
        LSSVRCV(gammas=[0.1], criterion="r2", cv=cv).fit(np.eye(8), np.arange(8.0))


def test_a_scorer_that_raises_for_one_cell_does_not_end_the_search():
    """Anything but a ValueError ended it; GridSearchCV gives the cell NaN, warns and goes on."""

    def divides(estimator, rows, y):
        error = float(np.mean((estimator.predict(rows) - y) ** 2))
        return -error if error > least else 1 / 0

    y = Y[:, 0]
    least = 0.0
    grid = {"gammas": [0.7], "alphas": [1e-3, 100.0]}
    plain = LSSVRCV(criterion=divides, **grid).fit(X, y)
    assert plain.alpha_ == 1e-3
    least = float(-plain.cv_results_["split0_test_score"][0])
    with pytest.warns(UserWarning, match=r"1 of 2 .* \(ZeroDivisionError: division by zero\)"):
        found = LSSVRCV(criterion=divides, **grid).fit(X, y)
    assert found.alpha_ == 100.0
    assert np.isnan(found.cv_results_["mean_test_score"]).tolist() == [True, False]

    def fails(estimator, rows, y):
        calls.append(None)
        raise KeyError(f"call {len(calls)}")

    calls = []
    with pytest.raises(ValueError, match=r"2 of 2 .* \(KeyError: 'call 1'\)"):
        LSSVRCV(criterion=fails, **grid).fit(X, y)


@pytest.mark.parametrize("step", ["terms", "from_means"])
def test_a_criterion_that_raises_for_one_kernel_does_not_end_the_search(step):
    """As for a scorer: the cells of that kernel have no score, and the reason is kept."""

    class Picky(SumCriterion):
        def terms(self, predictions, targets):
            self.seen = float(np.ptp(predictions))
            return self._checked((predictions - targets[None]) ** 2, "terms")

        def from_means(self, means):
            return self._checked(super().from_means(means), "from_means")

        def _checked(self, values, name):
            if name == step and self.seen < smallest:
                raise ZeroDivisionError("division by zero")
            return values

    y = Y[:, 0]
    grid = {"gammas": [1e-4, 0.7], "alphas": [0.1], "n_jobs": 1}
    smallest = 0.0
    plain = LSSVRCV(criterion=Picky(), **grid).fit(X, y)
    smallest = 0.05 * np.ptp(y)
    message = (
        r"1 of 2 .* the criterion fails on their predictions \(ZeroDivisionError: division by zero\)"
    )
    with pytest.warns(UserWarning, match=message):
        found = LSSVRCV(criterion=Picky(), **grid).fit(X, y)
    expected = np.where([True, False], np.nan, plain.cv_results_["mean_test_score"])
    assert_allclose(found.cv_results_["mean_test_score"], expected, rtol=0)
    recorded = LSSVRCV(criterion=["mse", Picky()], **grid).fit(X, y).cv_results_
    assert_allclose(recorded["mean_test_Picky"], expected, rtol=1e-12)
    assert np.isfinite(recorded["mean_test_score"]).all()

    smallest = np.inf
    with pytest.raises(ValueError, match=r"2 of 2 .* \(ZeroDivisionError"):
        LSSVRCV(criterion=Picky(), **grid).fit(X, y)


def test_the_noise_of_a_precomputed_kernel_is_that_of_neighbours_in_its_feature_space():
    """Neighbours were looked for among the rows of K, as if these were features."""
    rows = RNG.standard_normal((60, 2))
    scales = np.exp(RNG.standard_normal(60))  # k(x, x) is far from the same everywhere
    features = rows * scales[:, None]
    y = features[:, :1] + 0.1 * RNG.standard_normal((60, 1))
    gram = features @ features.T
    squares = ((features[:, None] - features[None]) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    literal = np.mean((y - y[squares.argmin(axis=1)]) ** 2, axis=0) / 2
    assert_allclose(noise_variance(Problem(features, y, None, True)), literal, rtol=1e-12)
    given = Problem(gram, y, None, True, precomputed=True)
    assert_allclose(noise_variance(given), literal, rtol=1e-12)
    settings = {"alphas": [0.1, 1.0], "criterion": "cost"}
    found = LSSVRCV("precomputed", **settings).fit(gram, y[:, 0])
    expected = LSSVRCV("linear", **settings).fit(features, y[:, 0])
    assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], rtol=1e-9
    )
