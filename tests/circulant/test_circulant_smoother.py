"""The circulant smoother against its dense twin and against literal refits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from onefold.approximations.circulant import first_row
from onefold.kernels import RBF, Laplacian, Matern
from onefold.linalg import is_numpy
from onefold.smoothers import CirculantSmoother, CirculantSpectrum, circulant
from onefold.smoothers.base import Reordered
from tests.smoothers.dense_twin import check, circulant_matrix, circulant_row, solve

SHAPES = [(7,), (8,), (3, 4), (5, 5), (4, 6), (1, 6), (6, 1), (2, 3, 4), (3, 1, 5), (2, 2, 2, 3)]
KERNELS = [RBF(0.3), Matern(0.2, nu=2.5), Laplacian(0.4), RBF(0.5) + Matern(0.3) * Laplacian(0.2)]
SMOOTH = RBF(0.9)
ALPHAS = [0.05, 0.5, 3.0]
NP = np.empty(0)


def spacing_of(shape):
    return tuple(0.9 + 0.4 * s for s in range(len(shape)))


def make(shape, n=None, *, intercept=True, order=None, targets=2, reference=NP):
    """A smoother of the first n cells, and its matrix, targets and border."""
    n = math.prod(shape) if n is None else n
    row = first_row(SMOOTH, shape, spacing_of(shape), reference)
    assert is_numpy(row) == is_numpy(reference)
    smoother = CirculantSmoother(CirculantSpectrum.of(row, "raise"), n, fit_intercept=intercept)
    U = circulant_matrix(circulant_row(SMOOTH, shape, spacing_of(shape)))[:n, :n]
    if order is not None:
        smoother = Reordered(smoother, order)
        U = U[np.ix_(smoother.place, smoother.place)]
    Y = np.random.default_rng(n).standard_normal((n, targets)) + 1.5
    return smoother, U, Y, np.ones(n) if intercept else None


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
def test_first_row_and_eigenvalues_follow_the_definition(shape, kernel) -> None:
    expected = circulant_row(kernel, shape, spacing_of(shape))
    row = first_row(kernel, shape, spacing_of(shape), NP)
    assert_allclose(row, expected, rtol=1e-12, atol=1e-14)
    eigenvalues = np.linalg.eigvalsh(circulant_matrix(expected))
    spectrum = CirculantSpectrum.of(row, "raise")
    full = np.fft.fftn(expected).real
    assert_allclose(np.sort(full.ravel()), eigenvalues, atol=1e-10)
    assert_allclose(spectrum.eigenvalues, full[..., : shape[-1] // 2 + 1], atol=1e-10)
    assert spectrum.smallest == pytest.approx(eigenvalues[0], abs=1e-10)
    for alpha in (1e-6, 0.05, 0.3):
        assert spectrum.count_nonpositive(alpha) == np.count_nonzero(eigenvalues + alpha <= 0)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_whole_matrix_and_every_level_of_its_leading_blocks(shape, intercept) -> None:
    """Folds l = n_0, n_0 n_1, …, n; the sign of the intercept's correction shows here."""
    smoother, U, Y, border = make(shape, intercept=intercept)
    folds = {math.prod(shape[:level]) for level in range(1, len(shape) + 1)} - {1}
    parts = [rows for fold in folds for rows in np.array_split(np.arange(len(U)), fold)]
    check(smoother, U, Y, border, ALPHAS, parts)
    assert smoother.solves["circulant_blocks"] > 0
    assert "dense_blocks" not in smoother.solves
    for dual, b, alpha in zip(*smoother.coefficients(Y, ALPHAS), ALPHAS):
        wanted, wanted_b = solve(U, Y, border, alpha, np.arange(len(U)))
        assert_allclose(dual, wanted, rtol=1e-8, atol=1e-8)
        assert_allclose(b, wanted_b, atol=1e-9)


@pytest.mark.parametrize("dense_limit", [1024, 0], ids=["dense", "iterative"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    ("shape", "n"), [((4, 6), 24), ((4, 6), 21), ((13,), 13), ((13,), 12), ((2, 3, 4), 22), ((5, 5), 23)]
)
def test_rows_in_any_order_in_a_larger_matrix(shape, n, intercept, dense_limit, monkeypatch) -> None:
    """The model of n rows is that of the leading n × n part; any set of rows may be left out."""
    monkeypatch.setattr(circulant, "_DENSE", dense_limit)
    order = np.random.default_rng(1).permutation(n)
    smoother, U, Y, border = make(shape, n, intercept=intercept, order=order, targets=3)
    Y[:, 1] = 0.0  # solved at once
    some = np.sort(np.random.default_rng(2).choice(n, 5, replace=False))
    parts = [some, np.arange(3, 11), np.arange(0, n, 2), np.array([n - 1]), order[2:9]]
    check(smoother, U, Y, border, ALPHAS, parts, atol=1e-7)
    if dense_limit == 0:
        assert smoother.inner.solves["iterative_solves"] > 0
        assert smoother.inner.solves["largest_residual"] <= 1e-10


def test_a_solve_that_stops_short_warns(monkeypatch) -> None:
    monkeypatch.setattr(circulant, "_DENSE", 0)
    monkeypatch.setattr(circulant, "_MAX_ITERATIONS", 2)
    smoother, _, Y, _ = make((4, 6), targets=3)
    Y[:, 1] = 0.0  # solved at once
    with pytest.warns(UserWarning, match="relative residual"):
        smoother.heldout(Y, [np.array([1, 5, 9, 14, 20])], [0.01])
    assert smoother.solves["largest_residual"] > 1e-10


@settings(max_examples=30, deadline=None)
@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple),
    empty=st.integers(0, 2),
    log_alpha=st.floats(-8, 5),
    gamma=st.floats(0.05, 20.0),
    intercept=st.booleans(),
)
def test_any_shape_with_negative_eigenvalues_set_to_zero(shape, empty, log_alpha, gamma, intercept):
    n, ones = math.prod(shape) - empty, (1.0,) * len(shape)
    if n < 3:
        return
    spectrum = CirculantSpectrum.of(first_row(RBF(gamma), shape, ones, NP), "clip")
    smoother = CirculantSmoother(spectrum, n, fit_intercept=intercept)
    values, vectors = np.linalg.eigh(circulant_matrix(circulant_row(RBF(gamma), shape, ones)))
    U = ((vectors * np.maximum(values, 0)) @ vectors.T)[:n, :n]
    Y = np.random.default_rng(n).standard_normal((n, 1)) + 10
    border = np.ones(n) if intercept else None
    check(smoother, U, Y, border, [2.0**log_alpha], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
@pytest.mark.parametrize("n", [24, 22])
def test_other_array_libraries_agree(library, n) -> None:
    xp = pytest.importorskip(library)
    order = np.random.default_rng(5).permutation(n)
    smoother, U, Y, border = make((4, 6), n, order=order, reference=xp.asarray(np.ones(2)))
    check(smoother, U, Y, border, ALPHAS, [np.arange(6), np.array([2, 9, 13])], build=xp.asarray)
