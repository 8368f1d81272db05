"""What moves the prediction: the share of every feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from onefold.plots.display import Display
from onefold.plots.fitted import machine_of, searched
from onefold.plots.ink import BLUE, crown, shortened, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = 12


@dataclass(eq=False)
class ImportanceDisplay(Display):
    """The features with the greatest shares, as bars; the scores by rounds are :class:`RoundsDisplay`.

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
        shares = searched(machine, "feature_importances_", remedy)
        if names is None:
            names = getattr(machine, "feature_names_in_", [f"feature {j}" for j in range(len(shares))])
        if len(names) != len(shares):
            raise ValueError(f"names has {len(names)} entries, and there are {len(shares)} features.")
        return cls(_distinct(names, shares), most)

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
        shares = self.greatest
        slots = max(len(shares), 4)
        places = np.arange(slots)[::-1][: len(shares)]
        look: dict[str, Any] = {"color": BLUE, "height": 0.66}
        bars = axes.barh(places, [100 * share for share in shares.values()], **look | style)
        axes.bar_label(bars, fmt=_percent, padding=3, fontsize="small")
        axes.set_yticks(places, labels=[shortened(name) for name in shares])
        axes.set_ylim(-0.7, slots - 0.3)
        axes.margins(x=0.1)
        axes.set_xlabel("share of what moves the prediction, %")
        every = len(self.importances)
        title = "all features" if every == len(shares) else f"the greatest {len(shares)} of {every}"
        crown(axes, title, legend=False)
        tidy(axes, "x")


def _percent(value: float) -> str:
    """Two digits, and no more than one behind the point."""
    if 0 < value < 0.1:
        return "< 0.1"
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _distinct(names: Sequence[Any], shares: Any) -> dict[str, float]:
    """Shares by name; equal names are told apart by their number."""
    found: dict[str, float] = {}
    for number, (name, share) in enumerate(zip(names, shares)):
        found[str(name) if str(name) not in found else f"{name} ({number})"] = float(share)
    return found
