"""Choices of landmarks: reproducible, valid, and as good as their law promises."""

import numpy as np
import pytest
import scipy.sparse

from onefold import LSSVR, LSSVRCV
from onefold.approximations import Nystroem
from onefold.approximations.problem import Problem, Workload
from onefold.basis import BASES
from onefold.kernels import RBF, Laplacian, Linear, Matern
from onefold.linalg import is_foreign

METHODS = sorted(BASES)


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((600, 3))


TURN = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1e-3]])  # x_1 − x_2, nearly alone


def choose(method, X, m=40, kernel=RBF(1.0), seed=1):  # noqa: B008
    return BASES[method](kernel, X, m, np.random.default_rng(seed))


def unexplained(kernel, X, rows):
    C = kernel(X, rows)
    W = kernel(rows, rows)
    return len(X) - np.trace(C @ np.linalg.pinv(W, rcond=1e-12, hermitian=True) @ C.T)


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_X_reproducible_from_the_seed_and_of_its_type(method, X):
    basis = choose(method, X)
    np.testing.assert_array_equal(basis.rows, choose(method, X).rows)
    assert not np.array_equal(basis.rows, choose(method, X, seed=2).rows)
    if method != "kmeans":
        assert basis.size == len(set(basis.index.tolist())) == 40
        np.testing.assert_array_equal(basis.rows, X[basis.index])
    assert choose(method, X.astype(np.float32)).rows.dtype == np.float32
    sparse = choose(method, scipy.sparse.csr_array(X))
    assert scipy.sparse.issparse(sparse.rows)
    assert sparse.rows.shape == (40, 3)


def test_pivots_stop_when_nothing_is_left_and_leave_less_than_uniform_rows(X):
    copies = choose("rpcholesky", np.repeat(X[:7], 20, axis=0), 50)
    assert copies.size == 7
    assert copies.report["unexplained_trace"] < 1e-10
    # Half of the rows in one tight cluster: uniform rows waste half of the landmarks on it.
    X = np.vstack([X, 1e-3 * X])
    pivots, uniform = (
        unexplained(RBF(1.0), X, choose(method, X, 60, seed=0).rows)
        for method in ("rpcholesky", "uniform")
    )
    assert pivots < 0.6 * uniform


def test_blocked_pivots_follow_the_one_by_one_law():
    # Two pivots of three rows: the exact probabilities of each pair, by enumeration.
    K = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.3], [0.0, 0.3, 1.0]])
    expected = {}
    for i in range(3):
        rest = np.diag(K) - K[:, i] ** 2 / K[i, i]
        for j in range(3):
            pair = tuple(sorted((i, j)))
            if i != j:
                expected[pair] = expected.get(pair, 0) + K[i, i] / 3 * rest[j] / rest.sum()

    class Table(RBF):
        def __call__(self, A, B):
            return K[np.ix_(np.rint(A[:, 0]).astype(int), np.rint(B[:, 0]).astype(int))]

        stationary = False

    rows = np.arange(3.0)[:, None]
    kernel = Table(1.0)
    counts: dict = {}
    for seed in range(1000):
        basis = BASES["rpcholesky"](kernel, rows, 2, np.random.default_rng(seed))
        pair = tuple(basis.index.tolist())
        counts[pair] = counts.get(pair, 0) + 1
    for pair, probability in expected.items():
        assert abs(counts[pair] / 1000 - probability) < 0.04


def test_clusters_of_any_precision_and_size(X):
    many = np.random.default_rng(0).integers(0, 3, (300, 4)).astype(np.float32)  # ties decide easily
    single, double = (choose("kmeans", many.astype(t)).rows for t in (np.float32, np.float64))
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(double, single, atol=1e-6)
    for scale, shift in ((1.0, 1e9), (1e100, 0.0), (1e-100, 0.0)):
        centres = (choose("kmeans", scale * X + shift, kernel=RBF(0.1)).rows - shift) / scale
        assert np.all((X.min(axis=0) < centres) & (centres < X.max(axis=0)))
        assert len(np.unique(centres.round(3), axis=0)) == 40


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_clusters_on_a_device_are_those_of_their_definition(X, monkeypatch, library, dtype):
    """Every centre is the mean of the rows nearest to it, but for the last of ten rounds."""
    xp = pytest.importorskip(library)
    monkeypatch.setattr("onefold.basis.landmarks.device_rows", lambda m: 250)
    monkeypatch.setattr("onefold.linalg.on_accelerator", is_foreign)
    rows = xp.asarray(X, dtype=getattr(xp, dtype))
    found = choose("kmeans", rows).rows
    assert bool(xp.all(found == choose("kmeans", rows).rows))
    centres = np.asarray(found, dtype=float)

    def nearest(some):
        return ((X[:, None, :] - some[None, :, :]) ** 2).sum(axis=2)

    distances = nearest(centres)
    means = [X[distances.argmin(axis=1) == j].mean(axis=0) for j in range(len(centres))]
    inertia = distances.min(axis=1).sum()
    theirs = nearest(choose("kmeans", X).rows).min(axis=1).sum()
    moved = ((np.array(means) - centres) ** 2).sum()
    assert moved < 0.02 * inertia
    assert inertia < 1.1 * theirs
    assert inertia < 0.8 * nearest(choose("uniform", X).rows).min(axis=1).sum()


