"""Uncertainty from held-out predictions, which come in as plain arrays: probabilities, intervals."""

from onefold.calibration.intervals import ConformalIntervals, check_intervals
from onefold.calibration.probabilities import (
    CALIBRATIONS,
    Calibrator,
    Isotonic,
    LogOdds,
    Sigmoid,
    Temperature,
    calibration_parts,
    check_calibration,
    crossfitted,
    fit_calibrator,
    is_class,
)
