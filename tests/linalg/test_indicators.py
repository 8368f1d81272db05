"""Tiles of CSR rows and landmarks, indicators beside numbers, against those of arrays."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from onefold.kernels import RBF, Kernel, Laplacian, Linear, Matern, Polynomial, PowerExponential
from onefold.kernels.tiles import gradient_product, kernel_product
from onefold.linalg.indicators import SplitColumns

LEVELS = 30
FEATURES = 3 + 1 + LEVELS
WEIGHTS = np.random.default_rng(5).uniform(0.1, 2.0, FEATURES)
NO_WEIGHTS = np.where(np.arange(FEATURES) % 5 == 0, 0.0, WEIGHTS)
KERNELS: list[Kernel] = [
    *(RBF(0.3), RBF(0.3, metric=WEIGHTS), RBF(0.3, metric=np.diag(WEIGHTS) + 0.01), Matern(0.2)),
    *(PowerExponential(0.2, metric=NO_WEIGHTS), Laplacian(0.2), Laplacian(0.2, metric=WEIGHTS)),
    *(Laplacian(0.2, metric=NO_WEIGHTS), Linear(), Polynomial(0.1), RBF(0.3) + Laplacian(0.1)),
    Laplacian(0.1) * Linear(),
]


def rows(n: int, seed: int) -> np.ndarray:
    """Two columns of numbers, one mostly of zeros, a mark of gaps, indicators; some rows of none."""
    rng = np.random.default_rng(seed)
    thin = np.where(rng.random(n) < 0.95, 0.0, rng.standard_normal(n))
    numbers = np.column_stack([rng.standard_normal((n, 2)), thin, rng.random(n) < 0.05])
    share = 1.0 / np.arange(1, LEVELS + 2)
    levels = rng.choice(LEVELS + 1, n, p=share / share.sum())
    indicators = np.eye(LEVELS + 1)[levels]
    return np.column_stack([numbers, indicators[:, :-1]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_tiles_are_those_of_arrays(kernel, dtype) -> None:
    X = rows(70, 0).astype(dtype)
    Z = rows(90, 1).astype(dtype)
    Z[:20] = X[:20]
    expected = kernel(X, Z)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    out = np.empty((70, 90))
    for left in (sp.csr_array(X), sp.csr_matrix(X), X):
        assert_allclose(kernel(left, sp.csr_array(Z)), expected, rtol=tolerance, atol=tolerance)
        tile = kernel.bind(sp.csr_array(Z))(left, out)
        assert_allclose(tile, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_products_are_those_of_arrays(kernel) -> None:
    X = rows(1500, 0)
    Z = rows(1200, 1)
    coef = np.random.default_rng(2).standard_normal((1200, 2))
    expected = kernel_product(kernel, X, Z, coef)
    size = np.abs(expected).max()
    for left in (sp.csr_array(X), X):
        product = kernel_product(kernel, left, sp.csr_array(Z), coef)
        assert_allclose(product, expected, rtol=0, atol=1e-12 * size)
    expected = gradient_product(kernel, X[:50], Z, coef)
    slopes = gradient_product(kernel, sp.csr_array(X[:50]), sp.csr_array(Z), coef)
    assert_allclose(slopes, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_only_constant_columns_stay_sparse_where_that_is_asked() -> None:
    Z = sp.csr_array(rows(200, 0))
    thin = SplitColumns(Z)
    constant = SplitColumns(Z, constant=True)
    assert constant.filled.shape[1] == thin.filled.shape[1] + 1
    for columns in (thin, constant):
        filled, remaining = columns.split(Z)
        assert_array_equal(filled, columns.filled)
        assert np.count_nonzero(filled) + remaining.nnz == Z.nnz
        assert_allclose(columns.products(Z), (Z @ Z.T).toarray(), atol=1e-14)


def test_rows_may_have_values_and_signs_that_no_landmark_has() -> None:
    Z = np.zeros((100, 60))
    Z[np.arange(100), np.arange(100) % 50] = 1.0  # ten columns without any
    X = np.random.default_rng(0).standard_normal((80, 60))
    X[:, ::3] = 0.0
    kernel = Laplacian(0.03)
    assert_allclose(kernel(sp.csr_array(X), sp.csr_array(Z)), kernel(X, Z), rtol=1e-13)


def test_entries_that_are_stored_in_parts() -> None:
    parts = np.array([0.25, 0.75, 2.0]), np.array([1, 1, 0]), np.array([0, 2, 3])
    X = sp.csr_array(parts, shape=(2, 2))
    Z = sp.csr_array(np.array([[0.5, 1.0], [2.0, 0.0]]))
    assert_allclose(SplitColumns(Z).products(X), X.toarray() @ Z.toarray().T)


def test_no_landmarks_that_differ_from_0() -> None:
    X = rows(5, 0)
    Z = np.zeros((4, FEATURES))
    for kernel in (RBF(0.3), Laplacian(0.3), Linear()):
        assert_allclose(kernel(sp.csr_array(X), sp.csr_array(Z)), kernel(X, Z), rtol=1e-13)
