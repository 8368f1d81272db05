"""The ledger of a search: every evaluation in the order it finished, and what follows from them.

It is append-only, and everything else is computed from its evaluations: the best cell by the rule for
ties, the progress, the history, GridSearchCV's table. Evaluations from a journal give the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from onefold.criteria import Scoring
from onefold.search.evaluation import Evaluation

_TIE = 1e-10  # of the scores' spread: closer ones count as equal
_ROUNDING = 1e-12  # of the best score's size: what is left of its digits after summing over rows


class Ledger:
    """Evaluations of numbered candidates with a list of ridges.

    Where a cell was evaluated more than once, the last evaluation counts.
    """

    def __init__(self, scoring: Scoring, alphas: Any = ()) -> None:
        self.params: list[dict[str, Any]] = []  # what to call each candidate
        self.alphas = np.asarray(alphas, dtype=np.float64)  # in the user's units
        self._n_scores, self._per_split = scoring.n_scores, scoring.splits is not None
        # Criteria that are recorded only, with their numbers of splits; 0 for those of the whole model.
        self._others = {name: len(one.splits or ()) for name, one in scoring.others.items()}
        self.entries: list[Evaluation] = []
        self._means = np.empty((0, self.alphas.size))
        self._ranks = np.empty((0, self.alphas.size))

    def admit(self, params: dict[str, Any]) -> int:
        """A candidate to come, and its number."""
        self.params.append(dict(params))
        row = np.full((1, self.alphas.size), np.nan)
        self._means, self._ranks = (np.vstack([old, row]) for old in (self._means, self._ranks))
        return len(self.params) - 1

    def ridge(self, alpha: float) -> int:
        """The number of a ridge, which is added after the others if it is new."""
        known = np.flatnonzero(self.alphas == alpha)
        if known.size:
            return int(known[0])
        self.alphas = np.append(self.alphas, alpha)
        column = np.full((len(self.params), 1), np.nan)
        self._means, self._ranks = (np.hstack([old, column]) for old in (self._means, self._ranks))
        return self.alphas.size - 1

    def append(self, entry: Evaluation) -> None:
        """Record an evaluation."""
        self.entries.append(entry.recorded())
        self._means[entry.candidate, entry.ridges] = entry.means
        self._ranks[entry.candidate, entry.ridges] = entry.means if entry.ranks is None else entry.ranks

    def untried(self, candidate: int) -> Any:
        """Numbers of the ridges that a candidate has not been evaluated with."""
        tried = [entry.ridges for entry in self.entries if entry.candidate == candidate]
        return np.setdiff1d(np.arange(self.alphas.size), np.concatenate([[], *tried]))

    @property
    def has_score(self) -> bool:
        """Whether any cell has one."""
        return bool(np.isfinite(self._means).any())

    def best(self, among: Sequence[int] | None = None) -> tuple[int, int]:
        """Candidate and ridge of the best cell; ties go to the largest gamma, then the largest alpha.

        `among` are the numbers of the candidates to look at; all if None.
        """
        rows = np.arange(len(self.params)) if among is None else np.asarray(among, dtype=np.intp)
        widths = [self.params[row].get("gamma", 1.0) for row in rows]
        row, ridge = best_cell(self._ranks[rows], widths, self.alphas)
        return int(rows[row]), ridge

    def simplest(self, best: tuple[int, int], among: Sequence[int]) -> tuple[int, int]:
        """Of the cells within one standard error of the best one, that of the largest alpha.

        At that alpha the one with the best score. `among` are the numbers of the candidates to look at.
        """
        rows = np.asarray(among, dtype=np.intp)
        place = int(np.flatnonzero(rows == best[0])[0]), best[1]
        inside = within_error(self._scores()[rows], place)
        largest = self.alphas == self.alphas[inside.any(axis=0)].max()
        scores = np.where(inside & largest[None, :], self._means[rows], np.nan)
        widths = [self.params[row].get("gamma", 1.0) for row in rows]
        row, ridge = best_cell(scores, widths, self.alphas)
        return int(rows[row]), ridge

    def score(self, candidate: int, ridge: int) -> float:
        """The mean score of a cell, NaN where it has none."""
        return float(self._means[candidate, ridge])

    def rank(self, candidate: int, ridge: int) -> float:
        """What a cell is compared by; greater is better."""
        return float(self._ranks[candidate, ridge])

    def scored(self, candidate: int) -> bool:
        """Whether any cell of a candidate has a score."""
        return bool(np.isfinite(self._means[candidate]).any())

    @property
    def _tried(self) -> Any:
        """Which cells were evaluated, as (candidates, ridges)."""
        tried = np.zeros(self._means.shape, dtype=bool)
        for entry in self.entries:
            tried[entry.candidate, entry.ridges] = True
        return tried

    def index_of(self, candidate: int, ridge: int) -> int:
        """The place of a cell in `cv_results`: alpha runs slowest, untried cells are missing."""
        place = ridge * len(self.params) + candidate
        return int(np.count_nonzero(self._tried.T.reshape(-1)[:place]))

    def entry(self, candidate: int, ridge: int) -> Evaluation:
        """The evaluation that counts for a cell."""
        return next(e for e in reversed(self.entries) if e.candidate == candidate and ridge in e.ridges)

    def report(self, candidate: int) -> dict[str, Any]:
        """What the approximation reported of a candidate when it was last evaluated."""
        return next(e.report for e in reversed(self.entries) if e.candidate == candidate)

    def progress(self) -> dict[str, Any]:
        """What a progress bar shows; no best yet while every score so far is undefined."""
        event: dict[str, Any] = {
            "done": len(self.entries),
            "total": len(self.params),
            "best_score": None,
            "best_params": {},
        }
        if self.has_score:
            candidate, ridge = self.best()
            event["best_score"] = float(self._means[candidate, ridge])
            event["best_params"] = {
                "alpha": float(self.alphas[ridge]),
                "gamma": None,
                **self.params[candidate],
            }
        return event

    @property
    def history(self) -> list[dict[str, Any]]:
        """One dict per entry, in the order they finished."""
        return [
            {
                "gamma": None,
                **self.params[entry.candidate],
                "alphas": self.alphas[entry.ridges].tolist(),
                "scores": entry.means.tolist(),
                "unsolved": entry.unsolved,
                "why": entry.why if entry.unsolved else None,
                "seconds": entry.seconds,
            }
            for entry in self.entries
        ]

    def cv_results(self) -> dict[str, Any]:
        """GridSearchCV's ``cv_results_``."""
        seconds = np.zeros(len(self.params))
        for entry in self.entries:
            seconds[entry.candidate] += entry.seconds
        tried = self._tried
        shares = seconds / np.maximum(tried.sum(axis=1), 1)
        table = cv_results(self.params, self.alphas, self._scores(), shares, tried, self._per_split)
        for name, splits in self._others.items():
            table |= score_columns(name, self._scores(name), tried, splits > 0)
        return table

    def _scores(self, other: str | None = None) -> Any:
        """Scores (candidates, ridges, scores) of the criterion that decides, or of another."""
        count = self._n_scores if other is None else max(1, self._others[other])
        scores = np.full((*self._means.shape, count), np.nan)
        for entry in self.entries:
            found = entry.scores if other is None else entry.others[other]
            scores[entry.candidate, entry.ridges] = found
        return scores


