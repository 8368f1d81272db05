"""The classes that a model file may name, and what each must hold beyond what its constructor checks.

A file names a class by its bare name; only names found here are ever built, so a file cannot
reach any other code. Classes are imported when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from onefold.approximations import registered
from onefold.saving.checks import (
    ESTIMATORS,
    check_estimator,
    check_expansion,
    check_fold_models,
    check_reading,
    check_table_model,
)
from onefold.saving.container import NONSENSE, BadContent

_ESTIMATORS = tuple(cls.__name__ for cls in ESTIMATORS)
_NAMES = {
    "onefold.kernels": (
        "RBF", "Laplacian", "Matern", "Metric", "Polynomial", "Linear", "Precomputed", "Sum", "Product",
    ),
    "onefold.search": ("FullGrid", "Halving"),
    "onefold.calibration": ("Temperature", "Sigmoid", "Isotonic", "ConformalIntervals"),
    "onefold.expansions": ("Expansion", "GridExpansion", "Blend", "FoldModels"),
    "onefold.estimators": _ESTIMATORS,
    "onefold.tables": ("TableClassifier", "TableRegressor", "Preparation", "Reading"),
    "onefold.heldout": ("GapKFold",),
    "sklearn.model_selection": (
        "KFold", "StratifiedKFold", "GroupKFold", "StratifiedGroupKFold", "TimeSeriesSplit",
        "RepeatedKFold", "RepeatedStratifiedKFold", "ShuffleSplit", "StratifiedShuffleSplit",
        "GroupShuffleSplit", "LeaveOneOut", "LeavePOut", "LeaveOneGroupOut", "LeavePGroupsOut",
        "PredefinedSplit",
    ),
}  # fmt: skip
MODULES = {name: module for module, names in _NAMES.items() for name in names}
_CHECKS: dict[str, Callable[[Any], None]] = {
    **dict.fromkeys(_ESTIMATORS, check_estimator),
    **dict.fromkeys(("Expansion", "GridExpansion", "Blend"), check_expansion),
    "FoldModels": check_fold_models,
    **dict.fromkeys(("TableClassifier", "TableRegressor"), check_table_model),
    "Reading": check_reading,
}


def find(name: str) -> type | None:
    """Return the class that files know as `name`, or None if there is no such class."""
    if name in MODULES:
        found: type = getattr(import_module(MODULES[name]), name)
        return found
    classes = (*registered().values(), *import_module("onefold.tables.kinds").KINDS)
    return {cls.__name__: cls for cls in classes}.get(name)


def name_of(value: object) -> str | None:
    """Return the name of the value's class in files; None for a class (or subclass) not listed."""
    name = type(value).__name__
    return name if find(name) is type(value) else None


def check(value: Any) -> None:
    """Raise BadContent unless the instance of a class in files can be used."""
    name = type(value).__name__
    try:
        if name in _CHECKS:
            _CHECKS[name](value)
    except BadContent:
        raise
    except NONSENSE as error:
        raise BadContent(f"its {name} is not valid ({error!s:.200})") from error
