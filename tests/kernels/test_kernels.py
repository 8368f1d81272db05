"""Kernels and their metrics, against scikit-learn's, extended precision and rows transformed by hand."""

import copy
import pickle
from dataclasses import replace
from functools import partial

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel

from onefold import LSSVR
from onefold.kernels import (
    RBF,
    CallableKernel,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Metric,
    Polynomial,
    PowerExponential,
    Precomputed,
    resolve_gamma,
    resolve_kernel,
)
from onefold.kernels.tiles import gram, kernel_product
from onefold.linalg import to_numpy

RNG = np.random.default_rng(5)
A = RNG.standard_normal((23, 4))
B = RNG.standard_normal((9, 4))
A[3] = B[0]
A[4] = A[5]
S = RNG.standard_normal((4, 4))
WEIGHTS = np.array([0.5, 0.0, 2.0, 1.0])
PLAIN = [
    RBF(0.3),
    *(Matern(0.3, nu) for nu in (0.5, 1.5, 2.5)),
    PowerExponential(0.3),
    Polynomial(0.3, 2),
]
EVERY = [*PLAIN, Laplacian(0.3)]
MADE = [Linear(), RBF(0.3) + Linear(), Matern(0.2) * Polynomial(0.1, 2) + Laplacian(0.1)]
METRICS = pytest.mark.parametrize("metric", [None, S, WEIGHTS], ids=["none", "matrix", "weights"])


def with_metric(kernel, metric):
    """The kernel in a metric; skips what cannot have it."""
    if metric is None:
        return kernel
    if not hasattr(kernel, "gamma") or (np.ndim(metric) == 2 and isinstance(kernel, Laplacian)):
        pytest.skip("a kernel without this metric")
    return replace(kernel, metric=metric)


@pytest.mark.parametrize(
    ("kernel", "reference"),
    [
        (RBF(0.3), partial(rbf_kernel, gamma=0.3)),
        (Laplacian(0.3), partial(laplacian_kernel, gamma=0.3)),
        (Polynomial(0.3, 2, 0.5), partial(polynomial_kernel, gamma=0.3, degree=2, coef0=0.5)),
        (Linear(), linear_kernel),
        *(
            (Matern(0.7, nu), gp.Matern(length_scale=np.sqrt(0.5 / 0.7), nu=nu))
            for nu in (0.5, 1.5, 2.5)
        ),
        (PowerExponential(0.3), lambda A, B: np.exp(-((0.3 * cdist(A, B) ** 2) ** 0.7))),
        (RBF(0.3) + Linear(), lambda A, B: rbf_kernel(A, B, gamma=0.3) + A @ B.T),
        (RBF(0.3) * Linear(), lambda A, B: rbf_kernel(A, B, gamma=0.3) * (A @ B.T)),
    ],
    ids=lambda value: repr(value) if isinstance(value, Kernel) else "",  # not where a function lies
)
def test_values_are_scikit_learns(kernel, reference) -> None:
    assert_allclose(kernel(A, B), reference(A, B), rtol=1e-12)


