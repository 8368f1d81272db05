"""The picture of a search among several kernels and metrics."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import onefold.search.metric as strategy
from onefold import LSSVCCV, LSSVRCV
from onefold.plots import search_overview

RNG = np.random.default_rng(1)
X = RNG.normal(size=(60, 3))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=60)
GRID = {"gammas": [0.3, 1.0, 3.0], "alphas": [0.001, 0.01, 0.1]}


@pytest.fixture(scope="module")
def learned() -> LSSVRCV:
    return LSSVRCV(["rbf", "laplacian"], metric="auto", blend=True, max_rounds=2, **GRID).fit(X, Y)


def lines_of(axes) -> dict[str, list[list[float]]]:
    return {line.get_label(): line.get_xydata().tolist() for line in axes.lines}


def test_every_round_of_every_kernel(learned):
    rounds, cells, shares = search_overview(learned).axes[:3]
    drawn = lines_of(rounds)
    scores = {(h["kernel"], h["metric"], h["round"]): h["score"] for h in learned.metric_history_}
    for kernel, metric in (("rbf", "full"), ("laplacian", "diagonal")):
        expected = [[0.0, scores[kernel, "none", 0]]]
        expected += [[r, s] for (k, m, r), s in sorted(scores.items()) if (k, m) == (kernel, metric)]
        assert drawn[f"{kernel}, {metric}"] == expected
    best = learned.best_params_
    ringed = rounds.lines[-1].get_xydata().tolist()
    assert ringed == [[best["round"], scores[best["kernel"], best["metric"], best["round"]]]]
    assert best["kernel"] in cells.get_title(loc="left")
    widths = sorted(bar.get_width() for bar in shares.patches)
    np.testing.assert_allclose(widths, np.sort(100 * learned.feature_importances_))


def test_numbers_and_names_of_ones_own(learned, tmp_path):
    figure = search_overview(
        learned,
        tmp_path / "p.svg",
        importances={"a $ b": 0.75, "x" * 90: 0.25},
        headline="wave",
        score_label="twice",
        number=lambda score: 2 * score,
    )
    rounds, _, shares = figure.axes[:3]
    first = learned.metric_history_[0]
    assert [0.0, 2 * first["score"]] in lines_of(rounds)[f"{first['kernel']}, full"]
    assert rounds.get_ylabel() == "twice"
    names = [label.get_text() for label in shares.get_yticklabels()]
    assert names == [r"a \$ b", "x" * 23 + "…"]
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")


def test_several_kernels_as_they_are():
    fitted = LSSVRCV(["rbf", "laplacian"], **GRID).fit(X, Y)
    groups, cells = search_overview(fitted).axes[:2]
    labels = [label.get_text() for label in groups.get_yticklabels()]
    assert labels[-1] == fitted.best_params_["kernel"]
    assert groups.lines[-1].get_xydata()[0, 0] == fitted.best_score_
    assert cells.get_title(loc="left").startswith(fitted.best_params_["kernel"])


def test_a_metric_that_some_rows_taught(monkeypatch):
    monkeypatch.setattr(strategy, "_CHEAP_ROWS", 0)  # one cell of each kernel, as with many rows
    fitted = LSSVRCV(["rbf", "laplacian"], metric="auto", metric_rows=30, max_rounds=2, **GRID)
    fitted.fit(X, Y)
    rounds, finalists, _ = search_overview(fitted, number=lambda score: 1 + score).axes[:3]
    # Where the metrics were learned, scores are squared errors of other rows: they stay as they are.
    assert "rows that taught the metric" in rounds.get_ylabel()
    first = fitted.metric_history_[0]
    assert any([0.0, first["score"]] in points for points in lines_of(rounds).values())
    drawn = [line.get_xydata()[0, 0] for line in finalists.lines]
    np.testing.assert_allclose(max(drawn), 1 + fitted.cv_results_["mean_test_score"].max())


@pytest.mark.filterwarnings("ignore:the search chose")
@pytest.mark.parametrize("rows", [None, 40])
def test_paths_gone_again_are_not_drawn_into_those_that_were_found(rows, monkeypatch):
    """Scores of other rows, or counts of errors among squared errors, do not make one line."""
    monkeypatch.setattr(strategy, "FIRST_ROWS", 16)
    fitted = LSSVCCV(["rbf", "laplacian"], metric="auto", metric_rows=rows, max_rounds=2, **GRID)
    fitted.fit(X, Y > 0)
    history = fitted.metric_history_
    assert len({one["rows"] for one in history}) == 2
    rounds = search_overview(fitted).axes[0]
    assert "rows that taught the metric" in rounds.get_ylabel()
    drawn = {tuple(point) for points in lines_of(rounds).values() for point in points}
    first = [one for one in history if one["rows"] == history[0]["rows"]]
    assert {(one["round"], one["score"]) for one in first} == drawn


@pytest.mark.filterwarnings("ignore:the search chose")
def test_one_kernel_is_a_heat_map_or_a_curve():
    fitted = LSSVRCV(["rbf"], **GRID).fit(X, Y)
    assert len([axes for axes in search_overview(fitted).axes if axes.get_title(loc="left")]) == 1
    fitted = LSSVRCV(["linear"], alphas=[0.1, 1.0, 10.0]).fit(X, Y)
    (axes,) = search_overview(fitted).axes
    assert len(axes.lines[0].get_xydata()) == 3
    fitted = LSSVRCV(["linear"], alphas=[0.1]).fit(X, Y)
    (axes,) = search_overview(fitted).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["linear"]


def test_nothing_to_draw():
    broken = SimpleNamespace(
        cv_results_={
            "params": [{"kernel": "rbf", "alpha": 1.0}],
            "param_alpha": np.array([1.0]),
            "mean_test_score": np.array([np.nan]),
        },
        best_params_={"kernel": "rbf", "alpha": 1.0},
        metric_history_=[],
        feature_importances_=None,
    )
    with pytest.raises(ValueError, match="nothing to draw"):
        search_overview(broken)


def test_without_matplotlib(learned, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"onefold\[plot\]"):
        search_overview(learned)
