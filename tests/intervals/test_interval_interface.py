"""Intervals in the shells around them: frames, other libraries, every kind of search, clear errors."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import TimeSeriesSplit

import onefold
from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Nystroem, Toeplitz
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
    for cls in (LSSVC, LSSVCCV):
        assert not hasattr(cls(), "predict_interval")
    plain = LSSVRCV(intervals=None, **GRID).fit(X, y)
    with_them = LSSVRCV(**GRID).fit(X, y)
    assert plain.intervals_ is plain.fold_models_ is plain.conformity_scores_ is None
    np.testing.assert_array_equal(plain.predict(NEW), with_them.predict(NEW))


def test_errors_name_the_remedy():
    fitted = LSSVRCV(**GRID).fit(X, y)
    landmarks = {"approximation": Nystroem(9), "refit": "same"}
    for coverage in (0, 1, 1.5, -0.1, "a", None, True, np.nan):
        with pytest.raises(ValueError, match=r"coverage must lie between 0 and 1"):
            fitted.predict_interval(NEW, coverage)
    for quantiles in ([], [0.5, 1.0], ["a"], 0.0):
        with pytest.raises(ValueError, match=r"between 0 and 1"):
            fitted.predict_quantiles(NEW, quantiles)
    awkward = (landmarks, {"metric": "full"}, {"blend": True})
    single = [LSSVRCV(intervals="jackknife+", **settings) for settings in awkward]
    for act in (single[0].objective, *(machine.fit for machine in single)):
        with pytest.raises(ValueError, match=r'jackknife\+" needs the exact.*intervals="cv\+"'):
            act(X, y)
    for machine, words in (
        (LSSVRCV(intervals="split"), r'intervals must be None or one of "cv\+"'),
        (LSSVR(intervals=True), "intervals must be None"),
        (LSSVR(approximation="cg", intervals="jackknife+"), 'whole folds, not single rows.*"cv\\+"'),
        (
            LSSVR(approximation=Toeplitz(validate="matrix"), intervals="cv+"),
            "models trained without each fold",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            machine.fit(X[:, :1], y)


def test_jackknife_asks_for_memory_first(monkeypatch):
    monkeypatch.setattr("onefold.machine.memory.available_memory", lambda: 10**5)
    monkeypatch.setattr("onefold.approximations.base.Approximation.require_memory", lambda *a: None)
    with pytest.raises(MemoryError, match=r'jackknife\+ with 60 models.*use intervals="cv\+"'):
        LSSVR(intervals="jackknife+").fit(X, y)


def test_frames_give_frames():
    polars = pytest.importorskip("polars")
    names = ["a", "b", "c"]
    new = pd.DataFrame(NEW, columns=names, index=[f"row {i}" for i in range(7)])
    one, both = (LSSVRCV(**GRID).fit(pd.DataFrame(X, columns=names), targets) for targets in (y, Y))
    four = ["lower_0", "upper_0", "lower_1", "upper_1"]
    for found, columns, values in (
        (one.predict_interval(new), ["lower", "upper"], one.predict_interval(NEW)),
        (one.predict_quantiles(new, 0.05), ["0.05"], one.predict_quantiles(NEW, 0.05)),
        (both.predict_interval(new), four, both.predict_interval(NEW).reshape(7, 4)),
    ):
        pd.testing.assert_frame_equal(found, pd.DataFrame(values, new.index, columns))
    frame = one.predict_interval(polars.DataFrame(NEW, schema=names))
    assert frame.columns == ["lower", "upper"]
    np.testing.assert_allclose(frame.to_numpy(), one.predict_interval(NEW), rtol=0, atol=1e-12)


def test_torch_rows_and_a_device():
    torch = pytest.importorskip("torch")
    for settings in (GRID, {"approximation": Nystroem(20), "refit": "same", **GRID}):
        expected = LSSVRCV(**settings).fit(X, y).predict_interval(NEW)
        model = LSSVRCV(**settings).fit(torch.tensor(X), torch.tensor(y))
        assert isinstance(model.conformity_scores_, torch.Tensor)  # as all that is fitted
        found = model.predict_interval(torch.tensor(NEW))
        assert isinstance(found, torch.Tensor)
        for values in (found.numpy(), model.predict_interval(NEW)):
            np.testing.assert_allclose(values, expected, rtol=0, atol=1e-7)
    for method in ("cv+", "jackknife+", "normalised"):
        there, here = (LSSVR(gamma=0.1, device=d, intervals=method).fit(X, Y) for d in ("cpu", None))
        found, expected = (model.predict_interval(NEW, 0.7) for model in (there, here))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)


def test_rows_of_dask():
    array = pytest.importorskip("dask.array")
    settings = {"approximation": Nystroem(15), "refit": "same", **GRID}
    here = LSSVRCV(**settings).fit(X, y)
    rows = array.from_array(X, chunks=(17, 3))
    target = array.from_array(y, chunks=17)
    there = LSSVRCV(**settings).fit(rows, target)
    expected = here.predict_interval(NEW)
    np.testing.assert_allclose(there.predict_interval(NEW), expected, rtol=0, atol=1e-6)
    new = array.from_array(NEW, chunks=(4, 3))
    np.testing.assert_array_equal(here.predict_interval(new).compute(), expected)
    quantiles = here.predict_quantiles(new, [0.2, 0.7]).compute()
    np.testing.assert_array_equal(quantiles, here.predict_quantiles(NEW, [0.2, 0.7]))
    for act, words in (
        (lambda: LSSVRCV(intervals="normalised", **settings).fit(rows, target), "all rows in memory"),
        (lambda: LSSVR(approximation=Nystroem(15), intervals="cv+").fit(rows, y), "rows of Dask"),
        (lambda: LSSVRCV(**settings).fit(X, Y).predict_interval(new), r"X\.compute"),
    ):
        with pytest.raises(ValueError, match=words):
            act()


@pytest.mark.parametrize("method", ["cv+", "jackknife+"])
def test_a_given_kernel_matrix(method):
    model = KernelRidge("precomputed", alpha=0.1, intervals=method).fit(X @ X.T + 1.0, y)
    rows = KernelRidge("polynomial", degree=1, gamma=1.0, alpha=0.1, intervals=method).fit(X, y)
    found = model.predict_interval(NEW @ X.T + 1.0, 0.8)
    expected = rows.predict_interval(NEW, 0.8)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_splits_that_cannot_teach_the_spread_say_so():
    few = [(np.arange(8, N), np.arange(8))]
    half = [(np.arange(30), np.arange(30, N))]
    with pytest.warns(UserWarning, match=r"intervals are not normalised: too few residuals"):
        model = LSSVRCV(intervals="normalised", cv=few, **GRID).fit(X, y)
    assert model.approximation_["intervals"]["method"] == model.intervals_.method == "cv+"
    for cv, count in ((half, 5), (TimeSeriesSplit(4), 4)):
        found = LSSVRCV(intervals="normalised", cv=cv, **GRID).fit(X, y).intervals_
        assert (found.method, found.count) == ("normalised", count)


def test_many_folds_need_no_models_of_their_own(monkeypatch):
    assert LSSVRCV(cv=60, gammas=[0.3], alphas=[0.1]).fit(X, y).fold_models_.count == 60
    monkeypatch.setattr("onefold.estimators.final._LARGEST_MODELS", 10**4)
    rows = np.vstack([X, X + 0.1])
    with pytest.warns(UserWarning, match="100 folds have too many coefficients.*use 64 folds"):
        model = LSSVRCV(cv=100, gammas=[0.3], alphas=[0.1]).fit(rows, np.hstack([y, y]))
    assert model.fold_models_ is None
    assert model.intervals_.method == "cv"
    assert np.isfinite(model.predict_interval(NEW)).all()


def test_a_fold_that_cannot_be_solved_warns(monkeypatch):
    def refuse(*_):
        raise UnsolvableError("no solution; use a larger alpha.")

    monkeypatch.setattr("onefold.approximations.exact.ExactModel.fold_models", refuse)
    with pytest.warns(
        UserWarning, match="without each fold, for intervals, cannot be fitted: no solution"
    ):
        model = LSSVRCV(approximation="exact", **GRID).fit(X, y)
    assert "the final model, with" in model.approximation_["intervals"]["predictions"]


@pytest.mark.parametrize("intervals", ["cv+", "normalised"])
@pytest.mark.parametrize("approximation", ["toeplitz", "circulant", "nystroem"])
def test_intervals_without_models_for_each_fold_are_not_called_cv_plus(
    approximation, intervals, monkeypatch, tmp_path
):
    """Intervals of the final model, which CV+ promises nothing about, had its name, and nobody knew."""
    monkeypatch.setattr("onefold.approximations.Circulant.max_rows_for_fold_models", 10)
    monkeypatch.setattr(
        "onefold.approximations.nystroem_models.FactoredModel.trains_without", lambda *_: 0
    )
    t = np.arange(50.0)[:, None]
    target = np.sin(t[:, 0] / 3)
    settings = {"gammas": [0.1], "alphas": [1.0], "refit": "same", "intervals": intervals}
    model = LSSVRCV(approximation=approximation, **settings)
    with pytest.warns(UserWarning, match=f'method="cv" instead of "{re.escape(intervals)}"') as caught:
        model.fit(t, target)
    assert len(caught) == 1
    assert model.intervals_.method == model.approximation_["intervals"]["method"] == "cv"
    half = model.predict_interval(t, 0.9)[:, 1] - model.predict(t)
    residuals = np.sort(np.abs(target - model.heldout_prediction_))
    np.testing.assert_allclose(half, residuals[int(np.ceil(0.9 * 51)) - 1], rtol=1e-12)
    onefold.save(model, tmp_path / "model")
    assert onefold.load(tmp_path / "model").intervals_.method == "cv"


@pytest.mark.parametrize("kind", [LSSVR, LSSVRCV])
def test_the_rows_that_sizes_are_learned_from_follow_random_state(kind, monkeypatch):
    monkeypatch.setattr("onefold.estimators.intervals._SPREAD_ROWS", 30)
    none, zero, one, again = (
        kind(intervals="normalised", random_state=seed).fit(X, y).predict_interval(NEW)
        for seed in (None, 0, 1, 1)
    )
    np.testing.assert_array_equal(none, zero)
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - zero).max() > 1e-6
