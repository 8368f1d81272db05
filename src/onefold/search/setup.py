"""A search that is about to take place: everything it needs, decided and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import _num_samples

from onefold.approximations import Problem, Run
from onefold.criteria import Scoring, Task
from onefold.kernels import Kernel, Precomputed
from onefold.learned_metrics import Track
from onefold.linalg import take_rows

if TYPE_CHECKING:
    from onefold.search.methods import Method
    from onefold.search.run import Select


@dataclass(frozen=True)
class Learning:
    """How a metric is learned.

    Attributes
    ----------
    tracks : list of Track
        Families with the kind of metric each gets.
    widths : list of float
        Of round 0, relative to the mean distance.
    max_rounds : int
    rows : int
        From how many rows: all of them, each fold with a metric of its own, or fewer.
    blend : bool
        Whether several tracks may be wanted in the end.
    """

    tracks: list[Track]
    widths: list[float]
    max_rounds: int
    rows: int
    blend: bool


@dataclass(frozen=True)
class Setup:
    """A search that is about to take place.

    Attributes
    ----------
    table : as the user gave it
        The rows.
    task : Task
    scoring : Scoring
        The criterion at work; its splits are None where nothing is held out.
    cv
        As the user gave it, an iterator as a list.
    groups
        As the user gave them.
    kernels, names, alphas
        The grid: kernels with what names each, and ridges.
    run : Run
    seed : int or None
        Of everything random; None leaves it to the approximation's own settings.
    learning : Learning or None
        How a metric is learned; None where none is.
    method : Method
        How the grid is gone through.
    select : {"min", "1se"}
        Which cell of the table is chosen.
    blend : bool
        Whether a blend of the best of each family is wanted.
    """

    table: Any
    task: Task
    scoring: Scoring
    cv: Any
    groups: Any
    kernels: list[Kernel]
    names: list[dict[str, Any]]
    alphas: Any
    run: Run
    seed: int | None
    method: Method
    learning: Learning | None = None
    select: Select = "min"
    blend: bool = False

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
