"""A search among families and learned metrics: its rounds, its cells and what matters to the choice."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from onefold.machine.replacing import replacing
from onefold.plots.grid import SearchGrid, exponent_label
from onefold.plots.heatmap import ACCENT, INK, plain_text, search_heatmap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SCORE = "mean held-out score (higher is better)"
_COLOURS = {"rbf": "#31688e", "matern12": "#35a16b", "laplacian": "#e0912f"}
_OTHER_COLOURS = ("#7b5ea7", "#8c6d46", "#5c6b73", "#b0549b", "#3d8b9c")
_LINES = {"none": ":", "diagonal": "--", "full": "-"}
_MOST_FEATURES = 12
_MOST_TICKS = 9
_LONGEST_NAME = 24


def search_overview(
    estimator: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    importances: Mapping[str, float] | None = None,
    headline: str | None = None,
    score_label: str = _SCORE,
    number: Callable[[Any], Any] | None = None,
) -> Figure:
    """Draw what a search with ``kernel="auto"``, several kernels or a metric did.

    From left to right: the best score of every family by the rounds of its metric, or of every family
    where no metric was learned; the scores of the chosen family over width and ridge, the best of its
    rounds in each cell, or of all that were compared in the end where a part of the rows taught the
    metrics; the shares of the features in the metric.

    Parameters
    ----------
    estimator : fitted LSSVCCV, LSSVRCV or KernelRidgeCV
    path : path, optional
        Where to write the picture, the suffix giving its format.
    importances : mapping of str to float, optional
        Shares by name, in place of the estimator's ``feature_importances_``.
    headline : str, optional
        A title over the whole.
    score_label : str
        What the scores mean.
    number : callable, optional
        From scores to the numbers that `score_label` names.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ImportError
        If matplotlib isn't installed.
    ValueError
        If no candidate has a finite score.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('pictures need matplotlib: pip install "onefold[plot]"') from error

    panels = _panels(estimator, importances, score_label, number or (lambda score: score))
    figure = Figure(figsize=(5.2 * len(panels), 4.8))
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.1)
    for axes, draw in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels):
        draw(axes)
    if headline:
        figure.suptitle(headline, x=0.01, ha="left", color=INK)
    if path is not None:
        with replacing(Path(path)) as temporary:
            figure.savefig(temporary, format=Path(path).suffix.lstrip(".") or "png", dpi=130)
    return figure


def _panels(
    estimator: Any, importances: Mapping[str, float] | None, label: str, number: Callable[[Any], Any]
) -> list[Callable[[Axes], None]]:
    """The parts of the picture that this search has something for."""
    results = dict(estimator.cv_results_)
    results["mean_test_score"] = number(np.asarray(results["mean_test_score"], dtype=float))
    best, history = estimator.best_params_, estimator.metric_history_
    panels: list[Callable[[Axes], None]] = []
    learned = any(one["round"] > 0 for one in history)
    if learned:
        panels.append(lambda axes: _draw_rounds(axes, history, results, best, label, number))
    cells = _cells_of(results, best)
    grid = SearchGrid.of(cells, best)
    several = len({_group(one) for one in results["params"]}) > 1
    few, many = sorted([len(grid.gammas), len(grid.alphas)])
    if (several and (not learned or few < 2)) or many < 3:
        panels.append(lambda axes: _draw_groups(axes, results, best, label))
    if many > 2:
        name = f"{best.get('kernel', '')}{_best_of(results, best)}"
        panels.append(lambda axes: _draw_cells(axes, cells, best, name, label))
    shares = _shares(estimator, importances)
    if shares:
        panels.append(lambda axes: _draw_shares(axes, shares))
    return panels


def _group(params: Mapping[str, Any]) -> tuple[str, str, int]:
    return str(params.get("kernel", "")), str(params.get("metric", "none")), int(params.get("round", 0))


