"""Factorisations and solves: the same answers, and the same refusals, in every library."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

from onefold import LSSVR, linalg
from onefold.approximations import Exact, Problem, Workload
from onefold.kernels import RBF, Laplacian
from onefold.linalg import dense, free_memory_of, to_numpy
from onefold.linalg.dense import (
    add_gram,
    cholesky,
    cholesky_solve,
    invert_lower,
    mirror,
    solve_by_blocks,
    solve_positive,
)
from onefold.smoothers import CholeskySmoother
from onefold.smoothers.base import UnsolvableError

LIBRARIES = ["numpy", "torch", "array_api_strict"]


def matrices(count: int = 3, n: int = 20) -> np.ndarray:
    root = np.random.default_rng(0).standard_normal((count, n, n))
    return root @ np.swapaxes(root, 1, 2) / n + np.eye(n)


@pytest.mark.parametrize("library", LIBRARIES)
def test_systems_alone_and_in_stacks_where_an_indefinite_one_gives_nan(library) -> None:
    xp = pytest.importorskip(library)
    A = matrices()
    B = np.random.default_rng(1).standard_normal((3, 20, 2))
    expected = np.linalg.solve(A, B)
    A[1, 4, 4] = -1.0
    expected[1] = np.nan
    assert_allclose(to_numpy(solve_positive(xp.asarray(A), xp.asarray(B))), expected, rtol=1e-10)
    for one, b, wanted in zip(A, B, expected):
        assert_allclose(to_numpy(solve_positive(xp.asarray(one), xp.asarray(b))), wanted, rtol=1e-10)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("fresh", [False, True])
def test_a_gram_matrix_is_added_or_begun(library, fresh) -> None:
    xp = pytest.importorskip(library)
    start = matrices(1)[0]
    tile = np.random.default_rng(2).standard_normal((9, 20))
    total = xp.asarray(start.copy())
    add_gram(total, xp.asarray(tile), overwrite=fresh)
    assert_allclose(to_numpy(mirror(total)), tile.T @ tile + (0 if fresh else start), atol=1e-13)


def test_a_triangle_is_inverted_by_halves_and_one_with_a_zero_refused(monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("onefold.linalg.dense._LEAF", 8)
    for n in (1, 9, 20):
        L = np.linalg.cholesky(matrices(1, n)[0])
        for found in (invert_lower(np.array(L, order="F")), invert_lower(torch.tensor(L)).numpy()):
            assert_allclose(found, np.linalg.inv(L), atol=1e-12)
            assert np.array_equal(found, np.tril(found))
    L[7, 7] = 0.0
    with pytest.raises(np.linalg.LinAlgError, match="number 8 on the diagonal"):
        invert_lower(np.array(L, order="F"))


@pytest.mark.parametrize("n", [1, 8, 21])
def test_a_large_matrix_is_factorised_in_its_place_by_panels(monkeypatch, n) -> None:
    torch = pytest.importorskip("torch")
    for name, value in {"_LARGE": 0, "_PANEL": 8, "STACK": 20, "_LEAF": 4}.items():
        monkeypatch.setattr(f"onefold.linalg.dense.{name}", value)
    A = matrices(1, n)[0]
    B = np.random.default_rng(1).standard_normal((n, 2))
    L = np.linalg.cholesky(A)
    given = torch.tensor(A)
    factor = cholesky(given, overwrite=True)
    assert factor is given
    assert_allclose(factor.numpy(), L, atol=1e-13)
    assert_allclose(cholesky_solve(factor, torch.asarray(B)).numpy(), np.linalg.solve(A, B), atol=1e-12)
    # In the digits of the right-hand side, whatever those of the factor are.
    single = factor.float()
    expected = np.linalg.solve(single.double().numpy() @ single.double().numpy().T, B)
    for rounded, right in ((single, torch.asarray(B)), (single.numpy(), B)):
        assert_allclose(to_numpy(solve_by_blocks(rounded, right)), expected, atol=1e-12)
    assert_allclose(invert_lower(factor).numpy(), np.linalg.inv(L), atol=1e-12)
    A[n - 1, n - 1] = -1.0
    given = torch.tensor(A)
    with pytest.raises(np.linalg.LinAlgError, match=f"order {n} is not positive"):
        cholesky(given, overwrite=True)
    assert np.array_equal(np.triu(given.numpy(), 1), np.triu(A, 1))


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_rows_of_other_libraries_on_the_host_need_the_memory_of_the_host(library, monkeypatch) -> None:
    xp = pytest.importorskip(library)
    X = xp.asarray(np.random.default_rng(0).standard_normal((300, 2)))
    monkeypatch.setattr("onefold.machine.memory.available_memory", lambda: 10**4)
    assert free_memory_of(X) == 10**4
    with pytest.raises(MemoryError, match=r"a fit with Exact\(\) on 300 rows"):
        LSSVR(approximation="exact").fit(X, X[:, 0])


@pytest.mark.parametrize("library", LIBRARIES)
def test_columns_are_replaced_and_rows_scattered(library) -> None:
    xp = pytest.importorskip(library)
    columns = np.array([3, 1])
    placed = np.zeros((6, 2))
    A = np.arange(12.0).reshape(3, 4)
    values = np.arange(20.0, 26.0).reshape(3, 2)
    for given in (None, values):
        wanted = A.copy()
        there = None if given is None else xp.asarray(given)
        wanted[:, columns] = 0.0 if given is None else given
        assert_allclose(to_numpy(linalg.with_columns(xp.asarray(A), columns, there)), wanted)
    placed[[4, 0, 3]] = values
    assert_allclose(to_numpy(linalg.scattered(xp.asarray(values), np.array([4, 0, 3]), 6)), placed)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 29])
def test_a_matrix_of_numpy_is_factorised_by_panels(n, dtype, monkeypatch) -> None:
    factorise_by_panels(n, dtype, monkeypatch)


def factorise_by_panels(n, dtype, monkeypatch) -> None:
    """As LAPACK does it at once: the factor, the triangle that stays, the order of a bad minor."""
    monkeypatch.setattr("onefold.linalg.dense._PANELLED", 6)
    monkeypatch.setattr("onefold.linalg.dense._HOST_PANEL", 4)
    matrix = matrices(1, n)[0].astype(dtype)
    work = matrix.copy()
    factor = cholesky(work, overwrite=True)
    tolerance = 100 * np.finfo(dtype).eps
    assert_allclose(np.tril(factor), np.linalg.cholesky(matrix) if n else matrix, atol=tolerance)
    assert np.array_equal(np.tril(work, -1), np.tril(matrix, -1))
    right = np.random.default_rng(1).standard_normal((n, 2))
    solved = cholesky_solve(cholesky(matrix, overwrite=False), right.astype(dtype))
    assert_allclose(matrix @ solved, right, atol=20 * tolerance)
    if n > 6:
        matrix[5, 5] = -1.0
        with pytest.raises(np.linalg.LinAlgError, match="minor of order 6"):
            cholesky(matrix, overwrite=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 6, 7, 8, 29])
def test_no_large_matrix_goes_to_lapack_whatever_scipy_gives(n, dtype, monkeypatch) -> None:
    """Without pointers to its routines a matrix of any size went to the one that corrupts memory."""
    monkeypatch.setattr("onefold.linalg.dense._PANELLED", 6)
    monkeypatch.setattr("onefold.linalg.dense._HOST_PANEL", 4)
    monkeypatch.setattr("onefold.linalg.dense._TAKES", dict.fromkeys(dense._TAKES, "long *"))
    dense._routine.cache_clear()  # every capsule has another signature now
    orders = []
    functions = scipy.linalg.get_lapack_funcs

    def counted(name, arrays):
        routine = functions(name, arrays)
        return lambda matrix, *given, **options: (
            orders.append(len(matrix)) or routine(matrix, *given, **options)
        )

    monkeypatch.setattr("onefold.linalg.dense.scipy.linalg.get_lapack_funcs", counted)
    try:
        assert dense._routine("potrf", np.dtype(dtype)) is None
        factorise_by_panels(n, dtype, monkeypatch)
    finally:
        dense._routine.cache_clear()
    assert max(orders, default=0) <= 6
    assert len(orders) >= (n > 0)


def test_a_rough_solution_is_as_exact_as_it_says(monkeypatch) -> None:
    """Of a float32 factor for a rough and a smooth kernel, with tiny ridges too."""
    monkeypatch.setattr("onefold.smoothers.cholesky._SINGLE_ROWS", 1)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = np.sin(X[:, :1]) + 0.3 * rng.standard_normal((300, 1))
    problem = Problem(X, y, None, True)
    for kernel in (RBF(0.05), Laplacian(0.1)):
        for mu in (1e-7, 1e-4, 1e-1, 10.0):
            rough, exact = (
                Exact().model(kernel, problem, Workload(alphas=2, rough=rough), None).expansion(mu)
                for rough in (True, False)
            )
            residual = np.linalg.norm(y - exact.predict(X))
            wrong = np.linalg.norm(rough.predict(X) - exact.predict(X))
            assert wrong <= 0.01 * residual


def test_a_rough_factor_of_an_indefinite_matrix_invents_no_eigenvalue(monkeypatch) -> None:
    """The error named minus alpha as the smallest eigenvalue, which it is not."""
    monkeypatch.setattr("onefold.smoothers.cholesky._SINGLE_ROWS", 1)
    K = np.array([[1.0, 0.7], [0.7, 0.49 - 2e-9]])  # rounded to float32 it is positive definite
    smoother = CholeskySmoother(K, None, rough=True)
    with pytest.raises(UnsolvableError, match="plus alpha=5e-10 is not positive definite") as caught:
        smoother.residuals(np.ones((2, 1)), [5e-10])
    assert "eigenvalue" not in str(caught.value)
