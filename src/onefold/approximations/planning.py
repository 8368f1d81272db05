r"""What would run, how long it would take and how much memory: before it runs.

The exact machine up to what the time budget and half of the free memory allow, a basis model beyond,
with as many landmarks as they allow. Times come from operation counts and the speed of this machine
(:mod:`onefold.speed`); they are meant to be right within a factor of two or three.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal

import numpy as np

from onefold.approximations.base import Approximation, Cost, Model, Problem, Workload
from onefold.approximations.exact import Exact
from onefold.approximations.nystroem import Nystroem
from onefold.kernels import Kernel, Precomputed
from onefold.memory import available_memory
from onefold.smoothers.route import Need
from onefold.speed import machine_speed

_ALWAYS_EXACT = 2000  # rows for which nothing else is worth a thought
_SIZES = (4000, 2000, 1000, 500)
_MEMORY_SHARE = 0.5


@dataclass(frozen=True)
class Plan:
    """A choice and its price.

    Attributes
    ----------
    approximation : Approximation
    rows, features : int
    seconds : float or None
        Estimated; None where the approximation has no estimate.
    bytes : int or None
        Estimated peak beyond the data.
    free_bytes : int or None
    reason : str
    """

    approximation: Approximation
    rows: int
    features: int
    seconds: float | None
    bytes: int | None
    free_bytes: int | None
    reason: str

    @property
    def fits(self) -> bool:
        """Whether the memory that is free would do."""
        return self.bytes is None or self.free_bytes is None or self.bytes <= self.free_bytes

    def __str__(self) -> str:
        time = "unknown" if self.seconds is None else f"about {_duration(self.seconds)}"
        memory = "unknown" if self.bytes is None else f"{self.bytes / 2**30:.2f} GiB"
        if self.free_bytes is not None:
            memory += f" ({self.free_bytes / 2**30:.1f} GiB free)"
        return (
            f"{self.rows} rows, {self.features} features: {self.approximation}\n"
            f"why     {self.reason}\ntime    {time}\nmemory  {memory}"
            f"{'' if self.fits else ', not enough'}"
        )


def make_plan(
    approximation: Approximation, n: int, d: int, targets: int, load: Workload, *, seconds: float
) -> Plan:
    """The price of an approximation; for `Auto`, the choice first."""
    free = available_memory()
    if not isinstance(approximation, Auto):
        cost = approximation.cost(n, d, targets, load, machine_speed())
        return _priced(approximation, cost, n, d, free, "as asked for")
    exact = Exact()
    cost = exact.cost(n, d, targets, load, machine_speed())
    if n <= _ALWAYS_EXACT:
        return _priced(exact, cost, n, d, free, f"at most {_ALWAYS_EXACT} rows: exact")
    why_not = _objection(cost, free, seconds)
    if why_not is None:
        return _priced(exact, cost, n, d, free, f"exact within {_duration(seconds)} and memory")
    sizes = [m for m in _SIZES if 4 * m <= n] or [max(1, n // 4)]
    for m in sizes:
        basis = Nystroem(m, random_state=approximation.random_state)
        price = basis.cost(n, d, targets, load, machine_speed())
        short = _objection(price, free, seconds)
        if short is None or m == sizes[-1]:
            reason = f"the exact machine {why_not}; {m} landmarks"
            reason += " fit the budget" if short is None else f" still {short}"
            return _priced(basis, price, n, d, free, reason)
    raise AssertionError("unreachable: the last size always returns")


def _priced(
    approximation: Approximation, cost: Cost | None, n: int, d: int, free: int | None, reason: str
) -> Plan:
    seconds, needed = (None, None) if cost is None else (cost.seconds, cost.bytes)
    return Plan(approximation, n, d, seconds, needed, free, reason)


def _objection(cost: Cost, free: int | None, seconds: float) -> str | None:
    if free is not None and cost.bytes > _MEMORY_SHARE * free:
        return f"would need {cost.bytes / 2**30:.1f} GiB of {free / 2**30:.1f} GiB free"
    if cost.seconds > seconds:
        return f"would take about {_duration(cost.seconds)}"
    return None


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


@dataclass(frozen=True)
class Auto(Approximation):
    """The exact machine where time and memory allow, a basis model beyond.

    Parameters
    ----------
    seconds : float, default=300
        Time that the whole search may take by estimate.
    random_state : int, default=0
        Of the landmarks.
    """

    seconds: float = 300.0
    random_state: int = 0

    name = "auto"
    refit = "same"

    def settle(self, problem: Problem) -> Approximation:
        return self._plan(problem, Workload(13, 11, 5)).approximation

    def _plan(self, problem: Problem, load: Workload) -> Plan:
        d, targets = problem.X.shape[1], problem.Y.shape[1]
        return make_plan(self, problem.n, d, targets, load, seconds=self.seconds)

    def prepare(self, kernel: Kernel, problem: Problem, load: Workload) -> Approximation:
        if isinstance(kernel, Precomputed):
            return Exact()
        plan = self._plan(problem, load)
        plan.approximation.check(kernel, problem)
        chosen = plan.approximation.prepare(kernel, problem, load)
        return Planned(self.seconds, self.random_state, chosen, plan.reason)

    def model(
        self, kernel: Kernel, problem: Problem, *, n_alphas: int, need: Need, workers: int
    ) -> Model:
        load = Workload(1, n_alphas, 5 if need == "heldout" else 0)
        chosen = self.prepare(kernel, problem, load)
        return chosen.model(kernel, problem, n_alphas=n_alphas, need=need, workers=workers)


@dataclass(frozen=True)
class Planned(Auto):
    """The approximation that a plan chose; its models say why."""

    chosen: Approximation = field(default_factory=Exact)
    reason: str = ""

    def settle(self, problem: Problem) -> Approximation:
        return self.chosen

    def prepare(self, kernel: Kernel, problem: Problem, load: Workload) -> Approximation:
        return self

    def refit_for(self, problem: Problem) -> Literal["exact", "same"]:
        return self.chosen.refit_for(problem)

    def check(self, kernel: Kernel, problem: Problem) -> None:
        self.chosen.check(kernel, problem)

    def model(
        self, kernel: Kernel, problem: Problem, *, n_alphas: int, need: Need, workers: int
    ) -> Model:
        model = self.chosen.model(kernel, problem, n_alphas=n_alphas, need=need, workers=workers)
        model.report["chosen"] = self.reason
        return model

    def memory_per_model(self, n: int) -> int:
        return self.chosen.memory_per_model(n)


def _shape_of(X: Any) -> tuple[Any, Any]:
    """Rows and features of an array or of a given shape; raise for anything else."""
    shape = tuple(X if isinstance(X, tuple | list) else getattr(X, "shape", ()))
    if len(shape) != 2 or not all(isinstance(size, Real) for size in shape):
        got = f"shape {shape}" if hasattr(X, "shape") else f"{X!r:.60}"
        raise ValueError(
            f"plan takes an array of rows, or a shape such as (1000, 20) for 1000 × 20; got {got}."
        )
    return shape[0], shape[1]


def plan(
    X: Any,
    *,
    approximation: Any = "auto",
    n_gammas: int = 13,
    n_alphas: int = 11,
    cv: int = 5,
    targets: int = 1,
    seconds: float = 300.0,
) -> Plan:
    """Say what a search would run, the time and the memory it would take, without running it.

    Parameters
    ----------
    X : array (rows, features), or such a shape
    approximation : str or object from :mod:`onefold.approximations`, default="auto"
    n_gammas, n_alphas : int, default=13, 11
        Size of the grid; the defaults are those of the estimators.
    cv : int, default=5
        Number of folds.
    targets : int, default=1
        Columns of y, or classes if there are more than two.
    seconds : float, default=300
        Time budget of ``"auto"``.

    Returns
    -------
    Plan

    Examples
    --------
    >>> from onefold import plan
    >>> plan((1000, 20)).approximation
    Exact()
    """
    from onefold.approximations import resolve_approximation

    n, d = _shape_of(X)
    chosen = resolve_approximation(approximation)
    load = Workload(kernels=n_gammas, alphas=n_alphas, folds=cv)
    for name, value in (("rows", n), ("features", d), ("n_gammas", n_gammas), ("n_alphas", n_alphas)):
        if not np.isfinite(value) or value < 1:
            raise ValueError(f"{name} must be at least 1; got {value!r}.")
    return make_plan(chosen, int(n), int(d), targets, load, seconds=seconds)
