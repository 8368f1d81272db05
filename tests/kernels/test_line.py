"""Sums over points on a line against the sums themselves."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from onefold.kernels import RBF, Laplacian, Matern, line
from onefold.kernels.line import LineKernel, LineSums, line_kernel
from onefold.kernels.tiles import gradient_product, kernel_product

pytest.importorskip("numba")

KERNELS = [
    Laplacian(2.0),
    Laplacian(2.0, metric=[0.5]),
    Matern(0.5, nu=0.5),
    Matern(3.0, nu=1.5),
    Matern([2.0], nu=2.5),
    Matern(2.0, nu=2.5, metric=[[-1.3]]),
]


def points() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centres in no order, some of them equal, points between, beyond and on them, coefficients."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(0, 10, 300)
    centres[5:8] = centres[9]
    x = np.concatenate([rng.uniform(-3, 13, 200), centres[:20]])
    return centres, x, rng.standard_normal((300, 2))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_values_and_slopes_are_those_of_the_sums(kernel) -> None:
    centres, x, coef = points()
    sums = LineSums(line_kernel(kernel, 1), centres, coef)
    values = kernel_product(kernel, x[:, None], centres[:, None], coef)
    assert_allclose(sums.values(x), values, rtol=0, atol=1e-11)
    slopes = gradient_product(kernel, x[:, None], centres[:, None], coef)[:, 0]
    assert_allclose(sums.slopes(x), slopes, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_a_point_does_not_depend_on_the_others(dimension) -> None:
    centres, x, coef = points()
    sums = LineSums(LineKernel(dimension, 1.7), centres, coef)
    alone = np.concatenate([sums.values(x[i : i + 1]) for i in range(len(x))])
    assert_array_equal(sums.values(x), alone)


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("distance", [2e3, 1e150, 1e300])
def test_far_away_there_is_nothing(dimension, distance) -> None:
    centres = np.array([0.0, 1.0, distance])
    sums = LineSums(LineKernel(dimension, 1.0), centres, np.ones((3, 1)))
    x = np.array([-distance, 0.5 * distance, 2.0 * distance])
    assert_array_equal(sums.values(x), 0.0)
    assert_array_equal(sums.slopes(x), 0.0)


def test_one_centre() -> None:
    sums = LineSums(LineKernel(3, 1.0), np.array([2.0]), np.array([[3.0]]))
    assert_allclose(sums.values(np.array([2.0, 3.0, 1.0]))[:, 0], [3.0, 7 / np.e, 7 / np.e], rtol=1e-15)


def test_kernels_that_have_no_such_sums() -> None:
    assert line_kernel(RBF(1.0), 1) is None
    assert line_kernel(Matern(1.0), 2) is None
    assert line_kernel(Matern(1.0) + Laplacian(1.0), 1) is None


def test_there_are_none_without_numba(monkeypatch) -> None:
    monkeypatch.setattr(line, "_loops", lambda: None)
    assert line_kernel(Matern(1.0), 1) is None
