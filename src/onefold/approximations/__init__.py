"""Approximations: how the kernel matrix is represented. One file or folder each, found by `register`."""

from onefold.approximations.auto import Auto, Plan
from onefold.approximations.base import Approximation, Run, register, registered, resolve_approximation
from onefold.approximations.cg import ConjugateGradients
from onefold.approximations.circulant import Circulant
from onefold.approximations.exact import Exact
from onefold.approximations.grid import Grid
from onefold.approximations.model import Model, SmoothingModel, WholeModel
from onefold.approximations.nystroem import Nystroem
from onefold.approximations.problem import Problem, Workload
from onefold.approximations.state_space import StateSpace
from onefold.approximations.toeplitz import Toeplitz

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
    "Run",
    "SmoothingModel",
    "StateSpace",
    "Toeplitz",
    "WholeModel",
    "Workload",
    "register",
    "registered",
    "resolve_approximation",
]
