r"""The strategy of a learned metric: a few cells around the last choice, round after round.

Round 0 is every family as it is, over the whole grid or around a first look. Then, for every track, the
best cell of its last round gives the next metric (:mod:`onefold.learned_metrics`), which is tried at
half, once and twice the width, and at the neighbouring ridges. A track ends after two rounds that gain
less than half a per cent each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onefold.approximations import Run
from onefold.learned_metrics import Round, Track, first_round, next_round
from onefold.search.candidates import Candidate, CrossFittedCandidate
from onefold.search.ledger import Ledger
from onefold.search.strategies import Proposal

NEARBY = (0.5, 1.0, 2.0)
_GAIN = 0.005
_PATIENCE = 2


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
        if len(losses) <= _PATIENCE:
            return False
        best_before = min(losses[:-_PATIENCE])
        return bool(min(losses[-_PATIENCE:]) > (1 - _GAIN) * best_before)


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
        seed: int = 0,
    ) -> None:
        self.candidates: Sequence[Candidate] = []
        self.rounds: dict[tuple[Any, ...], Round] = {}
        self.alphas = np.asarray(alphas, dtype=np.float64)
        self._run, self._tracks, self._parts = run, tracks, parts
        self._widths, self._looked = widths, looked or {}
        self._max_rounds, self._seed = max_rounds, seed
        self._open: list[_Open] | None = None

    def propose(self, ledger: Ledger) -> list[Proposal]:
        if self._open is None:
            return self._first()
        proposals: list[Proposal] = []
        going_on = []
        for track in self._open:
            scored = [number for number in track.numbers if ledger.scored(number)]
            if not scored:
                continue
            number, ridge = ledger.best(scored)
            track.scores.append(ledger.score(number, ridge))
            if not track.ends(self._max_rounds):
                proposals += self._next(track, number, ridge)
                going_on.append(track)
        self._open = going_on
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
                widths = self._widths if found is None else [found[0] * near for near in NEARBY]
                added = self._add(first, widths)
                ridges = np.arange(self.alphas.size) if found is None else self._near(found[1])
                proposals += [Proposal(number, ridges) for number in added]
                begun[track.name] = _Open(first, added)
            self._open.append(_Open(first, list(begun[track.name].numbers)))
        return proposals

    def _next(self, track: _Open, number: int, ridge: int) -> list[Proposal]:
        width = self.candidates[number].params.get("gamma", 1.0)
        mu = float(self._run.problem.ridge(self.alphas[ridge]))
        track.last = next_round(track.last, self._run, self._parts, width, mu, self._seed)
        track.numbers = self._add(track.last, [width * near for near in NEARBY])
        return [Proposal(added, self._near(ridge)) for added in track.numbers]

    def _near(self, ridge: int) -> Any:
        """Numbers of the ridge and its neighbours in size."""
        order = np.argsort(self.alphas, kind="stable")
        place = int(np.flatnonzero(order == ridge)[0])
        return np.sort(order[max(0, place - 1) : place + 2])

    def _add(self, last: Round, widths: Sequence[float]) -> list[int]:
        """Candidates of a round, one for each width, and their numbers."""
        run, first = self._run, len(self.candidates)
        kernel = last.whole.kernel
        for width in widths if kernel.has_width else [1.0]:
            names: dict[str, Any] = {"kernel": last.track.name, "metric": last.metric}
            names |= {"round": last.number, "gamma": float(width)}
            if last.parts is None and run.approximation.selects:
                new = Candidate(run, last.whole.at(width), names)
            else:
                kernels = last.part_kernels(width, len(self._parts))
                new = CrossFittedCandidate(run, last.whole.at(width), names, self._parts, kernels)
            self.candidates = [*self.candidates, new]
            self.rounds[new.group] = last
        return list(range(first, len(self.candidates)))
