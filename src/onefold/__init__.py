"""Least-squares kernel machines that choose their own hyper-parameters.

Every fold of cross-validation, and every ridge value, comes from one factorisation.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from onefold._version import __version__

if TYPE_CHECKING:
    from onefold.estimators import (
        LSSVC,
        LSSVCCV,
        LSSVR,
        LSSVRCV,
        KernelRidge,
        KernelRidgeCV,
        SparseLSSVC,
        SparseLSSVR,
    )
    from onefold.estimators.setup import plan
    from onefold.report import write_report
    from onefold.rows.dask import open_parquet
    from onefold.saving import load, save
    from onefold.tables import TableClassifier, TablePreparation, TableRegressor
    from onefold.trust_check import trust

__all__ = [
    "LSSVC",
    "LSSVCCV",
    "LSSVR",
    "LSSVRCV",
    "KernelRidge",
    "KernelRidgeCV",
    "SparseLSSVC",
    "SparseLSSVR",
    "TableClassifier",
    "TablePreparation",
    "TableRegressor",
    "__version__",
    "load",
    "open_parquet",
    "plan",
    "save",
    "trust",
    "write_report",
]

# Importing onefold costs nothing until one of its names is used.
_HOME = dict.fromkeys(__all__, "onefold.estimators") | {
    "load": "onefold.saving",
    "open_parquet": "onefold.rows.dask",
    "plan": "onefold.estimators.setup",
    "save": "onefold.saving",
    "TableClassifier": "onefold.tables",
    "TablePreparation": "onefold.tables",
    "TableRegressor": "onefold.tables",
    "trust": "onefold.trust_check",
    "write_report": "onefold.report",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'onefold' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
