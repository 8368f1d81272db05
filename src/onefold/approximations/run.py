r"""A run: an approximation on one problem, with everything decided that does not depend on the kernel.

run = approximation.start(problem, kernels, load)   # decided, checked, landmarks placed: once
model = run.model(kernel)                           # one kernel, every μ
expansion, report = run.final(kernel, alpha)        # the true kernel, or the same approximation
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold.approximations.workload import Workload
from onefold.expansions import Expansion, FoldModels
from onefold.kernels import Kernel
from onefold.machine.warning import warn_user
from onefold.smoothers.base import UnsolvableError

if TYPE_CHECKING:
    from onefold.approximations.base import Approximation, Model
    from onefold.approximations.problem import Problem


@dataclass(frozen=True)
class Run:
    """What will take place, and why.

    Attributes
    ----------
    approximation : Approximation
        The one that runs; nothing about it is open.
    problem : Problem
    load : Workload
    reason : str
        Why this approximation.
    report : dict
        What the reports of its models say of the choice.
    shared : object
        What the models of all kernels share: landmarks, say.
    refit : Run or None
        The run with the true kernel that makes the final model; None where this one does.
    """

    approximation: Approximation
    problem: Problem
    load: Workload
    reason: str = "as asked for"
    report: dict[str, Any] = field(default_factory=dict)
    shared: Any = None
    refit: Run | None = None

    @property
    def exact(self) -> bool:
        """Whether its models have the true kernel."""
        return self.approximation.exact

    @property
    def refits_exactly(self) -> bool:
        """Whether the final model has the true kernel."""
        return self.exact or self.refit is not None

    @property
    def at_once(self) -> int:
        """How many of its models may run side by side: one on a device, which has its own threads."""
        if self.problem.on_device:
            return 1
        if self.problem.remote:
            return int(self.problem.X.runner.at_once)
        n, d, targets = self.problem.shape
        return self.approximation.at_once(n, d, targets, self.load)

    def because(self, reason: str | None) -> Run:
        """The same, and its reports say why it was chosen; None changes nothing."""
        if reason is None:
            return self
        return replace(self, reason=reason, report={"chosen": reason})

    @property
    def chosen_because(self) -> str:
        """Why it was chosen; nothing where it was asked for."""
        return str(self.report.get("chosen", ""))

    def with_ridges(self, count: int) -> Run:
        """The same where so many μ are asked of each model."""
        return replace(self, load=replace(self.load, alphas=count))

    def on(self, part: Problem, load: Workload | None = None) -> Run:
        """The same on some of the rows, which take less memory; by default to fit them at one ridge."""
        return replace(self, problem=part, load=load or self.load.of_final_fit(), refit=None)

    def on_fewer_rows(self, part: Problem, load: Workload) -> Run:
        """A run on some of the rows that treats them as this one treats all, to compare kernels."""
        approximation, shared = self.approximation.on_fewer_rows(part.n, self.shared)
        return replace(self.on(part, load), approximation=approximation, shared=shared)

    def restarted(self, kernel: Kernel) -> Run:
        """The same for another kernel, whose metric the landmarks follow."""
        started = self.approximation.start(self.problem, [kernel], self.load)
        return replace(self, shared=started.shared, refit=started.refit)

    def model(self, kernel: Kernel) -> Model:
        """The problem with one kernel, for every μ of the workload."""
        model = self.approximation.model(kernel, self.problem, self.load, self.shared)
        model.report |= self.report
        return model

    def final(
        self, kernel: Kernel, alpha: Any, model: Model | None = None
    ) -> tuple[Expansion, dict[str, Any]]:
        """The fitted expansion of the user's targets at the user's alpha, and what fitted it.

        `model` is this run's own of the same kernel where a search has kept it; it is used where the
        final model is of the same approximation.
        """
        return self.finished(self.final_model(kernel, alpha, model), alpha)

    def finished(self, model: Model, alpha: Any) -> tuple[Expansion, dict[str, Any]]:
        """The expansion of a final model in the user's units, and what fitted it."""
        return self.problem.restore(model.expansion(self.problem.ridge(alpha))), model.report

    def final_model(self, kernel: Kernel, alpha: Any, model: Model | None = None) -> Model:
        """The model behind `final`."""
        if self.refit is None and model is not None:
            return model
        run = self if self.refit is None else self.refit
        load = self.load.of_final_fit(np.unique(self.problem.ridge(alpha)).size)
        return replace(run, load=load).model(kernel)

    def fold_models(
        self, model: Model, kernel: Kernel, alpha: Any, parts: Sequence[Any]
    ) -> FoldModels | None:
        """The models of the user's targets without each set of rows; None where they are too dear.

        `model` is this run's of all rows. Where it does not know them, each is fitted anew if that is
        cheap.
        """
        if not self.approximation.has_folds(self.problem.n):
            return None
        ridges = self.problem.ridge(alpha)
        try:
            found = model.fold_models(parts, ridges)
            if found is None and self.approximation.fold_models == "refitted":
                found = FoldModels.each([self._without(rows, kernel, ridges) for rows in parts])
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

    def _without(self, rows: Any, kernel: Kernel, ridges: Any) -> Expansion:
        """The expansion of all other rows, in the problem's units."""
        part = self.problem.without(rows)
        return part.restore(self.on(part).model(kernel).expansion(ridges))

    def diagnose(self, kernel: Kernel) -> dict[str, Any]:
        """What is worth knowing of the chosen kernel's model, and too dear for every candidate."""
        return self.approximation.diagnose(kernel, self.problem)