def best_cell(scores: Any, widths: Any, ridges: Any) -> tuple[int, int]:
    """Row and column of the best mean score in a table (widths, ridges).

    Ties go to the largest width gamma, then to the largest ridge alpha, never to grid order: among
    models that the criterion cannot tell apart, the most local and the most regularised one. What counts
    as a tie follows the scores' own spread: the choice is that of the scores times any constant.
    """
    if not np.isfinite(scores).any():
        raise ValueError("every candidate has an undefined score; check the criterion and the data.")
    comparable = np.where(np.isfinite(scores), scores, -np.inf)
    widths, ridges = np.asarray(widths, dtype=float), np.asarray(ridges, dtype=float)
    tied = comparable >= comparable.max() - tie_tolerance(scores)
    columns = np.flatnonzero(tied.any(axis=1))
    columns = columns[widths[columns] == widths[columns].max()]
    cells = [(int(c), int(r)) for c in columns for r in np.flatnonzero(tied[c])]
    return max(cells, key=lambda cell: ridges[cell[1]])  # the first of equals


def tie_tolerance(scores: Any) -> float:
    """How far below the best a score may lie and still be tied with it.

    The spread is that of the best tenth of the table: hopeless candidates, whose scores know no
    bounds, have no say in it.
    """
    finite = np.asarray(scores)[np.isfinite(scores)]
    best = float(finite.max())
    return _TIE * (best - float(np.quantile(finite, 0.9))) + _ROUNDING * abs(best)


def within_error(scores: Any, best: tuple[int, int]) -> Any:
    r"""Which cells of a table (widths, ridges, splits) are within an error of the best one.

        d_s = score_s(best) − score_s(cell),    mean d ≤ √( Σ_s (d_s − mean d)² / (k (k − 1)) )

    over k splits. The difference is paired: what makes a split hard for all cells cancels.
    """
    with np.errstate(invalid="ignore"):
        difference = scores[best] - scores
        size = np.max(np.abs(difference), axis=2)
        unit = np.where(np.isfinite(size) & (size > 0), size, 1.0)  # squares stay in float64's range
        difference = difference / unit[..., None]
        error = difference.std(axis=2, ddof=1) / np.sqrt(scores.shape[2])
        return unit * difference.mean(axis=2) <= unit * error + tie_tolerance(scores.mean(axis=2))


