"""A search among families of kernels and learned metrics: what belongs to which, the best of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold.plots.ink import ACCENT, RING, crown, family_colour, plain_text, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def group_of(params: Mapping[str, Any]) -> tuple[str, str, int]:
    """The family of a candidate, its kind of metric and its round."""
    return str(params.get("kernel", "")), str(params.get("metric", "none")), int(params.get("round", 0))


def group_words(group: tuple[str, str, int], between: str = ", ") -> str:
    """A group by its name."""
    name, kind, number = group
    return plain_text(name if kind == "none" else f"{name}, {kind}{between}round {number}")


def family_cells(results: Mapping[str, Any], best: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of the table that are the chosen family's, without a metric or with the chosen kind."""
    kernel, metric, _ = group_of(best)
    groups = [group_of(one) for one in results["params"]]
    own = np.array([name == kernel and kind in ("none", metric) for name, kind, _ in groups])
    wanted = [
        name
        for name in results
        if name in ("mean_test_score", "param_alpha", "param_gamma")
        or (name.startswith("split") and name.endswith("_test_score"))
    ]
    return {name: np.ma.asarray(results[name])[own] for name in wanted}


def family_words(results: Mapping[str, Any], best: Mapping[str, Any]) -> str:
    """The chosen family, and what its cells show where there were rounds."""
    kernel, metric, _ = group_of(best)
    learned = any(
        group_of(one)[:2] == (kernel, metric) and metric != "none" for one in results["params"]
    )
    return f"{kernel}: best of its rounds, {metric} metric" if learned else kernel


def draw_groups(axes: Axes, results: Mapping[str, Any], best: Mapping[str, Any], label: str) -> None:
    """The best score of every family, metric and round that was compared in the end."""
    found: dict[tuple[str, str, int], float] = {}
    for one, score in zip(results["params"], results["mean_test_score"]):
        if np.isfinite(score):
            found[group_of(one)] = max(float(score), found.get(group_of(one), -np.inf))
    order = sorted(found, key=lambda group: found[group])
    families = list(dict.fromkeys(name for name, _, _ in found))
    for place, group in enumerate(order):
        axes.plot(found[group], place, "o", color=family_colour(group[0], families), ms=8, zorder=3)
        if group == group_of(best):
            axes.plot(found[group], place, **RING, mec=ACCENT, mew=2.2, zorder=4)
    axes.set_yticks(range(len(order)), labels=[group_words(group, "\n") for group in order])
    axes.set_ylim(-0.7, len(order) - 0.3)
    axes.margins(x=0.15)
    axes.set_xlabel(label)
    crown(axes, "best of each (circled: chosen)", legend=False)
    tidy(axes, "x")
