"""Every display draws, describes itself and refuses what it cannot draw; and what each of them shows."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV
from onefold.plots import (
    ChoiceDisplay,
    GridDisplay,
    ImportanceDisplay,
    PredictionDisplay,
    ReliabilityDisplay,
    RoundsDisplay,
)
from onefold.plots.display import as_png

matplotlib.use("Agg")
# Matplotlib 3.8 calls what pyparsing has renamed since.
pytestmark = pytest.mark.filterwarnings("error", "ignore::DeprecationWarning:(matplotlib|pyparsing)")

RNG = np.random.default_rng(3)
X = RNG.normal(size=(150, 3))
Y = np.sign(X[:, 0]) * np.abs(X[:, 1]) + 0.2 * RNG.normal(size=150)
LABELS = np.where(X[:, 0] + 0.5 * RNG.normal(size=150) > 0, "yes", "no")
THREE = np.digitize(X[:, 0] + 0.4 * RNG.normal(size=150), [-0.5, 0.5])
SMALL = {"gammas": [0.03, 0.1, 0.3, 1.0], "alphas": [0.001, 0.01, 0.1, 1.0]}
MACHINES = {
    "plain": (LSSVRCV(), Y),
    "classes": (LSSVCCV(**SMALL), LABELS),
    "three": (LSSVCCV(**SMALL), THREE),
    "blend": (LSSVRCV(["rbf", "laplacian"], metric="auto", blend=True, max_rounds=2), Y + X[:, 2] ** 2),
    "halving": (LSSVRCV(search="halving"), np.tile(Y, 3)),
    "press": (LSSVRCV(criterion="press"), Y),
    "function": (LSSVRCV(criterion=lambda e, X, y: -1.0, **SMALL), Y),
    "objective": (LSSVRCV(), Y),
    "stopped": (LSSVRCV(time_budget=1e-9), Y),
    "one gamma": (LSSVRCV(gammas=[0.1]), Y),
    "one alpha": (LSSVRCV(alphas=[0.1]), Y),
    "one cell": (LSSVRCV(gammas=[0.1], alphas=[0.1]), Y),
    "linear": (LSSVRCV("linear"), Y),
    "1se": (LSSVRCV(select="1se"), Y),
    "targets": (LSSVRCV(**SMALL), np.column_stack([Y, X[:, 2], -Y])),
}
DRAWN = [
    *((GridDisplay, name) for name in MACHINES if name != "one cell"),
    *((PredictionDisplay, name) for name in ("plain", "blend", "halving", "one cell", "targets")),
    *((ReliabilityDisplay, name) for name in ("classes", "three")),
    (RoundsDisplay, "blend"),
    (ChoiceDisplay, "blend"),
    (ImportanceDisplay, "blend"),
]


@cache
def fit(name):
    """The machine of that name, fitted once."""
    machine, y = MACHINES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of edges of small grids
        if name != "objective":
            return machine.fit(np.resize(X, (len(y), 3)), y)
        objective = machine.objective(X, Y)  # its candidates are no grid
        for gamma, alpha in 10 ** np.random.default_rng(4).uniform(-3, 0, (12, 2)):
            objective(gamma=gamma, alpha=alpha)
        return objective.fit()


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.mark.parametrize(("display", "name"), DRAWN, ids=lambda one: getattr(one, "__name__", one))
def test_every_display_draws_describes_and_refuses_the_unfitted(display, name):
    machine = fit(name)
    targets = [MACHINES[name][1]] if display in (PredictionDisplay, ReliabilityDisplay) else []
    shown = display.from_estimator(machine, *targets)
    axes = Figure().add_subplot()
    assert shown.plot(axes) is shown
    assert (shown.ax_, shown.figure_) == (axes, axes.figure)
    axes.figure.draw_without_rendering()
    assert shown.describe().endswith(".")
    for axis in (axes.xaxis, axes.yaxis):
        assert axis.get_offset_text().get_text() == ""
        labels = [label.get_text() for label in axis.get_ticklabels()]
        assert len(labels) == len(set(labels))
    assert display is not GridDisplay or "chosen" in axes.get_legend_handles_labels()[1]
    inside = make_pipeline(StandardScaler(), machine)
    assert display.from_estimator(inside, *targets).describe() == shown.describe()
    with pytest.raises(ValueError, match="not fitted yet; call fit"):
        display.from_estimator(type(machine)(), *targets)


class Predicted(SimpleNamespace):
    """A stand-in for a fitted regressor."""

    expansion_ = None


def predicted(y):
    held = y + 0.3 * np.random.default_rng(0).normal(size=y.shape)
    return Predicted(heldout_prediction_=held, conformity_scores_=np.abs(y - held))


def classifier(proba, classes):
    return Predicted(classes_=np.asarray(classes), heldout_proba_=np.asarray(proba))


NOTHING = Predicted(heldout_prediction_=np.full(3, np.nan), conformity_scores_=None)
UNTAUGHT = Predicted(metric_history_=[{"round": 0, "rows": 9}])


@pytest.mark.parametrize(
    ("display", "machine", "arguments", "options", "words"),
    [
        (GridDisplay, LSSVR().fit(X, Y), [], {}, "fit LSSVCCV, LSSVRCV or KernelRidgeCV"),
        (GridDisplay, "one cell", [], {}, "too few to plot"),
        (ImportanceDisplay, "plain", [], {}, 'metric="auto"'),
        (RoundsDisplay, "plain", [], {}, 'metric="auto"'),
        (ChoiceDisplay, "plain", [], {}, 'metric="auto"'),
        (RoundsDisplay, UNTAUGHT, [], {}, "not learned a metric"),
        (PredictionDisplay, "classes", [LABELS], {}, r"ReliabilityDisplay\.from_estimator"),
        (PredictionDisplay, "press", [Y], {}, r"no heldout_prediction_.*folds"),
        (PredictionDisplay, "plain", [Y[:-1]], {}, "pass the y that the estimator was fitted on"),
        (PredictionDisplay, "plain", [Y], {"coverage": 90}, "coverage"),
        (PredictionDisplay, NOTHING, [np.zeros(3)], {}, "the splits test none"),
        (ReliabilityDisplay, LSSVC().fit(X, LABELS), [LABELS], {}, "calibration="),
        (ReliabilityDisplay, "plain", [Y], {}, r"PredictionDisplay\.from_estimator"),
        (ReliabilityDisplay, "classes", [LABELS], {"label": "c"}, "unknown class 'c'"),
        (ReliabilityDisplay, "classes", [np.full(150, "x")], {}, "has the label"),
        (ReliabilityDisplay, "classes", [LABELS[1:]], {}, "pass the y"),
        (ReliabilityDisplay, classifier(np.full((2, 2), np.nan), [0, 1]), [[0, 1]], {}, "test none"),
    ],
)
def test_what_cannot_be_drawn(display, machine, arguments, options, words):
    machine = fit(machine) if isinstance(machine, str) else machine
    with pytest.raises(ValueError, match=words):
        display.from_estimator(machine, *arguments, **options)


def test_without_matplotlib(monkeypatch):
    display = searched(GRID)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for draw in (display.plot, lambda: as_png(display)):
        with pytest.raises(ImportError, match="pip install matplotlib"):
            draw()


def test_the_callers_axes_and_style():
    axes = Figure().add_subplot()
    display = GridDisplay.from_estimator(fit("plain")).plot(axes, cmap="magma")
    assert axes.collections[0].get_cmap().name == "magma"
    assert not plt.get_fignums()
    display.plot()
    assert len(plt.get_fignums()) == 1  # as in scikit-learn: a figure of pyplot, which notebooks show
    line = GridDisplay.from_estimator(fit("linear")).plot(Figure().add_subplot(), color="k")
    assert line.ax_.lines[0].get_color() == "k"


# The grid


def literal_region(results):
    """Cells within one standard error of the best, straight from the definition."""
    k = sum(name.startswith("split") for name in results)
    scores = np.stack([np.asarray(results[f"split{i}_test_score"]) for i in range(k)], axis=1)
    best = np.nanargmax(scores.mean(axis=1))
    inside = []
    for row in scores:
        d = scores[best] - row
        error = np.sqrt(np.sum((d - d.mean()) ** 2) / (k * (k - 1)))
        inside.append(d.mean() <= error + 1e-12)
    return np.array(inside)


@pytest.mark.parametrize("name", ["1se", "halving", "targets", "linear"])
def test_the_flat_region_is_that_of_the_definition(name):
    machine = fit(name)
    shown = GridDisplay.from_estimator(machine).plot()
    np.testing.assert_array_equal(shown.flat, literal_region(machine.cv_results_))
    np.testing.assert_array_equal(shown.scores, machine.cv_results_["mean_test_score"])
    assert shown.score == machine.best_score_
    if name == "1se":  # what select="1se" takes is inside, and nothing inside has a larger ridge
        assert shown.alphas[shown.flat].max() == machine.alpha_
    if name == "linear":  # a curve, which shows all of its flat region
        flat = shown.ax_.lines[1].get_ydata()
        assert len(flat) == shown.flat.sum()
        assert shown.ax_.get_ylim()[0] < flat.min() <= flat.max() < shown.ax_.get_ylim()[1]
    without = GridDisplay.from_estimator(fit("press"))
    assert without.flat is None
    assert "one score per candidate: no standard error" in without.describe()


def results(gammas, alphas, score, splits=0):
    """A table of a grid, with splits about each score."""
    pairs = [(g, a) for a in alphas for g in gammas]
    scores = np.array([score(g, a) for g, a in pairs])
    return {
        "params": [{"gamma": g, "alpha": a} for g, a in pairs],
        "mean_test_score": scores,
        **{f"split{i}_test_score": scores * (1 + 0.1 * i) for i in range(splits)},
    }


def searched(found):
    """The display of a search with such results, by a criterion that is a function."""
    scores = found["mean_test_score"]
    best = found["params"][int(np.nanargmax(scores))]
    machine = Predicted(cv_results_=found, best_params_=best, best_score_=np.nanmax(scores))
    machine.criterion = len
    return GridDisplay.from_estimator(machine)


def axes_of(found):
    return searched(found).plot(Figure().add_subplot()).ax_


GRID = results([0.25, 1.0, 4.0], [0.5, 3.0], lambda g, a: -abs(np.log2(g)) + 0.1 * a)


def test_every_candidate_shows_its_own_score_and_the_chosen_one_is_marked():
    axes = axes_of(GRID)
    points = axes.collections[0]
    order = np.argsort(GRID["mean_test_score"], kind="stable")
    np.testing.assert_allclose(points.get_array(), GRID["mean_test_score"][order])  # the best on top
    places = np.array([[one["gamma"], one["alpha"]] for one in GRID["params"]])[order]
    np.testing.assert_allclose(points.get_offsets(), places)
    chosen = next(line.get_xydata() for line in axes.lines if line.get_label() == "chosen")
    np.testing.assert_allclose(chosen, [[1.0, 3.0]])
    assert axes.get_title(loc="left") == "score 0.3\nat gamma = 2^0, alpha = 3"
    several = [one | {"gamma": (0.1, one["gamma"])} for one in GRID["params"]]  # widths
    assert np.isnan(searched({**GRID, "params": several}).gammas).all()


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_scores_widths_and_ridges_of_any_size(unit):
    ends = (1e-100, 1e100)
    found = results(ends, ends, lambda g, a: -unit * {(ends[0], ends[0]): 1, ends: 2}.get((a, g), 3), 3)
    for name in ("mean_test_score", "split0_test_score"):
        found[name][-1] = np.nan
    drawn = searched(found).plot()
    drawn.figure_.draw_without_rendering()
    assert drawn.flat.tolist() == [True, False, False]
    assert as_png(drawn).startswith(b"\x89PNG")


def test_curves_points_and_flat_searches():
    curve = results([1.0], [0.5, 1.0, 2.0], lambda g, a: -a)
    without = {**curve, "params": [{"alpha": one["alpha"]} for one in curve["params"]]}
    for given in (curve, without):
        assert not axes_of(given).collections
        line = axes_of(given).lines[0].get_xydata()
        np.testing.assert_allclose(line, [[0.5, -0.5], [1, -1], [2, -2]])
    across = axes_of(results([0.5, 1.0, 2.0], [1.0], lambda g, a: -g))
    assert across.get_xlabel().startswith("gamma")
    flat = results([1.0, 2.0], [1.0, 2.0], lambda g, a: 0.5)
    flat["mean_test_score"][0] = np.nan
    assert len(axes_of(flat).collections[0].get_array()) == 3


def test_scores_are_drawn_as_people_read_them():
    """Squared errors as RMSE, error rates as accuracy; the best is the brightest either way."""
    drawn = GridDisplay.from_estimator(fit("plain")).plot()
    points = drawn.ax_.collections[0]
    np.testing.assert_allclose(np.sort(points.get_array()), np.sort(np.sqrt(-drawn.scores)))
    assert points.get_cmap().name == "viridis_r"
    assert "RMSE (lower is better)" in [axes.get_ylabel() for axes in drawn.figure_.axes]
    classes = GridDisplay.from_estimator(fit("classes")).plot()
    shares = np.asarray(classes.ax_.collections[0].get_array())
    np.testing.assert_allclose(shares, np.sort(1 + classes.scores))


# What was learned


def test_scores_round_by_round():
    machine = fit("blend")
    display = RoundsDisplay.from_estimator(machine)
    history = machine.metric_history_
    assert display.scores == {(o["kernel"], o["metric"], o["round"]): o["score"] for o in history}
    lines = {line.get_label(): line.get_xydata() for line in display.plot().ax_.lines}
    for (kernel, metric), points in ((tuple(k.split(", ")), v) for k, v in lines.items() if "," in k):
        rounds = sorted(r for k, m, r in display.scores if (k, m) == (kernel, metric))
        assert points[:, 0].tolist() == [0, *rounds]
        scores = [display.scores[kernel, metric, r] for r in rounds]
        np.testing.assert_allclose(points[1:, 1], np.sqrt(np.negative(scores)))
    axes = RoundsDisplay(display.scores, display.chosen, "mse", 80).plot().ax_
    assert axes.get_title(loc="left").endswith("with models of 80 rows, before the choice")
    assert "chosen" not in axes.get_legend_handles_labels()[1]  # these scores have not decided


def test_the_choice_is_the_simplest_within_a_standard_error_of_the_best():
    machine = fit("blend")
    display = ChoiceDisplay.from_estimator(machine)
    assert display.differences[0] == display.errors[0] == 0.0
    assert (np.diff(display.differences) >= 0).all()
    tied = [group for group, inside in zip(display.groups, display.tied) if inside]
    assert display.chosen in tied
    number = min(round for _, _, round in tied)
    assert display.chosen[2] == number
    axes = display.plot().ax_
    ring = next(line.get_xydata()[0] for line in axes.lines if line.get_label() == "chosen")
    place = display.groups.index(display.chosen)
    assert len(display.groups) > 3
    np.testing.assert_allclose(ring, [100 * display.differences[place], len(display.groups) - 1 - place])
    assert "the simplest kernel and metric within one standard error" in display.caption()


def test_importances_as_bars_with_names_that_are_short_and_plain():
    machine = fit("blend")
    drawn = ImportanceDisplay.from_estimator(machine).plot()
    widths = [bar.get_width() for bar in drawn.ax_.patches]
    np.testing.assert_allclose(widths, 100 * np.sort(machine.feature_importances_)[::-1])
    first = f"feature {np.argmax(machine.feature_importances_)}"
    assert drawn.ax_.get_yticklabels()[0].get_text() == first
    assert f"{first} " in drawn.describe()
    names = {"price in $ or $": 0.5, "x" * 90: 0.3, "y" * 90: 0.2}
    table = SimpleNamespace(estimator_=machine, importances_=names)  # of a table's columns
    drawn = ImportanceDisplay.from_estimator(table, most=2).plot()
    assert [len(label.get_text()) for label in drawn.ax_.get_yticklabels()] == [17, 24]
    assert "the 2 largest of 3" in drawn.ax_.get_title(loc="left")


# Held-out rows


@pytest.mark.parametrize("coverage", [0.5, 0.95])
def test_the_band_and_the_share_inside(coverage):
    y = np.random.default_rng(1).normal(size=119)
    machine = predicted(y)
    display = PredictionDisplay.from_estimator(machine, y, coverage=coverage)
    # By hand: the least width with at least ⌈c (n + 1)⌉ rows inside.
    errors = sorted(abs(machine.heldout_prediction_ - y))
    need = next(k for k in range(1, 120) if k >= coverage * 120 - 1e-9)
    assert display.half_width == pytest.approx(errors[need - 1])
    assert display.share_inside == sum(e <= errors[need - 1] for e in errors) / 119
    for kind in ("actual_vs_predicted", "residuals"):
        lower, upper = replace(display, kind=kind).plot().ax_.lines[-2:]
        np.testing.assert_allclose(upper.get_ydata() - lower.get_ydata(), 2 * errors[need - 1])
        assert f"{display.share_inside:.1%} inside" in upper.get_label()


def test_rows_that_are_few_many_or_not_tested():
    y = np.random.default_rng(0).normal(size=5001)
    drawn = PredictionDisplay.from_estimator(predicted(y[:3]), y[:3]).plot()
    assert drawn.half_width == np.inf
    assert any("Too few rows" in words for words in drawn.ax_.get_legend_handles_labels()[1])
    assert np.isnan(PredictionDisplay(y, y).share_inside)
    nine = PredictionDisplay.from_estimator(predicted(y[:9]), y[:9])
    assert nine.share_inside == 1.0  # just enough for 90 %
    drawn = PredictionDisplay.from_estimator(predicted(y), y).plot()
    assert len(drawn.ax_.collections[0].get_offsets()) == 5000
    assert "5,001 held-out rows, 5,000 of them drawn" in drawn.ax_.get_title(loc="left")
    machine = predicted(y[:20])
    machine.heldout_prediction_[:5] = machine.conformity_scores_[:5] = np.nan
    display = PredictionDisplay.from_estimator(machine, y[:20])
    np.testing.assert_array_equal(display.target, y[5:20])
    assert display.half_width == pytest.approx(np.max(machine.conformity_scores_[5:]))


@pytest.mark.parametrize("kind", ["actual_vs_predicted", "residuals"])
def test_points_are_held_out_rows(kind):
    machine = fit("targets")
    y = MACHINES["targets"][1]
    display = PredictionDisplay.from_estimator(machine, y, target=1, kind=kind).plot()
    points = display.ax_.collections[0].get_offsets()
    held = machine.heldout_prediction_
    np.testing.assert_array_equal(points[:, 0], held[:, 1])
    np.testing.assert_array_equal(points[:, 1], y[:, 1] - (held[:, 1] if kind == "residuals" else 0.0))
    assert display.ax_.get_ylabel().startswith("target 1 of 3")
    for given in (pd.Series(Y), Y.tolist(), Y[:, None]):
        np.testing.assert_array_equal(PredictionDisplay.from_estimator(fit("plain"), given).target, Y)


def test_the_calibration_error_by_hand():
    """Four bins of two rows each."""
    p = np.array([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9])
    y = np.array([[0, 0, 1, 0, 1, 1, 1, 0]]).T
    display = ReliabilityDisplay.from_estimator(classifier(np.c_[1 - p, p], [0, 1]), y, n_bins=4)
    np.testing.assert_allclose(display.predicted, [0.15, 0.35, 0.65, 0.85])
    np.testing.assert_allclose(display.observed, [0.0, 0.5, 1.0, 0.5])
    assert display.counts.tolist() == [2, 2, 2, 2]
    np.testing.assert_allclose(display.calibration_error, np.mean([0.15, 0.15, 0.35, 0.35]))
    words = display.plot().ax_.get_legend_handles_labels()[1]
    assert "expected calibration error 0.250 (4 bins)" in words


def test_bins_partition_the_rows_whatever_the_ties():
    rng = np.random.default_rng(0)
    for p in (rng.integers(0, 3, 97) / 2, np.full(97, 0.3)):
        hits = rng.uniform(size=len(p)) < p
        display = ReliabilityDisplay(p, hits, 10)
        assert len(display.counts) == len(np.unique(p))
        np.testing.assert_allclose(display.counts @ display.predicted, p.sum())
        np.testing.assert_allclose(display.counts @ display.observed, hits.sum())


def test_classes_by_name_and_the_likeliest_of_many():
    proba = np.random.default_rng(0).dirichlet([1, 1, 1], 150)
    proba[:7] = np.nan
    machine = classifier(proba, [0, 1, 2])
    top = ReliabilityDisplay.from_estimator(machine, THREE)
    np.testing.assert_array_equal(top.probability, proba[7:].max(axis=1))
    np.testing.assert_array_equal(top.happened, proba[7:].argmax(axis=1) == THREE[7:])
    one = ReliabilityDisplay.from_estimator(machine, THREE, label=2)
    np.testing.assert_array_equal(one.probability, proba[7:, 2])
    np.testing.assert_array_equal(one.happened, THREE[7:] == 2)
    two = ReliabilityDisplay.from_estimator(classifier(proba[:, :2], ["no", "yes"]), LABELS.tolist())
    assert two.event == "class yes"
    np.testing.assert_array_equal(two.happened, (LABELS == "yes")[7:])


@pytest.mark.parametrize("target", [3, 5, -4])
def test_a_target_that_there_is_not_is_refused(target):
    """It was an IndexError of NumPy's."""
    machine = fit("targets")
    y = MACHINES["targets"][1]
    words = f"target must be an index from 0 to 2, as the estimator predicts 3; got {target}"
    with pytest.raises(ValueError, match=words):
        PredictionDisplay.from_estimator(machine, y, target=target)
