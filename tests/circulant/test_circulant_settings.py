"""Shapes, orders and spacings of the circulant approximation."""

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from onefold.approximations import Circulant, Problem, Workload
from onefold.approximations.circulant import (
    choose_shape,
    data_spacing,
    factorise,
    fold_shape,
    principal_coordinates,
    row_order,
)
from onefold.kernels import RBF, CallableKernel, Linear, Matern

RNG = np.random.default_rng(7)


def problem_of(n, d=3, targets=1, intercept=True):
    return Problem(RNG.standard_normal((n, d)), RNG.standard_normal((n, targets)), None, intercept)


@given(n=st.integers(1, 5000), levels=st.integers(1, 4))
def test_a_shape_holds_every_row_and_is_balanced(n, levels) -> None:
    shape, found = choose_shape(n, levels), factorise(n, levels)
    assert len(shape) == levels
    assert math.prod(shape) >= n
    assert max(shape) <= 4 * min(shape)
    assert math.prod(found) == n
    assert list(found) == sorted(found)
    if levels == 2:  # the most balanced one
        best = max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)
        assert found == (best, n // best)
        assert n < 1000 or math.prod(shape) - n <= 16  # few cells are added


def test_known_shapes() -> None:
    assert choose_shape(400, 2) == (20, 20)
    assert choose_shape(2**20, 2) == (1024, 1024)
    assert choose_shape(1000, 3) == (10, 10, 10)
    assert choose_shape(101, 1) == (101,)
    assert math.prod(choose_shape(101, 2)) - 101 <= 4  # a prime gets a few cells more
    assert fold_shape(400, 2, 5) == (5, 80)  # folds become the leading level
    assert fold_shape(400, 3, 5) == (5, 8, 10)
    assert fold_shape(401, 2, 5) is None
    assert fold_shape(12, 1, 12) == (12,)
    assert fold_shape(12, 1, 3) is None


@pytest.mark.parametrize("order", ["random", "principal"])
@pytest.mark.parametrize(
    ("n", "d", "shape"),
    [(24, 2, (4, 6)), (23, 2, (4, 6)), (30, 2, (2, 3, 5)), (7, 2, (7,)), (12, 1, (2, 6))],
)
def test_every_row_has_one_cell(order, n, d, shape) -> None:
    found = row_order(order, RNG.standard_normal((n, d)), shape, seed=0)
    assert_array_equal(np.sort(found), np.arange(n))


def test_principal_order_finds_a_shuffled_grid_again() -> None:
    shape = (6, 8)
    grid = np.stack(np.meshgrid(np.arange(6) * 10.0, np.arange(8), indexing="ij"), -1).reshape(-1, 2)
    turned = grid @ np.array([[0.8, -0.6], [0.6, 0.8]])
    shuffle = RNG.permutation(48)
    order = row_order("principal", turned[shuffle], shape, seed=0)
    cells = shuffle[order].reshape(shape)
    assert (np.abs(np.diff(cells, axis=0)) == 8).all()  # up to the sign of each direction
    assert (np.abs(np.diff(cells, axis=1)) == 1).all()
    for rows in (turned[shuffle], scipy.sparse.csr_matrix(turned[shuffle])):
        assert_array_equal(row_order("principal", rows, shape, seed=0), order)
        assert_allclose(data_spacing(rows, order, shape), (10.0, 1.0))
    assert data_spacing(np.ones((6, 2)), np.arange(6), (2, 3)) == (1.0, 1.0)  # rows that are the same
    assert data_spacing(np.arange(5.0)[:, None], np.arange(5), (1, 5)) == (1.0, 1.0)


@pytest.mark.parametrize("features", [3, 100])
def test_principal_coordinates(features) -> None:
    X = RNG.standard_normal((200, features)) * np.r_[30.0, 10.0, np.ones(features - 2)] + 3.0
    X = np.round(X * 2**20) / 2**20  # which a shift does not round
    centred = X - X.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    expected = np.abs(centred @ directions[:2].T)
    for rows in (X, scipy.sparse.csr_matrix(X)):
        assert_allclose(np.abs(principal_coordinates(rows, 2)), expected, rtol=1e-3, atol=0.1)
    far = principal_coordinates(X + 2.0**28, 2)
    assert_allclose(far, principal_coordinates(X, 2), atol=1e-5)


def settled(structure, problem, parts=None):
    return structure.start(problem, [RBF()], Workload(folds=5, parts=parts)).approximation


TWELVE = problem_of(12)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: Circulant(levels=0), "levels must be"),
        (lambda: Circulant(shape=(3, 0)), "shape must hold"),
        (lambda: Circulant(spacing="wide"), "spacing must be"),
        (lambda: Circulant(spacing=(1.0, 2.0, 3.0)), "2 levels"),
        (lambda: Circulant(spacing=-1.0), "positive"),
        (lambda: Circulant(order="sorted"), "order must be"),
        (lambda: Circulant(validate="exact"), "validate must be"),
        (lambda: Circulant(negative="ignore"), "negative must be"),
        (lambda: Circulant(shape=(2, 5)).start(TWELVE, [RBF()], Workload()), "fewer than the 12 rows"),
        *(
            (lambda k=kernel: Circulant().start(TWELVE, [k], Workload()), "one width")
            for kernel in (Linear(), RBF((1.0, 2.0, 0.5)), CallableKernel(np.matmul), RBF() + Linear())
        ),
    ],
)
def test_what_cannot_be_is_refused(act, words) -> None:
    Circulant().start(TWELVE, [Matern() * RBF()], Workload())
    with pytest.raises(ValueError, match=words):
        act()


def test_folds_of_consecutive_rows_shape_the_matrix() -> None:
    folds, problem = np.array_split(np.arange(30), 5), problem_of(30)
    structure = Circulant(validate="matrix", order="given", spacing=1.0)
    assert settled(structure, problem, folds).shape == (5, 6)
    assert settled(structure, problem, np.array_split(RNG.permutation(30), 5)).shape is None
    assert settled(structure, problem, np.arange(30)[:, None]).shape is None
    by_kernel = Circulant(validate="kernel", order="given", spacing=1.0)
    assert settled(by_kernel, problem, folds) == by_kernel
    assert settled(Circulant(), problem).spacing == Circulant().layout(problem).spacing  # of all rows
