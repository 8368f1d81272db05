"""Rounds, paths, and choices from their definitions, with the literal twin's models.

Shared with the library are the numbers that a search is tuned with, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.search.metric import CROSS, FINER
from tests.learned.literal_twin import Data, Space, learned

GAIN, ORDER = 0.005, ("none", "diagonal", "full")


@dataclass(frozen=True)
class Cell:
    """A tried cell: its names, scores, rank, held-out predictions, the space of the final model."""

    family: str
    metric: str
    round: int
    width: float
    alpha: float
    scores: Any
    rank: float
    heldout: Any
    whole: Space

    @property
    def key(self) -> tuple[Any, ...]:
        return self.family, self.metric, self.round, round(self.width, 10), self.alpha

    @property
    def score(self) -> float:
        return float(self.scores.mean())

    @property
    def complexity(self) -> tuple[int, int]:
        return self.round, ORDER.index(self.metric)


def best(cells: Any) -> Cell:
    """The best rank; ties go to the largest width, then to the largest ridge."""
    top = max(cell.rank for cell in cells)
    tied = [cell for cell in cells if cell.rank >= top - 1e-11 * abs(top)]
    return max(tied, key=lambda cell: (cell.width, cell.alpha))


def next_space(data: Data, leader: Cell, kind: str, space: Space, rows: Any) -> Space:
    """What the model of these rows at the leader's width and ridge suggests."""
    model = data.fit(space, leader.width, leader.alpha, rows)
    draw = data.draws.get("gradients")
    at = None if draw is None else draw(len(rows), leader.round)
    M = learned(model, data.X[rows], data.weights[rows], kind, at)
    return data.space(leader.family, M, rows)


@dataclass(frozen=True)
class Spaces:
    """The space of all rows, and that of each part."""

    whole: Space
    parts: list[Space]

    @classmethod
    def first(cls, data: Data, family: str) -> Spaces:
        """The family as it is; no target is seen, so that all rows may have a say in its width."""
        whole = data.space(family, np.eye(data.X.shape[1]), np.arange(len(data.X)))
        return cls(whole, [whole] * len(data.splits))

    def after(self, data: Data, leader: Cell, kind: str) -> Spaces:
        """Each part's next one from the rows that it trains on."""
        pairs = zip(self.parts, data.splits, strict=True)
        parts = [next_space(data, leader, kind, space, train) for space, (train, _) in pairs]
        if not data.whole:
            return Spaces(parts[0], parts)
        return Spaces(next_space(data, leader, kind, self.whole, np.arange(len(data.X))), parts)

    def cells(self, data: Data, kind: str, number: int, wanted: Any) -> list[Cell]:
        """A round tried at every (width, ridge) wanted."""
        names = self.whole.family, kind if number else "none", number
        return [Cell(*names, w, a, *data.cell(self.parts, w, a), self.whole) for w, a in wanted]


def cross(width: float, alpha: float, alphas: Any, factors: Any = CROSS) -> list[tuple[float, float]]:
    """The width times all factors at the ridge, and itself at the neighbouring ridges too."""
    alphas = np.sort(alphas)
    place = int(np.flatnonzero(alphas == alpha)[0])
    near = alphas[max(0, place - 1) : place + 2]
    return [(width * f, a) for f in factors for a in (near if f == 1 else [alpha])]


def rounds(data: Data, family: str, kind: str, widths: Any, alphas: Any, max_rounds: int) -> list[Cell]:
    """Every cell of a track: each fold's metric from the rows that the fold trains on.

    Where validation rows score the others, round 0 has every other ridge.
    """
    spaces = Spaces.first(data, family)
    tried: list[Cell] = []
    losses: list[float] = []
    wanted = [(w, a) for w in widths for a in (alphas if data.whole else alphas[::2])]
    for number in range(max_rounds + 1):
        cells = spaces.cells(data, kind, number, wanted)
        tried += cells
        leader = best(cells)
        losses.append(-leader.rank)
        ended = number > 0 and losses[-1] > (1 - GAIN) * min(losses[:-1])
        if ended or number == max_rounds:
            break
        spaces = spaces.after(data, leader, kind)
        wanted = cross(leader.width, leader.alpha, alphas)
    return tried


def path(cells: list[Cell], data: Data) -> list[Cell]:
    """The best cells of a track up to its best round, or round 0 where that is as good."""
    found = leaders(cells)
    rivals = {one.round: one for one in (found[0], best(found))}
    return found[: choice(list(rivals.values()), data).round + 1]


def replay(data: Data, kind: str, went: list[Cell], alphas: Any) -> list[Cell]:
    """A second pass of a path on other rows: its last round, tried around its last cell.

    All rounds are repeated; or the last alone, from the metric that the path had come to.
    """
    spaces, steps = Spaces.first(data, went[0].family), went[:-1]
    if steps and not data.whole:
        spaces, steps = Spaces(went[-2].whole, [went[-2].whole]), went[-2:-1]
    for cell in steps:
        spaces = spaces.after(data, cell, kind)
    last = went[-1]
    return spaces.cells(data, kind, last.round, cross(last.width, last.alpha, alphas, FINER))


def leaders(cells: Any) -> list[Cell]:
    """The best cell of every family, kind of metric and round."""
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.family, cell.metric, cell.round), []).append(cell)
    return [best(group) for group in groups.values()]


def choice(found: Any, data: Data) -> Cell:
    """The simplest leader within a standard error, paired over rows, of the best one."""
    top, every = best(found), np.arange(len(data.X))
    tied = [top]
    for cell in found:
        d = data.squares(cell.heldout, every) - data.squares(top.heldout, every)
        known = np.isfinite(cell.heldout).all(axis=1)
        d, v = d[known], data.weights[known]
        mean = np.average(d, weights=v)
        noise = np.sqrt(np.sum((v * (d - mean)) ** 2)) / v.sum()
        if cell.complexity < top.complexity and mean <= noise:
            tied.append(cell)
    return min(tied, key=lambda cell: (cell.complexity, -cell.rank))


def choice_of_all(cells: list[Cell], data: Data) -> Cell:
    """The choice; the flattest of the simplest cells where a constant predicts classes as well."""
    chosen = choice(leaders(cells), data)
    if not data.labels:
        return chosen
    total, count = np.zeros(data.Y.shape), np.zeros((len(data.X), 1))
    for train, test in data.splits:
        np.add.at(total, test, np.average(data.Y[train], axis=0, weights=data.weights[train]))
        np.add.at(count, test, 1)
    known = count[:, 0] > 0
    constant, v = total[known] / count[known], data.weights[known]
    d = data.squares(constant, known) - data.squares(chosen.heldout[known], known)
    mean = np.average(d, weights=v)
    if mean > 2 * np.sqrt(np.sum((v * (d - mean)) ** 2)) / v.sum():
        return chosen
    least = min(cell.complexity for cell in cells)
    simple = [cell for cell in cells if cell.complexity == least]
    return max(simple, key=lambda cell: (cell.alpha, -cell.width))
