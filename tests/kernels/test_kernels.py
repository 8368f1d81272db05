"""Kernels against scikit-learn's and against differences computed in extended precision."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, polynomial_kernel, rbf_kernel

from onefold.kernels import (
    RBF,
    CallableKernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Precomputed,
    kernel_name,
    resolve_gamma,
    resolve_kernel,
)
from onefold.kernels.tiles import gram, kernel_product

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((13, 4)), RNG.standard_normal((7, 4))
KERNELS = [
    RBF(0.3),
    RBF((0.1, 0.2, 0.0, 0.4)),
    Laplacian(0.3),
    Laplacian((0.1, 0.2, 0.3, 0.4)),
    Matern(0.3, nu=0.5),
    Matern(0.3, nu=1.5),
    Matern((0.1, 0.2, 0.3, 0.4), nu=2.5),
    Polynomial(0.3, degree=2, coef0=0.5),
    Polynomial((0.1, 0.2, 0.3, 0.4), degree=3),
    Linear(),
    RBF(0.3) + Linear(),
    Matern(0.2) * Polynomial(0.1, 2) + Laplacian(0.1),
]


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
        (RBF(0.3) + Linear(), lambda A, B: rbf_kernel(A, B, gamma=0.3) + A @ B.T),
        (RBF(0.3) * Linear(), lambda A, B: rbf_kernel(A, B, gamma=0.3) * (A @ B.T)),
    ],
    ids=str,
)
def test_values_are_scikit_learns(kernel, reference) -> None:
    assert_allclose(kernel(A, B), reference(A, B), rtol=1e-12)


def test_many_tiles_give_the_same_matrix() -> None:
    X = RNG.standard_normal((150, 3))
    coef = RNG.standard_normal((150, 1))
    whole, product = gram(RBF(0.4), X), kernel_product(RBF(0.4), X, X, coef)
    with sklearn.config_context(working_memory=0.001):
        assert_allclose(gram(RBF(0.4), X), whole, rtol=1e-13)
        assert_allclose(kernel_product(RBF(0.4), X, X, coef), product, rtol=1e-12)


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
        expected, rounding = exact_values(kernel, Z), 32 * offset * np.finfo(dtype).eps
        assert_allclose(kernel(Z, Z), expected, atol=rounding)
        assert_allclose(kernel.bind(Z)(Z[::-1]), expected[::-1], atol=rounding)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        *((lambda gamma=gamma: RBF(gamma), "greater than 0") for gamma in (0.0, -1.0)),
        *(
            (lambda gamma=gamma: RBF(gamma), "positive number")
            for gamma in (float("nan"), "wide", 1 + 2j, {})
        ),
        (lambda: RBF((0.1, -0.2)), "not be negative"),
        (lambda: RBF((0.0, 0.0)), "for every feature"),
        (lambda: Matern(1.0, nu=2.0), "nu must be"),
        (lambda: Polynomial(degree=0), "degree"),
        (lambda: Polynomial(degree="3"), "degree must be a number"),
        (lambda: Polynomial(degree=np.array([2.0])), "degree must be a number"),
        (lambda: Polynomial(coef0=None), "coef0 must be a finite number"),
        (lambda: Polynomial(coef0=float("inf")), "coef0"),
        (lambda: resolve_kernel("gauss", 1.0, 3, 1.0), "unknown kernel 'gauss'"),
        (lambda: resolve_kernel(3, 1.0, 3, 1.0), "must be a name"),
        (lambda: resolve_gamma("auto", A), "scale"),
        (lambda: RBF((0.1, 0.2)).check_features(3), "2 widths but X has 3"),
        (lambda: RBF().scaled(-1.0), "greater than 0"),
    ],
)
def test_wrong_parameters_are_named(make, words) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_scale_is_scikit_learns() -> None:
    repeated = sp.csr_array(([1.0, 2.0, 3.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))  # 1 + 2 in one place
    small = sp.csr_array(np.array([[100, 0], [0, 100]], dtype=np.int8))
    for X, values in ((A, A), (sp.csr_array(A), A), (repeated, repeated.toarray())):
        assert resolve_gamma("scale", X) == pytest.approx(1 / (X.shape[1] * values.var()))
    assert resolve_gamma("scale", sp.csr_array(A + 1e8)) == pytest.approx(1 / (4 * A.var()), rel=1e-6)
    assert resolve_gamma("scale", small) == pytest.approx(1 / (2 * 2500.0))
    assert (resolve_gamma("scale", np.ones((3, 2))), resolve_gamma(None, A)) == (1.0, 0.25)


def test_a_function_must_return_the_whole_tile() -> None:
    good = CallableKernel(lambda a, b: a @ b.T)
    assert_allclose(good(A, B), A @ B.T)
    assert_allclose(good.diagonal(A), (A**2).sum(1))
    with pytest.raises(ValueError, match=r"returned shape \(\)"):
        CallableKernel(lambda a, b: 1.0)(A, B)
    with pytest.raises(TypeError, match="precomputed"):
        Precomputed()(A, B)
    with pytest.raises(TypeError, match="not a kernel"):
        RBF() + 3


@pytest.mark.parametrize("kernel", [RBF(2.0**9), Matern(2.0**9), Matern(2.0**12, nu=0.5)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_product_of_two_values_is_subnormal(kernel, dtype):
    A = np.random.default_rng(0).standard_normal((60, 5)).astype(dtype)
    tile = kernel.bind(A[:30])(A, np.empty((60, 30), dtype=dtype))
    smallest = tile.min()
    assert smallest == 0 or smallest * smallest >= np.finfo(dtype).tiny


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (RBF(3.0), "rbf"), (Matern(nu=0.5), "matern12"), (Matern(), "matern32"), (Linear(), "linear"),
        (Polynomial(2.0, degree=2), "polynomial"), (Laplacian(), "laplacian"), (RBF() + RBF(), None),
    ],
    ids=str,
)  # fmt: skip
def test_names_are_those_that_make_such_a_kernel(kernel, name):
    assert kernel_name(kernel) == name
    if name is not None:
        assert type(resolve_kernel(name, 1.0, 3, 1.0)) is type(kernel)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_diagonal_gram_product_and_scaling_are_those_of_the_tile(kernel) -> None:
    assert_allclose(kernel.diagonal(A), np.diagonal(kernel(A, A)), rtol=1e-12)
    K = gram(kernel, A)
    assert_allclose(K, kernel(A, A.copy()), rtol=1e-12, atol=1e-13)
    assert np.array_equal(K, K.T)
    coef = RNG.standard_normal((7, 2))
    assert_allclose(kernel_product(kernel, A, B, coef), kernel(A, B) @ coef, rtol=1e-12, atol=1e-12)
    assert_allclose(kernel.scaled(1.0)(A, B), kernel(A, B))
    assert kernel.stationary == (not any(word in repr(kernel) for word in ("Linear", "Poly")))
    if isinstance(kernel, RBF):
        assert kernel.scaled(2.0).gamma == pytest.approx(np.multiply(kernel.gamma, 2.0))
        assert np.all((K >= 0) & (K <= 1))
        assert np.all(np.diagonal(K) == 1)
