"""The criterion over width and ridge, the choice, and the cells within a standard error of the best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from onefold.plots.display import (
    ACCENT,
    BLUE,
    FAINT,
    RING,
    Display,
    counted,
    finish,
    fitted,
    group_of,
    line_style,
    machine_of,
    plain_text,
    power_label,
    power_ticks,
    score_label,
)
from onefold.search.ledger import within_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GAMMA, _RELATIVE = "gamma (larger: more flexible)", "gamma, relative (larger: more flexible)"
_ALPHA = "alpha (larger: smoother)"
_MOST_TICKS = 9
_MANY = 1000  # cells; more are drawn without borders
_NO_REGION = "one score per cell: no standard error"


@dataclass(frozen=True)
class SearchGrid:
    """Scores on a rectangle.

    Parameters
    ----------
    gammas, alphas : ndarray
        The distinct values, ascending; `gammas` is empty for a kernel without a width.
    scores : ndarray of shape (n_alphas, max(n_gammas, 1))
        NaN where there was no candidate or no finite score.
    gamma, alpha, score : float
        The chosen point; gamma is NaN where there is none.
    flat : bool ndarray like scores, or None
        Cells within one standard error of the best one, as ``select="1se"`` reckons; None where there
        are not two splits to reckon it from.
    scattered : bool
        Whether fewer than half of the rectangle were candidates: points rather than a grid.
    """

    gammas: np.ndarray
    alphas: np.ndarray
    scores: np.ndarray
    gamma: float
    alpha: float
    score: float
    flat: np.ndarray | None = None
    scattered: bool = False

    @classmethod
    def of(cls, cv_results: Mapping[str, Any], best: Mapping[str, Any] | None = None) -> SearchGrid:
        """Arrange the candidates of ``cv_results_``; `best` is the chosen one, if it's known."""
        scores = np.ma.filled(np.ma.asarray(cv_results["mean_test_score"]).astype(float), np.nan)
        if not np.isfinite(scores).any():
            raise ValueError("no candidate of this search has a finite score: nothing to draw")
        scores = np.where(np.isfinite(scores), scores, np.nan)
        alpha = _values(cv_results, "param_alpha")
        gamma = _values(cv_results, "param_gamma")
        if alpha is None:
            raise ValueError("cv_results has no param_alpha: this is not a onefold search")
        alphas, rows = np.unique(alpha, return_inverse=True)
        if gamma is None:
            gammas, columns = np.empty(0), np.zeros(len(alpha), dtype=int)
        else:
            gammas, columns = np.unique(gamma, return_inverse=True)
        holder = np.full((len(alphas), max(len(gammas), 1)), -1)
        # Where several candidates share a cell (a degree, say), the cell shows the best of them.
        upwards = np.argsort(np.where(np.isnan(scores), -np.inf, scores), kind="stable")
        holder[rows[upwards], columns[upwards]] = upwards
        rectangle = np.where(holder >= 0, scores[holder], np.nan)
        top, chosen = int(np.nanargmax(scores)), best or {}
        at_gamma = float(chosen.get("gamma", np.nan) if gamma is not None else np.nan)
        if gamma is not None and np.isnan(at_gamma):
            at_gamma = float(gamma[top])
        at_alpha = float(chosen.get("alpha", alpha[top]))
        column = 0 if gamma is None else int(np.argmin(np.abs(np.log2(gammas) - np.log2(at_gamma))))
        row = int(np.argmin(np.abs(np.log2(alphas) - np.log2(at_alpha))))
        return cls(
            gammas,
            alphas,
            rectangle,
            at_gamma,
            at_alpha,
            float(rectangle[row, column]),
            _flat(cv_results, holder),
            bool((holder >= 0).sum() < holder.size / 2),
        )


