"""The ledger of a search: every evaluation in the order it finished, and what follows from them.

It is append-only, and everything else is computed from its entries: the best cell, the progress, the
history, GridSearchCV's table. Entries that come back from a journal give the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onefold.criteria import Scoring
from onefold.search.entry import Entry
from onefold.search.results import best_cell, cv_results, score_columns, within_error


class Ledger:
    """Evaluations of numbered candidates with a list of ridges.

    Where a cell was evaluated more than once, the last evaluation counts.

    Parameters
    ----------
    params : list of dict
        What to call each candidate; `admit` adds more.
    alphas : sequence of float
        The ridges, in the user's units; `ridge` adds more.
    n_scores : int
        Scores per cell.
    per_split : bool, default=True
        Whether they are those of splits; False for criteria of the model as a whole.
    others : dict from str to int, optional
        The criteria that are recorded only, with their numbers of splits; 0 for those of the model as a
        whole, which have one score.
    """

    def __init__(
        self,
        params: Sequence[dict[str, Any]],
        alphas: Any,
        n_scores: int,
        *,
        per_split: bool = True,
        others: Mapping[str, int] | None = None,
    ) -> None:
        self.params: list[dict[str, Any]] = []
        self.alphas = np.asarray(alphas, dtype=np.float64)
        self.n_scores, self.per_split = n_scores, per_split
        self.others = dict(others or {})
        self.entries: list[Entry] = []
        self._means = np.empty((0, self.alphas.size))
        self._ranks = np.empty((0, self.alphas.size))
        self.admit(params)

    @classmethod
    def of(cls, scoring: Scoring, params: Sequence[dict[str, Any]] = (), alphas: Any = ()) -> Ledger:
        """An empty one for the scores of a search."""
        others = {name: len(one.splits or ()) for name, one in scoring.others.items()}
        per_split = scoring.splits is not None
        return cls(params, alphas, scoring.n_scores, per_split=per_split, others=others)

    def admit(self, params: Sequence[dict[str, Any]]) -> None:
        """Candidates to come; their numbers go on from those known."""
        self.params.extend(dict(names) for names in params)
        rows = np.full((len(params), self.alphas.size), np.nan)
        self._means = np.concatenate([self._means, rows])
        self._ranks = np.concatenate([self._ranks, rows])

    def ridge(self, alpha: float) -> int:
        """The number of a ridge, which is added after the others if it is new."""
        known = np.flatnonzero(self.alphas == alpha)
        if known.size:
            return int(known[0])
        self.alphas = np.append(self.alphas, alpha)
        column = np.full((len(self.params), 1), np.nan)
        self._means, self._ranks = (np.hstack([old, column]) for old in (self._means, self._ranks))
        return self.alphas.size - 1

    def append(self, entry: Entry) -> None:
        """Record an evaluation."""
        self.entries.append(entry)
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

    def entry(self, candidate: int, ridge: int) -> Entry:
        """The evaluation that counts for a cell."""
        return next(e for e in reversed(self.entries) if e.candidate == candidate and ridge in e.ridges)

    def report(self, candidate: int) -> dict[str, Any]:
        """What the approximation said of a candidate when it was last evaluated."""
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
        table = cv_results(self.params, self.alphas, self._scores(), shares, tried, self.per_split)
        for name, splits in self.others.items():
            table |= score_columns(name, self._scores(name), tried, splits > 0)
        return table

    def _scores(self, other: str | None = None) -> Any:
        """Scores (candidates, ridges, scores) of the criterion that decides, or of another."""
        count = self.n_scores if other is None else max(1, self.others[other])
        scores = np.full((*self._means.shape, count), np.nan)
        for entry in self.entries:
            found = entry.scores if other is None else entry.others[other]
            scores[entry.candidate, entry.ridges] = found
        return scores
