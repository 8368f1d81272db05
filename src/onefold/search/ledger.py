"""The ledger of a search: every evaluation in the order it finished, and what follows from them.

It is append-only, and everything else is computed from its evaluations: the best cell by the rule for
ties, the progress, the history, GridSearchCV's table. Evaluations from a journal give the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.stats import rankdata

from onefold.criteria import Scoring
from onefold.search.evaluation import Evaluation

# Share of the scores' spread within which they count as equal; chosen, not measured.
_TIE = 1e-10
# Relative rounding error of a score that is a sum over rows; chosen, not measured.
_ROUNDING = 1e-12


class Ledger:
    """Evaluations of numbered candidates with a list of ridges; the last one of a cell counts."""

    def __init__(
        self, scoring: Scoring, alphas: Any = (), recorded: Mapping[str, Scoring] | None = None
    ) -> None:
        self.params: list[dict[str, Any]] = []  # what to call each candidate
        self.alphas = np.asarray(alphas, dtype=np.float64)  # in the user's units
        # By the names of their columns: the number of scores per cell, and whether each is of a split.
        scorings = {"score": scoring, **(recorded or {})}.items()
        self._criteria = {
            name: (criterion.n_scores, criterion.splits is not None) for name, criterion in scorings
        }
        self.entries: list[Evaluation] = []
        self.groups: dict[Any, list[int]] = {}  # numbers of the candidates of each
        # Three tables (candidates, ridges).
        self.means = np.empty((0, self.alphas.size))  # mean scores
        self.ranks = np.empty((0, self.alphas.size))  # what cells are compared by
        self._tried = np.empty((0, self.alphas.size), dtype=bool)  # which cells were evaluated

    def admit(self, params: dict[str, Any], group: Any = None) -> int:
        """A candidate to come, and its number."""
        self.groups.setdefault(group, []).append(len(self.params))
        self.params.append(dict(params))
        self._widen(1, 0)
        return len(self.params) - 1

    def ridge(self, alpha: float) -> int:
        """The number of a ridge, which is added after the others if it is new."""
        places = np.flatnonzero(self.alphas == alpha)
        if places.size:
            return int(places[0])
        self.alphas = np.append(self.alphas, alpha)
        self._widen(0, 1)
        return self.alphas.size - 1

    def _widen(self, rows: int, columns: int) -> None:
        """Add empty rows and columns to the tables."""
        added = ((0, rows), (0, columns))
        self.means = np.pad(self.means, added, constant_values=np.nan)
        self.ranks = np.pad(self.ranks, added, constant_values=np.nan)
        self._tried = np.pad(self._tried, added)

    def append(self, entry: Evaluation) -> None:
        """Record an evaluation."""
        self.entries.append(entry)
        self.means[entry.candidate, entry.ridges] = entry.means
        self.ranks[entry.candidate, entry.ridges] = entry.means if entry.ranks is None else entry.ranks
        self._tried[entry.candidate, entry.ridges] = True

    def untried(self, candidate: int) -> Any:
        """Numbers of the ridges that a candidate has not been evaluated with."""
        return np.flatnonzero(~self._tried[candidate])

    def best(self, among: Sequence[int] | None = None) -> tuple[int, int]:
        """Candidate and ridge of the best cell of all candidates, or of some."""
        return self._best(self.ranks, range(len(self.params)) if among is None else among)

    def _best(self, table: Any, among: Any) -> tuple[int, int]:
        rows = np.asarray(among, dtype=np.intp)
        widths = [self.params[row].get("gamma", 1.0) for row in rows]
        row, ridge = best_cell(table[rows], widths, self.alphas)
        return int(rows[row]), ridge

    def simplest(self, candidate: int, ridge: int) -> tuple[int, int]:
        """The best cell of the largest alpha in a cell's group, within one standard error of it."""
        rows = next(numbers for numbers in self.groups.values() if candidate in numbers)
        tied = within_error(self._scores()[rows], (rows.index(candidate), ridge))
        largest = self.alphas == self.alphas[tied.any(axis=0)].max()
        table = self.means.copy()
        table[rows] = np.where(tied & largest[None, :], table[rows], np.nan)
        return self._best(table, rows)

    def scored(self, candidate: Any = slice(None)) -> bool:
        """Whether any cell of a candidate, or of all, has a score."""
        return bool(np.isfinite(self.means[candidate]).any())

    def index_of(self, candidate: int, ridge: int) -> int:
        """The place of a cell in `cv_results`: alpha runs slowest, untried cells are missing."""
        place = ridge * len(self.params) + candidate
        return int(np.count_nonzero(self._tried.T.reshape(-1)[:place]))

    def entry(self, candidate: int, ridge: int | None = None) -> Evaluation:
        """The evaluation that counts for a cell, or the last one of a candidate."""
        entries = (entry for entry in reversed(self.entries) if entry.candidate == candidate)
        return next(entry for entry in entries if ridge is None or ridge in entry.ridges)

    def progress(self) -> dict[str, Any]:
        """What a progress bar shows; no best yet while every score so far is undefined."""
        score = None
        params = dict[str, Any]()
        if self.scored():
            candidate, ridge = self.best()
            score = float(self.means[candidate, ridge])
            alpha = float(self.alphas[ridge])
            params = {"alpha": alpha, "gamma": None, **self.params[candidate]}
        done = {"done": len(self.entries), "total": len(self.params)}
        return done | {"best_score": score, "best_params": params}

    @property
    def history(self) -> list[dict[str, Any]]:
        """One dict per entry, in the order they finished."""
        return [
            {
                "gamma": None,
                **self.params[entry.candidate],
                "alphas": self.alphas[entry.ridges].tolist(),
                "scores": entry.means.tolist(),
                "unsolved": len(entry.failures),
                "why": entry.failures[-1] if entry.failures else None,
                "seconds": entry.seconds,
            }
            for entry in self.entries
        ]

    def cv_results(self) -> dict[str, Any]:
        """GridSearchCV's ``cv_results_``, of the cells that were tried; alpha runs slowest."""
        tried = self._tried
        seconds = np.zeros(len(self.params))
        for entry in self.entries:
            seconds[entry.candidate] += entry.seconds
        ridges, numbers = np.nonzero(tried.T)
        params = [{"alpha": float(self.alphas[r]), **self.params[c]} for r, c in zip(ridges, numbers)]
        # One factorisation served all ridges and splits of a candidate.
        shares = seconds / np.maximum(tried.sum(axis=1), 1) / self._criteria["score"][0]
        table: dict[str, Any] = {"mean_fit_time": shares[numbers]}
        for name in ("std_fit_time", "mean_score_time", "std_score_time"):
            table[name] = np.zeros(len(params))
        for name in dict.fromkeys(name for cell in params for name in cell):
            values = [cell.get(name) for cell in params]
            missing = [value is None for value in values]  # masked, as in GridSearchCV
            filler = next(value for value in values if value is not None)
            filled = column_of([filler if value is None else value for value in values])
            table[f"param_{name}"] = np.ma.MaskedArray(filled, mask=missing if any(missing) else False)
        table["params"] = params
        for name, (_, per_split) in self._criteria.items():
            scores = self._scores(name)[numbers, ridges]
            if per_split:
                table |= {f"split{i}_test_{name}": scores[:, i].copy() for i in range(scores.shape[1])}
            means = table[f"mean_test_{name}"] = scores.mean(axis=1)
            table[f"std_test_{name}"] = deviation(scores, axis=1)
            # As in GridSearchCV: ties share the smaller rank, undefined scores come last.
            last = 0 if np.isnan(means).all() else np.nanmin(means) - 1
            order = np.where(np.isnan(means), last, means)
            table[f"rank_test_{name}"] = rankdata(-order, method="min").astype(np.int32)
        return table

    def _scores(self, name: str = "score") -> Any:
        """Scores (candidates, ridges, scores) of the criterion that decides, or of another."""
        scores = np.full((*self.means.shape, self._criteria[name][0]), np.nan)
        for entry in self.entries:
            of_entry = entry.scores if name == "score" else entry.others[name]
            scores[entry.candidate, entry.ridges] = of_entry
        return scores


