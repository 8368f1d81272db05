"""What is searched, and strategies to search it: they propose candidates and read the ledger.

A strategy is a frozen dataclass of plain settings with a name. ``run(search)`` opens one stage or more
(:class:`onefold.search.loop.Stage`), proposes cells there until it has seen enough, and returns what the
last stage found. It never evaluates anything itself. `register_strategy` makes one known by its name,
for the parameter ``search`` of the estimators and of the command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from sklearn.utils.validation import _num_samples

from onefold.approximations import Problem, Run
from onefold.approximations.problem import NOMINAL, NOMINAL_GPU
from onefold.criteria import Scoring, Task
from onefold.heldout import Splits
from onefold.kernels import Kernel, Precomputed
from onefold.linalg import take_rows
from onefold.machine.threads import cached_property
from onefold.search.evaluation import Candidate
from onefold.search.learned_metric import measured
from onefold.search.loop import Search, SearchResult, Select
from onefold.search.repeats import RepeatedRows
from onefold.search.schedule import FINAL_FIT

Family = tuple[str, Kernel]
"""A kernel at the width 1, and how it is called in a table of results."""


@dataclass(frozen=True)
class Setup:
    """A search that is about to take place: everything it needs, decided and checked."""

    table: Any  # the rows as the user gave them
    task: Task
    scoring: Scoring  # of the criterion that decides; its splits are None where nothing is held out
    cv: Any  # as the user gave it, an iterator as a list
    groups: Any  # as the user gave them
    families: Sequence[Family]  # to choose among
    relative: bool  # whether widths are relative to the mean distance, and families named
    kernels: list[Kernel]  # of the grid: every family at every width
    params: list[dict[str, Any]]  # of each kernel, as in `cv_results_`
    alphas: Any  # the ridges of the grid, in the user's units
    run: Run
    seed: int | None  # of everything random; None leaves it to the approximation's own settings
    strategy: Strategy
    select: Select = "min"  # which cell of the table is chosen
    blend: bool = False  # whether a blend of the best of each family is wanted
    recorded: Mapping[str, Scoring] = field(default_factory=dict)  # criteria that decide nothing
    second: Splits | None = None  # by which what was chosen is also scored

    @property
    def problem(self) -> Problem:
        """What is solved."""
        return self.run.problem

    @cached_property
    def repeats(self) -> RepeatedRows | None:
        """Which rows are equal, where many are."""
        return RepeatedRows.of(self.problem)

    @property
    def rows(self) -> int:
        """How many rows the user gave; the problem may have fewer."""
        return int(_num_samples(self.table))

    @property
    def precomputed(self) -> bool:
        """Whether the rows are those of a kernel matrix."""
        return isinstance(self.kernels[0], Precomputed)

    def rows_of(self, rows: Any, centres: Any) -> Any:
        """Rows of X, and only the columns of the training rows where X is a kernel matrix."""
        part = take_rows(self.problem.X, rows)
        return take_rows(part.T, centres).T if self.precomputed else part

    def grid(self, run: Run | None = None) -> list[Candidate]:
        """One candidate per kernel and choice of the approximation, on all rows or on another run's."""
        run = self.run if run is None else run
        choices = [(choice, run.with_settings(**choice)) for choice in run.approximation.choices()]
        return [
            Candidate(chosen, kernel, params | choice)
            for kernel, params in zip(self.kernels, self.params)
            for choice, chosen in choices
        ]

    def candidate(self, family: Family, width: float | None, **settings: Any) -> Candidate:
        """A kernel at any width, on the grid or off it, and settings of the approximation."""
        widths = [] if width is None else [width]
        kernels, params = family_kernels(
            [family], widths, self.problem, self.seed or 0, relative=self.relative
        )
        return Candidate(self.run.with_settings(**settings), kernels[0], params[0] | settings)


def family_kernels(
    families: Sequence[Family], widths: Sequence[float], problem: Problem, seed: int, *, relative: bool
) -> tuple[list[Kernel], list[dict[str, Any]]]:
    """Every family at every width, where it has one, and the parameters of each."""
    kernels: list[Kernel] = []
    params: list[dict[str, Any]] = []
    for name, kernel in families:
        of_family: dict[str, Any] = {"kernel": name} if relative else {}
        if relative:
            kernel.check_features(problem.X.shape[1])
        if not kernel.has_width:
            kernels.append(kernel)
            params.append(of_family)
            continue
        of_width = measured(kernel, problem, seed).at if relative else kernel.scaled
        kernels += [of_width(width) for width in widths]
        params += [of_family | {"gamma": width} for width in widths]
    return kernels, params


