"""The kernel matrix itself: dense, n × n, no approximation."""

from onefold.approximations.exact.model import ExactModel
from onefold.approximations.exact.settings import Exact

__all__ = ["Exact", "ExactModel"]
