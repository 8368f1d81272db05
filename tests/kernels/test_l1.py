"""Tiles of the sum of absolute differences and sums of signs, by every route, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from onefold.kernels import Laplacian
from onefold.kernels.tiles import gradient_product, gram, kernel_product
from onefold.linalg import distances as l1
from onefold.linalg import to_numpy
from onefold.linalg.distances import l1_exponentials, signed_sums
from onefold.machine.threads import use_threads

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
SHAPES = [(1, 1, 1), (7, 5, 3), (40, 33, 4), (64, 600, 9), (130, 1000, 20)]


@pytest.fixture(params=["scipy", "numba"])
def loops(request, monkeypatch):
    """The route of NumPy arrays: every tile compiled, or none."""
    if request.param == "numba":
        pytest.importorskip("numba")
        monkeypatch.setattr(l1, "_WORTH_COMPILING", 0)
        assert l1._numba() is not None
    else:
        monkeypatch.setattr(l1, "_numba", lambda: None)
    return request.param


def points(n, m, d, dtype, seed=0):
    """Rows and landmarks, some of them equal, some with equal coordinates."""
    rng = np.random.default_rng(seed)
    left = rng.standard_normal((n, d))
    right = rng.standard_normal((m, d))
    left = left.astype(dtype)
    right = right.astype(dtype)
    shared = min(n, m) // 2
    right[:shared] = left[:shared]
    right[-1, 0] = left[-1, 0]
    return left, right


def brute(left, right):
    wide = left.astype(np.longdouble)[:, None] - right.astype(np.longdouble)[None]
    return np.exp(-np.abs(wide).sum(-1)).astype(np.float64)


def assert_tile(got, left, right):
    """Within the rounding of a sum of d terms and of the exponential of it."""
    d = left.shape[1]
    eps = np.finfo(left.dtype).eps
    expected = brute(left, right)
    exponent = -np.log(expected)
    assert got.dtype == left.dtype
    assert np.all(np.abs(got - expected) <= expected * eps * ((d + 2) * exponent + 4))


@DTYPES
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tiles_of_numpy(loops, shape, dtype) -> None:
    left, right = points(*shape, dtype)
    tile = l1_exponentials(right)
    out = np.empty((shape[0], shape[1] + 1), dtype)
    for rows, place in ((left, None), (np.asfortranarray(left), None), (left, out[:, :-1])):
        assert_tile(tile(rows, place), left, right)
    assert tile(left, place) is place


@DTYPES
def test_equal_rows_have_no_distance_and_tiles_are_symmetric(loops, dtype) -> None:
    rows, _ = points(300, 2, 11, dtype)
    tile = Laplacian(0.3)(rows, rows)
    assert np.all(np.diagonal(tile) == 1)
    assert np.array_equal(tile, tile.T)
    assert np.array_equal(tile[:, ::-1], Laplacian(0.3)(rows, rows[::-1]))


@DTYPES
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_signed_sums_of_numpy(loops, shape, targets, dtype) -> None:
    rows, landmarks = points(*shape, dtype)
    rng = np.random.default_rng(1)
    tile = rng.uniform(size=shape[:2]).astype(dtype)
    coef = rng.standard_normal((shape[1], targets)).astype(dtype)
    terms = tile.astype(np.float64)[:, :, None] * coef
    signs = np.sign(rows.astype(np.float64)[:, None] - landmarks[None])
    got = signed_sums(rows, landmarks, tile, coef)
    assert got.dtype == dtype
    rounding = shape[1] * np.finfo(dtype).eps * np.abs(terms).sum(1).max()
    assert_allclose(got, np.einsum("ijt,ijf->ift", terms, signs), rtol=0, atol=rounding)


def test_compiled_distances_have_the_digits_of_scipys(monkeypatch) -> None:
    pytest.importorskip("numba")
    left, right = points(80, 700, 13, np.float64)
    monkeypatch.setattr(l1, "_WORTH_COMPILING", 0)
    compiled = l1_exponentials(right)(left, None)
    monkeypatch.setattr(l1, "_numba", lambda: None)
    assert np.array_equal(compiled, l1_exponentials(right)(left, None))


def test_any_number_of_threads_gives_the_same_digits(loops) -> None:
    X, _ = points(1100, 2, 3, np.float64)
    kernel = Laplacian((0.3, 0.0, 1.2))
    coef = np.random.default_rng(2).standard_normal((1100, 1))
    found = []
    for threads in (1, 3):
        with use_threads(threads):
            products = [function(kernel, X, X, coef) for function in (kernel_product, gradient_product)]
            found.append([gram(kernel, X), *products])
    assert all(np.array_equal(one, other) for one, other in zip(*found))
    assert_allclose(found[0][0] @ coef, found[0][1], rtol=1e-10, atol=1e-10)


@DTYPES
def test_tiles_of_torch_on_cuda(dtype) -> None:
    """Values, symmetry and the diagonal; sizes beside the blocks of a kernel."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")

    def moved(values):
        return torch.asarray(values, device="cuda")

    for shape in [*SHAPES, (1, 257, 2), (257, 1, 2), (1025, 1000, 3)]:
        left, right = points(*shape, dtype)
        assert_tile(to_numpy(l1_exponentials(moved(right))(moved(left), None)), left, right)
    rows = moved(points(300, 2, 11, dtype)[0])
    tile = to_numpy(Laplacian(0.3)(rows, rows))
    assert np.all(np.diagonal(tile) == 1)
    assert np.array_equal(tile, tile.T)
