"""What all displays share: the machine inside an estimator, figures, colours, ticks, titles.

Text, ticks and frames keep matplotlib's own colours, so that a style such as ``dark_background`` holds;
data have colours that stand out from white and from black, and that colour-blind eyes tell apart
(Okabe and Ito's). What must be neither is a translucent grey.
"""

from __future__ import annotations

import io
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import NotFittedError

from onefold.estimators.base import on_host
from onefold.facts.criteria import shown
from onefold.facts.words import readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ACCENT = "#1a80bb", "#d55e00"
FAINT = (0.5, 0.5, 0.5, 0.25)
RING: dict[str, Any] = {"marker": "o", "linestyle": "none", "fillstyle": "none", "markersize": 13}
_MISSING = 'pictures need matplotlib: pip install "onefold[plot]"'
_LONGEST_NAME = 24
_PAGE_INCHES, _PAGE_DPI = (5.6, 4.2), 120


class Display(ABC):
    """Data of a picture, and the way to draw it, as scikit-learn's displays.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn last.
    """

    title: ClassVar[str] = ""
    ax_: Axes
    figure_: Figure

    def plot(self, ax: Axes | None = None, **style: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default on a new figure of pyplot.
        **style
            Settings of matplotlib for the main marks, in place of the display's own.

        Returns
        -------
        The display, with ``ax_`` and ``figure_``.
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(_MISSING) from error
        self.ax_ = plt.subplots(layout="constrained")[1] if ax is None else ax
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        self._draw(self.ax_, style)
        return self

    @abstractmethod
    def describe(self) -> str:
        """What the picture shows, in a sentence or two."""

    @abstractmethod
    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        """Draw on axes, with settings of matplotlib for the main marks."""


def as_png(display: Display) -> bytes:
    """The display in matplotlib's default style on a white background, for a page."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.style import context
    except ImportError as error:
        raise ImportError(_MISSING) from error
    file = io.BytesIO()
    with context("default"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that the font does not have are drawn as boxes
        figure = Figure(figsize=_PAGE_INCHES, layout="constrained")
        copy(display).plot(figure.add_subplot())
        figure.savefig(file, format="png", dpi=_PAGE_DPI, metadata={"Software": None})
    return file.getvalue()


def machine_of(estimator: Any) -> Any:
    """The last step of a pipeline, the machine inside another estimator, or the estimator itself."""
    while True:
        if hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "estimator_"):
            estimator = estimator.estimator_
        elif hasattr(estimator, "regressor_"):  # of a TransformedTargetRegressor
            estimator = estimator.regressor_
        else:
            return on_host(estimator)


def fitted(machine: Any, attribute: str, remedy: str) -> Any:
    """An attribute of a fitted machine; a ValueError with the remedy where it has none."""
    if not hasattr(machine, "expansion_"):
        raise NotFittedError(f"this {type(machine).__name__} is not fitted yet; call fit first.")
    found = getattr(machine, attribute, None)
    if found is None:
        raise ValueError(f"this {type(machine).__name__} has no {attribute}: {remedy}")
    return found


@dataclass(frozen=True)
class ScoreScale:
    """How the scores of a search are drawn: squared errors as RMSE, error rates as accuracy."""

    label: str = "score"
    number: Callable[[Any], Any] = np.positive  # from a score, of which greater is better
    smaller: bool = False  # is better

    @classmethod
    def of(cls, criterion: str | None) -> ScoreScale:
        """Of a criterion by its name; a function has no name."""
        found = None if criterion is None else shown(criterion)
        return cls() if found is None else cls(found.label, found.number, found.smaller)

    @property
    def words(self) -> str:
        """The name of the axis."""
        return f"{self.label} ({'lower' if self.smaller else 'higher'} is better)"

    def text(self, score: float) -> str:
        """A score as people read it."""
        return f"{self.label} {readable(float(self.number(score)))}"


def plain_numbers(axis: Any) -> None:
    """Ticks as people write numbers: no offset, no power of ten in a corner."""
    from matplotlib.ticker import FuncFormatter

    def text(value: float, place: Any) -> str:
        low, high = axis.get_view_interval()
        size, span = max(abs(low), abs(high)), abs(high - low) or 1.0
        decimals = int(np.ceil(0.9 - np.log10(span)))
        if size < 1e9 and decimals <= 5:
            return f"{value:,.{max(decimals, 0)}f}"
        return f"{value:.{int(np.clip(np.ceil(np.log10(size / span)) + 2, 3, 16))}g}"

    axis.set_major_formatter(FuncFormatter(text))


def group_of(params: Mapping[str, Any]) -> tuple[str, str, int]:
    """The kernel of a candidate, its kind of metric and its round."""
    return str(params.get("kernel", "")), str(params.get("metric", "none")), int(params.get("round", 0))


def line_style(style: dict[str, Any], **own: Any) -> dict[str, Any]:
    """Settings of a line: the caller's before ours, by whichever of their names."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return {**normalize_kwargs(own, Line2D), **normalize_kwargs(style, Line2D)}


def plain_text(text: Any, longest: int | None = None) -> str:
    """The text with its dollar signs as such, not as borders of mathematics; shortened if asked for."""
    text = str(text)
    if longest is not None:
        text = " ".join(text.split())
        text = text if len(text) <= longest else text[: longest - 1] + "…"
    return text.replace("$", r"\$")


def short_name(name: Any) -> str:
    """A name that fits beside a tick."""
    return plain_text(name, _LONGEST_NAME)


def power_label(value: float) -> str:
    """A value as a power of two in mathtext, with one decimal where the exponent isn't whole."""
    exponent = np.log2(value)
    rounded = round(exponent)
    return f"$2^{{{rounded if abs(exponent - rounded) < 1e-6 else format(exponent, '.1f')}}}$"


def finish(axes: Axes, title: str, lines: Any = None, *, legend: bool = True) -> None:
    """Title, faint lines along an axis, no frame above and on the right, the legend below."""
    axes.set_title(title, loc="left", fontsize="medium")
    if lines is not None:
        axes.grid(axis=lines, color=FAINT, lw=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    if legend and axes.get_legend_handles_labels()[1]:
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.14), "ncols": 2}
        axes.legend(**place, frameon=False, fontsize="small", markerscale=0.6)
