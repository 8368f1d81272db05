"""Several criteria in one search: each as in a search of its own, with nothing factorised twice."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import get_scorer, make_scorer, mean_absolute_error
from sklearn.model_selection import GridSearchCV, LeaveOneOut, RepeatedKFold

import onefold.approximations.exact as exact_model
from onefold import LSSVC, LSSVCCV, LSSVRCV, KernelRidgeCV, linalg, trust
from onefold.approximations import Circulant, Exact, Nystroem, Toeplitz

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


@pytest.mark.parametrize("alphas", [FEW, MANY], ids=["Cholesky", "eigenvalues"])
@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["equal", "weights"])
@pytest.mark.parametrize("kind", [LSSVRCV, KernelRidgeCV])
def test_numbers(kind, weight, alphas) -> None:
    settings = {"gammas": [0.1, 1.0], "alphas": alphas, "weight": weight}
    same_as_alone(kind, [*NUMBERS, largest], Y, **settings)


@pytest.mark.parametrize("first", ["press", "gcv", "r2", "mape"])
def test_any_of_them_may_decide(first) -> None:
    others = [name for name in NUMBERS if name != first]
    same_as_alone(LSSVRCV, [first, *others], Y, gammas=[0.1, 1.0], alphas=FEW)


@pytest.mark.parametrize("alphas", [FEW, MANY], ids=["Cholesky", "eigenvalues"])
@pytest.mark.parametrize("kernel", ["rbf", ["rbf", "laplacian"]], ids=["one", "families"])
def test_labels(kernel, alphas) -> None:
    criteria = ["error", "accuracy", "span", "radius_margin", "f1_macro", "balanced_accuracy"]
    same_as_alone(LSSVCCV, criteria, LABELS, kernel=kernel, gammas=[0.1, 1.0], alphas=alphas)


@pytest.mark.parametrize("cv", ["loo", LeaveOneOut(), RepeatedKFold(n_splits=3, n_repeats=2)], ids=str)
def test_splitters(cv) -> None:
    cv = list(cv.split(X)) if isinstance(cv, RepeatedKFold) else cv
    criteria = ["mse", "press", "neg_mean_absolute_error", "mape", "gcv"]
    same_as_alone(LSSVRCV, criteria, Y, gammas=[0.1, 1.0], alphas=FEW, cv=cv)


@pytest.mark.parametrize(
    ("approximation", "criteria", "rtol"),
    [
        (Nystroem(12), ["mse", "press", "span", "r2"], 1e-8),
        (Nystroem(12), ["r2", "mse", "mape"], 1e-8),
        (Circulant(spacing=1.0), ["mse", "gcv", "press", "evidence"], 1e-9),
        (Circulant(spacing=1.0, order="given", validate="kernel"), ["mse", "gcv", "r2"], 1e-9),
    ],
)
def test_other_approximations(approximation, criteria, rtol) -> None:
    settings = {"gammas": [0.5, 1.5], "alphas": [1e-3, 2.0, 9.0], "approximation": approximation}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        same_as_alone(LSSVRCV, criteria, Y, rtol, **settings, cv=3)


def test_a_toeplitz_matrix() -> None:
    rows = np.linspace(0, 1, N)[:, None]
    settings = {"gammas": [5.0, 50.0], "alphas": FEW, "approximation": Toeplitz()}
    same_as_alone(LSSVRCV, ["mse", "press", "gcv"], Y, 1e-8, rows=rows, **settings)


def test_other_libraries() -> None:
    torch = pytest.importorskip("torch")
    settings = {"gammas": [0.1, 1.0], "alphas": FEW, "criterion": ["mse", "press", "r2", "gcv"]}
    here = LSSVRCV(**settings).fit(X, Y).cv_results_
    there = LSSVRCV(**settings).fit(torch.asarray(X), torch.asarray(Y)).cv_results_
    for key in [key for key in here if "_test_" in key]:
        assert_allclose(there[key], here[key], rtol=1e-9)


def counted(monkeypatch: Any, module: Any, name: str, calls: list[str]) -> None:
    original = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *a, **k: calls.append(name) or original(*a, **k))


@pytest.mark.parametrize("alphas", [FEW, MANY], ids=["Cholesky", "eigenvalues"])
def test_nothing_is_factorised_for_the_others(alphas, monkeypatch) -> None:
    calls: list[str] = []
    counted(monkeypatch, linalg, "cholesky", calls)
    counted(monkeypatch, linalg, "symmetric_eigh", calls)
    counted(monkeypatch, exact_model, "_check_matrix", calls)
    settings = {"gammas": [0.1, 1.0], "alphas": alphas, "n_jobs": 1, "approximation": Exact()}
    LSSVRCV(**settings).fit(X, Y)
    alone, calls[:] = list(calls), []
    LSSVRCV(**settings, criterion=["mse", *NUMBERS[1:], largest]).fit(X, Y)
    assert calls == alone
    assert len(calls) == 2 * (1 + (len(FEW) if alphas is FEW else 1)) + 2  # and the final fit


@pytest.mark.parametrize("criterion", ["gcv", "evidence", "cost"])
def test_a_criterion_that_asks_twice_has_each_ridge_factorised_once(criterion, monkeypatch) -> None:
    calls: list[str] = []
    counted(monkeypatch, linalg, "cholesky", calls)
    LSSVRCV(gammas=[0.1], alphas=FEW, criterion=criterion).fit(X, Y)
    assert len(calls) == len(FEW) + 1


def test_predictions_are_made_once(monkeypatch) -> None:
    calls: list[str] = []
    counted(monkeypatch, exact_model.ExactModel, "heldout", calls)
    LSSVRCV(gammas=[0.1, 1.0], alphas=MANY, criterion=["mse", "r2", "mape", largest]).fit(X, Y)
    assert len(calls) == 2


def test_the_table_is_that_of_grid_search_cv() -> None:
    names = {"accuracy": "accuracy", "f1_macro": "f1_macro"}
    grid = {"gamma": [0.1, 1.0], "alpha": FEW}
    theirs = GridSearchCV(LSSVC(), grid, scoring=names, refit="accuracy", cv=4).fit(X, LABELS)
    ours = LSSVCCV(gammas=[0.1, 1.0], alphas=FEW, criterion=["accuracy", "f1_macro"], cv=4)
    found = ours.fit(X, LABELS).cv_results_
    for key in [key for key in theirs.cv_results_ if key.endswith("_test_f1_macro")]:
        assert_allclose(found[key], theirs.cv_results_[key], rtol=1e-9)
    assert {key for key in found if key.endswith("_test_f1_macro")} == {
        *(f"split{i}_test_f1_macro" for i in range(4)),
        *(f"{kind}_test_f1_macro" for kind in ("mean", "std", "rank")),
    }
    assert found["rank_test_f1_macro"].dtype == np.int32


def test_scorers_go_by_the_names_of_their_functions() -> None:
    criteria = (
        "mse",
        make_scorer(mean_absolute_error, greater_is_better=False),
        get_scorer("r2"),
        largest,
    )
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


def test_rows_of_weight_0_and_two_threads() -> None:
    weight = WEIGHTS.copy()
    weight[[3, 40]] = 0.0
    settings = {"gammas": [0.1, 1.0], "alphas": FEW, "criterion": ["mse", "press", "r2"]}
    one, two = (LSSVRCV(**settings, n_jobs=n).fit(X, Y, sample_weight=weight) for n in (1, 2))
    for key in [key for key in one.cv_results_ if "_test_" in key]:
        assert one.cv_results_[key].tobytes() == two.cv_results_[key].tobytes()


def test_a_journal_keeps_several_criteria(tmp_path) -> None:
    settings = {"gammas": [0.1, 1.0], "alphas": FEW, "criterion": ["mse", "press", "r2"]}
    events: list[dict] = []
    one = LSSVRCV(**settings, checkpoint=tmp_path / "search").fit(X, Y)
    two = LSSVRCV(**settings, checkpoint=tmp_path / "search", callback=events.append).fit(X, Y)
    assert not events
    assert list(one.cv_results_) == list(two.cv_results_)
    for key in [key for key in one.cv_results_ if "_test_" in key]:
        assert one.cv_results_[key].tobytes() == two.cv_results_[key].tobytes()
    with pytest.raises(ValueError, match="differs in criterion"):
        LSSVRCV(**settings | {"criterion": "mse"}, checkpoint=tmp_path / "search").fit(X, Y)
