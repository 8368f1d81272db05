"""The scores of a search in the order in which it found them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from onefold.plots.display import Display
from onefold.plots.fitted import machine_of, score_words, searched
from onefold.plots.ink import (
    ACCENT,
    BLUE,
    FAINTER,
    MUTED,
    RING,
    SERIES,
    counted,
    crown,
    family_colour,
    line_style,
    plain_text,
    score_limits,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ONE, _ROUND = "each ridge", "round "
_MANY = 200  # points; more are drawn as an image


@dataclass(eq=False)
class SearchPathDisplay(Display):
    """Every candidate's score against the order of evaluation, and the best so far.

    A kernel is evaluated with all its ridges at once: they share a place. Of the earlier stages of
    halving what the search kept is drawn: the best kernel, then those that were dropped, in the order of
    their scores, each at its best ridge. The best so far starts anew on more rows.

    Parameters
    ----------
    place : int ndarray (candidates,)
        Number of the evaluation, from 1.
    score : ndarray (candidates,)
        NaN where there is none.
    group : list of str
        The round of each candidate's metric, or its kernel; all alike where there is one.
    chosen : int
        Which candidate was chosen.
    seconds : ndarray (evaluations,)
        Of each evaluation on all rows.
    stages : list of (int, int, int)
        Rows of each stage of halving, its first place and its last.
    score_label : str
        What the scores mean.
    stopped : str or None
        Why the search ended early.
    """

    title: ClassVar[str] = "The scores in the order of evaluation"

    place: np.ndarray
    score: np.ndarray
    group: list[str]
    chosen: int
    seconds: np.ndarray
    stages: list[tuple[int, int, int]] = field(default_factory=list)
    score_label: str = "score (higher is better)"
    stopped: str | None = None

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """The search of a fitted LSSVCCV, LSSVRCV or KernelRidgeCV."""
        machine = machine_of(estimator)
        remedy = "a machine that searches has one; fit LSSVCCV, LSSVRCV or KernelRidgeCV."
        history = searched(machine, "history_", remedy)
        search = getattr(machine, "search_", None) or {}
        place, score, group, stages = _earlier(search.get("stages", []))
        first = stages[-1][1] if stages else 1
        cells = [
            (first + number, value, _group(one), _is(one, alpha, machine.best_params_))
            for number, one in enumerate(history)
            for alpha, value in zip(one["alphas"], one["scores"])
        ]
        hits = [number for number, cell in enumerate(cells) if cell[3]]
        if stages and len(history):
            stages[-1] = (stages[-1][0], first, first + len(history) - 1)
        groups = group + [cell[2] for cell in cells]
        return cls(
            np.array([*place, *(cell[0] for cell in cells)], dtype=int),
            np.array([*score, *(cell[1] for cell in cells)], dtype=float),
            [_ONE if one is None else one for one in groups],
            len(place) + hits[-1],
            np.array([one["seconds"] for one in history]),
            stages,
            score_words(machine),
            search.get("stopped"),
        )

    @property
    def best_so_far(self) -> tuple[np.ndarray, np.ndarray]:
        """Places, and the best score up to each; it starts anew with each stage."""
        places = np.unique(self.place)
        finite = np.where(np.isnan(self.score), -np.inf, self.score)
        tops = np.full(len(places), -np.inf)
        np.maximum.at(tops, np.searchsorted(places, self.place), finite)
        starts = [first for _, first, _ in self.stages] or [int(places[0])]
        for first, end in zip(starts, [*starts[1:], int(places[-1]) + 1]):
            own = (places >= first) & (places < end)
            tops[own] = np.maximum.accumulate(tops[own])
        return places, np.where(np.isfinite(tops), tops, np.nan)

    def describe(self) -> str:
        """What the picture shows, in a sentence or two."""
        words = f"{self.score_label}: {counted(len(self.score), 'candidate')} in "
        words += counted(self._evaluations, "evaluation")
        if self.stages:
            words += " on " + ", ".join(f"{rows:,}" for rows, _, _ in self.stages) + " rows"
        ended = f" The search ended early ({self.stopped})." if self.stopped else ""
        return (
            f"{words}. The chosen one, {self.score[self.chosen]:.4g}, was evaluation "
            f"{self.place[self.chosen]}.{ended}"
        )

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        from matplotlib.ticker import MaxNLocator

        low, high = score_limits(self.score)
        margin = 0.08 * (high - low)
        shown = np.maximum(self.score, low - margin / 2)
        for name, colour in _colours(sorted(set(self.group))).items():
            own = np.array([one == name for one in self.group])
            look = line_style(style, color=colour, marker="o", ms=4.5, alpha=0.7, mew=0, ls="none")
            many = {"rasterized": own.sum() > _MANY}
            axes.plot(self.place[own], shown[own], **many | look, label=plain_text(name))
        below = np.unique(self.place[self.score < low - margin / 2])
        if below.size:
            floor = np.full(below.size, low - margin / 2)
            axes.plot(below, floor, "v", color=MUTED, ms=5, label="below the picture")
        self._draw_stages(axes)
        places, tops = self.best_so_far
        tops, label = np.maximum(tops, low - margin), "best so far"
        for _, first, last in self.stages or [(0, 1, int(places[-1]))]:
            own = (places >= first) & (places <= last)
            line: dict[str, Any] = {"color": ACCENT, "lw": 1.6, "drawstyle": "steps-post"}
            ends = [*places[own], last + 0.5], [*tops[own], tops[own][-1]]
            axes.plot(*ends, **line, label=label)
            label = "_"
        at = [self.place[self.chosen]], [shown[self.chosen]]
        axes.plot(*at, **RING, mec=ACCENT, mew=2.2, zorder=4, label="chosen")
        axes.set_ylim(low - margin, high + margin * (3.0 if self.stages else 1.0))
        axes.set_xlim(0.5, self._evaluations + 0.5)
        axes.set_xlabel("kernel, in the order of evaluation")
        axes.set_ylabel(self.score_label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        crown(axes, self._words())
        tidy(axes, "y")

    @property
    def _evaluations(self) -> int:
        return int(self.stages[-1][2] if self.stages else self.place.max())

    def _words(self) -> str:
        words = f"{counted(len(self.score), 'candidate')}, {counted(self._evaluations, 'evaluation')}"
        return f"{words}, stopped early ({plain_text(self.stopped)})" if self.stopped else words

    def _draw_stages(self, axes: Axes) -> None:
        """Every other stage on a shade, with its rows above."""
        for number, (rows, first, last) in enumerate(self.stages):
            if number % 2 == 0:
                axes.axvspan(first - 0.5, last + 0.5, color=FAINTER, lw=0)
            where = {0: ("left", first - 0.4), len(self.stages) - 1: ("right", last + 0.4)}
            side, place = where.get(number, ("center", (first + last) / 2))
            axes.annotate(
                f"{rows:,} rows",
                (place, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, -3 - 11 * (number % 2)),  # neighbours at different heights
                textcoords="offset points",
                ha=side,
                va="top",
                fontsize="small",
            )


def _colours(names: Sequence[str]) -> dict[str, str]:
    """Of rounds one after the other, of kernels their own."""
    if len(names) == 1:
        return {names[0]: BLUE}
    if names[0].startswith(_ROUND):
        return {name: SERIES[number % len(SERIES)] for number, name in enumerate(names)}
    return {name: family_colour(name, names) for name in names}


def _group(one: Mapping[str, Any]) -> str:
    """By rounds where there were any, else by kernel."""
    if "round" in one:
        return f"{_ROUND}{one['round']}"
    return str(one.get("kernel", _ONE))


def _is(one: Mapping[str, Any], alpha: float, best: Mapping[str, Any]) -> bool:
    """Whether an entry of the history at this ridge is the chosen candidate."""
    names = ("kernel", "metric", "round", "gamma")
    return alpha == best["alpha"] and all(one.get(name) == best.get(name) for name in names)


def _earlier(
    said: Sequence[Mapping[str, Any]],
) -> tuple[list[int], list[float], list[str | None], list[tuple[int, int, int]]]:
    """Places, scores and groups of what the stages before the last kept, and all stages' extents."""
    place: list[int] = []
    score: list[float] = []
    group: list[str | None] = []
    stages: list[tuple[int, int, int]] = []
    first = 1
    for stage in said[:-1]:
        top = float(stage["best"]["score"])
        lost = [one for one in stage["dropped"] if one["difference"] is not None]
        kept = [(stage["best"], top), *((one, top - float(one["difference"])) for one in lost)]
        for number, (one, value) in enumerate(kept):
            place.append(first + number)
            score.append(value)
            group.append(str(one["kernel"]) if "kernel" in one else None)
        tried = max(int(stage["n_candidates"]), len(kept))
        stages.append((int(stage["n_resources"]), first, first + tried - 1))
        first += tried
    if len(said) > 1:
        stages.append((int(said[-1]["n_resources"]), first, first))
    return place, score, group, stages
