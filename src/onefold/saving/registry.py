"""The classes that a model file may name, with the state of each, and nothing else.

A file names a class by its bare name; only names found here are ever built, so a file cannot
reach any other code. Classes are imported when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module

from onefold.approximations import registered
from onefold.saving.estimators import ESTIMATORS, EXPANSIONS
from onefold.saving.intervals import INTERVALS
from onefold.saving.rules import State
from onefold.saving.tabular import TABLES

_KERNELS = (
    "RBF", "Laplacian", "Matern", "Metric", "Polynomial", "Linear", "Precomputed", "Sum", "Product",
)  # fmt: skip
_BY_MODULE: dict[str, dict[str, State]] = {
    "onefold.kernels": dict.fromkeys(_KERNELS, State()),  # its constructor checks everything
    "onefold.search": dict.fromkeys(("FullGrid", "Halving"), State()),  # as do theirs
    "onefold.calibration": {
        **dict.fromkeys(("Temperature", "Sigmoid", "Isotonic"), State()),
        "ConformalIntervals": INTERVALS,
    },
    "onefold.expansions": EXPANSIONS,
    "onefold.estimators": ESTIMATORS,
    "onefold.tables": TABLES,
}
_MODULES = {name: module for module, states in _BY_MODULE.items() for name in states}


def find(name: str) -> type | None:
    """Return the class that files know as `name`, or None if there is no such class."""
    if name in _MODULES:
        found: type = getattr(import_module(_MODULES[name]), name)
        return found
    return {cls.__name__: cls for cls in registered().values()}.get(name)


def name_of(value: object) -> str | None:
    """Return the name of the value's class in files; None for a class (or subclass) not listed."""
    name = type(value).__name__
    return name if find(name) is type(value) else None


def state_of(name: str) -> State:
    """The state of a class by its name in files; constructors check those that have no rules here."""
    return _BY_MODULE[_MODULES[name]][name] if name in _MODULES else State()
