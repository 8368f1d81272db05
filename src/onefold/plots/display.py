"""What all displays share: figures, colours, ticks, titles.

Text, ticks and frames keep matplotlib's own colours, so that a style such as ``dark_background`` holds;
data have colours that stand out from white and from black, and that colour-blind eyes tell apart
(Okabe and Ito's). What must be neither is a translucent grey.
"""

from __future__ import annotations

import io
import warnings
from abc import ABC, abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Any, Literal, Self

from sklearn.exceptions import NotFittedError

from onefold.facts.words import shortened
from onefold.machine.extras import pip_install

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours: of data, of what is chosen, of the background.
BLUE = "#1a80bb"
ACCENT = "#d55e00"
FAINT = (0.5, 0.5, 0.5, 0.25)
_MISSING = f"plots need matplotlib: {pip_install('plot')}"
# Width and height of a picture on a page, in inches.
_PAGE_INCHES = (5.6, 4.2)
# Pixels per inch of such a picture: sharp at twice the density of a plain screen.
_PAGE_DPI = 120


class Display(ABC):
    """Base class of plots, used like scikit-learn's displays.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Of the last call of `plot`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV
    >>> from onefold.plots import GridDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LSSVRCV(gammas=[1, 10, 100], alphas=[0.1, 1, 10]).fit(X, y)
    >>> display = GridDisplay.from_estimator(model).plot()
    >>> display.figure_ is display.ax_.figure
    True
    """

    ax_: Axes
    figure_: Figure

    def plot(self, ax: Axes | None = None, **style: Any) -> Self:
        """Draw the plot.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; by default those of a new pyplot figure.
        **style
            Matplotlib properties of the main markers, in place of the defaults.

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
        """What the plot shows, in a sentence or two."""

    def caption(self) -> str:
        """How to read the plot, for a caption below it."""
        return self.describe()

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
        warnings.simplefilter("ignore")  # letters that the font lacks are drawn as boxes
        figure = Figure(figsize=_PAGE_INCHES, layout="constrained")
        copy(display).plot(figure.add_subplot())
        figure.savefig(file, format="png", dpi=_PAGE_DPI, metadata={"Software": None})
    return file.getvalue()


def fitted(estimator: Any, attribute: str, remedy: str) -> Any:
    """An attribute of a fitted estimator; a ValueError with the remedy if it is None."""
    if not hasattr(estimator, "expansion_"):
        raise NotFittedError(f"this {type(estimator).__name__} is not fitted yet; call fit first.")
    value = getattr(estimator, attribute, None)
    if value is None:
        raise ValueError(f"this {type(estimator).__name__} has no {attribute}: {remedy}")
    return value


def plain_numbers(axes: Axes, axis: Literal["both", "x", "y"] = "both") -> None:
    """Ticks without an offset, and without a power of ten from 10⁻⁵ to 10⁹."""
    axes.ticklabel_format(axis=axis, useOffset=False, scilimits=(-5, 9))


def plain_text(text: str, longest: int) -> str:
    """The text shortened to one line, with dollar signs escaped, which would begin mathematics."""
    return shortened(" ".join(text.split()), longest).replace("$", r"\$")


def mark_chosen(axes: Axes, x: float, y: float, label: str = "chosen") -> None:
    """A ring around the chosen candidate."""
    look: dict[str, Any] = {"fillstyle": "none", "markersize": 13, "mec": ACCENT, "mew": 2.2}
    axes.plot([x], [y], "o", **look, zorder=5, label=label)


def finish(axes: Axes, title: str, lines: Any = None) -> None:
    """Title, faint lines along an axis, no frame above and on the right, the legend below."""
    axes.set_title(title, loc="left", fontsize="medium")
    if lines is not None:
        axes.grid(axis=lines, color=FAINT, lw=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[1]:
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.14), "ncols": 2}
        axes.legend(**place, frameon=False, fontsize="small", markerscale=0.6)
