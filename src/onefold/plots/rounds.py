"""The best score of every family and kind of metric, round by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from onefold.plots.display import Display
from onefold.plots.families import group_of, group_words
from onefold.plots.fitted import machine_of, score_words, searched
from onefold.plots.ink import ACCENT, RING, crown, family_colour, line_style, plain_text, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINES = {"none": ":", "diagonal": "--", "full": "-"}
Group = tuple[str, str, int]


@dataclass(eq=False)
class RoundsDisplay(Display):
    """Scores by the rounds of learning a metric; all kinds start from the kernel as it is.

    Parameters
    ----------
    scores : dict from (kernel, metric, round) to float
        Of the rows that taught the metrics, where those are not all.
    chosen : tuple
        The group that was chosen.
    score_label : str
        What the scores mean.
    """

    title: ClassVar[str] = "The learned metrics, round by round"

    scores: dict[Group, float]
    chosen: Group
    score_label: str

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """The rounds of a machine that was fitted with ``metric=``."""
        machine = machine_of(estimator)
        remedy = 'rounds belong to learned metrics; fit with metric="auto".'
        history = searched(machine, "metric_history_", remedy)
        if not any(one["round"] > 0 for one in history):
            raise ValueError(f"this {type(machine).__name__} has learned in no round: {remedy}")
        return cls.from_history(
            history, machine.cv_results_["params"], machine.best_params_, score_words(machine)
        )

    @classmethod
    def from_history(
        cls,
        history: Sequence[Mapping[str, Any]],
        compared: Sequence[Mapping[str, Any]],
        best: Mapping[str, Any],
        score_label: str,
        number: Callable[[Any], Any] = float,
    ) -> Self:
        """``metric_history_``, what was `compared` in the end, and the way from scores to numbers."""
        # The scores of rows that only taught the metric are squared errors, whatever the criterion; and
        # where paths were gone again on more rows, scores of both kinds of rows do not make one line.
        first = [one for one in history if one["rows"] == history[0]["rows"]]
        known = {group_of(one) for one in compared}
        if len(first) < len(history) or not {group_of(one) for one in history} <= known:
            score_label = f"−squared error, {history[0]['rows']} rows that taught the metric"
            number = float
        scores = {group_of(one): float(number(one["score"])) for one in first}
        return cls(scores, group_of(best), score_label)

    @property
    def kinds(self) -> list[tuple[str, str]]:
        """Families with their kinds of metric, then families that none was learned for."""
        learned = sorted({(name, kind) for name, kind, _ in self.scores if kind != "none"})
        plain = dict.fromkeys(name for name, _, _ in self.scores)
        return learned + [(name, "none") for name in plain if name not in dict(learned)]

    def describe(self) -> str:
        """What the picture shows, in a sentence or two."""
        best = max(self.scores, key=lambda group: self.scores[group])
        return (
            f"{self.score_label} of {len(self.kinds)} lines over rounds 0 to "
            f"{max(number for _, _, number in self.scores)}. Highest: {group_words(best)}, "
            f"{self.scores[best]:.4g}; chosen: {group_words(self.chosen)}."
        )

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        scores = self.scores
        families = list(dict.fromkeys(name for name, _, _ in scores))
        for name, kind in self.kinds:
            points = [(0, scores[name, "none", 0])] if (name, "none", 0) in scores else []
            own = [group for group in scores if group[:2] == (name, kind) and group[2] > 0]
            points += sorted((group[2], scores[group]) for group in own)
            colour, dashes = family_colour(name, families), _LINES[kind]
            look = line_style(style, color=colour, ls=dashes, marker="o", ms=4, lw=1.8, zorder=3)
            words = plain_text(f"{name}, {kind}" if kind != "none" else name)
            axes.plot(*zip(*points), **look, label=words)
        if self.chosen in scores:
            at = [self.chosen[2]], [scores[self.chosen]]
            axes.plot(*at, **RING, mec=ACCENT, mew=2.2, zorder=4, label="chosen")
        axes.set_xlabel("round (0: the kernel as it is)")
        axes.set_ylabel(self.score_label)
        axes.set_xticks(range(max(r for _, _, r in scores) + 1))
        crown(axes, "round by round")
        tidy(axes, "y")
