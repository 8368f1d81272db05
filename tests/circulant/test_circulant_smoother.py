"""The circulant smoother against its dense twin and against literal refits."""

import numpy as np
import pytest
from circulant_twin import (
    cells,
    dense_fit,
    dense_matrix,
    dense_residual_operator,
    dense_row,
    refit_without,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from onefold.approximations.circulant import first_row
from onefold.kernels import RBF, Laplacian, Matern
from onefold.linalg import is_numpy, to_numpy
from onefold.smoothers import CirculantSmoother, CirculantSpectrum, circulant
from onefold.smoothers.base import Reordered

SHAPES = [(7,), (8,), (3, 4), (5, 5), (4, 6), (1, 6), (6, 1), (2, 3, 4), (3, 1, 5), (2, 2, 2, 3)]
KERNELS = [RBF(0.3), Matern(0.2, nu=2.5), Laplacian(0.4), RBF(0.5) + Matern(0.3) * Laplacian(0.2)]
SMOOTH = RBF(0.9)
ALPHAS = [0.05, 0.5, 3.0]
NP = np.empty(0)


def spacing_of(shape):
    return tuple(0.9 + 0.4 * s for s in range(len(shape)))


def make(shape, n=None, *, intercept=True, order=None, kernel=SMOOTH, targets=2):
    row = first_row(kernel, shape, spacing_of(shape), NP)
    spectrum = CirculantSpectrum.of(row, "raise")
    n = cells(shape) if n is None else n
    smoother = CirculantSmoother(spectrum, n, fit_intercept=intercept)
    U = dense_matrix(dense_row(kernel, shape, spacing_of(shape)))[:n, :n]
    if order is not None:
        smoother = Reordered(smoother, order)
        U = U[np.ix_(smoother.place, smoother.place)]
    Y = np.random.default_rng(n).standard_normal((n, targets)) + 1.5
    return smoother, U, Y


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
def test_first_row_and_eigenvalues_follow_the_definition(shape, kernel) -> None:
    expected = dense_row(kernel, shape, spacing_of(shape))
    row = first_row(kernel, shape, spacing_of(shape), NP)
    assert_allclose(row, expected, rtol=1e-12, atol=1e-14)
    eigenvalues = np.linalg.eigvalsh(dense_matrix(expected))
    spectrum = CirculantSpectrum.of(row, "raise")
    full = np.fft.fftn(expected).real
    assert_allclose(np.sort(full.ravel()), eigenvalues, atol=1e-10)
    assert_allclose(spectrum.eigenvalues, full[..., : shape[-1] // 2 + 1], atol=1e-10)
    assert spectrum.smallest == pytest.approx(eigenvalues[0], abs=1e-10)
    for alpha in (1e-6, 0.05, 0.3):
        assert spectrum.count_nonpositive(alpha) == np.count_nonzero(eigenvalues + alpha <= 0)


def coefficients(smoother, Y):
    if not isinstance(smoother, Reordered):
        return smoother.coefficients(Y, ALPHAS)
    dual, b = smoother.inner.coefficients(Y[smoother.order], ALPHAS)
    return dual[:, smoother.place], b


def check_against_twin(smoother, U, Y, intercept) -> None:
    n = Y.shape[0]
    for a, alpha in enumerate(ALPHAS):
        R = dense_residual_operator(U, alpha, intercept)
        assert_allclose(smoother.residuals(Y, ALPHAS)[a], R @ Y, atol=1e-10)
        assert smoother.trace(ALPHAS)[a] == pytest.approx(np.trace(R), abs=1e-9)
        G = U + alpha * np.eye(n)
        logdet = np.linalg.slogdet(G)[1]
        if intercept:
            one = np.ones(n)
            logdet += np.log(one @ np.linalg.solve(G, one)) - np.log(n)
        assert smoother.logdet(ALPHAS)[a] == pytest.approx(logdet, abs=1e-8)
        dual, b = coefficients(smoother, Y)
        expected, expected_b = dense_fit(U, Y, alpha, intercept)
        assert_allclose(dual[a], expected, rtol=1e-8, atol=1e-8)
        assert_allclose(b[a], expected_b, atol=1e-9)
        loo = np.vstack([refit_without(U, Y, [i], alpha, intercept) for i in range(n)])
        assert_allclose(smoother.leave_one_out(Y, ALPHAS)[a], loo, atol=1e-8)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_level_of_leading_blocks_is_a_refit_without_the_block(shape, intercept) -> None:
    """Folds l = n_0, n_0 n_1, …, n; the sign of the intercept's correction shows here."""
    smoother, U, Y = make(shape, intercept=intercept)
    n = cells(shape)
    for level in range(1, len(shape) + 1):
        folds = cells(shape[:level])
        if folds == 1:
            continue
        parts = np.array_split(np.arange(n), folds)
        found = smoother.heldout(Y, parts, ALPHAS)
        for rows, values in zip(parts, found):
            for a, alpha in enumerate(ALPHAS):
                expected = refit_without(U, Y, rows, alpha, intercept)
                assert_allclose(values[a], expected, atol=1e-8)
    assert smoother.solves["circulant_blocks"] > 0
    assert "dense_blocks" not in smoother.solves


@pytest.mark.parametrize("dense_limit", [1024, 0], ids=["dense", "iterative"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("shape", "n"), [((4, 6), 24), ((4, 6), 21), ((13,), 13), ((2, 3, 4), 22)])
def test_any_set_of_rows_is_a_refit_without_it(shape, n, intercept, dense_limit, monkeypatch) -> None:
    monkeypatch.setattr(circulant, "_DENSE", dense_limit)
    order = np.random.default_rng(1).permutation(n)
    smoother, U, Y = make(shape, n, intercept=intercept, order=order, targets=3)
    Y[:, 1] = 0.0  # solved at once
    rng = np.random.default_rng(2)
    parts = [
        np.sort(rng.choice(n, 5, replace=False)),
        np.arange(3, 11),
        np.arange(0, n, 2),
        np.array([n - 1]),
        order[2:9],
    ]
    found = smoother.heldout(Y, parts, ALPHAS)
    for rows, values in zip(parts, found):
        for a, alpha in enumerate(ALPHAS):
            assert_allclose(values[a], refit_without(U, Y, rows, alpha, intercept), atol=1e-7)
    if dense_limit == 0:
        assert smoother.inner.solves["iterative_solves"] > 0
        assert smoother.inner.solves["largest_residual"] <= 1e-10


def test_a_solve_that_stops_short_warns(monkeypatch) -> None:
    monkeypatch.setattr(circulant, "_DENSE", 0)
    monkeypatch.setattr(circulant, "_MAX_ITERATIONS", 2)
    smoother, _, Y = make((4, 6), targets=3)
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
def test_properties_for_any_shape(shape, empty, log_alpha, gamma, intercept) -> None:
    n = cells(shape) - empty
    if n < 3:
        return
    kernel = RBF(gamma)
    alpha = 2.0**log_alpha
    row = first_row(kernel, shape, (1.0,) * len(shape), NP)
    spectrum = CirculantSpectrum.of(row, "clip")
    smoother = CirculantSmoother(spectrum, n, fit_intercept=intercept)
    values, vectors = np.linalg.eigh(dense_matrix(dense_row(kernel, shape, (1.0,) * len(shape))))
    U = ((vectors * np.maximum(values, 0)) @ vectors.T)[:n, :n]
    Y = np.random.default_rng(n).standard_normal((n, 1))
    loo = np.vstack([refit_without(U, Y, [i], alpha, intercept) for i in range(n)])
    assert_allclose(smoother.leave_one_out(Y, [alpha])[0], loo, rtol=1e-6, atol=1e-6)
    if intercept:  # a shift of the targets shifts every prediction
        shifted = smoother.leave_one_out(Y + 10, [alpha])[0]
        assert_allclose(shifted, loo + 10, rtol=1e-6, atol=1e-6)


def test_negative_eigenvalues_are_refused_or_clipped() -> None:
    row = first_row(RBF(1e-3), (4, 5), (1.0, 1.0), NP)
    indefinite = CirculantSpectrum.of(row, "raise")
    values = np.linalg.eigvalsh(dense_matrix(row))
    assert indefinite.negative == np.count_nonzero(values < 0) > 0
    smoother = CirculantSmoother(indefinite, 20, fit_intercept=True)
    with pytest.raises(ValueError, match=r"not positive.*negative=\"clip\""):
        smoother.residuals(np.ones((20, 1)), [0.1])
    enough = -indefinite.smallest * 1.01
    assert np.isfinite(smoother.residuals(np.ones((20, 1)), [enough])).all()
    assert indefinite.positive_with([0.1, enough]).tolist() == [False, True]
    clipped = CirculantSpectrum.of(row, "clip")
    assert clipped.clipped
    assert clipped.negative == indefinite.negative
    assert clipped.eigenvalues.min() == 0
    assert clipped.positive_with([1e-8]).all()


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
@pytest.mark.parametrize("n", [24, 22])
def test_other_array_libraries_agree(library, n) -> None:
    xp = pytest.importorskip(library)
    expected, _, Y = make((4, 6), n)
    order = np.random.default_rng(5).permutation(n)
    expected, _, Y = make((4, 6), n, order=order)
    foreign_Y = xp.asarray(Y)
    row = first_row(SMOOTH, (4, 6), spacing_of((4, 6)), foreign_Y)
    assert not is_numpy(row)
    inner = CirculantSmoother(CirculantSpectrum.of(row, "raise"), n, fit_intercept=True)
    smoother = Reordered(inner, order)
    parts = [np.arange(6), np.array([2, 9, 13])]
    assert_allclose(
        to_numpy(smoother.leave_one_out(foreign_Y, ALPHAS)),
        expected.leave_one_out(Y, ALPHAS),
        atol=1e-10,
    )
    assert_allclose(smoother.trace(ALPHAS), expected.trace(ALPHAS), atol=1e-10)
    assert_allclose(smoother.logdet(ALPHAS), expected.logdet(ALPHAS), atol=1e-10)
    pairs = zip(smoother.heldout(foreign_Y, parts, ALPHAS), expected.heldout(Y, parts, ALPHAS))
    for found, wanted in pairs:
        assert_allclose(to_numpy(found), wanted, atol=1e-10)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    ("shape", "n"),
    [*((shape, None) for shape in SHAPES), ((3, 4), 11), ((8,), 7), ((2, 3, 4), 19), ((5, 5), 23)],
)
def test_action_diagonal_trace_and_determinant(shape, n, intercept) -> None:
    """The model of n rows in a larger matrix is the model of its leading n × n part."""
    order = None if n is None else np.random.default_rng(0).permutation(n)
    smoother, U, Y = make(shape, n, intercept=intercept, order=order)
    check_against_twin(smoother, U, Y, intercept)
