"""Held-out predictions against targets, and probabilities against what happened."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from plotted_machines import LABELS, MACHINES, THREE, X, Y
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV
from onefold.plots import PredictionDisplay, ReliabilityDisplay
from onefold.plots.heldout import half_width

pytestmark = pytest.mark.filterwarnings("error")


class Predicted(SimpleNamespace):
    """A stand-in for a fitted regressor."""

    expansion_ = None


def predicted(y, spread=0.3, seed=0, **more):
    y = np.asarray(y, dtype=float)
    held = y + spread * np.random.default_rng(seed).normal(size=y.shape)
    return Predicted(heldout_prediction_=held, conformity_scores_=np.abs(y - held), **more)


@pytest.mark.parametrize("kind", ["actual_vs_predicted", "residuals"])
@pytest.mark.parametrize("name", ["plain", "blend", "halving", "families", "one cell", "linear"])
def test_held_out_rows_of_every_search(fit, name, kind):
    machine, y = fit(name), MACHINES[name][1]
    drawn = PredictionDisplay.from_estimator(machine, y, kind=kind).plot()
    drawn.figure_.draw_without_rendering()
    np.testing.assert_array_equal(drawn.target, y)
    points = drawn.ax_.collections[0].get_offsets()
    np.testing.assert_array_equal(points[:, 0], machine.heldout_prediction_)
    expected = y - machine.heldout_prediction_ if kind == "residuals" else y
    np.testing.assert_array_equal(points[:, 1], expected)
    assert "root mean square error" in drawn.describe()


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95])
def test_the_band_and_the_share_inside(coverage):
    y = np.random.default_rng(1).normal(size=119)
    machine = predicted(y)
    display = PredictionDisplay.from_estimator(machine, y, coverage=coverage)
    # By hand: the least width with at least ⌈c (n + 1)⌉ rows inside.
    errors = sorted(abs(machine.heldout_prediction_ - y))
    need = next(k for k in range(1, 120) if k >= coverage * 120 - 1e-9)
    assert display.half_width == errors[need - 1]
    assert display.share_inside == sum(e <= errors[need - 1] for e in errors) / 119
    drawn = display.plot(Figure().add_subplot())
    lower, upper = drawn.ax_.lines[-2:]
    np.testing.assert_allclose(upper.get_ydata() - lower.get_ydata(), 2 * display.half_width)
    assert f"{display.share_inside:.1%} inside" in upper.get_label()


def test_too_few_rows_for_the_coverage():
    assert half_width(np.array([1.0, 2.0, np.nan]), 0.9) == np.inf
    assert half_width(np.arange(1.0, 10.0), 0.9) == 9.0  # nine rows are just enough for 90 %
    y = np.array([1.0, 2.0, 3.0])
    drawn = PredictionDisplay.from_estimator(predicted(y), y).plot()
    assert drawn.half_width == np.inf
    assert any("Too few rows" in words for words in drawn.ax_.get_legend_handles_labels()[1])


def test_rows_that_were_not_tested_are_left_out():
    y = np.arange(20.0)
    machine = predicted(y)
    machine.heldout_prediction_[:5] = np.nan
    machine.conformity_scores_[:5] = np.nan
    display = PredictionDisplay.from_estimator(machine, y)
    np.testing.assert_array_equal(display.target, y[5:])
    assert display.half_width == np.max(machine.conformity_scores_[5:])


def test_one_of_several_targets(fit):
    machine, y = fit("targets"), MACHINES["targets"][1]
    for target in range(3):
        display = PredictionDisplay.from_estimator(machine, y, target=target)
        np.testing.assert_array_equal(display.prediction, machine.heldout_prediction_[:, target])
        assert display.plot().ax_.get_ylabel() == f"target {target} of 3"
    with pytest.raises(ValueError, match="from 0 to 2; got 3"):
        PredictionDisplay.from_estimator(machine, y, target=3)


def test_of_many_rows_some_are_drawn():
    y = np.random.default_rng(0).normal(size=5001)
    drawn = PredictionDisplay.from_estimator(predicted(y), y).plot()
    assert len(drawn.ax_.collections[0].get_offsets()) == 5000
    assert "5,001 held-out rows, 5,000 of them drawn" in drawn.ax_.get_title(loc="left")
    assert len(drawn.target) == 5001


@pytest.mark.parametrize("unit", [1e-300, 1e300])
def test_targets_of_any_size(unit):
    y = unit * np.random.default_rng(0).uniform(0.5, 1.0, 50)
    machine = Predicted(heldout_prediction_=y * 1.01, conformity_scores_=0.01 * y)
    drawn = PredictionDisplay.from_estimator(machine, y).plot()
    drawn.figure_.draw_without_rendering()
    assert "inf" not in drawn.describe()


def test_targets_as_series_lists_and_columns(fit):
    pandas = pytest.importorskip("pandas")
    for y in (pandas.Series(Y), Y.tolist(), Y[:, None]):
        display = PredictionDisplay.from_estimator(make_pipeline(StandardScaler(), fit("plain")), y)
        np.testing.assert_array_equal(display.target, Y)


def test_predictions_that_cannot_be_drawn(fit):
    with pytest.raises(ValueError, match=r"ReliabilityDisplay\.from_estimator"):
        PredictionDisplay.from_estimator(fit("classes"), LABELS)
    with pytest.raises(ValueError, match=r"no heldout_prediction_.*folds"):
        PredictionDisplay.from_estimator(fit("press"), Y)
    with pytest.raises(ValueError, match="fit LSSVRCV or KernelRidgeCV"):
        PredictionDisplay.from_estimator(LSSVR().fit(X, Y), Y)
    with pytest.raises(ValueError, match="not fitted"):
        PredictionDisplay.from_estimator(LSSVRCV(), Y)
    with pytest.raises(ValueError, match="pass the y that the estimator was fitted on"):
        PredictionDisplay.from_estimator(fit("plain"), Y[:-1])
    nothing = Predicted(heldout_prediction_=np.full(3, np.nan), conformity_scores_=None)
    with pytest.raises(ValueError, match="the splits tested none"):
        PredictionDisplay.from_estimator(nothing, np.zeros(3))
    with pytest.raises(ValueError, match="kind must be one of"):
        PredictionDisplay.from_estimator(fit("plain"), Y, kind="qq")
    with pytest.raises(ValueError, match="coverage"):
        PredictionDisplay.from_estimator(fit("plain"), Y, coverage=90)


def classifier(proba, classes):
    return SimpleNamespace(
        expansion_=None, classes_=np.asarray(classes), heldout_proba_=np.asarray(proba)
    )


def test_the_calibration_error_by_hand():
    """Four bins of two rows each."""
    p = np.array([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9])
    y = np.array([0, 0, 1, 0, 1, 1, 1, 0])
    display = ReliabilityDisplay.from_estimator(classifier(np.c_[1 - p, p], [0, 1]), y, n_bins=4)
    np.testing.assert_allclose(display.predicted, [0.15, 0.35, 0.65, 0.85])
    np.testing.assert_allclose(display.observed, [0.0, 0.5, 1.0, 0.5])
    assert display.counts.tolist() == [2, 2, 2, 2]
    np.testing.assert_allclose(display.calibration_error, np.mean([0.15, 0.15, 0.35, 0.35]))
    words = display.plot().ax_.get_legend_handles_labels()[1]
    assert "expected calibration error 0.250 (4 bins)" in words


def test_bins_partition_the_rows_whatever_the_ties():
    rng = np.random.default_rng(0)
    for p in (rng.uniform(size=97), rng.integers(0, 3, 97) / 2, np.full(97, 0.3), np.array([0.2])):
        hits = rng.uniform(size=len(p)) < p
        display = ReliabilityDisplay(p, hits, 10)
        assert display.counts.sum() == len(p)
        assert len(display.counts) <= min(10, len(np.unique(p)))
        np.testing.assert_allclose(display.counts @ display.predicted, p.sum())
        np.testing.assert_allclose(display.counts @ display.observed, hits.sum())
        display.plot().figure_.draw_without_rendering()
    counts = ReliabilityDisplay(rng.uniform(size=1000), np.ones(1000, bool), 10).counts
    assert counts.tolist() == [100] * 10


def test_classes_by_name_and_the_likeliest_of_many():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([1, 1, 1], 150)
    proba[:7] = np.nan
    machine = classifier(proba, [0, 1, 2])
    top = ReliabilityDisplay.from_estimator(machine, THREE)
    np.testing.assert_array_equal(top.probability, proba[7:].max(axis=1))
    np.testing.assert_array_equal(top.happened, proba[7:].argmax(axis=1) == THREE[7:])
    one = ReliabilityDisplay.from_estimator(machine, THREE, label=2)
    np.testing.assert_array_equal(one.probability, proba[7:, 2])
    np.testing.assert_array_equal(one.happened, THREE[7:] == 2)
    assert "class 2" in one.plot().ax_.get_xlabel()
    two = ReliabilityDisplay.from_estimator(classifier(proba[:, :2], ["no", "yes"]), LABELS.tolist())
    assert two.event == "class yes"
    np.testing.assert_array_equal(two.happened, (LABELS == "yes")[7:])


def test_probabilities_that_cannot_be_drawn(fit):
    with pytest.raises(ValueError, match='calibration="temperature"'):
        ReliabilityDisplay.from_estimator(LSSVC().fit(X, LABELS), LABELS)
    with pytest.raises(ValueError, match=r"PredictionDisplay\.from_estimator"):
        ReliabilityDisplay.from_estimator(fit("plain"), Y)
    with pytest.raises(ValueError, match="not fitted"):
        ReliabilityDisplay.from_estimator(LSSVCCV(), LABELS)
    machine = classifier(np.full((3, 2), 0.5), ["a", "b"])
    with pytest.raises(ValueError, match="no class 'c'"):
        ReliabilityDisplay.from_estimator(machine, list("aba"), label="c")
    with pytest.raises(ValueError, match="the label 'x'"):
        ReliabilityDisplay.from_estimator(machine, list("abx"))
    with pytest.raises(ValueError, match="pass the y"):
        ReliabilityDisplay.from_estimator(machine, list("ab"))
    with pytest.raises(ValueError, match="n_bins"):
        ReliabilityDisplay.from_estimator(machine, list("aba"), n_bins=0)
    with pytest.raises(ValueError, match="the splits tested none"):
        ReliabilityDisplay.from_estimator(classifier(np.full((2, 2), np.nan), ["a", "b"]), list("ab"))
