"""The grid, its flat region and what was learned."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from plotted_machines import MACHINES, X
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onefold import LSSVR, LSSVRCV
from onefold.plots import GridDisplay, ImportanceDisplay, RoundsDisplay
from onefold.plots.display import as_png, power_label
from onefold.plots.grid import SearchGrid

pytestmark = pytest.mark.filterwarnings("error")
SEARCHED = [
    "plain", "classes", "three", "blend", "families", "halving", "press", "objective", "one gamma",
    "one alpha", "one cell", "linear", "leave one out", "1se", "targets", "checked",
]  # fmt: skip


def labelled(axes, start):
    return next(line for line in axes.lines if str(line.get_label()).startswith(start))


@pytest.mark.parametrize("name", SEARCHED)
def test_every_search_is_drawn(fit, name):
    drawn = GridDisplay.from_estimator(fit(name)).plot()
    drawn.figure_.draw_without_rendering()
    assert drawn.ax_ in drawn.figure_.axes
    assert "chosen" in drawn.ax_.get_legend_handles_labels()[1]


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
    grid = GridDisplay.from_estimator(machine).grid
    inside = literal_region(results, own)
    expected = {
        (one["alpha"], one.get("gamma"))
        for one, there in zip(np.array(results["params"])[own], inside)
        if there
    }
    widths = grid.gammas.tolist() or [None]
    rows, columns = np.nonzero(grid.flat)
    assert {(grid.alphas[r], widths[c]) for r, c in zip(rows, columns)} == expected


def test_the_simplest_cell_lies_in_the_region(fit):
    """What ``select="1se"`` takes is inside, and nothing inside has a larger ridge."""
    machine = fit("1se")
    grid = GridDisplay.from_estimator(machine).grid
    assert grid.alphas[grid.flat.any(axis=1)].max() == machine.alpha_
    assert grid.flat[grid.alphas == machine.alpha_, grid.gammas == machine.gamma_].all()


@pytest.mark.parametrize("name", ["press", "leave one out"])
def test_without_splits_there_is_no_region(fit, name):
    drawn = GridDisplay.from_estimator(fit(name)).plot()
    assert drawn.grid.flat is None
    assert "one score per cell: no standard error" in drawn.ax_.get_legend_handles_labels()[1]
    assert "no standard error" in drawn.describe()


def test_the_outline_goes_around_the_region(fit):
    drawn = GridDisplay.from_estimator(fit("plain")).plot()
    line = labelled(drawn.ax_, "within one standard error")
    segments = line.get_xydata()[1:].reshape(-1, 3, 2)[:, :2]
    flat = drawn.grid.flat
    around = np.pad(flat, 1)
    borders = sum(int((np.diff(around, axis=axis) != 0).sum()) for axis in (0, 1))
    assert len(segments) == borders
    cells = int(flat.sum())
    assert line.get_label() == f"within one standard error ({cells} cell{'s' * (cells > 1)})"


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
    drawn = GridDisplay(SearchGrid.of(results)).plot()
    drawn.figure_.draw_without_rendering()
    assert drawn.grid.flat.tolist() == [[True, False], [False, False]]
    assert as_png(drawn).startswith(b"\x89PNG")


def test_a_cell_shows_the_best_of_its_candidates_and_is_judged_by_it():
    results = table([-1.0, -2.0, -3.0, -1.0], gammas=(1.0, 1.0))
    for name in list(results):
        if name.startswith("split"):
            results[name] = results["mean_test_score"].copy()
    grid = SearchGrid.of(results)
    assert grid.scores.tolist() == [[-1.0], [-1.0]]
    assert grid.flat.tolist() == [[True], [True]]


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
    display = GridDisplay.from_estimator(fit("plain"))
    assert display.plot(axes, cmap="magma") is display
    assert display.ax_ is axes
    assert display.figure_ is axes.figure
    assert axes.collections[0].get_cmap().name == "magma"
    assert not plt.get_fignums()
    display.plot()
    assert len(plt.get_fignums()) == 1  # as in scikit-learn: a figure of pyplot, which notebooks show
    for name in ("c", "color"):
        line = GridDisplay.from_estimator(fit("linear")).plot(Figure().add_subplot(), **{name: "k"})
        assert line.ax_.lines[0].get_color() == "k"


def test_the_last_step_of_a_pipeline(fit):
    pipeline = make_pipeline(StandardScaler(), fit("plain"))
    assert GridDisplay.from_estimator(pipeline).grid.score == fit("plain").best_score_


def results(gammas, alphas, score):
    pairs = [(g, a) for a in alphas for g in gammas]
    return {
        "param_gamma": np.ma.array([g for g, _ in pairs]),
        "param_alpha": np.ma.array([a for _, a in pairs]),
        "mean_test_score": np.array([score(g, a) for g, a in pairs]),
    }


def axes_of(found, best=None, **settings):
    return GridDisplay(SearchGrid.of(found, best), **settings).plot(Figure().add_subplot()).ax_


GRID = results([0.25, 1.0, 4.0], [0.5, 2.0], lambda g, a: -abs(np.log2(g)) - 0.1 * a)


def test_every_cell_shows_its_own_score():
    axes = axes_of(GRID)
    mesh = axes.collections[0]
    drawn = np.asarray(mesh.get_array()).reshape(2, 3)
    expected = [[-2.05, -0.05, -2.05], [-2.2, -0.2, -2.2]]
    np.testing.assert_allclose(drawn, expected)
    corners = mesh.get_coordinates()
    np.testing.assert_allclose(corners[0, :, 0], [-3, -1, 1, 3])  # log2 gamma along x
    np.testing.assert_allclose(corners[:, 0, 1], [-2, 0, 2])  # log2 alpha along y
    assert [t.get_text() for t in axes.get_xticklabels()] == ["$2^{-2}$", "$2^{0}$", "$2^{2}$"]


def chosen_in(axes):
    return next(line.get_xydata() for line in axes.lines if line.get_label() == "chosen")


def test_the_chosen_point_is_marked():
    axes = axes_of(GRID)
    np.testing.assert_allclose(chosen_in(axes), [[0.0, -1.0]])
    assert axes.get_title(loc="left") == "best score -0.05\nat gamma = $2^{0}$, alpha = $2^{-1}$"
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


def test_candidates_that_are_no_grid_are_points():
    rng = np.random.default_rng(0)
    gammas, alphas, scores = *2.0 ** rng.uniform(-5, 3, (2, 12)), rng.standard_normal(12)
    scores[3] = np.nan
    found = {"param_gamma": gammas, "param_alpha": alphas, "mean_test_score": scores}
    axes = axes_of(found)
    points = axes.collections[0]
    order = np.argsort(scores)[:-1]  # NaN comes last
    np.testing.assert_allclose(points.get_array(), scores[order])
    np.testing.assert_allclose(points.get_offsets(), np.log2([gammas, alphas]).T[order])
    labels = [text.get_text() for text in axes.get_xticklabels()]
    assert len(labels) == len(set(labels))
    assert not any("." in label for label in labels)


def test_flat_and_partly_undefined_searches_are_drawn():
    flat = results([1.0, 2.0], [1.0, 2.0], lambda g, a: 0.5)
    axes_of(flat)
    flat["mean_test_score"][0] = np.nan
    axes = axes_of(flat)
    assert np.ma.getmaskarray(axes.collections[0].get_array()).sum() == 1
    flat["mean_test_score"][:] = np.nan
    with pytest.raises(ValueError, match="no candidate of this search has a finite score"):
        axes_of(flat)


def test_labels_and_widths_that_are_not_numbers():
    assert power_label(3.0) == "$2^{1.6}$"
    grid = SearchGrid.of({**GRID, "param_gamma": ["scale"] * 6})
    assert grid.gammas.size == 0
    assert grid.score == -0.05
    with pytest.raises(ValueError, match="param_alpha"):
        SearchGrid.of({"mean_test_score": [1.0]})


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
    assert "the greatest 2 of 3" in drawn.ax_.get_title(loc="left")
    with pytest.raises(ValueError, match="names has 1 entries, and there are 3"):
        ImportanceDisplay.from_estimator(fit("blend"), names=["a"])
    with pytest.raises(ValueError, match="most"):
        ImportanceDisplay.from_estimator(fit("blend"), most=0)


def test_names_of_a_table_and_shares_of_a_tables_estimator(fit):
    pandas = pytest.importorskip("pandas")
    machine, y = MACHINES["blend"]
    from sklearn.base import clone

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
        assert points[1:, 1].tolist() == [display.scores[kernel, metric, r] for r in rounds]


@pytest.mark.parametrize(
    ("display", "name", "words"),
    [
        (GridDisplay, None, "fit LSSVCCV, LSSVRCV or KernelRidgeCV"),
        (ImportanceDisplay, "plain", 'metric="auto"'),
        (RoundsDisplay, "plain", 'metric="auto"'),
    ],
)
def test_what_has_nothing_to_draw(fit, display, name, words):
    machine = LSSVR().fit(X, X[:, 0]) if name is None else fit(name)
    with pytest.raises(ValueError, match=words):
        display.from_estimator(machine)
    with pytest.raises(ValueError, match="not fitted yet; call fit"):
        display.from_estimator(type(machine)())


def test_the_machine_inside_other_estimators(fit):
    inside = TransformedTargetRegressor(LSSVRCV(gammas=[0.1, 1.0], alphas=[0.1, 1.0]), func=np.cbrt,
                                        inverse_func=lambda y: y**3)  # fmt: skip
    inside.fit(X, X[:, 0])
    assert GridDisplay.from_estimator(inside).grid.score == inside.regressor_.best_score_


def test_without_matplotlib(monkeypatch):
    display = GridDisplay(SearchGrid.of(GRID))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    for draw in (display.plot, lambda: as_png(display)):
        with pytest.raises(ImportError, match=r'pip install "onefold\[plot\]"'):
            draw()