@METRICS
@pytest.mark.parametrize("kernel", [*EVERY, *MADE], ids=repr)
def test_every_product_is_that_of_the_tile_on_transformed_rows(kernel, metric) -> None:
    measured = with_metric(kernel, metric)
    T = np.eye(4) if metric is None else metric
    left, right = (rows @ T.T if T.ndim == 2 else rows * T for rows in (A, B))
    coef = RNG.standard_normal((9, 2))
    tile = kernel(left, right)
    assert kernel.stationary == (not any(word in repr(kernel) for word in ("Linear", "Poly")))
    with sklearn.config_context(working_memory=0.001):  # many tiles
        K = gram(measured, A)
        for found, wanted in (
            (measured(A, B), tile),
            (measured.scaled(1.0)(A, B), tile),
            (measured.diagonal(A), np.diagonal(kernel(left, left))),
            (measured.pairs(A[:9], B), np.diagonal(tile)),
            (K, kernel(left, left.copy())),
            (kernel_product(measured, A, B, coef), tile @ coef),
        ):
            assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    assert np.array_equal(K, K.T)
    if isinstance(kernel, RBF):
        assert np.all((K >= 0) & (K <= 1) & (np.diagonal(K) == 1))


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
    array = metric.copy()
    one = with_metric(kernel, array)
    array[:] = 0.0
    twins = (with_metric(kernel, Metric(metric.tolist())), copy.deepcopy(one))
    for twin in (*twins, pickle.loads(pickle.dumps(one))):
        assert (twin, hash(twin)) == (one, hash(one))
        with pytest.raises(ValueError, match="read-only"):
            twin.metric.values[0] = 7.0
    assert one not in (kernel, with_metric(kernel, 2 * metric))
    assert (one.scaled(2.0).metric, one.scaled(2.0).gamma) == (one.metric, 0.6)
    assert (kernel.one_width, one.one_width) == (True, False)
    zeros = Metric([0.0, 1.0]), Metric([-0.0, 1.0])
    assert (zeros[0], hash(zeros[0])) == (zeros[1], hash(zeros[1]))


@pytest.mark.parametrize("kernel", [*EVERY, Linear(), RBF(0.3) * Linear() + Laplacian(0.1)], ids=repr)
@METRICS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("library", ["strict", "torch"])
def test_other_libraries(kernel, metric, dtype, library) -> None:
    kernel = with_metric(kernel, metric)
    xp = array_api_strict if library == "strict" else pytest.importorskip("torch")
    left = A.astype(dtype)
    right = B.astype(dtype)
    rows = xp.asarray(left)
    landmarks = xp.asarray(right)
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
    bound = kernel.bind(Z)
    out = np.empty((10, 7), dtype=dtype)
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


@METRICS
@pytest.mark.parametrize("kernel", [*PLAIN, Linear(), RBF(0.3) + Linear()], ids=repr)
def test_sparse_rows(kernel, metric) -> None:
    thin = np.where(RNG.random(A.shape) < 0.5, 0.0, A)
    kernel = with_metric(kernel, metric)
    sparse = sp.csr_array(thin)
    Z = sp.csr_array(B)
    for left, right in [(sparse, Z), (sparse, B), (thin, Z)]:
        assert_allclose(kernel(left, right), kernel(thin, B), rtol=1e-9, atol=1e-12)
    assert_allclose(gram(kernel, sparse), gram(kernel, thin), rtol=1e-9, atol=1e-12)


def exact_values(kernel, Z):
    """From differences in extended precision."""
    wide = Z.astype(np.longdouble)
    squared = ((wide[:, None] - wide[None]) ** 2).sum(-1).astype(float)
    return kernel.profile(kernel.unit * 2.0 * squared)


@pytest.mark.parametrize("kernel", [RBF(2.0), Matern(2.0, 0.5), Matern(2.0, 2.5)], ids=repr)
def test_distances_far_from_the_origin(kernel) -> None:
    """Two distant clusters, so that no shift can save the digits of both; then steps so small that the
    rounding of ‖a‖² is many times the square of the kernel's reach.
    """
    for offset in (0.0, 1e4, 1e6):
        X = 0.5 * np.random.default_rng(1).standard_normal((30, 3))
        X[15:] += offset
        assert_allclose(gram(kernel, X), exact_values(kernel, X), rtol=1e-9, atol=1e-12)
    steps = 2.0**-7 * np.arange(40).reshape(20, 2)
    for dtype, offset in ((np.float64, 2.0**33), (np.float32, 2.0**15)):
        Z = np.vstack([steps, steps[::-1] + offset]).astype(dtype)
        expected = exact_values(kernel, Z)
        rounding = 32 * offset * np.finfo(dtype).eps
        assert_allclose(kernel(Z, Z), expected, atol=rounding)
        assert_allclose(kernel.bind(Z)(Z[::-1]), expected[::-1], atol=rounding)


