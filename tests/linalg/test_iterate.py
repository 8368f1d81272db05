"""The one preconditioned conjugate gradient, against dense solutions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from onefold.linalg import namespace, to_numpy
from onefold.linalg.iterate import GradientState, conjugate_gradients, refined, refined_gradients


def system(shape=(), n=40, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((*shape, n, n))
    A = root @ np.swapaxes(root, -1, -2) / n + 0.1 * np.eye(n)
    return A, rng.standard_normal((*shape, n, columns))


def lengths(R):
    xp = namespace(R)
    return xp.sqrt(xp.sum(R * R, axis=-2))


def solve(A, B, *, tolerance=1e-11, precondition=lambda R: R, **settings):
    residual = namespace(B).asarray(B, copy=True)
    goal = tolerance * lengths(B)
    settings = {"limit": 500, **settings}
    return conjugate_gradients(lambda V: A @ V, precondition, residual, lengths, goal, **settings)


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3)], ids=str)
def test_the_dense_solution_in_every_library_and_for_stacks(library, shape) -> None:
    xp = pytest.importorskip(library)
    A, B = system(shape)
    found = solve(xp.asarray(A), xp.asarray(B))
    assert found.state == "converged"
    assert_allclose(to_numpy(found.X), np.linalg.solve(A, B), atol=1e-9)
    assert_allclose(to_numpy(found.residual), B - A @ to_numpy(found.X), atol=1e-12)


def test_a_start_goes_on_from_its_residual_and_who_misses_the_deadline_is_given_up() -> None:
    A, B = system()
    first = solve(A, B, limit=5)
    goal = 1e-11 * lengths(B)
    assert (first.state, first.iterations) == ("slow", 5)
    settings = {"limit": 500, "start": first.X, "deadline": (10, lengths(B))}
    left = B - A @ first.X
    again = conjugate_gradients(lambda V: A @ V, lambda R: R, left, lengths, goal, **settings)
    assert again.X is first.X
    assert_allclose(again.X, np.linalg.solve(A, B), atol=1e-9)
    nothing = solve(A, np.zeros_like(B))
    assert (nothing.state, nothing.iterations) == ("converged", 0)
    missed = solve(A, B, deadline=(10, goal))
    assert (missed.state, missed.iterations) == ("late", 10)


@pytest.mark.parametrize("value", [-1.0, 0.0, np.nan])
def test_what_is_not_positive_definite_is_reported(value) -> None:
    found = solve(np.diag([1.0, value]), np.array([[1.0], [2.0]]), limit=50)
    assert found.state == "indefinite"
    assert solve(np.eye(2), np.ones((2, 1)), precondition=lambda R: -R).state == "indefinite"


def test_a_right_hand_side_of_nan_never_counts_as_solved() -> None:
    B = np.array([[np.nan, 1.0], [1.0, 2.0], [1.0, 3.0]])
    settings = {"tolerance": 1e-10, "norm": 1.0, "limit": 10}
    found = refined_gradients(lambda V: V.copy(), lambda V: V.copy(), B, **settings)
    assert found.state != "converged"


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
def test_restarts_from_the_true_residual_take_the_next_rung_where_one_no_longer_helps(library) -> None:
    """Columns that have converged are left alone, and steps that lead away are not taken."""
    xp = pytest.importorskip(library)
    A, B = (xp.asarray(a) for a in system())
    B[:, 1] = B[:, 1] * 0.0  # converged from the start, and left alone
    scale = to_numpy(lengths(B)) + (to_numpy(lengths(B)) == 0)
    calls = []

    def rung(matrix, name):
        def correct(left, some, relative, limit, state=None, observe=None):
            calls.append((name, some.tolist()))
            goal = 1e-3 * lengths(left)
            start = xp.asarray(left, copy=True)
            settings = {"limit": limit, "state": state, "observe": observe}
            return conjugate_gradients(
                lambda V: matrix @ V, lambda R: R, start, lengths, goal, **settings
            )

        return correct

    def solve(ladder):
        def left(X, some):
            return xp.asarray(to_numpy(B)[:, some]) - A @ X

        def size(R, some):
            return to_numpy(lengths(R)) / scale[some]

        return refined(left, ladder, xp.zeros_like(B), B, size=size, enough=1e-12, limit=2000)

    both = solve([lambda *_: None, rung(A, "true")])
    assert both.state == "converged"
    assert_allclose(to_numpy(both.X), np.linalg.solve(to_numpy(A), to_numpy(B)), atol=1e-10)
    assert_array_equal(to_numpy(both.X)[:, 1], 0.0)
    assert all(columns == [0, 2] for _, columns in calls)
    assert solve([rung(2.5 * A, "slow"), rung(A, "true")]).state == "converged"
    assert {name for name, _ in calls} == {"true", "slow"}
    assert solve([rung(-A, "negative")]).state == "indefinite"
    # Of a rough product that says nothing of the true one: the next takes over.
    assert solve([rung(-A, "negative"), rung(A, "true")]).state == "converged"
    stuck = solve([rung(0.4 * A, "too far")])  # each step overshoots: none is taken
    assert stuck.state == "slow"
    assert_array_equal(to_numpy(stuck.X), 0.0)


class Enough(Exception):
    """Ends an iteration in its middle."""


@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_from_any_state_the_numbers_are_those_of_a_run_without_interruption(library, order) -> None:
    """Of one correction, and of a ladder of them: the state has all that the next iteration reads."""
    xp = pytest.importorskip(library)
    A, B = system(n=60)
    A = xp.asarray(A)
    B = xp.asarray(B) if order == "C" else xp.asarray(np.ascontiguousarray(B.T)).T
    scale = to_numpy(lengths(B))

    def rung(matrix):
        def correct(left, some, relative, limit, state, observe):
            start = xp.asarray(left, copy=True)
            settings = {"limit": limit, "state": state, "observe": observe}
            goal = 1e-4 * lengths(left)
            return conjugate_gradients(
                lambda V: matrix @ V, lambda R: R, start, lengths, goal, **settings
            )

        return correct

    def solve(state=None, observe=None):
        return refined(
            lambda X, some: xp.asarray(to_numpy(B)[:, some]) - A @ X,
            [rung(A + 0.01 * xp.eye(60, dtype=xp.float64)), rung(A)],
            xp.zeros_like(B),
            xp.asarray(B, copy=True),
            size=lambda R, some: to_numpy(lengths(R)) / scale[some],
            enough=1e-11,
            limit=2000,
            state=state,
            observe=observe,
        )

    def copied(state):
        fields = vars(state.correction).items()
        arrays = {
            name: value if name == "iterations" else xp.asarray(value, copy=True)
            for name, value in fields
        }
        X, residual = (xp.asarray(array, copy=True) for array in (state.X, state.residual))
        correction = GradientState(**arrays)
        return replace(
            state, X=X, residual=residual, relative=state.relative.copy(), correction=correction
        )

    seen = []
    whole = solve(observe=lambda state: seen.append(copied(state)))
    assert whole.state == "converged"
    assert len({state.iterations for state in seen}) > 2
    for state in seen[::3] * 2:  # twice: a state is not changed by going on from it
        again = solve(state)
        assert again.iterations == whole.iterations
        for name in ("X", "residual", "relative"):
            assert_array_equal(to_numpy(getattr(again, name)), to_numpy(getattr(whole, name)))

    def stop(state):
        raise Enough

    with pytest.raises(Enough):
        solve(observe=stop)
