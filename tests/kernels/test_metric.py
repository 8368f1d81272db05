"""Kernels in a metric space: the rows transformed by hand are the literal computation."""

import copy
import pickle
from dataclasses import replace

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from onefold import LSSVR, KernelRidge
from onefold.kernels import RBF, Kernel, Laplacian, Linear, Matern, Metric, Polynomial
from onefold.kernels.tiles import gram, kernel_product
from onefold.linalg import to_numpy

RNG = np.random.default_rng(5)
A, B = RNG.standard_normal((23, 4)), RNG.standard_normal((9, 4))
A[3], A[4] = B[0], A[5]
S = RNG.standard_normal((4, 4))
WEIGHTS = np.array([0.5, 0.0, 2.0, 1.0])
PLAIN = [RBF(0.3), Matern(0.3, 0.5), Matern(0.3, 1.5), Matern(0.3, 2.5), Polynomial(0.3, 2)]
EVERY = [*PLAIN, Laplacian(0.3)]


METRICS = pytest.mark.parametrize("metric", [None, S, WEIGHTS], ids=["none", "matrix", "weights"])


def with_metric(kernel: Kernel, metric: object) -> Kernel:
    """The kernel in a metric; skips what cannot have it."""
    if metric is None:
        return kernel
    if not hasattr(kernel, "gamma") or (np.ndim(metric) == 2 and isinstance(kernel, Laplacian)):
        pytest.skip("a kernel without this metric")
    return replace(kernel, metric=metric)


@METRICS
@pytest.mark.parametrize("kernel", EVERY, ids=repr)
def test_a_metric_transforms_the_rows(kernel, metric) -> None:
    measured, T = with_metric(kernel, metric), np.eye(4) if metric is None else metric
    left, right = (rows @ T.T if T.ndim == 2 else rows * T for rows in (A, B))
    coef = RNG.standard_normal((9, 2))
    for found, wanted in (
        (measured(A, B), kernel(left, right)),
        (measured.diagonal(A), kernel.diagonal(left)),
        (measured.pairs(A[:9], B), kernel.pairs(left[:9], right)),
        (gram(measured, A), gram(kernel, left)),
        (kernel_product(measured, A, B, coef), kernel_product(kernel, left, right, coef)),
    ):
        assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kernel", EVERY, ids=repr)
def test_widths_per_feature_are_a_metric(kernel) -> None:
    widths = (0.1, 0.2, 0.0, 0.4)
    power = 1.0 if isinstance(kernel, Laplacian) else 0.5
    same = type(kernel)(1.0, metric=np.power(widths, power))
    assert type(kernel)(widths) == same
    assert type(kernel)(widths).gamma == 1.0
    assert type(kernel)(widths).scaled(3.0) == same.scaled(3.0)


@pytest.mark.parametrize("metric", [S, WEIGHTS], ids=["matrix", "weights"])
@pytest.mark.parametrize("kernel", PLAIN, ids=repr)
def test_kernels_are_values(kernel, metric) -> None:
    one, array = with_metric(kernel, metric), metric.copy()
    for twin in (
        with_metric(kernel, metric.tolist()),
        copy.deepcopy(one),
        pickle.loads(pickle.dumps(one)),
    ):
        assert twin == one
        assert hash(twin) == hash(one)
        with pytest.raises(ValueError, match="read-only"):
            twin.metric.values[0] = 7.0
    assert one not in (kernel, with_metric(kernel, 2 * metric))
    assert (one.scaled(2.0).metric, one.scaled(2.0).gamma) == (one.metric, 0.6)
    assert kernel.one_width
    assert not one.one_width
    assert "metric" in repr(one)
    assert "metric" not in repr(kernel)
    kept = with_metric(kernel, array)
    array[:] = 0.0
    assert kept == one
    assert_array_equal(np.asarray(one.metric), metric)


