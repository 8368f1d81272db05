"""The classes that a model file may name, and nothing else.

A file names a class by its bare name; only names found here, and registered approximations, are ever
built, so a file cannot reach any other code. The package's own classes are imported when they are first
asked for, which keeps this module free of import cycles.
"""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import TypeVar

from sklearn.base import BaseEstimator

from onefold.approximations import registered

Class = TypeVar("Class", bound=type)

_MODULE_NAMES: dict[str, tuple[str, ...]] = {
    "onefold.kernels": (
        "RBF",
        "Laplacian",
        "Matern",
        "Metric",
        "Polynomial",
        "Linear",
        "Precomputed",
        "Sum",
        "Product",
    ),
    "onefold.expansions": ("Expansion", "GridExpansion"),
    "onefold.estimators": (
        "LSSVC",
        "LSSVR",
        "KernelRidge",
        "LSSVCCV",
        "LSSVRCV",
        "KernelRidgeCV",
        "SparseLSSVC",
        "SparseLSSVR",
    ),
}
_MODULE_NAMES |= {
    "sklearn.preprocessing": (
        "Binarizer",
        "FunctionTransformer",
        "MaxAbsScaler",
        "MinMaxScaler",
        "Normalizer",
        "OneHotEncoder",
        "OrdinalEncoder",
        "PolynomialFeatures",
        "PowerTransformer",
        "QuantileTransformer",
        "RobustScaler",
        "StandardScaler",
    ),
    "sklearn.impute": ("KNNImputer", "MissingIndicator", "SimpleImputer"),
    "sklearn.compose": ("ColumnTransformer", "TransformedTargetRegressor"),
    "sklearn.decomposition": ("PCA", "TruncatedSVD"),
    "sklearn.feature_selection": ("VarianceThreshold",),
    "sklearn.pipeline": ("FeatureUnion", "Pipeline"),
}
ESTIMATORS = _MODULE_NAMES["onefold.estimators"]
_BUILT_IN = {name: module for module, names in _MODULE_NAMES.items() for name in names}
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
    known = _approximations().get(cls.__name__) or _REGISTERED.get(cls.__name__)
    if cls.__name__ in _BUILT_IN or known not in (None, cls):
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
