"""Basis models: landmarks, the statistics that a pass over row blocks leaves, ridge paths, pruning."""

from onefold.basis.coefficients import Coefficients, as_columns, mapped, predictions_of
from onefold.basis.landmarks import BASES, Basis, clustering_metric, given_rows
from onefold.basis.ridge import RidgePath
from onefold.basis.statistics import Design, Statistics, collect, predict_groups
from onefold.basis.whitening import Whitening
