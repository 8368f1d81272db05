"""Uncertainty from held-out predictions, which come in as plain arrays: probabilities, intervals."""

from onefold.calibration.base import Calibrator
from onefold.calibration.crossfitting import CalibrationFolds
from onefold.calibration.fitting import CALIBRATIONS, check_calibration, fit_calibrator, fit_calibrators
from onefold.calibration.intervals import ConformalIntervals
from onefold.calibration.isotonic import Isotonic
from onefold.calibration.sigmoid import Sigmoid
from onefold.calibration.temperature import Temperature

__all__ = [
    "CALIBRATIONS",
    "CalibrationFolds",
    "Calibrator",
    "ConformalIntervals",
    "Isotonic",
    "Sigmoid",
    "Temperature",
    "check_calibration",
    "fit_calibrator",
    "fit_calibrators",
]
