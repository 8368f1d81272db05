"""What happens to targets happens to predictions, and changes no choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from metamorphic_cases import Case
from metamorphic_fits import EPS, Data, agree, every, explore, fit, spread
from numpy.testing import assert_allclose, assert_array_equal

REGRESSORS = every(lambda case: not case.machine.classifies)
WITH_INTERCEPT = every(lambda case: not case.machine.classifies and case.machine.intercept)
CLASSIFIERS = every(lambda case: case.machine.classifies)
SOME_REGRESSORS = every(lambda case: not case.machine.classifies, share=3)
SOME_CLASSIFIERS = every(lambda case: case.machine.classifies, share=3)
SCALES = st.sampled_from([1e-12, 1e12, 1e-5, 1e-8, 1e-3, 3.0, 1e5, 1e9])


@REGRESSORS
def test_targets_scaled(case: Case) -> None:
    def relation(case: Case, data: Data, scale: float) -> None:
        plain = fit(case, data)
        grown = fit(case, replace(data, y=scale * data.y))
        heldout = None if grown.heldout is None else grown.heldout / scale
        agree(
            plain,
            replace(grown, values=grown.values / scale, heldout=heldout),
            size=spread(case, data.y),
        )
        if case.machine.searches:
            top = np.max(np.abs(plain.scores))
            assert_allclose(grown.scores / scale**2, plain.scores, rtol=0, atol=4 * plain.slack * top)

    explore(case, relation, scale=SCALES)


@WITH_INTERCEPT
def test_targets_shifted(case: Case) -> None:
    def relation(case: Case, data: Data, shift: float) -> None:
        # Targets that a shift of 1e8 leaves exact: multiples of 2⁻²⁰.
        data = replace(data, y=np.round(data.y * 2**20) / 2**20)
        plain = fit(case, data)
        moved = fit(case, replace(data, y=data.y + shift))
        heldout = None if moved.heldout is None else moved.heldout - shift
        moved = replace(moved, values=moved.values - shift, heldout=heldout)
        agree(plain, moved, size=spread(case, data.y), rounding=8 * EPS * abs(shift) * len(data.y))

    explore(case, relation, shift=st.sampled_from([1e8, -1e8, 1e4, -3.0]))


@SOME_REGRESSORS
def test_several_targets_are_each_on_their_own(case: Case) -> None:
    """With one alpha and gamma for all: other columns have no say in a column's predictions."""

    def relation(case: Case, data: Data, size: float) -> None:
        if case.machine.prunes:
            return  # the centres are those of all targets together
        one_cell = {"alphas": [0.3]} if case.machine.searches else {}
        if case.machine.searches and case.kernel.has_width:
            one_cell["gammas"] = [1.0]
        other = size * np.cos(data.X[:, 0])
        both = fit(case, replace(data, y=np.column_stack([data.y, other])), **one_cell)
        for column, y in enumerate((data.y, other)):
            alone = fit(case, replace(data, y=y), **one_cell)
            heldout = None if both.heldout is None else both.heldout[:, column]
            found = replace(both, values=both.values[:, column], heldout=heldout)
            agree(alone, found, size=spread(case, y))

    explore(case, relation, size=st.sampled_from([1e6, 1e-6, 1.0]))


@SOME_REGRESSORS
def test_a_column_is_a_vector(case: Case) -> None:
    def relation(case: Case, data: Data) -> None:
        flat, column = fit(case, data), fit(case, replace(data, y=data.y[:, None]))
        assert column.values.shape == (7, 1)
        assert_array_equal(column.values[:, 0], flat.values)
        assert column.choice == flat.choice

    explore(case, relation, examples=1)


@every(lambda case: not case.machine.classifies and case.machine.intercept, share=2)
def test_a_constant_target_is_predicted(case: Case) -> None:
    def relation(case: Case, data: Data, level: float) -> None:
        found = fit(case, replace(data, y=np.full(len(data.y), level)))
        assert_allclose(found.values, level, rtol=1e-9)

    explore(case, relation, examples=1, level=st.sampled_from([7.0, 1e-9]))


@SOME_CLASSIFIERS
def test_labels_renamed(case: Case) -> None:
    def relation(case: Case, data: Data, names: list[Any]) -> None:
        names_of = np.array(names)
        plain, named = fit(case, data), fit(case, replace(data, y=names_of[data.y]))
        assert_array_equal(named.values, plain.values)
        assert named.choice == plain.choice
        assert_array_equal(named.model.classes_, names_of)

    explore(case, relation, names=st.sampled_from([["a", "b"], [-1, 1], [False, True], [3, 2**40]]))


@CLASSIFIERS
def test_classes_exchanged(case: Case) -> None:
    def relation(case: Case, data: Data) -> None:
        plain, turned = fit(case, data), fit(case, replace(data, y=1 - data.y))
        heldout = None if turned.heldout is None else -turned.heldout
        agree(plain, replace(turned, values=-turned.values, heldout=heldout), size=1.0)

    explore(case, relation)


@SOME_CLASSIFIERS
def test_three_classes_in_another_order(case: Case) -> None:
    def relation(case: Case, data: Data) -> None:
        score = data.X[:, 0] + 0.5 * data.X[:, -1] ** 2
        y = np.argsort(np.argsort(score)) * 3 // len(score)
        fold = np.empty(len(y), dtype=int)
        fold[np.argsort(y, kind="stable")] = np.arange(len(y)) % 3
        cv = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
        plain = fit(case, replace(data, y=y, cv=cv))
        turned = fit(case, replace(data, y=2 - y, cv=cv))
        heldout = None if turned.heldout is None else turned.heldout[:, ::-1]
        agree(plain, replace(turned, values=turned.values[:, ::-1], heldout=heldout), size=1.0)

    explore(case, relation)
