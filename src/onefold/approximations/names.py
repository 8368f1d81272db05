"""From what a user passes to an approximation."""

from __future__ import annotations

from typing import Any

from onefold.approximations.base import Approximation
from onefold.approximations.registry import registered


def resolve_approximation(approximation: Any) -> Approximation:
    """The Approximation behind a name or an instance."""
    if isinstance(approximation, Approximation):
        return approximation
    known = registered()
    if isinstance(approximation, str) and approximation in known:
        return known[approximation]()
    names = ", ".join(repr(name) for name in known)
    raise ValueError(
        f"unknown approximation {approximation!r}; use one of {names}, "
        "or an object from onefold.approximations."
    )
