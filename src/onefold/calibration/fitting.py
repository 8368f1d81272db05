"""A calibrator by its name, from the held-out decision values of rows whose labels are known."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.calibration.base import Calibrator
from onefold.calibration.isotonic import Isotonic
from onefold.calibration.sigmoid import Sigmoid
from onefold.calibration.temperature import Temperature

CALIBRATIONS: dict[str, type[Calibrator]] = {
    kind.name: kind for kind in (Temperature, Sigmoid, Isotonic)
}


def check_calibration(name: Any) -> None:
    """Raise unless `name` is that of a calibration."""
    if not (isinstance(name, str) and name in CALIBRATIONS):
        names = ", ".join(f'"{known}"' for known in CALIBRATIONS)
        raise ValueError(f"calibration must be {names}, or None for no probabilities; got {name!r:.60}.")


def fit_calibrator(name: str, decision: Any, index: Any, weight: Any = None) -> Calibrator:
    """Fit a calibrator.

    What ``CalibratedClassifierCV(ensemble=False)`` fits on the same numbers; weights whose mean is
    below 1 count as if it were 1, so that those which add up to 1 do not stand for a single row.

    Parameters
    ----------
    name : {"temperature", "sigmoid", "isotonic"}
    decision : array (rows, t)
        Held-out decision values; one column for two classes, otherwise one for each class.
    index : int array (rows,)
        Position of each row's label among the sorted classes.
    weight : array (rows,), optional
        Not negative; rows of weight 0 have no say.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.calibration import fit_calibrator
    >>> decision = np.array([[-1.0], [-0.5], [0.2], [-0.1], [0.7]])
    >>> found = fit_calibrator("temperature", decision, np.array([0, 0, 0, 1, 1]))
    >>> found.probabilities(np.array([[0.0]]))
    array([[0.5, 0.5]])
    """
    return fit_calibrators(name, np.asarray(decision)[None], index, weight)[0]


def fit_calibrators(name: str, decision: Any, index: Any, weight: Any = None) -> list[Calibrator]:
    """The same for decision values (models, rows, t) of several models."""
    check_calibration(name)
    decision, index = np.asarray(decision, dtype=np.float64), np.asarray(index)
    if decision.ndim != 3 or index.shape != decision.shape[1:2] or index.dtype.kind not in "iu":
        raise ValueError(
            f"decision values must be (rows, t) and index (rows,) whole numbers; got "
            f"{decision.shape[1:]} and {index.shape} of {index.dtype}."
        )
    weight = np.ones(index.size) if weight is None else np.asarray(weight, dtype=np.float64)
    if weight.shape != index.shape or not np.all(np.isfinite(weight)) or np.any(weight < 0):
        raise ValueError("weight must hold a finite number for each row, none negative.")
    kept = weight > 0
    if not kept.all():
        decision, index, weight = decision[:, kept], index[kept], weight[kept]
    columns = decision.shape[2]
    classes = 2 if columns == 1 else columns
    if columns in (0, 2) or (index.size and not 0 <= index.min() <= index.max() < classes):
        raise ValueError(
            f"{columns} columns of decision values do not go with the classes of index; use one column "
            "for two classes, otherwise one for each."
        )
    if not index.size or not np.isfinite(decision).all():
        raise ValueError("a calibration needs finite decision values of at least one row with weight.")
    return list(CALIBRATIONS[name].fitted(decision, index, weight))