@pytest.mark.parametrize("kernel", [*EVERY, Linear(), RBF(0.3) * Linear() + Laplacian(0.1)], ids=repr)
@METRICS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", ["strict", "torch"])
def test_other_libraries(kernel, metric, dtype, library) -> None:
    kernel = with_metric(kernel, metric)
    xp = array_api_strict if library == "strict" else pytest.importorskip("torch")
    left, right = A.astype(dtype), B.astype(dtype)
    rows, landmarks = xp.asarray(left), xp.asarray(right)
    tile = kernel.bind(landmarks)
    tolerance = {"atol": 2e-3, "rtol": 1e-4} if dtype == "float32" else {"atol": 1e-7, "rtol": 1e-9}
    for part in (slice(0, 10), slice(10, 23)):
        got = to_numpy(tile(rows[part, :]))
        assert got.dtype == dtype
        assert_allclose(got, kernel(left[part], right), **tolerance)
    assert_allclose(to_numpy(kernel(rows, rows)), kernel(left, left), **tolerance)
    if library == "torch" and "Laplacian" not in repr(kernel):
        out = xp.empty((23, 9), dtype=getattr(xp, dtype))
        assert tile(rows, out).data_ptr() == out.data_ptr()
        assert_allclose(out.numpy(), kernel(left, right), **tolerance)


@pytest.mark.parametrize("kernel", EVERY, ids=repr)
def test_a_bound_tile_copies_nothing_to_the_device(kernel, monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    kernel = with_metric(kernel, WEIGHTS)
    tile, rows, expected = kernel.bind(torch.asarray(B)), torch.asarray(A), kernel(A, B)
    monkeypatch.setattr("onefold.kernels.metric.like", None)
    monkeypatch.setattr(torch.Tensor, "item", None)
    monkeypatch.setattr(torch.Tensor, "__float__", None)
    monkeypatch.setattr(torch.Tensor, "__bool__", None)
    assert_allclose(to_numpy(tile(rows)), expected, atol=1e-7)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(PLAIN),
    st.sampled_from([None, S, WEIGHTS]),
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 2**32 - 1),
    st.floats(-3, 3),
)
def test_bound_tiles_are_the_kernel(kernel, metric, dtype, seed, size) -> None:
    rng = np.random.default_rng(seed)
    Z = (rng.standard_normal((7, 4)) * 10**size).astype(dtype)
    X = np.vstack([rng.standard_normal((5, 4)) * 10**size, Z[:3], Z[:2]]).astype(dtype)
    kernel = with_metric(kernel, metric)
    bound, out = kernel.bind(Z), np.empty((10, 7), dtype=dtype)
    whole = bound(X).copy()
    assert_array_equal(bound(X, out), whole)
    assert_array_equal(kernel.bind(Z)(X, out), whole)
    assert_array_equal(kernel(X, Z), whole)
    if kernel.stationary:
        differences = (X[:, None].astype(np.longdouble) - Z[None]) @ (
            np.eye(4) if metric is None else S.T if metric is S else np.diag(metric)
        )
        squared = (0.3 * (differences**2).sum(-1)).astype(np.float64)
        expected = kernel.profile(kernel.unit * squared)
        assert_allclose(whole, expected, atol=1e-4 if dtype == np.float32 else 1e-9)


def test_a_grid_of_a_metric_that_mixes_features() -> None:
    turn = np.array([[1.0, 0.7], [-0.2, 0.8]])
    X, y = A[:, :2], np.sin(A[:, 0])
    grid = KernelRidge(RBF(0.3, metric=turn), alpha=0.1, approximation="grid").fit(X, y)
    exact = KernelRidge(RBF(0.3, metric=turn), alpha=0.1).fit(X, y)
    assert_allclose(grid.predict(X), exact.predict(X), atol=2e-3)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RBF(metric=np.ones((2, 3))), r"\(d, d\); got the shape \(2, 3\)"),
        *(
            (lambda bad=bad: RBF(metric=bad), "one weight per feature")
            for bad in (np.ones((2, 2, 2)), 3.0, [])
        ),
        *(
            (lambda bad=bad: RBF(metric=bad), "array of numbers")
            for bad in ([[1.0, 2.0], [3.0]], "full", ["1", "2"], np.array([1 + 2j, 1]))
        ),
        *((lambda bad=bad: RBF(metric=[1.0, bad]), "finite") for bad in (np.nan, np.inf)),
        (lambda: Matern(metric=[1.0, -1.0]), "not be negative"),
        (lambda: Matern(metric=np.zeros((2, 2))), "for every feature"),
        (lambda: RBF((1.0, 2.0), metric=[1.0, 2.0]), "gamma has one width per feature"),
        (lambda: Laplacian(metric=np.eye(2)), "no matrix as its metric"),
        (lambda: RBF(metric=np.eye(2)).check_features(3), "2 widths but X has 3"),
        (lambda: (RBF() + RBF(metric=[1.0, 2.0])).check_features(3), "2 widths but X has 3"),
        (lambda: LSSVR(RBF(metric=np.eye(3))).fit(A, A[:, 0]), "3 widths but X has 4"),
    ],
)
def test_wrong_metrics_are_named(make, words) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_a_metric_of_a_metric_is_the_same() -> None:
    assert Metric(Metric(S)) == Metric(S)
    assert Metric(S) != Metric(WEIGHTS)
    assert Metric([0.0, 1.0]) == Metric([-0.0, 1.0])
    assert hash(Metric([0.0, 1.0])) == hash(Metric([-0.0, 1.0]))


