"""Plots of a search: scores over gamma and alpha, scores by rounds, importances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count, takewhile
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from onefold.facts.criteria import criterion_of, format_of, score_words
from onefold.facts.scores import as_columns
from onefold.facts.summary import choice_rule, group_words
from onefold.facts.unwrap import unwrap
from onefold.facts.words import counted, power_of_two
from onefold.plots.display import (
    BLUE,
    FAINT,
    Display,
    finish,
    fitted,
    mark_chosen,
    plain_numbers,
    plain_text,
)
from onefold.search.ledger import tie_tolerance, within_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, for kernels.
_COLOURS = (BLUE, "#009e73", "#e69f00", "#cc79a7", "#8c6d46", "#56b4e9", "#8f8f8f")
# How lines are drawn.
_LINE: dict[str, Any] = {"marker": "o", "markersize": 4.5, "linewidth": 1.8, "zorder": 3}
# Line styles of kinds of metric.
_DASHES = {"none": ":", "diagonal": "--", "full": "-"}
# The colour of the borders of the flat region.
_DARK = "#1a1a1a"
# Points along the shorter side of a picture, for a row of squares.
_ROOM = 220.0
# Bars of importances.
_MOST_BARS = 12
_NO_REGION = "one score per candidate: no standard error"


@dataclass(eq=False)
class GridDisplay(Display):
    r"""Scores over :math:`\log_2` gamma and :math:`\log_2` alpha, with the chosen candidate.

    Candidates whose mean score is within one standard error of the best (the flat region; paired over
    the splits, as for ``select="1se"``) have dark borders. The best third of the candidates gets at
    least a third of the colours; much worse ones get the last colour. With a single gamma (or none, as
    for the linear kernel) or a single alpha the plot is a curve.

    Parameters
    ----------
    gammas, alphas, scores : ndarray (candidates,)
        Candidates with a finite score; gammas are NaN for a kernel without a width.
    gamma, alpha, score : float
        The chosen candidate.
    flat : bool ndarray (candidates,), or None
        Which candidates are within one standard error of the best; None with fewer than two splits.
    criterion : str, optional
        Criterion of the scores; squared errors are drawn as RMSE, error rates as accuracy.
    group : str, optional
        Kernel and metric of the candidates, if several were searched; widths are then relative to the
        scale of the kernel.
    rows : int, optional
        Number of held-out rows that were scored.
    rule : str, optional
        The rule by which the candidate was chosen.
    finalists : bool
        Whether the candidates are the best of searches on fewer rows, not a grid.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV
    >>> from onefold.plots import GridDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LSSVRCV(gammas=[1, 10, 100], alphas=[0.1, 1, 10]).fit(X, y)
    >>> display = GridDisplay.from_estimator(model)
    >>> display.gamma, display.alpha
    (10.0, 1.0)
    """

    gammas: np.ndarray
    alphas: np.ndarray
    scores: np.ndarray
    gamma: float
    alpha: float
    score: float
    flat: np.ndarray | None = None
    criterion: str | None = None
    group: str | None = None
    rows: int | None = None
    rule: str | None = None
    finalists: bool = False

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Plot the search of a fitted LSSVCCV, LSSVRCV or KernelRidgeCV, for the chosen kernel."""
        inner = unwrap(estimator).estimator
        remedy = "only estimators that search have it; fit LSSVCCV, LSSVRCV or KernelRidgeCV."
        results = fitted(inner, "cv_results_", remedy)
        best = inner.best_params_
        scores = np.asarray(results["mean_test_score"], dtype=float)
        plotted = np.isfinite(scores)
        group = None
        if "kernel" in best:  # candidates of the chosen kernel, without a metric or with its kind
            kernel, metric, _ = _group(best)
            groups = [_group(params) for params in results["params"]]
            plotted &= [name == kernel and kind in ("none", metric) for name, kind, _ in groups]
            group = kernel if metric == "none" else f"{kernel}: best of its rounds, {metric} metric"
        # Of several spacings of a circulant matrix, the candidates of the chosen one.
        plotted &= [params.get("spacing") == best.get("spacing") for params in results["params"]]
        if plotted.sum() < 2:
            raise ValueError("the search has fewer than two finite scores, which is too few to plot")
        candidates = [params for params, is_plotted in zip(results["params"], plotted) if is_plotted]
        gammas = np.array([_width(params) for params in candidates])
        alphas = np.array([float(params["alpha"]) for params in candidates])
        names = takewhile(results.__contains__, (f"split{i}_test_score" for i in count()))
        splits = np.array([np.asarray(results[name], dtype=float)[plotted] for name in names]).T
        flat = None
        if splits.ndim == 2 and splits.shape[1] > 1:
            flat = within_error(splits[None], (0, int(np.argmax(splits.mean(axis=1)))))[0]
        stages = {event["rows"] for event in getattr(inner, "metric_history_", None) or ()}
        return cls(
            gammas,
            alphas,
            scores[plotted],
            gamma=_width(best),
            alpha=float(best["alpha"]),
            score=float(inner.best_score_),
            flat=flat,
            criterion=criterion_of(inner),
            group=group,
            rows=_tested_rows(inner),
            rule=choice_rule(inner),
            finalists=len(stages) > 1,
        )

    def describe(self) -> str:
        """What the plot shows, in a sentence or two."""
        at = f"alpha {self.alpha:.3g}"
        at = f"gamma {self.gamma:.3g}, {at}" if np.isfinite(self.gamma) else at
        region = _NO_REGION if self.flat is None else f"{self._region()} of the best"
        return (
            f"{_axis_words(self.criterion)} of {counted(len(self.scores), 'candidate')}. The chosen one "
            f"has {score_words(self.criterion, self.score)} at {at}; {region}."
        )

    def caption(self) -> str:
        """How to read the plot: the rows that were scored, the region, and why the choice is that."""
        label = format_of(self.criterion).label
        kernel = "" if self.group is None else " of the chosen kernel"
        where = "" if self.rows is None else f" on {self.rows:,} held-out rows"
        noun = "finalist" if self.finalists else "candidate"
        words = [f"{_capital(label)} of {counted(len(self.scores), noun)}{kernel}{where}."]
        if self.flat is not None:
            marks = "Dark borders" if len(self._over) == 2 else "Grey squares"
            words.append(f"{marks}: {self._region()} of the best.")
        best = self.score >= self.scores.max() - tie_tolerance(self.scores)
        return " ".join([*words, _choice_words(self.rule, label, best=best)])

    @property
    def _over(self) -> list[str]:
        """The parameters that candidates differ in."""
        ways = {"gamma": self.gammas, "alpha": self.alphas}
        return [name for name, values in ways.items() if len(np.unique(values)) > 1]

    def _region(self) -> str:
        inside = 0 if self.flat is None else int(self.flat.sum())
        return f"{counted(inside, 'candidate')} within one standard error"

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        over = self._over
        if len(over) == 2:
            self._draw_grid(axes, style)
        else:
            self._draw_curve(axes, style, *over or ["alpha"])
        if self.flat is None:
            axes.plot([], [], " ", label=_NO_REGION)
        chosen = f"alpha = {power_of_two(self.alpha)}"
        if np.isfinite(self.gamma):
            chosen = f"gamma = {power_of_two(self.gamma)}, {chosen}"
        headline = plain_text(self.group or score_words(self.criterion, self.score), 60)
        finish(axes, f"{headline}\nat {chosen}", None if len(over) == 2 else "y")

    def _draw_grid(self, axes: Axes, style: dict[str, Any]) -> None:
        upwards = np.argsort(self.scores, kind="stable")
        score_format = format_of(self.criterion)  # best on top
        values = score_format.from_score(self.scores[upwards])
        low, high = self._limits()
        widths = len(np.unique(self.gammas))
        ridges = len(np.unique(self.alphas))
        look: dict[str, Any] = {
            "marker": "s" if len(values) > 0.5 * widths * ridges else "o",  # a grid, or points
            "s": np.clip(_ROOM / max(widths, ridges), 4, 20) ** 2,
            "cmap": "viridis_r" if score_format.smaller else "viridis",
            "vmin": low,
            "vmax": high,
            "linewidths": 0.0 if self.flat is None else 2.2 * self.flat[upwards],
            "edgecolors": _DARK,
        }
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        points = axes.scatter(self.gammas[upwards], self.alphas[upwards], c=values, **look | style)
        if self.flat is not None:
            dark: dict[str, Any] = {"mfc": "none", "mec": _DARK, "mew": 2.2, "ms": 11}
            axes.plot([], [], look["marker"], **dark, label=self._region())
        worst = "max" if score_format.smaller else "min"
        clipped = bool(values.min() < low or values.max() > high)
        bar = axes.figure.colorbar(points, ax=axes, extend=worst if clipped else "neither", pad=0.02)
        plain_numbers(bar.ax, "y")
        bar.set_label(_axis_words(self.criterion))
        bar.outline.set_visible(False)
        mark_chosen(axes, self.gamma, self.alpha)
        axes.margins(0.08)
        axes.set_xlabel(self._words("gamma"))
        axes.set_ylabel(self._words("alpha"))
        axes.spines[:].set_visible(False)

    def _draw_curve(self, axes: Axes, style: dict[str, Any], over: str) -> None:
        values = self.gammas if over == "gamma" else self.alphas
        score_format = format_of(self.criterion)
        order = np.argsort(values, kind="stable")
        places = values[order]
        scores = score_format.from_score(self.scores[order])
        low, high = self._limits()
        axes.set_xscale("log", base=2)
        look = _LINE | {"color": BLUE} | ({"linestyle": "none"} if self.finalists else {})
        axes.plot(places, scores, **look | style)
        if self.flat is not None:  # the flat region is shown completely, however steep the curve
            inside = places[self.flat[order]], scores[self.flat[order]]
            low = min(low, *inside[1])
            high = max(high, *inside[1])
            band: dict[str, Any] = {"color": FAINT, "ms": 14, "zorder": 2}
            axes.plot(*inside, "s", **band, label=self._region())
        mark_chosen(axes, getattr(self, over), float(score_format.from_score(self.score)))
        if margin := 0.08 * (high - low):
            axes.set_ylim(low - margin, high + margin)
        axes.set_xlabel(self._words(over))
        axes.set_ylabel(_axis_words(self.criterion))
        plain_numbers(axes, "y")

    def _words(self, name: str) -> str:
        if name == "alpha":
            return "alpha (larger: smoother)"
        return f"gamma{', relative' if self.group else ''} (larger: more flexible)"

    def _limits(self) -> tuple[float, float]:
        """Limits of the colours: three times the range of the best third of the candidates."""
        best = self.scores.max()
        worst = self.scores.min()
        spread = best - np.quantile(self.scores, 2 / 3)
        if spread > 0:
            worst = max(worst, best - 3.0 * spread)
        low, high = np.sort(format_of(self.criterion).from_score(np.array([worst, best]))).tolist()
        return low, high


