"""The same call, the same bits: again, with more threads, and from a file."""

from __future__ import annotations

import warnings

import numpy as np
from metamorphic_cases import Case
from metamorphic_fits import Data, Outcome, estimator, every, explore, fit, inputs
from numpy.testing import assert_array_equal

import onefold


def identical(one: Outcome, two: Outcome) -> None:
    """Equal to the last bit."""
    assert one.choice == two.choice
    assert_array_equal(two.values, one.values)
    if one.scores is not None:
        assert_array_equal(two.scores, one.scores)
    if one.heldout is not None:
        assert_array_equal(two.heldout, one.heldout)


@every(share=2)
def test_again(case: Case) -> None:
    """Also with the same object, after a fit to something else: nothing is left over."""

    def relation(case: Case, data: Data) -> None:
        first = fit(case, data)
        identical(first, fit(case, data))
        X, Z = inputs(case, data)
        other = np.roll(data.y, 5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            again = first.model.fit(X, other).fit(X, data.y)
        ask = again.decision_function if case.machine.classifies else again.predict
        assert_array_equal(ask(Z), first.values)

    explore(case, relation, examples=1)


@every()
def test_two_threads(case: Case) -> None:
    def relation(case: Case, data: Data) -> None:
        identical(fit(case, data), fit(case, data, n_jobs=2))

    explore(case, relation, examples=1)


@every(lambda case: case.kernel.saved)
def test_from_a_file(case: Case, tmp_path) -> None:
    def relation(case: Case, data: Data) -> None:
        found = fit(case, data)
        path = tmp_path / "model.onefold"
        found.model.save(path)
        loaded = onefold.load(path)
        _, Z = inputs(case, data)
        ask = loaded.decision_function if case.machine.classifies else loaded.predict
        assert_array_equal(ask(Z), found.values)
        assert_array_equal(loaded.predict(Z), found.model.predict(Z))

    explore(case, relation, examples=1)


@every(share=3)
def test_input_is_left_alone(case: Case) -> None:
    """Arrays that must not be written to are enough, and come out as they went in."""

    def relation(case: Case, data: Data) -> None:
        X, Z = (np.array(A) for A in inputs(case, data))
        y, weight = np.array(data.y), np.ones(len(data.y))
        for array in (X, Z, y, weight):
            array.setflags(write=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = estimator(case, data).fit(X, y, weight if case.way.weights else None)
        model.predict(Z)

    explore(case, relation, examples=1)
