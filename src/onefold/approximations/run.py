r"""A run: an approximation on one problem, with everything decided that does not depend on the kernel.

run = approximation.start(problem, kernels, load)   # decided, checked, landmarks placed: once
model = run.model(kernel)                           # one kernel, every μ
model = run.final_model(kernel, alpha)              # of the true kernel, or the same approximation
expansion, report = run.finished(model, alpha)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from onefold.approximations.problem import Machine, Problem
from onefold.expansions import Expansion, FoldModels
from onefold.kernels import Kernel
from onefold.machine.warning import warn_user
from onefold.smoothers.base import Need, UnsolvableError

if TYPE_CHECKING:
    from onefold.approximations.base import Approximation, Model

Refit = Literal["auto", "exact", "same"]


@dataclass(frozen=True)
class Workload:
    """What will be asked of the models of a run."""

    kernels: int = 1
    alphas: int = 1  # ridges for each kernel
    folds: int = 0  # 0 for a fit alone; 1 for leave-one-out, and for criteria of the smoother as a whole
    # Groups of rows that the folds move together, where folds overlap; 0 where each is its own.
    groups: int = field(default=0, kw_only=True)
    predictions: bool = True  # those of every ridge are looked at; otherwise squared errors suffice
    whole: bool = True  # they are looked at all together; sums over blocks of them need not hold them
    smoother: bool = False  # R(μ) as a whole is looked at
    single: bool = field(default=False, kw_only=True)  # single rows are left out besides folds
    # The rows left out together, in turn; None where nothing is held out.
    parts: Any = field(default=None, compare=False, repr=False)
    refit: Refit = "same"  # the final model: of the true kernel, the same, or as suits the approximation
    # Multiply-adds on a few of the rows that come first, whatever the approximation.
    before: float = field(default=0.0, kw_only=True)

    @property
    def need(self) -> Need:
        """Whether solving is enough, or held-out predictions are wanted too."""
        return "heldout" if self.folds else "coefficients"


@dataclass(frozen=True)
class Run:
    """What will take place, and why."""

    approximation: Approximation  # the one that runs; nothing about it is open
    problem: Problem
    load: Workload
    machine: Machine
    reason: str = ""  # why this approximation was chosen; nothing where it was asked for
    shared: Any = None  # what the models of all kernels share: landmarks, say
    refit: Run | None = None  # makes the final model with the true kernel; None where this one makes it

    def __repr__(self) -> str:
        refit = "" if self.refit is None else f", refit={self.refit.approximation}"
        return f"Run({self.approximation}, {self.problem}{refit}, reason={self.reason!r})"

    @property
    def refits_exactly(self) -> bool:
        """Whether the final model has the true kernel."""
        return self.approximation.exact or self.refit is not None

    @property
    def at_once(self) -> int:
        """How many of its models may run side by side: one on a device, which has its own threads."""
        if self.problem.on_device:
            return 1
        if self.problem.remote:
            return int(self.problem.X.runner.at_once)
        return self.approximation.at_once(*self.problem.shape, self.load, self.machine.free)

    @property
    def report(self) -> dict[str, Any]:
        """What the reports of its models say of the choice."""
        return {"chosen": self.reason} if self.reason else {}

    def on(self, part: Problem, load: Workload | None = None) -> Run:
        """The same on some of the rows, which take less memory; by default to fit them at one ridge."""
        return replace(self, problem=part, load=load or Workload(), refit=None)

    def on_fewer_rows(self, part: Problem, load: Workload) -> Run:
        """A run on some of the rows that treats them as this one treats all, to compare kernels."""
        approximation, shared = self.approximation.on_fewer_rows(part.n, self.shared)
        return replace(self.on(part, load), approximation=approximation, shared=shared)

    def restarted(self, kernel: Kernel) -> Run:
        """The same for another kernel, whose metric the landmarks follow."""
        return replace(self, shared=self.approximation.share(self.problem, [kernel]))

    def model(self, kernel: Kernel) -> Model:
        """The problem with one kernel, for every μ of the workload."""
        model = self.approximation.model(kernel, self.problem, self.load, self.shared)
        model.report |= self.report
        return model

    def finished(self, model: Model, alpha: Any) -> tuple[Expansion, dict[str, Any]]:
        """The expansion of a final model in the user's units at the user's alpha, and what fitted it."""
        ridges = self.problem.ridge(alpha)
        expansion = model.expansion(ridges)
        return self.problem.restore(expansion), model.final_report(ridges, expansion)

    def final_model(self, kernel: Kernel, alpha: Any, model: Model | None = None) -> Model:
        """The model to predict with: of the true kernel where the run refits exactly.

        `model` is this run's own of the same kernel where a search has kept it; it is used where the
        final model is of the same approximation.
        """
        if self.refit is None and model is not None:
            return model
        run = self if self.refit is None else self.refit
        return replace(run, load=Workload(alphas=np.unique(self.problem.ridge(alpha)).size)).model(
            kernel
        )

    def fold_models(
        self, model: Model, kernel: Kernel, alpha: Any, parts: Sequence[Any]
    ) -> FoldModels | None:
        """The models of the user's targets without each set of rows; None where they are too costly.

        `model` is this run's of all rows. Where it does not know them, each is fitted anew if that is
        cheap.
        """
        if not self.approximation.has_folds(self.problem.n):
            return None
        ridges = self.problem.ridge(alpha)

        def without(rows: Any) -> Expansion:
            """The expansion of all other rows, in the problem's units."""
            part = self.problem.without(rows)
            return part.restore(self.on(part).model(kernel).expansion(ridges))

        try:
            found = model.fold_models(parts, ridges)
            if found is None and self.approximation.fold_models == "refitted":
                found = FoldModels.each([without(rows) for rows in parts])
        except UnsolvableError as error:  # some fold's matrix, unlike that of all rows
            warn_user(f"there is no model without each fold for intervals: {error}")
            return None
        if found is not None and not found.finite:
            warn_user(
                "there is no model without each fold for intervals: the coefficients of some are not "
                "finite; use a larger alpha."
            )
            return None
        return None if found is None else found.plus(self.problem.offset)
