r"""Descent from a cell of a grid: L-BFGS-B on a criterion in the logarithms of widths and ridge.

What is minimised is log(score/best) for press and gcv, and (best − score)/(nt) for the evidence, with
the best of the grid: the same for targets times any number. Every evaluation goes into the ledger of the
grid and, with its gradient, into the journal: L-BFGS-B takes the same steps again where it finds them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from scipy.optimize import minimize

from onefold.approximations import Model, SmoothingModel
from onefold.criteria import Scoring
from onefold.criteria.closed import Evidence
from onefold.criteria.gradients import score_slopes
from onefold.search.candidates import Candidate
from onefold.search.conduct import Conduct
from onefold.search.coordinates import Coordinates
from onefold.search.entry import Entry
from onefold.search.evaluate import evaluate, solve
from onefold.search.keeping import KeptPart
from onefold.search.ledger import Ledger

PART = "gradient"
_OPTIONS = {"ftol": 1e-6, "gtol": 1e-4, "maxiter": 100}  # a score has no more digits that matter
_RISING = 1e-4  # of the loss per factor e: less is no reason to go beyond a bound
_STEP = np.log(2.0**6)  # by which a bound is moved
_EXTENSIONS = 4  # of the bounds, at most
_ON_BOUND = 1e-9
_NAMED = 6  # features are named if they are no more


class EndedError(Exception):
    """Nothing more may be begun."""


class Evaluations:
    """Scores and gradients at points, each computed once, recorded and kept.

    Parameters
    ----------
    ledger : Ledger
        What the grid has left; it grows.
    candidates : list of Candidate
        Its candidates; grows too.
    scoring : Scoring
    conduct : Conduct

    Attributes
    ----------
    unsolved : int
        How many points had no score or no gradient.
    """

    def __init__(
        self, ledger: Ledger, candidates: list[Candidate], scoring: Scoring, conduct: Conduct
    ) -> None:
        self.ledger, self.candidates = ledger, candidates
        self._scoring, self._conduct = scoring, conduct
        self._numbers = {_key(candidate): number for number, candidate in enumerate(candidates)}
        self._known: dict[tuple[int, bytes], tuple[float, Any]] = {}
        self._best = ledger.score(*ledger.best())
        self._worst = -np.inf  # of the losses, which stands for those that are not defined
        self.unsolved = 0

    @property
    def count(self) -> int:
        """How many points have been evaluated."""
        return len(self._known)

    def loss(self, coordinates: Coordinates, point: Any) -> tuple[float, Any]:
        """What is minimised, and its gradient."""
        key = id(coordinates), point.tobytes()
        if key not in self._known:
            self._known[key] = self._loss(*self._evaluated(coordinates, point))
        return self._known[key]

    def _loss(self, score: float, slopes: Any) -> tuple[float, Any]:
        size = self._scoring.problem.n * self._scoring.problem.Y.shape[1]
        if isinstance(self._scoring.criterion, Evidence):
            value, rate = (self._best - score) / size, -1.0 / size
        else:
            value = float(np.log(max(score / self._best, 5e-324)))  # of 0, which nothing exceeds
            rate = 1.0 / score if score else 0.0
        if not (np.isfinite(value) and np.isfinite(rate) and np.all(np.isfinite(slopes))):
            self.unsolved += 1
            return max(self._worst, 0.0) + 1.0, np.zeros_like(slopes)
        self._worst = max(self._worst, value)
        return value, rate * slopes

    def _evaluated(self, coordinates: Coordinates, point: Any) -> tuple[float, Any]:
        """Score and gradient, from the journal or computed, as the next entry of the ledger."""
        candidate, ledger = coordinates.candidate(point), self.ledger
        number = self._numbers.get(_key(candidate), len(self.candidates))
        ridge = ledger.ridge(coordinates.ridge(point))
        kept = KeptPart(self._conduct.keeping, PART, ledger.alphas)
        known = kept.recall(candidate, number, [ridge])
        entry = known[0] if known and len(known[0].report.get("slopes", ())) == point.size else None
        new = entry is None
        if entry is None:
            if not self._conduct.goes_on():
                raise EndedError
            entry = self._computed(coordinates, candidate, number, ridge)
            kept.remember(candidate, entry)
        if number == len(self.candidates):
            self._numbers[_key(candidate)] = number
            self.candidates.append(candidate)
            ledger.admit([candidate.params])
        # The slopes are the journal's alone.
        report = {name: value for name, value in entry.report.items() if name != "slopes"}
        ledger.append(replace(entry, report=report))
        if new:
            self._conduct.tell(ledger, PART)
        return float(entry.means[0]), np.asarray(entry.report["slopes"], dtype=np.float64)

    def _computed(
        self, coordinates: Coordinates, candidate: Candidate, number: int, ridge: int
    ) -> Entry:
        """One evaluation as of any search, and the gradient from the same factorisation."""
        start, scoring, problem = time.perf_counter(), self._scoring, self._scoring.problem
        ridges, mu = np.array([ridge]), problem.ridge(self.ledger.alphas[[ridge]])
        models: list[Model] = []

        def make() -> Model:
            models.append(candidate.model(1))
            return models[0]

        found = evaluate(solve(make, scoring, mu), scoring, ridges)
        slopes = np.full(len(coordinates.labels), np.nan)
        if found.has_score:
            model = cast(SmoothingModel, models[0])
            slopes = coordinates.slopes(
                candidate, score_slopes(scoring.criterion, model, problem, float(mu[0]))
            )
        entry = found.entry(number, slopes=slopes.tolist())
        return replace(entry, seconds=time.perf_counter() - start)


@dataclass
class Descent:
    """Where a descent has come to.

    Attributes
    ----------
    coordinates : Coordinates
    lower, upper : arrays
        Bounds of the coordinates; equal where one is given.
    loss : float
    notes : list of str
        How the bounds were moved.
    edges : list of str
        What is on a bound in the end although the score still rises there: "smallest alpha", say.
    """

    coordinates: Coordinates
    lower: Any
    upper: Any
    loss: float = np.inf
    notes: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)

    def run(self, evaluations: Evaluations) -> None:
        """Go down from the cell, and beyond a bound where the way leads there."""
        if not np.any(self.lower < self.upper):  # no coordinate has a range: the cell is all there is
            return
        point = self.coordinates.start
        for extension in range(_EXTENSIONS + 1):
            found = minimize(
                lambda x: evaluations.loss(self.coordinates, x),
                point,
                jac=True,
                method="L-BFGS-B",
                bounds=np.column_stack([self.lower, self.upper]),
                options=_OPTIONS,
            )
            point, self.loss = found.x, float(found.fun)
            below, above = self._beyond(point, found.jac)
            if not (below.any() or above.any()):
                return
            if extension == _EXTENSIONS:
                self.edges = self._named("smallest", below) + self._named("largest", above)
                return
            self._extend(below, above)

    def _beyond(self, point: Any, slopes: Any) -> tuple[Any, Any]:
        """Which coordinates are on their lower, and on their upper bound, and pressed against it."""
        free = self.lower < self.upper
        below = free & (point <= self.lower + _ON_BOUND) & (slopes > _RISING)
        above = free & (point >= self.upper - _ON_BOUND) & (slopes < -_RISING)
        return below, above

    def _extend(self, below: Any, above: Any) -> None:
        for which, bounds, step, end in (
            (below, self.lower, -_STEP, "smallest"),
            (above, self.upper, _STEP, "largest"),
        ):
            for name in self._named(end, which):
                last = name.split()[1] == "alpha"
                place = np.flatnonzero(which)[-1 if last else 0]
                old, new = np.exp(bounds[place]), np.exp(bounds[place] + step)
                whose = "" if last or not self.coordinates.per_feature else _features(which[:-1])
                self.notes.append(
                    f"the score still rose at the {name}{whose}, {old:.3g}: the range was extended to "
                    f"{new:.3g}"
                )
            bounds[which] += step

    def _named(self, end: str, which: Any) -> list[str]:
        names = [self.coordinates.labels[place].split()[0] for place in np.flatnonzero(which)]
        return [f"{end} {name}" for name in dict.fromkeys(names)]


def _key(candidate: Candidate) -> tuple[Any, ...]:
    """What names a candidate."""
    return tuple(sorted(candidate.params.items())), candidate.lineage


def _features(which: Any) -> str:
    """Of which features, by their numbers; of many, how many."""
    places = np.flatnonzero(which)
    if places.size > _NAMED:
        return f" of {places.size} features"
    return f" of feature{'s' if places.size > 1 else ''} {', '.join(map(str, places))}"
