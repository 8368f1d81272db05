"""Calibrators: scikit-learn's numbers, and sense where it has none; never a row by its own label."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from sklearn import calibration as theirs
from sklearn.isotonic import IsotonicRegression

from onefold.calibration import (
    CALIBRATIONS,
    Isotonic,
    Sigmoid,
    Temperature,
    calibration_parts,
    crossfitted,
    fit_calibrator,
)
from onefold.heldout import Splits, mean_by_row

NAMES = list(CALIBRATIONS)


def drawn(rows, classes, seed=0, noise=0.7):
    """Decision values (rows, t) that tell something of the classes, and the classes."""
    rng = np.random.default_rng(seed)
    index = rng.integers(0, classes, rows)
    values = 2.0 * np.eye(classes)[index] - 1.0 + noise * rng.normal(size=(rows, classes))
    return (values[:, 1:] if classes == 2 else values), index


def by_hand(name, decision, index, weight, asked):
    """The probabilities of scikit-learn's calibrators, put together as CalibratedClassifierCV does."""
    if name == "temperature":
        if not hasattr(theirs, "_TemperatureScaling"):
            pytest.skip("scikit-learn has it from 1.8 on")
        return theirs._TemperatureScaling().fit(decision, index, weight).predict(asked)
    columns = decision.shape[1]
    found = []
    for t in range(columns):
        truth = (index == (1 if columns == 1 else t)).astype(float)
        kind = (
            theirs._SigmoidCalibration()
            if name == "sigmoid"
            else IsotonicRegression(out_of_bounds="clip")
        )
        found.append(kind.fit(decision[:, t], truth, weight).predict(asked[:, t]))
    shares = np.stack(found, axis=1)
    if columns == 1:
        return np.concatenate([1 - shares, shares], axis=1)
    return shares / shares.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("name", NAMES[1:])
def test_scikit_learns_numbers(name, classes, weighted):
    decision, index = drawn(250, classes)
    weight = np.random.default_rng(1).uniform(0.1, 4, 250) if weighted else None
    asked = drawn(100, classes, seed=5)[0]
    ours = fit_calibrator(name, decision, index, weight).probabilities(asked)
    assert_allclose(ours, by_hand(name, decision, index, weight, asked), atol=1e-6)
    assert_allclose(ours.sum(axis=1), 1.0, atol=1e-14)
    step = np.array([0.0, 1.0])  # none is likelier than another where all are impossible
    assert_allclose(Isotonic((step,) * 3, (step,) * 3).probabilities(np.full((1, 3), -1.0)), 1 / 3)


@given(
    rows=st.integers(1, 40),
    classes=st.integers(2, 5),
    seed=st.integers(0, 10**6),
    name=st.sampled_from(NAMES),
    spread=st.sampled_from([0.0, 1e-9, 0.3, 3.0]),
    outlier=st.sampled_from([1.0, 1e6, 1e200]),
    ties=st.booleans(),
)
def test_any_rows_give_probabilities(rows, classes, seed, name, spread, outlier, ties):
    rng = np.random.default_rng(seed)
    decision, index = drawn(rows, classes, seed, spread)
    decision[0] *= outlier
    if ties:
        decision = np.sign(decision) * np.minimum(np.abs(decision), 1.0)
    weight = rng.choice([0.0, 1e-6, 1.0, 1e6], rows)
    weight[rng.integers(rows)] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit_calibrator(name, decision, index, weight)
        far = 1e300 * np.sign(decision) * rng.uniform(0, 1, decision.shape)
        asked = np.concatenate([decision, -3 * decision, 0 * decision, far])
        values = found.probabilities(asked)
        logs = found.log_probabilities(asked)
    assert values.shape == (4 * rows, classes)
    assert np.all((values >= 0) & (values <= 1))
    assert_allclose(values.sum(axis=1), 1.0, atol=1e-12)
    assert_allclose(np.exp(logs), values, atol=1e-14)


@given(rows=st.integers(5, 60), classes=st.integers(2, 4), seed=st.integers(0, 10**6))
def test_the_temperature_is_the_minimum_of_the_log_loss(rows, classes, seed):
    decision, index = drawn(rows, classes, seed, noise=1.5)
    weight = np.random.default_rng(seed).uniform(0.1, 2, rows)

    def loss(slope):
        logs = Temperature(float(slope)).log_probabilities(decision)
        return -weight @ logs[np.arange(rows), index]

    found = fit_calibrator("temperature", decision, index, weight)
    best = loss(found.slope)
    labels = decision[:, 0] > 0 if classes == 2 else decision.argmax(axis=1)
    if np.all(labels == index):  # no row is wrong: the loss has no minimum, and half a row's is left
        left = best == pytest.approx(min(1, weight.mean()) / 2, rel=1e-6)
        values = np.concatenate([-decision, decision], axis=1) if classes == 2 else decision
        sizes = np.abs(values - values[np.arange(rows), index][:, None]).max(axis=1)
        # One row that is barely right would ask for more: the typical row is certain by then.
        assert left or found.slope * np.median(sizes) == pytest.approx(-np.log(np.finfo(float).eps))
        return
    searched = minimize_scalar(lambda log: loss(np.exp(log)), bounds=(-15, 10), method="bounded")
    # Decision values that mislead have their minimum at 0 or below: nearly equal probabilities stay.
    assert best <= searched.fun * (1 + 1e-6) or found.slope < 1e-3


