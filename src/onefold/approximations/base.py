r"""What an approximation is, and its run on a problem.

An approximation is started on a problem once: all is decided that does not depend on the kernel. The run
turns a kernel into a *model*: one kernel, every ridge value (:mod:`onefold.approximations.model`).

    run = approximation.start(problem, kernels, load)   # decided, checked, landmarks placed: once
    model = run.model(kernel)                           # one kernel, every μ
    model = run.final_model(kernel, alpha)              # of the true kernel, or the same approximation
    expansion, report = run.finished(model, alpha)

What makes a final fit with the true kernel is decided by ``with_true_kernel`` in
:mod:`onefold.approximations.auto`. Where nobody asked for such a fit, it is made if it takes no longer
than a minute (for "auto", a fifth of its seconds) on the machine where the rows are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from onefold.approximations.footprint import max_models_within
from onefold.approximations.mean_loss import with_mean_loss
from onefold.approximations.model import Model
from onefold.approximations.problem import Parts, Problem, Workload, with_ridges_of_parts
from onefold.compatibility import Offer, Request, check
from onefold.expansions import Expansion, FoldModels
from onefold.kernels import Kernel, Laplacian, Precomputed
from onefold.linalg import is_sparse
from onefold.linalg.distances import without_triton
from onefold.machine.memory import require_available
from onefold.machine.speed import Speed
from onefold.machine.threads import cached_property
from onefold.machine.warning import warn_user
from onefold.smoothers.base import UNSOLVABLE, why_unsolvable

# Seconds that a final fit with the true kernel may take where nobody asked for it; chosen, not measured.
_UNASKED = 60.0


class Approximation(ABC):
    """How the kernel matrix is represented. Subclasses are frozen dataclasses of plain settings.

    Examples
    --------
    :doc:`/extending/approximation` writes one. Settings are read from its fields:

    >>> from onefold.approximations import Approximation, Nystroem
    >>> issubclass(Nystroem, Approximation), Nystroem.name, Nystroem(200).n_components
    (True, 'nystroem', 200)
    """

    name: ClassVar[str]
    exact: ClassVar[bool] = False  # its models have the true kernel
    selects: ClassVar[bool] = True  # its models make held-out predictions
    smooths: ClassVar[bool] = False  # they are `WholeModel`, for criteria of the whole smoother
    no_leave_one_out: ClassVar[str] = ""  # why its models leave no single rows out, and what to do
    max_rows_for_matrix: ClassVar[float] = 0  # rows up to which its models form their kernel matrix
    supports_weights: ClassVar[bool] = True
    takes_precomputed: ClassVar[bool] = True  # the kernel matrix may be given, without rows
    takes_sparse: ClassVar[bool] = True
    max_features: ClassVar[float] = math.inf
    takes: ClassVar[str] = "rows"  # the rows and kernels that it takes, in words
    alternative: ClassVar[str] = 'use approximation="exact"'  # the remedy for other rows and kernels
    learns_metrics: ClassVar[bool] = True  # its models take any metric: they are of no order or grid
    # Where the models without each fold, which predict new rows, come from: a closed form, or fits that
    # are cheap enough; None where there are none.
    fold_models: ClassVar[Literal["closed", "refitted"] | None] = None
    max_rows_for_fold_models: ClassVar[float] = math.inf  # rows up to which there are such models
    # Settings that a search may choose as it chooses gamma, the values to try given as a list.
    searched: ClassVar[tuple[str, ...]] = ()
    remedy: ClassVar[str] = "use fewer rows, or a computer with more memory"  # where memory is short
    streams: bool = False  # its models read rows by blocks alone: a device need not hold them all

    def start(self, problem: Problem, kernels: Sequence[Kernel], load: Workload) -> Run:
        """Decide, check and prepare once what every kernel shares; raise before any long work."""
        request = Request(
            searches=bool(load.folds),
            weighted=problem.root_weight is not None,
            smoother=load.smoother,
            matrix=load.matrix,
            single_rows=load.single,
        )
        offer = Offer(
            self,
            kernels=kernels,
            place=problem.place,
            precomputed=any(isinstance(kernel, Precomputed) for kernel in kernels),
            sparse=is_sparse(problem.X),
            rows=problem.n,
            features=problem.shape[1],
            formed_rows=self.formed_rows(problem.n, load) if load.matrix else 0,
        )
        check(request, offer)
        for kernel in kernels:
            self.check(kernel, problem, load)
        load = problem.machine.load(self.sized(problem, kernels, load))
        self.require_memory(problem, with_ridges_of_parts(load, problem))
        refit = self._refit(problem, kernels[0], load) if kernels else None
        return Run(self, problem, load, shared=self.share(problem, kernels), refit=refit)

    def _refit(self, problem: Problem, kernel: Kernel, load: Workload) -> Run | None:
        """The run of the final model, where that is to have the true kernel and these models do not."""
        from onefold.approximations.auto import (
            with_true_kernel,  # which chooses among subclasses of this
        )

        if self.exact or load.refit == "same":
            return None
        if load.refit == "auto" and not self.prefers_exact_refit(problem):
            return None
        seconds = None if load.refit == "exact" else _UNASKED
        method = with_true_kernel(problem, kernel, seconds)
        return None if method is None else method.start(problem, [kernel], Workload())

    @abstractmethod
    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> Model:
        """Solve the problem with one kernel for the μ of the workload; `shared` is from `share`."""

    def check(self, kernel: Kernel, problem: Problem, load: Workload) -> None:
        """Raise if it cannot serve, for a reason that its class attributes do not have."""

    def takes_kernel(self, kernel: Kernel) -> bool:
        """Whether it represents matrices of this kernel."""
        return True

    def sized(self, problem: Problem, kernels: Sequence[Kernel], load: Workload) -> Workload:
        """The load with the sizes that these rows and kernels decide."""
        return load

    def formed_rows(self, n: int, load: Workload) -> int:
        """Rows of the kernel matrix that its models form for a criterion, where the problem has `n`."""
        return n

    def choices(self) -> list[dict[str, Any]]:
        """What a search tries with every kernel: values of the settings that were given as a list."""
        return [{}]

    def settled(self, problem: Problem, shared: Any) -> Approximation:
        """The approximation with the settings that the rows decide; `shared` is the run's."""
        return self

    def has_folds(self, n: int) -> bool:
        """Whether there are models without each fold of n rows."""
        return self.fold_models is not None and n <= self.max_rows_for_fold_models

    def share(self, problem: Problem, kernels: Sequence[Kernel]) -> Any:
        """What the models of all kernels share; None where each stands alone."""
        return None

    def has_known_duration(self, problem: Problem) -> bool:
        """Whether its time is known beforehand: iterations may go on for longer."""
        return True

    def prefers_exact_refit(self, problem: Problem) -> bool:
        """Whether the final model is best trained with the true kernel, if that is quick."""
        return False

    def seeded(self, seed: int) -> Approximation:
        """The approximation with its setting ``random_state`` or ``seed``, where it has one."""
        names = {f.name for f in fields(self)} & {"random_state", "seed"}  # type: ignore[arg-type]
        return replace(self, **dict.fromkeys(names, seed))  # type: ignore[type-var]

    def subsample(self, X: Any, size: int, generator: Any) -> Any | None:
        """`size` rows for the trust check to look at, fewer than there are; None where any will do."""
        return None

    def for_subsample(self, share: float) -> Approximation:
        """The approximation that treats `share` of the rows as this one treats all of them."""
        return self

    def on_fewer_rows(self, n: int, shared: Any) -> tuple[Approximation, Any]:
        """The approximation for `n` of the rows, and what serves there of what all kernels share."""
        return self, shared

    def duration(self, n: int, d: int, targets: int, load: Workload, speed: Speed) -> float | None:
        """Estimated time of a whole fit; None where there is no estimate."""
        return None

    def peak_bytes(self, n: int, d: int, targets: int, load: Workload, n_parallel: int) -> int | None:
        """Estimated peak of a fit beyond the data, with some models side by side; None for unknown."""
        return None

    def max_parallel_models(self, n: int, d: int, targets: int, load: Workload, free: int | None) -> int:
        """How many models run side by side in what is free: one on a GPU, which has its own threads."""
        if load.gpu is not None:
            return 1
        return max_models_within(self.peak_bytes(n, d, targets, replace(load, kernels=1), 1), free)

    def memory(self, n: int, d: int, targets: int, load: Workload, free: int | None) -> int | None:
        """Estimated peak of a whole fit in bytes, beyond the data; None where there is no estimate."""
        return self.peak_bytes(n, d, targets, load, self.max_parallel_models(n, d, targets, load, free))

    def require_memory(self, problem: Problem, load: Workload) -> None:
        """Raise MemoryError if a fit of this size would not find what it needs."""
        work = f"{'a search' if load.folds else 'a fit'} with {self!r} on {problem.n} rows"
        if problem.on_device:
            work += ", on the device,"
        if problem.on_device or problem.remote:  # one model at a time
            needed = self.peak_bytes(*problem.shape, load, 1)
        else:
            needed = self.memory(*problem.shape, load, problem.free)
        require_available(problem.free, needed or 0, work, self.remedy)


