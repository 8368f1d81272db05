r"""Metrics, folds and choices from their definitions: every fold learns, fits and predicts by itself.

All three families are k = exp(−w D / D̄) with D the squared distance (rbf), the distance (matern ½) or
the weighted sum of absolute differences (laplacian) in the metric M, and D̄ its weighted mean over pairs
of the rows that the metric was learned from. Nothing here is shared with the library but the numbers
that a search is tuned with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onefold.search.rounds import FINER, NEARBY

GAIN, FLOOR = 0.005, 1e-6
ORDER = ("none", "diagonal", "full")


def distance(family: str, M: Any, A: Any, B: Any) -> Any:
    delta = A[:, None, :] - B[None, :, :]
    if family == "laplacian":
        return np.abs(delta) @ np.sqrt(np.diag(M))
    squares = np.sum((delta @ M) * delta, axis=2)
    return squares if family == "rbf" else np.sqrt(np.maximum(squares, 0.0))


@dataclass(frozen=True)
class Space:
    """A family in a metric, and the mean distance that its width is relative to."""

    family: str
    M: Any
    mean: float

    @classmethod
    def of(cls, family: str, M: Any, X: Any, v: Any, draw: Any = None) -> Space:
        rows = np.arange(len(X)) if draw is None else draw(len(X))
        v = v[rows]
        return cls(family, M, float(v @ distance(family, M, X[rows], X[rows]) @ v) / v.sum() ** 2)


@dataclass(frozen=True)
class Fit:
    """f(x) = Σ c_i k(x, x_i) + b."""

    space: Space
    width: float
    X: Any
    coef: Any
    b: Any

    def __call__(self, A: Any) -> Any:
        s = self.space
        return np.exp(-self.width / s.mean * distance(s.family, s.M, A, self.X)) @ self.coef + self.b

    def gradient(self, A: Any) -> Any:
        """(rows, features, targets), from the derivative of every term."""
        s, rate = self.space, self.width / self.space.mean
        delta = A[:, None, :] - self.X[None, :, :]
        D = distance(s.family, s.M, A, self.X)
        if s.family == "laplacian":
            slope = -rate * np.sqrt(np.diag(s.M)) * np.sign(delta)
        elif s.family == "rbf":
            slope = -2 * rate * delta @ s.M
        else:
            apart = np.abs(delta).max(axis=2) > 0
            slope = -rate * (delta @ s.M) * (apart / np.where(apart, D, 1.0))[:, :, None]
        weighted = np.exp(-rate * D)[:, :, None] * slope
        return np.stack([np.tensordot(c, weighted, (0, 1)) for c in self.coef.T], axis=2)


def fit(space: Space, width: float, X: Any, Y: Any, v: Any, alpha: float, intercept: bool) -> Fit:
    n = len(X)
    K = np.exp(-width / space.mean * distance(space.family, space.M, X, X))
    G = K + alpha * np.diag(1 / v)
    if not intercept:
        return Fit(space, width, X, np.linalg.solve(G, Y), np.zeros(Y.shape[1]))
    bordered = np.block([[G, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    found = np.linalg.solve(bordered, np.vstack([Y, np.zeros((1, Y.shape[1]))]))
    return Fit(space, width, X, found[:-1], found[-1])


def learned(model: Fit, X: Any, v: Any, kind: str, rows: Any = None) -> Any:
    """The average outer product of gradients, divided by its largest diagonal entry, plus 10⁻⁶ I."""
    rows = np.arange(len(X)) if rows is None else rows
    gradients, v = model.gradient(X[rows]), v[rows]
    M = sum(v_i * g @ g.T for v_i, g in zip(v, gradients)) / v.sum()
    M = M / np.diag(M).max() + FLOOR * np.eye(len(M))
    return np.diag(np.diag(M)) if kind == "diagonal" else M


@dataclass
class Data:
    """Rows, targets (n, t), weights, splits; with `labels` scores count errors, ranks are of squares.

    Without `whole` the metric of the first part stands for that of all rows.
    """

    X: Any
    Y: Any
    splits: Any
    v: Any = None
    intercept: bool = True
    labels: bool = False
    whole: bool = True
    draws: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.weights = np.ones(len(self.X)) if self.v is None else self.v

    def squares(self, predictions: Any, rows: Any) -> Any:
        """Of the rows: the sum of squares over the targets."""
        return np.sum((predictions - self.Y[rows]) ** 2, axis=1)

    def errors(self, predictions: Any, rows: Any) -> Any:
        """Of the rows: 0 or 1."""
        if self.Y.shape[1] == 1:
            return ((predictions > 0) != (self.Y[rows] > 0))[:, 0] * 1.0
        return (predictions.argmax(axis=1) != self.Y[rows].argmax(axis=1)) * 1.0

    def cell(self, spaces: Any, width: float, alpha: float) -> tuple[Any, float, Any]:
        """Scores of every split, the rank, the mean held-out prediction of every row, by refits."""
        scores, ranks = [], []
        total, count = np.zeros(self.Y.shape), np.zeros((len(self.X), 1))
        for (train, test), space in zip(self.splits, spaces, strict=True):
            model = self.fit(space, width, alpha, train)
            predicted, v = model(self.X[test]), self.weights[test]
            mean = np.average(self.squares(predicted, test) / self.Y.shape[1], weights=v)
            wrong = np.average(self.errors(predicted, test), weights=v)
            ranks.append(-mean)
            scores.append(-wrong if self.labels else -mean)
            np.add.at(total, test, predicted)
            np.add.at(count, test, 1)
        with np.errstate(invalid="ignore"):
            return np.array(scores), float(np.mean(ranks)), total / count

    def fit(self, space: Space, width: float, alpha: float, rows: Any) -> Fit:
        part = self.X[rows], self.Y[rows], self.weights[rows]
        return fit(space, width, *part, alpha, self.intercept)

    def space(self, family: str, M: Any, rows: Any) -> Space:
        return Space.of(family, M, self.X[rows], self.weights[rows], self.draws.get("pairs"))


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


def cross(width: float, alpha: float, alphas: Any, factors: Any = NEARBY) -> list[tuple[float, float]]:
    """The width times all factors at the ridge, and itself at the neighbouring ridges too."""
    alphas = np.sort(alphas)
    place = int(np.flatnonzero(alphas == alpha)[0])
    near = alphas[max(0, place - 1) : place + 2]
    return [(width * f, a) for f in factors for a in (near if f == 1 else [alpha])]


def rounds(data: Data, family: str, kind: str, widths: Any, alphas: Any, max_rounds: int) -> list[Cell]:
    """Every cell of a track: each fold's metric from the rows that the fold trains on.

    Where no metric of all rows is learned, round 0 tries every other ridge.
    """
    spaces = Spaces.first(data, family)
    tried: list[Cell] = []
    losses: list[float] = []
    wanted = [(w, a) for w in widths for i, a in enumerate(alphas) if data.whole or i % 2 == 0]
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
    """A path gone again on other rows: its last round, tried around its last cell.

    Where no metric of all rows is learned, only the last step is: from the metric found before it.
    """
    spaces, steps = Spaces.first(data, went[0].family), went[:-1]
    if steps and not data.whole:
        steps = steps[-1:]
        spaces = Spaces(steps[0].whole, [steps[0].whole])
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
