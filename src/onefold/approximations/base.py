r"""What an approximation is, and what every fitted model can be asked.

An approximation is started on a problem once (:mod:`onefold.approximations.run`); the run turns a kernel
into a *model*: one kernel, every ridge value. A model answers two questions, whatever is inside: the
predictions of rows held out of training, and the expansion to predict with. Search and estimators know
nothing more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

from onefold.approximations.footprint import models_at_once
from onefold.approximations.problem import Problem
from onefold.approximations.registry import registered
from onefold.approximations.run import Run
from onefold.approximations.true_kernel import true_kernel
from onefold.approximations.workload import Workload
from onefold.expansions import Expansion, FoldModels
from onefold.kernels import Kernel
from onefold.linalg import Array, free_memory_of, namespace, take_rows
from onefold.machine.memory import require_memory, require_of
from onefold.machine.speed import Speed
from onefold.rows import Rows
from onefold.smoothers import Smoother


class Model(ABC):
    """A problem solved with one kernel, for every μ asked of it."""

    report: dict[str, Any]
    """What ran and why; becomes ``approximation_``."""
    keep: ClassVar[bool] = False
    """Small enough for a search to hold on to the best one, which then serves the final fit."""

    @property
    def one_by_one(self) -> bool:
        """Whether each μ has a factorisation of its own, held until the next μ is asked for."""
        return False

    def usable(self, parts: Sequence[Any] | None, alphas: Any) -> Any:
        """Whether each μ can be solved with for these held-out parts; None where there are none."""
        return np.ones(len(alphas), dtype=bool)

    @abstractmethod
    def leave_one_out(self, alphas: Any) -> Array:
        """Each row predicted from all others: (μ, n, targets)."""

    def left_out(self, some: Any, alpha: float) -> tuple[Any, Array]:
        """Rows that are each predicted from all others, at one μ, and the predictions (rows, targets).

        All rows where one pass gives them, otherwise `some`, ascending: their calibration is enough.
        """
        values = self.leave_one_out([alpha])[0, ...]
        return np.arange(values.shape[0]), values

    def _left_out_in_fifths(self, n: int, some: Any, alpha: float) -> tuple[Any, Array]:
        """`left_out` without a closed form: some rows of n, each predicted from four fifths of all."""
        parts = [np.arange(k, n, 5) for k in np.unique(some % 5)]
        found = self.heldout(parts, [alpha])
        rows = [some[some % 5 == part[0]] for part in parts]
        values = [take_rows(f[0, ...], own // 5) for f, own in zip(found, rows)]
        return np.concatenate(rows), namespace(values[0]).concat(values)

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

    def heldout_sums(
        self, left_out: Sequence[Any], tests: Sequence[Any], alphas: Any, terms: Any, carrier: Rows
    ) -> list[Array] | None:
        """Sums over the held-out rows of each split, made where rows are; None where that is not here.

        Parameters
        ----------
        left_out, tests : sequences of int arrays
            The rows that each part is trained without, and those of them that its sum is over.
        alphas : array
        terms : function
            Of predictions (μ, rows, targets) and of what `carrier` has beside these rows.
        carrier : Rows
            The rows with what predictions are compared with as targets.
        """
        return None

    def heldout_squared_error(
        self, left_out: Sequence[Any], tests: Sequence[Any], alphas: Any
    ) -> Any | None:
        """Weighted mean squared held-out error (μ, splits), where it is known without predictions."""
        return None

    @abstractmethod
    def expansion(self, alpha: Any) -> Expansion:
        """The model at one μ, or at one μ per target."""

    def fold_models(self, parts: Sequence[Any], alpha: Any) -> FoldModels | None:
        """The models trained without each set of rows, to predict new ones with.

        None where they are not to be had but by fitting again.
        """
        return None


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
    smooths: ClassVar[bool] = False
    """Whether its models are `SmoothingModel`: criteria of the whole smoother need them."""
    supports_weights: ClassVar[bool] = True
    learns_metrics: ClassVar[bool] = True
    """Whether its models are of the rows themselves, in any metric: not of their order or of a grid."""
    fold_models: ClassVar[Literal["closed", "refitted"] | None] = None
    """Where the models without each fold, which predict new rows, come from: a closed form, or fits that
    are cheap enough; None where they are not to be had."""
    fold_rows: ClassVar[float] = np.inf
    """Rows up to which they are."""
    seed_setting: ClassVar[str | None] = None
    """The setting that seeds its random choices."""
    remedy: ClassVar[str] = "use fewer rows, or a machine with more memory"
    """What helps where memory is short."""

    @property
    def streams(self) -> bool:
        """Whether its models read rows by blocks alone, so that a device need not hold them all."""
        return False

    def start(self, problem: Problem, kernels: Sequence[Kernel], load: Workload) -> Run:
        """Decide, check and prepare once what every kernel shares; raise before any long work.

        What cannot be fitted at the end is refused now.
        """
        if problem.streamed and not self.streams:
            raise ValueError(
                f"{self!r} needs all rows on the device, and {problem.X.nbytes / 2**30:.1f} GiB of them "
                'are to be streamed there; use approximation="nystroem", fewer rows, or device=None.'
            )
        if problem.remote and not self.streams:
            raise ValueError(
                f"{self!r} needs all rows in one place, and those of Dask stay on its workers; use "
                'approximation="nystroem", or fit X.compute() if memory holds it.'
            )
        if load.smoother and not self.smooths:
            raise ValueError(
                f"the criterion needs the whole smoother, which {self!r} does not have; use "
                'approximation="exact", or the criterion "mse", "error" or "press".'
            )
        for kernel in kernels:
            self.check(kernel, problem, load)
        self.require_memory(problem, load)
        auto = load.refit == "auto" and self.prefers_exact_refit(problem)
        refit = None
        if (auto or load.refit == "exact") and not self.exact:
            final = true_kernel(kernels[0], problem)
            refit = final.start(problem, kernels[:1], load.of_final_fit())
        shared = self.share(problem, kernels)
        return Run(self.settled(problem, load), problem, load, shared=shared, refit=refit)

    @abstractmethod
    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> Model:
        """Solve the problem with one kernel for the μ of the workload; `shared` is from `share`."""

    def check(self, kernel: Kernel, problem: Problem, load: Workload) -> None:
        """Raise if this approximation cannot serve."""
        if problem.root_weight is not None and not self.supports_weights:
            others = registered().items()
            able = [n for n, k in others if k.supports_weights and (k.selects or not load.folds)]
            names = ", ".join(f'"{name}"' for name in able)
            raise ValueError(
                f"a {self.name} matrix has no place for sample or class weights; leave them out, or use "
                f"an approximation that supports them: {names}."
            )

    def has_folds(self, n: int) -> bool:
        """Whether the models without each fold of n rows are to be had."""
        return self.fold_models is not None and n <= self.fold_rows

    def share(self, problem: Problem, kernels: Sequence[Kernel]) -> Any:
        """What the models of all kernels share; None where each stands alone."""
        return None

    def prefers_exact_refit(self, problem: Problem) -> bool:
        """Whether the final model is best trained with the true kernel."""
        return False

    def settled(self, problem: Problem, load: Workload) -> Approximation:
        """The same with the settings that the rows and the folds decide."""
        return self

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

    def on_fewer_rows(self, n: int, shared: Any) -> tuple[Approximation, Any]:
        """The approximation for `n` of the rows, and of what all kernels share what serves there.

        What it has for fewer rows is part of what it has for more.
        """
        return self, shared

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
            there = free_memory_of(problem.source.reference)
            needed = self.peak_bytes(*problem.shape, load, 1)
            require_of(there, needed or 0, f"{what}, on the device,", self.remedy)
            return
        needed = self.memory(*problem.shape, load)
        if problem.remote:  # one model at a time
            needed = self.peak_bytes(*problem.shape, load, 1)
        if needed is not None:
            require_memory(needed, what, self.remedy)
