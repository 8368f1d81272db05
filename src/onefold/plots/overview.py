"""A search among families and learned metrics: its rounds, its cells and what matters to the choice."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold.plots.figures import new_figure, write_figure
from onefold.plots.grid import SearchGrid
from onefold.plots.heatmap import INK
from onefold.plots.panels import draw_cells, draw_groups, draw_rounds, draw_shares, group_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SCORE = "mean held-out score (higher is better)"
_MOST_FEATURES = 12


def search_overview(
    estimator: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    importances: Mapping[str, float] | None = None,
    headline: str | None = None,
    score_label: str = _SCORE,
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
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.1)
    for axes, draw in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels):
        draw(axes)
    if headline:
        figure.suptitle(headline, x=0.01, ha="left", color=INK)
    if path is not None:
        write_figure(figure, path, dpi=130)
    return figure


def _panels(
    estimator: Any, importances: Mapping[str, float] | None, label: str, number: Callable[[Any], Any]
) -> list[Callable[[Axes], None]]:
    """The parts of the picture that this search has something for."""
    results = dict(estimator.cv_results_)
    results["mean_test_score"] = number(np.asarray(results["mean_test_score"], dtype=float))
    best, history = estimator.best_params_, estimator.metric_history_
    panels: list[Callable[[Axes], None]] = []
    learned = any(one["round"] > 0 for one in history)
    if learned:
        panels.append(lambda axes: draw_rounds(axes, history, results, best, label, number))
    cells = _cells_of(results, best)
    grid = SearchGrid.of(cells, best)
    several = len({group_of(one) for one in results["params"]}) > 1
    few, many = sorted([len(grid.gammas), len(grid.alphas)])
    if (several and (not learned or few < 2)) or many < 3:
        panels.append(lambda axes: draw_groups(axes, results, best, label))
    if many > 2:
        name = f"{best.get('kernel', '')}{_best_of(results, best)}"
        panels.append(lambda axes: draw_cells(axes, cells, best, name, label))
    shares = _shares(estimator, importances)
    if shares:
        panels.append(lambda axes: draw_shares(axes, shares))
    return panels


def _cells_of(results: Mapping[str, Any], best: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of the table that are the chosen family's, without a metric or with the chosen kind."""
    kernel, metric, _ = group_of(best)
    groups = [group_of(one) for one in results["params"]]
    own = np.array([name == kernel and kind in ("none", metric) for name, kind, _ in groups])
    names = ("mean_test_score", "param_alpha", "param_gamma")
    return {name: np.ma.asarray(results[name])[own] for name in names if name in results}


def _best_of(results: Mapping[str, Any], best: Mapping[str, Any]) -> str:
    kernel, metric, _ = group_of(best)
    learned = any(
        group_of(one)[:2] == (kernel, metric) and metric != "none" for one in results["params"]
    )
    return f": best of its rounds, {metric} metric" if learned else ""


def _shares(estimator: Any, importances: Mapping[str, float] | None) -> dict[str, float]:
    """The greatest shares by name; none where the model has no metric."""
    if importances is None:
        values = estimator.feature_importances_
        if values is None:
            return {}
        names = getattr(estimator, "feature_names_in_", [f"feature {j}" for j in range(len(values))])
        importances = dict(zip(map(str, names), map(float, values)))
    greatest = sorted(importances, key=lambda name: -importances[name])[:_MOST_FEATURES]
    return {name: importances[name] for name in greatest}
