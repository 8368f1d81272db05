"""Gradients of expansions and their outer products: sums over pairs, differences, every library."""

import functools
import itertools
import tracemalloc

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from onefold.expansions import Expansion, outer_gradients
from onefold.kernels import RBF, CallableKernel, Laplacian, Linear, Matern, Polynomial, Precomputed
from onefold.linalg import to_numpy
from onefold.machine.threads import use_threads

RNG = np.random.default_rng(8)
D = 3
S = RNG.standard_normal((D, D))
WEIGHTS = np.array([0.5, 0.0, 2.0])
KERNELS = [
    Linear(),
    *(
        make(metric)
        for metric in (None, WEIGHTS, S)
        for make in (
            lambda m: RBF(0.4, metric=m),
            lambda m: Matern(0.4, nu=0.5, metric=m),
            lambda m: Matern(0.4, nu=1.5, metric=m),
            lambda m: Matern(0.4, nu=2.5, metric=m),
            lambda m: Polynomial(0.4, 3, 0.5, metric=m),
        )
    ),
    Polynomial(0.4, 1),
    Laplacian(0.4),
    Laplacian(0.4, metric=WEIGHTS),
    RBF((0.1, 0.3, 0.2)),
    RBF(0.4, metric=S) + Linear(),
    Matern(0.3, nu=0.5) * Polynomial(0.2, 2, metric=S) + Laplacian(0.2),
    (RBF(0.2) + Laplacian(0.1)) * (Linear() + Matern(0.2, metric=S)),
]
X = RNG.standard_normal((40, D))
V = np.where(np.arange(40) % 5 == 0, 0.0, RNG.uniform(0.1, 3.0, 40))


def pair_gradient(kernel, x, z):
    """∇ₓ k(x, z) from the formulas, in extended precision."""
    if hasattr(kernel, "left"):
        left = pair_gradient(kernel.left, x, z)
        right = pair_gradient(kernel.right, x, z)
        if type(kernel).__name__ == "Sum":
            return left + right
        values = [float(part(x[None], z[None])[0, 0]) for part in (kernel.left, kernel.right)]
        return values[1] * left + values[0] * right
    x = x.astype(np.longdouble)
    z = z.astype(np.longdouble)
    if isinstance(kernel, Linear):
        return z
    metric = np.ones(x.size) if kernel.metric is None else np.asarray(kernel.metric)
    T = metric if metric.ndim == 2 else np.diag(metric)
    g = kernel.gamma
    u = T @ (x - z)
    r = np.sqrt(u @ u)
    if isinstance(kernel, Polynomial):
        base = g * (T @ x) @ (T @ z) + kernel.coef0
        return kernel.degree * g * base ** (kernel.degree - 1) * (T.T @ T @ z)
    if isinstance(kernel, Laplacian):
        return -g * metric * np.exp(-g * np.abs(u).sum()) * np.sign(x - z)
    if isinstance(kernel, RBF):
        return -2 * g * np.exp(-g * r * r) * (T.T @ u)
    s = np.sqrt(4 * kernel.nu * g) * r
    if r == 0:
        return 0 * x
    slope = {0.5: -1.0, 1.5: -s, 2.5: -s * (1 + s) / 3}[kernel.nu] * np.exp(-s)
    return slope * np.sqrt(4 * kernel.nu * g) * (T.T @ u) / r


def brute(kernel, X, Z, coef):
    """Σ_j c_j ∇k(x, z_j), pair by pair."""
    total = np.zeros((*X.shape, coef.shape[1]))
    for i, x in enumerate(X.astype(float)):
        for z, c in zip(Z.astype(float), coef):
            total[i] += np.outer(pair_gradient(kernel, x, z), c).astype(float)
    return total


