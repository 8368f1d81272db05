r"""Metrics, folds, rounds, paths and choices from their definitions, and a search beside them.

Every fold learns, fits and predicts by itself. All three families are k = exp(−w D / D̄) with D the
squared distance (rbf), the distance (matern ½) or the weighted sum of absolute differences (laplacian)
in the metric M, and D̄ its weighted mean over pairs of the rows that the metric was learned from. Shared
with the library are the numbers that a search is tuned with, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.testing import assert_allclose
from scipy.optimize import nnls

from onefold.search.metric_search import FINER
from onefold.search.paths import CROSS

FLOOR = 1e-6


def distance(family: str, M: Any, A: Any, B: Any) -> Any:
    delta = A[:, None, :] - B[None, :, :]
    if family == "laplacian":
        return np.abs(delta) @ np.sqrt(np.diag(M))
    squares = np.sum((delta @ M) * delta, axis=2)
    return np.maximum(squares, 0.0) ** {"rbf": 1.0, "powexp": 0.7}.get(family, 0.5)


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
        s = self.space
        rate = self.width / self.space.mean
        delta = A[:, None, :] - self.X[None, :, :]
        D = distance(s.family, s.M, A, self.X)
        if s.family == "laplacian":
            slope = -rate * np.sqrt(np.diag(s.M)) * np.sign(delta)
        elif s.family == "rbf":
            slope = -2 * rate * delta @ s.M
        else:
            power = 1.4 if s.family == "powexp" else 1.0  # D = q^(power/2), whose slope has q below it
            apart = np.abs(delta).max(axis=2) > 0
            ratio = power * D / np.where(apart, D ** (2 / power), 1.0)
            slope = -rate * (delta @ s.M) * (apart * ratio)[:, :, None]
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
    gradients = model.gradient(X[rows])
    v = v[rows]
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
    learning: Any = None  # rows that the metric of each part is learned from, then that of all rows

    def __post_init__(self) -> None:
        self.weights = np.ones(len(self.X)) if self.v is None else self.v

    def squares(self, predictions: Any, rows: Any = slice(None)) -> Any:
        """Of the rows: the sum of squares over the targets."""
        return np.sum((predictions - self.Y[rows]) ** 2, axis=1)

    def errors(self, predictions: Any, rows: Any = slice(None)) -> Any:
        """Of the rows: 0 or 1."""
        if self.Y.shape[1] == 1:
            return ((predictions > 0) != (self.Y[rows] > 0))[:, 0] * 1.0
        return (predictions.argmax(axis=1) != self.Y[rows].argmax(axis=1)) * 1.0

    def paired(self, d: Any) -> tuple[float, float]:
        """The mean of differences over the rows that have one, and its standard error."""
        v = self.weights[np.isfinite(d)]
        d = d[np.isfinite(d)]
        mean = np.average(d, weights=v)
        return mean, np.sqrt(np.sum((v * (d - mean)) ** 2)) / v.sum()

    def scores(self, of_splits: Any, labels: bool) -> Any:
        """The criterion of every split for predictions of its test rows."""
        found = []
        for values, (_, test) in zip(of_splits, self.splits, strict=True):
            losses = (
                self.errors(values, test) if labels else self.squares(values, test) / self.Y.shape[1]
            )
            found.append(-np.average(losses, weights=self.weights[test]))
        return np.array(found)

    def mean_of(self, parts: Any, of_parts: Any) -> Any:
        """The mean prediction of every row; NaN where there is none."""
        total = np.zeros(self.Y.shape)
        count = np.zeros((len(self.X), 1))
        for rows, values in zip(parts, of_parts, strict=True):
            np.add.at(total, rows, values)
            np.add.at(count, rows, 1)
        with np.errstate(invalid="ignore"):
            return total / count

    @property
    def tests(self) -> list[Any]:
        return [test for _, test in self.splits]

    def cell(self, spaces: Any, width: float, alpha: float) -> tuple[Any, float, Any, Any]:
        """Scores, rank, mean held-out predictions of the rows, and those of the splits, by refits."""
        made = [
            self.fit(space, width, alpha, train)(self.X[test])
            for (train, test), space in zip(self.splits, spaces, strict=True)
        ]
        rank = float(self.scores(made, False).mean())
        return self.scores(made, self.labels), rank, self.mean_of(self.tests, made), made

    def fit(self, space: Space, width: float, alpha: float, rows: Any) -> Fit:
        part = self.X[rows], self.Y[rows], self.weights[rows]
        return fit(space, width, *part, alpha, self.intercept)

    def space(self, family: str, M: Any, rows: Any) -> Space:
        return Space.of(family, M, self.X[rows], self.weights[rows], self.draws.get("pairs"))


# -- the search --------------------------------------------------------------------------------------
GAIN = 0.005
ORDER = ("none", "diagonal", "full")


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
    of_splits: Any
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
        """Each part's next one from the rows that it trains on, or some of them."""
        learning = data.learning or [*(train for train, _ in data.splits), np.arange(len(data.X))]
        *of_parts, of_all = learning
        pairs = zip(self.parts, of_parts, strict=True)
        parts = [next_space(data, leader, kind, space, rows) for space, rows in pairs]
        if not data.whole:
            return Spaces(parts[0], parts)
        return Spaces(next_space(data, leader, kind, self.whole, of_all), parts)

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