@pytest.mark.parametrize("kernel", [RBF(2.0**9), Matern(2.0**9), Matern(2.0**12, nu=0.5)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_product_of_two_values_is_subnormal(kernel, dtype):
    A = np.random.default_rng(0).standard_normal((60, 5)).astype(dtype)
    tile = kernel.bind(A[:30])(A, np.empty((60, 30), dtype=dtype))
    smallest = tile.min()
    assert smallest == 0 or smallest * smallest >= np.finfo(dtype).tiny


@pytest.mark.parametrize(
    ("make", "words"),
    [
        *((lambda gamma=gamma: RBF(gamma), "greater than 0") for gamma in (0.0, -1.0)),
        *((lambda gamma=gamma: RBF(gamma), "positive number") for gamma in (np.nan, "wide", 1 + 2j, {})),
        (lambda: RBF((0.1, -0.2)), "non-negative"),
        (lambda: RBF((0.0, 0.0)), "not all 0"),
        (lambda: RBF().scaled(-1.0), "greater than 0"),
        (lambda: Matern(1.0, nu=2.0), "nu must be"),
        *((lambda power=power: PowerExponential(power=power), "power must") for power in (0, 2.1, "1")),
        *((lambda d=d: Polynomial(degree=d), "degree must be a") for d in (0, "3", np.array([2.0]))),
        *((lambda c=c: Polynomial(coef0=c), "coef0 must be a finite number") for c in (None, np.inf)),
        (lambda: resolve_kernel("gauss", 1.0, 3, 1.0), "unknown kernel 'gauss'"),
        (lambda: resolve_kernel(3, 1.0, 3, 1.0), "must be a name"),
        (lambda: resolve_gamma("auto", A), "scale"),
        (lambda: RBF((0.1, 0.2)).check_features(3), "2 widths but X has 3"),
        (lambda: RBF(metric=np.ones((2, 3))), r"\(d, d\); got shape \(2, 3\)"),
        *((lambda m=m: RBF(metric=m), "weight per feature") for m in (np.ones((2, 2, 2)), 3.0, [])),
        *((lambda m=m: RBF(metric=m), "array of numbers") for m in ([[1.0, 2.0], [3.0]], "full", [1j])),
        *((lambda bad=bad: RBF(metric=[1.0, bad]), "finite") for bad in (np.nan, np.inf)),
        (lambda: Matern(metric=[1.0, -1.0]), "non-negative"),
        (lambda: Matern(metric=np.zeros((2, 2))), "not all 0"),
        (lambda: RBF((1.0, 2.0), metric=[1.0, 2.0]), "gamma with one width per feature"),
        (lambda: Laplacian(metric=np.eye(2)), "a matrix as its metric"),
        (lambda: (RBF() + RBF(metric=[1.0, 2.0])).check_features(3), "2 widths but X has 3"),
        (lambda: LSSVR(RBF(metric=np.eye(3))).fit(A, A[:, 0]), "3 widths but X has 4"),
        (lambda: CallableKernel(lambda a, b: 1.0)(A, B), r"returned shape \(\)"),
    ],
)
def test_wrong_parameters_are_named(make, words) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_a_function_is_a_kernel_and_what_is_none_is_refused() -> None:
    good = CallableKernel(lambda a, b: a @ b.T)
    assert_allclose(good(A, B), A @ B.T)
    assert_allclose(good.diagonal(A), (A**2).sum(1))
    with pytest.raises(TypeError, match="precomputed"):
        Precomputed()(A, B)
    with pytest.raises(TypeError, match="not a kernel"):
        RBF() + 3


def test_scale_is_scikit_learns() -> None:
    repeated = sp.csr_array(([1.0, 2.0, 3.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))  # 1 + 2 in one place
    small = sp.csr_array(np.array([[100, 0], [0, 100]], dtype=np.int8))
    for X, values in ((A, A), (sp.csr_array(A), A), (repeated, repeated.toarray())):
        assert resolve_gamma("scale", X) == pytest.approx(1 / (X.shape[1] * values.var()))
    assert resolve_gamma("scale", sp.csr_array(A + 1e8)) == pytest.approx(1 / (4 * A.var()), rel=1e-6)
    assert resolve_gamma("scale", small) == pytest.approx(1 / (2 * 2500.0))
    assert (resolve_gamma("scale", np.ones((3, 2))), resolve_gamma(None, A)) == (1.0, 0.25)


DRAWN = np.random.default_rng(12)
ROWS = DRAWN.standard_normal((30, 4)) * [1.0, 5.0, 0.2, 1.0] + [0.0, 100.0, 0.0, -3.0]
ROWS[:, 3] = np.round(ROWS[:, 3])  # ties
COUNTS = DRAWN.integers(1, 4, 30)
MEASURED = [
    (RBF(0.3, metric=S), lambda A: 0.3 * cdist(A @ S.T, A @ S.T) ** 2),
    (Matern(0.5, nu=0.5), lambda A: np.sqrt(2 * 0.5) * cdist(A, A)),
    (Matern(0.5, nu=1.5), lambda A: np.sqrt(6 * 0.5) * cdist(A, A)),
    (Laplacian(0.7, metric=WEIGHTS), lambda A: 0.7 * cdist(A * WEIGHTS, A * WEIGHTS, "cityblock")),
]


@pytest.mark.parametrize(("kernel", "exponents"), MEASURED, ids=lambda one: str(one)[:12])
def test_the_mean_distance_by_its_definition(kernel, exponents) -> None:
    for weight in (None, COUNTS * 0.37):
        v = np.ones(30) if weight is None else weight
        wanted = v @ exponents(ROWS) @ v / v.sum() ** 2
        assert_allclose(kernel.mean_exponent(ROWS, weight), wanted, rtol=1e-10)
        assert_allclose(kernel.mean_exponent(ROWS.astype(np.float32), weight), wanted, rtol=1e-3)


def test_the_mean_distance_of_repeated_sparse_and_equal_rows() -> None:
    thin = np.where(DRAWN.random(ROWS.shape) < 0.5, ROWS, 0.0)
    for kernel in (*(kernel for kernel, _ in MEASURED), Polynomial(0.5, degree=2)):
        found = kernel.mean_exponent(ROWS, COUNTS * 1e200)
        assert_allclose(found, kernel.mean_exponent(np.repeat(ROWS, COUNTS, axis=0)), rtol=1e-9)
        if not isinstance(kernel, Laplacian):
            sparse = kernel.mean_exponent(sp.csr_matrix(thin), COUNTS)
            assert_allclose(sparse, kernel.mean_exponent(thin, COUNTS), rtol=1e-9)
    for kernel in (*(kernel for kernel, _ in MEASURED), Linear()):
        for rows in (ROWS[:1], np.repeat(ROWS[:1], 5, axis=0)):
            assert kernel.mean_exponent(rows) == 1.0


WHOLE = [
    *EVERY,
    *MADE,
    Linear() + RBF(0.3),
    Linear() * Linear(),
    RBF(0.1, metric=S),
    RBF((0.1, 0.0, 1.0, 2.0)),
]


@pytest.mark.parametrize("kernel", WHOLE, ids=repr)
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, bool])
def test_rows_of_whole_numbers_are_those_of_the_same_numbers(kernel, dtype):
    """Linear() + RBF() could not add to a tile of whole numbers, and small ones overflowed."""
    generator = np.random.default_rng(0)
    left = generator.integers(0, 100, (6, 4)).astype(dtype)
    right = generator.integers(0, 100, (5, 4))
    right = right.astype(dtype)
    coef = np.ones((5, 2))
    asked = [
        lambda A, B: kernel(A, B),
        lambda A, B: kernel(A, A),
        lambda A, B: kernel.bind(B)(A),
        lambda A, B: kernel.diagonal(A),
        lambda A, B: kernel.pairs(A[:5], B),
        lambda A, B: kernel.gradient(A, B, coef),
    ]
    if kernel.accepts_sparse:
        asked.append(lambda A, B: kernel(sp.csr_array(A), sp.csr_array(B)))
    for ask in asked:
        assert_array_equal(ask(left, right), ask(left.astype(float), right.astype(float)))
