"""Tiles into memory that is already there."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.kernels import RBF, Laplacian, Linear, Matern, Polynomial

KERNELS = [RBF(0.3), RBF(200.0), Matern(0.5, nu=0.5), Matern(3.0), Matern(90.0, nu=2.5), Laplacian(0.2),
           Linear(), Polynomial(0.2), RBF(0.3) + Linear(), RBF((0.1, 0.0, 2.0))]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fill_is_the_tile(kernel, dtype):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((40, 3)).astype(dtype), rng.standard_normal((30, 3)).astype(dtype)
    B[:5] = A[:5] + dtype(1e-3)
    tile = kernel.bind(B)(A, np.empty((40, 30), dtype=dtype))
    expected = kernel(A.astype(float), B.astype(float))
    np.testing.assert_allclose(tile, expected, atol=3e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("kernel", [RBF(2.0**9), Matern(2.0**9), Matern(2.0**12, nu=0.5)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_product_of_two_values_is_subnormal(kernel, dtype):
    A = np.random.default_rng(0).standard_normal((60, 5)).astype(dtype)
    tile = kernel.bind(A[:30])(A, np.empty((60, 30), dtype=dtype))
    smallest = tile.min()
    assert smallest == 0 or smallest * smallest >= np.finfo(dtype).tiny
