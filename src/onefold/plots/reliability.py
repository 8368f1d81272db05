"""Do probabilities keep their word? Predicted against observed, in bins of equal counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from onefold.plots.display import Display
from onefold.plots.fitted import as_array, machine_of, searched
from onefold.plots.ink import BLUE, MUTED, counted, crown, line_style, shortened, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Z = 1.959963984540054  # of 95 %
_TALLEST, _GROUND = 0.16, -0.2  # of the histogram, below the curve
_BARS = 20


@dataclass(eq=False)
class ReliabilityDisplay(Display):
    r"""Observed frequency against held-out probability in quantile bins, with Wilson's 95 % intervals.

    The expected calibration error is :math:`\sum_b n_b / n\, |\bar p_b - \bar h_b|`, p the probability,
    h whether it came true.

    Parameters
    ----------
    probability : ndarray (rows,)
        Held-out probabilities of the event.
    happened : bool ndarray (rows,)
        Whether it did.
    n_bins : int
        Bins; equal probabilities share one, so there may be fewer.
    event : str
        What the probability is of.

    Attributes
    ----------
    predicted, observed, lower, upper, counts : ndarray (bins,)
        Mean probability and frequency of each bin, the interval, its rows.
    """

    title: ClassVar[str] = "The reliability of the probabilities"

    probability: np.ndarray
    happened: np.ndarray
    n_bins: int = 10
    event: str = "the event"

    def __post_init__(self) -> None:
        edges = np.quantile(self.probability, np.linspace(0, 1, self.n_bins + 1)[1:-1])
        number = np.searchsorted(np.unique(edges), self.probability, side="left")
        _, number, self.counts = np.unique(number, return_inverse=True, return_counts=True)
        self.predicted = np.bincount(number, self.probability) / self.counts
        self.observed = np.bincount(number, self.happened) / self.counts
        self.lower, self.upper = wilson(self.observed, self.counts)

    @classmethod
    def from_estimator(cls, estimator: Any, y: Any, *, n_bins: int = 10, label: Any = None) -> Self:
        """The held-out probabilities of a fitted LSSVCCV.

        Parameters
        ----------
        estimator : fitted estimator, or Pipeline that ends in one
        y : array (n,)
            The labels that it was fitted on.
        n_bins : int, default=10
            Bins of about equal counts.
        label : label, default=None
            The class whose probability is judged. None is the second of two classes; of more, whichever
            has the highest probability in each row.
        """
        machine = machine_of(estimator)
        if n_bins < 1:
            raise ValueError(f"n_bins is a number of bins, at least 1; got {n_bins!r}.")
        if hasattr(machine, "expansion_") and not hasattr(machine, "classes_"):
            raise ValueError(
                f"{type(machine).__name__} predicts numbers; use PredictionDisplay.from_estimator."
            )
        remedy = 'it takes folds and a calibration; fit LSSVCCV with cv=5 and calibration="temperature".'
        proba = np.asarray(searched(machine, "heldout_proba_", remedy), dtype=float)
        classes = np.asarray(getattr(estimator, "classes_", machine.classes_))
        index = _index(as_array(y), classes, len(proba))
        tested = np.isfinite(proba).all(axis=1)
        if not tested.any():
            raise ValueError("no row has a held-out probability: the splits tested none.")
        proba, index = proba[tested], index[tested]
        if label is None and len(classes) > 2:
            top = proba.argmax(axis=1)
            return cls(proba.max(axis=1), top == index, n_bins, "the likeliest class")
        column = len(classes) - 1 if label is None else _column(classes, label)
        return cls(proba[:, column], index == column, n_bins, f"class {classes[column]}")

    @property
    def calibration_error(self) -> float:
        """The expected calibration error over the bins."""
        return float(self.counts @ np.abs(self.predicted - self.observed) / self.counts.sum())

    def describe(self) -> str:
        """What the picture shows, in a sentence or two."""
        return (
            f"Observed frequency against held-out probability of {self.event}: {len(self.counts)} bins, "
            f"{len(self.probability):,} rows; expected calibration error {self.calibration_error:.3f}."
        )

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        axes.plot([0, 1], [0, 1], color=MUTED, lw=1.2, ls="--", label="calibrated")
        bars = self.observed - self.lower, self.upper - self.observed
        look = line_style(style, color=BLUE, marker="o", ms=5, lw=1.6, elinewidth=1.2, capsize=2.5)
        bins = counted(len(self.counts), "bin")
        label = f"expected calibration error {self.calibration_error:.3f} ({bins})"
        axes.errorbar(self.predicted, self.observed, np.maximum(bars, 0), **look, label=label)
        heights, edges = np.histogram(self.probability, _BARS, (0, 1))
        tall = heights / heights.max() * _TALLEST
        axes.bar(edges[:-1], tall, np.diff(edges), _GROUND, align="edge", color=MUTED, alpha=0.6, lw=0)
        axes.axhline(_GROUND, color=MUTED, lw=0.8)
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(_GROUND - 0.01, 1.04)
        ticks = np.linspace(0, 1, 6)
        axes.set_xticks(ticks)
        axes.set_yticks([_GROUND + _TALLEST / 2, *ticks], labels=["rows", *(f"{t:.1f}" for t in ticks)])
        event = shortened(self.event, 40)
        axes.set_xlabel(f"held-out probability of {event}")
        axes.set_ylabel("observed frequency")
        crown(axes, f"reliability, {len(self.probability):,} held-out rows")
        tidy(axes, "both")


def wilson(share: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Wilson's 95 % interval, :math:`(p + z²/2n ± z \sqrt{p(1-p)/n + z²/4n²}) / (1 + z²/n)`."""
    scale = 1 + _Z**2 / counts
    centre = (share + _Z**2 / (2 * counts)) / scale
    half = _Z * np.sqrt(share * (1 - share) / counts + _Z**2 / (4 * counts**2)) / scale
    return centre - half, centre + half


def _index(labels: Any, classes: np.ndarray, rows: int) -> np.ndarray:
    """The place of each row's label in the classes."""
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (rows,):
        raise ValueError(
            f"y has shape {labels.shape}, and there are {rows} held-out probabilities; pass the y that "
            "the estimator was fitted on."
        )
    places = {one: place for place, one in enumerate(classes.tolist())}
    unknown = [one for one in labels.tolist() if one not in places]
    if unknown:
        raise ValueError(f"y has the label {unknown[0]!r}, which the estimator was not fitted on.")
    return np.array([places[one] for one in labels.tolist()])


def _column(classes: np.ndarray, label: Any) -> int:
    known = classes.tolist()
    if label not in known:
        raise ValueError(f"there is no class {label!r}; the classes are {known!r:.200}.")
    return known.index(label)
