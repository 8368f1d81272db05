"""The same call has the same digits: one thread, two threads, or again."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pytest
from sklearn import config_context
from threadpoolctl import threadpool_limits

from onefold import LSSVCCV, LSSVR, LSSVRCV, KernelRidge
from onefold.approximations import ConjugateGradients, Nystroem
from onefold.approximations.toeplitz import diagonal_means
from onefold.kernels import RBF
from onefold.machine.threads import map_in_order, use_threads

RNG = np.random.default_rng(0)
X = RNG.standard_normal((1100, 4))
Y = np.sin(X).sum(axis=1) + 0.1 * RNG.standard_normal(1100)
WEIGHT = RNG.uniform(0.2, 3, 1100)


@pytest.fixture(autouse=True)
def many_pieces_and_blas_threads(monkeypatch):
    """Sums of many pieces, though the rows are few; products may run on several BLAS threads."""
    monkeypatch.setattr(sys.modules["onefold.rows.base"], "TASK_ROWS", 32)
    monkeypatch.setattr("onefold.approximations.cg._SIDE", 150)
    monkeypatch.setattr("onefold.approximations.cg._BLOCK", 32)
    with threadpool_limits(2, "blas"):
        yield


def _numbers(model):
    found = [model.expansion_.coef, model.expansion_.intercept, model.predict(X)]
    if hasattr(model, "cv_results_"):
        results = model.cv_results_
        found += [results[key] for key in sorted(results) if key.endswith("test_score")]
        found.append(model.heldout_prediction_)
    return [np.asarray(values) for values in found]


def _assert_same(make, rows=X, targets=Y, weight=None):
    models = [make(n_jobs).fit(rows, targets, weight) for n_jobs in (1, 2, 3)]
    first, *others = [_numbers(model) for model in models]
    for other in others:
        for one, two in zip(first, other):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("training", ["factors", "whitened sums", "sums"])
@pytest.mark.parametrize("method", ["uniform", "kmeans", "rpcholesky"])
def test_search_with_landmarks(force_training, training, dtype, method):
    force_training(training)
    settings = {"gammas": [0.05, 0.4], "alphas": [1e-3, 1.0], "cv": 3}
    _assert_same(
        lambda j: LSSVRCV(**settings, approximation=Nystroem(60, method), n_jobs=j), X.astype(dtype)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("training", ["factors", "whitened sums", "sums"])
def test_fixed_models_leave_one_out_and_all_rows(force_training, training, dtype):
    force_training(training)
    rows = X.astype(dtype)
    plain, low_rank = Nystroem(60, "uniform"), Nystroem(60, "uniform", rank=30, predict="rows")
    one = {"gammas": [0.1], "alphas": [1e-3, 1.0]}
    _assert_same(lambda j: LSSVR(gamma=0.1, approximation=plain, n_jobs=j), rows, weight=WEIGHT)
    _assert_same(lambda j: LSSVRCV(**one, cv="loo", approximation=plain, n_jobs=j), rows)
    _assert_same(lambda j: LSSVRCV(**one, cv=3, approximation=low_rank, n_jobs=j), rows)
    _assert_same(lambda j: LSSVCCV(**one, cv=3, approximation=plain, n_jobs=j), rows, Y > 0, WEIGHT)


@pytest.mark.parametrize("alpha", [1e-1, 1e-5])
@pytest.mark.parametrize("estimator", [LSSVR, KernelRidge])
def test_conjugate_gradients(estimator, alpha):
    cg = ConjugateGradients(300, tolerance=1e-3)
    _assert_same(lambda j: estimator(gamma=0.1, alpha=alpha, approximation=cg, n_jobs=j), weight=WEIGHT)


def _means(X, workers):
    with use_threads(workers):
        return diagonal_means(RBF(0.1), X)[0]


def test_diagonal_means():
    with config_context(working_memory=4):  # tiles of 64 rows
        first, *others = [_means(X, workers) for workers in (1, 2, 3, 3)]
    for other in others:
        np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_order_and_bound_on_what_waits(workers):
    started, lock = [], threading.Lock()

    def work(item):
        with lock:
            started.append(item)
        if item == 0 and workers > 1:
            time.sleep(0.05)  # every other one is quicker
            with lock:
                assert len(started) <= 2 * workers
        return item * item

    with use_threads(workers):
        assert list(map_in_order(work, range(40))) == [i * i for i in range(40)]


def test_an_error_is_passed_on():
    def work(item):
        if item == 7:
            raise RuntimeError("seven")
        return item

    for workers in (1, 3):
        with use_threads(workers), pytest.raises(RuntimeError, match="seven"):
            list(map_in_order(work, range(30)))
