r"""What would run, how long it would take and how much memory: before it runs.

The exact machine up to what the time budget and half of the free memory allow, a basis model beyond,
with as many landmarks as they allow. Times come from operation counts and the speed of this machine
(:mod:`onefold.machine.speed`); they are meant to be right within a factor of two or three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from onefold.approximations.base import Approximation, Model, register
from onefold.approximations.exact import Exact
from onefold.approximations.nystroem import Nystroem
from onefold.approximations.problem import Problem
from onefold.approximations.run import Machine, Run, Workload
from onefold.kernels import Kernel, Precomputed
from onefold.machine.notebook import html_table
from onefold.machine.speed import Speed, duration_words

_ALWAYS_EXACT = 2000  # rows for which nothing else is worth a thought
_SIZES = (4000, 2000, 1000, 500)
_MEMORY_SHARE = 0.5
NOMINAL = Speed(multiply_adds=4e10, exponentials=3e8)  # of a small machine
_CLEARLY = 30.0  # times faster or slower than that, no machine is expected to be
_SHORT = 1.0  # seconds: a shorter time is told without measuring the machine for half a second


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

    @property
    def _title(self) -> str:
        return f"{self.rows} rows, {self.features} features: {self.approximation}"

    def __str__(self) -> str:
        return "\n".join([self._title, *(f"{name:<8}{words}" for name, words in self._facts())])

    def _repr_html_(self) -> str:
        """The same as a small table, for notebooks."""
        return html_table(self._facts(), self._title)

    def _facts(self) -> list[tuple[str, str]]:
        time = "unknown" if self.seconds is None else f"about {duration_words(self.seconds)}"
        memory = "unknown" if self.bytes is None else f"{self.bytes / 2**30:.2f} GiB"
        if self.free_bytes is not None:
            memory += f" ({self.free_bytes / 2**30:.1f} GiB free)"
        return [
            ("why", self.reason),
            ("time", time),
            ("memory", f"{memory}{'' if self.fits else ', not enough'}"),
        ]


def make_plan(
    approximation: Approximation,
    n: int,
    d: int,
    targets: int,
    load: Workload,
    *,
    asked: bool,
) -> Plan:
    """The price of an approximation; for `Auto`, the choice first.

    Where nobody `asked` for the time, the machine is measured only if the choice depends on it.
    """
    machine = Machine.host()
    seconds = approximation.seconds if isinstance(approximation, Auto) else Auto.seconds

    def price(what: Approximation, reason: str, timed: bool) -> Plan:
        time = _duration(what, n, d, targets, load, machine.speed if timed else NOMINAL)
        return Plan(
            what, n, d, time, what.memory(n, d, targets, load, machine.free), machine.free, reason
        )

    def worth_timing(what: Approximation) -> bool:
        rough = _duration(what, n, d, targets, load, NOMINAL) or 0.0
        return (asked and rough > _SHORT) or seconds / _CLEARLY < rough < _CLEARLY * seconds

    if not isinstance(approximation, Auto):
        return price(approximation, "as asked for", asked and worth_timing(approximation))
    exact = Exact()
    if n <= _ALWAYS_EXACT:
        reason = f"at most {_ALWAYS_EXACT} rows: exact"
        found = price(exact, reason, asked and worth_timing(exact))
        if found.fits:
            return found
    found = price(exact, f"exact within {duration_words(seconds)} and memory", worth_timing(exact))
    why_not = _objection(found, seconds)
    if why_not is None:
        return found
    sizes = [m for m in _SIZES if 4 * m <= n] or [max(1, n // 4)]
    for m in sizes:
        basis = Nystroem(m, random_state=approximation.random_state)
        found = price(basis, "", worth_timing(basis))
        short = _objection(found, seconds)
        if short is None or m == sizes[-1]:
            break
    reason = f"the exact machine {why_not}; {m} landmarks"
    reason += " fit the budget" if short is None else f" still {short}"
    return replace(found, reason=reason)


def _duration(
    what: Approximation, n: int, d: int, targets: int, load: Workload, speed: Speed
) -> float | None:
    """Of what comes before and of the fit itself; None where the approximation has no estimate."""
    time = what.duration(n, d, targets, load, speed)
    return None if time is None else time + load.before / speed.multiply_adds


def _objection(found: Plan, seconds: float) -> str | None:
    if found.bytes is not None and found.free_bytes is not None:
        needed, free = found.bytes / 2**30, found.free_bytes / 2**30
        if needed > _MEMORY_SHARE * free:
            return f"would need {needed:.1f} GiB of {free:.1f} GiB free"
    if found.seconds is not None and found.seconds > seconds:
        return f"would take about {duration_words(found.seconds)}"
    return None


@register
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

    def __post_init__(self) -> None:
        if not isinstance(self.seconds, Real) or not self.seconds > 0:
            raise ValueError(f"seconds must be a number greater than 0; got {self.seconds!r}.")

    @property
    def streams(self) -> bool:
        """It chooses what does, where rows are to be read by blocks."""
        return True

    def start(
        self,
        problem: Problem,
        kernels: Sequence[Kernel],
        load: Workload,
        machine: Machine | None = None,
    ) -> Run:
        """The run of what is chosen; the reports of its models say why."""
        chosen, reason = self._choice(problem, kernels, load)
        return chosen.start(problem, kernels, load, machine).because(reason)

    def _choice(
        self, problem: Problem, kernels: Sequence[Kernel], load: Workload
    ) -> tuple[Approximation, str]:
        if any(isinstance(kernel, Precomputed) for kernel in kernels):
            return Exact(), "a kernel matrix is given: exact"
        if problem.remote:
            return Nystroem(random_state=self.random_state), "rows stay on Dask's workers: landmarks"
        if problem.streamed:
            return Nystroem(random_state=self.random_state), "rows are streamed to the device: landmarks"
        found = make_plan(self, *problem.shape, load, asked=False)
        return found.approximation, found.reason

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> Model:
        """The model of what is chosen for this kernel alone."""
        return self.start(problem, [kernel], load).model(kernel)
