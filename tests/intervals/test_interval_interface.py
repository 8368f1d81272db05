"""Intervals in the shells around them: frames, other libraries, every kind of search, clear errors."""

import re
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import TimeSeriesSplit

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Nystroem
from onefold.smoothers.base import UnsolvableError

RNG = np.random.default_rng(4)
N = 60
X = RNG.standard_normal((N, 3))
Y = np.stack([np.sin(2 * X[:, 0]), X[:, 0] * X[:, 1]], axis=1) + 0.2 * RNG.standard_normal((N, 2))
y = Y[:, 0]
NEW = RNG.standard_normal((7, 3))
GRID = {"gammas": [0.1, 0.5], "alphas": [0.01, 0.1]}


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_defaults_and_who_has_them():
    for cls, default in ((LSSVRCV, "cv+"), (KernelRidgeCV, "cv+"), (LSSVR, None), (KernelRidge, None)):
        assert cls().intervals == default
        assert hasattr(cls(), "predict_interval") is (default is not None)
        assert clone(cls(intervals="normalised")).intervals == "normalised"
    for cls in (LSSVC, LSSVCCV):
        assert "intervals" not in cls().get_params()
        assert not hasattr(cls(), "predict_interval")
    with pytest.raises(AttributeError, match=r"predict_interval"):
        LSSVR().fit(X, y).predict_interval(X)
    plain = LSSVRCV(intervals=None, **GRID).fit(X, y)
    assert plain.intervals_ is plain.fold_models_ is plain.conformity_scores_ is None
    assert "intervals" not in plain.approximation_
    with_them = LSSVRCV(**GRID).fit(X, y)
    np.testing.assert_array_equal(plain.predict(NEW), with_them.predict(NEW))


def test_errors_name_the_remedy():
    model = LSSVRCV(**GRID).fit(X, y)
    for coverage in (0, 1, 1.5, -0.1, "a", None, True, np.nan):
        with pytest.raises(ValueError, match=r"coverage must lie between 0 and 1"):
            model.predict_interval(NEW, coverage)
    for quantiles in ([], [0.5, 1.0], ["a"], 0.0):
        with pytest.raises(ValueError, match=r"between 0 and 1"):
            model.predict_quantiles(NEW, quantiles)
    with pytest.raises(ValueError, match=r'intervals must be None or one of "cv\+"'):
        LSSVRCV(intervals="split").fit(X, y)
    with pytest.raises(ValueError, match=r"intervals must be None"):
        LSSVR(intervals=True).fit(X, y)
    for settings in (
        {"approximation": Nystroem(9), "refit": "same"},
        {"metric": "full"},
        {"blend": True},
    ):
        with pytest.raises(ValueError, match=r'jackknife\+ needs the exact machine.*intervals="cv\+"'):
            LSSVRCV(intervals="jackknife+", **settings).fit(X, y)
    with pytest.raises(ValueError, match=r"jackknife"):
        LSSVRCV(intervals="jackknife+", approximation=Nystroem(9), refit="same").objective(X, y)
    for name in ("cg", "toeplitz"):
        with pytest.raises(ValueError, match=r'models without each fold.*"exact".*LSSVRCV'):
            LSSVR(approximation=name, intervals="cv+").fit(X[:, :1], y)
    with pytest.raises(ValueError, match=r"3 features"):
        model.predict_interval(NEW[:, :2])


def test_jackknife_asks_for_memory_first(monkeypatch):
    monkeypatch.setattr("onefold.machine.memory.available_memory", lambda: 10**5)
    monkeypatch.setattr("onefold.approximations.base.Approximation.require_memory", lambda *a: None)
    with pytest.raises(MemoryError, match=r'jackknife\+ with 60 models.*use intervals="cv\+"'):
        LSSVR(intervals="jackknife+").fit(X, y)