def climbed(data: Data, family: str, kind: str, widths: Any, alphas: Any, start: Any) -> list[Cell]:
    """The cells of round 0 around a cell, and around the best one until that is a local optimum."""
    spaces = Spaces.first(data, family)
    tried = dict[Any, Cell]()
    while True:
        w = widths.index(start[0])
        a = alphas.index(start[1])
        block = [(i, j) for i in (w - 1, w, w + 1) for j in (a - 1, a, a + 1)]
        wanted = [
            (widths[i], alphas[j])
            for i, j in block
            if i in range(len(widths)) and j in range(len(alphas))
        ]
        new = [cell for cell in wanted if cell not in tried]
        if not new:
            return list(tried.values())
        tried |= dict(zip(new, spaces.cells(data, kind, 0, new)))
        top = best(tried.values())
        start = top.width, top.alpha


def rounds(
    data: Data, family: str, kind: str, widths: Any, alphas: Any, max_rounds: int, look: Any = None
) -> list[Cell]:
    """Every cell of a track: each fold's metric from the rows that the fold trains on.

    Where validation rows score the others, round 0 has every other ridge. With a `look` at fewer rows
    it begins with the best cell of that.
    """
    spaces = Spaces.first(data, family)
    tried: list[Cell] = []
    losses: list[float] = []
    wanted = [(w, a) for w in widths for a in (alphas if data.whole else alphas[::2])]
    for number in range(max_rounds + 1):
        if look is not None and number == 0:
            top = best(rounds(look, family, kind, widths, alphas, 0))
            cells = climbed(data, family, kind, widths, alphas, (top.width, top.alpha))
        else:
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


def replay(
    data: Data, kind: str, went: list[Cell], alphas: Any, factors: Any = FINER, most: int = 0
) -> list[Cell]:
    """A second pass of a path on other rows: its last round, tried around its last cell.

    All rounds are repeated; or the last alone, from the metric that the path had come to. A path with a
    metric goes on with rounds while they gain, up to `most`.
    """
    spaces = Spaces.first(data, went[0].family)
    steps = went[:-1]
    if steps and not data.whole:
        spaces = Spaces(went[-2].whole, [went[-2].whole])
        steps = went[-2:-1]
    for cell in steps:
        spaces = spaces.after(data, cell, kind)
    last = went[-1]
    wanted = [(last.width, last.alpha)]
    if len(factors) > 1:
        wanted = cross(last.width, last.alpha, alphas, factors)
    tried = cells = spaces.cells(data, kind, last.round, wanted)
    losses = [-best(cells).rank]
    for number in range(last.round + 1, most + 1 if last.round else 0):
        leader = best(cells)
        spaces = spaces.after(data, leader, kind)
        cells = spaces.cells(data, kind, number, cross(leader.width, leader.alpha, alphas))
        tried = tried + cells
        losses.append(-best(cells).rank)
        if losses[-1] > (1 - GAIN) * min(losses[:-1]):
            break
    return tried


