r"""What would run, how long it would take and how much memory: before it runs.

Three functions decide, each by the table in its docstring:

    `choose`             the approximation of a search, where "auto" was asked for
    `with_true_kernel`   what makes a final fit with the true kernel
    `choose_for_members` what fits the members of a blend, and how many rows, after a search with metrics

`rows_within` says how many rows the exact method can take in some time; the numbers of rows that a
metric is learned from follow from it. Times come from operation counts and the speed of the
machine where the rows are (:mod:`onefold.machine.speed`, :mod:`onefold.linalg.speed`); they are meant to
be right within a factor of two or three, and ``benchmarks/announced.py`` compares them with what
searches take. Peaks of memory come from :mod:`onefold.approximations.footprint`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, Literal, NamedTuple, NoReturn

from onefold.approximations.base import Approximation, Run, register
from onefold.approximations.cg import ConjugateGradients
from onefold.approximations.exact import Exact
from onefold.approximations.model import Model
from onefold.approximations.nystroem import Nystroem
from onefold.approximations.problem import NOMINAL as NOMINAL
from onefold.approximations.problem import Machine, Problem, Workload
from onefold.approximations.state_space import StateSpace
from onefold.kernels import Kernel, Precomputed
from onefold.linalg import is_sparse
from onefold.machine.speed import Speed, duration_words
from onefold.smoothers.state_space import missing_numba

# Rows up to which the exact method is always quick; chosen, not measured.
_ALWAYS_EXACT = 2000
# Numbers of landmarks that "auto" considers; chosen, not measured.
_SIZES = (4000, 2000, 1000, 500)
# Share of the seconds of "auto" that a final fit with the true kernel may take; chosen, not measured.
_REFIT_SHARE = 0.2
# Seconds of the dense method below which no iteration is worth the while; chosen, not measured.
_DIRECT_SECONDS = 10.0
# How many times as long as conjugate gradients a dense fit may take, as it has a closed form for folds;
# chosen, not measured.
_DENSE_RATIO = 2.0

# Rows that rounds of metrics are first tried on, on a host; chosen, not measured.
FIRST_ROWS = 1000
# How many times as many on a GPU, which takes hardly longer for them; chosen, not measured.
_GPU_ROWS_RATIO = 4
# Rows that a metric of many rows is learned from at least: errors were 8 % lower than with 2400
# (docs/studies/metric.md).
METRIC_ROWS = 4000
# Seconds for learning metrics a second time, from more rows; chosen, not measured.
_LEARNING_SECONDS = 10.0
# How many times as long as a fit of all rows with the true kernel that may take on a host, and the most,
# by estimates that are some four times too long. covtype of 50,000 rows had 9.0 % with a choice from
# 4,000 rows and 6.7 % with one from 8,000.
_LEARNING_RATIO = 8.0
_LONGEST_LEARNING_SECONDS = 1200.0
# Fits in these seconds: three paths, some five rounds each, six cells a round.
_LEARNING_FITS = 100
# Seconds that dense fits of all members may take before conjugate gradients are considered; chosen, not
# measured.
_DENSE_MEMBERS_SECONDS = 20.0
# Seconds that fits of all members with the true kernel may take, on a host and on a GPU, and of one if
# there is no time for more; chosen, not measured.
_MEMBERS_SECONDS = 60.0
_GPU_MEMBERS_SECONDS = 20.0
_LONGEST_MEMBER_SECONDS = 900.0
# From one number of rows to the next that `rows_within` considers.
_ROWS_STEP = 1.2


@dataclass(frozen=True)
class Plan:
    """What a fit would run, and what it would cost.

    Attributes
    ----------
    approximation : Approximation
        The approximation that would run.
    rows, features : int
        The size of the data.
    seconds : float or None
        Estimated time; None if the approximation has no estimate.
    bytes : int or None
        Estimated peak memory, without the data.
    free_bytes : int or None
        Memory that is free now.
    reason : str
        Why this approximation would run.
    members : Plan or None
        What would score and fit the members of a search with metrics on all rows, and what that alone
        would cost; None where that is no other method. `seconds` and `bytes` then include it.

    Examples
    --------
    :func:`onefold.plan` makes it.

    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV, plan
    >>> X, y = load_diabetes(return_X_y=True)
    >>> found = plan(LSSVRCV(), X)
    >>> found.rows, found.features, found.approximation
    (442, 10, Exact())
    """

    approximation: Approximation
    rows: int
    features: int
    seconds: float | None
    bytes: int | None
    free_bytes: int | None
    reason: str
    members: Plan | None = None

    @property
    def fits(self) -> bool:
        """Whether the free memory is enough."""
        return self.bytes is None or self.free_bytes is None or self.bytes <= self.free_bytes

    def __str__(self) -> str:
        memory = self._memory_words
        if self.free_bytes is not None:
            memory += f" ({self.free_bytes / 2**30:.1f} GiB free)"
        final = ""
        if self.members is not None:
            final = f"final   {self.members.method_words} of all rows, {self.members._time_words}, "
            final += f"{self.members._memory_words}\n"
        return (
            f"{self.rows} rows, {self.features} features\n"
            f"method  {self.method_words}\n{final}"
            f"why     {self.reason}\ntime    {self._time_words}\n"
            f"memory  {memory}{'' if self.fits else ', not enough'}"
        )

    @property
    def _time_words(self) -> str:
        return "unknown" if self.seconds is None else f"about {duration_words(self.seconds)}"

    @property
    def _memory_words(self) -> str:
        return "unknown" if self.bytes is None else f"{self.bytes / 2**30:.2f} GiB"

    @property
    def method_words(self) -> str:
        """The approximation by its name, with the settings that are not the default ones."""
        setting_fields: Sequence[Field[Any]] = ()
        if is_dataclass(self.approximation):  # one from outside need not be
            setting_fields = fields(self.approximation)
        settings = [
            f", {setting.name}={value!r:.60}"
            for setting in setting_fields
            if repr(value := getattr(self.approximation, setting.name)) != repr(setting.default)
        ]
        return f"{self.approximation.name}{''.join(settings)}"


Place = Literal["memory", "dask", "streamed"]


def choose(
    requested: Approximation,
    shape: tuple[int, int, int],
    load: Workload,
    machine: Machine,
    *,
    place: Place = "memory",
    precomputed: bool = False,
    series: bool = False,
    timed: bool = False,
) -> Plan:
    """What runs, why, and what it costs for these rows, features and targets; "auto" chooses:

    ===================================================  ===============================================
    the first that holds                                 what runs
    ===================================================  ===============================================
    the kernel matrix is given                           exact
    rows stay on Dask's workers                          landmarks, as many as `Nystroem` has by default
    rows are streamed to a device                        landmarks, as many as `Nystroem` has by default
    at most 2000 rows, and memory holds their matrix     exact
    a series on a host: one dense feature, kernels of    the state space: exact as well, O(n)
    Matérn and Laplace alone, and Numba (`is_series`)
    exact within the seconds, and the machine's memory:  exact
    half of what is free on a host, 9/10 on a GPU
    otherwise                                            the most of 4000, 2000, 1000, 500 landmarks
                                                         within both, up to a quarter of the rows;
                                                         the fewest of them where none is
    ===================================================  ===============================================

    The machine is the GPU where rows lie on one, and the host otherwise, also for tensors in its memory.
    It is measured only where the choice depends on its speed, or where the time is wanted and worth it
    (`timed`).
    """
    n, d, _ = shape
    load = machine.load(load)
    on_gpu = " on the GPU" if machine.gpu else ""

    def priced(approximation: Approximation, reason: str, seconds: float | None = None) -> Plan:
        def duration(speed: Speed) -> float | None:
            time = approximation.duration(*shape, load, speed)
            return None if time is None else time + load.preliminary_operations / speed.multiply_adds

        time = machine.seconds(duration, seconds, timed=timed)
        memory = approximation.memory(*shape, load, machine.free)
        return Plan(approximation, n, d, time, memory, machine.free, reason)

    def objection(plan: Plan, seconds: float) -> str | None:
        """Why it cannot run; None if it can."""
        if plan.bytes is not None and machine.usable is not None and plan.bytes > machine.usable:
            needed = plan.bytes / 2**30
            free = (plan.free_bytes or 0) / 2**30
            share = "9/10" if machine.gpu else "half"
            return f"would need {needed:.1f} GiB, more than {share} of the {free:.1f} GiB free{on_gpu}"
        if plan.seconds is not None and plan.seconds > seconds:
            return f"would take about {duration_words(plan.seconds)}{on_gpu}"
        return None

    if not isinstance(requested, Auto):
        return priced(requested, "as requested")
    if precomputed:
        return priced(Exact(), "the kernel matrix is given")
    if place != "memory":
        landmarks = Nystroem(random_state=requested.random_state)
        where = "stay on Dask workers" if place == "dask" else "are streamed to the device"
        return priced(landmarks, f"the rows {where}")
    if n <= _ALWAYS_EXACT:
        plan = priced(Exact(), f"there are at most {_ALWAYS_EXACT} rows")
        if plan.fits:
            return plan
    if series and not machine.gpu and not load.matrix:
        return priced(StateSpace(), "these kernels of one feature have a state space: exact in O(n)")
    reason = (
        f"the exact method takes at most {duration_words(requested.seconds)} and fits in memory{on_gpu}"
    )
    plan = priced(Exact(), reason, requested.seconds)
    why_not_exact = objection(plan, requested.seconds)
    if why_not_exact is None:
        return plan
    sizes = [m for m in _SIZES if 4 * m <= n] or [max(1, n // 4)]
    for m in sizes:
        plan = priced(Nystroem(m, random_state=requested.random_state), "", requested.seconds)
        why_not = objection(plan, requested.seconds)
        if why_not is None or m == sizes[-1]:
            break
    words = f"{m} landmarks fit in time and memory"
    if why_not is not None:
        words = f"even {m} landmarks {why_not}"
    return replace(plan, reason=f"the exact method {why_not_exact}; {words}")


def is_series(kernels: Sequence[Kernel], features: int, *, sparse: bool) -> bool:
    """Whether the state space serves all kernels for rows of so many features."""
    if features > StateSpace.max_features or sparse:
        return False
    method = StateSpace()
    return all(map(method.takes_kernel, kernels)) and missing_numba() is None


def make_plan(
    approximation: Approximation,
    n: int,
    d: int,
    targets: int,
    load: Workload,
    device: Any = None,
    *,
    series: bool = False,
) -> Plan:
    """The price of an approximation on this host, or on a torch device; for `Auto`, the choice first."""
    machine = Machine.of(device)
    return choose(approximation, (n, d, targets), load, machine, series=series, timed=True)


def with_true_kernel(
    problem: Problem, kernel: Kernel, seconds: float | None = None, load: Workload | None = None
) -> Approximation | None:
    """What makes fits with the true kernel; None where they may take more than `seconds`.

    ===================================================  ===============================================
    sparse rows, or a given kernel matrix                the dense matrix
    memory holds the dense matrix, whose fits take ten   the dense matrix
    seconds, or twice as long as conjugate gradients,
    at most
    otherwise                                            conjugate gradients
    ===================================================  ===============================================

    Without `seconds` that is the answer. With them it is None for rows that are streamed or on Dask, for
    a matrix or preconditioners that memory does not hold, and for what takes longer. The `load` is one
    fit by default.
    """
    machine = problem.machine
    load = machine.load(load)
    dense = Exact()
    iterative = ConjugateGradients()
    if seconds is not None and (problem.remote or problem.streamed):
        return None
    time: dict[Approximation, float] = {}
    for method in (dense, iterative):
        duration = partial(method.duration, *problem.shape, load)
        time[method] = machine.seconds(duration, seconds or _DIRECT_SECONDS) or 0.0
    needed = dense.memory(*problem.shape, load, machine.free)
    fits = needed is None or machine.usable is None or needed <= machine.usable
    dense_only = isinstance(kernel, Precomputed) or is_sparse(problem.X)
    dense_is_quick = fits and time[dense] <= max(_DENSE_RATIO * time[iterative], _DIRECT_SECONDS)
    method = dense if dense_only or dense_is_quick else iterative
    if seconds is None:
        return method
    if method is iterative:
        fits = _lacking_memory(iterative, problem, load) is None
    return method if fits and time[method] <= seconds else None


def _lacking_memory(method: Approximation, problem: Problem, load: Workload) -> str | None:
    """That a method needs more memory than is free, which its start would raise; None if it does not."""
    free = problem.machine.free
    needed = method.memory(*problem.shape, load, free)
    if needed is None or free is None or needed <= free:
        return None
    return f"would need {needed / 2**30:.1f} GiB, more than the {free / 2**30:.1f} GiB free"


def rows_within(seconds: float, problem: Problem, load: Workload) -> int:
    """How many rows the exact method can take in some seconds, where they are; METRIC_ROWS at least."""
    machine = problem.machine
    n, d, targets = problem.shape
    load = machine.load(load)
    exact = Exact()
    possible_rows = METRIC_ROWS
    while possible_rows < n:
        rows = min(n, int(_ROWS_STEP * possible_rows))
        time = machine.seconds(partial(exact.duration, rows, d, targets, load), seconds)
        needed = exact.peak_bytes(rows, d, targets, replace(load, folds=5), 1)  # a fifth held out
        if (time or 0.0) > seconds or (machine.usable is not None and needed > machine.usable):
            break
        possible_rows = rows
    return min(possible_rows, n)


def first_rows(problem: Problem) -> int:
    """Rows that rounds of metrics are first tried on, where they are."""
    return FIRST_ROWS * (_GPU_ROWS_RATIO if problem.machine.gpu else 1)


def learning_rows(problem: Problem) -> int:
    """Rows that a metric of many rows is learned from by default: where the final fit of all rows takes
    long on a host, so may the choice of what is fitted.
    """
    machine = problem.machine
    seconds = _LEARNING_SECONDS
    if not machine.gpu and not problem.remote and not is_sparse(problem.X):
        duration = partial(ConjugateGradients().duration, *problem.shape, Workload(folds=1))
        final = machine.seconds(duration, _LEARNING_SECONDS) or 0.0
        seconds = max(seconds, min(_LEARNING_RATIO * final, _LONGEST_LEARNING_SECONDS))
    return rows_within(seconds, problem, Workload(_LEARNING_FITS, 1))


class MembersRun(NamedTuple):
    """What scores and fits the members of a blend, and how many of them, the best first."""

    run: Run
    members: int


def choose_for_members(
    run: Run, kernel: Kernel, members: int, folds: int, seconds: float = math.inf
) -> MembersRun:
    """What scores and fits the members of a blend after a search with metrics, on all rows.

    ===================================================  ===============================================
    asked for by the user; Dask or streamed rows         the run of the search
    memory does not hold what the true kernel needs      the run of the search, whose reason says so
    the run is exact: dense fits take 20 seconds at      the run of the search
    most
    the run has landmarks, and the true kernel takes     the run of the search, whose reason says so
    longer than the `seconds` that are left
    the true kernel takes 15 minutes at most for one     the true kernel, dense or by conjugate
    member                                               gradients; as many members as one minute has
                                                         time for (a GPU: 20 seconds), at least one
    otherwise                                            the run of the search
    ===================================================  ===============================================

    `kernel` is that of one of the `members`, `folds` the number of parts that are held out. `seconds`
    are what a time budget leaves, 0 after an interruption.
    """
    problem = run.problem
    if not run.reason:
        return MembersRun(run, members)
    choice = _method_for_members(run.approximation, problem, kernel, members, folds)
    if choice is not None and not run.approximation.exact and choice.seconds > seconds:
        words = f"; the true kernel of all rows would take about {duration_words(choice.seconds)}, "
        words += f"and {duration_words(seconds) if seconds else 'no time'} is left"
        return MembersRun(replace(run, reason=run.reason + words), members)
    if choice is None:
        if run.approximation.exact or problem.remote or problem.streamed or is_sparse(problem.X):
            return MembersRun(run, members)
        load = problem.machine.load(Workload(1, 1, folds=folds))
        lacking = _lacking_memory(ConjugateGradients(), problem, load)
        words = "" if lacking is None else f"; the true kernel of all rows {lacking}"
        return MembersRun(replace(run, reason=run.reason + words), members)
    count = int(max(1, min(choice.members, seconds // max(choice.seconds, 1e-9))))
    of_members = Workload(count, 1, folds=folds)
    started = choice.method.start(problem, [kernel], of_members)
    replaced = choice.method.name != run.approximation.name
    words = "; the finalists are fitted to all rows with the true kernel" if replaced else ""
    return MembersRun(replace(started, reason=run.reason + words), count)


class _MembersMethod(NamedTuple):
    """What fits members with the true kernel, how many, and how long each takes."""

    method: Approximation
    members: int
    seconds: float


def _method_for_members(
    approximation: Approximation, problem: Any, kernel: Kernel, members: int, folds: int
) -> _MembersMethod | None:
    """As in `choose_for_members`; None stands for the run of the search."""
    if problem.remote or problem.streamed:
        return None
    fits = Workload(members, 1)
    if approximation.exact and rows_within(_DENSE_MEMBERS_SECONDS, problem, fits) >= problem.n:
        return None
    machine = problem.machine
    of_member = Workload(1, 1, folds=folds)
    method = with_true_kernel(problem, kernel, _LONGEST_MEMBER_SECONDS, of_member)
    if method is None:
        return None
    n, d, targets = problem.shape
    duration = partial(method.duration, n, d, targets, machine.load(of_member))
    budget = _GPU_MEMBERS_SECONDS if machine.gpu else _MEMBERS_SECONDS
    time = machine.seconds(duration, budget) or 0.0
    return _MembersMethod(method, max(1, int(min(budget / max(time, 1e-9), members))), time)


def with_members(plan: Plan, problem: Any, kernel: Kernel, members: int, load: Workload) -> Plan:
    """The plan of a search with metrics of some rows, and what scores and fits its members on all rows.

    Of the `problem` only its size and its place are looked at; one fold is reserved for the scores.
    """
    choice = _method_for_members(plan.approximation, problem, kernel, members, folds=1)
    if choice is None:
        return plan
    machine = problem.machine
    of_members = machine.load(Workload(choice.members, 1, folds=1))
    n, d, targets = problem.shape
    seconds = choice.members * choice.seconds
    memory = choice.method.memory(n, d, targets, of_members, machine.free)
    fits = Plan(choice.method, n, d, seconds, memory, machine.free, plan.reason)
    search = machine.seconds(lambda speed: load.preliminary_operations / speed.multiply_adds, timed=True)
    peak = max((peak for peak in (plan.bytes, memory) if peak is not None), default=None)
    return replace(plan, seconds=seconds + (search or 0.0), bytes=peak, members=fits)


class _Undecided:
    """A flag that is undefined until an approximation has been chosen."""

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError('this is unknown until "auto" has chosen an approximation; ask its run.')


@register
@dataclass(frozen=True)
class Auto(Approximation):
    """Exact where time and memory allow, the state space for long series, landmarks otherwise.

    Parameters
    ----------
    seconds : float, default=300
        Estimated time that the whole search may take. After a search with landmarks, the final model is
        fitted with the true kernel if that takes less than a fifth of it.
    random_state : int, default=0
        Seed of the landmarks.

    Notes
    -----
    All choices make held-out predictions and support weights and learned metrics; for rows that are read
    block by block it takes landmarks. Other capabilities are known only once it has chosen.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV
    >>> from onefold.approximations import Auto
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LSSVRCV(approximation=Auto(seconds=60), gammas=[0.1, 1], alphas=[0.01, 0.1]).fit(X, y)
    >>> model.approximation_["selected_with"]["name"]
    'exact'
    """

    seconds: float = 300.0
    random_state: int = 0

    name = "auto"
    streams = True  # it chooses what does, where rows are to be read by blocks
    smooths = True
    max_rows_for_matrix = math.inf
    fold_models = "closed"
    exact = remedy = _Undecided()

    def __post_init__(self) -> None:
        if not isinstance(self.seconds, Real) or not self.seconds > 0:
            raise ValueError(f"seconds must be a number greater than 0; got {self.seconds!r}.")

    def start(self, problem: Problem, kernels: Sequence[Kernel], load: Workload) -> Run:
        """The run of what is chosen; the reports of its models say why."""
        precomputed = any(isinstance(kernel, Precomputed) for kernel in kernels)
        place: Place = "dask" if problem.remote else "streamed" if problem.streamed else "memory"
        sparse = is_sparse(problem.X)
        series = place == "memory" and is_series(kernels, problem.shape[1], sparse=sparse)
        machine = problem.machine
        plan = choose(
            self, problem.shape, load, machine, place=place, precomputed=precomputed, series=series
        )
        if load.refit == "auto" and not plan.approximation.exact:
            final = with_true_kernel(problem, kernels[0], _REFIT_SHARE * self.seconds)
            load = replace(load, refit="same" if final is None else "exact")
        return replace(plan.approximation.start(problem, kernels, load), reason=plan.reason)

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> Model:
        """The model of what is chosen for this kernel alone."""
        return self.start(problem, [kernel], load).model(kernel)