def test_frames_give_frames():
    polars, names = pytest.importorskip("polars"), ["a", "b", "c"]
    new = pd.DataFrame(NEW, columns=names, index=[f"row {i}" for i in range(7)])
    one, both = (LSSVRCV(**GRID).fit(pd.DataFrame(X, columns=names), targets) for targets in (y, Y))
    expected = LSSVRCV(**GRID).fit(X, y).predict_interval(NEW)
    for found, columns in (
        (one.predict_interval(new), ["lower", "upper"]),
        (one.predict_quantiles(new, [0.05, 0.5]), ["0.05", "0.5"]),
        (both.predict_interval(new), ["lower_0", "upper_0", "lower_1", "upper_1"]),
    ):
        assert list(found.columns) == columns
        assert found.index.equals(new.index)
    values = found.to_numpy().reshape(7, 2, 2)
    np.testing.assert_array_equal(values, both.predict_interval(new.to_numpy()))
    frame = one.predict_interval(polars.DataFrame(NEW, schema=names))
    assert isinstance(frame, polars.DataFrame)
    for found in (one.predict_interval(new), frame):
        assert list(found.columns) == ["lower", "upper"]
        np.testing.assert_allclose(found.to_numpy(), expected, rtol=0, atol=1e-12)


def test_torch_rows_and_a_device():
    torch = pytest.importorskip("torch")
    expected = LSSVRCV(**GRID).fit(X, y).predict_interval(NEW)
    model = LSSVRCV(**GRID).fit(torch.tensor(X), torch.tensor(y))
    found = model.predict_interval(torch.tensor(NEW))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-8)
    np.testing.assert_allclose(model.predict_interval(NEW), expected, rtol=0, atol=1e-8)
    assert isinstance(model.conformity_scores_, torch.Tensor)  # as all that is fitted
    for method in ("cv+", "jackknife+", "normalised"):
        there = LSSVR(gamma=0.1, device="cpu", intervals=method).fit(X, Y)
        here = LSSVR(gamma=0.1, intervals=method).fit(X, Y)
        found, expected = there.predict_interval(NEW, 0.7), here.predict_interval(NEW, 0.7)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)
    basis = LSSVRCV(approximation=Nystroem(20), refit="same", **GRID)
    expected = basis.fit(X, y).predict_interval(NEW)
    found = basis.fit(torch.tensor(X), torch.tensor(y)).predict_interval(NEW)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)


def test_rows_of_dask():
    array = pytest.importorskip("dask.array")
    settings = {"approximation": Nystroem(15), "refit": "same", **GRID}
    here = LSSVRCV(**settings).fit(X, y)
    there = LSSVRCV(**settings).fit(array.from_array(X, chunks=(17, 3)), array.from_array(y, chunks=17))
    assert there.approximation_["intervals"]["folds"] == 5
    expected = here.predict_interval(NEW)
    np.testing.assert_allclose(there.predict_interval(NEW), expected, rtol=0, atol=1e-6)
    lazy = here.predict_interval(array.from_array(NEW, chunks=(4, 3)))
    assert lazy.shape == (7, 2)
    np.testing.assert_array_equal(lazy.compute(), expected)
    lazy = here.predict_quantiles(array.from_array(NEW, chunks=(4, 3)), [0.2, 0.7])
    np.testing.assert_array_equal(lazy.compute(), here.predict_quantiles(NEW, [0.2, 0.7]))
    with pytest.raises(ValueError, match=r"normalised intervals need the rows in one place"):
        LSSVRCV(intervals="normalised", **settings).fit(array.from_array(X), array.from_array(y))
    with pytest.raises(ValueError, match=r"rows of Dask"):
        LSSVR(approximation=Nystroem(15), intervals="cv+").fit(array.from_array(X), y)
    with pytest.raises(ValueError, match=r"X\.compute"):
        LSSVRCV(**settings).fit(X, Y).predict_interval(array.from_array(NEW))


