"""The mean distance that widths are relative to: a weighted mean over all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist

from onefold.kernels import RBF, Laplacian, Linear, Matern, Polynomial

RNG = np.random.default_rng(12)
X = RNG.standard_normal((30, 4)) * [1.0, 5.0, 0.2, 1.0] + [0.0, 100.0, 0.0, -3.0]
X[:, 3] = np.round(X[:, 3])  # ties
COUNTS = RNG.integers(1, 4, 30)
FULL = RNG.standard_normal((4, 4))
SCALE = np.array([1.0, 0.5, 2.0, 0.0])
KERNELS = [
    (RBF(0.3, metric=FULL), lambda A: 0.3 * cdist(A @ FULL.T, A @ FULL.T) ** 2),
    (Matern(0.5, nu=0.5), lambda A: np.sqrt(2 * 0.5) * cdist(A, A)),
    (Matern(0.5, nu=1.5), lambda A: np.sqrt(6 * 0.5) * cdist(A, A)),
    (Laplacian(0.7, metric=SCALE), lambda A: 0.7 * cdist(A * SCALE, A * SCALE, "cityblock")),
]


@pytest.mark.parametrize("weight", [None, COUNTS * 0.37], ids=["equal", "weighted"])
@pytest.mark.parametrize(("kernel", "exponents"), KERNELS, ids=lambda one: str(one)[:12])
def test_definition(kernel, exponents, weight) -> None:
    v = np.ones(30) if weight is None else weight
    wanted = v @ exponents(X) @ v / v.sum() ** 2
    assert_allclose(kernel.mean_exponent(X, weight), wanted, rtol=1e-10)
    single = kernel.mean_exponent(X.astype(np.float32), weight)
    assert_allclose(single, wanted, rtol=1e-3)


@pytest.mark.parametrize(
    "kernel", [*(kernel for kernel, _ in KERNELS), Polynomial(0.5, degree=2)], ids=str
)
def test_a_row_of_weight_2_is_one_that_comes_twice(kernel) -> None:
    found = kernel.mean_exponent(X, COUNTS * 1e200)
    assert_allclose(found, kernel.mean_exponent(np.repeat(X, COUNTS, axis=0)), rtol=1e-9)
    assert abs(found / kernel.mean_exponent(X) - 1) > 1e-4


def test_sparse_rows() -> None:
    rows = np.where(RNG.random(X.shape) < 0.5, X, 0.0)
    for kernel in (RBF(0.3), Matern(0.5), Polynomial(0.5, degree=2)):
        found = kernel.mean_exponent(csr_matrix(rows), COUNTS)
        assert_allclose(found, kernel.mean_exponent(rows, COUNTS), rtol=1e-9)


@pytest.mark.parametrize("rows", [X[:1], np.repeat(X[:1], 5, axis=0)], ids=["one", "the same"])
def test_rows_without_a_distance(rows) -> None:
    for kernel, _ in KERNELS:
        assert kernel.mean_exponent(rows) == 1.0
    assert Linear().mean_exponent(rows) == 1.0
