"""Estimators: the scikit-learn interface."""

from onefold.estimators.cv import LSSVCCV, LSSVRCV, KernelRidgeCV, Objective
from onefold.estimators.fixed import LSSVC, LSSVR, KernelRidge
from onefold.estimators.sparse import SparseLSSVC, SparseLSSVR
