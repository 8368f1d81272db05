"""R(μ) of multilevel circulant matrices, by FFT."""

from onefold.smoothers.circulant.smoother import CirculantSmoother, CirculantSpectrum, Negative

__all__ = ["CirculantSmoother", "CirculantSpectrum", "Negative"]
