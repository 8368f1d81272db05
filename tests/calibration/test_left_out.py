"""Rows left out alone, for calibration: what literal refits without them predict."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from onefold.approximations import Circulant, Exact, Grid, Nystroem, Problem, Toeplitz, Workload
from onefold.kernels import RBF
from onefold.linalg import to_numpy

RNG = np.random.default_rng(0)
N = 60


def problem(X, targets=2, weight=None, *, intercept=True):
    Y = np.sign(np.random.default_rng(1).normal(size=(len(X), targets)))
    return Problem(X, Y, None if weight is None else np.sqrt(weight), intercept)


def refitted(approximation, kernel, whole, row, mu):
    """The row's prediction by a model without it."""
    part = whole.rows(np.delete(np.arange(whole.n), row))
    model = approximation.start(part, [kernel], Workload()).model(kernel)
    return to_numpy(model.expansion(mu).predict(whole.X[row : row + 1]))[0]


@pytest.mark.parametrize("mu", [1e-3, 1.0])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "weight", [None, 10.0 ** RNG.uniform(-4, 2, N), np.where(np.arange(N) == 7, 1e8, 1.0)]
)
def test_the_exact_machine(weight, intercept, mu):
    """Also beside a row of such weight that nothing can be told of the rest."""
    whole = problem(RNG.normal(size=(N, 3)), weight=weight, intercept=intercept)
    kernel = RBF(0.3)
    some = np.array([0, 7, 8, 30, 59])
    rows, values = Exact().start(whole, [kernel], Workload()).model(kernel).left_out(some, mu)
    assert rows.tolist() == some.tolist()
    expected = [refitted(Exact(), kernel, whole, row, mu) for row in some]
    assert_allclose(values, expected, rtol=1e-6, atol=1e-8)


def test_a_ridge_below_rounding_and_copies_of_rows():
    X = np.repeat(RNG.normal(size=(15, 2)), 4, axis=0)
    whole = problem(X)
    kernel = RBF(0.01)
    for mu in (1e-18, 1e-9, 1e-2):
        model = Exact().start(whole, [kernel], Workload()).model(kernel)
        model.expansion(mu)
        _, values = model.left_out(np.arange(N), mu)
        known = np.isfinite(values).all(axis=1)  # rows that a tiny ridge saturates have none
        if mu == 1e-2:
            expected = [refitted(Exact(), kernel, whole, row, mu) for row in range(N)]
            assert_allclose(values, expected, atol=1e-7)
        assert np.all(np.abs(values[known]) < 1e6)


SERIES = np.linspace(0, 5, N)[:, None]


def test_a_circulant_matrix_that_one_row_less_makes_indefinite():
    model = Circulant().start(problem(SERIES), [RBF(1.0)], Workload()).model(RBF(1.0))
    assert np.isnan(model.left_out(np.array([1, 2]), 0.1)[1]).all()


@pytest.mark.parametrize(
    ("approximation", "X"),
    [
        (Nystroem(20), RNG.normal(size=(N, 2))),
        (Nystroem(RNG.normal(size=(12, 2))), RNG.normal(size=(N, 2))),
        (Toeplitz(), SERIES),
        (Circulant(validate="matrix", negative="clip"), SERIES),
        (Circulant(negative="clip"), SERIES),
        (Grid(), SERIES),
        (Nystroem(20, predict="rows"), RNG.normal(size=(N, 2))),
    ],
    ids=["nystroem", "given", "toeplitz", "circulant", "circulant by kernel", "grid", "rows"],
)
def test_other_machines_agree_with_their_own_held_out_rows(approximation, X):
    whole = problem(X)
    kernel = RBF(1.0)
    some = np.array([3, 10, 33, 58])
    model = approximation.start(whole, [kernel], Workload()).model(kernel)
    rows, values = model.left_out(some, 0.1)
    assert set(some) <= set(rows.tolist())
    alone = not isinstance(approximation, Grid)
    # Together, as they are asked for: the digits of a basis model's folds depend on how many there are.
    fifths = [np.arange(k, N, 5) for k in np.unique(some % 5)]
    parts = [np.array([row]) for row in some] if alone else fifths
    known = {
        row: value
        for part, found in zip(parts, model.heldout(parts, [0.1]))
        for row, value in zip(part.tolist(), to_numpy(found)[0])
    }
    for row, found in zip(rows.tolist(), values):
        if row in known:
            assert_allclose(found, known[row], rtol=1e-6, atol=1e-9)
