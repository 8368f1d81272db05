"""Held-out rows of Toeplitz models, by the matrix or by the true kernel, against literal refits."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from scipy.linalg import toeplitz
from sklearn.base import clone
from sklearn.model_selection import KFold, ShuffleSplit, TimeSeriesSplit

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidgeCV, trust
from onefold.approximations import Problem, Toeplitz, Workload
from onefold.kernels import RBF, Linear
from onefold.kernels.tiles import gram
from tests.smoothers.dense_twin import refit, solve

pytestmark = pytest.mark.filterwarnings("ignore:the rows are not a series", "ignore:the search chose")
N = 40
RNG = np.random.default_rng(2)
X = RNG.normal(size=(N, 3))
Y = np.stack([X[:, 0] + X[:, 1] ** 2, 5 + np.sin(X[:, 2])], axis=1)
K = gram(RBF(0.5), X)


def averaged(K: Any) -> Any:
    """The Toeplitz matrix of the means of the diagonals."""
    return toeplitz([np.diagonal(K, j).mean() for j in range(len(K))])


def predicted(K: Any, Y: Any, border: Any, alpha: float, part: Any) -> Any:
    """The part by the true kernel, from the Toeplitz matrix of the other rows, as in decherchi2010."""
    train = np.setdiff1d(np.arange(len(K)), part)
    T = averaged(K[np.ix_(train, train)])
    inner = None if border is None else border[train]
    dual, intercept = solve(T, Y[train], inner, alpha, np.arange(len(train)))
    return K[np.ix_(part, train)] @ dual + intercept


SPLITTERS = {
    "folds": 4,
    "shuffled": KFold(3, shuffle=True, random_state=0),
    "loo": "loo",
    "half": ShuffleSplit(2, test_size=0.5, random_state=1),
    "series": TimeSeriesSplit(3),
}


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("estimator", [LSSVRCV, KernelRidgeCV])
@pytest.mark.parametrize("validate", ["auto", "kernel", "matrix"])
def test_held_out_rows_are_literal_refits(estimator: Any, splitter: str, validate: str) -> None:
    cv = SPLITTERS[splitter]
    border = np.ones(N) if estimator is LSSVRCV else None
    approximation = Toeplitz(validate=validate, negative="solve")
    settings = {"gammas": [0.5], "alphas": [0.02, 0.9], "intervals": None}
    model = estimator(approximation=approximation, cv=cv, **settings).fit(X, Y)
    alpha = model.alpha_
    splits = [(np.delete(np.arange(N), i), np.array([i])) for i in range(N)]
    if splitter != "loo":
        splits = list((KFold(4) if cv == 4 else cv).split(X))
    total = np.zeros_like(Y)
    count = np.zeros((N, 1))
    for train, test in splits:
        left_out = np.setdiff1d(np.arange(N), train)
        if validate == "matrix":
            literal = refit(averaged(K), Y, border, alpha, left_out)
        else:
            literal = predicted(K, Y, border, alpha, left_out)
        total[test] += literal[np.searchsorted(left_out, test)]
        count[test] += 1
    tested = count[:, 0] > 0
    assert_allclose(model.heldout_prediction_[tested], (total / count.clip(1))[tested], atol=1e-9)
    chosen = model.approximation_["selected_with"]
    assert chosen["validate"] == ("matrix" if validate == "matrix" else "kernel")
    assert model.approximation_["fitted_with"]["name"] == "exact"


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("kind", ["sparse", "precomputed", "linear", "float32"])
def test_kinds_of_rows_kernels_and_scales_of_targets(kind: str, scale: float) -> None:
    rows = X
    kernel = "rbf"
    gamma = [0.5]
    truth = K
    if kind == "sparse":
        rows = scipy.sparse.csr_matrix(X)
    elif kind == "precomputed":
        rows = K
        kernel = "precomputed"
        gamma = None
    elif kind == "linear":
        kernel = "linear"
        gamma = None
        truth = gram(Linear(), X)
    else:
        rows = X.astype(np.float32)
    settings = {"gammas": gamma, "alphas": [3.0], "cv": 4, "refit": "same", "intervals": None}
    y = scale * Y
    model = KernelRidgeCV(kernel, approximation=Toeplitz(negative="solve"), **settings).fit(rows, y)
    for _, part in KFold(4).split(X):
        literal = predicted(truth, y, None, 3.0, part)
        assert_allclose(model.heldout_prediction_[part], literal, rtol=1e-5, atol=1e-6 * scale)
    dual = np.linalg.solve(averaged(truth) + 3.0 * np.eye(N), y)
    assert_allclose(model.predict(rows), truth @ dual, rtol=1e-5, atol=1e-6 * scale)


def test_a_series_is_validated_by_its_matrix_unless_told_otherwise() -> None:
    x = np.linspace(0, 6, 60)[:, None]
    y = np.sin(x[:, 0])
    settings = {"gammas": [1.0], "alphas": [0.3], "intervals": None}
    by_matrix, exact = (LSSVRCV(approximation=a, **settings).fit(x, y) for a in (Toeplitz(), "exact"))
    assert by_matrix.approximation_["selected_with"]["validate"] == "matrix"
    assert_allclose(by_matrix.heldout_prediction_, exact.heldout_prediction_, atol=1e-8)
    by_kernel = LSSVRCV(
        approximation=Toeplitz(validate="kernel", negative="solve"), refit="same", **settings
    ).fit(x, y)
    assert by_kernel.approximation_["selected_with"]["validate"] == "kernel"
    full = gram(RBF(1.0), x)
    for _, part in KFold(5).split(x):
        literal = predicted(full, y[:, None], np.ones(60), 0.3, part)[:, 0]
        assert_allclose(by_kernel.heldout_prediction_[part], literal, atol=1e-8)
    # Without the first or the last fold the rows are an even series again, and all is exact.
    ends = np.r_[0:12, 48:60]
    assert_allclose(by_kernel.heldout_prediction_[ends], exact.heldout_prediction_[ends], atol=1e-8)
    several = LSSVRCV(["rbf", "linear"], approximation=Toeplitz(), alphas=[3.0], intervals=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert several.fit(x, y).approximation_["selected_with"]["validate"] == "kernel"


def test_leave_one_out_of_many_rows_is_refused_before_any_work(monkeypatch: Any) -> None:
    monkeypatch.setattr("onefold.approximations.toeplitz._MAX_LEFT_OUT", 30)
    monkeypatch.setattr("onefold.approximations.toeplitz.diagonal_means", pytest.fail)
    for settings in ({"cv": "loo"}, {"criterion": "press"}, {"criterion": ["press", "gcv"]}):
        with pytest.raises(ValueError, match=r"would need 40 Toeplitz matrices.*cv=5.*validate="):
            LSSVRCV(approximation="toeplitz", **settings).fit(X, Y)
    monkeypatch.undo()
    monkeypatch.setattr("onefold.approximations.toeplitz._MAX_LEFT_OUT", 30)
    grid = {"gammas": [0.5], "alphas": [1.0, 30.0], "intervals": None}
    for settings, approximation in (
        ({"cv": "loo"}, Toeplitz(validate="matrix")),
        ({"criterion": "gcv"}, Toeplitz()),
        ({"cv": [(np.arange(30), np.arange(30, 40))]}, Toeplitz()),
    ):
        LSSVRCV(approximation=approximation, **grid, **settings).fit(X, Y)
    LSSVRCV(approximation="toeplitz", cv="loo", **grid).fit(np.arange(40.0)[:, None], Y)


def test_fold_models_are_the_models_that_predicted_the_folds() -> None:
    y = Y[:, 0]
    settings = {"gammas": [0.5], "alphas": [1.0], "cv": 4, "refit": "same"}
    model = LSSVRCV(approximation=Toeplitz(negative="solve"), **settings).fit(X, y)
    assert model.approximation_["intervals"]["method"] == "cv+"
    by_fold = model.fold_models_.predict(X)
    for number, (_, part) in enumerate(KFold(4).split(X)):
        assert_allclose(by_fold[part, number, 0], model.heldout_prediction_[part], atol=1e-9)
    assert_allclose(model.conformity_scores_, np.abs(y - model.heldout_prediction_), atol=1e-9)
    grid = settings | {"gammas": None, "alphas": [3.0]}
    given = KernelRidgeCV("precomputed", approximation=Toeplitz(negative="solve"), **grid).fit(K, y)
    by_fold = given.fold_models_.predict(K)
    for number, (_, part) in enumerate(KFold(4).split(X)):
        assert_allclose(by_fold[part, number, 0], given.heldout_prediction_[part], atol=1e-9)
    single = LSSVR(gamma=0.5, alpha=1.0, approximation=Toeplitz(negative="solve"), intervals="cv+")
    assert single.fit(X, y).predict_interval(X, 0.5).shape == (N, 2)
    without = LSSVR(gamma=0.5, approximation=Toeplitz(validate="matrix"), intervals="cv+")
    with pytest.raises(ValueError, match="models trained without each fold"):
        without.fit(X, y)


def test_probabilities_of_one_model_come_from_fifths() -> None:
    labels = X[:, 0] > 0
    model = LSSVC(gamma=0.5, alpha=1.0, approximation=Toeplitz(negative="solve")).fit(X, labels)
    assert f"predictions of {N} of {N} rows" in model.approximation_["calibrated_with"]
    problem = Problem(X, np.where(labels, 1.0, -1.0)[:, None], None, True)
    fitted = Toeplitz(negative="solve").start(problem, [RBF(0.5)], Workload()).model(RBF(0.5))
    rows, values = fitted.left_out(np.arange(N), 1.0)
    for row, value in zip(rows, values):
        fifth = np.arange(row % 5, N, 5)
        literal = predicted(K, problem.targets, np.ones(N), 1.0, fifth)[row // 5]
        assert_allclose(value, literal, atol=1e-9)
    refused = Toeplitz().start(problem, [RBF(1e-3)], Workload()).model(RBF(1e-3))
    assert np.isnan(refused.left_out(np.arange(5), 1e-9)[1]).all()


def test_each_criterion_is_as_in_a_search_of_its_own() -> None:
    settings = {"gammas": [0.5, 2.0], "alphas": [0.01, 0.1, 1.0, 10.0], "intervals": None}
    both = LSSVRCV(approximation="toeplitz", criterion=["mse", "gcv"], **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = both.fit(X, Y).cv_results_
        for name in ("mse", "gcv"):
            alone = LSSVRCV(approximation="toeplitz", criterion=name, **settings).fit(X, Y)
            scores = alone.cv_results_["mean_test_score"]
            key = "mean_test_score" if name == "mse" else "mean_test_gcv"
            assert_allclose(found[key], scores, rtol=1e-8)


def test_the_trust_check_selects_as_the_paper_does() -> None:
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (300, 4))
    labels = np.where(np.linalg.norm(rows, axis=1) > 1.1, 1, -1)
    grid = {"gammas": [0.1, 1.0, 10.0, 100.0], "alphas": [0.1, 1.0, 10.0], "cv": 3}
    chooser = LSSVCCV(approximation=Toeplitz(negative="solve"), refit="same", **grid)
    found = trust(chooser, rows, labels, size=150, random_state=0)
    other = clone(chooser).set_params(approximation=Toeplitz(validate="matrix", negative="solve"))
    by_matrix = trust(other, rows, labels, size=150, random_state=0)
    # The choice on the same subsample and splits, cell by cell as in the paper.
    drawn = np.random.RandomState(0)
    picked = np.sort(
        np.concatenate(
            [
                drawn.choice(members, round(150 * members.size / 300), replace=False)
                for members in (np.flatnonzero(labels == label) for label in (-1, 1))
            ]
        )
    )
    alone = clone(chooser).fit(rows[picked], labels[picked])
    assert found.approximate == alone.best_params_
    assert alone.approximation_["selected_with"]["validate"] == "kernel"
    assert found.exact == by_matrix.exact
    assert found.approximate != by_matrix.approximate


@pytest.mark.parametrize(("setting", "value"), [("validate", "rows"), ("negative", "clip")])
def test_settings_are_checked(setting: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{setting} must be"):
        Toeplitz(**{setting: value})
    kept = clone(LSSVRCV(approximation=Toeplitz(validate="kernel"))).approximation
    assert kept == Toeplitz(validate="kernel")
