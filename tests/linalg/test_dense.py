"""Factorisations and solves: the same answers, and the same refusals, in every library."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from onefold import LSSVR
from onefold.linalg import free_memory_of, to_numpy
from onefold.linalg.dense import invert_lower, solve_positive

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
