"""A kernel that is not `thread_safe` is never inside itself, whatever fits or predicts with it."""

import threading
import time
import warnings

import dask.array
import numpy as np
import pytest

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, trust
from onefold.approximations import Circulant, ConjugateGradients, Nystroem
from onefold.kernels import RBF, CallableKernel
from onefold.kernels.base import Kernel
from onefold.machine.threads import use_threads
from onefold.search import Halving

RNG = np.random.default_rng(3)
X = RNG.standard_normal((90, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(90)
GRID = {"gammas": [0.1, 0.3, 1.0, 3.0], "alphas": [0.01, 0.1], "n_jobs": 4}


class Turnstile:
    """Counts how many threads are between its entrance and its exit at a time."""

    def __init__(self):
        self.inside = []
        self.most = self.passed = 0
        self.lock = threading.Lock()

    def __enter__(self):
        with self.lock:
            self.inside.append(threading.get_ident())
            self.passed += 1
            self.most = max(self.most, len(set(self.inside)))
        time.sleep(0.0005)  # others would come in meanwhile, if they were allowed to

    def __exit__(self, *error):
        with self.lock:
            self.inside.remove(threading.get_ident())


TURNSTILE = Turnstile()


@pytest.fixture(autouse=True)
def turnstile():
    """Of the kernels below, none of which may be inside at the same time as another one."""
    TURNSTILE.__init__()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield TURNSTILE
    assert TURNSTILE.passed > 2
    assert TURNSTILE.most == 1


def inverse(A, B):
    """A user's function: multiquadric, positive definite."""
    with TURNSTILE:
        return 1.0 / (1.0 + ((A[:, None] - B[None]) ** 2).sum(axis=2))


def linear(A, B):
    """Another one, with the same state."""
    with TURNSTILE:
        return A @ B.T


class Unshared(RBF):
    """A user's class, with a width and a metric to learn."""

    thread_safe = False

    def __call__(self, A, B):
        with TURNSTILE:
            return super().__call__(A, B)

    def bind(self, landmarks):
        tile = super().bind(landmarks)

        def bound(rows, out=None):
            with TURNSTILE:
                return tile(rows, out)

        return bound

    def gradient(self, rows, landmarks, coef, factor=None):
        with TURNSTILE:
            return super().gradient(rows, landmarks, coef, factor)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF() + CallableKernel(inverse),
        RBF() * CallableKernel(inverse),
        Unshared(),
        [inverse, linear],
        ["rbf", Unshared(), linear],
    ],
    ids=["sum", "product", "class", "functions", "list"],
)
@pytest.mark.parametrize("blend", [False, True])
def test_a_search(kernel, blend):
    if blend and not isinstance(kernel, list):
        kernel = [kernel, "laplacian"]
    model = LSSVRCV(kernel, blend=blend, **GRID).fit(X, Y)
    model.predict_interval(X)


@pytest.mark.parametrize("approximation", [Nystroem(20), "grid", "toeplitz", Circulant(spacing=1.0)])
def test_a_search_with_an_approximation(approximation, monkeypatch):
    monkeypatch.setattr("onefold.approximations.circulant._VALUES_AT_ONCE", 10)
    line = np.arange(90.0)[:, None] / 10
    LSSVRCV(Unshared(), approximation=approximation, refit="same", **GRID).fit(line, Y).predict(line)


def test_a_search_by_halving():
    LSSVRCV(Unshared(), search=Halving(2, 40), **GRID).fit(X, Y)


@pytest.mark.parametrize("first", [1000, 30])
@pytest.mark.parametrize("metric_rows", [None, 50])
def test_rounds_of_a_metric_and_importances(first, metric_rows, monkeypatch):
    monkeypatch.setattr("onefold.approximations.auto.FIRST_ROWS", first)
    settings = GRID | {"gammas": [0.3, 1.0], "metric": "auto", "max_rounds": 2, "blend": True}
    model = LSSVRCV([Unshared(), "matern32"], metric_rows=metric_rows, **settings)
    assert model.fit(X, np.sin(3 * X[:, 0])).feature_importances_ is not None


@pytest.mark.parametrize("approximation", ["exact", ConjugateGradients(), Nystroem(20)])
def test_a_fit_of_given_parameters_and_its_predictions(approximation, monkeypatch):
    monkeypatch.setattr("onefold.kernels.tiles.tile_side", lambda: 16)
    model = LSSVR(Unshared(), alpha=0.1, approximation=approximation, n_jobs=4).fit(X, Y)
    model.predict(np.vstack([X] * 5))
    LSSVC(inverse, alpha=0.1, n_jobs=4).fit(X, Y > 0).predict_proba(X)


def test_a_trust_check():
    trust(LSSVCCV(Unshared(), approximation=Nystroem(30), **GRID), X, Y > 0)


def test_predictions_of_lazy_rows():
    model = LSSVR(inverse, alpha=0.1).fit(X, Y)
    lazy = model.predict(dask.array.from_array(X, chunks=(10, 2)))
    found = lazy.compute(scheduler="threads", num_workers=4)
    with use_threads(1):
        np.testing.assert_allclose(found, model.predict(X), rtol=1e-12)


def test_lazy_rows():
    rows = dask.array.from_array(X, chunks=(10, 2))
    target = dask.array.from_array(Y, chunks=10)
    LSSVRCV(Unshared(), approximation=Nystroem(20), **GRID).fit(rows, target)


def test_it_is_what_kernels_say():
    for kernel in (Unshared() + RBF(), RBF() * Unshared(), CallableKernel(inverse)):
        assert isinstance(kernel, Kernel)
        assert not kernel.thread_safe
        LSSVR(kernel, alpha=1.0).fit(X, Y)
