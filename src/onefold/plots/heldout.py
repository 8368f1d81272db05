"""Held-out predictions against targets, and held-out probabilities against observed frequencies.

scikit-learn's displays draw the marks; this module adds the tested rows, the band and the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np

from onefold.calibration.intervals import upper_rank
from onefold.facts.scores import as_columns
from onefold.facts.unwrap import unwrap
from onefold.facts.words import counted, readable
from onefold.linalg import to_numpy
from onefold.plots.display import (
    ACCENT,
    BLUE,
    FAINT,
    Display,
    finish,
    fitted,
    plain_numbers,
    plain_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Kind = Literal["actual_vs_predicted", "residuals"]
# Points of a scatter plot; of more rows, as many are drawn at random.
_MOST = 5000
# Bars of the histogram of probabilities.
_BARS = 20


@dataclass(eq=False)
class PredictionDisplay(Display):
    r"""Targets, or residuals, against held-out predictions.

    The band is prediction ± q with q the :math:`\lceil c (n + 1) \rceil`-th smallest of the n conformity
    scores :math:`|y_i - \hat f_{-i}(x_i)|`: it covers a fraction c of new rows if all rows are equally
    hard to predict. It is in units of the target, even if a transform of the target was fitted.

    Parameters
    ----------
    target, prediction : ndarray (rows,)
        Targets and predictions of the held-out rows.
    lower, upper : ndarray (rows,) or None
        The band; infinite if there are too few rows for the coverage, None without conformity scores.
    coverage : float
        Fraction c of new rows that the band is to cover.
    kind : {"actual_vs_predicted", "residuals"}
    name : str
        What is predicted.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV
    >>> from onefold.plots import PredictionDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LSSVRCV(gammas=[1.0], alphas=[0.1]).fit(X, y)
    >>> display = PredictionDisplay.from_estimator(model, y, coverage=0.9)
    >>> display.plot().ax_.get_xlabel()
    'held-out prediction'
    """

    target: np.ndarray
    prediction: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    coverage: float = 0.9
    kind: Kind = "actual_vs_predicted"
    name: str = "target"

    @classmethod
    def from_estimator(
        cls, estimator: Any, y: Any, *, coverage: float = 0.9, kind: Kind = "actual_vs_predicted",
        target: int = 0,
    ) -> Self:  # fmt: skip
        """Plot the held-out predictions of a fitted LSSVRCV or KernelRidgeCV.

        Parameters
        ----------
        estimator : fitted estimator, Pipeline or TransformedTargetRegressor of one, or table model
        y : array (n,) or (n, targets)
            The targets that the estimator was fitted on.
        coverage : float, default=0.9
            Fraction of new rows that the band is to cover, if the estimator has ``conformity_scores_``.
        kind : {"actual_vs_predicted", "residuals"}, default="actual_vs_predicted"
        target : int, default=0
            Index of the target to plot, if there are several.
        """
        unwrapped = unwrap(estimator)
        inner = unwrapped.estimator
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must be between 0 and 1; got {coverage!r}.")
        if unwrapped.classes is not None:
            raise ValueError(
                f"{type(inner).__name__} predicts classes; use ReliabilityDisplay.from_estimator."
            )
        remedy = (
            'held-out rows are needed; fit LSSVRCV or KernelRidgeCV with folds (cv=5, criterion="mse").'
        )
        heldout = as_columns(fitted(inner, "heldout_prediction_", remedy))
        targets = as_columns(y)
        count = heldout.shape[1]
        if targets.shape != heldout.shape:
            raise ValueError(
                f"y has shape {np.shape(y)}, but the held-out predictions have {len(heldout)} rows and "
                f"{count} targets; pass the y that the estimator was fitted on."
            )
        if not -count <= target < count:
            raise ValueError(
                f"target must be an index from 0 to {count - 1}, as the estimator predicts {count}; "
                f"got {target!r}."
            )
        tested = np.isfinite(heldout[:, target])
        if not tested.any():
            raise ValueError("no row has a held-out prediction, because the splits test none.")
        heldout = heldout[tested]
        lower = None
        upper = None
        scores = getattr(inner, "conformity_scores_", None)
        if scores is not None:
            tested_scores = np.sort(as_columns(scores)[tested, target])
            rank = upper_rank(coverage, len(tested_scores))
            half = float(tested_scores[rank - 1]) if rank <= len(tested_scores) else np.inf
            band = [unwrapped.in_target_units(heldout + q)[:, target] for q in (-half, half)]
            lower, upper = np.sort(band, axis=0)
        name = "target" if count == 1 else f"target {target} of {count}"
        predicted = unwrapped.in_target_units(heldout)[:, target]
        return cls(targets[tested, target], predicted, lower, upper, coverage, kind, name)

    @property
    def half_width(self) -> float:
        """Half the width of the band, at the median row; NaN without one."""
        if self.lower is None or self.upper is None:
            return np.nan
        return float(np.median(self.upper / 2 - self.lower / 2))

    @property
    def share_inside(self) -> float:
        """Fraction of these rows inside the band; NaN without one."""
        if self.lower is None or self.upper is None:
            return np.nan
        rounding = 1e-9 * self.half_width  # of the row whose score is q
        inside = (self.lower - rounding <= self.target) & (self.target <= self.upper + rounding)
        return float(np.mean(inside))

    def describe(self) -> str:
        """What the plot shows, in a sentence or two."""
        rows = len(self.target)
        rmse = readable(float(np.sqrt(np.mean((self.target - self.prediction) ** 2))))
        words = f"Held-out prediction against {self.name} of {rows:,} rows: RMSE {rmse}."
        return f"{words} {self._band_words()}".rstrip()

    def caption(self) -> str:
        """How to read the plot, for a caption below it."""
        return "Targets against held-out predictions; closer to the diagonal is better."

    def _band_words(self) -> str:
        if self.lower is None or self.upper is None:
            return ""
        if np.isinf(self.half_width):
            return f"Too few rows for {self.coverage:.0%} intervals."
        uneven = np.ptp(self.upper - self.lower) > 1e-6 * self.half_width  # of a transformed target
        width = f"± {readable(self.half_width)}{' at the median' if uneven else ''}"
        return f"{width} for {self.coverage:.0%}: {self.share_inside:.1%} inside."

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        from matplotlib.ticker import AutoLocator
        from sklearn.metrics import PredictionErrorDisplay

        x = self.prediction
        y = self.target
        rows = len(self.target)
        residuals = self.kind == "residuals"
        marks: dict[str, Any] = {"s": 16, "color": BLUE, "alpha": 0.6, "linewidths": 0}
        kind: Any = "residual_vs_predicted" if residuals else self.kind
        sample: dict[str, Any] = {"subsample": min(_MOST, rows), "random_state": 0}
        PredictionErrorDisplay.from_predictions(
            y, x, kind=kind, **sample, ax=axes, scatter_kwargs=marks | style
        )
        if self.lower is not None and self.upper is not None:
            order = np.argsort(x)
            words = self._band_words()
            for edge, label in ((self.lower, None), (self.upper, words)):
                band_edge = (edge - x if residuals else edge)[order]
                axes.plot(x[order], band_edge, color=ACCENT, lw=1.4, ls="--", label=label)
        axes.set_aspect("auto")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(AutoLocator())
        plain_numbers(axes)
        axes.set_xlabel("held-out prediction")
        axes.set_ylabel(self.name + (" minus prediction" if residuals else ""))
        drawn = "" if rows <= _MOST else f", {_MOST:,} of them drawn"
        finish(axes, f"{rows:,} held-out rows{drawn}", "both")


@dataclass(eq=False)
class ReliabilityDisplay(Display):
    r"""Observed frequency against held-out probability in quantile bins.

    The expected calibration error is :math:`\sum_b n_b / n\, |\bar p_b - \bar h_b|`, with p the
    probability and h 1 if the event happened, else 0.

    Parameters
    ----------
    probability : ndarray (rows,)
        Held-out probabilities of the event.
    happened : bool ndarray (rows,)
        Whether the event happened.
    n_bins : int
        Number of bins; equal probabilities share a bin, so there may be fewer.
    event : str
        The event, in words.

    Attributes
    ----------
    predicted, observed, counts : ndarray (bins,)
        Mean probability, observed frequency and number of rows of each bin.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from onefold import LSSVCCV
    >>> from onefold.plots import ReliabilityDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LSSVCCV(gammas=[0.01], alphas=[0.1]).fit(scale(X), y)
    >>> display = ReliabilityDisplay.from_estimator(model, y)
    >>> int(display.counts.sum())
    569
    """

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

    @classmethod
    def from_estimator(cls, estimator: Any, y: Any, *, n_bins: int = 10, label: Any = None) -> Self:
        """Plot the held-out probabilities of a fitted LSSVCCV.

        Parameters
        ----------
        estimator : fitted estimator, or Pipeline that ends in one
        y : array (n,)
            The labels that the estimator was fitted on.
        n_bins : int, default=10
            Number of bins, which have about equal counts.
        label : label, default=None
            The class to plot. None is the second of two classes, or the most likely class of each row
            if there are more.
        """
        unwrapped = unwrap(estimator)
        inner = unwrapped.estimator
        classes = cast(Any, unwrapped.classes)
        if hasattr(inner, "expansion_") and classes is None:
            raise ValueError(
                f"{type(inner).__name__} predicts numbers; use PredictionDisplay.from_estimator."
            )
        remedy = 'folds and calibration are needed; fit LSSVCCV with cv=5, calibration="log_odds".'
        proba = np.asarray(fitted(inner, "heldout_proba_", remedy), dtype=float)
        labels = np.ravel(to_numpy(y))
        if len(labels) != len(proba):
            raise ValueError(
                f"y has {len(labels)} labels, but there are {len(proba)} held-out probabilities; pass "
                "the y that the estimator was fitted on."
            )
        in_training = np.isin(labels, classes)
        if not in_training.all():
            unknown = labels[~in_training][0]
            raise ValueError(f"y has the label {unknown!r}, which the estimator was not fitted on.")
        if label is not None and label not in classes:
            raise ValueError(f"unknown class {label!r}; the classes are {classes.tolist()!r:.200}.")
        tested = np.isfinite(proba).all(axis=1)
        if not tested.any():
            raise ValueError("no row has a held-out probability, because the splits test none.")
        proba = proba[tested]
        index = np.searchsorted(classes, labels[tested])
        if label is None and len(classes) > 2:
            return cls(proba.max(axis=1), proba.argmax(axis=1) == index, n_bins, "the most likely class")
        column = len(classes) - 1 if label is None else int(np.searchsorted(classes, label))
        return cls(proba[:, column], index == column, n_bins, f"class {classes[column]}")

    @property
    def calibration_error(self) -> float:
        """The expected calibration error over the bins."""
        return float(self.counts @ np.abs(self.predicted - self.observed) / self.counts.sum())

    def describe(self) -> str:
        """What the plot shows, in a sentence or two."""
        return (
            f"Observed frequency against held-out probability of {self.event}: {len(self.counts)} bins, "
            f"{len(self.probability):,} rows; expected calibration error {self.calibration_error:.3f}."
        )

    def caption(self) -> str:
        """How to read the plot, for a caption below it."""
        return "Observed frequency against held-out probability; closer to the diagonal is better."

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        from sklearn.calibration import CalibrationDisplay

        rows = len(self.probability)
        bins = counted(len(self.counts), "bin")
        label = f"expected calibration error {self.calibration_error:.3f} ({bins})"
        curve = CalibrationDisplay(self.observed, self.predicted, self.probability)
        curve.plot(ax=axes, name=label, **{"color": BLUE} | style)
        heights, edges = np.histogram(self.probability, _BARS, (0, 1))
        look: dict[str, Any] = {"align": "edge", "color": FAINT, "zorder": 0}
        axes.bar(edges[:-1], heights / rows, np.diff(edges), **look, label="fraction of rows")
        event = plain_text(self.event, 40)
        axes.set_xlabel(f"held-out probability of {event}")
        axes.set_ylabel("observed frequency")
        finish(axes, f"reliability, {rows:,} held-out rows", "both")
