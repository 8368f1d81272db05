"""Weights mean what they say: 0 is absence, 2 is twice, and only their ratio to alpha counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from metamorphic_cases import Case
from metamorphic_fits import Data, agree, every, explore, fit, spread

WEIGHTED = every(lambda case: case.way.weights)
REPEATABLE = every(lambda case: case.way.weights and not case.way.picks)


def _some(data: Data, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.2, 3.0, len(data.y))


@WEIGHTED
def test_weight_zero_is_absence(case: Case) -> None:
    """The row may be anything: far away, with an absurd target."""

    def relation(case: Case, data: Data, extreme: float) -> None:
        rng = np.random.default_rng(len(data.y))
        weight = _some(data, 1)
        gone = rng.choice(len(data.y), 4, replace=False)
        kept = np.delete(np.arange(len(data.y)), gone)
        if case.machine.classifies and any(
            np.unique(data.y[np.intersect1d(train, kept)]).size < 2 for train, _ in data.cv
        ):
            return
        without = replace(data, weight=weight).rows(kept)
        y = data.y.copy()
        if not case.machine.classifies:
            y[gone] = extreme
        weight[gone] = 0.0
        present = fit(case, replace(data, y=y, weight=weight))
        agree(present, fit(case, without), size=spread(case, data.y), rows=kept)

    explore(case, relation, extreme=st.sampled_from([0.0, 1e6]))


@REPEATABLE
def test_whole_weights_are_repetitions(case: Case) -> None:
    """In cross-validation the copies of a row stay together."""

    def relation(case: Case, data: Data) -> None:
        times = np.random.default_rng(2).integers(1, 4, len(data.y))
        index = np.repeat(np.arange(len(data.y)), times)
        heavy = fit(case, replace(data, weight=times.astype(float)))
        agree(heavy, fit(case, data.rows(index)), size=spread(case, data.y), rows=index)

    explore(case, relation)


@WEIGHTED
def test_weights_and_alpha_grow_together(case: Case) -> None:
    def relation(case: Case, data: Data, power: int) -> None:
        weight = _some(data, 3)
        plain = fit(case, replace(data, weight=weight))
        grown = fit(case, replace(data, weight=weight * 2.0**power), ridge=2.0**power)
        agree(plain, grown, size=spread(case, data.y))

    explore(case, relation, power=st.sampled_from([60, -60, 20, -20, 1]))


@every(lambda c: c.way.weights and not (c.way.picks or c.machine.searches or c.way.name == "grid"))
def test_a_small_weight_is_nearly_absence(case: Case) -> None:
    """A row of weight 1e-9 counts for next to nothing (but where it stands, a grid has to reach)."""

    def relation(case: Case, data: Data, small: float) -> None:
        weight = np.ones(len(data.y))
        weight[::5] = small
        light = fit(case, replace(data, weight=weight))
        absent = fit(case, replace(data, weight=np.where(weight == 1.0, 1.0, 0.0)))
        # A weight w moves the fit by at most w / alpha times the size of the targets and kernel.
        size = spread(case, data.y)
        agree(absent, light, size=size, rounding=1e3 * small / 0.1 * size)

    explore(case, relation, small=st.sampled_from([1e-9, 1e-14, 1e-20]))


@every(lambda case: case.way.weights, share=3)
def test_equal_weights_are_none(case: Case) -> None:
    def relation(case: Case, data: Data) -> None:
        equal = fit(case, replace(data, weight=np.ones(len(data.y))))
        agree(fit(case, data), equal, size=spread(case, data.y))

    explore(case, relation, examples=1)


@every(lambda case: case.way.weights and case.machine.classifies and not case.machine.searches)
def test_class_weights_are_weights_of_rows(case: Case) -> None:
    def relation(case: Case, data: Data, share: float) -> None:
        by_row = replace(data, weight=np.where(data.y == 1, share, 1.0))
        by_class = fit(case, data, class_weight={0: 1.0, 1: share})
        agree(by_row_fit := fit(case, by_row), replace(by_class, slack=by_row_fit.slack), size=1.0)

    explore(case, relation, share=st.sampled_from([3.0, 0.01, 100.0]))
