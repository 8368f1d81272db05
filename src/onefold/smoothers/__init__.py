"""Smoothers: the residual operator R(μ) of a structured n × n matrix, for every μ."""

from onefold.smoothers.base import Smoother
from onefold.smoothers.cholesky import CholeskySmoother
from onefold.smoothers.circulant import CirculantSmoother, CirculantSpectrum
from onefold.smoothers.dense import DenseSmoother
from onefold.smoothers.spectral import SpectralSmoother, ThinSmoother
