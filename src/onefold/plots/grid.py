"""Scores over gamma and alpha, the choice, and the candidates within a standard error of the best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from onefold.facts.criteria import criterion_of
from onefold.facts.words import counted
from onefold.plots.display import (
    ACCENT,
    BLUE,
    FAINT,
    RING,
    Display,
    ScoreScale,
    finish,
    fitted,
    group_of,
    line_style,
    machine_of,
    plain_numbers,
    plain_text,
    power_label,
)
from onefold.search.ledger import within_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ROOM = 220.0  # points along the shorter side of a picture, for a row of squares
_MOST_TICKS = 9
_NO_REGION = "one score per candidate: no standard error"


@dataclass(eq=False)
class GridDisplay(Display):
    r"""Scores over :math:`\log_2` gamma and :math:`\log_2` alpha, the choice, and its flat region.

    The flat region is every candidate whose mean score is within one standard error of the best one's,
    paired over the splits, as ``select="1se"`` reckons; they have dark borders. The best third of the
    candidates gets a third of the colours at least; what is much worse gets the last one. With one gamma
    (or none, as for the linear kernel) or one alpha it is a curve.

    Parameters
    ----------
    gammas, alphas, scores : ndarray (candidates,)
        Those with a finite score; gammas are NaN for a kernel without a width.
    gamma, alpha, score : float
        The chosen one.
    flat : bool ndarray (candidates,), or None
        Which are within one standard error of the best; None where there are not two splits.
    criterion : str, optional
        What the scores are of; squared errors are drawn as RMSE, error rates as accuracy.
    headline : str, optional
        The title up to the chosen values; by default the score.
    relative : bool
        Whether widths are multiples of a kernel's own scale, as with several kernels.
    """

    title: ClassVar[str] = "Scores over gamma and alpha"

    gammas: np.ndarray
    alphas: np.ndarray
    scores: np.ndarray
    gamma: float
    alpha: float
    score: float
    flat: np.ndarray | None = None
    criterion: str | None = None
    headline: str | None = None
    relative: bool = False

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """The search of a fitted LSSVCCV, LSSVRCV or KernelRidgeCV; of several kernels the chosen."""
        machine = machine_of(estimator)
        remedy = "a machine that searches has one; fit LSSVCCV, LSSVRCV or KernelRidgeCV."
        results, best = fitted(machine, "cv_results_", remedy), machine.best_params_
        own, headline = np.ones(len(results["params"]), dtype=bool), None
        if "kernel" in best:  # the candidates of the chosen one, without a metric or with its kind
            kernel, metric, _ = group_of(best)
            groups = [group_of(one) for one in results["params"]]
            own = np.array([name == kernel and kind in ("none", metric) for name, kind, _ in groups])
            learned = metric != "none" and any(one[:2] == (kernel, metric) for one in groups)
            headline = f"{kernel}: best of its rounds, {metric} metric" if learned else kernel
        return cls.from_results(
            results, best, own, criterion=criterion_of(machine), headline=headline,
            relative="kernel" in best,
        )  # fmt: skip

    @classmethod
    def from_results(
        cls,
        cv_results: Mapping[str, Any],
        best: Mapping[str, Any] | None = None,
        own: Any = None,
        **options: Any,
    ) -> Self:
        """The candidates of ``cv_results_``, or the `own` among them; `best` is the chosen one."""
        if "param_alpha" not in cv_results:
            raise ValueError("cv_results has no param_alpha: this is not a onefold search")
        scores = np.ma.filled(np.ma.asarray(cv_results["mean_test_score"]).astype(float), np.nan)
        kept = np.isfinite(scores) & (True if own is None else own)
        if kept.sum() < 2:
            raise ValueError("the search has fewer than two finite scores: a picture would be one dot")
        alphas, gammas = (_numbers(cv_results, f"param_{name}")[kept] for name in ("alpha", "gamma"))
        gammas = gammas if np.isfinite(gammas).all() else np.full(len(gammas), np.nan)
        scores, given = scores[kept], best or {}
        top = int(np.argmax(scores))
        alpha, gamma = float(given.get("alpha", alphas[top])), float(gammas[top])
        if given.get("gamma") is not None and np.isfinite(gamma):
            gamma = float(given["gamma"])
        far = np.abs(np.log2(alphas) - np.log2(alpha))
        far += np.nan_to_num(np.abs(np.log2(gammas) - np.log2(gamma)))
        chosen = float(scores[far == far.min()].max())
        return cls(
            gammas, alphas, scores, gamma, alpha, chosen, _within_error(cv_results, kept), **options
        )

    @property
    def scale(self) -> ScoreScale:
        """How the scores are drawn."""
        return ScoreScale.of(self.criterion)

    def describe(self) -> str:
        """What the picture shows, in a sentence or two."""
        at = f"alpha {self.alpha:.3g}"
        at = f"gamma {self.gamma:.3g}, {at}" if np.isfinite(self.gamma) else at
        region = _NO_REGION if self.flat is None else f"{self._region()} of the best"
        return (
            f"{self.scale.words} of {counted(len(self.scores), 'candidate')}. The chosen one has "
            f"{self.scale.text(self.score)} at {at}; {region}."
        )

    def _region(self) -> str:
        inside = 0 if self.flat is None else int(self.flat.sum())
        return f"{counted(inside, 'candidate')} within one standard error"

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        widths, ridges = (len(np.unique(one)) for one in (self.gammas, self.alphas))
        curve = min(widths, ridges) == 1
        (self._draw_curve if curve else self._draw_grid)(axes, style)
        if self.flat is None:
            axes.plot([], [], " ", label=_NO_REGION)
        chosen = f"alpha = {power_label(self.alpha)}"
        if np.isfinite(self.gamma):
            width = f"{self.gamma:.3g}" if self.relative else power_label(self.gamma)
            chosen = f"gamma = {width}, {chosen}"
        headline = plain_text(self.headline or self.scale.text(self.score))
        finish(axes, f"{headline}\nat {chosen}", "y" if curve else None)

    def _draw_grid(self, axes: Axes, style: dict[str, Any]) -> None:
        upwards, scale = np.argsort(self.scores, kind="stable"), self.scale  # the best lie on top
        places = np.log2(self.gammas[upwards]), np.log2(self.alphas[upwards])
        values = scale.number(self.scores[upwards])
        low, high = _limits(values, scale.smaller)
        crowd = max(len(np.unique(place)) for place in places)
        square = len(values) > 0.5 * np.prod([len(np.unique(place)) for place in places])  # a grid
        look: dict[str, Any] = {
            "marker": "s" if square else "o",
            "s": np.clip(_ROOM / crowd, 4, 20) ** 2,
        }
        look |= {"cmap": "viridis_r" if scale.smaller else "viridis", "vmin": low, "vmax": high}
        edges = np.zeros(len(values)) if self.flat is None else self.flat[upwards]
        look |= {"linewidths": 2.2 * edges, "edgecolors": "#1a1a1a"}
        points = axes.scatter(*places, c=values, **look | style)
        if self.flat is not None:
            dark: dict[str, Any] = {"mfc": "none", "mec": "#1a1a1a", "mew": 2.2, "ms": 11}
            axes.plot([], [], look["marker"], **dark, label=self._region())
        ends = {(True, False): "min", (False, True): "max"}
        clipped = bool(values.min() < low), bool(values.max() > high)
        bar = axes.figure.colorbar(points, ax=axes, extend=ends.get(clipped, "neither"), pad=0.02)
        plain_numbers(bar.ax.yaxis)
        bar.set_label(scale.words)
        bar.outline.set_visible(False)
        at = [np.log2(self.gamma)], [np.log2(self.alpha)]
        axes.plot(*at, **RING, mec=ACCENT, mew=2.2, zorder=5, label="chosen")
        axes.margins(0.08)
        self._ticks(axes.xaxis, self.gammas, "gamma")
        self._ticks(axes.yaxis, self.alphas, "alpha")
        axes.spines[:].set_visible(False)

    def _draw_curve(self, axes: Axes, style: dict[str, Any]) -> None:
        over = "gamma" if len(np.unique(self.alphas)) == 1 else "alpha"
        values, scale = {"gamma": self.gammas, "alpha": self.alphas}[over], self.scale
        order = np.argsort(values, kind="stable")
        places, scores = np.log2(values[order]), scale.number(self.scores[order])
        low, high = _limits(scores, scale.smaller)
        margin = 0.08 * (high - low)
        look = line_style(style, color=BLUE, marker="o", ms=4.5, lw=1.8, zorder=3)
        axes.plot(places, scores, **look)
        if self.flat is not None:
            inside = self.flat[order]
            band: dict[str, Any] = {"color": FAINT, "ms": 14, "zorder": 2}
            axes.plot(places[inside], scores[inside], "s", **band, label=self._region())
        outside = places[(scores < low - margin) | (scores > high + margin)]
        if outside.size:
            edge, mark = (high + margin / 2, "^") if scale.smaller else (low - margin / 2, "v")
            label = "outside the picture"
            axes.plot(outside, np.full(outside.size, edge), mark, color=BLUE, zorder=3, label=label)
        at = [np.log2(self.gamma if over == "gamma" else self.alpha)], [scale.number(self.score)]
        axes.plot(*at, **RING, mec=ACCENT, mew=2.2, zorder=4, label="chosen")
        axes.set_ylim(low - margin, high + margin)
        self._ticks(axes.xaxis, values, over)
        axes.set_ylabel(scale.words)
        plain_numbers(axes.yaxis)

    def _ticks(self, axis: Any, values: np.ndarray, name: str) -> None:
        """Powers of two, or for relative widths the plain numbers, as many as there is room for."""
        values = np.unique(values)
        apart = (np.log2(values[-1]) - np.log2(values[0])) / _MOST_TICKS
        shown: list[float] = []
        for value in values.tolist():
            if not shown or np.log2(value) - np.log2(shown[-1]) >= apart:
                shown.append(value)
        relative = self.relative and name == "gamma"
        axis.set_ticks(
            np.log2(shown), labels=[f"{v:.2g}" if relative else power_label(v) for v in shown]
        )
        axis.set_tick_params(length=0)
        effect = "more flexible" if name == "gamma" else "smoother"
        axis.set_label_text(f"{name}{', relative' if relative else ''} (larger: {effect})")


def _within_error(cv_results: Mapping[str, Any], kept: np.ndarray) -> np.ndarray | None:
    """Which candidates cannot be told from the best one; None without splits."""
    names = takewhile(cv_results.__contains__, (f"split{i}_test_score" for i in count()))
    splits = np.array([np.asarray(cv_results[name], dtype=float)[kept] for name in names])
    if len(splits) < 2:
        return None
    solved, flat = np.isfinite(splits).all(axis=0), np.zeros(splits.shape[1], dtype=bool)
    if solved.any():
        _, exponent = np.frexp(np.abs(splits[:, solved]).max())
        table = np.ldexp(splits.T[None, solved], -exponent)  # no overflow, the same digits
        flat[solved] = within_error(table, (0, int(np.argmax(table.mean(axis=2)))))[0]
    return flat


def _numbers(cv_results: Mapping[str, Any], key: str) -> np.ndarray:
    """A parameter as floats; NaN where a candidate has none or it isn't a positive number."""
    nothing = np.full(len(cv_results["mean_test_score"]), np.nan)
    try:
        column = np.ma.asarray(cv_results.get(key, nothing)).astype(float)
    except (TypeError, ValueError):
        return nothing
    values = np.asarray(np.ma.filled(column, np.nan))
    return np.where(values > 0, values, np.nan)


def _limits(scores: np.ndarray, smaller: bool) -> tuple[float, float]:
    """Limits of colours or heights: three times the distance from the best to the upper third's last.

    Hopeless candidates, which every grid has, would otherwise leave one colour for all the rest.
    """
    if smaller:
        low, high = _limits(-scores, False)
        return -high, -low
    high, lowest = float(scores.max()), float(scores.min())
    spread = high - float(np.quantile(scores, 2 / 3))
    low = max(lowest, high - 3.0 * spread) if spread > 0 else lowest
    return (low if low < high else high - max(1e-3 * abs(high), 1e-12)), high
