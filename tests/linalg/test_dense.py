"""Factorisations and solves: the same answers, and the same refusals, in every library."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from onefold import LSSVR, linalg
from onefold.linalg import free_memory_of, host_array, to_numpy
from onefold.linalg.dense import add_gram, invert_lower, mirror, solve_positive

LIBRARIES = ["numpy", "torch", "array_api_strict"]


def matrices(count: int = 3, n: int = 20) -> np.ndarray:
    root = np.random.default_rng(0).standard_normal((count, n, n))
    return root @ np.swapaxes(root, 1, 2) / n + np.eye(n)


@pytest.mark.parametrize("library", LIBRARIES)
def test_systems_alone_and_in_stacks_where_an_indefinite_one_gives_nan(library) -> None:
    xp = pytest.importorskip(library)
    A, B = matrices(), np.random.default_rng(1).standard_normal((3, 20, 2))
    expected = np.linalg.solve(A, B)
    A[1, 4, 4] = -1.0
    expected[1] = np.nan
    assert_allclose(to_numpy(solve_positive(xp.asarray(A), xp.asarray(B))), expected, rtol=1e-10)
    for one, b, wanted in zip(A, B, expected):
        assert_allclose(to_numpy(solve_positive(xp.asarray(one), xp.asarray(b))), wanted, rtol=1e-10)


def test_a_triangle_with_a_zero_on_its_diagonal_is_refused() -> None:
    L = np.linalg.cholesky(matrices(1)[0])
    assert_allclose(invert_lower(np.array(L, order="F")), np.linalg.inv(L), atol=1e-12)
    L[7, 7] = 0.0
    with pytest.raises(np.linalg.LinAlgError, match="number 8 on the diagonal"):
        invert_lower(np.array(L, order="F"))


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_rows_of_other_libraries_on_the_host_need_the_memory_of_the_host(library, monkeypatch) -> None:
    xp = pytest.importorskip(library)
    X = xp.asarray(np.random.default_rng(0).standard_normal((300, 2)))
    monkeypatch.setattr("onefold.machine.memory.available_memory", lambda: 10**4)
    assert free_memory_of(X) == 10**4
    with pytest.raises(MemoryError, match=r"a fit with Exact\(\) on 300 rows"):
        LSSVR(approximation="exact").fit(X, X[:, 0])


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("fresh", [False, True])
def test_a_gram_matrix_is_added_or_begun(library, fresh) -> None:
    xp = pytest.importorskip(library)
    start, tile = matrices(1)[0], np.random.default_rng(2).standard_normal((9, 20))
    total = xp.asarray(start.copy())
    add_gram(total, xp.asarray(tile), fresh=fresh)
    assert_allclose(to_numpy(mirror(total)), tile.T @ tile + (0 if fresh else start), atol=1e-13)


@pytest.mark.parametrize("given", [["a"], np.array([1j])])
def test_what_is_no_real_number_does_not_come_to_the_host(given) -> None:
    with pytest.raises(TypeError):
        host_array(given)


@pytest.mark.parametrize("library", LIBRARIES)
def test_parts_are_those_of_numpy(library) -> None:
    xp, rows = pytest.importorskip(library), np.array([3, 0, 2, 1])
    A, placed = np.arange(24.0).reshape(2, 4, 3), np.zeros((6, 3))
    there, changed = xp.asarray(A.copy()), A[0].T.copy()
    for index in (rows, rows.reshape(2, 2), linalg.like_index(rows, there)):
        assert_array_equal(to_numpy(linalg.take_rows(there[0, ...], index)), A[0][to_numpy(index)])
    for values in (xp.asarray(np.full((3, 2), -1.0)), None):
        changed[:, [3, 1]] = 0.0 if values is None else -1.0
        found = linalg.with_columns(there[0, ...].T, np.array([3, 1]), values)
        assert_array_equal(to_numpy(found), changed)
    placed[rows + 1] = A[0]
    assert_array_equal(to_numpy(linalg.scattered(there[0, ...], rows + 1, 6)), placed)
    assert_array_equal(to_numpy(linalg.reordered(there, rows)), A[:, rows])
