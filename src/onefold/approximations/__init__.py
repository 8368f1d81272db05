"""Approximations: how the kernel matrix is represented. One file each, one line in the registry."""

from __future__ import annotations

from typing import Any

from onefold.approximations.base import Approximation, Model, Problem, SmoothingModel
from onefold.approximations.circulant import Circulant
from onefold.approximations.exact import Exact
from onefold.approximations.grid import Grid
from onefold.approximations.toeplitz import Toeplitz

__all__ = [
    "Approximation",
    "Circulant",
    "Exact",
    "Grid",
    "Model",
    "Problem",
    "SmoothingModel",
    "Toeplitz",
    "resolve_approximation",
]

_BY_NAME: dict[str, type[Approximation]] = {
    "exact": Exact,
    "circulant": Circulant,
    "toeplitz": Toeplitz,
    "grid": Grid,
}


def resolve_approximation(approximation: Any) -> Approximation:
    """The Approximation behind a name or an instance; ``"auto"`` is the exact matrix."""
    if isinstance(approximation, Approximation):
        return approximation
    if approximation == "auto":
        return Exact()
    if isinstance(approximation, str) and approximation in _BY_NAME:
        return _BY_NAME[approximation]()
    names = ", ".join(repr(name) for name in ("auto", *_BY_NAME))
    raise ValueError(
        f"unknown approximation {approximation!r}; use one of {names}, "
        "or an object from onefold.approximations."
    )
