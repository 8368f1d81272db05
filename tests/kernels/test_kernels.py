"""Kernels against scikit-learn's and against differences computed in extended precision."""

import tracemalloc
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose
from sklearn.gaussian_process import kernels as gp
from sklearn.metrics.pairwise import pairwise_kernels

from onefold import LSSVR, LSSVRCV
from onefold.kernels import (
    RBF,
    CallableKernel,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Precomputed,
    Radial,
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
    ("kernel", "name", "parameters"),
    [
        (RBF(0.3), "rbf", {"gamma": 0.3}),
        (Laplacian(0.3), "laplacian", {"gamma": 0.3}),
        (Polynomial(0.3, 2, 0.5), "polynomial", {"gamma": 0.3, "degree": 2, "coef0": 0.5}),
        (Linear(), "linear", {}),
    ],
)
def test_values_are_scikit_learns(kernel, name, parameters) -> None:
    assert_allclose(kernel(A, B), pairwise_kernels(A, B, metric=name, **parameters), rtol=1e-13)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_matern_is_the_textbook_one(nu) -> None:
    gamma = 0.7
    expected = gp.Matern(length_scale=np.sqrt(0.5 / gamma), nu=nu)(A, B)
    assert_allclose(Matern(gamma, nu)(A, B), expected, rtol=1e-12)


def test_many_tiles_give_the_same_matrix() -> None:
    X = RNG.standard_normal((150, 3))
    coef = RNG.standard_normal((150, 1))
    whole, product = gram(RBF(0.4), X), kernel_product(RBF(0.4), X, X, coef)
    with sklearn.config_context(working_memory=0.001):
        assert_allclose(gram(RBF(0.4), X), whole, rtol=1e-13)
        assert_allclose(kernel_product(RBF(0.4), X, X, coef), product, rtol=1e-12)


@pytest.mark.parametrize("kernel", [RBF(2.0), Matern(2.0, 0.5)], ids=repr)
@pytest.mark.parametrize("offset", [0.0, 1e4, 1e6])
def test_nearly_equal_rows_far_from_the_origin(kernel, offset) -> None:
    """Two distant clusters: no shift can save the digits of both."""
    base = RNG.standard_normal((30, 3))
    X = base * 0.5
    X[15:] += offset
    exact = X.astype(np.longdouble)
    squared = ((exact[:, None] - exact[None]) ** 2).sum(-1).astype(float)
    assert_allclose(gram(kernel, X), kernel.profile(kernel.unit * 2.0 * squared), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", [RBF(2.0), Matern(2.0, 0.5), Matern(2.0, 2.5)], ids=repr)
@pytest.mark.parametrize(("dtype", "offset"), [(np.float64, 2.0**33), (np.float32, 2.0**15)])
def test_distances_of_which_only_rounding_is_left(kernel, dtype, offset) -> None:
    """The rounding of ‖a‖² is many times the square of the kernel's reach."""
    steps = 2.0**-7 * np.arange(40).reshape(20, 2)
    Z = np.vstack([steps, steps[::-1] + offset]).astype(dtype)
    exact = Z.astype(np.longdouble)
    squared = ((exact[:, None] - exact[None]) ** 2).sum(-1).astype(float)
    expected = kernel.profile(kernel.unit * 2.0 * squared)
    # √γ is no power of two: rows times it are rounded.
    assert_allclose(kernel(Z, Z), expected, atol=32 * offset * np.finfo(dtype).eps)
    assert_allclose(kernel.bind(Z)(Z[::-1]), expected[::-1], atol=32 * offset * np.finfo(dtype).eps)


@pytest.mark.parametrize(
    "kernel",
    [RBF(1e308), Matern(1e308), Laplacian(1e308), Polynomial(1.0, degree=2.5, coef0=0.0)],
    ids=repr,
)
def test_what_overflows_is_refused_and_warns_of_nothing_else(kernel) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="NaN or infinite values"):
            LSSVR(kernel).fit(A, A[:, 0])


