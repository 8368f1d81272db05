"""Calibration: from held-out decision values to probabilities."""

from onefold.calibration.base import Calibrator
from onefold.calibration.crossfitting import CalibrationFolds
from onefold.calibration.fitting import CALIBRATIONS, check_calibration, fit_calibrator, fit_calibrators
from onefold.calibration.isotonic import Isotonic
from onefold.calibration.sigmoid import Sigmoid
from onefold.calibration.temperature import Temperature

__all__ = [
    "CALIBRATIONS",
    "CalibrationFolds",
    "Calibrator",
    "Isotonic",
    "Sigmoid",
    "Temperature",
    "check_calibration",
    "fit_calibrator",
    "fit_calibrators",
]
