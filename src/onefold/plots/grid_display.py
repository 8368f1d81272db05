"""The criterion over width and ridge, the choice, and what cannot be told from the best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from onefold.plots.display import Display
from onefold.plots.families import family_cells, family_words
from onefold.plots.fitted import machine_of, score_words, searched
from onefold.plots.grid import SearchGrid
from onefold.plots.ink import (
    ACCENT,
    BLUE,
    FAINT,
    FAINTER,
    RING,
    counted,
    crown,
    exponent_label,
    line_style,
    plain_text,
    power_ticks,
    score_limits,
    tidy,
    whole_powers,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCORE = "mean held-out score (higher is better)"
_GAMMA, _RELATIVE = "gamma (larger: more flexible)", "gamma, relative (larger: more flexible)"
_ALPHA = "alpha (larger: smoother)"
_MOST_TICKS = 9
_MOST_VECTORS, _MANY = 60, 1000  # cells; more are drawn as an image, or without borders


@dataclass(eq=False)
class GridDisplay(Display):
    r"""Scores over :math:`\log_2` gamma and :math:`\log_2` alpha, the choice, and its flat region.

    The flat region is every cell whose mean score is within one standard error of the best one's, paired
    over the splits, as ``select="1se"`` reckons. The best third of the candidates gets a third of the
    colours at least; what is much worse gets the last one. With one gamma (or none, as for the linear
    kernel) or one alpha it is a curve. Candidates of an objective are points.

    Parameters
    ----------
    grid : SearchGrid
    score_label : str
        What the scores mean.
    headline : str, optional
        The title up to the chosen values; by default the score. What stands between dollar signs is set
        as mathematics: see :func:`plain_text`.
    relative : bool
        Whether widths are multiples of a kernel's own scale, as with several kernels.
    """

    title: ClassVar[str] = "The criterion over width and ridge"

    grid: SearchGrid
    score_label: str = SCORE
    headline: str | None = None
    relative: bool = False

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """The search of a fitted LSSVCCV, LSSVRCV or KernelRidgeCV; of several kernels the chosen."""
        machine = machine_of(estimator)
        remedy = "a machine that searches has one; fit LSSVCCV, LSSVRCV or KernelRidgeCV."
        results = searched(machine, "cv_results_", remedy)
        return cls.from_results(results, machine.best_params_, score_label=score_words(machine))

    @classmethod
    def from_results(
        cls,
        cv_results: Mapping[str, Any],
        best: Mapping[str, Any] | None = None,
        *,
        score_label: str = SCORE,
        headline: str | None = None,
    ) -> Self:
        """A table as ``cv_results_``; `best` is the chosen candidate, by default the best one."""
        several = best is not None and "kernel" in best
        if best is not None and several:
            headline = headline or plain_text(family_words(cv_results, best))
            cv_results = family_cells(cv_results, best)
        return cls(SearchGrid.of(cv_results, best), score_label, headline, several)

    def describe(self) -> str:
        """What the picture shows, in a sentence or two."""
        grid = self.grid
        at = f"alpha {grid.alpha:.3g}"
        if np.isfinite(grid.gamma):
            at = f"gamma {grid.gamma:.3g}, {at}"
        cells = counted(int(np.isfinite(grid.scores).sum()), "cell")
        widths, ridges = max(len(grid.gammas), 1), len(grid.alphas)
        return (
            f"{self.score_label}: {cells} of {counted(widths, 'width')} and {counted(ridges, 'ridge')}. "
            f"The chosen one has {grid.score:.4g} at {at}; {self._region()}."
        )

    def _region(self) -> str:
        flat = self.grid.flat
        if flat is None:
            return "one score per cell: no standard error"
        return f"within one standard error of the best: {int(flat.sum())}"

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        grid = self.grid
        if min(len(grid.gammas), len(grid.alphas)) > 1:
            self._draw_rectangle(axes, style)
        else:
            self._draw_curve(axes, style)
        if grid.flat is None:
            axes.plot([], [], " ", label="one score per cell: no standard error")
        chosen = f"alpha = {exponent_label(grid.alpha)}"
        if np.isfinite(grid.gamma):
            width = f"{grid.gamma:.3g}" if self.relative else exponent_label(grid.gamma)
            chosen = f"gamma = {width}, {chosen}"
        crown(axes, self.headline or f"best score {grid.score:.4g}", f"at {chosen}")

    def _draw_rectangle(self, axes: Axes, style: dict[str, Any]) -> None:
        from matplotlib.patches import Rectangle

        grid = self.grid
        low, high = score_limits(grid.scores)
        colours: dict[str, Any] = {"cmap": "viridis", "vmin": low, "vmax": high}
        mesh: Any
        if grid.scattered:
            mesh = self._draw_points(axes, colours | style)
        else:
            borders = _edges(grid.gammas), _edges(grid.alphas)
            cells = grid.scores.size
            look: dict[str, Any] = {"edgecolors": (1, 1, 1, 0.6), "rasterized": cells > _MOST_VECTORS}
            look["linewidth"] = 0.6 if cells < _MANY else 0.0
            mesh = axes.pcolormesh(*borders, np.ma.masked_invalid(grid.scores), **colours | look | style)
            # Candidates without a score stay unlike bad ones, also where the background is clear.
            axes.add_patch(
                Rectangle((0, 0), 1, 1, transform=axes.transAxes, color=FAINT, lw=0, zorder=-1)
            )
            if grid.flat is not None:
                _outline(axes, grid.flat, *borders, label=_inside(grid.flat))
        clipped = np.nanmin(grid.scores) < low
        bar = axes.figure.colorbar(mesh, ax=axes, extend="min" if clipped else "neither", pad=0.02)
        bar.set_label(self.score_label)
        bar.outline.set_visible(False)
        at = [np.log2(grid.gamma)], [np.log2(grid.alpha)]
        axes.plot(*at, **RING, mec="white", mew=4.5, zorder=4)
        axes.plot(*at, **RING, mec=ACCENT, mew=2.2, zorder=5, label="chosen")
        self._width_ticks(axes.xaxis)
        power_ticks(axes.yaxis, whole_powers(grid.alphas) if grid.scattered else grid.alphas)
        axes.set_xlabel(_RELATIVE if self.relative else _GAMMA)
        axes.set_ylabel(_ALPHA)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(length=0)

    def _draw_points(self, axes: Axes, style: dict[str, Any]) -> Any:
        grid = self.grid
        rows, columns = np.nonzero(np.isfinite(grid.scores))
        upwards = np.argsort(grid.scores[rows, columns])  # the best lie on top
        rows, columns = rows[upwards], columns[upwards]
        places = np.log2(grid.gammas[columns]), np.log2(grid.alphas[rows])
        look: dict[str, Any] = {"s": 60, "linewidth": 0.6, "edgecolors": (1, 1, 1, 0.6)}
        mesh = axes.scatter(*places, c=grid.scores[rows, columns], **look | style)
        if grid.flat is not None:
            inside = grid.flat[rows, columns]
            dots: dict[str, Any] = {"ls": "none", "marker": "o", "ms": 8.5, "mfc": "none"}
            dots |= {"mec": "#1a1a1a", "mew": 1.4, "zorder": 3, "label": _inside(inside)}
            axes.plot(*(one[inside] for one in places), **dots)
        axes.grid(color=FAINT, lw=0.8)
        axes.set_axisbelow(True)
        return mesh

    def _width_ticks(self, axis: Any) -> None:
        """Powers of two, or for relative widths the plain numbers, as many as there is room for."""
        gammas = self.grid.gammas
        if not self.relative:
            power_ticks(axis, whole_powers(gammas) if self.grid.scattered else gammas)
            return
        places = np.log2(gammas)
        apart = (places[-1] - places[0]) / _MOST_TICKS
        ticks: list[int] = []
        for i, place in enumerate(places):
            if not ticks or place - places[ticks[-1]] >= apart:
                ticks.append(i)
        axis.set_ticks(places[ticks], labels=[f"{gammas[i]:.2g}" for i in ticks])

    def _draw_curve(self, axes: Axes, style: dict[str, Any]) -> None:
        grid = self.grid
        over_gamma = len(grid.alphas) == 1 and len(grid.gammas) > 1
        values, scores = (grid.gammas if over_gamma else grid.alphas), grid.scores.ravel()
        places = np.log2(values)
        low, high = score_limits(scores)
        margin = 0.08 * (high - low)
        if grid.flat is not None:
            _spans(axes, grid.flat.ravel(), _edges(values))
        axes.plot(places, scores, **line_style(style, color=BLUE, marker="o", ms=4.5, lw=1.8, zorder=3))
        at = [np.log2(grid.gamma if over_gamma else grid.alpha)], [grid.score]
        below = places[scores < low - margin]
        if below.size:
            axes.plot(below, np.full(below.size, low - margin / 2), "v", color=BLUE, ms=6, zorder=3,
                      label="below the picture")  # fmt: skip
        axes.plot(*at, **RING, mec=ACCENT, mew=2.2, zorder=4, label="chosen")
        axes.set_ylim(low - margin, high + margin)
        if over_gamma:
            self._width_ticks(axes.xaxis)
        else:
            power_ticks(axes.xaxis, values)
        axes.set_xlabel((_RELATIVE if self.relative else _GAMMA) if over_gamma else _ALPHA)
        axes.set_ylabel(self.score_label)
        tidy(axes, "y")


def _edges(values: np.ndarray) -> np.ndarray:
    """Cell borders half-way between neighbours on the log scale."""
    centres = np.log2(values)
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middle = (centres[1:] + centres[:-1]) / 2
    first, last = 2 * centres[0] - middle[0], 2 * centres[-1] - middle[-1]
    return np.concatenate([[first], middle, [last]])


def _inside(cells: np.ndarray) -> str:
    return f"within one standard error ({counted(int(cells.sum()), 'cell')})"


def _outline(axes: Axes, inside: np.ndarray, x: np.ndarray, y: np.ndarray, label: str) -> None:
    """Lines between cells that are inside and those that are not, dark on light: seen on any colour."""
    from matplotlib.patheffects import withStroke

    padded = np.pad(inside, 1)
    rows, columns = np.nonzero(padded[1:-1, 1:] != padded[1:-1, :-1])
    upright = [((x[c], y[r]), (x[c], y[r + 1])) for r, c in zip(rows, columns)]
    rows, columns = np.nonzero(padded[1:, 1:-1] != padded[:-1, 1:-1])
    level = [((x[c], y[r]), (x[c + 1], y[r])) for r, c in zip(rows, columns)]
    points = [(np.nan, np.nan)]
    for start, end in upright + level:
        points += [start, end, (np.nan, np.nan)]
    halo = [withStroke(linewidth=3.6, foreground="white")]
    look: dict[str, Any] = {"color": "#1a1a1a", "lw": 1.6, "zorder": 3, "clip_on": False}
    axes.plot(*zip(*points), **look, label=label, path_effects=halo)


def _spans(axes: Axes, inside: np.ndarray, borders: np.ndarray) -> None:
    """Shade the values that are inside."""
    label: str | None = _inside(inside)
    for i in np.flatnonzero(inside):
        axes.axvspan(borders[i], borders[i + 1], color=FAINTER, lw=0, label=label)
        label = None
