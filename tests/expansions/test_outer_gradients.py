"""The average outer product of gradients against differences of predictions, and against its formula."""

from __future__ import annotations

import tracemalloc

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose, assert_array_equal

from onefold import KernelRidge
from onefold.expansions import Expansion, outer_gradients
from onefold.kernels import RBF, Laplacian, Linear, Matern, Polynomial
from onefold.machine.threads import map_all, thread_budget, use_threads

RNG = np.random.default_rng(12)
D, T = 4, 3
S = RNG.standard_normal((D, D))
WEIGHTS = np.array([0.5, 0.0, 2.0, 1.0])
KERNELS = [
    Linear(),
    *(
        make(metric)
        for metric in (None, WEIGHTS, S)
        for make in (
            lambda m: RBF(0.3, metric=m),
            lambda m: Matern(0.3, nu=0.5, metric=m),
            lambda m: Matern(0.3, nu=1.5, metric=m),
            lambda m: Matern(0.3, nu=2.5, metric=m),
            lambda m: Polynomial(0.3, 2, 0.5, metric=m),
            lambda m: RBF(0.3, metric=m) + Linear(),
            lambda m: Matern(0.3, nu=0.5, metric=m) * Polynomial(0.2, 2),
        )
    ),
    Laplacian(0.3),
    Laplacian(0.3, metric=WEIGHTS),
    Laplacian(0.3, metric=WEIGHTS) * RBF(0.1) + Matern(0.2),
]
X = RNG.standard_normal((40, D))
V = np.where(np.arange(40) % 5 == 0, 0.0, RNG.uniform(0.1, 3.0, 40))


def expansion_of(kernel, m=15):
    rng = np.random.default_rng(3)
    return Expansion(kernel, rng.standard_normal((m, D)), rng.standard_normal((m, T)), np.ones(T))


def literal(gradients, weight=None):
    """Σ_i v_i Σ_t g g ᵀ / Σ_i v_i, term by term."""
    weight = np.ones(len(gradients)) if weight is None else weight
    total = np.zeros((gradients.shape[1],) * 2)
    for v, rows in zip(weight, gradients):
        for t in range(rows.shape[1]):
            total += v * np.outer(rows[:, t], rows[:, t])
    return total / weight.sum()


