"""The exact machine: its settings and its price."""

from __future__ import annotations

from dataclasses import dataclass

from onefold.approximations.base import Approximation, Problem, Workload
from onefold.approximations.exact.model import ExactModel
from onefold.approximations.footprint import TYPICAL, exact_bytes, models_at_once
from onefold.kernels import Kernel
from onefold.machine.speed import Speed
from onefold.smoothers import choose_route
from onefold.smoothers.route import Need


@dataclass(frozen=True)
class Exact(Approximation):
    """No approximation: the dense kernel matrix, for up to some ten thousand rows."""

    name = "exact"
    refit = "same"

    remedy = 'use fewer rows, approximation="nystroem", or a machine with more memory'

    def check(self, kernel: Kernel, problem: Problem) -> None:
        self.require_memory(problem, Workload())

    def model(self, kernel: Kernel, problem: Problem, *, n_alphas: int, need: Need) -> ExactModel:
        return ExactModel(kernel, problem, n_alphas=n_alphas, need=need)

    def memory_per_model(self, n: int) -> int:
        return exact_bytes(n, 1, TYPICAL, at_once=1)

    def memory(self, n: int, d: int, targets: int, load: Workload) -> int:
        return exact_bytes(n, targets, load, models_at_once(self, n))

    def duration(self, n: int, d: int, targets: int, load: Workload, speed: Speed) -> float:
        """Per kernel: the factorisation that `choose_route` would take, and the matrix itself."""
        route = choose_route(n, load.alphas, "heldout" if load.folds else "coefficients")
        work = min(route.eigen_cost, route.cholesky_cost) * float(n) ** 3 + float(n) ** 2 * d / 2
        matrix = float(n) ** 2 / (2 * speed.exponentials)
        return load.kernels * (work / speed.multiply_adds + matrix)
