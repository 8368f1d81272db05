"""The criterion over the grid of a search, to a file or on given axes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onefold.plots.figures import new_figure, write_figure
from onefold.plots.grid_display import SCORE, GridDisplay

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def search_heatmap(
    cv_results: Mapping[str, Any],
    path_or_ax: str | os.PathLike[str] | Axes,
    best: Mapping[str, Any] | None = None,
    *,
    headline: str | None = None,
    score_label: str = SCORE,
) -> Axes:
    r"""Draw a :class:`GridDisplay` of a table, to a file or on axes.

    Parameters
    ----------
    cv_results : mapping
        ``cv_results_`` of a fitted search.
    path_or_ax : path or matplotlib Axes
        Where to write the picture, the suffix giving its format, or the axes to draw on.
    best : mapping, optional
        The chosen ``{"gamma": …, "alpha": …}``; by default the candidate with the best score.
    headline, score_label : str, optional
        As in :class:`GridDisplay`.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError
        If matplotlib isn't installed.
    ValueError
        If no candidate has a finite score.
    """
    display = GridDisplay.from_results(cv_results, best, score_label=score_label, headline=headline)
    if not isinstance(path_or_ax, str | os.PathLike):
        return display.plot(path_or_ax).ax_
    figure = new_figure(7.4, 5.4)
    axes = display.plot(figure.add_subplot()).ax_
    write_figure(figure, path_or_ax, dpi=160)
    return axes