def nominal_seconds(setup: Setup, rows: int, alphas: int) -> float:
    """Seconds of one kernel on some rows with so many ridges, on a nominal machine.

    Without an estimate, the number of rows.
    """
    # As on a nominal machine: journals may be read on another.
    _, d, targets = setup.problem.shape
    approximation, _ = setup.run.approximation.on_fewer_rows(rows, setup.run.shared)
    load = replace(setup.run.load, kernels=1, alphas=alphas)
    speed = NOMINAL if load.gpu is None else NOMINAL_GPU
    return approximation.duration(rows, d, targets, load, speed) or float(rows)


def costs_with_final(setup: Setup, stages: Mapping[str, float]) -> dict[str, float]:
    """The costs of a search's stages, and those of a final fit of each family that may be blended."""
    fits = len(setup.families) if setup.blend else 1
    return {**stages, FINAL_FIT: fits * nominal_seconds(setup, setup.problem.n, 1)}


class Strategy(Protocol):
    """A way to search: a frozen dataclass of plain settings.

    A strategy with a method ``costs(setup)`` says in it what each part of the whole fit costs, as a dict
    by the names of its stages in their order: the time left is then that of the whole fit.
    """

    name: ClassVar[str]

    def check(self, setup: Setup) -> None:
        """Raise if it cannot search this."""

    def run(self, search: Search) -> SearchResult:
        """Search."""


_Class = TypeVar("_Class", bound=type[Any])
STRATEGIES: dict[str, type[Any]] = {}  # the classes by name


def register_strategy(strategy: _Class) -> _Class:
    """Register a class of strategies, so that it can be used by name.

    Parameters
    ----------
    strategy : class
        A class with a `name` and the methods `check` and `run` (:doc:`/extending/strategy`).

    Returns
    -------
    class
        The same class.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from typing import ClassVar
    >>> from onefold.search import FullGrid, register_strategy
    >>> @register_strategy
    ... @dataclass(frozen=True)
    ... class Everything(FullGrid):
    ...     name: ClassVar[str] = "everything"
    >>> from onefold import LSSVRCV
    >>> model = LSSVRCV(search="everything", gammas=[1.0], alphas=[0.1])
    >>> model.fit([[0.0], [1.0]] * 5, [0, 1] * 5).search_["method"]
    'everything'
    """
    STRATEGIES[strategy.name] = strategy
    return strategy


def resolve_strategy(search: Any) -> Strategy:
    """Return the strategy for a name or an object."""
    if isinstance(search, str) and search in STRATEGIES:
        return STRATEGIES[search]()
    if type(search) in STRATEGIES.values():
        return search
    names = ", ".join(f'"{name}"' for name in STRATEGIES)
    raise ValueError(
        f"search must be one of {names}, or an object of a registered strategy; got {search!r:.60}."
    )


@register_strategy
@dataclass(frozen=True)
class FullGrid:
    """Try every kernel with every alpha.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV
    >>> from onefold.search import FullGrid
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LSSVRCV(search=FullGrid(), gammas=[0.1, 1], alphas=[0.01, 0.1]).fit(X, y)
    >>> len(model.cv_results_["params"])
    4
    """

    name: ClassVar[str] = "grid"

    def check(self, setup: Setup) -> None:
        """Do nothing: a full grid can search any setup."""

    def costs(self, setup: Setup) -> dict[str, float]:
        """The grid, and the final fit."""
        n = setup.problem.n
        grid = len(setup.grid()) * nominal_seconds(setup, n, len(setup.alphas))
        return costs_with_final(setup, {"grid": grid})

    def run(self, search: Search) -> SearchResult:
        """Search."""
        stage = search.stage("grid", search.setup.grid())
        return stage.run([stage.every_cell()]).found(search.setup.select)


def next_ridges(alphas: Any, ridge: int) -> Any:
    """Numbers of a ridge and of those next to it in size."""
    order = np.argsort(alphas, kind="stable")
    place = int(np.flatnonzero(order == ridge)[0])
    return np.sort(order[max(0, place - 1) : place + 2])
