"""Every display draws, describes itself and refuses what it cannot draw; and what each of them shows."""

from __future__ import annotations

import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from plotted_machines import LABELS, MACHINES, THREE, X, Y
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onefold import LSSVC, LSSVR, LSSVRCV
from onefold.plots import (
    GridDisplay,
    ImportanceDisplay,
    PredictionDisplay,
    ReliabilityDisplay,
    RoundsDisplay,
)
from onefold.plots.display import as_png
from onefold.plots.search import _power as power_label

pytestmark = pytest.mark.filterwarnings("error")
SEARCHED = [
    "plain", "classes", "three", "blend", "families", "halving", "press", "objective", "one gamma",
    "one alpha", "linear", "leave one out", "1se", "targets", "checked",
]  # fmt: skip
REGRESSIONS = ["plain", "blend", "halving", "families", "one cell", "linear", "targets"]
DRAWN = [
    *((GridDisplay, name) for name in SEARCHED),
    *((PredictionDisplay, name) for name in REGRESSIONS),
    *((ReliabilityDisplay, name) for name in ("classes", "three")),
    (RoundsDisplay, "blend"),
    (ImportanceDisplay, "blend"),
]


def targets_of(display, name):
    """What `from_estimator` takes beside the machine."""
    return [MACHINES[name][1]] if display in (PredictionDisplay, ReliabilityDisplay) else []


@pytest.mark.parametrize(("display", "name"), DRAWN, ids=lambda one: getattr(one, "__name__", one))
def test_every_display_draws_describes_and_refuses_the_unfitted(fit, display, name):
    machine, targets = fit(name), targets_of(display, name)
    shown = display.from_estimator(machine, *targets)
    axes = Figure().add_subplot()
    assert shown.plot(axes) is shown
    assert (shown.ax_, shown.figure_) == (axes, axes.figure)
    axes.figure.draw_without_rendering()
    assert shown.describe().endswith((".", "inside"))
    for axis in (axes.xaxis, axes.yaxis):
        assert axis.get_offset_text().get_text() == ""
        labels = [label.get_text() for label in axis.get_ticklabels()]
        assert len(labels) == len(set(labels))
    if display is GridDisplay:
        assert "chosen" in axes.get_legend_handles_labels()[1]
    inside = make_pipeline(StandardScaler(), machine)
    assert display.from_estimator(inside, *targets).describe() == shown.describe()
    with pytest.raises(ValueError, match="not fitted yet; call fit"):
        display.from_estimator(type(machine)(), *targets)


CLASSIFIER, PLAIN = (lambda fit: fit("classes")), (lambda fit: fit("plain"))


@pytest.mark.parametrize(
    ("display", "machine", "arguments", "options", "words"),
    [
        (GridDisplay, lambda fit: LSSVR().fit(X, Y), [], {}, "fit LSSVCCV, LSSVRCV or KernelRidgeCV"),
        (GridDisplay, lambda fit: fit("one cell"), [], {}, "would be one dot"),
        (ImportanceDisplay, PLAIN, [], {}, 'metric="auto"'),
        (RoundsDisplay, PLAIN, [], {}, 'metric="auto"'),
        (ImportanceDisplay, lambda fit: fit("blend"), [], {"names": ["a"]}, "names has 1 entries"),
        (ImportanceDisplay, lambda fit: fit("blend"), [], {"most": 0}, "most"),
        (PredictionDisplay, CLASSIFIER, [LABELS], {}, r"ReliabilityDisplay\.from_estimator"),
        (PredictionDisplay, lambda fit: fit("press"), [Y], {}, r"no heldout_prediction_.*folds"),
        (PredictionDisplay, lambda fit: LSSVR().fit(X, Y), [Y], {}, "fit LSSVRCV or KernelRidgeCV"),
        (PredictionDisplay, PLAIN, [Y[:-1]], {}, "pass the y that the estimator was fitted on"),
        (PredictionDisplay, PLAIN, [Y], {"kind": "qq"}, "kind must be one of"),
        (PredictionDisplay, PLAIN, [Y], {"coverage": 90}, "coverage"),
        (PredictionDisplay, PLAIN, [Y], {"target": 3}, "from 0 to 0; got 3"),
        (PredictionDisplay, lambda fit: nothing(), [np.zeros(3)], {}, "the splits tested none"),
        (ReliabilityDisplay, lambda fit: LSSVC().fit(X, LABELS), [LABELS], {}, "calibration="),
        (ReliabilityDisplay, PLAIN, [Y], {}, r"PredictionDisplay\.from_estimator"),
        (ReliabilityDisplay, CLASSIFIER, [LABELS], {"label": "c"}, "no class 'c'"),
        (ReliabilityDisplay, CLASSIFIER, [np.full(150, "x")], {}, "the label 'x'"),
        (ReliabilityDisplay, CLASSIFIER, [LABELS[1:]], {}, "pass the y"),
        (ReliabilityDisplay, CLASSIFIER, [LABELS], {"n_bins": 0}, "n_bins"),
    ],
)
def test_what_cannot_be_drawn(fit, display, machine, arguments, options, words):
    with pytest.raises(ValueError, match=words):
        display.from_estimator(machine(fit), *arguments, **options)


