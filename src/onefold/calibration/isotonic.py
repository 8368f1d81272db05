r"""A rising staircase for each class against the rest, linear between its corners.

    min Σ_i v_i (1[y_i = k] − g(f_i))²   over all non-decreasing g

by scikit-learn's pool-adjacent-violators, O(n log n). Beyond the values seen it is constant. The choice
for some thousand rows and more: with few it repeats their luck, and says 0 and 1 where it saw no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.isotonic import IsotonicRegression

from onefold.calibration.base import Calibrator, in_units, is_class, one_against_rest, typical_size


@dataclass(frozen=True, eq=False)
class Isotonic(Calibrator):
    """A staircase for each column, divided by their sum for more than two classes.

    Attributes
    ----------
    inputs, outputs : tuples of t arrays
        The corners of each column: increasing decision values, and probabilities that do not fall.
    """

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]

    name = "isotonic"

    def __post_init__(self) -> None:
        known = isinstance(self.inputs, tuple) and isinstance(self.outputs, tuple)
        if not known or len(self.inputs) != len(self.outputs) or len(self.inputs) in (0, 2):
            raise ValueError("inputs and outputs must be tuples of one length, 1 or 3 and more.")
        for x, p in zip(self.inputs, self.outputs):
            arrays = all(isinstance(a, np.ndarray) and a.dtype == float and a.ndim == 1 for a in (x, p))
            if not arrays or x.shape != p.shape or not x.size or not np.isfinite(x).all():
                raise ValueError("the corners of a staircase must be two arrays of finite numbers.")
            if not (np.all(np.diff(x) > 0) and np.all(np.diff(p) >= 0) and p[0] >= 0 and p[-1] <= 1):
                raise ValueError("the corners of a staircase must rise, and lie between 0 and 1.")

    @property
    def columns(self) -> int:
        return len(self.inputs)

    @classmethod
    def fitted(cls, decision: Any, index: Any, weight: Any) -> list[Self]:
        positive = is_class(index, decision.shape[2]).astype(np.float64)
        found = []
        for values in decision:
            stairs = [_staircase(*pair, weight) for pair in zip(values.T, positive.T)]
            found.append(cls(tuple(x for x, _ in stairs), tuple(p for _, p in stairs)))
        return found

    def probabilities(self, decision: Any) -> Any:
        corners = zip(decision.T, self.inputs, self.outputs)
        shares = [np.interp(column, x, p) for column, x, p in corners]
        return one_against_rest(np.stack(shares, axis=1))


def _staircase(values: Any, truth: Any, weight: Any) -> tuple[Any, Any]:
    """The corners of one column; in units of a power of 2: scikit-learn joins values within 1e-15."""
    unit = np.exp2(np.round(np.log2(typical_size(values[None]))))
    scaled = in_units(values[None], unit)[0]
    stairs = IsotonicRegression(out_of_bounds="clip").fit(scaled, truth, sample_weight=weight)
    return stairs.X_thresholds_ * unit[0], np.clip(stairs.y_thresholds_, 0.0, 1.0)
