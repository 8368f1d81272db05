"""The same call has the same digits: one thread, two threads, or again."""

import numpy as np
import pytest
from sklearn import config_context
from threadpoolctl import threadpool_limits

from onefold import LSSVCCV, LSSVR, LSSVRCV, KernelRidge
from onefold.approximations import ConjugateGradients, Nystroem
from onefold.approximations.toeplitz import diagonal_means
from onefold.kernels import RBF
from onefold.machine.threads import use_threads

RNG = np.random.default_rng(0)
X = RNG.standard_normal((700, 4))
Y = np.sin(X).sum(axis=1) + 0.1 * RNG.standard_normal(700)
WEIGHT = RNG.uniform(0.2, 3, 700)


@pytest.fixture(autouse=True)
def many_pieces_and_blas_threads(monkeypatch):
    """Sums of many pieces, though the rows are few; products may run on several BLAS threads."""
    monkeypatch.setattr("onefold.rows.base.TASK_ROWS", 32)
    monkeypatch.setattr("onefold.approximations.cg._SIDE", 150)
    monkeypatch.setattr("onefold.approximations.cg._BLOCK", 32)
    with threadpool_limits(2, "blas"):
        yield


def _numbers(model):
    found = [model.expansion_.coef, model.expansion_.intercept, model.predict(X)]
    if hasattr(model, "cv_results_"):
        found += [v for key, v in model.cv_results_.items() if key.endswith("test_score")]
        found.append(model.heldout_prediction_)
    return found


GRID = {"gammas": [0.05, 0.4], "alphas": [1e-3, 1.0], "cv": 3}
UNIFORM, RANKED = Nystroem(60, "uniform"), Nystroem(60, "uniform", rank=30, predict="rows")
MACHINES = {  # estimator, weights
    "kmeans": (LSSVRCV(**GRID, approximation=Nystroem(60)), None),
    "rpcholesky": (LSSVRCV(**GRID, approximation=Nystroem(60, "rpcholesky")), None),
    "labels": (LSSVCCV(**GRID, approximation=UNIFORM), WEIGHT),
    "row by row": (LSSVRCV(**GRID | {"cv": "loo"}, approximation=UNIFORM), None),
    "all rows": (LSSVRCV(**GRID, approximation=RANKED), None),
    "fixed": (LSSVR(gamma=0.1, approximation=UNIFORM), WEIGHT),
}


def assert_same(machine, rows, y=Y, weight=None):
    fits = [_numbers(machine.set_params(n_jobs=jobs).fit(rows, y, weight)) for jobs in (1, 2, 3)]
    for other in fits[1:]:
        for one, two in zip(fits[0], other):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("training", ["factors", "whitened sums", "sums"])
@pytest.mark.parametrize("name", MACHINES)
def test_landmarks(force_training, training, dtype, name):
    force_training(training)
    machine, weight = MACHINES[name]
    assert_same(machine, X.astype(dtype), Y > 0 if name == "labels" else Y, weight)


@pytest.mark.parametrize(("estimator", "alpha"), [(LSSVR, 1e-1), (LSSVR, 1e-5), (KernelRidge, 1e-5)])
def test_conjugate_gradients(estimator, alpha):
    cg = ConjugateGradients(200, tolerance=1e-3)
    assert_same(estimator(gamma=0.1, alpha=alpha, approximation=cg), X, weight=WEIGHT)


def test_diagonal_means():
    found = []
    for workers in (1, 2, 3, 3):
        with config_context(working_memory=4), use_threads(workers):  # tiles of 64 rows
            found.append(diagonal_means(RBF(0.1), X)[0])
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