@pytest.mark.parametrize("method", ["uniform", "kmeans", "rpcholesky"])
@pytest.mark.parametrize("training", ["factors", "whitened sums", "sums"])
def test_a_kernel_of_zeros_leaves_the_mean(force_training, method, training):
    force_training(training)
    y = np.arange(20.0)
    fitted = LSSVRCV("linear", alphas=[0.1], cv=4, approximation=Nystroem(5, method)).fit(
        np.zeros((20, 2)), y
    )
    np.testing.assert_allclose(fitted.predict(np.zeros((3, 2))), 9.5)
    assert fitted.approximation_["fitted_with"]["rank"] == 0


@pytest.mark.parametrize("method", METHODS)
def test_values_that_are_not_finite_are_refused(method, X):
    spoiled = np.where(np.arange(600)[:, None] == 20, 1e200, X)  # beside landmarks of usual size
    for name, rows, way in (("rbf", 1e200 * X, Nystroem(8, method)), ("poly", spoiled, Nystroem(X[:8]))):
        with np.errstate(all="ignore"), pytest.raises(ValueError, match="scale the features"):
            LSSVR(name, approximation=way).fit(rows, X[:, 0])


@pytest.mark.parametrize("build", [np.asarray, np.float32, scipy.sparse.csr_array, "torch"])
@pytest.mark.parametrize(
    "kernel",
    [
        RBF(1.0, metric=TURN),
        Matern(2.0, 0.5, metric=TURN),
        RBF((4.0, 0.0, 0.25)),
        Laplacian(1.0, metric=[3.0, 0.0, 0.1]),
    ],
    ids=repr,
)
def test_clusters_of_any_rows_are_those_of_the_metric(X, monkeypatch, build, kernel):
    """They leave less of the kernel than clusters in no metric, also far from the origin."""
    monkeypatch.setattr("onefold.linalg.on_accelerator", is_foreign)
    rows = (pytest.importorskip("torch").asarray if build == "torch" else build)(X)
    found = choose("kmeans", rows, kernel=kernel).rows
    assert type(found) is type(rows)
    assert found.dtype == rows.dtype
    dense = np.asarray(found.toarray() if scipy.sparse.issparse(found) else found, dtype=float)
    plain = unexplained(kernel, X, np.asarray(choose("kmeans", rows if build == "torch" else X).rows))
    for some in (dense, choose("kmeans", X + 1e6, kernel=kernel).rows - 1e6):
        assert unexplained(kernel, X, some) < 0.85 * plain


@pytest.mark.parametrize(
    ("kernels", "way", "shared"),
    [
        ([RBF(1.0), RBF(1.0, metric=TURN)], Nystroem(30, "kmeans"), False),
        ([RBF(1.0, metric=TURN), Matern(2.0, metric=TURN.tolist())], Nystroem(30, "kmeans"), True),
        ([RBF(1.0), Laplacian(1.0), RBF(1.0, metric=TURN) + Linear()], Nystroem(30, "kmeans"), True),
        ([RBF(1.0), RBF(1.0, metric=TURN)], Nystroem(30, "uniform"), True),
    ],
)
def test_one_basis_serves_the_kernels_of_one_metric_alone(X, kernels, way, shared):
    problem = Problem(X, X[:, :1], None, True)
    load = Workload(kernels=len(kernels))
    run = way.start(problem, kernels, load)
    assert (run.shared is not None) == shared
    for kernel in kernels:
        alone = way.start(problem, [kernel], Workload()).model(kernel).design.landmarks
        np.testing.assert_array_equal(run.model(kernel).design.landmarks, alone)
