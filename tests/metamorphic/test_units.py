"""What happens to features, targets and weights happens to predictions, and changes no choice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from metamorphic_cases import Case
from metamorphic_fits import EPS, Data, agree, fit, relation, spread, stratified
from numpy.testing import assert_allclose, assert_array_equal


def regresses(case: Case) -> bool:
    return not case.machine.classifies


def classifies(case: Case) -> bool:
    return case.machine.classifies


def shiftable(case: Case) -> bool:
    return regresses(case) and case.machine.intercept


def weighable(case: Case) -> bool:
    return case.way.weights


# -- features: rows moved, grown, turned or copied, with the kernel's widths to match -------------------
_COLUMNS_MATTER = ("grid", "toeplitz", "circulant", "averaged", "state_space")


def matches(case: Case, data: Data, changed: Data, rounding: float = 0.0) -> None:
    """The model of the changed rows is the model of the rows."""
    size = spread(case, data.y)
    agree(fit(case, data), fit(case, changed), size=size, rounding=rounding * size)


@relation(power=[-30, 30, 10, -10, 3, 1, -1])
def test_features_scaled(case: Case, data: Data, power: int) -> None:
    """By powers of two: the rows themselves are not rounded."""
    factor = 2.0**power
    matches(case, data, data.features(lambda A: factor * A, square=factor**2, absolute=factor))


@relation(lambda case: case.kernel.radial, shift=[2.0**16, -(2.0**8), 1.0])
def test_rows_moved(case: Case, data: Data, shift: float) -> None:
    matches(case, data, data.features(lambda A: A + shift))


# With landmarks or diagonals others would be in play.
@relation(
    lambda c: c.kernel.name == "linear" and c.machine.intercept and c.way.name in ("exact", "cg"),
    shift=[32.0, 1.0],
)
def test_a_linear_kernel_with_an_intercept_moved(case: Case, data: Data, shift: float) -> None:
    """x·x' changes by more than it is, but the model does not: the intercept takes the difference."""
    # The kernel's rounding grows with its values, and the ridge magnifies it.
    matches(case, data, data.features(lambda A: A + shift), rounding=1e3 * EPS * shift**2 / 0.02)


@relation(
    lambda case: case.way.name not in _COLUMNS_MATTER and case.kernel.name != "precomputed", share=2
)
def test_a_feature_twice(case: Case, data: Data) -> None:
    """Every column twice doubles squared and absolute distances and inner products alike."""
    matches(case, data, data.features(lambda A: np.hstack([A, A]), square=2.0, absolute=2.0))


@relation(lambda case: case.kernel.radial and case.way.name != "state_space", share=2)
def test_a_constant_column(case: Case, data: Data) -> None:
    matches(case, data, data.features(lambda A: np.column_stack([A, np.full(len(A), 1e3)])))


@relation(
    lambda case: case.kernel.euclidean and case.way.name in ("exact", "nystroem", "cg", "improved"),
    angle=[0.1, 0.7, 1.9, 3.0],
)
def test_rows_turned(case: Case, data: Data, angle: float) -> None:
    c = np.cos(angle)
    s = np.sin(angle)
    changed = data.features(lambda A: A @ np.array([[c, s], [-s, c]]))
    matches(case, data, changed, rounding=1e3 * EPS)


# -- targets --------------------------------------------------------------------------------------------


@relation(regresses, scale=[1e-12, 1e12, 1e-5, 1e-8, 1e-3, 3.0, 1e5, 1e9])
def test_targets_scaled(case: Case, data: Data, scale: float) -> None:
    plain = fit(case, data)
    grown = fit(case, replace(data, y=scale * data.y))
    agree(plain, grown.read(lambda values: values / scale), size=spread(case, data.y))
    if case.machine.searches:
        top = np.max(np.abs(plain.scores))
        assert_allclose(grown.scores / scale**2, plain.scores, rtol=0, atol=4 * plain.slack * top)


@relation(shiftable, shift=[1e8, -1e8, 1e4, -3.0])
def test_targets_shifted(case: Case, data: Data, shift: float) -> None:
    data = replace(data, y=np.round(data.y * 2**20) / 2**20)  # which a shift of 1e8 leaves exact
    moved = fit(case, replace(data, y=data.y + shift)).read(lambda values: values - shift)
    rounding = 8 * EPS * abs(shift) * len(data.y)
    agree(fit(case, data), moved, size=spread(case, data.y), rounding=rounding)


@relation(regresses, share=3, size=[1e6, 1e-6, 1.0])
def test_several_targets_are_each_on_their_own(case: Case, data: Data, size: float) -> None:
    """A column is a vector. With one alpha and gamma for all, other columns have no say in its fit."""
    flat = fit(case, data)
    column = fit(case, replace(data, y=data.y[:, None]))
    assert column.values.shape == (7, 1)
    assert_array_equal(column.values[:, 0], flat.values)
    assert column.choice == flat.choice
    if case.machine.prunes:
        return  # the centres are those of all targets together
    one_cell = {"alphas": [0.3]} if case.machine.searches else {}
    if case.machine.searches and case.kernel.has_width:
        one_cell["gammas"] = [1.0]
    other = size * np.cos(data.X[:, 0])
    both = fit(case, replace(data, y=np.column_stack([data.y, other])), **one_cell)
    for place, y in enumerate((data.y, other)):
        alone = fit(case, replace(data, y=y), **one_cell)
        agree(alone, both.read(lambda values, place=place: values[:, place]), size=spread(case, y))


