"""Functions on fewer centres: the projection solved densely, the order of the choice, refusals."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from onefold import LSSVR, KernelRidge
from onefold.expansions import Blend, Expansion, FoldModels, LineExpansion
from onefold.expansions import compression as room
from onefold.expansions.compression import Pool, fewest_pivots, pivots, projected
from onefold.kernels import (
    RBF,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    PowerExponential,
    Precomputed,
    resolve_kernel,
)

RNG = np.random.default_rng(5)
N = 80
D = 3
CENTRES = RNG.standard_normal((N, D))
ROWS = RNG.standard_normal((30, D))
KERNELS = [
    RBF(0.4),
    RBF(0.2, metric=RNG.standard_normal((D, D))),
    Laplacian(0.3),
    Matern(0.3, nu=0.5),
    Matern(0.3, nu=1.5),
    Matern(0.3, nu=2.5),
    PowerExponential(0.3, 1.5),
    Polynomial(2, coef0=1.0),
    Linear(),
    RBF(0.3) + Laplacian(0.2),
    RBF(0.1) * Matern(0.3),
]


def function(kernel, targets=2, centres=CENTRES, seed=0):
    coef = np.random.default_rng(seed).standard_normal((centres.shape[0], targets))
    return Expansion(kernel, centres, coef, 100.0 * np.arange(1.0, targets + 1.0))


def generator():
    return np.random.default_rng(0)


def dense_projection(f, Z):
    """β of the nearest function in the norm of the kernel, from K_ZZ⁺ K_Zn c."""
    right = f.kernel(Z, f.centres) @ f.coef
    return np.linalg.pinv(f.kernel(Z, Z), rcond=1e-13, hermitian=True) @ right


def squared_norm(kernel, centres, coef):
    return np.einsum("it,ij,jt->t", coef, kernel(centres, centres), coef)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("targets", [1, 3])
def test_the_projection_is_the_dense_one(kernel, targets) -> None:
    f = function(kernel, targets)
    pool = Pool.of(f)
    chosen = pivots(pool, 12, generator())
    assert len(set(chosen.tolist())) == len(chosen) <= 12
    Z = CENTRES[chosen]
    [g] = projected([f], Z)
    assert g.centres is Z
    expected = kernel(ROWS, Z) @ dense_projection(f, Z) + f.intercept
    assert_allclose(g.predict(ROWS), expected, rtol=1e-7, atol=1e-8)
    assert_allclose(g.predict(Z), f.predict(Z), rtol=1e-9)  # the projection interpolates f
    both = np.vstack([CENTRES, Z])
    difference = squared_norm(kernel, both, np.vstack([f.coef, -dense_projection(f, Z)]))
    total = squared_norm(kernel, CENTRES, f.coef)
    assert_allclose(pool.change(g), np.sqrt(np.maximum(difference, 0) / total), atol=2e-6)


@pytest.mark.parametrize("kernel", [RBF(0.4), Laplacian(0.3)], ids=repr)
def test_no_other_coefficients_on_the_same_centres_are_nearer(kernel) -> None:
    f = function(kernel)
    Z = CENTRES[:10]
    [g] = projected([f], Z)
    both = np.vstack([CENTRES, Z])
    least = squared_norm(kernel, both, np.vstack([f.coef, -g.coef]))
    for seed in range(5):
        moved = g.coef + 0.01 * np.random.default_rng(seed).standard_normal(g.coef.shape)
        assert np.all(squared_norm(kernel, both, np.vstack([f.coef, -moved])) > least)


def one_by_one(f, m):
    """The greedy choice, literally: the centre that makes the next projection nearest to f."""
    chosen = []
    scale = np.std(f.predict(f.centres), axis=0)
    for _ in range(m):
        distances = np.full(f.centres.shape[0], np.inf)
        for i in range(f.centres.shape[0]):
            if i not in chosen:
                Z = f.centres[[*chosen, i]]
                beta = dense_projection(f, Z)
                within = np.sum(beta * (f.kernel(Z, f.centres) @ f.coef), axis=0)
                distances[i] = -np.sum(within / scale**2)
        chosen.append(int(np.argmin(distances)))
    return chosen


def test_each_choice_lowers_the_distance_most(monkeypatch) -> None:
    f = function(RBF(0.4))
    monkeypatch.setattr(room, "_BLOCK", 1)
    assert pivots(Pool.of(f), 10, generator()).tolist() == one_by_one(f, 10)


def test_blocks_choose_about_as_well_as_single_centres(monkeypatch) -> None:
    X = np.random.default_rng(1).standard_normal((600, D))
    f = LSSVR(Laplacian(0.3), alpha=0.1).fit(X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2).expansion_
    pool = Pool.of(f)
    changes = []
    for block in (64, 1):
        monkeypatch.setattr(room, "_BLOCK", block)
        chosen = pivots(pool, 100, generator())
        changes.append(pool.change(projected([f], X[chosen])[0]).item())
    at_random = pool.change(projected([f], X[:100])[0]).item()
    assert changes[0] < 1.1 * changes[1] < 0.8 * at_random


def test_all_centres_give_the_function_back_and_repeated_ones_count_once() -> None:
    f = function(Laplacian(0.3))
    [g] = projected([f], CENTRES)
    assert_allclose(g.predict(ROWS), f.predict(ROWS), rtol=1e-9)
    twice = Expansion(
        f.kernel, np.vstack([CENTRES, CENTRES]), np.vstack([f.coef, f.coef]) / 2, f.intercept
    )
    pool = Pool.of(Blend((twice, f), [0.5, 0.5]))
    assert pool.size == N
    assert_allclose(pool.values, f.predict(pool.rows), rtol=1e-12)
    chosen = pivots(pool, 20, generator())
    [g, alone] = projected([pool.function, f], pool.rows[chosen])
    assert_allclose(g.predict(ROWS), alone.predict(ROWS), rtol=1e-10)
    assert_allclose(pool.change(g), Pool.of(f).change(alone), rtol=1e-6)


def test_a_function_of_few_directions_needs_few_centres() -> None:
    f = function(Linear())
    chosen = pivots(Pool.of(f), 40, generator())
    assert len(chosen) == D
    [g] = projected([f], CENTRES[chosen])
    assert_allclose(g.predict(ROWS), f.predict(ROWS), rtol=1e-10)
    [h] = projected([f], CENTRES[:20])  # more than there are directions: the others are left out
    assert np.count_nonzero(np.any(h.coef != 0, axis=1)) == D
    assert_allclose(h.predict(ROWS), f.predict(ROWS), rtol=1e-9)


def test_blends_and_fold_models_share_the_centres() -> None:
    members = (function(RBF(0.4)), function(Laplacian(0.2), seed=1, centres=CENTRES[:50]))
    blend = Blend(members, [0.7, 0.6])
    folds = FoldModels(
        (function(RBF(0.4), 4, CENTRES[:60]), function(RBF(0.1), 2, CENTRES[20:])),
        (np.array([0, 1]), np.array([1])),
        np.array([[1.0, 2.0], [3.0, 4.0]]),
    )
    pool = Pool.of(blend)
    chosen = pivots(pool, 25, generator())
    Z = pool.rows[chosen]
    small, small_folds = projected([blend, folds], Z)
    assert {id(part.centres) for part in (*small.members, *small_folds.terms)} == {id(Z)}
    for before, after in zip((*members, *folds.terms), (*small.members, *small_folds.terms)):
        beta = dense_projection(before, Z)
        assert_allclose(
            after.predict(ROWS), before.kernel(ROWS, Z) @ beta + before.intercept, rtol=1e-6, atol=1e-8
        )
    assert small_folds.predict(ROWS).shape == folds.predict(ROWS).shape
    assert np.array_equal(small.weights, blend.weights)
    assert np.array_equal(small_folds.intercept, folds.intercept)
    lost = total = 0.0
    for weight, part, beta in zip((0.7, 0.6), members, (dense_projection(part, Z) for part in members)):
        both = np.vstack([part.centres, Z])
        coef = np.vstack([part.coef, -beta])
        lost += weight**2 * squared_norm(part.kernel, both, coef)
        total += weight**2 * squared_norm(part.kernel, part.centres, part.coef)
    assert_allclose(pool.change(small), np.sqrt(lost / total), rtol=1e-5)


def test_rows_far_from_the_origin_sparse_rows_and_float32() -> None:
    far = Expansion(RBF(0.4), CENTRES + 1e6, function(RBF(0.4)).coef, np.zeros(2))
    near = Expansion(RBF(0.4), (CENTRES + 1e6) - 1e6, far.coef, far.intercept)
    order = pivots(Pool.of(near), 20, generator())
    assert np.array_equal(pivots(Pool.of(far), 20, generator()), order)
    [g], [h] = projected([far], far.centres[order]), projected([near], near.centres[order])
    assert_allclose(g.predict(ROWS + 1e6), h.predict((ROWS + 1e6) - 1e6), rtol=1e-6, atol=1e-6)
    dense = function(RBF(0.4))
    sparse = Expansion(dense.kernel, sp.csr_array(CENTRES), dense.coef, dense.intercept)
    order = pivots(Pool.of(dense), 20, generator())
    assert np.array_equal(pivots(Pool.of(sparse), 20, generator()), order)
    [g] = projected([sparse], sparse.centres[order])
    assert sp.issparse(g.centres)
    assert_allclose(g.predict(sp.csr_array(ROWS)), projected([dense], CENTRES[order])[0].predict(ROWS))
    single = Expansion(dense.kernel, CENTRES.astype(np.float32), dense.coef, dense.intercept)
    pool = Pool.of(single)
    assert projected([single], pool.rows[:20])[0].centres.dtype == np.float32


def test_a_line_stays_a_line() -> None:
    x = np.sort(RNG.random(200))[:, None]
    f = KernelRidge(Matern(20.0, nu=1.5), alpha=0.1).fit(x, np.sin(9 * x[:, 0])).expansion_
    line = LineExpansion(f.kernel, f.centres, f.coef, f.intercept)
    chosen = pivots(Pool.of(line), 60, generator())
    [g] = projected([line], x[chosen])
    assert type(g) is LineExpansion
    assert g.n_centres == len(chosen)
    assert_allclose(g.predict(x), f.predict(x), atol=1e-3)


def test_the_fewest_centres_that_are_enough() -> None:
    f = function(RBF(0.4))
    pool = Pool.of(f)
    for least in (1, 5, 16, 17, 33, 60):
        chosen = fewest_pivots(pool, lambda order, least=least: len(order) >= least, generator)
        assert len(chosen) == least
    assert fewest_pivots(pool, lambda order: False, generator) is None


def test_candidates_are_drawn_where_the_factors_would_be_too_large(monkeypatch) -> None:
    f = function(RBF(0.4))
    pool = Pool.of(f)
    monkeypatch.setattr(room, "_FACTOR_NUMBERS", 10 * 40)
    chosen = pivots(pool, 10, generator())
    assert len(set(chosen.tolist())) == 10
    assert np.array_equal(pivots(pool, 10, generator()), chosen)
    assert not np.array_equal(pivots(pool, 10, np.random.default_rng(1)), chosen)
    drawn = np.sort(np.random.default_rng(0).choice(N, 40, replace=False))
    assert set(chosen.tolist()) <= set(drawn.tolist())
    monkeypatch.setattr("onefold.machine.memory.available_memory", lambda: 100)
    with pytest.raises(MemoryError, match="use fewer centres"):
        pivots(pool, 10, generator())


def test_a_kernel_of_few_digits() -> None:
    rough = resolve_kernel(lambda A, B: ((A @ B.T + 1.0) ** 2).astype(np.float32), None, 3, 1.0)
    f = function(rough)
    pool = Pool.of(f)
    chosen = pivots(pool, 40, generator())
    [g] = projected([f], CENTRES[chosen])
    assert_allclose(g.predict(ROWS), f.predict(ROWS), atol=0.05)


def test_what_has_no_centres_is_refused() -> None:
    grid = KernelRidge(RBF(1.0), alpha=0.1, approximation="grid").fit(ROWS[:, :1], ROWS[:, 0])
    given = Expansion(Precomputed(), None, np.ones((3, 1)), np.zeros(1))
    for f, words in ((grid.expansion_, "on a grid"), (given, "precomputed")):
        with pytest.raises(ValueError, match=words):
            Pool.of(f)
        with pytest.raises(ValueError, match=words):
            projected([f], ROWS[:, :1])
    with pytest.raises(ValueError, match=r"80 different centres.* to 81"):
        Pool.of(function(RBF(0.4)), at_least=81)
