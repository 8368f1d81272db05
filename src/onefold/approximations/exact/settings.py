"""The exact machine: its settings and its price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onefold.approximations.base import Approximation
from onefold.approximations.exact.model import ExactModel
from onefold.approximations.footprint import exact_bytes
from onefold.approximations.problem import Problem
from onefold.approximations.registry import register
from onefold.approximations.workload import Workload
from onefold.kernels import Kernel
from onefold.machine.speed import Speed
from onefold.smoothers import choose_route


@register
@dataclass(frozen=True)
class Exact(Approximation):
    """No approximation: the dense kernel matrix, for up to some ten thousand rows."""

    name = "exact"
    exact = True
    smooths = True
    fold_models = "closed"
    remedy = 'use fewer rows, approximation="nystroem", or a machine with more memory'

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> ExactModel:
        return ExactModel(kernel, problem, n_alphas=load.alphas, need=load.need)

    def peak_bytes(self, n: int, d: int, targets: int, load: Workload, at_once: int) -> int:
        return exact_bytes(n, targets, load, at_once)

    def duration(self, n: int, d: int, targets: int, load: Workload, speed: Speed) -> float:
        """Per kernel: the factorisation that `choose_route` would take, and the matrix itself."""
        route = choose_route(n, load.alphas, load.need)
        work = min(route.eigen_cost, route.cholesky_cost) * float(n) ** 3 + float(n) ** 2 * d / 2
        matrix = float(n) ** 2 / (2 * speed.exponentials)
        return load.kernels * (work / speed.multiply_adds + matrix)