def expansion_of(kernel, m=11, seed=0):
    rng = np.random.default_rng(seed)
    return Expansion(
        kernel, rng.standard_normal((m, D)), rng.standard_normal((m, 2)), rng.normal(size=2)
    )


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(KERNELS),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([0.0, 1e-6, 1.0, 30.0]),
    st.sampled_from([0.0, 1e3]),
    st.integers(0, 2**32 - 1),
)
def test_gradient_is_the_sum_over_centres(kernel, dtype, spread, offset, seed) -> None:
    """Also where rows are centres, or nearly, or come twice, far from the origin."""
    rng = np.random.default_rng(seed)
    offset = offset if kernel.stationary else 0.0
    Z = (offset + spread * rng.standard_normal((6, D))).astype(dtype)
    Z[4] = Z[1]
    # The direction of a difference r has the digits of the rows less those of |x| / r.
    near = Z[:2] + dtype(1e-5 * max(spread, 1e-3 * offset)) * rng.standard_normal((2, D)).astype(dtype)
    X = np.vstack([offset + spread * rng.standard_normal((3, D)), Z[:3], Z[:2], near]).astype(dtype)
    expansion = Expansion(kernel, Z, rng.standard_normal((6, 2)), np.zeros(2))
    got = expansion.gradient(X)
    assert got.shape == (10, D, 2)
    assert got.dtype == np.float64
    expected = brute(kernel, X, Z, expansion.coef)
    scale = 1.0 + np.abs(expected).max()
    assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * scale)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_many_tiles_and_threads_give_the_same_gradient(kernel) -> None:
    expansion = expansion_of(kernel, m=60)

    def found(jobs):
        outer = [outer_gradients(expansion, X, V, diagonal=d) for d in (False, True)]
        return [expansion.gradient(X, n_jobs=jobs), *outer]

    whole = found(1)
    tiled = []
    for jobs in (1, 2):
        with sklearn.config_context(working_memory=0.001), use_threads(jobs):
            tiled.append(found(jobs))
    for one, two, expected in zip(*tiled, whole):
        assert_array_equal(one, two)
        assert_allclose(one, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())
    assert expansion.gradient(X[:0]).shape == (0, D, 2)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("library", ["strict", "torch"])
def test_other_libraries(kernel, library) -> None:
    xp = array_api_strict if library == "strict" else pytest.importorskip("torch")
    expansion = expansion_of(kernel)
    X = RNG.standard_normal((9, D))
    X[0] = expansion.centres[0]
    parts = (expansion.centres, expansion.coef, expansion.intercept)
    there = Expansion(kernel, *(xp.asarray(a) for a in parts))
    rows = xp.asarray(X)
    for moved in (expansion.gradient(rows), there.gradient(rows), there.gradient(X)):
        assert_allclose(to_numpy(moved), expansion.gradient(X), atol=1e-6)
    for diagonal in (False, True):
        outer = outer_gradients(expansion, X, V[:9], diagonal=diagonal)
        for dtype, tolerance in ((np.float64, 1e-8), (np.float32, 1e-3)):
            found = outer_gradients(expansion, xp.asarray(X.astype(dtype)), V[:9], diagonal=diagonal)
            assert_allclose(found, outer, rtol=tolerance, atol=tolerance * np.abs(outer).max())


def test_sparse_rows_have_a_diagonal_alone() -> None:
    thin = np.where(RNG.random((30, D)) < 0.5, 0.0, RNG.standard_normal((30, D)))
    for kernel in (RBF(0.4, metric=S), Polynomial(0.2), Linear(), Matern(0.3, 0.5)):
        dense = Expansion(kernel, thin[:7], RNG.standard_normal((7, 2)), np.zeros(2))
        sparse = Expansion(kernel, sp.csr_array(thin[:7]), dense.coef, dense.intercept)
        assert_allclose(sparse.gradient(sp.csr_array(thin)), dense.gradient(thin), atol=1e-12)
        expected = outer_gradients(dense, thin, V[:30], diagonal=True)
        for expansion in (dense, sparse):
            got = outer_gradients(expansion, sp.csr_array(thin), V[:30], diagonal=True)
            assert_allclose(got, expected, rtol=1e-10)
        with pytest.raises(ValueError, match='use metric="diagonal", or dense rows'):
            outer_gradients(sparse, sp.csr_array(thin), diagonal=False)


