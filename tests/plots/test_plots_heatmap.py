"""The picture of a search."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from onefold.plots import SparsityDisplay, plain_text, search_heatmap
from onefold.plots.grid import SearchGrid
from onefold.plots.ink import exponent_label


def results(gammas, alphas, score):
    pairs = [(g, a) for a in alphas for g in gammas]
    return {
        "param_gamma": np.ma.array([g for g, _ in pairs]),
        "param_alpha": np.ma.array([a for _, a in pairs]),
        "mean_test_score": np.array([score(g, a) for g, a in pairs]),
    }


GRID = results([0.25, 1.0, 4.0], [0.5, 2.0], lambda g, a: -abs(np.log2(g)) - 0.1 * a)


def test_every_cell_shows_its_own_score():
    axes = search_heatmap(GRID, Figure().add_subplot())
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
    axes = search_heatmap(GRID, Figure().add_subplot())
    np.testing.assert_allclose(chosen_in(axes), [[0.0, -1.0]])
    assert axes.get_title(loc="left") == "best score -0.05 at gamma = $2^{0}$, alpha = $2^{-1}$"
    best = {"gamma": 4.0, "alpha": 2.0}
    axes = search_heatmap(GRID, Figure().add_subplot(), best, headline="2 % error")
    np.testing.assert_allclose(chosen_in(axes), [[2.0, 1.0]])
    assert axes.get_title(loc="left").startswith("2 % error at gamma = $2^{2}$")


def test_terrible_cells_do_not_wash_out_the_rest():
    gammas, alphas = 2.0 ** np.arange(-6, 6), 2.0 ** np.arange(-5, 5)
    bad = results(gammas, alphas, lambda g, a: -1e9 if g > 4 else -1 - 0.1 * abs(np.log2(g)) - 0.01 * a)
    axes = search_heatmap(bad, Figure().add_subplot())
    low, high = axes.collections[0].get_clim()
    assert high == max(bad["mean_test_score"])
    assert -5 < low < -1.2


def test_one_gamma_gives_a_curve():
    curve = results([1.0], [0.5, 1.0, 2.0], lambda g, a: -a)
    without = {key: curve[key] for key in ("param_alpha", "mean_test_score")}
    for given in (curve, without):
        axes = search_heatmap(given, Figure().add_subplot())
        assert not axes.collections
        np.testing.assert_allclose(axes.lines[0].get_xydata(), [[-1, -0.5], [0, -1], [1, -2]])
    across = results([0.5, 1.0, 2.0], [1.0], lambda g, a: -g)
    axes = search_heatmap(across, Figure().add_subplot())
    assert axes.get_xlabel().startswith("gamma")


def test_candidates_that_are_no_grid_are_points():
    rng = np.random.default_rng(0)
    gammas, alphas, scores = *2.0 ** rng.uniform(-5, 3, (2, 12)), rng.standard_normal(12)
    scores[3] = np.nan
    found = {"param_gamma": gammas, "param_alpha": alphas, "mean_test_score": scores}
    axes = search_heatmap(found, Figure().add_subplot())
    points = axes.collections[0]
    order = np.argsort(scores)[:-1]  # NaN comes last
    np.testing.assert_allclose(points.get_array(), scores[order])
    np.testing.assert_allclose(points.get_offsets(), np.log2([gammas, alphas]).T[order])
    labels = [text.get_text() for text in axes.get_xticklabels()]
    assert len(labels) == len(set(labels))
    assert not any("." in label for label in labels)


def test_flat_and_partly_undefined_searches_are_drawn():
    flat = results([1.0, 2.0], [1.0, 2.0], lambda g, a: 0.5)
    search_heatmap(flat, Figure().add_subplot())
    flat["mean_test_score"][0] = np.nan
    axes = search_heatmap(flat, Figure().add_subplot())
    assert np.ma.getmaskarray(axes.collections[0].get_array()).sum() == 1
    flat["mean_test_score"][:] = np.nan
    with pytest.raises(ValueError, match="no candidate of this search has a finite score"):
        search_heatmap(flat, Figure().add_subplot())


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?")])
def test_written_in_the_format_of_the_suffix(tmp_path, suffix, start):
    path = tmp_path / f"p.{suffix}"
    search_heatmap(GRID, path)
    assert path.read_bytes().startswith(start)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_without_matplotlib(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "onefold\[plot\]"'):
        search_heatmap(GRID, tmp_path / "p.png")
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "onefold\[plot\]"'):
        SparsityDisplay(np.array([1]), np.array([0.0]), np.array([0.0]), 1).plot()


@pytest.mark.parametrize("name", ["$_per_$", "$", r"\$x$", "a$b$", "no dollar"])
def test_plain_text_is_drawn_as_it_is(name):
    """The title, read as matplotlib reads it, gives the name back."""
    axes = search_heatmap(GRID, Figure().add_subplot(), headline=plain_text(name))
    title = axes._left_title
    words, is_math = title._preprocess_math(title.get_text())
    assert is_math  # the exponents
    drawn = words.split(" at gamma")[0].replace(r"\$", "$")
    assert drawn == name
    axes.figure.draw_without_rendering()


def test_long_titles_take_two_lines():
    axes = search_heatmap(GRID, Figure().add_subplot(), headline="x" * 50)
    assert axes.get_title(loc="left").splitlines()[1].startswith("at gamma")


def test_labels_and_widths_that_are_not_numbers():
    assert exponent_label(3.0) == "$2^{1.6}$"
    grid = SearchGrid.of({**GRID, "param_gamma": ["scale"] * 6})
    assert grid.gammas.size == 0
    assert grid.score == -0.05
    with pytest.raises(ValueError, match="param_alpha"):
        SearchGrid.of({"mean_test_score": [1.0]})
