"""What all displays share: axes to draw on, and a sentence for those who cannot see them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

from onefold.plots.figures import pyplot_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
        self.ax_ = pyplot_axes() if ax is None else ax
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        self._draw(self.ax_, style)
        return self

    @abstractmethod
    def describe(self) -> str:
        """What the picture shows, in a sentence or two."""

    @abstractmethod
    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        """Draw on axes, with settings of matplotlib for the main marks."""
