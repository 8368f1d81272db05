"""The held-out score of a sparse machine against its number of centres."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from onefold.plots.display import Display
from onefold.plots.fitted import machine_of, score_words, searched
from onefold.plots.ink import ACCENT, BLUE, MUTED, RING, crown, line_style, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False)
class SparsityDisplay(Display):
    """Mean score over the folds at each size, plus and minus one standard error, and the chosen size.

    Parameters
    ----------
    sizes, mean, error : ndarray
        Numbers of centres; mean scores over the folds; the standard errors of these means.
    chosen : int
        The size that was taken.
    score_label : str
        What the scores mean.
    """

    title: ClassVar[str] = "The score by the number of centres"

    sizes: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    chosen: int
    score_label: str = "held-out score (higher is better)"

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """The path of a fitted SparseLSSVC or SparseLSSVR."""
        machine = machine_of(estimator)
        path = searched(machine, "path_", "only sparse machines prune; fit SparseLSSVR or SparseLSSVC.")
        folds = sum(name.startswith("split") for name in path)
        error = np.asarray(path["std_test_score"]) / np.sqrt(folds)  # as the knee is found by
        sizes = np.asarray(path["n_centres"])
        mean = np.asarray(path["mean_test_score"])
        return cls(sizes, mean, error, int(machine.n_centres_), score_words(machine))

    def describe(self) -> str:
        """What the picture shows, in a sentence or two."""
        at = int(np.argmin(np.abs(self.sizes - self.chosen)))
        return (
            f"{self.score_label} at {len(self.sizes)} sizes from {self.sizes.max()} centres to "
            f"{self.sizes.min()}. Chosen: {self.chosen} centres, {self.mean[at]:.4g}; best: "
            f"{np.nanmax(self.mean):.4g}."
        )

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        sizes, mean, error = self.sizes, self.mean, self.error
        band = axes.fill_between(sizes, mean - error, mean + error, color=BLUE, alpha=0.22, lw=0)
        band.set_label("± one standard error")
        line = line_style(style, color=BLUE, marker="o", ms=3.5, lw=1.8)
        axes.plot(sizes, mean, **line, label="mean over folds")
        best = int(np.nanargmax(mean))
        axes.axhline(mean[best] - error[best], color=MUTED, lw=1.2, ls="--", label="best less its error")
        at = int(np.argmin(np.abs(sizes - self.chosen)))
        axes.plot([sizes[at]], [mean[at]], **RING, mec=ACCENT, mew=2.2, zorder=4,
                  label=f"chosen: {self.chosen} centres")  # fmt: skip
        axes.set_xscale("log")
        _size_ticks(axes.xaxis, sizes)
        axes.set_xlabel("number of centres")
        axes.set_ylabel(self.score_label)
        crown(axes, "score by the number of centres")
        tidy(axes, "y")


def _size_ticks(axis: Any, sizes: np.ndarray) -> None:
    """Plain numbers: 1, 2, 5 times powers of ten within the path, its ends where there are none."""
    ladder = np.outer(10.0 ** np.arange(0, 8), [1, 2, 5]).ravel()
    within = ladder[(ladder >= sizes.min()) & (ladder <= sizes.max())]
    ticks = within if len(within) > 1 else np.unique([sizes.min(), sizes.max()])
    axis.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axis.set_ticks([], minor=True)
