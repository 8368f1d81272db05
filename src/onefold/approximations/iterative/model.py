r"""The true kernel where its matrix does not fit: preconditioned conjugate gradients.

(K + μV⁻¹) α = y − b is solved for all targets at once, preconditioned by the low-rank matrix of a few
landmarks. Products with K use float32 tiles, kept where memory allows and computed again otherwise; the
residual that decides is computed with float64 tiles from the coefficients themselves.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from onefold.approximations.alphas import target_ridges
from onefold.approximations.base import Approximation, Model
from onefold.approximations.iterative.operator import KernelOperator
from onefold.approximations.iterative.preconditioner import LowRankPreconditioner, solve_refined
from onefold.approximations.problem import Problem
from onefold.approximations.registry import register
from onefold.approximations.workload import Workload
from onefold.expansions import Expansion
from onefold.kernels import Kernel, Precomputed
from onefold.landmarks import BASES, Basis
from onefold.linalg import Array, is_foreign, is_sparse, like
from onefold.machine.memory import available_memory
from onefold.machine.threads import limit_blas
from onefold.machine.warning import warn_user
from onefold.statistics import Design

_KEEP_SHARE = 0.5  # of the free memory may go to kept tiles
_SINGLE_LARGEST = 1e15  # features above leave float32's range when squared, kernel values in products
_SINGLE_NOISE = 30.0  # a ridge this many times the rounding of float32 tiles is safe with them


@register
@dataclass(frozen=True)
class ConjugateGradients(Approximation):
    """The exact machine by preconditioned conjugate gradients.

    It fits one model and has no closed form for folds: it selects only with a learned metric, whose
    searches refit every fold anyway.

    Parameters
    ----------
    n_components : int, default=1000
        Landmarks of the preconditioner.
    tolerance : float, default=1e-5
        Stop when ‖y − b − (K + μV⁻¹)α‖ ≤ tolerance · ‖y‖, computed in float64; y about its mean where
        there is an intercept. ``approximation_`` has what was reached, and a warning says if it is more.
    max_iterations : int, default=500
    random_state : int, default=0
    """

    n_components: int = 1000
    tolerance: float = 1e-5
    max_iterations: int = 500
    random_state: int = 0

    name = "cg"
    exact = True
    selects = False
    seed_setting = "random_state"

    def __post_init__(self) -> None:
        for name in ("n_components", "max_iterations"):
            value = getattr(self, name)
            if not isinstance(value, numbers.Integral) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}.")
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance must lie between 0 and 1; got {self.tolerance!r}.")

    def check(self, kernel: Kernel, problem: Problem, load: Workload) -> None:
        if isinstance(kernel, Precomputed) or is_sparse(problem.X) or is_foreign(problem.X):
            raise ValueError(
                "conjugate gradients compute the kernel from dense NumPy rows; use "
                'approximation="exact" for a precomputed matrix, sparse rows or another library.'
            )

        if load.folds:
            raise ValueError(
                "conjugate gradients fit one model; select with an approximation such as Nystroem and "
                'refit="exact".'
            )

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> IterativeModel:
        m = min(self.n_components, max(1, problem.n // 4))
        rng = np.random.default_rng(self.random_state)
        with limit_blas(1):  # the same digits whatever the number of threads
            basis = BASES["rpcholesky"](kernel, problem.X, m, rng)
            return IterativeModel(self, kernel, problem, basis)


class IterativeModel(Model):
    """K itself, solved for one μ at a time."""

    def __init__(
        self,
        settings: ConjugateGradients,
        kernel: Kernel,
        problem: Problem,
        basis: Basis,
    ) -> None:
        self._settings, self._kernel, self._problem = settings, kernel, problem
        self._root = np.ones(problem.n) if problem.root_weight is None else problem.root_weight
        self._low_rank = LowRankPreconditioner(Design(kernel, basis.rows), problem.X, self._root)
        self._operators: dict[tuple[Any, bool], KernelOperator] = {}
        self.report = {
            "name": "cg",
            "reason": f"{problem.n} rows: the true kernel without a dense factorisation",
            "preconditioner": {**basis.report, "rank": self._low_rank.rank},
        }

    def leave_one_out(self, alphas: Any) -> Array:
        raise ValueError("conjugate gradients fit one model and make no held-out predictions.")

    def heldout(self, parts: Sequence[Any], alphas: Any) -> list[Array]:
        raise ValueError("conjugate gradients fit one model and make no held-out predictions.")

    def expansion(self, alpha: Any) -> Expansion:
        problem = self._problem
        t = problem.Y.shape[1]
        ridges = target_ridges(alpha, t)
        dual, intercept = np.empty(problem.Y.shape), np.zeros(t)
        solves = []
        with limit_blas(1):
            for i, value in enumerate(ridges.distinct):
                own = np.flatnonzero(ridges.which == i)
                dual[:, own], intercept[own], outcome = self._solve(float(value), own)
                solves.append(outcome)
        self.report["solves"] = solves
        worst = max(solves, key=lambda outcome: outcome["residual"])
        if not worst["converged"]:
            warn_user(
                f"conjugate gradients stopped after {worst['iterations']} iterations at a relative "
                f"residual of {worst['residual']:.1e}, above the tolerance "
                f"{self._settings.tolerance:.1e}; use more landmarks (n_components), a larger alpha, or "
                "more iterations (max_iterations).",
                ConvergenceWarning,
            )
        X = problem.X
        return Expansion(self._kernel, X, like(dual, X), like(intercept, X))

    def _operators_for(self, mu: float) -> tuple[KernelOperator, KernelOperator]:
        """What carries the iteration along, and what the residual is computed with."""
        n = self._problem.n
        noise = float(np.finfo(np.float32).eps) / 2 * np.sqrt(n)
        double, single = np.dtype(np.float64), np.dtype(np.float32)
        X = self._problem.X
        largest = max(float(X.max()), -float(X.min()), float(self._kernel.diagonal(X).max()))
        rough = single if largest < _SINGLE_LARGEST and mu > _SINGLE_NOISE * noise else double
        free = available_memory()
        keep = free is not None and n * n * rough.itemsize // 2 < _KEEP_SHARE * free
        self.report["tiles"] = f"{rough}, {'kept' if keep else 'computed at each product'}"
        first = self._operator(rough, keep)
        return first, first if rough == double else self._operator(double, False)

    def _operator(self, dtype: Any, keep: bool) -> KernelOperator:
        if (dtype, True) in self._operators:
            keep = True
        if (dtype, keep) not in self._operators:
            self._operators[dtype, keep] = KernelOperator(
                self._kernel, self._problem.X, dtype=dtype, keep=keep
            )
        return self._operators[dtype, keep]

    def _solve(self, mu: float, targets: Any) -> tuple[Any, Any, dict[str, Any]]:
        """α, b and how it went, for the given target columns."""
        problem, root = self._problem, self._root
        Y, offset = problem.Y[:, targets], np.zeros(len(targets))
        if problem.fit_intercept:  # the intercept takes a shift of the targets, their digits stay
            offset = np.average(Y, axis=0, weights=root**2)
        Y = Y - offset[None, :]
        # In units of their own, by a power of 2: squares neither underflow nor overflow.
        unit = np.exp2(np.frexp(np.abs(Y).max(axis=0, initial=0.0))[1])
        rough, true = self._operators_for(mu)

        def times(operator: KernelOperator, *, fast: bool) -> Any:
            def product(V: Any) -> Any:
                return root[:, None] * operator.product(root[:, None] * V, rough=fast) + mu * V

            return product

        roughs = [rough] if rough is true else [rough, true]
        a, b, outcome = solve_refined(
            times(true, fast=False),
            [times(operator, fast=True) for operator in roughs],
            self._low_rank.solver(mu),
            root[:, None] * (Y / unit[None, :]),
            root,
            fit_intercept=problem.fit_intercept,
            tolerance=self._settings.tolerance,
            max_iterations=self._settings.max_iterations,
        )
        outcome = {"alpha": mu * problem.alpha_unit, **outcome}
        return root[:, None] * a * unit[None, :], b * unit + offset, outcome