@relation(shiftable, share=2, level=[7.0, 1e-9])
def test_a_constant_target_is_predicted(case: Case, data: Data, level: float) -> None:
    found = fit(case, replace(data, y=np.full(len(data.y), level)))
    assert_allclose(found.values, level, rtol=1e-9)


@relation(classifies, names=[["a", "b"], [-1, 1], [False, True], [3, 2**40]])
def test_classes_renamed_and_exchanged(case: Case, data: Data, names: list[Any]) -> None:
    labels = np.array(names)
    plain = fit(case, data)
    named = fit(case, replace(data, y=labels[data.y]))
    assert_array_equal(named.values, plain.values)
    assert named.choice == plain.choice
    assert_array_equal(named.model.classes_, labels)
    agree(plain, fit(case, replace(data, y=1 - data.y)).read(np.negative), size=1.0)


@relation(classifies, share=3)
def test_three_classes_in_another_order(case: Case, data: Data) -> None:
    score = data.X[:, 0] + 0.5 * data.X[:, -1] ** 2
    y = np.argsort(np.argsort(score)) * 3 // len(score)
    cv = stratified(y)
    turned = fit(case, replace(data, y=2 - y, cv=cv)).read(lambda values: values[:, ::-1])
    agree(fit(case, replace(data, y=y, cv=cv)), turned, size=1.0)


# -- weights: 0 is absence, 2 is twice, and only their ratio to alpha counts ----------------------------


@relation(weighable, extreme=[0.0, 1e6])
def test_weight_zero_is_absence(case: Case, data: Data, extreme: float) -> None:
    """The row may be anything: far away, with an absurd target."""
    gone = np.random.default_rng(len(data.y)).choice(len(data.y), 4, replace=False)
    kept = np.delete(np.arange(len(data.y)), gone)
    parts = [np.intersect1d(train, kept) for train, _ in data.cv]
    if case.machine.classifies and any(np.unique(data.y[part]).size < 2 for part in parts):
        return
    full = data.weighted(1)
    y = data.y.copy()
    weight = full.weight.copy()
    if not case.machine.classifies:
        y[gone] = extreme
    weight[gone] = 0.0
    present = fit(case, replace(data, y=y, weight=weight))
    agree(present, fit(case, full.rows(kept)), size=spread(case, data.y), rows=kept)


@relation(lambda case: case.way.weights and not case.way.picks, most=[4, 2])
def test_whole_weights_are_repetitions(case: Case, data: Data, most: int) -> None:
    """In cross-validation the copies of a row stay together. Weights of 1 are none."""
    times = np.random.default_rng(2).integers(1, most, len(data.y))
    index = np.repeat(np.arange(len(data.y)), times)
    heavy = fit(case, replace(data, weight=times.astype(float)))
    agree(heavy, fit(case, data.rows(index)), size=spread(case, data.y), rows=index)


@relation(weighable, power=[60, -60, 20, -20, 1])
def test_weights_and_alpha_grow_together(case: Case, data: Data, power: int) -> None:
    data = data.weighted(3)
    grown = fit(case, replace(data, weight=data.weight * 2.0**power), ridge=2.0**power)
    agree(fit(case, data), grown, size=spread(case, data.y))


@relation(
    lambda c: c.way.weights and not (c.way.picks or c.machine.searches or c.way.name == "grid"),
    small=[1e-9, 1e-14, 1e-20],
)
def test_a_small_weight_is_nearly_absence(case: Case, data: Data, small: float) -> None:
    """A row of weight 1e-9 counts for next to nothing (but where it stands, a grid has to reach)."""
    here = np.arange(len(data.y)) % 5 > 0
    light, absent = (fit(case, replace(data, weight=np.where(here, 1.0, w))) for w in (small, 0.0))
    # A weight w moves the fit by at most w / alpha times the size of the targets and kernel.
    size = spread(case, data.y)
    agree(absent, light, size=size, rounding=1e3 * small / 0.1 * size)


@relation(
    lambda c: c.way.weights and c.machine.classifies and not c.machine.searches,
    share_of=[3.0, 0.01, 100.0],
)
def test_class_weights_are_weights_of_rows(case: Case, data: Data, share_of: float) -> None:
    by_row = fit(case, replace(data, weight=np.where(data.y == 1, share_of, 1.0)))
    by_class = fit(case, data, class_weight={0: 1.0, 1: share_of})
    agree(by_row, replace(by_class, slack=by_row.slack), size=1.0)