def nothing():
    return Predicted(heldout_prediction_=np.full(3, np.nan), conformity_scores_=None)


def literal_region(results, own):
    """Cells within one standard error of the best, straight from the definition."""
    k = sum(name.startswith("split") for name in results)
    scores = np.stack([np.asarray(results[f"split{i}_test_score"]) for i in range(k)], axis=1)[own]
    best = np.nanargmax(scores.mean(axis=1))
    inside = []
    for row in scores:
        d = scores[best] - row
        error = np.sqrt(np.sum((d - d.mean()) ** 2) / (k * (k - 1)))
        inside.append(d.mean() <= error + 1e-12)
    return np.array(inside)


@pytest.mark.parametrize("name", ["plain", "1se", "halving", "families", "targets", "linear"])
def test_the_flat_region_is_that_of_the_definition(fit, name):
    machine = fit(name)
    results, best = machine.cv_results_, machine.best_params_
    own = np.array([one.get("kernel") == best.get("kernel") for one in results["params"]])
    shown = GridDisplay.from_estimator(machine)
    np.testing.assert_array_equal(shown.flat, literal_region(results, own))
    np.testing.assert_array_equal(shown.scores, np.asarray(results["mean_test_score"])[own])
    if name == "1se":  # what select="1se" takes is inside, and nothing inside has a larger ridge
        assert shown.alphas[shown.flat].max() == machine.alpha_


@pytest.mark.parametrize("name", ["press", "leave one out"])
def test_without_splits_there_is_no_region(fit, name):
    drawn = GridDisplay.from_estimator(fit(name)).plot()
    assert drawn.flat is None
    assert "one score per candidate: no standard error" in drawn.ax_.get_legend_handles_labels()[1]
    assert "no standard error" in drawn.describe()


def table(scores, gammas=(0.5, 1.0), alphas=(0.1, 1.0)):
    """A table with three splits about each score."""
    pairs = [(a, g) for a in alphas for g in gammas]
    scores = np.asarray(scores, dtype=float)
    results = {
        "params": [{"alpha": a, "gamma": g} for a, g in pairs],
        "param_alpha": np.ma.array([a for a, _ in pairs]),
        "param_gamma": np.ma.array([g for _, g in pairs]),
        "mean_test_score": scores,
    }
    return results | {f"split{i}_test_score": scores * (1 + 0.1 * i) for i in range(3)}


@pytest.mark.parametrize("unit", [1e-300, 1e-12, 1.0, 1e12, 1e300])
def test_scores_widths_and_ridges_of_any_size(unit):
    scores = -unit * np.array([1.0, 2.0, 3.0, np.nan])
    results = table(scores, gammas=(1e-300, 1e300), alphas=(1e-300, 1e300))
    drawn = GridDisplay.from_results(results).plot()
    drawn.figure_.draw_without_rendering()
    assert drawn.flat.tolist() == [True, False, False]
    assert as_png(drawn).startswith(b"\x89PNG")