@pytest.mark.parametrize("weight", [None, V], ids=["plain", "weighted"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_it_is_the_mean_of_products_of_differences(kernel, weight) -> None:
    expansion, h = expansion_of(kernel), 1e-5
    steps = h * np.eye(D)
    slopes = [(expansion.predict(X + s) - expansion.predict(X - s)) / (2 * h) for s in steps]
    full = outer_gradients(expansion, X, weight, diagonal=False)
    assert full.shape == (D, D)
    assert full.dtype == np.float64
    expected = literal(np.stack(slopes, axis=1), weight)
    assert_allclose(full, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    exact = literal(expansion.gradient(X), weight)
    assert_allclose(full, exact, rtol=1e-12, atol=1e-13 * np.abs(exact).max())
    diagonal = outer_gradients(expansion, X, weight, diagonal=True)
    assert_allclose(diagonal, np.diagonal(exact), rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("library", ["strict", "torch"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_other_libraries_and_float32(kernel, library, dtype) -> None:
    xp = array_api_strict if library == "strict" else pytest.importorskip("torch")
    expansion, rows = expansion_of(kernel), X.astype(dtype)
    for diagonal in (False, True):
        expected = outer_gradients(expansion, rows.astype(np.float64), V, diagonal=diagonal)
        assert_allclose(outer_gradients(expansion, rows, V, diagonal=diagonal), expected, rtol=1e-10)
        there = outer_gradients(expansion, xp.asarray(rows), V, diagonal=diagonal)
        assert type(there) is np.ndarray
        assert_allclose(there, expected, rtol=1e-8, atol=1e-8)


def test_sparse_rows_have_a_diagonal_alone() -> None:
    thin = np.where(RNG.random((30, D)) < 0.5, 0.0, RNG.standard_normal((30, D)))
    for kernel in (RBF(0.4, metric=S), Polynomial(0.2), Linear(), Matern(0.3, 0.5)):
        dense = Expansion(kernel, thin[:7], RNG.standard_normal((7, 2)), np.zeros(2))
        sparse = Expansion(kernel, sp.csr_array(thin[:7]), dense.coef, dense.intercept)
        expected = outer_gradients(dense, thin, V[:30], diagonal=True)
        for expansion in (dense, sparse):
            got = outer_gradients(expansion, sp.csr_array(thin), V[:30], diagonal=True)
            assert_allclose(got, expected, rtol=1e-10)
        with pytest.raises(ValueError, match='use metric="diagonal", or dense rows'):
            outer_gradients(sparse, sp.csr_array(thin), diagonal=False)


@pytest.mark.parametrize("diagonal", [False, True])
def test_blocks_and_threads_change_nothing(diagonal) -> None:
    expansion = expansion_of(Matern(0.3, 0.5), m=60)
    whole = outer_gradients(expansion, X, V, diagonal=diagonal)
    with sklearn.config_context(working_memory=0.001):
        for jobs in (1, 2):
            with use_threads(jobs):
                many = outer_gradients(expansion, X, V, diagonal=diagonal)
            assert_allclose(many, whole, rtol=1e-12)
            if jobs == 1:
                one = many
        assert_array_equal(one, many)


def test_memory_does_not_grow_with_the_rows() -> None:
    n, d, t = 4000, 50, 20
    rows, centres = RNG.standard_normal((n, d)), RNG.standard_normal((10, d))
    expansion = Expansion(RBF(0.02), centres, RNG.standard_normal((10, t)), np.zeros(t))
    with sklearn.config_context(working_memory=8):
        tracemalloc.start()
        outer_gradients(expansion, rows, diagonal=False)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert used < 12 * 2**20  # all gradients at once would be 32 MB


class _Blend:
    """Something else with a gradient; it records what it was asked for."""

    def __init__(self, *parts) -> None:
        self.parts, self.budgets, self.n_targets = parts, [], parts[0].n_targets

    def gradient(self, rows):
        self.budgets.append(thread_budget())
        return sum(part.gradient(rows) for part in self.parts)


def test_whatever_has_a_gradient_in_the_budget_of_the_caller() -> None:
    blend = _Blend(expansion_of(RBF(0.2)), expansion_of(Laplacian(0.1)))
    with use_threads(2):
        got = outer_gradients(blend, X, diagonal=False)
        side_by_side = map_all(lambda diagonal: outer_gradients(blend, X, diagonal=diagonal), [0, 1])
    assert_allclose(got, literal(sum(part.gradient(X) for part in blend.parts)), rtol=1e-12)
    assert_allclose(side_by_side[1], np.diagonal(side_by_side[0]), rtol=1e-12)
    assert set(blend.budgets) == {1, 2}


def test_an_expansion_keeps_the_budget_it_is_called_in(monkeypatch) -> None:
    seen = []

    def watched(*args):
        seen.append(thread_budget())
        return np.zeros((X.shape[0], D, T))

    monkeypatch.setattr("onefold.expansions.kernel.gradient_product", watched)
    with use_threads(3):
        expansion_of(RBF(0.2)).gradient(X)
        expansion_of(RBF(0.2)).gradient(X, n_jobs=2)
    assert seen == [3, 2]


def test_of_a_grid_expansion() -> None:
    rows = RNG.uniform(-1, 1, (60, 2))
    grid = KernelRidge(RBF(1.5), alpha=0.1, approximation="grid").fit(rows, rows[:, 0] ** 2).expansion_
    assert_allclose(
        outer_gradients(grid, rows, diagonal=False), literal(grid.gradient(rows)), rtol=1e-10
    )


@pytest.mark.parametrize(("rows", "weight"), [(X[:0], None), (X, np.zeros(40))])
def test_without_rows_there_is_no_mean(rows, weight) -> None:
    with pytest.raises(ValueError, match="row of positive weight"):
        outer_gradients(expansion_of(RBF(0.2)), rows, weight, diagonal=True)
