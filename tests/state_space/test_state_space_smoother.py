"""The passes over a series, against the matrix in extended precision and against literal refits."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold, TimeSeriesSplit

from onefold.machine.threads import use_threads
from tests.smoothers.dense_twin import check, refit

pytest.importorskip("numba")

from onefold.smoothers.base import Reordered, UnsolvableError
from onefold.smoothers.state_space import Chain, StateSpaceSmoother

DIMENSIONS = pytest.mark.parametrize("dimension", [1, 2, 3], ids=["1/2", "3/2", "5/2"])
DRIFT = {
    1: np.array([[-1.0]]),
    2: np.array([[0.0, 1.0], [-1.0, -2.0]]),
    3: np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-1.0, -3.0, -3.0]]),
}
STATIONARY = {
    1: np.eye(1),
    2: np.eye(2),
    3: np.array([[1.0, 0.0, -1 / 3], [0.0, 1 / 3, 0.0], [-1 / 3, 0.0, 1.0]]),
}
STEPS = {
    "of every size": lambda rng, n: 10.0 ** rng.uniform(-6, 3, n),
    "tiny": lambda rng, n: 10.0 ** rng.uniform(-6, -5, n),
    "short": lambda rng, n: 10.0 ** rng.uniform(-3, -1, n),
    "usual": lambda rng, n: rng.exponential(0.4, n),
    "long": lambda rng, n: 10.0 ** rng.uniform(1, 3, n),
    "repeated": lambda rng, n: rng.exponential(0.4, n) * (rng.random(n) < 0.5),
    "with a gap": lambda rng, n: np.where(np.arange(n) == n // 2, 30.0, 0.05),
}
SPACINGS = pytest.mark.parametrize("spacing", STEPS)


def profile(s: Any, dimension: int, exp: Any = np.exp) -> Any:
    """k(s) of the smoothness that a state of so many derivatives has."""
    factor = {1: 1, 2: 1 + s, 3: 1 + s + s * s / 3}[dimension]
    return factor * exp(-s)


def example(spacing: str, n: int, targets: int = 2) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(len(spacing) + n)
    steps = STEPS[spacing](rng, n - 1)
    Y = rng.standard_normal((n, targets)) + np.sin(np.arange(n))[:, None]
    return steps, Y - Y.mean(axis=0), np.sqrt(10.0 ** rng.uniform(-2, 1, n))


def matrix(steps: Any, dimension: int) -> Any:
    points = np.concatenate([[0.0], np.cumsum(steps)])
    return profile(np.abs(points[:, None] - points), dimension)


# -- the chain -----------------------------------------------------------------------------------------


@DIMENSIONS
def test_transitions_are_exponentials_and_their_noise_keeps_the_state_stationary(dimension) -> None:
    steps = np.array([0.0, 1e-3, 0.1, 0.7, 1.9, 2.1, 8.0, 60.0, 1e3, 1e300])
    chain = Chain(steps, dimension)
    P = STATIONARY[dimension]
    for step, A, noise in zip(steps, chain.A, chain.noise):
        step = min(step, 700.0)
        assert_allclose(A, scipy.linalg.expm(DRIFT[dimension] * step), rtol=0, atol=1e-13)
        U = np.triu(noise, 1) + np.eye(dimension)
        Q = U @ np.diag(np.diag(noise)) @ U.T
        assert_allclose(Q, P - A @ P @ A.T, rtol=0, atol=1e-14)


@DIMENSIONS
@pytest.mark.parametrize("step", [1e-9, 1e-6, 1e-3, 0.3, 1.9, 2.1, 40.0])
def test_the_noise_of_short_steps_has_all_its_digits(dimension, step) -> None:
    noise = Chain(np.array([step]), dimension).noise[0]
    U = np.triu(noise, 1) + np.eye(dimension)
    found = U @ np.diag(np.diag(noise)) @ U.T
    with mp.workdps(80):
        A = mp.expm(mp.matrix(DRIFT[dimension].tolist()) * mp.mpf(step), method="taylor")
        P = mp.matrix(dimension, dimension)
        for i, j in np.ndindex(dimension, dimension):
            P[i, j] = mp.mpf(round(3 * STATIONARY[dimension][i, j])) / 3
        Q = P - A * P * A.T
        truth = np.array(Q.tolist(), dtype=float)
    size = np.sqrt(np.outer(np.diag(truth), np.diag(truth)))
    assert np.all(np.abs(found - truth) <= 1e-13 * size)


# -- the smoother, in extended precision ---------------------------------------------------------------


def literal(steps: Any, dimension: int, y: Any, weight: Any, mu: float) -> dict[str, Any]:
    """With an intercept: residuals, leave-one-out errors, diagonal of R and log-determinant."""
    n = len(y)
    with mp.workdps(60):
        points = [mp.mpf(0)]
        for step in steps:
            points.append(points[-1] + mp.mpf(float(step)))
        G = mp.matrix(n, n)
        for i, j in np.ndindex(n, n):
            G[i, j] = profile(abs(points[i] - points[j]), dimension, mp.exp)
        noise = [mp.mpf(mu) / mp.mpf(float(v)) for v in weight]
        for i in range(n):
            G[i, i] += noise[i]
        inverse = G**-1
        z = inverse * mp.matrix([mp.mpf(float(value)) for value in y])
        u = inverse * mp.ones(n, 1)
        total = sum(u)
        b = sum(z) / total
        dual = [z[i] - b * u[i] for i in range(n)]
        diagonal = [inverse[i, i] - u[i] ** 2 / total for i in range(n)]
        determinant = mp.log(mp.det(G)) + mp.log(total) - mp.log(n)
        return {
            "residuals": np.array([noise[i] * dual[i] for i in range(n)], dtype=float),
            "alone": np.array([dual[i] / diagonal[i] for i in range(n)], dtype=float),
            "trace": float(sum(noise[i] * diagonal[i] for i in range(n))),
            "logdet": float(determinant),
        }


@DIMENSIONS
@SPACINGS
@pytest.mark.parametrize("mu", [2.0**-21, 2.0**-9, 4.0])
def test_against_the_matrix_in_extended_precision(dimension, spacing, mu) -> None:
    steps, Y, _ = example(spacing, 18, targets=1)
    truth = literal(steps, dimension, Y[:, 0], np.ones(18), mu)
    smoother = StateSpaceSmoother(steps, dimension, root=None, intercept=True)
    spread = float(Y.std())
    residuals = smoother.residuals(Y, [mu])[0, :, 0]
    assert_allclose(residuals, truth["residuals"], rtol=0, atol=1e-9 * spread)
    errors = (Y - smoother.leave_one_out(Y, [mu])[0])[:, 0]
    assert_allclose(errors, truth["alone"], rtol=1e-9, atol=1e-9 * spread)
    assert_allclose(smoother.trace([mu]), truth["trace"], rtol=1e-9)
    assert_allclose(smoother.logdet([mu]), truth["logdet"], rtol=1e-9)


@DIMENSIONS
def test_weights_of_very_different_size_in_extended_precision(dimension) -> None:
    steps, Y, root = example("repeated", 18, targets=1)
    root = root ** np.linspace(1, 4, 18)
    truth = literal(steps, dimension, Y[:, 0], root**2, 1e-3)
    smoother = StateSpaceSmoother(steps, dimension, root=root, intercept=True)
    scaled = root[:, None] * Y
    residuals = smoother.residuals(scaled, [1e-3])[0, :, 0] / root
    assert_allclose(residuals, truth["residuals"], rtol=0, atol=1e-9)
    errors = (Y - smoother.leave_one_out(scaled, [1e-3])[0] / root[:, None])[:, 0]
    assert_allclose(errors, truth["alone"], rtol=1e-9, atol=1e-9)


# -- the smoother, against its dense twin and literal refits -------------------------------------------


@DIMENSIONS
@SPACINGS
@pytest.mark.parametrize("kind", ["none", "ones", "weights"])
def test_against_the_dense_twin_and_literal_refits(dimension, spacing, kind) -> None:
    n = 30
    steps, Y, weights = example(spacing, n)
    root = weights if kind == "weights" else None
    K = matrix(steps, dimension)
    if root is not None:
        K = root[:, None] * K * root
    border = {"none": None, "ones": np.ones(n), "weights": root}[kind]
    parts = [np.arange(7), np.array([0, 4, 5, 11, 28]), np.array([n - 1]), np.arange(1, n)]
    smoother = StateSpaceSmoother(steps, dimension, root=root, intercept=kind != "none")
    check(smoother, K, Y, border, [1e-3, 0.1, 30.0], parts)


@DIMENSIONS
@pytest.mark.parametrize(
    "splitter",
    [KFold(4), KFold(3, shuffle=True, random_state=0), TimeSeriesSplit(3), TimeSeriesSplit(2, gap=3)],
    ids=str,
)
def test_splitters_of_rows_in_any_order(dimension, splitter) -> None:
    n = 40
    steps, Y, _ = example("usual", n)
    order = np.random.default_rng(3).permutation(n)
    K = matrix(steps, dimension)
    place = np.argsort(order)
    K = K[np.ix_(place, place)]
    inner = StateSpaceSmoother(steps, dimension, root=None, intercept=True)
    smoother = Reordered(inner, order)
    parts = [np.setdiff1d(np.arange(n), train) for train, _ in splitter.split(Y)]
    for rows, found in zip(parts, smoother.heldout(Y, parts, [0.01, 1.0])):
        for values, alpha in zip(found, [0.01, 1.0]):
            assert_allclose(values, refit(K, Y, np.ones(n), alpha, rows), rtol=0, atol=1e-9)


@DIMENSIONS
def test_targets_of_rows_left_out_are_not_looked_at(dimension) -> None:
    steps, Y, _ = example("usual", 20)
    smoother = StateSpaceSmoother(steps, dimension, root=None, intercept=True)
    rows = np.array([2, 3, 9])
    changed = Y.copy()
    changed[rows] = [1e30]
    first = smoother.heldout(Y, [rows], [0.1])[0]
    assert_array_equal(first, smoother.heldout(changed, [rows], [0.1])[0])


@DIMENSIONS
@pytest.mark.parametrize("heavy", [1e4, 1e8])
def test_a_row_with_nearly_all_the_weight_is_left_out_literally(dimension, heavy) -> None:
    steps, Y, _ = example("long", 12)
    root = np.ones(12)
    root[4] = heavy
    scaled = root[:, None] * Y
    smoother = StateSpaceSmoother(steps, dimension, root=root, intercept=True)
    [alone] = smoother.leave_one_out(scaled, [10.0])
    [[left_out]] = smoother.heldout(scaled, [np.array([4])], [10.0])
    assert_allclose(alone[4], left_out[0], rtol=1e-9)
    assert_array_equal(np.isfinite(alone), True)


@DIMENSIONS
def test_one_row_and_two(dimension) -> None:
    for n in (1, 2):
        steps = np.full(n - 1, 0.3)
        Y = np.arange(1.0, n + 1)[:, None]
        _ = None
        K = matrix(steps, dimension)
        check(StateSpaceSmoother(steps, dimension, root=None, intercept=False), K, Y, None, [0.1])
        with_intercept = StateSpaceSmoother(steps, dimension, root=None, intercept=True)
        if n == 2:
            check(with_intercept, K, Y, np.ones(2), [0.1])
        else:
            assert_allclose(with_intercept.residuals(Y, [0.1]), 0.0, atol=1e-15)


@DIMENSIONS
def test_all_rows_at_the_same_point(dimension) -> None:
    n = 15
    _, Y, root = example("usual", n)
    K = np.outer(root, root)
    smoother = StateSpaceSmoother(np.zeros(n - 1), dimension, root=root, intercept=True)
    check(smoother, K, Y, root, [1e-2, 1.0], [np.arange(4)])


@DIMENSIONS
def test_the_same_digits_on_any_number_of_threads(dimension) -> None:
    steps, Y, root = example("usual", 200)
    parts = [np.arange(k, 200, 5) for k in range(5)]
    alphas = [1e-3, 0.1, 1.0]
    found = []
    for threads in (1, 3):
        with use_threads(threads):
            smoother = StateSpaceSmoother(steps, dimension, root=root, intercept=True)
            found.append(
                [
                    smoother.residuals(Y, alphas),
                    smoother.leave_one_out(Y, alphas),
                    smoother.trace(alphas),
                    smoother.logdet(alphas),
                    *smoother.heldout(Y, parts, alphas),
                ]
            )
    for first, second in zip(*found):
        assert_array_equal(first, second)


def test_a_ridge_that_cannot_be_divided_by_is_refused() -> None:
    smoother = StateSpaceSmoother(np.ones(3), 2, root=None, intercept=True)
    with pytest.raises(UnsolvableError, match="use a larger alpha"):
        smoother.residuals(np.ones((4, 1)), [5e-324])