def test_a_search_that_was_stopped(fit):
    X = np.random.default_rng(0).normal(size=(60, 2))
    machine = LSSVRCV(time_budget=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine.fit(X, X[:, 0])
    assert machine.search_["stopped"] == "time_budget"
    GridDisplay.from_estimator(machine).plot()


def test_the_callers_axes_and_style(fit):
    axes = Figure().add_subplot()
    display = GridDisplay.from_estimator(fit("plain")).plot(axes, cmap="magma")
    assert axes.collections[0].get_cmap().name == "magma"
    assert not plt.get_fignums()
    display.plot()
    assert len(plt.get_fignums()) == 1  # as in scikit-learn: a figure of pyplot, which notebooks show
    for name in ("c", "color"):
        line = GridDisplay.from_estimator(fit("linear")).plot(Figure().add_subplot(), **{name: "k"})
        assert line.ax_.lines[0].get_color() == "k"


def test_scores_are_drawn_as_people_read_them(fit):
    """Squared errors as RMSE, error rates as accuracy; the best is the brightest either way."""
    drawn = GridDisplay.from_estimator(fit("plain")).plot()
    mesh = drawn.ax_.collections[0]
    np.testing.assert_allclose(np.sort(mesh.get_array()), np.sort(np.sqrt(-drawn.scores)))
    assert mesh.get_cmap().name == "viridis_r"
    assert "RMSE (lower is better)" in [axes.get_ylabel() for axes in drawn.figure_.axes]
    assert drawn.ax_.get_title(loc="left").startswith("RMSE 0.7")
    classes = GridDisplay.from_estimator(fit("classes")).plot()
    shares = np.asarray(classes.ax_.collections[0].get_array())
    np.testing.assert_allclose(shares, np.sort(1 + classes.scores))
    rounds = RoundsDisplay.from_estimator(fit("blend"))
    large = RoundsDisplay(
        {group: 1e10 * one for group, one in rounds.scores.items()}, rounds.chosen, "mse"
    )
    axes = large.plot().ax_
    axes.figure.draw_without_rendering()
    assert axes.yaxis.get_offset_text().get_text() == ""
    assert all("e" not in label.get_text() for label in axes.get_yticklabels())


def results(gammas, alphas, score):
    pairs = [(g, a) for a in alphas for g in gammas]
    return {
        "param_gamma": np.ma.array([g for g, _ in pairs]),
        "param_alpha": np.ma.array([a for _, a in pairs]),
        "mean_test_score": np.array([score(g, a) for g, a in pairs]),
    }


def axes_of(found, best=None, **settings):
    return GridDisplay.from_results(found, best, **settings).plot(Figure().add_subplot()).ax_


GRID = results([0.25, 1.0, 4.0], [0.5, 2.0], lambda g, a: -abs(np.log2(g)) - 0.1 * a)


def test_every_candidate_shows_its_own_score():
    axes = axes_of(GRID)
    points = axes.collections[0]
    order = np.argsort(GRID["mean_test_score"], kind="stable")  # the best lie on top
    np.testing.assert_allclose(points.get_array(), GRID["mean_test_score"][order])
    places = np.log2([GRID["param_gamma"], GRID["param_alpha"]]).T[order]
    np.testing.assert_allclose(points.get_offsets(), places)
    assert [t.get_text() for t in axes.get_xticklabels()] == ["$2^{-2}$", "$2^{0}$", "$2^{2}$"]


def chosen_in(axes):
    return next(line.get_xydata() for line in axes.lines if line.get_label() == "chosen")


def test_the_chosen_point_is_marked():
    axes = axes_of(GRID)
    np.testing.assert_allclose(chosen_in(axes), [[0.0, -1.0]])
    assert axes.get_title(loc="left") == "score -0.05\nat gamma = $2^{0}$, alpha = $2^{-1}$"
    best = {"gamma": 4.0, "alpha": 2.0}
    axes = axes_of(GRID, best, headline="2 $ error")
    np.testing.assert_allclose(chosen_in(axes), [[2.0, 1.0]])
    assert axes.get_title(loc="left").startswith("2 \\$ error\nat gamma = $2^{2}$")


def test_terrible_cells_do_not_wash_out_the_rest():
    gammas, alphas = 2.0 ** np.arange(-6, 6), 2.0 ** np.arange(-5, 5)
    bad = results(gammas, alphas, lambda g, a: -1e9 if g > 4 else -1 - 0.1 * abs(np.log2(g)) - 0.01 * a)
    axes = axes_of(bad)
    low, high = axes.collections[0].get_clim()
    assert high == max(bad["mean_test_score"])
    assert -5 < low < -1.2


def test_one_gamma_gives_a_curve():
    curve = results([1.0], [0.5, 1.0, 2.0], lambda g, a: -a)
    without = {key: curve[key] for key in ("param_alpha", "mean_test_score")}
    for given in (curve, without):
        axes = axes_of(given)
        assert not axes.collections
        np.testing.assert_allclose(axes.lines[0].get_xydata(), [[-1, -0.5], [0, -1], [1, -2]])
    across = results([0.5, 1.0, 2.0], [1.0], lambda g, a: -g)
    axes = axes_of(across)
    assert axes.get_xlabel().startswith("gamma")


def test_candidates_that_are_no_grid_are_round():
    rng = np.random.default_rng(0)
    gammas, alphas, scores = *2.0 ** rng.uniform(-5, 3, (2, 12)), rng.standard_normal(12)
    scores[3] = np.nan
    found = {"param_gamma": gammas, "param_alpha": alphas, "mean_test_score": scores}
    round_, square = (axes_of(one).collections[0].get_paths()[0] for one in (found, GRID))
    assert len(round_.vertices) > len(square.vertices)


def test_flat_and_partly_undefined_searches_are_drawn():
    flat = results([1.0, 2.0], [1.0, 2.0], lambda g, a: 0.5)
    axes_of(flat)
    flat["mean_test_score"][0] = np.nan
    assert len(axes_of(flat).collections[0].get_array()) == 3
    flat["mean_test_score"][:] = np.nan
    with pytest.raises(ValueError, match="fewer than two finite scores"):
        axes_of(flat)


def test_labels_and_widths_that_are_not_numbers():
    assert power_label(3.0) == "$2^{1.6}$"
    shown = GridDisplay.from_results({**GRID, "param_gamma": ["scale"] * 6})
    assert np.isnan(shown.gammas).all()
    assert shown.score == -0.05
    with pytest.raises(ValueError, match="param_alpha"):
        GridDisplay.from_results({"mean_test_score": [1.0, 2.0]})


def test_shares_as_bars(fit):
    machine = fit("blend")
    drawn = ImportanceDisplay.from_estimator(machine).plot()
    widths = [bar.get_width() for bar in drawn.ax_.patches]
    np.testing.assert_allclose(widths, 100 * np.sort(machine.feature_importances_)[::-1])
    first = int(np.argmax(machine.feature_importances_))
    assert drawn.ax_.get_yticklabels()[0].get_text() == f"feature {first}"
    assert f"feature {first}" in drawn.describe()


def test_names_of_features_are_short_plain_and_distinct(fit):
    names = ["price in $ or $", "x" * 90, "x" * 90]
    drawn = ImportanceDisplay.from_estimator(fit("blend"), names=names, most=2).plot()
    assert len(drawn.importances) == 3
    labels = [label.get_text() for label in drawn.ax_.get_yticklabels()]
    assert len(labels) == 2
    assert all(len(label) <= 26 for label in labels)
    assert "the 2 largest of 3" in drawn.ax_.get_title(loc="left")


def test_names_of_a_table_and_shares_of_a_tables_estimator(fit):
    pandas = pytest.importorskip("pandas")
    machine, y = MACHINES["blend"]
    named = clone(machine).set_params(kernel="rbf", gammas=[1.0], alphas=[0.1], blend=False)
    named.fit(pandas.DataFrame(X, columns=["a", "b", "c"]), y)
    assert set(ImportanceDisplay.from_estimator(named).importances) == {"a", "b", "c"}

    class TableRegressor:
        estimator_ = named
        importances_ = {"colour": 0.75, "size": 0.25}  # noqa: RUF012

    assert ImportanceDisplay.from_estimator(TableRegressor()).importances == TableRegressor.importances_
    assert RoundsDisplay.from_estimator(TableRegressor()).chosen[0] == "rbf"


def test_scores_round_by_round(fit):
    machine = fit("blend")
    display = RoundsDisplay.from_estimator(machine)
    assert display.scores == {
        (one["kernel"], one["metric"], one["round"]): one["score"] for one in machine.metric_history_
    }
    drawn = display.plot()
    lines = {line.get_label(): line.get_xydata() for line in drawn.ax_.lines}
    for (kernel, metric), points in ((tuple(k.split(", ")), v) for k, v in lines.items() if "," in k):
        rounds = sorted(r for k, m, r in display.scores if (k, m) == (kernel, metric))
        assert points[:, 0].tolist() == [0, *rounds]
        scores = [display.scores[kernel, metric, r] for r in rounds]
        np.testing.assert_allclose(points[1:, 1], np.sqrt(np.negative(scores)))


def test_the_machine_inside_other_estimators(fit):
    inside = TransformedTargetRegressor(LSSVRCV(gammas=[0.1, 1.0], alphas=[0.1, 1.0]), func=np.cbrt,
                                        inverse_func=lambda y: y**3)  # fmt: skip
    inside.fit(X, X[:, 0])
    assert GridDisplay.from_estimator(inside).score == inside.regressor_.best_score_


def test_without_matplotlib(monkeypatch):
    display = GridDisplay.from_results(GRID)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for draw in (display.plot, lambda: as_png(display)):
        with pytest.raises(ImportError, match=r'pip install "onefold\[plot\]"'):
            draw()


class Predicted(SimpleNamespace):
    """A stand-in for a fitted regressor."""

    expansion_ = None


def predicted(y, spread=0.3, seed=0, **more):
    y = np.asarray(y, dtype=float)
    held = y + spread * np.random.default_rng(seed).normal(size=y.shape)
    return Predicted(heldout_prediction_=held, conformity_scores_=np.abs(y - held), **more)


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


@pytest.mark.parametrize("kind", ["actual_vs_predicted", "residuals"])
def test_points_are_held_out_rows(fit, kind):
    machine, y = fit("targets"), MACHINES["targets"][1]
    for target in range(3):
        display = PredictionDisplay.from_estimator(machine, y, target=target, kind=kind)
        points, held = display.plot().ax_.collections[0].get_offsets(), machine.heldout_prediction_
        np.testing.assert_array_equal(points[:, 0], held[:, target])
        expected = y[:, target] - (held[:, target] if kind == "residuals" else 0.0)
        np.testing.assert_array_equal(points[:, 1], expected)
        assert display.ax_.get_ylabel().startswith(f"target {target} of 3")
