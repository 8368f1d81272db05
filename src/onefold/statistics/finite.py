"""Kernel values that are numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.linalg import namespace
from onefold.smoothers.base import UnsolvableError


def finite_kernel(values: Any) -> Any:
    """The values, or several arrays of them, if all are finite; raise before they spoil what follows."""
    arrays = values if isinstance(values, list) else [values]
    # A sum passes on what is not finite, without a second array.
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(sum(namespace(array).sum(array) for array in arrays))
    if not np.isfinite(total):
        raise UnsolvableError(
            "the kernel has NaN or infinite values on these rows; scale the features, or check the "
            "kernel."
        )
    return values
