"""R(μ) of a symmetric Toeplitz matrix: O(n) memory, O(n log n) per iteration."""

from onefold.smoothers.toeplitz.smoother import ToeplitzSmoother

__all__ = ["ToeplitzSmoother"]
