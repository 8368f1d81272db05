"""The criterion over the grid of a search, with the chosen point marked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold.plots.figures import new_figure, write_figure
from onefold.plots.grid import SearchGrid, exponent_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SCORE = "mean held-out score (higher is better)"
_GAMMA = "gamma (larger: more flexible)"
_ALPHA = "alpha (larger: smoother)"
INK = "#222222"
ACCENT = "#d1495b"
_MOST_TICKS = 13
_LONGEST_LINE = 36  # characters of a title that leave room for the chosen values beside them


def search_heatmap(
    cv_results: Mapping[str, Any],
    path_or_ax: str | os.PathLike[str] | Axes,
    best: Mapping[str, float] | None = None,
    *,
    headline: str | None = None,
    score_label: str = _SCORE,
) -> Axes:
    r"""Draw the score of every candidate over :math:`\log_2` gamma and :math:`\log_2` alpha.

    The best third of the candidates gets a third of the colours at least, and what is much worse
    gets the last colour: hopeless corners, which every grid has, would otherwise leave one colour
    for all the rest. With a single gamma (or none, as for the linear kernel) the picture is a
    curve over alpha. Candidates that are no grid, as those of descents and of other drivers, are points.

    Parameters
    ----------
    cv_results : mapping
        ``cv_results_`` of a fitted search.
    path_or_ax : path or matplotlib Axes
        Where to write the picture, the suffix giving its format, or the axes to draw on.
    best : mapping, optional
        The chosen ``{"gamma": …, "alpha": …}``; by default the candidate with the best score.
    headline : str, optional
        The title up to the chosen values; by default the score. As everywhere in matplotlib, what
        stands between dollar signs is set as mathematics: see :func:`plain_text`.
    score_label : str
        What the colours, or the vertical axis of a curve, mean.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError
        If matplotlib isn't installed.
    ValueError
        If no candidate has a finite score.
    """
    grid = SearchGrid.of(cv_results, best)
    if not isinstance(path_or_ax, str | os.PathLike):
        _draw(path_or_ax, grid, headline, score_label)
        return path_or_ax
    figure = new_figure(7.4, 5.4)
    figure.set_layout_engine("constrained", w_pad=0.1, h_pad=0.1)
    axes = figure.add_subplot()
    _draw(axes, grid, headline, score_label)
    write_figure(figure, path_or_ax, dpi=160)
    return axes


def plain_text(text: str) -> str:
    """The text with its dollar signs as such, not as borders of mathematics."""
    return text.replace("$", r"\$")


def _draw(axes: Axes, grid: SearchGrid, headline: str | None, score_label: str) -> None:
    if len(grid.gammas) > 1 and len(grid.alphas) > 1:
        _draw_rectangle(axes, grid, score_label)
    else:
        _draw_curve(axes, grid, score_label)
    chosen = f"alpha = {exponent_label(grid.alpha)}"
    if np.isfinite(grid.gamma):
        chosen = f"gamma = {exponent_label(grid.gamma)}, " + chosen
    words = headline or f"best score {grid.score:.4g}"
    between = " " if len(words) <= _LONGEST_LINE else "\n"
    axes.set_title(f"{words}{between}at {chosen}", loc="left", color=INK, pad=10)


def _draw_rectangle(axes: Axes, grid: SearchGrid, score_label: str) -> None:
    low, high = _limits(grid.scores)
    colours: dict[str, Any] = {"cmap": "viridis", "vmin": low, "vmax": high, "edgecolors": "white"}
    mesh: Any
    if grid.scattered:
        rows, columns = np.nonzero(np.isfinite(grid.scores))
        upwards = np.argsort(grid.scores[rows, columns])  # the best lie on top
        rows, columns = rows[upwards], columns[upwards]
        places = np.log2(grid.gammas[columns]), np.log2(grid.alphas[rows])
        mesh = axes.scatter(*places, c=grid.scores[rows, columns], s=60, linewidth=0.6, **colours)
    else:
        borders = _edges(grid.gammas), _edges(grid.alphas)
        mesh = axes.pcolormesh(*borders, grid.scores, linewidth=0.6, **colours)
        # Candidates without a score stay visibly different from bad ones.
        axes.set_facecolor("#e6e6e6")
    clipped = np.nanmin(grid.scores) < low
    bar = axes.figure.colorbar(mesh, ax=axes, extend="min" if clipped else "neither", pad=0.02)
    bar.set_label(score_label, color=INK)
    bar.outline.set_visible(False)
    at = (np.log2(grid.gamma), np.log2(grid.alpha))
    axes.plot(*at, "o", ms=13, mfc="none", mec="white", mew=4.5, zorder=3)
    axes.plot(*at, "o", ms=13, mfc="none", mec=ACCENT, mew=2.2, zorder=4, label="chosen")
    for axis, values in ((axes.xaxis, grid.gammas), (axes.yaxis, grid.alphas)):
        _power_ticks(axis, _whole_powers(values) if grid.scattered else values)
    axes.set_xlabel(_GAMMA, color=INK)
    axes.set_ylabel(_ALPHA, color=INK)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0, colors=INK)


def _draw_curve(axes: Axes, grid: SearchGrid, score_label: str) -> None:
    over_gamma = len(grid.alphas) == 1 and len(grid.gammas) > 1
    values = grid.gammas if over_gamma else grid.alphas
    scores = grid.scores.ravel()
    at = (np.log2(grid.gamma if over_gamma else grid.alpha), grid.score)
    axes.plot(np.log2(values), scores, "-o", color="#31688e", ms=4.5, lw=1.8, zorder=3)
    axes.plot(*at, "o", ms=13, mfc="none", mec=ACCENT, mew=2.2, zorder=4, label="chosen")
    low, high = _limits(grid.scores)
    margin = 0.08 * (high - low)
    axes.set_ylim(low - margin, high + margin)
    below = np.log2(values)[scores < low - margin]
    floor = np.full(len(below), low - margin / 2)
    axes.plot(below, floor, "v", color="#31688e", ms=6, zorder=3, label="below the picture")
    _power_ticks(axes.xaxis, values)
    axes.set_xlabel(_GAMMA if over_gamma else _ALPHA, color=INK)
    axes.set_ylabel(score_label, color=INK)
    axes.grid(axis="y", color="#dddddd", lw=0.8, zorder=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=INK)


def _limits(scores: np.ndarray) -> tuple[float, float]:
    """Colour limits: three times the distance from the best score to the upper third's last."""
    finite = scores[np.isfinite(scores)]
    high, lowest = float(finite.max()), float(finite.min())
    spread = high - float(np.quantile(finite, 2 / 3))
    low = max(lowest, high - 3.0 * spread) if spread > 0 else lowest
    if low == high:
        low = high - max(1e-3 * abs(high), 1e-12)
    return low, high


def _edges(values: np.ndarray) -> np.ndarray:
    """Cell borders half-way between neighbours on the log scale."""
    centres = np.log2(values)
    middle = (centres[1:] + centres[:-1]) / 2
    first, last = 2 * centres[0] - middle[0], 2 * centres[-1] - middle[-1]
    return np.concatenate([[first], middle, [last]])


def _whole_powers(values: np.ndarray) -> np.ndarray:
    """Powers of two with whole exponents from the least value to the greatest."""
    first, last = np.floor(np.log2(values[0])), np.ceil(np.log2(values[-1]))
    return 2.0 ** np.arange(first, last + 1)


def _power_ticks(axis: Any, values: np.ndarray) -> None:
    step = -(-len(values) // _MOST_TICKS)
    axis.set_ticks(np.log2(values[::step]), labels=[exponent_label(v) for v in values[::step]])
