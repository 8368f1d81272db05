"""The grid, its flat region and the way of the search."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onefold import LSSVR, LSSVRCV
from onefold.plots import GridDisplay, SearchPathDisplay, as_svg

pytestmark = pytest.mark.filterwarnings("error")
SEARCHED = [
    "plain", "classes", "three", "blend", "families", "halving", "press", "objective", "one gamma",
    "one alpha", "one cell", "linear", "leave one out", "1se", "targets", "checked",
]  # fmt: skip


def labelled(axes, start):
    return next(line for line in axes.lines if str(line.get_label()).startswith(start))


@pytest.mark.parametrize("name", SEARCHED)
@pytest.mark.parametrize("display", [GridDisplay, SearchPathDisplay])
def test_every_search_is_drawn(fit, display, name):
    drawn = display.from_estimator(fit(name)).plot()
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
    drawn = GridDisplay.from_results(results).plot()
    drawn.figure_.draw_without_rendering()
    assert drawn.grid.flat.tolist() == [[True, False], [False, False]]
    assert as_svg(drawn).startswith("<svg")


def test_a_cell_shows_the_best_of_its_candidates_and_is_judged_by_it():
    results = table([-1.0, -2.0, -3.0, -1.0], gammas=(1.0, 1.0))
    for name in list(results):
        if name.startswith("split"):
            results[name] = results["mean_test_score"].copy()
    grid = GridDisplay.from_results(results).grid
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
    drawn = SearchPathDisplay.from_estimator(machine).plot()
    assert "stopped early" in drawn.ax_.get_title(loc="left")


@pytest.mark.parametrize("name", SEARCHED)
def test_the_path_has_every_candidate_in_order(fit, name):
    machine = fit(name)
    path = SearchPathDisplay.from_estimator(machine)
    cells = [score for one in machine.history_ for score in one["scores"]]
    np.testing.assert_array_equal(path.score[-len(cells) :], cells)
    assert path.score[path.chosen] == machine.best_score_
    places, tops = path.best_so_far
    if not path.stages:
        expected = [np.nanmax(path.score[path.place <= place]) for place in places]
        np.testing.assert_array_equal(tops, expected)


def test_the_stages_of_halving(fit):
    machine = fit("halving")
    path = SearchPathDisplay.from_estimator(machine)
    said = machine.search_["stages"]
    assert [rows for rows, _, _ in path.stages] == [stage["n_resources"] for stage in said]
    assert [last - first + 1 for _, first, last in path.stages[:-1]] == [
        stage["n_candidates"] for stage in said[:-1]
    ]
    rows, first, last = path.stages[0]
    own = path.score[(path.place >= first) & (path.place <= last)]
    top = said[0]["best"]["score"]
    expected = [top] + [top - one["difference"] for one in said[0]["dropped"]]
    np.testing.assert_allclose(own, expected)
    drawn = path.plot()
    assert f"{rows:,} rows" in [text.get_text() for text in drawn.ax_.texts]
    places, tops = path.best_so_far
    last_stage = places >= path.stages[-1][1]
    assert tops[last_stage].max() == machine.best_score_ or machine.select == "1se"


def test_rounds_and_kernels_have_colours_of_their_own(fit):
    rounds = set(SearchPathDisplay.from_estimator(fit("blend")).group)
    assert {"round 0", "round 1"} <= rounds
    assert set(SearchPathDisplay.from_estimator(fit("families")).group) == {"rbf", "laplacian"}
    assert set(SearchPathDisplay.from_estimator(fit("plain")).group) == {"each ridge"}


def test_undefined_scores_in_the_path():
    path = SearchPathDisplay(
        np.array([1, 1, 2, 3]), np.array([np.nan, np.nan, -1.0, np.nan]), ["a"] * 4, 2, np.ones(3)
    )
    assert np.isnan(path.best_so_far[1][0])
    assert path.best_so_far[1][1:].tolist() == [-1.0, -1.0]
    path.plot().figure_.draw_without_rendering()


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


@pytest.mark.parametrize("display", [GridDisplay, SearchPathDisplay])
def test_what_cannot_be_drawn(display):
    X = np.arange(10.0)[:, None]
    with pytest.raises(ValueError, match="not fitted yet; call fit"):
        display.from_estimator(LSSVRCV())
    with pytest.raises(ValueError, match="fit LSSVCCV, LSSVRCV or KernelRidgeCV"):
        display.from_estimator(LSSVR().fit(X, X[:, 0]))
