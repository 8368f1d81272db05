"""R(μ) of multilevel circulant matrices, by FFT."""

from onefold.smoothers.circulant.smoother import CirculantSmoother
from onefold.smoothers.circulant.spectrum import CirculantSpectrum, Negative

__all__ = ["CirculantSmoother", "CirculantSpectrum", "Negative"]