def leaders(cells: Any) -> list[Cell]:
    """The best cell of every family, kind of metric and round."""
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.family, cell.metric, cell.round), []).append(cell)
    return [best(group) for group in groups.values()]


def choice(found: Any, data: Data) -> Cell:
    """The simplest leader within a standard error, paired over rows, of the best one."""
    top = best(found)
    tied = [top]
    for cell in found:
        mean, noise = data.paired(data.squares(cell.heldout) - data.squares(top.heldout))
        if cell.complexity < top.complexity and mean <= noise:
            tied.append(cell)
    return min(tied, key=lambda cell: (cell.complexity, -cell.rank))


def beats_constant(heldout: Any, data: Data) -> bool:
    """Whether a classifier's predictions have smaller squares than a constant, by more than noise."""
    means = [np.average(data.Y[train], axis=0, weights=data.weights[train]) for train, _ in data.splits]
    constant = data.mean_of(data.tests, means)
    mean, noise = data.paired(data.squares(constant) - data.squares(heldout))
    return not data.labels or mean > noise


def choice_of_all(cells: list[Cell], data: Data) -> Cell:
    """The choice; the flattest of the simplest cells where a constant predicts classes as well."""
    chosen = choice(leaders(cells), data)
    if beats_constant(chosen.heldout, data):
        return chosen
    least = min(cell.complexity for cell in cells)
    simple = [cell for cell in cells if cell.complexity == least]
    return max(simple, key=lambda cell: (cell.alpha, -cell.width))


def blend_weights(H: Any, data: Data, rows: Any) -> Any:
    """Least squares with weights ≥ 0 that add up to 1.

    One more row, that counts most, finds which weights are positive. SciPy 1.14 squares that row
    and loses digits, so the positive ones are computed again, the first from the others.
    """
    root = np.repeat(np.sqrt(data.weights[rows]), data.Y.shape[1])
    columns = H[:, rows].reshape(len(H), -1).T * root[:, None]
    y = data.Y[rows].ravel() * root
    most = 1e5 * max(np.abs(columns).max(), np.abs(y).max())
    heavy = np.vstack([columns, np.full(len(H), most)])
    found, _ = nnls(heavy, np.append(y, most), maxiter=10_000)
    first, *others = np.flatnonzero(found)
    base = columns[:, first]
    found[others] = np.linalg.lstsq(columns[:, others] - base[:, None], y - base, rcond=None)[0]
    found[first] = 1.0 - found[others].sum()
    return found


