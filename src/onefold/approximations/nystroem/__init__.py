"""Basis models: landmarks carry the expansion, all rows stay in the loss."""

from onefold.approximations.nystroem.settings import Nystroem

__all__ = ["Nystroem"]
