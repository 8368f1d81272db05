"""The members of a blend, their weights and their scores beside the blend's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from onefold.plots.display import Display
from onefold.plots.families import group_of, group_words
from onefold.plots.fitted import machine_of, score_words, searched
from onefold.plots.ink import ACCENT, FAINT, crown, family_colour, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LARGEST = 320.0  # points², of the heaviest member


@dataclass(eq=False)
class BlendDisplay(Display):
    """Each member's own held-out score, its area the weight, and the score of the blend.

    Parameters
    ----------
    members : list of (kernel, metric, round)
        The heaviest first.
    weights, scores : ndarray (members,)
    blend_score : float
        With weights from the other folds.
    score_label : str
        What the scores mean.
    """

    title: ClassVar[str] = "The members of the blend"

    members: list[tuple[str, str, int]]
    weights: np.ndarray
    scores: np.ndarray
    blend_score: float
    score_label: str

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """The blend of a machine that was fitted with ``blend=True``."""
        machine = machine_of(estimator)
        remedy = 'it was not asked to blend; fit with blend=True, and kernel="auto" or a metric.'
        members = searched(machine, "blend_", remedy)
        results = machine.cv_results_
        scores = [_score(one, results) for one in members]
        weights = np.array([one["weight"] for one in members])
        label = score_words(machine)
        groups = [group_of(one) for one in members]
        return cls(groups, weights, np.array(scores), float(machine.blend_score_), label)

    def describe(self) -> str:
        """What the picture shows, in a sentence or two."""
        words = "; ".join(
            f"{group_words(one)}: weight {weight:.2f}, score {score:.4g}"
            for one, weight, score in zip(self.members, self.weights, self.scores)
        )
        return f"{self.score_label} of the blend {self.blend_score:.4g}, and of its members: {words}."

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        places = np.arange(len(self.members))[::-1]
        families = list(dict.fromkeys(name for name, _, _ in self.members))
        colours = [family_colour(name, families) for name, _, _ in self.members]
        axes.hlines(places, self.scores, self.blend_score, color=FAINT, lw=2)
        area = np.maximum(_LARGEST * self.weights / self.weights.max(), 12.0)
        dots: dict[str, Any] = {"s": area, "c": colours, "linewidths": 0, "zorder": 3}
        axes.scatter(self.scores, places, **dots | style)
        axes.axvline(self.blend_score, color=ACCENT, lw=1.8, label=f"the blend: {self.blend_score:.4g}")
        labels = [
            f"{group_words(one, chr(10))}\nweight {weight:.2f}"
            for one, weight in zip(self.members, self.weights)
        ]
        axes.set_yticks(places, labels=labels)
        axes.set_ylim(-0.7, len(places) - 0.3)
        axes.margins(x=0.15)
        axes.set_xlabel(self.score_label)
        crown(axes, "one member" if len(places) == 1 else f"{len(places)} members, area by weight")
        tidy(axes, "x")


def _score(member: Mapping[str, Any], results: Mapping[str, Any]) -> float:
    """The mean score of a member in the table of the search; NaN where it is not there."""
    for params, score in zip(results["params"], results["mean_test_score"]):
        same = group_of(params) == group_of(member)
        if same and all(params.get(name) == member.get(name) for name in ("gamma", "alpha")):
            return float(score)
    return np.nan
