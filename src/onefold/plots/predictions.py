"""Held-out predictions against targets, with the interval that holds a share of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np

from onefold.plots.display import Display
from onefold.plots.fitted import as_array, machine_of, searched
from onefold.plots.ink import ACCENT, BLUE, crown, ink, line_style, plain_text, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Kind = Literal["actual_vs_predicted", "residuals"]
_CROWD = 2000  # points; more are counted in hexagons,
_MOST = 200_000  # and more than these are drawn in part
_VECTORS = 200  # points; more are drawn as an image


@dataclass(eq=False)
class PredictionDisplay(Display):
    r"""Targets, or residuals, against predictions by models that did not see their rows.

    The band is prediction ± q with q the :math:`\lceil c (n + 1) \rceil`-th smallest of the n conformity
    scores :math:`|y_i - \hat f_{-i}(x_i)|`: a share c of new rows, were all as hard to predict.

    Parameters
    ----------
    target, prediction : ndarray (rows,)
        Of the rows that were tested.
    coverage : float
        Share c of the rows that the band is made for.
    half_width : float or None
        q; infinite where there are too few rows for the coverage, None without conformity scores.
    kind : {"actual_vs_predicted", "residuals"}
    name : str
        What is predicted.
    by_row : bool
        The machine's own intervals differ in size from row to row; q would serve all rows alike.
    """

    title: ClassVar[str] = "Held-out predictions"

    target: np.ndarray
    prediction: np.ndarray
    coverage: float = 0.9
    half_width: float | None = None
    kind: Kind = "actual_vs_predicted"
    name: str = "target"
    by_row: bool = False

    @classmethod
    def from_estimator(
        cls, estimator: Any, y: Any, *, coverage: float = 0.9, kind: Kind = "actual_vs_predicted",
        target: int = 0,
    ) -> Self:  # fmt: skip
        """The held-out predictions of a fitted LSSVRCV or KernelRidgeCV.

        Parameters
        ----------
        estimator : fitted estimator, or Pipeline that ends in one
        y : array (n,) or (n, targets)
            The targets that it was fitted on.
        coverage : float, default=0.9
            Share of new rows that the band is made for, where the estimator has ``conformity_scores_``.
        kind : {"actual_vs_predicted", "residuals"}, default="actual_vs_predicted"
        target : int, default=0
            Which one, where there are several.
        """
        machine = machine_of(estimator)
        if kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}; got {kind!r}.")
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie between 0 and 1; got {coverage!r}.")
        if hasattr(machine, "classes_"):
            raise ValueError(
                f"{type(machine).__name__} predicts classes; use ReliabilityDisplay.from_estimator."
            )
        remedy = (
            'it takes held-out rows; fit LSSVRCV or KernelRidgeCV with folds (cv=5, criterion="mse").'
        )
        heldout = _columns(searched(machine, "heldout_prediction_", remedy))
        given = _columns(as_array(y))
        if given.shape != heldout.shape:
            raise ValueError(
                f"y has shape {np.shape(y)}, and the held-out predictions are of {len(heldout)} rows, "
                f"{heldout.shape[1]} targets; pass the y that the estimator was fitted on."
            )
        count = heldout.shape[1]
        if not 0 <= target < count:
            raise ValueError(f"target must be a number from 0 to {count - 1}; got {target!r}.")
        name = "target" if count == 1 else f"target {target} of {count}"
        tested = np.isfinite(heldout[:, target]) & np.isfinite(given[:, target])
        if not tested.any():
            raise ValueError("no row has a held-out prediction: the splits tested none.")
        scores = getattr(machine, "conformity_scores_", None)
        half = None if scores is None else half_width(_columns(scores)[:, target], coverage)
        by_row = getattr(machine, "intervals", None) == "normalised"
        return cls(given[tested, target], heldout[tested, target], coverage, half, kind, name, by_row)

    @property
    def share_inside(self) -> float:
        """Share of these rows inside the band; NaN without one."""
        if self.half_width is None:
            return np.nan
        return float(np.mean(np.abs(self.target - self.prediction) <= self.half_width))

    def describe(self) -> str:
        """What the picture shows, in a sentence or two."""
        residual = self.target - self.prediction
        size = np.max(np.abs(residual), initial=0.0) or 1.0
        rms = size * np.sqrt(np.mean((residual / size) ** 2))
        return (
            f"Held-out prediction against {self.name} of {len(self.target):,} rows: root mean square "
            f"error {rms:.4g}. {self._band_words()}"
        )

    def _band_words(self) -> str:
        if self.half_width is None:
            return ""
        if not np.isfinite(self.half_width):
            return f"Too few rows for intervals of {self.coverage:.0%}."
        words = f"± {self.half_width:.3g} for {self.coverage:.0%}: {self.share_inside:.1%} inside"
        return f"{words}; intervals of rows differ from it" if self.by_row else words

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        x, y, part = self.prediction, self.target, np.arange(len(self.target))
        if len(x) > _MOST:
            part = np.random.default_rng(0).choice(len(x), _MOST, replace=False)
        residuals = self.kind == "residuals"
        y = y - x if residuals else y
        if len(x) > _CROWD:
            look: dict[str, Any] = {"gridsize": 36, "bins": "log", "mincnt": 1, "linewidths": 0.1}
            cells = axes.hexbin(x[part], y[part], **look | {"rasterized": True} | style)
            bar = axes.figure.colorbar(cells, ax=axes, pad=0.02)
            bar.set_label("rows")
            bar.outline.set_visible(False)
        else:
            dots = line_style(style, color=BLUE, marker="o", ms=4, mew=0, ls="none", alpha=0.65)
            axes.plot(x[part], y[part], **{"rasterized": len(x) > _VECTORS} | dots)
        ends = np.array([x.min(), x.max()])
        line = 0.0 * ends if residuals else ends
        axes.plot(ends, line, color=ink(), lw=1.2, label="as predicted")
        if self.half_width is not None and np.isfinite(self.half_width):
            for sign, words in ((-1, None), (1, self._band_words())):
                edge = line + sign * self.half_width
                axes.plot(ends, edge, color=ACCENT, lw=1.4, ls="--", label=words)
        elif self.half_width is not None:
            axes.plot([], [], " ", label=self._band_words())
        axes.set_xlabel("held-out prediction")
        axes.set_ylabel(plain_text(self.name) + (" less prediction" if residuals else ""))
        drawn = "" if len(part) == len(x) else f", {len(part):,} of them drawn"
        crown(axes, f"{len(x):,} held-out rows{drawn}")
        tidy(axes, "both")


def half_width(scores: Any, coverage: float) -> float:
    """The ⌈coverage (n + 1)⌉-th smallest of n scores; infinite where there are fewer."""
    known = np.sort(scores[np.isfinite(scores)])
    place = int(np.ceil(coverage * (len(known) + 1) * (1 - 1e-12)))
    return float(known[place - 1]) if place <= len(known) else np.inf


def _columns(values: Any) -> np.ndarray:
    """Numbers as (rows, targets)."""
    array = np.asarray(values, dtype=float)
    return array[:, None] if array.ndim == 1 else array