def deviation(scores: Any, axis: int) -> Any:
    """Their standard deviation, also where its square would leave the range of float64."""
    size = np.max(np.abs(scores), axis=axis, keepdims=True)
    unit = np.where(np.isfinite(size) & (size > 0), size, 1.0)
    return np.squeeze(unit, axis=axis) * np.std(scores / unit, axis=axis)


class GridEdgeWarning(UserWarning):
    """The best value is the last one tried: there may be better beyond."""


def edges(results: dict[str, Any], best: int) -> list[str]:
    """What the search chose at the end of its range, and for a reason: "smallest alpha", say.

    A plateau that reaches the end is none: the next value inside must score worse, by more than a tie.
    Only cells of the same family, metric and round are compared, and the widths of later rounds, which
    move with every round, have no end.
    """
    scores = results["mean_test_score"]
    same = np.ones(len(scores), dtype=bool)
    for name in ("kernel", "metric", "round"):
        column = results.get(f"param_{name}")
        same &= True if column is None else np.asarray(column == column[best])
    found = []
    for name in ("gamma", "alpha"):
        later = "param_round" in results and results["param_round"][best] > 0
        if f"param_{name}" not in results or (name == "gamma" and later):
            continue
        values = np.ma.filled(results[f"param_{name}"].astype(float), np.nan)
        tried, chosen = np.unique(values[np.isfinite(values)]), values[best]
        nearby = np.unique(values[same & np.isfinite(values)])
        if tried.size < 3 or nearby.size < 2 or chosen not in (tried[0], tried[-1]):
            continue
        inside = scores[same & (values == (nearby[1] if chosen == tried[0] else nearby[-2]))]
        if not np.any(inside >= scores[best] - tie_tolerance(scores)):
            found.append(f"{'smallest' if chosen == tried[0] else 'largest'} {name}")
    return found


def cv_results(
    models: list[dict[str, Any]], alphas: Any, scores: Any, seconds: Any, tried: Any, splits: bool
) -> dict[str, Any]:
    """GridSearchCV's ``cv_results_`` for scores of shape (models, ridges, splits).

    `models` names each model: its gamma, and what else tells it from others. Candidates come in
    GridSearchCV's order, alpha running slowest, and only those that were `tried` (models, ridges).
    `seconds` are those of a model's ridge, shared equally among its splits: one factorisation served
    them all.
    """
    n_splits, flat_tried = scores.shape[2], tried.T.reshape(-1)
    cells = [(alpha, number) for alpha in alphas for number in range(len(models))]
    cells = [cell for cell, there in zip(cells, flat_tried) if there]
    params = [{"alpha": float(alpha), **models[number]} for alpha, number in cells]
    share = np.array([seconds[number] / n_splits for _, number in cells])
    zeros = np.zeros(len(params))
    table: dict[str, Any] = {
        "mean_fit_time": share,
        "std_fit_time": zeros,
        "mean_score_time": zeros.copy(),
        "std_score_time": zeros.copy(),
    }
    for name in dict.fromkeys(name for one in params for name in one):
        table[f"param_{name}"] = _column([one.get(name) for one in params])
    table["params"] = params
    return table | score_columns("score", scores, tried, splits)


def score_columns(name: str, scores: Any, tried: Any, splits: bool) -> dict[str, Any]:
    """The columns of one criterion, from its scores of shape (models, ridges, splits)."""
    flat = scores.transpose(1, 0, 2).reshape(-1, scores.shape[2])[tried.T.reshape(-1)]
    table: dict[str, Any] = {}
    if splits:
        table |= {f"split{i}_test_{name}": flat[:, i].copy() for i in range(flat.shape[1])}
    means = flat.mean(axis=1)
    table[f"mean_test_{name}"] = means
    table[f"std_test_{name}"] = deviation(flat, axis=1)
    # As in GridSearchCV: ties share the smaller rank, undefined scores come last.
    order = np.where(np.isnan(means), np.nanmin(means) - 1 if not np.isnan(means).all() else 0, means)
    table[f"rank_test_{name}"] = rankdata(-order, method="min").astype(np.int32)
    return table


def _column(values: list[Any]) -> Any:
    """A parameter of every candidate, masked where a candidate has none, as in GridSearchCV."""
    missing = [value is None for value in values]
    known = next(value for value in values if value is not None)
    filled = [known if value is None else value for value in values]
    return np.ma.MaskedArray(np.array(filled), mask=missing if any(missing) else False)