@dataclass(eq=False)
class ChoiceDisplay(Display):
    """How much larger the loss of every kernel and metric is than that of the best one; the choice.

    Bars are standard errors of the difference, paired over the held-out rows. The simplest of those
    whose bar reaches the best one is chosen.

    Parameters
    ----------
    groups : list of (kernel, metric, round)
        The best first.
    differences, errors : ndarray (groups,)
        Mean loss above that of the best one and its standard error, as shares of the best one's loss.
    chosen : tuple
        The kernel, metric and round that were chosen.
    rows : int, optional
        Number of held-out rows that were scored.
    rule : str, optional
        The rule by which the candidate was chosen.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV
    >>> from onefold.plots import ChoiceDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LSSVRCV(metric="diagonal", gammas=[0.3, 1], alphas=[0.01, 0.1], max_rounds=1).fit(X, y)
    >>> ChoiceDisplay.from_estimator(model).tied.tolist()
    [True, False]
    """

    groups: list[tuple[str, str, int]]
    differences: np.ndarray
    errors: np.ndarray
    chosen: tuple[str, str, int]
    rows: int | None = None
    rule: str | None = None

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Plot the choice of an estimator that was fitted with ``metric=``."""
        inner = unwrap(estimator).estimator
        remedy = 'groups of candidates are compared only with metric="auto".'
        compared = fitted(inner, "search_", remedy).get("compared") or []
        if len(compared) < 2:
            raise ValueError(f"this {type(inner).__name__} has compared fewer than two groups: {remedy}")
        differences, errors = (
            np.array([float(record[name]) for record in compared])
            for name in ("difference", "standard_error")
        )
        chosen = _group(inner.best_params_)
        return cls(
            [_group(record) for record in compared],
            differences,
            errors,
            chosen,
            _tested_rows(inner),
            choice_rule(inner),
        )

    @property
    def tied(self) -> np.ndarray:
        """Which groups are within one standard error of the best one."""
        return self.differences <= self.errors

    def describe(self) -> str:
        """What the plot shows, in a sentence or two."""
        return (
            f"Loss of {len(self.groups)} kernels and metrics, above that of the best one "
            f"({self._words(self.groups[0])}): {int(self.tied.sum())} within one standard error. "
            f"Chosen: {self._words(self.chosen)}."
        )

    def caption(self) -> str:
        """How to read the plot: the rows that were scored, and why the choice is that."""
        where = "" if self.rows is None else f" on {self.rows:,} held-out rows"
        rule = "" if self.rule is None else f": {self.rule}"
        return (
            f"Loss above that of the best, in per cent of it{where}; bars are one standard error. The "
            f"ring marks the choice{rule}."
        )

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        shown = self._shown
        slots = max(len(shown), 4)
        places = np.arange(slots)[::-1][: len(shown)]
        percents = 100 * self.differences[shown]
        look: dict[str, Any] = {"fmt": "o", "color": BLUE, "capsize": 3, "markersize": 5, "zorder": 3}
        axes.errorbar(percents, places, xerr=100 * self.errors[shown], **look | style)
        axes.axvline(0.0, color=FAINT, lw=1.2)
        words = [self._words(self.groups[number]).replace(" metric", "") for number in shown]
        axes.set_yticks(places, labels=[plain_text(text, 32) for text in words])
        axes.set_ylim(-0.7, slots - 0.3)
        if self.chosen in self.groups:
            number = self.groups.index(self.chosen)
            place = float(places[shown.index(number)])
            mark_chosen(axes, 100 * float(self.differences[number]), place)
        axes.set_xlabel("loss above that of the best, %")
        where = "" if self.rows is None else f", on {self.rows:,} held-out rows"
        finish(axes, f"the choice{where}", "x")

    @property
    def _shown(self) -> list[int]:
        """The numbers of the best groups, and of the chosen one."""
        shown = list(range(min(_MOST_BARS, len(self.groups))))
        if self.chosen in self.groups and self.groups.index(self.chosen) not in shown:
            shown[-1] = self.groups.index(self.chosen)
        return shown

    @staticmethod
    def _words(group: tuple[str, str, int]) -> str:
        kernel, metric, number = group
        return group_words({"kernel": kernel, "metric": metric, "round": number})


@dataclass(eq=False)
class RoundsDisplay(Display):
    """Scores by round of learning a metric; round 0 is the kernel without a metric.

    Parameters
    ----------
    scores : dict from (kernel, metric, round) to float
        Scores on the rows that the metrics were learned from, if these are not all rows.
    chosen : tuple
        The kernel, metric and round that were chosen.
    criterion : str, optional
        Criterion of the scores.
    rows : int, optional
        Number of rows that the metric was learned from, if only these were scored.
    tested : int, optional
        Number of held-out rows that the choice is based on.
    rule : str, optional
        The rule by which the candidate was chosen.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV
    >>> from onefold.plots import RoundsDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LSSVRCV(metric="diagonal", gammas=[0.3, 1], alphas=[0.01, 0.1], max_rounds=1).fit(X, y)
    >>> sorted({round for _, _, round in RoundsDisplay.from_estimator(model).scores})
    [0, 1]
    """

    scores: dict[tuple[str, str, int], float]
    chosen: tuple[str, str, int]
    criterion: str | None = None
    rows: int | None = None
    tested: int | None = None
    rule: str | None = None

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Plot the rounds of an estimator that was fitted with ``metric=``."""
        inner = unwrap(estimator).estimator
        remedy = 'rounds need a learned metric; fit with metric="auto".'
        history = fitted(inner, "metric_history_", remedy)
        if not any(event["round"] > 0 for event in history):
            raise ValueError(f"this {type(inner).__name__} has not learned a metric: {remedy}")
        # Scores on rows that only served to learn the metric are squared errors, whatever the criterion.
        # If paths were repeated on more rows, scores of the two sets of rows do not make one line.
        first = [event for event in history if event["rows"] == history[0]["rows"]]
        compared = {_group(params) for params in inner.cv_results_["params"]}
        criterion = criterion_of(inner)
        rows = None
        if len(first) < len(history) or not {_group(event) for event in history} <= compared:
            criterion = "mse"
            rows = int(history[0]["rows"])
        scores = {_group(event): float(event["score"]) for event in first}
        chosen = _group(inner.best_params_)
        return cls(scores, chosen, criterion, rows, _tested_rows(inner), choice_rule(inner))

    @property
    def kinds(self) -> list[tuple[str, str]]:
        """Kernels with their kinds of metric, then kernels without a learned metric."""
        learned = sorted({(name, kind) for name, kind, _ in self.scores if kind != "none"})
        plain = dict.fromkeys(name for name, _, _ in self.scores)
        return learned + [(name, "none") for name in plain if name not in dict(learned)]

    def describe(self) -> str:
        """What the plot shows, in a sentence or two."""
        best = max(self.scores, key=lambda group: self.scores[group])
        kernel, metric, number = self.chosen
        chosen = group_words({"kernel": kernel, "metric": metric, "round": number})
        return (
            f"{_axis_words(self.criterion)} of {len(self.kinds)} kernels and metrics over rounds. Best: "
            f"{score_words(self.criterion, self.scores[best])}; chosen: {chosen}."
        )

    def caption(self) -> str:
        """How to read the plot: which rows the scores are of, and why the choice is that."""
        label = format_of(self.criterion).label
        words = f"{_capital(label)} by rounds of learning which columns matter"
        if self.rows is None:
            where = "" if self.tested is None else f", on {self.tested:,} held-out rows"
            best = self.scores.get(self.chosen, -np.inf) >= max(self.scores.values())
            return f"{words}{where}. {_choice_words(self.rule, label, best=best)}"
        words = f"{words}, with models of {self.rows:,} rows: how every kernel got its metric."
        last = "more rows" if self.tested is None else f"{self.tested:,} held-out rows"
        rule = "" if self.rule is None else f" ({self.rule})"
        name = group_words(dict(zip(("kernel", "metric", "round"), self.chosen)))
        return (
            f"{words} The choice was made later, with models of all rows, on {last}{rule}, where the "
            f"order may differ: {name}."
        )

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        score_format = format_of(self.criterion)
        scores = {group: float(score_format.from_score(score)) for group, score in self.scores.items()}
        kernels = list(dict.fromkeys(name for name, _, _ in scores))
        for name, kind in self.kinds:
            rounds = {(name, "none", 0)} | {group for group in scores if group[:2] == (name, kind)}
            points = sorted((group[2], scores[group]) for group in rounds & scores.keys())
            colour = _COLOURS[kernels.index(name) % len(_COLOURS)]
            look = _LINE | {"color": colour, "linestyle": _DASHES[kind], "markersize": 4}
            label = plain_text(f"{name}, {kind}" if kind != "none" else name, 60)
            axes.plot(*zip(*points), **look | style, label=label)
        if self.chosen in scores and self.rows is None:  # these are not the scores that decided
            mark_chosen(axes, self.chosen[2], scores[self.chosen])
        axes.set_xlabel("round (0: no metric)")
        axes.set_ylabel(_axis_words(self.criterion))
        plain_numbers(axes, "y")
        axes.set_xticks(range(max(number for _, _, number in scores) + 1))
        where = "" if self.rows is None else f" with models of {self.rows:,} rows, before the choice"
        finish(axes, f"learning a metric{where}", "y")


