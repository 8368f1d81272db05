"""A Toeplitz matrix in place of the kernel matrix (decherchi2010)."""

from onefold.approximations.toeplitz.model import Toeplitz

__all__ = ["Toeplitz"]
