"""Conjugate gradients on the true kernel, against dense solutions."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from onefold import LSSVR, KernelRidge
from onefold.approximations import ConjugateGradients, cg
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
    monkeypatch.setattr(cg, "_SIDE", 50)
    monkeypatch.setattr("onefold.linalg.free_memory_of", lambda _: 2**40 if keep else None)
    weight = np.random.default_rng(0).uniform(0.3, 3, len(X)) if weighted else None
    settings = {"kernel": kernel, "alpha": [0.01, 1.0]}
    dense = estimator(**settings).fit(X, Y, weight)
    other = estimator(**settings, approximation=SHARP).fit(X, Y, weight)
    np.testing.assert_allclose(other.expansion_.coef, dense.expansion_.coef, atol=1e-6)
    np.testing.assert_allclose(other.predict(X), dense.predict(X), atol=1e-8)
    assert all(s["residual"] <= 1e-10 for s in other.approximation_["solves"])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("factor", [True, False])
@pytest.mark.parametrize("kernel", [RBF(0.3), PowerExponential(0.3), Laplacian(0.2)])
def test_either_preconditioner_in_any_library_leads_to_the_dense_fit(
    regression, monkeypatch, kernel, factor, library, weighted
):
    """Tiles, strips and panels of few rows; targets with ridges of their own, far and near."""
    xp = pytest.importorskip(library)
    X, Y = regression
    Y = np.column_stack([Y, Y[:, 0] ** 2])
    for name in ("cg._SIDE", "linalg.dense._PANEL", "linalg.dense._LARGE"):
        place = "onefold." + name.replace("cg.", "approximations.cg.")
        monkeypatch.setattr(place, 0 if name.endswith("_LARGE") else 50)
    monkeypatch.setattr(cg, "holds_factor", lambda n, free: factor)
    monkeypatch.setattr(cg, "device_rows", lambda m: 64)
    weight = np.random.default_rng(0).uniform(0.3, 3, len(X)) if weighted else None
    settings = {"kernel": kernel, "alpha": [0.01, 1.0, 0.02]}
    dense = LSSVR(**settings).fit(X, Y, weight)
    other = LSSVR(**settings, approximation=SHARP).fit(xp.asarray(X), xp.asarray(Y), weight)
    np.testing.assert_allclose(to_numpy(other.expansion_.coef), dense.expansion_.coef, atol=1e-6)
    np.testing.assert_allclose(to_numpy(other.predict(X)), dense.predict(X), atol=1e-8)
    report = other.approximation_
    method = report["preconditioner"]["method"]
    assert method == ("float32 factor" if factor else "rpcholesky")
    if factor:  # one for the neighbours 0.01 and 0.02, in which its own rounding hardly shows
        assert [solve["iterations"] < 12 for solve in report["solves"]][0::2] == [True, True]


@pytest.mark.parametrize(
    ("kernel", "alpha", "jitter"),
    [(RBF(0.05), 1e-9, True), (PowerExponential(0.3), 1e-9, False), (Laplacian(0.2), 1e-9, False)],
)
def test_tiny_ridges_converge_with_a_factor_or_say_so(regression, monkeypatch, kernel, alpha, jitter):
    """Of a smooth kernel float32 leaves no factor without a little more on the diagonal."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(cg, "holds_factor", lambda n, free: True)
    X, Y = (torch.asarray(array) for array in regression)
    machine = LSSVR(kernel, alpha=alpha, approximation=ConjugateGradients(max_iterations=40))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = machine.fit(X, Y).approximation_
    (solve,) = report["solves"]
    assert (report["preconditioner"]["jitter"] > 0) == jitter
    assert solve["converged"] == (not caught)
    assert solve["converged"] or jitter
    assert solve["residual"] <= (1.0 if jitter else 1e-5)
    assert not caught or "use a larger alpha" in str(caught[0].message)


def test_a_matrix_that_has_no_factor_at_all_has_landmarks(regression, monkeypatch):
    monkeypatch.setattr(cg, "holds_factor", lambda n, free: True)
    monkeypatch.setattr(cg, "_LARGEST_JITTER", 0.0)
    X, Y = (pytest.importorskip("torch").asarray(array) for array in regression)
    with pytest.warns(ConvergenceWarning, match="more landmarks"):
        found = LSSVR(RBF(0.05), alpha=1e-9, approximation=FEW).fit(X, Y)
    assert found.approximation_["preconditioner"]["method"] == "rpcholesky"


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
    assert _true_residual(fitted, X, Y, 0.05, alpha, weight) == pytest.approx(worst, rel=0.05)
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
    assert approximation.tolerance < report["residual"] <= 1.0
    assert np.abs(fitted.predict(X)).max() <= 1.001 * np.abs(Y).max()
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