def test_an_objective_a_checkpoint_and_a_stop(tmp_path):
    model = LSSVRCV(**GRID, checkpoint=tmp_path / "journal").fit(X, y)
    expected = model.predict_interval(NEW)
    again = LSSVRCV(**GRID, checkpoint=tmp_path / "journal").fit(X, y)
    np.testing.assert_array_equal(again.predict_interval(NEW), expected)
    other = LSSVRCV(**GRID, checkpoint=tmp_path / "journal", intervals="normalised").fit(X, y)
    assert other.intervals_.method == "normalised"
    objective = LSSVRCV().objective(X, y)
    objective(gamma=model.gamma_, alpha=model.alpha_)
    np.testing.assert_allclose(objective.fit().predict_interval(NEW), expected, rtol=0, atol=1e-8)
    slow = LSSVRCV(**GRID, time_budget=1e-3, callback=lambda event: time.sleep(0.01)).fit(X, y)
    assert slow.search_["stopped"] == "time_budget"
    assert np.isfinite(slow.predict_interval(NEW)).all()


def test_a_given_kernel_matrix():
    K, new = X @ X.T + 1.0, NEW @ X.T + 1.0
    for method in ("cv+", "jackknife+", "normalised"):
        model = KernelRidge("precomputed", alpha=0.1, intervals=method).fit(K, y)
        rows = KernelRidge("polynomial", degree=1, gamma=1.0, alpha=0.1, intervals=method).fit(X, y)
        found = model.predict_interval(new, 0.8)
        if method == "normalised":  # their sizes are learned with kernels of their own
            assert np.isfinite(found).all()
        else:
            np.testing.assert_allclose(found, rows.predict_interval(NEW, 0.8), rtol=0, atol=1e-8)


def test_splits_that_cannot_teach_the_spread_say_so():
    once = [(np.arange(8, N), np.arange(8))]
    with pytest.warns(UserWarning, match=r"intervals are not normalised: too few residuals"):
        model = LSSVRCV(intervals="normalised", cv=once, **GRID).fit(X, y)
    assert model.approximation_["intervals"]["method"] == model.intervals_.method == "cv+"
    assert re.search("too few", model.approximation_["intervals"]["why"])
    half = [(np.arange(30), np.arange(30, N))]
    model = LSSVRCV(intervals="normalised", cv=half, **GRID).fit(X, y)
    assert model.intervals_.method == "normalised"
    assert model.intervals_.count == 5
    series = LSSVRCV(intervals="normalised", cv=TimeSeriesSplit(4), **GRID).fit(X, y)
    assert series.intervals_.method == "normalised"


def test_many_folds_need_no_models_of_their_own(monkeypatch):
    monkeypatch.setattr("onefold.estimators.final._LARGEST_MODELS", 10**4)
    rows = np.vstack([X, X + 0.1])
    with pytest.warns(UserWarning, match="100 folds have too many coefficients.*use 64 folds"):
        model = LSSVRCV(cv=100, gammas=[0.3], alphas=[0.1]).fit(rows, np.hstack([y, y]))
    assert model.fold_models_ is None
    assert "final model itself" in model.approximation_["intervals"]["predictions"]
    assert len(model.intervals_.residuals) == 120
    assert np.isfinite(model.predict_interval(NEW)).all()
    assert LSSVRCV(cv=60, gammas=[0.3], alphas=[0.1]).fit(X, y).fold_models_.count == 60


def test_a_fold_that_cannot_be_solved_warns(monkeypatch):
    def refuse(*_):
        raise UnsolvableError("no solution; use a larger alpha.")

    monkeypatch.setattr("onefold.approximations.exact.ExactModel.fold_models", refuse)
    with pytest.warns(UserWarning, match="no model without each fold for intervals: no solution"):
        model = LSSVRCV(approximation="exact", **GRID).fit(X, y)
    assert "final model itself" in model.approximation_["intervals"]["predictions"]


def test_the_rows_that_sizes_are_learned_from_follow_random_state(monkeypatch):
    monkeypatch.setattr("onefold.estimators.final._SPREAD_ROWS", 30)
    for machine in (LSSVR(gamma=0.5, alpha=0.1), KernelRidgeCV(gammas=[0.5], alphas=[0.1])):
        bounds = [
            clone(machine).set_params(intervals="normalised", random_state=seed).fit(X, y)
            for seed in (None, 0, 1, 1)
        ]
        none, zero, one, again = (model.predict_interval(NEW) for model in bounds)
        np.testing.assert_array_equal(none, zero)
        np.testing.assert_array_equal(one, again)
        assert np.abs(one - zero).max() > 1e-6
