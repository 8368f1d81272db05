"""Estimators: the scikit-learn interface."""

from onefold.estimators.cv import LSSVCCV, LSSVRCV, KernelRidgeCV
from onefold.estimators.fixed import LSSVC, LSSVR, KernelRidge
from onefold.estimators.objective import Objective
from onefold.estimators.sparse import SparseLSSVC, SparseLSSVR

__all__ = [
    "LSSVC",
    "LSSVCCV",
    "LSSVR",
    "LSSVRCV",
    "KernelRidge",
    "KernelRidgeCV",
    "Objective",
    "SparseLSSVC",
    "SparseLSSVR",
]
