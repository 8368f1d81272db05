"""What a search found: scores over gamma and alpha, by rounds of learning, and shares of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from onefold.facts.criteria import Shown, criterion_of, score_words, shown
from onefold.facts.ran import group_words
from onefold.facts.words import counted, readable
from onefold.plots.display import (
    BLUE,
    FAINT,
    Display,
    finish,
    fitted,
    machine_of,
    mark_chosen,
    plain_numbers,
    plain_text,
)
from onefold.search.ledger import within_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = (BLUE, "#009e73", "#e69f00", "#cc79a7", "#8c6d46", "#56b4e9", "#8f8f8f")
_DASHES = {"none": ":", "diagonal": "--", "full": "-"}
_DARK = "#1a1a1a"
_ROOM = 220.0  # points along the shorter side of a picture, for a row of squares
_MOST_TICKS = 9
_MOST_BARS = 12
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
        scores = np.ma.filled(np.ma.asarray(results["mean_test_score"]).astype(float), np.nan)
        kept, headline = np.isfinite(scores), None
        if "kernel" in best:  # the candidates of the chosen one, without a metric or with its kind
            kernel, metric, _ = _group(best)
            groups = [_group(one) for one in results["params"]]
            kept &= [name == kernel and kind in ("none", metric) for name, kind, _ in groups]
            learned = metric != "none" and any(one[:2] == (kernel, metric) for one in groups)
            headline = f"{kernel}: best of its rounds, {metric} metric" if learned else kernel
        if kept.sum() < 2:
            raise ValueError("the search has fewer than two finite scores: a picture would be one dot")
        candidates = [one for one, finite in zip(results["params"], kept) if finite]
        alphas, scores = np.array([float(one["alpha"]) for one in candidates]), scores[kept]
        gammas = np.array([_width(one) for one in candidates])
        gammas = gammas if np.isfinite(gammas).all() else np.full(len(gammas), np.nan)
        alpha, gamma = float(best["alpha"]), _width(best) if np.isfinite(gammas).all() else np.nan
        far = np.abs(np.log2(alphas) - np.log2(alpha))
        far += np.nan_to_num(np.abs(np.log2(gammas) - np.log2(gamma)))
        chosen, flat = float(scores[far == far.min()].max()), _within_error(results, kept)
        return cls(
            gammas, alphas, scores, gamma, alpha, chosen, flat, criterion_of(machine), headline,
            "kernel" in best,
        )  # fmt: skip

    def describe(self) -> str:
        """What the picture shows, in a sentence or two."""
        at = f"alpha {self.alpha:.3g}"
        at = f"gamma {self.gamma:.3g}, {at}" if np.isfinite(self.gamma) else at
        region = _NO_REGION if self.flat is None else f"{self._region()} of the best"
        return (
            f"{_axis_words(self.criterion)} of {counted(len(self.scores), 'candidate')}. The chosen one "
            f"has {_score_words(self.criterion, self.score)} at {at}; {region}."
        )

    def _region(self) -> str:
        inside = 0 if self.flat is None else int(self.flat.sum())
        return f"{counted(inside, 'candidate')} within one standard error"

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        curve = min(len(np.unique(one)) for one in (self.gammas, self.alphas)) == 1
        (self._draw_curve if curve else self._draw_grid)(axes, style)
        if self.flat is None:
            axes.plot([], [], " ", label=_NO_REGION)
        chosen = f"alpha = {_power(self.alpha)}"
        if np.isfinite(self.gamma):
            width = f"{self.gamma:.3g}" if self.relative else _power(self.gamma)
            chosen = f"gamma = {width}, {chosen}"
        headline = plain_text(self.headline or _score_words(self.criterion, self.score), 60)
        finish(axes, f"{headline}\nat {chosen}", "y" if curve else None)

    def _draw_grid(self, axes: Axes, style: dict[str, Any]) -> None:
        upwards, scale = np.argsort(self.scores, kind="stable"), _scale(self.criterion)  # best on top
        places = np.log2(self.gammas[upwards]), np.log2(self.alphas[upwards])
        values = scale.number(self.scores[upwards])
        low, high = _limits(values, scale.smaller)
        widths, ridges = (len(np.unique(place)) for place in places)
        look: dict[str, Any] = {
            "marker": "s" if len(values) > 0.5 * widths * ridges else "o",  # a grid, or points
            "s": np.clip(_ROOM / max(widths, ridges), 4, 20) ** 2,
            "cmap": "viridis_r" if scale.smaller else "viridis",
            "vmin": low,
            "vmax": high,
            "linewidths": 0.0 if self.flat is None else 2.2 * self.flat[upwards],
            "edgecolors": _DARK,
        }
        points = axes.scatter(*places, c=values, **look | style)
        if self.flat is not None:
            dark: dict[str, Any] = {"mfc": "none", "mec": _DARK, "mew": 2.2, "ms": 11}
            axes.plot([], [], look["marker"], **dark, label=self._region())
        worst = "max" if scale.smaller else "min"
        clipped = bool(values.min() < low or values.max() > high)
        bar = axes.figure.colorbar(points, ax=axes, extend=worst if clipped else "neither", pad=0.02)
        plain_numbers(bar.ax.yaxis)
        bar.set_label(_axis_words(self.criterion))
        bar.outline.set_visible(False)
        mark_chosen(axes, np.log2(self.gamma), np.log2(self.alpha))
        axes.margins(0.08)
        self._ticks(axes.xaxis, self.gammas, "gamma")
        self._ticks(axes.yaxis, self.alphas, "alpha")
        axes.spines[:].set_visible(False)

    def _draw_curve(self, axes: Axes, style: dict[str, Any]) -> None:
        over = "gamma" if len(np.unique(self.alphas)) == 1 else "alpha"
        values, scale = {"gamma": self.gammas, "alpha": self.alphas}[over], _scale(self.criterion)
        order = np.argsort(values, kind="stable")
        places, scores = np.log2(values[order]), scale.number(self.scores[order])
        low, high = _limits(scores, scale.smaller)
        axes.plot(places, scores, **_line(style, color=BLUE, markersize=4.5))
        if self.flat is not None:  # which is inside the picture, however steep
            inside = places[self.flat[order]], scores[self.flat[order]]
            low, high = min(low, *inside[1]), max(high, *inside[1])
            band: dict[str, Any] = {"color": FAINT, "ms": 14, "zorder": 2}
            axes.plot(*inside, "s", **band, label=self._region())
        margin = 0.08 * (high - low)
        mark_chosen(axes, np.log2(getattr(self, over)), float(scale.number(self.score)))
        axes.set_ylim(low - margin, high + margin)
        self._ticks(axes.xaxis, values, over)
        axes.set_ylabel(_axis_words(self.criterion))
        plain_numbers(axes.yaxis)

    def _ticks(self, axis: Any, values: np.ndarray, name: str) -> None:
        """Powers of two, or for relative widths the plain numbers, as many as there is room for."""
        values = np.unique(values)
        apart = (np.log2(values[-1]) - np.log2(values[0])) / _MOST_TICKS
        named: list[float] = []
        for value in values.tolist():
            if not named or np.log2(value) - np.log2(named[-1]) >= apart:
                named.append(value)
        relative = self.relative and name == "gamma"
        axis.set_ticks(np.log2(named), labels=[f"{v:.2g}" if relative else _power(v) for v in named])
        axis.set_tick_params(length=0)
        effect = "more flexible" if name == "gamma" else "smoother"
        axis.set_label_text(f"{name}{', relative' if relative else ''} (larger: {effect})")


@dataclass(eq=False)
class RoundsDisplay(Display):
    """Scores by the rounds of learning a metric; all kinds start from the kernel as it is.

    Parameters
    ----------
    scores : dict from (kernel, metric, round) to float
        Of the rows that taught the metrics, where those are not all.
    chosen : tuple
        The group that was chosen.
    criterion : str, optional
        What the scores are of.
    rows : int, optional
        How many rows were scored, if these only taught the metric.
    """

    scores: dict[tuple[str, str, int], float]
    chosen: tuple[str, str, int]
    criterion: str | None = None
    rows: int | None = None

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """The rounds of a machine that was fitted with ``metric=``."""
        machine = machine_of(estimator)
        remedy = 'rounds belong to learned metrics; fit with metric="auto".'
        history = fitted(machine, "metric_history_", remedy)
        if not any(one["round"] > 0 for one in history):
            raise ValueError(f"this {type(machine).__name__} has learned in no round: {remedy}")
        # Scores of rows that only taught the metric are squared errors, whatever the criterion; where
        # paths were followed again on more rows, scores of both kinds of rows do not make one line.
        first = [one for one in history if one["rows"] == history[0]["rows"]]
        compared = {_group(one) for one in machine.cv_results_["params"]}
        criterion, rows = criterion_of(machine), None
        if len(first) < len(history) or not {_group(one) for one in history} <= compared:
            criterion, rows = "mse", int(history[0]["rows"])
        scores = {_group(one): float(one["score"]) for one in first}
        return cls(scores, _group(machine.best_params_), criterion, rows)

    @property
    def kinds(self) -> list[tuple[str, str]]:
        """Kernels with their kinds of metric, then kernels that none was learned for."""
        learned = sorted({(name, kind) for name, kind, _ in self.scores if kind != "none"})
        plain = dict.fromkeys(name for name, _, _ in self.scores)
        return learned + [(name, "none") for name in plain if name not in dict(learned)]

    def describe(self) -> str:
        """What the picture shows, in a sentence or two."""
        best = max(self.scores, key=lambda group: self.scores[group])
        top, chosen = (
            group_words(dict(zip(("kernel", "metric", "round"), group))) for group in (best, self.chosen)
        )
        return (
            f"{_axis_words(self.criterion)} of {len(self.kinds)} kernels and metrics over rounds 0 to "
            f"{max(number for _, _, number in self.scores)}. Best: {top}, "
            f"{_score_words(self.criterion, self.scores[best])}; chosen: {chosen}."
        )

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        scale = _scale(self.criterion)
        scores = {group: float(scale.number(score)) for group, score in self.scores.items()}
        kernels = list(dict.fromkeys(name for name, _, _ in scores))
        for name, kind in self.kinds:
            own = {(name, "none", 0)} | {one for one in scores if one[:2] == (name, kind)}
            points = sorted((group[2], scores[group]) for group in own & scores.keys())
            colour = _COLOURS[kernels.index(name) % len(_COLOURS)]
            look = _line(style, color=colour, linestyle=_DASHES[kind], markersize=4)
            label = plain_text(f"{name}, {kind}" if kind != "none" else name, 60)
            axes.plot(*zip(*points), **look, label=label)
        if self.chosen in scores:
            mark_chosen(axes, self.chosen[2], scores[self.chosen])
        axes.set_xlabel("round (0: the kernel as it is)")
        axes.set_ylabel(_axis_words(self.criterion))
        plain_numbers(axes.yaxis)
        axes.set_xticks(range(max(number for _, _, number in scores) + 1))
        where = "" if self.rows is None else f", on {self.rows:,} rows that it was learned from"
        finish(axes, f"learning a metric{where}", "y")


@dataclass(eq=False)
class ImportanceDisplay(Display):
    """The most important features as bars; the scores by rounds are :class:`RoundsDisplay`.

    Parameters
    ----------
    importances : dict from str to float
        Permutation importance of every feature on held-out rows, as a share of the sum.
    most : int
        How many are drawn.
    """

    importances: dict[str, float]
    most: int = _MOST_BARS

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, names: Sequence[str] | None = None, most: int = _MOST_BARS
    ) -> Self:
        """The shares of a machine that learned a metric.

        Parameters
        ----------
        estimator : fitted estimator, or Pipeline that ends in one
        names : list of str, optional
            Of the features; by default those of the table it was fitted on.
        most : int
            How many features are drawn at most.
        """
        if most < 1:
            raise ValueError(f"most is a number of features, at least 1; got {most!r}.")
        named = getattr(estimator, "importances_", None)
        if names is None and isinstance(named, Mapping) and named:  # of a table's columns
            return cls({str(name): float(share) for name, share in named.items()}, most)
        machine = machine_of(estimator)
        remedy = 'shares come with learned metrics; fit with metric="auto".'
        shares = fitted(machine, "feature_importances_", remedy)
        if names is None:
            names = getattr(machine, "feature_names_in_", [f"feature {j}" for j in range(len(shares))])
        if len(names) != len(shares):
            raise ValueError(f"names has {len(names)} entries, and there are {len(shares)} features.")
        found: dict[str, float] = {}
        for number, (name, share) in enumerate(zip(names, shares)):  # equal names get their number
            found[str(name) if str(name) not in found else f"{name} ({number})"] = float(share)
        return cls(found, most)

    @property
    def greatest(self) -> dict[str, float]:
        """Those that are drawn, the greatest first."""
        order = sorted(self.importances, key=lambda name: -self.importances[name])
        return {name: self.importances[name] for name in order[: self.most]}

    def describe(self) -> str:
        """What the picture shows, in a sentence or two."""
        words = ", ".join(f"{name} {share:.1%}" for name, share in list(self.greatest.items())[:5])
        return (
            f"Permutation importance of {len(self.importances)} features, in shares of the sum: {words}."
        )

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        shares, every = self.greatest, len(self.importances)
        slots = max(len(shares), 4)
        places = np.arange(slots)[::-1][: len(shares)]
        percents = [100 * share for share in shares.values()]
        look: dict[str, Any] = {"color": BLUE, "height": 0.66}
        bars = axes.barh(places, percents, **look | style)
        labels = ["< 0.1" if 0 < p < 0.1 else f"{p:.0f}" if p >= 10 else f"{p:.1f}" for p in percents]
        axes.bar_label(bars, labels, padding=3, fontsize="small")
        axes.set_yticks(places, labels=[plain_text(name, 24) for name in shares])
        axes.set_ylim(-0.7, slots - 0.3)
        axes.margins(x=0.1)
        axes.set_xlabel("permutation importance, % of the sum")
        title = "all features" if every == len(shares) else f"the {len(shares)} largest of {every}"
        finish(axes, title, "x")


def _group(params: Mapping[str, Any]) -> tuple[str, str, int]:
    """The kernel of a candidate, its kind of metric and its round."""
    return str(params.get("kernel", "")), str(params.get("metric", "none")), int(params.get("round", 0))


def _scale(criterion: str | None) -> Shown:
    """How scores are drawn: squared errors as RMSE, error rates as accuracy."""
    return Shown("score", np.positive) if criterion is None else shown(criterion)


def _axis_words(criterion: str | None) -> str:
    scale = _scale(criterion)
    return f"{scale.label} ({'lower' if scale.smaller else 'higher'} is better)"


def _score_words(criterion: str | None, score: float) -> str:
    return f"score {readable(score)}" if criterion is None else score_words(criterion, score)


def _line(style: dict[str, Any], **own: Any) -> dict[str, Any]:
    """Settings of a line: the caller's before ours, by whichever of their names."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    given: dict[str, Any] = normalize_kwargs(style, Line2D)
    return {"marker": "o", "linewidth": 1.8, "zorder": 3, **own, **given}


def _power(value: float) -> str:
    """A value as a power of two in mathtext, with one decimal where the exponent isn't whole."""
    exponent = np.log2(value)
    rounded = round(exponent)
    return f"$2^{{{rounded if abs(exponent - rounded) < 1e-6 else format(exponent, '.1f')}}}$"


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


def _width(params: Mapping[str, Any]) -> float:
    """The width of a candidate; NaN where it has none, or one for every feature."""
    gamma = params.get("gamma")
    return float(gamma) if isinstance(gamma, Real) else np.nan


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
