"""A search among families and learned metrics: its rounds, its cells and what matters to the choice."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold.plots.families import draw_groups, group_of
from onefold.plots.figures import new_figure, write_figure
from onefold.plots.grid_display import SCORE, GridDisplay
from onefold.plots.importances import ImportanceDisplay
from onefold.plots.rounds import RoundsDisplay

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def search_overview(
    estimator: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    importances: Mapping[str, float] | None = None,
    headline: str | None = None,
    score_label: str = SCORE,
    number: Callable[[Any], Any] | None = None,
) -> Figure:
    """Draw what a search with ``kernel="auto"``, several kernels or a metric did.

    From left to right: the best score of every family by the rounds of its metric, or of every family
    where no metric was learned; the scores of the chosen family over width and ridge, the best of its
    rounds in each cell, or of all that were compared in the end where a part of the rows taught the
    metrics; the shares of the features in the metric.

    Parameters
    ----------
    estimator : fitted LSSVCCV, LSSVRCV or KernelRidgeCV
    path : path, optional
        Where to write the picture, the suffix giving its format.
    importances : mapping of str to float, optional
        Shares by name, in place of the estimator's ``feature_importances_``.
    headline : str, optional
        A title over the whole.
    score_label : str
        What the scores mean.
    number : callable, optional
        From scores to the numbers that `score_label` names.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ImportError
        If matplotlib isn't installed.
    ValueError
        If no candidate has a finite score.
    """
    panels = _panels(estimator, importances, score_label, number or (lambda score: score))
    figure = new_figure(5.2 * len(panels), 4.8)
    for axes, draw in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels):
        draw(axes)
    if headline:
        figure.suptitle(headline, x=0.01, ha="left")
    if path is not None:
        write_figure(figure, path, dpi=130)
    return figure


def _panels(
    estimator: Any, importances: Mapping[str, float] | None, label: str, number: Callable[[Any], Any]
) -> list[Callable[[Axes], Any]]:
    """The parts of the picture that this search has something for."""
    results = dict(estimator.cv_results_)
    results["mean_test_score"] = number(np.asarray(results["mean_test_score"], dtype=float))
    best, history = estimator.best_params_, estimator.metric_history_
    panels: list[Callable[[Axes], Any]] = []
    learned = any(one["round"] > 0 for one in history)
    if learned:
        rounds = RoundsDisplay.from_history(history, results["params"], best, label, number)
        panels.append(rounds.plot)
    cells = GridDisplay.from_results(results, best, score_label=label)
    several = len({group_of(one) for one in results["params"]}) > 1
    few, many = sorted([len(cells.grid.gammas), len(cells.grid.alphas)])
    if (several and (not learned or few < 2)) or many < 3:
        panels.append(lambda axes: draw_groups(axes, results, best, label))
    if many > 2:
        panels.append(cells.plot)
    if importances is None and estimator.feature_importances_ is not None:
        panels.append(ImportanceDisplay.from_estimator(estimator).plot)
    elif importances:
        panels.append(ImportanceDisplay(dict(importances)).plot)
    return panels