def _flat(cv_results: Mapping[str, Any], holder: np.ndarray) -> np.ndarray | None:
    """Which cells cannot be told from the best one; None without splits."""
    names = takewhile(cv_results.__contains__, (f"split{i}_test_score" for i in count()))
    splits = np.array([np.asarray(cv_results[name], dtype=float) for name in names])
    if len(splits) < 2:
        return None
    there = holder >= 0
    scores = splits.T[holder[there]]
    solved = np.isfinite(scores).all(axis=1)
    flat = np.zeros(holder.shape, dtype=bool)
    if solved.any():
        _, exponent = np.frexp(np.abs(scores[solved]).max())
        table = np.ldexp(scores[None, solved], -exponent)  # no overflow, the same digits
        inside = np.zeros(len(scores), dtype=bool)
        inside[solved] = within_error(table, (0, int(np.argmax(table.mean(axis=2)))))[0]
        flat[there] = inside
    return flat


def _values(cv_results: Mapping[str, Any], key: str) -> np.ndarray | None:
    """A parameter as floats; None if no candidate has it or it isn't one number each."""
    if key not in cv_results:
        return None
    column = np.ma.asarray(cv_results[key])
    try:
        values = np.asarray(np.ma.filled(column.astype(float), np.nan))
    except (TypeError, ValueError):
        return None
    return values if np.isfinite(values).all() and (values > 0).all() else None


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
        The title up to the chosen values; by default the score.
    relative : bool
        Whether widths are multiples of a kernel's own scale, as with several kernels.
    """

    title: ClassVar[str] = "The criterion over width and ridge"

    grid: SearchGrid
    score_label: str = "mean held-out score (higher is better)"
    headline: str | None = None
    relative: bool = False

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """The search of a fitted LSSVCCV, LSSVRCV or KernelRidgeCV; of several kernels the chosen."""
        machine = machine_of(estimator)
        remedy = "a machine that searches has one; fit LSSVCCV, LSSVRCV or KernelRidgeCV."
        results, best = fitted(machine, "cv_results_", remedy), machine.best_params_
        if "kernel" not in best:
            return cls(SearchGrid.of(results, best), score_label(machine))
        # Of several kernels: the cells of the chosen one, without a metric or with the chosen kind.
        kernel, metric, _ = group_of(best)
        groups = [group_of(one) for one in results["params"]]
        own = np.array([name == kernel and kind in ("none", metric) for name, kind, _ in groups])
        learned = metric != "none" and any(one[:2] == (kernel, metric) for one in groups)
        headline = f"{kernel}: best of its rounds, {metric} metric" if learned else kernel
        cells = {
            name: np.ma.asarray(column)[own]
            for name, column in results.items()
            if name in ("mean_test_score", "param_alpha", "param_gamma") or name.startswith("split")
        }
        return cls(SearchGrid.of(cells, best), score_label(machine), headline, True)

    def describe(self) -> str:
        """What the picture shows, in a sentence or two."""
        grid = self.grid
        at = f"alpha {grid.alpha:.3g}"
        if np.isfinite(grid.gamma):
            at = f"gamma {grid.gamma:.3g}, {at}"
        cells = counted(int(np.isfinite(grid.scores).sum()), "cell")
        widths, ridges = max(len(grid.gammas), 1), len(grid.alphas)
        region = _NO_REGION
        if grid.flat is not None:
            region = f"within one standard error of the best: {int(grid.flat.sum())}"
        return (
            f"{self.score_label}: {cells} of {counted(widths, 'width')} and {counted(ridges, 'ridge')}. "
            f"The chosen one has {grid.score:.4g} at {at}; {region}."
        )

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        grid = self.grid
        rectangle = min(len(grid.gammas), len(grid.alphas)) > 1
        if rectangle:
            self._draw_rectangle(axes, style)
        else:
            self._draw_curve(axes, style)
        if grid.flat is None:
            axes.plot([], [], " ", label=_NO_REGION)
        chosen = f"alpha = {power_label(grid.alpha)}"
        if np.isfinite(grid.gamma):
            width = f"{grid.gamma:.3g}" if self.relative else power_label(grid.gamma)
            chosen = f"gamma = {width}, {chosen}"
        headline = plain_text(self.headline or f"best score {grid.score:.4g}")
        finish(axes, f"{headline}\nat {chosen}", None if rectangle else "y")

    def _draw_rectangle(self, axes: Axes, style: dict[str, Any]) -> None:
        grid = self.grid
        low, high = _limits(grid.scores)
        colours: dict[str, Any] = {"cmap": "viridis", "vmin": low, "vmax": high}
        mesh: Any
        if grid.scattered:
            mesh = self._draw_points(axes, colours | style)
        else:
            borders = _edges(grid.gammas), _edges(grid.alphas)
            look: dict[str, Any] = {"edgecolors": (1, 1, 1, 0.6), "rasterized": True}
            look["linewidth"] = 0.6 if grid.scores.size < _MANY else 0.0
            mesh = axes.pcolormesh(*borders, np.ma.masked_invalid(grid.scores), **colours | look | style)
            axes.set_facecolor(FAINT)  # candidates without a score stay unlike bad ones
            if grid.flat is not None:
                _outline(axes, grid.flat, *borders, label=_inside(grid.flat))
        clipped = np.nanmin(grid.scores) < low
        bar = axes.figure.colorbar(mesh, ax=axes, extend="min" if clipped else "neither", pad=0.02)
        bar.set_label(self.score_label)
        bar.outline.set_visible(False)
        at = [np.log2(grid.gamma)], [np.log2(grid.alpha)]
        axes.plot(*at, **RING, mec="white", mew=4.5, zorder=4)
        axes.plot(*at, **RING, mec=ACCENT, mew=2.2, zorder=5, label="chosen")
        self._width_ticks(axes)
        power_ticks(axes.yaxis, grid.alphas, whole=grid.scattered)
        axes.set_ylabel(_ALPHA)
        axes.spines[:].set_visible(False)
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

    def _width_ticks(self, axes: Axes) -> None:
        """Powers of two, or for relative widths the plain numbers, as many as there is room for."""
        gammas = self.grid.gammas
        axes.set_xlabel(_RELATIVE if self.relative else _GAMMA)
        if not self.relative:
            power_ticks(axes.xaxis, gammas, whole=self.grid.scattered)
            return
        places = np.log2(gammas)
        apart = (places[-1] - places[0]) / _MOST_TICKS
        ticks: list[int] = []
        for i, place in enumerate(places):
            if not ticks or place - places[ticks[-1]] >= apart:
                ticks.append(i)
        axes.set_xticks(places[ticks], labels=[f"{gammas[i]:.2g}" for i in ticks])

    def _draw_curve(self, axes: Axes, style: dict[str, Any]) -> None:
        grid = self.grid
        over_gamma = len(grid.alphas) == 1 and len(grid.gammas) > 1
        values, scores = (grid.gammas if over_gamma else grid.alphas), grid.scores.ravel()
        places = np.log2(values)
        low, high = _limits(scores)
        margin = 0.08 * (high - low)
        if grid.flat is not None:
            borders, label = _edges(values), _inside(grid.flat)
            for i in np.flatnonzero(grid.flat):
                axes.axvspan(borders[i], borders[i + 1], color=FAINT, lw=0, label=label)
                label = ""
        axes.plot(places, scores, **line_style(style, color=BLUE, marker="o", ms=4.5, lw=1.8, zorder=3))
        below = places[scores < low - margin]
        if below.size:
            axes.plot(below, np.full(below.size, low - margin / 2), "v", color=BLUE, ms=6, zorder=3,
                      label="below the picture")  # fmt: skip
        at = [np.log2(grid.gamma if over_gamma else grid.alpha)], [grid.score]
        axes.plot(*at, **RING, mec=ACCENT, mew=2.2, zorder=4, label="chosen")
        axes.set_ylim(low - margin, high + margin)
        if over_gamma:
            self._width_ticks(axes)
        else:
            power_ticks(axes.xaxis, values)
            axes.set_xlabel(_ALPHA)
        axes.set_ylabel(self.score_label)


def _limits(scores: np.ndarray) -> tuple[float, float]:
    """Limits of colours or heights: three times the distance from the best to the upper third's last.

    Hopeless candidates, which every grid has, would otherwise leave one colour for all the rest.
    """
    finite = scores[np.isfinite(scores)]
    high, lowest = float(finite.max()), float(finite.min())
    spread = high - float(np.quantile(finite, 2 / 3))
    low = max(lowest, high - 3.0 * spread) if spread > 0 else lowest
    return (low if low < high else high - max(1e-3 * abs(high), 1e-12)), high


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