@dataclass(eq=False)
class ImportanceDisplay(Display):
    """Bar chart of the most important features.

    Parameters
    ----------
    importances : dict from str to float
        Permutation importance of every feature on held-out rows, as a fraction of the total.
    most : int
        Maximum number of features to draw.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV
    >>> from onefold.plots import ImportanceDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LSSVRCV(metric="diagonal", gammas=[0.3, 1], alphas=[0.01, 0.1], max_rounds=1).fit(X, y)
    >>> shares = ImportanceDisplay.from_estimator(model).importances
    >>> round(sum(shares.values()), 6)
    1.0
    """

    importances: dict[str, float]
    most: int = _MOST_BARS

    @classmethod
    def from_estimator(cls, estimator: Any, *, most: int = _MOST_BARS) -> Self:
        """Plot the importances of an estimator that learned a metric, or of the columns of its table.

        Parameters
        ----------
        estimator : fitted estimator, or Pipeline that ends in one
        most : int
            Maximum number of features to draw.
        """
        named = getattr(estimator, "importances_", None)
        if named:  # of a table's columns
            return cls({str(name): float(share) for name, share in named.items()}, most)
        unwrapped = unwrap(estimator)
        remedy = 'importances need a learned metric; fit with metric="auto".'
        shares = fitted(unwrapped.estimator, "feature_importances_", remedy)
        return cls(dict(zip(unwrapped.features, map(float, shares))), most)

    @property
    def _largest(self) -> dict[str, float]:
        order = sorted(self.importances, key=lambda name: -self.importances[name])
        return {name: self.importances[name] for name in order[: self.most]}

    def describe(self) -> str:
        """What the plot shows, in a sentence or two."""
        words = ", ".join(f"{name} {share:.1%}" for name, share in list(self._largest.items())[:5])
        return f"Permutation importance of {len(self.importances)} features: {words}."

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        shares = self._largest
        n_features = len(self.importances)
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
        axes.set_xlabel("permutation importance, %")
        title = (
            "all features" if n_features == len(shares) else f"the {len(shares)} largest of {n_features}"
        )
        finish(axes, title, "x")


def _group(params: Mapping[str, Any]) -> tuple[str, str, int]:
    """The kernel of a candidate, its kind of metric and its round."""
    return str(params.get("kernel", "")), str(params.get("metric", "none")), int(params.get("round", 0))


def _tested_rows(inner: Any) -> int | None:
    """The number of rows with a held-out prediction; None if there are none."""
    heldout = getattr(inner, "heldout_prediction_", None)
    return None if heldout is None else int(np.isfinite(as_columns(heldout)).all(axis=1).sum())


def _choice_words(rule: str | None, label: str, *, best: bool) -> str:
    """A sentence on the ring around the chosen candidate."""
    if best or rule is None:
        return "The ring marks the chosen candidate."
    return f"The ring marks the chosen candidate: {rule}, so others may have a better {label}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _axis_words(criterion: str | None) -> str:
    score_format = format_of(criterion)
    return f"{score_format.label} ({'lower' if score_format.smaller else 'higher'} is better)"


def _width(params: Mapping[str, Any]) -> float:
    """The width of a candidate; NaN if it has none, or one for every feature."""
    gamma = params.get("gamma")
    return float(gamma) if isinstance(gamma, Real) else np.nan