def _has_laplacian(kernel: Kernel) -> bool:
    """Whether it is a Laplacian kernel, or has one as a part."""
    parts = [getattr(kernel, name) for name in ("left", "right") if hasattr(kernel, name)]
    return isinstance(kernel, Laplacian) or any(map(_has_laplacian, parts))


@dataclass(frozen=True)
class Run:
    """What will take place, and why."""

    approximation: Approximation  # the one that runs; nothing about it is open
    problem: Problem
    load: Workload
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

    @cached_property
    def max_parallel_models(self) -> int:
        """How many of its models may run side by side: one on a device, which has its own threads."""
        if self.problem.on_device:
            return 1
        if self.problem.remote:
            return 1 if self.problem.X.runner.client is None else 2  # workers pass while one is solved
        return self.approximation.max_parallel_models(*self.problem.shape, self.load, self.problem.free)

    @property
    def report(self) -> dict[str, Any]:
        """What the reports of its models say of the choice."""
        return {"chosen": self.reason} if self.reason else {}

    def with_settings(self, **settings: Any) -> Run:
        """The run with other values of the settings that a search may choose."""
        if not settings:
            return self
        changed = replace(self.approximation, **settings)  # type: ignore[type-var]
        return replace(self, approximation=changed.settled(self.problem, self.shared))

    def on(self, part: Problem, load: Workload | None = None) -> Run:
        """The run on some of the rows, which take less memory; by default to fit them at one ridge."""
        return replace(self, problem=part, load=load or Workload(), refit=None)

    def on_fewer_rows(self, part: Problem, load: Workload) -> Run:
        """A run on some of the rows that treats them as this one treats all, to compare kernels."""
        approximation, shared = self.approximation.on_fewer_rows(part.n, self.shared)
        return replace(self.on(part, load), approximation=approximation, shared=shared)

    def model(self, kernel: Kernel) -> Model:
        """The problem with one kernel, for every μ of the workload."""
        load = with_ridges_of_parts(self.load, self.problem)
        model = self.approximation.model(kernel, self.problem, load, self.shared)
        if self.problem.loss == "mean":
            model = with_mean_loss(model)
        model.report |= self.report
        if self.problem.on_device and _has_laplacian(kernel):
            reason = without_triton(self.problem.source.reference)
            if reason is not None:
                model.report["without_triton"] = (
                    f"Laplacian kernel computed without Triton, which is faster ({reason})"
                )
        return model

    def finished(self, model: Model, alpha: ArrayLike) -> tuple[Expansion, dict[str, Any]]:
        """The expansion of a final model in the user's units at the user's alpha, and what fitted it."""
        ridges = self.problem.ridge(alpha)
        expansion = model.expansion(ridges)
        return self.problem.restore(expansion), model.final_report(ridges, expansion)

    def final_model(self, kernel: Kernel, alpha: ArrayLike, model: Model | None = None) -> Model:
        """The model to predict with: of the true kernel where the run refits exactly."""
        if self.refit is None and model is not None:
            return model
        load = Workload(alphas=np.unique(self.problem.ridge(alpha)).size)
        return replace(self.refit or self, load=load).model(kernel)

    def fold_models(self, model: Model, kernel: Kernel, alpha: Any, parts: Parts) -> FoldModels | None:
        """The models without each set of rows, from `model` or fitted anew; None where too costly."""
        if not self.approximation.has_folds(self.problem.n):
            return None
        ridges = self.problem.ridge(alpha)
        try:
            if model.one_by_one and self.problem.loss == "mean":  # its factor serves no other ridge
                load = Workload(alphas=np.unique(ridges).size, folds=len(parts), parts=parts)
                model = self.on(self.problem, load).model(kernel)
            models = model.fold_models(parts, ridges)
            if models is None and self.approximation.fold_models == "refitted":
                models = FoldModels.from_expansions(
                    [self._fitted_without(rows, kernel, alpha) for rows in parts]
                )
        except UNSOLVABLE as error:  # some fold's matrix, unlike that of all rows
            warn_user(
                f"the models without each fold, for intervals, cannot be fitted: {why_unsolvable(error)}"
            )
            return None
        if models is not None and not models.finite:
            warn_user(
                "the models without each fold, for intervals, cannot be used: some coefficients are not "
                "finite; use a larger alpha."
            )
            return None
        return None if models is None else models.plus(self.problem.offset)

    def _fitted_without(self, rows: Any, kernel: Kernel, alpha: Any) -> Expansion:
        """The model fitted anew to all other rows, about this problem's offset."""
        training = self.problem.without(rows)
        model = self.on(training).model(kernel)
        return training.restore(model.expansion(training.ridge(alpha)))


