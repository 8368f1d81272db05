"""Uncertainty from held-out predictions, which come in as plain arrays: probabilities, intervals."""

from onefold.calibration.intervals import ConformalIntervals
from onefold.calibration.probabilities import (
    CALIBRATIONS,
    CalibrationFolds,
    Calibrator,
    Isotonic,
    Sigmoid,
    Temperature,
    check_calibration,
    fit_calibrator,
    is_class,
)