def _cells_of(results: Mapping[str, Any], best: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of the table that are the chosen family's, without a metric or with the chosen kind."""
    kernel, metric, _ = _group(best)
    groups = [_group(one) for one in results["params"]]
    own = np.array([name == kernel and kind in ("none", metric) for name, kind, _ in groups])
    names = ("mean_test_score", "param_alpha", "param_gamma")
    return {name: np.ma.asarray(results[name])[own] for name in names if name in results}


def _best_of(results: Mapping[str, Any], best: Mapping[str, Any]) -> str:
    kernel, metric, _ = _group(best)
    learned = any(_group(one)[:2] == (kernel, metric) and metric != "none" for one in results["params"])
    return f": best of its rounds, {metric} metric" if learned else ""


def _draw_cells(
    axes: Axes, cells: Mapping[str, Any], best: Mapping[str, Any], name: str, label: str
) -> None:
    """The heat map of a plain search, its widths as the relative numbers that they are."""
    search_heatmap(cells, axes, best, score_label=label)
    grid = SearchGrid.of(cells, best)
    at = f"alpha = {exponent_label(grid.alpha)}"
    if len(grid.gammas):
        at = f"gamma = {grid.gamma:.3g}, {at}"
    axes.set_title(f"{name}\nat {at}", loc="left", color=INK, pad=10)
    if min(len(grid.gammas), len(grid.alphas)) > 1:
        places = np.log2(grid.gammas)
        apart = (places[-1] - places[0]) / _MOST_TICKS
        ticks: list[int] = []
        for i, place in enumerate(places):
            if not ticks or place - places[ticks[-1]] >= apart:
                ticks.append(i)
        axes.set_xticks(places[ticks], labels=[f"{grid.gammas[i]:.2g}" for i in ticks])
        axes.set_xlabel("gamma, relative (larger: more flexible)", color=INK)


def _draw_rounds(
    axes: Axes,
    history: Sequence[Mapping[str, Any]],
    results: Mapping[str, Any],
    best: Mapping[str, Any],
    label: str,
    number: Callable[[Any], Any],
) -> None:
    """A line for every family and kind of metric; all start from the family as it is."""
    # The scores of rows that only taught the metric are squared errors, whatever the criterion.
    compared = {_group(one) for one in results["params"]}
    same = {_group(one) for one in history} <= compared
    if not same:
        label, number = f"−squared error, {history[0]['rows']} rows that taught the metric", _as_it_is
    scores = {_group(one): float(number(one["score"])) for one in history}
    families = list(dict.fromkeys(name for name, _, _ in scores))
    kinds = sorted({(name, kind) for name, kind, _ in scores if kind != "none"})
    for name, kind in [*kinds, *((name, "none") for name in families)]:
        rounds = sorted(r for n, k, r in scores if (n, k) == (name, kind))
        points = [(0, scores[name, "none", 0])] if (name, "none", 0) in scores else []
        points += [(r, scores[name, kind, r]) for r in rounds if kind != "none"]
        if len(points) == 1 and any(other == name for other, _ in kinds):
            continue
        words = f"{name}, {kind}" if kind != "none" else name
        (line,) = axes.plot(*zip(*points), marker="o", ms=4, lw=1.8, label=words, zorder=3)
        line.set(color=_colour(name, families), linestyle=_LINES[kind])
    chosen = _group(best)
    if chosen in scores:
        axes.plot(chosen[2], scores[chosen], "o", ms=13, mfc="none", mec=ACCENT, mew=2.2, zorder=4)
    axes.set_title("round by round (circled: chosen)", loc="left", color=INK, pad=10)
    axes.set_xlabel("round (0: the kernel as it is)", color=INK)
    axes.set_ylabel(label, color=INK)
    axes.set_xticks(range(max(r for _, _, r in scores) + 1))
    axes.legend(frameon=False, fontsize="small", handlelength=3.2)
    _tidy(axes, "y")


def _as_it_is(score: Any) -> Any:
    return score


def _draw_groups(axes: Axes, results: Mapping[str, Any], best: Mapping[str, Any], label: str) -> None:
    """The best score of every family, metric and round that was compared in the end."""
    found: dict[tuple[str, str, int], float] = {}
    for one, score in zip(results["params"], results["mean_test_score"]):
        if np.isfinite(score):
            found[_group(one)] = max(float(score), found.get(_group(one), -np.inf))
    order = sorted(found, key=lambda group: found[group])
    families = list(dict.fromkeys(name for name, _, _ in found))
    for place, group in enumerate(order):
        colour = _colour(group[0], families)
        axes.plot(found[group], place, "o", color=colour, ms=8, zorder=3)
        if group == _group(best):
            axes.plot(found[group], place, "o", ms=15, mfc="none", mec=ACCENT, mew=2.2, zorder=4)
    axes.set_yticks(range(len(order)), labels=[_words(group) for group in order])
    axes.set_ylim(-0.7, len(order) - 0.3)
    axes.margins(x=0.15)
    axes.set_xlabel(label, color=INK)
    axes.set_title("best of each (circled: chosen)", loc="left", color=INK, pad=10)
    _tidy(axes, "x")


def _words(group: tuple[str, str, int]) -> str:
    name, kind, number = group
    return name if kind == "none" else f"{name}, {kind}\nround {number}"


def _shares(estimator: Any, importances: Mapping[str, float] | None) -> dict[str, float]:
    """The greatest shares by name; none where the model has no metric."""
    if importances is None:
        values = estimator.feature_importances_
        if values is None:
            return {}
        names = getattr(estimator, "feature_names_in_", [f"feature {j}" for j in range(len(values))])
        importances = dict(zip(map(str, names), map(float, values)))
    greatest = sorted(importances, key=lambda name: -importances[name])[:_MOST_FEATURES]
    return {name: importances[name] for name in greatest}


def _draw_shares(axes: Axes, shares: Mapping[str, float]) -> None:
    names, places = list(shares), np.arange(len(shares))[::-1]
    axes.barh(places, [100 * shares[name] for name in names], color="#31688e", height=0.66, zorder=3)
    axes.set_yticks(places, labels=[plain_text(_shortened(name)) for name in names])
    axes.set_ylim(-0.7, max(len(names), 4) - 0.3)
    axes.set_xlabel("share of the metric, %", color=INK)
    axes.set_title("most important features", loc="left", color=INK, pad=10)
    _tidy(axes, "x")


def _shortened(name: str) -> str:
    name = " ".join(name.split())
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _colour(name: str, families: Sequence[str]) -> str:
    others = [one for one in families if one not in _COLOURS]
    return _COLOURS.get(name) or _OTHER_COLOURS[others.index(name) % len(_OTHER_COLOURS)]


def _tidy(axes: Axes, lines: Literal["x", "y"]) -> None:
    axes.grid(axis=lines, color="#dddddd", lw=0.8, zorder=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=INK)
