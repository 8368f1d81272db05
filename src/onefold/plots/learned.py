"""What learning a metric did: the best scores round by round, and the share of every feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from onefold.facts.criteria import criterion_of
from onefold.facts.ran import group_words
from onefold.plots.display import (
    ACCENT,
    BLUE,
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
    short_name,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = (BLUE, "#009e73", "#e69f00", "#cc79a7", "#8c6d46", "#56b4e9", "#8f8f8f")
_DASHES = {"none": ":", "diagonal": "--", "full": "-"}
_MOST = 12


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

    title: ClassVar[str] = "Scores by rounds of learning a metric"

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
        compared = {group_of(one) for one in machine.cv_results_["params"]}
        criterion, rows = criterion_of(machine), None
        if len(first) < len(history) or not {group_of(one) for one in history} <= compared:
            criterion, rows = "mse", int(history[0]["rows"])
        scores = {group_of(one): float(one["score"]) for one in first}
        return cls(scores, group_of(machine.best_params_), criterion, rows)

    @property
    def kinds(self) -> list[tuple[str, str]]:
        """Kernels with their kinds of metric, then kernels that none was learned for."""
        learned = sorted({(name, kind) for name, kind, _ in self.scores if kind != "none"})
        plain = dict.fromkeys(name for name, _, _ in self.scores)
        return learned + [(name, "none") for name in plain if name not in dict(learned)]

    def describe(self) -> str:
        """What the picture shows, in a sentence or two."""
        best, scale = (
            max(self.scores, key=lambda group: self.scores[group]),
            ScoreScale.of(self.criterion),
        )
        return (
            f"{scale.words} of {len(self.kinds)} kernels and metrics over rounds 0 to "
            f"{max(number for _, _, number in self.scores)}. Best: {_words(best)}, "
            f"{scale.text(self.scores[best])}; chosen: {_words(self.chosen)}."
        )

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        scale = ScoreScale.of(self.criterion)
        scores = {group: float(scale.number(score)) for group, score in self.scores.items()}
        kernels = list(dict.fromkeys(name for name, _, _ in scores))
        for name, kind in self.kinds:
            points = [(0, scores[name, "none", 0])] if (name, "none", 0) in scores else []
            own = [group for group in scores if group[:2] == (name, kind) and group[2] > 0]
            points += sorted((group[2], scores[group]) for group in own)
            colour = _COLOURS[kernels.index(name) % len(_COLOURS)]
            look = line_style(style, color=colour, ls=_DASHES[kind], marker="o", ms=4, lw=1.8, zorder=3)
            label = plain_text(f"{name}, {kind}" if kind != "none" else name)
            axes.plot(*zip(*points), **look, label=label)
        if self.chosen in scores:
            at = [self.chosen[2]], [scores[self.chosen]]
            axes.plot(*at, **RING, mec=ACCENT, mew=2.2, zorder=4, label="chosen")
        axes.set_xlabel("round (0: the kernel as it is)")
        axes.set_ylabel(scale.words)
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
        Share of every feature in what moves the prediction.
    most : int
        How many are drawn.
    """

    title: ClassVar[str] = "The most important features"

    importances: dict[str, float]
    most: int = _MOST

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, names: Sequence[str] | None = None, most: int = _MOST
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
        return f"Share of {len(self.importances)} features in what moves the prediction: {words}."

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        shares, every = self.greatest, len(self.importances)
        slots = max(len(shares), 4)
        places = np.arange(slots)[::-1][: len(shares)]
        look: dict[str, Any] = {"color": BLUE, "height": 0.66}
        bars = axes.barh(places, [100 * share for share in shares.values()], **look | style)
        axes.bar_label(bars, fmt=_percent, padding=3, fontsize="small")
        axes.set_yticks(places, labels=[short_name(name) for name in shares])
        axes.set_ylim(-0.7, slots - 0.3)
        axes.margins(x=0.1)
        axes.set_xlabel("share of what moves the prediction, %")
        title = "all features" if every == len(shares) else f"the {len(shares)} largest of {every}"
        finish(axes, title, "x", legend=False)


def _words(group: tuple[str, str, int]) -> str:
    return group_words(dict(zip(("kernel", "metric", "round"), group)))


def _percent(value: float) -> str:
    """Two digits, and no more than one behind the point."""
    if 0 < value < 0.1:
        return "< 0.1"
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"