def test_scratch_memory_does_not_grow_with_the_rows() -> None:
    centres, coef = RNG.standard_normal((500, 5)), RNG.standard_normal((500, 1))

    def peak(rows: int) -> int:
        X = np.zeros((rows, 5))
        with sklearn.config_context(working_memory=2):
            tracemalloc.start()
            kernel_product(RBF(0.1), X, centres, coef)
            used = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return used - 8 * rows

    assert peak(40_000) < 4 * 2**20
    assert peak(40_000) < 1.5 * peak(4_000)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RBF(0.0), "greater than 0"),
        (lambda: RBF(-1.0), "greater than 0"),
        (lambda: RBF(float("nan")), "positive number"),
        (lambda: RBF("wide"), "positive number"),
        (lambda: RBF(1 + 2j), "positive number"),
        (lambda: RBF({}), "positive number"),
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
    assert resolve_gamma("scale", A) == pytest.approx(1 / (4 * A.var()))
    assert resolve_gamma("scale", sp.csr_array(A)) == pytest.approx(1 / (4 * A.var()))
    assert resolve_gamma("scale", sp.csr_array(A + 1e8)) == pytest.approx(1 / (4 * A.var()), rel=1e-6)
    repeated = sp.csr_array(([1.0, 2.0, 3.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))  # 1 + 2 in one place
    assert resolve_gamma("scale", repeated) == pytest.approx(1 / (2 * repeated.toarray().var()))
    small = sp.csr_array(np.array([[100, 0], [0, 100]], dtype=np.int8))
    assert resolve_gamma("scale", small) == pytest.approx(1 / (2 * 2500.0))
    assert resolve_gamma("scale", np.ones((3, 2))) == 1.0
    assert resolve_gamma(None, A) == 0.25


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


@dataclass(frozen=True, repr=False)
class RationalQuadratic(Radial):
    """k(x, x') = (1 + q / a)^−a: a kernel from outside, as docs tell how to write one."""

    a: float = 1.0

    def profile(self, distances):
        return (1.0 + distances / self.a) ** -self.a

    def slope(self, distances, rounding):
        return -2.0 * (1.0 + distances / self.a) ** (-self.a - 1.0)


def test_a_kernel_of_a_distance_takes_a_profile_and_its_slope():
    kernel = RationalQuadratic(0.3, a=2.0)
    reference = gp.RationalQuadratic(length_scale=1.0, alpha=2.0)  # (1 + d² / (2 a l²))^−a
    assert_allclose(kernel(A, B), reference(A * np.sqrt(0.6), B * np.sqrt(0.6)), rtol=1e-12)
    step, coef = 1e-6, RNG.standard_normal((7, 2))
    for feature in range(4):
        shift = step * np.eye(4)[feature]
        slope = (kernel(A + shift, B) - kernel(A - shift, B)) @ coef / (2 * step)
        assert_allclose(kernel.gradient(A, B, coef)[:, feature], slope, atol=1e-8)
    searched = LSSVRCV(kernel, gammas=[0.1, 1.0], alphas=[0.01], cv=3).fit(A, A[:, 0])
    assert isinstance(searched.expansion_.kernel, RationalQuadratic)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (RBF(3.0), "rbf"), (Matern(nu=0.5), "matern12"), (Matern(), "matern32"), (Linear(), "linear"),
        (Polynomial(2.0, degree=2), "polynomial"), (Laplacian(), "laplacian"), (RBF() + RBF(), None),
        (RationalQuadratic(), None),
    ],
    ids=str,
)  # fmt: skip
def test_names_are_those_that_make_such_a_kernel(kernel, name):
    assert kernel_name(kernel) == name
    if name is not None:
        assert type(resolve_kernel(name, 1.0, 3, 1.0)) is type(kernel)


@pytest.mark.parametrize(
    "kernel", [RBF(0.3), Laplacian(0.3), Matern(0.3, nu=1.5), RBF(0.3) * Laplacian(0.2)], ids=str
)
def test_on_a_grid_the_values_are_those_at_its_nodes(kernel):
    axes = [0.3 * np.arange(4), 0.7 * np.arange(3)]
    nodes = np.array([(a, b) for a in axes[0] for b in axes[1]])
    expected = kernel(nodes, np.zeros((1, 2))).reshape(4, 3)
    for values in (kernel.on_grid(axes), Kernel.on_grid(kernel, axes)):  # and a kernel's without its own
        assert_allclose(values, expected, rtol=1e-14)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_diagonal_gram_product_and_scaling_are_those_of_the_tile(kernel) -> None:
    assert_allclose(kernel.diagonal(A), np.diagonal(kernel(A, A)), rtol=1e-12)
    K = gram(kernel, A)
    assert_allclose(K, kernel(A, A.copy()), rtol=1e-12, atol=1e-13)
    assert np.array_equal(K, K.T)
    coef = RNG.standard_normal((7, 2))
    assert_allclose(kernel_product(kernel, A, B, coef), kernel(A, B) @ coef, rtol=1e-12, atol=1e-12)
    assert_allclose(kernel.scaled(1.0)(A, B), kernel(A, B))
    if isinstance(kernel, RBF):
        assert kernel.scaled(2.0).gamma == pytest.approx(np.multiply(kernel.gamma, 2.0))
        assert np.all((K >= 0) & (K <= 1))
        assert np.all(np.diagonal(K) == 1)


def test_sums_and_products() -> None:
    left, right = RBF(0.3), Linear()
    assert_allclose((left + right)(A, B), left(A, B) + right(A, B))
    assert_allclose((left * right)(A, B), left(A, B) * right(A, B))
    assert (left + Matern(0.5)).stationary
    assert not (left + right).stationary
