"""The estimators among other people's tools: pipelines, frames, routing, searches."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import onefold
from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.kernels import RBF, Laplacian, Linear, Matern
from onefold.search import SearchStoppedWarning

RNG = np.random.default_rng(13)
X = RNG.standard_normal((50, 3))
NUMBERS = np.sin(X[:, 0]) + X[:, 1]
LABELS = np.where(NUMBERS > 0, "up", "down")
SMALL = {"gammas": [0.05, 0.5], "alphas": [0.01, 1.0], "cv": 3}
ALL = [
    (LSSVC(), LABELS),
    (LSSVR(), NUMBERS),
    (KernelRidge(), NUMBERS),
    (LSSVCCV(**SMALL), LABELS),
    (LSSVRCV(**SMALL), NUMBERS),
    (KernelRidgeCV(**SMALL), NUMBERS),
]
EVERY = pytest.mark.parametrize(("estimator", "y"), ALL, ids=lambda v: type(v).__name__)


@EVERY
def test_pipeline_clone_and_cross_validation(estimator, y) -> None:
    pipeline = make_pipeline(StandardScaler(), clone(estimator))
    assert pipeline.fit(X, y).score(X, y) > 0.5
    assert cross_val_predict(pipeline, X, y, cv=3).shape == (50,)
    assert len(cross_val_score(clone(estimator), X, y, cv=3)) == 3


def test_inside_a_grid_search() -> None:
    search = GridSearchCV(LSSVC(), {"kernel": [RBF(0.1), Laplacian(0.1), "linear"], "alpha": [0.1, 1]})
    assert search.fit(X, LABELS).best_score_ > 0.7


@EVERY
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_keep_their_column_names(estimator, y, frame) -> None:
    table = frame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    column = pd.Series(y) if frame is pd.DataFrame else pl.Series(y)
    model = clone(estimator).fit(table, column)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    plain = clone(estimator).fit(X, y)
    if y is LABELS:
        assert (model.predict(table) == plain.predict(X)).all()
    else:
        assert_allclose(model.predict(table), plain.predict(X), rtol=1e-9, atol=1e-10)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[["c", "b", "a"]])


def test_set_output_in_a_pipeline() -> None:
    pipeline = make_pipeline(StandardScaler(), FunctionTransformer(), LSSVRCV(**SMALL))
    pipeline.set_output(transform="pandas")
    pipeline.fit(pd.DataFrame(X, columns=list("abc")), NUMBERS)
    assert list(pipeline[-1].feature_names_in_) == ["a", "b", "c"]


def test_metadata_is_routed() -> None:
    weights, groups = RNG.uniform(0.5, 2, 50), np.arange(50) % 5
    with sklearn.config_context(enable_metadata_routing=True):
        inner = LSSVRCV(gammas=[0.1], alphas=[0.1, 1.0], cv=GroupKFold(3))
        inner.set_fit_request(sample_weight=True, groups=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, inner)
        pipeline.fit(X, NUMBERS, sample_weight=weights, groups=groups)
        direct = clone(inner).fit(StandardScaler().fit_transform(X), NUMBERS, weights, groups)
        assert pipeline[-1].best_score_ == direct.best_score_
        single = LSSVR().set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        scores = cross_validate(single, X, NUMBERS, params={"sample_weight": weights}, cv=3)
        assert np.isfinite(scores["test_score"]).all()


@EVERY
def test_html_and_text_representation(estimator, y) -> None:
    assert type(estimator).__name__ in estimator._repr_html_()
    assert "expansion_" not in repr(estimator.fit(X, y))


@EVERY
def test_sparse_rows(estimator, y) -> None:
    thin = np.where(np.abs(X) < 0.3, 0.0, X)
    dense = clone(estimator).fit(thin, y)
    sparse = clone(estimator).fit(sp.csr_matrix(thin), y)
    assert sp.issparse(sparse.expansion_.centres)
    values = [m.decision_function if hasattr(m, "classes_") else m.predict for m in (dense, sparse)]
    assert_allclose(values[1](sp.csr_matrix(thin)), values[0](thin), rtol=1e-8, atol=1e-10)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        clone(estimator).set_params(kernel="laplacian").fit(sp.csr_matrix(thin), y)


def test_kernel_objects_and_functions() -> None:
    by_name = LSSVR(gamma=0.3).fit(X, NUMBERS).predict(X)
    assert_allclose(LSSVR(RBF(0.3)).fit(X, NUMBERS).predict(X), by_name)
    function = LSSVR(lambda a, b: RBF(0.3)(a, b)).fit(X, NUMBERS).predict(X)
    assert_allclose(function, by_name, rtol=1e-8)
    searched = LSSVRCV(RBF((0.1, 0.1, 0.2)) + Linear(), gammas=[1.0, 2.0], alphas=[0.1]).fit(X, NUMBERS)
    assert searched.expansion_.kernel == (RBF((0.1, 0.1, 0.2)) + Linear()).scaled(searched.gamma_)
    no_width = LSSVRCV("linear", alphas=[0.1, 1.0]).fit(X, NUMBERS)
    assert no_width.gamma_ is None
    assert set(no_width.best_params_) == {"alpha"}
    assert "param_gamma" not in no_width.cv_results_
    for name in ("matern", "matern12", "matern52", "poly"):
        assert LSSVR(name, gamma=0.1).fit(X, NUMBERS).score(X, NUMBERS) > 0
    assert isinstance(LSSVR("matern", gamma=0.1).fit(X, NUMBERS).expansion_.kernel, Matern)


def test_gammas_may_hold_scale() -> None:
    model = LSSVRCV(gammas=["scale", 0.1], alphas=[0.1]).fit(X, NUMBERS)
    assert model.cv_results_["param_gamma"].tolist() == [1 / (3 * X.var()), 0.1]
    assert LSSVRCV(gammas=["scale"], alphas=[0.1]).fit(X, NUMBERS).gamma_ == 1 / (3 * X.var())


def test_the_default_grid_is_that_of_the_papers() -> None:
    model = LSSVCCV().fit(X, LABELS)
    assert len(model.cv_results_["params"]) == 13 * 11
    assert model.cv_results_["param_gamma"].min() == 2.0**-15
    assert model.cv_results_["param_alpha"].max() == 2.0**5
    assert len(model.history_) == 13
    assert model.approximation_["selected_with"]["name"] == "exact"


def test_progress_is_told_after_every_width() -> None:
    events = []
    LSSVRCV(gammas=[0.1, 1.0, 10.0], alphas=[0.1], callback=events.append).fit(X, NUMBERS)
    assert [e["done"] for e in events] == [1, 2, 3]
    assert {e["total"] for e in events} == {3}
    best = [e["best_score"] for e in events]
    assert best == sorted(best)


def test_verbose_writes_a_line_per_width(capsys) -> None:
    LSSVRCV(gammas=[0.1, 1.0], alphas=[0.1], verbose=1).fit(X, NUMBERS)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[-1].startswith("[LSSVRCV] 2/2 kernels, best score -")


def test_an_interrupt_in_the_callback_stops_the_search() -> None:
    def stop(event):
        if event["done"] == 3:
            raise KeyboardInterrupt

    with pytest.warns(
        SearchStoppedWarning, match="interrupted; the best so far is used, and 1[01] cand"
    ):
        model = LSSVRCV(callback=stop, n_jobs=1).fit(X, NUMBERS)
    assert model.search_["stopped"] == "interrupted"
    assert len(model.search_["untried"]) == 10
    assert len(model.history_) == 3


@pytest.mark.parametrize("n_jobs", [1, 2, -1, None])
def test_threads_do_not_change_the_result(n_jobs) -> None:
    model = LSSVCCV(n_jobs=n_jobs).fit(X, LABELS)
    reference = LSSVCCV(n_jobs=1).fit(X, LABELS)
    assert model.best_params_ == reference.best_params_
    assert_allclose(
        model.cv_results_["mean_test_score"], reference.cv_results_["mean_test_score"], atol=1e-12
    )


def test_prediction_memory_is_bounded() -> None:
    model = LSSVR().fit(RNG.standard_normal((400, 4)), RNG.standard_normal(400))

    def peak(rows: int) -> int:
        table = np.zeros((rows, 4))
        with sklearn.config_context(working_memory=2, assume_finite=True):
            tracemalloc.start()
            model.predict(table)
            used = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return used - 16 * rows

    assert peak(30_000) < 5 * 2**20


def test_predict_nothing() -> None:
    model = LSSVR().fit(X, NUMBERS)
    with pytest.raises(ValueError, match="0 sample"):
        model.predict(np.empty((0, 3)))


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 9),
    d=st.integers(1, 3),
    dtype=st.sampled_from([np.float32, np.float64, np.int64, np.bool_]),
    constant=st.booleans(),
    repeat=st.booleans(),
    targets=st.sampled_from([0, 1, 3]),
    weighted=st.booleans(),
    cv=st.sampled_from([2, "loo"]),
    seed=st.integers(0, 5),
)
def test_any_small_regression(n, d, dtype, constant, repeat, targets, weighted, cv, seed) -> None:
    rng = np.random.default_rng(seed)
    rows = (3 * rng.standard_normal((n, d))).astype(dtype)
    if constant:
        rows[:, 0] = 1
    if repeat:
        rows[-1] = rows[0]
    y = rng.standard_normal((n, targets) if targets else n)
    weights = rng.uniform(0.1, 2.0, n) if weighted else None
    model = LSSVRCV(gammas=[1e-3, 1.0, 1e4], alphas=[1e-4, 1.0], cv=cv).fit(rows, y, weights)
    assert model.predict(rows).shape == y.shape
    assert model.heldout_prediction_.shape == y.shape
    assert np.isfinite(model.cv_results_["mean_test_score"]).all()
    fixed = LSSVR(gamma=model.gamma_, alpha=model.alpha_).fit(rows, y, weights)
    assert_allclose(fixed.predict(rows), model.predict(rows), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", ["linear", lambda A, B: A @ B.T])
def test_a_kernel_without_a_width_is_tried_once(kernel) -> None:
    found = LSSVRCV(kernel, alphas=[0.1, 1.0]).fit(X, NUMBERS)
    assert [list(params) for params in found.cv_results_["params"]] == [["alpha"], ["alpha"]]
    assert found.gamma_ is None
    with pytest.raises(ValueError, match="no width to search"):
        LSSVRCV(kernel, gammas=[1.0]).fit(X, NUMBERS)


@pytest.mark.parametrize("name", [*(type(one).__name__ for one, _ in ALL), "SparseLSSVC", "SparseLSSVR"])
def test_an_unknown_parameter_names_the_class_that_was_called(name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name}\.__init__.*'widht'"):
        getattr(onefold, name)(widht=1.0)
