"""A search that is about to take place: everything it needs, decided and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.utils.validation import _num_samples

from onefold.approximations import Problem, Run
from onefold.criteria import Scoring, Task
from onefold.kernels import Kernel, Precomputed
from onefold.linalg import take_rows
from onefold.search.evaluation import Candidate
from onefold.search.metrics import Track, first_round

if TYPE_CHECKING:
    from onefold.search.strategies import Strategy

Select = Literal["min", "1se"]
Family = tuple[str, Kernel]
"""A kernel at the width 1, and how it is called in a table of results."""


@dataclass(frozen=True)
class Setup:
    """A search that is about to take place."""

    table: Any  # the rows as the user gave them
    task: Task
    scoring: Scoring  # the criterion at work; its splits are None where nothing is held out
    cv: Any  # as the user gave it, an iterator as a list
    groups: Any  # as the user gave them
    families: Sequence[Family]  # what is chosen among
    relative: bool  # whether widths are relative to the mean distance, and families named
    kernels: list[Kernel]  # the grid: every family at every width,
    names: list[dict[str, Any]]  # what names each,
    alphas: Any  # and ridges
    run: Run
    seed: int | None  # of everything random; None leaves it to the approximation's own settings
    strategy: Strategy
    select: Select = "min"  # which cell of the table is chosen
    blend: bool = False  # whether a blend of the best of each family is wanted

    @property
    def problem(self) -> Problem:
        """What is solved."""
        return self.run.problem

    @property
    def rows(self) -> int:
        """How many rows the user gave; the problem may have fewer."""
        return int(_num_samples(self.table))

    def of_all_rows(self, values: Any) -> Any:
        """Values (rows, columns) of the problem's rows for all of the user's; NaN for weight 0."""
        if self.problem.kept is None:
            return values
        found = np.full((self.rows, values.shape[1]), np.nan)
        found[self.problem.kept] = values
        return found

    @property
    def precomputed(self) -> bool:
        """Whether the rows are those of a kernel matrix."""
        return isinstance(self.kernels[0], Precomputed)

    def rows_of(self, rows: Any, centres: Any) -> Any:
        """Rows of X, and only the columns of the training rows where X is a kernel matrix."""
        part = take_rows(self.problem.X, rows)
        return take_rows(part.T, centres).T if self.precomputed else part

    def grid(self, run: Run | None = None) -> list[Candidate]:
        """One candidate per kernel, on all rows or on those of another run."""
        run = self.run if run is None else run
        return [Candidate(run, kernel, dict(name)) for kernel, name in zip(self.kernels, self.names)]

    def candidate(self, family: Family, width: float | None) -> Candidate:
        """A kernel at any width, on the grid or off it."""
        widths = [] if width is None else [width]
        args = [family], widths, self.problem, self.seed or 0
        (kernel,), (name,) = family_kernels(*args, relative=self.relative)
        return Candidate(self.run, kernel, name)


def family_kernels(
    families: Sequence[Family], widths: Sequence[float], problem: Problem, seed: int, *, relative: bool
) -> tuple[list[Kernel], list[dict[str, Any]]]:
    """Every family at every width, and what names each.

    A kernel without a width comes as it is. Relative widths are such that 1 makes the mean exponent of
    the kernel over the rows 1.
    """
    kernels: list[Kernel] = []
    names: list[dict[str, Any]] = []
    for name, kernel in families:
        called: dict[str, Any] = {"kernel": name} if relative else {}
        if relative:
            kernel.check_features(problem.X.shape[1])
        if not kernel.has_width:
            kernels.append(kernel)
            names.append(called)
            continue
        at = (
            first_round(Track(name, kernel, "none"), problem, seed).whole.at
            if relative
            else kernel.scaled
        )
        kernels += [at(width) for width in widths]
        names += [called | {"gamma": width} for width in widths]
    return kernels, names
