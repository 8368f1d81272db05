"""Several criteria in one search: each as in a search of its own, with nothing factorised twice."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, LeaveOneOut, RepeatedKFold

import onefold.approximations.exact as exact_model
from onefold import LSSVC, LSSVCCV, LSSVRCV, KernelRidgeCV
from onefold.approximations import Circulant, Exact, Grid, Nystroem, Toeplitz
from onefold.linalg import dense

pytestmark = pytest.mark.filterwarnings("ignore::onefold.search.GridEdgeWarning")
RNG = np.random.default_rng(5)
N = 60
X = RNG.standard_normal((N, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.standard_normal(N) + 2.0
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, [1.6, 2.4])]
WEIGHTS = RNG.uniform(0.3, 2.0, N)
FEW = [0.01, 0.3, 5.0]
MANY = 2.0 ** np.arange(-9, 6)
NUMBERS = ["mse", "press", "span", "gcv", "evidence", "cost", "radius_margin", "r2", "mape", "cov"]


def largest(estimator, rows, y):
    """A scorer that is a function."""
    return -float(np.abs(estimator.predict(rows) - y).max())


def score(estimator, rows, y):
    """One that has the name of the first one's columns."""
    return largest(estimator, rows, y)


PAIRS = list(RepeatedKFold(n_splits=3, n_repeats=2, random_state=0).split(X))
WRONG = ["error", "accuracy", "span", "radius_margin", "f1_macro"]
LINE = np.linspace(0, 1, N)[:, None]
GRID = {"gammas": [0.1, 1.0], "alphas": FEW}
CIRCLE = {"gammas": [0.5, 1.5], "alphas": [1e-3, 2.0, 9.0], "cv": 3}
GIVEN = Circulant(spacing=1.0, order="given", validate="kernel")
SMOOTH = ["mse", "press", "neg_mean_absolute_error", "mape", "gcv"]
CASES = [  # estimator, criteria, targets, tolerance, settings; by Cholesky factors, or by eigenvalues
    *(
        (kind, [*NUMBERS, largest], Y, 1e-10, GRID | {"alphas": alphas, "weight": weight})
        for kind in (LSSVRCV, KernelRidgeCV)
        for alphas in (FEW, MANY)
        for weight in (None, WEIGHTS)
    ),
    *((LSSVRCV, [first, "mse", "span"], Y, 1e-10, GRID) for first in ("press", "gcv", "r2", "mape")),
    (LSSVCCV, WRONG, LABELS, 1e-10, GRID | {"kernel": ["rbf", "laplacian"]}),
    (LSSVCCV, WRONG, LABELS, 1e-10, {"gammas": [0.1], "alphas": MANY}),
    *((LSSVRCV, SMOOTH, Y, 1e-10, GRID | {"cv": cv}) for cv in ("loo", LeaveOneOut(), PAIRS)),
    *(
        (LSSVRCV, criteria, Y, rtol, CIRCLE | {"approximation": approximation})
        for criteria, rtol, approximation in [
            (["mse", "press", "span", "r2"], 1e-8, Nystroem(12)),
            (["r2", "mse", "mape"], 1e-8, Nystroem(12)),
            ([*NUMBERS, largest], 1e-8, Nystroem(12)),
            (["mse", "press", "span", "gcv"], 1e-8, Nystroem(12, predict="rows")),
            (["mse", "gcv", "press", "evidence", "radius_margin"], 1e-9, Circulant(spacing=1.0)),
            (["mse", "gcv", "r2"], 1e-9, GIVEN),
        ]
    ),
    (LSSVRCV, ["mse", "press", "gcv"], Y, 1e-8, GRID | {"approximation": Toeplitz(), "rows": LINE}),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("kind", "criteria", "y", "rtol", "settings"), CASES)
def test_each_is_as_in_a_search_of_its_own(kind, criteria, y, rtol, settings):
    given = {key: value for key, value in settings.items() if key not in ("weight", "rows")}

    def fit(criterion):
        model = kind(criterion=criterion, **given)
        return model.fit(settings.get("rows", X), y, sample_weight=settings.get("weight"))

    several = fit(criteria)
    alone = [fit(criterion) for criterion in criteria]
    found = several.cv_results_
    for number, (criterion, one) in enumerate(zip(criteria, alone)):
        name = criterion if isinstance(criterion, str) else criterion.__name__
        own = name if number else "score"
        keys = [key for key in one.cv_results_ if "_test_" in key]
        names = [key.replace("_test_score", f"_test_{own}") for key in keys]
        assert {key for key in found if key.endswith(f"_test_{own}")} == set(names)
        for key, there in zip(keys, names):
            assert_allclose(found[there], one.cv_results_[key], rtol=rtol, atol=1e-12, err_msg=there)
    assert several.best_params_ == alone[0].best_params_
    assert several.best_score_ == pytest.approx(alone[0].best_score_, rel=rtol)
    if alone[0].heldout_prediction_ is None:
        assert several.heldout_prediction_ is None
    else:
        assert_allclose(several.heldout_prediction_, alone[0].heldout_prediction_, rtol=1e-9)


