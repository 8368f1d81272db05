"""The recursion of :mod:`onefold.kernels.line`, compiled by Numba; imported only where that is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onefold.linalg.compiled import compiled


@compiled()
def fill_moments(steps: Any, coef: Any, moments: Any) -> None:
    """(1) of :mod:`onefold.kernels.line` at every point, by (2), into `moments` (n, p)."""
    n, p = moments.shape
    carried = np.zeros(3)
    for i in range(n):
        if i > 0:
            step = steps[i - 1]
            decay = math.exp(-step)
            carried[2] = decay * (carried[2] + step * (2.0 * carried[1] + step * carried[0]))
            carried[1] = decay * (carried[1] + step * carried[0])
            carried[0] = decay * carried[0]
        carried[0] += coef[i]
        for k in range(p):
            moments[i, k] = carried[k]
