"""Statistics of row blocks: against dense products, for every block size, and they add."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.basis import Design, RidgePath, Statistics, Whitening, collect
from onefold.basis.ridge import squared_error
from onefold.kernels import RBF
from onefold.linalg.dense import add_gram, mirror
from onefold.rows import Groups, group_rows, rows_of


def _dense(Phi, Y, v):
    return Statistics(
        Phi.T @ (v[:, None] * Phi), Phi.T @ (v[:, None] * Y), Phi.T @ v, float(v.sum()),
        v @ Y, v @ Y**2, len(Y),
    )  # fmt: skip


def _assert_close(left, right, rtol):
    for name in ("gram", "cross", "border", "weight", "target_sum", "target_square"):
        a, b = np.asarray(getattr(left, name)), np.asarray(getattr(right, name))
        np.testing.assert_allclose(a, b, atol=rtol * max(1.0, np.abs(b).max()), err_msg=name)
    assert left.count == right.count


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("precision", ["single", "mixed", "double"])
def test_one_pass_matches_dense_products_group_by_group(dtype, weighted, precision):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((301, 3)).astype(dtype)
    Y = rng.standard_normal((301, 2))
    v = rng.uniform(0.2, 3, 301) if weighted else np.ones(301)
    label = rng.integers(0, 4, 301)
    design = Design(RBF(0.3), X[:20], precision)
    got = collect(design, rows_of(X, Y, np.sqrt(v) if weighted else None), Groups(label, [], 4))
    Phi = RBF(0.3)(X.astype(float), X[:20].astype(float))
    for group in range(4):
        own = label == group
        tolerance = 1e-13 if precision == "double" else 2e-6
        _assert_close(got[group], _dense(Phi[own], Y[own], v[own]), tolerance)


@pytest.mark.parametrize("weighted", [False, True])
def test_leading_directions_summed_apart_lose_nothing(weighted):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 3)).astype(np.float32)
    Y = rng.standard_normal((3000, 2))
    root = np.sqrt(rng.uniform(0.2, 3, 3000)) if weighted else None
    exact = collect(Design(RBF(0.01), X[:60]), rows_of(X, Y, root))[0]
    _, vectors = np.linalg.eigh(exact.gram)
    U = vectors[:, -5:].astype(np.float32)
    apart = collect(Design(RBF(0.01), X[:60], "single", U), rows_of(X, Y, root))[0]
    plain = collect(Design(RBF(0.01), X[:60], "single"), rows_of(X, Y, root))[0]
    _assert_close(apart, exact, 1e-6)
    # What is left of the Gram matrix beside the leading directions is where float32 sums lose.
    rest = vectors[:, :-5]

    def lost(found):
        return np.abs(rest.T @ (found.gram - exact.gram) @ rest).max()

    assert lost(apart) < 0.05 * lost(plain)


@pytest.mark.parametrize("rows", [1, 7, 50, 301])
def test_block_size_does_not_matter(monkeypatch, rows):
    import sys

    module = sys.modules["onefold.rows.base"]
    tiles = sys.modules["onefold.basis.design"]
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((301, 3)), rng.standard_normal((301, 1))
    design, label = Design(RBF(0.3), X[:10]), rng.integers(0, 3, 301)
    whole = collect(design, rows_of(X, Y, None), Groups(label, [], 3))
    monkeypatch.setattr(module, "TASK_ROWS", rows)
    monkeypatch.setattr(tiles, "_TILE_BYTES", rows * 10 * 8)
    parts = collect(design, rows_of(X, Y, None), Groups(label, [], 3))
    for a, b in zip(parts, whole):
        _assert_close(a, b, 1e-13)


def test_rest_is_the_difference_and_a_slice_is_the_smaller_model(regression):
    X, Y = regression
    design = Design(RBF(0.2), X[:15])
    first, rest = collect(
        design, rows_of(X, Y, None), Groups((np.arange(len(X)) >= 40).astype(int), [], 2)
    )
    total = collect(design, rows_of(X, Y, None))[0]
    _assert_close(total.less([first]), rest, 1e-12)
    _assert_close(first + rest, total, 1e-12)
    keep = [0, 3, 7]
    small = collect(Design(RBF(0.2), X[keep]), rows_of(X, Y, None))[0]
    _assert_close(total.select(keep), small, 1e-12)


@given(m=st.integers(1, 40), rows=st.integers(0, 30), single=st.booleans(), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_rank_update_adds_the_gram_matrix(m, rows, single, seed):
    rng = np.random.default_rng(seed)
    dtype = np.float32 if single else np.float64
    tile = rng.standard_normal((rows, m)).astype(dtype)
    start = rng.standard_normal((m, m))
    total = (start + start.T).astype(dtype)
    expected = total.astype(float) + tile.astype(float).T @ tile.astype(float)
    add_gram(total, tile)
    np.testing.assert_allclose(mirror(total), expected, atol=1e-4 if single else 1e-12)


def test_rank_update_without_the_blas_table(monkeypatch):
    from onefold.linalg import dense as rank_update

    monkeypatch.setattr(rank_update, "_routine", lambda name: None)
    tile, total = np.random.default_rng(0).standard_normal((9, 5)), np.zeros((5, 5))
    rank_update.add_gram(total, tile)
    np.testing.assert_allclose(mirror(total), tile.T @ tile, atol=1e-13)


@given(data=st.data(), n=st.integers(2, 40), sets=st.integers(1, 5))
@settings(max_examples=50, deadline=None)
def test_every_set_is_a_union_of_groups(data, n, sets):
    chosen = [
        np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1)))) for _ in range(sets)
    ]
    groups = group_rows(n, chosen)
    assert groups.label.shape == (n,)
    for rows, members in zip(chosen, groups.members):
        np.testing.assert_array_equal(np.flatnonzero(np.isin(groups.label, members)), rows)
    signatures = {tuple(i in set(rows) for rows in chosen) for i in range(n)}
    assert len(np.unique(groups.label)) == len(signatures)


def test_squared_error_from_statistics(regression):
    X, Y = regression
    design = Design(RBF(0.2), X[:12])
    T = Whitening.of(design.inner()).T
    total = collect(design, rows_of(X, Y, None))[0].rotated(T)
    theta, b = RidgePath(total, fit_intercept=True).coefficients([0.1, 10.0])
    Psi = RBF(0.2)(X, X[:12]) @ T
    literal = ((Y[None] - Psi @ theta.transpose(1, 0, 2) - b[:, None, :]) ** 2).sum(axis=1)
    np.testing.assert_allclose(squared_error(total, theta, b), literal, rtol=1e-9)


def test_whitening_cuts_what_duplicates_leave_and_keeps_the_first_k(regression):
    X, _ = regression
    rows = np.vstack([X[:10], X[:5]])
    W = Design(RBF(0.2), rows).inner()
    full = Whitening.of(W)
    assert full.report["rank"] == 10
    assert full.report["cut_directions"] == 5
    np.testing.assert_allclose(full.T.T @ W @ full.T, np.eye(10), atol=1e-9)
    assert Whitening.of(W, 4).T.shape == (15, 4)


@pytest.mark.parametrize("way", [Whitening.of, Whitening.pivoted])
@pytest.mark.parametrize(
    "W",
    [
        [[1.0, 0.0], [0.0, -0.5]],
        [[1.0, 2.0], [2.0, 1.0]],
        [[0.0, 1.0], [1.0, 1.0]],
        [[1.0, 0.0], [0.0, -1e-3]],
    ],
    ids=["diagonal", "large off the diagonal", "zero on it", "slightly"],
)
def test_indefinite_landmark_kernel_is_refused(way, W):
    with pytest.raises(ValueError, match="not positive semi-definite"):
        way(np.asarray(W))


def test_pivots_need_no_second_decomposition(regression, monkeypatch):
    """What the Cholesky factor leaves of W shows that it is semi-definite."""
    X, _ = regression
    monkeypatch.setattr(np.linalg, "eigvalsh", pytest.fail)
    for rows in (X[:10], np.vstack([X[:10], X[:5]])):
        W = Design(RBF(0.2), rows).inner()
        found = Whitening.pivoted(W)
        assert found.report["rank"] == 10
        np.testing.assert_allclose(found.T.T @ W @ found.T, np.eye(10), atol=1e-12)
    assert Whitening.pivoted(np.zeros((3, 3))).T.shape == (3, 0)
