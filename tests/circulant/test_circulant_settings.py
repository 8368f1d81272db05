"""Shapes, orders and spacings of the circulant approximation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from onefold.approximations import Circulant, Exact, Problem, Workload, resolve_approximation
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


class TestShape:
    @given(n=st.integers(1, 5000), levels=st.integers(1, 4))
    def test_holds_every_row_and_is_balanced(self, n, levels) -> None:
        shape = choose_shape(n, levels)
        assert len(shape) == levels
        assert math.prod(shape) >= n
        assert max(shape) <= 4 * min(shape)

    @given(n=st.integers(1, 3000), levels=st.integers(1, 3))
    def test_factorisation_is_the_most_balanced_one(self, n, levels) -> None:
        found = factorise(n, levels)
        assert math.prod(found) == n
        assert list(found) == sorted(found)
        if levels == 2:
            best = max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)
            assert found == (best, n // best)

    def test_known_sizes(self) -> None:
        assert choose_shape(400, 2) == (20, 20)
        assert choose_shape(2**20, 2) == (1024, 1024)
        assert choose_shape(1000, 3) == (10, 10, 10)
        assert choose_shape(101, 1) == (101,)
        assert math.prod(choose_shape(101, 2)) - 101 <= 4  # a prime gets a few cells more

    def test_few_cells_are_added(self) -> None:
        primes = [n for n in range(1000, 3000) if all(n % d for d in range(2, math.isqrt(n) + 1))]
        assert max(math.prod(choose_shape(n, 2)) - n for n in primes) <= 16

    def test_folds_become_the_leading_level(self) -> None:
        assert fold_shape(400, 2, 5) == (5, 80)
        assert fold_shape(400, 3, 5) == (5, 8, 10)
        assert fold_shape(401, 2, 5) is None
        assert fold_shape(12, 1, 12) == (12,)
        assert fold_shape(12, 1, 3) is None


class TestOrder:
    @pytest.mark.parametrize("order", ["random", "principal"])
    @pytest.mark.parametrize(("n", "shape"), [(24, (4, 6)), (23, (4, 6)), (30, (2, 3, 5)), (7, (7,))])
    def test_every_row_has_one_cell(self, order, n, shape) -> None:
        found = row_order(order, RNG.standard_normal((n, 2)), shape, seed=0)
        assert_array_equal(np.sort(found), np.arange(n))

    def test_principal_order_finds_a_shuffled_grid_again(self) -> None:
        shape = (6, 8)
        grid = np.stack(np.meshgrid(np.arange(6) * 10.0, np.arange(8), indexing="ij"), -1).reshape(-1, 2)
        turned = grid @ np.array([[0.8, -0.6], [0.6, 0.8]])
        shuffle = RNG.permutation(48)
        order = row_order("principal", turned[shuffle], shape, seed=0)
        cells = shuffle[order].reshape(shape)
        down, across = np.abs(np.diff(cells, axis=0)), np.abs(np.diff(cells, axis=1))
        assert (down == 8).all()  # up to the sign of each direction
        assert (across == 1).all()
        assert_allclose(data_spacing(turned[shuffle], order, shape), (10.0, 1.0))

    def test_sparse_rows_give_the_same_order_and_spacing(self) -> None:
        X = RNG.standard_normal((40, 6)) * np.array([5, 3, 2, 1, 1, 1])
        X[RNG.random(X.shape) < 0.3] = 0
        sparse = scipy.sparse.csr_matrix(X)
        dense_order = row_order("principal", X, (5, 8), 0)
        assert_array_equal(row_order("principal", sparse, (5, 8), 0), dense_order)
        assert_allclose(data_spacing(sparse, dense_order, (5, 8)), data_spacing(X, dense_order, (5, 8)))

    @pytest.mark.parametrize("sparse", [False, True])
    def test_many_features_give_the_principal_directions(self, sparse) -> None:
        X = RNG.standard_normal((200, 100)) + 3.0
        X[:, 7] *= 30
        X[:, 42] *= 10
        found = principal_coordinates(scipy.sparse.csr_matrix(X) if sparse else X, 2)
        centred = X - X.mean(axis=0)
        _, _, directions = np.linalg.svd(centred, full_matrices=False)
        expected = centred @ directions[:2].T
        assert_allclose(np.abs(found), np.abs(expected), rtol=1e-3, atol=0.1)

    @pytest.mark.parametrize("features", [3, 80])
    def test_rows_far_from_the_origin_have_the_same_coordinates(self, features) -> None:
        rng = np.random.default_rng(3)
        X = rng.standard_normal((50, features)) * np.r_[9.0, 4.0, np.ones(features - 2)]
        X = np.round(X * 2**20) / 2**20  # which the shift does not round
        assert_allclose(principal_coordinates(X + 2.0**28, 2), principal_coordinates(X, 2), atol=1e-6)

    def test_more_levels_than_features(self) -> None:
        X = RNG.standard_normal((12, 1))
        assert principal_coordinates(X, 3).shape == (12, 3)
        assert_array_equal(np.sort(row_order("principal", X, (2, 2, 3), 0)), np.arange(12))

    def test_spacing_of_duplicated_rows_is_a_number(self) -> None:
        assert data_spacing(np.ones((6, 2)), np.arange(6), (2, 3)) == (1.0, 1.0)
        assert data_spacing(np.arange(5.0)[:, None], np.arange(5), (1, 5)) == (1.0, 1.0)


def settled(structure, problem, parts=None):
    return structure.start(problem, [RBF()], Workload(folds=5, parts=parts)).approximation


class TestSettings:
    def test_the_final_model_is_exact_where_that_is_possible(self) -> None:
        X = np.random.default_rng(0).standard_normal((20_001, 1))
        load = Workload(refit="auto")
        small, large = (Problem(X[:n], X[:n], None, True) for n in (20_000, 20_001))
        assert Circulant().start(small, [RBF(1.0)], load).refit is not None
        assert Circulant().start(large, [RBF(1.0)], load).refit is None
        assert Exact().start(Problem(X[:9], X[:9], None, True), [RBF(1.0)], load).refit is None

    def test_by_name(self) -> None:
        assert resolve_approximation("circulant") == Circulant()

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"levels": 0}, "levels must be"),
            ({"shape": (3, 0)}, "shape must hold"),
            ({"spacing": "wide"}, "spacing must be"),
            ({"spacing": (1.0, 2.0, 3.0)}, "2 levels"),
            ({"spacing": -1.0}, "positive"),
            ({"order": "sorted"}, "order must be"),
            ({"validate": "exact"}, "validate must be"),
            ({"negative": "ignore"}, "negative must be"),
        ],
    )
    def test_wrong_settings_are_refused(self, settings, message) -> None:
        with pytest.raises(ValueError, match=message):
            Circulant(**settings)

    @pytest.mark.parametrize(
        "kernel",
        [Linear(), RBF((1.0, 2.0, 0.5)), CallableKernel(lambda A, B: A @ B.T), RBF() + Linear()],
        ids=["linear", "three widths", "callable", "sum"],
    )
    def test_kernels_that_are_no_function_of_one_distance(self, kernel) -> None:
        with pytest.raises(ValueError, match="one width"):
            Circulant().start(problem_of(12), [kernel], Workload())
        Circulant().start(problem_of(12), [Matern() * RBF()], Workload())

    def test_weights_name_the_approximations_that_take_them(self) -> None:
        weighted = Problem(np.ones((4, 1)), np.ones((4, 1)), np.ones(4), True)
        with pytest.raises(ValueError, match=r'weights.*"exact"'):
            Circulant().start(weighted, [RBF()], Workload())

    def test_a_shape_too_small(self) -> None:
        with pytest.raises(ValueError, match="fewer than the 12 rows"):
            Circulant(shape=(2, 5)).start(problem_of(12), [RBF()], Workload())

    def test_folds_of_consecutive_rows_shape_the_matrix(self) -> None:
        folds = np.array_split(np.arange(30), 5)
        structure = Circulant(validate="matrix", order="given", spacing=1.0)
        assert settled(structure, problem_of(30), folds).shape == (5, 6)
        shuffled = np.array_split(RNG.permutation(30), 5)
        assert settled(structure, problem_of(30), shuffled).shape is None
        assert settled(structure, problem_of(30), np.arange(30)[:, None]).shape is None
        by_kernel = Circulant(validate="kernel", order="given", spacing=1.0)
        assert settled(by_kernel, problem_of(30), folds) == by_kernel

    def test_the_spacing_is_that_of_all_rows(self) -> None:
        problem = problem_of(30)
        assert settled(Circulant(), problem).spacing == Circulant().layout(problem).spacing
