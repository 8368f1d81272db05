"""Approximations: how the kernel matrix is represented. One file each, one line in the registry."""

from __future__ import annotations

from typing import Any

from onefold.approximations.base import Approximation, Model, Problem, SmoothingModel, Workload
from onefold.approximations.circulant import Circulant
from onefold.approximations.exact import Exact
from onefold.approximations.footprint import models_at_once
from onefold.approximations.grid import Grid
from onefold.approximations.iterative.model import ConjugateGradients
from onefold.approximations.nystroem.settings import Nystroem
from onefold.approximations.planning import Auto, Plan, plan
from onefold.approximations.toeplitz.model import Toeplitz
from onefold.kernels import Kernel, Precomputed
from onefold.linalg.arrays import is_foreign, is_sparse

__all__ = [
    "Approximation",
    "Auto",
    "Circulant",
    "ConjugateGradients",
    "Exact",
    "Grid",
    "Model",
    "Nystroem",
    "Plan",
    "Problem",
    "SmoothingModel",
    "Toeplitz",
    "Workload",
    "exact_fit",
    "models_at_once",
    "plan",
    "resolve_approximation",
]

_BY_NAME: dict[str, type[Approximation]] = {
    "auto": Auto,
    "exact": Exact,
    "circulant": Circulant,
    "toeplitz": Toeplitz,
    "grid": Grid,
    "nystroem": Nystroem,
    "cg": ConjugateGradients,
}
_LARGEST_DENSE = 10_000  # rows: beyond, conjugate gradients take a fraction of Cholesky's time


def exact_fit(kernel: Kernel, problem: Problem) -> Approximation:
    """How to fit with the true kernel: densely, or by conjugate gradients for many dense rows."""
    dense_rows = not (is_sparse(problem.X) or is_foreign(problem.X) or isinstance(kernel, Precomputed))
    return ConjugateGradients() if dense_rows and problem.n > _LARGEST_DENSE else Exact()


def resolve_approximation(approximation: Any) -> Approximation:
    """The Approximation behind a name or an instance."""
    if isinstance(approximation, Approximation):
        return approximation
    if isinstance(approximation, str) and approximation in _BY_NAME:
        return _BY_NAME[approximation]()
    names = ", ".join(repr(name) for name in _BY_NAME)
    raise ValueError(
        f"unknown approximation {approximation!r}; use one of {names}, "
        "or an object from onefold.approximations."
    )
