"""Rows moved, grown, turned or copied, with the kernel's widths to match: the same model."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from metamorphic_cases import Case
from metamorphic_fits import EPS, Data, agree, every, explore, fit, spread

_COLUMNS_MATTER = ("grid", "toeplitz", "circulant", "averaged")


def matches(case: Case, data: Data, changed: Data, rounding: float = 0.0) -> None:
    """The model of the changed rows is the model of the rows."""
    size = spread(case, data.y)
    agree(fit(case, data), fit(case, changed), size=size, rounding=rounding * size)


@every()
def test_features_scaled(case: Case) -> None:
    """By powers of two: the rows themselves are not rounded."""

    def relation(case: Case, data: Data, power: int) -> None:
        factor = 2.0**power
        matches(case, data, data.features(lambda A: factor * A, square=factor**2, absolute=factor))

    explore(case, relation, power=st.sampled_from([-30, 30, 10, -10, 3, 1, -1]))


@every(lambda case: case.kernel.radial)
def test_rows_moved(case: Case) -> None:
    def relation(case: Case, data: Data, shift: float) -> None:
        matches(case, data, data.features(lambda A: A + shift))

    explore(case, relation, shift=st.sampled_from([2.0**16, -(2.0**8), 1.0]))


@every(lambda case: case.kernel.name == "linear" and case.machine.intercept)
def test_a_linear_kernel_with_an_intercept_moved(case: Case) -> None:
    """x·x' changes by more than it is, but the model does not: the intercept takes the difference."""

    def relation(case: Case, data: Data, shift: float) -> None:
        if case.way.name in (
            "nystroem",
            "kmeans",
            "pivoted",
            "ding2012",
            "averaged",
            "improved",
        ):
            return  # other landmarks, or another matrix, are in play
        # The kernel's rounding grows with its values, and the ridge magnifies it.
        matches(case, data, data.features(lambda A: A + shift), rounding=1e3 * EPS * shift**2 / 0.02)

    explore(case, relation, shift=st.sampled_from([32.0, 1.0]))


@every(lambda case: case.way.name not in _COLUMNS_MATTER and case.kernel.name != "precomputed", share=2)
def test_a_feature_twice(case: Case) -> None:
    """Every column twice doubles squared and absolute distances and inner products alike."""

    def relation(case: Case, data: Data) -> None:
        matches(case, data, data.features(lambda A: np.hstack([A, A]), square=2.0, absolute=2.0))

    explore(case, relation, examples=1)


@every(lambda case: case.kernel.radial, share=2)
def test_a_constant_column(case: Case) -> None:
    def relation(case: Case, data: Data, level: float) -> None:
        changed = data.features(lambda A: np.column_stack([A, np.full(len(A), level)]))
        matches(case, data, changed)

    explore(case, relation, examples=1, level=st.sampled_from([0.0, 1e3]))


@every(lambda case: case.kernel.name != "precomputed", share=3)
def test_columns_in_another_order_and_sign(case: Case) -> None:
    """Every kernel of the table is symmetric in the features, and even in each."""

    def relation(case: Case, data: Data, signs: Any) -> None:
        if case.way.name == "kmeans":
            return  # the random start meets other coordinates
        matches(case, data, data.features(lambda A: (A * signs[: A.shape[1]])[:, ::-1]))

    explore(case, relation, signs=st.sampled_from([np.array([-1.0, 1.0]), np.array([1.0, 1.0])]))


@every(lambda case: case.kernel.euclidean and case.way.name in ("exact", "nystroem", "cg", "improved"))
def test_rows_turned(case: Case) -> None:
    def relation(case: Case, data: Data, angle: float) -> None:
        c, s = np.cos(angle), np.sin(angle)
        changed = data.features(lambda A: A @ np.array([[c, s], [-s, c]]))
        matches(case, data, changed, rounding=1e3 * EPS)

    explore(case, relation, angle=st.floats(0.1, 3.0))
