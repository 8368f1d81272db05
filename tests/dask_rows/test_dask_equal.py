"""A fit of Dask's rows is the fit of the same rows in memory, whatever the partitions."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask_tables import GRID, LANDMARKS, assert_same_search, model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, RepeatedKFold

import onefold.criteria.heldout as sums
from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Nystroem
from onefold.heldout import GapKFold

ONE_ROW = (1, 699)
EMPTY_PARTS = (0, 300, 0, 0, 399, 1, 0)


def lazy(X, chunks):
    return da.from_array(X, chunks=(chunks, X.shape[1]))


def both(kind, X, chunks, y, weight=None, groups=None, *, rtol=1e-8, there=None, **options):
    """Fitted here and there, and compared; `there` is what the second alone is told."""
    here = model(kind, **options).fit(X, y, weight, groups)
    found = model(kind, **options, **there or {}).fit(lazy(X, chunks), y, weight, groups)
    assert_same_search(here, found, X, rtol)
    return here, found


SEARCHES = {  # estimator, targets, partitions, settings
    "one row": (KernelRidgeCV, "Y", ONE_ROW, {}),
    "empty parts": (LSSVRCV, "Y", EMPTY_PARTS, {}),
    "labels": (LSSVCCV, "labels", EMPTY_PARTS, {"class_weight": "balanced"}),
    "many folds": (LSSVRCV, "y", (350, 350), {"cv": 70, "gammas": [0.3]}),
    "mean": (LSSVRCV, "Y", EMPTY_PARTS, {"loss": "mean", "cv": 3}),
    "on a device": (LSSVRCV, "y", EMPTY_PARTS, {"there": {"device": "cpu"}, "rtol": 1e-7}),
}


@pytest.mark.parametrize("case", SEARCHES)
def test_every_search_by_every_route(table, training, case):
    kind, y, chunks, options = SEARCHES[case]
    if case == "on a device":
        pytest.importorskip("torch")
    weight = None if case == "many folds" else table.weight
    _, there = both(kind, table.X, chunks, getattr(table, y), weight, **options)
    assert there.approximation_["fitted_with"]["training"] == training
    for array in (there.expansion_.centres, there.expansion_.coef):
        assert isinstance(array, np.ndarray)
    predicted = there.predict(lazy(table.X, ONE_ROW)).compute()
    assert (predicted == there.predict(table.X)).all() or np.allclose(predicted, there.predict(table.X))


@pytest.mark.parametrize("criterion", ["gcv", "evidence"])
@pytest.mark.parametrize("kind", [LSSVRCV, KernelRidgeCV])
def test_criteria_of_the_sums(table, training, kind, criterion):
    machine = model(kind, criterion=criterion)
    here = machine.fit(table.X, table.Y, table.weight).cv_results_["mean_test_score"]
    there = machine.fit(lazy(table.X, EMPTY_PARTS), table.Y, table.weight)
    np.testing.assert_allclose(there.cv_results_["mean_test_score"], here, rtol=1e-7)
    assert there.approximation_["fitted_with"]["training"] == training


def test_float32_stays_float32(table, training):
    X = table.X.astype(np.float32)
    rtol = 1e-8 if training != "sums" else 1e-5
    _, there = both(LSSVRCV, X, EMPTY_PARTS, table.y, rtol=rtol)
    assert there.expansion_.centres.dtype == np.float32


@pytest.mark.parametrize(
    "options", [{}, {"kernel": "auto", "blend": True, "gammas": [1.0, 3.0]}, {"loss": "mean", "cv": 3}]
)
def test_sums_travel_instead_of_predictions(table, summed, options, monkeypatch):
    monkeypatch.setattr(sums, "HELD_PREDICTIONS", 0)
    here, there = both(LSSVCCV, table.X, EMPTY_PARTS, table.labels, **options)
    assert there.classes_.tolist() == ["low", "mid", "top"]
    assert here.kernel_ == there.kernel_


@pytest.mark.parametrize(
    ("cv", "criterion"),
    [
        (RepeatedKFold(n_splits=3, n_repeats=2, random_state=0), "cov"),
        (GapKFold(4, gap=20), "cov"),
        ([(np.arange(300), np.arange(400, 700)), (np.arange(300, 700), np.arange(100))], "mape"),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_any_splitter(table, summed, cv, criterion, monkeypatch):
    monkeypatch.setattr(sums, "HELD_PREDICTIONS", 0)
    both(LSSVRCV, table.X, EMPTY_PARTS, table.y + 5, cv=cv, criterion=criterion)


def test_groups_targets_and_weights_may_be_lazy(table):
    here = model(cv=GroupKFold(3)).fit(table.X, table.Y, table.weight, table.groups)
    groups = dd.from_pandas(pd.Series(table.groups), npartitions=4)
    targets = da.from_array(table.Y, chunks=(333, 1))
    weight = da.from_array(table.weight)
    there = model(cv=GroupKFold(3)).fit(lazy(table.X, (350, 350)), targets, weight, groups)
    assert_same_search(here, there, table.X)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 700), max_size=9), seed=st.integers(0, 3))
def test_any_partitions(table, summed, cuts, seed):
    chunks = tuple(np.diff([0, *sorted(cuts), 700]).tolist())
    both(LSSVRCV, table.X, chunks, table.y, approximation=Nystroem(25, random_state=seed), gammas=[0.5])


@pytest.mark.parametrize("method", ["kmeans", "uniform", "rpcholesky"])
def test_the_same_landmarks(table, method):
    options = {"approximation": Nystroem(30, method=method), "gamma": "scale", "random_state": 3}
    here = LSSVR(**options).fit(table.X, table.y, table.weight)
    there = LSSVR(**options).fit(lazy(table.X, (99, 601)), table.y, table.weight)
    np.testing.assert_allclose(here.expansion_.centres, there.expansion_.centres, rtol=1e-12)
    np.testing.assert_allclose(here.predict(table.X), there.predict(table.X), rtol=1e-8)
    report = [model.approximation_["kernel_error"] for model in (here, there)]
    assert report[0] == pytest.approx(report[1], rel=1e-8)


def test_fixed_estimators_and_what_auto_takes(table):
    for kind, y in ((LSSVC, table.labels), (KernelRidge, table.Y)):
        here = kind(approximation=LANDMARKS).fit(table.X, y, table.weight)
        there = kind(approximation=LANDMARKS).fit(lazy(table.X, EMPTY_PARTS), y, table.weight)
        assert np.abs(here.expansion_.coef - there.expansion_.coef).max() < 1e-8
    chosen = LSSVRCV(check=True, **GRID).fit(lazy(table.X[:100], (50, 50)), table.y[:100])
    assert "Dask" in chosen.approximation_["fitted_with"]["chosen"]
    assert chosen.approximation_["fitted_with"]["name"] == "nystroem"
    assert chosen.approximation_["trust"]["verdict"]


@pytest.mark.parametrize("rows", [None, 200], ids=["own metrics", "folds aside"])
def test_learned_metric_and_blend(table, rows):
    options = {"kernel": ["rbf", "laplacian"], "metric": "diagonal", "blend": True, "max_rounds": 1}
    options |= {"cv": 3, "metric_rows": rows, "gammas": [0.3, 3.0], "n_jobs": 1}
    X, y = (table.X, table.y) if rows else (table.X[:160], table.y[:160])
    here, there = both(LSSVRCV, X, (len(X) // 2, len(X) - len(X) // 2), y, **options)
    assert here.metric_history_ == there.metric_history_ or rows is None
    np.testing.assert_allclose(here.feature_importances_, there.feature_importances_, atol=1e-8)
    assert [one["kernel"] for one in here.blend_] == [one["kernel"] for one in there.blend_]
    weights = [[one["weight"] for one in model.blend_] for model in (here, there)]
    np.testing.assert_allclose(*weights, atol=1e-7)
