r"""The strategy of a learned metric: a few cells around the last choice, round after round.

Round 0 is every family as it is, over the whole grid or around a first look. Then, for every track, the
best cell of its last round gives the next metric (:mod:`onefold.learned_metrics`), which is tried in a
cross: at half and twice the width, and at the neighbouring ridges. A track ends with the first round
that gains less than half a per cent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onefold.approximations import Run
from onefold.learned_metrics import Round, Track, first_round, next_round
from onefold.machine.ordered import map_in_order
from onefold.search.candidates import Candidate, CrossFittedCandidate
from onefold.search.ledger import Ledger
from onefold.search.strategies import Proposal

NEARBY = (0.5, 1.0, 2.0)
_GAIN = 0.005


@dataclass
class _Open:
    """A track under way: its last round, the numbers of that round's candidates, the scores so far."""

    last: Round
    numbers: list[int]
    scores: list[float] = field(default_factory=list)

    def ends(self, max_rounds: int) -> bool:
        """Whether another round is not worth its time."""
        if self.last.track.kind == "none" or self.last.number >= max_rounds:
            return True
        losses = [_loss(score) for score in self.scores]
        return len(losses) > 1 and losses[-1] > (1 - _GAIN) * min(losses[:-1])


def _loss(score: float) -> float:
    """A positive number that falls as a score rises: of errors, or of shares such as accuracy and R²."""
    return -score if score <= 0 else max(1.0 - score, 0.0)


class MetricRounds:
    """Rounds of every track.

    Parameters
    ----------
    run : Run
        Of the approximation on the rows that the metrics are learned from.
    tracks : sequence of Track
    parts : sequence of int arrays
        The rows left out together, in turn: those of the scoring.
    widths, alphas
        The grid of round 0, widths relative to the mean distance.
    max_rounds : int
    looked : dict of str to (float, int), optional
        For each family the width and the number of the ridge that a first look found best: round 0 is
        tried around them alone.
    whole : bool
        Whether a metric of all rows is learned too; otherwise the first part's serves in its place.
    seed : int
    """

    finishes = False

    def __init__(
        self,
        run: Run,
        tracks: Sequence[Track],
        parts: Sequence[Any],
        widths: Sequence[float],
        alphas: Any,
        *,
        max_rounds: int,
        looked: dict[str, tuple[float, int]] | None = None,
        whole: bool = True,
        seed: int = 0,
    ) -> None:
        self.candidates: Sequence[Candidate] = []
        self.rounds: dict[tuple[Any, ...], Round] = {}
        self.alphas = np.asarray(alphas, dtype=np.float64)
        self._run, self._tracks, self._parts = run, tracks, parts
        self._widths, self._looked = widths, looked or {}
        self._max_rounds, self._whole, self._seed = max_rounds, whole, seed
        self._open: list[_Open] | None = None

    def propose(self, ledger: Ledger) -> list[Proposal]:
        if self._open is None:
            return self._first()
        going_on: list[tuple[_Open, int, int]] = []
        for track in self._open:
            scored = [number for number in track.numbers if ledger.scored(number)]
            if not scored:
                continue
            number, ridge = ledger.best(scored)
            track.scores.append(ledger.score(number, ridge))
            if not track.ends(self._max_rounds):
                going_on.append((track, number, ridge))
        self._open = [track for track, _, _ in going_on]
        learned = list(map_in_order(self._next, going_on, self._run.at_once))
        proposals: list[Proposal] = []
        for (track, number, ridge), last in zip(going_on, learned):
            track.last = last
            track.numbers, cross = self._cross(last, self._width(number), ridge)
            proposals += cross
        return proposals

    def _first(self) -> list[Proposal]:
        """Round 0; the tracks of one family share it."""
        proposals: list[Proposal] = []
        begun: dict[str, _Open] = {}
        self._open = []
        for track in self._tracks:
            first = first_round(track, self._run.problem, self._seed)
            if track.name not in begun:
                found = self._looked.get(track.name)
                if found is None:
                    added, every = self._add(first, self._widths), np.arange(self.alphas.size)
                    proposals += [Proposal(number, every) for number in added]
                else:
                    added, cross = self._cross(first, *found)
                    proposals += cross
                begun[track.name] = _Open(first, added)
            self._open.append(_Open(first, list(begun[track.name].numbers)))
        return proposals

    def _next(self, cell: tuple[_Open, int, int]) -> Round:
        """The metrics that the best cell of a track's last round gives."""
        track, number, ridge = cell
        width, run = self._width(number), self._run
        mu = float(run.problem.ridge(self.alphas[ridge]))
        return next_round(track.last, run, self._parts, width, mu, self._seed, whole=self._whole)

    def _width(self, number: int) -> float:
        return float(self.candidates[number].params.get("gamma", 1.0))

    def _cross(self, last: Round, width: float, ridge: int) -> tuple[list[int], list[Proposal]]:
        """Half and twice the width at the ridge, and the width itself at its neighbours in size too."""
        order = np.argsort(self.alphas, kind="stable")
        place = int(np.flatnonzero(order == ridge)[0])
        near, alone = np.sort(order[max(0, place - 1) : place + 2]), np.array([ridge])
        numbers = self._add(last, [width * factor for factor in NEARBY])
        middle = numbers[len(numbers) // 2]
        return numbers, [Proposal(n, near if n == middle else alone) for n in numbers]

    def _add(self, last: Round, widths: Sequence[float]) -> list[int]:
        """Candidates of a round, one for each width, and their numbers."""
        run, first = self._run, len(self.candidates)
        kernel = last.whole.kernel
        own = replace(run, shared=None)  # landmarks follow the metric
        for width in widths if kernel.has_width else [1.0]:
            names: dict[str, Any] = {"kernel": last.track.name, "metric": last.metric}
            names |= {"round": last.number, "gamma": float(width)}
            if last.parts is None and run.approximation.selects and self._whole:
                new = Candidate(run, last.whole.at(width), names)
            else:
                kernels = last.part_kernels(width, len(self._parts))
                new = CrossFittedCandidate(own, last.whole.at(width), names, self._parts, kernels)
            self.candidates = [*self.candidates, new]
            self.rounds[new.group] = last
        return list(range(first, len(self.candidates)))
