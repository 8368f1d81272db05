"""The parts of a picture of a search among families and learned metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from onefold.plots.grid import SearchGrid, exponent_label
from onefold.plots.heatmap import ACCENT, INK, plain_text, search_heatmap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {"rbf": "#31688e", "matern12": "#35a16b", "laplacian": "#e0912f"}
_OTHER_COLOURS = ("#7b5ea7", "#8c6d46", "#5c6b73", "#b0549b", "#3d8b9c")
_LINES = {"none": ":", "diagonal": "--", "full": "-"}
_MOST_TICKS = 9
_LONGEST_NAME = 24


def group_of(params: Mapping[str, Any]) -> tuple[str, str, int]:
    """The family of a candidate, its kind of metric and its round."""
    return str(params.get("kernel", "")), str(params.get("metric", "none")), int(params.get("round", 0))


def draw_cells(
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


def draw_rounds(
    axes: Axes,
    history: Sequence[Mapping[str, Any]],
    results: Mapping[str, Any],
    best: Mapping[str, Any],
    label: str,
    number: Callable[[Any], Any],
) -> None:
    """A line for every family and kind of metric; all start from the family as it is."""
    # The scores of rows that only taught the metric are squared errors, whatever the criterion; where
    # the paths were gone again on more rows, scores of both kinds of rows do not make one line.
    compared = {group_of(one) for one in results["params"]}
    first = [one for one in history if one["rows"] == history[0]["rows"]]
    same = len(first) == len(history) and {group_of(one) for one in history} <= compared
    history = first
    if not same:
        label, number = f"−squared error, {history[0]['rows']} rows that taught the metric", _as_it_is
    scores = {group_of(one): float(number(one["score"])) for one in history}
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
    chosen = group_of(best)
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


def draw_groups(axes: Axes, results: Mapping[str, Any], best: Mapping[str, Any], label: str) -> None:
    """The best score of every family, metric and round that was compared in the end."""
    found: dict[tuple[str, str, int], float] = {}
    for one, score in zip(results["params"], results["mean_test_score"]):
        if np.isfinite(score):
            found[group_of(one)] = max(float(score), found.get(group_of(one), -np.inf))
    order = sorted(found, key=lambda group: found[group])
    families = list(dict.fromkeys(name for name, _, _ in found))
    for place, group in enumerate(order):
        colour = _colour(group[0], families)
        axes.plot(found[group], place, "o", color=colour, ms=8, zorder=3)
        if group == group_of(best):
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


def draw_shares(axes: Axes, shares: Mapping[str, float]) -> None:
    names, places = list(shares), np.arange(len(shares))[::-1]
    axes.barh(places, [100 * shares[name] for name in names], color="#31688e", height=0.66, zorder=3)
    axes.set_yticks(places, labels=[plain_text(_shortened(name)) for name in names])
    axes.set_ylim(-0.7, max(len(names), 4) - 0.3)
    axes.set_xlabel("share of what moves the prediction, %", color=INK)
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
