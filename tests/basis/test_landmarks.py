"""Choices of landmarks: reproducible, valid, and as good as their law promises."""

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


TURN = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1e-3]])  # x_1 − x_2, nearly alone


def choose(method, X, m=40, kernel=RBF(1.0), seed=1):  # noqa: B008
    return BASES[method](kernel, X, m, np.random.default_rng(seed))


def unexplained(kernel, X, rows):
    C, W = kernel(X, rows), kernel(rows, rows)
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

    rows, kernel = np.arange(3.0)[:, None], Table(1.0)
    counts: dict = {}
    for seed in range(1000):
        basis = BASES["rpcholesky"](kernel, rows, 2, np.random.default_rng(seed))
        pair = tuple(basis.index.tolist())
        counts[pair] = counts.get(pair, 0) + 1
    for pair, probability in expected.items():
        assert abs(counts[pair] / 1000 - probability) < 0.04


def test_rows_of_ones_own_are_checked(X):
    with pytest.raises(ValueError, match="3 features"):
        given_rows(np.ones((4, 2)), X)
    with pytest.raises(ValueError, match="NaN"):
        given_rows(np.full((4, 3), np.nan), X)
    assert given_rows(X[:4].astype(np.float32), X).rows.dtype == np.float64


def test_clusters_of_any_precision_and_size(X):
    many = np.random.default_rng(0).integers(0, 3, (300, 4)).astype(np.float32)  # ties decide easily
    single, double = (choose("kmeans", many.astype(t)).rows for t in (np.float32, np.float64))
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(double, single, atol=1e-6)
    for scale, shift in ((1.0, 1e9), (1e100, 0.0), (1e-100, 0.0)):
        centres = (choose("kmeans", scale * X + shift, kernel=RBF(0.1)).rows - shift) / scale
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


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_values_that_are_not_finite_are_refused(method, kernel, X):
    X, y = X[:40], X[:40, 0]
    spoiled = np.where(np.arange(40)[:, None] == 20, 1e200, X)
    cases = [(kernel, 1e200 * X, Nystroem(8, method)), ("polynomial", spoiled, Nystroem(X[:8]))]
    for name, rows, approximation in cases:
        with np.errstate(all="ignore"), pytest.raises(ValueError, match="scale the features"):
            LSSVR(name, approximation=approximation).fit(rows, y)


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
    rows = choose("kmeans", X, kernel=kernel).rows
    [(points, means)] = seen
    image = (X - X.mean(axis=0)) @ S.T
    np.testing.assert_allclose(points * np.abs(image).max(), image, atol=1e-5 * np.abs(image).max())
    literal = [X[means.labels_ == j].mean(axis=0) for j in np.unique(means.labels_)]
    np.testing.assert_allclose(rows, literal, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("build", [np.asarray, np.float32, scipy.sparse.csr_array, "torch"])
@pytest.mark.parametrize("metric", [TURN, np.array([1.0, 0.0, 2.0])], ids=["matrix", "weights"])
def test_clusters_in_a_metric_of_any_rows(X, build, metric):
    rows = (pytest.importorskip("torch").asarray if build == "torch" else build)(X)
    kernel = RBF(1.0, metric=metric)
    found = choose("kmeans", rows, kernel=kernel).rows
    assert type(found) is type(rows)
    assert found.dtype == rows.dtype
    dense = np.asarray(found.toarray() if scipy.sparse.issparse(found) else found)
    assert 30 <= len(dense) <= 40
    assert np.all((X.min(axis=0) <= dense) & (dense <= X.max(axis=0)))
    for other in (Linear(), Laplacian(3.0), kernel + Linear(), kernel * RBF()):  # in no metric
        np.testing.assert_array_equal(choose("kmeans", X, kernel=other).rows, choose("kmeans", X).rows)
    near, far = (choose("kmeans", X + s, kernel=kernel).rows - s for s in (0.0, 1e6))
    assert unexplained(kernel, X, far) < 1.2 * unexplained(kernel, X, near) + 1e-3


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
