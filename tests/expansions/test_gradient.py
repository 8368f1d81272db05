"""The gradient of an expansion against sums over pairs, and against differences of predictions."""

from __future__ import annotations

import tracemalloc

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from onefold import KernelRidge
from onefold.expansions import Expansion
from onefold.kernels import RBF, CallableKernel, Laplacian, Linear, Matern, Polynomial, Precomputed
from onefold.kernels.tiles import gradient_product
from onefold.linalg import to_numpy

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


def pair_gradient(kernel, x, z):
    """∇ₓ k(x, z) from the formulas, in extended precision."""
    if hasattr(kernel, "left"):
        left, right = pair_gradient(kernel.left, x, z), pair_gradient(kernel.right, x, z)
        if type(kernel).__name__ == "Sum":
            return left + right
        values = [float(part(x[None], z[None])[0, 0]) for part in (kernel.left, kernel.right)]
        return values[1] * left + values[0] * right
    x, z = x.astype(np.longdouble), z.astype(np.longdouble)
    if isinstance(kernel, Linear):
        return z
    metric = np.ones(x.size) if kernel.metric is None else np.asarray(kernel.metric)
    T = metric if metric.ndim == 2 else np.diag(metric)
    g, u = kernel.gamma, T @ (x - z)
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


def brute(expansion, X):
    total = np.zeros((X.shape[0], X.shape[1], expansion.coef.shape[1]))
    for i, x in enumerate(X):
        for z, c in zip(expansion.centres, expansion.coef):
            total[i] += np.outer(pair_gradient(expansion.kernel, x, z), c).astype(float)
    return total


def expansion_of(kernel, m=11, seed=0):
    rng = np.random.default_rng(seed)
    return Expansion(
        kernel, rng.standard_normal((m, D)), rng.standard_normal((m, 2)), rng.normal(size=2)
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gradient_is_the_limit_of_differences(kernel) -> None:
    expansion, X, h = expansion_of(kernel), RNG.standard_normal((6, D)), 1e-5
    got = expansion.gradient(X)
    for j in range(D):
        step = h * np.eye(D)[j]
        slope = (expansion.predict(X + step) - expansion.predict(X - step)) / (2 * h)
        assert_allclose(got[:, j], slope, rtol=1e-6, atol=1e-7)


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
    exact = Expansion(kernel, Z.astype(float), expansion.coef, expansion.intercept)
    expected = brute(exact, X.astype(float))
    scale = 1.0 + np.abs(expected).max()
    assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * scale)


def test_at_a_centre_the_kink_is_left_out() -> None:
    for kernel in (Matern(0.7, nu=0.5), Laplacian(0.7), Matern(0.7, nu=0.5, metric=S)):
        one = Expansion(kernel, np.full((1, D), 0.3), np.ones((1, 1)), np.zeros(1))
        assert np.array_equal(one.gradient(np.full((2, D), 0.3)), np.zeros((2, D, 1)))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_many_tiles_and_threads_give_the_same_gradient(kernel) -> None:
    expansion, X = expansion_of(kernel, m=60), RNG.standard_normal((50, D))
    whole = expansion.gradient(X)
    with sklearn.config_context(working_memory=0.001):
        tiled = expansion.gradient(X, n_jobs=2)
        assert np.array_equal(tiled, expansion.gradient(X, n_jobs=1))
    assert_allclose(tiled, whole, rtol=1e-10, atol=1e-10)
    assert expansion.gradient(X[:0]).shape == (0, D, 2)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("library", ["strict", "torch"])
def test_other_libraries(kernel, library) -> None:
    xp = array_api_strict if library == "strict" else pytest.importorskip("torch")
    expansion, X = expansion_of(kernel), RNG.standard_normal((9, D))
    X[0] = expansion.centres[0]
    there = Expansion(
        kernel, *(xp.asarray(a) for a in (expansion.centres, expansion.coef, expansion.intercept))
    )
    expected = expansion.gradient(X)
    for moved in (expansion.gradient(xp.asarray(X)), there.gradient(xp.asarray(X))):
        assert type(moved) is type(xp.asarray(X))
        assert_allclose(to_numpy(moved), expected, atol=1e-6)
    assert_allclose(there.gradient(X), expected, atol=1e-6)


def test_sparse_rows() -> None:
    thin = np.where(RNG.random((20, D)) < 0.5, 0.0, RNG.standard_normal((20, D)))
    for kernel in (RBF(0.4, metric=S), Polynomial(0.2), Linear()):
        dense = Expansion(kernel, thin[:7], RNG.standard_normal((7, 1)), np.zeros(1))
        sparse = Expansion(kernel, sp.csr_array(thin[:7]), dense.coef, dense.intercept)
        assert_allclose(sparse.gradient(sp.csr_array(thin)), dense.gradient(thin), atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_no_rows(kernel) -> None:
    torch = pytest.importorskip("torch")
    for empty in (np.empty((0, D)), torch.empty((0, D), dtype=torch.float64)):
        Z, coef = (torch.asarray(a) if torch.is_tensor(empty) else a for a in (S, S[:, :2]))
        assert kernel.gradient(empty, Z, coef).shape == (0, D, 2)


def test_scratch_memory_does_not_grow_with_rows_times_centres_times_features() -> None:
    d, m, n = 40, 400, 3000
    Z, coef, X = RNG.standard_normal((m, d)), RNG.standard_normal((m, 1)), RNG.standard_normal((n, d))
    with sklearn.config_context(working_memory=4):
        tracemalloc.start()
        gradient_product(RBF(0.02), X, Z, coef)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert used < 8 * n * d + 8 * 2**20  # rows × centres × features would be 384 MB


def test_a_grid_has_the_gradient_of_its_kernel_expansion() -> None:
    X = RNG.uniform(-1, 1, (80, 2))
    model = KernelRidge(RBF(1.5), alpha=0.1, approximation="grid").fit(X, np.sin(2 * X[:, 0]))
    grid = model.expansion_
    rows = np.vstack([0.8 * X[:10], X[:2] + 9.0])
    expected = Expansion(grid.kernel, grid.centres, grid.coef, grid.intercept).gradient(rows)
    assert_allclose(grid.gradient(rows), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernel", [RBF(0.3), Matern(0.3, 0.5), Matern(0.3)], ids=repr)
def test_clusters_very_far_apart(kernel) -> None:
    near = np.round(RNG.normal(size=(8, 2)) * 2**10) / 2**10
    coef = RNG.normal(size=(8, 1))
    far = Expansion(kernel, np.vstack([near, near + 2.0**33]), np.vstack([coef, coef]), np.zeros(1))
    expected = Expansion(kernel, near, coef, np.zeros(1)).gradient(near + 0.5)
    both = far.gradient(np.vstack([near + 0.5, near + 0.5 + 2.0**33]))
    assert_allclose(both, np.concatenate([expected, expected]), atol=1e-5)


def test_what_has_no_derivative_says_so() -> None:
    own = Expansion(CallableKernel(lambda a, b: a @ b.T), np.eye(3), np.ones((3, 1)), np.zeros(1))
    with pytest.raises(ValueError, match="has no derivative here"):
        own.gradient(np.eye(3))
    given_matrix = Expansion(Precomputed(), None, np.ones((3, 1)), np.zeros(1))
    with pytest.raises(ValueError, match="precomputed kernel knows no features"):
        given_matrix.gradient(np.eye(3))
