"""Conjugate gradients on the true kernel, against dense solutions."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from onefold import LSSVR, KernelRidge
from onefold.approximations import ConjugateGradients, cg, operators, preconditioners
from onefold.approximations.preconditioners import PreconditionerPlan
from onefold.kernels import RBF, Laplacian, Polynomial, PowerExponential
from onefold.linalg import to_numpy

SHARP = ConjugateGradients(n_components=60, tolerance=1e-10, max_iterations=2000)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("estimator", [LSSVR, KernelRidge])
@pytest.mark.parametrize("kernel", [RBF(0.3), Laplacian(0.2), Polynomial(0.1, degree=2)])
def test_fit_is_the_dense_one(regression, monkeypatch, estimator, kernel, weighted, keep):
    """From float64 tiles, of which there are several: kept, or made anew for every product."""
    X, Y = regression
    monkeypatch.setattr(cg, "_SINGLE_NOISE", np.inf)
    monkeypatch.setattr(operators, "_SIDE", 50)
    monkeypatch.setattr("onefold.linalg.free_memory_of", lambda _: 2**40 if keep else None)
    weight = np.random.default_rng(0).uniform(0.3, 3, len(X)) if weighted else None
    settings = {"kernel": kernel, "alpha": [0.01, 1.0]}
    dense = estimator(**settings).fit(X, Y, weight)
    other = estimator(**settings, approximation=SHARP).fit(X, Y, weight)
    np.testing.assert_allclose(other.expansion_.coef, dense.expansion_.coef, atol=1e-6)
    np.testing.assert_allclose(other.predict(X), dense.predict(X), atol=1e-8)
    assert all(s["residual"] <= 1e-10 for s in other.approximation_["solves"])
    assert ("kept" in other.approximation_["tiles"]) == keep


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("blocks", [1, 4])
@pytest.mark.parametrize("kernel", [RBF(0.3), PowerExponential(0.3), Laplacian(0.2)])
def test_any_preconditioner_in_any_library_leads_to_the_dense_fit(
    regression, monkeypatch, kernel, blocks, library, weighted
):
    """Tiles, strips and panels of few rows; targets with ridges of their own, far and near."""
    xp = pytest.importorskip(library)
    X, Y = regression
    Y = np.column_stack([Y, Y[:, 0] ** 2])
    monkeypatch.setattr(operators, "_SIDE", 50)
    monkeypatch.setattr(preconditioners, "_STRIP", 16)
    monkeypatch.setattr(preconditioners, "device_rows", lambda m: 64)
    monkeypatch.setattr("onefold.linalg.dense._PANEL", 50)
    monkeypatch.setattr("onefold.linalg.dense._LARGE", 0)
    sharp = SHARP if blocks == 1 else replace(SHARP, n_components=40, block_rows=-(-len(X) // blocks))
    sharp = replace(sharp, n_components=None) if blocks == 1 else sharp
    weight = np.random.default_rng(0).uniform(0.3, 3, len(X)) if weighted else None
    settings = {"kernel": kernel, "alpha": [0.01, 1.0, 0.02]}
    dense = LSSVR(**settings).fit(X, Y, weight)
    other = LSSVR(**settings, approximation=sharp).fit(xp.asarray(X), xp.asarray(Y), weight)
    np.testing.assert_allclose(to_numpy(other.expansion_.coef), dense.expansion_.coef, atol=1e-6)
    np.testing.assert_allclose(to_numpy(other.predict(X)), dense.predict(X), atol=1e-8)
    report = other.approximation_
    assert report["preconditioner"]["blocks"] == blocks
    assert report["preconditioner"]["method"] == ("factor" if blocks == 1 else "landmarks and blocks")
    assert [solve["alpha"] for solve in report["solves"]] == pytest.approx([0.01, 0.02, 1.0])
    if blocks == 1:  # a factor of the matrix itself: float32 products give some digits each
        assert all(solve["iterations"] < 12 for solve in report["solves"])


@pytest.mark.parametrize(
    ("kernel", "alpha", "jitter"),
    [(RBF(0.05), 1e-9, True), (PowerExponential(0.3), 1e-9, False), (Laplacian(0.2), 1e-9, False)],
)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_tiny_ridges_converge_with_a_float32_factor_or_say_so(
    regression, monkeypatch, kernel, alpha, jitter, library
):
    """Of a smooth kernel float32 leaves no factor without a little more on the diagonal."""
    xp = pytest.importorskip(library)
    X, Y = (xp.asarray(array) for array in regression)
    monkeypatch.setattr(cg, "plan_preconditioner", lambda *_, **__: PreconditionerPlan(1, 0, True))
    machine = LSSVR(kernel, alpha=alpha, approximation=ConjugateGradients(max_iterations=40))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = machine.fit(X, Y).approximation_
    (solve,) = report["solves"]
    assert (report["preconditioner"]["jitter"] > 0) == jitter
    assert solve["converged"] == (not caught)
    assert solve["converged"] or jitter
    assert solve["residual"] <= (1.0 if jitter else 1e-5)
    assert not caught or "a larger alpha" in str(caught[0].message)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_matrix_that_has_no_factor_at_all_is_refused(library):
    """Its diagonal is positive, and its largest eigenvalue is that of −1."""
    xp = pytest.importorskip(library)

    def odd(A, B):
        squares = ((A[:, None, :] - B[None, :, :]) ** 2).sum(2)
        return 3.0 * xp.exp(-30.0 * squares) - 1.0

    X = xp.asarray(ROWS)
    machine = LSSVR(odd, alpha=1e-3, approximation=ConjugateGradients())
    with pytest.raises(ValueError, match="not positive semi-definite; use a positive"):
        machine.fit(X, xp.asarray(TARGET))


def test_a_function_that_is_not_symmetric_is_refused():
    """Each tile serves for both sides of the diagonal: one half was taken for all."""
    machine = LSSVR(lambda A, B: np.exp(A[:, :1] - 0.5 * B[:, :1].T), approximation="cg")
    with pytest.raises(ValueError, match="the kernel matrix is not symmetric"):
        machine.fit(ROWS, TARGET)


@pytest.mark.parametrize("block_rows", [None, 20])
@pytest.mark.parametrize("offset", [1e3, 1e4])
def test_float32_tiles_that_are_indefinite_give_way_to_exact_ones(offset, block_rows):
    """A linear kernel far from 0 loses its digits in float32, and the iteration ended there."""
    X = offset + ROWS
    machine = LSSVR("linear", alpha=0.1, approximation=ConjugateGradients(5, block_rows=block_rows))
    fitted = machine.fit(X, TARGET)
    assert fitted.approximation_["solves"][0]["converged"]
    dense = LSSVR("linear", alpha=0.1).fit(X, TARGET)
    np.testing.assert_allclose(fitted.predict(X), dense.predict(X), atol=1e-4)


def _true_residual(fitted, X, Y, gamma, alpha, weight=None):
    """‖y − (K + μV⁻¹)α − b‖ / ‖y‖ in float64, y about its mean with an intercept; the largest."""
    coef = fitted.expansion_.coef
    intercept = fitted.expansion_.intercept
    ridge = np.asarray(alpha) * coef / (1.0 if weight is None else weight[:, None])
    residual = Y - RBF(gamma)(X.astype(float), X.astype(float)) @ coef - ridge - intercept
    about = 0.0 if isinstance(fitted, KernelRidge) else np.average(Y, axis=0, weights=weight)
    return (np.linalg.norm(residual, axis=0) / np.linalg.norm(Y - about, axis=0)).max()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("estimator", "dtype", "alpha"),
    [
        (LSSVR, np.float32, 2.0**-13),
        (LSSVR, np.float64, 1e-6),
        (KernelRidge, np.float32, 1e-6),
        (KernelRidge, np.float64, 2.0**-13),
    ],
)
def test_float32_tiles_do_not_hide_the_true_residual(estimator, dtype, alpha, weighted):
    """Nor do weights of very different size."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 3)).astype(dtype)
    Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2]) + 0.05 * rng.standard_normal((900, 2))
    weight = 10.0 ** rng.uniform(-6, 0, 900) if weighted else None
    alpha = np.array([1e-4, 1e-2]) if weighted else alpha
    settings = {"gamma": 0.05, "alpha": alpha}
    fitted = estimator(**settings, approximation=ConjugateGradients()).fit(X, Y, weight)
    report = fitted.approximation_["solves"]
    assert all(entry["converged"] and entry["residual"] <= 1e-5 for entry in report)
    if dtype is np.float64 and not weighted and alpha == 1e-6:
        assert fitted.approximation_["tiles"].startswith("float64")
    worst = max(entry["residual"] for entry in report)
    # Coefficients are up to 1/alpha times the targets: of these residuals rounding leaves 1e-8 unknown.
    true = _true_residual(fitted, X, Y, 0.05, alpha, weight)
    assert true == pytest.approx(worst, rel=0.05, abs=1e-8)
    if not weighted:
        dense = estimator(**settings).fit(X, Y)
        np.testing.assert_allclose(fitted.predict(X), dense.predict(X), atol=1e-4)