def counted(monkeypatch, module, name, calls):
    original = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *a, **k: calls.append(name) or original(*a, **k))


@pytest.mark.parametrize("alphas", [FEW, MANY], ids=["Cholesky", "eigenvalues"])
def test_nothing_is_factorised_or_predicted_for_the_others(alphas, monkeypatch):
    calls = []
    for module, name in [(dense, "cholesky"), (dense, "symmetric_eigh"), (exact_model, "_check_matrix")]:
        counted(monkeypatch, module, name, calls)
    settings = {"gammas": [0.1, 1.0], "alphas": alphas, "n_jobs": 1, "approximation": Exact()}
    LSSVRCV(**settings).fit(X, Y)
    alone = list(calls)
    calls[:] = []
    LSSVRCV(**settings, criterion=["mse", *NUMBERS[1:], largest]).fit(X, Y)
    assert calls == alone
    assert len(calls) == 2 * (1 + (len(FEW) if alphas is FEW else 1)) + 2  # and the final fit
    calls[:] = []
    LSSVRCV(**settings | {"alphas": FEW}, criterion="gcv").fit(X, Y)
    assert calls.count("cholesky") == 2 * len(FEW) + 1
    counted(monkeypatch, exact_model.ExactModel, "heldout", asked := [])
    LSSVRCV(**settings | {"alphas": MANY}, criterion=["mse", "r2", "mape", largest]).fit(X, Y)
    assert len(asked) == 2


def test_the_table_is_that_of_grid_search_cv():
    grid = {"gamma": [0.1, 1.0], "alpha": FEW}
    names = ["accuracy", "f1_macro"]
    theirs = (
        GridSearchCV(LSSVC(), grid, scoring=names, refit="accuracy", cv=4).fit(X, LABELS).cv_results_
    )
    found = LSSVCCV(**GRID, criterion=names, cv=4).fit(X, LABELS).cv_results_
    of_f1 = {key for key in theirs if key.endswith("_test_f1_macro")}
    assert {key for key in found if key.endswith("_test_f1_macro")} == of_f1
    for key in of_f1 - {"rank_test_f1_macro"}:
        assert_allclose(found[key], theirs[key], rtol=1e-9)
    assert found["rank_test_f1_macro"].dtype == np.int32
    criteria = ("mse", get_scorer("neg_mean_absolute_error"), get_scorer("r2"), largest)
    found = LSSVRCV(gammas=[1.0], alphas=FEW, criterion=criteria).fit(X, Y).cv_results_
    # Called by the names of their functions.
    assert {f"mean_test_{name}" for name in ("mean_absolute_error", "r2_score", "largest")} <= set(found)


def test_a_recorded_criterion_without_a_score_decides_nothing() -> None:
    def refuses(estimator, rows, y):
        raise ValueError("no")

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        found = LSSVRCV(gammas=[0.1, 1.0], alphas=MANY, criterion=["mse", refuses]).fit(X, Y)
    assert np.isnan(found.cv_results_["mean_test_refuses"]).all()
    assert set(found.cv_results_["rank_test_refuses"]) == {1}


@pytest.mark.parametrize(
    ("criterion", "settings", "words"),
    [
        ([], {}, "empty list"),
        (["mse", "press", "mse"], {}, "'mse' twice"),
        ([largest, largest], {}, "'largest' twice"),
        (["mse", score], {}, "'score' twice, or uses the name"),
        (["mse", "nonsense"], {}, "unknown criterion 'nonsense'"),
        ([["mse"], "press"], {}, "unknown criterion"),
        (["mse", "press"], {"metric": "diagonal"}, "takes one criterion"),
        (["gcv", "mse"], {"blend": True, "kernel": "auto"}, "blend needs held-out"),
        (["mse", "gcv"], {"approximation": Grid()}, "needs the residual operator"),
        (["mse", "press"], {"approximation": Grid()}, "no closed form for leave-one-out"),
    ],
)
@pytest.mark.filterwarnings("ignore:the rows are not a series")  # what they are does not matter here
def test_what_cannot_be_is_refused(criterion, settings, words):
    with pytest.raises(ValueError, match=words):
        LSSVRCV(criterion=criterion, **settings).fit(X, Y)