def test_scratch_memory_does_not_grow() -> None:
    """Neither with rows × centres × features, nor of outer products with rows × features × targets."""

    def used(n, d, m, t, act):
        expansion = Expansion(RBF(0.02), Z[:m, :d], np.ones((m, t)), np.zeros(t))
        with sklearn.config_context(working_memory=4):
            tracemalloc.start()
            act(expansion, rows[:n, :d])
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return peak

    rows = RNG.standard_normal((4000, 50))
    Z = RNG.standard_normal((400, 50))
    # All pairs at once would be 384 MB, and all gradients 32 MB.
    assert used(3000, 40, 400, 1, Expansion.gradient) < 8 * 3000 * 40 + 8 * 2**20
    assert used(4000, 50, 10, 20, lambda e, X: outer_gradients(e, X, diagonal=False)) < 8 * 2**20


def test_what_has_no_derivative_says_so() -> None:
    own = Expansion(CallableKernel(lambda a, b: a @ b.T), np.eye(3), np.ones((3, 1)), np.zeros(1))
    with pytest.raises(ValueError, match="has no derivative"):
        own.gradient(np.eye(3))
    given_matrix = Expansion(Precomputed(), None, np.ones((3, 1)), np.zeros(1))
    with pytest.raises(ValueError, match="precomputed kernel has no gradient"):
        given_matrix.gradient(np.eye(3))
    for rows, weight in ((X[:0], None), (X, np.zeros(40))):
        with pytest.raises(ValueError, match="row of positive weight"):
            outer_gradients(expansion_of(RBF(0.2)), rows, weight, diagonal=True)


