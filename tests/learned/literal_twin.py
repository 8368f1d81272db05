r"""Metrics and folds from their definitions: every fold learns, fits and predicts by itself.

All three families are k = exp(−w D / D̄) with D the squared distance (rbf), the distance (matern ½) or
the weighted sum of absolute differences (laplacian) in the metric M, and D̄ its weighted mean over pairs
of the rows that the metric was learned from. Nothing here is shared with the library.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

FLOOR = 1e-6


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