RNG = np.random.default_rng(1)
ROWS = RNG.standard_normal((80, 2))
TARGET = RNG.standard_normal(80)
BOTH = np.column_stack([np.zeros(80), TARGET])
FEW = ConjugateGradients(n_components=2, max_iterations=1, tolerance=1e-10)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    ("machine", "X", "Y", "words"),
    [
        # More than float64 can reach, and a kernel whose rounding exceeds the ridge.
        (LSSVR(gamma=100.0, alpha=1e-13), RNG.standard_normal((300, 1)), None, "above the tolerance"),
        (LSSVR("polynomial", gamma=0.5), 1e8 + ROWS[:20], TARGET[:20], "above the tolerance"),
        (KernelRidge(gamma=5.0, alpha=1e-3, approximation=FEW), ROWS, BOTH, "stopped after"),
        (LSSVR(gamma=5.0, alpha=1e-3, approximation=FEW), ROWS, BOTH, "more landmarks"),
    ],
)
def test_what_is_not_reached_warns_and_is_not_followed(machine, X, Y, words):
    """The worst of several targets decides."""
    Y = (X[:, 0] > 0).astype(float) if Y is None else Y
    approximation = machine.approximation if machine.approximation is FEW else ConjugateGradients()
    with pytest.warns(ConvergenceWarning, match=words) as caught:
        fitted = machine.set_params(approximation=approximation).fit(X, Y)
    assert caught[0].filename == __file__
    report = fitted.approximation_["solves"][0]
    assert not report["converged"]
    assert (approximation.tolerance or 1e-5) < report["residual"] <= 1.0
    largest = np.abs(Y).max()
    if machine.kernel != "polynomial":  # which is not solved for at all; the first one nearly is
        dense = clone(machine).set_params(approximation="exact").fit(X, Y)
        largest = max(largest, np.abs(dense.predict(X)).max())
    # At such a ridge rounding decides the third digit, of the dense fit too.
    assert np.abs(fitted.predict(X)).max() <= 1.01 * largest
    if Y is BOTH:
        np.testing.assert_allclose(fitted.predict(X)[:, 0], 0.0, atol=1e-15)


def test_rows_beyond_the_range_of_float32(regression):
    X = 1e60 * regression[0]
    Y = regression[1]
    settings = {"kernel": Laplacian(1e-60), "alpha": 0.1}
    fitted = LSSVR(**settings, approximation=SHARP).fit(X, Y)
    assert fitted.approximation_["solves"][0]["converged"]
    np.testing.assert_allclose(fitted.predict(X), LSSVR(**settings).fit(X, Y).predict(X), atol=1e-6)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_border_that_rounding_takes_away_is_no_division_by_zero():
    rng = np.random.default_rng(4)
    X = 1e4 * rng.normal(size=(40, 2))
    y = np.sin(X[:, 0] / 1e4) + 0.1 * rng.normal(size=40)
    machine = LSSVR("linear", alpha=1e-3, approximation=ConjugateGradients(tolerance=1e-9))
    with pytest.warns(ConvergenceWarning, match="above the tolerance"):
        machine.fit(X, y)
