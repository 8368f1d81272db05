r"""What an approximation is, and what every fitted model can be asked.

An approximation turns a kernel and a problem into a *model*: one kernel, every ridge value. A model
answers two questions, whatever is inside: the predictions of rows held out of training, and the
expansion to predict with. Search and estimators know nothing more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from onefold.expansions import Expansion
from onefold.kernels import Kernel
from onefold.linalg import Array, is_foreign, like, take_rows, to_numpy
from onefold.machine.memory import require_memory
from onefold.machine.speed import Speed
from onefold.rows import Rows, rows_of
from onefold.smoothers import Smoother
from onefold.smoothers.route import Need


@dataclass(frozen=True)
class Problem:
    r"""min ½‖w‖² + (1/2μ) Σ v_i ‖y_i − f(x_i)‖², with or without an intercept.

    The problem is stated in units of its own, in which nothing depends on the scale of the weights or
    on where the targets lie; `ridge` and `restore` lead from the user's units and back.

    Attributes
    ----------
    X : array or CSR matrix (n, d)
        Rows, or the kernel matrix where the kernel is precomputed.
    Y : array (n, targets)
        float64, in X's library; about `offset`.
    root_weight : array (n,) or None
        √v_i, all positive; None for equal weights.
    fit_intercept : bool
    offset : NumPy array (targets,) or None
        What was subtracted from the user's targets.
    alpha_unit : float
        What the user's weights, and with them the ridge, were divided by.
    kept : NumPy array (n,) or None
        Numbers of the rows among the user's, where some had weight 0 and left the problem.
    device : optional
        Where rows in host memory, too many for it, are streamed to.
    """

    X: Any
    Y: Any
    root_weight: Any
    fit_intercept: bool
    offset: Any = None
    alpha_unit: float = 1.0
    kept: Any = None
    device: Any = None

    @cached_property
    def source(self) -> Rows:
        """The rows as a source of blocks, shared by all models of the problem."""
        return rows_of(self.X, self.Y, self.root_weight, self.device)

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.Y.shape[0])

    def rows(self, rows: Any, *, precomputed: bool = False) -> Problem:
        """The problem of some of the rows; `precomputed` tells that X is the kernel matrix."""
        root = None if self.root_weight is None else take_rows(self.root_weight, rows)
        kept = np.asarray(rows) if self.kept is None else self.kept[rows]
        X = take_rows(self.X, rows)
        if precomputed:
            X = take_rows(X.T, rows).T
        return replace(self, X=X, Y=take_rows(self.Y, rows), root_weight=root, kept=kept)

    def about_its_mean(self) -> Problem:
        """The same problem with targets about their weighted mean, where the intercept allows it."""
        if not self.fit_intercept:
            return self
        Y = to_numpy(self.Y)
        weight = np.ones(self.n) if self.root_weight is None else to_numpy(self.root_weight) ** 2
        mean = (weight / weight.sum()) @ Y
        mean = np.where(np.all(Y[:1] == Y, axis=0), Y[0], mean)  # of equal numbers: exactly
        offset = mean if self.offset is None else self.offset + mean
        return replace(self, Y=self.Y - like(mean, self.Y)[None, :], offset=offset)

    def ridge(self, alpha: Any) -> Any:
        """The problem's μ behind the user's alpha."""
        with np.errstate(over="ignore", under="ignore"):
            mu = np.asarray(alpha, dtype=np.float64) / self.alpha_unit
        if not np.all(np.isfinite(mu) & (mu > 0)):
            raise ValueError(
                f"alpha over the mean weight, {self.alpha_unit:.3g}, leaves the range of float64; "
                "multiply all weights by a constant."
            )
        return mu

    def restore(self, expansion: Expansion) -> Expansion:
        """The expansion of this problem as one of the user's targets."""
        if self.offset is None:
            return expansion
        intercept = expansion.intercept + like(self.offset, expansion.intercept)
        return replace(expansion, intercept=intercept)

    def scaled_targets(self) -> Array:
        """S Y: the targets of the equivalent problem with equal weights."""
        return self.Y if self.root_weight is None else self.root_weight[:, None] * self.Y

    def unscale(self, predictions: Array, rows: Any | None = None) -> Array:
        """Predictions (μ, rows, targets) of the equivalent problem, back in the targets' units."""
        if self.root_weight is None:
            return predictions
        root = self.root_weight if rows is None else take_rows(self.root_weight, rows)
        return predictions / root[None, :, None]


@dataclass(frozen=True)
class Workload:
    """How much a fit asks of an approximation.

    Attributes
    ----------
    kernels, alphas : int
        Kernels, and ridges for each.
    folds : int
        0 for none, 1 for leave-one-out.
    predictions : bool
        Whether the held-out predictions of every ridge are looked at, or squared errors suffice.
    """

    kernels: int = 1
    alphas: int = 1
    folds: int = 0
    predictions: bool = True


