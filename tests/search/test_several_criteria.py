"""Several criteria in one search: each as in a search of its own, with nothing factorised twice."""

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import get_scorer, make_scorer, mean_absolute_error
from sklearn.model_selection import GridSearchCV, LeaveOneOut, RepeatedKFold

import onefold.approximations.exact as exact_model
from onefold import LSSVC, LSSVCCV, LSSVRCV, KernelRidgeCV, trust
from onefold.approximations import Circulant, Exact, Nystroem, Toeplitz
from onefold.linalg import dense

pytestmark = pytest.mark.filterwarnings("ignore::onefold.search.GridEdgeWarning")
RNG = np.random.default_rng(5)
N = 60
X = RNG.standard_normal((N, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * RNG.standard_normal(N) + 2.0
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, [1.6, 2.4])]
WEIGHTS = RNG.uniform(0.3, 2.0, N)
FEW, MANY = [0.01, 0.3, 5.0], 2.0 ** np.arange(-9, 6)
NUMBERS = ["mse", "press", "span", "gcv", "evidence", "cost", "radius_margin", "r2", "mape", "cov"]


def largest(estimator: Any, rows: Any, y: Any) -> float:
    """A scorer that is a function."""
    return -float(np.abs(estimator.predict(rows) - y).max())


def score(estimator: Any, rows: Any, y: Any) -> float:
    """One that has the name of the first one's columns."""
    return largest(estimator, rows, y)


def same_as_alone(kind: Any, criteria: list[Any], y: Any, rtol: float = 1e-10, **settings: Any) -> Any:
    """A search with several criteria, compared column by column with a search for each."""
    weight = settings.pop("weight", None)
    rows = settings.pop("rows", X)

    def fit(criterion: Any) -> Any:
        return kind(criterion=criterion, **settings).fit(rows, y, sample_weight=weight)

    several = fit(criteria)
    found = several.cv_results_
    for number, criterion in enumerate(criteria):
        alone = fit(criterion).cv_results_
        name = criterion if isinstance(criterion, str) else criterion.__name__
        own = "score" if not number else name
        names = {key: key.replace("_test_score", f"_test_{own}") for key in alone if "_test_" in key}
        assert {key for key in found if key.endswith(f"_test_{own}")} == set(names.values())
        for key, there in names.items():
            assert_allclose(found[there], alone[key], rtol=rtol, atol=1e-12, err_msg=there)
    first = fit(criteria[0])
    assert several.best_params_ == first.best_params_
    assert several.best_score_ == pytest.approx(first.best_score_, rel=rtol)
    if first.heldout_prediction_ is None:
        assert several.heldout_prediction_ is None
    else:
        assert_allclose(several.heldout_prediction_, first.heldout_prediction_, rtol=1e-9)
    return several


PAIRS = list(RepeatedKFold(n_splits=3, n_repeats=2, random_state=0).split(X))
WRONG = ["error", "accuracy", "span", "radius_margin", "f1_macro", "balanced_accuracy"]
LINE, GRID = np.linspace(0, 1, N)[:, None], {"gammas": [0.1, 1.0], "alphas": FEW}
CIRCLE = {"gammas": [0.5, 1.5], "alphas": [1e-3, 2.0, 9.0], "cv": 3}
GIVEN = Circulant(spacing=1.0, order="given", validate="kernel")
CASES = [  # estimator, criteria, targets, tolerance, settings; by Cholesky factors, or by eigenvalues
    *(
        (kind, [*NUMBERS, largest], Y, 1e-10, GRID | {"alphas": alphas, "weight": weight})
        for kind in (LSSVRCV, KernelRidgeCV)
        for alphas in (FEW, MANY)
        for weight in (None, WEIGHTS)
    ),
    *(
        (LSSVRCV, [first, *(name for name in NUMBERS if name != first)], Y, 1e-10, GRID)
        for first in ("press", "gcv", "r2", "mape")
    ),
    *(
        (LSSVCCV, WRONG, LABELS, 1e-10, GRID | {"kernel": kernel, "alphas": alphas})
        for kernel in ("rbf", ["rbf", "laplacian"])
        for alphas in (FEW, MANY)
    ),
    *(
        (
            LSSVRCV,
            ["mse", "press", "neg_mean_absolute_error", "mape", "gcv"],
            Y,
            1e-10,
            GRID | {"cv": cv},
        )
        for cv in ("loo", LeaveOneOut(), PAIRS)
    ),
    (LSSVRCV, ["mse", "press", "span", "r2"], Y, 1e-8, CIRCLE | {"approximation": Nystroem(12)}),
    (LSSVRCV, ["r2", "mse", "mape"], Y, 1e-8, CIRCLE | {"approximation": Nystroem(12)}),
    (
        LSSVRCV,
        ["mse", "gcv", "press", "evidence"],
        Y,
        1e-9,
        CIRCLE | {"approximation": Circulant(spacing=1.0)},
    ),
    (LSSVRCV, ["mse", "gcv", "r2"], Y, 1e-9, CIRCLE | {"approximation": GIVEN}),
    (LSSVRCV, ["mse", "press", "gcv"], Y, 1e-8, GRID | {"approximation": Toeplitz(), "rows": LINE}),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("kind", "criteria", "y", "rtol", "settings"), CASES)
def test_each_is_as_in_a_search_of_its_own(kind, criteria, y, rtol, settings) -> None:
    same_as_alone(kind, criteria, y, rtol, **settings)


def counted(monkeypatch: Any, module: Any, name: str, calls: list[str]) -> None:
    original = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *a, **k: calls.append(name) or original(*a, **k))


