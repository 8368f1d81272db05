"""The circulant smoother against its dense twin and against literal refits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq

from onefold.approximations.circulant import first_row
from onefold.kernels import RBF, Laplacian, Matern
from onefold.linalg import is_numpy, to_numpy
from onefold.smoothers import CirculantSmoother, CirculantSpectrum, circulant
from onefold.smoothers.base import Reordered, UnsolvableError
from tests.smoothers.dense_twin import (
    check,
    circulant_matrix,
    circulant_row,
    log_determinant,
    refit,
    residual_operator,
    solve,
)

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


def check_coefficients(smoother, U, Y, border, alphas):
    """Dual coefficients and intercepts, by dense solves."""
    for dual, b, alpha in zip(*smoother.coefficients(Y, alphas), alphas):
        wanted, wanted_b = solve(U, Y, border, alpha, np.arange(len(U)))
        assert_allclose(dual, wanted, rtol=1e-8, atol=1e-8)
        assert_allclose(b, wanted_b, atol=1e-9)


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
    check_coefficients(smoother, U, Y, border, ALPHAS)


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
    n = math.prod(shape) - empty
    ones = (1.0,) * len(shape)
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


# -- indefinite matrices, solved as they are -----------------------------------------------------------

NARROW = [0.2, 0.6, 0.1]  # spacings of up to three levels, at which the wrapped matrix is indefinite


def indefinite(shape, n=None, *, intercept=True, order=None, reference=NP):
    """A smoother that solves an indefinite system, its matrix, targets, border and two alphas.

    The alphas lie between negative eigenvalues of −U, so that U + μI has both signs, and not half-way,
    where blocks may be singular.
    """
    n = math.prod(shape) if n is None else n
    row = first_row(SMOOTH, shape, tuple(NARROW[: len(shape)]), reference)
    smoother = CirculantSmoother(CirculantSpectrum.of(row, "solve"), n, fit_intercept=intercept)
    U = circulant_matrix(circulant_row(SMOOTH, shape, NARROW[: len(shape)]))
    values = np.unique(np.round(np.linalg.eigvalsh(U), 9))
    negative = values[values < -1e-3]
    assert negative.size >= 2
    alphas = [-float(0.7 * negative[0] + 0.3 * negative[1]), -0.3 * float(negative[-1])]
    assert all((np.linalg.eigvalsh(U + alpha * np.eye(len(U))) < 0).any() for alpha in alphas)
    U = U[:n, :n]
    if order is not None:
        smoother = Reordered(smoother, order)
        U = U[np.ix_(smoother.place, smoother.place)]
    Y = np.random.default_rng(n).standard_normal((n, 2)) + 1.5
    return smoother, U, Y, np.ones(n) if intercept else None, alphas


def check_indefinite(smoother, U, Y, border, alphas, parts, *, atol=1e-7, build=np.asarray):
    """Everything that a smoother answers, by dense solves; the determinant where there is one."""
    n = len(U)
    there = build(Y)
    residuals, loo = (to_numpy(of(there, alphas)) for of in (smoother.residuals, smoother.leave_one_out))
    trace, logdet, definite = (of(alphas) for of in (smoother.trace, smoother.logdet, smoother.definite))
    heldout = smoother.heldout(there, parts, alphas)
    for i, alpha in enumerate(alphas):
        R = residual_operator(U, border, alpha)
        assert_allclose(residuals[i], R @ Y, atol=atol)
        assert_allclose(trace[i], np.trace(R), atol=atol)
        for row in range(0, n, max(1, n // 10)):
            assert_allclose(loo[i, [row]], refit(U, Y, border, alpha, [row]), rtol=1e-6, atol=atol)
        for rows, predicted in zip(parts, heldout):
            literal = refit(U, Y, border, alpha, rows)
            assert_allclose(to_numpy(predicted)[i], literal, rtol=1e-6, atol=atol)
        assert definite[i] == bool(np.linalg.eigvalsh(U + alpha * np.eye(n))[0] > 0)
        wanted = log_determinant(U, border, alpha) if definite[i] else np.nan
        assert_allclose(logdet[i], wanted, atol=atol)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", [(13,), (4, 6), (5, 5), (2, 3, 4)], ids=str)
def test_an_indefinite_matrix_and_its_blocks_are_those_of_a_dense_solve(shape, intercept) -> None:
    smoother, U, Y, border, alphas = indefinite(shape, intercept=intercept)
    folds = {math.prod(shape[:level]) for level in range(1, len(shape) + 1)}
    parts = [rows for fold in folds for rows in np.array_split(np.arange(len(U)), fold)]
    check_indefinite(smoother, U, Y, border, alphas, parts)
    assert set(smoother.solves) == {"circulant_blocks"}
    check_coefficients(smoother, U, Y, border, alphas)


@pytest.mark.parametrize("dense_limit", [1024, 0], ids=["dense", "iterative"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("shape", "n"), [((4, 6), 24), ((4, 6), 21), ((13,), 11), ((5, 5), 20)])
def test_an_indefinite_matrix_of_rows_in_any_order(shape, n, intercept, dense_limit, monkeypatch):
    """Empty cells, scattered rows and long runs; blocks by LU factors and by MINRES."""
    monkeypatch.setattr(circulant, "_DENSE", dense_limit)
    order = np.random.default_rng(1).permutation(n)
    smoother, U, Y, border, alphas = indefinite(shape, n, intercept=intercept, order=order)
    Y[:, 1] = 0.0  # solved at once
    parts = [np.array([1, 4, 8]), np.arange(3, 9), np.arange(0, n, 2), order[2:9]]
    check_indefinite(smoother, U, Y, border, alphas, parts)
    kind = "iterative_solves" if dense_limit == 0 else "dense_blocks"
    assert smoother.inner.solves[kind] > 0
    for dual, b, alpha in zip(*smoother.inner.coefficients(Y[order], alphas), alphas):
        wanted, wanted_b = solve(U, Y, border, alpha, np.arange(n))
        assert_allclose(dual, wanted[order], rtol=1e-6, atol=1e-7)
        assert_allclose(b, wanted_b, atol=1e-7)


def test_a_principal_part_of_an_indefinite_matrix_may_be_definite() -> None:
    """Then the rows have a likelihood, whatever the empty cells would make of the whole matrix."""
    smoother, U, _, border, _ = indefinite((4, 6), 15)
    whole = circulant_matrix(circulant_row(SMOOTH, (4, 6), NARROW[:2]))
    between = (np.linalg.eigvalsh(whole)[0] + np.linalg.eigvalsh(U)[0]) / 2
    assert smoother.spectrum.count_nonpositive(-between) > 0
    assert smoother.definite([-between]).all()
    assert_allclose(smoother.logdet([-between]), log_determinant(U, border, -between), atol=1e-8)


def test_a_positive_definite_system_is_the_same_whether_others_would_be_solved() -> None:
    row = first_row(SMOOTH, (4, 6), (0.2, 0.6), NP)
    spectra = [CirculantSpectrum.of(row, policy) for policy in ("raise", "solve")]
    above = -2 * spectra[0].smallest
    Y = np.random.default_rng(0).standard_normal((22, 2))
    first, second = (CirculantSmoother(one, 22, fit_intercept=True) for one in spectra)
    for of in ("residuals", "leave_one_out"):
        assert_array_equal(getattr(first, of)(Y, [above]), getattr(second, of)(Y, [above]))
    with pytest.raises(UnsolvableError, match='negative="solve"'):
        first.residuals(Y, [above / 4])
    assert np.isfinite(second.residuals(Y, [above / 4])).all()


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_a_system_that_is_singular_to_rounding_is_refused_at_any_scale(scale) -> None:
    """An eigenvalue λ + μ of 0; a mean of the filter of 0, which makes every fold singular."""
    spectrum = CirculantSpectrum.of(scale * first_row(SMOOTH, (24,), (0.2,), NP), "solve")
    smoother = CirculantSmoother(spectrum, 24, fit_intercept=False)
    Y = np.random.default_rng(0).standard_normal((24, 1))
    with pytest.raises(UnsolvableError, match="0 to rounding"):
        smoother.residuals(Y, [-spectrum.smallest])
    values = np.sort(np.fft.fft(scale * first_row(SMOOTH, (24,), (0.2,), NP)).real)
    negative = values[values < 0]
    widest = int(np.argmax(np.diff(negative)))
    low = -negative[widest + 1]
    high = -negative[widest]
    margin = 1e-9 * (high - low)
    # Between two poles the mean of 1/(λ + μ) changes its sign.
    alpha = brentq(
        lambda mu: np.mean(scale / (values + mu)), low + margin, high - margin, xtol=1e-16 * scale
    )
    for unsolved in (smoother.leave_one_out, lambda Y, a: smoother.heldout(Y, [np.array([3])], a)):
        with pytest.raises(UnsolvableError, match="singular for some"):
            unsolved(Y, [alpha])
    assert np.isfinite(smoother.residuals(Y, [alpha])).all()


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
@pytest.mark.parametrize("dense_limit", [1024, 0], ids=["dense", "iterative"])
def test_other_array_libraries_solve_indefinite_systems(library, dense_limit, monkeypatch) -> None:
    monkeypatch.setattr(circulant, "_DENSE", dense_limit)
    xp = pytest.importorskip(library)
    order = np.random.default_rng(5).permutation(22)
    found = indefinite((4, 6), 22, order=order, reference=xp.asarray(np.ones(2)))
    check_indefinite(*found, [np.arange(6), np.array([2, 9, 13])], build=xp.asarray)


def test_large_blocks_of_an_indefinite_matrix_converge() -> None:
    """Above the size of dense blocks: 1200 of 2400 cells, in long runs and scattered."""
    shape = (40, 60)
    spacing = (0.1, 0.01)
    alpha = 1.0
    spectrum = CirculantSpectrum.of(first_row(RBF(1.0), shape, spacing, NP), "solve")
    assert spectrum.count_nonpositive(alpha) > 50
    smoother = CirculantSmoother(spectrum, 2400, fit_intercept=True)
    u = np.fft.irfftn(spectrum.eigenvalues, s=shape, axes=(0, 1))
    U = circulant_matrix(u)
    Y = np.random.default_rng(0).standard_normal((2400, 1))
    parts = [np.arange(300, 1500), np.sort(np.random.default_rng(1).permutation(2400)[:1200])]
    for rows, predicted in zip(parts, smoother.heldout(Y, parts, [alpha])):
        literal = refit(U, Y, np.ones(2400), alpha, rows)
        assert_allclose(predicted[0], literal, atol=1e-7 * np.abs(literal).max())
    assert smoother.solves["iterative_solves"] == 2
    assert smoother.solves["largest_residual"] <= 1e-10


def test_a_large_block_on_which_minres_stops_short_is_refused() -> None:
    """1200 scattered rows: a residual of 2 % would be predictions that are wrong by 30 % and more."""
    first = first_row(RBF(0.02), (40, 50), (0.4, 0.4), NP)
    smoother = CirculantSmoother(CirculantSpectrum.of(first, "solve"), 2000, fit_intercept=False)
    rng = np.random.default_rng(0)
    scattered = np.sort(rng.choice(2000, 1200, replace=False))
    with pytest.raises(UnsolvableError, match="1200 held-out rows stopped at a relative residual"):
        smoother.heldout(rng.standard_normal((2000, 1)), [scattered], [0.03])