def column_of(values: list[Any]) -> Any:
    """Parameters as an array of one axis, of objects where one of them is a tuple."""
    if not any(isinstance(value, tuple) for value in values):
        return np.array(values)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def best_cell(scores: Any, widths: Any, ridges: Any) -> tuple[int, int]:
    """Row and column of the best mean score (widths, ridges); ties: the largest gamma, then alpha."""
    if not np.isfinite(scores).any():
        raise ValueError("the score of every candidate is undefined; check the criterion and the data.")
    comparable = np.where(np.isfinite(scores), scores, -np.inf)
    widths = np.asarray(widths, dtype=float)
    ridges = np.asarray(ridges, dtype=float)
    tied = comparable >= comparable.max() - tie_tolerance(scores)
    rows = np.flatnonzero(tied.any(axis=1))
    rows = rows[widths[rows] == widths[rows].max()]
    cells = [(int(row), int(column)) for row in rows for column in np.flatnonzero(tied[row])]
    return max(cells, key=lambda cell: ridges[cell[1]])  # the first of equals


def tie_tolerance(scores: Any) -> float:
    """How far below the best a score may lie and still be tied with it; it scales with the scores."""
    finite = np.asarray(scores)[np.isfinite(scores)]
    best = float(finite.max())
    # Very bad candidates, whose scores are unbounded, do not count in the spread.
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
    """The best value is the smallest or largest that was tried: there may be better ones beyond.

    Examples
    --------
    >>> import warnings
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV
    >>> from onefold.search import GridEdgeWarning
    >>> X, y = load_diabetes(return_X_y=True)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = LSSVRCV(gammas=[1e-3, 1e-2, 1e-1], alphas=[1, 10, 100]).fit(X, y)
    >>> {warning.category.__name__ for warning in caught}
    {'GridEdgeWarning'}
    """


class Edge(NamedTuple):
    """The end of a range of values at which the best one lies."""

    end: Literal["smallest", "largest"]
    parameter: str

    def __str__(self) -> str:
        return f"{self.end} {self.parameter}"


def edges(results: dict[str, Any], best: int) -> list[Edge]:
    """What the search chose at the end of its range, where the next value inside scores worse."""
    scores = results["mean_test_score"]
    same = np.ones(len(scores), dtype=bool)
    for name in ("kernel", "metric", "round"):
        column = results.get(f"param_{name}")
        same &= True if column is None else np.asarray(column == column[best])
    chosen_edges = []
    for name in ("gamma", "alpha"):
        later = "param_round" in results and results["param_round"][best] > 0  # their widths move
        if f"param_{name}" not in results or (name == "gamma" and later):
            continue
        values = np.ma.filled(results[f"param_{name}"].astype(float), np.nan)
        tried = np.unique(values[np.isfinite(values)])
        chosen = values[best]
        nearby = np.unique(values[same & np.isfinite(values)])
        if tried.size < 3 or nearby.size < 2 or chosen not in (tried[0], tried[-1]):
            continue
        next_inside = scores[same & (values == (nearby[1] if chosen == tried[0] else nearby[-2]))]
        if not np.any(next_inside >= scores[best] - tie_tolerance(scores)):
            chosen_edges.append(Edge("smallest" if chosen == tried[0] else "largest", name))
    return chosen_edges
