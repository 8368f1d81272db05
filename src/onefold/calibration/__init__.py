"""Uncertainty from held-out predictions, which come in as plain arrays."""

from onefold.calibration.intervals import ConformalIntervals

__all__ = ["ConformalIntervals"]