def blend(cells: list[Cell], chosen: Cell, data: Data) -> tuple[dict[Any, float], Any, float]:
    """Weights by key, honest held-out predictions and their score; or the chosen one."""
    alone = {chosen.key: 1.0}, chosen.heldout, chosen.score
    groups = leaders(cells)
    H = np.stack([one.heldout for one in groups])
    tested = np.flatnonzero(np.isfinite(H).all(axis=(0, 2)))
    folds = data.tests if len(data.splits) > 1 else [np.sort(data.tests[0])[i::5] for i in range(5)]
    if any(np.isin(tested, fold).all() for fold in folds):
        return alone
    made = []
    of_splits = []
    for number, fold in enumerate(folds):
        w = blend_weights(H, data, np.setdiff1d(tested, fold))
        made.append(np.einsum("g,git->it", w, H[:, np.unique(fold)]))
        if len(data.splits) > 1:
            values = np.stack([one.of_splits[number] for one in groups])
            of_splits.append(np.einsum("g,git->it", w, values))
    honest = data.mean_of([np.unique(fold) for fold in folds], made)
    scores = data.scores(of_splits or [honest[test] for test in data.tests], data.labels)
    if data.labels:
        known = np.where(np.isfinite(honest).all(axis=1), 0.0, np.nan)
        fall, noise = data.paired(data.errors(honest) - data.errors(chosen.heldout) + known)
    else:
        d = chosen.scores - scores
        fall = d.mean()
        noise = d.std(ddof=min(1, d.size - 1)) / np.sqrt(d.size)
    losses = [np.nansum(data.weights * data.squares(one)) for one in (honest, chosen.heldout)]
    kept = np.flatnonzero(blend_weights(H, data, tested) > 0.01)
    if losses[0] >= losses[1] or fall > noise or not beats_constant(honest, data):
        return alone
    w = blend_weights(H[kept], data, tested)
    return {groups[i].key: one for i, one in zip(kept, w) if one > 0}, honest, float(scores.mean())


# -- a fitted search beside what the twin found ------------------------------------------------------


def key_of(names: Any) -> tuple[Any, ...]:
    """A cell's names as the twin has them."""
    first = [names[name] for name in ("kernel", "metric", "round")]
    return (*first, round(names["gamma"], 10), names["alpha"])


def same_search(
    model: Any, cells: list[Cell], data: Data, new: Any, history: list[tuple[Cell, int]]
) -> Cell:
    """The cells tried, their scores, the choice or the blend, held-out predictions, the final model.

    `history` are the best cells of all groups where metrics were learned, and from how many rows.
    """
    table = model.cv_results_
    known = {cell.key: cell for cell in cells}
    found = [key_of(names) for names in table["params"]]
    assert sorted(found) == sorted(known)
    for place, key in enumerate(found):
        scores = [table[f"split{i}_test_score"][place] for i in range(len(data.splits))]
        assert_allclose(scores, known[key].scores, rtol=1e-8, atol=1e-10, err_msg=str(key))
    noted = [(*key_of(one), one["rows"], one["score"]) for one in model.metric_history_]
    wanted = {(*cell.key, rows): cell.score for cell, rows in history}  # tracks share their round 0
    assert sorted(one[:-1] for one in noted) == sorted(wanted)
    expected = [wanted[one[:-1]] for one in noted]
    assert_allclose([one[-1] for one in noted], expected, rtol=1e-8, atol=1e-12)
    chosen = choice_of_all(cells, data)
    assert found[model.best_index_] == chosen.key
    assert_allclose(model.best_score_, chosen.score, rtol=1e-8, atol=1e-12)
    weights = {chosen.key: 1.0}
    heldout = chosen.heldout
    score = chosen.score
    if model.blend:
        weights, heldout, score = blend(cells, chosen, data)
        members = {key_of(one): one["weight"] for one in model.blend_}
        assert members.keys() == weights.keys()
        assert list(members.values()) == sorted(members.values(), reverse=True)
        assert_allclose([members[key] for key in weights], list(weights.values()), rtol=1e-4, atol=1e-6)
        assert_allclose(model.blend_score_, score, rtol=1e-5, atol=1e-12)
    rtol = 1e-5 if model.blend else 1e-8
    every = np.arange(len(data.X))
    values = model.heldout_prediction_.reshape(len(data.X), -1)
    assert_allclose(values, heldout, rtol=rtol, atol=10 * rtol)
    members = [(w, known[key]) for key, w in weights.items()]
    final = sum(w * data.fit(one.whole, one.width, one.alpha, every)(new) for w, one in members)
    assert_allclose(model.expansion_.predict(new), final, rtol=rtol, atol=10 * rtol)
    return chosen
