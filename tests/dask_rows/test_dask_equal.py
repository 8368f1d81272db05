"""A fit of Dask's rows is the fit of the same rows in memory, whatever the partitions."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask_tables import GRID, assert_same_search
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, KFold, RepeatedKFold, ShuffleSplit

import onefold.criteria.heldout as sums
from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Nystroem
from onefold.heldout import GapKFold

CHUNKS = [(700,), (1, 699), (0, 300, 0, 0, 399, 1, 0), (100,) * 7]


def lazy(X, chunks):
    return da.from_array(X, chunks=(chunks, X.shape[1]))


def both(kind, table, chunks, y, weight=None, groups=None, *, rtol=1e-8, X=None, **options):
    """Fitted here and there, and compared; the second may differ in what it is given."""
    X = table.X if X is None else X
    here = kind(**options).fit(X, y, weight, groups)
    there = kind(**options).fit(lazy(X, chunks), y, weight, groups)
    assert_same_search(here, there, X, rtol)
    return here, there


@pytest.mark.parametrize(
    ("kind", "chunks"), list(zip([LSSVRCV, KernelRidgeCV] * 2, CHUNKS)), ids=lambda one: str(one)[:20]
)
def test_regression(table, landmarks, training, chunks, kind):
    model = kind(approximation=landmarks, **GRID)
    here = model.fit(table.X, table.Y, table.weight)
    there = kind(approximation=landmarks, **GRID)
    there.fit(lazy(table.X, chunks), da.from_array(table.Y, chunks=(333, 1)), table.weight)
    assert there.approximation_["fitted_with"]["training"] == training
    assert_same_search(here, there, table.X)
    assert isinstance(there.expansion_.centres, np.ndarray)


@pytest.mark.parametrize("held", [2**25, 0], ids=["predictions travel", "sums travel"])
def test_classification(table, landmarks, training, held, monkeypatch):
    monkeypatch.setattr(sums, "HELD_PREDICTIONS", held)
    options = {"approximation": landmarks, "class_weight": "balanced", **GRID}
    _, there = both(LSSVCCV, table, CHUNKS[2], table.labels, da.from_array(table.weight), **options)
    assert there.classes_.tolist() == ["low", "mid", "top"]


SPLITTERS = [
    KFold(4, shuffle=True, random_state=0),
    RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    ShuffleSplit(3, random_state=0),
    GapKFold(4, gap=20),
    [(np.arange(300), np.arange(400, 700)), (np.arange(300, 700), np.arange(100))],
]


@pytest.mark.parametrize("cv", SPLITTERS, ids=lambda cv: type(cv).__name__)
@pytest.mark.parametrize("criterion", ["mse", "cov", "mape"])
def test_any_splitter(table, landmarks, summed, cv, criterion, monkeypatch):
    monkeypatch.setattr(sums, "HELD_PREDICTIONS", 0)
    options = {"approximation": landmarks, "cv": cv, "criterion": criterion, **GRID}
    both(LSSVRCV, table, CHUNKS[2], table.y + 5, **options)


@pytest.mark.parametrize("weighted", [False, True])
def test_groups(table, landmarks, weighted):
    weight = table.weight if weighted else None
    options = {"approximation": landmarks, "cv": GroupKFold(3), **GRID}
    here = LSSVRCV(**options).fit(table.X, table.y, weight, table.groups)
    groups = dd.from_pandas(pd.Series(table.groups), npartitions=4)
    there = LSSVRCV(**options).fit(lazy(table.X, (350, 350)), table.y, weight, groups)
    assert_same_search(here, there, table.X)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 700), max_size=9), seed=st.integers(0, 3))
def test_any_partitions(table, summed, cuts, seed):
    chunks = tuple(np.diff([0, *sorted(cuts), 700]).tolist())
    both(LSSVRCV, table, chunks, table.y, approximation=Nystroem(25, random_state=seed), **GRID)


@pytest.mark.parametrize("method", ["kmeans", "uniform", "rpcholesky"])
def test_the_same_landmarks(table, method):
    options = {"approximation": Nystroem(30, method=method), "gamma": "scale", "random_state": 3}
    here = LSSVR(**options).fit(table.X, table.y, table.weight)
    there = LSSVR(**options).fit(lazy(table.X, (99, 601)), table.y, table.weight)
    np.testing.assert_allclose(here.expansion_.centres, there.expansion_.centres, rtol=1e-12)
    np.testing.assert_allclose(here.predict(table.X), there.predict(table.X), rtol=1e-8)
    report = [model.approximation_["kernel_error"] for model in (here, there)]
    assert report[0] == pytest.approx(report[1], rel=1e-8)


def test_fixed_estimators(table, landmarks):
    for kind, y in ((LSSVC, table.labels), (KernelRidge, table.Y)):
        here = kind(approximation=landmarks).fit(table.X, y, table.weight)
        there = kind(approximation=landmarks).fit(lazy(table.X, CHUNKS[2]), y, table.weight)
        difference = here.expansion_.coef - there.expansion_.coef
        assert np.abs(difference).max() < 1e-8


def test_auto_takes_landmarks_and_says_why(table):
    found = LSSVRCV(**GRID).fit(lazy(table.X[:100], (50, 50)), table.y[:100])
    assert "Dask" in found.approximation_["fitted_with"]["chosen"]
    assert found.approximation_["fitted_with"]["name"] == "nystroem"


@pytest.mark.parametrize("rows", [None, 200], ids=["own metrics", "folds aside"])
def test_learned_metric_and_blend(table, landmarks, rows):
    options = {"kernel": ["rbf", "laplacian"], "metric": "diagonal", "blend": True, "max_rounds": 1}
    options |= {"approximation": landmarks, "cv": 3, "metric_rows": rows, "gammas": [0.3, 3.0]}
    options |= {"alphas": [0.01, 1.0], "n_jobs": 1}
    X, y = (table.X, table.y) if rows else (table.X[:160], table.y[:160])
    chunks = (len(X) // 2, len(X) - len(X) // 2)
    here, there = LSSVRCV(**options).fit(X, y), LSSVRCV(**options).fit(lazy(X, chunks), y)
    assert_same_search(here, there, X)
    assert here.metric_history_ == there.metric_history_ or rows is None
    np.testing.assert_allclose(here.feature_importances_, there.feature_importances_, atol=1e-8)
    assert [one["kernel"] for one in here.blend_] == [one["kernel"] for one in there.blend_]
    weights = [[one["weight"] for one in model.blend_] for model in (here, there)]
    np.testing.assert_allclose(*weights, atol=1e-7)


def test_trust_check_runs(table, landmarks):
    found = LSSVRCV(approximation=landmarks, check=True, **GRID).fit(lazy(table.X, (350, 350)), table.y)
    assert found.approximation_["trust"]["verdict"]


def test_float32_stays_float32(table, landmarks, training):
    rtol = 1e-8 if training != "sums" else 1e-5
    given = {"X": table.X.astype(np.float32), "approximation": landmarks, "rtol": rtol}
    _, there = both(LSSVRCV, table, CHUNKS[2], table.y, **given, **GRID)
    assert there.expansion_.centres.dtype == np.float32


def test_many_folds_take_other_routes(table, landmarks, training):
    options = {"approximation": landmarks, "cv": 70, "gammas": [0.3], "alphas": [0.1, 1.0]}
    both(LSSVRCV, table, (350, 350), table.y, **options)


def test_families_of_a_classifier(table, landmarks, summed, monkeypatch):
    monkeypatch.setattr(sums, "HELD_PREDICTIONS", 0)
    options = {"gammas": [1.0, 3.0], "alphas": [0.1, 1.0], "blend": True, "approximation": landmarks}
    here, there = both(LSSVCCV, table, CHUNKS[2], table.labels, kernel="auto", **options)
    assert here.kernel_ == there.kernel_


def test_a_device_is_used_by_the_worker(table, landmarks, training):
    pytest.importorskip("torch")
    here = LSSVRCV(approximation=landmarks, **GRID).fit(table.X, table.y, table.weight)
    there = LSSVRCV(approximation=landmarks, device="cpu", **GRID)
    there.fit(lazy(table.X, CHUNKS[2]), table.y, table.weight)
    assert_same_search(here, there, table.X, rtol=1e-7)
    assert isinstance(there.expansion_.coef, np.ndarray)
    assert np.allclose(there.predict(lazy(table.X, CHUNKS[1])).compute(), there.predict(table.X))