def test_useless_decision_values():
    decision, index = drawn(200, 2)
    misled = fit_calibrator("temperature", -decision, index)
    assert_allclose(misled.probabilities(decision), 0.5, atol=1e-3)
    assert misled.slope > 0  # the order of the classes stays
    assert fit_calibrator("temperature", 0 * decision, index).slope < 1e-3
    # A temperature alone knows nothing of how frequent classes are; the others do.
    index = np.array([0] * 90 + [1] * 10)
    constant = np.full((100, 1), 0.3)
    for name, share, atol in (
        ("temperature", 0.5, 1e-3),
        ("sigmoid", 0.1, 0.02),
        ("isotonic", 0.1, 1e-9),
    ):
        found = fit_calibrator(name, constant, index).probabilities(constant)
        assert_allclose(found[:, 1], share, atol=atol)


def splits_of(n, tests):
    return Splits(n, [np.asarray(t) for t in tests], [np.unique(t) for t in tests])


@given(
    n=st.integers(6, 20),
    seed=st.integers(0, 10**6),
    count=st.integers(1, 5),
    name=st.sampled_from(NAMES),
)
def test_a_row_has_no_say_in_its_own_probability(n, seed, count, name):
    rng = np.random.default_rng(seed)
    splits = splits_of(n, [rng.choice(n, rng.integers(2, n), replace=False) for _ in range(count)])
    rows = np.concatenate(splits.tests)
    decision = rng.normal(size=(1, rows.size, 1))
    index = rng.integers(0, 2, n)
    plain = crossfitted(name, decision, index, None, splits)
    row = int(rows[0])
    other = index.copy()
    other[row] = 1 - other[row]
    changed = crossfitted(name, decision, other, None, splits)
    assert_allclose(changed[:, rows == row], plain[:, rows == row])
    means = mean_by_row(rows, plain[0], n)
    assert_allclose(means[row], plain[0][rows == row].mean(axis=0))
    assert np.isnan(means).all(axis=1).sum() == n - np.unique(rows).size


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_weights_are_repeated_rows_and_scales_do_not_matter(name, classes):
    decision, index = drawn(120, classes)
    counts = np.random.default_rng(2).integers(0, 4, 120)
    weighted = fit_calibrator(name, decision, index, counts).probabilities(decision)
    repeated = fit_calibrator(name, np.repeat(decision, counts, 0), np.repeat(index, counts))
    assert_allclose(weighted, repeated.probabilities(decision), atol=1e-9)
    weight = counts + 0.5
    weight /= weight.mean()
    plain = fit_calibrator(name, decision, index, weight).probabilities(decision)
    for scale in (1 / 120, 1e-8, 1e-200):  # a scale of weights says nothing of how many rows there are
        found = fit_calibrator(name, decision, index, scale * weight).probabilities(decision)
        assert_allclose(found, plain, atol=1e-7)
    # Log-odds take decision values for estimates of 2p − 1.
    for scale in () if name == "log_odds" else (1e-300, 1e-12, 1e12, 1e290):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = fit_calibrator(name, scale * decision, index, weight)
            assert_allclose(found.probabilities(scale * decision), plain, atol=1e-8)


ONE = np.ones(1)
TWO = np.ones(2)
UP = np.array([0.0, 0.5])
DECISION, INDEX = drawn(20, 3)
REFUSED = [
    *(
        (lambda n=n: fit_calibrator(n, DECISION, INDEX), "calibration")
        for n in ("platt", None, ["x"], 3)
    ),
    (
        lambda: fit_calibrator("sigmoid", DECISION, INDEX, np.zeros(20)),
        "one row of positive weight",
    ),
    (lambda: fit_calibrator("sigmoid", DECISION * np.nan, INDEX), "finite decision values"),
    (lambda: calibration_parts(splits_of(5, [[2]])), "there is only one"),
    *((lambda s=s: Temperature(s), "slope must be") for s in (0.0, -1.0, np.inf, np.nan, "1", None, 1)),
    *(
        (lambda a=a: Sigmoid(*a), "slope and intercept")
        for a in [(1.0, ONE), (ONE, TWO), (TWO, TWO), (ONE * np.nan, ONE), (ONE.astype(int), ONE)]
    ),
    *(
        (lambda a=a: Isotonic(*a), "must")
        for a in [([UP], (UP,)), ((), ()), ((UP, UP), (UP, UP)), ((UP[::-1],), (UP,))]
    ),
    *(
        (lambda x=x, p=p: Isotonic((x,), (p,)), "must")
        for x, p in [(UP, UP[::-1]), (UP, 2 + UP), (UP, ONE), (UP * np.nan, UP), (UP[:0], UP[:0])]
    ),
]


@pytest.mark.parametrize(("act", "words"), REFUSED)
def test_what_makes_no_sense_is_refused(act, words):
    with pytest.raises(ValueError, match=words):
        act()