@pytest.mark.parametrize("alphas", [FEW, MANY], ids=["Cholesky", "eigenvalues"])
def test_nothing_is_factorised_for_the_others(alphas, monkeypatch) -> None:
    calls: list[str] = []
    counted(monkeypatch, dense, "cholesky", calls)
    counted(monkeypatch, dense, "symmetric_eigh", calls)
    counted(monkeypatch, exact_model, "_check_matrix", calls)
    settings = {"gammas": [0.1, 1.0], "alphas": alphas, "n_jobs": 1, "approximation": Exact()}
    LSSVRCV(**settings).fit(X, Y)
    alone, calls[:] = list(calls), []
    LSSVRCV(**settings, criterion=["mse", *NUMBERS[1:], largest]).fit(X, Y)
    assert calls == alone
    assert len(calls) == 2 * (1 + (len(FEW) if alphas is FEW else 1)) + 2  # and the final fit


@pytest.mark.parametrize("criterion", ["gcv", "evidence", "cost"])
def test_each_ridge_is_factorised_once_and_predictions_are_made_once(criterion, monkeypatch) -> None:
    calls: list[str] = []
    counted(monkeypatch, dense, "cholesky", calls)
    LSSVRCV(gammas=[0.1], alphas=FEW, criterion=criterion).fit(X, Y)
    assert len(calls) == len(FEW) + 1
    counted(monkeypatch, exact_model.ExactModel, "heldout", asked := [])
    LSSVRCV(gammas=[0.1, 1.0], alphas=MANY, criterion=["mse", "r2", "mape", largest]).fit(X, Y)
    assert len(asked) == 2


def test_the_table_is_that_of_grid_search_cv() -> None:
    names = {"accuracy": "accuracy", "f1_macro": "f1_macro"}
    grid = {"gamma": [0.1, 1.0], "alpha": FEW}
    theirs = (
        GridSearchCV(LSSVC(), grid, scoring=names, refit="accuracy", cv=4).fit(X, LABELS).cv_results_
    )
    found = LSSVCCV(**GRID, criterion=["accuracy", "f1_macro"], cv=4).fit(X, LABELS).cv_results_
    of_f1 = {key for key in theirs if key.endswith("_test_f1_macro")}
    assert {key for key in found if key.endswith("_test_f1_macro")} == of_f1
    for key in of_f1 - {"rank_test_f1_macro"}:
        assert_allclose(found[key], theirs[key], rtol=1e-9)
    assert found["rank_test_f1_macro"].dtype == np.int32
    absolute = make_scorer(mean_absolute_error, greater_is_better=False)
    criteria = ("mse", absolute, get_scorer("r2"), largest)  # called by the names of their functions
    found = LSSVRCV(gammas=[1.0], alphas=FEW, criterion=criteria).fit(X, Y).cv_results_
    for name in ("mean_absolute_error", "r2_score", "largest"):
        assert f"mean_test_{name}" in found


def test_a_recorded_criterion_without_a_score_decides_nothing() -> None:
    def refuses(estimator: Any, rows: Any, y: Any) -> float:
        raise ValueError("no")

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        found = LSSVRCV(gammas=[0.1, 1.0], alphas=MANY, criterion=["mse", refuses]).fit(X, Y)
    assert np.isnan(found.cv_results_["mean_test_refuses"]).all()
    assert set(found.cv_results_["rank_test_refuses"]) == {1}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"criterion": []}, "empty list"),
        ({"criterion": ["mse", "press", "mse"]}, "'mse' twice"),
        ({"criterion": [largest, largest]}, "'largest' twice"),
        ({"criterion": ["mse", score]}, "'score' twice, or after the first"),
        ({"criterion": ["mse", "nonsense"]}, "unknown criterion 'nonsense'"),
        ({"criterion": [["mse"], "press"]}, "unknown criterion"),
        ({"criterion": ["mse", None]}, "unknown criterion None"),
        ({"criterion": ["mse", "press"], "metric": "diagonal"}, "goes by one criterion"),
        ({"criterion": ["gcv", "mse"], "blend": True, "kernel": "auto"}, "blend needs held-out"),
        ({"criterion": ["mse", "gcv"], "approximation": Nystroem(5)}, "needs the whole smoother"),
        (
            {"criterion": ["mse", "radius_margin"], "approximation": Toeplitz()},
            "needs the kernel matrix",
        ),
    ],
)
def test_what_cannot_be_is_refused(settings, words) -> None:
    with pytest.raises(ValueError, match=words):
        LSSVRCV(**settings).fit(X, Y)


def test_a_blend_and_a_trust_check() -> None:
    both = ["mse", "r2", "press"]
    found = LSSVRCV("auto", gammas=[0.3, 1.0], alphas=FEW, criterion=both, blend=True).fit(X, Y)
    alone = LSSVRCV("auto", gammas=[0.3, 1.0], alphas=FEW, blend=True).fit(X, Y)
    assert_allclose(found.predict(X), alone.predict(X), rtol=1e-8)
    settings = {"gammas": [0.5, 1.5], "alphas": [1.0, 9.0], "approximation": Circulant()}
    folds = [(np.arange(0, N, 2), np.arange(1, N, 2)), (np.arange(1, N, 2), np.arange(0, N, 2))]
    for criteria in (["gcv", "mse"], ["mse", "gcv", "r2"]):
        several, alone = (
            trust(LSSVRCV(**settings, criterion=one, cv=folds), X, Y, size=40, random_state=0)
            for one in (criteria, criteria[0])
        )
        assert str(several) == str(alone)