DRAWN = np.random.default_rng(12)
ROWS = DRAWN.standard_normal((30, 4)) * [1.0, 5.0, 0.2, 1.0] + [0.0, 100.0, 0.0, -3.0]
ROWS[:, 3] = np.round(ROWS[:, 3])  # ties
COUNTS = DRAWN.integers(1, 4, 30)
FULL = DRAWN.standard_normal((4, 4))
SCALE = np.array([1.0, 0.5, 2.0, 0.0])
MEASURED = [
    (RBF(0.3, metric=FULL), lambda A: 0.3 * cdist(A @ FULL.T, A @ FULL.T) ** 2),
    (Matern(0.5, nu=0.5), lambda A: np.sqrt(2 * 0.5) * cdist(A, A)),
    (Matern(0.5, nu=1.5), lambda A: np.sqrt(6 * 0.5) * cdist(A, A)),
    (Laplacian(0.7, metric=SCALE), lambda A: 0.7 * cdist(A * SCALE, A * SCALE, "cityblock")),
]


@pytest.mark.parametrize("build", [sp.csr_array, sp.csr_matrix])
@METRICS
@pytest.mark.parametrize("kernel", [*PLAIN, Linear(), RBF(0.3) + Linear()], ids=repr)
def test_sparse_rows(kernel, metric, build) -> None:
    thin = np.where(RNG.random(A.shape) < 0.5, 0.0, A)
    kernel = with_metric(kernel, metric)
    for left, right in [(build(thin), build(B)), (build(thin), B), (thin, build(B))]:
        assert_allclose(kernel(left, right), kernel(thin, B), rtol=1e-9, atol=1e-12)
    assert_allclose(gram(kernel, build(thin)), gram(kernel, thin), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("weight", [None, COUNTS * 0.37], ids=["equal", "weighted"])
@pytest.mark.parametrize(("kernel", "exponents"), MEASURED, ids=lambda one: str(one)[:12])
def test_the_mean_distance_by_its_definition(kernel, exponents, weight) -> None:
    v = np.ones(30) if weight is None else weight
    wanted = v @ exponents(ROWS) @ v / v.sum() ** 2
    assert_allclose(kernel.mean_exponent(ROWS, weight), wanted, rtol=1e-10)
    assert_allclose(kernel.mean_exponent(ROWS.astype(np.float32), weight), wanted, rtol=1e-3)


def test_the_mean_distance_of_repeated_sparse_and_equal_rows() -> None:
    thin = np.where(DRAWN.random(ROWS.shape) < 0.5, ROWS, 0.0)
    for kernel in (*(kernel for kernel, _ in MEASURED), Polynomial(0.5, degree=2)):
        found = kernel.mean_exponent(ROWS, COUNTS * 1e200)
        assert_allclose(found, kernel.mean_exponent(np.repeat(ROWS, COUNTS, axis=0)), rtol=1e-9)
        assert abs(found / kernel.mean_exponent(ROWS) - 1) > 1e-4
        if not isinstance(kernel, Laplacian):
            sparse = kernel.mean_exponent(sp.csr_matrix(thin), COUNTS)
            assert_allclose(sparse, kernel.mean_exponent(thin, COUNTS), rtol=1e-9)
    for kernel in (*(kernel for kernel, _ in MEASURED), Linear()):
        for rows in (ROWS[:1], np.repeat(ROWS[:1], 5, axis=0)):
            assert kernel.mean_exponent(rows) == 1.0
