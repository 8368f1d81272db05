"""The stages of a search by halving: who is left after each, what the next would cost, what was said."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onefold.approximations.planning import NOMINAL
from onefold.search.climbing import next_widths
from onefold.search.run import SearchResult
from onefold.search.setup import Setup
from onefold.search.survivors import Verdict

_WINDOW = 4.0  # times the best ridge, or a quarter of it: those that are tried on all rows
_CHEAPER = 0.75  # of the time with all ridges


@dataclass
class Stages:
    """Who is left, and what has been said of the others.

    Attributes
    ----------
    alive : list of int
        Numbers of the candidates that are left, the best first.
    ridges : dict of int to int
        Their best ridges; none before the first stage.
    beside : list of lists of int
        For each candidate its neighbours in width that are worth trying.
    said : list of dict
        The record of each stage, in plain values.
    """

    setup: Setup
    alive: list[int] = field(init=False)
    ridges: dict[int, int] = field(default_factory=dict)
    beside: list[list[int]] = field(init=False)
    said: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.alive = list(range(len(self.setup.names)))
        self._neighbours = next_widths(self.setup.names)
        self.beside, self._closed = self._neighbours, set[int]()

    @property
    def settled(self) -> bool:
        """Whether only the best candidate and its neighbours are left."""
        best = self.alive[0]
        return bool(self.ridges) and {best, *self.beside[best]} >= set(self.alive)

    def cost(self, size: int) -> float:
        """Of a stage with all that are left, in candidates on all rows."""
        setup, n_alphas = self.setup, len(self.setup.alphas)
        share = duration(setup, size, n_alphas) / duration(setup, setup.problem.n, n_alphas)
        return len(self.alive) * share

    def cells(self, windows: list[Any], *, alone: bool) -> dict[int, Any]:
        """What is tried on all rows; `alone` is the best cell and nothing else.

        Where ridges cost time, candidates other than the best and its neighbours come with one: should
        it lead, the search goes on to the ridges around it.
        """
        every = np.arange(len(windows))
        if not self.ridges:
            return dict.fromkeys(self.alive, every)
        best = self.alive[0]
        if alone:
            return {best: np.array([self.ridges[best]])}
        near = {best, *self.beside[best]}
        whole = len(windows[0]) == every.size  # ridges cost nothing
        return {
            number: windows[ridge] if whole or number in near else np.array([ridge])
            for number, ridge in self.ridges.items()
        }

    def take(self, size: int, found: SearchResult, verdicts: list[Verdict]) -> None:
        """Go on with those that a stage has left, and write down what it did."""
        self._write(size, found, [one for one in verdicts if one.dropped is not None])
        left = [one for one in verdicts if one.dropped is None and one.ridge is not None]
        if left:
            self.alive = [one.number for one in left]
            self.ridges = {one.number: one.ridge for one in left if one.ridge is not None}
            # A neighbour that was dropped all the same is not to come back while the best stays so.
            gone = self._closed | {one.number for one in verdicts if one.dropped is not None}
            self._closed = gone & set(self._neighbours[self.alive[0]])
            self.beside = [[one for one in own if one not in self._closed] for own in self._neighbours]

    def _write(self, size: int, found: SearchResult, dropped: list[Verdict]) -> None:
        ledger, names = found.ledger, self.setup.names
        tried = sorted({entry.candidate for entry in ledger.entries})
        best, ridge = ledger.best()
        alpha = [float(value) for value in ledger.alphas]
        stage = {
            "n_resources": size,
            "n_candidates": len(tried),
            "n_cells": int(sum(len(entry.ridges) for entry in ledger.entries)),
            "best": {**names[best], "alpha": alpha[ridge], "score": ledger.score(best, ridge)},
            "added": [dict(names[number]) for number in tried if number not in self.alive],
            "dropped": [
                {
                    **names[one.number],
                    "alpha": None if one.ridge is None else alpha[one.ridge],
                    "difference": None if one.ridge is None else one.difference,
                    "standard_error": None if one.ridge is None else one.standard_error,
                    "why": one.dropped,
                }
                for one in dropped
            ],
        }
        self.said.append(stage)


def ridge_windows(setup: Setup) -> list[Any]:
    """For each ridge those that are tried with it: its neighbours in size, and all within a factor of 4.

    All of them where fewer would not be much cheaper.
    """
    alphas, n_alphas = setup.alphas, len(setup.alphas)
    order = np.argsort(alphas, kind="stable")
    place = np.argsort(order, kind="stable")
    windows = []
    for ridge in range(n_alphas):
        with np.errstate(over="ignore"):
            near = (alphas <= _WINDOW * alphas[ridge]) & (alphas >= alphas[ridge] / _WINDOW)
        windows.append(np.flatnonzero(near | (np.abs(place - place[ridge]) <= 1)))
    many = max(len(window) for window in windows)
    if duration(setup, setup.problem.n, many) <= _CHEAPER * duration(setup, setup.problem.n, n_alphas):
        return windows
    return [np.arange(n_alphas)] * n_alphas


def duration(setup: Setup, rows: int, alphas: int) -> float:
    """Of one kernel on some of the rows, on a nominal machine: journals may be read on another."""
    _, d, targets = setup.problem.shape
    approximation, _ = setup.run.approximation.on_fewer_rows(rows, setup.run.shared)
    load = replace(setup.run.load, kernels=1, alphas=alphas)
    time = approximation.duration(rows, d, targets, load, NOMINAL)
    return float(rows) if time is None else time
