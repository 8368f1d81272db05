"""Choices of landmarks: reproducible, valid, and as good as their law promises."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.cluster import MiniBatchKMeans

from onefold import LSSVR, LSSVRCV
from onefold.approximations import Nystroem
from onefold.approximations.problem import Problem, Workload
from onefold.basis import BASES, given_rows
from onefold.kernels import RBF, Laplacian, Linear, Matern

METHODS = sorted(BASES)


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((600, 3))


@pytest.mark.parametrize("method", METHODS)
def test_reproducible_from_the_seed(method, X):
    def choose(seed):
        return BASES[method](RBF(1.0), X, 30, np.random.default_rng(seed)).rows

    np.testing.assert_array_equal(choose(1), choose(1))
    assert not np.array_equal(choose(1), choose(2))


@pytest.mark.parametrize("method", ["rpcholesky", "uniform"])
def test_landmarks_are_distinct_rows_of_X(method, X):
    basis = BASES[method](RBF(1.0), X, 40, np.random.default_rng(0))
    assert basis.size == 40
    assert len(set(basis.index.tolist())) == 40
    np.testing.assert_array_equal(basis.rows, X[basis.index])


@pytest.mark.parametrize("method", METHODS)
def test_sparse_and_single_precision_rows(method, X):
    rng = np.random.default_rng
    single = BASES[method](RBF(1.0), X.astype(np.float32), 20, rng(0))
    assert single.rows.dtype == np.float32
    sparse = BASES[method](RBF(1.0), scipy.sparse.csr_array(X), 20, rng(0))
    assert scipy.sparse.issparse(sparse.rows)
    assert sparse.rows.shape == (20, 3)


def test_pivots_stop_when_nothing_is_left():
    X = np.repeat(np.random.default_rng(0).standard_normal((7, 2)), 20, axis=0)
    basis = BASES["rpcholesky"](RBF(1.0), X, 50, np.random.default_rng(0))
    assert basis.size == 7
    assert basis.report["unexplained_trace"] < 1e-10


def test_pivots_leave_less_than_uniform_rows(X):
    # Half of the rows in one tight cluster: uniform rows waste half of the landmarks on it.
    X = np.vstack([X, 1e-3 * X])

    def unexplained(method):
        rows = BASES[method](RBF(1.0), X, 60, np.random.default_rng(0)).rows
        C, W = RBF(1.0)(X, rows), RBF(1.0)(rows, rows)
        return len(X) - np.trace(C @ np.linalg.pinv(W, rcond=1e-12) @ C.T)

    assert unexplained("rpcholesky") < 0.6 * unexplained("uniform")


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

    rows, kernel = np.arange(3.0)[:, None], Table(1.0)
    counts: dict = {}
    for seed in range(3000):
        basis = BASES["rpcholesky"](kernel, rows, 2, np.random.default_rng(seed))
        pair = tuple(basis.index.tolist())
        counts[pair] = counts.get(pair, 0) + 1
    for pair, probability in expected.items():
        assert abs(counts[pair] / 3000 - probability) < 0.04


def test_rows_of_ones_own_are_checked(X):
    with pytest.raises(ValueError, match="3 features"):
        given_rows(np.ones((4, 2)), X)
    with pytest.raises(ValueError, match="NaN"):
        given_rows(np.full((4, 3), np.nan), X)
    assert given_rows(X[:4].astype(np.float32), X).rows.dtype == np.float64


def test_cluster_centres_do_not_depend_on_the_precision():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (300, 4)).astype(np.float32)  # many duplicates: a tie decides easily
    single = BASES["kmeans"](RBF(0.1), X, 40, np.random.default_rng(1))
    double = BASES["kmeans"](RBF(0.1), X.astype(np.float64), 40, np.random.default_rng(1))
    assert single.rows.dtype == np.float32
    assert double.rows.dtype == np.float64
    np.testing.assert_allclose(double.rows, single.rows, atol=1e-6)


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 1e9), (1e100, 0.0), (1e-100, 0.0)])
def test_clusters_of_rows_of_any_size(X, scale, shift):
    rows = scale * X + shift
    centres = (BASES["kmeans"](RBF(0.1), rows, 40, np.random.default_rng(1)).rows - shift) / scale
    assert np.all((X.min(axis=0) < centres) & (centres < X.max(axis=0)))
    assert len(np.unique(centres.round(3), axis=0)) == 40


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


@pytest.mark.parametrize("method", ["uniform", "kmeans", "rpcholesky"])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_values_that_are_not_finite_are_refused(method, kernel):
    X = np.random.default_rng(0).standard_normal((40, 3))
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="scale the features"):
        LSSVR(kernel, approximation=Nystroem(8, method)).fit(1e200 * X, X[:, 0])


def test_rows_that_spoil_the_kernel_are_refused_with_finite_landmarks():
    X = np.random.default_rng(0).standard_normal((40, 3))
    landmarks, y = X[:8].copy(), X[:, 0].copy()
    X[20] = 1e200
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="scale the features"):
        LSSVR("polynomial", approximation=Nystroem(landmarks)).fit(X, y)


TURN = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1e-3]])  # x_1 − x_2, nearly alone


def clusters(kernel, X, m=40):
    return BASES["kmeans"](kernel, X, m, np.random.default_rng(1)).rows


def unexplained(kernel, X, rows):
    C, W = kernel(X, rows), kernel(rows, rows)
    return len(X) - np.trace(C @ np.linalg.pinv(W, rcond=1e-12, hermitian=True) @ C.T)


@pytest.mark.parametrize(
    ("kernel", "S"),
    [
        (RBF(2.0, metric=TURN), TURN),
        (Matern(2.0, 0.5, metric=TURN), TURN),
        (RBF((4.0, 0.0, 0.25)), np.diag([2.0, 0.0, 0.5])),
        (Laplacian(1.0, metric=[1.0, 0.0, 3.0]), np.diag([1.0, 0.0, 3.0])),
    ],
    ids=repr,
)
def test_clusters_are_those_of_the_rows_in_the_metric(X, kernel, S, monkeypatch):
    seen = []

    class Watched(MiniBatchKMeans):
        def fit(self, rows):
            seen.append((rows, super().fit(rows)))
            return self

    monkeypatch.setattr("onefold.basis.landmarks.MiniBatchKMeans", Watched)
    rows = clusters(kernel, X)
    [(points, means)] = seen
    image = (X - X.mean(axis=0)) @ S.T
    np.testing.assert_allclose(points * np.abs(image).max(), image, atol=1e-5 * np.abs(image).max())
    literal = [X[means.labels_ == j].mean(axis=0) for j in np.unique(means.labels_)]
    np.testing.assert_allclose(rows, literal, rtol=1e-10, atol=1e-12)


def test_clusters_in_the_metric_explain_its_kernel(X):
    kernel = RBF(2.0, metric=TURN)
    found, plain = clusters(kernel, X, 25), clusters(RBF(2.0), X, 25)
    assert unexplained(kernel, X, found) < 0.5 * unexplained(kernel, X, plain)


def test_clusters_without_a_metric_of_their_own(X):
    plain = clusters(RBF(1.0), X)
    for kernel in (Linear(), Laplacian(3.0), RBF(1.0, metric=TURN) + Linear(), RBF(metric=TURN) * RBF()):
        np.testing.assert_array_equal(clusters(kernel, X), plain)


@pytest.mark.parametrize("build", [np.asarray, np.float32, scipy.sparse.csr_array, "torch"])
@pytest.mark.parametrize("metric", [TURN, np.array([1.0, 0.0, 2.0])], ids=["matrix", "weights"])
def test_clusters_in_a_metric_of_any_rows(X, build, metric):
    if build == "torch":
        build = pytest.importorskip("torch").asarray
    rows = build(X)
    found = clusters(RBF(1.0, metric=metric), rows)
    assert type(found) is type(rows)
    assert found.dtype == rows.dtype
    dense = np.asarray(found.toarray() if scipy.sparse.issparse(found) else found)
    assert 30 <= len(dense) <= 40
    assert np.all((X.min(axis=0) <= dense) & (dense <= X.max(axis=0)))
    far = clusters(RBF(1.0, metric=metric), X + 1e6) - 1e6
    assert (
        unexplained(RBF(1.0, metric=metric), X, far)
        < 1.2 * unexplained(RBF(1.0, metric=metric), X, clusters(RBF(1.0, metric=metric), X)) + 1e-3
    )


def test_one_basis_serves_the_kernels_of_one_metric_alone(X):
    problem, weights = Problem(X, X[:, :1], None, True), np.array([1.0, 0.0, 2.0])
    mixed = [RBF(1.0), RBF(1.0, metric=TURN), Laplacian(1.0, metric=weights)]
    load = Workload(kernels=3)
    run = Nystroem(30, "kmeans").start(problem, mixed, load)
    assert run.shared is None
    for kernel in mixed:
        landmarks = run.model(kernel).design.landmarks
        np.testing.assert_array_equal(landmarks, Nystroem(30, "kmeans")._basis(kernel, problem).rows)
    same = [RBF(1.0, metric=TURN), Matern(2.0, metric=TURN.tolist()), RBF(5.0, metric=TURN)]
    shared = Nystroem(30, "kmeans").start(problem, same, load).shared
    np.testing.assert_array_equal(shared.rows, Nystroem(30, "kmeans")._basis(same[2], problem).rows)
    assert Nystroem(30, "uniform").start(problem, mixed, load).shared is not None
    assert Nystroem(X[:9], "kmeans").start(problem, mixed, load).shared.size == 9
    plain = [RBF(1.0), Laplacian(1.0), Linear(), RBF(1.0, metric=TURN) + Linear()]
    assert Nystroem(30, "kmeans").start(problem, plain, load).shared is not None