@pytest.mark.parametrize("weight", [None, V], ids=["plain", "weighted"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_it_is_the_mean_of_products_of_gradients(kernel, weight) -> None:
    expansion = expansion_of(kernel)
    v = np.ones(len(X)) if weight is None else weight
    exact = np.einsum("i,ijt,ikt->jk", v / v.sum(), *2 * [expansion.gradient(X)])
    full = outer_gradients(expansion, X, weight, diagonal=False)
    assert_allclose(full, exact, rtol=1e-12, atol=1e-13 * np.abs(exact).max())
    diagonal = outer_gradients(expansion, X, weight, diagonal=True)
    assert_allclose(diagonal, np.diagonal(exact), rtol=1e-12)


# -- rows that are centres, or nearly: on the host, and as a device takes them -----------------------


def metric_of(kind, d):
    rng = np.random.default_rng(d)
    if kind == "weights":
        return np.where(np.arange(d) % 3 == 1, 0.0, rng.uniform(0.5, 2.0, d))
    return None if kind is None else rng.standard_normal((d, d)) / np.sqrt(d)


def problem(d, dtype, offset=0.0, m=24, t=2):
    rng = np.random.default_rng(d)
    Z = (offset + rng.standard_normal((m, d))).astype(dtype)
    Z[7:10] = Z[0]  # centres that come four times
    Z[20] = np.nextafter(Z[21], np.inf, dtype=dtype)  # the same up to the last digit
    # Of centres that are the same up to rounding the kink's direction has no meaning: they cancel.
    coef = rng.standard_normal((m, t))
    coef[20:22] = 0.0
    return Z, coef


def both(kernel, X, Z, coef):
    """The gradient on the host, and beside tensors, which take a device's way."""
    torch = pytest.importorskip("torch")
    host = Expansion(kernel, Z, coef, np.zeros(coef.shape[1]))
    there = Expansion(kernel, *(torch.asarray(a) for a in (Z, coef, host.intercept)))
    return host.gradient(X), to_numpy(there.gradient(torch.asarray(X)))


PROFILES = [RBF, *(functools.partial(Matern, nu=nu) for nu in (0.5, 1.5, 2.5))]
PLACES = itertools.product((None, "weights", "matrix"), (0.0, 1e4), (np.float32, np.float64), (1, 12))
CENTRES = [  # metric, offset, dtype, features, width
    *((*place, 0.5 / place[3]) for place in PLACES),
    *((None, 0.0, np.float64, 5, width) for width in (1e-12, 1e-4, 1e4, 1e8)),
]


@pytest.mark.parametrize("make", PROFILES)
@pytest.mark.parametrize(("kind", "offset", "dtype", "d", "width"), CENTRES)
def test_at_the_centres_themselves(make, kind, offset, dtype, d, width) -> None:
    Z, coef = problem(d, dtype, offset)
    kernel = make(width, metric=metric_of(kind, d))
    expected = brute(kernel, Z, Z, coef)
    host, there = both(kernel, Z, Z, coef)
    scale = np.abs(expected).max()
    # Far pairs keep a kernel of 2⁻⁵¹⁰, so that products need no subnormal numbers.
    assert_allclose(host, expected, rtol=1e-9, atol=1e-9 * scale + 1e-100)
    # A narrow kernel leaves rows their own term alone: γ c (z − z), a difference of two sums there.
    rounding = 16 * np.finfo(float).eps * width * np.abs(Z).max() * np.abs(coef).max()
    assert_allclose(there, expected, rtol=1e-5, atol=1e-5 * scale + rounding)


def test_a_distance_that_is_all_rounding_has_no_slope_on_a_device() -> None:
    """Rows that a device cannot tell from a centre count as the centre, whatever is lost otherwise."""
    kernel = Matern(0.5, nu=0.5)
    Z = np.random.default_rng(1).standard_normal((9, 6))
    single = np.zeros((9, 1))
    single[3] = 1.0
    for gap in (0.0, 1e-15, 1e-12, 1e-10):
        host, there = both(kernel, Z[3:4] + gap, Z, single)
        assert_allclose(there, np.zeros((1, 6, 1)), atol=1e-12)
        assert_allclose(np.linalg.norm(host), 1.0 if gap else 0.0, rtol=1e-4)
    host, there = both(kernel, Z[3:4] + 1e-5, Z, single)
    assert_allclose(there, host, rtol=1e-3)


@pytest.mark.parametrize("rows", [1, 7, 33])
def test_a_row_that_is_a_centre_is_one_in_any_block(rows) -> None:
    """A product with a matrix may round the same row differently in blocks of different sizes."""
    rng = np.random.default_rng(2)
    Z = rng.standard_normal((50, 120))
    kernel = Matern(0.01, nu=0.5, metric=rng.standard_normal((120, 120)) / 11)
    host, there = both(kernel, Z[:rows], Z, np.eye(50))  # every centre is a target of its own
    for j in range(rows):
        assert_allclose(host[j, :, j], 0.0, atol=0.0)
        assert_allclose(there[j, :, j], 0.0, atol=1e-10)


def test_rows_that_a_matrix_maps_to_the_same_point() -> None:
    rng = np.random.default_rng(4)
    S = np.outer(rng.standard_normal(5), rng.standard_normal(5))  # of rank one
    beside = np.linalg.svd(S)[2][1:]
    Z = rng.standard_normal((1, 5))
    X = Z + rng.standard_normal((20, 4)) @ beside
    host, there = both(Matern(0.5, nu=0.5, metric=S), X, Z, np.ones((1, 1)))
    assert_allclose(host, 0.0, atol=0.0)
    host, there = both(Matern(0.5, nu=0.5, metric=S), X, np.vstack([Z, -Z]), np.array([[1.0], [0.0]]))
    assert_allclose(host, 0.0, atol=1e-12)
    assert_allclose(there, 0.0, atol=1e-12)
