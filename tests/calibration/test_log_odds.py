"""Probabilities from the log-odds of decision values, against the literal minimum."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from onefold import LSSVCCV
from onefold.calibration import fit_calibrator
from onefold.calibration.probabilities import damped_newton

RNG = np.random.default_rng(0)


def decisions(rows, classes, noise=0.5):
    index = np.arange(rows) % classes
    true = 2.0 * (index[:, None] == np.arange(classes)) - 1
    values = 0.7 * true + noise * RNG.normal(size=true.shape)
    return (values[:, 1:] if classes == 2 else values), index


def logits(t, decision):
    both = np.concatenate([-decision, decision], axis=1) if decision.shape[1] == 1 else decision
    share = np.clip((1 + both) / 2, 0.01, 0.99)
    return t[0] * both + t[1] * np.log(share / (1 - share))


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("noise", [0.1, 0.5, 3.0])
def test_both_slopes_are_the_minimum_of_the_penalised_log_loss(classes, noise):
    decision, index = decisions(140, classes, noise)
    weight = RNG.uniform(1.0, 3.0, 140)
    found = fit_calibrator("log_odds", decision, index, weight)
    # The penalty is on both slopes in units of the weighted mean size of what they multiply.
    log_odds = np.log(1 / (1 / np.clip((1 + decision) / 2, 0.01, 0.99) - 1))
    units = np.array(
        [np.average(np.abs(one).mean(axis=1), weights=weight) for one in (decision, log_odds)]
    )

    def loss(t):
        values = logits(t, decision)
        losses = logsumexp(values, axis=1) - values[np.arange(140), index]
        return weight @ losses + 0.05 * np.sum((t * units) ** 2)

    limits = [(np.exp(-10) / units[0], None), (0, None)]
    options = {"ftol": 1e-15, "gtol": 1e-12}
    starts = ([1.0, 1.0], [0.1, 0.1], [5.0, 0.0])
    best = min(minimize(loss, start, bounds=limits, options=options).fun for start in starts)
    assert loss(np.array([found.slope, found.odds])) <= best * (1 + 1e-9)
    expected = logits((found.slope, found.odds), decision)
    expected = np.exp(expected - logsumexp(expected, axis=1)[:, None])
    np.testing.assert_allclose(found.probabilities(decision), expected, rtol=1e-10)
    label = (decision[:, 0] > 0).astype(int) if classes == 2 else decision.argmax(axis=1)
    np.testing.assert_array_equal(expected.argmax(axis=1), label)


@pytest.mark.parametrize("classes", [2, 3])
def test_weights_of_classes_are_divided_out(classes):
    """The minimum of the penalised log loss of p ∝ exp(β f + δ z) / w."""
    decision, index = decisions(140, classes)
    w = np.linspace(1.0, 9.0, classes)
    both = decision.shape[1] == 1
    found = fit_calibrator("log_odds", decision, index, class_weight=w)
    log_odds = np.log(1 / (1 / np.clip((1 + decision) / 2, 0.01, 0.99) - 1))
    units = np.array([np.abs(one).mean() for one in (decision, log_odds)])

    def loss(t):
        values = logits(t, decision) - np.log(w)
        losses = logsumexp(values, axis=1) - values[np.arange(140), index]
        return losses.sum() + 0.05 * np.sum((t * units) ** 2)

    limits = [(np.exp(-10) / units[0], None), (0, None)]
    starts = ([1.0, 1.0], [0.1, 0.1], [5.0, 0.0])
    options = {"ftol": 1e-15, "gtol": 1e-12}
    best = min(minimize(loss, start, bounds=limits, options=options).fun for start in starts)
    assert loss(np.array([found.slope, found.odds])) <= best * (1 + 1e-9)
    expected = logits((found.slope, found.odds), decision) - np.log(w)
    expected = np.exp(expected - logsumexp(expected, axis=1)[:, None])
    np.testing.assert_allclose(found.probabilities(decision), expected, rtol=1e-10)
    alike = fit_calibrator("log_odds", decision, index, class_weight=np.full(classes, 3.0))
    assert alike.shift is None
    without = fit_calibrator("log_odds", decision, index, class_weight=np.append(w[:-1], 0.0))
    assert (without.shift is None) == (classes == 2)
    assert found.columns == (1 if both else classes)


def test_probabilities_of_rare_classes_are_those_of_the_rows_as_they_come():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((1200, 2))
    p = 1 / (1 + np.exp(4.0 - 1.5 * X[:, 0]))  # some 4 %
    y = (rng.random(1200) < p).astype(int)
    model = LSSVCCV(gammas=[0.03, 0.1], class_weight="balanced").fit(X[:800], y[:800])
    probabilities = model.predict_proba(X[800:])[:, 1]
    assert abs(probabilities.mean() - p[800:].mean()) < 0.02
    assert np.mean(np.abs(probabilities - p[800:])) < 0.025
    assert model.predict(X[800:]).mean() > 0.15  # the weights still decide about labels


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12, 1e200])
@pytest.mark.parametrize("sign", [1.0, -1.0, 0.0])
def test_probabilities_are_numbers_whatever_the_decision_values(scale, sign):
    for classes in (2, 4):
        decision, index = decisions(40, classes, 0.01)  # all right, all wrong, or nothing
        found = fit_calibrator("log_odds", sign * scale * decision, index)
        made = found.probabilities(sign * scale * decision)
        np.testing.assert_allclose(made.sum(axis=1), 1)
        if sign <= 0:
            np.testing.assert_allclose(made, 1 / classes, atol=0.05)
        else:
            assert np.all(made.argmax(axis=1) == index)


@pytest.mark.parametrize("least", [-np.inf, 0.25])
@pytest.mark.parametrize("norm", ["sum", "max"])
def test_damped_newton_finds_the_minimum_of_every_model(least, norm):
    centres = np.array([[1.0, -2.0], [0.3, 0.5], [-40.0, 7.0]])

    def loss(t):
        return np.sum(np.sqrt(1 + (t - centres) ** 2), axis=1), t - centres

    def step(t, distance):
        gradient = distance / np.sqrt(1 + distance**2)
        hessian = (1 + distance**2) ** -1.5
        # From far away this step leads upwards, far beyond the minimum, and is halved.
        bound = (t <= least) & (gradient > 0)
        return np.where(bound, 0.0, -gradient / hessian)

    start = np.full((3, 2), 0.25)
    with np.errstate(over="ignore"):
        minimum = damped_newton(loss, step, start, least=least, tolerance=1e-10, norm=norm)
    np.testing.assert_allclose(minimum, np.maximum(centres, least), rtol=1e-6, atol=1e-6)