# The one list of approximations: their names, saved files and the command line all read it.
_BY_NAME: dict[str, type[Approximation]] = {}
Class = TypeVar("Class", bound=type[Approximation])


def register(cls: Class) -> Class:
    """Register an approximation, so that it can be used by name, saved and loaded; works as a decorator.

    Its settings must be dataclass fields with defaults. It must be registered again before a saved model
    that uses it is loaded.

    Parameters
    ----------
    cls : class
        A subclass of :class:`Approximation` with a `name`.

    Returns
    -------
    class
        The same class.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from onefold.approximations import Exact, register, registered
    >>> @register
    ... @dataclass(frozen=True)
    ... class Plain(Exact):
    ...     name = "plain"
    >>> "plain" in registered()
    True
    """
    name = getattr(cls, "name", None)
    derived = isinstance(cls, type) and issubclass(cls, Approximation)
    if not derived or not is_dataclass(cls) or not isinstance(name, str):
        raise TypeError(
            f"{cls!r} cannot be registered; make it a dataclass derived from Approximation, with a name."
        )
    try:
        cls()
    except TypeError as error:
        raise TypeError(
            f"{cls!r} cannot be registered ({error}); define its model, and defaults of all settings."
        ) from error
    for existing in _BY_NAME.values():
        same = (existing.__module__, existing.__qualname__) == (cls.__module__, cls.__qualname__)
        if not same and (existing.name == name or existing.__name__ == cls.__name__):
            raise ValueError(
                f"the name {existing.name!r} is already registered, for {existing.__name__}; "
                "use another name."
            )
    _BY_NAME[name] = cls
    return cls


def registered() -> dict[str, type[Approximation]]:
    """Return all approximations by name, in alphabetical order.

    Examples
    --------
    >>> from onefold.approximations import registered
    >>> registered()["exact"]()
    Exact()
    """
    return dict(sorted(_BY_NAME.items()))


def resolve_approximation(approximation: Any) -> Approximation:
    """The Approximation behind a name or an instance."""
    if isinstance(approximation, Approximation):
        return approximation
    by_name = registered()
    if isinstance(approximation, str) and approximation in by_name:
        return by_name[approximation]()
    names = ", ".join(repr(name) for name in by_name)
    raise ValueError(
        f"unknown approximation {approximation!r}; use one of {names}, "
        "or an object from onefold.approximations."
    )
