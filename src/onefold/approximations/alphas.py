"""One ridge for all targets, or one for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.linalg import Array, namespace


@dataclass(frozen=True)
class TargetRidges:
    """The μ of each target, and what has to be solved for them.

    Attributes
    ----------
    each : NumPy array (targets,)
    distinct : NumPy array (μ,)
        Every μ once.
    which : NumPy array (targets,)
        The position of each target's μ among them.
    """

    each: Any
    distinct: Any
    which: Any

    def own(self, solutions: Array) -> Array:
        """Solutions (μ, …, targets), each target with the μ of its own: (…, targets)."""
        columns = [solutions[int(i), ..., t] for t, i in enumerate(self.which)]
        return namespace(solutions).stack(columns, axis=-1)


def target_ridges(alpha: Any, targets: int) -> TargetRidges:
    """The ridges behind one μ, or one per target."""
    each = np.broadcast_to(np.asarray(alpha, dtype=np.float64).reshape(-1), targets)
    distinct, which = np.unique(each, return_inverse=True)
    return TargetRidges(each, distinct, which)
