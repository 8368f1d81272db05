"""The classes that a model file may name, with the state of each, and nothing else.

A file names a class by its bare name; only names found here are ever built, so a file cannot
reach any other code. Classes are imported when they are first asked for.
"""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import TypeVar

from sklearn.base import BaseEstimator

from onefold.approximations import registered
from onefold.saving.estimators import ESTIMATORS, EXPANSIONS
from onefold.saving.intervals import INTERVALS
from onefold.saving.rules import State
from onefold.saving.tabular import TABLES
from onefold.saving.transformers import TRANSFORMERS

Class = TypeVar("Class", bound=type)

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
    **TRANSFORMERS,
}
_BUILT_IN = {name: module for module, states in _BY_MODULE.items() for name in states}
_REGISTERED: dict[str, type] = {}


def register(cls: Class) -> Class:
    """Allow instances of a dataclass or estimator class in model files; usable as a decorator.

    The class is known by its bare name, and it must be registered again before a file that names
    it is loaded in another process.

    Raises
    ------
    TypeError
        If `cls` is neither a dataclass nor a scikit-learn estimator class.
    ValueError
        If another class already has the name.
    """
    if not isinstance(cls, type):
        raise TypeError(f"register() takes a class, not {cls!r}; pass the class itself.")
    if not (dataclasses.is_dataclass(cls) or issubclass(cls, BaseEstimator)):
        raise TypeError(
            f"{cls.__name__} cannot be registered for saving: make it a dataclass or a subclass "
            "of sklearn.base.BaseEstimator."
        )
    if (find(cls.__name__) or cls) is not cls:
        raise ValueError(
            f"another class named {cls.__name__} is already registered for saving; rename this one."
        )
    _REGISTERED[cls.__name__] = cls
    return cls


def find(name: str) -> type | None:
    """Return the class that files know as `name`, or None if there is no such class."""
    if name in _BUILT_IN:
        found: type = getattr(import_module(_BUILT_IN[name]), name)
        return found
    return _approximations().get(name) or _REGISTERED.get(name)


def _approximations() -> dict[str, type]:
    return {cls.__name__: cls for cls in registered().values()}


def name_of(value: object) -> str | None:
    """Return the name of the value's class in files; None for a class (or subclass) not listed."""
    name = type(value).__name__
    return name if find(name) is type(value) else None


def state_of(name: str) -> State:
    """The state of a class by its name in files; constructors check those that have no rules here."""
    return _BY_MODULE[_BUILT_IN[name]][name] if name in _BUILT_IN else State()


def names_in(library: str) -> list[str]:
    """The names of the listed classes of a library."""
    return sorted(name for name, module in _BUILT_IN.items() if module.startswith(f"{library}."))
