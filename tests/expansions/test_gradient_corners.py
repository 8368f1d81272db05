"""Gradients where rows are centres, or nearly: on the host, and as a device takes them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from onefold.expansions import Expansion
from onefold.kernels import RBF, Laplacian, Matern
from onefold.linalg import to_numpy

torch = pytest.importorskip("torch")


def metric_of(kind, d):
    rng = np.random.default_rng(d)
    if kind == "weights":
        return np.where(np.arange(d) % 3 == 1, 0.0, rng.uniform(0.5, 2.0, d))
    return None if kind is None else rng.standard_normal((d, d)) / np.sqrt(d)


def problem(d, dtype, offset=0.0, m=60, t=2):
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
    host = Expansion(kernel, Z, coef, np.zeros(coef.shape[1]))
    there = Expansion(kernel, *(torch.asarray(a) for a in (Z, coef, host.intercept)))
    return host.gradient(X), to_numpy(there.gradient(torch.asarray(X)))


def literal(kernel, X, Z, coef):
    """Σ_j c_j ∇k from the differences of every pair, for one pair after another."""
    X, Z = X.astype(np.float64), Z.astype(np.float64)
    S = np.eye(X.shape[1]) if kernel.metric is None else np.asarray(kernel.metric)
    S = np.diag(S) if S.ndim == 1 else S
    total = np.zeros((*X.shape, coef.shape[1]))
    for i, x in enumerate(X):
        u = (x - Z) @ S.T
        q = kernel.gamma * (u**2).sum(axis=1)
        if isinstance(kernel, RBF):
            slope = -2 * np.exp(-q)
        else:
            s = np.sqrt(4 * kernel.nu * q)
            far = np.where(s > 0, s, np.inf)
            slope = {0.5: -2 / far, 1.5: -6.0, 2.5: -10 / 3 * (1 + s)}[kernel.nu] * np.exp(-s)
        total[i] = np.einsum("j,jd,jt->dt", slope, kernel.gamma * u @ S, coef)
    return total


@pytest.mark.parametrize(
    "make", [RBF, *(lambda g, nu=nu, **k: Matern(g, nu, **k) for nu in (0.5, 1.5, 2.5))]
)
@pytest.mark.parametrize("kind", [None, "weights", "matrix"])
@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 3, 40])
def test_at_the_centres_themselves(make, kind, offset, dtype, d) -> None:
    Z, coef = problem(d, dtype, offset)
    kernel = make(0.5 / d, metric=metric_of(kind, d))
    expected = literal(kernel, Z, Z, coef)
    host, there = both(kernel, Z, Z, coef)
    scale = np.abs(expected).max()
    assert_allclose(host, expected, rtol=1e-9, atol=1e-9 * scale)
    assert_allclose(there, expected, rtol=1e-5, atol=1e-5 * scale)


@pytest.mark.parametrize("width", [1e-12, 1e-4, 1e4, 1e8])
@pytest.mark.parametrize("kernel", [RBF(), Matern(nu=0.5), Matern(nu=2.5)], ids=repr)
def test_widths_of_any_size(kernel, width) -> None:
    Z, coef = problem(5, np.float64)
    kernel = kernel.scaled(width)
    expected = literal(kernel, Z, Z, coef)
    scale = np.abs(expected).max()
    host, there = both(kernel, Z, Z, coef)
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


@pytest.mark.parametrize("rows", [1, 2, 7, 33])
def test_a_row_that_is_a_centre_is_one_in_any_block(rows) -> None:
    """A product with a matrix may round the same row differently in blocks of different sizes."""
    rng = np.random.default_rng(2)
    Z = rng.standard_normal((50, 120))
    kernel = Matern(0.01, nu=0.5, metric=rng.standard_normal((120, 120)) / 11)
    single = np.zeros((50, 1))
    for j in range(rows):
        single[:] = 0.0
        single[j] = 1.0
        host, there = both(kernel, Z[:rows], Z, single)
        assert_allclose(host[j], 0.0, atol=0.0)
        assert_allclose(there[j], 0.0, atol=1e-10)


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


@pytest.mark.parametrize("kernel", [Matern(0.3, nu=0.5), Laplacian(0.3)], ids=repr)
def test_one_column_and_one_centre(kernel) -> None:
    Z = np.array([[0.3]])
    X = np.array([[0.3], [0.1 + 0.2], [1.3], [-0.7]])
    host, there = both(kernel, X, Z, np.ones((1, 1)))
    assert host[0, 0, 0] == there[0, 0, 0] == 0.0
    assert_allclose(host[2:, 0, 0], [-host[3, 0, 0], host[3, 0, 0]], rtol=1e-12)
    assert_allclose(there[2:], host[2:], rtol=1e-9)
