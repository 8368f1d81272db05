"""Learned metrics and blends on any table: shapes, scales, repeated rows, few rows, other containers."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.model_selection import KFold

from onefold import LSSVCCV, LSSVRCV, KernelRidgeCV
from onefold.linalg import to_numpy

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")

GRID = {"gammas": [0.3, 1.0, 3.0], "alphas": [0.01, 0.1, 1.0], "cv": 3, "max_rounds": 2}
ALL = {"kernel": "auto", "metric": "auto", "blend": True, **GRID}
RNG = np.random.default_rng(9)
X = RNG.standard_normal((50, 4))
Y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.standard_normal(50)
NEW = RNG.standard_normal((6, 4))


def fitted(X, y, kind=LSSVRCV, **options):
    return kind(**{**ALL, **options}).fit(X, y)


@cache
def plain(kind, rows):
    """The table as it is."""
    return fitted(X, Y, kind, metric_rows=rows)


def sound(model, X, y):
    """What every fit promises."""
    n, d = X.shape
    targets = model.expansion_.n_targets
    table = model.cv_results_
    assert table["params"][model.best_index_] == model.best_params_
    assert table["mean_test_score"][model.best_index_] == model.best_score_
    assert np.isfinite(model.best_score_)
    if model.metric_ is not None:
        assert model.metric_.shape in ((d,), (d, d))
        assert np.isfinite(model.metric_).all()
    if model.feature_importances_ is not None:
        assert model.feature_importances_.shape == (d,)
        assert_allclose(model.feature_importances_.sum(), 1.0)
        assert (model.feature_importances_ >= 0).all()
    assert model.heldout_prediction_.shape == ((n,) if targets == 1 else (n, targets))
    rounds = [one["round"] for one in model.metric_history_]
    assert min(rounds) == 0
    assert max(rounds) <= model.max_rounds
    assert all(one["weight"] > 0 for one in model.blend_)
    predicted = to_numpy(model.predict(X))
    assert predicted.shape == np.shape(y)
    if isinstance(model, LSSVCCV):
        assert set(predicted.tolist()) <= set(np.unique(y).tolist())
    else:
        assert np.isfinite(predicted).all()


@st.composite
def awkward(draw):
    """Few rows of few features: some constant, some repeated, some zero; any number of targets."""
    n, d = draw(st.integers(3, 24)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    X = rng.standard_normal((n, d))
    if draw(st.booleans()):
        X = np.round(X)
    if draw(st.booleans()):
        X[:, draw(st.integers(0, d - 1))] = draw(st.sampled_from([0.0, 7.5, -1e6]))
    if draw(st.booleans()):
        X = X[rng.integers(0, n, n)]
    what = draw(st.sampled_from(["number", "two", "constant", "labels", "classes"]))
    y = X.sum(axis=1) + rng.standard_normal(n)
    if what == "two":
        y = np.column_stack([y, rng.standard_normal(n)])
    elif what == "constant":
        y = np.full(n, 2.5)
    elif what in ("labels", "classes"):
        y = np.arange(n) % (2 if what == "labels" else 3)
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    options = {
        "metric_rows": draw(st.sampled_from([None, 1, 2, n - 1, n, n + 1])),
        "max_rounds": draw(st.integers(1, 2)),
        "metric": draw(st.sampled_from(["auto", "diagonal", "full"])),
        "gammas": draw(st.sampled_from([[1.0], [3.0, 0.3]])),
        "alphas": draw(st.sampled_from([[0.1], [1.0, 0.01, 0.1]])),
        "cv": draw(st.sampled_from([2, KFold(3), KFold(2, shuffle=True, random_state=0)])),
    }
    return X.astype(dtype), y, what, options


@settings(max_examples=40)
@given(awkward())
def test_any_small_table(case) -> None:
    X, y, what, options = case
    labels = what in ("labels", "classes")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the search chose")
            warnings.filterwarnings("ignore", "The least populated class")
            model = fitted(X, y, LSSVCCV if labels else LSSVRCV, **options)
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = None
    if refusal is not None:  # folds that cannot be made of so few rows
        assert labels
        assert "class" in refusal or "split" in refusal
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sound(model, X, y)


@pytest.mark.parametrize("kind", [LSSVRCV, KernelRidgeCV])
@pytest.mark.parametrize("rows", [None, 20])
@settings(max_examples=2)
@given(power=st.floats(-12, 12))
@example(power=12.0)
@example(power=-12.0)
def test_features_times_a_constant_change_nothing(kind, rows, power) -> None:
    """Widths are relative to the mean distance: the choice and the predictions are the same."""
    size = 10.0**power
    one, two = plain(kind, rows), fitted(size * X, Y, kind, metric_rows=rows)
    assert one.best_params_ == two.best_params_
    assert_allclose(one.predict(NEW), two.predict(size * NEW), rtol=1e-6, atol=1e-6)
    assert_allclose(one.feature_importances_, two.feature_importances_, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("rows", [None, 20])
def test_shifted_features_change_nothing(rows) -> None:
    one, two = plain(LSSVRCV, rows), fitted(X + 1e6, Y, metric_rows=rows)
    assert one.best_params_ == two.best_params_
    assert_allclose(one.predict(NEW), two.predict(NEW + 1e6), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [None, 20])
@pytest.mark.parametrize("size", [1e-130, 1e-12, 1e12, 1e130])
def test_targets_times_a_constant_change_nothing(size, rows) -> None:
    one, two = plain(LSSVRCV, rows), fitted(X, size * Y, metric_rows=rows)
    assert one.best_params_ == two.best_params_
    assert [m["round"] for m in one.blend_] == [m["round"] for m in two.blend_]
    assert_allclose(size * one.predict(NEW), two.predict(NEW), rtol=1e-6)
    assert_allclose(size * size * one.blend_score_, two.blend_score_, rtol=1e-6)


def test_shifted_targets_change_nothing() -> None:
    one, two = plain(LSSVRCV, None), fitted(X, Y + 1e6)
    assert one.best_params_ == two.best_params_
    assert_allclose(one.predict(NEW) + 1e6, two.predict(NEW), rtol=0, atol=1e-4)


def test_a_feature_that_says_nothing_loses_its_weight() -> None:
    one = LSSVRCV("rbf", metric="diagonal", **GRID).fit(X, np.sin(2 * X[:, 0]))
    assert one.best_params_["round"] > 0
    assert one.feature_importances_[0] > 0.9


def test_single_precision_is_close() -> None:
    one, two = plain(LSSVRCV, None), fitted(X.astype(np.float32), Y)
    assert one.best_params_ == two.best_params_
    assert_allclose(one.predict(NEW), two.predict(NEW.astype(np.float32)), atol=1e-3)


@pytest.mark.parametrize("kernel", ["auto", "rbf", ["matern12", "rbf"]], ids=str)
@pytest.mark.parametrize("rows", [None, 25])
def test_sparse_rows_have_the_diagonal_metric_of_dense_ones(kernel, rows) -> None:
    Z = np.where(np.abs(X) > 0.7, X, 0.0)
    options = {"kernel": kernel, "metric": "diagonal", "metric_rows": rows}
    sparse = fitted(sp.csr_array(Z), Y, **options)
    dense = fitted(Z, Y, **options | {"kernel": ["rbf", "matern12"] if kernel == "auto" else kernel})
    assert sparse.best_params_ == dense.best_params_
    assert_allclose(sparse.predict(sp.csr_array(Z)), dense.predict(Z), rtol=1e-6, atol=1e-6)
    assert_allclose(sparse.heldout_prediction_, dense.heldout_prediction_, rtol=1e-6, atol=1e-6)


def test_sparse_rows_have_no_full_metric() -> None:
    with pytest.raises(ValueError, match='use metric="diagonal", or dense rows'):
        fitted(sp.csr_array(X), Y, kernel="rbf", metric="full")
    auto = fitted(sp.csr_array(X), Y)
    assert {one["metric"] for one in auto.metric_history_} == {"none", "diagonal"}


@pytest.mark.parametrize("rows", [None, 25])
def test_tensors(rows) -> None:
    torch = pytest.importorskip("torch")
    host = plain(LSSVRCV, rows)
    there = fitted(torch.asarray(X), torch.asarray(Y), metric_rows=rows)
    assert host.best_params_ == there.best_params_
    predicted = there.predict(torch.asarray(NEW))
    assert isinstance(predicted, torch.Tensor)
    assert_allclose(to_numpy(predicted), host.predict(NEW), rtol=1e-6, atol=1e-6)
    assert_allclose(there.heldout_prediction_, host.heldout_prediction_, rtol=1e-6, atol=1e-6)
    assert isinstance(there.metric_, torch.Tensor)
    assert_allclose(there.feature_importances_, host.feature_importances_, rtol=1e-5)
    labels = torch.asarray(np.digitize(Y, [-0.5, 0.5]))
    sound(fitted(torch.asarray(X), labels, LSSVCCV), X, np.digitize(Y, [-0.5, 0.5]))


def test_classes_missing_from_folds() -> None:
    y = np.sort(np.digitize(Y, [-0.5, 0.5]))  # unshuffled folds: each lacks a class to train on
    for rows in (None, 20):
        model = fitted(X, y, LSSVCCV, cv=KFold(4), metric_rows=rows)
        sound(model, X, y)
    with pytest.raises(ValueError, match="one class only"):
        fitted(X, np.sort(Y > 0), LSSVCCV, cv=KFold(2))


@pytest.mark.parametrize("rows", [1, 2, 3, 49])
@pytest.mark.parametrize("kind", [LSSVRCV, LSSVCCV])
def test_metric_from_any_number_of_rows(kind, rows) -> None:
    y = Y if kind is LSSVRCV else (Y > 0).astype(int)
    model = fitted(X, y, kind, metric_rows=rows)
    sound(model, X, y)
    sizes = {one["rows"] for one in model.metric_history_}
    assert sizes <= set(range(2, max(rows, 2) + 2))


@pytest.mark.parametrize("rows", [50, 51, None])
def test_metric_from_all_rows(rows) -> None:
    model = fitted(X, Y, metric_rows=rows)
    assert {one["rows"] for one in model.metric_history_} == {50}
    assert np.isfinite(model.heldout_prediction_).all()
