"""Basis models: landmarks, the statistics that a pass over row blocks leaves, ridge paths, pruning."""

from onefold.basis.design import Design, finite_kernel
from onefold.basis.landmarks import BASES, Basis, given_rows, metric_of
from onefold.basis.ridge import FoldPaths, RidgePath, Solution, flat, mapped, predictions_of
from onefold.basis.statistics import Statistics, collect, features_of, holds_groups, predict_groups
from onefold.basis.whitening import Whitening