class Model(ABC):
    """A problem solved with one kernel, for every μ asked of it."""

    report: dict[str, Any]
    """What ran and why; becomes ``approximation_``."""
    keep: ClassVar[bool] = False
    """Small enough for a search to hold on to the best one, which then serves the final fit."""

    def usable(self, parts: Sequence[Any] | None, alphas: Any) -> Any:
        """Whether each μ can be solved with for these held-out parts; None where there are none."""
        return np.ones(len(alphas), dtype=bool)

    @abstractmethod
    def leave_one_out(self, alphas: Any) -> Array:
        """Each row predicted from all others: (μ, n, targets)."""

    @abstractmethod
    def heldout(self, parts: Sequence[Any], alphas: Any) -> list[Array]:
        """Each set of rows J predicted by the model trained on all other rows: (μ, |J|, targets)."""

    def heldout_blocks(self, parts: Sequence[Any], alphas: Any) -> Iterator[tuple[int, Any, Array]]:
        """The same in blocks, always in the same order: (number of J, positions in J, values).

        Positions are a slice or whole numbers, values (μ, positions, targets). Whoever can predict a
        block without holding all others does so.
        """
        for number, values in enumerate(self.heldout(parts, alphas)):
            yield number, slice(None), values

    def heldout_squared_error(
        self, left_out: Sequence[Any], tests: Sequence[Any], alphas: Any
    ) -> Any | None:
        """Weighted mean squared held-out error (μ, splits), where it is known without predictions."""
        return None

    @abstractmethod
    def expansion(self, alpha: Any) -> Expansion:
        """The model at one μ, or at one μ per target."""


class SmoothingModel(Model):
    """A model with a handle on R(μ): the criteria of the whole smoother are open to it."""

    smoother: Smoother
    problem: Problem


class Approximation(ABC):
    """How the kernel matrix is represented. Subclasses are frozen dataclasses of plain settings."""

    name: ClassVar[str]
    refit: ClassVar[Literal["exact", "same"]]
    """Whether the final model is best trained exactly, or with the approximation itself."""

    supports_weights: ClassVar[bool] = True
    remedy: ClassVar[str] = "use fewer rows, or a machine with more memory"
    """What helps where memory is short."""

    def settle(self, problem: Problem) -> Approximation:
        """What would run on this problem; differs from itself where the choice is left open."""
        return self

    def prepare(self, kernel: Kernel, problem: Problem, load: Workload) -> Approximation:
        """The approximation with the work done that every kernel shares; called once per fit.

        `kernel` is the first of those to come. Raises if the fit would not find the memory.
        """
        self.require_memory(problem, load)
        return self

    def duration(self, n: int, d: int, targets: int, load: Workload, speed: Speed) -> float | None:
        """Estimated time of a whole fit; None where there is no estimate."""
        return None

    def memory(self, n: int, d: int, targets: int, load: Workload) -> int | None:
        """Estimated peak of a whole fit in bytes, beyond the data; None where there is no estimate."""
        return None

    def require_memory(self, problem: Problem, load: Workload) -> None:
        """Raise MemoryError if a fit of this size would not find what it needs."""
        needed = self.memory(problem.n, problem.X.shape[1], problem.Y.shape[1], load)
        if needed is not None and not is_foreign(problem.Y):
            what = "a search" if load.folds else "a fit"
            require_memory(needed, f"{what} with {self!r} on {problem.n} rows", self.remedy)

    def check(self, kernel: Kernel, problem: Problem) -> None:
        """Raise, before any long work, if this approximation cannot serve."""

    def variants(self, problem: Problem, parts: Sequence[Any] | None) -> Sequence[Approximation]:
        """The approximations that a search tries with every kernel: itself, settings settled.

        `parts` are the rows left out together in turn; None where nothing is held out.
        """
        return [self]

    @property
    def variant_params(self) -> dict[str, Any]:
        """What tells one variant from another, for the table of a search."""
        return {}

    @abstractmethod
    def model(self, kernel: Kernel, problem: Problem, *, n_alphas: int, need: Need) -> Model:
        """Solve the problem with one kernel for `n_alphas` values of μ."""

    def diagnose(self, kernel: Kernel, problem: Problem) -> dict[str, Any]:
        """What is worth knowing of the chosen approximation, and too dear for every candidate."""
        return {}

    def refit_for(self, problem: Problem) -> Literal["exact", "same"]:
        """What ``refit="auto"`` means for this problem."""
        return self.refit

    def subsample(self, X: Any, size: int, generator: Any) -> Any | None:
        """Rows for the trust check to look at; None where any rows will do.

        `generator` is a NumPy ``RandomState``; fewer rows than there are is promised.
        """
        return None

    def for_subsample(self, share: float) -> Approximation:
        """The approximation that treats `share` of the rows as this one treats all of them."""
        return self

    def memory_per_model(self, n: int) -> int:
        """Bytes that one model needs at its peak; decides how many run side by side."""
        return 0


def names_with_weights() -> list[str]:
    """Names of the approximations that take sample weights."""
    return sorted(kind.name for kind in Approximation.__subclasses__() if kind.supports_weights)
