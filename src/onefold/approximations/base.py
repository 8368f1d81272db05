r"""What an approximation is, and what every fitted model can be asked.

An approximation is started on a problem once (:mod:`onefold.approximations.run`); the run turns a kernel
into a *model*: one kernel, every ridge value. A model answers two questions, whatever is inside: the
predictions of rows held out of training, and the expansion to predict with. Search and estimators know
nothing more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from onefold.approximations.footprint import models_at_once
from onefold.approximations.registry import registered
from onefold.approximations.run import Run
from onefold.approximations.true_kernel import true_kernel
from onefold.approximations.workload import Workload
from onefold.expansions import Expansion
from onefold.kernels import Kernel
from onefold.linalg import Array, free_memory_beside, is_foreign, like, take_rows, to_numpy
from onefold.machine.memory import require_memory, require_of
from onefold.machine.speed import Speed
from onefold.rows import Rows, rows_of
from onefold.smoothers import Smoother


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

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, features and targets."""
        return self.n, int(self.X.shape[1]), int(self.Y.shape[1])

    @property
    def on_device(self) -> bool:
        """Whether the work is done elsewhere than in host memory."""
        return self.device is not None or is_foreign(self.Y)

    @property
    def streamed(self) -> bool:
        """Whether rows in host memory travel to the device block by block."""
        return self.device is not None and not is_foreign(self.X)

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
    exact: ClassVar[bool] = False
    """Whether its models have the true kernel."""
    selects: ClassVar[bool] = True
    """Whether its models make held-out predictions."""
    supports_weights: ClassVar[bool] = True
    streams: ClassVar[bool] = False
    """Whether its models read rows by blocks alone, so that a device need not hold them all."""
    seed_setting: ClassVar[str | None] = None
    """The setting that seeds its random choices."""
    remedy: ClassVar[str] = "use fewer rows, or a machine with more memory"
    """What helps where memory is short."""

    def start(self, problem: Problem, kernels: Sequence[Kernel], load: Workload) -> Run:
        """Decide, check and prepare once what every kernel shares; raise before any long work.

        What cannot be fitted at the end is refused now.
        """
        if problem.streamed and not self.streams:
            raise ValueError(
                f"{self!r} needs all rows on the device, and {problem.X.nbytes / 2**30:.1f} GiB of them "
                'are to be streamed there; use approximation="nystroem", fewer rows, or device=None.'
            )
        for kernel in kernels:
            self.check(kernel, problem, load)
        self.require_memory(problem, load)
        auto = load.refit == "auto" and self.prefers_exact_refit(problem)
        refit = None
        if (auto or load.refit == "exact") and not self.exact:
            final = true_kernel(kernels[0], problem)
            refit = final.start(problem, kernels[:1], load.of_final_fit())
        return Run(self, problem, load, shared=self.share(problem, kernels), refit=refit)

    @abstractmethod
    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> Model:
        """Solve the problem with one kernel for the μ of the workload; `shared` is from `share`."""

    def check(self, kernel: Kernel, problem: Problem, load: Workload) -> None:
        """Raise if this approximation cannot serve."""
        if problem.root_weight is not None and not self.supports_weights:
            names = ", ".join(
                f'"{name}"' for name, kind in registered().items() if kind.supports_weights
            )
            raise ValueError(
                f"a {self.name} matrix has no place for sample or class weights; leave them out, or use "
                f"an approximation that supports them: {names}."
            )

    def share(self, problem: Problem, kernels: Sequence[Kernel]) -> Any:
        """What the models of all kernels share; None where each stands alone."""
        return None

    def prefers_exact_refit(self, problem: Problem) -> bool:
        """Whether the final model is best trained with the true kernel."""
        return False

    def variants(self, problem: Problem, load: Workload) -> Sequence[Approximation]:
        """The approximations that a search tries with every kernel: itself, settings settled."""
        return [self]

    @property
    def variant_params(self) -> dict[str, Any]:
        """What tells one variant from another, for the table of a search."""
        return {}

    def diagnose(self, kernel: Kernel, problem: Problem) -> dict[str, Any]:
        """What is worth knowing of the chosen approximation, and too dear for every candidate."""
        return {}

    def seeded(self, seed: int) -> Approximation:
        """The same with its random choices seeded."""
        if self.seed_setting is None:
            return self
        settings: dict[str, Any] = {self.seed_setting: seed}
        return replace(self, **settings)  # type: ignore[type-var]

    def subsample(self, X: Any, size: int, generator: Any) -> Any | None:
        """Rows for the trust check to look at; None where any rows will do.

        `generator` is a NumPy ``RandomState``; fewer rows than there are is promised.
        """
        return None

    def for_subsample(self, share: float) -> Approximation:
        """The approximation that treats `share` of the rows as this one treats all of them."""
        return self

    def duration(self, n: int, d: int, targets: int, load: Workload, speed: Speed) -> float | None:
        """Estimated time of a whole fit; None where there is no estimate."""
        return None

    def peak_bytes(self, n: int, d: int, targets: int, load: Workload, at_once: int) -> int | None:
        """Estimated peak of a fit beyond the data, with some models side by side; None for unknown."""
        return None

    def at_once(self, n: int, d: int, targets: int, load: Workload) -> int:
        """How many models run side by side in what is free."""
        return models_at_once(self.peak_bytes(n, d, targets, load.of_one_kernel(), 1))

    def memory(self, n: int, d: int, targets: int, load: Workload) -> int | None:
        """Estimated peak of a whole fit in bytes, beyond the data; None where there is no estimate."""
        return self.peak_bytes(n, d, targets, load, self.at_once(n, d, targets, load))

    def require_memory(self, problem: Problem, load: Workload) -> None:
        """Raise MemoryError if a fit of this size would not find what it needs."""
        what = f"{'a search' if load.folds else 'a fit'} with {self!r} on {problem.n} rows"
        if problem.on_device:  # one model at a time, in the memory of the device
            there = free_memory_beside(problem.source.reference)
            needed = self.peak_bytes(*problem.shape, load, 1)
            require_of(there, needed or 0, f"{what}, on the device,", self.remedy)
            return
        needed = self.memory(*problem.shape, load)
        if needed is not None:
            require_memory(needed, what, self.remedy)
