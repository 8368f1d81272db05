"""Statistics of row blocks: against dense products, for every block size, and they add."""

import numpy as np
import pytest
from basis_twins import rbf

from onefold.basis import Design, Statistics, Whitening, collect
from onefold.kernels import RBF, CallableKernel
from onefold.linalg import dense
from onefold.rows import Groups, rows_of


def _dense(Phi, Y, v):
    return Statistics(
        Phi.T @ (v[:, None] * Phi), Phi.T @ (v[:, None] * Y), Phi.T @ v, float(v.sum()),
        v @ Y, v @ Y**2, len(Y),
    )  # fmt: skip


def _assert_close(left, right, rtol):
    for name in ("gram", "cross", "border", "weight", "target_sum", "target_square"):
        a = np.asarray(getattr(left, name))
        b = np.asarray(getattr(right, name))
        np.testing.assert_allclose(a, b, atol=rtol * max(1.0, np.abs(b).max()), err_msg=name)
    assert left.count == right.count


@pytest.mark.parametrize("block", [None, 1, 50])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("precision", ["single", "mixed", "double"])
def test_one_pass_matches_dense_products_group_by_group(monkeypatch, dtype, weighted, precision, block):
    if block:
        monkeypatch.setattr("onefold.rows.base.TASK_ROWS", block)
        monkeypatch.setattr("onefold.basis.statistics._TILE_BYTES", block * 10 * 8)
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


def test_leading_directions_summed_apart_lose_nothing():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 3)).astype(np.float32)
    Y = rng.standard_normal((3000, 2))
    rows = rows_of(X, Y, np.sqrt(rng.uniform(0.2, 3, 3000)))
    exact = collect(Design(RBF(0.01), X[:60]), rows)[0]
    _, vectors = np.linalg.eigh(exact.gram)
    apart = collect(Design(RBF(0.01), X[:60], "single", vectors[:, -5:].astype(np.float32)), rows)[0]
    plain = collect(Design(RBF(0.01), X[:60], "single"), rows)[0]
    _assert_close(apart, exact, 1e-6)
    rest = vectors[:, :-5]  # where float32 sums lose

    def lost(found):
        return np.abs(rest.T @ (found.gram - exact.gram) @ rest).max()

    assert lost(apart) < 0.05 * lost(plain)


def test_rank_update_without_the_blas_table(monkeypatch):
    monkeypatch.setattr(dense, "_routine", lambda *_: None)
    tile = np.random.default_rng(0).standard_normal((9, 5))
    total = np.zeros((5, 5))
    dense.add_gram(total, tile)
    np.testing.assert_allclose(dense.mirror(total), tile.T @ tile, atol=1e-13)


def test_whitening_cuts_what_duplicates_leave(regression):
    W = Design(RBF(0.2), np.vstack([regression[0][:10], regression[0][:5]])).inner()
    for full in (Whitening.of(W), Whitening.pivoted(W)):
        np.testing.assert_allclose(full.T.T @ W @ full.T, np.eye(10), atol=1e-9)
    below = Whitening.of(W, 12).report
    assert (below["rank"], below["rank_asked"]) == (10, 12)
    assert Whitening.pivoted(np.zeros((3, 3))).T.shape == (3, 0)


@pytest.mark.parametrize("way", [Whitening.of, Whitening.pivoted])
@pytest.mark.parametrize(("a", "b", "c"), [(1, 0, -0.5), (1, 2, 1), (0, 1, 1), (1, 0, -1e-3)])
def test_indefinite_landmark_kernel_is_refused(way, a, b, c):
    with pytest.raises(ValueError, match="not positive semi-definite"):
        way(np.array([[a, b], [b, c]], dtype=float))


RNG = np.random.default_rng(0)
X = RNG.standard_normal((600, 5))
Y = np.column_stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2] ** 2]) + 3.0


@pytest.mark.parametrize("precision", ["single", "double"])
def test_silent_rows_change_nothing(precision):
    rows = X.astype(np.float32)
    m = 30
    root = np.sqrt(RNG.uniform(0.2, 3, 600))
    got = collect(Design(RBF(40.0), rows[:m], precision), rows_of(rows, Y, root))[0]
    Phi = rbf(rows.astype(float), rows[:m].astype(float), 40.0)
    assert np.mean(Phi.max(axis=1) < 2.0**-30) > 0.5  # most rows are silent
    tolerance = 1e-6 if precision == "single" else 1e-14
    Phi = root[:, None] * Phi
    np.testing.assert_allclose(got.gram, Phi.T @ Phi, atol=tolerance)
    np.testing.assert_allclose(got.cross, Phi.T @ (root[:, None] * Y), atol=10 * tolerance)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("whitened", [False, True])
def test_silence_is_relative_to_the_kernel_and_not_a_matter_of_weight(scale, whitened):
    """A kernel of small values, or rows of small weight, are as loud as any."""
    root = np.where(np.arange(600) % 2, 1.0, 1e-8)
    kernel = CallableKernel(lambda A, B: scale * rbf(A, B, 0.1))
    mix = np.eye(20) if whitened else None
    got = collect(Design(kernel, X[:20], mix=mix), rows_of(X, Y, root))[0]
    Phi = scale * rbf(X, X[:20], 0.1)
    np.testing.assert_allclose(got.gram, Phi.T @ (root[:, None] ** 2 * Phi), rtol=1e-12)
    light = collect(Design(kernel, X[:20], mix=mix), rows_of(X[::2], Y[::2], root[::2]))[0]
    np.testing.assert_allclose(light.gram, 1e-16 * Phi[::2].T @ Phi[::2], rtol=1e-12)


def test_a_row_of_large_negative_features_is_not_unseen():
    rows = np.vstack([np.ones((1, 3)), -np.ones((40, 3))])

    class Inner(RBF):
        stationary = False

        def bind(self, landmarks):
            return lambda rows, out=None: np.matmul(rows, landmarks.T, out=out)

    got = collect(Design(Inner(1.0), rows[:1]), rows_of(rows, np.ones((41, 1)), None))[0]
    np.testing.assert_allclose(got.gram, [[9.0 * 41]])
