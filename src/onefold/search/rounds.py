r"""The strategies of a learned metric: a few cells around the last choice, round after round.

Round 0 is every family as it is, over the whole grid, or every other ridge of it where each costs a
factorisation. Then, for every track, the best cell of its last round gives the next metric
(:mod:`onefold.learned_metrics`), which is tried in a cross: at half and twice the width, and at the
neighbouring ridges. A track ends with the first round that gains less than half a per cent. What it went
through, a cell per round, is its *path*; a path that was found on few rows can be gone again on many, at
a fraction of the cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onefold.approximations import Run
from onefold.learned_metrics import Round, Track, first_round, next_round
from onefold.machine.threads import map_in_order
from onefold.search.candidates import Candidate, CrossFittedCandidate
from onefold.search.choice import Leader
from onefold.search.ledger import Ledger
from onefold.search.strategies import Proposal

NEARBY = (0.5, 1.0, 2.0)
FINER = (1.0, 1.5, 2.25)  # with more rows, narrower kernels are likelier to be best
_GAIN = 0.005

Cell = tuple[float, int]
"""A relative width and the number of a ridge."""

Learned = Callable[[Track, Sequence[Any], Callable[[], Round]], Round]
"""A track, the cells that its next metric is learned from, and what learns it: to the round."""


@dataclass(frozen=True)
class Path:
    """A track and the best cell of each of its rounds, the last one being the round to use.

    `before` is the round before that, as it was learned; None where the last one is round 0.
    """

    track: Track
    cells: tuple[Cell, ...]
    before: Round | None = field(default=None, compare=False)


@dataclass
class _Open:
    """A track under way: its last round, the numbers of its candidates, what it went through."""

    last: Round
    numbers: list[int]
    scores: list[float] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)

    def ends(self, max_rounds: int) -> bool:
        """Whether another round is not worth its time."""
        if self.last.track.kind == "none" or self.last.number >= max_rounds:
            return True
        losses = _losses(self.scores)
        return len(losses) > 1 and losses[-1] > (1 - _GAIN) * min(losses[:-1])


def neighbours(alphas: Any, ridge: int) -> Any:
    """Numbers of a ridge and of those next to it in size."""
    order = np.argsort(alphas, kind="stable")
    place = int(np.flatnonzero(order == ridge)[0])
    return np.sort(order[max(0, place - 1) : place + 2])


def _losses(scores: Sequence[float]) -> list[float]:
    """Numbers that fall as scores rise: from 0 for errors, from 1 for shares such as accuracy and R².

    Errors are never above 0. An R² may begin there and end below 1: one top must serve all rounds.
    """
    top = 1.0 if max(scores) > 0 else 0.0
    return [max(top - score, 0.0) for score in scores]


class _Rounds:
    """What the strategies of rounds share: candidates that grow, a cross of cells.

    Parameters
    ----------
    run : Run
        Of the approximation on the rows that the metrics are learned from.
    parts : sequence of int arrays
        The rows left out together, in turn: those of the scoring.
    alphas : array
    whole : bool
        Whether a metric of all rows is learned too; otherwise the first part's serves in its place.
    seed : int
    learned : Learned
        Finds a metric that was learned before, or has it learned now.
    """

    finishes = False

    def __init__(
        self, run: Run, parts: Sequence[Any], alphas: Any, *, whole: bool, seed: int, learned: Learned
    ) -> None:
        self.candidates: Sequence[Candidate] = []
        self.alphas = np.asarray(alphas, dtype=np.float64)
        self._run, self._parts, self._whole, self._seed = run, parts, whole, seed
        self._find = learned

    def _learned(self, last: Round, cell: Cell) -> Round:
        """The round after `last`, from its models at a cell."""
        mu = float(self._run.problem.ridge(self.alphas[cell[1]]))

        def learn() -> Round:
            return next_round(last, self._run, self._parts, cell[0], mu, self._seed, whole=self._whole)

        return self._find(last.track, (*last.lineage, (cell[0], mu)), learn)

    def _cross(
        self, last: Round, cell: Cell, factors: Sequence[float] = NEARBY
    ) -> tuple[list[int], list[Proposal]]:
        """The width times each factor at the ridge, and itself at the neighbours in size too."""
        width, ridge = cell
        near, alone = neighbours(self.alphas, ridge), np.array([ridge])
        numbers = self._add(last, [width * factor for factor in factors])
        middle = numbers[factors.index(1.0)] if len(numbers) > 1 else numbers[0]
        return numbers, [Proposal(n, near if n == middle else alone) for n in numbers]

    def _add(self, last: Round, widths: Sequence[float]) -> list[int]:
        """Candidates of a round, one for each width, and their numbers."""
        run, first = self._run, len(self.candidates)
        kernel, own = last.whole.kernel, replace(run, shared=None)  # landmarks follow the metric
        for width in widths if kernel.has_width else [1.0]:
            names: dict[str, Any] = {"kernel": last.track.name, "metric": last.metric}
            names |= {"round": last.number, "gamma": float(width)}
            if last.parts is None and run.approximation.selects and self._whole:
                new = Candidate(run, last.whole.at(width), names)
            else:
                kernels = last.part_kernels(width, len(self._parts))
                new = CrossFittedCandidate(
                    own, last.whole.at(width), names, last.lineage, self._parts, kernels
                )
            self.candidates = [*self.candidates, new]
        return list(range(first, len(self.candidates)))


class MetricRounds(_Rounds):
    """Rounds of every track, each from the best cell of the last.

    Parameters
    ----------
    run, parts, alphas, whole, seed, learned
        As in :class:`_Rounds`.
    tracks : sequence of Track
    widths : sequence of float
        Of round 0, relative to the mean distance.
    max_rounds : int
    """

    def __init__(
        self,
        run: Run,
        tracks: Sequence[Track],
        parts: Sequence[Any],
        widths: Sequence[float],
        alphas: Any,
        *,
        max_rounds: int,
        learned: Learned,
        whole: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(run, parts, alphas, whole=whole, seed=seed, learned=learned)
        self._tracks, self._widths, self._max_rounds = tracks, widths, max_rounds
        self._all: list[_Open] = []
        self._going_on: list[_Open] | None = None

    def path(self, track: Track, leader: Leader) -> Path:
        """What a track went through up to the best cell of one of its rounds."""
        own, params = next(one for one in self._all if one.last.track == track), leader.candidate.params
        number, cell = int(params["round"]), (float(params["gamma"]), leader.ridge)
        before = own.rounds[number - 1] if number else None
        return Path(track, (*own.cells[:number], cell), before)

    def propose(self, ledger: Ledger) -> list[Proposal]:
        if self._going_on is None:
            return self._first()
        going_on = []
        for track in self._going_on:
            scored = [number for number in track.numbers if ledger.scored(number)]
            if not scored:
                continue
            number, ridge = ledger.best(scored)
            track.scores.append(ledger.rank(number, ridge))
            track.cells.append((float(self.candidates[number].params["gamma"]), ridge))
            track.rounds.append(track.last)
            if not track.ends(self._max_rounds):
                going_on.append(track)
        self._going_on = going_on
        learned = map_in_order(self._next, going_on, self._run.at_once)
        proposals: list[Proposal] = []
        for track, last in zip(going_on, list(learned)):
            track.last = last
            track.numbers, cross = self._cross(last, track.cells[-1])
            proposals += cross
        return proposals

    def _next(self, track: _Open) -> Round:
        return self._learned(track.last, track.cells[-1])

    def _first(self) -> list[Proposal]:
        """Round 0; the tracks of one family share it."""
        proposals: list[Proposal] = []
        begun: dict[str, list[int]] = {}
        order = np.argsort(self.alphas, kind="stable")  # the user's may come in any
        ridges = np.sort(order[:: 1 if self._whole else 2])
        for track in self._tracks:
            first = first_round(track, self._run.problem, self._seed)
            if track.name not in begun:
                added = self._add(first, self._widths)
                proposals += [Proposal(number, ridges) for number in added]
                begun[track.name] = added
            self._all.append(_Open(first, list(begun[track.name])))
        self._going_on = list(self._all)
        return proposals


class Replay(_Rounds):
    """Paths gone again on other rows: metrics are learned anew, the last round is tried in a cross.

    Where every part needs metrics of its own, all rounds are gone again; a single chain of metrics goes
    on from the round before the last, which was learned from some of the same rows.

    Parameters
    ----------
    run, parts, alphas, whole, seed, learned
        As in :class:`_Rounds`.
    paths : sequence of Path
    isotropic : bool
        Whether the families are tried as they are, too.
    """

    def __init__(
        self,
        run: Run,
        paths: Sequence[Path],
        parts: Sequence[Any],
        alphas: Any,
        *,
        isotropic: bool,
        whole: bool,
        seed: int,
        learned: Learned,
    ) -> None:
        super().__init__(run, parts, alphas, whole=whole, seed=seed, learned=learned)
        self._paths, self._isotropic, self._done = paths, isotropic, False

    def propose(self, ledger: Ledger) -> list[Proposal]:
        if self._done:
            return []
        self._done = True
        wanted = list(self._paths)
        if self._isotropic:
            wanted += [Path(path.track, path.cells[:1]) for path in self._paths]
        distinct = {(p.track.name, p.track.kind if len(p.cells) > 1 else "none"): p for p in wanted}
        last = list(map_in_order(self._gone, distinct.values(), self._run.at_once))
        proposals: list[Proposal] = []
        for path, round_ in zip(distinct.values(), last):
            proposals += self._cross(round_, path.cells[-1], FINER)[1]
        return proposals

    def _gone(self, path: Path) -> Round:
        last, steps = first_round(path.track, self._run.problem, self._seed), path.cells[:-1]
        if path.before is not None and not self._whole:
            last, steps = path.before, path.cells[-2:-1]
        for cell in steps:
            last = self._learned(last, cell)
        return last
